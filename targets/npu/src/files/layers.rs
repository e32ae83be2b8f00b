//! What a frontend IR says of each layer, for those who derive a program from it. Facts: `gemini`
//! (`docs/bibliography.md`).

use super::{At, IrFile};
use crate::isa::{DataFmt, Number};
use quincunx_diag::Result;
use std::collections::{BTreeMap, BTreeSet};

/// Most elements of an axis: extents have 14 bits.
const MOST: i64 = 1 << 14;

/// The layers that the machine computes, and the inputs of the network.
#[derive(Debug)]
pub(crate) struct Layers<'a> {
    /// By name.
    pub(crate) layers: BTreeMap<&'a str, Layer<'a>>,
    /// What no layer computes, in the order of its readers: name, extents, format.
    pub(crate) inputs: Vec<(&'a str, [i64; 4], DataFmt)>,
}

/// A layer.
#[derive(Debug)]
pub(crate) struct Layer<'a> {
    pub(crate) at: At<'a>,
    /// Its number.
    pub(crate) index: i32,
    /// Layers and inputs that it reads, without constants.
    pub(crate) operands: Vec<&'a str>,
    /// Images, channels, rows and columns of the result.
    pub(crate) output: [i64; 4],
    /// Format of the result.
    pub(crate) format: DataFmt,
    /// Kernel or window, and strides.
    pub(crate) window: [[i64; 2]; 2],
    pub(crate) operation: Operation,
}

/// What a layer computes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    /// A convolution or dense layer.
    Conv(ConvLayer),
    /// Vector work.
    Vector(VectorLayer),
}

/// A convolution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConvLayer {
    /// Output channels, input channels, kernel rows and columns.
    pub(crate) weights: [i64; 4],
    /// Code of 0 in the input.
    pub(crate) pad: Number,
    /// Offset and factor of the result, if it is quantised.
    pub(crate) quantiser: Option<[Number; 2]>,
    pub(crate) relu: bool,
}

/// Vector work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VectorLayer {
    pub(crate) kind: VectorOperation,
    /// Offset and factor of every operand; 0 where the file has none.
    pub(crate) dequantisers: [[Number; 2]; 2],
    /// Offset and factor of the result.
    pub(crate) quantiser: [Number; 2],
    /// The result is rounded to the nearest number.
    pub(crate) round: bool,
    pub(crate) relu: bool,
}

/// Which vector work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VectorOperation {
    Quantise,
    Add,
    Largest,
    /// A sum of products with this number.
    Average(Number),
}

impl<'a> Layers<'a> {
    /// Reads a network whose rules [`IrFile::validate`] has checked.
    ///
    /// # Errors
    /// `Q4072` and `Q4074` with the path.
    pub(crate) fn read(file: &'a IrFile) -> Result<Layers<'a>> {
        let mut members = At::root(&file.value).members()?;
        let index = |at: &At<'_>| at.need("layer_index")?.whole(0..=i64::from(i32::MAX));
        for (_, at) in &members {
            index(at)?;
        }
        members.sort_by_key(|(_, at)| index(at).unwrap_or(0));
        let mut layers = BTreeMap::new();
        let mut known: BTreeSet<&str> = members.iter().map(|(name, _)| *name).collect();
        let mut inputs: Vec<(&str, [i64; 4], DataFmt)> = Vec::new();
        for (name, at) in &members {
            // Other devices compute nothing here.
            let Some(layer) = layer(at.clone())? else { continue };
            let (shapes, types) =
                (at.need("input_shape")?.list()?, at.need("input_dtype")?.list()?);
            for ((operand, shape), dtype) in layer.operands.iter().zip(&shapes).zip(&types) {
                if known.insert(operand) {
                    inputs.push((operand, extents(shape)?, format(dtype)?));
                }
            }
            layers.insert(*name, layer);
        }
        Ok(Layers { layers, inputs })
    }
}

/// Up to four extents; those that are missing are 1.
fn extents(shape: &At<'_>) -> Result<[i64; 4]> {
    let list = shape.list()?;
    if list.len() > 4 {
        return Err(shape.wrong("Q4074", "expected at most four extents"));
    }
    let mut extents = [1; 4];
    for (extent, at) in extents.iter_mut().zip(&list) {
        *extent = at.whole(1..=MOST)?;
    }
    Ok(extents)
}

fn format(dtype: &At<'_>) -> Result<DataFmt> {
    match dtype.text()? {
        "int8" => Ok(DataFmt::INT8),
        "float16" => Ok(DataFmt::FP16),
        other => Err(dtype.wrong("Q4074", format!("expected int8 or float16, found {other:?}"))),
    }
}

fn first<'a>(at: &At<'a>, key: &str) -> Result<At<'a>> {
    let list = at.need(key)?;
    list.list()?.into_iter().next().ok_or_else(|| list.wrong("Q4072", "expected an element"))
}

fn layer(at: At<'_>) -> Result<Option<Layer<'_>>> {
    let operation = at.need("operation")?;
    let (name, operands) = (operation.text()?, at.need("previous_layer")?.texts()?);
    let window = |kernel: &str| -> Result<[[i64; 2]; 2]> {
        Ok([at.need(kernel)?.wholes(1..=31)?, at.need("stride")?.wholes(1..=15)?])
    };
    let (window, count, operation) = match name {
        "conv2d" => (window("kernel_size")?, 1, Operation::Conv(conv(&at)?)),
        "dense" => ([[1, 1], [1, 1]], 1, Operation::Conv(conv(&at)?)),
        "max_pool2d" => (window("pool_size")?, 1, vector(&at, VectorOperation::Largest)?),
        "avg_pool2d" => {
            let factor = at.need("module_list")?.need("fp32_mul_group")?;
            let factor = factor.need("mul_group_k_scalar")?.number()?;
            (window("pool_size")?, 1, vector(&at, VectorOperation::Average(factor))?)
        }
        "element_wise_add" => ([[1, 1], [1, 1]], 2, vector(&at, VectorOperation::Add)?),
        "quantize" => ([[1, 1], [1, 1]], 1, vector(&at, VectorOperation::Quantise)?),
        _ => return Ok(None),
    };
    if operands.len() < count {
        let message = format!("expected {count} operands in previous_layer");
        return Err(at.wrong("Q4072", message));
    }
    Ok(Some(Layer {
        index: at.need("layer_index")?.whole(0..=i64::from(i32::MAX))? as i32,
        operands: operands.into_iter().take(count).collect(),
        output: extents(&first(&at, "output_shape")?)?,
        format: format(&first(&at, "output_dtype")?)?,
        window,
        operation,
        at,
    }))
}

fn conv(at: &At<'_>) -> Result<ConvLayer> {
    let shapes = at.need("input_shape")?;
    let weights = shapes.list()?;
    let Some(weights) = weights.get(1) else {
        return Err(shapes.wrong("Q4072", "expected the shape of the weights"));
    };
    let info = at.need("quant_info")?;
    let zero = info.need("input_zero_point1")?.number()?;
    let pad = match zero.as_whole() {
        Some(whole) => Number::whole(whole.saturating_neg()),
        // A finite number is its own negative; minus nothing is 0.
        None => Number::real(0.0 - zero.value()).unwrap_or(Number::ZERO),
    };
    let quantiser = match format(&first(at, "output_dtype")?)? {
        DataFmt::FP16 => None,
        _ => {
            Some([info.need("output_zero_point")?.number()?, info.need("output_scale")?.number()?])
        }
    };
    let relu = at.get("activation_type").map(|activation| match activation.text()? {
        "relu" => Ok(true),
        other => {
            let message = format!("expected relu or null, found {other:?}");
            Err(activation.wrong("Q4074", message))
        }
    });
    Ok(ConvLayer {
        weights: extents(weights)?,
        pad,
        quantiser,
        relu: relu.transpose()?.unwrap_or(false),
    })
}

fn vector(at: &At<'_>, kind: VectorOperation) -> Result<Operation> {
    let modules = at.need("module_list")?;
    let (before, after) = (modules.need("pre_cal")?, modules.need("post_cal")?);
    let first = [before.need("requan_zp_a")?.number()?, before.need("requan_scale_a")?.number()?];
    let second = match (before.get("requan_zp_b"), before.get("requan_scale_b")) {
        (Some(offset), Some(factor)) => [offset.number()?, factor.number()?],
        (None, None) if kind != VectorOperation::Add => [Number::ZERO; 2],
        _ => return Err(before.wrong("Q4072", "expected requan_scale_b and requan_zp_b")),
    };
    let round = after.get("carry_sel").map(|mode| mode.text()).transpose()? == Some("round");
    Ok(Operation::Vector(VectorLayer {
        kind,
        dequantisers: [first, second],
        quantiser: [after.need("sum_b")?.number()?, after.need("mul_k")?.number()?],
        round,
        relu: modules.get("relu_group").is_some(),
    }))
}
