//! Parses one connection's requests, in any split, into the responses that are pending in order.
//!
//! There is no socket here. A load generator sends the same bytes over and over, so a head equal to
//! the previous one is not parsed again; everything else takes the slow path, which only needs to
//! be correct.

use std::collections::VecDeque;

use super::responses::Form;

/// The longest request head, bytes; a longer one ends the connection.
const HEAD_MAX: usize = 16 * 1024;

/// The most runs of one response form that may be pending on a connection; one more ends it. A
/// client that reads its responses has one.
const RUNS_MAX: usize = 64;

/// The meaning of a request head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    form: Form,
    body_bytes: u64,
}

/// The last head that was parsed, with its bytes; shared by a thread's connections.
#[derive(Debug, Default)]
pub(super) struct LastHead {
    bytes: Vec<u8>,
    head: Option<Head>,
}

/// The requests of one connection.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// The part seen so far of a split head.
    partial: Vec<u8>,
    /// The request whose body is being skipped, and how many bytes of it remain.
    body: Option<(Form, u64)>,
    /// Pending responses, as runs of one form.
    pending: VecDeque<(Form, u64)>,
    ended: bool,
}

impl Requests {
    /// Ignores all further requests; pending responses stay pending.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// True if all further requests are ignored.
    pub(super) fn is_ended(&self) -> bool {
        self.ended
    }

    /// The next run of pending responses.
    #[inline]
    pub(super) fn pending(&self) -> Option<(Form, u64)> {
        self.pending.front().copied()
    }

    /// Removes `count` responses of the next run: they are being sent.
    #[inline]
    pub(super) fn sending(&mut self, count: u64) {
        let run = self.pending.front_mut().expect("only pending responses are sent");
        run.1 -= count;
        if run.1 == 0 {
            self.pending.pop_front();
        }
    }

    /// Takes the connection's next bytes; returns how many requests they complete.
    pub(super) fn take(&mut self, mut bytes: &[u8], last_head: &mut LastHead) -> u64 {
        let mut completed = 0;
        while !bytes.is_empty() && !self.ended {
            if let Some((form, remaining)) = self.body {
                let taken = usize::try_from(remaining).map_or(bytes.len(), |n| n.min(bytes.len()));
                bytes = &bytes[taken..];
                self.body = Some((form, remaining - taken as u64));
            } else {
                let Some((head, taken)) = self.take_head(bytes, last_head) else { break };
                bytes = &bytes[taken..];
                self.body = Some((head.form, head.body_bytes));
            }
            if let Some((form, 0)) = self.body {
                self.body = None;
                completed += u64::from(self.push(form));
            }
        }
        completed
    }

    /// Adds a pending response; returns whether there was room.
    fn push(&mut self, form: Form) -> bool {
        match self.pending.back_mut() {
            Some((last, count)) if *last == form => *count += 1,
            _ => {
                if RUNS_MAX <= self.pending.len() {
                    self.ended = true;
                    return false;
                }
                self.pending.push_back((form, 1));
            }
        }
        self.ended = matches!(form, Form::WholeLast | Form::HeadLast);
        true
    }

    /// Takes a head, or the rest of one; `None` if it is incomplete, or if it is not HTTP/1, which
    /// ends the connection.
    #[inline]
    fn take_head(&mut self, bytes: &[u8], last_head: &mut LastHead) -> Option<(Head, usize)> {
        if let Some(head) = last_head.head
            && self.partial.is_empty()
            && bytes.starts_with(&last_head.bytes)
        {
            return Some((head, last_head.bytes.len()));
        }
        self.read_head(bytes, last_head)
    }

    fn read_head(&mut self, bytes: &[u8], last_head: &mut LastHead) -> Option<(Head, usize)> {
        let seen = self.partial.len();
        let room = HEAD_MAX - seen;
        self.partial.extend_from_slice(&bytes[..bytes.len().min(room)]);
        // The blank line may have begun in the bytes seen before.
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
        *last_head = LastHead { bytes: read, head: Some(head) };
        Some((head, end - seen))
    }
}

/// Where the head ends: after the first empty line that follows a line. Empty lines before the
/// request line belong to the head (RFC 9112, section 2.2).
fn find_head_end(bytes: &[u8], from: usize) -> Option<usize> {
    let blank = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let from = from.max(blank);
    let line_end =
        |at: &usize| matches!(&bytes[*at..], [b'\n', b'\n', ..] | [b'\n', b'\r', b'\n', ..]);
    let at = (from..bytes.len()).find(line_end)?;
    Some(if bytes[at + 1] == b'\n' { at + 2 } else { at + 3 })
}

/// Parses a complete head; `None` if it is malformed.
fn parse_head(bytes: &[u8]) -> Option<Head> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut lines = text.trim_start_matches(['\r', '\n']).lines();
    let mut words = lines.next()?.split(' ');
    let (method, _path, version) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() {
        return None;
    }
    let is_old = match version {
        "HTTP/1.1" => false,
        "HTTP/1.0" => true,
        _ => return None,
    };
    let (mut last, mut kept) = (false, !is_old);
    let mut body_bytes = None;
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':')?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            let length: u64 = value.parse().ok()?;
            if body_bytes.is_some_and(|before| before != length) {
                return None;
            }
            body_bytes = Some(length);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            // The end of such a body is not searched for, so nothing after it can be parsed.
            last = true;
        } else if name.eq_ignore_ascii_case("connection") {
            let has = |name| value.split(',').any(|word| word.trim().eq_ignore_ascii_case(name));
            last |= has("close");
            kept |= has("keep-alive");
        }
    }
    let form = match (method, last || !kept) {
        ("HEAD", false) if is_old => Form::HeadLast,
        ("HEAD", false) => Form::Head,
        ("HEAD", true) => Form::HeadLast,
        (_, false) if is_old => Form::WholeKept,
        (_, false) => Form::Whole,
        (_, true) => Form::WholeLast,
    };
    Some(Head { form, body_bytes: body_bytes.unwrap_or(0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The responses pending after these pieces, one by one, and whether the connection ended.
    fn ask(pieces: &[&[u8]], last_head: &mut LastHead) -> (Vec<Form>, bool) {
        let mut requests = Requests::default();
        let completed: u64 = pieces.iter().map(|piece| requests.take(piece, last_head)).sum();
        let mut forms = Vec::new();
        while let Some((form, _)) = requests.pending() {
            forms.push(form);
            requests.sending(1);
        }
        assert_eq!(forms.len() as u64, completed, "every completed request has a pending response");
        (forms, requests.is_ended())
    }

    /// Checks an input whole, byte by byte and at every two-way split, with and without a last
    /// head.
    fn check(input: &str, forms: &[Form], ended: bool) {
        let expected = (forms.to_vec(), ended);
        let bytes = input.as_bytes();
        for last_head in [&mut LastHead::default(), &mut LastHead::default()] {
            assert_eq!(ask(&[bytes], last_head), expected, "whole: {input:?}");
            assert_eq!(ask(&[bytes], last_head), expected, "again: {input:?}");
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(ask(&single, last_head), expected, "byte by byte: {input:?}");
            for at in 0..bytes.len() {
                let (first, second) = bytes.split_at(at);
                assert_eq!(ask(&[first, second], last_head), expected, "split at {at}: {input:?}");
            }
        }
    }

    #[test]
    fn requests_come_out_in_any_split() {
        use Form::{Head, HeadLast, Whole, WholeKept, WholeLast};
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
        let kept = "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n";
        check(&kept.repeat(2), &[WholeKept, WholeKept], false);
        check("GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", &[WholeLast], true);
        check("HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", &[HeadLast], true);
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
            requests.take(piece, &mut LastHead::default());
        }
        assert!(requests.is_ended());
        assert!(requests.partial.len() <= HEAD_MAX);
    }

    #[test]
    fn pending_responses_have_a_limit() {
        let pair = "GET / HTTP/1.1\r\n\r\nHEAD / HTTP/1.1\r\n\r\n";
        let (forms, ended) = ask(&[pair.repeat(1_000).as_bytes()], &mut LastHead::default());
        assert_eq!((forms.len(), ended), (RUNS_MAX, true));
    }
}
