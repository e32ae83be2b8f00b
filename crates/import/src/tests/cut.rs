//! Models that are cut at named values.

use super::build::{Model, value};
use crate::options::Options;
use quincunx_diag::Class;
use quincunx_graph::Graph;
use quincunx_tensor::DType;

/// `x -> Relu a -> Unknown b -> Relu y`, and `z` from `a` alone; input `s` is read by `b` only.
fn model() -> Model {
    let mut model = Model::new(13, &[1, 4]).input("s", DType::F32, &[1]).output("z");
    model.graph().value_info.push(value("b", DType::F32, &[1, 2]));
    model
        .node("Relu", &["x"], "a", vec![])
        .node("NoSuchOperator", &["a", "s"], "b", vec![])
        .node("Relu", &["b"], "y", vec![])
        .node("Neg", &["a"], "z", vec![])
}

fn at(inputs: &[&str], outputs: &[&str]) -> Options {
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    Options { inputs: owned(inputs), outputs: owned(outputs), ..Options::default() }
}

fn shape_of(graph: &Graph) -> (Vec<String>, Vec<String>, usize) {
    let names = |ids: &[quincunx_graph::ValueId]| {
        ids.iter().map(|&id| graph[id].name.clone()).collect::<Vec<_>>()
    };
    (names(graph.inputs()), names(graph.outputs()), graph.nodes().len())
}

#[test]
fn outputs_drop_what_they_do_not_need() {
    assert_eq!(model().problem().code(), "Q0405");
    let graph = model().read_with(&at(&[], &["z"])).unwrap();
    assert_eq!(shape_of(&graph), (vec!["x".into()], vec!["z".into()], 2));
    let inner = model().read_with(&at(&[], &["a", "z"])).unwrap();
    assert_eq!(shape_of(&inner).1, ["a", "z"]);
    let through = model().read_with(&at(&[], &["x"])).unwrap();
    assert_eq!(shape_of(&through), (vec!["x".into()], vec!["x".into()], 0));
}

#[test]
fn inner_values_become_inputs() {
    let graph = model().read_with(&at(&["b"], &["y"])).unwrap();
    assert_eq!(shape_of(&graph), (vec!["b".into()], vec!["y".into()], 1));
    assert_eq!(graph[graph.inputs()[0]].shape[..], [1, 2]);
    // The other output still needs x.
    let both = model().read_with(&at(&["b"], &[])).unwrap();
    assert_eq!(shape_of(&both), (vec!["x".into(), "b".into()], vec!["y".into(), "z".into()], 3));
}

#[test]
fn an_input_without_a_stated_shape_takes_the_given_one() {
    let missing = model().read_with(&at(&["a"], &["z"])).unwrap_err();
    assert!(missing[0].message().contains("no shape"), "{missing:?}");
    let options =
        Options { input_shapes: [("a".to_owned(), vec![3, 5])].into(), ..at(&["a"], &["z"]) };
    let graph = model().read_with(&options).unwrap();
    assert_eq!(graph[graph.outputs()[0]].shape[..], [3, 5]);
}

#[test]
fn names_must_exist() {
    let problems = model().read_with(&at(&["c"], &["zz", "y"])).unwrap_err();
    let codes: Vec<_> = problems.iter().map(|p| (p.code(), p.class())).collect();
    assert_eq!(codes, [("Q0415", Class::Usage); 2]);
    assert!(problems[1].message().contains("no value \"zz\""), "{problems:?}");
    let constant =
        Model::new(13, &[2]).floats("w", &[2], &[1.0; 2]).node("Add", &["x", "w"], "y", vec![]);
    let problems = constant.read_with(&at(&["w"], &[])).unwrap_err();
    assert!(problems[0].message().contains("is a constant"), "{problems:?}");
}
