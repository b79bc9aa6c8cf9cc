//! A ceiling: each step as it ends, the bracket, its bound, and what moves it.

use engine::report::profile::Profile;
use engine::sys::units::{Nanos, Rate};
use probe::backlog::GROWTH_MAX;
use probe::bound::{Bound, Code};
use probe::ceiling::{Answer, TRIAL_RATE};
use probe::document::{CeilingDocument, Made};
use probe::numbers::plain_time;
use probe::proof::{Changed, EXPECTED_MIN, Scaling, Trial};
use probe::rule::{Broke, End, LATENESS_MAX_US, SENT_MIN, by_load};
use probe::step::{ERRORS_MAX, Outcome, Step};

use super::extent::Extent;
use super::figures::{count, percent, rate, time};
use super::layout::Column::{self, Left, Right};
use super::layout::Text;
use super::series::{at, bracketed, doubts, end, head, line, silence, takes_windows};

/// The announcement, and the head of its table.
pub(crate) fn begins(is_null: bool, first: Rate, extent: Extent) -> String {
    let target = if is_null { "the null target" } else { "its target" };
    let first = rate(first.per_second());
    let message = format!(
        "Searching for the highest rate that the generator and {target} sustain, from {first}/s up"
    );
    let mut text = Text::new();
    text.wrapped(message);
    text.blank();
    match extent {
        Extent::Screen => text.add(head(extent)),
        Extent::Details => text.row(&COLUMNS, &HEAD),
    }
    text.done()
}

/// The names of the columns.
const HEAD: [&str; 8] =
    ["rate/s", "answered/s", "sent", "backlog", "late p50", "busy", "latency", "in flight"];

/// Their positions.
const COLUMNS: [Column; 8] =
    [Right(9), Right(11), Right(8), Right(9), Right(9), Right(6), Right(9), Right(10)];

/// The line of a step; `cut_short`: by a signal.
pub(crate) fn row(step: &Step, cut_short: bool, extent: Extent) -> String {
    let outcome = match by_load(step) {
        _ if cut_short => "stopped",
        _ if step.silent_from_s.is_some() => "silent",
        Outcome::Passed => "passed",
        Outcome::Undecided if extent == Extent::Screen => "undecided",
        Outcome::Undecided => "open",
        // A ceiling's rule never doubts a step.
        Outcome::Doubted | Outcome::Excused => "excused",
        Outcome::Failed => "failed",
    };
    if extent == Extent::Screen {
        return line(step, &[outcome.to_owned()]);
    }
    let us = |us: Option<f64>| us.map_or("n/a".to_owned(), time);
    let sent =
        if step.intended_per_s == 0.0 { 1.0 } else { step.sent_due_per_s / step.intended_per_s };
    let cells = [
        rate(step.rate_per_s),
        rate(step.figures.throughput_per_s),
        percent(sent),
        format!("{:+.1} %", step.backlog.growth * 100.0),
        us(step.pacer_lateness.percentiles.at(0.5).value),
        format!("{:.0} %", step.busy * 100.0),
        us(step.naive.mean),
        format!("{:.2}", step.figures.at_target),
        format!("  {outcome}"),
    ];
    let mut text = Text::new();
    text.row(&COLUMNS, &cells);
    text.done()
}

/// The prefix of the profiled run's progress line.
pub(crate) fn profiling(per_second: f64, length: Nanos) -> String {
    format!("profile  {}/s  {length}  ", rate(per_second))
}

/// The result, and the files that it is written to.
pub(crate) fn ends(document: &CeilingDocument, written: &[String], extent: Extent) -> String {
    let CeilingDocument { answer, profile, made, .. } = document;
    let mut text = Text::new();
    text.add(extent.details(|| legend(made)));
    text.blank();
    if !made.steps.is_empty() {
        text.wrapped(bracket(document));
        text.add(extent.details(|| ends_of_bracket(answer)));
    }
    if answer.not_judged.is_none() {
        text.item(0, bound(&answer.bound));
        text.add(extent.details(|| proof(answer)));
    }
    if let Some(profile) = profile {
        text.add(extent.details(|| heaviest(profile)));
    }
    text.add(doubts(made));
    text.add(end(made, written));
    text.done()
}

/// The meaning of a step's outcome.
fn legend(made: &Made) -> String {
    let mut text = Text::new();
    if made.steps.iter().any(|step| step.outcome == Some(Outcome::Undecided)) {
        let (fails, passes) = (GROWTH_MAX * 100.0, 2.0 * GROWTH_MAX * 100.0);
        let message = format!(
            "undecided: neither has the backlog surely grown by more than {fails:.0} % of arrivals, \
             nor surely by less than {passes:.0} %"
        );
        text.field(6, "open", message);
    }
    if made.unfinished.is_some() {
        text.line("stopped: interrupted, not counted");
    }
    text.done()
}

/// Why each end of the bracket was chosen.
fn ends_of_bracket(answer: &Answer) -> String {
    let mut text = Text::new();
    for (name, end) in [("passed", &answer.passed_by), ("failed", &answer.failed_by)] {
        if let Some(end) = end {
            let message = format!("{}/s: {}", rate(end.rate_per_s), why(end));
            text.field(10, &format!("  {name}"), message);
        }
    }
    text.done()
}

fn bracket(document: &CeilingDocument) -> String {
    let CeilingDocument { answer, ceiling, made, .. } = document;
    let found = &answer.bracket;
    if let Some(not_judged) = &answer.not_judged {
        let passed = match found.passed_per_s {
            Some(passed) => format!("{} passed", at(passed)),
            None => "no rate passed".to_owned(),
        };
        return format!(
            "The ceiling isn't judged: {passed}, and {}. Repeat it when the machine is quiet.",
            not_judged.words()
        );
    }
    let of_undecided = |step: &&Step| found.undecided_per_s.contains(&step.rate_per_s);
    let steps = || made.steps.iter().filter(of_undecided);
    let open = match steps().any(|step| step.outcome == Some(Outcome::Excused)) {
        true => ", since others took the generator's cores".to_owned(),
        false => takes_windows(steps()),
    };
    bracketed("The ceiling", found, &open, None, made, &ceiling.search)
}

/// Why an end of the bracket was chosen.
fn why(end: &End) -> String {
    let sent = format!("sent {} of what was due", percent(end.sent));
    let backlog = format!("backlog grew by {:.1} % of arrivals", end.growth * 100.0);
    let most = end
        .growth_interval
        .map_or(String::new(), |[_, high]| format!(" (at most {:.1} %)", high.max(0.0) * 100.0));
    let window = format!("in a window of {}", plain_time(end.window_s * 1e6));
    let late = end.lateness_p50_us.map_or("unknown".to_owned(), time);
    let late = format!("pacer lateness p50 {late}");
    if end.broke.is_empty() {
        let backlog = match end.growth {
            more if 0.000_5 <= more => backlog,
            _ => "backlog didn't grow".to_owned(),
        };
        return format!("{sent} {window}; {backlog}{most}; {late}");
    }
    let parts = end.broke.iter().map(|broke| match broke {
        Broke::Sent => format!("{sent} (limit {:.0} %)", SENT_MIN * 100.0),
        Broke::Backlog => format!("{backlog} (limit {:.0} %)", GROWTH_MAX * 100.0),
        Broke::Lateness => format!("{late} (limit {})", time(LATENESS_MAX_US)),
        Broke::Errors => {
            format!("errors {} (limit {:.0} %)", percent(end.errors), ERRORS_MAX * 100.0)
        }
        Broke::Silence => silence(end.silent_from_s).unwrap_or_default(),
    });
    parts.collect::<Vec<_>>().join("; ")
}

fn bound(bound: &Bound) -> String {
    let name = match bound.code {
        Code::GeneratorCore => "the generator's core (generator_core)",
        Code::Target => "the target (target)",
        Code::Cap => "the connection cap (cap)",
        Code::Ports => "this machine's local ports (ports)",
        Code::Files => "this machine's files or memory (files)",
        Code::Link => "the network (link)",
        Code::NoneReached => "none reached (none_reached)",
    };
    let sure = match (bound.code, bound.proven) {
        (Code::NoneReached, _) | (_, true) => "",
        (_, false) => ", not proven",
    };
    format!("Bound: {name}{sure}: {}.", bound.evidence)
}

/// The table of trials, and the effect of more shards.
fn proof(answer: &Answer) -> String {
    let proof = &answer.proof;
    let mut text = Text::new();
    // Rates have four digits.
    let wanted = 0.99 * TRIAL_RATE;
    let base = proof.trials.first().zip(answer.bracket.failed_per_s);
    let is_clipped = base.is_some_and(|(base, failed)| base.rate_per_s < wanted * failed);
    let raise = if is_clipped { "; raise --max-rate" } else { "" };
    let single = proof.trials.iter().filter(|trial| trial.changed != Changed::Scaled);
    let single: Vec<&Trial> = single.collect();
    if let Some(base) = single.first() {
        let columns = [Right(8), Right(10), Right(12), Right(8), Right(10)];
        text.blank();
        text.line(format!("What moves it, at {}/s offered:", rate(base.rate_per_s)));
        let heads = ["shards", "conns", "answered/s", "ratio", "expected", "  moved"];
        text.row(&columns, &heads);
        for trial in &single {
            let (shards, conns) = (count(trial.shards as u64), count(trial.conns));
            let answered = rate(trial.throughput_per_s);
            let (ratio, expected) =
                (format!("{:.2}", trial.ratio), format!("{:.2}", trial.expected));
            let moved = match trial.moved {
                Some(true) => "  yes",
                Some(false) => "  no",
                None => "  n/a",
            };
            match trial.changed {
                Changed::Nothing => {
                    text.row(&columns[..3], &[&shards, &conns, &answered, "  as searched"]);
                }
                _ => text.row(&columns, &[&shards, &conns, &answered, &ratio, &expected, moved]),
            }
        }
        if single[1..].iter().any(|trial| trial.moved.is_none()) {
            let limit = EXPECTED_MIN * 100.0;
            text.line(format!("n/a: less than {limit:.0} % of a change was expected{raise}"));
        }
    }
    match &proof.scaling {
        Scaling::NotTried if is_clipped && answer.bound.code == Code::GeneratorCore => {
            text.line(format!("Scaling not measured{raise}"));
        }
        Scaling::NotTried => {}
        Scaling::Unproven => {
            text.line("Scaling unproven: not measured, as the generator has one core.");
        }
        Scaling::Efficiency(all) => {
            let columns = [Right(8), Right(12), Right(12)];
            text.blank();
            text.row(&columns, &["shards", "answered/s", "efficiency"]);
            for one in all {
                let (shards, answered) = (count(one.shards as u64), rate(one.throughput_per_s));
                text.row(&columns, &[shards, answered, percent(one.efficiency)]);
            }
        }
    }
    text.done()
}

/// The frames of a profile.
fn heaviest(profile: &Profile) -> String {
    let mut text = Text::new();
    text.blank();
    text.line("CPU time per request at the rate that passed:");
    for frame in &profile.frames {
        let us = frame.own.cpu_us_per_request.map_or("n/a".to_owned(), time);
        let side = if frame.kernel { "kernel" } else { "user" };
        let columns = [Right(10), Right(8), Left(2), Left(8)];
        text.row(&columns, &[&us, &percent(frame.own.share), "", side, &frame.name]);
    }
    text.done()
}

#[cfg(test)]
mod tests {
    use probe::backlog::Backlog;
    use probe::ceiling::{CeilingPlan, NotJudged};
    use probe::document::SCHEMA;
    use probe::proof::{Proof, Scaled};
    use probe::search::{Bracket, Limit, SearchPlan};
    use probe::within::Within;

    use super::super::layout::WIDTH;
    use super::super::reports::{part, report};
    use super::*;

    /// A step at this rate, with a mean latency of `naive` µs.
    fn step(rate: f64, naive: u64) -> Step {
        let mut step =
            Step { rate_per_s: rate, ..Step::new(&report(true, part(naive, naive, 1, 2))) };
        step.figures.throughput_per_s = 0.99 * rate;
        step.backlog = Backlog { growth: 0.0, interval: Some([0.0; 2]), fell_behind: Some(false) };
        step.errors_interval = Some([0.0, 0.001]);
        step.figures.at_target = rate * naive as f64 / 1e6;
        step
    }

    fn trial(changed: Changed, shards: usize, conns: u64, ratio: f64, expected: f64) -> Trial {
        let moved = (changed != Changed::Nothing).then_some(expected == ratio);
        let throughput = 2_000.0 * ratio;
        let rate = 2_561.0;
        let steps = vec![step(rate, 1_000)];
        Trial {
            changed,
            shards,
            conns,
            rate_per_s: rate,
            throughput_per_s: throughput,
            ratio,
            expected,
            moved,
            steps,
        }
    }

    fn document() -> CeilingDocument {
        let end = |rate, growth, broke| End {
            rate_per_s: rate,
            sent: 0.999,
            growth,
            growth_interval: Some([growth - 0.01, growth + 0.01]),
            window_s: 5.0,
            lateness_p50_us: Some(0.144),
            errors: 0.0,
            silent_from_s: None,
            broke,
        };
        let bound = Bound {
            code: Code::Target,
            evidence: "the target took 63 ms per request".to_owned(),
            proven: true,
            light: None,
            heavy: None,
        };
        let trials = vec![
            trial(Changed::Nothing, 1, 1_000, 1.0, 1.0),
            trial(Changed::Shards, 2, 1_000, 1.28, 1.28),
            trial(Changed::Conns, 1, 500, 1.0, 0.5),
        ];
        let answer = Answer {
            bracket: Bracket {
                passed_per_s: Some(2_022.0),
                failed_per_s: Some(2_049.0),
                undecided_per_s: vec![2_035.0],
                complete: true,
                stopped_by: None,
                resolution: Some(0.013),
            },
            window_needed_s: None,
            passed_by: Some(end(2_022.0, -0.001, Vec::new())),
            failed_by: Some(end(2_049.0, 0.033, vec![Broke::Sent, Broke::Backlog])),
            not_judged: None,
            bound,
            proof: Proof { trials, scaling: Scaling::Unproven },
        };
        let made = Made {
            schema: SCHEMA,
            interrupted: false,
            error: None,
            plan: None,
            environment: None,
            cooldown: Nanos::from_secs(1),
            steps: vec![step(2_022.0, 1_000)],
            unfinished: None,
        };
        let rate = |text: &str| text.parse().expect("a rate");
        let search = SearchPlan {
            first: rate("1k"),
            rate_max: rate("1M"),
            tolerance: 0.02,
            repeats: 1,
            steps_max: 40,
            duration: Nanos::from_secs(5),
            seed: 1,
            time: Within { within: Nanos::from_secs(240), around: Nanos::from_secs(17) },
        };
        let ceiling = CeilingPlan { search, cores: vec![1], conns_max: 1_000 };
        CeilingDocument { answer, ceiling, profile: None, made }
    }

    #[test]
    fn a_step_is_a_line() {
        let first = "1k".parse().expect("a rate");
        let mut behind = step(123_456.7, 99_600);
        behind.sent_due_per_s = 0.5 * behind.intended_per_s;
        behind.backlog.growth = 0.5;
        let text = [Extent::Screen, Extent::Details]
            .map(|extent| {
                begins(true, first, extent)
                    + &row(&step(999.5, 250), false, extent)
                    + &row(&behind, false, extent)
            })
            .concat();
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        insta::assert_snapshot!(text, @r"
        Searching for the highest rate that the generator and the null target sustain,
        from 1,000/s up

          rate/s  answered/s errors  p50, ms    p99, ms
           999.5       333.2    0 %     0.250      0.250  passed; valid
         123,457       333.2    0 %    99.6       99.6    failed; valid
        Searching for the highest rate that the generator and the null target sustain,
        from 1,000/s up

           rate/s answered/s    sent  backlog late p50  busy  latency in flight
            999.5      989.5 100.0 %   +0.0 %  1.00 µs  12 %   250 µs      0.25  passed
          123,457    122,222  50.0 %  +50.0 %  1.00 µs  12 %  99.6 ms  12296.29  failed
        ");
    }

    #[test]
    fn undecided_and_interrupted_steps_are_marked() {
        let mut document = document();
        let mut chance = step(518.8, 250);
        chance.backlog =
            Backlog { growth: 0.002, interval: Some([-0.01, 0.134]), fell_behind: None };
        chance.outcome = Some(Outcome::Undecided);
        let of = |cut_short| row(&chance, cut_short, Extent::Details);
        let rows = of(false) + &of(true);
        assert!(rows.lines().all(|line| line.chars().count() <= WIDTH), "{rows}");
        let outcomes = rows.lines().map(|line| line.rsplit(' ').next().expect("a word"));
        assert_eq!(outcomes.collect::<Vec<_>>(), ["open", "stopped"]);
        let head = |document: &CeilingDocument| {
            let text = ends(document, &[], Extent::Details);
            text.split("\n\n").next().unwrap_or_default().to_owned() + "\n"
        };
        assert!(head(&document).starts_with("\nThe ceiling lies"), "{}", head(&document));
        document.made.unfinished = Some(chance.clone());
        document.made.steps.push(chance);
        insta::assert_snapshot!(head(&document), @r"
        open  undecided: neither has the backlog surely grown by more than 1 % of
              arrivals, nor surely by less than 2 %
        stopped: interrupted, not counted
        ");
    }

    #[test]
    fn a_ceiling_states_its_bracket_its_bound_and_its_proof() {
        let mut document = document();
        insta::assert_snapshot!(ends(&document, &["c.json".to_owned()], Extent::Screen), @r"
        The ceiling lies between 2,022/s, which passed, and 2,049/s, which failed: 1.3 %
        apart. In between, 2,035/s remained undecided.
        Bound: the target (target): the target took 63 ms per request.
        written c.json
        ");
        let mut text = ends(&document, &["c.json".to_owned()], Extent::Details);
        let scaled = |shards, throughput, efficiency| Scaled {
            shards,
            throughput_per_s: throughput,
            efficiency,
        };
        let both = vec![scaled(1, 99_000.0, 1.0), scaled(2, 188_100.0, 0.95)];
        document.answer.proof = Proof { trials: Vec::new(), scaling: Scaling::Efficiency(both) };
        document.answer.bracket.complete = false;
        document.answer.bracket.stopped_by = Some(Limit::Time);
        document.ceiling.search.tolerance = 0.01;
        document.answer.bracket.undecided_per_s.clear();
        document.answer.bound.proven = false;
        if let Some(end) = &mut document.answer.failed_by {
            (end.broke, end.lateness_p50_us) = (vec![Broke::Lateness], Some(1_500.0));
        }
        text += &ends(&document, &[], Extent::Details);
        document.answer.bound.code = Code::NoneReached;
        (document.answer.bracket.failed_per_s, document.answer.failed_by) = (None, None);
        document.answer.proof.scaling = Scaling::NotTried;
        document.answer.bracket.undecided_per_s = vec![2_035.0];
        document.made.interrupted = true;
        text += &ends(&document, &[], Extent::Details);
        document.answer.passed_by = None;
        document.answer.bracket.passed_per_s = None;
        document.made.error = Some("127.0.0.1:80 accepts no connection".to_owned());
        text += &ends(&document, &[], Extent::Details);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        insta::assert_snapshot!(text, @r"

        The ceiling lies between 2,022/s, which passed, and 2,049/s, which failed: 1.3 %
        apart. In between, 2,035/s remained undecided.
          passed  2,022/s: sent 99.9 % of what was due in a window of 5 s; backlog
                  didn't grow (at most 0.9 %); pacer lateness p50 144 ns
          failed  2,049/s: sent 99.9 % of what was due (limit 98 %); backlog grew by
                  3.3 % of arrivals (limit 1 %)
        Bound: the target (target): the target took 63 ms per request.

        What moves it, at 2,561/s offered:
          shards     conns  answered/s   ratio  expected  moved
               1     1,000       2,000  as searched
               2     1,000       2,560    1.28      1.28  yes
               1       500       2,000    1.00      0.50  no
        Scaling unproven: not measured, as the generator has one core.
        written c.json

        The ceiling lies between 2,022/s, which passed, and 2,049/s, which failed: 1.3 %
        apart. The search stopped at --within 4m, incomplete: the answer is known to
        within 1.3 %, and --tolerance is 1 %.
          passed  2,022/s: sent 99.9 % of what was due in a window of 5 s; backlog
                  didn't grow (at most 0.9 %); pacer lateness p50 144 ns
          failed  2,049/s: pacer lateness p50 1.50 ms (limit 1.00 ms)
        Bound: the target (target), not proven: the target took 63 ms per request.

          shards  answered/s  efficiency
               1      99,000     100.0 %
               2     188,100      95.0 %

        2,022/s passed, and no rate failed. 2,035/s remained undecided.
          passed  2,022/s: sent 99.9 % of what was due in a window of 5 s; backlog
                  didn't grow (at most 0.9 %); pacer lateness p50 144 ns
        Bound: none reached (none_reached): the target took 63 ms per request.
        Interrupted: partial results.

        No rate passed, and none failed. 2,035/s remained undecided.
        Bound: none reached (none_reached): the target took 63 ms per request.
        Ended early: 127.0.0.1:80 accepts no connection
        ");
    }

    #[test]
    fn a_ceiling_that_others_disturbed_names_no_bound() {
        let mut document = document();
        let not_judged = NotJudged {
            rates_per_s: vec![2_828.0, 4_000.0],
            steal: Some(0.123),
            waited: 0.02,
            throttled: None,
        };
        let answer = &mut document.answer;
        (answer.bracket.failed_per_s, answer.failed_by) = (None, None);
        answer.not_judged = Some(not_judged);
        answer.proof.trials.clear();
        answer.proof.scaling = Scaling::NotTried;
        let mut text = ends(&document, &[], Extent::Details);
        document.answer.bracket.passed_per_s = None;
        document.answer.passed_by = None;
        text += &ends(&document, &[], Extent::Details);
        insta::assert_snapshot!(text, @r"

        The ceiling isn't judged: 2,022/s passed, and each run that failed (2,828/s,
        4,000/s) is excused, since others took the generator's cores: the hypervisor up
        to 12.3 %, other processes up to 2.0 %. Repeat it when the machine is quiet.
          passed  2,022/s: sent 99.9 % of what was due in a window of 5 s; backlog
                  didn't grow (at most 0.9 %); pacer lateness p50 144 ns

        The ceiling isn't judged: no rate passed, and each run that failed (2,828/s,
        4,000/s) is excused, since others took the generator's cores: the hypervisor up
        to 12.3 %, other processes up to 2.0 %. Repeat it when the machine is quiet.
        ");
    }

    #[test]
    fn trials_without_room_are_marked() {
        let mut answer = document().answer;
        answer.proof.trials.truncate(2);
        for trial in &mut answer.proof.trials {
            (trial.rate_per_s, trial.moved) = (2_080.0, None);
        }
        answer.proof.scaling = Scaling::NotTried;
        answer.bound.code = Code::GeneratorCore;
        insta::assert_snapshot!(proof(&answer), @r"

        What moves it, at 2,080/s offered:
          shards     conns  answered/s   ratio  expected  moved
               1     1,000       2,000  as searched
               2     1,000       2,560    1.28      1.28  n/a
        n/a: less than 5 % of a change was expected; raise --max-rate
        Scaling not measured; raise --max-rate
        ");
    }
}
