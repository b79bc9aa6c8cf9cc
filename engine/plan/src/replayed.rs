//! Which flags contradict a log that is sent again, and which need one.

use units::Nanos;

use super::data::End;
use super::endpoint::{Endpoint, shown};
use super::error::PlanError;
use super::plan::{Arrivals, Model, Plan};
use super::replay::{LOG, Speed, Spread};

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
        let own = "omit one of the two";
        if let Some(rate) = self.rate {
            return Err(PlanError::new("--rate", rate, "the log of --replay sets the rate", own));
        }
        if !self.stage.is_empty() {
            let problem = "the log of --replay sets the rates";
            return Err(PlanError::new("--stages", self.stages_text(), problem, own));
        }
        if let Some(period) = self.period {
            let problem = "the log of --replay sets when requests come";
            return Err(PlanError::new("--period", period, problem, own));
        }
        if self.data.contains_key(LOG) {
            let problem = "the log's own fields have this name";
            return Err(PlanError::new("--data", LOG, problem, "give it another"));
        }
        if let Some((name, _)) = self.data.iter().find(|(_, data)| data.end == End::Stop) {
            let problem = "the log sets the length of the window";
            return Err(PlanError::new("--data", name, problem, "omit `,stop`, or give `,fail`"));
        }
        // Once the log was read, the plan has a number of requests, and its routes as scenarios.
        if !self.scenario.is_empty() && self.requests.is_none() {
            let count = format!("{} scenarios", self.scenario.len());
            let problem = "the log of --replay has the requests";
            return Err(PlanError::new("--targets", count, problem, own));
        }
        if self.model == Some(Model::Closed) {
            let problem = "a closed model has no times: its users wait for responses";
            return Err(PlanError::new("--replay", file.display(), problem, "use --model open"));
        }
        if self.arrivals == Arrivals::Constant {
            let problem = "the log of --replay sets when requests come";
            return Err(PlanError::new("--arrivals", "constant", problem, own));
        }
        if self.warmup != Nanos(0) {
            let problem = "a log has no requests before its first one";
            let cure = "omit it; --prewarm N opens connections before the first request";
            return Err(PlanError::new("--warmup", self.warmup, problem, cure));
        }
        if Endpoint::parse(&self.target).is_ok_and(|target| target.path.contains('?')) {
            let problem = "the requests of --replay have the log's queries";
            return Err(PlanError::new("--target", shown(&self.target), problem, "omit the query"));
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
                let problem = "only --replay uses it";
                Err(PlanError::new(flag, value, problem, "omit it, or name a log: --replay FILE"))
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
    fn a_replay_is_open_and_its_times_are_the_logs() {
        let completed = plan().complete(&[0]).expect("it runs");
        assert_eq!((completed.model(), completed.arrivals), (Model::Open, Arrivals::Log));
        let again = completed.clone().complete(&[0]).expect("the plan of a report runs");
        assert_eq!(again, completed);
    }

    #[test]
    fn flags_that_contradict_the_log_are_refused() {
        let none = || Plan { replay: None, ..plan() };
        let with_data = |name: &str, file: &str| {
            let file = file.parse().expect("a data file");
            Plan { data: [(name.to_owned(), file)].into(), ..plan() }
        };
        for (plan, start, cure) in [
            (Plan { rate: "5".parse().ok(), ..plan() }, "--rate 5: the log", "omit one of the two"),
            (
                Plan { stage: vec!["5:1s".parse().expect("a stage")], ..plan() },
                "--stages 5:1s: the log",
                "omit one of the two",
            ),
            (
                Plan { period: Some(Nanos(9)), ..plan() },
                "--period 9ns: the log",
                "omit one of the two",
            ),
            (
                Plan { model: Some(Model::Closed), ..plan() },
                "--replay access.log: a closed model",
                "--model open",
            ),
            (
                Plan { arrivals: Arrivals::Constant, ..plan() },
                "--arrivals constant: the log",
                "omit one of the two",
            ),
            (
                Plan { warmup: Nanos::from_secs(5), ..plan() },
                "--warmup 5s: a log",
                "before the first request",
            ),
            (
                Plan { target: "http://h/a?b=pa55".to_owned(), ..plan() },
                "--target http://h/a?…: the requests of --replay",
                "omit the query",
            ),
            (with_data("log", "a.csv"), "--data log: the log's own fields", "give it another"),
            (with_data("a", "a.csv,stop"), "--data a: the log sets the length", "give `,fail`"),
            (Plan { speed: "2x".parse().ok(), ..none() }, "--speed 2x: only", "--replay FILE"),
            (Plan { spread: Some(Spread::None), ..none() }, "--spread none: only", "--replay FILE"),
            (Plan { arrivals: Arrivals::Log, ..none() }, "--arrivals log: only", "--replay FILE"),
        ] {
            let error = plan.complete(&[0]).expect_err(start).to_string();
            assert!(error.starts_with(start) && error.ends_with(cure), "{error}");
        }
    }
}
