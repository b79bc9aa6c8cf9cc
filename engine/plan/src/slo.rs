//! Service level objectives: bounds for latencies and errors, and the share of the rate to reach,
//! `p99<20ms,errors<0.1%,rate>=0.99`, for the whole run or, after its name and a colon, for one
//! scenario or stage: `search: p99<50ms`.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;
use units::{Nanos, Scalar};

/// The objectives of a run, at least one, no two of the same metric for the same requests:
/// `p99<20ms,errors<0.1%,search: p99<50ms`.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(into = "String", from = "String")]
pub struct Objectives(pub(super) Vec<Clause>);

/// An objective, and the requests that must meet it.
#[derive(Clone, Debug, PartialEq)]
pub struct Clause {
    /// The name of their scenario or stage; `None` for all requests.
    pub of: Option<String>,
    /// The objective.
    pub objective: Objective,
}

/// One objective: a metric and its bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Objective {
    /// A metric of the corrected latencies, and its bound.
    Latency(LatencyMetric, Nanos),
    /// Requests without a good answer, as a percentage of all intended.
    Errors {
        /// The bound, percent.
        percent: f64,
    },
    /// Answers per second of the window, of any status, as a share of the requests due in it.
    Rate {
        /// The share to reach, above 0 and up to 1.
        share: f64,
    },
}

/// The lowest percentile of an objective: `p9` was meant to be p90 or p99.
const THOUSANDTHS_MIN: u32 = 10_000;

/// A metric of the corrected latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencyMetric {
    /// A percentile.
    Percentile(PercentileOf),
    /// The mean.
    Mean,
    /// The largest.
    Max,
}

/// A percentile above 0 and below 100, to three decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PercentileOf {
    thousandths: u32,
}

impl PercentileOf {
    /// The quantile, between 0 and 1.
    pub fn quantile(self) -> f64 {
        f64::from(self.thousandths) / 100_000.0
    }
}

impl Objectives {
    /// Each objective, in the order given.
    pub fn iter(&self) -> impl Iterator<Item = &Clause> {
        self.0.iter()
    }
}

impl Objective {
    /// The metric's name, as written: `p99.9`, `errors`.
    pub fn metric(&self) -> String {
        match self {
            Objective::Latency(metric, _) => metric.to_string(),
            Objective::Errors { .. } => "errors".to_owned(),
            Objective::Rate { .. } => "rate".to_owned(),
        }
    }
}

impl fmt::Display for PercentileOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", f64::from(self.thousandths) / 1_000.0)
    }
}

impl fmt::Display for LatencyMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LatencyMetric::Percentile(percentile) => percentile.fmt(f),
            LatencyMetric::Mean => f.write_str("mean"),
            LatencyMetric::Max => f.write_str("max"),
        }
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Objective::Latency(metric, bound) => write!(f, "{metric}<{bound}"),
            Objective::Errors { percent } => write!(f, "errors<{percent}%"),
            Objective::Rate { share } => write!(f, "rate>={share}"),
        }
    }
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.of {
            Some(name) => write!(f, "{name}: {}", self.objective),
            None => self.objective.fmt(f),
        }
    }
}

impl fmt::Display for Objectives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, clause) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{clause}")?;
        }
        Ok(())
    }
}

/// A text that isn't a list of objectives.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invalid objectives `{text}`: {problem}")]
pub struct InvalidObjectives {
    text: String,
    problem: Problem,
}

/// The problem with one of the objectives, and the cure.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
enum Problem {
    #[error("an objective is missing: give METRIC<BOUND, and no comma after the last one")]
    Empty,
    #[error("`{0}` has no bound; give METRIC<BOUND, e.g. p99<20ms,errors<0.1%")]
    NoBound(String),
    #[error(
        "unknown metric `{0}`; choose a percentile such as p99 or p99.9, mean, max, errors or rate"
    )]
    Metric(String),
    #[error("invalid time `{0}`; give one above 0 with its unit, e.g. {1}<20ms")]
    Time(String, String),
    #[error("invalid percentage `{0}`; give one above 0 and up to 100, e.g. errors<0.1%")]
    Share(String),
    #[error("no run can prove `errors<{0}`; give the share that may fail, e.g. errors<0.001%")]
    NoErrors(String),
    #[error("invalid rate `{0}`; give the least share of the requested rate, e.g. rate>=0.99")]
    Rate(String),
    #[error("`{0}` is more than one objective; separate them by commas")]
    Separator(String),
    #[error("`{0}` bounds less than a tenth of the requests; give a percentile such as p90 or p99")]
    Low(String),
    #[error("{0} has two bounds; keep one")]
    Repeated(String),
    #[error("`{0}` has no name before its colon; give NAME: METRIC<BOUND, e.g. search: p99<50ms")]
    Name(String),
}

impl FromStr for PercentileOf {
    type Err = ();

    fn from_str(text: &str) -> Result<PercentileOf, ()> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let fits = (1..=2).contains(&whole.len()) && (1..=3).contains(&fraction.len());
        if !fits || !is_number(whole) || !is_number(fraction) {
            return Err(());
        }
        let thousandths = format!("{whole}{fraction:0<3}").parse().map_err(drop)?;
        if thousandths == 0 { Err(()) } else { Ok(PercentileOf { thousandths }) }
    }
}

fn objective(text: &str) -> Result<Objective, Problem> {
    if text.is_empty() {
        return Err(Problem::Empty);
    }
    if let Some(bound) = text.strip_prefix("rate") {
        return rate(bound.trim());
    }
    let no_bound = || Problem::NoBound(text.to_owned());
    let (metric, bound) = text.split_once('<').ok_or_else(no_bound)?;
    let (metric, bound) = (metric.trim(), bound.trim());
    if bound.contains('<') {
        return Err(Problem::Separator(text.to_owned()));
    }
    let latency = match metric {
        "errors" => {
            let wrong = || Problem::Share(bound.to_owned());
            let number = bound.strip_suffix('%').ok_or_else(wrong)?.trim();
            let percent: f64 = number.parse().map_err(|_| wrong())?;
            return match percent {
                percent if 0.0 < percent && percent <= 100.0 => Ok(Objective::Errors { percent }),
                0.0 => Err(Problem::NoErrors(bound.to_owned())),
                _ => Err(wrong()),
            };
        }
        "mean" => LatencyMetric::Mean,
        "max" => LatencyMetric::Max,
        name => {
            let percentile = name.strip_prefix('p').and_then(|number| number.parse().ok());
            let percentile: PercentileOf =
                percentile.ok_or_else(|| Problem::Metric(name.to_owned()))?;
            if percentile.thousandths < THOUSANDTHS_MIN {
                return Err(Problem::Low(name.to_owned()));
            }
            LatencyMetric::Percentile(percentile)
        }
    };
    // A bound without a unit is unlikely to mean seconds.
    let has_unit = bound.ends_with(|last: char| last.is_ascii_alphabetic());
    match bound.parse() {
        Ok(Nanos(ns)) if 0 < ns && has_unit => Ok(Objective::Latency(latency, Nanos(ns))),
        _ => Err(Problem::Time(bound.to_owned(), metric.to_owned())),
    }
}

/// The objective of the rate, from the text after its name: `>=0.99` or `>=99%`.
fn rate(bound: &str) -> Result<Objective, Problem> {
    let number = bound.strip_prefix(">=").map(str::trim);
    let share = number.and_then(|number| match number.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().ok().map(|percent| percent / 100.0),
        None => number.parse().ok(),
    });
    match share {
        Some(share) if 0.0 < share && share <= 1.0 => Ok(Objective::Rate { share }),
        _ => Err(Problem::Rate(format!("rate{bound}"))),
    }
}

impl FromStr for Objectives {
    type Err = InvalidObjectives;

    fn from_str(text: &str) -> Result<Objectives, InvalidObjectives> {
        let refuse = |problem| InvalidObjectives { text: text.to_owned(), problem };
        let mut clauses: Vec<Clause> = Vec::new();
        for part in parts(text) {
            let clause = clause(part.trim()).map_err(refuse)?;
            let metric = clause.objective.metric();
            if clauses
                .iter()
                .any(|other| other.of == clause.of && other.objective.metric() == metric)
            {
                return Err(refuse(Problem::Repeated(metric)));
            }
            clauses.push(clause);
        }
        Ok(Objectives(clauses))
    }
}

/// The parts between commas, except commas of a name: such a part has no bound, and the colon comes
/// later.
fn parts(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        let ends = rest.match_indices(',').map(|(at, _)| at).chain([rest.len()]);
        let is_named =
            |end: &usize| rest[..*end].rsplit_once(':').is_some_and(|(_, it)| bounds(it));
        let first = rest.find(',').unwrap_or(rest.len());
        let end = match bounds(&rest[..first]) {
            true => first,
            false => ends.into_iter().find(is_named).unwrap_or(first),
        };
        parts.push(&rest[..end]);
        match rest.get(end + 1..) {
            Some(next) => rest = next,
            None => return parts,
        }
    }
}

/// True if a text has the bound of an objective.
fn bounds(text: &str) -> bool {
    text.contains('<') || text.contains(">=")
}

/// An objective with the name before it. No objective has a colon, so the name ends at the last.
fn clause(text: &str) -> Result<Clause, Problem> {
    let (of, text) = match text.rsplit_once(':') {
        Some((name, _)) if name.trim().is_empty() => return Err(Problem::Name(text.to_owned())),
        Some((name, text)) => (Some(name.trim().to_owned()), text.trim()),
        None => (None, text),
    };
    Ok(Clause { of, objective: objective(text)? })
}

impl Serialize for Objectives {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Objectives {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Objectives, D::Error> {
        Scalar::parse(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_are_read_and_printed() {
        for (text, printed) in [
            ("p99<20ms", "p99<20ms"),
            (" p99 < 20ms , errors < 0.1% ", "p99<20ms,errors<0.1%"),
            ("p50<1.5ms,p99.9<1s,p99.999<2s", "p50<1.5ms,p99.9<1s,p99.999<2s"),
            ("mean<250us,max<10s,errors<100%", "mean<250us,max<10s,errors<100%"),
            ("p10<1ns,p99.90<1m", "p10<1ns,p99.9<1m"),
            ("rate>=0.99", "rate>=0.99"),
            ("p50<1s, rate >= 95%", "p50<1s,rate>=0.95"),
            ("p99<1s, search : p99 < 50ms", "p99<1s,search: p99<50ms"),
            ("GET /a: errors<1%,b: c: p50<1ms", "GET /a: errors<1%,b: c: p50<1ms"),
            ("a, b: p50<1ms,p50<2ms,c,d: p50<3ms", "a, b: p50<1ms,p50<2ms,c,d: p50<3ms"),
        ] {
            let read: Objectives = text.parse().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(read.to_string(), printed);
            assert_eq!(printed.parse::<Objectives>(), Ok(read));
        }
        let q = |text: &str| text.parse::<PercentileOf>().expect(text).quantile();
        assert_eq!((q("99"), q("99.9"), q("5"), q("99.999")), (0.99, 0.999, 0.05, 0.99999));
    }

    #[test]
    fn a_wrong_objective_is_refused_with_its_cure() {
        for (text, problem) in [
            ("", "an objective is missing: give METRIC<BOUND"),
            ("a:", "an objective is missing: give METRIC<BOUND"),
            ("p99", "`p99` has no bound; give METRIC<BOUND"),
            ("p99>20ms", "`p99>20ms` has no bound; give"),
            ("p99<20ms,", "an objective is missing: give METRIC<BOUND, and no comma after"),
            ("p99<=20ms", "invalid time `=20ms`; give one above 0 with its unit, e.g. p99<20ms"),
            ("p99<20", "invalid time `20`; give one above 0 with its unit, e.g. p99<20ms"),
            ("mean<0s", "invalid time `0s`; give one above 0 with its unit, e.g. mean<20ms"),
            ("p100<1s", "unknown metric `p100`; choose a percentile such as p99"),
            ("p0<1s", "unknown metric `p0`; choose"),
            (
                "p9<1s",
                "`p9` bounds less than a tenth of the requests; give a percentile such as p90",
            ),
            ("p09.9<1s", "`p09.9` bounds less than a tenth"),
            ("p9<", "`p9` bounds less than a tenth"),
            ("p99<", "invalid time ``; give one above 0 with its unit, e.g. p99<20ms"),
            ("p99.<1s", "unknown metric `p99.`; choose"),
            ("p99.9999<1s", "unknown metric `p99.9999`; choose"),
            ("p+9<1s", "unknown metric `p+9`; choose"),
            (
                "rate<1",
                "invalid rate `rate<1`; give the least share of the requested rate, e.g. rate>=0.99",
            ),
            ("rate", "invalid rate `rate`; give"),
            ("rate>=0", "invalid rate `rate>=0`; give"),
            ("rate>=5k", "invalid rate `rate>=5k`; give"),
            ("rate>=101%", "invalid rate `rate>=101%`; give"),
            ("rate>=1,rate>=0.9", "rate has two bounds; keep one"),
            ("errors<0.1", "invalid percentage `0.1`; give one above 0 and up to 100, e.g."),
            ("errors<0%", "no run can prove `errors<0%`; give the share that may fail"),
            ("p99<20ms;errors<1%", "`p99<20ms;errors<1%` is more than one objective; separate"),
            ("errors<101%", "invalid percentage `101%`"),
            ("errors<nan%", "invalid percentage `nan%`"),
            ("p99<1s,p99.0<2s", "p99 has two bounds; keep one"),
            ("a: p99<1s,p50<1s,a: p99<2s", "p99 has two bounds; keep one"),
            (": p99<1s", "`: p99<1s` has no name before its colon; give NAME: METRIC<BOUND"),
            ("search: p99", "`p99` has no bound; give METRIC<BOUND"),
            ("p99,a: p98<1s,p97", "`p97` has no bound; give METRIC<BOUND"),
        ] {
            let error = text.parse::<Objectives>().expect_err(text).to_string();
            let start = format!("invalid objectives `{text}`: {problem}");
            assert!(error.starts_with(&start), "{error}");
        }
    }
}
