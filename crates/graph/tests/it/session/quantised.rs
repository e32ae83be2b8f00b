//! Random graphs of quantised layers.

use super::noise::Noise;
use quincunx_graph::execute::{Keep, float};
use quincunx_graph::{
    Activation, Binary, Constant, Conv, ConvTranspose, Gemm, Graph, Op, Pad, PadMode, Param, Pool,
    PoolKind, Quantiser, Reduce, ReduceKind, SliceRange, Unary, ValueId, Window,
};
use quincunx_num::{Overflow, Rounding};
use quincunx_tensor::{DType, Tensor, Tensors};

/// A graph under construction.
struct Net<'n> {
    noise: &'n mut Noise,
    graph: Graph,
    inputs: Tensors,
    count: usize,
    /// Scales are powers of two.
    binary: bool,
}

/// A graph with one input, all of whose values lie on grids from the first quantiser on.
pub(crate) fn random(noise: &mut Noise) -> (Graph, Tensors) {
    let shape = [1 + noise.below(2), 1 + noise.below(19), 1 + noise.below(7), 1 + noise.below(7)];
    let mut graph = Graph::new("random");
    let x = graph.add_input("x", DType::F32, &shape, &[]).unwrap();
    let values = noise.floats(shape.iter().product());
    let inputs = Tensors::from([("x".to_owned(), Tensor::from_vec(&shape, values).unwrap())]);
    let binary = noise.chance(30);
    let mut net = Net { noise, graph, inputs, count: 0, binary };
    let mut current = net.quantise(x);
    let mut earlier = vec![current];
    for _ in 0..3 + net.noise.below(6) {
        let next = net.layer(current, &earlier);
        let Some(next) = next else { continue };
        current = if net.noise.chance(75) { net.quantise(next) } else { next };
        earlier.push(current);
    }
    let output = if net.noise.chance(60) { net.dense(current) } else { current };
    net.graph.add_output(output);
    (net.graph, net.inputs)
}

impl Net<'_> {
    fn name(&mut self) -> String {
        self.count += 1;
        format!("v{}", self.count)
    }

    fn node(&mut self, op: Op, inputs: &[ValueId]) -> Option<ValueId> {
        let name = self.name();
        let inputs: Vec<_> = inputs.iter().map(|&id| Some(id)).collect();
        let output = format!("{name}_out");
        self.graph.add_node(&name, op, &inputs, &output).ok()
    }

    fn shape(&self, id: ValueId) -> Vec<usize> {
        self.graph[id].shape.to_vec()
    }

    /// The largest magnitude of a value, so that scales are sensible.
    fn most(&self, id: ValueId) -> f64 {
        let values = float(&self.graph, &self.inputs, Keep::All).unwrap();
        let values = values[&self.graph[id].name].to_f64();
        values.iter().fold(1e-6, |most, v| f64::max(most, v.abs()))
    }

    /// A scale of about this size: a power of two, a float, or any number.
    fn scale(&mut self, about: f64) -> f64 {
        let about = about * (1.0 + 0.4 * self.noise.real());
        match self.noise.below(10) {
            _ if self.binary => 2.0_f64.powi(about.log2().round() as i32),
            0 => 2.0_f64.powi(about.log2().round() as i32),
            1 => about,
            _ => f64::from(about as f32),
        }
    }

    fn quantise(&mut self, x: ValueId) -> ValueId {
        let (signed, width) = (self.noise.chance(50), 2 + self.noise.below(15) as u32);
        let width = if self.noise.chance(60) { 8 } else { width };
        let about = self.most(x) / 2.0_f64.powi(width as i32 - 1);
        let channels = self.shape(x).get(1).copied().unwrap_or(1);
        let scale = if self.noise.chance(10) && self.shape(x).len() == 4 {
            let scales = (0..channels).map(|_| self.scale(about)).collect();
            Param::new(&[channels, 1, 1], scales).unwrap()
        } else {
            Param::uniform(self.scale(about))
        };
        let (low, high) = if signed {
            (-(1_i64 << (width - 1)), (1_i64 << (width - 1)) - 1)
        } else {
            (0, (1_i64 << width) - 1)
        };
        let zero = if self.noise.chance(50) { 0 } else { self.noise.within(low, high) };
        let zero = if self.noise.chance(50) { zero / 4 } else { zero };
        let common = self.noise.chance(60);
        let rounding = if common { Rounding::HalfEven } else { self.noise.pick(&Rounding::ALL) };
        let overflow = match self.noise.below(10) {
            0 => Overflow::Wrap,
            1 if zero > low && zero < high => Overflow::SaturateNarrow,
            _ => Overflow::Saturate,
        };
        let quantiser = Quantiser {
            signed: Param::uniform(signed),
            width: Param::uniform(width),
            scale,
            zero: Param::uniform(zero),
            rounding: Param::uniform(rounding),
            overflow: Param::uniform(overflow),
        };
        self.node(Op::Quantise(quantiser), &[x]).unwrap()
    }

    /// Weights as codes; scales and now and then zero points vary along an axis.
    fn weights(&mut self, shape: &[usize], axis: usize) -> ValueId {
        let width = if self.noise.chance(70) { 8 } else { 2 + self.noise.below(15) as u32 };
        let count: usize = shape.iter().product();
        let (low, high) = (-(1_i64 << (width - 1)), (1_i64 << (width - 1)) - 1);
        let codes: Vec<i64> = (0..count).map(|_| self.noise.within(low, high)).collect();
        let about = 2.0_f64.powi(1 - width as i32);
        let mut along = vec![1; shape.len() - axis];
        along[0] = shape[axis];
        let scale = if self.noise.chance(60) {
            let scales = (0..shape[axis]).map(|_| self.scale(about)).collect();
            Param::new(&along, scales).unwrap()
        } else {
            Param::uniform(self.scale(about))
        };
        let zero = match self.noise.below(5) {
            0 => Param::uniform(self.noise.within(low, high)),
            1 => {
                let zeros =
                    (0..shape[axis]).map(|_| self.noise.within(low / 4, high / 4)).collect();
                Param::new(&along, zeros).unwrap()
            }
            _ => Param::uniform(0),
        };
        let quantiser = Quantiser { scale, zero, ..Quantiser::symmetric(true, width, 1.0) };
        self.coded(shape, codes, quantiser)
    }

    fn coded(&mut self, shape: &[usize], codes: Vec<i64>, quantiser: Quantiser) -> ValueId {
        let name = self.name();
        let tensor = Tensor::from_vec(shape, codes).unwrap();
        let constant = Constant { tensor, quantiser: Some(quantiser) };
        self.graph.add_constant(&name, constant).unwrap()
    }

    fn plain(&mut self, shape: &[usize]) -> ValueId {
        let (name, values) = (self.name(), self.noise.floats(shape.iter().product()));
        self.graph.add_constant(&name, Tensor::from_vec(shape, values).unwrap()).unwrap()
    }

    fn bias(&mut self, count: usize) -> Option<ValueId> {
        match self.noise.below(3) {
            0 => None,
            1 => Some(self.plain(&[count])),
            _ => {
                let codes = (0..count).map(|_| self.noise.within(-5000, 5000)).collect();
                let scale = self.scale(1e-4);
                Some(self.coded(&[count], codes, Quantiser::symmetric(true, 32, scale)))
            }
        }
    }

    fn window(&mut self, x: &[usize], dilate: bool) -> Window {
        let kernel = [1 + self.noise.below(3.min(x[2])), 1 + self.noise.below(3.min(x[3]))];
        let mut window = Window::new(&kernel);
        for axis in 0..2 {
            window.strides[axis] = 1 + self.noise.below(2);
            window.pads[axis] = (self.noise.below(kernel[axis]), self.noise.below(kernel[axis]));
            if dilate && kernel[axis] * 2 <= x[axis + 2] + 1 {
                window.dilations[axis] = 1 + self.noise.below(2);
            }
        }
        window
    }

    fn layer(&mut self, x: ValueId, earlier: &[ValueId]) -> Option<ValueId> {
        let shape = self.shape(x);
        if shape.len() != 4 {
            return self.element(x, earlier);
        }
        match self.noise.below(16) {
            0..=4 => self.conv(x),
            5 => {
                let kind = PoolKind::Max;
                let window = self.window(&shape, false);
                self.node(Op::Pool(Pool { kind, window, ceil: false }), &[x])
            }
            6 => {
                let kind = PoolKind::Average { count_include_pad: self.noise.chance(50) };
                let (window, ceil) = (self.window(&shape, false), self.noise.chance(30));
                self.node(Op::Pool(Pool { kind, window, ceil }), &[x])
            }
            7 if self.noise.chance(30) => self.node(Op::GlobalAveragePool, &[x]),
            7 if self.noise.chance(30) => self.node(Op::GlobalMaxPool, &[x]),
            8 | 9 => self.moved(x, earlier),
            10 if self.noise.chance(50) => self.conv_transpose(x),
            _ => self.element(x, earlier),
        }
    }

    fn conv(&mut self, x: ValueId) -> Option<ValueId> {
        let shape = self.shape(x);
        let groups = match self.noise.below(4) {
            0 => shape[1],
            1 if shape[1].is_multiple_of(2) => 2,
            _ => 1,
        };
        let outputs = groups * (1 + self.noise.below(if groups == 1 { 20 } else { 2 }));
        let outputs = if self.noise.chance(40) && groups == shape[1] { groups } else { outputs };
        let window = self.window(&shape, true);
        let w = [outputs, shape[1] / groups, window.kernel[0], window.kernel[1]];
        let w = self.weights(&w, 0);
        let inputs: Vec<ValueId> = [x, w].into_iter().chain(self.bias(outputs)).collect();
        self.node(Op::Conv(Conv { window, groups }), &inputs)
    }

    fn conv_transpose(&mut self, x: ValueId) -> Option<ValueId> {
        let shape = self.shape(x);
        let window = Window::new(&[2, 2]);
        let w = self.weights(&[shape[1], 3, 2, 2], 1);
        let inputs: Vec<ValueId> = [x, w].into_iter().chain(self.bias(3)).collect();
        let output_padding = [0, 0].as_slice().into();
        self.node(Op::ConvTranspose(ConvTranspose { window, groups: 1, output_padding }), &inputs)
    }

    fn element(&mut self, x: ValueId, earlier: &[ValueId]) -> Option<ValueId> {
        let shape = self.shape(x);
        let alpha = self.noise.real() as f32;
        match self.noise.below(11) {
            0 => self.node(Op::Unary(Unary::Relu), &[x]),
            1 => {
                let unary =
                    self.noise.pick(&[Unary::Neg, Unary::Abs, Unary::HardSwish, Unary::Floor]);
                self.node(Op::Unary(unary), &[x])
            }
            2 => {
                let (min, max) = (Some(-0.3 + 0.2 * alpha), Some(0.4 + 0.3 * alpha));
                self.node(Op::Activation(Activation::Clip { min, max }), &[x])
            }
            3 => self.node(Op::Activation(Activation::LeakyRelu { alpha }), &[x]),
            4 => {
                let hard = Activation::HardSigmoid { alpha: 0.2, beta: 0.5 };
                self.node(Op::Activation(hard), &[x])
            }
            5 if shape.len() == 4 => {
                let c = self.plain(&[shape[1], 1, 1]);
                let binary = self.noise.pick(&[Binary::Add, Binary::Mul, Binary::Sub, Binary::Max]);
                let order = if self.noise.chance(50) { [x, c] } else { [c, x] };
                self.node(Op::Binary(binary), &order)
            }
            6 if shape.len() == 4 => {
                let gate = self.node(Op::GlobalAveragePool, &[x])?;
                let gate = self.quantise(gate);
                self.node(Op::Binary(Binary::Mul), &[x, gate])
            }
            _ => {
                let same: Vec<ValueId> =
                    earlier.iter().copied().filter(|&id| self.shape(id) == shape).collect();
                let other = if same.is_empty() { x } else { self.noise.pick(&same) };
                let binary = self.noise.pick(&[
                    Binary::Add,
                    Binary::Add,
                    Binary::Sub,
                    Binary::Mul,
                    Binary::Max,
                    Binary::Min,
                ]);
                self.node(Op::Binary(binary), &[x, other])
            }
        }
    }

    fn moved(&mut self, x: ValueId, earlier: &[ValueId]) -> Option<ValueId> {
        let shape = self.shape(x);
        match self.noise.below(6) {
            0 | 1 => {
                let axis = self.noise.pick(&[1, 1, 2, 3]);
                let fits = |id: &ValueId| {
                    let other = self.shape(*id);
                    other.len() == 4 && (0..4).all(|i| i == axis || other[i] == shape[i])
                };
                let others: Vec<ValueId> = earlier.iter().copied().filter(fits).collect();
                let other = if others.is_empty() { x } else { self.noise.pick(&others) };
                self.node(Op::Concat { axis }, &[x, other])
            }
            2 => {
                let pads = [(0, 0), (0, 0), (1, 0), (0, 2)].as_slice().into();
                let mode = self.noise.pick(&[PadMode::Constant(0.0), PadMode::Edge]);
                self.node(Op::Pad(Pad { pads, mode }), &[x])
            }
            3 => {
                let range = SliceRange { axis: 1, start: 0, end: -1, step: 2 };
                if shape[1] < 2 {
                    return None;
                }
                self.node(Op::Slice { ranges: vec![range] }, &[x])
            }
            4 => self.node(Op::Transpose { order: vec![0, 1, 3, 2] }, &[x]),
            _ => self.node(
                Op::Reduce(Reduce { kind: ReduceKind::Mean, axes: vec![2, 3], keep_dims: true }),
                &[x],
            ),
        }
    }

    /// Flattened, then a product.
    fn dense(&mut self, x: ValueId) -> ValueId {
        let mut x = x;
        if self.shape(x).len() != 2 {
            x = self.node(Op::Flatten { axis: 1 }, &[x]).unwrap();
        }
        let (depth, outputs) = (self.shape(x)[1], 1 + self.noise.below(20));
        if self.noise.chance(40) {
            let w = self.weights(&[depth, outputs], 1);
            return self.node(Op::MatMul, &[x, w]).unwrap();
        }
        let transpose_b = self.noise.chance(50);
        let (w, axis) = if transpose_b { ([outputs, depth], 0) } else { ([depth, outputs], 1) };
        let w = self.weights(&w, axis);
        let alpha = self.noise.pick(&[1.0, 1.0, 0.5, -0.3]);
        let gemm = Gemm { alpha, beta: 0.7, transpose_a: false, transpose_b };
        let inputs: Vec<ValueId> = [x, w].into_iter().chain(self.bias(outputs)).collect();
        self.node(Op::Gemm(gemm), &inputs).unwrap()
    }
}
