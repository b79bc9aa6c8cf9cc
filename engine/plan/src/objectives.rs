//! The objectives of a plan: its own and those of its scenarios, and the names that these refer to.

use super::error::PlanError;
use super::plan::Plan;
use super::scenario::Scenario;
use super::similar::most_similar_first;
use super::slo::{Clause, Objective, Objectives};

/// The most names that an error lists.
const NAMES_SHOWN: usize = 10;

impl Plan {
    /// All objectives of a completed plan: its own, then those of its scenarios' steps.
    pub fn objectives(&self) -> Option<Objectives> {
        let own = self.slo.iter().flat_map(Objectives::iter).cloned();
        let of_steps = self.named_steps().flat_map(|(name, step)| {
            let clauses = step.slo.iter().flat_map(Objectives::iter);
            clauses.map(move |clause| Clause { of: Some(name.clone()), ..clause.clone() })
        });
        let all: Vec<Clause> = own.chain(of_steps).collect();
        (!all.is_empty()).then_some(Objectives(all))
    }

    /// Refuses objectives of a name that isn't in the plan or is ambiguous, and those that have no
    /// meaning for a part of the run.
    pub(super) fn check_objectives(&self) -> Result<(), PlanError> {
        let refuse =
            |of: &str, problem: &str, cure: &str| Err(PlanError::new("--slo", of, problem, cure));
        for (name, step) in self.named_steps() {
            let mut clauses = step.slo.iter().flat_map(Objectives::iter);
            if let Some(of) = clauses.find_map(|clause| clause.of.as_ref()) {
                let problem =
                    format!("it is in the slo of {name:?}, whose objectives have no name");
                return refuse(of, &problem, "leave the name out, or give it with --slo");
            }
        }
        let all = self.objectives();
        let all: Vec<&Clause> = all.iter().flat_map(Objectives::iter).collect();
        for (at, Clause { of, objective }) in all.iter().enumerate() {
            let Some(of) = of else { continue };
            let metric = objective.metric();
            // Only the log has the names of its routes.
            let is_known = self.replay.is_none() || !self.scenario.is_empty();
            match self.part_names().iter().filter(|name| *name == of).count() {
                0 if !is_known => {}
                0 => {
                    // Results call a stage without a name by its number.
                    let number = of.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
                    if let Some(stage) = number.and_then(|at| self.stage.get(at))
                        && stage.name.is_empty()
                    {
                        let problem = format!("stage {of} has no name");
                        let cure = format!("give it one, e.g. busy={stage}, and use that");
                        return refuse(of, &problem, &cure);
                    }
                    let is_whole = |it: &Scenario| it.name == *of;
                    if let Some(scenario) = self.scenario.iter().find(|it| is_whole(it)) {
                        let problem = "this scenario has several steps, which have objectives";
                        let first = self.names_like(&format!("{}/", scenario.name));
                        return refuse(of, problem, &first);
                    }
                    let problem = "neither a scenario nor a stage has this name";
                    return refuse(of, problem, &self.names_like(of));
                }
                1 => {}
                _ => {
                    let problem = "both a scenario and a stage have this name";
                    return refuse(of, problem, "give one of them another");
                }
            }
            if let Objective::Rate { .. } = objective {
                return refuse(of, "`rate` is for the whole run", "give it without a name");
            }
            let is_same = |other: &&Clause| {
                other.of.as_ref() == Some(of) && other.objective.metric() == metric
            };
            if all[..at].iter().any(is_same) {
                // One text never has both, so the other is the scenario's own.
                let place = self.scenario_key();
                let problem = format!("{metric} has two bounds, here and as its `slo` in {place}");
                return refuse(of, &problem, "keep one");
            }
        }
        Ok(())
    }

    /// The names of steps and stages.
    fn part_names(&self) -> Vec<String> {
        let steps = self.named_steps().map(|(name, _)| name);
        let stages = self.stage.iter().map(|stage| stage.name.clone());
        steps.chain(stages).filter(|name| !name.is_empty()).collect()
    }

    /// The cure for a name that nothing has: the names that something has, the most similar first.
    fn names_like(&self, unknown: &str) -> String {
        let names = self.part_names();
        let names = most_similar_first(unknown, names.iter().map(String::as_str));
        if names.is_empty() {
            return "name scenarios with --targets, or stages with --stages NAME=…".to_owned();
        }
        let (shown, others) = names.split_at(names.len().min(NAMES_SHOWN));
        let others = match others.len() {
            0 => String::new(),
            others => format!(" and {others} others"),
        };
        format!("choose from {}{others}", shown.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Step;

    #[test]
    fn an_objective_for_a_name_needs_one_scenario_or_stage_of_that_name() {
        let scenario = |name: &str, slo: Option<&str>| Scenario {
            name: name.to_owned(),
            weight: 1,
            step: vec![Step { slo: slo.map(|slo| slo.parse().expect(slo)), ..Step::default() }],
            ..Scenario::default()
        };
        let plan = |slo: &str| Plan {
            target: "http://h/".to_owned(),
            scenario: vec![scenario("search", Some("p50<1ms")), scenario("home", None)],
            stage: vec!["steady=5:1s".parse().expect("a stage"), "7:1s".parse().expect("another")],
            slo: slo.parse().ok(),
            ..Plan::default()
        };
        let fine = plan("p99<1s,steady: errors<1%,home: p99<2s").complete(&[0]).expect("it runs");
        assert_eq!(
            fine.objectives().expect("some").to_string(),
            "p99<1s,steady: errors<1%,home: p99<2s,search: p50<1ms"
        );
        assert_eq!(Plan::default().objectives(), None);
        let both = Plan { stage: vec!["home=5:1s".parse().expect("a stage")], ..plan("x") };
        let named = Plan { scenario: vec![scenario("a", Some("b: p50<1s"))], ..plan("x") };
        for (plan, problem) in [
            (plan("serch: p99<1s"), "serch: neither a scenario nor a stage has this name; choose"),
            (plan("serch: p99<1s"), "from search, steady, home"),
            (plan("2: p99<1s"), "2: stage 2 has no name; give it one, e.g. busy=7:1s, and"),
            (plan("1: p99<1s"), "1: neither a scenario nor a stage has this name"),
            (plan("3: p99<1s"), "3: neither a scenario nor a stage has this name"),
            (plan("search: rate>=0.9"), "search: `rate` is for the whole run"),
            (
                plan("search: p50<2ms"),
                "search: p50 has two bounds, here and as its `slo` in --targets; keep",
            ),
            (Plan { slo: "home: p90<1s".parse().ok(), ..both }, "both a scenario and a stage"),
            (named, "b: it is in the slo of \"a\", whose objectives have no name"),
            (
                Plan {
                    scenario: Vec::new(),
                    stage: Vec::new(),
                    rate: "5".parse().ok(),
                    ..plan("a: p90<1s")
                },
                "name scenarios with --targets",
            ),
        ] {
            let error = plan.complete(&[0]).expect_err(problem).to_string();
            assert!(error.starts_with("--slo ") && error.contains(problem), "{error}");
        }
    }
}
