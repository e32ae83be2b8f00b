//! The frontend against upstream's compiler and the graph executor.

mod claims;
mod random;

use super::*;
use crate::compile::interpret::{interpret, read_planes};
use quincunx_graph::execute::{Keep, float};
use quincunx_import::{Options, read_onnx};
use quincunx_tensor::{Tensor, Tensors, npy};
use quincunx_testkit::Random;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/tcu/models")
}

fn model(path: &Path) -> Graph {
    let bytes = std::fs::read(path).unwrap();
    read_onnx(bytes.into(), &Options::default()).unwrap()
}

fn compat(graph: &Graph, arch: &TcuArch) -> Lowered {
    network(graph, arch, &Choices::default()).unwrap()
}

/// The scalars of bytes as hexadecimal digits.
fn scalars(hex: &str, arch: &TcuArch) -> Vec<i32> {
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
    bytes.chunks(arch.data_type.bytes()).map(|bytes| arch.data_type.read(bytes)).collect()
}

#[test]
fn small_networks_equal_upstreams_bit_for_bit() {
    let text = std::fs::read_to_string(golden().join("outputs.json")).unwrap();
    let cases: Vec<Json> = serde_json::from_str(&text).unwrap();
    assert_eq!(cases.len(), 31);
    for case in &cases {
        let name = case["name"].as_str().unwrap();
        let arch = TcuArch::parse(&case["arch_params"].to_string()).unwrap();
        let path = golden().join(format!("{}.onnx", case["model"].as_str().unwrap()));
        let lowered = compat(&model(&path), &arch);
        let network = &lowered.network;
        let given = scalars(case["inputs_hex"][0].as_str().unwrap(), &arch);
        let inputs = [(network.inputs[0].name.clone(), given)].into();
        let memory = interpret(network, &arch, &inputs);
        let output = &network.outputs[0];
        let expected = scalars(case["outputs"][0]["hex"].as_str().unwrap(), &arch);
        assert_eq!(memory[output.var.0 as usize], expected, "{name}");
        let macs: u64 = network.layers.iter().map(|layer| layer.macs).sum();
        // Upstream counts the moving of joined channels as well, a matrix for 16 positions.
        let lanes = u64::from(arch.array_size);
        let moved = if name.starts_with("t_concat") { 16 * lanes * lanes } else { 0 };
        assert_eq!(macs + moved, case["macs"].as_u64().unwrap(), "{name}");
    }
}

/// A model of the benchmark table, when it was made.
fn benchmark(name: &str) -> Option<Graph> {
    let folder = std::env::var_os("QUINCUNX_MODELS")?;
    let path = Path::new(&folder).join(format!("{name}.onnx"));
    path.exists().then(|| model(&path))
}

/// Vectors of an interleaved tensor from the scalars of a graph's tensor.
fn vectors(values: &[i32], shape: &[usize], lanes: usize) -> Vec<i32> {
    let dims = Dims::of(shape).unwrap();
    let width = dims.blocks(lanes) * lanes;
    let mut vectors = vec![0; dims.positions() * width];
    for (index, &value) in values.iter().enumerate() {
        let (s, rest) = (index % dims.spatial(), index / dims.spatial());
        let (c, n) = (rest % dims.c, rest / dims.c);
        vectors[(n * dims.spatial() + s) * width + c] = value;
    }
    vectors
}

#[test]
fn resnet20_equals_upstreams_bit_for_bit() {
    let Some(graph) = benchmark("resnet20v2_cifar") else {
        return;
    };
    let arch = TcuArch::preset("pynqz1").unwrap();
    let lowered = compat(&graph, &arch);
    let network = &lowered.network;
    let file = std::fs::read(golden().join("resnet20v2_cifar_input.npy")).unwrap();
    let given = npy::read_npy(file).unwrap();
    let values: Vec<i32> = given.to_i64().unwrap().iter().map(|&v| v as i32).collect();
    let input = vectors(&values, given.shape(), 8);
    let memory = interpret(network, &arch, &[(network.inputs[0].name.clone(), input)].into());
    let output = &memory[network.outputs[0].var.0 as usize];
    assert_eq!(output[..10], [63, -151, 223, -259, 224, -210, -89, -105, -40, 44]);
    assert_eq!(network.layers.iter().map(|layer| layer.macs).sum::<u64>(), 61_475_520);
}

/// The layers of a graph.
fn network_of(graph: &Graph, arch: &TcuArch, choices: &Choices) -> Lowered {
    network(graph, arch, choices).unwrap_or_else(|problem| panic!("{problem:?}"))
}

/// Name, numbers by the interpreter and numbers by the graph's executor, of every value that can be
/// observed and of the outputs.
fn both_values(
    graph: &Graph,
    arch: &TcuArch,
    network: &Network,
    random: &mut Random,
) -> Vec<(String, Vec<f64>, Vec<f64>)> {
    let (mut floats, mut given) = (Tensors::new(), BTreeMap::new());
    for (&input, binding) in graph.inputs().iter().zip(&network.inputs) {
        let shape = &graph[input].shape;
        let numbers = random.tensor(shape, 1.0).to_f64().into_iter();
        let values: Vec<i32> = numbers.map(|real| arch.data_type.encode(real)).collect();
        let reals = values.iter().map(|&v| arch.data_type.decode(v) as f32).collect();
        floats.insert(binding.name.clone(), Tensor::from_vec(shape, reals).unwrap());
        given.insert(binding.name.clone(), vectors(&values, shape, arch.lanes()));
    }
    let memory = interpret(network, arch, &given);
    let expected = float(graph, &floats, Keep::All).unwrap();
    let whole = |binding: &Binding| {
        let var = &network.vars[binding.var.0 as usize];
        assert_eq!(var.order, Order::Interleaved);
        let plane = |block| Plane { var: binding.var, block };
        let planes: Vec<Plane> = (0..var.blocks).map(plane).collect();
        (binding.name.clone(), binding.shape.clone(), planes)
    };
    let observed = network.observed.iter().map(|value| {
        assert!((value.layer as usize) < network.layers.len());
        (value.name.clone(), value.shape.clone(), value.planes.to_vec())
    });
    let all = network.outputs.iter().map(whole).chain(observed);
    all.map(|(name, shape, planes)| {
        let scalars = read_planes(network, arch, &memory, &planes, &shape);
        let reals = scalars.iter().map(|&scalar| arch.data_type.decode(scalar)).collect();
        let expected = expected[&name].to_f64();
        assert_eq!(expected.len(), scalars.len());
        (name, reals, expected)
    })
    .collect()
}

#[test]
fn benchmark_networks_mean_the_same() {
    let cases = [
        ("yolov4_tiny_192", "bench12", Freedom::Compat),
        ("yolov4_tiny_192", "bench12", Freedom::Free),
        ("resnet20v2_cifar", "bench16", Freedom::Free),
    ];
    for (name, preset, freedom) in cases {
        let Some(graph) = benchmark(name) else {
            continue;
        };
        let mut arch = TcuArch::preset(preset).unwrap();
        arch.data_type = crate::arch::DataType::FP32BP16;
        let lowered = network_of(&graph, &arch, &Choices::of(freedom));
        for (value, got, expected) in
            both_values(&graph, &arch, &lowered.network, &mut Random::new(5))
        {
            let far = got.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(far < 0.005, "{name}, {value}: {far}");
        }
    }
}

#[test]
fn numbers_are_encoded_as_the_data_type_does() {
    use crate::arch::DataType;
    let mut random = Random::new(1);
    let mut reals = vec![0.0, -0.0, f32::NAN, f32::MAX, f32::MIN, f32::INFINITY, f32::NEG_INFINITY];
    for _ in 0..20_000 {
        reals.push(f32::from_bits(random.next() as u32));
        reals.push(random.real() as f32 * 128.0);
        // Many are halfway between two codes.
        reals.push(random.range(-524_288, 524_287) as f32 / 512.0);
    }
    for data_type in DataType::ALL {
        let expected: Vec<i32> = reals.iter().map(|&real| data_type.encode(real.into())).collect();
        let got = constants::encode_all(data_type, &reals);
        for ((got, expected), real) in got.iter().zip(&expected).zip(&reals) {
            let both_nan = data_type == DataType::Float32 && real.is_nan();
            assert!(got == expected || both_nan, "{data_type:?} {real}: {got} {expected}");
        }
    }
}

/// Upstream resizes with the coordinates of half pixels whatever the model says; with these the
/// numbers are equal.
#[test]
fn interpolation_equals_upstreams_bit_for_bit() {
    let text = std::fs::read_to_string(golden().join("../compiled_models.json")).unwrap();
    let cases: Vec<Json> = serde_json::from_str(&text).unwrap();
    let mut compared = 0;
    for case in cases.iter().filter(|case| case["model"] == "t_resize") {
        let arch = TcuArch::parse(&case["arch_params"].to_string()).unwrap();
        let mut graph = Graph::new("resize");
        let x = graph.add_input("x", quincunx_tensor::DType::F32, &[1, 8, 4, 4], &[]).unwrap();
        let resize = Op::Resize(quincunx_graph::Resize {
            axes: vec![2, 3],
            target: quincunx_graph::ResizeTarget::Scales(vec![2.0, 2.0]),
            coordinates: quincunx_graph::Coordinates::HalfPixel,
            interpolation: quincunx_graph::Interpolation::Linear,
            exclude_outside: false,
            roi: Vec::new(),
        });
        let y = graph.add_node("resize", resize, &[Some(x)], "y").unwrap();
        graph.add_output(y);
        let network = compat(&graph, &arch).network;
        let given = scalars(case["inputs_hex"][0].as_str().unwrap(), &arch);
        let memory = interpret(&network, &arch, &[("x".to_owned(), given)].into());
        let expected = scalars(case["outputs"][0]["hex"].as_str().unwrap(), &arch);
        assert_eq!(memory[network.outputs[0].var.0 as usize], expected);
        compared += 1;
    }
    assert!(compared > 0);
}
