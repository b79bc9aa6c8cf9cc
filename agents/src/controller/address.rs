//! Where agents are: named one by one, or all addresses behind one name.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::str::FromStr;

use crate::agent::PORT;

/// An agent's address as the user wrote it, in lower case, which is also the agent's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgentAddress {
    text: String,
}

/// Not an agent's address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid address `{0}`: give HOST or HOST:PORT, e.g. 10.0.0.7:7070")]
pub struct InvalidAddress(String);

impl FromStr for AgentAddress {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<AgentAddress, InvalidAddress> {
        let invalid = || InvalidAddress(text.to_owned());
        // An IPv6 address has colons, and brackets around it.
        let has_port = text.contains(':') && !text.ends_with(']');
        let whole = if has_port { text.to_owned() } else { format!("{text}:{PORT}") };
        let (host, port) = whole.rsplit_once(':').ok_or_else(invalid)?;
        let is_name = |host: &str| {
            !host.is_empty()
                && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        };
        let is_host = is_name(host) || whole.parse::<SocketAddr>().is_ok();
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        match port.parse::<u16>() {
            // One agent has one name, however its address is written.
            Ok(port) if port != 0 && is_number && is_host => {
                Ok(AgentAddress { text: format!("{}:{port}", host.to_ascii_lowercase()) })
            }
            _ => Err(invalid()),
        }
    }
}

impl fmt::Display for AgentAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl AgentAddress {
    /// Resolves its name, which may take seconds.
    ///
    /// # Errors
    /// The resolver's.
    pub fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        Ok(self.text.to_socket_addrs()?.collect())
    }

    /// The agents behind this name, one for each of its addresses, in order. Resolving may take
    /// seconds.
    ///
    /// # Errors
    /// The resolver's.
    pub fn behind(&self) -> io::Result<Vec<AgentAddress>> {
        let mut addresses = self.resolve()?;
        addresses.sort_unstable();
        addresses.dedup();
        let named = |address: &SocketAddr| AgentAddress { text: address.to_string() };
        Ok(addresses.iter().map(named).collect())
    }

    /// The name of the file with the agent's raw samples.
    pub fn sample_file(&self) -> String {
        let plain = |char: char| char.is_ascii_alphanumeric() || ".-".contains(char);
        let stem: String =
            self.text.chars().map(|char| if plain(char) { char } else { '_' }).collect();
        format!("{stem}.bin")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for (text, file) in [
            ("host1:7070", "host1_7070.bin"),
            ("agent-0.agents.test:1", "agent-0.agents.test_1.bin"),
            ("10.0.0.7:7070", "10.0.0.7_7070.bin"),
            ("[::1]:65535", "___1__65535.bin"),
        ] {
            let address: AgentAddress = text.parse().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((address.to_string(), address.sample_file()), (text.into(), file.into()));
        }
        for (text, whole) in
            [("Host1:07070", "host1:7070"), ("host1", "host1:7070"), ("[::1]", "[::1]:7070")]
        {
            let written: AgentAddress = text.parse().expect("an address");
            assert_eq!(written.to_string(), whole);
        }
        for text in [
            "h:+1",
            "",
            "::1",
            "[host]",
            "[::1",
            ":7070",
            "host:",
            "host:0",
            "host:70707",
            "::1:7070",
            "a b:1",
            "u@h:1",
        ] {
            assert_eq!(text.parse::<AgentAddress>(), Err(InvalidAddress(text.to_owned())));
        }
    }

    #[test]
    fn each_address_behind_a_name_is_an_agent() {
        let one: AgentAddress = "127.0.0.1:7070".parse().expect("an address");
        assert_eq!(one.behind().expect("it resolves"), [one]);
    }
}
