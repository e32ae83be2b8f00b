//! Random graphs of every supported operator: all judges must agree.

use quincunx_contract::{Arch, ArchSource, Claim, Compiler, Engine, Log, Machine, Refused, Target};
use quincunx_dais::TARGET;
use quincunx_graph::execute::Keep;
use quincunx_graph::{
    Activation, Binary, Constant, Graph, Op, Quantiser, Reduce, ReduceKind, Softmax, Unary,
};
use quincunx_tensor::{DType, Tensor};
use quincunx_testkit::{Coverage, Random, Recipe, agree, options, same};

/// Operators that the machine has no program for.
const REFUSED: &str =
    "ReduceLogSumExp LogSoftmax LayerNormalization InstanceNormalization LRN RNN LSTM GRU";

/// Vectors and small images on grids.
const RECIPE: Recipe<'static> = Recipe {
    grids: Some([8, 4]),
    inputs: 2,
    batch: 1,
    channels: 3,
    extent: 4,
    spatial: &[0, 0, 1, 2, 2, 2, 3],
    layers: [1, 5],
    spread: 9.4,
    accept: &|_, node| match &node.op {
        Op::Resize(resize) => resize.is_nearest() || resize.is_exact(),
        op => REFUSED.split_whitespace().all(|name| name != op.name()),
    },
    ..Recipe::REAL
};

/// Compiles a graph and compares the judges on some inputs; `None` if it does not fit, for a reason
/// that is said, else whether it has an exact result.
fn judges_agree(graph: &Graph, case: u64, preset: &str) -> Option<bool> {
    let arch = TARGET.arch(&ArchSource::Preset(preset.to_owned())).unwrap();
    let keep = options(&TARGET, &[("keep-layers", "true")]);
    let mut random = Random::new(case ^ 0x5eed);
    let samples = (0..8).map(|_| RECIPE.sample(graph, &mut random));
    let agreed = match agree(&TARGET, arch.as_ref(), &keep, graph, samples) {
        Ok(agreed) => agreed,
        Err(reasons) => {
            let known = [
                "the program needs a",
                "its operand has",
                "its result takes",
                "its result changes",
                "its operand \"",
                "has no exact result in fixed point; a quantiser must follow",
                "a shift by",
            ];
            let reason = reasons[0].message();
            assert!(known.iter().any(|k| reason.contains(k)), "case {case}: {reason}\n{graph}");
            return None;
        }
    };
    let mut problems = agreed.compiled.program.verify();
    // The compiler knows more about roundings than intervals show.
    problems.retain(|problem| problem.code() != "Q1038");
    assert!(problems.is_empty(), "case {case}: {problems:?}\n{graph}");
    // Only functions that wait for a quantiser cannot be observed.
    for (_, node) in graph.nodes() {
        let seen = agreed.seen.contains(&graph[node.output].name);
        assert!(seen || !matches!(node.op, Op::Quantise(_) | Op::Conv(_)), "case {case}: {node:?}");
    }
    if let Some(mut staged) =
        case.is_multiple_of(4).then(|| in_stages(graph, arch.as_ref())).flatten()
    {
        for (inputs, golden) in &agreed.samples {
            for (name, found) in staged.run_traced(inputs).unwrap() {
                same(&found, &golden[&name], &format!("case {case}, in stages: {name}\n{graph}"));
            }
        }
    }
    Some(agreed.is_exact(graph))
}

/// The same program with registers after every second level; `None` where an operation is longer.
fn in_stages(graph: &Graph, arch: &dyn Arch) -> Option<Box<dyn Machine>> {
    let options = options(&TARGET, &[("keep-layers", "true"), ("latency-cutoff", "2")]);
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
    for case in 0..600 {
        let (graph, _) = RECIPE.graph(&mut Random::new(case));
        if let Some(is_exact) = judges_agree(&graph, case, "d1") {
            agree += 1;
            exact += usize::from(is_exact);
            coverage.mark(&graph);
        }
    }
    assert!(agree >= 420 && exact >= 240, "only {agree} graphs fit, {exact} of them exact");
    assert_eq!(coverage.never(), REFUSED);
    coverage.assert_modes();
}

/// Slots above 64 bits: the same graphs with repeated squaring.
#[test]
fn judges_agree_on_wide_slots() {
    let squared = |case: &u64| {
        let (mut graph, _) = RECIPE.graph(&mut Random::new(*case));
        let mut value = graph.outputs()[0];
        for step in 0..3 {
            let (name, op) = (format!("square{step}"), Op::Binary(Binary::Mul));
            let inputs = [Some(value), Some(value)];
            value = graph.add_node(&name, op, &inputs, &format!("{name}_out")).unwrap();
        }
        graph.add_output(value);
        judges_agree(&graph, *case, "wide").is_some()
    };
    let compiled = (0..20).filter(squared).count();
    assert!(compiled >= 8, "only {compiled} graphs fit");
}

#[test]
fn seed_dialect_compiles_the_same_graphs() {
    let agree = |case: &u64| {
        judges_agree(&RECIPE.graph(&mut Random::new(*case)).0, *case, "seed").is_some()
    };
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
        let options = options(&TARGET, &[]);
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
        let options = options(&TARGET, &[("softmax-bits", &bits.to_string())]);
        let log = &mut Log::default();
        let compiled = TARGET.compile(&graph, arch.as_ref(), &options, log).unwrap();
        let mut machine = compiled.program.load(Engine::Exec).unwrap();
        let mut random = Random::new(bits);
        for _ in 0..50 {
            let spread = random.range(1, 128_i32);
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

/// Layers with too many operations are left to the host before anything is searched.
#[test]
fn operations_are_limited() {
    let mut graph = Graph::new("g");
    let x = graph.add_input("x", DType::F32, &[1, 8], &[]).unwrap();
    let mut last = graph
        .add_node("q", Op::Quantise(Quantiser::symmetric(true, 4, 1.0)), &[Some(x)], "xq")
        .unwrap();
    for name in ["first", "second"] {
        let codes = Tensor::from_vec(&[8, 8], vec![5_i8; 64]).unwrap();
        let quantiser = Some(Quantiser::symmetric(true, 8, 1.0));
        let weights =
            graph.add_constant(&format!("w_{name}"), Constant { tensor: codes, quantiser });
        last =
            graph.add_node(name, Op::MatMul, &[Some(last), Some(weights.unwrap())], name).unwrap();
    }
    graph.add_output(last);
    let claims = |most: &str| {
        let (arch, options) = (
            TARGET.arch(&ArchSource::Default).unwrap(),
            options(&TARGET, &[("max-operations", most)]),
        );
        TARGET.claim(&graph, arch.as_ref(), &options, &Refused::default()).unwrap()
    };
    // 8 inputs; 64 weights of two digits become about 64 adders.
    assert!(claims("136").iter().all(|claim| *claim == Claim::Device));
    let reason = "with the layers before it more than 135 operations would be needed, the limit of \
                  --max-operations";
    assert_eq!(claims("135")[1..], [Claim::Device, Claim::Host(reason.to_owned())]);
}
