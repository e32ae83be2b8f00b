//! Functions as polynomials on machines without lookup tables: all judges, and the functions
//! themselves.

use quincunx_contract::{Claim, Compiled, Compiler, Engine, Log, Refused};
use quincunx_graph::{Graph, Op, Unary};
use quincunx_tcu::arch::DataType;
use quincunx_tcu::{TARGET, TcuArch};
use quincunx_tensor::{DType, Tensor, Tensors};
use quincunx_testkit::options;
use serde_json::json;

fn machine() -> TcuArch {
    TcuArch::preset("pynqz1").unwrap()
}

fn graph_of(unary: Unary, shape: &[usize]) -> Graph {
    let mut graph = Graph::new("function");
    let x = graph.add_input("x", DType::F32, shape, &[]).unwrap();
    let y = graph.add_node("f", Op::Unary(unary), &[Some(x)], "y").unwrap();
    graph.add_output(y);
    graph
}

fn compile(graph: &Graph, arch: &TcuArch, given: &[(&str, &str)]) -> (Compiled, Log) {
    let mut log = Log::default();
    let compiled = TARGET.compile(graph, arch, &options(&TARGET, given), &mut log);
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

#[test]
fn every_number_is_as_near_to_its_function_as_is_stated() {
    let shape = [1, 12, 43, 128];
    let count: usize = shape.iter().product();
    let x: Vec<f32> = (0..count as i32).map(|x| (x.min(65535) - 32768) as f32 / 256.0).collect();
    let sigmoid = |x: f64| 0.5 + (x / 2.0).tanh() / 2.0;
    let inner = |x: f64| (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
    let gelu = |x: f64| (x * sigmoid(2.0 * inner(x))).min(32767.0 / 256.0);
    let functions: [(Unary, &dyn Fn(f64) -> f64); 3] =
        [(Unary::Sigmoid, &sigmoid), (Unary::Tanh, &f64::tanh), (Unary::GeluTanh, &gelu)];
    for (unary, real) in functions {
        let graph = graph_of(unary, &shape);
        let (compiled, log) = compile(&graph, &machine(), &[("rounding", "free")]);
        let inputs = [("x".to_owned(), Tensor::from_vec(&shape, x.clone()).unwrap())].into();
        let y = run(&graph, &compiled, &inputs);
        let errors = x.iter().zip(&y).map(|(&x, &y)| (y - real(x.into())).abs());
        let worst = errors.fold(0.0, f64::max);
        let stated = compiled.numerics.0["curves"]["f"]["max_error"].as_f64().unwrap();
        assert!((worst - stated).abs() < 1e-9, "{unary:?}: {worst}, stated {stated}");
        assert!(stated <= 0.02, "{unary:?}: {stated}");
        let note = log.diagnostics.iter().find(|note| note.code() == "Q3105").unwrap();
        assert!(note.message().contains("polynomial of degree"), "{}", note.message());
    }
}

#[test]
fn the_bound_and_the_rounding_decide() {
    let sigmoid = graph_of(Unary::Sigmoid, &[1, 9, 3]);
    let claim = |graph: &Graph, arch: &TcuArch, given: &[(&str, &str)]| {
        let options = options(&TARGET, given);
        TARGET.claim(graph, arch, &options, &Refused::default()).unwrap().remove(0)
    };
    let reason =
        |graph: &Graph, arch: &TcuArch, given: &[(&str, &str)]| match claim(graph, arch, given) {
            Claim::Host(reason) => reason,
            claim => panic!("{claim:?}"),
        };
    let free = ("rounding", "free");
    assert_eq!(claim(&sigmoid, &machine(), &[free]), Claim::Device);
    assert!(reason(&sigmoid, &machine(), &[]).contains("with --rounding free"));
    let few = reason(&sigmoid, &machine(), &[free, ("approximate", "0.001")]);
    assert!(few.contains("is off by 0.0083, more than 0.001"), "{few}");
    assert!(reason(&sigmoid, &machine(), &[free, ("approximate", "none")]).contains("lookup"));
    let log = graph_of(Unary::Exp, &[1, 9]);
    assert!(reason(&log, &machine(), &[free]).contains("needs lookup tables"));
    let floats = TcuArch { data_type: DataType::Float32, ..machine() };
    assert!(reason(&sigmoid, &floats, &[free]).contains("FLOAT32"));
    let none = TcuArch { simd_registers_depth: 0, ..machine() };
    assert!(reason(&sigmoid, &none, &[free]).contains("register"));
    // Less error takes more coefficients.
    let count = |bound| {
        let (compiled, _) = compile(&sigmoid, &machine(), &[free, ("approximate", bound)]);
        compiled.numerics.0["curves"]["f"]["coefficients"].as_array().unwrap().len()
    };
    assert_eq!(["0.05", "0.02", "0.009"].map(count), [2, 3, 4]);
}

#[test]
fn numerics_of_polynomials_are_checked() {
    let graph = graph_of(Unary::Tanh, &[1, 4]);
    let (compiled, _) = compile(&graph, &machine(), &[("rounding", "free")]);
    let inputs = [("x".to_owned(), Tensor::from_vec(&[1, 4], vec![0.5_f32; 4]).unwrap())].into();
    for (key, value) in [("scale", json!(40_000)), ("reach", json!(-1)), ("limits", json!([0]))] {
        let mut numerics = compiled.numerics.clone();
        numerics.0["curves"]["f"][key] = value;
        let problem = crate::common::golden_of(&graph, &numerics, &inputs).unwrap_err();
        assert_eq!(problem.code(), "Q3104", "{key}");
    }
}
