//! Raw samples: one record per request of the window, from which anyone can recompute the report's
//! numbers.
//!
//! A shard fills preallocated blocks and hands full ones to a writer thread. A slow or full disk
//! costs samples, which are counted, but never a shard's time. Samples are written in segments of
//! at most 1 GiB: `run.raw`, `run.raw.0002` and so on. Each is written under a temporary name,
//! synced, and renamed when it is complete, while the run goes on: a crash costs the last one. An
//! older file stays until then. If writing fails, the temporary file is removed, which leaves the
//! remaining room to the report, and the segments before it stay.
//!
//! # The segments
//!
//! Numbers are little endian, offsets are in bytes, times are ns since the epoch of the run. A
//! checksum is CRC-32 (IEEE 802.3, as in zlib and PNG). A segment is a header, the shards' blocks
//! in any order, and an end; behind the last one's is the end block, and nothing follows it.
//! Samples without it are incomplete, and every reader reports that. The segments of a run may also
//! be one file, behind one another. Files of version 4 have no segments: 0 in the header from 48 to
//! 59, and no segment's end before the end block.
//!
//! The header, 64 bytes:
//!
//! | offset | type | content |
//! | --- | --- | --- |
//! | 0 | 8 bytes | `TTSAMPLE` |
//! | 8 | u16 | version, 5 |
//! | 10 | u16 | length of a record, 48 |
//! | 12 | u32 | shards |
//! | 16 | u64 | digest of the plan, see [`plan_digest`] |
//! | 24 | u64 | seed of the schedule |
//! | 32 | u64 | start of the window |
//! | 40 | u64 | end of the window as planned |
//! | 48 | u64 | a random number, the same in all segments of a run |
//! | 56 | u32 | number of the segment, from 1 |
//! | 60 | u32 | checksum of bytes 0 to 59 |
//!
//! A block, 20 bytes and its records:
//!
//! | offset | type | content |
//! | --- | --- | --- |
//! | 0 | 4 bytes | `BLCK` |
//! | 4 | u16 | shard |
//! | 6 | u16 | 0 |
//! | 8 | u32 | number of the block among those of its shard in the segment, from 0 |
//! | 12 | u32 | records, 1 to [`BLOCK_RECORDS`] |
//! | 16 | u32 | checksum of bytes 0 to 15 and of the records |
//! | 20 | | the records |
//!
//! A record, 48 bytes; u56 is a number of seven bytes:
//!
//! | offset | type | content |
//! | --- | --- | --- |
//! | 0 | u56 | intended |
//! | 7 | u56 | noticed by the shard; pacer lateness = noticed − intended |
//! | 14 | u56 | sent; connection wait = sent − noticed; 0 if unsent; received if never connected |
//! | 21 | u56 | received, or when a request without a complete response was given up |
//! | 28 | u56 | handled by the shard; receive lateness = handled − received |
//! | 35 | u8 | flags, see below |
//! | 36 | u16 | step, 0 if there is only one |
//! | 38 | u16 | status + 2¹⁰ × failed check; without a response, the cause, see [`cause_name`] |
//! | 40 | u56 | number in the run; all steps of a session have its number |
//! | 47 | u8 | 0 |
//!
//! A request's stage isn't in its record: it is the stage of the plan that contains `intended`, of
//! its own or of the first step of its session, by the stages' lengths from the start of the window.
//!
//! Flags, from the lowest bit: three of the outcome (1 answered, 2 timed out, 3 failed, 4
//! abandoned, 5 unsent, 6 answered but failed a check), two of the stamp of `received` (0 the program's, 1 the kernel's, 2 the
//! kernel's as a control, where latencies end at `handled`), and one that is set if the request had
//! to wait for a connection. Receive lateness is known if the kernel stamped.
//!
//! A segment's end:
//!
//! | offset | type | content |
//! | --- | --- | --- |
//! | 0 | 4 bytes | `TSEG`, or `TLST` if it is the run's last |
//! | 4 | u32 | checksum of the blocks' checksums in their order |
//! | 8 + 8·s | u64 | records of shard s in the segment |
//! | last | u32 | checksum of this end before it |
//!
//! The end block, 24 bytes, 96 for each shard in order, and a checksum:
//!
//! | offset | type | content |
//! | --- | --- | --- |
//! | 0 | 4 bytes | `TEND` |
//! | 4 | u32 | shards |
//! | 8 | u64 | actual end of the window: the plan's, or that of an interruption |
//! | 16 | u64 | the epoch of the run on CLOCK_MONOTONIC, ns |
//! | 24 + 96·s | u64 | records of shard s in all segments |
//! | 32 + 96·s | u64 | samples of shard s that were lost |
//! | 40 + 96·s | u128 | digest of the arrivals that shard s took from its schedule, 0 without one |
//! | 56 + 96·s | u64 | number of these arrivals, including the warm-up |
//! | 64 + 96·s | 7 × u64 | intended, sent, unsent, answered, timed out, failed, abandoned |
//! | last | u32 | checksum of the end block before it |

mod causes;
mod fingerprint;
mod frame;
mod reader;
mod sample;
mod sampler;
mod segments;
mod writer;

pub use causes::cause_name;
pub use fingerprint::plan_digest;
pub use frame::{End, Header, ShardEnd};
pub use reader::{ReadError, SampleReader};
pub use sample::{SAMPLE_BYTES, Sample, SampleKind};
pub use sampler::{BLOCK_RECORDS, BLOCKS, Lane, Sampler};
pub use segments::{last_segment, segment_files, segment_path};
pub use writer::{SampleFile, SampleWriter, SamplesSummary, check_writable};
