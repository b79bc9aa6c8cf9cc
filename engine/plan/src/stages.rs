//! The stages of a plan: when each begins and ends, and which flags contradict them.

use std::ops::Range;

use units::{Nanos, Rate};

use super::complete::DURATION_MAX;
use super::endpoints::CONNS_MAX;
use super::error::PlanError;
use super::plan::{Model, Plan};
use super::stage::{LoadOf, Stage};

/// The most parts of a plan: steps in stages, each with its own results. For each of them, a shard
/// keeps up to 0.8 MB.
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

    /// The name of the stage with this number, from 1; the number itself if it has none.
    pub fn stage_label(&self, number: usize) -> String {
        let stage = number.checked_sub(1).and_then(|at| self.stage.get(at));
        let named = stage.filter(|stage| !stage.name.is_empty());
        named.map_or_else(|| number.to_string(), |stage| stage.name.clone())
    }

    /// True if the load changes within the window, so that its percentiles mix rates, or numbers of
    /// users.
    pub fn load_changes(&self) -> bool {
        let first = self.stage.first().map(|stage| stage.from);
        self.replay.is_some()
            || self.stage.iter().any(|stage| [stage.from, stage.to].map(Some) != [first; 2])
    }

    /// The stages in the notation of `--stages`.
    pub fn stages_text(&self) -> String {
        self.stage.iter().map(ToString::to_string).collect::<Vec<String>>().join(",")
    }

    /// The stages of a completed plan if they have users who come and go; `None` for an open model,
    /// and for a number of users that stays the same.
    pub fn stages_of_users(&self) -> Option<impl Iterator<Item = (&Stage, Range<u64>)> + '_> {
        let has_users = self.model() == Model::Closed && !self.stage.is_empty();
        has_users.then(|| self.stages())
    }

    /// True if responses drive the load of this plan, as far as it says so before it is completed.
    /// Its stages then have users instead of rates.
    pub(super) fn asks_for_users(&self) -> bool {
        match self.model {
            Some(model) => model == Model::Closed,
            None => {
                self.period.is_some() || self.stage.iter().any(|stage| stage.load == LoadOf::Users)
            }
        }
    }

    /// Makes the window as long as all stages together, and refuses flags that contradict them.
    pub(super) fn complete_stages(&mut self) -> Result<(), PlanError> {
        if self.stage.is_empty() {
            return Ok(());
        }
        let own = "omit one of the two";
        if let Some(rate) = self.rate {
            return Err(PlanError::new("--rate", rate, "--stages sets the rate", own));
        }
        if let Some(requests) = self.requests {
            let problem = "--stages sets the length of the window";
            return Err(PlanError::new("--requests", requests, problem, own));
        }
        match self.asks_for_users() {
            true => self.complete_users()?,
            false => self.complete_rates()?,
        }
        let refuse = |problem: String, cure| {
            Err(PlanError::new("--stages", self.stages_text(), problem, cure))
        };
        if let Some(at) = self.stage.iter().position(|stage| stage.duration.0 == 0) {
            return refuse(format!("stage {} has no length", at + 1), "leave it out");
        }
        for (at, Stage { name, .. }) in self.stage.iter().enumerate() {
            if name.chars().any(char::is_control) {
                let problem = format!("the name of stage {} has a control character", at + 1);
                return refuse(problem, "leave it out");
            }
            // Results call a stage without a name by its number.
            let is_other = |number| number != at + 1 && (1..=self.stage.len()).contains(&number);
            if name.parse().is_ok_and(is_other) {
                let problem =
                    format!("stage {} is called {name:?}, the number of another stage", at + 1);
                return refuse(problem, "give it another name, or none");
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
            let problem = format!("--stages takes {whole}");
            return Err(PlanError::new("--duration", self.duration, problem, own));
        }
        self.duration = whole;
        Ok(())
    }

    /// Completes the stages of an open model, which have rates.
    fn complete_rates(&mut self) -> Result<(), PlanError> {
        if let Some(at) = self.stage.iter().position(|stage| stage.load == LoadOf::Users) {
            let problem = format!("stage {} has users, and an open model has none", at + 1);
            let cure = "give it a `rate`, or use --model closed";
            return Err(PlanError::new("--stages", self.stages_text(), problem, cure));
        }
        if self.most_in_stages() == Rate::ZERO {
            let problem = "no stage has a rate above 0";
            let cure = "give one of them a rate, e.g. 0..100:30s";
            return Err(PlanError::new("--stages", self.stages_text(), problem, cure));
        }
        self.stage = self.stage.drain(..).map(|stage| stage.of(LoadOf::Rate)).collect();
        Ok(())
    }

    /// Completes the stages of a closed model, which have users, each with a connection of its own.
    fn complete_users(&mut self) -> Result<(), PlanError> {
        let refuse = |problem: String, cure| {
            Err(PlanError::new("--stages", self.stages_text(), problem, cure))
        };
        if let Some(at) = self.stage.iter().position(|stage| stage.load == LoadOf::Rate) {
            let problem = format!("stage {} has a rate, and a closed model has none", at + 1);
            return refuse(problem, "give it `users`, or use --model open");
        }
        if let Some(at) = self.stage.iter().position(|stage| !stage.is_whole()) {
            let problem = format!("stage {} has a fraction of a user", at + 1);
            return refuse(problem, "give whole numbers of users, or use --model open for rates");
        }
        let most = self.most_in_stages().micro_per_second() / 1_000_000;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        if most == 0 {
            return refuse(
                "no stage has a user".to_owned(),
                "give one of them some, e.g. 0..10:30s",
            );
        }
        if CONNS_MAX < most {
            let problem = format!("{most} users, of whom there can be at most {CONNS_MAX}");
            return refuse(problem, "give fewer");
        }
        if let Some(conns) = self.conns.filter(|conns| *conns != most) {
            let problem = format!("the stages have up to {most} users, each with a connection");
            return Err(PlanError::new("--conns", conns, problem, "omit it, or --stages"));
        }
        if 1 < self.pipeline {
            let problem = "users who come and go have one request in flight each";
            let cure = "omit it, or give --conns instead of --stages";
            return Err(PlanError::new("--pipeline", self.pipeline, problem, cure));
        }
        self.conns = Some(most);
        self.model = Some(Model::Closed);
        self.stage = self.stage.drain(..).map(|stage| stage.of(LoadOf::Users)).collect();
        Ok(())
    }

    /// The highest load of its stages.
    fn most_in_stages(&self) -> Rate {
        let most = self.stage.iter().map(|stage| stage.from.max(stage.to)).max();
        most.unwrap_or(Rate::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Scenario, Step};

    fn stages(text: &str) -> Vec<Stage> {
        text.split(',').map(|stage| stage.parse().expect(stage)).collect()
    }

    /// The one stage that a plan file with these lines has.
    fn file(lines: &str) -> Vec<Stage> {
        vec![toml::from_str(&format!("{lines}\nduration = 30")).expect("a stage")]
    }

    fn closed(text: &str) -> Plan {
        Plan { model: Some(Model::Closed), ..plan(text) }
    }

    fn plan(text: &str) -> Plan {
        Plan { target: "http://h/".to_owned(), stage: stages(text), ..Plan::default() }
    }

    #[test]
    fn a_plan_with_stages_is_open_and_as_long_as_they_are() {
        assert!(plan("1=5:1s,9=6:1s").complete(&[0]).is_ok(), "these are no other stages' numbers");
        let completed = plan("0..100:30s,100:1m").complete(&[0]).expect("it runs");
        assert_eq!((completed.model(), completed.duration), (Model::Open, Nanos::from_secs(90)));
        let again = completed.clone().complete(&[0]).expect("the plan of a report runs");
        assert_eq!(again, completed);
        let spans: Vec<Range<u64>> = completed.stages().map(|(_, span)| span).collect();
        let ns = |seconds: u64| Nanos::from_secs(seconds).0;
        assert_eq!(spans, [ns(5)..ns(35), ns(35)..ns(95)]);
    }

    #[test]
    fn a_closed_model_has_as_many_users_as_its_stages_at_most() {
        for plan in [
            closed("2..10:30s,b=4:1m"),
            Plan { period: Some(Nanos::from_secs(1)), ..plan("2..10:30s,b=4:1m") },
            Plan { stage: [stages("2..10:30s"), file("users = 4")].concat(), ..plan("1:1s") },
        ] {
            let completed = plan.complete(&[0]).expect("it runs");
            assert_eq!((completed.model(), completed.conns()), (Model::Closed, 10));
            let users: Vec<(u64, u64)> = completed.stage.iter().map(Stage::users).collect();
            assert_eq!(users, [(2, 10), (4, 4)]);
            assert!(completed.stages_of_users().is_some() && completed.load_changes());
            let again = completed.clone().complete(&[0]).expect("the plan of a report runs");
            assert_eq!(again, completed);
            let text = toml::to_string(&completed).expect("a plan file");
            assert_eq!(toml::from_str::<Plan>(&text).expect("comes back"), completed);
        }
        let open = plan("2..10:30s").complete(&[0]).expect("it runs");
        assert!(open.stages_of_users().is_none());
    }

    #[test]
    fn percentiles_mix_loads_where_the_load_changes() {
        for (text, changes) in
            [("5:1s", false), ("5:1s,5:2s", false), ("5:1s,6:1s", true), ("5..6:1s", true)]
        {
            assert_eq!(plan(text).load_changes(), changes, "{text}");
        }
        assert!(!Plan { rate: "5".parse().ok(), ..Plan::default() }.load_changes());
    }

    #[test]
    fn flags_that_contradict_stages_are_refused() {
        let of = || plan("100:30s,200:30s");
        let many = |count: usize| vec![stages("1:1s")[0].clone(); count];
        let scenario = |at: usize| Scenario {
            name: at.to_string(),
            weight: 1,
            step: vec![Step { url: Some("/".to_owned()), ..Step::default() }],
            ..Scenario::default()
        };
        for (plan, start, cure) in [
            (Plan { rate: "5".parse().ok(), ..of() }, "--rate 5: --stages sets", "one of the two"),
            (Plan { requests: Some(7), ..of() }, "--requests 7: --stages", "one of the two"),
            (
                Plan { duration: Nanos::from_secs(10), ..of() },
                "--duration 10s: --stages takes 1m",
                "one of the two",
            ),
            (
                Plan { conns: Some(7), ..closed("100:30s,200:30s") },
                "--conns 7: the stages have up to 200 users",
                "or --stages",
            ),
            (Plan { pipeline: 2, ..closed("1:1s") }, "--pipeline 2: users who", "of --stages"),
            (Plan { rate: "5".parse().ok(), ..closed("1:1s") }, "--rate 5: --stages", "of the two"),
            (closed("1:1s,2..1.5:1s"), "--stages 1:1s,2..1.5:1s: stage 2 has a fra", "for rates"),
            (closed("0:1s,0..0:2s"), "--stages 0:1s,0:2s: no stage has a user", "0..10:30s"),
            (closed("0..2M:1s"), "--stages 0..2000000:1s: 2000000 users, of", "give fewer"),
            (
                Plan { stage: file("users = 3"), model: Some(Model::Open), ..of() },
                "--stages 3:30s: stage 1 has users, and an open model",
                "or use --model closed",
            ),
            (
                Plan { stage: file("rate = 3"), period: Some(Nanos(9)), ..of() },
                "--stages 3:30s: stage 1 has a rate, and a closed model",
                "or use --model open",
            ),
            (plan("5:1s,6:0s"), "--stages 5:1s,6:0s: stage 2 has no length", "leave it out"),
            (plan("0:1s,0..0:2s"), "--stages 0:1s,0:2s: no stage", "a rate, e.g. 0..100:30s"),
            (plan("a=1:1s,b=1:1s,a=1:1s"), "--stages a=1:1s,b=1:1s,a=1:1s: two", "or none"),
            (
                plan("2=1:1s,3:1s"),
                "--stages 2=1:1s,3:1s: stage 1 is called \"2\", the number of another",
                "another name, or none",
            ),
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
