//! A connection's sends that report back: their pieces, and how far each has left.
//!
//! Identical requests rendered before the run leave straight from memory in one silent send: that
//! fast path bypasses this file. Everything else comes here:
//!
//! - requests above 16 KiB, since their response may overtake them;
//! - requests of several steps, gathered in the ring's outbox;
//! - requests with fields, made there from their numbers;
//! - TLS records, made there too, including the handshake's.
//!
//! A connection has one such send in progress at a time, since two at once on one socket would mix
//! their bytes. The next is made when it has reported back; until then the connection has no room
//! for another request, whatever `--pipeline` asks for.
//!
//! A long request leaves in sends of 256 KiB: one of 1 GiB would keep the shard in the kernel for
//! as long as the target keeps up.
//!
//! The output tracks how many request bytes are in what was made, so neither the ring nor TLS needs
//! to know about requests.

use std::collections::VecDeque;
use std::io::Write;
use std::num::NonZeroU32;
use std::ops::Range;

use load::carried::Carried;

use super::plan::Step;

/// A connection's output.
#[derive(Debug, Default)]
pub struct Output {
    /// The requests that haven't left completely, oldest first.
    requests: VecDeque<Leaving>,
    /// How many bytes of the first have left.
    first_left: usize,
    /// The part of the bytes made that hasn't left.
    made: Range<usize>,
    /// The number of request bytes in them.
    carried: usize,
}

/// A request that is leaving.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    step: u16,
    /// Its length; 0 if its bytes are still to be made.
    length: u32,
    number: u64,
    session: Option<NonZeroU32>,
}

/// What requests are made of.
pub struct Making<'a> {
    /// The requests, by step.
    pub steps: &'a [Step],
    /// The seed of what differs between them.
    pub seed: u64,
    /// What sessions carry, by their places.
    pub carried: &'a [Carried],
    /// Room for one that is made.
    pub room: &'a mut Vec<u8>,
}

/// The next piece to leave.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes of this step's request as rendered, possibly several copies in a row.
    Range(u16, Range<usize>),
    /// Requests whose bytes have to be gathered, or made.
    Gathered,
}

/// The next action when a send has completed.
#[derive(Debug, PartialEq, Eq)]
pub enum Left {
    /// Send the rest of the bytes made.
    Rest(Range<usize>),
    /// Send what leaves next.
    More,
    /// Nothing: everything has left.
    All,
}

impl Output {
    /// Room for this many requests.
    pub fn with_capacity(requests: usize) -> Output {
        Output { requests: VecDeque::with_capacity(requests), ..Output::default() }
    }

    /// The request of this step, number and session leaves after the others.
    pub fn push(&mut self, step: u16, number: u64, session: Option<NonZeroU32>) {
        self.requests.push_back(Leaving { step, length: 0, number, session });
    }

    /// Nothing leaves any more.
    pub fn clear(&mut self) {
        self.requests.clear();
        (self.first_left, self.made, self.carried) = (0, 0..0, 0);
    }

    /// The number of requests that haven't left completely.
    #[inline]
    pub fn requests(&self) -> usize {
        self.requests.len()
    }

    /// The number of request bytes that have yet to leave, without those of requests still to be
    /// made.
    pub fn bytes(&self, steps: &[Step]) -> usize {
        let lengths = self.requests.iter().map(|request| request.length(steps));
        lengths.sum::<usize>() - self.first_left
    }

    /// The number of request bytes that were made and haven't left.
    pub fn carried(&self) -> usize {
        self.carried
    }

    /// Bytes are made and leave: `made` in all, which carry `carried` bytes of requests.
    pub fn make(&mut self, made: usize, carried: usize) {
        assert!(self.made.is_empty(), "one send at a time");
        (self.made, self.carried) = (0..made, carried);
    }

    /// Another `bytes` have left; `whole`: no more bytes have to be made for their requests. `gone`
    /// gets the number and the length of each request that has left completely with them.
    pub fn left(
        &mut self,
        steps: &[Step],
        bytes: usize,
        whole: bool,
        gone: impl FnMut(u64, usize),
    ) -> Left {
        if self.made.is_empty() {
            self.requests_left(steps, bytes, gone);
        } else {
            self.made.start += bytes;
            if !self.made.is_empty() {
                return Left::Rest(self.made.clone());
            }
            if whole {
                let carried = std::mem::take(&mut self.carried);
                self.requests_left(steps, carried, gone);
            }
        }
        if whole && self.requests.is_empty() { Left::All } else { Left::More }
    }

    fn requests_left(&mut self, steps: &[Step], bytes: usize, mut gone: impl FnMut(u64, usize)) {
        self.first_left += bytes;
        while let Some(request) = self.requests.front()
            && let length @ 1.. = request.length(steps)
            && length <= self.first_left
        {
            gone(request.number, length);
            self.first_left -= length;
            self.requests.pop_front();
        }
    }

    /// The next piece to leave, of at most `most` bytes; `gathered_max` if it must be gathered.
    /// `None` without a request.
    pub fn next(&self, steps: &[Step], most: usize, gathered_max: usize) -> Option<Piece> {
        let first = self.requests.front()?.step;
        let Step { request, values, .. } = &steps[usize::from(first)];
        if values.is_some() {
            return Some(Piece::Gathered);
        }
        let same = self.requests.iter().take_while(|request| request.step == first).count();
        let rest = request.len() - self.first_left;
        let is_alone = same == self.requests.len();
        if is_alone || !request.is_in_memory() || gathered_max < rest {
            let end = request.whole_len().min(same * request.len());
            return Some(Piece::Range(first, self.first_left..end.min(self.first_left + most)));
        }
        Some(Piece::Gathered)
    }

    /// Gathers the next requests, as far as they fit into `most` bytes, and marks them as made;
    /// returns the number of bytes.
    pub fn gather_into(&mut self, of: Making<'_>, most: usize, out: &mut impl Write) -> usize {
        let made = self.gather(of, most, out);
        self.make(made, made);
        made
    }

    /// Gathers the next requests, as far as they fit into `most` bytes; returns the number of
    /// bytes. The first one may be cut.
    pub fn gather(&mut self, of: Making<'_>, most: usize, out: &mut impl Write) -> usize {
        let Making { steps, seed, carried, room } = of;
        let mut from = self.first_left;
        let mut written = 0;
        for request in &mut self.requests {
            let Step { request: rendered, values, .. } = &steps[usize::from(request.step)];
            let bytes = match values {
                Some(values) => {
                    let carried = carried_by(carried, request.session);
                    values.render(seed, request.number, carried, room);
                    request.length = u32::try_from(room.len()).expect("a request that was made");
                    &room[from..]
                }
                None if rendered.is_in_memory() => rendered.bytes(from..rendered.len()),
                None => break,
            };
            let fits = written + bytes.len() <= most;
            if !fits && 0 < written {
                break;
            }
            let bytes = &bytes[..bytes.len().min(most)];
            out.write_all(bytes).expect("there is room for it");
            written += bytes.len();
            from = 0;
            if !fits {
                break;
            }
        }
        written
    }
}

/// What a request's session carries, if it has one.
pub fn carried_by(carried: &[Carried], session: Option<NonZeroU32>) -> Option<&Carried> {
    carried.get(session?.get() as usize - 1)
}

impl Leaving {
    /// Its length, bytes; 0 if it is still to be made.
    fn length(&self, steps: &[Step]) -> usize {
        let Step { request, values, .. } = &steps[usize::from(self.step)];
        if values.is_some() { self.length as usize } else { request.len() }
    }
}

#[cfg(test)]
mod tests {
    use uring::Payload;

    use super::*;

    /// Steps whose requests have these lengths, each with this many copies.
    fn steps(lengths: &[usize], copies: usize) -> Vec<Step> {
        let step = |length: &usize| {
            let bytes = vec![b'a' + u8::try_from(*length).expect("short"); *length];
            Step::for_test(Payload::copied(&bytes, b"", copies).expect("a page"))
        };
        lengths.iter().map(step).collect()
    }

    fn output(steps: &[u16]) -> Output {
        let mut output = Output::with_capacity(steps.len());
        (0..).zip(steps).for_each(|(number, step)| output.push(*step, number, None));
        output
    }

    #[test]
    fn requests_leave_one_after_the_other() {
        let steps = steps(&[3, 5], 1);
        let mut output = output(&[0, 1, 0]);
        for (bytes, rest) in [(2, 3), (1, 2), (4, 2), (1, 1), (2, 1), (1, 0)] {
            let left = if rest == 0 { Left::All } else { Left::More };
            assert_eq!(
                output.left(&steps, bytes, true, |_, _| ()),
                left,
                "after {bytes} bytes more"
            );
            assert_eq!(output.requests(), rest, "after {bytes} bytes more");
        }
    }

    #[test]
    fn requests_in_what_was_made_have_left_when_all_of_it_has() {
        let steps = steps(&[3, 5], 1);
        let mut output = output(&[0, 1, 0]);
        assert_eq!(output.bytes(&steps), 11);
        output.make(40, 5);
        assert_eq!(output.left(&steps, 39, true, |_, _| ()), Left::Rest(39..40));
        // Another part of what carries them still has to be made.
        assert_eq!((output.left(&steps, 1, false, |_, _| ()), output.requests()), (Left::More, 3));
        output.make(10, output.carried());
        assert_eq!((output.left(&steps, 10, true, |_, _| ()), output.requests()), (Left::More, 2));
        assert_eq!((output.carried(), output.bytes(&steps)), (0, 6));
        output.make(20, 6);
        assert_eq!((output.left(&steps, 20, true, |_, _| ()), output.requests()), (Left::All, 0));
        // TLS has bytes of its own to send.
        output.make(7, 0);
        assert_eq!(output.left(&steps, 7, true, |_, _| ()), Left::All);
    }

    #[test]
    fn equal_requests_leave_from_one_range_and_others_are_gathered() {
        let steps = steps(&[3, 5], 4);
        let mut same = output(&[1, 1, 1]);
        assert_eq!(same.next(&steps, 100, 100), Some(Piece::Range(1, 0..15)));
        assert_eq!(same.next(&steps, 4, 100), Some(Piece::Range(1, 0..4)));
        same.left(&steps, 7, true, |_, _| ());
        assert_eq!(same.next(&steps, 100, 100), Some(Piece::Range(1, 2..10)));

        let mut mixed = output(&[0, 1, 1]);
        let gathered = |output: &mut Output, most| {
            assert_eq!(output.next(&steps, 100, most), Some(Piece::Gathered));
            let (mut out, mut room) = (Vec::new(), Vec::new());
            let of = Making { steps: &steps, seed: 1, carried: &[], room: &mut room };
            let written = output.gather(of, most, &mut out);
            assert_eq!(written, out.len());
            String::from_utf8(out).expect("letters")
        };
        assert_eq!(gathered(&mut mixed, 100), "dddffffffffff");
        assert_eq!(gathered(&mut mixed, 8), "dddfffff");
        mixed.left(&steps, 1, true, |_, _| ());
        assert_eq!(gathered(&mut mixed, 7), "ddfffff");
        // What doesn't fit leaves straight from memory.
        assert_eq!(mixed.next(&steps, 100, 1), Some(Piece::Range(0, 1..3)));
        mixed.left(&steps, 2, true, |_, _| ());
        assert_eq!(mixed.next(&steps, 100, 100), Some(Piece::Range(1, 0..10)));
    }
}
