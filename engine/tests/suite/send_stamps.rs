//! The sample of requests for which the kernel stamps when they left the host.

use std::net::TcpListener;

use engine::plan::{Plan, StampSource, Switch};
use engine::report::Report;
use engine::run;
use engine::sys::placement::allowed_cores;
use engine::sys::units::{CoreList, Nanos, OneIn};
use engine::verify::{report_alone, with_samples};

use crate::support::{always_ok, open, plan, run, serve};

fn one_in(count: u32) -> Option<OneIn> {
    Some(format!("1/{count}").parse().expect("a sample"))
}

fn assert_verified(report: &Report) {
    let findings = report_alone(report);
    let wrong: Vec<_> = findings.iter().filter(|finding| !finding.ok).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn one_in_n_requests_gets_a_stamp_as_it_leaves_the_host() {
    let (cores, address) = (allowed_cores(), serve(always_ok));
    let short = Plan {
        cores: Some(CoreList::new(cores.iter().copied().take(2).collect())),
        warmup: Nanos(50_000_000),
        ..plan(address)
    };
    // A shard begins with the first; an unpaced user's request may have been begun before the
    // window.
    let slack = (cores.len().min(2) + 8) as u64;
    for (what, plan, each) in [
        ("open", open(short.clone(), "2k"), 7),
        ("closed", Plan { conns: Some(8), ..short.clone() }, 100),
        ("pipelined", Plan { conns: Some(2), pipeline: 4, ..short.clone() }, 10),
        ("together", Plan { conns: Some(2), pipeline: 4, ..open(short.clone(), "8k") }, 5),
        ("all", Plan { conns: Some(8), ..short.clone() }, 1),
        ("paced", Plan { conns: Some(8), period: Some(Nanos(5_000_000)), ..short.clone() }, 10),
        ("one a connection", Plan { keepalive: Switch::Off, ..open(short.clone(), "500") }, 3),
    ] {
        let report = run(Plan { stamp_sends: one_in(each), ..plan }).report;
        let part = &report.whole;
        let (sampled, sent) = (part.counts.sends_sampled, part.counts.sent);
        let each = u64::from(each);
        assert!((sent / each).abs_diff(sampled) <= slack, "{what}: {sampled} of {sent}");
        assert!(10 < sampled, "{what}: {sampled}");
        assert_eq!(part.counts.sends_stamped, sampled, "{what}");
        assert_eq!(part.send_path.count, sampled, "{what}");
        // Each left before its response came.
        assert!(part.send_path.max < part.naive.max.map(|us| us + 10.0), "{what}: {part:?}");
        assert_verified(&report);
    }
}

#[test]
fn without_a_sample_no_stamp_is_requested() {
    let none = Plan { stamp_sends: Some(OneIn::OFF), ..plan(serve(always_ok)) };
    let report = run(open(none, "500")).report;
    let part = &report.whole;
    let counts = (part.counts.sends_sampled, part.counts.sends_stamped, part.send_path.count);
    assert_eq!(counts, (0, 0, 0));
}

#[test]
fn by_default_a_few_sends_are_stamped_if_possible() {
    let address = serve(always_ok);
    let report = run(open(plan(address), "500")).report;
    assert_eq!(report.config.plan.stamp_sends, one_in(1_000));
    assert_eq!(report.whole.send_path.count, 1, "each shard takes its first");
    assert_verified(&report);
    for without in [
        Plan { stamps: Some(StampSource::User), ..plan(address) },
        Plan { body: Some("x".repeat(17_000)), ..plan(address) },
    ] {
        let report = run(Plan { conns: Some(1), ..without }).report;
        assert_eq!(report.config.plan.stamp_sends, Some(OneIn::OFF));
        assert_eq!(report.whole.counts.sends_sampled, 0);
        assert_verified(&report);
    }
}

#[test]
fn an_unanswered_request_has_left_all_the_same() {
    // Its backlog takes the connections, but nothing reads from them.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let silent = Plan { timeout: Nanos(100_000_000), ..open(plan(address), "100") };
    let counts = run(Plan { stamp_sends: one_in(1), ..silent }).report.whole.counts;
    assert!(10 < counts.timed_out && counts.answered == 0, "{counts:?}");
    assert_eq!((counts.sends_sampled, counts.sends_stamped), (counts.sent, counts.sent));
}

#[test]
fn raw_samples_do_not_check_the_send_path() {
    let folder = tempfile::tempdir().expect("a folder");
    let raw = folder.path().join("run.samples");
    let plan = open(plan(serve(always_ok)), "1k");
    let report = run(Plan { raw: Some(raw.clone()), stamp_sends: one_in(10), ..plan }).report;
    let findings = with_samples(&report, &[&raw]);
    let wrong: Vec<_> = findings.iter().filter(|finding| !finding.ok).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    type Change = fn(&mut Report);
    let changes: [(&str, Change); 5] = [
        ("more stamps than distribution", |report| report.whole.counts.sends_stamped -= 1),
        ("more stamps than asked for", |report| report.whole.counts.sends_sampled = 1),
        ("more asked for than planned", |report| report.whole.counts.sends_sampled += 10),
        ("fewer asked for than planned", |report| {
            (report.whole.counts.sends_sampled, report.whole.counts.sends_stamped) = (0, 0);
            report.whole.send_path = report.whole.connect_time.clone();
        }),
        ("a sample that wasn't asked for", |report| report.config.plan.stamp_sends = None),
    ];
    for (what, change) in changes {
        let mut changed = report.clone();
        // The plan must not have so many connections that no request is certain to be sampled.
        changed.config.plan.conns = Some(1);
        change(&mut changed);
        changed.per_agent[0].part = changed.whole.clone();
        let wrong = report_alone(&changed).into_iter().filter(|finding| !finding.ok);
        assert!(wrong.map(|finding| finding.what).any(|what| what.contains("send")), "{what}");
    }
}

#[test]
fn a_request_that_may_leave_in_parts_is_refused() {
    let address = serve(always_ok);
    for (length, is_refused) in [(10_000, false), (17_000, true)] {
        let body = Some("x".repeat(length));
        let plan = Plan { stamp_sends: one_in(1_000), body, ..plan(address) };
        let refusal = run::prepare(plan).err().map(|error| error.to_string());
        assert_eq!(refusal.is_some(), is_refused, "{refusal:?}");
        if let Some(refusal) = refusal {
            assert!(refusal.starts_with("--stamp-sends 1/1000: a send of 17"), "{refusal}");
        }
    }
}
