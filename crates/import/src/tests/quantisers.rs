//! The quantised dialects become one form.

use super::build::{Model, attribute, int, text};
use crate::proto::{AttributeProto, attribute_kind as kind};
use proptest::prelude::*;
use quincunx_diag::Class;
use quincunx_graph::{Graph, Op, Quantiser};
use quincunx_num::{Dyadic, Overflow, Rounding, round_ratio};
use quincunx_tensor::{DType, Narrow, Tensor};

const QONNX: &str = "qonnx.custom_op.general";

fn bytes(name: &str, dtype: DType, values: &[u8], model: Model) -> Model {
    let shape: Vec<usize> = if values.len() == 1 { vec![] } else { vec![values.len()] };
    model.init(name, &Tensor::new(dtype, &shape, values.to_vec().into()).unwrap())
}

/// `x`, a scale 0.5 and a zero point 3.
fn base(shape: &[i64]) -> Model {
    let model = Model::new(13, shape).floats("s", &[], &[0.5]).floats("t", &[], &[0.25]);
    bytes("z", DType::U8, &[3], model)
}

fn ops(graph: &Graph) -> Vec<&'static str> {
    graph.nodes().map(|(_, node)| node.op.name()).collect()
}

#[test]
fn a_pair_is_one_quantise() {
    let model = base(&[1, 4]).node("QuantizeLinear", &["x", "s", "z"], "q", vec![]).node(
        "DequantizeLinear",
        &["q", "s", "z"],
        "y",
        vec![],
    );
    let Op::Quantise(quantiser) = model.last_op() else { panic!("no quantise") };
    assert_eq!(quantiser.to_string(), "u8 scale 0.5 zero 3 half-even saturate");
    let graph = model.read().unwrap();
    assert_eq!(ops(&graph), ["Quantise"]);
    assert!(graph.node_named("y_node").is_some());
}

#[test]
fn lone_nodes_stay_codes() {
    let quantise = Model::new(13, &[2]).floats("s", &[], &[0.5]).node(
        "QuantizeLinear",
        &["x", "s"],
        "y",
        vec![],
    );
    let Op::ToCodes(quantiser) = quantise.last_op() else { panic!("no codes") };
    assert_eq!(quantiser, Quantiser::symmetric(false, 8, 0.5));
    let codes = Model::empty(13).input("x", DType::I8, &[2]).output("y").floats("s", &[1], &[0.5]);
    let dequantise = codes.node("DequantizeLinear", &["x", "s"], "y", vec![]);
    assert_eq!(dequantise.last_op(), Op::FromCodes(Quantiser::symmetric(true, 8, 0.5)));
}

#[test]
fn codes_with_other_readers() {
    let model = base(&[1, 4])
        .node("QuantizeLinear", &["x", "s", "z"], "q", vec![])
        .node("DequantizeLinear", &["q", "s", "z"], "y", vec![])
        .node("DequantizeLinear", &["q", "s", "z"], "y2", vec![])
        .node("DequantizeLinear", &["q", "t", "z"], "y3", vec![])
        .node("DequantizeLinear", &["q", "s", "z"], "y4", vec![])
        .output("y2")
        .output("y3")
        .output("y4");
    // Different parameters bring the codes into the graph; the equal pairs stay one each.
    let graph = model.read().unwrap();
    assert_eq!(
        ops(&graph),
        ["Quantise", "Quantise", "QuantizeLinear", "DequantizeLinear", "Quantise"]
    );
    let output = base(&[1, 4])
        .node("QuantizeLinear", &["x", "s", "z"], "q", vec![])
        .node("DequantizeLinear", &["q", "s", "z"], "y", vec![])
        .output("q");
    assert_eq!(ops(&output.read().unwrap()), ["Quantise", "QuantizeLinear"]);
}

#[test]
fn parameters_per_axis_align_at_the_innermost_axis() {
    let model = |axis: Option<i64>| {
        let attributes = || axis.map(|a| int("axis", a)).into_iter().collect::<Vec<_>>();
        let model = Model::new(13, &[1, 2, 3, 2]).floats("s", &[2], &[0.5, 0.25]);
        bytes("z", DType::I8, &[0, 1], model)
            .node("QuantizeLinear", &["x", "s", "z"], "q", attributes())
            .node("DequantizeLinear", &["q", "s", "z"], "y", attributes())
    };
    for (axis, shape) in
        [(None, &[2, 1, 1][..]), (Some(1), &[2, 1, 1]), (Some(-1), &[2]), (Some(3), &[2])]
    {
        let Op::Quantise(quantiser) = model(axis).last_op() else { panic!("no quantise") };
        assert_eq!((quantiser.scale.shape(), quantiser.zero.shape()), (shape, shape));
    }
    for axis in [0, 2, 4, -5, i64::MIN] {
        let problems = model(Some(axis)).read().unwrap_err();
        assert_eq!(problems[0].class(), Class::Invalid, "{problems:?}");
    }
}

#[test]
fn dequantised_initialisers_are_codes() {
    let model = Model::new(13, &[1, 2]).floats("s", &[2], &[0.5, 0.25]);
    let model = bytes("w", DType::I8, &[0x80, 0x7f], model)
        .node("DequantizeLinear", &["w", "s"], "a", vec![int("axis", 0)])
        .node("DequantizeLinear", &["w", "s"], "b", vec![int("axis", 0)])
        .node("Add", &["x", "a"], "c", vec![])
        .node("Add", &["c", "b"], "y", vec![]);
    let graph = model.read().unwrap();
    for name in ["a", "b"] {
        let constant = graph[graph.value_named(name).unwrap()].constant.clone().unwrap();
        assert_eq!(constant.tensor.to_i64(), Some(vec![-128, 127]));
        assert_eq!(constant.quantiser.unwrap().scale.values(), [0.5, 0.25]);
    }
    assert_eq!(ops(&graph), ["Add", "Add"]);
}

#[test]
fn parameters_may_come_through_identity_and_constant_nodes() {
    let model = Model::new(13, &[2])
        .node(
            "Constant",
            &[],
            "k",
            vec![AttributeProto { f: Some(0.5), ..attribute("value_float", kind::FLOAT) }],
        )
        .node("Identity", &["k"], "s", vec![])
        .node("QuantizeLinear", &["x", "s"], "y", vec![]);
    assert_eq!(model.last_op(), Op::ToCodes(Quantiser::symmetric(false, 8, 0.5)));
}

#[test]
fn absurd_parameters() {
    for scale in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        let model = Model::new(13, &[2]).floats("s", &[], &[scale]);
        let problem = model.node("QuantizeLinear", &["x", "s"], "y", vec![]).problem();
        assert_eq!((problem.code(), problem.class()), ("Q0302", Class::Invalid), "{problem}");
        assert!(problem.place().unwrap().to_string().contains("y_node"));
    }
    // Also where the result is never used.
    let unused = Model::new(13, &[2])
        .floats("s", &[], &[0.0])
        .node("QuantizeLinear", &["x", "s"], "q", vec![])
        .node("Relu", &["x"], "y", vec![]);
    assert_eq!(unused.problem().code(), "Q0302");
    let computed = Model::new(13, &[2]).input("s", DType::F32, &[]);
    assert_eq!(computed.node("QuantizeLinear", &["x", "s"], "y", vec![]).problem().code(), "Q0416");
    let wide = Model::new(13, &[2]).floats("s", &[], &[0.5]).init("z", &Tensor::scalar(0_i32));
    assert_eq!(
        wide.node("QuantizeLinear", &["x", "s", "z"], "y", vec![]).problem().class(),
        Class::Unsupported
    );
    let mixed = Model::empty(13).input("x", DType::I8, &[2]).output("y").floats("s", &[], &[0.5]);
    let mixed =
        bytes("z", DType::U8, &[0], mixed).node("DequantizeLinear", &["x", "s", "z"], "y", vec![]);
    assert!(mixed.problem().message().contains("the zero point is u8, but the codes are i8"));
    let blocked =
        base(&[2]).node("QuantizeLinear", &["x", "s", "z"], "y", vec![int("block_size", 2)]);
    assert!(blocked.problem().message().contains("axis 1 is none"), "{}", blocked.problem());
    let float8 = base(&[2]).node("QuantizeLinear", &["x", "s"], "y", vec![int("output_dtype", 17)]);
    assert_eq!(float8.last_op(), Op::Cast { to: DType::Narrow(Narrow::E4M3) });
    let complex =
        base(&[2]).node("QuantizeLinear", &["x", "s"], "y", vec![int("output_dtype", 14)]);
    assert_eq!(complex.problem().class(), Class::Unsupported);
    let short = base(&[2]).node("QuantizeLinear", &["x", "s"], "y", vec![int("output_dtype", 5)]);
    assert_eq!(short.last_op(), Op::ToCodes(Quantiser::symmetric(true, 16, 0.5)));
}

fn quant(x: &str, domain: &str, zero: f32, bits: f32, attributes: Vec<AttributeProto>) -> Model {
    Model::new(13, &[1, 4])
        .floats("w", &[1, 4], &[0.26, -0.74, 100.0, -100.0])
        .floats("s", &[1], &[0.5])
        .floats("z", &[], &[zero])
        .floats("b", &[], &[bits])
        .domain_node(domain, "Quant", &[x, "s", "z", "b"], &["q"], attributes)
        .node("Add", &["x", "q"], "y", vec![])
}

fn quantiser_of(model: &Model) -> Quantiser {
    let graph = model.read().unwrap();
    graph.grid(graph.value_named("q").unwrap()).unwrap().clone()
}

#[test]
fn quant_attributes_and_domains() {
    for domain in [QONNX, "onnx.brevitas", "finn.custom_op.general"] {
        let model = quant(
            "x",
            domain,
            0.0,
            4.0,
            vec![int("signed", 0), int("narrow", 1), text("rounding_mode", "FLOOR")],
        );
        let quantiser = quantiser_of(&model);
        assert_eq!(quantiser.to_string(), "u4 scale 0.5 floor saturate-narrow");
    }
    let default = quantiser_of(&quant("x", QONNX, 0.0, 4.0, vec![]));
    assert_eq!(default, Quantiser::symmetric(true, 4, 0.5));
    for (name, mode) in [
        ("ROUND", Rounding::HalfEven),
        ("CEIL", Rounding::Ceil),
        ("UP", Rounding::Up),
        ("DOWN", Rounding::Down),
        ("ROUND_TO_ZERO", Rounding::Down),
        ("half_up", Rounding::HalfUp),
        ("HALF_DOWN", Rounding::HalfDown),
    ] {
        let quantiser =
            quantiser_of(&quant("x", QONNX, 0.0, 4.0, vec![text("rounding_mode", name)]));
        assert_eq!(quantiser.rounding.as_uniform(), Some(mode));
    }
}

#[test]
fn quantised_constants_have_exact_codes() {
    let model = quant("w", QONNX, 0.0, 4.0, vec![int("narrow", 1)]);
    let graph = model.read().unwrap();
    let constant = graph[graph.value_named("q").unwrap()].constant.clone().unwrap();
    assert_eq!(constant.tensor.to_i64(), Some(vec![1, -1, 7, -7]));
    assert_eq!(constant.quantiser.unwrap().overflow.as_uniform(), Some(Overflow::SaturateNarrow));
    // Odd zero points are exact here too: codes round x / scale + zero.
    let shifted = quant("w", QONNX, 1.0, 4.0, vec![]).read().unwrap();
    let constant = shifted[shifted.value_named("q").unwrap()].constant.clone().unwrap();
    assert_eq!(constant.tensor.to_i64(), Some(vec![2, 0, 7, -8]));
}

/// A `Quantise` of our domain.
fn quantise(signed: &[f32], attributes: Vec<AttributeProto>) -> Model {
    Model::new(13, &[1, 4])
        .floats("s", &[], &[0.5])
        .floats("z", &[], &[0.0])
        .floats("b", &[], &[4.0])
        .floats("k", &[signed.len()], signed)
        .domain_node("quincunx", "Quantise", &["x", "s", "z", "b", "k"], &["q"], attributes)
        .node("Add", &["x", "q"], "y", vec![])
}

#[test]
fn our_operator_has_modes_that_qonnx_has_not() {
    let modes =
        |rounding, overflow| vec![text("rounding_mode", rounding), text("overflow_mode", overflow)];
    let wraps = quantiser_of(&quantise(&[0.0], modes("HALF_CEIL", "WRAP")));
    assert_eq!(wraps.to_string(), "u4 scale 0.5 half-ceil wrap");
    let mixed = quantiser_of(&quantise(&[1.0, 0.0, 1.0, 0.0], modes("FLOOR", "SAT_SYM")));
    assert_eq!(mixed.signed.values(), [true, false, true, false]);
    let ends = [Overflow::SaturateNarrow, Overflow::Saturate];
    assert_eq!(mixed.overflow.values()[..2], ends);
    let problem = |signed, attributes| quantise(signed, attributes).problem();
    assert_eq!(problem(&[0.0], modes("FLOOR", "CLIP")).class(), Class::Unsupported);
    assert_eq!(problem(&[0.0], modes("DPU", "SAT")).class(), Class::Unsupported);
    assert_eq!(problem(&[0.5], modes("FLOOR", "SAT")).class(), Class::Unsupported);
    let half = vec![text("rounding_mode", "FLOOR")];
    assert!(problem(&[0.0], half).message().contains("overflow_mode"));
    let half = vec![text("overflow_mode", "SAT")];
    assert!(problem(&[0.0], half).message().contains("rounding_mode"));
}

#[test]
fn quant_without_an_exact_form_is_refused() {
    for (model, class) in [
        (quant("x", QONNX, 1.0, 4.0, vec![]), Class::Unsupported),
        (quant("x", QONNX, 2.0, 4.0, vec![text("rounding_mode", "UP")]), Class::Unsupported),
        (quant("x", QONNX, 0.5, 4.0, vec![]), Class::Unsupported),
        (quant("x", QONNX, 0.0, 4.5, vec![]), Class::Unsupported),
        (quant("x", QONNX, 0.0, -1.0, vec![]), Class::Unsupported),
        (quant("x", QONNX, 0.0, 65.0, vec![]), Class::Unsupported),
        (quant("x", QONNX, 0.0, f32::NAN, vec![]), Class::Unsupported),
        (quant("x", QONNX, 0.0, f32::INFINITY, vec![]), Class::Unsupported),
        (quant("x", QONNX, 100.0, 4.0, vec![]), Class::Invalid),
        (quant("x", QONNX, 0.0, 4.0, vec![text("rounding_mode", "DPU")]), Class::Unsupported),
        (quant("x", QONNX, 0.0, 4.0, vec![int("rounding_mode", 1)]), Class::Invalid),
    ] {
        let problem = model.problem();
        assert_eq!(problem.class(), class, "{problem}");
    }
    // An even zero point moves ties by a whole number of pairs.
    assert_eq!(quantiser_of(&quant("x", QONNX, 2.0, 4.0, vec![])).zero.as_uniform(), Some(2));
}

#[test]
fn quant_scales_keep_their_shape() {
    let model = Model::new(13, &[1, 2, 3, 3])
        .floats("s", &[1, 2, 1, 1], &[0.5, 0.25])
        .floats("z", &[], &[0.0])
        .floats("b", &[1, 2, 1, 1], &[4.0, 5.0])
        .domain_node(QONNX, "IntQuant", &["x", "s", "z", "b"], &["y"], vec![]);
    let Op::Quantise(quantiser) = model.last_op() else { panic!("no quantise") };
    assert_eq!(quantiser.scale.shape(), [1, 2, 1, 1]);
    assert_eq!(quantiser.width.values(), [4, 5]);
    let wrong = Model::new(13, &[1, 2])
        .floats("s", &[3], &[0.5, 0.25, 1.0])
        .floats("z", &[], &[0.0])
        .floats("b", &[], &[4.0])
        .domain_node(QONNX, "Quant", &["x", "s", "z", "b"], &["y"], vec![]);
    assert_eq!(wrong.problem().class(), Class::Invalid);
}

#[test]
fn bipolar_constants() {
    let model = |x| {
        Model::new(13, &[3])
            .floats("w", &[3], &[0.0, -0.1, 5.0])
            .floats("s", &[], &[0.5])
            .domain_node(QONNX, "BipolarQuant", &[x, "s"], &["q"], vec![])
            .node("Add", &["x", "q"], "y", vec![])
    };
    let graph = model("w").read().unwrap();
    let constant = graph[graph.value_named("q").unwrap()].constant.clone().unwrap();
    assert_eq!(constant.tensor.to_i64(), Some(vec![1, -1, 1]));
}

/// `x` with these numbers through one QONNX operator with these scalar operands.
fn computed(operator: &str, operands: &[f32], attributes: Vec<AttributeProto>) -> Vec<f64> {
    use quincunx_graph::execute::{Keep, exact, float};
    let numbers =
        vec![-9.3, -4.0, -3.5, -1.2, -0.5, -0.3, 0.0, 0.3, 0.7, 1.5, 2.6, 7.0, 20.0, 300.0];
    let mut model = Model::new(13, &[14]);
    let names: Vec<String> = (0..operands.len()).map(|i| format!("p{i}")).collect();
    for (name, &value) in names.iter().zip(operands) {
        model = model.floats(name, &[], &[value]);
    }
    let inputs: Vec<&str> = ["x"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let graph = model.domain_node(QONNX, operator, &inputs, &["y"], attributes).read().unwrap();
    let x = Tensor::from_vec::<f32>(&[14], numbers).unwrap();
    let inputs = [("x".to_owned(), x)].into();
    let found = exact(&graph, &inputs, Keep::Outputs).unwrap()["y"].to_f64();
    assert_eq!(float(&graph, &inputs, Keep::Outputs).unwrap()["y"].to_f64(), found);
    found
}

/// The expected numbers are what the package qonnx 1.0.0 computes.
#[test]
fn truncations_and_signs_as_qonnx_computes_them() {
    let mode = |name: &str| vec![text("rounding_mode", name)];
    assert_eq!(
        computed("Trunc", &[0.5, 0.0, 8.0, 4.0], mode("FLOOR")),
        [-1.0, -0.5, -0.5, -0.5, -0.5, -0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 18.5]
    );
    assert_eq!(
        computed("Trunc", &[0.5, 0.0, 8.0, 6.0], mode("ROUND")),
        [-2.5, -1.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.5, 2.0, 5.0, 75.0]
    );
    let signed = |signed| [mode("FLOOR"), vec![int("signed", signed)]].concat();
    assert_eq!(
        computed("Trunc", &[0.5, 0.0, 8.0, 2.0, 4.0], signed(1)),
        [-10.0, -4.0, -4.0, -2.0, -2.0, -2.0, 0.0, 0.0, 0.0, 0.0, 2.0, 6.0, 14.0, 14.0]
    );
    assert_eq!(
        computed("Trunc", &[0.5, 0.0, 8.0, 2.0, 4.0], signed(0)),
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0, 6.0, 20.0, 30.0]
    );
    let signs: Vec<f64> = (0..14).map(|i| if i < 6 { -0.5 } else { 0.5 }).collect();
    assert_eq!(computed("BipolarQuant", &[0.5], vec![]), signs);
}

#[test]
fn truncations_without_an_exact_form() {
    let problem = |operands: &[f32], attributes| {
        let mut model = Model::new(13, &[4]);
        let names: Vec<String> = (0..operands.len()).map(|i| format!("p{i}")).collect();
        for (name, &value) in names.iter().zip(operands) {
            model = model.floats(name, &[], &[value]);
        }
        let inputs: Vec<&str> = ["x"].into_iter().chain(names.iter().map(String::as_str)).collect();
        model.domain_node(QONNX, "Trunc", &inputs, &["y"], attributes).problem().class()
    };
    let floor = || vec![text("rounding_mode", "FLOOR")];
    assert_eq!(problem(&[0.5, 0.0, 8.0, 4.0], vec![]), Class::Invalid);
    assert_eq!(problem(&[0.5, 2.0, 8.0, 4.0], floor()), Class::Unsupported);
    assert_eq!(problem(&[0.5, 0.0, 4.0, 8.0], floor()), Class::Unsupported);
    assert_eq!(problem(&[0.5, 0.0, 8.0, 1.7, 4.0], floor()), Class::Unsupported);
    assert_eq!(problem(&[0.0, 0.0, 8.0, 4.0], floor()), Class::Invalid);
    assert_eq!(problem(&[0.5, 0.0, 8.0, -1.0, 4.0], floor()), Class::Unsupported);
}

#[test]
fn weights_that_are_no_numbers() {
    let mut model = quant("w", QONNX, 0.0, 4.0, vec![]);
    let bad = Tensor::from_vec(&[1, 4], vec![0.0, f32::NAN, 0.0, 0.0]).unwrap();
    model.graph().initializer[0] = super::build::tensor_proto("w", &bad);
    assert!(model.problem().message().contains("element 1"));
}

proptest! {
    /// Codes of constants against the definition.
    #[test]
    fn codes_match_the_definition(
        values in prop::collection::vec(-20.0_f32..20.0, 1..8),
        scale in prop_oneof![Just(0.5_f32), Just(0.125), 0.01_f32..2.0],
        zero in -3_i64..4,
        bits in 3_u32..9,
        narrow in any::<bool>(),
        mode in 0..7_usize,
    ) {
        let modes = [("ROUND", Rounding::HalfEven), ("CEIL", Rounding::Ceil), ("FLOOR", Rounding::Floor),
            ("UP", Rounding::Up), ("DOWN", Rounding::Down), ("HALF_UP", Rounding::HalfUp), ("HALF_DOWN", Rounding::HalfDown)];
        let (name, rounding) = modes[mode];
        let model = Model::empty(13)
            .output("q")
            .floats("w", &[values.len()], &values)
            .floats("s", &[], &[scale])
            .floats("z", &[], &[zero as f32])
            .floats("b", &[], &[bits as f32])
            .domain_node(QONNX, "Quant", &["w", "s", "z", "b"], &["q"],
                vec![int("narrow", narrow.into()), text("rounding_mode", name)]);
        let graph = model.read().unwrap();
        let codes = graph[graph.outputs()[0]].constant.clone().unwrap().tensor.to_i64().unwrap();
        let overflow = if narrow { Overflow::SaturateNarrow } else { Overflow::Saturate };
        let ratio = |v: f32| Dyadic::from_f64(v.into()).unwrap().to_ratio();
        for (value, code) in values.iter().zip(codes) {
            let exact = round_ratio(&(ratio(*value) / ratio(scale) + ratio(zero as f32)), rounding);
            prop_assert_eq!(overflow.apply(&exact, true, bits), code.into());
        }
    }
}
