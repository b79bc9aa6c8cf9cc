//! How long each user thinks, as a function of the seed, the session's number and the step: so any
//! number of shards and agents offers the same sessions.

use plan::think::Think;

use super::schedule::mix;

/// Gives think times random values independent of the schedule's and the mix's.
const THINK_SEED: u64 = 0x7468_696e_6b00_0000;

/// A session's place on its course.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// The step, among those of all scenarios.
    pub step: u16,
    /// How often the step was sent before.
    pub round: u16,
}

impl At {
    /// The first request of this step.
    pub fn first(step: u16) -> At {
        At { step, round: 0 }
    }
}

/// The think time of the session with this number before this request, ns.
pub fn think_ns(think: Think, seed: u64, number: u64, at: At) -> u64 {
    let request = u64::from(at.step) | u64::from(at.round) << 16;
    let random = || mix(mix(number ^ mix(seed ^ THINK_SEED)) ^ request);
    // Above 0 and up to 1.
    let unit = |random: u64| ((random >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time in ns")]
    let ns = |time_ns: f64| time_ns.round() as u64;
    match think {
        Think::Constant(time) => time.0,
        // The inverse of its distribution function.
        Think::Exponential(mean) => ns(-unit(random()).ln() * mean.0 as f64),
        Think::Uniform(from, to) => {
            let within = u128::from(to.0 - from.0 + 1) * u128::from(random());
            from.0 + u64::try_from(within >> 64).expect("a part of the span")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn think_times_are_distributed_as_written() {
        const DRAWS: u64 = 100_000;
        let all = |text: &str| {
            let think: Think = text.parse().expect(text);
            (0..DRAWS)
                .map(|number| think_ns(think, 7, number, At::first(1)) as f64 / 1e6)
                .collect::<Vec<_>>()
        };
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
        assert!(all("3ms").iter().all(|ms| *ms == 3.0));
        let exponential = all("exp 10ms");
        // Five standard errors.
        assert!((mean(&exponential) - 10.0).abs() < 5.0 * 10.0 / (DRAWS as f64).sqrt());
        let below = exponential.iter().filter(|ms| **ms < 10.0).count() as f64 / DRAWS as f64;
        assert!((below - (1.0 - (-1_f64).exp())).abs() < 5.0 * 0.5 / (DRAWS as f64).sqrt());
        let uniform = all("uniform 2ms 6ms");
        assert!(uniform.iter().all(|ms| (2.0..=6.0).contains(ms)));
        assert!((mean(&uniform) - 4.0).abs() < 5.0 * 1.2 / (DRAWS as f64).sqrt());
    }

    #[test]
    fn sessions_and_steps_think_independently() {
        let think: Think = "uniform 0s 1s".parse().expect("a think time");
        let of = |seed, number, step, round| think_ns(think, seed, number, At { step, round });
        assert_eq!(of(1, 2, 3, 0), of(1, 2, 3, 0));
        let others = [of(2, 2, 3, 0), of(1, 3, 3, 0), of(1, 2, 4, 0), of(1, 2, 3, 1)];
        assert!(others.iter().all(|other| *other != of(1, 2, 3, 0)), "{others:?}");
    }
}
