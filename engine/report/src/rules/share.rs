//! Shares, and their format.

/// More than this is most of the whole.
pub(super) const HALF: f64 = 0.5;

/// The share of a part; 0 if the whole is 0.
pub(super) fn share(part: u64, whole: u64) -> f64 {
    share_of(part as f64, whole)
}

/// The share of a part that isn't a count; 0 if the whole is 0.
pub(super) fn share_of(part: f64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part / whole as f64 }
}

/// A share as a percentage.
pub(super) fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// A share to be read only roughly, without decimals from 10 % up.
pub(super) fn roughly(share: f64) -> String {
    if share < 0.1 { percent(share) } else { format!("{:.0} %", share * 100.0) }
}
