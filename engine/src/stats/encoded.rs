//! A histogram as bytes, for a recorder that crosses a border: HdrHistogram V2, not deflated, whose
//! length bounds what reading it costs.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2Serializer};
use serde::{Deserialize, Serialize};

/// Bytes before the counts: the format's cookie, the length of what follows the header, an offset,
/// digits, bounds and a ratio.
const HEADER_BYTES: usize = 40;
/// Where that length is.
const LENGTH_AT: std::ops::Range<usize> = 4..8;

/// A histogram's bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Encoded(Vec<u8>);

/// Bytes that aren't a histogram with the digits and bounds of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a histogram of {digits} digits from {low_ns} to {high_ns} ns")]
pub(crate) struct NotLike {
    digits: u8,
    low_ns: u64,
    high_ns: u64,
}

impl Encoded {
    /// The bytes of a histogram.
    pub(crate) fn new(histogram: &Histogram<u64>) -> Encoded {
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(histogram, &mut bytes)
            .expect("writing to memory can't fail and the histogram's size is fixed");
        Encoded(bytes)
    }

    /// The histogram, with the digits and bounds of `like`, that these bytes are. What they claim
    /// is checked before any memory is taken for it.
    ///
    /// # Errors
    /// They are anything else.
    pub(crate) fn decode(&self, like: &Histogram<u64>) -> Result<Histogram<u64>, NotLike> {
        let Encoded(bytes) = self;
        let other = NotLike { digits: like.sigfig(), low_ns: like.low(), high_ns: like.high() };
        let (header, counts) = bytes.split_at_checked(HEADER_BYTES).ok_or(other)?;
        let mut expected = Encoded::new(like).0;
        expected.truncate(HEADER_BYTES);
        let length = u32::try_from(counts.len()).map_err(|_| other)?;
        expected[LENGTH_AT].copy_from_slice(&length.to_be_bytes());
        if header != expected {
            return Err(other);
        }
        Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|_| other)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VALUE_MAX_NS: u64 = 60_000_000_000;

    fn empty(digits: u8) -> Histogram<u64> {
        Histogram::new_with_bounds(1, VALUE_MAX_NS, digits).expect("bounds")
    }

    proptest! {
        #[test]
        fn bytes_come_back_as_the_same_histogram(values in proptest::collection::vec(0..VALUE_MAX_NS, 0..200)) {
            for digits in [2, 3] {
                let mut histogram = empty(digits);
                values.iter().for_each(|value| histogram.record(*value).expect("in range"));
                let encoded = Encoded::new(&histogram);
                prop_assert_eq!(encoded.decode(&empty(digits)), Ok(histogram));
                prop_assert!(encoded.decode(&empty(digits - 1)).is_err());
            }
        }

        #[test]
        fn a_changed_byte_is_an_error_or_another_histogram(at in 0_usize..60, to: u8) {
            let mut histogram = empty(3);
            (1..20).for_each(|value| histogram.record(value * 1_000).expect("in range"));
            let mut encoded = Encoded::new(&histogram);
            if let Some(byte) = encoded.0.get_mut(at) {
                *byte = to;
            }
            if let Ok(found) = encoded.decode(&empty(3)) {
                prop_assert_eq!((found.low(), found.sigfig()), (1, 3));
            }
        }
    }

    #[test]
    fn a_header_that_claims_gigabytes_takes_no_memory() {
        let Encoded(mut bytes) = Encoded::new(&empty(3));
        bytes[LENGTH_AT].copy_from_slice(&u32::MAX.to_be_bytes());
        assert!(Encoded(bytes.clone()).decode(&empty(3)).is_err());
        for cut in 0..bytes.len() {
            assert!(Encoded(bytes[..cut].to_vec()).decode(&empty(3)).is_err(), "{cut}");
        }
    }
}
