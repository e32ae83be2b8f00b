//! Every operator: its forms, its limits, and what is said about them.

use super::build::{Model, attribute, float, int, ints, text};
use crate::proto::{AttributeProto, attribute_kind as kind};
use quincunx_diag::{Class, Place};
use quincunx_graph::execute::{self, Keep};
use quincunx_graph::{
    Activation, BatchNorm, Binary, Gemm, Graph, Op, Pool, PoolKind, Unary, Window,
};
use quincunx_tensor::{DType, Tensor};

fn conv(x: &[i64], w: &[usize], attributes: Vec<AttributeProto>) -> Model {
    let count = w.iter().product();
    Model::new(13, x).floats("w", w, &vec![1.0; count]).node("Conv", &["x", "w"], "y", attributes)
}

fn shape_of(graph: &Graph, name: &str) -> Vec<usize> {
    graph[graph.value_named(name).unwrap()].shape.to_vec()
}

#[test]
fn convolution_attributes() {
    let model = conv(
        &[1, 4, 9, 9],
        &[6, 2, 3, 3],
        vec![
            ints("strides", &[2, 1]),
            ints("dilations", &[1, 2]),
            ints("pads", &[1, 0, 2, 3]),
            int("group", 2),
        ],
    );
    let Op::Conv(conv) = model.last_op() else { panic!("no convolution") };
    assert_eq!(conv.groups, 2);
    assert_eq!(conv.window.kernel[..], [3, 3]);
    assert_eq!(conv.window.pads[..], [(1, 2), (0, 3)]);
    assert_eq!(shape_of(&model.read().unwrap(), "y"), [1, 6, 5, 8]);
}

#[test]
fn convolution_over_one_and_three_axes() {
    assert_eq!(shape_of(&conv(&[2, 1, 8], &[3, 1, 3], vec![]).read().unwrap(), "y"), [2, 3, 6]);
    let volume = conv(&[1, 1, 4, 4, 4], &[1, 1, 2, 2, 2], vec![text("auto_pad", "SAME_UPPER")]);
    assert_eq!(shape_of(&volume.read().unwrap(), "y"), [1, 1, 4, 4, 4]);
}

#[test]
fn auto_pad_is_resolved() {
    for (mode, pads) in [("SAME_UPPER", (0, 1)), ("SAME_LOWER", (1, 0)), ("VALID", (0, 0))] {
        let model = conv(
            &[1, 1, 4, 4],
            &[1, 1, 3, 3],
            vec![text("auto_pad", mode), ints("strides", &[2, 2])],
        );
        let Op::Conv(conv) = model.last_op() else { panic!("no convolution") };
        assert_eq!(conv.window.pads[..], [pads, pads], "{mode}");
    }
}

#[test]
fn malformed_windows() {
    for (attributes, word) in [
        (vec![ints("strides", &[1])], "1 numbers, expected 2"),
        (vec![ints("strides", &[0, 1])], "from 1"),
        (vec![ints("dilations", &[i64::MAX, 1])], "2^31"),
        (vec![ints("pads", &[0, 0, 0, i64::MIN])], "from 0"),
        (vec![int("group", 0)], "at least 1"),
        (vec![int("group", -1)], "at least 1"),
        (vec![text("auto_pad", "SAME")], "SAME_UPPER"),
        (vec![text("auto_pad", "VALID"), ints("pads", &[1, 1, 1, 1])], "both"),
        (vec![ints("kernel_shape", &[5, 5])], "kernel_shape"),
        (vec![int("strides", 1)], "an integer, expected a list of integers"),
        (
            vec![AttributeProto {
                s: Some(vec![0xff].into()),
                ..attribute("auto_pad", kind::STRING)
            }],
            "not valid text",
        ),
        (vec![int("group", 1), int("group", 1)], "twice"),
    ] {
        let problem = conv(&[1, 1, 8, 8], &[1, 1, 3, 3], attributes).problem();
        assert_eq!(problem.class(), Class::Invalid, "{problem}");
        assert!(problem.message().contains(word), "{problem}");
        let place = problem.place().unwrap().to_string();
        assert_eq!(place, "node \"y_node\" (Conv, f32[1, 1, 8, 8], f32[1, 1, 3, 3])");
    }
    let negative = conv(&[1, 1, 8, 8], &[1, 1, 3, 3], vec![ints("pads", &[-1, 0, 0, 0])]);
    assert_eq!(negative.problem().class(), Class::Unsupported);
    assert_eq!(conv(&[8, 8], &[1, 1], vec![]).problem().class(), Class::Invalid);
}

#[test]
fn attributes_nobody_reads_are_reported() {
    let problem = conv(&[1, 1, 8, 8], &[1, 1, 3, 3], vec![int("strides_", 1)]).problem();
    assert_eq!((problem.code(), problem.class()), ("Q0406", Class::Unsupported));
    assert_eq!(problem.help_text(), Some("did you mean \"strides\"?"));
    let function = AttributeProto { ref_attr_name: Some("a".into()), ..int("group", 1) };
    assert_eq!(conv(&[1, 1, 8, 8], &[1, 1, 3, 3], vec![function]).problem().code(), "Q0407");
}

#[test]
fn matrix_products() {
    let gemm = Model::new(13, &[2, 3])
        .floats("b", &[4, 3], &[0.5; 12])
        .floats("c", &[4], &[1.0; 4])
        .node("Gemm", &["x", "b", "c"], "y", vec![float("alpha", 2.0), int("transB", 1)]);
    let expected = Gemm { alpha: 2.0, beta: 1.0, transpose_a: false, transpose_b: true };
    assert_eq!(gemm.last_op(), Op::Gemm(expected));
    let absent = Model::new(13, &[2, 3]).floats("b", &[3, 4], &[0.5; 12]).node(
        "Gemm",
        &["x", "b", ""],
        "y",
        vec![],
    );
    assert_eq!(shape_of(&absent.read().unwrap(), "y"), [2, 4]);
    let matmul = Model::new(13, &[5, 2, 3]).floats("b", &[3, 4], &[0.5; 12]).node(
        "MatMul",
        &["x", "b"],
        "y",
        vec![],
    );
    assert_eq!(matmul.last_op(), Op::MatMul);
    let flag = Model::new(13, &[2, 3]).floats("b", &[3, 4], &[0.5; 12]).node(
        "Gemm",
        &["x", "b"],
        "y",
        vec![int("transA", 2)],
    );
    assert!(flag.problem().message().contains("expected 0 or 1"));
}

#[test]
fn poolings() {
    let kernel = || ints("kernel_shape", &[2, 2]);
    let max = Model::new(13, &[1, 1, 5, 5]).domain_node(
        "",
        "MaxPool",
        &["x"],
        &["y", "unused"],
        vec![kernel(), ints("strides", &[2, 2]), int("ceil_mode", 1), int("storage_order", 1)],
    );
    let graph = max.read().unwrap();
    assert_eq!(shape_of(&graph, "y"), [1, 1, 3, 3]);
    let average = Model::new(19, &[1, 1, 5, 5]).node(
        "AveragePool",
        &["x"],
        "y",
        vec![kernel(), int("count_include_pad", 1), ints("dilations", &[2, 2])],
    );
    let mut window = Window::new(&[2, 2]);
    window.dilations = [2, 2].into_iter().collect();
    let kind = PoolKind::Average { count_include_pad: true };
    assert_eq!(average.last_op(), Op::Pool(Pool { kind, window, ceil: false }));
    let global = Model::new(13, &[1, 3, 5, 5]).node("GlobalAveragePool", &["x"], "y", vec![]);
    assert_eq!(shape_of(&global.read().unwrap(), "y"), [1, 3, 1, 1]);
    let missing = Model::new(13, &[1, 1, 5, 5]).node("MaxPool", &["x"], "y", vec![]);
    assert!(missing.problem().message().contains("kernel_shape"));
    let indices = Model::new(13, &[1, 1, 5, 5])
        .domain_node("", "MaxPool", &["x"], &["y", "i"], vec![kernel()])
        .output("i");
    assert_eq!(indices.problem().class(), Class::Unsupported);
}

fn batch_norm(opset: i64, outputs: &[&str], attributes: Vec<AttributeProto>) -> Model {
    let mut model = Model::new(opset, &[1, 2, 3]);
    for name in ["scale", "bias", "mean", "variance"] {
        model = model.floats(name, &[2], &[1.0, 2.0]);
    }
    let inputs = ["x", "scale", "bias", "mean", "variance"];
    model.domain_node("", "BatchNormalization", &inputs, outputs, attributes)
}

#[test]
fn batch_norm_of_every_opset() {
    let op = Op::BatchNorm(BatchNorm { epsilon: 0.5 });
    let epsilon = || float("epsilon", 0.5);
    assert_eq!(batch_norm(15, &["y"], vec![epsilon(), float("momentum", 0.9)]).last_op(), op);
    assert_eq!(batch_norm(9, &["y", "m", "v", "", "s"], vec![epsilon()]).last_op(), op);
    assert_eq!(batch_norm(7, &["y"], vec![epsilon(), int("spatial", 1)]).last_op(), op);
    assert_eq!(batch_norm(6, &["y"], vec![epsilon(), int("is_test", 1)]).last_op(), op);
    let legacy = vec![epsilon(), int("is_test", 1), ints("consumed_inputs", &[0, 0])];
    assert_eq!(batch_norm(1, &["y"], legacy).last_op(), op);
    for model in [
        batch_norm(14, &["y"], vec![int("training_mode", 1)]),
        batch_norm(7, &["y"], vec![int("spatial", 0)]),
        batch_norm(6, &["y", "m", "v"], vec![]),
        batch_norm(9, &["y", "m"], vec![]).output("m"),
    ] {
        assert_eq!(model.problem().class(), Class::Unsupported);
    }
}

#[test]
fn elementwise_operators() {
    for (name, op) in [("Relu", Unary::Relu), ("Neg", Unary::Neg), ("Abs", Unary::Abs)] {
        assert_eq!(Model::new(13, &[2]).node(name, &["x"], "y", vec![]).last_op(), Op::Unary(op));
    }
    for (name, op) in [
        ("Add", Binary::Add),
        ("Sub", Binary::Sub),
        ("Mul", Binary::Mul),
        ("Div", Binary::Div),
        ("Max", Binary::Max),
        ("Min", Binary::Min),
    ] {
        let model =
            Model::new(13, &[2]).floats("b", &[1], &[1.0]).node(name, &["x", "b"], "y", vec![]);
        assert_eq!(model.last_op(), Op::Binary(op));
    }
    let broadcast = Model::new(6, &[2]).node("Add", &["x", "x"], "y", vec![int("broadcast", 1)]);
    assert_eq!(broadcast.problem().class(), Class::Unsupported);
    let integers = Model::empty(13).input("x", DType::I32, &[2]).output("y").node(
        "Div",
        &["x", "x"],
        "y",
        vec![],
    );
    assert_eq!(integers.last_op(), Op::Binary(Binary::Div));
}

#[test]
fn max_of_many_is_a_chain() {
    let model = Model::new(13, &[2]).floats("a", &[2], &[1.0, 2.0]).node(
        "Max",
        &["x", "a", "x", "a"],
        "y",
        vec![],
    );
    let graph = model.read().unwrap();
    assert_eq!(graph.nodes().len(), 3);
    assert!(graph.nodes().all(|(_, node)| node.op == Op::Binary(Binary::Max)));
    assert_eq!(Model::new(13, &[2]).node("Min", &["x"], "y", vec![]).last_op(), Op::Identity);
}

#[test]
fn celu_with_the_default_is_elu() {
    let celu = |attributes| Model::new(12, &[2]).node("Celu", &["x"], "y", attributes);
    let elu = Op::Activation(Activation::Elu { alpha: 1.0 });
    assert_eq!(celu(vec![]).last_op(), elu);
    assert_eq!(celu(vec![float("alpha", 1.0)]).last_op(), elu);
    assert_eq!(celu(vec![float("alpha", 0.5)]).last_op(), Op::Binary(Binary::Add));
}

#[test]
fn dropout_is_the_identity() {
    let model = |opset, inputs: &[&str], attributes| {
        Model::new(opset, &[2])
            .floats("ratio", &[], &[0.5])
            .init("on", &Tensor::new(DType::Bool, &[], vec![1].into()).unwrap())
            .init("off", &Tensor::new(DType::Bool, &[], vec![0].into()).unwrap())
            .domain_node("", "Dropout", inputs, &["y", "mask"], attributes)
    };
    assert_eq!(model(13, &["x", "ratio", "off"], vec![int("seed", 1)]).last_op(), Op::Identity);
    assert_eq!(model(7, &["x"], vec![float("ratio", 0.5)]).last_op(), Op::Identity);
    assert_eq!(model(6, &["x"], vec![int("is_test", 1)]).last_op(), Op::Identity);
    assert_eq!(model(6, &["x"], vec![]).problem().class(), Class::Unsupported);
    assert_eq!(model(13, &["x", "", "on"], vec![]).problem().class(), Class::Unsupported);
    for (opset, dtype) in [(13, DType::Bool), (7, DType::F32)] {
        let graph = model(opset, &["x"], vec![]).output("mask").read().unwrap();
        let inputs = [("x".to_owned(), Tensor::from_vec(&[2], vec![3.0_f32, -4.0]).unwrap())];
        let results = execute::float(&graph, &inputs.into(), Keep::Outputs).unwrap();
        assert_eq!(results["y"].to_f64(), [3.0, -4.0]);
        assert_eq!((results["mask"].dtype(), results["mask"].to_f64()), (dtype, vec![1.0, 1.0]));
    }
}

#[test]
fn flatten_axes() {
    let model =
        |axis| Model::new(13, &[2, 3, 4]).node("Flatten", &["x"], "y", vec![int("axis", axis)]);
    for (axis, expected) in [(0, 0), (3, 3), (-1, 2), (-3, 0)] {
        assert_eq!(model(axis).last_op(), Op::Flatten { axis: expected });
    }
    assert_eq!(
        Model::new(13, &[2, 3]).node("Flatten", &["x"], "y", vec![]).last_op(),
        Op::Flatten { axis: 1 }
    );
    for axis in [4, -4, i64::MIN, i64::MAX] {
        assert_eq!(model(axis).problem().class(), Class::Invalid);
    }
}

#[test]
fn reshape_forms() {
    let model = |shape: &[i64], attributes| {
        Model::new(14, &[2, 3, 4]).longs("s", shape).node("Reshape", &["x", "s"], "y", attributes)
    };
    assert_eq!(shape_of(&model(&[0, -1], vec![]).read().unwrap(), "y"), [2, 12]);
    for bad in [&[5, 5][..], &[-1, -1], &[-2, 12], &[i64::MAX, 2], &[i64::MIN], &[1; 100]] {
        assert_eq!(model(bad, vec![]).problem().class(), Class::Invalid, "{bad:?}");
    }
    let attribute =
        Model::new(4, &[2, 3]).node("Reshape", &["x"], "y", vec![ints("shape", &[3, 2])]);
    assert_eq!(shape_of(&attribute.read().unwrap(), "y"), [3, 2]);
    let empty = |shape: &[i64]| {
        Model::new(14, &[0, 3]).longs("s", shape).node(
            "Reshape",
            &["x", "s"],
            "y",
            vec![int("allowzero", 1)],
        )
    };
    assert_eq!(shape_of(&empty(&[3, 0]).read().unwrap(), "y"), [3, 0]);
    assert_eq!(shape_of(&empty(&[0, 7]).read().unwrap(), "y"), [0, 7]);
    assert_eq!(empty(&[-1, 0]).problem().class(), Class::Invalid);
    let computed =
        Model::new(14, &[2]).input("s", DType::I64, &[1]).node("Reshape", &["x", "s"], "y", vec![]);
    assert_eq!(computed.problem().code(), "Q0416");
    let floats =
        Model::new(14, &[2]).floats("s", &[1], &[2.0]).node("Reshape", &["x", "s"], "y", vec![]);
    assert_eq!(floats.problem().class(), Class::Invalid);
}

#[test]
fn squeeze_and_unsqueeze() {
    let attribute = |operator, shape: &[i64], axes: &[i64]| {
        Model::new(11, shape).node(operator, &["x"], "y", vec![ints("axes", axes)])
    };
    let operand = |operator, shape: &[i64], axes: &[i64]| {
        Model::new(13, shape).longs("a", axes).node(operator, &["x", "a"], "y", vec![])
    };
    for build in [attribute, operand] {
        let shape = |operator, shape: &[i64], axes: &[i64]| {
            shape_of(&build(operator, shape, axes).read().unwrap(), "y")
        };
        assert_eq!(shape("Squeeze", &[5, 1, 3, 1], &[1, -1]), [5, 3]);
        assert_eq!(shape("Unsqueeze", &[5, 3], &[0, -1]), [1, 5, 3, 1]);
        assert_eq!(shape("Unsqueeze", &[0, 3], &[0]), [1, 0, 3]);
        for axes in [&[0][..], &[9], &[-9], &[1, 1], &[i64::MIN]] {
            assert_eq!(build("Squeeze", &[5, 1], axes).problem().class(), Class::Invalid);
        }
        assert_eq!(build("Unsqueeze", &[5, 1], &[0, 0]).problem().class(), Class::Invalid);
    }
    let all = Model::new(13, &[1, 5, 1]).node("Squeeze", &["x"], "y", vec![]);
    assert_eq!(shape_of(&all.read().unwrap(), "y"), [5]);
    let missing = Model::new(13, &[5]).node("Unsqueeze", &["x"], "y", vec![]);
    assert_eq!(missing.problem().class(), Class::Invalid);
}

#[test]
fn shape_changes_survive_another_batch_size() {
    let mut model =
        Model::new(13, &[1, 3, 1, 1]).longs("a", &[2, 3]).node("Squeeze", &["x", "a"], "y", vec![]);
    let input = model.graph().input[0].r#type.as_mut().unwrap().tensor.as_mut().unwrap();
    let batch = &mut input.shape.as_mut().unwrap().dim[0];
    (batch.dim_value, batch.dim_param) = (None, Some("N".to_owned()));
    let graph = model.read().unwrap().rebind("N", 7).unwrap();
    assert_eq!(shape_of(&graph, "y"), [7, 3]);
}

#[test]
fn transpose_orders() {
    let model = |perm: &[i64]| {
        Model::new(13, &[2, 3, 4]).node("Transpose", &["x"], "y", vec![ints("perm", perm)])
    };
    assert_eq!(model(&[1, 2, 0]).last_op(), Op::Transpose { order: vec![1, 2, 0] });
    let default = Model::new(13, &[2, 3, 4]).node("Transpose", &["x"], "y", vec![]);
    assert_eq!(default.last_op(), Op::Transpose { order: vec![2, 1, 0] });
    for bad in [&[0, 1][..], &[0, 1, 3], &[0, 1, 1], &[0, 1, i64::MAX], &[0, 1, 2, 3]] {
        assert_eq!(model(bad).problem().class(), Class::Invalid, "{bad:?}");
    }
}

#[test]
fn constant_forms() {
    let model = |attributes| Model::empty(13).node("Constant", &[], "y", attributes).output("y");
    let constant = |attributes| {
        let graph = model(attributes).read().unwrap();
        graph[graph.outputs()[0]].constant.clone().unwrap().tensor
    };
    let tensor = Tensor::from_vec(&[2], vec![1_i8, -2]).unwrap();
    let inside = Some(Box::new(super::build::tensor_proto("", &tensor)));
    assert_eq!(
        constant(vec![AttributeProto { t: inside, ..attribute("value", kind::TENSOR) }]),
        tensor
    );
    assert_eq!(constant(vec![float("value_float", 2.0)]), Tensor::scalar(2.0_f32));
    assert_eq!(constant(vec![int("value_int", 2)]), Tensor::scalar(2_i64));
    assert_eq!(constant(vec![ints("value_ints", &[2, 3])]).to_i64(), Some(vec![2, 3]));
    let floats = AttributeProto { floats: vec![1.5], ..attribute("value_floats", kind::FLOATS) };
    assert_eq!(constant(vec![floats]).to_f64(), [1.5]);
    assert_eq!(model(vec![]).problem().class(), Class::Invalid);
    assert_eq!(
        model(vec![int("value_int", 2), float("value_float", 1.0)]).problem().class(),
        Class::Invalid
    );
    assert_eq!(model(vec![text("value_string", "a")]).problem().class(), Class::Unsupported);
    assert_eq!(model(vec![attribute("value", kind::TENSOR)]).problem().class(), Class::Invalid);
}

#[test]
fn all_unsupported_nodes_are_listed() {
    let model = Model::new(13, &[1, 4])
        .node("Unique", &["x"], "a", vec![int("axis", 1)])
        .node("Relu", &["a"], "b", vec![])
        .node("Relux", &["b"], "c", vec![])
        .domain_node("com.example", "Relu", &["x"], &["d"], vec![])
        .domain_node("", "Quant", &["x"], &["e"], vec![])
        .node("Add", &["c", "d"], "y", vec![]);
    let problems = model.read().unwrap_err();
    let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 4, "{shown:#?}");
    assert!(problems.iter().all(|p| p.class() == Class::Unsupported && p.code() == "Q0405"));
    assert!(shown[0].contains("operator Unique (opset 13)"), "{}", shown[0]);
    assert!(shown[0].contains("f32[1, 4]") && shown[0].contains("supported operators: Abs, Add"));
    assert!(shown[1].contains("did you mean \"Relu\"?"), "{}", shown[1]);
    assert!(shown[2].contains("is supported in domain \"ai.onnx\""), "{}", shown[2]);
    assert!(
        shown[3].contains("is supported in domain \"qonnx.custom_op.general\""),
        "{}",
        shown[3]
    );
    assert!(matches!(problems[0].place(), Some(Place::Node { name, .. }) if name == "a_node"));
}

#[test]
fn operand_problems() {
    for (model, word) in [
        (Model::new(13, &[2]).node("Add", &["x"], "y", vec![]), "takes 2 operands, found 1"),
        (Model::new(13, &[2]).node("Add", &["x", ""], "y", vec![]), "takes 2 operands"),
        (Model::new(13, &[2]).node("Relu", &["x", "x"], "y", vec![]), "takes 1 operands, found 2"),
        (Model::new(13, &[2]).node("Max", &[], "y", vec![]), "at least 1"),
        (Model::new(13, &[2]).node("Conv", &["x"], "y", vec![]), "2 to 3"),
        (Model::new(13, &[2]).node("Relu", &["z"], "y", vec![]), "operand \"z\" is not an input"),
    ] {
        let problem = model.problem();
        assert_eq!((problem.code(), problem.class()), ("Q0408", Class::Invalid));
        assert!(problem.message().contains(word), "{problem}");
    }
    let nowhere = Model::new(13, &[2]).node("Relu", &["x"], "y", vec![]).domain_node(
        "",
        "Relu",
        &["x"],
        &[],
        vec![],
    );
    assert!(nowhere.problem().message().contains("no output"));
}

#[test]
fn nodes_may_be_in_any_order() {
    let model = Model::new(13, &[2])
        .node("Add", &["b", "a"], "y", vec![])
        .node("Neg", &["a"], "b", vec![])
        .node("Relu", &["x"], "a", vec![]);
    let graph = model.read().unwrap();
    let ops: Vec<_> = graph.nodes().map(|(_, node)| node.op.name()).collect();
    assert_eq!(ops, ["Relu", "Neg", "Add"]);
}

#[test]
fn node_names_are_made_unique() {
    let mut model = Model::new(13, &[2])
        .node("Relu", &["x"], "a", vec![])
        .node("Relu", &["a"], "b", vec![])
        .node("Relu", &["b"], "c", vec![])
        .node("Relu", &["c"], "y", vec![]);
    for (node, name) in model.graph().node.iter_mut().zip(["n", "", "n", "Relu"]) {
        node.name = Some(name.to_owned());
    }
    let graph = model.read().unwrap();
    let names: Vec<_> = graph.nodes().map(|(_, node)| node.name.as_str()).collect();
    assert_eq!(names, ["n", "Relu_1", "n_1", "Relu"]);
}
