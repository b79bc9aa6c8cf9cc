//! Made-up runs: requests that never reached a network, recorded and merged like a run's.
#![allow(dead_code, reason = "the command line's tests, which use it too, only merge")]

use engine::host;
use engine::load::curve::Curve;
use engine::load::mix::Mix;
use engine::load::schedule::{Arrival, Digest, Schedule};
use engine::load::share::Share;
use engine::plan::Plan;
use engine::plan::address::Address;
use engine::plan::body::Body;
use engine::plan::redact::Redacted;
use engine::record::config::RecorderConfig;
use engine::record::outcome::{Cause, Outcome};
use engine::record::recorder::Recorder;
use engine::record::shard_report::ShardReport;
use engine::record::shard_stats::ShardStats;
use engine::record::stamps::{Ending, StampedBy, Stamps};
use engine::report::calibration::{Calibrated, CalibratedOf, FloorAt};
use engine::report::collected::{AgentRun, Collected, CollectedHead, LOCAL, RunFacts};
use engine::report::machine::Machine;
use engine::report::merge;
use engine::report::profile::{Sampler, Sampling, Taken};
use engine::report::{Report, Samples};
use engine::shard::ShardMeter;

/// The fate of a request: its stamps, its ending and its outcome. Its step is the plan's plus the
/// step in the stamps.
pub type Fate = (Stamps, Ending, Outcome);

/// A shard's recording.
pub type Recorded = (Recorder, Digest);

/// A response that broke a rule of the protocol.
pub fn broken_chunk() -> Cause {
    Cause::from_name("protocol:chunk_end").expect("a rule")
}

/// An empty recording of a run of this plan.
pub fn nothing(plan: &Plan) -> Recorded {
    (Recorder::new(RecorderConfig::of_plan(plan)), Digest::default())
}

/// The recording of a closed loop with one connection, whose kth request takes this long, ns, until
/// one would begin after `until_ns`. All are answered.
pub fn one_after_another(plan: &Plan, until_ns: u64, took_ns: impl Fn(u64) -> u64) -> Recorded {
    let (mut recorder, digest) = nothing(plan);
    let (mut sent_ns, mut number) = (0, 0);
    while sent_ns < until_ns {
        let received_ns = sent_ns + took_ns(number);
        let stamps = Stamps {
            intended_ns: sent_ns,
            noticed_ns: sent_ns,
            sent_ns,
            waited: false,
            step: 0,
            session: None,
        };
        let ending = Ending { stamped_by: StampedBy::Kernel, ..Ending::at(received_ns) };
        recorder.intended(sent_ns, false);
        recorder.sent(sent_ns, &stamps, true);
        recorder.ended((number, sent_ns), &stamps, ending, true, Outcome::Answered(200));
        (sent_ns, number) = (received_ns, number + 1);
    }
    (recorder, digest)
}

/// The recording of one of several shards of an open plan; a request's fate is a function of its
/// intended time. Requests are sent in the order intended; `ended` sees each as it ends.
pub fn record(
    plan: &Plan,
    (shard, shards): (usize, usize),
    fate: impl Fn(u64) -> Fate,
    ended: impl FnMut(&Stamps, Ending, Outcome),
) -> Recorded {
    record_share(plan, Share::equal(shard, shards), fate, ended)
}

/// The same for a shard with this share of the load.
pub fn record_share(
    plan: &Plan,
    share: Share,
    fate: impl Fn(u64) -> Fate,
    mut ended: impl FnMut(&Stamps, Ending, Outcome),
) -> Recorded {
    let (mut recorder, mut digest) = nothing(plan);
    let mut in_flight = Vec::new();
    let curve = Curve::of_plan(plan).expect("an open plan");
    let schedule = Schedule::new(curve, plan.arrivals, plan.seed, plan.end_ns(), share);
    let (mix, steps) = (Mix::of_plan(plan), u16::try_from(plan.step_count()));
    let steps = steps.expect("few");
    for Arrival { due_ns, number } in schedule {
        digest.add(due_ns);
        if due_ns < plan.warmup.0 {
            continue;
        }
        let (mut stamps, ending, outcome) = fate(due_ns);
        stamps.step = (mix.step(number) + stamps.step) % steps;
        let in_window = ending.ended_ns() <= plan.end_ns();
        recorder.intended(due_ns, false);
        let is_unsent = matches!(outcome, Outcome::Unsent(_));
        if !is_unsent && stamps.sent_ns < ending.ended_ns() {
            recorder.sent(stamps.intended_ns, &stamps, stamps.sent_ns <= plan.end_ns());
            in_flight.push((ending, stamps, outcome, number));
            continue;
        }
        if !is_unsent {
            recorder.unconnected(stamps.intended_ns, &stamps);
        }
        recorder.ended((number, stamps.intended_ns), &stamps, ending, in_window, outcome);
        ended(&stamps, ending, outcome);
    }
    let sends = in_flight.iter().map(|(_, stamps, ..)| (stamps.sent_ns, true));
    let ends = in_flight.iter().map(|(ending, ..)| (ending.handled_ns, false));
    let mut moments: Vec<(u64, bool)> = sends.chain(ends).collect();
    moments.sort_unstable();
    let mut count = 0;
    for (at_ns, is_send) in moments {
        recorder.in_flight.pass(at_ns, count);
        count = if is_send { count + 1 } else { count - 1 };
    }
    in_flight.sort_by_key(|(ending, ..)| ending.handled_ns);
    for (ending, stamps, outcome, number) in in_flight {
        let in_window = ending.ended_ns() <= plan.end_ns();
        recorder.in_flight.stay(stamps.sent_ns, ending.received_ns, ending.handled_ns);
        recorder.ended((number, stamps.intended_ns), &stamps, ending, in_window, outcome);
        ended(&stamps, ending, outcome);
    }
    (recorder, digest)
}

/// The report of a run with these shard recordings, on an unknown machine.
pub fn report(plan: &Plan, recorded: Vec<Recorded>, samples: Option<Samples>) -> Report {
    let agent = agent(plan, (LOCAL, Share::whole()), recorded, samples);
    merge::report([agent], &RunFacts::default()).0
}

/// The run of a plan's share on an agent with these shard recordings, on an unknown machine.
pub fn agent(
    plan: &Plan,
    (name, share): (&str, Share),
    recorded: Vec<Recorded>,
    samples: Option<Samples>,
) -> AgentRun {
    AgentRun::of(name, share, collected(plan, recorded, samples))
}

/// The results of such a run.
pub fn collected(plan: &Plan, recorded: Vec<Recorded>, samples: Option<Samples>) -> Collected {
    let cores = plan.cores().to_vec();
    let address = "127.0.0.1:1".parse().expect("an address");
    let shards: Vec<ShardReport> = std::iter::zip(&cores, recorded)
        .map(|(core, (recorder, digest))| {
            let meter = ShardMeter::new(*core, plan.warmup.0..plan.end_ns());
            let observed_s = plan.duration.as_secs_f64();
            let stats = ShardStats { observed_s, ..meter.report(&recorder.counts, 0, 0) };
            ShardReport { recorder, digest, stats, sampled: None }
        })
        .collect();
    let body = Body::of_bytes(Vec::new());
    let head = CollectedHead {
        plan: Redacted::with_bodies(plan, &body, &vec![&body; plan.step_count()]),
        addresses: vec![Address::Ip(address)],
        environment: host::environment::environment(&cores, Vec::new(), Some(address)),
        machine: Machine::default(),
        interrupted: false,
        until_ns: plan.end_ns(),
        epoch_ns: 0,
        samples,
    };
    Collected { head, shards }
}

/// A calibration that applies to a run.
pub fn calibrated(report: &Report) -> Calibrated {
    let floor = |rate, p50| FloorAt { rate, p50 };
    Calibrated {
        began_s: 1_700_000_000,
        of: CalibratedOf::of_run(&report.config.plan, &report.environment),
        stamps: report.config.plan.stamps(),
        ceiling_open: Some(100_000.0),
        ceiling_closed: Some(120_000.0),
        floors: vec![floor(1_000.0, 40.0), floor(10_000.0, 20.0), floor(50_000.0, 15.0)],
    }
}

/// A profiler's samples of some run: ten samples, six of them in the kernel.
pub fn profile() -> Taken {
    let sampling = Sampling {
        source: Sampler::Perf,
        user_only: None,
        kernel_unnamed: None,
        event: "cpu-clock".to_owned(),
        frequency: 999,
        observed_s: 2.0,
        cpu_s: 0.5,
    };
    Taken {
        sampling,
        samples: 10,
        kernel: 6,
        frames: vec![
            ("tcp_sendmsg".to_owned(), true, 5),
            ("turn".to_owned(), false, 3),
            ("parse".to_owned(), false, 1),
        ],
    }
}
