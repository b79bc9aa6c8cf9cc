//! The case on a rate that changes: every second has its own.

use super::rate::prompt;
use super::{Case, Finding, Judged, needs};
use crate::tool::{Arrivals, Load, Mode};

/// A ramp.
pub(super) const RAMP: Case = Case {
    name: "ramp",
    holds: "The rate rises evenly from 100 to 500 per second: as many requests reach the target in \
            each second as the rate had then.",
    truth: "the integral of the rate over each second, against the ledger's arrivals",
    tolerance: "4·√n if the tool says that arrivals are Poisson; else 2 %, and 5 requests for the \
                first, from which the seconds count",
    reply: "The rate rises in steps, and the documentation says how long they are.",
    load: Load { rate: 100.0, rate_to: 500.0, connections: 64, seconds: 6 },
    mode: |tool| needs(tool, Mode::Ramp, "it keeps no rate that changes evenly"),
    target: prompt,
    judge: ramped,
    ..Case::NONE
};

fn ramped(of: &Judged) -> Vec<Finding> {
    let Load { rate, rate_to, seconds, .. } = of.load;
    let find = |second: u32| {
        let middle = (f64::from(second) + 0.5) / f64::from(seconds);
        let truth = rate + (rate_to - rate) * middle;
        let reach = match of.tool.arrivals {
            Some(Arrivals::Poisson) => 4.0 * truth.sqrt(),
            Some(Arrivals::Constant) | None => 0.02 * truth + 5.0,
        };
        of.in_second(second, truth, reach)
    };
    (0..seconds).map(find).collect()
}
