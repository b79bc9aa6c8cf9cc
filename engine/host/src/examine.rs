//! The checks of `truetail doctor` and before every run: kernel, io_uring, limits, ports, cores and
//! their topology, governor, clock source, what else lies on the path of a request.
//!
//! A run makes only those without which it can't start, with the same texts.

use std::fmt::Write as _;
use std::fs;
use std::sync::Mutex;
use std::thread;

use sys::placement;
use sys::topology::{Attachment, Topology};
use units::CoreList;
use uring::{Payload, Ring, RingConfig};

use super::check::{Check, Severity, cores};
use super::kernel::{check_clock_source, check_kernel, cure_for_an_old_kernel};
use super::limits::{
    CURE_FOR_NO_THREAD, check_executor_memory, check_files, check_memlock, examine_memlock,
};
use super::ports::check_ports;
use super::processor::check_governor;
use super::request_path::check_request_path;
use super::stamping::{check_receive_stamps, check_send_stamps};

/// Threads of a run other than its shards: those that handle signals, prepare it, watch the machine
/// and write raw samples.
const OTHER_THREADS: usize = 4;
/// Those of them that are already running when a run is prepared.
const THREADS_RUNNING: usize = 2;

/// Checks everything that affects a run.
pub fn examine() -> Vec<Check> {
    let mut checks = vec![
        check_kernel(),
        // Must come before the ring is built, since it raises the limit.
        examine_memlock(),
        check_files(1, 0, 1),
        check_ring(),
        check_topology(),
        check_threads(1, 0),
    ];
    if checks.iter().all(|check| check.severity != Severity::Missing) {
        checks.extend([check_receive_stamps(), check_send_stamps()]);
    }
    let topology = Topology::here();
    let allowed = placement::allowed_cores();
    let used = topology.default_cores(&allowed, &Attachment::here("lo"));
    checks.extend([
        check_ports(),
        check_cores(&allowed, placement::online_cores().len(), &topology),
        check_siblings(&topology, &used),
        listed("memory nodes", nodes(&topology.nodes())),
        listed("interrupt cores", interrupt_cores(&Attachment::all_here())),
        check_governor(&allowed),
        check_clock_source(),
    ]);
    checks.extend(check_request_path(&allowed));
    checks
}

fn there(check: Check) -> Result<(), Check> {
    match check.severity {
        Severity::Missing => Err(check),
        Severity::Good | Severity::Unknown | Severity::Warning => Ok(()),
    }
}

/// Finds the first thing missing for a run of `conns` connections, with `spare` sockets that may be
/// open beyond them, on `shards` shards.
///
/// # Errors
/// What is missing.
pub fn require(conns: usize, spare: usize, shards: usize) -> Result<(), Check> {
    there(check_kernel())?;
    there(check_memlock(conns, spare, shards))?;
    there(check_files(conns, spare, shards))?;
    there(check_ring())?;
    there(check_topology())?;
    there(check_threads(shards, THREADS_RUNNING))
}

/// Finds the first thing missing for the executor of a control plane, an agent's or a controller's,
/// which would otherwise panic.
///
/// # Errors
/// What is missing.
pub fn require_executor() -> Result<(), Check> {
    there(check_kernel())?;
    there(check_executor_memory())?;
    there(check_files(0, 0, 1))?;
    there(check_ring())?;
    there(check_topology())
}

fn check_ring() -> Check {
    let name = "io_uring";
    let built = Payload::copied(b"", b"", 1).and_then(|payload| {
        Ring::new(RingConfig {
            sockets_max: 1,
            buffer_size: 64,
            payloads: vec![payload],
            addresses: Vec::new(),
            outbox: false,
        })
    });
    let error = match built {
        Ok(ring) => return Check::good(name, ring.features().join(", ")),
        Err(error) => error,
    };
    let (cause, cure) = ring_refusal(
        &error,
        &fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default(),
        &fs::read_to_string("/proc/self/status").unwrap_or_default(),
    );
    Check::bad(name, Severity::Missing, format!("refused ({error})"), cause, cure)
}

/// Why the kernel refused a ring: EPERM and ENOSYS have several causes; the sysctl and the
/// process's seccomp state tell them apart.
fn ring_refusal(error: &std::io::Error, disabled: &str, status: &str) -> (String, String) {
    let filtered = status
        .lines()
        .any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2"));
    let (cause, cure) = match (error.raw_os_error(), disabled.trim()) {
        (Some(libc::EPERM), "2") => (
            "the sysctl kernel.io_uring_disabled is 2: io_uring is off for everyone",
            "set it to 0: sysctl -w kernel.io_uring_disabled=0",
        ),
        (Some(libc::EPERM), "1") => (
            "the sysctl kernel.io_uring_disabled is 1: it is for members of kernel.io_uring_group",
            "set it to 0, or join that group",
        ),
        (Some(libc::EPERM | libc::ENOSYS), _) if filtered => (
            "a seccomp filter blocks it, as container runtimes do by default",
            "run outside the container, or allow io_uring_setup, io_uring_enter and \
             io_uring_register in its seccomp profile",
        ),
        (Some(libc::ENOSYS), _) => {
            ("this kernel was built without it", "use a kernel with CONFIG_IO_URING")
        }
        (Some(libc::ENOMEM), _) => (
            "the kernel is out of memory, or this user's processes use up the limit of locked memory",
            "stop those, or raise the limit, as root: ulimit -l unlimited",
        ),
        (Some(libc::EMFILE | libc::ENFILE), _) => {
            ("no file descriptor was left for it", "raise the limit: ulimit -n 65536")
        }
        (Some(libc::EINVAL), _) => {
            ("this kernel lacks a feature that the request path needs", &*cure_for_an_old_kernel())
        }
        _ => ("the kernel gave no further reason", "look into the kernel's log: dmesg"),
    };
    (cause.to_owned(), cure.to_owned())
}

fn check_topology() -> Check {
    let name = "core topology";
    match placement::listed_online() {
        Ok(cores) => Check::good(name, format!("{} cores listed", cores.len())),
        Err(error) => Check::bad(
            name,
            Severity::Missing,
            format!("unknown ({error})"),
            "/sys lists the cores on which shards can be placed, and it can't be read",
            "mount it: mount -t sysfs sysfs /sys",
        ),
    }
}

/// Starts as many threads at once as a run needs besides those already running.
fn check_threads(shards: usize, running: usize) -> Check {
    let name = "threads";
    let needed = shards + OTHER_THREADS;
    let gate = Mutex::new(());
    let closed = gate.lock();
    let refused = thread::scope(|scope| {
        let start = |_| thread::Builder::new().spawn_scoped(scope, || drop(gate.lock())).err();
        let refused = (running..needed).find_map(start);
        drop(closed);
        refused
    });
    match refused {
        None => Check::good(name, "as many as a run needs"),
        Some(error) => Check::bad(
            name,
            Severity::Missing,
            format!("refused ({error})"),
            format!("a run on {} needs {needed}", cores(shards)),
            CURE_FOR_NO_THREAD,
        ),
    }
}

fn check_cores(allowed: &[usize], online: usize, topology: &Topology) -> Check {
    let name = "allowed cores";
    let mut found = format!("{} of {online} online", list(allowed));
    let efficiency = allowed.iter().copied().filter(|core| topology.is_efficiency(*core));
    let efficiency: Vec<usize> = efficiency.collect();
    if !efficiency.is_empty() {
        let _ = write!(found, ", efficiency cores {}", list(&efficiency));
    }
    let (what, cure) = match allowed {
        [_] => ("core", "allow a second core, or measure a remote target"),
        [first, rest @ ..] if rest.iter().all(|core| topology.are_siblings(*first, *core)) => {
            ("physical core", "allow a second physical core, or measure a remote target")
        }
        _ => return Check::good(name, found),
    };
    let cause =
        format!("the shard shares its {what} with everything else here, a local target included");
    Check::bad(name, Severity::Warning, found, cause, cure)
}

fn list(cores: &[usize]) -> CoreList {
    CoreList::new(cores.to_vec())
}

/// Names the hardware threads that share a physical core with a run's shards: a local target may
/// run there, and with `--cores` other shards.
fn check_siblings(topology: &Topology, used: &[usize]) -> Check {
    let found = listed("siblings", siblings(&topology.physical_cores()));
    let of_used = used.iter().flat_map(|core| topology.siblings(*core).unwrap_or_default());
    let mut shared: Vec<usize> = of_used.copied().filter(|core| !used.contains(core)).collect();
    shared.sort_unstable();
    if shared.is_empty() {
        return found;
    }
    Check {
        cause: Some(format!("what runs on {} slows the shards of a run", list(&shared))),
        cure: Some(
            "keep the target and other programs off these, or do without them: \
             echo off > /sys/devices/system/cpu/smt/control"
                .to_owned(),
        ),
        ..found
    }
}

/// A good finding; unknown if /sys lists nothing.
fn listed(name: &'static str, found: Option<String>) -> Check {
    found.map_or(Check::unknown(name, "/sys doesn't list them"), |found| Check::good(name, found))
}

/// The hardware threads that share a physical core; pairs whose numbers ascend in step form one
/// entry.
fn siblings(physical_cores: &[&[usize]]) -> Option<String> {
    if physical_cores.is_empty() {
        return None;
    }
    if physical_cores.iter().all(|threads| threads.len() == 1) {
        return Some("none: one hardware thread per physical core".to_owned());
    }
    let rises = |one: &&[usize], next: &&[usize]| {
        one.len() == next.len()
            && one.len() <= 2
            && std::iter::zip(*one, *next).all(|(one, next)| one + 1 == *next)
    };
    let entry = |row: &[&[usize]]| {
        let nth = |at: usize| list(&row.iter().map(|threads| threads[at]).collect::<Vec<_>>());
        match row {
            [[first, rest @ ..]] if 1 < rest.len() => format!("{first} with {}", list(rest)),
            [[_], ..] => format!("{} alone", nth(0)),
            _ => format!("{} with {}", nth(0), nth(1)),
        }
    };
    Some(physical_cores.chunk_by(rises).map(entry).collect::<Vec<_>>().join(", "))
}

fn nodes(nodes: &[(usize, Vec<usize>)]) -> Option<String> {
    let entry = |(node, cores): &(usize, Vec<usize>)| format!("{node} with cores {}", list(cores));
    (!nodes.is_empty()).then(|| nodes.iter().map(entry).collect::<Vec<_>>().join("; "))
}

fn interrupt_cores(interfaces: &[(String, Attachment)]) -> Option<String> {
    let entry = |(name, attachment): &(String, Attachment)| {
        let cores = list(attachment.interrupt_cores.as_deref().unwrap_or_default());
        let node = attachment.node.map_or(String::new(), |node| format!(" on node {node}"));
        format!("{cores} for {name}{node}")
    };
    (!interfaces.is_empty()).then(|| interfaces.iter().map(entry).collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_ring_is_explained_by_its_cause() {
        let error = std::io::Error::from_raw_os_error;
        let seccomp = "Name:\tx\nSeccomp:\t2\n";
        for (errno, disabled, status, word) in [
            (libc::EPERM, "2\n", "", "io_uring_disabled is 2"),
            (libc::EPERM, "1\n", "", "io_uring_group"),
            (libc::EPERM, "0\n", seccomp, "seccomp"),
            (libc::ENOSYS, "", seccomp, "seccomp"),
            (libc::ENOSYS, "0\n", "Seccomp:\t0\n", "CONFIG_IO_URING"),
            (libc::ENOMEM, "0", "", "ulimit -l"),
        ] {
            let (cause, cure) = ring_refusal(&error(errno), disabled, status);
            assert!(format!("{cause} {cure}").contains(word), "{errno}: {cause}; {cure}");
        }
    }

    #[test]
    fn siblings_are_shown_as_rows_of_pairs() {
        let pairs: Vec<[usize; 2]> = (0..8).map(|core| [core, core + 8]).collect();
        let pairs: Vec<&[usize]> = pairs.iter().map(<[usize; 2]>::as_slice).collect();
        for (physical, words) in [
            (&pairs[..], "0-7 with 8-15"),
            (&[&[0, 1], &[2, 3], &[4], &[5]], "0 with 1, 2 with 3, 4-5 alone"),
            (&[&[0, 4], &[1, 5], &[2, 7], &[3, 6]], "0-1 with 4-5, 2 with 7, 3 with 6"),
            (&[&[0, 1, 2, 3], &[4, 5, 6, 7]], "0 with 1-3, 4 with 5-7"),
            (&[&[0], &[1]], "none: one hardware thread per physical core"),
        ] {
            assert_eq!(siblings(physical).as_deref(), Some(words));
        }
    }

    #[test]
    fn siblings_of_shards_are_named_if_others_may_run_there() {
        let root = tempfile::tempdir().expect("a folder");
        for (core, siblings) in ["0,2", "1,3", "0,2", "1,3"].iter().enumerate() {
            let folder = root.path().join(format!("sys/devices/system/cpu/cpu{core}/topology"));
            fs::create_dir_all(&folder).expect("folders");
            fs::write(folder.join("thread_siblings_list"), siblings).expect("a file");
        }
        let topology = Topology::read(root.path());
        let shared = check_siblings(&topology, &[1]).to_string();
        assert!(shared.starts_with("siblings: 0-1 with 2-3; what runs on 3 slows"), "{shared}");
        for alone in
            [check_siblings(&topology, &[1, 3]), check_siblings(&Topology::default(), &[1])]
        {
            assert_eq!(alone.cause, None, "{alone}");
        }
    }

    #[test]
    fn nodes_and_interrupts_are_shown_with_their_cores() {
        assert_eq!(
            nodes(&[(0, vec![0, 1, 4, 5]), (1, vec![2, 3])]).as_deref(),
            Some("0 with cores 0-1,4-5; 1 with cores 2-3")
        );
        let attachment = |node, core| Attachment { node, interrupt_cores: Some(vec![core]) };
        assert_eq!(
            interrupt_cores(&[
                ("eth0".to_owned(), attachment(Some(1), 2)),
                ("eth1".to_owned(), attachment(None, 0)),
            ])
            .as_deref(),
            Some("2 for eth0 on node 1; 0 for eth1")
        );
        assert_eq!((siblings(&[]), nodes(&[]), interrupt_cores(&[])), (None, None, None));
    }

    #[test]
    fn a_lone_core_is_shared_with_everything_else() {
        let unknown = Topology::default();
        for (allowed, severity) in [(&[0][..], Severity::Warning), (&[0, 1], Severity::Good)] {
            assert_eq!(check_cores(allowed, 2, &unknown).severity, severity, "{allowed:?}");
        }
    }

    #[test]
    fn this_machine_can_run() {
        assert_eq!(require(1, 0, 1), Ok(()));
    }
}
