//! Which vector instructions are prepared, and where their elements lie.

use super::Predicate;
use crate::isa::vector::{Function, Input, Op, Place, Register, Terms, Type};
use crate::simulate::thread::{LANES, flag_bit};

/// Which elements the lanes of a source read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// One behind the other.
    Row,
    /// All the same.
    Same,
    /// By bytes.
    Table,
}

/// A source.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// Elements of the registers.
    File {
        ty: Type,
        /// First byte.
        at: usize,
        pattern: Pattern,
        /// Bytes from there to the element of each lane.
        table: Box<[u16; LANES]>,
        absolute: bool,
        negate: bool,
    },
    /// The bits of a number.
    Number { ty: Type, bits: u64 },
}

impl Source {
    pub(super) fn ty(&self) -> Type {
        let (Source::File { ty, .. } | Source::Number { ty, .. }) = *self;
        ty
    }

    pub(super) fn is_modified(&self) -> bool {
        matches!(*self, Source::File { absolute, negate, .. } if absolute || negate)
    }

    fn new(input: Input, lanes: u32, grf: usize, bytes: usize) -> Option<Source> {
        let (register, byte, ty, region, absolute, negate) = match input {
            Input::Immediate { ty, bits } => return Some(Source::Number { ty, bits }),
            Input::Register { register, byte, ty, region, absolute, negate } => {
                (register, byte, ty, region, absolute, negate)
            }
        };
        let Register::Grf(number) = register else { return None };
        let at = usize::from(number) * grf + byte as usize;
        let mut table = Box::new([0u16; LANES]);
        for (lane, place) in table.iter_mut().enumerate().take(lanes as usize) {
            let offset = region.element(lane as u32).checked_mul(ty.bytes())?;
            *place = u16::try_from(offset).ok()?;
            if at + usize::from(*place) + ty.bytes() as usize > bytes {
                return None;
            }
        }
        let is = |step: u32| (0..lanes).all(|lane| region.element(lane) == step * lane);
        let pattern = match (is(1), is(0)) {
            (true, _) => Pattern::Row,
            (_, true) => Pattern::Same,
            _ => Pattern::Table,
        };
        Some(Source::File { ty, at, pattern, table, absolute, negate })
    }
}

/// How an instruction computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbers {
    /// Moves elements of so many bytes.
    Bits(u32),
    /// In 64 bits, which hold all operands, or modulo 2^64.
    Integers,
    /// In f32.
    Singles,
}

/// A result in the registers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) ty: Type,
    pub(super) at: usize,
    /// Elements from one lane to the next.
    pub(super) stride: usize,
    pub(super) saturate: bool,
}

/// A prepared vector instruction.
#[derive(Clone, Debug)]
pub(super) struct Vector {
    pub(super) op: Op,
    pub(super) numbers: Numbers,
    pub(super) lanes: u32,
    pub(super) offset: u32,
    pub(super) no_mask: bool,
    pub(super) predicate: Option<Predicate>,
    pub(super) target: Option<Target>,
    pub(super) sources: Vec<Source>,
    /// Code of the condition, and where the flag of lane 0 is.
    pub(super) condition: u8,
    pub(super) flag: (usize, u32),
    pub(super) function: Option<Function>,
    /// Bits of a count to shift by.
    pub(super) count: u32,
}

impl Vector {
    /// An instruction that can be prepared for registers of `grf` bytes, `bytes` in all.
    pub(super) fn new(terms: &Terms, grf: usize, bytes: usize) -> Option<Vector> {
        let dst = terms.dst?;
        let lanes = terms.size.lanes();
        if terms.writes_accumulator() || !matches!(lanes, 1 | 8 | 16 | 32) {
            return None;
        }
        let inputs = terms.sources.iter().flatten();
        let sources: Vec<Source> =
            inputs.map(|&input| Source::new(input, lanes, grf, bytes)).collect::<Option<_>>()?;
        let target = match dst.register {
            Register::Null => None,
            Register::Grf(number) => Some(target(&dst, number, lanes, grf, bytes)?),
            _ => return None,
        };
        let (condition, flag) = terms.condition.parts();
        let compares = matches!(terms.op, Op::Cmp | Op::Sel);
        // Where dst is null, only a comparison does anything.
        if condition != 0 && !compares || target.is_none() && terms.op != Op::Cmp {
            return None;
        }
        let numbers = numbers(terms, &dst, &sources)?;
        let wide = sources.first().is_some_and(|source| source.ty().is_wide()) || dst.ty.is_wide();
        Some(Vector {
            op: terms.op,
            numbers,
            lanes,
            offset: terms.size.offset(),
            no_mask: terms.control.no_mask(),
            predicate: Predicate::of(terms),
            target,
            sources,
            condition,
            flag: (usize::from(flag >> 1), flag_bit(flag, terms)),
            function: terms.function,
            count: if wide { 63 } else { 31 },
        })
    }
}

fn target(dst: &Place, number: u8, lanes: u32, grf: usize, bytes: usize) -> Option<Target> {
    let at = usize::from(number) * grf + dst.byte as usize;
    let (stride, size) = (dst.stride as usize, dst.ty.bytes() as usize);
    let end = at + ((lanes as usize - 1) * stride + 1) * size;
    (end <= bytes).then_some(Target { ty: dst.ty, at, stride, saturate: dst.saturate })
}

/// How an instruction computes, if one of the ways gives the executor's bits.
fn numbers(terms: &Terms, dst: &Place, sources: &[Source]) -> Option<Numbers> {
    let op = terms.op;
    let types = || sources.iter().map(Source::ty);
    if op == Op::Mov && terms.condition.parts().0 == 0 && !dst.saturate {
        let source = sources.first()?;
        if source.ty() == dst.ty && !source.is_modified() {
            return Some(Numbers::Bits(dst.ty.bytes()));
        }
    }
    let small = |ty: Type| !ty.is_float() && !ty.is_wide();
    if types().any(Type::is_float) || dst.ty.is_float() && op != Op::Cmp {
        let single = |ty: Type| ty == Type::F || small(ty);
        let floats = types().all(|ty| ty == Type::F);
        let known = match op {
            Op::Mov => true,
            Op::Add | Op::Mul | Op::Cmp => types().any(Type::is_float),
            Op::Rndu | Op::Rndd | Op::Rnde | Op::Rndz | Op::Mad | Op::Math => floats,
            Op::Sel => floats && dst.ty == Type::F,
            _ => false,
        };
        // The number of a comparison is an integer.
        let fits = types().all(single) && (op == Op::Cmp && is_null(dst) || single(dst.ty));
        // The answer of a comparison is an integer.
        let kept = op != Op::Cmp || is_null(dst) || small(dst.ty);
        return (fits && known && kept).then_some(Numbers::Singles);
    }
    if dst.ty.is_float() && !is_null(dst) {
        return None;
    }
    let exact = types().all(small);
    let modulo = matches!(op, Op::Mov | Op::Add | Op::Mul | Op::And | Op::Or | Op::Xor | Op::Not);
    let known = match op {
        Op::Mul | Op::Mad => !dst.saturate,
        Op::Shl | Op::Shr | Op::Asr => !dst.saturate,
        Op::Mov | Op::Add | Op::Add3 | Op::And | Op::Or | Op::Xor | Op::Not => true,
        Op::Cmp => true,
        Op::Sel => true,
        _ => false,
    };
    let wraps = modulo && !dst.saturate && !sources.iter().any(Source::is_modified);
    (known && (exact || wraps)).then_some(Numbers::Integers)
}

fn is_null(dst: &Place) -> bool {
    dst.register == Register::Null
}
