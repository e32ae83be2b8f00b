//! The DRAM banks: too large to hold, so only pages to which something was written are there.

use quincunx_diag::{Diagnostic, Result};
use rustc_hash::FxHashMap;

/// Scalars of a page.
const PAGE: usize = 1 << 14;

/// Pages that all banks may have together: 256 MiB.
const MAX_PAGES: usize = 1 << 12;

/// Scalars by bank and address, zero where nothing was written.
#[derive(Clone, Debug, Default)]
pub struct Dram {
    pages: FxHashMap<(usize, u64), Box<[i32]>>,
}

impl Dram {
    /// Empty banks.
    pub fn new() -> Dram {
        Dram::default()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.pages.clear();
    }

    /// Reads scalars of a bank from an address on.
    pub fn read(&self, bank: usize, address: u64, out: &mut [i32]) {
        let mut rest = out;
        let mut address = address;
        while !rest.is_empty() {
            let (page, offset, length) = piece(address, rest.len());
            let (now, later) = rest.split_at_mut(length);
            match self.pages.get(&(bank, page)) {
                Some(page) => now.copy_from_slice(&page[offset..offset + length]),
                None => now.fill(0),
            }
            (rest, address) = (later, address + length as u64);
        }
    }

    /// Writes scalars of a bank from an address on.
    ///
    /// # Errors
    /// `Q3064` when more than 256 MiB of all banks are in use.
    pub fn write(&mut self, bank: usize, address: u64, values: &[i32]) -> Result<()> {
        let mut rest = values;
        let mut address = address;
        while !rest.is_empty() {
            let (page, offset, length) = piece(address, rest.len());
            let (now, later) = rest.split_at(length);
            if let Some(page) = self.page((bank, page), now)? {
                page[offset..offset + length].copy_from_slice(now);
            }
            (rest, address) = (later, address + length as u64);
        }
        Ok(())
    }

    /// The page for values; none where zeros need none.
    fn page(&mut self, key: (usize, u64), values: &[i32]) -> Result<Option<&mut Box<[i32]>>> {
        if !self.pages.contains_key(&key) {
            if values.iter().all(|&value| value == 0) {
                return Ok(None);
            }
            if self.pages.len() == MAX_PAGES {
                let mebibytes = (MAX_PAGES * PAGE * size_of::<i32>()) >> 20;
                let message = format!("the DRAM banks hold more than {mebibytes} MiB");
                return Err(Diagnostic::unsupported("Q3064", message)
                    .with_note(format!("memory is taken in pieces of {PAGE} scalars")));
            }
            self.pages.insert(key, vec![0; PAGE].into());
        }
        Ok(self.pages.get_mut(&key))
    }
}

/// The page of an address, the place in it, and how many of `length` scalars lie in it.
fn piece(address: u64, length: usize) -> (u64, usize, usize) {
    let offset = (address % PAGE as u64) as usize;
    (address / PAGE as u64, offset, length.min(PAGE - offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bound is one for all banks: the second may hold only what the first leaves.
    #[test]
    fn the_banks_share_one_bound() {
        let mut dram = Dram::new();
        let page = PAGE as u64;
        for number in 0..MAX_PAGES as u64 {
            dram.write((number % 2) as usize, number * page, &[1]).unwrap();
        }
        for bank in [0, 1] {
            let problem = dram.write(bank, MAX_PAGES as u64 * page, &[1]).unwrap_err();
            assert_eq!(problem.code(), "Q3064");
        }
        // What is there can be written, and zeros can where nothing is.
        dram.write(0, 1, &[2]).unwrap();
        dram.write(1, 0, &[0; 4]).unwrap();
        let mut found = [0; 2];
        dram.read(0, 0, &mut found);
        assert_eq!(found, [1, 2]);
        dram.read(1, 0, &mut found);
        assert_eq!(found, [0, 0]);
    }

    #[test]
    fn zeros_take_no_memory() {
        let mut dram = Dram::new();
        dram.write(0, 5, &[0; 3 * PAGE]).unwrap();
        assert!(dram.pages.is_empty());
        dram.write(0, 5, &[0, 7]).unwrap();
        dram.write(0, 6, &[0]).unwrap();
        let mut found = [9; 3];
        dram.read(0, 5, &mut found);
        assert_eq!((found, dram.pages.len()), ([0; 3], 1));
    }
}
