//! From the cells of a stage to its logic.

use super::gates::{Gates, Literal};
use super::logic::{Kind, Logic, is_block};
use super::mapping;
use super::netlist::{Bit, Cell, Netlist, Piece, Rom, Wires};
use rustc_hash::FxHashMap;

/// Tables with more bits in their index are covered apart, once however often they are read.
const SMALL_TABLE: u32 = 6;

pub(super) struct Stage<'a> {
    logic: &'a mut Logic,
    number: usize,
    netlist: &'a Netlist,
    /// For every net how many of its low bits an output depends on.
    used: Vec<usize>,
    /// How many cells and outputs read each net.
    readers: Vec<u32>,
    /// The bits of every net, as far as they are used.
    values: Vec<Vec<Literal>>,
    /// Large tables by number and width: the bits as functions of those of the index, which are the
    /// first leaves, and the LUTs.
    tables: FxHashMap<(usize, usize), (Vec<Literal>, u64)>,
}

impl<'a> Stage<'a> {
    /// The bits that leave the stage when these enter it.
    pub(super) fn outputs(
        logic: &'a mut Logic,
        number: usize,
        netlist: &'a Netlist,
        input: Vec<Literal>,
    ) -> Vec<Literal> {
        let (used, readers) = (vec![0; netlist.nets().len()], vec![0; netlist.nets().len()]);
        let (values, tables) = (vec![input], FxHashMap::default());
        let mut stage = Stage { logic, number, netlist, used, readers, values, tables };
        stage.mark();
        for (net, width) in netlist.nets().iter().zip(stage.used.clone()).skip(1) {
            let value = match width {
                0 => Vec::new(),
                _ => stage.cell(&net.cell, width),
            };
            stage.values.push(value);
        }
        netlist.outputs().iter().flat_map(|wires| stage.bits(wires, usize::MAX)).collect()
    }

    /// Finds what is used of every net, from the outputs on.
    fn mark(&mut self) {
        self.netlist.outputs().iter().for_each(|wires| self.read(wires, usize::MAX));
        for (index, net) in self.netlist.nets().iter().enumerate().rev() {
            let width = match (self.used[index], &net.cell) {
                (0, _) => continue,
                (_, Cell::Any(_) | Cell::All(_) | Cell::Multiply { .. } | Cell::Rom { .. }) => {
                    usize::MAX
                }
                (width, _) => width,
            };
            net.cell.operands().for_each(|wires| self.read(wires, width));
        }
    }

    /// Some low bits of these wires are read.
    fn read(&mut self, wires: &Wires, width: usize) {
        let (mut left, mut last) = (width, None);
        for piece in wires.pieces() {
            let taken = left.min(piece.width() as usize);
            left -= taken;
            let (net, end) = match piece {
                _ if taken == 0 => return,
                Piece::Bits { net, low, .. } => (net.index(), *low as usize + taken),
                Piece::Repeat { net, bit, .. } => (net.index(), *bit as usize + 1),
                Piece::Constant { .. } => continue,
            };
            self.used[net] = self.used[net].max(end);
            // A sign that is extended is not another reader.
            self.readers[net] += u32::from(last != Some(net));
            last = Some(net);
        }
    }

    /// The low bits of an operand.
    fn bits(&self, wires: &Wires, width: usize) -> Vec<Literal> {
        let literal = |bit| match bit {
            Bit::Known(value) => Literal::known(value),
            // What is not used has no bits.
            Bit::Of(net, at) => {
                self.values[net.index()].get(at as usize).copied().unwrap_or(Literal::ZERO)
            }
        };
        wires.bits().take(width).map(literal).collect()
    }

    /// The low bits of a cell.
    fn cell(&mut self, cell: &'a Cell, width: usize) -> Vec<Literal> {
        match cell {
            Cell::Port => Vec::new(),
            Cell::Add(a, b) if self.is_product(a) || self.is_product(b) => {
                let read = [a, b].map(|x| self.bits(x, width)).concat();
                self.logic.block(Kind::Multipliers(0), width, read)
            }
            Cell::Add(a, b) => self.logic.adder(&self.bits(a, width), &self.bits(b, width), false),
            Cell::Subtract(a, b) => {
                let (a, b) = self.opposite(a, b).unwrap_or((a, b));
                self.logic.adder(&self.bits(a, width), &self.bits(b, width), true)
            }
            Cell::Wires(x) => self.bits(x, width),
            Cell::Not(x) => self.bits(x, width).into_iter().map(|bit| !bit).collect(),
            Cell::And(a, b) => self.pairs([a, b], width, Gates::and),
            Cell::Or(a, b) => self.pairs([a, b], width, Gates::or),
            Cell::Xor(a, b) => self.pairs([a, b], width, Gates::xor),
            Cell::Select { condition, set, clear } => {
                let by = self.bits(condition, 1)[0];
                self.pairs([set, clear], width, |gates, set, clear| gates.select(by, set, clear))
            }
            Cell::Any(x) => {
                let none: Vec<Literal> =
                    self.bits(x, usize::MAX).into_iter().map(|bit| !bit).collect();
                vec![!self.logic.gates.all(&none)]
            }
            Cell::All(x) => {
                let bits = self.bits(x, usize::MAX);
                vec![self.logic.gates.all(&bits)]
            }
            Cell::Multiply { a, b, signed } => {
                let factors = [a, b].map(|x| self.bits(x, usize::MAX));
                self.logic.product(factors, *signed, width)
            }
            Cell::Rom { rom, index } => self.lookup(*rom, &self.bits(index, usize::MAX), width),
        }
    }

    fn pairs(
        &mut self,
        [a, b]: [&Wires; 2],
        width: usize,
        gate: impl Fn(&mut Gates, Literal, Literal) -> Literal,
    ) -> Vec<Literal> {
        let pairs = self.bits(a, width).into_iter().zip(self.bits(b, width));
        pairs.map(|(a, b)| gate(&mut self.logic.gates, a, b)).collect()
    }

    /// Whether the wires are a product of multiplier blocks that nothing else reads. They add it.
    fn is_product(&self, mut wires: &'a Wires) -> bool {
        while let Some(Piece::Bits { net, low: 0, .. }) = wires.pieces().first() {
            match &self.netlist.nets()[net.index()].cell {
                _ if self.readers[net.index()] > 1 => return false,
                Cell::Wires(inner) => wires = inner,
                Cell::Multiply { a, b, .. } => {
                    let factors = [a, b].map(|x| x.width() as usize);
                    return is_block(factors, self.used[net.index()]);
                }
                _ => return false,
            }
        }
        false
    }

    /// The operands of the opposite of a difference that nothing else reads, if `a - b` is that.
    fn opposite(&self, a: &Wires, b: &Wires) -> Option<(&'a Wires, &'a Wires)> {
        let [Piece::Bits { net, low: 0, width }] = b.pieces() else { return None };
        let inner = &self.netlist.nets()[net.index()];
        match &inner.cell {
            _ if !a.is_zero() || inner.width != *width || self.readers[net.index()] > 1 => None,
            Cell::Subtract(p, q) => Some((q, p)),
            _ => None,
        }
    }

    fn lookup(&mut self, number: usize, index: &[Literal], width: usize) -> Vec<Literal> {
        let rom = &self.netlist.roms()[number];
        if rom.index_width <= SMALL_TABLE {
            return choices(&mut self.logic.gates, rom, index, width);
        }
        let (bits, luts) = self.tables.entry((number, width)).or_insert_with(|| {
            let mut gates = Gates::new(index.len());
            let leaves: Vec<Literal> = (1..=index.len()).map(Literal::of).collect();
            let bits = choices(&mut gates, rom, &leaves, width);
            let luts = mapping::luts(&gates, &bits);
            (bits, luts)
        });
        let (bits, kind) = (bits.clone(), Kind::Table { stage: self.number, number, luts: *luts });
        let mut made: Vec<Literal> =
            bits.iter().copied().filter(|bit| bit.node() > index.len()).collect();
        made.sort_unstable();
        made.dedup();
        let results = self.logic.block(kind, made.len(), index.to_vec());
        let bit = |bit: &Literal| match made.binary_search(bit) {
            Ok(place) => results[place],
            Err(_) if bit.is_known() => *bit,
            Err(_) => index[bit.node() - 1].inverted_if(bit.is_inverse()),
        };
        bits.iter().map(bit).collect()
    }
}

/// Every output bit of a table as choices by the bits of the index, the lowest first.
fn choices(gates: &mut Gates, rom: &Rom, index: &[Literal], width: usize) -> Vec<Literal> {
    let bit = |at: usize| {
        let mut level: Vec<Literal> =
            rom.entries.iter().map(|entry| Literal::known(entry >> at & 1 == 1)).collect();
        for &by in index {
            level = level.chunks(2).map(|pair| gates.select(by, pair[1], pair[0])).collect();
        }
        level[0]
    };
    (0..width).map(bit).collect()
}
