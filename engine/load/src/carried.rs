//! What a session carries from one step to the next: captured values, and cookies.

use plan::scenario::VALUES_MAX;

use super::cookies::Jar;

/// The captured values and cookies of a session, in memory that is used again.
#[derive(Clone, Debug, Default)]
pub struct Carried {
    /// The values, by their places in the scenario.
    values: Vec<Vec<u8>>,
    /// A bit for each value that is set.
    set: u64,
    /// The cookies.
    pub cookies: Jar,
}

impl Carried {
    /// Another session begins.
    pub fn clear(&mut self) {
        self.set = 0;
        self.cookies.clear();
    }

    /// Sets a value, or takes it away; returns false, and has none, if there would be more than
    /// [`VALUES_MAX`] bytes.
    pub fn put(&mut self, place: usize, value: Option<Vec<u8>>) -> bool {
        self.set &= !(1 << place);
        let Some(value) = value else { return true };
        let others = (0..self.values.len()).filter_map(|other| self.value(other));
        if VALUES_MAX < others.map(<[u8]>::len).sum::<usize>() + value.len() {
            return false;
        }
        if self.values.len() <= place {
            self.values.resize(place + 1, Vec::new());
        }
        self.values[place] = value;
        self.set |= 1 << place;
        true
    }

    /// The value in this place, if it is set.
    pub fn value(&self, place: usize) -> Option<&[u8]> {
        let is_set = self.set & 1 << place != 0;
        self.values.get(place).filter(|_| is_set).map(Vec::as_slice)
    }

    /// The values that are set: a bit for each.
    pub fn set(&self) -> u64 {
        self.set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_set_replaced_and_bounded() {
        let mut carried = Carried::default();
        assert!(carried.put(3, Some(b"a".to_vec())) && carried.put(0, Some(b"b".to_vec())));
        assert!(carried.put(3, Some(b"c".to_vec())));
        let values = |carried: &Carried| [0, 1, 3].map(|at| carried.value(at).map(<[u8]>::to_vec));
        let of = |text: &str| Some(text.as_bytes().to_vec());
        assert_eq!((values(&carried), carried.set()), ([of("b"), None, of("c")], 0b1001));
        assert!(carried.put(1, Some(vec![b'x'; VALUES_MAX - 2])), "as many as there may be");
        assert!(!carried.put(3, Some(b"cd".to_vec())), "and no more");
        assert_eq!(carried.set(), 0b11);
        assert!(carried.put(1, None) && carried.put(3, Some(b"cd".to_vec())));
        carried.clear();
        assert_eq!((values(&carried), carried.set()), ([None, None, None], 0));
    }
}
