//! The cases on a target that stops answering: users come all the same.

use std::time::Duration;

use target::{Pause, Span, Stall, TargetConfig};

use super::percentiles::frozen;
use super::rate::BASE;
use super::{Case, Judged, at_intended_times};
use crate::tool::{Arrivals, Load, PERCENTILES};

/// The load of the serial target of the case `pauses`: 500 per second, each for 1 ms.
const BUSY: f64 = 0.5;

/// One freeze.
pub(super) const FREEZE: Case = Case {
    name: "freeze",
    holds: "The target answers nothing for a sixth of the run: percentiles are those of users who \
            came at the rate, 500 per second.",
    truth: "R_q = d0 for q ≤ 1 − S/T, else d0 + S − T(1−q), with d0 = 1 ms, S the freeze that the \
            ledger logged and T the run",
    tolerance: "upwards 5 ms for client and kernel, and 2·d0 for each waiting request of a \
                connection",
    reply: "More connections would have carried those who waited sooner.",
    load: Load::at(500.0, 20, 6),
    mode: at_intended_times,
    figures: &[PERCENTILES],
    // The target starts shortly before the tool; the next freeze would come after the end.
    target: |config, seconds| {
        let every = Duration::from_secs_f64(seconds * 2.0 / 3.0);
        let hold = Duration::from_secs_f64(seconds / 6.0);
        TargetConfig { base_latency: BASE, stall: Some(Stall { every, hold }), ..config }
    },
    judge: |of| {
        let begin_ns = of.first_ms() * 1_000_000;
        let end_ns = begin_ns + u64::from(of.load.seconds) * 1_000_000_000;
        let is_within = |stall: &&Span| begin_ns <= stall.begin_ns && stall.end_ns <= end_ns;
        // A tool that takes long to start may miss the freeze, or meet the next.
        match &of.ledger.stalls.iter().filter(is_within).collect::<Vec<_>>()[..] {
            [stall] => {
                let freeze_ms = (stall.end_ns - stall.begin_ns) as f64 / 1e6;
                frozen(of, requests(of), (freeze_ms, length_ms(of)))
            }
            _ => Vec::new(),
        }
    },
    ..Case::NONE
};

/// Three pauses of a server that takes one request at a time.
pub(super) const PAUSES: Case = Case {
    name: "pauses",
    holds: "The target serves one request at a time, for 1 ms each, and pauses three times for a \
            twentieth of the run: percentiles are those of users who came at the rate, 500 per \
            second.",
    truth: "at a load of ρ = 0.5 a pause of S delays those who come within S/(1−ρ), the last by \
            nothing: R_q = d0 for q ≤ 1 − f, else d0 + S·(1 − (1−q)/f), with f = 3·S/(1−ρ)/T = 0.3",
    tolerance: "that of freeze; 2 instead of 1 standard deviations if the tool says that arrivals are \
                Poisson, whose queue scatters by 1/(1−ρ) more",
    target: |config, seconds| {
        // The fourth would come after the end, and the third's queue is gone before it.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1,000")]
        let every_requests = (0.28 * seconds * FREEZE.load.rate) as u64;
        let hold = Duration::from_secs_f64(seconds / 20.0);
        let pause = Some(Pause { every_requests, hold });
        TargetConfig { base_latency: BASE, serial: true, pause, ..config }
    },
    judge: |of| {
        let pauses = &of.ledger.pauses;
        let total_ns: u64 = pauses.iter().map(|pause| pause.end_ns - pause.begin_ns).sum();
        let (count, total_ms) = (pauses.len().max(1) as f64, total_ns as f64 / 1e6);
        // How many are in the queue scatters by 1/(1−ρ) more if arrivals are at random.
        let fewer = match of.tool.arrivals {
            Some(Arrivals::Poisson) => (1.0 - BUSY) * (1.0 - BUSY),
            Some(Arrivals::Constant) | None => 1.0,
        };
        let length_ms = length_ms(of) * (1.0 - BUSY) / count;
        frozen(of, fewer * requests(of), (total_ms / count, length_ms))
    },
    ..FREEZE
};

/// The requests that it is asked for.
fn requests(of: &Judged) -> f64 {
    of.load.rate * f64::from(of.load.seconds)
}

/// The length of the run, ms.
fn length_ms(of: &Judged) -> f64 {
    f64::from(of.load.seconds) * 1e3
}
