//! Files that appear under their name completely or not at all.
//!
//! A file is written under a temporary name next to its own, `FILE.RANDOM.tmp`, and renamed when it
//! is complete. No other run has that name, so two runs that write one file never mix. The writer
//! holds a lock on it, which the kernel releases when the writer ends, for any reason: by that
//! lock, the next run that writes the same file recognises what a crashed run left, and removes it.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::geteuid;
use tempfile::NamedTempFile;

/// Random characters in a temporary name.
const RANDOM_BYTES: usize = 6;
/// The end of a temporary name.
const SUFFIX: &str = ".tmp";
/// How often to create a file that another process mistakes for an orphan before it is locked.
const ATTEMPTS_MAX: usize = 16;

/// A file that gets its name when it is published. Dropped before, it leaves nothing behind, and an
/// existing file of that name stays as it is.
#[derive(Debug)]
pub struct WholeFile {
    temporary: NamedTempFile,
    path: PathBuf,
}

/// Why no file can be written under a name.
#[derive(Debug, thiserror::Error)]
pub enum WholeFileError {
    /// The path doesn't end in a name.
    #[error("not a file name")]
    NoName,
    /// The path is a folder.
    #[error("is a folder")]
    Folder,
    /// A device, a pipe, or the descriptor of a process: a rename would replace it.
    #[error("isn't a regular file")]
    NotRegular,
    /// The file can't be written, or none can be created next to it.
    #[error("can't be written ({0})")]
    Unwritable(#[from] io::Error),
    /// The file can't be replaced.
    #[error("can't be replaced (it belongs to another user, in a sticky folder)")]
    Sticky,
}

impl WholeFile {
    /// Creates the file under its temporary name. Links are followed: a link stays, and the file
    /// behind it is replaced.
    ///
    /// # Errors
    /// The file couldn't be written, or couldn't be given its name at the end.
    pub fn create(path: &Path) -> Result<WholeFile, WholeFileError> {
        let Place::Named(path) = Place::of(path) else { return Err(WholeFileError::NotRegular) };
        match fs::metadata(&path) {
            Ok(found) if found.is_dir() => return Err(WholeFileError::Folder),
            Ok(found) if !found.is_file() => return Err(WholeFileError::NotRegular),
            Ok(found) => {
                // Opening it for appending shows whether it is writable, and changes nothing.
                OpenOptions::new().append(true).open(&path)?;
                require_replaceable(&path, found.uid())?;
            }
            Err(_) if path.file_name().is_none() => return Err(WholeFileError::NoName),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            Err(_) => {}
        }
        let mut prefix = path.file_name().ok_or(WholeFileError::NoName)?.to_owned();
        prefix.push(".");
        remove_orphans(&path, &prefix);
        for _ in 0..ATTEMPTS_MAX {
            let temporary = tempfile::Builder::new()
                .prefix(&prefix)
                .rand_bytes(RANDOM_BYTES)
                .suffix(SUFFIX)
                // Created here, because the crate's own temporary files are readable only by their
                // user.
                .make_in(folder_of(&path), |path| File::create_new(path))?;
            if is_ours(temporary.as_file()) {
                require_room(temporary.as_file())?;
                return Ok(WholeFile { temporary, path });
            }
        }
        Err(WholeFileError::Unwritable(io::Error::other("another process removes it again")))
    }

    /// The file, to write to.
    pub fn file(&self) -> &File {
        self.temporary.as_file()
    }

    /// Its temporary name, for removing it if the program ends without dropping it.
    pub fn temporary(&self) -> &Path {
        self.temporary.path()
    }

    /// Makes the file durable and gives it its name.
    ///
    /// # Errors
    /// Syncing or renaming failed. The name then means what it meant before.
    pub fn publish(self) -> Result<PathBuf, PublishError> {
        let WholeFile { temporary, path } = self;
        let shown = temporary.path().display().to_string();
        if let Err(source) = temporary.as_file().sync_all() {
            return Err(PublishError::Sync { temporary: shown, source });
        }
        if let Err(failed) = temporary.persist(&path) {
            return Err(PublishError::Rename { temporary: shown, path, source: failed.error });
        }
        // The file is complete under its name. The folder is synced, so that the name survives a
        // power cut, if it is readable, which writing to it doesn't require; a failure costs
        // nothing.
        let _ = File::open(folder_of(&path)).and_then(|folder| folder.sync_all());
        Ok(path)
    }
}

/// Why a file couldn't be published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The disk didn't accept it.
    #[error("syncing {temporary}: {source}")]
    Sync {
        /// Its name so far.
        temporary: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// It couldn't be renamed.
    #[error("renaming {temporary} to {}: {source}", path.display())]
    Rename {
        /// Its name so far.
        temporary: String,
        /// The name that it should get.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The path of a file through all links, even those to a file that doesn't exist yet. Two names
    /// of one file give the same path; a path without a folder is returned unchanged.
    Named(PathBuf),
    /// An open descriptor, such as `/dev/stdout`. The kernel shows it as a link to its file, but
    /// the descriptor is meant, with its position.
    Descriptor(PathBuf),
}

impl Place {
    /// Follows a path.
    pub fn of(path: &Path) -> Place {
        /// The number of links that Linux follows.
        const LINKS_MAX: usize = 40;
        let mut real = path.to_owned();
        for _ in 0..LINKS_MAX {
            let (Ok(folder), Some(name)) = (fs::canonicalize(folder_of(&real)), real.file_name())
            else {
                break;
            };
            let found = folder.join(name);
            match fs::read_link(&found) {
                Ok(_) if folder.starts_with("/proc") => return Place::Descriptor(found),
                Ok(to) => real = folder.join(to),
                Err(_) => return Place::Named(found),
            }
        }
        Place::Named(fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()))
    }
}

/// Tests whether a new file can be written: a full disk has room for its name, but not for a byte.
fn require_room(mut file: &File) -> io::Result<()> {
    file.write_all(b"\n")?;
    file.set_len(0)?;
    file.rewind()
}

/// Locks a newly created file. Until then another process may mistake it for an orphan.
fn is_ours(file: &File) -> bool {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => false,
        // Without locks, no file is mistaken for an orphan.
        Err(_) => true,
        Ok(()) => file.metadata().is_ok_and(|found| 0 < found.nlink()),
    }
}

/// Removes the temporary files of `path` that no process holds any more. A failure to remove one
/// doesn't prevent the next from being written.
fn remove_orphans(path: &Path, prefix: &OsStr) {
    let is_temporary = |name: &OsStr| {
        let random = name.as_bytes().strip_prefix(prefix.as_bytes());
        let random = random.and_then(|name| name.strip_suffix(SUFFIX.as_bytes()));
        random.is_some_and(|random| {
            random.len() == RANDOM_BYTES && random.iter().all(u8::is_ascii_alphanumeric)
        })
    };
    for entry in fs::read_dir(folder_of(path)).into_iter().flatten().flatten() {
        if !is_temporary(&entry.file_name()) || !entry.file_type().is_ok_and(|kind| kind.is_file())
        {
            continue;
        }
        let Ok(file) = File::open(entry.path()) else { continue };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// In a sticky folder, such as /tmp, only the owner of the file or of the folder can remove a file.
fn require_replaceable(path: &Path, owner: u32) -> Result<(), WholeFileError> {
    /// The sticky bit of a folder's mode.
    const STICKY: u32 = 0o1000;
    let folder = fs::metadata(folder_of(path))?;
    let own = geteuid();
    let owned = [owner, folder.uid()].contains(&own.as_raw());
    if folder.mode() & STICKY == 0 || own.is_root() || owned {
        return Ok(());
    }
    Err(WholeFileError::Sticky)
}

/// The folder of a file.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn create(path: &Path) -> WholeFile {
        WholeFile::create(path).expect("it can be written")
    }

    fn publish(path: &Path, text: &str) {
        let file = create(path);
        file.file().write_all(text.as_bytes()).expect("written");
        file.publish().expect("published");
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        let name = |entry: io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
        let mut names: Vec<String> =
            entries.map(|entry| name(entry).into_string().expect("a name")).collect();
        names.sort();
        names
    }

    #[test]
    fn an_older_file_stays_until_the_new_one_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("report.json");
        fs::write(&path, "old").expect("written");
        let file = create(&path);
        file.file().write_all(b"half").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("there"), "old");
        drop(file);
        assert_eq!(fs::read_to_string(&path).expect("there"), "old");
        publish(&path, "new");
        assert_eq!(fs::read_to_string(&path).expect("there"), "new");
        assert_eq!(names(folder.path()), ["report.json"]);
    }

    #[test]
    fn two_writers_of_one_file_do_not_mix() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("raw.bin");
        let (first, second) = (create(&path), create(&path));
        assert_ne!(first.temporary(), second.temporary());
        first.file().write_all(b"the first").expect("written");
        second.file().write_all(b"the second, whole").expect("written");
        second.publish().expect("published");
        assert_eq!(fs::read_to_string(&path).expect("there"), "the second, whole");
        first.publish().expect("published");
        assert_eq!(fs::read_to_string(&path).expect("there"), "the first");
        assert_eq!(names(folder.path()), ["raw.bin"]);
    }

    #[test]
    fn only_the_leftovers_of_a_crashed_run_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("raw.bin");
        let others = ["other.AbCdEf.tmp", "raw.bin.AbCd-f.tmp", "raw.bin.old.tmp", "raw.bin.tmp"];
        for name in others.iter().chain(&["raw.bin.AbCdEf.tmp"]) {
            fs::write(folder.path().join(name), "left").expect("written");
        }
        fs::create_dir(folder.path().join("raw.bin.folder.tmp")).expect("made");
        let living = create(&path);
        publish(&path, "whole");
        assert!(living.temporary().exists(), "its writer still runs");
        drop(living);
        let mut kept = [&others[..], &["raw.bin", "raw.bin.folder.tmp"]].concat();
        kept.sort_unstable();
        assert_eq!(names(folder.path()), kept);
    }

    #[test]
    fn many_writers_at_once_all_write() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("report.json");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..50).for_each(|_| publish(&path, "whole")));
            }
        });
        assert_eq!(fs::read_to_string(&path).expect("there"), "whole");
        assert_eq!(names(folder.path()), ["report.json"]);
    }

    #[test]
    fn a_link_keeps_pointing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("real"), "old").expect("written");
        // The second leads to a file that doesn't exist yet.
        for (real, link) in [("real", "link"), ("later", "waiting")] {
            symlink(real, path(link)).expect("linked");
            publish(&path(link), "new");
            assert_eq!(fs::read_to_string(path(real)).expect("there"), "new");
            assert!(fs::symlink_metadata(path(link)).expect("there").is_symlink());
        }
    }

    #[test]
    fn a_file_is_as_readable_as_any_new_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let mode = |name| fs::metadata(path(name)).expect("there").permissions().mode();
        publish(&path("report.json"), "new");
        fs::write(path("other"), "new").expect("written");
        assert_eq!(mode("report.json"), mode("other"));
    }

    #[test]
    fn a_vanished_file_is_reported_as_such() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = create(&folder.path().join("report.json"));
        fs::remove_file(file.temporary()).expect("it was there");
        let error = file.publish().expect_err("there is nothing to rename").to_string();
        assert!(error.starts_with("renaming /") && error.contains("No such file"), "{error}");
    }

    #[test]
    fn paths_that_a_rename_would_replace_wrongly_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = File::create(folder.path().join("log")).expect("created");
        let descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
        let link = folder.path().join("link");
        symlink(&descriptor, &link).expect("linked");
        for (path, problem) in [
            (folder.path(), "is a folder"),
            (&folder.path().join("none/report.json"), "can't be written"),
            (Path::new(""), "not a file name"),
            (Path::new("/"), "is a folder"),
            (Path::new("/dev/null"), "isn't a regular file"),
            (Path::new(&descriptor), "isn't a regular file"),
            (&link, "isn't a regular file"),
        ] {
            let error = WholeFile::create(path).expect_err("refused").to_string();
            assert!(error.contains(problem), "{}: {error}", path.display());
        }
        assert_eq!(names(folder.path()), ["link", "log"]);
    }

    #[test]
    fn two_names_of_one_file_lead_to_one_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("inner")).expect("made");
        symlink("b", path("link")).expect("linked");
        for (one, other) in [("a", "inner/../a"), ("b", "link")] {
            assert_eq!(Place::of(&path(one)), Place::of(&path(other)));
        }
        assert_ne!(Place::of(&path("a")), Place::of(&path("b")));
        symlink("round", path("round")).expect("linked");
        assert_eq!(Place::of(&path("round")), Place::Named(path("round")));
    }
}
