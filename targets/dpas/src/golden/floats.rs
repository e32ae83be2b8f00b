//! Layers of floats: sums in f32, each step rounded once, and results rounded to what is stored.
//!
//! The order of a sum is part of the machine's arithmetic: the bias, then the rows and columns of a
//! window, and of every position the channels. Products are rounded before they are added.

mod products;

use super::finish::Tail;
use super::misfit;
use super::numbers::Float;
use super::numerics::{Adding, Held};
use super::operands::{bias_sum, factor, is_value};
use super::pairs::Pairs;
use super::pools::Pooling;
use super::softmax::Softmax;
use products::Product;
use quincunx_diag::Result;
use quincunx_graph::{Binary, Graph, Node, Op, ValueId};
use std::num::NonZeroUsize;

/// A layer of floats.
pub(in crate::golden) struct Layer {
    operation: Operation,
    /// What operands are held as.
    x: Float,
    /// What results are multiplied with, if they are.
    factor: Option<f32>,
    /// Results are brought to at least the first, then to at most the second.
    limits: [f32; 2],
    /// What results are held as.
    stored: Float,
}

enum Operation {
    Product(Box<Product>),
    /// Of two values.
    Joined(Pairs, Adding),
    Pool(Pooling),
    /// Every number times 1.
    Each,
    /// The sum of two values.
    Sum,
    Softmax(Softmax),
}

impl Layer {
    /// The layer that these nodes are, each of which reads the one before it. Operands that are no
    /// constants are held as `x`; `lanes` are the partial sums of a softmax.
    ///
    /// # Errors
    /// `Q6190` for nodes that are no layer of floats.
    pub(in crate::golden) fn new(
        graph: &Graph,
        nodes: &[&Node],
        x: Float,
        (held, lanes): (Held, Option<NonZeroUsize>),
    ) -> Result<Layer> {
        let [first, rest @ ..] = nodes else { return Err(misfit("a layer has no nodes")) };
        let shape = |id: ValueId| &graph[id].shape[..];
        let input = first.input(0).map(shape).unwrap_or_default();
        let (mut operation, rest) = match &first.op {
            Op::Binary(Binary::Add) => {
                check_sum(graph, first)?;
                (Operation::Sum, rest)
            }
            Op::MatMul if is_value(graph, first, 1) => {
                let other = first.input(1).map(shape).unwrap_or_default();
                (Operation::Joined(Pairs::new([input, other])?, held.adding), rest)
            }
            Op::Conv(_) | Op::Gemm(_) | Op::MatMul => {
                let sum = bias_sum(graph, rest);
                let product = Product::new(graph, first, sum, x, held)?;
                (Operation::Product(Box::new(product)), &rest[usize::from(sum.is_some())..])
            }
            Op::Softmax(softmax) => {
                (Operation::Softmax(Softmax::new(softmax, input, lanes)?), rest)
            }
            op => match Pooling::of(op, input, shape(first.output))? {
                Some(pooling) => (Operation::Pool(pooling), rest),
                None => (Operation::Each, nodes),
            },
        };
        let is_factor = |node: &&Node| Some(factor(graph, node)?.real());
        let factor = rest.first().and_then(is_factor);
        let tail = Tail::new(&rest[usize::from(factor.is_some())..])?;
        let factor = match (&mut operation, factor) {
            // Products of codes have a factor already.
            (Operation::Product(product), Some(factor)) => {
                Some(factor).filter(|&factor| !product.times(factor))
            }
            (_, factor) => factor,
        };
        if tail.grid.is_some() {
            return Err(misfit("a layer of floats ends with a quantiser"));
        }
        // They were f32 before.
        let limits = tail.limits.map(|limit| limit as f32);
        Ok(Layer { operation, x, factor, limits, stored: held.stored })
    }

    /// The result, given the numbers of the operands of the first node; `None` when the second of a
    /// sum lacks.
    pub(in crate::golden) fn apply(&self, x: &[f32], other: Option<&[f32]>) -> Option<Vec<f32>> {
        let mut results = match &self.operation {
            Operation::Product(product) => product.apply(x),
            Operation::Joined(pairs, adding) => {
                let [_, depth, columns] = pairs.extents;
                pairs.each([x, other?], |rows, weights| {
                    Product::of_matrix(weights, [depth, columns], self.x, *adding).apply(rows)
                })
            }
            Operation::Pool(pooling) if pooling.is_max => {
                pooling.apply(x, |window| window.reduce(f32::max).unwrap_or(0.0))
            }
            Operation::Pool(pooling) => {
                let share = 1.0 / pooling.divisor as f32;
                let factors = |sum, number| sum + self.x.factor(number);
                pooling.apply(x, |window| window.fold(0.0, factors) * share)
            }
            Operation::Each => x.iter().map(|&number| self.x.factor(number)).collect(),
            Operation::Softmax(softmax) => softmax.apply(x, 1.0, 1.0),
            Operation::Sum => x.iter().zip(other?).map(|(a, b)| a + b).collect(),
        };
        if let Some(factor) = self.factor {
            results.iter_mut().for_each(|result| *result *= factor);
        }
        for result in &mut results {
            *result = self.stored.round(self.limited(*result).into());
        }
        Some(results)
    }

    /// What is left of a sum. No limit changes nothing; a limit takes the place of NaN.
    fn limited(&self, sum: f32) -> f32 {
        let [low, high] = self.limits;
        let sum = if low == f32::NEG_INFINITY { sum } else { sum.max(low) };
        if high == f32::INFINITY { sum } else { sum.min(high) }
    }
}

/// Both operands of a sum are values of the result's shape.
///
/// # Errors
/// `Q6190` for others.
fn check_sum(graph: &Graph, sum: &Node) -> Result<()> {
    if sum.operands().any(|id| graph[id].constant.is_some()) {
        return Err(misfit("a sum has a constant operand"));
    }
    if sum.operands().any(|id| graph[id].shape != graph[sum.output].shape) {
        return Err(misfit("a sum repeats an operand"));
    }
    Ok(())
}
