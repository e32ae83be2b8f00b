//! How often every pair of terms occurs, kept up to date term by term.

use super::system::Term;

/// A pair of terms `a ± b * 2^shift` up to a common factor, packed: `a` is not above `b`, and
/// the shift is positive where they are equal.
pub(super) type Key = u64;

const EMPTY: Key = u64::MAX;
const NODE_BITS: u32 = 24;
const SHIFT_BITS: u32 = 9;
const SHIFT_BIAS: i32 = 1 << (SHIFT_BITS - 1);

/// Most nodes that a pair can name.
pub(super) const MAX_NODES: usize = 1 << NODE_BITS;

/// The place of a pair that is in no bucket.
const NOWHERE: u32 = u32::MAX;

/// Added to a count, the place of a pair that is set aside while it occurs no more often.
const ASIDE: u32 = 1 << 31;

/// The key of two terms of one sum.
pub(super) fn key(x: Term, y: Term) -> Key {
    let (x, y) = if (x.node, x.shift) <= (y.node, y.shift) { (x, y) } else { (y, x) };
    let shift = (i32::from(y.shift) - i32::from(x.shift) + SHIFT_BIAS) as u64;
    let differ = u64::from(x.negate != y.negate);
    (u64::from(x.node) << NODE_BITS | u64::from(y.node)) << (SHIFT_BITS + 1) | shift << 1 | differ
}

/// The terms that a key stands for; the first is not negated, the lower shift is 0.
pub(super) fn terms(key: Key) -> [Term; 2] {
    let node = |by: u32| (key >> by) as u32 & (MAX_NODES as u32 - 1);
    let shift = (key >> 1) as i32 & ((1 << SHIFT_BITS) - 1);
    let shift = shift - SHIFT_BIAS;
    [
        Term {
            node: node(SHIFT_BITS + 1 + NODE_BITS),
            shift: (-shift).max(0) as i16,
            negate: false,
        },
        Term { node: node(SHIFT_BITS + 1), shift: shift.max(0) as i16, negate: key & 1 == 1 },
    ]
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    key: Key,
    count: u32,
    /// Index in the bucket of this count.
    place: u32,
}

const FREE: Slot = Slot { key: EMPTY, count: 0, place: NOWHERE };

/// Counts of pairs, and the pairs of every count from 2 on.
#[derive(Debug)]
pub(super) struct Pairs {
    /// Open addressing with linear probing.
    slots: Vec<Slot>,
    used: usize,
    buckets: Vec<Vec<Key>>,
    /// Pairs that were set aside although they occur twice.
    aside: Vec<Key>,
    /// Pairs that have come to occur more often, twice at least, if anyone asks.
    pub(super) risen: Option<Vec<Key>>,
    /// Changes of counts so far: the measure of work.
    pub(super) work: u64,
}

impl Pairs {
    pub(super) fn new() -> Pairs {
        Pairs {
            slots: vec![FREE; 1024],
            used: 0,
            buckets: vec![Vec::new(); 8],
            aside: Vec::new(),
            risen: None,
            work: 0,
        }
    }

    fn home(&self, key: Key) -> usize {
        // The highest bits of the product depend on all bits of the key.
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> (u64::BITS - self.slots.len().ilog2())) as usize
    }

    fn find(&self, key: Key) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = self.home(key);
        while self.slots[at].key != key && self.slots[at].key != EMPTY {
            at = (at + 1) & mask;
        }
        at
    }

    pub(super) fn increase(&mut self, key: Key) {
        self.work += 1;
        let at = self.find(key);
        let slot = &mut self.slots[at];
        slot.count += 1;
        if slot.key == EMPTY {
            slot.key = key;
            self.used += 1;
            if self.used > self.most_used() {
                self.grow();
            }
            return;
        }
        let Slot { count, place, .. } = *slot;
        if place >= ASIDE && place != NOWHERE && count <= place - ASIDE {
            return;
        }
        if place < ASIDE {
            self.leave(count as usize - 1, place);
        }
        if count >= 2 {
            self.enter(at, count as usize);
            if let Some(risen) = &mut self.risen {
                risen.push(key);
            }
        }
    }

    pub(super) fn decrease(&mut self, key: Key) {
        self.work += 1;
        let at = self.find(key);
        let slot = &mut self.slots[at];
        slot.count -= 1;
        let Slot { count, place, .. } = *slot;
        if place < ASIDE {
            slot.place = NOWHERE;
            self.leave(count as usize + 1, place);
            if count >= 2 {
                self.enter(at, count as usize);
            }
        } else if count == 0 && place == NOWHERE {
            self.remove(at);
        }
    }

    /// Puts the pair of a slot into the bucket of its count.
    fn enter(&mut self, at: usize, count: usize) {
        if self.buckets.len() <= count {
            self.buckets.resize_with(count + 1, Vec::new);
        }
        self.slots[at].place = self.buckets[count].len() as u32;
        self.buckets[count].push(self.slots[at].key);
    }

    /// How often a pair occurs.
    pub(super) fn count(&self, key: Key) -> usize {
        self.slots[self.find(key)].count as usize
    }

    fn leave(&mut self, count: usize, place: u32) {
        let bucket = &mut self.buckets[count];
        bucket.swap_remove(place as usize);
        if let Some(&moved) = bucket.get(place as usize) {
            let at = self.find(moved);
            self.slots[at].place = place;
        }
    }

    /// Closes the gap that a removed slot leaves.
    fn remove(&mut self, mut at: usize) {
        let mask = self.slots.len() - 1;
        self.used -= 1;
        let mut next = at;
        loop {
            next = (next + 1) & mask;
            if self.slots[next].key == EMPTY {
                break;
            }
            let home = self.home(self.slots[next].key);
            // A slot may move back if its home is not after the gap.
            if (next.wrapping_sub(home) & mask) >= (next.wrapping_sub(at) & mask) {
                self.slots[at] = self.slots[next];
                at = next;
            }
        }
        self.slots[at] = FREE;
    }

    /// Slots that may be used: few, as long as that is little memory, so that searches are short.
    fn most_used(&self) -> usize {
        match self.slots.len() {
            size @ ..0x1_0000 => size / 8,
            size @ 0x1_0000..0x10_0000 => size / 4,
            size => size / 2,
        }
    }

    fn grow(&mut self) {
        let size = self.slots.len() * 2;
        for slot in std::mem::replace(&mut self.slots, vec![FREE; size]) {
            if slot.key != EMPTY {
                let at = self.find(slot.key);
                self.slots[at] = slot;
            }
        }
    }

    /// The highest count of a pair that is not set aside; below 2 if there is none.
    pub(super) fn highest(&mut self) -> usize {
        while self.buckets.len() > 2 && self.buckets.last().is_some_and(Vec::is_empty) {
            self.buckets.pop();
        }
        self.buckets.len() - 1
    }

    /// All pairs that occur twice at least.
    pub(super) fn all(&self) -> impl Iterator<Item = Key> {
        self.buckets[2..].iter().flatten().copied()
    }

    /// The pairs that occur `count` times.
    pub(super) fn of_count(&self, count: usize) -> &[Key] {
        &self.buckets[count]
    }

    /// The pair is not a candidate until it occurs more often than now, or [`Pairs::restore`].
    pub(super) fn set_aside(&mut self, key: Key) {
        let at = self.find(key);
        let Slot { count, place, .. } = self.slots[at];
        if self.slots[at].key == key && place < ASIDE {
            self.slots[at].place = ASIDE + count;
            self.leave(count as usize, place);
            self.aside.push(key);
        }
    }

    /// Pairs that were set aside are candidates again.
    pub(super) fn restore(&mut self) {
        for key in std::mem::take(&mut self.aside) {
            let at = self.find(key);
            let Slot { key: found, count, place } = self.slots[at];
            if found != key || place < ASIDE || place == NOWHERE {
                continue;
            }
            self.slots[at].place = NOWHERE;
            match count {
                0 => self.remove(at),
                1 => {}
                _ => self.enter(at, count as usize),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;
    use std::collections::BTreeMap;

    fn term(node: u32, shift: i16, negate: bool) -> Term {
        Term { node, shift, negate }
    }

    #[test]
    fn keys_do_not_depend_on_order_sign_or_shift() {
        let (x, y) = (term(3, 5, false), term(7, 1, true));
        assert_eq!(key(x, y), key(y, x));
        assert_eq!(key(x, y), key(x.scaled(9, true), y.scaled(9, true)));
        assert_ne!(key(x, y), key(x, y.scaled(0, true)));
        assert_eq!(terms(key(x, y)), [term(3, 4, false), term(7, 0, true)]);
        assert_eq!(
            terms(key(term(2, 6, true), term(2, 3, true))),
            [term(2, 0, false), term(2, 3, false)]
        );
    }

    /// Random changes against a map.
    #[test]
    fn counts_and_buckets_are_right() {
        let mut random = Random::new(1);
        let (mut pairs, mut truth) = (Pairs::new(), BTreeMap::<Key, u32>::new());
        for step in 0..200_000 {
            let at = random.below(3000) as u32;
            let key = key(term(at, 0, false), term(at + 1 + at % 7, 3, at.is_multiple_of(2)));
            let count = truth.entry(key).or_default();
            if *count > 0 && random.chance(128) {
                *count -= 1;
                pairs.decrease(key);
            } else {
                *count += 1;
                pairs.increase(key);
            }
            if step % 1000 == 0 {
                pairs.set_aside(key);
            }
        }
        pairs.restore();
        let highest = pairs.highest();
        assert_eq!(highest as u32, truth.values().copied().max().unwrap());
        for count in 2..=highest {
            let mut found = pairs.of_count(count).to_vec();
            found.sort_unstable();
            let expected = truth.iter().filter(|(_, c)| **c as usize == count);
            assert_eq!(found, expected.map(|(&key, _)| key).collect::<Vec<_>>(), "{count}");
        }
        assert_eq!(pairs.used, truth.values().filter(|c| **c > 0).count());
    }
}
