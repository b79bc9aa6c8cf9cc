//! What the cases on latency share: printed percentiles against a closed form, or against the
//! target's hold times.

use super::rate::BASE_MS;
use super::{Finding, Judged};
use crate::figures::Percentile;
use crate::truth::{Band, Hold};

/// What client and kernel may add to a latency under a rate, ms: what these cases look for is
/// ten times as long.
pub(super) const CLIENT_MS: f64 = 5.0;
/// A percentile is judged if so many requests are beyond it: fewer say nothing.
const BEYOND_MIN: f64 = 10.0;

/// A target that holds each request for so long.
pub(super) fn plain(base_ms: f64) -> Hold {
    Hold { base_ms, tail_fraction: 0.0, extra_ms: 0.0, freeze_ms: 0.0, length_ms: 1.0 }
}

/// A percentile's name.
pub(super) fn name(printed: &Percentile) -> String {
    let route = printed.route.as_ref().map_or(String::new(), |route| format!("{route} "));
    format!("{route}p{}, ms", printed.percent)
}

/// Each of these percentiles that enough requests decide, against its band; upwards widened by
/// `late_ms`.
pub(super) fn within<'a>(
    printed: impl Iterator<Item = &'a Percentile>,
    truth: &Hold,
    requests: f64,
    late_ms: f64,
) -> Vec<Finding> {
    let is_decided = |printed: &&Percentile| {
        let beyond = requests * (1.0 - printed.percent / 100.0);
        BEYOND_MIN <= beyond
    };
    let find = |printed: &Percentile| {
        let Band { low, truth, high } = truth.band(printed.percent / 100.0, requests);
        let high = high + printed.digit_ms + late_ms;
        Finding {
            figure: name(printed),
            found: printed.ms,
            truth,
            low: Some((low - printed.digit_ms).max(0.0)),
            high: Some(high),
            excused_ms: (high < printed.ms).then_some(printed.ms - high),
        }
    };
    printed.filter(is_decided).map(find).collect()
}

/// The percentiles of so many users who come at the rate while nothing is answered for the first of
/// these times, ms, in each of the second.
pub(super) fn frozen(
    of: &Judged,
    requests: f64,
    (freeze_ms, length_ms): (f64, f64),
) -> Vec<Finding> {
    let truth = Hold { freeze_ms, length_ms, ..plain(BASE_MS) };
    // Those who waited share the connections, two at a time as long as the target's hold.
    let waiting = of.load.rate * freeze_ms / 1e3 / f64::from(of.load.connections);
    within(of.figures.of_all(), &truth, requests, CLIENT_MS + waiting * 2.0 * BASE_MS)
}

/// Each percentile against the shortest hold time of the target's, which no client can undercut:
/// less the last printed digit, and 0.1 % for a histogram of three digits.
pub(super) fn not_below(of: &Judged) -> Vec<Finding> {
    let Some(shortest_us) = of.ledger.held.min else { return Vec::new() };
    let truth = shortest_us / 1e3;
    let find = |printed: &Percentile| Finding {
        figure: name(printed),
        found: printed.ms,
        truth,
        low: Some((truth * 0.999 - printed.digit_ms).max(0.0)),
        high: None,
        excused_ms: None,
    };
    of.figures.of_all().map(find).collect()
}
