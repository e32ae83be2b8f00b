//! How many LUTs cover a graph of gates. A cut of a gate is a set of bits that it is a function of; the
//! few of the least LUTs are kept, with shares of those of the bits that they read.
//!
//! A LUT has six inputs; two of them with the multiplexer behind them make one of seven inputs, four
//! one of eight.

use super::gates::{Gate, Gates, Literal};

/// Leaves of a cut.
const LEAVES: usize = 8;

/// LUTs of six inputs that one of so many inputs is made of.
const LUTS: [u16; LEAVES + 1] = [0, 1, 1, 1, 1, 1, 1, 2, 4];

/// Cuts that a gate keeps.
const KEPT: usize = 4;

/// Gates that are covered together: it bounds the memory. What crosses the border is a leaf.
const TOGETHER: usize = 1 << 18;

/// Bits that a gate is a function of, in order.
#[derive(Clone, Copy, Default)]
struct Cut {
    leaves: [u32; LEAVES],
    len: u8,
    /// A bit for every leaf, which leaves may share: what has others is not part of it.
    trace: u64,
    /// Levels of LUTs up to the gate.
    levels: u32,
    /// LUTs with shares of those of the leaves.
    luts: f32,
}

impl Cut {
    fn leaves(&self) -> &[u32] {
        &self.leaves[..self.len as usize]
    }

    fn of(leaf: u32) -> Cut {
        let mut leaves = [0; LEAVES];
        leaves[0] = leaf;
        Cut { leaves, len: 1, trace: 1 << (leaf % 64), levels: 0, luts: 0.0 }
    }

    /// The leaves of both, if they are not too many.
    fn joined(&self, other: &Cut) -> Option<Cut> {
        let trace = self.trace | other.trace;
        if trace.count_ones() as usize > LEAVES {
            return None;
        }
        let (a, b) = (self.leaves(), other.leaves());
        let (mut x, mut y, mut joined) = (0, 0, Cut { trace, ..Cut::default() });
        while x < a.len() || y < b.len() {
            let next = match (a.get(x), b.get(y)) {
                (Some(p), Some(q)) => *p.min(q),
                (p, q) => *p.or(q)?,
            };
            x += usize::from(a.get(x) == Some(&next));
            y += usize::from(b.get(y) == Some(&next));
            *joined.leaves.get_mut(joined.len as usize)? = next;
            joined.len += 1;
        }
        Some(joined)
    }

    /// True if every leaf is one of the other's.
    fn is_within(&self, other: &Cut) -> bool {
        self.trace & !other.trace == 0
            && self.leaves().iter().all(|leaf| other.leaves().contains(leaf))
    }
}

/// The LUTs that make these bits from the leaves of the graph.
pub(super) fn luts(gates: &Gates, outputs: &[Literal]) -> u64 {
    let nodes = &gates.nodes;
    // Whether a bit is needed, and whether its inverse is.
    let mut needed = vec![[false; 2]; nodes.len()];
    for output in outputs.iter().filter(|output| !output.is_known()) {
        needed[output.node()][usize::from(output.is_inverse())] = true;
    }
    // A LUT that inverts: of a leaf, or of a gate that is needed both ways.
    let inverter =
        |(needed, gate): (&[bool; 2], &Gate)| needed[1] && (needed[0] || *gate == Gate::Leaf);
    let mut total = needed.iter().zip(nodes).filter(|pair| inverter(*pair)).count() as u64;
    let mut wanted: Vec<bool> = needed.iter().map(|needed| needed.contains(&true)).collect();
    // The latest level at which each may be there.
    let mut limits = vec![u32::MAX; nodes.len()];
    let mut end = nodes.len();
    while end > 1 {
        let begin = end.saturating_sub(TOGETHER).max(1);
        let cuts = cuts(&nodes[..end], begin, &wanted[begin..end]);
        let outputs = cuts.iter().zip(&wanted[begin..end]).filter(|(_, wanted)| **wanted);
        let depth = outputs.map(|(cuts, _)| levels(cuts)).max().unwrap_or(0);
        for at in (begin..end).rev() {
            let limit = limits[at].min(depth);
            let in_time = cuts[at - begin].iter().find(|cut| cut.levels <= limit);
            let Some(best) = in_time.or(cuts[at - begin].first()).filter(|_| wanted[at]) else {
                continue;
            };
            total += u64::from(LUTS[best.len as usize]);
            for &leaf in best.leaves() {
                wanted[leaf as usize] = true;
                limits[leaf as usize] = limits[leaf as usize].min(limit.saturating_sub(1));
            }
        }
        end = begin;
    }
    total
}

/// The cuts of each gate from `begin` on, the best one first; none of leaves and of what nothing depends
/// on.
fn cuts(gates: &[Gate], begin: usize, wanted: &[bool]) -> Vec<Vec<Cut>> {
    let mut reads: Vec<u16> = wanted.iter().map(|&wanted| wanted.into()).collect();
    for at in (0..reads.len()).rev() {
        if let (1.., Gate::And(a, b) | Gate::Xor(a, b)) = (reads[at], gates[begin + at]) {
            for from in [a, b].iter().filter_map(|x| x.node().checked_sub(begin)) {
                reads[from] = reads[from].saturating_add(1);
            }
        }
    }
    let mut cuts: Vec<Vec<Cut>> = Vec::with_capacity(wanted.len());
    for (gate, &read) in gates[begin..].iter().zip(&reads) {
        let mut kept: Vec<Cut> = Vec::new();
        if let (1.., Gate::And(a, b) | Gate::Xor(a, b)) = (read, gate) {
            let inner = |x: &Literal| {
                let inner = x.node().checked_sub(begin).map_or(&[][..], |at| &cuts[at]);
                std::iter::once(Cut::of(x.node() as u32)).chain(inner.iter().copied())
            };
            for cut in inner(a).flat_map(|a| inner(b).filter_map(move |b| a.joined(&b))) {
                keep(&mut kept, cut, |leaf| {
                    let at = (leaf as usize).checked_sub(begin)?;
                    let share = cuts[at].first()?.luts / f32::from(reads[at]);
                    Some((share, levels(&cuts[at])))
                });
            }
        }
        cuts.push(kept);
    }
    cuts
}

/// The fewest levels; none for a leaf.
fn levels(cuts: &[Cut]) -> u32 {
    cuts.iter().map(|cut| cut.levels).min().unwrap_or(0)
}

/// Adds a cut, if it is one of the best; a gate that is a leaf has a share of its LUTs and its levels.
fn keep(cuts: &mut Vec<Cut>, mut cut: Cut, gate: impl Fn(u32) -> Option<(f32, u32)>) {
    if cuts.iter().any(|other| other.is_within(&cut)) {
        return;
    }
    cuts.retain(|other| !cut.is_within(other));
    cut.luts = f32::from(LUTS[cut.len as usize]);
    for (share, levels) in { cut.leaves }[..cut.len as usize].iter().filter_map(|&leaf| gate(leaf))
    {
        cut.luts += share;
        cut.levels = cut.levels.max(levels);
    }
    cut.levels += 1;
    let place = cuts.partition_point(|other| (other.luts, other.len) <= (cut.luts, cut.len));
    cuts.insert(place, cut);
    if cuts.len() > KEPT {
        // One of the fewest levels stays.
        let fewest = levels(cuts);
        let others = cuts[..KEPT].iter().any(|cut| cut.levels == fewest);
        cuts.remove(if others { KEPT } else { KEPT - 1 });
    }
}
