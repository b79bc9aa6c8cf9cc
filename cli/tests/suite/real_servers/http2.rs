//! HTTP/2 against servers that share no code with the client: nginx, nghttpd, Apache and HAProxy,
//! in the clear by prior knowledge and over TLS by ALPN.
//!
//! `TEST_REAL_SERVERS_SCALE=10` sends ten times as many requests, 200,000 to each server, and then
//! all servers have to be installed; else Apache and HAProxy are left out if they aren't.

use std::fs;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Server, certificates, count, free_port, nginx_listening, run_url};

/// How HTTP/2 begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    /// By prior knowledge.
    Clear,
    /// By ALPN.
    Tls,
}

/// Another project's server: how it starts in a folder, and what is in each line of its log that
/// stands for a response by HTTP/2 with the status 200.
struct Speaker {
    start: fn(&Path, Transport) -> Server,
    logged: &'static str,
    /// Flags that it needs.
    flags: &'static [&'static str],
}

const NGINX: Speaker = Speaker {
    start: |folder, how| nginx(folder, how, 100_000_000),
    logged: "HTTP/2.0\" 200 ",
    flags: &[],
};
/// nginx that sends GOAWAY after 1,000 requests of a connection.
const NGINX_GOING_AWAY: Speaker = Speaker {
    start: |folder, how| nginx(folder, how, 1_000),
    logged: "HTTP/2.0\" 200 ",
    flags: &[],
};
const NGHTTPD: Speaker = Speaker { start: nghttpd, logged: "send HEADERS frame", flags: &[] };
/// Apache keeps a file open for each request until its connection ends.
const APACHE: Speaker = Speaker {
    start: apache,
    logged: "HTTP/2.0 200",
    flags: &["--requests-per-connection", "1000"],
};
const HAPROXY: Speaker = Speaker { start: haproxy, logged: "HTTP/2.0 200", flags: &[] };

/// The factor on a run's small number of requests, from the environment; 1 by default.
fn scale() -> u64 {
    std::env::var("TEST_REAL_SERVERS_SCALE")
        .map_or(1, |scale| scale.parse().expect("TEST_REAL_SERVERS_SCALE is a whole number"))
}

/// Whether a program that the small size can do without is installed.
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").expect("a path");
    let found = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    assert!(found || scale() == 1, "{program} isn't installed");
    if !found {
        println!("{program} isn't installed: left out");
    }
    found
}

fn nginx(folder: &Path, how: Transport, requests: u64) -> Server {
    let (listen, tls) = match how {
        Transport::Clear => (" http2", String::new()),
        Transport::Tls => {
            let at = folder.display();
            let keys = format!("ssl_certificate {at}/cert.pem; ssl_certificate_key {at}/key.pem;");
            (" ssl http2", keys)
        }
    };
    nginx_listening(folder, listen, &format!("keepalive_requests {requests}; {tls}"))
}

fn nghttpd(folder: &Path, how: Transport) -> Server {
    fs::write(folder.join("file.txt"), "x".repeat(1_024)).expect("writable");
    let port = free_port();
    let mut command = Command::new("nghttpd");
    command.args(["--verbose", "--address=127.0.0.1", "--htdocs=."]).current_dir(folder);
    match how {
        Transport::Clear => command.args(["--no-tls", &port.to_string()]),
        Transport::Tls => command.args([&port.to_string(), "key.pem", "cert.pem"]),
    };
    Server::start_writing(&mut command, port, log_of(folder))
}

fn apache(folder: &Path, how: Transport) -> Server {
    fs::write(folder.join("file.txt"), "x".repeat(1_024)).expect("writable");
    // Its process becomes another user's.
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let port = free_port();
    let at = folder.display();
    let tls = match how {
        Transport::Clear => String::new(),
        Transport::Tls => format!(
            "LoadModule ssl_module /usr/lib/apache2/modules/mod_ssl.so
             SSLEngine on
             SSLCertificateFile {at}/cert.pem
             SSLCertificateKeyFile {at}/key.pem"
        ),
    };
    let configuration = format!(
        "ServerRoot {at}
         ServerName 127.0.0.1
         PidFile {at}/apache.pid
         DefaultRuntimeDir {at}
         Listen 127.0.0.1:{port}
         User www-data
         Group www-data
         LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
         LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
         LoadModule http2_module /usr/lib/apache2/modules/mod_http2.so
         {tls}
         Protocols h2 h2c http/1.1
         DocumentRoot {at}
         ErrorLog {at}/error.log
         LogFormat \"%H %>s\" short
         CustomLog {at}/access.log short\n"
    );
    let file = folder.join("apache.conf");
    fs::write(&file, configuration).expect("writable");
    let mut command = Command::new("apache2");
    // As one process, since others would outlive a killed one.
    Server::start(command.arg("-X").arg("-f").arg(&file).stderr(Stdio::null()), port)
}

fn haproxy(folder: &Path, how: Transport) -> Server {
    let port = free_port();
    let at = folder.display();
    let bind = match how {
        Transport::Clear => "proto h2".to_owned(),
        Transport::Tls => {
            let read = |name: &str| fs::read_to_string(folder.join(name)).expect("a file");
            fs::write(folder.join("both.pem"), [read("cert.pem"), read("key.pem")].concat())
                .expect("writable");
            format!("ssl crt {at}/both.pem alpn h2")
        }
    };
    // One thread: of several, one that finds another at the log gives up its line.
    let configuration = format!(
        "global\n nbthread 1\n log stdout format raw local0\n\
         defaults\n mode http\n log global\n log-format \"%HV %ST\"\n timeout client 60s\n\
         frontend all\n bind 127.0.0.1:{port} {bind}\n \
         http-request return status 200 content-type text/plain string ok\n"
    );
    let file = folder.join("haproxy.cfg");
    fs::write(&file, configuration).expect("writable");
    let mut command = Command::new("haproxy");
    command.arg("-db").arg("-f").arg(&file).stderr(Stdio::null());
    Server::start_writing(&mut command, port, log_of(folder))
}

/// The log of a server that writes it to its standard output.
fn log_of(folder: &Path) -> Stdio {
    File::create(folder.join("access.log")).expect("writable").into()
}

/// The lines of the log that stand for a response; waits for as many as are expected, since a
/// server may answer before it logs.
fn logged(folder: &Path, speaker: &Speaker, expected: u64) -> u64 {
    let began = Instant::now();
    loop {
        let log = BufReader::new(File::open(folder.join("access.log")).expect("a log"));
        let lines = log.lines().map_while(Result::ok);
        let found = lines.filter(|line| line.contains(speaker.logged)).count() as u64;
        if expected <= found || Duration::from_secs(5) < began.elapsed() {
            return found;
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Sends the requests of a full run in both transports and in a closed and an open loop: each is
/// answered, and the server has logged as many.
fn check(speaker: &Speaker, check: impl Fn(&Value)) {
    let requests = (20_000 * scale()).to_string();
    let closed = ["-n", &requests, "--conns", "4", "--streams", "10"];
    let few = (5_000 * scale()).to_string();
    let open = ["-n", &few, "--rate", "5k", "--conns", "8"];
    for how in [Transport::Clear, Transport::Tls] {
        for flags in [&closed[..], &open[..]] {
            let folder = tempfile::tempdir().expect("a folder");
            certificates(folder.path());
            let server = (speaker.start)(folder.path(), how);
            let scheme = if how == Transport::Tls { "https" } else { "http" };
            let url = format!("{scheme}://127.0.0.1:{}/file.txt", server.port);
            let root = folder.path().join("ca.pem").display().to_string();
            let mut flags = [flags, &["--http", "2"], speaker.flags].concat();
            if how == Transport::Tls {
                flags.extend(["--cacert", &root]);
            }
            let report = run_url(folder.path(), &url, &flags);
            let counts = &report["counts"];
            let answered = count(&report, "answered");
            assert_eq!(answered.to_string(), flags[1], "{how:?} {counts}");
            assert_eq!(counts["status"]["200"].as_u64(), Some(answered), "{how:?} {counts}");
            assert_eq!(logged(folder.path(), speaker, answered), answered, "{how:?} {counts}");
            check(&report);
        }
    }
}

#[test]
fn nginx_logs_as_many_as_are_counted() {
    check(&NGINX, |report| assert_eq!(count(report, "goaways"), 0));
}

#[test]
fn nginx_goes_away_after_1000_requests_and_each_request_is_answered() {
    check(&NGINX_GOING_AWAY, |report| {
        let counts = &report["counts"];
        // The last connections haven't carried as many.
        let full = count(report, "answered") / 1_000;
        assert!(full <= count(report, "connects"), "{counts}");
        let open = 8;
        assert!(full <= count(report, "goaways") + open, "{counts}");
        assert!(count(report, "goaways") <= full, "{counts}");
    });
}

#[test]
fn nghttpd_logs_as_many_as_are_counted() {
    check(&NGHTTPD, |_| {});
}

#[test]
fn apache_logs_as_many_as_are_counted() {
    if is_installed("apache2") {
        check(&APACHE, |_| {});
    }
}

#[test]
fn haproxy_logs_as_many_as_are_counted() {
    if is_installed("haproxy") {
        check(&HAPROXY, |_| {});
    }
}
