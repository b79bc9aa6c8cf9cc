//! Complete response heads: status, body framing, and whether the connection persists.

use std::mem::MaybeUninit;

use super::violation::Violation;
use crate::syntax::{decimal, list};

/// The most header fields in a head.
pub(crate) const FIELDS_MAX: usize = 128;

/// How the end of a body is found (RFC 9112, section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// A known number of bytes, zero if there is no body.
    Length(u64),
    /// Chunks, each preceded by its size.
    Chunked,
    /// Everything until the server closes the connection.
    UntilClose,
}

/// A parsed response head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The status code, three digits from 100 up.
    pub(crate) status: u16,
    /// How the body ends.
    pub(crate) framing: Framing,
    /// True if the connection may carry another response after this one.
    pub(crate) keep_alive: bool,
}

/// Parses the head at the front of `bytes`; returns it and its length, or `None` if it is
/// incomplete.
///
/// The caller has checked that the bytes begin a status line of HTTP/1.0 or HTTP/1.1.
pub(crate) fn parse(bytes: &[u8], head_request: bool) -> Result<Option<(Head, usize)>, Violation> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut []);
    let parsed = config().parse_response_with_uninit_headers(&mut response, bytes, &mut fields);
    let length = match parsed {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(violation_of(error)),
    };
    let status = response.code.ok_or(Violation::StatusLine)?;
    let persists = response.version == Some(1);
    let head = interpret(status, persists, response.headers, head_request)?;
    Ok(Some((head, length)))
}

/// Hands each field of a complete head to `each`, name and value, in order. A head that can't be
/// parsed has none.
///
/// It parses without the status line, by another function than `parse`: that one is inlined where
/// it has a single caller, which saves each new head 2 % of its instructions.
pub fn fields(head: &[u8], mut each: impl FnMut(&str, &[u8])) {
    let Some(line) = head.iter().position(|byte| *byte == b'\n') else { return };
    let lines = &head[line + 1..];
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    if let Ok(httparse::Status::Complete((_, fields))) = httparse::parse_headers(lines, &mut fields)
    {
        return fields.iter().for_each(|field| each(field.name, field.value));
    }
    // A folded line is one with a blank in it (RFC 9112, section 5.2).
    let mut unfolded: Vec<u8> = Vec::with_capacity(lines.len());
    for byte in lines {
        if matches!(byte, b' ' | b'\t') && unfolded.ends_with(b"\n") {
            let text = unfolded.trim_ascii_end().len();
            unfolded.truncate(text);
            unfolded.push(b' ');
        } else if !(matches!(byte, b' ' | b'\t') && unfolded.ends_with(b" ")) {
            unfolded.push(*byte);
        }
    }
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    if let Ok(httparse::Status::Complete((_, fields))) =
        httparse::parse_headers(&unfolded, &mut fields)
    {
        fields.iter().for_each(|field| each(field.name, field.value));
    }
}

/// The one leniency required of a user agent: folded header lines (RFC 9112, section 5.2).
///
/// Everything else is as strict as the library's default, which refuses a bare CR, blanks before a
/// colon and before the first field, and accepts a single LF as the end of a line (section 2.2).
fn config() -> httparse::ParserConfig {
    let mut config = httparse::ParserConfig::default();
    config.allow_obsolete_multiline_headers_in_responses(true);
    config
}

/// The rule behind a parse error.
fn violation_of(error: httparse::Error) -> Violation {
    match error {
        httparse::Error::HeaderName | httparse::Error::Token => Violation::HeaderName,
        httparse::Error::HeaderValue => Violation::HeaderValue,
        httparse::Error::NewLine => Violation::LineEnd,
        httparse::Error::Status => Violation::StatusLine,
        httparse::Error::TooManyHeaders => Violation::TooManyFields,
        httparse::Error::Version => Violation::Version,
    }
}

/// Applies RFC 9112, sections 6.3 (body length) and 9.3 (persistence), to the parsed fields.
fn interpret(
    status: u16,
    http_1_1: bool,
    fields: &[httparse::Header],
    head_request: bool,
) -> Result<Head, Violation> {
    let mut length = None;
    let mut codings = Codings::default();
    let mut close = false;
    let mut keep_alive = false;
    // Section 6.3, rule 1: these end at the blank line, whatever their fields.
    let bodyless = head_request || status / 100 == 1 || status == 204 || status == 304;
    for field in fields {
        // Comparing the length first is cheaper than comparing three names.
        match field.name.len() {
            10 if field.name.eq_ignore_ascii_case("connection") => {
                for option in list(field.value) {
                    close |= option.eq_ignore_ascii_case(b"close");
                    keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            14 if !bodyless && field.name.eq_ignore_ascii_case("content-length") => {
                read_length(field.value, &mut length)?;
            }
            17 if field.name.eq_ignore_ascii_case("transfer-encoding") => {
                codings.present = true;
                if !bodyless {
                    codings.read(field.value)?;
                }
            }
            _ => {}
        }
    }
    let framing = match length {
        _ if bodyless => Framing::Length(0),
        Some(_) if codings.present => return Err(Violation::TwoFramings),
        Some((number, _)) => Framing::Length(number),
        None if codings.chunked_last => Framing::Chunked,
        None => Framing::UntilClose,
    };
    // Section 6.1: HTTP/1.0 has no Transfer-Encoding, so the framing after it can't be trusted.
    let persists = if http_1_1 { true } else { keep_alive && !codings.present };
    let keep_alive = persists && !close && framing != Framing::UntilClose;
    Ok(Head { status, framing, keep_alive })
}

/// Reads one Content-Length field, which must agree with earlier ones.
///
/// A list of identical values counts once (RFC 9112, section 6.3, rule 5). Identical means the same
/// digits: `030` and `30` come from two senders that disagree about the message.
fn read_length<'a>(value: &'a [u8], length: &mut Option<(u64, &'a [u8])>) -> Result<(), Violation> {
    for digits in list(value) {
        let number = decimal(digits).ok_or(Violation::ContentLength)?;
        match length {
            Some((_, first)) if *first != digits => return Err(Violation::ContentLengthsDiffer),
            _ => *length = Some((number, digits)),
        }
    }
    Ok(())
}

/// The transfer codings seen so far, in the order in which they were applied.
#[derive(Default)]
struct Codings {
    present: bool,
    chunked: bool,
    chunked_last: bool,
}

impl Codings {
    /// Reads one Transfer-Encoding field; empty list elements are skipped (RFC 9110, section
    /// 5.6.1.2).
    fn read(&mut self, value: &[u8]) -> Result<(), Violation> {
        for coding in list(value).filter(|coding| !coding.is_empty()) {
            self.chunked_last = coding.eq_ignore_ascii_case(b"chunked");
            if self.chunked_last && self.chunked {
                return Err(Violation::ChunkedTwice);
            }
            if !self.chunked_last && !is_compression(coding) {
                return Err(Violation::TransferCoding);
            }
            self.chunked |= self.chunked_last;
        }
        Ok(())
    }
}

/// True for a registered compression coding (RFC 9112, section 7.2).
///
/// Compression doesn't change where a body ends, and the body is counted as transferred, so no
/// decoder is needed.
fn is_compression(coding: &[u8]) -> bool {
    ["gzip", "x-gzip", "deflate", "compress", "x-compress"]
        .iter()
        .any(|known| coding.eq_ignore_ascii_case(known.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_handed_over_with_folded_lines_as_one() {
        let all = |head: &[u8]| {
            let mut all = Vec::new();
            fields(head, |name, value| {
                all.push(format!("{name}={}", String::from_utf8_lossy(value)));
            });
            all
        };
        let head = b"HTTP/1.1 200 OK\r\nA: 1\r\nb:\r\na:  2 3\r\n\r\n";
        assert_eq!(all(head), ["A=1", "b=", "a=2 3"]);
        let folded = b"HTTP/1.1 200 OK\r\nA: 1\r\n  2\r\n\t3\r\nB: 4\r\n\r\n";
        assert_eq!(all(folded), ["A=1 2 3", "B=4"]);
        assert_eq!(all(b"HTTP/1.1 200 OK\nA: 1\n 2\n\n"), ["A=1 2"]);
        assert!(all(b"HTTP/1.1 200 OK").is_empty());
    }
}
