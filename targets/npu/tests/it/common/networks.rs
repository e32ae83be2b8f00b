//! Random networks of what the machine computes, quantised as float models are.

use super::Random;
use quincunx_graph::execute::{Keep, Session, Settings};
use quincunx_graph::passes::{Scheme, calibrate, quantise};
use quincunx_graph::{
    Activation, Binary, Conv, Coordinates, Gemm, Graph, Interpolation, LayerNorm, Nearest, Op,
    Pool, PoolKind, Resize, ResizeTarget, Softmax, Unary, ValueId, Window,
};
use quincunx_tensor::{DType, Tensor, Tensors};
use std::collections::BTreeSet;

/// How large a network is.
#[derive(Clone, Copy)]
pub struct Size {
    /// Most channels of the input and of filters.
    pub channels: usize,
    /// Fewest and most rows and columns of the input.
    pub extent: [usize; 2],
    /// Largest batch.
    pub batch: usize,
    /// Fewest and most layers before the head.
    pub layers: [usize; 2],
}

impl Size {
    /// All values lie in L2 together.
    pub const SMALL: Size = Size { channels: 40, extent: [4, 14], batch: 4, layers: [2, 8] };
    /// Values and weights that the small machine must cut.
    pub const LARGE: Size = Size { channels: 256, extent: [20, 36], batch: 4, layers: [3, 6] };
}

/// A quantised network with numbers for its inputs, and what occurs in it.
pub struct Network {
    pub graph: Graph,
    pub samples: Vec<Tensors>,
    pub features: BTreeSet<&'static str>,
}

/// A network, on grids of 8 bits that cover what its samples make of it.
pub fn network(random: &mut Random, size: Size) -> Network {
    let mut net = Net {
        random,
        size,
        graph: Graph::new("random"),
        features: BTreeSet::new(),
        count: 0,
        images: Vec::new(),
    };
    net.body();
    let Net { random, graph, features, .. } = net;
    Network { features, ..calibrated(graph, random) }
}

/// A float graph on grids of 8 bits that cover what random samples make of it.
pub fn calibrated(graph: Graph, random: &mut Random) -> Network {
    let sample = |random: &mut Random| {
        let inputs = graph.inputs().iter().map(|&id| &graph[id]);
        inputs.map(|x| (x.name.clone(), random.tensor(&x.shape, 2.0))).collect::<Tensors>()
    };
    let samples: Vec<Tensors> = (0..2).map(|_| sample(random)).collect();
    let ranges = calibrate(&graph, samples.iter().cloned()).unwrap();
    let graph = quantise(&graph, &ranges, &Scheme::AFFINE_INT8).unwrap();
    assert!(graph.verify().is_empty(), "{:?}\n{graph}", graph.verify());
    Network { graph, samples, features: BTreeSet::new() }
}

/// What the graph's executor makes of a network.
pub fn reference(graph: &Graph, inputs: &Tensors) -> Tensors {
    let settings = Settings { keep: Keep::All, ..Settings::default() };
    Session::new(graph, settings).unwrap().run(inputs).unwrap()
}

struct Net<'a> {
    random: &'a mut Random,
    size: Size,
    graph: Graph,
    features: BTreeSet<&'static str>,
    count: usize,
    /// Images that can be read again.
    images: Vec<ValueId>,
}

impl Net<'_> {
    fn note(&mut self, feature: &'static str, occurs: bool) {
        if occurs {
            self.features.insert(feature);
        }
    }

    fn shape(&self, value: ValueId) -> [usize; 4] {
        self.graph[value].shape[..].try_into().unwrap()
    }

    fn node(&mut self, op: Op, inputs: &[ValueId]) -> ValueId {
        self.count += 1;
        self.features.insert(op.name());
        let inputs: Vec<Option<ValueId>> = inputs.iter().copied().map(Some).collect();
        let name = format!("n{}", self.count);
        self.graph.add_node(&name, op, &inputs, &format!("{name}_out")).unwrap()
    }

    /// Numbers of this magnitude.
    fn numbers(&mut self, shape: &[usize], magnitude: f64) -> ValueId {
        self.count += 1;
        let tensor = self.random.tensor(shape, magnitude);
        self.graph.add_constant(&format!("c{}", self.count), tensor).unwrap()
    }

    fn body(&mut self) {
        let Size { channels, extent: [low, high], batch, layers } = self.size;
        let shape = [
            self.random.range(1, batch),
            self.random.range(1, channels),
            self.random.range(low, high),
            self.random.range(low, high),
        ];
        self.note("batch", shape[0] > 1);
        let x = match self.random.chance(15) {
            true => {
                let [n, c, h, w] = shape;
                let x = self.graph.add_input("x", DType::F32, &[n, h * w, c], &[]).unwrap();
                let x = self.products(x);
                self.image_of(x, h, w)
            }
            false => self.graph.add_input("x", DType::F32, &shape, &[]).unwrap(),
        };
        self.images.push(x);
        for _ in 0..self.random.range(layers[0], layers[1]) {
            let last = *self.images.last().unwrap();
            let x = if self.random.chance(80) { last } else { self.random.pick(&self.images) };
            let y = self.layer(x);
            self.images.push(y);
        }
        let last = *self.images.last().unwrap();
        let y = self.head(last);
        self.graph.add_output(y);
        let readers = self.graph.consumers();
        for image in self.images.clone() {
            let is_read = !readers[image.index()].is_empty();
            let is_output = self.graph[image].producer.is_some() && image != y;
            if is_output && (!is_read || self.random.chance(10)) {
                self.note("several outputs", true);
                self.graph.add_output(image);
            }
        }
    }

    fn layer(&mut self, x: ValueId) -> ValueId {
        match self.random.below(19) {
            0..6 => {
                let y = self.convolution(x);
                self.activated(y)
            }
            6..9 => self.sum(x),
            9 => self.pool(x),
            10 => self.node(Op::Unary(Unary::Relu), &[x]),
            11 => self.node(Op::Identity, &[x]),
            12 => self.joined(x),
            13 => self.tokens(x),
            14 => self.enlarged(x),
            15..17 => self.function(x),
            17 => self.with_constant(x),
            _ => self.combined(x),
        }
    }

    fn convolution(&mut self, x: ValueId) -> ValueId {
        let [_, channels, height, width] = self.shape(x);
        let most = self.size.channels;
        let divisors: Vec<usize> =
            (2..=channels).filter(|groups| channels.is_multiple_of(*groups)).collect();
        let groups = match self.random.below(4) {
            0 if !divisors.is_empty() => self.random.pick(&divisors),
            _ => 1,
        };
        let outputs = groups * self.random.range(1, (most / groups).max(1));
        let mut window = Window::new(&[1, 1]);
        for (axis, extent) in [height, width].into_iter().enumerate() {
            let kernel = self.random.pick(&[1, 1, 2, 3, 3, 3, 5, 7]);
            let dilation = if groups == 1 && self.random.chance(20) { 2 } else { 1 };
            window.kernel[axis] = kernel;
            window.dilations[axis] = dilation;
            window.strides[axis] = self.random.pick(&[1, 1, 1, 2, 2, 3]);
            window.pads[axis] = (self.random.below(kernel), self.random.below(kernel));
            let (before, after) = window.pads[axis];
            // What does not fit becomes a point.
            if window.span(axis).unwrap() > extent + before + after {
                window.kernel[axis] = 1;
                window.pads[axis] = (0, 0);
            }
        }
        self.note("strided", window.strides.iter().any(|&stride| stride > 1));
        self.note("padded", window.pads.iter().any(|&pads| pads != (0, 0)));
        self.note("dilated", window.dilations.iter().any(|&distance| distance > 1));
        self.note("grouped", groups > 1 && groups < channels);
        self.note("depthwise", groups > 1 && groups == channels);
        self.note("channels not of 8", !channels.is_multiple_of(8) && !outputs.is_multiple_of(8));
        self.convolve(x, window, outputs, groups)
    }

    fn convolve(&mut self, x: ValueId, window: Window, outputs: usize, groups: usize) -> ValueId {
        let depth = self.shape(x)[1] / groups;
        let shape = [outputs, depth, window.kernel[0], window.kernel[1]];
        let terms = shape[1..].iter().product::<usize>() as f64;
        let mut inputs = vec![x, self.numbers(&shape, 2.0 / terms.sqrt())];
        if self.random.chance(70) {
            inputs.push(self.numbers(&[outputs], 0.5));
        }
        self.node(Op::Conv(Conv { window, groups }), &inputs)
    }

    /// An activation of the array behind a product, or none.
    fn activated(&mut self, x: ValueId) -> ValueId {
        let op = match self.random.below(6) {
            0..3 => Op::Unary(Unary::Relu),
            3 => Op::Activation(Activation::LeakyRelu { alpha: 0.1 }),
            4 => Op::Activation(Activation::Clip { min: Some(0.0), max: Some(1.5) }),
            _ => return x,
        };
        self.node(op, &[x])
    }

    /// A function of every number, or of the channels of every position.
    fn function(&mut self, x: ValueId) -> ValueId {
        let unary = [
            Unary::Sigmoid,
            Unary::Tanh,
            Unary::Erf,
            Unary::Gelu,
            Unary::GeluTanh,
            Unary::HardSwish,
            Unary::Neg,
        ];
        let activations = [
            Activation::LeakyRelu { alpha: 0.2 },
            Activation::HardSigmoid { alpha: 0.3, beta: 0.4 },
            Activation::HardSigmoid { alpha: 0.2, beta: 0.5 },
            Activation::Clip { min: Some(0.0), max: Some(0.8) },
            Activation::Clip { min: Some(-0.3), max: Some(0.6) },
            Activation::Clip { min: Some(-0.2), max: None },
        ];
        let op = match self.random.below(5) {
            0..2 => Op::Unary(self.random.pick(&unary)),
            2..4 => Op::Activation(self.random.pick(&activations)),
            _ => Op::Softmax(Softmax { axis: 1, log: false }),
        };
        self.node(op, &[x])
    }

    /// An operator with one number, or one for every channel.
    fn with_constant(&mut self, x: ValueId) -> ValueId {
        let channels = self.shape(x)[1];
        let shapes = [vec![], vec![1, 1], vec![channels, 1, 1], vec![1, channels, 1, 1]];
        let shape = self.random.pick(&shapes);
        self.note("numbers of channels", channels > 1 && shape.contains(&channels));
        let constant = self.numbers(&shape, 2.0);
        let sides = if self.random.coin() { [x, constant] } else { [constant, x] };
        let op = self.random.pick(&[Binary::Add, Binary::Sub, Binary::Mul]);
        let y = self.node(Op::Binary(op), &sides);
        if self.random.coin() { self.activated(y) } else { y }
    }

    /// The product with, or difference to another image, or the product with a number for every
    /// channel.
    fn combined(&mut self, x: ValueId) -> ValueId {
        let shape = self.shape(x);
        if self.random.coin() {
            let mean = self.node(Op::GlobalAveragePool, &[x]);
            let gate = self.node(Op::Unary(Unary::Sigmoid), &[mean]);
            self.note("gates", true);
            let sides = if self.random.coin() { [x, gate] } else { [gate, x] };
            return self.node(Op::Binary(Binary::Mul), &sides);
        }
        let y = self.convolve(x, Window::new(&[1, 1]), shape[1], 1);
        let op = self.random.pick(&[Binary::Mul, Binary::Sub]);
        self.node(Op::Binary(op), &[x, y])
    }

    /// The sum with another image of the same shape, or with a branch.
    fn sum(&mut self, x: ValueId) -> ValueId {
        let shape = self.shape(x);
        let others = self.images.iter().copied().filter(|&y| y != x && self.shape(y) == shape);
        let others: Vec<ValueId> = others.collect();
        let y = if !others.is_empty() && self.random.coin() {
            self.random.pick(&others)
        } else {
            let mut window = Window::new(&[3, 3]);
            window.pads.fill((1, 1));
            self.convolve(x, window, shape[1], 1)
        };
        let operands = if self.random.coin() { [x, y] } else { [y, x] };
        let sum = self.node(Op::Binary(Binary::Add), &operands);
        if self.random.coin() { self.node(Op::Unary(Unary::Relu), &[sum]) } else { sum }
    }

    /// Behind it another image with as many rows and columns, or itself; slices of channels begin at
    /// multiples of 8.
    fn joined(&mut self, x: ValueId) -> ValueId {
        let [images, channels, height, width] = self.shape(x);
        let others = self.images.iter().copied();
        let fits = |&y: &ValueId| {
            let [n, _, h, w] = self.shape(y);
            (n, h, w) == (images, height, width)
        };
        let others: Vec<ValueId> = others.filter(fits).collect();
        let y = self.random.pick(&others);
        let x = match channels.is_multiple_of(8) {
            true => x,
            false => self.convolve(x, Window::new(&[1, 1]), 8, 1),
        };
        self.node(Op::Concat { axis: 1 }, &[x, y])
    }

    /// Rows and columns repeated.
    fn enlarged(&mut self, x: ValueId) -> ValueId {
        let [_, _, height, width] = self.shape(x);
        let factors = [self.random.range(1, 3), self.random.range(1, 3)];
        if height * factors[0] > 15 || width * factors[1] > 15 {
            return self.node(Op::Unary(Unary::Relu), &[x]);
        }
        let resize = Resize {
            axes: vec![2, 3],
            target: ResizeTarget::Sizes(vec![height * factors[0], width * factors[1]]),
            coordinates: Coordinates::Asymmetric,
            interpolation: Interpolation::Nearest(Nearest::Floor),
            exclude_outside: false,
            roi: Vec::new(),
        };
        self.node(Op::Resize(resize), &[x])
    }

    /// Products of every position, with the channels last.
    fn tokens(&mut self, x: ValueId) -> ValueId {
        let [images, channels, height, width] = self.shape(x);
        let x = match self.random.coin() {
            true => {
                let flat = vec![0, 0, (height * width) as i64];
                let x = self.node(Op::Reshape { shape: flat }, &[x]);
                self.node(Op::Transpose { order: vec![0, 2, 1] }, &[x])
            }
            false => {
                let x = self.node(Op::Transpose { order: vec![0, 2, 3, 1] }, &[x]);
                let flat = [images, height * width, channels].map(|extent| extent as i64).to_vec();
                self.node(Op::Reshape { shape: flat }, &[x])
            }
        };
        let y = self.products(x);
        self.image_of(y, height, width)
    }

    /// A product with every row of tokens, perhaps with a sum, and functions of their channels.
    fn products(&mut self, x: ValueId) -> ValueId {
        self.note("tokens", true);
        let x = if self.random.coin() { self.normalised(x) } else { x };
        let mut y = self.product(x);
        y = match self.random.below(4) {
            0 => self.node(Op::Unary(Unary::Gelu), &[y]),
            1 => self.node(Op::Softmax(Softmax { axis: 2, log: false }), &[y]),
            2 => {
                let numbers = self.numbers(&[self.graph[y].shape[2]], 1.0);
                self.node(Op::Binary(Binary::Mul), &[y, numbers])
            }
            _ => y,
        };
        if self.random.coin() {
            let z = self.product(y);
            let alike = self.graph[y].shape == self.graph[z].shape;
            y = if alike { self.node(Op::Binary(Binary::Add), &[y, z]) } else { z };
        }
        y
    }

    fn product(&mut self, x: ValueId) -> ValueId {
        let depth = *self.graph[x].shape.last().unwrap();
        let outputs = if self.random.coin() { depth } else { self.random.range(1, 40) };
        let weights = self.numbers(&[depth, outputs], 2.0 / (depth as f64).sqrt());
        let y = self.node(Op::MatMul, &[x, weights]);
        if self.random.coin() { self.node(Op::Unary(Unary::Relu), &[y]) } else { y }
    }

    fn image_of(&mut self, x: ValueId, height: usize, width: usize) -> ValueId {
        let x = self.node(Op::Transpose { order: vec![0, 2, 1] }, &[x]);
        let shape = vec![0, 0, height as i64, width as i64];
        self.node(Op::Reshape { shape }, &[x])
    }

    fn pool(&mut self, x: ValueId) -> ValueId {
        let [_, _, height, width] = self.shape(x);
        let is_largest = self.random.coin();
        let mut window = Window::new(&[1, 1]);
        for (axis, extent) in [height, width].into_iter().enumerate() {
            let kernel = self.random.range(1, extent.min(3));
            window.kernel[axis] = kernel;
            window.strides[axis] = self.random.range(1, 2);
            if is_largest {
                window.pads[axis] = (self.random.below(kernel), self.random.below(kernel));
            }
        }
        let kind = match is_largest {
            true => PoolKind::Max,
            false => PoolKind::Average { count_include_pad: false },
        };
        let y = self.node(Op::Pool(Pool { kind, window, ceil: false }), &[x]);
        match !is_largest && self.random.coin() {
            true => self.node(Op::Unary(Unary::Relu), &[y]),
            false => y,
        }
    }

    /// Products of what is left of an image, or the image itself.
    fn head(&mut self, x: ValueId) -> ValueId {
        let x = match self.random.below(6) {
            0 => return x,
            1 => self.node(Op::GlobalMaxPool, &[x]),
            2..4 => x,
            _ => self.node(Op::GlobalAveragePool, &[x]),
        };
        let [_, channels, height, width] = self.shape(x);
        let rest = height * width;
        // More would be most of the work.
        if channels * rest > 4096 {
            return self.node(Op::GlobalAveragePool, &[x]);
        }
        self.note("several positions of a product", rest > 1);
        let mut x = match self.random.coin() {
            true => self.node(Op::Flatten { axis: 1 }, &[x]),
            false => self.node(Op::Reshape { shape: vec![0, -1] }, &[x]),
        };
        if rest == 1 && self.random.chance(50) {
            x = self.normalised(x);
        }
        if self.random.chance(30) {
            x = self.dense(x);
            x = self.activated(x);
        }
        self.dense(x)
    }

    /// A layer normalisation of the last axis, with or without an addend.
    fn normalised(&mut self, x: ValueId) -> ValueId {
        let axis = self.graph[x].shape.len() - 1;
        let channels = self.graph[x].shape[axis];
        let mut inputs = vec![x, self.numbers(&[channels], 1.0)];
        if self.random.coin() {
            inputs.push(self.numbers(&[channels], 0.5));
        }
        let epsilon = self.random.pick(&[1e-5, 1e-2]);
        self.node(Op::LayerNorm(LayerNorm { axis, epsilon }), &inputs)
    }

    fn dense(&mut self, x: ValueId) -> ValueId {
        let depth = self.graph[x].shape[1];
        let outputs = self.random.range(1, self.size.channels);
        let magnitude = 2.0 / (depth as f64).sqrt();
        if self.random.chance(25) {
            let weights = self.numbers(&[depth, outputs], magnitude);
            return self.node(Op::MatMul, &[x, weights]);
        }
        let transpose_b = self.random.coin();
        let shape = if transpose_b { [outputs, depth] } else { [depth, outputs] };
        let weights = self.numbers(&shape, magnitude);
        let bias = self.numbers(&[outputs], 0.5);
        let (alpha, beta) = self.random.pick(&[(1.0, 1.0), (0.5, 2.0)]);
        let gemm = Gemm { alpha, beta, transpose_a: false, transpose_b };
        self.node(Op::Gemm(gemm), &[x, weights, bias])
    }
}

/// The largest difference of two tensors.
pub fn distance(found: &Tensor, expected: &Tensor) -> f64 {
    assert_eq!(found.shape(), expected.shape());
    let pairs = found.to_f64().into_iter().zip(expected.to_f64());
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}
