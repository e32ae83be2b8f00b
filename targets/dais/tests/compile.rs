//! Random graphs of every supported operator: all three judges must agree.

use quincunx_dais::TARGET;
use quincunx_graph::execute::{Keep, exact};
use quincunx_graph::{
    Binary, Constant, Conv, Gemm, Graph, Op, Param, Pool, PoolKind, Quantiser, Unary, ValueId,
    Window,
};
use quincunx_num::{Overflow, Rounding};
use quincunx_target::{ArchSource, Claim, Engine, Log, Options, Target};
use quincunx_tensor::{DType, Tensor, Tensors};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn range(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as u64) as i64
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 1
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}

/// Which operators, rounding and overflow modes a run of the generator used.
#[derive(Default)]
struct Coverage(std::collections::BTreeSet<String>);

struct Generator {
    random: Random,
    graph: Graph,
    count: usize,
    coverage: Coverage,
}

impl Generator {
    fn name(&mut self, base: &str) -> String {
        self.count += 1;
        format!("{base}{}", self.count)
    }

    fn node(&mut self, op: Op, inputs: &[ValueId]) -> ValueId {
        self.coverage.0.insert(op.name().to_owned());
        let inputs: Vec<_> = inputs.iter().map(|&i| Some(i)).collect();
        let name = self.name("node");
        self.graph.add_node(&name, op, &inputs, &format!("{name}_out")).unwrap()
    }

    fn shape(&self, value: ValueId) -> Vec<usize> {
        self.graph[value].shape.to_vec()
    }

    /// A fixed-point quantiser; scales may vary per channel, widths per element.
    fn quantiser(&mut self, shape: &[usize]) -> Quantiser {
        let random = &mut self.random;
        let channels = shape.get(1).copied().unwrap_or(1);
        let mut per_channel = vec![1; shape.len().saturating_sub(1)];
        if let Some(first) = per_channel.first_mut() {
            *first = channels;
        }
        let scale = |random: &mut Random| 2.0_f64.powi(random.range(-4, 1) as i32);
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
        let quantiser = Quantiser {
            signed: Param::uniform(random.coin()),
            width,
            scale,
            zero: Param::uniform(0),
            rounding: Param::uniform(rounding),
            overflow: Param::uniform(overflow),
        };
        self.coverage.0.insert(rounding.to_string());
        self.coverage.0.insert(overflow.to_string());
        quantiser
    }

    fn quantised(&mut self, value: ValueId) -> ValueId {
        let quantiser = self.quantiser(&self.shape(value));
        self.node(Op::Quantise(quantiser), &[value])
    }

    /// Weights: codes with a quantiser, or plain dyadic numbers.
    fn constant(&mut self, shape: &[usize]) -> ValueId {
        let elements: usize = shape.iter().product();
        let codes: Vec<i64> = (0..elements).map(|_| self.random.range(-8, 7)).collect();
        let name = self.name("constant");
        if self.random.coin() {
            let reals: Vec<f32> = codes.iter().map(|&c| c as f32 / 4.0).collect();
            return self
                .graph
                .add_constant(&name, Tensor::from_vec(shape, reals).unwrap())
                .unwrap();
        }
        let tensor = Tensor::from_vec(shape, codes).unwrap();
        let scale = 2.0_f64.powi(self.random.range(-5, 0) as i32);
        let quantiser = Some(Quantiser::symmetric(true, 4, scale));
        self.graph.add_constant(&name, Constant { tensor, quantiser }).unwrap()
    }

    fn window(&mut self, extents: &[usize], padding: bool) -> Window {
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

    fn layer(&mut self, x: ValueId) -> ValueId {
        let shape = self.shape(x);
        if shape.len() == 4 { self.image_layer(x, &shape) } else { self.vector_layer(x, &shape) }
    }

    fn image_layer(&mut self, x: ValueId, shape: &[usize]) -> ValueId {
        match self.random.below(8) {
            0 | 1 => {
                let window = self.window(&shape[2..], true);
                let groups = if shape[1].is_multiple_of(2) && self.random.coin() { 2 } else { 1 };
                let filters = groups * self.random.range(1, 2) as usize;
                let w = self.constant(&[
                    filters,
                    shape[1] / groups,
                    window.kernel[0],
                    window.kernel[1],
                ]);
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
                let kernel: Vec<usize> =
                    shape[2..].iter().map(|&e| if e >= 2 { 2 } else { 1 }).collect();
                let mut window = Window::new(&kernel);
                let pad = kernel[0] == 2 && self.random.coin();
                window.pads[0] = (usize::from(pad), 0);
                let count_include_pad = self.random.coin();
                let kind = PoolKind::Average { count_include_pad };
                let ceil = self.random.coin();
                self.node(Op::Pool(Pool { kind, window, ceil }), &[x])
            }
            4 if (shape[2] * shape[3]).is_power_of_two() => self.node(Op::GlobalAveragePool, &[x]),
            5 => self.node(Op::Transpose { order: vec![0, 2, 3, 1] }, &[x]),
            6 => self.node(Op::Flatten { axis: 1 }, &[x]),
            _ => self.elementwise(x),
        }
    }

    fn vector_layer(&mut self, x: ValueId, shape: &[usize]) -> ValueId {
        let features = shape[1];
        let out = self.random.range(1, 4) as usize;
        match self.random.below(4) {
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
            _ => self.elementwise(x),
        }
    }

    fn elementwise(&mut self, x: ValueId) -> ValueId {
        let shape = self.shape(x);
        match self.random.below(10) {
            0 => self.node(Op::Unary(Unary::Relu), &[x]),
            1 => self.node(Op::Unary(Unary::Neg), &[x]),
            2 => self.node(Op::Unary(Unary::Abs), &[x]),
            3 => self.node(Op::Identity, &[x]),
            4 => {
                let values: Vec<f32> =
                    (0..shape[1]).map(|_| self.random.pick(&[0.5, 2.0, -1.0, -4.0])).collect();
                let mut per_channel = vec![1; shape.len() - 1];
                per_channel[0] = shape[1];
                let name = self.name("divisor");
                let d = self
                    .graph
                    .add_constant(&name, Tensor::from_vec(&per_channel, values).unwrap())
                    .unwrap();
                self.node(Op::Binary(Binary::Div), &[x, d])
            }
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

fn random_graph(seed: u64) -> (Graph, Coverage) {
    let random = Random(seed);
    let mut g =
        Generator { random, graph: Graph::new("random"), count: 0, coverage: Coverage::default() };
    let shape = match g.random.below(3) {
        0 => vec![1, g.random.range(1, 6) as usize],
        _ => vec![
            1,
            g.random.range(1, 3) as usize,
            g.random.range(1, 4) as usize,
            g.random.range(1, 4) as usize,
        ],
    };
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

fn samples(graph: &Graph, random: &mut Random) -> Tensors {
    let id = graph.inputs()[0];
    let shape = &graph[id].shape;
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|_| random.range(-300, 300) as f32 / 32.0).collect();
    Tensors::from([(graph[id].name.clone(), Tensor::from_vec(shape, values).unwrap())])
}

/// Compiles a graph and compares the three judges on some inputs; false when a width does not fit.
fn judges_agree(graph: &Graph, seed: u64, preset: &str) -> bool {
    assert!(graph.verify().is_empty(), "seed {seed}: {:?}\n{graph}", graph.verify());
    let arch = TARGET.arch(&ArchSource::Preset(preset.to_owned())).unwrap();
    let claims = TARGET.claim(graph, arch.as_ref());
    assert!(claims.iter().all(|c| *c == Claim::Device), "seed {seed}: {claims:?}\n{graph}");
    let options =
        Options::new(TARGET.info().options, &[("keep-layers".to_owned(), "true".to_owned())])
            .unwrap();
    let compiled = match TARGET.compile(graph, arch.as_ref(), &options, &mut Log::default()) {
        Ok(compiled) => compiled,
        Err(problems) => {
            assert!(
                problems.iter().all(|p| p.code() == "Q1202"),
                "seed {seed}: {problems:?}\n{graph}"
            );
            return false;
        }
    };
    let problems = compiled.program.verify();
    assert!(problems.is_empty(), "seed {seed}: {problems:?}\n{graph}");
    let mut machine = compiled.program.load(Engine::Exec).unwrap();
    let mut random = Random(seed ^ 0x5eed);
    for _ in 0..8 {
        let inputs = samples(graph, &mut random);
        let golden = TARGET.golden(graph, &compiled.numerics, &inputs).unwrap();
        let reference = exact(graph, &inputs, Keep::All).unwrap();
        let traced = machine.run_traced(&inputs).unwrap();
        let outputs = machine.run(&inputs).unwrap();
        for (_, node) in graph.nodes() {
            let name = &graph[node.output].name;
            assert_eq!(
                golden[name].to_f64(),
                reference[name].to_f64(),
                "seed {seed}: {name}\n{graph}"
            );
            assert_eq!(golden[name], traced[name], "seed {seed}: {name}\n{graph}");
        }
        for &output in graph.outputs() {
            assert_eq!(
                outputs[&graph[output].name], golden[&graph[output].name],
                "seed {seed}\n{graph}"
            );
        }
    }
    true
}

#[test]
fn three_judges_agree_on_random_graphs() {
    let mut compiled = 0;
    let mut coverage = Coverage::default();
    for seed in 0..400 {
        let (graph, used) = random_graph(seed);
        if judges_agree(&graph, seed, "d1") {
            compiled += 1;
            coverage.0.extend(used.0);
        }
    }
    assert!(compiled >= 300, "only {compiled} graphs fit");
    let expected = [
        "Conv",
        "Gemm",
        "MatMul",
        "MaxPool",
        "AveragePool",
        "GlobalAveragePool",
        "Relu",
        "Neg",
        "Abs",
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Max",
        "Min",
        "Flatten",
        "Reshape",
        "Transpose",
        "Identity",
        "Quantise",
    ];
    let modes =
        Rounding::ALL.iter().map(|r| r.name()).chain(Overflow::ALL.iter().map(|o| o.name()));
    for name in expected.into_iter().chain(modes) {
        assert!(coverage.0.contains(name), "{name} was never generated");
    }
}

/// Slots above 64 bits: the same graphs with repeated squaring.
#[test]
fn judges_agree_on_wide_slots() {
    let mut compiled = 0;
    for seed in 0..20 {
        let (mut graph, _) = random_graph(seed);
        let mut value = graph.outputs()[0];
        for step in 0..3 {
            let name = format!("square{step}");
            let op = Op::Binary(Binary::Mul);
            value = graph
                .add_node(&name, op, &[Some(value), Some(value)], &format!("{name}_out"))
                .unwrap();
        }
        graph.add_output(value);
        compiled += usize::from(judges_agree(&graph, seed, "wide"));
    }
    assert!(compiled >= 10, "only {compiled} graphs fit");
}

#[test]
fn seed_dialect_compiles_the_same_graphs() {
    for seed in 0..50 {
        judges_agree(&random_graph(seed).0, seed, "seed");
    }
}
