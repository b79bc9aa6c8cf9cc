//! A report of several agents: what follows for the whole, and each agent's part as a report of its
//! own.
//!
//! Nothing is scaled up for a lost agent. The planned rate stays in the report, and the run is
//! invalid: no number includes what the agent sent, and the target saw less load from then on.

use std::collections::BTreeMap;

use load::presence::mean_users;
use load::share::{self, Share};
use plan::Plan;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use units::seconds_to_ns;

use super::report::{AgentConfig, AgentPart, Config, Generator, LOCAL, Report, SeriesPart};
use super::verdict::Verdict;

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Report::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Report {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Report, D::Error> {
        let mut report = Report::deserialize(deserializer)?;
        if report.per_agent.is_empty() && report.agent_lost.is_empty() {
            report.per_agent.push(report.local_agent());
        }
        Ok(report)
    }
}

impl Report {
    /// True if it covers several agents, even if all but one were lost. Otherwise the one agent's
    /// part is the whole report.
    pub fn is_joint(&self) -> bool {
        1 < self.per_agent.len() || !self.agent_lost.is_empty()
    }

    /// The number of connections of the agents in the report.
    pub fn conns(&self) -> usize {
        self.shares().map(|share| share::connections(&self.config.plan, share)).sum()
    }

    /// The mean number of users of these agents in the window, for a closed loop without a period.
    pub fn unpaced_users(&self) -> Option<f64> {
        let Config { plan, schedule_until, .. } = &self.config;
        plan.unpaced_users()?;
        Some(mean_users(plan, plan.warmup.0..seconds_to_ns(*schedule_until), self.shares()))
    }

    /// The planned share of the whole load of these agents; exactly 1 for all of it.
    pub fn offered(&self) -> f64 {
        share::together(self.shares())
    }

    fn shares(&self) -> impl Iterator<Item = &Share> + Clone {
        self.per_agent.iter().map(|agent| &agent.config.share)
    }

    /// The report of one agent alone, not judged. It lacks what only the whole run has, such as the
    /// run over time.
    pub fn of_agent(&self, agent: &AgentPart) -> Report {
        let AgentConfig { share: _, target_address, .. } = &agent.config;
        Report {
            uncollected: None,
            verdict: Verdict::valid(),
            schema: self.schema,
            started_at: self.started_at.clone(),
            label: None,
            tags: BTreeMap::new(),
            interrupted: agent.interrupted,
            partial: false,
            agent_lost: Vec::new(),
            slo: None,
            config: Config {
                plan: agent.config.placed(&self.config.plan),
                target_address: target_address.clone(),
                schedule_digest: agent.config.schedule_digest.clone(),
                schedule_arrivals: agent.config.schedule_arrivals,
                schedule_estimated: agent.config.schedule_estimated,
                schedule_until: agent.config.schedule_until,
                ..self.config.clone()
            },
            environment: agent.environment.clone(),
            whole: agent.part.clone(),
            corrected_digest: String::new(),
            traffic: agent.generator.traffic(&agent.part.parts),
            generator: agent.generator.clone(),
            replay: self.replay.clone(),
            arrivals: agent.arrivals.clone(),
            arrivals_line: agent.arrivals_line.clone(),
            mix: None,
            littles_law: agent.littles_law.clone(),
            stationarity: None,
            samples: agent.samples.clone(),
            profile: None,
            calibration: None,
            series: SeriesPart { intervals: Vec::new(), ..self.series.clone() },
            per_agent: vec![agent.clone()],
        }
    }

    /// The only agent of a run without agents.
    pub fn local_agent(&self) -> AgentPart {
        let config = &self.config;
        AgentPart {
            name: LOCAL.to_owned(),
            config: AgentConfig {
                share: Share::whole(),
                target_address: config.target_address.clone(),
                cores: config.plan.cores.clone().unwrap_or_default(),
                source_addresses: config.plan.source_addresses.clone(),
                stamps: config.plan.stamps,
                stamp_sends: config.plan.stamp_sends,
                schedule_digest: config.schedule_digest.clone(),
                schedule_arrivals: config.schedule_arrivals,
                schedule_estimated: config.schedule_estimated,
                schedule_until: config.schedule_until,
            },
            verdict: self.verdict.clone(),
            interrupted: self.interrupted,
            synchronization: None,
            findings: Vec::new(),
            start_skew_us: first_skew_us(&self.generator),
            environment: self.environment.clone(),
            generator: self.generator.clone(),
            arrivals: self.arrivals.clone(),
            arrivals_line: self.arrivals_line.clone(),
            littles_law: self.littles_law.clone(),
            samples: self.samples.clone(),
            part: self.whole.clone(),
        }
    }
}

impl AgentConfig {
    /// The plan of all agents with this agent's own placement.
    pub fn placed(&self, plan: &Plan) -> Plan {
        Plan {
            cores: Some(self.cores.clone()),
            source_addresses: self.source_addresses.clone(),
            stamps: self.stamps,
            stamp_sends: self.stamp_sends,
            ..plan.clone()
        }
    }
}

impl AgentPart {
    /// How late its first request was sent, µs: from the earliest due time to the earliest sending,
    /// over its shards.
    pub fn skew_us(&self) -> Option<f64> {
        first_skew_us(&self.generator)
    }
}

fn first_skew_us(generator: &Generator) -> Option<f64> {
    let shards = &generator.shards;
    let due = shards.iter().filter_map(|shard| shard.first_due_us).reduce(f64::min)?;
    let sent = shards.iter().filter_map(|shard| shard.first_sent_us).reduce(f64::min)?;
    Some(sent - due)
}
