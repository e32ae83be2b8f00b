//! The constants of products: whole numbers with the meaning of their sums.
//!
//! Ours. Zero points of inputs and the whole part of a bias become an addend of the sums, those of
//! weights are taken off the codes.

use super::kernel::narrow::Narrow;
use super::layers::{Codes, Form, Frame, Numbers, Reason};
use crate::program::Element;
use quincunx_graph::{Graph, Node, Op, Param, PoolKind, Quantiser, Scalar, Value, ValueId};
use quincunx_num::{Bf16, Dyadic, F16, FloatOverflow};

/// What a layer multiplies with.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Product {
    /// Groups of channels.
    pub(super) groups: usize,
    /// Input channels of a group.
    pub(super) inputs: usize,
    /// Output channels of all groups.
    pub(super) outputs: usize,
    /// For every output channel the rows and columns of the window, and the group's input channels
    /// innermost: the bits of codes or floats.
    pub(super) weights: Vec<u32>,
    /// Bits of the smallest codes that hold all of them: 8, 4 or 2. Floats count as bytes.
    pub(super) weight_bits: usize,
    /// Floats that fewer bits hold exactly.
    pub(super) narrow: Option<Narrow>,
    /// What is added to the sums of every output channel: whole numbers, or bits of f32.
    pub(super) addends: Vec<i32>,
    /// What whole sums of every output channel mean; none of floats.
    pub(super) sums: Vec<Sum>,
    /// Factors of sums of floats, for every output channel; none without.
    pub(super) factors: Vec<f32>,
    /// What is added to sums of floats behind their factors, for every output channel; none without.
    pub(super) biases: Vec<f32>,
}

impl Product {
    /// Multiplies sums of floats.
    pub(super) fn times(&mut self, factor: f32) {
        match self.factors.is_empty() {
            true => self.factors = vec![factor; self.outputs],
            false => self.factors.iter_mut().for_each(|own| *own *= factor),
        }
        self.biases.iter_mut().for_each(|bias| *bias *= factor);
    }
}

/// What the sum of an output channel means: `(sum - whole) * scale + bias`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sum {
    /// The scale is the product of these, over the divisor.
    pub(super) scales: [f64; 2],
    /// Divisor.
    pub(super) divisor: u32,
    /// Bias in real numbers: the product of these, which f64 need not hold.
    pub(super) bias: [f64; 2],
    /// The part of it that is in the sum.
    pub(super) whole: i32,
}

impl Sum {
    /// What is missing in the sum, in real numbers.
    pub(super) fn rest(&self) -> Dyadic {
        let exact = |x: f64| Dyadic::from_f64(x).unwrap_or(Dyadic::ZERO);
        let [a, b] = self.scales.map(exact);
        let [code, step] = self.bias.map(exact);
        code.mul(&step).add(&exact(-f64::from(self.whole)).mul(&a).mul(&b))
    }
}

/// The product that a node is.
pub(super) fn product(
    graph: &Graph,
    node: &Node,
    bias: Option<ValueId>,
    form: &Form,
    frame: &Frame,
) -> Reason<Product> {
    let [_, _, channels] = form.extents;
    let divisor = match &node.op {
        Op::GlobalAveragePool => frame.kernel[0] * frame.kernel[1],
        Op::Pool(pool) => {
            let padded = (frame.before, frame.behind) != ([0, 0], [0, 0]);
            let is_even = pool.kind == PoolKind::Average { count_include_pad: true } && !pool.ceil;
            if padded && !is_even {
                return Err("its windows divide by different numbers".to_owned());
            }
            frame.kernel[0] * frame.kernel[1]
        }
        Op::Conv(_) | Op::Gemm(_) | Op::MatMul => {
            return of_weights(graph, node, bias, form, frame);
        }
        _ => 1,
    };
    let divisor = u32::try_from(divisor).map_err(|_| "its window is too large")?;
    let area = frame.kernel[0] * frame.kernel[1];
    let product = |one: u32, sums: Vec<Sum>| Product {
        groups: channels,
        inputs: 1,
        outputs: channels,
        weights: vec![one; channels * area],
        weight_bits: 8,
        narrow: None,
        addends: vec![0; channels],
        sums,
        factors: if divisor == 1 { Vec::new() } else { vec![1.0 / divisor as f32; channels] },
        biases: Vec::new(),
    };
    match form.numbers {
        Numbers::Floats(element) => Ok(product(float_bits(1.0, element), Vec::new())),
        _ => {
            let codes = form.codes()?;
            let sum = Sum { scales: [codes.scale, 1.0], divisor, bias: [0.0; 2], whole: 0 };
            product(1, vec![sum; channels]).with_zero(codes)
        }
    }
}

/// The bits of a float in a type, rounded to the nearest, ties to even.
fn float_bits(real: f64, element: Element) -> u32 {
    match element {
        Element::Bf => Bf16::from_f64(real, FloatOverflow::Infinity).map_or(0, Bf16::to_bits),
        Element::Hf => F16::from_f64(real, FloatOverflow::Infinity).map_or(0, F16::to_bits),
        _ => (real as f32).to_bits(),
    }
}

/// The float that has these bits in a type.
pub(super) fn real(bits: u32, element: Element) -> f64 {
    match element {
        Element::Bf => f32::from_bits(bits << 16).into(),
        Element::Hf => F16::from_bits(bits).to_f64(),
        _ => f32::from_bits(bits).into(),
    }
}

/// What a node multiplies with, whatever its numbers are.
struct Operand<'g> {
    value: &'g Value,
    /// Axis of the output channels.
    axis: usize,
    groups: usize,
    outputs: usize,
    inputs: usize,
    area: usize,
}

impl<'g> Operand<'g> {
    fn new(graph: &'g Graph, node: &Node, form: &Form, frame: &Frame) -> Reason<Operand<'g>> {
        let value = node.input(1).map(|id| &graph[id]).ok_or("an operand is missing")?;
        if value.constant.is_none() {
            return Err("its weights are not constant".to_owned());
        }
        let (axis, groups) = match &node.op {
            Op::Conv(conv) => (0, conv.groups),
            Op::Gemm(gemm)
                if gemm.alpha != 1.0 || (gemm.beta != 1.0 && node.input(2).is_some()) =>
            {
                return Err("it has factors besides those of its grids".to_owned());
            }
            Op::Gemm(gemm) if gemm.transpose_b => (0, 1),
            _ if value.shape.len() != 2 => return Err("its right operand is no matrix".to_owned()),
            _ => (1, 1),
        };
        let (outputs, count) = (value.shape[axis], value.shape.iter().product::<usize>());
        let area = frame.kernel[0] * frame.kernel[1];
        let inputs = count / outputs.max(1) / area.max(1);
        if inputs * groups != form.extents[2] || inputs * area * outputs != count {
            return Err("its weights do not fit its operand".to_owned());
        }
        Ok(Operand { value, axis, groups, outputs, inputs, area })
    }

    /// Zeros and scales of all output channels, if each has one grid.
    fn grids(&self, quantiser: &Quantiser) -> Option<(Vec<i64>, Vec<f64>)> {
        let shape = &self.value.shape;
        let zeros = per_channel(&quantiser.zero, shape, self.axis)?;
        Some((zeros, per_channel(&quantiser.scale, shape, self.axis)?))
    }

    /// Scales of all output channels, of codes of at most 8 bits that have one grid each.
    fn scales(&self) -> Option<Vec<f64>> {
        let quantiser = self.value.constant.as_ref()?.quantiser.as_ref()?;
        let is_small = quantiser.width.values().iter().all(|&width| width <= 8);
        let (_, scales) = self.grids(quantiser).filter(|_| is_small)?;
        let are_normal = scales.iter().all(|&scale| (scale as f32).is_normal());
        are_normal.then_some(scales)
    }

    /// The places of the weights of all output channels, one after the other: of every position of
    /// the window the input channels. Positions are innermost in the graph, but for the rows of a
    /// matrix.
    fn places(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let (length, outputs) = (self.inputs * self.area, self.outputs);
        let place = move |channel: usize, at: usize| match self.axis {
            0 => channel * length + at,
            _ => at * outputs + channel,
        };
        (0..outputs).flat_map(move |channel| {
            (0..self.area).flat_map(move |position| {
                let at = move |input: usize| place(channel, input * self.area + position);
                (0..self.inputs).map(move |input| (channel, at(input)))
            })
        })
    }
}

fn of_weights(
    graph: &Graph,
    node: &Node,
    bias: Option<ValueId>,
    form: &Form,
    frame: &Frame,
) -> Reason<Product> {
    let operand = Operand::new(graph, node, form, frame)?;
    let Operand { value, axis, groups, outputs, inputs, .. } = operand;
    let biases = biases(graph, node, bias, outputs)?;
    if let Numbers::Floats(element) = form.numbers {
        return of_floats(&operand, &biases, element);
    }
    let Some((constant, quantiser)) =
        value.constant.as_ref().and_then(|constant| Some((constant, constant.quantiser.as_ref()?)))
    else {
        return Err("its weights are not quantised".to_owned());
    };
    if per_channel(&quantiser.width, &value.shape, axis).is_none_or(|w| w.iter().any(|&w| w > 8)) {
        return Err("its weights have codes of more than 8 bits".to_owned());
    }
    let (zeros, scales) = operand
        .grids(quantiser)
        .ok_or("the grid of its weights differs within an output channel")?;
    let numbers = constant.tensor.to_i64().ok_or("its weights are no codes")?;
    let code = |(channel, at): (usize, usize)| i8::try_from(numbers[at] - zeros[channel]);
    let weights = operand.places().map(|place| code(place).map(|code| code as u8 as u32));
    let weights = weights.collect::<Result<Vec<u32>, _>>();
    let weights = weights.map_err(|_| "its weights, less their zero points, leave 8 bits")?;
    let input = form.codes()?;
    let sum = |(&scale, &bias): (&f64, &[f64; 2])| {
        let whole = (bias[0] * bias[1] / (input.scale * scale)).round();
        if whole.abs() > f64::from(1 << 30) {
            return Err("its bias leaves 32 bits".to_owned());
        }
        Ok(Sum { scales: [input.scale, scale], divisor: 1, bias, whole: whole as i32 })
    };
    let sums = scales.iter().zip(&biases).map(sum).collect::<Reason<Vec<Sum>>>()?;
    let addends = sums.iter().map(|sum| sum.whole).collect();
    let product = Product {
        groups,
        inputs,
        outputs,
        weights,
        weight_bits: 8,
        narrow: None,
        addends,
        sums,
        factors: Vec::new(),
        biases: Vec::new(),
    };
    product.with_zero(input)
}

/// Weights as floats: codes of at most 8 bits are whole numbers, with the scales as factors.
fn of_floats(operand: &Operand<'_>, biases: &[[f64; 2]], element: Element) -> Reason<Product> {
    let &Operand { value, groups, outputs, inputs, .. } = operand;
    let exact = |[code, step]: [f64; 2]| code * step;
    let mut reals = reals(value).ok_or("its weights are not finite")?;
    let scales = operand.scales();
    if scales.is_some() {
        reals.iter_mut().for_each(|[_, step]| *step = 1.0);
    }
    let weights: Vec<u32> =
        operand.places().map(|(_, at)| float_bits(exact(reals[at]), element)).collect();
    let narrow = Narrow::of(weights.iter().map(|&bits| real(bits, element)));
    let biases: Vec<f32> = biases.iter().map(|&bias| exact(bias) as f32).collect();
    let has_bias = biases.iter().any(|&bias| bias != 0.0);
    let (addends, biases) = match scales {
        Some(_) => (vec![0.0; outputs], if has_bias { biases } else { Vec::new() }),
        None => (biases, Vec::new()),
    };
    let factors = scales.unwrap_or_default().into_iter().map(|scale| scale as f32).collect();
    let addends = addends.into_iter().map(|addend: f32| addend.to_bits() as i32).collect();
    let sums = Vec::new();
    Ok(Product {
        groups,
        inputs,
        outputs,
        weights,
        weight_bits: 8,
        narrow,
        addends,
        sums,
        factors,
        biases,
    })
}

/// The value of a parameter for every output channel; `None` when it varies otherwise.
fn per_channel<T: Copy + PartialEq>(
    param: &Param<T>,
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

/// The real numbers of a bias, one per output channel, as exact products of two: an operand of the
/// node, or a constant that is added behind it.
fn biases(
    graph: &Graph,
    node: &Node,
    behind: Option<ValueId>,
    channels: usize,
) -> Reason<Vec<[f64; 2]>> {
    let Some(id) = behind.or(node.input(2)) else { return Ok(vec![[0.0; 2]; channels]) };
    let value = &graph[id];
    let reals = reals(value).ok_or("its bias is not constant")?;
    // Behind a convolution, positions follow the channels.
    let inner = match (&node.op, behind) {
        (Op::Conv(conv), Some(_)) => conv.window.rank(),
        _ => 0,
    };
    let axis = value.shape.len().checked_sub(inner + 1);
    let is_row = axis.is_some_and(|axis| value.shape[axis] == channels);
    match reals[..] {
        [one] => Ok(vec![one; channels]),
        _ if is_row && reals.len() == channels => Ok(reals),
        _ => Err("its bias is not one number per output channel".to_owned()),
    }
}

/// The real numbers of a constant: codes less their zeros, and the scales.
pub(super) fn reals(value: &Value) -> Option<Vec<[f64; 2]>> {
    let constant = value.constant.as_ref()?;
    let numbers = constant.tensor.to_f64();
    let reals: Vec<[f64; 2]> = match &constant.quantiser {
        None => numbers.into_iter().map(|real| [real, 1.0]).collect(),
        Some(quantiser) => {
            let scalars = quantiser.scalars(&value.shape)?;
            let real = |(code, scalar): (f64, &Scalar)| [code - scalar.zero as f64, scalar.scale];
            numbers.into_iter().zip(&scalars).map(real).collect()
        }
    };
    reals.iter().flatten().all(|real| real.is_finite()).then_some(reals)
}

impl Product {
    /// Takes the zero point of the input into the addends, checks that sums stay in 32 bits, and finds how
    /// many bits the weights need.
    fn with_zero(mut self, codes: Codes) -> Reason<Product> {
        let length = (self.weights.len() / self.outputs.max(1)).max(1);
        let [low, high] = codes.range();
        let largest = i64::from(low.abs().max(high.abs()));
        let (mut least, mut greatest) = (0, 0);
        for (channel, weights) in self.weights.chunks_exact(length).enumerate() {
            let (mut sum, mut most) = (0i64, 0i64);
            for &weight in weights {
                let weight = i64::from(weight as u8 as i8);
                (least, greatest) = (weight.min(least), weight.max(greatest));
                sum += weight;
                most += weight.abs();
            }
            let addend = i64::from(self.addends[channel]) - sum * i64::from(codes.zero);
            if most * largest + addend.abs() > i64::from(i32::MAX) {
                return Err("its sums can leave 32 bits".to_owned());
            }
            self.addends[channel] = addend as i32;
        }
        self.weight_bits = match (least, greatest) {
            (-2.., ..=1) => 2,
            (-8.., ..=7) => 4,
            _ => 8,
        };
        Ok(self)
    }
}
