//! Made-up reports for tests to render.

use engine::plan::scenario::{Scenario, Step};
use engine::plan::{Plan, StampSource};
use engine::record::counts::Counts;
use engine::record::shard_stats::ShardStats;
use engine::report::environment::Environment;
use engine::report::machine::Machine;
use engine::report::machine::Ports;
use engine::report::steps::planned;
use engine::report::verdict::Verdict;
use engine::report::{
    AgentPart, ClientPart, ClientShare, DistributionPart, Generator, LittlesLaw, Microseconds,
    Part, PerSecond, Rates, Report, ResponseStamps, ScenarioPart, ScenarioStep, StepCounts,
    StepPart, StepSeries,
};
use engine::stats::distribution::Distribution;

use super::made_up;

/// Requests in a part: enough for p99.9.
const REQUESTS: u64 = 10_000;

/// A completed plan.
pub(crate) fn plan(open: bool) -> Plan {
    let rate = open.then(|| "5k".parse().expect("a rate"));
    let target = "http://127.0.0.1:8080/".to_owned();
    Plan { target, rate, ..Plan::default() }.complete(&[0, 1]).expect("a plan that runs")
}

/// `count` values of `us` each.
pub(crate) fn times(us: u64, count: u64) -> DistributionPart {
    let mut distribution = Distribution::new();
    distribution.record_n(us * 1_000, count);
    DistributionPart::alone(&distribution, Some(false))
}

/// A part of 10,000 requests, each with these times in µs.
pub(crate) fn part(naive: u64, corrected: u64, pacer: u64, wait: u64) -> Part {
    let counts = Counts {
        intended: REQUESTS,
        sent: REQUESTS,
        sent_in_window: REQUESTS,
        answered: REQUESTS,
        stamped_by_kernel: REQUESTS - 7,
        status: [(200, REQUESTS - 10), (503, 10)].into(),
        connects: 40,
        ..Counts::default()
    };
    counts.assert_sums();
    let times = |us| times(us, REQUESTS);
    let part_at = |corrected: u64| ClientPart {
        corrected: corrected as f64,
        added: pacer as f64,
        opening: 0.0,
        when_handled: corrected as f64 + 40.0,
    };
    Part {
        stamps: ResponseStamps::new(StampSource::Kernel, &counts),
        send_path: DistributionPart::alone(&Distribution::new(), Some(false)),
        receive_lateness: times(40),
        client_share: Some(ClientShare {
            unit: Microseconds::Us,
            added_mean: pacer as f64,
            p50: part_at(corrected),
            p90: Some(part_at(corrected)),
            p99: Some(part_at(corrected)),
            p999: Some(part_at(corrected)),
        }),
        bad: counts.bad(),
        counts,
        rate: Rates {
            unit: PerSecond::PerSecond,
            target: Some(5_000.0),
            intended: 333.3,
            sent: 333.3,
            sent_due: 333.3,
            answered: 333.2,
            answered_due: 333.2,
        },
        naive: times(naive),
        corrected: times(corrected),
        pacer_lateness: times(pacer),
        connection_wait: times(wait),
        connect_time: DistributionPart::alone(&Distribution::new(), Some(false)),
        tls: None,
        http2: None,
        successes: None,
        parts: Vec::new(),
        endpoints: Vec::new(),
        slowest: Vec::new(),
        checks: Vec::new(),
        scenarios: Vec::new(),
    }
}

/// A report of two scenarios in two stages, of which the second is a ramp.
pub(crate) fn two_by_two() -> Report {
    let scenario = |name: &str, weight| Scenario {
        name: name.to_owned(),
        weight,
        step: vec![Step { url: Some("/".to_owned()), ..Step::default() }],
        ..Scenario::default()
    };
    let plan = Plan {
        target: "http://127.0.0.1:8080/".to_owned(),
        stage: ["100:10s", "100..300:20s"].map(|stage| stage.parse().expect("a stage")).into(),
        scenario: vec![scenario("home", 3), scenario("POST /a, \"b\"", 1)],
        ..Plan::default()
    };
    let plan = plan.complete(&[0, 1]).expect("a plan that runs");
    let times_of = [(1_000, 1_500), (2_000, 6_000), (4_000, 500), (8_000, 2_000)];
    let parts = planned(&plan).into_iter().zip(times_of).map(|(planned, (us, requests))| {
        let status = [(200, requests - 5), (503, 5)].into();
        let counts =
            Counts { intended: requests, sent: requests, answered: requests, ..Counts::default() };
        let counts = Counts { unexpected_status: 5, status, ..counts };
        counts.assert_sums();
        StepPart {
            name: planned.name,
            stage: planned.stage,
            planned: planned.share,
            bad: counts.bad(),
            counts: StepCounts::new(&counts),
            received_bytes: 200 * requests,
            sent_bytes: 100 * requests,
            held: 0,
            naive: times(us / 2, requests),
            corrected: times(us, requests),
            series: StepSeries { piece_s: 1.0, pieces: Vec::new() },
            slowest: Vec::new(),
        }
    });
    let whole = part(1_020, 1_020, 3, 2);
    let mut report = report(true, Part { parts: parts.collect(), ..whole });
    report.config.plan = plan;
    report
}

/// The sessions of a scenario of two steps, and of one whose sessions are single requests.
pub(crate) fn sessions() -> Vec<ScenarioPart> {
    let step =
        |name: &str, failed, unfinished| ScenarioStep { name: name.to_owned(), failed, unfinished };
    vec![
        ScenarioPart {
            name: "shop, \"new\"".to_owned(),
            planned: 0.75,
            intended: 1_500,
            completed: 1_490,
            unsent: 2,
            steps: vec![step("shop, \"new\"/login", 3, 0), step("shop, \"new\"/pay", 4, 1)],
            latency: times(9_000, 1_498),
        },
        ScenarioPart {
            name: "home".to_owned(),
            planned: 0.25,
            intended: 500,
            completed: 500,
            unsent: 0,
            steps: vec![step("home", 0, 0)],
            latency: times(1_000, 500),
        },
    ]
}

/// A valid report of this part.
pub(crate) fn report(open: bool, part: Part) -> Report {
    let shard = ShardStats {
        core: 1,
        observed_s: 30.0,
        busy: 0.123,
        cpu_user_s: 1.0,
        cpu_system_s: 2.0,
        polling_s: 20.0,
        turns: 90_000,
        requests_per_turn: 1.1,
        longest_gap_us: 85.0,
        stopped_s: 0.0,
        involuntary_switches: 3,
        run_queue_delay_s: 0.0,
        cq_overflows: 0,
        buffers_exhausted: 0,
        received_bytes: 0,
        sent_bytes: 0,
        window_received_bytes: 0,
        window_sent_bytes: 0,
        clock_steps: 0,
        stamps_clamped: 0,
        first_due_us: Some(150.0),
        first_sent_us: Some(171.0),
        opening_s: 0.0,
        closing_s: 0.0,
    };
    let ports = Some(Ports {
        range: 28_232,
        sources: 1,
        in_use_max: 45,
        time_wait_max: 1_000,
        headroom: 27_187,
    });
    let plan = plan(open);
    let generator = Generator {
        shards: vec![shard],
        machine: Some(Machine {
            observed_s: 30.0,
            steal: Some(0.0),
            throttled_s: Some(0.0),
            cores: Vec::new(),
            contenders: Vec::new(),
            ports,
            ..Machine::default()
        }),
    };
    let empty = made_up::report(&plan, vec![made_up::nothing(&plan)], None);
    Report {
        verdict: Verdict::valid(),
        environment: Environment::default(),
        whole: part.clone(),
        generator: generator.clone(),
        arrivals: None,
        arrivals_line: open.then(|| "arrivals were Poisson(5000/s) as planned: figures".to_owned()),
        littles_law: LittlesLaw {
            in_flight_mean: 0.412,
            expected: 0.413,
            residual: 0.0024,
            at_target_mean: 0.4,
            queued_mean: (!open).then_some(0.01),
            generator_share: (!open).then_some(0.022),
        },
        per_agent: vec![AgentPart { part, generator, ..empty.per_agent[0].clone() }],
        ..empty
    }
}
