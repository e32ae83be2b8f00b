//! Prepared instructions of one lane on integers of 32 bits, such as counters of loops.

use super::vector::{Numbers, Source, Vector};
use crate::isa::vector::{Op, Type};
use crate::simulate::thread::Thread;

/// An operand.
#[derive(Clone, Copy)]
enum Operand {
    Signed(usize),
    Unsigned(usize),
    Number(i64),
}

impl Operand {
    fn new(source: &Source) -> Option<Operand> {
        match *source {
            Source::File { ty: Type::D, at, absolute: false, negate: false, .. } => {
                Some(Operand::Signed(at))
            }
            Source::File { ty: Type::Ud, at, absolute: false, negate: false, .. } => {
                Some(Operand::Unsigned(at))
            }
            Source::File { .. } => None,
            Source::Number { ty, bits } => match ty {
                Type::W => Some(Operand::Number((bits as u16 as i16).into())),
                Type::D => Some(Operand::Number((bits as u32 as i32).into())),
                Type::Uw | Type::Ud => Some(Operand::Number(bits as i64)),
                _ => None,
            },
        }
    }

    #[inline]
    fn value(self, file: &[u8]) -> i64 {
        let word = |at: usize| file.get(at..).and_then(<[u8]>::first_chunk).copied();
        match self {
            Operand::Signed(at) => i32::from_le_bytes(word(at).unwrap_or_default()).into(),
            Operand::Unsigned(at) => u32::from_le_bytes(word(at).unwrap_or_default()).into(),
            Operand::Number(value) => value,
        }
    }
}

/// What a scalar instruction does with its operands.
#[derive(Clone, Copy)]
enum Action {
    Move(usize),
    Add(usize),
    Multiply(usize),
    /// The code of the condition, the register of the flag, its bit.
    Compare(u8, usize, u32),
}

/// A prepared scalar instruction.
#[derive(Clone, Copy)]
pub(super) struct Scalar {
    action: Action,
    operands: [Operand; 2],
}

impl Scalar {
    /// The scalar instruction that a vector instruction of one lane is.
    pub(super) fn new(vector: &Vector) -> Option<Scalar> {
        let plain = vector.lanes == 1 && vector.no_mask && vector.predicate.is_none();
        if !plain || !matches!(vector.numbers, Numbers::Integers | Numbers::Bits(4)) {
            return None;
        }
        let [first, rest @ ..] = &vector.sources[..] else { return None };
        let first = Operand::new(first)?;
        let second = match rest {
            [] => Operand::Number(0),
            [second] => Operand::new(second)?,
            _ => return None,
        };
        let target = vector.target.as_ref();
        let place = target.filter(|target| target.ty.bytes() == 4 && !target.saturate);
        let action = match vector.op {
            Op::Mov => Action::Move(place?.at),
            Op::Add => Action::Add(place?.at),
            Op::Mul => Action::Multiply(place?.at),
            Op::Cmp if target.is_none() && matches!(vector.condition, 1..=6) => {
                let (register, bit) = vector.flag;
                Action::Compare(vector.condition, register & 3, bit & 31)
            }
            _ => return None,
        };
        Some(Scalar { action, operands: [first, second] })
    }

    #[inline]
    pub(super) fn run(self, thread: &mut Thread) {
        let [a, b] = self.operands.map(|operand| operand.value(&thread.grf));
        let (at, value) = match self.action {
            Action::Move(at) => (at, a),
            Action::Add(at) => (at, a.wrapping_add(b)),
            Action::Multiply(at) => (at, a.wrapping_mul(b)),
            Action::Compare(code, register, bit) => {
                let holds = match code {
                    1 => a == b,
                    2 => a != b,
                    3 => a > b,
                    4 => a >= b,
                    5 => a < b,
                    _ => a <= b,
                };
                let flag = &mut thread.flags[register];
                *flag = *flag & !(1 << bit) | u32::from(holds) << bit;
                return;
            }
        };
        thread.grf[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes());
    }
}
