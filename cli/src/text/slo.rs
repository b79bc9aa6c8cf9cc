//! The objectives of a run, one line each: the figure, its interval, and whether it holds. The
//! basis of a percentile's judgement is on a line below.

use engine::report::slo::{JudgedObjective, Judgement, Slo};
use engine::report::verdict::Level;

use super::figures::{things, time};
use super::layout::Column::{Left, Right};
use super::layout::{Text, aligned, widest};

/// The headline of a run with objectives: that of its verdict, then those that are missed or
/// undecided, or that all are met.
pub(crate) fn headline(of_verdict: &str, slo: Option<&Slo>) -> String {
    let open = [Judgement::Missed, Judgement::Undecided].map(|judged| {
        let all = slo.iter().flat_map(|slo| &slo.objectives);
        let named: Vec<String> =
            all.filter(|objective| objective.judgement == judged).map(bounded).collect();
        (!named.is_empty()).then(|| format!("{}: {}", judgement(judged), named.join(", ")))
    });
    let open: Vec<String> = open.into_iter().flatten().collect();
    match open.as_slice() {
        [] if slo.is_some() => format!("{of_verdict}; objectives met"),
        [] => of_verdict.to_owned(),
        open => format!("{of_verdict}; objectives {}", open.join("; ")),
    }
}

/// The level that colours a headline: a run with valid numbers may have missed its objectives.
pub(crate) fn shown_as(level: Level, slo: Option<&Slo>) -> Level {
    let of_objectives = match slo.map(|slo| slo.judgement) {
        None | Some(Judgement::Met) => Level::Valid,
        Some(Judgement::Undecided) => Level::Suspect,
        Some(Judgement::Missed) => Level::Invalid,
    };
    level.max(of_objectives)
}

/// How rare an event must be for a window of this length to miss it more than one time in twenty:
/// of events that come at random every T on average, a window W has none with the probability
/// e^(−W/T), and ln 20 is 3.0.
const WINDOWS_PER_RECURRENCE: f64 = 3.0;

/// The assumption behind a met objective that its interval doesn't show; `None` if it concerns only
/// this run.
pub(crate) fn assumption(objective: &JudgedObjective, window_s: f64) -> Option<String> {
    rests_on_the_window(objective).then(|| {
        let [window, rarest] = [time(window_s * 1e6), rarest(window_s)];
        format!(
            "the window of {window} is typical: events less often than every {rarest}, such as \
             stalls of the target, may be missing from it; a longer --duration catches rarer ones"
        )
    })
}

/// True if an objective is met for as long as the window is typical: if it concerns more than this
/// run.
fn rests_on_the_window(objective: &JudgedObjective) -> bool {
    objective.judgement == Judgement::Met && !is_of_this_run(objective)
}

/// The interval of the rarest events that a window of this length rarely misses.
fn rarest(window_s: f64) -> String {
    time(window_s / WINDOWS_PER_RECURRENCE * 1e6)
}

/// Why the interval of a mean is unreliable.
const MEAN_OF_FEW: &str = "a few slow requests decide this mean: the true one may lie above";
/// Why a mean has no interval, and nothing that it needs for one.
const BEYOND_RANGE: &str = "latencies above 60 s leave this mean without an interval: how much they \
                            differ isn't known";

/// Why the interval of a mean is too narrow, or why there can't be one.
pub(super) fn doubt(objective: &JudgedObjective) -> Option<&'static str> {
    let is_unknown = objective.metric == "mean" && objective.interval == [None; 2];
    let is_beyond = is_unknown && objective.figure.is_some() && needs(objective).is_none();
    let may_lie_above = objective.may_lie_above.then_some(MEAN_OF_FEW);
    is_beyond.then_some(BEYOND_RANGE).or(may_lie_above)
}

/// The objectives, a line each, and one for what those that are met assume.
pub(crate) fn briefly(slo: &Slo, window_s: f64) -> String {
    let mut text = Text::new();
    for (row, objective) in rows(slo).iter().zip(&slo.objectives) {
        text.line(format!("  {row}"));
        if let Some(doubt) = doubt(objective) {
            text.item(4, doubt);
        }
    }
    if slo.objectives.iter().any(rests_on_the_window) {
        let rarest = rarest(window_s);
        text.line(format!(
            "  met if the window is typical: events rarer than every {rarest} may be missing"
        ));
    }
    text.done()
}

/// The objectives and the basis of their judgements, below a line that sums them up.
pub(crate) fn objectives(slo: &Slo, window_s: f64) -> String {
    let mut text = Text::new();
    text.line(format!("objectives {}", judgement(slo.judgement)));
    for (row, objective) in rows(slo).iter().zip(&slo.objectives) {
        text.line(row);
        if let Some(beyond) = beyond(objective) {
            text.line(format!("  {beyond}"));
        }
        if let Some(doubt) = doubt(objective) {
            text.line(format!("  {doubt}"));
        }
    }
    if let Some(assumed) = slo.objectives.iter().find_map(|one| assumption(one, window_s)) {
        text.wrapped(format!("met assumes that {assumed}."));
    }
    text.done()
}

/// The objectives in columns: bound, figure, interval and judgement.
fn rows(slo: &Slo) -> Vec<String> {
    let rows: Vec<[String; 4]> = slo.objectives.iter().map(cells).collect();
    let width = |at: usize| widest(rows.iter().map(|row| &*row[at]));
    let columns = [Left(width(0) + 2), Right(width(1)), Left(2), Left(width(2) + 2)];
    let row = |[bounded, value, doubt, judged]: &[String; 4]| {
        aligned(&columns, &[bounded, value, "", doubt, judged])
    };
    rows.iter().map(row).collect()
}

/// The word for a judgement.
pub(crate) fn judgement(judgement: Judgement) -> &'static str {
    match judgement {
        Judgement::Met => "met",
        Judgement::Undecided => "undecided",
        Judgement::Missed => "MISSED",
    }
}

/// Bound, figure, interval and judgement.
fn cells(objective: &JudgedObjective) -> [String; 4] {
    let shown = |number: f64| shown(objective, number);
    let figure = objective.figure.map_or("n/a".to_owned(), shown);
    let [low, high] = objective.interval.map(|end| end.map_or("n/a".to_owned(), shown));
    // A decided objective needs no more values.
    let lacks = needs(objective).filter(|_| objective.judgement == Judgement::Undecided);
    let interval = match lacks {
        Some(needs) if objective.interval == [None; 2] => needs,
        Some(needs) => format!("[{low}, {high} ({needs})]"),
        None if is_of_this_run(objective) && low == high => "[exact]".to_owned(),
        None => format!("[{low}, {high}]"),
    };
    let judged = judgement(objective.judgement).to_owned();
    [bounded(objective), figure, interval, judged]
}

/// What the interval lacks: `needs 5,662 values`, `needs 12 s`.
fn needs(objective: &JudgedObjective) -> Option<String> {
    let values = objective.needed.map(|needed| format!("needs {}", things(needed, "value")));
    values.or_else(|| objective.needed_s.map(|needed_s| format!("needs {needed_s:.0} s")))
}

/// True if a figure is the run's own, not an estimate.
fn is_of_this_run(objective: &JudgedObjective) -> bool {
    matches!(objective.metric.as_str(), "max" | "rate")
}

/// An objective as text: `p99 < 20.0 ms`, `rate ≥ 99 %`, `search: p99 < 50.0 ms`.
pub(crate) fn bounded(objective: &JudgedObjective) -> String {
    let relation = if objective.metric == "rate" { '≥' } else { '<' };
    let of = objective.of.as_ref().map_or(String::new(), |name| format!("{name}: "));
    format!("{of}{} {relation} {}", objective.metric, shown(objective, objective.bound))
}

/// A number of an objective with its unit.
fn shown(objective: &JudgedObjective, number: f64) -> String {
    match objective.unit.as_str() {
        "us" => time(number),
        _ => share(objective, number),
    }
}

/// A share of an objective, with at least the digits of the bound; a share below the bound never
/// looks as if it reached it.
fn share(objective: &JudgedObjective, share: f64) -> String {
    let [percent, bound] = [share, objective.bound].map(|share| share * 100.0);
    // Near the whole, two digits would hide the missing part.
    let figures = if objective.metric == "rate" { 2 } else { two_figures(percent) };
    let of_bound = trimmed(format!("{bound:.DIGITS_MAX$}"));
    let digits = of_bound.split_once('.').map_or(0, |(_, digits)| digits.len()).max(figures);
    let mut text = format!("{percent:.digits$}");
    let number = |text: &str| text.parse::<f64>().expect("a number");
    if share < objective.bound && number(&of_bound) <= number(&text) {
        let unit = 10_f64.powi(i32::try_from(digits).expect("a few"));
        text = format!("{:.digits$}", (percent * unit).floor() / unit);
    }
    format!("{} %", trimmed(text))
}

/// The basis of an objective's judgement in one line: the figure with its interval, what it lacks,
/// doubts, and the assumption.
pub(crate) fn evidence(objective: &JudgedObjective, window_s: f64) -> String {
    let [_, figure, interval, _] = cells(objective);
    let mut text = format!("{} is {figure} {interval}", objective.metric);
    if let Some(beyond) = beyond(objective) {
        text.push_str(&format!("; {beyond}"));
    }
    if let Some(doubt) = doubt(objective) {
        text.push_str(&format!("; {doubt}"));
    }
    if let Some(assumed) = assumption(objective, window_s) {
        text.push_str(&format!("; met assumes that {assumed}"));
    }
    text
}

/// The share beyond a percentile's bound, which decided its judgement, and the share allowed.
fn beyond(objective: &JudgedObjective) -> Option<String> {
    let (share, [low, high]) = objective.beyond.zip(objective.beyond_interval)?;
    let quantile: f64 = objective.metric.strip_prefix('p')?.parse().ok()?;
    let [share, low, high, allowed] = [share, low, high, 1.0 - quantile / 100.0].map(percent);
    Some(format!("{share} of the requests beyond that [{low}, {high}], {allowed} allowed"))
}

/// A share to two digits: `12 %`, `0.1 %`, `0.0032 %`.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let digits = two_figures(percent);
    format!("{} %", trimmed(format!("{percent:.digits$}")))
}

/// The most digits after the decimal point.
const DIGITS_MAX: usize = 9;

/// The number of decimals that show two significant digits of a number.
fn two_figures(number: f64) -> usize {
    let magnitude = if number == 0.0 { 0.0 } else { number.log10().floor() };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 9")]
    let digits = (1.0 - magnitude).clamp(0.0, DIGITS_MAX as f64) as usize;
    digits
}

/// A number without trailing zeros in its fraction.
fn trimmed(text: String) -> String {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(metric: &str, unit: &str, bound: f64) -> JudgedObjective {
        JudgedObjective {
            of: None,
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            bound,
            figure: None,
            interval: [None; 2],
            needed: None,
            needed_s: None,
            may_lie_above: false,
            beyond: None,
            beyond_interval: None,
            judgement: Judgement::Undecided,
        }
    }

    #[test]
    fn no_text_contradicts_the_judgement() {
        for (metric, bound, figure, shown, of_bound) in [
            ("rate", 0.99, 0.998, "99.8 %", "rate ≥ 99 %"),
            ("rate", 0.99, 0.989_96, "98.99 %", "rate ≥ 99 %"),
            ("rate", 0.99, 0.989_999_999, "98.99 %", "rate ≥ 99 %"),
            ("rate", 0.99, 0.99, "99 %", "rate ≥ 99 %"),
            ("rate", 0.999_99, 0.999_985, "99.998 %", "rate ≥ 99.999 %"),
            ("rate", 0.999_99, 1.0, "100 %", "rate ≥ 99.999 %"),
            ("rate", 1.0, 0.999_999, "99.99 %", "rate ≥ 100 %"),
            ("errors", 0.001, 0.000_999, "0.099 %", "errors < 0.1 %"),
            ("errors", 0.001, 0.001, "0.1 %", "errors < 0.1 %"),
            ("errors", 0.001_25, 0.000_2, "0.02 %", "errors < 0.125 %"),
            ("errors", 0.001_25, 0.001_249, "0.124 %", "errors < 0.125 %"),
        ] {
            let objective = judged(metric, "share", bound);
            let texts = (super::shown(&objective, figure), bounded(&objective));
            assert_eq!(texts, (shown.to_owned(), of_bound.to_owned()), "{figure}");
        }
    }

    #[test]
    fn each_objective_has_its_line() {
        let slo = Slo {
            judgement: Judgement::Missed,
            objectives: vec![
                JudgedObjective {
                    figure: Some(12_300.0),
                    interval: [Some(11_900.0), Some(13_000.0)],
                    beyond: Some(0.000_3),
                    beyond_interval: Some([0.000_1, 0.000_7]),
                    judgement: Judgement::Met,
                    ..judged("p99", "us", 20_000.0)
                },
                JudgedObjective {
                    interval: [Some(30_000.0), None],
                    needed: Some(5_662),
                    beyond: Some(0.001_1),
                    beyond_interval: Some([0.000_2, 0.003_9]),
                    ..judged("p99.9", "us", 100_000.0)
                },
                JudgedObjective {
                    interval: [Some(12_000.0), None],
                    needed: Some(5_387),
                    beyond: Some(0.0),
                    beyond_interval: Some([0.0, 0.004]),
                    judgement: Judgement::Met,
                    ..judged("p99", "us", 1_000_000.0)
                },
                JudgedObjective {
                    of: Some("search".to_owned()),
                    figure: Some(2_100_000.0),
                    judgement: Judgement::Missed,
                    ..judged("max", "us", 1_000_000.0)
                },
                JudgedObjective {
                    figure: Some(9_100.0),
                    needed_s: Some(12.0),
                    may_lie_above: true,
                    ..judged("mean", "us", 10_000.0)
                },
                JudgedObjective {
                    figure: Some(0.000_2),
                    interval: [Some(0.0), Some(0.005_51)],
                    ..judged("errors", "share", 0.001)
                },
                JudgedObjective {
                    figure: Some(0.998),
                    judgement: Judgement::Met,
                    ..judged("rate", "share", 0.99)
                },
            ],
        };
        insta::assert_snapshot!(objectives(&slo, 60.0), @r"
        objectives MISSED
        p99 < 20.0 ms         12.3 ms  [11.9 ms, 13.0 ms]                   met
          0.03 % of the requests beyond that [0.01 %, 0.07 %], 1 % allowed
        p99.9 < 100 ms            n/a  [30.0 ms, n/a (needs 5,662 values)]  undecided
          0.11 % of the requests beyond that [0.02 %, 0.39 %], 0.1 % allowed
        p99 < 1.00 s              n/a  [12.0 ms, n/a]                       met
          0 % of the requests beyond that [0 %, 0.4 %], 1 % allowed
        search: max < 1.00 s   2.10 s  [exact]                              MISSED
        mean < 10.0 ms        9.10 ms  needs 12 s                           undecided
          a few slow requests decide this mean: the true one may lie above
        errors < 0.1 %         0.02 %  [0 %, 0.55 %]                        undecided
        rate ≥ 99 %            99.8 %  [exact]                              met
        met assumes that the window of 60.0 s is typical: events less often than every
        20.0 s, such as stalls of the target, may be missing from it; a longer
        --duration catches rarer ones.
        ");
        insta::assert_snapshot!(
            headline("valid", Some(&slo)),
            @"valid; objectives MISSED: search: max < 1.00 s; undecided: p99.9 < 100 ms, mean < 10.0 ms, errors < 0.1 %"
        );
    }

    #[test]
    fn the_basis_of_a_mean_shows_where_the_true_one_may_lie() {
        for may_lie_above in [true, false] {
            let mean = JudgedObjective { may_lie_above, ..judged("mean", "us", 10_000.0) };
            let text = evidence(&mean, 60.0);
            assert_eq!(text.contains("the true one may lie above"), may_lie_above, "{text}");
        }
    }

    #[test]
    fn a_mean_beyond_the_histograms_range_says_why_it_has_no_interval() {
        let figure = Some(9_000_000.0);
        let beyond =
            JudgedObjective { figure, may_lie_above: true, ..judged("mean", "us", 10_000_000.0) };
        let short = JudgedObjective { needed_s: Some(12.0), ..beyond.clone() };
        let whole = JudgedObjective { interval: [figure; 2], ..beyond.clone() };
        for (objective, is_beyond) in [(beyond, true), (short, false), (whole, false)] {
            let text = evidence(&objective, 60.0);
            assert_eq!(text.contains("above 60 s leave"), is_beyond, "{text}");
            assert_eq!(text.contains("the true one may lie above"), !is_beyond, "{text}");
        }
    }

    #[test]
    fn only_met_objectives_state_an_assumption() {
        for (metric, unit, judgement, assumes) in [
            ("p99", "us", Judgement::Met, true),
            ("mean", "us", Judgement::Met, true),
            ("errors", "share", Judgement::Met, true),
            ("p99", "us", Judgement::Undecided, false),
            ("p99", "us", Judgement::Missed, false),
            ("max", "us", Judgement::Met, false),
            ("rate", "share", Judgement::Met, false),
        ] {
            let objective = JudgedObjective { judgement, ..judged(metric, unit, 0.5) };
            let assumed = assumption(&objective, 9.0);
            assert_eq!(assumed.is_some(), assumes, "{metric} {judgement:?}");
            assert!(assumed.is_none_or(|text| text.contains("less often than every 3.00 s")));
            let slo = Slo::new(vec![objective]);
            let is_named = headline("valid", Some(&slo)) != "valid; objectives met";
            assert_eq!(is_named, judgement != Judgement::Met, "{metric} {judgement:?}");
            let level = shown_as(Level::Valid, Some(&slo));
            assert_eq!(level == Level::Valid, judgement == Judgement::Met);
        }
        assert_eq!(
            (headline("valid", None), shown_as(Level::Suspect, None)),
            ("valid".to_owned(), Level::Suspect)
        );
    }
}
