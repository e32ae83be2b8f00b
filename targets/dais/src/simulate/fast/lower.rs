//! Instructions to nodes. The stages of a pipeline become one list: an input of a later stage
//! quantises an output of the one before.

#![deny(clippy::wildcard_enum_match_arm)]

use super::node::{Id, Nodes, Wrap};
use super::range::Range;
use crate::isa::{Inst, UnaryBits};
use crate::program::{Operation, Output, Pipeline, Program, Slot, TableIndex};
use quincunx_num::Kif;

/// Where a result is: `±value * 2^exponent`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) id: Id,
    pub(super) exponent: i64,
    pub(super) negate: bool,
}

/// Everything that is computed.
#[derive(Debug, Default)]
pub(super) struct Lowered {
    pub(super) nodes: Nodes,
    pub(super) tables: Vec<Vec<i32>>,
    /// Lookups that may find no entry; they happen whether or not their results are used.
    pub(super) checks: Vec<Id>,
    pub(super) outputs: Vec<Link>,
    /// What else was asked for.
    pub(super) taps: Vec<Link>,
}

/// A filled slot.
#[derive(Clone, Copy)]
struct Item {
    id: Id,
    kif: Kif,
}

impl Item {
    fn fraction(self) -> i64 {
        self.kif.fraction.into()
    }
}

/// The nodes of a legal pipeline; `None` when a number may need more than 64 bits. `taps` are
/// further results, read from the slots of a stage.
pub(super) fn lower(pipeline: &Pipeline, taps: &[(usize, Output)]) -> Option<Lowered> {
    let operations = pipeline.stages.iter().map(|stage| stage.operations.len()).sum();
    let mut lowered = Lowered { nodes: Nodes::with_capacity(operations), ..Lowered::default() };
    let mut ports = None;
    let mut found = vec![None; taps.len()];
    for (number, stage) in pipeline.stages.iter().enumerate() {
        let mut lowering = Lowering {
            program: stage,
            ports: ports.as_deref(),
            items: Vec::with_capacity(stage.operations.len()),
            first_table: u32::try_from(lowered.tables.len()).ok()?,
            all: &mut lowered,
        };
        for operation in &stage.operations {
            let id = lowering.operation(operation)?;
            lowering.items.push(Item { id, kif: operation.slot_type.kif() });
        }
        let outputs = lowering.links(&stage.outputs);
        for (found, (_, tap)) in found.iter_mut().zip(taps).filter(|(_, tap)| tap.0 == number) {
            *found = Some(lowering.link(tap));
        }
        lowered.tables.extend(stage.tables.iter().map(|table| table.values.clone()));
        ports = Some(outputs);
    }
    lowered.outputs = ports.unwrap_or_default();
    lowered.taps = found.into_iter().collect::<Option<_>>()?;
    lowered.nodes.finish();
    Some(lowered)
}

impl Lowered {
    /// True when the last so many outputs are f64s as they are, whatever the inputs.
    pub(super) fn outputs_are_floats(&self, last: usize) -> bool {
        let most = 1 << f64::MANTISSA_DIGITS;
        let floats = Range { low: -most, high: most };
        self.outputs.iter().rev().take(last).all(|link| floats.holds(self.nodes.range(link.id)))
    }
}

struct Lowering<'a> {
    program: &'a Program,
    /// What the stage before gives; `None` in the first one.
    ports: Option<&'a [Link]>,
    items: Vec<Item>,
    first_table: u32,
    all: &'a mut Lowered,
}

impl Lowering<'_> {
    fn links(&mut self, outputs: &[Output]) -> Vec<Link> {
        outputs.iter().map(|output| self.link(output)).collect()
    }

    fn link(&mut self, output: &Output) -> Link {
        match output.source {
            None => Link { id: self.all.nodes.constant(0), exponent: 0, negate: false },
            Some(slot) => {
                let item = self.at(slot);
                let exponent = i64::from(output.shift) - item.fraction();
                Link { id: item.id, exponent, negate: output.negate }
            }
        }
    }

    fn at(&self, slot: Slot) -> Item {
        self.items[slot.0 as usize]
    }

    fn operation(&mut self, operation: &Operation) -> Option<Id> {
        let to = operation.slot_type.kif();
        let at = |slot| self.items[slot as usize];
        match operation.inst {
            Inst::Input { source } => self.input(source.0, to),
            Inst::Add { a, b, shift } => self.sum(at(a.0), at(b.0), shift, false, to),
            Inst::Sub { a, b, shift } => self.sum(at(a.0), at(b.0), shift, true, to),
            Inst::Relu { x } => self.quantise(at(x.0), false, true, 0, to),
            Inst::ReluNegated { x } => self.quantise(at(x.0), true, true, 0, to),
            Inst::Quantise { x } => self.quantise(at(x.0), false, false, 0, to),
            Inst::QuantiseNegated { x } => self.quantise(at(x.0), true, false, 0, to),
            Inst::AddConstant { x, value } => {
                let x = at(x.0);
                self.all.nodes.offset(x.id, i64::from(to.fraction) - x.fraction(), value)
            }
            Inst::Constant { value } => Some(self.all.nodes.constant(value)),
            Inst::Mux { condition, when_set, when_clear, shift } => {
                let (set, clear) = (at(when_set.0), at(when_clear.0));
                self.mux(at(condition.0), set, clear, false, shift.into(), to)
            }
            Inst::MuxNegated { condition, when_set, when_clear, shift } => {
                let (set, clear) = (at(when_set.0), at(when_clear.0));
                self.mux(at(condition.0), set, clear, true, shift.into(), to)
            }
            Inst::Multiply { a, b } => {
                let (a, b) = (at(a.0), at(b.0));
                let product = self.all.nodes.product(a.id, b.id)?;
                let shift = i64::from(to.fraction) - a.fraction() - b.fraction();
                self.all.nodes.field(product, false, false, shift, None)
            }
            Inst::Negate { x } => {
                let x = at(x.0);
                let shift = i64::from(to.fraction) - x.fraction();
                self.all.nodes.field(x.id, true, false, shift, None)
            }
            Inst::QuantiseShifted { x, shift } => self.quantise(at(x.0), false, false, shift, to),
            Inst::AddScaled { x, value, scale } => {
                let id = self.all.nodes.constant(value);
                let constant = Item { id, kif: Kif { fraction: scale, ..to } };
                self.sum(at(x.0), constant, 0, false, to)
            }
            Inst::Sum { .. } => self.sum_of_all(operation.inst, to),
            Inst::Lookup { x, table, pad } => self.lookup(at(x.0), table, pad),
            Inst::Bits { x, op } => self.unary(at(x.0), false, op, to),
            Inst::BitsNegated { x, op } => self.unary(at(x.0), true, op, to),
            Inst::Bitwise { a, b, shift, negate_a, negate_b, op } => {
                let (a, b) = (at(a.0), at(b.0));
                let apart = b.fraction() - i64::from(shift) - a.fraction();
                let nodes = &mut self.all.nodes;
                let a = nodes.field(a.id, negate_a, false, apart.max(0), None)?;
                let b = nodes.field(b.id, negate_b, false, (-apart).max(0), None)?;
                Some(nodes.bitwise(a, b, op))
            }
        }
    }

    fn input(&mut self, source: u32, to: Kif) -> Option<Id> {
        let shift = i64::from(self.program.input_shifts[source as usize]) + i64::from(to.fraction);
        match self.ports {
            None => self.all.nodes.input(source, shift, to),
            Some(ports) => {
                let Link { id, exponent, negate } = ports[source as usize];
                self.all.nodes.field(id, negate, false, shift + exponent, Some(to))
            }
        }
    }

    fn sum(&mut self, a: Item, b: Item, shift: i64, subtract: bool, to: Kif) -> Option<Id> {
        let apart = b.fraction() - shift - a.fraction();
        let finest = a.fraction() + apart.max(0);
        let then = i64::from(to.fraction) - finest;
        self.all.nodes.sum(a.id, apart.max(0), b.id, (-apart).max(0), subtract, then)
    }

    /// One addition after the other, at the finest step; the first operand is added if any is.
    fn sum_of_all(&mut self, inst: Inst, to: Kif) -> Option<Id> {
        let mut terms: Vec<(Item, i64, bool)> =
            inst.terms().map(|(slot, shift, minus)| (self.at(slot), shift, minus)).collect();
        terms.sort_by_key(|&(.., minus)| minus);
        let fraction = |&(x, shift, _): &(Item, i64, bool)| x.fraction() - shift;
        let finest = terms.iter().map(fraction).max()?;
        let left = |term: &(Item, i64, bool)| finest - fraction(term);
        let (first, rest) = terms.split_first()?;
        let (last, between) = rest.split_last()?;
        let nodes = &mut self.all.nodes;
        let (mut sum, mut place) = match first {
            (x, _, true) => (nodes.field(x.id, true, false, left(first), None)?, 0),
            (x, _, false) => (x.id, left(first)),
        };
        for term in between {
            sum = nodes.sum(sum, place, term.0.id, left(term), term.2, 0)?;
            place = 0;
        }
        let then = i64::from(to.fraction) - finest;
        nodes.sum(sum, place, last.0.id, left(last), last.2, then)
    }

    fn quantise(&mut self, x: Item, negate: bool, clip: bool, shift: i64, to: Kif) -> Option<Id> {
        let shift = i64::from(to.fraction) - x.fraction() + shift;
        self.all.nodes.field(x.id, negate, clip, shift, Some(to))
    }

    fn mux(
        &mut self,
        condition: Item,
        set: Item,
        clear: Item,
        negate: bool,
        shift: i64,
        to: Kif,
    ) -> Option<Id> {
        let set = self.quantise(set, false, false, 0, to)?;
        let clear = self.quantise(clear, negate, false, shift, to)?;
        // A type without bits has a clear one.
        let Some(bit) = condition.kif.width().checked_sub(1) else { return Some(clear) };
        Some(self.all.nodes.select(condition.id, bit, set, clear))
    }

    fn lookup(&mut self, x: Item, table: TableIndex, pad: i32) -> Option<Id> {
        let offset = crate::program::lookup_offset(x.kif, pad);
        let offset = i64::try_from(&offset).ok()?;
        let values = &self.program.tables[table.0 as usize].values;
        let number = self.first_table + table.0;
        let (id, checked) = self.all.nodes.lookup(x.id, offset, number, values)?;
        if checked {
            self.all.checks.push(id);
        }
        Some(id)
    }

    fn unary(&mut self, x: Item, negate: bool, op: UnaryBits, to: Kif) -> Option<Id> {
        let nodes = &mut self.all.nodes;
        let id = nodes.field(x.id, negate, false, 0, None)?;
        let ones = Wrap { signed: false, width: x.kif.width() };
        match op {
            UnaryBits::Not => nodes.not(id, (!to.signed).then_some(ones)),
            UnaryBits::Any => Some(nodes.any(id)),
            UnaryBits::All => nodes.all(id, ones.width),
        }
    }
}
