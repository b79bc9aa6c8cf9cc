//! The slowest requests of a part, as the document lists them.

use load::values::trace_id;
use plan::Plan;
use record::slowest::{Slow, SlowError, Slowest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One of the slowest requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowRequest {
    /// Its number in the run, which determines what it asked for.
    pub number: u64,
    /// When it was due, seconds since the start of the window.
    pub due_s: f64,
    /// `received − sent`, microseconds; `None` if it was never sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub naive_us: Option<f64>,
    /// `received − intended`, microseconds; its age when it was given up if it was never sent.
    pub corrected_us: f64,
    /// The status of its response; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How it ended without a response; `None` with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<SlowError>,
    /// Its trace id, hexadecimal; `None` without `--trace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}

/// Lays out a list of a completed plan's requests.
pub fn slowest(list: &Slowest, plan: &Plan) -> Vec<SlowRequest> {
    let request = |slow: &Slow| SlowRequest {
        number: slow.number,
        due_s: slow.intended_ns.saturating_sub(plan.warmup.0) as f64 / 1e9,
        naive_us: slow.naive_ns.map(|ns| ns as f64 / 1e3),
        corrected_us: slow.corrected_ns as f64 / 1e3,
        status: slow.status,
        error: slow.error,
        trace_id: trace_id_of(plan, slow.number),
    };
    list.requests().iter().map(request).collect()
}

/// The trace id of the request with this number, if the plan sends one.
pub fn trace_id_of(plan: &Plan, number: u64) -> Option<String> {
    let id = trace_id(plan.seed, plan.trace?, number);
    Some(id.iter().map(|byte| format!("{byte:02x}")).collect())
}
