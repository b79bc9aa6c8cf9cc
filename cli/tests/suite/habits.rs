//! Habits of other load generators' users: short flags, a number of requests, results on standard
//! output, bodies from standard input, redirects, and the address to connect to.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::process::{Output, Stdio};
use std::thread;

use engine::sys::placement;
use serde_json::Value;

use crate::support::{Target, binary, document, said};

/// Runs a line, with any verdict, and returns its output.
fn run(args: &[&str]) -> Output {
    let output = binary().args(args).arg("--allow-invalid").output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", said(&output));
    output
}

/// The report that a run printed.
fn printed(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(output)))
}

/// Asserts that a report verifies.
fn verified(report: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("report.json");
    std::fs::write(&path, report).expect("written");
    let verify = |path: &std::path::Path| {
        let output = binary().args(["verify", "-q"]).arg(path).output().expect("the binary runs");
        (output.status.code(), said(&output))
    };
    assert_eq!(verify(&path), (Some(0), String::new()));
    let mut changed = document(&path);
    changed["config"]["requests"] = 5.into();
    std::fs::write(&path, changed.to_string()).expect("written");
    let (code, message) = verify(&path);
    assert_eq!(code, Some(1), "{message}");
    assert!(message.starts_with("DIFFERS  intended of --requests"), "{message}");
    assert!(message.lines().all(|line| line.starts_with("DIFFERS  ")), "{message}");
}

#[test]
fn the_target_gets_exactly_the_number_of_requests() {
    let all: Vec<String> =
        placement::allowed_cores().iter().take(4).map(ToString::to_string).collect();
    let cores = all.join(",");
    for load in [
        &["-c", "7"][..],
        &["-c", "7", "--keepalive", "off"],
        &["-c", "8", "--pipeline", "4"],
        &["-c", "1000"],
        &["-c", "9", "--cores", &cores],
        &["-R", "1000", "--cores", &cores],
        &["-R", "1000/s"],
        &["-R", "1e3", "--arrivals", "constant"],
        &["-R", "60000/m", "-c", "3"],
        &["-c", "5", "--period", "10ms"],
    ] {
        let target = Target::start(&["--base-latency", "1ms"]);
        let output = run(&[&["-n", "199", "-o", "-", "-q", &target.url], load].concat());
        let report = printed(&output);
        assert_eq!(report["counts"]["intended"], 199, "{load:?}: {}", said(&output));
        assert_eq!(report["counts"]["answered"], 199, "{load:?}: {}", said(&output));
        assert_eq!(target.received(), 199, "{load:?}");
        assert_eq!(
            (&report["config"]["requests"], &report["interrupted"]),
            (&199.into(), &false.into())
        );
        let summary = String::from_utf8_lossy(&output.stderr);
        assert!(summary.contains("199 requests in "), "{load:?}: {summary}");
        verified(&output.stdout);
    }
}

#[test]
fn with_a_warm_up_the_window_has_the_number_and_the_target_more() {
    for load in [&["-c", "4"][..], &["-R", "500"]] {
        let target = Target::start(&["--base-latency", "1ms"]);
        let line = ["-n", "100", "--warmup", "0.2", "-o", "-", &target.url];
        let output = run(&[&line, load].concat());
        assert_eq!(printed(&output)["counts"]["intended"], 100, "{load:?}: {}", said(&output));
        assert!(100 < target.received(), "{load:?}");
        verified(&output.stdout);
    }
}

#[test]
fn a_duration_that_is_over_first_ends_a_run_with_fewer_requests() {
    for load in [&["-c", "1"][..], &["-R", "100"], &["-c", "1", "--period", "10ms"]] {
        let target = Target::start(&["--base-latency", "5ms"]);
        let line = ["-n", "1000000", "-d", "0.3", "-o", "-", &target.url];
        let output = run(&[&line, load].concat());
        let report = printed(&output);
        let intended = report["counts"]["intended"].as_u64().expect("a count");
        assert!(intended < 1_000, "{load:?}: {intended}");
        let summary = String::from_utf8_lossy(&output.stderr);
        assert!(summary.contains("300ms of 1,000,000 requests"), "{load:?}: {summary}");
        verified(&output.stdout);
    }
}

#[test]
fn raw_samples_of_a_counted_run_rebuild_its_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let (report, raw) = (path("report.json"), path("raw.bin"));
    let target = Target::start(&["--base-latency", "1ms"]);
    let output = run(&["-n", "300", "-c", "6", &target.url, "-o", &report, "--raw", &raw]);
    let written = format!("\nwritten      {report}, {raw}\n");
    assert!(said(&output).contains(&written), "{}", said(&output));
    let output = binary().args(["verify", &report, "--raw", &raw]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

#[test]
fn a_result_on_standard_output_is_alone_there() {
    let target = Target::start(&["--base-latency", "1ms"]);
    let output = run(&["-n", "50", "-c", "2", &target.url, "--csv", "-"]);
    let rows = String::from_utf8_lossy(&output.stdout);
    assert!(1 < rows.lines().count() && rows.lines().all(|row| row.contains(',')), "{rows}");
    let summary = String::from_utf8_lossy(&output.stderr);
    assert!(summary.contains("50 good") && summary.contains("standard output"), "{summary}");
    let both = binary().args(["-n", "50", &target.url, "--csv", "-", "-o", "-"]).output();
    let both = both.expect("the binary runs");
    assert_eq!(both.status.code(), Some(2), "{}", said(&both));
    assert!(said(&both).contains("--csv -: --out names the same file"), "{}", said(&both));
    assert!(both.stdout.is_empty(), "nothing ran");
}

#[test]
fn a_body_is_posted_and_may_come_from_standard_input() {
    let target = Target::start(&["--base-latency", "1ms"]);
    for body in ["-", "@-"] {
        let mut child = binary()
            .args(["-n", "20", "-c", "2", &target.url, "-o", "-", "-b", body, "--allow-invalid"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        child.stdin.take().expect("piped").write_all(b"abc").expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let config = &printed(&output)["config"];
        assert_eq!(config["method"], "POST");
        // The first digits of SHA-256 of "abc".
        assert_eq!(config["body"], "@/dev/stdin sha256:ba7816bf8f01cfea");
        assert_eq!(config["headers"][0], "Content-Type: application/x-www-form-urlencoded");
        let said = String::from_utf8_lossy(&output.stderr);
        let assumed = "\ntruetail: --body: the method is POST (--method), the type";
        assert!(said.contains(assumed), "{said}");
    }
    let line =
        ["-n", "20", &target.url, "-o", "-", "-b", "abc", "-X", "put", "-H", "Content-Type: a/b"];
    let output = run(&line);
    let config = &printed(&output)["config"];
    assert_eq!(
        (&config["method"], &config["headers"][0]),
        (&"PUT".into(), &"Content-Type: a/b".into())
    );
    assert!(!String::from_utf8_lossy(&output.stderr).contains("--body"), "there is no assumption");
}

/// A server that answers each request on each connection with this status and a location.
fn serve(status: &'static str) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            thread::spawn(move || answer_all(stream, status));
        }
    });
    address
}

/// Answers until the client disconnects.
fn answer_all(mut stream: TcpStream, status: &str) {
    let Ok(reader) = stream.try_clone() else { return };
    let response =
        format!("HTTP/1.1 {status}\r\nLocation: http://127.0.0.1/x\r\nContent-Length: 0\r\n\r\n");
    for line in BufReader::new(reader).lines() {
        let Ok(line) = line else { return };
        if line.is_empty() && stream.write_all(response.as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn redirects_are_no_successes_unless_they_are_expected() {
    let url = format!("http://{}/", serve("302 Found"));
    let output = run(&["-n", "50", "-c", "2", &url]);
    let summary = String::from_utf8_lossy(&output.stdout);
    assert!(summary.contains("0 good, 50 bad (3xx not followed: 50)"), "{summary}");
    let words = summary.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("load the URL that the redirects lead to"), "{summary}");
    let output = run(&["-n", "50", "-c", "2", &url, "--expect-status", "2xx,3xx"]);
    let summary = String::from_utf8_lossy(&output.stdout);
    assert!(summary.contains("50 good, 0 bad"), "{summary}");
}

#[test]
fn a_run_connects_to_the_given_address_and_requests_its_url() {
    let target = Target::start(&["--base-latency", "1ms"]);
    let place = target.url.trim_start_matches("http://").trim_end_matches('/').to_owned();
    let port = place.rsplit_once(':').expect("a port").1;
    let (url, resolve) =
        (format!("http://api.invalid:{port}/"), format!("api.invalid:{port}:127.0.0.1"));
    for flags in [["--connect-to", &place], ["--resolve", &resolve]] {
        let output = run(&[&["-n", "20", &url, "-o", "-"], &flags[..]].concat());
        let config = &printed(&output)["config"];
        assert_eq!(config["target"], url);
        assert_eq!(config["target_address"], place);
    }
    assert_eq!(target.received(), 40);
}

#[test]
fn a_run_over_a_unix_domain_socket_is_verified_and_names_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("app.sock");
    let listener = UnixListener::bind(&path).expect("a free path");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            thread::spawn(move || {
                let mut answers = stream.try_clone().expect("a descriptor");
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
                    if line.is_empty() && answers.write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let socket = path.to_str().expect("text");
    let url = "http://app.invalid/";
    let output = run(&["-n", "50", "-c", "2", url, "--unix", socket, "-o", "-"]);
    let config = &printed(&output)["config"];
    assert_eq!((&config["target"], &config["unix"]), (&url.into(), &socket.into()));
    assert_eq!(config["target_address"], format!("unix:{socket}"));
    verified(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("50 good, 0 bad") && said.contains(socket), "{said}");
}

#[test]
fn a_users_password_is_sent_and_never_shown() {
    let target = Target::start(&["--base-latency", "1ms"]);
    let output = run(&["-n", "20", &target.url, "-o", "-", "-u", "aladdin:opensesame"]);
    let header = printed(&output)["config"]["headers"][0].as_str().expect("a header").to_owned();
    assert!(header.starts_with("Authorization: sha256:"), "{header}");
    let said = said(&output);
    assert!(!said.contains("opensesame") && !said.contains("YWxhZGRpbjpvcGVuc2VzYW1l"), "{said}");
}

#[test]
fn variables_give_flags_and_an_unknown_one_is_refused() {
    let target = Target::start(&["--base-latency", "1ms"]);
    let run = |variables: &[(&str, &str)], args: &[&str]| {
        let mut command = binary();
        command.envs(variables.iter().copied()).arg("run").args(args);
        command.output().expect("the binary runs")
    };
    let given = [
        ("TRUETAIL_TARGET", target.url.as_str()),
        ("TRUETAIL_REQUESTS", "30"),
        ("TRUETAIL_OUT", "-"),
        ("TRUETAIL_QUIET", "1"),
        ("TRUETAIL_ALLOW_INVALID", "true"),
        ("TRUETAIL_CONNS", "many"),
    ];
    // A flag overrides its variable, even a wrong one.
    let report = printed(&run(&given, &["-c", "2"]));
    assert_eq!(
        (&report["counts"]["intended"], &report["config"]["conns"]),
        (&30.into(), &2.into())
    );
    for (variables, line) in [
        (&given[5..], "truetail: TRUETAIL_CONNS many: invalid number: give a whole number"),
        (
            &[("TRUETAIL_RAET", "5")],
            "truetail: TRUETAIL_RAET: unknown variable; variables are named",
        ),
        (
            &[("TRUETAIL_QUIET", "1"), ("TRUETAIL_PROGRESS", "lines")],
            "truetail: TRUETAIL_PROGRESS and TRUETAIL_QUIET: they exclude each other; unset one of them",
        ),
    ] {
        let output = run(variables, &[&target.url]);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).starts_with(line), "{}", said(&output));
    }
    assert_eq!(target.received(), 30);
    // A flag overrides a variable that it excludes: nothing listens on the first port.
    let flags = ["--target", "http://127.0.0.1:1/", "--progress", "lines"];
    let output = run(&given[..5], &flags);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("127.0.0.1:1"), "{}", said(&output));
}

#[test]
fn a_variable_that_a_command_does_not_use_is_ignored() {
    let output = binary()
        .env("TRUETAIL_LABEL", "a build")
        .args(["sweep", "http://127.0.0.1:1/", "--rates", "1..2", "--rate", "5"])
        .output()
        .expect("the binary runs");
    let message = "truetail: --rate 5: a sweep has many rates";
    assert!(said(&output).starts_with(message), "{}", said(&output));
}

#[test]
fn another_tools_line_is_answered_and_nothing_runs() {
    let output = binary()
        .args(["-t4", "-c100", "-d30s", "--latency", "http://127.0.0.1:1/"])
        .output()
        .expect("the binary runs");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "truetail: -t: threads are cores here, by default all but the first (--cores); a timeout \
         needs a unit (-t 5s), and a time limit is --duration; --latency: percentiles are always \
         printed; type `truetail run -c100 -d30s http://127.0.0.1:1/`\n"
    );
}

#[test]
fn a_url_without_a_scheme_is_loaded() {
    let target = Target::start(&["--base-latency", "0s"]);
    let place = target.url.trim_start_matches("http://");
    let output = run(&[place, "-n", "5", "-o", "-", "-q"]);
    let report = printed(&output);
    assert_eq!(report["counts"]["answered"], 5);
    assert_eq!(report["config"]["target"], target.url.as_str());
    target.interrupt();
}
