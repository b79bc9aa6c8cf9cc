//! Latency against the intended rate as SVG: both axes logarithmic, corrected latencies with their
//! confidence intervals as bands, naive ones dashed, the bounds of objectives, and the answer of
//! the series.

pub use crate::chart::NotDrawn;
use crate::chart::{Axis, Bound, Chart, Line, Zone};
use crate::knee::Knee;
use crate::numbers::{number, plain_time};
use crate::search::Bracket;
use crate::step::{Latency, SHOWN, Step};
use crate::sweep::KNEE_WIDTH;

/// The colour of each percentile drawn.
const COLOURS: [usize; SHOWN.len()] = [2, 0, 1];

/// The mark of a series' result.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Its name: `knee`.
    pub name: &'static str,
    /// The rate; `None` if only the range below is known.
    pub rate: Option<f64>,
    /// The range of the rate.
    pub between: (f64, f64),
}

impl Mark {
    /// The knee, if it was found; as a range, if it isn't narrow enough to state a rate.
    pub fn of_knee(knee: &Knee) -> Option<Mark> {
        let (from, to) = knee.from_per_s.zip(knee.to_per_s)?;
        let rate = knee.rate_per_s.filter(|_| to <= KNEE_WIDTH * from);
        Some(Mark { name: "knee", rate, between: (from, to) })
    }

    /// The highest rate that passed, under this name, if one failed as well.
    pub fn of_bracket(name: &'static str, bracket: &Bracket) -> Option<Mark> {
        let between = bracket.passed_per_s.zip(bracket.failed_per_s)?;
        Some(Mark { name, rate: Some(between.0), between })
    }

    /// The same on the plot.
    fn zone(&self) -> Zone {
        let whole = |rate: f64| number(rate.round());
        let (from, to) = self.between;
        let name = match self.rate {
            Some(rate) => format!("{} {}/s", self.name, whole(rate)),
            None => format!("{} {}–{}/s", self.name, whole(from), whole(to)),
        };
        Zone { name, between: self.between, at: self.rate }
    }
}

/// The plot of these steps, in any order.
/// # Errors
/// No step has a latency, or the library fails.
pub fn svg(title: &str, steps: &[Step], mark: Option<&Mark>) -> Result<String, NotDrawn> {
    let mut steps: Vec<&Step> = steps.iter().collect();
    steps.sort_by(|one, other| one.rate_per_s.total_cmp(&other.rate_per_s));
    let lines = LATENCIES.into_iter().flat_map(|latency| {
        let percentiles = SHOWN.into_iter().zip(COLOURS);
        percentiles.map(|percentile| line(&steps, latency, percentile)).collect::<Vec<_>>()
    });
    let chart = Chart {
        title,
        x: Axis::log("intended rate, requests per second"),
        y: Axis { label: plain_time, ..Axis::log("latency") },
        lines: lines.collect(),
        columns: SHOWN.len(),
        bounds: objectives(&steps),
        zone: mark.map(Mark::zone),
    };
    chart.svg()
}

/// The line of a percentile, with its intervals; for corrected latencies each run is a dot.
fn line(
    steps: &[&Step],
    (latency, of): (Of, &str),
    ((name, q), colour): ((&str, f64), usize),
) -> Line {
    let at = |step: &Step| *latency(step).percentiles.at(q);
    let values = steps.iter().filter_map(|step| Some((step.rate_per_s, at(step).value?)));
    let runs: Vec<(f64, f64)> = values.filter(|(_, us)| 0.0 < *us).collect();
    let end = |end: usize| {
        let each =
            steps.iter().filter_map(move |step| Some((step.rate_per_s, at(step).interval?[end])));
        medians(each)
    };
    let band = end(0).into_iter().zip(end(1)).map(|((rate, low), (_, high))| (rate, [low, high]));
    let dashed = of == "naive";
    Line {
        name: format!("{name} {of}"),
        colour,
        dashed,
        points: medians(runs.iter().copied()),
        dots: if dashed { Vec::new() } else { runs },
        band: band.collect(),
    }
}

/// The latencies that the objectives of a series bound, microseconds.
fn objectives(steps: &[&Step]) -> Vec<Bound> {
    let slo = steps.iter().find_map(|step| step.slo.as_ref());
    let bounds = slo.into_iter().flat_map(|slo| &slo.objectives);
    let bounds = bounds.filter(|one| one.unit == "us" && 0.0 < one.bound);
    let named = |metric, us| Bound { name: format!("{metric} < {}", plain_time(us)), at: us };
    bounds.map(|one| named(&one.metric, one.bound)).collect()
}

/// The line through the runs of a series, ascending by rate: through the median of a rate with
/// several.
fn medians(runs: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let runs: Vec<(f64, f64)> = runs.collect();
    let of_rate = |runs: &[(f64, f64)]| {
        let mut times: Vec<f64> = runs.iter().map(|(_, us)| *us).collect();
        times.sort_by(f64::total_cmp);
        (runs[0].0, f64::midpoint(times[(times.len() - 1) / 2], times[times.len() / 2]))
    };
    runs.chunk_by(|one, other| one.0 == other.0).map(of_rate).collect()
}

/// One of a step's latencies.
type Of = fn(&Step) -> &Latency;

/// The lines of each percentile.
const LATENCIES: [(Of, &str); 2] = [(corrected, "corrected"), (naive, "naive")];

fn corrected(step: &Step) -> &Latency {
    &step.corrected
}

fn naive(step: &Step) -> &Latency {
    &step.naive
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knee::knee;
    use crate::queues::{Queue, asked};

    fn steps() -> Vec<Step> {
        ["100", "400", "900", "1200"].map(|rate| Queue::serial_ms().run(&asked(rate, 10))).to_vec()
    }

    #[test]
    fn a_plot_has_its_axes_lines_bands_and_knee() {
        let steps = steps();
        let text = svg("http://h/?a=1&b=<2>", &steps, Mark::of_knee(&knee(&steps)).as_ref())
            .expect("it is drawn");
        for part in [
            "intended rate, requests per second",
            "latency",
            ">\n500\n<",
            ">\n1 ms\n<",
            ">\n10 ms\n<",
            "p99.9 corrected",
            "p50 naive",
            "<polygon",
            "knee 900–1,200/s",
            "width=\"100%\" viewBox=\"0 0 640 520\"",
            "a=1&amp;b=&lt;2&gt;",
        ] {
            assert!(text.contains(part), "`{part}` is missing in: {text}");
        }
        assert!(text.trim_end().ends_with("</svg>"));
        let narrow = Knee { to_per_s: Some(920.0), rate_per_s: Some(909.9), ..knee(&steps) };
        let text = svg("x", &steps, Mark::of_knee(&narrow).as_ref()).expect("it is drawn");
        assert!(text.contains("knee 910/s"), "{text}");
        let without = svg("x", &steps, None).expect("it is drawn");
        assert!(!without.contains("knee"));
        let bracket = Bracket {
            passed_per_s: Some(880.0),
            failed_per_s: Some(916.0),
            undecided_per_s: Vec::new(),
            resolution: None,
            stopped_by: None,
            complete: true,
        };
        let text = svg("x", &steps, Mark::of_bracket("holds up to", &bracket).as_ref())
            .expect("it is drawn");
        assert!(text.contains("holds up to 880/s"), "{text}");
    }

    #[test]
    fn the_bounds_of_objectives_are_drawn_and_labelled() {
        let queue = Queue { slo_ms: Some(20.0), ..Queue::serial_ms() };
        let steps = ["100", "900"].map(|rate| queue.run(&asked(rate, 10)));
        let text = svg("x", &steps, None).expect("it is drawn");
        assert!(text.contains("p99 &lt; 20 ms"), "{text}");
        // A bound far from all latencies is on the plot as well.
        let far = Queue { slo_ms: Some(30_000.0), ..queue };
        let steps = [far.run(&asked("100", 10))];
        let text = svg("x", &steps, None).expect("it is drawn");
        assert!(text.contains("p99 &lt; 30 s") && text.contains(">\n10 s\n<"), "{text}");
        assert!(
            !svg("x", &[Queue::serial_ms().run(&asked("100", 10))], None)
                .expect("it is drawn")
                .contains("&lt;")
        );
    }

    #[test]
    fn a_line_passes_through_the_median_of_a_rate() {
        let runs = [(100.0, 2.0), (200.0, 9.0), (200.0, 3.0), (200.0, 4.0), (400.0, 5.0)];
        assert_eq!(medians(runs.into_iter()), [(100.0, 2.0), (200.0, 4.0), (400.0, 5.0)]);
        assert_eq!(medians([(100.0, 2.0), (100.0, 5.0)].into_iter()), [(100.0, 3.5)]);
    }

    #[test]
    fn a_plot_without_latencies_is_not_drawn() {
        assert!(svg("x", &[], None).is_err());
        let one = &steps()[..1];
        svg("x", one, None).expect("one step is a plot");
    }
}
