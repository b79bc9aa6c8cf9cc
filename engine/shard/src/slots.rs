//! A stack of slot numbers from which any slot can be removed in constant time.

/// A stack of slot numbers. A slot removed from the middle is replaced by the top.
pub(super) struct SlotStack {
    stack: Vec<u32>,
    /// Each slot's index in `stack`.
    places: Vec<u32>,
}

/// The index of a slot that isn't in the stack.
const NOWHERE: u32 = u32::MAX;

impl SlotStack {
    /// An empty stack for slots `0..slots`.
    pub(super) fn new(slots: usize) -> SlotStack {
        SlotStack { stack: Vec::with_capacity(slots), places: vec![NOWHERE; slots] }
    }

    /// Puts a slot on top.
    #[inline]
    pub(super) fn push(&mut self, slot: u32) {
        assert_eq!(self.places[slot as usize], NOWHERE, "a slot is in the stack at most once");
        self.places[slot as usize] =
            u32::try_from(self.stack.len()).expect("no more than the slots");
        self.stack.push(slot);
    }

    /// Takes the slot on top.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<u32> {
        let slot = self.stack.pop()?;
        self.places[slot as usize] = NOWHERE;
        Some(slot)
    }

    /// Removes a slot, wherever it is; returns false if it wasn't there.
    #[inline]
    pub(super) fn remove(&mut self, slot: u32) -> bool {
        let place = std::mem::replace(&mut self.places[slot as usize], NOWHERE);
        if place == NOWHERE {
            return false;
        }
        self.stack.swap_remove(place as usize);
        if let Some(moved) = self.stack.get(place as usize) {
            self.places[*moved as usize] = place;
        }
        true
    }

    /// The number of slots in it.
    pub(super) fn len(&self) -> usize {
        self.stack.len()
    }

    /// True if it is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.stack.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_stack_agrees_with_a_list(steps in proptest::collection::vec((0_u32..6, 0_u8..3), 1..200)) {
            let mut stack = SlotStack::new(6);
            let mut model: Vec<u32> = Vec::new();
            for (slot, step) in steps {
                let at = model.iter().position(|known| *known == slot);
                match step {
                    0 if at.is_none() => {
                        stack.push(slot);
                        model.push(slot);
                    }
                    1 => prop_assert_eq!(stack.pop(), model.pop()),
                    2 => {
                        prop_assert_eq!(stack.remove(slot), at.is_some());
                        if let Some(at) = at {
                            model.swap_remove(at);
                        }
                    }
                    _ => {}
                }
                prop_assert_eq!(&stack.stack, &model);
            }
        }
    }
}
