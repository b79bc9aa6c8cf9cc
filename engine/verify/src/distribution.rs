//! Checks a report's distributions against their histograms.

use hdrhistogram::Histogram;
use report::{DistributionPart, Part};
use stats::distribution::{Distribution, SIGNIFICANT_DIGITS, VALUE_MAX_NS, histogram_of_text};
use units::us_to_ns;

use super::compare::compare;
use super::finding::{Finding, is_close};
use super::unsound::Unsound;

/// More than the requests of the longest run at the highest rate, and few enough that a sum over
/// all cores that a plan may name doesn't overflow.
pub(super) const NUMBER_MAX: u64 = 1 << 47;

/// Decodes a document's histogram of this many significant digits.
pub(super) fn decode(text: &str, digits: u8) -> Result<Histogram<u64>, Unsound> {
    let histogram = histogram_of_text(text, digits)?;
    if NUMBER_MAX < histogram.len() {
        return Err(Unsound::Values(histogram.len()));
    }
    Ok(histogram)
}

/// The distribution described by a document.
pub(super) fn of_document(document: &DistributionPart) -> Result<Distribution, Unsound> {
    Ok(document.of_histogram(decode(&document.histogram, SIGNIFICANT_DIGITS)?))
}

/// The distributions of a part, with their names: first those that every part has.
pub(super) fn distributions(part: &Part) -> Vec<(&'static str, &DistributionPart)> {
    let mut all = vec![
        ("naive", &part.naive),
        ("corrected", &part.corrected),
        ("pacer_lateness", &part.pacer_lateness),
        ("connection_wait", &part.connection_wait),
        ("send_path", &part.send_path),
        ("receive_lateness", &part.receive_lateness),
        ("connect_time", &part.connect_time),
    ];
    if let Some(tls) = &part.tls {
        all.push(("tls.handshake_time", &tls.handshake_time));
    }
    if let Some(successes) = &part.successes {
        all.push(("successes.naive", &successes.naive));
        all.push(("successes.corrected", &successes.corrected));
    }
    all
}

/// Checks a distribution's numbers against its histogram; `laid_out` makes the document's form.
pub(super) fn distribution(
    name: &str,
    document: &DistributionPart,
    laid_out: impl Fn(&Distribution) -> DistributionPart,
) -> Vec<Finding> {
    let name_of = |key: &str| format!("{name}.{key}");
    let whole = match of_document(document) {
        Ok(whole) => whole,
        Err(error) => return vec![Finding::new(name_of("histogram"), "readable", error, false)],
    };
    // These are exact, and no histogram is: its buckets only show which values they are between.
    let mut findings = match (document.min, document.mean, document.max) {
        (Some(min), Some(mean), Some(max)) => extremes(name, document, &whole, (min, mean, max)),
        _ => vec![Finding::equal(name_of("count without values"), 0, document.count)],
    };
    let mean = document.mean.filter(|_| 0 < whole.count());
    let expected = DistributionPart { mean, ..laid_out(&whole) };
    findings.extend(compare(&name_of(""), &expected, document));
    findings
}

/// Minimum, mean and maximum against the buckets that must contain them.
fn extremes(
    name: &str,
    document: &DistributionPart,
    whole: &Distribution,
    (min, mean, max): (f64, f64, f64),
) -> Vec<Finding> {
    let histogram = whole.histogram();
    let mut low = 0.0;
    let mut high = document.overflow as f64 * max * 1e3;
    let mut first = None;
    let mut last = None;
    for bucket in histogram.iter_recorded() {
        let value_ns = bucket.value_iterated_to();
        let count = bucket.count_since_last_iteration() as f64;
        let edges = (histogram.lowest_equivalent(value_ns), histogram.highest_equivalent(value_ns));
        low += edges.0 as f64 * count;
        high += edges.1 as f64 * count;
        first.get_or_insert(edges);
        last = Some(edges);
    }
    let beyond = (VALUE_MAX_NS, u64::MAX);
    if 0 < document.overflow {
        low += VALUE_MAX_NS as f64 * document.overflow as f64;
        last = Some(beyond);
    }
    let first = first.unwrap_or(beyond);
    let last = last.unwrap_or(beyond);
    let within = |key: &str, (low_ns, high_ns): (u64, u64), found: f64| {
        let found_ns = us_to_ns(found);
        Finding::new(
            format!("{name}.{key} within its bucket"),
            format!("{} to {}", low_ns as f64 / 1e3, high_ns as f64 / 1e3),
            found,
            low_ns <= found_ns && found_ns <= high_ns,
        )
    };
    let count = document.count.max(1) as f64;
    let (low, high) = (low / count / 1e3, high / count / 1e3);
    vec![
        within("min", first, min),
        within("max", last, max),
        Finding::new(
            format!("{name}.mean by the buckets"),
            format!("{low:.3} to {high:.3}"),
            mean,
            (low <= mean || is_close(low, mean)) && (mean <= high || is_close(high, mean)),
        ),
    ]
}
