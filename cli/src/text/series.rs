//! Sweeps and searches: each step as it ends, and what they found.

use std::fmt::Write as _;

use engine::report::slo::{JudgedObjective, Judgement};
use engine::report::verdict::Level;
use engine::sys::units::{Nanos, Rate};
use probe::blame::Side;
use probe::document::{SearchDocument, SweepDocument};
use probe::knee::Knee;
use probe::search::Bracket;
use probe::step::{Latency, Step};
use probe::sweep::SweepPlan;
use probe::{Ask, Outlook};

use super::figures::{rate, things, time};
use super::slo::judgement;
use super::wrap::wrap;

/// The percentiles of a step's line.
const SHOWN: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

/// What the progress line of a step begins with; `between` is what a step takes beside its window.
pub(crate) fn label(ask: &Ask, outlook: Outlook, between: Nanos) -> String {
    let Outlook { step, steps_max, windows_left } = outlook;
    let left = windows_left.map(|windows| {
        let steps = steps_max.saturating_sub(step) as u64 + 1;
        let left_s = (windows.0 + steps * between.0).div_ceil(1_000_000_000);
        format!("  about {} left", Nanos::from_secs(left_s))
    });
    let rate = rate(ask.rate.per_second());
    format!("step {step}/{steps_max}  {rate}/s{}  ", left.unwrap_or_default())
}

/// What a sweep is about to do, and the head of its table.
pub(crate) fn sweep_begins(plan: &SweepPlan) -> String {
    let rates = plan.rates.iter().map(|rate| rate.per_second());
    let (first, last) = (rates.clone().fold(f64::MAX, f64::min), rates.fold(0.0, f64::max));
    let more = match plan.refine_max {
        0 => String::new(),
        more => format!(", and up to {more} more around the knee"),
    };
    format!(
        "{} from {}/s to {}/s{more}; {} each\n\n{}",
        things(plan.rates.len() as u64, "rate"),
        rate(first),
        rate(last),
        plan.duration,
        head()
    )
}

/// What a search is about to do, and the head of its table.
pub(crate) fn search_begins(slo: &str, first: Rate) -> String {
    let first = rate(first.per_second());
    format!("The highest rate with {slo}, from {first}/s on\n\n{}", head())
}

fn head() -> String {
    let mut text = format!("{:>10}  {:>10}  {:9}", "rate/s", "answered/s", "");
    for (name, _) in SHOWN {
        let _ = write!(text, "  {name:<20}");
    }
    text.trim_end().to_owned() + "\n"
}

/// The lines of a step: corrected above naive, and what became of it.
pub(crate) fn row(step: &Step) -> String {
    let mut text = format!("{:>10}  {:>10}  corrected", rate(step.rate), rate(step.answered));
    text.push_str(&cells(&step.corrected));
    let mut told = Vec::new();
    match &step.slo {
        Some(slo) => told.push(judgement(slo.judgement)),
        None if step.backlog.fell_behind => told.push("fell behind"),
        None => {}
    }
    told.push(match step.verdict.level {
        Level::Valid => "valid",
        Level::Suspect => "suspect",
        Level::Invalid => "INVALID",
    });
    let mut text = text.trim_end().to_owned();
    let _ = write!(text, "\n{:>22}  naive    {}", told.join(", "), cells(&step.naive));
    text.trim_end().to_owned() + "\n"
}

fn cells(latency: &Latency) -> String {
    let cells = SHOWN.map(|(_, q)| {
        let percentile = latency.percentiles.at(q);
        format!("  {:<20}", estimate(percentile.value, percentile.interval))
    });
    cells.concat()
}

/// A time with its interval, both in the unit of the time: `1.02 (1.01–1.03) ms`.
fn estimate(us: Option<f64>, interval: Option<[f64; 2]>) -> String {
    let Some(us) = us else { return "n/a".to_owned() };
    let shown = time(us);
    let (Some((figure, unit)), Some([low, high])) = (shown.split_once(' '), interval) else {
        return shown;
    };
    let scale = match unit {
        "ns" => 1e3,
        "µs" => 1.0,
        "ms" => 1e-3,
        _ => 1e-6,
    };
    let digits = figure.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let [low, high] = [low, high].map(|end| format!("{:.digits$}", end * scale));
    format!("{figure} ({low}–{high}) {unit}")
}

/// What a sweep found, and where it is written.
pub(crate) fn sweep_ends(document: &SweepDocument, written: &[String]) -> String {
    let mut text = String::from("\n");
    let Knee { rate: found, from, to, answered_beyond, bound, .. } = &document.knee;
    let at = |per_second: &f64| format!("{}/s", rate(*per_second));
    let beyond = answered_beyond
        .as_ref()
        .map(|answered| format!(" Beyond it at most {} were answered.", at(answered)));
    let who = match bound {
        Some(Side::Generator) => {
            " It is the generator's: it had no time left there, so the target may do more."
        }
        Some(Side::Target) | None => "",
    };
    let told = match (found, from, to) {
        (Some(found), Some(from), Some(to)) => format!(
            "Knee at {}: up to {} answers kept up with arrivals, from {} on the backlog grew by \
             more than 2 % of them.{}{who}",
            at(found),
            at(from),
            at(to),
            beyond.unwrap_or_default()
        ),
        (_, Some(from), None) => {
            format!(
                "No knee found: answers kept up with arrivals up to {}. Raise --rates.",
                at(from)
            )
        }
        (_, None, Some(to)) => format!(
            "No knee found: answers fell behind at the lowest rate, {}, already. Lower \
             --rates.{}{who}",
            at(to),
            beyond.unwrap_or_default()
        ),
        _ => "No knee found: the steps contradict each other. Use a longer --duration.".to_owned(),
    };
    if !document.made.steps.is_empty() {
        text.push_str(&wrap(&told));
    }
    text + &end(document.made.interrupted, written)
}

/// What a search found, and where it is written.
pub(crate) fn search_ends(document: &SearchDocument, written: &[String]) -> String {
    let Bracket { passed, failed, undecided, complete, .. } = &document.bracket;
    let at = |per_second: &f64| format!("{}/s", rate(*per_second));
    let mut told = match (passed, failed) {
        (Some(passed), Some(failed)) => format!(
            "The highest rate that holds lies between {}, which passed, and {}, which failed: \
             {:.1} % apart.",
            at(passed),
            at(failed),
            (failed / passed - 1.0) * 100.0
        ),
        (Some(passed), None) => format!("{} passed, and no rate failed.", at(passed)),
        (None, Some(failed)) => format!("No rate passed; {} failed.", at(failed)),
        (None, None) => "No rate passed, and none failed: use a longer --duration.".to_owned(),
    };
    if !undecided.is_empty() && passed.is_some() {
        let rates: Vec<String> = undecided.iter().map(at).collect();
        let _ = write!(told, " In between, {} remained undecided.", rates.join(", "));
    }
    if let Some(ended) = ending(document) {
        told.push(' ');
        told.push_str(&ended);
    }
    if !complete && !document.made.interrupted {
        told.push_str(" The search stopped at --max-steps: the answer is wider than asked for.");
    }
    let mut text = String::from("\n");
    if !document.made.steps.is_empty() {
        text.push_str(&wrap(&told));
    }
    text + &end(document.made.interrupted, written)
}

/// Which side ended a search, and by which objective.
fn ending(document: &SearchDocument) -> Option<String> {
    let Bracket { failed, ended_by, .. } = &document.bracket;
    let side = match (*ended_by)? {
        Side::Target => "The target ended it",
        Side::Generator => "The generator ended it, so the target may hold more",
    };
    let missed = |step: &&Step| {
        let judgement = step.slo.as_ref().map(|slo| slo.judgement);
        Some(step.rate) == *failed && judgement == Some(Judgement::Missed)
    };
    let step = document.made.steps.iter().rev().find(missed);
    let objectives = step.and_then(|step| step.slo.as_ref()).map(|slo| &slo.objectives);
    let figures: Vec<String> = objectives
        .into_iter()
        .flatten()
        .filter(|objective| objective.judgement == Judgement::Missed)
        .map(|JudgedObjective { metric, unit, figure, .. }| match (figure, unit.as_str()) {
            (Some(us), "us") => format!("{metric} was {}", time(*us)),
            (Some(share), _) => format!("{metric} were {:.2} %", share * 100.0),
            (None, _) => format!("{metric} was too high"),
        })
        .collect();
    Some(match failed.filter(|_| !figures.is_empty()) {
        Some(failed) => format!("{side}: at {}/s {}.", rate(failed), figures.join(", ")),
        None => format!("{side}: the verdict there is invalid."),
    })
}

fn end(interrupted: bool, written: &[String]) -> String {
    let mut text = String::new();
    if interrupted {
        text.push_str("Interrupted: this is what there was until then.\n");
    }
    if !written.is_empty() {
        let _ = writeln!(text, "written {}", written.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use engine::plan::Plan;
    use engine::report::slo::Slo;
    use probe::Change;
    use probe::document::{Made, SCHEMA};

    use super::super::reports::{part, report};
    use probe::search::SearchPlan;

    use super::*;

    /// A step at this rate that took these times in µs.
    fn step(rate: f64, naive: u64, corrected: u64) -> Step {
        Step { rate, ..Step::new(&report(true, part(naive, corrected, 1, 2))) }
    }

    fn made(steps: Vec<Step>) -> Made {
        Made {
            schema: SCHEMA,
            interrupted: false,
            error: None,
            plan: Some(Plan::default()),
            environment: None,
            steps,
            unfinished: None,
        }
    }

    #[test]
    fn a_step_has_two_lines() {
        let mut behind = step(20_000.0, 1_234, 2_345_678);
        behind.backlog.fell_behind = true;
        behind.verdict.level = Level::Suspect;
        let rows = head() + &row(&step(999.5, 250, 1_020)) + &row(&behind);
        insta::assert_snapshot!(rows, @r"
          rate/s  answered/s             p50                   p99                   p99.9
           999.5       333.2  corrected  1.02 (1.02–1.02) ms   1.02 (1.02–1.02) ms   1.02 (1.02–1.02) ms
                       valid  naive      250 (250–250) µs      250 (250–250) µs      250 (250–250) µs
          20,000       333.2  corrected  2.35 (2.35–2.35) s    2.35 (2.35–2.35) s    2.35 (2.35–2.35) s
        fell behind, suspect  naive      1.23 (1.23–1.23) ms   1.23 (1.23–1.23) ms   1.23 (1.23–1.23) ms
        ");
    }

    #[test]
    fn an_interval_is_in_the_unit_of_its_figure() {
        for (us, interval, text) in [
            (Some(1_020.0), Some([999.0, 12_345.0]), "1.02 (1.00–12.35) ms"),
            (Some(250.0), Some([249.4, 251.0]), "250 (249–251) µs"),
            (Some(2e6), None, "2.00 s"),
            (None, None, "n/a"),
        ] {
            assert_eq!(estimate(us, interval), text);
        }
    }

    #[test]
    fn the_label_says_which_step_and_how_long() {
        let rate = "1427".parse().expect("a rate");
        let ask = Ask { rate, duration: Nanos::from_secs(30), seed: 1, change: Change::None };
        let mut outlook =
            Outlook { step: 3, steps_max: 16, windows_left: Some(Nanos::from_secs(420)) };
        let text = label(&ask, outlook, Nanos::from_secs(7));
        assert_eq!(text, "step 3/16  1,427/s  about 8m38s left  ");
        outlook.windows_left = None;
        assert_eq!(label(&ask, outlook, Nanos(0)), "step 3/16  1,427/s  ");
    }

    #[test]
    fn a_sweep_states_its_knee() {
        let knee = Knee {
            rate: Some(1_003.0),
            from: Some(980.0),
            to: Some(1_026.0),
            method: String::new(),
            answered_beyond: Some(998.2),
            bound: Some(Side::Target),
        };
        let steps = vec![step(980.0, 1, 2)];
        let sweep = SweepPlan {
            rates: vec!["980".parse().expect("a rate")],
            refine_max: 0,
            duration: Nanos::from_secs(30),
            seed: 1,
        };
        let mut document = SweepDocument { knee, sweep, made: made(steps) };
        let written = ["sweep.json".to_owned()];
        let mut text = sweep_ends(&document, &written);
        document.knee.bound = Some(Side::Generator);
        text += &sweep_ends(&document, &[]);
        document.knee = Knee { rate: None, to: None, answered_beyond: None, ..document.knee };
        text += &sweep_ends(&document, &[]);
        document.knee = Knee { from: None, to: Some(980.0), bound: None, ..document.knee };
        document.made.interrupted = true;
        text += &sweep_ends(&document, &[]);
        insta::assert_snapshot!(text, @r"

        Knee at 1,003/s: up to 980/s answers kept up with arrivals, from 1,026/s on the backlog grew by more
        than 2 % of them. Beyond it at most 998.2/s were answered.
        written sweep.json

        Knee at 1,003/s: up to 980/s answers kept up with arrivals, from 1,026/s on the backlog grew by more
        than 2 % of them. Beyond it at most 998.2/s were answered. It is the generator's: it had no time
        left there, so the target may do more.

        No knee found: answers kept up with arrivals up to 980/s. Raise --rates.

        No knee found: answers fell behind at the lowest rate, 980/s, already. Lower --rates.
        Interrupted: this is what there was until then.
        ");
    }

    #[test]
    fn a_search_states_its_bracket_and_who_ended_it() {
        let mut failing = step(916.0, 1_000, 25_100);
        let objective = JudgedObjective {
            metric: "p99".to_owned(),
            unit: "us".to_owned(),
            bound: 20_000.0,
            figure: Some(25_100.0),
            interval: [Some(24_000.0), None],
            needed: None,
            beyond: Some(0.02),
            beyond_interval: Some([0.015, 0.03]),
            judgement: Judgement::Missed,
        };
        failing.slo = Some(Slo { judgement: Judgement::Missed, objectives: vec![objective] });
        let bracket = Bracket {
            passed: Some(880.0),
            failed: Some(916.0),
            undecided: vec![898.0],
            ended_by: Some(Side::Target),
            complete: true,
        };
        let slo = "p99<20ms".to_owned();
        let search = SearchPlan {
            first: "1k".parse().expect("a rate"),
            rate_max: "100k".parse().expect("a rate"),
            tolerance: 0.05,
            repeats: 1,
            steps_max: 60,
            duration: Nanos::from_secs(30),
            seed: 1,
        };
        let mut document = SearchDocument { bracket, slo, search, made: made(vec![failing]) };
        let mut text = search_ends(&document, &["search.json".to_owned()]);
        document.bracket.undecided.clear();
        document.bracket.ended_by = Some(Side::Generator);
        document.made.steps[0].slo = None;
        document.bracket.complete = false;
        text += &search_ends(&document, &[]);
        document.bracket.failed = None;
        document.bracket.ended_by = None;
        document.bracket.complete = true;
        text += &search_ends(&document, &[]);
        document.bracket.passed = None;
        text += &search_ends(&document, &[]);
        insta::assert_snapshot!(text, @r"

        The highest rate that holds lies between 880/s, which passed, and 916/s, which failed: 4.1 % apart.
        In between, 898/s remained undecided. The target ended it: at 916/s p99 was 25.1 ms.
        written search.json

        The highest rate that holds lies between 880/s, which passed, and 916/s, which failed: 4.1 % apart.
        The generator ended it, so the target may hold more: the verdict there is invalid. The search
        stopped at --max-steps: the answer is wider than asked for.

        880/s passed, and no rate failed.

        No rate passed, and none failed: use a longer --duration.
        ");
    }
}
