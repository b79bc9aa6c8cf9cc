//! One stream: a request that is being sent, and the response to it (RFC 9113, section 8.1).

use crate::event::Response;
use crate::hpack::section::Section;
use crate::violation::Violation;
use crate::window::{ReceiveWindow, SendWindow};

/// The most interim (1xx) responses before a final response.
pub(crate) const INTERIM_MAX: u8 = 16;

/// What a stream is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// The caller's name for the request.
    pub(crate) key: u64,
    /// True if the response has no body because the method is HEAD.
    pub(crate) is_head: bool,
    /// The length of the request's body, bytes.
    pub(crate) body_bytes: u64,
}

/// How far the response is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The final response's head is still to come.
    Head,
    /// The body, which may have this length only.
    Body(Option<u64>),
    /// No body may come, whatever `content-length` says.
    NoBody,
}

/// What a section is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// An interim response with this status.
    Interim(u16),
    /// A part of the response, after which more comes.
    Part,
    /// The end of the response.
    End,
}

/// A stream, or a place for one.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    /// 0 if there is none.
    pub(crate) id: u32,
    /// The caller's name for the request.
    pub(crate) key: u64,
    /// What may be sent on it.
    pub(crate) send_window: SendWindow,
    /// What may be received on it.
    pub(crate) receive_window: ReceiveWindow,
    /// How many bytes of the request's body have been sent.
    pub(crate) body_sent: u64,
    /// How many are left.
    pub(crate) body_left: u64,
    /// True if it waits in the queue of those with something to send.
    pub(crate) queued: bool,
    is_head: bool,
    interim: u8,
    phase: Phase,
    response: Response,
}

impl Stream {
    /// A place for a stream.
    pub(crate) fn none() -> Stream {
        let nothing = Asked { key: 0, is_head: false, body_bytes: 0 };
        Stream::new(0, nothing, SendWindow::new(0))
    }

    /// A stream whose request begins.
    #[inline]
    pub(crate) fn new(id: u32, asked: Asked, send_window: SendWindow) -> Stream {
        Stream {
            id,
            key: asked.key,
            send_window,
            receive_window: ReceiveWindow::default(),
            body_sent: 0,
            body_left: asked.body_bytes,
            queued: false,
            is_head: asked.is_head,
            interim: 0,
            phase: Phase::Head,
            response: Response::default(),
        }
    }

    /// The response so far.
    #[inline]
    pub(crate) fn response(&self) -> Response {
        self.response
    }

    /// True if anything of a response has come.
    pub(crate) fn has_begun(&self) -> bool {
        0 < self.response.frames
    }

    /// A DATA frame begins.
    #[inline]
    pub(crate) fn count_frame(&mut self) {
        // A body without end may have more frames than this counts.
        self.response.frames = self.response.frames.saturating_add(1);
    }

    /// A field section came: a head, or trailers.
    ///
    /// # Errors
    /// If it breaks a rule of the message.
    #[inline]
    pub(crate) fn take_section(
        &mut self,
        section: &Section,
        block_bytes: u32,
        frames: u32,
        ends: bool,
    ) -> Result<Taken, Violation> {
        self.response.frames = self.response.frames.saturating_add(frames);
        self.response.header_bytes += u64::from(block_bytes);
        self.response.field_bytes += section.field_bytes;
        if let Some(violation) = section.broken {
            return Err(violation);
        }
        if self.phase != Phase::Head {
            return match (section.has_pseudo, ends) {
                (true, _) => Err(Violation::PseudoInTrailers),
                (false, false) => Err(Violation::TrailersGoOn),
                (false, true) => self.end(),
            };
        }
        let status = section.status.ok_or(Violation::StatusMissing)?;
        if status == 101 {
            return Err(Violation::Upgrade);
        }
        if status / 100 == 1 {
            self.interim += 1;
            return match (ends, INTERIM_MAX < self.interim) {
                (true, _) => Err(Violation::InterimEnds),
                (false, true) => Err(Violation::TooManyInterim),
                (false, false) => Ok(Taken::Interim(status)),
            };
        }
        self.response.status = status;
        let has_no_body = self.is_head || status == 204 || status == 304;
        self.phase = match has_no_body {
            true => Phase::NoBody,
            false => Phase::Body(section.content_length),
        };
        if ends { self.end() } else { Ok(Taken::Part) }
    }

    /// Data came.
    ///
    /// # Errors
    /// If the response may not have it.
    #[inline]
    pub(crate) fn take_data(&mut self, bytes: u32) -> Result<(), Violation> {
        self.response.body_bytes += u64::from(bytes);
        match self.phase {
            Phase::Head => Err(Violation::BodyEarly),
            Phase::NoBody if 0 < self.response.body_bytes => Err(Violation::BodyForbidden),
            Phase::Body(Some(length)) if length < self.response.body_bytes => {
                Err(Violation::LengthMismatch)
            }
            Phase::NoBody | Phase::Body(_) => Ok(()),
        }
    }

    /// The response ends.
    ///
    /// # Errors
    /// If it is too short.
    #[inline]
    pub(crate) fn end(&self) -> Result<Taken, Violation> {
        match self.phase {
            Phase::Body(Some(length)) if length != self.response.body_bytes => {
                Err(Violation::LengthMismatch)
            }
            _ => Ok(Taken::End),
        }
    }
}
