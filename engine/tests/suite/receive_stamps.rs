//! The sources of arrival stamps, and the generator's own part of the latencies.

use std::io::Write as _;
use std::net::TcpStream;

use engine::plan::{Arrivals, Plan, StampSource};
use engine::record::outcome::Outcome;
use engine::record::stamps::{Ending, StampedBy, Stamps};
use engine::report::verdict::Code;
use engine::report::{ClientPart, Report};
use engine::samples::SampleReader;
use engine::sys::units::{CoreList, Nanos};

use crate::made_up;
use crate::support::{always_ok, codes, open, plan, run, serve};

/// A closed run of eight connections with these stamps.
fn closed(stamps: StampSource) -> Report {
    let plan = Plan { conns: Some(8), stamps: Some(stamps), ..plan(serve(always_ok)) };
    run(plan).report
}

#[test]
fn responses_are_stamped_by_the_kernel() {
    let report = closed(StampSource::Kernel);
    let (part, law) = (&report.whole, &report.littles_law);
    let answered = part.counts.answered;
    assert!(100 < answered, "{answered} answered");
    assert_eq!(part.stamps.kernel + part.stamps.program, answered);
    // A kernel starts stamping shortly after the first socket asks for it.
    assert!(answered / 2 < part.stamps.kernel, "{:?}", part.stamps);
    assert_eq!(part.receive_lateness.count, part.stamps.kernel);
    assert!(law.residual < 1e-6, "{law:?}");
    assert!(0.0 < law.at_target_mean && law.at_target_mean < law.in_flight_mean, "{law:?}");
    // The time that the eight users spend in the generator is missing at the target.
    let elsewhere = 1.0 - law.at_target_mean / 8.0;
    let share = law.generator_share.expect("a closed loop");
    assert!(0.0 < share && share <= elsewhere + 1e-9, "{law:?}");
    assert!(law.queued_mean.is_some_and(|mean| 0.0 < mean), "{law:?}");
    let share = part.client_share.as_ref().expect("enough requests for a median");
    assert!(share.p50.corrected <= share.p50.when_handled, "{share:?}");
    assert!(!codes(&report).contains(&"client_share".to_owned()), "a closed loop adds nothing");
}

#[test]
fn the_added_latency_is_that_of_the_requests_at_the_percentile() {
    const MS: u64 = 1_000_000;
    const PERIOD_NS: u64 = 200_000;
    let plan = Plan {
        target: "http://127.0.0.1:1/".to_owned(),
        duration: Nanos(1_000 * MS),
        warmup: Nanos(0),
        cores: Some(CoreList::new(vec![0])),
        arrivals: Arrivals::Constant,
        ..open(Plan::default(), "5k")
    };
    let plan = plan.complete(&[0]).expect("a plan that runs");
    // One in ten takes 20 ms because of the target. Of the others' 200 µs the generator added 50.
    let fate = |due_ns: u64| {
        let is_slow = (due_ns / PERIOD_NS).is_multiple_of(10);
        let sent_ns = due_ns + if is_slow { 0 } else { 50_000 };
        let stamps = Stamps {
            intended_ns: due_ns,
            noticed_ns: sent_ns,
            sent_ns,
            waited: false,
            step: 0,
            session: None,
        };
        let received_ns = due_ns + if is_slow { 20 * MS } else { 200_000 };
        let ending =
            Ending { received_ns, handled_ns: received_ns + 7_000, stamped_by: StampedBy::Kernel };
        (stamps, ending, Outcome::Answered(200))
    };
    let recorded = made_up::record(&plan, (0, 1), fate, |_, _, _| {});
    let report = made_up::report(&plan, vec![recorded], None);
    let share = report.whole.client_share.as_ref().expect("a median");
    let at = |part: &ClientPart| [part.corrected, part.added, part.when_handled].map(f64::round);
    assert_eq!(at(&share.p50), [200.0, 50.0, 207.0]);
    assert_eq!(share.p99.as_ref().map(at), Some([20_000.0, 0.0, 20_007.0]));
}

#[test]
fn responses_that_end_with_their_connection_leave_the_generators_share_unknown() {
    let until_close = |_, stream: &mut TcpStream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nhello");
        false
    };
    let report = run(Plan { conns: Some(8), ..plan(serve(until_close)) }).report;
    let part = &report.whole;
    assert!(0 < part.counts.answered, "{:?}", part.counts);
    assert_eq!((part.stamps.kernel, part.stamps.program), (0, part.counts.answered));
    let mut reasons = report.verdict.reasons.iter();
    let unknown = reasons.find(|reason| reason.code == Code::ClientShare);
    let unknown = unknown.unwrap_or_else(|| panic!("{:?}", report.verdict));
    assert!(unknown.meaning.contains("is unknown"), "{unknown:?}");
    assert!(unknown.cure.contains("Content-Length"), "{unknown:?}");
}

#[test]
fn a_last_response_of_known_length_keeps_the_kernels_stamp() {
    let last = |_, stream: &mut TcpStream| {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n";
        let _ = stream.write_all(format!("{head}hello").as_bytes());
        false
    };
    let report = run(Plan { conns: Some(8), ..plan(serve(last)) }).report;
    let part = &report.whole;
    assert!(part.counts.answered / 2 < part.stamps.kernel, "{:?}", part.stamps);
}

#[test]
fn with_the_programs_stamps_a_few_connections_are_a_control() {
    let report = closed(StampSource::User);
    let part = &report.whole;
    assert_eq!((part.stamps.kernel, part.stamps.program), (0, part.counts.answered));
    let control = part.receive_lateness.count;
    assert!(0 < control && control < part.counts.answered, "{control} of {}", part.counts.answered);
    assert!(codes(&report).contains(&"client_share".to_owned()), "{:?}", report.verdict);
}

#[test]
fn samples_have_both_stamps_of_a_response_and_add_up_to_the_report() {
    for stamps in [StampSource::Kernel, StampSource::User] {
        let folder = tempfile::tempdir().expect("a folder");
        let raw = folder.path().join("run.samples");
        let plan = Plan {
            stamps: Some(stamps),
            raw: Some(raw.clone()),
            duration: Nanos(300_000_000),
            ..open(plan(serve(always_ok)), "2k")
        };
        let report = run(plan).report;
        let by_kernel = match stamps {
            StampSource::Kernel => StampedBy::Kernel,
            StampSource::User => StampedBy::Control,
        };
        let mut stamped = 0;
        for sample in SampleReader::open(&raw).expect("a file") {
            let ending = sample.expect("a sample").ending;
            stamped += u64::from(ending.stamped_by == by_kernel);
            assert!(ending.stamped_by == by_kernel || ending.stamped_by == StampedBy::Program);
            assert!(ending.received_ns <= ending.handled_ns, "{ending:?}");
        }
        assert_eq!(stamped, report.whole.receive_lateness.count, "{stamps:?}");
        let findings = engine::verify::with_samples(&report, &[&raw]);
        let wrong: Vec<_> = findings.iter().filter(|finding| !finding.ok).collect();
        assert!(wrong.is_empty(), "{stamps:?}: {wrong:?}");
    }
}
