//! The plot of the experiment on warm-up: p99 by the length of the window, from the first request
//! and after the warm-up.

use crate::lab::latencies::{Requests, quantile};
use crate::lab::plot::{self, Axis, Line, Scale};
use crate::lab::{Computed, Lab, LabError};

/// Windows in the plot.
const POINTS: usize = 60;

/// Draws it.
pub(super) fn compute(lab: &mut Lab) -> Result<Computed, LabError> {
    let warmup = lab.setting("warmup_percent")? / 100.0;
    let each = lab.requests("cold-target")?;
    let requests = each.first().ok_or_else(|| LabError::figures("no run has requests"))?;
    let plot = plot::lines(
        "p99-by-length.svg",
        "p99 by the length of the window",
        Axis { name: "end of the window, s", scale: Scale::Linear },
        Axis { name: "p99, ms", scale: Scale::Log },
        &[
            Line {
                name: "from the first request on",
                points: by_length(requests, 0.0),
                dashed: false,
            },
            Line { name: "after the warm-up", points: by_length(requests, warmup), dashed: true },
        ],
    )?;
    Ok(Computed::plots(vec![plot]))
}

/// Windows of growing length that begin after this share of the whole: the end of each, s, and its
/// p99, ms.
fn by_length(of: &Requests, after: f64) -> Vec<(f64, f64)> {
    let length_ns = (of.window.end_ns - of.window.begin_ns) as f64;
    let due_ns = |at: usize| (of.requests[at].intended_ns - of.window.begin_ns) as f64;
    let point = |point: usize| {
        let end_ns = length_ns * point as f64 / POINTS as f64;
        let within = |at: &usize| (length_ns * after..end_ns).contains(&due_ns(*at));
        let due = (0..of.requests.len()).filter(within);
        let mut ms: Vec<f64> = due.map(|at| of.requests[at].corrected_ns() as f64 / 1e6).collect();
        ms.sort_by(f64::total_cmp);
        (!ms.is_empty()).then(|| (end_ns / 1e9, quantile(&ms, 0.99)))
    };
    (1..=POINTS).filter_map(point).collect()
}

#[cfg(test)]
mod tests {
    use target::Span;

    use super::*;
    use crate::lab::latencies::Request;

    #[test]
    fn a_longer_window_dilutes_its_first_requests() {
        // A hundred a second for 60 s; the first 30 take 205 ms, the others 5 ms.
        let request = |k: u64| {
            let takes_ns = if k < 30 { 205_000_000 } else { 5_000_000 };
            Request {
                intended_ns: k * 10_000_000,
                sent_ns: None,
                ended_ns: k * 10_000_000 + takes_ns,
            }
        };
        let window = Span { begin_ns: 0, end_ns: 60_000_000_000 };
        let of = Requests { requests: (0..6_000).map(request).collect(), window };
        let cold = by_length(&of, 0.0);
        assert_eq!(
            (cold.len(), cold[0], cold[28], cold[29]),
            (60, (1.0, 205.0), (29.0, 205.0), (30.0, 5.0))
        );
        let warm = by_length(&of, 0.2);
        assert_eq!((warm.len(), warm[0]), (48, (13.0, 5.0)));
    }
}
