//! Quantisers and codes in the two dialects, and in our own domain.

use crate::export::Dialect;
use crate::export::writer::{Writer, int, operation, text};
use crate::ops::qonnx::{HALF_CEIL, OVERFLOWS, codes_of, rounding_name, shift_matters};
use crate::ops::{OWN, QONNX};
use crate::proto::{AttributeProto, NodeProto};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Node, Param, Quantiser, ValueId};
use quincunx_num::{Overflow, Rounding};
use quincunx_tensor::{DType, Tensor};

/// The parameters of `QuantizeLinear` and `DequantizeLinear`.
struct Linear {
    codes: DType,
    scale: Tensor,
    zero: Option<Tensor>,
    axis: Option<i64>,
}

impl Writer<'_> {
    /// A constant of codes.
    pub(crate) fn write_codes(
        &mut self,
        id: ValueId,
        codes: &Tensor,
        quantiser: &Quantiser,
    ) -> Result<()> {
        let linear = match self.options.dialect {
            Dialect::Auto | Dialect::Qdq => Linear::of(quantiser, codes.shape()),
            Dialect::Qonnx => None,
        };
        let name = self.name(id).to_owned();
        // The codes may be stored in a wider type than they need.
        let stored = linear.and_then(|linear| {
            Some((integers(linear.codes, codes.shape(), &codes.to_i64()?)?, linear))
        });
        match stored {
            Some((codes, linear)) => {
                let codes = self.fresh_initialiser(&format!("{name}_codes"), &codes);
                let node = self.linear("DequantizeLinear", &codes, &name, &name, &linear);
                self.fresh_node(&format!("{name}_dequantise"), node);
            }
            None if self.options.dialect == Dialect::Qdq => {
                return Err(no_linear(&format!("DequantizeLinear of \"{name}\""), quantiser));
            }
            None => {
                let (values, quantiser) = values_of(codes, quantiser, &name)?;
                let values = self.fresh_initialiser(&format!("{name}_float"), &values);
                let node = self.quant(&values, &name, &quantiser, Ok(()))?;
                self.fresh_node(&format!("{name}_quant"), node);
            }
        }
        Ok(())
    }

    /// A quantiser between two float values.
    pub(crate) fn write_quantise(&mut self, node: &Node, quantiser: &Quantiser) -> Result<()> {
        let shape = &self.graph[node.output].shape;
        let linear = match self.options.dialect {
            Dialect::Auto | Dialect::Qdq => {
                Linear::of(quantiser, shape).filter(Linear::can_be_written)
            }
            Dialect::Qonnx => None,
        };
        let source = self.source(node);
        let output = self.name(node.output).to_owned();
        let Some(linear) = linear else {
            if self.options.dialect == Dialect::Qdq {
                return Err(no_linear("QuantizeLinear", quantiser));
            }
            let written = self.quant(&source, &output, quantiser, unshifted(quantiser))?;
            self.node(&node.name, written);
            return Ok(());
        };
        let codes = self.fresh(&format!("{output}_codes"));
        let first = self.linear("QuantizeLinear", &source, &codes, &output, &linear);
        // Both nodes share their parameters.
        let mut second =
            NodeProto { op_type: Some("DequantizeLinear".to_owned()), ..first.clone() };
        second.input[0] = codes;
        second.output[0] = output;
        self.fresh_node(&format!("{}_quantise", node.name), first);
        self.node(&node.name, second);
        Ok(())
    }

    /// Real numbers to codes.
    pub(crate) fn write_to_codes(&mut self, node: &Node, quantiser: &Quantiser) -> Result<()> {
        let linear = Linear::of(quantiser, &self.graph[node.output].shape)
            .filter(Linear::can_be_written)
            .ok_or_else(|| no_linear("QuantizeLinear", quantiser))?;
        self.write_linear("QuantizeLinear", node, &linear)
    }

    /// Codes to real numbers.
    pub(crate) fn write_from_codes(&mut self, node: &Node, quantiser: &Quantiser) -> Result<()> {
        let codes = node.input(0).map(|id| self.graph[id].dtype);
        let linear = Linear::of(quantiser, &self.graph[node.output].shape)
            .filter(|linear| Some(linear.codes) == codes)
            .ok_or_else(|| no_linear("DequantizeLinear", quantiser))?;
        self.write_linear("DequantizeLinear", node, &linear)
    }

    fn write_linear(&mut self, operator: &str, node: &Node, linear: &Linear) -> Result<()> {
        let (source, output) = (self.source(node), self.name(node.output).to_owned());
        let written = self.linear(operator, &source, &output, &output, linear);
        self.node(&node.name, written);
        Ok(())
    }

    fn source(&self, node: &Node) -> String {
        node.input(0).map_or(String::new(), |id| self.name(id).to_owned())
    }

    /// One of the two linear nodes; the parameters are named after `base`.
    fn linear(
        &mut self,
        operator: &str,
        source: &str,
        output: &str,
        base: &str,
        linear: &Linear,
    ) -> NodeProto {
        if matches!(linear.codes, DType::I16 | DType::U16) {
            self.need_opset(21);
        }
        let scale = self.fresh_initialiser(&format!("{base}_scale"), &linear.scale);
        let zero = linear.zero.as_ref().map(|z| self.fresh_initialiser(&format!("{base}_zero"), z));
        let mut inputs = vec![source, scale.as_str()];
        inputs.extend(zero.as_deref());
        operation(
            operator,
            &inputs,
            output,
            linear.axis.map(|a| int("axis", a)).into_iter().collect(),
        )
    }

    /// A QONNX `Quant` node, or one of our `Quantise` where that cannot say it, or `fits` says so,
    /// and the dialect is not QONNX.
    fn quant(
        &mut self,
        source: &str,
        output: &str,
        quantiser: &Quantiser,
        fits: Result<()>,
    ) -> Result<NodeProto> {
        let attributes = fits.and_then(|()| quant_attributes(quantiser));
        let form = match (attributes, self.options.dialect) {
            (Err(_), Dialect::Auto) => (OWN, "Quantise", own_attributes(quantiser)?),
            (attributes, _) => (QONNX, "Quant", attributes?),
        };
        let (domain, operator, attributes) = form;
        let scale = floats(&quantiser.scale, |&scale| scale)?;
        let zero = floats(&quantiser.zero, |&zero| zero as f64)?;
        let width = floats(&quantiser.width, |&width| width.into())?;
        let scale = self.fresh_initialiser(&format!("{output}_scale"), &scale);
        let zero = self.fresh_initialiser(&format!("{output}_zero"), &zero);
        let width = self.fresh_initialiser(&format!("{output}_bits"), &width);
        let mut operands = vec![source, &scale, &zero, &width];
        let signed = (domain == OWN).then(|| floats(&quantiser.signed, |&s| f64::from(s)));
        let signed = signed.transpose()?;
        let signed = signed.map(|s| self.fresh_initialiser(&format!("{output}_signed"), &s));
        operands.extend(signed.as_deref());
        let node = operation(operator, &operands, output, attributes);
        Ok(NodeProto { domain: Some(domain.to_owned()), ..node })
    }
}

impl Linear {
    /// The ONNX form of a quantiser of a tensor of this shape; `None` when there is none.
    fn of(quantiser: &Quantiser, shape: &[usize]) -> Option<Self> {
        let codes = match (quantiser.signed.as_uniform()?, quantiser.width.as_uniform()?) {
            (true, 8) => DType::I8,
            (false, 8) => DType::U8,
            (true, 16) => DType::I16,
            (false, 16) => DType::U16,
            (true, 32) => DType::I32,
            _ => return None,
        };
        if quantiser.rounding.as_uniform()? != Rounding::HalfEven
            || quantiser.overflow.as_uniform()? != Overflow::Saturate
        {
            return None;
        }
        let (axis, param) = axis_of(quantiser, shape)?;
        let tensor_shape: Vec<usize> = axis.map(|axis| shape[axis]).into_iter().collect();
        let scales = quantiser.scale.expand(&param)?;
        let scales = scales.iter().map(|&scale| exact_f32(scale)).collect::<Option<Vec<f32>>>()?;
        let zeros = quantiser.zero.expand(&param)?;
        let zero = integers(codes, &tensor_shape, &zeros)?;
        if codes == DType::I32 && zeros.iter().any(|&zero| zero != 0) {
            return None; // The standard has no zero point for 32 bits.
        }
        Some(Linear {
            codes,
            scale: Tensor::from_vec(&tensor_shape, scales).ok()?,
            zero: (codes != DType::I32).then_some(zero),
            axis: axis.and_then(|axis| i64::try_from(axis).ok()),
        })
    }

    /// `QuantizeLinear` writes codes of 8 and 16 bits only.
    fn can_be_written(&self) -> bool {
        self.codes != DType::I32
    }
}

/// The one axis along which the quantiser varies, if any, and the shape of its parameters.
fn axis_of(quantiser: &Quantiser, shape: &[usize]) -> Option<(Option<usize>, Vec<usize>)> {
    let param = quantiser.shape()?.to_vec();
    let mut long = (0..param.len()).filter(|&axis| param[axis] > 1);
    let position = long.next();
    if long.next().is_some() {
        return None;
    }
    let axis = match position {
        Some(position) => Some((shape.len() + position).checked_sub(param.len())?),
        None => None,
    };
    Some((axis, param))
}

fn integers(codes: DType, shape: &[usize], values: &[i64]) -> Option<Tensor> {
    fn cast<T: quincunx_tensor::Element + TryFrom<i64>>(
        shape: &[usize],
        values: &[i64],
    ) -> Option<Tensor> {
        let cast = values.iter().map(|&v| T::try_from(v).ok()).collect::<Option<Vec<T>>>()?;
        Tensor::from_vec(shape, cast).ok()
    }
    match codes {
        DType::I8 => cast::<i8>(shape, values),
        DType::U8 => cast::<u8>(shape, values),
        DType::I16 => cast::<i16>(shape, values),
        DType::U16 => cast::<u16>(shape, values),
        _ => cast::<i32>(shape, values),
    }
}

fn exact_f32(value: f64) -> Option<f32> {
    let narrow = value as f32;
    (f64::from(narrow) == value).then_some(narrow)
}

fn floats<T: Copy + PartialEq>(param: &Param<T>, convert: impl Fn(&T) -> f64) -> Result<Tensor> {
    let exact = |value: &T| {
        let value = convert(value);
        exact_f32(value)
            .ok_or_else(|| inexpressible(format!("parameter {value}: it is not an f32")))
    };
    let values = param.values().iter().map(exact).collect::<Result<Vec<f32>>>()?;
    Tensor::from_vec(param.shape(), values)
}

/// Whether QONNX rounds as the quantiser does.
fn unshifted(quantiser: &Quantiser) -> Result<()> {
    if !shift_matters(quantiser) {
        return Ok(());
    }
    let rounding = quantiser.rounding.values()[0];
    Err(inexpressible(format!(
        "zero point with rounding {rounding}: QONNX rounds x / scale + zero"
    )))
}

fn varies(what: &str) -> Diagnostic {
    inexpressible(format!("{what} that varies within a tensor"))
}

fn quant_attributes(quantiser: &Quantiser) -> Result<Vec<AttributeProto>> {
    let signed = quantiser.signed.as_uniform().ok_or_else(|| varies("signedness"))?;
    let rounding = quantiser.rounding.as_uniform().ok_or_else(|| varies("rounding"))?;
    let mode = rounding_name(rounding)
        .ok_or_else(|| inexpressible(format!("rounding {rounding}: QONNX has no name for it")))?;
    let narrow = match quantiser.overflow.as_uniform() {
        Some(Overflow::Saturate) => false,
        Some(Overflow::SaturateNarrow) => true,
        Some(Overflow::Wrap) => return Err(inexpressible("overflow wrap".to_owned())),
        None => return Err(varies("overflow")),
    };
    Ok(vec![
        int("signed", signed.into()),
        int("narrow", narrow.into()),
        text("rounding_mode", mode),
    ])
}

fn own_attributes(quantiser: &Quantiser) -> Result<Vec<AttributeProto>> {
    let rounding = quantiser.rounding.as_uniform().ok_or_else(|| varies("rounding"))?;
    let shape = quantiser.shape().ok_or_else(|| varies("shape"))?;
    let each = quantiser.signed.expand(&shape).zip(quantiser.overflow.expand(&shape));
    let (signs, wanted) = each.ok_or_else(|| varies("shape"))?;
    let says = |of: fn(bool) -> Overflow| signs.iter().zip(&wanted).all(|(&s, &w)| of(s) == w);
    let (overflow, _) =
        OVERFLOWS.iter().find(|(_, of)| says(*of)).ok_or_else(|| varies("overflow"))?;
    let mode = rounding_name(rounding).unwrap_or(HALF_CEIL);
    Ok(vec![text("rounding_mode", mode), text("overflow_mode", overflow)])
}

/// Floats that a `Quant` node turns into exactly these codes, and its quantiser. The rounding mode
/// of a constant has no effect on its meaning, so where the stored floats lie just beside their
/// grid points the mode is half to even.
fn values_of(codes: &Tensor, quantiser: &Quantiser, name: &str) -> Result<(Tensor, Quantiser)> {
    let shape = codes.shape();
    let expand =
        || Some((codes.to_i64()?, quantiser.scale.expand(shape)?, quantiser.zero.expand(shape)?));
    let (wanted, scales, zeros) =
        expand().ok_or_else(|| inexpressible(format!("codes of constant \"{name}\"")))?;
    let values: Vec<f32> = wanted
        .iter()
        .zip(scales.iter().zip(&zeros))
        .map(|(&code, (&scale, &zero))| ((code as f64 - zero as f64) * scale) as f32)
        .collect();
    let values = Tensor::from_vec(shape, values)?;
    for rounding in [quantiser.rounding.clone(), Param::uniform(Rounding::HalfEven)] {
        let quantiser = Quantiser { rounding, ..quantiser.clone() };
        let uniform = quantiser.rounding.as_uniform().is_some();
        if uniform && codes_of(&values, &quantiser)?.to_i64().as_ref() == Some(&wanted) {
            return Ok((values, quantiser));
        }
    }
    Err(inexpressible(format!("codes of constant \"{name}\" ({quantiser}): no f32 gives them")))
}

fn no_linear(operator: &str, quantiser: &Quantiser) -> Diagnostic {
    inexpressible(format!("{operator} with codes {quantiser}"))
}

fn inexpressible(what: String) -> Diagnostic {
    Diagnostic::unsupported("Q0420", format!("ONNX has no form for {what}"))
        .help("choose the dialect auto, or 8 bits with half-even rounding and saturation")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype;

    #[test]
    fn codes_of_linear_nodes_have_onnx_types() {
        for (signed, width) in [(true, 8), (false, 8), (true, 16), (false, 16), (true, 32)] {
            let quantiser = Quantiser::symmetric(signed, width, 0.5);
            let linear = Linear::of(&quantiser, &[2, 3]).unwrap();
            assert_eq!(dtype::from_onnx(dtype::to_onnx(linear.codes)), Ok(linear.codes));
            assert!(linear.axis.is_none());
        }
        assert!(Linear::of(&Quantiser::symmetric(true, 4, 0.5), &[2]).is_none());
        assert!(
            Linear::of(&Quantiser::symmetric(true, 8, 0.1), &[2]).is_none(),
            "0.1 is not an f32"
        );
    }
}
