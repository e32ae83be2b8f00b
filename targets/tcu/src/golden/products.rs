//! Products, and nodes whose numbers are part of a product's.

use super::arithmetic::Arithmetic;
use super::choices::Choices;
use super::product::{Product, swapped};
use super::weights::{self, Weights};
use super::windows::Reads;
use super::{Folded, Layer, Part, Scalars, State, layers, misfit, never_claimed};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Binary, Conv, Graph, Node, NodeId, Op, Unary, ValueId};
use std::borrow::Cow;
use std::collections::BTreeMap;

impl<A: Arithmetic> Layer<'_, A> {
    /// The result of a node that computes nothing of its own, because its numbers are part of
    /// another node's, and of those around it.
    pub(super) fn shared(&self, node: &Node) -> Result<Option<State>> {
        let name = &node.name;
        let plain = |index| self.operand(node, index).map(|x| State::plain(x.into_owned()));
        match &node.op {
            Op::Conv(_) if self.choices.given_up(|choice| choice.with.as_ref(), name) => {
                let state = match self.choices.of(name).and_then(|choice| choice.before.clone()) {
                    Some(norm) => self.taken_in(node, &norm)?.clone(),
                    None => plain(0)?.scalars,
                };
                Ok(Some(State { part: Some(Part::Operand), ..State::plain(state) }))
            }
            Op::BatchNorm(_) if self.choices.given_up(|choice| choice.before.as_ref(), name) => {
                Ok(Some(State { moved: Some(name.clone()), ..plain(0)? }))
            }
            Op::Unary(Unary::Relu) => {
                let state = self.state(node, 0)?;
                let Some(norm) = state.moved.as_ref() else { return Ok(None) };
                let limits: Vec<i32> = weights::norm_named(self.graph, norm, None)?
                    .iter()
                    .map(|&(scale, offset)| {
                        self.choices.data_type.encode(f64::from(-(offset / scale)))
                    })
                    .collect();
                let scalars = layers::each_channel(&state.scalars, &limits, A::max);
                Ok(Some(State { scalars, ..state.clone() }))
            }
            Op::Binary(Binary::Add) => {
                let states = [self.computed(node, 0), self.computed(node, 1)];
                let parts = states.map(|state| state.and_then(|state| state.part.as_ref()));
                let sum = match parts {
                    [Some(Part::Sum(other)), Some(Part::Operand)] => (0, 1, other),
                    [Some(Part::Operand), Some(Part::Sum(other))] => (1, 0, other),
                    _ => return Ok(None),
                };
                let producer = node.input(sum.1).and_then(|id| self.graph[id].producer);
                if producer.is_none_or(|producer| self.graph[producer].name != *sum.2) {
                    return Err(misfit(format!("{:?} is not added to its sum", sum.2)));
                }
                Ok(states[sum.0].map(|state| State::plain(state.scalars.clone())))
            }
            _ => Ok(None),
        }
    }

    /// A state that is there.
    pub(super) fn computed(&self, node: &Node, index: usize) -> Option<&State> {
        self.values.get(node.input(index)?)
    }

    /// The operand of a product that takes a batch normalisation in.
    fn taken_in(&self, node: &Node, norm: &str) -> Result<&Scalars> {
        let state = self.state(node, 0)?;
        if state.moved.as_deref() != Some(norm) || state.part.is_some() {
            return Err(misfit(format!(
                "{norm:?} is not before a ReLU that {:?} reads",
                node.name
            )));
        }
        Ok(&state.scalars)
    }

    /// A product with weights; of an `[N, C, ...]` tensor for a convolution, else of rows.
    pub(super) fn product(&self, node: &Node, shape: &[usize]) -> Result<State> {
        let choice = self.choices.of(&node.name);
        let all = choice.and_then(|choice| choice.batch_norm.clone()).map(Folded::All);
        let offset = choice.and_then(|choice| choice.offset.clone()).map(Folded::Offset);
        let folded = all.or(offset);
        let x = match choice.and_then(|choice| choice.before.as_ref()) {
            Some(before) => Cow::Borrowed(self.taken_in(node, before)?),
            None => self.operand(node, 0)?,
        };
        let prepared = self.products.get(&node.output);
        let Prepared { product, taps, along } =
            prepared.ok_or_else(|| never_claimed("a product of computed numbers"))?;
        let part = along.map(|other| Part::Sum(self.graph[other].name.clone()));
        let scalars = if let Op::Conv(conv) = &node.op {
            let mut operands = vec![Operand::new(conv, &x, shape)];
            if let Some(other) = along {
                operands.push(self.along(&self.graph[*other], shape)?);
            }
            let sums = (0..shape[0]).flat_map(|image| {
                let inputs: Vec<_> = operands.iter().map(|operand| operand.image(image)).collect();
                product.apply::<A>(&inputs)
            });
            let sums: Vec<i32> = sums.collect();
            swapped(&sums, shape[2..].iter().product(), product.outputs)
        } else if let Op::ConvTranspose(conv) = &node.op {
            let reads = Reads::transposed(&conv.window, &x.shape[2..], &shape[2..]);
            let operand = Operand::of(&x, reads);
            let sums = (0..shape[0]).flat_map(|image| product.apply::<A>(&[operand.image(image)]));
            let sums: Vec<i32> = sums.collect();
            swapped(&sums, shape[2..].iter().product(), product.outputs)
        } else {
            let positions = swapped(&x.data, product.factors[0].channels, *taps);
            let rows = x.data.len() / (product.factors[0].channels * taps);
            let reads = Reads::in_order(*taps, rows);
            product.apply::<A>(&[(&positions, &reads)])
        };
        Ok(State { scalars: Scalars::new(shape, scalars), folded, moved: None, part })
    }

    /// The operand of a convolution that is summed along with another one.
    fn along(&self, node: &Node, shape: &[usize]) -> Result<Operand> {
        let state = self.values.get(node.output);
        let state = state.filter(|state| state.part == Some(Part::Operand));
        match (&node.op, state) {
            (Op::Conv(conv), Some(state)) if self.graph[node.output].shape[..] == *shape => {
                Ok(Operand::new(conv, &state.scalars, shape))
            }
            _ => Err(not_along(&node.name)),
        }
    }
}

fn not_along(name: &str) -> Diagnostic {
    misfit(format!("{name:?} is not a convolution that can be summed along"))
}

/// A product with its weights and bias in scalars.
pub(super) struct Prepared {
    product: Product,
    /// Positions of the kernel.
    taps: usize,
    /// The convolution that is summed along.
    along: Option<NodeId>,
}

/// The products of a graph, by result.
///
/// # Errors
/// Numerics that do not fit a product.
pub(super) fn prepare(graph: &Graph, choices: &Choices) -> Result<BTreeMap<ValueId, Prepared>> {
    let given_up = |node: &Node| choices.given_up(|choice| choice.with.as_ref(), &node.name);
    let products = graph.nodes().filter(|(_, node)| match node.op {
        Op::Conv(_) => !given_up(node),
        Op::ConvTranspose(_) | Op::Gemm(_) | Op::MatMul => true,
        _ => false,
    });
    let prepared = products.map(|(_, node)| match Prepared::new(graph, choices, node) {
        Ok(prepared) => Ok((node.output, prepared)),
        Err(problem) => Err(problem.at(graph.place(node))),
    });
    prepared.collect()
}

impl Prepared {
    fn new(graph: &Graph, choices: &Choices, node: &Node) -> Result<Prepared> {
        let choice = choices.of(&node.name);
        let folded = choice.and_then(|choice| choice.batch_norm.as_ref());
        let norm = folded.map(|name| weights::norm_named(graph, name, Some(node))).transpose()?;
        let mut weights = Weights::of_node(graph, choices, node)?;
        if let Some(name) = choice.and_then(|choice| choice.offset.as_ref()) {
            weights
                .add_offset(&weights::norm_named(graph, name, Some(node))?, choices.data_type)?;
        }
        let other = choice.and_then(|choice| choice.with.as_ref());
        let convolution = |id: &NodeId| matches!(graph[*id].op, Op::Conv(_));
        let named = |name| graph.node_named(name).filter(convolution);
        let other = other.map(|name| named(name).ok_or_else(|| not_along(name)));
        let along = other.transpose()?;
        let of_other = along.map(|other| Weights::of_node(graph, choices, &graph[other]));
        let of_other = of_other.transpose()?;
        if let Some(other) = &of_other {
            weights.add_bias(other);
        }
        let scalars = |weights: &Weights| weights.scalars(choices.data_type, norm.as_deref());
        let (factor, bias) = scalars(&weights)?;
        let mut factors = vec![factor];
        let also = along.zip(of_other.as_ref());
        let also = also.map(|(id, other)| (&*graph[id].name, other.extents()));
        let steps = choices.steps(&node.name, weights.extents(), also, bias.is_some())?;
        if let Some(other) = &of_other {
            factors.push(scalars(other)?.0);
        }
        let product = Product { outputs: weights.outputs, factors, bias, steps };
        Ok(Prepared { product, taps: weights.taps, along })
    }
}

/// The operand of a convolution.
struct Operand {
    channels: usize,
    plane: usize,
    /// The channels of every position of every image.
    positions: Vec<i32>,
    reads: Reads,
}

impl Operand {
    fn new(conv: &Conv, x: &Scalars, shape: &[usize]) -> Operand {
        Operand::of(x, Reads::new(&conv.window, &x.shape[2..], &shape[2..]))
    }

    fn of(x: &Scalars, reads: Reads) -> Operand {
        let (channels, plane) = (x.shape[1], x.plane());
        Operand { channels, plane, positions: swapped(&x.data, channels, plane), reads }
    }

    fn image(&self, image: usize) -> (&[i32], &Reads) {
        let size = self.channels * self.plane;
        (&self.positions[image * size..][..size], &self.reads)
    }
}
