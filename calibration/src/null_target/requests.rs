//! What a connection's bytes ask for: requests, in any split, to answers owed in order.
//!
//! There is no socket here. A load generator sends the same bytes again and again, so a head that equals the one read
//! last is not read again; everything else takes the slow way, which only needs to be right.

use std::collections::VecDeque;

use super::answers::Answer;

/// Bytes in one request head, at most; a longer one ends the connection.
const HEAD_MAX: usize = 16 * 1024;

/// Changes between forms of the answer that a connection may be owed at once; one more ends it. A client that reads
/// what it asked for has one.
const RUNS_MAX: usize = 64;

/// What a request's head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    answer: Answer,
    body_bytes: u64,
}

/// The head that was read last, with its bytes: shared by a thread's connections.
#[derive(Debug, Default)]
pub(super) struct Known {
    bytes: Vec<u8>,
    head: Option<Head>,
}

/// The requests of one connection.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// The part seen so far of a split head.
    partial: Vec<u8>,
    /// The request whose body is being skipped, and how much of it is to come.
    body: Option<(Answer, u64)>,
    /// Answers owed, as runs of one form.
    owed: VecDeque<(Answer, u64)>,
    ended: bool,
}

impl Requests {
    /// Forgets everything: the next connection begins.
    pub(super) fn reset(&mut self) {
        self.partial = Vec::new();
        self.body = None;
        self.owed.clear();
        self.ended = false;
    }

    /// Nothing more will be answered than what is owed.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// Whether nothing more will be asked.
    pub(super) fn is_ended(&self) -> bool {
        self.ended
    }

    /// The next run of answers owed.
    #[inline]
    pub(super) fn owed(&self) -> Option<(Answer, u64)> {
        self.owed.front().copied()
    }

    /// `count` answers of the next run are on their way.
    #[inline]
    pub(super) fn paid(&mut self, count: u64) {
        let run = self.owed.front_mut().expect("only what is owed is paid");
        run.1 -= count;
        if run.1 == 0 {
            self.owed.pop_front();
        }
    }

    /// Takes the next bytes of the connection; returns how many requests they complete.
    pub(super) fn take(&mut self, mut bytes: &[u8], known: &mut Known) -> u64 {
        let mut completed = 0;
        while !bytes.is_empty() && !self.ended {
            if let Some((answer, remaining)) = self.body {
                let taken = usize::try_from(remaining).map_or(bytes.len(), |n| n.min(bytes.len()));
                bytes = &bytes[taken..];
                self.body = Some((answer, remaining - taken as u64));
            } else {
                let Some((head, taken)) = self.take_head(bytes, known) else { break };
                bytes = &bytes[taken..];
                self.body = Some((head.answer, head.body_bytes));
            }
            if let Some((answer, 0)) = self.body {
                self.body = None;
                completed += u64::from(self.owe(answer));
            }
        }
        completed
    }

    /// Adds an answer to what is owed; whether there was room.
    fn owe(&mut self, answer: Answer) -> bool {
        match self.owed.back_mut() {
            Some((last, count)) if *last == answer => *count += 1,
            _ => {
                if RUNS_MAX <= self.owed.len() {
                    self.ended = true;
                    return false;
                }
                self.owed.push_back((answer, 1));
            }
        }
        self.ended = matches!(answer, Answer::WholeLast | Answer::HeadLast);
        true
    }

    /// Takes a head, or the rest of one; `None` when it is unfinished or no head of HTTP/1, which ends the connection.
    #[inline]
    fn take_head(&mut self, bytes: &[u8], known: &mut Known) -> Option<(Head, usize)> {
        if let Some(head) = known.head
            && self.partial.is_empty()
            && bytes.starts_with(&known.bytes)
        {
            return Some((head, known.bytes.len()));
        }
        self.read_head(bytes, known)
    }

    fn read_head(&mut self, bytes: &[u8], known: &mut Known) -> Option<(Head, usize)> {
        let seen = self.partial.len();
        let room = HEAD_MAX - seen;
        self.partial.extend_from_slice(&bytes[..bytes.len().min(room)]);
        // The blank line may have begun in the bytes before.
        let Some(end) = find_head_end(&self.partial, seen.saturating_sub(2)) else {
            self.ended = self.partial.len() == HEAD_MAX;
            return None;
        };
        let mut read = std::mem::take(&mut self.partial);
        read.truncate(end);
        let Some(head) = parse_head(&read) else {
            self.ended = true;
            return None;
        };
        *known = Known { bytes: read, head: Some(head) };
        Some((head, end - seen))
    }
}

/// Where the head ends: behind the first empty line that follows a line. Empty lines before the request line belong to
/// the head (RFC 9112, section 2.2).
fn find_head_end(bytes: &[u8], from: usize) -> Option<usize> {
    let blank = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let from = from.max(blank);
    let line_end =
        |at: &usize| matches!(&bytes[*at..], [b'\n', b'\n', ..] | [b'\n', b'\r', b'\n', ..]);
    let at = (from..bytes.len()).find(line_end)?;
    Some(if bytes[at + 1] == b'\n' { at + 2 } else { at + 3 })
}

/// What a whole head says; `None` when it can't be understood.
fn parse_head(bytes: &[u8]) -> Option<Head> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut lines = text.trim_start_matches(['\r', '\n']).lines();
    let mut words = lines.next()?.split(' ');
    let (method, _path, version) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() {
        return None;
    }
    let mut last = match version {
        "HTTP/1.1" => false,
        "HTTP/1.0" => true,
        _ => return None,
    };
    let mut body_bytes = None;
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':')?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            let length: u64 = value.parse().ok()?;
            if body_bytes.is_some_and(|known| known != length) {
                return None;
            }
            body_bytes = Some(length);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            // Where such a body ends is not looked for, so nothing behind it can be understood.
            last = true;
        } else if name.eq_ignore_ascii_case("connection") {
            last |= value.split(',').any(|option| option.trim().eq_ignore_ascii_case("close"));
        }
    }
    let answer = match (method, last) {
        ("HEAD", false) => Answer::Head,
        ("HEAD", true) => Answer::HeadLast,
        (_, false) => Answer::Whole,
        (_, true) => Answer::WholeLast,
    };
    Some(Head { answer, body_bytes: body_bytes.unwrap_or(0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers owed after these pieces, one by one, and whether the connection ended.
    fn ask(pieces: &[&[u8]], known: &mut Known) -> (Vec<Answer>, bool) {
        let mut requests = Requests::default();
        let completed: u64 = pieces.iter().map(|piece| requests.take(piece, known)).sum();
        let mut answers = Vec::new();
        while let Some((answer, _)) = requests.owed() {
            answers.push(answer);
            requests.paid(1);
        }
        assert_eq!(answers.len() as u64, completed, "what was completed is owed");
        (answers, requests.is_ended())
    }

    /// Whole, byte by byte and at every two-way split, with and without a head that is known: one answer.
    fn check(input: &str, answers: &[Answer], ended: bool) {
        let expected = (answers.to_vec(), ended);
        let bytes = input.as_bytes();
        for known in [&mut Known::default(), &mut Known::default()] {
            assert_eq!(ask(&[bytes], known), expected, "whole: {input:?}");
            assert_eq!(ask(&[bytes], known), expected, "again: {input:?}");
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(ask(&single, known), expected, "byte by byte: {input:?}");
            for at in 0..bytes.len() {
                let (first, second) = bytes.split_at(at);
                assert_eq!(ask(&[first, second], known), expected, "split at {at}: {input:?}");
            }
        }
    }

    #[test]
    fn requests_come_out_in_any_split() {
        use Answer::{Head, HeadLast, Whole, WholeLast};
        let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        check(get, &[Whole], false);
        check(&get.repeat(3), &[Whole, Whole, Whole], false);
        check("GET / HTTP/1.1\n\n", &[Whole], false);
        check(&format!("\r\n\r\n{get}\n{get}"), &[Whole, Whole], false);
        check("HEAD / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n", &[Head, Whole], false);
        check(
            "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\n\r\n",
            &[Whole, Whole],
            false,
        );
        check("POST / HTTP/1.1\r\nContent-Length: 30\r\n\r\nabc", &[], false);
        check("GET / HTTP/1.1\r\nConnection: x, Close\r\n\r\nGET", &[WholeLast], true);
        check("HEAD / HTTP/1.1\r\nconnection: close\r\n\r\n", &[HeadLast], true);
        check("GET / HTTP/1.0\r\n\r\n", &[WholeLast], true);
        check("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", &[WholeLast], true);
        check(&format!("{get}nonsense\r\n\r\n{get}"), &[Whole], true);
        check("GET / HTTP/2.0\r\n\r\n", &[], true);
        check("POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n", &[], true);
        check("POST / HTTP/1.1\r\nContent-Length: -3\r\n\r\n", &[], true);
    }

    #[test]
    fn a_head_has_a_limit() {
        let endless = "a".repeat(10 * HEAD_MAX);
        check_ended(endless.as_bytes());
        let blank = "\r\n".repeat(HEAD_MAX);
        check_ended(blank.as_bytes());
    }

    fn check_ended(bytes: &[u8]) {
        let mut requests = Requests::default();
        for piece in bytes.chunks(1_000) {
            requests.take(piece, &mut Known::default());
        }
        assert!(requests.is_ended());
        assert!(requests.partial.len() <= HEAD_MAX);
    }

    #[test]
    fn what_is_owed_has_a_limit() {
        let pair = "GET / HTTP/1.1\r\n\r\nHEAD / HTTP/1.1\r\n\r\n";
        let (answers, ended) = ask(&[pair.repeat(1_000).as_bytes()], &mut Known::default());
        assert_eq!((answers.len(), ended), (RUNS_MAX, true));
    }
}
