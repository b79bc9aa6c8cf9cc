//! The framing of a sample file: header, block heads, end block.

use load::schedule::Digest;
use record::counts::Counts;
use record::recorder::Recorder;
use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::sample::SAMPLE_BYTES;

pub(super) const HEADER_BYTES: usize = size_of::<HeaderFrame>();
pub(super) const BLOCK_HEAD_BYTES: usize = size_of::<BlockHead>();
pub(super) const BLOCK_MAGIC: [u8; 4] = *b"BLCK";
pub(super) const END_MAGIC: [u8; 4] = *b"TEND";
/// The magic of a segment's end: of one that another follows, and of a run's last one.
pub(super) const SEGMENT_MAGIC: [u8; 4] = *b"TSEG";
pub(super) const LAST_MAGIC: [u8; 4] = *b"TLST";
const CHECKSUM_BYTES: usize = size_of::<U32>();
const MAGIC: [u8; 8] = *b"TTSAMPLE";
const VERSION: u16 = 5;
/// The version without segments: a file is a header, blocks and the end block.
const UNDIVIDED: u16 = 4;
const RECORD_BYTES: u16 = 48;
const _: () = assert!(RECORD_BYTES as usize == SAMPLE_BYTES);

/// The header's layout in the file.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct HeaderFrame {
    magic: [u8; 8],
    version: U16,
    record_bytes: U16,
    shards: U32,
    plan_digest: U64,
    seed: U64,
    window_start_ns: U64,
    window_end_ns: U64,
    run: U64,
    segment: U32,
    checksum: U32,
}

/// The layout of a block's head, before its records.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct BlockHead {
    magic: [u8; 4],
    pub(super) shard: U16,
    zero: U16,
    pub(super) number: U32,
    pub(super) records: U32,
    pub(super) checksum: U32,
}

/// The layout of the end block's start, before the shards.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct EndFrame {
    magic: [u8; 4],
    shards: U32,
    until_ns: U64,
    epoch_ns: U64,
}

/// The layout of one shard in the end block.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ShardFrame {
    written: U64,
    lost: U64,
    schedule_digest: U128,
    schedule_arrivals: U64,
    counts: [U64; 7],
}

/// Which segment of which run a header begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// A random number, the same in all segments of a run.
    pub(super) run: u64,
    /// The number of the segment, from 1; 0 in a file of the version without segments.
    pub(super) segment: u32,
}

/// What the samples belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The number of shards whose samples the file holds.
    pub shards: u32,
    /// Digest of the plan, see [`super::plan_digest`].
    pub plan_digest: u64,
    /// Seed of the schedule.
    pub seed: u64,
    /// Start of the window, ns since the epoch of the run.
    pub window_start_ns: u64,
    /// End of the window as planned, ns since the epoch of the run.
    pub window_end_ns: u64,
}

impl Header {
    pub(super) fn encode(&self, place: Place) -> [u8; HEADER_BYTES] {
        let mut frame = HeaderFrame {
            magic: MAGIC,
            version: VERSION.into(),
            record_bytes: RECORD_BYTES.into(),
            shards: self.shards.into(),
            plan_digest: self.plan_digest.into(),
            seed: self.seed.into(),
            window_start_ns: self.window_start_ns.into(),
            window_end_ns: self.window_end_ns.into(),
            run: place.run.into(),
            segment: place.segment.into(),
            checksum: U32::ZERO,
        };
        let bytes = frame.as_bytes();
        frame.checksum = crc32fast::hash(&bytes[..HEADER_BYTES - CHECKSUM_BYTES]).into();
        zerocopy::transmute!(frame)
    }

    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<(Header, Place), String> {
        let frame: HeaderFrame = zerocopy::transmute!(*bytes);
        if frame.magic != MAGIC {
            return Err("not a file of raw samples: it doesn't begin with TTSAMPLE".to_owned());
        }
        let is_undivided = frame.version == UNDIVIDED;
        if frame.version != VERSION && !is_undivided {
            let found = frame.version;
            return Err(format!("unknown version {found}: this program reads version {VERSION}"));
        }
        check_sum(bytes, "header")?;
        if frame.record_bytes != RECORD_BYTES {
            let found = frame.record_bytes;
            return Err(format!("records of {found} bytes instead of {RECORD_BYTES}"));
        }
        let shards = frame.shards.get();
        if u32::from(u16::MAX) + 1 < shards {
            return Err(format!("{shards} shards: at most 65536 can be numbered"));
        }
        let place = Place { run: frame.run.get(), segment: frame.segment.get() };
        if is_undivided != (place.segment == 0) {
            let (version, segment) = (frame.version, place.segment);
            return Err(format!("segment {segment} in a file of version {version}"));
        }
        let header = Header {
            shards,
            plan_digest: frame.plan_digest.get(),
            seed: frame.seed.get(),
            window_start_ns: frame.window_start_ns.get(),
            window_end_ns: frame.window_end_ns.get(),
        };
        Ok((header, place))
    }
}

impl BlockHead {
    /// The head of a block with these records.
    pub(super) fn new(shard: u16, number: u32, records: &[u8]) -> BlockHead {
        let count = u32::try_from(records.len() / SAMPLE_BYTES).expect("a block's records are few");
        let mut head = BlockHead {
            magic: BLOCK_MAGIC,
            shard: shard.into(),
            zero: U16::ZERO,
            number: number.into(),
            records: count.into(),
            checksum: U32::ZERO,
        };
        head.checksum = head.checksum_with(records).into();
        head
    }

    /// The head in bytes that begin with [`BLOCK_MAGIC`]; its checksum hasn't been compared yet.
    pub(super) fn decode(bytes: [u8; BLOCK_HEAD_BYTES]) -> BlockHead {
        zerocopy::transmute!(bytes)
    }

    /// The checksum that a block with these records must have.
    pub(super) fn checksum_with(&self, records: &[u8]) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.as_bytes()[..BLOCK_HEAD_BYTES - CHECKSUM_BYTES]);
        hasher.update(records);
        hasher.finalize()
    }
}

/// The end of a segment, which shows that it is whole: the records of each shard in it, and a
/// checksum of its blocks' checksums in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SegmentEnd {
    pub(super) is_last: bool,
    pub(super) blocks_checksum: u32,
    pub(super) records: Vec<u64>,
}

impl SegmentEnd {
    /// Its length for this many shards, bytes.
    pub(super) fn length(shards: usize) -> usize {
        size_of::<[u32; 2]>() + shards * size_of::<u64>() + CHECKSUM_BYTES
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = if self.is_last { LAST_MAGIC } else { SEGMENT_MAGIC }.to_vec();
        bytes.extend(self.blocks_checksum.to_le_bytes());
        self.records.iter().for_each(|records| bytes.extend(records.to_le_bytes()));
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    /// Decodes bytes that begin with one of its magics and have the length for their shards.
    pub(super) fn decode(bytes: &[u8]) -> Result<SegmentEnd, String> {
        check_sum(bytes, "segment's end")?;
        let (head, rest) = <[U32; 2]>::ref_from_prefix(bytes).expect("it has the length");
        let body = &rest[..rest.len() - CHECKSUM_BYTES];
        let records = <[U64]>::ref_from_bytes(body).expect("it has the length of its shards");
        Ok(SegmentEnd {
            is_last: bytes.starts_with(&LAST_MAGIC),
            blocks_checksum: head[1].get(),
            records: records.iter().map(|records| records.get()).collect(),
        })
    }
}

/// One shard's summary at the end of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardEnd {
    /// The number of its records in all segments.
    pub written: u64,
    /// The number of its samples that were lost.
    pub lost: u64,
    /// Digest of the arrivals that it took from its schedule; 0 without a schedule.
    pub schedule_digest: u128,
    /// The number of these arrivals, including the warm-up.
    pub schedule_arrivals: u64,
    /// Its counters, limited to those in [`Counts::outcomes`].
    pub counts: Counts,
}

impl ShardEnd {
    /// The end of a shard with this recorder and schedule digest; the writer fills in what was
    /// written and lost.
    pub fn new(recorder: &Recorder, digest: Digest) -> ShardEnd {
        ShardEnd {
            schedule_digest: digest.value(),
            schedule_arrivals: digest.arrivals(),
            counts: Counts::of_outcomes(recorder.counts.outcomes()),
            ..ShardEnd::default()
        }
    }
}

/// The end block, behind the last segment's end: with it, the samples are complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Actual end of the window, ns since the epoch of the run: the plan's end, or that of an
    /// interruption.
    pub until_ns: u64,
    /// The epoch of the run on CLOCK_MONOTONIC, ns: the shards agree on it after the header was
    /// written.
    pub epoch_ns: u64,
    /// Each shard's end.
    pub shards: Vec<ShardEnd>,
}

impl End {
    /// Samples lost by all shards.
    pub fn lost(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lost).sum()
    }

    /// Records of all shards.
    pub fn written(&self) -> u64 {
        self.shards.iter().map(|shard| shard.written).sum()
    }

    /// Length of the end block for this many shards, bytes.
    pub(super) fn length(shards: u32) -> usize {
        size_of::<EndFrame>() + shards as usize * size_of::<ShardFrame>() + CHECKSUM_BYTES
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let shards = u32::try_from(self.shards.len()).expect("shards are numbered in 16 bits");
        let frame = EndFrame {
            magic: END_MAGIC,
            shards: shards.into(),
            until_ns: self.until_ns.into(),
            epoch_ns: self.epoch_ns.into(),
        };
        let mut bytes = frame.as_bytes().to_vec();
        for shard in &self.shards {
            let frame = ShardFrame {
                written: shard.written.into(),
                lost: shard.lost.into(),
                schedule_digest: shard.schedule_digest.into(),
                schedule_arrivals: shard.schedule_arrivals.into(),
                counts: shard.counts.outcomes().map(U64::new),
            };
            bytes.extend(frame.as_bytes());
        }
        let checksum = crc32fast::hash(&bytes);
        bytes.extend(checksum.to_le_bytes());
        bytes
    }

    /// Decodes the end block from `bytes`, which begin with [`END_MAGIC`] and have the length for
    /// `shards` shards.
    pub(super) fn decode(bytes: &[u8], shards: u32) -> Result<End, String> {
        check_sum(bytes, "end block")?;
        let (frame, rest) = EndFrame::ref_from_prefix(bytes).expect("it has the length");
        if frame.shards != shards {
            let end = frame.shards;
            return Err(format!("{end} shards in the end block, {shards} in the header"));
        }
        let body = &rest[..rest.len() - CHECKSUM_BYTES];
        let frames = <[ShardFrame]>::ref_from_bytes(body).expect("it has the length of its shards");
        let shard = |frame: &ShardFrame| ShardEnd {
            written: frame.written.get(),
            lost: frame.lost.get(),
            schedule_digest: frame.schedule_digest.get(),
            schedule_arrivals: frame.schedule_arrivals.get(),
            counts: Counts::of_outcomes(frame.counts.map(U64::get)),
        };
        Ok(End {
            until_ns: frame.until_ns.get(),
            epoch_ns: frame.epoch_ns.get(),
            shards: frames.iter().map(shard).collect(),
        })
    }
}

/// Compares the checksum in the last four bytes with that of the bytes before them.
fn check_sum(bytes: &[u8], what: &'static str) -> Result<(), String> {
    let (body, stated) = bytes.split_last_chunk().expect("it has a checksum");
    compare_sums(what, u32::from_le_bytes(*stated), crc32fast::hash(body))
}

/// Compares a part's checksum with that of its bytes.
pub(super) fn compare_sums(what: &str, stated: u32, computed: u32) -> Result<(), String> {
    if stated == computed {
        return Ok(());
    }
    Err(format!("the checksum of the {what} is {stated:08x}, its bytes have {computed:08x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            shards: 2,
            plan_digest: 0x0102_0304_0506_0708,
            seed: 9,
            window_start_ns: 10,
            window_end_ns: 11,
        }
    }

    #[test]
    fn header_and_end_are_read_as_written() {
        let place = Place { run: u64::MAX - 7, segment: 3 };
        assert_eq!(Header::decode(&header().encode(place)), Ok((header(), place)));
        for is_last in [false, true] {
            let end = SegmentEnd { is_last, blocks_checksum: 5, records: vec![1 << 40, 2] };
            let bytes = end.encode();
            assert_eq!(bytes.len(), SegmentEnd::length(2));
            assert_eq!(SegmentEnd::decode(&bytes), Ok(end));
        }
        let shard = |seed: u64| ShardEnd {
            written: seed,
            lost: seed + 1,
            schedule_digest: u128::MAX - u128::from(seed),
            schedule_arrivals: seed + 2,
            counts: Counts::of_outcomes(std::array::from_fn(|at| seed + 3 + at as u64)),
        };
        let end = End { until_ns: 5, epoch_ns: 12, shards: vec![shard(100), shard(200)] };
        let bytes = end.encode();
        assert_eq!(bytes.len(), End::length(2));
        assert_eq!(End::decode(&bytes, 2), Ok(end));
    }

    #[test]
    fn every_changed_byte_of_the_header_is_detected() {
        let good = header().encode(Place { run: 6, segment: 1 });
        for at in 0..HEADER_BYTES {
            let mut bytes = good;
            bytes[at] ^= 0x20;
            assert!(Header::decode(&bytes).is_err(), "byte {at}");
        }
    }
}
