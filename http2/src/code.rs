//! Error codes as they travel in RST_STREAM and GOAWAY (RFC 9113, section 7).

/// An error code, known or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// Nothing is wrong.
    pub const NO_ERROR: ErrorCode = ErrorCode(0x0);
    /// A rule without a code of its own was broken.
    pub const PROTOCOL_ERROR: ErrorCode = ErrorCode(0x1);
    /// More bytes were sent than the window allows.
    pub const FLOW_CONTROL_ERROR: ErrorCode = ErrorCode(0x3);
    /// A frame came for a stream that had ended.
    pub const STREAM_CLOSED: ErrorCode = ErrorCode(0x5);
    /// A frame has an invalid length.
    pub const FRAME_SIZE_ERROR: ErrorCode = ErrorCode(0x6);
    /// The request was refused before any of it was processed: it may be sent again.
    pub const REFUSED_STREAM: ErrorCode = ErrorCode(0x7);
    /// The stream is no longer needed.
    pub const CANCEL: ErrorCode = ErrorCode(0x8);
    /// A header block can't be decoded.
    pub const COMPRESSION_ERROR: ErrorCode = ErrorCode(0x9);
    /// The peer causes too much work.
    pub const ENHANCE_YOUR_CALM: ErrorCode = ErrorCode(0xb);

    /// Its name in RFC 9113, in small letters; `unknown` for one that isn't there.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 14] = [
            "no_error",
            "protocol_error",
            "internal_error",
            "flow_control_error",
            "settings_timeout",
            "stream_closed",
            "frame_size_error",
            "refused_stream",
            "cancel",
            "compression_error",
            "connect_error",
            "enhance_your_calm",
            "inadequate_security",
            "http_1_1_required",
        ];
        usize::try_from(self.0).ok().and_then(|code| NAMES.get(code)).unwrap_or(&"unknown")
    }
}
