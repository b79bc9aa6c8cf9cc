//! HTTP/2: the requests of a shard that another stream has to carry.

use std::collections::HashMap;

use record::stamps::Stamps;

/// For how many such requests memory is allocated in advance.
const REQUESTS_MAX: usize = 1 << 16;

/// The requests that have to be sent again.
#[derive(Debug)]
pub struct Requeue {
    /// Those that wait for a stream, by number.
    pub again: HashMap<u64, Again>,
    /// True if some of them may find a stream or need a connection, or a slot is stranded.
    pub is_due: bool,
    /// Slots whose connection ends before some of its requests could begin.
    pub stranded: Vec<u32>,
}

/// A request that has to be sent again.
#[derive(Clone, Copy, Debug)]
pub struct Again {
    /// Its stamps so far.
    pub stamps: Stamps,
    /// True if the target refused it.
    pub refused: bool,
}

impl Requeue {
    /// Empty, with room for all that this many slots of this many streams may send back at once,
    /// within reason. Without slots it allocates nothing.
    pub fn new(slots: usize, streams: usize) -> Requeue {
        let most = REQUESTS_MAX.min(slots * streams);
        Requeue {
            again: HashMap::with_capacity(most),
            is_due: false,
            stranded: Vec::with_capacity(slots),
        }
    }
}
