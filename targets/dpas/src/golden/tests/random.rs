//! Random graphs of all layers against the exact executor of graphs.

use super::{Net, grid};
use quincunx_graph::execute::{Keep, exact};
use quincunx_graph::{
    Activation, Binary, Conv, Gemm, Op, Param, Pool, PoolKind, Quantiser, Unary, ValueId, Window,
};
use quincunx_tensor::Tensor;
use quincunx_testkit::Random;
use std::collections::BTreeSet;

/// A graph that grows.
struct Growth<'a> {
    net: Net,
    random: &'a mut Random,
    /// All scales are powers of two, so that many sums are ties.
    has_ties: bool,
    /// Values on grids, with their scales.
    values: Vec<(ValueId, f64)>,
    /// Names of the sums of two values, with a step of their grids.
    sums: Vec<(String, f64)>,
    count: usize,
}

impl Growth<'_> {
    fn name(&mut self, base: &str) -> String {
        self.count += 1;
        format!("{base}{}", self.count)
    }

    fn shape(&self, value: ValueId) -> Vec<usize> {
        self.net.graph[value].shape.to_vec()
    }

    /// A scale of about this size that f32 holds.
    fn scale(&mut self, about: f64) -> f64 {
        if self.has_ties {
            return 2.0_f64.powi(about.log2().round() as i32 + self.random.range(-1, 1));
        }
        f64::from((about * (1.0 + 0.5 * self.random.real())) as f32)
    }

    fn grid(&mut self, scale: f64) -> Quantiser {
        let signed = self.random.coin();
        let zero = self.random.range(0, 255) - if signed { 128 } else { 0 };
        let usual = if signed { 0 } else { 128 };
        grid(signed, scale, if self.random.coin() { zero } else { usual })
    }

    fn input(&mut self) {
        let spatial = self.random.below(4);
        let mut shape = vec![self.random.range(1, 2), self.random.range(1, 6)];
        // A last axis of 4 only here and there: a matrix, sequences, images.
        shape.extend((0..spatial.min(2)).map(|_| self.random.range(1, 7)));
        let scale = self.scale(0.02);
        let elements = shape.iter().product::<usize>();
        let reals: Vec<f32> = (0..elements)
            .map(|_| match self.random.coin() {
                true => self.random.real() as f32 * 4.0,
                false => self.random.range(-300_i16, 300) as f32 * scale as f32 / 2.0,
            })
            .collect();
        let (name, grid) = (self.name("x"), self.grid(scale));
        let value = self.net.given(&name, Tensor::from_vec(&shape, reals).unwrap());
        let value = self.net.layer(&format!("{name}q"), Op::Quantise(grid), &[value]);
        self.values.push((value, scale));
    }

    /// Weights, and the scale of every output.
    fn weights(&mut self, shape: &[usize], axis: usize) -> (ValueId, Vec<f64>) {
        let (width, signed) = (self.random.pick(&[8, 8, 4, 2]), self.random.coin());
        let [low, high] = match signed {
            true => [-(1_i64 << (width - 1)), (1 << (width - 1)) - 1],
            false => [0, (1 << width) - 1],
        };
        let elements = shape.iter().product::<usize>();
        let codes: Vec<i64> = (0..elements).map(|_| self.random.range(low, high)).collect();
        let mut along = vec![1; shape.len() - axis];
        along[0] = shape[axis];
        let mut of = Quantiser::symmetric(signed, width, self.scale(0.01));
        if self.random.coin() {
            let scales = (0..shape[axis]).map(|_| self.scale(0.01)).collect();
            of.scale = Param::new(&along, scales).unwrap();
        }
        match self.random.below(3) {
            0 => of.zero = Param::uniform(self.random.range(low, high)),
            1 => {
                let zeros = (0..shape[axis]).map(|_| self.random.range(low, high)).collect();
                of.zero = Param::new(&along, zeros).unwrap();
            }
            _ => {}
        }
        let scales = match of.scale.as_uniform() {
            Some(scale) => vec![scale; shape[axis]],
            None => of.scale.values().to_vec(),
        };
        let name = self.name("w");
        (self.net.codes(&name, shape, &codes, of), scales)
    }

    /// A bias of whole units of the sums of every output, here and there one for all.
    fn bias(&mut self, shape: &[usize], units: &[f64]) -> ValueId {
        let codes: Vec<i64> = units.iter().map(|_| self.random.range(-9000, 9000)).collect();
        let mut of = Quantiser::symmetric(true, 32, 1.0);
        let units = units.iter().map(|unit| unit.abs()).collect();
        of.scale = Param::new(shape, units).unwrap();
        let name = self.name("b");
        self.net.codes(&name, shape, &codes, of)
    }

    fn window(&mut self, extents: &[usize]) -> Window {
        let kernel: Vec<usize> = extents.iter().map(|_| self.random.range(1, 3)).collect();
        let mut window = Window::new(&kernel);
        for (axis, &size) in kernel.iter().enumerate() {
            window.strides[axis] = self.random.range(1, 3);
            window.pads[axis] = (self.random.below(size), self.random.below(size));
            window.dilations[axis] = self.random.pick(&[1, 1, 2]);
        }
        window
    }

    /// A node that begins a layer, if its operands fit.
    fn begin(&mut self, op: Op, inputs: &[ValueId]) -> Option<ValueId> {
        let name = self.name("n");
        let value = self.net.node(&name, op, inputs).ok()?;
        if self.shape(value).contains(&0) {
            return None;
        }
        self.net.layers.push(vec![format!("{name}_node")]);
        Some(value)
    }

    fn continued(&mut self, op: Op, x: &[ValueId]) -> ValueId {
        let name = self.name("t");
        self.net.tail(&name, op, x)
    }

    /// Now and then an activation; mostly a grid, whose codes are about `spread` units each.
    fn end(&mut self, y: ValueId, unit: f64, spread: f64) {
        let y = match self.random.below(5) {
            0 => self.continued(Op::Unary(Unary::Relu), &[y]),
            1 => {
                let [a, b] = [0, 0].map(|_| self.random.real() * spread * unit * 99.0);
                let bounds = [(None, Some(b)), (Some(a), None), (Some(a.min(b)), Some(a.max(b)))];
                let (min, max) = self.random.pick(&bounds);
                let [min, max] = [min, max].map(|limit| limit.map(|limit| limit as f32));
                self.continued(Op::Activation(Activation::Clip { min, max }), &[y])
            }
            _ => y,
        };
        if self.random.chance(80) {
            // A whole number of units has ties, whether or not it is a power of two.
            let scale = match self.random.coin() && !self.has_ties {
                true => unit * self.random.pick(&[1.0, 6.0, 10.0, 48.0, 1001.0]),
                false => self.scale(unit * spread),
            };
            let grid = self.grid(scale);
            let y = self.continued(Op::Quantise(grid), &[y]);
            // Scales of later biases have to be exact.
            if f64::from(scale as f32) == scale {
                self.values.push((y, scale));
            }
        }
    }

    fn product(&mut self, x: ValueId, scale: f64) -> Option<()> {
        let shape = self.shape(x);
        let (outputs, rank) = (self.random.range(1, 7), shape.len());
        let kind = if rank > 2 { self.random.below(3) } else { self.random.range(1, 2) };
        let (op, w, scales, alpha) = match kind {
            0 => {
                let window = self.window(&shape[2..]);
                let divisors: Vec<usize> =
                    (1..=shape[1]).filter(|&n| shape[1].is_multiple_of(n)).collect();
                let groups = self.random.pick(&divisors);
                let w = [&[groups * outputs, shape[1] / groups], &window.kernel[..]].concat();
                let (w, scales) = self.weights(&w, 0);
                (Op::Conv(Conv { window, groups }), w, scales, 1.0)
            }
            1 if rank == 2 => {
                let transpose_b = self.random.coin();
                let w = if transpose_b { [outputs, shape[1]] } else { [shape[1], outputs] };
                let (w, scales) = self.weights(&w, usize::from(!transpose_b));
                let alpha = self.random.pick(&[1.0, 0.5, -0.25, 0.3]);
                let gemm = Gemm { alpha, beta: 1.0, transpose_a: false, transpose_b };
                (Op::Gemm(gemm), w, scales, alpha)
            }
            _ => {
                let (w, scales) = self.weights(&[shape[rank - 1], outputs], 1);
                (Op::MatMul, w, scales, 1.0)
            }
        };
        let units: Vec<f64> =
            scales.iter().map(|weight| scale * weight * f64::from(alpha)).collect();
        let is_exact = alpha != 0.3_f32;
        let (is_conv, is_product) = (kind == 0, op == Op::MatMul);
        let mut inputs = vec![x, w];
        if is_exact && !is_product && self.random.coin() {
            inputs.push(self.bias(&[units.len()], &units));
        }
        let (has_bias, conv_axes) = (inputs.len() == 3, if is_conv { rank - 2 } else { 0 });
        let mut y = self.begin(op, &inputs)?;
        if is_exact && !has_bias && self.random.coin() {
            let along = [vec![units.len()], vec![1; conv_axes]].concat();
            let bias = self.bias(&along, &units);
            let operands = if self.random.coin() { [y, bias] } else { [bias, y] };
            y = self.continued(Op::Binary(Binary::Add), &operands);
        }
        self.end(y, scale * scales[0] * f64::from(alpha).abs(), 700.0);
        Some(())
    }

    fn pool(&mut self, x: ValueId, scale: f64) -> Option<()> {
        let (window, is_max) = (self.window(&self.shape(x)[2..]), self.random.coin());
        let (op, count) = match self.random.below(3) {
            0 if is_max => (Op::GlobalMaxPool, 1),
            0 => (Op::GlobalAveragePool, self.shape(x)[2..].iter().product()),
            _ if is_max => (Op::Pool(Pool { kind: PoolKind::Max, window, ceil: false }), 1),
            _ => {
                let (kind, count) =
                    (PoolKind::Average { count_include_pad: true }, window.kernel.iter().product());
                (Op::Pool(Pool { kind, window, ceil: false }), count)
            }
        };
        let is_empty = |window: &Window, extents: &[usize]| {
            (0..extents.len()).any(|axis| {
                let (before, after) = window.pads[axis];
                let span = window.span(axis).unwrap();
                let outs = (before + extents[axis] + after).saturating_sub(span)
                    / window.strides[axis]
                    + 1;
                (0..outs).any(|out| window.taps(axis, out, extents[axis]).is_empty())
            })
        };
        if let Op::Pool(pool) = &op
            && is_empty(&pool.window, &self.shape(x)[2..])
        {
            return None;
        }
        let y = self.begin(op, &[x])?;
        self.end(y, scale / count as f64, count as f64);
        Some(())
    }

    fn layer(&mut self) -> Option<()> {
        let (x, scale) = self.random.pick(&self.values);
        let shape = self.shape(x);
        let rank = shape.len();
        match self.random.below(10) {
            0..4 => self.product(x, scale),
            4 | 5 if rank > 2 => self.pool(x, scale),
            6 => {
                let others = self.values.iter().filter(|(y, _)| self.shape(*y) == shape);
                let others: Vec<_> = others.copied().collect();
                let (other, other_scale) = self.random.pick(&others);
                let mut y = self.begin(Op::Binary(Binary::Add), &[x, other])?;
                if self.random.coin() {
                    y = self.continued(Op::Unary(Unary::Relu), &[y]);
                }
                let scale = self.scale(scale.max(other_scale));
                let grid = self.grid(scale);
                let y = self.continued(Op::Quantise(grid), &[y]);
                // What reads it would differ as well.
                self.sums.push((self.net.graph[y].name.clone(), scale));
                Some(())
            }
            7 => {
                let op = match self.random.below(3) {
                    0 => Op::Unary(Unary::Relu),
                    1 => Op::Activation(Activation::Clip { min: None, max: Some(1.5) }),
                    _ => {
                        let scale = self.scale(scale * 1.5);
                        Op::Quantise(self.grid(scale))
                    }
                };
                let quantised = match &op {
                    Op::Quantise(grid) => grid.scale.as_uniform(),
                    _ => None,
                };
                let is_relu = op == Op::Unary(Unary::Relu);
                let y = self.begin(op, &[x])?;
                match quantised {
                    Some(scale) => self.values.push((y, scale)),
                    None if is_relu && self.random.coin() => self.values.push((y, scale)),
                    None => {
                        let scale = self.scale(scale);
                        let grid = self.grid(scale);
                        let y = self.continued(Op::Quantise(grid), &[y]);
                        self.values.push((y, scale));
                    }
                }
                Some(())
            }
            _ => {
                let op = match self.random.below(4) {
                    0 => Op::Identity,
                    1 => Op::Flatten { axis: self.random.below(rank) },
                    2 => Op::Reshape { shape: vec![1, -1, shape[rank - 1] as i64] },
                    _ => {
                        let mut order: Vec<usize> = (0..rank).collect();
                        let (a, b) = (self.random.below(rank), self.random.below(rank));
                        order.swap(a, b);
                        order.rotate_left(self.random.below(rank));
                        Op::Transpose { order }
                    }
                };
                let y = self.begin(op, &[x])?;
                self.values.push((y, scale));
                Some(())
            }
        }
    }
}

/// What the exact executor computes, but for sums of two values.
#[test]
fn layers_are_exact() {
    let mut came = BTreeSet::new();
    let (mut equal, mut sums) = (0, [0, 0]);
    for case in 0..400 {
        let random = &mut Random::new(case);
        let has_ties = random.coin();
        let mut growth = Growth {
            net: Net::new(),
            random,
            has_ties,
            values: Vec::new(),
            sums: Vec::new(),
            count: 0,
        };
        growth.input();
        growth.input();
        for _ in 0..8 {
            let (net, values) = (growth.net.clone(), growth.values.clone());
            if growth.layer().is_none() {
                (growth.net, growth.values) = (net, values);
            }
        }
        let Growth { mut net, sums: of_two, .. } = growth;
        let readers = net.graph.consumers();
        let unread = net.graph.nodes().map(|(_, node)| node.output);
        let unread: Vec<_> = unread.filter(|id| readers[id.index()].is_empty()).collect();
        unread.into_iter().for_each(|id| net.graph.add_output(id));
        came.extend(net.graph.nodes().map(|(_, node)| node.op.name()));
        let graph = &net.graph;
        assert!(graph.verify().is_empty(), "{:?}\n{graph}", graph.verify());
        let found = net.run().unwrap_or_else(|problem| panic!("case {case}: {problem}\n{graph}"));
        let expected = exact(graph, &net.inputs, Keep::All).unwrap();
        let last = net.layers.iter().map(|layer| layer.last().unwrap());
        for node in last {
            let name = node.strip_suffix("_node").unwrap();
            let (found, expected) = (found[name].to_f64(), expected[name].to_f64());
            let Some((_, step)) = of_two.iter().find(|(sum, _)| sum == name) else {
                assert_eq!(found, expected, "case {case}: {name}\n{graph}");
                equal += found.len();
                continue;
            };
            for (found, expected) in found.into_iter().zip(expected) {
                let distance = (found - expected).abs();
                assert!(distance <= step * 1.000001, "case {case}: {name}\n{graph}");
                sums[usize::from(distance > 0.0)] += 1;
            }
        }
    }
    assert!(equal > 50_000 && sums[0] > 5000 && sums[1] < sums[0] / 100, "{equal} {sums:?}");
    let all = "Add AveragePool Clip Conv Flatten Gemm GlobalAveragePool GlobalMaxPool Identity MatMul \
        MaxPool Quantise Relu Reshape Transpose";
    assert_eq!(came.into_iter().collect::<Vec<_>>().join(" "), all);
}
