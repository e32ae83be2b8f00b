//! `QuantizeLinear` and `DequantizeLinear`.
//!
//! A pair with equal parameters is one `Quantise`; a pair is recognised at its second node. The
//! first node enters the graph only when something else reads its codes.

use crate::attributes::malformed;
use crate::context::NodeContext;
use crate::dtype;
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Constant, Op, Param, Quantiser};
use quincunx_num::{Overflow, Rounding};
use quincunx_tensor::{DType, Tensor, show_shape};

pub(crate) fn quantise(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let x = node.operand(0)?;
    if !node.dtype(x).is_float() {
        return Err(node.unsupported(format_args!("operand of type {}", node.dtype(x))));
    }
    node.attributes.ignore("saturate"); // Matters for float8 only.
    if let Some(precision) = node.attributes.int("precision")?
        && ![0, dtype::to_onnx(DType::F32).into()].contains(&precision)
    {
        return Err(node.unsupported(format_args!("precision {precision}; only float32")));
    }
    let declared = match node.attributes.int("output_dtype")? {
        None | Some(0) => None,
        Some(code) => Some(code_type(node, code)?),
    };
    let shape = node.shape(x);
    let quantiser = quantiser(node, &shape, declared, DType::U8)?;
    check(&quantiser, &shape)?;
    let width = quantiser.width.as_uniform().unwrap_or(0);
    if width > 16 {
        return Err(node.unsupported(format_args!("codes of {width} bits; 8 and 16 are supported")));
    }
    node.define_codes(x, quantiser);
    Ok(())
}

pub(crate) fn dequantise(node: &mut NodeContext<'_, '_>) -> Result<()> {
    if let Some(output) = node.attributes.int("output_dtype")?
        && ![0, dtype::to_onnx(DType::F32).into()].contains(&output)
    {
        return Err(node.unsupported("output_dtype other than float32"));
    }
    if let Some(Constant { tensor, quantiser: None }) = node.constant(0)
        && !tensor.dtype().is_float()
    {
        let found = tensor.dtype();
        let quantiser = quantiser(node, tensor.shape(), Some(found), found)?;
        check(&quantiser, tensor.shape())?;
        node.define(Constant { tensor, quantiser: Some(quantiser) });
        return Ok(());
    }
    if let Some((source, written)) = node.codes(0) {
        let width = written.width.as_uniform().unwrap_or(0);
        let found = integer_type(written.signed.as_uniform().unwrap_or(false), width);
        let quantiser = quantiser(node, &node.shape(source), Some(found), found)?;
        if quantiser == written {
            return node.emit(Op::Quantise(quantiser), &[Some(source)]);
        }
    }
    let x = node.operand(0)?;
    let found = node.dtype(x);
    if found.is_float() {
        return Err(malformed(format!("expected integer codes, found {found}")));
    }
    let quantiser = quantiser(node, &node.shape(x), Some(found), found)?;
    node.emit(Op::FromCodes(quantiser), &[Some(x)])
}

/// The quantiser that operands 1 and 2 and the attributes describe, for a tensor of this shape.
/// `codes` is the type the codes must have, `default` the one without a zero point.
fn quantiser(
    node: &mut NodeContext<'_, '_>,
    shape: &[usize],
    codes: Option<DType>,
    default: DType,
) -> Result<Quantiser> {
    if let Some(block) = node.attributes.int("block_size")?
        && block != 0
    {
        return Err(node.unsupported(format_args!("block_size {block}; blocked quantisation")));
    }
    let axis = node.attributes.int("axis")?.unwrap_or(1);
    let scale = node.parameter(1, "the scale")?;
    if scale.dtype() != DType::F32 {
        return Err(malformed(format!("the scale is {}, expected f32", scale.dtype())));
    }
    let zero = node.optional_parameter(2, "the zero point")?;
    let found = zero.as_ref().map(Tensor::dtype).or(codes).unwrap_or(default);
    if let Some(codes) = codes
        && found != codes
    {
        return Err(malformed(format!("the zero point is {found}, but the codes are {codes}")));
    }
    let (signed, width) = code_format(found)
        .ok_or_else(|| node.unsupported(format_args!("codes of type {found}")))?;
    let zeros = match &zero {
        Some(zero) => zero
            .to_i64()
            .ok_or_else(|| malformed(format!("the zero point is {found}, expected integers")))?,
        None => vec![0],
    };
    Ok(Quantiser {
        signed: Param::uniform(signed),
        width: Param::uniform(width),
        scale: per_axis(&scale, scale.to_f64(), shape, axis, "scale")?,
        zero: match &zero {
            Some(zero) => per_axis(zero, zeros, shape, axis, "zero point")?,
            None => Param::uniform(0),
        },
        rounding: Param::uniform(Rounding::HalfEven),
        overflow: Param::uniform(Overflow::Saturate),
    })
}

/// A parameter with one value, or one per index of an axis.
pub(super) fn per_axis<T: Copy + PartialEq>(
    tensor: &Tensor,
    values: Vec<T>,
    shape: &[usize],
    axis: i64,
    what: &str,
) -> Result<Param<T>> {
    if let ([value], 0 | 1) = (values.as_slice(), tensor.shape().len()) {
        return Ok(Param::uniform(*value));
    }
    let rank = i64::try_from(shape.len()).unwrap_or(i64::MAX);
    let position = if axis < 0 { axis.saturating_add(rank) } else { axis };
    let extent = usize::try_from(position).ok().and_then(|axis| Some((axis, *shape.get(axis)?)));
    match extent {
        Some((axis, extent)) if tensor.shape() == [extent] => {
            let mut param = vec![1; shape.len() - axis];
            param[0] = extent;
            Param::new(&param, values)
        }
        _ => Err(malformed(format!(
            "the {what} has shape {}, expected one value or one for each index of axis {axis} of {}",
            show_shape(tensor.shape()),
            show_shape(shape)
        ))),
    }
}

/// The quantiser must be sound and fit the tensor, also when it never enters the graph.
pub(super) fn check(quantiser: &Quantiser, shape: &[usize]) -> Result<()> {
    quantiser.check()?;
    if quantiser.fits(shape) {
        return Ok(());
    }
    Err(malformed(format!("the parameters do not fit a tensor of shape {}", show_shape(shape))))
}

fn code_type(node: &NodeContext<'_, '_>, code: i64) -> Result<DType> {
    let found = i32::try_from(code).map_err(|_| "unknown").and_then(dtype::from_onnx);
    found.map_err(|name| {
        Diagnostic::unsupported("Q0412", format!("{}: codes of type {name}", node.operator()))
            .help("supported: codes of 8 and 16 bits")
    })
}

/// Signedness and width of a type of codes.
pub(super) fn code_format(dtype: DType) -> Option<(bool, u32)> {
    match dtype {
        DType::I8 => Some((true, 8)),
        DType::U8 => Some((false, 8)),
        DType::I16 => Some((true, 16)),
        DType::U16 => Some((false, 16)),
        DType::I32 => Some((true, 32)),
        _ => None,
    }
}

/// The type of codes with this format, as [`code_format`] gives it.
fn integer_type(signed: bool, width: u32) -> DType {
    match (signed, width) {
        (true, 16) => DType::I16,
        (false, 16) => DType::U16,
        (true, 8) => DType::I8,
        (true, _) => DType::I32,
        (false, _) => DType::U8,
    }
}
