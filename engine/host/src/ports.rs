//! Ephemeral ports: the kernel's range, and how many are used by connections to the target.
//!
//! A port is taken per source address, target address and target port. So only sockets to the
//! target count, including other programs', and each source address has the whole range.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::ops::RangeInclusive;

use report::machine::Ports;

use super::check::{Check, Severity};

/// The number of ephemeral ports below which connections to one address may run out.
const PORTS_FEW: u64 = 4_096;

/// The kernel's ephemeral port range, first and last.
pub(super) fn port_range() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut ends = text.split_whitespace().map(str::parse::<u64>);
    let (first, last) = (ends.next()?.ok()?, ends.next()?.ok()?);
    (first <= last).then_some((first, last))
}

/// Checks that the kernel's range isn't narrow.
pub(super) fn check_ports() -> Check {
    let name = "ephemeral ports";
    match port_range() {
        Some((first, last)) => {
            let count = last - first + 1;
            let found = format!("{count} ({first} to {last})");
            if count < PORTS_FEW {
                let cause = "a closed connection keeps its port in TIME_WAIT for a minute, and there are few";
                let cure = "widen it: sysctl -w net.ipv4.ip_local_port_range='1024 65535'";
                return Check::bad(name, Severity::Warning, found, cause, cure);
            }
            Check::good(name, found)
        }
        None => Check::bad(
            name,
            Severity::Warning,
            "unknown",
            "the kernel's range can't be read",
            "mount /proc",
        ),
    }
}

/// The local address of packets to `target`. Connecting a UDP socket looks up the route and sends
/// nothing.
pub(super) fn source_towards(target: SocketAddr) -> Option<IpAddr> {
    let any = match target {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(target).ok()?;
    socket.local_addr().ok().map(|local| local.ip())
}

/// Counts the ports in use towards one target, look by look.
#[derive(Debug)]
pub(super) struct PortCount {
    target: SocketAddr,
    range: RangeInclusive<u64>,
    sources: Vec<SourcePorts>,
    ports: Ports,
    looked: bool,
}

/// One source address, and its ports taken at this look.
#[derive(Debug)]
struct SourcePorts {
    address: IpAddr,
    /// The kernel lists a socket twice if another one appears ahead of it in the meantime.
    seen: HashSet<u16>,
    in_use: u64,
    time_wait: u64,
}

/// Where the kernel lists its TCP sockets, one per line. IPv4 addresses may be in both, mapped in
/// the second.
const SOCKETS: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// The kernel's number for TIME_WAIT.
const TIME_WAIT: &str = "06";

impl PortCount {
    /// Counts towards `target` from `sources`, or from the address that the kernel chooses if none
    /// is given. `None` if the kernel reports neither its range of ports nor that address.
    pub(super) fn new(target: SocketAddr, sources: &[IpAddr]) -> Option<PortCount> {
        let (first, last) = port_range()?;
        let mut sources = sources.to_vec();
        // The unspecified address leaves the choice to the kernel as well.
        if sources.is_empty() || sources.iter().any(IpAddr::is_unspecified) {
            sources.retain(|source| !source.is_unspecified());
            sources.push(source_towards(target)?);
        }
        Some(PortCount::within(first..=last, target, sources))
    }

    fn within(
        range: RangeInclusive<u64>,
        target: SocketAddr,
        mut sources: Vec<IpAddr>,
    ) -> PortCount {
        sources.sort_unstable();
        sources.dedup();
        let size = range.end() - range.start() + 1;
        let of = |address: &IpAddr| SourcePorts {
            address: address.to_canonical(),
            seen: HashSet::new(),
            in_use: 0,
            time_wait: 0,
        };
        PortCount {
            target: SocketAddr::new(target.ip().to_canonical(), target.port()),
            ports: Ports {
                range: size,
                sources: sources.len() as u64,
                headroom: size,
                ..Ports::default()
            },
            sources: sources.iter().map(of).collect(),
            range,
            looked: false,
        }
    }

    /// Counts the ports taken now. Costs one to two microseconds for each TCP socket of this
    /// network namespace.
    pub(super) fn look(&mut self) {
        for file in SOCKETS {
            if let Ok(file) = File::open(file) {
                self.count(BufReader::new(file));
                self.looked = true;
            }
        }
        self.sum_up();
    }

    /// What the looks found; `None` if there was none, or the kernel doesn't list its sockets.
    pub(super) fn ports(self) -> Option<Ports> {
        self.looked.then_some(self.ports)
    }

    fn count(&mut self, mut lines: impl BufRead) {
        // One line buffer for all: a list may have tens of thousands.
        let mut line = String::new();
        while lines.read_line(&mut line).is_ok_and(|length| 0 < length) {
            self.count_line(&line);
            line.clear();
        }
    }

    /// Counts a line in the kernel's format: number, local address, remote address, state, and
    /// more.
    fn count_line(&mut self, line: &str) -> Option<()> {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (local, remote, state) = (words.next()?, words.next()?, words.next()?);
        let (remote, remote_port) = remote.split_once(':')?;
        if port(remote_port)? != self.target.port() || !self.is_target(address(remote)?) {
            return None;
        }
        let (local, local_port) = local.split_once(':')?;
        let local_port = port(local_port)?;
        if !self.range.contains(&u64::from(local_port)) {
            return None;
        }
        let local = address(local)?;
        let source = self.sources.iter_mut().find(|source| source.address == local)?;
        if !source.seen.insert(local_port) {
            return None;
        }
        let taken = if state == TIME_WAIT { &mut source.time_wait } else { &mut source.in_use };
        *taken += 1;
        Some(())
    }

    /// True if a socket's remote address is the target's. A connection to the unspecified address
    /// reaches one of this machine's own, which is then listed.
    fn is_target(&self, remote: IpAddr) -> bool {
        remote == self.target.ip() || self.target.ip().is_unspecified()
    }

    fn sum_up(&mut self) {
        let ports = &mut self.ports;
        let (mut in_use, mut time_wait) = (0, 0);
        for source in &mut self.sources {
            let left = ports.range.saturating_sub(source.in_use + source.time_wait);
            ports.headroom = ports.headroom.min(left);
            in_use += source.in_use;
            time_wait += source.time_wait;
            (source.in_use, source.time_wait) = (0, 0);
            source.seen.clear();
        }
        ports.in_use_max = ports.in_use_max.max(in_use);
        ports.time_wait_max = ports.time_wait_max.max(time_wait);
    }
}

fn port(digits: &str) -> Option<u16> {
    u16::from_str_radix(digits, 16).ok()
}

/// Parses an address from the kernel's list: in words of 32 bits, whose bytes are in network order
/// and which are printed as this machine's numbers.
fn address(digits: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let digits = digits.get(at..at + 8)?;
        u32::from_str_radix(digits, 16).ok().map(u32::to_ne_bytes)
    };
    match digits.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let mut bytes = [0; 16];
            for (at, four) in bytes.chunks_exact_mut(4).enumerate() {
                four.copy_from_slice(&word(at * 8)?);
            }
            Some(IpAddr::from(Ipv6Addr::from(bytes)).to_canonical())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An address and a port in the kernel's form.
    fn listed(text: &str) -> String {
        let text: SocketAddr = text.parse().expect("an address");
        let bytes = match text.ip() {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        let words: String = bytes
            .chunks(4)
            .map(|four| format!("{:08X}", u32::from_ne_bytes(four.try_into().expect("four"))))
            .collect();
        format!("{words}:{:04X}", text.port())
    }

    /// The kernel's list of these sockets, each with local address, remote address and state.
    fn list(sockets: &[(&str, &str, &str)]) -> String {
        let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt\n";
        let rows = sockets.iter().enumerate().map(|(at, (local, remote, state))| {
            format!("{at:4}: {} {} {state} 00000000:00000000 03:0\n", listed(local), listed(remote))
        });
        head.to_owned() + &rows.collect::<String>()
    }

    fn look(count: &mut PortCount, text: &str) {
        count.count(text.as_bytes());
        count.looked = true;
        count.sum_up();
    }

    fn counting(target: &str, sources: &[&str]) -> PortCount {
        let sources = sources.iter().map(|text| text.parse().expect("an address")).collect();
        PortCount::within(32_768..=32_867, target.parse().expect("an address"), sources)
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn an_address_is_read_as_the_kernel_writes_it() {
        assert_eq!(listed("127.0.0.1:8080"), "0100007F:1F90");
        for (digits, expected) in [
            ("0100007F", "127.0.0.1"),
            ("00000000000000000000000001000000", "::1"),
            ("B80D0120000000000000000002000000", "2001:db8::2"),
            ("0000000000000000FFFF00000100007F", "127.0.0.1"),
        ] {
            assert_eq!(address(digits), Some(expected.parse().expect("an address")));
        }
        assert_eq!((address("0100007"), address("0100007G")), (None, None));
    }

    #[test]
    fn only_ports_taken_towards_the_target_count() {
        let mut count = counting("127.0.0.1:8080", &["127.0.0.1"]);
        let text = list(&[
            ("127.0.0.1:8080", "0.0.0.0:0", "0A"),
            ("127.0.0.1:32768", "127.0.0.1:8080", "01"),
            ("127.0.0.1:8080", "127.0.0.1:32768", "01"),
            ("127.0.0.1:32769", "127.0.0.1:8080", "06"),
            ("127.0.0.1:32770", "127.0.0.1:8080", "06"),
            ("127.0.0.1:32771", "127.0.0.1:8081", "01"),
            ("127.0.0.1:32772", "127.0.0.2:8080", "01"),
            ("127.0.0.9:32773", "127.0.0.1:8080", "01"),
            ("127.0.0.1:32868", "127.0.0.1:8080", "01"),
        ]);
        look(&mut count, &text);
        let expected =
            Ports { range: 100, sources: 1, in_use_max: 1, time_wait_max: 2, headroom: 97 };
        assert_eq!(count.ports(), Some(expected));
    }

    #[test]
    fn the_headroom_is_that_of_the_fullest_source_at_its_fullest() {
        let mut count = counting("127.0.0.1:80", &["127.0.0.2", "127.0.0.3", "127.0.0.2"]);
        let from = |last: &str, state: &str, sockets: u16| -> String {
            let local = (0..sockets).map(|at| format!("127.0.0.{last}:{}", 32_768 + at));
            let local: Vec<String> = local.collect();
            let rows: Vec<_> =
                local.iter().map(|local| (local.as_str(), "127.0.0.1:80", state)).collect();
            list(&rows)
        };
        look(&mut count, &(from("2", "01", 10) + &from("3", "01", 30)));
        look(&mut count, &(from("2", "06", 25) + &from("3", "06", 5)));
        look(&mut count, "");
        let expected =
            Ports { range: 100, sources: 2, in_use_max: 40, time_wait_max: 30, headroom: 70 };
        assert_eq!(count.ports(), Some(expected));
    }

    #[test]
    fn a_socket_that_is_listed_twice_counts_once() {
        let mut count = counting("127.0.0.1:80", &["127.0.0.1"]);
        let twice = ("127.0.0.1:32768", "127.0.0.1:80", "01");
        let text = list(&[twice, ("127.0.0.1:32769", "127.0.0.1:80", "01"), twice]);
        look(&mut count, &text);
        assert_eq!(count.ports().map(|ports| ports.in_use_max), Some(2));
    }

    #[test]
    fn targets_of_every_kind_are_found() {
        for (target, source, local, remote) in [
            ("[::1]:80", "::1", "[::1]:32768", "[::1]:80"),
            ("127.0.0.1:80", "127.0.0.1", "[::ffff:127.0.0.1]:32768", "[::ffff:127.0.0.1]:80"),
            ("[::ffff:127.0.0.1]:80", "::ffff:127.0.0.1", "127.0.0.1:32768", "127.0.0.1:80"),
            ("0.0.0.0:80", "127.0.0.1", "127.0.0.1:32768", "127.0.0.1:80"),
        ] {
            let mut count = counting(target, &[source]);
            look(&mut count, &list(&[(local, remote, "01")]));
            assert_eq!(count.ports().map(|ports| ports.in_use_max), Some(1), "{target}");
        }
    }

    #[test]
    fn connections_of_this_process_are_counted() {
        // An address that no other program connects to. A machine may lack IPv6.
        for address in ["127.77.0.1:0", "[::1]:0"] {
            let Ok(listener) = std::net::TcpListener::bind(address) else { continue };
            let target = listener.local_addr().expect("bound");
            let streams: Vec<_> = (0..3).map(|_| std::net::TcpStream::connect(target)).collect();
            assert!(streams.iter().all(Result::is_ok), "{streams:?}");
            let mut count = PortCount::new(target, &[]).expect("a range and a way");
            count.look();
            let ports = count.ports().expect("the kernel lists its sockets");
            assert_eq!((ports.sources, ports.in_use_max), (1, 3));
            assert!(ports.headroom <= ports.range - 3, "{ports:?}");
        }
    }

    #[test]
    fn without_a_look_nothing_is_known() {
        assert_eq!(counting("127.0.0.1:80", &["127.0.0.1"]).ports(), None);
    }
}
