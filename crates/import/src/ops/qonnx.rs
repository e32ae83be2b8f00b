//! The QONNX operators, and ours for quantisers that QONNX cannot describe.
//!
//! `Quant` computes `(round(clip(x / scale + zero)) - zero) * scale`. On a constant its codes are
//! computed here, exactly.

use crate::attributes::malformed;
use crate::context::NodeContext;
use quincunx_diag::{Diagnostic, Result, did_you_mean};
use quincunx_graph::{Binary, Compare, Constant, Op, Param, Quantiser, ValueId};
use quincunx_num::{Dyadic, Int, Overflow, Ratio, Rounding, round_ratio};
use quincunx_tensor::{Tensor, View, show_shape};

pub(crate) fn quant(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let signed = node.attributes.flag("signed", true)?;
    let narrow = node.attributes.flag("narrow", false)?;
    let overflow = if narrow { Overflow::SaturateNarrow } else { Overflow::Saturate };
    let mode = node.attributes.string("rounding_mode")?.unwrap_or("ROUND");
    let rounding = rounding(mode)?;
    let quantiser = quantiser(node, Param::uniform(signed), rounding, Param::uniform(overflow))?;
    if node.constant(0).is_none() {
        check_zero(node, &quantiser)?;
    }
    quantised(node, quantiser)
}

/// `Quantise` of our domain: a [`Quantiser`] as it is, `overflow(round(x / scale) + zero)`. A fifth
/// operand is 1 where codes have a sign; rounding may also be `HALF_CEIL`, and overflow one of
/// [`OVERFLOWS`].
pub(crate) fn quantise(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let signed = integers(node, 4, "sign", 0..=1)?.map(|signed| signed == 1);
    let required = |name| malformed(format!("attribute \"{name}\" is missing"));
    let mode = node.attributes.string("rounding_mode")?;
    let mode = mode.ok_or_else(|| required("rounding_mode"))?;
    let rounding = if mode == HALF_CEIL { Rounding::HalfCeil } else { rounding(mode)? };
    let name = node.attributes.string("overflow_mode")?;
    let name = name.ok_or_else(|| required("overflow_mode"))?;
    let known = OVERFLOWS.iter().find(|(known, _)| *known == name);
    let Some((_, narrow)) = known else {
        let names = OVERFLOWS.map(|(name, _)| name);
        return Err(node
            .unsupported(format_args!("overflow_mode \"{name}\""))
            .help(format!("supported: {}", names.join(", "))));
    };
    let each = signed.values().iter().map(|&signed| narrow(signed)).collect();
    let overflow = Param::new(signed.shape(), each)?;
    let quantiser = quantiser(node, signed, rounding, overflow)?;
    if shift_matters(&quantiser) {
        // Codes of constants are rounded as QONNX rounds.
        quantiser.check()?;
        let x = node.operand(0)?;
        return node.emit(Op::Quantise(quantiser), &[Some(x)]);
    }
    quantised(node, quantiser)
}

/// How our operator calls the rounding that QONNX has no name for.
pub(crate) const HALF_CEIL: &str = "HALF_CEIL";

/// An overflow mode of codes with or without a sign.
type OverflowOf = fn(bool) -> Overflow;

/// How our operator calls overflow, with or without a sign. The names are those of fixed-point
/// types in C++, where `SAT_SYM` limits codes without a sign as `SAT` does.
pub(crate) const OVERFLOWS: [(&str, OverflowOf); 4] = [
    ("SAT", |_| Overflow::Saturate),
    ("SAT_NARROW", |_| Overflow::SaturateNarrow),
    ("SAT_SYM", |signed| if signed { Overflow::SaturateNarrow } else { Overflow::Saturate }),
    ("WRAP", |_| Overflow::Wrap),
];

/// The node's result: codes of a constant, or a node that computes them.
fn quantised(node: &mut NodeContext<'_, '_>, quantiser: Quantiser) -> Result<()> {
    quantiser.check()?;
    if let Some(Constant { tensor, quantiser: None }) = node.constant(0) {
        store_codes(node, &tensor)?;
        let codes = codes_of(&tensor, &quantiser)?;
        node.define(Constant { tensor: codes, quantiser: Some(quantiser) });
        return Ok(());
    }
    let x = node.operand(0)?;
    node.emit(Op::Quantise(quantiser), &[Some(x)])
}

/// `scale` where `x >= 0`, else `-scale`. Codes 1 and -1 without 0 are not a grid that a quantiser
/// describes, so that only constants become codes.
pub(crate) fn bipolar_quant(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let scale = floats(&node.parameter(1, "the scale")?, "scale")?;
    let Some(Constant { tensor, quantiser: None }) = node.constant(0) else {
        return sign_of_values(node);
    };
    let mut quantiser = Quantiser::symmetric(true, 2, 1.0);
    quantiser.scale = scale;
    quantiser.overflow = Param::uniform(Overflow::SaturateNarrow);
    quantiser.check()?;
    check_fit(&quantiser, &tensor)?;
    store_codes(node, &tensor)?;
    let codes = tensor.to_f64().iter().map(|&x| if x >= 0.0 { 1_i8 } else { -1 }).collect();
    let codes = Tensor::from_vec(tensor.shape(), codes)?;
    node.define(Constant { tensor: codes, quantiser: Some(quantiser) });
    Ok(())
}

/// The choice between `scale` and `-scale` by plain operators.
fn sign_of_values(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let scale = node.parameter(1, "the scale")?;
    let negated = scale.to_f64().into_iter().map(|scale| -scale as f32).collect();
    let negated = Tensor::from_vec(scale.shape(), negated)?;
    let x = node.operand(0)?;
    let zero = node.constant_before(Tensor::scalar(0.0_f32))?;
    let at_least = Op::Compare(Compare::GreaterOrEqual);
    let condition = node.emit_before(at_least, &[Some(x), Some(zero)])?;
    let yes = node.constant_before(scale)?;
    let no = node.constant_before(negated)?;
    node.emit(Op::Where, &[Some(condition), Some(yes), Some(no)])
}

/// Bits of the codes between the two roundings of a `Trunc`, which does not limit them.
const UNLIMITED: u32 = 64;

/// `Trunc` rounds codes once more, to fewer bits. With five operands (version 1) the result keeps
/// the scale: `round(code / 2^(in - out)) * scale`, without limits. With six (version 2) it has
/// the scale and range of its output: `clip(round(code / (out_scale / scale))) * out_scale`.
pub(crate) fn trunc(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let scale = floats(&node.parameter(1, "the scale")?, "scale")?;
    let zero = integers(node, 2, "zero point", -(1 << 53)..=1 << 53)?;
    if zero.values().iter().any(|&zero| zero != 0) {
        return Err(node.unsupported("zero point other than 0"));
    }
    let mode = node.attributes.string("rounding_mode")?;
    let mode = mode.ok_or_else(|| malformed("attribute \"rounding_mode\" is missing".into()))?;
    let rounding = Param::uniform(rounding(mode)?);
    let codes = Quantiser { scale, ..Quantiser::symmetric(true, UNLIMITED, 1.0) };
    if node.operand_count() == 5 {
        let bits = |index| integers(node, index, "bit width", 0..=64);
        let (from, to) = (bits(3)?.as_uniform(), bits(4)?.as_uniform());
        let shift = from.zip(to).map(|(from, to)| from - to).filter(|&shift| shift >= 0);
        let shift = shift.ok_or_else(|| {
            node.unsupported("bit widths that vary, or more bits after it than before")
        })?;
        let factor = 2.0_f64.powi(shift as i32);
        let coarse =
            Quantiser { rounding, scale: codes.scale.map(|s| s * factor), ..codes.clone() };
        let x = truncated(node, codes, coarse)?;
        let factor = node.constant_before(Tensor::scalar((1.0 / factor) as f32))?;
        return node.emit(Op::Binary(Binary::Mul), &[Some(x), Some(factor)]);
    }
    let scale = floats(&node.parameter(4, "the scale of the output")?, "scale of the output")?;
    let width = integers(node, 5, "bit width", 0..=64)?.map(|width| width as u32);
    let (signed, narrow) =
        (node.attributes.flag("signed", true)?, node.attributes.flag("narrow", false)?);
    let overflow = if narrow { Overflow::SaturateNarrow } else { Overflow::Saturate };
    check_power_of_two(node, &codes.scale, &scale)?;
    let last = Quantiser {
        signed: Param::uniform(signed),
        width,
        rounding,
        overflow: Param::uniform(overflow),
        ..Quantiser { scale, ..codes.clone() }
    };
    codes.check()?;
    last.check()?;
    let x = node.operand(0)?;
    let x = node.emit_before(Op::Quantise(codes), &[Some(x)])?;
    node.emit(Op::Quantise(last), &[Some(x)])
}

/// The operand on two grids, one after the other.
fn truncated(
    node: &mut NodeContext<'_, '_>,
    codes: Quantiser,
    coarse: Quantiser,
) -> Result<ValueId> {
    codes.check()?;
    coarse.check()?;
    let x = node.operand(0)?;
    let x = node.emit_before(Op::Quantise(codes), &[Some(x)])?;
    node.emit_before(Op::Quantise(coarse), &[Some(x)])
}

/// QONNX divides codes by a power of two near the ratio of the scales. Only where it is the ratio
/// does the result lie on the output's grid.
fn check_power_of_two(
    node: &NodeContext<'_, '_>,
    from: &Param<f64>,
    to: &Param<f64>,
) -> Result<()> {
    let count = from.values().len().max(to.values().len());
    let at = |param: &Param<f64>, index: usize| match param.as_uniform() {
        Some(value) => value,
        None => param.values()[index],
    };
    let alike =
        from.shape() == to.shape() || from.as_uniform().is_some() || to.as_uniform().is_some();
    let is_power = |index: usize| {
        let (from, to) = (at(from, index), at(to, index));
        let ratio = to / from;
        ratio >= 1.0
            && Dyadic::from_f64(ratio).is_some_and(|ratio| ratio.log2().is_some())
            && from * ratio == to
    };
    if alike && (0..count).all(is_power) {
        return Ok(());
    }
    Err(node.unsupported("output scale that is not a power of two times the scale"))
}

/// The quantiser whose scale, zero point and width are operands 1 to 3.
fn quantiser(
    node: &NodeContext<'_, '_>,
    signed: Param<bool>,
    rounding: Rounding,
    overflow: Param<Overflow>,
) -> Result<Quantiser> {
    let scale = floats(&node.parameter(1, "the scale")?, "scale")?;
    let zero = integers(node, 2, "zero point", -(1 << 53)..=1 << 53)?;
    let width = integers(node, 3, "bit width", 0..=64)?;
    Ok(Quantiser {
        signed,
        width: width.map(|width| u32::try_from(width).unwrap_or(0)),
        scale,
        zero,
        rounding: Param::uniform(rounding),
        overflow,
    })
}

/// Names of rounding modes: those of QONNX first, then synonyms that exporters write.
const MODES: &[(&str, Rounding)] = &[
    ("ROUND", Rounding::HalfEven),
    ("CEIL", Rounding::Ceil),
    ("FLOOR", Rounding::Floor),
    ("UP", Rounding::Up),
    ("DOWN", Rounding::Down),
    ("HALF_UP", Rounding::HalfUp),
    ("HALF_DOWN", Rounding::HalfDown),
    ("HALF_EVEN", Rounding::HalfEven),
    ("ROUND_HALF_EVEN", Rounding::HalfEven),
    ("ROUND_TO_ZERO", Rounding::Down),
    ("CEILING", Rounding::Ceil),
];

fn rounding(name: &str) -> Result<Rounding> {
    let upper = name.to_ascii_uppercase();
    match MODES.iter().find(|(known, _)| *known == upper) {
        Some((_, rounding)) => Ok(*rounding),
        None => Err(Diagnostic::unsupported(
            "Q0406",
            format!("rounding_mode \"{name}\" is not supported"),
        )
        .help(did_you_mean(name, MODES.iter().map(|(known, _)| *known)).unwrap_or_else(|| {
            let names: Vec<_> = MODES[..7].iter().map(|(known, _)| *known).collect();
            format!("supported: {}", names.join(", "))
        }))),
    }
}

/// The QONNX name of a rounding mode.
pub(crate) fn rounding_name(rounding: Rounding) -> Option<&'static str> {
    MODES.iter().find(|(_, known)| *known == rounding).map(|(name, _)| *name)
}

/// QONNX rounds `x / scale + zero`, a quantiser rounds `x / scale`. They differ where rounding
/// depends on where 0 is.
pub(crate) fn shift_matters(quantiser: &Quantiser) -> bool {
    let zeros = quantiser.zero.values();
    quantiser.rounding.values().iter().any(|rounding| match rounding {
        Rounding::Floor | Rounding::Ceil | Rounding::HalfCeil => false,
        Rounding::HalfEven => zeros.iter().any(|zero| zero % 2 != 0),
        Rounding::Down | Rounding::Up | Rounding::HalfUp | Rounding::HalfDown => {
            zeros.iter().any(|&zero| zero != 0)
        }
    })
}

fn check_zero(node: &NodeContext<'_, '_>, quantiser: &Quantiser) -> Result<()> {
    if !shift_matters(quantiser) {
        return Ok(());
    }
    Err(node
        .unsupported(format_args!(
            "zero point {} with rounding {}: QONNX rounds x / scale + zero, Quincunx x / scale",
            show(&quantiser.zero),
            show(&quantiser.rounding)
        ))
        .help("use an even zero point with ROUND, or FLOOR or CEIL"))
}

fn show<T: Copy + PartialEq + std::fmt::Display>(param: &Param<T>) -> String {
    param.as_uniform().map_or_else(|| "per channel".to_owned(), |value| value.to_string())
}

fn floats(tensor: &Tensor, what: &str) -> Result<Param<f64>> {
    if !tensor.dtype().is_float() {
        return Err(malformed(format!("the {what} is {}, expected f32", tensor.dtype())));
    }
    Param::new(tensor.shape(), tensor.to_f64())
}

/// A parameter of whole numbers; QONNX stores them as floats.
fn integers(
    node: &NodeContext<'_, '_>,
    index: usize,
    what: &str,
    range: std::ops::RangeInclusive<i64>,
) -> Result<Param<i64>> {
    let tensor = node.parameter(index, what)?;
    let convert = |value: f64| {
        let whole = value as i64;
        (whole as f64 == value && range.contains(&whole)).then_some(whole).ok_or_else(|| {
            node.unsupported(format_args!(
                "{what} {value}, expected a whole number from {} to {}",
                range.start(),
                range.end()
            ))
        })
    };
    let values = tensor.to_f64().into_iter().map(convert).collect::<Result<_>>()?;
    Param::new(tensor.shape(), values)
}

/// Takes room for the codes of a constant. Every constant of the file has room for its own; one
/// that is read again and again has not.
fn store_codes(node: &mut NodeContext<'_, '_>, tensor: &Tensor) -> Result<()> {
    if node.may_store(tensor.len()) {
        return Ok(());
    }
    Err(node.unsupported(format_args!(
        "codes of {} elements; the model has used up the room for them",
        tensor.len()
    )))
}

fn check_fit(quantiser: &Quantiser, tensor: &Tensor) -> Result<()> {
    if quantiser.fits(tensor.shape()) {
        return Ok(());
    }
    Err(malformed(format!(
        "the parameters do not broadcast to the constant of shape {}",
        show_shape(tensor.shape())
    )))
}

/// The codes of a constant: `overflow(round(x / scale + zero))`, computed exactly.
pub(crate) fn codes_of(tensor: &Tensor, quantiser: &Quantiser) -> Result<Tensor> {
    if !tensor.dtype().is_float() {
        return Err(malformed(format!("the constant is {}, expected floats", tensor.dtype())));
    }
    check_fit(quantiser, tensor)?;
    let shape = tensor.shape();
    let widest = quantiser.width.values().iter().copied().max().unwrap_or(0);
    let signed = spread(&quantiser.signed, shape);
    let [scales, zeros] =
        [spread(&quantiser.scale, shape), spread(&quantiser.zero.map(|zero| zero as f64), shape)];
    let widths = spread(&quantiser.width, shape);
    let rounding = quantiser.rounding.as_uniform().unwrap_or(Rounding::HalfEven);
    let overflow = spread(&quantiser.overflow, shape);
    let mut codes = Vec::with_capacity(tensor.len());
    for (index, x) in tensor.to_f64().into_iter().enumerate() {
        if !x.is_finite() {
            return Err(malformed(format!("element {index} of the constant is {x}")));
        }
        let code = round_quotient(x, scales.get(index), zeros.get(index) as i64, rounding);
        let code = overflow.get(index).apply(&code, signed.get(index), widths.get(index));
        codes.push(i64::try_from(&code).map_err(|_| {
            Diagnostic::unsupported("Q0406", format!("code {code} does not fit 64 bits"))
        })?);
    }
    // Where signs differ, one more bit holds the codes without one.
    match quantiser.signed.as_uniform() {
        Some(signed) => store(shape, codes, signed, widest),
        None => store(shape, codes, true, widest + 1),
    }
}

/// `round(x / scale + zero)` without intermediate rounding.
fn round_quotient(x: f64, scale: f64, zero: i64, rounding: Rounding) -> Int {
    // Rounding is decided in f64 where the quotient is clearly away from where it changes.
    let quotient = x / scale;
    let twice = quotient * 2.0;
    let margin = (twice - twice.round()).abs();
    if zero == 0 && quotient.abs() < 1e9 && margin > 1e-5 {
        let rounded = match rounding {
            Rounding::Floor => quotient.floor(),
            Rounding::Ceil => quotient.ceil(),
            Rounding::Down => quotient.trunc(),
            Rounding::Up => quotient.abs().ceil().copysign(quotient),
            Rounding::HalfEven | Rounding::HalfUp | Rounding::HalfDown | Rounding::HalfCeil => {
                quotient.round()
            }
        };
        return Int::from(rounded as i64);
    }
    // Numbers that lie on the grid are what trained models have. The product's rounding error is
    // that of one fused operation, which is 0 only for equal numbers unless they are tiny.
    let nearest = quotient.round();
    let sizeable = |value: f64| value == 0.0 || value.abs() > 1e-200;
    if zero == 0
        && nearest.abs() < 1e9
        && sizeable(x)
        && sizeable(scale)
        && nearest.mul_add(scale, -x) == 0.0
    {
        return Int::from(nearest as i64);
    }
    exact_quotient(x, scale, zero, rounding)
}

fn exact_quotient(x: f64, scale: f64, zero: i64, rounding: Rounding) -> Int {
    let exact = |value: f64| Dyadic::from_f64(value).unwrap_or(Dyadic::ZERO).to_ratio();
    round_ratio(&(exact(x) / exact(scale) + Ratio::from(zero)), rounding)
}

/// The smallest integer type that holds every code of the width.
fn store(shape: &[usize], codes: Vec<i64>, signed: bool, width: u32) -> Result<Tensor> {
    fn cast<T: quincunx_tensor::Element + TryFrom<i64>>(
        shape: &[usize],
        codes: Vec<i64>,
    ) -> Result<Tensor> {
        let values: Vec<T> = codes.into_iter().filter_map(|code| T::try_from(code).ok()).collect();
        Tensor::from_vec(shape, values)
    }
    match (signed, width) {
        (true, 0..=8) => cast::<i8>(shape, codes),
        (true, 9..=16) => cast::<i16>(shape, codes),
        (true, 17..=32) => cast::<i32>(shape, codes),
        (true, _) => cast::<i64>(shape, codes),
        (false, 0..=8) => cast::<u8>(shape, codes),
        (false, 9..=16) => cast::<u16>(shape, codes),
        (false, 17..=32) => cast::<u32>(shape, codes),
        (false, _) => cast::<u64>(shape, codes),
    }
}

/// A parameter read element by element of a tensor it broadcasts to.
enum Spread<T> {
    Uniform(T),
    Each(Vec<T>),
}

impl<T: Copy> Spread<T> {
    fn get(&self, index: usize) -> T {
        match self {
            Spread::Uniform(value) => *value,
            Spread::Each(values) => values[index],
        }
    }
}

fn spread<T: Copy + PartialEq>(param: &Param<T>, shape: &[usize]) -> Spread<T> {
    match param.as_uniform() {
        Some(value) => Spread::Uniform(value),
        None => Spread::Each(
            View::new(param.values(), param.shape())
                .broadcast(shape)
                .map(|view| view.to_vec())
                .unwrap_or_default(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The f64 short cut decides as exact arithmetic does.
        #[test]
        fn quotients_round_exactly(x in -1000.0_f32..1000.0, scale in 1e-3_f32..10.0, halves in -9_i32..9) {
            for rounding in Rounding::ALL {
                for (x, scale) in [(x, scale), (halves as f32 * 0.5 * scale, scale)] {
                    let exact = |v: f32| Dyadic::from_f64(v.into()).unwrap().to_ratio();
                    let expected = round_ratio(&(exact(x) / exact(scale)), rounding);
                    prop_assert_eq!(round_quotient(x.into(), scale.into(), 0, rounding), expected);
                }
            }
        }
    }

    #[test]
    fn modes_have_one_name_each() {
        assert_eq!(rounding("round").unwrap(), Rounding::HalfEven);
        assert_eq!(rounding_name(Rounding::HalfEven), Some("ROUND"));
        assert_eq!(rounding_name(Rounding::HalfCeil), None);
        assert!(rounding("ROUNDD").unwrap_err().help_text().unwrap().contains("ROUND"));
    }
}
