//! A response that came in time, as its checks see it: whether it is good, and what its session
//! carries on to its next steps.

use std::num::NonZeroU32;

use record::outcome::Outcome;
use sys::seal;

use super::plan::Step;
use super::shard::Shard;

impl Shard {
    /// The outcome of a request with this step, number and session, whose response has this status
    /// and is checked. Its session takes what it carries from it.
    #[inline(never)]
    pub(super) fn checked(
        &mut self,
        slot: u32,
        (step, number, session): (u16, u64, Option<NonZeroU32>),
        status: u16,
    ) -> Outcome {
        let Step { checks, values, .. } = &self.plan.steps[usize::from(step)];
        let Some(checks) = checks else { return Outcome::Answered(status) };
        let kept = match self.connections[slot].protocol.http2() {
            None => &self.kept[slot as usize],
            Some(http2) => http2.kept().expect("a response with checks is kept"),
        };
        let is_last = session.is_none_or(|place| self.recording.sessions().is_last_round(place));
        let mut carried = session.and_then(|place| self.carried.get_mut(place.get() as usize - 1));
        let is_good = self.plan.recorder_config.success_of(step).holds(status);
        // Cookies, regular expressions and decompression allocate.
        let failed = seal::lend(|| {
            // The request is made once more to find its path, before what it captures changes it.
            let request = (self.plan.seed, number);
            let room = &mut self.sending.room;
            let path = match (checks.follows(status), values) {
                (true, Some(values)) => values.path(request, carried.as_deref(), room),
                _ => Vec::new(),
            };
            let content = kept.content(status, &path, is_last);
            if let (true, Some(values), Some(carried)) = (checks.cookies, values, &mut carried) {
                let lines = content.fields.values("Set-Cookie");
                let now_s = self.clock.wall_s();
                if values.keep_cookies(request, lines, now_s, carried, room).is_err() && is_good {
                    return Some(checks.cookies_failed());
                }
            }
            if !is_good {
                return None;
            }
            checks.failed(content, &mut self.decompressed, |place, value| {
                carried.as_mut().is_none_or(|carried| carried.put(place, value))
            })
        });
        if let (Some(place), Some(carried)) = (session, carried) {
            self.recording.sessions().captured(place, carried.set());
        }
        match failed {
            None => Outcome::Answered(status),
            Some(check) => Outcome::CheckFailed { status, check },
        }
    }

    /// A session begins, and has captured nothing.
    #[inline(never)]
    pub(super) fn carries_nothing(&mut self, session: Option<NonZeroU32>) {
        let place = session.map(|place| place.get() as usize - 1);
        if let Some(carried) = place.and_then(|place| self.carried.get_mut(place)) {
            carried.clear();
        }
    }
}
