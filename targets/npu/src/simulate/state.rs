//! The memories of all cores.

use crate::arch::NpuArch;
use crate::regions::{Region, RegionTable};
use crate::work::Place;
use quincunx_diag::{Diagnostic, Result};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Bytes of a page of DRAM.
const PAGE: usize = 1 << 16;
/// Pages of DRAM that a simulation may write: 512 MiB.
const MAX_PAGES: usize = 1 << 13;

/// DRAM behind one base register. Bytes that nobody wrote are 0.
///
/// A clone shares its pages until one of the two is written.
#[derive(Clone, Debug, Default)]
pub struct Dram {
    pages: FxHashMap<u64, Arc<[u8]>>,
}

impl Dram {
    /// Reads bytes.
    pub fn read(&self, mut address: u64, mut out: &mut [u8]) {
        while !out.is_empty() {
            let (page, offset) = (address / PAGE as u64, (address % PAGE as u64) as usize);
            let length = out.len().min(PAGE - offset);
            let (here, rest) = out.split_at_mut(length);
            match self.pages.get(&page) {
                Some(bytes) => here.copy_from_slice(&bytes[offset..offset + length]),
                None => here.fill(0),
            }
            out = rest;
            address += length as u64;
        }
    }

    /// Writes bytes.
    ///
    /// # Errors
    /// `Q4060` when more than 512 MiB are in use.
    pub fn write(&mut self, mut address: u64, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (page, offset) = (address / PAGE as u64, (address % PAGE as u64) as usize);
            let length = bytes.len().min(PAGE - offset);
            let (here, rest) = bytes.split_at(length);
            if !self.pages.contains_key(&page) && self.pages.len() >= MAX_PAGES {
                let message = "the program uses more than 512 MiB of DRAM";
                return Err(Diagnostic::unsupported("Q4060", message));
            }
            let place = self.pages.entry(page).or_insert_with(|| vec![0; PAGE].into());
            Arc::make_mut(place)[offset..offset + length].copy_from_slice(here);
            bytes = rest;
            address += length as u64;
        }
        Ok(())
    }
}

/// The memories of a core.
#[derive(Clone, Debug)]
pub(super) struct Core {
    pub(super) l2: Vec<u8>,
    pub(super) wl0: Vec<u8>,
    pub(super) regions: RegionTable,
    /// Scalar registers 1 to 3 of the vector queue.
    pub(super) scalars: [f32; 3],
}

/// How many results did not fit their format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Results of convolutions and vector instructions.
    pub results: u64,
    /// Of those, codes that were limited to the range of 8 bits.
    pub saturated: u64,
    /// Of those, numbers that became infinite.
    pub infinite: u64,
}

/// All memories.
#[derive(Clone, Debug)]
pub struct State {
    pub(super) cores: Vec<Core>,
    /// DRAM by base register.
    pub dram: [Dram; 3],
    /// What was counted since the start.
    pub counts: Counts,
}

impl State {
    /// Memories full of zeros.
    pub fn new(arch: &NpuArch, cores: usize) -> State {
        let core = Core {
            l2: vec![0; arch.l2_bytes as usize],
            wl0: vec![0; arch.wl0_bytes() as usize],
            regions: RegionTable::default(),
            scalars: [0.0; 3],
        };
        State { cores: vec![core; cores], dram: Default::default(), counts: Counts::default() }
    }

    /// The region of a place in the L2 of a core; `length` bytes must fit it.
    pub(super) fn region(&self, core: usize, place: Place) -> Result<Region> {
        self.cores[core].regions.get(place.region).ok_or_else(|| {
            let message = format!("region {} is used before ct_bc sets it", place.region);
            Diagnostic::invalid("Q4024", message)
        })
    }

    /// Bytes of the L2 of a core.
    pub fn memory(&self, core: usize) -> &[u8] {
        &self.cores[core].l2
    }

    /// Bytes of the L2 of a core, for tests and for tools that look into a run.
    pub fn l2(&mut self, core: usize) -> &mut [u8] {
        &mut self.cores[core].l2
    }

    /// Scalar registers 1 to 3 of the vector queue of a core.
    pub fn scalars(&self, core: usize) -> [f32; 3] {
        self.cores[core].scalars
    }

    /// Bytes of the weight buffer of a core.
    pub fn wl0(&mut self, core: usize) -> &mut [u8] {
        &mut self.cores[core].wl0
    }
}

impl Core {
    /// Reads from a ring.
    pub(super) fn read(&self, ring: Region, address: i64, out: &mut [u8]) {
        let start = ring.byte(address) as usize;
        let first = out.len().min((ring.start + ring.length) as usize - start);
        let (head, tail) = out.split_at_mut(first);
        head.copy_from_slice(&self.l2[start..start + first]);
        for (offset, byte) in tail.iter_mut().enumerate() {
            *byte = self.l2[ring.byte(address + (first + offset) as i64) as usize];
        }
    }

    /// Writes into a ring.
    pub(super) fn write(&mut self, ring: Region, address: i64, bytes: &[u8]) {
        let start = ring.byte(address) as usize;
        let first = bytes.len().min((ring.start + ring.length) as usize - start);
        let (head, tail) = bytes.split_at(first);
        self.l2[start..start + first].copy_from_slice(head);
        for (offset, byte) in tail.iter().enumerate() {
            let place = ring.byte(address + (first + offset) as i64) as usize;
            self.l2[place] = *byte;
        }
    }
}
