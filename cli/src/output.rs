//! Where results go: standard output, and files that are whole or absent.
//!
//! A file is opened before the run, so that a run never ends with nowhere to put its report. It is written beside its final
//! name, under one that no other process uses, and renamed at the end: an existing report stays as it is until the new one is
//! complete, and of two runs that write the same report each is whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::signals::StopRequest;

/// Writes to standard output. A reader that has gone away is no failure.
///
/// # Errors
/// Any other reason why the text could not be written, such as a full disk.
pub(crate) fn say(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).or_else(stdout_failed)
}

/// What it means that standard output took no more: nothing when its reader has gone away.
///
/// # Errors
/// Any other reason.
pub(crate) fn stdout_failed(error: io::Error) -> Result<(), Failure> {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Ok(());
    }
    Err(Failure::CouldNotRun(format!("standard output can't be written ({error})")))
}

/// Writes a line to standard error. When that is gone as well, nobody is left to tell.
pub(crate) fn complain(line: &str) {
    let _ = writeln!(io::stderr(), "truetail: {line}");
}

/// A file that a flag names, open for writing; without [`OutputFile::finish`] it leaves no trace.
#[derive(Debug)]
pub(crate) struct OutputFile {
    flag: &'static str,
    shown: PathBuf,
    /// Where the bytes go until the end, and the name that they get then. `None` for a device or a pipe, which is written to
    /// as it is: renaming a file over `/dev/null` would replace the device.
    rename: Option<(PathBuf, PathBuf)>,
    writer: BufWriter<File>,
}

impl OutputFile {
    /// Opens what `flag` names; a signal that ends the program at once leaves no trace of it either.
    ///
    /// # Errors
    /// A path that can't be written, as a usage error.
    pub(crate) fn open(
        flag: &'static str,
        path: &Path,
        stop: &StopRequest,
    ) -> Result<OutputFile, Failure> {
        let file = OutputFile::create(flag, path)?;
        if let Some((temporary, _)) = &file.rename {
            stop.covers(temporary.clone());
        }
        Ok(file)
    }

    /// Opens what `flag` names.
    ///
    /// # Errors
    /// A path that can't be written, as a usage error.
    pub(crate) fn create(flag: &'static str, path: &Path) -> Result<OutputFile, Failure> {
        let refuse = |problem: String, cure: &str| {
            Failure::Usage(format!("{flag} {}: {problem}; {cure}", path.display()))
        };
        let unwritable = |error: io::Error| {
            refuse(
                format!("can't be written ({error})"),
                "name a file in a folder that exists and is yours to write",
            )
        };
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => {
                return Err(refuse("is a folder".to_owned(), "name a file in it"));
            }
            Ok(found) if !found.is_file() => {
                let device = OpenOptions::new().write(true).open(path).map_err(unwritable)?;
                let writer = BufWriter::new(device);
                return Ok(OutputFile { flag, shown: path.to_owned(), rename: None, writer });
            }
            Ok(_) => {
                // Opening it for appending changes nothing and shows whether it may be written.
                OpenOptions::new().append(true).open(path).map_err(unwritable)?;
            }
            Err(_) if path.file_name().is_none() => {
                return Err(refuse("is no file name".to_owned(), "name a file"));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unwritable(error)),
            Err(_) => {}
        }
        // A link stays a link: the file behind it is the one to replace.
        let real = real_path(path);
        let (file, temporary) = create_temporary(&real).map_err(unwritable)?;
        Ok(OutputFile {
            flag,
            shown: path.to_owned(),
            rename: Some((temporary, real)),
            writer: BufWriter::new(file),
        })
    }

    /// Fills the file by `write`, makes it durable and gives it its name; the answer is the path as it was given.
    ///
    /// # Errors
    /// What went wrong in the file system; the final name then holds what it held before.
    pub(crate) fn finish(
        mut self,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<PathBuf, Failure> {
        let written = write(&mut self.writer).and_then(|()| self.writer.flush()).and_then(|()| {
            match &self.rename {
                None => Ok(()),
                Some((temporary, path)) => {
                    self.writer.get_ref().sync_all()?;
                    fs::rename(temporary, path)
                }
            }
        });
        match written {
            Ok(()) => {
                self.rename = None;
                Ok(self.shown.clone())
            }
            Err(error) => Err(Failure::CouldNotRun(format!(
                "{} {}: could not be written ({error}); free some space or name another file, and run again",
                self.flag,
                self.shown.display()
            ))),
        }
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some((temporary, _)) = &self.rename {
            // It is the remains of a run that has no report; nobody misses it.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// `FILE.PID.tmp` in the folder of the file, so that the rename stays within one file system, and its name. It is always a new
/// file: what has the name already is another's, such as the remains of a process that had this one's number and was killed.
fn create_temporary(real: &Path) -> io::Result<(File, PathBuf)> {
    let mut attempt = 0;
    loop {
        let mut name = real.as_os_str().to_owned();
        name.push(format!(".{}", std::process::id()));
        if 0 < attempt {
            name.push(format!("-{attempt}"));
        }
        name.push(".tmp");
        let temporary = PathBuf::from(name);
        match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 100 => {
                attempt += 1;
            }
            opened => return opened.map(|file| (file, temporary)),
        }
    }
}

/// Where raw samples are written until they are whole: `FILE.tmp`, beside the file behind a link.
pub(crate) fn raw_temporary(raw: &Path) -> PathBuf {
    let mut name = real_path(raw).into_os_string();
    name.push(".tmp");
    PathBuf::from(name)
}

/// The path of the file itself: through links, also those that lead to no file yet. Two names of one file are equal so, and
/// what doesn't exist comes back as it is.
fn real_path(path: &Path) -> PathBuf {
    /// As many links as Linux follows.
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

/// Refuses what would be written over something else of the same run: two results under one name, or a result over a file that
/// the run reads or still writes. Each file comes with what names it: a flag, or a flag and why.
///
/// # Errors
/// Both of their names and the path, as a usage error.
pub(crate) fn require_distinct(files: &[(&str, PathBuf)]) -> Result<(), Failure> {
    let mut seen: Vec<(&str, PathBuf)> = Vec::new();
    for (name, path) in files {
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            // A device or a pipe takes one text after the other; a folder is refused in its own words.
            continue;
        }
        let real = real_path(path);
        if let Some((other, _)) = seen.iter().find(|(_, other)| *other == real) {
            return Err(Failure::Usage(format!(
                "{name} {}: is the file of {other} as well; name a file for each",
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

        drop(OutputFile::create("--out", &path).expect("opens"));
        assert_eq!(fs::read_to_string(&path).expect("there"), "old");
        assert_eq!(names(folder.path()), ["report.json"]);

        let failing = OutputFile::create("--out", &path).expect("opens");
        let failure = failing.finish(|_| Err(io::Error::other("disk full"))).expect_err("fails");
        assert!(failure.to_string().contains("disk full"), "{failure}");
        assert_eq!(fs::read_to_string(&path).expect("there"), "old");

        let whole = OutputFile::create("--out", &path).expect("opens");
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
        let file = OutputFile::create("--out", &link).expect("opens");
        file.finish(|writer| writer.write_all(b"new")).expect("written");
        assert_eq!(fs::read_to_string(&real).expect("there"), "new");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());

        // A link to a file that is yet to come keeps pointing as well.
        let (later, waiting) = (folder.path().join("later"), folder.path().join("waiting"));
        std::os::unix::fs::symlink("later", &waiting).expect("linked");
        let file = OutputFile::create("--out", &waiting).expect("opens");
        file.finish(|writer| writer.write_all(b"new")).expect("written");
        assert_eq!(fs::read_to_string(&later).expect("there"), "new");
        assert!(fs::symlink_metadata(&waiting).expect("there").is_symlink());

        let null = OutputFile::create("--out", Path::new("/dev/null")).expect("opens");
        null.finish(|writer| writer.write_all(b"gone")).expect("written");
        assert!(!fs::metadata("/dev/null").expect("there").is_file());

        // As /dev/stdout is: a link to a pipe, which has no path.
        use std::io::Read as _;
        use std::os::fd::AsRawFd as _;
        let (mut reader, pipe) = io::pipe().expect("a pipe");
        let shown = PathBuf::from(format!("/proc/self/fd/{}", pipe.as_raw_fd()));
        let file = OutputFile::create("--out", &shown).expect("opens");
        file.finish(|writer| writer.write_all(b"through")).expect("written");
        drop(pipe);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("text");
        assert_eq!(text, "through");
    }

    #[test]
    fn no_temporary_name_is_anothers() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("report.json");
        let others = [".tmp".to_owned(), format!(".{}.tmp", std::process::id())];
        let others = others.map(|end| folder.path().join(format!("report.json{end}")));
        for other in &others {
            fs::write(other, "another's").expect("written");
        }
        // Two writers of one file at the same time: the last to end has the name, and nothing is mixed.
        let first = OutputFile::create("--out", &path).expect("opens");
        let second = OutputFile::create("--out", &path).expect("opens");
        let third = OutputFile::create("--out", &path).expect("opens");
        second.finish(|writer| writer.write_all(b"the second, whole")).expect("written");
        first.finish(|writer| writer.write_all(b"the first")).expect("written");
        drop(third);
        assert_eq!(fs::read_to_string(&path).expect("there"), "the first");
        for other in &others {
            assert_eq!(fs::read_to_string(other).expect("there"), "another's");
        }
        assert_eq!(names(folder.path()).len(), 3, "{:?}", names(folder.path()));
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
            (PathBuf::new(), "is no file name"),
        ] {
            let failure = OutputFile::create("--out", &path).expect_err("refused");
            assert!(matches!(failure, Failure::Usage(_)), "{failure}");
            let text = failure.to_string();
            assert!(text.starts_with("--out ") && text.contains(word), "{text}");
        }
    }
}
