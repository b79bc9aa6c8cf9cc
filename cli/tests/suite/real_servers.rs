//! The binary against other projects' servers: nginx, with and without TLS, `openssl s_server`, and
//! Python's `http.server`, which closes after each response; against one whose segments come out of
//! order; its histograms against HdrHistogram's own reader; and under limits that only root can
//! set: locked memory, local ports.
//!
//! Behind the feature `real-servers`, because it needs root, nginx, nghttpd, openssl, python3 with
//! the package hdrhistogram, and iproute2. Each server listens on a loopback port of its own and ends
//! with its test. The report's count must equal nginx's log.

mod http2;

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::Value;

/// A process that ends with its test.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server process that ends with its test.
pub struct Server {
    _child: Ending,
    /// Where it listens.
    pub port: u16,
}

impl Server {
    fn start(command: &mut Command, port: u16) -> Server {
        Server::start_writing(command, port, Stdio::null())
    }

    /// The same with its standard output.
    fn start_writing(command: &mut Command, port: u16, stdout: Stdio) -> Server {
        let child = command.stdout(stdout).spawn();
        let child = child.unwrap_or_else(|error| panic!("{:?}: {error}", command.get_program()));
        let server = Server { _child: Ending(child), port };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "the server on port {port} doesn't listen"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }
}

/// A port without a listener that no connection of another test takes before the server does: the
/// kernel chooses ports from 32,768 on. It isn't bound to test whether it is free: a process that
/// another test is just starting would hold the listener until its exec.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 10_000 + u16::try_from(std::process::id() % 20_000).expect("it fits");
    let ports = (0..1_000).map(|_| first + NEXT.fetch_add(1, Ordering::Relaxed) % 2_000);
    let mut free = ports.filter(|port| TcpStream::connect(("127.0.0.1", *port)).is_err());
    free.next().expect("a free port")
}

/// nginx in the foreground, as one process, with these locations; it logs to `access.log`.
pub fn nginx(folder: &Path, locations: &str) -> Server {
    nginx_listening(folder, "", locations)
}

/// The same with more than an address after `listen`.
fn nginx_listening(folder: &Path, how: &str, locations: &str) -> Server {
    let port = free_port();
    let at = folder.display();
    fs::write(folder.join("file.txt"), "x".repeat(1_024)).expect("writable");
    let configuration = format!(
        "daemon off; master_process off; pid {at}/nginx.pid; error_log {at}/error.log;
         events {{ worker_connections 2048; }}
         http {{
           log_format tls '$request $status $ssl_protocol $ssl_session_reused';
           access_log {at}/access.log; gzip off; root {at};
           client_body_temp_path {at}/body; proxy_temp_path {at}/proxy; fastcgi_temp_path {at}/fastcgi;
           uwsgi_temp_path {at}/uwsgi; scgi_temp_path {at}/scgi;
           server {{ listen 127.0.0.1:{port}{how}; {locations} }}
         }}"
    );
    let file = folder.join("nginx.conf");
    fs::write(&file, configuration).expect("writable");
    Server::start(
        Command::new("nginx").arg("-e").arg(folder.join("error.log")).arg("-c").arg(&file),
        port,
    )
}

/// Runs the binary against the server's path and returns its report.
fn run(folder: &Path, port: u16, path: &str, flags: &[&str]) -> Value {
    run_url(folder, &format!("http://127.0.0.1:{port}{path}"), flags)
}

/// Runs the binary against a URL and returns its report.
fn run_url(folder: &Path, url: &str, flags: &[&str]) -> Value {
    let out = folder.join("report.json");
    let output = Command::new(env!("CARGO_BIN_EXE_truetail"))
        // The user's saved calibrations are out of its reach.
        .env("XDG_CACHE_HOME", "/dev/null")
        .args(["run", url, "--warmup", "0s", "--quiet", "--out"])
        .arg(&out)
        .args(flags)
        .output()
        .expect("the binary runs");
    let words = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(matches!(output.status.code(), Some(0 | 3)), "{words}");
    let text = fs::read_to_string(&out).unwrap_or_else(|error| panic!("{error}: {words}"));
    serde_json::from_str(&text).expect("a report is JSON")
}

fn count(report: &Value, name: &str) -> u64 {
    report["counts"][name]
        .as_u64()
        .unwrap_or_else(|| panic!("counts has {name}: {}", report["counts"]))
}

/// Every intended request was answered with this status.
fn assert_all_answered(report: &Value, status: &str) {
    let answered = count(report, "answered");
    assert!(100 < answered, "{}", report["counts"]);
    assert_eq!(answered, count(report, "intended"), "{}", report["counts"]);
    assert_eq!(report["counts"]["status"][status].as_u64(), Some(answered), "{}", report["counts"]);
}

/// The same, and nginx logged as many.
fn assert_all_answered_and_logged(folder: &Path, report: &Value, status: &str) {
    assert_all_answered(report, status);
    let log = fs::read_to_string(folder.join("access.log")).expect("nginx keeps a log");
    let logged = log.lines().filter(|line| line.contains(&format!("\" {status} "))).count() as u64;
    assert_eq!(logged, count(report, "answered"), "nginx's own log");
}

const OPEN: [&str; 4] = ["--rate", "1k", "--duration", "2s"];
const CLOSED: [&str; 6] = ["--model", "closed", "--conns", "8", "--duration", "1s"];

#[test]
fn nginx_serves_a_static_file_over_kept_connections() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = nginx(folder.path(), "keepalive_requests 100000000;");
    for flags in [&OPEN[..], &CLOSED[..]] {
        fs::write(folder.path().join("access.log"), "").expect("writable");
        let report = run(folder.path(), server.port, "/file.txt", flags);
        assert_all_answered_and_logged(folder.path(), &report, "200");
        assert!(
            count(&report, "connects") < count(&report, "answered") / 2,
            "{}",
            report["counts"]
        );
    }
}

#[test]
fn nginx_logs_as_many_requests_of_each_route_as_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let locations = "keepalive_requests 100000000;
        location = /home { return 200 home; }
        location = /search { return 404; }
        location /orders/ { return 204; }";
    let server = nginx(folder.path(), locations);
    let routes = "{\"weight\": 6, \"url\": \"/home\"}\n\
                  {\"weight\": 3, \"url\": \"/search?q=shoes\"}\n\
                  {\"weight\": 1, \"method\": \"DELETE\", \"url\": \"/orders/7\"}\n";
    fs::write(folder.path().join("routes.json"), routes).expect("writable");
    let file = folder.path().join("routes.json").display().to_string();
    let flags = ["--targets", &file, "--rate", "1k", "--duration", "2s"];
    let report = run(folder.path(), server.port, "/", &flags);
    let log = fs::read_to_string(folder.path().join("access.log")).expect("nginx keeps a log");
    let parts = report["parts"].as_array().expect("parts");
    for (part, request, status) in [
        (&parts[0], "GET /home", "200"),
        (&parts[1], "GET /search?q=shoes", "404"),
        (&parts[2], "DELETE /orders/7", "204"),
    ] {
        let line = format!("\"{request} HTTP/1.1\" {status} ");
        let logged = log.lines().filter(|one| one.contains(&line)).count();
        assert!(100 < logged, "{line}");
        for count in [&part["counts"]["answered"], &part["counts"]["status"][status]] {
            assert_eq!(count.as_u64(), Some(logged as u64), "{part}");
        }
    }
    assert_eq!(log.lines().count() as u64, count(&report, "answered"), "nginx's own log");
}

/// Certificates for 127.0.0.1: `ca.pem` of the issuer, `cert.pem` and `key.pem` of the server.
fn certificates(folder: &Path) {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "issuer of the tests");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let issuer = CertifiedIssuer::self_signed(params, key).expect("a certificate");
    let own = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(["127.0.0.1".to_owned()]).expect("a name");
    let certificate = params.signed_by(&own, &issuer).expect("a certificate");
    for (name, text) in [
        ("ca.pem", issuer.pem()),
        ("cert.pem", certificate.pem()),
        ("key.pem", own.serialize_pem()),
    ] {
        fs::write(folder.join(name), text).expect("writable");
    }
}

/// nginx with TLS of this version.
fn nginx_tls(folder: &Path, version: &str) -> Server {
    certificates(folder);
    let at = folder.display();
    let locations = format!(
        "access_log {at}/access.log tls; keepalive_requests 100000000;
         ssl_certificate {at}/cert.pem; ssl_certificate_key {at}/key.pem;
         ssl_protocols {version}; ssl_session_cache shared:tls:1m;"
    );
    nginx_listening(folder, " ssl", &locations)
}

/// The message with which the binary refuses to run.
fn refusal(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_truetail")).arg("run").args(args).output();
    let output = output.expect("the binary runs");
    assert_eq!(output.status.code(), Some(1), "{}", words(&output));
    words(&output)
}

#[test]
fn nginx_serves_over_each_version_of_tls_and_logs_what_is_counted() {
    for (version, name) in [("TLSv1.3", "TLS 1.3"), ("TLSv1.2", "TLS 1.2")] {
        let folder = tempfile::tempdir().expect("a folder");
        let server = nginx_tls(folder.path(), version);
        let url = format!("https://127.0.0.1:{}/file.txt", server.port);
        let root = folder.path().join("ca.pem").display().to_string();
        let log = folder.path().join("access.log");
        let off = ["--rate", "300", "--duration", "2s", "--keepalive", "off"];
        let resume = [&off[..], &["--tls-session", "resume"]].concat();
        for flags in [&OPEN[..], &CLOSED[..], &off[..], &resume[..]] {
            fs::write(&log, "").expect("writable");
            let flags = [flags, &["--cacert", &root]].concat();
            let report = run_url(folder.path(), &url, &flags);
            assert_all_answered(&report, "200");
            let logged = fs::read_to_string(&log).expect("nginx keeps a log");
            let line = |end: &str| format!("GET /file.txt HTTP/1.1 200 {version} {end}");
            let count_of = |line: String| logged.lines().filter(|one| **one == line).count() as u64;
            let (full, reused) = (count_of(line(".")), count_of(line("r")));
            assert_eq!(full + reused, count(&report, "answered"), "nginx's own log");
            let tls = &report["tls"];
            assert_eq!(tls["version"], name, "{tls}");
            if flags.contains(&"off") {
                assert_eq!(tls["resumed"].as_u64(), Some(reused), "{tls}");
                assert_eq!(0 < reused, flags.contains(&"resume"), "{tls}");
            }
            assert_eq!(tls["truncated"], 0, "{tls}");
        }

        let text = refusal(&[&url]);
        for part in [&*url, "`CN=issuer of the tests`", "tls_unknown_issuer", "--cacert FILE"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let local = url.replace("127.0.0.1", "localhost");
        assert!(refusal(&[&local, "--cacert", &root]).contains("(tls_wrong_name)"));
        let report = run_url(folder.path(), &local, &["--rate", "200", "-d1s", "--insecure"]);
        assert_all_answered(&report, "200");
        assert_eq!(report["tls"]["insecure"], true);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let server = nginx(folder.path(), "");
    let text = refusal(&[&format!("https://127.0.0.1:{}/", server.port)]);
    assert!(text.contains("(tls_not_tls)") && text.contains("give http://"), "{text}");
}

#[test]
fn openssl_serves_files_over_each_version_and_is_refused_with_an_older_one() {
    let folder = tempfile::tempdir().expect("a folder");
    certificates(folder.path());
    fs::write(folder.path().join("file.txt"), "x".repeat(100_000)).expect("writable");
    let start = |version: &[&str]| {
        let port = free_port();
        let mut command = Command::new("openssl");
        command.args(["s_server", "-quiet", "-WWW", "-cert", "cert.pem", "-key", "key.pem"]);
        command.args(["-accept", &format!("127.0.0.1:{port}")]).args(version);
        Server::start(command.current_dir(folder.path()).stderr(Stdio::null()), port)
    };
    let root = folder.path().join("ca.pem").display().to_string();
    // It serves one connection after another, and ends each response by closing the connection.
    let one = ["--model", "closed", "--conns", "1", "--duration", "2s", "--cacert", &root];
    for (flag, name) in [("-tls1_3", "TLS 1.3"), ("-tls1_2", "TLS 1.2")] {
        let server = start(&[flag]);
        let url = format!("https://127.0.0.1:{}/file.txt", server.port);
        let report = run_url(folder.path(), &url, &one);
        assert_all_answered(&report, "200");
        assert_eq!(
            (&report["tls"]["version"], &report["tls"]["truncated"]),
            (&name.into(), &0.into())
        );
    }
    let server = start(&["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"]);
    let url = format!("https://127.0.0.1:{}/file.txt", server.port);
    let text = refusal(&[&url, "--cacert", &root]);
    assert!(text.contains("(tls_version)"), "{text}");
}

#[test]
fn nginx_closes_connections_under_load_after_100_requests() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = nginx(folder.path(), "keepalive_requests 100;");
    for flags in [&OPEN[..], &CLOSED[..]] {
        fs::write(folder.path().join("access.log"), "").expect("writable");
        let report = run(folder.path(), server.port, "/file.txt", flags);
        assert_all_answered_and_logged(folder.path(), &report, "200");
        assert!(
            count(&report, "answered") / 100 <= count(&report, "connects"),
            "{}",
            report["counts"]
        );
    }
}

#[test]
fn nginx_answers_pipelined_requests_until_it_closes_the_connection() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = nginx(folder.path(), "keepalive_requests 100;");
    let open = ["--rate", "20k", "--conns", "8", "--duration", "1s"];
    for flags in [&open[..], &CLOSED[..]] {
        fs::write(folder.path().join("access.log"), "").expect("writable");
        let flags = [flags, &["--pipeline", "16"]].concat();
        let report = run(folder.path(), server.port, "/file.txt", &flags);
        let counts = &report["counts"];
        let log = fs::read_to_string(folder.path().join("access.log")).expect("nginx keeps a log");
        assert_eq!(log.lines().count() as u64, count(&report, "answered"), "{counts}");
        assert!(0 < count(&report, "shared_receives"), "{counts}");
        // Requests sent after a connection's hundredth are lost, and no others.
        let behind = counts["errors"]["behind_failed"].as_u64().unwrap_or(0);
        assert_eq!(count(&report, "failed"), behind, "{counts}");
        assert!(0 < behind, "{counts}");
    }
}

#[test]
fn nginx_answers_404_and_204() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = nginx(folder.path(), "location /none { return 204; }");
    for (path, status) in [("/missing", "404"), ("/none", "204")] {
        let report = run(folder.path(), server.port, path, &OPEN);
        assert_all_answered_and_logged(folder.path(), &report, status);
    }
}

#[test]
fn nginx_answers_a_head_without_a_body() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = nginx(folder.path(), "");
    let flags = [&OPEN[..], &["--method", "HEAD"]].concat();
    let report = run(folder.path(), server.port, "/file.txt", &flags);
    assert_all_answered_and_logged(folder.path(), &report, "200");
}

#[test]
fn nginx_forwards_an_answer_in_chunks() {
    let folder = tempfile::tempdir().expect("a folder");
    // An upstream without a length that closes: nginx must frame its response in chunks.
    let upstream_port = free_port();
    let script = format!(
        "import http.server as h
class H(h.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'y' * 20000)
    def log_message(self, *words): pass
class S(h.ThreadingHTTPServer):
    request_queue_size = 512
S(('127.0.0.1', {upstream_port}), H).serve_forever()"
    );
    let _upstream = Server::start(Command::new("python3").args(["-c", &script]), upstream_port);
    let server = nginx(
        folder.path(),
        &format!("location / {{ proxy_pass http://127.0.0.1:{upstream_port}; }}"),
    );

    let mut probe = TcpStream::connect(("127.0.0.1", server.port)).expect("it listens");
    let text = {
        use std::io::{Read, Write};
        probe.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("sent");
        let mut bytes = Vec::new();
        probe.read_to_end(&mut bytes).expect("received");
        String::from_utf8_lossy(&bytes).to_lowercase()
    };
    assert!(text.contains("transfer-encoding: chunked"), "it is chunked: {}", &text[..200]);
    fs::write(folder.path().join("access.log"), "").expect("writable");

    let report = run(folder.path(), server.port, "/", &["--rate", "100", "--duration", "3s"]);
    assert_all_answered_and_logged(folder.path(), &report, "200");
}

#[test]
fn pythons_server_closes_after_each_response() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("file.txt"), "hello").expect("writable");
    let port = free_port();
    let mut command = Command::new("python3");
    command.args(["-m", "http.server", "--bind", "127.0.0.1", &port.to_string()]);
    let server = Server::start(command.current_dir(folder.path()).stderr(Stdio::null()), port);
    let report =
        run(folder.path(), server.port, "/file.txt", &["--rate", "100", "--duration", "3s"]);
    assert_all_answered(&report, "200");
    assert!(count(&report, "answered") <= count(&report, "connects"), "{}", report["counts"]);
}

/// Answers each request by segments out of order.
const REORDERED: &str = include_str!("reordered.py");

#[test]
fn latency_ends_with_the_last_segment_to_arrive_not_with_the_last_byte() {
    let folder = tempfile::tempdir().expect("a folder");
    let (port, late_s) = (free_port(), 0.2);
    let mut command = Command::new("python3");
    command.args(["-c", REORDERED, &port.to_string(), &late_s.to_string()]);
    let server = Server::start(&mut command, port);
    for (conns, wait) in [("1", "sleep"), ("1", "spin"), ("48", "sleep"), ("48", "spin")] {
        let load = ["--conns", conns, "-n", "96", "--duration", "3s", "--wait", wait];
        let report = run(folder.path(), server.port, "/", &load);
        let answered = report["counts"]["status"]["200"].as_u64();
        assert!(answered.is_some_and(|answered| 4 < answered), "{}", report["counts"]);
        let least_us = report["naive"]["min"].as_f64().expect("the least");
        // Two of the segments are late, one after the other.
        assert!(
            2.0 * late_s * 1e6 <= least_us,
            "{conns}, {wait}: {least_us} µs: {}",
            report["stamps"]
        );
    }
}

/// A copy of the binary that every user may run, in a folder that every user may enter.
fn binary_for_all() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let binary = folder.path().join("truetail");
    fs::copy(env!("CARGO_BIN_EXE_truetail"), &binary).expect("copied");
    for path in [folder.path(), &binary] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }
    (folder, binary)
}

/// The binary run by a user without capabilities who may lock this much memory. The kernel counts a
/// user's locked memory over all processes, so each run has a user of its own.
fn as_user(user: u32, kib: u64, binary: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args([&format!("--reuid={user}"), "--regid=65534", "--clear-groups"])
        .args(["--inh-caps=-all", "--bounding-set=-all"])
        .args(["prlimit", &format!("--memlock={0}:{0}", kib * 1_024)])
        .arg(binary)
        .env("XDG_CACHE_HOME", "/dev/null");
    command
}

fn words(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn the_locked_memory_that_the_check_asks_for_is_enough() {
    let (_folder, binary) = binary_for_all();
    let folder = tempfile::tempdir().expect("a folder");
    let server = nginx(folder.path(), "");
    let url = format!("http://127.0.0.1:{}/file.txt", server.port);
    let user = 1_000_000 + std::process::id();
    for (at, conns) in [(0, "64"), (10, "3000")] {
        let run_with = |user: u32, kib: u64, conns: &str, duration: &str| {
            let mut command = as_user(user, kib, &binary);
            command.args(["run", &url, "--cores", "0", "--rate", "100", "--conns", conns]);
            command.args(["--warmup", "0s", "--duration", duration, "--allow-invalid"]);
            command
        };
        let run = |user: u32, kib: u64| run_with(user, kib, conns, "200ms");
        let output = run(user + at, 256).output().expect("it runs");
        let refused = words(&output);
        assert_eq!(output.status.code(), Some(1), "{refused}");
        let start = format!("truetail: locked memory: 256 KiB; --conns {conns} on 1 core needs ");
        let needed = refused.strip_prefix(&start).and_then(|rest| rest.split(' ').next());
        let needed: u64 = needed.unwrap_or_else(|| panic!("{refused}")).parse().expect("KiB");
        assert!(refused.ends_with(&format!("ulimit -l {needed}\n")), "{refused}");
        let doctor = as_user(user + at + 1, 256, &binary).arg("doctor").output().expect("it runs");
        assert_eq!(doctor.status.code(), Some(1), "{}", words(&doctor));

        let output = run(user + at + 2, needed).output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{needed}: {}", words(&output));

        // If another process of the user holds as much, the limit alone proves nothing.
        let log = folder.path().join("access.log");
        fs::write(&log, "").expect("writable");
        let mut holding = run_with(user + at + 3, 8_192, "19000", "1h");
        let mut holding = Ending(holding.stdout(Stdio::null()).spawn().expect("it runs"));
        let began = Instant::now();
        while fs::read_to_string(&log).expect("a log").is_empty() {
            assert!(holding.0.try_wait().expect("it is ours").is_none(), "it has ended");
            assert!(began.elapsed() < Duration::from_secs(60), "it sends nothing");
            std::thread::sleep(Duration::from_millis(20));
        }
        let output = run(user + at + 3, needed).output().expect("it runs");
        let refused = words(&output);
        assert_eq!(output.status.code(), Some(1), "{refused}");
        assert!(refused.contains("Cannot allocate memory"), "{refused}");
        assert!(refused.contains("this user") && refused.contains("ulimit -l"), "{refused}");
        drop(holding);
    }
}

/// In a network namespace with 101 local ports: the target, then the run, whose exit code the
/// script returns.
const FEW_PORTS: &str = "set -eu
ip link set lo up
echo '20000 20100' > /proc/sys/net/ipv4/ip_local_port_range
\"$0\" target --listen 127.0.0.1:8080 --base-latency 500ms > target.log &
trap \"kill $!\" EXIT
until grep -q listening target.log; do kill -0 $!; sleep 0.02; done
\"$0\" run http://127.0.0.1:8080/ --keepalive off --rate 1k --duration 2s --warmup 0s \\
    --out report.json";

#[test]
fn ports_that_run_out_are_the_generators_fault_and_make_the_run_invalid() {
    let folder = tempfile::tempdir().expect("a folder");
    // Half a second at 1,000/s: 500 connections at once, even if ended ones are reused.
    let output = Command::new("unshare")
        .args(["--net", "sh", "-c", FEW_PORTS, env!("CARGO_BIN_EXE_truetail")])
        .env("XDG_CACHE_HOME", "/dev/null")
        .current_dir(folder.path())
        .output()
        .expect("unshare is installed");
    let words = words(&output);
    assert_eq!(output.status.code(), Some(3), "{words}");
    let text = fs::read_to_string(folder.path().join("report.json")).expect("written");
    let report: Value = serde_json::from_str(&text).expect("a report is JSON");
    let lost = report["counts"]["errors"]["no_local_port"].as_u64();
    assert!(lost.is_some_and(|lost| 0 < lost), "{}", report["counts"]);
    assert!(0 < count(&report, "answered"), "{}", report["counts"]);
    assert_eq!(report["verdict"]["level"], "invalid");
    let reasons = report["verdict"]["reasons"].as_array().expect("a list");
    assert!(reasons.iter().any(|reason| reason["code"] == "local_resource"), "{reasons:?}");
    let first = words.lines().next().expect("a line");
    // Of several reasons, each has a line.
    assert!(first.starts_with("INVALID") && words.contains("local_resource"), "{words}");
    assert!(words.contains("--source-addresses"), "{words}");
}

/// Python, with HdrHistogram's package, reads the files in its folder.
const READ_HDR: &str = include_str!("read_hdr.py");

#[test]
fn hdrhistograms_own_reader_finds_the_reports_latencies() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = nginx(folder.path(), "");
    let hdr = folder.path().join("run.hlog");
    let hdr = hdr.to_str().expect("text");
    let flags = ["--rate", "500", "--duration", "2s", "--hdr", hdr];
    let report = run(folder.path(), server.port, "/file.txt", &flags);
    assert!(500 < count(&report, "answered"), "{}", report["counts"]);
    let read = Command::new("python3").args(["-c", READ_HDR]).current_dir(folder.path()).output();
    let read = read.expect("python3 is installed");
    assert!(
        read.status.success(),
        "python3 with the package hdrhistogram (`pip install hdrhistogram`): {}",
        words(&read)
    );
}
