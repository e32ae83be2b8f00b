//! The golden model on networks of the peer: its outputs are theirs.

use crate::common::{golden, hex, root};
use quincunx_contract::Numerics;
use quincunx_graph::execute::{Keep, float};
use quincunx_graph::{Coordinates, Graph, Op, Resize};
use quincunx_import::read_onnx;
use quincunx_tcu::arch::DataType;
use quincunx_tensor::{Tensor, Tensors};
use serde_json::{Value, json};

fn network(name: &str) -> Graph {
    let bytes = std::fs::read(root().join("models").join(format!("{name}.onnx"))).unwrap();
    read_onnx(bytes.into(), &Default::default()).unwrap()
}

fn compat(data_type: DataType, lanes: u64) -> Numerics {
    Numerics(json!({ "data_type": data_type, "lanes": lanes, "rounding": "compat", "nodes": {} }))
}

/// Positions, channels and planes of a tensor `[N, C, ...]`.
fn layout(shape: &[usize]) -> (usize, usize, usize) {
    let plane: usize = shape[2..].iter().product();
    (shape[0] * plane, shape[1], plane)
}

/// A tensor of a graph from vectors in DRAM0.
fn unpack(vectors: &[u8], shape: &[usize], data_type: DataType, lanes: usize) -> Tensor {
    let (positions, channels, plane) = layout(shape);
    let scalars: Vec<i32> = vectors.chunks(data_type.bytes()).map(|b| data_type.read(b)).collect();
    let width = channels.div_ceil(lanes) * lanes;
    assert_eq!(scalars.len(), positions * width);
    let mut reals = vec![0.0; positions * channels];
    for position in 0..positions {
        for channel in 0..channels {
            let (n, p) = (position / plane, position % plane);
            reals[(n * channels + channel) * plane + p] =
                data_type.decode(scalars[position * width + channel]);
        }
    }
    Tensor::from_vec(shape, reals).unwrap()
}

fn difference(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

/// A program of the peer: what it was given, and what it gave.
struct Case {
    graph: Graph,
    numerics: Numerics,
    inputs: Tensors,
    outputs: Tensors,
}

fn case(json: &Value) -> Case {
    let graph = network(json["model"].as_str().unwrap());
    let arch = crate::common::arch(&json["arch_params"]);
    let (data_type, lanes) = (arch.data_type, arch.lanes());
    let unpack = |image: &Value, shape: &[usize]| unpack(&hex(image), shape, data_type, lanes);
    let images = json["inputs_hex"].as_array().unwrap();
    assert_eq!(images.len(), graph.inputs().len());
    let values = graph.inputs().iter().map(|&id| &graph[id]).zip(images);
    let inputs =
        values.map(|(value, image)| (value.name.clone(), unpack(image, &value.shape))).collect();
    let outputs = json["outputs"].as_array().unwrap().iter().map(|output| {
        let value = &graph[graph.value_named(output["name"].as_str().unwrap()).unwrap()];
        (value.name.clone(), unpack(&output["hex"], &value.shape))
    });
    let outputs = outputs.collect();
    Case { numerics: compat(data_type, lanes as u64), graph, inputs, outputs }
}

/// The float executor's numbers for the same inputs.
fn meaning(case: &Case) -> Tensors {
    let as_f32 = |tensor: &Tensor| {
        let values: Vec<f32> = tensor.to_f64().iter().map(|&real| real as f32).collect();
        Tensor::from_vec(tensor.shape(), values).unwrap()
    };
    let inputs = case.inputs.iter().map(|(name, tensor)| (name.clone(), as_f32(tensor))).collect();
    float(&case.graph, &inputs, Keep::All).unwrap()
}

/// The network with other coordinates of its resizing.
fn half_pixel(graph: &Graph) -> Graph {
    let mut new = Graph::new("resize");
    let (_, node) = graph.nodes().next().unwrap();
    let Op::Resize(resize) = &node.op else { panic!("{} is not a resizing", node.name) };
    let x = &graph[node.input(0).unwrap()];
    let id = new.add_input(&x.name, x.dtype, &x.shape, &[]).unwrap();
    let op = Op::Resize(Resize { coordinates: Coordinates::HalfPixel, ..resize.clone() });
    let y = new.add_node(&node.name, op, &[Some(id)], &graph[node.output].name).unwrap();
    new.add_output(y);
    new
}

/// Upstream reads as half-pixel coordinates say, whatever the model says. With them, order and
/// weights of its interpolation are ours.
#[test]
fn interpolation_of_the_peer_has_its_numbers() {
    let cases = golden("compiled_models.json");
    let is_resize = |json: &&Value| json["model"] == "t_resize";
    let resizes: Vec<&Value> = cases.as_array().unwrap().iter().filter(is_resize).collect();
    assert!(resizes.len() > 2);
    for json in resizes {
        let case = case(json);
        let graph = half_pixel(&case.graph);
        let found = crate::common::golden_of(&graph, &case.numerics, &case.inputs).unwrap();
        case.outputs.iter().for_each(|(value, tensor)| assert_eq!(found[value], *tensor));
    }
}

/// Bit for bit, on every machine. Two networks follow ONNX where upstream does not.
#[test]
fn networks_of_the_peer_have_its_numbers() {
    let (cases, mut equal) = (golden("compiled_models.json"), std::collections::BTreeSet::new());
    for json in cases.as_array().unwrap() {
        let (name, model) = (json["name"].as_str().unwrap(), json["model"].as_str().unwrap());
        let case = case(json);
        let found = crate::common::golden_of(&case.graph, &case.numerics, &case.inputs).unwrap();
        let means = meaning(&case);
        assert_eq!(found.keys().collect::<Vec<_>>(), means.keys().collect::<Vec<_>>());
        for (value, tensor) in &found {
            let error = difference(&tensor.to_f64(), &means[value].to_f64());
            assert!(error < 0.06, "{name}: {value} is off by {error}");
        }
        for (value, tensor) in &case.outputs {
            if ["t_resize", "t_flatten_gemm"].contains(&model) {
                assert!(difference(&tensor.to_f64(), &means[value].to_f64()) > 0.6);
            } else {
                assert_eq!(found[value], *tensor, "{name}: {value}");
                equal.insert(model);
            }
        }
    }
    assert_eq!(equal.len(), 14);
}

/// The peer's data tell orders apart: with another one, numbers differ.
#[test]
fn other_orders_have_other_numbers() {
    let cases = golden("compiled_models.json");
    let json =
        cases.as_array().unwrap().iter().find(|json| json["name"] == "t_conv3_s2_small4_iso");
    let case = case(json.unwrap());
    let (_, node) = case.graph.nodes().next().unwrap();
    let output = |choice: Value| {
        let mut numerics = case.numerics.clone();
        numerics.0["nodes"] = json!({ node.name.clone(): choice });
        crate::common::golden_of(&case.graph, &numerics, &case.inputs).unwrap()["Identity"].clone()
    };
    assert_eq!(output(json!({ "chunk": 2, "bias": [0, 1] })), case.outputs["Identity"]);
    for choice in [json!({ "bias": [0, 0] }), json!({ "bias": [1, 1] })] {
        assert_ne!(output(choice.clone()), case.outputs["Identity"], "{choice}");
    }
}
