//! Checks that apply to the run and to each agent's part alike: sums, distributions against counts,
//! the arrivals taken from the schedule, Little's law, samples.

use hdrhistogram::Histogram;
use load::requests::is_cut_short;
use plan::{Model, Plan, StampSource};
use record::counts::Counts;
use report::merge::offered_rate;
use report::{
    Bytes, CheckPart, DistributionPart, LittlesLaw, Part, Rates, Report, ResponseStamps, Samples,
    StepCounts,
};
use stats::interval::dependent;
use stats::percentiles::Quantile;
use stats::pieces::Pieces;
use units::{OneIn, SECOND_NS, seconds_to_ns};

use super::compare::compare;
use super::distribution::{distribution, distributions};
use super::endpoints::{endpoints, secure};
use super::finding::{Finding, is_close, summed_up};
use super::planned::Planned;
use super::scenarios::scenarios;
use super::slowest::{self, Of, slowest};
use super::steps::{by_schedule, parts};
use super::sums::outcomes;

/// Little's law: everything that follows from its two sides.
pub(super) fn littles_law(report: &Report) -> Vec<Finding> {
    let law = &report.littles_law;
    let mut findings = Vec::new();
    let mut expected = LittlesLaw::new(law.in_flight_mean, law.expected, law.at_target_mean);
    if let Some(users) = report.unpaced_users() {
        // Each user's request is ready, in flight, or neither. Users who leave may still have one
        // in flight, so all of them may be more than there are on average.
        let all = match report.config.plan.stages_of_users() {
            Some(_) => report.conns() as f64,
            None => users,
        };
        let most = (all - law.in_flight_mean).max(0.0);
        let queued = law.queued_mean.unwrap_or(0.0);
        let ok = 0.0 <= queued && (queued <= most || is_close(queued, most));
        let most = format!("at most {most}");
        findings.push(Finding::new("littles_law.queued_mean", most, queued, ok));
        expected = expected.of_users(users, queued);
    }
    findings.extend(compare("littles_law.", &expected, law));
    // A response is handled after it has arrived.
    let (at_target, on_the_wire) = (law.at_target_mean, law.expected);
    let ok = 0.0 <= at_target && (at_target <= on_the_wire || is_close(at_target, on_the_wire));
    let most = format!("at most {on_the_wire}");
    findings.push(Finding::new("littles_law.at_target_mean", most, at_target, ok));
    findings
}

/// The number of values that a distribution must have; `None` if the counts don't determine it.
fn length(name: &str, counts: &Counts, plan: &Plan, all_secure: bool) -> Option<u64> {
    match name {
        "naive" => Some(counts.sent.saturating_sub(counts.failed)),
        "corrected" => Some(counts.with_latency()),
        "pacer_lateness" | "connection_wait" => Some(counts.sent),
        "connect_time" => Some(counts.connects_in_window),
        // Those of some endpoints have none.
        "tls.handshake_time" if !all_secure => None,
        "tls.handshake_time" => Some(counts.connects_in_window),
        "send_path" => Some(counts.sends_stamped),
        // With the program's stamps, those of a few connections are a control.
        "receive_lateness" if plan.stamps() == StampSource::User => None,
        "receive_lateness" => Some(counts.stamped_by_kernel),
        _ => Some(counts.good()),
    }
}

/// A part against itself; with the pieces of its series, including its intervals.
pub(super) fn part(
    report: &Report,
    part: &Part,
    pieces: Option<&Pieces<Histogram<u64>>>,
) -> Vec<Finding> {
    let plan = &report.config.plan;
    let dependent = pieces.and_then(dependent);
    let mut findings = sums(&part.counts, plan);
    for (name, document) in distributions(part) {
        if let Some(length) = length(name, &part.counts, plan, secure(part).1) {
            findings.push(Finding::equal(
                format!("{name}.count by the counts"),
                length,
                document.count,
            ));
        }
        // Only the corrected latencies are kept over time.
        findings.extend(distribution(name, document, |whole| match (name, pieces) {
            ("corrected", Some(pieces)) => DistributionPart::new(whole, pieces),
            (_, Some(_)) => DistributionPart::alone(whole, dependent),
            // Those of an agent have a check of their own.
            ("corrected", None) => {
                let alone = DistributionPart::alone(whole, None);
                let percentiles = alone.percentiles.with_intervals_of(&document.percentiles);
                DistributionPart { percentiles, ..alone }
            }
            (_, None) => DistributionPart::alone(whole, part.naive.percentiles.dependent),
        }));
    }
    let of_shards = report.generator.shards.iter().map(|shard| shard.stamps_clamped);
    let of_shards = of_shards.fold(0_u64, u64::saturating_add);
    findings.push(Finding::equal("stamps_clamped", of_shards, part.counts.stamps_clamped));
    // Agents may sample as their kernels allow, and each is checked.
    if !report.is_joint() {
        findings.push(sampled(report, part));
    }
    let stamps = ResponseStamps::new(plan.stamps(), &part.counts);
    findings.extend(compare("stamps.", &stamps, &part.stamps));
    if let Some(share) = &part.client_share {
        for (Quantile { label, q, .. }, at) in share.parts() {
            let name = format!("client_share at {label}");
            findings.push(compared(&name, part.corrected.quantile_us(q), Some(at.corrected)));
            let (least, added) = ("at least 0".to_owned(), at.added.to_string());
            findings.push(Finding::new(format!("{name}: added"), least, added, 0.0 <= at.added));
            // The number of requests that met an added connection isn't in the report.
            let room = if part.counts.pool_grew == 0 { 0.0 } else { at.corrected - at.added };
            let fits = (0.0..=room + 1e-9).contains(&at.opening);
            let (most, opening) = (format!("at most {room}"), at.opening.to_string());
            findings.push(Finding::new(format!("{name}: opening"), most, opening, fits));
        }
    }
    findings.push(Finding::equal("bad", part.counts.bad(), part.bad));
    let failed: Vec<u64> = part.checks.iter().map(|check| check.failed).collect();
    let planned = CheckPart::all(plan, &failed);
    findings.extend(compare("checks: ", &planned, &part.checks));
    let number = plan.check_names().iter().map(Vec::len).sum::<usize>();
    findings.push(Finding::equal("checks: number", number, part.checks.len()));
    let failed = failed.into_iter().fold(0, u64::saturating_add);
    findings.push(Finding::equal("failed_checks", failed, part.counts.failed_checks));
    let successes = part.counts.good();
    findings.push(Finding::equal(
        "successes apart",
        successes != part.naive.count,
        part.successes.is_some(),
    ));
    findings.extend(rates(report, part));
    findings.extend(tls(plan, part));
    findings.extend(http2(plan, part));
    findings.extend(parts(plan, part, report.config.window_s()));
    findings.extend(scenarios(plan, part));
    findings.extend(of_parts(report, part));
    findings.extend(endpoints(plan, part));
    let slow = if part.parts.is_empty() { plan.slowest() } else { 0 };
    let counts = &StepCounts::new(&part.counts);
    let of = Of { step: 0, counts, naive: &part.naive, corrected: &part.corrected };
    let checks = slowest(plan, &part.slowest, slow, &of);
    findings.extend(summed_up("slowest", checks));
    findings
}

/// The bytes of the parts, and the requests that arrivals at the cap found in flight, against what
/// the connections carried.
fn of_parts(report: &Report, part: &Part) -> Vec<Finding> {
    if part.parts.is_empty() {
        return Vec::new();
    }
    let carried = Bytes::of_shards(&report.generator.shards);
    let bytes = Bytes::of_parts(&part.parts);
    let in_flight_max = (report.conns() * report.config.plan.depth()) as u64;
    let held_max = part.counts.capped.saturating_mul(in_flight_max);
    let held = part.parts.iter().map(|part| part.held).fold(0, u64::saturating_add);
    vec![
        Finding::at_most("parts: received_bytes", carried.received_bytes, bytes.received_bytes),
        Finding::at_most("parts: sent_bytes", carried.sent_bytes, bytes.sent_bytes),
        Finding::at_most("parts: held", held_max, held),
    ]
}

/// TLS counts against the plan and the connections.
fn tls(plan: &Plan, part: &Part) -> Vec<Finding> {
    let spoken = |is: bool| if is { "spoken" } else { "not spoken" };
    let mut findings =
        vec![Finding::equal("tls", spoken(plan.is_https()), spoken(part.tls.is_some()))];
    if let Some(tls) = &part.tls {
        let handshakes = tls.full.saturating_add(tls.resumed);
        let counts = &part.counts;
        findings.extend([
            Finding::equal("handshakes of connections", secure(part).0, handshakes),
            Finding::at_most("tls.truncated", counts.connects, tls.truncated),
            Finding::equal("tls.insecure", plan.insecure, tls.insecure),
        ]);
        findings.extend(compare("tls.session", &plan.tls_session, &tls.session));
    }
    findings
}

/// HTTP/2 counts against the plan and the requests.
fn http2(plan: &Plan, part: &Part) -> Vec<Finding> {
    let spoken = |is: bool| if is { "spoken" } else { "not spoken" };
    let mut findings =
        vec![Finding::equal("http2", spoken(!plan.http.is_1()), spoken(part.http2.is_some()))];
    if let Some(http2) = &part.http2 {
        let waits = http2.connection_wait.count.saturating_add(http2.stream_wait.count);
        findings.extend([
            Finding::at_most("http2.in_flight_max", plan.depth() as u64, http2.in_flight_max),
            Finding::at_most("waits for a connection or a stream", part.counts.sent, waits),
            Finding::at_most("http2.window_wait", part.counts.sent, http2.window_wait.count),
        ]);
    }
    findings
}

fn compared(what: &str, expected: Option<f64>, found: Option<f64>) -> Finding {
    let text = |us: Option<f64>| us.map_or("none".to_owned(), |us| us.to_string());
    Finding::equal(what, text(expected), text(found))
}

fn sums(counts: &Counts, plan: &Plan) -> Vec<Finding> {
    let Counts { intended, sent, answered, failed, .. } = *counts;
    let shared = |most| if plan.depth() == 1 { 0 } else { most };
    let of_sessions = |most| if plan.has_sessions() { most } else { 0 };
    let of_streams = if plan.http.is_1() { 0 } else { u64::MAX };
    let warmup = &counts.warmup;
    let [(setup_sent, setup_ended), (warmup_sent, warmup_ended)] = counts.before_the_window();
    let success = plan.expected_of(0);
    let is_same = (1..plan.step_count()).all(|step| plan.expected_of(step) == success);
    let mut findings = outcomes(counts, is_same.then_some(success));
    findings.extend([
        Finding::at_most("unconnected", failed, counts.unconnected),
        Finding::at_most(
            "sent_in_window + unconnected",
            sent,
            counts.sent_in_window + counts.unconnected,
        ),
        Finding::at_most("stamped_by_kernel", answered, counts.stamped_by_kernel),
        Finding::at_most("sends_stamped", counts.sends_sampled, counts.sends_stamped),
        Finding::at_most("waited", intended, counts.waited),
        // A user of a closed model waits for its own connection.
        Finding::at_most(
            "capped",
            if plan.model() == Model::Open { counts.waited } else { 0 },
            counts.capped,
        ),
        // Only sessions have later steps.
        Finding::at_most("later_steps", of_sessions(intended), counts.later_steps),
        Finding::at_most(
            "later_steps_in_window",
            counts.later_steps.min(counts.sent_in_window),
            counts.later_steps_in_window,
        ),
        Finding::at_most("capped_sessions", of_sessions(counts.arrivals()), counts.capped_sessions),
        // Only another stream can carry a request again, and that as often as streams end.
        Finding::at_most("requeued", of_streams, counts.requeued),
        Finding::at_most("goaways", of_streams, counts.goaways),
        Finding::at_most("connects_in_window", counts.connects, counts.connects_in_window),
        Finding::at_most("pool_grew", counts.connects_in_window, counts.pool_grew),
        Finding::at_most("users_blocked", counts.users, counts.users_blocked),
        Finding::at_most("incomplete_uploads", counts.answered, counts.incomplete_uploads),
        Finding::at_most("stamps_clamped of the answers", counts.answered, counts.stamps_clamped),
        Finding::at_most("doubtful", shared(counts.answered), counts.doubtful),
        Finding::at_most("shared_sends", shared(counts.sent), counts.shared_sends),
        Finding::at_most("shared_receives", shared(counts.answered), counts.shared_receives),
        Finding::equal("setup: sent = answered + errors + abandoned", setup_ended, setup_sent),
        Finding::equal("warm-up: sent = answered + errors + abandoned", warmup_ended, warmup_sent),
        Finding::at_most("warmup.sent_in_window", warmup_sent, warmup.sent_in_window),
        Finding::at_most("warmup.answered_in_window", warmup.answered, warmup.answered_in_window),
    ]);
    findings
}

/// The sampled sends: one in N of the requests sent by each shard, the last of those that left
/// together. The shards counted them from setup on, and requests in flight when the window began
/// needn't be consecutive.
fn sampled(report: &Report, part: &Part) -> Finding {
    let Counts { sent, unconnected, sends_sampled: found, .. } = part.counts;
    let plan = &report.config.plan;
    let Some(one_in) = plan.stamp_sends.and_then(OneIn::count) else {
        return Finding::equal("sends_sampled", 0, found);
    };
    let (one_in, sent) = (u64::from(one_in.get()), sent.saturating_sub(unconnected));
    let (edge, shards) = (report.conns() * plan.depth(), report.generator.shards.len() as u64);
    let least = sent.saturating_sub(edge as u64) / one_in.max(plan.depth() as u64);
    let least = least.saturating_sub(shards);
    let most = (sent + edge as u64) / one_in + shards;
    let ok = (least..=most).contains(&found);
    Finding::new("sends_sampled", format!("{least} to {most}"), found, ok)
}

/// A count per second of the window.
pub(super) fn per_second(report: &Report, count: u64) -> f64 {
    let until_ns = seconds_to_ns(report.config.schedule_until);
    match until_ns.saturating_sub(report.config.plan.warmup.0) {
        0 => 0.0,
        window_ns => count as f64 * SECOND_NS as f64 / window_ns as f64,
    }
}

/// Rates are counts over the window; there can't be more answers before its end than in all.
fn rates(report: &Report, part: &Part) -> Vec<Finding> {
    let Part { counts, rate, .. } = part;
    let expected = Rates {
        unit: rate.unit,
        target: target(report),
        intended: per_second(report, counts.intended),
        sent: per_second(report, counts.sends_in_window()),
        sent_due: per_second(report, counts.sent_in_window),
        answered: rate.answered_due + per_second(report, counts.warmup.answered_in_window),
        answered_due: rate.answered_due,
    };
    let mut findings = compare("rate.", &expected, rate);
    let most = per_second(report, counts.answered);
    let found = rate.answered_due;
    let ok = 0.0 <= found && (found <= most || is_close(most, found));
    let most = format!("at most {most}");
    findings.push(Finding::new("rate.answered_due by the counts", most, found, ok));
    findings
}

/// The planned requests per second of these agents, including lost ones.
pub(super) fn target(report: &Report) -> Option<f64> {
    let there = report.per_agent.iter().map(|agent| &agent.config.share);
    let lost = report.agent_lost.iter().map(|lost| &lost.share);
    let until_ns = seconds_to_ns(report.config.schedule_until);
    offered_rate(&report.config.plan, until_ns, there.chain(lost))
}

/// Where the schedule ended.
pub(super) fn until(report: &Report) -> Finding {
    let config = &report.config;
    let plan = &config.plan;
    let until_ns = seconds_to_ns(config.schedule_until);
    let may_be_early = report.interrupted || plan.ends_by_count();
    Finding::new(
        "schedule_until",
        if may_be_early { "the plan's end, or before" } else { "the plan's end" },
        config.schedule_until,
        (until_ns == plan.end_ns() || (may_be_early && until_ns < plan.end_ns()))
            && is_close(until_ns as f64 / SECOND_NS as f64, config.schedule_until),
    )
}

/// A window that ended after a number of requests had exactly these, unless something else ended it
/// before, or only some of its agents are here.
pub(super) fn requests(report: &Report) -> Option<Finding> {
    let plan = &report.config.plan;
    let requests = plan.requests?;
    let intended = report.whole.counts.intended;
    let ended_before = report.interrupted
        || report.partial
        || report.offered() < 1.0
        || match plan.ends_by_count() {
            true => seconds_to_ns(report.config.schedule_until) == plan.end_ns(),
            false => is_cut_short(plan),
        };
    Some(match ended_before {
        true => Finding::at_most("intended of --requests", requests, intended),
        false => Finding::equal("intended of --requests", requests, intended),
    })
}

/// The arrivals taken from the schedule, and their proof.
pub(super) fn taken(report: &Report, planned: Option<&Planned>) -> Vec<Finding> {
    let config = &report.config;
    let mut findings = compare(
        "schedule_digest",
        &planned.map(|planned| planned.whole.hex()),
        &config.schedule_digest,
    );
    findings.extend(compare(
        "schedule_arrivals",
        &planned.map(|planned| planned.whole.arrivals()),
        &config.schedule_arrivals,
    ));
    if let Some(planned) = planned {
        let counts = &report.whole.counts;
        let due = planned.window.arrivals();
        let intended = counts.arrivals();
        findings.push(Finding::equal("intended by the schedule", due, intended));
        findings.extend(planned.rescaled.iter().cloned());
        findings.extend(by_schedule(&report.config.plan, &report.whole, planned));
        let checks = slowest::by_schedule(&report.config.plan, &report.whole, &planned.listed);
        findings.extend(summed_up("slowest: due by the schedule", checks));
    }
    findings.extend(arrivals(report, planned));
    findings
}

/// The proof of the arrivals: everything that follows from the plan, and from the figures of the
/// sends.
fn arrivals(report: &Report, planned: Option<&Planned>) -> Vec<Finding> {
    let bounds = &report.config.plan.thresholds;
    let found = report.arrivals.as_ref();
    let expected = match (planned, found) {
        (Some(planned), Some(found)) => Some(planned.proof_with_sends_of(found, bounds)),
        (planned, _) => planned.map(|planned| planned.proof.clone()),
    };
    let line = expected.as_ref().map(|proof| proof.line(report.config.plan.load_changes()));
    let mut findings = summed_up("arrivals", compare("", &expected, &report.arrivals));
    findings.extend(compare("arrivals_line", &line, &report.arrivals_line));
    findings
}

/// The raw samples against the plan and the counts.
pub(super) fn samples(report: &Report) -> Vec<Finding> {
    let reported = |some: bool| if some { "reported" } else { "none" };
    let asked = report.config.plan.raw.is_some();
    let mut findings =
        vec![Finding::equal("samples", reported(asked), reported(report.samples.is_some()))];
    if let Some(samples) = &report.samples {
        let intended = report.whole.counts.intended;
        // Segments that were complete before an error stay.
        let has_file = |samples: &Samples| samples.error.is_none() || 0 < samples.written;
        let has_file = match report.is_joint() {
            false => has_file(samples),
            true => report
                .per_agent
                .iter()
                .all(|agent| agent.samples.as_ref().is_some_and(|samples| samples.file.is_some())),
        };
        findings.extend([
            Finding::equal(
                "intended = samples written + lost",
                samples.written + samples.lost,
                intended,
            ),
            Finding::equal("samples.file", has_file, samples.file.is_some()),
        ]);
        // With several agents, one may have a file and another none.
        if !report.is_joint() {
            findings.push(Finding::new(
                "samples.written",
                if samples.file.is_some() { "some" } else { "0" },
                samples.written,
                samples.file.is_some() || samples.written == 0,
            ));
        }
    }
    findings
}
