//! Subgraphs.

use super::build::{Model, attribute, int, ints};
use crate::proto::{AttributeProto, GraphProto, attribute_kind as kind};
use quincunx_diag::Class;
use quincunx_graph::Graph;
use quincunx_graph::execute::{Keep, float};
use quincunx_tensor::{DType, Tensor, Tensors};

fn branch(name: &str, model: Model) -> AttributeProto {
    let graph = GraphProto { input: vec![], ..model.0.graph.unwrap() };
    AttributeProto { g: Some(Box::new(graph)), ..attribute(name, kind::GRAPH) }
}

/// Both branches name their result `r` and their constant `k`.
fn branches(yes: Model, no: Model) -> Vec<AttributeProto> {
    vec![branch("then_branch", yes), branch("else_branch", no)]
}

/// `x` plus a constant that belongs to the branch.
fn plus(value: f32) -> Model {
    let model = Model::empty(13).floats("k", &[1], &[value]).output("r");
    model.node("Add", &["x", "k"], "r", vec![])
}

fn with_condition(value: u8) -> Model {
    let condition = Tensor::new(DType::Bool, &[], vec![value].into()).unwrap();
    Model::new(13, &[2]).init("c", &condition)
}

fn names(graph: &Graph) -> Vec<&'static str> {
    graph.nodes().map(|(_, node)| node.op.name()).collect()
}

fn run(graph: &Graph, x: [f32; 2]) -> Vec<f64> {
    let inputs: Tensors = [("x".to_owned(), Tensor::from_vec(&[2], x.to_vec()).unwrap())].into();
    float(graph, &inputs, Keep::Outputs).unwrap()["y"].to_f64()
}

#[test]
fn a_known_condition_takes_one_branch() {
    for (value, sum) in [(1, 11.0), (0, 21.0)] {
        let model = with_condition(value).node("If", &["c"], "y", branches(plus(10.0), plus(20.0)));
        let graph = model.read().unwrap();
        assert_eq!(names(&graph), ["Add", "Identity"]);
        assert_eq!(run(&graph, [1.0, 1.0]), [sum; 2]);
    }
}

#[test]
fn an_unknown_condition_computes_both_and_chooses() {
    let model = Model::new(13, &[2]).floats("zero", &[1], &[0.0]);
    let sum = vec![int("keepdims", 1)];
    let model = model.node("ReduceSum", &["x"], "s", sum).node("Less", &["s", "zero"], "c", vec![]);
    let model = model.node("If", &["c"], "y", branches(plus(10.0), plus(20.0)));
    let graph = model.read().unwrap();
    assert_eq!(names(&graph), ["ReduceSum", "Less", "Reshape", "Add", "Add", "Where"]);
    assert_eq!(run(&graph, [-1.0, 0.0]), [9.0, 10.0]);
    assert_eq!(run(&graph, [1.0, 0.0]), [21.0, 20.0]);
}

#[test]
fn results_of_a_branch_may_be_constants_and_fold() {
    let constant = |value: i64| Model::empty(13).longs("r", &[value]).output("r");
    let model = with_condition(1).node("If", &["c"], "axes", branches(constant(0), constant(9)));
    let graph = model.node("Unsqueeze", &["x", "axes"], "y", vec![]).read().unwrap();
    assert_eq!(graph[graph.outputs()[0]].shape[..], [1, 2]);
}

#[test]
fn branches_read_values_that_come_later_and_nest() {
    // The condition of the inner one and its operand are defined after the outer one.
    let inner = |value: f32| {
        let outer = Model::empty(13).output("r");
        outer.node("If", &["c"], "r", branches(late(value), late(-value)))
    };
    fn late(value: f32) -> Model {
        let model = Model::empty(13).floats("k", &[1], &[value]).output("r");
        model.node("Mul", &["later", "k"], "r", vec![])
    }
    let model = with_condition(0).node("If", &["c"], "y", branches(inner(2.0), inner(3.0)));
    let graph = model.node("Neg", &["x"], "later", vec![]).read().unwrap();
    assert_eq!(run(&graph, [1.0, 2.0]), [3.0, 6.0]);
}

#[test]
fn what_is_wrong_with_branches() {
    let both = || branches(plus(1.0), plus(2.0));
    let unknown = |attributes| {
        Model::new(13, &[2]).input("c", DType::Bool, &[]).node("If", &["c"], "y", attributes)
    };
    let missing = unknown(both()[..1].to_vec()).problem();
    assert!(missing.message().contains("else_branch"), "{missing}");
    let longer =
        Model::empty(13).output("r").node("Concat", &["x", "x"], "r", vec![int("axis", 0)]);
    let shapes = unknown(branches(plus(1.0), longer)).problem();
    assert_eq!((shapes.code(), shapes.class()), ("Q0406", Class::Unsupported));
    let absent = unknown(branches(plus(1.0), Model::empty(13).output("nothing"))).problem();
    assert_eq!(absent.code(), "Q0417");
    let counts = unknown(branches(plus(1.0), plus(1.0).output("k"))).problem();
    assert_eq!((counts.code(), counts.class()), ("Q0407", Class::Invalid));
    let numbers = Model::new(13, &[2]).node("If", &["x"], "y", both()).problem();
    assert!(numbers.message().contains("expected one bool"), "{numbers}");
    let cycle = Model::empty(13).output("r").node("Neg", &["y"], "r", vec![]);
    assert_eq!(unknown(branches(cycle, plus(1.0))).problem().code(), "Q0410");
    let inside = Model::empty(13).output("r").node("Foo", &["x"], "r", vec![]);
    assert_eq!(
        with_condition(1).node("If", &["c"], "y", branches(inside, plus(1.0))).problem().code(),
        "Q0405"
    );
    let wrong = unknown(vec![ints("then_branch", &[1])]).problem();
    assert!(wrong.message().contains("expected a graph"), "{wrong}");
}

#[test]
fn codes_are_moved_as_numbers_on_their_grid() {
    let zero = Tensor::from_vec(&[], vec![3_u8]).unwrap();
    let model = Model::new(13, &[1, 1, 4, 4]).floats("s", &[], &[0.5]).init("z", &zero);
    let model = model.node("QuantizeLinear", &["x", "s", "z"], "q", vec![]);
    let model = model.node("MaxPool", &["q"], "p", vec![ints("kernel_shape", &[2, 2])]);
    let model = model.node("Flatten", &["p"], "f", vec![]);
    let pair = model.clone().node("DequantizeLinear", &["f", "s", "z"], "y", vec![]).read();
    assert_eq!(names(&pair.unwrap()), ["Quantise", "MaxPool", "Flatten", "Identity"]);
    let mut codes = model;
    codes.graph().output[0].name = Some("f".to_owned());
    let graph = codes.read().unwrap();
    let output = graph.outputs()[0];
    assert_eq!((&graph[output].name[..], graph[output].dtype), ("f", DType::U8));
}
