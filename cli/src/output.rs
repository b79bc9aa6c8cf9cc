//! The destinations of results: standard output, and files that appear whole or not at all.
//!
//! If a result goes to standard output, `-`, all other text goes to standard error from then on. A
//! file is opened before the run, so that a run never ends without a place for its report. Anything
//! that isn't a regular file by its own name, such as a pipe or `/dev/stdout`, is written directly.

use std::fmt::Display;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::mem;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use engine::sys::whole_file::{Place, WholeFile, WholeFileError};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::stdio::dup2_stdout;

use crate::failure::Failure;
use crate::signals::StopRequest;

/// The name of standard output.
pub(crate) const STDOUT: &str = "-";

/// Writes to standard output, in colour only where that works and is wanted. A reader that has gone
/// away is not a failure.
///
/// # Errors
/// Any other reason why the text could not be written, such as a full disk.
pub(crate) fn say(text: &str) -> Result<(), Failure> {
    let mut stdout = anstream::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).or_else(stdout_failed)
}

/// Judges a failed write to standard output: it is fine if the reader has gone away.
///
/// # Errors
/// Any other reason.
pub(crate) fn stdout_failed(error: io::Error) -> Result<(), Failure> {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Ok(());
    }
    Err(Failure::CouldNotRun(format!("can't write to standard output ({error})")))
}

/// A file named by a flag, open for writing; without [`OutputFile::finish`] or
/// [`OutputFile::append`] it leaves no trace.
#[derive(Debug)]
pub(crate) struct OutputFile {
    flag: String,
    shown: PathBuf,
    destination: Destination,
}

/// The destination of the bytes.
#[derive(Debug)]
enum Destination {
    /// A device, a pipe or an open descriptor, written directly: a rename would replace it.
    Through(File),
    /// A regular file.
    Whole(WholeFile),
}

impl OutputFile {
    /// Opens the file named by `flag`. A signal that ends the program at once removes it.
    ///
    /// # Errors
    /// A path that can't be written, as a usage error.
    pub(crate) fn open(flag: &str, path: &Path, stop: &StopRequest) -> Result<OutputFile, Failure> {
        let refuse = |problem: String, cure: &str| {
            Failure::Usage(format!("{flag} {}: {problem}; {cure}", path.display()))
        };
        let unwritable = "name a file in an existing folder where you may write";
        if path == Path::new(STDOUT) {
            let file = take_stdout().map_err(|error| {
                Failure::CouldNotRun(format!("{flag} -: standard output can't be taken ({error})"))
            })?;
            require_writable(&file).map_err(|error| refuse(error, "redirect it elsewhere"))?;
            let shown = PathBuf::from("standard output");
            let destination = Destination::Through(file);
            return Ok(OutputFile { flag: flag.to_owned(), shown, destination });
        }
        let destination = if is_written_through(path) {
            let file = open_through(path).map_err(|error| {
                let is_pipe = fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo());
                match Errno::from_io_error(&error) {
                    Some(Errno::NXIO) if is_pipe => {
                        refuse("this pipe has no reader".to_owned(), "start one first")
                    }
                    _ => refuse(format!("can't be written ({error})"), unwritable),
                }
            })?;
            require_writable(&file).map_err(|error| refuse(error, "name another"))?;
            Destination::Through(file)
        } else {
            let created = stop.covering(|| {
                let file = WholeFile::create(path)?;
                let temporary = file.temporary().to_owned();
                Ok((file, Some(temporary)))
            });
            Destination::Whole(created.map_err(|error: WholeFileError| {
                let cure = match error {
                    WholeFileError::Folder => "name a file in it",
                    WholeFileError::NoName => "name a file",
                    _ => unwritable,
                };
                refuse(error.to_string(), cure)
            })?)
        };
        Ok(OutputFile { flag: flag.to_owned(), shown: path.to_owned(), destination })
    }

    /// Lets only its user read the file; what is written directly, as to a pipe, stays as it is.
    ///
    /// # Errors
    /// The file system refuses.
    pub(crate) fn keep_private(&self) -> Result<(), Failure> {
        let Destination::Whole(file) = &self.destination else { return Ok(()) };
        let private = file.file().set_permissions(Permissions::from_mode(0o600));
        private.map_err(|error| not_written(&self.flag, &self.shown, &error.to_string()))
    }

    /// Fills the file with `write`, makes it durable and gives it its name; returns the path as
    /// given.
    ///
    /// # Errors
    /// The file system failed; the final name then has its earlier content.
    pub(crate) fn finish(
        self,
        write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
    ) -> Result<PathBuf, Failure> {
        let fill = |file: &File| {
            let mut writer = BufWriter::new(file);
            let filled = write(&mut writer).and_then(|()| writer.flush());
            filled.map_err(|error| error.to_string())
        };
        let written = match self.destination {
            Destination::Through(file) => fill(&file),
            Destination::Whole(file) => fill(file.file())
                .and_then(|()| file.publish().map(drop).map_err(|error| error.to_string())),
        };
        match written {
            Ok(()) => Ok(self.shown),
            Err(error) => Err(not_written(&self.flag, &self.shown, &error)),
        }
    }

    /// Adds to a file that is read while it is written: it has its name from the first time on.
    ///
    /// # Errors
    /// The file system failed.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.under_its_name()
            .and_then(|mut file| file.write_all(bytes).map_err(|error| error.to_string()))
            .map_err(|error| not_written(&self.flag, &self.shown, &error))
    }

    /// The file under its name.
    fn under_its_name(&mut self) -> Result<&File, String> {
        if let Destination::Whole(file) = &self.destination {
            let same = file.file().try_clone().map_err(|error| error.to_string())?;
            let unnamed = mem::replace(&mut self.destination, Destination::Through(same));
            if let Destination::Whole(file) = unnamed {
                file.publish().map_err(|error| error.to_string())?;
            }
        }
        match &self.destination {
            Destination::Through(file) => Ok(file),
            Destination::Whole(file) => Ok(file.file()),
        }
    }

    /// The path as given.
    pub(crate) fn shown(&self) -> &Path {
        &self.shown
    }
}

/// The written results of a run: one that fails doesn't affect the others.
#[derive(Default)]
pub(crate) struct Results {
    /// The complete files, by their given names.
    pub(crate) written: Vec<String>,
    /// Why others are missing.
    pub(crate) failures: Vec<Failure>,
}

impl Results {
    /// Notes the result of writing one file.
    pub(crate) fn add(&mut self, written: Result<PathBuf, Failure>) {
        match written {
            Ok(path) => self.written.push(path.display().to_string()),
            Err(failure) => self.failures.push(failure),
        }
    }

    /// Reports the failures and returns the exit code: that of the last one, else `done`.
    pub(crate) fn exit_code(&self, done: ExitCode) -> ExitCode {
        self.failures.iter().fold(done, |_, failure| failure.report())
    }
}

/// Tests whether a device accepts writes, by writing nothing to it.
fn require_writable(mut file: &File) -> Result<(), String> {
    let is_device = file.metadata().is_ok_and(|found| found.file_type().is_char_device());
    let tried = if is_device { file.write(&[]).map(drop) } else { Ok(()) };
    tried.map_err(|error| format!("can't be written ({error})"))
}

fn not_written(flag: &str, shown: &Path, error: &str) -> Failure {
    Failure::CouldNotRun(format!(
        "{flag} {}: could not be written ({error}); free some space or name another file, then run \
         again",
        shown.display()
    ))
}

/// Reserves standard output for a result: all other text goes to standard error.
fn take_stdout() -> io::Result<File> {
    let taken = io::stdout().as_fd().try_clone_to_owned()?;
    dup2_stdout(io::stderr())?;
    Ok(File::from(taken))
}

/// True unless this path is a regular file by its own name.
pub(crate) fn is_written_through(path: &Path) -> bool {
    matches!(Place::of(path), Place::Descriptor(_))
        || fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Opens a device, a pipe or a descriptor. A pipe without a reader is refused; a plain open would
/// wait for one.
fn open_through(path: &Path) -> io::Result<File> {
    if let Place::Descriptor(link) = Place::of(path)
        && link.parent().is_some_and(is_own_descriptors)
    {
        // Its copy shares the position, so that later text comes after the report.
        let copy = match link.file_name().and_then(|name| name.to_str()) {
            Some("1") => Some(io::stdout().as_fd().try_clone_to_owned()),
            Some("2") => Some(io::stderr().as_fd().try_clone_to_owned()),
            _ => None,
        };
        if let Some(copy) = copy {
            return copy.map(File::from);
        }
    }
    // Another descriptor of a regular file: a new one would begin at its start.
    let append = fs::metadata(path).is_ok_and(|found| found.is_file());
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).expect("a flag of open");
    let file = OpenOptions::new().write(true).append(append).custom_flags(flags).open(path)?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// True for the folder of this process's own descriptors.
fn is_own_descriptors(folder: &Path) -> bool {
    fs::canonicalize("/proc/self/fd").is_ok_and(|own| own == folder)
}

/// Refuses files of one run that would overwrite each other: two results under one name, or a
/// result over a file that the run reads or is still writing. Each file comes with the flag that
/// names it.
///
/// # Errors
/// Both flags and the path, as a usage error.
pub(crate) fn require_distinct(files: &[(impl Display, PathBuf)]) -> Result<(), Failure> {
    let mut seen: Vec<(&dyn Display, PathBuf)> = Vec::new();
    for (name, path) in files {
        // A device or a pipe takes one text after another; a folder gets its own message.
        let Place::Named(real) = Place::of(path) else { continue };
        if fs::metadata(&real).is_ok_and(|found| !found.is_file()) {
            continue;
        }
        if let Some((other, _)) = seen.iter().find(|(_, other)| *other == real) {
            return Err(Failure::Usage(format!(
                "{name} {}: {other} names the same file; give each its own",
                path.display()
            )));
        }
        seen.push((name, real));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};
    use std::os::fd::AsRawFd as _;

    use super::*;

    fn open(path: &Path) -> Result<OutputFile, Failure> {
        OutputFile::open("--out", path, &StopRequest::default())
    }

    #[test]
    fn a_file_that_could_not_be_filled_leaves_no_trace() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("report.json");
        fs::write(&path, "old").expect("written");
        let failing = open(&path).expect("opens");
        let failure = failing.finish(|_| Err(io::Error::other("disk full"))).expect_err("fails");
        assert!(failure.to_string().contains("disk full"), "{failure}");
        assert_eq!(fs::read_to_string(&path).expect("there"), "old");
        let whole = open(&path).expect("opens");
        whole.finish(|writer| writer.write_all(b"new")).expect("written");
        assert_eq!(fs::read_to_string(&path).expect("there"), "new");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }

    #[test]
    fn a_device_stays_a_device_and_a_pipe_is_written_through() {
        let null = open(Path::new("/dev/null")).expect("opens");
        null.finish(|writer| writer.write_all(b"gone")).expect("written");
        assert!(!fs::metadata("/dev/null").expect("there").is_file());

        // A link to a pipe, which has no path.
        let (mut reader, pipe) = io::pipe().expect("a pipe");
        let shown = PathBuf::from(format!("/proc/self/fd/{}", pipe.as_raw_fd()));
        let file = open(&shown).expect("opens");
        file.finish(|writer| writer.write_all(b"through")).expect("written");
        drop(pipe);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("text");
        assert_eq!(text, "through");
    }

    #[test]
    fn a_descriptor_of_a_regular_file_is_appended_to_and_the_file_stays() {
        let mut log = tempfile::tempfile().expect("a file without a name");
        log.write_all(b"before ").expect("written");
        let shown = PathBuf::from(format!("/proc/self/fd/{}", log.as_raw_fd()));
        let file = open(&shown).expect("opens");
        file.finish(|writer| writer.write_all(b"through")).expect("written");
        log.rewind().expect("it is a file");
        let mut text = String::new();
        log.read_to_string(&mut text).expect("text");
        assert_eq!(text, "before through");
    }

    #[test]
    fn a_full_device_is_refused_before_the_run() {
        let failure = open(Path::new("/dev/full")).expect_err("refused");
        let text = failure.to_string();
        assert!(matches!(failure, Failure::Usage(_)), "{text}");
        assert!(text.starts_with("--out /dev/full: can't be written (No space left"), "{text}");
        assert!(text.ends_with("; name another"), "{text}");
    }

    #[test]
    fn a_pipe_without_a_reader_is_refused_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).expect("made");
        let failure = open(&path).expect_err("refused");
        assert!(matches!(failure, Failure::Usage(_)), "{failure}");
        let line = format!("--out {}: this pipe has no reader; start one first", path.display());
        assert_eq!(failure.to_string(), line);
    }

    #[test]
    fn one_file_under_two_names_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("inner")).expect("made");
        std::os::unix::fs::symlink("b", path("link")).expect("linked");
        for (one, other) in [("a", "a"), ("a", "inner/../a"), ("b", "link"), ("link", "b")] {
            let failure = require_distinct(&[("--out", path(one)), ("--csv", path(other))])
                .expect_err("the same");
            let text = failure.to_string();
            assert!(matches!(failure, Failure::Usage(_)), "{text}");
            assert!(text.starts_with("--csv ") && text.contains("--out"), "{text}");
        }
        require_distinct(&[("--out", path("a")), ("--csv", path("b"))]).expect("two files");
        let null = || PathBuf::from("/dev/null");
        require_distinct(&[("--out", null()), ("--csv", null())]).expect("a device takes all");
    }

    #[test]
    fn an_unwritable_file_is_refused_with_flag_value_and_cure() {
        let folder = tempfile::tempdir().expect("a folder");
        for (path, word) in [
            (folder.path().to_owned(), "is a folder; name a file in it"),
            (folder.path().join("none/report.json"), "can't be written"),
            (PathBuf::new(), "not a file name"),
        ] {
            let failure = open(&path).expect_err("refused");
            assert!(matches!(failure, Failure::Usage(_)), "{failure}");
            let text = failure.to_string();
            assert!(text.starts_with("--out ") && text.contains(word), "{text}");
        }
    }
}
