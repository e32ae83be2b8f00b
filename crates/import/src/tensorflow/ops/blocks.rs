//! Blocks of pixels moved to channels or to the batch, and back.

#![deny(clippy::arithmetic_side_effects)]

use super::window::{Format, depthwise_weights, format, window};
use crate::tensorflow::attributes::malformed;
use crate::tensorflow::context::Node;
use crate::tensorflow::layout::{NCHW, reshape_target};
use quincunx_diag::Result;
use quincunx_graph::{Conv, Op, Pad, PadMode, SliceRange, Spatial, ValueId};

/// Largest side of a block.
const MAX_BLOCK: usize = 1 << 16;

pub(super) fn space_to_depth(node: &mut Node<'_, '_>) -> Result<()> {
    let (Format { order, .. }, b) = image(node)?;
    let x = node.ordered(0, &order)?;
    let [n, c, h, w] = extents(node, x);
    let (Some(rows), Some(columns)) = (whole(h, b), whole(w, b)) else {
        return Err(malformed(format!("blocks of {b} do not fit {h} by {w}")));
    };
    let x = reshape(node, x, &[n, c, rows, b, columns, b])?;
    let x = node.before(Op::Transpose { order: vec![0, 3, 5, 1, 2, 4] }, &[x])?;
    let depth = c.saturating_mul(b.saturating_mul(b));
    let shape = reshape_target(&node.stored_shape(x), &[n, depth, rows, columns])?;
    node.emit_ordered(Op::Reshape { shape }, &[x], order)
}

pub(super) fn depth_to_space(node: &mut Node<'_, '_>) -> Result<()> {
    let (Format { order, .. }, b) = image(node)?;
    let x = node.ordered(0, &order)?;
    let [n, c, h, w] = extents(node, x);
    let Some(depth) = whole(c, b.saturating_mul(b)) else {
        return Err(malformed(format!("{c} channels do not fit blocks of {b}")));
    };
    let x = reshape(node, x, &[n, b, b, depth, h, w])?;
    let x = node.before(Op::Transpose { order: vec![0, 3, 4, 1, 5, 2] }, &[x])?;
    let [rows, columns] = [h, w].map(|extent| extent.saturating_mul(b));
    let shape = reshape_target(&node.stored_shape(x), &[n, depth, rows, columns])?;
    node.emit_ordered(Op::Reshape { shape }, &[x], order)
}

/// How many blocks an extent is; `None` if it is not a whole number of them.
fn whole(extent: usize, block: usize) -> Option<usize> {
    extent.checked_div(block).filter(|_| extent.is_multiple_of(block))
}

fn image(node: &Node<'_, '_>) -> Result<(Format, usize)> {
    let block = node.attributes.int("block_size", 0)?;
    let valid = usize::try_from(block).ok().filter(|b| (1..=MAX_BLOCK).contains(b));
    Ok((format(node)?, valid.ok_or_else(|| malformed(format!("block_size is {block}")))?))
}

fn extents(node: &Node<'_, '_>, x: ValueId) -> [usize; 4] {
    let shape = node.stored_shape(x);
    [0, 1, 2, 3].map(|axis| shape[axis])
}

fn reshape(node: &mut Node<'_, '_>, x: ValueId, to: &[usize]) -> Result<ValueId> {
    let shape = reshape_target(&node.stored_shape(x), to)?;
    node.before(Op::Reshape { shape }, &[x])
}

/// Block and ends of the two operators on the batch.
struct Blocks {
    block: Vec<usize>,
    /// Padding or crops before and after each axis.
    ends: Vec<(usize, usize)>,
    volume: usize,
}

fn blocks(node: &Node<'_, '_>) -> Result<Blocks> {
    let block = node.target_shape(1, "the block")?;
    let ends = node.integers(2, "the ends")?;
    let valid = |end: i64| usize::try_from(end).ok().filter(|&end| end <= 1 << 32);
    let ends: Option<Vec<usize>> = ends.iter().map(|&end| valid(end)).collect();
    let volume = block.iter().try_fold(1_usize, |all, &b| all.checked_mul(b));
    let small = block.iter().all(|b| (1..=MAX_BLOCK).contains(b));
    match (ends, volume) {
        (Some(ends), Some(volume)) if small && ends.len() == block.len().saturating_mul(2) => {
            let ends = ends.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
            Ok(Blocks { block, ends, volume })
        }
        _ => Err(malformed("block and paddings or crops do not fit together".to_owned())),
    }
}

/// `SpaceToBatchND(x, block, paddings)`.
pub(super) fn space_to_batch(node: &mut Node<'_, '_>) -> Result<()> {
    let Blocks { block, ends, .. } = blocks(node)?;
    let x = node.plain(0)?;
    let rank = node.stored_shape(x).len();
    if rank <= block.len() {
        return Err(malformed(format!("a block of {} axes for {rank} axes", block.len())));
    }
    let mut pads = vec![(0, 0); rank];
    for (pad, &(before, after)) in pads[1..].iter_mut().zip(&ends) {
        *pad = (before as i64, after as i64);
    }
    let pad = Pad { pads: pads.into_iter().collect(), mode: PadMode::Constant(0.0) };
    let x = node.before(Op::Pad(pad), &[x])?;
    let padded = node.stored_shape(x);
    // The batch is copied and left over, so that it may be rebound later.
    let (mut split, mut joined) = (vec![0], vec![-1]);
    let (mut inner, mut outer) = (Vec::new(), vec![0]);
    for (axis, &extent) in padded.iter().enumerate().skip(1) {
        outer.push(split.len());
        let Some(&b) = block.get(axis.saturating_sub(1)) else {
            split.push(extent as i64);
            joined.push(extent as i64);
            continue;
        };
        let blocks = whole(extent, b)
            .ok_or_else(|| malformed(format!("blocks of {b} do not fit extent {extent}")))?;
        split.push(blocks as i64);
        inner.push(split.len());
        split.push(b as i64);
        joined.push(blocks as i64);
    }
    let mut order = inner;
    order.extend(outer);
    refuse_empty(&padded)?;
    let x = node.before(Op::Reshape { shape: split }, &[x])?;
    let x = node.before(Op::Transpose { order }, &[x])?;
    node.emit(Op::Reshape { shape: joined }, &[x])
}

/// An extent of 0 would read as a copy.
fn refuse_empty(shape: &[usize]) -> Result<()> {
    match shape.contains(&0) {
        true => Err(malformed("a tensor without elements".to_owned())),
        false => Ok(()),
    }
}

/// `BatchToSpaceND(x, block, crops)`.
pub(super) fn batch_to_space(node: &mut Node<'_, '_>) -> Result<()> {
    let Blocks { block, ends, volume } = blocks(node)?;
    if dilated_conv(node, &block, &ends)? {
        return Ok(());
    }
    let x = node.plain(0)?;
    let shape = node.stored_shape(x);
    refuse_empty(&shape)?;
    let (rank, spatial) = (shape.len(), block.len());
    if rank <= spatial || !shape[0].is_multiple_of(volume) {
        return Err(malformed(format!("blocks {block:?} do not fit {shape:?}")));
    }
    let mut split: Vec<i64> = block.iter().map(|&b| b as i64).collect();
    split.push(-1);
    split.extend(shape[1..].iter().map(|&extent| extent as i64));
    // The axes of `split` behind those of the block: the batch, then those of `x`.
    let mut behind = spatial..split.len();
    let mut order: Vec<usize> = behind.next().into_iter().collect();
    let mut joined = vec![0];
    for (axis, (extent, b)) in shape[1..].iter().zip(&block).enumerate() {
        order.extend(behind.next());
        order.push(axis);
        let extent = extent.checked_mul(*b);
        let extent = extent.ok_or_else(|| malformed("an extent is too large".to_owned()))?;
        joined.push(extent as i64);
    }
    order.extend(behind);
    joined.extend(shape[1..][spatial..].iter().map(|&extent| extent as i64));
    let mut ranges = Vec::new();
    for (axis, &(before, after)) in (1..).zip(&ends) {
        let extent = joined[axis];
        let (start, end) = (before as i64, extent.saturating_sub(after as i64));
        if start > end {
            return Err(malformed(format!("crops of {before} and {after} from {extent}")));
        }
        if (before, after) != (0, 0) {
            ranges.push(SliceRange { axis, start, end, step: 1 });
        }
    }
    let x = node.before(Op::Reshape { shape: split }, &[x])?;
    let x = node.before(Op::Transpose { order }, &[x])?;
    if ranges.is_empty() {
        return node.emit(Op::Reshape { shape: joined }, &[x]);
    }
    let x = node.before(Op::Reshape { shape: joined }, &[x])?;
    node.emit(Op::Slice { ranges }, &[x])
}

/// A convolution between the two operators is one with dilations.
fn dilated_conv(
    node: &mut Node<'_, '_>,
    block: &[usize],
    crops: &[(usize, usize)],
) -> Result<bool> {
    let (&[height, width], true) = (block, node.reads_alone(0)) else {
        return Ok(false);
    };
    let Some(mut layer) = node.source(0) else {
        return Ok(false);
    };
    let depthwise = match layer.operator() {
        "Conv2D" => false,
        "DepthwiseConv2dNative" => true,
        _ => return Ok(false),
    };
    let attributes = layer.attributes;
    let ones = |name| attributes.ints(name).map(|list| list.iter().all(|&v| v == 1));
    let simple = attributes.text("padding", "")? == "VALID"
        && attributes.text("data_format", "NHWC")? == "NHWC"
        && ones("strides")?
        && ones("dilations")?;
    let Some(mut outer) = layer.source(0).filter(|outer| outer.operator() == "SpaceToBatchND")
    else {
        return Ok(false);
    };
    let before = blocks(&outer)?;
    if !simple || before.block != block || outer.shape(0)?.len() != 4 {
        return Ok(false);
    }
    let pads = before.ends.iter().zip(crops);
    let pads: Option<Vec<(usize, usize)>> = pads
        .map(|(pad, crop)| Some((pad.0.checked_sub(crop.0)?, pad.1.checked_sub(crop.1)?)))
        .collect();
    let Some(pads) = pads else {
        return Ok(false);
    };
    let x = outer.ordered(0, &NCHW)?;
    let w = match depthwise {
        true => depthwise_weights(&mut layer, 1)?,
        false => layer.ordered(1, &[3, 2, 0, 1])?,
    };
    let (channels, shape) = (node.stored_shape(x)[1], node.stored_shape(w));
    let Some(mut window) = window(&shape[2..]) else {
        return Ok(false);
    };
    window.dilations = Spatial::from([height, width]);
    window.pads = pads.into_iter().collect();
    let groups = channels.checked_div(shape[1]).unwrap_or(0);
    node.emit_ordered(Op::Conv(Conv { window, groups }), &[x, w], NCHW.to_vec())?;
    Ok(true)
}
