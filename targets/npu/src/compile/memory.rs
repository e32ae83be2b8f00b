//! Places of activations in L2: intervals of steps are packed into addresses.

/// Bytes that are in use from a first to a last step, both included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Block {
    /// First byte, once placed.
    pub(crate) start: u64,
    /// Bytes.
    pub(crate) bytes: u64,
    /// First step.
    pub(crate) first: usize,
    /// Last step.
    pub(crate) last: usize,
}

impl Block {
    fn meets(&self, first: usize, last: usize) -> bool {
        self.first <= last && first <= self.last
    }

    /// One past the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.bytes
    }
}

/// Steps that are looked at together.
const SPAN: usize = 32;

/// Addresses are multiples of this.
pub(crate) const ALIGN: u64 = 64;

/// Places blocks, the largest first, each at the lowest free address. Gives the bytes that all of
/// them take.
pub(crate) fn pack(blocks: &mut [Block]) -> u64 {
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.sort_by_key(|&index| (std::cmp::Reverse(blocks[index].bytes), blocks[index].first));
    // Most blocks are in use for few steps: what is placed is looked for by its steps.
    let last = blocks.iter().map(|block| block.last).max().unwrap_or(0);
    let mut placed: Vec<Vec<usize>> = vec![Vec::new(); last / SPAN + 1];
    for index in order {
        let block = blocks[index];
        let spans = block.first / SPAN..=block.last / SPAN;
        let others = placed[spans.clone()].iter().flatten().map(|&other| blocks[other]);
        let busy = others.filter(|other| other.meets(block.first, block.last));
        blocks[index].start = gap(busy.collect(), block.bytes);
        placed[spans].iter_mut().for_each(|span| span.push(index));
    }
    blocks.iter().map(Block::end).max().unwrap_or(0)
}

/// The lowest address with room between busy blocks.
fn gap(mut busy: Vec<Block>, bytes: u64) -> u64 {
    busy.sort_by_key(|block| block.start);
    let mut at = 0;
    for block in busy {
        if block.start >= at + bytes {
            break;
        }
        at = at.max(block.end().next_multiple_of(ALIGN));
    }
    at
}

/// The blocks by the steps in which they are in use.
pub(crate) struct Occupied {
    /// In the order of their first steps.
    blocks: Vec<Block>,
    /// The most steps of a block.
    longest: usize,
}

impl Occupied {
    pub(crate) fn new(blocks: &[Block]) -> Occupied {
        let mut blocks = blocks.to_vec();
        blocks.sort_by_key(|block| block.first);
        let longest = blocks.iter().map(|block| block.last - block.first + 1).max().unwrap_or(0);
        Occupied { blocks, longest }
    }

    /// The lowest address below `limit` where so many bytes are free from one step to another,
    /// beside further blocks.
    pub(crate) fn find(
        &self,
        bytes: u64,
        first: usize,
        last: usize,
        others: &[Block],
        limit: u64,
    ) -> Option<u64> {
        let from = self.blocks.partition_point(|block| block.first + self.longest <= first);
        let until = self.blocks.partition_point(|block| block.first <= last);
        let known = self.blocks[from.min(until)..until].iter().chain(others).copied();
        let at = gap(known.filter(|block| block.meets(first, last)).collect(), bytes);
        (at + bytes <= limit).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(bytes: u64, first: usize, last: usize) -> Block {
        Block { start: 0, bytes, first, last }
    }

    #[test]
    fn blocks_in_use_together_do_not_meet() {
        let mut random = 7_u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % below
        };
        let mut blocks: Vec<Block> = (0..200)
            .map(|_| {
                let first = next(100) as usize;
                block(1 + next(5000), first, first + next(20) as usize)
            })
            .collect();
        let total = pack(&mut blocks);
        for (index, a) in blocks.iter().enumerate() {
            assert!(a.end() <= total && a.start.is_multiple_of(ALIGN));
            for b in &blocks[..index] {
                assert!(!a.meets(b.first, b.last) || a.end() <= b.start || b.end() <= a.start);
            }
        }
        let occupied = Occupied::new(&blocks);
        for _ in 0..200 {
            let (bytes, first) = (1 + next(9000), next(100) as usize);
            let at = occupied.find(bytes, first, first + 5, &[], u64::MAX).unwrap();
            let clash = blocks
                .iter()
                .any(|b| b.meets(first, first + 5) && at < b.end() && b.start < at + bytes);
            assert!(!clash);
        }
    }

    #[test]
    fn blocks_one_after_the_other_share_a_place() {
        let mut blocks = [block(100, 0, 1), block(100, 2, 3), block(100, 4, 4)];
        assert_eq!(pack(&mut blocks), 100);
    }
}
