//! Neighbouring vector instructions that do the same to registers that follow each other, with
//! 512-bit vectors: a row of 16 lanes each.

use super::vector::{Numbers, Pattern, Source, Target, Vector};
use crate::isa::vector::{Op, Type};
use crate::simulate::exec::enabled;
use crate::simulate::thread::Thread;
use std::arch::x86_64::*;

/// Lanes of every instruction.
const LANES: usize = 16;
/// All of them.
const ALL: u32 = (1 << LANES) - 1;
const NAN: u32 = 0x7fc0_0000;

/// What the instructions do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// Copies dwords.
    Copy,
    /// Packs bytes of dwords.
    Pack,
    /// Signed dwords become f32.
    FromDwords,
    /// Packed bytes become f32.
    FromBytes { signed: bool },
    /// f32 become bytes of dwords.
    ToBytes { signed: bool },
    /// From f32 to f32.
    Singles { op: Op, condition: u8, modified: bool },
}

/// Where rows lie in the registers, or a number that stands for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Operand {
    /// First byte of the first row, and bytes from one row to the next.
    at: usize,
    step: usize,
    /// The bits of an element that stands for all.
    number: Option<u32>,
    /// What is flipped of the bits of f32.
    flip: u32,
}

impl Operand {
    const NONE: Operand = Operand { at: 0, step: 0, number: Some(0), flip: 0 };

    fn new(source: &Source, packs: bool) -> Option<Operand> {
        match *source {
            Source::Number { ty: Type::F | Type::D | Type::Ud, bits } => {
                Some(Operand { number: Some(bits as u32), ..Operand::NONE })
            }
            Source::Number { .. } => None,
            Source::File { at, pattern, ref table, absolute: false, negate, .. } => {
                let mut dwords = table.iter().take(LANES).enumerate();
                let is_row = match (pattern, packs) {
                    (Pattern::Row, false) => true,
                    (Pattern::Table, true) => {
                        dwords.all(|(lane, &byte)| usize::from(byte) == 4 * lane)
                    }
                    _ => false,
                };
                let flip = if negate { 0x8000_0000 } else { 0 };
                is_row.then_some(Operand { at, step: 0, number: None, flip })
            }
            Source::File { .. } => None,
        }
    }
}

/// Instructions that follow each other.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    work: Work,
    target: Operand,
    sources: [Operand; 3],
    /// Rows of the numbers of the sources.
    numbers: [[u32; LANES]; 3],
    pub(super) count: usize,
    offset: u32,
    no_mask: bool,
}

impl Rows {
    /// The first of some instructions and those behind it that do the same; `None` if it is none of
    /// these.
    pub(super) fn new<'v>(mut vectors: impl Iterator<Item = &'v Vector>) -> Option<Rows> {
        let mut rows = Rows::one(vectors.next()?)?;
        let Some(second) = vectors.next().and_then(Rows::one) else { return Some(rows) };
        let step = |a: &Operand, b: &Operand| b.at.wrapping_sub(a.at);
        let stepped = |a: &Operand, b: &Operand| Operand { step: step(a, b), ..*a };
        let mut long = rows.clone();
        long.target = stepped(&rows.target, &second.target);
        for ((place, a), b) in long.sources.iter_mut().zip(&rows.sources).zip(&second.sources) {
            *place = stepped(a, b);
        }
        let rest = vectors.map_while(Rows::one);
        let count = [second].into_iter().chain(rest).zip(1..).take_while(|(v, n)| long.is(v, *n));
        long.count = 1 + count.count();
        if long.count > 1 {
            rows = long;
        }
        Some(rows)
    }

    fn one(vector: &Vector) -> Option<Rows> {
        let target = vector.target.as_ref()?;
        if vector.lanes as usize != LANES || vector.predicate.is_some() {
            return None;
        }
        let work = work(vector, target)?;
        let mut sources = [Operand::NONE; 3];
        for (place, source) in sources.iter_mut().zip(&vector.sources) {
            *place = Operand::new(source, work == Work::Pack)?;
        }
        let target = Operand { at: target.at, number: None, ..Operand::NONE };
        let numbers = sources.map(|source| [source.number.unwrap_or(0); LANES]);
        let (offset, no_mask) = (vector.offset, vector.no_mask);
        Some(Rows { work, target, sources, numbers, count: 1, offset, no_mask })
    }

    /// True if an instruction is number `n` of these.
    fn is(&self, other: &Rows, n: usize) -> bool {
        let fits = |own: &Operand, other: &Operand| {
            own.at.wrapping_add(own.step.wrapping_mul(n)) == other.at
                && (own.number, own.flip) == (other.number, other.flip)
        };
        (self.work, self.offset, self.no_mask) == (other.work, other.offset, other.no_mask)
            && fits(&self.target, &other.target)
            && self.sources.iter().zip(&other.sources).all(|(own, other)| fits(own, other))
    }

    /// Does the first of some lists of instructions one after the other; the instructions that were done:
    /// none of a list for which lanes are off, nor what is behind it.
    pub(super) fn run(all: &[Rows], thread: &mut Thread) -> usize {
        let is_on =
            |rows: &&Rows| enabled(thread.dispatch_mask, rows.offset, rows.no_mask) & ALL == ALL;
        let ready = all.iter().take_while(is_on).count();
        // SAFETY: Kernels have rows only where the processor has the instructions, and every
        // instruction was prepared for registers of this size.
        unsafe { Rows::all(&all[..ready], &mut thread.grf) };
        all[..ready].iter().map(|rows| rows.count).sum()
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
    unsafe fn all(all: &[Rows], file: &mut [u8]) {
        for rows in all {
            // SAFETY: As this function says.
            unsafe { rows.rows(file) }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
    unsafe fn rows(&self, file: &mut [u8]) {
        let file = file.as_mut_ptr();
        let place = |n: usize| match self.sources[n].number {
            Some(_) => self.numbers[n].as_ptr().cast(),
            None => file.wrapping_add(self.sources[n].at).cast_const(),
        };
        let mut at: [*const u8; 3] = [place(0), place(1), place(2)];
        let steps = self.sources.map(|source| source.step);
        let mut to = file.wrapping_add(self.target.at);
        macro_rules! each {
            (|$a:ident, $b:ident, $c:ident, $to:ident| $body:expr) => {
                for _ in 0..self.count {
                    let [$a, $b, $c] = at;
                    let $to = to;
                    // SAFETY: As this function says.
                    unsafe { $body }
                    to = to.wrapping_add(self.target.step);
                    for (at, step) in at.iter_mut().zip(steps) {
                        *at = at.wrapping_add(step);
                    }
                }
            };
        }
        macro_rules! singles {
            (|$a:ident, $b:ident, $c:ident| $body:expr) => {
                each!(|a, b, c, to| {
                    let [$a, $b, $c] = [a, b, c].map(|at| _mm512_loadu_ps(at.cast()));
                    put_singles(to, $body);
                })
            };
        }
        match self.work {
            Work::Copy => each!(|a, _b, _c, to| {
                _mm512_storeu_si512(to.cast(), _mm512_loadu_si512(a.cast()));
            }),
            Work::Pack => each!(|a, _b, _c, to| {
                let bytes = _mm512_cvtepi32_epi8(_mm512_loadu_si512(a.cast()));
                _mm_storeu_si128(to.cast(), bytes);
            }),
            Work::FromDwords => each!(|a, _b, _c, to| {
                let singles = _mm512_cvtepi32_ps(_mm512_loadu_si512(a.cast()));
                _mm512_storeu_ps(to.cast(), singles);
            }),
            Work::FromBytes { signed } => each!(|a, _b, _c, to| {
                let bytes = _mm_loadu_si128(a.cast());
                let dwords = match signed {
                    true => _mm512_cvtepi8_epi32(bytes),
                    false => _mm512_cvtepu8_epi32(bytes),
                };
                _mm512_storeu_ps(to.cast(), _mm512_cvtepi32_ps(dwords));
            }),
            Work::ToBytes { signed } => each!(|a, _b, _c, to| {
                let bytes = saturated(_mm512_loadu_ps(a.cast()), signed);
                let others = _mm512_loadu_si512(to.cast::<__m512i>().cast_const().cast());
                let others = _mm512_andnot_si512(_mm512_set1_epi32(0xff), others);
                _mm512_storeu_si512(to.cast(), _mm512_or_si512(others, bytes));
            }),
            Work::Singles { op, condition, modified } => match op {
                Op::Mov => singles!(|a, _b, _c| a),
                Op::Add => singles!(|a, b, _c| _mm512_add_ps(a, b)),
                Op::Mul => singles!(|a, b, _c| _mm512_mul_ps(a, b)),
                Op::Mad if modified => {
                    let flips = self.sources.map(|source| source.flip);
                    singles!(|a, b, c| _mm512_fmadd_ps(
                        flipped(b, flips[1]),
                        flipped(c, flips[2]),
                        flipped(a, flips[0])
                    ));
                }
                Op::Mad => singles!(|a, b, c| _mm512_fmadd_ps(b, c, a)),
                Op::Rnde => singles!(|a, _b, _c| _mm512_roundscale_ps::<8>(a)),
                Op::Rndd => singles!(|a, _b, _c| _mm512_roundscale_ps::<9>(a)),
                Op::Rndu => singles!(|a, _b, _c| _mm512_roundscale_ps::<10>(a)),
                Op::Rndz => singles!(|a, _b, _c| _mm512_roundscale_ps::<11>(a)),
                _ if condition == GREATER_OR_EQUAL => {
                    singles!(|a, b, _c| chosen(_mm512_cmp_ps_mask::<_CMP_GE_OQ>(a, b), a, b))
                }
                _ => singles!(|a, b, _c| chosen(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b), a, b)),
            },
        }
    }
}

/// Codes of the conditions of `sel`.
const GREATER_OR_EQUAL: u8 = 4;
const LESS: u8 = 5;

/// What an instruction does, if it is done here.
fn work(vector: &Vector, target: &Target) -> Option<Work> {
    let Vector { op, numbers, sources, condition, .. } = vector;
    let first = sources.first()?;
    let plain = target.stride == 1 && !target.saturate;
    let unmodified = sources.iter().all(|source| !source.is_modified());
    let singles = |source: &Source| source.ty() == Type::F;
    match (*numbers, op) {
        (Numbers::Bits(4), Op::Mov) if plain => Some(Work::Copy),
        (Numbers::Bits(1), Op::Mov) if plain => Some(Work::Pack),
        (Numbers::Singles, Op::Mov) if unmodified && !matches!(first, Source::Number { .. }) => {
            let signed = |ty: Type| ty == Type::B;
            match (first.ty(), target.ty) {
                (Type::D, Type::F) if plain => Some(Work::FromDwords),
                (ty @ (Type::Ub | Type::B), Type::F) if plain => {
                    Some(Work::FromBytes { signed: signed(ty) })
                }
                (Type::F, ty @ (Type::Ub | Type::B)) if target.stride == 4 => {
                    Some(Work::ToBytes { signed: signed(ty) })
                }
                _ => None,
            }
            .filter(|_| matches!(first, Source::File { pattern: Pattern::Row, .. }))
        }
        (Numbers::Singles, _) if plain && target.ty == Type::F && sources.iter().all(singles) => {
            let known = match op {
                _ if !unmodified && *op != Op::Mad => false,
                Op::Sel => matches!(*condition, GREATER_OR_EQUAL | LESS),
                Op::Mov | Op::Add | Op::Mul | Op::Mad => true,
                Op::Rnde | Op::Rndd | Op::Rndu | Op::Rndz => true,
                _ => false,
            };
            let (op, condition, modified) = (*op, *condition, !unmodified);
            known.then_some(Work::Singles { op, condition, modified })
        }
        _ => None,
    }
}

/// Flips bits of f32.
#[inline]
#[target_feature(enable = "avx512f")]
fn flipped(values: __m512, flip: u32) -> __m512 {
    let flip = _mm512_set1_epi32(flip.cast_signed());
    _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(values), flip))
}

/// Writes f32; NaN is canonical.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn put_singles(to: *mut u8, values: __m512) {
    let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(values, values);
    let values = _mm512_mask_blend_ps(nan, values, _mm512_set1_ps(f32::from_bits(NAN)));
    // SAFETY: The caller's.
    unsafe { _mm512_storeu_ps(to.cast(), values) }
}

/// `a` where its bit is set or `b` is NaN.
#[inline]
#[target_feature(enable = "avx512f")]
fn chosen(bits: u16, a: __m512, b: __m512) -> __m512 {
    _mm512_mask_blend_ps(bits | _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(b, b), b, a)
}

/// Bytes in dwords whose other bytes are zero; NaN is 0.
#[inline]
#[target_feature(enable = "avx512f")]
fn saturated(values: __m512, signed: bool) -> __m512i {
    let (low, high) = if signed { (-128.0, 127.0) } else { (0.0, 255.0) };
    let ordered = _mm512_cmp_ps_mask::<_CMP_ORD_Q>(values, values);
    let kept = _mm512_max_ps(_mm512_min_ps(values, _mm512_set1_ps(high)), _mm512_set1_ps(low));
    let whole = _mm512_maskz_cvttps_epi32(ordered, kept);
    _mm512_and_si512(whole, _mm512_set1_epi32(0xff))
}
