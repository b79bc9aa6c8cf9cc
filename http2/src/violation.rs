//! Protocol errors of a server: a closed list, each with the broken rule, its scope and its code.

use crate::code::ErrorCode;

/// What a broken rule ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// One stream: the others go on (RFC 9113, section 5.4.2).
    Stream,
    /// The connection, with all its streams (RFC 9113, section 5.4.1).
    Connection,
}

/// Declares [`Violation`], its list, its names, scopes and error codes from the same rows.
macro_rules! violations {
    ($($(#[$doc:meta])* $violation:ident = $code:literal, $scope:ident, $error:ident;)*) => {
        /// A broken rule or an exceeded limit.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Violation {
            $($(#[$doc])* $violation,)*
        }

        impl Violation {
            /// All of them. Others may name each by its place here: new ones come at the end.
            pub const ALL: &[Violation] = &[$(Violation::$violation),*];

            /// A stable snake_case name, for counting by cause.
            pub fn code(self) -> &'static str {
                match self {
                    $(Violation::$violation => $code,)*
                }
            }

            /// What it ends.
            pub fn scope(self) -> Scope {
                match self {
                    $(Violation::$violation => Scope::$scope,)*
                }
            }

            /// The error code that the peer is sent.
            pub fn error_code(self) -> ErrorCode {
                match self {
                    $(Violation::$violation => ErrorCode::$error,)*
                }
            }
        }
    };
}

violations! {
    /// The first frame isn't SETTINGS, so the peer doesn't speak HTTP/2 (RFC 9113, section 3.4).
    NotHttp2 = "not_http2", Connection, PROTOCOL_ERROR;
    /// A frame is longer than the 16 KiB that we allow (RFC 9113, section 4.2).
    FrameTooLarge = "frame_too_large", Connection, FRAME_SIZE_ERROR;
    /// A frame's length is impossible for its type (RFC 9113, sections 4.2 and 6).
    FrameLength = "frame_length", Connection, FRAME_SIZE_ERROR;
    /// A frame of a stream has the stream identifier 0, or one of the connection has another (RFC
    /// 9113, section 6).
    FrameStream = "frame_stream", Connection, PROTOCOL_ERROR;
    /// The padding is as long as the payload or longer (RFC 9113, sections 6.1 and 6.2).
    Padding = "padding", Connection, PROTOCOL_ERROR;
    /// A header block is interrupted by a frame other than its CONTINUATION (RFC 9113, section
    /// 6.10).
    BlockInterrupted = "block_interrupted", Connection, PROTOCOL_ERROR;
    /// A CONTINUATION frame continues no header block (RFC 9113, section 6.10).
    StrayContinuation = "stray_continuation", Connection, PROTOCOL_ERROR;
    /// A push was promised although SETTINGS forbid it (RFC 9113, section 8.4).
    PushPromise = "push_promise", Connection, PROTOCOL_ERROR;
    /// A frame names a stream that only the server could have begun, and not without a promise
    /// (RFC 9113, section 5.1.1).
    ServerStream = "server_stream", Connection, PROTOCOL_ERROR;
    /// A frame names a stream that hasn't begun (RFC 9113, section 5.1).
    IdleStream = "idle_stream", Connection, PROTOCOL_ERROR;
    /// HEADERS or DATA came for a stream that the server had ended (RFC 9113, section 5.1).
    ClosedStream = "closed_stream", Connection, STREAM_CLOSED;
    /// SETTINGS were acknowledged that weren't sent (RFC 9113, section 6.5.3).
    SettingsAck = "settings_ack", Connection, PROTOCOL_ERROR;
    /// The server enables pushes to itself (RFC 9113, section 6.5.2).
    EnablePush = "enable_push", Connection, PROTOCOL_ERROR;
    /// SETTINGS_INITIAL_WINDOW_SIZE is above 2³¹ − 1, or makes a stream's window so (RFC 9113,
    /// sections 6.5.2 and 6.9.2).
    InitialWindow = "initial_window", Connection, FLOW_CONTROL_ERROR;
    /// SETTINGS_MAX_FRAME_SIZE isn't from 2¹⁴ to 2²⁴ − 1 (RFC 9113, section 6.5.2).
    MaxFrameSize = "max_frame_size", Connection, PROTOCOL_ERROR;
    /// The connection's window is widened by 0 (RFC 9113, section 6.9).
    ConnectionIncrement = "connection_increment", Connection, PROTOCOL_ERROR;
    /// The connection's window is widened beyond 2³¹ − 1 (RFC 9113, section 6.9.1).
    ConnectionWindow = "connection_window", Connection, FLOW_CONTROL_ERROR;
    /// A second GOAWAY has a greater last stream than the first (RFC 9113, section 6.8).
    GoAwayRaised = "go_away_raised", Connection, PROTOCOL_ERROR;
    /// An index of HPACK is 0 or beyond the tables (RFC 7541, sections 2.3.3 and 6.1).
    HpackIndex = "hpack_index", Connection, COMPRESSION_ERROR;
    /// An integer of HPACK is beyond 2²⁸, or takes more than five bytes (RFC 7541, section 5.1).
    HpackInteger = "hpack_integer", Connection, COMPRESSION_ERROR;
    /// A header block ends inside a field (RFC 7541, section 6).
    HpackCut = "hpack_cut", Connection, COMPRESSION_ERROR;
    /// A Huffman string holds EOS, or a padding that is too long or isn't all ones (RFC 7541,
    /// section 5.2).
    HpackHuffman = "hpack_huffman", Connection, COMPRESSION_ERROR;
    /// The dynamic table is made larger than the 4 KiB that we allow (RFC 7541, section 6.3).
    HpackTableSize = "hpack_table_size", Connection, COMPRESSION_ERROR;
    /// The dynamic table's size changes after the first field of a block (RFC 7541, section 4.2).
    HpackTableLate = "hpack_table_late", Connection, COMPRESSION_ERROR;
    /// A compressed header block is longer than 64 KiB (RFC 9113, section 10.5.1).
    BlockTooLarge = "block_too_large", Connection, ENHANCE_YOUR_CALM;
    /// A header block has more than 64 CONTINUATION frames (RFC 9113, section 10.5;
    /// CVE-2024-27316).
    ContinuationFlood = "continuation_flood", Connection, ENHANCE_YOUR_CALM;
    /// SETTINGS frames without progress (RFC 9113, section 10.5; CVE-2019-9515).
    SettingsFlood = "settings_flood", Connection, ENHANCE_YOUR_CALM;
    /// PING frames without progress (RFC 9113, section 10.5; CVE-2019-9512).
    PingFlood = "ping_flood", Connection, ENHANCE_YOUR_CALM;
    /// RST_STREAM frames for streams that ended before (RFC 9113, section 10.5; CVE-2019-9514 and
    /// CVE-2023-44487 are the same against servers).
    ResetFlood = "reset_flood", Connection, ENHANCE_YOUR_CALM;
    /// DATA frames without data (RFC 9113, section 10.5; CVE-2019-9518).
    EmptyDataFlood = "empty_data_flood", Connection, ENHANCE_YOUR_CALM;
    /// Frames of other types without progress: WINDOW_UPDATE, PRIORITY, GOAWAY, unknown ones, or
    /// HEADERS of streams that were given up (RFC 9113, section 10.5; CVE-2019-9513).
    FrameFlood = "frame_flood", Connection, ENHANCE_YOUR_CALM;
    /// The peer asks for answers and doesn't read them: 64 KiB wait to be sent (RFC 9113, section
    /// 10.5; CVE-2019-9512, CVE-2019-9515 and CVE-2019-9517).
    AnswersUnread = "answers_unread", Connection, ENHANCE_YOUR_CALM;
    /// The stream's window is widened by 0 (RFC 9113, section 6.9).
    StreamIncrement = "stream_increment", Stream, PROTOCOL_ERROR;
    /// The stream's window is widened beyond 2³¹ − 1 (RFC 9113, section 6.9.1).
    StreamWindow = "stream_window", Stream, FLOW_CONTROL_ERROR;
    /// A header list takes more than 64 KiB (RFC 9113, section 10.5.1).
    HeaderListTooLarge = "header_list_too_large", Stream, PROTOCOL_ERROR;
    /// A response has no `:status` (RFC 9113, section 8.3.2).
    StatusMissing = "status_missing", Stream, PROTOCOL_ERROR;
    /// `:status` isn't a number of three digits from 100 up (RFC 9110, section 15).
    StatusInvalid = "status_invalid", Stream, PROTOCOL_ERROR;
    /// There are two of `:status` (RFC 9113, section 8.3).
    StatusRepeated = "status_repeated", Stream, PROTOCOL_ERROR;
    /// A response has a pseudo-field other than `:status` (RFC 9113, section 8.3).
    PseudoUnknown = "pseudo_unknown", Stream, PROTOCOL_ERROR;
    /// A pseudo-field follows a field (RFC 9113, section 8.3).
    PseudoLate = "pseudo_late", Stream, PROTOCOL_ERROR;
    /// A trailer section has a pseudo-field (RFC 9113, section 8.1).
    PseudoInTrailers = "pseudo_in_trailers", Stream, PROTOCOL_ERROR;
    /// A field's name is empty or has a forbidden byte, such as a capital (RFC 9113, section
    /// 8.2.1).
    FieldName = "field_name", Stream, PROTOCOL_ERROR;
    /// A field is one that belongs to an HTTP/1.1 connection (RFC 9113, section 8.2.2).
    ConnectionField = "connection_field", Stream, PROTOCOL_ERROR;
    /// A field's value has a NUL, CR or LF, or begins or ends with a blank (RFC 9113, section
    /// 8.2.1). Found only where fields are decoded in full.
    FieldValue = "field_value", Stream, PROTOCOL_ERROR;
    /// `content-length` isn't a decimal number that fits 64 bits (RFC 9110, section 8.6).
    ContentLength = "content_length", Stream, PROTOCOL_ERROR;
    /// Several `content-length` differ (RFC 9110, section 8.6).
    ContentLengthsDiffer = "content_lengths_differ", Stream, PROTOCOL_ERROR;
    /// The body hasn't the length that `content-length` announced (RFC 9113, section 8.1.1).
    LengthMismatch = "length_mismatch", Stream, PROTOCOL_ERROR;
    /// There is a body where none may be: HEAD, 204 or 304 (RFC 9110, section 6.4.1).
    BodyForbidden = "body_forbidden", Stream, PROTOCOL_ERROR;
    /// DATA came before the final response's HEADERS (RFC 9113, section 8.1).
    BodyEarly = "body_early", Stream, PROTOCOL_ERROR;
    /// An interim (1xx) response ends the stream (RFC 9113, section 8.1).
    InterimEnds = "interim_ends", Stream, PROTOCOL_ERROR;
    /// More than 16 interim (1xx) responses (RFC 9110, section 15.2).
    TooManyInterim = "too_many_interim", Stream, ENHANCE_YOUR_CALM;
    /// The server switches protocols, which HTTP/2 hasn't (RFC 9113, section 8.6).
    Upgrade = "upgrade", Stream, PROTOCOL_ERROR;
    /// A second header section doesn't end the stream, so it isn't trailers (RFC 9113, section
    /// 8.1).
    TrailersGoOn = "trailers_go_on", Stream, PROTOCOL_ERROR;
    /// The connection ended before the response began (RFC 9113, section 9.1).
    ClosedBeforeResponse = "closed_before_response", Stream, NO_ERROR;
    /// The connection ended inside the response (RFC 9113, section 8.1).
    CutShort = "cut_short", Stream, NO_ERROR;
}
