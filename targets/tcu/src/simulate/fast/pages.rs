//! The parts of the DRAM banks that a program touches, put side by side.

use std::collections::BTreeSet;

/// Scalars of a page.
const PAGE: u64 = 1 << 14;

/// Pages of all banks together; a program that writes this many is none the executor refuses.
const MAX_PAGES: usize = 1 << 12;

/// Collects the pages of the banks.
#[derive(Debug, Default)]
pub(super) struct Touched {
    banks: [BTreeSet<u64>; 2],
}

impl Touched {
    /// Scalars of a bank from a physical address on; `None` when there are too many pages.
    pub(super) fn add(&mut self, bank: usize, first: u64, length: u64) -> Option<()> {
        for page in first / PAGE..(first + length).div_ceil(PAGE) {
            if self.banks[bank].insert(page)
                && self.banks.iter().map(BTreeSet::len).sum::<usize>() > MAX_PAGES
            {
                return None;
            }
        }
        Some(())
    }

    /// The banks, whose cells begin there.
    pub(super) fn finish(self, bases: [usize; 2]) -> [Pages; 2] {
        let [first, second] = self.banks.map(|pages| pages.into_iter().collect());
        [Pages { base: bases[0], numbers: first }, Pages { base: bases[1], numbers: second }]
    }

    /// Scalars of the pages of a bank.
    pub(super) fn size(&self, bank: usize) -> usize {
        self.banks[bank].len() * PAGE as usize
    }
}

/// The pages of a bank in the order of their numbers, so that those that follow one another in the
/// bank do so in the machine's cells.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    base: usize,
    numbers: Vec<u64>,
}

impl Pages {
    /// The cell of a physical address.
    pub(super) fn cell(&self, address: u64) -> Option<usize> {
        let rank = self.numbers.binary_search(&(address / PAGE)).ok()?;
        Some(self.base + rank * PAGE as usize + (address % PAGE) as usize)
    }
}
