//! HTTP/2 on a shard's connections: streams, frames, header compression, and what requests waited
//! for.

use derive_more::AddAssign;
use serde::{Deserialize, Serialize};
use stats::distribution::Distribution;

/// Counts of HTTP/2, of the whole run unless they say otherwise; empty for HTTP/1.1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamCounts {
    /// The fewest streams that the target took on a connection; `None` if it set no limit.
    pub limit: Option<u32>,
    /// The most streams in flight on one connection.
    pub most: u64,
    /// The sums of the rest.
    pub sums: StreamSums,
}

/// The counts that add up.
#[derive(AddAssign, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamSums {
    /// Requests that began a stream.
    pub begun: u64,
    /// The sum, over these, of the streams in flight on the connection once the request is one.
    pub in_flight: u64,
    /// Frames of responses.
    pub frames_received: u64,
    /// HEADERS and DATA frames of requests.
    pub frames_sent: u64,
    /// Header blocks of requests, bytes.
    pub request_block_bytes: u64,
    /// Names and values of requests' headers, bytes.
    pub request_field_bytes: u64,
    /// Header blocks of responses, bytes.
    pub response_block_bytes: u64,
    /// Names and values of responses' headers, bytes.
    pub response_field_bytes: u64,
    /// How long requests of the window waited for a connection that was being opened.
    pub connection_wait: Distribution,
    /// How long requests of the window waited for a stream of a connection that was open.
    pub stream_wait: Distribution,
    /// How long the end of a request's body followed its head, for bodies that didn't leave with
    /// it: the target's window was closed, or the body long.
    pub window_wait: Distribution,
}

impl StreamCounts {
    /// The target takes this many streams on a connection, or any number.
    pub fn limited(&mut self, streams_max: Option<u32>) {
        self.limit = [self.limit, streams_max].into_iter().flatten().min();
    }

    /// A request began a stream, as one of this many in flight on its connection.
    #[inline]
    pub fn begun(&mut self, in_flight: usize) {
        let in_flight = in_flight as u64;
        self.sums.begun += 1;
        self.sums.in_flight += in_flight;
        self.most = self.most.max(in_flight);
    }
}

impl std::ops::AddAssign for StreamCounts {
    fn add_assign(&mut self, other: StreamCounts) {
        self.limited(other.limit);
        self.most = self.most.max(other.most);
        self.sums += other.sums;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_limit_and_the_most_streams_are_kept() {
        let mut sum = StreamCounts::default();
        for (limit, in_flight) in [(None, 3), (Some(9), 7), (Some(50), 1), (None, 2)] {
            let mut other = StreamCounts::default();
            other.limited(limit);
            other.begun(in_flight);
            sum += other;
        }
        assert_eq!((sum.limit, sum.most), (Some(9), 7));
        assert_eq!((sum.sums.begun, sum.sums.in_flight), (4, 13));
    }
}
