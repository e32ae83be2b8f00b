//! Random networks of every operator that the machine takes.
#![allow(dead_code, unreachable_pub, reason = "every test uses a part")]

use quincunx_graph::{
    Activation, ArgExtreme, BatchNorm, Binary, Compare, Constant, Conv, ConvTranspose, Coordinates,
    Gemm, Graph, Interpolation, Logic, Nearest, Op, Pad, PadMode, Param, Pool, PoolKind, Quantiser,
    Reduce, ReduceKind, Resize, ResizeTarget, SliceRange, Softmax, Unary, ValueId, Window,
};
use quincunx_num::{Overflow, Rounding};
use quincunx_tensor::{DType, Tensor, Tensors};

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn range(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as u64) as i64
    }

    pub fn coin(&mut self) -> bool {
        self.below(2) == 1
    }

    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}

/// Which operators, rounding and overflow modes a run of the generator used.
#[derive(Default)]
pub struct Coverage(pub std::collections::BTreeSet<String>);

pub struct Generator {
    pub random: Random,
    pub graph: Graph,
    count: usize,
    pub coverage: Coverage,
}

impl Generator {
    pub fn name(&mut self, base: &str) -> String {
        self.count += 1;
        format!("{base}{}", self.count)
    }

    pub fn node(&mut self, op: Op, inputs: &[ValueId]) -> ValueId {
        self.coverage.0.insert(op.name().to_owned());
        let inputs: Vec<_> = inputs.iter().map(|&i| Some(i)).collect();
        let name = self.name("node");
        self.graph.add_node(&name, op, &inputs, &format!("{name}_out")).unwrap()
    }

    pub fn shape(&self, value: ValueId) -> Vec<usize> {
        self.graph[value].shape.to_vec()
    }

    /// A fixed-point quantiser; scales may vary per channel, widths per element.
    pub fn quantiser(&mut self, shape: &[usize]) -> Quantiser {
        let random = &mut self.random;
        let channels = shape.get(1).copied().unwrap_or(1);
        let mut per_channel = vec![1; shape.len().saturating_sub(1)];
        if let Some(first) = per_channel.first_mut() {
            *first = channels;
        }
        let affine = random.below(3) == 0;
        let scale = |random: &mut Random| match affine {
            // Scales as calibration finds them: floats of 32 bits.
            true => f64::from(random.range(50, 900) as f32 / 777.0),
            false => 2.0_f64.powi(random.range(-4, 1) as i32),
        };
        let scale = match random.below(3) {
            0 if !per_channel.is_empty() => {
                let values = (0..channels).map(|_| scale(random)).collect();
                Param::new(&per_channel, values).unwrap()
            }
            _ => Param::uniform(scale(random)),
        };
        let elements: usize = shape.iter().product();
        let width = match random.below(4) {
            0 => Param::new(shape, (0..elements).map(|_| random.range(0, 7) as u32).collect())
                .unwrap(),
            _ => Param::uniform(random.range(1, 8) as u32),
        };
        let rounding = random.pick(&Rounding::ALL);
        let overflow = random.pick(&Overflow::ALL);
        let signed = random.coin();
        let zero = match (affine, width.as_uniform()) {
            (true, Some(width @ 1..)) if random.coin() => {
                let codes = 1_i64 << (width - u32::from(signed));
                random.range(if signed { -codes } else { 0 }, codes - 1)
            }
            _ => 0,
        };
        let quantiser = Quantiser {
            signed: Param::uniform(signed),
            width,
            scale,
            zero: Param::uniform(zero),
            rounding: Param::uniform(rounding),
            overflow: Param::uniform(overflow),
        };
        self.coverage.0.insert(rounding.to_string());
        self.coverage.0.insert(overflow.to_string());
        quantiser
    }

    pub fn quantised(&mut self, value: ValueId) -> ValueId {
        let quantiser = self.quantiser(&self.shape(value));
        self.node(Op::Quantise(quantiser), &[value])
    }

    /// Weights: codes with a quantiser, or plain dyadic numbers.
    pub fn constant(&mut self, shape: &[usize]) -> ValueId {
        let elements: usize = shape.iter().product();
        let codes: Vec<i64> = (0..elements).map(|_| self.random.range(-8, 7)).collect();
        let name = self.name("constant");
        if self.random.coin() {
            // Biases and factors of float models are long.
            let step = if self.random.below(4) == 0 { 0.0713 } else { 0.25 };
            let reals: Vec<f32> = codes.iter().map(|&c| c as f32 * step).collect();
            return self
                .graph
                .add_constant(&name, Tensor::from_vec(shape, reals).unwrap())
                .unwrap();
        }
        let tensor = Tensor::from_vec(shape, codes).unwrap();
        let scale = match self.random.below(3) {
            0 => f64::from(self.random.range(1, 99) as f32 / 123.0),
            _ => 2.0_f64.powi(self.random.range(-5, 0) as i32),
        };
        let mut quantiser = Quantiser::symmetric(true, 4, scale);
        // One scale per row, as for the channels of a layer.
        if shape.len() > 1 && self.random.below(3) == 0 {
            let mut per_row = vec![1; shape.len()];
            per_row[0] = shape[0];
            let scales = (0..shape[0]).map(|row| scale * f64::from(row as f32 + 1.5)).collect();
            quantiser.scale = Param::new(&per_row, scales).unwrap();
        }
        let quantiser = Some(quantiser);
        self.graph.add_constant(&name, Constant { tensor, quantiser }).unwrap()
    }

    pub fn window(&mut self, extents: &[usize], padding: bool) -> Window {
        let random = &mut self.random;
        let kernel: Vec<usize> =
            extents.iter().map(|&e| random.range(1, e.min(3) as i64) as usize).collect();
        let mut window = Window::new(&kernel);
        for axis in 0..kernel.len() {
            window.strides[axis] = random.range(1, 2) as usize;
            if padding && kernel[axis] > 1 {
                window.pads[axis] = (random.below(2) as usize, random.below(2) as usize);
            }
            let span = (kernel[axis] - 1) * 2 + 1;
            if random.below(4) == 0 && span <= extents[axis] {
                window.dilations[axis] = 2;
            }
        }
        window
    }

    pub fn layer(&mut self, x: ValueId) -> ValueId {
        let shape = self.shape(x);
        if self.random.below(5) == 0 {
            return self.special(x);
        }
        if shape.len() > 2 { self.image_layer(x, &shape) } else { self.vector_layer(x, &shape) }
    }

    fn image_layer(&mut self, x: ValueId, shape: &[usize]) -> ValueId {
        match self.random.below(13) {
            10 | 11 => self.movement(x),
            12 if shape.len() == 4 => self.transposed(x, shape),
            0 | 1 => {
                let window = self.window(&shape[2..], true);
                let groups = if shape[1].is_multiple_of(2) && self.random.coin() { 2 } else { 1 };
                let filters = groups * self.random.range(1, 2) as usize;
                let mut w_shape = vec![filters, shape[1] / groups];
                w_shape.extend(&window.kernel);
                let w = self.constant(&w_shape);
                let conv = Op::Conv(Conv { window, groups });
                if self.random.coin() {
                    let b = self.constant(&[filters]);
                    self.node(conv, &[x, w, b])
                } else {
                    self.node(conv, &[x, w])
                }
            }
            2 => {
                let window = self.window(&shape[2..], true);
                self.node(Op::Pool(Pool { kind: PoolKind::Max, window, ceil: false }), &[x])
            }
            3 => {
                let most = |e: usize| e.min(3) as i64;
                let kernel: Vec<usize> =
                    shape[2..].iter().map(|&e| self.random.range(1, most(e)) as usize).collect();
                let mut window = Window::new(&kernel);
                let pad = kernel[0] >= 2 && self.random.coin();
                window.pads[0] = (usize::from(pad), 0);
                let count_include_pad = self.random.coin();
                let kind = PoolKind::Average { count_include_pad };
                let ceil = self.random.coin();
                self.node(Op::Pool(Pool { kind, window, ceil }), &[x])
            }
            4 => self.node(Op::GlobalAveragePool, &[x]),
            5 => {
                let mut order: Vec<usize> = (0..shape.len()).collect();
                order[1..].rotate_left(1);
                self.node(Op::Transpose { order }, &[x])
            }
            6 => self.node(Op::Flatten { axis: 1 }, &[x]),
            7 => self.node(Op::GlobalMaxPool, &[x]),
            8 => self.reduction(x, &(2..shape.len()).collect::<Vec<_>>()),
            _ => self.elementwise(x),
        }
    }

    fn vector_layer(&mut self, x: ValueId, shape: &[usize]) -> ValueId {
        let features = shape[1];
        let out = self.random.range(1, 4) as usize;
        match self.random.below(5) {
            0 => {
                let transpose_b = self.random.coin();
                let w_shape = if transpose_b { [out, features] } else { [features, out] };
                let w = self.constant(&w_shape);
                let c = self.constant(&[out]);
                let alpha = self.random.pick(&[1.0, 0.5, -3.0]);
                let beta = self.random.pick(&[1.0, 2.0]);
                self.node(
                    Op::Gemm(Gemm { alpha, beta, transpose_a: false, transpose_b }),
                    &[x, w, c],
                )
            }
            1 => {
                let w = self.constant(&[features, out]);
                self.node(Op::MatMul, &[x, w])
            }
            2 => {
                let transposed = self.node(Op::Transpose { order: vec![1, 0] }, &[x]);
                let square = self.node(Op::MatMul, &[x, transposed]);
                self.node(Op::Reshape { shape: vec![1, -1] }, &[square])
            }
            3 if self.random.coin() => self.movement(x),
            3 => self.reduction(x, &[1]),
            _ => self.elementwise(x),
        }
    }

    /// A reduction of some of the given axes; channels may be joined with them.
    fn reduction(&mut self, x: ValueId, choices: &[usize]) -> ValueId {
        let shape = self.shape(x);
        let mut axes: Vec<usize> = choices.iter().copied().filter(|_| self.random.coin()).collect();
        if self.random.below(4) == 0 && !axes.contains(&1) {
            axes.push(1);
        }
        let count: usize = axes.iter().map(|&axis| shape[axis]).product();
        let kinds = [
            ReduceKind::Sum,
            ReduceKind::Max,
            ReduceKind::Min,
            ReduceKind::Mean,
            ReduceKind::L1,
            ReduceKind::SumSquare,
            ReduceKind::Prod,
        ];
        let known = if count <= 3 { 7 } else { 6 };
        let kind = kinds[self.random.below(known) as usize];
        self.node(Op::Reduce(Reduce { kind, axes, keep_dims: true }), &[x])
    }

    /// Operators that move elements; the batch axis stays.
    fn movement(&mut self, x: ValueId) -> ValueId {
        let shape = self.shape(x);
        let axis = self.random.range(1, shape.len() as i64 - 1) as usize;
        let extent = shape[axis] as i64;
        match self.random.below(7) {
            0 => {
                let other =
                    if self.random.coin() { self.constant(&shape) } else { self.quantised(x) };
                self.node(Op::Concat { axis }, &[other, x, other])
            }
            1 => {
                let step = self.random.pick(&[1, 2, -1, -2]);
                let start = self.random.range(-extent - 1, extent - 1);
                let (end, ranges) = (if step > 0 { i64::MAX } else { i64::MIN }, axis);
                let range = SliceRange { axis: ranges, start, end, step };
                self.node(Op::Slice { ranges: vec![range] }, &[x])
            }
            2 => {
                let modes = [
                    PadMode::Constant(0.0),
                    PadMode::Constant(-1.25),
                    PadMode::Edge,
                    PadMode::Reflect,
                    PadMode::Wrap,
                ];
                let mode = self.random.pick(&modes);
                let mut pads = vec![(0, 0); shape.len()];
                pads[axis] = (self.random.range(0, 3), self.random.range(1 - extent, 2));
                self.node(Op::Pad(Pad { pads: pads.into_iter().collect(), mode }), &[x])
            }
            3 => {
                let count = self.random.range(1, 3) as usize;
                let indices = (0..count).map(|_| self.random.range(-extent, extent - 1)).collect();
                let name = self.name("indices");
                let indices = Tensor::from_vec(&[count], indices).unwrap();
                let indices = self.graph.add_constant(&name, indices).unwrap();
                self.node(Op::Gather { axis }, &[x, indices])
            }
            4 => {
                let mut repeats = vec![1; shape.len()];
                repeats[axis] = 2;
                self.node(Op::Tile { repeats }, &[x])
            }
            5 => {
                let range = SliceRange { axis, start: 0, end: 1, step: 1 };
                let first = self.node(Op::Slice { ranges: vec![range] }, &[x]);
                self.node(Op::Expand { shape: shape.clone() }, &[first])
            }
            _ => {
                let nearest =
                    self.random.pick(&[Nearest::Floor, Nearest::Ceil, Nearest::RoundPreferCeil]);
                let coordinates =
                    self.random.pick(&[Coordinates::HalfPixel, Coordinates::AlignCorners]);
                let resize = Resize {
                    axes: vec![axis],
                    target: ResizeTarget::Sizes(vec![self.random.range(1, 5) as usize]),
                    coordinates,
                    interpolation: Interpolation::Nearest(nearest),
                    exclude_outside: false,
                    roi: vec![],
                };
                self.node(Op::Resize(resize), &[x])
            }
        }
    }

    fn transposed(&mut self, x: ValueId, shape: &[usize]) -> ValueId {
        let kernel = [self.random.range(1, 2) as usize, self.random.range(1, 3) as usize];
        let mut window = Window::new(&kernel);
        window.strides[0] = self.random.range(1, 2) as usize;
        window.dilations[1] = self.random.range(1, 2) as usize;
        let groups = if shape[1].is_multiple_of(2) && self.random.coin() { 2 } else { 1 };
        let filters = self.random.range(1, 2) as usize;
        let w = self.constant(&[shape[1], filters, kernel[0], kernel[1]]);
        let b = self.constant(&[filters * groups]);
        let output_padding = [self.random.below(2) as usize, 0].as_slice().into();
        let conv = ConvTranspose { window, groups, output_padding };
        let inputs = if self.random.coin() { vec![x, w, b] } else { vec![x, w] };
        self.node(Op::ConvTranspose(conv), &inputs)
    }

    /// Operators with parameters.
    fn activation(&mut self, x: ValueId) -> ValueId {
        let shape = self.shape(x);
        let slopes = [0.0, 0.5, 0.125, -0.75, 1.0, 2.5, 0.01, 0.1];
        match self.random.below(5) {
            0 => {
                let alpha = self.random.pick(&slopes);
                self.node(Op::Activation(Activation::LeakyRelu { alpha }), &[x])
            }
            1 => {
                let alpha = self.random.pick(&[0.25, -0.5, 3.0, 0.2]);
                let beta = self.random.pick(&[0.5, 0.0, 1.5, -0.25]);
                self.node(Op::Activation(Activation::HardSigmoid { alpha, beta }), &[x])
            }
            2 => {
                let limits = [None, Some(0.0), Some(-1.5), Some(6.0), Some(0.3)];
                let min = self.random.pick(&limits);
                let max = self.random.pick(&limits);
                self.node(Op::Activation(Activation::Clip { min, max }), &[x])
            }
            3 => {
                let mut per_channel = vec![1; shape.len() - 1];
                per_channel[0] = shape[1];
                let slope = self.constant(&per_channel);
                self.node(Op::PRelu, &[x, slope])
            }
            _ => {
                let count = shape.iter().product();
                let bits = (0..count).map(|_| u8::from(self.random.coin())).collect::<Vec<u8>>();
                let condition = Tensor::new(DType::Bool, &shape, bits.into()).unwrap();
                let name = self.name("condition");
                let condition = self.graph.add_constant(&name, condition).unwrap();
                let other = self.quantised(x);
                self.node(Op::Where, &[condition, x, other])
            }
        }
    }

    /// A grid of few and close codes: what functions are looked up on.
    fn short(&mut self, x: ValueId) -> ValueId {
        let scale = self.random.pick(&[0.125, 0.25, f64::from(0.07_f32)]);
        let quantiser = Quantiser::symmetric(self.random.coin(), 6, scale);
        self.node(Op::Quantise(quantiser), &[x])
    }

    /// Operators that need a quantiser before or after them.
    fn special(&mut self, x: ValueId) -> ValueId {
        let shape = self.shape(x);
        match self.random.below(8) {
            0 => {
                let x = self.short(x);
                let y = self.function(x);
                self.quantised(y)
            }
            // A function times its operand.
            1 => {
                let x = self.short(x);
                let y = self.function(x);
                let product = self.node(Op::Binary(Binary::Mul), &[x, y]);
                self.quantised(product)
            }
            2 => {
                let whole = [Unary::Floor, Unary::Ceil, Unary::Round, Unary::Sign];
                let unary = self.random.pick(&whole);
                let y = self.node(Op::Unary(unary), &[x]);
                self.quantised(y)
            }
            3 => self.chosen(x),
            4 => {
                let x = self.short(x);
                let axis = self.random.range(1, shape.len() as i64 - 1) as usize;
                let y = self.node(Op::Softmax(Softmax { axis, log: false }), &[x]);
                self.quantised(y)
            }
            5 => {
                let x = self.short(x);
                let axis = self.random.range(1, shape.len() as i64 - 1) as usize;
                let (largest, last) = (self.random.coin(), self.random.coin());
                let arg = ArgExtreme { largest, axis, keep_dims: true, last };
                let y = self.node(Op::ArgExtreme(arg), &[x]);
                self.node(Op::Cast { to: DType::F32 }, &[y])
            }
            6 => {
                let parameters: Vec<ValueId> = (0..4)
                    .map(|index| {
                        let low = if index == 3 { 1 } else { -20 };
                        let value = |random: &mut Random| random.range(low, 20) as f32 / 9.0;
                        let values = (0..shape[1]).map(|_| value(&mut self.random)).collect();
                        let tensor = Tensor::from_vec::<f32>(&[shape[1]], values).unwrap();
                        let name = self.name("parameter");
                        self.graph.add_constant(&name, tensor).unwrap()
                    })
                    .collect();
                let x = self.short(x);
                let operands = [&[x], &parameters[..]].concat();
                let y = self.node(Op::BatchNorm(BatchNorm { epsilon: 1e-5 }), &operands);
                self.quantised(y)
            }
            _ => {
                // Codes leave and come back.
                let quantiser = self.quantiser(&shape);
                let quantiser =
                    Quantiser { width: Param::uniform(7), zero: Param::uniform(3), ..quantiser };
                let codes = self.node(Op::ToCodes(quantiser.clone()), &[x]);
                self.node(Op::FromCodes(quantiser), &[codes])
            }
        }
    }

    /// A function without an exact result, of numbers it is defined for.
    fn function(&mut self, x: ValueId) -> ValueId {
        let functions = [
            Unary::Exp,
            Unary::Erf,
            Unary::Sigmoid,
            Unary::HardSwish,
            Unary::Tanh,
            Unary::Gelu,
            Unary::GeluTanh,
            Unary::Softplus,
            Unary::Sin,
            Unary::Cos,
            Unary::Atan,
        ];
        match self.random.below(5) {
            0 => {
                let activation = match self.random.coin() {
                    true => Activation::Elu { alpha: 0.8 },
                    false => Activation::Selu { alpha: 1.67, gamma: 1.05 },
                };
                self.node(Op::Activation(activation), &[x])
            }
            1 => {
                // From 1 on, a root, a logarithm, an inverse and a power are defined.
                let squares = self.node(Op::Binary(Binary::Mul), &[x, x]);
                let one = Tensor::from_vec(&[1], vec![1.0_f32]).unwrap();
                let name = self.name("one");
                let one = self.graph.add_constant(&name, one).unwrap();
                let positive = self.node(Op::Binary(Binary::Add), &[squares, one]);
                let positive = self.quantised_from_one(positive);
                match self.random.below(4) {
                    0 => self.node(Op::Unary(Unary::Sqrt), &[positive]),
                    1 => self.node(Op::Unary(Unary::Log), &[positive]),
                    2 => self.node(Op::Unary(Unary::Reciprocal), &[positive]),
                    _ => {
                        let power = Tensor::from_vec(&[1], vec![self.random.pick(&[2.0_f32, 0.7])]);
                        let name = self.name("power");
                        let power = self.graph.add_constant(&name, power.unwrap()).unwrap();
                        self.node(Op::Binary(Binary::Pow), &[positive, power])
                    }
                }
            }
            _ => {
                let unary = self.random.pick(&functions);
                self.node(Op::Unary(unary), &[x])
            }
        }
    }

    /// Numbers from 1 to 16.
    fn quantised_from_one(&mut self, x: ValueId) -> ValueId {
        let quantiser = Quantiser::symmetric(false, 6, 0.25);
        let clip = Activation::Clip { min: Some(1.0), max: None };
        let x = self.node(Op::Quantise(quantiser), &[x]);
        self.node(Op::Activation(clip), &[x])
    }

    /// A choice by comparisons.
    fn chosen(&mut self, x: ValueId) -> ValueId {
        let shape = self.shape(x);
        let (y, limit) = (self.quantised(x), self.constant(&shape));
        let compares = [
            Compare::Equal,
            Compare::Less,
            Compare::LessOrEqual,
            Compare::Greater,
            Compare::GreaterOrEqual,
        ];
        let first = self.random.pick(&compares);
        let first = self.node(Op::Compare(first), &[x, limit]);
        let second = self.random.pick(&compares);
        let second = self.node(Op::Compare(second), &[x, y]);
        let logic = self.random.pick(&[Logic::And, Logic::Or, Logic::Xor]);
        let mut truth = self.node(Op::Logic(logic), &[first, second]);
        if self.random.coin() {
            truth = self.node(Op::Unary(Unary::Not), &[truth]);
        }
        if self.random.below(3) == 0 {
            return self.node(Op::Cast { to: DType::F32 }, &[truth]);
        }
        self.node(Op::Where, &[truth, x, y])
    }

    fn elementwise(&mut self, x: ValueId) -> ValueId {
        let shape = self.shape(x);
        match self.random.below(13) {
            0 => self.node(Op::Unary(Unary::Relu), &[x]),
            1 => self.node(Op::Unary(Unary::Neg), &[x]),
            2 => self.node(Op::Unary(Unary::Abs), &[x]),
            3 => self.node(Op::Identity, &[x]),
            4 => {
                let values: Vec<f32> = (0..shape[1])
                    .map(|_| self.random.pick(&[0.5, 2.0, -1.0, -4.0, 3.0, -0.3]))
                    .collect();
                let mut per_channel = vec![1; shape.len() - 1];
                per_channel[0] = shape[1];
                let name = self.name("divisor");
                let d = self
                    .graph
                    .add_constant(&name, Tensor::from_vec(&per_channel, values).unwrap())
                    .unwrap();
                self.node(Op::Binary(Binary::Div), &[x, d])
            }
            10.. => self.activation(x),
            n => {
                let binary = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Max, Binary::Min]
                    [n as usize - 5];
                let y = if self.random.coin() { self.constant(&shape) } else { self.quantised(x) };
                let (a, b) = if self.random.coin() { (x, y) } else { (y, x) };
                self.node(Op::Binary(binary), &[a, b])
            }
        }
    }
}

pub fn random_graph(seed: u64) -> (Graph, Coverage) {
    let random = Random(seed);
    let mut g =
        Generator { random, graph: Graph::new("random"), count: 0, coverage: Coverage::default() };
    // Vectors, and images of one, two or three dimensions.
    let rank = g.random.pick(&[2, 2, 3, 4, 4, 4, 5]);
    let mut shape = vec![1, g.random.range(1, if rank == 2 { 6 } else { 3 }) as usize];
    for _ in 2..rank {
        shape.push(g.random.range(1, if rank == 5 { 2 } else { 4 }) as usize);
    }
    let x = g.graph.add_input("x", DType::F32, &shape, &[]).unwrap();
    let mut value = g.quantised(x);
    for _ in 0..g.random.range(1, 5) {
        value = g.layer(value);
        if g.random.coin() {
            value = g.quantised(value);
        }
    }
    g.graph.add_output(value);
    (g.graph, g.coverage)
}

pub fn samples(graph: &Graph, random: &mut Random) -> Tensors {
    let id = graph.inputs()[0];
    let shape = &graph[id].shape;
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|_| random.range(-300, 300) as f32 / 32.0).collect();
    Tensors::from([(graph[id].name.clone(), Tensor::from_vec(shape, values).unwrap())])
}
