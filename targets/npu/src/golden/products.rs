//! Convolutions and matrix products: exact sums, and what scales them.

use super::misfit;
use super::numbers::Grid;
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Conv, ConvTranspose, Gemm, Graph, Node, Value, ValueId, Window};
use quincunx_num::{ConvShape, Convolution, ImageLayout, Matrix, Packed};

/// A product of codes with constant weights.
pub(super) struct Product {
    sums: Sums,
    /// Scale and offset of every output channel.
    finish: Vec<(f32, f32)>,
    /// Elements of an operand that belong together: an image, or a row of a matrix.
    part: usize,
}

/// How sums are computed; all give the exact ones.
enum Sums {
    /// Of images, none of which can leave 32 bits.
    Images(Box<Convolution<i8>>, i8),
    /// Of rows, none of which can leave 32 bits.
    Rows(Packed<i8>),
    /// Of images, in 64 bits.
    Deep(Box<DeepConvolution>),
    /// Of rows, in 64 bits: the weights of every output.
    DeepRows(Vec<i8>),
    /// Of images that every point spreads.
    Spread(Box<Spread>),
}

impl Sums {
    fn images(shape: ConvShape, weights: &[i8], x: Grid) -> Sums {
        Sums::Images(Box::new(Convolution::new(shape, weights)), x.zero as i8)
    }

    fn deep_images(shape: ConvShape, window: Window, weights: Vec<i8>, x: Grid) -> Sums {
        Sums::Deep(Box::new(DeepConvolution { window, shape, weights, zero: i64::from(x.zero) }))
    }
}

impl Product {
    /// A convolution of values of shape `[N, C, H, W]`.
    ///
    /// # Errors
    /// `Q4096` for weights that are no codes of 8 bits around their zero points, scales that are
    /// not one per output, computed or missing operands, other shapes.
    pub(super) fn of_conv(graph: &Graph, node: &Node, conv: &Conv, x: Grid) -> Result<Product> {
        let (image, weights) = (operand(graph, node, 0)?, operand(graph, node, 1)?);
        let shape = conv_shape(conv, &image.shape, &weights.shape)
            .ok_or_else(|| misfit("a convolution is not one of images"))?;
        let part = image.shape[1..].iter().product();
        let weights = Weights::new(weights, 0)?;
        let finish = weights.finish(graph, node.input(2), x, [1.0, 1.0])?;
        let sums = match weights.fit_32_bits() {
            true => Sums::images(shape, &weights.codes, x),
            false => Sums::deep_images(shape, conv.window.clone(), weights.codes, x),
        };
        Ok(Product { sums, finish, part })
    }

    /// A transposed convolution of values of shape `[N, C, H, W]`.
    ///
    /// # Errors
    /// As [`Product::of_conv`].
    pub(super) fn of_transposed(
        graph: &Graph,
        node: &Node,
        conv: &ConvTranspose,
        x: Grid,
    ) -> Result<Product> {
        let (image, weights) = (operand(graph, node, 0)?, operand(graph, node, 1)?);
        let shapes = (&image.shape[..], &graph[node.output].shape[..]);
        let ([_, channels, h, w], [_, outputs, rows, columns]) = shapes else {
            return Err(misfit("a convolution is not one of images"));
        };
        let kernel: usize = conv.window.kernel.iter().product();
        if conv.groups != 1 || !weights.shape.starts_with(&[*channels, *outputs]) {
            return Err(misfit("a transposed convolution has groups"));
        }
        if kernel * channels * h * w == 0 {
            return Err(misfit("a transposed convolution has no elements"));
        }
        let mut weights = Weights::new(weights, 1)?;
        let own = |at: usize| {
            let (output, rest) = (at / (channels * kernel), at % (channels * kernel));
            (rest / kernel * outputs + output) * kernel + rest % kernel
        };
        weights.codes = (0..weights.codes.len()).map(|at| weights.codes[own(at)]).collect();
        let finish = weights.finish(graph, node.input(2), x, [1.0, 1.0])?;
        let spread = Spread {
            window: conv.window.clone(),
            channels: *channels,
            size: [*h, *w],
            result: [*rows, *columns],
            weights: weights.codes,
            zero: i64::from(x.zero),
        };
        Ok(Product { sums: Sums::Spread(Box::new(spread)), finish, part: channels * h * w })
    }

    /// A product of rows; without Gemm's attributes a plain one.
    ///
    /// # Errors
    /// As [`Product::of_conv`]; also for a left operand that is to be transposed.
    pub(super) fn of_matrix(
        graph: &Graph,
        node: &Node,
        gemm: Option<&Gemm>,
        bias: Option<ValueId>,
        x: Grid,
    ) -> Result<Product> {
        if gemm.is_some_and(|gemm| gemm.transpose_a) {
            return Err(misfit("the left operand of a product is transposed"));
        }
        if operand(graph, node, 1)?.shape.len() != 2 {
            return Err(misfit("the right operand of a product is no matrix"));
        }
        let by_outputs = gemm.is_some_and(|gemm| gemm.transpose_b);
        let mut weights = Weights::new(operand(graph, node, 1)?, usize::from(!by_outputs))?;
        if !by_outputs {
            let mut turned = vec![0; weights.codes.len()];
            quincunx_num::transpose(&weights.codes, weights.depth, &mut turned);
            weights.codes = turned;
        }
        let part = weights.depth;
        let factors = gemm.map_or([1.0, 1.0], |gemm| [gemm.alpha.into(), gemm.beta.into()]);
        let finish = weights.finish(graph, bias, x, factors)?;
        let sums = match weights.fit_32_bits() {
            true => {
                let right = Matrix::row_major(&weights.codes, finish.len(), part);
                Sums::Rows(Packed::new(right.transposed()))
            }
            false => Sums::DeepRows(weights.codes),
        };
        Ok(Product { sums, finish, part })
    }

    /// `sum * a + b` in f32, each operation rounded, for every output of every image or row.
    pub(super) fn apply(&self, codes: &[i8]) -> Vec<f32> {
        let outputs = self.finish.len();
        let mut results = Vec::new();
        let mut finish = |sums: &mut dyn Iterator<Item = f32>, (a, b): (f32, f32)| {
            results.extend(sums.map(|sum| sum * a + b));
        };
        match &self.sums {
            Sums::Images(convolution, zero) => {
                let plane: usize = convolution.output_size().iter().product();
                let mut sums = vec![0; outputs * plane];
                let starts = vec![0; outputs];
                for image in codes.chunks_exact(self.part) {
                    let layout = ImageLayout::ChannelsFirst;
                    convolution.run(image, layout, *zero, &starts, &mut sums);
                    for (sums, &of) in sums.chunks_exact(plane).zip(&self.finish) {
                        finish(&mut sums.iter().map(|&sum| sum as f32), of);
                    }
                }
            }
            Sums::Rows(packed) => {
                let rows = codes.len() / self.part;
                let mut sums = vec![0; rows * outputs];
                let left = Matrix::row_major(codes, rows, self.part);
                packed.multiply_add(left, &mut sums, outputs);
                for (&sum, &of) in sums.iter().zip(self.finish.iter().cycle()) {
                    finish(&mut [sum as f32].into_iter(), of);
                }
            }
            Sums::Deep(deep) => {
                for image in codes.chunks_exact(self.part) {
                    for (output, &of) in self.finish.iter().enumerate() {
                        finish(&mut deep.plane(image, output).map(|sum| sum as f32), of);
                    }
                }
            }
            Sums::Spread(spread) => {
                for image in codes.chunks_exact(self.part) {
                    for (output, &of) in self.finish.iter().enumerate() {
                        let sums = spread.plane(image, output);
                        finish(&mut sums.into_iter().map(|sum| sum as f32), of);
                    }
                }
            }
            Sums::DeepRows(weights) => {
                for row in codes.chunks_exact(self.part) {
                    for (weights, &of) in weights.chunks_exact(self.part).zip(&self.finish) {
                        let sum: i64 = row.iter().zip(weights).map(|(&q, &w)| product(q, w)).sum();
                        finish(&mut [sum as f32].into_iter(), of);
                    }
                }
            }
        }
        results
    }
}

/// A transposed convolution written out: every point of an image adds the kernel, times its number,
/// to the result.
struct Spread {
    window: Window,
    channels: usize,
    /// Rows and columns of an image, and of the result.
    size: [usize; 2],
    result: [usize; 2],
    /// `[outputs, channels, rows, columns]`.
    weights: Vec<i8>,
    /// What no point gives.
    zero: i64,
}

impl Spread {
    /// The sums of an output channel, row by row.
    fn plane(&self, image: &[i8], output: usize) -> Vec<i64> {
        let taps: usize = self.window.kernel.iter().product();
        let weights = &self.weights[output * self.channels * taps..][..self.channels * taps];
        // As if no point held anything but zero.
        let outside = weights.iter().map(|&w| i64::from(w)).sum::<i64>() * self.zero;
        let mut sums = vec![outside; self.result[0] * self.result[1]];
        for (at, &code) in image.iter().enumerate() {
            let (channel, point) =
                (at / (self.size[0] * self.size[1]), at % (self.size[0] * self.size[1]));
            let point = [point / self.size[1], point % self.size[1]];
            for (tap, &weight) in weights[channel * taps..][..taps].iter().enumerate() {
                let tap = [tap / self.window.kernel[1], tap % self.window.kernel[1]];
                let place = |axis: usize| {
                    let spread = point[axis] * self.window.strides[axis]
                        + tap[axis] * self.window.dilations[axis];
                    let place = spread.checked_sub(self.window.pads[axis].0)?;
                    (place < self.result[axis]).then_some(place)
                };
                if let Some((y, x)) = place(0).zip(place(1)) {
                    sums[y * self.result[1] + x] +=
                        (i64::from(code) - self.zero) * i64::from(weight);
                }
            }
        }
        sums
    }
}

/// Products of the matrices of two values.
pub(super) struct Matrices {
    /// Of both.
    pub(super) grids: [Grid; 2],
    /// Columns of the left matrices, rows of the right ones.
    pub(super) depth: usize,
    /// Columns of the right ones.
    pub(super) columns: usize,
}

impl Matrices {
    /// The sums of all products, scaled in f32, row by row.
    pub(super) fn apply(&self, left: &[i8], right: &[i8]) -> Vec<f32> {
        let [x, y] = self.grids;
        let (depth, columns) = (self.depth, self.columns);
        let scale = (x.scale * y.scale) as f32;
        let size = (depth * columns).max(1);
        let rows = left.len() / depth.max(1) / (right.len() / size).max(1);
        let mut results = Vec::with_capacity(left.len() / depth.max(1) * columns);
        for (left, right) in left.chunks_exact((rows * depth).max(1)).zip(right.chunks_exact(size))
        {
            for row in left.chunks_exact(depth) {
                results.extend((0..columns).map(|column| {
                    let term = |(k, &code): (usize, &i8)| {
                        let [a, b] = [code, right[k * columns + column]].map(i64::from);
                        (a - i64::from(x.zero)) * (b - i64::from(y.zero))
                    };
                    row.iter().enumerate().map(term).sum::<i64>() as f32 * scale
                }));
            }
        }
        results
    }
}

fn product(code: i8, weight: i8) -> i64 {
    i64::from(code) * i64::from(weight)
}

/// A convolution written out.
struct DeepConvolution {
    window: Window,
    shape: ConvShape,
    /// `[outputs, channels / groups, rows, columns]`.
    weights: Vec<i8>,
    /// What positions outside of an image hold.
    zero: i64,
}

impl DeepConvolution {
    /// The sums of an output channel, row by row.
    fn plane<'a>(&'a self, image: &'a [i8], output: usize) -> impl Iterator<Item = i64> + 'a {
        let ConvShape { channels, size, outputs, groups, .. } = self.shape;
        let [rows, columns] = self.shape.output_size().unwrap_or_default();
        let (depth, plane) = (channels / groups, size[0] * size[1]);
        let taps: usize = self.window.kernel.iter().product();
        let first = output / (outputs / groups) * depth;
        let weights = &self.weights[output * depth * taps..][..depth * taps];
        // As if all positions lay outside.
        let outside = weights.iter().map(|&w| i64::from(w)).sum::<i64>() * self.zero;
        let sum = move |place: [usize; 2]| {
            let reads = self.window.reads(&place, &size);
            let channel = |c: usize| {
                let image = &image[(first + c) * plane..][..plane];
                let term = |&(at, tap): &(usize, usize)| {
                    let weight = i64::from(weights[c * taps + tap]);
                    (i64::from(image[at]) - self.zero) * weight
                };
                reads.iter().map(term).sum::<i64>()
            };
            outside + (0..depth).map(channel).sum::<i64>()
        };
        (0..rows).flat_map(move |y| (0..columns).map(move |x| [y, x])).map(sum)
    }
}

/// Constant weights.
struct Weights {
    /// Codes minus their zero points, in the order of the graph; of [`Product::of_matrix`] turned
    /// so that those of an output follow one another.
    codes: Vec<i8>,
    /// Distance between two codes, for every output.
    scales: Vec<f64>,
    /// Weights of an output.
    depth: usize,
}

impl Weights {
    /// Weights whose outputs are along the first or the second axis.
    fn new(value: &Value, axis: usize) -> Result<Weights> {
        let wrong = |what: &str| misfit(format!("the weights {:?} {what}", value.name));
        let constant = value.constant.as_ref().ok_or_else(|| wrong("are computed"))?;
        let quantiser = constant.quantiser.as_ref().ok_or_else(|| wrong("are no codes"))?;
        if value.shape.len() < 2 || value.shape.contains(&0) {
            return Err(wrong("have another rank, or no elements"));
        }
        let inner: usize = value.shape[axis + 1..].iter().product();
        let along = |index: usize| index / inner % value.shape[axis];
        let outputs = value.shape[axis];
        let codes = constant.tensor.to_i64().ok_or_else(|| wrong("are no codes"))?;
        let expanded =
            quantiser.zero.expand(&value.shape).zip(quantiser.scale.expand(&value.shape));
        let (zeros, expanded) = expanded.ok_or_else(|| wrong("have another shape"))?;
        let mut scales: Vec<Option<f64>> = vec![None; outputs];
        let mut centred = Vec::with_capacity(codes.len());
        for (index, ((code, zero), scale)) in codes.into_iter().zip(zeros).zip(expanded).enumerate()
        {
            let code = code.checked_sub(zero).and_then(|code| i8::try_from(code).ok());
            centred.push(code.ok_or_else(|| wrong("do not lie within 8 bits of their zero"))?);
            if *scales[along(index)].get_or_insert(scale) != scale {
                return Err(wrong("have several scales for an output"));
            }
        }
        let depth = centred.len() / outputs;
        Ok(Weights { codes: centred, scales: scales.into_iter().flatten().collect(), depth })
    }

    /// The weights of every output.
    fn outputs(&self) -> impl Iterator<Item = &[i8]> {
        self.codes.chunks_exact(self.depth)
    }

    /// No sum of codes times weights can leave 32 bits.
    fn fit_32_bits(&self) -> bool {
        let most = |weights: &[i8]| weights.iter().map(|&w| i64::from(w).abs() * 128).sum::<i64>();
        self.outputs().all(|weights| most(weights) <= i64::from(i32::MAX))
    }

    /// Scale and offset of the sums of every output, `factors` being those of the product and of
    /// the bias. Products and sums are of f64; the results are rounded once.
    fn finish(
        &self,
        graph: &Graph,
        bias: Option<ValueId>,
        x: Grid,
        [alpha, beta]: [f64; 2],
    ) -> Result<Vec<(f32, f32)>> {
        let bias = self::bias(graph, bias, self.scales.len())?;
        let parameters = self.outputs().zip(&self.scales).zip(bias);
        let finish = parameters.map(|((weights, scale), bias)| {
            let sum: i64 = weights.iter().map(|&w| i64::from(w)).sum();
            let step = x.scale * scale * alpha;
            let offset = bias * beta - step * f64::from(x.zero) * sum as f64;
            (step as f32, offset as f32)
        });
        Ok(finish.collect())
    }
}

/// The bias of every output, which may be one for all of them or absent.
fn bias(graph: &Graph, bias: Option<ValueId>, outputs: usize) -> Result<Vec<f64>> {
    let Some(id) = bias else { return Ok(vec![0.0; outputs]) };
    let value = &graph[id];
    let wrong = |what: &str| misfit(format!("the bias {:?} {what}", value.name));
    let constant = value.constant.as_ref().ok_or_else(|| wrong("is computed"))?;
    let mut reals = constant.tensor.to_f64();
    if let Some(quantiser) = &constant.quantiser {
        let expanded =
            quantiser.zero.expand(&value.shape).zip(quantiser.scale.expand(&value.shape));
        let (zeros, scales) = expanded.ok_or_else(|| wrong("has another shape"))?;
        for (real, (zero, scale)) in reals.iter_mut().zip(zeros.into_iter().zip(scales)) {
            *real = (*real - zero as f64) * scale;
        }
    }
    match reals.len() {
        1 => Ok(vec![reals[0]; outputs]),
        n if n == outputs && value.shape.last() == Some(&outputs) => Ok(reals),
        _ => Err(wrong("is not one number for every output")),
    }
}

/// Operand `index`.
fn operand<'g>(graph: &'g Graph, node: &Node, index: usize) -> Result<&'g Value> {
    let id = node.input(index);
    id.map(|id| &graph[id]).ok_or_else(|| Diagnostic::bug("a product lacks an operand"))
}

/// Sizes of a convolution of images that have elements.
fn conv_shape(conv: &Conv, image: &[usize], weights: &[usize]) -> Option<ConvShape> {
    let pair = |list: &[usize]| <[usize; 2]>::try_from(list).ok();
    let [(top, bottom), (left, right)] = conv.window.pads[..] else { return None };
    let shape = ConvShape {
        channels: *image.get(1)?,
        size: pair(image.get(2..)?)?,
        outputs: *weights.first()?,
        kernel: pair(&conv.window.kernel)?,
        strides: pair(&conv.window.strides)?,
        dilations: pair(&conv.window.dilations)?,
        pads: [top, left, bottom, right],
        groups: conv.groups,
    };
    shape.output_size().filter(|_| !image.contains(&0)).map(|_| shape)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_graph::Quantiser;
    use quincunx_testkit::Random;

    /// Windows of any kind: the packed kernels sum what the written out loops sum.
    #[test]
    fn both_ways_to_sum_agree() {
        for case in 0..300 {
            let random = &mut Random::new(case);
            let groups = random.range(1, 4);
            let (depth, width) = (random.range(1, 9), random.range(1, 9));
            let mut window = Window::new(&[random.range(1, 4), random.range(1, 4)]);
            for axis in 0..2 {
                window.strides[axis] = random.range(1, 3);
                window.dilations[axis] = random.range(1, 2);
                window.pads[axis] = (random.below(4), random.below(4));
            }
            let conv = Conv { window, groups };
            let size = [random.range(1, 9), random.range(1, 9)];
            let image = [random.range(1, 2), groups * depth, size[0], size[1]];
            let kernel = &conv.window.kernel;
            let weights = [groups * width, depth, kernel[0], kernel[1]];
            let Some(shape) = conv_shape(&conv, &image, &weights) else { continue };
            let mut codes = |shape: &[usize]| -> Vec<i8> {
                (0..shape.iter().product()).map(|_| random.next() as i8).collect()
            };
            let (x, w) = (codes(&image), codes(&weights));
            let mut quantiser = Quantiser::symmetric(true, 8, 1.0);
            quantiser.zero = quincunx_graph::Param::uniform(random.range(-128, 127));
            let grid = Grid::new(&quantiser).unwrap();
            let finish =
                (0..groups * width).map(|k| (1.0 + k as f32, k as f32)).collect::<Vec<_>>();
            let product =
                |sums| Product { sums, finish: finish.clone(), part: image[1..].iter().product() };
            let packed = product(Sums::images(shape, &w, grid)).apply(&x);
            let deep = Sums::deep_images(shape, conv.window.clone(), w, grid);
            assert_eq!(packed, product(deep).apply(&x), "case {case}: {shape:?}");
        }
    }
}
