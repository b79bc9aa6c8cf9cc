//! The clocks of two machines: how far apart they are, how fast they drift, and when to begin.
//!
//! Each machine has its own CLOCK_MONOTONIC. A ping gives four stamps: sent and returned by the
//! controller's clock, received and answered by the agent's. The time between sent and received is
//! unknown but not negative, and so is the way back. So the agent's clock is ahead by (received −
//! sent + answered − returned) / 2, with an error of half the round trip at most, however unequal
//! the two ways are. The ping with the smallest round trip is the most exact; averaging it with
//! others would only add their queues. For the drift, too, the ping that bounds it best is used.
//!
//! Clocks are read when all agents are set up, right before the start: setup may take minutes, and
//! an offset goes stale as the clock drifts.

use engine::sys::units::Nanos;

use crate::message::Pong;

/// Pings per offset: enough for one of them to meet no queue.
pub const PINGS_MIN: usize = 16;
/// How far ahead a start is chosen at least, ns, so that every agent hears of it in time.
pub const START_AHEAD_MIN_NS: u64 = 2_000_000_000;
/// The most that a clock may run faster or slower than another machine's, parts per million: the
/// worst error of a computer's oscillator.
const DRIFT_MAX_PPM: u64 = 100;
/// A start further ahead than this is a mistake, ns.
pub const START_AHEAD_MAX_NS: u64 = 60_000_000_000;

/// One ping and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    /// When the controller sent it, ns of its clock.
    sent_ns: u64,
    /// When the controller had the answer, ns of its clock.
    returned_ns: u64,
    /// When it reached the agent, ns of the agent's clock.
    received_ns: u64,
    /// When the agent answered, ns of the agent's clock.
    answered_ns: u64,
}

/// Why stamps give no reading of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClockError {
    /// No clock gives such stamps: an answer before its question, or centuries of uptime.
    #[error("the stamps of a ping contradict each other")]
    Impossible,
    /// There are too few pings.
    #[error("{0} pings, and at least {PINGS_MIN} are needed")]
    TooFew(usize),
}

impl RoundTrip {
    /// The round trip of this answer, which came at `returned_ns` of the controller's clock.
    ///
    /// # Errors
    /// Its stamps contradict each other.
    pub fn new(pong: &Pong, returned_ns: u64) -> Result<RoundTrip, ClockError> {
        let Pong { sent_ns, received_ns, answered_ns } = *pong;
        let at_controller_ns = returned_ns.checked_sub(sent_ns);
        let at_agent_ns = answered_ns.checked_sub(received_ns);
        // No clock has run for 146 years, and twice as much fits.
        let is_sane = returned_ns.max(answered_ns) <= u64::MAX / 4;
        match (at_controller_ns, at_agent_ns) {
            (Some(at_controller_ns), Some(at_agent_ns))
                if is_sane && at_agent_ns <= at_controller_ns =>
            {
                Ok(RoundTrip { sent_ns, returned_ns, received_ns, answered_ns })
            }
            _ => Err(ClockError::Impossible),
        }
    }

    /// The length of both ways together, ns.
    pub fn length_ns(&self) -> u64 {
        (self.returned_ns - self.sent_ns) - (self.answered_ns - self.received_ns)
    }

    /// How far the agent's clock is ahead of the controller's, ns.
    fn offset_ns(&self) -> i64 {
        let there_ns = self.received_ns.cast_signed() - self.sent_ns.cast_signed();
        let back_ns = self.answered_ns.cast_signed() - self.returned_ns.cast_signed();
        (there_ns + back_ns).div_euclid(2)
    }

    /// The error bound of that, ns: half the round trip, and rounding.
    fn error_ns(&self) -> u64 {
        self.length_ns() / 2 + 1
    }

    /// The middle of the ping by the controller's clock, ns.
    fn middle_ns(&self) -> u64 {
        self.sent_ns.midpoint(self.returned_ns)
    }
}

/// How far an agent's clock is ahead of the controller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// How far it is ahead, ns; negative if it is behind.
    pub offset_ns: i64,
    /// The error bound, ns.
    pub error_ns: u64,
    /// When that was measured, ns of the controller's clock.
    pub at_ns: u64,
}

/// A time before the agent's clock began, which the conversion can't give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the agent's clock hasn't that moment")]
pub struct NoSuchMoment;

impl Offset {
    /// The offset by the ping with the smallest round trip.
    ///
    /// # Errors
    /// There are fewer than [`PINGS_MIN`].
    pub fn new(pings: &[RoundTrip]) -> Result<Offset, ClockError> {
        let best = pings.iter().min_by_key(|ping| ping.length_ns());
        match best {
            Some(best) if PINGS_MIN <= pings.len() => Ok(Offset::of(best)),
            _ => Err(ClockError::TooFew(pings.len())),
        }
    }

    fn of(ping: &RoundTrip) -> Offset {
        Offset { offset_ns: ping.offset_ns(), error_ns: ping.error_ns(), at_ns: ping.middle_ns() }
    }

    /// Converts a time of the controller's clock to the agent's.
    ///
    /// # Errors
    /// It is before the agent's clock began.
    pub fn agent_ns(&self, controller_ns: u64) -> Result<u64, NoSuchMoment> {
        controller_ns.checked_add_signed(self.offset_ns).ok_or(NoSuchMoment)
    }
}

/// How an agent's clock drifts against the controller's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// Parts per million by which the agent's clock is faster.
    pub ppm: f64,
    /// The error bound, parts per million.
    pub error_ppm: f64,
}

/// An agent's clock over a run: its offset before it, and the pings that follow. Its memory doesn't
/// grow with the pings.
#[derive(Clone, Debug)]
pub struct ClockWatch {
    start: Offset,
    /// The drift with the smallest error.
    drift: Option<Drift>,
    /// The last [`PINGS_MIN`] pings; the next one goes to `next`.
    last: Vec<RoundTrip>,
    next: usize,
}

impl ClockWatch {
    /// A clock with this offset before the run.
    pub fn new(start: Offset) -> ClockWatch {
        ClockWatch { start, drift: None, last: Vec::with_capacity(PINGS_MIN), next: 0 }
    }

    /// The offset by which the start was converted.
    pub fn start(&self) -> Offset {
        self.start
    }

    /// Takes a later ping into account.
    pub fn observe(&mut self, ping: RoundTrip) {
        let now = Offset::of(&ping);
        if let Some(since_ns) = now.at_ns.checked_sub(self.start.at_ns).filter(|ns| 0 < *ns) {
            // Both ends may be off, each independently.
            let error_ppm = (self.start.error_ns + now.error_ns) as f64 / since_ns as f64 * 1e6;
            if self.drift.is_none_or(|drift| error_ppm < drift.error_ppm) {
                let moved_ns = now.offset_ns - self.start.offset_ns;
                let ppm = moved_ns as f64 / since_ns as f64 * 1e6;
                self.drift = Some(Drift { ppm, error_ppm });
            }
        }
        if self.last.len() < PINGS_MIN {
            self.last.push(ping);
        } else {
            self.last[self.next] = ping;
        }
        self.next = (self.next + 1) % PINGS_MIN;
    }

    /// The drift with the smallest error; `None` before the first ping.
    pub fn drift(&self) -> Option<Drift> {
        self.drift
    }

    /// The offset at the last ping's answer, by the last [`PINGS_MIN`]; `None` before the first. A
    /// ping that met no queue beats later ones until the clock may have drifted by as much; the
    /// possible drift is part of the error.
    pub fn end(&self) -> Option<Offset> {
        let at_ns = self.last.iter().map(RoundTrip::middle_ns).max()?;
        let aged = |ping: &RoundTrip| {
            let offset = Offset::of(ping);
            let drifted_ns = (at_ns - offset.at_ns) / (1_000_000 / DRIFT_MAX_PPM);
            Offset { at_ns, error_ns: offset.error_ns + drifted_ns, ..offset }
        };
        self.last.iter().map(aged).min_by_key(|offset| offset.error_ns)
    }

    /// The most that the agent's clock, as used for the start, may be off at the end, ns: its
    /// movement since, plus the error of that. `None` before the first ping.
    pub fn end_error_ns(&self) -> Option<u64> {
        let end = self.end()?;
        Some(end.offset_ns.abs_diff(self.start.offset_ns) + end.error_ns)
    }
}

/// Why a run can't begin at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// It has passed.
    #[error(
        "the start was {0} ago when the agent heard of it; check the network between the two \
         machines"
    )]
    Passed(Nanos),
    /// It is too far ahead.
    #[error("the start is {0} ahead, and {max} is the most", max = Nanos(START_AHEAD_MAX_NS))]
    TooFar(Nanos),
}

/// Checks that a run may begin at `at_ns` when the same clock reads `now_ns`.
///
/// # Errors
/// That moment has passed, or is too far ahead.
pub fn check_start(at_ns: u64, now_ns: u64) -> Result<(), StartError> {
    match at_ns.checked_sub(now_ns) {
        None | Some(0) => Err(StartError::Passed(Nanos(now_ns - at_ns))),
        Some(ahead_ns) if START_AHEAD_MAX_NS < ahead_ns => Err(StartError::TooFar(Nanos(ahead_ns))),
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// A ping at `sent_ns` with these two ways, to an agent that takes 5 µs to answer and whose
    /// clock is ahead by `ahead_ns` and gains `ppm`.
    fn ping(sent_ns: u64, there_ns: u64, back_ns: u64, ahead_ns: i64, ppm: i64) -> RoundTrip {
        let agent = |at_ns: u64| {
            let gained_ns = i64::try_from(at_ns).expect("a moment") / 1_000 * ppm / 1_000;
            at_ns.checked_add_signed(ahead_ns + gained_ns).expect("a moment")
        };
        let received_ns = agent(sent_ns + there_ns);
        let pong = Pong { sent_ns, received_ns, answered_ns: received_ns + 5_000 };
        RoundTrip::new(&pong, sent_ns + there_ns + 5_000 + back_ns).expect("sane stamps")
    }

    #[test]
    fn the_ping_with_the_smallest_round_trip_counts() {
        let ahead_ns = -7_000_000_000;
        let mut pings: Vec<RoundTrip> = (0..20)
            .map(|n| ping(100 * SECOND_NS + n, 50_000 + 40_000 * n, 60_000, ahead_ns, 0))
            .collect();
        pings.push(ping(102 * SECOND_NS, 21_000, 19_000, ahead_ns, 0));
        let offset = Offset::new(&pings).expect("enough pings");
        assert_eq!(offset.offset_ns, ahead_ns + 1_000, "half of what one way is longer");
        assert_eq!(offset.error_ns, 20_001);
        assert_eq!(offset.at_ns, 102 * SECOND_NS + 22_500);
        assert_eq!(offset.agent_ns(200 * SECOND_NS), Ok(193 * SECOND_NS + 1_000));
        assert_eq!(offset.agent_ns(SECOND_NS), Err(NoSuchMoment));
        assert_eq!(Offset::new(&pings[..15]), Err(ClockError::TooFew(15)));
    }

    #[test]
    fn stamps_that_contradict_each_other_are_refused() {
        for (sent_ns, received_ns, answered_ns, returned_ns) in [
            (10, 0, 0, 9),
            (0, 10, 9, 20),
            (0, 0, 21, 20),
            (0, 0, 0, u64::MAX),
            (0, u64::MAX, u64::MAX, 10),
        ] {
            let pong = Pong { sent_ns, received_ns, answered_ns };
            assert_eq!(RoundTrip::new(&pong, returned_ns), Err(ClockError::Impossible), "{pong:?}");
        }
    }

    #[test]
    fn a_start_in_the_past_or_far_ahead_is_refused() {
        let now_ns = 100 * SECOND_NS;
        assert_eq!(check_start(now_ns + 1, now_ns), Ok(()));
        assert_eq!(check_start(now_ns + START_AHEAD_MAX_NS, now_ns), Ok(()));
        for (at_ns, by_ns) in [(now_ns, 0), (now_ns - 1, 1), (0, now_ns)] {
            assert_eq!(check_start(at_ns, now_ns), Err(StartError::Passed(Nanos(by_ns))));
        }
        for at_ns in [now_ns + START_AHEAD_MAX_NS + 1, u64::MAX] {
            let ahead_ns = at_ns - now_ns;
            assert_eq!(check_start(at_ns, now_ns), Err(StartError::TooFar(Nanos(ahead_ns))));
        }
    }

    #[test]
    fn the_bound_of_a_drift_shrinks_with_time() {
        let start = ping(100 * SECOND_NS, 20_000, 20_000, 5_000, 40);
        let mut watch = ClockWatch::new(Offset::of(&start));
        assert_eq!(watch.drift(), None);
        let mut error_ppm = f64::INFINITY;
        for second in 1..=60 {
            // Every third ping meets a queue of 3 ms.
            let there_ns = if second % 3 == 0 { 3_000_000 } else { 25_000 };
            watch.observe(ping((100 + second) * SECOND_NS, there_ns, 20_000, 5_000, 40));
            let drift = watch.drift().expect("a drift");
            assert!((drift.ppm - 40.0).abs() <= drift.error_ppm, "{drift:?}");
            assert!(drift.error_ppm <= error_ppm, "{drift:?}");
            error_ppm = drift.error_ppm;
            // The clock has gained 40 µs a second so far, which bounds its error.
            let gained_ns = 40_000 * (100 + second) - 40_000 * 100;
            let most_ns = watch.end_error_ns().expect("a ping");
            assert!(gained_ns <= most_ns + watch.start().error_ns, "{most_ns} after {second} s");
            assert!(most_ns <= gained_ns + 500_000, "{most_ns} after {second} s");
        }
        assert!(error_ppm < 1.0, "{error_ppm}");
        let end = watch.end().expect("enough pings");
        let moved_ns = end.offset_ns - watch.start().offset_ns;
        assert!(
            (moved_ns - 60 * 40_000).unsigned_abs() <= watch.start().error_ns + end.error_ns,
            "{moved_ns}"
        );
        assert_eq!(watch.last.len(), PINGS_MIN, "the rest is forgotten");
        watch.observe(ping(100 * SECOND_NS, 1, 1, 5_000, 40));
        assert_eq!(watch.drift().map(|drift| drift.error_ppm), Some(error_ppm), "it isn't later");
    }

    #[test]
    fn six_hours_of_uneven_pings_stay_within_their_bounds() {
        const PPM: i64 = 50;
        let ahead_ns =
            |at_ns: u64| 5_000 + i64::try_from(at_ns).expect("a moment") / 1_000 * PPM / 1_000;
        let start = ping(100 * SECOND_NS, 20_000, 300_000, 5_000, PPM);
        let mut watch = ClockWatch::new(Offset::of(&start));
        let memory = watch.last.capacity();
        for second in 1..=6 * 3_600 {
            // The way back is longer, and every third ping meets a queue of 3 ms on its way there.
            let there_ns = if second % 3 == 0 { 3_000_000 } else { 25_000 };
            watch.observe(ping((100 + second) * SECOND_NS, there_ns, 400_000, 5_000, PPM));
            let end = watch.end().expect("a ping");
            let off_ns = end.offset_ns.abs_diff(ahead_ns(end.at_ns));
            assert!(off_ns <= end.error_ns, "{off_ns} ns, {end:?}");
            // The queue of one ping isn't believed while a better one is young.
            assert!(end.error_ns < 500_000 || second == 1, "{end:?}");
            let drift = watch.drift().expect("a drift");
            assert!((drift.ppm - PPM as f64).abs() <= drift.error_ppm, "{drift:?}");
        }
        assert_eq!((watch.last.len(), watch.last.capacity()), (PINGS_MIN, memory));
        let error_ppm = watch.drift().expect("a drift").error_ppm;
        assert!(error_ppm < 0.05, "{error_ppm}");
        // By the clock of the start, the end is off by what was gained since: 1.08 s.
        let gained_ns = PPM.unsigned_abs() * 1_000 * 6 * 3_600;
        let most_ns = watch.end_error_ns().expect("a ping");
        assert!(most_ns.abs_diff(gained_ns) < 1_000_000, "{most_ns} ns");
    }

    proptest! {
        #[test]
        fn an_offset_is_never_more_wrong_than_its_bound(
            ahead_ns in -90_i64 * 1_000_000_000..90 * 1_000_000_000,
            ways in prop::collection::vec((0_u64..5_000_000, 0_u64..5_000_000), PINGS_MIN..40),
        ) {
            let pings: Vec<RoundTrip> = (0_u64..)
                .zip(&ways)
                .map(|(n, (there_ns, back_ns))| {
                    ping((100 + n) * SECOND_NS, *there_ns, *back_ns, ahead_ns, 0)
                })
                .collect();
            let offset = Offset::new(&pings).expect("enough pings");
            prop_assert!(offset.offset_ns.abs_diff(ahead_ns) <= offset.error_ns);
            let smallest_ns = ways.iter().map(|(there, back)| there + back).min().unwrap_or(0);
            prop_assert_eq!(offset.error_ns, smallest_ns / 2 + 1, "half the smallest round trip");
        }
    }
}
