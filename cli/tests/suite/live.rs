//! The full-screen view of a run: leaving it doesn't end the run, and the end of the run restores
//! the terminal.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Target, binary, bounded, document, signal, until_ended, wait_until};

/// The sequences that take the whole screen and give it back.
const TAKEN: &str = "\u{1b}[?1049h";
const GIVEN_BACK: &str = "\u{1b}[?1049l";

/// A run on a terminal of its own, of an hour.
struct OnTerminal {
    child: Child,
    folder: TempDir,
    near: File,
    far: File,
    shown: Arc<Mutex<String>>,
}

impl OnTerminal {
    fn start(target: &Target, flags: &[&str]) -> OnTerminal {
        let open = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let near = openpt(open).expect("a terminal");
        grantpt(&near).expect("granted");
        unlockpt(&near).expect("unlocked");
        let far = File::from(ioctl_tiocgptpeer(&near, open).expect("its far end"));
        let end = || Stdio::from(far.try_clone().expect("a descriptor"));
        let folder = tempfile::tempdir().expect("a folder");
        let child = binary()
            .args(["run", &target.url, "--rate", "200", "--conns", "50", "--warmup", "0s"])
            .args(["--duration", "1h", "--out", "report.json", "--live"])
            .args(flags)
            .current_dir(folder.path())
            .stdin(end())
            .stdout(Stdio::piped())
            .stderr(end())
            .spawn()
            .expect("the binary runs");
        let near = File::from(near);
        let (mut reader, shown) = (near.try_clone().expect("a descriptor"), Arc::default());
        let all: Arc<Mutex<String>> = Arc::clone(&shown);
        thread::spawn(move || {
            let mut buffer = [0; 4_096];
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
                all.lock().expect("no reader panics").push_str(&text);
            }
        });
        OnTerminal { child, folder, near, far, shown }
    }

    fn shown(&self) -> String {
        self.shown.lock().expect("no reader panics").clone()
    }

    /// Waits until it has shown this.
    fn wait_for(&mut self, text: &str) {
        let shown = Arc::clone(&self.shown);
        wait_until(&mut self.child, || shown.lock().expect("no reader panics").contains(text));
    }

    /// Waits until the last output was read, and asserts that it contains this.
    fn shown_at_last(&self, text: &str) {
        let is_shown = || self.shown().contains(text);
        let came = (0..500).any(|_| {
            thread::sleep(Duration::from_millis(10));
            is_shown()
        });
        assert!(came, "{}", self.shown());
    }

    fn press(&mut self, key: &[u8]) {
        self.near.write_all(key).expect("it reads");
    }

    /// True if the terminal is in line mode, and turns keys into signals.
    fn is_as_it_was(&self) -> bool {
        let modes = tcgetattr(&self.far).expect("a terminal").local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ISIG | LocalModes::ECHO)
    }

    /// Its exit code and its report, with what it last showed.
    fn end(self) -> (Option<i32>, Value) {
        let output = bounded(self.child);
        (output.status.code(), document(&self.folder.path().join("report.json")))
    }
}

#[test]
fn leaving_the_view_does_not_end_the_run() {
    let target = Target::start(&["--base-latency", "0s", "--tail-fraction", "0"]);
    for key in ["q", "\u{1b}"] {
        let mut run = OnTerminal::start(&target, &["--progress", "bar"]);
        run.wait_for(TAKEN);
        run.wait_for("Ctrl-C stops it");
        assert!(!run.is_as_it_was());
        // A key without a meaning.
        run.press(b"x");
        let before = target.received();
        target.wait_for_requests(&mut run.child, before + 20);
        assert!(!run.shown().contains(GIVEN_BACK), "{}", run.shown());
        run.press(key.as_bytes());
        run.wait_for(GIVEN_BACK);
        let before = target.received();
        target.wait_for_requests(&mut run.child, before + 200);
        run.wait_for("s left  intended ");
        assert!(run.is_as_it_was());
        signal(&run.child, "INT");
        let (code, report) = run.end();
        assert_eq!((code, &report["interrupted"]), (Some(130), &true.into()));
        assert!(100 < report["counts"]["answered"].as_u64().expect("a count"), "{report:#}");
    }
}

#[test]
fn every_end_of_the_run_restores_the_terminal() {
    let target = Target::start(&["--base-latency", "0s", "--tail-fraction", "0"]);
    let mut run = OnTerminal::start(&target, &["--progress", "off"]);
    run.wait_for(TAKEN);
    let before = target.received();
    target.wait_for_requests(&mut run.child, before + 20);
    // Ctrl-C, which is a key in the view.
    run.press(&[3]);
    run.wait_for(GIVEN_BACK);
    let far = run.far.try_clone().expect("a descriptor");
    let (code, report) = run.end();
    assert_eq!((code, &report["interrupted"]), (Some(130), &true.into()));
    assert!(tcgetattr(&far).expect("a terminal").local_modes.contains(LocalModes::ICANON));

    // Two signals end it at once.
    let mut run = OnTerminal::start(&target, &[]);
    run.wait_for(TAKEN);
    until_ended(&mut run.child, "TERM");
    run.shown_at_last(GIVEN_BACK);
    assert!(run.is_as_it_was());
}

#[test]
fn without_a_terminal_it_is_refused() {
    for (line, message) in [
        ("run http://127.0.0.1:1/ --live", "--live: standard error, where it is drawn, isn't a"),
        ("sweep http://127.0.0.1:1/ --rates 1..2 --live", "--live: the view shows one run; omit"),
        ("controller http://127.0.0.1:1/ --agents h:1 --live", "--live: the view shows this"),
        ("run http://127.0.0.1:1/ --live --quiet", "--live"),
    ] {
        let output = binary().args(line.split(' ')).output().expect("the binary runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        assert!(said.contains(message) && said.lines().count() == 1, "{line}: {said}");
    }
}
