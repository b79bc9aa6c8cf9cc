//! The bytes of the null target's responses, rendered once.

use std::ops::Range;

/// The response, as long as a small real one: 131 bytes.
const HEAD: &str = "HTTP/1.1 200 OK\r\nServer: truetail-null-target\r\n\
    Content-Type: text/plain\r\nContent-Length: 27\r\n";
/// The body, over HTTP/1.1 and HTTP/2.
pub(super) const BODY: &str = "The quick brown fox jumps.\n";
const CLOSE: &str = "Connection: close\r\n";
const KEEP: &str = "Connection: keep-alive\r\n";

/// Responses that one send can carry; a longer pipeline takes several sends.
const REPEATS: usize = 64;

/// A form of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Head and body.
    Whole,
    /// The head alone, for HEAD.
    Head,
    /// Head and body, for an HTTP/1.0 client: it keeps a connection only if the response says so.
    WholeKept,
    /// Head and body of a connection's last response.
    WholeLast,
    /// The head of a connection's last response.
    HeadLast,
}

/// Where each form is in the bytes to send.
#[derive(Debug)]
pub(super) struct Responses {
    whole_length: usize,
    head_start: usize,
    head_length: usize,
    whole_kept: Range<usize>,
    whole_last: Range<usize>,
    head_last: Range<usize>,
}

impl Responses {
    /// The responses and the bytes that contain them.
    pub(super) fn new() -> (Responses, Vec<u8>) {
        let head = format!("{HEAD}\r\n");
        let whole = format!("{head}{BODY}");
        let mut bytes = whole.repeat(REPEATS).into_bytes();
        let mut append = |text: String| {
            let start = bytes.len();
            bytes.extend(text.bytes());
            start..bytes.len()
        };
        let responses = Responses {
            whole_length: whole.len(),
            head_start: append(head.repeat(REPEATS)).start,
            head_length: head.len(),
            whole_kept: append(format!("{HEAD}{KEEP}\r\n{BODY}")),
            whole_last: append(format!("{HEAD}{CLOSE}\r\n{BODY}")),
            head_last: append(format!("{HEAD}{CLOSE}\r\n")),
        };
        (responses, bytes)
    }

    /// The bytes of up to `count` responses of one form, and how many responses they are.
    pub(super) fn part(&self, form: Form, count: u64) -> (Range<usize>, u64) {
        let repeated = usize::try_from(count).map_or(REPEATS, |count| count.min(REPEATS));
        match form {
            Form::Whole => (0..repeated * self.whole_length, repeated as u64),
            Form::Head => {
                let length = repeated * self.head_length;
                (self.head_start..self.head_start + length, repeated as u64)
            }
            Form::WholeKept => (self.whole_kept.clone(), 1),
            Form::WholeLast => (self.whole_last.clone(), 1),
            Form::HeadLast => (self.head_last.clone(), 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_length_is_the_length_of_the_body() {
        assert!(HEAD.contains(&format!("Content-Length: {}\r\n", BODY.len())));
    }

    #[test]
    fn parts_are_whole_responses() {
        let (responses, bytes) = Responses::new();
        for form in [Form::Whole, Form::Head, Form::WholeKept, Form::WholeLast, Form::HeadLast] {
            for count in [1, 2, 64, 65] {
                let (part, taken) = responses.part(form, count);
                let text = std::str::from_utf8(&bytes[part]).expect("text");
                let has = |what: &str| text.matches(what).count() as u64;
                assert_eq!(has("HTTP/1.1 200 OK\r\n"), taken, "{form:?} {count}");
                assert_eq!(has("\r\n\r\n"), taken);
                let whole = matches!(form, Form::Whole | Form::WholeKept | Form::WholeLast);
                assert_eq!(has(BODY), if whole { taken } else { 0 });
                let last = matches!(form, Form::WholeLast | Form::HeadLast);
                assert_eq!(has(CLOSE), if last { taken } else { 0 });
                assert_eq!(has(KEEP), if form == Form::WholeKept { taken } else { 0 });
                assert!(0 < taken && taken <= count);
            }
        }
    }
}
