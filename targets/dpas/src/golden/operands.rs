//! What convolutions and matrix products multiply, whatever their numbers are.

use super::misfit;
use super::numbers::is_scale;
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Binary, Conv, Gemm, Graph, Node, Op, Value, ValueId, Window};
use quincunx_tensor::View;

/// The operands of a product.
pub(super) struct Operands<'g> {
    /// What the weights of an output are multiplied with; rows of a matrix without them.
    pub(super) windows: Option<Windows>,
    /// Factor of the products.
    pub(super) alpha: f32,
    pub(super) weights: &'g Value,
    /// How the weights lie.
    pub(super) matrix: Matrix,
    pub(super) bias: Option<Bias<'g>>,
}

impl<'g> Operands<'g> {
    /// The operands of a node, with the bias that a sum behind it adds, if there is one.
    ///
    /// # Errors
    /// `Q6190` for weights that are not one matrix, two biases, values without elements, and
    /// attributes that the machine does not have.
    pub(super) fn new(graph: &'g Graph, node: &Node, sum: Option<&Node>) -> Result<Operands<'g>> {
        let missing = || misfit("a product lacks an operand");
        let value = |at: usize| node.input(at).map(|id| &graph[id]).ok_or_else(missing);
        let (input, weights, output) = (value(0)?, value(1)?, &graph[node.output]);
        if [input, weights, output].iter().any(|value| value.shape.contains(&0)) {
            return Err(misfit("a product has no elements"));
        }
        let (windows, layout, alpha) = match &node.op {
            Op::Conv(conv) => {
                let windows = Windows::new(conv, &input.shape, &output.shape)?;
                (Some(windows), Layout::OutputsFirst, 1.0)
            }
            Op::Gemm(gemm) => (None, layout(gemm, node.input(2).is_some())?, gemm.alpha),
            _ => (None, Layout::OutputsLast, 1.0),
        };
        let matrix = Matrix::new(weights, layout)?;
        // Where channels are in what the bias broadcasts to.
        let is_conv = windows.is_some();
        let outputs = || (vec![matrix.outputs], 0);
        let along = || match (is_conv, matrix.axis) {
            (true, _) => (output.shape.to_vec(), 1),
            (false, None) => outputs(),
            (false, Some(_)) => (output.shape.to_vec(), output.shape.len().saturating_sub(1)),
        };
        let own = node.input(2).map(|id| (id, if is_conv { outputs() } else { along() }));
        let behind = sum.and_then(|sum| addend(graph, sum)).map(|id| (id, along()));
        if own.is_some() && behind.is_some() {
            return Err(misfit("a product has two biases"));
        }
        let bias = own.or(behind);
        let bias = bias.map(|(id, (shape, axis))| Bias { value: &graph[id], shape, axis });
        Ok(Operands { windows, alpha, weights, matrix, bias })
    }
}

/// A constant that is added to the sums of every output.
pub(super) struct Bias<'g> {
    pub(super) value: &'g Value,
    /// What it broadcasts to, and the axis of the outputs there.
    shape: Vec<usize>,
    axis: usize,
}

impl Bias<'_> {
    /// Its elements, one for every output.
    ///
    /// # Errors
    /// `Q6190` for a bias that is something else.
    pub(super) fn per_output<T: Clone>(&self, elements: &[T]) -> Result<Vec<T>> {
        let found = along(elements, &self.value.shape, (&self.shape, self.axis));
        found.ok_or_else(|| self.wrong("is not one number for every output"))
    }

    /// What is wrong with it.
    pub(super) fn wrong(&self, what: &str) -> Diagnostic {
        misfit(format!("the bias {:?} {what}", self.value.name))
    }
}

/// Windows of images.
pub(super) struct Windows {
    pub(super) window: Window,
    pub(super) groups: usize,
    /// Channels of an image.
    pub(super) channels: usize,
    /// Extents of a plane of the operand, and of the result.
    pub(super) input: Vec<usize>,
    pub(super) output: Vec<usize>,
}

impl Windows {
    fn new(conv: &Conv, input: &[usize], output: &[usize]) -> Result<Windows> {
        match (input, output) {
            ([_, channels, input @ ..], [_, _, output @ ..]) => Ok(Windows {
                window: conv.window.clone(),
                groups: conv.groups,
                channels: *channels,
                input: input.to_vec(),
                output: output.to_vec(),
            }),
            _ => Err(misfit("a convolution is not one of images")),
        }
    }

    /// Elements of a plane of the result.
    pub(super) fn positions(&self) -> usize {
        self.output.iter().product()
    }

    /// Positions of the window.
    pub(super) fn taps(&self) -> usize {
        self.window.kernel.iter().product()
    }

    /// Elements of an image of the operand.
    pub(super) fn image(&self) -> usize {
        self.channels * self.input.iter().product::<usize>()
    }
}

/// Where outputs are in the shape of weights.
#[derive(Clone, Copy, PartialEq)]
enum Layout {
    OutputsFirst,
    /// All axes before the last two have extent 1. A vector has one output.
    OutputsLast,
}

/// How Gemm's weights lie.
///
/// # Errors
/// `Q6190` for a left operand that is to be transposed, factors that are 0 or no numbers, and a
/// factor of the bias.
fn layout(gemm: &Gemm, has_bias: bool) -> Result<Layout> {
    if gemm.transpose_a {
        return Err(misfit("the left operand of a product is transposed"));
    }
    if has_bias && gemm.beta != 1.0 {
        return Err(misfit("a bias has a factor"));
    }
    if !is_scale(gemm.alpha.abs().into()) {
        return Err(misfit(format!("a product has the factor {}", gemm.alpha)));
    }
    Ok(if gemm.transpose_b { Layout::OutputsFirst } else { Layout::OutputsLast })
}

/// How the weights of a product lie in their shape.
pub(super) struct Matrix {
    layout: Layout,
    /// Axis of outputs; a vector has none.
    pub(super) axis: Option<usize>,
    pub(super) outputs: usize,
    /// Weights of an output; at least 1.
    pub(super) depth: usize,
}

impl Matrix {
    fn new(weights: &Value, layout: Layout) -> Result<Matrix> {
        let shape = &weights.shape[..];
        // A vector has one output, whatever lies along its axis.
        let (axis, outputs) = match (layout, shape) {
            (Layout::OutputsFirst, [outputs, _, ..]) => (Some(0), *outputs),
            (Layout::OutputsLast, [_]) => (None, 1),
            (Layout::OutputsLast, [ones @ .., _, outputs]) if ones.iter().all(|&one| one == 1) => {
                (Some(shape.len() - 1), *outputs)
            }
            _ => {
                return Err(misfit(format!("the weights {:?} are not one matrix", weights.name)));
            }
        };
        let depth = shape.iter().product::<usize>() / outputs;
        Ok(Matrix { layout, axis, outputs, depth })
    }

    /// The output that weight `at` is of.
    pub(super) fn output_of(&self, at: usize) -> usize {
        match self.layout {
            Layout::OutputsFirst => at / self.depth,
            Layout::OutputsLast => at % self.outputs,
        }
    }

    /// The weights of an output one after the other.
    pub(super) fn by_output<T: Clone>(&self, weights: Vec<T>) -> Vec<T> {
        match self.layout {
            Layout::OutputsFirst => weights,
            Layout::OutputsLast => {
                View::new(&weights, &[self.depth, self.outputs]).permute(&[1, 0]).to_vec()
            }
        }
    }
}

/// One element for every position along an axis of a shape: all elements of a tensor that
/// broadcasts to the shape and varies along that axis only.
pub(super) fn along<T: Clone>(
    elements: &[T],
    shape: &[usize],
    (whole, axis): (&[usize], usize),
) -> Option<Vec<T>> {
    let extent = *whole.get(axis)?;
    if let [element] = elements {
        return Some(vec![element.clone(); extent]);
    }
    let axis = axis.checked_sub(whole.len().checked_sub(shape.len())?)?;
    let is_along = elements.len() == extent && shape.get(axis) == Some(&extent);
    is_along.then(|| elements.to_vec())
}

/// The first node of these if it is the sum with a constant, which may be a bias.
pub(super) fn bias_sum<'n>(graph: &Graph, nodes: &[&'n Node]) -> Option<&'n Node> {
    let sum = nodes.first().copied()?;
    (sum.op == Op::Binary(Binary::Add) && addend(graph, sum).is_some()).then_some(sum)
}

/// The constant that a sum adds.
fn addend(graph: &Graph, sum: &Node) -> Option<ValueId> {
    sum.operands().find(|&id| graph[id].constant.is_some())
}

/// An operand is there and no constant.
pub(super) fn is_value(graph: &Graph, node: &Node, operand: usize) -> bool {
    node.input(operand).is_some_and(|id| graph[id].constant.is_none())
}

/// A number by which values are multiplied, or divided.
#[derive(Clone, Copy)]
pub(super) struct Factor {
    pub(super) number: f64,
    pub(super) is_divisor: bool,
}

impl Factor {
    /// It as a factor of f32.
    pub(super) fn real(self) -> f32 {
        let number = self.number as f32;
        if self.is_divisor { 1.0 / number } else { number }
    }
}

/// The number by which a node multiplies or divides a value: a constant of one element.
pub(super) fn factor(graph: &Graph, node: &Node) -> Option<Factor> {
    let (operand, is_divisor) = match node.op {
        Op::Binary(Binary::Mul) => (usize::from(is_value(graph, node, 0)), false),
        Op::Binary(Binary::Div) => (1, true),
        _ => return None,
    };
    let constant = graph[node.input(operand)?].constant.as_ref()?;
    let [number] = constant.tensor.to_f64()[..] else { return None };
    let number = match &constant.quantiser {
        None => number,
        Some(quantiser) => {
            (number - quantiser.zero.as_uniform()? as f64) * quantiser.scale.as_uniform()?
        }
    };
    Some(Factor { number, is_divisor })
}
