//! The files of a run's samples: one for each segment, named after the first.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The most bytes of a segment. What a crash can cost is one segment, and the disk's caches hold a
/// few seconds of it.
pub(super) const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// The file of a segment: the first has the run's name, `run.raw`, the second is `run.raw.0002`.
pub fn segment_path(first: &Path, segment: u32) -> PathBuf {
    if segment <= 1 {
        return first.to_owned();
    }
    let mut name = first.as_os_str().to_owned();
    name.push(suffix(segment));
    name.into()
}

/// The file of the first segment, by that of any of them. A renamed file is taken for the first.
pub(super) fn first_path(path: &Path, segment: u32) -> PathBuf {
    let name = path.as_os_str().as_bytes();
    let first = name.strip_suffix(suffix(segment).as_bytes()).filter(|_| 1 < segment);
    first.map_or_else(|| path.to_owned(), |first| OsStr::from_bytes(first).into())
}

/// The files of all segments that are there: the first, and those numbered without a gap.
pub fn segment_files(first: &Path) -> Vec<PathBuf> {
    let paths = (1..).map(|segment| segment_path(first, segment));
    paths.take_while(|path| path.is_file()).collect()
}

/// The number of the last segment whose file is there, even if one before it is missing.
pub fn last_segment(first: &Path) -> u32 {
    let folder = first.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten().flatten();
    let number = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let name = name.as_bytes().strip_prefix(first.file_name()?.as_bytes())?;
        // A run of 64 TiB has no more.
        let segment: u16 = str::from_utf8(name.strip_prefix(b".")?).ok()?.parse().ok()?;
        // Not every number is written as a segment's.
        (suffix(segment.into()).as_bytes() == name).then_some(segment.into())
    };
    entries.filter_map(number).max().unwrap_or(1)
}

fn suffix(segment: u32) -> String {
    format!(".{segment:04}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_named_after_the_first_in_their_order() {
        let first = Path::new("raw/run.raw");
        let paths: Vec<PathBuf> = (1..2_000).map(|segment| segment_path(first, segment)).collect();
        assert_eq!(paths[..2], [first, Path::new("raw/run.raw.0002")]);
        assert!(paths.is_sorted());
        for (path, segment) in paths.iter().zip(1..) {
            assert_eq!(first_path(path, segment), first);
        }
        // A run's own name may look like a segment's.
        assert_eq!(first_path(Path::new("run.0001"), 1), Path::new("run.0001"));
    }
}
