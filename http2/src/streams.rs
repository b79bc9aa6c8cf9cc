//! The open streams, found by their identifier with one look.
//!
//! A stream lies at the place that its identifier has in a ring of twice as many places as there
//! may be streams. If a stream begun long ago still has that place, the next identifiers are left
//! out until one has a free place: a peer must take a greater identifier as the end of those never
//! used (RFC 9113, section 5.1.1). At least half of the places are free, so this leaves out at most
//! one identifier for each that it uses, over a whole round.

use crate::frame::STREAM_MAX;
use crate::stream::{Asked, Stream};
use crate::window::SendWindow;

/// The streams of one connection.
#[derive(Debug)]
pub(crate) struct Streams {
    places: Box<[Stream]>,
    /// The next identifier, unless its place is taken. Ours are odd.
    next_id: u32,
    open: usize,
}

impl Streams {
    /// Room for so many streams at once.
    pub(crate) fn new(streams_max: usize) -> Streams {
        let places = (2 * streams_max.max(1)).next_power_of_two();
        Streams { places: vec![Stream::none(); places].into(), next_id: 1, open: 0 }
    }

    /// Starts over for a new connection.
    pub(crate) fn reset(&mut self) {
        self.places.iter_mut().for_each(|place| place.id = 0);
        (self.next_id, self.open) = (1, 0);
    }

    /// How many are open.
    #[inline]
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// True if no identifier is left.
    #[inline]
    pub(crate) fn is_used_up(&self) -> bool {
        STREAM_MAX < self.next_id
    }

    /// True if an identifier is one that we haven't used, nor left out.
    #[inline]
    pub(crate) fn is_idle(&self, id: u32) -> bool {
        self.next_id <= id
    }

    /// The identifier that comes next; `None` if none is left.
    #[inline]
    pub(crate) fn next_id(&mut self) -> Option<u32> {
        while !self.is_used_up() && self.places[self.place(self.next_id)].id != 0 {
            self.next_id += 2;
        }
        (!self.is_used_up()).then_some(self.next_id)
    }

    /// Begins a stream with the identifier that comes next.
    #[inline]
    pub(crate) fn begin(&mut self, id: u32, asked: Asked, send_window: SendWindow) {
        assert!(id == self.next_id && 2 * self.open < self.places.len(), "there is room");
        let place = self.place(id);
        self.places[place] = Stream::new(id, asked, send_window);
        self.next_id += 2;
        self.open += 1;
    }

    /// An open stream.
    #[inline]
    pub(crate) fn get(&mut self, id: u32) -> Option<&mut Stream> {
        let place = self.place(id);
        let stream = &mut self.places[place];
        (stream.id == id && id != 0).then_some(stream)
    }

    /// Removes an open stream.
    #[inline]
    pub(crate) fn remove(&mut self, id: u32) {
        let stream = self.get(id).expect("an open stream");
        stream.id = 0;
        self.open -= 1;
    }

    /// All open streams.
    pub(crate) fn all(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.places.iter_mut().filter(|stream| stream.id != 0)
    }

    /// The first open stream of which `is_it` holds, among the places from `from` on, and its
    /// place.
    pub(crate) fn find(
        &self,
        from: usize,
        is_it: impl Fn(&Stream) -> bool,
    ) -> Option<(usize, &Stream)> {
        let places = self.places.iter().enumerate().skip(from);
        places.into_iter().find(|(_, stream)| stream.id != 0 && is_it(stream))
    }

    #[inline]
    fn place(&self, id: u32) -> usize {
        (id / 2) as usize & (self.places.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(streams: &mut Streams) -> Option<u32> {
        let id = streams.next_id()?;
        let asked = Asked { key: u64::from(id) * 10, is_head: false, body_bytes: 0 };
        streams.begin(id, asked, SendWindow::new(0));
        Some(id)
    }

    #[test]
    fn identifiers_go_around_those_that_stay_open() {
        let mut streams = Streams::new(4);
        assert_eq!(streams.places.len(), 8);
        let long: Vec<_> = (0..3).filter_map(|_| begin(&mut streams)).collect();
        assert_eq!(long, [1, 3, 5]);
        let mut used = Vec::new();
        for _ in 0..10 {
            let id = begin(&mut streams).expect("identifiers are left");
            assert_eq!(streams.get(id).map(|stream| stream.key), Some(u64::from(id) * 10));
            assert_eq!(streams.open(), 4);
            streams.remove(id);
            used.push(id);
        }
        assert_eq!(used, [7, 9, 11, 13, 15, 23, 25, 27, 29, 31], "17, 19 and 21 are left out");
        assert!(long.iter().all(|&id| streams.get(id).is_some()));
        assert!(streams.get(7).is_none() && streams.get(17).is_none() && streams.get(0).is_none());
        assert!(!streams.is_idle(31) && streams.is_idle(33));
    }

    #[test]
    fn identifiers_end() {
        let mut streams = Streams::new(1);
        streams.next_id = STREAM_MAX;
        assert_eq!(begin(&mut streams), Some(STREAM_MAX));
        assert_eq!(begin(&mut streams), None);
        assert!(streams.is_used_up());
    }
}
