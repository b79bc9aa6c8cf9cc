//! The faults of a server that speaks HTTP/2.

/// Such a server's fault. The first connection has none: with it, the client checks that the
/// server speaks HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http2 {
    /// Nothing. What arrives together is answered together, the last request first.
    None,

    // Ends that are announced.
    /// GOAWAY after this many requests of a connection: they are answered, and no others.
    GoAwayAfter(usize),
    /// GOAWAY with the settings: no request is served.
    GoAwayAtOnce,
    /// GOAWAY at the first requests of a connection, of which none is served.
    GoAwayUnserved,
    /// GOAWAY after this many requests of a connection, which end with it, as does the connection.
    GoAwayAndClose(usize),
    /// GOAWAY to announce the end, 10 ms later one with the last stream, as nginx and Envoy do.
    GoAwayTwice,

    // Single streams.
    /// Refuses every request of a number that this divides.
    RefuseEvery(u64),
    /// Resets each request, by each code but REFUSED_STREAM in turn.
    ResetByEachCode,
    /// Resets in the body.
    ResetInBody,
    /// Resets by NO_ERROR after a whole response, which is allowed.
    ResetAfterAnswer,
    /// Begins a response to every third request, and never goes on.
    StallEveryThird,
    /// A body that never ends.
    EndlessBody,
    /// A response that breaks this rule of a stream.
    BreaksStream(StreamRule),

    // Settings and windows.
    /// Settings after 30 ms.
    SettingsLate,
    /// No settings.
    SettingsNever,
    /// This many streams at once.
    Streams(u32),
    /// One stream at once from the fifth request of a connection on.
    StreamsLowered,
    /// No stream for 50 ms at the fifth request of a connection.
    StreamsPaused,
    /// A window of no bytes that never opens.
    WindowNever,
    /// A window that opens again by what was received.
    WindowSmall,
    /// A window of no bytes until 20 ms after a request, by settings.
    WindowLate,
    /// Answers an upload at its head, and resets it without an error.
    AnswerEarly,

    // Connections.
    /// Closes in the body.
    CloseInBody,
    /// Resets the connection in the body.
    ResetConnectionInBody,
    /// Closes when it has read a request.
    CloseOnRequest,
    /// Answers by HTTP/1.1.
    AnswerHttp1,
    /// Ends a stream twice.
    EndTwice,
    /// Frames that break this rule of a connection.
    BreaksConnection(ConnectionRule),
    /// Frames without an end.
    Floods(Flood),
}

/// A rule for one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamRule {
    /// DATA beyond `content-length`.
    BodyTooLong,
    /// DATA short of `content-length`.
    BodyTooShort,
    /// DATA before the head.
    BodyEarly,
    /// A body with 204.
    BodyForbidden,
    /// A header list of 72 KiB in 1.2 KiB: one field, again and again.
    HeaderBomb,
    /// A head without a status.
    StatusMissing,
    /// A status of two digits.
    StatusInvalid,
    /// A field of an HTTP/1.1 connection.
    ConnectionField,
    /// A field's name in capitals.
    FieldName,
    /// 17 interim responses.
    TooManyInterim,
    /// A switch of protocols.
    Upgrade,
    /// Trailers that don't end the stream.
    TrailersGoOn,
    /// A window that is widened by nothing.
    StreamIncrement,
    /// A window beyond 2³¹ − 1.
    StreamWindow,
}

/// A rule for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionRule {
    /// A frame of 16 KiB and a byte.
    FrameTooLarge,
    /// A PING of seven bytes.
    FrameLength,
    /// SETTINGS of a stream.
    FrameStream,
    /// Padding that is longer than its frame.
    Padding,
    /// A header block with a PING in it.
    BlockInterrupted,
    /// A CONTINUATION of nothing.
    StrayContinuation,
    /// A push, which the client's settings forbid.
    PushPromise,
    /// A response on a stream that only the server could begin.
    ServerStream,
    /// A response on a stream that hasn't begun.
    IdleStream,
    /// An acknowledgement of settings that weren't sent.
    SettingsAck,
    /// A setting that enables pushes.
    EnablePush,
    /// A setting of a window of 2³¹.
    InitialWindow,
    /// A setting of frames of 100 bytes.
    MaxFrameSize,
    /// The connection's window is widened by nothing.
    ConnectionIncrement,
    /// The connection's window is beyond 2³¹ − 1.
    ConnectionWindow,
    /// A second GOAWAY with a greater last stream.
    GoAwayRaised,
    /// The index 0 of HPACK.
    HpackIndex,
    /// A Huffman string that is padded by a whole byte.
    HpackHuffman,
    /// A dynamic table of 4 KiB and a byte.
    HpackTableSize,
}

/// Frames of one kind without an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flood {
    /// Empty SETTINGS.
    Settings,
    /// PING.
    Ping,
    /// DATA without data.
    EmptyData,
    /// RST_STREAM of one stream.
    Reset,
    /// WINDOW_UPDATE by one byte.
    WindowUpdate,
    /// PRIORITY.
    Priority,
    /// CONTINUATION of nothing.
    EmptyContinuation,
    /// CONTINUATION of 8 KiB.
    Continuation,
}
