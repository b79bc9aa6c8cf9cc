//! The shard's side of raw samples: fills preallocated blocks and hands them over without blocking
//! or system calls.
//!
//! Blocks circulate between shard and writer through two queues, each with room for all of them, so
//! handing one over never fails. If no empty block has come back in time, the sample is lost and
//! counted.

use std::sync::Arc;

use crossbeam_queue::ArrayQueue;
use record::outcome::Outcome;
use record::samples::Sampled;
use record::stamps::{Ending, Stamps};

use super::sample::{SAMPLE_BYTES, Sample};

/// Records per block: 160 KiB, large enough that a write costs little beyond its bytes.
pub const BLOCK_RECORDS: usize = 4_096;
/// Blocks of one shard, 5 MiB: a disk may stall for 0.6 s at 200,000 requests/s, or 6 s at 20,000.
pub const BLOCKS: usize = 32;

/// Records on their way. The slots of a queue are as aligned as what they hold, so that no two
/// shards' queues have a line in common, or a pair of lines that is prefetched together.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Block(Vec<[u8; SAMPLE_BYTES]>);

impl Block {
    /// Its records.
    pub(super) fn bytes(&self) -> &[u8] {
        self.0.as_flattened()
    }
}

/// The queues between one shard and the writer.
#[derive(Clone, Debug)]
pub struct Lane {
    shard: u16,
    queues: Arc<Queues>,
}

#[derive(Debug)]
struct Queues {
    full: ArrayQueue<Block>,
    empty: ArrayQueue<Block>,
}

impl Lane {
    pub(super) fn new(shard: u16) -> Lane {
        let queues = Queues { full: ArrayQueue::new(BLOCKS), empty: ArrayQueue::new(BLOCKS) };
        Lane { shard, queues: Arc::new(queues) }
    }

    /// The shard's end, with all its memory. Call it on the shard's own thread, whose first touch
    /// places the pages.
    pub fn sampler(self) -> Sampler {
        let block = || {
            // Written once, so that no page is touched for the first time while the shard runs.
            let mut records = vec![[0xff; SAMPLE_BYTES]; BLOCK_RECORDS];
            records.clear();
            Block(records)
        };
        for _ in 1..BLOCKS {
            self.give_back(block());
        }
        Sampler { block: block(), taken: 0, lost: 0, lane: self }
    }

    pub(super) fn take_full(&self) -> Option<Block> {
        self.queues.full.pop()
    }

    pub(super) fn give_back(&self, mut block: Block) {
        block.0.clear();
        self.queues.empty.push(block).expect("the queue holds all blocks");
    }
}

/// The shard's end of a lane.
#[derive(Debug)]
pub struct Sampler {
    block: Block,
    taken: u64,
    lost: u64,
    lane: Lane,
}

impl Sampler {
    /// Takes the sample of a request of the window that has ended.
    #[inline]
    pub fn push(&mut self, number: u64, stamps: &Stamps, ending: Ending, outcome: Outcome) {
        if self.block.0.len() == BLOCK_RECORDS && !self.exchange() {
            self.lost += 1;
            return;
        }
        self.taken += 1;
        self.block.0.push(Sample::new((self.lane.shard, number), stamps, ending, outcome).encode());
    }

    /// Counts samples as lost: only the number of their requests is known.
    pub fn lose(&mut self, count: u64) {
        self.lost += count;
    }

    /// Exchanges the full block for an empty one; returns false if there was none.
    #[cold]
    fn exchange(&mut self) -> bool {
        let Some(empty) = self.lane.queues.empty.pop() else { return false };
        let full = std::mem::replace(&mut self.block, empty);
        self.lane.queues.full.push(full).expect("the queue holds all blocks");
        true
    }

    /// Hands over the last block. Call it before the writer is asked to finish.
    pub fn finish(self) -> Sampled {
        self.lane.queues.full.push(self.block).expect("the queue holds all blocks");
        Sampled { taken: self.taken, lost: self.lost }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMPS: Stamps =
        Stamps { intended_ns: 1, noticed_ns: 2, sent_ns: 3, waited: false, step: 0, session: None };

    #[test]
    fn without_a_writer_samples_are_lost_and_counted() {
        let lane = Lane::new(0);
        let mut sampler = lane.clone().sampler();
        let room = BLOCKS * BLOCK_RECORDS;
        for _ in 0..room + 10 {
            sampler.push(9, &STAMPS, Ending::at(4), Outcome::Answered(200));
        }
        assert_eq!(sampler.finish(), Sampled { taken: room as u64, lost: 10 });
        let mut blocks = 0;
        while let Some(block) = lane.take_full() {
            assert_eq!(block.0.len(), BLOCK_RECORDS);
            blocks += 1;
        }
        assert_eq!(blocks, BLOCKS);
    }

    #[test]
    fn a_block_that_comes_back_is_filled_again() {
        let lane = Lane::new(0);
        let mut sampler = lane.clone().sampler();
        for _ in 0..3 * BLOCKS * BLOCK_RECORDS {
            sampler.push(9, &STAMPS, Ending::at(4), Outcome::Answered(200));
            if let Some(block) = lane.take_full() {
                lane.give_back(block);
            }
        }
        assert_eq!(sampler.finish().lost, 0);
    }
}
