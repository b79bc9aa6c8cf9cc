//! Resource limits: open files (RLIMIT_NOFILE) and locked memory (RLIMIT_MEMLOCK), raised from soft
//! to hard.
//!
//! Since Linux 6.14 the queues and buffer rings of io_uring count as locked memory; before, only
//! registered buffers did. The count is per user, not per process, so other processes can use up
//! what a run needs; CAP_IPC_LOCK is exempt.

use std::fs;

use plan::CONNS_OPEN_DEFAULT;
use report::environment::Limit;
use rustix::param::page_size;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sys::placement;
use uring::RingSizes;

use super::check::{Check, OPEN_FILES, Severity, cores};
use super::kernel::kernel_version;

/// The limit below which glommio doesn't start an executor, bytes. It checks only the limit, even
/// if the process is exempt.
const EXECUTOR_LIMIT_MIN: u64 = 512 * 1024;
/// The first Linux version that counts the rings' own memory.
const RINGS_COUNT_SINCE: (u32, u32) = (6, 14);
/// The cure if the kernel refuses a thread.
pub const CURE_FOR_NO_THREAD: &str =
    "raise the limit of processes: ulimit -u, or pids.max of the control group";
/// The number of connections of one shard above which its rings don't grow: they have the kernel's
/// largest size.
const SHARD_CONNS_MAX: usize = 1 << SHARD_CONNS_BITS;
const SHARD_CONNS_BITS: u32 = 15;
/// The capability to lock memory without a limit, as its bit in `/proc/self/status`.
const CAP_IPC_LOCK: u64 = 1 << 14;
/// Descriptors that a run needs besides its connections and shards: standard streams and reports.
const FILES_SPARE: u64 = 64;
/// Descriptors of one shard besides its connections.
const FILES_PER_SHARD: u64 = 16;

/// Files that this process may have open now.
pub(super) fn open_files() -> Limit<u64> {
    now(Resource::Nofile)
}

/// Memory that this process may lock now, bytes.
pub(super) fn locked_memory_bytes() -> Limit<u64> {
    now(Resource::Memlock)
}

fn now(resource: Resource) -> Limit<u64> {
    getrlimit(resource).current.map_or(Limit::Unlimited, Limit::AtMost)
}

/// What counts as locked memory on this machine, for this process.
#[derive(Clone, Copy, Debug)]
struct LockedMemory {
    /// The kernel's page size, in which it counts.
    page: u64,
    /// True if the rings' own memory counts.
    rings_count: bool,
    /// True if nothing counts.
    exempt: bool,
}

impl LockedMemory {
    fn here() -> LockedMemory {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        LockedMemory {
            page: page_size() as u64,
            rings_count: RINGS_COUNT_SINCE <= kernel_version(),
            exempt: is_exempt(&text("/proc/self/status"), &text("/proc/self/uid_map")),
        }
    }

    /// The limit that a run needs, bytes.
    fn needed(self, conns: usize, shards: usize) -> u64 {
        if self.exempt {
            return 0;
        }
        // The kernel is slow to release the ring that the check built.
        self.ring(conns.div_ceil(shards)) * shards as u64 + self.ring(1)
    }

    /// Bytes of a shard's own ring.
    fn ring(self, sockets_max: usize) -> u64 {
        let RingSizes { submissions, completions, buffers } = RingSizes::new(sockets_max);
        let buffers = if self.rings_count { self.pages(16 * buffers as u64) } else { 0 };
        self.queues(u64::from(submissions), u64::from(completions)) + buffers
    }

    /// Bytes of a ring's queues: entries of 64 bytes in one region; heads and entries of 16 in
    /// another.
    fn queues(self, submissions: u64, completions: u64) -> u64 {
        if !self.rings_count {
            return 0;
        }
        self.pages(64 * submissions) + self.pages(512 + 16 * completions)
    }

    fn pages(self, bytes: u64) -> u64 {
        bytes.next_multiple_of(self.page)
    }

    /// Checks a limit in bytes before a run, which may have `spare` sockets beyond its connections.
    fn check(self, limit: Option<u64>, conns: usize, spare: usize, shards: usize) -> Check {
        let name = "locked memory";
        let Some(limit) = limit else {
            return Check::good(name, "unlimited");
        };
        let found = format!("{} KiB", limit / 1024);
        let fits = |conns, shards| self.needed(conns + spare, shards) <= limit;
        if fits(conns, shards) {
            return Check::good(name, found);
        }
        let needed = self.needed(conns + spare, shards).div_ceil(1024);
        let raise = format!("raise the limit, as root: ulimit -l {needed}");
        let fewer_conns = (0..SHARD_CONNS_BITS).rev().map(|bits| shards << bits);
        let fewer_conns =
            fewer_conns.into_iter().find(|fewer| *fewer < conns && fits(*fewer, shards));
        let fewer_shards = (1..shards).rev().find(|fewer| fits(conns, *fewer));
        let cure = match (fewer_conns, fewer_shards) {
            (Some(fewer), _) => format!("lower --conns to {fewer}, or {raise}"),
            (None, Some(fewer)) => format!("name {} with --cores, or {raise}", cores(fewer)),
            (None, None) => raise,
        };
        let cause =
            format!("--conns {conns} on {} needs {needed} KiB for its rings", cores(shards));
        Check::bad(name, Severity::Missing, found, cause, cure)
    }

    /// Checks a limit in bytes for any run, on a machine with this many cores.
    fn examine(self, limit: Option<u64>, cores_allowed: usize) -> Check {
        let any = self.check(limit, 1, 0, 1);
        let Some(limit) = limit.filter(|_| any.severity == Severity::Good) else {
            return any;
        };
        let usual = self.check(Some(limit), CONNS_OPEN_DEFAULT, 0, cores_allowed.max(2) - 1);
        if usual.severity != Severity::Good {
            return Check { severity: Severity::Warning, ..usual };
        }
        let fits = |conns, shards| self.needed(conns, shards) <= limit;
        let shards = (1..=cores_allowed).rev().find(|shards| fits(CONNS_OPEN_DEFAULT, *shards));
        let shards = shards.unwrap_or(1);
        let conns = (0..=SHARD_CONNS_BITS).rev().map(|bits| shards << bits);
        let conns = match conns.into_iter().find(|conns| fits(*conns, shards)) {
            Some(conns) if conns < shards * SHARD_CONNS_MAX => format!("--conns up to {conns}"),
            _ => "any number of connections".to_owned(),
        };
        Check {
            found: format!("{}, enough for {conns} on {}", usual.found, cores(shards)),
            ..usual
        }
    }
}

/// True if a process with this `/proc/self/status` may lock memory without a limit. Capabilities in
/// a user namespace, whose map isn't that of the whole machine, don't count.
fn is_exempt(status: &str, uid_map: &str) -> bool {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let whole = uid_map.split_whitespace().eq(["0", "0", "4294967295"]);
    whole && effective.is_some_and(|mask| mask & CAP_IPC_LOCK != 0)
}

/// Raises the limit of locked memory, and checks that the rings of a run fit under it.
pub(super) fn check_memlock(conns: usize, spare: usize, shards: usize) -> Check {
    LockedMemory::here().check(raise_to_hard(Resource::Memlock).current, conns, spare, shards)
}

/// Raises the limit of locked memory, and checks that an executor starts under it.
pub(super) fn check_executor_memory() -> Check {
    executor_memory(raise_to_hard(Resource::Memlock).current)
}

/// Checks whether an executor starts under a limit in bytes.
fn executor_memory(limit: Option<u64>) -> Check {
    let name = "locked memory";
    match limit.filter(|limit| *limit < EXECUTOR_LIMIT_MIN) {
        None => Check::good(name, "enough for a control plane"),
        Some(limit) => {
            let needed = EXECUTOR_LIMIT_MIN / 1024;
            Check::bad(
                name,
                Severity::Missing,
                format!("{} KiB", limit / 1024),
                format!("the control plane of agents and controllers needs {needed} KiB"),
                format!("raise the limit, as root: ulimit -l {needed}"),
            )
        }
    }
}

/// Raises the limit of locked memory, and reports how many cores and connections it is enough for.
pub(super) fn examine_memlock() -> Check {
    let cores = placement::allowed_cores().len();
    LockedMemory::here().examine(raise_to_hard(Resource::Memlock).current, cores)
}

/// The cure if the kernel refused memory for a shard's rings although the check had passed.
pub fn cure_for_no_memory(conns: usize, shards: usize) -> String {
    let check = check_memlock(conns, 0, shards);
    let needed = LockedMemory::here().needed(conns, shards).div_ceil(1024);
    let cure = check.cure.clone().unwrap_or_else(|| {
        "stop this user's other io_uring programs, or raise the limit, as root: \
         ulimit -l unlimited"
            .to_owned()
    });
    format!(
        "locked memory: {}; --conns {conns} on {} needs {needed} KiB for its rings, on top of \
         those of this user's other processes; {cure}",
        check.found,
        cores(shards),
    )
}

/// Raises the limit of open files, and checks that the connections, spare sockets and shards of a
/// run fit under it.
pub(super) fn check_files(conns: usize, spare: usize, shards: usize) -> Check {
    let before = getrlimit(Resource::Nofile);
    let now = raise_to_hard(Resource::Nofile);
    files_check(before, now, conns as u64, spare as u64, shards as u64)
}

/// The check of the limit `now`, which was `before` until it was raised.
fn files_check(before: Rlimit, now: Rlimit, conns: u64, spare: u64, shards: u64) -> Check {
    let name = OPEN_FILES;
    let others = FILES_SPARE + FILES_PER_SHARD * shards + spare;
    let needed = conns.saturating_add(others);
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
    let cure = match files.saturating_sub(others) {
        0 => raise,
        fitting => format!("lower --conns to {fitting}, or {raise}"),
    };
    Check::bad(name, Severity::Missing, found, format!("--conns {conns} needs {needed}"), cure)
}

/// Raises a soft limit to the hard one, which needs no privilege, and returns the limit that then
/// applies.
fn raise_to_hard(resource: Resource) -> Rlimit {
    let limit = getrlimit(resource);
    if limit.current != limit.maximum {
        // A refusal leaves the limit as it is, which then decides.
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
    fn the_check_of_files_names_the_hard_limit() {
        for (before, now, conns, state, words) in [
            (limit(4_096, 4_096), limit(4_096, 4_096), 1_000, Severity::Good, vec!["hard limit"]),
            (
                limit(1_024, 4_096),
                limit(4_096, 4_096),
                1_000,
                Severity::Good,
                vec!["4096, the hard limit", "soft limit 1024"],
            ),
            (
                limit(200, 200),
                limit(200, 200),
                5_000,
                Severity::Missing,
                vec!["--conns 5000 needs 5080", "--conns to 120", "hard limit", "ulimit -n 5080"],
            ),
            (limit(64, 64), limit(64, 64), 10, Severity::Missing, vec!["raise the hard limit"]),
            (
                limit(100, 4_096),
                limit(100, 4_096),
                50,
                Severity::Missing,
                vec!["100, the soft limit"],
            ),
        ] {
            let check = files_check(before, now, conns, 0, 1);
            let text = check.to_string();
            assert_eq!(check.severity, state, "{text}");
            for word in words {
                assert!(text.contains(word), "{word} is not in: {text}");
            }
        }
        let text = files_check(limit(64, 64), limit(64, 64), 10, 0, 1).to_string();
        assert!(!text.contains("lower --conns"), "no connection fits: {text}");
        let spare =
            |spare| files_check(limit(200, 200), limit(200, 200), 100, spare, 1).to_string();
        assert!(spare(20).contains("hard limit") && !spare(20).contains("needs"), "{}", spare(20));
        let more = spare(40);
        assert!(more.contains("--conns 100 needs 220; lower --conns to 80"), "{more}");
    }

    #[test]
    fn no_limit_takes_every_connection() {
        let none = Rlimit { current: None, maximum: None };
        assert_eq!(files_check(none, none, u64::MAX, 0, 1), Check::good("open files", "unlimited"));
    }

    const COUNTING: LockedMemory = LockedMemory { page: 4_096, rings_count: true, exempt: false };

    #[test]
    fn locked_memory_matches_the_kernels_count() {
        // Linux 6.18: the least, KiB, that other processes had to leave of the limit for a run with
        // this many connections on this many cores to start, found by bisection.
        for (conns, shards, started) in
            [(64, 1, 296), (1_000, 1, 296), (3_000, 1, 536), (64, 2, 400)]
        {
            let needed = COUNTING.needed(conns, shards) / 1024;
            assert!((started..started + 48).contains(&needed), "{conns} on {shards}: {needed}");
        }
        let any = COUNTING.needed(SHARD_CONNS_MAX, 1);
        assert_eq!(COUNTING.needed(plan::CONNS_MAX, 1), any, "rings grow no further");
        // At that time only registered buffers counted, and a shard has none.
        let older = LockedMemory { rings_count: false, ..COUNTING };
        assert_eq!(older.needed(1_000, 8), 0);
        let exempt = LockedMemory { exempt: true, ..COUNTING };
        assert_eq!(exempt.needed(1_000, 64), 0);
    }

    #[test]
    fn the_check_of_locked_memory_names_what_fits() {
        for (kib, conns, shards, words) in [
            (
                256,
                64,
                1,
                &["256 KiB; --conns 64 on 1 core needs ", "; raise the limit, as root: ulimit -l "]
                    [..],
            ),
            (400, 64, 2, &["400 KiB; --conns 64 on 2 cores needs ", "name 1 core with --cores"]),
            (1_500, 19_000, 1, &["--conns 19000 on 1 core needs", "lower --conns to 16384"]),
        ] {
            let check = COUNTING.check(Some(kib * 1_024), conns, 0, shards);
            assert_eq!(check.severity, Severity::Missing, "{check}");
            for word in words {
                assert!(check.to_string().contains(word), "{word} is not in: {check}");
            }
            let needed = COUNTING.needed(conns, shards);
            assert_eq!(COUNTING.check(Some(needed), conns, 0, shards).severity, Severity::Good);
            assert_eq!(
                COUNTING.check(Some(needed - 1), conns, 0, shards).severity,
                Severity::Missing
            );
        }
        assert_eq!(COUNTING.check(None, 1, 0, 1), Check::good("locked memory", "unlimited"));
    }

    #[test]
    fn the_examination_names_what_the_memory_is_enough_for() {
        for (kib, cores, state, words) in [
            (100, 2, Severity::Missing, "--conns 1 on 1 core needs 2"),
            (300, 2, Severity::Good, "300 KiB, enough for --conns up to 1024 on 1 core"),
            (400, 2, Severity::Good, "400 KiB, enough for --conns up to 2048 on 1 core"),
            (8_192, 2, Severity::Good, "8192 KiB, enough for any number of connections on 2 cores"),
            (8_192, 64, Severity::Warning, "--conns 1000 on 63 cores needs"),
        ] {
            let check = COUNTING.examine(Some(kib * 1_024), cores);
            assert_eq!(check.severity, state, "{check}");
            assert!(check.to_string().contains(words), "{words} is not in: {check}");
        }
        assert_eq!(COUNTING.examine(None, 2), Check::good("locked memory", "unlimited"));
    }

    #[test]
    fn an_executor_needs_the_limit_even_if_exempt() {
        for (limit, severity) in [
            (Some(EXECUTOR_LIMIT_MIN - 1), Severity::Missing),
            (Some(EXECUTOR_LIMIT_MIN), Severity::Good),
            (None, Severity::Good),
        ] {
            assert_eq!(executor_memory(limit).severity, severity, "{limit:?}");
        }
        let text = executor_memory(Some(64 * 1_024)).to_string();
        assert!(text.contains("64 KiB") && text.contains("ulimit -l 512"), "{text}");
    }

    #[test]
    fn the_exempt_have_the_capability_on_the_whole_machine() {
        let whole = "         0          0 4294967295\n";
        for (mask, map, exempt) in [
            ("000001ffffffffff", whole, true),
            ("0000000000004000", whole, true),
            ("00000000a80425fb", whole, false),
            ("000001ffffffffff", "0 100000 65536\n", false),
        ] {
            let status = format!("Name:\tx\nCapEff:\t{mask}\n");
            assert_eq!(is_exempt(&status, map), exempt, "{mask} {map}");
        }
        assert!(!is_exempt("", whole));
    }

    #[test]
    fn a_lower_limit_is_less() {
        assert!(Limit::AtMost(1) < Limit::AtMost(2));
        assert!(Limit::AtMost(u64::MAX) < Limit::Unlimited);
    }
}
