//! The limit on frames that cost work and bring nothing (RFC 9113, section 10.5).
//!
//! There is no clock here, and so no rate to limit. Such frames are counted, and each step of
//! progress (a response, or a frame of data received or sent) takes some off the count. A server
//! that pings once for each of its frames, or acknowledges each of ours with a window update, stays
//! far below the limit; a flood reaches it.

/// How many more frames without progress than progress allows.
pub(crate) const IDLE_FRAMES_MAX: u32 = 1_000;

/// How many such frames each step of progress makes up for.
pub(crate) const IDLE_FRAMES_FORGIVEN: u32 = 8;

/// The count of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flood {
    idle_frames: u32,
}

impl Flood {
    /// A frame that brings nothing; false if there are too many.
    #[must_use]
    pub(crate) fn idle_frame(&mut self) -> bool {
        self.idle_frames += 1;
        self.idle_frames <= IDLE_FRAMES_MAX
    }

    /// A response, or a frame of data.
    #[inline]
    pub(crate) fn progress(&mut self) {
        self.idle_frames = self.idle_frames.saturating_sub(IDLE_FRAMES_FORGIVEN);
    }
}
