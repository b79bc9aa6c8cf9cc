//! Where results go: standard output, and files that appear whole or not at all.
//!
//! A file is opened before the run, so that no run ends with nowhere to put its report. It is
//! written under a temporary name beside the final one and renamed at the end: an existing report
//! stays as it is until the new one is complete, and two runs that write the same report never mix.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::failure::Failure;
use crate::signals::StopRequest;

/// Writes to standard output. A reader that has gone away is not a failure.
///
/// # Errors
/// Any other reason why the text could not be written, such as a full disk.
pub(crate) fn say(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).or_else(stdout_failed)
}

/// Judges a failed write to standard output: a reader that has gone away is fine.
///
/// # Errors
/// Any other reason.
pub(crate) fn stdout_failed(error: io::Error) -> Result<(), Failure> {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Ok(());
    }
    Err(Failure::CouldNotRun(format!("can't write to standard output ({error})")))
}

/// A file named by a flag, open for writing; without [`OutputFile::finish`] it leaves no trace.
#[derive(Debug)]
pub(crate) struct OutputFile {
    flag: &'static str,
    shown: PathBuf,
    destination: Destination,
}

/// Where the bytes go.
#[derive(Debug)]
enum Destination {
    /// A device or a pipe, written directly: a rename over `/dev/null` would replace the device.
    Device(File),
    /// A temporary file, and the name it gets at the end.
    Renamed(NamedTempFile, PathBuf),
}

impl OutputFile {
    /// Opens the file named by `flag`. A signal that ends the program at once removes it.
    ///
    /// # Errors
    /// A path that can't be written, as a usage error.
    pub(crate) fn open(
        flag: &'static str,
        path: &Path,
        stop: &StopRequest,
    ) -> Result<OutputFile, Failure> {
        let refuse = |problem: String, cure: &str| {
            Failure::Usage(format!("{flag} {}: {problem}; {cure}", path.display()))
        };
        let unwritable = |error: io::Error| {
            refuse(
                format!("can't be written ({error})"),
                "name a file in an existing folder where you may write",
            )
        };
        let opened = |destination| OutputFile { flag, shown: path.to_owned(), destination };
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => {
                return Err(refuse("is a folder".to_owned(), "name a file in it"));
            }
            Ok(found) if !found.is_file() => {
                let device = OpenOptions::new().write(true).open(path).map_err(unwritable)?;
                return Ok(opened(Destination::Device(device)));
            }
            Ok(_) => {
                // Opening it for appending shows whether it is writable, and changes nothing.
                OpenOptions::new().append(true).open(path).map_err(unwritable)?;
            }
            Err(_) if path.file_name().is_none() => {
                return Err(refuse("not a file name".to_owned(), "name a file"));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unwritable(error)),
            Err(_) => {}
        }
        // A link stays a link: the file behind it is the one to replace.
        let real = real_path(path);
        let file = stop.covering(|| create_temporary(&real)).map_err(unwritable)?;
        Ok(opened(Destination::Renamed(file, real)))
    }

    /// Fills the file with `write`, makes it durable and gives it its name; returns the path as it
    /// was given.
    ///
    /// # Errors
    /// What went wrong in the file system; the final name then holds what it held before.
    pub(crate) fn finish(
        self,
        write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
    ) -> Result<PathBuf, Failure> {
        let fill = |file: &File| {
            let mut writer = BufWriter::new(file);
            write(&mut writer)?;
            writer.flush()
        };
        let written = match self.destination {
            Destination::Device(device) => fill(&device),
            Destination::Renamed(temporary, path) => fill(temporary.as_file())
                .and_then(|()| temporary.as_file().sync_all())
                .and_then(|()| Ok(temporary.persist(path).map(drop)?)),
        };
        match written {
            Ok(()) => Ok(self.shown),
            Err(error) => Err(Failure::CouldNotRun(format!(
                "{} {}: could not be written ({error}); free some space or name another file, \
                 then run again",
                self.flag,
                self.shown.display()
            ))),
        }
    }
}

/// `FILE.RANDOM.tmp` beside the file, so that the rename stays within one file system. Always a
/// new file, never one that somebody else left under that name.
fn create_temporary(real: &Path) -> io::Result<NamedTempFile> {
    let mut prefix = real.file_name().unwrap_or_default().to_owned();
    prefix.push(".");
    tempfile::Builder::new()
        .prefix(&prefix)
        .suffix(".tmp")
        // Created here, because the crate's own temporary files are private to their user.
        .make_in(folder(real), |path| File::create_new(path))
}

/// Where raw samples are written until they are complete: `FILE.tmp`, beside the file itself.
pub(crate) fn raw_temporary(raw: &Path) -> PathBuf {
    let mut name = real_path(raw).into_os_string();
    name.push(".tmp");
    PathBuf::from(name)
}

/// The path of the file itself, through links, even those to a file that doesn't exist yet. Two
/// names of one file give the same path; a path that doesn't exist comes back unchanged.
fn real_path(path: &Path) -> PathBuf {
    /// The number of links that Linux follows.
    const LINKS_MAX: usize = 40;
    if let Ok(real) = fs::canonicalize(path) {
        return real;
    }
    let mut real = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&real) {
            Ok(to) => real = folder(&real).join(to),
            Err(_) => break,
        }
    }
    match (fs::canonicalize(folder(&real)), real.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => real,
    }
}

/// The folder that a file is in.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Refuses files of one run that would overwrite each other: two results under one name, or a
/// result over a file that the run reads or is still writing. Each file comes with the flag that
/// names it.
///
/// # Errors
/// Both flags and the path, as a usage error.
pub(crate) fn require_distinct(files: &[(&str, PathBuf)]) -> Result<(), Failure> {
    let mut seen: Vec<(&str, PathBuf)> = Vec::new();
    for (name, path) in files {
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            // A device or a pipe takes one text after another; a folder gets its own message.
            continue;
        }
        let real = real_path(path);
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
    use super::*;

    fn open(path: &Path) -> Result<OutputFile, Failure> {
        OutputFile::open("--out", path, &StopRequest::default())
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
            .collect();
        names.sort();
        names
    }

    #[test]
    fn an_old_file_stays_until_the_new_one_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("report.json");
        fs::write(&path, "old").expect("written");

        drop(open(&path).expect("opens"));
        assert_eq!(fs::read_to_string(&path).expect("there"), "old");
        assert_eq!(names(folder.path()), ["report.json"]);

        let failing = open(&path).expect("opens");
        let failure = failing.finish(|_| Err(io::Error::other("disk full"))).expect_err("fails");
        assert!(failure.to_string().contains("disk full"), "{failure}");
        assert_eq!(fs::read_to_string(&path).expect("there"), "old");

        let whole = open(&path).expect("opens");
        whole.finish(|writer| writer.write_all(b"new")).expect("written");
        assert_eq!(fs::read_to_string(&path).expect("there"), "new");
        assert_eq!(names(folder.path()), ["report.json"]);
    }

    #[test]
    fn a_link_keeps_pointing_and_a_device_stays_a_device() {
        let folder = tempfile::tempdir().expect("a folder");
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::write(&real, "old").expect("written");
        std::os::unix::fs::symlink(&real, &link).expect("linked");
        let file = open(&link).expect("opens");
        file.finish(|writer| writer.write_all(b"new")).expect("written");
        assert_eq!(fs::read_to_string(&real).expect("there"), "new");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());

        // So does a link to a file that doesn't exist yet.
        let (later, waiting) = (folder.path().join("later"), folder.path().join("waiting"));
        std::os::unix::fs::symlink("later", &waiting).expect("linked");
        let file = open(&waiting).expect("opens");
        file.finish(|writer| writer.write_all(b"new")).expect("written");
        assert_eq!(fs::read_to_string(&later).expect("there"), "new");
        assert!(fs::symlink_metadata(&waiting).expect("there").is_symlink());

        let null = open(Path::new("/dev/null")).expect("opens");
        null.finish(|writer| writer.write_all(b"gone")).expect("written");
        assert!(!fs::metadata("/dev/null").expect("there").is_file());

        // Like /dev/stdout: a link to a pipe, which has no path.
        use std::io::Read as _;
        use std::os::fd::AsRawFd as _;
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
    fn two_writers_of_one_file_do_not_mix() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("report.json");
        let first = open(&path).expect("opens");
        let second = open(&path).expect("opens");
        let third = open(&path).expect("opens");
        second.finish(|writer| writer.write_all(b"the second, whole")).expect("written");
        first.finish(|writer| writer.write_all(b"the first")).expect("written");
        drop(third);
        assert_eq!(fs::read_to_string(&path).expect("there"), "the first");
        assert_eq!(names(folder.path()), ["report.json"]);
    }

    #[test]
    fn a_report_is_as_readable_as_any_new_file() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let mode = |name: &str| {
            fs::metadata(folder.path().join(name)).expect("there").permissions().mode()
        };
        let file = open(&folder.path().join("report.json")).expect("opens");
        file.finish(|writer| writer.write_all(b"new")).expect("written");
        fs::write(folder.path().join("other"), "new").expect("written");
        assert_eq!(mode("report.json"), mode("other"));
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
    fn what_cannot_be_written_is_refused_with_flag_value_and_cure() {
        let folder = tempfile::tempdir().expect("a folder");
        for (path, word) in [
            (folder.path().to_owned(), "is a folder"),
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
