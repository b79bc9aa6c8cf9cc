//! The files of `deploy/` agree with the binary and with each other; the Makefile names missing
//! build tools.
//!
//! `deploy/seccomp.json` is a whole profile, not a difference, since Kubernetes adds nothing to a
//! runtime's own: Docker 20.10.24's for a container without capabilities, which had io_uring, with
//! the socket families that Docker allows today. Its conditions are resolved, because containerd
//! silently ignores those in Docker's format.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::support::{BINARY, binary, said};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

fn text(name: &str) -> String {
    let file = folder().join(name);
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The Kubernetes object of this kind and name.
fn object(kind: &str, name: &str) -> Value {
    let manifests = text("kubernetes.yaml");
    let objects = serde_norway::Deserializer::from_str(&manifests);
    let objects: Vec<Value> =
        objects.map(|object| Value::deserialize(object).expect("YAML")).collect();
    assert_eq!(objects.len(), 3);
    let mut objects = objects.into_iter();
    let found = objects.find(|it| it["kind"] == kind && it["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}"))
}

/// The job of the agents, and that of the controller.
fn jobs() -> [Value; 2] {
    ["truetail-agent", "truetail-controller"].map(|name| object("Job", name))
}

/// The pod that an object makes.
fn pod(object: &Value) -> &Value {
    &object["spec"]["template"]["spec"]
}

/// The one container of a pod.
fn container(pod: &Value) -> &Value {
    let containers = pod["containers"].as_array().expect("a list");
    assert_eq!(containers.len(), 1);
    &containers[0]
}

fn args(container: &Value) -> Vec<String> {
    let args = container["args"].as_array().expect("a list");
    args.iter().map(|arg| arg.as_str().expect("text").to_owned()).collect()
}

/// The value of a flag that is given as `--flag=value`.
fn flag<'a>(args: &'a [String], name: &str) -> &'a str {
    let value = args.iter().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('='));
    value.unwrap_or_else(|| panic!("no {name} in {args:?}"))
}

/// The words after the binary with which the unit starts its agent, and those of its example of the
/// operator's flags.
fn unit_args() -> (Vec<String>, Vec<String>) {
    let unit = text("truetail-agent.service").replace("\\\n", " ");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart="));
    let start = start.and_then(|line| line.strip_prefix("/usr/local/bin/truetail "));
    let mut start = words(start.expect("the binary's place"));
    assert_eq!(start.pop().as_deref(), Some("$TRUETAIL_AGENT_FLAGS"), "it stands last");
    let example = unit.lines().find_map(|line| line.strip_prefix("#   TRUETAIL_AGENT_FLAGS="));
    (start, words(example.expect("an example")))
}

/// Checks that the binary's parser accepts this command line; nothing is started.
fn is_accepted(args: &[String]) -> Result<(), String> {
    // Everything before --help is parsed before it.
    let output = binary().args(args).arg("--help").output().expect("the binary runs");
    if output.status.success() { Ok(()) } else { Err(said(&output)) }
}

#[test]
fn a_stop_that_cuts_a_run_short_does_not_fail_the_unit() {
    let unit = text("truetail-agent.service");
    assert!(unit.lines().any(|line| line == "SuccessExitStatus=130"), "what an agent exits with");
}

#[test]
fn the_binary_accepts_every_command_line() {
    let (start, example) = unit_args();
    let [agents, controller] = jobs().map(|job| args(container(pod(&job))));
    for args in [agents, controller, [start, example].concat()] {
        assert_eq!(is_accepted(&args), Ok(()), "{args:?}");
        let wrong = [&args[..], &["--no-such-flag".to_owned()]].concat();
        assert!(is_accepted(&wrong).is_err(), "{wrong:?}");
        let wrong = [&args[..], &["--key-file".to_owned(), String::new()]].concat();
        assert!(is_accepted(&wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn controller_service_and_agents_mean_the_same_name_port_and_key() {
    let service = object("Service", "truetail-agent");
    let [agents, job] = jobs();
    let (agent, controller) = (container(pod(&agents)), container(pod(&job)));
    let (agent_args, controller_args) = (args(agent), args(controller));
    assert_eq!(agent_args[0], "agent");
    assert_eq!(controller_args[0], "controller");

    // The name, and the service that it resolves to.
    let name = service["metadata"]["name"].as_str().expect("text");
    let namespace = service["metadata"]["namespace"].as_str().expect("text");
    assert_eq!(service["spec"]["clusterIP"], "None", "headless");
    for object in [&agents, &job] {
        assert_eq!(object["metadata"]["namespace"], namespace);
    }
    let labels = &agents["spec"]["template"]["metadata"]["labels"];
    assert_eq!(&service["spec"]["selector"], labels);
    let port = &service["spec"]["ports"][0];
    let agents_dns = format!("{name}:{}", port["port"]);
    assert_eq!(flag(&controller_args, "--agents-dns"), agents_dns);

    // All agents at once, each for one run.
    assert_eq!(agents["spec"]["completionMode"], "Indexed");
    for number in ["completions", "parallelism"] {
        assert_eq!(flag(&controller_args, "--expect"), agents["spec"][number].to_string());
    }
    assert!(agent_args.contains(&"--once".to_owned()), "or its pod would go on");
    assert_eq!(port["targetPort"], agent["ports"][0]["name"]);
    let listen: std::net::SocketAddr = flag(&agent_args, "--listen").parse().expect("an address");
    assert_eq!(agent["ports"][0]["containerPort"], listen.port());
    assert_eq!(port["port"], listen.port(), "a headless name has the pods' own ports");
    let allowed = flag(&agent_args, "--allow-target");
    assert!(controller_args.contains(&format!("http://{allowed}/")), "{controller_args:?}");

    // The key, and its path.
    assert_eq!(pod(&agents)["volumes"][0], pod(&job)["volumes"][0], "the same secret");
    let secret = &pod(&agents)["volumes"][0];
    assert!(secret["secret"]["secretName"].is_string());
    for (container, args) in [(agent, &agent_args), (controller, &controller_args)] {
        assert_eq!(container["image"], agent["image"]);
        let mounts = container["volumeMounts"].as_array().expect("a list");
        let mount = mounts.iter().find(|mount| mount["name"] == secret["name"]);
        let mount = mount.expect("a mount");
        assert_eq!(mount["readOnly"], true);
        let place = mount["mountPath"].as_str().expect("text");
        assert_eq!(flag(args, "--key-file"), format!("{place}/key"), "--from-file=key");
    }

    // The rest of an image is read-only.
    let report = Path::new(flag(&controller_args, "--out"));
    let state = Path::new(flag(&agent_args, "--state-dir"));
    for (container, folder) in [(agent, Some(state)), (controller, report.parent())] {
        let folder = folder.and_then(Path::to_str).expect("a folder");
        let mounts = container["volumeMounts"].as_array().expect("a list");
        assert!(mounts.iter().any(|mount| mount["mountPath"] == folder), "{folder}");
    }
}

#[test]
fn pods_have_whole_cores_and_no_rights() {
    for job in jobs() {
        let name = &job["metadata"]["name"];
        let (pod, container) = (pod(&job), container(pod(&job)));
        // Guaranteed: the static CPU manager gives such pods cores of their own.
        let resources = &container["resources"];
        assert_eq!(resources["requests"], resources["limits"], "{name}");
        let cores = resources["limits"]["cpu"].as_str().expect("text").parse::<u32>();
        assert!(cores.is_ok_and(|cores| 0 < cores), "{name}: {resources}");
        assert!(resources["limits"]["memory"].is_string(), "{name}: {resources}");
        assert_eq!(pod["automountServiceAccountToken"], false, "{name}");
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "{name}");
        assert_eq!(
            container["securityContext"],
            json!({
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": { "drop": ["ALL"] },
            }),
            "{name}"
        );
        let seccomp = json!({ "type": "Localhost", "localhostProfile": "truetail.json" });
        assert_eq!(pod["securityContext"]["seccompProfile"], seccomp, "{name}");
    }
    let place = "deploy/seccomp.json /var/lib/kubelet/seccomp/truetail.json";
    assert!(text("kubernetes.yaml").contains(place));
}

#[test]
fn the_seccomp_profile_is_a_list_of_allowed_calls_with_those_of_io_uring() {
    let profile: Value = serde_json::from_str(&text("seccomp.json")).expect("JSON");
    assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
    assert_eq!(profile["architectures"], json!(["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"]));
    let mut allowed = BTreeSet::new();
    for rule in profile["syscalls"].as_array().expect("a list") {
        // Keys that only Docker knows, which other runtimes skip silently.
        for key in rule.as_object().expect("an object").keys() {
            assert!(["names", "action", "errnoRet", "args"].contains(&key.as_str()), "{key}");
        }
        if rule["action"] == "SCMP_ACT_ALLOW" {
            let names = rule["names"].as_array().expect("a list");
            allowed.extend(names.iter().map(|name| name.as_str().expect("text")));
        }
    }
    for call in ["io_uring_setup", "io_uring_enter", "io_uring_register"] {
        assert!(allowed.contains(call), "{call}");
    }
    for call in ["mount", "unshare", "setns", "bpf", "init_module", "reboot", "perf_event_open"] {
        assert!(!allowed.contains(call), "{call}");
    }
}

#[test]
fn the_image_has_the_name_that_the_manifests_ask_for() {
    let version = binary().arg("--version").output().expect("the binary runs");
    let tag = String::from_utf8(version.stdout).expect("text").trim().replace(' ', ":");
    for job in jobs() {
        assert_eq!(container(pod(&job))["image"], tag);
    }
    assert!(text("image.sh").contains("\"$binary\" --version | tr ' ' :"));
}

#[test]
fn kustomize_takes_every_object() {
    let base = text("kustomization.yaml");
    let base: Value = serde_norway::from_str(&base).expect("YAML");
    assert_eq!(base["resources"], json!(["kubernetes.yaml"]));
}

#[test]
fn bash_and_sh_can_parse_the_scripts() {
    for name in ["gate.sh", "image.sh", "ssh.sh", "test.sh", "slurm/truetail.sbatch"] {
        let script = text(name);
        let shell = if script.starts_with("#!/bin/sh\n") { "sh" } else { "bash" };
        let output = Command::new(shell).arg("-n").arg(folder().join(name)).output();
        let output = output.expect("the shell runs");
        assert!(output.status.success(), "{name}: {}", said(&output));
    }
}

#[test]
fn systemd_accepts_the_unit() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        println!("Skipped: systemd-analyze is not installed.");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let name = "truetail-agent.service";
    let verify = |unit: String| {
        fs::write(folder.path().join(name), unit).expect("written");
        let mut verify = Command::new("systemd-analyze");
        let output = verify.arg("verify").arg(folder.path().join(name)).output().expect("it runs");
        // An unknown directive is only a warning.
        (output.status.success(), String::from_utf8(output.stderr).expect("text"))
    };
    let unit = text(name).replace("/usr/local/bin/truetail", BINARY);
    assert_eq!(verify(unit.clone()), (true, String::new()));
    let (_, warning) = verify(unit.replace("LimitMEMLOCK", "LimitMemory"));
    assert!(warning.contains("LimitMemory"), "{warning}");
}

#[test]
fn a_missing_build_tool_is_reported_with_the_line_that_installs_it() {
    let path = std::env::var_os("PATH").expect("a path");
    let make = std::env::split_paths(&path).map(|folder| folder.join("make"));
    let make = make.into_iter().find(|file| file.exists()).expect("make");
    let nothing = tempfile::tempdir().expect("a folder");
    let with = |path: &Path| {
        let mut command = Command::new(&make);
        command.args(["--no-print-directory", "tools"]).env("PATH", path);
        command.current_dir(folder().join("..")).output().expect("it runs")
    };
    let output = with(nothing.path());
    assert!(!output.status.success());
    let said = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("cargo is missing. Install Rust: curl "), "{said}");
    assert!(lines[1].starts_with("gcc is missing. Install it: apt-get install gcc "), "{said}");
    let output = with(Path::new(&path));
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
}
