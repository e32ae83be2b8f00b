//! GraphDefs that nobody should have written, and what is said about them.

use super::proto::{
    AttrEntry, AttrValue, Dim, GraphDef, ListValue, NodeDef, TensorProto, TensorShapeProto,
};
use super::{read_graph_def, supported_tensorflow_operators};
use crate::options::Options;
use crate::survey::survey;
use bytes::Bytes;
use proptest::prelude::*;
use prost::Message;
use quincunx_diag::{Class, Diagnostic};
use quincunx_graph::Graph;
use quincunx_testkit::within_seconds;

type Outcome = Result<Graph, Vec<Diagnostic>>;

fn read(bytes: Vec<u8>) -> Outcome {
    // A look at the file goes other ways.
    drop(survey(bytes.clone().into(), &Options::default()));
    read_graph_def(bytes.into(), &Options::default())
}

/// A graph under construction.
#[derive(Clone, Default)]
struct Model(GraphDef);

impl Model {
    /// A graph with the float placeholder `x`.
    fn new(shape: &[i64]) -> Self {
        Model::default().placeholder("x", 1, shape)
    }

    fn placeholder(self, name: &str, dtype: i32, extents: &[i64]) -> Self {
        let shape = AttrValue { shape: Some(Box::new(shape(extents))), ..AttrValue::default() };
        self.node("Placeholder", name, &[], vec![("dtype", kind(dtype)), ("shape", shape)])
    }

    fn constant(self, name: &str, tensor: TensorProto) -> Self {
        let dtype = kind(tensor.dtype);
        let value = AttrValue { tensor: Some(Box::new(tensor)), ..AttrValue::default() };
        self.node("Const", name, &[], vec![("dtype", dtype), ("value", value)])
    }

    fn ints(self, name: &str, values: &[i32]) -> Self {
        let tensor = TensorProto {
            dtype: 3,
            tensor_shape: Some(shape(&[values.len() as i64])),
            int_val: values.to_vec(),
            ..TensorProto::default()
        };
        self.constant(name, tensor)
    }

    fn floats(self, name: &str, extents: &[i64], value: f32) -> Self {
        let tensor = TensorProto {
            dtype: 1,
            tensor_shape: Some(shape(extents)),
            float_val: vec![value],
            ..TensorProto::default()
        };
        self.constant(name, tensor)
    }

    fn node(
        mut self,
        op: &str,
        name: &str,
        inputs: &[&str],
        attributes: Vec<(&str, AttrValue)>,
    ) -> Self {
        let entry =
            |(key, value): (&str, AttrValue)| AttrEntry { key: key.to_owned(), value: Some(value) };
        self.0.node.push(NodeDef {
            name: name.to_owned(),
            op: op.to_owned(),
            input: inputs.iter().map(|&input| input.to_owned()).collect(),
            attr: attributes.into_iter().map(entry).collect(),
        });
        self
    }

    fn read(&self) -> Outcome {
        let graph = read(self.0.encode_to_vec())?;
        assert_eq!(graph.verify(), []);
        Ok(graph)
    }

    /// The only problem of the model.
    fn problem(&self) -> Diagnostic {
        let mut problems = self.read().unwrap_err();
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems.remove(0)
    }
}

fn shape(extents: &[i64]) -> TensorShapeProto {
    let dim = extents.iter().map(|&size| Dim { size }).collect();
    TensorShapeProto { dim, unknown_rank: false }
}

fn kind(code: i32) -> AttrValue {
    AttrValue { r#type: Some(code), ..AttrValue::default() }
}

fn number(i: i64) -> AttrValue {
    AttrValue { i: Some(i), ..AttrValue::default() }
}

fn text(s: &'static str) -> AttrValue {
    AttrValue { s: Some(Bytes::from_static(s.as_bytes())), ..AttrValue::default() }
}

fn list(i: &[i64]) -> AttrValue {
    let list = ListValue { i: i.to_vec(), ..ListValue::default() };
    AttrValue { list: Some(Box::new(list)), ..AttrValue::default() }
}

#[test]
fn no_graph_def_at_all() {
    for bytes in [&b""[..], b"\x00", b"text", b"\x93NUMPY\x01\x00", &[0xff; 64], b"\x0a\x00"] {
        let problems = read(bytes.to_vec()).unwrap_err();
        assert_eq!((problems[0].code(), problems[0].class()), ("Q0401", Class::Invalid));
    }
}

#[test]
fn a_saved_model_is_named() {
    let graph = Model::new(&[1]).node("Relu", "y", &["x"], vec![]).0.encode_to_vec();
    let wrap = |number: u8, payload: &[u8]| {
        [
            &[number << 3 | 2, (payload.len() & 0x7f) as u8 | 0x80, (payload.len() >> 7) as u8],
            payload,
        ]
        .concat()
    };
    let file = [&[8, 1][..], &wrap(2, &wrap(2, &graph))].concat();
    let problems = crate::read_model(file.into(), &Options::default()).unwrap_err();
    assert_eq!(problems[0].code(), "Q0403");
    assert!(problems[0].help_text().unwrap().contains("freeze"));
}

#[test]
fn everything_that_is_not_supported_is_said_at_once() {
    let model = Model::new(&[2, 3])
        .node("Relo", "a", &["x"], vec![])
        .node("ReadVariableOp", "b", &["a"], vec![])
        .node("While", "c", &["b"], vec![])
        .node("Cumsum", "d", &["x", "c"], vec![]);
    let problems = model.read().unwrap_err();
    assert_eq!(problems.len(), 4);
    assert!(problems.iter().all(|p| (p.code(), p.class()) == ("Q0405", Class::Unsupported)));
    let help: Vec<&str> = problems.iter().map(|p| p.help_text().unwrap()).collect();
    assert!(help[0].contains("Relu") && help[1].contains("frozen") && help[2].contains("loops"));
    assert!(help[3].contains("Conv2D"));
    assert!(problems[0].to_string().contains("f32[2, 3]"), "{}", problems[0]);
}

#[test]
fn loops_are_named_by_their_operators() {
    let model = Model::new(&[2])
        .node("Merge", "m", &["x", "n"], vec![])
        .node("NextIteration", "n", &["m"], vec![])
        .node("Exit", "y", &["m"], vec![]);
    let problems = model.read().unwrap_err();
    assert_eq!(problems.iter().map(|p| p.code()).collect::<Vec<_>>(), ["Q0405"; 3]);
    let model =
        Model::new(&[2]).node("Relu", "a", &["b"], vec![]).node("Relu", "b", &["a"], vec![]);
    // Every result is read, so that nothing would be an output.
    assert_eq!(model.problem().code(), "Q0417");
    let model = model.node("Abs", "y", &["a"], vec![]);
    assert_eq!(model.problem().code(), "Q0410");
}

#[test]
fn wrong_graphs_have_one_diagnostic_each() {
    let base = || Model::new(&[1, 4, 4, 3]);
    let conv = |strides: &[i64], padding| {
        base().floats("w", &[3, 3, 3, 2], 1.0).node(
            "Conv2D",
            "y",
            &["x", "w"],
            vec![("strides", list(strides)), ("padding", text(padding))],
        )
    };
    let relu = |inputs: &[&str]| base().node("Relu", "y", inputs, vec![]);
    let cases: Vec<(Model, &str)> = vec![
        (relu(&["z"]), "Q0408"),
        (relu(&["x", "x"]), "Q0408"),
        (relu(&["x:1"]), "Q0406"),
        (relu(&["x"]).node("Relu", "y", &["x"], vec![]), "Q0409"),
        (base().node("Relu", "a:b", &["x"], vec![]), "Q0409"),
        (conv(&[1, 0, 1, 1], "SAME"), "Q0407"),
        (conv(&[1, 1], "SAME"), "Q0407"),
        (conv(&[2, 1, 1, 1], "SAME"), "Q0406"),
        (conv(&[1, 1, 1, 1], "ODD"), "Q0407"),
        (base().node("Conv2D", "y", &["x", "x"], vec![("padding", text("VALID"))]), "Q0407"),
        (base().node("FusedBatchNorm", "y", &["x", "x", "x", "x", "x"], vec![]), "Q0406"),
        (base().node("Reshape", "y", &["x", "x"], vec![]), "Q0416"),
        (base().ints("s", &[5]).node("Reshape", "y", &["x", "s"], vec![]), "Q0306"),
        (base().ints("s", &[9]).node("Mean", "y", &["x", "s"], vec![]), "Q0407"),
        (base().node("Relu", "y", &["x"], vec![("T", kind(19))]), "Q0412"),
        (base().node("Cast", "y", &["x"], vec![("DstT", kind(7))]), "Q0406"),
        (base().node("Unpack", "y", &["x"], vec![("num", number(9))]), "Q0407"),
        (Model::default().placeholder("x", 7, &[1]).node("Relu", "y", &["x"], vec![]), "Q0414"),
        (base().placeholder("z", 1, &[-5]).node("Add", "y", &["x", "z"], vec![]), "Q0414"),
    ];
    for (index, (model, code)) in cases.iter().enumerate() {
        let problem = model.problem();
        assert_eq!(problem.code(), *code, "case {index}: {problem}");
        assert_ne!(problem.class(), Class::Bug, "case {index}");
    }
}

/// Blocks of many channels of a tensor without elements.
#[test]
fn blocks_of_too_many_channels() {
    for operator in ["SpaceToDepth", "DepthToSpace"] {
        let block = vec![("T", kind(1)), ("block_size", number(1 << 16))];
        let model = Model::new(&[1, 0, 0, 1 << 40]).node(operator, "y", &["x"], block);
        assert!(model.read().is_err(), "{operator}");
    }
}

#[test]
fn short_lists_of_elements_repeat_the_last_one() {
    let tensor = TensorProto {
        dtype: 3,
        tensor_shape: Some(shape(&[2, 2])),
        int_val: vec![1, 2],
        ..TensorProto::default()
    };
    let read = |tensor: TensorProto| {
        let graph =
            Model::default().constant("c", tensor).node("Abs", "y", &["c"], vec![]).read()?;
        let id = graph.outputs()[0];
        Ok::<_, Vec<Diagnostic>>(graph.values().find_map(|(_, v)| v.constant.clone()).map_or_else(
            || panic!("{} is not a constant", graph[id].name),
            |constant| constant.tensor.to_i64().unwrap(),
        ))
    };
    assert_eq!(read(tensor.clone()).unwrap(), [1, 2, 2, 2]);
    assert_eq!(read(TensorProto { int_val: vec![], ..tensor.clone() }).unwrap(), [0; 4]);
    assert!(read(TensorProto { int_val: vec![1; 5], ..tensor.clone() }).is_err());
    let content = Bytes::from_static(&[0; 12]);
    assert!(read(TensorProto { tensor_content: content, ..tensor }).is_err());
}

#[test]
fn small_files_cannot_ask_for_much_memory() {
    // One number that stands for 2^36, many that stand for 2^22 each, and copies of one.
    let huge = Model::new(&[1]).floats("w", &[1 << 36], 1.0).node("Add", "y", &["x", "w"], vec![]);
    assert_eq!(within_seconds(5, || huge.problem()).code(), "Q0402");
    let mut many = Model::new(&[1]);
    for index in 0..100 {
        many = many.floats(&format!("w{index}"), &[1 << 22], 1.0);
        let (w, y) = (format!("w{index}"), format!("y{index}"));
        many = many.node("Add", &y, &["x", &w], vec![]);
    }
    assert!(within_seconds(5, || many.read()).unwrap_err().len() > 90);
    let mut copies = Model::new(&[1, 64, 64, 64]).floats("w", &[32, 32, 64, 64], 1.0);
    for index in 0..100 {
        let attributes = vec![("strides", list(&[1, 1, 1, 1])), ("padding", text("VALID"))];
        copies = copies.node("Conv2D", &format!("y{index}"), &["x", "w"], attributes);
    }
    // All share one copy.
    assert!(within_seconds(5, || copies.read()).is_ok());
    let fill = Model::default().ints("s", &[1 << 30, 1 << 9]).floats("v", &[], 1.0).node(
        "Fill",
        "y",
        &["s", "v"],
        vec![],
    );
    assert!(within_seconds(5, || fill.read()).is_ok());
    let resize = Model::new(&[1, 2, 2, 1]).ints("s", &[1 << 30, 1 << 30]).node(
        "ResizeNearestNeighbor",
        "y",
        &["x", "s"],
        vec![],
    );
    assert_eq!(within_seconds(5, || resize.problem()).code(), "Q0406");
}

#[test]
fn long_chains_and_wide_nodes_import_quickly() {
    let mut model = Model::new(&[2]);
    for index in 0..100_000 {
        let from = if index == 0 { "x".to_owned() } else { format!("v{}", index - 1) };
        model = model.node("Relu", &format!("v{index}"), &[&from], vec![]);
    }
    model.0.node.reverse();
    assert_eq!(within_seconds(5, || model.read().unwrap()).nodes().len(), 100_000);
    let wide = Model::new(&[2]).node("AddN", "y", &vec!["x"; 50_000], vec![]);
    assert_eq!(within_seconds(5, || wide.read().unwrap()).nodes().len(), 49_999);
    let split = Model::new(&[1 << 16]).ints("axis", &[0]).node(
        "Split",
        "y",
        &["axis", "x"],
        vec![("num_split", number(1 << 16))],
    );
    assert_eq!(within_seconds(5, || split.read().unwrap()).outputs().len(), 1 << 16);
    let mut splits = Model::new(&[1 << 16]).ints("axis", &[0]);
    for index in 0..1000 {
        let count = vec![("num_split", number(1 << 16))];
        splits = splits.node("Split", &format!("y{index}"), &["axis", "x"], count);
    }
    assert!(within_seconds(5, || splits.read()).is_err());
}

#[test]
fn deep_nesting_is_skipped_or_refused() {
    // Function attributes nest in themselves; they are not decoded.
    let mut value = vec![];
    for _ in 0..2000 {
        let length = value.len() + 4;
        if length > 100 {
            break;
        }
        value = [&[0x52, length as u8 - 2, 0x12, value.len() as u8][..], &value].concat();
    }
    let mut bytes = Model::new(&[1]).node("Relu", "y", &["x"], vec![]).0.encode_to_vec();
    bytes.extend([&[0x12, value.len() as u8][..], &value].concat());
    assert!(read(bytes).is_ok());
    assert!(read(vec![0x0b; 10_000]).is_err());
}

/// Real files of many operators.
fn files() -> Vec<Vec<u8>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/graphdef");
    let names = ["stored", "slices", "shapes", "dilated", "fake_quant", "fused", "ports", "conv"];
    names.map(|name| std::fs::read(folder.join(format!("{name}.pb"))).unwrap()).into()
}

fn acceptable(outcome: &Outcome) -> bool {
    match outcome {
        Ok(graph) => graph.verify().is_empty(),
        Err(problems) => !problems.is_empty() && problems.iter().all(|p| p.class() != Class::Bug),
    }
}

#[test]
fn every_truncation_is_a_diagnostic_or_a_graph() {
    let file = Model::new(&[1, 4, 4, 3])
        .floats("w", &[3, 3, 3, 2], 1.0)
        .node("Conv2D", "c", &["x", "w"], vec![("padding", text("SAME"))])
        .node("Relu", "y", &["c", "^w"], vec![])
        .0
        .encode_to_vec();
    assert!(read(file.clone()).is_ok());
    for length in 0..file.len() {
        assert!(acceptable(&read(file[..length].to_vec())), "{length} bytes");
    }
}

/// Every operator with operands of every rank: nothing may panic.
#[test]
fn every_operator_survives_any_operand() {
    for operator in supported_tensorflow_operators() {
        for rank in 0..6 {
            for count in 0..7 {
                let model = Model::new(&[2, 4, 4, 2, 3][..rank.min(5)])
                    .ints("i", &[1, 2, 0, -1][..rank.min(4)])
                    .floats("w", &[2, 2, 2, 2, 2][..rank.min(5)], 0.5);
                for inputs in [
                    ["x"; 6],
                    ["w"; 6],
                    ["x", "i", "i", "i", "i", "i"],
                    ["i", "x", "w", "i", "x", "w"],
                ] {
                    let model = model.clone().node(operator, "y", &inputs[..count], vec![]);
                    let outcome = model.read();
                    assert!(acceptable(&outcome), "{operator} {rank} {inputs:?}: {outcome:?}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let node = [&[0x0a, bytes.len() as u8 & 0x7f][..], &bytes].concat();
        for file in [bytes, node] {
            let outcome = read(file);
            prop_assert!(acceptable(&outcome), "{:?}", outcome);
        }
    }

    #[test]
    fn damaged_files_never_panic(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let files = files();
        let mut file = which.get(&files).clone();
        for (index, byte) in changes {
            let at = index.index(file.len());
            file[at] = byte;
        }
        let outcome = read(file);
        prop_assert!(acceptable(&outcome), "{:?}", outcome);
    }

    /// Small numbers in the file are axes, masks and extents: changing only these goes deeper.
    #[test]
    fn other_numbers_never_panic(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0_u8..12), 1..6),
    ) {
        let files = files();
        let mut file = which.get(&files).clone();
        let small: Vec<usize> = (0..file.len()).filter(|&at| file[at] < 10).collect();
        for (index, byte) in changes {
            file[*index.get(&small)] = byte;
        }
        let outcome = read(file);
        prop_assert!(acceptable(&outcome), "{:?}", outcome);
    }
}

#[test]
fn what_is_unsupported_does_not_hide_the_rest() {
    let kinds = || vec![("T", kind(1))];
    let model = Model::new(&[-1, 3])
        .node("Relu", "a", &["x"], kinds())
        .node("Strange", "b", &["a"], kinds())
        .node("AddV2", "y", &["a", "b"], kinds());
    let found = survey(model.0.encode_to_vec().into(), &Options::default()).unwrap();
    assert_eq!(
        found.unread.into_iter().collect::<Vec<_>>(),
        [("AddV2".to_owned(), 1), ("Strange".to_owned(), 1)]
    );
    assert_eq!(found.outputs_before, ["a"]);
    assert_eq!(found.inputs[0].declared, "[?, 3]");
    let cut = Options { outputs: found.outputs_before, ..Options::default() };
    assert_eq!(read_graph_def(model.0.encode_to_vec().into(), &cut).unwrap().nodes().len(), 1);
}

#[test]
fn an_input_with_a_value_is_a_constant() {
    let model = Model::new(&[2, 6]).placeholder("to", 3, &[2]);
    let model = model.node("Reshape", "y", &["x", "to"], vec![("T", kind(1)), ("Tshape", kind(3))]);
    let values = [("to".to_owned(), "4,3".to_owned())].into();
    let options = Options { input_values: values, ..Options::default() };
    let graph = read_graph_def(model.0.encode_to_vec().into(), &options).unwrap();
    assert_eq!((graph.inputs().len(), &graph[graph.outputs()[0]].shape[..]), (1, &[4, 3][..]));
}

#[test]
fn inner_values_cannot_become_inputs() {
    let model = Model::new(&[1]).node("Relu", "h", &["x"], vec![]).node("Abs", "y", &["h"], vec![]);
    let options = Options { inputs: vec!["h".to_owned()], ..Options::default() };
    let problems = read_graph_def(model.0.encode_to_vec().into(), &options).unwrap_err();
    assert_eq!((problems[0].code(), problems[0].class()), ("Q0419", Class::Usage));
}

#[test]
fn long_lists_are_not_shown() {
    let mut model = Model::new(&[1, 8]).ints("b", &[i32::MIN; 65_536]);
    for index in 0..600 {
        let name = format!("s{index}");
        model = model.node("Slice", &name, &["x", "b", "b"], vec![("T", kind(1))]);
    }
    let problems = model.read().unwrap_err();
    let shown: usize = problems.iter().map(|problem| problem.to_string().len()).sum();
    assert!(shown < 1_000_000, "{shown}");
}

#[test]
fn many_results_of_a_node_with_a_long_name() {
    let split = vec![("T", kind(1)), ("num_split", number(20_000))];
    let name = "n".repeat(100_000);
    let model =
        Model::new(&[1, 20_000]).ints("axis", &[1]).node("Split", &name, &["axis", "x"], split);
    assert_eq!(model.problem().code(), "Q0402");
    // Where something reads the first result the others are not outputs.
    let model = model.node("Relu", "y", &[&name], vec![("T", kind(1))]);
    let graph = model.read().unwrap();
    let names: usize = graph.values().map(|(_, value)| value.name.len()).sum();
    assert!(names < 5_000_000, "{names}");
}

#[test]
fn many_unknown_operators() {
    let mut model = Model::default();
    for index in 0..100_000 {
        model = model.node("Nothimgness", &format!("n{index}"), &[], vec![]);
    }
    let problems = within_seconds(5, || model.read().unwrap_err());
    assert!(problems.len() < 1000);
}
