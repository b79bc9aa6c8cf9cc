//! A session's keys, and the tags that they give to frames.
//!
//! Each direction has a key of its own, HMAC-SHA256 with the shared key over a label, the version
//! of the protocol and both nonces:
//!
//! ```text
//! HMAC(key, "truetail controller to agent" ‖ version, u16 ‖ controller's nonce ‖ agent's nonce)
//! HMAC(key, "truetail agent to controller" ‖ version, u16 ‖ controller's nonce ‖ agent's nonce)
//! ```
//!
//! A frame's tag is HMAC-SHA256 with its direction's key over the frame up to the tag, which
//! includes its sequence. Without a shared key, the empty one stands in its place: then tags show
//! damage, and frames that belong to another session, and keep nobody out.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::frame::{PROTOCOL, TAG_BYTES};
use crate::key::Key;
use crate::message::Nonce;

/// Which side of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that connects.
    Controller,
    /// The one that listens.
    Agent,
}

/// Both nonces of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nonces {
    pub(crate) controller: Nonce,
    pub(crate) agent: Nonce,
}

/// The keys of one side of a session.
#[derive(Clone)]
pub(crate) struct SessionKeys {
    sends: Hmac<Sha256>,
    receives: Hmac<Sha256>,
}

impl SessionKeys {
    /// Those of `side`.
    pub(crate) fn new(side: Side, key: Option<&Key>, nonces: &Nonces) -> SessionKeys {
        let direction = |label: &[u8]| {
            let mut mac = hmac(key.map_or(&[], Key::as_bytes));
            mac.update(label);
            mac.update(&PROTOCOL.to_le_bytes());
            mac.update(&nonces.controller);
            mac.update(&nonces.agent);
            hmac(&mac.finalize().into_bytes())
        };
        let to_agent = direction(b"truetail controller to agent");
        let to_controller = direction(b"truetail agent to controller");
        match side {
            Side::Controller => SessionKeys { sends: to_agent, receives: to_controller },
            Side::Agent => SessionKeys { sends: to_controller, receives: to_agent },
        }
    }

    /// The tag of a frame that this side sends.
    pub(crate) fn tag(&self, tagged: &[u8]) -> [u8; TAG_BYTES] {
        self.sends.clone().chain_update(tagged).finalize().into_bytes().into()
    }

    /// Whether this is the tag of a frame that the peer sent, compared in constant time.
    pub(crate) fn is_peers(&self, tagged: &[u8], tag: &[u8]) -> bool {
        self.receives.clone().chain_update(tagged).verify_slice(tag).is_ok()
    }
}

fn hmac(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes a key of any length")
}
