//! Small files in /proc and /sys, and the kernel's version.

use std::fs;
use std::path::Path;

use rustix::system::uname;

use crate::sys::units::CoreList;

/// The kernel's release, such as `6.12.1-amd64`.
pub(super) fn kernel_release() -> String {
    uname().release().to_string_lossy().into_owned()
}

/// The first two numbers of the kernel's release.
pub(super) fn kernel_version() -> (u32, u32) {
    let release = kernel_release();
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// The kernel's clock source.
pub(super) fn clock_source() -> Option<String> {
    read("/sys/devices/system/clocksource/clocksource0/current_clocksource")
}

/// The trimmed text of a kernel file; `None` if it is missing or empty.
pub(super) fn read(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The cores in a kernel CPU list, such as `0-3,8`.
pub(super) fn cores_in(text: &str) -> Option<Vec<usize>> {
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
