//! The order of a session's requests: which step follows which, and after which think time.

use plan::Plan;
use plan::think::Think;
use units::Nanos;

use super::think::think_ns;

pub use super::think::At;

/// The steps of a plan's scenarios, as sessions go through them.
#[derive(Clone, Debug, Default)]
pub struct Course {
    steps: Vec<Stop>,
}

/// A step of it.
#[derive(Clone, Copy, Debug)]
struct Stop {
    /// How long a user thinks before it.
    think: Think,
    /// The most times that it is sent, one after the other.
    rounds: u16,
    /// The bit of the captured value without which it isn't sent.
    needs: Option<u8>,
    /// The steps before and after it that are hops of the same redirect, and itself among them.
    hops_before: u16,
    hops_after: u16,
    /// True if it is its scenario's last step.
    is_last: bool,
}

impl Course {
    /// The course of a plan; empty if it makes one request.
    pub fn of_plan(plan: &Plan) -> Course {
        let mut steps = Vec::new();
        for scenario in &plan.scenario {
            let captures = scenario.captures();
            let needs = |name: &str| {
                let place = captures.iter().position(|capture| *capture == name);
                u8::try_from(place.expect("the plan checks it")).expect("at most CAPTURES_MAX")
            };
            let hops = |at: usize| {
                let hops = scenario.hops(at);
                let count = |steps: usize| u16::try_from(steps).expect("steps have 16 bits");
                match hops.is_empty() {
                    true => (0, 0),
                    false => (count(at - hops.start), count(hops.end - at - 1)),
                }
            };
            steps.extend((1..).zip(&scenario.step).map(|(count, step)| Stop {
                hops_before: hops(count - 1).0,
                hops_after: hops(count - 1).1,
                think: step.think.or(scenario.think).unwrap_or(Think::Constant(Nanos(0))),
                rounds: step.repeat.unwrap_or(1),
                needs: step.when_set().map(needs),
                is_last: count == scenario.step.len(),
            }));
        }
        Course { steps }
    }

    /// True if a session may have a request after its first, of this step.
    pub fn goes_on(&self, step: u16) -> bool {
        self.steps.get(usize::from(step)).is_some_and(|stop| !stop.is_last)
    }

    /// True if some scenario has several requests.
    pub fn is_any(&self) -> bool {
        self.steps.iter().any(|stop| !stop.is_last)
    }

    /// True if the step isn't repeated after this.
    pub fn is_last_round(&self, at: At) -> bool {
        self.steps[usize::from(at.step)].rounds <= at.round + 1
    }

    /// The next request of a session that has captured these values (a bit for each).
    pub fn after(&self, at: At, captured: u64) -> Option<At> {
        self.from(at).find(|(_, stop)| stop.is_taken(captured)).map(|(at, _)| at)
    }

    /// All requests of which one is a session's next, or none if all may be left out.
    pub fn may_follow(&self, at: At) -> (Vec<At>, bool) {
        let mut may = Vec::new();
        for (next, stop) in self.from(at) {
            may.push(next);
            if stop.needs.is_none() {
                return (may, false);
            }
        }
        (may, true)
    }

    /// The rest of the course, the next round of the step, or of one of its hops, first.
    fn from(&self, at: At) -> impl Iterator<Item = (At, Stop)> {
        let Stop { hops_before, hops_after, rounds, .. } = self.steps[usize::from(at.step)];
        let (first, last) = (at.step - hops_before, at.step + hops_after);
        let round = at.round + 1;
        let again = (first..=last).filter(move |_| round < rounds);
        let again = again.map(move |step| (At { step, round }, self.steps[usize::from(step)]));
        let last = usize::from(last);
        let later = match self.steps[last].is_last {
            true => &[][..],
            false => &self.steps[last + 1..],
        };
        let end = later.iter().position(|stop| stop.is_last).map_or(0, |at| at + 1);
        let later = later[..end].iter().zip(at.step + hops_after + 1..);
        again.chain(later.map(|(stop, step)| (At::first(step), *stop)))
    }

    /// How long the session with this number thinks before a request, ns.
    pub fn think_ns(&self, seed: u64, number: u64, at: At) -> u64 {
        think_ns(self.steps[usize::from(at.step)].think, seed, number, at)
    }
}

impl Stop {
    fn is_taken(self, captured: u64) -> bool {
        self.needs.is_none_or(|bit| captured & 1 << bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use plan::scenario::{Redirect, Scenario, Step};

    use super::*;

    /// A scenario of five steps and one of a single step.
    fn course() -> Course {
        let step = |when: &str, repeat| Step {
            url: Some("/".to_owned()),
            when: (!when.is_empty()).then(|| format!("{{{{{when}}}}} is set").parse().expect("it")),
            repeat,
            ..Step::default()
        };
        let captures = [("a", "status"), ("b", "status")];
        let captures = captures.map(|(name, text)| (name.to_owned(), text.to_owned()));
        let first = Step { capture: captures.into(), ..step("", None) };
        let steps =
            vec![first, step("a", None), step("b", Some(2)), step("", Some(3)), step("a", None)];
        let scenario = [steps, vec![step("", None)]].map(|step| Scenario {
            think: Some("2ns".parse().expect("a think time")),
            step,
            ..Scenario::default()
        });
        Course::of_plan(&Plan { scenario: scenario.into(), ..Plan::default() })
    }

    fn walk(captured: u64) -> Vec<(u16, u16)> {
        let course = course();
        let steps = std::iter::successors(Some(At::first(0)), |at| course.after(*at, captured));
        steps.map(|At { step, round }| (step, round)).collect()
    }

    #[test]
    fn steps_are_repeated_and_left_out() {
        let middle = [(3, 0), (3, 1), (3, 2)];
        assert_eq!(walk(0), [&[(0, 0)], &middle[..]].concat());
        assert_eq!(walk(0b01), [&[(0, 0), (1, 0)], &middle[..], &[(4, 0)]].concat());
        assert_eq!(walk(0b10), [&[(0, 0), (2, 0), (2, 1)], &middle[..]].concat());
    }

    #[test]
    fn hops_follow_each_other_in_any_order() {
        let step = |url: &str| Step { url: Some(url.to_owned()), ..Step::default() };
        let first = Step { redirect: Some(Redirect::Any), ..step("http://h/") };
        let scenario =
            vec![Scenario { step: vec![first, step("http://o/")], ..Scenario::default() }];
        let plan = Plan {
            target: "http://h/".to_owned(),
            rate: "1".parse().ok(),
            scenario,
            ..Plan::default()
        };
        let course = Course::of_plan(&plan.complete(&[0]).expect("it runs"));
        // The values have places by their names' first use: the own host's, the other's.
        let (own, other) = (0b01, 0b10);
        let after = |step, round, captured| {
            course.after(At { step, round }, captured).map(|at| (at.step, at.round))
        };
        assert_eq!(after(0, 0, 0), Some((3, 0)), "it wasn't redirected");
        assert_eq!((after(0, 0, own), after(0, 0, other)), (Some((1, 0)), Some((2, 0))));
        assert_eq!((after(2, 0, own), after(2, 3, other)), (Some((1, 1)), Some((2, 4))));
        assert_eq!((after(1, 4, own), after(2, 1, 0)), (Some((3, 0)), Some((3, 0))));
        let (may, is_end) = course.may_follow(At { step: 2, round: 0 });
        let may: Vec<u16> = may.iter().map(|at| at.step).collect();
        assert_eq!((may, is_end), (vec![1, 2, 3], false));
    }

    #[test]
    fn what_may_follow_ends_with_what_must() {
        let course = course();
        let of = |step, round| {
            let (may, is_end) = course.may_follow(At { step, round });
            (may.into_iter().map(|At { step, round }| (step, round)).collect::<Vec<_>>(), is_end)
        };
        assert_eq!(of(0, 0), (vec![(1, 0), (2, 0), (3, 0)], false));
        assert_eq!(of(2, 0), (vec![(2, 1), (3, 0)], false));
        assert_eq!(of(3, 0), (vec![(3, 1)], false));
        assert_eq!(of(3, 2), (vec![(4, 0)], true));
        assert_eq!(of(4, 0), (vec![], true));
        assert_eq!((course.goes_on(3), course.goes_on(4), course.goes_on(5)), (true, false, false));
        assert_eq!(course.think_ns(1, 7, At::first(3)), 2);
    }
}
