//! Random graphs of f32 layers.

use super::noise::Noise;
use quincunx_graph::{
    Activation, BatchNorm, Binary, Conv, Gemm, Graph, Op, Pool, PoolKind, Resize, SliceRange,
    Softmax, Unary, ValueId, Window,
};
use quincunx_graph::{Coordinates, Interpolation, Nearest, ResizeTarget};
use quincunx_tensor::{DType, Tensor, Tensors};

struct Net<'n> {
    noise: &'n mut Noise,
    graph: Graph,
    count: usize,
}

pub(crate) fn random(noise: &mut Noise) -> (Graph, Tensors) {
    let one = noise.chance(20);
    let mut shape = vec![1 + noise.below(2), 1 + noise.below(19), 1 + noise.below(9)];
    if !one {
        shape.push(1 + noise.below(9));
    }
    let mut graph = Graph::new("random");
    let x = graph.add_input("x", DType::F32, &shape, &[]).unwrap();
    let values = noise.floats(shape.iter().product());
    let inputs = Tensors::from([("x".to_owned(), Tensor::from_vec(&shape, values).unwrap())]);
    let mut net = Net { noise, graph, count: 0 };
    let mut values = vec![x];
    for _ in 0..4 + net.noise.below(8) {
        let x =
            if net.noise.chance(80) { *values.last().unwrap() } else { net.noise.pick(&values) };
        values.extend(net.layer(x, &values));
    }
    let last = *values.last().unwrap();
    let output = net.dense(last);
    net.graph.add_output(output);
    (net.graph, inputs)
}

impl Net<'_> {
    fn node(&mut self, op: Op, inputs: &[ValueId]) -> Option<ValueId> {
        self.count += 1;
        let name = format!("n{}", self.count);
        let inputs: Vec<_> = inputs.iter().map(|&id| Some(id)).collect();
        let output = format!("{name}_out");
        self.graph.add_node(&name, op, &inputs, &output).ok()
    }

    fn shape(&self, id: ValueId) -> Vec<usize> {
        self.graph[id].shape.to_vec()
    }

    fn constant(&mut self, shape: &[usize]) -> ValueId {
        self.count += 1;
        let values = self.noise.floats(shape.iter().product());
        let tensor = Tensor::from_vec(shape, values).unwrap();
        self.graph.add_constant(&format!("c{}", self.count), tensor).unwrap()
    }

    fn positive(&mut self, count: usize) -> ValueId {
        self.count += 1;
        let values = self.noise.floats(count).iter().map(|v| v.abs() + 0.5).collect();
        let tensor = Tensor::from_vec::<f32>(&[count], values).unwrap();
        self.graph.add_constant(&format!("c{}", self.count), tensor).unwrap()
    }

    fn window(&mut self, spatial: &[usize]) -> Window {
        let kernel: Vec<usize> =
            spatial.iter().map(|&extent| 1 + self.noise.below(3.min(extent))).collect();
        let mut window = Window::new(&kernel);
        for (axis, &extent) in kernel.iter().enumerate() {
            window.strides[axis] = 1 + self.noise.below(2);
            window.pads[axis] = (self.noise.below(extent), self.noise.below(extent));
        }
        window
    }

    fn layer(&mut self, x: ValueId, values: &[ValueId]) -> Option<ValueId> {
        let shape = self.shape(x);
        if shape.len() < 3 {
            return self.element(x, values);
        }
        let channels = shape[1];
        match self.noise.below(14) {
            0..=3 => {
                let groups = self.noise.pick(&[1, 1, channels]);
                let outputs = groups * (1 + self.noise.below(if groups == 1 { 20 } else { 2 }));
                let window = self.window(&shape[2..]);
                let w = [&[outputs, channels / groups], &window.kernel[..]].concat();
                let mut inputs = vec![x, self.constant(&w)];
                if self.noise.chance(60) {
                    inputs.push(self.constant(&[outputs]));
                }
                self.node(Op::Conv(Conv { window, groups }), &inputs)
            }
            4 => {
                let window = self.window(&shape[2..]);
                self.node(Op::Pool(Pool { kind: PoolKind::Max, window, ceil: false }), &[x])
            }
            5 => {
                let kind = PoolKind::Average { count_include_pad: self.noise.chance(50) };
                let (window, ceil) = (self.window(&shape[2..]), self.noise.chance(50));
                self.node(Op::Pool(Pool { kind, window, ceil }), &[x])
            }
            6 => {
                let parameters = [(); 3].map(|()| self.constant(&[channels]));
                let inputs = [&[x], &parameters[..], &[self.positive(channels)]].concat();
                self.node(Op::BatchNorm(BatchNorm { epsilon: 1e-3 }), &inputs)
            }
            7 => self.node(Op::Concat { axis: 1 }, &[x, x]),
            8 if channels > 1 => {
                let range = SliceRange { axis: 1, start: 1, end: i64::MAX, step: 1 };
                self.node(Op::Slice { ranges: vec![range] }, &[x])
            }
            9 if shape.len() == 4 => {
                let order = self.noise.pick(&[[0, 2, 3, 1], [0, 3, 1, 2], [0, 1, 3, 2]]).to_vec();
                self.node(Op::Transpose { order }, &[x])
            }
            10 if shape.len() == 4 && shape[2] * shape[3] < 100 => self.resize(x),
            _ => self.element(x, values),
        }
    }

    fn resize(&mut self, x: ValueId) -> Option<ValueId> {
        let interpolation = if self.noise.chance(50) {
            Interpolation::Nearest(Nearest::Floor)
        } else {
            Interpolation::Linear
        };
        let resize = Resize {
            axes: vec![2, 3],
            target: ResizeTarget::Scales(vec![2.0, 2.0]),
            interpolation,
            coordinates: Coordinates::Asymmetric,
            exclude_outside: false,
            roi: Vec::new(),
        };
        self.node(Op::Resize(resize), &[x])
    }

    fn element(&mut self, x: ValueId, values: &[ValueId]) -> Option<ValueId> {
        let shape = self.shape(x);
        match self.noise.below(8) {
            0 => self.node(Op::Unary(Unary::Relu), &[x]),
            1 => {
                let unary =
                    self.noise.pick(&[Unary::Sigmoid, Unary::Neg, Unary::Tanh, Unary::Gelu]);
                self.node(Op::Unary(unary), &[x])
            }
            2 => self.node(Op::Activation(Activation::LeakyRelu { alpha: 0.1 }), &[x]),
            3 => {
                let clip = Activation::Clip { min: Some(-0.5), max: Some(0.75) };
                self.node(Op::Activation(clip), &[x])
            }
            4 => {
                let axis = self.noise.below(shape.len());
                self.node(Op::Softmax(Softmax { axis, log: false }), &[x])
            }
            5 if shape.len() > 2 => {
                let mut c = vec![1; shape.len() - 1];
                c[0] = shape[1];
                let c = self.constant(&c);
                let order = if self.noise.chance(50) { [x, c] } else { [c, x] };
                let binary = self.noise.pick(&[Binary::Add, Binary::Mul, Binary::Sub, Binary::Max]);
                self.node(Op::Binary(binary), &order)
            }
            _ => {
                let same: Vec<ValueId> =
                    values.iter().copied().filter(|&id| self.shape(id) == shape).collect();
                let other = self.noise.pick(&same);
                let binary = self.noise.pick(&[Binary::Add, Binary::Sub, Binary::Mul]);
                self.node(Op::Binary(binary), &[x, other])
            }
        }
    }

    fn dense(&mut self, x: ValueId) -> ValueId {
        let x = match self.shape(x).len() {
            2 => x,
            _ if self.noise.chance(30) => {
                // Products of matrices computed by the graph.
                let order: Vec<usize> = match self.shape(x).len() {
                    3 => vec![0, 2, 1],
                    _ => vec![0, 1, 3, 2],
                };
                let turned = self.node(Op::Transpose { order }, &[x]).unwrap();
                let product = self.node(Op::MatMul, &[x, turned]).unwrap();
                self.node(Op::Flatten { axis: 1 }, &[product]).unwrap()
            }
            _ => self.node(Op::Flatten { axis: 1 }, &[x]).unwrap(),
        };
        let depth = self.shape(x)[1];
        let outputs = 1 + self.noise.below(40);
        let gemm = Gemm { alpha: 0.5, beta: 2.0, transpose_a: false, transpose_b: true };
        let (w, c) = (self.constant(&[outputs, depth]), self.constant(&[outputs]));
        self.node(Op::Gemm(gemm), &[x, w, c]).unwrap()
    }
}
