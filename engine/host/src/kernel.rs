//! The kernel's version and its clock source.

use rustix::system::uname;
use sys::kernel_files::read;

use super::check::{Check, Severity};

/// The oldest kernel with everything that the request path needs: deferred task work and multishot
/// receives.
const KERNEL_MIN: (u32, u32) = (6, 1);

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

/// Checks that the kernel has everything that a run needs.
pub(super) fn check_kernel() -> Check {
    let release = kernel_release();
    if kernel_version() < KERNEL_MIN {
        let cause = "it lacks deferred task work and multishot receives";
        return Check::bad("kernel", Severity::Missing, release, cause, cure_for_an_old_kernel());
    }
    Check::good("kernel", release)
}

/// The cure for a kernel that lacks something a run needs.
pub(super) fn cure_for_an_old_kernel() -> String {
    let (major, minor) = KERNEL_MIN;
    format!("use Linux {major}.{minor} or later")
}

/// Checks that the clock can be read without a system call.
pub(super) fn check_clock_source() -> Check {
    let name = "clock source";
    let source = clock_source();
    match source.as_deref() {
        // These are read without a system call.
        Some("tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page") => {
            Check::good(name, source.unwrap_or_default())
        }
        _ => Check::bad(
            name,
            Severity::Warning,
            source.unwrap_or_else(|| "unknown".to_owned()),
            "reading it may take a system call, and every request reads it several times",
            "boot with clocksource=tsc if the TSC is stable",
        ),
    }
}
