//! From a program to a netlist: every instruction once.
//!
//! The results are those of `simulate/exec.rs` as long as every value fits its type; what does not
//! fit wraps. A lookup outside its table, which is an error there, gives some entry or 0.

#![deny(clippy::wildcard_enum_match_arm)]

use super::netlist::{Builder, Cell, Name, NetId, Netlist, Rom, Wires};
use super::number::{Number, Wanted, exact_sum, negated, negation, product, sum};
use super::ports::{Field, input_fields, output_fields};
use super::rom::entries_by_bits;
use crate::isa::{BinaryBits, Inst, UnaryBits};
use crate::program::{Output, Program, Slot, TableIndex};
use quincunx_num::{Int, Kif};

/// The module of a program, which must be legal.
pub(super) fn lower(program: &Program) -> Netlist {
    let fields = input_fields(program);
    let width = fields.last().map_or(0, Field::end);
    let mut lowering = Lowering {
        program,
        fields: &fields,
        port: Wires::of_net(NetId::PORT, width),
        builder: Builder::new(width),
        slots: Vec::with_capacity(program.operations.len()),
    };
    for (slot, operation) in program.operations.iter().enumerate() {
        lowering.operation(slot as u32, operation.inst, operation.slot_type.kif());
    }
    let outputs = output_fields(program);
    let ports = program.outputs.iter().zip(&outputs).enumerate();
    let wires = ports.map(|(index, (output, field))| lowering.output(index as u32, output, field));
    let wires = wires.collect();
    lowering.builder.finish(wires)
}

struct Lowering<'a> {
    program: &'a Program,
    fields: &'a [Field],
    port: Wires,
    builder: Builder,
    slots: Vec<Number>,
}

impl Lowering<'_> {
    fn operation(&mut self, slot: u32, inst: Inst, kif: Kif) {
        self.builder.begin(Name::Slot(slot));
        let wires = self.result(inst, kif);
        debug_assert_eq!(wires.width(), kif.width(), "slot {slot}");
        let wires = self.builder.named(slot, wires);
        let fraction = kif.fraction.into();
        self.slots.push(Number { wires, signed: kif.signed, fraction });
    }

    fn at(&self, slot: Slot) -> Number {
        self.slots[slot.0 as usize].clone()
    }

    /// The bits of the result of an instruction whose slot has type `kif`.
    fn result(&mut self, inst: Inst, kif: Kif) -> Wires {
        let to = Wanted::from(kif);
        match inst {
            Inst::Input { source } => self.input(source.0 as usize, to),
            Inst::Add { a, b, shift } => self.sum(a, b, shift, false, to),
            Inst::Sub { a, b, shift } => self.sum(a, b, shift, true, to),
            Inst::Relu { x } => self.relu(x, false, to),
            Inst::ReluNegated { x } => self.relu(x, true, to),
            Inst::Quantise { x } => self.at(x).quantised(to),
            Inst::QuantiseNegated { x } => {
                let x = self.at(x);
                negation(&mut self.builder, &x, to)
            }
            Inst::AddConstant { x, value } => {
                // Bits below the result's step are dropped before the sum; they do not carry.
                let constant = Number::constant(&Int::from(value), to.fraction);
                let x = self.at(x).rescaled(to.fraction);
                sum(&mut self.builder, &x, &constant, false, to)
            }
            Inst::Constant { value } => Wires::constant(&Int::from(value), to.width),
            Inst::Mux { condition, when_set, when_clear, shift } => {
                let clear = self.shifted(when_clear, shift.into()).quantised(to);
                self.mux(condition, when_set, clear, to)
            }
            Inst::MuxNegated { condition, when_set, when_clear, shift } => {
                let clear = self.shifted(when_clear, shift.into());
                let clear = negation(&mut self.builder, &clear, to);
                self.mux(condition, when_set, clear, to)
            }
            Inst::Multiply { a, b } => {
                let (a, b) = (self.at(a), self.at(b));
                product(&mut self.builder, &a, &b, to)
            }
            Inst::Lookup { x, table, pad } => self.lookup(x, table, pad, kif),
            Inst::Bits { x, op } => {
                let (x, width) = (self.at(x), self.at(x).width());
                self.unary_bits(x, width, op, kif)
            }
            Inst::BitsNegated { x, op } => {
                let (x, width) = (self.at(x), self.at(x).width());
                let x = negated(&mut self.builder, &x);
                self.unary_bits(x, width, op, kif)
            }
            Inst::Negate { x } => {
                let x = self.at(x);
                negation(&mut self.builder, &x, to)
            }
            Inst::QuantiseShifted { x, shift } => self.shifted(x, shift).quantised(to),
            Inst::AddScaled { x, value, scale } => {
                let constant = Number::constant(&Int::from(value), scale.into());
                let x = self.at(x);
                sum(&mut self.builder, &x, &constant, false, to)
            }
            Inst::Sum { .. } => self.sum_of_terms(inst, to),
            Inst::Bitwise { a, b, shift, negate_a, negate_b, op } => {
                let operands = [(self.at(a), negate_a), (self.shifted(b, shift.into()), negate_b)];
                self.binary_bits(operands, op, to.width)
            }
        }
    }

    /// `slot * 2^shift`.
    fn shifted(&self, slot: Slot, shift: i64) -> Number {
        let number = self.at(slot);
        Number { fraction: number.fraction - shift, ..number }
    }

    /// The bits of the input's field that the type has.
    fn input(&self, source: usize, to: Wanted) -> Wires {
        let field = &self.fields[source];
        let shift = i64::from(self.program.input_shifts[source]);
        field.number(&self.port).quantised(Wanted { fraction: to.fraction + shift, ..to })
    }

    fn sum(&mut self, a: Slot, b: Slot, shift: i64, subtract: bool, to: Wanted) -> Wires {
        let (a, b) = (self.at(a), self.shifted(b, shift));
        sum(&mut self.builder, &a, &b, subtract, to)
    }

    /// All terms, the subtracted ones last, so that no negation is needed if one is added.
    fn sum_of_terms(&mut self, inst: Inst, to: Wanted) -> Wires {
        let [plus, minus] =
            [false, true].map(|which| inst.terms().filter(move |(_, _, minus)| *minus == which));
        let mut total: Option<Number> = None;
        let mut terms = plus.chain(minus).peekable();
        while let Some((slot, shift, minus)) = terms.next() {
            let x = self.shifted(slot, shift);
            let before = match total.take() {
                None if !minus => {
                    total = Some(x);
                    continue;
                }
                None => Number { wires: Wires::none(), signed: false, fraction: x.fraction },
                Some(before) => before,
            };
            if terms.peek().is_none() {
                return sum(&mut self.builder, &before, &x, minus, to);
            }
            total = Some(exact_sum(&mut self.builder, &before, &x, minus));
        }
        total.map_or_else(|| Wires::zeros(to.width), |total| total.quantised(to))
    }

    /// Numbers with one sign become 0, the others are quantised.
    fn relu(&mut self, x: Slot, negate: bool, to: Wanted) -> Wires {
        let x = self.at(x);
        let zero = Wires::zeros(to.width);
        match (negate, x.signed && x.width() > 0) {
            (false, false) => x.quantised(to),
            (false, true) => {
                let kept = x.quantised(to);
                self.builder.select(x.wires.top(), zero, kept)
            }
            // What is not negative is 0 or becomes negative.
            (true, false) => zero,
            (true, true) => {
                let kept = negation(&mut self.builder, &x, to);
                self.builder.select(x.wires.top(), kept, zero)
            }
        }
    }

    fn mux(&mut self, condition: Slot, when_set: Slot, clear: Wires, to: Wanted) -> Wires {
        let set = self.at(when_set).quantised(to);
        match self.at(condition).wires.top() {
            none if none.width() == 0 => clear,
            top => self.builder.select(top, set, clear),
        }
    }

    /// The low bits of the operand choose from the table, whose entries are put in their order.
    fn lookup(&mut self, x: Slot, table: TableIndex, pad: i32, kif: Kif) -> Wires {
        let operand = self.program.operations[x.0 as usize].slot_type.kif();
        let table = &self.program.tables[table.0 as usize];
        let x = self.at(x);
        let (index_width, entries) = entries_by_bits(table, operand, pad);
        if kif.width() == 0 {
            return Wires::none();
        }
        if index_width == 0 {
            return Wires::constant(&Int::from(entries[0]), kif.width());
        }
        // Entries fit 32 bits; wider results extend them.
        let signed = entries.iter().any(|&entry| entry < 0);
        let rom = Rom { index_width, width: kif.width().min(32), entries };
        let index = x.wires.slice(0, index_width);
        self.builder.rom(rom, index).fitted(kif.width(), signed)
    }

    /// `width` is that of the operand before it was negated.
    fn unary_bits(&mut self, x: Number, width: u32, op: UnaryBits, to: Kif) -> Wires {
        let own = x.wires.fitted(width, x.signed);
        match op {
            UnaryBits::Not if to.signed => {
                let wide = x.wires.fitted(x.width().max(to.width()), x.signed);
                self.builder.not(wide).slice(0, to.width())
            }
            UnaryBits::Not => self.builder.not(own).fitted(to.width(), false),
            UnaryBits::Any => self.builder.any(x.wires).fitted(to.width(), false),
            UnaryBits::All => self.builder.all(own).fitted(to.width(), false),
        }
    }

    /// The operands, each perhaps negated, on their finest grid.
    fn binary_bits(&mut self, operands: [(Number, bool); 2], op: BinaryBits, width: u32) -> Wires {
        let fraction = operands[0].0.fraction.max(operands[1].0.fraction);
        let [a, b] = operands.map(|(x, negate)| {
            let x = x.rescaled(fraction);
            if negate { negated(&mut self.builder, &x) } else { x }
        });
        let signed = a.signed || b.signed;
        let whole = match signed {
            true => (a.width() + u32::from(!a.signed)).max(b.width() + u32::from(!b.signed)),
            false => a.width().max(b.width()),
        };
        let own = whole.min(width);
        let (x, y) = (a.wires.fitted(own, a.signed), b.wires.fitted(own, b.signed));
        let builder = &mut self.builder;
        let wires = match op {
            BinaryBits::And => builder.bitwise(x, y, Cell::And, |x, y| x & y),
            BinaryBits::Or => builder.bitwise(x, y, Cell::Or, |x, y| x | y),
            BinaryBits::Xor => builder.bitwise(x, y, Cell::Xor, |x, y| x ^ y),
        };
        wires.fitted(width, signed)
    }

    /// The bits of an output's field.
    fn output(&mut self, index: u32, output: &Output, field: &Field) -> Wires {
        self.builder.begin(Name::Output(index, 0));
        let to = Wanted::from(field.kif);
        let Some(source) = output.source else { return Wires::zeros(to.width) };
        let number = self.shifted(source, output.shift.into());
        match output.negate {
            true => self
                .opposite(source, output.shift.into(), to)
                .unwrap_or_else(|| negation(&mut self.builder, &number, to)),
            false => number.quantised(to),
        }
    }

    /// The opposite of a difference with all of its bits: its operands exchanged, which takes no more
    /// than a negation, and the difference nothing if only this needs it.
    fn opposite(&mut self, slot: Slot, shift: i64, to: Wanted) -> Option<Wires> {
        let operation = &self.program.operations[slot.0 as usize];
        let Inst::Sub { a, b, shift: apart } = operation.inst else { return None };
        let (a, b) = (self.shifted(a, shift), self.shifted(b, apart + shift));
        let exact = a.fraction.max(b.fraction) <= self.shifted(slot, shift).fraction;
        exact.then(|| sum(&mut self.builder, &b, &a, true, to))
    }
}
