//! Inputs that the host packs for the convolutions that read them.

use crate::common::graphs::{Random, of_peer, random_graph, tensor};
use quincunx_contract::{Compiled, Compiler, Engine, File, Log, Options, Target};
use quincunx_graph::{BatchNorm, Conv, Graph, Op, Window};
use quincunx_tcu::{TARGET, TcuArch};
use quincunx_tensor::{DType, Tensor, Tensors};

fn options(rounding: &str, layout: &str) -> Options {
    let given = [("rounding", rounding), ("input-layout", layout)];
    let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Options::new(TARGET.info().options, &given).unwrap()
}

fn compile(graph: &Graph, arch: &TcuArch, layout: &str) -> Option<Compiled> {
    TARGET.compile(graph, arch, &options("free", layout), &mut Log::default()).ok()
}

/// A convolution with padding and steps, a batch normalisation that is folded into it, and a second
/// convolution.
fn first_layers(random: &mut Random) -> Graph {
    let mut graph = Graph::new("first");
    let x = graph.add_input("x", DType::F32, &[1, 3, 13, 11], &[]).unwrap();
    let mut constant = |graph: &mut Graph, name: &str, shape: &[usize]| {
        Some(graph.add_constant(name, tensor(shape, random)).unwrap())
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

/// Both simulators against the golden model, which packs nothing but knows the order of the sum.
fn judge(graph: &Graph, compiled: &Compiled, inputs: &Tensors) -> Tensors {
    assert!(compiled.program.verify().iter().all(|problem| !problem.is_error()));
    let golden = crate::common::golden_of(graph, &compiled.numerics, inputs).unwrap();
    for engine in [Engine::Exec, Engine::Fast] {
        let mut machine = compiled.program.load(engine).unwrap();
        let traced = machine.run_traced(inputs).unwrap();
        for (name, found) in traced.into_iter().chain(machine.run(inputs).unwrap()) {
            assert_eq!(found.to_f64(), golden[&name].to_f64(), "{name}\n{graph}");
        }
    }
    golden
}

fn cycles(compiled: &Compiled) -> u64 {
    compiled.program.stats().cycles.unwrap()
}

#[test]
fn packed_inputs_take_less_products() {
    for name in ["artya7100t", "small4", "tight8"] {
        let arch = of_peer(name);
        let mut random = Random(7);
        let graph = first_layers(&mut random);
        let inputs = Tensors::from([("x".to_owned(), tensor(&[1, 3, 13, 11], &mut random))]);
        let plain = compile(&graph, &arch, "nhwc").unwrap();
        let packed = compile(&graph, &arch, "packed").unwrap();
        assert!(cycles(&packed) < cycles(&plain), "{name}");
        assert_eq!(packed.program.interface().inputs, plain.program.interface().inputs);
        assert!(packed.numerics.0["nodes"]["conv"]["packed"].as_bool().unwrap());
        judge(&graph, &plain, &inputs);
        let golden = judge(&graph, &packed, &inputs);

        // The files say how inputs are packed.
        let files: Vec<File> = packed.program.emit("tmodel", "first").unwrap();
        let interface = packed.program.interface().clone();
        let read = TARGET.read(
            &files,
            Some(interface),
            &arch,
            &options("free", "nhwc"),
            &mut Log::default(),
        );
        let mut machine = read.unwrap().load(Engine::Fast).unwrap();
        assert_eq!(machine.run(&inputs).unwrap()["out"].to_f64(), golden["out"].to_f64());
    }
}

/// The layout is a wish: what cannot be packed stays as it is.
#[test]
fn any_network_may_be_packed() {
    let arch = of_peer("artya7100t");
    let (mut all, mut packed) = (0, 0);
    for seed in 700_000..700_500 {
        let (graph, inputs) = random_graph(seed, &arch);
        let Some(compiled) = compile(&graph, &arch, "packed") else { continue };
        judge(&graph, &compiled, &inputs);
        all += 1;
        packed += usize::from(compiled.numerics.0.to_string().contains("\"packed\":true"));
    }
    assert!(all > 400 && packed >= 5, "{packed} of {all} are packed");
}

#[test]
fn upstreams_order_of_sums_excludes_packed_inputs() {
    let graph = first_layers(&mut Random(7));
    let arch = of_peer("artya7100t");
    let given = options("compat", "packed");
    let problem = TARGET.compile(&graph, &arch, &given, &mut Log::default()).err().unwrap().first();
    assert_eq!(problem.code(), "Q3116");
    assert_eq!(problem.help_text(), Some("give --rounding free as well"));
}
