//! What follows a computing node and belongs to its layer: bias, factor, ReLU, quantiser.

use super::{Added, Codes, Pooled, Reason, Walk};
use crate::compile::weights::{self, Sum};
use quincunx_graph::{Activation, Binary, Node, NodeId, Op, Unary, ValueId};

/// What follows a computing node, as far as it belongs to its layer.
pub(super) struct Tail {
    pub(super) nodes: Vec<NodeId>,
    pub(super) clip: [f64; 2],
    pub(super) codes: Option<Codes>,
    /// A constant that is added.
    pub(super) bias: Option<ValueId>,
    /// A factor of what is computed so far.
    pub(super) factor: Option<Factor>,
    /// A sum follows: nodes and ends are those of both, and of the sum.
    pub(super) added: Option<Added>,
    /// A maximum follows, whose nodes are there too.
    pub(super) pooled: Option<Pooled>,
    pub(super) output: ValueId,
}

/// A number by which values are multiplied, or divided.
#[derive(Clone, Copy)]
pub(super) struct Factor {
    number: f64,
    is_divisor: bool,
}

impl Factor {
    /// It as a factor of f32.
    pub(super) fn real(self) -> f32 {
        let number = self.number as f32;
        if self.is_divisor { 1.0 / number } else { number }
    }

    /// Puts it into the meaning of codes, which had no factor.
    pub(super) fn scale(self, sum: &mut Sum) -> Reason<()> {
        let number = self.number;
        let whole = Some(number as u32).filter(|&whole| f64::from(whole) == number);
        match (self.is_divisor, whole) {
            (false, _) => sum.scales[1] = number,
            (true, Some(whole)) => sum.divisor = whole,
            // Of a power of two.
            (true, None) if (1.0 / number) * number == 1.0 && number.log2().fract() == 0.0 => {
                sum.scales[1] = 1.0 / number;
            }
            (true, None) => return Err("its divisor has no exact reciprocal".to_owned()),
        }
        Ok(())
    }
}

/// No ends.
pub(super) const NO_CLIP: [f64; 2] = [f64::NEG_INFINITY, f64::INFINITY];

impl Walk<'_> {
    pub(super) fn alone(&self, id: NodeId) -> Tail {
        let output = self.graph[id].output;
        Tail {
            nodes: vec![id],
            clip: NO_CLIP,
            codes: None,
            bias: None,
            factor: None,
            added: None,
            pooled: None,
            output,
        }
    }

    /// The constant that only reader of a product adds to it, if the product has no bias.
    fn added(&self, id: NodeId) -> Option<(NodeId, ValueId)> {
        let node = &self.graph[id];
        let is_product = match &node.op {
            Op::Conv(_) | Op::Gemm(_) => node.input(2).is_none(),
            Op::MatMul => !self.is_value(node, 1),
            _ => false,
        };
        let (next, sum) = self.only_reader(node.output).filter(|_| is_product)?;
        let constant = sum.operands().find(|&operand| self.graph[operand].constant.is_some())?;
        let same = self.graph[sum.output].shape == self.graph[node.output].shape;
        (sum.op == Op::Binary(Binary::Add) && same).then_some((next, constant))
    }

    /// The bias, the ReLU and the quantiser that only read the result of a node, and so on.
    pub(super) fn tail(&self, id: NodeId) -> Tail {
        let mut tail = self.alone(id);
        if let Some((sum, bias)) = self.added(id) {
            tail.nodes.push(sum);
            tail.bias = Some(bias);
            tail.output = self.graph[sum].output;
        }
        let is_int8 = self.is_int8();
        let is_product = matches!(self.graph[id].op, Op::Conv(_) | Op::Gemm(_) | Op::MatMul);
        if let Some((next, node)) = self.only_reader(tail.output).filter(|_| is_product && !is_int8)
            && let Some(factor) = self.factor(node)
        {
            tail.nodes.push(next);
            tail.factor = Some(factor);
            tail.output = node.output;
        }
        let head = tail.nodes.len();
        let is_clip = clip(&self.graph[id].op).is_some();
        while let Some((next, node)) = self.only_reader(tail.output) {
            match &node.op {
                Op::Quantise(quantiser) if is_int8 => match Codes::of(quantiser) {
                    Ok(codes) => tail.codes = Some(codes),
                    Err(_) => break,
                },
                op => match clip(op) {
                    Some(ends) if tail.nodes.len() == head && !is_clip => tail.clip = ends,
                    _ => break,
                },
            }
            tail.nodes.push(next);
            tail.output = node.output;
            if tail.codes.is_some() {
                break;
            }
        }
        // A ReLU that nothing quantises is left to the host.
        if is_int8 && tail.codes.is_none() && tail.nodes.len() > head {
            tail.nodes.truncate(head);
            tail.clip = NO_CLIP;
            tail.output = self.graph[tail.nodes[head - 1]].output;
        }
        tail
    }

    /// The number by which a node multiplies or divides a value, in networks of floats as f32.
    pub(super) fn factor(&self, node: &Node) -> Option<Factor> {
        let [a, b] = [node.input(0)?, node.input(1)?];
        let (value, constant, is_divisor) = match node.op {
            Op::Binary(Binary::Mul) if self.graph[a].constant.is_some() => (b, a, false),
            Op::Binary(Binary::Mul) => (a, b, false),
            Op::Binary(Binary::Div) => (a, b, true),
            _ => return None,
        };
        let [[code, scale]] = weights::reals(&self.graph[constant])?[..] else { return None };
        let factor = Factor { number: code * scale, is_divisor };
        let same = self.graph[value].shape == self.graph[node.output].shape;
        let fits = factor.real().is_normal() && (!self.is_int8() || factor.number > 0.0);
        (same && fits).then_some(factor)
    }

    pub(super) fn only_reader(&self, value: ValueId) -> Option<(NodeId, &Node)> {
        let [reader] = self.consumers[value.index()][..] else { return None };
        let free = !self.graph.outputs().contains(&value) && self.refused.reason(reader).is_none();
        let node = &self.graph[reader];
        let once = node.operands().filter(|&operand| operand == value).count() == 1;
        (free && once).then_some((reader, node))
    }
}

/// The ends between which an operator keeps numbers, if it is such a one.
pub(super) fn clip(op: &Op) -> Option<[f64; 2]> {
    match op {
        Op::Unary(Unary::Relu) => Some([0.0, f64::INFINITY]),
        Op::Activation(Activation::Clip { min, max }) => {
            let ends =
                [min.map_or(f64::NEG_INFINITY, f64::from), max.map_or(f64::INFINITY, f64::from)];
            (ends[0] <= ends[1]).then_some(ends)
        }
        _ => None,
    }
}

/// An operator computes every element from that in its place.
pub(super) fn is_each(op: &Op) -> bool {
    clip(op).is_some() || matches!(op, Op::Quantise(_) | Op::Binary(_))
}
