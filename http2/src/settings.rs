//! SETTINGS: those that we send, and what the peer's mean (RFC 9113, section 6.5).

use crate::frame::{PAYLOAD_MAX, STREAM_MAX};
use crate::violation::Violation;

/// The window of each stream and of the connection for what we receive, bytes. A stream of 1 GiB
/// needs one update, and a fast target never waits for one.
pub(crate) const RECEIVE_WINDOW: u32 = 1 << 30;

/// The window of a new connection, and of a stream before SETTINGS, bytes (RFC 9113, section
/// 6.9.2).
pub(crate) const WINDOW_BEFORE_SETTINGS: u32 = 65_535;

/// The dynamic table that the peer's encoder may use, bytes: the default. A smaller one would
/// change the target's work.
pub(crate) const TABLE_BYTES: u32 = 4_096;

/// The longest header list that we accept (RFC 9113, section 10.5.1), bytes, with 32 for each
/// field.
pub(crate) const HEADER_LIST_MAX: u32 = 64 * 1024;

/// The length of one setting, bytes.
pub(crate) const SETTING_BYTES: usize = 6;

const HEADER_TABLE_SIZE: u16 = 0x1;
const ENABLE_PUSH: u16 = 0x2;
const MAX_CONCURRENT_STREAMS: u16 = 0x3;
const INITIAL_WINDOW_SIZE: u16 = 0x4;
const MAX_FRAME_SIZE: u16 = 0x5;
const MAX_HEADER_LIST_SIZE: u16 = 0x6;

/// What we send: (identifier, value). No limit of concurrent streams, since it would count pushes,
/// which are off.
pub(crate) const OURS: [(u16, u32); 5] = [
    (HEADER_TABLE_SIZE, TABLE_BYTES),
    (ENABLE_PUSH, 0),
    (INITIAL_WINDOW_SIZE, RECEIVE_WINDOW),
    (MAX_FRAME_SIZE, PAYLOAD_MAX),
    (MAX_HEADER_LIST_SIZE, HEADER_LIST_MAX),
];

/// Appends the payload of [`OURS`].
pub(crate) fn write_ours(out: &mut Vec<u8>) {
    for (id, value) in OURS {
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// The peer's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerSettings {
    /// The dynamic table that our encoder may use, bytes.
    pub header_table_bytes: u32,
    /// How many streams may be open at once; `None` for any number.
    pub streams_max: Option<u32>,
    /// The window of a new stream for what we send, bytes.
    pub initial_window: u32,
    /// The longest payload of a frame that we may send, bytes.
    pub payload_max: u32,
    /// The longest header list that the peer wants; `None` for any length. It is advice: a longer
    /// one is sent, and answered or not.
    pub header_list_max: Option<u32>,
}

impl PeerSettings {
    /// The values before SETTINGS arrive (RFC 9113, section 6.5.2).
    pub(crate) fn initial() -> PeerSettings {
        PeerSettings {
            header_table_bytes: TABLE_BYTES,
            streams_max: None,
            initial_window: WINDOW_BEFORE_SETTINGS,
            payload_max: PAYLOAD_MAX,
            header_list_max: None,
        }
    }

    /// Applies a SETTINGS payload, in its order. Unknown settings are ignored.
    ///
    /// Returns the smallest header table that it named on the way, since an encoder must announce
    /// it even if a later setting enlarges the table again (RFC 7541, section 4.2).
    ///
    /// # Errors
    /// If a value is forbidden.
    pub(crate) fn apply(&mut self, payload: &[u8]) -> Result<Option<u32>, Violation> {
        let mut smallest_table: Option<u32> = None;
        for setting in payload.chunks_exact(SETTING_BYTES) {
            let &[a, b, c, d, e, f] = setting else { unreachable!("a setting has six bytes") };
            let value = u32::from_be_bytes([c, d, e, f]);
            match u16::from_be_bytes([a, b]) {
                HEADER_TABLE_SIZE => {
                    self.header_table_bytes = value;
                    smallest_table = Some(smallest_table.map_or(value, |least| least.min(value)));
                }
                ENABLE_PUSH if value != 0 => return Err(Violation::EnablePush),
                MAX_CONCURRENT_STREAMS => self.streams_max = Some(value),
                INITIAL_WINDOW_SIZE if STREAM_MAX < value => return Err(Violation::InitialWindow),
                INITIAL_WINDOW_SIZE => self.initial_window = value,
                MAX_FRAME_SIZE if !(PAYLOAD_MAX..1 << 24).contains(&value) => {
                    return Err(Violation::MaxFrameSize);
                }
                MAX_FRAME_SIZE => self.payload_max = value,
                MAX_HEADER_LIST_SIZE => self.header_list_max = Some(value),
                _ => {}
            }
        }
        Ok(smallest_table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(settings: &[(u16, u32)]) -> Vec<u8> {
        let bytes =
            |(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
        settings.iter().flat_map(bytes).collect()
    }

    #[test]
    fn settings_apply_in_their_order() {
        let mut peer = PeerSettings::initial();
        let settings = [(1, 100), (1, 0), (1, 8_192), (3, 7), (4, 0), (5, 65_536), (6, 9), (99, 1)];
        assert_eq!(peer.apply(&payload(&settings)), Ok(Some(0)), "the smallest table");
        let expected = PeerSettings {
            header_table_bytes: 8_192,
            streams_max: Some(7),
            initial_window: 0,
            payload_max: 65_536,
            header_list_max: Some(9),
        };
        assert_eq!(peer, expected);
        assert_eq!(peer.apply(&payload(&[(3, 5), (3, 2)])), Ok(None));
        assert_eq!(peer.streams_max, Some(2), "the last one counts");
    }

    #[test]
    fn forbidden_values_are_refused() {
        let check = |id, value| PeerSettings::initial().apply(&payload(&[(id, value)])).err();
        assert_eq!(check(2, 1), Some(Violation::EnablePush));
        assert_eq!(check(2, 0), None);
        assert_eq!(check(4, 0x8000_0000), Some(Violation::InitialWindow));
        assert_eq!(check(4, 0x7fff_ffff), None);
        assert_eq!(check(5, 16_383), Some(Violation::MaxFrameSize));
        assert_eq!(check(5, 1 << 24), Some(Violation::MaxFrameSize));
        assert_eq!(check(5, (1 << 24) - 1), None);
    }
}
