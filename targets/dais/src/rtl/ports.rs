//! Which bits of the two ports belong to which number.
//!
//! Numbers lie side by side, the first one lowest, each exactly as wide as its type: the packing of
//! da4ml. An input has the bits that its operations read, none if there are none. An output that is
//! always 0 is as wide as the last operation of the program, as it is there.

use super::netlist::Wires;
use super::number::Number;
use crate::isa::Inst;
use crate::program::{Output, Program, SlotType};
use quincunx_num::{Dyadic, Int, Interval, Kif, shift_floor};

/// The bits of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its lowest bit in the port.
    pub low: u32,
    /// Its type; its width is the number of bits.
    pub kif: Kif,
}

impl Field {
    /// The bit above its highest one.
    pub fn end(&self) -> u32 {
        self.low + self.width()
    }

    /// Number of bits.
    pub fn width(&self) -> u32 {
        self.kif.width()
    }

    /// The number that the bits of a port hold here.
    pub(super) fn number(&self, port: &Wires) -> Number {
        let wires = port.slice(self.low, self.width());
        Number { wires, signed: self.kif.signed, fraction: self.kif.fraction.into() }
    }

    /// The bits of a number, rounded down and wrapped, at their place in the port.
    pub fn put(&self, number: &Dyadic) -> Int {
        let exponent = i64::from(number.exponent()) + i64::from(self.kif.fraction);
        let value = shift_floor(number.mantissa(), exponent);
        super::wires::low_bits(&value, self.width()) << self.low as usize
    }

    /// The number that a port holds here.
    pub fn get(&self, port: &Int) -> Dyadic {
        let bits = super::wires::low_bits(&(port >> self.low as usize), self.width());
        Dyadic::new(self.kif.wrap(&bits), self.kif.fraction.saturating_neg())
    }
}

/// Puts the types side by side.
fn fields(kifs: Vec<Kif>) -> Vec<Field> {
    let place = |low: &mut u32, kif: Kif| {
        let field = Field { low: *low, kif };
        *low = field.end();
        Some(field)
    };
    kifs.into_iter().scan(0, place).collect()
}

/// The fields of the inputs: all bits that any operation takes of an input. Its numbers are those
/// before the shift that the program declares.
pub(super) fn input_fields(program: &Program) -> Vec<Field> {
    fields(input_types(program))
}

/// The types of the inputs.
pub(crate) fn input_types(program: &Program) -> Vec<Kif> {
    let mut kifs: Vec<Option<Kif>> = vec![None; program.input_shifts.len()];
    for operation in &program.operations {
        let Inst::Input { source } = operation.inst else { continue };
        let own = operation.slot_type.kif();
        if own.width() == 0 {
            continue;
        }
        let shift = program.input_shifts[source.0 as usize];
        let (integer, fraction) = (own.integer - shift, own.fraction + shift);
        let own = Kif { signed: own.signed, integer, fraction };
        let known = &mut kifs[source.0 as usize];
        *known = Some(known.map_or(own, |known| both(known, own)));
    }
    kifs.into_iter().map(|kif| kif.unwrap_or(Kif::ZERO)).collect()
}

/// The type whose bits are those of both types.
fn both(a: Kif, b: Kif) -> Kif {
    let top = |kif: Kif| kif.integer + i32::from(kif.signed);
    let high = if top(a) >= top(b) { a } else { b };
    Kif { fraction: a.fraction.max(b.fraction), ..high }
}

/// The fields of the outputs: the smallest types of what they are declared to be.
pub(super) fn output_fields(program: &Program) -> Vec<Field> {
    fields(output_types(program))
}

/// The types of the outputs.
pub(crate) fn output_types(program: &Program) -> Vec<Kif> {
    program.outputs.iter().map(|output| output_interval(program, output).kif()).collect()
}

fn output_interval(program: &Program, output: &Output) -> Interval {
    let source = match output.source {
        Some(slot) => program.operations.get(slot.0 as usize),
        None => program.operations.last(),
    };
    let Some(declared) = source.map(|operation| operation.slot_type) else {
        return Interval::zero();
    };
    let interval = match declared {
        kif if !output.negate => kif.interval(),
        SlotType::Kif(kif) => Some(kif.interval().negated()),
        // As numbers of a file, so that a bound which f64 rounds is read as every bound is.
        SlotType::Interval { min, max, step } => {
            SlotType::Interval { min: -max, max: -min, step }.interval()
        }
    };
    interval.unwrap_or_else(Interval::zero).shifted(output.shift)
}
