//! TLS on a shard's connections: handshakes, what they agreed on, and silent closes.

use derive_more::AddAssign;
use serde::{Deserialize, Serialize};

use crate::counts::{CountsBy, Key};

/// Counts of handshakes and closes, from setup to drain.
#[derive(AddAssign, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsCounts {
    /// Handshakes with a new key exchange and the target's certificate.
    pub full: u64,
    /// Handshakes that resumed the session of an earlier connection.
    pub resumed: u64,
    /// Connections that the target closed without a close_notify.
    pub truncated: u64,
    /// Of the answered in the window, those whose response came in one receive with the target's
    /// close_notify and so has the stamp of that.
    pub ended_together: u64,
    /// Time the shards spent on handshakes in the window, outside the kernel, ns.
    pub handshake_work_ns: u64,
    /// The parameters that handshakes agreed on.
    pub agreed: CountsBy<Agreed>,
}

impl TlsCounts {
    /// Empty, with all memory for counting allocated.
    pub fn preallocated() -> TlsCounts {
        TlsCounts { agreed: CountsBy::preallocated(), ..TlsCounts::default() }
    }

    /// A handshake is done; `resumed` if it resumed a session.
    pub fn shook_hands(&mut self, agreed: Agreed, resumed: bool) {
        *(if resumed { &mut self.resumed } else { &mut self.full }) += 1;
        self.agreed.add(agreed);
    }
}

/// The parameters of a handshake, by the numbers of IANA's registries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Agreed {
    /// The TLS version.
    pub version: u16,
    /// The cipher suite.
    pub cipher: u16,
    /// The key exchange group; 0 for none, in a resumed TLS 1.2 session.
    pub group: u16,
}

impl Key for Agreed {
    const WHAT: &'static str = "agreement";
    const MAX: usize = 64;

    fn name(&self) -> String {
        format!("{:04x}-{:04x}-{:04x}", self.version, self.cipher, self.group)
    }

    fn from_name(name: &str) -> Option<Agreed> {
        let mut numbers = name.split('-').map(|number| u16::from_str_radix(number, 16).ok());
        let mut next = || numbers.next().flatten();
        let agreed = Agreed { version: next()?, cipher: next()?, group: next()? };
        Some(agreed).filter(|agreed| agreed.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_agreement_leads_back_to_it() {
        let agreed = Agreed { version: 0x0304, cipher: 0x1302, group: 0x001d };
        assert_eq!(agreed.name(), "0304-1302-001d");
        assert_eq!(Agreed::from_name("0304-1302-001d"), Some(agreed));
        for name in ["", "0304-1302", "0304-1302-1d", "0304-1302-001d-0000"] {
            assert_eq!(Agreed::from_name(name), None, "{name}");
        }
    }
}
