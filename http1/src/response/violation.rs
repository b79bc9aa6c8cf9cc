//! Protocol errors in responses: a closed list, each with the broken rule.

/// Declares [`Violation`], its list and its names from the same rows.
macro_rules! violations {
    ($($(#[$doc:meta])* $violation:ident = $code:literal,)*) => {
        /// A broken rule or an exceeded limit. The connection can't be used after one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Violation {
            $($(#[$doc])* $violation,)*
        }

        impl Violation {
            /// All of them. Raw samples name each by its place here: new ones come at the end.
            pub const ALL: &[Violation] = &[$(Violation::$violation),*];

            /// A stable snake_case name, for counting by cause.
            pub fn code(&self) -> &'static str {
                match self {
                    $(Violation::$violation => $code,)*
                }
            }
        }
    };
}

violations! {
    /// The first bytes aren't `HTTP/` (RFC 9112, section 4).
    NotHttp = "not_http",
    /// The version isn't `1.` and a digit (RFC 9112, section 2.3).
    Version = "version",
    /// The status line has no three-digit code from 100 up, or a control character (RFC 9112,
    /// section 4).
    StatusLine = "status_line",
    /// A header line has no name, or a name with a forbidden byte, or blanks before its colon (RFC
    /// 9112, section 5.1).
    HeaderName = "header_name",
    /// A header value contains a control character, a NUL or a bare CR (RFC 9110, section 5.5).
    HeaderValue = "header_value",
    /// A line of the head ends in a CR without LF (RFC 9112, section 2.2).
    LineEnd = "line_end",
    /// The head is longer than the parser's limit (RFC 9110, section 5.4).
    HeadTooLarge = "head_too_large",
    /// There are more header or trailer fields than the parser's limit (RFC 9110, section 5.4).
    TooManyFields = "too_many_fields",
    /// The Content-Length isn't a decimal number that fits 64 bits (RFC 9112, section 6.3, rule
    /// 5).
    ContentLength = "content_length",
    /// Several Content-Length values differ (RFC 9112, section 6.3, rule 5).
    ContentLengthsDiffer = "content_lengths_differ",
    /// Transfer-Encoding and Content-Length are both present (RFC 9112, section 6.3, rule 3).
    TwoFramings = "two_framings",
    /// A transfer coding that isn't registered, or parameters on one (RFC 9112, sections 6.1 and
    /// 7).
    TransferCoding = "transfer_coding",
    /// The chunked coding is applied more than once (RFC 9112, section 6.1).
    ChunkedTwice = "chunked_twice",
    /// The server switches protocols without being asked to (RFC 9110, section 7.8).
    Upgrade = "upgrade",
    /// More interim (1xx) responses than the parser's limit (RFC 9110, section 15.2).
    TooManyInterim = "too_many_interim",
    /// A chunk size isn't a hexadecimal number (RFC 9112, section 7.1).
    ChunkSize = "chunk_size",
    /// A chunk size, or the sum of them, doesn't fit 64 bits (RFC 9112, section 7.1).
    ChunkSizeOverflow = "chunk_size_overflow",
    /// A chunk extension contains a control character (RFC 9112, section 7.1.1).
    ChunkExtension = "chunk_extension",
    /// A chunk line is longer than the parser's limit (RFC 9112, section 7.1.1).
    ChunkLineTooLong = "chunk_line_too_long",
    /// A chunk line doesn't end in CR LF, or a chunk's data isn't followed by it (RFC 9112,
    /// section 7.1).
    ChunkEnd = "chunk_end",
    /// A trailer field is malformed (RFC 9112, section 7.1.2).
    Trailer = "trailer",
    /// The trailer section is longer than the parser's limit (RFC 9112, section 7.1.2).
    TrailersTooLarge = "trailers_too_large",
    /// The stream ended before the first byte of a response (RFC 9112, section 9.5).
    ClosedBeforeResponse = "closed_before_response",
    /// The stream ended inside a response (RFC 9112, section 8).
    CutShort = "cut_short",
}
