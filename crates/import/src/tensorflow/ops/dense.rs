//! Matrix products and biases.

use super::elementwise::aligned;
use crate::tensorflow::attributes::malformed;
use crate::tensorflow::context::Node;
use crate::tensorflow::layout::{inverse, is_plain, plain};
use crate::tensorflow::reader::Stored;
use crate::tensorflow::tensor::permuted;
use quincunx_diag::Result;
use quincunx_graph::{Binary, Constant, Gemm, Op, ValueId};
use quincunx_tensor::element_count;

pub(super) fn matmul(node: &mut Node<'_, '_>) -> Result<()> {
    let (a, b) = matmul_operands(node)?;
    node.emit(Op::MatMul, &[a, b])
}

/// The two matrices, transposed where the attributes say so.
pub(super) fn matmul_operands(node: &mut Node<'_, '_>) -> Result<(ValueId, ValueId)> {
    let order = |transpose| if transpose { [1, 0] } else { [0, 1] };
    let transpose_a = node.attributes.flag("transpose_a", false)?;
    let transpose_b = node.attributes.flag("transpose_b", false)?;
    if !transpose_a
        && !transpose_b
        && let Some(operands) = behind_flattening(node)?
    {
        return Ok(operands);
    }
    Ok((node.ordered(0, &order(transpose_a))?, node.ordered(1, &order(transpose_b))?))
}

/// Where the first matrix is an image brought to the order of the file only to be flattened, and
/// the second is constant, the rows of the constant are reordered instead.
fn behind_flattening(node: &mut Node<'_, '_>) -> Result<Option<(ValueId, ValueId)>> {
    let Some(Constant { tensor, quantiser }) = node.constant(1) else {
        return Ok(None);
    };
    let flat = node.plain(0)?;
    let Some((Op::Reshape { .. }, image)) = node.producer(flat) else {
        return Ok(None);
    };
    let Some(image) = image.first().copied().flatten() else {
        return Ok(None);
    };
    let Some((Op::Transpose { order }, source)) = node.producer(image) else {
        return Ok(None);
    };
    let (flat, shape) = (node.stored_shape(flat), node.stored_shape(image));
    let (&[batch, depth], &[rows, columns]) = (&flat[..], tensor.shape()) else {
        return Ok(None);
    };
    let whole = shape.first() == Some(&batch) && element_count(&shape[1..]) == Some(depth);
    let uniform = quantiser.as_ref().is_none_or(|q| q.is_uniform());
    let Some(source) = source.first().copied().flatten() else {
        return Ok(None);
    };
    if !whole || rows != depth || order[0] != 0 || !uniform {
        return Ok(None);
    }
    let mut split: Vec<usize> = shape[1..].to_vec();
    split.push(columns);
    let mut moves: Vec<usize> = inverse(&order)[1..].iter().map(|&axis| axis - 1).collect();
    moves.push(split.len() - 1);
    node.store(tensor.len())?;
    let tensor = permuted(&tensor.reshape(&split)?, &moves)?.reshape(&[rows, columns])?;
    let weights = node.add_constant(Constant { tensor, quantiser })?;
    let flat = node.before(Op::Flatten { axis: 1 }, &[source])?;
    Ok(Some((flat, weights)))
}

pub(super) fn batch_matmul(node: &mut Node<'_, '_>) -> Result<()> {
    let mut operands = [None; 2];
    for (index, name) in ["adj_x", "adj_y"].into_iter().enumerate() {
        let mut order = plain(node.shape(index)?.len());
        if order.len() < 2 {
            return Err(malformed(format!("operand {index} has no two axes")));
        }
        if node.attributes.flag(name, false)? {
            let last = order.len() - 1;
            order.swap(last - 1, last);
        }
        operands[index] = Some(node.ordered(index, &order)?);
    }
    let operands: Vec<ValueId> = operands.into_iter().flatten().collect();
    node.emit(Op::MatMul, &operands)
}

/// Adds a list along the channels. Behind a convolution or matrix product that nothing else reads
/// it becomes that operation's bias.
pub(super) fn bias_add(node: &mut Node<'_, '_>) -> Result<()> {
    let shape = node.shape(0)?;
    let channels_last = match node.attributes.text("data_format", "NHWC")? {
        "NHWC" => true,
        "NCHW" => false,
        other => return Err(node.unsupported(format_args!("data_format {other}"))),
    };
    let bias = node.shape(1)?;
    let axis = if channels_last { shape.len().saturating_sub(1) } else { 1 };
    if shape.len() < 2 || bias.len() != 1 || shape.get(axis) != Some(&bias[0]) {
        return Err(malformed("the bias does not fit the channels".to_owned()));
    }
    if join_bias(node, axis)? {
        return Ok(());
    }
    if channels_last {
        let (operands, order) = aligned(node, &[0, 1])?;
        return node.emit_ordered(Op::Binary(Binary::Add), &operands, order);
    }
    let x = node.stored(0)?;
    let mut extents = vec![1; shape.len()];
    extents[axis] = bias[0];
    let bias = node.plain(1)?;
    let id = super::shape::reshaped(node, bias, &extents)?;
    let bias = node.view(&Stored { id, order: plain(shape.len()) }, &x.order)?;
    node.emit_ordered(Op::Binary(Binary::Add), &[x.id, bias], x.order)
}

fn join_bias(node: &mut Node<'_, '_>, axis: usize) -> Result<bool> {
    let layers =
        ["Conv2D", "DepthwiseConv2dNative", "Conv2DBackpropInput", "BatchToSpaceND", "MatMul"];
    let layer = node.source(0).map_or("", |layer| layer.operator());
    if !layers.contains(&layer) || !node.reads_alone(0) {
        return Ok(false);
    }
    let x = node.stored(0)?;
    let Some((op, mut operands)) = node.producer(x.id) else {
        return Ok(false);
    };
    let fits = x.order.get(1) == Some(&axis);
    let op = match op {
        Op::Conv(_) | Op::ConvTranspose(_) if fits && operands.len() == 2 => op,
        Op::MatMul if is_plain(&x.order) && x.order.len() == 2 => {
            Op::Gemm(Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: false })
        }
        _ => return Ok(false),
    };
    operands.push(Some(node.plain(1)?));
    let operands: Vec<ValueId> = operands.into_iter().flatten().collect();
    node.emit_ordered(op, &operands, x.order)?;
    Ok(true)
}
