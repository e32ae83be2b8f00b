//! Files that nobody should have written.

use super::build::{Model, int, ints, value};
use crate::options::Options;
use crate::proto::DimensionProto;
use crate::{ExportOptions, read_onnx, write_onnx};
use proptest::prelude::*;
use quincunx_diag::Class;
use quincunx_tensor::DType;
use quincunx_testkit::within_seconds;

fn read(bytes: &[u8]) -> Result<quincunx_graph::Graph, Vec<quincunx_diag::Diagnostic>> {
    // A look at the file goes other ways.
    drop(crate::survey(bytes.to_vec().into(), &Options::default()));
    read_onnx(bytes.to_vec().into(), &Options::default())
}

#[test]
fn no_model_at_all() {
    for bytes in [&b""[..], b"\x00", b"not a model", b"\x93NUMPY\x01\x00", &[0xff; 64], b"\x3a\x00"]
    {
        let problems = read(bytes).unwrap_err();
        assert!(problems.iter().all(|p| p.class() == Class::Invalid), "{problems:?}");
    }
}

#[test]
fn lengths_that_lie() {
    // A graph that claims 2^31 bytes, and a node list that does.
    for bytes in
        [&b"\x3a\xff\xff\xff\xff\x07\x0a\x00"[..], b"\x3a\x08\x0a\xff\xff\xff\xff\x07\x00\x00"]
    {
        assert_eq!(read(bytes).unwrap_err()[0].code(), "Q0401");
    }
}

#[test]
fn deep_nesting_is_skipped_or_refused() {
    // Attribute subgraphs, 10,000 deep: field 5 of a node, field 6 of an attribute, field 1 of a graph.
    let mut bytes = Vec::new();
    for depth in 0..30_000 {
        let tag = [0x0a_u8, 0x2a, 0x32][depth % 3];
        let mut wrapped = vec![tag];
        let mut length = bytes.len();
        while length >= 0x80 {
            wrapped.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        wrapped.push(length as u8);
        wrapped.append(&mut bytes);
        bytes = wrapped;
        if bytes.len() > 20_000 {
            break;
        }
    }
    let mut file = vec![0x3a];
    let length = bytes.len();
    file.extend([
        (length & 0x7f) as u8 | 0x80,
        (length >> 7 & 0x7f) as u8 | 0x80,
        (length >> 14) as u8,
    ]);
    file.extend(bytes);
    assert!(read(&file).is_err());
    // Groups are the one form that nests in skipped fields.
    assert!(read(&[0x0b; 10_000]).is_err());
}

#[test]
fn a_long_chain_imports_quickly() {
    let mut model = Model::empty(13).input("v0", DType::F32, &[2]);
    for index in 0..100_000 {
        let (from, to) = (format!("v{index}"), format!("v{}", index + 1));
        model = model.node("Relu", &[&from], &to, vec![]);
        model.graph().node[index].name = Some("same".to_owned());
    }
    model.graph().node.reverse();
    let bytes = model.output("v100000").bytes();
    let graph = within_seconds(10, || read(&bytes).unwrap());
    assert_eq!(graph.nodes().len(), 100_000);
    let file = within_seconds(10, || write_onnx(&graph, &ExportOptions::default()).unwrap());
    assert!(!file.is_empty());
}

#[test]
fn a_node_with_a_million_inputs() {
    let inputs = vec!["x"; 1_000_000];
    let problem =
        within_seconds(10, || Model::new(13, &[2]).node("Relu", &inputs, "y", vec![]).problem());
    assert!(problem.message().contains("found 1000000"));
    let mut model = Model::new(13, &[2]).node("Max", &inputs[..50_000], "y", vec![]);
    model.graph().node[0].name = Some("long".repeat(10_000));
    assert_eq!(within_seconds(10, || model.read().unwrap()).nodes().len(), 49_999);
    let problem = Model::new(13, &[2]).node("Max", &inputs, "y", vec![]).problem();
    assert_eq!((problem.code(), problem.class()), ("Q0402", Class::Unsupported));
}

#[test]
fn many_problems_are_counted() {
    let mut model = Model::new(13, &[2]);
    for index in 0..20_000 {
        model = model.node("Nothing", &["x"], &format!("v{index}"), vec![]);
    }
    let problems = within_seconds(10, || model.output("v0").read().unwrap_err());
    assert!(problems.len() < 1000);
    assert_eq!(problems.last().unwrap().code(), "Q0101");
}

#[test]
fn many_readers_of_one_value() {
    let mut model =
        Model::new(13, &[2]).node("Constant", &[], "c", vec![ints("value_ints", &[1; 1000])]);
    model = model.node("Identity", &["c"], "i0", vec![]);
    for index in 0..20_000 {
        let (from, to) = (format!("i{index}"), format!("i{}", index + 1));
        model = model.node("Identity", &[&from], &to, vec![]);
        // Each asks for the constant behind a growing chain.
        model = model.node("Reshape", &["x", &to], &format!("r{index}"), vec![]);
    }
    within_seconds(10, || assert!(model.read().is_err()));
}

#[test]
fn huge_windows_and_shapes() {
    let pool = |attributes| {
        Model::new(13, &[1, 1, 1 << 20, 1 << 19]).node("MaxPool", &["x"], "y", attributes)
    };
    for attributes in [
        vec![ints("kernel_shape", &[1 << 31, 1 << 31])],
        vec![ints("kernel_shape", &[1 << 31, 1]), ints("dilations", &[1 << 31, 1])],
        vec![ints("kernel_shape", &[1 << 31, 1]), ints("pads", &[1 << 31, 0, 1 << 31, 0])],
        vec![
            ints("kernel_shape", &[2, 2]),
            ints("strides", &[1 << 31, 1 << 31]),
            int("ceil_mode", 1),
        ],
    ] {
        within_seconds(5, || drop(pool(attributes).read()));
    }
    let product = Model::empty(13)
        .input("a", DType::F32, &[1 << 20, 1])
        .input("b", DType::F32, &[1, 1 << 21])
        .output("y")
        .node("MatMul", &["a", "b"], "y", vec![]);
    assert_eq!(product.problem().code(), "Q0304");
}

#[test]
fn one_long_name_in_many_messages() {
    let mut model = Model::new(13, &[2]);
    let mut declared = value("u", DType::F32, &[1]);
    let shape = declared.r#type.as_mut().unwrap().tensor.as_mut().unwrap().shape.as_mut().unwrap();
    shape.dim[0] = DimensionProto { dim_value: None, dim_param: Some("s".repeat(100_000)) };
    model.graph().value_info.push(declared);
    for index in 0..600 {
        model = model.node("Nothing", &["u"; 8], &format!("v{index}"), vec![]);
    }
    let problems = model.read().unwrap_err();
    let shown: usize = problems.iter().map(|problem| problem.to_string().len()).sum();
    assert!(shown < 1_000_000, "{shown}");
}

#[test]
fn many_domains_and_symbols() {
    let mut model = Model::new(13, &[2]).longs("c", &[1]).node("Relu", &["x"], "y", vec![]);
    let first = model.0.opset_import[0].clone();
    model.0.opset_import = vec![first; 200_000];
    for index in 0..20_000 {
        model = model.node("Add", &["c", "c"], &format!("v{index}"), vec![]);
    }
    within_seconds(5, || model.read().unwrap());
    let mut model = Model::empty(13).output("y").node("Shape", &["i0"], "y", vec![]);
    for index in 0..4000 {
        let name = format!("i{index}");
        model = model.input(&name, DType::F32, &[-1]).node(
            "Relu",
            &[&name],
            &format!("r{index}"),
            vec![],
        );
    }
    let graph = within_seconds(5, || model.read().unwrap());
    assert!(graph.inputs().iter().all(|&id| graph[id].symbols == [None]));
}

#[test]
fn constants_that_are_quantised_again_and_again() {
    let scales = vec![0.5; 100_000];
    let mut model =
        Model::new(13, &[2]).floats("w", &[100_000], &scales).floats("s", &[100_000], &scales);
    model = model.floats("z", &[], &[0.0]).floats("bits", &[], &[4.0]);
    for index in 0..300 {
        let output = format!("q{index}");
        let operands = ["w", "s", "z", "bits"];
        model = model.domain_node("onnx.brevitas", "Quant", &operands, &[&output], vec![]);
    }
    let problems = within_seconds(10, || model.output("q0").read().unwrap_err());
    assert_eq!(problems[0].code(), "Q0406");
}

#[test]
fn groups_and_pads_as_large_as_they_can_be() {
    let huge = 1 << 30;
    let model = Model::empty(21).input("x", DType::F32, &[1, huge, 1]).output("y");
    let model = model.input("s", DType::F32, &[huge]).input("b", DType::F32, &[huge]);
    let groups = vec![int("num_groups", huge)];
    let model = model.node("GroupNormalization", &["x", "s", "b"], "y", groups);
    assert_eq!(model.problem().code(), "Q0406");
    let model =
        Model::new(13, &[2]).longs("p", &[i64::MIN, 0]).node("Pad", &["x", "p"], "y", vec![]);
    assert_eq!(model.problem().code(), "Q0407");
}

#[test]
fn many_results_of_many_axes() {
    let mut model = Model::empty(13).input("v0", DType::F32, &[1; 32]);
    for index in 0..80_000 {
        let (from, to) = (format!("v{index}"), format!("v{}", index + 1));
        model = model.node("Relu", &[&from], &to, vec![]);
    }
    let problems = within_seconds(10, || model.output("v80000").read().unwrap_err());
    assert_eq!(problems[0].code(), "Q0402");
}

/// A model that uses most operators.
fn rich() -> Vec<u8> {
    Model::new(13, &[1, 2, 6, 6])
        .floats("w", &[2, 2, 3, 3], &[0.5; 36])
        .floats("b", &[2], &[0.5; 2])
        .floats("s", &[2], &[0.5, 0.25])
        .floats("s0", &[], &[0.5])
        .floats("z0", &[], &[0.0])
        .floats("bits", &[], &[4.0])
        .longs("shape", &[0, -1])
        .longs("axes", &[0])
        .node("Conv", &["x", "w", "b"], "c", vec![ints("pads", &[1, 1, 1, 1])])
        .node("BatchNormalization", &["c", "b", "b", "b", "b"], "n", vec![])
        .node("QuantizeLinear", &["n", "s"], "q", vec![int("axis", 1)])
        .node("DequantizeLinear", &["q", "s"], "d", vec![int("axis", 1)])
        .node("MaxPool", &["d"], "m", vec![ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2])])
        .domain_node(
            "onnx.brevitas",
            "Quant",
            &["m", "s0", "z0", "bits"],
            &["k"],
            vec![int("signed", 0)],
        )
        .node("Max", &["k", "m", "s0"], "e", vec![])
        .node("Reshape", &["e", "shape"], "r", vec![])
        .node("Unsqueeze", &["r", "axes"], "u", vec![])
        .node("Transpose", &["u"], "y", vec![ints("perm", &[2, 1, 0])])
        .bytes()
}

#[test]
fn the_model_that_is_damaged_is_valid() {
    assert_eq!(read(&rich()).unwrap().verify(), []);
}

#[test]
fn every_truncation_is_a_diagnostic_or_a_graph() {
    let file = rich();
    for length in 0..file.len() {
        match read(&file[..length]) {
            Ok(graph) => assert_eq!(graph.verify(), []),
            Err(problems) => {
                assert!(!problems.is_empty() && problems.iter().all(|p| p.class() != Class::Bug))
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        match read(&bytes) {
            Ok(graph) => prop_assert_eq!(graph.verify(), []),
            Err(problems) => {
                prop_assert!(!problems.is_empty());
                prop_assert!(problems.iter().all(|p| p.class() != Class::Bug), "{:?}", problems);
            }
        }
    }

    #[test]
    fn damaged_models_never_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5)) {
        let mut file = rich();
        for (index, byte) in changes {
            let at = index.index(file.len());
            file[at] = byte;
        }
        match read(&file) {
            Ok(graph) => {
                prop_assert_eq!(graph.verify(), []);
                let _ = write_onnx(&graph, &ExportOptions::default());
            }
            Err(problems) => prop_assert!(problems.iter().all(|p| p.class() != Class::Bug), "{:?}", problems),
        }
    }
}

/// A model is read, with a sound graph, or refused by name; a bug of ours is neither.
fn survives(model: &Model) {
    if let Err(problems) = model.read() {
        assert!(
            !problems.is_empty() && problems.iter().all(|p| p.class() != Class::Bug),
            "{problems:?}"
        );
    }
}

/// Attributes and constant operands at the ends of 64 bits, of an image and of a tensor without
/// elements that has many channels.
#[test]
fn numbers_at_their_ends() {
    let lists = |operator: &str, name: &'static str, end: i64| {
        let count = if name == "pads" { 4 } else { 2 };
        let mut attributes = vec![ints(name, &vec![end; count])];
        if operator.ends_with("Pool") && name != "kernel_shape" {
            attributes.push(ints("kernel_shape", &[2, 2]));
        }
        attributes
    };
    for shape in [[1, 4, 6, 6], [1, 1 << 40, 0, 0]] {
        for end in [i64::MIN, -1, 0, 65536, (1 << 31) - 1, 1 << 31, 1 << 40, i64::MAX] {
            let model = || Model::new(13, &shape);
            for (operator, name) in [
                ("SpaceToDepth", "blocksize"),
                ("DepthToSpace", "blocksize"),
                ("LRN", "size"),
                ("Flatten", "axis"),
                ("Softmax", "axis"),
                ("ArgMax", "axis"),
                ("Concat", "axis"),
                ("Split", "axis"),
            ] {
                survives(&model().node(operator, &["x"], "y", vec![int(name, end)]));
            }
            for name in ["kernel_shape", "strides", "dilations", "pads", "output_shape"] {
                for operator in ["MaxPool", "AveragePool"] {
                    survives(&model().node(operator, &["x"], "y", lists(operator, name, end)));
                }
                for operator in ["Conv", "ConvTranspose"] {
                    let attributes = lists(operator, name, end);
                    let model = model().floats("w", &[4, 4, 1, 1], &[0.5; 16]);
                    survives(&model.node(operator, &["x", "w"], "y", attributes));
                }
            }
            for (operator, operands) in [
                ("Slice", 4),
                ("Pad", 1),
                ("Tile", 1),
                ("Expand", 1),
                ("Reshape", 1),
                ("Split", 1),
                ("Unsqueeze", 1),
                ("Squeeze", 1),
                ("CumSum", 1),
                ("Trilu", 1),
                ("Gather", 1),
            ] {
                for count in [1, 2, 4, 8] {
                    let model = model().longs("n", &vec![end; count]);
                    let inputs = [&["x"][..], &["n"; 4][..operands]].concat();
                    survives(&model.node(operator, &inputs, "y", vec![]));
                }
            }
        }
    }
}
