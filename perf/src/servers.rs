//! The servers under load: the null target, nginx with files of given sizes, and nghttpd.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::{ChildStdout, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use crate::bench::Bench;
use crate::process::{Running, files_max, pinned};

/// How long a server may take to start or to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// Descriptors that a client and a target need besides their connections.
pub(crate) const FILES_SPARE: usize = 128;

/// A null target in its own process.
pub(crate) struct NullTarget {
    running: Running,
    stdout: BufReader<ChildStdout>,
    /// Its URL.
    pub(crate) url: String,
}

/// The null target's work and its cost.
pub(crate) struct NullCost {
    /// Requests answered.
    pub(crate) requests: f64,
    /// User and system time, µs.
    pub(crate) cpu_us: f64,
}

impl NullTarget {
    /// Starts it on its core and waits until it listens. It has room for twice `conns` connections
    /// if the limit on open files allows that, for clients that open new ones before the old ones
    /// are closed.
    pub(crate) fn start(bench: &Bench, conns: usize, tls: bool) -> Result<NullTarget> {
        let core = bench.target_core.to_string();
        let room = (2 * conns).min(files_max() - FILES_SPARE / 2).to_string();
        let program = bench.truetail.display().to_string();
        let command = [
            &program,
            "null-target",
            "--listen",
            "127.0.0.1:0",
            "--cores",
            &core,
            "--conns",
            &room,
        ];
        let tls = tls.then_some("--tls");
        let command: Vec<String> = command.into_iter().chain(tls).map(str::to_owned).collect();
        let mut running = Running::start(
            pinned(bench.target_core, &command).stdin(Stdio::null()).stdout(Stdio::piped()),
        )?;
        let mut stdout = BufReader::new(running.take_stdout().expect("it is piped"));
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        let url = line
            .trim()
            .strip_prefix("listening on ")
            .with_context(|| format!("the null target did not start; it printed {line:?}"))?
            .to_owned();
        Ok(NullTarget { running, stdout, url })
    }

    /// Stops it with SIGTERM.
    pub(crate) fn stop(mut self) -> Result<NullCost> {
        self.running.terminate()?;
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        let requests = line
            .strip_prefix("answered ")
            .and_then(|rest| rest.split(' ').next())
            .and_then(|count| count.parse().ok())
            .with_context(|| format!("can't parse the null target's {line:?}"))?;
        let cpu_us = self.running.reap(PATIENCE).context("the null target")?.cpu_us;
        Ok(NullCost { requests, cpu_us })
    }
}

/// nghttpd as one worker, with a file.
pub(crate) struct Nghttpd {
    _running: Running,
    _folder: TempDir,
    /// The URL of its file.
    pub(crate) url: String,
}

impl Nghttpd {
    /// Starts it on the target's core and waits until it listens.
    pub(crate) fn start(bench: &Bench, size: usize) -> Result<Nghttpd> {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("file"), vec![b'x'; size])?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let (at, shown) = (folder.path().display().to_string(), port.to_string());
        let command = ["nghttpd", "--no-tls", "--workers=1", "-a", "127.0.0.1", "-d", &at, &shown];
        let command = command.map(str::to_owned);
        let mut pinned = pinned(bench.target_core, &command);
        let running = Running::start(pinned.stdin(Stdio::null()).stdout(Stdio::null()))?;
        await_listener(port, "nghttpd")?;
        let url = format!("http://127.0.0.1:{port}/file");
        Ok(Nghttpd { _running: running, _folder: folder, url })
    }
}

/// Waits until something listens on this port.
fn await_listener(port: u16, server: &str) -> Result<()> {
    let began = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if PATIENCE < began.elapsed() {
            bail!("{server} doesn't listen");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// nginx as one process, with a file of each size.
pub(crate) struct Nginx {
    _running: Running,
    _folder: TempDir,
    scheme: &'static str,
    port: u16,
}

impl Nginx {
    /// Starts it on the target's core and waits until it listens; with `tls`, under a certificate
    /// of its own.
    pub(crate) fn start(bench: &Bench, sizes: &[usize], tls: bool) -> Result<Nginx> {
        let folder = tempfile::tempdir()?;
        for size in sizes {
            fs::write(folder.path().join(size.to_string()), vec![b'x'; *size])?;
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let at = folder.path().display();
        let (scheme, ssl) = match tls {
            true => {
                let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
                fs::write(folder.path().join("cert.pem"), own.cert.pem())?;
                fs::write(folder.path().join("key.pem"), own.signing_key.serialize_pem())?;
                let keys =
                    format!("ssl_certificate {at}/cert.pem; ssl_certificate_key {at}/key.pem");
                ("https", format!(" ssl; ssl_protocols TLSv1.2 TLSv1.3; {keys}"))
            }
            false => ("http", String::new()),
        };
        let configuration = format!(
            "daemon off; master_process off; pid {at}/nginx.pid; error_log {at}/error.log;
             events {{ worker_connections 1024; }}
             http {{
               access_log off; gzip off; root {at}; sendfile on; tcp_nopush on;
               keepalive_requests 1000000000;
               client_body_temp_path {at}/body; proxy_temp_path {at}/proxy;
               fastcgi_temp_path {at}/fastcgi; uwsgi_temp_path {at}/uwsgi; scgi_temp_path {at}/scgi;
               server {{ listen 127.0.0.1:{port}{ssl}; }}
             }}"
        );
        let file = folder.path().join("nginx.conf");
        fs::write(&file, configuration)?;
        let errors = format!("{at}/error.log");
        let command = ["nginx", "-e", &errors, "-c", &file.display().to_string()];
        let command = command.map(str::to_owned);
        let running = Running::start(pinned(bench.target_core, &command).stdin(Stdio::null()))?;
        await_listener(port, "nginx").with_context(|| format!("see {errors}"))?;
        Ok(Nginx { _running: running, _folder: folder, scheme, port })
    }

    /// The URL of its file of this size.
    pub(crate) fn url(&self, size: usize) -> String {
        format!("{}://127.0.0.1:{}/{size}", self.scheme, self.port)
    }
}
