//! Disturbances of a run by others on the machine, from its verdict and the accounts behind it.

use engine::report::Report;
use engine::report::verdict::{Code, Level, Origin, Reason};
use probe::step::Step;

/// The reasons and notes that blame others: the hypervisor, other processes, a quota. A generator
/// that was merely late isn't among them, since that may be its own doing.
pub(crate) fn reasons(report: &Report) -> impl Iterator<Item = &Reason> {
    report.verdict.found().filter(|reason| reason.code.rule().origin == Origin::Others)
}

/// The same for a step of a search, as text; `None` if there are none.
pub(crate) fn of_step(step: &Step) -> Option<String> {
    let codes = step.verdict.found().filter(|reason| reason.code.rule().origin == Origin::Others);
    let codes: Vec<String> = codes.map(|reason| reason.code.to_string()).collect();
    (!codes.is_empty()).then(|| format!("{:.0}/s offered: {}", step.rate_per_s, codes.join(", ")))
}

/// True if they took so much that even a median may not be the machine's own: a tenth of the cores'
/// time, or a core's hardware sibling.
pub(crate) fn moved_the_median(report: &Report) -> bool {
    reasons(report).any(|reason| reason.level == Level::Invalid || reason.code == Code::CoreShared)
}

/// The largest share of a core that they took from the generator.
pub(crate) fn taken(report: &Report) -> f64 {
    let shards = report.generator.shards.iter().filter(|shard| 0.0 < shard.observed_s);
    let waited = shards.map(|shard| shard.run_queue_delay_s / shard.observed_s).fold(0.0, f64::max);
    report.generator.steal().unwrap_or(0.0) + waited
}
