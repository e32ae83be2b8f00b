//! The golden model: what each layer of a network is in this machine's arithmetic.
//!
//! Written from the meaning of the layers: no instruction, no goal and nothing of the simulator is
//! used. Weights are whole numbers of units of `2^-d`, where the numerics say `d`. What sums are
//! compared with, and the biases that the numerics name, are whole numbers of units of `2^-scale`.
//! Everything else is exact, and results are rounded to floats once, where they are read out. Other
//! biases are added then. Results of 8-bit frames are whole numbers of units of `2^-scale`, from -128
//! to 127; of 1-bit images that leave as events, only so many ones arrive.

mod outlet;

use outlet::Outlet;
use quincunx_contract::golden::{Layers, Values, Walk};
use quincunx_contract::{Golden, Numerics};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{
    Binary, Compare, Conv, Graph, Node, Op, Pool, PoolKind, Scalar, Unary, Value, ValueId,
};
use quincunx_num::{Dyadic, Int, round_shift};
use std::collections::{BTreeMap, BTreeSet};

/// Deepest units that numerics may have.
const MAX_DEPTH: i64 = 60;

/// The golden model of a graph.
///
/// # Errors
/// `Q5067` for numerics that do not fit the graph.
pub(crate) fn prepare(graph: &Graph, numerics: &Numerics) -> Result<Box<dyn Golden>> {
    let scale = numerics.0["scale"].as_i64().filter(|scale| scale.abs() <= MAX_DEPTH);
    let scale = scale.ok_or_else(|| misfit("they have no scale".to_owned()))? as i32;
    let biased = |node: &Node| {
        let names = numerics.0["biased"].as_array();
        names.is_some_and(|names| names.iter().any(|name| *name == *node.name))
    };
    let readout = numerics.0["readout"].as_str().and_then(Outlet::named);
    let outlet = readout.ok_or_else(|| misfit("they have no read-out".to_owned()))?;
    let mut layers = BTreeMap::new();
    for (_, node) in graph.nodes() {
        let layer = match &node.op {
            Op::Conv(conv) => {
                let depth = numerics.0["depths"][&node.name].as_i64();
                let depth = depth.filter(|depth| (0..=MAX_DEPTH).contains(depth));
                let depth = depth.ok_or_else(|| misfit(format!("{:?} has no depth", node.name)))?;
                let on_array = biased(node).then_some(scale);
                Layer::Product(Product::new(graph, node, conv, depth as i32, on_array)?)
            }
            Op::Pool(pool) => Layer::Window(Windows::new(graph, node, pool)?),
            Op::Compare(compare) => Layer::Compare(*compare, numbers(graph, node, scale)?),
            Op::Unary(Unary::Relu) => Layer::Positive(vec![Dyadic::ZERO]),
            Op::PRelu => Layer::Positive(each(graph, node)?),
            Op::Binary(Binary::Add) => Layer::Plus(each(graph, node)?),
            Op::Binary(Binary::Mul) => Layer::Times(each(graph, node)?),
            Op::Cast { .. } => Layer::Same,
            Op::Quantise(grid) => {
                let channels = graph[node.output].shape.get(1).copied().unwrap_or(1);
                let shape = if grid.is_uniform() { vec![] } else { vec![channels, 1, 1] };
                let steps = grid.scalars(&shape).unwrap_or_default();
                let steps = steps.into_iter().map(Steps::of).collect::<Option<Vec<_>>>();
                let wrong = || misfit(format!("{:?} has no such grid", node.name));
                Layer::Steps(steps.filter(|steps| !steps.is_empty()).ok_or_else(wrong)?)
            }
            other => return Err(misfit(format!("the machine has no {}", other.name()))),
        };
        layers.insert(node.output, layer);
    }
    let outputs = graph.outputs().iter().copied().collect();
    Ok(Box::new(Walk::new(graph, Machine { layers, outputs, outlet, scale })?))
}

/// The constants of a node, one for all channels or one for each.
fn each(graph: &Graph, node: &Node) -> Result<Vec<Dyadic>> {
    let wrong = || misfit(format!("{:?} has no constant for each channel", node.name));
    let list = node.input(1).and_then(|id| constant(graph, id)).ok_or_else(wrong)?;
    let channels = graph[node.output].shape.get(1).copied().unwrap_or(0);
    let list = list.into_iter().map(Dyadic::from_f64).collect::<Option<Vec<_>>>();
    list.filter(|list| list.len() == 1 || list.len() == channels).ok_or_else(wrong)
}

/// What a comparison compares with.
fn numbers(graph: &Graph, node: &Node, scale: i32) -> Result<Vec<Dyadic>> {
    let list = node.input(1).and_then(|id| constant(graph, id));
    let list = list.map(|list| list.iter().map(|&number| nearest(number, scale)).collect());
    let list: Option<Vec<Dyadic>> = list.flatten();
    let wrong = || misfit(format!("{:?} compares with no constant", node.name));
    list.filter(|list| !list.is_empty()).ok_or_else(wrong)
}

fn misfit(what: String) -> Diagnostic {
    Diagnostic::invalid("Q5067", format!("the numerics do not fit the graph: {what}"))
}

struct Machine {
    layers: BTreeMap<ValueId, Layer>,
    outputs: BTreeSet<ValueId>,
    outlet: Outlet,
    scale: i32,
}

/// What a node computes.
enum Layer {
    Product(Product),
    Window(Windows),
    /// Truth of a comparison with a number, or with one for each channel.
    Compare(Compare, Vec<Dyadic>),
    /// What is below 0, times a factor of the channel.
    Positive(Vec<Dyadic>),
    /// A summand of the channel is added.
    Plus(Vec<Dyadic>),
    /// Times a factor of the channel.
    Times(Vec<Dyadic>),
    Same,
    /// What numbers in 1-bit registers can be, or those of a channel.
    Steps(Vec<Steps>),
}

/// Whole numbers of units of a power of two.
struct Steps {
    scalar: Scalar,
    /// Exponent of the unit.
    unit: i32,
}

impl Steps {
    fn of(scalar: Scalar) -> Option<Steps> {
        let unit = Dyadic::from_f64(scalar.scale)?;
        (*unit.mantissa() == Int::ONE && scalar.zero == 0)
            .then(|| Steps { scalar, unit: unit.exponent() })
    }

    fn nearest(&self, pixel: &Dyadic) -> Dyadic {
        let steps = Dyadic::new(pixel.mantissa().clone(), pixel.exponent() - self.unit);
        let whole = match steps.in_units(0) {
            Some(whole) => whole,
            None => {
                let drop = i64::from(steps.exponent().unsigned_abs());
                round_shift(steps.mantissa(), drop, self.scalar.rounding)
            }
        };
        let Scalar { signed, width, overflow, .. } = self.scalar;
        Dyadic::new(overflow.apply(&whole, signed, width), self.unit)
    }
}

/// The pixels of a value, exactly, and what is added where a channel is read out.
#[derive(Clone)]
struct Number {
    pixels: Vec<Dyadic>,
    bias: Vec<f64>,
    /// What reaches the host, where that is not the pixels.
    received: Option<Vec<Dyadic>>,
}

impl Number {
    fn new(pixels: Vec<Dyadic>) -> Number {
        Number { pixels, bias: Vec::new(), received: None }
    }
}

impl Layers for Machine {
    type Number = Number;

    fn constant(&self, _value: &Value) -> Result<Option<Number>> {
        Ok(None)
    }

    fn input(&self, value: &Value, reals: &[f64]) -> Result<Number> {
        let exact = |&real: &f64| {
            Dyadic::from_f64(real).ok_or_else(|| {
                let name = value.name.escape_debug();
                let message = format!("input \"{name}\" holds {real}, expected finite numbers");
                Diagnostic::invalid("Q5068", message)
            })
        };
        let pixels = reals.iter().map(exact).collect::<Result<_>>()?;
        Ok(Number::new(pixels))
    }

    fn layer(&self, node: &Node, values: &Values<'_, Number>) -> Result<Number> {
        let number = self.number(node, values)?;
        let is_bits =
            matches!(self.layers.get(&node.output), Some(Layer::Compare(..) | Layer::Same));
        let reaches = match self.outlet {
            Outlet::Plain => false,
            Outlet::Codes => !is_bits,
            Outlet::Ones(_) => is_bits,
        };
        let &[.., height, width] = &values.graph[node.output].shape[..] else { return Ok(number) };
        if !reaches || !self.outputs.contains(&node.output) || height * width == 0 {
            return Ok(number);
        }
        let received = self.outlet.through(&number.pixels, width, height * width, self.scale);
        Ok(Number { received: Some(received), ..number })
    }

    fn reals(&self, number: &Number) -> Option<Vec<f64>> {
        let Number { pixels, bias, received } = number;
        let pixels = received.as_ref().unwrap_or(pixels);
        let plane = pixels.len().checked_div(bias.len()).unwrap_or(pixels.len()).max(1);
        let read = |(at, pixel): (usize, &Dyadic)| match bias.get(at / plane) {
            Some(&bias) if bias != 0.0 => pixel.to_f64() + bias,
            _ => pixel.to_f64(),
        };
        Some(pixels.iter().enumerate().map(read).collect())
    }
}

impl Machine {
    /// What a node computes.
    fn number(&self, node: &Node, values: &Values<'_, Number>) -> Result<Number> {
        let missing = || Diagnostic::bug("a layer reads what no layer computes");
        let Number { pixels, bias, .. } = values.operand(node, 0).ok_or_else(missing)?;
        if !bias.is_empty() {
            return Err(misfit(format!("{:?} reads what is read out with a bias", node.name)));
        }
        let pixels = match self.layers.get(&node.output).ok_or_else(missing)? {
            Layer::Product(product) => return Ok(product.apply(pixels)),
            Layer::Window(windows) => windows.apply(pixels),
            Layer::Compare(compare, numbers) => by_channel(pixels, numbers, |pixel, number| {
                let is_one = compare.holds(pixel, number);
                if is_one { Dyadic::new(Int::ONE, 0) } else { Dyadic::ZERO }
            }),
            Layer::Positive(slopes) => by_channel(pixels, slopes, |pixel, slope| {
                if *pixel < Dyadic::ZERO { pixel.mul(slope) } else { pixel.clone() }
            }),
            Layer::Plus(summands) => by_channel(pixels, summands, Dyadic::add),
            Layer::Times(factors) => by_channel(pixels, factors, Dyadic::mul),
            Layer::Same => pixels.clone(),
            Layer::Steps(steps) => by_channel(pixels, steps, |pixel, steps| steps.nearest(pixel)),
        };
        Ok(Number::new(pixels))
    }
}

/// What a function makes of every pixel and the parameter of its channel, or the one of all.
fn by_channel<T>(
    pixels: &[Dyadic],
    parameters: &[T],
    of: impl Fn(&Dyadic, &T) -> Dyadic,
) -> Vec<Dyadic> {
    let plane = (pixels.len() / parameters.len()).max(1);
    let channel = |at: usize| parameters.get(at / plane).unwrap_or(&parameters[0]);
    pixels.iter().enumerate().map(|(at, pixel)| of(pixel, channel(at))).collect()
}

/// A pooling, which has no padding.
struct Windows {
    /// The pixels of a plane that each result joins.
    reads: Vec<Vec<usize>>,
    /// Pixels of a plane.
    plane: usize,
    is_mean: bool,
}

impl Windows {
    fn new(graph: &Graph, node: &Node, pool: &Pool) -> Result<Windows> {
        let wrong = || misfit(format!("{:?} is no pooling of images", node.name));
        let shape = |id: ValueId| <[usize; 4]>::try_from(&graph[id].shape[..]).ok();
        let [_, _, height, width] = node.input(0).and_then(shape).ok_or_else(wrong)?;
        let [_, _, rows, columns] = shape(node.output).ok_or_else(wrong)?;
        let places = (0..rows).flat_map(|row| (0..columns).map(move |column| [row, column]));
        let reads = |at: [usize; 2]| {
            let list = pool.window.reads(&at, &[height, width]);
            list.into_iter().map(|(pixel, _)| pixel).collect::<Vec<_>>()
        };
        let reads: Vec<Vec<usize>> = places.map(reads).collect();
        let is_mean = pool.kind != PoolKind::Max;
        let count: usize = pool.window.kernel.iter().product();
        let is_whole = reads.iter().all(|list| list.len() == count);
        match is_whole && (!is_mean || count.is_power_of_two()) {
            true => Ok(Windows { reads, plane: height * width, is_mean }),
            false => Err(wrong()),
        }
    }

    fn apply(&self, pixels: &[Dyadic]) -> Vec<Dyadic> {
        let join = |plane: &[Dyadic], list: &[usize]| {
            let all = list.iter().map(|&at| &plane[at]);
            if !self.is_mean {
                return all.max().cloned().unwrap_or(Dyadic::ZERO);
            }
            let sum = all.fold(Dyadic::ZERO, |sum, pixel| sum.add(pixel));
            Dyadic::new(sum.mantissa().clone(), sum.exponent() - list.len().ilog2() as i32)
        };
        let planes = pixels.chunks(self.plane.max(1));
        planes.flat_map(|plane| self.reads.iter().map(move |list| join(plane, list))).collect()
    }
}

/// A tap of a window: which pixel it meets.
struct Tap {
    channel: usize,
    row: i64,
    column: i64,
    weight: Dyadic,
}

/// A convolution.
struct Product {
    /// Taps of every result that are not 0.
    taps: Vec<Vec<Tap>>,
    /// Added on the array.
    inner: Vec<Dyadic>,
    /// Added by the driver.
    bias: Vec<f64>,
    /// Rows and columns of the operand and of the result.
    from: [usize; 2],
    to: [usize; 2],
    strides: [usize; 2],
}

impl Product {
    /// With a scale, the bias is added on the array.
    fn new(
        graph: &Graph,
        node: &Node,
        conv: &Conv,
        depth: i32,
        scale: Option<i32>,
    ) -> Result<Product> {
        let wrong = || misfit(format!("{:?} is no convolution of images", node.name));
        let shape = |id: ValueId| <[usize; 4]>::try_from(&graph[id].shape[..]).ok();
        let (x, w) = (node.input(0).ok_or_else(wrong)?, node.input(1).ok_or_else(wrong)?);
        let [_, _, height, width] = shape(x).ok_or_else(wrong)?;
        let [outputs, inner, rows, columns] = shape(w).ok_or_else(wrong)?;
        let [_, _, to_rows, to_columns] = shape(node.output).ok_or_else(wrong)?;
        let weights = constant(graph, w).ok_or_else(wrong)?;
        let window = &conv.window;
        let position = |axis: usize, at: usize| {
            at as i64 * window.dilations[axis] as i64 - window.pads[axis].0 as i64
        };
        let per_group = (outputs / conv.groups.max(1)).max(1);
        let tap = |output: usize, at: usize| {
            let (channel, place) = (at / (rows * columns), at % (rows * columns));
            Some(Tap {
                channel: output / per_group * inner + channel,
                row: position(0, place / columns),
                column: position(1, place % columns),
                weight: nearest(weights[output * inner * rows * columns + at], depth)?,
            })
        };
        let taps = |output: usize| {
            let all = (0..inner * rows * columns).map(|at| tap(output, at).ok_or_else(wrong));
            all.filter(|tap| !tap.as_ref().is_ok_and(|tap| tap.weight.is_zero())).collect()
        };
        let mut bias = match node.input(2) {
            Some(id) => constant(graph, id).ok_or_else(wrong)?,
            None => Vec::new(),
        };
        let mut inner = vec![Dyadic::ZERO; outputs];
        if let Some(scale) = scale {
            for (inner, bias) in inner.iter_mut().zip(bias.drain(..)) {
                *inner = nearest(bias, scale).ok_or_else(wrong)?;
            }
        }
        Ok(Product {
            taps: (0..outputs).map(taps).collect::<Result<_>>()?,
            inner,
            bias,
            from: [height, width],
            to: [to_rows, to_columns],
            strides: [window.strides[0], window.strides[1]],
        })
    }

    fn apply(&self, pixels: &[Dyadic]) -> Number {
        let mut sums = Vec::new();
        for (taps, inner) in self.taps.iter().zip(&self.inner) {
            for row in 0..self.to[0] {
                for column in 0..self.to[1] {
                    sums.push(self.sum(taps, [row, column], pixels).add(inner));
                }
            }
        }
        Number { bias: self.bias.clone(), ..Number::new(sums) }
    }

    fn sum(&self, taps: &[Tap], at: [usize; 2], pixels: &[Dyadic]) -> Dyadic {
        let [height, width] = self.from;
        let start = [0, 1].map(|axis| (at[axis] * self.strides[axis]) as i64);
        let mut sum = Dyadic::ZERO;
        for tap in taps {
            let row = usize::try_from(start[0] + tap.row).ok().filter(|&row| row < height);
            let column = usize::try_from(start[1] + tap.column).ok().filter(|&c| c < width);
            if let Some((row, column)) = row.zip(column) {
                let pixel = &pixels[(tap.channel * height + row) * width + column];
                sum = sum.add(&pixel.mul(&tap.weight));
            }
        }
        sum
    }
}

/// The nearest multiple of `2^-depth`, halves upwards; `None` for what is no number.
fn nearest(weight: f64, depth: i32) -> Option<Dyadic> {
    Dyadic::from_f64(weight).map(|weight| rounded(&weight, depth))
}

/// The same of an exact number.
fn rounded(number: &Dyadic, depth: i32) -> Dyadic {
    // floor(number * 2^depth + 1/2) = floor((2 * number * 2^depth + 1) / 2)
    let doubled = Dyadic::new(number.mantissa().clone(), number.exponent() + depth + 1);
    let odd = doubled.add(&Dyadic::new(Int::ONE, 0));
    let halved = Dyadic::new(odd.mantissa().clone(), odd.exponent() - 1);
    let count = match halved.in_units(0) {
        Some(whole) => whole,
        // A shift to the right rounds down.
        None => halved.mantissa() >> halved.exponent().unsigned_abs() as usize,
    };
    Dyadic::new(count, -depth)
}

/// The real numbers of a constant.
fn constant(graph: &Graph, id: ValueId) -> Option<Vec<f64>> {
    let value = &graph[id];
    let constant = value.constant.as_ref()?;
    let codes = constant.tensor.to_f64();
    let Some(quantiser) = &constant.quantiser else { return Some(codes) };
    let grid = quantiser.scalars(&value.shape)?;
    Some(codes.iter().zip(&grid).map(|(code, at)| (code - at.zero as f64) * at.scale).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_round_upwards_at_halves() {
        let cases =
            [(0.5, 0, 1.0), (-0.5, 0, 0.0), (0.3, 2, 0.25), (-0.7, 2, -0.75), (1e-30, 60, 0.0)];
        for (weight, depth, expected) in cases.into_iter().chain([(-1e-30, 3, 0.0), (8.0, 5, 8.0)])
        {
            assert_eq!(nearest(weight, depth).unwrap().to_f64(), expected, "{weight} {depth}");
        }
    }
}
