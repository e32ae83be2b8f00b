//! Quantisers: how real numbers become codes.

use quincunx_diag::{Diagnostic, Result};
use quincunx_num::{Dyadic, Int, Interval, Overflow, Ratio, Rounding, code_range};
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
