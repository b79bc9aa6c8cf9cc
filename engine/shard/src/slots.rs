//! Stacks of slot numbers, in which each slot is at most once, and from which any slot can be
//! removed in constant time.

/// Stacks of slot numbers. A slot removed from the middle of one is replaced by its top.
pub(super) struct SlotStacks {
    stacks: Vec<Vec<u32>>,
    /// Each slot's index in its stack.
    places: Vec<u32>,
    /// The stack of each slot that is in one.
    stack_of: Vec<u16>,
}

/// The index of a slot that isn't in a stack.
const NOWHERE: u32 = u32::MAX;

impl SlotStacks {
    /// This many empty stacks for slots `0..slots`.
    pub(super) fn new(stacks: usize, slots: usize) -> SlotStacks {
        SlotStacks {
            stacks: (0..stacks).map(|_| Vec::with_capacity(slots)).collect(),
            places: vec![NOWHERE; slots],
            stack_of: vec![0; slots],
        }
    }

    /// Puts a slot on top of a stack.
    #[inline]
    pub(super) fn push(&mut self, stack: u16, slot: u32) {
        assert_eq!(self.places[slot as usize], NOWHERE, "a slot is in a stack at most once");
        let slots = &mut self.stacks[usize::from(stack)];
        self.places[slot as usize] = u32::try_from(slots.len()).expect("no more than the slots");
        self.stack_of[slot as usize] = stack;
        slots.push(slot);
    }

    /// Takes the slot on top of a stack.
    #[inline]
    pub(super) fn pop(&mut self, stack: u16) -> Option<u32> {
        let slot = self.stacks[usize::from(stack)].pop()?;
        self.places[slot as usize] = NOWHERE;
        Some(slot)
    }

    /// Removes a slot, wherever it is; returns false if it wasn't in a stack.
    #[inline]
    pub(super) fn remove(&mut self, slot: u32) -> bool {
        let place = std::mem::replace(&mut self.places[slot as usize], NOWHERE);
        if place == NOWHERE {
            return false;
        }
        let slots = &mut self.stacks[usize::from(self.stack_of[slot as usize])];
        slots.swap_remove(place as usize);
        if let Some(moved) = slots.get(place as usize) {
            self.places[*moved as usize] = place;
        }
        true
    }

    /// The number of slots in a stack.
    pub(super) fn len(&self, stack: u16) -> usize {
        self.stacks[usize::from(stack)].len()
    }

    /// The stack with the most slots, other than this one, unless all others are empty.
    pub(super) fn largest_but(&self, but: u16) -> Option<u16> {
        let stacks = (0_u16..).take(self.stacks.len()).filter(|stack| *stack != but);
        stacks.max_by_key(|stack| self.len(*stack)).filter(|stack| 0 < self.len(*stack))
    }

    /// The slot at the bottom of a stack.
    pub(super) fn bottom(&self, stack: u16) -> Option<u32> {
        self.stacks[usize::from(stack)].first().copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn stacks_agree_with_lists(
            steps in proptest::collection::vec((0_u32..6, 0_u8..3, 0_u16..2), 1..200)
        ) {
            let mut stacks = SlotStacks::new(2, 6);
            let mut models: [Vec<u32>; 2] = Default::default();
            for (slot, step, stack) in steps {
                let within = |model: &Vec<u32>| model.iter().position(|known| *known == slot);
                let found = (0..2).find_map(|of| Some((of, within(&models[of])?)));
                match step {
                    0 if found.is_none() => {
                        stacks.push(stack, slot);
                        models[usize::from(stack)].push(slot);
                    }
                    1 => prop_assert_eq!(stacks.pop(stack), models[usize::from(stack)].pop()),
                    2 => {
                        prop_assert_eq!(stacks.remove(slot), found.is_some());
                        if let Some((of, at)) = found {
                            models[of].swap_remove(at);
                        }
                    }
                    _ => {}
                }
                prop_assert_eq!(&stacks.stacks[..], &models[..]);
                let other = 1 - stack;
                let largest = Some(other).filter(|of| !models[usize::from(*of)].is_empty());
                prop_assert_eq!(stacks.largest_but(stack), largest);
            }
        }
    }
}
