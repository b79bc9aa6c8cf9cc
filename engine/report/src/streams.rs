//! HTTP/2 in the report.

use record::streams::{StreamCounts, StreamSums};

use crate::{DistributionPart, StreamsPart};

/// What HTTP/2 did on the connections; `alone` lays out a distribution.
pub(super) fn part(
    counts: &StreamCounts,
    alone: impl Fn(&stats::distribution::Distribution) -> DistributionPart,
) -> StreamsPart {
    let StreamCounts { limit, most, sums } = counts;
    let StreamSums { begun, in_flight, .. } = *sums;
    StreamsPart {
        limit: *limit,
        in_flight_mean: if begun == 0 { 0.0 } else { in_flight as f64 / begun as f64 },
        in_flight_max: *most,
        frames_sent: sums.frames_sent,
        frames_received: sums.frames_received,
        request_header_bytes: sums.request_block_bytes,
        request_header_bytes_uncompressed: sums.request_field_bytes,
        response_header_bytes: sums.response_block_bytes,
        response_header_bytes_uncompressed: sums.response_field_bytes,
        connection_wait: alone(&sums.connection_wait),
        stream_wait: alone(&sums.stream_wait),
        window_wait: alone(&sums.window_wait),
    }
}
