//! Quantisers: how real numbers become codes.

use quincunx_diag::{Diagnostic, Result};
use quincunx_num::{Dyadic, Int, Interval, Overflow, Ratio, Rounding, code_range, round_ratio};
use quincunx_tensor::{Shape, View, broadcast_shapes};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A parameter that is the same for a whole tensor, or varies per channel or per element.
///
/// Invariant: `values.len()` is the product of `shape`. The shape broadcasts to the tensor it
/// belongs to, aligned at the innermost axis (a per-channel parameter of an NCHW tensor has shape
/// `[C, 1, 1]`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Param<T> {
    // Boxed slices: a graph holds six of these per quantiser.
    shape: Box<[usize]>,
    values: Box<[T]>,
}

impl<T: Copy + PartialEq> Param<T> {
    /// One value for the whole tensor.
    pub fn uniform(value: T) -> Self {
        Param { shape: Box::default(), values: Box::new([value]) }
    }

    /// Values of a given shape. All-equal values become [`Param::uniform`].
    ///
    /// # Errors
    /// `Q0301` when there is no value or their number is not the product of the shape.
    pub fn new(shape: &[usize], values: Vec<T>) -> Result<Self> {
        if quincunx_tensor::element_count(shape) != Some(values.len()) || values.is_empty() {
            return Err(Diagnostic::invalid(
                "Q0301",
                format!("a parameter of shape {shape:?} cannot hold {} values", values.len()),
            ));
        }
        if values.iter().all(|v| *v == values[0]) {
            return Ok(Self::uniform(values[0]));
        }
        Ok(Param { shape: shape.into(), values: values.into() })
    }

    /// The value for the whole tensor, if it does not vary.
    pub fn as_uniform(&self) -> Option<T> {
        (self.values.len() == 1).then(|| self.values[0])
    }

    /// Shape of the parameter.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The values in row-major order.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// One value per element of a tensor of shape `shape`, row-major; `None` when the parameter
    /// does not broadcast to it.
    pub fn expand(&self, shape: &[usize]) -> Option<Vec<T>> {
        Some(View::new(&self.values, &self.shape).broadcast(shape)?.to_vec())
    }

    /// Applies a function to every value.
    pub fn map<U: Copy + PartialEq>(&self, function: impl FnMut(T) -> U) -> Param<U> {
        Param {
            shape: self.shape.clone(),
            values: self.values.iter().copied().map(function).collect(),
        }
    }

    fn is_well_formed(&self) -> bool {
        !self.values.is_empty()
            && quincunx_tensor::element_count(&self.shape) == Some(self.values.len())
    }

    fn broadcasts_to(&self, shape: &[usize]) -> bool {
        broadcast_shapes(&self.shape, shape).as_deref() == Some(shape)
    }
}

/// How real numbers become integer codes and back: `code = overflow(round(x / scale) + zero)`,
/// `real = (code - zero) * scale`.
///
/// Invariants: scales are positive and finite, widths are 0 to 64, and every zero point is a code
/// of its own width (with [`Overflow::Wrap`], any integer of that width).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantiser {
    /// Codes have a sign.
    pub signed: Param<bool>,
    /// Bits of a code, sign included.
    pub width: Param<u32>,
    /// Distance between two codes. Every f64 is an exact binary fraction.
    pub scale: Param<f64>,
    /// The code of the real number 0.
    pub zero: Param<i64>,
    /// How a real number between two codes is rounded.
    pub rounding: Param<Rounding>,
    /// What happens outside the range of codes.
    pub overflow: Param<Overflow>,
}

/// The quantiser of one element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scalar {
    /// Codes have a sign.
    pub signed: bool,
    /// Bits of a code.
    pub width: u32,
    /// Distance between two codes.
    pub scale: f64,
    /// Code of 0.
    pub zero: i64,
    /// Rounding mode.
    pub rounding: Rounding,
    /// Overflow mode.
    pub overflow: Overflow,
}

impl Quantiser {
    /// A quantiser without zero point that is the same for the whole tensor: rounds half to even
    /// and saturates.
    pub fn symmetric(signed: bool, width: u32, scale: f64) -> Self {
        Quantiser {
            signed: Param::uniform(signed),
            width: Param::uniform(width),
            scale: Param::uniform(scale),
            zero: Param::uniform(0),
            rounding: Param::uniform(Rounding::HalfEven),
            overflow: Param::uniform(Overflow::Saturate),
        }
    }

    /// Checks the invariants.
    ///
    /// # Errors
    /// `Q0302` names the parameter that breaks one.
    pub fn check(&self) -> Result<()> {
        let fail = |what: String| Err(Diagnostic::invalid("Q0302", what));
        if !self.is_well_formed() {
            return fail(
                "a quantiser parameter has another number of values than its shape".to_owned(),
            );
        }
        if let Some(scale) = self.scale.values().iter().find(|s| !(s.is_finite() && **s > 0.0)) {
            return fail(format!("quantiser scale {scale} is not a positive finite number"));
        }
        if let Some(width) = self.width.values().iter().find(|w| **w > 64) {
            return fail(format!("quantiser width {width} is above 64 bits"));
        }
        let shape = self.shape();
        let Some(shape) = shape else {
            return fail("quantiser parameters have shapes that do not broadcast".to_owned());
        };
        for scalar in self.scalars(&shape).unwrap_or_default() {
            let (low, high) = code_range(scalar.signed, scalar.width, Overflow::Saturate);
            if !(low..=high).contains(&Int::from(scalar.zero)) {
                return fail(format!(
                    "zero point {} is not a code of {} bits",
                    scalar.zero, scalar.width
                ));
            }
        }
        Ok(())
    }

    /// The invariant of every parameter, which a deserialised quantiser need not satisfy.
    fn is_well_formed(&self) -> bool {
        self.signed.is_well_formed()
            && self.width.is_well_formed()
            && self.scale.is_well_formed()
            && self.zero.is_well_formed()
            && self.rounding.is_well_formed()
            && self.overflow.is_well_formed()
    }

    /// The shape the parameters broadcast to together.
    pub fn shape(&self) -> Option<Shape> {
        let shapes = [
            self.signed.shape(),
            self.width.shape(),
            self.scale.shape(),
            self.zero.shape(),
            self.rounding.shape(),
            self.overflow.shape(),
        ];
        shapes.into_iter().try_fold(Shape::new(), |all, shape| broadcast_shapes(&all, shape))
    }

    /// True when no parameter varies within a tensor.
    pub fn is_uniform(&self) -> bool {
        self.shape().is_some_and(|shape| shape.is_empty())
    }

    /// True when every parameter broadcasts to a tensor of shape `shape`.
    pub fn fits(&self, shape: &[usize]) -> bool {
        self.signed.broadcasts_to(shape)
            && self.width.broadcasts_to(shape)
            && self.scale.broadcasts_to(shape)
            && self.zero.broadcasts_to(shape)
            && self.rounding.broadcasts_to(shape)
            && self.overflow.broadcasts_to(shape)
    }

    /// The quantiser of every element of a tensor, row-major; `None` when a parameter does not
    /// broadcast to the shape.
    pub fn scalars(&self, shape: &[usize]) -> Option<Vec<Scalar>> {
        let signed = self.signed.expand(shape)?;
        let width = self.width.expand(shape)?;
        let scale = self.scale.expand(shape)?;
        let zero = self.zero.expand(shape)?;
        let rounding = self.rounding.expand(shape)?;
        let overflow = self.overflow.expand(shape)?;
        Some(
            (0..signed.len())
                .map(|i| Scalar {
                    signed: signed[i],
                    width: width[i],
                    scale: scale[i],
                    zero: zero[i],
                    rounding: rounding[i],
                    overflow: overflow[i],
                })
                .collect(),
        )
    }

    /// True when every scale is a power of two and every zero point 0, so that the grid is a
    /// fixed-point type.
    pub fn is_fixed_point(&self) -> bool {
        self.scale.values().iter().all(|&s| Dyadic::from_f64(s).is_some_and(|d| d.log2().is_some()))
            && self.zero.values().iter().all(|&z| z == 0)
    }
}

impl Scalar {
    /// Lowest and highest code.
    pub fn range(&self) -> (Int, Int) {
        code_range(self.signed, self.width, self.overflow)
    }

    /// The number of the grid that a finite number becomes: rounded and overflowed exactly, then
    /// rounded once to f64.
    pub fn nearest(&self, x: f64) -> f64 {
        self.nearest_in_f64(x).unwrap_or_else(|| self.nearest_in_fractions(x))
    }

    /// [`Scalar::nearest`] of many numbers.
    pub fn nearest_of(&self, reals: &[f64]) -> Vec<f64> {
        const MOST: f64 = (1_u64 << 40) as f64;
        // Added and taken away again it leaves whole numbers, ties to even.
        const WHOLE: f64 = (3_u64 << 51) as f64;
        let zero = self.zero as f64;
        let is_plain = self.is_power_of_two() && self.width <= 40 && zero.abs() <= MOST;
        let inverse = 1.0 / self.scale;
        // How far above an even number ties go on to the next one.
        let tie = match self.rounding {
            Rounding::HalfEven => f64::INFINITY,
            Rounding::HalfCeil => 0.5,
            _ => f64::NAN,
        };
        if !is_plain || !inverse.is_normal() || tie.is_nan() || self.overflow == Overflow::Wrap {
            return reals.iter().map(|&x| self.nearest(x)).collect();
        }
        let [low, high] = self.small_range().map(|end| end - zero);
        let nearest = |x: &f64| {
            // What is clamped twice was beyond the ends before.
            let steps = (x * inverse).clamp(-4.0 * MOST, 4.0 * MOST);
            let even = (steps + WHOLE) - WHOLE;
            let whole = if steps - even >= tie { even + 1.0 } else { even };
            whole.clamp(low, high) * self.scale + 0.0
        };
        reals.iter().map(nearest).collect()
    }

    /// The scale is a normal power of two.
    fn is_power_of_two(&self) -> bool {
        self.scale.to_bits() << 12 == 0 && self.scale.is_normal()
    }

    fn nearest_in_fractions(&self, x: f64) -> f64 {
        let exact = |v: f64| Dyadic::from_f64(v).unwrap_or(Dyadic::ZERO);
        let steps = exact(x).to_ratio() / self.ratio();
        let code = round_ratio(&steps, self.rounding) + Int::from(self.zero);
        let code = self.overflow.apply(&code, self.signed, self.width);
        Dyadic::new(code - Int::from(self.zero), 0).mul(&exact(self.scale)).to_f64()
    }

    /// The same where f64 decides: the quotient is so small that every whole number near it is
    /// exact, and farther from a threshold than the division may be off.
    fn nearest_in_f64(&self, x: f64) -> Option<f64> {
        const MOST: f64 = (1_u64 << 50) as f64;
        let (steps, zero) = (x / self.scale, self.zero as f64);
        let is_small = self.width <= 50 && zero.abs() <= MOST && steps.abs() <= MOST;
        if !is_small || (x != 0.0 && steps.abs() < f64::MIN_POSITIVE) {
            return None;
        }
        let from_threshold = (steps * 2.0 - (steps * 2.0).round()).abs();
        if !self.is_power_of_two() && from_threshold <= steps.abs() * 4.0 * f64::EPSILON {
            return None;
        }
        let code = self.rounding.whole(steps) + zero;
        let [low, high] = self.small_range();
        let is_within = low <= code && code <= high;
        if !is_within && self.overflow == Overflow::Wrap {
            return None;
        }
        Some((code.clamp(low, high) - zero) * self.scale)
    }

    /// The lowest and the highest code of at most 50 bits.
    fn small_range(&self) -> [f64; 2] {
        let narrow = f64::from(u8::from(self.overflow == Overflow::SaturateNarrow));
        let half = if self.width == 0 { 0.0 } else { f64::from(self.width - 1).exp2() };
        match (self.width, self.signed) {
            (0, _) => [0.0, 0.0],
            (_, true) => [narrow - half, half - 1.0],
            (_, false) => [0.0, half * 2.0 - 1.0 - narrow],
        }
    }

    /// The lowest and the highest number, rounded to f64.
    pub fn ends(&self) -> [f64; 2] {
        let (low, high) = self.range();
        let scale = Dyadic::from_f64(self.scale).unwrap_or(Dyadic::ZERO);
        [low, high].map(|code| Dyadic::new(code - Int::from(self.zero), 0).mul(&scale).to_f64())
    }

    /// The real numbers of the grid as an interval; `None` unless the scale is a power of two.
    pub fn interval(&self) -> Option<Interval> {
        let exponent = Dyadic::from_f64(self.scale)?.log2()?;
        let (low, high) = self.range();
        let zero = Int::from(self.zero);
        Some(Interval::new(low - &zero, high - zero, exponent))
    }

    /// The scale as a fraction.
    pub fn ratio(&self) -> Ratio {
        Dyadic::from_f64(self.scale).unwrap_or(Dyadic::ZERO).to_ratio()
    }
}

/// `u8 scale 0.5 zero 3 half-even saturate`; parameters that vary show their shape.
impl fmt::Display for Quantiser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.signed.as_uniform() {
            Some(true) => "s".to_owned(),
            Some(false) => "u".to_owned(),
            None => format!("signed{:?}", self.signed.shape()),
        };
        write!(f, "{sign}{}", show(&self.width))?;
        write!(f, " scale {}", show(&self.scale))?;
        if self.zero.as_uniform() != Some(0) {
            write!(f, " zero {}", show(&self.zero))?;
        }
        write!(f, " {} {}", show(&self.rounding), show(&self.overflow))
    }
}

fn show<T: Copy + PartialEq + fmt::Display>(param: &Param<T>) -> String {
    match param.as_uniform() {
        Some(value) => value.to_string(),
        None => format!("{:?}", param.shape()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers on, beside and between the thresholds of many grids.
    #[test]
    fn floats_decide_as_fractions_do() {
        let (mut decided, mut all) = (0, 0);
        let mut check = |grid: &Scalar, reals: &[f64]| {
            for (&x, found) in reals.iter().zip(grid.nearest_of(reals)) {
                let expected = grid.nearest_in_fractions(x).to_bits();
                assert_eq!(grid.nearest(x).to_bits(), expected, "{grid:?} {x:e}");
                assert_eq!(found.to_bits(), expected, "{grid:?} {x:e}");
                decided += usize::from(grid.nearest_in_f64(x).is_some());
                all += 1;
            }
        };
        let scales = [1.0, 0.25, 0.1, 1.0 / 3.0, 3e-5, 1e300, 2.0_f64.powi(-1040), 7.0];
        let widths = [0, 1, 2, 8, 16, 50, 64];
        for (rounding, overflow) in Rounding::ALL.into_iter().zip(Overflow::ALL.into_iter().cycle())
        {
            for (index, (scale, width)) in
                scales.into_iter().flat_map(|scale| widths.map(|width| (scale, width))).enumerate()
            {
                let (signed, zero) = (index % 2 == 0, if width == 8 { 3 } else { 0 });
                let grid = Scalar { signed, width, scale, zero, rounding, overflow };
                let near = (-60_i32..60).map(|step| f64::from(step) * 0.5 * scale);
                let reals = near.flat_map(|x| [x, x.next_up(), x.next_down(), x * 1.37, x * 1e9]);
                let reals: Vec<f64> = reals.filter(|x| x.is_finite()).collect();
                check(&grid, &reals);
                for rounding in [Rounding::HalfEven, Rounding::HalfCeil] {
                    check(&Scalar { rounding, overflow: Overflow::Saturate, ..grid }, &reals);
                }
            }
        }
        assert!(decided * 4 > all, "{decided} of {all}");
    }
}
