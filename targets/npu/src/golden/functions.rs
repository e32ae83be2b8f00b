//! Functions: sums, products, and what follows from them.
//!
//! Every operation on numbers of f32 is rounded on its own. `e^x` is the 16th power of a polynomial,
//! `1 / x` and `1 / sqrt(x)` are Newton's iterations, the normal distribution is a power of a
//! polynomial (`normal` in `docs/bibliography.md`).

use super::misfit;
use super::numbers::{Form, Grid, Number};
use quincunx_diag::Result;
use quincunx_graph::{Activation, Binary, Graph, Node, Op, Unary, ValueId};

/// A function of values of the machine.
pub(super) enum Function {
    /// Of every number by itself.
    Each(Each),
    /// A factor and an addend for every number, some of which are absent.
    Constant(Option<Vec<f32>>, Option<Vec<f32>>),
    /// Codes times a factor, plus an addend.
    Scaled(Vec<(f32, f32)>),
    /// Two values: for every number the place of the other one.
    Pair(Binary, [Vec<usize>; 2]),
    Softmax(Axis),
    /// With factors and addends of the channels.
    LayerNorm {
        axis: Axis,
        epsilon: f32,
        factor: Option<Vec<f32>>,
        addend: Option<Vec<f32>>,
    },
}

/// A function of one number.
#[derive(Clone, Copy)]
pub(super) enum Each {
    HardSigmoid(f32, f32),
    HardSwish,
    Clip(Option<f32>, Option<f32>),
    Leaky(f32),
    Sigmoid,
    Tanh,
    Erf,
    Gelu,
    GeluTanh,
}

/// An axis: how many numbers lie along it, and how far apart they are.
#[derive(Clone, Copy)]
pub(super) struct Axis {
    extent: usize,
    step: usize,
}

impl Axis {
    fn new(shape: &[usize], axis: usize) -> Result<Axis> {
        let inner = shape.get(axis + 1..).map(|inner| inner.iter().product());
        match (shape.get(axis), inner) {
            (Some(&extent), Some(step)) if extent > 0 && step > 0 => Ok(Axis { extent, step }),
            _ => Err(misfit("a function has no such axis")),
        }
    }

    /// Changes what lies along the axis, line by line.
    fn each(self, numbers: &mut [f32], change: impl Fn(&mut [f32])) {
        let mut line = vec![0.0; self.extent];
        for part in numbers.chunks_exact_mut(self.extent * self.step) {
            for first in 0..self.step {
                let places = (first..part.len()).step_by(self.step);
                places.clone().zip(&mut line).for_each(|(at, x)| *x = part[at]);
                change(&mut line);
                places.zip(&line).for_each(|(at, &x)| part[at] = x);
            }
        }
    }
}

impl Function {
    /// The function that an operator is; `None` for an operator that is none.
    ///
    /// # Errors
    /// `Q4096` for constants and shapes that the machine does not take.
    pub(super) fn new(graph: &Graph, node: &Node, x: Form) -> Result<Option<Function>> {
        let shape = |at: usize| node.input(at).map_or(&[][..], |x| &graph[x].shape);
        Ok(Some(match &node.op {
            Op::Unary(Unary::Neg) => Function::Constant(Some(vec![-1.0]), None),
            Op::Unary(Unary::Sigmoid) => Function::Each(Each::Sigmoid),
            Op::Unary(Unary::HardSwish) => Function::Each(Each::HardSwish),
            Op::Unary(Unary::Tanh) => Function::Each(Each::Tanh),
            Op::Unary(Unary::Erf) => Function::Each(Each::Erf),
            Op::Unary(Unary::Gelu) => Function::Each(Each::Gelu),
            Op::Unary(Unary::GeluTanh) => Function::Each(Each::GeluTanh),
            &Op::Activation(Activation::HardSigmoid { alpha, beta }) => {
                Function::Each(Each::HardSigmoid(alpha, beta))
            }
            // The array and the vector queue have it behind what they compute.
            Op::Activation(Activation::Clip { min: Some(0.0), max: Some(most) })
                if *most >= 0.0 =>
            {
                return Ok(None);
            }
            &Op::Activation(Activation::Clip { min, max }) => Function::Each(Each::Clip(min, max)),
            &Op::Activation(Activation::LeakyRelu { alpha }) => Function::Each(Each::Leaky(alpha)),
            Op::Binary(binary) => Function::binary(graph, node, *binary, x)?,
            Op::Softmax(softmax) if !softmax.log => {
                Function::Softmax(Axis::new(shape(0), softmax.axis)?)
            }
            Op::LayerNorm(norm) => {
                let axis = Axis::new(shape(0), norm.axis)?;
                let parameter = |at: usize| {
                    let id = node.input(at);
                    id.map(|id| of_axis(graph, id, axis.extent)).transpose()
                };
                if axis.step != 1 {
                    return Err(misfit("a normalisation has several axes"));
                }
                let (factor, addend) = (parameter(1)?, parameter(2)?);
                Function::LayerNorm { axis, epsilon: norm.epsilon, factor, addend }
            }
            _ => return Ok(None),
        }))
    }

    fn binary(graph: &Graph, node: &Node, binary: Binary, x: Form) -> Result<Function> {
        let is_constant = |at: &usize| node.input(*at).is_some_and(|x| graph[x].constant.is_some());
        let shape = &graph[node.output].shape;
        if shape.contains(&0) {
            return Err(misfit("an operator has no elements"));
        }
        let Some(at) = (0..2).find(is_constant) else {
            let places = |at: usize| match node.input(at) {
                Some(x) => places(&graph[x].shape, shape),
                None => Err(misfit("an operand is missing")),
            };
            return Ok(Function::Pair(binary, [places(0)?, places(1)?]));
        };
        let Some(id) = node.input(at) else { return Err(misfit("an operand is missing")) };
        let constant = reals(graph, id)?;
        let numbers: Vec<f64> =
            places(&graph[id].shape, shape)?.into_iter().map(|at| constant[at]).collect();
        let uniform = numbers.iter().all(|&number| number == numbers[0]);
        let numbers = if uniform { numbers[..1].to_vec() } else { numbers };
        let all = |change: fn(f64) -> f64| Some(numbers.iter().map(|&x| change(x)).collect());
        let (factor, addend): (Option<Vec<f64>>, Option<Vec<f64>>) = match (binary, at) {
            (Binary::Mul, _) => (all(|x| x), None),
            (Binary::Add, _) => (None, all(|x| x)),
            (Binary::Sub, 1) => (None, all(|x| -x)),
            (Binary::Sub, _) => (Some(vec![-1.0; numbers.len()]), all(|x| x)),
            (Binary::Div, 1) => (all(f64::recip), None),
            (Binary::Max, _) if uniform => {
                return Ok(Function::Each(Each::Clip(Some(numbers[0] as f32), None)));
            }
            (Binary::Min, _) if uniform => {
                return Ok(Function::Each(Each::Clip(None, Some(numbers[0] as f32))));
            }
            _ => return Err(misfit("an operator with a constant is none of the machine")),
        };
        if uniform {
            let single = |list: Option<Vec<f64>>| {
                list.map(|list| list.into_iter().map(|x| x as f32).collect())
            };
            return Ok(Function::Constant(single(factor), single(addend)));
        }
        // The array multiplies codes.
        let Form::Codes(grid) = x else {
            return Err(misfit("channels of 16 bits have factors of their own"));
        };
        let count = numbers.len();
        let (factor, addend) =
            (factor.unwrap_or(vec![1.0; count]), addend.unwrap_or(vec![0.0; count]));
        let scaled = factor.into_iter().zip(addend).map(|(factor, addend)| {
            let factor = grid.scale * factor;
            (factor as f32, (addend - factor * f64::from(grid.zero)) as f32)
        });
        Ok(Function::Scaled(scaled.collect()))
    }

    /// The results before they are rounded to codes or halves; `None` for operands of another form.
    pub(super) fn apply(
        &self,
        x: &Number,
        other: Option<&Number>,
        becomes_halves: bool,
    ) -> Option<Vec<f32>> {
        let mut numbers = self.exact(x, other)?;
        if let (true, Number::Codes(_, grid)) = (becomes_halves, x)
            && let Some(most) = self.most(*grid)
        {
            numbers.iter_mut().for_each(|x| *x = in_two_codes(*x, most.max(1e-30)));
        }
        Some(numbers)
    }

    /// A bound of the magnitudes of what is computed of codes in single precision; `None` for what is
    /// computed at once.
    fn most(&self, grid: Grid) -> Option<f64> {
        let operand = f64::from((grid.zero + 128).max(127 - grid.zero)) * grid.scale;
        let largest = |numbers: &Option<Vec<f32>>, none: f64| match numbers {
            Some(numbers) => numbers.iter().fold(0.0, |most, x| x.abs().max(most)).into(),
            None => none,
        };
        Some(match self {
            Function::Each(each) => match *each {
                Each::HardSigmoid(..) | Each::Clip(..) => return None,
                Each::HardSwish | Each::Gelu | Each::GeluTanh => operand,
                Each::Leaky(slope) => operand * f64::from(slope.abs().max(1.0)),
                Each::Sigmoid | Each::Tanh | Each::Erf => 1.0,
            },
            Function::Softmax(_) => 1.0,
            Function::LayerNorm { axis, factor, addend, .. } => {
                (axis.extent as f64).sqrt() * largest(factor, 1.0) + largest(addend, 0.0)
            }
            Function::Constant(..) | Function::Scaled(_) | Function::Pair(..) => return None,
        })
    }

    /// The results in single precision.
    fn exact(&self, x: &Number, other: Option<&Number>) -> Option<Vec<f32>> {
        let mut numbers = x.opened()?;
        match self {
            Function::Each(each) => {
                let above = |at: usize| match x {
                    Number::Codes(codes, grid) => i32::from(codes[at]) > grid.zero,
                    _ => false,
                };
                for (at, number) in numbers.iter_mut().enumerate() {
                    *number = each.of(*number, above(at));
                }
            }
            Function::Constant(factor, addend) => {
                for number in &mut numbers {
                    let product = factor.as_ref().map_or(*number, |factor| *number * factor[0]);
                    *number = addend.as_ref().map_or(product, |addend| product + addend[0]);
                }
            }
            Function::Scaled(scaled) => {
                let Number::Codes(codes, _) = x else { return None };
                let pairs = codes.iter().zip(scaled);
                return Some(pairs.map(|(&code, (a, b))| f32::from(code) * a + b).collect());
            }
            Function::Pair(binary, [first, second]) => {
                let others = other?.opened()?;
                let pairs = first.iter().zip(second).map(|(&x, &y)| (numbers[x], others[y]));
                return Some(match binary {
                    Binary::Add => pairs.map(|(x, y)| x + y).collect(),
                    Binary::Sub => pairs.map(|(x, y)| x - y).collect(),
                    Binary::Mul => pairs.map(|(x, y)| x * y).collect(),
                    _ => return None,
                });
            }
            Function::Softmax(axis) => axis.each(&mut numbers, softmax),
            Function::LayerNorm { axis, epsilon, factor, addend } => {
                let Number::Codes(_, grid) = x else { return None };
                axis.each(&mut numbers, |line| {
                    normalise(line, *grid, *epsilon);
                    let scale = |(x, factor): (&mut f32, &f32)| *x *= factor;
                    line.iter_mut().zip(factor.iter().flatten()).for_each(scale);
                    let shift = |(x, addend): (&mut f32, &f32)| *x += addend;
                    line.iter_mut().zip(addend.iter().flatten()).for_each(shift);
                });
            }
        }
        Some(numbers)
    }

    /// What the binary operator of two values is; both are codes, or both halves.
    pub(super) fn is_pair(&self) -> bool {
        matches!(self, Function::Pair(..))
    }
}

/// For every element of a tensor the element of another one that has one for all along some axes.
fn places(from: &[usize], to: &[usize]) -> Result<Vec<usize>> {
    let missing = to.len().checked_sub(from.len());
    let missing = missing.ok_or_else(|| misfit("an operand has more axes than the result"))?;
    let mut places = vec![0];
    for (axis, &extent) in to.iter().enumerate() {
        let own = axis.checked_sub(missing).map_or(1, |axis| from[axis]);
        if own != extent && own != 1 {
            return Err(misfit("an operand does not have the shape of the result"));
        }
        let step = |at: usize| if own == 1 { 0 } else { at };
        let along = |place: usize| (0..extent).map(move |at| place * own + step(at));
        places = places.into_iter().flat_map(along).collect();
    }
    Ok(places)
}

/// The real numbers of a constant that has elements.
fn reals(graph: &Graph, id: ValueId) -> Result<Vec<f64>> {
    let value = &graph[id];
    let wrong = || misfit(format!("{:?} is no constant of finite numbers", value.name));
    let constant = value.constant.as_ref().ok_or_else(wrong)?;
    let mut reals = constant.tensor.to_f64();
    if let Some(quantiser) = &constant.quantiser {
        let scalars = quantiser.scalars(&value.shape).ok_or_else(wrong)?;
        for (real, scalar) in reals.iter_mut().zip(scalars) {
            *real = (*real - scalar.zero as f64) * scalar.scale;
        }
    }
    match !reals.is_empty() && reals.iter().all(|real| real.is_finite()) {
        true => Ok(reals),
        false => Err(wrong()),
    }
}

/// A number for every place along an axis.
fn of_axis(graph: &Graph, id: ValueId, extent: usize) -> Result<Vec<f32>> {
    let reals: Vec<f32> = reals(graph, id)?.into_iter().map(|real| real as f32).collect();
    match reals[..] {
        [number] => Ok(vec![number; extent]),
        _ if reals.len() == extent => Ok(reals),
        _ => Err(misfit("a parameter is not one number for every channel")),
    }
}

impl Each {
    /// The result; `above` says that the code is larger than that of 0.
    fn of(self, x: f32, above: bool) -> f32 {
        let sign = if above { 1.0 } else { -1.0 };
        let positive = x.max(0.0);
        let magnitude = positive + (-x).max(0.0);
        match self {
            Each::HardSigmoid(factor, addend) => hard_sigmoid(x, factor, addend),
            Each::HardSwish => x * hard_sigmoid(x, Activation::HARD_SWISH_SLOPE, 0.5),
            Each::Clip(Some(low), Some(high)) => (x - low).max(0.0).min(high - low) + low,
            Each::Clip(low, high) => {
                let raised = low.map_or(x, |low| x.max(low));
                high.map_or(raised, |high| raised.min(high))
            }
            Each::Leaky(slope) => positive - (-x).max(0.0) * slope,
            Each::Tanh => half_tangent(x * -2.0 * sign) * sign,
            Each::Sigmoid => half_tangent(-x * sign) * sign * 0.5 + 0.5,
            Each::Erf => (1.0 - normal_tail(x * std::f32::consts::SQRT_2 * sign)) * sign,
            Each::Gelu => positive + normal_tail(magnitude) * magnitude * -0.5,
            Each::GeluTanh => {
                let factor = 2.0 * (2.0 / std::f64::consts::PI).sqrt();
                let (cube, factor) = ((factor * 0.044_715) as f32, factor as f32);
                let power = power((magnitude * magnitude * -cube - factor) * magnitude);
                positive - power * reciprocal(power + 1.0, 2.0) * magnitude
            }
        }
    }
}

/// A code of the number, and one of what it lacks, together.
fn in_two_codes(x: f32, most: f64) -> f32 {
    let code = |x: f32, step: f64| f32::from((x * step.recip() as f32).round_ties_even() as i8);
    let (coarse, fine) = (most / 127.0, most / 127.0 / 254.0);
    let high = code(x, coarse) * coarse as f32;
    high + code(x - high, fine) * fine as f32
}

fn hard_sigmoid(x: f32, factor: f32, addend: f32) -> f32 {
    (x * factor + addend).clamp(0.0, 1.0)
}

/// `e^x` of what is not positive; -20 of what is less.
fn power(x: f32) -> f32 {
    (0..4).fold(root_of_power(x), |power, _| power * power)
}

/// The 16th root of that.
fn root_of_power(x: f32) -> f32 {
    let y = x.max(-20.0) * 0.0625;
    let sum = (y * (1.0 / 24.0) + 1.0 / 6.0) * y + 0.5;
    (sum * y + 1.0) * y + 1.0
}

/// `(1 - e^x) / (1 + e^x)`.
fn half_tangent(x: f32) -> f32 {
    let power = power(x);
    (1.0 - power) * reciprocal(power + 1.0, 2.0)
}

/// Twice the normal distribution beyond `x`, 5 for what is more.
fn normal_tail(x: f32) -> f32 {
    const FACTORS: [f64; 6] = [
        0.049_867_347_0,
        0.021_141_006_1,
        0.003_277_626_3,
        0.000_038_003_6,
        0.000_048_890_6,
        0.000_005_383_0,
    ];
    let x = x.min(5.0);
    let [rest @ .., d5, d6] = FACTORS.map(|factor| factor as f32);
    let sum = rest.iter().rev().fold(x * d6 + d5, |sum, factor| sum * x + factor) * x + 1.0;
    (0..4).fold(reciprocal(sum, 2.45), |power, _| power * power)
}

/// `1 / x` for `x` between 1 and `most`. The line with which Newton's iteration begins is such that
/// `x` times it goes as far above 1 as below.
fn reciprocal(x: f32, most: f64) -> f32 {
    let middle = (1.0 + most) / 2.0;
    let reach = (most - 1.0) / 2.0;
    let scale = 2.0 * middle * middle - reach * reach;
    let mut result = x * -(2.0 / scale) as f32 + (4.0 * middle / scale) as f32;
    let mut lack = reach * reach / scale;
    loop {
        result *= 2.0 - x * result;
        lack *= lack;
        if lack < 2.0_f64.powi(-26) {
            return result;
        }
    }
}

fn softmax(line: &mut [f32]) {
    let most = line.iter().copied().fold(f32::MIN, f32::max);
    line.iter_mut().for_each(|x| *x = power(*x - most));
    let sum = line.iter().copied().reduce(|sum, x| sum + x).unwrap_or(1.0);
    let share = reciprocal(sum, line.len() as f64);
    line.iter_mut().for_each(|x| *x *= share);
}

fn normalise(line: &mut [f32], grid: Grid, epsilon: f32) {
    let count = line.len() as f32;
    line.iter_mut().for_each(|x| *x *= 1.0 / count);
    let mean = line.iter().copied().reduce(|sum, x| sum + x).unwrap_or(0.0);
    line.iter_mut().for_each(|x| *x = *x * count - mean);
    let squares = line.iter().map(|x| x * x).reduce(|sum, x| sum + x).unwrap_or(0.0);
    let variance = squares * (1.0 / count) + epsilon;
    let result = root(variance, grid, line.len() as f64, epsilon.into());
    line.iter_mut().for_each(|x| *x *= result);
}

/// `1 / sqrt(x)` of a variance of so many numbers on a grid by Newton's iteration, from that of the
/// largest variance. As long as the result is far too small, it grows by a half in each step.
fn root(x: f32, grid: Grid, count: f64, epsilon: f64) -> f32 {
    let most = (127.5 * grid.scale).powi(2) + epsilon;
    // One number is a step off all others.
    let least = grid.scale * grid.scale * (count - 1.0).max(0.25) / (count * count) + epsilon;
    let steps = ((most / least).sqrt().ln() / 1.5_f64.ln()).max(0.0) as usize + 6;
    (0..steps)
        .fold(most.sqrt().recip() as f32, |result, _| result * (result * result * x * -0.5 + 1.5))
}

/// How far functions are from the exact ones, as `docs/machines/npu.md` says.
#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_graph::Quantiser;
    use quincunx_testkit::Random;

    /// Numbers from -30 to 30, closer to each other near 0.
    fn numbers() -> impl Iterator<Item = f32> {
        (-30_000..=30_000).map(|step| (step as f32 / 30_000.0).powi(3) * 30.0)
    }

    /// The largest distance of a function from the exact one.
    fn error(each: Each, exact: impl Fn(f64) -> f64) -> f64 {
        let off = |x: f32| (f64::from(each.of(x, x > 0.0)) - exact(x.into())).abs();
        numbers().map(off).fold(0.0, f64::max)
    }

    fn sigmoid(x: f64) -> f64 {
        1.0 / (1.0 + (-x).exp())
    }

    /// The error function by its power series, which is exact to ten digits up to 4.
    fn erf(x: f64) -> f64 {
        if x.abs() > 4.0 {
            return x.signum() * (1.0 - 1.5e-8);
        }
        let terms = (0..200).scan(x, |power, n| {
            let term = *power / f64::from(2 * n + 1);
            *power *= -x * x / f64::from(n + 1);
            Some(term)
        });
        terms.sum::<f64>() * std::f64::consts::FRAC_2_SQRT_PI
    }

    #[test]
    fn functions_of_numbers_are_near_the_exact_ones() {
        let tanh =
            |x: f64| sigmoid((8.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3)));
        let errors = [
            error(Each::Sigmoid, sigmoid),
            error(Each::Tanh, f64::tanh),
            error(Each::Erf, erf),
            error(Each::Gelu, |x| x / 2.0 * (1.0 + erf(x / std::f64::consts::SQRT_2))),
            error(Each::GeluTanh, |x| x * tanh(x)),
        ];
        let bounds = [4e-6, 8e-6, 4e-6, 1e-5, 1e-5];
        assert!(errors.iter().zip(bounds).all(|(error, bound)| *error <= bound), "{errors:?}");
        let powers = numbers().filter(|x| *x <= 0.0);
        let off = powers.map(|x| (f64::from(power(x)) - f64::from(x).exp()).abs());
        let most = off.fold(0.0, f64::max);
        assert!(most <= 4e-6, "{most}");
    }

    #[test]
    fn iterations_give_single_precision() {
        for most in [1.0, 2.0, 2.45, 10.0, 100.0, 1000.0, 16_383.0] {
            for step in 0..=1000 {
                let x = f64::from(((most - 1.0) * f64::from(step) / 1000.0 + 1.0) as f32);
                let off = (f64::from(reciprocal(x as f32, most)) * x - 1.0).abs();
                assert!(off <= 4e-7, "1 / {x} of 1 to {most}: {off}");
            }
        }
        for scale in [1e-4, 0.02, 1.0, 30.0] {
            let grid = Grid::new(&Quantiser::symmetric(true, 8, scale)).unwrap();
            for (count, epsilon) in [(2.0, 1e-5), (7.0, 1e-3), (64.0, 1e-12), (8191.0, 1e-6)] {
                let least = scale * scale * (count - 1.0) / (count * count) + epsilon;
                let most = (127.5 * scale).powi(2) + epsilon;
                for step in 0..=1000 {
                    let x = least * (most / least).powf(f64::from(step) / 1000.0);
                    let off = f64::from(root(x as f32, grid, count, epsilon)) * x.sqrt() - 1.0;
                    assert!(off.abs() <= 4e-7, "1 / sqrt({x}), scale {scale}, {count}: {off}");
                }
            }
        }
    }

    #[test]
    fn functions_of_channels_are_near_the_exact_ones() {
        let (mut softmax_error, mut norm_error) = (0.0_f64, 0.0_f64);
        for case in 0..300 {
            let random = &mut Random::new(case);
            let count = random.range(2, 1000);
            let scale = random.pick(&[0.001, 0.05, 0.3]);
            let grid = Grid::new(&Quantiser::symmetric(true, 8, scale)).unwrap();
            let codes: Vec<i8> = (0..count).map(|_| random.next() as i8).collect();
            let reals: Vec<f64> = codes.iter().map(|&code| f64::from(code) * scale).collect();
            let singles: Vec<f32> = reals.iter().map(|&real| real as f32).collect();
            let largest = |found: Vec<f32>, exact: &dyn Fn(f64) -> f64| {
                let pairs = found.into_iter().zip(&reals);
                pairs.map(|(x, &real)| (f64::from(x) - exact(real)).abs()).fold(0.0, f64::max)
            };
            let sum: f64 = reals.iter().map(|real| real.exp()).sum();
            let mut line = singles.clone();
            softmax(&mut line);
            softmax_error = softmax_error.max(largest(line, &|real| real.exp() / sum));
            let mean = reals.iter().sum::<f64>() / count as f64;
            let variance = reals.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count as f64;
            let root = (variance + f64::from(1e-5_f32)).sqrt();
            let mut line = singles;
            normalise(&mut line, grid, 1e-5);
            norm_error = norm_error.max(largest(line, &|real| (real - mean) / root));
        }
        assert!(softmax_error <= 3e-5 && norm_error <= 4e-6, "{softmax_error} {norm_error}");
    }
}
