//! What this machine offers a run, and what it lacks: each finding with its cause and its cure.
//!
//! The same checks stand before a run and in the examination that a user asks for, so both speak with the same words.

pub mod cgroup;
pub mod limits;
pub mod network;
pub mod ports;
pub mod processor;

use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use rustix::system::uname;

use self::limits::{check_files, check_memlock, examine_memlock};
use self::ports::port_range;
use self::processor::CpuInfo;

use crate::placement;
use crate::report::Environment;
use crate::ring::{Ring, RingConfig};
use crate::units::CoreList;

/// How a finding bears on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// As it should be.
    Good,
    /// A run can start; its numbers may suffer.
    Warning,
    /// A run can't start.
    Missing,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// How it bears on a run.
    pub state: State,
    /// What was found.
    pub found: String,
    /// Why that is a problem; `None` when it is none.
    pub cause: Option<String>,
    /// What to do about it; `None` when there is nothing to do.
    pub cure: Option<String>,
}

impl Check {
    fn good(name: &'static str, found: impl Into<String>) -> Check {
        Check { name, state: State::Good, found: found.into(), cause: None, cure: None }
    }

    fn bad(
        name: &'static str,
        state: State,
        found: impl Into<String>,
        cause: impl Into<String>,
        cure: impl Into<String>,
    ) -> Check {
        Check {
            name,
            state,
            found: found.into(),
            cause: Some(cause.into()),
            cure: Some(cure.into()),
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.found)?;
        if let Some(cause) = &self.cause {
            write!(f, "; {cause}")?;
        }
        if let Some(cure) = &self.cure {
            write!(f, "; {cure}")?;
        }
        Ok(())
    }
}

/// The oldest kernel with all that the request path needs: deferred task work and multishot receives.
const KERNEL_MIN: (u32, u32) = (6, 1);
/// Ephemeral ports below which connections to one address may run out.
const PORTS_FEW: u64 = 4_096;

/// Looks at everything that bears on a run.
pub fn examine() -> Vec<Check> {
    vec![
        check_kernel(),
        // Before a ring is built, since it raises the limit.
        examine_memlock(),
        check_ring(),
        check_files(1, 1),
        check_ports(),
        check_cores(),
        check_governor(),
        check_clock_source(),
    ]
}

/// The first thing that a run of `conns` connections on `shards` shards can't do without.
///
/// # Errors
/// What is missing.
pub fn require(conns: usize, shards: usize) -> Result<(), Check> {
    let missing = |check: &Check| check.state == State::Missing;
    let checks =
        [check_kernel(), check_memlock(conns, shards), check_ring(), check_files(conns, shards)];
    checks.into_iter().find(missing).map_or(Ok(()), Err)
}

/// The kernel's release, such as `6.12.1-amd64`.
pub fn kernel_release() -> String {
    uname().release().to_string_lossy().into_owned()
}

/// The first two numbers of the kernel's release.
fn kernel_version() -> (u32, u32) {
    let release = kernel_release();
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn check_kernel() -> Check {
    let release = kernel_release();
    if kernel_version() < KERNEL_MIN {
        let (major, minor) = KERNEL_MIN;
        let cause = "deferred task work and multishot receives are missing";
        return Check::bad(
            "kernel",
            State::Missing,
            release,
            cause,
            format!("use Linux {major}.{minor} or later"),
        );
    }
    Check::good("kernel", release)
}

fn check_ring() -> Check {
    let name = "io_uring";
    let built = Ring::new(RingConfig {
        sockets_max: 1,
        buffer_size: 64,
        payload: Vec::new(),
        address: None,
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
    Check::bad(name, State::Missing, format!("refused ({error})"), cause, cure)
}

/// Why the kernel refused a ring: EPERM and ENOSYS have several causes, told apart by the sysctl and the process's seccomp.
fn ring_refusal(error: &std::io::Error, disabled: &str, status: &str) -> (String, String) {
    let filtered = status
        .lines()
        .any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2"));
    let (cause, cure) = match (error.raw_os_error(), disabled.trim()) {
        (Some(libc::EPERM), "2") => (
            "the sysctl kernel.io_uring_disabled is 2: nobody may use it",
            "set it to 0: sysctl -w kernel.io_uring_disabled=0",
        ),
        (Some(libc::EPERM), "1") => (
            "the sysctl kernel.io_uring_disabled is 1: only members of kernel.io_uring_group may use it",
            "set it to 0, or join that group",
        ),
        (Some(libc::EPERM | libc::ENOSYS), _) if filtered => (
            "a seccomp filter blocks it, as container runtimes do by default",
            "run outside the container, or allow io_uring_setup, io_uring_enter and io_uring_register in its seccomp profile",
        ),
        (Some(libc::ENOSYS), _) => {
            ("this kernel was built without it", "use a kernel with CONFIG_IO_URING")
        }
        (Some(libc::ENOMEM), _) => (
            "the kernel had no memory for it, or this user's processes hold all that may be locked",
            "end them, or raise the limit, as root: ulimit -l unlimited",
        ),
        (Some(libc::EMFILE | libc::ENFILE), _) => {
            ("no descriptor was left for it", "raise the limit: ulimit -n 65536")
        }
        (Some(libc::EINVAL), _) => {
            ("this kernel lacks a feature that the request path needs", "use Linux 6.1 or later")
        }
        _ => ("the kernel gave no further reason", "look into the kernel's log"),
    };
    (cause.to_owned(), cure.to_owned())
}

fn check_ports() -> Check {
    let name = "ephemeral ports";
    match port_range() {
        Some((first, last)) => {
            let count = last - first + 1;
            let found = format!("{count} ({first} to {last})");
            if count < PORTS_FEW {
                let cause = "connections that close leave their port unusable for a minute, and these are few";
                let cure = "widen it: sysctl -w net.ipv4.ip_local_port_range='1024 65535'";
                return Check::bad(name, State::Warning, found, cause, cure);
            }
            Check::good(name, found)
        }
        None => Check::bad(
            name,
            State::Warning,
            "unknown",
            "the kernel's range can't be read",
            "mount /proc",
        ),
    }
}

fn check_cores() -> Check {
    let allowed = placement::allowed_cores();
    let found =
        format!("{} of {} online", CoreList::new(allowed.clone()), placement::online_cores().len());
    if allowed.len() == 1 {
        let cause = "the shard shares its core with everything else of this machine, a local target included";
        return Check::bad(
            "allowed cores",
            State::Warning,
            found,
            cause,
            "allow a second core, or measure a remote target",
        );
    }
    Check::good("allowed cores", found)
}

fn check_governor() -> Check {
    let name = "frequency governor";
    match processor::governor(placement::allowed_cores()[0]) {
        None => Check::good(name, "none: the hypervisor or the hardware sets the frequency"),
        Some(governor) if governor == "performance" => Check::good(name, governor),
        Some(governor) => Check::bad(
            name,
            State::Warning,
            governor,
            "the cores' frequency follows the load, and latencies with it",
            "set it: cpupower frequency-set -g performance",
        ),
    }
}

fn check_clock_source() -> Check {
    let name = "clock source";
    let source = clock_source();
    match source.as_deref() {
        // These are read without a system call.
        Some("tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page") => {
            Check::good(name, source.unwrap_or_default())
        }
        _ => Check::bad(
            name,
            State::Warning,
            source.unwrap_or_else(|| "unknown".to_owned()),
            "reading the clock may take a system call, and every request reads it several times",
            "boot with clocksource=tsc where the processor's counter is stable",
        ),
    }
}

fn clock_source() -> Option<String> {
    read("/sys/devices/system/clocksource/clocksource0/current_clocksource")
}

/// The text of one of the kernel's files, without the space around it; `None` where there is none or it is empty.
fn read(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The cores in a list of the kernel's, such as `0-3,8`.
fn cores_in(text: &str) -> Option<Vec<usize>> {
    text.parse::<CoreList>().ok().map(|cores| cores.as_slice().to_vec())
}

/// The environment of a run on these cores against `target`, for its report.
pub fn environment(
    cores_used: &[usize],
    ring_features: Vec<String>,
    target: SocketAddr,
) -> Environment {
    let info = CpuInfo::read();
    Environment {
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: format!("{} {}", uname().sysname().to_string_lossy(), kernel_release()),
        kernel_command_line: read("/proc/cmdline").and_then(|text| kernel_parameters(&text)),
        mitigations: processor::mitigations(),
        cpu: info.model(),
        cores_online: placement::online_cores().len(),
        cores_allowed: placement::allowed_cores(),
        cores_used: cores_used.to_vec(),
        cores: processor::cores(cores_used, &info),
        smt: processor::smt(),
        virtualisation: processor::virtualisation(&info),
        control_group: cgroup::control_group(),
        clock_source: clock_source(),
        network: network::network(target),
        open_files: limits::open_files(),
        locked_memory_bytes: limits::locked_memory_bytes(),
        ring_features,
    }
}

/// The kernel's own parameters on its command line. What follows `--` is for the first process and decides no number.
fn kernel_parameters(command_line: &str) -> Option<String> {
    let own: Vec<&str> = command_line.split_whitespace().take_while(|word| *word != "--").collect();
    (!own.is_empty()).then(|| own.join(" "))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_refused_ring_is_explained_by_what_refused_it() {
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
    fn the_first_process_keeps_its_own_words() {
        let words = "root=/dev/sda mitigations=auto,nosmt quiet -- --name x";
        assert_eq!(
            kernel_parameters(words).as_deref(),
            Some("root=/dev/sda mitigations=auto,nosmt quiet")
        );
        assert_eq!(kernel_parameters("a--b=1").as_deref(), Some("a--b=1"));
        assert_eq!(kernel_parameters("-- secret"), None);
    }

    #[test]
    fn lists_of_cores_are_read() {
        assert_eq!(cores_in("0-2,8"), Some(vec![0, 1, 2, 8]));
        assert_eq!(cores_in("none"), None);
    }

    fn texts<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::String(text) => found.push(text),
            Value::Array(values) => values.iter().for_each(|value| texts(value, found)),
            Value::Object(map) => map.values().for_each(|value| texts(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    #[test]
    fn what_is_not_known_is_null_and_never_an_empty_text() {
        let cores = placement::allowed_cores();
        let target = "127.0.0.1:80".parse().expect("an address");
        let environment = environment(&cores, vec!["x".to_owned()], target);
        let document = serde_json::to_value(&environment).expect("a document");
        let mut found = Vec::new();
        texts(&document, &mut found);
        assert!(found.iter().all(|text| !text.trim().is_empty()), "{document:#}");
        assert_eq!(environment.cores.len(), cores.len());
        let back: Environment = serde_json::from_value(document).expect("comes back");
        assert_eq!(back.mitigations, environment.mitigations);
        assert_eq!(back.network, environment.network);
        assert_eq!(back.open_files, environment.open_files);
    }

    #[test]
    fn this_machine_can_run() {
        assert_eq!(require(1, 1), Ok(()));
    }
}
