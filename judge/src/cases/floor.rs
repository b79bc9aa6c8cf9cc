//! The cases on the shortest latency: nothing is faster than the target.

use std::time::Duration;

use target::TargetConfig;

use super::percentiles::not_below;
use super::{Case, closed_first};
use crate::tool::{Load, PERCENTILES};

/// Nothing is faster than the target.
pub(super) const FLOOR: Case = Case {
    name: "floor",
    holds: "No printed percentile is below what the target held every request for, 1.2 ms.",
    truth: "the shortest hold time in the ledger, which no client can undercut",
    tolerance: "only 0.1 % for a histogram of three digits, and the last printed digit",
    reply: "Latencies are cut to whole milliseconds, and printed with more digits.",
    load: Load::at(200.0, 4, 3),
    mode: closed_first,
    figures: &[PERCENTILES],
    target: |config, _| TargetConfig { base_latency: Duration::from_micros(1_200), ..config },
    judge: not_below,
    ..Case::NONE
};

/// What the tool itself adds: a target that answers at once.
pub(super) const NULL: Case = Case {
    name: "null",
    holds: "The target answers at once, over two connections: the percentiles are what the tool and \
            the kernel take, and none is below the target's own time.",
    load: Load::at(200.0, 2, 3),
    target: |config, _| config,
    ..FLOOR
};
