//! What vector instructions compute, for one lane.

#![deny(clippy::wildcard_enum_match_arm)]

use super::value::{Execution, Value};
use crate::isa::math;
use crate::isa::vector::{Op, Terms, Type};
use std::cmp::Ordering;

/// The operands of a lane.
pub(super) struct Lane {
    /// Sources, modifiers applied.
    pub(super) sources: [Value; 3],
    /// The accumulator: an integer of 64 bits, or the bits of an f32.
    pub(super) accumulator: i64,
    /// The bit of the flag of the predicate.
    pub(super) chosen: bool,
}

/// The results of a lane.
pub(super) struct Outcome {
    /// For dst.
    pub(super) value: Value,
    /// For the accumulator.
    pub(super) accumulator: Option<i64>,
}

impl From<Value> for Outcome {
    fn from(value: Value) -> Outcome {
        Outcome { value, accumulator: None }
    }
}

/// How an instruction computes, the same for all lanes.
pub(super) struct Computation<'a> {
    terms: &'a Terms,
    types: [Type; 3],
    float: bool,
    execution: Execution,
}

impl<'a> Computation<'a> {
    /// Of an instruction that has a dst.
    pub(super) fn new(terms: &'a Terms) -> Computation<'a> {
        let sources = || terms.sources.iter().flatten().map(|source| source.ty());
        let mut types = [Type::D; 3];
        types.iter_mut().zip(sources()).for_each(|(place, ty)| *place = ty);
        let dst = terms.dst.map(|dst| dst.ty);
        let all = terms.sources.iter().flatten().map(|source| source.ty()).chain(dst);
        Computation {
            terms,
            types,
            float: sources().any(Type::is_float),
            execution: Execution::of(all),
        }
    }

    /// The results of a lane.
    pub(super) fn lane(&self, lane: &Lane) -> Outcome {
        let [a, b, c] = lane.sources;
        match self.terms.op {
            Op::Mov => a.into(),
            Op::Not => Value::Int(!a.integer()).into(),
            Op::Rndu => self.rounded(a, f64::ceil).into(),
            Op::Rndd => self.rounded(a, f64::floor).into(),
            Op::Rnde => self.rounded(a, f64::round_ties_even).into(),
            Op::Rndz => self.rounded(a, f64::trunc).into(),
            // The fraction of a tiny negative number rounds to 1.
            Op::Frc => self.rounded(a, |value| value - value.floor()).into(),
            Op::Math => {
                let function = self.terms.function;
                let value =
                    function.map_or(f64::NAN, |f| math::value(f, a.float(false) as f32).into());
                Value::Float(self.execution.round(value)).into()
            }
            Op::Add => self.sum(a, b).into(),
            Op::Add3 => self.sum(self.sum(a, b), c).into(),
            Op::Mul => self.product(a, b),
            Op::Mac => self.fused(a, b, self.accumulated(lane.accumulator)).into(),
            Op::Mad => self.fused(b, c, a).into(),
            Op::Mach | Op::Macl => self.long_product(a, b, lane.accumulator),
            Op::And => Value::Int(a.integer() & b.integer()).into(),
            Op::Or => Value::Int(a.integer() | b.integer()).into(),
            Op::Xor => Value::Int(a.integer() ^ b.integer()).into(),
            Op::Shl => Value::Int(a.integer() << self.count(b)).into(),
            Op::Shr => Value::Int(i128::from(a.bits(self.types[0], false)) >> self.count(b)).into(),
            Op::Asr => Value::Int(a.integer() >> self.count(b)).into(),
            Op::Cmp => Value::Int(if self.compared(a, b) { -1 } else { 0 }).into(),
            Op::Sel => if self.selected(a, b, lane.chosen) { a } else { b }.into(),
            Op::Csel => if self.compared(c, Value::Int(0)) { a } else { b }.into(),
            Op::Dp4a => self.bytes(a, b, c).into(),
            Op::Bfn => self.function_of_bits(a, b, c).into(),
            Op::Jmpi
            | Op::If
            | Op::Else
            | Op::Endif
            | Op::While
            | Op::Goto
            | Op::Join
            | Op::SyncNop
            | Op::SyncAllRead
            | Op::SyncAllWrite
            | Op::SyncBarrier
            | Op::Nop
            | Op::Send => Value::Int(0).into(),
        }
    }

    /// The condition of an instruction on its result: a comparison with 0. A comparison's result is
    /// its condition.
    pub(super) fn condition(&self, value: Value) -> bool {
        if self.terms.op == Op::Cmp {
            return value != Value::Int(0);
        }
        self.compared(value, Value::Int(0))
    }

    fn wide(&self) -> bool {
        self.execution == Execution::Double
    }

    fn floats(&self, a: Value, b: Value) -> (f64, f64) {
        (a.float(self.wide()), b.float(self.wide()))
    }

    fn rounded(&self, a: Value, function: fn(f64) -> f64) -> Value {
        Value::Float(self.execution.round(function(a.float(self.wide()))))
    }

    fn sum(&self, a: Value, b: Value) -> Value {
        if self.float {
            let (a, b) = self.floats(a, b);
            return Value::Float(self.execution.add(a, b));
        }
        Value::Int(a.integer().saturating_add(b.integer()))
    }

    fn product(&self, a: Value, b: Value) -> Outcome {
        if self.float {
            let (a, b) = self.floats(a, b);
            return Value::Float(self.execution.multiply(a, b)).into();
        }
        Value::Int(a.integer().wrapping_mul(b.integer())).into()
    }

    fn fused(&self, a: Value, b: Value, c: Value) -> Value {
        if self.float {
            let (a, b) = self.floats(a, b);
            return Value::Float(self.execution.fused(a, b, c.float(self.wide())));
        }
        Value::Int(a.integer().wrapping_mul(b.integer()).wrapping_add(c.integer()))
    }

    fn accumulated(&self, accumulator: i64) -> Value {
        match self.float {
            true => Value::Float(f32::from_bits(accumulator as u32).into()),
            false => Value::Int(accumulator.into()),
        }
    }

    /// The accumulator holds src0 times the low 16 bits of src1; the rest of src1 completes it.
    fn long_product(&self, a: Value, b: Value, accumulator: i64) -> Outcome {
        let high = a.integer().wrapping_mul(b.integer() >> 16) << 16;
        let product = high.wrapping_add(accumulator.into());
        if self.terms.op == Op::Macl {
            return Value::Int(product).into();
        }
        Outcome { value: Value::Int(product >> 32), accumulator: Some(product as i64) }
    }

    /// The low bits of a count of bits to shift by.
    fn count(&self, b: Value) -> u32 {
        let wide = self.types[0].is_wide() || self.terms.dst.is_some_and(|dst| dst.ty.is_wide());
        b.integer() as u32 & if wide { 63 } else { 31 }
    }

    /// Whether the condition holds of two numbers. With NaN only `ne` holds.
    fn compared(&self, a: Value, b: Value) -> bool {
        let order = if matches!((a, b), (Value::Int(_), Value::Int(_))) {
            Some(a.integer().cmp(&b.integer()))
        } else {
            let (a, b) = self.floats(a, b);
            a.partial_cmp(&b)
        };
        match self.terms.condition.parts().0 {
            1 => order == Some(Ordering::Equal),
            2 => order != Some(Ordering::Equal),
            3 => order == Some(Ordering::Greater),
            4 => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
            5 => order == Some(Ordering::Less),
            6 => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            _ => false,
        }
    }

    /// True for the first source. A comparison takes the number, where the other one is NaN.
    fn selected(&self, a: Value, b: Value, chosen: bool) -> bool {
        if self.terms.condition.parts().0 == 0 {
            return chosen;
        }
        let nan = |value: Value| matches!(value, Value::Float(value) if value.is_nan());
        if nan(a) || nan(b) {
            return nan(b);
        }
        self.compared(a, b)
    }

    /// Source 0 plus the products of bytes, each signed as its dword is.
    fn bytes(&self, a: Value, b: Value, c: Value) -> Value {
        let byte = |value: Value, index: u32, ty: Type| {
            let bits = value.bits(Type::Ud, false) >> (index * 8) & 255;
            Value::of(if ty.is_signed() { Type::B } else { Type::Ub }, bits).integer()
        };
        let products =
            (0..4).map(|at| byte(b, at, self.types[1]).wrapping_mul(byte(c, at, self.types[2])));
        Value::Int(products.fold(a.integer(), i128::wrapping_add))
    }

    fn function_of_bits(&self, a: Value, b: Value, c: Value) -> Value {
        let bits = |value: Value, source: usize| value.bits(self.types[source], false);
        let (a, b, c) = (bits(a, 0), bits(b, 1), bits(c, 2));
        let pick = |word: u64, wanted: bool| if wanted { word } else { !word };
        let minterm = |row: u32| {
            pick(a, row & 1 == 1) & pick(b, row >> 1 & 1 == 1) & pick(c, row >> 2 & 1 == 1)
        };
        let table = self.terms.table;
        let result = (0..8).filter(|row| table >> row & 1 == 1).map(minterm).fold(0, |x, y| x | y);
        Value::Int(result.into())
    }
}
