//! Refusals by the machine: every command reports them with the line that `doctor` prints, and no
//! library's panic reaches the user.
#![expect(unsafe_code, reason = "a filter of system calls is for the child alone")]

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::{BINARY, NO_CACHE, Target, binary, bounded, signal};

/// Makes the kernel refuse `io_uring_setup` to the command's process, as container runtimes do.
fn without_io_uring(command: &mut Command) -> &mut Command {
    without(command, libc::SYS_io_uring_setup, None)
}

/// Makes the kernel refuse stamps of what the command's process sends and receives.
fn without_stamps(command: &mut Command) -> &mut Command {
    without(command, libc::SYS_setsockopt, Some(libc::SO_TIMESTAMPING.cast_unsigned()))
}

/// Makes the kernel refuse a system call, if it has this third argument, to the command's process.
fn without(command: &mut Command, call: libc::c_long, third: Option<u32>) -> &mut Command {
    /// The position of the third argument in a filter's data.
    const THIRD_AT: u32 = 32;
    let call = u32::try_from(call).expect("a number of a system call");
    // Without such an argument, the number of the system call is compared twice.
    let (at, value) = third.map_or((0, call), |third| (THIRD_AT, third));
    let block = move || {
        const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
        const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
        let word = |code: u32| u16::try_from(code).expect("16 bits");
        let load = word(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS);
        let compare = word(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K);
        let give = word(libc::BPF_RET | libc::BPF_K);
        let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
        // The number of the system call comes first in a filter's data.
        let mut steps = [
            step(load, 0, 0, 0),
            step(compare, 0, 3, call),
            step(load, 0, 0, at),
            step(compare, 0, 1, value),
            step(give, 0, 0, REFUSE),
            step(give, 0, 0, ALLOW),
        ];
        let program = libc::sock_fprog { len: 6, filter: steps.as_mut_ptr() };
        // SAFETY: both calls take numbers and a pointer to the program, which lives in this frame.
        let set = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
                    == 0
        };
        if set { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: between fork and exec it only makes system calls, and allocates nothing.
    unsafe { command.pre_exec(block) }
}

/// A command in which /sys is empty.
fn without_sys() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c"]);
    command.args(["mount -t tmpfs none /sys && exec \"$0\" \"$@\"", BINARY]).envs(NO_CACHE);
    command
}

/// A copy of the binary that every user may run: they can't enter its build folder.
struct Copy(tempfile::TempDir);

impl Copy {
    fn new() -> Copy {
        let folder = tempfile::tempdir().expect("a folder");
        let all = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o777));
        all(folder.path()).expect("it is ours");
        fs::copy(BINARY, folder.path().join("truetail")).expect("copied");
        Copy(folder)
    }

    /// A command of a user without any other process, limited to this many threads.
    fn with_threads(&self, threads: u32) -> Command {
        /// A user without processes.
        const USER: u32 = 54_323;
        let mut command = Command::new("prlimit");
        command.arg(format!("--nproc={threads}")).arg(self.0.path().join("truetail"));
        command.uid(USER).gid(USER).current_dir(self.0.path()).envs(NO_CACHE);
        command
    }
}

/// The end of a command that is interrupted as soon as it serves.
fn end(command: &mut Command) -> Output {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut stdout = child.stdout.take().expect("it is piped");
    let mut said = Vec::new();
    let mut byte = [0];
    while stdout.read(&mut byte).expect("text") == 1 {
        said.push(byte[0]);
        if byte == *b"\n" && said.starts_with(b"listening") {
            signal(&child, "INT");
            break;
        }
    }
    let mut output = bounded(child);
    stdout.read_to_end(&mut said).expect("text");
    output.stdout = said;
    output
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

/// The commands that need rings and threads; `run` loads this URL.
fn commands(url: &str) -> [Vec<String>; 4] {
    let words = |line: String| line.split_whitespace().map(str::to_owned).collect();
    [
        format!("run {url} --rate 100 --duration 100ms --warmup 0s --allow-invalid --quiet"),
        "target --listen 127.0.0.1:0".to_owned(),
        "null-target --listen 127.0.0.1:0".to_owned(),
        "demo --duration 100ms --quiet".to_owned(),
    ]
    .map(words)
}

/// Asserts that a command refused with one line that begins like this.
fn assert_refused(command: &[String], output: &Output, start: &str) {
    let line = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{command:?}: {line}");
    assert!(line.starts_with(&format!("truetail: {start}")), "{command:?}: {line}");
    assert_eq!(line.lines().count(), 1, "{command:?}: {line}");
    assert!(!line.contains("panicked"), "{command:?}: {line}");
}

/// The part of `doctor`'s output about one check, and its exit code.
fn doctor(command: &mut Command) -> (String, Option<i32>) {
    let output = end(command.arg("doctor"));
    assert_eq!(stderr(&output), "");
    (String::from_utf8(output.stdout).expect("text"), output.status.code())
}

#[test]
fn a_blocked_io_uring_is_refused_alike_by_every_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&[]);
    let command = || {
        let mut command = binary();
        without_io_uring(command.current_dir(folder.path()));
        command
    };
    for args in commands(&target.url) {
        let output = end(command().args(&args));
        assert_refused(&args, &output, "io_uring: refused (Operation not permitted");
        assert!(stderr(&output).contains("seccomp"), "{args:?}: {}", stderr(&output));
    }
    let (said, code) = doctor(&mut command());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("missing  io_uring ") && said.contains("seccomp"), "{said}");
    target.interrupt();
}

#[test]
fn without_kernel_stamps_a_run_goes_on_with_a_note_unless_it_asked_for_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&[]);
    let run = |more: &[&str]| {
        let mut command = binary();
        command.current_dir(folder.path()).args(["run", &target.url, "--conns", "20"]);
        command.args(["--duration", "200ms", "--warmup", "0s", "--out", "report.json"]);
        end(without_stamps(command.args(["--allow-invalid"]).args(more)))
    };
    let refused = "refused (Operation not permitted";
    for (more, why) in [(&[][..], refused), (&["--stamps", "user"], "--stamps user")] {
        let output = run(more);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let report = fs::read_to_string(folder.path().join("report.json")).expect("a report");
        let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
        assert_eq!(report["stamps"]["source"], "user", "{more:?}");
        assert_eq!(report["environment"]["unstamped"].is_string(), more.is_empty());
        let connected = &report["counts"]["connection_errors"];
        assert_eq!(connected.as_object().map(serde_json::Map::len), Some(0), "{connected}");
        let reasons = report["verdict"]["reasons"].as_array().expect("reasons");
        let share = reasons.iter().find(|reason| reason["code"] == "client_share");
        let evidence = share.and_then(|reason| reason["evidence"].as_str()).expect("words");
        assert!(evidence.contains(why), "{evidence}");
    }
    for (more, name) in [(["--stamps", "kernel"], "receive"), (["--stamp-sends", "1/9"], "send")] {
        let args: Vec<String> = more.iter().map(|word| (*word).to_owned()).collect();
        assert_refused(&args, &run(&more), &format!("{name} stamps: {refused}"));
    }
    let mut command = binary();
    let (said, code) = doctor(without_stamps(command.current_dir(folder.path())));
    assert_eq!(code, Some(0), "{said}");
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for name in ["receive", "send"] {
        assert!(words.contains(&format!("warning {name} stamps {refused}")), "{said}");
    }
    target.interrupt();
}

#[test]
fn without_sys_every_command_refuses_alike_or_needs_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(&[]);
    for args in commands(&target.url) {
        let output = end(without_sys().args(&args).current_dir(folder.path()));
        if args[0] == "null-target" {
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        } else {
            assert_refused(&args, &output, "core topology: unknown (No such file");
        }
    }
    // Also on a core that isn't the first: the allowed cores are known without /sys.
    let (said, code) = doctor(without_sys().current_dir(folder.path()));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("missing  core topology ") && said.contains("mount"), "{said}");
    target.interrupt();
}

#[test]
fn whatever_the_limit_of_threads_a_command_works_or_refuses_in_one_line() {
    if !rustix::process::geteuid().is_root() {
        return; // Only root can become another user, and the own user has other processes.
    }
    let copy = Copy::new();
    let target = Target::start(&[]);
    let mut ended = [(0, 0); 4];
    for threads in 1..=9 {
        for (args, (refused, worked)) in commands(&target.url).iter().zip(&mut ended) {
            let output = end(copy.with_threads(threads).args(args));
            if output.status.code() == Some(0) {
                *worked += 1;
                assert_eq!(stderr(&output), "", "{threads} threads: {args:?}");
            } else {
                *refused += 1;
                assert_refused(args, &output, "threads: refused (Resource temporarily");
            }
        }
        let (said, code) = doctor(&mut copy.with_threads(threads));
        assert_eq!(code == Some(1), said.contains("missing  threads "), "{threads}: {said}");
    }
    assert!(ended.iter().all(|(refused, worked)| 0 < *refused && 0 < *worked), "{ended:?}");
    target.interrupt();
}
