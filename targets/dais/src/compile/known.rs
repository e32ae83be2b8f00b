//! Which operations a program under construction has already: equal operations are built once.

use crate::isa::Inst;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// A set of slots by what they compute, four bytes a place. The operations themselves are looked
/// up where they are kept, so that they are not held twice.
#[derive(Default)]
pub(super) struct Known {
    /// Open addressing with linear probing; a slot plus 1, or 0 for a free place. The length is a
    /// power of two, at least a third of the places are free.
    places: Vec<u32>,
    count: usize,
}

/// The key of an operation: its instruction, since operations of equal ones mostly have equal
/// ranges, too.
pub(super) fn key_of(inst: &Inst) -> u64 {
    let mut hasher = FxHasher::default();
    inst.hash(&mut hasher);
    hasher.finish()
}

impl Known {
    /// The slot with this key for which `equal` holds.
    pub(super) fn find(&self, key: u64, equal: impl Fn(u32) -> bool) -> Option<u32> {
        if self.places.is_empty() {
            return None;
        }
        let mask = self.places.len() - 1;
        let mut at = spread(key) & mask;
        loop {
            let slot = self.places[at].checked_sub(1)?;
            if equal(slot) {
                return Some(slot);
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds a slot that is not there; `key_at` gives the key of any slot.
    pub(super) fn insert(&mut self, slot: u32, key_at: impl Fn(u32) -> u64) {
        if (self.count + 1) * 3 > self.places.len() * 2 {
            let places = (self.places.len() * 2).max(1 << 10);
            let old = std::mem::replace(&mut self.places, vec![0; places]);
            for moved in old.into_iter().filter_map(|place| place.checked_sub(1)) {
                self.put(moved, key_at(moved));
            }
        }
        self.put(slot, key_at(slot));
        self.count += 1;
    }

    fn put(&mut self, slot: u32, key: u64) {
        let mask = self.places.len() - 1;
        let mut at = spread(key) & mask;
        while self.places[at] != 0 {
            at = (at + 1) & mask;
        }
        self.places[at] = slot + 1;
    }
}

/// The hash's good bits are its high ones.
fn spread(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys of which many are equal: every slot is found by itself, no other is.
    #[test]
    fn slots_are_found() {
        let mut known = Known::default();
        let key = |slot: u32| u64::from(slot / 7);
        for slot in 0..5_000 {
            assert_eq!(known.find(key(slot), |other| other == slot), None);
            known.insert(slot, key);
        }
        for slot in 0..5_000 {
            assert_eq!(known.find(key(slot), |other| other == slot), Some(slot));
        }
        assert_eq!(known.find(key(3), |_| false), None);
    }
}
