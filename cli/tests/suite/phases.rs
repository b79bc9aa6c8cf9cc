//! The phases of a run, each held open for as long as a test needs.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Target, binary, bounded, document, wait_until};

/// A phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Connections are opened; load that settles their number.
    Setup,
    /// Load that isn't recorded.
    Warmup,
    /// The recorded window.
    Window,
    /// Responses are awaited.
    Drain,
    /// The report is written.
    Writing,
}

impl Phase {
    /// All of them.
    pub const ALL: [Phase; 5] =
        [Phase::Setup, Phase::Warmup, Phase::Window, Phase::Drain, Phase::Writing];
    /// The flags that make a run stay in this phase.
    fn flags(self) -> &'static [&'static str] {
        match self {
            Phase::Setup => &["--settle", "1h", "--warmup", "1h", "--duration", "1h"],
            Phase::Warmup => &["--settle", "0s", "--warmup", "1h", "--duration", "1h"],
            Phase::Window => &["--warmup", "0s", "--duration", "1h"],
            Phase::Drain => &["--warmup", "0s", "--duration", "200ms", "--timeout", "1h"],
            Phase::Writing => &["--warmup", "0s", "--duration", "200ms"],
        }
    }

    /// A target for runs that are held in this phase.
    pub fn target(self) -> Target {
        let latency = if self == Phase::Drain { "1h" } else { "0s" };
        Target::start(&["--base-latency", latency])
    }
}

/// The files of a run, by its flags.
const FLAGS: [(&str, &str); 4] =
    [("--out", FILES[0]), ("--hdr", FILES[1]), ("--csv", FILES[3]), ("--raw", FILES[4])];
/// All its files: `--hdr` writes two.
pub const FILES: [&str; 5] = ["report.json", "run.hlog", "run.hgrm", "run.csv", "raw.bin"];

/// A run that stays in a phase.
pub struct Held {
    /// Its process.
    pub child: Child,
    /// Its folder.
    pub folder: TempDir,
    /// Reads its report while it is written.
    pipe: Option<File>,
}

impl Held {
    /// Starts a run of these further flags and waits until it has come to a phase.
    pub fn start(phase: Phase, target: &Target, flags: &[&str]) -> Held {
        Held::start_as(&mut binary(), phase, target, flags)
    }

    /// [`Held::start`] by a command that executes its arguments.
    pub fn start_as(command: &mut Command, phase: Phase, target: &Target, flags: &[&str]) -> Held {
        let folder = tempfile::tempdir().expect("a folder");
        // A full pipe with a reader that doesn't read holds the run while it writes its report.
        let pipe = (phase == Phase::Writing).then(|| full_pipe(&folder.path().join(FILES[0])));
        for name in FILES.iter().skip(usize::from(pipe.is_some())) {
            fs::write(folder.path().join(name), OLD).expect("written");
        }
        let before = target.received();
        let mut child = command
            .args(["run", &target.url, "--arrivals", "constant", "--allow-invalid", "--quiet"])
            .args(if flags.contains(&"--rate") { &[][..] } else { &["--rate", "50"] })
            .args(phase.flags())
            .args(FLAGS.iter().flat_map(|(flag, name)| [flag, name]))
            .args(flags)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        if phase == Phase::Writing {
            let raw = folder.path().join("raw.bin");
            wait_until(&mut child, || is_new(&raw));
        } else {
            target.wait_for_requests(&mut child, before + 10);
        }
        if phase == Phase::Drain {
            // The last of ten requests is due 20 ms before the window's end, and never sent
            // earlier.
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(child.try_wait().expect("it is ours"), None, "{phase:?} lasts");
        Held { child, folder, pipe }
    }

    /// Its end and its files.
    pub fn end(self) -> Ended {
        let Held { child, folder, pipe } = self;
        let reader = pipe.map(|pipe| thread::spawn(move || read_all(pipe)));
        let output = bounded(child);
        let written = reader.map(|reader| reader.join().expect("it reads"));
        Ended { output, folder, written }
    }
}

/// The content of the files before the run.
const OLD: &str = "of an earlier run";

fn is_new(path: &Path) -> bool {
    // Reading the pipe would wait for a writer.
    let is_pipe = fs::metadata(path).is_ok_and(|found| !found.is_file());
    is_pipe || fs::read(path).is_ok_and(|bytes| bytes != OLD.as_bytes())
}

/// A named pipe that takes no more bytes.
fn full_pipe(path: &Path) -> File {
    /// Linux's O_NONBLOCK: a full pipe refuses what is written.
    const O_NONBLOCK: i32 = 0o4000;
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo runs").success());
    let pipe = OpenOptions::new().read(true).write(true).custom_flags(O_NONBLOCK).open(path);
    let pipe = pipe.expect("it opens");
    // Space before a document belongs to it.
    while (&pipe).write(&[b' '; 4_096]).is_ok() {}
    pipe
}

/// The bytes written to a pipe until nothing has come for a while. We hold it open for writing, so
/// it has no end.
fn read_all(mut pipe: File) -> Vec<u8> {
    let (mut read, mut idle) = (Vec::new(), 0);
    let mut bytes = [0; 65_536];
    while idle < 100 {
        match pipe.read(&mut bytes) {
            Ok(length) => {
                read.extend(&bytes[..length]);
                idle = 0;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                idle += 1;
                thread::sleep(Duration::from_millis(10));
            }
            Err(error) => panic!("{error}"),
        }
    }
    read
}

/// A run that has ended.
pub struct Ended {
    /// Its exit code and its last output.
    pub output: Output,
    /// Its folder.
    pub folder: TempDir,
    written: Option<Vec<u8>>,
}

impl Ended {
    /// Its report; `None` if it wrote none.
    pub fn report(&self) -> Option<Value> {
        match &self.written {
            Some(written) => serde_json::from_slice(written).ok(),
            None => self.is_new("report.json").then(|| document(&self.path("report.json"))),
        }
    }

    /// A file of its folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// True if a file is from this run. A file of an earlier one is unchanged.
    pub fn is_new(&self, name: &str) -> bool {
        is_new(&self.path(name))
    }

    /// The files of this run; asserts that the only others are those of an earlier one.
    pub fn files(&self) -> Vec<&'static str> {
        let entries = fs::read_dir(self.folder.path()).expect("a folder");
        for entry in entries {
            let name = entry.expect("an entry").file_name();
            assert!(FILES.iter().any(|file| name == *file), "{name:?} remains");
        }
        FILES.into_iter().filter(|name| self.is_new(name)).collect()
    }

    /// All its output.
    pub fn said(&self) -> String {
        let texts = [&self.output.stdout, &self.output.stderr];
        texts.map(|text| String::from_utf8_lossy(text).into_owned()).concat()
    }

    /// Asserts that the report is whole, by its samples.
    pub fn assert_verified(&self) {
        let verify = ["verify", "report.json", "--raw", "raw.bin"];
        let output = binary().args(verify).current_dir(self.folder.path()).output();
        let output = output.expect("the binary runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{said}");
    }
}
