//! What becomes of networks whose numbers are free: what is chosen, that simulators and golden model
//! agree on it, and that the numbers stay close to those of compat.

use crate::common::graphs;
use quincunx_contract::{Compiled, Compiler, Engine, Log};
use quincunx_graph::execute::{Keep, float};
use quincunx_graph::{
    Activation, BatchNorm, Binary, Conv, Gemm, Graph, Op, Pad, PadMode, Pool, PoolKind, Unary,
    ValueId, Window,
};
use quincunx_tcu::{TARGET, TcuArch};
use quincunx_tensor::{DType, Tensor, Tensors};
use quincunx_testkit::options;

/// A graph under construction, with numbers that depend on how far it is.
struct Net {
    graph: Graph,
    seed: u64,
}

impl Net {
    fn new(shape: &[usize]) -> (Net, ValueId) {
        let mut graph = Graph::new("net");
        let x = graph.add_input("x", DType::F32, shape, &[]).unwrap();
        (Net { graph, seed: 7 }, x)
    }

    fn real(&mut self) -> f32 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.seed >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    fn constant(&mut self, shape: &[usize], around: f32, by: f32) -> ValueId {
        let size = shape.iter().product();
        let reals = (0..size).map(|_| around + by * self.real()).collect();
        let name = format!("c{}", self.graph.values().len());
        self.graph.add_constant(&name, Tensor::from_vec::<f32>(shape, reals).unwrap()).unwrap()
    }

    fn node(&mut self, name: &str, op: Op, inputs: &[ValueId]) -> ValueId {
        let inputs: Vec<Option<ValueId>> = inputs.iter().copied().map(Some).collect();
        self.graph.add_node(name, op, &inputs, &format!("{name}_out")).unwrap()
    }

    fn conv(
        &mut self,
        name: &str,
        x: ValueId,
        outputs: usize,
        kernel: usize,
        stride: usize,
    ) -> ValueId {
        let inputs = self.graph[x].shape[1];
        let by = 1.5 / (inputs as f32).sqrt() / kernel as f32;
        let weights = self.constant(&[outputs, inputs, kernel, kernel], 0.0, by);
        let bias = self.constant(&[outputs], 0.0, 0.2);
        let mut window = Window::new(&[kernel; 2]);
        window.strides = [stride; 2].into_iter().collect();
        window.pads = [(kernel / 2, kernel / 2); 2].into_iter().collect();
        self.node(name, Op::Conv(Conv { window, groups: 1 }), &[x, weights, bias])
    }

    fn norm(&mut self, name: &str, x: ValueId, around: f32) -> ValueId {
        let channels = [self.graph[x].shape[1]];
        let gamma = self.constant(&channels, around, 0.2);
        let beta = self.constant(&channels, 0.0, 0.3);
        let mean = self.constant(&channels, 0.0, 0.3);
        let variance = self.constant(&channels, 1.0, 0.4);
        let op = Op::BatchNorm(BatchNorm { epsilon: 1e-3 });
        self.node(name, op, &[x, gamma, beta, mean, variance])
    }

    fn relu(&mut self, name: &str, x: ValueId) -> ValueId {
        self.node(name, Op::Unary(Unary::Relu), &[x])
    }

    fn add(&mut self, name: &str, a: ValueId, b: ValueId) -> ValueId {
        self.node(name, Op::Binary(Binary::Add), &[a, b])
    }
}

fn max_pool(kernel: usize) -> Op {
    let mut window = Window::new(&[kernel; 2]);
    window.strides = [2; 2].into_iter().collect();
    Op::Pool(Pool { kind: PoolKind::Max, window, ceil: false })
}

fn compile(graph: &Graph, arch: &TcuArch, rounding: &str) -> Compiled {
    let options = options(&TARGET, &[("rounding", rounding)]);
    TARGET.compile(graph, arch, &options, &mut Log::default()).unwrap()
}

fn input_of(graph: &Graph) -> Tensors {
    let x = graph[graph.inputs()[0]].shape.to_vec();
    let reals = (0..x.iter().product::<usize>()).map(|at| (at * 37 % 101) as f32 / 50.0 - 1.0);
    let x = Tensor::from_vec::<f32>(&x, reals.collect()).unwrap();
    Tensors::from([("x".to_owned(), x)])
}

/// Compiles for machines of 4 and 8 lanes with little local memory. All judges must agree, near the
/// numbers of the graph.
fn judge(graph: &Graph) -> Compiled {
    let mut last = None;
    for (lanes, local) in [(4, 700), (8, 8192)] {
        let mut arch = TcuArch::preset("pynqz1").unwrap();
        (arch.array_size, arch.local_depth, arch.accumulator_depth) = (lanes, local, 600);
        let inputs = input_of(graph);
        let agreed = graphs::judge(graph, &inputs, &arch, &[("rounding", "free")]).unwrap();
        let (compiled, golden) = (agreed.compiled, &agreed.samples[0].1);
        let reference = float(graph, &inputs, Keep::Outputs).unwrap();
        for (name, tensor) in reference {
            let pairs = tensor.to_f64().into_iter().zip(golden[&name].to_f64());
            let worst = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(worst < 0.15, "{name} is off by {worst}");
        }
        let departures =
            TARGET.prepare(graph, &arch, &compiled.numerics).unwrap().departures(&inputs).unwrap();
        for departure in departures {
            // Both sides are near the numbers of the graph.
            assert!(departure.alone < 0.3 && departure.together < 0.3, "{departure:?}");
        }
        last = Some(compiled);
    }
    last.unwrap()
}

fn choice<'a>(compiled: &'a Compiled, node: &str) -> &'a serde_json::Value {
    &compiled.numerics.0["nodes"][node]
}

/// A residual network with batch normalisation before its products.
fn residual(gamma: f32) -> Graph {
    let (mut net, x) = Net::new(&[1, 3, 12, 12]);
    let stem = net.conv("stem", x, 10, 3, 1);
    let n = net.norm("norm1", stem, 1.0);
    let a = net.relu("relu1", n);
    let y = net.conv("a", a, 6, 3, 1);
    let y = net.conv("b", y, 20, 1, 1);
    let short = net.conv("short", a, 20, 1, 1);
    let sum = net.add("sum1", short, y);
    let n = net.norm("norm2", sum, gamma);
    let p = net.relu("relu2", n);
    let y = net.conv("c", p, 9, 1, 1);
    let y = net.conv("d", y, 20, 3, 1);
    let sum = net.add("sum2", sum, y);
    let n = net.norm("norm3", sum, gamma);
    let p = net.relu("relu3", n);
    let y = net.conv("e", p, 12, 1, 2);
    let short = net.conv("f", sum, 12, 1, 2);
    let sum = net.add("sum3", y, short);
    let n = net.norm("norm4", sum, gamma);
    let p = net.relu("relu4", n);
    let mean = net.node("mean", Op::GlobalAveragePool, &[p]);
    let flat = net.node("flat", Op::Flatten { axis: 1 }, &[mean]);
    let weights = net.constant(&[12, 5], 0.0, 0.4);
    let bias = net.constant(&[5], 0.0, 0.3);
    let gemm = Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: false };
    let out = net.node("gemm", Op::Gemm(gemm), &[flat, weights, bias]);
    net.graph.add_output(out);
    net.graph
}

#[test]
fn batch_normalisations_before_a_relu_become_part_of_the_products_behind() {
    let compiled = judge(&residual(1.0));
    for (node, norm) in [("c", "norm2"), ("e", "norm3"), ("gemm", "norm4")] {
        assert_eq!(choice(&compiled, node)["before"], norm, "{node}");
    }
    // The stem's is folded; a shortcut of the sum itself has none.
    assert!(choice(&compiled, "short")["before"].is_null());
    assert_eq!(choice(&compiled, "stem")["batch_norm"], "norm1");
    assert!(choice(&compiled, "f")["before"].is_null());
}

#[test]
fn scales_that_cost_bits_stay_where_they_are() {
    let compiled = judge(&residual(0.05));
    for node in ["c", "e", "gemm"] {
        assert!(choice(&compiled, node)["before"].is_null(), "{node}");
    }
}

#[test]
fn two_products_that_are_only_added_are_summed_together() {
    let compiled = judge(&residual(1.0));
    assert_eq!(choice(&compiled, "short")["with"], "b");
    assert_eq!(choice(&compiled, "f")["with"], "e");
    let taps = choice(&compiled, "f")["taps"].as_array().unwrap().len();
    assert_eq!(taps, 2);
}

#[test]
fn rows_of_few_channels_are_packed() {
    let (mut net, x) = Net::new(&[2, 3, 20, 24]);
    let y = net.conv("stem", x, 16, 7, 2);
    let y = net.relu("relu", y);
    net.graph.add_output(y);
    let graph = net.graph;
    let compiled = judge(&graph);
    let width = choice(&compiled, "stem")["row"].as_u64().unwrap();
    let taps = choice(&compiled, "stem")["taps"].as_array().unwrap().len() as u64;
    assert_eq!(taps, 7 * 21_u64.div_ceil(width));
    assert!(taps < 49);
    // Another order of sums saves nothing where the input has many channels.
    let (mut net, x) = Net::new(&[1, 12, 8, 8]);
    let y = net.conv("stem", x, 16, 3, 1);
    net.graph.add_output(y);
    assert!(choice(&judge(&net.graph), "stem")["row"].is_null());
}

#[test]
fn leaky_relus_behind_products_are_scaled() {
    let (mut net, x) = Net::new(&[1, 5, 16, 16]);
    let leaky = |alpha| Op::Activation(Activation::LeakyRelu { alpha });
    let y = net.conv("a", x, 12, 3, 1);
    let y = net.node("leaky1", leaky(0.1), &[y]);
    let z = net.conv("b", y, 12, 1, 1);
    let z = net.node("leaky2", leaky(0.2), &[z]);
    let joined = net.node("join", Op::Concat { axis: 1 }, &[y, z]);
    let pooled = net.node("pool", max_pool(2), &[joined]);
    let steep = net.conv("c", pooled, 6, 1, 1);
    let steep = net.node("leaky3", leaky(0.75), &[steep]);
    net.graph.add_output(steep);
    let compiled = judge(&net.graph);
    let scale = |node: &str| choice(&compiled, node)["scale"].as_f64();
    assert_eq!(scale("a"), Some(1.0 - f64::from(0.1_f32)));
    // Behind the pooling, which is taken first.
    assert_eq!(scale("b"), Some(1.0 - f64::from(0.2_f32)));
    assert_eq!(scale("c"), None);
}

/// A pooling with padding joins the convolution before it where the accumulators hold many rows.
#[test]
fn padded_poolings_join_convolutions() {
    let (mut net, x) = Net::new(&[1, 3, 24, 12]);
    let y = net.conv("stem", x, 8, 3, 1);
    let pads = vec![(0, 0), (0, 0), (1, 1), (1, 1)];
    let pad = Op::Pad(Pad { pads: pads.into_iter().collect(), mode: PadMode::Constant(0.0) });
    let y = net.node("pad", pad, &[y]);
    let y = net.node("pool", max_pool(3), &[y]);
    net.graph.add_output(y);
    let graph = net.graph;
    judge(&graph);
    let mut arch = TcuArch::preset("pynqz1").unwrap();
    for (depth, observed) in [(2048, false), (64, true)] {
        arch.accumulator_depth = depth;
        let compiled = compile(&graph, &arch, "compat");
        let mut machine = compiled.program.load(Engine::Fast).unwrap();
        let values = machine.run_traced(&input_of(&graph)).unwrap();
        assert_eq!(values.contains_key("stem_out"), observed, "{depth}");
    }
}

/// Convolutions that each read what all before them gave: channels in parts fill 12 of 16 lanes.
fn dense_block() -> Graph {
    let (mut net, x) = Net::new(&[1, 12, 16, 16]);
    let mut all = vec![x];
    for layer in 0..6 {
        let joined = match all[..] {
            [only] => only,
            _ => net.node(&format!("join{layer}"), Op::Concat { axis: 1 }, &all),
        };
        let y = net.conv(&format!("conv{layer}"), joined, 12, 3, 1);
        all.push(net.relu(&format!("relu{layer}"), y));
    }
    net.graph.add_output(*all.last().unwrap());
    net.graph
}

#[test]
fn free_numbers_are_never_slower() {
    for lanes in [4, 8, 16] {
        let mut arch = TcuArch::preset("pynqz1").unwrap();
        arch.array_size = lanes;
        let graph = dense_block();
        let cycles =
            |rounding: &str| compile(&graph, &arch, rounding).program.stats().cycles.unwrap();
        let (free, compat) = (cycles("free"), cycles("compat"));
        assert!(free <= compat, "{lanes} lanes: {free} cycles, compat {compat}");
    }
}
