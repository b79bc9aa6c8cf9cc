//! HTTP/2 by prior knowledge: one connection of the server.
//!
//! It reads frames and stream identifiers, and decodes no header: a request is a stream that the
//! client has ended. Requests that arrive together are answered together, the last one first, so
//! responses come in another order than requests, and several in one piece.

mod broken;
mod fault;
mod frames;
mod responses;
mod session;

use std::thread;

use super::connection::Connection;
use super::timing::SLOW;
use super::{LAST, THINK};
pub use fault::{ConnectionRule, Flood, Http2, StreamRule};
use frames::{INITIAL_WINDOW_SIZE, MAX_CONCURRENT_STREAMS, go_away};
use session::Session;

/// How many streams a server takes at once, unless its fault is about that.
const STREAMS_MAX: u32 = 100;

/// Serves a connection until the client closes it.
pub(super) fn serve(connection: Connection<'_>, number: u64, fault: Http2) {
    let fault = if number == 0 { Http2::None } else { fault };
    let mut session = Session::new(connection, fault);
    if !session.read_preface() || !begin(&mut session) {
        return;
    }
    if fault == Http2::EndlessBody {
        return session.send_endless_bodies();
    }
    while session.read() {
        if !session.whole.is_empty() {
            // What else has arrived meanwhile waits for the next turn.
            thread::sleep(THINK);
            if !session.respond() {
                return;
            }
        }
    }
}

/// Sends the settings; returns whether requests can follow.
fn begin(session: &mut Session<'_>) -> bool {
    match session.fault {
        Http2::SettingsNever => {
            session.drain(|log| &mut log.over_limit);
            return false;
        }
        Http2::SettingsLate => thread::sleep(SLOW),
        Http2::AnswerHttp1 => {
            session.connection.write(LAST);
            session.connection.fin();
            session.drain(|log| &mut log.broken);
            return false;
        }
        _ => {}
    }
    let streams = match session.fault {
        Http2::Streams(most) => most,
        _ => STREAMS_MAX,
    };
    let window = match session.fault {
        Http2::WindowNever | Http2::WindowLate => Some((INITIAL_WINDOW_SIZE, 0)),
        _ => None,
    };
    let all = [(MAX_CONCURRENT_STREAMS, streams)].into_iter().chain(window);
    session.set(streams, &all.collect::<Vec<_>>());
    if session.fault == Http2::GoAwayAtOnce {
        session.connection.write(&go_away(0, 0));
        session.drain(|log| &mut log.refused);
        return false;
    }
    true
}
