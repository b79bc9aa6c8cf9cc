//! Two simulated machines: network namespaces with an address each, joined by a cable.

use std::process::{self, Command, Stdio};

/// The longest headers of a packet without data, bytes: those of IPv4 and TCP with the options of a
/// connection that is being opened.
const HEADERS_MAX: u32 = 60;
/// The name of the rules by which packets are lost.
const LOSS: &str = "loss";

/// Two network namespaces, deleted when this is dropped.
#[derive(Debug)]
pub struct Network {
    /// Their names.
    names: [String; 2],
}

/// Their addresses, from a network reserved for documentation.
const ADDRESSES: [&str; 2] = ["192.0.2.1", "192.0.2.2"];

impl Network {
    /// Makes them.
    ///
    /// # Errors
    /// They can't be made: the user isn't root, `ip` is missing, or the kernel refuses.
    pub fn new() -> Result<Network, String> {
        let name = |side: &str| format!("truetail-{}-{side}", process::id());
        // If a step fails, it is dropped, and its parts are deleted.
        let network = Network { names: [name("client"), name("server")] };
        let [client, server] = &network.names;
        for name in &network.names {
            ip(&["netns", "add", name])?;
        }
        let cable =
            ["link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", server];
        ip(&[&["-n", client.as_str()], &cable[..]].concat())?;
        for (name, address) in network.names.iter().zip(ADDRESSES) {
            ip(&["-n", name, "address", "add", &format!("{address}/30"), "dev", "eth0"])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
            ip(&["-n", name, "link", "set", "eth0", "up"])?;
        }
        Ok(network)
    }

    /// The words before a command that runs on the client's side.
    pub fn client(&self) -> [&str; 4] {
        ["ip", "netns", "exec", &self.names[0]]
    }

    /// The words before a command that runs on the server's side.
    pub fn server(&self) -> [&str; 4] {
        ["ip", "netns", "exec", &self.names[1]]
    }

    /// The server's address.
    pub fn server_address(&self) -> &'static str {
        ADDRESSES[1]
    }

    /// Sets a kernel parameter of IPv4 on the client's side, and returns its new value.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_on_client(&self, parameter: &str, value: &str) -> Result<String, String> {
        let path = format!("/proc/sys/net/ipv4/{parameter}");
        let [ip, netns, exec, name] = self.client();
        let set = "printf %s \"$1\" > \"$2\" && cat \"$2\"";
        run(ip, &[netns, exec, name, "sh", "-c", set, "sh", value, &path])
            .map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// From now on, of the packets that bring the client data, every `nth` is lost: at equal
    /// distances, so that the same number is lost each time, and none twice in a row.
    ///
    /// # Errors
    /// `nft` is missing, or the kernel refuses.
    pub fn lose_every(&self, nth: u32) -> Result<(), String> {
        let with_data = format!("ip protocol tcp meta length > {HEADERS_MAX}");
        let rules = format!(
            "add table ip {LOSS}; \
             add chain ip {LOSS} input {{ type filter hook input priority 0; }}; \
             add rule ip {LOSS} input {with_data} numgen inc mod {nth} == 0 counter drop"
        );
        self.nft(&[&rules]).map(drop)
    }

    /// From now on, none is lost; returns how many were.
    ///
    /// # Errors
    /// The kernel doesn't count them.
    pub fn end_loss(&self) -> Result<u64, String> {
        let text = self.nft(&["list", "table", "ip", LOSS])?;
        self.nft(&["delete", "table", "ip", LOSS])?;
        counted(&text).ok_or_else(|| format!("no count of lost packets: {text}"))
    }

    /// Changes or lists the rules for packets on the client's side.
    fn nft(&self, args: &[&str]) -> Result<String, String> {
        let [ip, netns, exec, name] = self.client();
        run(ip, &[&[netns, exec, name, "nft"], args].concat())
    }

    /// Sockets in TIME_WAIT on the server's side.
    ///
    /// # Errors
    /// The kernel doesn't report it.
    pub fn time_wait_on_server(&self) -> Result<u64, String> {
        let [ip, netns, exec, name] = self.server();
        let text = run(ip, &[netns, exec, name, "cat", "/proc/net/sockstat"])?;
        time_wait(&text).ok_or_else(|| format!("no count of sockets in TIME_WAIT: {text}"))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in &self.names {
            // It doesn't exist if it could not be made.
            let _ = ip(&["netns", "delete", name]);
        }
    }
}

/// The count of TIME_WAIT in the kernel's summary of its sockets.
fn time_wait(sockets: &str) -> Option<u64> {
    let line = sockets.lines().find_map(|line| line.strip_prefix("TCP: "))?;
    let mut words = line.split_whitespace();
    words.find(|word| *word == "tw")?;
    words.next()?.parse().ok()
}

/// The count of packets in a listing of rules of which one counts.
fn counted(rules: &str) -> Option<u64> {
    let mut words = rules.split_whitespace();
    words.find(|word| *word == "packets")?;
    words.next()?.parse().ok()
}

fn ip(args: &[&str]) -> Result<String, String> {
    run("ip", args)
}

/// Runs a program and returns its output.
fn run(program: &str, args: &[&str]) -> Result<String, String> {
    let ended = Command::new(program).args(args).stdin(Stdio::null()).output();
    let output = ended.map_err(|error| format!("`{program}` can't be run: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(format!("`{program} {}`: {why}", args.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_in_time_wait_are_found_by_their_name() {
        let text = "sockets: used 113\nTCP: inuse 5 orphan 1 tw 1204 alloc 8 mem 2\nUDP: inuse 1\n";
        assert_eq!(time_wait(text), Some(1_204));
        assert_eq!(time_wait("TCP: inuse 5\n"), None);
        assert_eq!(time_wait(""), None);
    }

    #[test]
    fn lost_packets_are_counted_by_the_rule() {
        let text = "ip protocol tcp numgen inc mod 50 0 counter packets 162 bytes 39852 drop\n";
        assert_eq!(counted(text), Some(162));
        assert_eq!(counted("table ip loss {\n}\n"), None);
    }

    #[test]
    fn the_machines_are_apart_and_end_with_the_network() {
        let network = match Network::new() {
            Ok(network) => network,
            Err(why) => {
                println!("Skipped: no network namespace can be made: {why}");
                return;
            }
        };
        assert_eq!(network.set_on_client("tcp_tw_reuse", "0").as_deref(), Ok("0"));
        let range = network.set_on_client("ip_local_port_range", "20000 20009");
        assert_eq!(range.as_deref(), Ok("20000 20009"));
        assert!(network.set_on_client("no_such_parameter", "1").is_err());
        assert_eq!(network.time_wait_on_server(), Ok(0));
        match network.lose_every(50) {
            // Two rules at once would lose more.
            Ok(()) => assert_eq!((network.end_loss(), network.lose_every(2)), (Ok(0), Ok(()))),
            Err(why) => println!("Skipped: no packet can be lost: {why}"),
        }
        let names = network.names.clone();
        let known = || ip(&["netns", "list"]).expect("namespaces are listed");
        assert!(names.iter().all(|name| known().contains(name)));
        drop(network);
        assert!(!names.iter().any(|name| known().contains(name)));
    }
}
