//! The corrected latencies of a sound report, as they were recorded.

use hdrhistogram::Histogram;

use super::distribution::of_document;
use super::finding::Finding;
use super::sound::{Pieces, sound};
use crate::report::Report;
use crate::stats::distribution::Distribution;

/// The corrected latencies of a report.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// All of them.
    pub whole: Distribution,
    /// The same by full seconds of the window, or by intervals where these are longer.
    pub seconds: Vec<Histogram<u64>>,
}

/// Reads the latencies of a report.
///
/// # Errors
/// What is wrong with a report that no run wrote.
pub fn latencies(report: &Report) -> Result<Latencies, Finding> {
    let (findings, pieces) = sound(report);
    let Some(Pieces { batches, .. }) = pieces else {
        let failed = findings.into_iter().find(|finding| !finding.ok);
        return Err(failed.expect("a report without pieces has a finding"));
    };
    let whole = of_document(&report.whole.corrected).map_err(|problem| {
        Finding::equal("corrected", "readable".to_owned(), problem.to_string())
    })?;
    Ok(Latencies { whole, seconds: batches })
}
