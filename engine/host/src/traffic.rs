//! Network traffic in the window, by the kernel's own counters: bytes and drops of the interface
//! that leads to the target; TCP retransmissions, and connections that a listener had no room for.

use std::fs;
use std::path::Path;

use report::machine::{InterfaceTraffic, TcpCounts};
use sys::kernel_files::read;

/// The counters at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traffic {
    interface: Option<Passed>,
    tcp: Option<TcpCounts>,
}

/// The traffic of an interface so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Passed {
    received_bytes: u64,
    sent_bytes: u64,
    dropped: u64,
}

impl Traffic {
    /// Reads the counters now, for this interface if it is known.
    pub(super) fn read(interface: Option<&str>) -> Traffic {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        Traffic {
            interface: interface.and_then(|name| passed(&text("/proc/net/dev"), name)),
            tcp: tcp(&text("/proc/net/snmp"), &text("/proc/net/netstat")),
        }
    }

    /// The traffic of this interface since `before`; `None` if unknown.
    pub(super) fn interface_since(&self, before: &Traffic, name: &str) -> Option<InterfaceTraffic> {
        let (now, before) = (self.interface?, before.interface?);
        Some(InterfaceTraffic {
            name: name.to_owned(),
            speed_mbit: speed_mbit(&Path::new("/sys/class/net").join(name)),
            received_bytes: now.received_bytes.saturating_sub(before.received_bytes),
            sent_bytes: now.sent_bytes.saturating_sub(before.sent_bytes),
            dropped: now.dropped.saturating_sub(before.dropped),
        })
    }

    /// The TCP counters since `before`; `None` if unknown.
    pub(super) fn tcp_since(&self, before: &Traffic) -> Option<TcpCounts> {
        let (now, before) = (self.tcp?, before.tcp?);
        let since = |of: fn(&TcpCounts) -> u64| of(&now).saturating_sub(of(&before));
        Some(TcpCounts {
            segments_sent: since(|counts| counts.segments_sent),
            retransmitted: since(|counts| counts.retransmitted),
            listen_overflows: since(|counts| counts.listen_overflows),
            listen_drops: since(|counts| counts.listen_drops),
        })
    }
}

/// The speed of the interface that the kernel describes in this folder. A virtual one, such as
/// veth, has no device, and its stated speed limits nothing.
fn speed_mbit(interface: &Path) -> Option<u64> {
    let speed = read(interface.join("speed")).filter(|_| interface.join("device").exists())?;
    // An unknown speed is -1.
    speed.parse().ok().filter(|mbit| 0 < *mbit)
}

/// Parses an interface's line in `/proc/net/dev`: eight numbers for receiving, then eight for
/// sending; in each the first is bytes, and the fourth drops.
fn passed(text: &str, name: &str) -> Option<Passed> {
    let of_line = |line: &str| {
        let (known, numbers) = line.split_once(':')?;
        let numbers: Vec<u64> =
            numbers.split_whitespace().map_while(|word| word.parse().ok()).collect();
        (known.trim() == name).then_some(Passed {
            received_bytes: *numbers.first()?,
            sent_bytes: *numbers.get(8)?,
            dropped: numbers.get(3)? + numbers.get(11)?,
        })
    };
    text.lines().find_map(of_line)
}

/// The TCP counters, by name, from the kernel's two tables.
fn tcp(snmp: &str, netstat: &str) -> Option<TcpCounts> {
    Some(TcpCounts {
        segments_sent: named(snmp, "Tcp:", "OutSegs")?,
        retransmitted: named(snmp, "Tcp:", "RetransSegs")?,
        listen_overflows: named(netstat, "TcpExt:", "ListenOverflows")?,
        listen_drops: named(netstat, "TcpExt:", "ListenDrops")?,
    })
}

/// A number from a table that has a line of names above a line of numbers, both starting with the
/// same word.
fn named(text: &str, table: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with(table));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let at = names.split_whitespace().position(|known| known == name)?;
    numbers.split_whitespace().nth(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn an_interface_has_the_numbers_of_its_own_line() {
        let text = "Inter-|   Receive                            |  Transmit\n \
            face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets\n    \
            lo:     100       2    0    3    0     0          0         0      200       4    \
            0    5    0     0       0          0\n  \
            eth10: 7 0 0 0 0 0 0 0 8 0 0 0 0 0 0 0\n";
        let lo = Passed { received_bytes: 100, sent_bytes: 200, dropped: 8 };
        assert_eq!(passed(text, "lo"), Some(lo));
        assert_eq!(passed(text, "eth10").map(|passed| passed.sent_bytes), Some(8));
        assert_eq!((passed(text, "eth1"), passed("", "lo")), (None, None));
    }

    #[test]
    fn a_speed_counts_only_with_a_device() {
        let folder = tempfile::tempdir().expect("a folder");
        let interface = folder.path();
        fs::write(interface.join("speed"), "10000\n").expect("written");
        assert_eq!(speed_mbit(interface), None);
        fs::create_dir(interface.join("device")).expect("created");
        assert_eq!(speed_mbit(interface), Some(10_000));
        fs::write(interface.join("speed"), "-1\n").expect("written");
        assert_eq!(speed_mbit(interface), None);
    }

    #[test]
    fn tcp_is_counted_by_name() {
        let snmp = "Ip: A OutSegs\nIp: 1 2\nTcp: RtoMin OutSegs RetransSegs\nTcp: 200 70 3\n";
        let netstat = "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 9 4 5\n";
        let counts =
            TcpCounts { segments_sent: 70, retransmitted: 3, listen_overflows: 4, listen_drops: 5 };
        assert_eq!(tcp(snmp, netstat), Some(counts));
        assert_eq!(tcp(snmp, "TcpExt: SyncookiesSent\nTcpExt: 9\n"), None);
    }

    #[test]
    fn what_passes_here_is_counted() {
        let before = Traffic::read(Some("lo"));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let mut stream = TcpStream::connect(address).expect("it listens");
        let (mut peer, _) = listener.accept().expect("a connection");
        stream.write_all(&[7; 10_000]).expect("there is room");
        drop(stream);
        let mut bytes = Vec::new();
        peer.read_to_end(&mut bytes).expect("all of it");
        let now = Traffic::read(Some("lo"));
        let passed = now.interface_since(&before, "lo").expect("the loopback is counted");
        assert_eq!((passed.name.as_str(), passed.speed_mbit), ("lo", None));
        assert!(10_000 <= passed.sent_bytes.min(passed.received_bytes), "{passed:?}");
        let tcp = now.tcp_since(&before).expect("TCP is counted");
        assert!(0 < tcp.segments_sent, "{tcp:?}");
        let nothing = Traffic::read(Some("none such"));
        assert_eq!(nothing.interface_since(&before, "none such"), None);
    }
}
