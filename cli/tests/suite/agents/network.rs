//! The machines of a test: network namespaces with an address each, behind one switch.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::processes::wait_until;

/// Set if the tests must not be skipped.
const NEEDED: &str = "TEST_NAMESPACES_NEEDED";

/// Machines that reach each other over one switch, and nothing else.
pub struct Network {
    /// The switch's namespace; the machines' names derive from it.
    switch: String,
    machines: usize,
}

impl Network {
    /// This many machines, numbered from 0. `None` where no namespace can be made, which is
    /// printed.
    pub fn new(machines: usize) -> Option<Network> {
        static NETWORKS: AtomicUsize = AtomicUsize::new(0);
        let number = NETWORKS.fetch_add(1, Ordering::Relaxed);
        let switch = format!("truetail-{}-{number}", std::process::id());
        if let Err(why) = ip(&["netns", "add", &switch]) {
            assert!(std::env::var_os(NEEDED).is_none(), "no network namespaces: {why}");
            println!("Skipped: no network namespace can be made: {why}");
            return None;
        }
        let network = Network { switch, machines };
        network.connect().unwrap_or_else(|why| panic!("the machines can't be connected: {why}"));
        Some(network)
    }

    fn connect(&self) -> Result<(), String> {
        let switch = self.switch.as_str();
        ip(&["-n", switch, "link", "add", "switch", "type", "bridge"])?;
        ip(&["-n", switch, "link", "set", "switch", "up"])?;
        for machine in 0..self.machines {
            let (name, port) = (self.name(machine), port(machine));
            let address = format!("{}/24", self.address(machine));
            ip(&["netns", "add", &name])?;
            let ends = ["name", &port, "type", "veth", "peer", "name", "eth0", "netns", &name];
            ip(&[&["-n", switch, "link", "add"], &ends[..]].concat())?;
            ip(&["-n", switch, "link", "set", &port, "master", "switch", "up"])?;
            ip(&["-n", &name, "address", "add", &address, "dev", "eth0"])?;
            ip(&["-n", &name, "link", "set", "lo", "up"])?;
            ip(&["-n", &name, "link", "set", "eth0", "up"])?;
        }
        wait_until("the cables carry", || (0..self.machines).all(|machine| self.carries(machine)));
        Ok(())
    }

    /// True if a machine's cable carries, at both ends: the kernel notices that up to seconds later
    /// on a busy machine, and drops what is sent before.
    fn carries(&self, machine: usize) -> bool {
        let shows = |namespace: &str, device: &str, state: &str| {
            let shown = ip(&["-n", namespace, "-d", "-o", "link", "show", device]);
            shown.is_ok_and(|shown| shown.contains(state))
        };
        shows(&self.switch, &port(machine), "state forwarding")
            && shows(&self.name(machine), "eth0", "state UP")
    }

    fn name(&self, machine: usize) -> String {
        assert!(machine < self.machines, "there is a machine {machine}");
        format!("{}-{machine}", self.switch)
    }

    /// The address of a machine.
    pub fn address(&self, machine: usize) -> Ipv4Addr {
        let host = u8::try_from(machine + 1).expect("a few machines");
        Ipv4Addr::new(10, 77, 0, host)
    }

    /// A program on a machine. The process that is started becomes the program.
    pub fn command(&self, machine: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(machine), program]);
        command
    }

    /// Calls this on a machine.
    pub fn within<T: Send>(&self, machine: usize, call: impl FnOnce() -> T + Send) -> T {
        let path = format!("/run/netns/{}", self.name(machine));
        let namespace = File::open(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        thread::scope(|scope| {
            let thread = scope.spawn(move || {
                let network = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(namespace.as_fd(), network).expect("it is ours");
                call()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// From now on, programs that are started on a machine ask this name server.
    pub fn ask(&self, machine: usize, server: IpAddr) {
        let folder = self.configuration(machine);
        let written = fs::create_dir_all(&folder)
            .and_then(|()| fs::write(folder.join("resolv.conf"), format!("nameserver {server}\n")));
        written.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    }

    /// The files that `ip netns exec` puts over those of /etc.
    fn configuration(&self, machine: usize) -> PathBuf {
        Path::new("/etc/netns").join(self.name(machine))
    }

    /// Pulls a machine's cable: nothing reaches it or leaves it, and no side is notified.
    pub fn cut(&self, machine: usize) {
        ip(&["-n", &self.switch, "link", "set", &port(machine), "nomaster"]).expect("a port");
    }

    /// Plugs it in again.
    pub fn restore(&self, machine: usize) {
        let port = port(machine);
        ip(&["-n", &self.switch, "link", "set", &port, "master", "switch"]).expect("a port");
    }
}

fn port(machine: usize) -> String {
    format!("port{machine}")
}

impl Drop for Network {
    fn drop(&mut self) {
        for machine in 0..self.machines {
            // They don't exist if creating them failed, or nothing was written.
            let _ = ip(&["netns", "delete", &self.name(machine)]);
            let _ = fs::remove_dir_all(self.configuration(machine));
        }
        let _ = ip(&["netns", "delete", &self.switch]);
    }
}

/// Runs `ip`; returns what it printed.
fn ip(args: &[&str]) -> Result<String, String> {
    let output = Command::new("ip")
        .args(args)
        .output()
        .map_err(|error| format!("`ip` can't be run ({error}); install iproute2"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(format!("`ip {}`: {why}", args.join(" ")))
}

#[test]
fn machines_reach_each_other_until_a_cable_is_pulled() {
    const SOON: Duration = Duration::from_secs(5);
    let Some(network) = Network::new(2) else { return };
    let listener = network.within(1, || TcpListener::bind((network.address(1), 0)));
    let address = listener.and_then(|listener| Ok((listener.local_addr()?, listener)));
    let (address, _listener) = address.expect("a free port");
    let reaches = |within| network.within(0, || TcpStream::connect_timeout(&address, within));
    assert!(reaches(SOON).is_ok());
    assert!(TcpStream::connect_timeout(&address, SOON).is_err(), "from here there is no way");
    network.cut(1);
    let error = reaches(Duration::from_millis(300)).expect_err("cut");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    network.restore(1);
    assert!(reaches(SOON).is_ok());
}
