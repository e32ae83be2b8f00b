//! Inputs, outputs, symbols and names.

use super::build::{Model, value};
use crate::options::Options;
use crate::proto::{
    DimensionProto, OpsetProto, ShapeProto, TensorTypeProto, TypeProto, ValueProto,
};
use quincunx_diag::Class;
use quincunx_graph::Graph;
use quincunx_tensor::DType;

/// An input with these extents; numbers are fixed, `?` is unknown, the rest are symbols.
fn symbolic(name: &str, dims: &[&str]) -> ValueProto {
    let dim = |text: &&str| match text.parse() {
        Ok(extent) => DimensionProto { dim_value: Some(extent), dim_param: None },
        Err(_) if *text == "?" => DimensionProto::default(),
        Err(_) => DimensionProto { dim_value: None, dim_param: Some((*text).to_owned()) },
    };
    let shape = Some(ShapeProto { dim: dims.iter().map(dim).collect() });
    let tensor = Some(TensorTypeProto { elem_type: Some(1), shape });
    ValueProto { name: Some(name.to_owned()), r#type: Some(TypeProto { tensor }) }
}

/// Two inputs, each with a `Relu` to an output.
fn two(a: &[&str], b: &[&str]) -> Model {
    let mut model = Model::empty(13)
        .node("Relu", &["a"], "y", vec![])
        .node("Relu", &["b"], "z", vec![])
        .output("y")
        .output("z");
    model.graph().input = vec![symbolic("a", a), symbolic("b", b)];
    model
}

fn shapes(graph: &Graph) -> Vec<Vec<usize>> {
    graph.inputs().iter().map(|&id| graph[id].shape.to_vec()).collect()
}

fn bind(pairs: &[(&str, usize)]) -> Options {
    let bindings = pairs.iter().map(|(name, extent)| ((*name).to_owned(), *extent)).collect();
    Options { bindings, ..Options::default() }
}

fn reshape(name: &str, shape: &[usize]) -> Options {
    Options { input_shapes: [(name.to_owned(), shape.to_vec())].into(), ..Options::default() }
}

#[test]
fn symbols_are_kept_and_bound() {
    let model = two(&["N", "3"], &["N", "?"]);
    let graph = model.read().unwrap();
    assert_eq!(shapes(&graph), [[1, 3], [1, 1]]);
    assert_eq!(graph[graph.inputs()[1]].symbols, [Some("N".to_owned()), Some("b:1".to_owned())]);
    let bound = model.read_with(&bind(&[("N", 4), ("b:1", 5)])).unwrap();
    assert_eq!(shapes(&bound), [[4, 3], [4, 5]]);
    // A shape given for one input binds its symbols everywhere.
    let given = model.read_with(&reshape("a", &[6, 2])).unwrap();
    assert_eq!(shapes(&given), [[6, 2], [6, 1]]);
}

#[test]
fn options_that_name_nothing() {
    let model = two(&["batch", "3"], &["batch"]);
    for (options, help) in [
        (bind(&[("batc", 2)]), "did you mean \"batch\"?"),
        (reshape("aa", &[1, 3]), "did you mean \"a\"?"),
        (reshape("image", &[1, 3]), "the model has: a, b"),
    ] {
        let problems = model.read_with(&options).unwrap_err();
        assert_eq!((problems[0].code(), problems[0].class()), ("Q0415", Class::Usage));
        assert_eq!(problems[0].help_text(), Some(help));
    }
    let rank = model.read_with(&reshape("a", &[1])).unwrap_err();
    assert!(rank[0].message().contains("2 axes, the given shape [1] has 1"));
    let conflict = Options { bindings: bind(&[("batch", 2)]).bindings, ..reshape("a", &[3, 3]) };
    let conflict = model.read_with(&conflict).unwrap_err();
    assert!(conflict[0].message().contains("given as 2 and as 3"), "{conflict:?}");
}

#[test]
fn malformed_inputs() {
    for (input, class) in [
        (symbolic("a", &["-2"]), Class::Invalid),
        (symbolic("a", &["9223372036854775807"]), Class::Invalid),
        (symbolic("a", &["1000000000", "1000000000"]), Class::Invalid),
        (symbolic("a", &["1"; 100]), Class::Invalid),
        (symbolic("", &["1"]), Class::Invalid),
        (ValueProto { r#type: None, ..symbolic("a", &[]) }, Class::Unsupported),
    ] {
        let mut model = two(&["1"], &["1"]);
        model.graph().input[0] = input;
        assert_eq!(model.read().unwrap_err()[0].class(), class);
    }
    let mut half = two(&["1"], &["1"]);
    half.graph().input[0].r#type.as_mut().unwrap().tensor.as_mut().unwrap().elem_type = Some(8);
    assert_eq!(half.problem().class(), Class::Unsupported);
}

#[test]
fn a_given_shape_replaces_a_missing_one() {
    let mut model = two(&["1"], &["-5"]);
    model.graph().input[0].r#type.as_mut().unwrap().tensor.as_mut().unwrap().shape = None;
    assert_eq!(model.read().unwrap_err().len(), 2);
    let options = Options {
        input_shapes: [("a".to_owned(), vec![2, 3]), ("b".to_owned(), vec![4])].into(),
        ..Options::default()
    };
    assert_eq!(shapes(&model.read_with(&options).unwrap()), [vec![2, 3], vec![4]]);
}

#[test]
fn initialisers_among_inputs_are_constants() {
    let model = Model::new(13, &[2])
        .input("w", DType::F32, &[2])
        .floats("w", &[2], &[1.0, 2.0])
        .node("Add", &["x", "w"], "y", vec![]);
    let graph = model.read().unwrap();
    assert_eq!(graph.inputs().len(), 1);
    assert!(graph[graph.value_named("w").unwrap()].constant.is_some());
}

#[test]
fn names_must_be_unique() {
    let relu = |output| Model::new(13, &[2]).node("Relu", &["x"], output, vec![]);
    for model in [
        relu("y").node("Neg", &["x"], "y", vec![]),
        relu("x"),
        relu("y").domain_node("", "Relu", &["x"], &["a", "a"], vec![]),
        relu("y").input("x", DType::F32, &[2]),
        relu("y").floats("w", &[1], &[1.0]).floats("w", &[1], &[1.0]),
    ] {
        let problems = model.read().unwrap_err();
        assert_eq!(
            (problems[0].code(), problems[0].class()),
            ("Q0409", Class::Invalid),
            "{problems:?}"
        );
    }
}

#[test]
fn cycles_name_a_node() {
    let model = Model::new(13, &[2])
        .node("Add", &["x", "b"], "a", vec![])
        .node("Relu", &["a"], "b", vec![])
        .node("Neg", &["b"], "y", vec![]);
    let problem = model.read().unwrap_err().remove(0);
    assert_eq!(problem.code(), "Q0410");
    let place = problem.place().unwrap().to_string();
    assert!(place.contains("a_node") || place.contains("b_node"), "{place}");
    let own = Model::new(13, &[2]).node("Relu", &["y"], "y", vec![]);
    assert!(own.read().unwrap_err()[0].place().unwrap().to_string().contains("y_node"));
}

#[test]
fn outputs() {
    let nothing = Model::new(13, &[2]).output("z").node("Relu", &["x"], "y", vec![]);
    assert_eq!(nothing.problem().code(), "Q0417");
    let none = Model::empty(13).input("x", DType::F32, &[1]);
    assert_eq!(none.problem().code(), "Q0417");
    let direct = Model::empty(13)
        .input("x", DType::F32, &[1])
        .floats("w", &[1], &[1.0])
        .output("x")
        .output("w");
    assert_eq!(direct.read().unwrap().outputs().len(), 2);
}

#[test]
fn opsets() {
    let model = |opsets: &[(&str, i64)]| {
        let mut model = Model::new(13, &[2]).node("Relu", &["x"], "y", vec![]);
        let opset = |(domain, version): &(&str, i64)| OpsetProto {
            domain: Some((*domain).to_owned()),
            version: Some(*version),
        };
        model.0.opset_import = opsets.iter().map(opset).collect();
        model
    };
    assert!(model(&[("ai.onnx", 23)]).read().is_ok());
    assert!(model(&[("", 7), ("ai.onnx.ml", 3)]).read().is_ok());
    assert_eq!(model(&[]).problem().class(), Class::Invalid);
    assert_eq!(model(&[("", 0)]).problem().class(), Class::Invalid);
    assert_eq!(model(&[("", 1000)]).problem().class(), Class::Unsupported);
}

#[test]
fn types_in_the_file_describe_what_could_not_be_computed() {
    let mut model = Model::new(13, &[2]).node("Unique", &["x"], "a", vec![]).node(
        "Softmin",
        &["a"],
        "y",
        vec![],
    );
    model.graph().value_info.push(value("a", DType::F32, &[7, 8]));
    let problems = model.read().unwrap_err();
    assert!(problems[1].place().unwrap().to_string().contains("f32[7, 8]"), "{problems:?}");
}
