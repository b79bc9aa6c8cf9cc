//! The arithmetic of flow control (RFC 9113, section 6.9): a window to send in, one to receive in.

use crate::frame::STREAM_MAX;
use crate::settings::RECEIVE_WINDOW;

/// How much may still be sent; below zero after the peer has lowered its initial window (RFC 9113,
/// section 6.9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SendWindow(i64);

impl SendWindow {
    /// A window of this many bytes.
    pub(crate) fn new(bytes: u32) -> SendWindow {
        SendWindow(i64::from(bytes))
    }

    /// How many bytes may be sent now.
    #[inline]
    pub(crate) fn room(self) -> u32 {
        u32::try_from(self.0.max(0)).expect("a window is at most 2³¹ − 1")
    }

    /// Bytes are sent, at most [`SendWindow::room`].
    #[inline]
    pub(crate) fn send(&mut self, bytes: u32) {
        assert!(bytes <= self.room(), "no more is sent than the window allows");
        self.0 -= i64::from(bytes);
    }

    /// The window changes by so many bytes; false if it would exceed 2³¹ − 1.
    #[must_use]
    pub(crate) fn change(&mut self, bytes: i64) -> bool {
        self.0 += bytes;
        self.0 <= i64::from(STREAM_MAX)
    }
}

/// What the peer has used of its window for us.
///
/// No peer is found to have used more: its window is renewed as soon as half of it is used, so what
/// it sends is covered the moment it is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReceiveWindow {
    used: u32,
}

impl ReceiveWindow {
    /// Bytes were received, at most a frame's. Returns the increment for the peer once half of the
    /// window is used: so one update serves for 512 MiB, and many responses.
    #[inline]
    pub(crate) fn receive(&mut self, bytes: u32) -> Option<u32> {
        self.used += bytes;
        let renew = RECEIVE_WINDOW / 2 <= self.used;
        renew.then(|| std::mem::take(&mut self.used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_send_window_may_be_below_zero() {
        let mut window = SendWindow::new(100);
        window.send(90);
        assert_eq!(window.room(), 10);
        assert!(window.change(-60));
        assert_eq!((window, window.room()), (SendWindow(-50), 0));
        assert!(window.change(50));
        assert_eq!(window.room(), 0);
        assert!(window.change(1));
        assert_eq!(window.room(), 1);
    }

    #[test]
    fn a_send_window_has_a_limit() {
        let mut window = SendWindow::new(1);
        assert!(window.change(i64::from(STREAM_MAX) - 1));
        assert_eq!(window.room(), STREAM_MAX);
        assert!(!window.change(1));
    }

    #[test]
    fn a_receive_window_is_renewed_when_half_of_it_is_used() {
        let mut window = ReceiveWindow::default();
        assert_eq!(window.receive((1 << 29) - 1), None);
        assert_eq!(window.receive(16_384), Some((1 << 29) + 16_383));
        assert_eq!(window, ReceiveWindow::default());
        assert_eq!(window.receive(0), None);
    }
}
