//! The cases of ground truth over real HTTP: a load, a target and the latencies that must be
//! measured, and controls, whose measurements must not be the users' latencies.

use std::time::Duration;

use engine::plan::{Arrivals, Plan, Wait};
use engine::report::verdict::Origin;
use engine::stats::distribution::Distribution;
use engine::sys::units::Nanos;
use serde::Serialize;
use target::{LedgerError, Pause, Stall, TargetConfig};

use crate::judgement::Judgement;
use crate::observed::{Comparison, Observed, PATH_MS, allow_for_paths};
use crate::others;
use crate::truth::Truth;

/// The quantiles that are compared.
const QUANTILES: [f64; 5] = [0.5, 0.9, 0.95, 0.99, 0.999];

/// The length of the cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// About five minutes: p99.9 is known to a tenth of a millisecond.
    Full,
    /// About half a minute.
    Smoke,
}

impl Size {
    fn seconds(self, full: u64) -> u64 {
        match self {
            Size::Full => full,
            Size::Smoke => (full / 15).max(3),
        }
    }
}

type Judge = Box<dyn Fn(&Observed) -> Result<Vec<Comparison>, LedgerError>>;

/// One case.
pub struct Case {
    /// A description.
    pub name: String,
    /// True if it must measure less than users wait.
    pub is_control: bool,
    /// The target.
    pub target: TargetConfig,
    /// The load.
    pub plan: Plan,
    judge: Judge,
}

/// The result of a case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The case.
    pub name: String,
    /// True for a control.
    pub is_control: bool,
    /// Its judgement.
    pub judgement: Judgement,
    /// Requests of the plan, those answered, and those in the target's ledger.
    pub intended: u64,
    /// See [`Outcome::intended`].
    pub answered: u64,
    /// See [`Outcome::intended`].
    pub ledger: u64,
    /// The figures.
    pub comparisons: Vec<Comparison>,
    /// How others disturbed the run, from its verdict.
    pub disturbed: Vec<String>,
    /// The verdict's reasons about the generator itself: late, or without time to spare.
    pub generator: Vec<String>,
}

impl Case {
    /// Judges the observed run.
    ///
    /// # Errors
    /// If the ledger's histogram can't be read.
    pub fn judge(&self, observed: &Observed) -> Result<Outcome, LedgerError> {
        let comparisons = (self.judge)(observed)?;
        let counts = &observed.report.whole.counts;
        let unrecorded = counts.setup.answered + counts.warmup.answered;
        let ledger = observed.ledger.answered.saturating_sub(unrecorded);
        let disturbed: Vec<String> =
            others::reasons(&observed.report).map(|reason| reason.evidence.clone()).collect();
        let same = [counts.intended == counts.answered, counts.answered == ledger];
        Ok(Outcome {
            name: self.name.clone(),
            is_control: self.is_control,
            judgement: judged(self.is_control, same, &comparisons, !disturbed.is_empty()),
            intended: counts.intended,
            answered: counts.answered,
            ledger,
            comparisons,
            disturbed,
            generator: of_the_generator(observed),
        })
    }
}

/// Judges a case: `same` is true if all requests were answered, and the target's ledger has as
/// many. Others on the machine excuse latencies that are too long, and requests that were given up;
/// not a latency below the target's hold time, and no request that only one of the two counts.
fn judged(
    is_control: bool,
    same: [bool; 2],
    comparisons: &[Comparison],
    disturbed: bool,
) -> Judgement {
    let [all_answered, by_the_ledger] = same;
    let (as_it_must, in_excess) = if is_control {
        (comparisons.iter().any(Comparison::is_below), true)
    } else {
        let known = |one: &Comparison| !one.is_below() && !one.measured_ms.is_nan();
        (comparisons.iter().all(Comparison::holds), comparisons.iter().all(known))
    };
    let excused = disturbed && by_the_ledger && in_excess;
    Judgement::new(all_answered && by_the_ledger && as_it_must, excused)
}

/// The verdict's reasons about the generator itself.
fn of_the_generator(observed: &Observed) -> Vec<String> {
    let reasons = observed.report.verdict.found();
    let own = reasons.filter(|reason| reason.code.rule().origin == Origin::ShortOfTime);
    own.map(|reason| reason.evidence.clone()).collect()
}

/// All cases, with the generator waiting for its arrivals in this way.
pub fn cases(size: Size, wait: Wait) -> Vec<Case> {
    let all = [
        hold(size),
        hold_over_tls(size),
        hold_with_tail(size),
        serial(size, 200),
        serial(size, 400),
        published_open(size),
        published_closed(size),
        paced(size),
        closed_on_stalls(size),
        closed_on_pauses(size),
    ];
    all.into_iter().map(|case| Case { plan: Plan { wait, ..case.plan }, ..case }).collect()
}

fn sample_target(base: Duration) -> TargetConfig {
    TargetConfig { base_latency: base, ..TargetConfig::new(([127, 0, 0, 1], 0).into()) }
}

/// A target that stalls for 50 ms every second.
fn stalling(base: Duration) -> TargetConfig {
    let (every, hold) = (Duration::from_secs(1), Duration::from_millis(50));
    TargetConfig { stall: Some(Stall { every, hold }), ..sample_target(base) }
}

/// One server of 1 ms that pauses for 200 ms every 500 requests.
fn pausing() -> TargetConfig {
    TargetConfig {
        serial: true,
        pause: Some(Pause { every_requests: 500, hold: Duration::from_millis(200) }),
        ..sample_target(Duration::from_millis(1))
    }
}

fn plan(seconds: u64) -> Plan {
    Plan { warmup: Nanos(0), duration: Nanos::from_secs(seconds), ..Plan::default() }
}

fn open(rate: &str, arrivals: Arrivals, seconds: u64) -> Plan {
    Plan { rate: Some(rate.parse().expect("a rate")), arrivals, ..plan(seconds) }
}

fn closed(seconds: u64) -> Plan {
    Plan { conns: Some(1), ..plan(seconds) }
}

/// A case whose corrected latency has the distribution that `truth` derives from the run's ledger.
fn case(
    name: String,
    target: TargetConfig,
    plan: Plan,
    truth: impl Fn(&Observed) -> Truth + 'static,
) -> Case {
    let judge = move |observed: &Observed| observed.compare(&truth(observed), &QUANTILES);
    Case { name, is_control: false, target, plan, judge: Box::new(judge) }
}

fn hold_truth(observed: &Observed) -> Truth {
    Truth::hold(1.0, &observed.ledger.stalls, observed.window)
}

fn hold(size: Size) -> Case {
    let seconds = size.seconds(60);
    let name = format!("each request in a stall waits for its end; 2,000/s for {seconds} s");
    let plan = open("2k", Arrivals::Poisson, seconds);
    case(name, stalling(Duration::from_millis(1)), plan, hold_truth)
}

/// Records are encrypted and decrypted outside the hold, one after the other.
fn hold_over_tls(size: Size) -> Case {
    let seconds = size.seconds(60);
    let name = format!("the same over TLS, for {seconds} s");
    let target = TargetConfig { tls: true, ..stalling(Duration::from_millis(1)) };
    // The certificate is made when the target starts.
    let plan = Plan { insecure: true, ..open("2k", Arrivals::Poisson, seconds) };
    let judge = |observed: &Observed| {
        let truth = hold_truth(observed);
        let mut comparisons = observed.compare(&truth, &QUANTILES)?;
        // 2,000/s are two in each millisecond.
        allow_for_paths(&mut comparisons, &truth, 2.0);
        Ok(comparisons)
    };
    Case { name, is_control: false, target, plan, judge: Box::new(judge) }
}

fn hold_with_tail(size: Size) -> Case {
    let seconds = size.seconds(60);
    let name = format!("the same, and 0.5 % of requests take 200 ms longer, for {seconds} s");
    let target = TargetConfig {
        tail_fraction: 0.005,
        tail_latency: Duration::from_millis(201),
        ..stalling(Duration::from_millis(1))
    };
    let plan = open("2k", Arrivals::Poisson, seconds);
    case(name, target, plan, |observed| hold_truth(observed).with_tail(0.005, 200.0))
}

fn serial(size: Size, service_us: u32) -> Case {
    let seconds = size.seconds(60);
    let service_ms = f64::from(service_us) / 1e3;
    let name =
        format!("one server of {service_ms} ms that stalls; 2,000/s, equal gaps, {seconds} s");
    let service = Duration::from_micros(u64::from(service_us));
    let target = TargetConfig { serial: true, ..stalling(service) };
    let plan = open("2k", Arrivals::Constant, seconds);
    case(name, target, plan, move |observed| {
        Truth::serial(service_ms, 2_000.0, &observed.ledger.stalls, observed.window)
    })
}

/// A published example of coordinated omission, by arrival rate.
fn published_open(size: Size) -> Case {
    let seconds = size.seconds(30);
    let name =
        format!("one server of 1 ms, 200 ms pause every 500 requests; 450/s for {seconds} s");
    let plan = open("450", Arrivals::Constant, seconds);
    case(name, pausing(), plan, pausing_truth)
}

fn pausing_truth(observed: &Observed) -> Truth {
    Truth::pausing(1.0, 450.0, &observed.ledger.pauses, observed.window)
}

/// The same example in a closed loop: one request in 500 meets a pause, and none waits behind it.
fn published_closed(size: Size) -> Case {
    let seconds = size.seconds(15);
    let name = format!("the same in a closed loop, one connection for {seconds} s");
    case(name, pausing(), closed(seconds), |observed| {
        Truth::hold(1.0, &[], observed.window).with_tail(1.0 / 500.0, 199.0)
    })
}

/// A user comes every 10 ms; nine requests take 2 ms and one in ten takes 35 ms. The naive mean is
/// (9·2 + 35)/10 = 5.3 ms; the four requests behind the slow one wait 27, 19, 11 and 3 ms, so the
/// corrected mean is 105/10 = 10.5 ms.
fn paced(size: Size) -> Case {
    let seconds = size.seconds(15);
    let target = TargetConfig {
        serial: true,
        pause: Some(Pause { every_requests: 10, hold: Duration::from_millis(35) }),
        ..sample_target(Duration::from_millis(2))
    };
    let plan = Plan { period: Some(Nanos(10_000_000)), ..closed(seconds) };
    let judge = |observed: &Observed| {
        let (naive, corrected) = (&observed.naive, &observed.corrected);
        let mean = |name: &str, of: &Distribution, predicted_ms, paths| {
            // The window may cut the last ten.
            let cut_ms = 35.0 * 10.0 / observed.report.whole.counts.intended as f64;
            Comparison {
                name: name.to_owned(),
                predicted_ms,
                measured_ms: of.mean_ns().map_or(f64::NAN, |ns| ns / 1e6),
                held_ms: observed.ledger.held.mean.map_or(f64::NAN, |us| us / 1e3),
                band_ms: (predicted_ms - cut_ms, predicted_ms + cut_ms + paths * PATH_MS),
            }
        };
        // The last of the waiting requests also waits for the paths of four others.
        Ok(vec![mean("naive mean", naive, 5.3, 1.0), mean("mean", corrected, 10.5, 5.0)])
    };
    Case {
        name: format!("a user every 10 ms, one request in ten takes 35 ms; {seconds} s"),
        is_control: false,
        target,
        plan,
        judge: Box::new(judge),
    }
}

/// A control: a closed loop's latency of the target that stalls.
fn closed_on_stalls(size: Size) -> Case {
    let seconds = size.seconds(10);
    let name = format!("control: the target that stalls, closed loop, {seconds} s");
    let target = stalling(Duration::from_millis(1));
    Case { is_control: true, ..case(name, target, closed(seconds), hold_truth) }
}

/// A control: a closed loop's latency of the target that pauses.
fn closed_on_pauses(size: Size) -> Case {
    let seconds = size.seconds(10);
    let name = format!("control: the target that pauses, closed loop, {seconds} s");
    // Its users would come 450 times a second; a closed loop comes more often, so its pauses are
    // closer together than such a server can bear.
    let truth = |observed: &Observed| Truth::hold(1.0, &observed.ledger.pauses, observed.window);
    Case { is_control: true, ..case(name, pausing(), closed(seconds), truth) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A figure that must be between 9 and 11 ms.
    fn measured(measured_ms: f64) -> Comparison {
        Comparison {
            name: "p99".to_owned(),
            predicted_ms: 10.0,
            measured_ms,
            held_ms: 10.0,
            band_ms: (9.0, 11.0),
        }
    }

    #[test]
    fn others_excuse_only_possible_effects() {
        use Judgement::{Failed, NotJudged, Passed};
        let all = [true, true];
        for (same, ms, quiet, disturbed) in [
            (all, 10.0, Passed, Passed),
            (all, 12.0, Failed, NotJudged),
            // No response comes before its target sent it.
            (all, 8.0, Failed, Failed),
            (all, f64::NAN, Failed, Failed),
            ([false, true], 10.0, Failed, NotJudged),
            ([true, false], 10.0, Failed, Failed),
            ([false, true], 8.0, Failed, Failed),
        ] {
            let judge = |others| judged(false, same, &[measured(10.0), measured(ms)], others);
            assert_eq!((judge(false), judge(true)), (quiet, disturbed), "{same:?} {ms}");
        }
    }

    #[test]
    fn a_failed_control_is_not_judged_while_others_slow_it_down() {
        use Judgement::{Failed, NotJudged, Passed};
        for (ms, quiet, disturbed) in
            [(1.0, Passed, Passed), (10.0, Failed, NotJudged), (12.0, Failed, NotJudged)]
        {
            let judge = |others| judged(true, [true, true], &[measured(ms)], others);
            assert_eq!((judge(false), judge(true)), (quiet, disturbed), "{ms}");
        }
    }
}
