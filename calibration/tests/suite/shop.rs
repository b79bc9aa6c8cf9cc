//! Users of the sample shop: each brings along what the steps before gave, in order and on time, as
//! the shop sees it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::ensure;
use calibration::observed::late;
use calibration::truth::{Sample, Truth};
use engine::plan::scenario::{Scenario, Step};
use engine::plan::{Arrivals, Http, Plan};
use target::{Route, ShopErrors, Span, Stall, TargetConfig};

use crate::support::{alone, check_runs, open, plan, run, sample_target};

const THINK_NS: u64 = 20_000_000;

fn step(name: &str, method: &str, url: &str) -> Step {
    let (name, method, url) = (name.to_owned(), Some(method.to_owned()), Some(url.to_owned()));
    let token = "Authorization: Bearer {{token}}".to_owned();
    Step { name, method, url, headers: vec![token], ..Step::default() }
}

fn capture(name: &str, text: &str) -> BTreeMap<String, String> {
    [(name.to_owned(), text.to_owned())].into()
}

/// Log in, search, open what was found, put it into the basket, look at that, pay.
fn buy() -> Scenario {
    let csrf = "regex:name=\"csrf\" value=\"([^\"]+)\"";
    let steps = [
        Step {
            headers: Vec::new(),
            body: Some("user=u{{seq}}".to_owned()),
            capture: capture("token", "json:/access_token"),
            ..step("login", "POST", "/login")
        },
        Step {
            capture: capture("id", "json:/items/0/id"),
            ..step("search", "GET", "/search?q=book")
        },
        Step { capture: capture("csrf", csrf), ..step("items", "GET", "/items/{{id}}") },
        Step {
            body: Some("id={{id}}&csrf={{csrf}}".to_owned()),
            expect_status: "303".parse().ok(),
            ..step("basket", "POST", "/basket")
        },
        step("view", "GET", "/basket"),
        Step {
            expect_body: Some(vec!["json:/ok = true".to_owned()]),
            ..step("pay", "POST", "/pay")
        },
    ];
    let think = "20ms".parse().ok();
    Scenario { name: "buy".to_owned(), think, step: steps.into(), ..Scenario::default() }
}

#[test]
fn the_shop_sees_each_user_with_its_own_values_in_order() {
    let _cores = alone();
    for http in [Http::V1, Http::V2] {
        let config = TargetConfig { shop: true, ..sample_target(Duration::from_millis(1)) };
        let plan = Plan { scenario: vec![buy()], http, ..plan(Duration::from_secs(2)) };
        let observed = run(&config, &open("100", plan)).observed;
        let whole = &observed.report.whole;
        assert_eq!(whole.counts.bad(), 0, "{:?}", whole.checks);
        let shop = observed.ledger.shop.as_ref().expect("it is a shop");
        let sessions = whole.scenarios[0].completed;
        assert!(100 < sessions, "{sessions}");
        let path = "login>search>items>basket>view>pay".to_owned();
        assert_eq!(shop.paths, [(path, sessions)].into(), "each in order");
        assert_eq!((shop.sessions, shop.errors), (sessions, ShopErrors::default()));
        for part in &whole.parts {
            let name = part.name.trim_start_matches("buy/");
            assert_eq!(shop.requests[name], part.counts.answered, "{name}");
        }
        for (step, think) in &shop.think {
            // As the shop sees it, the way of the response and of the request is part of it.
            assert!(Some(THINK_NS) <= think.p50_ns, "{step}: {think:?}");
            assert_eq!(think.count, sessions, "{step}");
        }
    }
}

#[test]
fn a_step_that_stalls_has_its_own_percentiles_and_the_sessions_wait_as_long() {
    const EVERY_NS: u64 = 500_000_000;
    const HOLD_NS: u64 = 100_000_000;
    const BASE_MS: f64 = 1.0;
    let _cores = alone();
    let plain = TargetConfig { shop: true, ..sample_target(Duration::from_millis(1)) };
    let (every, hold) = (Duration::from_nanos(EVERY_NS), Duration::from_nanos(HOLD_NS));
    let pay = Route { stall: Some(Stall { every, hold }), ..plain.route("/pay") };
    let config = TargetConfig { routes: vec![pay], ..plain };
    let scenario = vec![Scenario { think: "exp 20ms".parse().ok(), ..buy() }];
    let load = Plan { scenario, ..open("150", plan(Duration::from_secs(6))) };
    check_runs(&config, &load, |observed| {
        let whole = &observed.report.whole;
        let started_ns = observed.ledger.started_ns;
        let begins = (1..).map(|k| started_ns + k * EVERY_NS);
        let begun = begins.take_while(|begin_ns| *begin_ns < observed.ledger.taken_ns);
        let stalls: Vec<Span> =
            begun.map(|begin_ns| Span { begin_ns, end_ns: begin_ns + HOLD_NS }).collect();
        let sample = |count| Sample { count, arrivals: Arrivals::Poisson };
        // Those of the run that are later may all be of this step.
        let late = late(&observed.report);
        let stalled = Truth::hold(BASE_MS, &stalls, observed.window);
        let (last, others) = whole.parts.split_last().expect("steps");
        for q in [0.5, 0.9, 0.99] {
            let band = stalled.quantile_band(q, sample(last.counts.intended), &late);
            let measured_ms = last.corrected.quantile_us(q).expect("enough values") / 1e3;
            let high_ms = band.high_ms + 3.0;
            ensure!(
                (band.low_ms..=high_ms).contains(&measured_ms),
                "pay: p{} of {measured_ms} ms is not within {band:?}",
                q * 100.0
            );
            // The session also waited for the five steps before.
            let of_session =
                whole.scenarios[0].latency.quantile_us(q).expect("enough values") / 1e3;
            let before_ms = others.len() as f64 * BASE_MS;
            ensure!(
                (band.low_ms + before_ms..=high_ms + 3.0 * before_ms).contains(&of_session),
                "sessions: p{} of {of_session} ms is not within {band:?} and {before_ms} ms more",
                q * 100.0
            );
        }
        for part in others {
            let p90_ms = part.corrected.quantile_us(0.9).expect("enough values") / 1e3;
            ensure!(p90_ms < HOLD_NS as f64 / 2e6, "{}: p90 of {p90_ms} ms", part.name);
        }
        Ok(())
    });
}
