//! Jumps, and lanes that part.

use super::{LANES, Thread};
use crate::arch::DpasArch;
use crate::isa::vector::{Op, Terms};
use crate::program::Listing;
use crate::shape::RowStride;
use crate::simulate::exec::Step;
use crate::simulate::lower::listing_steps;
use quincunx_diag::{Diagnostic, Result};
use std::collections::BTreeMap;

/// Instructions of a thread with the targets of their jumps.
#[derive(Clone, Debug)]
pub struct Program {
    /// The instructions.
    pub steps: Vec<Step>,
    /// Byte at which each starts, and the end.
    starts: Vec<usize>,
    /// Indices of the instructions at bytes.
    indices: BTreeMap<usize, usize>,
}

impl Program {
    /// The instructions of a listing.
    ///
    /// # Errors
    /// As [`listing_steps`].
    pub fn new(listing: &Listing, arch: &DpasArch, stride: RowStride) -> Result<Program> {
        let steps = listing_steps(listing, arch, stride)?;
        let starts = listing.starts();
        let indices = starts.iter().enumerate().map(|(index, start)| (*start, index)).collect();
        Ok(Program { steps, starts, indices })
    }

    /// The instruction so many bytes from one; the number of instructions at the end.
    pub(in crate::simulate) fn target(&self, index: usize, bytes: i32) -> Result<usize> {
        let from = self.starts.get(index).copied().unwrap_or(0);
        let to = from.checked_add_signed(bytes as isize);
        to.and_then(|to| self.indices.get(&to).copied()).ok_or_else(|| {
            let message = format!("the jump of {bytes} bytes leads to no instruction");
            Diagnostic::invalid("Q6152", message)
        })
    }
}

impl Thread {
    /// Goes on behind an instruction.
    pub(super) fn advance(&mut self, index: usize) {
        self.go(index, index + 1, u32::MAX);
    }

    /// The lanes here that are in `mask` go on at `target`, the others behind the instruction.
    fn go(&mut self, index: usize, target: usize, mask: u32) {
        let active = self.active();
        let leaving = active & mask;
        if self.lanes.is_none() {
            if leaving == active {
                self.pc = target;
                return;
            }
            if leaving == 0 {
                self.pc = index + 1;
                return;
            }
        }
        let lanes = self.lanes.get_or_insert_with(|| Box::new([index; LANES]));
        for (lane, place) in
            lanes.iter_mut().enumerate().filter(|(lane, _)| active >> lane & 1 == 1)
        {
            *place = if leaving >> lane & 1 == 1 { target } else { index + 1 };
        }
        let mask = self.dispatch_mask;
        let alive = || lanes.iter().enumerate().filter(|(lane, _)| mask >> lane & 1 == 1);
        let first = alive().map(|(_, place)| *place).min().unwrap_or(index + 1);
        let together = alive().all(|(_, place)| *place == first);
        self.pc = first;
        if together {
            self.lanes = None;
        }
    }

    /// Jumps.
    ///
    /// `if` lets lanes without their flag go on at its first target, `else` all of them, `goto` those
    /// with their flag at its second, `while` at its only one.
    pub(super) fn jump(&mut self, index: usize, terms: &Terms, program: &Program) -> Result<()> {
        let predicate = self.predicate(terms);
        let first = || program.target(index, terms.jumps[0]);
        // Bits of the dispatch mask, which begin at the channel offset.
        let lanes = u32::MAX >> (32 - terms.size.lanes());
        let at = |mask: u32| (mask & lanes).wrapping_shl(terms.size.offset());
        match terms.op {
            Op::Jmpi => {
                let target = first()?;
                let mask = if predicate & 1 == 1 { u32::MAX } else { 0 };
                self.go(index, target, mask);
            }
            Op::If => {
                let target = first()?;
                self.go(index, target, at(!predicate));
            }
            Op::Else => {
                let target = first()?;
                self.go(index, target, at(u32::MAX));
            }
            Op::While => {
                let target = first()?;
                self.go(index, target, at(predicate));
            }
            Op::Goto => {
                let target = program.target(index, terms.jumps[1])?;
                self.go(index, target, at(predicate));
            }
            _ => self.advance(index),
        }
        Ok(())
    }
}
