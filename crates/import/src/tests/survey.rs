//! What is found in models of which a part cannot be read, and inputs with values.

use super::build::{Model, value};
use crate::options::Options;
use crate::survey::{Survey, survey};
use quincunx_diag::Diagnostic;
use quincunx_tensor::DType;

fn look(model: &Model) -> Result<Survey, Vec<Diagnostic>> {
    survey(model.bytes().into(), &Options::default())
}

/// `x` to `a`, then an operator that nobody knows to `b`, then their sum `y`.
fn strange() -> Model {
    Model::new(13, &[2, 3])
        .node("Relu", &["x"], "a", vec![])
        .domain_node("ai.odd", "Strange", &["a"], &["b"], vec![])
        .node("Add", &["a", "b"], "y", vec![])
        .node("Neg", &["a"], "z", vec![])
        .output("z")
        .floats("w", &[4, 2], &[0.0; 8])
}

#[test]
fn what_is_unsupported_does_not_hide_the_rest() {
    let found = look(&strange()).unwrap();
    let unread: Vec<_> = found.unread.iter().map(|(name, &n)| (name.as_str(), n)).collect();
    assert_eq!(unread, [("Add", 1), ("ai.odd::Strange", 1)]);
    assert_eq!((found.graph.nodes().len(), found.parameters), (2, Some(8)));
    assert_eq!((found.problems.len(), found.problems[0].code()), (1, "Q0405"));
    assert_eq!(found.outputs_before, ["a"]);
    let advice = found.advice().unwrap();
    assert_eq!(advice.help_text(), Some("cut the model before it: --outputs a"));
    let cut = Options { outputs: found.outputs_before, ..Options::default() };
    assert_eq!(strange().read_with(&cut).unwrap().nodes().len(), 1);
}

#[test]
fn a_model_that_starts_with_what_is_unsupported_is_cut_behind_it() {
    let model = Model::new(13, &[2]).domain_node("ai.odd", "Strange", &["x"], &["a"], vec![]);
    let model = model.node("Relu", &["a"], "y", vec![]);
    let found = look(&model).unwrap();
    assert_eq!((found.outputs_before.len(), &found.inputs_after[..]), (0, &["a".to_owned()][..]));
    let shape = [("a".to_owned(), vec![2])].into();
    let cut = Options { inputs: found.inputs_after, input_shapes: shape, ..Options::default() };
    assert_eq!(model.read_with(&cut).unwrap().nodes().len(), 1);
}

#[test]
fn a_whole_model_has_no_advice() {
    let found = look(&Model::new(13, &[2]).node("Relu", &["x"], "y", vec![])).unwrap();
    assert!(found.advice().is_none() && found.unread.is_empty() && found.parameters.is_none());
    assert_eq!((&found.inputs[0].declared[..], found.inputs[0].dtype), ("[2]", DType::F32));
    assert_eq!(found.opsets.iter().find(|(name, _)| name.is_empty()).unwrap().1, 13);
}

/// A convolution of kernel 3 over an image whose extents are open or 1.
fn convolution(open: bool) -> Model {
    let extent = if open { -1 } else { 1 };
    Model::new(13, &[extent, 3, extent, extent]).floats("w", &[2, 3, 3, 3], &[0.0; 54]).node(
        "Conv",
        &["x", "w"],
        "y",
        vec![],
    )
}

#[test]
fn shapes_that_depend_on_open_extents_are_unknown() {
    let help = "--input-shape x=1x3x224x224; the inputs with open extents: x [?, 3, ?, ?]";
    let found = look(&convolution(true)).unwrap();
    assert_eq!(found.inputs[0].declared, "[?, 3, ?, ?]");
    assert!(found.advice().unwrap().help_text().unwrap().ends_with(help));
    let problems = convolution(true).read().unwrap_err();
    assert!(problems[0].help_text().unwrap().ends_with(help), "{}", problems[0]);
    let given = [("x".to_owned(), vec![1, 3, 5, 5])].into();
    let given = Options { input_shapes: given, ..Options::default() };
    assert!(survey(convolution(true).bytes().into(), &given).unwrap().advice().is_none());
    // Where nothing is open the model is wrong, and help about open extents would be too.
    let wrong = look(&convolution(false)).unwrap_err();
    assert_eq!((wrong[0].code(), wrong[0].help_text()), ("Q0306", None));
}

#[test]
fn malformed_models_are_errors() {
    let absent = Model::new(13, &[-1]).node("Add", &["x", "nowhere"], "y", vec![]);
    assert_eq!(look(&absent).unwrap_err()[0].code(), "Q0408");
    let cycle = Model::new(13, &[2]).node("Relu", &["y"], "y", vec![]);
    assert_eq!(look(&cycle).unwrap_err()[0].code(), "Q0410");
}

fn extents_of(model: &Model, name: &str, array: &[usize]) -> Vec<usize> {
    let shapes = [(name.to_owned(), array.to_vec())].into();
    let graph = model.read_with(&Options { data_shapes: shapes, ..Options::default() }).unwrap();
    graph[graph.inputs()[0]].shape.to_vec()
}

#[test]
fn open_extents_are_those_of_the_data() {
    let model = convolution(true);
    assert_eq!(extents_of(&model, "x", &[7, 3, 5, 6]), [1, 3, 5, 6]);
    assert_eq!(extents_of(&model, "x", &[7, 2, 3, 5, 6]), [2, 3, 5, 6]);
    // The only array is for the only input.
    assert_eq!(extents_of(&model, "image", &[7, 3, 5, 6]), [1, 3, 5, 6]);
    // What the user says counts more.
    let both = Options {
        data_shapes: [("x".to_owned(), vec![1, 3, 5, 6])].into(),
        input_shapes: [("x".to_owned(), vec![1, 3, 8, 8])].into(),
        ..Options::default()
    };
    let graph = model.read_with(&both).unwrap();
    assert_eq!(graph[graph.inputs()[0]].shape[..], [1, 3, 8, 8]);
}

/// `x` reshaped by the input `shape`.
fn reshaped() -> Model {
    let mut model = Model::new(13, &[2, 6]).node("Reshape", &["x", "shape"], "y", vec![]);
    model.graph().input.push(value("shape", DType::I64, &[2]));
    model
}

fn with_value(name: &str, numbers: &str) -> Result<Vec<usize>, Diagnostic> {
    let values = [(name.to_owned(), numbers.to_owned())].into();
    let options = Options { input_values: values, ..Options::default() };
    let graph = reshaped().read_with(&options).map_err(|mut problems| problems.remove(0))?;
    assert_eq!(graph.inputs().len(), 1);
    Ok(graph[graph.outputs()[0]].shape.to_vec())
}

#[test]
fn an_input_with_a_value_is_a_constant() {
    assert_eq!(reshaped().read().unwrap_err()[0].code(), "Q0416");
    assert_eq!(with_value("shape", "4, 3").unwrap(), [4, 3]);
    let mut model = reshaped();
    model.graph().input[1] = value("shape", DType::I64, &[1]);
    let values = [("shape".to_owned(), "12".to_owned())].into();
    let options = Options { input_values: values, ..Options::default() };
    let found = survey(model.bytes().into(), &options).unwrap();
    assert!(found.inputs[1].fixed && !found.inputs[0].fixed);
    for (name, numbers, expected) in [
        ("shape", "4,3,1", "takes 2 numbers, 3 are given"),
        ("shape", "4,x", "\"x\" is not what input \"shape\" (i64[2]) can hold"),
        ("shape", "4,2.5", "\"2.5\" is not"),
        ("shap", "4,3", "did you mean \"shape\"?"),
    ] {
        let problem = with_value(name, numbers).unwrap_err();
        assert!(problem.to_string().contains(expected), "{problem}");
        assert_eq!(problem.code(), "Q0415");
    }
}

#[test]
fn values_are_of_the_type_of_their_input() {
    let model = |dtype| {
        let model = Model::empty(21).input("x", dtype, &[2]).output("y");
        model.node("Identity", &["x"], "y", vec![])
    };
    let read = |dtype, numbers: &str| {
        let values = [("x".to_owned(), numbers.to_owned())].into();
        let options = Options { input_values: values, ..Options::default() };
        let graph = model(dtype).read_with(&options).ok()?;
        let constant = graph.values().find_map(|(_, value)| value.constant.clone())?;
        assert_eq!(constant.tensor.dtype(), dtype);
        Some(constant.tensor.to_f64())
    };
    assert_eq!(read(DType::U8, "255"), Some(vec![255.0; 2]));
    assert_eq!(read(DType::U8, "256"), None);
    assert_eq!(read(DType::F32, "0.5,-inf"), Some(vec![0.5, f64::NEG_INFINITY]));
    assert_eq!(read(DType::Bool, "true,0"), Some(vec![1.0, 0.0]));
    assert_eq!(read(DType::Bool, "2"), None);
}
