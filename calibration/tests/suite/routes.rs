//! Of several routes, one stalls: its percentiles are those that the stalls predict, and those of
//! the others are as if there were none.

use std::time::Duration;

use crate::support::{alone, check_runs, open, plan, sample_target};
use anyhow::ensure;
use calibration::observed::{Observed, late};
use calibration::truth::{Late, Sample, Truth, highest_ms};
use engine::plan::scenario::{Scenario, Step};
use engine::plan::{Arrivals, Plan};
use target::{Route, Span, Stall, TargetConfig};

/// The routes, with their weights; the second stalls.
const ROUTES: [(&str, u32); 3] = [("/", 6), ("/search", 3), ("/orders", 1)];
const EVERY_NS: u64 = 500_000_000;
const HOLD_NS: u64 = 100_000_000;

fn scenario((path, weight): (&str, u32)) -> Scenario {
    let step = Step { url: Some(path.to_owned()), ..Step::default() };
    Scenario::of_one(path.to_owned(), weight, step)
}

/// The stalls of the route that have begun.
fn stalls(observed: &Observed) -> Vec<Span> {
    let begins = (1..).map(|k| observed.ledger.started_ns + k * EVERY_NS);
    let begun = begins.take_while(|begin_ns| *begin_ns < observed.ledger.taken_ns);
    begun.map(|begin_ns| Span { begin_ns, end_ns: begin_ns + HOLD_NS }).collect()
}

#[test]
fn a_route_that_stalls_has_its_own_percentiles_and_leaves_the_others_theirs() {
    let _cores = alone();
    let plain = sample_target(Duration::from_millis(1));
    let (every, hold) = (Duration::from_nanos(EVERY_NS), Duration::from_nanos(HOLD_NS));
    let stall = Some(Stall { every, hold });
    let routes = vec![
        Route { stall, ..plain.route("/search") },
        Route { body_size: 1_000, ..plain.route("/orders") },
    ];
    let config = TargetConfig { routes, ..plain };
    let load = open("1k", plan(Duration::from_secs(6)));
    let load = Plan { scenario: ROUTES.map(scenario).to_vec(), ..load };
    check_runs(&config, &load, |observed| {
        let parts = &observed.report.whole.parts;
        let ledger = &observed.ledger.routes;
        // The ledger has the paths without a route last.
        let counted = [&ledger[2], &ledger[0], &ledger[1]];
        for (part, counted) in parts.iter().zip(counted) {
            assert_eq!(part.counts.answered, counted.answered, "{}", part.name);
            assert_eq!(counted.received, counted.answered, "{}", part.name);
        }
        let stalls = [Vec::new(), stalls(observed), Vec::new()];
        for ((part, counted), stalls) in parts.iter().zip(counted).zip(stalls) {
            let truth = Truth::hold(1.0, &stalls, observed.window);
            let sample = Sample { count: part.counts.intended, arrivals: Arrivals::Poisson };
            let held = counted.held.decode()?;
            // Those of the run that are later may all be of this route.
            let of_route = |late: Late| Late { beyond: late.beyond / part.planned, ..late };
            let late: Vec<Late> = late(&observed.report).into_iter().map(of_route).collect();
            for q in [0.5, 0.9, 0.99] {
                let band = truth.quantile_band(q, sample, &late);
                let held_ms = |beyond: f64| {
                    let held_ns = held.value_at_quantile((q + beyond).min(1.0));
                    held.highest_equivalent(held_ns) as f64 / 1e6
                };
                let high_ms = band.high_ms.max(highest_ms(&late, held_ms));
                let measured_ms = part.corrected.quantile_us(q).expect("enough values") / 1e3;
                ensure!(
                    (band.low_ms..=high_ms).contains(&measured_ms),
                    "{}: p{} of {measured_ms} ms is not within {band:?}, held {} ms",
                    part.name,
                    q * 100.0,
                    held_ms(0.0)
                );
            }
        }
        Ok(())
    });
}
