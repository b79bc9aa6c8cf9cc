//! The number of users over time, in a closed model whose users come and go.
//!
//! User k is present while there are more than k users. A stage's ramp is a straight line, and the
//! number of users is the line rounded to the nearest whole number. So they come and go one at a
//! time, at equal distances, and a ramp has as many on average as its line. All times are computed
//! in integers, so every machine finds the same nanosecond.
//!
//! A user who leaves gets the answer to its request and sends no other; one who comes sends at
//! once, or with a period when it is due.

use std::ops::Range;

use plan::Plan;

use super::share::{Share, connections};

/// The number of users over the time since the run's epoch. After the last stage it stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presence {
    /// In order, from the epoch on.
    pieces: Vec<Piece>,
}

/// A stretch of time in which the number of users is constant or changes evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    start_ns: u64,
    end_ns: u64,
    from: u64,
    to: u64,
}

impl Presence {
    /// The users of a completed plan; `None` if their number stays the same, or it has none. The
    /// warm-up has those with which the first stage begins.
    pub fn of_plan(plan: &Plan) -> Option<Presence> {
        let stages = plan.stages_of_users()?;
        let first = plan.stage.first().map_or(0, |stage| stage.users().0);
        let warmup = Piece { start_ns: 0, end_ns: plan.warmup.0, from: first, to: first };
        let of_stage = stages.map(|(stage, span)| {
            let (from, to) = stage.users();
            Piece { start_ns: span.start, end_ns: span.end, from, to }
        });
        let pieces = std::iter::once(warmup).filter(|warmup| 0 < warmup.end_ns).chain(of_stage);
        Some(Presence { pieces: pieces.collect() })
    }

    /// The end of the last stage, ns since the epoch.
    pub fn end_ns(&self) -> u64 {
        self.pieces.last().map_or(0, |piece| piece.end_ns)
    }

    /// How many users there are at this time.
    pub fn users_at(&self, at_ns: u64) -> u64 {
        self.pieces[self.at(at_ns)].users_at(at_ns)
    }

    /// When their number changes next, after this time; `u64::MAX` for never.
    pub(super) fn changes_after(&self, at_ns: u64) -> u64 {
        let users = self.users_at(at_ns);
        let later = self.pieces[self.at(at_ns)..].iter().find_map(|piece| {
            if at_ns < piece.start_ns && piece.from != users {
                return Some(piece.start_ns);
            }
            let next = piece.from.abs_diff(users) + 1;
            (next <= piece.from.abs_diff(piece.to)).then(|| piece.change_ns(next))
        });
        later.unwrap_or(u64::MAX)
    }

    /// From when on, at this time or later, a user is present; `None` for never.
    pub(super) fn comes_ns(&self, user: u64, from_ns: u64) -> Option<u64> {
        self.pieces[self.at(from_ns)..].iter().find_map(|piece| {
            let span = piece.present(user);
            let is_last = piece.end_ns == self.end_ns();
            let from_ns = span.start.max(from_ns);
            // What the last stage ends with goes on.
            let goes_on = is_last && user < piece.to;
            (from_ns < span.end || goes_on).then_some(from_ns)
        })
    }

    /// The most users at any time of this span.
    pub(super) fn most(&self, span: Range<u64>) -> u64 {
        let pieces = &self.pieces[self.at(span.start)..=self.at(span.end)];
        let ends = pieces.iter().flat_map(|piece| {
            [span.start.max(piece.start_ns), span.end].map(|at_ns| piece.users_at(at_ns))
        });
        ends.max().unwrap_or(0)
    }

    /// For how long a user is present within this span, ns.
    pub fn present_ns(&self, user: u64, within: &Range<u64>) -> u64 {
        let of_piece = |piece: &Piece| {
            let span = piece.present(user);
            span.end.min(within.end).saturating_sub(span.start.max(within.start))
        };
        self.pieces.iter().map(of_piece).sum()
    }

    /// The index of the piece that contains this time.
    fn at(&self, at_ns: u64) -> usize {
        self.pieces.partition_point(|piece| piece.start_ns <= at_ns).saturating_sub(1)
    }
}

impl Piece {
    /// How many users there are at this time of the piece, or at its end.
    fn users_at(&self, at_ns: u64) -> u64 {
        let changes = self.changes_until(at_ns.min(self.end_ns));
        if self.from < self.to { self.from + changes } else { self.from - changes }
    }

    /// How many users have come, or gone, until this time of the piece.
    fn changes_until(&self, at_ns: u64) -> u64 {
        let all = u128::from(self.from.abs_diff(self.to));
        let (length_ns, since_ns) = (self.length_ns(), u128::from(at_ns - self.start_ns));
        let changes = (2 * all * since_ns + length_ns) / (2 * length_ns);
        u64::try_from(changes).expect("at most all")
    }

    /// When this one of the changes comes, from 1: the line is halfway between two whole numbers.
    fn change_ns(&self, change: u64) -> u64 {
        let all = u128::from(self.from.abs_diff(self.to));
        let since_ns = ((2 * u128::from(change) - 1) * self.length_ns()).div_ceil(2 * all);
        self.start_ns + u64::try_from(since_ns).expect("within the piece")
    }

    /// When a user is present in this piece; an empty span for never.
    fn present(&self, user: u64) -> Range<u64> {
        let (start_ns, end_ns) = (self.start_ns, self.end_ns);
        match (user < self.from, user < self.to) {
            (true, true) => start_ns..end_ns,
            (false, true) => self.change_ns(user - self.from + 1)..end_ns,
            (true, false) => start_ns..self.change_ns(self.from - user),
            (false, false) => end_ns..end_ns,
        }
    }

    fn length_ns(&self) -> u128 {
        u128::from(self.end_ns - self.start_ns)
    }
}

/// The mean number of users of these shares of a completed plan's closed model, in this span of
/// time; 0 for an empty one.
pub fn mean_users<'a>(
    plan: &Plan,
    within_ns: Range<u64>,
    shares: impl Iterator<Item = &'a Share>,
) -> f64 {
    let length_ns = within_ns.end.saturating_sub(within_ns.start);
    let Some(presence) = Presence::of_plan(plan) else {
        let users: usize = shares.map(|share| connections(plan, share)).sum();
        return (users * plan.depth()) as f64;
    };
    if length_ns == 0 {
        return 0.0;
    }
    let of_user = |user: u64| u128::from(presence.present_ns(user, &within_ns));
    let of_share = |share: &Share| share.users(plan.conns()).map(of_user).sum::<u128>();
    shares.map(of_share).sum::<u128>() as f64 / length_ns as f64
}

/// A shard's users who come and go, as far as time has passed.
#[derive(Clone, Debug)]
pub(super) struct Attendance {
    presence: Presence,
    /// The numbers of the shard's users, in order: those present are the first ones.
    numbers: Vec<u64>,
    /// How many of them are present.
    present: usize,
    /// How many of these have begun.
    begun: usize,
    /// Until when that many are present: then one comes or goes, here or in another shard.
    until_ns: u64,
}

impl Attendance {
    /// This share's users out of `total`, none of whom has come yet.
    pub(super) fn new(presence: Presence, total: usize, share: &Share) -> Attendance {
        let numbers: Vec<u64> = share.users(total).collect();
        Attendance { presence, numbers, present: 0, begun: 0, until_ns: 0 }
    }

    /// True if this user of the shard is present at this time. Times don't decrease.
    #[inline]
    pub(super) fn is_present(&mut self, user: usize, at_ns: u64) -> bool {
        self.pass(at_ns);
        user < self.present
    }

    /// A user of the shard who has come by this time and hasn't begun.
    #[inline]
    pub(super) fn take_coming(&mut self, at_ns: u64) -> Option<usize> {
        self.pass(at_ns);
        if self.begun == self.present {
            return None;
        }
        self.begun += 1;
        Some(self.begun - 1)
    }

    /// When to look next whether a user has come; `u64::MAX` for never.
    #[inline]
    pub(super) fn next_ns(&self) -> u64 {
        if self.begun < self.present { 0 } else { self.until_ns }
    }

    /// For how long a user of the shard is present within this span, ns.
    pub(super) fn present_ns(&self, user: usize, within: &Range<u64>) -> u64 {
        self.presence.present_ns(self.numbers[user], within)
    }

    #[inline]
    fn pass(&mut self, at_ns: u64) {
        if self.until_ns <= at_ns {
            self.look(at_ns);
        }
    }

    fn look(&mut self, at_ns: u64) {
        let users = self.presence.users_at(at_ns);
        self.present = self.numbers.partition_point(|number| *number < users);
        // Those who have left begin again when they come back.
        self.begun = self.begun.min(self.present);
        self.until_ns = self.presence.changes_after(at_ns);
    }
}

#[cfg(test)]
mod tests {
    use plan::Model;
    use units::Nanos;

    use super::*;

    const MS: u64 = 1_000_000;

    fn plan(text: &str) -> Plan {
        let stage = text.split(',').map(|stage| stage.parse().expect(stage)).collect();
        let plan = Plan { target: "http://h/".to_owned(), stage, ..Plan::default() };
        let warmup = Nanos(100 * MS);
        Plan { model: Some(Model::Closed), warmup, ..plan }.complete(&[0]).expect("it runs")
    }

    fn presence(text: &str) -> Presence {
        Presence::of_plan(&plan(text)).expect("users come and go")
    }

    #[test]
    fn a_ramp_is_its_line_rounded() {
        let of = presence("2..6:80ms,6:10ms,0:10ms,5..1:40ms");
        for (at_ms, users) in [
            (0, 2),
            (100, 2),
            (109, 2),
            (110, 3),
            (129, 3),
            (130, 4),
            (170, 6),
            (189, 6),
            (190, 0),
            (199, 0),
            (200, 5),
            (205, 4),
            (235, 1),
            (240, 1),
            (999, 1),
        ] {
            assert_eq!(of.users_at(at_ms * MS), users, "at {at_ms} ms");
        }
        assert_eq!(of.most(110 * MS..131 * MS), 4);
        assert_eq!(of.most(190 * MS..200 * MS - 1), 0);
        assert_eq!(of.most(180 * MS..205 * MS), 6);
        // The last of a ramp is there for half a step.
        assert_eq!(presence("0..3:60ms,0:1ms").most(120 * MS..161 * MS), 3);
    }

    #[test]
    fn every_change_is_where_the_number_changes() {
        for text in ["2..6:80ms,6:10ms,0:10ms,5..1:40ms", "0..7:3ns,7..0:5ns,3:1ns", "1..100:1s"] {
            let of = presence(text);
            let (mut at_ns, mut users, mut changes) = (0, of.users_at(0), 0);
            loop {
                let next_ns = of.changes_after(at_ns);
                if next_ns == u64::MAX {
                    break;
                }
                assert_eq!(of.users_at(next_ns - 1), users, "{text}, {next_ns}");
                assert_ne!(of.users_at(next_ns), users, "{text}, {next_ns}");
                (at_ns, users, changes) = (next_ns, of.users_at(next_ns), changes + 1);
            }
            assert!(2 <= changes && at_ns <= of.end_ns(), "{text}");
            assert_eq!(users, of.users_at(u64::MAX - 1));
        }
    }

    #[test]
    fn a_user_is_present_while_there_are_more() {
        for text in ["2..6:80ms,6:10ms,0:10ms,5..1:40ms", "3:1ms,0..9:2ms,9..0:3ms"] {
            let of = presence(text);
            let step_ns = MS / 10;
            let mut present_ns = [0; 10];
            let mut came: Vec<u64> = (0..10).map(|_| u64::MAX).collect();
            for at_ns in (0..of.end_ns() / step_ns).rev().map(|step| step * step_ns) {
                for (user, present) in (0..10).zip(&mut present_ns) {
                    let at = usize::try_from(user).expect("small");
                    if user < of.users_at(at_ns) {
                        *present += step_ns;
                        came[at] = at_ns;
                    }
                    let comes_ns = of.comes_ns(user, at_ns);
                    let goes_on = user < of.users_at(of.end_ns());
                    let expected = Some(came[at]).filter(|came_ns| *came_ns != u64::MAX);
                    let off = expected.or(goes_on.then_some(of.end_ns()));
                    assert!(
                        comes_ns.is_some() == off.is_some()
                            && comes_ns.unwrap_or(0).abs_diff(off.unwrap_or(0)) <= step_ns,
                        "{text}: user {user} from {at_ns}: {comes_ns:?}, {off:?}"
                    );
                }
            }
            for (user, counted_ns) in (0..10).zip(present_ns) {
                let of_user = of.present_ns(user, &(0..of.end_ns()));
                assert!(of_user.abs_diff(counted_ns) <= 4 * step_ns, "{text}: user {user}");
            }
        }
    }

    #[test]
    fn a_ramp_has_as_many_users_as_its_line_on_average() {
        let plan = plan("10..20:1s,0..7:2s,4:3s");
        let whole = [Share::whole()];
        let of = |from_s: u64, to_s: u64| {
            let span = plan.warmup.0 + from_s * 1_000 * MS..plan.warmup.0 + to_s * 1_000 * MS;
            mean_users(&plan, span, whole.iter())
        };
        for (found, mean) in [(of(0, 1), 15.0), (of(1, 3), 3.5), (of(3, 6), 4.0), (of(3, 3), 0.0)] {
            assert!((found - mean).abs() < 1e-6, "{found}, not {mean}");
        }
        // Two agents, one of them with two thirds of the load, have all users together.
        let agents = [Share::units(0..1, 3), Share::units(1..3, 3)];
        let span = plan.warmup.0..plan.end_ns();
        let each =
            agents.each_ref().map(|agent| mean_users(&plan, span.clone(), [agent].into_iter()));
        let all = mean_users(&plan, span, whole.iter());
        assert!((each[0] + each[1] - all).abs() < 1e-9 && (each[0] * 2.0 - each[1]).abs() < 3.0);
    }

    #[test]
    fn shards_have_the_users_of_the_curve_at_every_moment() {
        let plan = plan("3..40:80ms,0:10ms,12:10ms,25..1:40ms");
        let presence = Presence::of_plan(&plan).expect("users come and go");
        for shares in [
            vec![Share::whole()],
            (0..3).map(|shard| Share::equal(shard, 3)).collect(),
            vec![Share::units(0..7, 10), Share::units(7..8, 10), Share::units(8..10, 10)],
            vec![Share::units(0..1, 1_000), Share::units(1..1_000, 1_000)],
        ] {
            let mut shards: Vec<Attendance> = shares
                .iter()
                .map(|share| Attendance::new(presence.clone(), plan.conns(), share))
                .collect();
            for at_ns in (0..plan.end_ns()).step_by(500_000) {
                let present = |of: &mut Attendance| {
                    while of.take_coming(at_ns).is_some() {}
                    (0..of.numbers.len()).filter(|user| of.is_present(*user, at_ns)).count()
                };
                let present: Vec<usize> = shards.iter_mut().map(present).collect();
                let users = presence.users_at(at_ns);
                assert_eq!(present.iter().sum::<usize>() as u64, users, "{shares:?}");
                for (share, present) in shares.iter().zip(present) {
                    let off = (present as f64 - share.fraction() * users as f64).abs();
                    assert!(off <= 3.5, "{shares:?} at {at_ns}: {present} of {users}");
                }
            }
        }
    }

    #[test]
    fn users_begin_when_they_come_and_again_when_they_come_back() {
        let mut of = Attendance::new(presence("1:10ms,1..3:20ms,0:5ms,2:5ms"), 3, &Share::whole());
        let mut begun = Vec::new();
        let mut at_ns = 0;
        loop {
            while let Some(user) = of.take_coming(at_ns) {
                begun.push((at_ns / MS, user));
            }
            at_ns = of.next_ns();
            if at_ns == u64::MAX {
                break;
            }
        }
        assert_eq!(begun, [(0, 0), (115, 1), (125, 2), (135, 0), (135, 1)]);
        // It wasn't asked while all of them were away.
        let mut of = Attendance::new(presence("2:10ms,0:5ms,2:5ms"), 2, &Share::whole());
        assert_eq!([(); 3].map(|()| of.take_coming(0)), [Some(0), Some(1), None]);
        assert!(!of.is_present(0, 112 * MS) && of.next_ns() == 115 * MS);
        assert_eq!([(); 3].map(|()| of.take_coming(116 * MS)), [Some(0), Some(1), None]);
    }
}
