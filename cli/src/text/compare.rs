//! The comparison of two sides: the changes in a sentence, and the figures behind it.

use std::path::PathBuf;

use engine::plan::Plan;
use engine::report::Report;
use engine::report::environment::Environment;
use engine::report::verdict::Level;
use engine::stats::pieces::RUNS_MIN;
use probe::compare::{Change, Comparison, ErrorsChange, PercentileChange, Side};
use probe::parts::{PartChange, PartName};

use super::extent::Extent;
use super::figures::{count, things};
use super::layout::Column::{Left, Right};
use super::layout::{Text, sections, widest, wrap};
use super::parts::{NAME_MAX, mixed, name_in};
use super::scale::{Scale, at_the_point};

/// The whole text; `files` are the reports of either side, `plans` those of their runs.
pub(crate) fn comparison<'a>(
    of: &Comparison,
    files: [&[PathBuf]; 2],
    plans: impl IntoIterator<Item = &'a Plan>,
    extent: Extent,
) -> String {
    let mut about = Text::new();
    about.add(subjects(of, "run"));
    about.add(doubted(of, files));
    if !of.plans_differ.is_empty() {
        about.item(0, format!("The plans differ: {}.", of.plans_differ.join("; ")));
    }
    let plans: Vec<&Plan> = plans.into_iter().collect();
    let find = |note: fn(&Plan) -> Option<&'static str>| plans.iter().copied().find_map(note);
    let of_plans = [find(only_steps), find(mixed)].into_iter().flatten().map(wrap);
    let explanation = explanation(of, "runs", extent);
    let notes = of_plans.collect::<String>() + &wrap(&explanation) + &wrap(&noise(of, extent));
    sections([wrap(&headline(of)), about.done(), table(of, extent), parts(of, extent), notes])
}

/// What differs between the machines of the two sides, which may be why their latencies do.
pub(crate) fn machines_differ(sides: [&[Report]; 2]) -> Option<String> {
    let differing = |what: &str, fact: fn(&Environment) -> &String| {
        let [a, b] = sides.map(|runs| {
            let mut values: Vec<&str> =
                runs.iter().map(|run| fact(&run.environment).as_str()).collect();
            values.sort_unstable();
            values.dedup();
            values.join(" or ")
        });
        (a != b).then(|| format!("{what} is {a} and {b}"))
    };
    let all = [
        differing("host", |of| &of.host),
        differing("kernel", |of| &of.kernel),
        differing("truetail", |of| &of.tool_version),
    ];
    let differing: Vec<String> = all.into_iter().flatten().collect();
    (!differing.is_empty()).then(|| format!("The machines differ: {}.", differing.join("; ")))
}

/// What isn't compared of runs of this plan, if it has sessions: their latency isn't kept by pieces
/// of the window, from which intervals come.
pub(super) fn only_steps(plan: &Plan) -> Option<&'static str> {
    plan.has_sessions().then_some("Sessions aren't compared as a whole, only step by step.")
}

/// The result, with the limits of one run per side.
fn headline(of: &Comparison) -> String {
    let found = sentence(of);
    let unknown = "With one run per side, the normal difference between runs is unknown";
    match of.change {
        _ if !of.has_one_run_on_a_side() => found,
        Change::Worse | Change::Better => format!("{found} {unknown}, and may explain it all."),
        _ => format!("{found} {unknown}."),
    }
}

/// The reports whose verdict isn't valid, each with its reasons.
fn doubted(of: &Comparison, files: [&[PathBuf]; 2]) -> String {
    let sides = [&of.a, &of.b].into_iter().zip(files);
    let mut text = Text::new();
    for (level, word) in [(Level::Invalid, "Invalid"), (Level::Suspect, "Suspect")] {
        let named = sides.clone().flat_map(|(side, files)| {
            let doubted = side.doubted.iter().filter(|one| one.verdict.level == level);
            doubted.map(|one| {
                let names = one.verdict.names_at(level).join(", ");
                format!("{} ({names})", files[one.run - 1].display())
            })
        });
        let named: Vec<String> = named.collect();
        if !named.is_empty() {
            text.item(0, format!("{word}: {}.", named.join(", ")));
        }
    }
    text.done()
}

/// The two sides; `run` is the word for one of their runs.
pub(super) fn subjects(of: &Comparison, run: &str) -> String {
    let mut text = Text::new();
    for (name, side) in [("A", &of.a), ("B", &of.b)] {
        let runs = things(side.runs as u64, run);
        let requests = count(side.requests);
        text.field(3, name, format!("{}, {runs}, {requests} requests", side.targets.join(", ")));
    }
    text.add(own_errors(of));
    for (name, side) in [("A", &of.a), ("B", &of.b)] {
        if !side.unmatched.is_empty() {
            let names = listed(side.unmatched.iter());
            text.item(0, format!("Not compared, since only {name} has it: {names}."));
        }
    }
    text.done()
}

/// The most parts in a sentence, and the most of them in lines of their own.
const LISTED_MAX: usize = 3;
const ROWS_MAX: usize = 12;
const DETAILED_MAX: usize = 40;

/// The first parts of some, by name.
fn listed<'a>(parts: impl Iterator<Item = &'a PartName>) -> String {
    let mut names: Vec<String> = parts.map(labelled).collect();
    let others = names.len().saturating_sub(LISTED_MAX);
    names.truncate(LISTED_MAX);
    let last = match others {
        0 => names.pop().unwrap_or_default(),
        others => format!("{others} others"),
    };
    match names.as_slice() {
        [] => last,
        names => format!("{} and {last}", names.join("; ")),
    }
}

/// The name of a part, which leaves room for its change.
fn labelled(part: &PartName) -> String {
    PartName { name: part.name.as_deref().map(|name| name_in(name, NAME_MAX)), ..part.clone() }
        .to_string()
}

/// What the parts of a comparison differ by; there is at least one.
fn kind(of: &Comparison) -> &'static str {
    let PartName { name, stage } = &of.parts[0].part;
    match (name, stage) {
        (Some(_), None) => "route",
        (None, _) => "stage",
        (Some(_), Some(_)) => "route and stage",
    }
}

/// So many of a comparison's parts.
fn some_of(of: &Comparison, number: usize) -> String {
    let all = match kind(of) {
        "route and stage" => "parts".to_owned(),
        kind => format!("{kind}s"),
    };
    format!("{number} of {} {all}", of.parts.len())
}

/// That no part does this.
fn none(of: &Comparison, does: &str) -> String {
    match kind(of) {
        "route and stage" => format!("no route {does} in any stage"),
        kind => format!("no {kind} {does}"),
    }
}

/// That no part can be judged, and what it takes.
fn none_judged(of: &Comparison) -> String {
    let takes = takes(of, of.parts.iter().flat_map(|part| &part.percentiles));
    format!("{}: their percentiles have no interval; it takes {takes}", none(of, "can be judged"))
}

/// What it takes for these percentiles of a comparison to have intervals.
fn takes<'a>(of: &Comparison, lack: impl Iterator<Item = &'a PercentileChange>) -> String {
    let needed = lack.filter_map(|one| Some((one.needed_s?, &one.percentile)));
    let mut needed: Vec<(f64, &String)> = needed.collect();
    needed.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let windows = match needed.as_slice() {
        _ if is_paired(of) => return "longer slices, or a higher rate".to_owned(),
        _ if RUNS_MIN <= of.a.runs.min(of.b.runs) => return "more runs per side".to_owned(),
        [] => "more requests".to_owned(),
        [(least, first), .., (most, last)] if least < most => {
            format!("windows of {} for {first} and {} for {last}", seconds(*least), seconds(*most))
        }
        [(least, _), ..] => format!("windows of {}", seconds(*least)),
    };
    format!("{windows}, or {RUNS_MIN} runs per side")
}

/// A line for each part that differs, and one for all others; with details, a line for each.
pub(super) fn parts(of: &Comparison, extent: Extent) -> String {
    if of.parts.is_empty() {
        return String::new();
    }
    let differs = |part: &&PartChange| matches!(part.change, Change::Worse | Change::Better);
    let none_is_judged = of.parts.iter().all(PartChange::tells_nothing);
    let (all, most) = match extent {
        // If nothing was judged, the figures themselves are all there is.
        Extent::Screen if none_is_judged => (of.parts.iter().collect(), ROWS_MAX),
        Extent::Screen => (of.parts.iter().filter(differs).collect(), ROWS_MAX),
        Extent::Details => (of.parts.iter().collect::<Vec<&PartChange>>(), DETAILED_MAX),
    };
    let shown = &all[..all.len().min(most)];
    let labels: Vec<String> = shown.iter().map(|part| labelled(&part.part)).collect();
    let width = 2 + widest(labels.iter().map(String::as_str));
    let mut text = Text::new();
    if !shown.is_empty() {
        text.line(format!("by {}", kind(of)));
    }
    for (label, part) in labels.iter().zip(shown) {
        text.field(width, label, of_part(part, extent));
    }
    let hidden = all.len() - shown.len();
    if 0 < hidden {
        text.line(format!("and {hidden} others: see `parts` of --out"));
    }
    if none_is_judged {
        text.wrapped(none_judged(of));
        return text.done();
    }
    let numbers = [SAME, UNDECIDED, NOT_JUDGED].map(|word| {
        let number = of.parts.iter().filter(|part| word_of(part) == word).count();
        (0 < number).then(|| format!("{number} {word}"))
    });
    let numbers = numbers.into_iter().flatten().collect::<Vec<String>>().join(", ");
    match of.parts.iter().any(|part| differs(&part)) {
        true if extent == Extent::Screen && !numbers.is_empty() => {
            text.line(format!("others: {numbers}"));
        }
        true => {}
        false => text.wrapped(format!("{}: {numbers}", none(of, "differs"))),
    }
    text.done()
}

const SAME: &str = "same";
const UNDECIDED: &str = "undecided";
const NOT_JUDGED: &str = "not judged";

/// The word for a part that doesn't differ.
fn word_of(part: &PartChange) -> &'static str {
    match part.change {
        _ if part.tells_nothing() => NOT_JUDGED,
        Change::Same => SAME,
        Change::Undecided | Change::Unknown => UNDECIDED,
        Change::Worse | Change::Better => "",
    }
}

/// The values of a part that has no interval: of p50 and p99, with details of all percentiles.
fn unjudged(part: &PartChange, extent: Extent) -> String {
    let is_shown = |one: &&PercentileChange| {
        extent == Extent::Details || ["p50", "p99"].contains(&one.percentile.as_str())
    };
    let values = part.percentiles.iter().filter(is_shown).filter_map(|one| {
        let (a, b) = (one.a?, one.b?);
        let scale = Scale::of([a, b]);
        let change = one.ratio.map_or(String::new(), |ratio| format!(" ({})", signed(ratio)));
        let [a, b] = [a, b].map(|us| scale.number(us));
        Some(format!("{} {a} to {b} {}{change}", one.percentile, scale.unit))
    });
    match values.collect::<Vec<String>>().join(", ") {
        none if none.is_empty() => format!("{NOT_JUDGED}: too few requests"),
        values => format!("{NOT_JUDGED}: {values}"),
    }
}

/// The change of a part in words; with details, the undecided figures too.
fn of_part(part: &PartChange, extent: Extent) -> String {
    let differences = differences(&part.percentiles, part.errors.as_ref()).into_iter();
    let differences = differences.map(|(_, what)| what).collect::<Vec<String>>().join(", ");
    let undecided = undecided(&part.percentiles, part.errors.as_ref()).join(", ");
    match part.change {
        _ if part.tells_nothing() => unjudged(part, extent),
        Change::Same | Change::Unknown => word(part.change, "", "").to_owned(),
        Change::Undecided => format!("undecided: {undecided}"),
        _ if extent == Extent::Screen || undecided.is_empty() => differences,
        Change::Worse | Change::Better => format!("{differences}; undecided: {undecided}"),
    }
}

/// What differs beyond the margin, each with its verb: slower figures first, then faster ones.
fn differences(
    percentiles: &[PercentileChange],
    errors: Option<&ErrorsChange>,
) -> Vec<(&'static str, String)> {
    let mut parts = Vec::new();
    for (change, word, fewer) in
        [(Change::Worse, "slower", "more errors"), (Change::Better, "faster", "fewer errors")]
    {
        let figures = percentiles.iter().filter(|one| one.change == change);
        let figures: Vec<String> = figures.map(with_ratio).collect();
        if !figures.is_empty() {
            parts.push(("is", format!("{word} at {}", figures.join(", "))));
        }
        if errors.is_some_and(|errors| errors.change == change) {
            parts.push(("has", fewer.to_owned()));
        }
    }
    parts
}

/// The names of the undecided figures.
fn undecided<'a>(
    percentiles: &'a [PercentileChange],
    errors: Option<&ErrorsChange>,
) -> Vec<&'a str> {
    let percentiles = percentiles.iter().filter(|one| one.change == Change::Undecided);
    let errors = errors.filter(|errors| errors.change == Change::Undecided).map(|_| "errors");
    percentiles.map(|one| one.percentile.as_str()).chain(errors).collect()
}

/// Requests that the generator itself failed to send, which aren't the target's errors.
fn own_errors(of: &Comparison) -> String {
    let of_side = |(name, side): (&str, &Side)| {
        let kinds = [
            (side.unsent, "never sent"),
            (side.failed_here, "failed for lack of ports, files or memory"),
        ];
        let some = kinds.into_iter().filter(|(number, _)| 0 < *number);
        let some: Vec<String> =
            some.map(|(number, what)| format!("{} {what}", count(number))).collect();
        (!some.is_empty()).then(|| format!("{name} {}", some.join(" and ")))
    };
    let sides: Vec<String> = [("A", &of.a), ("B", &of.b)].into_iter().filter_map(of_side).collect();
    let mut text = Text::new();
    if !sides.is_empty() {
        text.item(0, format!("Left out of the errors below: {}.", sides.join("; ")));
    }
    text.done()
}

/// The figures: percentiles of both sides in one unit, then errors.
pub(super) fn table(of: &Comparison, extent: Extent) -> String {
    let known = of.percentiles.iter().flat_map(|one| one.a.into_iter().chain(one.b));
    let scale = Scale::of(known);
    let mut sides = [|one: &PercentileChange| one.a, |one: &PercentileChange| one.b].map(|side| {
        let cell = |one| side(one).map_or("n/a".to_owned(), |us| scale.number(us));
        of.percentiles.iter().map(cell).collect::<Vec<String>>()
    });
    sides.iter_mut().for_each(|cells| at_the_point(cells));
    let [a, b] = sides;
    let width = |cells: &[String]| 3 + widest(cells.iter().map(String::as_str).chain(["0.00 %"]));
    let shows = match extent {
        Extent::Screen => 0,
        Extent::Details => 9,
    };
    let columns =
        [Left(11), Right(width(&a)), Right(width(&b)), Right(9), Left(2), Left(16), Right(shows)];
    let mut text = Text::new();
    let row = |text: &mut Text, mut cells: [String; 8]| {
        if extent == Extent::Screen {
            cells[6].clear();
        }
        text.row(&columns, &cells);
    };
    let head = [scale.unit, "A", "B", "B/A", "", "interval", "shows", ""].map(str::to_owned);
    row(&mut text, head);
    for ((one, a), b) in of.percentiles.iter().zip(a).zip(b) {
        if extent == Extent::Screen && one.a.is_none() && one.b.is_none() {
            continue;
        }
        row(&mut text, percentile(one, [a, b]));
    }
    if let Some(errors) = &of.errors {
        row(&mut text, row_of_errors(errors));
    }
    text.done()
}

/// The result.
pub(super) fn sentence(of: &Comparison) -> String {
    let mut parts = differences(&of.percentiles, of.errors.as_ref());
    for (change, word) in [(Change::Worse, "worse"), (Change::Better, "better")] {
        let changed = of.parts.iter().filter(|part| part.change == change);
        let names = listed(changed.map(|part| &part.part));
        if !names.is_empty() {
            parts.push(("is", format!("{word} for {names}")));
        }
    }
    // A verb that is the same as the one before isn't repeated.
    let mut found = String::new();
    for (at, (verb, what)) in parts.iter().enumerate() {
        let and = if at == 0 { "B" } else { ", and" };
        let is_new = at == 0 || parts[at - 1].0 != *verb;
        let verb = if is_new { format!(" {verb}") } else { String::new() };
        found.push_str(&format!("{and}{verb} {what}"));
    }
    // A large difference that chance may explain is still one to look into.
    let is_large = |one: &PercentileChange| {
        one.ratio.is_some_and(|ratio| 1.0 + of.margin < ratio.max(1.0 / ratio))
    };
    let shown = |one: &PercentileChange| match is_large(one) {
        true => with_ratio(one),
        false => one.percentile.clone(),
    };
    let with = |change| of.percentiles.iter().filter(move |one| one.change == change);
    let errors = of.errors.as_ref().filter(|errors| errors.change == Change::Undecided);
    let mut undecided: Vec<String> =
        with(Change::Undecided).map(shown).chain(errors.map(|_| "errors".to_owned())).collect();
    let unknown: Vec<String> =
        with(Change::Unknown).filter(|one| is_large(one)).map(shown).collect();
    let parts_with = |word: &str| of.parts.iter().filter(|part| word_of(part) == word).count();
    let (parts_undecided, not_judged) = (parts_with(UNDECIDED), parts_with(NOT_JUDGED));
    if 0 < parts_undecided {
        undecided.push(some_of(of, parts_undecided));
    }
    let mut undecided = match undecided.as_slice() {
        [] => String::new(),
        names => format!(" Undecided: {}.", names.join(", ")),
    };
    if !unknown.is_empty() && !of.tells_nothing() {
        undecided.push_str(&format!(" Without an interval: {}.", unknown.join(", ")));
    }
    if 0 < not_judged {
        undecided.push_str(&format!(" Not judged: {}.", some_of(of, not_judged)));
    }
    if of.tells_nothing() && matches!(of.change, Change::Worse | Change::Better) {
        undecided.push_str(" Latencies weren't judged: no percentile has an interval.");
    }
    match of.change {
        Change::Worse => format!("REGRESSION: {found}.{undecided}"),
        Change::Better => format!("improvement: {found}.{undecided}"),
        Change::Same => {
            let margin = share(of.margin);
            format!("no change: B is within {margin} of A at all percentiles known.{undecided}")
        }
        _ if of.tells_nothing() => format!("undecided: {}.", lacking(of)),
        Change::Undecided | Change::Unknown => format!("no change found.{undecided}"),
    }
}

/// The requirements for comparing sides that have no interval.
fn lacking(of: &Comparison) -> String {
    let takes = takes(of, of.percentiles.iter());
    format!("no percentile has an interval, so any difference is possible; it takes {takes}")
}

/// Why a gate can't pass a comparison that tells nothing about latencies.
pub(crate) fn gate_lacks(of: &Comparison) -> String {
    format!("--fail-on regression: {}", lacking(of))
}

fn seconds(at_least: f64) -> String {
    format!("{:.0} s", at_least.ceil())
}

/// A percentile and its change.
fn with_ratio(one: &PercentileChange) -> String {
    let change = one.ratio.map_or(String::new(), |ratio| format!(" ({})", signed(ratio)));
    format!("{}{change}", one.percentile)
}

/// The cells of a percentile, with those of either side given.
fn percentile(one: &PercentileChange, [a, b]: [String; 2]) -> [String; 8] {
    // An interval from a few pairs is nearly unbounded.
    let number = |ratio: Option<f64>| match ratio {
        None => "n/a".to_owned(),
        Some(ratio) if RATIO_MAX < ratio => format!(">{RATIO_MAX}"),
        Some(ratio) => format!("{ratio:.3}"),
    };
    let interval = match one.interval {
        [None, None] => String::new(),
        ends => {
            let [low, high] = ends.map(number);
            format!("[{low}, {high}]")
        }
    };
    let shows = one.shows.map_or("n/a".to_owned(), signed);
    let called = match (one.change, one.needed_s) {
        (Change::Unknown, Some(needed_s)) => format!("needs {}", seconds(needed_s)),
        (change, _) => word(change, "slower", "faster").to_owned(),
    };
    [
        one.percentile.clone(),
        a,
        b,
        number(one.ratio),
        String::new(),
        interval,
        shows,
        format!("  {called}"),
    ]
}

fn row_of_errors(errors: &ErrorsChange) -> [String; 8] {
    let percent = |share: f64| format!("{:.2} %", share * 100.0);
    let points = |share: f64| format!("{:+.2}", share * 100.0);
    let [low, high] = errors.interval.map(points);
    [
        "errors".to_owned(),
        percent(errors.a),
        percent(errors.b),
        points(errors.difference),
        String::new(),
        format!("[{low}, {high}]"),
        String::new(),
        format!("  {}", word(errors.change, "more", "fewer")),
    ]
}

fn word(change: Change, worse: &'static str, better: &'static str) -> &'static str {
    match change {
        Change::Worse => worse,
        Change::Better => better,
        Change::Same => "same",
        Change::Undecided => "undecided",
        Change::Unknown => "n/a",
    }
}

/// The meaning of the columns; `runs` is the word for a side's runs.
pub(super) fn explanation(of: &Comparison, runs: &str, extent: Extent) -> String {
    let shows = extent.details(|| {
        format!(
            " Shows: the smallest slowdown that {runs} such as these reveal in four comparisons of \
             five."
        )
    });
    let hold = format!(
        "All intervals together hold {} times in 100, if {}.{shows} ",
        (of.confidence * 100.0).round(),
        assumed(of)
    );
    let hold = if of.tells_nothing() { String::new() } else { hold };
    format!("{hold}Changes below {} don't count (--margin).", share(of.margin))
}

/// What the intervals assume. Of a cause that comes less often in a window,
/// `calibration/coverage.md` shows how often they are wrong.
fn assumed(of: &Comparison) -> &'static str {
    match () {
        () if is_paired(of) => "pairs don't depend on each other",
        () if RUNS_MIN <= of.a.runs.min(of.b.runs) => "runs don't depend on each other",
        () => "each cause of slow requests occurs ten times or more in each window",
    }
}

/// True of a comparison by pairs of slices.
fn is_paired(of: &Comparison) -> bool {
    of.percentiles.iter().any(|one| one.pairs.is_some())
}

/// The known difference between runs of one target; the headline notes that one run per side can't
/// show it.
fn noise(of: &Comparison, extent: Extent) -> String {
    if of.tells_nothing() {
        return String::new();
    }
    let noise: Vec<String> = of
        .percentiles
        .iter()
        .filter_map(|one| Some(format!("{} {}", one.percentile, share(one.noise? - 1.0))))
        .collect();
    if noise.is_empty() && 1 < of.a.runs.max(of.b.runs) {
        return "No side has two runs with enough requests to show how much runs differ."
            .to_owned();
    }
    if noise.is_empty() && extent == Extent::Screen {
        return String::new();
    }
    if noise.is_empty() {
        return "No interval includes the normal difference between runs: give several per side, made \
                in turn (--with)."
            .to_owned();
    }
    let many = RUNS_MIN <= of.a.runs && RUNS_MIN <= of.b.runs;
    let used = if many { "the intervals include it" } else { "smaller changes don't count" };
    format!("Runs of one side differ by up to {}; {used}.", noise.join(", "))
}

/// The largest ratio that is shown as a number.
const RATIO_MAX: f64 = 100.0;

/// A change by a factor: `+3.1 %`.
fn signed(ratio: f64) -> String {
    match ratio {
        ratio if RATIO_MAX < ratio => format!(">{RATIO_MAX}×"),
        ratio => format!("{:+.1} %", (ratio - 1.0) * 100.0),
    }
}

fn share(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use engine::plan::scenario::{Scenario, Step};
    use engine::report::verdict::Code;
    use probe::compare::{CONFIDENCE, Doubted, MARGIN, SCHEMA};
    use probe::step::{Reason, Trust};

    use super::*;

    fn made_up() -> Comparison {
        let side = |target: &str| Side {
            targets: vec![target.to_owned()],
            runs: 1,
            requests: 60_000,
            ..Side::default()
        };
        let one = |percentile: &str, a, b, interval, shows, change| PercentileChange {
            percentile: percentile.to_owned(),
            unit: "us".to_owned(),
            a: Some(a),
            b: Some(b),
            ratio: Some(b / a),
            interval,
            shows,
            noise: None,
            needed_s: None,
            pairs: None,
            change,
        };
        Comparison {
            schema: SCHEMA,
            change: Change::Worse,
            confidence: CONFIDENCE,
            margin: MARGIN,
            a: side("http://127.0.0.1:8080/"),
            b: side("http://127.0.0.1:8081/"),
            plans_differ: Vec::new(),
            percentiles: vec![
                one("p50", 5_060.0, 5_062.0, [Some(0.999), Some(1.001)], Some(1.011), Change::Same),
                one("p99.9", 5_120.0, 5_610.0, [Some(1.08), Some(1.11)], Some(1.04), Change::Worse),
                one("p99.95", 5_300.0, 5_900.0, [Some(0.9), None], None, Change::Undecided),
                one("p99.99", 5_300.0, 5_900.0, [None, None], None, Change::Unknown),
            ],
            errors: Some(ErrorsChange {
                a: 0.0,
                b: 0.0,
                difference: 0.0,
                interval: [-0.000_1, 0.000_1],
                change: Change::Same,
            }),
            parts: Vec::new(),
        }
    }

    /// The text of a comparison of these files.
    fn text(of: &Comparison) -> String {
        let [a, b] = ["a", "b"].map(|name| {
            let files = (1..=3).map(|at| PathBuf::from(format!("{name}{at}.json")));
            files.collect::<Vec<PathBuf>>()
        });
        comparison(of, [&a, &b], [], Extent::Details)
    }

    #[test]
    fn runs_whose_rate_changes_come_with_the_word_that_percentiles_mix_rates() {
        let stage = ["100:1s", "100..500:1s"].map(|stage| stage.parse().expect("a stage"));
        let plan =
            Plan { target: "http://h/".to_owned(), stage: stage.to_vec(), ..Plan::default() };
        let staged = plan.complete(&[0]).expect("it runs");
        let with = |plans: &[&Plan]| {
            comparison(&made_up(), [&[], &[]], plans.iter().copied(), Extent::Screen)
        };
        let mixed = "\n\nPercentiles of a ramp mix its rates, and those of the whole run all of \
            them.\nAll intervals";
        assert!(with(&[&Plan::default(), &staged]).contains(mixed));
        assert!(!with(&[&Plan::default()]).contains(" mix "));
    }

    #[test]
    fn sessions_are_said_to_be_compared_by_their_steps_only() {
        let of_steps = |steps| {
            let scenario = Scenario { step: vec![Step::default(); steps], ..Scenario::default() };
            let plan = Plan { scenario: vec![scenario], ..Plan::default() };
            comparison(&made_up(), [&[], &[]], [&plan], Extent::Screen)
        };
        let note = "\n\nSessions aren't compared as a whole, only step by step.\n";
        assert!(of_steps(2).contains(note), "{}", of_steps(2));
        assert!(!of_steps(1).contains("Sessions"), "{}", of_steps(1));
    }

    #[test]
    fn one_run_per_side_comes_with_its_limits_first() {
        let mut of = made_up();
        let unknown = "With one run per side, the normal difference between runs is unknown";
        for change in [Change::Worse, Change::Better, Change::Same, Change::Undecided] {
            of.change = change;
            let text = text(&of);
            let (headline, _) = text.split_once("\n\n").expect("a headline");
            assert!(headline.replace('\n', " ").contains(unknown), "{text}");
        }
        of.a.runs = 2;
        assert!(text(&of).replace('\n', " ").contains(unknown), "B is one");
        of.b.runs = 2;
        assert!(!text(&of).replace('\n', " ").contains(unknown));
    }

    #[test]
    fn reports_that_are_not_valid_are_named_with_their_reasons() {
        let mut of = made_up();
        let doubted = |run: usize, level: Level, codes: &[Code]| Doubted {
            run,
            verdict: Trust {
                level,
                codes: codes.iter().map(|code| Reason { code: *code, level }).collect(),
                notes: Vec::new(),
            },
        };
        of.a.doubted = vec![doubted(2, Level::Suspect, &[Code::ClientShare, Code::ClosedLoop])];
        of.b.doubted = vec![
            doubted(1, Level::Invalid, &[Code::Errors]),
            doubted(3, Level::Suspect, &[Code::ClientShare]),
        ];
        (of.b.unsent, of.b.failed_here) = (1_200, 30);
        let text = text(&of);
        let named = "Invalid: b1.json (errors).\nSuspect: a2.json (client_share, closed_loop), \
                     b3.json (client_share).\n";
        assert!(text.contains(named), "{text}");
        let own = "Left out of the errors below: B 1,200 never sent and 30 failed for lack of\n  \
                   ports, files or memory.\n";
        assert!(text.contains(own), "{text}");
    }

    #[test]
    fn changes_come_first() {
        insta::assert_snapshot!(comparison(&made_up(), [&[], &[]], [], Extent::Screen), @r"
        REGRESSION: B is slower at p99.9 (+9.6 %). Undecided: p99.95 (+11.3 %). Without
        an interval: p99.99 (+11.3 %). With one run per side, the normal difference
        between runs is unknown, and may explain it all.

        A  http://127.0.0.1:8080/, 1 run, 60,000 requests
        B  http://127.0.0.1:8081/, 1 run, 60,000 requests

        ms                 A        B      B/A  interval
        p50             5.06     5.06    1.000  [0.999, 1.001]    same
        p99.9           5.12     5.61    1.096  [1.080, 1.110]    slower
        p99.95          5.30     5.90    1.113  [0.900, n/a]      undecided
        p99.99          5.30     5.90    1.113                    n/a
        errors        0.00 %   0.00 %    +0.00  [-0.01, +0.01]    same

        All intervals together hold 99 times in 100, if each cause of slow requests
        occurs ten times or more in each window. Changes below 1.0 % don't count
        (--margin).
        ");
        insta::assert_snapshot!(text(&made_up()), @r"
        REGRESSION: B is slower at p99.9 (+9.6 %). Undecided: p99.95 (+11.3 %). Without
        an interval: p99.99 (+11.3 %). With one run per side, the normal difference
        between runs is unknown, and may explain it all.

        A  http://127.0.0.1:8080/, 1 run, 60,000 requests
        B  http://127.0.0.1:8081/, 1 run, 60,000 requests

        ms                 A        B      B/A  interval            shows
        p50             5.06     5.06    1.000  [0.999, 1.001]     +1.1 %  same
        p99.9           5.12     5.61    1.096  [1.080, 1.110]     +4.0 %  slower
        p99.95          5.30     5.90    1.113  [0.900, n/a]          n/a  undecided
        p99.99          5.30     5.90    1.113                        n/a  n/a
        errors        0.00 %   0.00 %    +0.00  [-0.01, +0.01]             same

        All intervals together hold 99 times in 100, if each cause of slow requests
        occurs ten times or more in each window. Shows: the smallest slowdown that runs
        such as these reveal in four comparisons of five. Changes below 1.0 % don't
        count (--margin).
        No interval includes the normal difference between runs: give several per side,
        made in turn (--with).
        ");
    }

    /// The same with a part for each of these changes, whose p99 changed like that.
    fn with_parts(parts: &[(&str, Option<usize>, Change)]) -> Comparison {
        let of = made_up();
        let part = |(name, stage, change): &(&str, Option<usize>, Change)| PartChange {
            part: PartName {
                name: Some((*name).to_owned()),
                stage: stage.map(|number| number.to_string()),
            },
            requests: [1_000; 2],
            change: *change,
            percentiles: vec![PercentileChange {
                percentile: "p99".to_owned(),
                change: *change,
                ..of.percentiles[1].clone()
            }],
            errors: of.errors.clone(),
        };
        let parts: Vec<PartChange> = parts.iter().map(part).collect();
        Comparison { parts, ..of }
    }

    #[test]
    fn a_part_that_differs_has_a_line() {
        let of = with_parts(&[
            ("home", Some(1), Change::Same),
            ("home", Some(2), Change::Worse),
            ("a scenario with a name too long for a line", Some(1), Change::Worse),
            ("search", Some(2), Change::Undecided),
        ]);
        insta::assert_snapshot!(parts(&of, Extent::Screen), @r"
        by route and stage
        home, stage 2                     slower at p99 (+9.6 %)
        a scenario with a name…, stage 1  slower at p99 (+9.6 %)
        others: 1 same, 1 undecided
        ");
        insta::assert_snapshot!(parts(&of, Extent::Details), @r"
        by route and stage
        home, stage 1                     same
        home, stage 2                     slower at p99 (+9.6 %)
        a scenario with a name…, stage 1  slower at p99 (+9.6 %)
        search, stage 2                   undecided: p99
        ");
        insta::assert_snapshot!(wrap(&sentence(&of)), @r"
        REGRESSION: B is slower at p99.9 (+9.6 %), and worse for home, stage 2 and a
        scenario with a name…, stage 1. Undecided: p99.95 (+11.3 %), 1 of 4 parts.
        Without an interval: p99.99 (+11.3 %).
        ");
        let text = comparison(&of, [&[], &[]], [], Extent::Screen);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let many = with_parts(&[("home", Some(2), Change::Worse); 14]);
        assert!(parts(&many, Extent::Screen).ends_with("and 2 others: see `parts` of --out\n"));
        assert!(sentence(&many).contains("home, stage 2 and 11 others"), "{}", sentence(&many));
    }

    #[test]
    fn parts_that_do_not_differ_have_a_line_in_all() {
        assert_eq!(parts(&made_up(), Extent::Screen), "");
        let mut of = with_parts(&[("home", None, Change::Same), ("search", None, Change::Unknown)]);
        assert_eq!(parts(&of, Extent::Screen), "no route differs: 1 same, 1 not judged\n");
        of.change = Change::Same;
        of.percentiles.iter_mut().for_each(|one| one.change = Change::Same);
        assert!(sentence(&of).starts_with("no change: "), "{}", sentence(&of));
        of.b.unmatched = vec![PartName { name: Some("new".to_owned()), stage: None }];
        assert!(subjects(&of, "run").contains("Not compared, since only B has it: new.\n"));
    }

    #[test]
    fn parts_without_an_interval_show_their_values() {
        let mut of = with_parts(&[("home", Some(1), Change::Unknown)]);
        let part = &mut of.parts[0];
        part.part.stage = Some("busy".to_owned());
        part.percentiles[0].interval = [None, None];
        (part.percentiles[0].a, part.percentiles[0].b) = (Some(2_100.0), Some(40_900.0));
        part.percentiles[0].ratio = Some(40.9 / 2.1);
        // Errors alone judge nothing.
        part.change = Change::Undecided;
        part.errors.as_mut().expect("some").change = Change::Undecided;
        insta::assert_snapshot!(parts(&of, Extent::Screen), @r"
        by route and stage
        home, stage busy  not judged: p99 2.10 to 40.9 ms (+1847.6 %)
        no route can be judged in any stage: their percentiles have no interval; it
        takes more requests, or 5 runs per side
        ");
        of.parts[0].percentiles[0].needed_s = Some(24.0);
        assert!(none_judged(&of).ends_with("; it takes windows of 24 s, or 5 runs per side"));
        assert!(sentence(&of).ends_with(" Not judged: 1 of 1 parts."), "{}", sentence(&of));
        of.parts[0].percentiles.clear();
        assert!(parts(&of, Extent::Details).contains("not judged: too few requests"));
    }

    #[test]
    fn latencies_without_an_interval_are_not_judged_by_the_errors() {
        let mut of = made_up();
        (of.a.runs, of.b.runs) = (5, 5);
        for (one, needed_s) in of.percentiles.iter_mut().zip([10.0, 32.0, 12.0, 11.0]) {
            one.change = Change::Unknown;
            (one.interval, one.needed_s, one.noise) = ([None; 2], Some(needed_s), Some(34.8));
        }
        of.change = Change::Better;
        of.errors.as_mut().expect("some").change = Change::Better;
        let better = text(&of).replace('\n', " ");
        assert!(
            better.starts_with(
                "improvement: B has fewer errors. Latencies weren't judged: no percentile has an \
             interval.  A "
            ),
            "{better}"
        );
        for absent in ["intervals together", "the intervals include it"] {
            assert!(!better.contains(absent), "{better}");
        }
        of.change = Change::Undecided;
        let takes = |of: &Comparison| gate_lacks(of).split_once("; ").expect("a cure").1.to_owned();
        assert_eq!(takes(&of), "it takes more runs per side");
        of.a.runs = 1;
        let windows = "it takes windows of 10 s for p50 and 32 s for p99.9, or 5 runs per side";
        assert_eq!(takes(&of), windows);
        of.percentiles[0].pairs = Some(3);
        assert_eq!(takes(&of), "it takes longer slices, or a higher rate");
    }

    #[test]
    fn several_short_runs_are_not_called_one() {
        let mut of = made_up();
        (of.a.runs, of.b.runs) = (3, 3);
        assert!(text(&of).ends_with(
            "\nNo side has two runs with enough requests to show how much runs differ.\n"
        ));
    }

    #[test]
    fn lines_are_at_most_eighty_columns_wide() {
        let mut of = made_up();
        of.percentiles.iter_mut().for_each(|one| one.noise = Some(1.023));
        (of.a.runs, of.b.runs) = (3, 3);
        of.plans_differ =
            vec!["rate is 500.0 and 5000.0".to_owned(), "conns is 8 and 4".to_owned()];
        let text = text(&of);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        for words in ["differ by up to p50 2.3 %", "The plans differ: rate is 500.0", "3 runs"] {
            assert!(text.replace('\n', " ").contains(words), "`{words}` is missing in: {text}");
        }
    }
}
