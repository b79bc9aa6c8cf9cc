//! The bound of a ceiling: from the figures of the run that failed, checked against the trials.

use engine::record::outcome::Cause;
use engine::report::environment::Limit;
use engine::report::verdict::Code as Verdict;
use serde::{Deserialize, Serialize};

use crate::blame::{most_is_lateness, took_longer};
use crate::figures::Figures;
use crate::numbers::{number, per_second, percent, time};
use crate::proof::{Proof, Scaling, Trial};
use crate::rule::{Broke, TAKEN_MIN, broke, is_late};
use crate::search::Bracket;
use crate::step::Step;

/// The bound of the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// A core of the generator had no time left, or the generator woke up late.
    GeneratorCore,
    /// The target answered no more, or accepted no more, while the generator had room.
    Target,
    /// All connections that may be open were busy, at a target that wasn't.
    Cap,
    /// The generator's machine had no local port left.
    Ports,
    /// The generator's machine had no file or memory left.
    Files,
    /// The network carried no more, or lost what it carried.
    Link,
    /// Nothing: no rate failed.
    NoneReached,
}

/// True if requests without an answer prove the bound of a failed step, so that no trial is needed.
pub(crate) fn shows_as_failures(code: Code, failing: &Step) -> bool {
    code.is_lack() || failing.silent_from_s.is_some()
}

impl Code {
    /// True for a resource that the generator's machine ran out of.
    pub(crate) fn is_lack(self) -> bool {
        matches!(self, Code::Ports | Code::Files)
    }

    /// True for the generator's cores.
    pub(crate) fn is_generator(self) -> bool {
        self == Code::GeneratorCore
    }
}

/// The bound, and its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// The bound.
    pub code: Code,
    /// The figures that show it, as text.
    pub evidence: String,
    /// True if trials confirm it; where they contradict the figures, the trials decide.
    pub proven: bool,
    /// The path at the lowest rate that passed; `None` if none did.
    pub light: Option<Load>,
    /// The path at the rate that failed; `None` if none did.
    pub heavy: Option<Load>,
}

/// The path at one rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Requests per second offered.
    pub rate_per_s: f64,
    /// Mean naive latency, microseconds: by the kernel's stamps of responses, unless the plan has
    /// the program's.
    pub latency_us: Option<f64>,
    /// Mean number of requests at the target.
    pub at_target: f64,
    /// The rate of answers that follows from both by Little's law.
    pub by_littles_law_per_s: Option<f64>,
    /// Share of the window in which the busiest shard had work.
    pub busy: f64,
    /// Share of its core's time in user space, polling included.
    pub user: f64,
    /// Share of its core's time in the kernel, polling included.
    pub system: f64,
    /// Share of its core's time in soft interrupts; `None` if unknown.
    pub soft_interrupts: Option<f64>,
}

impl Bound {
    /// The bound of a series that ended because a run was refused, for lack of this resource, with
    /// the refusal as evidence.
    #[must_use]
    pub fn of_refusal(self, code: Code, refusal: &str) -> Bound {
        Bound { code, evidence: refusal.to_owned(), proven: true, ..self }
    }
}

impl Load {
    fn of(step: &Step) -> Load {
        let shard = step.figures.busiest().copied().unwrap_or_default();
        let (at_target, latency_us) = (step.figures.at_target, step.naive.mean);
        let latency = latency_us.filter(|us| 0.0 < *us);
        Load {
            rate_per_s: step.rate_per_s,
            latency_us,
            at_target,
            by_littles_law_per_s: latency.map(|us| at_target / us * 1e6),
            busy: shard.busy,
            user: shard.user,
            system: shard.system,
            soft_interrupts: shard.soft_interrupts,
        }
    }
}

/// Share of a shard's time from which its core is full, including time taken by the hypervisor.
const BUSY_FULL: f64 = 0.9;
/// Share of a shard's time below which another shard couldn't make a difference.
const BUSY_ROOM: f64 = 0.7;
/// Share of the allowed connections from which all count as busy.
const CONNS_FULL: f64 = 0.9;
/// The smallest share of arrivals waiting for a connection that matters.
const CAPPED_MIN: f64 = 0.02;
/// The smallest share of failed requests, or of retransmitted segments, that matters.
const LOST_MIN: f64 = 0.01;
/// Share of a link's speed from which it is full.
const LINK_FULL: f64 = 0.9;
/// The most files that a process has open besides its connections.
const OTHER_FILES: u64 = 256;

impl Figures {
    /// True if this many connections fit into the limit of open files.
    pub(crate) fn has_files_for(&self, conns: u64) -> bool {
        match self.open_files {
            Limit::Unlimited => true,
            Limit::AtMost(files) => {
                let others = OTHER_FILES + 16 * self.shards.len() as u64;
                conns.saturating_add(others) <= files
            }
        }
    }

    /// The network's effect that bounds a rate, as text, given the requests of the run.
    fn link(&self, requests: u64) -> Option<String> {
        let per_second = |bytes: u64| bytes as f64 / self.observed_s.max(f64::MIN_POSITIVE);
        let full = self.interface.as_ref().and_then(|interface| {
            let bits = 8.0 * per_second(interface.received_bytes.max(interface.sent_bytes));
            let share = bits / (interface.speed_mbit? as f64 * 1e6);
            (LINK_FULL <= share)
                .then(|| format!("{} ran at {} of its speed", interface.name, percent(share)))
        });
        let tcp = self.tcp.as_ref();
        let again = tcp.and_then(|tcp| {
            let share = tcp.retransmitted as f64 / tcp.segments_sent.max(1) as f64;
            let figures = format!(
                "{} of {} segments retransmitted ({})",
                number(tcp.retransmitted as f64),
                number(tcp.segments_sent as f64),
                percent(share)
            );
            (LOST_MIN <= share).then_some(figures)
        });
        let lost = self.interface.as_ref().filter(|interface| {
            0 < interface.dropped && LOST_MIN * requests as f64 <= interface.dropped as f64
        });
        let lost = lost.map(|interface| {
            format!("{} dropped {} packets", interface.name, number(interface.dropped as f64))
        });
        let parts: Vec<String> = [full, again, lost].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// Connections dropped by listeners on this machine, if they bound a rate given the requests of
    /// the run: the target accepts too slowly. Its handshakes are then retransmitted.
    fn not_accepted(&self, requests: u64) -> Option<u64> {
        let drops = self.tcp.map(|tcp| tcp.listen_drops.max(tcp.listen_overflows))?;
        (0 < drops && LOST_MIN * requests as f64 <= drops as f64).then_some(drops)
    }

    /// True if all allowed connections were at the target.
    fn conns_are_busy(&self) -> bool {
        CONNS_FULL * self.conns as f64 <= self.at_target
    }

    /// Requests that found no local port.
    fn without_port(&self) -> u64 {
        self.failures.get(&Cause::NoLocalPort.name()).copied().unwrap_or(0)
    }

    /// Requests that found no file or memory for their connection.
    fn without_file(&self) -> u64 {
        self.local_resource.saturating_sub(self.without_port())
    }

    /// Share of the busiest shard's time used by itself or the hypervisor.
    fn taken_up(&self) -> f64 {
        self.busiest().map_or(0.0, |shard| shard.busy) + self.steal.unwrap_or(0.0)
    }
}

/// The bound by the figures of the failed run alone; `light` is the lowest rate that passed.
///
/// A step of a sweep or a search is judged by [`crate::blame`]: by its objectives, or by its
/// backlog alone. It needs no more than three sides, and has no trial to correct it.
pub(crate) fn by_figures(light: Option<&Step>, failing: &Step) -> Code {
    let figures = &failing.figures;
    let share = |count: u64| count as f64 / failing.requests.max(1) as f64;
    let full = BUSY_FULL <= figures.taken_up()
        || failing.verdict.found().any(|reason| reason.code == Verdict::CoreSaturated);
    // A generator that sends everything in time is no bound, however busy it is.
    let generator = broke(failing) != [Broke::Errors] && (full || is_by_lateness(failing));
    match () {
        () if LOST_MIN <= share(figures.local_resource) => {
            if figures.without_file() <= figures.without_port() { Code::Ports } else { Code::Files }
        }
        // Unanswered requests keep all connections busy.
        () if failing.silent_from_s.is_some() => Code::Target,
        () if generator => Code::GeneratorCore,
        () if figures.conns_are_busy()
            && CAPPED_MIN <= share(figures.capped)
            && took_longer(light, failing) != Some(true) =>
        {
            Code::Cap
        }
        () if figures.not_accepted(failing.requests).is_some() => Code::Target,
        () if figures.link(failing.requests).is_some() => Code::Link,
        () => Code::Target,
    }
}

/// True if a step failed by the generator's lateness: half of its requests were noticed too late,
/// or the missing ones waited for the generator.
fn is_by_lateness(step: &Step) -> bool {
    let is_short = || broke(step).iter().any(|by| matches!(by, Broke::Sent | Broke::Backlog));
    is_late(step) || is_short() && most_is_lateness(step)
}

/// The bound; `excuse` is that of all failed runs, `light` the lowest rate that passed, `failing`
/// `None` if no rate failed.
pub(crate) fn bound(
    bracket: &Bracket,
    excuse: Option<String>,
    light: Option<&Step>,
    failing: Option<&Step>,
    proof: &Proof,
) -> Bound {
    let loads = (light.map(Load::of), failing.map(Load::of));
    let Some(failing) = failing else {
        let evidence = excuse.unwrap_or_else(|| none_failed(bracket));
        let (light, heavy) = loads;
        return Bound { code: Code::NoneReached, evidence, proven: false, light, heavy };
    };
    let (code, proven) = match by_figures(light, failing) {
        code if shows_as_failures(code, failing) => (code, true),
        code => held_against(code, failing, proof),
    };
    let (light, heavy) = loads;
    let evidence = evidence(code, light.as_ref(), failing);
    Bound { code, evidence, proven, light, heavy }
}

/// Why a bracket without a failed rate has no bound, as text.
fn none_failed(bracket: &Bracket) -> String {
    let Bracket { passed_per_s: passed, undecided_per_s: undecided, complete, .. } = bracket;
    match (passed, undecided.is_empty()) {
        (None, true) => "no run was made".to_owned(),
        (None, false) => {
            "no rate passed or failed: its runs decided nothing, or contradict each other"
                .to_owned()
        }
        (Some(passed), false) => format!(
            "{} passed; the runs above it contradict each other, decided nothing, or were excused",
            per_second(*passed)
        ),
        (Some(passed), true) if *complete => {
            format!("no rate failed up to {}, the highest offered", per_second(*passed))
        }
        (Some(passed), true) => {
            format!("no rate failed up to {}, where the search ended early", per_second(*passed))
        }
    }
}

/// True if a run with one more shard would prove this bound, but there is no core for it.
#[must_use]
pub fn lacks_core(bound: &Bound, proof: &Proof) -> bool {
    let (more, fewer) = conns_moved(proof);
    let is_left_to_shards = match bound.code {
        Code::GeneratorCore => true,
        Code::Target => more.or(fewer) == Some(false),
        Code::Cap | Code::Ports | Code::Files | Code::Link | Code::NoneReached => false,
    };
    !bound.proven && is_left_to_shards && proof.scaling == Scaling::Unproven
}

/// Whether more connections moved the ceiling, and whether fewer did; `None` if unknown.
fn conns_moved(proof: &Proof) -> (Option<bool>, Option<bool>) {
    let base = proof.trials.first().and_then(Trial::counted);
    let full = base.is_some_and(|step| step.figures.conns_are_busy());
    let moved = |trial: Option<&Trial>| trial.and_then(|trial| Some(trial.moved? && full));
    (moved(proof.more_conns()), moved(proof.fewer_conns()))
}

/// The trials' effect on a code, and whether they confirm it.
fn held_against(code: Code, failing: &Step, proof: &Proof) -> (Code, bool) {
    let base = proof.trials.first().and_then(Trial::counted);
    // A shard with room can't have been the bound, whatever a trial shows by chance.
    let taken_up = base.map_or(0.0, |step| step.figures.taken_up());
    let shards = proof.shards().and_then(|trial| {
        let moved = trial.moved?;
        let more = base.is_some_and(|step| step.figures.shards.len() < trial.shards);
        match (moved, more) {
            (true, true) => Some(BUSY_ROOM < taken_up),
            // Half of the shards do less as well if all of them had hardly any room.
            (true, false) => (BUSY_FULL <= taken_up).then_some(true),
            (false, _) => Some(false),
        }
    });
    let (more, fewer) = conns_moved(proof);
    let has_room = failing.figures.taken_up() <= BUSY_ROOM;
    // A base that isn't late was bounded by something else than the failed step.
    let late_alone = is_by_lateness(failing) && !base.is_some_and(is_by_lateness);
    match (code, shards, more) {
        (Code::Ports | Code::Files | Code::NoneReached, ..) => (code, false),
        // A change that moves the ceiling was the bound.
        (_, Some(true), _) => (Code::GeneratorCore, true),
        (Code::GeneratorCore, ..) if late_alone => (code, false),
        (_, _, Some(true)) => (Code::Cap, true),
        (Code::Link, ..) => (code, false),
        // The figures of one run may mislead; one more shard without an effect doesn't.
        (Code::GeneratorCore, Some(false), _) => (Code::Target, more.or(fewer) == Some(false)),
        (Code::GeneratorCore, None, _) => (code, false),
        (Code::Cap, _, Some(false)) => (Code::Target, shards.is_some() || has_room),
        // Half of the connections would do half if they were the bound.
        (Code::Cap, _, None) => (code, fewer == Some(true)),
        (Code::Target, ..) => {
            (code, more.or(fewer) == Some(false) && (shards.is_some() || has_room))
        }
    }
}

/// The figures that show a bound, as text.
fn evidence(code: Code, light: Option<&Load>, failing: &Step) -> String {
    let (figures, heavy) = (&failing.figures, Load::of(failing));
    let law = heavy
        .by_littles_law_per_s
        .map_or(String::new(), |by_law| format!(" (L/W = {})", per_second(by_law)));
    let at_heavy = format!("{}{law}", at(&heavy));
    match code {
        Code::GeneratorCore => {
            let p50 = failing.pacer_lateness.percentiles.at(0.5).value;
            let late = match p50.filter(|_| is_by_lateness(failing)) {
                Some(us) if figures.taken_up() < BUSY_FULL => {
                    format!("the generator woke up late (pacer lateness p50 {}): ", time(us))
                }
                _ => String::new(),
            };
            let soft = heavy.soft_interrupts.map_or(String::new(), |share| {
                format!(", {} softirq in part within it", percent(share))
            });
            let core = figures.busiest().map_or(0, |shard| shard.core);
            let others = match figures.taken() {
                none if none < TAKEN_MIN => String::new(),
                taken => format!("; others took up to {} of its cores", percent(taken)),
            };
            format!(
                "{late}the shard on core {core} was {} busy ({} user, {} system{soft}){others}; \
                 {at_heavy}",
                percent(heavy.busy),
                percent(heavy.user),
                percent(heavy.system),
            )
        }
        Code::Target => {
            let before = light.map_or(String::new(), |light| format!("; {}", at(light)));
            if let Some(from_s) = failing.silent_from_s {
                let from = match from_s {
                    0.0 => String::new(),
                    from_s => format!(" from {} into the window on", time(from_s * 1e6)),
                };
                return format!(
                    "at {} offered: no answers{from}{before}",
                    per_second(heavy.rate_per_s)
                );
            }
            let dropped = figures.not_accepted(failing.requests).map_or(String::new(), |drops| {
                format!(
                    "; {} connections dropped by a full accept queue on this machine",
                    number(drops as f64)
                )
            });
            format!("{at_heavy}{before}{dropped}; busiest shard {} busy", percent(heavy.busy))
        }
        Code::Cap => format!(
            "limited by --conns {}: {} connections busy on average, {} arrivals waited for one; \
             {at_heavy}",
            number(figures.conns as f64),
            number(heavy.at_target),
            number(figures.capped as f64),
        ),
        Code::Ports => {
            let ports = figures.ports.as_ref().map_or(String::new(), |ports| {
                format!(
                    ": of {} at most {} were in use and {} in TIME_WAIT, {} left",
                    ports.range.saturating_mul(ports.sources),
                    ports.in_use_max,
                    ports.time_wait_max,
                    ports.headroom
                )
            });
            format!("{} requests got no local port{ports}", number(figures.without_port() as f64))
        }
        Code::Files => format!(
            "{} requests got no file descriptor or memory for their connection",
            number(figures.without_file() as f64)
        ),
        Code::Link => figures.link(failing.requests).unwrap_or_default(),
        Code::NoneReached => String::new(),
    }
}

/// A load as text.
fn at(load: &Load) -> String {
    let latency = load.latency_us.map_or("unknown".to_owned(), time);
    format!(
        "at {} offered: mean latency {latency}, {} in flight",
        per_second(load.rate_per_s),
        number(load.at_target)
    )
}
