//! The limits that the kernel sets to this process: open files and locked memory. Soft limits are raised to the hard ones.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

use super::{Check, State};

/// Locked memory that glommio asks for per executor, bytes.
const MEMLOCK_MIN: u64 = 512 * 1024;
/// Descriptors that a run needs beside its connections: standard streams, reports, and per shard the executor's rings.
const FILES_SPARE: u64 = 64;
/// Descriptors of one executor and its shard beside the connections.
const FILES_PER_SHARD: u64 = 16;

/// The most of something that may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit<T> {
    /// No more than this.
    AtMost(T),
    /// As much as there is.
    #[default]
    Unlimited,
}

/// Files that this process may have open now.
pub fn open_files() -> Limit<u64> {
    now(Resource::Nofile)
}

/// Memory that this process may lock now, bytes.
pub fn locked_memory_bytes() -> Limit<u64> {
    now(Resource::Memlock)
}

fn now(resource: Resource) -> Limit<u64> {
    getrlimit(resource).current.map_or(Limit::Unlimited, Limit::AtMost)
}

/// Raises the limit of locked memory, and checks that an executor can start under it.
pub(super) fn check_memlock() -> Check {
    let name = "locked memory";
    match raise_to_hard(Resource::Memlock).current {
        Some(bytes) if bytes < MEMLOCK_MIN => Check::bad(
            name,
            State::Missing,
            format!("{} KiB", bytes / 1024),
            format!("each shard's executor needs {} KiB", MEMLOCK_MIN / 1024),
            "raise the limit: ulimit -l unlimited",
        ),
        Some(bytes) => Check::good(name, format!("{} KiB", bytes / 1024)),
        None => Check::good(name, "unlimited"),
    }
}

/// Raises the limit of open files, and checks that the connections and shards of a run fit under it.
pub(super) fn check_files(conns: usize, shards: usize) -> Check {
    let before = getrlimit(Resource::Nofile);
    let now = raise_to_hard(Resource::Nofile);
    files_check(before, now, conns as u64, shards as u64)
}

/// What to say of the limit `now`, which was `before` until it was raised.
fn files_check(before: Rlimit, now: Rlimit, conns: u64, shards: u64) -> Check {
    let name = "open files";
    let beside = FILES_SPARE + FILES_PER_SHARD * shards;
    let needed = conns.saturating_add(beside);
    let Some(files) = now.current else {
        return Check::good(name, "unlimited");
    };
    // Only a refusal leaves the soft limit below the hard one.
    let found = match (before.current, now.maximum) {
        _ if now.current != now.maximum => format!("{files}, the soft limit"),
        (Some(soft), _) if soft < files => {
            format!("{files}, the hard limit (raised from the soft limit {soft})")
        }
        _ => format!("{files}, the hard limit"),
    };
    if needed <= files {
        return Check::good(name, found);
    }
    let raise = format!("raise the hard limit, as root: ulimit -n {needed}");
    let cure = match files.saturating_sub(beside) {
        0 => raise,
        fitting => format!("lower --conns to {fitting}, or {raise}"),
    };
    Check::bad(name, State::Missing, found, format!("--conns {conns} needs {needed}"), cure)
}

/// Raises a soft limit to the hard one, which needs no privilege, and gives what holds now.
fn raise_to_hard(resource: Resource) -> Rlimit {
    let limit = getrlimit(resource);
    if limit.current != limit.maximum {
        // A refusal leaves the limit as it is, and what it is decides.
        let _ = setrlimit(resource, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
    getrlimit(resource)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(soft: u64, hard: u64) -> Rlimit {
        Rlimit { current: Some(soft), maximum: Some(hard) }
    }

    #[test]
    fn the_check_of_files_speaks_of_the_hard_limit() {
        for (before, now, conns, state, words) in [
            (limit(4_096, 4_096), limit(4_096, 4_096), 1_000, State::Good, vec!["hard limit"]),
            (
                limit(1_024, 4_096),
                limit(4_096, 4_096),
                1_000,
                State::Good,
                vec!["4096, the hard limit", "soft limit 1024"],
            ),
            (
                limit(200, 200),
                limit(200, 200),
                5_000,
                State::Missing,
                vec!["--conns 5000 needs 5080", "--conns to 120", "hard limit", "ulimit -n 5080"],
            ),
            (limit(64, 64), limit(64, 64), 10, State::Missing, vec!["raise the hard limit"]),
            (limit(100, 4_096), limit(100, 4_096), 50, State::Missing, vec!["100, the soft limit"]),
        ] {
            let check = files_check(before, now, conns, 1);
            let text = check.to_string();
            assert_eq!(check.state, state, "{text}");
            for word in words {
                assert!(text.contains(word), "{word} is not in: {text}");
            }
        }
        let text = files_check(limit(64, 64), limit(64, 64), 10, 1).to_string();
        assert!(!text.contains("lower --conns"), "no connection fits: {text}");
    }

    #[test]
    fn no_limit_takes_every_connection() {
        let none = Rlimit { current: None, maximum: None };
        assert_eq!(files_check(none, none, u64::MAX, 1), Check::good("open files", "unlimited"));
    }

    #[test]
    fn a_lower_limit_is_less() {
        assert!(Limit::AtMost(1) < Limit::AtMost(2));
        assert!(Limit::AtMost(u64::MAX) < Limit::Unlimited);
    }
}
