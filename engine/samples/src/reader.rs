//! Reads a sample file as a stream, one block in memory at a time, and trusts nothing in it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use record::counts::Counts;

use super::frame::{
    BLOCK_HEAD_BYTES, BLOCK_MAGIC, BlockHead, END_MAGIC, End, HEADER_BYTES, Header, compare_sums,
};
use super::sample::{SAMPLE_BYTES, Sample, SampleKind};
use super::sampler::BLOCK_RECORDS;

/// A problem with a sample file, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {offset}: {problem}")]
pub struct ReadError {
    /// Offset of the faulty part, bytes.
    pub offset: u64,
    /// The problem, as a clause.
    pub problem: String,
}

/// The samples of a file, in its order. The iterator ends after a complete file or after an error;
/// [`SampleReader::end`] is available only after it has ended without an error.
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

/// The records read for one shard.
#[derive(Clone, Debug, Default)]
struct Seen {
    blocks: u32,
    counts: Counts,
}

impl SampleReader<BufReader<File>> {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// The file can't be opened, or its header is invalid.
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
    /// The header is invalid.
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

    /// The end block, once the whole file has been read and is complete.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// The error of a part that begins here.
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
        let head = BlockHead::decode(bytes);
        let (shard, records) = (head.shard.get(), head.records.get() as usize);
        if records == 0 || BLOCK_RECORDS < records {
            return self.error(format!("a block can't have {records} records"));
        }
        self.bytes.resize(records * SAMPLE_BYTES, 0);
        fill(&mut self.input, self.offset, &mut self.bytes, "rest of a block")?;
        let sums = compare_sums("block", head.checksum.get(), head.checksum_with(&self.bytes));
        sums.or_else(|problem| self.error(problem))?;
        let Some(mut seen) = self.seen.get(usize::from(shard)).cloned() else {
            let shards = self.seen.len();
            return self
                .error(format!("a block of shard {shard}, but the file has {shards} shards"));
        };
        if head.number != seen.blocks {
            let (found, due) = (head.number, seen.blocks);
            let problem = format!("block {found} of shard {shard} where block {due} was expected");
            return self.error(problem);
        }
        seen.blocks += 1;
        for (at, record) in self.bytes.as_chunks::<SAMPLE_BYTES>().0.iter().enumerate() {
            let offset = self.offset + (BLOCK_HEAD_BYTES + at * SAMPLE_BYTES) as u64;
            let sample = Sample::decode(shard, record);
            let sample = sample.map_err(|problem| ReadError { offset, problem })?;
            seen.counts.intended += 1;
            seen.counts.sent += u64::from(sample.kind != SampleKind::Unsent);
            seen.counts.ended(sample.outcome().expect("a decoded sample has an outcome"));
            self.block.push_back(sample);
        }
        self.seen[usize::from(shard)] = seen;
        self.offset += (BLOCK_HEAD_BYTES + self.bytes.len()) as u64;
        Ok(())
    }

    fn read_end(&mut self) -> Result<(), ReadError> {
        let length = End::length(self.header.shards);
        let mut bytes = END_MAGIC.to_vec();
        bytes.resize(length, 0);
        fill(&mut self.input, self.offset, &mut bytes[4..], "rest of the end block")?;
        let end = End::decode(&bytes, self.header.shards);
        let end = end.or_else(|problem| self.error(problem))?;
        for (shard, (end, seen)) in end.shards.iter().zip(&self.seen).enumerate() {
            let found = seen.counts.intended;
            if end.written != found {
                let stated = end.written;
                return self.error(format!(
                    "shard {shard} has {found} records, the end block states {stated}"
                ));
            }
            if !end.counts.every_request_ended()
                || end.written.checked_add(end.lost) != Some(end.counts.intended)
            {
                return self.error(format!("the counts of shard {shard} don't add up"));
            }
            let (counted, found) = (end.counts.outcomes(), seen.counts.outcomes());
            if end.lost == 0 && counted != found {
                return self.error(format!(
                    "shard {shard} counted {counted:?}, its records are {found:?} (intended, sent, \
                     unsent, answered, timed out, failed, abandoned)"
                ));
            }
        }
        self.offset += length as u64;
        match self.input.read(&mut [0]) {
            Ok(0) => {}
            Ok(_) => return self.error("there are bytes after the end block"),
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

/// Fills `bytes`; if the file ends before, `offset` and `what` give the place and the missing part.
fn fill(
    input: &mut impl Read,
    offset: u64,
    bytes: &mut [u8],
    what: &'static str,
) -> Result<(), ReadError> {
    input.read_exact(bytes).map_err(|error| {
        let problem = match error.kind() {
            std::io::ErrorKind::UnexpectedEof => format!("the file ends before the {what}"),
            _ => error.to_string(),
        };
        ReadError { offset, problem }
    })
}
