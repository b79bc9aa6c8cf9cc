//! The file that a ledger goes to: found writable before the run that ends there, and whole or absent afterwards.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::Ledger;

/// What `--ledger` names.
pub(crate) enum LedgerFile {
    /// A device or a pipe, written to as it is: a file renamed over `/dev/null` would replace the device. It stays open,
    /// because the reader of a pipe takes its first close for the end.
    Device(File),
    /// A file, written beside its name first and renamed over it.
    Regular {
        /// Its name until it is whole.
        temporary: PathBuf,
        /// Its name then.
        path: PathBuf,
    },
}

impl LedgerFile {
    /// Checks that a ledger can be written to `path`, and leaves no trace of that. A named pipe waits for its reader.
    ///
    /// # Errors
    /// When `path` names a folder or nothing, or can't be written.
    pub(crate) fn open(path: &Path) -> io::Result<LedgerFile> {
        let real = real(path);
        match fs::metadata(&real) {
            Ok(found) if found.is_dir() => {
                return Err(io::Error::from(io::ErrorKind::IsADirectory));
            }
            Ok(found) if !found.is_file() => {
                return OpenOptions::new().write(true).open(&real).map(LedgerFile::Device);
            }
            // Opening it for appending changes nothing and shows whether it may be written.
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

    /// Writes the document, to a file whole or not at all: beside its name first, synced, then renamed over it.
    ///
    /// # Errors
    /// When the file can't be made, written or renamed.
    pub(crate) fn write(self, ledger: &Ledger) -> io::Result<()> {
        let document = ledger.to_json() + "\n";
        match self {
            LedgerFile::Device(mut device) => device.write_all(document.as_bytes()),
            LedgerFile::Regular { temporary, path } => {
                let written = write_synced(&temporary, document.as_bytes())
                    .and_then(|()| fs::rename(&temporary, &path));
                written.inspect_err(|_| {
                    // Half a ledger is of no use; the failure to write it is what is told.
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

/// The name that a ledger for `path` has until it is whole, which whoever ends the program meanwhile may remove; `None`
/// for a device or a pipe, which is written to as it is.
pub fn ledger_temporary(path: &Path) -> Option<PathBuf> {
    let real = real(path);
    let in_place = fs::metadata(&real).is_ok_and(|found| !found.is_file());
    (!in_place).then(|| beside(&real))
}

/// A link stays a link: the file behind it is the one to replace.
fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// In the folder of the file, so that the rename stays within one file system.
fn beside(path: &Path) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".tmp");
    PathBuf::from(beside)
}
