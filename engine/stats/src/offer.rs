//! What a run was meant to offer, and the streams that its schedule was dealt to: one of each
//! shard, whose rates differ where the shares or the shards of agents do.

use load::curve::Curve;
use load::share::{self, Share};
use units::SECOND_NS;

/// What a run was meant to offer, and what its report counted of that.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Rate over time of the whole plan.
    pub curve: Curve,
    /// Where the window began, ns since the epoch.
    pub from_ns: u64,
    /// How they were to be spaced.
    pub arrivals: plan::Arrivals,
    /// What was offered of them: the agents' shares, each with its number of shards.
    pub parts: Vec<(Share, usize)>,
    /// Where the schedule ended, ns since the epoch: the plan's end, or that of an interrupted run.
    pub until_ns: u64,
    /// Requests intended in the window.
    pub intended: u64,
    /// Of these, sent before its end.
    pub sent_in_window: u64,
    /// Of these, never sent since no connection could be had: errors, and no fault of the pace.
    pub unconnected: u64,
    /// Requests that may be between due and sent when the window ends.
    pub at_the_edge: f64,
}

/// Shards of one rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Streams {
    /// Arrivals of each, per ns.
    pub(super) per_ns: f64,
    /// How many there are.
    pub(super) shards: usize,
}

impl Offer {
    /// Shards that the schedule was dealt to.
    pub(super) fn shards(&self) -> usize {
        self.parts.iter().map(|(_, shards)| shards).sum()
    }

    /// Requests per second that all parts were to offer together, on average.
    pub(super) fn per_second(&self) -> f64 {
        self.mean() * share::together(self.parts.iter().map(|(share, _)| share))
    }

    /// The mean rate of the whole, per second.
    fn mean(&self) -> f64 {
        self.curve.mean_per_second(self.from_ns, self.until_ns)
    }

    /// Its shards, those of one rate together.
    pub(super) fn streams(&self) -> Vec<Streams> {
        let mut all: Vec<(&Share, usize, Streams)> = Vec::new();
        for (share, shards) in &self.parts {
            let alike = |(other, others, _): &&mut (&Share, usize, Streams)| {
                share.is_as_much_as(*shards, other, *others)
            };
            match all.iter_mut().find(alike) {
                Some((_, _, streams)) => streams.shards += shards,
                None => {
                    let per_ns = self.mean() * share.fraction() / 1e9 / *shards as f64;
                    all.push((share, *shards, Streams { per_ns, shards: *shards }));
                }
            }
        }
        all.into_iter().map(|(_, _, streams)| streams).collect()
    }

    /// The gaps that constant arrivals have between neighbours of one shard, ns.
    pub(super) fn constant_gaps_ns(&self) -> Vec<f64> {
        let item_ns = SECOND_NS as f64 / self.mean();
        let gaps = self.parts.iter().flat_map(|(share, shards)| share.of_shard(0, *shards).gaps());
        gaps.map(|items| items as f64 * item_ns).collect()
    }

    /// Whether constant arrivals of all parts together have equal gaps: of agents with several
    /// units, one alone offers bursts.
    pub(super) fn is_even(&self) -> bool {
        let units: u64 = self.parts.iter().map(|(share, _)| share.range().len() as u64).sum();
        match &self.parts[..] {
            [(only, _)] if only.range().len() == 1 => true,
            parts => parts.iter().all(|(share, _)| u64::from(share.of()) == units),
        }
    }
}

/// Requests per ns of a shard: the mean over the requests of all, of which a faster shard has more.
pub(super) fn mean_rate_per_ns(streams: &[Streams]) -> f64 {
    if let [only] = streams {
        return only.per_ns;
    }
    let sum = |power: i32| -> f64 {
        streams.iter().map(|stream| stream.shards as f64 * stream.per_ns.powi(power)).sum()
    };
    sum(2) / sum(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(parts: Vec<(Share, usize)>) -> Offer {
        Offer {
            curve: Curve::constant("6k".parse().expect("a rate")),
            from_ns: 0,
            arrivals: plan::Arrivals::Constant,
            parts,
            until_ns: SECOND_NS,
            intended: 0,
            sent_in_window: 0,
            unconnected: 0,
            at_the_edge: 0.0,
        }
    }

    #[test]
    fn shards_of_one_rate_are_together_whoever_has_them() {
        let agents = offer(vec![
            (Share::units(0..1, 6), 1),
            (Share::units(1..3, 6), 2),
            (Share::units(3..6, 6), 1),
        ]);
        assert_eq!((agents.shards(), agents.per_second()), (4, 6_000.0));
        let streams = agents.streams();
        assert_eq!(streams.iter().map(|stream| stream.shards).collect::<Vec<_>>(), [3, 1]);
        assert_eq!(streams.iter().map(|stream| stream.per_ns).collect::<Vec<_>>(), [1e-6, 3e-6]);
        // Half of the requests are of shards with 1,000/s, the other half of one with 3,000/s.
        assert!((mean_rate_per_ns(&streams) - 2e-6).abs() < 1e-18);
    }

    #[test]
    fn equal_gaps_are_those_of_all_parts_or_of_one_unit() {
        let whole = offer(vec![(Share::units(0..2, 6), 1), (Share::units(2..6, 6), 3)]);
        assert!(whole.is_even());
        assert!(offer(vec![(Share::units(4..5, 6), 3)]).is_even());
        assert!(!offer(vec![(Share::units(2..4, 6), 1)]).is_even());
        let lost = offer(vec![(Share::units(0..1, 6), 1), (Share::units(3..6, 6), 3)]);
        assert!(!lost.is_even());
        assert!((lost.per_second() - 4_000.0).abs() < 1e-9);
    }
}
