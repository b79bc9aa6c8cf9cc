//! The faults, by family.

use super::http2::Http2;

/// A server's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,

    // Connections.
    /// Never answers on the connection of this number and later ones.
    HangFrom(u64),
    /// Accepts and reads nothing.
    NeverRead,
    /// Waits 20 ms before it accepts the next connection.
    AcceptSlowly,
    /// Closes after each response, and stops accepting before the connection of this number.
    StopAccepting(u64),
    /// Closes its connections and its port at the request of this number, and is back after 200 ms.
    Restart(u64),
    /// Sends FIN as soon as it has accepted, and reads on.
    FinOnAccept,
    /// Sends FIN when a connection has been idle for 10 ms.
    CloseIdle,

    // Answers at the wrong time.
    /// Answers when it accepts, and never again.
    AnswerOnAccept,
    /// Answers when it accepts, and then each request.
    AnswerOnAcceptAndAgain,
    /// Answers at the first byte of a request, and again when it has read it.
    AnswerBeforeReadAndAgain,
    /// Answers after 30 ms, and sends each answer once more 20 ms later.
    RepeatAnswers,
    /// Answers a large request at its head, and keeps the connection without reading the body.
    AnswerEarlyAndKeep,
    /// Answers a large request at its head, sends FIN, and reads the rest.
    AnswerEarlyAndClose,
    /// Answers a large request at its head, reads it, and keeps the connection.
    AnswerEarlyAndRead,
    /// Refuses a large request at its head, and closes with the body unread, which resets.
    AnswerEarlyAndReset,

    // More than an answer.
    /// Two responses in one write.
    TwoInOne,
    /// A response, and bytes that belong to none.
    TrailingGarbage,
    /// A 204, which has no body, with one.
    BodyAfter204,

    // Unusual, but allowed.
    /// A 304 with the length of the body that it replaces.
    LengthWith304,
    /// One byte every 10 ms.
    DripWholeResponse,
    /// A body that ends where the connection does.
    CloseDelimited,
    /// Announces that it closes, and does.
    ConnectionClose,
    /// A 503 to every third request.
    EveryThird503,

    // Unforeseeable closes.
    /// Closes after each response without announcing it.
    KeepAliveLie,
    /// Sends FIN after each response without announcing it, and reads on.
    HalfClose,
    /// Answers a request, and resets when the next one comes.
    ResetOnNextRequest,
    /// Answers a request, and sends FIN when the next one comes, which it reads.
    FinOnNextRequest,
    /// Resets once it has read a request.
    ResetAfterRequest,
    /// Resets in the middle of a body of a known length.
    ResetInBody,
    /// Resets in a body that ends where the connection does.
    ResetInCloseDelimited,
    /// Closes before the end of a body of a known length.
    ShortBody,

    // Responses without an end.
    /// A head, one byte every 10 ms.
    DripHead,
    /// A head of one endless line, as fast as the client takes it.
    EndlessHead,
    /// Chunks of one byte.
    EndlessChunks,
    /// Interim responses, one after the other.
    EndlessInterim,

    // Responses that break a rule.
    /// A head of 70 KiB.
    HugeHead,
    /// 200 header fields.
    ManyFields,
    /// A chunk size of more than 64 bits.
    ChunkSizeOverflow,
    /// Two lengths.
    LengthsDiffer,
    /// A length and chunks.
    TwoFramings,
    /// An unknown transfer coding.
    UnknownCoding,
    /// A CR in a header's value.
    BareCr,
    /// A body without a head, as in HTTP/0.9.
    NoHead,
    /// An unasked switch of protocols.
    Upgrade,

    /// It speaks HTTP/2, with this fault.
    Http2(Http2),
}
