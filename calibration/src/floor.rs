//! The floor of the generator on this machine: what its clocks, its waiting, its requests and its
//! features cost, what it adds to a latency, and how much load it can offer at most.
//!
//! All of it is measured at the null target on other cores, but for the proof of the overhead,
//! which takes the sample target and its ledger. The plans are made here; somebody else runs them.

mod bracket;
mod clocks;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use engine::host::environment::environment;
use engine::plan::{Plan, StampSource, Wait};
use engine::report::verdict::{Code, Reason};
use engine::report::{DistributionPart, Report};
use engine::run::Finished;
use engine::sys::units::{CoreList, Nanos, Rate};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use target::TargetConfig;

pub use bracket::{Bracket, GROWTH_MAX, SENT_MIN, Tried};
pub use clocks::Clocks;

use crate::cases::Size;
use crate::experiment::{ExperimentError, Observed, observe_with};

/// Version of the document.
pub const SCHEMA: u32 = 1;
/// Connections of the closed loops that look for the ceiling.
pub const CONNS: [usize; 3] = [16, 64, 256];
/// Shares of the ceiling at which the latency floor is measured.
pub const SHARES: [f64; 3] = [0.01, 0.1, 0.5];
/// The rate at which lateness is measured, and the overhead beside the sample target.
const RATE: f64 = 1_000.0;
/// Connections opened before an open run, so that none is opened in its window.
const PREWARM: usize = 64;
/// Busy share of a shard from which its core is what bounds a closed loop.
const BUSY_MIN: f64 = 0.9;
/// The generator's share of a latency that the overhead proof allows.
pub const SHARE_MAX: f64 = 0.05;
/// How long the sample target of the overhead proof holds its requests.
const HOLD: Duration = Duration::from_millis(5);
/// By how much the two ways of measuring the path may differ: a share of the larger, or
/// [`AGREE_US`].
pub const AGREE_SHARE: f64 = 0.5;
/// The difference that is allowed in any case, µs: each target wakes up in its own way.
pub const AGREE_US: f64 = 25.0;

/// What is measured, and where.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Where the null target listens.
    pub null_target: SocketAddr,
    /// The cores of the targets.
    pub target_cores: Vec<usize>,
    /// The generator's cores.
    pub cores: Vec<usize>,
    /// How the generator waits, where that isn't what is measured.
    pub wait: Wait,
    /// How long it takes.
    pub size: Size,
    /// A file that may be written and overwritten, for the cost of raw samples.
    pub raw: PathBuf,
}

/// What the progress of a run is drawn on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Display {
    /// The user's terminal, if there is one.
    User,
    /// Nothing.
    Off,
    /// A terminal that nobody looks at.
    Hidden,
}

/// The measurements, in the order in which they are made. Each may use what those before it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// The clocks.
    Clocks,
    /// Lateness by the way of waiting.
    Waits,
    /// The ceiling.
    Ceiling,
    /// Latency at shares of the ceiling.
    Floors,
    /// What features cost.
    Costs,
    /// The overhead proof.
    Overhead,
}

impl Section {
    /// All of them.
    pub const ALL: [Section; 6] = [
        Section::Clocks,
        Section::Waits,
        Section::Ceiling,
        Section::Floors,
        Section::Costs,
        Section::Overhead,
    ];
}

/// The floor of the generator on this machine. What wasn't reached is empty or `None`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Whether a signal or an error ended it early.
    pub interrupted: bool,
    /// When it began, seconds since 1970.
    pub began_s: u64,
    /// The version of the program.
    pub tool_version: String,
    /// Kernel name and release.
    pub kernel: String,
    /// The processor's model name.
    pub cpu: Option<String>,
    /// The generator's cores.
    pub cores: Vec<usize>,
    /// The cores of the targets. With one of the generator's among them, all figures are of a core
    /// that both shared.
    pub target_cores: Vec<usize>,
    /// How the generator waited, but for `waits`.
    pub wait: Wait,
    /// The clocks.
    pub clocks: Option<Clocks>,
    /// Lateness by the way of waiting, at 1,000 requests per second.
    pub waits: Vec<Lateness>,
    /// The most load that the generator can offer.
    pub ceiling: Option<Ceiling>,
    /// Latency of the null target at shares of the ceiling.
    pub floors: Vec<Floor>,
    /// What features cost.
    pub costs: Vec<Cost>,
    /// The generator's share of a latency that is known.
    pub overhead: Option<Overhead>,
    /// Runs that were made.
    pub runs: usize,
    /// How the machine disturbed them, by their verdicts.
    pub disturbed: Vec<Disturbance>,
}

/// Three percentiles of a distribution, µs; `None` below the number of values that it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Three {
    /// The median.
    pub p50: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
    /// The 99.9th percentile.
    pub p999: Option<f64>,
}

impl Three {
    fn of(part: &DistributionPart) -> Three {
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|q| part.quantile_us(q));
        Three { p50, p99, p999 }
    }
}

/// CPU time of the shards for each request answered, µs, without the time they polled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuPerRequest {
    /// In user space, polling left out.
    pub user_us: f64,
    /// In the kernel.
    pub system_us: f64,
}

impl CpuPerRequest {
    /// That of a run; zero if nothing was answered.
    pub fn new(report: &Report) -> CpuPerRequest {
        let shards = &report.generator.shards;
        let sum = |of: fn(&engine::record::shard_stats::ShardStats) -> f64| -> f64 {
            shards.iter().map(of).sum()
        };
        let answered: u64 = report.series.intervals.iter().map(|slot| slot.counts.answers).sum();
        if answered == 0 {
            return CpuPerRequest::default();
        }
        let (user_s, system_s) = (sum(|shard| shard.cpu_user_s), sum(|shard| shard.cpu_system_s));
        // Polling runs in user space and in the kernel; both lose the same share.
        let polled_s = sum(|shard| shard.polling_s).min(user_s + system_s);
        let rest = 1.0 - polled_s / (user_s + system_s).max(f64::MIN_POSITIVE);
        let each_us = |seconds: f64| seconds * rest * 1e6 / answered as f64;
        CpuPerRequest { user_us: each_us(user_s), system_us: each_us(system_s) }
    }

    /// Both together.
    pub fn total_us(&self) -> f64 {
        self.user_us + self.system_us
    }
}

/// Lateness of one way of waiting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// The way of waiting.
    pub wait: Wait,
    /// Requests per second.
    pub rate: f64,
    /// Intended to noticed: the wake-up for a request that is due.
    pub pacer: Three,
    /// Received to handled: the wake-up for a response.
    pub receive: Three,
}

/// A closed loop that looked for the ceiling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Closed {
    /// Connections.
    pub conns: usize,
    /// Responses per second.
    pub rate: f64,
    /// Busy share of the busiest shard.
    pub busy: f64,
    /// CPU time of the shards for each request.
    pub cpu: CpuPerRequest,
    /// Whether others used the machine meanwhile.
    pub disturbed: bool,
}

/// The most load that the generator can offer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// The closed loops.
    pub closed: Vec<Closed>,
    /// Responses per second of the best of them.
    pub closed_rate: f64,
    /// The connections of that one.
    pub closed_conns: usize,
    /// What bounded it.
    pub bound: Bound,
    /// The open runs, in the order in which they were made.
    pub open: Vec<Tried>,
    /// What they say.
    pub bracket: Bracket,
}

impl Ceiling {
    /// The best of these closed loops.
    fn new(closed: Vec<Closed>) -> Option<Ceiling> {
        let best = closed.iter().max_by(|one, other| one.rate.total_cmp(&other.rate))?.clone();
        Some(Ceiling {
            closed,
            closed_rate: best.rate,
            closed_conns: best.conns,
            bound: match best {
                Closed { disturbed: true, .. } => Bound::Unknown,
                Closed { busy, .. } if busy < BUSY_MIN => Bound::Target,
                Closed { .. } => Bound::Generator,
            },
            open: Vec::new(),
            bracket: Bracket { passed: None, failed: None },
        })
    }

    /// The highest rate that an open run kept up with; without one, what the closed loop reached.
    pub fn rate(&self) -> f64 {
        self.bracket.passed.unwrap_or(self.closed_rate)
    }
}

/// What bounds a closed loop against the null target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The cores of the generator.
    Generator,
    /// The target: the ceiling is at least what was reached.
    Target,
    /// Others used the machine as well.
    Unknown,
}

/// Latency of the null target at a share of the ceiling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// The share.
    pub share: f64,
    /// Requests per second.
    pub rate: f64,
    /// Sent to received.
    pub naive: Three,
    /// Intended to received.
    pub corrected: Three,
    /// CPU time of the shards for each request.
    pub cpu: CpuPerRequest,
}

/// What a feature costs: CPU time of the whole process for each request, with and without it, in
/// pairs of runs next to each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The feature.
    pub feature: Feature,
    /// Each pair: with it and without it, µs.
    pub pairs: Vec<[f64; 2]>,
    /// The median of the differences, µs.
    pub median_us: f64,
    /// The lowest and the highest difference, µs.
    pub range_us: [f64; 2],
}

impl Cost {
    /// What these pairs say; there is at least one.
    fn new(feature: Feature, pairs: Vec<[f64; 2]>) -> Cost {
        let mut added: Vec<f64> = pairs.iter().map(|[with, without]| with - without).collect();
        added.sort_by(f64::total_cmp);
        let (low, high) = (added[(added.len() - 1) / 2], added[added.len() / 2]);
        let range_us = [added[0], added[added.len() - 1]];
        Cost { feature, pairs, median_us: f64::midpoint(low, high), range_us }
    }
}

/// A feature whose cost is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Feature {
    /// A file of raw samples.
    Raw,
    /// The kernel's stamps, against the program's.
    KernelStamps,
    /// The progress line.
    Display,
}

impl Feature {
    /// All of them.
    pub const ALL: [Feature; 3] = [Feature::Raw, Feature::KernelStamps, Feature::Display];

    /// Its name in a text.
    pub fn name(self) -> &'static str {
        match self {
            Feature::Raw => "--raw",
            Feature::KernelStamps => "kernel stamps",
            Feature::Display => "progress line",
        }
    }
}

/// The generator's share of a latency that is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// How long the sample target holds a request, µs.
    pub hold_us: f64,
    /// At the median and at p99.
    pub at: Vec<OverheadAt>,
    /// Whether the share is below [`SHARE_MAX`] at each.
    pub passed: bool,
    /// The path by two ways that share no code.
    pub path: Option<Path>,
}

/// The generator's share at one percentile. Differences of percentiles are not percentiles of
/// differences: they are exact where the target's own hold hardly varies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OverheadAt {
    /// The percentile's name, such as `p99`.
    pub name: String,
    /// Corrected latency, µs.
    pub corrected_us: f64,
    /// What the generator added before the send by its own stamps, µs.
    pub added_us: f64,
    /// The same as a share of corrected.
    pub share: f64,
    /// How long the target held the request by its ledger, µs.
    pub held_us: f64,
    /// All that the ledger doesn't explain, the path and the target's own wake-up included, as a
    /// share of corrected.
    pub outside: f64,
}

impl Overhead {
    /// What is known of it; `None` if that is nothing.
    fn new(hold: Duration, at: Vec<OverheadAt>) -> Option<Overhead> {
        let is_small = at.iter().all(|at| at.share < SHARE_MAX);
        let passed = at.len() == 2 && is_small;
        (!at.is_empty()).then_some(Overhead {
            hold_us: hold.as_secs_f64() * 1e6,
            at,
            passed,
            path: None,
        })
    }
}

impl OverheadAt {
    /// `None` unless all figures are known.
    fn new(
        name: &str,
        corrected_us: Option<f64>,
        added_us: Option<f64>,
        held_us: Option<f64>,
    ) -> Option<OverheadAt> {
        let (corrected_us, added_us, held_us) = (corrected_us?, added_us?, held_us?);
        Some(OverheadAt {
            name: name.to_owned(),
            corrected_us,
            added_us,
            share: added_us / corrected_us,
            held_us,
            outside: (corrected_us - held_us) / corrected_us,
        })
    }
}

/// The median time that a request spends outside of its target, by two ways: the latency of the
/// null target, and that of a sample target that holds nothing, less what its ledger says it held.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Path {
    /// Of the null target, µs.
    pub floor_us: f64,
    /// By the ledger, µs.
    pub ledger_us: f64,
    /// Whether they agree within [`AGREE_SHARE`] or [`AGREE_US`].
    pub agrees: bool,
}

impl Path {
    fn new(floor_us: f64, ledger_us: f64) -> Path {
        let allowed_us = (AGREE_SHARE * floor_us.max(ledger_us)).max(AGREE_US);
        let agrees = 0.0 < ledger_us && (floor_us - ledger_us).abs() <= allowed_us;
        Path { floor_us, ledger_us, agrees }
    }
}

/// How the machine disturbed a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// The run.
    pub run: String,
    /// The evidence of its verdict.
    pub evidence: String,
    /// The figure in it, as a multiple of its limit.
    pub times_limit: f64,
}

/// Why a section ended early.
enum End<E> {
    Interrupted,
    Failed(E),
}

impl<E> From<E> for End<E> {
    fn from(error: E) -> End<E> {
        End::Failed(error)
    }
}

impl Calibration {
    /// Nothing measured yet.
    pub fn new(setup: &Setup) -> Calibration {
        let environment = environment(&setup.cores, Vec::new(), setup.null_target);
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Calibration {
            schema: SCHEMA,
            interrupted: false,
            began_s: since.map_or(0, |since| since.as_secs()),
            tool_version: environment.tool_version,
            kernel: environment.kernel,
            cpu: environment.cpu,
            cores: setup.cores.clone(),
            target_cores: setup.target_cores.clone(),
            wait: setup.wait,
            clocks: None,
            waits: Vec::new(),
            ceiling: None,
            floors: Vec::new(),
            costs: Vec::new(),
            overhead: None,
            runs: 0,
            disturbed: Vec::new(),
        }
    }

    /// Whether the overhead is as small as it must be, and both ways of measuring the path agree.
    pub fn is_proven(&self) -> bool {
        let path = |overhead: &Overhead| overhead.path.is_some_and(|path| path.agrees);
        self.overhead.as_ref().is_some_and(|overhead| overhead.passed && path(overhead))
    }

    /// Whether the targets had cores of their own.
    pub fn is_apart(&self) -> bool {
        self.target_cores.iter().all(|core| !self.cores.contains(core))
    }

    /// Measures one section. An interrupted run ends it, and what was measured before stays.
    ///
    /// # Errors
    /// Those of `run`.
    pub fn measure<E: From<ExperimentError>>(
        &mut self,
        section: Section,
        setup: &Setup,
        run: impl FnMut(Plan, Display) -> Result<Finished, E>,
    ) -> Result<(), E> {
        let mut measuring = Measuring { setup, run, runs: 0, disturbed: Vec::new() };
        let ended = match section {
            Section::Clocks => {
                self.clocks = Some(clocks::measure(setup.cores[0]));
                Ok(())
            }
            Section::Waits => measuring.waits(&mut self.waits),
            Section::Ceiling => measuring.ceiling(&mut self.ceiling),
            Section::Floors => {
                let ceiling = self.ceiling.as_ref().map_or(0.0, Ceiling::rate);
                measuring.floors(ceiling, &mut self.floors)
            }
            Section::Costs => {
                let conns = self.ceiling.as_ref().map_or(CONNS[1], |ceiling| ceiling.closed_conns);
                measuring.costs(conns, &mut self.costs)
            }
            Section::Overhead => measuring.overhead(&mut self.overhead),
        };
        self.runs += measuring.runs;
        self.disturbed.append(&mut measuring.disturbed);
        match ended {
            Ok(()) => Ok(()),
            Err(End::Interrupted) => {
                self.interrupted = true;
                Ok(())
            }
            Err(End::Failed(error)) => Err(error),
        }
    }
}

/// The runs of a section.
struct Measuring<'a, R> {
    setup: &'a Setup,
    run: R,
    runs: usize,
    disturbed: Vec<Disturbance>,
}

impl<E: From<ExperimentError>, R: FnMut(Plan, Display) -> Result<Finished, E>> Measuring<'_, R> {
    /// A plan against the null target with a window of so many milliseconds at full size.
    fn plan(&self, full_ms: u64) -> Plan {
        let window_ms = match self.setup.size {
            Size::Full => full_ms,
            Size::Smoke => (full_ms / 6).max(250),
        };
        Plan {
            target: format!("http://{}/", self.setup.null_target),
            cores: Some(CoreList::new(self.setup.cores.clone())),
            wait: self.setup.wait,
            duration: Nanos(window_ms * 1_000_000),
            warmup: Nanos(200_000_000),
            settle: Nanos(100_000_000),
            ..Plan::default()
        }
    }

    /// An open plan.
    fn open(&self, rate: f64, full_ms: u64) -> Plan {
        let rate: Rate = format!("{:.0}", rate.max(1.0)).parse().expect("a whole number");
        Plan { rate: Some(rate), prewarm: Some(PREWARM), ..self.plan(full_ms) }
    }

    fn closed(&self, conns: usize, full_ms: u64) -> Plan {
        Plan { conns: Some(conns), ..self.plan(full_ms) }
    }

    /// Makes a run, called `name` where it was disturbed.
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
        self.disturbed.extend(disturbances(name, report));
        Ok(())
    }

    fn waits(&mut self, found: &mut Vec<Lateness>) -> Result<(), End<E>> {
        for wait in [Wait::Sleep, Wait::Hybrid, Wait::Spin] {
            let plan = Plan { wait, ..self.open(RATE, 3_000) };
            let name = format!("1,000/s, {wait:?}").to_lowercase();
            let report = self.go(&name, plan, Display::User)?.report;
            found.push(Lateness {
                wait,
                rate: report.whole.rate.intended,
                pacer: Three::of(&report.whole.pacer_lateness),
                receive: Three::of(&report.whole.receive_lateness),
            });
        }
        Ok(())
    }

    fn ceiling(&mut self, found: &mut Option<Ceiling>) -> Result<(), End<E>> {
        let mut closed = Vec::new();
        for conns in CONNS {
            // Each shard needs a connection.
            let conns = conns.max(self.setup.cores.len());
            let name = format!("closed loop, {conns} connections");
            let known = self.disturbed.len();
            let report = self.go(&name, self.closed(conns, 1_200), Display::User)?.report;
            let (busy, cpu) = (busiest(&report), CpuPerRequest::new(&report));
            let (rate, disturbed) = (report.whole.rate.answered, known < self.disturbed.len());
            closed.push(Closed { conns, rate, busy, cpu, disturbed });
        }
        *found = Ceiling::new(closed);
        let Some(ceiling) = found else { return Ok(()) };
        while let Some(rate) = bracket::next(ceiling.closed_rate, &ceiling.open) {
            let plan = Plan { prewarm: Some(256), ..self.open(rate, 1_000) };
            let report = self.go(&format!("open, {rate:.0}/s"), plan, Display::User)?.report;
            ceiling.open.push(Tried::new(rate, &report));
            ceiling.bracket = Bracket::new(&ceiling.open);
        }
        Ok(())
    }

    fn floors(&mut self, ceiling: f64, found: &mut Vec<Floor>) -> Result<(), End<E>> {
        for share in SHARES {
            let plan = self.open(share * ceiling, 3_500);
            let name = format!("{:.0} % of the ceiling", share * 100.0);
            let report = self.go(&name, plan, Display::User)?.report;
            found.push(Floor {
                share,
                rate: report.whole.rate.intended,
                naive: Three::of(&report.whole.naive),
                corrected: Three::of(&report.whole.corrected),
                cpu: CpuPerRequest::new(&report),
            });
        }
        Ok(())
    }

    /// Runs with each feature in turn and without any, in rounds; each round begins with another.
    fn costs(&mut self, conns: usize, found: &mut Vec<Cost>) -> Result<(), End<E>> {
        let rounds = match self.setup.size {
            Size::Full => 4,
            Size::Smoke => 1,
        };
        let features =
            [None, Some(Feature::Raw), Some(Feature::KernelStamps), Some(Feature::Display)];
        let mut pairs = Feature::ALL.map(|_| Vec::new());
        for round in 0..rounds {
            let mut cost_us = [0.0; 4];
            for at in 0..features.len() {
                let at = (at + round) % features.len();
                cost_us[at] = self.cost_us(conns, features[at])?;
            }
            for (pairs, with_us) in pairs.iter_mut().zip(&cost_us[1..]) {
                pairs.push([*with_us, cost_us[0]]);
            }
        }
        found.extend(Feature::ALL.into_iter().zip(pairs).map(|(of, pairs)| Cost::new(of, pairs)));
        Ok(())
    }

    /// CPU time of this process for each request of a closed loop, µs. All runs but those with the
    /// kernel's stamps have the program's.
    fn cost_us(&mut self, conns: usize, feature: Option<Feature>) -> Result<f64, End<E>> {
        let with = |one| feature == Some(one);
        let plan = self.closed(conns, 800);
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
        Ok(cpu_us / report.whole.counts.answered.max(1) as f64)
    }

    fn overhead(&mut self, found: &mut Option<Overhead>) -> Result<(), End<E>> {
        *found = Overhead::new(HOLD, self.beside_ledger(HOLD, "5 ms target")?);
        let Some(overhead) = found else { return Ok(()) };
        let null = self.go("null target", self.open(RATE, 3_000), Display::User)?.report;
        let sample = self.beside_ledger(Duration::ZERO, "0 ms target")?;
        let floor_us = null.whole.corrected.quantile_us(0.5);
        overhead.path = floor_us.zip(sample.first()).map(|(floor_us, at)| {
            let ledger_us = at.corrected_us - at.held_us;
            Path::new(floor_us, ledger_us)
        });
        Ok(())
    }

    /// A run against the sample target, on the null target's cores: its median and p99, as far as
    /// they are known.
    fn beside_ledger(&mut self, hold: Duration, name: &str) -> Result<Vec<OverheadAt>, End<E>> {
        let config = TargetConfig {
            base_latency: hold,
            cores: self.setup.target_cores.clone(),
            ..TargetConfig::new(([127, 0, 0, 1], 0).into())
        };
        // Without a warm-up, the ledger is of the requests of the window alone.
        let plan = Plan { warmup: Nanos(0), ..self.open(RATE, 4_000) };
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
        Ok(each.into_iter().flatten().collect())
    }
}

/// Busy share of the busiest shard.
fn busiest(report: &Report) -> f64 {
    report.generator.shards.iter().map(|shard| shard.busy).fold(0.0, f64::max)
}

/// What others did to the machine in a run.
fn disturbances(run: &str, report: &Report) -> Vec<Disturbance> {
    let reasons = report.verdict.reasons.iter();
    let of_the_machine = reasons.filter(|reason| {
        matches!(
            reason.code,
            Code::CoreShared | Code::CpuStolen | Code::CpuContended | Code::CpuThrottled
        )
    });
    let disturbance = |reason: &Reason| Disturbance {
        run: run.to_owned(),
        evidence: reason.evidence.clone(),
        times_limit: reason.figure / reason.threshold,
    };
    of_the_machine.map(disturbance).collect()
}

/// CPU time of this process so far, µs.
fn process_cpu_us() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(conns: usize, rate: f64, busy: f64) -> Closed {
        Closed { conns, rate, busy, cpu: CpuPerRequest::default(), disturbed: false }
    }

    #[test]
    fn the_best_closed_loop_is_the_ceiling_unless_an_open_run_says_otherwise() {
        let loops = vec![closed(16, 9e4, 0.99), closed(64, 1.2e5, 0.99), closed(256, 1e5, 0.5)];
        let mut ceiling = Ceiling::new(loops).expect("three");
        assert_eq!((ceiling.closed_conns, ceiling.rate()), (64, 1.2e5));
        assert_eq!(ceiling.bound, Bound::Generator);
        ceiling.bracket = Bracket { passed: Some(1.1e5), failed: Some(1.15e5) };
        assert_eq!(ceiling.rate(), 1.1e5);
        let idle = Ceiling::new(vec![closed(16, 9e4, 0.6)]).expect("one");
        assert_eq!(idle.bound, Bound::Target);
        let disturbed = Closed { disturbed: true, ..closed(16, 9e4, 0.6) };
        assert_eq!(Ceiling::new(vec![disturbed]).expect("one").bound, Bound::Unknown);
        assert_eq!(Ceiling::new(Vec::new()), None);
    }

    #[test]
    fn a_cost_is_the_median_of_the_differences_of_its_pairs() {
        let pairs = vec![[5.0, 4.0], [4.5, 4.0], [9.0, 4.0], [3.9, 4.0]];
        let cost = Cost::new(Feature::Raw, pairs);
        assert!((cost.median_us - 0.75).abs() < 1e-9, "{cost:?}");
        assert!((cost.range_us[0] + 0.1).abs() < 1e-9 && cost.range_us[1] == 5.0, "{cost:?}");
    }

    fn at(name: &str, corrected: f64, added: f64, held: f64) -> OverheadAt {
        OverheadAt::new(name, Some(corrected), Some(added), Some(held)).expect("all are known")
    }

    #[test]
    fn the_share_must_be_small_at_both_percentiles() {
        let median = || at("p50", 5_040.0, 1.0, 5_010.0);
        assert!((median().outside - 30.0 / 5_040.0).abs() < 1e-9);
        let overhead = |at| Overhead::new(HOLD, at).expect("some are known");
        assert!(overhead(vec![median(), at("p99", 5_300.0, 200.0, 5_050.0)]).passed);
        assert!(!overhead(vec![median(), at("p99", 5_300.0, 300.0, 5_050.0)]).passed);
        assert!(!overhead(vec![median()]).passed, "p99 is unknown");
        assert_eq!(Overhead::new(HOLD, Vec::new()), None);
        assert_eq!(OverheadAt::new("p99", Some(5.0), None, Some(5.0)), None);
    }

    #[test]
    fn the_two_ways_agree_within_a_share_or_a_few_microseconds() {
        let agrees = |floor, ledger| Path::new(floor, ledger).agrees;
        assert!(agrees(20.0, 44.0) && !agrees(20.0, 46.0));
        assert!(agrees(100.0, 51.0) && !agrees(100.0, 49.0));
        assert!(!agrees(1.0, -1.0), "a ledger that held for longer than was measured is wrong");
    }
}
