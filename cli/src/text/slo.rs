//! The objectives of a run, one line each: the figure, its interval, and whether it holds. What a
//! percentile was judged by is on a line below.

use engine::report::slo::{JudgedObjective, Judgement, Slo};

use super::figures::{count, time};

/// The lines of the objectives, below one with what became of all of them.
pub(crate) fn objectives(slo: &Slo) -> String {
    let rows: Vec<[String; 4]> = slo.objectives.iter().map(cells).collect();
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let (bound, figure, interval) = (width(0), width(1), width(2));
    let mut text = format!("objectives {}\n", judgement(slo.judgement));
    for ([bounded, value, doubt, judged], objective) in rows.into_iter().zip(&slo.objectives) {
        let row = format!("{bounded:<bound$}  {value:>figure$}  {doubt:<interval$}  {judged}\n");
        text.push_str(&row);
        if let Some(beyond) = beyond(objective) {
            text.push_str(&format!("  {beyond}\n"));
        }
    }
    text
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
    // What is decided takes no more values.
    let needed = objective.needed.filter(|_| objective.judgement == Judgement::Undecided);
    let interval = match needed {
        Some(needed) => format!("[{low}, {high} (needs {} values)]", count(needed)),
        None if is_exact(objective) => "[exact]".to_owned(),
        None => format!("[{low}, {high}]"),
    };
    let judged = judgement(objective.judgement).to_owned();
    [bounded(objective), figure, interval, judged]
}

/// Whether a figure is that of the run itself, and no estimate.
fn is_exact(objective: &JudgedObjective) -> bool {
    matches!(objective.metric.as_str(), "max" | "rate")
}

/// An objective in words: `p99 < 20.0 ms`, `rate ≥ 99 %`.
pub(crate) fn bounded(objective: &JudgedObjective) -> String {
    let relation = if objective.metric == "rate" { '≥' } else { '<' };
    format!("{} {relation} {}", objective.metric, shown(objective, objective.bound))
}

/// A number of an objective with its unit.
fn shown(objective: &JudgedObjective, number: f64) -> String {
    match objective.unit.as_str() {
        "us" => time(number),
        _ => share(objective, number),
    }
}

/// A share of an objective, with at least the digits of the bound; no share that is below the bound
/// looks as if it reached it.
fn share(objective: &JudgedObjective, share: f64) -> String {
    let [percent, bound] = [share, objective.bound].map(|share| share * 100.0);
    // Near its whole, two figures would hide what is missing.
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

/// What an objective was judged by, in one line: the figure with its interval, and what is missing.
pub(crate) fn evidence(objective: &JudgedObjective) -> String {
    let [_, figure, interval, _] = cells(objective);
    let mut text = format!("{} is {figure} {interval}", objective.metric);
    if let Some(beyond) = beyond(objective) {
        text.push_str(&format!("; {beyond}"));
    }
    text
}

/// The share beyond a percentile's bound, by which it was judged, and the share that may be.
fn beyond(objective: &JudgedObjective) -> Option<String> {
    let (share, [low, high]) = objective.beyond.zip(objective.beyond_interval)?;
    let quantile: f64 = objective.metric.strip_prefix('p')?.parse().ok()?;
    let [share, low, high, allowed] = [share, low, high, 1.0 - quantile / 100.0].map(percent);
    Some(format!("{share} of the requests beyond that [{low}, {high}], {allowed} allowed"))
}

/// A share to two figures: `12 %`, `0.1 %`, `0.0032 %`.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let digits = two_figures(percent);
    format!("{} %", trimmed(format!("{percent:.digits$}")))
}

/// The most digits behind the point.
const DIGITS_MAX: usize = 9;

/// How many digits behind the point show two figures of a number.
fn two_figures(number: f64) -> usize {
    let magnitude = if number == 0.0 { 0.0 } else { number.log10().floor() };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 9")]
    let digits = (1.0 - magnitude).clamp(0.0, DIGITS_MAX as f64) as usize;
    digits
}

/// A number without zeros at the end of its fraction.
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
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            bound,
            figure: None,
            interval: [None; 2],
            needed: None,
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
                    figure: Some(2_100_000.0),
                    judgement: Judgement::Missed,
                    ..judged("max", "us", 1_000_000.0)
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
        insta::assert_snapshot!(objectives(&slo), @r"
        objectives MISSED
        p99 < 20.0 ms   12.3 ms  [11.9 ms, 13.0 ms]                   met
          0.03 % of the requests beyond that [0.01 %, 0.07 %], 1 % allowed
        p99.9 < 100 ms      n/a  [30.0 ms, n/a (needs 5,662 values)]  undecided
          0.11 % of the requests beyond that [0.02 %, 0.39 %], 0.1 % allowed
        p99 < 1.00 s        n/a  [12.0 ms, n/a]                       met
          0 % of the requests beyond that [0 %, 0.4 %], 1 % allowed
        max < 1.00 s     2.10 s  [exact]                              MISSED
        errors < 0.1 %   0.02 %  [0 %, 0.55 %]                        undecided
        rate ≥ 99 %      99.8 %  [exact]                              met
        ");
    }
}
