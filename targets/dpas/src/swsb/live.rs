//! How many registers hold something that is still read.
//!
//! A register is live before an instruction if some way from there reads a byte of it before all of it
//! is written. Writes under a predicate keep what was there. Lanes that are off are taken to be of no
//! use to anybody (ours).

use super::blocks;
use super::effects::{Unit, effects};
use crate::arch::DpasArch;
use crate::program::{Item, Listing, Statement};
use crate::shape::RowStride;
use std::ops::Range;

/// A set of registers, a bit each.
type Set = [u64; 4];

/// The most registers that are live at a time, and where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// Registers.
    pub most: usize,
    /// The first instruction before which so many are live.
    pub at: usize,
}

/// What an instruction reads, and what it writes as a whole.
struct Uses {
    reads: Set,
    kills: Set,
}

fn add(set: &mut Set, registers: Range<usize>) {
    for register in registers.filter(|register| *register < 256) {
        set[register / 64] |= 1 << (register % 64);
    }
}

fn count(set: &Set) -> usize {
    set.iter().map(|bits| bits.count_ones() as usize).sum()
}

/// The registers of a listing that are live at a time; `None` if an instruction is not understood or a
/// jump leads nowhere.
pub fn live(listing: &Listing, arch: &DpasArch, stride: RowStride) -> Option<Live> {
    let uses = listing.items.iter().map(|item| uses(item, arch, stride));
    let uses: Vec<Uses> = uses.collect::<Option<_>>()?;
    let blocks = blocks::split(listing).ok()?;
    let followers = blocks::followers(listing, &blocks);
    // Sets only grow, so that this ends.
    let mut starts: Vec<Set> = vec![[0; 4]; blocks.len()];
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for (at, block) in blocks.iter().enumerate().rev() {
            let before = starts[at];
            starts[at] = walk(&uses, block, end(&followers[at], &starts), &mut |_, _| {});
            changed |= starts[at] != before;
        }
    }
    let mut most = Live::default();
    for (at, block) in blocks.iter().enumerate() {
        walk(&uses, block, end(&followers[at], &starts), &mut |index, set| {
            let own = count(set);
            if own > most.most || (own == most.most && index < most.at) {
                most = Live { most: own, at: index };
            }
        });
    }
    Some(most)
}

/// What is live at the end of a block.
fn end(followers: &[usize], starts: &[Set]) -> Set {
    followers.iter().fold([0; 4], |mut all, &next| {
        all.iter_mut().zip(starts[next]).for_each(|(own, other)| *own |= other);
        all
    })
}

/// Goes through a block from its end to its start; what is live there.
fn walk(
    uses: &[Uses],
    block: &Range<usize>,
    mut set: Set,
    seen: &mut dyn FnMut(usize, &Set),
) -> Set {
    for index in block.clone().rev() {
        let Uses { reads, kills } = &uses[index];
        for (own, (read, kill)) in set.iter_mut().zip(reads.iter().zip(kills)) {
            *own = *own & !kill | read;
        }
        seen(index, &set);
    }
    set
}

fn uses(item: &Item, arch: &DpasArch, stride: RowStride) -> Option<Uses> {
    let effects = effects(&item.statement, arch, stride);
    if effects.unit == Unit::Unknown {
        return None;
    }
    let (grf, file) = (arch.platform.grf_bytes() as usize, arch.file_bytes() as usize);
    let mut own = Uses { reads: [0; 4], kills: [0; 4] };
    let predicated = match &item.statement {
        Statement::Vector(inst) => inst.terms().control.predicate().is_some(),
        Statement::Systolic(_) | Statement::Raw(_) => false,
    };
    for range in effects.reads.iter().filter(|range| range.end <= file) {
        add(&mut own.reads, range.start / grf..range.end.div_ceil(grf));
    }
    for range in effects.writes.iter().filter(|range| range.end <= file && !predicated) {
        add(&mut own.kills, range.start.div_ceil(grf)..range.end / grf);
    }
    Some(own)
}
