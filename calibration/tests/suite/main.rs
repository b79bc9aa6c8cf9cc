//! The instrument against the sample service. These experiments run one at a time: each needs the
//! cores to itself.

#![forbid(unsafe_code)]

mod support;

mod arrivals;
mod cases;
mod coverage;
mod findings;
mod hold;
mod ledger;
mod null_target;
mod null_target_http2;
mod numbers;
mod overload;
mod routes;
mod shop;
mod stages;
