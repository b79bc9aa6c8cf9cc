//! The plan's digest, which shows whether samples and a report belong to the same plan.
//!
//! The plan is serialized through serde, so that every field is included without being named here,
//! and hashed with FNV-1a of 64 bits. The digest tells plans apart; it doesn't stop a forger.

use plan::Plan;
use plan::flatten::{flatten, value_text};
use serde_json::Value;

/// The digest of a plan: FNV-1a (64 bits) of a text of lines, each ended by a line feed, one for
/// each value of the plan as shown in the report's `config`, in that order.
///
/// A line is `name=value`. The names of nested values are joined by dots, list elements have their
/// numbers from 0: `thresholds.busy`, `headers.0`. Values are written as follows:
///
/// - a text as its length in bytes, a colon and itself. Durations, lists of cores, sets of statuses
///   and addresses are the texts of the report, choices such as `open` or `off` their names;
/// - a number in decimal with the fewest digits that read back as the same double, without an
///   exponent, and without a point when it is whole. The rate is the number of requests per second;
/// - an absent value or an empty list has no line. Neither has `insecure` when it is false,
///   `tls_session` when it is `full`, `order` when it is `weighted`, nor `http` when it is `1.1`.
///
/// Two things differ from the flags. `raw`, `cores` and `source_addresses` are left out: where the
/// samples go and what offers the load don't affect the load, and all agents of a run have one
/// digest. And the plan is the redacted one, in which the body, the query's values and those of
/// most headers are `sha256:` and 16 digits. The fields of `config` that follow the plan's, from
/// `target_address` on, aren't included.
pub fn plan_digest(plan: &Plan) -> u64 {
    text(plan).bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The text that is hashed.
fn text(plan: &Plan) -> String {
    let plan = Plan { raw: None, cores: None, source_addresses: Vec::new(), ..plan.clone() };
    let line = |(name, leaf): &(String, Value)| match leaf {
        Value::Null => String::new(),
        Value::String(text) => format!("{name}={}:{text}\n", text.len()),
        leaf => format!("{name}={}\n", value_text(leaf)),
    };
    flatten(&plan).iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use plan::body::Body;
    use plan::redact::Redacted;
    use plan::thresholds::Thresholds;
    use plan::{Arrivals, Http, Model, Order, Overload, StampSource, Switch, TlsSession, Wait};
    use units::{CoreList, Nanos};

    use super::*;

    fn plan() -> Plan {
        Plan { target: "http://127.0.0.1:1/".to_owned(), ..Plan::default() }
    }

    #[test]
    fn a_changed_field_changes_the_digest() {
        let digest = plan_digest(&plan());
        for (what, other) in [
            ("seed", Plan { seed: 2, ..plan() }),
            ("the highest seed", Plan { seed: u64::MAX, ..plan() }),
            ("rate", Plan { rate: Some("5k".parse().expect("a rate")), ..plan() }),
            ("stage", Plan { stage: vec!["5:1s".parse().expect("a stage")], ..plan() }),
            ("duration", Plan { duration: Nanos(1), ..plan() }),
            ("header", Plan { headers: vec!["a: b".to_owned()], ..plan() }),
            ("conns", Plan { conns: Some(1), ..plan() }),
        ] {
            assert_ne!(plan_digest(&other), digest, "{what}");
        }
    }

    #[test]
    fn placement_and_the_samples_path_do_not_change_the_digest() {
        for (what, other) in [
            ("cores", Plan { cores: Some(CoreList::new(vec![0, 1])), ..plan() }),
            ("raw", Plan { raw: Some("a".into()), ..plan() }),
            (
                "sources",
                Plan { source_addresses: vec!["127.0.0.2".parse().expect("an address")], ..plan() },
            ),
        ] {
            assert_eq!(plan_digest(&other), plan_digest(&plan()), "{what}");
        }
    }

    #[test]
    fn adjacent_texts_are_told_apart() {
        let digest = |headers: &[&str]| {
            let headers = headers.iter().map(|&header| header.to_owned()).collect();
            plan_digest(&Plan { headers, ..plan() })
        };
        assert_ne!(digest(&["a", "b"]), digest(&["a,b"]));
        assert_ne!(digest(&["a\nheaders.1=1:b"]), digest(&["a", "b"]));
    }

    #[test]
    fn the_digest_survives_the_document() {
        let busy = 0.9499999999999991;
        let plan = Plan { thresholds: Thresholds { busy, ..Thresholds::default() }, ..plan() };
        let json = serde_json::to_string(&plan).expect("a document");
        let back: Plan = serde_json::from_str(&json).expect("a plan");
        assert_eq!(plan_digest(&back), plan_digest(&plan));
    }

    /// Every field is set, so that a changed default doesn't change the digest, and a new field
    /// must be named here.
    #[test]
    fn a_plan_with_every_field_set_has_this_digest() {
        let plan = Plan {
            target: "http://127.0.0.1:8080/shop?item=1".to_owned(),
            model: Some(Model::Open),
            rate: Some("2.5k".parse().expect("a rate")),
            stage: Vec::new(),
            replay: None,
            speed: None,
            spread: None,
            arrivals: Arrivals::Poisson,
            seed: u64::MAX,
            conns: Some(1_000),
            pipeline: 1,
            http: Http::V1,
            streams: None,
            period: None,
            requests: None,
            duration: Nanos::from_secs(90),
            warmup: Nanos(1_500_000_000),
            timeout: Nanos(250_000),
            method: "POST".to_owned(),
            headers: vec!["Accept: */*".to_owned(), "Authorization: abc".to_owned()],
            body: Some("abc".to_owned()),
            scenario: Vec::new(),
            has_tables: false,
            order: Order::Weighted,
            data: BTreeMap::new(),
            trace: None,
            slowest: None,
            cores: Some(CoreList::new(vec![0, 1, 3])),
            wait: Wait::Hybrid,
            stamps: Some(StampSource::Kernel),
            stamp_sends: Some("1/1000".parse().expect("a sample")),
            flush: Some(4),
            overload: Overload::Drop,
            queue_max: Some(Nanos(100_000_000)),
            sessions_max: None,
            deadline: None,
            keepalive: Switch::On,
            requests_per_connection: None,
            connection_lifetime: None,
            connect_to: Vec::new(),
            resolve: Vec::new(),
            unix: None,
            cacert: None,
            cert: None,
            key: None,
            insecure: false,
            tls_session: TlsSession::Full,
            source_addresses: vec!["127.0.0.2".parse().expect("an address")],
            settle: Nanos(0),
            prewarm: None,
            spare: None,
            settle_min: None,
            expect_status: "2xx,404".parse().expect("a set"),
            expect_header: Vec::new(),
            expect_body: Vec::new(),
            body_max: None,
            decompress: false,
            slo: Some("p99<20ms,errors<0.1%".parse().expect("objectives")),
            raw: Some("run.samples".into()),
            thresholds: Thresholds {
                unsent: 0.001,
                lateness_floor_us: 1e-7,
                client_share: 0.05,
                busy: 0.9499999999999991,
                drift: 0.0,
                percentile: 0.999,
                stolen: 0.01,
                errors: 1.0,
            },
        };
        let redacted = Redacted::new(&plan, &Body::of_bytes(b"abc".to_vec())).into_plan();
        let text = text(&redacted);
        let lines: Vec<&str> = text.lines().collect();
        for line in [
            "target=55:http://127.0.0.1:8080/shop?item=sha256:6b86b273ff34fce1",
            "rate=2500",
            "seed=18446744073709551615",
            "duration=5:1m30s",
            "headers.1=38:Authorization: sha256:ba7816bf8f01cfea",
            "slo=20:p99<20ms,errors<0.1%",
            "thresholds.lateness_floor_us=0.0000001",
            "thresholds.busy=0.9499999999999991",
            "thresholds.errors=1",
        ] {
            assert!(lines.contains(&line), "{line} is not in\n{text}");
        }
        assert_eq!(format!("{:016x}", plan_digest(&redacted)), "d5cd2ab532a79981");
    }
}
