//! Reads raw samples as a stream, one block in memory at a time, and trusts nothing in them.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use record::counts::Counts;

use super::frame::{
    BLOCK_HEAD_BYTES, BLOCK_MAGIC, BlockHead, END_MAGIC, End, HEADER_BYTES, Header, LAST_MAGIC,
    Place, SEGMENT_MAGIC, SegmentEnd, compare_sums,
};
use super::sample::{SAMPLE_BYTES, Sample, SampleKind};
use super::sampler::BLOCK_RECORDS;
use super::segments::{first_path, segment_path};

/// A problem with raw samples, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}at byte {offset}: {problem}", shown(*segment))]
pub struct ReadError {
    /// The number of the segment, from 1.
    pub segment: u32,
    /// Offset of the faulty part in the segment, bytes.
    pub offset: u64,
    /// The problem, as a clause.
    pub problem: String,
}

/// Most samples are one segment, which needs no number.
fn shown(segment: u32) -> String {
    if segment <= 1 { String::new() } else { format!("segment {segment}, ") }
}

/// Opens the file of a segment.
type Open<R> = fn(&Path) -> std::io::Result<R>;

/// The samples of a run, in the order of its segments: those behind one another in a stream, or in
/// files named after the first. The iterator ends after complete samples or after an error;
/// [`SampleReader::end`] is available only after it has ended without an error.
#[derive(Debug)]
pub struct SampleReader<R> {
    input: R,
    /// The first segment's file, and how to open another; `None` for a stream.
    files: Option<(PathBuf, Open<R>)>,
    offset: u64,
    header: Header,
    place: Place,
    /// The first segment that was read.
    first: u32,
    /// The segment's end, once it has been read.
    segment_end: Option<SegmentEnd>,
    blocks_checksum: crc32fast::Hasher,
    seen: Vec<Seen>,
    block: VecDeque<Sample>,
    bytes: Vec<u8>,
    end: Option<End>,
    over: bool,
}

/// The records read for one shard.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// Blocks of the segment.
    blocks: u32,
    /// Records of the segment.
    records: u64,
    /// Outcomes of all segments.
    counts: Counts,
}

impl SampleReader<BufReader<File>> {
    /// Opens the file of a segment, the first for all samples, and reads its header. The files of
    /// later segments follow.
    ///
    /// # Errors
    /// The file can't be opened, or its header is invalid.
    pub fn open(path: &Path) -> Result<SampleReader<BufReader<File>>, ReadError> {
        let open: fn(&Path) -> std::io::Result<BufReader<File>> =
            |path| File::open(path).map(BufReader::new);
        let file = open(path).map_err(|error| {
            let problem = format!("can't be opened: {error}");
            ReadError { segment: 1, offset: 0, problem }
        })?;
        let mut reader = SampleReader::new(file)?;
        reader.files = Some((first_path(path, reader.place.segment), open));
        Ok(reader)
    }

    /// Checks a segment alone: that its file is whole, and is this segment of the run whose
    /// samples these are.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check_segment(&self, path: &Path, segment: u32) -> Result<(), ReadError> {
        let mut alone = SampleReader::open(path)?;
        let due = Place { segment, ..self.place };
        belongs((self.header, due), (alone.header, alone.place))?;
        while alone.end.is_none() && alone.segment_end.as_ref().is_none_or(|end| end.is_last) {
            alone.advance()?;
            alone.block.clear();
        }
        Ok(())
    }
}

impl<R: Read> SampleReader<R> {
    /// Reads the header of the first segment of a stream.
    ///
    /// # Errors
    /// The header is invalid.
    pub fn new(mut input: R) -> Result<SampleReader<R>, ReadError> {
        let mut bytes = [0; HEADER_BYTES];
        let at = At { segment: 1, offset: 0 };
        fill(&mut input, at, &mut bytes, "header")?;
        let (header, place) = Header::decode(&bytes).or_else(|problem| at.error(problem))?;
        Ok(SampleReader {
            input,
            files: None,
            offset: HEADER_BYTES as u64,
            seen: vec![Seen::default(); header.shards as usize],
            header,
            place,
            first: place.segment,
            segment_end: None,
            blocks_checksum: crc32fast::Hasher::new(),
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

    /// The number of the segment that is read, from 1.
    pub fn segment(&self) -> u32 {
        self.place.segment.max(1)
    }

    /// The end block, once all segments have been read and are complete.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    fn at(&self) -> At {
        At { segment: self.segment(), offset: self.offset }
    }

    /// The error of a part that begins here.
    fn error<T>(&self, problem: impl Into<String>) -> Result<T, ReadError> {
        self.at().error(problem)
    }

    /// Reads the next block into memory, or the end.
    fn advance(&mut self) -> Result<(), ReadError> {
        if self.segment_end.as_ref().is_some_and(|end| !end.is_last) {
            return self.next_segment();
        }
        let mut magic = [0; 4];
        let what = "end block: the file is incomplete, its writer did not finish it";
        let at = self.at();
        fill(&mut self.input, at, &mut magic, what)?;
        match magic {
            BLOCK_MAGIC if self.segment_end.is_none() => self.read_block(),
            SEGMENT_MAGIC | LAST_MAGIC if self.segment_end.is_none() => {
                self.read_segment_end(magic)
            }
            // Without segments, nothing else ends the blocks.
            END_MAGIC if self.segment_end.is_some() || self.place.segment == 0 => self.read_end(),
            _ => self.error("neither a block nor the end block begins here"),
        }
    }

    /// Goes on to the next segment: the one behind this one, or that in the next file.
    fn next_segment(&mut self) -> Result<(), ReadError> {
        let due = Place { segment: self.place.segment + 1, ..self.place };
        let mut bytes = [0; HEADER_BYTES];
        let behind = self.input.read(&mut bytes[..1]);
        let behind = behind.or_else(|error| self.error(error.to_string()))?;
        let at = At { segment: due.segment, offset: 0 };
        if behind == 0 {
            let Some((first, open)) = &self.files else { return at.error("it is missing") };
            let path = segment_path(first, due.segment);
            self.input = open(&path).or_else(|error| {
                at.error(format!("it is missing: {} can't be opened ({error})", path.display()))
            })?;
        }
        fill(&mut self.input, at, &mut bytes[behind..], "header")?;
        let (header, place) = Header::decode(&bytes).or_else(|problem| at.error(problem))?;
        belongs((self.header, due), (header, place))?;
        (self.place, self.offset, self.segment_end) = (place, HEADER_BYTES as u64, None);
        self.blocks_checksum = crc32fast::Hasher::new();
        for seen in &mut self.seen {
            (seen.blocks, seen.records) = (0, 0);
        }
        Ok(())
    }

    /// Reads the end of a segment that begins with this magic.
    fn read_segment_end(&mut self, magic: [u8; 4]) -> Result<(), ReadError> {
        let mut bytes = magic.to_vec();
        bytes.resize(SegmentEnd::length(self.seen.len()), 0);
        let at = self.at();
        fill(&mut self.input, at, &mut bytes[4..], "rest of the segment's end")?;
        let end = SegmentEnd::decode(&bytes).or_else(|problem| self.error(problem))?;
        let checksum = self.blocks_checksum.clone().finalize();
        compare_sums("blocks' checksums", end.blocks_checksum, checksum)
            .or_else(|problem| self.error(problem))?;
        for (shard, (stated, seen)) in end.records.iter().zip(&self.seen).enumerate() {
            let found = seen.records;
            if *stated != found {
                return self.error(format!(
                    "shard {shard} has {found} records here, the segment's end states {stated}"
                ));
            }
        }
        self.offset += bytes.len() as u64;
        self.segment_end = Some(end);
        Ok(())
    }

    fn read_block(&mut self) -> Result<(), ReadError> {
        let mut bytes = [0; BLOCK_HEAD_BYTES];
        bytes[..4].copy_from_slice(&BLOCK_MAGIC);
        let at = self.at();
        fill(&mut self.input, at, &mut bytes[4..], "rest of a block")?;
        let head = BlockHead::decode(bytes);
        let (shard, records) = (head.shard.get(), head.records.get() as usize);
        if records == 0 || BLOCK_RECORDS < records {
            return self.error(format!("a block can't have {records} records"));
        }
        self.bytes.resize(records * SAMPLE_BYTES, 0);
        fill(&mut self.input, at, &mut self.bytes, "rest of a block")?;
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
        seen.records += records as u64;
        self.blocks_checksum.update(&head.checksum.get().to_le_bytes());
        for (at, record) in self.bytes.as_chunks::<SAMPLE_BYTES>().0.iter().enumerate() {
            let offset = self.offset + (BLOCK_HEAD_BYTES + at * SAMPLE_BYTES) as u64;
            let sample = Sample::decode(shard, record);
            let at = At { offset, ..self.at() };
            let sample = sample.or_else(|problem| at.error(problem))?;
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
        let at = self.at();
        fill(&mut self.input, at, &mut bytes[4..], "rest of the end block")?;
        let end = End::decode(&bytes, self.header.shards);
        let end = end.or_else(|problem| self.error(problem))?;
        // Without the first segment, the run's sums can't be compared.
        let all = end.shards.iter().zip(&self.seen).take(match self.first {
            0 | 1 => self.seen.len(),
            _ => 0,
        });
        for (shard, (end, seen)) in all.enumerate() {
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
        while self.block.is_empty() && !self.over {
            if let Err(error) = self.advance() {
                self.over = true;
                self.block.clear();
                return Some(Err(error));
            }
            self.over = self.end.is_some();
        }
        self.block.pop_front().map(Ok)
    }
}

/// Checks that a header belongs to these samples, in this place.
fn belongs(due: (Header, Place), found: (Header, Place)) -> Result<(), ReadError> {
    let at = At { segment: due.1.segment, offset: 0 };
    if found.1.segment != due.1.segment {
        return at.error(format!("segment {} is in its place", found.1.segment));
    }
    if found != due {
        return at.error("it is of another run");
    }
    Ok(())
}

/// A place in the samples.
#[derive(Clone, Copy)]
struct At {
    segment: u32,
    offset: u64,
}

impl At {
    /// The error of the part that begins here.
    fn error<T>(self, problem: impl Into<String>) -> Result<T, ReadError> {
        let At { segment, offset } = self;
        Err(ReadError { segment, offset, problem: problem.into() })
    }
}

/// Fills `bytes`; if the file ends before, `at` and `what` give the place and the missing part.
fn fill(
    input: &mut impl Read,
    at: At,
    bytes: &mut [u8],
    what: &'static str,
) -> Result<(), ReadError> {
    input.read_exact(bytes).or_else(|error| {
        at.error(match error.kind() {
            std::io::ErrorKind::UnexpectedEof => format!("the file ends before the {what}"),
            _ => error.to_string(),
        })
    })
}
