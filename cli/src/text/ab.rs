//! Two targets that were measured in turn: what changed, and which slices that rests on.

use engine::plan::Plan;
use engine::report::verdict::Level;
use engine::sys::units::Nanos;
use probe::ab::{AbDocument, Name, Slice, Turn};
use probe::step::Reason;

use super::compare::{explanation, sentence, subjects, table};
use super::progress;
use super::wrap::{indented, wrap};
use crate::json;

/// How long so many slices of a completed plan take, as far as that is known before.
pub(crate) fn takes(plan: &Plan, slices: u64) -> String {
    let each = progress::takes(plan, 0);
    if plan.ends_by_count() {
        return format!("{slices} slices, each {each}");
    }
    let (least_ns, most_ns) = plan.setup_ns();
    let of_all = |setup_ns: u64| {
        let all_s = slices.saturating_mul(setup_ns + plan.end_ns()).div_ceil(1_000_000_000);
        Nanos::from_secs(all_s).to_string()
    };
    let span = match (of_all(least_ns), of_all(most_ns)) {
        (least, most) if least == most => least,
        (least, most) => format!("{least} to {most}"),
    };
    format!("takes {span}: {slices} slices, each {each}")
}

/// What the progress line of a slice begins with.
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

fn name(of: Name) -> &'static str {
    match of {
        Name::A => "A",
        Name::B => "B",
    }
}

/// The whole text; `written`: the files.
pub(crate) fn ab(of: &AbDocument, written: &[String]) -> String {
    let mut text = String::new();
    if of.interrupted {
        let why = of.error.as_deref().map_or("a signal came", |_| "a slice failed");
        text.push_str(&wrap(&format!("interrupted: {why}; what follows is of the slices so far.")));
    }
    text.push_str(&match &of.not_judged {
        Some(why) => wrap(&format!("NOT JUDGED: {why}.")),
        None => wrap(&sentence(&of.comparison)),
    });
    text.push('\n');
    text.push_str(&subjects(&of.comparison, "slice"));
    text.push_str(&left_out(of));
    text.push_str(&table(&of.comparison));
    text.push('\n');
    text.push_str(&wrap(&explanation(&of.comparison, "slices")));
    text.push_str(&wrap(
        "Both slices of a pair have the same arrivals, and the interval is that of their ratios.",
    ));
    if !written.is_empty() {
        text.push_str(&format!("\nwritten  {}\n", written.join(", ")));
    }
    text
}

/// The slices whose verdict leaves their pair out, each with its reasons.
fn left_out(of: &AbDocument) -> String {
    let told: Vec<String> = of.left_out().map(one).collect();
    if told.is_empty() {
        return String::new();
    }
    let line = format!("Left out, with the other slice of the pair: {}.", told.join(", "));
    indented("", "  ", &line)
}

fn one(slice: &Slice) -> String {
    let codes = slice.verdict.codes.iter().filter(|reason| reason.level == Level::Invalid);
    let codes: Vec<String> = codes.map(|Reason { code, .. }| code.to_string()).collect();
    format!("{}{} ({})", name(slice.of), slice.pair, codes.join(", "))
}

#[cfg(test)]
mod tests {
    use engine::report::verdict::Code;
    use engine::stats::percentiles::Percentiles;
    use probe::ab::{AbPlan, turns};
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
                requests: 10_000,
                errors: 0,
                corrected: Latency { percentiles, ..Latency::default() },
                verdict: Trust { level, codes },
            }
        };
        let asked = AbPlan { pairs, margin: 0.01, allow_invalid: false };
        let slices = turns(pairs).filter(|turn| 0 < turn.pair).map(slice).collect();
        AbDocument::new(&asked, slices)
    }

    #[test]
    fn what_changed_comes_first() {
        insta::assert_snapshot!(ab(&made_up(10, 1), &["ab.json".to_owned()]), @r"
        REGRESSION: B is slower at p99 (+9.8 %). Undecided: p75, p90, p95, p99.9,
        p99.99.

        A  http://127.0.0.1:8080/, 9 slices, 90,000 requests
        B  http://127.0.0.1:8081/, 9 slices, 90,000 requests
        Left out, with the other slice of the pair: B1 (generator_late).

                          A          B     B/A  interval            shows
        p50         5.06 ms    5.06 ms   1.000  [0.999, 1.001]     +1.1 %  same
        p75          n/a        n/a        n/a  [n/a, n/a]            n/a  undecided
        p90          n/a        n/a        n/a  [n/a, n/a]            n/a  undecided
        p95          n/a        n/a        n/a  [n/a, n/a]            n/a  undecided
        p99         5.12 ms    5.62 ms   1.098  [1.095, 1.100]     +1.3 %  slower
        p99.9        n/a        n/a        n/a  [n/a, n/a]            n/a  undecided
        p99.99       n/a        n/a        n/a  [n/a, n/a]            n/a  undecided
        errors       0.00 %     0.00 %   +0.00  [-0.01, +0.01]             same

        All intervals together hold 99 times in 100. Shows: the smallest slowdown that
        slices such as these reveal in four comparisons of five. Changes below 1.0 %
        aren't called.
        Both slices of a pair have the same arrivals, and the interval is that of their
        ratios.

        written  ab.json
        ");
    }

    #[test]
    fn too_few_pairs_are_not_judged() {
        insta::assert_snapshot!(ab(&made_up(10, 7), &[]), @r"
        NOT JUDGED: 3 of 10 pairs count, and it takes 5.

        A  http://127.0.0.1:8080/, 3 slices, 30,000 requests
        B  http://127.0.0.1:8081/, 3 slices, 30,000 requests
        Left out, with the other slice of the pair: B1 (generator_late), B2
          (generator_late), B3 (generator_late), B4 (generator_late), B5
          (generator_late), B6 (generator_late), B7 (generator_late).

                          A          B     B/A  interval            shows
        p50          n/a        n/a        n/a  [n/a, n/a]            n/a  undecided
        p75          n/a        n/a        n/a  [n/a, n/a]            n/a  undecided
        p90          n/a        n/a        n/a  [n/a, n/a]            n/a  undecided
        p95          n/a        n/a        n/a  [n/a, n/a]            n/a  undecided
        p99          n/a        n/a        n/a  [n/a, n/a]            n/a  undecided
        p99.9        n/a        n/a        n/a  [n/a, n/a]            n/a  undecided
        p99.99       n/a        n/a        n/a  [n/a, n/a]            n/a  undecided

        All intervals together hold 99 times in 100. Shows: the smallest slowdown that
        slices such as these reveal in four comparisons of five. Changes below 1.0 %
        aren't called.
        Both slices of a pair have the same arrivals, and the interval is that of their
        ratios.
        ");
    }

    #[test]
    fn a_signal_and_a_failure_are_said_first() {
        let cut = AbDocument { interrupted: true, ..made_up(10, 0) };
        assert!(ab(&cut, &[]).starts_with("interrupted: a signal came; what follows is of"));
        let failed = AbDocument { error: Some("no route".to_owned()), ..cut };
        assert!(ab(&failed, &[]).starts_with("interrupted: a slice failed; what follows is of"));
    }

    #[test]
    fn lines_are_at_most_eighty_columns_wide() {
        for document in [made_up(1_000, 400), made_up(10, 9)] {
            let text = ab(&document, &[]);
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        }
    }

    #[test]
    fn it_says_how_long_all_slices_take() {
        let of = |plan: Plan| {
            let target = "http://127.0.0.1:1/".to_owned();
            takes(&Plan { target, ..plan }.complete(&[0]).expect("a plan"), 22)
        };
        let rate = Some("5k".parse().expect("a rate"));
        let (duration, warmup) = (Nanos::from_secs(10), Nanos::from_secs(1));
        let open = Plan { rate, duration, warmup, ..Plan::default() };
        insta::assert_snapshot!(of(open), @"takes 4m24s to 5m52s: 22 slices, each takes 12s to 16s: setup 1s to 5s, warm-up 1s, window 10s");
        let closed = Plan { duration, warmup, ..Plan::default() };
        insta::assert_snapshot!(of(closed.clone()), @"takes 4m2s: 22 slices, each takes 11s: warm-up 1s, window 10s");
        let counted = Plan { requests: Some(2_000), warmup: Nanos(0), ..closed };
        insta::assert_snapshot!(of(counted), @"22 slices, each takes up to 10s: window 10s or 2,000 requests");
    }

    #[test]
    fn a_slice_has_a_name_on_the_progress_line_and_as_a_file() {
        let names = turns(2).map(|turn| (label(turn, 2), file_name(turn)));
        let names: Vec<(String, String)> = names.collect();
        assert_eq!(names[1], ("B warm-up  ".to_owned(), "b-00.json".to_owned()));
        assert_eq!(names[4], ("A 2/2  ".to_owned(), "a-02.json".to_owned()));
    }
}
