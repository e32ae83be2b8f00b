//! Models of float accumulation.
//!
//! No public source states what the silicon does; a result names its model. Common rules: round to
//! nearest, ties to even; overflow to infinity; NaN is canonical; exact cancellation gives +0.

use super::exact::{Sum, Sum32, Sum64};

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

/// `start` and exact products, rounded once.
fn fused<const LIMBS: usize>(
    start: f64,
    pairs: impl Iterator<Item = (f64, f64)> + Clone,
    mut sum: Sum<LIMBS>,
    round: impl Fn(&Sum<LIMBS>) -> f64,
) -> f64 {
    // Where a term is not a finite number, or all are zeros, ordinary arithmetic gives the result:
    // nothing has to be rounded.
    let is_special = |(a, b): (f64, f64)| !a.is_finite() || !b.is_finite();
    if !start.is_finite() || pairs.clone().any(is_special) {
        // Finite products cannot make an infinity here, as their sum is exact.
        let sign = |(a, b): (f64, f64)| if is_special((a, b)) { a * b } else { 0.0 };
        let own = if start.is_finite() { 0.0 } else { start };
        return pairs.map(sign).fold(own, |sum, term| sum + term);
    }
    if pairs.clone().all(|(a, b)| a == 0.0 || b == 0.0) {
        return pairs.fold(start, |sum, (a, b)| sum + a * b);
    }
    sum.add_value(start);
    pairs.for_each(|(a, b)| sum.add_product(a, b));
    round(&sum)
}

macro_rules! real {
    ($type:ty, $sum:ident :: $new:ident, $round:ident, $nan:expr) => {
        impl Real for $type {
            const ZERO: $type = 0.0;

            fn fused(self, a: &[$type], b: &[$type], stride: usize) -> $type {
                let pairs = a.iter().zip(b.iter().step_by(stride));
                let pairs = pairs.map(|(&a, &b)| (f64::from(a), f64::from(b)));
                fused(f64::from(self), pairs, $sum::$new(), |sum| sum.$round().into()) as $type
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

/// A number of f32, or one times a power of two such that f64 holds all products of two exactly; results
/// are rounded to f32.
#[derive(Clone, Copy)]
pub(super) struct Scaled(pub(super) f64);

impl Scaled {
    fn rounded(value: f64) -> Scaled {
        Scaled((value as f32).into())
    }
}

impl Real for Scaled {
    const ZERO: Scaled = Scaled(0.0);

    fn fused(self, a: &[Scaled], b: &[Scaled], stride: usize) -> Scaled {
        let pairs = a.iter().zip(b.iter().step_by(stride)).map(|(a, b)| (a.0, b.0));
        Scaled(fused(self.0, pairs, Sum64::double(), |sum| sum.to_f32().into()))
    }

    fn times(self, other: Scaled) -> Scaled {
        Scaled::rounded(self.0 * other.0)
    }

    fn plus(self, other: Scaled) -> Scaled {
        // Rounding to f64 first does no harm to sums of two numbers of f32.
        Scaled::rounded(self.0 + other.0)
    }

    fn times_plus(self, factor: Scaled, term: Scaled) -> Scaled {
        term.fused(&[self], &[factor], 1)
    }

    fn flush(self) -> Scaled {
        Scaled((self.0 as f32).flush().into())
    }

    fn canonical(self) -> Scaled {
        Scaled((self.0 as f32).canonical().into())
    }
}

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
