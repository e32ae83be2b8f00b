//! Weights of the graph as blocks of the machine: rows of codes with their parameters.
//!
//! Layout: `gemini`, `npu-measured` (`docs/bibliography.md`); the order within a row and the
//! parameters are ours.

use crate::work::{Extents, PARAMETER_BYTES, ceil8};
use quincunx_graph::{Binary, Graph, Node, Op, Quantiser, Value, ValueId};

/// What a product multiplies with.
pub(crate) struct Rows {
    /// Output channels.
    pub(crate) channels: u32,
    /// Input channels, rows and columns of an output channel.
    pub(crate) row: Extents,
    /// Whole numbers, output channel by output channel, in the order of `row`.
    codes: Vec<i8>,
    /// Factor of each output channel.
    factors: Vec<f32>,
    /// Addend of each output channel.
    addends: Vec<f32>,
}

/// Constant operand and quantiser of the weights.
fn operand<'g>(graph: &'g Graph, node: &Node) -> Result<(&'g Value, &'g Quantiser), String> {
    let value = node.input(1).map(|id| &graph[id]).ok_or("an operand is missing")?;
    let Some(constant) = &value.constant else {
        return Err("its weights are not constant".to_owned());
    };
    let quantiser = constant.quantiser.as_ref();
    let quantiser = quantiser.ok_or("its weights are not quantised to codes of 8 bits")?;
    Ok((value, quantiser))
}

/// The factors of a product's codes, one for every output channel.
pub(crate) fn scales(graph: &Graph, node: &Node) -> Option<Vec<f64>> {
    let (value, quantiser) = operand(graph, node).ok()?;
    let scales = per_channel(&quantiser.scale, &value.shape, axis(node))?;
    let alpha = match &node.op {
        Op::Gemm(gemm) => f64::from(gemm.alpha),
        _ => 1.0,
    };
    Some(scales.into_iter().map(|scale| scale * alpha).collect())
}

/// The axis of output channels of the weights.
fn axis(node: &Node) -> usize {
    match &node.op {
        Op::MatMul | Op::ConvTranspose(_) => 1,
        Op::Gemm(gemm) if !gemm.transpose_b => 1,
        _ => 0,
    }
}

/// The value of a parameter for every output channel; `None` when it varies otherwise.
fn per_channel<T: Copy + PartialEq>(
    param: &quincunx_graph::Param<T>,
    shape: &[usize],
    axis: usize,
) -> Option<Vec<T>> {
    if let Some(value) = param.as_uniform() {
        return Some(vec![value; shape[axis]]);
    }
    let missing = shape.len().checked_sub(param.shape().len())?;
    let own = param.shape().iter().enumerate();
    let varies = own.filter(|&(_, &extent)| extent > 1).map(|(at, _)| at + missing);
    (varies.eq([axis])).then(|| param.values().to_vec())
}

/// Whether the weights are codes that the array multiplies with.
///
/// # Errors
/// Why they are not.
pub(crate) fn check(graph: &Graph, node: &Node) -> Result<(), String> {
    let (value, quantiser) = operand(graph, node)?;
    if node.op == Op::MatMul && value.shape.len() != 2 {
        return Err("its right operand is not a matrix".to_owned());
    }
    let axis = axis(node);
    let widths = per_channel(&quantiser.width, &value.shape, axis);
    let scales = per_channel(&quantiser.scale, &value.shape, axis);
    let zeros = per_channel(&quantiser.zero, &value.shape, axis);
    let (Some(widths), Some(_), Some(zeros)) = (widths, scales, zeros) else {
        return Err("the grid of its weights differs within an output channel".to_owned());
    };
    if widths.iter().any(|&width| width > 8) {
        return Err("its weights have codes of more than 8 bits".to_owned());
    }
    let signed = per_channel(&quantiser.signed, &value.shape, axis);
    let plain = signed.is_some_and(|signed| signed.iter().all(|&signed| signed))
        && zeros.iter().all(|&zero| zero == 0);
    if !plain {
        // Codes less their zero must still be of 8 bits.
        let codes = integers(value, quantiser, axis);
        if codes.is_none_or(|codes| codes.iter().any(|code| !(-128..=127).contains(code))) {
            return Err("its weights, less their zero points, leave 8 bits".to_owned());
        }
    }
    if let Some(bias) = node.input(2)
        && graph[bias].constant.is_none()
    {
        return Err("its bias is not constant".to_owned());
    }
    if bias(graph, node.input(2), value.shape[axis]).is_none() {
        return Err("its bias is not one number per output channel".to_owned());
    }
    Ok(())
}

/// Codes less their zero points, in the order of the constant.
fn integers(value: &Value, quantiser: &Quantiser, axis: usize) -> Option<Vec<i64>> {
    let mut codes = value.constant.as_ref()?.tensor.to_i64()?;
    let zeros = per_channel(&quantiser.zero, &value.shape, axis)?;
    if zeros.iter().any(|&zero| zero != 0) {
        let inner: usize = value.shape[axis + 1..].iter().product();
        for (index, code) in codes.iter_mut().enumerate() {
            *code -= zeros[index / inner.max(1) % zeros.len()];
        }
    }
    Some(codes)
}

/// The real numbers of a bias: one per output channel.
fn bias(graph: &Graph, bias: Option<ValueId>, channels: usize) -> Option<Vec<f64>> {
    let Some(id) = bias else { return Some(vec![0.0; channels]) };
    let value = &graph[id];
    let constant = value.constant.as_ref()?;
    let mut reals = match &constant.quantiser {
        None => constant.tensor.to_f64(),
        Some(quantiser) => {
            let codes = constant.tensor.to_i64()?;
            let scalars = quantiser.scalars(&value.shape)?;
            let real = |(code, scalar): (i64, &quincunx_graph::Scalar)| {
                (code - scalar.zero) as f64 * scalar.scale
            };
            codes.into_iter().zip(&scalars).map(real).collect()
        }
    };
    // The bias of a Gemm broadcasts from the right; one that differs by row is none of the channels.
    if reals.len() > 1 && value.shape.last() != Some(&channels) {
        return None;
    }
    if reals.len() == 1 {
        reals.resize(channels, reals[0]);
    }
    (reals.len() == channels).then_some(reals)
}

/// Factor and addend that an operator with a constant, operand `at`, is; `None` for another one.
pub(crate) fn affine(binary: Binary, at: usize, x: f64) -> Option<(Option<f64>, Option<f64>)> {
    let found = match (binary, at) {
        (Binary::Mul, _) => (Some(x), None),
        (Binary::Add, _) => (None, Some(x)),
        (Binary::Sub, 1) => (None, Some(-x)),
        (Binary::Sub, _) => (Some(-1.0), Some(x)),
        (Binary::Div, 1) => (Some(x.recip()), None),
        _ => return None,
    };
    let is_finite = |x: Option<f64>| x.is_none_or(|x| (x as f32).is_finite());
    (is_finite(found.0) && is_finite(found.1)).then_some(found)
}

/// The real numbers of a constant that has one, or one for every channel.
pub(crate) fn numbers(value: &Value, channels: usize) -> Option<Vec<f64>> {
    let constant = value.constant.as_ref()?;
    let mut reals = constant.tensor.to_f64();
    if let Some(quantiser) = &constant.quantiser {
        for (real, scalar) in reals.iter_mut().zip(&quantiser.scalars(&value.shape)?) {
            *real = (*real - scalar.zero as f64) * scalar.scale;
        }
    }
    if let [real] = reals[..] {
        reals.resize(channels, real);
    }
    let finite = reals.iter().all(|&real| (real as f32).is_finite());
    (reals.len() == channels && finite).then_some(reals)
}

/// The same of an operand, where channels are along this axis of the result.
pub(crate) fn of_channels(
    graph: &Graph,
    node: &Node,
    operand: usize,
    channels: usize,
    axis: usize,
) -> Option<Vec<f64>> {
    let value = &graph[node.input(operand)?];
    let missing = graph[node.output].shape.len().checked_sub(value.shape.len())?;
    let mut long = (missing..).zip(&value.shape).filter(|&(_, &extent)| extent != 1);
    let fits = long.next().is_none_or(|long| long == (axis, &channels)) && long.next().is_none();
    numbers(value, channels).filter(|_| fits)
}

impl Rows {
    /// An operator with a constant for every channel, as a product that each channel has on its own.
    pub(crate) fn of_channels(
        graph: &Graph,
        node: &Node,
        binary: Binary,
        [channels, axis]: [usize; 2],
        (scale, zero): (f64, i32),
    ) -> Option<Rows> {
        let at = (0..2).find(|&at| node.input(at).is_some_and(|x| graph[x].constant.is_some()))?;
        let numbers = of_channels(graph, node, at, channels, axis)?;
        let (mut factors, mut addends) = (Vec::new(), Vec::new());
        for number in numbers {
            let (factor, addend) = affine(binary, at, number)?;
            let factor = scale * factor.unwrap_or(1.0);
            factors.push(factor as f32);
            addends.push((addend.unwrap_or(0.0) - factor * f64::from(zero)) as f32);
        }
        let (codes, channels) = (vec![1; channels], channels as u32);
        Some(Rows { channels, row: [1, 1, 1], codes, factors, addends })
    }

    /// The weights of a product whose input has this grid, and where its row has these extents. The
    /// bias is an operand of it or of the sum behind it.
    ///
    /// `None` for what [`check`] refuses, and a bias that is not one number per output channel.
    pub(crate) fn new(
        graph: &Graph,
        node: &Node,
        sum: Option<&Node>,
        row: Extents,
        (scale, zero): (f64, i32),
    ) -> Option<Rows> {
        let (value, quantiser) = operand(graph, node).ok()?;
        let axis = axis(node);
        let channels = value.shape[axis];
        let mut codes: Vec<i8> =
            integers(value, quantiser, axis)?.into_iter().map(|code| code as i8).collect();
        if axis == 1 {
            // Kernels of transposed convolutions are turned.
            let (inner, area) = (value.shape[0], value.shape[2..].iter().product::<usize>());
            let place = |at: usize| {
                let (block, point) = (at / area.max(1), at % area.max(1));
                (block % inner * channels + block / inner) * area + (area - 1 - point)
            };
            codes = (0..codes.len()).map(|at| codes[place(at)]).collect();
        }
        let (alpha, beta) = match &node.op {
            Op::Gemm(gemm) => (f64::from(gemm.alpha), f64::from(gemm.beta)),
            _ => (1.0, 1.0),
        };
        let scales = per_channel(&quantiser.scale, &value.shape, axis)?;
        let added = |sum: &Node| sum.operands().find(|&operand| graph[operand].constant.is_some());
        let bias = bias(graph, sum.map_or(node.input(2), added), channels)?;
        let length = codes.len() / channels.max(1);
        let (mut factors, mut addends) = (Vec::new(), Vec::new());
        for (k, codes) in codes.chunks_exact(length.max(1)).enumerate() {
            let sum: i64 = codes.iter().map(|&code| i64::from(code)).sum();
            let factor = scale * scales[k] * alpha;
            factors.push(factor as f32);
            addends.push((bias[k] * beta - factor * f64::from(zero) * sum as f64) as f32);
        }
        Some(Rows { channels: channels as u32, row, codes, factors, addends })
    }

    /// The same product when number i of every output channel lies at `places[i]` of an image, whose
    /// channels are innermost.
    #[must_use]
    pub(crate) fn reordered(mut self, places: &[usize]) -> Rows {
        let [c, r, s] = self.row.map(|extent| extent as usize);
        let (channels, area) = (c.max(1), r * s);
        for codes in self.codes.chunks_exact_mut((c * area).max(1)) {
            let old = codes.to_vec();
            for (&place, code) in places.iter().zip(old) {
                codes[place % channels * area + place / channels] = code;
            }
        }
        self
    }

    /// Bytes of an output channel in DRAM.
    pub(crate) fn bytes(&self) -> usize {
        let [c, r, s] = self.row.map(|extent| extent as usize);
        ceil8(c as u32) as usize * r * s + PARAMETER_BYTES as usize
    }

    /// Appends all output channels as DRAM holds them: for every kernel position the channels,
    /// padded to 8, then the parameters.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let [c, r, s] = self.row.map(|extent| extent as usize);
        let pixel = ceil8(c as u32) as usize;
        let area = r * s;
        for (k, codes) in self.codes.chunks_exact((c * area).max(1)).enumerate() {
            let start = out.len();
            out.resize(start + self.bytes(), 0);
            let row = &mut out[start..];
            for (channel, plane) in codes.chunks_exact(area.max(1)).enumerate() {
                for (position, &code) in plane.iter().enumerate() {
                    row[position * pixel + channel] = code as u8;
                }
            }
            let at = area * pixel;
            row[at..at + 4].copy_from_slice(&self.factors[k].to_le_bytes());
            row[at + 4..at + 8].copy_from_slice(&self.addends[k].to_le_bytes());
        }
    }

    /// The same product on an image whose pairs (or more) of columns are channels: the kernel is
    /// `before` columns wider on the left, and `fold` columns become one.
    #[must_use]
    pub(crate) fn folded(&self, fold: usize, before: usize) -> Rows {
        let [c, r, s] = self.row.map(|extent| extent as usize);
        let columns = (before + s).div_ceil(fold);
        let (channels, area) = (c * fold, r * columns);
        let mut codes = vec![0; self.codes.len() / (c * r * s).max(1) * channels * area];
        for (index, &code) in self.codes.iter().enumerate() {
            let (x, rest) = (index % s, index / s);
            let (y, rest) = (rest % r, rest / r);
            let (channel, k) = (rest % c, rest / c);
            let (column, inside) = ((x + before) / fold, (x + before) % fold);
            // Columns of an image lie behind each other, channels together.
            let to = ((k * channels + inside * c + channel) * r + y) * columns + column;
            codes[to] = code;
        }
        let row = [channels as u32, r as u32, columns as u32];
        let (factors, addends) = (self.factors.clone(), self.addends.clone());
        Rows { channels: self.channels, row, codes, factors, addends }
    }
}
