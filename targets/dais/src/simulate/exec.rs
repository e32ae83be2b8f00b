//! The readable executor: one short function per instruction, on integers of any size.
//!
//! What instructions mean is from `da4ml` and `alkaid` (`docs/bibliography.md`), by exact integers.
//! `x` and `y` are integers with the types of their slots; the result is an integer of type `to`.
//! Operations that do not quantise keep what does not fit their type, as da4ml's integers do; see
//! [`Executor::run_strict`].

#![deny(clippy::wildcard_enum_match_arm)]

use super::state::State;
use crate::isa::{BinaryBits, Inst, UnaryBits};
use crate::program::{InputIndex, Operation, Output, Program, Slot, TableIndex, lookup_offset};
use crate::verify::{Rules, verify};
use quincunx_diag::{Diagnostic, Place, Result, first_error};
use quincunx_num::{Dyadic, Int, Kif, bit_length, power_of_two, shift_floor};

/// A value may grow to this many bits where nothing quantises it; far more than any legal program
/// needs, and little enough that chains of multiplications do not fill the memory.
const MAX_BITS: u32 = 1 << 13;

/// Runs one program.
#[derive(Clone, Debug)]
pub struct Executor {
    program: Program,
    types: Vec<Kif>,
    state: State,
    /// A mux that drops high bits is a fault of strict runs.
    mux_is_exact: bool,
    /// The first such fault of the last run.
    pub(super) mux_fault: Option<Diagnostic>,
}

/// The value of a slot with its type.
#[derive(Clone, Copy)]
struct Operand<'a> {
    value: &'a Int,
    kif: Kif,
}

/// A term of a sum: operand, shift to the left, subtracted.
type Term<'a> = (Operand<'a>, i64, bool);

impl Executor {
    /// Prepares a program.
    ///
    /// # Errors
    /// The first error that [`verify`] finds. Slots may be up to [`Rules::EXECUTABLE`] wide.
    pub fn new(program: &Program) -> Result<Executor> {
        first_error(verify(program, &Rules::EXECUTABLE))?;
        Ok(Executor::of_legal(program))
    }

    /// Prepares a program that was verified.
    pub(super) fn of_legal(program: &Program) -> Executor {
        let types = program.operations.iter().map(|operation| operation.slot_type.kif()).collect();
        let state = State::new(program);
        let program = program.clone();
        Executor { program, types, state, mux_is_exact: false, mux_fault: None }
    }

    /// Lets strict runs report a mux whose result does not fit its type: the layout
    /// [`D0`](crate::isa::Dialect::D0) (da4ml 0.4) has a mux that does not quantise, so that such
    /// results differ there.
    #[must_use]
    pub fn with_exact_mux(mut self, exact: bool) -> Executor {
        self.mux_is_exact = exact;
        self
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The buffer after the last run; integers in units of `2^-fraction` of the slot's type.
    pub fn slots(&self) -> &[Int] {
        &self.state.slots
    }

    /// One run: a number for every input, a number for every output. Registers keep what they hold
    /// for the next run.
    ///
    /// # Errors
    /// `Q1101` for the wrong number of inputs, `Q1102` for an input that is infinite or no number,
    /// `Q1103` for a lookup outside its table, `Q1104` for a value that grows without bound.
    pub fn run(&mut self, inputs: &[f64]) -> Result<Vec<f64>> {
        self.run_with(inputs, &mut |_, _, _| {})
    }

    /// One run that calls `observe` after every operation with its index and its result, which
    /// the observer may replace.
    ///
    /// # Errors
    /// As [`Executor::run`].
    pub fn run_with(
        &mut self,
        inputs: &[f64],
        observe: &mut impl FnMut(usize, &Operation, &mut Int),
    ) -> Result<Vec<f64>> {
        let outputs = self.run_exact(exact_inputs(inputs)?, observe)?;
        Ok(outputs.iter().map(Dyadic::to_f64).collect())
    }

    /// One run that also checks that no operation leaves its type.
    ///
    /// # Errors
    /// As [`Executor::run`], and `Q1105` for the first result that its type does not hold.
    pub fn run_strict(&mut self, inputs: &[f64]) -> Result<Vec<f64>> {
        let mut fault = None;
        self.mux_fault = None;
        let result = self.run_with(inputs, &mut |index, operation, value| {
            if fault.is_none() && overflows(operation, value) {
                fault = Some(overflow(index, operation, value));
            }
        });
        let mux = self.mux_fault.take();
        earlier(fault, mux).map_or(result, Err)
    }

    /// One run on exact numbers, for stages of a pipeline: floats between two stages would round.
    ///
    /// # Errors
    /// As [`Executor::run`].
    pub fn run_exact(
        &mut self,
        inputs: Vec<Dyadic>,
        observe: &mut impl FnMut(usize, &Operation, &mut Int),
    ) -> Result<Vec<Dyadic>> {
        let (expected, outputs) = self.program.ends();
        if inputs.len() != expected {
            let found = inputs.len();
            let message = format!("the program has {expected} inputs, found {found} numbers");
            return Err(Diagnostic::invalid("Q1101", message));
        }
        self.state.inputs = inputs;
        self.state.inputs.extend_from_slice(&self.state.registers);
        self.mux_fault = None;
        for (index, operation) in self.program.operations.iter().enumerate() {
            let place = |problem: Diagnostic| problem.at(Place::Instruction(index));
            let mut value = self.step(operation.inst, self.types[index]).map_err(place)?;
            if self.mux_is_exact && self.mux_fault.is_none() {
                self.mux_fault = self.mux_overflow(index, operation, &value);
            }
            observe(index, operation, &mut value);
            check_growth(&value).map_err(place)?;
            self.state.slots[index] = value;
        }
        let mut results: Vec<Dyadic> = self.outputs().collect();
        self.state.registers = results.split_off(outputs);
        Ok(results)
    }

    /// What the registers hold in the next run.
    pub(crate) fn registers_mut(&mut self) -> &mut Vec<Dyadic> {
        &mut self.state.registers
    }

    /// What a mux drops, if it does: in a type with room for everything the result is another.
    fn mux_overflow(&self, index: usize, operation: &Operation, value: &Int) -> Option<Diagnostic> {
        if !matches!(operation.inst, Inst::Mux { .. } | Inst::MuxNegated { .. }) {
            return None;
        }
        let to = self.types[index];
        let room = MAX_BITS.cast_signed();
        let wide = Kif::new(true, to.integer.saturating_add(room), to.fraction);
        let whole = self.step(operation.inst, wide).ok()?;
        (&whole != value).then(|| overflow(index, operation, &whole))
    }

    /// The result of one instruction whose slot has type `to`.
    fn step(&self, inst: Inst, to: Kif) -> Result<Int> {
        let at = |slot| self.operand(slot);
        Ok(match inst {
            Inst::Input { source } => {
                let index = source.0 as usize;
                quantised(&self.state.inputs[index], self.program.input_shifts[index], to)
            }
            Inst::Add { a, b, shift } => add(at(a), at(b), shift, to),
            Inst::Sub { a, b, shift } => sub(at(a), at(b), shift, to),
            Inst::Relu { x } => relu(at(x).value, at(x).kif, to),
            Inst::ReluNegated { x } => relu(&-at(x).value, at(x).kif, to),
            Inst::Quantise { x } => quantise(at(x).value, at(x).kif, to),
            Inst::QuantiseNegated { x } => quantise(&-at(x).value, at(x).kif, to),
            Inst::AddConstant { x, value } => add_constant(at(x), value, to),
            Inst::Constant { value } => Int::from(value),
            Inst::Mux { condition, when_set, when_clear, shift } => {
                mux(at(condition), at(when_set), at(when_clear), shift, false, to)
            }
            Inst::MuxNegated { condition, when_set, when_clear, shift } => {
                mux(at(condition), at(when_set), at(when_clear), shift, true, to)
            }
            Inst::Multiply { a, b } => multiply(at(a), at(b), to),
            Inst::Lookup { x, table, pad } => self.lookup(at(x), table, pad)?,
            Inst::Bits { x, op } => unary_bits(at(x).value, at(x).kif, op, to),
            Inst::BitsNegated { x, op } => unary_bits(&-at(x).value, at(x).kif, op, to),
            Inst::Bitwise { a, b, shift, negate_a, negate_b, op } => {
                bitwise(at(a), negate_a, at(b), negate_b, shift, op)
            }
            Inst::Negate { x } => rescale(&-at(x).value, at(x).kif, to),
            Inst::QuantiseShifted { x, shift } => quantise_shifted(at(x), shift, to),
            Inst::AddScaled { x, value, scale } => add_scaled(at(x), value, scale, to),
            Inst::Sum { .. } => {
                let terms: Vec<Term<'_>> =
                    inst.terms().map(|(x, s, minus)| (at(x), s, minus)).collect();
                sum(&terms, to)
            }
        })
    }

    fn operand(&self, slot: Slot) -> Operand<'_> {
        let index = slot.0 as usize;
        Operand { value: &self.state.slots[index], kif: self.types[index] }
    }

    /// Entry 0 of a table belongs to the operand `pad` steps above the lowest of its type.
    fn lookup(&self, x: Operand<'_>, table: TableIndex, pad: i32) -> Result<Int> {
        let values = &self.program.tables[table.0 as usize].values;
        let entry = x.value + lookup_offset(x.kif, pad);
        let found = usize::try_from(&entry).ok().and_then(|entry| values.get(entry));
        let value = found.ok_or_else(|| {
            let (number, length) = (table.0, values.len());
            let message = format!("lookup of entry {entry} in table {number} of {length} entries");
            Diagnostic::invalid("Q1103", message)
                .with_note(format!("the operand is {} in units of its step", x.value))
        })?;
        Ok(Int::from(*value))
    }

    /// An input of the last run, registers behind the others, before the program's shift.
    pub(crate) fn input(&self, index: InputIndex) -> Option<&Dyadic> {
        self.state.inputs.get(index.0 as usize)
    }

    /// The number in a slot after the last run.
    pub fn value(&self, slot: Slot) -> Dyadic {
        let Operand { value, kif } = self.operand(slot);
        Dyadic::new(value.clone(), kif.fraction.saturating_neg())
    }

    /// The outputs of the last run, before they are rounded to floats; then what the registers hold.
    pub fn outputs(&self) -> impl Iterator<Item = Dyadic> {
        self.program.outputs.iter().map(|output| self.output(output))
    }

    /// A result of the last run, as if the program had such an output; rounded to nearest.
    pub fn read(&self, output: &Output) -> f64 {
        self.output(output).to_f64()
    }

    /// `±slot * 2^shift`; zero is never negative, because exact numbers have no sign of zero.
    fn output(&self, output: &Output) -> Dyadic {
        let Some(source) = output.source else { return Dyadic::ZERO };
        let Operand { value, kif } = self.operand(source);
        let value = if output.negate { -value } else { value.clone() };
        Dyadic::new(value, output.shift.saturating_sub(kif.fraction))
    }
}

/// Opcode -1: the floor of the input in units of the step, wrapped.
pub(crate) fn quantised(number: &Dyadic, shift: i32, to: Kif) -> Int {
    let exponent = i64::from(number.exponent()) + i64::from(shift) + i64::from(to.fraction);
    wrap(to, shift_floor(number.mantissa(), exponent))
}

/// Opcode 0: `x + y * 2^shift`.
fn add(x: Operand<'_>, y: Operand<'_>, shift: i64, to: Kif) -> Int {
    let (x, y, fraction) = align(x, y, shift);
    shift_floor(&(x + y), i64::from(to.fraction) - fraction)
}

/// Opcode 1: `x - y * 2^shift`.
fn sub(x: Operand<'_>, y: Operand<'_>, shift: i64, to: Kif) -> Int {
    let (x, y, fraction) = align(x, y, shift);
    shift_floor(&(x - y), i64::from(to.fraction) - fraction)
}

/// `x` and `y * 2^shift` as integers with the same number of fraction bits, and that number.
fn align(x: Operand<'_>, y: Operand<'_>, shift: i64) -> (Int, Int, i64) {
    let (fx, fy) = (i64::from(x.kif.fraction), i64::from(y.kif.fraction) - shift);
    let fraction = fx.max(fy);
    (shift_floor(x.value, fraction - fx), shift_floor(y.value, fraction - fy), fraction)
}

/// Opcodes 2 and -2: negative values become 0, the others are quantised.
fn relu(x: &Int, from: Kif, to: Kif) -> Int {
    if x < &Int::ZERO { Int::ZERO } else { quantise(x, from, to) }
}

/// Opcodes 3 and -3: drops low bits, then high bits.
fn quantise(x: &Int, from: Kif, to: Kif) -> Int {
    wrap(to, rescale(x, from, to))
}

/// Opcode 4: the constant is in units of the step of the result.
fn add_constant(x: Operand<'_>, value: i64, to: Kif) -> Int {
    rescale(x.value, x.kif, to) + Int::from(value)
}

/// Opcodes 6 and -6: only the branch for a clear bit is shifted and negated.
fn mux(
    condition: Operand<'_>,
    when_set: Operand<'_>,
    when_clear: Operand<'_>,
    shift: i32,
    negate: bool,
    to: Kif,
) -> Int {
    if top_bit(condition) {
        return quantise(when_set.value, when_set.kif, to);
    }
    let value = if negate { -when_clear.value } else { when_clear.value.clone() };
    let bits = i64::from(to.fraction) - i64::from(when_clear.kif.fraction) + i64::from(shift);
    wrap(to, shift_floor(&value, bits))
}

/// The top bit of the type: the sign where there is one. A type without bits has a clear one.
fn top_bit(x: Operand<'_>) -> bool {
    let Some(top) = x.kif.width().checked_sub(1) else { return false };
    shift_floor(x.value, -i64::from(top)) & Int::ONE == Int::ONE
}

/// Opcode 7.
fn multiply(x: Operand<'_>, y: Operand<'_>, to: Kif) -> Int {
    let fraction = i64::from(x.kif.fraction) + i64::from(y.kif.fraction);
    shift_floor(&(x.value * y.value), i64::from(to.fraction) - fraction)
}

/// Opcodes 9 and -9.
fn unary_bits(x: &Int, from: Kif, op: UnaryBits, to: Kif) -> Int {
    let ones = power_of_two(from.width()) - Int::ONE;
    match op {
        UnaryBits::Not if to.signed => !x,
        UnaryBits::Not => !x & ones,
        UnaryBits::Any => truth(x != &Int::ZERO),
        UnaryBits::All => truth(x & &ones == ones),
    }
}

/// Opcode 10: the operands, each perhaps negated, are aligned without losing bits and combined in
/// two's complement of unlimited width.
fn bitwise(
    x: Operand<'_>,
    negate_x: bool,
    y: Operand<'_>,
    negate_y: bool,
    shift: i32,
    op: BinaryBits,
) -> Int {
    let (x, y, _) = align(x, y, i64::from(shift));
    let x = if negate_x { -x } else { x };
    let y = if negate_y { -y } else { y };
    match op {
        BinaryBits::And => x & y,
        BinaryBits::Or => x | y,
        BinaryBits::Xor => x ^ y,
    }
}

/// Opcode 3 of alkaid: quantises `x * 2^shift`.
fn quantise_shifted(x: Operand<'_>, shift: i64, to: Kif) -> Int {
    let bits = i64::from(to.fraction) - i64::from(x.kif.fraction) + shift;
    wrap(to, shift_floor(x.value, bits))
}

/// Opcode 4 of alkaid: the constant is `value * 2^-scale`.
fn add_scaled(x: Operand<'_>, value: i64, scale: i32, to: Kif) -> Int {
    let kif = Kif { fraction: scale, ..x.kif };
    let (x, constant, fraction) = align(x, Operand { value: &Int::from(value), kif }, 0);
    shift_floor(&(x + constant), i64::from(to.fraction) - fraction)
}

/// Opcode 11 of alkaid: the sum of all terms, each an operand with its shift to the left and
/// whether it is subtracted.
fn sum(terms: &[Term<'_>], to: Kif) -> Int {
    let fraction_of = |x: &Operand<'_>, shift: i64| i64::from(x.kif.fraction) - shift;
    let finest = terms.iter().map(|(x, shift, _)| fraction_of(x, *shift)).max().unwrap_or(0);
    let aligned = terms.iter().map(|(x, shift, minus)| {
        let value = shift_floor(x.value, finest - fraction_of(x, *shift));
        if *minus { -value } else { value }
    });
    let total: Int = aligned.sum();
    shift_floor(&total, i64::from(to.fraction) - finest)
}

fn truth(value: bool) -> Int {
    Int::from(u8::from(value))
}

/// `x` in units of the step of another type, rounded down.
fn rescale(x: &Int, from: Kif, to: Kif) -> Int {
    shift_floor(x, i64::from(to.fraction) - i64::from(from.fraction))
}

/// Keeps the bits of the type.
fn wrap(to: Kif, value: Int) -> Int {
    // Most values fit; this test costs a fraction of the general case.
    let magnitude = if value < Int::ZERO { !&value } else { value.clone() };
    let fits = bit_length(&magnitude) + u32::from(to.signed) <= to.width();
    if fits && (to.signed || value >= Int::ZERO) { value } else { to.wrap(&value) }
}

/// True when an operation that does not quantise has a result that its type does not hold.
pub fn overflows(operation: &Operation, value: &Int) -> bool {
    !operation.inst.facts().quantises && !operation.slot_type.kif().contains(value)
}

/// The fault that came first.
fn earlier(a: Option<Diagnostic>, b: Option<Diagnostic>) -> Option<Diagnostic> {
    a.into_iter().chain(b).min_by_key(instruction)
}

/// The operation that a fault is about.
pub(super) fn instruction(fault: &Diagnostic) -> usize {
    match fault.place() {
        Some(Place::Instruction(index)) => *index,
        _ => usize::MAX,
    }
}

pub(super) fn overflow(index: usize, operation: &Operation, value: &Int) -> Diagnostic {
    let kif = operation.slot_type.kif();
    let (low, high) = kif.range();
    let message = format!("the result {value} does not fit type {kif}, which holds {low}..={high}");
    Diagnostic::answer("Q1105", message).at(Place::Instruction(index))
}

fn check_growth(value: &Int) -> Result<()> {
    if i64::try_from(value).is_ok() {
        return Ok(());
    }
    let magnitude = if value < &Int::ZERO { !value } else { value.clone() };
    if bit_length(&magnitude) <= MAX_BITS {
        return Ok(());
    }
    let message = format!("a value grows beyond {MAX_BITS} bits");
    Err(Diagnostic::invalid("Q1104", message).help("quantise between the multiplications"))
}

pub(super) fn exact_inputs(inputs: &[f64]) -> Result<Vec<Dyadic>> {
    let exact = |(index, &number): (usize, &f64)| {
        Dyadic::from_f64(number).ok_or_else(|| {
            let message = format!("input {index} is {number}, expected a finite number");
            Diagnostic::invalid("Q1102", message)
        })
    };
    inputs.iter().enumerate().map(exact).collect()
}
