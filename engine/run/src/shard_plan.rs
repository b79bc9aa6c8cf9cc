//! A shard's part of a prepared plan.

use std::net::SocketAddr;
use std::sync::Arc;

use load::course::Course;
use load::curve::Curve;
use load::mix::Mix;
use load::presence::Presence;
use load::share::{self, Share};
use plan::Switch;
use plan::address::Address;
use plan::endpoints::PlanEndpoint;
use record::config::RecorderConfig;
use samples::Lane;
use shard::{Drive, Endpoint, ShardPlan};
use tls::ClientSetup;
use units::{Nanos, OneIn};

use super::prepare::Prepared;

impl Prepared {
    /// The endpoints for a shard with this share. Each has a part of the connections that are
    /// opened in advance, by its weight.
    fn shard_endpoints(&self, share: &Share) -> Vec<Endpoint> {
        let of_shard =
            |count: Option<usize>| self.endpoints.divide(share.count(count.unwrap_or(0)));
        let (prewarm, spare) = (of_shard(self.plan.prewarm), of_shard(self.plan.spare));
        let opened = prewarm.into_iter().zip(spare);
        let each = self.addresses.iter().zip(&self.tls).zip(self.endpoints.each()).zip(opened);
        let endpoint = |(((address, tls), of), (prewarm, spare)): (
            ((&Address, &Option<ClientSetup>), &PlanEndpoint),
            _,
        )| {
            let address = address.for_kernel().expect("it was connected to");
            Endpoint { address, tls: tls.clone(), own: of.own, prewarm, spare }
        };
        each.map(endpoint).collect()
    }

    /// The plan of shard number `shard`, whose raw samples go to `samples`.
    pub(super) fn shard_plan(&self, shard: usize, samples: Option<Lane>) -> ShardPlan {
        let plan = &self.plan;
        let shards = plan.cores().len();
        let drive = match (&self.replay, Curve::of_plan(plan), plan.period) {
            (Some(replay), ..) => Drive::Log { due_ns: Arc::clone(&replay.due_ns) },
            (None, Some(curve), _) => {
                Drive::Open { curve, arrivals: plan.arrivals, seed: plan.seed }
            }
            (None, None, None) => Drive::Closed,
            (None, None, Some(period)) => Drive::Paced { period_ns: period.0 },
        };
        let share = self.share.of_shard(shard, shards);
        let length_ns = |length: Option<Nanos>| length.map_or(u64::MAX, |length| length.0);
        ShardPlan {
            shards,
            core: plan.cores()[shard],
            drive,
            presence: Presence::of_plan(plan),
            conns: share::connections(plan, &share),
            conns_total: plan.conns(),
            settle_ns: if plan.settles() { plan.settle.0 } else { 0 },
            settle_min_ns: plan.settle_min.map_or(0, |least| least.0),
            recorder_config: RecorderConfig::of_plan(plan),
            end_ns: plan.end_ns(),
            requests: match plan.requests {
                Some(requests) if plan.ends_by_count() => share.count_of(requests),
                _ => u64::MAX,
            },
            connect_max_ns: plan.timeout.0,
            timeout_min_ns: self.steps.iter().map(|step| step.timeout_ns).min().unwrap_or(0),
            drain_max_ns: plan.timeout_max().0,
            deadline_min_ns: self
                .steps
                .iter()
                .map(|step| step.deadline_ns.min(step.session_deadline_ns))
                .min()
                .unwrap_or(u64::MAX),
            queue_max_ns: length_ns(plan.queue_max),
            requests_per_connection: match plan.keepalive {
                Switch::Off => 1,
                Switch::On => plan.requests_per_connection.unwrap_or(u64::MAX),
            },
            connection_lifetime_ns: plan.connection_lifetime.map(|lifetime| lifetime.0),
            depth: plan.depth(),
            blocks: self.blocks.clone(),
            wait: plan.wait,
            stamps: plan.stamps(),
            kernel_stamps: self.stamping.is_some(),
            stamp_sends: plan.stamp_sends.and_then(OneIn::count),
            flush: plan.flush(),
            steps: self.steps.clone(),
            course: Course::of_plan(plan),
            sessions_max: plan.sessions_max.unwrap_or(0),
            seed: plan.seed,
            mix: match &self.replay {
                Some(replay) => Mix::of_log(plan, Arc::clone(&replay.steps)),
                None => Mix::of_plan(plan),
            },
            endpoints: self.shard_endpoints(&share),
            sources: plan
                .source_addresses
                .iter()
                .map(|source| SocketAddr::new(*source, 0).into())
                .collect(),
            samples,
            share,
        }
    }
}
