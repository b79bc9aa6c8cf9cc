//! Sweeps and searches: a row for each step as it ends, then the result.

use std::fmt::Write as _;

use engine::report::slo::{JudgedObjective, Judgement, Slo};
use engine::report::verdict::{Code, Level};
use engine::sys::units::{Nanos, Rate, SECOND_NS};
use probe::blame::{Side, excuse};
use probe::document::{Made, SearchDocument, SweepDocument};
use probe::knee::Knee;
use probe::rule::by_objectives;
use probe::search::{Bracket, Limit, SearchPlan};
use probe::step::{ERRORS_MAX, Outcome, SHOWN, Step, none_is_valid};
use probe::sweep::{KNEE_WIDTH, SweepPlan};
use probe::{Ask, SeriesProgress};

use super::extent::Extent;
use super::figures::{count, rate, things, time};
use super::layout::Column::{self, Left, Right};
use super::layout::{Text, aligned, fitting};
use super::scale::{MILLISECONDS, alone};
use super::slo::{assumption, doubt, judgement};
use super::verdict::word;

/// The prefix of a step's progress line.
pub(crate) fn label(ask: &Ask, progress: SeriesProgress) -> String {
    let SeriesProgress { step, steps_max, left } = progress;
    let left = Nanos::from_secs(left.0.div_ceil(SECOND_NS));
    let rate = rate(ask.rate.per_second());
    format!("step {step}/{steps_max}  {rate}/s  at most {left} left  ")
}

/// The announcement of a sweep, and the head of its table.
pub(crate) fn sweep_begins(plan: &SweepPlan, extent: Extent) -> String {
    let rates = plan.rates.iter().map(|rate| rate.per_second());
    let (first, last) = (rates.clone().fold(f64::MAX, f64::min), rates.fold(0.0, f64::max));
    let more = match plan.refine_max {
        0 => String::new(),
        more => format!(", and up to {more} more around the knee"),
    };
    let mut text = Text::new();
    text.line(format!(
        "{} from {}/s to {}/s{more}; {} each",
        things(plan.rates.len() as u64, "rate"),
        rate(first),
        rate(last),
        plan.duration
    ));
    text.blank();
    text.add(head(extent));
    text.done()
}

/// The announcement of a search, and the head of its table; `implied` is the objective added to
/// the user's.
pub(crate) fn search_begins(
    slo: &str,
    implied: Option<&str>,
    first: Rate,
    extent: Extent,
) -> String {
    let first = rate(first.per_second());
    let implied = implied.map_or(String::new(), |implied| {
        format!("; {implied} is implied, since a failed request has no latency")
    });
    let message =
        format!("Searching for the highest rate that meets {slo}, from {first}/s up{implied}");
    let mut text = Text::new();
    text.wrapped(message);
    text.blank();
    text.add(head(extent));
    text.done()
}

/// Columns before the words of a step's line.
const WORDS_AT: usize = 32;

/// The columns before these words, and those of a step's percentiles.
const COLUMNS: [Column; 4] = [Right(10), Right(12), Right(8), Left(2)];
const OF_LATENCY: [Column; 4] = [Left(13), Left(22), Left(22), Left(22)];

/// The columns of a step in one line; its outcome follows.
const STEP: [Column; 6] = [Right(8), Right(12), Right(7), Right(11), Right(11), Left(1)];

/// The head of the table of steps.
pub(super) fn head(extent: Extent) -> String {
    let mut text = Text::new();
    match extent {
        Extent::Screen => {
            let unit = MILLISECONDS.unit;
            let [p50, p99] = ["p50", "p99"].map(|name| format!("{name}, {unit}  "));
            text.row(&STEP, &["rate/s", "answered/s", "errors", &p50, &p99]);
        }
        Extent::Details => {
            text.row(&COLUMNS, &["rate/s", "answered/s", "errors"]);
            text.row(&OF_LATENCY, &["", SHOWN[0].0, SHOWN[1].0, SHOWN[2].0]);
        }
    }
    text.done()
}

/// The lines of a sweep's step; `cut_short` by a signal.
pub(crate) fn sweep_row(step: &Step, cut_short: bool, extent: Extent) -> String {
    let backlog = match step.backlog.fell_behind {
        Some(false) => "kept up",
        Some(true) => "fell behind",
        None => "undecided",
    };
    let backlog = silence(step.silent_from_s).unwrap_or_else(|| backlog.to_owned());
    match extent {
        _ if cut_short => row(step, CUT_SHORT, extent),
        Extent::Screen => {
            let judgement = step.slo.as_ref().map(|slo| judgement(slo.judgement));
            let judged = judgement.map_or(String::new(), |judged| format!(", {judged}"));
            line(step, &[format!("{backlog}{judged}"), backlog])
        }
        Extent::Details => {
            let mut parts = vec![backlog];
            parts.extend(step.slo.as_ref().map(judged));
            parts.push(verdict(step));
            row(step, &parts.join("; "), extent)
        }
    }
}

/// The lines of a search's step, with its outcome and the reason; `cut_short` by a signal.
pub(crate) fn search_row(step: &Step, cut_short: bool, extent: Extent) -> String {
    let outcome = match by_objectives(step) {
        Outcome::Passed => "passed",
        Outcome::Undecided => "undecided",
        // Only its verdict counts against it.
        Outcome::Excused if met(step) => "unusable",
        Outcome::Excused => "failed, but excused",
        Outcome::Doubted => "passed, but doubted",
        Outcome::Failed => "failed",
    };
    match extent {
        _ if cut_short => row(step, CUT_SHORT, extent),
        Extent::Screen => {
            let open = step.slo.as_ref().filter(|slo| slo.judgement != Judgement::Met);
            let why = silence(step.silent_from_s).or(open.map(|slo| figures(slo).join(", ")));
            let why = why.map_or(String::new(), |why| format!(": {why}"));
            line(step, &[format!("{outcome}{why}"), outcome.to_owned()])
        }
        Extent::Details => {
            let missing = by_objectives(step) == Outcome::Undecided;
            // If undecided, the objectives already show it.
            let mut parts: Vec<String> =
                if missing && step.slo.is_some() { Vec::new() } else { vec![outcome.to_owned()] };
            parts.extend(silence(step.silent_from_s));
            parts.extend(step.slo.as_ref().map(judged));
            parts.push(verdict(step));
            row(step, &parts.join("; "), extent)
        }
    }
}

/// True if it met its objectives.
fn met(step: &Step) -> bool {
    step.slo.as_ref().is_some_and(|slo| slo.judgement == Judgement::Met)
}

/// A note that the target stopped answering, and when.
pub(super) fn silence(from_s: Option<f64>) -> Option<String> {
    Some(match from_s? {
        0.0 => "no answers".to_owned(),
        from_s => format!("no answers from {} on", time(from_s * 1e6)),
    })
}

/// The outcome of a step that a signal cut short.
const CUT_SHORT: &str = "interrupted, not counted";

/// A step in one line: the first of these outcomes that fits, and its verdict.
pub(super) fn line(step: &Step, outcomes: &[String]) -> String {
    let level = word(step.verdict.level);
    let lines: Vec<String> =
        outcomes.iter().map(|outcome| cells(step, &format!("{outcome}; {level}"))).collect();
    fitting(&lines) + "\n"
}

/// The cells of that line.
fn cells(step: &Step, words: &str) -> String {
    let [p50, p99] = [0.5, 0.99].map(|q| alone(step.corrected.percentiles.at(q).value));
    let (offered, answered) = (rate(step.rate_per_s), rate(step.answered_per_s));
    aligned(&STEP, &[&offered, &answered, &share(step.error_share()), &p50, &p99, "", words])
}

/// The lines of a step: its rate and outcome; with details also corrected and naive latency with
/// their intervals.
fn row(step: &Step, words: &str, extent: Extent) -> String {
    let mut text = Text::new();
    if extent == Extent::Screen {
        text.line(cells(step, words));
        return text.done();
    }
    let figures = [rate(step.rate_per_s), rate(step.answered_per_s), share(step.error_share())];
    text.field(WORDS_AT, &aligned(&COLUMNS, &figures), words);
    for (name, latency) in [("  corrected", &step.corrected), ("  naive", &step.naive)] {
        let [p50, p99, tail] = SHOWN.map(|(_, q)| {
            let percentile = latency.percentiles.at(q);
            estimate(percentile.value, percentile.interval)
        });
        text.row(&OF_LATENCY, &[name, &p50, &p99, &tail]);
    }
    text.done()
}

/// The judgement of the objectives, the figures of those that weren't met, and what makes one
/// doubtful.
fn judged(slo: &Slo) -> String {
    let mut text = match slo.judgement {
        Judgement::Met => judgement(slo.judgement).to_owned(),
        Judgement::Undecided | Judgement::Missed => {
            format!("{} {}", judgement(slo.judgement), figures(slo).join(", "))
        }
    };
    if let Some(doubt) = slo.objectives.iter().find_map(doubt) {
        let _ = write!(text, "; {doubt}");
    }
    text
}

/// The figures of the objectives that decide the overall judgement.
fn figures(slo: &Slo) -> Vec<String> {
    let alike = slo.objectives.iter().filter(|one| one.judgement == slo.judgement);
    alike.map(figure).collect()
}

/// An objective's figure: `p99 25.1 ms`.
fn figure(objective: &JudgedObjective) -> String {
    let JudgedObjective { of, metric, unit, figure, interval: [low, _], .. } = objective;
    let metric = of.as_ref().map_or(metric.clone(), |name| format!("{name}: {metric}"));
    let shown = |number: f64| match unit.as_str() {
        "us" => time(number),
        _ => share(number),
    };
    match (figure, low) {
        (Some(number), _) => format!("{metric} {}", shown(*number)),
        (None, Some(low)) => format!("{metric} above {}", shown(*low)),
        (None, None) => format!("{metric} n/a"),
    }
}

/// The verdict, with the reasons for its level.
fn verdict(step: &Step) -> String {
    let level = step.verdict.level;
    match level {
        Level::Valid => word(level).to_owned(),
        _ => format!("{}: {}", word(level), step.verdict.names_at(level).join(", ")),
    }
}

/// A share as a percentage.
fn share(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".to_owned(),
        percent if percent < 0.01 => "<0.01%".to_owned(),
        percent if percent < 9.95 => format!("{percent:.2} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// The number of steps that weren't valid, their reasons, and a cure for the most frequent reason
/// that is the generator's own; empty if all were valid.
pub(super) fn doubts(made: &Made) -> String {
    let mut text = Text::new();
    let mut cure = None;
    for level in [Level::Invalid, Level::Suspect] {
        let steps: Vec<&Step> =
            made.steps.iter().filter(|step| step.verdict.level == level).collect();
        let mut codes: Vec<(Code, usize)> = Vec::new();
        for code in steps.iter().flat_map(|step| step.verdict.codes_at(level)) {
            match codes.iter_mut().find(|(known, _)| *known == code) {
                Some((_, number)) => *number += 1,
                None => codes.push((code, 1)),
            }
        }
        // A stable sort keeps the order of equal counts.
        codes.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
        cure = cure
            .or_else(|| codes.iter().map(|(code, _)| *code).find(|code| code.is_of_generator()));
        let codes: Vec<String> =
            codes.iter().map(|(code, number)| format!("{code} {number}")).collect();
        if !steps.is_empty() {
            let all = things(made.steps.len() as u64, "step");
            let (word, few) = (word(level), steps.len());
            text.item(0, format!("{word}: {few} of {all} ({}).", codes.join(", ")));
        }
    }
    if let Some(code) = cure {
        text.item(0, format!("Against {code}: {}.", code.rule().cure));
    }
    text.done()
}

/// The meaning of `excused` and `doubted`, if a step of a search is either.
fn legend(made: &Made) -> String {
    let any = |which: fn(&Step) -> bool| made.steps.iter().any(which);
    let mut text = Text::new();
    if any(|step| by_objectives(step) == Outcome::Excused && !met(step)) {
        text.item(
            0,
            "Excused: the generator's own delay, or others on its cores, explain the miss.",
        );
    }
    if any(|step| by_objectives(step) == Outcome::Doubted) {
        text.item(0, "Doubted: others had the generator's cores, which may have hidden errors.");
    }
    text.done()
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

/// The result of a sweep, and the files with it.
pub(crate) fn sweep_ends(document: &SweepDocument, written: &[String]) -> String {
    let mut text = Text::new();
    text.blank();
    if !document.made.steps.is_empty() {
        text.wrapped(found(document));
    }
    text.add(doubts(&document.made));
    text.add(end(&document.made, written));
    text.done()
}

pub(super) fn at(per_second: f64) -> String {
    format!("{}/s", rate(per_second))
}

/// The knee, or why there is none.
fn found(document: &SweepDocument) -> String {
    let Knee {
        rate_per_s: knee,
        from_per_s: from,
        to_per_s: to,
        contradicting_per_s: contradicting,
        undecided_per_s: undecided,
        ..
    } = &document.knee;
    let made = &document.made;
    let done = !made.interrupted;
    if made.steps.iter().all(|step| step.silent_from_s == Some(0.0)) {
        return "No knee found: the target sent no answers at any rate. Check that it serves this \
                URL, and raise --timeout if its responses take longer."
            .to_owned();
    }
    // If steps contradict each other, a wider range doesn't help.
    let mut message = match (from, to) {
        (Some(from), Some(to)) => {
            let apart = (to / from - 1.0) * 100.0;
            let knee = match knee.filter(|_| *to <= KNEE_WIDTH * from) {
                Some(knee) => format!("Knee at {}", at(knee)),
                None => format!("Knee between {} and {}, {apart:.0} % apart", at(*from), at(*to)),
            };
            let beyond = match silent(made, *to) {
                None => "the backlog grew by more than 1 % of them",
                Some(_) => "they stopped",
            };
            format!(
                "{knee}: up to {} answers kept up with arrivals, from {} on {beyond}.",
                at(*from),
                at(*to)
            )
        }
        _ if !contradicting.is_empty() => "No knee found.".to_owned(),
        (Some(from), None) => {
            let message =
                format!("No knee found: answers kept up with arrivals up to {}.", at(*from));
            message + if done && failing(made).is_none() { " Raise --rates." } else { "" }
        }
        (None, Some(to)) => {
            let message = format!("No knee found: answers already fell behind at {}.", at(*to));
            // `silences` reports answers that stopped.
            let advise = done && silent(made, *to).is_none();
            message + if advise { " Lower --rates." } else { "" }
        }
        (None, None) => "No knee found.".to_owned(),
    };
    if !contradicting.is_empty() {
        let rates: Vec<String> = contradicting.iter().copied().map(at).collect();
        let _ = write!(
            message,
            " The steps contradict each other: some fell behind, others at the same or a higher \
             rate kept up ({}), so these rates are undecided. Repeat the sweep, with a longer \
             --duration.",
            rates.join(", ")
        );
    }
    // Undecided rates outside the knee's bracket don't matter.
    let matters =
        |rate: &f64| to.is_none_or(|to| *rate < to) && from.is_none_or(|from| from < *rate);
    let undecided = undecided.iter().copied().filter(matters);
    let undecided: Vec<f64> = undecided.filter(|rate| silent(made, *rate).is_none()).collect();
    if !undecided.is_empty() {
        let rates: Vec<String> = undecided.iter().copied().map(at).collect();
        let _ =
            write!(message, " {} remained undecided: {}.", rates.join(", "), why(made, &undecided));
    }
    if to.is_some() {
        message.push_str(&beyond(document));
    }
    if !document.complete && done {
        let within = document.sweep.time.within;
        let _ = write!(message, " The sweep stopped at --within {within}, incomplete");
        let missing = document.sweep.rates.get(made.steps.len()..).unwrap_or_default();
        match missing.first() {
            Some(first) => {
                let _ = write!(message, ": {first}/s and what follows weren't offered.");
            }
            None => message.push('.'),
        }
    }
    message.push_str(&silences(made));
    message.push_str(&errors(made));
    message
}

/// The time from which a step at this rate had no answers, s.
fn silent(made: &Made, rate: f64) -> Option<f64> {
    made.steps.iter().filter(|step| step.rate_per_s == rate).find_map(|step| step.silent_from_s)
}

/// The rates at which the target stopped answering, or never answered.
fn silences(made: &Made) -> String {
    let silent = made.steps.iter().filter_map(|step| Some((step.rate_per_s, step.silent_from_s?)));
    let mut silent: Vec<(f64, f64)> = silent.collect();
    silent.sort_by(|one, other| one.0.total_cmp(&other.0));
    silent.dedup_by(|one, other| one.0 == other.0);
    let rates = |all: bool| -> Vec<String> {
        let these = silent.iter().filter(|(_, from_s)| (*from_s == 0.0) == all);
        these.map(|(rate, _)| at(*rate)).collect()
    };
    let (none, ended) = (rates(true), rates(false));
    let mut message = String::new();
    if !ended.is_empty() {
        let _ = write!(message, " The target stopped answering at {}.", ended.join(", "));
    }
    if !none.is_empty() {
        let target = if message.is_empty() { "The target" } else { "It" };
        let _ = write!(message, " {target} sent no answers at {}.", none.join(", "));
    }
    message
}

/// Of the steps that kept up, but with more than [`ERRORS_MAX`] errors: the one at the lowest rate,
/// and the one with the largest share of errors.
fn failing(made: &Made) -> Option<[&Step; 2]> {
    let failing = made.steps.iter().filter(|step| {
        let kept_up = step.backlog.fell_behind == Some(false) && step.silent_from_s.is_none();
        kept_up && ERRORS_MAX < step.error_share()
    });
    let lowest =
        failing.clone().min_by(|one, other| one.rate_per_s.total_cmp(&other.rate_per_s))?;
    let worst = failing.max_by(|one, other| one.error_share().total_cmp(&other.error_share()))?;
    Some([lowest, worst])
}

/// The lowest rate at which too many answers were errors although they kept up, and the worst.
fn errors(made: &Made) -> String {
    let Some([lowest, worst]) = failing(made) else { return String::new() };
    let worse = match worst.rate_per_s == lowest.rate_per_s {
        true => String::new(),
        false => format!(", and at {} {}", at(worst.rate_per_s), share(worst.error_share())),
    };
    format!(
        " Of the requests at {}, {} had no good answer{worse}, although answers kept up.",
        at(lowest.rate_per_s),
        // Of several runs at one rate, the worst is shown.
        share(if worse.is_empty() { worst } else { lowest }.error_share())
    )
}

/// The reason why steps at these rates are undecided, and its cure.
fn why(made: &Made, undecided: &[f64]) -> String {
    let steps = || made.steps.iter().filter(|step| undecided.contains(&step.rate_per_s));
    let medians = steps().filter_map(|step| step.corrected.percentiles.at(0.5).value);
    let Some(longest_us) = medians.max_by(f64::total_cmp) else {
        return "all requests failed".to_owned();
    };
    // Requests that time out take that long, whatever the window.
    let timeout = made.plan.as_ref().map(|plan| plan.timeout);
    if let Some(timeout) = timeout.filter(|timeout| timeout.0 as f64 / 1e3 <= 1.001 * longest_us) {
        return format!(
            "most requests had no answer within --timeout {timeout}, so a longer window decides \
             nothing; raise --timeout if responses take longer"
        );
    }
    let longest_s = longest_us / 1e6;
    if steps().any(|step| step.duration_s < 2.0 * longest_s) {
        // Twice the longest is the limit.
        let seconds = (3.0 * longest_s).ceil();
        return format!(
            "responses took longer than half of the window; use --duration {seconds}s or more"
        );
    }
    format!("the backlog may have grown by chance{}", takes_windows(steps()))
}

/// The answered rate beyond the knee, and the bottleneck there.
fn beyond(document: &SweepDocument) -> String {
    let Knee { answered_beyond_per_s: answered_beyond, bound, .. } = &document.knee;
    let mut message = String::new();
    if let Some(answered) = answered_beyond {
        let _ = write!(message, " Beyond it, at most {} were answered.", at(*answered));
    }
    message.push_str(&match bound {
        Some(Side::Target) => String::new(),
        Some(Side::Generator) => {
            " The generator was the bottleneck, so the target may do more.".to_owned()
        }
        Some(Side::Connections) => format!(
            " The connections were the bottleneck: all {}were busy, and responses took no longer \
             than at lower rates. Raise --conns to find the target's knee.",
            conns(&document.made)
        ),
        None => format!(
            " All {}connections were busy, and no step shows whether they or the target were the \
             bottleneck: raise --conns, or lower --rates.",
            conns(&document.made)
        ),
    });
    message
}

/// The connections that may be open: `1,000 `; empty if unknown.
fn conns(made: &Made) -> String {
    let conns = made.plan.as_ref().and_then(|plan| plan.conns);
    conns.map_or(String::new(), |conns| format!("{} ", count(conns as u64)))
}

/// The result of a search, and the files with it.
pub(crate) fn search_ends(document: &SearchDocument, written: &[String]) -> String {
    let SearchDocument { bracket, search, made, .. } = document;
    let (what, open) = ("The highest rate that holds", samples(made));
    let mut message = bracketed(what, bracket, &open, ending(document), made, search);
    if let Some(assumed) = assumed(document) {
        let _ = write!(message, " {assumed}");
    }
    let mut text = Text::new();
    text.blank();
    if !made.steps.is_empty() {
        text.wrapped(message);
    }
    text.add(doubts(made));
    text.add(legend(made));
    text.add(end(made, written));
    text.done()
}

/// The assumption behind the rate that passed, which no interval covers.
fn assumed(document: &SearchDocument) -> Option<String> {
    let passed = document.bracket.passed_per_s?;
    let steps = document.made.steps.iter().filter(|step| step.rate_per_s == passed);
    let longest = steps.max_by(|one, other| one.duration_s.total_cmp(&other.duration_s))?;
    let mut objectives = longest.slo.iter().flat_map(|slo| &slo.objectives);
    let assumed = objectives.find_map(|one| assumption(one, longest.duration_s))?;
    Some(format!("{} holds if {assumed}.", at(passed)))
}

/// A bracket in words: `what` lies in it; the rates that remained undecided, and why they are
/// `open`; what `ended` it, if known; and why it is wider than the tolerance.
pub(super) fn bracketed(
    what: &str,
    found: &Bracket,
    open: &str,
    ended: Option<String>,
    made: &Made,
    plan: &SearchPlan,
) -> String {
    let ends = found.passed_per_s.zip(found.failed_per_s);
    let mut message = match (found.passed_per_s, found.failed_per_s) {
        (Some(passed), Some(failed)) => format!(
            "{what} lies between {}, which passed, and {}, which failed: {:.1} % apart.",
            at(passed),
            at(failed),
            (failed / passed - 1.0) * 100.0
        ),
        (Some(passed), None) => format!("{} passed, and no rate failed.", at(passed)),
        (None, Some(failed)) => format!("No rate passed; {} failed.", at(failed)),
        (None, None) => "No rate passed, and none failed.".to_owned(),
    };
    if !found.undecided_per_s.is_empty() {
        let rates: Vec<String> = found.undecided_per_s.iter().copied().map(at).collect();
        let between = if ends.is_some() { " In between," } else { "" };
        let _ = write!(message, "{between} {} remained undecided{open}.", rates.join(", "));
    }
    if let Some(ended) = ended {
        let _ = write!(message, " {ended}");
    }
    if !found.complete && !made.interrupted {
        message.push_str(&stopped(found.stopped_by, ends, plan));
    }
    message
}

/// The reason why a search ended with a bracket wider than its tolerance, and the width.
fn stopped(limit: Option<Limit>, ends: Option<(f64, f64)>, plan: &SearchPlan) -> String {
    let by = match limit {
        Some(Limit::Steps) => format!("The search stopped at --max-steps {}", plan.steps_max),
        Some(Limit::Time) => format!("The search stopped at --within {}", plan.time.within),
        None => "The search has tried what it can".to_owned(),
    };
    match ends {
        Some((passed, failed)) if 1.0 + plan.tolerance < failed / passed => format!(
            " {by}, incomplete: the answer is known to within {:.1} %, and --tolerance is {} %.",
            (failed / passed - 1.0) * 100.0,
            plan.tolerance * 100.0
        ),
        _ => format!(" {by}, incomplete."),
    }
}

/// The window that steps with an undecided backlog need, after a colon; empty if unknown.
pub(super) fn takes_windows<'a>(undecided: impl Iterator<Item = &'a Step>) -> String {
    let needed = undecided.filter_map(|step| step.backlog.window_needed_s(step.duration_s));
    // The longest is the safe choice.
    needed.max_by(f64::total_cmp).map_or(String::new(), |needed| {
        let (seconds, unit) = if needed < 600.0 { (needed, "s") } else { (needed / 60.0, "m") };
        format!(": deciding takes a --duration of up to {:.0}{unit}", seconds.ceil())
    })
}

/// The window that an undecided objective needs, after a colon; empty if none is known.
fn samples(made: &Made) -> String {
    let undecided = made.steps.iter().rev().find(|step| step.outcome == Some(Outcome::Undecided));
    let objectives = undecided.into_iter().flat_map(|step| {
        let all = step.slo.iter().flat_map(|slo| &slo.objectives);
        all.map(move |objective| (step, objective))
    });
    let lacking = objectives
        .filter(|(_, objective)| objective.judgement == Judgement::Undecided)
        .filter_map(|(step, objective)| {
            let by_requests = objective.needed.map(|needed| needed as f64 / step.rate_per_s);
            Some((step, objective, by_requests.or(objective.needed_s)?.ceil()))
        })
        .max_by(|(_, _, one_s), (_, _, other_s)| one_s.total_cmp(other_s));
    lacking.map_or(String::new(), |(step, objective, needed_s)| {
        let (metric, rate) = (&objective.metric, at(step.rate_per_s));
        let duration = format!("a --duration of {needed_s:.0}s");
        match objective.needed.map(count) {
            Some(needed) => {
                format!(": to judge {metric} takes {needed} requests, at {rate} {duration}")
            }
            None => format!(": to judge {metric} at {rate} takes {duration}"),
        }
    })
}

/// The side that ended a search, and the objective that failed.
fn ending(document: &SearchDocument) -> Option<String> {
    let failed = document.bracket.failed_per_s?;
    let made = &document.made;
    let side = match document.ended_by {
        Some(Side::Target) => "The target ended it".to_owned(),
        Some(Side::Generator) => "The generator ended it, so the target may hold more".to_owned(),
        Some(Side::Connections) => format!(
            "The connections ended it (all {}were busy, and responses took no longer than at lower \
             rates; raise --conns)",
            conns(made)
        ),
        None => format!(
            "All {}connections were busy, and no step shows whether they or the target ended it \
             (raise --conns)",
            conns(made)
        ),
    };
    // Excused steps are quoted only if every failure at that rate is excused.
    let failing = || {
        let that = |outcome| {
            move |step: &&Step| step.rate_per_s == failed && step.outcome == Some(outcome)
        };
        let any = made.steps.iter().any(|step| that(Outcome::Failed)(&step));
        let wanted = if any { Outcome::Failed } else { Outcome::Excused };
        made.steps.iter().filter(that(wanted))
    };
    let slo = failing()
        .rev()
        .find_map(|step| step.slo.as_ref().filter(|slo| slo.judgement == Judgement::Missed));
    let silent = failing().rev().find_map(|step| step.silent_from_s);
    let mut message = match slo {
        _ if let Some(words) = silence(silent) => format!("{side}: {words} at {}.", at(failed)),
        Some(slo) => {
            let missed = slo.objectives.iter().filter(|one| one.judgement == slo.judgement);
            let figures: Vec<String> = missed.map(figure).collect();
            format!("{side}: {} at {}.", figures.join(", "), at(failed))
        }
        None => format!("{side}: the verdict there is invalid."),
    };
    if failing().all(|step| step.outcome == Some(Outcome::Excused)) {
        let mut excuses: Vec<String> = Vec::new();
        for code in failing().filter_map(excuse) {
            let named = || format!("its verdict has {code}");
            let words = code.rule().more.excuse.map_or_else(named, str::to_owned);
            if !excuses.contains(&words) {
                excuses.push(words);
            }
        }
        let _ = write!(message, " Each run there is excused: {}.", excuses.join(", or "));
    }
    let met = made
        .steps
        .iter()
        .filter(|step| failed < step.rate_per_s)
        .filter(|step| step.slo.as_ref().is_some_and(|slo| slo.judgement == Judgement::Met));
    if let Some(step) = met.max_by(|one, other| one.rate_per_s.total_cmp(&other.rate_per_s)) {
        let _ = write!(message, " Yet a run at {} met the objectives.", at(step.rate_per_s));
    }
    Some(message)
}

/// The reason why a series ended early, if it did, and the files with its results.
pub(super) fn end(made: &Made, written: &[String]) -> String {
    let mut text = Text::new();
    if none_is_valid(&made.steps) {
        text.line("Each step that decided something is INVALID: don't trust this answer.");
    }
    match &made.error {
        Some(error) => text.wrapped(format!("Ended early: {error}")),
        None if made.interrupted => text.line("Interrupted: partial results."),
        None => {}
    }
    if !written.is_empty() {
        text.line(format!("written {}", written.join(", ")));
    }
    text.done()
}

#[cfg(test)]
mod tests {
    use engine::plan::Plan;
    use probe::Change;
    use probe::document::SCHEMA;
    use probe::search::SearchPlan;
    use probe::step::Reason;
    use probe::within::Within;

    use super::super::layout::WIDTH;
    use super::super::reports::{part, report};
    use super::*;

    /// A step at this rate with these latencies, µs.
    fn step(rate: f64, naive: u64, corrected: u64) -> Step {
        Step { rate_per_s: rate, ..Step::new(&report(true, part(naive, corrected, 1, 2))) }
    }

    fn made(steps: Vec<Step>) -> Made {
        Made {
            schema: SCHEMA,
            interrupted: false,
            error: None,
            plan: Some(Plan::default()),
            environment: None,
            cooldown: Nanos::from_secs(1),
            steps,
            unfinished: None,
        }
    }

    fn verdict_of(step: &mut Step, level: Level, codes: &[Code]) {
        step.verdict.level = level;
        step.verdict.codes = codes.iter().map(|code| Reason { code: *code, level }).collect();
    }

    fn missed(figure: f64) -> Slo {
        let objective = JudgedObjective {
            of: None,
            metric: "p99".to_owned(),
            unit: "us".to_owned(),
            bound: 20_000.0,
            figure: Some(figure),
            interval: [Some(24_000.0), None],
            needed: None,
            needed_s: None,
            may_lie_above: false,
            beyond: Some(0.02),
            beyond_interval: Some([0.015, 0.03]),
            judgement: Judgement::Missed,
        };
        Slo { judgement: Judgement::Missed, objectives: vec![objective] }
    }

    #[test]
    fn a_step_says_what_became_of_it_and_why() {
        let mut kept_up = step(999.5, 250, 1_020);
        (kept_up.requests, kept_up.errors) = (1_000, 123);
        kept_up.backlog.fell_behind = Some(false);
        verdict_of(&mut kept_up, Level::Valid, &[]);
        let mut behind = step(20_000.0, 1_234, 2_345_678);
        behind.backlog.fell_behind = Some(true);
        behind.slo = Some(missed(25_100.0));
        verdict_of(&mut behind, Level::Invalid, &[Code::RateMissed, Code::CapReached]);
        let mut short = step(10.0, 4_000_000, 4_000_000);
        short.backlog.fell_behind = None;
        verdict_of(&mut short, Level::Suspect, &[Code::TooFewSamples]);
        let mut excused = behind.clone();
        excused.backlog.fell_behind = Some(false);
        verdict_of(&mut excused, Level::Invalid, &[Code::CpuContended]);
        let all = |extent| {
            let of_sweep = [&kept_up, &behind, &short].map(|step| sweep_row(step, false, extent));
            let of_search =
                [&kept_up, &behind, &excused].map(|step| search_row(step, false, extent));
            let cut_short = sweep_row(&short, true, extent);
            assert_eq!(search_row(&short, true, extent), cut_short);
            let rows = head(extent) + &of_sweep.concat() + &of_search.concat() + &cut_short;
            assert!(rows.lines().all(|line| line.chars().count() <= WIDTH), "{rows}");
            rows
        };
        insta::assert_snapshot!(all(Extent::Screen), @r"
        rate/s  answered/s errors  p50, ms    p99, ms
         999.5       333.2   12 %     1.02       1.02   kept up; valid
        20,000       333.2    0 % 2,346      2,346      fell behind, MISSED; INVALID
            10       333.2    0 % 4,000      4,000      undecided; suspect
         999.5       333.2   12 %     1.02       1.02   undecided; valid
        20,000       333.2    0 % 2,346      2,346      failed: p99 25.1 ms; INVALID
        20,000       333.2    0 % 2,346      2,346      failed, but excused; INVALID
            10       333.2    0 % 4,000      4,000      interrupted, not counted
        ");
        let rows = all(Extent::Details);
        insta::assert_snapshot!(rows, @r"
          rate/s  answered/s  errors
                   p50                   p99                   p99.9
           999.5       333.2    12 %  kept up; valid
        corrected  1.02 (1.02–1.02) ms   1.02 (1.02–1.02) ms   1.02 (1.02–1.02) ms
        naive      250 (250–250) µs      250 (250–250) µs      250 (250–250) µs
          20,000       333.2     0 %  fell behind; MISSED p99 25.1 ms; INVALID:
                                      rate_missed, cap_reached
        corrected  2.35 (2.35–2.35) s    2.35 (2.35–2.35) s    2.35 (2.35–2.35) s
        naive      1.23 (1.23–1.23) ms   1.23 (1.23–1.23) ms   1.23 (1.23–1.23) ms
              10       333.2     0 %  undecided; suspect: too_few_samples
        corrected  4.00 (4.00–4.00) s    4.00 (4.00–4.00) s    4.00 (4.00–4.00) s
        naive      4.00 (4.00–4.00) s    4.00 (4.00–4.00) s    4.00 (4.00–4.00) s
           999.5       333.2    12 %  undecided; valid
        corrected  1.02 (1.02–1.02) ms   1.02 (1.02–1.02) ms   1.02 (1.02–1.02) ms
        naive      250 (250–250) µs      250 (250–250) µs      250 (250–250) µs
          20,000       333.2     0 %  failed; MISSED p99 25.1 ms; INVALID:
                                      rate_missed, cap_reached
        corrected  2.35 (2.35–2.35) s    2.35 (2.35–2.35) s    2.35 (2.35–2.35) s
        naive      1.23 (1.23–1.23) ms   1.23 (1.23–1.23) ms   1.23 (1.23–1.23) ms
          20,000       333.2     0 %  failed, but excused; MISSED p99 25.1 ms;
                                      INVALID: cpu_contended
        corrected  2.35 (2.35–2.35) s    2.35 (2.35–2.35) s    2.35 (2.35–2.35) s
        naive      1.23 (1.23–1.23) ms   1.23 (1.23–1.23) ms   1.23 (1.23–1.23) ms
              10       333.2     0 %  interrupted, not counted
        corrected  4.00 (4.00–4.00) s    4.00 (4.00–4.00) s    4.00 (4.00–4.00) s
        naive      4.00 (4.00–4.00) s    4.00 (4.00–4.00) s    4.00 (4.00–4.00) s
        ");
    }

    #[test]
    fn a_step_without_answers_says_so() {
        let mut ended = step(500.0, 250, 1_020);
        ended.silent_from_s = Some(1.375);
        verdict_of(&mut ended, Level::Valid, &[]);
        let mut none = ended.clone();
        (none.silent_from_s, none.slo) = (Some(0.0), Some(missed(1e6)));
        let message = |rows: String| rows.lines().next().expect("a line")[32..].to_owned();
        assert_eq!(
            message(sweep_row(&ended, false, Extent::Details)),
            "no answers from 1.38 s on; valid"
        );
        assert_eq!(
            message(sweep_row(&none, false, Extent::Details)),
            "no answers; MISSED p99 1.00 s; valid"
        );
        assert_eq!(
            message(search_row(&none, false, Extent::Details)),
            "failed; no answers; MISSED p99 1.00 s; valid"
        );
        // An undecided objective is shown once.
        none.silent_from_s = None;
        none.slo.as_mut().expect("objectives").judgement = Judgement::Undecided;
        none.slo.as_mut().expect("objectives").objectives[0].judgement = Judgement::Undecided;
        assert_eq!(
            message(search_row(&none, false, Extent::Details)),
            "undecided p99 1.00 s; valid"
        );
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
        let ask = Ask {
            rate,
            duration: Nanos::from_secs(30),
            seed: 1,
            change: Change::None,
            rest: Nanos(0),
        };
        let progress = SeriesProgress { step: 3, steps_max: 16, left: Nanos(119_400_000_000) };
        assert_eq!(label(&ask, progress), "step 3/16  1,427/s  at most 2m left  ");
    }

    const TIME: Within = Within { within: Nanos::from_secs(240), around: Nanos::from_secs(17) };

    fn sweep_document(knee: Knee, steps: Vec<Step>) -> SweepDocument {
        let sweep = SweepPlan {
            rates: Vec::new(),
            refine_max: 4,
            duration: Nanos::from_secs(5),
            seed: 1,
            time: TIME,
        };
        SweepDocument { knee, complete: true, sweep, made: made(steps) }
    }

    #[test]
    fn a_sweep_states_its_knee_and_what_it_is() {
        let knee = Knee {
            rate_per_s: Some(1_003.0),
            from_per_s: Some(980.0),
            to_per_s: Some(1_026.0),
            method: String::new(),
            contradicting_per_s: Vec::new(),
            undecided_per_s: Vec::new(),
            answered_beyond_per_s: Some(998.2),
            bound: Some(Side::Target),
        };
        let mut document = sweep_document(knee, vec![step(980.0, 1, 2)]);
        document.made.steps[0].errors = 0;
        let mut text = sweep_ends(&document, &["sweep.json".to_owned()]);
        for bound in [Some(Side::Generator), Some(Side::Connections), None] {
            document.knee.bound = bound;
            text += &sweep_ends(&document, &[]);
        }
        document.knee.to_per_s = Some(2_000.0);
        document.knee.bound = Some(Side::Target);
        document.knee.contradicting_per_s = vec![1_200.0, 1_500.0];
        text += &sweep_ends(&document, &[]);
        insta::assert_snapshot!(text, @r"

        Knee at 1,003/s: up to 980/s answers kept up with arrivals, from 1,026/s on the
        backlog grew by more than 1 % of them. Beyond it, at most 998.2/s were answered.
        written sweep.json

        Knee at 1,003/s: up to 980/s answers kept up with arrivals, from 1,026/s on the
        backlog grew by more than 1 % of them. Beyond it, at most 998.2/s were answered.
        The generator was the bottleneck, so the target may do more.

        Knee at 1,003/s: up to 980/s answers kept up with arrivals, from 1,026/s on the
        backlog grew by more than 1 % of them. Beyond it, at most 998.2/s were answered.
        The connections were the bottleneck: all were busy, and responses took no longer
        than at lower rates. Raise --conns to find the target's knee.

        Knee at 1,003/s: up to 980/s answers kept up with arrivals, from 1,026/s on the
        backlog grew by more than 1 % of them. Beyond it, at most 998.2/s were answered.
        All connections were busy, and no step shows whether they or the target were the
        bottleneck: raise --conns, or lower --rates.

        Knee between 980/s and 2,000/s, 104 % apart: up to 980/s answers kept up with
        arrivals, from 2,000/s on the backlog grew by more than 1 % of them. The steps
        contradict each other: some fell behind, others at the same or a higher rate
        kept up (1,200/s, 1,500/s), so these rates are undecided. Repeat the sweep, with
        a longer --duration. Beyond it, at most 998.2/s were answered.
        ");
    }

    #[test]
    fn a_sweep_without_a_knee_says_why() {
        let knee = Knee {
            rate_per_s: None,
            from_per_s: Some(980.0),
            to_per_s: None,
            method: String::new(),
            contradicting_per_s: Vec::new(),
            undecided_per_s: Vec::new(),
            answered_beyond_per_s: None,
            bound: None,
        };
        let mut document = sweep_document(knee, vec![step(980.0, 4_000_000, 4_000_000)]);
        document.made.steps[0].errors = 0;
        let mut text = sweep_ends(&document, &[]);
        document.knee.contradicting_per_s = vec![200.0, 400.0];
        text += &sweep_ends(&document, &[]);
        document.knee.contradicting_per_s.clear();
        document.made.steps[0].backlog.fell_behind = Some(false);
        (document.made.steps[0].requests, document.made.steps[0].errors) = (1_000, 400);
        text += &sweep_ends(&document, &[]);
        document.made.steps[0].errors = 0;
        document.knee.from_per_s = None;
        document.knee.undecided_per_s = vec![980.0];
        document.made.steps[0].duration_s = 5.0;
        text += &sweep_ends(&document, &[]);
        // At least half of the requests timed out.
        document.made.plan = Some(Plan { timeout: Nanos::from_secs(4), ..Plan::default() });
        text += &sweep_ends(&document, &[]);
        document.made.plan = Some(Plan::default());
        document.knee.undecided_per_s.clear();
        let worse = Step { rate_per_s: 1_960.0, errors: 740, ..document.made.steps[0].clone() };
        document.made.steps[0].errors = 490;
        document.made.steps.push(worse);
        text += &sweep_ends(&document, &[]);
        document.made.steps.truncate(1);
        document.made.steps[0].errors = 0;
        (document.knee.to_per_s, document.knee.bound) = (Some(980.0), Some(Side::Target));
        document.made.interrupted = true;
        text += &sweep_ends(&document, &[]);
        document.made.error = Some("127.0.0.1:80 accepts no connection".to_owned());
        text += &sweep_ends(&document, &[]);
        insta::assert_snapshot!(text, @r"

        No knee found: answers kept up with arrivals up to 980/s. Raise --rates.

        No knee found. The steps contradict each other: some fell behind, others at the
        same or a higher rate kept up (200/s, 400/s), so these rates are undecided.
        Repeat the sweep, with a longer --duration.

        No knee found: answers kept up with arrivals up to 980/s. Of the requests at
        980/s, 40 % had no good answer, although answers kept up.

        No knee found. 980/s remained undecided: responses took longer than half of the
        window; use --duration 12s or more.

        No knee found. 980/s remained undecided: most requests had no answer within
        --timeout 4s, so a longer window decides nothing; raise --timeout if responses
        take longer.

        No knee found. Of the requests at 980/s, 49 % had no good answer, and at 1,960/s
        74 %, although answers kept up.

        No knee found: answers already fell behind at 980/s.
        Interrupted: partial results.

        No knee found: answers already fell behind at 980/s.
        Ended early: 127.0.0.1:80 accepts no connection
        ");
    }

    #[test]
    fn a_sweep_of_a_target_that_stops_says_so() {
        let knee = Knee {
            rate_per_s: None,
            from_per_s: Some(100.0),
            to_per_s: Some(200.0),
            method: String::new(),
            contradicting_per_s: Vec::new(),
            undecided_per_s: vec![150.0],
            answered_beyond_per_s: Some(50.0),
            bound: Some(Side::Target),
        };
        let silent = |rate, from_s| Step { silent_from_s: Some(from_s), ..step(rate, 1, 2) };
        let steps = vec![step(100.0, 1, 2), silent(150.0, 0.0), silent(200.0, 1.5)];
        let mut document = sweep_document(knee, steps);
        let mut text = sweep_ends(&document, &[]);
        document.made.steps.remove(0);
        (document.knee.from_per_s, document.knee.answered_beyond_per_s) = (None, None);
        text += &sweep_ends(&document, &[]);
        document.made.steps.truncate(1);
        text += &sweep_ends(&document, &[]);
        insta::assert_snapshot!(text, @r"

        Knee between 100/s and 200/s, 100 % apart: up to 100/s answers kept up with
        arrivals, from 200/s on they stopped. Beyond it, at most 50/s were answered. The
        target stopped answering at 200/s. It sent no answers at 150/s.

        No knee found: answers already fell behind at 200/s. The target stopped
        answering at 200/s. It sent no answers at 150/s.

        No knee found: the target sent no answers at any rate. Check that it serves this
        URL, and raise --timeout if its responses take longer.
        ");
    }

    #[test]
    fn a_search_says_what_its_answer_assumes() {
        let ends = |judgement: Judgement, outcome: Outcome| {
            let mut passing = step(880.0, 1_000, 2_000);
            (passing.duration_s, passing.outcome) = (9.0, Some(outcome));
            let mut objectives = missed(2_000.0).objectives;
            objectives[0].judgement = judgement;
            passing.slo = Some(Slo { judgement, objectives });
            let document = SearchDocument {
                bracket: Bracket {
                    passed_per_s: (outcome == Outcome::Passed).then_some(880.0),
                    failed_per_s: None,
                    undecided_per_s: Vec::new(),
                    complete: true,
                    stopped_by: None,
                    resolution: None,
                },
                ended_by: None,
                slo: "p99<20ms".to_owned(),
                search: SearchPlan {
                    first: "200".parse().expect("a rate"),
                    rate_max: "1k".parse().expect("a rate"),
                    tolerance: 0.05,
                    repeats: 1,
                    steps_max: 40,
                    duration: Nanos::from_secs(9),
                    seed: 1,
                    time: TIME,
                },
                made: made(vec![passing]),
            };
            search_ends(&document, &[]).replace('\n', " ")
        };
        let passed = ends(Judgement::Met, Outcome::Passed);
        assert!(passed.contains("880/s holds if the window of 9.00 s is typical"), "{passed}");
        assert!(passed.contains("less often than every 3.00 s"), "{passed}");
        let undecided = ends(Judgement::Undecided, Outcome::Undecided);
        assert!(!undecided.contains("typical"), "{undecided}");
    }

    #[test]
    fn a_search_states_its_bracket_and_what_ended_it() {
        let mut failing = step(916.0, 1_000, 25_100);
        failing.slo = Some(missed(25_100.0));
        failing.outcome = Some(Outcome::Failed);
        let bracket = Bracket {
            passed_per_s: Some(880.0),
            failed_per_s: Some(916.0),
            undecided_per_s: vec![898.0],
            complete: true,
            stopped_by: None,
            resolution: Some(0.041),
        };
        let rate = |text: &str| text.parse().expect("a rate");
        let search = SearchPlan {
            first: rate("200"),
            rate_max: rate("1k"),
            tolerance: 0.05,
            repeats: 1,
            steps_max: 40,
            duration: Nanos::from_secs(5),
            seed: 1,
            time: TIME,
        };
        let slo = "p99<20ms".to_owned();
        let mut document = SearchDocument {
            bracket,
            ended_by: Some(Side::Target),
            slo,
            search,
            made: made(vec![failing]),
        };
        let mut text =
            search_begins("p99<20ms,errors<1%", Some("errors<1%"), rate("200"), Extent::Screen);
        text += &search_ends(&document, &["search.json".to_owned()]);
        document.bracket.undecided_per_s.clear();
        document.ended_by = Some(Side::Connections);
        document.made.steps[0].outcome = Some(Outcome::Excused);
        let contended = [Code::CpuContended, Code::RateMissed];
        verdict_of(&mut document.made.steps[0], Level::Invalid, &contended);
        let mut late = document.made.steps[0].clone();
        verdict_of(&mut late, Level::Invalid, &[Code::GeneratorLate]);
        document.made.steps.push(late);
        let mut met = step(1_200.0, 1_000, 2_000);
        met.slo = Some(Slo { judgement: Judgement::Met, objectives: Vec::new() });
        document.made.steps.push(met);
        text += &search_ends(&document, &[]);
        document.made.steps.truncate(1);
        document.ended_by = Some(Side::Generator);
        document.made.steps[0].slo = None;
        document.bracket.complete = false;
        document.bracket.stopped_by = Some(Limit::Steps);
        document.search.tolerance = 0.02;
        text += &search_ends(&document, &[]);
        document.bracket.failed_per_s = None;
        document.ended_by = None;
        text += &search_ends(&document, &[]);
        document.bracket.passed_per_s = None;
        document.bracket.undecided_per_s = vec![20.0, 40.0];
        let mut lacking = missed(1.0).objectives;
        (lacking[0].judgement, lacking[0].needed) = (Judgement::Undecided, Some(3_842));
        let few = &mut document.made.steps[0];
        few.slo = Some(Slo { judgement: Judgement::Undecided, objectives: lacking });
        (few.rate_per_s, few.outcome) = (40.0, Some(Outcome::Undecided));
        text += &search_ends(&document, &[]);
        let slo = document.made.steps[0].slo.as_mut().expect("objectives");
        (slo.objectives[0].needed, slo.objectives[0].needed_s) = (None, Some(5.0));
        text += &search_ends(&document, &[]);
        insta::assert_snapshot!(text, @r"
        Searching for the highest rate that meets p99<20ms,errors<1%, from 200/s up;
        errors<1% is implied, since a failed request has no latency

          rate/s  answered/s errors  p50, ms    p99, ms

        The highest rate that holds lies between 880/s, which passed, and 916/s, which
        failed: 4.1 % apart. In between, 898/s remained undecided. The target ended it:
        p99 25.1 ms at 916/s.
        written search.json

        The highest rate that holds lies between 880/s, which passed, and 916/s, which
        failed: 4.1 % apart. The connections ended it (all were busy, and responses took
        no longer than at lower rates; raise --conns): p99 25.1 ms at 916/s. Each run
        there is excused: other processes used the generator's cores, or the generator
        was late. Yet a run at 1,200/s met the objectives.
        INVALID: 2 of 3 steps (cpu_contended 1, rate_missed 1, generator_late 1).
        Against cpu_contended: keep other processes, including a local target, off the
          generator's cores (--cores).
        Excused: the generator's own delay, or others on its cores, explain the miss.

        The highest rate that holds lies between 880/s, which passed, and 916/s, which
        failed: 4.1 % apart. The generator ended it, so the target may hold more: the
        verdict there is invalid. Each run there is excused: other processes used the
        generator's cores. The search stopped at --max-steps 40, incomplete: the answer
        is known to within 4.1 %, and --tolerance is 2 %.
        INVALID: 1 of 1 step (cpu_contended 1, rate_missed 1).
        Against cpu_contended: keep other processes, including a local target, off the
          generator's cores (--cores).
        Each step that decided something is INVALID: don't trust this answer.

        880/s passed, and no rate failed. The search stopped at --max-steps 40,
        incomplete.
        INVALID: 1 of 1 step (cpu_contended 1, rate_missed 1).
        Against cpu_contended: keep other processes, including a local target, off the
          generator's cores (--cores).
        Each step that decided something is INVALID: don't trust this answer.

        No rate passed, and none failed. 20/s, 40/s remained undecided: to judge p99
        takes 3,842 requests, at 40/s a --duration of 97s. The search stopped at
        --max-steps 40, incomplete.
        INVALID: 1 of 1 step (cpu_contended 1, rate_missed 1).
        Against cpu_contended: keep other processes, including a local target, off the
          generator's cores (--cores).

        No rate passed, and none failed. 20/s, 40/s remained undecided: to judge p99 at
        40/s takes a --duration of 5s. The search stopped at --max-steps 40, incomplete.
        INVALID: 1 of 1 step (cpu_contended 1, rate_missed 1).
        Against cpu_contended: keep other processes, including a local target, off the
          generator's cores (--cores).
        ");
    }
}
