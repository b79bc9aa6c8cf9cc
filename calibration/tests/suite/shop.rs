//! Users of the sample shop: each brings along what the steps before gave, in order and on time, as
//! the shop sees it.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::plan::scenario::{Scenario, Step};
use engine::plan::{Http, Plan};
use target::{ShopErrors, TargetConfig};

use crate::support::{alone, open, plan, run, sample_target};

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
