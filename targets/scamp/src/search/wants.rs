//! Values that several readers could do with, and which of them.

use super::field::Residue;

/// Bits of the filter in front of the table, a power of two.
const FILTER: usize = 1 << 13;

/// A set of values, each with a mask of the readers that want it.
pub(super) struct Wants {
    /// A bit for each value, and for others that share it: most values are not there.
    filter: Vec<u64>,
    slots: Vec<Slot>,
    age: u32,
    count: usize,
}

#[derive(Clone, Copy)]
struct Slot {
    value: Residue,
    /// Of the table when it was filled.
    age: u32,
    mask: u8,
}

impl Wants {
    /// A set for so many values; more are left out.
    pub(super) fn new(values: usize) -> Wants {
        let empty = Slot { value: Residue::ZERO, age: 0, mask: 0 };
        let slots = vec![empty; (2 * values).next_power_of_two().max(64)];
        Wants { filter: vec![0; FILTER / 64], slots, age: 0, count: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.filter.fill(0);
        self.count = 0;
        self.age = self.age.wrapping_add(1);
        if self.age == 0 {
            self.slots.fill(Slot { value: Residue::ZERO, age: 0, mask: 0 });
            self.age = 1;
        }
    }

    /// The slot of a value: where it is, or where it would be.
    #[inline]
    fn slot(&self, value: Residue) -> usize {
        let mut at = (value.bits() >> 20) as usize & (self.slots.len() - 1);
        while self.slots[at].age == self.age && self.slots[at].value != value {
            at = (at + 1) & (self.slots.len() - 1);
        }
        at
    }

    #[inline]
    fn bit(value: Residue) -> (usize, u64) {
        let hash = (value.bits() >> 40) as usize & (FILTER - 1);
        (hash / 64, 1 << (hash % 64))
    }

    /// A reader wants a value; gives the readers that want it besides. Without `grow` only values that
    /// others want already are noted.
    #[inline]
    pub(super) fn add(&mut self, value: Residue, reader: u8, grow: bool) -> u8 {
        let (word, bit) = Wants::bit(value);
        if self.filter[word] & bit == 0 && !grow {
            return 0;
        }
        let slot = self.slot(value);
        if self.slots[slot].age == self.age {
            let others = self.slots[slot].mask;
            self.slots[slot].mask |= 1 << reader;
            return others;
        }
        if grow && 2 * self.count < self.slots.len() {
            self.filter[word] |= bit;
            self.count += 1;
            self.slots[slot] = Slot { value, age: self.age, mask: 1 << reader };
        }
        0
    }

    /// The readers that want a value.
    #[inline]
    pub(super) fn readers(&self, value: Residue) -> u8 {
        let (word, bit) = Wants::bit(value);
        if self.filter[word] & bit == 0 {
            return 0;
        }
        let slot = self.slots[self.slot(value)];
        if slot.age == self.age { slot.mask } else { 0 }
    }
}
