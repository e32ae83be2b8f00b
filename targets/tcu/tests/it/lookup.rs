//! Functions from lookup tables: both simulators, the golden model, and the functions themselves.

use quincunx_contract::{Claim, Compiled, Compiler, Engine, Log};
use quincunx_diag::{Severity, any_error};
use quincunx_graph::{Activation, Graph, Op, Softmax, Unary};
use quincunx_tcu::arch::DataType;
use quincunx_tcu::{TARGET, TcuArch};
use quincunx_tensor::{DType, Tensor, Tensors};
use quincunx_testkit::{Random, options};

/// A function of real numbers.
type Real = fn(f64) -> f64;

/// A machine with lookup tables.
fn machine(tables: u32, depth: u32) -> TcuArch {
    TcuArch {
        lookup_tables: Some(tables),
        lookup_table_depth: Some(depth),
        simd_registers_depth: tables.max(1),
        ..TcuArch::preset("pynqz1").unwrap()
    }
}

fn graph_of(op: Op, shape: &[usize]) -> Graph {
    let mut graph = Graph::new("function");
    let x = graph.add_input("x", DType::F32, shape, &[]).unwrap();
    let y = graph.add_node("f", op, &[Some(x)], "y").unwrap();
    graph.add_output(y);
    graph
}

fn compile(graph: &Graph, arch: &TcuArch) -> (Compiled, Log) {
    let mut log = Log::default();
    let compiled = TARGET.compile(graph, arch, &options(&TARGET, &[]), &mut log);
    let compiled = compiled.unwrap_or_else(|problem| panic!("{}", problem.first()));
    let problems = compiled.program.verify();
    assert!(problems.is_empty(), "{problems:?}");
    (compiled, log)
}

/// The result, which all judges agree on.
fn run(graph: &Graph, compiled: &Compiled, inputs: &Tensors) -> Vec<f64> {
    let golden = crate::common::golden_of(graph, &compiled.numerics, inputs).unwrap();
    let expected = golden["y"].to_f64();
    for engine in [Engine::Exec, Engine::Fast] {
        let found = compiled.program.load(engine).unwrap().run(inputs).unwrap();
        assert!(found["y"].to_f64() == expected, "{engine:?}");
    }
    expected
}

fn stated(compiled: &Compiled) -> f64 {
    compiled.numerics.0["lookups"]["f"]["max_error"].as_f64().unwrap()
}

#[test]
fn every_number_is_as_near_to_its_function_as_is_stated() {
    let shape = [1, 12, 43, 128];
    let count: usize = shape.iter().product();
    let x: Vec<f32> = (0..count as i32).map(|x| (x.min(65535) - 32768) as f32 / 256.0).collect();
    let functions: [(Unary, Real); 3] = [
        (Unary::Sigmoid, |x| 0.5 + (x / 2.0).tanh() / 2.0),
        (Unary::Tanh, |x| 1.0 - 2.0 / ((2.0 * x).exp() + 1.0)),
        (Unary::Exp, |x| x.exp().min(32767.0 / 256.0)),
    ];
    for (arch, bounds) in [
        (machine(2, 64), [0.0042, 0.0045, 0.06]),
        (machine(1, 256), [0.0045, 0.0065, 2.0]),
        (machine(3, 16), [0.006, 0.0165, 1.5]),
    ] {
        for ((unary, real), bound) in functions.into_iter().zip(bounds) {
            let graph = graph_of(Op::Unary(unary), &shape);
            let (compiled, log) = compile(&graph, &arch);
            let inputs = [("x".to_owned(), Tensor::from_vec(&shape, x.clone()).unwrap())].into();
            let y = run(&graph, &compiled, &inputs);
            let errors = x.iter().zip(&y).map(|(&x, &y)| (y - real(x.into())).abs());
            let (worst, stated) = (errors.fold(0.0, f64::max), stated(&compiled));
            assert!((worst - stated).abs() < 1e-9, "{unary:?}: {worst}, stated {stated}");
            assert!(worst <= bound, "{unary:?}: {worst}");
            let note = log.diagnostics.iter().find(|note| note.code() == "Q3105").unwrap();
            assert_eq!(note.severity(), Severity::Note);
            let entries = arch.lookup_table_depth.unwrap();
            assert!(note.message().contains(&format!("\"f\": lookup tables of {entries} entries")));
            let shown = note.message().rsplit(' ').next().unwrap().parse::<f64>().unwrap();
            assert!((stated..=stated * 1.1).contains(&shown), "{shown} for {stated}");
        }
    }
}

fn softmax(x: &[f64]) -> Vec<f64> {
    let largest = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = x.iter().map(|x| (x - largest).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|power| power / sum).collect()
}

#[test]
fn softmax_is_as_near_as_is_stated() {
    let mut random = Random::new(11);
    for (shape, axis) in [
        (vec![1, 10], 1),
        (vec![3, 8], 1),
        (vec![2, 21, 3, 4], 1),
        (vec![1, 27, 2], 1),
        (vec![2, 3, 5, 4], 3),
        (vec![2, 3, 5, 4], 2),
        (vec![6, 3, 2, 2], 0),
        (vec![7], 0),
        (vec![1, 1, 1], 1),
    ] {
        for arch in [machine(2, 64), machine(1, 512)] {
            for lanes in [5, 8, 16] {
                let arch = TcuArch { array_size: lanes, ..arch.clone() };
                let softmax_of = Softmax { axis, log: false };
                let graph = graph_of(Op::Softmax(softmax_of), &shape);
                let claims = crate::common::claim(&graph, &arch);
                assert_eq!(claims, [Claim::Device], "{shape:?}");
                let (compiled, _) = compile(&graph, &arch);
                let stated = stated(&compiled);
                for scale in [1.0, 20.0, 127.0] {
                    let count = shape.iter().product();
                    // Numbers below zero only are the ones that padding would spoil.
                    let real =
                        |random: &mut Random| (random.below(257) as f64 / 256.0 - 1.0) * scale;
                    let x: Vec<f64> =
                        (0..count).map(|_| (real(&mut random) * 256.0).round() / 256.0).collect();
                    let tensor = Tensor::from_vec(&shape, x.clone()).unwrap();
                    let inputs = [("x".to_owned(), tensor)].into();
                    let y = run(&graph, &compiled, &inputs);
                    let inner: usize = shape[axis + 1..].iter().product();
                    for first in (0..count).filter(|at| (at / inner).is_multiple_of(shape[axis])) {
                        let line: Vec<usize> =
                            (0..shape[axis]).map(|at| first + at * inner).collect();
                        let reals: Vec<f64> = line.iter().map(|&at| x[at]).collect();
                        for (at, expected) in line.into_iter().zip(softmax(&reals)) {
                            let error = (y[at] - expected).abs();
                            assert!(error <= stated, "{shape:?} {axis}: {error}, {stated}");
                        }
                    }
                }
            }
        }
    }
}

/// Functions behind a product and behind each other are layers of one table each.
#[test]
fn functions_follow_each_other() {
    let mut graph = Graph::new("chain");
    let mut value = graph.add_input("x", DType::F32, &[1, 9, 4, 4], &[]).unwrap();
    let ops = [
        Op::Unary(Unary::Tanh),
        Op::Unary(Unary::Sigmoid),
        Op::Activation(Activation::Elu { alpha: 0.5 }),
        Op::Unary(Unary::Relu),
        Op::Softmax(Softmax { axis: 1, log: false }),
        Op::Unary(Unary::Gelu),
        Op::Unary(Unary::Sigmoid),
    ];
    for (index, op) in ops.into_iter().enumerate() {
        let name = if index == 6 { "y".to_owned() } else { format!("v{index}") };
        value = graph.add_node(&format!("n{index}"), op, &[Some(value)], &name).unwrap();
    }
    graph.add_output(value);
    let (compiled, log) = compile(&graph, &machine(2, 32));
    let notes = log.diagnostics.iter().filter(|note| note.code() == "Q3105").count();
    assert_eq!(notes, 6);
    let x: Vec<f32> = (0..144).map(|x| (x as f32 - 72.0) / 20.0).collect();
    let inputs = [("x".to_owned(), Tensor::from_vec(&[1, 9, 4, 4], x).unwrap())].into();
    let y = run(&graph, &compiled, &inputs);
    assert!(y.iter().all(|&y| (0.4..0.8).contains(&y)), "{y:?}");
}

#[test]
fn machines_without_fitting_tables_leave_functions_to_the_host() {
    let sigmoid = graph_of(Op::Unary(Unary::Sigmoid), &[1, 4]);
    let reason = |graph: &Graph, arch: &TcuArch| match &crate::common::claim(graph, arch)[0] {
        Claim::Host(reason) => reason.clone(),
        claim => panic!("{claim:?}"),
    };
    let none = TcuArch::preset("pynqz1").unwrap();
    assert!(reason(&sigmoid, &none).contains("the machine has none"));
    let floats = TcuArch { data_type: DataType::Float32, ..machine(2, 64) };
    assert!(reason(&sigmoid, &floats).contains("FLOAT32"));
    let few = TcuArch { simd_registers_depth: 1, ..machine(2, 64) };
    assert!(reason(&sigmoid, &few).contains("writes 2 registers"));
    let full = TcuArch { local_depth: 64, ..machine(2, 64) };
    assert!(reason(&sigmoid, &full).contains("fills local memory"));
    let steep = graph_of(Op::Unary(Unary::Log), &[1, 4]);
    assert!(reason(&steep, &machine(2, 64)).contains("too steep"));
    let many = graph_of(Op::Softmax(Softmax { axis: 1, log: false }), &[1, 1000]);
    assert!(reason(&many, &machine(2, 64)).contains("may be off by"));
    let logarithm = graph_of(Op::Softmax(Softmax { axis: 1, log: true }), &[1, 4]);
    assert!(reason(&logarithm, &machine(2, 64)).contains("logarithm"));
    let wild = Op::Activation(Activation::Elu { alpha: f32::NAN });
    assert!(reason(&graph_of(wild, &[1, 4]), &machine(2, 64)).contains("not finite"));
    // With more bits a thousand numbers are no trouble.
    let words = TcuArch { data_type: DataType::FP32BP16, ..machine(2, 256) };
    assert_eq!(crate::common::claim(&many, &words), [Claim::Device]);
    let (compiled, _) = compile(&many, &words);
    let x: Vec<f32> = (0..1000).map(|x| (x * 7919 % 1000) as f32 / 50.0).collect();
    let inputs = [("x".to_owned(), Tensor::from_vec(&[1, 1000], x.clone()).unwrap())].into();
    let y = run(&many, &compiled, &inputs);
    let reals: Vec<f64> = x.iter().map(|&x| f64::from((x * 65536.0).round()) / 65536.0).collect();
    let stated = stated(&compiled);
    for (found, expected) in y.iter().zip(softmax(&reals)) {
        assert!((found - expected).abs() <= stated && stated < 0.1, "{found} {expected} {stated}");
    }
    assert!(!any_error(&compiled.program.verify()));
}

#[test]
fn numerics_of_tables_are_checked() {
    let graph = graph_of(Op::Unary(Unary::Tanh), &[1, 4]);
    let (compiled, _) = compile(&graph, &machine(2, 8));
    let inputs = [("x".to_owned(), Tensor::from_vec(&[1, 4], vec![0.5_f32; 4]).unwrap())].into();
    for change in 0..4 {
        let mut numerics = compiled.numerics.clone();
        let table = &mut numerics.0["tables"]["Tanh"];
        match change {
            0 => table["values"][0] = serde_json::json!(40_000),
            1 => table["slopes"] = serde_json::json!([1]),
            2 => numerics.0["lookups"]["f"]["tables"] = serde_json::json!(["Sine"]),
            _ => numerics.0["lookups"] = serde_json::json!({}),
        }
        let problem = crate::common::golden_of(&graph, &numerics, &inputs).unwrap_err();
        assert_eq!(problem.code(), "Q3104", "{change}");
    }
}
