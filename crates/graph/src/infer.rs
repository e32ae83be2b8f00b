//! Shape and type inference: one function per operator family.

#![deny(clippy::arithmetic_side_effects, clippy::wildcard_enum_match_arm)]

mod layers;
mod movement;
mod numeric;

use crate::graph::check_quantiser;
use crate::{Conv, Gemm, Graph, Op, Pool, PoolKind, Quantiser, ValueId, Window};
use quincunx_diag::{Diagnostic, Result};
use quincunx_tensor::{DType, Shape, broadcast_shapes, element_count, show_shape};

/// True for a problem of inference that other extents of the inputs may solve.
pub fn depends_on_extents(problem: &Diagnostic) -> bool {
    matches!(problem.code(), "Q0304" | "Q0306" | "Q0314")
}

/// Type and shape of a node's result.
pub(crate) fn infer(graph: &Graph, op: &Op, inputs: &[Option<ValueId>]) -> Result<(DType, Shape)> {
    let operands = Operands { graph, inputs };
    operands.check_count(op)?;
    operands.check_storage(op)?;
    let (x_type, x) = operands.get(0)?;
    match op {
        Op::Conv(conv) => infer_conv(conv, &operands),
        Op::Gemm(gemm) => infer_gemm(gemm, &operands),
        Op::MatMul => infer_matmul(&operands),
        Op::Pool(pool) => infer_pool(pool, x_type, x),
        Op::GlobalAveragePool | Op::GlobalMaxPool => infer_global_pool(x_type, x),
        Op::BatchNorm(_) => infer_batch_norm(&operands),
        Op::Identity => Ok((x_type, x.into())),
        Op::Unary(unary) => numeric::infer_unary(*unary, x_type, x),
        Op::Binary(binary) => numeric::infer_binary(*binary, &operands),
        Op::Activation(_) => numeric::infer_float(x_type, x),
        Op::PRelu => numeric::infer_prelu(&operands),
        Op::Compare(compare) => numeric::infer_compare(*compare, &operands),
        Op::Logic(_) => numeric::infer_logic(&operands),
        Op::Where => numeric::infer_where(&operands),
        Op::Reduce(reduce) => numeric::infer_reduce(reduce, x_type, x),
        Op::ArgExtreme(arg) => numeric::infer_arg(arg, x_type, x),
        Op::Softmax(softmax) => numeric::infer_softmax(softmax, x_type, x),
        Op::LayerNorm(norm) => numeric::infer_layer_norm(norm, &operands),
        Op::InstanceNorm(norm) => numeric::infer_instance_norm(norm, &operands),
        Op::Lrn(lrn) => numeric::infer_lrn(lrn, x_type, x),
        Op::ConvTranspose(conv) => layers::infer_conv_transpose(conv, &operands),
        Op::Recurrent(layer) => layers::infer_recurrent(layer, &operands),
        Op::Concat { axis } => movement::infer_concat(*axis, &operands),
        Op::Slice { ranges } => movement::infer_slice(ranges, x_type, x),
        Op::Pad(pad) => movement::infer_pad(pad, x_type, x),
        Op::Gather { axis } => movement::infer_gather(*axis, &operands),
        Op::Expand { shape } => movement::infer_expand(shape, x_type, x),
        Op::Tile { repeats } => movement::infer_tile(repeats, x_type, x),
        Op::Resize(resize) => movement::infer_resize(resize, x_type, x),
        Op::Cast { to } | Op::CastUnbounded { to } => Ok((*to, x.into())),
        Op::Flatten { axis } => infer_flatten(*axis, x_type, x),
        Op::Reshape { shape } => infer_reshape(shape, x_type, x),
        Op::Transpose { order } => infer_transpose(order, x_type, x),
        Op::Quantise(quantiser) => {
            float(x_type)?;
            check_quantiser(quantiser, x, "x")?;
            Ok((x_type, x.into()))
        }
        Op::ToCodes(quantiser) => {
            float(x_type)?;
            check_quantiser(quantiser, x, "x")?;
            Ok((code_type(quantiser)?, x.into()))
        }
        Op::FromCodes(quantiser) => {
            if x_type.is_float() || matches!(x_type, DType::Narrow(narrow) if narrow.is_float()) {
                return Err(mismatch(format!("expected integer codes, found {x_type}")));
            }
            check_quantiser(quantiser, x, "x")?;
            Ok((DType::F32, x.into()))
        }
    }
}

struct Operands<'a> {
    graph: &'a Graph,
    inputs: &'a [Option<ValueId>],
}

impl<'a> Operands<'a> {
    fn check_count(&self, op: &Op) -> Result<()> {
        let (fewest, most) = op.arity();
        let found = self.inputs.len();
        if (fewest..=most).contains(&found) && self.inputs[..fewest].iter().all(Option::is_some) {
            return Ok(());
        }
        let expected =
            if fewest == most { format!("{fewest}") } else { format!("{fewest} to {most}") };
        Err(mismatch(format!("expected {expected} operands, found {found}")))
    }

    /// Only what moves or converts elements takes types that are made for storage.
    fn check_storage(&self, op: &Op) -> Result<()> {
        let converts =
            matches!(op, Op::Cast { .. } | Op::CastUnbounded { .. } | Op::FromCodes(_) | Op::Where);
        if converts || op.only_moves() {
            return Ok(());
        }
        let types = (0..self.inputs.len()).filter_map(|index| self.optional(index));
        match types.map(|(dtype, _)| dtype).find(|dtype| dtype.is_storage()) {
            None => Ok(()),
            Some(found) => Err(mismatch(format!("{} does not compute with {found}", op.name()))),
        }
    }

    fn get(&self, index: usize) -> Result<(DType, &'a [usize])> {
        self.optional(index).ok_or_else(|| mismatch(format!("operand {index} is absent")))
    }

    fn optional(&self, index: usize) -> Option<(DType, &'a [usize])> {
        let value = &self.graph[self.inputs.get(index).copied().flatten()?];
        Some((value.dtype, &value.shape))
    }

    /// All operands must have one type.
    fn same_type(&self) -> Result<DType> {
        let (first, _) = self.get(0)?;
        for index in 1..self.inputs.len() {
            if let Some((dtype, _)) = self.optional(index)
                && dtype != first
            {
                return Err(mismatch(format!("operand {index} is {dtype}, expected {first}")));
            }
        }
        Ok(first)
    }
}

fn mismatch(message: String) -> Diagnostic {
    Diagnostic::invalid("Q0306", message)
}

fn float(dtype: DType) -> Result<()> {
    if dtype.is_float() {
        Ok(())
    } else {
        Err(mismatch(format!("expected a float tensor, found {dtype}")))
    }
}

fn infer_conv(conv: &Conv, operands: &Operands<'_>) -> Result<(DType, Shape)> {
    let dtype = operands.same_type()?;
    let (_, x) = operands.get(0)?;
    let (_, w) = operands.get(1)?;
    let rank = conv.window.rank();
    check_window(&conv.window, rank)?;
    let axes = rank.saturating_add(2);
    if x.len() != axes || w.len() != axes {
        return Err(mismatch(format!("expected x and w of rank {axes}")));
    }
    if w[2..] != conv.window.kernel[..] {
        return Err(mismatch(format!(
            "kernel_shape is {:?}, but w has extents {:?}",
            conv.window.kernel,
            &w[2..]
        )));
    }
    let groups = conv.groups;
    if !x[1].is_multiple_of(groups)
        || !w[0].is_multiple_of(groups)
        || x[1].checked_div(groups) != Some(w[1])
    {
        return Err(mismatch(format!(
            "{} input channels, {groups} groups and weights {} do not fit together",
            x[1],
            show_shape(w)
        )));
    }
    if let Some((_, b)) = operands.optional(2)
        && b != [w[0]]
    {
        return Err(mismatch(format!("bias has shape {}, expected [{}]", show_shape(b), w[0])));
    }
    let mut shape = Shape::from_slice(&[x[0], w[0]]);
    for (axis, &extent) in x[2..].iter().enumerate() {
        shape.push(window_extent(&conv.window, axis, extent, false)?);
    }
    Ok((dtype, shape))
}

fn infer_pool(pool: &Pool, dtype: DType, x: &[usize]) -> Result<(DType, Shape)> {
    let rank = pool.window.rank();
    check_window(&pool.window, rank)?;
    let axes = rank.saturating_add(2);
    if x.len() != axes {
        return Err(mismatch(format!("expected x of rank {axes}, found {}", x.len())));
    }
    if let PoolKind::Average { .. } = pool.kind {
        float(dtype)?;
    }
    let mut shape = Shape::from_slice(&x[..2]);
    for (axis, &extent) in x[2..].iter().enumerate() {
        // A window that lies wholly in the padding has no element to pool.
        let span = pool.window.span(axis).unwrap_or(usize::MAX);
        let (before, after) = pool.window.pads[axis];
        if before >= span || after >= span {
            return Err(mismatch(format!(
                "padding {before}, {after} is not smaller than the kernel"
            )));
        }
        shape.push(window_extent(&pool.window, axis, extent, pool.ceil)?);
    }
    Ok((dtype, shape))
}

fn check_window(window: &Window, rank: usize) -> Result<()> {
    let lists =
        [window.kernel.len(), window.strides.len(), window.dilations.len(), window.pads.len()];
    if rank == 0 || lists.iter().any(|&length| length != rank) {
        return Err(mismatch(
            "kernel, strides, dilations and pads need one entry per axis".to_owned(),
        ));
    }
    let positive = |list: &[usize]| list.iter().all(|&v| v >= 1);
    if !(positive(&window.kernel) && positive(&window.strides) && positive(&window.dilations)) {
        return Err(mismatch("kernel, strides and dilations must be at least 1".to_owned()));
    }
    Ok(())
}

/// Number of positions of a window along one axis.
fn window_extent(window: &Window, axis: usize, extent: usize, ceil: bool) -> Result<usize> {
    let too_large = || mismatch(format!("window along axis {axis} is too large to address"));
    let (before, after) = window.pads[axis];
    let stride = window.strides[axis];
    let span = window.span(axis).ok_or_else(too_large)?;
    let padded =
        extent.checked_add(before).and_then(|e| e.checked_add(after)).ok_or_else(too_large)?;
    let Some(room) = padded.checked_sub(span) else {
        return Err(mismatch(format!(
            "kernel spans {span} along axis {axis}, but the padded input has {padded}"
        )));
    };
    let count = room.checked_div(stride).and_then(|steps| steps.checked_add(1));
    let count = count.ok_or_else(too_large)?;
    // The last position of ceil mode is dropped when it would start in the right padding.
    let starts_inside = count.saturating_mul(stride) < extent.saturating_add(before);
    let more = ceil && !room.is_multiple_of(stride) && starts_inside;
    Ok(count.saturating_add(more.into()))
}

fn infer_global_pool(dtype: DType, x: &[usize]) -> Result<(DType, Shape)> {
    float(dtype)?;
    if x.len() < 3 || x[2..].contains(&0) {
        return Err(mismatch(format!(
            "expected [N, C, …] with spatial axes, found {}",
            show_shape(x)
        )));
    }
    let mut shape = Shape::from_elem(1, x.len());
    shape[..2].copy_from_slice(&x[..2]);
    Ok((dtype, shape))
}

fn infer_gemm(gemm: &Gemm, operands: &Operands<'_>) -> Result<(DType, Shape)> {
    let dtype = operands.same_type()?;
    let (_, a) = operands.get(0)?;
    let (_, b) = operands.get(1)?;
    let (&[a0, a1], &[b0, b1]) = (a, b) else {
        return Err(mismatch("expected two tensors of rank 2".to_owned()));
    };
    let (m, k) = if gemm.transpose_a { (a1, a0) } else { (a0, a1) };
    let (k_b, n) = if gemm.transpose_b { (b1, b0) } else { (b0, b1) };
    if k != k_b {
        return Err(mismatch(format!("inner extents {k} and {k_b} differ")));
    }
    if let Some((_, c)) = operands.optional(2)
        && broadcast_shapes(c, &[m, n]).as_deref() != Some(&[m, n])
    {
        return Err(mismatch(format!(
            "c of shape {} does not broadcast to [{m}, {n}]",
            show_shape(c)
        )));
    }
    Ok((dtype, Shape::from_slice(&[m, n])))
}

fn infer_matmul(operands: &Operands<'_>) -> Result<(DType, Shape)> {
    let dtype = operands.same_type()?;
    let (_, a) = operands.get(0)?;
    let (_, b) = operands.get(1)?;
    if a.is_empty() || b.is_empty() {
        return Err(mismatch("a matrix product needs at least one axis on each side".to_owned()));
    }
    // A vector on the left is a row, on the right a column; that axis is dropped again.
    let (a_outer, a_rows, k) = match a {
        [k] => (&[][..], None, *k),
        [outer @ .., m, k] => (outer, Some(*m), *k),
        [] => unreachable!("checked above"),
    };
    let (b_outer, k_b, b_columns) = match b {
        [k] => (&[][..], *k, None),
        [outer @ .., k, n] => (outer, *k, Some(*n)),
        [] => unreachable!("checked above"),
    };
    if k != k_b {
        return Err(mismatch(format!("inner extents {k} and {k_b} differ")));
    }
    let mut shape = broadcast_shapes(a_outer, b_outer)
        .ok_or_else(|| mismatch("outer axes do not broadcast".to_owned()))?;
    shape.extend(a_rows);
    shape.extend(b_columns);
    Ok((dtype, shape))
}

fn infer_batch_norm(operands: &Operands<'_>) -> Result<(DType, Shape)> {
    let dtype = operands.same_type()?;
    float(dtype)?;
    let (_, x) = operands.get(0)?;
    let channels = *x.get(1).ok_or_else(|| mismatch("expected a channel axis".to_owned()))?;
    for index in 1..5 {
        let (_, shape) = operands.get(index)?;
        if shape != [channels] {
            return Err(mismatch(format!(
                "operand {index} has shape {}, expected [{channels}]",
                show_shape(shape)
            )));
        }
    }
    Ok((dtype, x.into()))
}

fn infer_flatten(axis: usize, dtype: DType, x: &[usize]) -> Result<(DType, Shape)> {
    if axis > x.len() {
        return Err(mismatch(format!("axis {axis} is beyond rank {}", x.len())));
    }
    let extent = |axes: &[usize]| element_count(axes).unwrap_or(usize::MAX);
    Ok((dtype, Shape::from_slice(&[extent(&x[..axis]), extent(&x[axis..])])))
}

fn infer_reshape(target: &[i64], dtype: DType, x: &[usize]) -> Result<(DType, Shape)> {
    let total = element_count(x).unwrap_or(usize::MAX);
    let mut shape = Shape::new();
    let mut open = None;
    for (axis, &extent) in target.iter().enumerate() {
        shape.push(match extent {
            0 => *x
                .get(axis)
                .ok_or_else(|| mismatch(format!("extent 0 at axis {axis} copies nothing")))?,
            -1 if open.is_none() => {
                open = Some(axis);
                1
            }
            _ => usize::try_from(extent)
                .map_err(|_| mismatch(format!("extent {extent} at axis {axis} is not allowed")))?,
        });
    }
    if let Some(axis) = open {
        let known = element_count(&shape).unwrap_or(usize::MAX);
        shape[axis] = total.checked_div(known).unwrap_or(0);
    }
    if element_count(&shape) != Some(total) {
        return Err(mismatch(format!(
            "{total} elements do not fit shape {target:?} of {}",
            show_shape(&shape)
        )));
    }
    Ok((dtype, shape))
}

fn infer_transpose(order: &[usize], dtype: DType, x: &[usize]) -> Result<(DType, Shape)> {
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    if sorted != (0..x.len()).collect::<Vec<_>>() {
        return Err(mismatch(format!("{order:?} is not a permutation of {} axes", x.len())));
    }
    Ok((dtype, order.iter().map(|&axis| x[axis]).collect()))
}

/// The smallest standard integer type that holds every code.
pub(crate) fn code_type(quantiser: &Quantiser) -> Result<DType> {
    let width = quantiser.width.values().iter().copied().max().unwrap_or(0);
    let Some(signed) = quantiser.signed.as_uniform() else {
        return Err(mismatch("codes of mixed signedness have no integer type".to_owned()));
    };
    Ok(match (signed, width) {
        (true, 0..=8) => DType::I8,
        (true, 9..=16) => DType::I16,
        (true, 17..=32) => DType::I32,
        (true, _) => DType::I64,
        (false, 0..=8) => DType::U8,
        (false, 9..=16) => DType::U16,
        (false, 17..=32) => DType::U32,
        (false, _) => DType::U64,
    })
}
