//! Lays out the connections of each endpoint, if a plan has several.

use plan::Plan;
use plan::endpoints::Endpoints;
use record::recorder::Recorder;

use super::report::EndpointPart;

/// The name and the share of the requests of each endpoint of a completed plan; empty if there is
/// only one, which is the whole.
pub fn planned(plan: &Plan) -> Vec<(String, f64)> {
    let Ok(endpoints) = Endpoints::of(plan) else { return Vec::new() };
    let total: u64 = endpoints.each().iter().map(|endpoint| endpoint.weight).sum();
    let share = |weight: u64| weight as f64 / total.max(1) as f64;
    let each = endpoints.each().iter();
    let each = each.map(|of| (of.name(), share(of.weight)));
    if endpoints.each().len() < 2 { Vec::new() } else { each.collect() }
}

/// Lays out the endpoints of a recorder; their addresses are known only to an agent.
pub(super) fn endpoints(recorder: &Recorder, plan: &Plan) -> Vec<EndpointPart> {
    let each = planned(plan).into_iter().zip(&recorder.endpoints);
    let part = |((name, planned), counts): ((String, f64), _)| EndpointPart {
        name,
        address: String::new(),
        planned,
        counts: Clone::clone(counts),
    };
    each.map(part).collect()
}

/// Addresses as one text, each once.
pub(super) fn listed(addresses: impl Iterator<Item = String>) -> String {
    let mut each: Vec<String> = Vec::new();
    for address in addresses {
        if !each.contains(&address) {
            each.push(address);
        }
    }
    each.join(", ")
}
