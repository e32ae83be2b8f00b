//! How far numbers may be from real ones after being held and rounded on the way: running error
//! analysis (`higham`) along a graph.
//!
//! Every number is a real one with a radius. A radius grows by half a step wherever something is
//! rounded, by what operands contribute through the operator, and by what lies beyond the range of a
//! grid. A radius of 0 says that nothing was rounded, or that the reference rounds the same number in
//! the same way.

#![deny(clippy::wildcard_enum_match_arm)]

use super::float::elementwise::real_activation;
use super::movement::move_tensor;
use super::window::{Number, convolve, each_position, multiply, product_of};
use super::{find_input, operand, unsupported};
use crate::{
    Activation, BatchNorm, Binary, Conv, Gemm, Graph, Node, Op, Pad, PadMode, Pool, PoolKind,
    Quantiser, Unary, Value,
};
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::{Overflow, Rounding};
use quincunx_tensor::{Shape, Tensor, Tensors, View, element_count};
use std::collections::BTreeMap;

/// How far a held number may be from the real one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    /// At most so much.
    pub absolute: f64,
    /// And so much of the number's size.
    pub relative: f64,
}

impl Step {
    /// Exact.
    pub const NONE: Step = Step { absolute: 0.0, relative: 0.0 };

    /// Rounded to a float with so many bits of significand, the hidden one among them.
    pub fn float(significand: i32) -> Step {
        Step { absolute: 0.0, relative: 2.0_f64.powi(-significand) }
    }

    /// Rounded to multiples of a step.
    pub fn grid(step: f64) -> Step {
        Step { absolute: step / 2.0, relative: 0.0 }
    }

    fn of(self, size: f64) -> f64 {
        self.absolute + self.relative * size
    }
}

/// What the machine rounds when it computes a node, besides what the quantisers of the graph say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Precision {
    /// Constants that the node reads.
    pub constants: Step,
    /// Every addition of a product to a sum; sizes are those of the sums without signs.
    pub sums: Step,
    /// The result, and its parts.
    pub results: Step,
    /// What it can hold.
    pub range: Option<[f64; 2]>,
}

/// What is known about the way in which a graph is computed.
pub struct Computed<'a> {
    /// What the machine rounds.
    pub precision: &'a dyn Fn(&Node) -> Precision,
    /// The reference rounds this value in the same way, or has the same constant.
    pub is_given: &'a dyn Fn(&Value) -> bool,
    /// What the reference itself rounds in every operation, relative to the sizes of numbers: 0 where
    /// it is exact.
    pub reference: f64,
}

/// For every output of the graph how far its numbers may be from those that real arithmetic makes of
/// the same inputs and the constants before they were quantised, row-major.
///
/// # Errors
/// `Q0310` for inputs that do not fit; `Q0311` for operators whose errors are not followed: functions
/// that machines approximate, reductions, and what selects by position.
pub fn bounds(
    graph: &Graph,
    inputs: &Tensors,
    computed: &Computed<'_>,
) -> Result<BTreeMap<String, Vec<f64>>> {
    let mut values: Vec<Option<Balls>> = vec![None; graph.values().len()];
    for &id in graph.inputs() {
        values[id.index()] = Some(Balls::exact(find_input(graph, id, inputs)?));
    }
    for (_, node) in graph.nodes() {
        for id in node.operands() {
            if let (Some(_), None) = (&graph[id].constant, &values[id.index()]) {
                let step = (computed.precision)(node).constants;
                let given = (computed.is_given)(&graph[id]);
                values[id.index()] = Some(Balls::constant(&graph[id], step, given)?);
            }
        }
        let operands: Vec<_> =
            node.inputs.iter().map(|id| id.and_then(|id| values[id.index()].as_ref())).collect();
        let result = Walk { graph, computed, node }.apply(&operands);
        values[node.output.index()] = Some(result.map_err(|p| p.at(graph.place(node)))?);
    }
    let output = |&id: &crate::ValueId| {
        let balls = values[id.index()].as_ref()?;
        Some((graph[id].name.clone(), balls.points.iter().map(|ball| ball.radius).collect()))
    };
    Ok(graph.outputs().iter().filter_map(output).collect())
}

/// A real number, how far the machine's may be from it, and the size of what it was summed from.
#[derive(Clone, Copy, Debug, Default)]
struct Ball {
    real: f64,
    radius: f64,
    size: f64,
}

impl Ball {
    fn new(real: f64, radius: f64) -> Ball {
        Ball { real, radius, size: real.abs() }
    }
}

impl Number for Ball {
    fn zero() -> Self {
        Ball::default()
    }

    fn multiply_add(&mut self, a: &Self, b: &Self) {
        self.real += a.real * b.real;
        self.radius += a.real.abs() * b.radius + a.radius * (b.real.abs() + b.radius);
        self.size += a.real.abs() * b.real.abs();
    }
}

/// A tensor of them.
#[derive(Clone)]
struct Balls {
    shape: Shape,
    points: Vec<Ball>,
}

impl Balls {
    fn exact(tensor: &Tensor) -> Balls {
        let points = tensor.to_f64().into_iter().map(|real| Ball::new(real, 0.0)).collect();
        Balls { shape: tensor.shape().into(), points }
    }

    /// A constant: unless it is given as it is, the number before it was quantised is within half a step
    /// of its code's.
    fn constant(value: &Value, held: Step, given: bool) -> Result<Balls> {
        let constant = value.constant.as_ref().ok_or_else(|| Diagnostic::bug("not a constant"))?;
        let mut balls = Balls::exact(&constant.tensor);
        if let Some(quantiser) = &constant.quantiser {
            for (ball, scalar) in balls.points.iter_mut().zip(expanded(quantiser, &balls.shape)?) {
                let half = if given { 0.0 } else { scalar.scale / 2.0 };
                *ball = Ball::new((ball.real - scalar.zero as f64) * scalar.scale, half);
            }
        }
        balls.points.iter_mut().for_each(|ball| ball.radius += held.of(ball.size));
        Ok(balls)
    }

    fn broadcast(&self, shape: &[usize]) -> Result<Vec<Ball>> {
        let view = View::new(&self.points, &self.shape).broadcast(shape);
        let view = view.ok_or_else(|| Diagnostic::bug("operands do not broadcast"))?;
        Ok(view.to_vec())
    }

    fn transposed(&self, yes: bool) -> Balls {
        if !yes {
            return self.clone();
        }
        let view = View::new(&self.points, &self.shape).permute(&[1, 0]);
        Balls { shape: view.shape().into(), points: view.to_vec() }
    }

    fn tensor(&self, part: impl Fn(&Ball) -> f64) -> Result<Tensor> {
        Tensor::from_vec(&self.shape, self.points.iter().map(part).collect::<Vec<f64>>())
    }
}

fn expanded(quantiser: &Quantiser, shape: &[usize]) -> Result<Vec<crate::Scalar>> {
    let scalars = quantiser.scalars(shape);
    scalars.ok_or_else(|| Diagnostic::bug("a quantiser does not broadcast after inference"))
}

/// One node.
struct Walk<'a> {
    graph: &'a Graph,
    computed: &'a Computed<'a>,
    node: &'a Node,
}

type Operands<'a> = [Option<&'a Balls>];

impl Walk<'_> {
    fn apply(&self, operands: &Operands<'_>) -> Result<Balls> {
        let shape = &self.graph[self.node.output].shape;
        let x = operand(operands, 0)?;
        let points = match &self.node.op {
            Op::Identity
            | Op::Flatten { .. }
            | Op::Reshape { .. }
            | Op::Transpose { .. }
            | Op::Concat { .. }
            | Op::Slice { .. }
            | Op::Pad(_)
            | Op::Expand { .. }
            | Op::Tile { .. } => return self.moved(operands),
            Op::Resize(resize) if resize.is_nearest() => return self.moved(operands),
            Op::Cast { to } | Op::CastUnbounded { to } if to.is_float() => x.points.clone(),
            Op::Quantise(quantiser) => return self.quantised(quantiser, x),
            Op::Conv(conv) => self.convolution(conv, operands, shape)?,
            Op::Gemm(gemm) => self.gemm(gemm, operands, shape)?,
            Op::MatMul => {
                let b = operand(operands, 1)?;
                let sums = multiply(&product_of(&x.shape, &b.shape, shape), &x.points, &b.points);
                self.summed(sums, x.shape.last().copied().unwrap_or(1))
            }
            Op::Pool(pool) => self.pool(pool, x, shape),
            Op::GlobalAveragePool => self.global(x, false),
            Op::GlobalMaxPool => {
                return Ok(Balls { points: self.global(x, true), shape: shape.clone() });
            }
            Op::BatchNorm(norm) => self.batch_norm(norm, operands)?,
            Op::Binary(binary) => self.binary(*binary, operands, shape)?,
            Op::Unary(Unary::Relu) => {
                return Ok(x.map(shape, |ball| monotone(ball, |v| v.max(0.0))));
            }
            Op::Unary(Unary::Neg) => {
                x.points.iter().map(|b| Ball { real: -b.real, ..*b }).collect()
            }
            Op::Unary(Unary::Abs) => return Ok(x.map(shape, |b| Ball::new(b.real.abs(), b.radius))),
            Op::Activation(
                kind @ (Activation::LeakyRelu { .. }
                | Activation::Clip { .. }
                | Activation::HardSigmoid { .. }),
            ) => {
                let apply = |ball: &Ball| monotone(ball, |v| real_activation(*kind, v));
                x.points.iter().map(apply).collect()
            }
            Op::PRelu => {
                let slopes = operand(operands, 1)?.broadcast(shape)?;
                let leaky = |(x, slope): (&Ball, &Ball)| leaky(x, slope);
                x.points.iter().zip(&slopes).map(leaky).collect()
            }
            Op::Compare(compare) => {
                let (a, b) = (x.broadcast(shape)?, operand(operands, 1)?.broadcast(shape)?);
                let truth = |(a, b): (&Ball, &Ball)| {
                    // Nearly equal numbers may compare either way.
                    let unsure =
                        (a.real - b.real).abs() <= a.radius + b.radius && a.radius + b.radius > 0.0;
                    Ball::new(f64::from(compare.holds(&a.real, &b.real)), f64::from(unsure))
                };
                let points = a.iter().zip(&b).map(truth).collect();
                return Ok(Balls { shape: shape.clone(), points });
            }
            Op::Cast { .. }
            | Op::CastUnbounded { .. }
            | Op::Gather { .. }
            | Op::Resize(_)
            | Op::ConvTranspose(_)
            | Op::Unary(_)
            | Op::Activation(Activation::Elu { .. } | Activation::Selu { .. })
            | Op::Logic(_)
            | Op::Where
            | Op::Reduce(_)
            | Op::ArgExtreme(_)
            | Op::Recurrent(_)
            | Op::Softmax(_)
            | Op::LayerNorm(_)
            | Op::InstanceNorm(_)
            | Op::Lrn(_)
            | Op::ToCodes(_)
            | Op::FromCodes(_) => return Err(not_followed(&self.node.op)),
        };
        Ok(self.held(Balls { shape: shape.clone(), points }))
    }

    /// What only moves, moves with its radius; padding has none.
    fn moved(&self, operands: &Operands<'_>) -> Result<Balls> {
        let shape = &self.graph[self.node.output].shape;
        let part = |node: &Node, of: fn(&Ball) -> f64| -> Result<Vec<f64>> {
            let tensor = |balls: &Option<&Balls>| balls.map(|balls| balls.tensor(of)).transpose();
            let tensors = operands.iter().map(tensor).collect::<Result<Vec<_>>>()?;
            let given: Vec<Option<&Tensor>> = tensors.iter().map(Option::as_ref).collect();
            Ok(move_tensor(node, &given, shape)?.to_f64())
        };
        let mut plain = self.node.clone();
        if let Op::Pad(Pad { mode, .. }) = &mut plain.op
            && let PadMode::Constant(value) = mode
        {
            *value = 0.0;
        }
        let reals = part(self.node, |ball| ball.real)?;
        let radii = part(&plain, |ball| ball.radius)?;
        let points = reals.into_iter().zip(radii).map(|(real, radius)| Ball::new(real, radius));
        Ok(Balls { shape: shape.clone(), points: points.collect() })
    }

    fn quantised(&self, quantiser: &Quantiser, x: &Balls) -> Result<Balls> {
        let scalars = expanded(quantiser, &x.shape)?;
        let given = (self.computed.is_given)(&self.graph[self.node.output]);
        let round = |(ball, scalar): (&Ball, &crate::Scalar)| {
            let nearest = scalar.nearest(ball.real);
            if ball.radius == 0.0 && (given || nearest == ball.real) {
                return Ball::new(nearest, 0.0);
            }
            let [low, high] = scalar.ends();
            let beyond = beyond(ball.real, [low, high]);
            if scalar.overflow == Overflow::Wrap && beyond + ball.radius > 0.0 {
                let wraps = ball.real - ball.radius < low || ball.real + ball.radius > high;
                if wraps {
                    return Ball::new(ball.real, f64::INFINITY);
                }
            }
            // Two that round, or one that rounds to one side, are up to a step apart.
            let one_sided = matches!(
                scalar.rounding,
                Rounding::Floor | Rounding::Ceil | Rounding::Down | Rounding::Up
            );
            let half = if given || one_sided { scalar.scale } else { scalar.scale / 2.0 };
            let clipped = if given { 0.0 } else { beyond };
            Ball::new(ball.real, ball.radius + half + clipped)
        };
        let points = x.points.iter().zip(&scalars).map(round).collect();
        Ok(Balls { shape: x.shape.clone(), points })
    }

    /// Sums of so many products.
    fn summed(&self, mut sums: Vec<Ball>, terms: usize) -> Vec<Ball> {
        let Precision { sums: Step { absolute, relative }, range, .. } =
            (self.computed.precision)(self.node);
        let relative = relative + self.computed.reference;
        for ball in &mut sums {
            ball.radius += terms as f64 * (absolute + relative * ball.size);
            // What is lost where a sum on its way leaves the range.
            ball.radius += range.map_or(0.0, |range| beyond(ball.size, range));
        }
        sums
    }

    /// Results as the machine holds them.
    fn held(&self, mut balls: Balls) -> Balls {
        let Precision { results, range, .. } = (self.computed.precision)(self.node);
        let reference = Step { absolute: 0.0, relative: self.computed.reference };
        for ball in &mut balls.points {
            let size = ball.real.abs() + ball.radius;
            let clipped = range.map_or(0.0, |range| beyond(ball.real, range));
            ball.radius += results.of(size) + reference.of(size) + clipped;
            ball.size = ball.real.abs();
        }
        balls
    }

    fn convolution(
        &self,
        conv: &Conv,
        operands: &Operands<'_>,
        shape: &[usize],
    ) -> Result<Vec<Ball>> {
        let (x, w) = (operand(operands, 0)?, operand(operands, 1)?);
        let sums = convolve(conv, &x.points, &x.shape, &w.points, &w.shape, shape);
        let mut sums = self.summed(sums, w.shape[1..].iter().product());
        if let Some(bias) = operands.get(2).copied().flatten() {
            let plane: usize = shape[2..].iter().product();
            let biases = bias.points.iter().flat_map(|bias| std::iter::repeat_n(bias, plane));
            sums.iter_mut().zip(biases.cycle()).for_each(|(sum, bias)| *sum = plus(sum, bias, 1.0));
        }
        Ok(sums)
    }

    fn gemm(&self, gemm: &Gemm, operands: &Operands<'_>, shape: &[usize]) -> Result<Vec<Ball>> {
        let a = operand(operands, 0)?.transposed(gemm.transpose_a);
        let b = operand(operands, 1)?.transposed(gemm.transpose_b);
        let sums = multiply(&product_of(&a.shape, &b.shape, shape), &a.points, &b.points);
        let zero = Ball::default();
        let sums = self.summed(sums, a.shape.last().copied().unwrap_or(1));
        let mut sums: Vec<Ball> =
            sums.iter().map(|sum| plus(&zero, sum, f64::from(gemm.alpha))).collect();
        if let Some(c) = operands.get(2).copied().flatten() {
            let c = c.broadcast(shape)?;
            let beta = f64::from(gemm.beta);
            sums.iter_mut().zip(&c).for_each(|(sum, c)| *sum = plus(sum, c, beta));
        }
        Ok(sums)
    }

    fn pool(&self, pool: &Pool, x: &Balls, shape: &[usize]) -> Vec<Ball> {
        let planes = shape[0] * shape[1];
        let plane: usize = x.shape[2..].iter().product();
        let positions: usize = shape[2..].iter().product();
        let divisors = pool.divisors(&x.shape[2..], &shape[2..]);
        let mut out = vec![Ball::default(); planes * positions];
        each_position(&pool.window, &x.shape[2..], &shape[2..], |position, taps| {
            for p in 0..planes {
                let x = &x.points[p * plane..][..plane];
                let elements = taps.inside.iter().map(|&(source, _)| x[source]);
                out[p * positions + position] = match pool.kind {
                    PoolKind::Max => largest(elements),
                    PoolKind::Average { .. } => self.mean(elements, divisors[position]),
                };
            }
        });
        out
    }

    fn global(&self, x: &Balls, max: bool) -> Vec<Ball> {
        let plane = element_count(&x.shape[2..]).unwrap_or(1).max(1);
        let planes = x.points.chunks(plane);
        planes
            .map(|points| match max {
                true => largest(points.iter().copied()),
                false => self.mean(points.iter().copied(), plane),
            })
            .collect()
    }

    fn mean(&self, elements: impl Iterator<Item = Ball>, divisor: usize) -> Ball {
        let (mut sum, mut terms) = (Ball::default(), 0);
        for ball in elements {
            sum = plus(&sum, &ball, 1.0);
            terms += 1;
        }
        let factor = 1.0 / divisor.max(1) as f64;
        // Machines multiply by the reciprocal, which they hold as a constant.
        let held = (self.computed.precision)(self.node).constants.of(factor);
        let sum = self.summed(vec![sum], terms)[0];
        let radius = sum.radius * (factor + held) + sum.size * held;
        Ball { real: sum.real * factor, radius, size: sum.size * factor }
    }

    fn batch_norm(&self, norm: &BatchNorm, operands: &Operands<'_>) -> Result<Vec<Ball>> {
        let x = operand(operands, 0)?;
        let [scale, bias, mean, variance] = [1, 2, 3, 4].map(|index| operand(operands, index));
        let (scale, bias, mean, variance) = (scale?, bias?, mean?, variance?);
        let held = (self.computed.precision)(self.node).constants;
        let plane: usize = x.shape[2..].iter().product();
        let channels = scale.points.len().max(1);
        let point = |(at, ball): (usize, &Ball)| {
            let channel = at / plane.max(1) % channels;
            let [scale, bias, mean, variance] =
                [scale, bias, mean, variance].map(|balls| balls.points[channel].real);
            // Held as a factor and a summand.
            let factor = scale / (variance + f64::from(norm.epsilon)).sqrt();
            let offset = bias - mean * factor;
            let factor = Ball::new(factor, held.of(factor.abs()));
            let mut sum = Ball::new(offset, held.of(offset.abs()));
            sum.multiply_add(ball, &factor);
            sum
        };
        let sums = x.points.iter().enumerate().map(point).collect();
        Ok(self.summed(sums, 1))
    }

    fn binary(
        &self,
        binary: Binary,
        operands: &Operands<'_>,
        shape: &[usize],
    ) -> Result<Vec<Ball>> {
        let a = operand(operands, 0)?.broadcast(shape)?;
        let b = operand(operands, 1)?.broadcast(shape)?;
        let pairs = a.iter().zip(&b);
        Ok(match binary {
            Binary::Add => pairs.map(|(a, b)| plus(a, b, 1.0)).collect(),
            Binary::Sub => pairs.map(|(a, b)| plus(a, b, -1.0)).collect(),
            Binary::Mul => {
                let product = |(a, b): (&Ball, &Ball)| {
                    let mut product = Ball::default();
                    product.multiply_add(a, b);
                    product
                };
                self.summed(pairs.map(product).collect(), 1)
            }
            Binary::Max => pairs.map(|(a, b)| largest([*a, *b].into_iter())).collect(),
            Binary::Min => {
                pairs.map(|(a, b)| Ball::new(a.real.min(b.real), a.radius.max(b.radius))).collect()
            }
            Binary::Div | Binary::Pow => return Err(not_followed(&self.node.op)),
        })
    }
}

impl Balls {
    fn map(&self, shape: &[usize], function: impl Fn(&Ball) -> Ball) -> Balls {
        Balls { shape: shape.into(), points: self.points.iter().map(function).collect() }
    }
}

fn not_followed(op: &Op) -> Diagnostic {
    unsupported(format!("how far {} may be from real arithmetic is not followed", op.name()))
}

/// How far a number lies outside of a range.
fn beyond(real: f64, [low, high]: [f64; 2]) -> f64 {
    (real - high).max(low - real).max(0.0)
}

/// `a + factor * b`.
fn plus(a: &Ball, b: &Ball, factor: f64) -> Ball {
    Ball {
        real: a.real + factor * b.real,
        radius: a.radius + factor.abs() * b.radius,
        size: a.size + factor.abs() * b.size,
    }
}

/// The result of a function that never falls, or never rises.
fn monotone(ball: &Ball, function: impl Fn(f64) -> f64) -> Ball {
    let real = function(ball.real);
    let ends = [ball.real - ball.radius, ball.real + ball.radius].map(function);
    Ball::new(real, (ends[0] - real).abs().max((ends[1] - real).abs()))
}

fn leaky(x: &Ball, slope: &Ball) -> Ball {
    let mut product = Ball::default();
    product.multiply_add(x, slope);
    match (x.real - x.radius >= 0.0, x.real + x.radius < 0.0) {
        (true, _) => *x,
        (_, true) => product,
        // Either side: both are within their radii of the number for this side.
        _ => {
            let real = if x.real >= 0.0 { x.real } else { product.real };
            Ball::new(real, x.radius.max(product.radius).max(x.radius * (slope.real.abs() + 1.0)))
        }
    }
}

/// The largest of some; a maximum is no farther off than its operands.
fn largest(balls: impl Iterator<Item = Ball>) -> Ball {
    let both = |a: Ball, b: Ball| Ball::new(a.real.max(b.real), a.radius.max(b.radius));
    balls.reduce(both).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::{Keep, exact, float};
    use crate::{Constant, ValueId, Window};
    use quincunx_tensor::DType;

    /// Numbers that repeat only after a long time, from -1 to 1.
    fn numbers(seed: u64, count: usize) -> Vec<f32> {
        let mut state = seed;
        let next = |_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / 8_388_608.0 - 1.0
        };
        (0..count).map(next).collect()
    }

    const IMAGE: [usize; 4] = [1, 3, 6, 6];

    /// Convolution, ReLU and, if given, a quantiser; weights on a grid if given.
    fn layer(weights: &[f32], on: Option<&Quantiser>, then: Option<&Quantiser>) -> Graph {
        let mut graph = Graph::new("layer");
        let x = graph.add_input("x", DType::F32, &IMAGE, &[]).unwrap();
        let plain = Tensor::from_vec(&[4, 3, 3, 3], weights.to_vec()).unwrap();
        let constant = match on {
            None => Constant { tensor: plain, quantiser: None },
            Some(grid) => {
                let scalar = grid.scalars(&[]).unwrap()[0];
                let code = |&w: &f32| (scalar.nearest(f64::from(w)) / scalar.scale) as i8;
                let codes: Vec<i8> = weights.iter().map(code).collect();
                let tensor = Tensor::from_vec(&[4, 3, 3, 3], codes).unwrap();
                Constant { tensor, quantiser: Some(grid.clone()) }
            }
        };
        let w = graph.add_constant("w", constant).unwrap();
        let mut window = Window::new(&[3, 3]);
        window.pads = [(1, 1), (1, 1)].into_iter().collect();
        let conv = Op::Conv(Conv { window, groups: 1 });
        let mut last = add(&mut graph, "conv", conv, vec![Some(x), Some(w), None]);
        last = add(&mut graph, "relu", Op::Unary(Unary::Relu), vec![Some(last)]);
        if let Some(grid) = then {
            last = add(&mut graph, "grid", Op::Quantise(grid.clone()), vec![Some(last)]);
        }
        graph.add_output(last);
        graph
    }

    fn add(graph: &mut Graph, name: &str, op: Op, inputs: Vec<Option<ValueId>>) -> ValueId {
        graph.add_node(name, op, &inputs, name).unwrap()
    }

    fn radii(graph: &Graph, inputs: &Tensors, precision: Precision, given: bool) -> Vec<f64> {
        let computed = Computed {
            precision: &|_: &Node| precision,
            is_given: &|_: &Value| given,
            reference: 0.0,
        };
        bounds(graph, inputs, &computed).unwrap().into_values().next().unwrap()
    }

    /// Weights of 8 bits and results of 6 are as far from the real layer as the bound says at most,
    /// and the bound is not far from that.
    #[test]
    fn bounds_hold_and_are_near() {
        let weights = numbers(1, 108);
        let grid = Quantiser::symmetric(true, 8, 1.0 / 127.0);
        let results = Quantiser::symmetric(false, 6, 1.0 / 8.0);
        let machine = layer(&weights, Some(&grid), Some(&results));
        let model = layer(&weights, None, None);
        let (mut worst, mut bound): (f64, f64) = (0.0, 0.0);
        for image in 2..8 {
            let x = Tensor::from_vec(&IMAGE, numbers(image, 108)).unwrap();
            let inputs = Tensors::from([("x".to_owned(), x)]);
            let found = exact(&machine, &inputs, Keep::Outputs).unwrap()["grid"].to_f64();
            let real = exact(&model, &inputs, Keep::Outputs).unwrap()["relu"].to_f64();
            let radii = radii(&machine, &inputs, Precision::default(), false);
            for ((found, real), radius) in found.iter().zip(&real).zip(&radii) {
                assert!((found - real).abs() <= *radius, "{found} {real} {radius}");
                (worst, bound) = (worst.max((found - real).abs()), bound.max(*radius));
            }
        }
        assert!(worst > 0.06 && bound < 3.0 * worst, "{worst} {bound}");
    }

    /// A machine of fixed point that rounds every sum is within the bound; one product that is left
    /// out is not.
    #[test]
    fn sums_in_fixed_point_are_bounded() {
        let weights = numbers(3, 108);
        let step = 1.0 / 256.0;
        let grid = Step::grid(step);
        let precision = Precision { constants: grid, sums: grid, results: grid, range: None };
        let graph = layer(&weights, None, None);
        let nearest = |v: f64| (v / step).round() * step;
        let x: Vec<f32> = numbers(4, 108).iter().map(|&v| nearest(f64::from(v)) as f32).collect();
        let inputs =
            Tensors::from([("x".to_owned(), Tensor::from_vec(&IMAGE, x.clone()).unwrap())]);
        let real = float(&graph, &inputs, Keep::Outputs).unwrap()["relu"].to_f64();
        let radius = radii(&graph, &inputs, precision, false);
        // Elements inside of the first channel see all taps.
        let inside = (1..5).flat_map(|row| (1..5).map(move |column| (row, column)));
        let large = inside.max_by(|a, b| {
            let real = |&(row, column): &(usize, usize)| real[row * 6 + column];
            real(a).total_cmp(&real(b))
        });
        let (top, left) = large.unwrap();
        let at = top * 6 + left;
        let sum = |skipped: Option<usize>| {
            let mut sum = 0.0;
            for tap in (0..27).filter(|&tap| Some(tap) != skipped) {
                let (channel, row, column) = (tap / 9, tap / 3 % 3, tap % 3);
                let pixel = x[channel * 36 + (top + row - 1) * 6 + left + column - 1];
                let pixel = f64::from(pixel);
                sum = nearest(sum + pixel * nearest(f64::from(weights[tap])));
            }
            sum.max(0.0)
        };
        assert!(real[at] > 0.5, "{}", real[at]);
        assert!((sum(None) - real[at]).abs() <= radius[at]);
        let outside = (0..27).filter(|&tap| (sum(Some(tap)) - real[at]).abs() > radius[at]).count();
        assert!(outside > 12, "{outside} of 27");
    }

    /// Where the reference rounds the same exact number, nothing is to be explained.
    #[test]
    fn what_the_model_quantises_itself_has_no_bound() {
        let weights = [0.5; 108];
        let results = Quantiser::symmetric(false, 6, 1.0 / 8.0);
        let graph = layer(&weights, None, Some(&results));
        let x = Tensor::from_vec(&IMAGE, numbers(5, 108)).unwrap();
        let inputs = Tensors::from([("x".to_owned(), x)]);
        let none = radii(&graph, &inputs, Precision::default(), true);
        assert!(none.iter().all(|&radius| radius == 0.0));
        let half = radii(&graph, &inputs, Precision::default(), false);
        // What lies on the grid already, such as 0, is not moved.
        let real = exact(&layer(&weights, None, None), &inputs, Keep::Outputs).unwrap();
        for (real, radius) in real["relu"].to_f64().into_iter().zip(half) {
            assert_eq!(radius > 0.0, (real * 8.0).fract() != 0.0, "{real} {radius}");
            assert!(radius == 0.0 || radius >= 1.0 / 16.0, "{radius}");
        }
    }
}
