//! LUTs, carry chains and flip-flops that a design takes on an FPGA with 6-input LUTs, without a
//! synthesis tool. `docs/dais.md` has the error against Yosys.
//!
//! Counted is what the mapping of single cells gives; a tool that merges neighbouring cells needs
//! fewer LUTs.

use super::Design;
use super::netlist::{Bit, Cell, Netlist, Rom, Wires};
use quincunx_report::{Column, Table};
use rustc_hash::FxHashSet;

/// Inputs of a LUT.
const LUT_INPUTS: u32 = 6;

/// Bits of a carry block.
const CARRY_BITS: u64 = 4;

/// Products of fewer bits are made of LUTs, larger ones of multiplier blocks.
const MULTIPLIER_BITS: u32 = 9;

/// What a design takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// LUTs.
    pub luts: u64,
    /// Blocks of four carry bits.
    pub carries: u64,
    /// Flip-flops.
    pub flip_flops: u64,
    /// Multiplier blocks of 25 by 18 bits.
    pub multipliers: u64,
}

impl Estimate {
    /// The estimate of a design with so many registers at every boundary.
    pub fn of(design: &Design, registers: u32) -> Estimate {
        let mut sum = Estimate::default();
        for stage in design.stages() {
            let mut counter = Counter::new(stage);
            counter.count(&mut sum);
        }
        let (registers, state) = (u64::from(registers), u64::from(design.state_width()));
        if state > 0 {
            sum.flip_flops = state + registers * u64::from(design.output_width());
        } else if registers > 0 {
            let outputs: u64 = design.stages().iter().map(distinct_outputs).sum();
            sum.flip_flops = registers * (u64::from(design.input_width()) + outputs);
        }
        sum
    }
}

impl Estimate {
    /// The estimate as a table of one row.
    pub(crate) fn table(&self) -> Table {
        let columns = ["LUT", "CARRY4", "FF", "DSP"].map(Column::number).to_vec();
        let mut table = Table::new("logic_estimate", columns);
        table.push(vec![
            self.luts.into(),
            self.carries.into(),
            self.flip_flops.into(),
            self.multipliers.into(),
        ]);
        table
    }
}

/// Bits that leave a stage, equal and known ones not counted: a tool keeps one register of equals.
fn distinct_outputs(netlist: &Netlist) -> u64 {
    let alias = |bit| resolve(netlist, bit);
    let bits = netlist.outputs().iter().flat_map(Wires::bits).map(alias);
    let distinct: FxHashSet<Bit> = bits.filter(|bit| matches!(bit, Bit::Of(..))).collect();
    distinct.len() as u64
}

/// The bit behind nets that only pass it on.
fn resolve(netlist: &Netlist, mut bit: Bit) -> Bit {
    while let Bit::Of(net, at) = bit {
        let Cell::Wires(wires) = &netlist.nets()[net.index()].cell else { break };
        match wires.bits().nth(at as usize) {
            Some(next) => bit = next,
            None => break,
        }
    }
    bit
}

struct Counter<'a> {
    netlist: &'a Netlist,
    /// For every net which bits an output depends on.
    used: Vec<Vec<bool>>,
    /// The two-input functions so far: equal ones are one LUT.
    seen: FxHashSet<(Function, Bit, Bit)>,
}

/// What a LUT computes of two bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Function {
    Add,
    Subtract,
    And,
    Or,
    /// Of this condition.
    Select(Bit),
}

impl<'a> Counter<'a> {
    fn new(netlist: &'a Netlist) -> Counter<'a> {
        let used = netlist.nets().iter().map(|net| vec![false; net.width as usize]).collect();
        let mut counter = Counter { netlist, used, seen: FxHashSet::default() };
        netlist.outputs().iter().for_each(|wires| counter.use_bits(wires, |_| true));
        for (index, net) in netlist.nets().iter().enumerate().rev() {
            counter.use_operands(index, &net.cell);
        }
        counter
    }

    fn use_bits(&mut self, wires: &Wires, wanted: impl Fn(usize) -> bool) {
        for (_, bit) in wires.bits().enumerate().filter(|(at, _)| wanted(*at)) {
            if let Bit::Of(net, at) = bit {
                self.used[net.index()][at as usize] = true;
            }
        }
    }

    /// The operand bits that the used bits of a net depend on.
    fn use_operands(&mut self, index: usize, cell: &Cell) {
        let used = std::mem::take(&mut self.used[index]);
        let Some(last) = used.iter().rposition(|used| *used) else {
            self.used[index] = used;
            return;
        };
        match cell {
            Cell::Port => {}
            Cell::Wires(x) | Cell::Not(x) => self.use_bits(x, |at| used[at]),
            Cell::And(a, b) | Cell::Or(a, b) | Cell::Xor(a, b) => {
                self.use_bits(a, |at| used[at]);
                self.use_bits(b, |at| used[at]);
            }
            Cell::Select { condition, set, clear } => {
                self.use_bits(condition, |_| true);
                self.use_bits(set, |at| used[at]);
                self.use_bits(clear, |at| used[at]);
            }
            Cell::Add(a, b) | Cell::Subtract(a, b) => {
                self.use_bits(a, |at| at <= last);
                self.use_bits(b, |at| at <= last);
            }
            Cell::Multiply { .. } | Cell::Any(_) | Cell::All(_) | Cell::Rom { .. } => {
                cell.operands().for_each(|wires| self.use_bits(wires, |_| true));
            }
        }
        self.used[index] = used;
    }

    fn count(&mut self, sum: &mut Estimate) {
        let all_used = std::mem::take(&mut self.used);
        for (net, used) in self.netlist.nets().iter().zip(&all_used) {
            let width = used.iter().rposition(|used| *used).map_or(0, |last| last + 1);
            if width > 0 {
                self.cell(&net.cell, width, used, sum);
            }
        }
    }

    /// Adds what the low `width` bits of a cell take.
    fn cell(&mut self, cell: &Cell, width: usize, used: &[bool], sum: &mut Estimate) {
        match cell {
            // An inversion becomes part of what reads it.
            Cell::Port | Cell::Wires(_) | Cell::Not(_) => {}
            Cell::Add(a, b) => {
                sum.luts += self.distinct(Function::Add, [a, b], |at| at < width);
                sum.carries += (width as u64).div_ceil(CARRY_BITS);
            }
            Cell::Subtract(a, b) => {
                sum.luts += self.distinct(Function::Subtract, [a, b], |at| at < width);
                sum.carries += (width as u64).div_ceil(CARRY_BITS);
            }
            // The sum bit of an adder is this function as well.
            Cell::Xor(a, b) => sum.luts += self.distinct(Function::Add, [a, b], |at| used[at]),
            Cell::And(a, b) => sum.luts += self.distinct(Function::And, [a, b], |at| used[at]),
            Cell::Or(a, b) => sum.luts += self.distinct(Function::Or, [a, b], |at| used[at]),
            Cell::Select { condition, set, clear } => {
                let by = condition.bits().next().unwrap_or(Bit::Known(false));
                let function = Function::Select(resolve(self.netlist, by));
                sum.luts += self.distinct(function, [set, clear], |at| used[at]);
            }
            Cell::Any(x) | Cell::All(x) => sum.luts += tree(x.width()),
            Cell::Multiply { a, b, .. } => multiplier(a.width(), b.width(), sum),
            Cell::Rom { rom, .. } => sum.luts += rom_luts(&self.netlist.roms()[*rom], used),
        }
    }

    /// Pairs of operand bits that no LUT has yet, without those that are both known.
    fn distinct(
        &mut self,
        function: Function,
        [a, b]: [&Wires; 2],
        wanted: impl Fn(usize) -> bool,
    ) -> u64 {
        let before = self.seen.len();
        for (_, (a, b)) in a.bits().zip(b.bits()).enumerate().filter(|(at, _)| wanted(*at)) {
            let pair = (resolve(self.netlist, a), resolve(self.netlist, b));
            if !matches!(pair, (Bit::Known(_), Bit::Known(_))) {
                self.seen.insert((function, pair.0, pair.1));
            }
        }
        (self.seen.len() - before) as u64
    }
}

/// LUTs of a tree with so many inputs.
fn tree(inputs: u32) -> u64 {
    u64::from(inputs.saturating_sub(1)).div_ceil(u64::from(LUT_INPUTS - 1))
}

fn multiplier(a: u32, b: u32, sum: &mut Estimate) {
    if a + b < MULTIPLIER_BITS || a.min(b) < 2 {
        // One row of partial products per bit of the shorter factor, added up.
        sum.luts += u64::from(a) * u64::from(b);
        return;
    }
    let (long, short) = (u64::from(a.max(b)), u64::from(a.min(b)));
    sum.multipliers += long.div_ceil(25) * short.div_ceil(18);
}

/// Every output bit as a tree of LUTs on 64 entries each; equal and constant parts once.
fn rom_luts(rom: &Rom, used: &[bool]) -> u64 {
    let block = 1_usize << rom.index_width.min(LUT_INPUTS);
    let mut luts = FxHashSet::default();
    let mut muxes = 0;
    for bit in (0..rom.width).filter(|bit| used[*bit as usize]) {
        let column: Vec<bool> = rom.entries.iter().map(|entry| entry >> bit & 1 == 1).collect();
        let blocks: Vec<&[bool]> = column.chunks(block).collect();
        let first = blocks[0];
        let varying = blocks.iter().filter(|block| block.contains(&true) && block.contains(&false));
        luts.extend(varying.map(|block| block.to_vec()));
        if blocks.iter().any(|block| *block != first) {
            // Four blocks meet in the multiplexers between LUTs, which are free; above that a LUT
            // chooses one of four.
            muxes += (blocks.len() as u64 / 4).saturating_sub(1).div_ceil(3);
        }
    }
    luts.len() as u64 + muxes
}
