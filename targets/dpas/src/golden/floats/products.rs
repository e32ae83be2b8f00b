//! Convolutions and matrix products of floats.

use crate::golden::misfit;
use crate::golden::numbers::Float;
use crate::golden::numerics::{Adding, Held};
use crate::golden::operands::{Operands, Windows};
use crate::golden::pools::place;
use crate::golden::products::Weights;
use quincunx_diag::Result;
use quincunx_graph::{Graph, Node, Scalar, Value};
use quincunx_tensor::View;

/// Positions whose sums are computed side by side; the order of every sum stays.
const LANES: usize = 16;

/// One number of every position.
type Lanes = [f32; LANES];

/// A product of floats with weights.
pub(super) struct Product {
    x: Float,
    /// What the weights of an output are multiplied with; rows of a matrix without them.
    windows: Option<Windows>,
    /// Those of an output one after the other, in the order of its sum.
    weights: Vec<f32>,
    /// Weights of an output; at least 1.
    depth: usize,
    /// Which number of a row each weight of an output is multiplied with; in order without it.
    order: Option<Vec<usize>>,
    /// What the sum of every output begins with.
    biases: Vec<f32>,
    /// Of weights that are codes.
    scales: Option<Scales>,
    adding: Adding,
    /// Consecutive weights of an output at one position.
    run: usize,
}

/// What sums of every output are multiplied with, and what is added then with the same rounding.
struct Scales {
    factors: Vec<f32>,
    biases: Option<Vec<f32>>,
}

impl Product {
    /// The product that a node is, with the bias that a sum behind it adds, if there is one.
    ///
    /// # Errors
    /// `Q6190` for weights and biases that are no constants or do not fit, and for attributes
    /// that the machine does not have.
    pub(super) fn new(
        graph: &Graph,
        node: &Node,
        sum: Option<&Node>,
        x: Float,
        Held { adding, channels, .. }: Held,
    ) -> Result<Product> {
        let operands = Operands::new(graph, node, sum)?;
        let Operands { windows, alpha, weights: weights_value, matrix, bias } = operands;
        if alpha != 1.0 {
            return Err(misfit(format!("a product of floats has the factor {alpha}")));
        }
        let mut biases = match bias {
            Some(bias) => {
                let reals = reals(bias.value)?.into_iter().map(|real| real as f32);
                bias.per_output(&reals.collect::<Vec<f32>>())?
            }
            None => vec![0.0; matrix.outputs],
        };
        let (mut weights, mut scales) = (Vec::new(), None);
        match Weights::new(weights_value, &matrix) {
            Ok(codes) if codes.scales.iter().all(|&scale| (scale as f32).is_normal()) => {
                weights.extend(codes.codes.into_iter().map(f32::from));
                let behind = biases.iter().any(|&bias| bias != 0.0).then(|| biases.clone());
                scales = Some(Scales {
                    factors: codes.scales.iter().map(|&scale| scale as f32).collect(),
                    biases: behind,
                });
                biases.fill(0.0);
            }
            _ => {
                let rounded =
                    reals(weights_value)?.into_iter().map(|weight| x.factor(x.round(weight)));
                weights.extend(matrix.by_output(rounded.collect()));
            }
        }
        let depth = matrix.depth;
        let mut run = depth;
        if let Some(windows) = &windows {
            let taps = windows.taps();
            run = depth / taps;
            let shape = [matrix.outputs, depth / taps, taps];
            weights = View::new(&weights, &shape).permute(&[0, 2, 1]).to_vec();
        }
        let mut order = None;
        if let Some(channels) = channels {
            if windows.is_some() || depth % channels != 0 {
                return Err(misfit("a product has other rows than images of its channels"));
            }
            run = channels.get();
            let shape = [matrix.outputs, channels.get(), depth / channels];
            weights = View::new(&weights, &shape).permute(&[0, 2, 1]).to_vec();
            let places: Vec<usize> = (0..depth).collect();
            order = Some(View::new(&places, &shape[1..]).permute(&[1, 0]).to_vec());
        }
        let run = run.max(1);
        Ok(Product { x, windows, weights, depth, order, biases, scales, adding, run })
    }

    /// The product of rows with a matrix of this depth and so many outputs, those of an output one
    /// after the other.
    pub(super) fn of_matrix(
        weights: Vec<f32>,
        [depth, outputs]: [usize; 2],
        x: Float,
        adding: Adding,
    ) -> Product {
        let weights = weights.into_iter().map(|weight| x.factor(weight)).collect();
        let biases = vec![0.0; outputs];
        Product {
            x,
            windows: None,
            weights,
            depth,
            order: None,
            biases,
            scales: None,
            adding,
            run: depth,
        }
    }

    /// Multiplies results, if their weights are codes.
    pub(super) fn times(&mut self, factor: f32) -> bool {
        let Some(Scales { factors, biases }) = &mut self.scales else { return false };
        let all = factors.iter_mut().chain(biases.iter_mut().flatten());
        all.for_each(|own| *own *= factor);
        true
    }

    /// The sums, in the order of the result.
    pub(super) fn apply(&self, x: &[f32]) -> Vec<f32> {
        let Some(windows) = &self.windows else { return self.of_rows(x) };
        x.chunks_exact(windows.image()).flat_map(|image| self.of_image(windows, image)).collect()
    }

    fn of_rows(&self, x: &[f32]) -> Vec<f32> {
        let (depth, outputs) = (self.depth, self.biases.len());
        let mut results = vec![0.0; x.len() / depth * outputs];
        let mut patches = vec![[0.0; LANES]; depth];
        let tiles = x.chunks(LANES * depth).zip(results.chunks_mut(LANES * outputs));
        for (rows, results) in tiles {
            for (lane, row) in rows.chunks_exact(depth).enumerate() {
                let place = |at: usize| self.order.as_ref().map_or(at, |order| order[at]);
                for (at, lanes) in patches.iter_mut().enumerate() {
                    lanes[lane] = self.x.factor(row[place(at)]);
                }
            }
            for output in 0..outputs {
                let sums = self.sums(output, &patches);
                let results = results.iter_mut().skip(output).step_by(outputs);
                results.zip(sums).for_each(|(result, sum)| *result = sum);
            }
        }
        results
    }

    fn of_image(&self, windows: &Windows, image: &[f32]) -> Vec<f32> {
        let (positions, plane) = (windows.positions(), windows.input.iter().product::<usize>());
        let mut results = vec![0.0; positions * self.biases.len()];
        let channels = windows.channels / windows.groups;
        let outputs = self.biases.len() / windows.groups;
        let mut patches = vec![[0.0; LANES]; self.depth];
        for first in (0..positions).step_by(LANES) {
            let tile = first..positions.min(first + LANES);
            let reads = |at| windows.window.reads(&place(at, &windows.output), &windows.input);
            let reads: Vec<Vec<(usize, usize)>> = tile.clone().map(reads).collect();
            for (group, image) in image.chunks_exact(channels * plane).enumerate() {
                // What lies in the padding is 0.
                patches.fill([0.0; LANES]);
                for (lane, reads) in reads.iter().enumerate() {
                    for &(element, tap) in reads {
                        let numbers = image.iter().skip(element).step_by(plane);
                        let patches = patches[tap * channels..].iter_mut();
                        let numbers = numbers.zip(patches);
                        numbers.for_each(|(&number, lanes)| lanes[lane] = self.x.factor(number));
                    }
                }
                for output in group * outputs..(group + 1) * outputs {
                    let sums = self.sums(output, &patches);
                    let results = &mut results[output * positions..][tile.clone()];
                    results.copy_from_slice(&sums[..tile.len()]);
                }
            }
        }
        results
    }

    /// The sums of an output: of every position the bias, and each product added to it in turn.
    fn sums(&self, output: usize, patches: &[Lanes]) -> Lanes {
        let weights = &self.weights[output * self.depth..][..self.depth];
        let mut sums = [self.biases[output]; LANES];
        if self.adding != Adding::Seq {
            for (patches, weights) in patches.chunks(self.run).zip(weights.chunks(self.run)) {
                self.otherwise(&mut sums, patches, weights);
            }
            return self.scaled(output, sums);
        }
        for (numbers, weight) in patches.iter().zip(weights) {
            for (sum, number) in sums.iter_mut().zip(numbers) {
                *sum += number * weight;
            }
        }
        self.scaled(output, sums)
    }

    fn scaled(&self, output: usize, sums: Lanes) -> Lanes {
        let Some(Scales { factors, biases }) = &self.scales else { return sums };
        let factor = factors[output];
        match biases {
            None => sums.map(|sum| sum * factor),
            Some(biases) => sums.map(|sum| sum.mul_add(factor, biases[output])),
        }
    }

    /// Adds the products of one position in another way.
    fn otherwise(&self, sums: &mut Lanes, patches: &[Lanes], weights: &[f32]) {
        let stage = self.x.stage();
        let together = if self.adding == Adding::Stages { stage } else { 8 * stage };
        let flushed = |x: f32| if x.is_subnormal() { 0.0_f32.copysign(x) } else { x };
        for (patches, weights) in patches.chunks(together).zip(weights.chunks(together)) {
            for (lane, sum) in sums.iter_mut().enumerate() {
                let factors = patches.iter().map(|numbers| numbers[lane]).zip(weights);
                *sum = match self.adding {
                    Adding::Fused => factors.fold(*sum, |sum, (a, b)| a.mul_add(*b, sum)),
                    // f64 holds products, and sums of so few but for the last places.
                    Adding::Stages | Adding::Exact => {
                        let product = |(a, b): (f32, &f32)| f64::from(a) * f64::from(*b);
                        (f64::from(*sum) + factors.map(product).sum::<f64>()) as f32
                    }
                    Adding::Flushed => {
                        factors.fold(flushed(*sum), |sum, (a, b)| flushed(sum + flushed(a * b)))
                    }
                    Adding::Seq | Adding::Rounded(_) => {
                        let sum = factors.fold(*sum, |sum, (a, b)| sum + a * b);
                        match self.adding {
                            Adding::Rounded(float) => float.round(sum.into()),
                            _ => sum,
                        }
                    }
                };
            }
        }
    }
}

/// The numbers of a constant, whatever it is held as.
///
/// # Errors
/// `Q6190` for a value of several shapes.
fn reals(value: &Value) -> Result<Vec<f64>> {
    let Some(constant) = &value.constant else {
        return Err(misfit(format!("{:?} is computed", value.name)));
    };
    let numbers = constant.tensor.to_f64();
    let Some(quantiser) = &constant.quantiser else { return Ok(numbers) };
    let scalars = quantiser.scalars(&value.shape);
    let scalars = scalars.ok_or_else(|| misfit(format!("{:?} has another shape", value.name)))?;
    let real = |(code, scalar): (f64, &Scalar)| (code - scalar.zero as f64) * scalar.scale;
    Ok(numbers.into_iter().zip(&scalars).map(real).collect())
}
