//! The comparison of two sides: what changed, in a sentence, and the figures behind it.

use probe::compare::{Change, Comparison, ErrorsChange, PercentileChange, RUNS_MIN, Side};

use super::figures::{cell, count, things, time};
use super::wrap::{indented, wrap};

/// The whole text.
pub(crate) fn comparison(of: &Comparison) -> String {
    let mut text = wrap(&sentence(of));
    text.push('\n');
    text.push_str(&subjects(of, "run"));
    if !of.plans_differ.is_empty() {
        let differ = format!("The plans differ: {}.", of.plans_differ.join("; "));
        text.push_str(&indented("", "  ", &differ));
    }
    text.push_str(&table(of));
    text.push('\n');
    text.push_str(&wrap(&explanation(of, "runs")));
    text.push_str(&wrap(&noise(of)));
    text
}

/// What the two sides are; `run` is what one of them is called.
pub(super) fn subjects(of: &Comparison, run: &str) -> String {
    let line = |name: &str, side: &Side| {
        let runs = things(side.runs as u64, run);
        let requests = count(side.requests);
        let told = format!("{}, {runs}, {requests} requests", side.targets.join(", "));
        indented(&format!("{name}  "), "   ", &told)
    };
    line("A", &of.a) + &line("B", &of.b)
}

/// The figures.
pub(super) fn table(of: &Comparison) -> String {
    let mut text = format!(
        "\n{:<8}{:>11}{:>11}{:>8}  {:<16}{:>9}\n",
        "", "A", "B", "B/A", "interval", "shows"
    );
    of.percentiles.iter().for_each(|one| text.push_str(&percentile(one)));
    if let Some(errors) = &of.errors {
        text.push_str(&row_of_errors(errors));
    }
    text
}

/// What was found.
pub(super) fn sentence(of: &Comparison) -> String {
    let of_change = |change: Change| -> Vec<String> {
        let latencies = of.percentiles.iter().filter(|one| one.change == change);
        latencies.map(told).collect()
    };
    let errors = of.errors.as_ref().map(|errors| errors.change);
    let mut parts = Vec::new();
    for (change, word, fewer) in
        [(Change::Worse, "slower", "more errors"), (Change::Better, "faster", "fewer errors")]
    {
        let figures = of_change(change);
        if !figures.is_empty() {
            parts.push(format!("{word} at {}", figures.join(", ")));
        }
        if errors == Some(change) {
            parts.push(format!("with {fewer}"));
        }
    }
    let undecided: Vec<&str> = of
        .percentiles
        .iter()
        .filter(|one| one.change == Change::Undecided)
        .map(|one| one.percentile.as_str())
        .chain((errors == Some(Change::Undecided)).then_some("errors"))
        .collect();
    let undecided = match undecided.as_slice() {
        [] => String::new(),
        names => format!(" Undecided: {}.", names.join(", ")),
    };
    match of.change {
        Change::Worse => format!("REGRESSION: B is {}.{undecided}", parts.join(", and ")),
        Change::Better => format!("improvement: B is {}.{undecided}", parts.join(", and ")),
        Change::Same => {
            format!("no change: B is within {} of A at all percentiles known.", share(of.margin))
        }
        Change::Undecided | Change::Unknown => format!("no change found.{undecided}"),
    }
}

/// A percentile and by how much it changed.
fn told(one: &PercentileChange) -> String {
    let change = one.ratio.map_or(String::new(), |ratio| format!(" ({})", signed(ratio)));
    format!("{}{change}", one.percentile)
}

fn percentile(one: &PercentileChange) -> String {
    let value = |us: Option<f64>| cell(&us.map_or("n/a".to_owned(), time));
    let number = |ratio: Option<f64>| ratio.map_or("n/a".to_owned(), |ratio| format!("{ratio:.3}"));
    let [low, high] = one.interval.map(number);
    let shows = one.shows.map_or("n/a".to_owned(), signed);
    let line = format!(
        "{:<8}{}{}{:>8}  {:<16}{shows:>9}  {}",
        one.percentile,
        value(one.a),
        value(one.b),
        number(one.ratio),
        format!("[{low}, {high}]"),
        word(one.change, "slower", "faster")
    );
    line.trim_end().to_owned() + "\n"
}

fn row_of_errors(errors: &ErrorsChange) -> String {
    let percent = |share: f64| format!("{:.2} %", share * 100.0);
    let points = |share: f64| format!("{:+.2}", share * 100.0);
    let [low, high] = errors.interval.map(points);
    format!(
        "{:<8}{:>11}{:>11}{:>8}  {:<16}{:>9}  {}\n",
        "errors",
        percent(errors.a),
        percent(errors.b),
        points(errors.difference),
        format!("[{low}, {high}]"),
        "",
        word(errors.change, "more", "fewer")
    )
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

/// What the columns are; `runs` is what a side has several of.
pub(super) fn explanation(of: &Comparison, runs: &str) -> String {
    format!(
        "All intervals together hold {} times in 100. Shows: the smallest slowdown that {runs} such \
         as these reveal in four comparisons of five. Changes below {} aren't called.",
        (of.confidence * 100.0).round(),
        share(of.margin)
    )
}

/// What is known of how much runs of one target differ.
fn noise(of: &Comparison) -> String {
    let noise: Vec<String> = of
        .percentiles
        .iter()
        .filter_map(|one| Some(format!("{} {}", one.percentile, share(one.noise? - 1.0))))
        .collect();
    if noise.is_empty() && 1 < of.a.runs.max(of.b.runs) {
        return "No side has two runs with enough requests to tell how much they differ."
            .to_owned();
    }
    if noise.is_empty() {
        return "With one run a side, no interval covers how much two runs of one target differ; give \
                several, taken in turn."
            .to_owned();
    }
    let many = RUNS_MIN <= of.a.runs && RUNS_MIN <= of.b.runs;
    let used =
        if many { "the intervals have that in them" } else { "a smaller change isn't called" };
    format!("Runs of one side differ by up to {}; {used}.", noise.join(", "))
}

/// A change by a factor: `+3.1 %`.
fn signed(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

fn share(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use probe::compare::{CONFIDENCE, MARGIN, SCHEMA};

    use super::*;

    fn made_up() -> Comparison {
        let side =
            |target: &str| Side { targets: vec![target.to_owned()], runs: 1, requests: 60_000 };
        let one = |percentile: &str, a, b, interval, shows, change| PercentileChange {
            percentile: percentile.to_owned(),
            unit: "us".to_owned(),
            a: Some(a),
            b: Some(b),
            ratio: Some(b / a),
            interval,
            shows,
            noise: None,
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
        }
    }

    #[test]
    fn what_changed_comes_first() {
        insta::assert_snapshot!(comparison(&made_up()), @r"
        REGRESSION: B is slower at p99.9 (+9.6 %). Undecided: p99.95.

        A  http://127.0.0.1:8080/, 1 run, 60,000 requests
        B  http://127.0.0.1:8081/, 1 run, 60,000 requests

                          A          B     B/A  interval            shows
        p50         5.06 ms    5.06 ms   1.000  [0.999, 1.001]     +1.1 %  same
        p99.9       5.12 ms    5.61 ms   1.096  [1.080, 1.110]     +4.0 %  slower
        p99.95      5.30 ms    5.90 ms   1.113  [0.900, n/a]          n/a  undecided
        p99.99      5.30 ms    5.90 ms   1.113  [n/a, n/a]            n/a  n/a
        errors       0.00 %     0.00 %   +0.00  [-0.01, +0.01]             same

        All intervals together hold 99 times in 100. Shows: the smallest slowdown that
        runs such as these reveal in four comparisons of five. Changes below 1.0 %
        aren't called.
        With one run a side, no interval covers how much two runs of one target differ;
        give several, taken in turn.
        ");
    }

    #[test]
    fn several_runs_that_are_too_short_are_not_said_to_be_one() {
        let mut of = made_up();
        (of.a.runs, of.b.runs) = (3, 3);
        assert!(comparison(&of).ends_with(
            "\nNo side has two runs with enough requests to tell how \
                                           much they differ.\n"
        ));
    }

    #[test]
    fn lines_are_at_most_eighty_columns_wide() {
        let mut of = made_up();
        of.percentiles.iter_mut().for_each(|one| one.noise = Some(1.023));
        (of.a.runs, of.b.runs) = (3, 3);
        of.plans_differ =
            vec!["rate is 500.0 and 5000.0".to_owned(), "conns is 8 and 4".to_owned()];
        let text = comparison(&of);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        for words in ["differ by up to p50 2.3 %", "The plans differ: rate is 500.0", "3 runs"] {
            assert!(text.replace('\n', " ").contains(words), "`{words}` is missing in: {text}");
        }
    }
}
