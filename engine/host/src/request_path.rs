//! What lies on the path of every request outside this program: connection tracking, packet
//! filters, BPF programs, audit, mitigations, idle states and busy polling.
//!
//! A check warns if what it found is known to cost time, and says how much where that was measured
//! (`perf/README.md`). What may cost some is a good finding with its cure. What only root may see
//! is unknown to others, never guessed.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::{fs, iter};

use socket2::{Domain, Protocol, Socket, Type};
use sys::kernel_files::read;
use sys::lead::LEAD_MIN_NS;

use super::cgroup;
use super::check::{Check, Severity};
use super::processor::mitigations;
use super::stamping;

/// Netlink (`linux/netlink.h`): sizes of headers, flags of a question, and the bits of an
/// attribute's kind that aren't flags.
const MESSAGE_HEADER: usize = 16;
const ATTRIBUTE_HEADER: usize = 4;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_DUMP: u16 = 0x300;
const NLA_TYPE_MASK: u16 = 0x3fff;
/// Asks nftables for its chains (`linux/netfilter/nfnetlink.h`: the subsystem, then its message).
const GET_CHAINS: u16 = 10 << 8 | 4;
/// The longest datagram of a dump.
const DATAGRAM_MAX: usize = 32 * 1024;
/// Attributes of a chain (`linux/netfilter/nf_tables.h`). Only a chain on a hook has the second.
const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_HOOK: u16 = 4;
/// Asks for the state of audit (`linux/audit.h`).
const AUDIT_GET: u16 = 1000;
/// How many connections to try before tracking counts as off: an old entry that expires meanwhile
/// hides a new one.
const TRIES: usize = 3;

/// Checks everything on the path. The cores are those that this process may use.
pub(super) fn check_request_path(cores: &[usize]) -> [Check; 8] {
    [
        tracking(tracked()),
        filters(chains(), ["ip", "ip6"].map(legacy_tables)),
        programs(cgroup::groups("bpf").first().map(|group| &**group)),
        audit(ask(libc::NETLINK_AUDIT, AUDIT_GET, 0, &[])),
        mitigated(&mitigations()),
        idle(read("/sys/devices/system/cpu/cpuidle/current_driver"), deepest(cores)),
        polling(["busy_read", "busy_poll"].map(|name| read(format!("/proc/sys/net/core/{name}")))),
        deferral(deferred()),
    ]
}

/// A good finding that may cost time, and how to change it.
fn costs(name: &'static str, found: impl Into<String>, cause: &str, cure: &str) -> Check {
    let (cause, cure) = (Some(cause.to_owned()), Some(cure.to_owned()));
    Check { cause, cure, ..Check::good(name, found) }
}

/// What was seen of connection tracking.
#[derive(Debug)]
enum Tracking {
    /// The kernel has no table of connections.
    NoTable,
    /// It isn't known whether it has one.
    Hidden,
    /// It has one, but there is no connection that it could take in.
    Unconnected,
    /// It doesn't take in a connection over the loopback.
    Off,
    /// It does, and has this many.
    On(u64),
}

/// A table that isn't empty proves nothing: entries outlive the rules that made them.
fn tracked() -> Tracking {
    let count = || read("/proc/sys/net/netfilter/nf_conntrack_count")?.parse::<u64>().ok();
    if count().is_none() {
        let is_seen = Path::new("/proc/sys/net/core").exists();
        return if is_seen { Tracking::NoTable } else { Tracking::Hidden };
    }
    for _ in 0..TRIES {
        let before = count();
        let Ok(_held) = stamping::pair() else { return Tracking::Unconnected };
        if let Some(after) = count().filter(|after| before < Some(*after)) {
            return Tracking::On(after);
        }
    }
    Tracking::Off
}

fn tracking(tracked: Tracking) -> Check {
    let name = "connection tracking";
    match tracked {
        Tracking::NoTable => Check::good(name, "none: nf_conntrack isn't loaded"),
        Tracking::Hidden => Check::unknown(name, "/proc/sys/net can't be read"),
        Tracking::Unconnected => Check::unknown(name, "this host can't connect to itself"),
        Tracking::Off => Check::good(name, "off: a connection over the loopback isn't tracked"),
        Tracking::On(count) => Check::bad(
            name,
            Severity::Warning,
            format!("on, {count} connections tracked"),
            "the kernel looks up each packet's connection: 15 % more CPU per request on one machine",
            "remove the rules with `ct` or NAT (nft list ruleset, iptables -S), or run in a \
             network namespace without any, where lo is up",
        ),
    }
}

/// The tables of nftables with chains on the path of IP packets, and how many each has.
fn chains() -> io::Result<BTreeMap<String, usize>> {
    // Of every family.
    Ok(hooked(&ask(libc::NETLINK_NETFILTER, GET_CHAINS, NLM_F_DUMP, &[0; 4])?))
}

/// The same from the bodies of the kernel's answer, each a family and the attributes of a chain.
fn hooked(answer: &[Vec<u8>]) -> BTreeMap<String, usize> {
    let mut tables = BTreeMap::new();
    for chain in answer {
        let Some(([family, ..], listed)) = chain.split_first_chunk::<4>() else { continue };
        let family = match i32::from(*family) {
            libc::NFPROTO_INET => "inet",
            libc::NFPROTO_IPV4 => "ip",
            libc::NFPROTO_IPV6 => "ip6",
            libc::NFPROTO_NETDEV => "netdev",
            _ => continue,
        };
        let of = |kind| attributes(listed).find(|(found, _)| *found == kind);
        if let (Some((_, table)), Some(_)) = (of(NFTA_CHAIN_TABLE), of(NFTA_CHAIN_HOOK)) {
            let table = String::from_utf8_lossy(table);
            *tables.entry(format!("{family} {}", table.trim_end_matches('\0'))).or_default() += 1;
        }
    }
    tables
}

/// The tables of legacy iptables, a line each. Without the file, the kernel has none.
fn legacy_tables(family: &str) -> io::Result<String> {
    match fs::read_to_string(format!("/proc/net/{family}_tables_names")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        text => text,
    }
}

fn filters(chains: io::Result<BTreeMap<String, usize>>, legacy: [io::Result<String>; 2]) -> Check {
    let name = "packet filters";
    let [ip, ip6] = legacy;
    let (chains, ip, ip6) = match (chains, ip, ip6) {
        // The kernel has no nftables.
        (Err(error), Ok(ip), Ok(ip6)) if is_lacking(&error) => (BTreeMap::new(), ip, ip6),
        (Ok(chains), Ok(ip), Ok(ip6)) => (chains, ip, ip6),
        (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => {
            return Check::unknown(name, format!("{error}: run doctor as root to see them"));
        }
    };
    let hooks = |(table, count): (&String, &usize)| format!("{table} (hooks: {count})");
    let mut found: Vec<String> = chains.iter().map(hooks).collect();
    found.extend(ip.lines().map(|table| format!("iptables {table}")));
    found.extend(ip6.lines().map(|table| format!("ip6tables {table}")));
    if found.is_empty() {
        return Check::good(name, "none");
    }
    costs(
        name,
        found.join(", "),
        "each packet passes their rules: ten in each of two chains took 13 % more CPU per request, \
         empty chains none that was seen",
        "remove what isn't needed: nft list ruleset, nft delete table; iptables -S, iptables -F",
    )
}

/// True if the kernel was built without what it was asked for.
fn is_lacking(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPROTONOSUPPORT | libc::EINVAL))
}

/// The kernel lists the programs of a group only to a system call that takes `unsafe`.
fn programs(group: Option<&Path>) -> Check {
    let name = "cgroup BPF";
    match group {
        None => Check::unknown(name, "no cgroup2 is mounted"),
        Some(group) => Check {
            cause: Some("each packet passes the programs of its group".to_owned()),
            cure: Some(
                "detach what isn't needed: bpftool cgroup detach GROUP TYPE id N".to_owned(),
            ),
            ..Check::unknown(
                name,
                format!("`bpftool cgroup show {} effective` lists them", group.display()),
            )
        },
    }
}

fn audit(answer: io::Result<Vec<Vec<u8>>>) -> Check {
    let name = "audit";
    let state = match answer {
        Ok(answer) => answer,
        Err(error) if is_lacking(&error) => return Check::good(name, "none in this kernel"),
        Err(error) => return Check::unknown(name, format!("{error}: only root may ask")),
    };
    // The state begins with a mask; what follows is 1 or 2, locked, if audit is enabled.
    match state.first().and_then(|body| body.get(4..)?.first_chunk()) {
        None => Check::unknown(name, "the kernel's answer is too short"),
        Some([0, 0, 0, 0]) => Check::good(name, "off"),
        Some(_) => costs(
            name,
            "on",
            "the kernel prepares a record of each system call, and an open loop makes many, unless \
             `auditctl -l` lists a rule that exempts all tasks",
            "switch it off for what starts from now on: auditctl -a task,never",
        ),
    }
}

fn mitigated(all: &BTreeMap<String, String>) -> Check {
    let name = "CPU mitigations";
    let in_force = all.iter().filter(|(_, how)| how.starts_with("Mitigation"));
    let in_force: Vec<&str> = in_force.map(|(vulnerability, _)| &**vulnerability).collect();
    if all.is_empty() {
        return Check::unknown(name, "/sys/devices/system/cpu/vulnerabilities can't be read");
    }
    if in_force.is_empty() {
        return Check::good(name, "none in force");
    }
    costs(
        name,
        in_force.join(", "),
        "system calls and context switches cost more; how much depends on the CPU",
        "boot with mitigations=off, but only a machine that runs nothing untrusted",
    )
}

/// The name of the deepest idle state that is enabled on one of these cores, and how long a core
/// takes to wake from it, µs.
fn deepest(cores: &[usize]) -> Option<(u64, String)> {
    let states = cores.iter().flat_map(|core| {
        let folder = format!("/sys/devices/system/cpu/cpu{core}/cpuidle/state");
        (0..).map_while(move |state| {
            let of = |file| read(format!("{folder}{state}/{file}"));
            Some((of("latency")?.parse().ok()?, of("name")?, of("disable")?))
        })
    });
    let enabled = states.filter(|(.., disabled)| disabled == "0");
    enabled.map(|(latency_us, name, _)| (latency_us, name)).max()
}

/// How the client's cores are set changes the latencies that are measured, and can turn the
/// conclusion round: Antoniou, Volos and Sazeides, "Taming Performance Variability caused by
/// Client-Side Hardware Configuration", arXiv 2410.11554.
fn idle(driver: Option<String>, deepest: Option<(u64, String)>) -> Check {
    let name = "idle states";
    let (Some(driver), Some((latency_us, state))) = (driver, deepest) else {
        return Check::unknown(name, "the kernel has no driver for them");
    };
    let found = format!("{driver}: {state} wakes within {latency_us} µs");
    let spin_us = LEAD_MIN_NS / 1_000;
    if latency_us <= spin_us {
        return Check::good(name, found);
    }
    Check::bad(
        name,
        Severity::Warning,
        found,
        format!(
            "a sleeping core handles packets this much later, and --wait hybrid, which wakes \
             {spin_us} µs ahead or more, polls longer"
        ),
        format!("keep to states that wake sooner: cpupower idle-set -D {spin_us}"),
    )
}

/// The settings are the host's own: network namespaces have none.
fn polling([read, poll]: [Option<String>; 2]) -> Check {
    let name = "busy polling";
    match (read.as_deref(), poll.as_deref()) {
        (Some("0"), Some("0")) => Check::good(name, "off"),
        (Some(read), Some(poll)) => costs(
            name,
            format!("busy_read {read} µs, busy_poll {poll} µs"),
            "receives that find nothing poll the interface, on the core of who receives",
            "switch it off: sysctl -w net.core.busy_read=0 net.core.busy_poll=0",
        ),
        _ => Check::unknown(name, "this network namespace doesn't show the settings"),
    }
}

/// The interfaces that may hold received packets back, and for how long, ns.
fn deferred() -> io::Result<BTreeMap<String, u64>> {
    let names = fs::read_dir("/sys/class/net")?.flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let held = |name: String| {
        let ns = read(format!("/sys/class/net/{name}/gro_flush_timeout"))?.parse().ok()?;
        Some((name, ns))
    };
    Ok(names.filter_map(held).filter(|(_, ns)| 0 < *ns).collect())
}

fn deferral(held_ns: io::Result<BTreeMap<String, u64>>) -> Check {
    let name = "deferred interrupts";
    let held_ns = match held_ns {
        Ok(held_ns) => held_ns,
        Err(error) => return Check::unknown(name, format!("/sys/class/net: {error}")),
    };
    let Some(first) = held_ns.keys().next() else { return Check::good(name, "none") };
    let each = held_ns.iter().map(|(name, ns)| format!("{name} up to {} µs", *ns as f64 / 1e3));
    Check::bad(
        name,
        Severity::Warning,
        each.collect::<Vec<_>>().join(", "),
        "packets may wait this long (gro_flush_timeout) before their stamp: latencies include it",
        format!("switch it off: echo 0 > /sys/class/net/{first}/gro_flush_timeout"),
    )
}

/// Asks the kernel by netlink: the bodies of its answer.
fn ask(protocol: i32, kind: u16, flags: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let protocol = Some(Protocol::from(protocol));
    let mut socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::DGRAM, protocol)?;
    let length = u32::try_from(MESSAGE_HEADER + body.len()).expect("a short question");
    let header = [kind.to_ne_bytes(), (NLM_F_REQUEST | flags).to_ne_bytes()].concat();
    // Neither a sequence number nor a port: there is one question, to the kernel.
    socket.write_all(&[&length.to_ne_bytes(), &header[..], &[0; 8], body].concat())?;
    let mut bodies = Vec::new();
    let mut datagram = vec![0; DATAGRAM_MAX];
    loop {
        let received = socket.read(&mut datagram)?;
        for (kind, body) in messages(&datagram[..received]) {
            match i32::from(kind) {
                libc::NLMSG_ERROR => return Err(refusal(body)),
                libc::NLMSG_DONE => return Ok(bodies),
                _ => bodies.push(body.to_vec()),
            }
        }
        // Only the answers of a dump have an end.
        if flags == 0 {
            return Ok(bodies);
        }
    }
}

/// The error in the body of a refusal.
fn refusal(body: &[u8]) -> io::Error {
    match body.first_chunk() {
        Some(error) => io::Error::from_raw_os_error(-i32::from_ne_bytes(*error)),
        None => io::ErrorKind::UnexpectedEof.into(),
    }
}

/// Kinds and bodies of messages.
fn messages(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let length =
        |bytes: &[u8]| bytes.first_chunk().map(|field| u32::from_ne_bytes(*field) as usize);
    parts(bytes, MESSAGE_HEADER, 4, length)
}

/// Kinds and values of attributes.
fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let length =
        |bytes: &[u8]| bytes.first_chunk().map(|field| usize::from(u16::from_ne_bytes(*field)));
    let parts = parts(bytes, ATTRIBUTE_HEADER, 2, length);
    parts.map(|(kind, value)| (kind & NLA_TYPE_MASK, value))
}

/// Kinds and contents of parts that begin at multiples of four: each has a header with its length,
/// header included, and at `kind_at` its kind. The rest after a part that is cut off is left out.
fn parts(
    mut bytes: &[u8],
    header: usize,
    kind_at: usize,
    length: impl Fn(&[u8]) -> Option<usize>,
) -> impl Iterator<Item = (u16, &[u8])> {
    iter::from_fn(move || {
        let length = length(bytes)?;
        let kind = u16::from_ne_bytes(*bytes.get(kind_at..)?.first_chunk()?);
        let content = bytes.get(header..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, content))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(check: &Check, severity: Severity) -> String {
        let is_unknown = check.to_string().contains(": unknown");
        let severity = if is_unknown { Severity::Unknown } else { severity };
        assert_eq!(check.severity, severity, "{check}");
        // What may cost something says how to change it.
        assert_eq!(check.cause.is_some(), check.cure.is_some(), "{check}");
        check.to_string()
    }

    /// A part as the kernel writes it, padded.
    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(ATTRIBUTE_HEADER + value.len()).expect("short");
        let mut bytes = [&length.to_ne_bytes(), &kind.to_ne_bytes(), value].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// A chain of a table, with or without a hook.
    fn chain(family: u8, table: &str, hook: bool) -> Vec<u8> {
        let hook = if hook { attribute(0x8000 | NFTA_CHAIN_HOOK, &[8, 0, 1, 0]) } else { vec![] };
        let name = attribute(NFTA_CHAIN_TABLE, format!("{table}\0").as_bytes());
        [vec![family, 0, 0, 0], attribute(3, b"input\0"), name, hook].concat()
    }

    #[test]
    fn a_table_of_connections_counts_if_it_takes_in_a_new_one() {
        assert!(text(&tracking(Tracking::NoTable), Severity::Good).contains("isn't loaded"));
        assert!(text(&tracking(Tracking::Off), Severity::Good).contains(": off"));
        for hidden in [Tracking::Hidden, Tracking::Unconnected] {
            assert_eq!(tracking(hidden).severity, Severity::Unknown);
        }
        let on = text(&tracking(Tracking::On(3)), Severity::Warning);
        assert!(on.contains("on, 3 connections") && on.contains("nft list ruleset"), "{on}");
    }

    #[test]
    fn chains_count_by_table_if_they_are_hooked_into_the_path_of_ip() {
        let answer = [
            chain(1, "filter", true),
            chain(1, "filter", true),
            chain(1, "filter", false),
            chain(2, "nat", true),
            chain(3, "arp", true),
            vec![1],
        ];
        let tables = hooked(&answer);
        let expected = [("inet filter".to_owned(), 2), ("ip nat".to_owned(), 1)];
        assert_eq!(tables, BTreeMap::from(expected));
        let legacy = || [Ok("filter\nraw\n".to_owned()), Ok(String::new())];
        let found = filters(Ok(tables), legacy());
        assert!(
            text(&found, Severity::Good).contains(
                "inet filter (hooks: 2), ip nat (hooks: 1), iptables filter, iptables raw;"
            ),
            "{found}"
        );
    }

    #[test]
    fn filters_that_cant_be_seen_are_unknown_and_those_the_kernel_lacks_are_none() {
        let error = |errno| io::Error::from_raw_os_error(errno);
        let none = || Ok(String::new());
        for (chains, ip, words) in [
            (Ok(BTreeMap::new()), none(), ": none"),
            (Err(error(libc::EPROTONOSUPPORT)), none(), ": none"),
            (Err(error(libc::EINVAL)), none(), ": none"),
            (Err(error(libc::EPERM)), none(), ": unknown, Operation not permitted"),
            (Ok(BTreeMap::new()), Err(error(libc::EACCES)), ": unknown, Permission denied"),
        ] {
            let found = text(&filters(chains, [ip, none()]), Severity::Good);
            assert!(found.contains(words), "{words} isn't in: {found}");
        }
    }

    #[test]
    fn audit_is_what_the_kernel_says() {
        let state = |enabled: u32| [0_u32, enabled, 1, 0].map(u32::to_ne_bytes).concat();
        let error = |errno| Err(io::Error::from_raw_os_error(errno));
        for (answer, words) in [
            (Ok(vec![state(0)]), ": off"),
            (Ok(vec![state(1)]), "auditctl -a task,never"),
            (Ok(vec![state(2)]), "auditctl -a task,never"),
            (Ok(vec![vec![0; 7]]), ": unknown"),
            (error(libc::EPROTONOSUPPORT), ": none in this kernel"),
            (error(libc::EPERM), ": unknown, Operation not permitted"),
        ] {
            let found = text(&audit(answer), Severity::Good);
            assert!(found.contains(words), "{words} isn't in: {found}");
        }
    }

    #[test]
    fn mitigations_are_those_in_force() {
        let all = |texts: &[(&str, &str)]| {
            let owned = texts.iter().map(|(name, how)| ((*name).to_owned(), (*how).to_owned()));
            text(&mitigated(&owned.collect()), Severity::Good)
        };
        let found = all(&[
            ("meltdown", "Mitigation: PTI"),
            ("itlb_multihit", "KVM: Mitigation: VMX disabled"),
            ("mds", "Not affected"),
            ("spec_store_bypass", "Vulnerable"),
            ("spectre_v2", "Mitigation: Retpolines; STIBP: disabled"),
        ]);
        assert!(found.contains(": meltdown, spectre_v2; "), "{found}");
        assert!(found.contains("mitigations=off"), "{found}");
        assert!(all(&[("mds", "Not affected")]).ends_with(": none in force"));
        assert!(all(&[]).contains(": unknown"));
    }

    #[test]
    fn an_idle_state_counts_if_its_wake_up_outlasts_the_spin_before_a_send() {
        let check =
            |us, name: &str| idle(Some("intel_idle".to_owned()), Some((us, name.to_owned())));
        assert!(
            text(&check(50, "C1E"), Severity::Good).ends_with("intel_idle: C1E wakes within 50 µs")
        );
        let deep = text(&check(133, "C6"), Severity::Warning);
        assert!(deep.contains("133 µs") && deep.contains("cpupower idle-set -D 50"), "{deep}");
        assert!(text(&idle(Some("none".to_owned()), None), Severity::Good).contains("unknown"));
    }

    #[test]
    fn polling_is_off_on_or_out_of_sight() {
        let check = |read: Option<&str>, poll: Option<&str>| {
            text(&polling([read, poll].map(|text| text.map(str::to_owned))), Severity::Good)
        };
        assert!(check(Some("0"), Some("0")).ends_with(": off"));
        let on = check(Some("50"), Some("0"));
        assert!(on.contains("busy_read 50 µs") && on.contains("sysctl -w"), "{on}");
        assert!(check(None, None).contains("unknown"));
    }

    #[test]
    fn interfaces_that_hold_packets_back_are_named() {
        assert!(text(&deferral(Ok(BTreeMap::new())), Severity::Good).ends_with(": none"));
        let hidden = deferral(Err(io::ErrorKind::NotFound.into()));
        assert_eq!(hidden.severity, Severity::Unknown);
        let held = [("eth0".to_owned(), 20_000), ("eth1".to_owned(), 500)];
        let found = text(&deferral(Ok(BTreeMap::from(held))), Severity::Warning);
        for words in ["eth0 up to 20 µs, eth1 up to 0.5 µs", "/sys/class/net/eth0/gro_flush"] {
            assert!(found.contains(words), "{words} isn't in: {found}");
        }
    }

    #[test]
    fn messages_are_read_up_to_where_they_are_cut_off() {
        let message = |kind: u16, body: &[u8]| {
            let length = u32::try_from(MESSAGE_HEADER + body.len()).expect("short");
            let kind = [kind.to_ne_bytes(), [0; 2]].concat();
            let mut bytes = [&length.to_ne_bytes(), &kind[..], &[0; 8], body].concat();
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        };
        let two = [message(2_564, b"12345"), message(3, b"")].concat();
        let read =
            |bytes| messages(bytes).map(|(kind, body)| (kind, body.to_vec())).collect::<Vec<_>>();
        assert_eq!(read(&two), [(2_564, b"12345".to_vec()), (3, Vec::new())]);
        assert_eq!(read(&two[..two.len() - 1]).len(), 1);
        assert_eq!(read(&[0; 64]), [], "a length of zero ends it");
        assert_eq!(refusal(&(-libc::EPERM).to_ne_bytes()).raw_os_error(), Some(libc::EPERM));
    }

    #[test]
    fn this_machine_is_examined_without_a_guess() {
        for check in check_request_path(&[0]) {
            assert!(!check.found.is_empty(), "{check}");
        }
    }
}
