//! One function per operator: from the numbers of the operands to the numbers of the result.

mod matrix;
mod movement;
mod numeric;
mod softmax;
mod truth;
mod window;

use super::builder::Builder;
use super::exact::format_of;
use super::expr::parameter;
use super::number::Number;
use super::wire::Wire;
use super::{quantiser, scalar};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Graph, Node, Op, Quantiser, Scalar};
use quincunx_num::{Dyadic, Ratio};
use quincunx_tensor::{Shape, View};

pub(super) use numeric::integer_type;
pub(crate) use softmax::Precision;

/// The numbers of one value, row-major.
pub(super) type Numbers = Vec<Number>;

/// A node with its operands.
pub(super) struct Layer<'a> {
    pub(super) graph: &'a Graph,
    pub(super) node: &'a Node,
    /// One entry per operand of the node.
    pub(super) operands: &'a [Option<&'a Numbers>],
    /// How exact a softmax is.
    pub(super) precision: Precision,
}

/// Why a node is not taken.
fn refuse(why: impl Into<String>) -> Diagnostic {
    Diagnostic::unsupported("Q1204", why)
}

impl<'a> Layer<'a> {
    fn operand(&self, index: usize) -> Result<&'a Numbers> {
        let numbers = self.operands.get(index).copied().flatten();
        numbers.ok_or_else(|| Diagnostic::bug("an operand is absent"))
    }

    fn optional(&self, index: usize) -> Option<&'a Numbers> {
        self.operands.get(index).copied().flatten()
    }

    fn shape_of(&self, index: usize) -> &'a [usize] {
        self.node.input(index).map_or(&[][..], |id| &self.graph[id].shape[..])
    }

    fn shape(&self) -> &'a [usize] {
        &self.graph[self.node.output].shape
    }

    /// An operand in the shape of the result.
    fn broadcast(&self, index: usize) -> Result<Numbers> {
        let numbers = self.operand(index)?;
        if self.shape_of(index) == self.shape() {
            return Ok(numbers.clone());
        }
        let view = View::new(numbers, self.shape_of(index)).broadcast(self.shape());
        Ok(view.ok_or_else(|| Diagnostic::bug("operands broadcast"))?.to_vec())
    }

    /// Compiles the node.
    ///
    /// # Errors
    /// Why the machine does not take it.
    pub(super) fn lower_typed(&self, builder: &mut Builder<'_>) -> Result<Numbers> {
        let numbers = self.lower(builder)?;
        // What only moves, and comparisons, cannot leave the type.
        match self.is_float() || self.node.op.only_moves() {
            true => Ok(numbers),
            false => numeric::wrapped(builder, numbers, self.graph[self.node.output].dtype),
        }
    }

    #[deny(clippy::wildcard_enum_match_arm)]
    fn lower(&self, builder: &mut Builder<'_>) -> Result<Numbers> {
        let x = self.operand(0)?;
        let shape = self.shape();
        let format = format_of(self.graph[self.node.output].dtype);
        match &self.node.op {
            Op::Identity | Op::Flatten { .. } | Op::Reshape { .. } => Ok(x.clone()),
            Op::Transpose { order } => Ok(View::new(x, self.shape_of(0)).permute(order).to_vec()),
            Op::Concat { .. }
            | Op::Slice { .. }
            | Op::Pad(_)
            | Op::Gather { .. }
            | Op::Expand { .. }
            | Op::Tile { .. } => movement::moved(self),
            Op::Resize(resize) => movement::resized(self, builder, resize),
            Op::Conv(conv) => matrix::convolution(self, builder, conv),
            Op::ConvTranspose(conv) => matrix::transposed(self, builder, conv),
            Op::Gemm(gemm) => matrix::general_product(self, builder, gemm),
            Op::MatMul => {
                let a = View::new(x, self.shape_of(0));
                let b = View::new(self.operand(1)?, self.shape_of(1));
                matrix::product(builder, &a, &b, shape)
            }
            Op::Pool(pool) => window::pooling(self, builder, pool),
            Op::GlobalAveragePool => window::global_average(self, builder),
            Op::GlobalMaxPool => window::global_max(self, builder),
            Op::Reduce(reduce) => numeric::reduction(self, builder, reduce),
            Op::ArgExtreme(arg) => truth::arg_extreme(self, builder, arg),
            Op::Softmax(softmax) => softmax::softmax(self, builder, softmax),
            Op::BatchNorm(norm) => numeric::batch_norm(self, builder, norm),
            Op::Unary(unary) => {
                x.iter().map(|x| scalar::unary(builder, *unary, format, x)).collect()
            }
            Op::Activation(activation) => {
                x.iter().map(|x| scalar::activation(builder, *activation, format, x)).collect()
            }
            Op::PRelu => {
                let slopes = known(&self.broadcast(1)?)
                    .ok_or_else(|| refuse("its slope is not constant"))?;
                let pairs = x.iter().zip(&slopes);
                pairs.map(|(x, slope)| scalar::prelu(builder, slope, format, x)).collect()
            }
            Op::Binary(binary) => {
                let (a, b) = (self.broadcast(0)?, self.broadcast(1)?);
                if *binary == quincunx_graph::Binary::Div && !self.is_float() {
                    return Err(refuse("quotients of integers are truncated"));
                }
                a.iter()
                    .zip(&b)
                    .map(|(a, b)| scalar::binary(builder, *binary, format, a, b))
                    .collect()
            }
            Op::Compare(compare) => truth::compare(self, builder, *compare),
            Op::Logic(logic) => truth::logic(self, builder, *logic),
            Op::Where => truth::choice(self, builder),
            Op::Cast { to } | Op::CastUnbounded { to } => numeric::cast(self, builder, *to),
            Op::Quantise(q) => self.by_scalar(builder, x, q, quantiser::quantise),
            Op::ToCodes(q) => self.by_scalar(builder, x, q, |builder, x, q| {
                let steps = quantiser::steps(builder, x, q)?;
                Ok(builder.add(&steps, &Wire::whole(q.zero))?.into())
            }),
            Op::FromCodes(q) => self.by_scalar(builder, x, q, |builder, x, q| {
                let zero = -Ratio::from(q.zero) * q.ratio();
                x.rescaled(builder, &q.ratio(), &zero)
            }),
            Op::Recurrent(_) => Err(refuse(format!(
                "{} feeds its results back; the machine has no state",
                self.node.op.name()
            ))),
            Op::LayerNorm(_) | Op::InstanceNorm(_) | Op::Lrn(_) => Err(refuse(format!(
                "{} divides by a root or power of several numbers, which a table cannot give",
                self.node.op.name()
            ))),
        }
    }

    /// Numbers with what a quantiser has for each.
    fn by_scalar(
        &self,
        builder: &mut Builder<'_>,
        x: &[Number],
        quantiser: &Quantiser,
        each: impl Fn(&mut Builder<'_>, &Number, &Scalar) -> Result<Number>,
    ) -> Result<Numbers> {
        let scalars = quantiser.scalars(self.shape());
        let scalars = scalars.ok_or_else(|| Diagnostic::bug("the quantiser broadcasts"))?;
        x.iter().zip(&scalars).map(|(x, scalar)| each(builder, x, scalar)).collect()
    }

    fn is_float(&self) -> bool {
        self.graph[self.node.output].dtype.is_float()
    }
}

/// The values of numbers that are all known.
fn known(numbers: &[Number]) -> Option<Vec<Ratio>> {
    numbers.iter().map(Number::known).collect()
}

/// The values of numbers that are all known binary fractions, as weights are.
fn weights(numbers: &[Number]) -> Option<Vec<Dyadic>> {
    let weight = |number: &Number| match (&number.wire, &number.form) {
        (Wire::Constant(value), None) => Some(value.clone()),
        _ => None,
    };
    numbers.iter().map(weight).collect()
}

/// A parameter as a factor.
fn factor(value: f32) -> Ratio {
    parameter(value)
}

/// Every index of the given extents, row-major.
fn positions(extents: &[usize]) -> Vec<Shape> {
    extents.iter().fold(vec![Shape::new()], |all, &extent| {
        let longer = |index: &Shape, i: usize| index.iter().copied().chain([i]).collect();
        all.iter().flat_map(|index| (0..extent).map(move |i| longer(index, i))).collect()
    })
}
