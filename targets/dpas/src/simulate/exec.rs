//! What the instructions do.

use super::decode::{bits_at, integer, real};
use super::float::{Real, Rules, Scaled, dot};
use super::state::{AlignedBytes, State};
use crate::isa::vector::Terms;
use crate::precision::{Acc, Precision};
use crate::shape::Shape;
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::{Bf16, F16, FloatOverflow};
use std::ops::Range;

/// Most elements of a row of A: 64; most lanes: 32.
const MAX_K: usize = 64;
const MAX_LANES: usize = 32;

/// A matrix product with its places in the bytes of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Shape.
    pub shape: Shape,
    /// First byte of dst.
    pub dst: usize,
    /// First byte of src0; `None` is 0.
    pub src0: Option<usize>,
    /// First byte of src1.
    pub src1: usize,
    /// First byte of src2.
    pub src2: usize,
    /// Dispatch-mask bit of lane 0.
    pub offset: u32,
    /// Writes all lanes.
    pub no_mask: bool,
    /// src2 lies in two threads.
    pub fused: bool,
    /// Of `bdpas` the first bytes of the scales of B and of A; `None` is 1. A scale of `s` stands for
    /// `2^(s - 127)`, 255 for NaN; 32 elements along K share one, those of the next group have theirs
    /// 32 bytes behind.
    pub scales: Option<[Option<usize>; 2]>,
}

/// One step of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A matrix product.
    Multiply(Operation),
    /// Any other instruction of a vector engine; a [`Thread`](super::thread::Thread) does it.
    Vector(Terms),
    /// Nothing: instructions are in order here.
    Wait,
}

impl Step {
    /// True if the step sends a message.
    pub fn is_message(&self) -> bool {
        matches!(self, Step::Vector(terms) if terms.message.is_some())
    }

    /// True if the step needs two fused threads.
    pub fn is_fused(&self) -> bool {
        matches!(self, Step::Multiply(Operation { fused: true, .. }))
    }

    /// Does the step on every thread.
    ///
    /// # Errors
    /// `Q6070` when an operand lies outside of the registers, `Q6071` when two fused threads are
    /// needed and there is one.
    pub fn run(&self, state: &mut State, rules: Rules) -> Result<()> {
        match self {
            Step::Multiply(operation) if operation.fused => operation.run_fused(state, rules),
            _ => {
                let mask = state.dispatch_mask;
                state.threads.iter_mut().try_for_each(|bytes| self.run_alone(bytes, mask, rules))
            }
        }
    }

    /// Does the step on one thread, whose lanes are switched on by a mask.
    ///
    /// # Errors
    /// As [`Step::run`].
    pub fn run_alone(&self, bytes: &mut [u8], dispatch_mask: u32, rules: Rules) -> Result<()> {
        match *self {
            Step::Wait => Ok(()),
            Step::Multiply(operation) => {
                let enabled = enabled(dispatch_mask, operation.offset, operation.no_mask);
                multiply_in_thread(&operation, bytes, rules, enabled)
            }
            Step::Vector(_) => Err(Diagnostic::bug("a vector instruction without a thread")),
        }
    }
}

/// The lanes that write, lane 0 in the lowest bit.
pub(crate) fn enabled(dispatch_mask: u32, offset: u32, no_mask: bool) -> u32 {
    if no_mask { u32::MAX } else { dispatch_mask.checked_shr(offset).unwrap_or(0) }
}

fn unpaired(threads: usize) -> Diagnostic {
    let message = format!("dpasw runs in two fused threads, found {threads}");
    Diagnostic::invalid("Q6071", message)
}

fn part(bytes: &[u8], at: usize, length: usize) -> Result<&[u8]> {
    at.checked_add(length).and_then(|end| bytes.get(at..end)).ok_or_else(|| {
        let size = bytes.len();
        let message = format!("an operand of {length} bytes at byte {at} leaves the {size} bytes");
        Diagnostic::invalid("Q6070", message)
    })
}

impl Operation {
    /// Names of the operands with their bytes: dst, src0 (unless null), src1, src2, scales.
    pub(crate) fn footprints(&self) -> Vec<(&'static str, Range<usize>)> {
        let Operation { shape, dst, src0, src1, src2, fused, scales, .. } = *self;
        let range = |at: usize, length: u32| at..at.saturating_add(length as usize);
        let src2_bytes =
            if fused { shape.fused_bytes().min(shape.src2_bytes()) } else { shape.src2_bytes() };
        let mut list = vec![("dst", range(dst, shape.dst_bytes()))];
        list.extend(src0.map(|src0| ("src0", range(src0, shape.src0_bytes()))));
        list.push(("src1", range(src1, shape.src1_bytes())));
        list.push(("src2", range(src2, src2_bytes)));
        let groups = shape.k().div_ceil(GROUP);
        let scales = scales.unwrap_or_default().into_iter();
        let names = [("src3", shape.lanes), ("src4", shape.repeat)];
        let last = 32u32.saturating_mul(groups.saturating_sub(1));
        list.extend(scales.zip(names).filter_map(|(start, (name, count))| {
            Some((name, range(start?, last.saturating_add(count))))
        }));
        list
    }

    /// The bytes of the operands in this order.
    pub(crate) fn operand_bytes(&self) -> Vec<Range<usize>> {
        self.footprints().into_iter().map(|(_, range)| range).collect()
    }

    fn run_fused(&self, state: &mut State, rules: Rules) -> Result<()> {
        let enabled = enabled(state.dispatch_mask, self.offset, self.no_mask);
        // A is read from both threads before either writes.
        let mut a = [0; 4 * MAX_K * 8];
        let length = self.read_fused(&state.threads, &mut a)?;
        state
            .threads
            .iter_mut()
            .try_for_each(|bytes| multiply(self, &a[..length], bytes, rules, enabled))
    }

    /// A of two fused threads: the first half of its 32-byte registers from the first one (the odd
    /// one included), the others from the second one. Returns the number of bytes.
    fn read_fused(&self, threads: &[AlignedBytes], a: &mut [u8]) -> Result<usize> {
        let [first, second] = threads else {
            return Err(unpaired(threads.len()));
        };
        let length = self.shape.src2_bytes() as usize;
        let own = (self.shape.fused_bytes() as usize).min(length);
        a[..own].copy_from_slice(part(first, self.src2, own)?);
        a[own..length].copy_from_slice(part(second, self.src2, length - own)?);
        Ok(length)
    }
}

/// Multiplies with all operands in the bytes of one thread.
///
/// # Errors
/// `Q6070` when an operand lies outside of the bytes, `Q6071` for a product of two fused threads.
pub(crate) fn multiply_in_thread(
    operation: &Operation,
    bytes: &mut [u8],
    rules: Rules,
    enabled: u32,
) -> Result<()> {
    if operation.fused {
        return Err(unpaired(1));
    }
    let mut a = [0; 4 * MAX_K * 8];
    let length = operation.shape.src2_bytes() as usize;
    a[..length].copy_from_slice(part(bytes, operation.src2, length)?);
    multiply(operation, &a[..length], bytes, rules, enabled)
}

/// Multiplies: A from its own bytes, everything else from and to the bytes of a thread. Bit n of
/// `enabled` says that lane n writes.
///
/// # Errors
/// `Q6070` when an operand lies outside of the bytes.
pub fn multiply(
    operation: &Operation,
    a: &[u8],
    bytes: &mut [u8],
    rules: Rules,
    enabled: u32,
) -> Result<()> {
    let shape = &operation.shape;
    part(bytes, operation.dst, shape.dst_bytes() as usize)?;
    if let Some(src0) = operation.src0 {
        part(bytes, src0, shape.src0_bytes() as usize)?;
    }
    part(bytes, operation.src1, shape.src1_bytes() as usize)?;
    part(a, 0, shape.src2_bytes() as usize)?;
    if operation.scales.is_some() {
        let scales = |name: &str| matches!(name, "src3" | "src4");
        for (_, range) in operation.footprints().iter().filter(|(name, _)| scales(name)) {
            part(bytes, range.start, range.len())?;
        }
    }
    match (shape.weights, shape.weights.is_integer()) {
        _ if operation.scales.is_some() => {
            floats(operation, a, bytes, rules, enabled, &SCALED);
        }
        (_, true) => integers(operation, a, bytes, enabled),
        (Precision::Df, _) => floats(operation, a, bytes, rules, enabled, &DOUBLE),
        _ => floats(operation, a, bytes, rules, enabled, &SINGLE),
    }
    Ok(())
}

/// Reads B, column by column of a row k: element `k * lanes + n`.
fn read_b<T: Copy>(
    operation: &Operation,
    bytes: &[u8],
    zero: T,
    element: impl Fn(Precision, u64) -> T,
) -> [T; MAX_K * MAX_LANES] {
    let shape = &operation.shape;
    let mut b = [zero; MAX_K * MAX_LANES];
    let source = &bytes[operation.src1..];
    for k in 0..shape.k() {
        for n in 0..shape.lanes {
            let code = bits_at(source, shape.b_bit(k, n) as usize, shape.weights.bits());
            b[(k * shape.lanes + n) as usize] = element(shape.weights, code);
        }
    }
    b
}

/// Reads row `r` of A.
fn read_a<T: Copy>(
    shape: &Shape,
    a: &[u8],
    r: u32,
    zero: T,
    element: impl Fn(Precision, u64) -> T,
) -> [T; MAX_K] {
    let mut row = [zero; MAX_K];
    for k in 0..shape.k() {
        let code = bits_at(a, shape.a_bit(r, k) as usize, shape.activations.bits());
        row[k as usize] = element(shape.activations, code);
    }
    row
}

/// All rows are computed before the first is written, so that dst may be a source.
fn write<T: Copy>(
    operation: &Operation,
    bytes: &mut [u8],
    enabled: u32,
    results: &[T],
    store: impl Fn(T, &mut [u8]),
) {
    let shape = &operation.shape;
    let size = shape.dst.bytes() as usize;
    for r in 0..shape.repeat {
        for n in (0..shape.lanes).filter(|&n| enabled.checked_shr(n).unwrap_or(0) & 1 == 1) {
            let at = operation.dst + shape.d_byte(r, n) as usize;
            store(results[(r * shape.lanes + n) as usize], &mut bytes[at..at + size]);
        }
    }
}

/// Sums wrap at 32 bits; the type of dst does not matter.
fn integers(operation: &Operation, a: &[u8], bytes: &mut [u8], enabled: u32) {
    let shape = &operation.shape;
    let (lanes, k) = (shape.lanes as usize, shape.k() as usize);
    let b = read_b(operation, bytes, 0i32, integer);
    let mut results = [0i32; 8 * MAX_LANES];
    for r in 0..shape.repeat {
        let row = read_a(shape, a, r, 0i32, integer);
        let sums = &mut results[r as usize * lanes..][..lanes];
        for (n, sum) in sums.iter_mut().enumerate() {
            *sum = operation.src0.map_or(0, |src0| {
                let at = src0 + shape.c_byte(r, n as u32) as usize;
                bits_at(bytes, 8 * at, 32) as u32 as i32
            });
        }
        for (&a, b) in row[..k].iter().zip(b.chunks(lanes)) {
            for (sum, &b) in sums.iter_mut().zip(b) {
                *sum = sum.wrapping_add(a * b);
            }
        }
    }
    write(operation, bytes, enabled, &results, |value, place| {
        place.copy_from_slice(&value.to_le_bytes());
    });
}

/// Elements along K that share a scale.
const GROUP: u32 = 32;

/// How numbers of an accumulation are read and written.
pub(super) struct Format<T> {
    element: fn(Precision, u64) -> T,
    pub(super) load: fn(Acc, u64) -> T,
    pub(super) store: fn(Acc, T) -> u64,
    /// Multiplies by a scale.
    scale: fn(T, u64) -> T,
}

pub(super) static SINGLE: Format<f32> = Format {
    element: real,
    load: |acc, code| match acc {
        Acc::Hf => real(Precision::Hf, code),
        Acc::Bf => real(Precision::Bf, code),
        _ => f32::from_bits(code as u32),
    },
    store: |acc, value| match acc {
        // Both formats have a NaN, so that a rounding always gives a number.
        Acc::Hf => F16::from_f32(value, FloatOverflow::Infinity).map_or(0, |v| v.to_bits().into()),
        Acc::Bf => Bf16::from_f32(value, FloatOverflow::Infinity).map_or(0, |v| v.to_bits().into()),
        _ => value.to_bits().into(),
    },
    scale: |value, _| value,
};

/// As single, but for factors with scales, whose products f64 holds exactly.
static SCALED: Format<Scaled> = Format {
    element: |precision, code| Scaled(real(precision, code).into()),
    load: |acc, code| Scaled((SINGLE.load)(acc, code).into()),
    store: |acc, Scaled(value)| (SINGLE.store)(acc, value as f32),
    scale: |Scaled(value), scale| match scale {
        255 => Scaled(f64::NAN),
        scale => Scaled(value * f64::from_bits((1023 - 127 + scale) << 52)),
    },
};

static DOUBLE: Format<f64> = Format {
    element: |_, code| f64::from_bits(code),
    load: |_, code| f64::from_bits(code),
    store: |_, value| value.to_bits(),
    scale: |value, _| value,
};

fn floats<T: Real>(
    operation: &Operation,
    a: &[u8],
    bytes: &mut [u8],
    rules: Rules,
    enabled: u32,
    format: &Format<T>,
) {
    let shape = &operation.shape;
    let (lanes, k, stage) = (shape.lanes as usize, shape.k() as usize, shape.ops() as usize);
    let mut b = read_b(operation, bytes, T::ZERO, format.element);
    // Element k of row or column `index` with its scale.
    let scaled = |value: T, start: Option<usize>, index: usize, k: usize| match start {
        None => value,
        Some(start) => (format.scale)(value, bytes[start + k / GROUP as usize * 32 + index].into()),
    };
    let [columns_scale, rows_scale] = operation.scales.unwrap_or_default();
    for (at, value) in b[..k * lanes].iter_mut().enumerate() {
        *value = scaled(*value, columns_scale, at % lanes, at / lanes);
    }
    let mut results = [T::ZERO; 8 * MAX_LANES];
    for r in 0..shape.repeat {
        let mut row = read_a(shape, a, r, T::ZERO, format.element);
        for (at, value) in row[..k].iter_mut().enumerate() {
            *value = scaled(*value, rows_scale, r as usize, at);
        }
        for n in 0..lanes {
            let c = operation.src0.map_or(T::ZERO, |src0| {
                let at = src0 + shape.c_byte(r, n as u32) as usize;
                (format.load)(shape.src0, bits_at(bytes, 8 * at, 8 * shape.src0.bytes()))
            });
            let column = &b[n..k * lanes];
            results[r as usize * lanes + n] = dot(rules, c, &row[..k], column, lanes, stage);
        }
    }
    let size = shape.dst.bytes() as usize;
    write(operation, bytes, enabled, &results, |value, place| {
        place.copy_from_slice(&(format.store)(shape.dst, value).to_le_bytes()[..size]);
    });
}
