//! Random graphs of layers of floats, against their definition and the executor of graphs.

use super::Net;
use super::definition::{Definition, rounded};
use quincunx_graph::execute::{Keep, float};
use quincunx_graph::{Activation, Binary, Conv, Gemm, Op, Pool, PoolKind, Unary, ValueId, Window};
use quincunx_tensor::Tensor;
use quincunx_testkit::Random;
use std::collections::{BTreeMap, BTreeSet};

/// A graph that grows.
struct Growth<'a> {
    net: Net,
    random: &'a mut Random,
    values: Vec<ValueId>,
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

    fn reals(&mut self, shape: &[usize], size: f64) -> Vec<f64> {
        (0..shape.iter().product()).map(|_| self.random.real() * size).collect()
    }

    fn input(&mut self) {
        let mut shape = vec![self.random.range(1, 3), self.random.range(1, 6)];
        let axes = self.random.below(3_usize);
        shape.extend((0..axes).map(|_| self.random.range(1, 7)));
        let (name, reals) = (self.name("x"), self.reals(&shape, 4.0));
        let value = self.net.given(&name, Tensor::from_vec(&shape, reals).unwrap());
        self.values.push(value);
    }

    fn constant(&mut self, shape: &[usize], size: f64) -> ValueId {
        let (name, reals) = (self.name("c"), self.reals(shape, size));
        self.net.plain(&name, shape, &reals)
    }

    fn window(&mut self, axes: usize) -> Window {
        let kernel: Vec<usize> = (0..axes).map(|_| self.random.range(1, 3)).collect();
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
        self.net.layers.push(vec![format!("{name}_node")]);
        Some(value)
    }

    /// Now and then an activation.
    fn end(&mut self, y: ValueId) {
        let name = self.name("t");
        let y = match self.random.below(4) {
            0 => self.net.tail(&name, Op::Unary(Unary::Relu), &[y]),
            1 => {
                let clip = Activation::Clip { min: Some(-1.3), max: Some(1.7) };
                self.net.tail(&name, Op::Activation(clip), &[y])
            }
            _ => y,
        };
        self.values.push(y);
    }

    fn product(&mut self, x: ValueId) -> Option<()> {
        let shape = self.shape(x);
        let (rank, outputs) = (shape.len(), self.random.range(1, 20));
        let (op, w, outputs) = match self.random.below(3) {
            0 if rank > 2 => {
                let window = self.window(rank - 2);
                let divisors = (1..=shape[1]).filter(|&n| shape[1].is_multiple_of(n));
                let groups = self.random.pick(&divisors.collect::<Vec<_>>());
                let w = [&[groups * outputs, shape[1] / groups], &window.kernel[..]].concat();
                (Op::Conv(Conv { window, groups }), w, groups * outputs)
            }
            1 if rank == 2 => {
                let transpose_b = self.random.coin();
                let w = if transpose_b { [outputs, shape[1]] } else { [shape[1], outputs] };
                let gemm = Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b };
                (Op::Gemm(gemm), w.to_vec(), outputs)
            }
            _ => (Op::MatMul, vec![shape[rank - 1], outputs], outputs),
        };
        let mut inputs = vec![x, self.constant(&w, 1.0)];
        let has_own = op != Op::MatMul && self.random.coin();
        if has_own {
            inputs.push(self.constant(&[outputs], 1.0));
        }
        let ones = if matches!(op, Op::Conv(_)) { rank - 2 } else { 0 };
        let mut y = self.begin(op, &inputs)?;
        if !has_own && self.random.coin() {
            let bias = self.constant(&[&[outputs], &vec![1; ones][..]].concat(), 1.0);
            let name = self.name("b");
            y = self.net.tail(&name, Op::Binary(Binary::Add), &[y, bias]);
        }
        self.end(y);
        Some(())
    }

    fn pool(&mut self, x: ValueId) -> Option<()> {
        let window = self.window(self.shape(x).len() - 2);
        let kind =
            self.random.pick(&[PoolKind::Max, PoolKind::Average { count_include_pad: true }]);
        let op = match self.random.below(4) {
            0 => Op::GlobalAveragePool,
            1 => Op::GlobalMaxPool,
            _ => Op::Pool(Pool { kind, window, ceil: false }),
        };
        let y = self.begin(op, &[x])?;
        self.end(y);
        Some(())
    }

    fn layer(&mut self) -> Option<()> {
        let x = self.random.pick(&self.values);
        let shape = self.shape(x);
        let rank = shape.len();
        match self.random.below(10) {
            0..5 => self.product(x),
            5 | 6 if rank > 2 => self.pool(x),
            7 => {
                let same = |y: &ValueId| self.shape(*y) == shape;
                let others: Vec<ValueId> = self.values.iter().copied().filter(same).collect();
                let other = self.random.pick(&others);
                let y = self.begin(Op::Binary(Binary::Add), &[x, other])?;
                self.end(y);
                Some(())
            }
            8 => {
                let clip = Activation::Clip { min: Some(-0.7), max: None };
                let op = [Op::Unary(Unary::Relu), Op::Activation(clip)];
                let op = self.random.pick(&op);
                let y = self.begin(op, &[x])?;
                self.values.push(y);
                Some(())
            }
            _ => {
                let ops = [
                    Op::Identity,
                    Op::Flatten { axis: 1 },
                    Op::Reshape { shape: vec![1, -1, shape[rank - 1] as i64] },
                ];
                let op = self.random.pick(&ops);
                let y = self.begin(op, &[x])?;
                self.values.push(y);
                Some(())
            }
        }
    }
}

/// A random network, all of whose unread values are outputs.
fn grown(random: &mut Random, precision: &'static str) -> Net {
    let last = if precision == "tf32" { "f32" } else { random.pick(&["f32", precision]) };
    let net = Net::floats(precision, last);
    let mut growth = Growth { net, random, values: Vec::new(), count: 0 };
    growth.input();
    growth.input();
    for _ in 0..6 {
        let before = (growth.net.clone(), growth.values.clone());
        let grown = growth.layer().and_then(|()| {
            // Windows without elements are refused.
            growth.net.run().ok().map(drop)
        });
        if grown.is_none() {
            (growth.net, growth.values) = before;
        }
    }
    let mut net = growth.net;
    let readers = net.graph.consumers();
    let unread = net.graph.nodes().map(|(_, node)| node.output);
    let unread: Vec<_> = unread.filter(|id| readers[id.index()].is_empty()).collect();
    unread.into_iter().for_each(|id| net.graph.add_output(id));
    net
}

/// Every number is that of the definition, and the network's are near to those of the executor.
#[test]
fn layers_are_as_defined() {
    let mut came = BTreeSet::new();
    let (mut equal, mut worst) = (0, BTreeMap::new());
    for case in 0..300 {
        let random = &mut Random::new(case);
        let precision = random.pick(&["bf16", "fp16", "tf32"]);
        let net = grown(random, precision);
        if net.layers.is_empty() {
            continue;
        }
        came.extend(net.graph.nodes().map(|(_, node)| node.op.name()));
        let found = net.run().unwrap();
        let numbers = net.inputs.iter().map(|(name, tensor)| {
            let kind = if precision == "tf32" { "f32" } else { precision };
            (name.clone(), tensor.to_f64().into_iter().map(|real| rounded(kind, real)).collect())
        });
        let mut definition = Definition { net: &net, precision, numbers: numbers.collect() };
        net.layers.iter().for_each(|layer| definition.layer(layer));
        let graph = &net.graph;
        let near = float(graph, &as_f32(&net), Keep::All).unwrap();
        for (name, expected) in &definition.numbers {
            let found = found[name].to_f64();
            assert_eq!(&found, expected, "case {case}: {name} in {precision}\n{graph}");
            equal += found.len();
            let real = near[name].to_f64();
            let norm = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|x| x * x).sum::<f64>();
            let distance = norm(&mut found.iter().zip(&real).map(|(a, b)| a - b)).sqrt();
            let share = distance / (norm(&mut real.iter().copied()).sqrt() + 0.1);
            let worst = worst.entry(precision).or_insert(0.0);
            *worst = share.max(*worst);
        }
    }
    let limits = BTreeMap::from([("bf16", 0.02), ("fp16", 0.0025), ("tf32", 0.005)]);
    for (precision, worst) in worst {
        assert!(worst < limits[precision], "{precision}: {worst}");
    }
    let all = "Add AveragePool Clip Conv Flatten Gemm GlobalAveragePool GlobalMaxPool Identity MatMul \
        MaxPool Relu Reshape";
    assert_eq!(came.into_iter().collect::<Vec<_>>().join(" "), all);
    assert!(equal > 50_000, "{equal}");
}

/// The inputs in f32.
fn as_f32(net: &Net) -> quincunx_tensor::Tensors {
    let narrow = |(name, tensor): (&String, &Tensor)| {
        let reals: Vec<f32> = tensor.to_f64().into_iter().map(|real| real as f32).collect();
        (name.clone(), Tensor::from_vec(tensor.shape(), reals).unwrap())
    };
    net.inputs.iter().map(narrow).collect()
}
