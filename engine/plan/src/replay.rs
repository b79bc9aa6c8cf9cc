//! A log that is sent again: its speed, how its seconds are spread, and which flags contradict it.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;
use units::{Nanos, Scalar};

use super::error::PlanError;
use super::plan::{Arrivals, Model, Plan};

/// How much faster than in the log requests come, in millionths. As text `2x` or `2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String")]
pub struct Speed {
    micro: u64,
}

/// How the requests of one second are spread, in a log that has only whole seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Spread {
    /// Over the second.
    #[default]
    Even,
    /// Not at all: they come together.
    None,
}

/// A text that isn't a speed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invalid speed `{0}`: give a number from 0.001 to 1000, e.g. 2x")]
pub struct InvalidSpeed(String);

impl Speed {
    /// As fast as in the log.
    pub const ONE: Speed = Speed { micro: 1_000_000 };

    /// The speed in millionths.
    pub fn micro(self) -> u64 {
        self.micro
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x", self.micro as f64 / 1e6)
    }
}

impl FromStr for Speed {
    type Err = InvalidSpeed;

    fn from_str(text: &str) -> Result<Speed, InvalidSpeed> {
        let number = text.trim().trim_end_matches('x').parse::<f64>().ok();
        let number = number.filter(|number| (0.001..=1_000.0).contains(number));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "held in range"
        )]
        let micro = number.map(|number| (number * 1e6).round() as u64);
        micro.map(|micro| Speed { micro }).ok_or_else(|| InvalidSpeed(text.to_owned()))
    }
}

impl Serialize for Speed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Speed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Speed, D::Error> {
        Scalar::parse(deserializer)
    }
}

impl Plan {
    /// How much faster than in the log requests come.
    pub fn speed(&self) -> Speed {
        self.speed.unwrap_or(Speed::ONE)
    }

    /// How a log's seconds are spread.
    pub fn spread(&self) -> Spread {
        self.spread.unwrap_or_default()
    }

    /// Refuses flags that contradict the log, and those that need one. What follows from the log
    /// itself isn't known here.
    pub(super) fn complete_replay(&mut self) -> Result<(), PlanError> {
        let Some(file) = &self.replay else { return self.refuse_without_log() };
        let own = "omit it, or --replay";
        if let Some(rate) = self.rate {
            return Err(PlanError::new("--rate", rate, "the log sets the rate", own));
        }
        if !self.stage.is_empty() {
            let problem = "the log sets the rates";
            return Err(PlanError::new("--stages", self.stages_text(), problem, own));
        }
        if let Some(period) = self.period {
            let problem = "the log sets when requests come";
            return Err(PlanError::new("--period", period, problem, own));
        }
        // Once the log was read, the plan has a number of requests, and its methods as scenarios.
        if !self.scenario.is_empty() && self.requests.is_none() {
            let count = format!("{} scenarios", self.scenario.len());
            let problem = "the log has the requests";
            return Err(PlanError::new("--targets", count, problem, own));
        }
        if self.model == Some(Model::Closed) {
            let problem = "a closed model has no times: its users wait for responses";
            return Err(PlanError::new("--replay", file.display(), problem, "use --model open"));
        }
        if self.arrivals == Arrivals::Constant {
            let problem = "the log sets when requests come";
            return Err(PlanError::new("--arrivals", "constant", problem, own));
        }
        if self.warmup != Nanos(0) {
            let problem = "a log has no requests before its first one";
            let cure = "omit it; --prewarm N opens connections before the first request";
            return Err(PlanError::new("--warmup", self.warmup, problem, cure));
        }
        self.arrivals = Arrivals::Log;
        Ok(())
    }

    fn refuse_without_log(&self) -> Result<(), PlanError> {
        let speed = self.speed.map(|speed| ("--speed", speed.to_string()));
        let spread = self.spread.map(|spread| match spread {
            Spread::Even => ("--spread", "even".to_owned()),
            Spread::None => ("--spread", "none".to_owned()),
        });
        let log = (self.arrivals == Arrivals::Log).then(|| ("--arrivals", "log".to_owned()));
        match speed.or(spread).or(log) {
            None => Ok(()),
            Some((flag, value)) => {
                let problem = "there is no log to send again";
                Err(PlanError::new(flag, value, problem, "omit it, or name the log: --replay FILE"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            target: "http://h/".to_owned(),
            replay: Some("access.log".into()),
            warmup: Nanos(0),
            ..Plan::default()
        }
    }

    #[test]
    fn speeds_are_read_and_printed() {
        for (text, shown, micro) in
            [("2x", "2x", 2_000_000), ("0.5", "0.5x", 500_000), (" 10x", "10x", 10_000_000)]
        {
            let speed: Speed = text.parse().expect(text);
            assert_eq!((speed.to_string().as_str(), speed.micro()), (shown, micro));
        }
        for text in ["", "x", "0", "-1", "1001", "fast", "NaN", "inf"] {
            let error = text.parse::<Speed>().expect_err(text).to_string();
            assert!(error.contains("give a number from 0.001 to 1000"), "{error}");
        }
    }

    #[test]
    fn a_replay_is_open_and_its_times_are_the_logs() {
        let completed = plan().complete(&[0]).expect("it runs");
        assert_eq!((completed.model(), completed.arrivals), (Model::Open, Arrivals::Log));
        let again = completed.clone().complete(&[0]).expect("the plan of a report runs");
        assert_eq!(again, completed);
    }

    #[test]
    fn flags_that_contradict_the_log_are_refused() {
        let none = || Plan { replay: None, ..plan() };
        for (plan, start, cure) in [
            (Plan { rate: "5".parse().ok(), ..plan() }, "--rate 5: the log", "or --replay"),
            (
                Plan { stage: vec!["5:1s".parse().expect("a stage")], ..plan() },
                "--stages 5:1s: the log",
                "or --replay",
            ),
            (Plan { period: Some(Nanos(9)), ..plan() }, "--period 9ns: the log", "or --replay"),
            (
                Plan { model: Some(Model::Closed), ..plan() },
                "--replay access.log: a closed model",
                "--model open",
            ),
            (
                Plan { arrivals: Arrivals::Constant, ..plan() },
                "--arrivals constant: the log",
                "or --replay",
            ),
            (
                Plan { warmup: Nanos::from_secs(5), ..plan() },
                "--warmup 5s: a log",
                "before the first request",
            ),
            (Plan { speed: "2x".parse().ok(), ..none() }, "--speed 2x: there is", "--replay FILE"),
            (
                Plan { spread: Some(Spread::None), ..none() },
                "--spread none: there is",
                "--replay FILE",
            ),
            (
                Plan { arrivals: Arrivals::Log, ..none() },
                "--arrivals log: there is",
                "--replay FILE",
            ),
        ] {
            let error = plan.complete(&[0]).expect_err(start).to_string();
            assert!(error.starts_with(start) && error.ends_with(cure), "{error}");
        }
    }
}
