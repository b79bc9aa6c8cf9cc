//! An agent as a controller sees it, over loopback: it takes one run at a time, does what it is
//! told in its turn, and stops by itself when nobody tells it anything.

#![forbid(unsafe_code)]

mod lives;
mod lost;
mod refusals;
mod support;
