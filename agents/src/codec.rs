//! The encoding of payloads: the one file that knows bincode.
//!
//! Integers have variable length, little endian; a sequence of bytes follows its length; an enum is
//! the number of its variant and what that holds. bincode's project has ended (RUSTSEC-2025-0141),
//! so its version is pinned, and a test holds its bytes.

use bincode::config;
use bincode::error::DecodeError;
use serde::{Deserialize, Serialize};

use crate::frame::RESULTS_MAX;

/// Bytes that aren't a message's payload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Undecodable {
    /// They violate the encoding, or a rule of the type.
    #[error("{0}")]
    Malformed(String),
    /// Bytes follow the message.
    #[error("{0} bytes follow the message")]
    Trailing(usize),
}

/// The payload of a value.
pub(crate) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    bincode::serde::encode_to_vec(value, config::standard())
        .expect("memory takes every write, and every type of a message can be encoded")
}

/// The most bytes that a decoded payload may have in memory: a number takes at most eight times the
/// bytes of its encoding. It bounds the length that the name of a count in a shard's results can
/// claim, for which bincode asks for memory before it looks whether the bytes are there.
const DECODED_MAX: usize = 8 * RESULTS_MAX;

/// Decodes a whole payload.
///
/// Text and bytes of a message are borrowed from the payload (`bytes.rs`), and serde allocates at
/// most 1 MiB for a list whose length is only claimed.
///
/// # Errors
/// The bytes aren't such a value, or others follow it.
pub(crate) fn decode<'a, T: Deserialize<'a>>(payload: &'a [u8]) -> Result<T, Undecodable> {
    let config = config::standard().with_limit::<DECODED_MAX>();
    let (value, used) = bincode::serde::borrow_decode_from_slice(payload, config)
        .map_err(|error| Undecodable::Malformed(words(error)))?;
    match payload.len() - used {
        0 => Ok(value),
        trailing => Err(Undecodable::Trailing(trailing)),
    }
}

/// The error as plain text; bincode wraps custom messages in a value of its own.
fn words(error: DecodeError) -> String {
    match error {
        DecodeError::OtherString(said) => said,
        DecodeError::Other(said) => said.to_owned(),
        own => own.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Bytes;

    #[test]
    fn only_a_whole_payload_decodes() {
        let value = (7_u64, Bytes::from(vec![1, 2, 3]), Some(-1_i64));
        let payload = encode(&value);
        assert_eq!(payload, [7, 3, 1, 2, 3, 1, 1]);
        assert_eq!(decode(&payload), Ok(value));
        for len in 0..payload.len() {
            let error = decode::<(u64, Bytes, Option<i64>)>(&payload[..len]);
            assert!(matches!(error, Err(Undecodable::Malformed(_))), "{len} bytes: {error:?}");
        }
        let longer = [payload.as_slice(), &[0, 0]].concat();
        let error = decode::<(u64, Bytes, Option<i64>)>(&longer);
        assert_eq!(error, Err(Undecodable::Trailing(2)));
    }

    #[test]
    fn a_claimed_length_asks_for_no_memory_that_a_message_cannot_need() {
        // Of the names of counts, which the type reads as owned text.
        let huge = [&[1, 0xFD][..], &u64::MAX.to_le_bytes()].concat();
        let error = decode::<std::collections::BTreeMap<String, u64>>(&huge);
        assert!(matches!(error, Err(Undecodable::Malformed(_))), "{error:?}");
    }

    #[test]
    fn errors_are_plain_text() {
        // A histogram has more buckets.
        let error = decode::<engine::shard::CoarseHistogram>(&encode(&Vec::from([1_u64; 3])));
        let Err(Undecodable::Malformed(problem)) = error else { panic!("{error:?}") };
        assert!(!problem.contains(['"', '{']), "{problem}");
    }
}
