//! Service level objectives: bounds for latencies and errors, and the share of the rate to reach,
//! `p99<20ms,errors<0.1%,rate>=0.99`.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;
use units::{Nanos, Scalar};

/// The objectives of a run, at least one, no two of the same metric: `p99<20ms,errors<0.1%`.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(into = "String", from = "String")]
pub struct Objectives(Vec<Objective>);

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
    pub fn iter(&self) -> impl Iterator<Item = &Objective> {
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

impl fmt::Display for Objectives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, objective) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{objective}")?;
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
    #[error("{0} has two bounds; keep one")]
    Repeated(String),
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
            LatencyMetric::Percentile(percentile.ok_or_else(|| Problem::Metric(name.to_owned()))?)
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
        let mut objectives: Vec<Objective> = Vec::new();
        for part in text.split(',') {
            let objective = objective(part.trim()).map_err(refuse)?;
            if objectives.iter().any(|other| other.metric() == objective.metric()) {
                return Err(refuse(Problem::Repeated(objective.metric())));
            }
            objectives.push(objective);
        }
        Ok(Objectives(objectives))
    }
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
            ("p0.1<1ns,p99.90<1m", "p0.1<1ns,p99.9<1m"),
            ("rate>=0.99", "rate>=0.99"),
            ("p50<1s, rate >= 95%", "p50<1s,rate>=0.95"),
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
            ("", "`` has no bound; give METRIC<BOUND"),
            ("p99", "`p99` has no bound; give METRIC<BOUND"),
            ("p99>20ms", "`p99>20ms` has no bound; give"),
            ("p99<20ms,", "`` has no bound; give"),
            ("p99<=20ms", "invalid time `=20ms`; give one above 0 with its unit, e.g. p99<20ms"),
            ("p99<20", "invalid time `20`; give one above 0 with its unit, e.g. p99<20ms"),
            ("mean<0s", "invalid time `0s`; give one above 0 with its unit, e.g. mean<20ms"),
            ("p100<1s", "unknown metric `p100`; choose a percentile such as p99"),
            ("p0<1s", "unknown metric `p0`; choose"),
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
        ] {
            let error = text.parse::<Objectives>().expect_err(text).to_string();
            let start = format!("invalid objectives `{text}`: {problem}");
            assert!(error.starts_with(&start), "{error}");
        }
    }
}
