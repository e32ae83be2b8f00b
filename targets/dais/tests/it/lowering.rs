//! Single networks whose numbers are long, or whose functions are not defined everywhere.

use quincunx_contract::{
    ArchSource, Claim, Compiled, Compiler, Engine, Log, NotCompiled, Options, Refused, Target,
};
use quincunx_dais::TARGET;
use quincunx_graph::execute::{Keep, exact, float};
use quincunx_graph::{Activation, Binary, Gemm, Graph, Op, Quantiser, Softmax, Unary, ValueId};
use quincunx_tensor::{DType, Tensor, Tensors};

struct Network(Graph);

impl Network {
    /// A network whose input of so many numbers is quantised.
    fn new(count: usize, quantiser: Quantiser) -> (Network, ValueId) {
        let mut graph = Graph::new("network");
        let x = graph.add_input("x", DType::F32, &[1, count], &[]).unwrap();
        let mut network = Network(graph);
        let x = network.node("first", Op::Quantise(quantiser), &[x]);
        (network, x)
    }

    fn node(&mut self, name: &str, op: Op, inputs: &[ValueId]) -> ValueId {
        let inputs: Vec<_> = inputs.iter().map(|&i| Some(i)).collect();
        self.0.add_node(name, op, &inputs, &format!("{name}_out")).unwrap()
    }

    fn constant(&mut self, name: &str, shape: &[usize], values: &[f32]) -> ValueId {
        let tensor = Tensor::from_vec(shape, values.to_vec()).unwrap();
        self.0.add_constant(name, tensor).unwrap()
    }

    fn finish(mut self, output: ValueId) -> Graph {
        self.0.add_output(output);
        assert!(self.0.verify().is_empty(), "{:?}", self.0.verify());
        self.0
    }
}

/// Numbers as calibration finds them: floats without short forms.
fn grid(width: u32, scale: f32, zero: i64) -> Quantiser {
    let mut quantiser = Quantiser::symmetric(true, width, f64::from(scale));
    quantiser.zero = quincunx_graph::Param::uniform(zero);
    quantiser
}

fn claims(graph: &Graph) -> Vec<Claim> {
    let arch = TARGET.arch(&ArchSource::Default).unwrap();
    crate::common::claim(graph, arch.as_ref())
}

/// Compiles a network all of which the machine takes.
fn compiled(graph: &Graph, given: &[(&str, &str)]) -> Compiled {
    let claims = claims(graph);
    assert!(claims.iter().all(|claim| *claim == Claim::Device), "{claims:?}\n{graph}");
    let arch = TARGET.arch(&ArchSource::Default).unwrap();
    let given: Vec<_> = given.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    let options = Options::new(TARGET.info().options, &given).unwrap();
    TARGET.compile(graph, arch.as_ref(), &options, &mut Log::default()).unwrap()
}

fn inputs(count: usize, values: impl Fn(usize) -> f32) -> Tensors {
    let values = (0..count).map(values).collect();
    Tensors::from([("x".to_owned(), Tensor::from_vec::<f32>(&[1, count], values).unwrap())])
}

/// A batch normalisation behind a layer of long scales is a product and a sum with floats of 24
/// bits. Neither makes numbers of the machine longer: the quantiser takes both up.
#[test]
fn long_factors_and_addends_wait_for_the_quantiser() {
    let (mut network, x) = Network::new(4, grid(8, 0.05, 3));
    let weights: Vec<f32> = (0..12).map(|i| (i as f32 * 7.0 % 11.0 - 5.0) * 0.013).collect();
    let weights = network.constant("weights", &[4, 3], &weights);
    let x = network.node("product", Op::MatMul, &[x, weights]);
    let factor = network.constant("factor", &[3], &[0.371_23, -1.417_9, 2.003_1]);
    let x = network.node("scaled", Op::Binary(Binary::Mul), &[x, factor]);
    let shift = network.constant("shift", &[3], &[0.113, -0.777_7, 1.3]);
    let x = network.node("shifted", Op::Binary(Binary::Add), &[x, shift]);
    let x = network.node("relu", Op::Unary(Unary::Relu), &[x]);
    let x = network.node("last", Op::Quantise(grid(8, 0.1, -128)), &[x]);
    let graph = network.finish(x);
    let compiled = compiled(&graph, &[]);
    let mut machine = compiled.program.load(Engine::Exec).unwrap();
    for seed in 0..50 {
        let inputs = inputs(4, |i| ((seed * 4 + i) * 37 % 101) as f32 / 7.0 - 7.0);
        let expected = exact(&graph, &inputs, Keep::Outputs).unwrap()["last_out"].to_f64();
        assert_eq!(machine.run(&inputs).unwrap()["last_out"].to_f64(), expected);
    }
    // With a factor of 24 bits each result alone would take some 8 additions of 40 bits.
    let stats = compiled.program.stats();
    assert!(stats.instructions < 120, "{} operations", stats.instructions);
}

/// Roots of magnitudes, inverses of what is above zero: functions that not all numbers have.
#[test]
fn functions_see_only_what_occurs() {
    let one = |network: &mut Network| network.constant("one", &[1], &[1.0]);
    for scale in [0.0625_f32, 0.047] {
        for case in 0..3 {
            let (mut network, x) = Network::new(256, grid(8, scale, -3));
            let y = match case {
                0 => {
                    let x = network.node("abs", Op::Unary(Unary::Abs), &[x]);
                    network.node("sqrt", Op::Unary(Unary::Sqrt), &[x])
                }
                1 => {
                    let one = one(&mut network);
                    let x = network.node("relu", Op::Unary(Unary::Relu), &[x]);
                    let x = network.node("above", Op::Binary(Binary::Add), &[x, one]);
                    network.node("inverse", Op::Binary(Binary::Div), &[one, x])
                }
                // An addend of 24 bits makes no longer operand either.
                _ => {
                    let addend = network.constant("addend", &[1], &[0.3]);
                    let x = network.node("abs", Op::Unary(Unary::Abs), &[x]);
                    let x = network.node("above", Op::Binary(Binary::Add), &[x, addend]);
                    network.node("inverse", Op::Unary(Unary::Reciprocal), &[x])
                }
            };
            let y = network.node("last", Op::Quantise(grid(8, 0.013, 7)), &[y]);
            let graph = network.finish(y);
            let mut machine = compiled(&graph, &[]).program.load(Engine::Exec).unwrap();
            let inputs = inputs(256, |code| (code as f32 - 125.0) * scale);
            let expected = float(&graph, &inputs, Keep::Outputs).unwrap()["last_out"].to_f64();
            let found = machine.run(&inputs).unwrap()["last_out"].to_f64();
            let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-6;
            assert!(found.iter().zip(&expected).all(near), "case {case} of scale {scale}");
        }
    }
}

/// What the claims promise fits when it is compiled. Channels of different long scales make numbers
/// of more than 50 bits; no line of 64 bits takes them to the codes of the result.
#[test]
fn what_does_not_fit_is_said_before_compiling() {
    let mut quantiser = grid(8, 1.0, 0);
    let scales = [0.113_7, 0.071_93, 0.197_1].map(|scale: f32| f64::from(scale));
    quantiser.scale = quincunx_graph::Param::new(&[1, 3], scales.to_vec()).unwrap();
    let (mut network, x) = Network::new(3, quantiser);
    let weights = network.constant("weights", &[3, 1], &[0.173_3, -0.131_7, 0.091_91]);
    let x = network.node("product", Op::MatMul, &[x, weights]);
    let x = network.node("last", Op::Quantise(grid(14, 0.000_37, 0)), &[x]);
    let graph = network.finish(x);
    let arch = TARGET.arch(&ArchSource::Default).unwrap();
    let options = Options::new(TARGET.info().options, &[]).unwrap();
    let claims = claims(&graph);
    match claims.iter().find_map(|claim| match claim {
        Claim::Host(reason) => Some(reason),
        Claim::Device => None,
    }) {
        Some(reason) => assert!(reason.contains("which no line, table or tree gives"), "{reason}"),
        None => {
            let log = &mut Log::default();
            TARGET.compile(&graph, arch.as_ref(), &options, log).map(drop).unwrap();
        }
    }
}

/// Quantisers that drop many bits, one behind the other and without limits that matter, leave
/// numbers in slots of ever larger scales; shifts of more than 63 are made in steps.
#[test]
fn scales_far_apart_meet() {
    let (mut network, x) = Network::new(3, grid(6, 0.036_538_15, -20));
    let mut y = x;
    for (index, scale) in [0.096_049_88_f32, 0.051_3, 0.110_7, 0.093_1].into_iter().enumerate() {
        y = network.node(&format!("q{index}"), Op::Quantise(grid(12, scale, 0)), &[y]);
    }
    let sum = network.node("sum", Op::Binary(Binary::Add), &[x, y]);
    let most = network.node("most", Op::Binary(Binary::Max), &[x, y]);
    let narrow = network.node("narrow", Op::Quantise(grid(4, 0.071, 1)), &[y]);
    let product = network.node("product", Op::Binary(Binary::Mul), &[sum, most]);
    let last = network.node("last", Op::Quantise(grid(8, 0.037, 0)), &[product]);
    network.0.add_output(narrow);
    let graph = network.finish(last);
    let compiled = compiled(&graph, &[]);
    let problems = compiled.program.verify();
    assert!(problems.iter().all(|p| p.code() == "Q1038" || p.code() == "Q1037"), "{problems:?}");
    for engine in [Engine::Checked, Engine::Fast] {
        let mut machine = compiled.program.load(engine).unwrap();
        for seed in 0..40 {
            let inputs = inputs(3, |i| ((seed * 3 + i) * 37 % 101) as f32 / 30.0 - 1.5);
            let expected = exact(&graph, &inputs, Keep::Outputs).unwrap();
            let found = machine.run(&inputs).unwrap();
            for name in ["narrow_out", "last_out"] {
                assert_eq!(found[name].to_f64(), expected[name].to_f64(), "{name}");
            }
        }
    }
}

/// Sums of long scales are compared with long numbers in steps of their own.
#[test]
fn comparisons_with_known_numbers_stay_short() {
    use quincunx_graph::Compare;
    let compares = [
        Compare::Less,
        Compare::LessOrEqual,
        Compare::Greater,
        Compare::GreaterOrEqual,
        Compare::Equal,
    ];
    for compare in compares {
        let (mut network, x) = Network::new(4, grid(8, 0.05, 3));
        let weights: Vec<f32> = (0..12).map(|i| (i as f32 * 7.0 % 11.0 - 5.0) * 0.013).collect();
        let weights = network.constant("weights", &[4, 3], &weights);
        let x = network.node("product", Op::MatMul, &[x, weights]);
        let factor = network.constant("factor", &[3], &[0.371_23, -1.417_9, 2.003_1]);
        let x = network.node("scaled", Op::Binary(Binary::Mul), &[x, factor]);
        // A number that occurs, one between those that do, and one beyond all.
        let limit = network.constant("limit", &[3], &[0.0, -0.777_7, 1e30]);
        let right = network.node("right", Op::Compare(compare), &[x, limit]);
        let left = network.node("left", Op::Compare(compare), &[limit, x]);
        network.0.add_output(left);
        let graph = network.finish(right);
        let mut machine = compiled(&graph, &[]).program.load(Engine::Exec).unwrap();
        for seed in 0..50 {
            // The first of them are zeros.
            let inputs = inputs(4, |i| (seed * ((seed * 4 + i) * 37 % 101)) as f32 / 70.0);
            let expected = exact(&graph, &inputs, Keep::Outputs).unwrap();
            let found = machine.run(&inputs).unwrap();
            for name in ["left_out", "right_out"] {
                assert_eq!(found[name].to_f64(), expected[name].to_f64(), "{compare:?} {name}");
            }
        }
    }
}

/// Exact functions of numbers too many for a table are carried out.
#[test]
fn exact_functions_of_long_numbers_need_no_table() {
    let (mut network, x) = Network::new(8, grid(9, 0.0625, 0));
    let square = network.node("square", Op::Binary(Binary::Mul), &[x, x]);
    let cube = network.node("cube", Op::Binary(Binary::Mul), &[square, x]);
    let y = network.node("swish", Op::Unary(Unary::HardSwish), &[cube]);
    let y = network.node("last", Op::Quantise(grid(10, 0.5, 0)), &[y]);
    let graph = network.finish(y);
    let mut machine = compiled(&graph, &[]).program.load(Engine::Exec).unwrap();
    for seed in 0..40 {
        let inputs = inputs(8, |i| (seed * 8 + i) as f32 / 32.0 - 5.0);
        let expected = exact(&graph, &inputs, Keep::Outputs).unwrap()["last_out"].to_f64();
        assert_eq!(machine.run(&inputs).unwrap()["last_out"].to_f64(), expected);
    }
}

/// A function whose quantiser is refused says why.
#[test]
fn functions_say_what_their_quantiser_lacks() {
    let (mut network, x) = Network::new(2, Quantiser::symmetric(true, 8, 4.0));
    let y = network.node("exp", Op::Unary(Unary::Exp), &[x]);
    let y = network.node("moved", Op::Flatten { axis: 1 }, &[y]);
    let y = network.node("last", Op::Quantise(Quantiser::symmetric(true, 8, 0.5)), &[y]);
    let graph = network.finish(y);
    let claims = claims(&graph);
    let reason = "it waits for \"last\", which is left to the host: the result for 508 is inf";
    assert_eq!(claims[1..3], [Claim::Host(reason.to_owned()), Claim::Host(reason.to_owned())]);
}

/// Fixed point has no infinities, wherever they are.
#[test]
fn infinite_parameters_are_refused() {
    let infinity = f32::INFINITY;
    let gemm = Gemm { alpha: infinity, beta: 1.0, transpose_a: false, transpose_b: false };
    let cases = [
        Op::Activation(Activation::LeakyRelu { alpha: infinity }),
        Op::Activation(Activation::HardSigmoid { alpha: 0.2, beta: f32::NAN }),
        Op::Activation(Activation::Clip { min: Some(infinity), max: None }),
        Op::Activation(Activation::Clip { min: None, max: Some(-infinity) }),
        Op::Gemm(gemm),
    ];
    for op in cases {
        let (mut network, x) = Network::new(2, Quantiser::symmetric(true, 4, 0.5));
        let weights = network.constant("weights", &[2, 2], &[1.0, 0.5, -1.0, 2.0]);
        let inputs = if matches!(op, Op::Gemm(_)) { vec![x, weights] } else { vec![x] };
        let y = network.node("node", op.clone(), &inputs);
        let y = network.node("last", Op::Quantise(Quantiser::symmetric(true, 4, 0.5)), &[y]);
        let graph = network.finish(y);
        let Claim::Host(reason) = &claims(&graph)[1] else { panic!("{op:?} is claimed") };
        assert!(reason.contains("has no fixed-point code"), "{reason}");
    }
    let clip = Op::Activation(Activation::Clip { min: Some(-infinity), max: Some(infinity) });
    let (mut network, x) = Network::new(2, Quantiser::symmetric(true, 4, 0.5));
    let y = network.node("node", clip, &[x]);
    let graph = network.finish(y);
    assert_eq!(claims(&graph), [Claim::Device, Claim::Device]);
}

/// Numbers of more than 53 bits that the driver scales are rounded once, in every engine.
#[test]
fn long_scaled_outputs_are_rounded_once() {
    let (mut network, x) = Network::new(4, grid(8, 0.05, 3));
    let other = network.0.add_input("c", DType::F32, &[1, 2], &[]).unwrap();
    let other = network.node("other", Op::Quantise(grid(8, 0.03, 0)), &[other]);
    let weights: Vec<f32> = (0..8).map(|i| (i as f32 * 5.0 % 13.0 - 6.0) * 0.01).collect();
    let weights = network.constant("weights", &[4, 2], &weights);
    let gemm = Gemm { alpha: 0.37, beta: -1.3, transpose_a: false, transpose_b: false };
    let y = network.node("gemm", Op::Gemm(gemm), &[x, weights, other]);
    let graph = network.finish(y);
    let compiled = compiled(&graph, &[("keep-layers", "true")]);
    for seed in 0..20 {
        let mut inputs = inputs(4, |i| ((seed * 4 + i) * 37 % 101) as f32 / 7.0 - 7.0);
        let c = (0..2).map(|i| ((seed * 2 + i) * 29 % 97) as f32 / 9.0 - 5.0).collect();
        inputs.insert("c".to_owned(), Tensor::from_vec::<f32>(&[1, 2], c).unwrap());
        let golden = crate::common::golden_of(&graph, &compiled.numerics, &inputs).unwrap();
        for engine in [Engine::Exec, Engine::Fast, Engine::Checked] {
            let mut machine = compiled.program.load(engine).unwrap();
            assert_eq!(machine.run(&inputs).unwrap()["gemm_out"], golden["gemm_out"]);
            assert_eq!(machine.run_traced(&inputs).unwrap()["gemm_out"], golden["gemm_out"]);
        }
    }
}

/// A product whose results are multiples of long fractions.
fn scaled_product(columns: usize) -> Graph {
    let (mut network, x) = Network::new(1, Quantiser::symmetric(true, 6, 0.125));
    let weights: Vec<f32> = (0..columns).map(|i| i as f32 * 0.37 - 2.3).collect();
    let weights = network.constant("weights", &[1, columns], &weights);
    let y = network.node("product", Op::MatMul, &[x, weights]);
    network.finish(y)
}

/// Native files either say what the driver makes of outputs, or are not written.
#[test]
fn files_state_scales_of_outputs_or_are_refused() {
    let compiled = compiled(&scaled_product(40), &[]);
    let program = &compiled.program;
    assert_eq!(program.interface().scalings.len(), 1);
    for kind in ["bin", "json", "gz"] {
        assert_eq!(program.emit(kind, "x").unwrap_err().code(), "Q1131", "{kind}");
    }
    let first = &program.interface().scalings[0].factors[0];
    let line = format!("product_out[0] is {first} times what is computed\n");
    for (kind, name, line) in [
        ("asm", "x.dasm", format!("# {line}")),
        ("verilog", "x_tb.v", format!("// {line}")),
        ("vhdl", "x_tb.vhd", format!("-- {line}")),
        ("verilog", "x_rtl.json", format!("\"{first}\"")),
    ] {
        let files = program.emit(kind, "x").unwrap();
        let file = files.iter().find(|file| file.name == name).unwrap();
        let text = std::str::from_utf8(&file.bytes).unwrap();
        assert!(text.contains(&line), "{kind}: {line}\n{text}");
    }
}

/// Exact outputs are computed: the file alone gives the network's numbers.
#[test]
fn exact_outputs_need_no_driver() {
    let graph = scaled_product(40);
    let compiled = compiled(&graph, &[("exact-outputs", "true")]);
    assert!(compiled.program.interface().scalings.is_empty());
    let arch = TARGET.arch(&ArchSource::Default).unwrap();
    let options = Options::new(TARGET.info().options, &[]).unwrap();
    for kind in ["bin", "json", "gz", "asm"] {
        let files = compiled.program.emit(kind, "x").unwrap();
        let read = TARGET.read(&files, None, &*arch, &options, &mut Log::default()).unwrap();
        let mut machine = read.load(Engine::Exec).unwrap();
        for code in -32..32 {
            let inputs = inputs(1, |_| code as f32 / 8.0);
            let expected = exact(&graph, &inputs, Keep::Outputs).unwrap()["product_out"].to_f64();
            let x = Tensor::from_vec::<f64>(&[1], vec![f64::from(code) / 8.0]).unwrap();
            let found = machine.run(&Tensors::from([("in".to_owned(), x)])).unwrap();
            assert_eq!(found["out"].to_f64(), expected, "{kind}");
        }
    }
}

/// What no binary fraction is cannot be computed: the node is left to the host for that reason.
#[test]
fn exact_outputs_are_binary_fractions() {
    let (mut network, x) = Network::new(3, Quantiser::symmetric(true, 6, 0.125));
    let three = network.constant("three", &[1], &[3.0]);
    let y = network.node("third", Op::Binary(Binary::Div), &[x, three]);
    let graph = network.finish(y);
    assert_eq!(compiled(&graph, &[]).program.interface().scalings[0].factors, ["1/3"]);
    let arch = TARGET.arch(&ArchSource::Default).unwrap();
    let given = [("exact-outputs".to_owned(), "true".to_owned())];
    let options = Options::new(TARGET.info().options, &given).unwrap();
    let log = &mut Log::default();
    let refused = TARGET.compile(&graph, arch.as_ref(), &options, log).err().unwrap();
    let NotCompiled::Refused(refused) = refused else { panic!("{refused:?}") };
    assert_eq!(refused[0].node, "third");
    assert!(refused[0].problem.message().contains("1/3"), "{:?}", refused[0].problem);
}

/// The precision that is asked for decides whether a softmax is claimed; compiled all the same, it
/// is refused for the same reason.
#[test]
fn a_softmax_too_precise_for_a_table_is_left_to_the_host() {
    let (mut network, x) = Network::new(40, Quantiser::symmetric(true, 6, 0.125));
    let y = network.node("softmax", Op::Softmax(Softmax { axis: 1, log: false }), &[x]);
    let graph = network.finish(y);
    compiled(&graph, &[("softmax-bits", "8")]);
    let arch = TARGET.arch(&ArchSource::Default).unwrap();
    let given = [("softmax-bits".to_owned(), "12".to_owned())];
    let options = Options::new(TARGET.info().options, &given).unwrap();
    let claims = TARGET.claim(&graph, arch.as_ref(), &options, &Refused::default()).unwrap();
    let Some(Claim::Host(reason)) = claims.last() else { panic!("{claims:?}") };
    assert!(reason.contains("the sum of 40 powers"), "{reason}");
    let log = &mut Log::default();
    let refused = TARGET.compile(&graph, arch.as_ref(), &options, log).err().unwrap();
    let NotCompiled::Refused(refused) = refused else { panic!("{refused:?}") };
    assert_eq!(refused[0].node, graph.nodes().last().unwrap().1.name);
    assert_eq!(refused[0].problem.message(), reason);
}

/// What is known of a choice can lie on coarser steps than its branches: of -2 and 0, products of
/// negative numbers with -2 are 4 or nothing. The program is legal all the same.
#[test]
fn a_choice_has_the_step_of_its_finer_branch() {
    for slope in [-2.0, -1.0, -0.5, 0.5, 4.0_f32] {
        let (mut network, x) = Network::new(1, Quantiser::symmetric(true, 1, 2.0));
        let slope = network.constant("slope", &[1], &[slope]);
        let y = network.node("prelu", Op::PRelu, &[x, slope]);
        let y = network.node("last", Op::Quantise(grid(6, 0.25, 0)), &[y]);
        let graph = network.finish(y);
        let program = compiled(&graph, &[]).program;
        assert!(program.verify().is_empty(), "{:?}", program.verify());
        let mut machine = program.load(Engine::Exec).unwrap();
        for value in [-2.0, 0.0] {
            let inputs = inputs(1, |_| value);
            let expected = exact(&graph, &inputs, Keep::Outputs).unwrap()["last_out"].to_f64();
            assert_eq!(machine.run(&inputs).unwrap()["last_out"].to_f64(), expected);
        }
    }
}
