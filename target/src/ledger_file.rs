//! The ledger file: checked before the run, then written completely or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::Ledger;

/// What `--ledger` points to.
pub(crate) enum LedgerFile {
    /// A device or a pipe, written in place: a file renamed over `/dev/null` would replace the
    /// device. It stays open, because the reader of a pipe takes the first close as the end.
    Device(File),
    /// A regular file, written under a temporary name and then renamed.
    Regular {
        /// Its name until it is complete.
        temporary: PathBuf,
        /// Its final name.
        path: PathBuf,
    },
}

impl LedgerFile {
    /// Checks that a ledger can be written to `path` and leaves no trace. A named pipe waits for
    /// its reader.
    ///
    /// # Errors
    /// If `path` is a folder or has no file name, or can't be written.
    pub(crate) fn open(path: &Path) -> io::Result<LedgerFile> {
        let real = real(path);
        match fs::metadata(&real) {
            Ok(found) if found.is_dir() => {
                return Err(io::Error::from(io::ErrorKind::IsADirectory));
            }
            Ok(found) if !found.is_file() => {
                return OpenOptions::new().write(true).open(&real).map(LedgerFile::Device);
            }
            // Opening for append shows whether the file is writable and changes nothing.
            Ok(_) => drop(OpenOptions::new().append(true).open(&real)?),
            Err(_) if real.file_name().is_none() => {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "no file name"));
            }
            Err(_) => {}
        }
        let temporary = beside(&real);
        File::create(&temporary)?;
        fs::remove_file(&temporary)?;
        Ok(LedgerFile::Regular { temporary, path: real })
    }

    /// Writes the document; a regular file is synced under its temporary name, then renamed.
    ///
    /// # Errors
    /// If the file can't be created, written or renamed.
    pub(crate) fn write(self, ledger: &Ledger) -> io::Result<()> {
        let document = ledger.to_json() + "\n";
        match self {
            LedgerFile::Device(mut device) => device.write_all(document.as_bytes()),
            LedgerFile::Regular { temporary, path } => {
                let written = write_synced(&temporary, document.as_bytes())
                    .and_then(|()| fs::rename(&temporary, &path));
                written.inspect_err(|_| {
                    // Half a ledger is of no use; the caller reports the failed write.
                    let _ = fs::remove_file(&temporary);
                })
            }
        }
    }
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// The temporary name of a ledger for `path`, to be removed if the program is ended while it is
/// being written; `None` for a device or a pipe, which is written in place.
pub fn ledger_temporary(path: &Path) -> Option<PathBuf> {
    let real = real(path);
    let in_place = fs::metadata(&real).is_ok_and(|found| !found.is_file());
    (!in_place).then(|| beside(&real))
}

/// The file behind a link: that is the one to replace, so that the link stays.
fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// A temporary name in the file's own folder, so that the rename stays within one file system.
fn beside(path: &Path) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".tmp");
    PathBuf::from(beside)
}
