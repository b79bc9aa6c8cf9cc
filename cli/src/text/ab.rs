//! Two targets measured in alternating slices: the changes, and the slices behind them.

use std::collections::BTreeMap;

use engine::plan::Model;
use engine::report::verdict::Level;
use probe::ab::{AbDocument, Name, Slice, Turn};
use probe::step::Reason;

use super::compare::{explanation, only_steps, parts, sentence, subjects, table};
use super::extent::Extent;
use super::layout::{Text, sections, wrap};
use super::parts::mixed;
use crate::json;

/// The prefix of a slice's progress line.
pub(crate) fn label(turn: Turn, pairs: usize) -> String {
    match turn.pair {
        0 => format!("{} warm-up  ", name(turn.of)),
        pair => format!("{} {pair}/{pairs}  ", name(turn.of)),
    }
}

/// The name of the file of a slice's report.
pub(crate) fn file_name(turn: Turn) -> String {
    format!("{}-{:02}.json", json::name(&turn.of), turn.pair)
}

/// The name of a side.
pub(crate) fn name(of: Name) -> &'static str {
    match of {
        Name::A => "A",
        Name::B => "B",
    }
}

/// The whole text; `written` names the files.
pub(crate) fn ab(of: &AbDocument, written: &[String], extent: Extent) -> String {
    let mut text = Text::new();
    if of.interrupted {
        let why = of.error.as_deref().map_or("a signal", |_| "a failure");
        let so_far = match of.comparison.a.runs {
            0 => "no pair was complete".to_owned(),
            1 => "these are the estimates of the first pair".to_owned(),
            pairs => format!("these are the estimates of the first {pairs} pairs"),
        };
        text.wrapped(format!("interrupted by {why}: {so_far}."));
    }
    if 0 < of.comparison.a.runs {
        text.add(compared(of, extent));
    }
    if !written.is_empty() {
        text.blank();
        text.line(format!("written  {}", written.join(", ")));
    }
    text.done()
}

/// The comparison from the complete pairs.
fn compared(of: &AbDocument, extent: Extent) -> String {
    let found = match &of.not_judged {
        Some(why) => format!("NOT JUDGED: {why}."),
        None => sentence(&of.comparison),
    };
    let about = subjects(&of.comparison, "slice") + &invalid(of) + &suspect(of);
    let mut notes = Text::new();
    let plan = of.plan.as_ref();
    let of_plan = [plan.and_then(only_steps), plan.and_then(mixed)];
    of_plan.into_iter().flatten().for_each(|note| notes.wrapped(note));
    notes.wrapped(explanation(&of.comparison, "slices", extent));
    notes.add(extent.details(|| wrap(&intervals(of))));
    notes.add(fewer_pairs(of));
    let (table, parts) = (table(&of.comparison, extent), parts(&of.comparison, extent));
    sections([wrap(&found), about, table, parts, notes.done()])
}

/// The basis of the intervals.
fn intervals(of: &AbDocument) -> String {
    let is_open = of.plan.as_ref().is_some_and(|plan| plan.model == Some(Model::Open));
    let same = if is_open { "Both slices of a pair have the same arrivals. " } else { "" };
    format!("{same}Intervals are from the ratios within pairs; for errors, from the differences.")
}

/// The percentiles known in only some of the pairs that count.
fn fewer_pairs(of: &AbDocument) -> String {
    let percentiles = of.comparison.percentiles.iter();
    let few = percentiles.filter(|one| (1..of.pairs.len()).contains(&one.pairs.unwrap_or(0)));
    let parts = few.map(|one| format!("{} for {}", one.pairs.unwrap_or(0), one.percentile));
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() {
        return String::new();
    }
    let all = of.pairs.len();
    wrap(&format!("Pairs with enough answers, of {all}: {}.", parts.join(", ")))
}

/// The slices with an invalid verdict, each with its reasons: first those whose pair's latencies
/// are left out, then the others.
fn invalid(of: &AbDocument) -> String {
    let mut text = Text::new();
    for (what, slices) in [
        (
            "Latencies left out, with those of the pair's other slice",
            of.left_out().map(one).collect::<Vec<String>>(),
        ),
        ("Invalid, perhaps because of the target", of.doubtful().map(one).collect()),
    ] {
        if !slices.is_empty() {
            text.item(0, format!("{what}: {}.", slices.join(", ")));
        }
    }
    text.done()
}

/// The number of suspect slices on either side, by reason.
fn suspect(of: &AbDocument) -> String {
    let has_other =
        |one: &&Slice| of.slices.iter().any(|it| it.pair == one.pair && it.of != one.of);
    let of_side = |side: Name| {
        let of_side = of.slices.iter().filter(|slice| slice.of == side).filter(has_other);
        let (mut number, mut codes) = (0, BTreeMap::new());
        for slice in of_side.filter(|slice| slice.verdict.level == Level::Suspect) {
            number += 1;
            for name in slice.verdict.names_at(Level::Suspect) {
                *codes.entry(name).or_insert(0_u64) += 1;
            }
        }
        let codes: Vec<String> =
            codes.into_iter().map(|(code, slices)| format!("{code} {slices}")).collect();
        (0 < number).then(|| format!("{number} of {} ({})", name(side), codes.join(", ")))
    };
    let sides: Vec<String> = [Name::A, Name::B].into_iter().filter_map(of_side).collect();
    let mut text = Text::new();
    if !sides.is_empty() {
        text.item(0, format!("Suspect slices: {}.", sides.join("; ")));
    }
    text.done()
}

fn one(slice: &Slice) -> String {
    let codes = slice.verdict.found().filter(|reason| reason.level == Level::Invalid);
    let codes: Vec<String> = codes.map(|Reason { code, .. }| code.to_string()).collect();
    format!("{}{} ({})", name(slice.of), slice.pair, codes.join(", "))
}

#[cfg(test)]
mod tests {
    use engine::plan::Plan;
    use engine::report::verdict::Code;
    use engine::stats::percentiles::Percentiles;
    use probe::ab::{AbPlan, Measured, turns};
    use probe::step::{Latency, Trust};

    use super::*;

    fn made_up(pairs: usize, invalid: usize) -> AbDocument {
        let slice = |turn: Turn| {
            let mut percentiles = Percentiles::default();
            let scatter = (turn.pair % 3) as f64;
            let (p50, p99) = match turn.of {
                Name::A => (5_060.0 + scatter, 5_120.0),
                Name::B => (5_062.0 - scatter, 5_610.0 + 10.0 * scatter),
            };
            percentiles.at_mut(0.5).value = Some(p50);
            percentiles.at_mut(0.99).value = Some(p99);
            let (level, codes) = match turn.pair <= invalid && turn.of == Name::B {
                true => {
                    let reason = |code, level| Reason { code, level };
                    let late = reason(Code::GeneratorLate, Level::Invalid);
                    (Level::Invalid, vec![late, reason(Code::RateMissed, Level::Suspect)])
                }
                false => (Level::Valid, Vec::new()),
            };
            Slice {
                pair: turn.pair,
                of: turn.of,
                target: format!("http://127.0.0.1:808{}/", turn.of as usize),
                started_at: String::new(),
                seed: 1,
                whole: Measured {
                    requests: 10_000,
                    corrected: Latency { percentiles, ..Latency::default() },
                    ..Measured::default()
                },
                parts: Vec::new(),
                verdict: Trust { level, codes, notes: Vec::new() },
            }
        };
        let asked = AbPlan { pairs, margin: 0.01, allow_invalid: false };
        let slices = turns(pairs).filter(|turn| 0 < turn.pair).map(slice).collect();
        let plan = Plan { model: Some(Model::Open), ..Plan::default() };
        AbDocument { plan: Some(plan), ..AbDocument::new(&asked, slices) }
    }

    #[test]
    fn only_arrivals_by_rate_are_the_same() {
        let same = "Both slices of a pair have the same arrivals.";
        let open = made_up(10, 0);
        assert!(ab(&open, &[], Extent::Details).contains(same));
        let plan = Some(Plan { model: Some(Model::Closed), ..Plan::default() });
        assert!(!ab(&AbDocument { plan, ..open }, &[], Extent::Details).contains(same));
    }

    #[test]
    fn changes_come_first() {
        insta::assert_snapshot!(ab(&made_up(10, 0), &[], Extent::Screen), @r"
        REGRESSION: B is slower at p99 (+9.8 %).

        A  http://127.0.0.1:8080/, 10 slices, 100,000 requests
        B  http://127.0.0.1:8081/, 10 slices, 100,000 requests

        ms                 A        B      B/A  interval
        p50             5.06     5.06    1.000  [1.000, 1.000]    same
        p99             5.12     5.62    1.098  [1.095, 1.100]    slower
        errors        0.00 %   0.00 %    +0.00  [-0.01, +0.01]    same

        All intervals together hold 99 times in 100, if pairs don't depend on each
        other. Changes below 1.0 % don't count (--margin).
        ");
        insta::assert_snapshot!(ab(&made_up(10, 1), &["ab.json".to_owned()], Extent::Details), @r"
        REGRESSION: B is slower at p99 (+9.8 %).

        A  http://127.0.0.1:8080/, 10 slices, 100,000 requests
        B  http://127.0.0.1:8081/, 10 slices, 100,000 requests
        Latencies left out, with those of the pair's other slice: B1 (generator_late).

        ms                 A        B      B/A  interval            shows
        p50             5.06     5.06    1.000  [0.999, 1.001]     +1.1 %  same
        p75           n/a      n/a         n/a                        n/a  n/a
        p90           n/a      n/a         n/a                        n/a  n/a
        p95           n/a      n/a         n/a                        n/a  n/a
        p99             5.12     5.62    1.098  [1.095, 1.100]     +1.3 %  slower
        p99.9         n/a      n/a         n/a                        n/a  n/a
        p99.99        n/a      n/a         n/a                        n/a  n/a
        errors        0.00 %   0.00 %    +0.00  [-0.01, +0.01]             same

        All intervals together hold 99 times in 100, if pairs don't depend on each
        other. Shows: the smallest slowdown that slices such as these reveal in four
        comparisons of five. Changes below 1.0 % don't count (--margin).
        Both slices of a pair have the same arrivals. Intervals are from the ratios
        within pairs; for errors, from the differences.

        written  ab.json
        ");
    }

    #[test]
    fn slices_that_the_target_may_have_spoilt_are_named() {
        let mut made = made_up(10, 2);
        for slice in made.slices.iter_mut().filter(|slice| !slice.verdict.codes.is_empty()) {
            slice.verdict.codes.iter_mut().for_each(|reason| reason.code = Code::Errors);
            slice.whole.errors = 5_000;
        }
        let asked = AbPlan { pairs: 10, margin: 0.5, allow_invalid: false };
        let text = ab(&AbDocument::new(&asked, made.slices), &[], Extent::Details);
        let why = "NOT JUDGED: 2 of 20 slices are invalid, and the target may be the cause.\n";
        assert!(text.starts_with(why), "{text}");
        assert!(
            text.contains("\nInvalid, perhaps because of the target: B1 (errors), B2"),
            "{text}"
        );
    }

    #[test]
    fn a_percentile_of_some_pairs_shows_how_many() {
        let mut few = made_up(10, 0);
        few.comparison.percentiles[4].pairs = Some(7);
        few.comparison.percentiles[6].pairs = Some(0);
        let text = ab(&few, &[], Extent::Details);
        assert!(text.ends_with("\nPairs with enough answers, of 10: 7 for p99.\n"), "{text}");
    }

    #[test]
    fn too_few_pairs_are_not_judged() {
        insta::assert_snapshot!(ab(&made_up(10, 7), &[], Extent::Details), @r"
        NOT JUDGED: only 3 of 10 pairs count; at least 5 must.

        A  http://127.0.0.1:8080/, 10 slices, 100,000 requests
        B  http://127.0.0.1:8081/, 10 slices, 100,000 requests
        Latencies left out, with those of the pair's other slice: B1 (generator_late),
          B2 (generator_late), B3 (generator_late), B4 (generator_late), B5
          (generator_late), B6 (generator_late), B7 (generator_late).

        µs                 A        B      B/A  interval            shows
        p50              n/a      n/a      n/a                        n/a  n/a
        p75              n/a      n/a      n/a                        n/a  n/a
        p90              n/a      n/a      n/a                        n/a  n/a
        p95              n/a      n/a      n/a                        n/a  n/a
        p99              n/a      n/a      n/a                        n/a  n/a
        p99.9            n/a      n/a      n/a                        n/a  n/a
        p99.99           n/a      n/a      n/a                        n/a  n/a
        errors        0.00 %   0.00 %    +0.00  [-0.01, +0.01]             undecided

        Changes below 1.0 % don't count (--margin).
        Both slices of a pair have the same arrivals. Intervals are from the ratios
        within pairs; for errors, from the differences.
        ");
    }

    #[test]
    fn an_interruption_comes_first_with_the_estimates_so_far() {
        let after = |slices: usize| {
            let mut made = made_up(10, 0).slices;
            made.truncate(slices);
            let asked = AbPlan { pairs: 10, margin: 0.01, allow_invalid: false };
            AbDocument { interrupted: true, ..AbDocument::new(&asked, made) }
        };
        insta::assert_snapshot!(ab(&after(7), &[], Extent::Details), @r"
        interrupted by a signal: these are the estimates of the first 3 pairs.
        NOT JUDGED: only 3 of 10 pairs count; at least 5 must.

        A  http://127.0.0.1:8080/, 3 slices, 30,000 requests
        B  http://127.0.0.1:8081/, 3 slices, 30,000 requests

        ms                 A        B      B/A  interval            shows
        p50             5.06     5.06    1.000  [0.994, 1.006]     +1.7 %  undecided
        p75           n/a      n/a         n/a                        n/a  n/a
        p90           n/a      n/a         n/a                        n/a  n/a
        p95           n/a      n/a         n/a                        n/a  n/a
        p99             5.12     5.62    1.098  [1.066, 1.130]     +4.1 %  undecided
        p99.9         n/a      n/a         n/a                        n/a  n/a
        p99.99        n/a      n/a         n/a                        n/a  n/a
        errors        0.00 %   0.00 %    +0.00  [-0.02, +0.02]             undecided

        All intervals together hold 99 times in 100, if pairs don't depend on each
        other. Shows: the smallest slowdown that slices such as these reveal in four
        comparisons of five. Changes below 1.0 % don't count (--margin).
        Intervals are from the ratios within pairs; for errors, from the differences.
        ");
        let none = "interrupted by a signal: no pair was complete.\n";
        assert_eq!(ab(&after(1), &[], Extent::Details), none);
        let failed = AbDocument { error: Some("no route".to_owned()), ..after(3) };
        let one = "interrupted by a failure: these are the estimates of the first pair.\n";
        assert!(ab(&failed, &[], Extent::Details).starts_with(one));
        for slices in 0..20 {
            let text = ab(&after(slices), &[], Extent::Details);
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        }
    }

    #[test]
    fn lines_are_at_most_eighty_columns_wide() {
        for document in [made_up(1_000, 400), made_up(10, 9)] {
            let text = ab(&document, &[], Extent::Details);
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        }
    }

    #[test]
    fn a_slice_has_a_name_on_the_progress_line_and_as_a_file() {
        let names = turns(2).map(|turn| (label(turn, 2), file_name(turn)));
        let names: Vec<(String, String)> = names.collect();
        assert_eq!(names[1], ("B warm-up  ".to_owned(), "b-00.json".to_owned()));
        assert_eq!(names[4], ("A 2/2  ".to_owned(), "a-02.json".to_owned()));
    }
}
