//! Numbers of the machine, and how results become such.

use super::misfit;
use quincunx_diag::Result;
use quincunx_graph::{Quantiser, Scalar};
use quincunx_num::{F16, FloatOverflow, Overflow, Rounding};
use std::sync::Arc;

/// A value, in the order of the graph.
#[derive(Clone, Debug)]
pub(super) enum Number {
    /// An input, which is not on the machine yet.
    Reals(Arc<[f64]>),
    /// Signed codes of 8 bits.
    Codes(Arc<[i8]>, Grid),
    /// Numbers of 16 bits, widened.
    Halves(Arc<[f32]>),
    /// The result of a layer whose last node has not come.
    Pending(Box<Number>),
}

/// What a value is held as.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Form {
    Reals,
    Codes(Grid),
    Halves,
}

/// A grid of 256 signed codes: real numbers are `(code - zero) * scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Grid {
    pub(super) scale: f64,
    /// -128 to 127. Codes of unsigned grids are held minus 128, and so is their zero.
    pub(super) zero: i32,
    is_signed: bool,
}

impl Grid {
    /// The grid of a quantiser.
    ///
    /// # Errors
    /// `Q4096` for one that varies within a tensor, has another width than 8, or does not round to
    /// the nearest and saturate.
    pub(super) fn new(quantiser: &Quantiser) -> Result<Grid> {
        let uniform = || {
            let modes = (quantiser.rounding.as_uniform()?, quantiser.overflow.as_uniform()?);
            let is_usual = modes == (Rounding::HalfEven, Overflow::Saturate);
            let is_byte = quantiser.width.as_uniform()? == 8;
            let is_signed = quantiser.signed.as_uniform()?;
            let zero = quantiser.zero.as_uniform()? - if is_signed { 0 } else { 128 };
            let zero = i32::from(i8::try_from(zero).ok()?);
            let grid = Grid { scale: quantiser.scale.as_uniform()?, zero, is_signed };
            (is_usual && is_byte).then_some(grid)
        };
        let kind = "one grid of 8 bits that rounds half to even and saturates";
        uniform().ok_or_else(|| misfit(format!("the quantiser {quantiser} is not {kind}")))
    }

    /// As the graph says it.
    fn scalar(self) -> Scalar {
        Scalar {
            signed: self.is_signed,
            width: 8,
            scale: self.scale,
            zero: i64::from(self.zero) + if self.is_signed { 0 } else { 128 },
            rounding: Rounding::HalfEven,
            overflow: Overflow::Saturate,
        }
    }

    /// The codes of numbers that enter: those of the nearest numbers of the grid, exactly.
    pub(super) fn enter(self, reals: &[f64]) -> Arc<[i8]> {
        let nearest = self.scalar().nearest_of(reals);
        // A number of the grid is a whole number of steps, rounded once.
        let steps = nearest.iter().map(|real| (real / self.scale).round());
        steps.map(|steps| (steps + f64::from(self.zero)) as i8).collect()
    }

    /// Factor and addend that make numbers of codes.
    fn opening(self) -> (f32, f32) {
        (self.scale as f32, (-f64::from(self.zero) * self.scale) as f32)
    }

    /// Factor and addend that make codes of numbers.
    fn closing(self) -> (f32, f32) {
        ((1.0 / self.scale) as f32, self.zero as f32)
    }
}

impl Number {
    /// The real numbers; `None` inside of a layer.
    pub(super) fn reals(&self) -> Option<Vec<f64>> {
        match self {
            Number::Reals(reals) => Some(reals.to_vec()),
            Number::Codes(codes, grid) => {
                let real = |&code: &i8| f64::from(i32::from(code) - grid.zero) * grid.scale;
                Some(codes.iter().map(real).collect())
            }
            Number::Halves(halves) => Some(halves.iter().map(|&half| half.into()).collect()),
            Number::Pending(_) => None,
        }
    }

    /// The numbers at these places, one after the other; `None` inside of a layer.
    pub(super) fn ordered(&self, places: &[usize]) -> Option<Number> {
        Some(match self {
            Number::Reals(reals) => Number::Reals(places.iter().map(|&at| reals[at]).collect()),
            Number::Codes(codes, grid) => {
                Number::Codes(places.iter().map(|&at| codes[at]).collect(), *grid)
            }
            Number::Halves(halves) => Number::Halves(places.iter().map(|&at| halves[at]).collect()),
            Number::Pending(_) => return None,
        })
    }

    /// The numbers in f32, as vector instructions see them; `None` for what is not on the machine.
    pub(super) fn opened(&self) -> Option<Vec<f32>> {
        match self {
            Number::Codes(codes, grid) => {
                let (factor, addend) = grid.opening();
                Some(codes.iter().map(|&code| f32::from(code) * factor + addend).collect())
            }
            Number::Halves(halves) => Some(halves.to_vec()),
            Number::Reals(_) | Number::Pending(_) => None,
        }
    }
}

/// What follows the sums of a layer, before they are rounded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Activation {
    None,
    /// `max(x, 0)`.
    Relu,
    /// `x * slope` below 0.
    Leaky(f32),
    /// Between 0 and this.
    Limit(f32),
}

impl Activation {
    fn apply(self, x: f32) -> f32 {
        match self {
            Activation::Leaky(slope) if x < 0.0 => x * slope,
            Activation::None | Activation::Leaky(_) => x,
            Activation::Relu => x.max(0.0),
            Activation::Limit(most) => x.clamp(0.0, most),
        }
    }
}

impl Form {
    /// Numbers of this form.
    ///
    /// # Panics
    /// For [`Form::Reals`], which no layer gives.
    pub(super) fn round(self, mut numbers: Vec<f32>, activation: Activation) -> Number {
        if activation != Activation::None {
            numbers.iter_mut().for_each(|x| *x = activation.apply(*x));
        }
        match self {
            Form::Reals => unreachable!("layers give numbers of the machine"),
            Form::Codes(grid) => {
                let (factor, addend) = grid.closing();
                let code = |x: &f32| (x * factor + addend).round_ties_even() as i8;
                Number::Codes(numbers.iter().map(code).collect(), grid)
            }
            Form::Halves => Number::Halves(numbers.into_iter().map(half).collect()),
        }
    }
}

/// The nearest number of 16 bits, ties to even; infinity beyond the range.
fn half(x: f32) -> f32 {
    F16::from_f32(x, FloatOverflow::Infinity).map_or(f32::NAN, F16::to_f32)
}

/// A real number that enters as a half: rounded once.
pub(super) fn entering(x: f64) -> f32 {
    F16::from_f64(x, FloatOverflow::Infinity).map_or(f32::NAN, F16::to_f32)
}
