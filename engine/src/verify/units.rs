//! A document's times and moments, back in nanoseconds.

/// A document's time, whole ns in microseconds, back in ns.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates: an impossible time becomes one that no check accepts"
)]
pub(super) fn to_ns(us: f64) -> u64 {
    (us * 1e3).round() as u64
}

/// A document's moment, seconds since the epoch, in ns. A double holds every ns of a hundred days.
pub(super) fn seconds_to_ns(seconds: f64) -> u64 {
    to_ns(seconds * 1e6)
}
