//! Where results go: standard output, and files that are whole or absent.
//!
//! A file is opened before the run, so that a run never ends with nowhere to put its report. It is written beside its final
//! name and renamed at the end: an existing report stays as it is until the new one is complete.

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

    fn create(flag: &'static str, path: &Path) -> Result<OutputFile, Failure> {
        let refuse = |problem: String, cure: &str| {
            Failure::Usage(format!("{flag} {}: {problem}; {cure}", path.display()))
        };
        let unwritable = |error: io::Error| {
            refuse(
                format!("can't be written ({error})"),
                "name a file in a folder that exists and is yours to write",
            )
        };
        // A link stays a link: the file behind it is the one to replace.
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let rename = match fs::metadata(&real) {
            Ok(found) if found.is_dir() => {
                return Err(refuse("is a folder".to_owned(), "name a file in it"));
            }
            Ok(found) if !found.is_file() => None,
            Ok(_) => {
                // Opening it for appending changes nothing and shows whether it may be written.
                OpenOptions::new().append(true).open(&real).map_err(unwritable)?;
                Some((temporary(&real), real.clone()))
            }
            Err(_) if real.file_name().is_none() => {
                return Err(refuse("is no file name".to_owned(), "name a file"));
            }
            Err(_) => Some((temporary(&real), real.clone())),
        };
        let file = match &rename {
            Some((temporary, _)) => File::create(temporary),
            None => OpenOptions::new().write(true).open(&real),
        };
        let writer = BufWriter::new(file.map_err(unwritable)?);
        Ok(OutputFile { flag, shown: path.to_owned(), rename, writer })
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

/// `FILE.tmp` in the folder of the file, so that the rename stays within one file system. A link stays a link: it is the folder
/// of the file behind it.
pub(crate) fn temporary(path: &Path) -> PathBuf {
    let mut name = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()).into_os_string();
    name.push(".tmp");
    PathBuf::from(name)
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

        let null = OutputFile::create("--out", Path::new("/dev/null")).expect("opens");
        null.finish(|writer| writer.write_all(b"gone")).expect("written");
        assert!(!fs::metadata("/dev/null").expect("there").is_file());
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
