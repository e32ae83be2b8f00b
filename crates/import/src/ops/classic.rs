//! Operators of ONNX-ML but trees: what scikit-learn's exporter writes.

use super::compose::{choose, number, one, two};
use super::scores::{Transform, either, labels, largest};
use crate::attributes::malformed;
use crate::context::NodeContext;
use quincunx_diag::Result;
use quincunx_graph::{Binary, Compare, Gemm, Op, Reduce, ReduceKind, Unary, ValueId};
use quincunx_tensor::{DType, Tensor, show_shape};

/// The first operand in f32.
fn floats(node: &mut NodeContext<'_, '_>) -> Result<ValueId> {
    let x = node.operand(0)?;
    match node.dtype(x) {
        DType::F32 => Ok(x),
        _ => one(node, Op::Cast { to: DType::F32 }, x),
    }
}

/// The first operand in f32 as rows of features, and their number.
pub(super) fn rows(node: &mut NodeContext<'_, '_>) -> Result<(ValueId, usize)> {
    let x = floats(node)?;
    match node.shape(x)[..] {
        [_, features] => Ok((x, features)),
        ref other => Err(malformed(format!(
            "the operand has shape {}, expected [N, features]",
            show_shape(other)
        ))),
    }
}

fn list(node: &mut NodeContext<'_, '_>, shape: &[usize], values: &[f32]) -> Result<ValueId> {
    node.constant_before(Tensor::from_vec(shape, values.to_vec())?)
}

/// `(x - offset) * scale`, each one number or one per feature.
pub(crate) fn scaler(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let mut x = floats(node)?;
    let features = node.shape(x).last().copied().unwrap_or(1);
    for (name, binary) in [("offset", Binary::Sub), ("scale", Binary::Mul)] {
        let values = node.attributes.floats(name)?.unwrap_or_default();
        if values.len() != 1 && values.len() != features {
            let count = values.len();
            return Err(malformed(format!("{name} has {count} numbers for {features} features")));
        }
        let values = list(node, &[values.len()], values)?;
        x = two(node, Op::Binary(binary), x, values)?;
    }
    node.emit(Op::Identity, &[Some(x)])
}

/// `x` over the largest magnitude, the sum of magnitudes or the length of its row; 0 stays 0.
pub(crate) fn normalizer(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let x = floats(node)?;
    let axis = node.shape(x).len().saturating_sub(1);
    let row = |kind| Op::Reduce(Reduce { kind, axes: vec![axis], keep_dims: true });
    let length = match node.attributes.string("norm")?.unwrap_or("MAX") {
        // The standard means the largest number, not the largest magnitude.
        "MAX" => one(node, row(ReduceKind::Max), x)?,
        "L1" => one(node, row(ReduceKind::L1), x)?,
        "L2" => one(node, row(ReduceKind::L2), x)?,
        other => return Err(malformed(format!("norm is \"{other}\", expected MAX, L1 or L2"))),
    };
    let (zero, first) = (number(node, DType::F32, 0.0)?, number(node, DType::F32, 1.0)?);
    let is_zero = two(node, Op::Compare(Compare::Equal), length, zero)?;
    let divisor = choose(node, is_zero, first, length)?;
    node.emit(Op::Binary(Binary::Div), &[Some(x), Some(divisor)])
}

/// `x coefficientsᵀ + intercepts`, and the number of columns.
fn linear(node: &mut NodeContext<'_, '_>) -> Result<(ValueId, usize)> {
    let (x, features) = rows(node)?;
    let coefficients = node.attributes.floats("coefficients")?.unwrap_or_default();
    let targets = coefficients.len().checked_div(features).unwrap_or(0);
    if targets == 0 || targets.checked_mul(features) != Some(coefficients.len()) {
        let count = coefficients.len();
        return Err(malformed(format!("{count} coefficients for {features} features")));
    }
    let mut inputs = vec![Some(x), Some(list(node, &[targets, features], coefficients)?)];
    match node.attributes.floats("intercepts")?.unwrap_or_default() {
        [] => {}
        values if values.len() == targets => inputs.push(Some(list(node, &[targets], values)?)),
        values => {
            let count = values.len();
            return Err(malformed(format!("{count} intercepts for {targets} columns")));
        }
    }
    let gemm = Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: true };
    Ok((node.emit_before(Op::Gemm(gemm), &inputs)?, targets))
}

pub(crate) fn linear_regressor(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let (scores, found) = linear(node)?;
    let targets = node.attributes.int("targets")?.unwrap_or(1);
    if usize::try_from(targets) != Ok(found) {
        return Err(malformed(format!("targets is {targets}, the coefficients are for {found}")));
    }
    let transform = Transform::of(node)?;
    let result = match found {
        1 => transform.apply_to_one(node, scores)?,
        _ => transform.apply(node, scores)?,
    };
    node.emit(Op::Identity, &[Some(result)])
}

pub(crate) fn linear_classifier(node: &mut NodeContext<'_, '_>) -> Result<()> {
    // Scores of one against one are transformed as those of one against the rest.
    node.attributes.ignore("multi_class");
    let labels = labels(node, "classlabels_ints")?;
    let transform = Transform::of(node)?;
    let (scores, columns) = linear(node)?;
    let result = match (columns, &labels[..]) {
        (1, &[no, yes]) => {
            either(node, scores, 0.0, [no, yes])?;
            second_class(node, transform, scores, true)?
        }
        _ if columns == labels.len() && columns > 1 => {
            largest(node, scores, labels)?;
            transform.apply(node, scores)?
        }
        _ => {
            let count = labels.len();
            return Err(node.unsupported(format_args!("{count} labels for {columns} scores")));
        }
    };
    if node.wants(1) {
        node.emit_output(1, Op::Identity, &[Some(result)])?;
    }
    Ok(())
}

/// The scores of two classes from that of the second: `1 - x` or `-x`, and `x`.
pub(super) fn second_class(
    node: &mut NodeContext<'_, '_>,
    transform: Transform,
    score: ValueId,
    share: bool,
) -> Result<ValueId> {
    let other = match transform {
        Transform::Probit => {
            return Err(node.unsupported("PROBIT of one score for two classes"));
        }
        Transform::None | Transform::Softmax | Transform::SoftmaxZero if share => {
            let first = number(node, DType::F32, 1.0)?;
            two(node, Op::Binary(Binary::Sub), first, score)?
        }
        _ => one(node, Op::Unary(Unary::Neg), score)?,
    };
    let pair = two(node, Op::Concat { axis: 1 }, other, score)?;
    match transform {
        Transform::Logistic => transform.apply(node, pair),
        _ => Ok(pair),
    }
}

/// The dictionaries that it makes of rows of probabilities are these rows here; their keys are the
/// labels of the columns.
pub(crate) fn zip_map(node: &mut NodeContext<'_, '_>) -> Result<()> {
    node.attributes.ignore("classlabels_int64s");
    node.attributes.ignore("classlabels_strings");
    let x = node.operand(0)?;
    node.emit(Op::Identity, &[Some(x)])
}

/// The elements of the last axis that the second operand names.
pub(crate) fn array_feature_extractor(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let (x, indices) = (node.operand(0)?, node.operand(1)?);
    let shape = node.shape(x);
    let Some(axis) = shape.len().checked_sub(1) else {
        return Err(malformed("the operand is a scalar".to_owned()));
    };
    let indices = one(node, Op::Reshape { shape: vec![-1] }, indices)?;
    // The result has at least two axes.
    match axis {
        0 => {
            let list = one(node, Op::Reshape { shape: vec![1, -1] }, x)?;
            node.emit(Op::Gather { axis: 1 }, &[Some(list), Some(indices)])
        }
        _ => node.emit(Op::Gather { axis }, &[Some(x), Some(indices)]),
    }
}
