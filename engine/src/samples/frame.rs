//! What stands around the records: header, heads of blocks, end block.

use super::sample::SAMPLE_BYTES;
use crate::load::schedule::Digest;
use crate::record::counts::Counts;
use crate::record::recorder::Recorder;

pub(super) const HEADER_BYTES: usize = 64;
pub(super) const BLOCK_HEAD_BYTES: usize = 20;
pub(super) const END_HEAD_BYTES: usize = 24;
pub(super) const SHARD_END_BYTES: usize = 96;
pub(super) const CHECKSUM_BYTES: usize = 4;
pub(super) const BLOCK_MAGIC: [u8; 4] = *b"BLCK";
pub(super) const END_MAGIC: [u8; 4] = *b"TEND";
const MAGIC: [u8; 8] = *b"TTSAMPLE";
const VERSION: u16 = 1;
const RECORD_BYTES: u16 = 40;
const _: () = assert!(RECORD_BYTES as usize == SAMPLE_BYTES);

/// What the samples belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Shards whose samples the file holds.
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
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
        bytes[10..12].copy_from_slice(&RECORD_BYTES.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.shards.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.plan_digest.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.seed.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.window_start_ns.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.window_end_ns.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..HEADER_BYTES - CHECKSUM_BYTES]);
        bytes[60..64].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Header, String> {
        if bytes[0..8] != MAGIC {
            return Err("this is no file of raw samples: it doesn't begin with TTSAMPLE".to_owned());
        }
        let version = u16::from_le_bytes([bytes[8], bytes[9]]);
        if version != VERSION {
            return Err(format!("version {version} is not {VERSION}, the one known here"));
        }
        check_sum(bytes, "header")?;
        let record_bytes = u16::from_le_bytes([bytes[10], bytes[11]]);
        if record_bytes != RECORD_BYTES {
            return Err(format!("records of {record_bytes} bytes instead of {RECORD_BYTES}"));
        }
        let shards = u32_at(bytes, 12);
        if u32::from(u16::MAX) + 1 < shards {
            return Err(format!("{shards} shards are more than 16 bits can number"));
        }
        Ok(Header {
            shards,
            plan_digest: u64_at(bytes, 16),
            seed: u64_at(bytes, 24),
            window_start_ns: u64_at(bytes, 32),
            window_end_ns: u64_at(bytes, 40),
        })
    }
}

/// The head of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockHead {
    pub(super) shard: u16,
    pub(super) number: u32,
    pub(super) records: u32,
    pub(super) checksum: u32,
}

impl BlockHead {
    /// The head of a block with these records, its checksum computed.
    pub(super) fn encode(shard: u16, number: u32, records: &[u8]) -> [u8; BLOCK_HEAD_BYTES] {
        let count = u32::try_from(records.len() / SAMPLE_BYTES).expect("a block's records are few");
        let mut bytes = [0; BLOCK_HEAD_BYTES];
        bytes[0..4].copy_from_slice(&BLOCK_MAGIC);
        bytes[4..6].copy_from_slice(&shard.to_le_bytes());
        bytes[8..12].copy_from_slice(&number.to_le_bytes());
        bytes[12..16].copy_from_slice(&count.to_le_bytes());
        let checksum = checksum_of_block(&bytes, records);
        bytes[16..20].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The head in bytes that begin with [`BLOCK_MAGIC`]; its checksum is still to be compared.
    pub(super) fn decode(bytes: &[u8; BLOCK_HEAD_BYTES]) -> BlockHead {
        BlockHead {
            shard: u16::from_le_bytes([bytes[4], bytes[5]]),
            number: u32_at(bytes, 8),
            records: u32_at(bytes, 12),
            checksum: u32_at(bytes, 16),
        }
    }
}

pub(super) fn checksum_of_block(head: &[u8; BLOCK_HEAD_BYTES], records: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&head[..BLOCK_HEAD_BYTES - CHECKSUM_BYTES]);
    hasher.update(records);
    hasher.finalize()
}

/// What the file says of one shard at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardEnd {
    /// Its records in the file.
    pub written: u64,
    /// Its samples that were lost.
    pub lost: u64,
    /// Digest of the arrivals that it took from its schedule; 0 without a schedule.
    pub schedule_digest: u128,
    /// How many arrivals those were, warm-up included.
    pub schedule_arrivals: u64,
    /// What it counted: of its counters those that [`Counts::outcomes`] names.
    pub counts: Counts,
}

impl ShardEnd {
    /// The end of a shard whose recorder and schedule said this; what was written and lost, the writer fills in.
    pub fn new(recorder: &Recorder, digest: Digest) -> ShardEnd {
        ShardEnd {
            schedule_digest: digest.value(),
            schedule_arrivals: digest.arrivals(),
            counts: Counts::of_outcomes(recorder.counts.outcomes()),
            ..ShardEnd::default()
        }
    }
}

/// The end block: what makes a file whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// End of the window as it was, ns since the epoch of the run: the plan's, or where an interruption ended it.
    pub until_ns: u64,
    /// The epoch of the run on CLOCK_MONOTONIC, ns: the shards find it together, after the header was written.
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

    pub(super) fn encode(&self) -> Vec<u8> {
        let shards = u32::try_from(self.shards.len()).expect("shards are numbered in 16 bits");
        let mut bytes = END_MAGIC.to_vec();
        bytes.extend(shards.to_le_bytes());
        bytes.extend(self.until_ns.to_le_bytes());
        bytes.extend(self.epoch_ns.to_le_bytes());
        for shard in &self.shards {
            bytes.extend(shard.written.to_le_bytes());
            bytes.extend(shard.lost.to_le_bytes());
            bytes.extend(shard.schedule_digest.to_le_bytes());
            bytes.extend(shard.schedule_arrivals.to_le_bytes());
            bytes.extend(shard.counts.outcomes().iter().flat_map(|count| count.to_le_bytes()));
        }
        let checksum = crc32fast::hash(&bytes);
        bytes.extend(checksum.to_le_bytes());
        bytes
    }

    /// The end block in `bytes`, which begin with [`END_MAGIC`] and have the length of `shards` shards.
    pub(super) fn decode(bytes: &[u8], shards: u32) -> Result<End, String> {
        check_sum(bytes, "end block")?;
        if u32_at(bytes, 4) != shards {
            return Err(format!(
                "{} shards in the end block, {shards} in the header",
                u32_at(bytes, 4)
            ));
        }
        let body = &bytes[END_HEAD_BYTES..bytes.len() - CHECKSUM_BYTES];
        let shard = |bytes: &[u8]| ShardEnd {
            written: u64_at(bytes, 0),
            lost: u64_at(bytes, 8),
            schedule_digest: u128::from(u64_at(bytes, 24)) << 64 | u128::from(u64_at(bytes, 16)),
            schedule_arrivals: u64_at(bytes, 32),
            counts: Counts::of_outcomes(std::array::from_fn(|at| u64_at(bytes, 40 + 8 * at))),
        };
        Ok(End {
            until_ns: u64_at(bytes, 8),
            epoch_ns: u64_at(bytes, 16),
            shards: body.chunks_exact(SHARD_END_BYTES).map(shard).collect(),
        })
    }
}

/// Compares the checksum in the last four bytes with that of the bytes before them.
fn check_sum(bytes: &[u8], what: &str) -> Result<(), String> {
    let (body, _) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
    let (stated, computed) = (u32_at(bytes, body.len()), crc32fast::hash(body));
    if stated == computed {
        return Ok(());
    }
    Err(format!("the checksum of the {what} is {stated:08x}, its bytes have {computed:08x}"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("the range has four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("the range has eight bytes"))
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
    fn header_and_end_come_back() {
        assert_eq!(Header::decode(&header().encode()), Ok(header()));
        let shard = |seed: u64| ShardEnd {
            written: seed,
            lost: seed + 1,
            schedule_digest: u128::MAX - u128::from(seed),
            schedule_arrivals: seed + 2,
            counts: Counts::of_outcomes(std::array::from_fn(|at| seed + 3 + at as u64)),
        };
        let end = End { until_ns: 5, epoch_ns: 12, shards: vec![shard(100), shard(200)] };
        let bytes = end.encode();
        assert_eq!(bytes.len(), END_HEAD_BYTES + 2 * SHARD_END_BYTES + CHECKSUM_BYTES);
        assert_eq!(End::decode(&bytes, 2), Ok(end));
    }

    #[test]
    fn every_changed_byte_of_the_header_is_found() {
        let good = header().encode();
        for at in 0..HEADER_BYTES {
            let mut bytes = good;
            bytes[at] ^= 0x20;
            assert!(Header::decode(&bytes).is_err(), "byte {at}");
        }
    }
}
