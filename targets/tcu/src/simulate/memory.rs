//! A DRAM bank: too large to hold, so only what was written is there.

use quincunx_diag::{Diagnostic, Result};
use rustc_hash::FxHashMap;

/// Scalars of a page.
const PAGE: usize = 1 << 14;

/// Pages a bank may have: 256 MiB.
const MAX_PAGES: usize = 1 << 12;

/// Scalars by address, zero where nothing was written.
#[derive(Clone, Debug, Default)]
pub struct Dram {
    pages: FxHashMap<u64, Box<[i32]>>,
}

impl Dram {
    /// An empty bank.
    pub fn new() -> Dram {
        Dram::default()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.pages.clear();
    }

    /// Reads scalars from an address on.
    pub fn read(&self, address: u64, out: &mut [i32]) {
        let mut rest = out;
        let mut address = address;
        while !rest.is_empty() {
            let (page, offset, length) = piece(address, rest.len());
            let (now, later) = rest.split_at_mut(length);
            match self.pages.get(&page) {
                Some(page) => now.copy_from_slice(&page[offset..offset + length]),
                None => now.fill(0),
            }
            (rest, address) = (later, address + length as u64);
        }
    }

    /// Writes scalars from an address on.
    ///
    /// # Errors
    /// `Q3064` when more than 256 MiB are in use.
    pub fn write(&mut self, address: u64, values: &[i32]) -> Result<()> {
        let mut rest = values;
        let mut address = address;
        while !rest.is_empty() {
            let (page, offset, length) = piece(address, rest.len());
            let (now, later) = rest.split_at(length);
            self.page(page)?[offset..offset + length].copy_from_slice(now);
            (rest, address) = (later, address + length as u64);
        }
        Ok(())
    }

    fn page(&mut self, number: u64) -> Result<&mut Box<[i32]>> {
        if !self.pages.contains_key(&number) && self.pages.len() == MAX_PAGES {
            let mebibytes = (MAX_PAGES * PAGE * size_of::<i32>()) >> 20;
            let message = format!("the program writes to more than {mebibytes} MiB of a DRAM bank");
            return Err(Diagnostic::unsupported("Q3064", message));
        }
        Ok(self.pages.entry(number).or_insert_with(|| vec![0; PAGE].into()))
    }
}

/// The page of an address, the place in it, and how many of `length` scalars lie in it.
fn piece(address: u64, length: usize) -> (u64, usize, usize) {
    let offset = (address % PAGE as u64) as usize;
    (address / PAGE as u64, offset, length.min(PAGE - offset))
}
