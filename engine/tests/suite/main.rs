//! The engine from outside: runs against small servers on loopback, and made-up runs without a
//! network.

#![forbid(unsafe_code)]

mod http2_server;
mod made_up;
mod support;
mod tls_server;

mod agents;
mod carried;
mod checks;
mod document;
mod fields;
mod hosts;
mod http2;
mod intervals;
mod joint;
mod not_hidden;
mod outcomes;
mod own;
mod pipelining;
mod policies;
mod receive_stamps;
mod sample_file;
mod sample_format;
mod sample_loss;
mod sample_run;
mod sample_segments;
mod secrets;
mod send_stamps;
mod sessions;
mod shards;
mod slo;
mod stages;
mod steps;
mod tls;
mod unix;
mod uploads;
mod users;
mod verdict;
mod verdict_page;
mod verify_report;
mod verify_samples;
