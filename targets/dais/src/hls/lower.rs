//! From instructions to statements: every instruction once.
//!
//! The results are those of `simulate/exec.rs` as long as every value fits its type; what does not
//! fit wraps. The default modes of the libraries, `TRN` and `WRAP`, are what quantising means here:
//! bits below the step and above the top are dropped. Operators of the libraries lose no bits.

#![deny(clippy::wildcard_enum_match_arm)]

use super::Flavour;
use super::fixed::{Fixed, Value};
use crate::isa::{BinaryBits, Inst, TABLE, UnaryBits};
use crate::program::{Output, Pipeline, Program, Slot, TableIndex};
use crate::rtl::entries_by_bits;
use crate::text::print_type;
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::{Dyadic, Kif};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Widest number in a generated function, intermediate results included: what the libraries have
/// without being told otherwise.
pub const MAX_WIDTH: u32 = 1024;

/// What a program or pipeline became.
#[derive(Debug, Default)]
pub(super) struct Lowered {
    /// The statements.
    pub(super) body: String,
    /// The tables, whose entries are whole numbers.
    pub(super) tables: Vec<Rom>,
    /// Types and start values of the registers.
    pub(super) registers: Vec<(Fixed, Value)>,
}

/// A table: entries by the low bits of the operand, and a type that holds them.
#[derive(Debug)]
pub(super) struct Rom {
    pub(super) entries: Vec<i32>,
    pub(super) fixed: Fixed,
}

/// The statements of a legal pipeline, which reads the array `in` and writes the array `out`.
///
/// # Errors
/// `Q1191` for a number of more than [`MAX_WIDTH`] bits.
pub(super) fn lower(pipeline: &Pipeline, flavour: Flavour, input: Fixed) -> Result<Lowered> {
    let mut lowered = Lowered::default();
    let mut inputs: Vec<Value> = Vec::new();
    if let Some(first) = pipeline.stages.first() {
        let own = first.ends().0;
        lowered.registers = registers(first, flavour);
        let fixed = flavour.kept(input);
        inputs = (0..own).map(|index| Value { text: format!("in[{index}]"), fixed }).collect();
        inputs.extend(lowered.registers.iter().enumerate().map(|(index, (fixed, _))| Value {
            text: format!("state.r{index}"),
            fixed: flavour.kept(*fixed),
        }));
    }
    for (number, program) in pipeline.stages.iter().enumerate() {
        let prefix = match pipeline.stages.len() {
            1 => "v".to_owned(),
            _ => {
                let _ = writeln!(lowered.body, "  // Stage {number}.");
                format!("s{number}_")
            }
        };
        let is_last = number + 1 == pipeline.stages.len();
        let mut lowering = Lowering {
            flavour,
            program,
            prefix,
            inputs,
            slots: Vec::with_capacity(program.operations.len()),
            roms: BTreeMap::new(),
            lowered: &mut lowered,
            widest: (0, 0),
        };
        lowering.operations();
        inputs = if is_last { lowering.outputs() } else { lowering.links(number) };
        lowering.check_width()?;
    }
    Ok(lowered)
}

/// The registers of a program: types of what operations read of them, and start values.
fn registers(program: &Program, flavour: Flavour) -> Vec<(Fixed, Value)> {
    let types = program.input_types().split_off(program.ends().0);
    let start = types.into_iter().zip(&program.state).map(|(kif, &value)| {
        let start = Dyadic::from_f64(value).unwrap_or(Dyadic::ZERO);
        // The mantissa of a float has 53 bits.
        let code = i64::try_from(start.mantissa()).unwrap_or_default();
        (Fixed::of(kif), flavour.constant(code, -i64::from(start.exponent())))
    });
    start.collect()
}

struct Lowering<'a> {
    flavour: Flavour,
    program: &'a Program,
    /// What names of slots begin with.
    prefix: String,
    inputs: Vec<Value>,
    slots: Vec<Value>,
    /// The tables of this stage that are written already.
    roms: BTreeMap<(TableIndex, Kif, i32), (u32, usize)>,
    lowered: &'a mut Lowered,
    /// Bits of the widest number, and the operation that has it.
    widest: (u32, usize),
}

impl Lowering<'_> {
    fn operations(&mut self) {
        for (slot, operation) in self.program.operations.iter().enumerate() {
            let (inst, kif) = (operation.inst, operation.slot_type.kif());
            if kif.width() == 0 {
                let zero = self.flavour.zero();
                self.slots.push(zero);
                continue;
            }
            let result = self.result(inst, kif);
            self.note(slot, result.fixed.width);
            let fixed = Fixed::of(kif);
            let text = match inst.facts().quantises {
                true => self.flavour.converted(fixed, &result.text),
                false => result.text,
            };
            let name = format!("{}{slot}", self.prefix);
            let mut comment = format!("%{slot} = ");
            TABLE.print_to(&inst.to_raw(), &mut comment);
            comment.push_str(" : ");
            print_type(operation.slot_type, &mut comment);
            let declared = self.flavour.type_name(fixed);
            let _ =
                writeln!(self.lowered.body, "  const {declared} {name} = {text};  // {comment}");
            self.slots.push(Value { text: name, fixed: self.flavour.kept(fixed) });
        }
    }

    fn note(&mut self, slot: usize, width: u32) {
        self.widest = self.widest.max((width, slot));
    }

    fn check_width(&self) -> Result<()> {
        let (width, slot) = self.widest;
        if width <= MAX_WIDTH {
            return Ok(());
        }
        let message = format!("a number would have {width} bits, expected at most {MAX_WIDTH}");
        let problem = Diagnostic::unsupported("Q1191", message);
        Err(problem
            .at(quincunx_diag::Place::Instruction(slot))
            .help("quantise before; types far apart need all bits between them"))
    }

    fn at(&self, slot: Slot) -> Value {
        self.slots[slot.0 as usize].clone()
    }

    fn kif(&self, slot: Slot) -> Kif {
        self.program.operations[slot.0 as usize].slot_type.kif()
    }

    /// `slot * 2^shift`.
    fn shifted(&self, slot: Slot, shift: i64) -> Value {
        match self.kif(slot).width() {
            0 => self.at(slot),
            _ => self.at(slot).shifted(shift),
        }
    }

    /// The result of an instruction whose slot has type `kif`, before its bits are brought to it.
    fn result(&mut self, inst: Inst, kif: Kif) -> Value {
        let flavour = self.flavour;
        match inst {
            Inst::Input { source } => {
                let index = source.0 as usize;
                self.inputs[index].shifted(self.program.input_shifts[index].into())
            }
            Inst::Add { .. } | Inst::Sub { .. } | Inst::Sum { .. } => self.sum(inst),
            Inst::Relu { x } => self.relu(x, false, kif),
            Inst::ReluNegated { x } => self.relu(x, true, kif),
            Inst::Quantise { x } => self.at(x),
            Inst::QuantiseNegated { x } | Inst::Negate { x } => self.at(x).negated(),
            Inst::AddConstant { x, value } => {
                plus(&self.at(x), &flavour.constant(value, kif.fraction.into()))
            }
            Inst::Constant { value } => flavour.constant(value, kif.fraction.into()),
            Inst::Mux { condition, when_set, when_clear, shift } => {
                let clear = self.shifted(when_clear, shift.into());
                self.mux(condition, when_set, &clear, kif)
            }
            Inst::MuxNegated { condition, when_set, when_clear, shift } => {
                let clear = self.shifted(when_clear, shift.into()).negated();
                self.mux(condition, when_set, &clear, kif)
            }
            Inst::Multiply { a, b } => product(&self.at(a), &self.at(b)),
            Inst::Lookup { x, table, pad } => self.lookup(x, table, pad, kif),
            Inst::Bits { x, op } => self.unary_bits(x, false, op, kif),
            Inst::BitsNegated { x, op } => self.unary_bits(x, true, op, kif),
            Inst::QuantiseShifted { x, shift } => self.shifted(x, shift),
            Inst::AddScaled { x, value, scale } => {
                plus(&self.at(x), &flavour.constant(value, scale.into()))
            }
            Inst::Bitwise { a, b, shift, negate_a, negate_b, op } => {
                self.binary_bits((a, 0, negate_a), (b, shift.into(), negate_b), op, kif)
            }
        }
    }

    fn sum(&self, inst: Inst) -> Value {
        let terms = inst.terms().map(|(slot, shift, minus)| (self.shifted(slot, shift), minus));
        let joined = terms.reduce(|(total, first), (x, minus)| {
            let total = if first { total.negated() } else { total };
            let sign = if minus { '-' } else { '+' };
            let text = format!("{} {sign} {}", total.text, x.text);
            let fixed = total.fixed.sum(x.fixed.with_sign());
            (Value { text, fixed }, false)
        });
        joined.map_or_else(|| self.flavour.zero(), |(total, _)| total)
    }

    /// Numbers with one sign become 0, the others are quantised.
    fn relu(&self, x: Slot, negate: bool, kif: Kif) -> Value {
        let (own, flavour) = (self.kif(x), self.flavour);
        let x = self.at(x);
        match (negate, own.signed && own.width() > 0) {
            (false, false) => x,
            // What is not negative is 0 or becomes negative.
            (true, false) => flavour.zero(),
            (false, true) => self.choice(&x.top(), &flavour.zero(), &x, kif),
            (true, true) => self.choice(&x.top(), &x.negated(), &flavour.zero(), kif),
        }
    }

    fn mux(&self, condition: Slot, when_set: Slot, clear: &Value, kif: Kif) -> Value {
        match self.kif(condition).width() {
            0 => clear.clone(),
            _ => self.choice(&self.at(condition).top(), &self.at(when_set), clear, kif),
        }
    }

    /// Both values as numbers of the type. What quantises afterwards finds nothing to do.
    fn choice(&self, condition: &str, set: &Value, clear: &Value, kif: Kif) -> Value {
        let fixed = Fixed::of(kif);
        let [set_text, clear_text] = [set, clear].map(|x| self.flavour.cast(fixed, &x.text));
        let width = set.fixed.width.max(clear.fixed.width);
        let text = format!("{condition} ? {set_text} : {clear_text}");
        Value { text, fixed: Fixed { width, ..fixed } }
    }

    /// The entries are whole numbers, which the step of the result scales.
    fn lookup(&mut self, x: Slot, table: TableIndex, pad: i32, kif: Kif) -> Value {
        let (operand, argument) = (self.kif(x), self.at(x).text);
        let key = (table, operand, pad);
        let tables = &mut self.lowered.tables;
        let (width, number) = *self.roms.entry(key).or_insert_with(|| {
            let table = &self.program.tables[table.0 as usize];
            let (width, entries) = entries_by_bits(table, operand, pad);
            tables.push(rom(entries));
            (width, tables.len() - 1)
        });
        let rom = &tables[number];
        let index = match width {
            0 => "0".to_owned(),
            _ => format!("low_bits<{width}>({argument})"),
        };
        let text = format!("table{number}[{index}]");
        Value { text, fixed: rom.fixed }.shifted((-kif.fraction).into())
    }

    fn unary_bits(&self, x: Slot, negate: bool, op: UnaryBits, kif: Kif) -> Value {
        let (own, flavour, x) = (self.kif(x), self.flavour, self.at(x));
        let value = if negate { x.negated() } else { x.clone() };
        // The bits of the operand's type, and a type in which inverting keeps the sign.
        let bits = Fixed::of(own).without_sign();
        let apart = i64::from(own.fraction) - i64::from(kif.fraction);
        let inverted = |fixed: Fixed| {
            let inside = flavour.cast(fixed, &value.text);
            Value { text: flavour.cast(fixed, &format!("~{inside}")), fixed }
        };
        let truth = |condition: String| {
            let fixed = Fixed { signed: false, width: 1, integer: 1 };
            let text = format!("{}({condition})", flavour.type_name(fixed));
            Value { text, fixed }.shifted((-kif.fraction).into())
        };
        match (op, own.width()) {
            (UnaryBits::Not, _) if kif.signed => inverted(value.fixed.with_sign()).shifted(apart),
            (UnaryBits::Not | UnaryBits::Any, 0) => flavour.zero(),
            (UnaryBits::Not, _) => inverted(bits).shifted(apart),
            (UnaryBits::Any, _) => truth(format!("{} != 0", x.text)),
            (UnaryBits::All, 0) => flavour.constant(1, kif.fraction.into()),
            (UnaryBits::All, _) => truth(format!("{} == 0", inverted(bits).text)),
        }
    }

    /// The operands, each shifted and perhaps negated, in a type that holds both.
    fn binary_bits(
        &self,
        a: (Slot, i64, bool),
        b: (Slot, i64, bool),
        op: BinaryBits,
        kif: Kif,
    ) -> Value {
        let operands = [a, b].map(|(slot, shift, negate)| {
            let x = self.shifted(slot, shift);
            let x = if negate { x.negated() } else { x };
            (x, i64::from(self.kif(slot).fraction) - shift)
        });
        let fraction = operands[0].1.max(operands[1].1);
        let integer = operands.iter().map(|(x, _)| x.fixed.with_sign().integer).max().unwrap_or(1);
        let fixed = Fixed::between(true, integer.max(2 - fraction), fraction);
        let [x, y] = operands.map(|(x, _)| self.flavour.cast(fixed, &x.text));
        let sign = match op {
            BinaryBits::And => '&',
            BinaryBits::Or => '|',
            BinaryBits::Xor => '^',
        };
        let text = self.flavour.cast(fixed, &format!("{x} {sign} {y}"));
        // The bits count, whatever the step of the result is.
        Value { text, fixed }.shifted(fraction - i64::from(kif.fraction))
    }

    /// What an output is.
    fn output(&mut self, output: &Output) -> Value {
        let Some(source) = output.source else { return self.flavour.zero() };
        let x = self.shifted(source, output.shift.into());
        let x = if output.negate { x.negated() } else { x };
        self.note(source.0 as usize, x.fixed.width);
        x
    }

    /// The outputs of the last stage, then what registers hold next.
    fn outputs(&mut self) -> Vec<Value> {
        let own = self.program.ends().1;
        for (index, output) in self.program.outputs.iter().enumerate() {
            let value = self.output(output);
            let (target, text) = match index.checked_sub(own) {
                None => (format!("out[{index}]"), value.text),
                Some(register) => {
                    let fixed = self.lowered.registers[register].0;
                    (format!("state.r{register}"), self.flavour.converted(fixed, &value.text))
                }
            };
            let _ = writeln!(self.lowered.body, "  {target} = {text};");
        }
        Vec::new()
    }

    /// The outputs of a stage as inputs of the next one, each in its type.
    fn links(&mut self, stage: usize) -> Vec<Value> {
        let types = self.program.output_types();
        let mut links = Vec::with_capacity(types.len());
        for (index, (output, kif)) in self.program.outputs.iter().zip(types).enumerate() {
            let value = self.output(output);
            if kif.width() == 0 {
                links.push(self.flavour.zero());
                continue;
            }
            let (name, fixed) = (format!("p{stage}_{index}"), Fixed::of(kif));
            let declared = self.flavour.type_name(fixed);
            let _ = writeln!(self.lowered.body, "  const {declared} {name} = {};", value.text);
            links.push(Value { text: name, fixed: self.flavour.kept(fixed) });
        }
        links
    }
}

fn plus(x: &Value, y: &Value) -> Value {
    let text = format!("{} + {}", x.text, y.text);
    Value { text, fixed: x.fixed.sum(y.fixed) }
}

fn product(x: &Value, y: &Value) -> Value {
    let (a, b) = (x.fixed.with_sign(), y.fixed.with_sign());
    let fixed = Fixed::between(true, a.integer + b.integer, a.fraction() + b.fraction());
    Value { text: format!("{} * {}", x.text, y.text), fixed }
}

/// A table in a type that holds its entries.
fn rom(entries: Vec<i32>) -> Rom {
    let signed = entries.iter().any(|&entry| entry < 0);
    let bits = |entry: &i32| i32::BITS - (if *entry < 0 { !entry } else { *entry }).leading_zeros();
    let width = entries.iter().map(bits).max().unwrap_or(0) + u32::from(signed);
    let width = width.max(1);
    Rom { entries, fixed: Fixed { signed, width, integer: width.into() } }
}
