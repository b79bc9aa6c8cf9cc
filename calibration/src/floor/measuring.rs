//! The runs of a section: their plans in order, and the figures taken from each.

use std::time::Duration;

use engine::plan::{Plan, StampSource, Wait};
use engine::report::Report;
use engine::run::Finished;
use engine::sys::units::Nanos;
use rustix::time::{ClockId, clock_gettime};
use target::TargetConfig;

use super::bracket::{self, Bracket, Tried};
use super::capacity::{Capacity, Closed};
use super::cost::{Cost, Feature};
use super::disturbance::{Disturbance, disturbances};
use super::figures::{CpuPerRequest, Floor, Lateness, Three, busiest};
use super::late::Late;
use super::overhead::{Overhead, OverheadAt, Path, SHARE_MAX};
use super::setup::{Display, Setup};
use crate::cases::Size;
use crate::judgement::Judgement;
use crate::observed::{ObserveError, Observed, observe_with};
use crate::others;

/// Connections of the closed loops that search for the capacity.
pub const CONNS: [usize; 3] = [16, 64, 256];
/// Shares of the capacity at which the latency floor is measured.
pub const SHARES: [f64; 3] = [0.01, 0.1, 0.5];
/// The rate at which lateness is measured, and the overhead at the sample target.
const RATE: f64 = 1_000.0;

/// The sample target's hold time in the overhead proof.
const HOLD: Duration = Duration::from_millis(5);

/// The most runs of the overhead proof, which is repeated if others may have caused its failure.
const OVERHEAD_RUNS_MAX: usize = 3;

/// Why a section ended early.
pub(super) enum End<E> {
    Interrupted,
    Failed(E),
}

impl<E> From<E> for End<E> {
    fn from(error: E) -> End<E> {
        End::Failed(error)
    }
}

/// The runs of a section.
pub(super) struct Measuring<'a, R> {
    pub(super) setup: &'a Setup,
    pub(super) run: R,
    /// True if an earlier section was disturbed by others on the machine.
    pub(super) is_restless: bool,
    /// Runs so far, including those of earlier sections.
    pub(super) runs: usize,
    pub(super) disturbed: Vec<Disturbance>,
}

impl<E: From<ObserveError>, R: FnMut(Plan, Display) -> Result<Finished, E>> Measuring<'_, R> {
    /// Makes a run; `name` identifies it among the disturbed ones.
    fn go(&mut self, name: &str, plan: Plan, display: Display) -> Result<Finished, End<E>> {
        let finished = (self.run)(plan, display)?;
        self.look_at(name, &finished.report)?;
        Ok(finished)
    }

    fn look_at(&mut self, name: &str, report: &Report) -> Result<(), End<E>> {
        if report.interrupted {
            return Err(End::Interrupted);
        }
        self.runs += 1;
        self.disturbed.extend(disturbances(name, self.runs, report));
        Ok(())
    }

    pub(super) fn waits(&mut self, found: &mut Vec<Lateness>) -> Result<(), End<E>> {
        for wait in [Wait::Sleep, Wait::Hybrid, Wait::Spin] {
            let plan = Plan { wait, ..self.setup.open(RATE, 3_000) };
            let name = format!("1,000/s, {wait:?}").to_lowercase();
            let report = self.go(&name, plan, Display::User)?.report;
            found.push(Lateness {
                wait,
                rate: report.whole.rate.intended,
                pacer: Three::of(&report.whole.pacer_lateness),
                receive: Three::of(&report.whole.receive_lateness),
                disturbed: others::reasons(&report).next().is_some(),
            });
        }
        Ok(())
    }

    pub(super) fn capacity(&mut self, found: &mut Option<Capacity>) -> Result<(), End<E>> {
        let mut closed = Vec::new();
        for conns in CONNS {
            // Each shard needs a connection.
            let conns = conns.max(self.setup.cores.len());
            let name = format!("closed loop, {conns} connections");
            let report = self.go(&name, self.setup.closed(conns, 1_200), Display::User)?.report;
            let (busy, cpu) = (busiest(&report), CpuPerRequest::new(&report));
            let (rate, disturbed) = (report.whole.rate.answered, others::moved_the_median(&report));
            let stolen = report.generator.steal().unwrap_or(0.0);
            closed.push(Closed { conns, rate, busy, stolen, cpu, disturbed });
        }
        *found = Capacity::new(closed);
        let Some(capacity) = found else { return Ok(()) };
        while let Some(rate) = bracket::next(capacity.closed_rate, &capacity.open) {
            let plan = Plan { prewarm: Some(256), ..self.setup.open(rate, 1_000) };
            let report = self.go(&format!("open, {rate:.0}/s"), plan, Display::User)?.report;
            capacity.open.push(Tried::new(rate, &report));
            capacity.bracket = Bracket::new(&capacity.open);
        }
        Ok(())
    }

    pub(super) fn floors(&mut self, capacity: f64, found: &mut Vec<Floor>) -> Result<(), End<E>> {
        for share in SHARES {
            let plan = self.setup.open(share * capacity, 3_500);
            let name = format!("{:.0} % of the capacity", share * 100.0);
            let report = self.go(&name, plan, Display::User)?.report;
            found.push(Floor {
                share,
                rate: report.whole.rate.intended,
                naive: Three::of(&report.whole.naive),
                corrected: Three::of(&report.whole.corrected),
                cpu: CpuPerRequest::new(&report),
                stamps: report.config.plan.stamps(),
                disturbed: others::moved_the_median(&report),
                tail_disturbed: others::reasons(&report).next().is_some(),
            });
        }
        Ok(())
    }

    /// Runs without any feature and with each in turn, in rounds that each begin with another one.
    pub(super) fn costs(&mut self, conns: usize, found: &mut Vec<Cost>) -> Result<(), End<E>> {
        let rounds = match self.setup.size {
            Size::Full => 4,
            Size::Smoke => 1,
        };
        let features =
            [None, Some(Feature::Raw), Some(Feature::KernelStamps), Some(Feature::Display)];
        let mut pairs = Feature::ALL.map(|_| (Vec::new(), false));
        for round in 0..rounds {
            let mut costs = [(0.0, false); 4];
            for at in 0..features.len() {
                let at = (at + round) % features.len();
                costs[at] = self.cost_us(conns, features[at])?;
            }
            let (without_us, base_disturbed) = costs[0];
            for ((pairs, any), (with_us, disturbed)) in pairs.iter_mut().zip(&costs[1..]) {
                pairs.push([*with_us, without_us]);
                *any |= *disturbed || base_disturbed;
            }
        }
        let costs = Feature::ALL.into_iter().zip(pairs);
        found.extend(costs.map(|(of, (pairs, disturbed))| Cost::new(of, pairs, disturbed)));
        Ok(())
    }

    /// CPU time of this process per request of a closed loop, µs, and whether others took too much
    /// of the machine. All runs except those with the kernel's stamps use the program's.
    fn cost_us(&mut self, conns: usize, feature: Option<Feature>) -> Result<(f64, bool), End<E>> {
        let with = |one| feature == Some(one);
        let plan = self.setup.closed(conns, 800);
        let plan = Plan {
            raw: with(Feature::Raw).then(|| self.setup.raw.clone()),
            stamps: Some(match feature {
                Some(Feature::KernelStamps) => StampSource::Kernel,
                _ => StampSource::User,
            }),
            warmup: Nanos(0),
            ..plan
        };
        let display = if with(Feature::Display) { Display::Hidden } else { Display::Off };
        let name = format!("cost, {}", feature.map_or("of none", Feature::name));
        let before_us = process_cpu_us();
        let report = self.go(&name, plan, display)?.report;
        let cpu_us = process_cpu_us() - before_us;
        let cost_us = cpu_us / report.whole.counts.answered.max(1) as f64;
        Ok((cost_us, others::moved_the_median(&report)))
    }

    pub(super) fn overhead(&mut self, found: &mut Option<Overhead>) -> Result<(), End<E>> {
        for runs in 1..=OVERHEAD_RUNS_MAX {
            let known = self.disturbed.len();
            let (at, late) = self.with_ledger(HOLD, "5 ms target")?;
            *found = Overhead::new(HOLD, at, late, self.disturbed[known..].to_vec(), runs);
            if !matches!(found, Some(Overhead { judgement: Judgement::NotJudged, .. })) {
                break;
            }
        }
        let Some(overhead) = found else { return Ok(()) };
        let known = self.disturbed.len();
        let null = self.go("null target", self.setup.open(RATE, 3_000), Display::User)?.report;
        let (sample, _) = self.with_ledger(Duration::ZERO, "0 ms target")?;
        let floor_us = null.whole.corrected.quantile_us(0.5);
        overhead.path = floor_us.zip(sample.first()).map(|(floor_us, at)| {
            let ledger_us = at.corrected_us - at.held_us;
            Path::new(floor_us, ledger_us, self.disturbed[known..].to_vec())
        });
        Ok(())
    }

    /// A run against the sample target, on the null target's cores: its median and p99, as far as
    /// they are known, and the requests sent later than the proof allows.
    fn with_ledger(
        &mut self,
        hold: Duration,
        name: &str,
    ) -> Result<(Vec<OverheadAt>, Late), End<E>> {
        let config = TargetConfig {
            base_latency: hold,
            cores: self.setup.target_cores.clone(),
            ..TargetConfig::new(([127, 0, 0, 1], 0).into())
        };
        // Without a warm-up, the ledger covers only requests of the window.
        let plan = Plan { warmup: Nanos(0), ..self.setup.open(RATE, 4_000) };
        let run = &mut self.run;
        let Observed { report, ledger, .. } =
            observe_with(config, plan, |plan| run(plan, Display::User))?;
        self.look_at(name, &report)?;
        let corrected = |q| report.whole.corrected.quantile_us(q);
        let share = report.whole.client_share.as_ref();
        let p50 = share.map(|share| share.p50.added);
        let p99 = share.and_then(|share| Some(share.p99.as_ref()?.added));
        let each = [
            OverheadAt::new("p50", corrected(0.5), p50, ledger.held.p50),
            OverheadAt::new("p99", corrected(0.99), p99, ledger.held.p99),
        ];
        let is_restless = self.is_restless || !self.disturbed.is_empty();
        let late = Late::new(&report, SHARE_MAX * HOLD.as_secs_f64() * 1e6, is_restless);
        Ok((each.into_iter().flatten().collect(), late))
    }
}

/// CPU time of this process so far, µs.
fn process_cpu_us() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}
