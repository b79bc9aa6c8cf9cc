//! What is kept of a response until its checks are made.
//!
//! Only responses to requests with checks are kept, in one buffer a connection or, with HTTP/2, a
//! stream. It grows to the longest response so far, up to the plan's limit, and keeps its memory,
//! so after a while nothing is allocated for a response.

use std::collections::HashMap;

use http1::response::{Keep, fields};
use http2::hpack::full::Field;
use plan::check::Checks;
use plan::content::{Content, Fields};
use sys::seal;

/// A response as it arrives.
#[derive(Debug, Default)]
pub struct Kept {
    fields: Fields,
    body: Vec<u8>,
    /// The longest body that is kept, bytes; 0 if no check needs it.
    most: usize,
    /// True if the body was longer.
    is_cut: bool,
}

impl Kept {
    /// The response to a request with these checks begins.
    pub fn begin(&mut self, checks: &Checks) {
        self.fields.clear();
        self.body.clear();
        (self.most, self.is_cut) = (checks.body_max(), false);
    }

    /// The response as its checks see it: `path` is that of its request, and `is_last` is true if
    /// that isn't repeated any more.
    pub fn content<'a>(&'a self, status: u16, path: &'a [u8], is_last: bool) -> Content<'a> {
        let body = (!self.is_cut).then_some(self.body.as_slice());
        Content { status, path, is_last, fields: &self.fields, body }
    }
}

impl Keep for Kept {
    fn head(&mut self, bytes: &[u8]) {
        self.fields.clear();
        seal::lend(|| fields(bytes, |name, value| self.fields.push(name.as_bytes(), value)));
    }

    fn body(&mut self, bytes: &[u8]) {
        if self.most == 0 || self.is_cut {
            return;
        }
        if self.most - self.body.len() < bytes.len() {
            self.is_cut = true;
            return;
        }
        if self.body.capacity() < self.body.len() + bytes.len() {
            seal::lend(|| self.body.reserve(bytes.len()));
        }
        self.body.extend_from_slice(bytes);
    }
}

/// The responses in progress on an HTTP/2 connection, each by the number of its request.
#[derive(Debug, Default)]
pub struct KeptStreams {
    each: Vec<Kept>,
    /// The places of those in progress.
    places: HashMap<u64, usize>,
    /// The places of no response.
    free: Vec<usize>,
    /// The place of the one that has just been completed.
    complete: Option<usize>,
}

impl KeptStreams {
    /// Starts over on a new connection; buffers keep their memory.
    pub fn reset(&mut self) {
        self.places.clear();
        self.free.clear();
        self.free.extend(0..self.each.len());
        self.complete = None;
    }

    /// The place of the last response that was completed is free for another.
    pub fn free_complete(&mut self) {
        self.free.extend(self.complete.take());
    }

    /// The head of the response to this request is complete, the final one.
    pub fn head(&mut self, number: u64, checks: &Checks, fields: &[Field]) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.each.push(Kept::default());
            self.each.len() - 1
        });
        self.places.insert(number, place);
        let kept = &mut self.each[place];
        kept.begin(checks);
        let named = fields.iter().filter(|field| !field.name.starts_with(b":"));
        named.for_each(|Field { name, value }| kept.fields.push(name, value));
    }

    /// A part of the body of the response to this request.
    pub fn body(&mut self, number: u64, bytes: &[u8]) {
        if let Some(place) = self.places.get(&number) {
            self.each[*place].body(bytes);
        }
    }

    /// The response to this request is complete; true if its head had come before.
    pub fn done(&mut self, number: u64) -> bool {
        self.complete = self.places.remove(&number);
        self.complete.is_some()
    }

    /// The request has ended without a response.
    pub fn forget(&mut self, number: u64) {
        self.free.extend(self.places.remove(&number));
    }

    /// The last response that was completed.
    pub fn last(&self) -> Option<&Kept> {
        self.complete.map(|place| &self.each[place])
    }
}
