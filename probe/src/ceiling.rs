//! The ceiling: the highest rate that generator and target sustain, and which of them was the
//! bound.
//!
//! The rate is searched like any other, by a rule of its own. Then a few runs above the ceiling
//! show what moves it: the plan as it is, with more shards or half of them, with twice and half the
//! connections. They are offered more than the path can take, so that the delivered rate is its
//! throughput.

use engine::sys::units::Nanos;
use serde::{Deserialize, Serialize};

use crate::bound::{Bound, bound, by_figures, shows_as_failures};
use crate::numbers::{per_second, percent};
use crate::proof::{Changed, EXPECTED_MIN, Proof, Scaling, Trial};
use crate::rates::four_figures;
use crate::rule::{End, Rule, by_load};
use crate::search::{Bracket, Limit, Search, SearchPlan};
use crate::step::{Outcome, Step};
use crate::within::{Within, rest};
use crate::{Ask, Change, Series, SeriesProgress};

/// The trials' rate as a multiple of the rate that failed.
pub const TRIAL_RATE: f64 = 1.25;
/// Share of a core that others may take of the generator in a trial before it is repeated.
const TAKEN_MAX: f64 = 0.05;
/// The most runs of a trial that others disturb. They only take throughput away, so the best run
/// counts.
const TRIAL_RUNS_MAX: usize = 2;
/// The fewest trials of a ceiling: as it is, and two numbers of connections.
const TRIALS_MIN: usize = 3;
/// Every number of shards is tried up to this one, and powers of two beyond.
const SHARDS_ALL: usize = 8;

/// A ceiling in progress.
#[derive(Clone, Debug)]
pub struct Ceiling {
    search: Search,
    plan: CeilingPlan,
    /// The runs of each trial, in the order of [`Ceiling::planned`].
    trials: Vec<Vec<Step>>,
}

/// The parameters of the search for a ceiling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CeilingPlan {
    /// The search for the bracket.
    pub search: SearchPlan,
    /// All cores available to shards, each without disturbing the target or another shard; none if
    /// agents place their shards, whose number no trial can change then.
    pub cores: Vec<usize>,
    /// The largest number of connections of a plan.
    pub conns_max: u64,
}

/// The result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The result of the search; complete if the trials were made as well.
    #[serde(flatten)]
    pub bracket: Bracket,
    /// The longest window that an undecided rate would need, as far as its runs show, seconds;
    /// `None` if no rate remained undecided for lack of a longer one.
    pub window_needed_s: Option<f64>,
    /// Why `passed` passed, by its last run.
    pub passed_by: Option<End>,
    /// Why `failed` failed, by its last run.
    pub failed_by: Option<End>,
    /// Why there is no ceiling: each failed run was excused. `None` if it was judged.
    pub not_judged: Option<NotJudged>,
    /// The bound.
    pub bound: Bound,
    /// The trials that show what moves the ceiling.
    pub proof: Proof,
}

/// The failed runs, if each was excused: others took more of the generator's cores than it fell
/// short by. The shares are from the run in which they were largest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NotJudged {
    /// Their rates, ascending, requests per second.
    pub rates_per_s: Vec<f64>,
    /// Share of the shards' cores that the hypervisor took; `None` if unknown.
    pub steal: Option<f64>,
    /// Share of its time in which a shard was runnable, but others ran.
    pub waited: f64,
    /// Share for which a quota throttled the generator, summed over cores; `None` if unknown.
    pub throttled: Option<f64>,
}

impl NotJudged {
    /// From these steps; `None` if one failed without an excuse, or none failed.
    fn of<'a>(steps: impl Iterator<Item = &'a Step>) -> Option<NotJudged> {
        let failing: Vec<&Step> = steps.filter(|step| by_load(step) != Outcome::Passed).collect();
        let is_excused = |step: &&Step| by_load(step) == Outcome::Excused;
        if failing.is_empty() || !failing.iter().all(is_excused) {
            return None;
        }
        let mut rates: Vec<f64> = failing.iter().map(|step| step.rate_per_s).collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        let figures = || failing.iter().map(|step| &step.figures);
        let waited = figures().flat_map(|figures| &figures.shards).map(|shard| shard.waited);
        Some(NotJudged {
            rates_per_s: rates,
            steal: figures().filter_map(|figures| figures.steal).max_by(f64::total_cmp),
            waited: waited.fold(0.0, f64::max),
            throttled: figures().filter_map(|figures| figures.throttled).max_by(f64::total_cmp),
        })
    }

    /// The excused runs and their excuses, as text.
    pub fn words(&self) -> String {
        let rates: Vec<String> = self.rates_per_s.iter().copied().map(per_second).collect();
        let takers = [
            ("the hypervisor", self.steal),
            ("other processes", Some(self.waited)),
            ("a quota", self.throttled),
        ];
        // Anything less rounds to zero.
        let took = |share: &f64| 0.000_5 <= *share;
        let names: Vec<String> = takers
            .into_iter()
            .filter_map(|(who, share)| Some((who, share.filter(took)?)))
            .map(|(who, share)| format!("{who} up to {}", percent(share)))
            .collect();
        format!(
            "each run that failed ({}) is excused, since others took the generator's cores: {}",
            rates.join(", "),
            names.join(", ")
        )
    }
}

impl Ceiling {
    /// A search without a step.
    pub fn new(plan: CeilingPlan) -> Ceiling {
        let mut of_search = plan.search.clone();
        let Within { within, around } = of_search.time;
        let of_trials =
            (TRIALS_MIN as u64).saturating_mul(plan.search.duration.0.saturating_add(around.0));
        // Without a bracket there is nothing to prove.
        of_search.time.within = Nanos(within.0 - of_trials.min(within.0 / 3));
        let search = Search::new(of_search, Rule::Load);
        Ceiling { search, plan, trials: Vec::new() }
    }

    /// The steps of the search so far, in the order in which they were made.
    pub fn steps(&self) -> &[Step] {
        self.search.steps()
    }

    /// The result of the steps and trials so far.
    pub fn answer(&self) -> Answer {
        let bracket = self.search.bracket();
        let [passing, failing] = self.search.ends();
        let proof = self.proof();
        // A rate that passed in another run needs no judgement.
        let above = self.steps().iter().filter(|step| bracket.passed_per_s < Some(step.rate_per_s));
        let not_judged = NotJudged::of(above);
        let excuse = not_judged.as_ref().map(NotJudged::words);
        let bound = bound(&bracket, excuse, self.search.light(), failing, &proof);
        let is_unproven = self.unmade_trial().is_some();
        let is_stopped = is_unproven && self.next_trial().is_none();
        Answer {
            window_needed_s: self.window_needed_s(&bracket.undecided_per_s),
            passed_by: passing.map(End::new),
            failed_by: failing.map(End::new),
            not_judged,
            bound,
            proof,
            bracket: Bracket {
                complete: bracket.complete && !is_unproven,
                stopped_by: bracket.stopped_by.or(is_stopped.then_some(Limit::Time)),
                ..bracket
            },
        }
    }

    /// The longest window that one of these rates would need to decide something.
    fn window_needed_s(&self, undecided: &[f64]) -> Option<f64> {
        let of_undecided = self.steps().iter().filter(|step| undecided.contains(&step.rate_per_s));
        let needed = of_undecided.filter_map(|step| step.backlog.window_needed_s(step.duration_s));
        needed.max_by(f64::total_cmp)
    }

    /// The trials: the change of each, and its offered rate. None before the search has ended, and
    /// none if requests without an answer prove the bound.
    fn planned(&self) -> Vec<(Changed, Ask)> {
        let Some(failing) = self.search.ends()[1].filter(|_| self.search.next().is_none()) else {
            return Vec::new();
        };
        let code = by_figures(self.search.light(), failing);
        if shows_as_failures(code, failing) {
            return Vec::new();
        }
        let used: Vec<usize> = failing.figures.shards.iter().map(|shard| shard.core).collect();
        let more: Vec<usize> = {
            let spare = self.plan.cores.iter().copied().filter(|core| !used.contains(core));
            used.iter().copied().chain(spare).collect()
        };
        let (conns, shards) = (failing.figures.conns, used.len());
        let rate_max = self.plan.search.rate_max;
        let offered = failing.rate_per_s * TRIAL_RATE;
        let ask = |change, rate: f64| Ask {
            rate: four_figures(rate).min(rate_max),
            duration: self.plan.search.duration,
            seed: 0,
            change,
            rest: rest(&self.runs()),
        };
        let on = |count: usize| Change::Cores(more[..count].to_vec());
        let mut planned = vec![(Changed::Nothing, ask(Change::None, offered))];
        let room = offered.min(rate_max.per_second()) / failing.figures.throughput_per_s;
        let is_placed_here = !self.plan.cores.is_empty();
        let other = other_number(shards, more.len(), room).filter(|_| is_placed_here);
        if let Some(count) = other {
            planned.push((Changed::Shards, ask(on(count), offered)));
        }
        let fits =
            |conns: u64| conns <= self.plan.conns_max && failing.figures.has_files_for(conns);
        let others = [conns.checked_mul(2).filter(|twice| fits(*twice)), Some(conns / 2)];
        for conns in others.into_iter().flatten().filter(|conns| shards as u64 <= *conns) {
            let conns = usize::try_from(conns).expect("at most twice of what a plan had");
            planned.push((Changed::Conns, ask(Change::Conns(conns), offered)));
        }
        if code.is_generator() && is_placed_here {
            for count in numbers(more.len()).into_iter().filter(|count| *count != shards) {
                let rate = offered * count as f64 / shards as f64;
                // At a lower rate, this many shards would seem to do less than they can.
                if rate <= rate_max.per_second() {
                    planned.push((Changed::Scaled, ask(on(count), rate)));
                }
            }
        }
        for (at, (_, ask)) in planned.iter_mut().enumerate() {
            ask.seed = self.plan.search.seed.wrapping_add((self.steps().len() + at) as u64);
        }
        planned
    }

    /// Every run so far.
    fn runs(&self) -> Vec<&Step> {
        self.steps().iter().chain(self.trials.iter().flatten()).collect()
    }

    /// The next trial, if there is time for it.
    fn next_trial(&self) -> Option<(usize, Ask)> {
        let (at, ask) = self.unmade_trial()?;
        let fits = self.plan.search.time.fits(&self.runs(), ask.rate.per_second(), ask.duration);
        fits.then_some((at, ask))
    }

    /// The first trial that wasn't made, or that others disturbed.
    fn unmade_trial(&self) -> Option<(usize, Ask)> {
        let planned = self.planned().into_iter().enumerate();
        let mut open = planned.filter(|(at, _)| {
            let made = self.trials.get(*at).map_or(&[][..], Vec::as_slice);
            let disturbed = made.iter().all(|step| TAKEN_MAX < step.figures.taken());
            disturbed && made.len() < TRIAL_RUNS_MAX
        });
        let (at, (_, mut ask)) = open.next()?;
        let again = self.trials.get(at).map_or(0, Vec::len);
        // Other arrivals than in any run before.
        ask.seed = ask.seed.wrapping_add((again * self.planned().len()) as u64);
        Some((at, ask))
    }

    fn proof(&self) -> Proof {
        let planned = self.planned();
        let made = planned.iter().zip(&self.trials).filter(|(_, runs)| !runs.is_empty());
        let made: Vec<(Changed, &[Step])> =
            made.map(|((changed, _), runs)| (*changed, runs.as_slice())).collect();
        let trials = Trial::of(&made);
        let shards = self.steps().last().map_or(0, |step| step.figures.shards.len());
        let scaling = Scaling::new(&trials, self.plan.cores.len().max(shards));
        Proof { trials, scaling }
    }
}

/// Another number of shards, whose trial shows whether they are the bound: a quarter more, up to
/// `most`; half of them if that can't be seen. `room` is the offered rate as a multiple of the
/// answered one.
fn other_number(shards: usize, most: usize, room: f64) -> Option<usize> {
    let more = (shards + shards.div_ceil(4)).min(most);
    let grown = (more as f64 / shards as f64).min(room);
    if 1.0 + EXPECTED_MIN <= grown { Some(more) } else { (1 < shards).then_some(shards / 2) }
}

/// The numbers of shards to try up to this one.
fn numbers(most: usize) -> Vec<usize> {
    (1..=most).filter(|n| *n <= SHARDS_ALL || n.is_power_of_two() || *n == most).collect()
}

impl Series for Ceiling {
    fn next(&self) -> Option<Ask> {
        self.search.next().or_else(|| Some(self.next_trial()?.1))
    }

    fn progress(&self) -> SeriesProgress {
        let of_search = self.search.progress();
        let left = self.plan.search.time.left(self.runs());
        if self.search.next().is_some() {
            return SeriesProgress {
                steps_max: of_search.steps_max + TRIALS_MIN,
                left,
                ..of_search
            };
        }
        let made: usize = self.trials.iter().map(Vec::len).sum();
        let at = self.next_trial().map_or(0, |(at, _)| at);
        let trials = self.planned().len() - at;
        let step = self.steps().len() + made + 1;
        SeriesProgress { step, steps_max: step + trials.saturating_sub(1), left }
    }

    fn take(&mut self, mut step: Step) {
        if self.search.next().is_some() {
            return self.search.take(step);
        }
        let Some((at, _)) = self.next_trial() else { return };
        step.outcome = Some(by_load(&step));
        self.trials.resize(self.trials.len().max(at + 1), Vec::new());
        self.trials[at].push(step);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::ops::ControlFlow;

    use engine::report::machine::TcpCounts;

    use super::*;
    use crate::backlog::Backlog;
    use crate::bound::Code;
    use crate::figures::ShardTime;
    use crate::make_runs;
    use crate::proof::Scaled;
    use crate::queues::{Queue, asked, search_plan};
    use crate::rule::Broke;

    /// A ceiling of this queue, with this many cores for shards.
    fn found(cores: usize, run: impl FnMut(&Ask) -> Step) -> Ceiling {
        found_from("1k", cores, run)
    }

    fn found_from(first: &str, cores: usize, run: impl FnMut(&Ask) -> Step) -> Ceiling {
        found_within(first, "1M", cores, run)
    }

    fn found_within(
        first: &str,
        rate_max: &str,
        cores: usize,
        mut run: impl FnMut(&Ask) -> Step,
    ) -> Ceiling {
        let mut ceiling = Ceiling::new(ceiling_plan(first, rate_max, cores));
        let ended =
            make_runs(&mut ceiling, |ask, _| Ok::<_, Infallible>(ControlFlow::Continue(run(ask))));
        assert_eq!(ended, Ok(ControlFlow::Continue(())));
        ceiling
    }

    fn ceiling_plan(first: &str, rate_max: &str, cores: usize) -> CeilingPlan {
        let search = SearchPlan { tolerance: 0.02, ..search_plan(first, rate_max, 10) };
        CeilingPlan { search, cores: (0..cores).collect(), conns_max: 1_000_000 }
    }

    /// This step, as if its shards, of 1,000 requests per second each, were the bound.
    fn of_shards(light: &Step, shards: usize, ask: &Ask) -> Step {
        let shards = if let Change::Cores(cores) = &ask.change { cores.len() } else { shards };
        let (rate, most) = (ask.rate.per_second(), 1_000.0 * shards as f64);
        let duration_s = ask.duration.as_secs_f64();
        let mut step = Step { rate_per_s: rate, duration_s, seed: ask.seed, ..light.clone() };
        let growth = (1.0 - most / rate).max(0.0);
        step.errors_interval = Some([0.0; 2]);
        let (interval, fell_behind) = (Some([growth; 2]), Some(0.01 < growth));
        step.backlog = Backlog { growth, interval, fell_behind };
        step.busy = (rate / most).min(1.0);
        let of_shard = |core| ShardTime { core, busy: step.busy, ..ShardTime::default() };
        step.figures.shards = (0..shards).map(of_shard).collect();
        step.figures.throughput_per_s = rate.min(most);
        if let Change::Conns(conns) = ask.change {
            step.figures.conns = conns as u64;
        }
        step
    }

    /// A server of 2,000 requests per second behind a shard of 100,000.
    fn serial() -> Queue {
        Queue { service_ns: 500_000, shard_ns: 10_000, conns: 1_000, ..Queue::serial_ms() }
    }

    /// Four connections to a server with any number of requests at a time, 5 ms each.
    fn capped() -> Queue {
        Queue { service_ns: 0, base_ns: 5_000_000, shard_ns: 10_000, conns: 4, ..serial() }
    }

    /// A shard of 10,000 requests per second before a server that costs nothing.
    fn generator() -> Queue {
        Queue { service_ns: 10, shard_ns: 100_000, ..serial() }
    }

    fn within(answer: &Answer, rate: f64) {
        let (passed, failed) = (
            answer.bracket.passed_per_s.expect("some pass"),
            answer.bracket.failed_per_s.expect("some"),
        );
        let message = format!("{passed} to {failed}, not {rate}");
        assert!(0.95 * rate <= passed && failed <= 1.05 * rate, "{message}");
        assert!(answer.bracket.complete && passed < failed, "{message}");
    }

    #[test]
    fn a_target_that_answers_no_more_is_the_bound() {
        for cores in [1, 3] {
            let answer = found(cores, |ask| serial().run(ask)).answer();
            within(&answer, 2_000.0);
            let Bound { code, proven, light, heavy, evidence } = answer.bound;
            assert_eq!((code, proven), (Code::Target, true), "{evidence}");
            let (light, heavy) = (light.expect("it passed"), heavy.expect("it failed"));
            assert!(light.latency_us < Some(2_000.0) && Some(5_000.0) < heavy.latency_us);
            let by_law = heavy.by_littles_law_per_s.expect("it answered");
            assert!((1_950.0..2_050.0).contains(&by_law), "{by_law}");
            assert_eq!(answer.failed_by.expect("it failed").broke, [Broke::Backlog]);
            assert_eq!(answer.passed_by.expect("it passed").broke, []);
            let trials = answer.proof.trials;
            let moved: Vec<Option<bool>> = trials.iter().map(|trial| trial.moved).collect();
            assert!(moved[0].is_none() && moved[1..].iter().all(|moved| *moved == Some(false)));
            let expected = if cores == 1 { Scaling::Unproven } else { Scaling::NotTried };
            assert_eq!(answer.proof.scaling, expected);
        }
    }

    #[test]
    fn all_connections_busy_at_a_target_that_is_not_are_the_bound() {
        let answer = found(1, |ask| capped().run(ask)).answer();
        within(&answer, 800.0);
        assert_eq!((answer.bound.code, answer.bound.proven), (Code::Cap, true));
        let moved: Vec<(u64, Option<bool>)> =
            answer.proof.trials.iter().map(|trial| (trial.conns, trial.moved)).collect();
        assert_eq!(moved, [(4, None), (8, Some(true)), (2, Some(true))]);
    }

    #[test]
    fn a_generator_without_time_is_the_bound() {
        // With one core nothing can prove it, with several something can.
        for cores in [1, 4] {
            let answer = found(cores, |ask| generator().run(ask)).answer();
            within(&answer, 10_000.0);
            assert_eq!((answer.bound.code, answer.bound.proven), (Code::GeneratorCore, 1 < cores));
            match answer.proof.scaling {
                Scaling::Efficiency(scaled) => {
                    let shards: Vec<usize> = scaled.iter().map(|one| one.shards).collect();
                    assert_eq!((cores, shards), (4, vec![1, 2, 3, 4]));
                    let straight = |one: &Scaled| (0.95..1.05).contains(&one.efficiency);
                    assert!(scaled.iter().all(straight), "{scaled:?}");
                }
                scaling => assert_eq!((cores, scaling), (1, Scaling::Unproven)),
            }
        }
        // With all cores in use, one shard less does less.
        let two = Queue { shards: 2, ..generator() };
        let answer = found(2, |ask| two.run(ask)).answer();
        within(&answer, 20_000.0);
        assert_eq!((answer.bound.code, answer.bound.proven), (Code::GeneratorCore, true));
        let shards = answer.proof.shards().expect("it was tried");
        assert_eq!((shards.shards, shards.moved), (1, Some(true)));
    }

    #[test]
    fn with_many_shards_a_quarter_more_or_half_are_tried() {
        let light = generator().run(&asked("100", 1));
        // With a core left, one shard more than 25 could hardly be seen.
        for (cores, tried) in [(25, 12), (26, 12), (40, 32)] {
            let answer = found(cores, |ask| of_shards(&light, 25, ask)).answer();
            within(&answer, 25_000.0);
            assert_eq!((answer.bound.code, answer.bound.proven), (Code::GeneratorCore, true));
            let shards = answer.proof.shards().expect("it was tried");
            assert_eq!((shards.shards, shards.moved), (tried, Some(true)), "{cores} cores");
        }
    }

    #[test]
    fn a_highest_rate_without_room_for_more_proves_nothing() {
        let light = generator().run(&asked("100", 1));
        let answer = found_within("500", "1020", 2, |ask| of_shards(&light, 1, ask)).answer();
        assert_eq!(
            (answer.bracket.passed_per_s, answer.bracket.failed_per_s),
            (Some(1_000.0), Some(1_020.0))
        );
        assert_eq!((answer.bound.code, answer.bound.proven), (Code::GeneratorCore, false));
        assert!(answer.proof.shards().is_none(), "{:?}", answer.proof);
        assert_eq!(answer.proof.more_conns().expect("it was tried").moved, None);
        assert_eq!(answer.proof.scaling, Scaling::NotTried);
    }

    #[test]
    fn a_busy_shard_before_a_busy_target_is_not_the_bound_if_another_shard_does_no_more() {
        // The shard has hardly any room, and the target none.
        let both = Queue { service_ns: 100_000, shard_ns: 98_000, ..serial() };
        let answer = found(2, |ask| both.run(ask)).answer();
        assert_eq!((answer.bound.code, answer.bound.proven), (Code::Target, true));
    }

    #[test]
    fn a_target_that_answers_nothing_is_the_bound_and_not_the_cap_that_it_fills() {
        // From the first request on, and in the middle of the window at 1,500/s and above.
        for (first, silent_from, message) in [
            ("1k", 0.0, "at 1/s offered: no answers"),
            ("1k", 1_500.0, "/s offered: no answers from 3.00 s into the window on; at 1,000/s"),
        ] {
            let ceiling = found_from(first, 2, |ask| {
                let is_silent = silent_from <= ask.rate.per_second();
                let silent_ns = if silent_from == 0.0 { 0 } else { 5_000_000_000 };
                Queue { silent_ns: is_silent.then_some(silent_ns), ..serial() }.run(ask)
            });
            let answer = ceiling.answer();
            assert_eq!((answer.bound.code, answer.bound.proven), (Code::Target, true));
            assert!(answer.bound.evidence.contains(message), "{}", answer.bound.evidence);
            assert_eq!(answer.proof.trials, [], "there is nothing to prove");
            let failed_by = answer.failed_by.expect("it failed");
            assert!(failed_by.broke.contains(&Broke::Silence), "{failed_by:?}");
        }
    }

    #[test]
    fn a_generator_that_is_late_and_no_more_is_the_bound() {
        let ceiling = found(1, |ask| {
            let mut step = Queue { service_ns: 10, ..serial() }.run(ask);
            if 5_000.0 < step.rate_per_s {
                step.pacer_lateness.percentiles.at_mut(0.5).value = Some(1_500.0);
            }
            step
        });
        within(&ceiling.answer(), 5_000.0);
        assert_eq!(ceiling_code(&ceiling), (Code::GeneratorCore, false));
        let failed_by = ceiling.answer().failed_by.expect("it failed");
        assert_eq!(failed_by.broke, [Broke::Lateness]);
    }

    #[test]
    fn trials_without_lateness_prove_no_other_bound_of_a_late_step() {
        // From 1,149/s on the target is the bound, and wake-ups are late just above 1,000/s.
        let ceiling = found(2, |ask| {
            let mut step = Queue { service_ns: 870_000, ..serial() }.run(ask);
            if 1_000.0 < step.rate_per_s && step.rate_per_s < 1_200.0 {
                step.pacer_lateness.percentiles.at_mut(0.5).value = Some(1_500.0);
            }
            step
        });
        let answer = ceiling.answer();
        within(&answer, 1_005.0);
        assert_eq!((answer.bound.code, answer.bound.proven), (Code::GeneratorCore, false));
        assert_eq!(answer.proof.shards().expect("it was tried").moved, Some(false));
        let evidence = answer.bound.evidence;
        let want = "the generator woke up late (pacer lateness p50 1.50 ms): the shard on core 0 \
                    was 1.0 % busy";
        assert!(evidence.starts_with(want), "{evidence}");
    }

    #[test]
    fn errors_of_the_target_are_not_the_generators_on_a_machine_with_steal() {
        use crate::step::{Reason, Trust};
        use engine::report::verdict::{Code as Verdict, Level};
        let ceiling = found(1, |ask| {
            let bad_status = if ask.rate.per_second() <= 700.0 { 0.0 } else { 0.05 };
            let mut step = Queue { service_ns: 10, bad_status, ..serial() }.run(ask);
            // With the hypervisor's share, the core is full.
            (step.figures.steal, step.figures.shards[0].busy) = (Some(0.11), 0.85);
            let codes = vec![Reason { code: Verdict::CpuStolen, level: Level::Invalid }];
            step.verdict = Trust { level: Level::Invalid, codes, notes: Vec::new() };
            step
        });
        let answer = ceiling.answer();
        assert_eq!(answer.failed_by.expect("it failed").broke, [Broke::Errors]);
        assert_eq!(answer.bound.code, Code::Target, "{}", answer.bound.evidence);
    }

    #[test]
    fn a_rate_at_which_requests_fail_is_no_ceiling_that_holds() {
        let answer = found(1, |ask| {
            let bad_status = if ask.rate.per_second() <= 700.0 { 0.0 } else { 0.3 };
            Queue { service_ns: 10, bad_status, ..serial() }.run(ask)
        });
        let answer = answer.answer();
        assert!(answer.bracket.passed_per_s.is_some_and(|passed| passed <= 700.0), "{answer:?}");
        assert_eq!(answer.failed_by.expect("it failed").broke, [Broke::Errors]);
    }

    #[test]
    fn requests_without_an_answer_show_what_the_generators_machine_lacks() {
        use engine::record::outcome::Cause;
        use engine::report::machine::Ports;
        let (port, file, memory) = (Cause::NoLocalPort, Cause::NoFile, Cause::LocalResource);
        for (cause, headroom, code) in
            [(port, 5_000, Code::Ports), (file, 0, Code::Files), (memory, 0, Code::Files)]
        {
            let answer = found(1, |ask| {
                let mut step = Queue { service_ns: 10, ..serial() }.run(ask);
                if 700.0 < step.rate_per_s {
                    step.errors = step.requests / 4;
                    step.figures.local_resource = step.requests / 4;
                    step.figures.failures.insert(cause.name(), step.requests / 4);
                    let (range, sources) = (10_000, 1);
                    let (in_use_max, time_wait_max) = (3, range - headroom - 3);
                    let ports = Ports { range, sources, in_use_max, time_wait_max, headroom };
                    step.figures.ports = Some(ports);
                }
                step
            });
            assert_eq!(ceiling_code(&answer), (code, true));
            assert_eq!(answer.answer().proof.trials, [], "there is nothing to prove");
        }
    }

    fn ceiling_code(ceiling: &Ceiling) -> (Code, bool) {
        let bound = ceiling.answer().bound;
        (bound.code, bound.proven)
    }

    #[test]
    fn retransmitted_segments_blame_the_link() {
        let ceiling = found(1, |ask| {
            let mut step = serial().run(ask);
            let again = if 2_000.0 < step.rate_per_s { 0.05 } else { 0.0 };
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
            let retransmitted = (again * step.requests as f64) as u64;
            step.figures.tcp = Some(TcpCounts {
                segments_sent: step.requests,
                retransmitted,
                listen_overflows: 0,
                listen_drops: 0,
            });
            step
        });
        assert_eq!(ceiling_code(&ceiling), (Code::Link, false));
        let evidence = ceiling.answer().bound.evidence;
        assert!(evidence.contains("segments retransmitted (5.0 %)"), "{evidence}");
    }

    /// One segment in twenty is retransmitted, and this many connections are dropped.
    fn retransmitting(step: &mut Step, listen_drops: u64) {
        step.figures.tcp = Some(TcpCounts {
            segments_sent: step.requests,
            retransmitted: step.requests / 20,
            listen_overflows: 0,
            listen_drops,
        });
    }

    #[test]
    fn an_accept_queue_that_overflows_is_the_targets() {
        let ceiling = found(1, |ask| {
            let mut step = serial().run(ask);
            let listen_drops = step.requests / 20;
            retransmitting(&mut step, listen_drops);
            step
        });
        assert_eq!(ceiling_code(&ceiling), (Code::Target, true));
        let evidence = ceiling.answer().bound.evidence;
        assert!(evidence.contains("dropped by a full accept queue"), "{evidence}");
    }

    #[test]
    fn trials_that_moved_the_ceiling_overrule_the_link() {
        let ceiling = found(1, |ask| {
            let mut step = capped().run(ask);
            step.figures.capped = 0;
            retransmitting(&mut step, 0);
            step
        });
        assert_eq!(ceiling_code(&ceiling), (Code::Cap, true));
    }

    #[test]
    fn where_no_rate_fails_there_is_no_bound() {
        let ceiling = found_from("600k", 2, |ask| {
            let light = Queue { service_ns: 10, shard_ns: 10, ..serial() }.run(&asked("1k", 5));
            Step { rate_per_s: ask.rate.per_second(), ..light }
        });
        let answer = ceiling.answer();
        assert_eq!((answer.bracket.passed_per_s, answer.bracket.failed_per_s), (Some(1e6), None));
        assert_eq!((answer.bound.code, answer.proof.trials.len()), (Code::NoneReached, 0));
        assert!(answer.bound.evidence.contains("up to 1,000,000/s, the highest offered"));
    }

    #[test]
    fn a_ceiling_without_a_failure_gives_the_reason() {
        let (passes, fails) = (serial().run(&asked("1k", 10)), serial().run(&asked("3k", 10)));
        let mut excused = generator().run(&asked("10300", 5));
        excused.figures.steal = Some(0.1);
        assert_eq!(by_load(&excused), Outcome::Excused);
        let again = Step { rate_per_s: 3_000.0, ..passes.clone() };
        for (steps, evidence) in [
            (&[][..], "no run was made"),
            (&[excused][..], "each run that failed (10,300/s) is excused"),
            (&[passes.clone()][..], "no rate failed up to 1,000/s, where the search ended early"),
            (
                &[passes, fails, again][..],
                "1,000/s passed; the runs above it contradict each other",
            ),
        ] {
            let mut ceiling = Ceiling::new(ceiling_plan("1k", "1M", 4));
            for step in steps {
                ceiling.take(step.clone());
            }
            let answer = ceiling.answer();
            assert_eq!((answer.bracket.failed_per_s, answer.bound.code), (None, Code::NoneReached));
            assert!(answer.bound.evidence.starts_with(evidence), "{}", answer.bound.evidence);
            // There are cores for a trial.
            assert_eq!(answer.proof.scaling, Scaling::NotTried);
        }
    }

    #[test]
    fn rates_at_which_others_took_what_is_missing_stay_open_below_one_that_fails() {
        let ceiling = found(1, |ask| {
            let mut step = generator().run(ask);
            step.figures.steal = Some(0.1);
            step
        });
        let answer = ceiling.answer();
        let (passed, failed) = (
            answer.bracket.passed_per_s.expect("some pass"),
            answer.bracket.failed_per_s.expect("some"),
        );
        // A tenth more time would have been enough for up to 11,111/s.
        assert!((9_300.0..=10_200.0).contains(&passed), "{answer:?}");
        assert!((10_800.0..=11_500.0).contains(&failed), "{answer:?}");
        assert!(
            !answer.bracket.undecided_per_s.is_empty() && answer.not_judged.is_none(),
            "{answer:?}"
        );
        assert!(ceiling.steps().iter().any(|step| step.outcome == Some(Outcome::Excused)));
        assert_eq!(answer.bound.code, Code::GeneratorCore);
    }

    #[test]
    fn a_ceiling_all_of_whose_failing_runs_are_excused_is_not_judged() {
        let ceiling = found_within("1k", "10500", 1, |ask| {
            let mut step = generator().run(ask);
            step.figures.steal = Some(0.1);
            step.figures.shards[0].waited = 0.003;
            step
        });
        let answer = ceiling.answer();
        assert!(answer.bracket.passed_per_s.is_some_and(|passed| 9_300.0 <= passed), "{answer:?}");
        assert_eq!((answer.bracket.failed_per_s, answer.failed_by), (None, None));
        assert_eq!((answer.bound.code, answer.bound.proven), (Code::NoneReached, false));
        assert_eq!(answer.proof.trials, [], "nothing failed that they could explain");
        let not_judged = answer.not_judged.expect("it isn't");
        assert_eq!((not_judged.steal, not_judged.waited), (Some(0.1), 0.003));
        assert!(not_judged.rates_per_s.ends_with(&[10_500.0]), "{not_judged:?}");
        let want = "10,500/s) is excused, since others took the generator's cores: the hypervisor \
                    up to 10.0 %, other processes up to 0.3 %";
        assert!(answer.bound.evidence.ends_with(want), "{}", answer.bound.evidence);
    }

    #[test]
    fn a_first_rate_that_is_excused_sends_the_search_down() {
        let ceiling = found_from("10500", 1, |ask| {
            let mut step = generator().run(ask);
            step.figures.steal = Some(0.1);
            step
        });
        assert!(ceiling.answer().bracket.passed_per_s.is_some_and(|passed| 9_300.0 <= passed));
    }

    #[test]
    fn a_trial_that_others_disturbed_is_made_again_and_its_best_run_counts() {
        let mut made = 0;
        let ceiling = found(1, |ask| {
            let mut step = serial().run(ask);
            if matches!(ask.change, Change::Conns(2_000)) {
                made += 1;
                if made == 1 {
                    step.figures.steal = Some(0.5);
                    step.figures.throughput_per_s /= 2.0;
                }
            }
            step
        });
        let answer = ceiling.answer();
        let trial = answer.proof.more_conns().expect("it was made");
        assert_eq!((trial.steps.len(), made, trial.moved), (2, 2, Some(false)));
        let seeds = ceiling.trials.iter().flatten().chain(ceiling.steps()).map(|step| step.seed);
        let mut seeds: Vec<u64> = seeds.collect();
        seeds.sort_unstable();
        let all = seeds.len();
        seeds.dedup();
        assert_eq!(seeds.len(), all, "no two runs have the same arrivals");
    }

    #[test]
    fn the_last_trials_have_a_known_end() {
        let mut seen = Vec::new();
        let search = SearchPlan { repeats: 0, ..search_plan("1k", "1M", 2) };
        let plan = CeilingPlan { search, cores: vec![0], conns_max: 1_000_000 };
        let mut ceiling = Ceiling::new(plan);
        let ended = make_runs(&mut ceiling, |ask, progress| {
            seen.push(progress);
            Ok::<_, Infallible>(ControlFlow::Continue(serial().run(ask)))
        });
        assert_eq!(ended, Ok(ControlFlow::Continue(())));
        let last = seen.last().expect("there were runs");
        assert_eq!((last.step, last.steps_max), (seen.len(), seen.len()));
        assert!(seen.windows(2).all(|pair| pair[0].step + 1 == pair[1].step));
    }

    #[test]
    fn numbers_of_shards_are_all_up_to_eight_and_then_few() {
        assert_eq!(numbers(3), [1, 2, 3]);
        assert_eq!(numbers(40), [1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 40]);
    }
}
