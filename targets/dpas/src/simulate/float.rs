//! Models of float accumulation.
//!
//! No public source states what the silicon does; a result names its model. Common rules: round to
//! nearest, ties to even; overflow to infinity; NaN is canonical; exact cancellation gives +0.

use super::exact::{Sum32, Sum64};

/// How products are added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Model {
    /// For each k: the product is rounded, then the sum.
    #[default]
    Seq,
    /// For each k: the sum with the exact product is rounded.
    Fma,
    /// For each stage: the sum with the exact products of the stage is rounded.
    Stage,
    /// The sum with all exact products is rounded once.
    Exact,
}

impl Model {
    /// The model with this name.
    pub fn from_name(name: &str) -> Option<Model> {
        Some(match name {
            "seq" => Model::Seq,
            "fma" => Model::Fma,
            "stage" => Model::Stage,
            "exact" => Model::Exact,
            _ => return None,
        })
    }

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Model::Seq => "seq",
            Model::Fma => "fma",
            Model::Stage => "stage",
            Model::Exact => "exact",
        }
    }
}

/// What the documents leave open about floats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rules {
    /// How products are added.
    pub model: Model,
    /// Every rounding that gives a subnormal number of the accumulation (f32, or f64 for `df`)
    /// gives a zero of its sign, and so does a subnormal src0 (ours).
    pub ftz: bool,
}

/// The number types of an accumulation.
pub(super) trait Real: Copy {
    const ZERO: Self;
    /// `self + terms`, products exact, rounded once.
    fn fused(self, a: &[Self], b: &[Self], stride: usize) -> Self;
    fn times(self, other: Self) -> Self;
    fn plus(self, other: Self) -> Self;
    fn times_plus(self, factor: Self, term: Self) -> Self;
    /// A zero of the same sign instead of a subnormal number.
    fn flush(self) -> Self;
    /// The one NaN.
    fn canonical(self) -> Self;
}

macro_rules! real {
    ($type:ty, $sum:ident :: $new:ident, $round:ident, $nan:expr) => {
        impl Real for $type {
            const ZERO: $type = 0.0;

            fn fused(self, a: &[$type], b: &[$type], stride: usize) -> $type {
                let pairs = || a.iter().zip(b.iter().step_by(stride));
                // Where a term is not a finite number, or all are zeros, the rules of the type's
                // own arithmetic give the result: nothing has to be rounded.
                let special = |(a, b): (&$type, &$type)| !a.is_finite() || !b.is_finite();
                let zero = |(a, b): (&$type, &$type)| *a == 0.0 || *b == 0.0;
                let plain = !self.is_finite() || pairs().any(special);
                if plain {
                    // Finite products cannot make an infinity here, as their sum is exact.
                    let sign = |(a, b): (&$type, &$type)| match (a.is_finite(), b.is_finite()) {
                        (true, true) => 0.0,
                        _ => a * b,
                    };
                    let own = if self.is_finite() { 0.0 } else { self };
                    return pairs().map(sign).fold(own, |sum, term| sum + term);
                }
                if pairs().all(zero) {
                    return pairs().fold(self, |sum, (a, b)| sum + a * b);
                }
                let mut sum = $sum::$new();
                sum.add_value(f64::from(self));
                for (&a, &b) in pairs() {
                    sum.add_product(f64::from(a), f64::from(b));
                }
                sum.$round()
            }

            fn times(self, other: $type) -> $type {
                self * other
            }

            fn plus(self, other: $type) -> $type {
                self + other
            }

            fn times_plus(self, factor: $type, term: $type) -> $type {
                self.mul_add(factor, term)
            }

            fn flush(self) -> $type {
                if self.is_subnormal() { <$type>::copysign(0.0, self) } else { self }
            }

            fn canonical(self) -> $type {
                if self.is_nan() { <$type>::from_bits($nan) } else { self }
            }
        }
    };
}

real!(f32, Sum32::single, to_f32, 0x7fc0_0000);
real!(f64, Sum64::double, to_f64, 0x7ff8 << 48);

/// `c` plus the products of a row of A and a column of B, whose elements are `stride` apart.
/// `stage` is the number of products of one stage.
pub(super) fn dot<T: Real>(rules: Rules, c: T, a: &[T], b: &[T], stride: usize, stage: usize) -> T {
    let flush = |value: T| if rules.ftz { value.flush() } else { value };
    let start = flush(c);
    let pairs = || a.iter().copied().zip(b.iter().step_by(stride).copied());
    let sum = match rules.model {
        Model::Seq => pairs().fold(start, |sum, (a, b)| flush(sum.plus(flush(a.times(b))))),
        Model::Fma => pairs().fold(start, |sum, (a, b)| flush(a.times_plus(b, sum))),
        Model::Stage => a
            .chunks(stage)
            .zip(b.chunks(stage * stride))
            .fold(start, |sum, (a, b)| flush(sum.fused(a, b, stride))),
        Model::Exact => flush(start.fused(a, b, stride)),
    };
    sum.canonical()
}
