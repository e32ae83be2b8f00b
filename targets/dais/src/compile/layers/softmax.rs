//! Softmax by tables.
//!
//! With `n` numbers along the axis and `p` bits of precision:
//!
//! 1. `d = x - max(x)`, exact and never positive;
//! 2. `e = round(2^g * e^d) / 2^g`, a table of `d`, with `g = p + 2 + ceil(log2 n)` bits;
//! 3. `s = sum(e)`, exact, from 1 to `n`;
//! 4. `r`: a table of `s`, of which `p + 2` fraction bits are kept: `1 / (s' + half a step)`,
//!    rounded to `p + 2` bits;
//! 5. `y = e * r`, exact.
//!
//! Errors of `s`: `n` roundings of `2^-(g+1)`, together at most `2^-(p+3)`, and half a dropped step,
//! `2^-(p+3)`; relative to `s >= 1` and with `e <= s` they move `y` by no more. With the rounding of
//! `e` and that of `r`, each `y` is within `2^-p` of the true softmax.

use super::super::builder::Builder;
use super::super::exact::{aligned, format_of};
use super::super::expr::{Expr, Format};
use super::super::number::{Form, Number};
use super::super::quantiser;
use super::super::scalar;
use super::super::sums::sum;
use super::super::wire::Wire;
use super::numeric::groups;
use super::{Layer, Numbers, refuse};
use quincunx_diag::Result;
use quincunx_graph::{Binary, Scalar, Softmax, Unary};
use quincunx_num::{Dyadic, Int, Interval, Overflow, Ratio, Rounding};
use quincunx_tensor::View;
use std::rc::Rc;

/// Bits to which the results of a softmax are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Precision(pub(crate) u32);

/// A softmax along an axis.
pub(super) fn softmax(
    layer: &Layer<'_>,
    builder: &mut Builder<'_>,
    softmax: &Softmax,
) -> Result<Numbers> {
    if softmax.log {
        return Err(refuse(
            "the logarithm of a softmax is a function of several numbers, which a table cannot give",
        ));
    }
    let shape = layer.shape_of(0);
    let format = format_of(layer.graph[layer.node.output].dtype);
    let (numbers, size, count) = groups(layer.operand(0)?, shape, &[softmax.axis]);
    let mut lines = Vec::with_capacity(numbers.len());
    for group in 0..count {
        let group: Vec<&Number> = numbers[group * size..][..size].iter().collect();
        lines.extend(line(builder, &group, format, layer.precision)?);
    }
    // The axis goes back to its place.
    let mut extents: Vec<usize> = shape.to_vec();
    let along = extents.remove(softmax.axis);
    extents.push(along);
    let mut order: Vec<usize> = (0..softmax.axis).collect();
    order.push(shape.len() - 1);
    order.extend(softmax.axis..shape.len() - 1);
    Ok(View::new(&lines, &extents).permute(&order).to_vec())
}

/// `bits` fraction bits, from 0 to 1.
fn fractions(bits: u32) -> Scalar {
    Scalar {
        signed: false,
        width: bits + 1,
        scale: 0.5_f64.powi(i32::try_from(bits).expect("a few bits")),
        zero: 0,
        rounding: Rounding::HalfEven,
        overflow: Overflow::Saturate,
    }
}

fn line(
    builder: &mut Builder<'_>,
    x: &[&Number],
    format: Format,
    Precision(bits): Precision,
) -> Result<Numbers> {
    let count = x.len();
    if count < 2 {
        return Ok(vec![Wire::one().into(); count]);
    }
    let (wires, unit) = aligned(builder, x)?;
    let mut top = wires[0].clone();
    for wire in &wires[1..] {
        top = builder.max(&top, wire)?;
    }
    let kept = bits + 2;
    let grid = fractions(kept + count.next_power_of_two().trailing_zeros());
    let mut powers = Vec::with_capacity(count);
    for wire in &wires {
        let below = builder.subtract(wire, &top)?;
        let below = not_positive(builder, &below)?;
        let below = Number::scaled(builder, &below, &unit, &Ratio::ZERO)?;
        let power = scalar::unary(builder, Unary::Exp, format, &below)?;
        powers.push(quantiser::quantise(builder, &power, &grid)?.wire);
    }
    let one = Dyadic::new(Int::ONE, 0);
    let terms: Vec<(Wire, Dyadic)> = powers.iter().map(|e| (e.clone(), one.clone())).collect();
    let total = sum(builder, &terms)?;
    let inverse = inverse(builder, &total, count, kept).map_err(|_| {
        refuse(format!("the sum of {count} powers is too long for a table at {bits} bits"))
            .help("ask for fewer --softmax-bits")
    })?;
    powers.iter().map(|power| Ok(builder.multiply(power, &inverse)?.into())).collect()
}

/// A difference from the largest number, of which the range alone does not say that it is not
/// positive.
fn not_positive(builder: &mut Builder<'_>, x: &Wire) -> Result<Wire> {
    let range = builder.range(x);
    if range.high() <= &Int::ZERO {
        return Ok(x.clone());
    }
    let known = Interval::new(range.low().clone(), Int::ZERO, range.exponent());
    builder.cut(x, known)
}

/// `1 / total`, for a total from 1 to `count` of which `kept` fraction bits are looked at.
fn inverse(builder: &mut Builder<'_>, total: &Wire, count: usize, kept: u32) -> Result<Wire> {
    let exponent = -i32::try_from(kept).expect("a few bits");
    let one = Int::ONE << kept as usize;
    let range = Interval::new(one.clone(), one * Int::from(count), exponent);
    let total = builder.cut(total, range)?;
    let middle = Dyadic::new(Int::ONE, exponent - 1).to_ratio();
    let line = Expr::Line { unit: Ratio::ONE, offset: middle };
    let one = Rc::new(Expr::Constant(Ratio::ONE));
    let function = Expr::Binary(Binary::Div, Format::Double, one, Rc::new(line));
    let form: Option<Rc<Form>> = Some(builder.memory.function(function));
    let inverse = Number { wire: total, form };
    Ok(quantiser::quantise(builder, &inverse, &fractions(kept))?.wire)
}
