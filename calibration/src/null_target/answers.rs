//! The bytes of every answer, and which of them answer what.

use std::ops::Range;

/// The one answer, as long as a small real one: 131 bytes.
const HEAD: &str = "HTTP/1.1 200 OK\r\nServer: truetail-null-target\r\nContent-Type: text/plain\r\nContent-Length: 27\r\n";
const BODY: &str = "The quick brown fox jumps.\n";
const CLOSE: &str = "Connection: close\r\n";

/// Answers that one send can carry: a longer pipeline takes several sends.
const REPEATS: usize = 64;

/// A form of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Head and body.
    Whole,
    /// The head alone, as HEAD asks for.
    Head,
    /// Head and body of the last answer of a connection.
    WholeLast,
    /// The head of the last answer of a connection.
    HeadLast,
}

/// Where each form lies in the bytes to send.
#[derive(Debug)]
pub(super) struct Answers {
    whole_length: usize,
    head_start: usize,
    head_length: usize,
    whole_last: Range<usize>,
    head_last: Range<usize>,
}

impl Answers {
    /// The answers and the bytes that they lie in.
    pub(super) fn new() -> (Answers, Vec<u8>) {
        let head = format!("{HEAD}\r\n");
        let head_last = format!("{HEAD}{CLOSE}\r\n");
        let whole = format!("{head}{BODY}");
        let whole_last = format!("{head_last}{BODY}");
        let mut bytes = whole.repeat(REPEATS).into_bytes();
        let head_start = bytes.len();
        bytes.extend(head.repeat(REPEATS).bytes());
        let last_start = bytes.len();
        bytes.extend(whole_last.bytes());
        let answers = Answers {
            whole_length: whole.len(),
            head_start,
            head_length: head.len(),
            whole_last: last_start..last_start + whole_last.len(),
            head_last: last_start..last_start + head_last.len(),
        };
        (answers, bytes)
    }

    /// The bytes of up to `count` answers of one form, and how many answers they are.
    pub(super) fn part(&self, answer: Answer, count: u64) -> (Range<usize>, u64) {
        let repeated = usize::try_from(count).map_or(REPEATS, |count| count.min(REPEATS));
        match answer {
            Answer::Whole => (0..repeated * self.whole_length, repeated as u64),
            Answer::Head => {
                let length = repeated * self.head_length;
                (self.head_start..self.head_start + length, repeated as u64)
            }
            Answer::WholeLast => (self.whole_last.clone(), 1),
            Answer::HeadLast => (self.head_last.clone(), 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_that_is_said_is_the_length_that_is_sent() {
        assert!(HEAD.contains(&format!("Content-Length: {}\r\n", BODY.len())));
    }

    #[test]
    fn parts_are_whole_answers() {
        let (answers, bytes) = Answers::new();
        for answer in [Answer::Whole, Answer::Head, Answer::WholeLast, Answer::HeadLast] {
            for count in [1, 2, 64, 65] {
                let (part, taken) = answers.part(answer, count);
                let text = std::str::from_utf8(&bytes[part]).expect("text");
                let has = |what: &str| text.matches(what).count() as u64;
                assert_eq!(has("HTTP/1.1 200 OK\r\n"), taken, "{answer:?} {count}");
                assert_eq!(has("\r\n\r\n"), taken);
                let whole = matches!(answer, Answer::Whole | Answer::WholeLast);
                assert_eq!(has(BODY), if whole { taken } else { 0 });
                let last = matches!(answer, Answer::WholeLast | Answer::HeadLast);
                assert_eq!(has(CLOSE), if last { taken } else { 0 });
                assert!(0 < taken && taken <= count);
            }
        }
    }
}
