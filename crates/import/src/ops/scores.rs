//! What classifiers and regressors of ONNX-ML make of their scores: transforms, and labels.

use super::compose::{choose, number, one, two};
use crate::attributes::malformed;
use crate::context::NodeContext;
use quincunx_diag::Result;
use quincunx_graph::{
    ArgExtreme, Binary, Compare, Op, Reduce, ReduceKind, Softmax, Unary, ValueId,
};
use quincunx_tensor::{DType, Tensor};

/// The attribute `post_transform`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Transform {
    None,
    Logistic,
    Softmax,
    /// A softmax in which 0 counts nothing.
    SoftmaxZero,
    /// The quantile of the normal distribution.
    Probit,
}

impl Transform {
    pub(super) fn of(node: &mut NodeContext<'_, '_>) -> Result<Self> {
        match node.attributes.string("post_transform")?.unwrap_or("NONE") {
            "NONE" => Ok(Transform::None),
            "LOGISTIC" => Ok(Transform::Logistic),
            "SOFTMAX" => Ok(Transform::Softmax),
            "SOFTMAX_ZERO" => Ok(Transform::SoftmaxZero),
            "PROBIT" => Ok(Transform::Probit),
            other => Err(malformed(format!("post_transform is \"{other}\""))),
        }
    }

    /// The transform of rows of scores, `[N, C]`.
    pub(super) fn apply(self, node: &mut NodeContext<'_, '_>, x: ValueId) -> Result<ValueId> {
        match self {
            Transform::None => Ok(x),
            Transform::Logistic => one(node, Op::Unary(Unary::Sigmoid), x),
            Transform::Softmax => one(node, Op::Softmax(Softmax { axis: 1, log: false }), x),
            Transform::SoftmaxZero => softmax_zero(node, x),
            Transform::Probit => probit(node, x),
        }
    }

    /// The transform where a row is one number. onnxruntime transforms such a row by the quantile
    /// alone.
    pub(super) fn apply_to_one(
        self,
        node: &mut NodeContext<'_, '_>,
        x: ValueId,
    ) -> Result<ValueId> {
        match self {
            Transform::Probit => probit(node, x),
            _ => Ok(x),
        }
    }
}

/// `e^x / sum`, where the sum is over numbers that are not 0 and these themselves stay 0.
fn softmax_zero(node: &mut NodeContext<'_, '_>, x: ValueId) -> Result<ValueId> {
    let row = |kind| Op::Reduce(Reduce { kind, axes: vec![1], keep_dims: true });
    let largest = one(node, row(ReduceKind::Max), x)?;
    let moved = two(node, Op::Binary(Binary::Sub), x, largest)?;
    let exp = one(node, Op::Unary(Unary::Exp), moved)?;
    let magnitude = one(node, Op::Unary(Unary::Abs), x)?;
    let least = number(node, DType::F32, 1e-7)?;
    let counts = two(node, Op::Compare(Compare::Greater), magnitude, least)?;
    let zero = number(node, DType::F32, 0.0)?;
    let exp = choose(node, counts, exp, zero)?;
    let sum = one(node, row(ReduceKind::Sum), exp)?;
    two(node, Op::Binary(Binary::Div), exp, sum)
}

/// The quantile by an approximation of the inverse error function that needs a logarithm and two
/// roots; with a = 0.147 its error is below 0.002.
fn probit(node: &mut NodeContext<'_, '_>, x: ValueId) -> Result<ValueId> {
    let constant = |node: &mut NodeContext<'_, '_>, value: f64| number(node, DType::F32, value);
    let (add, sub, mul) =
        (Op::Binary(Binary::Add), Op::Binary(Binary::Sub), Op::Binary(Binary::Mul));
    let root = Op::Unary(Unary::Sqrt);
    let (first, second) = (constant(node, 1.0)?, constant(node, 2.0)?);
    let doubled = two(node, mul.clone(), x, second)?;
    let x = two(node, sub.clone(), doubled, first)?;
    let squared = two(node, mul.clone(), x, x)?;
    let rest = two(node, sub.clone(), first, squared)?;
    let log = one(node, Op::Unary(Unary::Log), rest)?;
    let (half, offset) =
        (constant(node, 0.5)?, constant(node, 2.0 / (std::f64::consts::PI * 0.147))?);
    let halved = two(node, mul.clone(), log, half)?;
    let v = two(node, add, halved, offset)?;
    let inverse = constant(node, 1.0 / 0.147)?;
    let scaled = two(node, mul.clone(), log, inverse)?;
    let square = two(node, mul.clone(), v, v)?;
    let inner = two(node, sub.clone(), square, scaled)?;
    let inner = one(node, root.clone(), inner)?;
    let outer = two(node, sub, inner, v)?;
    let size = one(node, root, outer)?;
    let sign = one(node, Op::Unary(Unary::Sign), x)?;
    let inverse = two(node, mul.clone(), sign, size)?;
    let scale = constant(node, std::f64::consts::SQRT_2)?;
    two(node, mul, inverse, scale)
}

/// The labels of classes as numbers: texts become their positions.
pub(super) fn labels(node: &mut NodeContext<'_, '_>, ints: &'static str) -> Result<Vec<i64>> {
    let texts = node.attributes.texts("classlabels_strings")?.unwrap_or_default();
    let numbers = node.attributes.ints(ints)?.unwrap_or_default();
    match (numbers, texts.len()) {
        ([], 0) => Err(malformed("the node has no labels".to_owned())),
        ([], count) => Ok((0_i64..).take(count).collect()),
        (numbers, 0) => Ok(numbers.to_vec()),
        _ => Err(malformed("the labels are given as numbers and as texts".to_owned())),
    }
}

/// The label of the largest score of each row.
pub(super) fn largest(
    node: &mut NodeContext<'_, '_>,
    scores: ValueId,
    labels: Vec<i64>,
) -> Result<()> {
    let position = ArgExtreme { largest: true, axis: 1, keep_dims: false, last: false };
    let position = one(node, Op::ArgExtreme(position), scores)?;
    let labels = node.constant_before(Tensor::from_vec(&[labels.len()], labels)?)?;
    node.emit_output(0, Op::Gather { axis: 0 }, &[Some(labels), Some(position)]).map(drop)
}

/// The second label where the score of a row, `[N, 1]`, is above a threshold, else the first.
pub(super) fn either(
    node: &mut NodeContext<'_, '_>,
    score: ValueId,
    threshold: f64,
    labels: [i64; 2],
) -> Result<()> {
    let threshold = number(node, DType::F32, threshold)?;
    let above = two(node, Op::Compare(Compare::Greater), score, threshold)?;
    let above = one(node, Op::Reshape { shape: vec![-1] }, above)?;
    let label = |node: &mut NodeContext<'_, '_>, label| {
        node.constant_before(Tensor::from_vec(&[1], vec![label])?)
    };
    let (no, yes) = (label(node, labels[0])?, label(node, labels[1])?);
    node.emit_output(0, Op::Where, &[Some(above), Some(yes), Some(no)]).map(drop)
}
