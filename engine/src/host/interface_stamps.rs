//! What an interface can stamp: asked of its driver, and whether its hardware stamps what a run
//! receives.
#![expect(unsafe_code, reason = "ioctl takes a pointer")]

use std::ffi::c_void;
use std::fs;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd as _;

use super::check::{Check, Severity};
use super::network::interface_towards;

/// What was checked.
const NAME: &str = "hardware stamps";
/// The command of `SIOCETHTOOL` that asks what can be stamped (`linux/ethtool.h`).
const ETHTOOL_GET_TS_INFO: u32 = 0x41;
/// The bits that say that the hardware stamps what it receives, and that a socket can read it.
const BY_HARDWARE: u32 = libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE;

/// What a driver says of its interface; `None` for what it doesn't know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stamps {
    /// What it offers, bits of `SOF_TIMESTAMPING_*`.
    offered: Option<u32>,
    /// The kinds of packets that its hardware can stamp, a bit for each filter.
    filters: u32,
    /// The filter in use.
    filter: Option<u32>,
}

/// `struct ethtool_ts_info`.
#[derive(Default)]
#[repr(C)]
struct TsInfo {
    command: u32,
    offered: u32,
    clock: i32,
    sends: u32,
    reserved: [u32; 3],
    filters: u32,
    also_reserved: [u32; 3],
}

/// `struct ifreq` with a pointer.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    data: *mut c_void,
    unused: [usize; 2],
}

const _: () = assert!(size_of::<Request>() == 40 && size_of::<TsInfo>() == 44);

impl Stamps {
    /// What the driver of this interface says.
    fn of(interface: &str) -> Stamps {
        let mut info = TsInfo { command: ETHTOOL_GET_TS_INFO, ..TsInfo::default() };
        let known = ask(interface, libc::SIOCETHTOOL, &mut info).is_ok();
        let mut config = libc::hwtstamp_config { flags: 0, tx_type: 0, rx_filter: 0 };
        let configured = ask(interface, libc::SIOCGHWTSTAMP, &mut config).is_ok();
        Stamps {
            offered: known.then_some(info.offered),
            filters: info.filters,
            filter: configured.then_some(config.rx_filter.cast_unsigned()),
        }
    }

    /// Whether the driver says that it doesn't stamp what it sends.
    fn lacks_sends(self) -> bool {
        self.offered.is_some_and(|offered| offered & libc::SOF_TIMESTAMPING_TX_SOFTWARE == 0)
    }

    /// Whether the hardware stamps every packet that this interface receives; if not, why, and the
    /// cure, if there is one.
    fn by_hardware(self, interface: &str) -> Result<(), (String, Option<String>)> {
        let offers = self.offered.is_some_and(|offered| offered & BY_HARDWARE == BY_HARDWARE);
        if interface == "lo" {
            return Err(("the loopback interface has no hardware".to_owned(), None));
        }
        if !offers {
            return Err((format!("{interface} offers none"), None));
        }
        if self.filters & 1 << libc::HWTSTAMP_FILTER_ALL == 0 {
            return Err((format!("{interface} stamps no packets but those of PTP"), None));
        }
        if self.filter != Some(libc::HWTSTAMP_FILTER_ALL) {
            let cure = format!("switch them on, as root: hwtstamp_ctl -i {interface} -r 1");
            return Err((format!("{interface} offers them, and they are off"), Some(cure)));
        }
        Ok(())
    }
}

/// Asks an interface's driver.
fn ask<T>(interface: &str, what: libc::Ioctl, answer: &mut T) -> io::Result<()> {
    let mut request = Request {
        name: [0; libc::IFNAMSIZ],
        data: std::ptr::from_mut(answer).cast(),
        unused: [0; 2],
    };
    // The name ends with a zero.
    let room = &mut request.name[..libc::IFNAMSIZ - 1];
    let name = interface.as_bytes();
    room.get_mut(..name.len()).ok_or(io::ErrorKind::InvalidInput)?.copy_from_slice(name);
    let socket = UdpSocket::bind(("127.0.0.1", 0))?;
    // SAFETY: the request is of the size that the kernel reads, and points to an answer of the type
    // that belongs to `what`; both live until the call returns.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), what, &raw mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Checks that the hardware stamps what comes from this target.
///
/// # Errors
/// The finding where it doesn't.
pub(crate) fn require_hardware_stamps(target: SocketAddr) -> Result<(), Check> {
    let refused = |(why, cure): (String, Option<String>)| {
        let cure = cure.unwrap_or_else(|| "use --stamps kernel".to_owned());
        let cause = "only hardware can say when a response reached the interface";
        Check::bad(NAME, Severity::Missing, why, cause, cure)
    };
    match interface_towards(target) {
        None => {
            Err(refused(("the interface that leads to the target is unknown".to_owned(), None)))
        }
        Some(interface) => Stamps::of(&interface).by_hardware(&interface).map_err(refused),
    }
}

/// Whether the driver of this interface says that it doesn't stamp what it sends.
pub(super) fn lacks_send_stamps(interface: &str) -> bool {
    Stamps::of(interface).lacks_sends()
}

/// What the hardware of each interface stamps of what it receives.
pub(super) fn check_hardware_stamps() -> Check {
    let folders = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let mut names: Vec<String> =
        folders.filter_map(|folder| folder.file_name().into_string().ok()).collect();
    names.sort();
    let (mut stamping, mut others) = (Vec::new(), Vec::new());
    for name in &names {
        match Stamps::of(name).by_hardware(name) {
            Ok(()) => stamping.push(name.as_str()),
            Err((why, None)) => others.push(why),
            Err((why, Some(cure))) => others.push(format!("{why}: {cure}")),
        }
    }
    let by =
        if stamping.is_empty() { "none".to_owned() } else { format!("by {}", stamping.join(", ")) };
    let others = if others.is_empty() { String::new() } else { format!(": {}", others.join("; ")) };
    Check::good(NAME, by + &others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_interface_that_stamps_every_packet_will_do() {
        const ALL: u32 = 1 << libc::HWTSTAMP_FILTER_ALL;
        /// A filter that lets PTP's events through (`HWTSTAMP_FILTER_PTP_V2_EVENT`).
        const PTP: u32 = 12;
        let offered = Some(BY_HARDWARE | libc::SOF_TIMESTAMPING_TX_SOFTWARE);
        let software =
            Some(libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_TX_SOFTWARE);
        let stamps = |offered, filters, filter| Stamps { offered, filters, filter };
        for (interface, stamps, why) in [
            ("lo", stamps(software, 0, None), Some("the loopback interface has no hardware")),
            ("eth0", Stamps::default(), Some("eth0 offers none")),
            ("eth0", stamps(software, 0, None), Some("eth0 offers none")),
            ("eth0", stamps(offered, 1 << PTP, Some(PTP)), Some("eth0 stamps no packets but")),
            ("eth0", stamps(offered, ALL | 1, Some(0)), Some("they are off: hwtstamp_ctl -i eth0")),
            ("eth0", stamps(offered, ALL | 1, None), Some("they are off: hwtstamp_ctl -i eth0")),
            ("eth0", stamps(offered, ALL | 1, Some(PTP)), Some("they are off: hwtstamp_ctl -i")),
            ("eth0", stamps(offered, ALL | 1, Some(libc::HWTSTAMP_FILTER_ALL)), None),
        ] {
            let found = stamps.by_hardware(interface).err().map(|(found, cure)| match cure {
                None => found,
                Some(cure) => {
                    format!("{found}: {}", cure.trim_start_matches("switch them on, as root: "))
                }
            });
            assert_eq!(found.is_some(), why.is_some(), "{found:?}");
            assert!(found.zip(why).is_none_or(|(found, why)| found.contains(why)), "{why:?}");
        }
    }

    #[test]
    fn the_loopback_stamps_what_it_sends_and_has_no_hardware() {
        let check = require_hardware_stamps(([127, 0, 0, 1], 80).into()).expect_err("no hardware");
        assert_eq!(check.found, "the loopback interface has no hardware");
        assert!(Stamps::of("lo").offered.is_some(), "its driver answers");
        assert!(!lacks_send_stamps("lo"));
        let receives = Some(libc::SOF_TIMESTAMPING_RX_SOFTWARE);
        assert!(Stamps { offered: receives, ..Stamps::default() }.lacks_sends());
        assert_eq!(Stamps::of("an interface with a long name"), Stamps::default());
        assert!(check_hardware_stamps().found.contains("the loopback interface has no hardware"));
    }
}
