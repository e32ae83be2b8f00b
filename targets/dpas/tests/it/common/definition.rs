//! What an instruction means, a second time: bits are looked up one by one, floats are exact fractions
//! that are rounded by comparing neighbours.

use super::Random;
use quincunx_dpas::precision::{Acc, Precision};
use quincunx_dpas::shape::{RowStride, Shape, ops};
use quincunx_dpas::simulate::{AlignedBytes, Model, Operation, Rules, State};
use quincunx_num::Dyadic;

fn bit(bytes: &[u8], at: usize) -> u64 {
    u64::from(bytes[at / 8] >> (at % 8) & 1)
}

pub fn field(bytes: &[u8], at: usize, width: usize) -> u64 {
    (0..width).rev().fold(0, |value, index| value << 1 | bit(bytes, at + index))
}

/// The number of a code by the definition of its format: sign, exponent bits, fraction bits.
pub fn number(precision: Precision, code: u64) -> f64 {
    let float = |exponent_bits: u32, fraction_bits: u32, code: u64| {
        let sign = if code >> (exponent_bits + fraction_bits) & 1 == 1 { -1.0 } else { 1.0 };
        let exponent = (code >> fraction_bits & ((1 << exponent_bits) - 1)) as i32;
        let fraction = (code & ((1 << fraction_bits) - 1)) as f64 / (1u64 << fraction_bits) as f64;
        let bias = (1 << (exponent_bits - 1)) - 1;
        let top = (1 << exponent_bits) - 1;
        let value = if exponent == 0 {
            fraction * 2f64.powi(1 - bias)
        } else {
            (1.0 + fraction) * 2f64.powi(exponent - bias)
        };
        (sign * value, exponent == top, fraction)
    };
    let ieee = |(value, top, fraction): (f64, bool, f64)| match (top, fraction) {
        (false, _) => value,
        (true, 0.0) => f64::INFINITY.copysign(value),
        _ => f64::NAN,
    };
    let signed = |bits: u32| (code << (64 - bits)) as i64 >> (64 - bits);
    match precision {
        Precision::U1 | Precision::U2 | Precision::U4 | Precision::U8 => code as f64,
        Precision::S1 | Precision::S2 | Precision::S4 | Precision::S8 => {
            signed(precision.bits()) as f64
        }
        Precision::Bf => ieee(float(8, 7, code)),
        Precision::Hf => ieee(float(5, 10, code)),
        Precision::Tf32 => ieee(float(8, 10, code >> 13)),
        Precision::Bf8 => ieee(float(5, 2, code)),
        Precision::Hf8 => match code & 0x7f {
            0x7f => f64::NAN,
            _ => float(4, 3, code).0,
        },
        Precision::E2m1 => float(2, 1, code).0,
        Precision::Df => f64::from_bits(code),
    }
}

/// The nearest f32 of an exact fraction, ties to even, found among neighbours.
fn nearest(exact: &Dyadic) -> f32 {
    let of = |value: f64| Dyadic::from_f64(value).unwrap();
    let first = exact.to_f64() as f32;
    // 2^128 stands for what rounds to infinity.
    let value =
        |x: f32| if x.is_infinite() { of(2f64.powi(128).copysign(x.into())) } else { of(x.into()) };
    let distance = |x: f32| {
        let difference = exact.add(&value(x).mul(&of(-1.0)));
        if difference.to_f64() < 0.0 { difference.mul(&of(-1.0)) } else { difference }
    };
    let candidates = [first, first.next_up(), first.next_down()];
    let best = candidates.into_iter().filter(|x| !x.is_nan()).reduce(|best, other| {
        let difference = distance(other).add(&distance(best).mul(&of(-1.0))).to_f64();
        let even = other.to_bits() & 1 == 0 && best.to_bits() & 1 == 1;
        if difference < 0.0 || (difference == 0.0 && even) { other } else { best }
    });
    best.unwrap()
}

/// `acc` plus the exact products, rounded once.
fn fused(acc: f64, products: &[(f64, f64)], double: bool) -> f64 {
    let plain = products.iter().fold(acc, |sum, (a, b)| sum + a * b);
    let special =
        !acc.is_finite() || products.iter().any(|(a, b)| !a.is_finite() || !b.is_finite());
    if special {
        // Only infinities and NaN matter.
        let sign = |x: f64| if x.is_finite() { 0.0 } else { x };
        return products.iter().fold(sign(acc), |sum, (a, b)| {
            sum + if a.is_finite() && b.is_finite() { 0.0 } else { a * b }
        });
    }
    if products.iter().all(|(a, b)| *a == 0.0 || *b == 0.0) {
        return plain;
    }
    let of = |value: f64| Dyadic::from_f64(value).unwrap();
    let exact = products.iter().fold(of(acc), |sum, &(a, b)| sum.add(&of(a).mul(&of(b))));
    let rounded = if double { exact.to_f64() } else { f64::from(nearest(&exact)) };
    // The sign of a result that is rounded to zero.
    if rounded == 0.0 && exact.mul(&of(2f64.powi(1000))).to_f64() < 0.0 { -0.0 } else { rounded }
}

/// One element of D by the definition.
fn element(shape: &Shape, rules: Rules, c: f64, a: &[f64], b: &[f64]) -> f64 {
    let double = shape.weights == Precision::Df;
    let round = |x: f64| if double { x } else { f64::from(x as f32) };
    let tiny = if double { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) };
    let flush = |x: f64| if rules.ftz && x.abs() < tiny { 0f64.copysign(x) } else { x };
    let mut acc = flush(c);
    let pairs: Vec<(f64, f64)> = a.iter().copied().zip(b.iter().copied()).collect();
    let chunk = match rules.model {
        Model::Seq => {
            for (a, b) in pairs {
                // Products of f32 are exact in f64, and its sums round innocently.
                acc = flush(round(acc + flush(round(a * b))));
            }
            return acc;
        }
        Model::Fma => 1,
        Model::Stage => shape.ops() as usize,
        Model::Exact => pairs.len(),
    };
    for products in pairs.chunks(chunk) {
        acc = flush(fused(acc, products, double));
    }
    acc
}

fn store(acc: Acc, value: f64) -> Vec<u8> {
    let half = |precision: Precision, exponent_bits: u32| {
        // Every code is tried: the nearest one, ties to even.
        let limit =
            if exponent_bits == 5 { 65520.0 } else { 2f64.powi(128) * (1.0 - 2f64.powi(-9)) };
        let top = if exponent_bits == 5 { 0x7c00u64 } else { 0x7f80 };
        let magnitude = if value.is_nan() {
            top + 1
        } else if value.abs() >= limit {
            top
        } else {
            (0..top)
                .map(|code| ((number(precision, code) - value.abs()).abs(), code & 1, code))
                .min_by(|x, y| x.partial_cmp(y).unwrap())
                .unwrap()
                .2
        };
        magnitude | u64::from(value.is_sign_negative()) << 15
    };
    match acc {
        Acc::F => (value as f32).to_le_bytes().to_vec(),
        Acc::Df => value.to_le_bytes().to_vec(),
        Acc::Hf => half(Precision::Hf, 5).to_le_bytes()[..2].to_vec(),
        Acc::Bf => half(Precision::Bf, 8).to_le_bytes()[..2].to_vec(),
        Acc::D | Acc::Ud => (value as i64).to_le_bytes()[..4].to_vec(),
    }
}

/// The whole instruction by the definition, on two threads for a fused one.
pub fn definition(operation: &Operation, state: &State, rules: Rules) -> Vec<AlignedBytes> {
    let shape = &operation.shape;
    let (w, a) = (shape.weights.bits() as usize, shape.activations.bits() as usize);
    let ops = ops(shape.weights, shape.activations).unwrap() as usize;
    let unit = w.max(32);
    let k_count = shape.depth as usize * ops;
    let stride = if shape.stride == RowStride::Full { 8 * ops } else { k_count };
    let lanes = shape.lanes as usize;
    let mut result = state.threads.clone();
    for (thread, bytes) in state.threads.iter().enumerate() {
        let read_a = |r: usize, k: usize| {
            let at = (r * stride + k) * a;
            if !operation.fused {
                return field(&bytes[operation.src2..], at, a);
            }
            let total = ((shape.repeat as usize - 1) * stride + k_count) * a;
            let registers = total.div_ceil(256);
            let own = registers.div_ceil(2) * 256;
            match at < own {
                true => field(&state.threads[0][operation.src2..], at, a),
                false => field(&state.threads[1][operation.src2..], at - own, a),
            }
        };
        let read_b = |k: usize, n: usize| {
            let per = unit / w;
            field(&bytes[operation.src1..], (k / per * lanes + n) * unit + k % per * w, w)
        };
        for r in 0..shape.repeat as usize {
            for n in 0..lanes {
                let on = operation.no_mask
                    || state.dispatch_mask >> (operation.offset as usize + n) & 1 == 1;
                if !on {
                    continue;
                }
                let c_code = operation.src0.map(|src0| {
                    let size = shape.src0.bytes() as usize;
                    field(&bytes[src0 + (r * lanes + n) * size..], 0, 8 * size)
                });
                // Scales are powers of two, of groups of 32 elements.
                let scale = |operand: usize, index: usize, k: usize| {
                    let start = operation.scales.and_then(|scales| scales[operand]);
                    start.map_or(1.0, |start| match bytes[start + k / 32 * 32 + index] {
                        255 => f64::NAN,
                        scale => 2f64.powi(i32::from(scale) - 127),
                    })
                };
                let row: Vec<f64> = (0..k_count)
                    .map(|k| number(shape.activations, read_a(r, k)) * scale(1, r, k))
                    .collect();
                let column: Vec<f64> = (0..k_count)
                    .map(|k| number(shape.weights, read_b(k, n)) * scale(0, n, k))
                    .collect();
                let stored = if shape.weights.is_integer() {
                    let sum = row.iter().zip(&column).map(|(a, b)| (a * b) as i64).sum::<i64>();
                    let c = i64::from(c_code.unwrap_or(0) as u32);
                    ((c + sum) as u32).to_le_bytes().to_vec()
                } else {
                    let c = c_code.map_or(0.0, |code| match shape.src0 {
                        Acc::F => f64::from(f32::from_bits(code as u32)),
                        Acc::Hf => number(Precision::Hf, code),
                        Acc::Bf => number(Precision::Bf, code),
                        _ => f64::from_bits(code),
                    });
                    store(shape.dst, element(shape, rules, c, &row, &column))
                };
                let at = operation.dst + (r * lanes + n) * shape.dst.bytes() as usize;
                result[thread][at..at + stored.len()].copy_from_slice(&stored);
            }
        }
    }
    result
}

/// Random bytes whose floats are often of similar size.
pub fn fill(random: &mut Random, precision: Precision, tiny: bool, bytes: &mut [u8]) {
    let wild = random.below(4) == 0;
    let size = (precision.bits() as usize / 8).max(1);
    for element in bytes.chunks_mut(size) {
        let mut code = random.next();
        if !wild && !precision.is_integer() {
            let small = (random.below(64) as f64 - 32.0) / 2f64.powi(random.below(12));
            code = match precision {
                Precision::Bf => u64::from((small as f32).to_bits() >> 16),
                Precision::Tf32 => u64::from((small as f32).to_bits()),
                Precision::Df => small.to_bits(),
                _ => code,
            };
        }
        if tiny {
            // Products around the smallest normal f32 or f64, and sums below it.
            let near = random.below(8);
            code = match precision {
                Precision::Bf => code & 0x807f | (60 + near) << 7,
                Precision::Tf32 => code & 0x807f_ffff | (60 + near) << 23,
                Precision::Df => code & (1 << 63 | 0xf_ffff) | (508 + near) << 52,
                _ => code,
            };
        }
        element.copy_from_slice(&code.to_le_bytes()[..element.len()]);
    }
}
