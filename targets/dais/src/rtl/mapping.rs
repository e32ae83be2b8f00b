//! How many LUTs cover a graph of gates: sets of at most eight leaves per gate, the best few of
//! them kept, first for the fewest levels, then for the least area within them.
//!
//! A LUT has six inputs; two of them with the multiplexer behind them make one of seven inputs,
//! four one of eight. Areas are those that Yosys gives LUTs: a small one is worth less than one of
//! six inputs, so that logic goes where it is free.

use super::gates::{Gate, Gates, Literal};

/// Leaves of a cut.
const LEAVES: usize = 8;

/// Cuts that a gate keeps.
const KEPT: usize = 8;

/// Gates that are covered together: it bounds the memory. What crosses the border is a leaf.
const TOGETHER: usize = 1 << 18;

/// Area of a LUT by its inputs.
const AREA: [f32; LEAVES + 1] = [0.0, 2.0, 2.0, 3.0, 5.0, 5.0, 5.0, 10.0, 20.0];

/// LUTs of six inputs that one of so many inputs is made of.
const LUTS: [u64; LEAVES + 1] = [0, 1, 1, 1, 1, 1, 1, 2, 4];

/// Bits that a gate is a function of, in order.
#[derive(Clone, Copy, Debug, Default)]
struct Cut {
    leaves: [u32; LEAVES],
    len: u8,
    /// Levels of LUTs up to the gate.
    arrival: u32,
    /// Area with shares of that of the leaves.
    flow: f32,
}

impl Cut {
    fn leaves(&self) -> &[u32] {
        &self.leaves[..self.len as usize]
    }

    fn of(leaf: u32) -> Cut {
        let mut leaves = [0; LEAVES];
        leaves[0] = leaf;
        Cut { leaves, len: 1, arrival: 0, flow: 0.0 }
    }

    /// The leaves of both, if they are not too many.
    fn joined(&self, other: &Cut) -> Option<Cut> {
        let (a, b) = (self.leaves(), other.leaves());
        let (mut x, mut y, mut joined) = (0, 0, Cut::default());
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
        self.len <= other.len && self.leaves().iter().all(|leaf| other.leaves().contains(leaf))
    }
}

/// What a pass looks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goal {
    Levels,
    Flow,
    Exact,
}

/// The LUTs that make these bits from the leaves of the graph.
pub(super) fn luts(gates: &Gates, outputs: &[Literal]) -> u64 {
    let nodes = gates.nodes.len();
    let mut wanted = vec![false; nodes];
    let mut polarity = vec![0_u8; nodes];
    for output in outputs.iter().filter(|output| !output.is_known()) {
        wanted[output.node()] = true;
        polarity[output.node()] |= 1 << u8::from(output.is_inverse());
    }
    let is_leaf = |node: usize| gates.nodes[node] == Gate::Leaf;
    // A LUT that inverts: of a leaf, or of a gate that is needed both ways.
    let inverters = (0..nodes).filter(|&node| match is_leaf(node) {
        true => polarity[node] & 2 != 0,
        false => polarity[node] == 3,
    });
    let mut total = inverters.count() as u64;
    let mut end = nodes;
    while end > 1 {
        let begin = end.saturating_sub(TOGETHER).max(1);
        let cover = Cover::new(&gates.nodes, begin, end, &wanted);
        total += cover.luts();
        for leaf in cover.leaves_below() {
            wanted[leaf] = true;
        }
        end = begin;
    }
    total
}

/// The gates `begin .. begin + best.len()`.
struct Cover<'a> {
    gates: &'a [Gate],
    begin: usize,
    wanted: &'a [bool],
    /// Gates that something depends on.
    live: Vec<bool>,
    best: Vec<Cut>,
    /// How many LUTs and outputs read each.
    reads: Vec<u32>,
    required: Vec<u32>,
}

impl<'a> Cover<'a> {
    fn new(gates: &'a [Gate], begin: usize, end: usize, wanted: &'a [bool]) -> Cover<'a> {
        let gates = &gates[..end];
        let mut live = wanted[begin..end].to_vec();
        let mut reads: Vec<u32> = live.iter().map(|&wanted| wanted.into()).collect();
        for at in (0..live.len()).rev().filter(|&at| gates[begin + at] != Gate::Leaf) {
            if !live[at] {
                continue;
            }
            if let Gate::And(a, b) | Gate::Xor(a, b) = gates[begin + at] {
                for from in [a, b].iter().filter_map(|x| x.node().checked_sub(begin)) {
                    live[from] = true;
                    reads[from] += 1;
                }
            }
        }
        let best = vec![Cut::default(); live.len()];
        let required = vec![u32::MAX; live.len()];
        let mut cover = Cover { gates, begin, wanted, live, best, reads, required };
        for goal in [Goal::Levels, Goal::Flow, Goal::Exact, Goal::Exact] {
            cover.pass(goal);
            cover.require();
        }
        cover
    }

    /// The place of a gate of this part, none for a leaf.
    fn place(&self, node: u32) -> Option<usize> {
        let at = (node as usize).checked_sub(self.begin)?;
        (self.gates[node as usize] != Gate::Leaf).then_some(at)
    }

    /// Chooses a cut for every gate.
    fn pass(&mut self, goal: Goal) {
        let mut kept: Vec<Vec<Cut>> = vec![Vec::new(); self.live.len()];
        for at in 0..self.live.len() {
            let node = (self.begin + at) as u32;
            let (Gate::And(a, b) | Gate::Xor(a, b)) = self.gates[node as usize] else { continue };
            if !self.live[at] {
                continue;
            }
            let mut cuts = self.cuts([a, b], &kept, at);
            let mut chosen = 0;
            if goal == Goal::Exact {
                chosen = self.least_area(at, &cuts);
            } else {
                self.sort(&mut cuts, goal, self.required[at]);
            }
            self.best[at] = cuts[chosen];
            cuts.truncate(KEPT.max(chosen + 1));
            kept[at] = cuts;
        }
    }

    /// The cuts of a gate: all pairs of those of its operands.
    fn cuts(&self, operands: [Literal; 2], kept: &[Vec<Cut>], at: usize) -> Vec<Cut> {
        let of = |operand: Literal| {
            let node = operand.node() as u32;
            let inner = self.place(node).map_or(&[][..], |at| &kept[at]);
            std::iter::once(Cut::of(node)).chain(inner.iter().copied())
        };
        let mut cuts: Vec<Cut> = Vec::new();
        for a in of(operands[0]) {
            for b in of(operands[1]) {
                let Some(mut cut) = a.joined(&b) else { continue };
                if cuts.iter().any(|other| other.is_within(&cut)) {
                    continue;
                }
                cuts.retain(|other| !cut.is_within(other));
                self.value(&mut cut);
                cuts.push(cut);
            }
        }
        // The one that was best in the last pass, since the others may be dropped.
        let mut last = self.best[at];
        if last.len > 0 && !cuts.iter().any(|cut| cut.is_within(&last)) {
            self.value(&mut last);
            cuts.push(last);
        }
        cuts
    }

    fn value(&self, cut: &mut Cut) {
        let (mut arrival, mut flow) = (0, AREA[cut.len as usize]);
        for at in cut.leaves().iter().filter_map(|&leaf| self.place(leaf)) {
            arrival = arrival.max(self.best[at].arrival);
            flow += self.best[at].flow / self.reads[at].max(1) as f32;
        }
        (cut.arrival, cut.flow) = (arrival + 1, flow);
    }

    fn sort(&self, cuts: &mut [Cut], goal: Goal, required: u32) {
        cuts.sort_by(|a, b| {
            let area = || a.flow.total_cmp(&b.flow).then(a.len.cmp(&b.len));
            match goal {
                Goal::Levels => a.arrival.cmp(&b.arrival).then_with(area),
                _ => (a.arrival > required).cmp(&(b.arrival > required)).then_with(area),
            }
        });
    }

    /// The cut in time with which fewest LUTs are added; the cuts in the order of their flow.
    fn least_area(&mut self, at: usize, cuts: &[Cut]) -> usize {
        let used = self.reads[at] > 0;
        if used {
            let old = self.best[at];
            self.release(&old);
        }
        let mut best = (true, f32::INFINITY, f32::INFINITY, 0);
        for (index, cut) in cuts.iter().enumerate() {
            let area = self.take(cut);
            self.release(cut);
            let key = (cut.arrival > self.required[at], area, cut.flow, index);
            if (key.0, key.1, key.2) < (best.0, best.1, best.2) {
                best = key;
            }
        }
        if used {
            self.take(&cuts[best.3]);
        }
        best.3
    }

    /// Reads the leaves of a cut; the area that is added.
    fn take(&mut self, cut: &Cut) -> f32 {
        let (mut area, mut work) = (0.0, vec![*cut]);
        while let Some(cut) = work.pop() {
            area += AREA[cut.len as usize];
            for &leaf in cut.leaves() {
                let Some(at) = self.place(leaf) else { continue };
                if self.reads[at] == 0 {
                    work.push(self.best[at]);
                }
                self.reads[at] += 1;
            }
        }
        area
    }

    fn release(&mut self, cut: &Cut) {
        let mut work = vec![*cut];
        while let Some(cut) = work.pop() {
            for &leaf in cut.leaves() {
                let Some(at) = self.place(leaf) else { continue };
                self.reads[at] -= 1;
                if self.reads[at] == 0 {
                    work.push(self.best[at]);
                }
            }
        }
    }

    /// Which gates are LUTs, and the latest level of each.
    fn require(&mut self) {
        let wanted = &self.wanted[self.begin..];
        let gates: Vec<usize> = (0..self.live.len())
            .filter(|&at| self.live[at] && self.gates[self.begin + at] != Gate::Leaf)
            .collect();
        let arrivals = gates.iter().filter(|&&at| wanted[at]).map(|&at| self.best[at].arrival);
        let depth = arrivals.max().unwrap_or(0);
        for at in 0..self.live.len() {
            self.reads[at] = u32::from(wanted[at]);
            self.required[at] = if wanted[at] { depth } else { u32::MAX };
        }
        for &at in gates.iter().rev().filter(|&&at| self.live[at]) {
            if self.reads[at] == 0 {
                continue;
            }
            let (cut, time) = (self.best[at], self.required[at].saturating_sub(1));
            for &leaf in cut.leaves() {
                let Some(from) = self.place(leaf) else { continue };
                self.reads[from] += 1;
                self.required[from] = self.required[from].min(time);
            }
        }
    }

    fn used(&self) -> impl Iterator<Item = &Cut> {
        let gates = (0..self.live.len()).filter(|&at| self.gates[self.begin + at] != Gate::Leaf);
        gates.filter(|&at| self.live[at] && self.reads[at] > 0).map(|at| &self.best[at])
    }

    fn luts(&self) -> u64 {
        self.used().map(|cut| LUTS[cut.len as usize]).sum()
    }

    /// Nodes below this part that its LUTs read.
    fn leaves_below(&self) -> Vec<usize> {
        let leaves = self.used().flat_map(|cut| cut.leaves()).map(|&leaf| leaf as usize);
        leaves.filter(|&leaf| leaf < self.begin).collect()
    }
}
