//! Rules about the generator's machine: exhausted resources, and competitors for its cores.

use record::outcome::Cause;
use record::shard_stats::ShardStats;

use super::rule::Found;
use super::share::percent;
use crate::Report;
use crate::figures::{count, things};
use crate::machine::{CoreTime, Machine, waited_for_others};

/// Share of a shard's time that others took, beyond which the run is invalid: it affects p90.
const STOLEN_INVALID: f64 = 0.1;
/// Share of the requests that may fail for want of something here before the counts of the whole run
/// are of this machine: fewer are errors that the target hasn't made.
const FAILED_INVALID: f64 = 0.001;
/// Share of its time for which the sibling of a shard's core may be busy. A sibling takes part of
/// the core's speed, not its time, so it matters later than a competitor on the core itself.
const SIBLING_BUSY_MAX: f64 = 0.1;
/// The share of a core's time whose loss affects p99.9.
const TAKEN_MIN: f64 = 0.001;
/// Share of the window for which the control group may be throttled: above it, throttling affects
/// p99.9.
const THROTTLED_MAX: f64 = 0.001;

/// The machine of a report with a single one, or of an agent.
fn machine(report: &Report) -> Option<&Machine> {
    report.generator.machine.as_ref()
}

pub(super) fn local_resource(report: &Report) -> Option<Found> {
    let counts = &report.whole.counts;
    let of = |cause: Cause| counts.errors.of(cause) + counts.connection_errors.of(cause);
    let [ports, files, memory] = Cause::LOCAL.map(of);
    let failed = ports + files + memory;
    let overflows: u64 = report.generator.shards.iter().map(|shard| shard.cq_overflows).sum();
    if failed + overflows == 0 {
        return None;
    }
    let (mut evidence, mut cures) = (Vec::new(), Vec::new());
    if 0 < ports {
        let taken = match machine(report).and_then(|machine| machine.ports.as_ref()) {
            None => "how many were in use is unknown".to_owned(),
            Some(ports) => format!(
                "of {} at most {} were in use and {} in TIME_WAIT, {} left",
                count(ports.range.saturating_mul(ports.sources)),
                count(ports.in_use_max),
                count(ports.time_wait_max),
                count(ports.headroom)
            ),
        };
        evidence.push(format!(
            "{} failed for lack of a local port ({taken})",
            things(ports, "connection")
        ));
        cures.push(
            "connect from more addresses (--source-addresses 127.0.0.2,127.0.0.3), keep \
             connections alive, or widen net.ipv4.ip_local_port_range",
        );
    }
    if 0 < files {
        evidence
            .push(format!("{} failed for lack of a file descriptor", things(files, "connection")));
        cures.push("raise ulimit -n and fs.file-max");
    }
    if 0 < memory {
        evidence
            .push(format!("{} failed for lack of buffers or memory", things(memory, "connection")));
        cures.push("free memory");
    }
    if 0 < overflows {
        evidence.push(format!("the completion queue overflowed {}", things(overflows, "time")));
        cures.push("add --cores or lower --conns, so that a shard has fewer connections");
    }
    let is_much = FAILED_INVALID < failed as f64 / counts.intended as f64 || 0 < overflows;
    Some(
        Found::suspect((failed + overflows) as f64, 0.0, evidence.join("; "))
            .invalid_if(is_much)
            .cure(Some(cures.join("; "))),
    )
}

pub(super) fn cpu_stolen(report: &Report) -> Option<Found> {
    let bounds = &report.config.plan.thresholds;
    let steal = machine(report).and_then(|machine| machine.steal);
    let figure = steal.filter(|steal| bounds.stolen < *steal)?;
    let evidence = format!(
        "the hypervisor took {} of the cores' time; the limit is {}",
        percent(figure),
        percent(bounds.stolen)
    );
    Some(Found::suspect(figure, bounds.stolen, evidence).invalid_if(STOLEN_INVALID < figure))
}

/// What took the shards' cores while the generator added to latencies, as far as it was seen: it
/// explains a percentile long before it is a reason of its own.
pub(super) fn cores_taken(report: &Report) -> String {
    let steal = machine(report).and_then(|machine| machine.steal).unwrap_or(0.0);
    let shards = report.generator.shards.iter();
    let waited = shards.map(|shard| waited_for_others(machine(report), shard)).fold(0.0, f64::max);
    let steal = (TAKEN_MIN <= steal)
        .then(|| format!("; the hypervisor took {} of the cores' time", percent(steal)));
    let waited = (TAKEN_MIN <= waited)
        .then(|| format!("; a shard waited for its core {} of the time", percent(waited)));
    [steal, waited].into_iter().flatten().collect()
}

pub(super) fn cpu_contended(report: &Report) -> Option<Found> {
    let bounds = &report.config.plan.thresholds;
    // A throttled shard waits for its core too, and the kernel counts both waits together. The
    // quota has its own reason with another cure, so its part is subtracted; with several cores
    // throttled this subtracts too much, because the kernel reports their sum.
    let throttled = throttled(report);
    let others_of =
        |shard: &ShardStats| machine(report).and_then(|machine| machine.used_by_others(shard));
    let beyond_quota = |shard: &ShardStats| {
        let waited = shard.run_queue_delay_s / shard.observed_s;
        (waited - throttled.unwrap_or(0.0)).clamp(0.0, others_of(shard).unwrap_or(f64::INFINITY))
    };
    let shards = report.generator.shards.iter().filter(|shard| 0.0 < shard.observed_s);
    let figure = shards.map(beyond_quota).fold(0.0, f64::max);
    if figure <= bounds.stolen {
        return None;
    }
    let are_known = report.generator.shards.iter().all(|shard| others_of(shard).is_some());
    let quota = match throttled {
        None if are_known => "",
        None => ", held by others or by a quota, which is not known here",
        Some(throttled) if 0.0 < throttled => " beyond what its quota explains",
        Some(_) => "",
    };
    let contenders = machine(report).map_or(&[][..], |machine| &machine.contenders);
    let contenders = contenders.iter().map(|other| {
        format!(
            "{} (process {}, {:.2} s of processor time, seen on core {})",
            other.name, other.pid, other.cpu_s, other.core
        )
    });
    let contenders = contenders.collect::<Vec<String>>().join(", ");
    let who = match contenders.as_str() {
        "" => "which processes used it is not known".to_owned(),
        names => format!("the shards' cores were also used by {names}"),
    };
    let evidence = format!(
        "a shard waited for its core {} of the time{quota}; the limit is {}; {who}",
        percent(figure),
        percent(bounds.stolen)
    );
    Some(Found::suspect(figure, bounds.stolen, evidence).invalid_if(STOLEN_INVALID < figure))
}

/// How a core's time was spent, if known.
fn time_of(report: &Report, core: usize) -> Option<&CoreTime> {
    machine(report)?.cores.iter().find(|time| time.core == core)
}

/// A sibling is busy and leaves a shard less than a whole core's speed.
pub(super) fn busy_sibling(report: &Report) -> Option<Found> {
    let used = &report.environment.cores;
    let pairs = used.iter().flat_map(|shard| {
        let siblings = shard.siblings.iter().flatten().filter(|core| **core != shard.core);
        siblings.filter_map(|core| Some((shard.core, time_of(report, *core)?)))
    });
    let (shard, sibling) = pairs.max_by(|one, other| one.1.busy.total_cmp(&other.1.busy))?;
    let what = match used.iter().any(|other| other.core == sibling.core) {
        true => ", which runs a shard too and was",
        false => ", which was",
    };
    (SIBLING_BUSY_MAX < sibling.busy).then(|| {
        let evidence = format!(
            "the shard on core {shard} shares its physical core with core {}{what} busy {} of the \
             time; the limit is {}",
            sibling.core,
            percent(sibling.busy),
            percent(SIBLING_BUSY_MAX)
        );
        Found::suspect(sibling.busy, SIBLING_BUSY_MAX, evidence)
    })
}

/// Interrupts take the time of a shard's core.
pub(super) fn interrupted_core(report: &Report) -> Option<Found> {
    let network = &report.environment.network;
    let serving = network.interrupt_cores.as_deref().unwrap_or_default();
    let shards = report.environment.cores.iter().map(|shard| shard.core);
    let time = shards
        .filter(|core| serving.contains(core))
        .filter_map(|core| time_of(report, core))
        .max_by(|one, other| one.interrupts.total_cmp(&other.interrupts))?;
    let threshold = report.config.plan.thresholds.stolen;
    let interface = network.interface.as_deref().unwrap_or("the interface");
    (threshold < time.interrupts).then(|| {
        let evidence = format!(
            "core {} runs a shard and serves interrupts of {interface}; interrupts took {} of its \
             time; the limit is {}",
            time.core,
            percent(time.interrupts),
            percent(threshold)
        );
        Found::suspect(time.interrupts, threshold, evidence)
            .meaning(Some(
                "the shard stood still while its core served interrupts: it sent and received late",
            ))
            .cure(Some(format!(
                "name other --cores, or let {interface} use fewer: ethtool -L, or \
                 smp_affinity_list of its interrupts in /proc/irq"
            )))
    })
}

/// The control group's throttled time, summed over cores, as a share of the time observed; `None`
/// if unknown.
fn throttled(report: &Report) -> Option<f64> {
    let machine = machine(report)?;
    let throttled_s = machine.throttled_s?;
    (0.0 < machine.observed_s).then(|| throttled_s / machine.observed_s)
}

pub(super) fn cpu_throttled(report: &Report) -> Option<Found> {
    let (figure, machine) = (throttled(report)?, machine(report)?);
    let throttled_s = machine.throttled_s.unwrap_or(0.0);
    (THROTTLED_MAX < figure).then(|| {
        let evidence = format!(
            "the control group was throttled for {throttled_s:.3} s in {:.3} s ({}); the limit is \
             {}",
            machine.observed_s,
            percent(figure),
            percent(THROTTLED_MAX)
        );
        Found::invalid(figure, THROTTLED_MAX, evidence)
    })
}
