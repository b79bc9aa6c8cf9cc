//! The kernel's version and its clock source.

use rustix::system::uname;

use crate::sys::kernel_files::read;

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
