//! The golden model: what each layer of a network computes in this machine's arithmetic.
//!
//! Written from the meaning of the layers with plain loops: no instruction, no layer of the compiler,
//! no arithmetic of the simulator and no part of the graph's executors is used. What the compiler may
//! choose, it reads from the numerics; `docs/machines/tcu.md` has their meaning in "Numbers of a network".

mod arithmetic;
mod choices;
mod departures;
mod elements;
mod layers;
mod lookup;
mod product;
mod products;
mod weights;
mod windows;

use crate::arch::DataType;
use arithmetic::{Arithmetic, Fixed, Float};
use choices::Choices;
use products::Prepared;
use quincunx_contract::golden::{Departure, Layers, Values, Walk};
use quincunx_contract::{Golden, Numerics};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{
    Activation, Binary, Graph, Node, Op, Pool, PoolKind, Quantiser, Reduce, ReduceKind, Source,
    Unary, Value, ValueId,
};
use quincunx_num::Overflow;
use quincunx_tensor::Tensors;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::marker::PhantomData;

/// The model in the arithmetic of the format that the choices name.
macro_rules! prepared {
    ($graph:ident $numerics:ident $choices:ident
     $(($format:ident $width:literal $point:literal))*) => {
        match $choices.data_type {
            $(DataType::$format => {
                Model::<Fixed<$width, $point>>::prepare($graph, $numerics, $choices)
            })*
            DataType::Float32 => Model::<Float>::prepare($graph, $numerics, $choices),
            DataType::Fixed(_) => unreachable!("formats are those of the list"),
        }
    };
}

/// The golden model of a graph.
///
/// # Errors
/// `Q3104` for numerics that do not fit the graph.
pub(crate) fn prepare(graph: &Graph, numerics: &Numerics) -> Result<Box<dyn Golden>> {
    let choices = Choices::read(numerics, graph)?;
    crate::arch::fixed_formats! { [prepared] graph numerics choices }
}

/// A graph with what the compiler chose, in one arithmetic.
struct Model<A: Arithmetic> {
    walk: Walk<Chosen<A>>,
    numerics: Numerics,
}

impl<A: Arithmetic + 'static> Model<A> {
    fn prepare(graph: &Graph, numerics: &Numerics, choices: Choices) -> Result<Box<dyn Golden>> {
        let walk = Walk::new(graph, Chosen::<A>::new(graph, choices)?)?;
        Ok(Box::new(Model { walk, numerics: numerics.clone() }))
    }
}

impl<A: Arithmetic> Golden for Model<A> {
    /// What the numerics fold into the next node or scale is not a number of the machine and left
    /// out.
    fn run(&self, inputs: &Tensors) -> Result<Tensors> {
        self.walk.run(inputs)
    }

    fn departures(&self, inputs: &Tensors) -> Result<Vec<Departure>> {
        departures::departures(&self.walk, &self.numerics, inputs)
    }
}

/// What the compiler chose.
struct Chosen<A> {
    choices: Choices,
    products: BTreeMap<ValueId, Prepared>,
    arithmetic: PhantomData<fn() -> A>,
}

impl<A> Chosen<A> {
    fn new(graph: &Graph, choices: Choices) -> Result<Chosen<A>> {
        let products = products::prepare(graph, &choices)?;
        Ok(Chosen { choices, products, arithmetic: PhantomData })
    }
}

impl<A: Arithmetic> Layers for Chosen<A> {
    type Number = State;

    fn constant(&self, _value: &Value) -> Result<Option<State>> {
        Ok(None)
    }

    fn input(&self, value: &Value, reals: &[f64]) -> Result<State> {
        input(value, reals, self.choices.data_type).map(State::plain)
    }

    fn layer(&self, node: &Node, values: &Values<'_, State>) -> Result<State> {
        let Chosen { choices, products, .. } = self;
        let (graph, arithmetic) = (values.graph, PhantomData::<A>);
        let state = Layer { graph, choices, products, values, arithmetic }.node(node)?;
        if !state.is_plain() && graph.outputs().contains(&node.output) {
            let name = &graph[node.output].name;
            return Err(misfit(format!("the output {name:?} is folded")));
        }
        Ok(state)
    }

    fn reals(&self, state: &State) -> Option<Vec<f64>> {
        let decode = |&scalar: &i32| self.choices.data_type.decode(scalar);
        state.is_plain().then(|| state.scalars.data.iter().map(decode).collect())
    }
}

/// Numerics that do not fit the graph.
fn misfit(what: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::invalid("Q3104", format!("the numerics do not fit the graph: {what}"))
}

/// The compiler takes no such layer.
fn never_claimed(what: &str) -> Diagnostic {
    Diagnostic::bug(format!("tcu never claims {what}"))
}

/// Scalars of the machine in the order of the graph.
#[derive(Clone, Debug, PartialEq)]
struct Scalars {
    shape: Vec<usize>,
    data: Vec<i32>,
}

impl Scalars {
    fn new(shape: &[usize], data: Vec<i32>) -> Scalars {
        Scalars { shape: shape.to_vec(), data }
    }

    /// Elements of a channel.
    fn plane(&self) -> usize {
        self.shape.iter().skip(2).product::<usize>().max(1)
    }
}

/// A result, and why it is not the number that the graph means.
#[derive(Clone, Debug)]
struct State {
    scalars: Scalars,
    /// The batch normalisation behind it that it has gone through already, or a part of it.
    folded: Option<Folded>,
    /// The batch normalisation that its readers have taken in.
    moved: Option<String>,
    /// What it is of a product that is summed along with another one.
    part: Option<Part>,
}

/// What a product has of the batch normalisation of a name behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Folded {
    /// Scale and offset.
    All(String),
    /// The offset, divided by the scale.
    Offset(String),
}

/// A product of two that are summed together.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// The scalars are the operand; the other product reads them.
    Operand,
    /// The scalars are the sum of both, the other one being of this name.
    Sum(String),
}

impl State {
    fn plain(scalars: Scalars) -> State {
        State { scalars, folded: None, moved: None, part: None }
    }

    fn is_plain(&self) -> bool {
        self.folded.is_none() && self.moved.is_none() && self.part.is_none()
    }
}

/// Computes layers from the values that are known.
struct Layer<'a, A> {
    graph: &'a Graph,
    choices: &'a Choices,
    products: &'a BTreeMap<ValueId, Prepared>,
    values: &'a Values<'a, State>,
    arithmetic: PhantomData<A>,
}

impl<A: Arithmetic> Layer<'_, A> {
    fn node(&self, node: &Node) -> Result<State> {
        let shape = &self.graph[node.output].shape;
        if let Some(state) = self.shared(node)? {
            return Ok(state);
        }
        match &node.op {
            Op::Conv(_) | Op::ConvTranspose(_) | Op::Gemm(_) | Op::MatMul => {
                self.product(node, shape)
            }
            Op::BatchNorm(norm) => match self.state(node, 0)? {
                state if state.folded == Some(Folded::All(node.name.clone())) => {
                    Ok(State { folded: None, ..state.clone() })
                }
                state => {
                    let parameters = weights::affine(self.graph, node, norm)?;
                    let encode = |real| self.choices.data_type.encode(real);
                    if state.folded == Some(Folded::Offset(node.name.clone())) {
                        let scales: Vec<i32> =
                            parameters.iter().map(|&(scale, _)| encode(scale.into())).collect();
                        let x = layers::each_channel(&state.scalars, &scales, A::multiply);
                        return Ok(State { scalars: x, folded: None, ..state.clone() });
                    }
                    let scalars = |&(scale, offset): &(f32, f32)| {
                        (encode(scale.into()), encode(offset.into()))
                    };
                    let parameters: Vec<(i32, i32)> = parameters.iter().map(scalars).collect();
                    Ok(State::plain(layers::normalise::<A>(&*self.operand(node, 0)?, &parameters)))
                }
            },
            _ => {
                let moved = self.computed(node, 0).filter(|_| passes_on(&node.op));
                let moved = moved.and_then(|state| state.moved.clone());
                Ok(State { moved, ..State::plain(self.layer(node, shape)?) })
            }
        }
    }

    /// Layers without choices.
    fn layer(&self, node: &Node, shape: &[usize]) -> Result<Scalars> {
        let data_type = self.choices.data_type;
        if let Some(sources) = self.graph.movement(node) {
            return self.moved(node, &sources, shape);
        }
        let x = &*self.operand(node, 0)?;
        if let Some(scalars) = self.elements(node, x, shape)? {
            return Ok(scalars);
        }
        let minus_one = data_type.encode(-1.0);
        let negated = |x| A::multiply(x, minus_one);
        let global = |kind| Reduce { kind, axes: (2..x.shape.len()).collect(), keep_dims: true };
        let steps = self.choices.means.get(&node.name).map(|steps| &steps[..]);
        match &node.op {
            Op::Binary(binary) => layers::binary::<A>(*binary, x, &*self.operand(node, 1)?, shape),
            op if uses_table(op) => lookup::function::<A>(self.choices, node, x),
            Op::Softmax(softmax) => lookup::softmax::<A>(self.choices, softmax, node, x),
            Op::Unary(Unary::Relu) => Ok(layers::each(x, |x| A::max(x, 0))),
            Op::Unary(Unary::Neg) => Ok(layers::each(x, negated)),
            Op::Unary(Unary::Abs) => Ok(layers::each(x, |x| A::max(x, negated(x)))),
            Op::PRelu => {
                self.check_slopes(node)?;
                let product = layers::binary::<A>(Binary::Mul, x, &*self.operand(node, 1)?, shape)?;
                layers::binary::<A>(Binary::Max, x, &product, shape)
            }
            Op::Activation(Activation::LeakyRelu { alpha }) => self.leaky_relu(node, *alpha),
            Op::Activation(Activation::Clip { min, max }) => {
                let limit = |limit: &Option<f32>| limit.map(|limit| data_type.encode(limit.into()));
                let (low, high) = (limit(min), limit(max));
                Ok(layers::each(x, |x| {
                    let x = low.map_or(x, |low| A::max(x, low));
                    high.map_or(x, |high| A::min(x, high))
                }))
            }
            Op::Pool(pool) => layers::pool::<A>(pool, x, shape, data_type, steps),
            Op::GlobalAveragePool => {
                layers::reduce::<A>(&global(ReduceKind::Mean), x, shape, data_type, steps)
            }
            Op::GlobalMaxPool => {
                layers::reduce::<A>(&global(ReduceKind::Max), x, shape, data_type, None)
            }
            Op::Reduce(reduce) if reduce.axes == [usize::from(x.shape.len() > 1)] => {
                layers::reduce_channels::<A>(self.choices, reduce.kind, x, shape)
            }
            Op::Reduce(reduce) => layers::reduce::<A>(reduce, x, shape, data_type, steps),
            Op::Resize(resize) => {
                layers::interpolate::<A>(resize, x, shape, data_type, self.choices.is_compat())
            }
            Op::Quantise(quantiser) if is_own_grid(quantiser, data_type) => Ok(x.clone()),
            other => Err(never_claimed(other.name())),
        }
    }

    /// Elements that only change their places.
    fn moved(&self, node: &Node, sources: &[Source], shape: &[usize]) -> Result<Scalars> {
        let operands = (0..node.inputs.len()).map(|index| self.operand(node, index));
        let operands: Vec<Cow<'_, Scalars>> = operands.collect::<Result<_>>()?;
        let element = |source: &Source| match *source {
            Source::Operand { operand, element } => {
                operands[operand as usize].data[element as usize]
            }
            Source::Value(value) => self.choices.data_type.encode(value),
        };
        Ok(Scalars::new(shape, sources.iter().map(element).collect()))
    }

    /// `max(x, x * alpha)`, or where that was chosen `x + min(x, 0) * (alpha - 1)`.
    fn leaky_relu(&self, node: &Node, alpha: f32) -> Result<Scalars> {
        let (data_type, x) = (self.choices.data_type, self.operand(node, 0)?);
        if alpha > 1.0 || alpha.is_nan() {
            return Err(never_claimed("a slope above 1"));
        }
        let slope = data_type.encode(alpha.into());
        if !self.choices.leaky_sums.contains(&node.name) {
            return Ok(layers::each(&x, |x| A::max(x, A::multiply(x, slope))));
        }
        let less = slope - data_type.encode(1.0);
        Ok(layers::each(&x, |x| A::add(x, A::multiply(A::min(x, 0), less))))
    }

    /// The larger of a number and its product is a leaky ReLU for slopes up to 1 only.
    fn check_slopes(&self, node: &Node) -> Result<()> {
        let id = node.input(1).ok_or_else(|| never_claimed("an absent operand"))?;
        match weights::reals(&self.graph[id])?.iter().all(|&slope| slope <= 1.0) {
            true => Ok(()),
            false => Err(never_claimed("a slope above 1")),
        }
    }

    fn state(&self, node: &Node, index: usize) -> Result<&State> {
        let id = node.input(index).ok_or_else(|| never_claimed("an absent operand"))?;
        self.values.get(id).ok_or_else(|| never_claimed("a constant in this place"))
    }

    /// An operand; constants become scalars.
    fn operand(&self, node: &Node, index: usize) -> Result<Cow<'_, Scalars>> {
        let id = node.input(index).ok_or_else(|| never_claimed("an absent operand"))?;
        let value = &self.graph[id];
        if value.constant.is_some() {
            let encode = |&real: &f64| self.choices.data_type.encode(real);
            let data = weights::reals(value)?.iter().map(encode).collect();
            return Ok(Cow::Owned(Scalars::new(&value.shape, data)));
        }
        let state = self.state(node, index)?;
        let rest = state.folded.is_none() && state.part.is_none();
        let passed = passes_on(&node.op) && rest;
        if !state.is_plain() && !passed {
            return Err(misfit(format!("it reads {:?}, which is folded", value.name)));
        }
        Ok(Cow::Borrowed(&state.scalars))
    }
}

/// True for an operation that gives numbers of the kind of its operand: means, and other shapes.
fn passes_on(op: &Op) -> bool {
    match op {
        Op::GlobalAveragePool
        | Op::Flatten { .. }
        | Op::Reshape { .. }
        | Op::Transpose { .. }
        | Op::Identity => true,
        Op::Pool(Pool { kind: PoolKind::Average { .. }, window, ceil: false }) => {
            window.pads.iter().all(|&pads| pads == (0, 0))
        }
        _ => false,
    }
}

/// True for functions that machines with lookup tables compute.
fn uses_table(op: &Op) -> bool {
    match op {
        Op::Unary(unary) => matches!(
            unary,
            Unary::Sigmoid
                | Unary::Tanh
                | Unary::Exp
                | Unary::Erf
                | Unary::Softplus
                | Unary::Gelu
                | Unary::GeluTanh
                | Unary::Atan
                | Unary::HardSwish
        ),
        Op::Activation(activation) => matches!(
            activation,
            Activation::Elu { .. } | Activation::Selu { .. } | Activation::HardSigmoid { .. }
        ),
        _ => false,
    }
}

/// True when numbers are moved onto the grid on which all of them are.
fn is_own_grid(quantiser: &Quantiser, data_type: DataType) -> bool {
    let Some(point) = data_type.binary_point() else { return false };
    let own = (true, data_type.width(), f64::from(point).exp2().recip(), 0, Overflow::Saturate);
    let of = |q: &Quantiser| {
        Some((
            q.signed.as_uniform()?,
            q.width.as_uniform()?,
            q.scale.as_uniform()?,
            q.zero.as_uniform()?,
            q.overflow.as_uniform()?,
        ))
    };
    of(quantiser) == Some(own)
}

/// An input, moved onto the machine's grid as a port does: to the nearest scalar, ties towards plus
/// infinity, the end of the range for what is beyond it.
fn input(value: &Value, reals: &[f64], data_type: DataType) -> Result<Scalars> {
    if let Some(bad) = reals.iter().find(|real| !real.is_finite()) {
        let name = value.name.escape_debug();
        let message = format!("input \"{name}\" holds {bad}, expected finite numbers");
        return Err(Diagnostic::invalid("Q3103", message));
    }
    let Some(point) = data_type.binary_point() else {
        let data = reals.iter().map(|&real| data_type.encode(real)).collect();
        return Ok(Scalars::new(&value.shape, data));
    };
    let end = (1_i64 << (data_type.width() - 1)) as f64;
    let nearest = |real: &f64| {
        let steps = real * f64::from(1_u32 << point);
        // A difference of a number and its integer part is exact.
        let below = steps.floor();
        let nearest = if steps - below >= 0.5 { below + 1.0 } else { below };
        nearest.clamp(-end, end - 1.0) as i32
    };
    Ok(Scalars::new(&value.shape, reals.iter().map(nearest).collect()))
}
