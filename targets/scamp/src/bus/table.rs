//! Entries by residue, for looking up what makes a value.

use crate::search::field::Residue;

/// A multimap from residues; clearing it costs nothing.
pub(super) struct Table<T> {
    pub(super) entries: Vec<(Residue, T)>,
    /// The next entry of the same slot, plus 1.
    next: Vec<u32>,
    /// The first entry of each slot, plus 1, with the age of the table in the upper half.
    slots: Vec<u64>,
    age: u32,
}

/// Number of slots.
const SLOTS: usize = 1 << 11;

impl<T> Table<T> {
    /// An empty one.
    pub(super) fn new() -> Table<T> {
        Table { entries: Vec::new(), next: Vec::new(), slots: vec![0; SLOTS], age: 1 }
    }

    /// Forgets the entries.
    pub(super) fn clear(&mut self) {
        if self.age == u32::MAX {
            self.slots.fill(0);
            self.age = 0;
        }
        self.age += 1;
        self.entries.clear();
        self.next.clear();
    }

    #[inline]
    fn slot(value: Residue) -> usize {
        (value.bits() >> 20) as usize & (SLOTS - 1)
    }

    /// The first entry of a slot, plus 1.
    #[inline]
    fn first(&self, slot: usize) -> u32 {
        let first = self.slots[slot];
        if (first >> 32) as u32 == self.age { first as u32 } else { 0 }
    }

    /// Adds an entry.
    #[inline]
    pub(super) fn push(&mut self, value: Residue, entry: T) {
        let slot = Self::slot(value);
        self.next.push(self.first(slot));
        self.entries.push((value, entry));
        self.slots[slot] = u64::from(self.age) << 32 | self.entries.len() as u64;
    }

    /// The entries of a value.
    #[inline]
    pub(super) fn find(&self, value: Residue) -> impl Iterator<Item = &T> {
        let mut at = self.first(Self::slot(value));
        std::iter::from_fn(move || {
            while at > 0 {
                let index = at as usize - 1;
                at = self.next[index];
                let (own, entry) = &self.entries[index];
                if *own == value {
                    return Some(entry);
                }
            }
            None
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_until_it_is_cleared() {
        let mut table = Table::new();
        let key = |n: i64| Residue::of(n << 19);
        for number in 0..9000 {
            table.push(key(number % 3000), number);
        }
        let found: Vec<i64> = table.find(key(17)).copied().collect();
        assert_eq!(found, [6017, 3017, 17]);
        table.clear();
        assert_eq!(table.find(key(17)).count(), 0);
    }
}
