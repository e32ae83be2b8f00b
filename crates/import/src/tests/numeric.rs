//! Forms of operators that compute, compare, select and reduce numbers.

use super::build::{Model, float, int, ints, text};
use crate::proto::AttributeProto;
use quincunx_diag::Class;
use quincunx_graph::{
    Activation, ArgExtreme, Binary, Graph, InstanceNorm, LayerNorm, Lrn, Op, Reduce, ReduceKind,
    Softmax, Unary,
};
use quincunx_tensor::{DType, Tensor};

fn one(opset: i64, operator: &str, attributes: Vec<AttributeProto>) -> Model {
    Model::new(opset, &[2, 3, 4]).node(operator, &["x"], "y", attributes)
}

fn scalar(model: Model, name: &str, value: f32) -> Model {
    model.init(name, &Tensor::scalar(value))
}

fn names(graph: &Graph) -> Vec<&'static str> {
    graph.nodes().map(|(_, node)| node.op.name()).collect()
}

#[test]
fn defaults_of_activations() {
    let activation = |operator, attributes| one(13, operator, attributes).last_op();
    let expect = |operator, expected| {
        assert_eq!(activation(operator, vec![]), Op::Activation(expected), "{operator}");
    };
    expect("LeakyRelu", Activation::LeakyRelu { alpha: 0.01 });
    expect("Elu", Activation::Elu { alpha: 1.0 });
    expect("Selu", Activation::Selu { alpha: 1.673_263_2, gamma: 1.050_701 });
    expect("HardSigmoid", Activation::HardSigmoid { alpha: 0.2, beta: 0.5 });
    let given = activation("HardSigmoid", vec![float("alpha", 0.5), float("beta", 0.25)]);
    assert_eq!(given, Op::Activation(Activation::HardSigmoid { alpha: 0.5, beta: 0.25 }));
    assert_eq!(one(20, "Gelu", vec![]).last_op(), Op::Unary(Unary::Gelu));
    let tanh = one(20, "Gelu", vec![text("approximate", "tanh")]);
    assert_eq!(tanh.last_op(), Op::Unary(Unary::GeluTanh));
    let odd = one(20, "Gelu", vec![text("approximate", "fast")]).problem();
    assert_eq!((odd.code(), odd.class()), ("Q0407", Class::Invalid));
}

#[test]
fn clip_by_attributes_and_operands() {
    let clip = |min, max| Op::Activation(Activation::Clip { min, max });
    let old = one(7, "Clip", vec![float("min", 0.0), float("max", 6.0)]);
    assert_eq!(old.last_op(), clip(Some(0.0), Some(6.0)));
    assert_eq!(one(10, "Clip", vec![]).last_op(), Op::Identity);
    let with = |inputs: &[&str]| {
        let model = scalar(scalar(Model::new(13, &[2]), "a", -1.0), "b", 1.0);
        model.node("Clip", inputs, "y", vec![])
    };
    assert_eq!(with(&["x", "a", "b"]).last_op(), clip(Some(-1.0), Some(1.0)));
    assert_eq!(with(&["x", "a"]).last_op(), clip(Some(-1.0), None));
    assert_eq!(with(&["x", "", "b"]).last_op(), clip(None, Some(1.0)));
    assert_eq!(with(&["x"]).last_op(), Op::Identity);
    let computed =
        Model::new(13, &[2]).input("low", DType::F32, &[]).node("Clip", &["x", "low"], "y", vec![]);
    assert_eq!(computed.last_op(), Op::Binary(Binary::Max));
    let integers = Model::empty(13)
        .input("x", DType::I32, &[2])
        .init("a", &Tensor::scalar(-1_i32))
        .init("b", &Tensor::scalar(1_i32))
        .node("Clip", &["x", "a", "b"], "y", vec![])
        .output("y");
    assert_eq!(names(&integers.read().unwrap()), ["Max", "Min"]);
    let list = Model::new(13, &[2]).input("low", DType::F32, &[2]).node(
        "Clip",
        &["x", "low"],
        "y",
        vec![],
    );
    assert!(list.problem().message().contains("not a scalar"));
}

#[test]
fn axes_of_reductions() {
    let reduce = |kind, axes: &[usize], keep_dims| {
        Op::Reduce(Reduce { kind, axes: axes.to_vec(), keep_dims })
    };
    let all = one(7, "ReduceMean", vec![]).last_op();
    assert_eq!(all, reduce(ReduceKind::Mean, &[0, 1, 2], true));
    let attribute = one(13, "ReduceMax", vec![ints("axes", &[-1, 0]), int("keepdims", 0)]);
    assert_eq!(attribute.last_op(), reduce(ReduceKind::Max, &[0, 2], false));
    let operand = |opset, operator: &str, axes: &[i64], attributes| {
        let model = Model::new(opset, &[2, 3, 4]).longs("axes", axes);
        model.node(operator, &["x", "axes"], "y", attributes)
    };
    assert_eq!(
        operand(13, "ReduceSum", &[1], vec![]).last_op(),
        reduce(ReduceKind::Sum, &[1], true)
    );
    assert_eq!(
        operand(18, "ReduceL2", &[-3], vec![]).last_op(),
        reduce(ReduceKind::L2, &[0], true)
    );
    let noop = || vec![int("noop_with_empty_axes", 1)];
    assert_eq!(one(18, "ReduceProd", noop()).last_op(), reduce(ReduceKind::Prod, &[], true));
    assert_eq!(operand(18, "ReduceMin", &[], noop()).last_op(), reduce(ReduceKind::Min, &[], true));
    assert_eq!(operand(13, "ReduceMax", &[1], vec![]).problem().code(), "Q0407");
    assert_eq!(one(18, "ReduceMax", vec![ints("axes", &[1])]).problem().code(), "Q0406");
    let twice = operand(18, "ReduceSum", &[1, -2], vec![]).problem();
    assert!(twice.message().contains("twice"), "{twice}");
    let outside = operand(18, "ReduceSum", &[3], vec![]).problem();
    assert!(outside.message().contains("axis 3 of 3 axes"), "{outside}");
    let computed = Model::new(18, &[2]).input("axes", DType::I64, &[1]).node(
        "ReduceSum",
        &["x", "axes"],
        "y",
        vec![],
    );
    assert_eq!(computed.problem().code(), "Q0416");
}

#[test]
fn positions_of_extremes() {
    let arg = |largest, axis, keep_dims, last| {
        Op::ArgExtreme(ArgExtreme { largest, axis, keep_dims, last })
    };
    assert_eq!(one(7, "ArgMax", vec![]).last_op(), arg(true, 0, true, false));
    let attributes = vec![int("axis", -1), int("keepdims", 0), int("select_last_index", 1)];
    assert_eq!(one(12, "ArgMin", attributes).last_op(), arg(false, 2, false, true));
}

#[test]
fn softmax_of_old_opsets_takes_axes_together() {
    let softmax = |axis, log| Op::Softmax(Softmax { axis, log });
    assert_eq!(one(13, "Softmax", vec![]).last_op(), softmax(2, false));
    assert_eq!(one(13, "LogSoftmax", vec![int("axis", 0)]).last_op(), softmax(0, true));
    assert_eq!(one(11, "Softmax", vec![int("axis", 2)]).last_op(), softmax(2, false));
    let graph = one(11, "Softmax", vec![]).read().unwrap();
    assert_eq!(names(&graph), ["Flatten", "Softmax", "Reshape"]);
    assert_eq!(graph[graph.outputs()[0]].shape[..], [2, 3, 4]);
}

#[test]
fn normalisations() {
    let layer = |inputs: &[&str], attributes| {
        let model = Model::new(17, &[2, 3, 4]).floats("s", &[4], &[1.0; 4]);
        model.floats("b", &[4], &[0.0; 4]).node("LayerNormalization", inputs, "y", attributes)
    };
    let norm = |epsilon| Op::LayerNorm(LayerNorm { axis: 2, epsilon });
    assert_eq!(layer(&["x", "s"], vec![]).last_op(), norm(1e-5));
    let attributes = vec![float("epsilon", 0.5), int("stash_type", 1)];
    assert_eq!(layer(&["x", "s", "b"], attributes).last_op(), norm(0.5));
    let instance = Model::new(7, &[2, 3, 4])
        .floats("s", &[3], &[1.0; 3])
        .floats("b", &[3], &[0.0; 3])
        .node("InstanceNormalization", &["x", "s", "b"], "y", vec![float("epsilon", 0.25)]);
    assert_eq!(instance.last_op(), Op::InstanceNorm(InstanceNorm { epsilon: 0.25 }));
    let lrn = one(7, "LRN", vec![int("size", 3)]).last_op();
    assert_eq!(lrn, Op::Lrn(Lrn { size: 3, alpha: 1e-4, beta: 0.75, bias: 1.0 }));
    assert_eq!(one(7, "LRN", vec![]).problem().code(), "Q0407");
    assert_eq!(one(7, "LRN", vec![int("size", -1)]).problem().code(), "Q0407");
    assert_eq!(one(7, "LRN", vec![int("size", 0)]).problem().code(), "Q0306");
}

#[test]
fn sums_and_means_of_many_operands() {
    let model = |operator, inputs: &[&str]| {
        let model = Model::new(8, &[2]).floats("a", &[2], &[1.0; 2]).floats("b", &[1], &[2.0]);
        model.node(operator, inputs, "y", vec![]).read().unwrap()
    };
    assert_eq!(names(&model("Sum", &["x"])), ["Identity"]);
    assert_eq!(names(&model("Sum", &["x", "a", "b"])), ["Add", "Add"]);
    assert_eq!(names(&model("Mean", &["x"])), ["Identity"]);
    assert_eq!(names(&model("Mean", &["x", "a", "b"])), ["Add", "Add", "Div"]);
}

#[test]
fn slopes_of_old_opsets() {
    let prelu = |opset| {
        let model = Model::new(opset, &[2, 3]).floats("s", &[3], &[0.5; 3]);
        model.node("PRelu", &["x", "s"], "y", vec![])
    };
    assert_eq!(prelu(7).last_op(), Op::PRelu);
    assert_eq!(prelu(6).problem().class(), Class::Unsupported);
}
