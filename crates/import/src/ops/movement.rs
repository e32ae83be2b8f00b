//! Operators that join, select, repeat and convert elements.

#![deny(clippy::arithmetic_side_effects)]

use crate::attributes::malformed;
use crate::context::NodeContext;
use crate::ops::shape::{axes, target};
use crate::tensor::MAX_RANK;
use quincunx_diag::Result;
use quincunx_graph::{Op, Pad, PadMode, SliceRange, ValueId};
use quincunx_tensor::{DType, Narrow, show_shape};

/// Padding is this or less.
const MAX_PAD: u64 = 1 << 40;

pub(crate) fn concat(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let inputs: Vec<_> =
        (0..node.operand_count()).map(|i| node.operand(i).map(Some)).collect::<Result<_>>()?;
    let rank = inputs[0].map_or(0, |x| node.shape(x).len());
    let default = if node.opset < 4 { Some(1) } else { None };
    let axis = match node.attributes.int("axis")?.or(default) {
        Some(axis) => one_axis(axis, rank)?,
        None => return Err(malformed("attribute \"axis\" is missing".to_owned())),
    };
    node.emit(Op::Concat { axis }, &inputs)
}

/// One output per part; every used one becomes a slice.
pub(crate) fn split(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let x = node.operand(0)?;
    let shape = node.shape(x);
    let axis = one_axis(node.attributes.int("axis")?.unwrap_or(0), shape.len())?;
    let parts = node.output_slots();
    if let Some(count) = node.attributes.int("num_outputs")?
        && usize::try_from(count) != Ok(parts)
    {
        return Err(malformed(format!("num_outputs is {count}, the node has {parts} outputs")));
    }
    let given = if node.opset >= 13 {
        numbers(node, 1, "split", parts.max(MAX_RANK))?
    } else {
        node.attributes.ints("split")?.map(<[i64]>::to_vec)
    };
    let lengths = match given {
        Some(given) => given,
        None => {
            // Where it does not come out even, the last part is smaller.
            node.reads_extents(x, axis..axis.saturating_add(1));
            let extent = signed(shape[axis])?;
            let length = signed(shape[axis].div_ceil(parts.max(1)))?;
            (0..parts).map(|part| part_length(part, length, extent)).collect()
        }
    };
    let total = lengths.iter().try_fold(0_i64, |all, &length| all.checked_add(length));
    let fits = total == Some(signed(shape[axis])?) && lengths.iter().all(|&length| length >= 0);
    if lengths.len() != parts || !fits {
        return Err(malformed(format!(
            "split is {lengths:?} for {parts} outputs of axis {axis} with extent {}",
            shape[axis]
        )));
    }
    let mut start = 0;
    for (output, length) in lengths.into_iter().enumerate() {
        let end = i64::saturating_add(start, length);
        if node.wants(output) {
            let ranges = vec![SliceRange { axis, start, end, step: 1 }];
            node.emit_output(output, Op::Slice { ranges }, &[Some(x)])?;
        }
        start = end;
    }
    Ok(())
}

/// Length of one of several parts of equal length.
fn part_length(part: usize, length: i64, extent: i64) -> i64 {
    let start = i64::try_from(part).unwrap_or(i64::MAX).saturating_mul(length);
    extent.saturating_sub(start).clamp(0, length)
}

pub(crate) fn slice(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let x = node.operand(0)?;
    let rank = node.shape(x).len();
    let (starts, ends, given, steps) = if node.opset < 10 {
        let attribute = |node: &mut NodeContext<'_, '_>, name| {
            Ok::<_, quincunx_diag::Diagnostic>(node.attributes.ints(name)?.map(<[i64]>::to_vec))
        };
        (attribute(node, "starts")?, attribute(node, "ends")?, attribute(node, "axes")?, None)
    } else {
        (
            numbers(node, 1, "starts", MAX_RANK)?,
            numbers(node, 2, "ends", MAX_RANK)?,
            numbers(node, 3, "axes", MAX_RANK)?,
            numbers(node, 4, "steps", MAX_RANK)?,
        )
    };
    let (Some(starts), Some(ends)) = (starts, ends) else {
        return Err(malformed("starts or ends are missing".to_owned()));
    };
    let sliced = match given {
        Some(given) => axes(&given, rank, "axes")?,
        None => (0..starts.len()).collect(),
    };
    let steps = steps.unwrap_or_else(|| vec![1; starts.len()]);
    if [ends.len(), sliced.len(), steps.len()] != [starts.len(); 3] {
        return Err(malformed(format!(
            "{} starts, {} ends, {} axes and {} steps do not fit together",
            starts.len(),
            ends.len(),
            sliced.len(),
            steps.len()
        )));
    }
    let range =
        |i: usize| SliceRange { axis: sliced[i], start: starts[i], end: ends[i], step: steps[i] };
    let ranges = (0..starts.len()).map(range).collect();
    node.emit(Op::Slice { ranges }, &[Some(x)])
}

pub(crate) fn pad(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let x = node.operand(0)?;
    let rank = node.shape(x).len();
    let mode = node.attributes.string("mode")?.unwrap_or("constant");
    let (given, value, padded) = if node.opset < 11 {
        let name = if node.opset < 2 { "paddings" } else { "pads" };
        let pads = node.attributes.ints(name)?.map(<[i64]>::to_vec);
        (pads, f64::from(node.attributes.float("value")?.unwrap_or(0.0)), None)
    } else {
        let pads = numbers(node, 1, "pads", 2 * MAX_RANK)?;
        (pads, pad_value(node)?, numbers(node, 3, "axes", MAX_RANK)?)
    };
    let given = given.ok_or_else(|| malformed("pads are missing".to_owned()))?;
    let padded = match padded {
        Some(padded) => axes(&padded, rank, "axes")?,
        None => (0..rank).collect(),
    };
    let (before, after) = given.split_at(given.len() / 2);
    if before.len() != padded.len()
        || after.len() != padded.len()
        || given.iter().any(|pad| pad.unsigned_abs() > MAX_PAD)
    {
        return Err(malformed(format!(
            "pads are {given:?}, expected two numbers up to 2^40 for each of {} axes",
            padded.len()
        )));
    }
    let mut pads = vec![(0, 0); rank];
    for (&axis, (&before, &after)) in padded.iter().zip(before.iter().zip(after)) {
        pads[axis] = (before, after);
    }
    let mode = match mode {
        "constant" => PadMode::Constant(value),
        "edge" => PadMode::Edge,
        "reflect" => PadMode::Reflect,
        "wrap" => PadMode::Wrap,
        other => {
            return Err(malformed(format!(
                "attribute \"mode\" is \"{other}\", expected constant, edge, reflect or wrap"
            )));
        }
    };
    node.emit(Op::Pad(Pad { pads: pads.into_iter().collect(), mode }), &[Some(x)])
}

/// The number to pad with: operand 2, or 0.
fn pad_value(node: &NodeContext<'_, '_>) -> Result<f64> {
    let Some(value) = node.optional_parameter(2, "the constant value")? else {
        return Ok(0.0);
    };
    match value.to_f64().as_slice() {
        [number] if value.dtype().is_float() || number.abs() <= 9e15 => Ok(*number),
        [number] => Err(node.unsupported(format_args!("padding with {number}"))),
        _ => Err(malformed(format!(
            "the constant value has shape {}, expected one number",
            show_shape(value.shape())
        ))),
    }
}

pub(crate) fn gather(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let (x, indices) = (node.operand(0)?, node.operand(1)?);
    let axis = one_axis(node.attributes.int("axis")?.unwrap_or(0), node.shape(x).len())?;
    node.emit(Op::Gather { axis }, &[Some(x), Some(indices)])
}

pub(crate) fn expand(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let x = node.operand(0)?;
    let shape = extents(node, 1, "shape")?;
    node.emit(Op::Expand { shape }, &[Some(x)])
}

pub(crate) fn tile(node: &mut NodeContext<'_, '_>) -> Result<()> {
    if node.opset < 6 {
        return Err(node.unsupported("the form of opsets before 6"));
    }
    let x = node.operand(0)?;
    let repeats = extents(node, 1, "repeats")?;
    node.emit(Op::Tile { repeats }, &[Some(x)])
}

pub(crate) fn cast(node: &mut NodeContext<'_, '_>) -> Result<()> {
    if node.opset < 6 {
        return Err(node.unsupported("the form of opsets before 6"));
    }
    let code = node.attributes.int("to")?;
    let code = code.ok_or_else(|| malformed("attribute \"to\" is missing".to_owned()))?;
    let to = i32::try_from(code).map_err(|_| "unknown").and_then(crate::dtype::from_onnx);
    let to = to.map_err(|name| node.unsupported(format_args!("conversion to {name}")))?;
    cast_to(node, to)
}

pub(crate) fn cast_like(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let like = node.operand(1)?;
    let to = node.dtype(like);
    cast_to(node, to)
}

fn cast_to(node: &mut NodeContext<'_, '_>, to: DType) -> Result<()> {
    let x = node.operand(0)?;
    let saturate = node.attributes.flag("saturate", true)?;
    let round_mode = node.attributes.string("round_mode")?.unwrap_or("up");
    if to == DType::Narrow(Narrow::E8M0) && round_mode != "up" {
        return Err(node.unsupported(format_args!("round_mode {round_mode}; only up")));
    }
    let op = match node.dtype(x) == to {
        true => Op::Identity,
        // Wider types have one rule for numbers that are out of range.
        false if saturate || !is_small_float(to) => Op::Cast { to },
        false => Op::CastUnbounded { to },
    };
    node.emit(op, &[Some(x)])
}

/// True for floats of 8 bits, whose conversions may saturate or not.
fn is_small_float(dtype: DType) -> bool {
    matches!(dtype, DType::Narrow(narrow) if narrow.is_float() && narrow.bits() == 8)
}

/// Blocks of channels become blocks of pixels: two reshapes around a transposition.
pub(crate) fn depth_to_space(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let (x, block, [n, c, h, w]) = blocked(node)?;
    let columns_first = columns_first(node)?;
    let area = block.saturating_mul(block);
    let Some(depth) = c.checked_div(area).filter(|_| c.is_multiple_of(area)) else {
        return Err(malformed(format!("{c} channels are not multiples of {area}")));
    };
    let (split, order) = if columns_first {
        (vec![n, depth, block, block, h, w], vec![0, 1, 4, 2, 5, 3])
    } else {
        (vec![n, block, block, depth, h, w], vec![0, 3, 4, 1, 5, 2])
    };
    let joined = vec![n, depth, h.saturating_mul(block), w.saturating_mul(block)];
    regroup(node, x, split, order, joined)
}

/// Blocks of pixels become channels.
pub(crate) fn space_to_depth(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let (x, block, [n, c, h, w]) = blocked(node)?;
    let blocks = |extent: usize| extent.checked_div(block).filter(|_| extent.is_multiple_of(block));
    let (Some(rows), Some(columns)) = (blocks(h), blocks(w)) else {
        return Err(malformed(format!("extents {h} and {w} are not multiples of {block}")));
    };
    let split = vec![n, c, rows, block, columns, block];
    let depth = c.saturating_mul(block.saturating_mul(block));
    let joined = vec![n, depth, rows, columns];
    let order = match columns_first(node)? {
        true => vec![0, 1, 3, 5, 2, 4],
        false => vec![0, 3, 5, 1, 2, 4],
    };
    regroup(node, x, split, order, joined)
}

/// True when the block is the inner part of the channels.
fn columns_first(node: &mut NodeContext<'_, '_>) -> Result<bool> {
    match node.attributes.string("mode")?.unwrap_or("DCR") {
        "DCR" => Ok(false),
        "CRD" => Ok(true),
        other => Err(malformed(format!("attribute \"mode\" is \"{other}\", expected DCR or CRD"))),
    }
}

/// The operand, the block size and the four extents.
fn blocked(node: &mut NodeContext<'_, '_>) -> Result<(ValueId, usize, [usize; 4])> {
    let x = node.operand(0)?;
    let given = node.attributes.int("blocksize")?.unwrap_or(0);
    let block = usize::try_from(given).ok().filter(|block| (1..=1 << 16).contains(block));
    let block = block.ok_or_else(|| {
        malformed(format!("attribute \"blocksize\" is {given}, expected 1 to 65536"))
    })?;
    match node.shape(x)[..] {
        [n, c, h, w] => Ok((x, block, [n, c, h, w])),
        ref shape => {
            Err(malformed(format!("the operand has shape {}, expected 4 axes", show_shape(shape))))
        }
    }
}

fn regroup(
    node: &mut NodeContext<'_, '_>,
    x: ValueId,
    split: Vec<usize>,
    order: Vec<usize>,
    joined: Vec<usize>,
) -> Result<()> {
    let shape = target(node, &node.shape(x), split)?;
    let split = node.emit_before(Op::Reshape { shape }, &[Some(x)])?;
    let moved = node.emit_before(Op::Transpose { order }, &[Some(split)])?;
    let shape = target(node, &node.shape(moved), joined)?;
    node.emit(Op::Reshape { shape }, &[Some(moved)])
}

/// A constant operand that is a list of at most `most` integers.
pub(crate) fn numbers(
    node: &NodeContext<'_, '_>,
    index: usize,
    what: &str,
    most: usize,
) -> Result<Option<Vec<i64>>> {
    let Some(tensor) = node.optional_parameter(index, what)? else {
        return Ok(None);
    };
    if tensor.shape().len() > 1 || !matches!(tensor.dtype(), DType::I64 | DType::I32) {
        return Err(malformed(format!(
            "{what} is {}{}, expected a list of i64",
            tensor.dtype(),
            show_shape(tensor.shape())
        )));
    }
    if tensor.len() > most {
        return Err(malformed(format!(
            "{what} has {} entries; at most {most} are accepted",
            tensor.len()
        )));
    }
    Ok(tensor.to_i64())
}

/// A constant operand that is a list of extents.
pub(crate) fn extents(node: &NodeContext<'_, '_>, index: usize, what: &str) -> Result<Vec<usize>> {
    let given = numbers(node, index, what, MAX_RANK)?
        .ok_or_else(|| malformed(format!("operand {index} ({what}) is missing")))?;
    given
        .iter()
        .map(|&extent| {
            usize::try_from(extent)
                .map_err(|_| malformed(format!("{what} is {given:?}, expected numbers from 0")))
        })
        .collect()
}

/// An axis that counts from the end when negative.
pub(crate) fn one_axis(axis: i64, rank: usize) -> Result<usize> {
    Ok(axes(&[axis], rank, "axis")?[0])
}

pub(crate) fn signed(extent: usize) -> Result<i64> {
    i64::try_from(extent).map_err(|_| malformed(format!("extent {extent} is too large")))
}
