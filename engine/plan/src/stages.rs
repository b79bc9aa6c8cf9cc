//! The stages of a plan: when each begins and ends, and which flags contradict them.

use std::ops::Range;

use units::{Nanos, Rate};

use super::complete::DURATION_MAX;
use super::error::PlanError;
use super::plan::{Model, Plan};
use super::stage::Stage;

/// The most parts of a plan: steps in stages, each with its own results, for which a shard keeps up
/// to 0.8 MB.
pub const PARTS_MAX: usize = 1_000;

impl Plan {
    /// The stages of a completed plan, each with its span of the run, ns since the epoch.
    pub fn stages(&self) -> impl Iterator<Item = (&Stage, Range<u64>)> + '_ {
        let mut start_ns = self.warmup.0;
        self.stage.iter().map(move |stage| {
            let span = start_ns..start_ns + stage.duration.0;
            start_ns = span.end;
            (stage, span)
        })
    }

    /// True if the rate changes within the window, so that its percentiles mix rates.
    pub fn rate_changes(&self) -> bool {
        let first = self.stage.first().map(|stage| stage.from);
        self.replay.is_some()
            || self.stage.iter().any(|stage| [stage.from, stage.to].map(Some) != [first; 2])
    }

    /// The stages in the notation of `--stages`.
    pub fn stages_text(&self) -> String {
        self.stage.iter().map(ToString::to_string).collect::<Vec<String>>().join(",")
    }

    /// Makes the window as long as all stages together, and refuses flags that contradict them.
    pub(super) fn complete_stages(&mut self) -> Result<(), PlanError> {
        if self.stage.is_empty() {
            return Ok(());
        }
        let own = "omit it, or --stages";
        if let Some(rate) = self.rate {
            return Err(PlanError::new("--rate", rate, "the stages set the rate", own));
        }
        if let Some(period) = self.period {
            let problem = "stages set an arrival rate, and only a closed model has a period";
            return Err(PlanError::new("--period", period, problem, own));
        }
        if let Some(requests) = self.requests {
            let problem = "the stages set the length of the window";
            return Err(PlanError::new("--requests", requests, problem, own));
        }
        let refuse = |problem: String, cure| {
            Err(PlanError::new("--stages", self.stages_text(), problem, cure))
        };
        if self.model == Some(Model::Closed) {
            let problem = "a closed model has no rate: its connections wait for responses";
            return refuse(problem.to_owned(), "omit it, or use --model open");
        }
        if let Some(at) = self.stage.iter().position(|stage| stage.duration.0 == 0) {
            return refuse(format!("stage {} has no length", at + 1), "leave it out");
        }
        if self.stage.iter().all(|stage| (stage.from, stage.to) == (Rate::ZERO, Rate::ZERO)) {
            let problem = "no stage has a rate above 0".to_owned();
            return refuse(problem, "give one of them a rate, e.g. 0..100:30s");
        }
        for (at, Stage { name, .. }) in self.stage.iter().enumerate() {
            if name.chars().any(char::is_control) {
                let problem = format!("the name of stage {} has a control character", at + 1);
                return refuse(problem, "leave it out");
            }
            if !name.is_empty() && self.stage[..at].iter().any(|other| other.name == *name) {
                let problem = format!("two stages are called {name:?}");
                return refuse(problem, "give each a name of its own, or none");
            }
        }
        let sum = self.stage.iter().fold(0, |sum: u64, stage| sum.saturating_add(stage.duration.0));
        let whole = Nanos(sum);
        if DURATION_MAX < whole {
            let problem = format!("they take {whole}, and a window takes at most {DURATION_MAX}");
            return refuse(problem, "give shorter ones");
        }
        let (stages, steps) = (self.stage.len(), self.step_count());
        if PARTS_MAX < stages.saturating_mul(steps) {
            let problem = format!(
                "{stages} stages of {steps} scenarios have {} results, more than {PARTS_MAX}",
                stages.saturating_mul(steps)
            );
            return refuse(problem, "give fewer stages, or fewer scenarios");
        }
        if ![Plan::default().duration, whole].contains(&self.duration) {
            let problem = format!("the stages take {whole}");
            return Err(PlanError::new("--duration", self.duration, problem, own));
        }
        self.duration = whole;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Scenario, Step};

    fn stages(text: &str) -> Vec<Stage> {
        text.split(',').map(|stage| stage.parse().expect(stage)).collect()
    }

    fn plan(text: &str) -> Plan {
        Plan { target: "http://h/".to_owned(), stage: stages(text), ..Plan::default() }
    }

    #[test]
    fn a_plan_with_stages_is_open_and_as_long_as_they_are() {
        let completed = plan("0..100:30s,100:1m").complete(&[0]).expect("it runs");
        assert_eq!((completed.model(), completed.duration), (Model::Open, Nanos::from_secs(90)));
        let again = completed.clone().complete(&[0]).expect("the plan of a report runs");
        assert_eq!(again, completed);
        let spans: Vec<Range<u64>> = completed.stages().map(|(_, span)| span).collect();
        let ns = |seconds: u64| Nanos::from_secs(seconds).0;
        assert_eq!(spans, [ns(5)..ns(35), ns(35)..ns(95)]);
    }

    #[test]
    fn percentiles_mix_rates_where_the_rate_changes() {
        for (text, changes) in
            [("5:1s", false), ("5:1s,5:2s", false), ("5:1s,6:1s", true), ("5..6:1s", true)]
        {
            assert_eq!(plan(text).rate_changes(), changes, "{text}");
        }
        assert!(!Plan { rate: "5".parse().ok(), ..Plan::default() }.rate_changes());
    }

    #[test]
    fn flags_that_contradict_stages_are_refused() {
        let of = || plan("100:30s,200:30s");
        let many = |count: usize| vec![stages("1:1s")[0].clone(); count];
        let scenario = |at: usize| Scenario {
            name: at.to_string(),
            weight: 1,
            step: [Step { url: Some("/".to_owned()), ..Step::default() }],
        };
        for (plan, start, cure) in [
            (Plan { rate: "5".parse().ok(), ..of() }, "--rate 5: the stages", "or --stages"),
            (Plan { period: Some(Nanos(9)), ..of() }, "--period 9ns: stages", "or --stages"),
            (Plan { requests: Some(7), ..of() }, "--requests 7: the stages", "or --stages"),
            (
                Plan { duration: Nanos::from_secs(10), ..of() },
                "--duration 10s: the stages take 1m",
                "or --stages",
            ),
            (
                Plan { model: Some(Model::Closed), ..of() },
                "--stages 100:30s,200:30s: a closed model",
                "--model open",
            ),
            (plan("5:1s,6:0s"), "--stages 5:1s,6:0s: stage 2 has no length", "leave it out"),
            (plan("0:1s,0..0:2s"), "--stages 0:1s,0:2s: no stage", "a rate, e.g. 0..100:30s"),
            (plan("a=1:1s,b=1:1s,a=1:1s"), "--stages a=1:1s,b=1:1s,a=1:1s: two", "or none"),
            (plan("1:1s,a\u{7}=1:1s"), "--stages 1:1s,a\u{7}=1:1s: the name of", "leave it out"),
            (plan("1:100h,1:100h"), "--stages 1:100h,1:100h: they take 200h", "shorter ones"),
            (Plan { stage: many(1_001), ..of() }, "--stages 1:1s,", "or fewer scenarios"),
            (
                Plan { stage: many(5), scenario: (0..201).map(scenario).collect(), ..of() },
                "--stages 1:1s,1:1s,1:1s,1:1s,1:1s: 5 stages of 201 scenarios have 1005 results",
                "or fewer scenarios",
            ),
        ] {
            let error = plan.complete(&[0]).expect_err(start).to_string();
            assert!(error.starts_with(start) && error.ends_with(cure), "{error}");
        }
    }
}
