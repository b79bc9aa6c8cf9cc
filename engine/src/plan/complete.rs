//! A plan made complete: what was left open is filled in, and what contradicts itself is refused before anything runs.

use super::plan::{Model, Overload, Plan, PlanError, Switch};
use crate::sys::units::{CoreList, Nanos, Rate, SECOND_NS};

/// How long an arrival may wait with [`Overload::Drop`] when nothing else is said: time to open a connection.
pub const QUEUE_MAX_DEFAULT: Nanos = Nanos(100_000_000);
/// In-flight cap of the open model when none is given: fits the common soft limit of 1,024 files.
pub const CONNS_OPEN_DEFAULT: usize = 1_000;
/// Connections of the closed model when none are given.
pub const CONNS_CLOSED_DEFAULT: usize = 64;
/// The most connections that one plan may ask for.
pub const CONNS_MAX: usize = 1_000_000;
/// Requests per system call of the open model. Arrivals rarely come together below the ceiling, so this bounds what a burst
/// does to the stamps: the fourth of four leaves about 10 µs after its stamp.
pub const FLUSH_OPEN_DEFAULT: usize = 4;
/// Requests per system call of the closed model. At 64 connections against the null target 1, 4, 8, 16 and 32 cost 3.72,
/// 3.54, 3.51, 3.49 and 3.60 µs of CPU a request (medians of three runs of 2 s, Linux 6.18): beyond 8 there is nothing to
/// gain, and the stamps get worse.
pub const FLUSH_CLOSED_DEFAULT: usize = 8;
/// The most requests that one system call may carry.
pub const FLUSH_MAX: usize = 64;
/// The longest window, warm-up, period or timeout.
pub const DURATION_MAX: Nanos = Nanos::from_secs(7 * 24 * 3_600);
impl Plan {
    /// Fills in what was left open, given the cores that this process may use, and refuses what contradicts itself.
    ///
    /// # Errors
    /// The first value that can't be run, with its flag and the cure.
    pub fn complete(mut self, allowed_cores: &[usize]) -> Result<Plan, PlanError> {
        let model = *self.model.get_or_insert(if self.rate.is_some() {
            Model::Open
        } else {
            Model::Closed
        });
        match (model, self.rate) {
            (Model::Open, None) => {
                return Err(PlanError::new(
                    "--model",
                    "open",
                    "an open model needs a rate",
                    "give --rate, such as --rate 5k, or choose --model closed",
                ));
            }
            (Model::Closed, Some(rate)) => {
                return Err(PlanError::new(
                    "--rate",
                    rate,
                    "a closed model has no rate: its connections wait for their responses",
                    "leave --rate away, or choose --model open; --period paces a closed model",
                ));
            }
            _ => {}
        }
        if let (Model::Open, Some(period)) = (model, self.period) {
            return Err(PlanError::new(
                "--period",
                period,
                "a period belongs to the closed model",
                "leave it away, or choose --model closed without --rate",
            ));
        }
        let conns = *self.conns.get_or_insert(match model {
            Model::Open => CONNS_OPEN_DEFAULT,
            Model::Closed => CONNS_CLOSED_DEFAULT,
        });
        if conns == 0 || CONNS_MAX < conns {
            return Err(PlanError::new(
                "--conns",
                conns,
                format!("must be between 1 and {CONNS_MAX}"),
                "give the number of connections that may be open at once",
            ));
        }
        self.check_durations(conns)?;
        self.check_policies(model, conns)?;
        self.complete_cores(allowed_cores, conns)?;
        let flush = *self.flush.get_or_insert(match model {
            Model::Open => FLUSH_OPEN_DEFAULT,
            Model::Closed => FLUSH_CLOSED_DEFAULT,
        });
        if flush == 0 || FLUSH_MAX < flush {
            return Err(PlanError::new(
                "--flush",
                flush,
                format!("must be between 1 and {FLUSH_MAX}"),
                "leave it away for the measured default",
            ));
        }
        Ok(self)
    }

    fn check_durations(&self, conns: usize) -> Result<(), PlanError> {
        if self.duration.0 == 0 {
            let problem = if self.warmup.0 == 0 {
                "there is nothing to record"
            } else {
                "a warm-up without a duration records nothing"
            };
            return Err(PlanError::new(
                "--duration",
                self.duration,
                problem,
                "give a window to record, such as --duration 10s",
            ));
        }
        if self.timeout.0 == 0 {
            return Err(PlanError::new(
                "--timeout",
                self.timeout,
                "every request would be over before it is sent",
                "give the longest time that a response may take, such as --timeout 10s",
            ));
        }
        if self.period == Some(Nanos(0)) {
            return Err(PlanError::new(
                "--period",
                "0s",
                "must be above zero",
                "leave it away for a closed model without a pace",
            ));
        }
        if let Some(period) = self.period
            && u128::from(period.0) * u128::from(Rate::MAX_PER_SECOND)
                < conns as u128 * u128::from(SECOND_NS)
        {
            return Err(PlanError::new(
                "--period",
                period,
                format!(
                    "{conns} connections would offer more than {} requests a second",
                    Rate::MAX_PER_SECOND
                ),
                "give a longer period, or leave it away for a closed model without a pace",
            ));
        }
        let lengths = [
            ("--duration", Some(self.duration)),
            ("--warmup", Some(self.warmup)),
            ("--timeout", Some(self.timeout)),
            ("--period", self.period),
            ("--queue-max", self.queue_max),
            ("--deadline", self.deadline),
            ("--settle", Some(self.settle)),
        ];
        for (flag, length) in lengths {
            if let Some(length) = length.filter(|length| DURATION_MAX < *length) {
                return Err(PlanError::new(
                    flag,
                    length,
                    format!("is longer than {DURATION_MAX}"),
                    "split the run",
                ));
            }
        }
        Ok(())
    }

    fn check_policies(&mut self, model: Model, conns: usize) -> Result<(), PlanError> {
        match (self.overload, self.queue_max) {
            (Overload::Drop, None) => self.queue_max = Some(QUEUE_MAX_DEFAULT),
            (Overload::Queue, Some(longest)) => {
                return Err(PlanError::new(
                    "--queue-max",
                    longest,
                    "only arrivals that may be dropped have a longest wait",
                    "add --overload drop, or leave --queue-max away",
                ));
            }
            _ => {}
        }
        if self.overload == Overload::Drop && model == Model::Closed {
            return Err(PlanError::new(
                "--overload",
                "drop",
                "a closed model has no arrivals to drop",
                "leave it away, or give a --rate",
            ));
        }
        if let Some((name, value, cure)) = self.thresholds.misfit() {
            return Err(PlanError::new(
                "--threshold",
                format!("{name}={value}"),
                "is no bound",
                cure,
            ));
        }
        if self.deadline == Some(Nanos(0)) {
            return Err(PlanError::new(
                "--deadline",
                "0s",
                "every user would have gone before coming",
                "leave it away for none",
            ));
        }
        if self.requests_per_connection == Some(0) {
            return Err(PlanError::new(
                "--requests-per-connection",
                0,
                "must be at least 1",
                "leave it away for no limit",
            ));
        }
        if self.keepalive == Switch::Off
            && self.requests_per_connection.is_some_and(|requests| 1 < requests)
        {
            return Err(PlanError::new(
                "--requests-per-connection",
                self.requests_per_connection.unwrap_or(0),
                "without keep-alive each connection carries one",
                "leave away either it or --keepalive off",
            ));
        }
        if let Some(prewarm) = self.prewarm
            && (model == Model::Closed || conns < prewarm)
        {
            return Err(PlanError::new(
                "--prewarm",
                prewarm,
                format!("opens connections of an open model, at most --conns {conns}"),
                "lower it, or raise --conns; a closed model opens all of its connections by itself",
            ));
        }
        if self.backfill == Switch::On && self.period.is_none() {
            return Err(PlanError::new(
                "--backfill",
                "on",
                "back-filling is exact only for a closed model with a constant period",
                "give --period, or leave it away: intended times correct every other model",
            ));
        }
        Ok(())
    }

    fn complete_cores(&mut self, allowed_cores: &[usize], conns: usize) -> Result<(), PlanError> {
        match &self.cores {
            None => {
                // One core is left to the target and the rest of the machine, and no shard is without a connection.
                let count = allowed_cores.len().saturating_sub(1).clamp(1, conns);
                let last = &allowed_cores[allowed_cores.len() - count..];
                self.cores = Some(CoreList::new(last.to_vec()));
            }
            Some(cores) => {
                if let Some(core) =
                    cores.as_slice().iter().find(|core| !allowed_cores.contains(core))
                {
                    return Err(PlanError::new(
                        "--cores",
                        cores,
                        format!("core {core} is not among those that this process may use"),
                        format!("choose from {}", CoreList::new(allowed_cores.to_vec())),
                    ));
                }
                if conns < cores.len() {
                    return Err(PlanError::new(
                        "--conns",
                        conns,
                        format!(
                            "{} cores would share fewer connections than there are cores",
                            cores.len()
                        ),
                        "give each core at least one connection, or name fewer cores with --cores",
                    ));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::thresholds::Thresholds;

    fn plan() -> Plan {
        Plan { target: "http://127.0.0.1:1/".to_owned(), ..Plan::default() }
    }

    fn open() -> Plan {
        Plan { rate: Some("5k".parse().expect("a rate")), ..plan() }
    }

    #[test]
    fn a_rate_makes_it_open_and_no_rate_closed() {
        assert_eq!(open().complete(&[0, 1]).expect("runs").model(), Model::Open);
        let closed = plan().complete(&[0, 1]).expect("runs");
        assert_eq!((closed.model(), closed.conns()), (Model::Closed, CONNS_CLOSED_DEFAULT));
    }

    #[test]
    fn default_cores_leave_one_free_and_give_each_a_connection() {
        for (allowed, conns, want) in [
            (vec![0], None, vec![0]),
            (vec![0, 1], None, vec![1]),
            (vec![0, 1, 2, 3], None, vec![1, 2, 3]),
            (vec![0, 1, 2, 3], Some(2), vec![2, 3]),
        ] {
            let plan = Plan { conns, ..plan() }.complete(&allowed).expect("runs");
            assert_eq!(plan.cores(), want);
        }
    }

    #[test]
    fn contradictions_name_the_flag() {
        let cases = [
            (Plan { model: Some(Model::Open), ..plan() }, "--model"),
            (Plan { model: Some(Model::Closed), ..open() }, "--rate"),
            (Plan { period: Some(Nanos(1)), ..open() }, "--period"),
            (Plan { period: Some(Nanos(0)), ..plan() }, "--period"),
            (Plan { period: Some(Nanos(639)), ..plan() }, "--period"),
            (Plan { duration: Nanos(0), ..open() }, "--duration"),
            (Plan { timeout: Nanos(0), ..open() }, "--timeout"),
            (Plan { conns: Some(0), ..open() }, "--conns"),
            (Plan { conns: Some(1), cores: Some(CoreList::new(vec![0, 1])), ..open() }, "--conns"),
            (Plan { cores: Some(CoreList::new(vec![7])), ..open() }, "--cores"),
            (Plan { flush: Some(0), ..open() }, "--flush"),
            (
                Plan {
                    thresholds: Thresholds { percentile: 99.0, ..Thresholds::default() },
                    ..open()
                },
                "--threshold",
            ),
            (
                Plan {
                    thresholds: Thresholds { drift_p99: 0.5, ..Thresholds::default() },
                    ..open()
                },
                "--threshold",
            ),
            (Plan { warmup: Nanos::from_secs(1_000_000), ..open() }, "--warmup"),
        ];
        for (plan, flag) in cases {
            let error = plan.clone().complete(&[0, 1]).expect_err(flag);
            assert_eq!(error.flag, flag, "{plan:?}");
        }
    }
}
