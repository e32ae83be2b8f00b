//! Random graphs of every supported operator: all judges must agree.

use crate::networks::{Coverage, Random, random_graph, samples};
use quincunx_contract::{Arch, ArchSource, Claim, Compiler, Engine, Log, Machine, Options, Target};
use quincunx_dais::TARGET;
use quincunx_graph::execute::{Keep, exact};
use quincunx_graph::{
    Activation, Binary, Graph, Op, Quantiser, Reduce, ReduceKind, Softmax, Unary,
};
use quincunx_num::{Overflow, Rounding};
use quincunx_tensor::DType;

/// What became of a random graph.
#[derive(PartialEq)]
enum Outcome {
    /// All judges agree, the exact executor among them if the graph has an exact result.
    Agree { exact: bool },
    /// It does not fit, for a reason that is said.
    Refused,
}

/// Compiles a graph and compares the judges on some inputs.
fn judges_agree(graph: &Graph, seed: u64, preset: &str) -> Outcome {
    assert!(graph.verify().is_empty(), "seed {seed}: {:?}\n{graph}", graph.verify());
    let arch = TARGET.arch(&ArchSource::Preset(preset.to_owned())).unwrap();
    let claims = crate::common::claim(graph, arch.as_ref());
    if let Some(Claim::Host(reason)) = claims.iter().find(|claim| **claim != Claim::Device) {
        let known = [
            "the program needs a slot of",
            "its operand has",
            "its result takes",
            "its result changes",
            "its operand \"",
            "has no exact result in fixed point; a quantiser must follow",
            "a shift by",
        ];
        assert!(known.iter().any(|k| reason.contains(k)), "seed {seed}: {reason}\n{graph}");
        return Outcome::Refused;
    }
    let options =
        Options::new(TARGET.info().options, &[("keep-layers".to_owned(), "true".to_owned())])
            .unwrap();
    // What is claimed fits.
    let log = &mut Log::default();
    let compiled = TARGET.compile(graph, arch.as_ref(), &options, log);
    let compiled = compiled.unwrap_or_else(|problems| panic!("seed {seed}: {problems:?}\n{graph}"));
    let mut problems = compiled.program.verify();
    // The compiler knows more about roundings than intervals show.
    problems.retain(|problem| problem.code() != "Q1038");
    assert!(problems.is_empty(), "seed {seed}: {problems:?}\n{graph}");
    let mut machine = compiled.program.load(Engine::Checked).unwrap();
    let mut prepared = compiled.program.load(Engine::Fast).unwrap();
    let mut staged = seed.is_multiple_of(4).then(|| in_stages(graph, arch.as_ref())).flatten();
    let mut random = Random(seed ^ 0x5eed);
    let mut is_exact = true;
    for _ in 0..8 {
        let inputs = samples(graph, &mut random);
        let golden = crate::common::golden_of(graph, &compiled.numerics, &inputs).unwrap();
        let traced = machine.run_traced(&inputs).unwrap();
        let outputs = machine.run(&inputs).unwrap();
        assert_eq!(prepared.run_traced(&inputs).unwrap(), traced, "seed {seed}\n{graph}");
        assert_eq!(prepared.run(&inputs).unwrap(), outputs, "seed {seed}\n{graph}");
        if let Some(staged) = &mut staged {
            assert_eq!(staged.run_traced(&inputs).unwrap(), traced, "seed {seed}\n{graph}");
        }
        for (name, value) in &traced {
            assert_eq!(&golden[name], value, "seed {seed}: {name}\n{graph}");
        }
        // Only functions that wait for a quantiser cannot be observed.
        for (_, node) in graph.nodes() {
            let seen = traced.contains_key(&graph[node.output].name);
            assert!(
                seen || !matches!(node.op, Op::Quantise(_) | Op::Conv(_)),
                "seed {seed}: {node:?}"
            );
        }
        match exact(graph, &inputs, Keep::All) {
            Ok(reference) => {
                for (_, node) in graph.nodes() {
                    let name = &graph[node.output].name;
                    let reference = reference[name].to_f64();
                    assert_eq!(golden[name].to_f64(), reference, "seed {seed}: {name}\n{graph}");
                }
            }
            Err(problem) => {
                assert_eq!(problem.code(), "Q0311", "seed {seed}: {problem:?}\n{graph}");
                is_exact = false;
            }
        }
        for &output in graph.outputs() {
            assert_eq!(
                outputs[&graph[output].name], golden[&graph[output].name],
                "seed {seed}\n{graph}"
            );
        }
    }
    Outcome::Agree { exact: is_exact }
}

/// The same program with registers after every second level; `None` where an operation is longer.
fn in_stages(graph: &Graph, arch: &dyn Arch) -> Option<Box<dyn Machine>> {
    let given = [("keep-layers", "true"), ("latency-cutoff", "2")];
    let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let options = Options::new(TARGET.info().options, &given).unwrap();
    match TARGET.compile(graph, arch, &options, &mut Log::default()) {
        Ok(compiled) => Some(compiled.program.load(Engine::Exec).unwrap()),
        Err(problem) => {
            assert_eq!(problem.clone().first().code(), "Q1160", "{problem:?}");
            None
        }
    }
}

#[test]
fn three_judges_agree_on_random_graphs() {
    let (mut agree, mut exact) = (0, 0);
    let mut coverage = Coverage::default();
    for seed in 0..1000 {
        let (graph, used) = random_graph(seed);
        if let Outcome::Agree { exact: is_exact } = judges_agree(&graph, seed, "d1") {
            agree += 1;
            exact += usize::from(is_exact);
            coverage.0.extend(used.0);
        }
    }
    assert!(agree >= 700 && exact >= 400, "only {agree} graphs fit, {exact} of them exact");
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
        "QuantizeLinear",
        "DequantizeLinear",
        "ReduceL1",
        "ReduceSumSquare",
        "ReduceProd",
        "ArgMax",
        "ArgMin",
        "Softmax",
        "BatchNormalization",
        "Cast",
        "Equal",
        "Less",
        "LessOrEqual",
        "Greater",
        "GreaterOrEqual",
        "And",
        "Or",
        "Xor",
        "Not",
        "Floor",
        "Ceil",
        "Round",
        "Sign",
        "Exp",
        "Erf",
        "Sigmoid",
        "HardSwish",
        "Tanh",
        "Gelu",
        "Softplus",
        "Sin",
        "Cos",
        "Atan",
        "Elu",
        "Selu",
        "Sqrt",
        "Log",
        "Reciprocal",
        "Pow",
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
        compiled += usize::from(judges_agree(&graph, seed, "wide") != Outcome::Refused);
    }
    assert!(compiled >= 8, "only {compiled} graphs fit");
}

#[test]
fn seed_dialect_compiles_the_same_graphs() {
    let agree =
        |seed: &u64| judges_agree(&random_graph(*seed).0, *seed, "seed") != Outcome::Refused;
    let compiled = (0..50).filter(agree).count();
    assert!(compiled >= 30, "only {compiled} graphs fit");
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
    match crate::common::claim(&graph, arch.as_ref()).pop().unwrap() {
        Claim::Host(reason) => reason,
        Claim::Device => panic!("{graph} is claimed"),
    }
}

#[test]
fn refusals_say_why() {
    let reduce = |kind| Op::Reduce(Reduce { kind, axes: vec![1], keep_dims: true });
    let cases = [
        (Op::Unary(Unary::Exp), "Exp has no exact result in fixed point; a quantiser must follow"),
        (Op::Activation(Activation::Elu { alpha: 1.0 }), "Elu has no exact result"),
        (reduce(ReduceKind::L2), "Sqrt has no exact result"),
        (reduce(ReduceKind::LogSumExp), "a function of several numbers"),
        (Op::Softmax(Softmax { axis: 1, log: true }), "the logarithm of a softmax"),
        (Op::Cast { to: DType::Narrow(quincunx_tensor::Narrow::Bf16) }, "rounds"),
    ];
    for (op, word) in cases {
        let reason = reason(op.clone());
        assert!(reason.contains(word), "{op:?}: {reason}");
    }
}

/// Every function without an exact result between two quantisers: the program has the numbers of the
/// float executor, for every operand.
#[test]
fn functions_are_those_of_the_float_executor() {
    let unary = [
        Unary::Exp,
        Unary::Erf,
        Unary::Sigmoid,
        Unary::Tanh,
        Unary::Gelu,
        Unary::GeluTanh,
        Unary::Softplus,
        Unary::Sin,
        Unary::Cos,
        Unary::Atan,
    ];
    let mut ops: Vec<Op> = unary.into_iter().map(Op::Unary).collect();
    ops.push(Op::Activation(Activation::Elu { alpha: 0.7 }));
    ops.push(Op::Activation(Activation::Selu { alpha: 1.67, gamma: 1.05 }));
    // All 256 codes of the operand at once, on a grid of eighths.
    let codes: Vec<f32> = (-128..128).map(|code| code as f32 / 8.0).collect();
    for (op, preset) in ops.into_iter().flat_map(|op| [(op.clone(), "d1"), (op, "seed")]) {
        let mut graph = Graph::new("function");
        let x = graph.add_input("x", DType::F32, &[256], &[]).unwrap();
        let grid = Op::Quantise(Quantiser::symmetric(true, 8, 0.125));
        let x = graph.add_node("x8", grid, &[Some(x)], "x8").unwrap();
        let y = graph.add_node("f", op.clone(), &[Some(x)], "y").unwrap();
        let grid = Op::Quantise(Quantiser::symmetric(true, 10, 1.0 / 64.0));
        let z = graph.add_node("z", grid, &[Some(y)], "z").unwrap();
        graph.add_output(z);
        let arch = TARGET.arch(&ArchSource::Preset(preset.to_owned())).unwrap();
        let options = Options::new(TARGET.info().options, &[]).unwrap();
        let claims = crate::common::claim(&graph, arch.as_ref());
        assert!(claims.iter().all(|claim| *claim == Claim::Device), "{op:?}: {claims:?}");
        let log = &mut Log::default();
        let compiled = TARGET.compile(&graph, arch.as_ref(), &options, log).unwrap();
        let tensor = quincunx_tensor::Tensor::from_vec(&[256], codes.clone()).unwrap();
        let inputs = quincunx_tensor::Tensors::from([("x".to_owned(), tensor)]);
        let keep = Keep::Outputs;
        let expected = quincunx_graph::execute::float(&graph, &inputs, keep).unwrap();
        let mut machine = compiled.program.load(Engine::Exec).unwrap();
        let found = machine.run(&inputs).unwrap();
        assert_eq!(found["z"].to_f64(), expected["z"].to_f64(), "{op:?} on {preset}");
    }
}

/// A softmax is as exact as it says.
#[test]
fn softmax_keeps_its_precision() {
    let mut graph = Graph::new("softmax");
    let x = graph.add_input("x", DType::F32, &[1, 10], &[]).unwrap();
    let grid = Op::Quantise(Quantiser::symmetric(true, 8, 0.0625));
    let x = graph.add_node("x8", grid, &[Some(x)], "x8").unwrap();
    let softmax = Op::Softmax(Softmax { axis: 1, log: false });
    let y = graph.add_node("softmax", softmax, &[Some(x)], "y").unwrap();
    graph.add_output(y);
    let arch = TARGET.arch(&ArchSource::Preset("d1".to_owned())).unwrap();
    for bits in [4, 8, 10] {
        let chosen = [("softmax-bits".to_owned(), bits.to_string())];
        let options = Options::new(TARGET.info().options, &chosen).unwrap();
        let log = &mut Log::default();
        let compiled = TARGET.compile(&graph, arch.as_ref(), &options, log).unwrap();
        let mut machine = compiled.program.load(Engine::Exec).unwrap();
        let mut random = Random(bits);
        for _ in 0..50 {
            let spread = random.range(1, 128);
            let numbers: Vec<f32> =
                (0..10).map(|_| random.range(-spread, spread - 1) as f32 / 16.0).collect();
            let tensor = quincunx_tensor::Tensor::from_vec(&[1, 10], numbers.clone()).unwrap();
            let inputs = quincunx_tensor::Tensors::from([("x".to_owned(), tensor)]);
            let found = machine.run(&inputs).unwrap()["y"].to_f64();
            let powers: Vec<f64> = numbers.iter().map(|&x| f64::from(x).exp()).collect();
            let total: f64 = powers.iter().sum();
            for (found, power) in found.iter().zip(&powers) {
                let error = (found - power / total).abs();
                assert!(error <= 0.5_f64.powi(bits as i32), "{bits} bits: {error}");
            }
        }
    }
}
