//! Answers at the wrong time: before their request was read, or repeated after it.

use std::thread;
use std::time::Duration;

use super::OK;
use super::connection::Connection;
use super::replies::Kind;

/// Delay of [`super::Fault::RepeatAnswers`], so none of its answers can come earlier.
pub const SLOW: Duration = Duration::from_millis(30);
/// Delay of the repetition.
const REPEATED: Duration = Duration::from_millis(20);

impl Connection<'_> {
    /// Answers each request after a while, and repeats the answer later: the next request is read
    /// meanwhile.
    pub(super) fn repeat_answers(&mut self) {
        thread::scope(|scope| {
            while self.read_request() {
                thread::sleep(SLOW);
                if !self.answer(OK, Kind::Answer(200)) {
                    return;
                }
                let stream = self.stream.try_clone().expect("a descriptor");
                let mut again = Connection { stream, server: self.server, buffer: Vec::new() };
                scope.spawn(move || {
                    thread::sleep(REPEATED);
                    again.write_extra(OK);
                });
            }
        });
    }

    /// Answers once the head of a request is read; returns the length of its body if it could.
    pub(super) fn answer_early(&mut self, response: &[u8], status: u16) -> Option<usize> {
        let length = self.read_head()?;
        if !self.answer(response, Kind::Answer(status)) {
            return None;
        }
        self.server.note(|log| log.early += 1);
        Some(length)
    }
}
