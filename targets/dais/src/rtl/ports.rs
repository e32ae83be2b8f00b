//! Which bits of the two ports belong to which number.
//!
//! Numbers lie side by side, the first one lowest, each exactly as wide as its type: the packing of
//! da4ml. An input has the bits that its operations read, none if there are none. An output that is
//! always 0 is as wide as the last operation of the program, as it is there.

use super::netlist::Wires;
use super::number::Number;
use crate::program::Program;
use quincunx_num::{Dyadic, Int, Kif, shift_floor};

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

    /// The bits of a number, rounded down and wrapped.
    fn bits(&self, number: &Dyadic) -> Int {
        let exponent = i64::from(number.exponent()) + i64::from(self.kif.fraction);
        let value = shift_floor(number.mantissa(), exponent);
        super::wires::low_bits(&value, self.width())
    }

    /// The same at their place in the port.
    pub fn put(&self, number: &Dyadic) -> Int {
        self.bits(number) << self.low as usize
    }

    /// The number that a port holds here.
    pub fn get(&self, port: &Int) -> Dyadic {
        self.of_bits(&(port >> self.low as usize))
    }

    /// The number that these bits are; those above the field do not count.
    pub(super) fn of_bits(&self, bits: &Int) -> Dyadic {
        let bits = super::wires::low_bits(bits, self.width());
        Dyadic::new(self.kif.wrap(&bits), self.kif.fraction.saturating_neg())
    }
}

/// The port that holds one number per field, each rounded down and wrapped.
pub(super) fn put(fields: &[Field], numbers: &[Dyadic]) -> Int {
    let parts = fields.iter().zip(numbers).map(|(field, x)| (field.bits(x), field.width()));
    super::wires::join(&parts.collect::<Vec<_>>())
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
pub(crate) fn input_fields(program: &Program) -> Vec<Field> {
    fields(program.input_types())
}

/// The fields of the outputs: the smallest types of what they are declared to be.
pub(super) fn output_fields(program: &Program) -> Vec<Field> {
    fields(program.output_types())
}
