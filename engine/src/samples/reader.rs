//! Reads a file of samples as a stream, one block in memory at a time, and trusts nothing in it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use super::frame::{
    BLOCK_HEAD_BYTES, BLOCK_MAGIC, BlockHead, CHECKSUM_BYTES, END_HEAD_BYTES, END_MAGIC, End,
    HEADER_BYTES, Header, SHARD_END_BYTES, checksum_of_block,
};
use super::sample::{SAMPLE_BYTES, Sample, SampleKind};
use super::sampler::BLOCK_RECORDS;
use crate::record::counts::Counts;

/// What is wrong with a file of samples, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {offset}: {problem}")]
pub struct ReadError {
    /// Offset of the part that is wrong, bytes.
    pub offset: u64,
    /// What is wrong.
    pub problem: String,
}

/// The samples of a file, in its order. The iterator ends after a whole file or after an error; only then, and without
/// an error, has the file been read and is [`SampleReader::end`] there.
#[derive(Debug)]
pub struct SampleReader<R> {
    input: R,
    offset: u64,
    header: Header,
    seen: Vec<Seen>,
    block: VecDeque<Sample>,
    bytes: Vec<u8>,
    end: Option<End>,
    over: bool,
}

/// What was read of one shard.
#[derive(Clone, Debug, Default)]
struct Seen {
    blocks: u32,
    counts: Counts,
}

impl SampleReader<BufReader<File>> {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn open(path: &Path) -> Result<SampleReader<BufReader<File>>, ReadError> {
        let file = File::open(path).map_err(|error| ReadError {
            offset: 0,
            problem: format!("can't be opened: {error}"),
        })?;
        SampleReader::new(BufReader::new(file))
    }
}

impl<R: Read> SampleReader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(mut input: R) -> Result<SampleReader<R>, ReadError> {
        let mut bytes = [0; HEADER_BYTES];
        let header = fill(&mut input, 0, &mut bytes, "header").and_then(|()| {
            Header::decode(&bytes).map_err(|problem| ReadError { offset: 0, problem })
        })?;
        Ok(SampleReader {
            input,
            offset: HEADER_BYTES as u64,
            seen: vec![Seen::default(); header.shards as usize],
            header,
            block: VecDeque::with_capacity(BLOCK_RECORDS),
            bytes: Vec::new(),
            end: None,
            over: false,
        })
    }

    /// What the samples belong to.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The end block, once the whole file has been read and found whole.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    fn error<T>(&self, problem: impl Into<String>) -> Result<T, ReadError> {
        Err(ReadError { offset: self.offset, problem: problem.into() })
    }

    /// Reads the next block into memory, or the end.
    fn advance(&mut self) -> Result<(), ReadError> {
        let mut magic = [0; 4];
        let what = "end block: the file is incomplete, its writer did not finish it";
        fill(&mut self.input, self.offset, &mut magic, what)?;
        match magic {
            BLOCK_MAGIC => self.read_block(),
            END_MAGIC => self.read_end(),
            _ => self.error("neither a block nor the end block begins here"),
        }
    }

    fn read_block(&mut self) -> Result<(), ReadError> {
        let mut bytes = [0; BLOCK_HEAD_BYTES];
        bytes[..4].copy_from_slice(&BLOCK_MAGIC);
        fill(&mut self.input, self.offset, &mut bytes[4..], "rest of a block")?;
        let head = BlockHead::decode(&bytes);
        let records = head.records as usize;
        if records == 0 || BLOCK_RECORDS < records {
            return self.error(format!("a block can't have {records} records"));
        }
        self.bytes.resize(records * SAMPLE_BYTES, 0);
        fill(&mut self.input, self.offset, &mut self.bytes, "rest of a block")?;
        let computed = checksum_of_block(&bytes, &self.bytes);
        if computed != head.checksum {
            let stated = head.checksum;
            return self.error(format!(
                "the checksum of the block is {stated:08x}, its bytes have {computed:08x}"
            ));
        }
        let Some(mut seen) = self.seen.get(usize::from(head.shard)).cloned() else {
            return self.error(format!(
                "a block of shard {}, the file has {} shards",
                head.shard,
                self.seen.len()
            ));
        };
        if head.number != seen.blocks {
            return self.error(format!(
                "block {} of shard {} where block {} was due",
                head.number, head.shard, seen.blocks
            ));
        }
        seen.blocks += 1;
        for (at, record) in self.bytes.as_chunks::<SAMPLE_BYTES>().0.iter().enumerate() {
            let sample = Sample::decode(record).and_then(|sample| {
                if sample.shard == head.shard {
                    Ok(sample)
                } else {
                    Err(format!("a record of shard {} in a block of {}", sample.shard, head.shard))
                }
            });
            let offset = self.offset + (BLOCK_HEAD_BYTES + at * SAMPLE_BYTES) as u64;
            let sample = sample.map_err(|problem| ReadError { offset, problem })?;
            seen.counts.intended += 1;
            seen.counts.sent += u64::from(sample.kind != SampleKind::Unsent);
            seen.counts.ended(sample.outcome().expect("a decoded sample has an outcome"));
            self.block.push_back(sample);
        }
        self.seen[usize::from(head.shard)] = seen;
        self.offset += (BLOCK_HEAD_BYTES + self.bytes.len()) as u64;
        Ok(())
    }

    fn read_end(&mut self) -> Result<(), ReadError> {
        let length = END_HEAD_BYTES + self.seen.len() * SHARD_END_BYTES + CHECKSUM_BYTES;
        let mut bytes = END_MAGIC.to_vec();
        bytes.resize(length, 0);
        fill(&mut self.input, self.offset, &mut bytes[4..], "rest of the end block")?;
        let end = match End::decode(&bytes, self.header.shards) {
            Ok(end) => end,
            Err(problem) => return self.error(problem),
        };
        for (shard, (stated, seen)) in end.shards.iter().zip(&self.seen).enumerate() {
            if stated.written != seen.counts.intended {
                return self.error(format!(
                    "shard {shard} has {} records, the end block says {}",
                    seen.counts.intended, stated.written
                ));
            }
            if !stated.counts.every_request_ended()
                || stated.written.checked_add(stated.lost) != Some(stated.counts.intended)
            {
                return self.error(format!("the counts of shard {shard} don't add up"));
            }
            let (counted, records) = (stated.counts.outcomes(), seen.counts.outcomes());
            if stated.lost == 0 && counted != records {
                return self.error(format!(
                    "shard {shard} counted {counted:?}, its records are {records:?} (intended, \
                     sent, unsent, answered, timed out, failed, abandoned)"
                ));
            }
        }
        self.offset += length as u64;
        match self.input.read(&mut [0]) {
            Ok(0) => {}
            Ok(_) => return self.error("something follows the end block"),
            Err(error) => return self.error(error.to_string()),
        }
        self.end = Some(end);
        Ok(())
    }
}

impl<R: Read> Iterator for SampleReader<R> {
    type Item = Result<Sample, ReadError>;

    #[inline]
    fn next(&mut self) -> Option<Result<Sample, ReadError>> {
        if let Some(sample) = self.block.pop_front() {
            return Some(Ok(sample));
        }
        if self.over {
            return None;
        }
        if let Err(error) = self.advance() {
            self.over = true;
            self.block.clear();
            return Some(Err(error));
        }
        self.over = self.end.is_some();
        self.block.pop_front().map(Ok)
    }
}

/// Fills `bytes`; `offset` and `what` say where and what is missing when the file ends before.
fn fill(input: &mut impl Read, offset: u64, bytes: &mut [u8], what: &str) -> Result<(), ReadError> {
    input.read_exact(bytes).map_err(|error| {
        let problem = match error.kind() {
            std::io::ErrorKind::UnexpectedEof => format!("the file ends before the {what}"),
            _ => error.to_string(),
        };
        ReadError { offset, problem }
    })
}
