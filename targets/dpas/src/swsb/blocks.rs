//! Blocks: parts of a listing that are entered at their start and left at their end only.

use crate::isa::vector::{self, Op};
use crate::program::{Item, Listing, Statement};
use quincunx_diag::{Diagnostic, Result};
use std::collections::BTreeMap;
use std::ops::Range;

/// True for instructions before which everything is waited for: jumps, barriers, ends.
pub(super) fn ends_block(statement: &Statement) -> bool {
    match statement {
        Statement::Vector(inst) => {
            let op = inst.facts().op;
            op.jumps() || op == Op::SyncBarrier || statement.options().is_end()
        }
        Statement::Systolic(_) | Statement::Raw(_) => false,
    }
}

/// For every block, the blocks that can follow it. Lanes may branch apart, so that what jumps can also
/// go on, unless it always jumps.
pub(super) fn followers(listing: &Listing, blocks: &[Range<usize>]) -> Vec<Vec<usize>> {
    let starts = listing.starts();
    let by_byte: BTreeMap<usize, usize> =
        blocks.iter().enumerate().map(|(block, items)| (starts[items.start], block)).collect();
    let of = |(block, items): (usize, &Range<usize>)| {
        let mut next = Vec::new();
        let last = items.clone().next_back();
        let (mut goes_on, last) = match last.map(|last| (&listing.items[last].statement, last)) {
            Some((Statement::Vector(inst), at)) => {
                next.extend(targets(inst, starts[at]).flatten().filter_map(|to| by_byte.get(&to)));
                let always =
                    inst.facts().op == Op::Jmpi && inst.terms().control.predicate().is_none();
                (!always, Some(at))
            }
            _ => (true, last),
        };
        goes_on &= last.is_none_or(|at| !listing.items[at].statement.options().is_end());
        next.extend((goes_on && block + 1 < blocks.len()).then_some(block + 1));
        next
    };
    blocks.iter().enumerate().map(of).collect()
}

/// Where the jumps of an instruction lead, as bytes.
fn targets(inst: &vector::Inst, start: usize) -> impl Iterator<Item = Option<usize>> {
    let jumps =
        if inst.facts().op.jumps() { inst.operands_of::<i32>() } else { Default::default() };
    jumps.into_iter().map(move |jump| start.checked_add_signed(isize::try_from(jump).ok()?))
}

/// The blocks of a listing, as indices of its items; at least one.
pub(super) fn split(listing: &Listing) -> Result<Vec<Range<usize>>> {
    let starts = listing.starts();
    let index: BTreeMap<usize, usize> =
        starts.iter().enumerate().map(|(index, start)| (*start, index)).collect();
    let mut bounds: Vec<usize> = vec![0, listing.items.len()];
    for (at, (item, start)) in listing.items.iter().zip(&starts).enumerate() {
        if ends_block(&item.statement) {
            bounds.push(at + 1);
        }
        let Statement::Vector(inst) = &item.statement else { continue };
        for target in targets(inst, *start) {
            let place = target.and_then(|target| index.get(&target));
            bounds.push(*place.ok_or_else(|| nowhere(item))?);
        }
    }
    bounds.sort_unstable();
    bounds.dedup();
    let blocks: Vec<_> = bounds.windows(2).map(|pair| pair[0]..pair[1]).collect();
    Ok(if blocks.is_empty() { std::iter::once(0..0).collect() } else { blocks })
}

fn nowhere(item: &Item) -> Diagnostic {
    let problem = Diagnostic::unsupported("Q6089", "the jump leads to no instruction");
    match item.span {
        Some(span) => problem.label(span, ""),
        None => problem,
    }
}

/// Lets the jumps of the assigned listing lead to its blocks, which begin at items `new`.
pub(super) fn retarget(
    old: &Listing,
    blocks: &[Range<usize>],
    assigned: &mut Listing,
    new: &[usize],
) {
    let (before, after) = (old.starts(), assigned.starts());
    let end = assigned.items.len();
    // The byte at which each old block begins, and where it begins now.
    let mut moved: BTreeMap<usize, usize> =
        blocks.iter().zip(new).map(|(block, &new)| (before[block.start], after[new])).collect();
    moved.insert(before[old.items.len()], after[end]);
    for (number, block) in blocks.iter().enumerate() {
        let Some(last) = block.end.checked_sub(1).filter(|_| !block.is_empty()) else { continue };
        let Statement::Vector(inst) = &old.items[last].statement else { continue };
        if !inst.facts().op.jumps() {
            continue;
        }
        let places: Vec<Option<usize>> = targets(inst, before[last])
            .map(|target| target.and_then(|target| moved.get(&target).copied()))
            .collect();
        let own = new.get(number + 1).copied().unwrap_or(end) - 1;
        let from = after[own];
        if let Statement::Vector(inst) = &mut assigned.items[own].statement {
            let mut places = places.into_iter().flatten();
            inst.visit_operands(|jump: &mut i32| {
                if let Some(to) = places.next() {
                    *jump = (to as i64 - from as i64) as i32;
                }
            });
        }
    }
}
