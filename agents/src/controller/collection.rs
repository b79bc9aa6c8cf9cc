//! An agent's results, as they come: its shards', its report, then its raw samples part by part.
//!
//! A part of the samples is sent only when it is asked for, and it is asked for when the disk here
//! has room. So a slow disk delays nothing else in a session, however long it takes.

use engine::report::collected::CollectedHead;

use super::fault::Fault;
use super::sample_file::Chunk;
use crate::frame::Kind;
use crate::message::{PART_BYTES, Part, Results, ShardState, Wanted};

/// The most shards of an agent: more cores than a machine has.
pub(super) const SHARDS_MAX: usize = 4_096;
/// How many parts one agent may have been asked for: enough to fill a long link.
const ASKED_MAX: u64 = 8;

/// What one agent has sent of its results.
#[derive(Default)]
pub(super) struct Collection {
    shards: Vec<ShardState>,
    head: Option<Box<CollectedHead>>,
    samples: Transfer,
}

/// How far the file with its raw samples has come, bytes.
#[derive(Default)]
struct Transfer {
    length: u64,
    /// The parts up to here have been asked for.
    asked: u64,
    /// The parts up to here have come.
    arrived: u64,
}

impl Collection {
    /// Takes the results of a shard.
    ///
    /// # Errors
    /// They aren't expected any more.
    pub(super) fn shard(&mut self, shard: ShardState) -> Result<(), Fault> {
        if self.head.is_some() || self.shards.len() == SHARDS_MAX {
            return Err(Fault::OutOfTurn(Kind::Shard));
        }
        self.shards.push(shard);
        Ok(())
    }

    /// Takes the rest of the report. If samples are wanted and it has none, returns what its file
    /// gets instead.
    ///
    /// # Errors
    /// It came twice, or shards are missing.
    pub(super) fn report(
        &mut self,
        results: Results,
        wants_samples: bool,
    ) -> Result<Option<Chunk>, Fault> {
        let Results { head, shards, samples_bytes } = results;
        if self.head.is_some() {
            return Err(Fault::OutOfTurn(Kind::Report));
        }
        let here = self.shards.len();
        if here == 0 || usize::try_from(shards) != Ok(here) {
            return Err(Fault::Results(format!("{here} of {shards} shards are there")));
        }
        self.head = Some(head);
        self.samples.length = if wants_samples { samples_bytes } else { 0 };
        let none = || Chunk { bytes: Vec::new().into(), is_last: true };
        Ok((wants_samples && samples_bytes == 0).then(none))
    }

    /// The length of the next part to ask for; `None` while there is none.
    pub(super) fn next_bytes(&self) -> Option<usize> {
        let Transfer { length, asked, arrived } = self.samples;
        let may_ask = asked < length && asked - arrived < ASKED_MAX * PART_BYTES as u64;
        may_ask.then(|| part_bytes(length - asked))
    }

    /// Asks for that part.
    pub(super) fn ask(&mut self) -> Wanted {
        let offset = self.samples.asked;
        self.samples.asked += part_bytes(self.samples.length - offset) as u64;
        Wanted { number: 0, offset }
    }

    /// The rest of the samples isn't wanted, since there is no place for it.
    pub(super) fn forgo_samples(&mut self) {
        self.samples.length = self.samples.asked;
    }

    /// Takes a part of the samples.
    ///
    /// # Errors
    /// It isn't the one that is due, or not whole.
    pub(super) fn part(&mut self, part: Part) -> Result<Chunk, Fault> {
        let Transfer { length, asked, arrived } = &mut self.samples;
        let due = part_bytes(*asked - *arrived);
        if due == 0 {
            return Err(Fault::OutOfTurn(Kind::Part));
        }
        let Part { offset, bytes, .. } = part;
        let found = bytes.as_slice().len();
        if (offset, found) != (*arrived, due) {
            let found = format!("{found} bytes of samples at {offset}");
            return Err(Fault::Results(format!("{found}, due are {due} at {arrived}")));
        }
        *arrived += due as u64;
        Ok(Chunk { bytes, is_last: arrived == length })
    }

    /// Bytes that were asked for and haven't come.
    pub(super) fn awaited_bytes(&self) -> usize {
        let Transfer { asked, arrived, .. } = self.samples;
        usize::try_from(asked - arrived).expect("a few parts")
    }

    /// True once the report is here, though samples may be missing.
    pub(super) fn is_reported(&self) -> bool {
        self.head.is_some()
    }

    /// True once all is here.
    pub(super) fn is_whole(&self) -> bool {
        self.is_reported() && self.samples.arrived == self.samples.length
    }

    /// The results; `None` if the report isn't here.
    pub(super) fn results(self) -> Option<(CollectedHead, Vec<ShardState>)> {
        Some((*self.head?, self.shards))
    }
}

/// The length of the first part of this many bytes.
fn part_bytes(rest: u64) -> usize {
    usize::try_from(rest).map_or(PART_BYTES, |rest| rest.min(PART_BYTES))
}
