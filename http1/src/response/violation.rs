//! Protocol errors in responses: a closed list, each with the broken rule.

/// A broken rule or an exceeded limit. The connection can't be used after one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Violation {
    /// The first bytes aren't `HTTP/` (RFC 9112, section 4).
    NotHttp,
    /// The version isn't `1.` and a digit (RFC 9112, section 2.3).
    Version,
    /// The status line has no three-digit code from 100 up, or a control character (RFC 9112,
    /// section 4).
    StatusLine,
    /// A header line has no name, or a name with a forbidden byte, or blanks before its colon (RFC
    /// 9112, section 5.1).
    HeaderName,
    /// A header value contains a control character, a NUL or a bare CR (RFC 9110, section 5.5).
    HeaderValue,
    /// A line of the head ends in a CR without LF (RFC 9112, section 2.2).
    LineEnd,
    /// The head is longer than the parser's limit (RFC 9110, section 5.4).
    HeadTooLarge,
    /// There are more header or trailer fields than the parser's limit (RFC 9110, section 5.4).
    TooManyFields,
    /// The Content-Length isn't a decimal number that fits 64 bits (RFC 9112, section 6.3, rule 5).
    ContentLength,
    /// Several Content-Length values differ (RFC 9112, section 6.3, rule 5).
    ContentLengthsDiffer,
    /// Transfer-Encoding and Content-Length are both present (RFC 9112, section 6.3, rule 3).
    TwoFramings,
    /// A transfer coding that isn't registered, or parameters on one (RFC 9112, sections 6.1 and
    /// 7).
    TransferCoding,
    /// The chunked coding is applied more than once (RFC 9112, section 6.1).
    ChunkedTwice,
    /// The server switches protocols without being asked to (RFC 9110, section 7.8).
    Upgrade,
    /// More interim (1xx) responses than the parser's limit (RFC 9110, section 15.2).
    TooManyInterim,
    /// A chunk size isn't a hexadecimal number (RFC 9112, section 7.1).
    ChunkSize,
    /// A chunk size, or their sum, doesn't fit 64 bits (RFC 9112, section 7.1).
    ChunkSizeOverflow,
    /// A chunk extension contains a control character (RFC 9112, section 7.1.1).
    ChunkExtension,
    /// A chunk line is longer than the parser's limit (RFC 9112, section 7.1.1).
    ChunkLineTooLong,
    /// A chunk line doesn't end in CR LF, or a chunk's data isn't followed by it (RFC 9112, section
    /// 7.1).
    ChunkEnd,
    /// A trailer field is malformed (RFC 9112, section 7.1.2).
    Trailer,
    /// The trailer section is longer than the parser's limit (RFC 9112, section 7.1.2).
    TrailersTooLarge,
    /// The stream ended before the first byte of a response (RFC 9112, section 9.5).
    ClosedBeforeResponse,
    /// The stream ended inside a response (RFC 9112, section 8).
    CutShort,
}

impl Violation {
    /// A stable snake_case name, for counting by cause.
    pub fn code(&self) -> &'static str {
        match self {
            Violation::NotHttp => "not_http",
            Violation::Version => "version",
            Violation::StatusLine => "status_line",
            Violation::HeaderName => "header_name",
            Violation::HeaderValue => "header_value",
            Violation::LineEnd => "line_end",
            Violation::HeadTooLarge => "head_too_large",
            Violation::TooManyFields => "too_many_fields",
            Violation::ContentLength => "content_length",
            Violation::ContentLengthsDiffer => "content_lengths_differ",
            Violation::TwoFramings => "two_framings",
            Violation::TransferCoding => "transfer_coding",
            Violation::ChunkedTwice => "chunked_twice",
            Violation::Upgrade => "upgrade",
            Violation::TooManyInterim => "too_many_interim",
            Violation::ChunkSize => "chunk_size",
            Violation::ChunkSizeOverflow => "chunk_size_overflow",
            Violation::ChunkExtension => "chunk_extension",
            Violation::ChunkLineTooLong => "chunk_line_too_long",
            Violation::ChunkEnd => "chunk_end",
            Violation::Trailer => "trailer",
            Violation::TrailersTooLarge => "trailers_too_large",
            Violation::ClosedBeforeResponse => "closed_before_response",
            Violation::CutShort => "cut_short",
        }
    }
}
