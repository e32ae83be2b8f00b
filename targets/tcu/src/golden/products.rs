//! Products, and nodes whose numbers are part of a product's.

use super::arithmetic::Arithmetic;
use super::product::{Product, swapped};
use super::weights::{self, Weights};
use super::windows::Reads;
use super::{Layer, Part, Scalars, State, layers, misfit};
use quincunx_diag::Result;
use quincunx_graph::{Binary, Conv, Node, Op, Unary};
use std::borrow::Cow;

impl<A: Arithmetic> Layer<'_, A> {
    /// The result of a node that computes nothing of its own, because its numbers are part of
    /// another node's, and of those around it.
    pub(super) fn shared(&self, node: &Node) -> Result<Option<State>> {
        let name = &node.name;
        let plain = |index| self.operand(node, index).map(|x| State::plain(x.into_owned()));
        match &node.op {
            Op::Conv(_) if self.choices.given_up(|choice| choice.with.as_ref(), name) => {
                let state = match self.choices.of(name).and_then(|choice| choice.before.clone()) {
                    Some(norm) => self.taken_in(node, &norm)?.0.clone(),
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
                let limits: Vec<i32> = self
                    .norm_named(norm)?
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

    /// The operand of a product that takes a batch normalisation in, with scale and offset.
    fn taken_in(&self, node: &Node, norm: &str) -> Result<(&Scalars, Vec<(f32, f32)>)> {
        let state = self.state(node, 0)?;
        if state.moved.as_deref() != Some(norm) || state.part.is_some() {
            return Err(misfit(format!(
                "{norm:?} is not before a ReLU that {:?} reads",
                node.name
            )));
        }
        Ok((&state.scalars, self.norm_named(norm)?))
    }

    /// Scale and offset of a batch normalisation.
    fn norm_named(&self, name: &str) -> Result<Vec<(f32, f32)>> {
        let node = self.graph.node_named(name).map(|id| &self.graph[id]);
        match node.map(|node| (node, &node.op)) {
            Some((node, Op::BatchNorm(norm))) => weights::affine(self.graph, node, norm),
            _ => Err(misfit(format!("{name:?} is not a batch normalisation"))),
        }
    }

    /// A product with weights; of an `[N, C, ...]` tensor for a convolution, else of rows.
    pub(super) fn product(
        &self,
        node: &Node,
        mut weights: Weights,
        shape: &[usize],
    ) -> Result<State> {
        let choice = self.choices.of(&node.name);
        let folded = choice.and_then(|choice| choice.batch_norm.clone());
        let scale = choice.and_then(|choice| choice.scale);
        let norm = folded.as_ref().map(|name| self.follower(node, name)).transpose()?;
        let x = match choice.and_then(|choice| choice.before.as_ref()) {
            Some(before) => {
                let (x, norm) = self.taken_in(node, before)?;
                weights.take_in(&norm)?;
                Cow::Borrowed(x)
            }
            None => self.operand(node, 0)?,
        };
        let other = match choice.and_then(|choice| choice.with.as_ref()) {
            Some(name) => Some(self.along(name, shape)?),
            None => None,
        };
        let part = other.as_ref().map(|other| Part::Sum(other.name.clone()));
        if let Some(other) = &other {
            weights.add_bias(&other.weights);
        }
        let data_type = self.choices.data_type;
        let (factor, bias) = weights.scalars(data_type, norm.as_deref(), scale)?;
        let also = other.as_ref().map(|other| (&*other.name, other.weights.extents()));
        let steps = self.choices.steps(&node.name, weights.extents(), also, bias.is_some())?;
        let mut factors = vec![factor];
        if let Some(other) = &other {
            factors.push(other.weights.scalars(data_type, norm.as_deref(), scale)?.0);
        }
        let product = Product { outputs: weights.outputs, factors, bias, steps };
        let scalars = if let Op::Conv(conv) = &node.op {
            let mut operands = vec![Operand::new(conv, &x, shape)];
            operands.extend(other.map(|other| other.operand));
            let sums = (0..shape[0]).flat_map(|image| {
                let inputs: Vec<_> = operands.iter().map(|operand| operand.image(image)).collect();
                product.apply::<A>(&inputs)
            });
            let sums: Vec<i32> = sums.collect();
            swapped(&sums, shape[2..].iter().product(), product.outputs)
        } else {
            let positions = swapped(&x.data, weights.channels, weights.taps);
            let reads = Reads::in_order(weights.taps, x.shape[0]);
            product.apply::<A>(&[(&positions, &reads)])
        };
        Ok(State { scalars: Scalars::new(shape, scalars), folded, scale, moved: None, part })
    }

    /// The convolution of this name, which is summed along with another one.
    fn along(&self, name: &str, shape: &[usize]) -> Result<Along> {
        let wrong = || misfit(format!("{name:?} is not a convolution that can be summed along"));
        let node = self.graph.node_named(name).map(|id| &self.graph[id]).ok_or_else(wrong)?;
        let Op::Conv(conv) = &node.op else { return Err(wrong()) };
        let state = self.values.get(node.output).ok_or_else(wrong)?;
        if state.part != Some(Part::Operand) || self.graph[node.output].shape[..] != *shape {
            return Err(wrong());
        }
        let mut weights = Weights::of_conv(self.graph, node, conv)?;
        if let Some(before) = self.choices.of(name).and_then(|choice| choice.before.as_ref()) {
            weights.take_in(&self.norm_named(before)?)?;
        }
        let operand = Operand::new(conv, &state.scalars, shape);
        Ok(Along { name: name.to_owned(), weights, operand })
    }
}

/// A convolution that is summed along with another one.
struct Along {
    name: String,
    weights: Weights,
    operand: Operand,
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
        let (channels, plane) = (x.shape[1], x.plane());
        let reads = Reads::new(&conv.window, &x.shape[2..], &shape[2..]);
        Operand { channels, plane, positions: swapped(&x.data, channels, plane), reads }
    }

    fn image(&self, image: usize) -> (&[i32], &Reads) {
        let size = self.channels * self.plane;
        (&self.positions[image * size..][..size], &self.reads)
    }
}
