//! Entries by residue, for looking up what makes a value.

use crate::search::field::Residue;

/// A multimap from residues.
pub(super) struct Table<T> {
    pub(super) entries: Vec<(Residue, T)>,
    /// The next entry of the same slot, plus 1.
    next: Vec<u32>,
    /// The first entry of each slot, plus 1; their number is a power of two.
    slots: Vec<u32>,
}

impl<T> Table<T> {
    /// An empty one with `2^bits` slots.
    pub(super) fn new(bits: u32) -> Table<T> {
        Table { entries: Vec::new(), next: Vec::new(), slots: vec![0; 1 << bits] }
    }

    /// Forgets the entries.
    pub(super) fn clear(&mut self) {
        self.slots.fill(0);
        self.entries.clear();
        self.next.clear();
    }

    #[inline]
    fn slot(&self, value: Residue) -> usize {
        (value.bits() >> 20) as usize & (self.slots.len() - 1)
    }

    /// Adds an entry.
    #[inline]
    pub(super) fn push(&mut self, value: Residue, entry: T) {
        let slot = self.slot(value);
        self.next.push(self.slots[slot]);
        self.entries.push((value, entry));
        self.slots[slot] = self.entries.len() as u32;
    }

    /// The entries of a value.
    #[inline]
    pub(super) fn find(&self, value: Residue) -> impl Iterator<Item = &T> {
        let mut at = self.slots[self.slot(value)];
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
        let mut table = Table::new(11);
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
