//! Classifies raw responses: one JSON object per line on standard input, one result per line on
//! standard output.
//!
//! In: `{"id", "raw_base64", "request_method"}`.
//! Out: `{"id", "outcome", "status", "body_len", "keep_alive"}`, where `outcome` is `complete`,
//! `complete_close` (ended by the close), `incomplete` (cut short) or `error`.

#![forbid(unsafe_code)]

use std::io::{BufRead, Write};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http1::response::{Progress, Response, ResponseParser, Violation};
use serde::{Deserialize, Serialize};

/// One case.
#[derive(Deserialize)]
struct Case {
    id: String,
    raw_base64: String,
    request_method: String,
}

/// One result.
#[derive(Serialize)]
struct Answer {
    id: String,
    outcome: &'static str,
    status: Option<u16>,
    body_len: Option<u64>,
    keep_alive: Option<bool>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let case: Case = serde_json::from_str(&line)?;
        let raw = BASE64_STANDARD.decode(&case.raw_base64)?;
        let (outcome, response) = classify(&raw, case.request_method == "HEAD");
        let answer = Answer {
            id: case.id,
            outcome,
            status: response.map(|response| response.status),
            body_len: response.map(|response| response.body_bytes),
            keep_alive: response.map(|response| response.keep_alive),
        };
        serde_json::to_writer(&mut out, &answer)?;
        writeln!(out)?;
    }
    Ok(())
}

/// Feeds the bytes, then the end of the stream, and classifies the first response.
fn classify(raw: &[u8], head_request: bool) -> (&'static str, Option<Response>) {
    let mut parser = ResponseParser::new();
    match parser.feed(head_request, raw) {
        Ok(Progress::Done(response)) => {
            // Unsolicited bytes: the connection can't be used for another request.
            let keep_alive = response.keep_alive && response.consumed == raw.len();
            ("complete", Some(Response { keep_alive, ..response }))
        }
        Ok(Progress::NeedMore) => match parser.finish() {
            Ok(response) => ("complete_close", Some(response)),
            Err(Violation::CutShort | Violation::ClosedBeforeResponse) => ("incomplete", None),
            Err(_) => ("error", None),
        },
        Err(_) => ("error", None),
    }
}
