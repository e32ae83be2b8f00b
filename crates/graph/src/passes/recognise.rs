//! Recognising functions that models spell out in simple operators.

use super::rewrite::Rewrite;
use crate::{Binary, Graph, LayerNorm, Node, NodeId, Op, Reduce, ReduceKind, Unary, ValueId};
use quincunx_diag::Result;
use quincunx_tensor::{DType, Tensor};

/// Replaces layer normalisations and `Gelu`s that are written in simple operators, as exporters
/// do for opsets that lack them, by the one operator. It has the name and the result of the last
/// of them.
///
/// A layer normalisation is `(x - mean(x)) / sqrt(mean((x - mean(x))²) + epsilon)` over the last
/// axes, with or without a product with and a sum of constants of these axes behind it. A `Gelu` is a
/// product of `x`, of `1 + erf(x / sqrt(2))` or `1 + tanh(sqrt(2 / pi) * (x + 0.044715 x³))`, and of
/// one half, in any order. All are of f32, and nothing else reads what lies between, so that
/// results change by rounding only.
///
/// # Errors
/// None for a graph that verifies.
pub fn recognise_functions(graph: &Graph) -> Result<Graph> {
    let mut is_output = vec![false; graph.values().len()];
    graph.outputs().iter().for_each(|output| is_output[output.index()] = true);
    let search = Search { graph, consumers: graph.consumers(), is_output };
    let mut rewrite = Rewrite::new(graph)?;
    for (id, node) in graph.nodes() {
        if let Some((gelu, x)) = search.gelu(node) {
            let x = rewrite.value(x)?;
            rewrite.emit(node, Op::Unary(gelu), &[Some(x)])?;
        } else if let Some(found) = search.layer_norm(id, node) {
            let inputs = found.operands(graph, &mut rewrite, node)?;
            rewrite.emit(node, Op::LayerNorm(found.norm), &inputs)?;
        } else {
            rewrite.copy(node)?;
        }
    }
    super::remove_dead(&rewrite.finish()?)
}

/// Operators from one end of a formula to the other; more than any exporter writes.
const MAX_DEPTH: usize = 8;

/// Largest number of elements that are normalised together where the factors must be made up.
const MAX_MADE_UP: usize = 1 << 20;

/// Coefficients of 1, x, x² and x³.
type Polynomial = [f64; 4];

struct Search<'a> {
    graph: &'a Graph,
    consumers: Vec<Vec<NodeId>>,
    is_output: Vec<bool>,
}

/// A layer normalisation that is spelled out.
struct Found {
    norm: LayerNorm,
    x: ValueId,
    scale: Option<ValueId>,
    bias: Option<ValueId>,
}

impl Found {
    /// The operands of the one node that replaces it.
    fn operands(
        &self,
        graph: &Graph,
        rewrite: &mut Rewrite<'_>,
        node: &Node,
    ) -> Result<Vec<Option<ValueId>>> {
        let extents = &graph[self.x].shape[self.norm.axis..];
        let mut parameter = |constant: ValueId| match graph[constant].constant.as_ref() {
            Some(c) if *graph[constant].shape != *extents => {
                let name = format!("{}_row", graph[constant].name);
                rewrite.constant(&name, c.tensor.reshape(extents)?)
            }
            _ => rewrite.value(constant),
        };
        let bias = self.bias.map(&mut parameter).transpose()?;
        let scale = match self.scale {
            Some(scale) => parameter(scale)?,
            None => {
                let ones = vec![1.0_f32; extents.iter().product()];
                let name = format!("{}_scale", node.name);
                rewrite.constant(&name, Tensor::from_vec(extents, ones)?)?
            }
        };
        Ok([Some(rewrite.value(self.x)?), Some(scale)].into_iter().chain(bias.map(Some)).collect())
    }
}

impl<'a> Search<'a> {
    /// The number of a constant with one element.
    fn number(&self, value: ValueId) -> Option<f64> {
        let constant = self.graph[value].constant.as_ref()?;
        let single = constant.quantiser.is_none() && constant.tensor.len() == 1;
        single.then(|| constant.tensor.to_f64()[0])
    }

    fn producer(&self, value: ValueId) -> Option<&'a Node> {
        self.graph[value].producer.map(|id| &self.graph[id])
    }

    /// The node that computes a value which is read once.
    fn inner(&self, value: ValueId) -> Option<&'a Node> {
        let [reader] = self.consumers[value.index()][..] else { return None };
        let reads = self.graph[reader].operands().filter(|&operand| operand == value).count();
        (reads == 1 && !self.is_output[value.index()]).then(|| self.producer(value))?
    }

    /// The operands of a binary operator.
    fn pair(&self, node: &Node, op: Binary) -> Option<[ValueId; 2]> {
        (node.op == Op::Binary(op)).then_some([node.input(0)?, node.input(1)?])
    }

    /// An f32 result of the shape of `x`.
    fn is_like(&self, node: &Node, x: ValueId) -> bool {
        let (result, x) = (&self.graph[node.output], &self.graph[x]);
        result.dtype == DType::F32 && x.dtype == DType::F32 && result.shape == x.shape
    }

    /// Which `Gelu` of what a node computes.
    fn gelu(&self, node: &Node) -> Option<(Unary, ValueId)> {
        let mut factors = Vec::new();
        let constant = self.factors(node, MAX_DEPTH, &mut factors)?;
        let [a, b] = factors[..] else { return None };
        [(a, b), (b, a)].into_iter().find_map(|(x, gate)| {
            let gelu = self.gate(gate, x, constant)?;
            self.is_like(node, x).then_some((gelu, x))
        })
    }

    /// Collects at most two factors of a product that are no numbers, and gives the product of
    /// those that are.
    fn factors(&self, node: &Node, depth: usize, factors: &mut Vec<ValueId>) -> Option<f64> {
        let depth = depth.checked_sub(1)?;
        let [a, b] = match node.op {
            Op::Binary(Binary::Mul | Binary::Div) => [node.input(0)?, node.input(1)?],
            _ => return None,
        };
        let mut factor = |value: ValueId| {
            if let Some(number) = self.number(value) {
                return Some(number);
            }
            let before = factors.len();
            if let Some(number) = self.inner(value).and_then(|n| self.factors(n, depth, factors)) {
                return Some(number);
            }
            factors.truncate(before);
            factors.push(value);
            (factors.len() <= 2).then_some(1.0)
        };
        match node.op {
            Op::Binary(Binary::Div) => Some(factor(a)? / self.number(b)?),
            _ => Some(factor(a)? * factor(b)?),
        }
    }

    /// Which `Gelu` of `x` the product of `x`, this value and this number is.
    fn gate(&self, value: ValueId, x: ValueId, number: f64) -> Option<Unary> {
        let curve = self.curve(value, MAX_DEPTH)?;
        let gate = self.polynomial(value, curve.output, MAX_DEPTH)?.map(|c| c * number);
        let inside = self.polynomial(curve.input(0)?, x, MAX_DEPTH)?;
        let slope = match curve.op {
            Op::Unary(Unary::Erf) => std::f64::consts::FRAC_1_SQRT_2,
            _ => std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2,
        };
        let (gelu, cubic) = match curve.op {
            Op::Unary(Unary::Erf) => (Unary::Gelu, 0.0),
            _ => (Unary::GeluTanh, 0.044_715 * slope),
        };
        let is = near(gate, [0.5, 0.5, 0.0, 0.0]) && near(inside, [0.0, slope, 0.0, cubic]);
        is.then_some(gelu)
    }

    /// The error function or tangent to which numbers are added and by which they are multiplied.
    fn curve(&self, value: ValueId, depth: usize) -> Option<&'a Node> {
        let (node, depth) = (self.inner(value)?, depth.checked_sub(1)?);
        match node.op {
            Op::Unary(Unary::Erf | Unary::Tanh) => Some(node),
            Op::Binary(_) => match [node.input(0)?, node.input(1)?] {
                [a, b] if self.number(b).is_some() => self.curve(a, depth),
                [a, b] if self.number(a).is_some() => self.curve(b, depth),
                _ => None,
            },
            _ => None,
        }
    }

    /// A value as a polynomial of another one.
    fn polynomial(&self, value: ValueId, x: ValueId, depth: usize) -> Option<Polynomial> {
        if value == x {
            return Some([0.0, 1.0, 0.0, 0.0]);
        }
        if let Some(number) = self.number(value) {
            return Some([number, 0.0, 0.0, 0.0]);
        }
        let (node, depth) = (self.inner(value)?, depth.checked_sub(1)?);
        let Op::Binary(op) = node.op else { return None };
        let [a, b] = [node.input(0)?, node.input(1)?];
        let (p, number) = (self.polynomial(a, x, depth)?, self.number(b));
        match op {
            Binary::Div => Some(p.map(|c| c / number.unwrap_or(f64::NAN))),
            Binary::Pow if number == Some(2.0) => product(p, p),
            Binary::Pow if number == Some(3.0) => product(product(p, p)?, p),
            Binary::Add | Binary::Sub | Binary::Mul => {
                let q = self.polynomial(b, x, depth)?;
                match op {
                    Binary::Add => Some(std::array::from_fn(|i| p[i] + q[i])),
                    Binary::Sub => Some(std::array::from_fn(|i| p[i] - q[i])),
                    _ => product(p, q),
                }
            }
            _ => None,
        }
    }

    /// The layer normalisation that a node completes.
    fn layer_norm(&self, id: NodeId, node: &Node) -> Option<Found> {
        let mut inside = vec![id];
        let (bias, node_id) = self.with_row(id, Binary::Add, &mut inside);
        let (scale, node_id) = self.with_row(node_id, Binary::Mul, &mut inside);
        let (x, axis, epsilon) = self.standardised(&self.graph[node_id], &mut inside)?;
        let extents = &self.graph[x].shape[axis..];
        let is_row = |parameter: Option<ValueId>| {
            parameter.is_none_or(|id| {
                let leading = self.graph[id].shape.iter().take_while(|&&extent| extent == 1);
                let shape = &self.graph[id].shape;
                let outer = shape.len().saturating_sub(extents.len());
                leading.count() >= outer && shape[outer..] == *extents
            })
        };
        let known = scale.is_some() || extents.iter().product::<usize>() <= MAX_MADE_UP;
        let found = Found { norm: LayerNorm { axis, epsilon }, x, scale, bias };
        let fits = is_row(scale) && is_row(bias) && known && self.is_like(node, x);
        (fits && self.is_private(&inside, id)).then_some(found)
    }

    /// If a node is a sum or product with a constant of several numbers: this, and the node before.
    fn with_row(
        &self,
        id: NodeId,
        op: Binary,
        inside: &mut Vec<NodeId>,
    ) -> (Option<ValueId>, NodeId) {
        let row = |value: ValueId| {
            let constant = self.graph[value].constant.as_ref();
            constant.is_some_and(|c| c.quantiser.is_none() && c.tensor.dtype() == DType::F32)
        };
        let pair = self.pair(&self.graph[id], op);
        let found = pair.and_then(|[a, b]| match (row(a), row(b)) {
            (false, true) => Some((b, self.graph[a].producer?)),
            (true, false) => Some((a, self.graph[b].producer?)),
            _ => None,
        });
        let Some((row, before)) = found else { return (None, id) };
        inside.push(before);
        (Some(row), before)
    }

    /// If a node is `(x - mean) / sqrt(variance + epsilon)`: `x`, the first axis and `epsilon`.
    fn standardised(&self, node: &Node, inside: &mut Vec<NodeId>) -> Option<(ValueId, usize, f32)> {
        let mut enter = |value: ValueId| {
            let id = self.graph[value].producer?;
            inside.push(id);
            Some(&self.graph[id])
        };
        let (centred, deviation) = match self.pair(node, Binary::Div) {
            Some([centred, deviation]) => (centred, enter(deviation)?),
            None => {
                let [a, b] = self.pair(node, Binary::Mul)?;
                let is_reciprocal = |value: ValueId| {
                    self.producer(value).is_some_and(|n| n.op == Op::Unary(Unary::Reciprocal))
                };
                let (centred, factor) = if is_reciprocal(b) { (a, b) } else { (b, a) };
                let reciprocal = is_reciprocal(factor).then(|| enter(factor))??;
                (centred, enter(reciprocal.input(0)?)?)
            }
        };
        let is_root = match deviation.op {
            Op::Unary(Unary::Sqrt) => true,
            Op::Binary(Binary::Pow) => self.number(deviation.input(1)?) == Some(0.5),
            _ => false,
        };
        let sum = is_root.then(|| enter(deviation.input(0)?))??;
        let [a, b] = self.pair(sum, Binary::Add)?;
        let (variance, epsilon) = match (self.number(a), self.number(b)) {
            (None, Some(epsilon)) => (a, epsilon),
            (Some(epsilon), None) => (b, epsilon),
            _ => return None,
        };
        let (squares, axis) = self.mean(enter(variance)?)?;
        let square = enter(squares)?;
        let is_square = match self.pair(square, Binary::Pow) {
            Some([_, exponent]) => self.number(exponent) == Some(2.0),
            None => self.pair(square, Binary::Mul).is_some_and(|[a, b]| a == b),
        };
        let mut less_mean = |value: ValueId| {
            let [x, mean] = self.pair(enter(value)?, Binary::Sub)?;
            let (of, axis) = self.mean(enter(mean)?)?;
            (of == x).then_some((x, axis))
        };
        let (x, first) = less_mean(centred)?;
        let same = less_mean(square.input(0)?)? == (x, axis) && first == axis;
        (is_square && same && epsilon >= 0.0 && epsilon.is_finite()).then_some((
            x,
            axis,
            epsilon as f32,
        ))
    }

    /// If a node is a mean over the last axes: of what, and the first of them.
    fn mean(&self, node: &Node) -> Option<(ValueId, usize)> {
        let Op::Reduce(Reduce { kind: ReduceKind::Mean, axes, keep_dims: true }) = &node.op else {
            return None;
        };
        let x = node.input(0)?;
        let axis = self.graph[x].shape.len().checked_sub(axes.len())?;
        let last = axes.iter().all(|&reduced| reduced >= axis);
        (last && !axes.is_empty()).then_some((x, axis))
    }

    /// Whether nothing else reads what nodes give to one another and to the last one.
    fn is_private(&self, inside: &[NodeId], last: NodeId) -> bool {
        inside.iter().filter(|&&id| id != last).all(|&id| {
            let value = self.graph[id].output.index();
            !self.is_output[value] && self.consumers[value].iter().all(|id| inside.contains(id))
        })
    }
}

/// The product of polynomials, if it has no higher terms.
fn product(a: Polynomial, b: Polynomial) -> Option<Polynomial> {
    let mut product = [0.0; 4];
    for (i, a) in a.into_iter().enumerate() {
        for (j, b) in b.into_iter().enumerate() {
            match product.get_mut(i + j) {
                Some(term) => *term += a * b,
                None if a * b != 0.0 => return None,
                None => {}
            }
        }
    }
    Some(product)
}

/// Whether coefficients are the same but for the rounding of constants to f32.
fn near(found: Polynomial, expected: Polynomial) -> bool {
    let near = |(a, b): (f64, f64)| (a - b).abs() <= b.abs() * 2.0_f64.powi(-20);
    found.into_iter().zip(expected).all(near)
}
