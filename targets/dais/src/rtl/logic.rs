//! From a design to gates, carry blocks, multiplier blocks and registers, as `synth_xilinx` of Yosys
//! makes them of cells.

use super::Design;
use super::estimate::Estimate;
use super::gates::{Gates, Literal};
use super::mapping;
use super::netlist::{Bit, Cell, NetId, Netlist, Piece, Rom, Wires};
use rustc_hash::{FxHashMap, FxHashSet};

/// Bits of a carry block.
const CARRY_BITS: usize = 4;

/// Sums of fewer bits have no carry blocks.
const SHORTEST_CHAIN: usize = 3;

/// Products of fewer bits, or of factors of less than two, are made of LUTs.
const MULTIPLIER_BITS: usize = 9;

/// Bits of the factors of a multiplier block that are not the sign.
const BLOCK: (usize, usize) = (24, 17);

/// The logic of a design.
pub(super) struct Logic {
    gates: Gates,
    /// Bits that ports, carry blocks, registers and multiplier blocks read.
    read: Vec<Literal>,
    /// What is not made of LUTs, in order.
    blocks: Vec<Block>,
    registers: FxHashMap<(Literal, u32), Literal>,
    /// Results of carry chains and multiplier blocks by their operands: equal ones are there once.
    made: FxHashMap<(Operation, Vec<Literal>, Vec<Literal>), Vec<Literal>>,
}

/// Something whose results are leaves.
struct Block {
    kind: Kind,
    /// Its results are the nodes from here on.
    first: usize,
    width: usize,
    /// What it reads; a carry chain two bits for each of its own.
    read: Vec<Literal>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Chain,
    Multiplier,
    Register,
}

/// What is done once for equal operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Operation {
    Add,
    Subtract,
    Multiply { signed: bool, width: usize },
}

impl Logic {
    /// The logic with so many registers at every boundary.
    pub(super) fn new(design: &Design, registers: u32) -> Logic {
        let mut logic = Logic {
            gates: Gates::new(),
            read: Vec::new(),
            blocks: Vec::new(),
            registers: FxHashMap::default(),
            made: FxHashMap::default(),
        };
        let used = used_bits(design);
        let mut bus: Vec<Literal> = (0..design.input_width()).map(|_| logic.gates.leaf()).collect();
        for (number, (stage, used)) in design.stages.iter().zip(&used).enumerate() {
            bus = logic.registered(&bus, &used[0], registers);
            if number > 0 {
                // Net 0 of a link is the bus in front of it.
                let values = [bus];
                let link = design.links[number - 1].bits();
                bus = link.map(|bit| literal(&values, bit)).collect();
            }
            bus = logic.stage(stage, used, bus);
        }
        let all = vec![true; bus.len()];
        bus = logic.registered(&bus, &all, registers);
        logic.read.extend(bus);
        logic
    }

    /// What it takes.
    pub(super) fn estimate(mut self) -> Estimate {
        let mut estimate = Estimate::default();
        self.sweep(&mut estimate);
        estimate.luts = mapping::luts(&self.gates, &self.read);
        estimate
    }

    /// Counts the blocks that an output depends on, now that the known bits of all logic are known;
    /// what these read is wanted.
    fn sweep(&mut self, estimate: &mut Estimate) {
        let mut live = vec![false; self.gates.nodes.len()];
        self.read.iter().for_each(|bit| live[bit.node()] = true);
        let mut end = live.len();
        for block in self.blocks.iter().rev() {
            // Gates behind the block; what reads its results is among them.
            self.gates.mark(block.first + block.width..end, &mut live);
            end = block.first;
            let results = &live[block.first..block.first + block.width];
            let Some(last) = results.iter().rposition(|live| *live) else { continue };
            let read = match block.kind {
                Kind::Chain => {
                    estimate.carries += (last + 1).div_ceil(CARRY_BITS) as u64;
                    &block.read[..2 * (last + 1)]
                }
                Kind::Multiplier => {
                    estimate.multipliers += 1;
                    &block.read
                }
                Kind::Register => {
                    estimate.flip_flops += 1;
                    &block.read
                }
            };
            read.iter().for_each(|bit| live[bit.node()] = true);
            self.read.extend(read);
        }
    }

    /// The results of a block.
    fn block(&mut self, kind: Kind, width: usize, read: Vec<Literal>) -> Vec<Literal> {
        let first = self.gates.nodes.len();
        self.blocks.push(Block { kind, first, width, read });
        (0..width).map(|_| self.gates.leaf()).collect()
    }

    /// The bits behind so many registers; equal bits share them.
    fn registered(&mut self, bits: &[Literal], used: &[bool], count: u32) -> Vec<Literal> {
        let mut bits = bits.to_vec();
        for rank in 0..count {
            for (at, bit) in bits.iter_mut().enumerate() {
                if bit.is_known() || !used.get(at).copied().unwrap_or(true) {
                    continue;
                }
                *bit = match self.registers.get(&(*bit, rank)) {
                    Some(&register) => register,
                    None => {
                        let register = self.block(Kind::Register, 1, vec![*bit])[0];
                        self.registers.insert((*bit, rank), register);
                        register
                    }
                };
            }
        }
        bits
    }

    /// The outputs of a stage, given what enters it.
    fn stage(
        &mut self,
        netlist: &Netlist,
        used: &[Vec<bool>],
        input: Vec<Literal>,
    ) -> Vec<Literal> {
        let merged = Merged::new(netlist, used);
        let mut values: Vec<Vec<Literal>> = Vec::with_capacity(netlist.nets().len());
        for (index, net) in netlist.nets().iter().enumerate() {
            let width = used[index].iter().rposition(|used| *used).map_or(0, |last| last + 1);
            let skip = width == 0 || merged.gone.contains(&index);
            let value = match &net.cell {
                Cell::Port => input.clone(),
                _ if skip => Vec::new(),
                Cell::Add(..) | Cell::Subtract(..) => {
                    let mut rows = Vec::new();
                    merged.rows(netlist, index, false, &mut rows);
                    let bits = |(wires, minus): (&Wires, bool)| (row(&values, wires, width), minus);
                    let rows = rows.into_iter().map(bits).collect();
                    self.sum(rows, width)
                }
                cell => self.cell(netlist, cell, &values, &used[index]),
            };
            values.push(value);
        }
        let outputs = netlist.outputs().iter().flat_map(Wires::bits);
        outputs.map(|bit| literal(&values, bit)).collect()
    }

    /// The bits of a cell that is not a sum, known ones where they are not used.
    fn cell(
        &mut self,
        netlist: &Netlist,
        cell: &Cell,
        values: &[Vec<Literal>],
        used: &[bool],
    ) -> Vec<Literal> {
        let all = |wires: &Wires| -> Vec<Literal> {
            wires.bits().map(|bit| literal(values, bit)).collect()
        };
        let gates = &mut self.gates;
        let mut pairs =
            |a: &Wires,
             b: &Wires,
             gate: &mut dyn FnMut(&mut Gates, Literal, Literal) -> Literal| {
                let pairs = all(a).into_iter().zip(all(b)).zip(used);
                let bit = |((a, b), &used): ((Literal, Literal), &bool)| match used {
                    true => gate(gates, a, b),
                    false => Literal::ZERO,
                };
                pairs.map(bit).collect::<Vec<_>>()
            };
        match cell {
            Cell::Port | Cell::Add(..) | Cell::Subtract(..) => Vec::new(),
            Cell::Wires(x) => all(x),
            Cell::Not(x) => all(x).into_iter().map(|bit| !bit).collect(),
            Cell::And(a, b) => pairs(a, b, &mut Gates::and),
            Cell::Or(a, b) => pairs(a, b, &mut Gates::or),
            Cell::Xor(a, b) => pairs(a, b, &mut Gates::xor),
            Cell::Select { condition, set, clear } => {
                let condition = all(condition)[0];
                pairs(set, clear, &mut |gates, set, clear| gates.select(condition, set, clear))
            }
            Cell::Any(x) => {
                let none: Vec<Literal> = all(x).into_iter().map(|bit| !bit).collect();
                vec![!self.gates.all(&none)]
            }
            Cell::All(x) => vec![self.gates.all(&all(x))],
            Cell::Multiply { a, b, signed } => self.product(&all(a), &all(b), *signed, used),
            Cell::Rom { rom, index } => self.rom(&netlist.roms()[*rom], &all(index), used),
        }
    }

    /// The low bits of a sum of rows, each of which may be subtracted.
    fn sum(&mut self, mut rows: Vec<(Vec<Literal>, bool)>, width: usize) -> Vec<Literal> {
        // An added row comes first: it is what enters the carry blocks.
        rows.sort_by_key(|(_, minus)| *minus);
        match &rows[..] {
            [(a, false), (b, minus)] => self.adder(a, b, *minus, width),
            _ => {
                let mut columns = Columns::new(width);
                for (bits, minus) in &rows {
                    columns.add(0, bits, *minus);
                }
                self.columns(columns)
            }
        }
    }

    /// The low bits of a sum or a difference: a chain of carry blocks, or gates if it is short.
    fn adder(
        &mut self,
        a: &[Literal],
        b: &[Literal],
        subtract: bool,
        width: usize,
    ) -> Vec<Literal> {
        let length = |bits: &[Literal]| {
            bits.iter().rposition(|bit| *bit != Literal::ZERO).map_or(0, |top| top + 1)
        };
        let chain = match subtract {
            true => width,
            false => width.min(length(a).max(length(b)) + 1),
        };
        let mut sum = match chain < SHORTEST_CHAIN {
            true => self.ripple(&a[..chain], &b[..chain], subtract),
            false => self.chain(&a[..chain], &b[..chain], subtract),
        };
        sum.resize(width, Literal::ZERO);
        sum
    }

    fn ripple(&mut self, a: &[Literal], b: &[Literal], subtract: bool) -> Vec<Literal> {
        let mut carry = Literal::known(subtract);
        let mut bit = |(&a, &b): (&Literal, &Literal)| {
            let (bit, next) = self.gates.full_adder([a, b.inverted_if(subtract), carry]);
            carry = next;
            bit
        };
        a.iter().zip(b).map(&mut bit).collect()
    }

    /// A carry block reads the first operand, and by a LUT where the two differ.
    fn chain(&mut self, a: &[Literal], b: &[Literal], subtract: bool) -> Vec<Literal> {
        let operation = if subtract { Operation::Subtract } else { Operation::Add };
        let key = (operation, a.to_vec(), b.to_vec());
        if let Some(made) = self.made.get(&key) {
            return made.clone();
        }
        let gates = &mut self.gates;
        let bits = a.iter().zip(b);
        let read = bits.flat_map(|(&a, &b)| [gates.xor(a, b.inverted_if(subtract)), a]).collect();
        let sum = self.block(Kind::Chain, a.len(), read);
        self.made.insert(key, sum.clone());
        sum
    }

    /// The sum of columns: three bits become one and one of the next column, until a chain can add
    /// the rest.
    fn columns(&mut self, mut columns: Columns) -> Vec<Literal> {
        let width = columns.bits.len();
        while columns.bits.iter().any(|column| column.len() > 2) {
            let mut next = Columns::new(width);
            for (at, column) in columns.bits.iter().enumerate() {
                for bits in column.chunks(3) {
                    let &[a, b, c] = bits else {
                        next.bits[at].extend(bits);
                        continue;
                    };
                    let (sum, carry) = self.gates.full_adder([a, b, c]);
                    next.put(at, sum);
                    next.put(at + 1, carry);
                }
            }
            columns = next;
        }
        let row = |which: usize| -> Vec<Literal> {
            columns.bits.iter().map(|c| c.get(which).copied().unwrap_or(Literal::ZERO)).collect()
        };
        let (a, b) = (row(0), row(1));
        // Below the lowest pair nothing is added.
        let free = b.iter().position(|bit| *bit != Literal::ZERO).unwrap_or(width);
        let mut sum = a[..free].to_vec();
        sum.extend(self.adder(&a[free..], &b[free..], false, width - free));
        sum
    }

    fn product(
        &mut self,
        a: &[Literal],
        b: &[Literal],
        signed: bool,
        used: &[bool],
    ) -> Vec<Literal> {
        let width = used.iter().rposition(|used| *used).map_or(0, |last| last + 1);
        if width >= MULTIPLIER_BITS && a.len().min(b.len()) >= 2 {
            let key = (Operation::Multiply { signed, width }, a.to_vec(), b.to_vec());
            let mut bits = match self.made.get(&key) {
                Some(made) => made.clone(),
                None => {
                    let read: Vec<Literal> = a.iter().chain(b).copied().collect();
                    let sign = usize::from(signed);
                    let (long, short) = (a.len().max(b.len()), a.len().min(b.len()));
                    let made = self.multiplier([long - sign, short - sign], sign, width, &read);
                    self.made.insert(key, made.clone());
                    made
                }
            };
            bits.resize(used.len(), Literal::ZERO);
            return bits;
        }
        let fitted = |bits: &[Literal]| -> Vec<Literal> {
            let above = if signed { bits[bits.len() - 1] } else { Literal::ZERO };
            (0..width).map(|at| bits.get(at).copied().unwrap_or(above)).collect()
        };
        let (long, mut columns) = (fitted(a), Columns::new(width));
        for (at, &bit) in b.iter().enumerate().take(width) {
            let row: Vec<Literal> =
                long[..width - at].iter().map(|&x| self.gates.and(x, bit)).collect();
            // The top bit of a number with a sign counts negative.
            columns.add(at, &row, signed && at + 1 == b.len());
        }
        self.columns(columns)
    }

    /// The low bits of a product in multiplier blocks: the parts of a factor that is longer than a
    /// block one after the other, each added to what is there. Lengths do not count the sign.
    fn multiplier(
        &mut self,
        [long, short]: [usize; 2],
        sign: usize,
        width: usize,
        read: &[Literal],
    ) -> Vec<Literal> {
        let (step, rest) = match (long > BLOCK.0, short > BLOCK.1) {
            (true, _) => (BLOCK.0, long - BLOCK.0),
            (_, true) => (BLOCK.1, short - BLOCK.1),
            _ => {
                let width = width.min(long + short + 2 * sign);
                return self.block(Kind::Multiplier, width, read.to_vec());
            }
        };
        let lengths = |part: usize| if long > BLOCK.0 { [part, short] } else { [long, part] };
        let mut low = self.multiplier(lengths(step), sign, width, read);
        if width <= step {
            return low;
        }
        let mut high = self.multiplier(lengths(rest), sign, width - step, read);
        // The part that is added first is extended by its top bit.
        let top = low.last().copied().unwrap_or(Literal::ZERO);
        low.resize(width, if sign == 1 { top } else { Literal::ZERO });
        high.resize(width - step, Literal::ZERO);
        let sum = self.adder(&low[step..], &high, false, width - step);
        low.truncate(step);
        low.extend(sum);
        low
    }

    /// Every output bit as choices by the bits of the index, the highest first.
    fn rom(&mut self, rom: &Rom, index: &[Literal], used: &[bool]) -> Vec<Literal> {
        let bit = |at: usize| {
            if !used[at] {
                return Literal::ZERO;
            }
            let entries = (0..1_usize << rom.index_width)
                .map(|entry| rom.entries.get(entry).is_some_and(|entry| entry >> at & 1 == 1));
            let mut level: Vec<Literal> = entries.map(Literal::known).collect();
            for &by in index {
                level = level.chunks(2).map(|c| self.gates.select(by, c[1], c[0])).collect();
            }
            level[0]
        };
        (0..rom.width as usize).map(bit).collect()
    }
}

/// Bits of a sum by their weights.
struct Columns {
    bits: Vec<Vec<Literal>>,
}

impl Columns {
    fn new(width: usize) -> Columns {
        Columns { bits: vec![Vec::new(); width] }
    }

    /// A bit; two known ones carry, and what leaves at the top does not count.
    fn put(&mut self, at: usize, bit: Literal) {
        let Some(column) = self.bits.get_mut(at).filter(|_| bit != Literal::ZERO) else { return };
        match column.iter().position(|other| *other == bit) {
            // A bit twice is that bit in the next column.
            Some(same) => {
                column.remove(same);
                self.put(at + 1, bit);
            }
            None => column.push(bit),
        }
    }

    /// A row that begins at a column and reaches the top.
    fn add(&mut self, low: usize, row: &[Literal], minus: bool) {
        for (at, bit) in row.iter().enumerate() {
            self.put(low + at, bit.inverted_if(minus));
        }
        if minus {
            self.put(low, Literal::ONE);
        }
    }
}

/// Sums that are added up with others at once: a sum that one other sum reads, and nothing else, is
/// a row of it, if no carry is lost. Yosys does so (`alumacc`).
struct Merged {
    gone: FxHashSet<usize>,
}

impl Merged {
    fn new(netlist: &Netlist, used: &[Vec<bool>]) -> Merged {
        let nets = netlist.nets();
        let width =
            |net: usize| used[net].iter().rposition(|used| *used).map_or(0, |last| last + 1);
        let mut readers = vec![0_u32; nets.len()];
        let live = |index: usize| index > 0 && width(index) > 0;
        let cells = nets.iter().enumerate().filter(|(index, _)| live(*index));
        let operands = cells.flat_map(|(_, net)| net.cell.operands());
        for piece in operands.chain(netlist.outputs()).flat_map(Wires::pieces) {
            if let Piece::Bits { net, .. } | Piece::Repeat { net, .. } = piece {
                readers[net.index()] += 1;
            }
        }
        let mut gone = FxHashSet::default();
        for (index, net) in nets.iter().enumerate().filter(|(index, _)| live(*index)) {
            let (Cell::Add(a, b) | Cell::Subtract(a, b)) = &net.cell else { continue };
            for operand in [a, b] {
                let Some(inner) = whole(netlist, operand) else { continue };
                let same =
                    width(inner) == width(index) && nets[inner].width as usize == width(inner);
                let holds = match &nets[inner].cell {
                    Cell::Add(a, b) => {
                        same || significant(a).max(significant(b)) < nets[inner].width
                    }
                    Cell::Subtract(..) => same,
                    _ => false,
                };
                if holds && readers[inner] == 1 {
                    gone.insert(inner);
                }
            }
        }
        Merged { gone }
    }

    /// The operands of a sum and of those that are part of it, with whether each is subtracted.
    fn rows<'a>(
        &self,
        netlist: &'a Netlist,
        index: usize,
        minus: bool,
        rows: &mut Vec<(&'a Wires, bool)>,
    ) {
        let (a, b, subtract) = match &netlist.nets()[index].cell {
            Cell::Add(a, b) => (a, b, false),
            Cell::Subtract(a, b) => (a, b, true),
            _ => return,
        };
        for (operand, minus) in [(a, minus), (b, minus != subtract)] {
            match whole(netlist, operand).filter(|inner| self.gone.contains(inner)) {
                Some(inner) => self.rows(netlist, inner, minus, rows),
                None => rows.push((operand, minus)),
            }
        }
    }
}

/// The net that wires are all bits of, zeros above them not counted.
fn whole(netlist: &Netlist, wires: &Wires) -> Option<usize> {
    let (first, above) = wires.pieces().split_first()?;
    let Piece::Bits { net, low: 0, width } = first else { return None };
    let zeros = above
        .iter()
        .all(|piece| *piece == Piece::Constant { value: 0.into(), width: piece.width() });
    (zeros && netlist.nets()[net.index()].width == *width).then_some(net.index())
}

/// Bits without the zeros at the top.
fn significant(wires: &Wires) -> u32 {
    match wires.pieces().last() {
        Some(Piece::Constant { value, width }) => {
            wires.width() - width + quincunx_num::bit_length(value)
        }
        _ => wires.width(),
    }
}

fn literal(values: &[Vec<Literal>], bit: Bit) -> Literal {
    match bit {
        Bit::Known(value) => Literal::known(value),
        // What is not used has no bits.
        Bit::Of(net, at) => values[net.index()].get(at as usize).copied().unwrap_or(Literal::ZERO),
    }
}

/// The low bits of an operand, extended by zeros.
fn row(values: &[Vec<Literal>], wires: &Wires, width: usize) -> Vec<Literal> {
    let mut bits: Vec<Literal> = wires.bits().take(width).map(|bit| literal(values, bit)).collect();
    bits.resize(width, Literal::ZERO);
    bits
}

/// For every net of every stage which bits an output of the last stage depends on.
fn used_bits(design: &Design) -> Vec<Vec<Vec<bool>>> {
    let mut stages = Vec::new();
    let mut leaves = vec![true; design.output_width() as usize];
    for (number, stage) in design.stages.iter().enumerate().rev() {
        let used = stage_used(stage, &leaves);
        if number > 0 {
            leaves = vec![false; design.stages[number - 1].output_width() as usize];
            for (bit, used) in design.links[number - 1].bits().zip(&used[0]) {
                if let (Bit::Of(NetId::PORT, at), true) = (bit, *used) {
                    leaves[at as usize] = true;
                }
            }
        }
        stages.push(used);
    }
    stages.reverse();
    stages
}

/// For every net which bits matter if these outputs do.
fn stage_used(netlist: &Netlist, outputs: &[bool]) -> Vec<Vec<bool>> {
    let nets = netlist.nets();
    let mut used: Vec<Vec<bool>> = nets.iter().map(|net| vec![false; net.width as usize]).collect();
    let mark = |used: &mut Vec<Vec<bool>>, wires: &Wires, wanted: &dyn Fn(usize) -> bool| {
        for (at, bit) in wires.bits().enumerate() {
            if let (Bit::Of(net, place), true) = (bit, wanted(at)) {
                used[net.index()][place as usize] = true;
            }
        }
    };
    let mut low = 0;
    for output in netlist.outputs() {
        mark(&mut used, output, &|at| outputs[low + at]);
        low += output.width() as usize;
    }
    for (index, net) in nets.iter().enumerate().rev() {
        let own = std::mem::take(&mut used[index]);
        if let Some(last) = own.iter().rposition(|used| *used) {
            let each = |at: usize| own[at];
            match &net.cell {
                Cell::Port => {}
                Cell::Wires(x) | Cell::Not(x) => mark(&mut used, x, &each),
                Cell::And(a, b) | Cell::Or(a, b) | Cell::Xor(a, b) => {
                    [a, b].into_iter().for_each(|x| mark(&mut used, x, &each));
                }
                Cell::Select { condition, set, clear } => {
                    mark(&mut used, condition, &|_| true);
                    [set, clear].into_iter().for_each(|x| mark(&mut used, x, &each));
                }
                Cell::Add(a, b) | Cell::Subtract(a, b) => {
                    [a, b].into_iter().for_each(|x| mark(&mut used, x, &|at| at <= last));
                }
                cell => cell.operands().for_each(|x| mark(&mut used, x, &|_| true)),
            }
        }
        used[index] = own;
    }
    used
}
