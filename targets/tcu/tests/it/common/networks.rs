//! Networks with random weights: residual blocks as in ResNet-20, and parts of YOLO.

use quincunx_graph::{
    Activation, Binary, Conv, Coordinates, Gemm, Graph, Interpolation, Nearest, Op, Pool, PoolKind,
    Resize, ResizeTarget, SliceRange, Unary, ValueId, Window,
};
use quincunx_tensor::{DType, Tensor};
use quincunx_testkit::Random;

/// Puts layers behind each other.
struct Layers {
    graph: Graph,
    random: Random,
    count: usize,
}

impl Layers {
    fn new(name: &str) -> Layers {
        Layers { graph: Graph::new(name), random: Random::new(20), count: 0 }
    }

    fn constant(&mut self, shape: &[usize]) -> ValueId {
        let real = |random: &mut Random| random.below(256) as f32 / 512.0 - 0.25;
        let reals = (0..shape.iter().product()).map(|_| real(&mut self.random)).collect();
        self.count += 1;
        let tensor = Tensor::from_vec(shape, reals).unwrap();
        self.graph.add_constant(&format!("c{}", self.count), tensor).unwrap()
    }

    fn node(&mut self, op: Op, inputs: &[ValueId]) -> ValueId {
        self.count += 1;
        let inputs: Vec<Option<ValueId>> = inputs.iter().copied().map(Some).collect();
        let (name, output) = (format!("n{}", self.count), format!("v{}", self.count));
        self.graph.add_node(&name, op, &inputs, &output).unwrap()
    }

    fn conv(&mut self, x: ValueId, channels: usize, kernel: usize, stride: usize) -> ValueId {
        let mut window = Window::new(&[kernel, kernel]);
        window.pads.fill((kernel / 2, kernel / 2));
        window.strides.fill(stride);
        let from = self.graph[x].shape[1];
        let weights = self.constant(&[channels, from, kernel, kernel]);
        let bias = self.constant(&[channels]);
        self.node(Op::Conv(Conv { window, groups: 1 }), &[x, weights, bias])
    }

    fn relu(&mut self, x: ValueId) -> ValueId {
        self.node(Op::Unary(Unary::Relu), &[x])
    }

    fn leaky(&mut self, x: ValueId) -> ValueId {
        self.node(Op::Activation(Activation::LeakyRelu { alpha: 0.1 }), &[x])
    }

    fn finish(mut self, outputs: &[ValueId]) -> Graph {
        outputs.iter().for_each(|&output| self.graph.add_output(output));
        self.graph
    }
}

/// Three stages of three residual blocks, 16 to 64 channels, on images of some size.
pub(crate) fn residual(size: usize) -> Graph {
    let mut layers = Layers::new("residual");
    let x = layers.graph.add_input("x", DType::F32, &[1, 3, size, size], &[]).unwrap();
    let mut x = layers.conv(x, 16, 3, 1);
    for (stage, channels) in [16, 32, 64].into_iter().enumerate() {
        for block in 0..3 {
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            let y = layers.conv(x, channels, 3, stride);
            let y = layers.relu(y);
            let y = layers.conv(y, channels, 3, 1);
            let shortcut = if stride == 2 { layers.conv(x, channels, 1, 2) } else { x };
            let sum = layers.node(Op::Binary(Binary::Add), &[y, shortcut]);
            x = layers.relu(sum);
        }
    }
    let pooled = layers.node(Op::GlobalAveragePool, &[x]);
    let flat = layers.node(Op::Flatten { axis: 1 }, &[pooled]);
    let (weights, bias) = (layers.constant(&[10, 64]), layers.constant(&[10]));
    let gemm = Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: true };
    let y = layers.node(Op::Gemm(gemm), &[flat, weights, bias]);
    layers.finish(&[y])
}

/// Two blocks whose channels are split, convolved and joined, pooled, and a head that doubles the
/// size of the last tensor and joins it with an earlier one: two outputs.
pub(crate) fn split(size: usize) -> Graph {
    let mut layers = Layers::new("split");
    let x = layers.graph.add_input("x", DType::F32, &[1, 3, size, size], &[]).unwrap();
    let x = layers.conv(x, 24, 3, 2);
    let mut x = layers.leaky(x);
    let mut joined = x;
    for channels in [24, 48] {
        let y = layers.conv(x, channels, 3, 1);
        let y = layers.leaky(y);
        let half = channels / 2;
        let range = SliceRange { axis: 1, start: half as i64, end: i64::MAX, step: 1 };
        let part = layers.node(Op::Slice { ranges: vec![range] }, &[y]);
        let a = layers.conv(part, half, 3, 1);
        let a = layers.leaky(a);
        let b = layers.conv(a, half, 3, 1);
        let b = layers.leaky(b);
        let both = layers.node(Op::Concat { axis: 1 }, &[b, a]);
        let both = layers.conv(both, channels, 1, 1);
        joined = layers.node(Op::Concat { axis: 1 }, &[y, both]);
        let mut window = Window::new(&[2, 2]);
        window.strides.fill(2);
        x = layers.node(Op::Pool(Pool { kind: PoolKind::Max, window, ceil: false }), &[joined]);
    }
    let last = layers.conv(x, 20, 1, 1);
    let resize = Resize {
        axes: vec![2, 3],
        target: ResizeTarget::Scales(vec![2.0, 2.0]),
        coordinates: Coordinates::Asymmetric,
        interpolation: Interpolation::Nearest(Nearest::Floor),
        exclude_outside: false,
        roi: Vec::new(),
    };
    let large = layers.node(Op::Resize(resize), &[last]);
    let head = layers.node(Op::Concat { axis: 1 }, &[large, joined]);
    let head = layers.conv(head, 18, 1, 1);
    layers.finish(&[last, head])
}
