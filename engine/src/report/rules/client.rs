//! Rules about the generator's own part of the latencies: before the send, and after the response
//! has arrived.

use super::share::{percent, share};
use crate::plan::StampSource;
use crate::report::figures::{count, time};
use crate::report::verdict::{Code, Level, Reason, Topic, Unit};
use crate::report::{ClientPart, Report};

/// Share of the responses that may lack the kernel's stamp, such as those that end when the target
/// closes the connection.
const UNSTAMPED_MAX: f64 = 0.01;
/// Share of the responses from which the median is one with the program's stamp.
const MOST: f64 = 0.5;

/// Share of a paced loop's requests that have to have waited for their connection before it matters
/// what these waited for.
const WAITED_MIN: f64 = 0.001;

/// Whether most responses have the kernel's stamp.
pub(super) fn mostly_stamped(report: &Report) -> bool {
    share(report.whole.stamps.program, report.whole.counts.answered) <= MOST
}

/// Latencies end when the program handled the response, and the responses that the kernel stamped
/// show how late that was.
pub(super) fn receive_late(report: &Report, reasons: &mut Vec<Reason>) {
    let bound = report.config.plan.thresholds.client_share;
    let part = &report.whole;
    let unstamped = share(part.stamps.program, part.counts.answered);
    if unstamped <= UNSTAMPED_MAX {
        return;
    }
    let worst = [(0.5, "p50"), (0.99, "p99")].into_iter().filter_map(|(q, name)| {
        let (late, naive) = (part.receive_lateness.quantile_us(q)?, part.naive.quantile_us(q)?);
        Some((if naive == 0.0 { 0.0 } else { late / naive }, name, late, naive))
    });
    let Some((figure, name, late, naive)) = worst.max_by(|one, two| one.0.total_cmp(&two.0)) else {
        return;
    };
    if figure <= bound {
        return;
    }
    reasons.push(Reason {
        code: Code::ReceiveLate,
        agent: None,
        level: Level::Suspect,
        touches: vec![Topic::Latency],
        evidence: format!(
            "{} of the responses have the program's stamp; those with the kernel's were handled \
             {} late at {name}, {} of naive {}; the limit is {}",
            percent(unstamped),
            time(late),
            percent(figure),
            time(naive),
            percent(bound)
        ),
        figure,
        threshold: bound,
        unit: Unit::Share,
        meaning: "latencies contain the time that responses waited for the generator".to_owned(),
        cure: "use --stamps kernel".to_owned(),
    });
}

/// The interface's hardware was to stamp the responses, and its clock isn't the wall clock.
pub(super) fn hardware_clock(report: &Report, reasons: &mut Vec<Reason>) {
    let part = &report.whole;
    // The program's stand where the kernel has none that counts either.
    let stamped = part.stamps.hardware + part.stamps.program;
    let without = part.counts.answered.saturating_sub(stamped);
    let figure = share(without, part.counts.answered);
    if report.config.plan.stamps() != StampSource::Hardware || figure <= UNSTAMPED_MAX {
        return;
    }
    reasons.push(Reason {
        code: Code::HardwareClock,
        agent: None,
        level: Level::Suspect,
        touches: vec![Topic::Latency],
        evidence: format!(
            "{} of the responses have no stamp of the interface's hardware, or one that \
             contradicts the kernel's",
            percent(figure)
        ),
        figure,
        threshold: UNSTAMPED_MAX,
        unit: Unit::Share,
        meaning: "their latencies end when the kernel took the response in, after its interrupt"
            .to_owned(),
        cure: "keep the interface's clock on the wall clock: phc2sys -s CLOCK_REALTIME \
               -c INTERFACE -O 0"
            .to_owned(),
    });
}

/// What the generator added before requests were sent, or that nobody knows what it added after.
pub(super) fn client_share(report: &Report, reasons: &mut Vec<Reason>) {
    let plan = &report.config.plan;
    let bound = plan.thresholds.client_share;
    let mut add = |figure, evidence, meaning: &str, cure: &str| {
        reasons.push(Reason {
            code: Code::ClientShare,
            agent: None,
            level: Level::Suspect,
            touches: vec![Topic::Latency],
            evidence,
            figure,
            threshold: bound,
            unit: Unit::Share,
            meaning: meaning.to_owned(),
            cure: cure.to_owned(),
        });
    };
    if let Some(shares) = &report.whole.client_share {
        let floor_us = plan.thresholds.lateness_floor_us;
        let p99 = shares.p99.as_ref().filter(|part| floor_us < part.added);
        let found = [("p50", Some(&shares.p50)), ("p99", p99)];
        let found = found.into_iter().filter_map(|(name, part)| Some((name, part?)));
        let worst = found.max_by(|(_, one), (_, two)| one.share().total_cmp(&two.share()));
        if let Some((name, part)) = worst.filter(|(_, part)| bound < part.share()) {
            let ClientPart { corrected, added, .. } = part;
            let evidence = format!(
                "the generator added {} to the requests at corrected {name}, {}: {}; the limit \
                 is {}",
                time(*added),
                time(*corrected),
                percent(part.share()),
                percent(bound)
            );
            add(
                part.share(),
                evidence,
                "corrected latency contains the generator's own delay",
                "use --wait hybrid or spin, more cores, or a smaller --flush",
            );
        }
    }
    let counts = &report.whole.counts;
    let waited = share(counts.waited, counts.intended);
    let held = report.littles_law.held_by_generator().filter(|held| bound < *held);
    // At the cap of an open model, the reason for that says it.
    if plan.period.is_some()
        && WAITED_MIN < waited
        && let Some(held) = held
    {
        let evidence = format!(
            "{} requests ({}) waited until their connection was free, and for {} of the time that \
             requests were in flight their response was there and waited for the generator; the \
             limit is {}",
            count(counts.waited),
            percent(waited),
            percent(held),
            percent(bound)
        );
        add(
            held,
            evidence,
            "corrected latency contains such waits, and what the generator is said to have added \
             doesn't",
            "use --wait hybrid or spin, or more cores",
        );
    }
    let unstamped = share(report.whole.stamps.program, counts.answered);
    if MOST < unstamped {
        let (because, cure) = match (plan.stamps(), &report.environment.unstamped) {
            (StampSource::User, _) if plan.unix.is_some() => (
                "the kernel stamps nothing that passes a Unix-domain socket".to_owned(),
                "to know that share, load the server's TCP port",
            ),
            (StampSource::User, None) => ("--stamps user".to_owned(), "use --stamps kernel"),
            (StampSource::User, Some(why)) => (
                format!("the kernel's stamps were {why}"),
                "run where `truetail doctor` finds receive stamps",
            ),
            (StampSource::Kernel | StampSource::Hardware, _) => (
                format!(
                    "{} of them; the kernel has no stamp for the end of a response that ends when \
                     the target closes the connection, and none that counts for one whose segments \
                     came out of order",
                    percent(unstamped)
                ),
                "let the target send Content-Length, or chunks; or fix packet loss on the path",
            ),
        };
        add(
            unstamped,
            format!("responses are stamped by the program when it handles them ({because})"),
            "the generator's share of each latency is unknown",
            cure,
        );
    }
}

/// The wall clock was set during the run.
pub(super) fn clock_stepped(report: &Report, reasons: &mut Vec<Reason>) {
    // Every shard notices the same step.
    let shards = &report.generator.shards;
    let steps = shards.iter().map(|shard| shard.clock_steps).max().unwrap_or(0);
    if steps == 0 || report.config.plan.stamps() == StampSource::User {
        return;
    }
    let times = if steps == 1 { "once".to_owned() } else { format!("{steps} times") };
    reasons.push(Reason {
        code: Code::ClockStepped,
        agent: None,
        level: Level::Suspect,
        touches: vec![Topic::Latency],
        evidence: format!(
            "the wall clock was set {times} during the run; {} responses have the program's stamp",
            count(report.whole.stamps.program)
        ),
        figure: steps as f64,
        threshold: 0.0,
        unit: Unit::Count,
        meaning: "for a second after each step, latencies contain the time that responses waited \
                  for the generator"
            .to_owned(),
        cure: "stop what sets the clock (a time service that steps instead of slewing)".to_owned(),
    });
}
