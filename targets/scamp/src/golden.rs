//! The golden model: what each layer of a network is in this machine's arithmetic.
//!
//! Written from the meaning of the layers: no instruction, no goal and nothing of the simulator is
//! used. Weights are whole numbers of units of `2^-d`, where the numerics say `d`; everything else
//! is exact, and results are rounded to floats once, where they are read out. A bias is added then.

use quincunx_contract::golden::{Layers, Values, Walk};
use quincunx_contract::{Golden, Numerics};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Conv, Graph, Node, Op, Unary, Value, ValueId};
use quincunx_num::{Dyadic, Int};
use std::collections::BTreeMap;

/// Deepest units that numerics may have.
const MAX_DEPTH: i64 = 60;

/// The golden model of a graph.
///
/// # Errors
/// `Q5067` for numerics that do not fit the graph.
pub(crate) fn prepare(graph: &Graph, numerics: &Numerics) -> Result<Box<dyn Golden>> {
    let mut products = BTreeMap::new();
    for (_, node) in graph.nodes() {
        match &node.op {
            Op::Conv(conv) => {
                let depth = numerics.0["depths"][&node.name].as_i64();
                let depth = depth.filter(|depth| (0..=MAX_DEPTH).contains(depth));
                let depth = depth.ok_or_else(|| misfit(format!("{:?} has no depth", node.name)))?;
                products.insert(node.output, Product::new(graph, node, conv, depth as i32)?);
            }
            Op::Unary(Unary::Relu) => {}
            other => return Err(misfit(format!("the machine has no {}", other.name()))),
        }
    }
    Ok(Box::new(Walk::new(graph, Machine { products })?))
}

fn misfit(what: String) -> Diagnostic {
    Diagnostic::invalid("Q5067", format!("the numerics do not fit the graph: {what}"))
}

struct Machine {
    products: BTreeMap<ValueId, Product>,
}

/// The pixels of a value, exactly, and what is added where a channel is read out.
#[derive(Clone)]
struct Number {
    pixels: Vec<Dyadic>,
    bias: Vec<f64>,
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
        Ok(Number { pixels, bias: Vec::new() })
    }

    fn layer(&self, node: &Node, values: &Values<'_, Number>) -> Result<Number> {
        let missing = || Diagnostic::bug("a layer reads what no layer computes");
        let Number { pixels, bias } = values.operand(node, 0).ok_or_else(missing)?;
        if !bias.is_empty() {
            return Err(misfit(format!("{:?} reads what is read out with a bias", node.name)));
        }
        match self.products.get(&node.output) {
            Some(product) => Ok(product.apply(pixels)),
            None => {
                let positive =
                    |x: &Dyadic| if *x.mantissa() > Int::ZERO { x.clone() } else { Dyadic::ZERO };
                Ok(Number { pixels: pixels.iter().map(positive).collect(), bias: Vec::new() })
            }
        }
    }

    fn reals(&self, number: &Number) -> Option<Vec<f64>> {
        let Number { pixels, bias } = number;
        let plane = pixels.len().checked_div(bias.len()).unwrap_or(pixels.len()).max(1);
        let read = |(at, pixel): (usize, &Dyadic)| match bias.get(at / plane) {
            Some(&bias) if bias != 0.0 => pixel.to_f64() + bias,
            _ => pixel.to_f64(),
        };
        Some(pixels.iter().enumerate().map(read).collect())
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
    bias: Vec<f64>,
    /// Rows and columns of the operand and of the result.
    from: [usize; 2],
    to: [usize; 2],
    strides: [usize; 2],
}

impl Product {
    fn new(graph: &Graph, node: &Node, conv: &Conv, depth: i32) -> Result<Product> {
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
        let bias = match node.input(2) {
            Some(id) => constant(graph, id).ok_or_else(wrong)?,
            None => Vec::new(),
        };
        Ok(Product {
            taps: (0..outputs).map(taps).collect::<Result<_>>()?,
            bias,
            from: [height, width],
            to: [to_rows, to_columns],
            strides: [window.strides[0], window.strides[1]],
        })
    }

    fn apply(&self, pixels: &[Dyadic]) -> Number {
        let mut sums = Vec::new();
        for taps in &self.taps {
            for row in 0..self.to[0] {
                for column in 0..self.to[1] {
                    sums.push(self.sum(taps, [row, column], pixels));
                }
            }
        }
        Number { pixels: sums, bias: self.bias.clone() }
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
    let weight = Dyadic::from_f64(weight)?;
    // floor(weight * 2^depth + 1/2) = floor((2 * weight * 2^depth + 1) / 2)
    let doubled = Dyadic::new(weight.mantissa().clone(), weight.exponent() + depth + 1);
    let odd = doubled.add(&Dyadic::new(Int::ONE, 0));
    let halved = Dyadic::new(odd.mantissa().clone(), odd.exponent() - 1);
    let count = match halved.in_units(0) {
        Some(whole) => whole,
        // A shift to the right rounds down.
        None => halved.mantissa() >> halved.exponent().unsigned_abs() as usize,
    };
    Some(Dyadic::new(count, -depth))
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
