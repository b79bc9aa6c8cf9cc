//! The route to the target: this host or another, interface, driver, queues, memory node and
//! interrupts, and the kernel's TCP settings.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use report::environment::Network;
use sys::kernel_files::read;
use sys::topology::Attachment;

use super::ports::{port_range, source_towards};

/// An interface's name and one of its addresses.
type Addressed = (String, IpAddr);

/// The route from this machine to `target`.
pub(super) fn network(target: SocketAddr) -> Network {
    let (here, interface) = route(target);
    let attachment = interface.as_deref().map(Attachment::here).unwrap_or_default();
    let folder = interface.as_ref().map(|name| format!("/sys/class/net/{name}"));
    let queues = folder.as_ref().and_then(|folder| {
        let entries = fs::read_dir(format!("{folder}/queues")).ok()?;
        Some(queues(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok())))
    });
    Network {
        target_on_this_host: here,
        loopback: folder
            .as_ref()
            .and_then(|folder| read(format!("{folder}/type")))
            .map(|kind| is_loopback(&kind)),
        driver: folder
            .as_ref()
            .and_then(|folder| driver(&fs::read_link(format!("{folder}/device/driver")).ok()?)),
        receive_queues: queues.map(|(receive, _)| receive),
        send_queues: queues.map(|(_, send)| send),
        node: attachment.node,
        interrupt_cores: attachment.interrupt_cores,
        congestion_control: read("/proc/sys/net/ipv4/tcp_congestion_control"),
        port_range: port_range().map(|(first, last)| [first, last]),
        tcp_tw_reuse: read("/proc/sys/net/ipv4/tcp_tw_reuse").and_then(|text| text.parse().ok()),
        interface,
    }
}

/// The attachment of the interface that leads to `target`.
pub fn attachment_towards(target: SocketAddr) -> Attachment {
    interface_towards(target).as_deref().map(Attachment::here).unwrap_or_default()
}

/// The interface that leads to `target`.
pub(super) fn interface_towards(target: SocketAddr) -> Option<String> {
    route(target).1
}

/// Whether `target` is on this machine, and the interface that leads to it.
fn route(target: SocketAddr) -> (Option<bool>, Option<String>) {
    let addresses = addresses();
    let here = is_here(target.ip(), &addresses);
    (here, interface(here, source_towards(target), &addresses))
}

/// All addresses of this machine's interfaces; empty if they can't be listed.
fn addresses() -> Vec<Addressed> {
    let listed = if_addrs::get_if_addrs().unwrap_or_default();
    listed
        .into_iter()
        .map(|found| {
            let address = found.ip();
            // A second IPv4 address may carry a label, `eth0:1`, instead of its interface's name.
            let name = found.name.split_once(':').map_or(&*found.name, |(name, _)| name);
            (name.to_owned(), address)
        })
        .collect()
}

/// True if an address belongs to this machine. The unspecified address leads to this machine as
/// well.
fn is_here(target: IpAddr, addresses: &[Addressed]) -> Option<bool> {
    let target = target.to_canonical();
    if target.is_loopback() || target.is_unspecified() {
        return Some(true);
    }
    let listed = addresses.iter().any(|(_, address)| *address == target);
    (!addresses.is_empty()).then_some(listed)
}

/// The interface that leads to the target: the loopback for all addresses of this machine, else the
/// one with the source address.
fn interface(
    here: Option<bool>,
    source: Option<IpAddr>,
    addresses: &[Addressed],
) -> Option<String> {
    let leads = |address: &IpAddr| match here? {
        true => Some(address.is_loopback()),
        false => Some(*address == source?.to_canonical()),
    };
    let found = addresses.iter().find(|(_, address)| leads(address) == Some(true));
    found.map(|(name, _)| name.clone())
}

/// True if the kernel's number for a kind of interface means loopback (`ARPHRD_LOOPBACK` of
/// `linux/if_arp.h`).
fn is_loopback(kind: &str) -> bool {
    kind == "772"
}

/// Receive and send queues by the names of their folders, `rx-0`, `tx-0` and so on.
fn queues(names: impl Iterator<Item = String>) -> (usize, usize) {
    names.fold((0, 0), |(receive, send), name| {
        (
            receive + usize::from(name.starts_with("rx-")),
            send + usize::from(name.starts_with("tx-")),
        )
    })
}

/// The driver's name, the last part of the link to its folder.
fn driver(link: &Path) -> Option<String> {
    link.file_name()?.to_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn machine() -> Vec<Addressed> {
        [
            ("lo", "127.0.0.1"),
            ("eth0", "192.0.2.2"),
            ("eth1", "198.51.100.7"),
            ("lo", "::1"),
            ("eth0", "2001:db8::2"),
        ]
        .map(|(name, text)| (name.to_owned(), address(text)))
        .to_vec()
    }

    #[test]
    fn the_targets_address_shows_whether_it_is_on_this_machine() {
        for (target, here) in [
            ("127.0.0.1", true),
            ("127.9.9.9", true),
            ("::1", true),
            ("0.0.0.0", true),
            ("::ffff:127.0.0.1", true),
            ("::ffff:192.0.2.2", true),
            ("192.0.2.2", true),
            ("2001:db8::2", true),
            ("192.0.2.3", false),
            ("2001:db8::3", false),
        ] {
            assert_eq!(is_here(address(target), &machine()), Some(here), "{target}");
        }
        assert_eq!(is_here(address("192.0.2.2"), &[]), None, "nothing is known");
        assert_eq!(is_here(address("127.0.0.1"), &[]), Some(true));
    }

    #[test]
    fn the_interface_is_that_of_the_source_or_the_loopback() {
        for (here, source, name) in [
            (Some(true), Some("192.0.2.2"), Some("lo")),
            (Some(true), None, Some("lo")),
            (Some(false), Some("198.51.100.7"), Some("eth1")),
            (Some(false), Some("2001:db8::2"), Some("eth0")),
            (Some(false), Some("203.0.113.1"), None),
            (Some(false), None, None),
            (None, Some("192.0.2.2"), None),
        ] {
            let found = interface(here, source.map(address), &machine());
            assert_eq!(found.as_deref(), name, "{here:?} from {source:?}");
        }
    }

    #[test]
    fn queues_are_counted_and_drivers_named() {
        let names = ["rx-0", "rx-1", "tx-0", "other"].map(str::to_owned);
        assert_eq!(queues(names.into_iter()), (2, 1));
        assert_eq!(
            driver(Path::new("../../../bus/virtio/drivers/virtio_net")).as_deref(),
            Some("virtio_net")
        );
        assert!(is_loopback("772") && !is_loopback("1"));
    }

    #[test]
    fn loopback_is_on_this_host() {
        let network = network("127.0.0.1:1".parse().expect("an address"));
        assert_eq!((network.target_on_this_host, network.loopback), (Some(true), Some(true)));
        assert_eq!(network.driver, None, "no card is involved");
    }
}
