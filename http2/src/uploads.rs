//! The streams whose request bodies can go on, in turn.

use std::collections::VecDeque;

/// A queue of stream identifiers. Some may have ended since they were queued.
#[derive(Debug)]
pub(crate) struct Uploads {
    queue: VecDeque<u32>,
    /// How many it holds before those that have ended are removed.
    length_max: usize,
}

impl Uploads {
    /// Room for twice as many as can be open, so that removing the others is seldom needed.
    pub(crate) fn new(streams_max: usize) -> Uploads {
        let length_max = 2 * streams_max.max(1);
        Uploads { queue: VecDeque::with_capacity(length_max), length_max }
    }

    /// Nothing is queued any more; the queue keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.queue.clear();
    }

    /// True if none is queued.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The one whose turn it is.
    #[inline]
    pub(crate) fn first(&self) -> Option<u32> {
        self.queue.front().copied()
    }

    /// Removes that one.
    #[inline]
    pub(crate) fn remove_first(&mut self) {
        self.queue.pop_front();
    }

    /// Adds one at the end; `is_open` is true for those of the others that are still open.
    pub(crate) fn push(&mut self, id: u32, is_open: impl FnMut(&u32) -> bool) {
        if self.queue.len() == self.length_max {
            self.queue.retain(is_open);
        }
        self.queue.push_back(id);
    }
}
