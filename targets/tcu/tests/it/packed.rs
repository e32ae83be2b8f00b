//! Inputs that the host packs for the convolutions that read them.

use crate::common::graphs::{self, of_peer, random_graph};
use quincunx_contract::{Compiled, Compiler, Engine, File, Log, Target};
use quincunx_graph::{BatchNorm, Conv, Graph, Op, Window};
use quincunx_tcu::{TARGET, TcuArch};
use quincunx_tensor::{DType, Tensor, Tensors};
use quincunx_testkit::{Agreed, Random, options};

/// A convolution with padding and steps, a batch normalisation that is folded into it, and a second
/// convolution.
fn first_layers(random: &mut Random) -> Graph {
    let mut graph = Graph::new("first");
    let x = graph.add_input("x", DType::F32, &[1, 3, 13, 11], &[]).unwrap();
    let mut constant = |graph: &mut Graph, name: &str, shape: &[usize]| {
        Some(graph.add_constant(name, random.tensor(shape, 1.0)).unwrap())
    };
    let w = constant(&mut graph, "w", &[10, 3, 3, 3]);
    let b = constant(&mut graph, "b", &[10]);
    let mut window = Window::new(&[3, 3]);
    window.strides = [2, 2].into_iter().collect();
    window.pads = [(1, 0), (0, 1)].into_iter().collect();
    let conv = Op::Conv(Conv { window, groups: 1 });
    let y = graph.add_node("conv", conv, &[Some(x), w, b], "y").unwrap();
    let parameters = ["gamma", "beta", "mean"].map(|name| constant(&mut graph, name, &[10]));
    let ones = Tensor::from_vec::<f32>(&[10], vec![1.0; 10]).unwrap();
    let variance = Some(graph.add_constant("variance", ones).unwrap());
    let [gamma, beta, mean] = parameters;
    let norm = Op::BatchNorm(BatchNorm { epsilon: 0.0 });
    let z = graph.add_node("norm", norm, &[Some(y), gamma, beta, mean, variance], "z").unwrap();
    let v = constant(&mut graph, "v", &[4, 10, 1, 1]);
    let conv = Op::Conv(Conv { window: Window::new(&[1, 1]), groups: 1 });
    let out = graph.add_node("second", conv, &[Some(z), v], "out").unwrap();
    graph.add_output(out);
    graph
}

/// What a layout makes of a graph, whose golden model packs nothing but knows the order of the sum.
fn judge(graph: &Graph, inputs: &Tensors, arch: &TcuArch, layout: &str) -> Option<Agreed> {
    let given = [("rounding", "free"), ("input-layout", layout)];
    graphs::judge(graph, inputs, arch, &given).ok()
}

fn cycles(compiled: &Compiled) -> u64 {
    compiled.program.stats().cycles.unwrap()
}

#[test]
fn packed_inputs_take_less_products() {
    for name in ["artya7100t", "small4", "tight8"] {
        let arch = of_peer(name);
        let mut random = Random::new(7);
        let graph = first_layers(&mut random);
        let inputs = Tensors::from([("x".to_owned(), random.tensor(&[1, 3, 13, 11], 1.0))]);
        let [plain, packed] =
            ["nhwc", "packed"].map(|layout| judge(&graph, &inputs, &arch, layout).unwrap());
        let (plain, packed, golden) = (plain.compiled, packed.compiled, &packed.samples[0].1);
        assert!(cycles(&packed) < cycles(&plain), "{name}");
        assert_eq!(packed.program.interface().inputs, plain.program.interface().inputs);
        assert!(packed.numerics.0["nodes"]["conv"]["packed"].as_bool().unwrap());

        // The files say how inputs are packed.
        let files: Vec<File> = packed.program.emit("tmodel", "first").unwrap();
        let (interface, options) = (packed.program.interface().clone(), options(&TARGET, &[]));
        let read = TARGET.read(&files, Some(interface), &arch, &options, &mut Log::default());
        let mut machine = read.unwrap().load(Engine::Fast).unwrap();
        assert_eq!(machine.run(&inputs).unwrap()["out"].to_f64(), golden["out"].to_f64());
    }
}

/// The layout is a wish: what cannot be packed stays as it is.
#[test]
fn any_network_may_be_packed() {
    let arch = of_peer("artya7100t");
    let (mut all, mut packed) = (0, 0);
    for case in 0..500 {
        let (graph, inputs) = random_graph(&mut Random::new(case), &arch);
        let Some(agreed) = judge(&graph, &inputs, &arch, "packed") else { continue };
        all += 1;
        packed += usize::from(agreed.compiled.numerics.0.to_string().contains("\"packed\":true"));
    }
    assert!(all > 400 && packed >= 5, "{packed} of {all} are packed");
}

#[test]
fn upstreams_order_of_sums_excludes_packed_inputs() {
    let graph = first_layers(&mut Random::new(7));
    let arch = of_peer("artya7100t");
    let given = options(&TARGET, &[("rounding", "compat"), ("input-layout", "packed")]);
    let problem = TARGET.compile(&graph, &arch, &given, &mut Log::default()).err().unwrap().first();
    assert_eq!(problem.code(), "Q3116");
    assert_eq!(problem.help_text(), Some("give --rounding free as well"));
}
