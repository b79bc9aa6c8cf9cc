//! A histogram as bytes, for a recorder that is sent elsewhere: HdrHistogram V2, not deflated,
//! whose length bounds the cost of reading it. And as text in a document: V2 deflate, base64,
//! inflated to no more than such a histogram can have.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{
    Deserializer, Serializer as _, V2DeflateSerializer, V2Serializer,
};
use serde::{Deserialize, Serialize};

/// Bytes before the counts: the format's cookie, the length of what follows the header, an offset,
/// digits, bounds and a ratio.
const HEADER_BYTES: usize = 40;
/// The position of that length.
const LENGTH_AT: std::ops::Range<usize> = 4..8;

/// The cookie of a deflated histogram, before the length of what follows.
const DEFLATED_COOKIE: [u8; 4] = [0x1c, 0x84, 0x93, 0x14];
/// The most bytes of a count.
const COUNT_BYTES_MAX: usize = 9;

/// A histogram's bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Encoded(Vec<u8>);

/// Bytes that aren't a histogram with the digits and bounds of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a histogram of {digits} digits from {low_ns} to {high_ns} ns")]
pub struct NotLike {
    digits: u8,
    low_ns: u64,
    high_ns: u64,
}

impl NotLike {
    fn new(like: &Histogram<u64>) -> NotLike {
        NotLike { digits: like.sigfig(), low_ns: like.low(), high_ns: like.high() }
    }
}

impl Encoded {
    /// The bytes of a histogram.
    pub fn new(histogram: &Histogram<u64>) -> Encoded {
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(histogram, &mut bytes)
            .expect("writing to memory can't fail and the histogram's size is fixed");
        Encoded(bytes)
    }

    /// Decodes the histogram, which must have the digits and bounds of `like`. The claims in its
    /// header are checked before any memory is allocated.
    ///
    /// # Errors
    /// The bytes are anything else.
    pub fn decode(&self, like: &Histogram<u64>) -> Result<Histogram<u64>, NotLike> {
        let Encoded(bytes) = self;
        let other = NotLike::new(like);
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

/// The problem with a text that should hold a histogram.
#[derive(Debug, thiserror::Error)]
pub enum HistogramError {
    /// It isn't base64.
    #[error(transparent)]
    Text(#[from] base64::DecodeError),
    /// Its content isn't deflated.
    #[error("not deflated ({0})")]
    Deflated(#[from] std::io::Error),
    /// Its bytes aren't a histogram of this range and precision.
    #[error(transparent)]
    Bytes(#[from] NotLike),
}

/// The text of a histogram in a document.
pub fn to_text(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(histogram, &mut bytes)
        .expect("writing to memory can't fail and the histogram's size is fixed");
    BASE64.encode(bytes)
}

/// Decodes the histogram from a document's text; it must have the digits and bounds of `like`.
///
/// # Errors
/// The text is anything else.
pub(super) fn from_text(
    text: &str,
    like: &Histogram<u64>,
) -> Result<Histogram<u64>, HistogramError> {
    let bytes = BASE64.decode(text)?;
    let deflated = bytes.strip_prefix(&DEFLATED_COOKIE).and_then(|rest| rest.split_at_checked(4));
    let deflated = deflated.and_then(|(length, deflated)| {
        let is_long = u32::try_from(deflated.len()).is_ok_and(|long| length == long.to_be_bytes());
        is_long.then_some(deflated)
    });
    let deflated = deflated.ok_or_else(|| NotLike::new(like))?;
    // A few bytes may inflate to a thousand times as many, so longer content stays truncated.
    let most = HEADER_BYTES + COUNT_BYTES_MAX * like.distinct_values();
    let mut inflated = Vec::new();
    ZlibDecoder::new(deflated).take(most as u64).read_to_end(&mut inflated)?;
    Ok(Encoded(inflated).decode(like)?)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;
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

    /// The text of these bytes, deflated.
    fn deflated(bytes: &[u8]) -> String {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).expect("memory");
        let deflated = encoder.finish().expect("memory");
        let length = u32::try_from(deflated.len()).expect("short").to_be_bytes();
        BASE64.encode([&DEFLATED_COOKIE[..], &length, &deflated].concat())
    }

    #[test]
    fn a_text_is_decoded_to_the_histogram_that_was_encoded() {
        for digits in [2, 3] {
            let mut histogram = empty(digits);
            (1..1_000).for_each(|value| histogram.record(value * 1_000).expect("in range"));
            let text = to_text(&histogram);
            assert_eq!(from_text(&text, &empty(digits)).expect("a histogram"), histogram);
            assert!(from_text(&text, &empty(digits - 1)).is_err());
        }
        for text in ["", "?", "AAAA", "AAAAAAAAAAAAAAAA"] {
            assert!(from_text(text, &empty(3)).is_err(), "{text}");
        }
    }

    #[test]
    fn a_histogram_with_the_most_bytes_there_are_is_read() {
        let mut histogram = empty(2);
        let buckets: Vec<u64> =
            histogram.iter_all().map(|bucket| bucket.value_iterated_to()).collect();
        for value in buckets {
            histogram.record_n(value, 1 << 50).expect("in range");
        }
        assert_eq!(from_text(&to_text(&histogram), &empty(2)).expect("a histogram"), histogram);
    }

    #[test]
    fn a_text_that_inflates_to_gigabytes_takes_no_memory() {
        let Encoded(mut bytes) = Encoded::new(&empty(3));
        let counts = vec![0; 256 << 20];
        bytes[LENGTH_AT].copy_from_slice(&(256_u32 << 20).to_be_bytes());
        bytes.truncate(HEADER_BYTES);
        bytes.extend(counts);
        let bomb = deflated(&bytes);
        assert!(bomb.len() < 1 << 20, "{}", bomb.len());
        let began = std::time::Instant::now();
        let error = from_text(&bomb, &empty(3)).expect_err("refused").to_string();
        assert_eq!(error, "not a histogram of 3 digits from 1 to 60000000000 ns");
        assert!(began.elapsed().as_millis() < 100, "{:?}", began.elapsed());
    }
}
