//! What becomes of networks whose numbers are free: what is chosen, that simulators and golden model
//! agree on it, and that the numbers stay close to those of compat.

use crate::common::graphs;
use crate::common::net::Net;
use quincunx_contract::{Compiled, Compiler, Engine, Log};
use quincunx_graph::execute::{Keep, float};
use quincunx_graph::{Activation, Gemm, Graph, Op, Pad, PadMode, Pool, PoolKind, ValueId, Window};
use quincunx_tcu::{TARGET, TcuArch};
use quincunx_tensor::{Tensor, Tensors};
use quincunx_testkit::options;

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
    inputs_of(graph, 0)
}

fn inputs_of(graph: &Graph, seed: usize) -> Tensors {
    let x = graph[graph.inputs()[0]].shape.to_vec();
    let number = |at: usize| ((at + 17 * seed) * (37 + seed) % 101) as f32 / 50.0 - 1.0;
    let reals = (0..x.iter().product::<usize>()).map(number);
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

/// A leaky ReLU that is a sum: upstream's number but for ties, in two instructions a vector where the
/// result takes the place of the operand.
#[test]
fn leaky_relus_are_sums() {
    let leaky = |alpha| Op::Activation(Activation::LeakyRelu { alpha });
    let (mut net, x) = Net::new(&[1, 5, 16, 16]);
    let y = net.conv("a", x, 12, 3, 1);
    let kept = net.node("leaky1", leaky(0.1), &[y]);
    let both = net.add("both", y, kept);
    let z = net.conv("b", both, 12, 1, 1);
    let z = net.node("leaky2", leaky(0.2), &[z]);
    let joined = net.node("join", Op::Concat { axis: 1 }, &[both, z]);
    let pooled = net.node("pool", max_pool(2), &[joined]);
    let steep = net.conv("c", pooled, 6, 1, 1);
    let steep = net.node("leaky3", leaky(-0.75), &[steep]);
    net.graph.add_output(steep);
    judge(&net.graph);
    // One layer in both ways, of more vectors than a batch.
    let (mut net, x) = Net::new(&[1, 8, 12, 12]);
    let y = net.conv("a", x, 8, 1, 1);
    let y = net.node("leaky", leaky(0.1), &[y]);
    net.graph.add_output(y);
    let arch = TcuArch::preset("pynqz1").unwrap();
    let inputs = input_of(&net.graph);
    let [compat, free] = ["compat", "free"].map(|rounding| {
        let options = [("rounding", rounding)];
        let agreed = graphs::judge(&net.graph, &inputs, &arch, &options).unwrap();
        let cycles = agreed.compiled.program.stats().cycles.unwrap();
        (cycles, agreed.samples[0].1["leaky_out"].to_f64())
    });
    // An instruction less for every vector, and one more for each of three batches.
    assert_eq!(compat.0 - free.0, 144 - 2 * 3);
    let apart = compat.1.iter().zip(&free.1).filter(|(a, b)| a != b).count();
    assert!(apart * 50 < compat.1.len(), "{apart} numbers differ");
}

/// The mean of numbers whose sum leaves the range, and for whose number there is no near factor.
#[test]
fn means_stay_in_the_range() {
    let (mut net, x) = Net::new(&[2, 11, 7, 7]);
    let far = net.constant(&[1, 11, 1, 1], 5.0, 1.0);
    let y = net.add("far", x, far);
    let y = net.conv("conv", y, 9, 1, 1);
    let y = net.relu("relu", y);
    let fused = net.node("fused", Op::GlobalAveragePool, &[y]);
    let loaded = net.node("loaded", Op::GlobalAveragePool, &[x]);
    [fused, loaded].into_iter().for_each(|output| net.graph.add_output(output));
    let shifted = {
        let (mut net, x) = Net::new(&[2, 11, 7, 7]);
        let far = net.constant(&[1, 11, 1, 1], 5.0, 1.0);
        let y = net.add("far", x, far);
        let y = net.node("mean", Op::GlobalAveragePool, &[y]);
        net.graph.add_output(y);
        net.graph
    };
    let arch = TcuArch::preset("pynqz1").unwrap();
    for graph in [&net.graph, &shifted] {
        let inputs = input_of(graph);
        let agreed = graphs::judge(graph, &inputs, &arch, &[("rounding", "free")]).unwrap();
        let means = agreed.compiled.numerics.0["means"].as_object().unwrap();
        assert_eq!(means.len(), graph.outputs().len());
        for (name, exact) in float(graph, &inputs, Keep::Outputs).unwrap() {
            let own = agreed.samples[0].1[&name].to_f64();
            let worst =
                exact.to_f64().into_iter().zip(own).map(|(a, b)| (a - b).abs() / a.abs().max(1.0));
            assert!(worst.fold(0.0, f64::max) < 0.02, "{name}");
        }
    }
}

/// Steps of a mean with more sums than numbers, no sum at the end, or a factor that is no scalar.
#[test]
fn steps_that_are_none_are_refused() {
    let (mut net, x) = Net::new(&[1, 4, 5, 5]);
    let y = net.node("mean", Op::GlobalAveragePool, &[x]);
    net.graph.add_output(y);
    let arch = TcuArch::preset("pynqz1").unwrap();
    let numerics = compile(&net.graph, &arch, "free").numerics;
    assert!(TARGET.prepare(&net.graph, &arch, &numerics).is_ok());
    for (sums, factor) in [(1_u64 << 40, 10), (0, 10), (5, 1 << 20)] {
        let mut changed = numerics.clone();
        changed.0["means"]["mean"][0] = serde_json::json!({ "sums": sums, "factor": factor });
        let problem = TARGET.prepare(&net.graph, &arch, &changed).err().unwrap();
        assert_eq!(problem.code(), "Q3104", "{sums} {factor}");
    }
}

/// The offset of a batch normalisation whose scales are small is part of the bias, the scale not.
#[test]
fn small_scales_stay_behind_products() {
    let (mut net, x) = Net::new(&[1, 6, 9, 9]);
    let y = net.conv("conv", x, 13, 3, 1);
    let y = net.norm("norm", y, 0.3);
    let y = net.relu("relu", y);
    net.graph.add_output(y);
    let compiled = judge(&net.graph);
    assert_eq!(choice(&compiled, "conv")["offset"], "norm");
    assert!(choice(&compiled, "conv")["batch_norm"].is_null());
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

fn leaky(net: &mut Net, name: &str, x: ValueId) -> ValueId {
    net.node(name, Op::Activation(Activation::LeakyRelu { alpha: 0.1 }), &[x])
}

/// Networks of the kinds that free numbers change, with scales of batch normalisations around each
/// of some numbers.
fn networks(seed: u64) -> Vec<(String, Graph)> {
    let mut networks = Vec::new();
    let start = |shape: &[usize]| {
        let (mut net, x) = Net::new(shape);
        net.seed = seed;
        (net, x)
    };
    let mut add = |name: String, mut net: Net, output: ValueId| {
        net.graph.add_output(output);
        networks.push((name, net.graph));
    };
    for gamma in [0.05, 0.2, 0.5, 1.0, 3.0] {
        let (mut net, x) = start(&[1, 8, 20, 20]);
        let y = net.conv("a", x, 16, 3, 1);
        let y = net.norm("norm", y, gamma);
        let y = net.relu("relu", y);
        let y = net.conv("b", y, 16, 3, 1);
        add(format!("folded {gamma}"), net, y);
        let (mut net, x) = start(&[1, 12, 16, 16]);
        let y = net.conv("a", x, 12, 3, 1);
        let sum = net.add("sum", x, y);
        let y = net.norm("norm", sum, gamma);
        let y = net.relu("relu", y);
        let y = net.conv("b", y, 12, 1, 1);
        let y = net.conv("c", y, 12, 3, 1);
        let y = net.add("end", sum, y);
        add(format!("before {gamma}"), net, y);
    }
    for kernel in [1, 3, 5] {
        let (mut net, x) = start(&[1, 6, 18, 18]);
        let y = net.conv("a", x, 16, kernel, 1);
        let y = leaky(&mut net, "leaky1", y);
        let y = net.conv("b", y, 16, 3, 1);
        let y = leaky(&mut net, "leaky2", y);
        let y = net.conv("c", y, 16, 1, 1);
        let y = leaky(&mut net, "leaky3", y);
        add(format!("leaky {kernel}"), net, y);
    }
    for extent in [5, 7, 8, 14] {
        let (mut net, x) = start(&[8, 16, extent, extent]);
        let y = net.conv("a", x, 64, 1, 1);
        let y = net.relu("relu", y);
        let y = net.node("mean", Op::GlobalAveragePool, &[y]);
        let y = net.conv("b", y, 64, 1, 1);
        add(format!("mean of {extent}"), net, y);
    }
    let (mut net, x) = start(&[1, 3, 40, 40]);
    let y = net.conv("a", x, 16, 7, 2);
    let y = net.relu("relu", y);
    let y = net.conv("b", y, 24, 3, 1);
    add("rows".to_owned(), net, y);
    let (mut net, x) = start(&[1, 10, 16, 16]);
    let a = net.conv("a", x, 11, 1, 1);
    let b = net.conv("b", x, 11, 3, 1);
    let y = net.add("sum", a, b);
    let y = net.conv("c", y, 12, 3, 1);
    add("pair".to_owned(), net, y);
    networks.push(("dense block".to_owned(), dense_block()));
    networks
}

/// The mean distance from exact numbers is that of compat or less, but for chance.
#[test]
fn free_numbers_are_never_less_accurate() {
    let arch = TcuArch::preset("pynqz1").unwrap();
    let seeds: Vec<Vec<(String, Graph)>> = (7..11).map(networks).collect();
    assert_eq!(seeds[0].len(), 20);
    for kind in 0..20 {
        let [compat, free] = ["compat", "free"].map(|rounding| {
            let of = |networks: &Vec<(String, Graph)>| error(&networks[kind].1, &arch, rounding);
            seeds.iter().map(of).sum::<f64>()
        });
        let name = &seeds[0][kind].0;
        assert!(free <= 1.02 * compat, "{name}: {} times the error of compat", free / compat);
    }
}

/// The sum of the distances of outputs from exact numbers.
fn error(graph: &Graph, arch: &TcuArch, rounding: &str) -> f64 {
    let numerics = compile(graph, arch, rounding).numerics;
    let golden = TARGET.prepare(graph, arch, &numerics).unwrap();
    let output = &graph[graph.outputs()[0]].name;
    let image = |seed| {
        let inputs = inputs_of(graph, seed);
        let exact = float(graph, &inputs, Keep::Outputs).unwrap()[output].to_f64();
        let own = golden.run(&inputs).unwrap()[output].to_f64();
        exact.iter().zip(own).map(|(exact, own)| (exact - own).abs()).sum::<f64>()
    };
    (0..2).map(image).sum()
}
