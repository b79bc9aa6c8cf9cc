//! The corrected latencies of a sound report, as they were recorded.

use hdrhistogram::Histogram;
use report::Report;
use stats::distribution::Distribution;
use stats::pieces::Pieces;

use super::distribution::of_document;
use super::finding::Finding;
use super::sound::{DecodedSeries, sound};

/// The corrected latencies of a report.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// All of them.
    pub whole: Distribution,
    /// The same by intervals of the window.
    pub pieces: Pieces<Histogram<u64>>,
}

/// Reads the latencies of a report.
///
/// # Errors
/// The problem of a report that no run wrote.
pub fn latencies(report: &Report) -> Result<Latencies, Finding> {
    let (findings, decoded) = sound(report);
    let Some(DecodedSeries { latencies: pieces, .. }) = decoded else {
        let failed = findings.into_iter().find(|finding| !finding.ok);
        return Err(failed.expect("a report without decoded has a finding"));
    };
    let whole = of_document(&report.whole.corrected).map_err(|problem| {
        Finding::equal("corrected", "readable".to_owned(), problem.to_string())
    })?;
    Ok(Latencies { whole, pieces })
}
