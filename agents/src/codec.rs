//! The encoding of payloads: the one file that knows bincode.
//!
//! Integers have variable length, little endian; a sequence of bytes follows its length; an enum is
//! the number of its variant and what that holds.

use bincode::config::{self, Config};
use bincode::error::DecodeError;
use serde::{Deserialize, Serialize};

use crate::frame::{CONTROL_MAX, OPENING_MAX, RESULTS_MAX, SAMPLES_MAX};

/// What bincode may count above a payload's length: it takes an integer for its full width, however
/// few bytes it has.
const WIDTHS_MAX: usize = 1 << 10;

/// Bytes that aren't the payload of a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Undecodable {
    /// They break the encoding, or a rule of what they hold.
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

/// The value of a whole payload, which has at most `payload_max` bytes.
///
/// It borrows while it decodes, so it allocates nothing for a length that is only claimed.
///
/// # Errors
/// The bytes aren't such a value, or not that alone.
pub(crate) fn decode<'a, T: Deserialize<'a>>(
    payload: &'a [u8],
    payload_max: usize,
) -> Result<T, Undecodable> {
    // bincode takes its limit as a type.
    match payload_max {
        OPENING_MAX => {
            within(payload, config::standard().with_limit::<{ OPENING_MAX + WIDTHS_MAX }>())
        }
        CONTROL_MAX => {
            within(payload, config::standard().with_limit::<{ CONTROL_MAX + WIDTHS_MAX }>())
        }
        SAMPLES_MAX => {
            within(payload, config::standard().with_limit::<{ SAMPLES_MAX + WIDTHS_MAX }>())
        }
        RESULTS_MAX => {
            within(payload, config::standard().with_limit::<{ RESULTS_MAX + WIDTHS_MAX }>())
        }
        other => unreachable!("no message has a limit of {other} bytes"),
    }
}

fn within<'a, T: Deserialize<'a>>(
    payload: &'a [u8],
    config: impl Config,
) -> Result<T, Undecodable> {
    let (value, used) = bincode::serde::borrow_decode_from_slice(payload, config)
        .map_err(|error| Undecodable::Malformed(words(error)))?;
    match payload.len() - used {
        0 => Ok(value),
        trailing => Err(Undecodable::Trailing(trailing)),
    }
}

/// What is wrong with a payload; bincode shows what others said of it as a value of its own.
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
    fn a_payload_comes_back_and_nothing_else_does() {
        let value = (7_u64, Bytes::from(vec![1, 2, 3]), Some(-1_i64));
        let payload = encode(&value);
        assert_eq!(payload, [7, 3, 1, 2, 3, 1, 1]);
        for payload_max in [OPENING_MAX, CONTROL_MAX, SAMPLES_MAX, RESULTS_MAX] {
            assert_eq!(decode(&payload, payload_max), Ok(value.clone()));
        }
        for len in 0..payload.len() {
            let error = decode::<(u64, Bytes, Option<i64>)>(&payload[..len], CONTROL_MAX);
            assert!(matches!(error, Err(Undecodable::Malformed(_))), "{len} bytes: {error:?}");
        }
        let longer = [payload.as_slice(), &[0, 0]].concat();
        let error = decode::<(u64, Bytes, Option<i64>)>(&longer, CONTROL_MAX);
        assert_eq!(error, Err(Undecodable::Trailing(2)));
    }

    #[test]
    fn what_is_wrong_is_told_in_words() {
        // A histogram has more buckets.
        let error =
            decode::<engine::shard::CoarseHistogram>(&encode(&Vec::from([1_u64; 3])), CONTROL_MAX);
        let Err(Undecodable::Malformed(problem)) = error else { panic!("{error:?}") };
        assert!(!problem.contains(['"', '{']), "{problem}");
    }

    #[test]
    fn a_payload_of_the_largest_size_is_within_the_limit() {
        for payload_max in [OPENING_MAX, CONTROL_MAX, SAMPLES_MAX, RESULTS_MAX] {
            // The length takes up to five bytes.
            let bytes = Bytes::from(vec![9; payload_max - 5]);
            let payload = encode(&bytes);
            assert!(payload.len() <= payload_max && payload_max < payload.len() + 5);
            assert_eq!(decode(&payload, payload_max), Ok(bytes));
        }
    }
}
