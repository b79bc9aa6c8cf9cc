//! The shop's sessions: how far each has come, and how many have taken which path.
//!
//! A session may come to any executor, so they are shared, each behind the lock of its part. The
//! paths are counted as they grow: going through all sessions for a ledger would delay requests.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use super::counts::Fault;
use super::request::{STEPS, Step};

/// The most sessions that are remembered, in 32 MB; the oldest are forgotten first.
pub(crate) const SESSIONS_MAX: usize = 1_000_000;
/// The most distinct paths that are counted; all others are one.
pub(crate) const PATHS_MAX: usize = 1_000;
/// With this many locks, executors rarely wait for one another.
const PARTS: usize = 16;

/// The sessions of a target, by number.
pub(crate) struct Sessions {
    /// Session `n` is in part `n % PARTS`.
    parts: Vec<Mutex<Part>>,
    /// Logins so far, which take turns at the parts.
    logins: AtomicUsize,
}

struct Part {
    /// The last sessions of this part, in order.
    sessions: VecDeque<Session>,
    sessions_max: usize,
    /// How many have been forgotten.
    forgotten: usize,
    /// How many sessions have come this far, forgotten ones included.
    paths: HashMap<Path, u64>,
}

struct Session {
    path: Path,
    /// When its last response was handed to the kernel, ns; `None` while a request waits.
    answered_ns: Option<u64>,
    /// Whether there is something in the basket.
    filled: bool,
}

/// The steps of a session that were answered as they should be: three bits each, the number of the
/// step plus one. Zero stands for all paths that aren't counted on their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Path(u64);

impl Path {
    const NEW: Path = Path(Step::Login as u64 + 1);
    const OTHER: Path = Path(0);

    /// With another step; of more than 21 steps there is no path.
    fn then(self, step: Step) -> Path {
        let has_room = self != Path::OTHER && self.0 >> 60 == 0;
        if has_room { Path(self.0 << 3 | (step as u64 + 1)) } else { Path::OTHER }
    }

    /// As the ledger shows it.
    fn name(self) -> String {
        if self == Path::OTHER {
            return "other".to_owned();
        }
        let codes = (0..=20).rev().map(|at| (self.0 >> (3 * at)) & 7).filter(|code| *code != 0);
        let steps = codes.map(|code| STEPS.iter().find(|step| **step as u64 + 1 == code));
        let names: Vec<&str> = steps.flatten().map(|step| step.name()).collect();
        names.join(">")
    }
}

impl Sessions {
    /// None so far, of which at most `sessions_max` will be remembered.
    pub(crate) fn new(sessions_max: usize) -> Sessions {
        let part = |_| Mutex::new(Part::new(sessions_max / PARTS));
        Sessions { parts: (0..PARTS).map(part).collect(), logins: AtomicUsize::new(0) }
    }

    /// Begins a session with its login; returns its number.
    pub(crate) fn begin(&self) -> usize {
        let at = self.logins.fetch_add(1, Ordering::Relaxed) % PARTS;
        self.part(at).begin() * PARTS + at
    }

    /// When the last response of a session was handed to the kernel, if nothing has come since.
    ///
    /// # Errors
    /// The session isn't remembered.
    pub(crate) fn arrive(&self, session: usize) -> Result<Option<u64>, Fault> {
        Ok(self.part(session).session(session)?.answered_ns.take())
    }

    /// Notes a response of a session that is handed to the kernel now.
    pub(crate) fn answer(&self, session: usize, handed_ns: u64) {
        if let Ok(session) = self.part(session).session(session) {
            session.answered_ns = Some(handed_ns);
        }
    }

    /// Takes a session one step further.
    ///
    /// # Errors
    /// It isn't remembered, or the step needs another before it.
    pub(crate) fn step(&self, session: usize, step: Step) -> Result<(), Fault> {
        self.part(session).step(session, step)
    }

    /// The sessions begun, and how many of them have come along which path so far.
    pub(crate) fn paths(&self) -> (u64, BTreeMap<String, u64>) {
        let mut sum: HashMap<Path, u64> = HashMap::new();
        for at in 0..PARTS {
            for (path, count) in &self.part(at).paths {
                *sum.entry(*path).or_default() += count;
            }
        }
        let mut paths: Vec<(Path, u64)> = sum.into_iter().collect();
        // The most frequent are named; of equals, always the same.
        paths.sort_unstable_by_key(|(path, count)| (Reverse(*count), *path));
        let mut named = BTreeMap::new();
        for (at, (path, count)) in paths.iter().enumerate() {
            let path = if at < PATHS_MAX { *path } else { Path::OTHER };
            *named.entry(path.name()).or_default() += count;
        }
        (named.values().sum(), named)
    }

    /// The part of this session.
    fn part(&self, session: usize) -> MutexGuard<'_, Part> {
        self.parts[session % PARTS].lock().expect("nothing panics under this lock")
    }
}

impl Part {
    fn new(sessions_max: usize) -> Part {
        // Memory that isn't used yet costs nothing, and growing would delay requests.
        let sessions = VecDeque::with_capacity(sessions_max);
        Part { sessions, sessions_max, forgotten: 0, paths: HashMap::new() }
    }

    /// Begins a session; returns its number within the part.
    fn begin(&mut self) -> usize {
        if self.sessions.len() == self.sessions_max {
            self.sessions.pop_front();
            self.forgotten += 1;
        }
        let path = self.count(Path::NEW);
        self.sessions.push_back(Session { path, answered_ns: None, filled: false });
        self.forgotten + self.sessions.len() - 1
    }

    /// The session of this number.
    fn session(&mut self, session: usize) -> Result<&mut Session, Fault> {
        let at = (session / PARTS).checked_sub(self.forgotten);
        at.and_then(|at| self.sessions.get_mut(at)).ok_or(Fault::WrongToken)
    }

    fn step(&mut self, session: usize, step: Step) -> Result<(), Fault> {
        let of_user = self.session(session)?;
        if matches!(step, Step::View | Step::Pay) && !of_user.filled {
            return Err(Fault::OutOfOrder);
        }
        of_user.filled = match step {
            Step::Basket => true,
            Step::Pay => false,
            _ => of_user.filled,
        };
        let before = of_user.path;
        let left = self.paths.get_mut(&before).expect("every session's path is counted");
        *left -= 1;
        if *left == 0 {
            self.paths.remove(&before);
        }
        let path = self.count(before.then(step));
        self.session(session)?.path = path;
        Ok(())
    }

    /// Counts a session on this path, or on the path of all others if there are too many.
    fn count(&mut self, path: Path) -> Path {
        let has_room = self.paths.len() < PATHS_MAX || self.paths.contains_key(&path);
        let path = if has_room { path } else { Path::OTHER };
        *self.paths.entry(path).or_default() += 1;
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_a_name_and_at_most_21_steps() {
        let path = STEPS[1..].iter().fold(Path::NEW, |path, step| path.then(*step));
        assert_eq!(path.name(), "login>search>items>basket>view>pay");
        let long = (0..20).fold(Path::NEW, |path, _| path.then(Step::Pay));
        assert_eq!(long.name(), format!("login{}", ">pay".repeat(20)));
        assert_eq!(long.then(Step::Search), Path::OTHER);
        assert_eq!(Path::OTHER.then(Step::Search).name(), "other");
    }

    #[test]
    fn the_oldest_sessions_are_forgotten_but_their_paths_stay_counted() {
        let sessions = Sessions::new(2 * PARTS);
        let numbers: Vec<usize> = (0..3 * PARTS).map(|_| sessions.begin()).collect();
        assert_eq!(numbers, Vec::from_iter(0..3 * PARTS));
        for number in 0..PARTS {
            assert_eq!(sessions.step(number, Step::Search), Err(Fault::WrongToken));
            assert_eq!(sessions.arrive(number), Err(Fault::WrongToken));
        }
        for number in PARTS..3 * PARTS {
            assert_eq!(sessions.step(number, Step::Search), Ok(()));
        }
        assert_eq!(sessions.step(3 * PARTS, Step::Search), Err(Fault::WrongToken), "not begun");
        let parts = PARTS as u64;
        let paths = [("login".to_owned(), parts), ("login>search".to_owned(), 2 * parts)];
        assert_eq!(sessions.paths(), (3 * parts, paths.into()));
    }

    #[test]
    fn more_paths_than_are_counted_become_one() {
        let sessions = Sessions::new(SESSIONS_MAX);
        let users = 3 * PATHS_MAX * PARTS;
        for user in 0..users {
            let session = sessions.begin();
            // A walk of its own for each user: the binary digits of its number.
            for bit in 0..16 {
                let step = if user >> bit & 1 == 0 { Step::Search } else { Step::Items };
                assert_eq!(sessions.step(session, step), Ok(()));
            }
        }
        for part in &sessions.parts {
            let part = part.lock().expect("no panic");
            assert!(part.paths.len() <= PATHS_MAX + 1, "{}", part.paths.len());
        }
        let (begun, paths) = sessions.paths();
        assert_eq!(begun, users as u64);
        assert!(paths.len() <= PATHS_MAX + 1 && users as u64 / 2 < paths["other"]);
    }
}
