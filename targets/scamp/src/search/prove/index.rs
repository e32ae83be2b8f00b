//! Lists of values that are found by value and shortened from the end.

use super::super::field::Residue;

/// Values with what belongs to them.
pub(super) struct Index<T> {
    entries: Vec<(Residue, T)>,
    /// The entry before of the same slot, plus 1.
    before: Vec<u32>,
    /// The last entry of each slot, plus 1.
    last: Vec<u32>,
}

impl<T: Copy> Index<T> {
    /// An empty list, for some thousand values at a time.
    pub(super) fn new() -> Self {
        Index { entries: Vec::new(), before: Vec::new(), last: vec![0; 1 << 13] }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    fn slot(&self, value: Residue) -> usize {
        (value.bits() >> 20) as usize & (self.last.len() - 1)
    }

    pub(super) fn push(&mut self, value: Residue, what: T) {
        let slot = self.slot(value);
        self.before.push(self.last[slot]);
        self.entries.push((value, what));
        self.last[slot] = self.entries.len() as u32;
    }

    /// Leaves the first values only.
    pub(super) fn truncate(&mut self, length: usize) {
        while self.entries.len() > length
            && let (Some((value, _)), Some(before)) = (self.entries.pop(), self.before.pop())
        {
            let slot = self.slot(value);
            self.last[slot] = before;
        }
    }

    /// The values from a place on.
    pub(super) fn from(&self, place: usize) -> impl Iterator<Item = (Residue, T)> + '_ {
        self.entries[place..].iter().copied()
    }

    /// What belongs to a value, the newest first.
    #[inline]
    pub(super) fn find(&self, value: Residue) -> impl Iterator<Item = T> + '_ {
        let mut at = self.last[self.slot(value)];
        std::iter::from_fn(move || {
            while at > 0 {
                let index = at as usize - 1;
                at = self.before[index];
                if self.entries[index].0 == value {
                    return Some(self.entries[index].1);
                }
            }
            None
        })
    }
}
