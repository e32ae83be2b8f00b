//! A generator of random graphs; also for the tests outside of the library.

use super::{TcuArch, is_taken};
use quincunx_graph::{
    Activation, BatchNorm, Binary, Conv, Coordinates, Gemm, Graph, Interpolation, Nearest, Op, Pad,
    PadMode, Pool, PoolKind, Reduce, ReduceKind, Resize, ResizeTarget, SliceRange, Softmax, Unary,
    ValueId, Window,
};
use quincunx_tensor::{DType, Tensor};
use std::collections::BTreeMap;

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub(crate) fn range(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    pub(crate) fn coin(&mut self) -> bool {
        self.below(2) == 1
    }

    pub(crate) fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    pub(crate) fn real(&mut self) -> f32 {
        self.range(0, 400) as f32 / 200.0 - 1.0
    }
}

/// Makes a graph of what the machine takes.
pub(crate) struct Generator {
    pub(crate) random: Random,
    pub(crate) graph: Graph,
    pub(crate) arch: TcuArch,
    /// Names that were given.
    pub(crate) count: usize,
    /// How often each operator was used.
    pub(crate) used: BTreeMap<String, usize>,
}

impl Generator {
    fn constant(&mut self, shape: &[usize]) -> ValueId {
        let reals = (0..shape.iter().product()).map(|_| self.random.real()).collect();
        self.plain(Tensor::from_vec::<f32>(shape, reals).unwrap())
    }

    fn plain(&mut self, tensor: Tensor) -> ValueId {
        self.count += 1;
        self.graph.add_constant(&format!("c{}", self.count), tensor).unwrap()
    }

    fn window(&mut self, spatial: &[usize]) -> Window {
        let kernel: Vec<usize> =
            spatial.iter().map(|&extent| self.random.range(1, extent.min(3))).collect();
        let mut window = Window::new(&kernel);
        for (axis, extent) in kernel.iter().enumerate() {
            window.strides[axis] = self.random.range(1, 2);
            window.dilations[axis] = self.random.range(1, 2);
            let most = extent - 1;
            window.pads[axis] = (self.random.range(0, most), self.random.range(0, most));
        }
        window
    }

    /// A random operator on a value, with its constant operands.
    #[expect(clippy::too_many_lines, reason = "a case per operator")]
    fn op(&mut self, x: ValueId, others: &[ValueId]) -> Option<(Op, Vec<ValueId>)> {
        let shape = self.graph[x].shape.to_vec();
        let rank = shape.len();
        // Other machines refuse functions.
        let kinds = if self.arch.lookup_tables.is_some() { 29 } else { 26 };
        Some(match self.random.below(kinds) {
            0..=3 if rank > 2 => {
                let groups = if self.random.coin() { shape[1] } else { 1 };
                let window = self.window(&shape[2..]);
                let outputs = self.random.range(1, 3) * groups.max(2);
                let mut weights = vec![outputs, shape[1] / groups];
                weights.extend_from_slice(&window.kernel);
                let mut inputs = vec![x, self.constant(&weights)];
                if self.random.coin() {
                    inputs.push(self.constant(&[outputs]));
                }
                (Op::Conv(Conv { window, groups }), inputs)
            }
            0..=3 if rank == 2 => {
                let outputs = self.random.range(1, 12);
                let transpose_b = self.random.coin();
                let (alpha, beta) = (self.random.real(), self.random.real());
                let b = if transpose_b { [outputs, shape[1]] } else { [shape[1], outputs] };
                let bias = self.random.pick(&[1, outputs]);
                let inputs = vec![x, self.constant(&b), self.constant(&[bias])];
                (Op::Gemm(Gemm { alpha, beta, transpose_a: false, transpose_b }), inputs)
            }
            4 if rank == 2 => {
                let outputs = self.random.range(1, 12);
                (Op::MatMul, vec![x, self.constant(&[shape[1], outputs])])
            }
            5 | 6 if rank > 2 => {
                let count_include_pad = self.random.coin();
                let average = PoolKind::Average { count_include_pad };
                let kind = if self.random.coin() { PoolKind::Max } else { average };
                let window = self.window(&shape[2..]);
                (Op::Pool(Pool { kind, window, ceil: self.random.coin() }), vec![x])
            }
            7 if rank > 2 => {
                let kind = self.random.pick(&[ReduceKind::Mean, ReduceKind::Sum, ReduceKind::Max]);
                let axes = if self.random.coin() { (2..rank).collect() } else { vec![rank - 1] };
                let reduce = Op::Reduce(Reduce { kind, axes, keep_dims: self.random.coin() });
                let global =
                    self.random.pick(&[Op::GlobalAveragePool, Op::GlobalMaxPool].each_ref());
                (if self.random.coin() { reduce } else { global.clone() }, vec![x])
            }
            8 if rank > 1 => {
                let mut inputs = vec![x];
                inputs.extend((0..3).map(|_| self.constant(&[shape[1]])));
                let variance = vec![0.75; shape[1]];
                inputs.push(self.plain(Tensor::from_vec::<f32>(&[shape[1]], variance).unwrap()));
                (Op::BatchNorm(BatchNorm { epsilon: 1e-3 }), inputs)
            }
            9 | 10 => {
                (Op::Unary(self.random.pick(&[Unary::Relu, Unary::Neg, Unary::Abs])), vec![x])
            }
            11 => {
                let (min, max) = (self.random.real(), self.random.real());
                let clip = Activation::Clip {
                    min: self.random.coin().then_some(min),
                    max: self.random.coin().then_some(max),
                };
                let leaky = Activation::LeakyRelu { alpha: self.random.real() };
                (Op::Activation(if self.random.coin() { clip } else { leaky }), vec![x])
            }
            12 => {
                let mut slope = vec![1; rank];
                if self.random.coin() && rank > 1 {
                    slope[1] = shape[1];
                }
                (Op::PRelu, vec![x, self.constant(&slope)])
            }
            13..=15 => {
                let ops = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Max, Binary::Min];
                let other = if self.random.coin() {
                    self.random.pick(others)
                } else {
                    let coins: Vec<bool> = shape.iter().map(|_| self.random.coin()).collect();
                    let extent = |(&extent, coin): (&usize, bool)| if coin { 1 } else { extent };
                    let extents: Vec<usize> = shape.iter().zip(coins).map(extent).collect();
                    self.constant(&extents)
                };
                let swap = self.random.coin();
                let inputs = if swap { vec![other, x] } else { vec![x, other] };
                (Op::Binary(self.random.pick(&ops)), inputs)
            }
            16..=18 if rank > 1 => {
                let mut inputs = vec![x];
                let fitting: Vec<ValueId> = others
                    .iter()
                    .copied()
                    .filter(|&other| {
                        let shape_of = &self.graph[other].shape;
                        shape_of.len() == rank
                            && (0..rank).all(|axis| axis == 1 || shape_of[axis] == shape[axis])
                    })
                    .collect();
                inputs.extend((0..self.random.range(0, 2)).map(|_| self.random.pick(&fitting)));
                (Op::Concat { axis: 1 }, inputs)
            }
            19 => {
                let axis = self.random.below(rank);
                let start = self.random.below(shape[axis]) as i64;
                let step = self.random.pick(&[1, 1, 2, -1]);
                let end = if step < 0 { i64::MIN } else { i64::MAX };
                (Op::Slice { ranges: vec![SliceRange { axis, start, end, step }] }, vec![x])
            }
            20 => {
                let modes = [PadMode::Constant(0.0), PadMode::Edge, PadMode::Reflect];
                let mode = self.random.pick(&modes);
                let channels = self.random.below(4) == 0;
                let pads = (0..rank)
                    .map(|axis| match axis {
                        0 => (0, 0),
                        1 if !channels => (0, 0),
                        _ => (self.random.range(0, 2) as i64, self.random.range(0, 1) as i64),
                    })
                    .collect();
                (Op::Pad(Pad { pads, mode }), vec![x])
            }
            21 => {
                let axis = self.random.below(rank);
                let indices: Vec<i64> = (0..self.random.range(1, 4))
                    .map(|_| self.random.below(shape[axis]) as i64)
                    .collect();
                let indices = self.plain(Tensor::from_vec(&[indices.len()], indices).unwrap());
                (Op::Gather { axis }, vec![x, indices])
            }
            22 if rank > 2 => (Op::Resize(self.resize(rank, &shape)), vec![x]),
            23 => match self.random.below(4) {
                0 => (Op::Flatten { axis: 1.min(rank) }, vec![x]),
                1 => {
                    let rest = -1;
                    (Op::Reshape { shape: vec![shape[0] as i64, rest] }, vec![x])
                }
                2 => {
                    let (n, c) = (shape[0] as i64, self.random.range(1, 4) as i64);
                    (Op::Reshape { shape: vec![n, c, 1, -1] }, vec![x])
                }
                _ => (Op::Identity, vec![x]),
            },
            24 => {
                let mut order: Vec<usize> = (0..rank).collect();
                let (a, b) = (self.random.below(rank), self.random.below(rank));
                order.swap(a, b);
                (Op::Transpose { order }, vec![x])
            }
            25 => {
                let repeats =
                    (0..rank).map(|axis| if axis == 0 { 1 } else { self.random.range(1, 2) });
                let repeats: Vec<usize> = repeats.collect();
                if self.random.coin() {
                    return Some((Op::Tile { repeats }, vec![x]));
                }
                let stretched =
                    |(&extent, repeat): (&usize, usize)| if extent == 1 { repeat } else { 1 };
                let shape = shape.iter().zip(repeats).map(stretched).collect();
                (Op::Expand { shape }, vec![x])
            }
            26 | 27 => {
                let functions = [
                    Op::Unary(Unary::Sigmoid),
                    Op::Unary(Unary::Tanh),
                    Op::Unary(Unary::Exp),
                    Op::Unary(Unary::Gelu),
                    Op::Unary(Unary::HardSwish),
                    Op::Unary(Unary::Softplus),
                    Op::Activation(Activation::Elu { alpha: 0.75 }),
                    Op::Activation(Activation::HardSigmoid { alpha: 0.25, beta: 0.5 }),
                ];
                (self.random.pick(&functions.each_ref()).clone(), vec![x])
            }
            28 => {
                let axis =
                    if self.random.coin() { 1.min(rank - 1) } else { self.random.below(rank) };
                (Op::Softmax(Softmax { axis, log: false }), vec![x])
            }
            _ => return None,
        })
    }

    fn resize(&mut self, rank: usize, shape: &[usize]) -> Resize {
        let axes: Vec<usize> = (2..rank).collect();
        let scale = |random: &mut Random| random.pick(&[0.5, 1.0, 1.5, 2.0]);
        let scales = axes.iter().map(|_| scale(&mut self.random)).collect();
        let sizes = axes.iter().map(|&axis| self.random.range(1, shape[axis] + 2)).collect();
        let target = if self.random.coin() {
            ResizeTarget::Scales(scales)
        } else {
            ResizeTarget::Sizes(sizes)
        };
        let coordinates = self.random.pick(&[
            Coordinates::HalfPixel,
            Coordinates::HalfPixelSymmetric,
            Coordinates::PytorchHalfPixel,
            Coordinates::AlignCorners,
            Coordinates::Asymmetric,
            Coordinates::TfHalfPixel,
            Coordinates::CropAndResize { extrapolation: 0.0 },
        ]);
        let interpolation = self.random.pick(&[
            Interpolation::Nearest(Nearest::Floor),
            Interpolation::Nearest(Nearest::RoundPreferFloor),
            Interpolation::Linear,
            Interpolation::Cubic { a: -0.75 },
        ]);
        let roi = match coordinates {
            Coordinates::CropAndResize { .. } => axes.iter().map(|_| (0.25, 1.2)).collect(),
            _ => Vec::new(),
        };
        let exclude_outside = self.random.coin();
        Resize { axes, target, coordinates, interpolation, exclude_outside, roi }
    }

    /// Adds a node that the machine takes, if the one that was drawn is one.
    fn grow(&mut self, values: &mut Vec<ValueId>) {
        let x = match self.random.coin() {
            true => values[values.len() - 1],
            false => self.random.pick(values),
        };
        let before = self.graph.clone();
        let Some((op, inputs)) = self.op(x, values) else {
            return;
        };
        self.count += 1;
        let name = op.name().to_owned();
        let inputs: Vec<Option<ValueId>> = inputs.into_iter().map(Some).collect();
        let output = format!("v{}", self.count);
        let added = self.graph.add_node(&format!("n{}", self.count), op, &inputs, &output);
        let taken = added.as_ref().ok().filter(|&&value| {
            let size: usize = self.graph[value].shape.iter().product();
            size <= 2000 && is_taken(&self.graph, &self.arch, value)
        });
        match taken {
            Some(&value) => {
                values.push(value);
                *self.used.entry(name).or_default() += 1;
            }
            None => self.graph = before,
        }
    }

    /// Fills the graph.
    pub(crate) fn build(&mut self) {
        let mut values = Vec::new();
        for index in 0..self.random.range(1, 2) {
            let (n, c) = (self.random.range(1, 2), self.random.range(1, 11));
            let mut shape = vec![n, c];
            let axes = self.random.pick(&[0, 1, 2, 2, 2, 2]);
            shape.extend((0..axes).map(|_| self.random.range(1, 6)));
            values
                .push(self.graph.add_input(&format!("x{index}"), DType::F32, &shape, &[]).unwrap());
        }
        let inputs = values.len();
        for _ in 0..self.random.range(4, 24) {
            self.grow(&mut values);
        }
        let readers = self.graph.consumers();
        for &value in &values[inputs..] {
            if readers[value.index()].is_empty() || self.random.below(8) == 0 {
                self.graph.add_output(value);
            }
        }
        if self.random.below(6) == 0 {
            self.graph.add_output(values[0]);
        }
    }
}
