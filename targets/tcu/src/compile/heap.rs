//! First-fit allocation of vectors of one memory.

/// The free vectors of a memory.
#[derive(Clone, Debug)]
pub(crate) struct Heap {
    /// Start and length of every free span: in order, none empty, none touching another.
    free: Vec<(u64, u64)>,
}

impl Heap {
    pub(crate) fn new(depth: u64) -> Heap {
        Heap { free: if depth > 0 { vec![(0, depth)] } else { Vec::new() } }
    }

    /// Takes vectors from the lowest span that has so many.
    pub(crate) fn take(&mut self, size: u64) -> Option<u64> {
        if size == 0 {
            return Some(0);
        }
        let index = self.free.iter().position(|&(_, length)| length >= size)?;
        let (start, length) = &mut self.free[index];
        let base = *start;
        *start += size;
        *length -= size;
        if *length == 0 {
            self.free.remove(index);
        }
        Some(base)
    }

    /// Gives vectors back.
    pub(crate) fn give(&mut self, base: u64, size: u64) {
        if size == 0 {
            return;
        }
        let index = self.free.partition_point(|&(start, _)| start < base);
        self.free.insert(index, (base, size));
        if index + 1 < self.free.len() && base + size == self.free[index + 1].0 {
            self.free[index].1 += self.free.remove(index + 1).1;
        }
        if index > 0 && self.free[index - 1].0 + self.free[index - 1].1 == base {
            self.free[index - 1].1 += self.free.remove(index).1;
        }
    }

    /// Free vectors in all.
    #[cfg(test)]
    fn available(&self) -> u64 {
        self.free.iter().map(|&(_, length)| length).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a map of which vectors are taken.
    #[test]
    fn spans_never_overlap_and_come_back() {
        let mut heap = Heap::new(64);
        let mut taken: Vec<(u64, u64)> = Vec::new();
        let mut seed = 1_u64;
        for _ in 0..4000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let random = seed >> 33;
            if random.is_multiple_of(3) && !taken.is_empty() {
                let (base, size) = taken.swap_remove(random as usize / 3 % taken.len());
                heap.give(base, size);
            } else {
                let size = random / 3 % 9 + 1;
                if let Some(base) = heap.take(size) {
                    assert!(base + size <= 64);
                    assert!(taken.iter().all(|&(b, s)| base + size <= b || b + s <= base));
                    taken.push((base, size));
                }
            }
            let used: u64 = taken.iter().map(|&(_, size)| size).sum();
            assert_eq!(heap.available() + used, 64);
        }
        taken.drain(..).for_each(|(base, size)| heap.give(base, size));
        assert_eq!(heap.take(64), Some(0));
    }
}
