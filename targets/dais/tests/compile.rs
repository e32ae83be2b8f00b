//! Random graphs of every supported operator: all three judges must agree.

use quincunx_dais::TARGET;
use quincunx_graph::execute::{Keep, exact};
use quincunx_graph::{
    Activation, Binary, Constant, Conv, ConvTranspose, Coordinates, Gemm, Graph, Interpolation,
    Nearest, Op, Pad, PadMode, Param, Pool, PoolKind, Quantiser, Reduce, ReduceKind, Resize,
    ResizeTarget, SliceRange, Unary, ValueId, Window,
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
        match self.random.below(13) {
            10 | 11 => self.movement(x),
            12 => self.transposed(x, shape),
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
            7 => self.node(Op::GlobalMaxPool, &[x]),
            8 => self.reduction(x, &[2, 3]),
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
        let kinds = [ReduceKind::Sum, ReduceKind::Max, ReduceKind::Min, ReduceKind::Mean];
        let known = if count.is_power_of_two() { 4 } else { 3 };
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
        let slopes = [0.0, 0.5, 0.125, -0.75, 1.0, 2.5];
        match self.random.below(5) {
            0 => {
                let alpha = self.random.pick(&slopes);
                self.node(Op::Activation(Activation::LeakyRelu { alpha }), &[x])
            }
            1 => {
                let alpha = self.random.pick(&[0.25, -0.5, 3.0]);
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

    fn elementwise(&mut self, x: ValueId) -> ValueId {
        let shape = self.shape(x);
        match self.random.below(13) {
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
        "GlobalMaxPool",
        "ConvTranspose",
        "Concat",
        "Slice",
        "Pad",
        "Gather",
        "Expand",
        "Tile",
        "Resize",
        "ReduceSum",
        "ReduceMean",
        "ReduceMax",
        "ReduceMin",
        "LeakyRelu",
        "HardSigmoid",
        "Clip",
        "PRelu",
        "Where",
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

/// One node on a quantised input; the reason why the machine leaves it to the host.
fn reason(op: Op) -> String {
    let mut graph = Graph::new("refused");
    let x = graph.add_input("x", DType::F32, &[1, 3], &[]).unwrap();
    let q = Op::Quantise(Quantiser::symmetric(true, 4, 0.5));
    let q = graph.add_node("q", q, &[Some(x)], "qx").unwrap();
    let y = graph.add_node("node", op, &[Some(q)], "y").unwrap();
    graph.add_output(y);
    let arch = TARGET.arch(&ArchSource::Preset("d1".to_owned())).unwrap();
    match TARGET.claim(&graph, arch.as_ref()).pop().unwrap() {
        Claim::Host(reason) => reason,
        Claim::Device => panic!("{graph} is claimed"),
    }
}

#[test]
fn refusals_say_why() {
    let reduce = |kind| Op::Reduce(Reduce { kind, axes: vec![1], keep_dims: true });
    let cases = [
        (Op::Unary(Unary::Exp), "Exp has no exact result in fixed point"),
        (Op::Unary(Unary::Round), "a quantiser of scale 1"),
        (Op::Activation(Activation::Elu { alpha: 1.0 }), "Elu has no exact result"),
        (Op::Activation(Activation::LeakyRelu { alpha: 0.01 }), "no binary fraction of at most"),
        (Op::Activation(Activation::Clip { min: Some(f32::INFINITY), max: None }), "its limit inf"),
        (reduce(ReduceKind::Mean), "3 is not a power of two"),
        (reduce(ReduceKind::Prod), "sum, mean, max and min"),
        (reduce(ReduceKind::L2), "ReduceL2 has no exact result"),
    ];
    for (op, word) in cases {
        let reason = reason(op.clone());
        assert!(reason.contains(word), "{op:?}: {reason}");
    }
}
