//! Numbers of the machine.

use super::misfit;
use quincunx_diag::Result;
use quincunx_graph::{Quantiser, Scalar};
use quincunx_num::{Overflow, Rounding};
use quincunx_tensor::{DType, View};
use std::sync::Arc;

/// A value, in the order of the graph.
#[derive(Clone, Debug)]
pub(super) enum Number {
    /// An input, which is not on the machine yet.
    Entering(Arc<[f64]>),
    /// Codes minus the code of 0.
    Codes(Arc<[i16]>, Grid),
    /// What leaves the machine as sums, scaled.
    Results(Arc<[f64]>),
    /// Floats of any type.
    Floats(Arc<[f32]>),
    /// The result of a layer whose last node has not come.
    Pending(Box<Number>),
}

/// What a value is held as.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Form {
    Entering,
    Codes(Grid),
    Results,
    Floats(Float),
}

/// Types of floats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Float {
    /// The upper half of an f32.
    Bf16,
    /// IEEE binary16.
    Fp16,
    /// f32, of which products see the upper 19 bits.
    Tf32,
    /// f32 that no layer computes with.
    Last,
}

impl Float {
    /// Name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Float::Bf16 => "bf16",
            Float::Fp16 => "fp16",
            Float::Tf32 => "tf32",
            Float::Last => "f32",
        }
    }

    /// Products that the array adds in a stage.
    pub(super) fn stage(self) -> usize {
        match self {
            Float::Bf16 | Float::Fp16 => 2,
            Float::Tf32 | Float::Last => 1,
        }
    }

    /// The nearest number that is stored, ties to even; infinity above the range.
    pub(super) fn round(self, real: f64) -> f32 {
        let stored = match self {
            Float::Bf16 => DType::BF16,
            Float::Fp16 => DType::F16,
            Float::Tf32 | Float::Last => DType::F32,
        };
        // Every one of these types is a part of f32.
        stored.round(real) as f32
    }

    /// What products see of a stored number.
    pub(super) fn factor(self, stored: f32) -> f32 {
        match self {
            Float::Tf32 => f32::from_bits(stored.to_bits() >> 13 << 13),
            Float::Bf16 | Float::Fp16 | Float::Last => stored,
        }
    }
}

/// Elements of an axis: so many from one on, every so many of them.
pub(super) struct Cut {
    pub(super) axis: usize,
    pub(super) start: usize,
    pub(super) step: usize,
    pub(super) count: usize,
}

/// What becomes of the numbers of a tensor.
pub(super) enum Move {
    /// Axis i of the result is this axis.
    Transpose(Vec<usize>),
    /// Parts of axes.
    Cut(Vec<Cut>),
}

impl Number {
    /// The real numbers, each rounded once; `None` inside of a layer.
    pub(super) fn reals(&self) -> Option<Vec<f64>> {
        match self {
            Number::Entering(reals) | Number::Results(reals) => Some(reals.to_vec()),
            Number::Codes(codes, grid) => {
                Some(codes.iter().map(|&code| f64::from(code) * grid.scale).collect())
            }
            Number::Floats(floats) => Some(floats.iter().map(|&float| float.into()).collect()),
            Number::Pending(_) => None,
        }
    }

    /// The numbers of a tensor of this shape, moved; `None` inside of a layer.
    pub(super) fn moved(&self, shape: &[usize], how: &Move) -> Option<Number> {
        fn all<T: Copy>(numbers: &[T], shape: &[usize], how: &Move) -> Arc<[T]> {
            let view = View::new(numbers, shape);
            let view = match how {
                Move::Transpose(order) => view.permute(order),
                Move::Cut(cuts) => {
                    let mut view = view;
                    for cut in cuts {
                        view = view.slice(cut.axis, cut.start, cut.step, cut.count);
                    }
                    view
                }
            };
            view.to_vec().into()
        }
        Some(match self {
            Number::Entering(reals) => Number::Entering(all(reals, shape, how)),
            Number::Codes(codes, grid) => Number::Codes(all(codes, shape, how), *grid),
            Number::Results(reals) => Number::Results(all(reals, shape, how)),
            Number::Floats(floats) => Number::Floats(all(floats, shape, how)),
            Number::Pending(_) => return None,
        })
    }
}

/// A grid of 256 codes. Codes are held minus the code of 0: real numbers are `code * scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Grid {
    /// From 2^-149 to below 2^128, as that of f32 numbers.
    pub(super) scale: f64,
    /// The lowest code, -255 to 0.
    pub(super) low: i16,
}

impl Grid {
    /// The grid of a quantiser.
    ///
    /// # Errors
    /// `Q6190` for one that varies within a tensor, has another width than 8, or does not round to
    /// the nearest and saturate; for a scale that f32 cannot hold about.
    pub(super) fn new(quantiser: &Quantiser) -> Result<Grid> {
        let uniform = || {
            let modes = (quantiser.rounding.as_uniform()?, quantiser.overflow.as_uniform()?);
            let is_usual = modes == (Rounding::HalfEven, Overflow::Saturate);
            let is_byte = quantiser.width.as_uniform()? == 8;
            let first = if quantiser.signed.as_uniform()? { -128 } else { 0 };
            let low = i64::from(first).checked_sub(quantiser.zero.as_uniform()?)?;
            let low = i16::try_from(low).ok().filter(|low| (-255..=0).contains(low))?;
            let grid = Grid { scale: quantiser.scale.as_uniform()?, low };
            (is_usual && is_byte && is_scale(grid.scale)).then_some(grid)
        };
        let kind = "one grid of 8 bits that rounds half to even and saturates";
        uniform().ok_or_else(|| misfit(format!("the quantiser {quantiser} is not {kind}")))
    }

    /// The highest code.
    pub(super) fn high(self) -> i16 {
        self.low + 255
    }

    /// The codes of the nearest numbers of the grid, exactly. The numbers are finite.
    pub(super) fn codes(self, reals: &[f64]) -> Vec<i16> {
        let scalar = Scalar {
            signed: false,
            width: 8,
            scale: self.scale,
            zero: -i64::from(self.low),
            rounding: Rounding::HalfEven,
            overflow: Overflow::Saturate,
        };
        // A number of the grid is a whole number of steps, rounded once.
        let nearest = scalar.nearest_of(reals).into_iter();
        nearest.map(|real| (real / self.scale).round() as i16).collect()
    }

    /// The code of the nearest number of the grid, which is at an end for infinity.
    pub(super) fn code(self, real: f64) -> i16 {
        self.codes(&[real.clamp(f64::MIN, f64::MAX)]).first().copied().unwrap_or(0)
    }
}

/// Products and quotients of a few such scales and whole numbers are far from the ends of f64.
pub(super) fn is_scale(scale: f64) -> bool {
    (2.0_f64.powi(-149)..2.0_f64.powi(128)).contains(&scale)
}
