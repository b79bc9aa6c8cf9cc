//! The requests of a send that reports back: in what pieces they leave, and how far they have left.

use std::collections::VecDeque;
use std::io::Write;
use std::ops::Range;

use super::plan::Step;

/// The requests of a connection's send that has yet to report back, oldest first.
#[derive(Debug, Default)]
pub struct Leaving {
    steps: VecDeque<u16>,
    /// How many bytes of the first have left.
    first_left: usize,
}

/// What leaves next.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes of this step's request, as they were rendered, or of several copies in a row.
    Range(u16, Range<usize>),
    /// Requests of several steps: their bytes are to be put behind each other.
    Gathered,
}

impl Leaving {
    /// Room for this many requests.
    pub fn with_capacity(requests: usize) -> Leaving {
        Leaving { steps: VecDeque::with_capacity(requests), first_left: 0 }
    }

    /// A request of this step leaves behind the others.
    pub fn push(&mut self, step: u16) {
        self.steps.push_back(step);
    }

    /// Nothing of them leaves any more.
    pub fn clear(&mut self) {
        self.steps.clear();
        self.first_left = 0;
    }

    /// How many of them haven't left completely.
    #[inline]
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether all of them have left.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// So many more bytes have left.
    pub fn left(&mut self, steps: &[Step], bytes: usize) {
        self.first_left += bytes;
        while let Some(step) = self.steps.front()
            && steps[usize::from(*step)].request.len() <= self.first_left
        {
            self.first_left -= steps[usize::from(*step)].request.len();
            self.steps.pop_front();
        }
    }

    /// What leaves next, of at most so many bytes; `gathered_max` of them, if they must be put
    /// behind each other.
    pub fn next(&self, steps: &[Step], most: usize, gathered_max: usize) -> Piece {
        let first = self.steps[0];
        let request = &steps[usize::from(first)].request;
        let same = self.steps.iter().take_while(|step| **step == first).count();
        let rest = request.len() - self.first_left;
        let is_alone = same == self.steps.len();
        if is_alone || !request.is_in_memory() || gathered_max < rest {
            let end = request.whole_len().min(same * request.len());
            return Piece::Range(first, self.first_left..end.min(self.first_left + most));
        }
        Piece::Gathered
    }

    /// Puts the next requests behind each other, as far as they fit into so many bytes; returns how
    /// many bytes that is.
    pub fn gather(&self, steps: &[Step], most: usize, out: &mut impl Write) -> usize {
        let mut from = self.first_left;
        let mut written = 0;
        for step in &self.steps {
            let request = &steps[usize::from(*step)].request;
            let length = request.len() - from;
            if !request.is_in_memory() || most < written + length {
                break;
            }
            out.write_all(request.bytes(from..request.len())).expect("there is room for it");
            written += length;
            from = 0;
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use uring::Payload;

    use super::*;

    /// Steps whose requests have these lengths, each in so many copies.
    fn steps(lengths: &[usize], copies: usize) -> Vec<Step> {
        let step = |length: &usize| {
            let bytes = vec![b'a' + u8::try_from(*length).expect("short"); *length];
            Step::for_test(Payload::copied(&bytes, b"", copies).expect("a page"))
        };
        lengths.iter().map(step).collect()
    }

    fn leaving(steps: &[u16]) -> Leaving {
        let mut leaving = Leaving::with_capacity(steps.len());
        steps.iter().for_each(|step| leaving.push(*step));
        leaving
    }

    #[test]
    fn requests_leave_one_after_the_other() {
        let steps = steps(&[3, 5], 1);
        let mut leaving = leaving(&[0, 1, 0]);
        for (bytes, rest) in [(2, 3), (1, 2), (4, 2), (1, 1), (2, 1), (1, 0)] {
            leaving.left(&steps, bytes);
            assert_eq!(leaving.len(), rest, "after {bytes} bytes more");
        }
    }

    #[test]
    fn equal_requests_leave_from_one_range_and_others_are_gathered() {
        let steps = steps(&[3, 5], 4);
        let mut same = leaving(&[1, 1, 1]);
        assert_eq!(same.next(&steps, 100, 100), Piece::Range(1, 0..15));
        assert_eq!(same.next(&steps, 4, 100), Piece::Range(1, 0..4));
        same.left(&steps, 7);
        assert_eq!(same.next(&steps, 100, 100), Piece::Range(1, 2..10));

        let mut mixed = leaving(&[0, 1, 1]);
        let gathered = |leaving: &Leaving, most| {
            assert_eq!(leaving.next(&steps, 100, most), Piece::Gathered);
            let mut out = Vec::new();
            let written = leaving.gather(&steps, most, &mut out);
            assert_eq!(written, out.len());
            String::from_utf8(out).expect("letters")
        };
        assert_eq!(gathered(&mixed, 100), "dddffffffffff");
        assert_eq!(gathered(&mixed, 8), "dddfffff");
        mixed.left(&steps, 1);
        assert_eq!(gathered(&mixed, 7), "ddfffff");
        // What doesn't fit leaves from where it lies.
        assert_eq!(mixed.next(&steps, 100, 1), Piece::Range(0, 1..3));
        mixed.left(&steps, 2);
        assert_eq!(mixed.next(&steps, 100, 100), Piece::Range(1, 0..10));
    }
}
