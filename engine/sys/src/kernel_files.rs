//! Small files in /proc and /sys.

use std::fs;
use std::path::Path;

use units::CoreList;

/// The trimmed text of a kernel file; `None` if it is missing or empty.
pub fn read(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The cores in a kernel CPU list, such as `0-3,8`.
pub fn cores_in(text: &str) -> Option<Vec<usize>> {
    text.parse::<CoreList>().ok().map(|cores| cores.as_slice().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores_are_read() {
        assert_eq!(cores_in("0-2,8"), Some(vec![0, 1, 2, 8]));
        assert_eq!(cores_in("none"), None);
    }
}
