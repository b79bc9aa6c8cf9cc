//! The details of a run, shown on demand: its reasons in full, and a line each for lateness,
//! requests, connections, and the run's checks of itself.

use engine::load::replay::ReplayedLog;
use engine::plan::endpoint::Endpoint;
use engine::plan::{Model, Plan, StampSource, Switch};
use engine::record::counts::{Counts, CountsBy, Key, SetupCounts, WarmupCounts};
use engine::record::outcome::Cause;
use engine::record::shard_stats::ShardStats;
use engine::report::machine::Machine;
use engine::report::machine::Ports;
use engine::report::machine::TcpCounts;
use engine::report::profile::{Profile, Sampler};
use engine::report::{
    CheckPart, ClientShare, DistributionPart, EndpointPart, Report, ResponseStamps, StreamsPart,
    TlsPart,
};
use engine::stats::mix_proof::MixProof;
use engine::stats::percentiles::Quantile;
use engine::sys::units::{CoreList, OneIn};

use super::figures::{bytes, count, largest_first, listed, percent, rate, things, time};
use super::layout::{LABEL, Text, sections, wrap};
use super::slo::objectives;
use super::{explain, parts, per_agent, slowest, table, verdict};
use crate::json;

/// A shorter phase isn't shown, seconds.
const PHASE_SHOWN_S: f64 = 0.1;

/// Everything that the first screen leaves out.
pub(crate) fn all(report: &Report) -> String {
    let whole = &report.whole;
    sections([
        "details\n".to_owned(),
        verdict::evidence(&report.verdict),
        verdict::meanings(&report.verdict),
        verdict::notes(&report.verdict),
        wrap(&explain::difference(report)),
        wrap(&table::noted(&whole.naive, &whole.corrected).join(". ")),
        report
            .slo
            .as_ref()
            .map_or_else(String::new, |slo| objectives(slo, report.config.window_s())),
        whole.successes.as_ref().map_or_else(String::new, |successes| {
            table::table("successes", Some(&successes.naive), &successes.corrected)
        }),
        parts::outcomes(whole),
        per_agent::more(report),
        slowest::slowest(whole),
        lines(report),
    ])
}

/// The lines of the details.
fn lines(report: &Report) -> String {
    let mut lines = Lines(Text::new());
    lines.rates(report);
    lines.lateness(report);
    lines.requests(report);
    lines.connections(report);
    lines.checks(report);
    if let Some(samples) = &report.samples {
        let file = samples.file.as_deref().unwrap_or("no file");
        let (written, lost) = (count(samples.written), count(samples.lost));
        lines.0.field_whole(
            LABEL,
            "raw samples",
            &format!("{written} written, {lost} lost: {file}"),
        );
    }
    if let Some(profile) = &report.profile {
        lines.profile(profile);
    }
    if let Some(label) = &report.label {
        lines.add("label", label);
    }
    if !report.tags.is_empty() {
        let tags = report.tags.iter().map(|(name, value)| format!("{name}={value}"));
        lines.add("tags", tags.collect::<Vec<_>>().join(", "));
    }
    lines.0.done()
}

/// The generator's busy time, and its share of latencies; `None` without a shard.
pub(super) fn generator(report: &Report) -> Option<String> {
    let (busiest, of) = busiest(report)?;
    let mut text = format!("core {}{of} busy {}", busiest.core, percent(busiest.busy));
    // Users of a closed loop wait for the generator after the response, and nothing is late before.
    if let Some(share) = report.littles_law.generator_share {
        text.push_str(&format!("; users waited for it {} of their time", percent(share)));
    } else if let Some(share) = &report.whole.client_share {
        let ends = share.parts().filter(|(quantile, _)| ["p50", "p99"].contains(&quantile.label));
        let ends: Vec<String> = ends
            .map(|(quantile, part)| format!("{} to {}", time(part.whole()), quantile.label))
            .collect();
        text.push_str(&format!("; added {}", ends.join(" and ")));
        let ResponseStamps { kernel, program, .. } = report.whole.stamps;
        if kernel == 0 && 0 < program {
            text.push_str(" before sending, unknown after");
        }
    }
    Some(text)
}

/// The busiest shard, and its agent if there are several.
fn busiest(report: &Report) -> Option<(&ShardStats, String)> {
    let all = report.per_agent.iter().flat_map(|agent| {
        let name = if report.is_joint() { format!(" of {}", agent.name) } else { String::new() };
        agent.generator.shards.iter().map(move |shard| (shard, name.clone()))
    });
    all.max_by(|(a, _), (b, _)| a.busy.total_cmp(&b.busy))
}

/// The lines of a profile.
pub(crate) fn profile(of: &Profile) -> String {
    let mut lines = Lines(Text::new());
    lines.profile(of);
    lines.0.done()
}

/// Lines, with their names in a column.
struct Lines(Text);

impl Lines {
    fn add(&mut self, name: &str, text: impl AsRef<str>) {
        self.0.field(LABEL, name, text);
    }

    /// Requests due, and how many of the window's sends and answers were due in it: the rest was
    /// left over from the warm-up.
    fn rates(&mut self, report: &Report) {
        let of = &report.whole.rate;
        let [intended, sent, answered] = [of.intended, of.sent_due, of.answered_due].map(rate);
        self.add(
            "due per second",
            format!("{intended}, of which {sent} sent, {answered} answered"),
        );
    }

    /// Where requests waited before they were sent: for the generator, or for a connection.
    fn lateness(&mut self, report: &Report) {
        let part = &report.whole;
        self.add("pacer lateness", p50_p99(&part.pacer_lateness));
        self.add("connection wait", p50_p99(&part.connection_wait));
        let sample = report.config.plan.stamp_sends;
        if let Some(one_in) = sample.filter(|sample| *sample != OneIn::OFF) {
            let Counts { sends_sampled, sends_stamped, .. } = part.counts;
            let missing = match sends_sampled.saturating_sub(sends_stamped) {
                0 => String::new(),
                missing => format!(", {} without a stamp", count(missing)),
            };
            let path = p50_p99(&part.send_path);
            let sampled = count(sends_sampled);
            self.add("send path", format!("{path}; {sampled} sampled ({one_in}){missing}"));
        }
        if 0 < part.receive_lateness.count {
            self.add("receive lateness", p50_p99(&part.receive_lateness));
        }
        let ResponseStamps { source, kernel, program } = part.stamps;
        if 0 < program && (0 < kernel || source == StampSource::Kernel) {
            let (kernel, program) = (count(kernel), count(program));
            self.add("stamps", format!("{kernel} by the kernel, {program} by the program"));
        }
        if let Some(share) = &part.client_share {
            self.add("client share", added(share, &part.stamps, report.has_long_responses()));
        }
    }

    fn requests(&mut self, report: &Report) {
        let counts = &report.whole.counts;
        let reasons = in_brackets(&counts.unsent_reasons);
        // The report counts requests that never had a connection as sent and failed.
        let without = match counts.unconnected {
            0 => String::new(),
            unconnected => format!(" + {} without a connection", count(unconnected)),
        };
        let sent = count(counts.sent.saturating_sub(counts.unconnected));
        let unsent = count(counts.unsent);
        self.add("intended", format!("{sent} sent{without} + {unsent} unsent{reasons}"));
        let early = match counts.incomplete_uploads {
            0 => String::new(),
            early => format!(" ({} before the request was completely sent)", count(early)),
        };
        self.add(
            "sent",
            format!(
                "{} answered{early} + {} timed out + {} failed + {} abandoned",
                count(counts.answered),
                count(counts.timed_out),
                count(counts.failed.saturating_sub(counts.unconnected)),
                count(counts.abandoned)
            ),
        );
        let unexpected = match counts.unexpected_status {
            0 => String::new(),
            unexpected => format!(" ({} unexpected)", count(unexpected)),
        };
        self.add("status", listed(&counts.status) + &unexpected);
        for CheckPart { name, check, failed } in &report.whole.checks {
            let of = if report.whole.parts.is_empty() { "" } else { &format!("{name}: ") };
            if 0 < *failed {
                self.add("failed check", format!("{of}{check}: {}", count(*failed)));
            }
        }
        let mut causes = counts.errors.by_name();
        if 0 < counts.abandoned {
            causes.insert("abandoned".to_owned(), counts.abandoned);
        }
        self.add("errors", largest_first(causes));
        let SetupCounts { sent, answered, errors, abandoned, .. } = &counts.setup;
        self.before("set-up", [*sent, *answered, *abandoned, 0], errors);
        let WarmupCounts { sent, answered, errors, abandoned, unsent, .. } = &counts.warmup;
        self.before("warm-up", [*sent, *answered, *abandoned, *unsent], errors);
    }

    /// Requests before the window, if some had no answer: sent, answered, abandoned, unsent, and
    /// the rest by cause.
    fn before(&mut self, name: &str, counts: [u64; 4], errors: &CountsBy<Cause>) {
        let [sent, answered, abandoned, unsent] = counts;
        if sent == answered && unsent == 0 {
            return;
        }
        let mut causes = errors.by_name();
        let others = [("abandoned", abandoned), ("unsent", unsent)];
        let others = others.into_iter().filter(|(_, number)| 0 < *number);
        causes.extend(others.map(|(name, number)| (name.to_owned(), number)));
        let (sent, answered) = (count(sent), count(answered));
        self.add(name, format!("{sent} sent, {answered} answered; {}", largest_first(causes)));
    }

    fn connections(&mut self, report: &Report) {
        let (part, plan) = (&report.whole, &report.config.plan);
        let counts = &part.counts;
        let (all, within) = (count(counts.connects), count(counts.connects_in_window));
        let phases = opened_and_closed(&report.generator.shards);
        self.add("connections", format!("{all} opened, {within} of them in the window{phases}"));
        if 1 < plan.depth() {
            let shared = |part, whole| percent(part as f64 / u64::max(whole, 1) as f64);
            let text = format!(
                "up to {} in flight on a connection; {} left in one send with others, {} of the \
                 responses came in one receive with others",
                plan.depth(),
                shared(counts.shared_sends, counts.sent),
                shared(counts.shared_receives, counts.answered)
            );
            self.add(if plan.http.is_1() { "pipelined" } else { "streams" }, text);
        }
        if 0 < counts.waited {
            let (waited, capped) = (things(counts.waited, "arrival"), count(counts.capped));
            let conns = count(report.conns() as u64);
            self.add(
                "waited",
                format!("{waited} found no connection free, {capped} at the cap of {conns}"),
            );
        }
        for endpoint in &part.endpoints {
            self.add("endpoint", of_endpoint(endpoint));
        }
        if 0 < counts.connection_errors.total() {
            self.add("conn errors", listed(&counts.connection_errors));
        }
        if 0 < counts.connects_in_window {
            self.add("connect time", p50_p99(&part.connect_time));
        }
        if let Some(tls) = &part.tls {
            self.tls(report, tls);
        }
        if let Some(http2) = &part.http2 {
            self.http2(report, http2);
        }
        // Each of several agents has ports of its own, which the report lists for it.
        if plan.keepalive == Switch::Off && !report.is_joint() {
            let machine = report.generator.machine.as_ref();
            let ports = machine.and_then(|machine| machine.ports.as_ref());
            self.add("local ports", ports.map_or("unknown".to_owned(), taken));
        }
    }

    /// What HTTP/2 did on the connections.
    fn http2(&mut self, report: &Report, http2: &StreamsPart) {
        let counts = &report.whole.counts;
        let limit = match http2.limit {
            None => "the target sets no limit".to_owned(),
            Some(limit) => format!("the target takes {}", things(limit.into(), "stream")),
        };
        let most = count(http2.in_flight_max);
        self.add(
            "in flight",
            format!(
                "{:.1} streams of a connection on average, at most {most}; {limit}",
                http2.in_flight_mean
            ),
        );
        let headers = |sent: u64, uncompressed: u64| {
            let saved = 1.0 - sent as f64 / u64::max(uncompressed, 1) as f64;
            format!("{} ({} saved)", bytes(sent), percent(saved.max(0.0)))
        };
        self.add(
            "headers",
            format!(
                "{} of requests, {} of responses; {} and {} frames",
                headers(http2.request_header_bytes, http2.request_header_bytes_uncompressed),
                headers(http2.response_header_bytes, http2.response_header_bytes_uncompressed),
                count(http2.frames_sent),
                count(http2.frames_received)
            ),
        );
        for (name, wait) in [
            ("wait: opening", &http2.connection_wait),
            ("wait: stream", &http2.stream_wait),
            ("wait: window", &http2.window_wait),
        ] {
            if 0 < wait.count {
                self.add(name, format!("{}, {}", things(wait.count, "request"), p50_p99(wait)));
            }
        }
        if 0 < counts.goaways.saturating_add(counts.requeued) {
            let requeued = things(counts.requeued, "time");
            let goaways = things(counts.goaways, "GOAWAY");
            self.add("requeued", format!("{requeued}, on {goaways} or refused streams"));
        }
    }

    /// TLS handshakes and their cost.
    fn tls(&mut self, report: &Report, tls: &TlsPart) {
        let mut text = [&tls.version, &tls.cipher, &tls.group]
            .into_iter()
            .filter(|name| !name.is_empty())
            .map(|name| format!("{name}; "))
            .collect::<String>();
        let resumed = count(tls.resumed);
        text += &format!("{}, {resumed} resumed", things(tls.full, "full handshake"));
        if 0 < tls.truncated {
            text += &format!("; {} closed without close_notify", count(tls.truncated));
        }
        if tls.insecure {
            text += "; any certificate was accepted (--insecure)";
        }
        self.add("tls", text);
        if 0 < tls.handshake_time.count {
            let shards = report.generator.shards.iter();
            let busy_s: f64 = shards.map(|shard| shard.busy * shard.observed_s).sum();
            // The kernel's account of a thread's time is too coarse for a window of a few
            // milliseconds.
            let share = Some(tls.handshake_work_s / busy_s).filter(|share| *share <= 1.0);
            let share =
                share.map(|share| format!(", {} of the generator's own work", percent(share)));
            let window_s = report.config.window_s();
            let per_s =
                if window_s == 0.0 { 0.0 } else { tls.handshake_time.count as f64 / window_s };
            self.add(
                "handshakes",
                format!(
                    "{}; {} per second in the window{}",
                    p50_p99(&tls.handshake_time),
                    rate(per_s),
                    share.unwrap_or_default()
                ),
            );
        }
    }

    /// The profile of processor time.
    fn profile(&mut self, profile: &Profile) {
        let by = match profile.sampling.source {
            Sampler::Perf => format!("perf, {}", profile.sampling.event),
            Sampler::InProcess => format!("own sampler, {}", profile.sampling.event),
        };
        let whole = match profile.cpu_us_per_request {
            Some(us) => format!("{} of CPU per request", time(us)),
            None => format!("{:.2} s of CPU", profile.sampling.cpu_s),
        };
        let split = match (&profile.kernel, &profile.sampling.user_only) {
            (Some(kernel), _) => format!(
                "{} in the kernel, {} in user space",
                percent(kernel.share),
                percent(profile.user.share)
            ),
            (None, why) => format!("user space only: {}", why.as_deref().unwrap_or("unknown")),
        };
        let samples = things(profile.samples, "sample");
        self.add("profile", format!("{whole}; {split}; {samples} ({by})"));
        if let Some(why) = &profile.sampling.kernel_unnamed {
            self.add("", format!("kernel functions have no names: {why}"));
        }
        let heaviest: Vec<String> = profile
            .frames
            .iter()
            .map(|frame| format!("{} {}", frame.name, percent(frame.own.share)))
            .collect();
        self.add("most CPU in", heaviest.join(", "));
    }

    /// How close the run came to the generator's limits here.
    fn calibration(&mut self, report: &Report) {
        let Some(held) = &report.calibration else {
            let plan = &report.config.plan;
            let cores = CoreList::new(plan.cores().to_vec());
            let text = format!(
                "none that fits is saved (core {cores}, --wait {}, this kernel and processor); \
                 `truetail calibrate` makes one",
                json::name(&plan.wait)
            );
            return self.add("calibration", text);
        };
        let near = match held.rate_of_ceiling {
            Some(share) => {
                let sent = report.whole.rate.sent;
                let most = rate(sent / share.max(f64::MIN_POSITIVE));
                let name = match report.config.plan.model() {
                    Model::Open => "open-loop limit",
                    Model::Closed => "closed-loop peak",
                };
                format!("{}/s sent, {} of the {name} of {most}/s", rate(sent), percent(share))
            }
            None => "no capacity to compare with".to_owned(),
        };
        let floor = match held.floor.zip(held.floor_of_p50) {
            Some((floor, share)) => {
                let at = match held.calibrated.nearest_to(report.whole.rate.sent) {
                    Some(nearest) => format!("{}/s, the nearest rate measured", rate(nearest)),
                    None => "that rate".to_owned(),
                };
                format!("floor {} at {at}, {} of corrected p50", time(floor), percent(share))
            }
            None => "no floor to compare with".to_owned(),
        };
        self.add("calibration", format!("{near}; {floor}"));
    }

    /// The run's checks of itself: generator, arrivals, Little's law, stationarity.
    fn checks(&mut self, report: &Report) {
        if let Some((busiest, of)) = busiest(report) {
            let shards = &report.generator.shards;
            let gap_us = shards.iter().map(|shard| shard.longest_gap_us).fold(0.0, f64::max);
            let (core, busy) = (busiest.core, percent(busiest.busy));
            self.add(
                "generator",
                format!("busiest core {core}{of} at {busy}, longest gap {}", time(gap_us)),
            );
        }
        if !report.is_joint() {
            self.calibration(report);
        }
        if let Some(lost) = report.generator.machine.as_ref().and_then(lost) {
            self.add("network", lost);
        }
        let is_shown = |line: &&String| {
            // Arrivals that were not as planned are among the verdict's reasons.
            report.verdict.found().all(|reason| !reason.evidence.starts_with(&**line))
        };
        if let Some(log) = &report.replay {
            self.add("log", replayed(log, &report.config.plan));
        }
        if let Some(line) = report.arrivals_line.as_ref().filter(is_shown) {
            self.add("schedule", line);
        }
        // One that isn't as planned is among the verdict's reasons.
        if let Some(MixProof { statistic, degrees, p, .. }) =
            report.mix.filter(MixProof::is_as_planned)
        {
            let degrees = things(degrees, "degree");
            self.add(
                "mix",
                format!("as planned: χ² {statistic:.1}, {degrees} of freedom, p {p:.2}"),
            );
        }
        let law = &report.littles_law;
        let checked = if report.config.window_s() == 0.0 {
            "n/a: the run ended before its window began".to_owned()
        } else {
            format!(
                "mean in flight {:.3}, throughput × latency {:.3}: off by {}; {:.3} at the target",
                law.in_flight_mean,
                law.expected,
                percent(law.residual),
                law.at_target_mean
            )
        };
        self.add("Little's law", checked);
        let steady = match &report.stationarity {
            None if report.replay.is_some() => "not judged: the log's rate changes".to_owned(),
            None if report.config.plan.load_changes() => {
                "no stage of one load is long enough to tell".to_owned()
            }
            None => "window too short to tell".to_owned(),
            Some(found) => {
                let recurring = found.distance_recurring.map_or(String::new(), |distance| {
                    format!(", {distance:.3} to what is most alike elsewhere")
                });
                let first = match (found.stationary, found.distance_recurring) {
                    (false, _) => "unlike the first",
                    (true, None) => "like the first",
                    (true, Some(_)) => "unlike the first, but both recur",
                };
                let of_stage = found.stage.map_or(String::new(), |number| {
                    format!(" of stage {}", report.config.plan.stage_label(number))
                });
                format!(
                    "last quarter{of_stage} {first}: KS distance {:.3}{recurring} (limit {:.3}), p99 ratio \
                     {:.2}",
                    found.distance, found.distance_max, found.p99_ratio
                )
            }
        };
        self.add("stationarity", steady);
    }
}

/// The time that the generator added to the requests at each percentile, and the percentiles
/// without kernel stamps.
fn added(share: &ClientShare, stamps: &ResponseStamps, are_long: bool) -> String {
    let (parts, without): (Vec<String>, Vec<String>) = share
        .parts()
        .map(|(Quantile { label: name, .. }, part)| {
            let (corrected, added) = (time(part.corrected), time(part.whole()));
            let share = percent(part.share());
            let text = format!("{added} of the {corrected} at {name} ({share})");
            (text, time(part.when_handled))
        })
        .unzip();
    // The last segment of a long body can't arrive before the generator has read the others.
    let reading = if are_long { ", and an unknown part while bodies were read" } else { "" };
    let before = format!("the generator added {}{reading}", parts.join(", "));
    if 0 < stamps.kernel {
        format!("{before}; without kernel stamps they would have read {}", without.join(", "))
    } else {
        format!("{before}, and an unknown part after responses arrived")
    }
}

/// That the requests of several hosts had one target; empty if the log names one at most.
pub(super) fn all_to_one(log: &ReplayedLog, plan: &Plan) -> String {
    match Endpoint::parse(&plan.target) {
        Ok(target) if 1 < log.hosts => {
            let hosts = count(log.hosts);
            format!("; requests to its {hosts} hosts were all sent to {}", target.authority)
        }
        _ => String::new(),
    }
}

/// What was read of a log that this plan replays.
fn replayed(log: &ReplayedLog, plan: &Plan) -> String {
    let (requests, routes) = (things(log.requests, "request"), things(log.routes, "route"));
    let mut text = format!("{}, {requests} to {routes}", log.format);
    if 0 < log.unreadable {
        let problems = log.problems.join("; ");
        text.push_str(&format!(", {} unreadable ({problems})", things(log.unreadable, "line")));
    }
    if log.spread {
        text.push_str("; it has only whole seconds, over which its requests were spread");
    }
    text + &all_to_one(log, plan)
}

fn p50_p99(of: &DistributionPart) -> String {
    table::listed(of, &["p50", "p99"])
}

/// The local ports used towards the target, at their peak.
fn taken(ports: &Ports) -> String {
    let all = count(ports.range * ports.sources);
    let (in_use, time_wait) = (count(ports.in_use_max), count(ports.time_wait_max));
    let on = match ports.sources {
        0 | 1 => String::new(),
        sources => format!(" on the fullest of {sources} addresses"),
    };
    let left = count(ports.headroom);
    format!("peak {in_use} in use and {time_wait} in TIME_WAIT of {all}: {left} left{on}")
}

/// Losses of the network in the window; `None` if there are none, or they are unknown.
fn lost(machine: &Machine) -> Option<String> {
    let TcpCounts { segments_sent, retransmitted, listen_drops, .. } = machine.tcp?;
    let dropped = machine.interface.as_ref().map_or(0, |interface| interface.dropped);
    let again = (0 < retransmitted).then(|| {
        format!("{} of {} segments retransmitted", count(retransmitted), count(segments_sent))
    });
    let dropped = (0 < dropped).then(|| format!("{} dropped", things(dropped, "packet")));
    let refused = (0 < listen_drops)
        .then(|| format!("{} dropped by a listener here", things(listen_drops, "connection")));
    let parts: Vec<String> = [again, dropped, refused].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", ") + " (all programs)")
}

/// How long the setup took to open the connections, and the end to close them, if that is
/// significant: shards do it at the same time, so the slowest counts.
fn opened_and_closed(shards: &[ShardStats]) -> String {
    let slowest = |of: fn(&ShardStats) -> f64| shards.iter().map(of).fold(0.0, f64::max);
    let opening_s = slowest(|shard| shard.opening_s);
    let closing_s = slowest(|shard| shard.closing_s);
    if opening_s.max(closing_s) < PHASE_SHOWN_S {
        return String::new();
    }
    format!("; opened in {}, closed in {}", time(opening_s * 1e6), time(closing_s * 1e6))
}

/// One endpoint's connections, and the arrivals that waited for one.
fn of_endpoint(endpoint: &EndpointPart) -> String {
    let EndpointPart { name, address, counts, .. } = endpoint;
    let mut text = format!("{name} at {address}: {}", things(counts.connects, "connection"));
    if 0 < counts.yielded {
        text.push_str(&format!(", {} closed for other endpoints", count(counts.yielded)));
    }
    if 0 < counts.waited {
        let waited = things(counts.waited, "arrival");
        let longest = time(counts.wait_max_ns as f64 / 1e3);
        text.push_str(&format!("; {waited} waited for one, at most {longest}"));
    }
    if 0 < counts.connect_failures.total() {
        text.push_str(&format!("; failed to connect: {}", listed(&counts.connect_failures)));
    }
    text
}

fn in_brackets<K: Key>(counts: &CountsBy<K>) -> String {
    if counts.total() == 0 { String::new() } else { format!(" ({})", listed(counts)) }
}

#[cfg(test)]
mod tests {
    use engine::record::outcome::UnsentReason;
    use engine::report::calibration::Calibrated;
    use engine::report::machine::InterfaceTraffic;
    use engine::report::{Samples, merge};
    use engine::stats::stationarity::Stationarity;

    use super::super::made_up;
    use super::super::reports::{part, report, times};
    use super::*;

    #[test]
    fn a_replayed_log_is_shown_with_its_unreadable_lines() {
        let mut log = ReplayedLog {
            format: "JSON lines".to_owned(),
            requests: 1,
            unreadable: 0,
            problems: Vec::new(),
            spread: false,
            routes: 1,
            hosts: 1,
            sha256: String::new(),
        };
        let plan = Plan { target: "http://h/x".to_owned(), ..Plan::default() };
        assert_eq!(replayed(&log, &plan), "JSON lines, 1 request to 1 route");
        log.unreadable = 7;
        log.problems = vec!["line 3: not JSON".to_owned(), "line 5: not JSON".to_owned()];
        (log.spread, log.hosts) = (true, 3);
        assert_eq!(
            replayed(&log, &plan),
            "JSON lines, 1 request to 1 route, 7 lines unreadable (line 3: not JSON; line 5: not \
             JSON); it has only whole seconds, over which its requests were spread; requests \
             to its 3 hosts were all sent to h"
        );
    }

    #[test]
    fn network_losses_are_shown() {
        let mut machine = Machine::default();
        assert_eq!(lost(&machine), None);
        let tcp = |retransmitted, listen_drops| TcpCounts {
            segments_sent: 1_234,
            retransmitted,
            listen_overflows: 0,
            listen_drops,
        };
        machine.tcp = Some(tcp(0, 0));
        assert_eq!(lost(&machine), None);
        machine.tcp = Some(tcp(5, 1));
        machine.interface = Some(InterfaceTraffic {
            name: "eth0".to_owned(),
            speed_mbit: None,
            received_bytes: 9,
            sent_bytes: 9,
            dropped: 2,
        });
        assert_eq!(
            lost(&machine).as_deref(),
            Some(
                "5 of 1,234 segments retransmitted, 2 packets dropped, 1 connection dropped by a \
                 listener here (all programs)"
            )
        );
    }

    #[test]
    fn long_phases_are_those_of_the_slowest_shard() {
        let mut shards = report(true, part(250, 260, 1, 2)).generator.shards;
        shards.push(shards[0].clone());
        (shards[0].opening_s, shards[1].closing_s) = (0.42, 0.1);
        assert_eq!(opened_and_closed(&shards), "; opened in 420 ms, closed in 100 ms");
        (shards[0].opening_s, shards[1].closing_s) = (0.09, 0.09);
        assert_eq!(opened_and_closed(&shards), "");
    }

    #[test]
    fn a_quiet_run_has_few_lines() {
        insta::assert_snapshot!(lines(&report(true, part(250, 260, 1, 2))), @r"
        due per second   333.3, of which 333.3 sent, 333.2 answered
        pacer lateness   p50 1.00 µs, p99 1.00 µs
        connection wait  p50 2.00 µs, p99 2.00 µs
        receive lateness p50 40.0 µs, p99 40.0 µs
        stamps           9,993 by the kernel, 7 by the program
        client share     the generator added 1.00 µs of the 260 µs at p50 (0.4 %),
                         1.00 µs of the 260 µs at p90 (0.4 %), 1.00 µs of the 260 µs at
                         p99 (0.4 %), 1.00 µs of the 260 µs at p99.9 (0.4 %); without
                         kernel stamps they would have read 300 µs, 300 µs, 300 µs,
                         300 µs
        intended         10,000 sent + 0 unsent
        sent             10,000 answered + 0 timed out + 0 failed + 0 abandoned
        status           200: 9,990, 503: 10
        errors           none
        connections      40 opened, 0 of them in the window
        generator        busiest core 1 at 12.3 %, longest gap 85.0 µs
        calibration      none that fits is saved (core 1, --wait hybrid, this kernel and
                         processor); `truetail calibrate` makes one
        schedule         arrivals were Poisson(5000/s) as planned: figures
        Little's law     mean in flight 0.412, throughput × latency 0.413: off by 0.2 %;
                         0.400 at the target
        stationarity     window too short to tell
        ");
    }

    #[test]
    fn what_was_due_in_the_window_stands_beside_what_happened_in_it() {
        let mut report = report(true, part(250, 260, 1, 2));
        let of = &mut report.whole.rate;
        (of.intended, of.sent_due, of.answered_due) = (500_000.0, 12.5, 0.0);
        let line = "due per second   500,000, of which 12.5 sent, 0 answered\n";
        assert!(lines(&report).starts_with(line), "{}", lines(&report));
    }

    #[test]
    fn every_event_has_its_line() {
        let mut part = part(250, 260, 1, 2);
        part.connect_time = times(90, 20);
        let counts = &mut part.counts;
        counts.connects_in_window = 1_000;
        (counts.waited, counts.capped) = (70, 60);
        (counts.unsent, counts.unexpected_status) = (8, 10);
        counts.unsent_reasons = [(UnsentReason::Dropped, 5), (UnsentReason::Deadline, 3)].into();
        counts.errors = [(Cause::Reset, 1), (Cause::TimedOut, 7)].into();
        counts.connection_errors = [(Cause::LocalResource, 2)].into();
        let mut report = report(true, part);
        report.config.plan.keepalive = Switch::Off;
        report.stationarity = Some(Stationarity {
            stage: None,
            distance: 0.034,
            distance_max: 0.131,
            distance_recurring: None,
            p99_first_ns: 1_000_000,
            p99_last_ns: 1_100_000,
            p99_ratio: 1.1,
            stationary: true,
        });
        report.config.plan.stamp_sends = Some("1/100".parse().expect("a sample"));
        (report.whole.counts.sends_sampled, report.whole.counts.sends_stamped) = (101, 99);
        report.whole.send_path = times(3, 99);
        report.samples = Some(Samples {
            file: Some("raw.bin".to_owned()),
            written: 9_990,
            lost: 10,
            error: None,
        });
        insta::assert_snapshot!(lines(&report), @r"
        due per second   333.3, of which 333.3 sent, 333.2 answered
        pacer lateness   p50 1.00 µs, p99 1.00 µs
        connection wait  p50 2.00 µs, p99 2.00 µs
        send path        p50 3.00 µs, p99 n/a (n = 99, need 563); 101 sampled (1/100), 2
                         without a stamp
        receive lateness p50 40.0 µs, p99 40.0 µs
        stamps           9,993 by the kernel, 7 by the program
        client share     the generator added 1.00 µs of the 260 µs at p50 (0.4 %),
                         1.00 µs of the 260 µs at p90 (0.4 %), 1.00 µs of the 260 µs at
                         p99 (0.4 %), 1.00 µs of the 260 µs at p99.9 (0.4 %); without
                         kernel stamps they would have read 300 µs, 300 µs, 300 µs,
                         300 µs
        intended         10,000 sent + 8 unsent (dropped: 5, deadline: 3)
        sent             10,000 answered + 0 timed out + 0 failed + 0 abandoned
        status           200: 9,990, 503: 10 (10 unexpected)
        errors           timed_out: 7, reset: 1
        connections      40 opened, 1,000 of them in the window
        waited           70 arrivals found no connection free, 60 at the cap of 1,000
        conn errors      local_resource: 2
        connect time     p50 90.0 µs, p99 n/a (n = 20, need 563)
        local ports      peak 45 in use and 1,000 in TIME_WAIT of 28,232: 27,187 left
        generator        busiest core 1 at 12.3 %, longest gap 85.0 µs
        calibration      none that fits is saved (core 1, --wait hybrid, this kernel and
                         processor); `truetail calibrate` makes one
        schedule         arrivals were Poisson(5000/s) as planned: figures
        Little's law     mean in flight 0.412, throughput × latency 0.413: off by 0.2 %;
                         0.400 at the target
        stationarity     last quarter like the first: KS distance 0.034 (limit 0.131),
                         p99 ratio 1.10
        raw samples      9,990 written, 10 lost: raw.bin
        ");
    }

    #[test]
    fn requests_without_a_connection_are_not_called_sent() {
        let mut part = part(250, 260, 1, 2);
        let counts = &mut part.counts;
        (counts.sent_in_window, counts.answered) = (1_870, 1_800);
        (counts.unconnected, counts.failed, counts.timed_out) = (8_130, 8_150, 50);
        counts.incomplete_uploads = 7;
        let text = lines(&report(true, part));
        for line in [
            "intended         1,870 sent + 8,130 without a connection + 0 unsent\n",
            "sent 1,800 answered (7 before the request was completely sent) + 50 timed out + \
             20 failed + 0 abandoned",
        ] {
            let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words(&text).contains(&words(line)), "{line} is missing in: {text}");
        }
    }

    #[test]
    fn quarters_that_recur_are_marked() {
        let mut report = report(true, part(250, 260, 1, 2));
        report.stationarity = Some(Stationarity {
            stage: None,
            distance: 0.38,
            distance_max: 0.157,
            distance_recurring: Some(0.021),
            p99_first_ns: 1_000_000,
            p99_last_ns: 1_100_000,
            p99_ratio: 1.1,
            stationary: true,
        });
        let text = lines(&report);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = "stationarity last quarter unlike the first, but both recur: KS distance 0.380, \
                    0.021 to what is most alike elsewhere (limit 0.157), p99 ratio 1.10";
        assert!(words.contains(line), "{text}");
    }

    #[test]
    fn program_stamps_are_shown_where_kernel_stamps_were_planned() {
        let shown = |source: StampSource, kernel: u64| {
            let mut part = part(250, 260, 1, 2);
            part.stamps = ResponseStamps { source, kernel, program: 10_000 - kernel };
            lines(&report(true, part))
        };
        let line = "stamps           0 by the kernel, 10,000 by the program\n";
        assert!(shown(StampSource::Kernel, 0).contains(line));
        assert!(!shown(StampSource::Kernel, 10_000).contains("by the program"));
        assert!(!shown(StampSource::User, 0).contains("by the program"), "as planned");
    }

    #[test]
    fn the_time_to_read_long_bodies_is_shown_as_unknown() {
        let shown = |bytes: u64| {
            let mut report = report(true, part(250, 260, 1, 2));
            report.generator.shards[0].received_bytes = 10_000 * bytes;
            lines(&report).split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let message = "and an unknown part while bodies were read; without kernel stamps";
        assert!(shown(65_537).contains(message), "{}", shown(65_537));
        assert!(!shown(65_536).contains("unknown part"));
    }

    #[test]
    fn used_ports_are_of_all_sources_and_free_ones_of_the_fullest() {
        let ports =
            Ports { range: 100, sources: 2, in_use_max: 40, time_wait_max: 30, headroom: 70 };
        let text =
            "peak 40 in use and 30 in TIME_WAIT of 200: 70 left on the fullest of 2 addresses";
        assert_eq!(taken(&ports), text);
        let mut report = report(true, part(250, 260, 1, 2));
        report.config.plan.keepalive = Switch::Off;
        report.generator.machine = None;
        assert!(lines(&report).contains("local ports      unknown\n"));
    }

    #[test]
    fn a_window_that_never_began_is_not_checked() {
        let mut report = report(true, part(250, 260, 1, 2));
        report.config.schedule_until = report.config.plan.warmup.as_secs_f64();
        let text = lines(&report);
        assert!(text.contains("Little's law     n/a: the run ended before"), "{text}");
    }

    #[test]
    fn a_line_that_is_a_reason_already_is_not_repeated() {
        use engine::report::verdict::{Code, Reason, Unit};
        let mut report = report(true, part(250, 260, 1, 2));
        assert!(lines(&report).contains("as planned"));
        report.verdict.reasons = vec![Reason {
            code: Code::ScheduleNotAsPlanned,
            agent: None,
            level: engine::report::verdict::Level::Suspect,
            touches: Vec::new(),
            evidence: report.arrivals_line.clone().expect("an open run"),
            figure: 1.0,
            threshold: 0.0,
            unit: Unit::Count,
            meaning: String::new(),
            cure: String::new(),
        }];
        assert!(!lines(&report).contains("as planned"));
    }

    #[test]
    fn a_calibrated_run_shows_how_close_it_came_to_the_limits() {
        let mut report = report(true, part(50, 50, 0, 0));
        let text = |report: &Report| {
            let text = lines(report);
            let from = text.lines().skip_while(|line| !line.starts_with("calibration "));
            from.take_while(|line| !line.starts_with("schedule")).collect::<Vec<_>>().join("\n")
        };
        report.config.plan.cores = Some(CoreList::new(vec![1]));
        let calibrated = made_up::calibrated(&report);
        merge::hold_against(&mut report, calibrated.clone());
        insta::assert_snapshot!(text(&report), @r"
        calibration      333.3/s sent, 0.3 % of the open-loop limit of 100,000/s; floor
                         40.0 µs at 1,000/s, the nearest rate measured, 80.0 % of
                         corrected p50
        ");
        let mut within = calibrated.clone();
        within.floors[0].rate = 333.0;
        within.floors[1].rate = 3_330.0;
        merge::hold_against(&mut report, within);
        assert!(text(&report).contains(" µs at that rate, "), "{}", text(&report));
        let calibrated = Calibrated { ceiling_open: None, floors: Vec::new(), ..calibrated };
        merge::hold_against(&mut report, calibrated);
        insta::assert_snapshot!(text(&report), @r"
        calibration      no capacity to compare with; no floor to compare with
        ");
    }
}
