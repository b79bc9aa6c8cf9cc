//! The errors that a sample file can have.

/// A problem with a part of a sample file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// It couldn't be opened.
    #[error("can't be opened: {0}")]
    Open(String),
    /// It couldn't be read.
    #[error("{0}")]
    Read(String),
    /// It ends too early.
    #[error("the file ends before the {0}")]
    EndsBefore(&'static str),
    /// Another kind of file.
    #[error("not a file of raw samples: it doesn't begin with TTSAMPLE")]
    NotSamples,
    /// Another version of the format.
    #[error("unknown version {found}: this program reads version {known}")]
    Version {
        /// The version of the file.
        found: u16,
        /// The version of the reader.
        known: u16,
    },
    /// Bytes were changed.
    #[error("the checksum of the {what} is {stated:08x}, its bytes have {computed:08x}")]
    Checksum {
        /// The part that it covers.
        what: &'static str,
        /// The checksum in the file.
        stated: u32,
        /// The checksum of the bytes that it covers.
        computed: u32,
    },
    /// Records of another length.
    #[error("records of {found} bytes instead of {known}")]
    RecordLength {
        /// The length in the file, bytes.
        found: u16,
        /// The length in the format, bytes.
        known: u16,
    },
    /// More shards than samples can name.
    #[error("{0} shards: at most 65536 can be numbered")]
    TooManyShards(u32),
    /// Something else where a block or the end block should begin.
    #[error("neither a block nor the end block begins here")]
    NoBlock,
    /// A block of no records, or of too many.
    #[error("a block can't have {0} records")]
    BlockLength(u32),
    /// A block of a shard that the file doesn't have.
    #[error("a block of shard {shard}, but the file has {shards} shards")]
    NoSuchShard {
        /// The block's shard.
        shard: u16,
        /// The number of shards in the header.
        shards: usize,
    },
    /// A shard's blocks out of order.
    #[error("block {found} of shard {shard} where block {due} was expected")]
    BlockOrder {
        /// The block's shard.
        shard: u16,
        /// Its number.
        found: u32,
        /// The number after the previous block's.
        due: u32,
    },
    /// An outcome that has no number here.
    #[error("unknown outcome {0}")]
    UnknownOutcome(u8),
    /// Flags that no writer sets.
    #[error("unknown flags {0:#010b}")]
    UnknownFlags(u8),
    /// A status or a cause that no request of its outcome has.
    #[error("status {status} and cause {cause} of outcome {outcome}")]
    NoSuchOutcome {
        /// The record's status.
        status: u16,
        /// The number of its cause.
        cause: u16,
        /// The name of its outcome.
        outcome: &'static str,
    },
    /// Stamps that can't be a request's, ns.
    #[error(
        "stamps run backwards: intended {intended_ns}, noticed {noticed_ns}, sent {sent_ns}, \
         received {received_ns}, handled {handled_ns}"
    )]
    StampsBackwards {
        /// When it was due.
        intended_ns: u64,
        /// When the shard noticed.
        noticed_ns: u64,
        /// When it was sent.
        sent_ns: u64,
        /// When its response arrived, or it was given up.
        received_ns: u64,
        /// When the shard handled that.
        handled_ns: u64,
    },
    /// The end block counts other shards than the header.
    #[error("{end} shards in the end block, {header} in the header")]
    OtherShards {
        /// The number in the end block.
        end: u32,
        /// The number in the header.
        header: u32,
    },
    /// Records were added or removed.
    #[error("shard {shard} has {found} records, the end block states {stated}")]
    RecordCount {
        /// The shard.
        shard: usize,
        /// Its records in the file.
        found: u64,
        /// The number in the end block.
        stated: u64,
    },
    /// A shard's counts contradict each other.
    #[error("the counts of shard {0} don't add up")]
    CountsDontClose(usize),
    /// A shard's records differ from its counts.
    #[error(
        "shard {shard} counted {counted:?}, its records are {found:?} (intended, sent, unsent, \
         answered, timed out, failed, abandoned)"
    )]
    OtherCounts {
        /// The shard.
        shard: usize,
        /// The counts in the end block.
        counted: Box<[u64; 7]>,
        /// The counts of its records.
        found: Box<[u64; 7]>,
    },
    /// Bytes after the end block.
    #[error("there are bytes after the end block")]
    Trailing,
}
