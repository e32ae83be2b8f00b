//! Quantised networks for the compiler, layer by layer: each is a node, now and then an activation,
//! and a quantiser.

use crate::common::Random;
use quincunx_contract::plan::{Division, Place};
use quincunx_contract::{Claim, Compiled, Log, Refused, compiler_of};
use quincunx_dpas::{DpasArch, TARGET};
use quincunx_graph::passes::fold_constants;
use quincunx_graph::{
    Activation, Binary, Constant, Conv, Gemm, Graph, Op, Param, Pool, PoolKind, Quantiser, Softmax,
    Unary, ValueId, Window,
};
use quincunx_import::{Options, read_onnx};
use quincunx_tensor::{DType, Tensor, Tensors};
use quincunx_testkit::options;
use std::path::Path;

/// A grid of 8 bits.
pub fn grid(signed: bool, scale: f64, zero: i64) -> Quantiser {
    let quantiser = Quantiser::symmetric(signed, 8, scale);
    Quantiser { zero: Param::uniform(zero), ..quantiser }
}

/// A graph all of whose nodes the machine takes, as a program.
pub fn compiled(graph: &Graph, arch: &DpasArch) -> Compiled {
    let compiler = compiler_of(&TARGET).unwrap();
    let compiled = compiler.compile(graph, arch, &options(&TARGET, &[]), &mut Log::default());
    compiled.unwrap_or_else(|problem| panic!("{}\n{graph}", problem.first()))
}

/// The parts of the example network that the machine takes.
pub fn digits(arch: &DpasArch) -> Vec<Graph> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/digits/digits_qdq.onnx");
    let bytes = std::fs::read(path).unwrap();
    let graph = read_onnx(bytes.into(), &Options::beside(Path::new(path))).unwrap();
    let graph = fold_constants(&graph).unwrap();
    let options = options(&TARGET, &[]);
    let plan = Division { graph: &graph, target: &TARGET, arch, options: &options }.plan().unwrap();
    assert!(plan.device_share() > 0.9, "{:?}", plan.rows);
    let parts = plan.segments.into_iter().filter(|part| part.place == Place::Device);
    parts.map(|part| part.graph).collect()
}

/// Why the machine does not take nodes of a graph, in one line each.
pub fn refusals(graph: &Graph, arch: &DpasArch) -> Vec<String> {
    let compiler = compiler_of(&TARGET).unwrap();
    let options = options(&TARGET, &[]);
    let claims = compiler.claim(graph, arch, &options, &Refused::default()).unwrap();
    let reason = |claim| match claim {
        Claim::Host(reason) => Some(reason),
        Claim::Device => None,
    };
    claims.into_iter().filter_map(reason).collect()
}

/// A network that grows.
#[derive(Clone)]
pub struct Net {
    pub graph: Graph,
    pub random: Random,
    count: usize,
}

impl Net {
    pub fn new(case: u64) -> Net {
        Net { graph: Graph::new("net"), random: Random::new(case), count: 0 }
    }

    fn name(&mut self, base: &str) -> String {
        self.count += 1;
        format!("{base}{}", self.count)
    }

    pub fn shape(&self, value: ValueId) -> Vec<usize> {
        self.graph[value].shape.to_vec()
    }

    /// A node; `None` where the operands do not fit or the result has no elements.
    pub fn node(&mut self, op: Op, inputs: &[ValueId]) -> Option<ValueId> {
        let name = self.name("n");
        let inputs: Vec<_> = inputs.iter().map(|&id| Some(id)).collect();
        let value = self.graph.add_node(&name, op, &inputs, &format!("{name}_out")).ok()?;
        (!self.graph[value].shape.contains(&0)).then_some(value)
    }

    pub fn input(&mut self, shape: &[usize], grid: Quantiser) -> ValueId {
        let name = self.name("x");
        let x = self.graph.add_input(&name, DType::F32, shape, &[]).unwrap();
        self.node(Op::Quantise(grid), &[x]).unwrap()
    }

    /// The scale of the grid that a value is on.
    pub fn scale_of(&self, value: ValueId) -> f64 {
        let mut value = value;
        loop {
            let node = &self.graph[self.graph[value].producer.unwrap()];
            if let Op::Quantise(quantiser) = &node.op {
                return quantiser.scale.as_uniform().unwrap();
            }
            value = node.input(0).unwrap();
        }
    }

    /// Random codes of a grid.
    pub fn weights(&mut self, shape: &[usize], of: Quantiser) -> ValueId {
        let (width, signed) = (of.width.as_uniform().unwrap(), of.signed.as_uniform().unwrap());
        let low = if signed { -(1_i64 << (width - 1)) } else { 0 };
        let high = low + (1 << width) - 1;
        // Codes less their zeros have to stay in 8 bits.
        let zeros = of.zero.values();
        let [least, most] = [zeros.iter().min(), zeros.iter().max()].map(|zero| *zero.unwrap());
        let (low, high) = (low.max(most - 128), high.min(least + 127));
        let count = shape.iter().product();
        let codes: Vec<i64> = (0..count).map(|_| self.random.range(low, high)).collect();
        let tensor = Tensor::from_vec(shape, codes).unwrap();
        let name = self.name("w");
        self.graph.add_constant(&name, Constant { tensor, quantiser: Some(of) }).unwrap()
    }

    pub fn reals(&mut self, shape: &[usize], magnitude: f64) -> ValueId {
        let tensor = self.random.tensor(shape, magnitude);
        let name = self.name("b");
        self.graph.add_constant(&name, tensor).unwrap()
    }

    /// A power of two, whose sums have ties, or any number of f32.
    fn scale(&mut self, about: f64) -> f64 {
        let about = about * (1.0 + 0.4 * self.random.real());
        match self.random.coin() {
            true => 2.0_f64.powi(about.log2().round() as i32),
            false => f64::from(about as f32),
        }
    }

    fn any_grid(&mut self, scale: f64) -> Quantiser {
        let signed = self.random.coin();
        let zero = self.random.range(0_i64, 255) - if signed { 128 } else { 0 };
        let usual = if signed { 0 } else { 128 };
        grid(signed, scale, self.random.pick(&[zero, usual, usual]))
    }

    /// A grid of weights whose outputs are on an axis: of 2, 4 or 8 bits, one for all or one each.
    pub fn weight_grid(&mut self, shape: &[usize], axis: usize) -> Quantiser {
        let (width, signed) = (self.random.pick(&[8, 8, 8, 4, 2]), self.random.chance(75));
        let mut of = Quantiser::symmetric(signed, width, self.scale(0.01));
        let mut along = vec![1; shape.len() - axis];
        along[0] = shape[axis];
        if self.random.coin() {
            let scales = (0..shape[axis]).map(|_| self.scale(0.01)).collect();
            of.scale = Param::new(&along, scales).unwrap();
        }
        if !signed {
            of.zero = Param::uniform(1 << (width - 1));
        } else if self.random.chance(30) {
            let zeros = (0..shape[axis]).map(|_| self.random.range(-9, 9) >> (8 - width));
            of.zero = Param::new(&along, zeros.collect()).unwrap();
        }
        of
    }

    /// A bias: real numbers, or codes of 32 bits in units of the sums of each output.
    fn bias(&mut self, x: ValueId, weights: ValueId, outputs: usize) -> ValueId {
        if self.random.coin() {
            return self.reals(&[outputs], 1.5);
        }
        let quantiser = self.graph[weights].constant.as_ref().unwrap().quantiser.clone().unwrap();
        let scales = match quantiser.scale.as_uniform() {
            Some(scale) => vec![scale; outputs],
            None => quantiser.scale.values().to_vec(),
        };
        let unit = self.scale_of(x);
        let scales = scales.into_iter().map(|scale| scale * unit).collect();
        let mut of = Quantiser::symmetric(true, 32, 1.0);
        of.scale = Param::new(&[outputs], scales).unwrap();
        let codes = (0..outputs).map(|_| self.random.range(-9000_i64, 9000)).collect();
        let tensor = Tensor::from_vec(&[outputs], codes).unwrap();
        let name = self.name("b");
        self.graph.add_constant(&name, Constant { tensor, quantiser: Some(of) }).unwrap()
    }

    /// A product of any kind that fits the operand.
    pub fn product(&mut self, x: ValueId) -> Option<ValueId> {
        let shape = self.shape(x);
        match shape[..] {
            [_, channels, ref extents @ ..] if !extents.is_empty() && self.random.chance(85) => {
                let window = self.window(extents);
                let groups = self.random.pick(&[1, 1, channels, 2]);
                if !channels.is_multiple_of(groups) {
                    return None;
                }
                let each = self.random.pick(&[1, 2, 5, 12, 40]);
                let outputs = groups * if groups > 1 { each.min(12) } else { each };
                self.conv(x, window, groups, outputs)
            }
            [_, depth] if self.random.coin() => {
                let (outputs, transpose_b) = (self.random.range(1, 40), self.random.coin());
                let w = if transpose_b { [outputs, depth] } else { [depth, outputs] };
                let of = self.weight_grid(&w, usize::from(!transpose_b));
                let w = self.weights(&w, of);
                let mut inputs = vec![x, w];
                if self.random.coin() {
                    inputs.push(self.bias(x, w, outputs));
                }
                let gemm = Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b };
                self.node(Op::Gemm(gemm), &inputs)
            }
            [.., depth] => {
                let w = [depth, self.random.range(1, 40)];
                let of = self.weight_grid(&w, 1);
                let w = self.weights(&w, of);
                self.node(Op::MatMul, &[x, w])
            }
            [] => None,
        }
    }

    /// A convolution with weights of any grid, now and then with a bias.
    pub fn conv(
        &mut self,
        x: ValueId,
        window: Window,
        groups: usize,
        outputs: usize,
    ) -> Option<ValueId> {
        let w = [&[outputs, self.shape(x)[1] / groups], &window.kernel[..]].concat();
        let of = self.weight_grid(&w, 0);
        let w = self.weights(&w, of);
        let mut inputs = vec![x, w];
        if self.random.coin() {
            inputs.push(self.bias(x, w, outputs));
        }
        self.node(Op::Conv(Conv { window, groups }), &inputs)
    }

    pub fn window(&mut self, extents: &[usize]) -> Window {
        let kernel: Vec<usize> = extents.iter().map(|_| self.random.range(1, 4)).collect();
        let mut window = Window::new(&kernel);
        for (axis, &size) in kernel.iter().enumerate() {
            window.strides[axis] = self.random.range(1, 3);
            window.pads[axis] = (self.random.below(size), self.random.below(size));
            window.dilations[axis] = self.random.pick(&[1, 1, 2]);
        }
        window
    }

    fn pool(&mut self, x: ValueId) -> Option<ValueId> {
        let shape = self.shape(x);
        let window = self.window(shape.get(2..).filter(|extents| !extents.is_empty())?);
        let average = PoolKind::Average { count_include_pad: self.random.coin() };
        let kind = if self.random.coin() { PoolKind::Max } else { average };
        let op = match self.random.below(4) {
            0 if kind == PoolKind::Max => Op::GlobalMaxPool,
            0 => Op::GlobalAveragePool,
            _ => Op::Pool(Pool { kind, window, ceil: self.random.coin() }),
        };
        self.node(op, &[x])
    }

    /// Softmax along the second axis or the last.
    pub fn softmax(&mut self, x: ValueId) -> Option<ValueId> {
        let axis = self.random.pick(&[1, self.shape(x).len() - 1]);
        self.node(Op::Softmax(Softmax { axis, log: false }), &[x])
    }

    fn clipped(&mut self, y: ValueId) -> Option<ValueId> {
        if self.random.chance(60) {
            return self.node(Op::Unary(Unary::Relu), &[y]);
        }
        let [a, b] = [0, 0].map(|_| (self.random.real() * 6.0) as f32);
        let bounds = [(None, Some(b)), (Some(a), None), (Some(a.min(b)), Some(a.max(b)))];
        let (min, max) = self.random.pick(&bounds);
        self.node(Op::Activation(Activation::Clip { min, max }), &[y])
    }

    /// A layer on one of the values, up to its quantiser; `None` if what was drawn cannot be. Sums
    /// become an output.
    pub fn layer(&mut self, values: &[ValueId]) -> Option<ValueId> {
        let x = match self.random.chance(60) {
            true => values[values.len() - 1],
            false => self.random.pick(values),
        };
        let y = match self.random.below(21) {
            0..9 => self.product(x)?,
            9..12 => self.pool(x)?,
            12..15 => {
                let shape = self.shape(x);
                let alike = values.iter().filter(|&&y| self.shape(y) == shape);
                let other = self.random.pick(&alike.copied().collect::<Vec<_>>());
                self.node(Op::Binary(Binary::Add), &[x, other])?
            }
            15 | 16 => {
                let x = self.node(Op::Flatten { axis: 1 }, &[x])?;
                self.product(x)?
            }
            17 => return self.node(Op::Identity, &[x]),
            18 => x,
            19 => {
                let (name, number) = (self.name("s"), self.random.pick(&[0.5, 0.3, 8.0, 3.0]));
                let number = Tensor::from_vec(&[], vec![number as f32]).unwrap();
                let number = self.graph.add_constant(&name, number).unwrap();
                let op = self.random.pick(&[Binary::Mul, Binary::Div]);
                self.node(Op::Binary(op), &[x, number])?
            }
            _ => self.clipped(x)?,
        };
        let is_max = matches!(
            self.graph[self.graph[y].producer?].op,
            Op::GlobalMaxPool | Op::Pool(Pool { kind: PoolKind::Max, .. })
        );
        if is_max {
            return Some(y);
        }
        if self.random.chance(10) && y != x {
            self.graph.add_output(y);
            return Some(y);
        }
        let y = if self.random.chance(35) && y != x { self.clipped(y)? } else { y };
        let scale = self.random.pick(&[0.02, 0.1, 0.4]);
        let scale = self.scale(scale);
        let of = self.any_grid(scale);
        self.node(Op::Quantise(of), &[y])
    }

    /// A network of layers that the machine takes; why it did not take others.
    pub fn grown(case: u64, arch: &DpasArch, layers: usize) -> (Net, Vec<String>) {
        let mut net = Net::new(case);
        let (mut values, mut reasons) = (Vec::new(), Vec::new());
        let rank = net.random.pick(&[0, 1, 2, 2, 2, 2]);
        let channels = net.random.pick(&[1, 3, 4, 8, 17, 32]);
        let mut shape = vec![net.random.range(1, 3), channels];
        shape.extend((0..rank).map(|_| net.random.range(1, 9)));
        for _ in 0..net.random.range(1, 2) {
            let scale = net.scale(0.05);
            let of = net.any_grid(scale);
            values.push(net.input(&shape, of));
        }
        let inputs = values.len();
        for _ in 0..100 {
            if values.len() >= inputs + layers {
                break;
            }
            let before = net.clone();
            let added = net.layer(&values);
            let new = added.map_or(Vec::new(), |_| refusals(&net.graph, arch));
            match added {
                Some(value) if new.is_empty() => {
                    // Sums are read by nobody.
                    if !net.graph.outputs().contains(&value) {
                        values.push(value);
                    }
                }
                _ => {
                    net = Net { random: net.random, ..before };
                    reasons.extend(new);
                }
            }
        }
        let readers = net.graph.consumers();
        for &value in &values[inputs..] {
            let is_last = readers[value.index()].is_empty();
            if is_last || net.random.chance(15) {
                net.graph.add_output(value);
            }
        }
        (net, reasons)
    }

    /// Numbers for the inputs, also at ties of their grids and far outside.
    pub fn sample(&mut self) -> Tensors {
        let inputs = self.graph.inputs().to_vec();
        let mut sample = Tensors::new();
        for id in inputs {
            let value = self.graph[id].clone();
            let node = self.graph.consumers()[id.index()][0];
            let step = self.scale_of(self.graph[node].output);
            let number = |random: &mut Random| match random.below(3) {
                0 => random.real() as f32 * 8.0,
                _ => (random.range(-300_i16, 300) as f64 * step / 2.0) as f32,
            };
            let numbers = (0..value.shape.iter().product()).map(|_| number(&mut self.random));
            let tensor = Tensor::from_vec(&value.shape, numbers.collect::<Vec<f32>>()).unwrap();
            sample.insert(value.name, tensor);
        }
        sample
    }
}
