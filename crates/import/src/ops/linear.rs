//! `QuantizeLinear` and `DequantizeLinear`.
//!
//! With integer codes, a pair with equal parameters is one `Quantise`; a pair is recognised at its
//! second node. The first node enters the graph only when something else reads its codes. Codes
//! that are floats are made by a division and a conversion.

use crate::attributes::malformed;
use crate::context::NodeContext;
use crate::dtype;
use crate::ops::granularity::Granularity;
use crate::ops::movement::signed;
use crate::tensor::real_tensor;
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Binary, Constant, Op, Param, Quantiser, ValueId};
use quincunx_num::{Overflow, Rounding};
use quincunx_tensor::{DType, Narrow, Tensor, show_shape};

pub(crate) fn quantise(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let x = node.operand(0)?;
    if !node.dtype(x).is_float() {
        return Err(node.unsupported(format_args!("operand of type {}", node.dtype(x))));
    }
    let saturate = node.attributes.flag("saturate", true)?;
    let precision = float_type(node, "precision")?;
    let declared = match node.attributes.int("output_dtype")? {
        None | Some(0) => None,
        Some(code) => Some(code_type(node, code)?),
    };
    let shape = node.shape(x);
    let parameters = Parameters::read(node, &shape, declared, DType::U8)?;
    if let DType::Narrow(narrow) = parameters.codes
        && narrow.is_float()
    {
        let to = if saturate || narrow.bits() < 8 { cast } else { cast_unbounded };
        let precision = precision.unwrap_or(parameters.scale_type());
        let quotient = parameters.scaled(node, x, Binary::Div, precision)?;
        return node.emit(to(parameters.codes), &[Some(quotient)]);
    }
    if precision.is_some_and(|precision| precision.size() > 4) {
        return Err(node.unsupported("precision double; floats up to 32 bits are supported"));
    }
    let quantiser = parameters.quantiser(node)?;
    let width = quantiser.width.as_uniform().unwrap_or(0);
    if width > 16 {
        return Err(
            node.unsupported(format_args!("codes of {width} bits; 2 to 16 bits are supported"))
        );
    }
    let Some(divided) = parameters.granularity.divided() else {
        check(&quantiser, &shape)?;
        node.define_codes(x, quantiser);
        return Ok(());
    };
    check(&quantiser, divided)?;
    let x = reshape(node, x, divided)?;
    let codes = node.emit_before(Op::ToCodes(quantiser), &[Some(x)])?;
    let codes = node.emit_before(cast(parameters.codes), &[Some(codes)])?;
    let back = shape.iter().map(|&extent| signed(extent)).collect::<Result<_>>()?;
    node.emit(Op::Reshape { shape: back }, &[Some(codes)])
}

pub(crate) fn dequantise(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let result = float_type(node, "output_dtype")?;
    if let Some((source, written, on_grid)) = node.codes(0) {
        let found = integer_type(&written);
        let parameters = Parameters::read(node, &node.shape(source), Some(found), found)?;
        if parameters.granularity.divided().is_none() && parameters.quantiser(node)? == written {
            let result = result.unwrap_or(parameters.scale_type());
            let op = if on_grid { Op::Identity } else { Op::Quantise(written) };
            return finish(node, op, source, node.dtype(source), result);
        }
        let x = node.operand(0)?;
        return parameters.dequantise(node, x, result);
    }
    if let Some(Constant { tensor, quantiser: None }) = node.constant(0)
        && code_format(tensor.dtype()).is_some()
    {
        let found = tensor.dtype();
        let parameters = Parameters::read(node, tensor.shape(), Some(found), found)?;
        return parameters.dequantise_constant(node, tensor, result);
    }
    let x = node.operand(0)?;
    let found = node.dtype(x);
    if found.is_float() {
        return Err(malformed(format!("expected codes, found {found}")));
    }
    let parameters = Parameters::read(node, &node.shape(x), Some(found), found)?;
    parameters.dequantise(node, x, result)
}

/// Operands 1 and 2 and the attributes that say what they belong to.
struct Parameters {
    codes: DType,
    scale: Tensor,
    zero: Option<Tensor>,
    granularity: Granularity,
}

impl Parameters {
    /// For a tensor of this shape. `codes` is the type the codes must have, `default` the one
    /// without a zero point.
    fn read(
        node: &mut NodeContext<'_, '_>,
        shape: &[usize],
        codes: Option<DType>,
        default: DType,
    ) -> Result<Self> {
        let scale = node.parameter(1, "the scale")?;
        if !matches!(scale.dtype().wide(), DType::F32) {
            return Err(malformed(format!("the scale is {}, expected floats", scale.dtype())));
        }
        let zero = node.optional_parameter(2, "the zero point")?;
        let found = zero.as_ref().map(Tensor::dtype).or(codes).unwrap_or(default);
        if let Some(codes) = codes
            && found != codes
        {
            return Err(malformed(format!("the zero point is {found}, but the codes are {codes}")));
        }
        let granularity = Granularity::read(node, &scale, shape)?;
        Ok(Parameters { codes: found, scale, zero, granularity })
    }

    /// The type that is computed in where nothing else is said.
    fn scale_type(&self) -> DType {
        if self.scale.dtype().is_float() { self.scale.dtype() } else { DType::F32 }
    }

    /// The quantiser of integer codes.
    fn quantiser(&self, node: &NodeContext<'_, '_>) -> Result<Quantiser> {
        let (signed, width) = code_format(self.codes)
            .ok_or_else(|| node.unsupported(format_args!("codes of type {}", self.codes)))?;
        let zero = match &self.zero {
            Some(zero) => {
                let zeros = zero.to_i64().ok_or_else(|| {
                    malformed(format!("the zero point is {}, expected integers", zero.dtype()))
                })?;
                self.granularity.param(zero, zeros, "zero point")?
            }
            None => Param::uniform(0),
        };
        Ok(Quantiser {
            signed: Param::uniform(signed),
            width: Param::uniform(width),
            scale: self.granularity.param(&self.scale, self.scale.to_f64(), "scale")?,
            zero,
            rounding: Param::uniform(Rounding::HalfEven),
            overflow: Param::uniform(Overflow::Saturate),
        })
    }

    /// The product or quotient of floats and the scales, computed in `precision`; of the shape of
    /// `x`.
    fn scaled(
        &self,
        node: &mut NodeContext<'_, '_>,
        x: ValueId,
        operation: Binary,
        precision: DType,
    ) -> Result<ValueId> {
        if self.zero.as_ref().is_some_and(|zero| zero.to_f64().iter().any(|&v| v != 0.0)) {
            return Err(node.unsupported(format_args!("a zero point of {} codes", self.codes)));
        }
        let shape = node.shape(x);
        let scale = self.granularity.param(&self.scale, self.scale.to_f64(), "scale")?;
        let scale = real_tensor(precision, scale.shape(), scale.values())?;
        let scale = node.constant_before(scale)?;
        let mut x = converted(node, x, precision)?;
        if let Some(divided) = self.granularity.divided() {
            x = reshape(node, x, divided)?;
        }
        let scaled = node.emit_before(Op::Binary(operation), &[Some(x), Some(scale)])?;
        match self.granularity.divided() {
            Some(_) => reshape(node, scaled, &shape),
            None => Ok(scaled),
        }
    }

    fn dequantise(
        self,
        node: &mut NodeContext<'_, '_>,
        x: ValueId,
        result: Option<DType>,
    ) -> Result<()> {
        let result = result.unwrap_or(self.scale_type());
        if code_format(self.codes).is_none() {
            if !matches!(self.codes, DType::Narrow(_)) {
                return Err(node.unsupported(format_args!("codes of type {}", self.codes)));
            }
            let product = self.scaled(node, x, Binary::Mul, self.scale_type())?;
            return finish(node, Op::Identity, product, self.scale_type(), result);
        }
        let quantiser = self.quantiser(node)?;
        let shape = node.shape(x);
        let Some(divided) = self.granularity.divided() else {
            return finish(node, Op::FromCodes(quantiser), x, DType::F32, result);
        };
        let x = reshape(node, x, divided)?;
        let reals = node.emit_before(Op::FromCodes(quantiser), &[Some(x)])?;
        let back = shape.iter().map(|&extent| signed(extent)).collect::<Result<_>>()?;
        finish(node, Op::Reshape { shape: back }, reals, DType::F32, result)
    }

    fn dequantise_constant(
        self,
        node: &mut NodeContext<'_, '_>,
        codes: Tensor,
        result: Option<DType>,
    ) -> Result<()> {
        let result = result.unwrap_or(self.scale_type());
        let quantiser = self.quantiser(node)?;
        let Some(divided) = self.granularity.divided() else {
            check(&quantiser, codes.shape())?;
            let constant = Constant { tensor: codes, quantiser: Some(quantiser) };
            if result == DType::F32 {
                node.define(constant);
                return Ok(());
            }
            let reals = node.constant_before(constant)?;
            return node.emit(cast(result), &[Some(reals)]);
        };
        let shape = codes.shape().iter().map(|&extent| signed(extent)).collect::<Result<_>>()?;
        let codes = codes.reshape(divided)?;
        check(&quantiser, divided)?;
        let reals = node.constant_before(Constant { tensor: codes, quantiser: Some(quantiser) })?;
        finish(node, Op::Reshape { shape }, reals, DType::F32, result)
    }
}

fn cast(to: DType) -> Op {
    Op::Cast { to }
}

fn cast_unbounded(to: DType) -> Op {
    Op::CastUnbounded { to }
}

/// A value in another type.
fn converted(node: &mut NodeContext<'_, '_>, x: ValueId, to: DType) -> Result<ValueId> {
    if node.dtype(x) == to {
        return Ok(x);
    }
    node.emit_before(cast(to), &[Some(x)])
}

/// The same elements in a shape that is made of the extents of `x`.
fn reshape(node: &mut NodeContext<'_, '_>, x: ValueId, shape: &[usize]) -> Result<ValueId> {
    let rank = node.shape(x).len();
    node.reads_extents(x, 0..rank);
    let shape = shape.iter().map(|&extent| signed(extent)).collect::<Result<_>>()?;
    node.emit_before(Op::Reshape { shape }, &[Some(x)])
}

/// The last operation, whose result is `found`, as a tensor of type `wanted`.
fn finish(
    node: &mut NodeContext<'_, '_>,
    op: Op,
    x: ValueId,
    found: DType,
    wanted: DType,
) -> Result<()> {
    if found == wanted {
        return node.emit(op, &[Some(x)]);
    }
    let result = node.emit_before(op, &[Some(x)])?;
    node.emit(cast(wanted), &[Some(result)])
}

/// The quantiser must be sound and fit the tensor, also when it never enters the graph.
pub(super) fn check(quantiser: &Quantiser, shape: &[usize]) -> Result<()> {
    quantiser.check()?;
    if quantiser.fits(shape) {
        return Ok(());
    }
    Err(malformed(format!("the parameters do not fit a tensor of shape {}", show_shape(shape))))
}

/// An attribute that names a float type; `None` when it is absent or 0.
fn float_type(node: &mut NodeContext<'_, '_>, name: &'static str) -> Result<Option<DType>> {
    let code = node.attributes.int(name)?.unwrap_or(0);
    if code == 0 {
        return Ok(None);
    }
    let found = i32::try_from(code).map_err(|_| "unknown").and_then(dtype::from_onnx);
    match found {
        Ok(dtype) if dtype.is_float() => Ok(Some(dtype)),
        Ok(dtype) => Err(malformed(format!("attribute \"{name}\" is {dtype}, expected a float"))),
        Err(found) => Err(malformed(format!("attribute \"{name}\" is {found}, expected a float"))),
    }
}

fn code_type(node: &NodeContext<'_, '_>, code: i64) -> Result<DType> {
    let found = i32::try_from(code).map_err(|_| "unknown").and_then(dtype::from_onnx);
    found.map_err(|name| {
        Diagnostic::unsupported("Q0412", format!("{}: codes of type {name}", node.operator()))
            .help("supported: integers of 2 to 16 bits, floats of 4 and 8 bits")
    })
}

/// Signedness and width of a type of integer codes.
pub(super) fn code_format(dtype: DType) -> Option<(bool, u32)> {
    match dtype {
        DType::I8 => Some((true, 8)),
        DType::U8 => Some((false, 8)),
        DType::I16 => Some((true, 16)),
        DType::U16 => Some((false, 16)),
        DType::I32 => Some((true, 32)),
        DType::Narrow(narrow) => Some((narrow.signed()?, narrow.bits())),
        _ => None,
    }
}

/// The type of codes of a quantiser whose format is one of [`code_format`].
pub(crate) fn integer_type(quantiser: &Quantiser) -> DType {
    let signed = quantiser.signed.as_uniform().unwrap_or(false);
    match (signed, quantiser.width.as_uniform().unwrap_or(0)) {
        (true, 16) => DType::I16,
        (false, 16) => DType::U16,
        (true, 8) => DType::I8,
        (true, 4) => DType::Narrow(Narrow::I4),
        (false, 4) => DType::Narrow(Narrow::U4),
        (true, 2) => DType::Narrow(Narrow::I2),
        (false, 2) => DType::Narrow(Narrow::U2),
        (true, _) => DType::I32,
        (false, _) => DType::U8,
    }
}
