//! Shares, and how they are written.

/// Above it, most of a whole: more of the time that was waited, or of the answers, than the rest.
pub(super) const HALF: f64 = 0.5;

/// A part of a whole; 0 of nothing.
pub(super) fn share(part: u64, whole: u64) -> f64 {
    share_of(part as f64, whole)
}

/// A part of a whole that isn't a number of things; 0 of nothing.
pub(super) fn share_of(part: f64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part / whole as f64 }
}

/// A share as a percentage.
pub(super) fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// A share of which only the size matters, without decimals from 10 % up.
pub(super) fn roughly(share: f64) -> String {
    if share < 0.1 { percent(share) } else { format!("{:.0} %", share * 100.0) }
}
