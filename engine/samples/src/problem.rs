//! What can be wrong with a sample file.

/// What is wrong with a part of a file of samples.
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
        /// The file's.
        found: u16,
        /// The reader's.
        known: u16,
    },
    /// Bytes were changed.
    #[error("the checksum of the {what} is {stated:08x}, its bytes have {computed:08x}")]
    Checksum {
        /// The part that it is of.
        what: &'static str,
        /// As the file has it.
        stated: u32,
        /// Of the bytes that it covers.
        computed: u32,
    },
    /// Records of another length.
    #[error("records of {found} bytes instead of {known}")]
    RecordLength {
        /// The file's, bytes.
        found: u16,
        /// The format's, bytes.
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
        /// The block's.
        shard: u16,
        /// How many the header counts.
        shards: usize,
    },
    /// A shard's blocks out of order.
    #[error("block {found} of shard {shard} where block {due} was expected")]
    BlockOrder {
        /// The block's shard.
        shard: u16,
        /// Its number.
        found: u32,
        /// The number after that of the block before.
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
        /// When the shard saw that.
        handled_ns: u64,
    },
    /// The end block counts other shards than the header.
    #[error("{end} shards in the end block, {header} in the header")]
    OtherShards {
        /// The end block's.
        end: u32,
        /// The header's.
        header: u32,
    },
    /// Records were added or taken away.
    #[error("shard {shard} has {found} records, the end block says {stated}")]
    RecordCount {
        /// The shard.
        shard: usize,
        /// Its records in the file.
        found: u64,
        /// What the end block says.
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
