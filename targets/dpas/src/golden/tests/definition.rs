//! What layers of floats mean: sums number by number in f64, each step rounded to f32.

use super::Net;
use quincunx_graph::{Activation, Binary, Conv, Node, Op, PoolKind, ValueId, Window};
use std::collections::BTreeMap;

/// The nearest number of a type, ties to even. Steps of a type are powers of two, so that only the
/// count of steps is rounded.
pub(super) fn rounded(kind: &str, real: f64) -> f64 {
    let (digits, lowest, end) = match kind {
        "bf16" => (8, -126, 2.0_f64.powi(128)),
        "fp16" => (11, -14, 65_536.0),
        _ => (24, -126, 2.0_f64.powi(128)),
    };
    if real == 0.0 || !real.is_finite() {
        return real;
    }
    let exponent = ((real.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(lowest);
    let step = 2.0_f64.powi(exponent - digits + 1);
    let nearest = (real / step).round_ties_even() * step;
    if nearest.abs() >= end { f64::INFINITY.copysign(real) } else { nearest }
}

/// What a product sees of a number.
fn factor(precision: &str, real: f64) -> f64 {
    if precision != "tf32" || real == 0.0 || !real.is_finite() {
        return real;
    }
    // 10 bits behind the leading one.
    let step = 2.0_f64.powi(((real.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(-126) - 10);
    (real / step).trunc() * step
}

/// One step of a sum.
fn added(sum: f64, a: f64, b: f64) -> f64 {
    rounded("f32", sum + rounded("f32", a * b))
}

/// A window over two axes, from `Window` of one or two.
struct Plane {
    kernel: [usize; 2],
    strides: [usize; 2],
    dilations: [usize; 2],
    before: [usize; 2],
}

impl Plane {
    fn new(window: &Window) -> Plane {
        let pair = |of: &dyn Fn(usize) -> usize, one: usize| match window.rank() {
            1 => [one, of(0)],
            _ => [of(0), of(1)],
        };
        Plane {
            kernel: pair(&|axis| window.kernel[axis], 1),
            strides: pair(&|axis| window.strides[axis], 1),
            dilations: pair(&|axis| window.dilations[axis], 1),
            before: pair(&|axis| window.pads[axis].0, 0),
        }
    }

    /// The taps of a position, row by row: the element of a plane, none in the padding.
    fn taps(&self, at: [usize; 2], extents: [usize; 2]) -> Vec<Option<usize>> {
        let mut taps = Vec::new();
        for row in 0..self.kernel[0] {
            for column in 0..self.kernel[1] {
                let place = [0, 1].map(|axis| {
                    let tap = [row, column][axis] * self.dilations[axis];
                    (at[axis] * self.strides[axis] + tap) as i64 - self.before[axis] as i64
                });
                let inside = (0..2).all(|axis| (0..extents[axis] as i64).contains(&place[axis]));
                taps.push(inside.then(|| place[0] as usize * extents[1] + place[1] as usize));
            }
        }
        taps
    }
}

/// Rows and columns behind images and channels.
fn extents(shape: &[usize]) -> [usize; 2] {
    if shape.len() == 3 { [1, shape[2]] } else { [shape[2], shape[3]] }
}

/// What layers mean, by names of values.
pub(super) struct Definition<'a> {
    pub(super) net: &'a Net,
    pub(super) precision: &'static str,
    pub(super) numbers: BTreeMap<String, Vec<f64>>,
}

impl Definition<'_> {
    fn shape(&self, id: ValueId) -> Vec<usize> {
        self.net.graph[id].shape.to_vec()
    }

    fn operand(&self, node: &Node, index: usize) -> Vec<f64> {
        let value = &self.net.graph[node.input(index).unwrap()];
        match &value.constant {
            Some(constant) => constant.tensor.to_f64(),
            None => self.numbers[&value.name].clone(),
        }
    }

    fn weights(&self, node: &Node) -> Vec<f64> {
        let kind = if self.precision == "tf32" { "f32" } else { self.precision };
        let rounded = |real| factor(self.precision, rounded(kind, real));
        self.operand(node, 1).into_iter().map(rounded).collect()
    }

    /// The numbers of the first operand as products see them.
    fn factors(&self, node: &Node) -> Vec<f64> {
        self.operand(node, 0).into_iter().map(|real| factor(self.precision, real)).collect()
    }

    /// A bias for every output: of the node, or of the sum behind it.
    fn biases(&self, node: &Node, sum: Option<&Node>, outputs: usize) -> Vec<f64> {
        let graph = &self.net.graph;
        let behind = sum.and_then(|sum| sum.operands().find(|&id| graph[id].constant.is_some()));
        match node.input(2).or(behind) {
            Some(id) => graph[id].constant.as_ref().unwrap().tensor.to_f64(),
            None => vec![0.0; outputs],
        }
    }

    fn conv(&self, node: &Node, conv: &Conv, sum: Option<&Node>) -> Vec<f64> {
        let (x, w) = (self.factors(node), self.weights(node));
        let [input, weights, output] =
            [node.input(0).unwrap(), node.input(1).unwrap(), node.output].map(|id| self.shape(id));
        let (plane, shape, result) = (Plane::new(&conv.window), extents(&input), extents(&output));
        let (channels, outputs) = (weights[1], weights[0]);
        let (area, taps) = (shape[0] * shape[1], plane.kernel[0] * plane.kernel[1]);
        let biases = self.biases(node, sum, outputs);
        let mut results = Vec::new();
        for (image, output) in (0..input[0]).flat_map(|n| (0..outputs).map(move |m| (n, m))) {
            let first = image * input[1] + output / (outputs / conv.groups) * channels;
            for at in (0..result[0]).flat_map(|row| (0..result[1]).map(move |c| [row, c])) {
                let mut total = biases[output];
                for (tap, place) in plane.taps(at, shape).into_iter().enumerate() {
                    for channel in 0..channels {
                        let number = place.map_or(0.0, |place| x[(first + channel) * area + place]);
                        total = added(total, number, w[(output * channels + channel) * taps + tap]);
                    }
                }
                results.push(total);
            }
        }
        results
    }

    fn rows(&self, node: &Node, sum: Option<&Node>) -> Vec<f64> {
        let (x, w) = (self.factors(node), self.weights(node));
        let shape = self.shape(node.input(1).unwrap());
        let turned = matches!(&node.op, Op::Gemm(gemm) if gemm.transpose_b);
        let (depth, outputs) = if turned { (shape[1], shape[0]) } else { (shape[0], shape[1]) };
        let biases = self.biases(node, sum, outputs);
        let mut results = Vec::new();
        for row in 0..x.len() / depth {
            for (output, &bias) in biases.iter().enumerate() {
                let weight =
                    |at: usize| w[if turned { output * depth + at } else { at * outputs + output }];
                let step = |total, at| added(total, x[row * depth + at], weight(at));
                results.push((0..depth).fold(bias, step));
            }
        }
        results
    }

    fn pool(&self, node: &Node) -> Vec<f64> {
        let [input, output] = [node.input(0).unwrap(), node.output].map(|id| self.shape(id));
        let (shape, result) = (extents(&input), extents(&output));
        let (window, is_max) = match &node.op {
            Op::Pool(pool) => (pool.window.clone(), pool.kind == PoolKind::Max),
            op => (Window::new(&input[2..]), *op == Op::GlobalMaxPool),
        };
        let x = if is_max { self.operand(node, 0) } else { self.factors(node) };
        let plane = Plane::new(&window);
        let share = rounded("f32", 1.0 / (plane.kernel[0] * plane.kernel[1]) as f64);
        let mut results = Vec::new();
        for image in x.chunks_exact(shape[0] * shape[1]) {
            for at in (0..result[0]).flat_map(|row| (0..result[1]).map(move |c| [row, c])) {
                let taps = plane.taps(at, shape).into_iter();
                results.push(match is_max {
                    true => taps.flatten().map(|at| image[at]).fold(f64::NEG_INFINITY, f64::max),
                    false => {
                        let number = |at: Option<usize>| at.map_or(0.0, |at| image[at]);
                        let total = taps.fold(0.0, |total, at| added(total, number(at), 1.0));
                        rounded("f32", total * share)
                    }
                });
            }
        }
        results
    }

    /// Adds the result of the next layer.
    pub(super) fn layer(&mut self, nodes: &[String]) {
        let stored = self.net.stored(nodes).unwrap();
        let graph = &self.net.graph;
        let nodes: Vec<&Node> =
            nodes.iter().map(|name| &graph[graph.node_named(name).unwrap()]).collect();
        let (first, last) = (nodes[0], nodes[nodes.len() - 1]);
        let sum = nodes[1..].iter().copied().find(|node| node.op == Op::Binary(Binary::Add));
        let mut results = match &first.op {
            Op::Conv(conv) => self.conv(first, conv, sum),
            Op::Gemm(_) | Op::MatMul => self.rows(first, sum),
            Op::Pool(_) | Op::GlobalAveragePool | Op::GlobalMaxPool => self.pool(first),
            Op::Binary(Binary::Add) => {
                let [a, b] = [0, 1].map(|index| self.operand(first, index));
                a.iter().zip(b).map(|(a, b)| rounded("f32", a + b)).collect()
            }
            Op::Unary(_) | Op::Activation(_) => self.factors(first),
            _ => self.operand(first, 0),
        };
        let [low, high] = match &last.op {
            Op::Unary(_) => [Some(0.0), None],
            Op::Activation(Activation::Clip { min, max }) => [*min, *max],
            _ => [None, None],
        };
        for result in &mut results {
            *result = low.map_or(*result, |low| result.max(low.into()));
            *result = high.map_or(*result, |high| result.min(high.into()));
            *result = rounded(stored, *result);
        }
        self.numbers.insert(graph[last.output].name.clone(), results);
    }
}
