//! The logic of a design as gates, carry blocks, multiplier blocks and registers, as `synth_xilinx` of
//! Yosys makes them.

use super::Design;
use super::estimate::Estimate;
use super::gates::{Gates, Literal};
use super::mapping;
use super::netlist::Bit;
use super::stage::Stage;
use rustc_hash::FxHashMap;

/// Bits of a carry block.
const CARRY_BITS: usize = 4;

/// Sums of fewer bits have no carry blocks.
const SHORTEST_CHAIN: usize = 3;

/// Products of fewer bits, or of factors of less than two, are made of LUTs.
const MULTIPLIER_BITS: usize = 9;

/// Bits of the factors of a multiplier block that are not the sign.
const BLOCK: [usize; 2] = [24, 17];

/// The logic of a design.
pub(super) struct Logic {
    pub(super) gates: Gates,
    /// What is not made of LUTs, in order.
    blocks: Vec<Block>,
    /// Their first results by kind, width and what they read: equal ones are there once.
    made: FxHashMap<(Kind, usize, Vec<Literal>), usize>,
}

/// Something whose results are leaves.
struct Block {
    kind: Kind,
    /// Its results are the nodes from here on.
    first: usize,
    width: usize,
    /// What it reads; a carry chain two bits for each of its own, and what is carried into it.
    read: Vec<Literal>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Chain,
    Register,
    /// So many multiplier blocks; none for a sum within one.
    Multipliers(u64),
    /// A table of a stage, and its LUTs.
    Table {
        stage: usize,
        number: usize,
        luts: u64,
    },
}

impl Logic {
    /// What a design takes with so many registers at every boundary.
    pub(super) fn count(design: &Design, registers: u32) -> Estimate {
        let width = design.stages[0].input_width() as usize;
        let (blocks, made) = (Vec::new(), FxHashMap::default());
        let mut logic = Logic { gates: Gates::new(width), blocks, made };
        let mut bus: Vec<Literal> = (1..=width).map(Literal::of).collect();
        for (number, stage) in design.stages.iter().enumerate() {
            logic.register(&mut bus, registers);
            if number > 0 {
                let bit = |bit| match bit {
                    Bit::Known(value) => Literal::known(value),
                    Bit::Of(_, at) => bus[at as usize],
                };
                bus = design.links[number - 1].bits().map(bit).collect();
            }
            bus = Stage::outputs(&mut logic, number, stage, bus);
        }
        logic.register(&mut bus, registers);
        logic.sweep(bus)
    }

    /// What these bits need.
    fn sweep(&self, mut read: Vec<Literal>) -> Estimate {
        let mut sum = Estimate::default();
        let mut live = vec![false; self.gates.nodes.len()];
        read.iter().for_each(|bit| live[bit.node()] = true);
        let mut end = live.len();
        for block in self.blocks.iter().rev() {
            // Gates behind the block; what reads its results is among them.
            self.gates.mark(block.first + block.width..end, &mut live);
            end = block.first;
            let results = &live[block.first..block.first + block.width];
            let Some(last) = results.iter().rposition(|live| *live) else { continue };
            let mut needed = &block.read[..];
            match block.kind {
                Kind::Chain => {
                    sum.carries += (last + 1).div_ceil(CARRY_BITS) as u64;
                    needed.last().into_iter().for_each(|bit| live[bit.node()] = true);
                    read.extend(needed.last());
                    // Yosys keeps what the other bits of a carry block read.
                    let width = (last + 1).next_multiple_of(CARRY_BITS).min(block.width);
                    needed = &needed[..2 * width];
                }
                Kind::Register => sum.flip_flops += 1,
                Kind::Multipliers(count) => sum.multipliers += count,
                Kind::Table { luts, .. } => sum.luts += luts,
            }
            needed.iter().for_each(|bit| live[bit.node()] = true);
            read.extend(needed);
        }
        sum.luts += mapping::luts(&self.gates, &read);
        sum
    }

    /// The bits behind so many registers; equal bits share them.
    fn register(&mut self, bits: &mut [Literal], count: u32) {
        for _ in 0..count {
            for bit in bits.iter_mut().filter(|bit| !bit.is_known()) {
                *bit = self.block(Kind::Register, 1, vec![*bit])[0];
            }
        }
    }

    /// The results of a block.
    pub(super) fn block(&mut self, kind: Kind, width: usize, read: Vec<Literal>) -> Vec<Literal> {
        let next = self.gates.nodes.len();
        let first = *self.made.entry((kind, width, read.clone())).or_insert(next);
        if first == next {
            self.blocks.push(Block { kind, first, width, read });
            self.gates.leaves(width);
        }
        (first..first + width).map(Literal::of).collect()
    }

    /// A sum or difference: a chain of carry blocks, or gates if it is short.
    pub(super) fn adder(&mut self, a: &[Literal], b: &[Literal], subtract: bool) -> Vec<Literal> {
        let length = |bits: &[Literal]| {
            bits.iter().rposition(|bit| *bit != Literal::ZERO).map_or(0, |top| top + 1)
        };
        if length(b) == 0 {
            return a.to_vec();
        }
        // Above both operands there are zeros, or copies of the borrow.
        let top = a.len().min(length(a).max(length(b)) + 1);
        // A bit of a chain reads whether the operands differ, and the first one.
        let mut read = Vec::with_capacity(2 * top + 1);
        let mut known = Vec::with_capacity(top);
        let (mut low, mut enters, mut carry) = (0, Literal::known(subtract), Some(subtract));
        for (at, (&a, &b)) in a.iter().zip(b).take(top).enumerate() {
            let differ = self.gates.xor(a, b.inverted_if(subtract));
            read.extend([differ, a]);
            known.push(carry.filter(|_| differ.is_known()).map(|carry| differ.inverted_if(carry)));
            if low == at && known[at].is_some() {
                low += 1;
                enters = if differ == Literal::ONE { enters } else { a };
            }
            carry = match differ {
                Literal::ONE => carry,
                Literal::ZERO if a.is_known() => Some(a == Literal::ONE),
                _ => None,
            };
        }
        read.push(enters);
        let rest = match top - low < SHORTEST_CHAIN {
            true => self.ripple(&read[2 * low..]),
            false => self.block(Kind::Chain, top - low, read.split_off(2 * low)),
        };
        let bits = known.iter().enumerate();
        let mut sum: Vec<Literal> =
            bits.map(|(at, known)| known.unwrap_or_else(|| rest[at - low])).collect();
        let above = if subtract { sum.last().copied() } else { None };
        sum.resize(a.len(), above.unwrap_or(Literal::ZERO));
        sum
    }

    /// The sum bits of a chain as gates.
    fn ripple(&mut self, read: &[Literal]) -> Vec<Literal> {
        let mut carry = read[read.len() - 1];
        let bit = |bits: &[Literal]| {
            let sum = self.gates.xor(bits[0], carry);
            carry = self.gates.select(bits[0], carry, bits[1]);
            sum
        };
        read.chunks_exact(2).map(bit).collect()
    }

    /// A product in multiplier blocks, or as a sum of the rows of its partial products.
    pub(super) fn product(
        &mut self,
        [a, b]: [Vec<Literal>; 2],
        signed: bool,
        width: usize,
    ) -> Vec<Literal> {
        if is_block([a.len(), b.len()], width) {
            return self.multiplier([a, b], signed, width);
        }
        let (a, b) = if a.len() < 2 { (b, a) } else { (a, b) };
        let above = match a.last() {
            Some(top) if signed => *top,
            _ => Literal::ZERO,
        };
        let mut columns = vec![Vec::new(); width];
        for (low, &bit) in b.iter().enumerate().take(width) {
            // The top bit of a number with a sign counts negative.
            let minus = signed && low + 1 == b.len();
            for (at, column) in columns.iter_mut().enumerate().skip(low) {
                let x = a.get(at - low).copied().unwrap_or(above);
                column.push(self.gates.and(x, bit).inverted_if(minus));
            }
            if minus {
                columns[low].push(Literal::ONE);
            }
        }
        while columns.iter().any(|column| column.len() > 2) {
            columns = self.reduced(&columns);
        }
        let row = |row: usize| -> Vec<Literal> {
            columns.iter().map(|c| c.get(row).copied().unwrap_or(Literal::ZERO)).collect()
        };
        self.adder(&row(0), &row(1), false)
    }

    /// The same sum of columns with every three bits as one, and one of the next column.
    fn reduced(&mut self, columns: &[Vec<Literal>]) -> Vec<Vec<Literal>> {
        let mut next = vec![Vec::new(); columns.len() + 1];
        for (at, column) in columns.iter().enumerate() {
            for bits in column.chunks(3) {
                let &[a, b, c] = bits else {
                    next[at].extend(bits);
                    continue;
                };
                let half = self.gates.xor(a, b);
                next[at].push(self.gates.xor(half, c));
                next[at + 1].push(self.gates.select(half, c, a));
            }
        }
        next.truncate(columns.len());
        next.iter_mut().for_each(|column| column.retain(|bit| *bit != Literal::ZERO));
        next
    }

    /// A product of multiplier blocks, which also add up the parts of one factor; those of the other
    /// are added behind them.
    fn multiplier(
        &mut self,
        [a, b]: [Vec<Literal>; 2],
        signed: bool,
        width: usize,
    ) -> Vec<Literal> {
        let size = |x: &[Literal]| x.len().min(width) - usize::from(signed);
        let (long, short) = (size(&a).max(size(&b)), size(&a).min(size(&b)));
        let parts = [long.div_ceil(BLOCK[0]), short.div_ceil(BLOCK[1])];
        let read = [a, b].concat();
        let mut bits = self.block(Kind::Multipliers((parts[0] * parts[1]) as u64), width, read);
        if parts[0].min(parts[1]) > 1 {
            let rest = self.block(Kind::Multipliers(0), width - BLOCK[1], bits.clone());
            let sum = self.adder(&bits.split_off(BLOCK[1]), &rest, false);
            bits.extend(sum);
        }
        bits
    }
}

/// Whether multiplier blocks make the product of so many bits, of which some are used.
pub(super) fn is_block(factors: [usize; 2], used: usize) -> bool {
    used >= MULTIPLIER_BITS && factors[0].min(factors[1]) >= 2
}
