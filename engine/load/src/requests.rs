//! The length of a window that ends after a number of requests, for a schedule and for paced users.
//!
//! The plan alone determines it, so a run with a given number of requests has an ordinary window,
//! and `verify` finds the same end: the window ends when the request after its last would be due.
//! Earlier blocks of the schedule are counted without being drawn. If the last request and the next
//! coincide in one nanosecond, no window can end between them, and the plan is refused.

use plan::data::{Data, End};
use plan::{DURATION_MAX, Plan, PlanError};
use units::Nanos;

use super::curve::Curve;
use super::schedule::{Due, Schedule};
use super::share::Share;

/// Ends the window of a completed plan after its `requests`, where the plan determines when that
/// is: when the next one would be due, so that requests over length are the rate, or at its
/// `duration`, if that comes first.
///
/// # Errors
/// The last of them and the next are due in the same ns.
pub fn end_window(plan: &mut Plan) -> Result<(), PlanError> {
    // A log's own end is known, and its requests with it.
    let requests = plan.requests.filter(|_| plan.replay.is_none());
    let Some(requests) = requests else { return Ok(()) };
    let Some(last) = due(plan, requests) else { return Ok(()) };
    if last.with_next {
        return Err(PlanError::new(
            "--requests",
            requests,
            "with this seed, the last of them and the next are due in the same ns",
            "give one more or one less, or another --seed",
        ));
    }
    let end_ns = match due(plan, requests + 1) {
        Some(next) => next.due_ns,
        // No length was given, and the next request is due after the longest window.
        None if plan.duration == DURATION_MAX => last.due_ns + 1,
        None => return Ok(()),
    };
    plan.duration = Nanos(end_ns - plan.warmup.0);
    Ok(())
}

/// Ends the window of a completed plan with the rows of its data, where they are to stop it, as if
/// so many requests had been asked for; [`end_window`] then finds when that is.
///
/// # Errors
/// A file's rows have to suffice for all requests, and don't, or may not.
pub fn end_with_rows(plan: &mut Plan, data: &[Data]) -> Result<(), PlanError> {
    for one in data.iter().filter(|one| one.of.end == End::Stop) {
        let rows = one.table.rows();
        plan.requests = Some(plan.requests.map_or(rows, |requests| requests.min(rows)));
    }
    for one in data.iter().filter(|one| one.of.end == End::Fail) {
        let rows = one.table.rows();
        if plan.requests.is_some_and(|requests| requests <= rows) {
            continue;
        }
        let more = "give more rows, omit `,fail` to take them again";
        if plan.unpaced_users().is_some() {
            let problem = format!(
                "whether {rows} rows suffice depends on how fast users without a --period are \
                 answered"
            );
            return Err(one.refuse(
                problem,
                match plan.stage.is_empty() {
                    true => format!("give --requests {rows}, or `,stop`"),
                    false => "omit `,fail` to take them again".to_owned(),
                },
            ));
        }
        // A log's requests are known, and they are more.
        if plan.replay.is_some() || due(plan, rows + 1).is_some() {
            let problem = format!("the run needs more than its {rows} rows");
            return Err(one.refuse(problem, format!("{more}, or give --requests {rows}")));
        }
    }
    Ok(())
}

/// True if the plan alone shows that a completed plan's window ends before its last request.
pub fn is_cut_short(plan: &Plan) -> bool {
    let counted = plan.requests.filter(|_| plan.replay.is_none());
    let has_all = counted.is_none_or(|requests| due(plan, requests).is_some());
    !has_all && !plan.ends_by_count()
}

/// When request `number` of the window is due; `None` if that is after the window's end, or depends
/// on responses.
fn due(plan: &Plan, number: u64) -> Option<Due> {
    let (window_ns, end_ns) = (plan.warmup.0, plan.end_ns());
    match (Curve::of_plan(plan), plan.period) {
        (Some(curve), _) => {
            let whole = Share::whole();
            let schedule = Schedule::new(curve, plan.arrivals, plan.seed, end_ns, whole);
            schedule.nth_from(window_ns, number)
        }
        // Users who come and go have the numbers of those who all stay, with some left out.
        (None, Some(period)) => {
            let due_ns = paced_due_ns(period.0, plan.conns() as u64, window_ns, number)?;
            (due_ns < end_ns).then_some(Due { due_ns, with_next: false })
        }
        _ => None,
    }
}

/// When request `number` from `from_ns` on is due, for users spread evenly over a period. No two
/// are due in the same ns, since a plan's rate is limited.
fn paced_due_ns(period_ns: u64, users: u64, from_ns: u64, number: u64) -> Option<u64> {
    let due_ns = |k: u128| {
        let (round, user) = (k / u128::from(users), k % u128::from(users));
        u64::try_from(
            u128::from(period_ns) * round + u128::from(period_ns) * user / u128::from(users),
        )
        .ok()
    };
    // Request k is due at k·period/users, each round rounded down separately.
    let before = u128::from(from_ns) * u128::from(users) / u128::from(period_ns);
    let first = (before..).find(|k| due_ns(*k).is_none_or(|due_ns| from_ns <= due_ns))?;
    due_ns(first + u128::from(number) - 1)
}

#[cfg(test)]
mod tests {
    use plan::Arrivals;

    use super::*;
    use crate::paced::PacedLoad;

    fn plan(requests: u64) -> Plan {
        let plan = Plan {
            rate: Some("20k".parse().expect("a rate")),
            requests: Some(requests),
            warmup: Nanos(0),
            duration: Nanos::from_secs(3_600),
            ..Plan::default()
        };
        plan.complete(&[0]).expect("it runs")
    }

    fn intended(plan: &Plan) -> u64 {
        let curve = Curve::of_plan(plan).expect("a rate");
        let whole = Share::whole();
        let arrivals = Schedule::new(curve, plan.arrivals, plan.seed, plan.end_ns(), whole);
        arrivals.times_ns().filter(|due_ns| plan.warmup.0 <= *due_ns).count() as u64
    }

    #[test]
    fn a_schedules_window_has_exactly_so_many_requests() {
        for arrivals in [Arrivals::Poisson, Arrivals::Constant] {
            for requests in [1, 2, 19, 20, 21, 1_000, 33_333] {
                for warmup in [Nanos(0), Nanos(7), Nanos(1_500_001), Nanos::from_secs(1)] {
                    for rate in ["20k", "333.3", "1M"] {
                        let rate = Some(rate.parse().expect("a rate"));
                        let mut plan = Plan { arrivals, warmup, rate, ..plan(requests) };
                        end_window(&mut plan).expect("nothing coincides");
                        assert_eq!(intended(&plan), requests, "{plan:?}");
                        let ended = plan.clone();
                        end_window(&mut plan).expect("once more");
                        assert_eq!(plan, ended, "the plan of a report is the same plan");
                        plan.duration.0 += 1;
                        assert!(requests < intended(&plan), "it ends when the next is due");
                    }
                }
            }
        }
    }

    #[test]
    fn requests_at_equal_gaps_have_the_length_of_their_gaps() {
        let mut plan = Plan { arrivals: Arrivals::Constant, ..plan(5) };
        end_window(&mut plan).expect("nothing coincides");
        assert_eq!(plan.duration, Nanos(250_000), "5 at 20,000 per second");
    }

    #[test]
    fn a_duration_that_is_over_first_ends_the_window() {
        let mut plan = Plan { duration: Nanos(10_000_000), ..plan(1_000) };
        end_window(&mut plan).expect("nothing to do");
        assert_eq!(plan.duration, Nanos(10_000_000));
        assert!(is_cut_short(&plan));
        plan.duration = Nanos::from_secs(3_600);
        end_window(&mut plan).expect("nothing coincides");
        assert!(!is_cut_short(&plan));
    }

    #[test]
    fn requests_that_coincide_have_no_end_between_them() {
        let mut seeds = 0..1_000;
        // At 100 million per second a tenth of all arrivals coincide with the next.
        let rate = Some("100M".parse().expect("a rate"));
        let refused = seeds.find_map(|seed| {
            let mut plan = Plan { rate, seed, ..plan(50) };
            end_window(&mut plan).err()
        });
        let error = refused.expect("some do").to_string();
        assert!(error.starts_with("--requests 50: ") && error.contains("--seed"), "{error}");
    }

    #[test]
    fn paced_users_have_exactly_so_many() {
        for (period_ns, users) in [(100, 1), (100, 3), (1_000_003, 7), (64_000, 64)] {
            for from_ns in [0, 1, 99, 100, 101, 1_000_003, 5_000_000] {
                let mut load = PacedLoad::new(period_ns, users, &Share::whole(), None);
                let due = std::iter::from_fn(|| load.take_due(u64::MAX - 1, u64::MAX));
                let due: Vec<u64> = due
                    .map(|(_, due)| due.due_ns)
                    .skip_while(|due_ns| *due_ns < from_ns)
                    .take(50)
                    .collect();
                for (number, due_ns) in (1..).zip(due) {
                    let found = paced_due_ns(period_ns, users as u64, from_ns, number);
                    assert_eq!(found, Some(due_ns), "{period_ns} {users} {from_ns} {number}");
                }
            }
        }
    }
}
