//! A file for a document: opened early, so that errors show early, then written completely or not
//! at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use tempfile::NamedTempFile;

/// The destination that a flag such as `--ledger` names.
pub(crate) enum WholeFile {
    /// A device, a pipe or an open descriptor, written in place: a file renamed over `/dev/null`
    /// would replace the device. It stays open, because the reader of a pipe takes the first close
    /// as the end.
    InPlace(File),
    /// A regular file, written under a temporary name of its own and then renamed.
    Whole {
        /// The file until it is complete.
        temporary: NamedTempFile,
        /// Its final name.
        path: PathBuf,
    },
}

impl WholeFile {
    /// Opens the destination of a document; dropped, it leaves no trace.
    ///
    /// # Errors
    /// If `path` is a folder or has no file name, can't be written, or is a pipe without a reader.
    pub(crate) fn open(path: &Path) -> io::Result<WholeFile> {
        let in_place = fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
        if in_place || is_descriptor(path) {
            return open_in_place(path).map(WholeFile::InPlace);
        }
        // The file behind a link is the one to replace, so that the link stays.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        match fs::metadata(&path) {
            Ok(found) if found.is_dir() => {
                return Err(io::Error::from(io::ErrorKind::IsADirectory));
            }
            // Opening for append shows whether the file is writable and changes nothing.
            Ok(_) => drop(OpenOptions::new().append(true).open(&path)?),
            Err(_) => {}
        }
        let Some(name) = path.file_name() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no file name"));
        };
        let mut prefix = name.to_owned();
        prefix.push(".");
        let temporary = tempfile::Builder::new()
            .prefix(&prefix)
            .suffix(".tmp")
            // Created here, because the crate's own temporary files are readable only by their
            // user.
            .make_in(folder_of(&path), |path| File::create_new(path))?;
        Ok(WholeFile::Whole { temporary, path })
    }

    /// The file's temporary name, if it has one.
    pub(crate) fn temporary(&self) -> Option<&Path> {
        match self {
            WholeFile::InPlace(_) => None,
            WholeFile::Whole { temporary, .. } => Some(temporary.path()),
        }
    }

    /// Writes the document; a regular file is synced under its temporary name, then renamed.
    ///
    /// # Errors
    /// If the file can't be written or renamed. Half a document is useless, so none is left.
    pub(crate) fn write(self, document: &str) -> io::Result<()> {
        match self {
            WholeFile::InPlace(mut file) => file.write_all(document.as_bytes()),
            WholeFile::Whole { mut temporary, path } => {
                temporary.write_all(document.as_bytes())?;
                temporary.as_file().sync_all()?;
                Ok(temporary.persist(path).map(drop)?)
            }
        }
    }
}

/// Opens a device, a pipe or a descriptor. A pipe without a reader is refused, where a plain open
/// would wait for one. A descriptor may refer to a regular file, which may have other content.
fn open_in_place(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).expect("a flag of open");
    let append = fs::metadata(path)?.is_file();
    let opened = OpenOptions::new().write(true).append(append).custom_flags(flags).open(path);
    let file = opened.map_err(|error| {
        let is_pipe = fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo());
        let unread = is_pipe && error.raw_os_error() == Some(libc::ENXIO);
        if unread { io::Error::other("this pipe has no reader") } else { error }
    })?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// True if a path leads to an open descriptor, such as `/dev/stdout`: the kernel shows it as a link
/// to its file, but the descriptor is meant.
fn is_descriptor(path: &Path) -> bool {
    let mut link = path.to_owned();
    // As many links as Linux follows.
    for _ in 0..40 {
        let (Ok(folder), Ok(to)) = (fs::canonicalize(folder_of(&link)), fs::read_link(&link))
        else {
            return false;
        };
        if folder.starts_with("/proc") {
            return true;
        }
        link = folder.join(to);
    }
    false
}

/// The folder of a file: its temporary name is there too, so that the rename stays within one file
/// system.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
