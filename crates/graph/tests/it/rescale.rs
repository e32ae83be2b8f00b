//! Exponents: the numbers are those of the old graph times powers of two, bit for bit, and every
//! value is within the machine's range or said not to be.

use quincunx_graph::execute::{Keep, float};
use quincunx_graph::passes::{Extent, Ranges, Rescaled, calibrate, rescale};
use quincunx_graph::{
    Activation, BatchNorm, Binary, Conv, Graph, Op, Reduce, ReduceKind, Unary, ValueId, Window,
};
use quincunx_tensor::{DType, Tensor, Tensors};

use quincunx_testkit::{Random, Recipe};

/// Sixteen bits, of which eight are behind the point.
const SIXTEEN: Extent = Extent { most: 32767.0 / 256.0, step: 1.0 / 256.0 };

/// Compares all values of both graphs; how many had another exponent than 0.
fn same(old: &Graph, rescaled: &Rescaled, inputs: &Tensors) -> usize {
    assert_eq!(rescaled.graph.verify(), []);
    let before = float(old, inputs, Keep::All).unwrap();
    let after = float(&rescaled.graph, inputs, Keep::All).unwrap();
    for (name, found) in &after {
        let is_constant =
            |graph: &Graph| graph.value_named(name).is_some_and(|id| graph[id].constant.is_some());
        let scaled = rescaled.scaled.get(name);
        let (value, exponent) = scaled.map_or((name, 0), |s| (&s.value, s.exponent));
        let Some(expected) = before.get(value).filter(|_| !is_constant(&rescaled.graph)) else {
            assert!(is_constant(&rescaled.graph), "{name} is not of the old graph");
            continue;
        };
        for (found, expected) in found.to_f64().iter().zip(expected.to_f64()) {
            let tiny = expected != 0.0 && expected.abs() < 1e-30 || expected.abs() > 1e30;
            let scaled = expected * 2.0_f64.powi(exponent);
            let both_nan = found.is_nan() && scaled.is_nan();
            assert!(
                *found == scaled || both_nan || tiny,
                "{name}: {found}, expected {scaled}\n{old}\n{}",
                rescaled.graph
            );
        }
    }
    for &output in old.outputs() {
        assert!(after.contains_key(&old[output].name), "an output is missing");
    }
    rescaled.scaled.len()
}

#[test]
fn random_graphs_compute_the_same_times_powers_of_two() {
    let (mut scaled, mut beyond) = (0, 0);
    for case in 0..600 {
        let mut random = Random::new(case);
        let spread = random.pick(&[0.1, 1.0, 50.0]);
        let (graph, inputs) = Recipe { spread, ..Recipe::REAL }.graph(&mut random);
        let Ok(ranges) = calibrate(&graph, [inputs.clone()]) else { continue };
        let most = random.pick(&[4.0, 128.0]);
        let extent = Extent { most, step: most / 32768.0 };
        let rescaled = rescale(&graph, &ranges, extent).unwrap();
        scaled += same(&graph, &rescaled, &inputs);
        beyond += rescaled.beyond.len();
        // Whatever is not said to be beyond the range is within it.
        let after = float(&rescaled.graph, &inputs, Keep::All).unwrap();
        for (_, node) in rescaled.graph.nodes() {
            let value = &rescaled.graph[node.output];
            let most = after[&value.name].to_f64().iter().fold(0.0, |most, x| x.abs().max(most));
            let consumers = rescaled.graph.consumers();
            let is_flat = |op: &Op| {
                let flat = Activation::HardSigmoid { alpha: 0.0, beta: 0.0 };
                matches!(op, Op::Unary(Unary::Sigmoid | Unary::Tanh | Unary::Erf))
                    || op.name() == flat.name()
            };
            let readers = &consumers[node.output.index()];
            let clipped = !readers.is_empty()
                && readers.iter().all(|&reader| is_flat(&rescaled.graph[reader].op));
            let told = rescaled.beyond.iter().any(|beyond| beyond.node == node.name);
            let float = value.dtype == DType::F32;
            assert!(
                !float || most <= extent.most + extent.step || told || clipped,
                "case {case}: {most} in {}",
                node.name
            );
        }
    }
    assert!(scaled > 500 && beyond > 100, "{scaled} scaled, {beyond} beyond");
}

fn node(g: &mut Graph, name: &str, op: Op, inputs: &[ValueId]) -> ValueId {
    let inputs: Vec<_> = inputs.iter().map(|&id| Some(id)).collect();
    g.add_node(name, op, &inputs, &format!("{name}_out")).unwrap()
}

fn conv(g: &mut Graph, name: &str, x: ValueId, weight: f32) -> ValueId {
    let w = Tensor::from_vec(&[1, 1, 1, 1], vec![weight]).unwrap();
    let w = g.add_constant(&format!("{name}.w"), w).unwrap();
    node(g, name, Op::Conv(Conv { window: Window::new(&[1, 1]), groups: 1 }), &[x, w])
}

fn constant(g: &Graph, name: &str) -> f64 {
    let id = g.value_named(name).unwrap();
    g[id].constant.as_ref().unwrap().tensor.to_f64()[0]
}

/// A layer whose numbers are 64 times the input, clipped, and one that divides by 64.
fn high() -> (Graph, Ranges) {
    let mut g = Graph::new("high");
    let x = g.add_input("x", DType::F32, &[1, 1, 1, 1], &[]).unwrap();
    let a = conv(&mut g, "a", x, 64.0);
    let clip = Activation::Clip { min: Some(0.0), max: Some(192.0) };
    let c = node(&mut g, "clip", Op::Activation(clip), &[a]);
    let y = conv(&mut g, "y", c, 1.0 / 64.0);
    g.add_output(y);
    let ranges = [("x", 4.0), ("a_out", 256.0), ("clip_out", 192.0), ("y_out", 3.0)];
    let ranges = ranges.map(|(name, high)| (name.to_owned(), (0.0, high)));
    (g, ranges.into_iter().collect())
}

#[test]
fn a_layer_beyond_the_range_is_scaled_by_its_weights() {
    let (graph, ranges) = high();
    let rescaled = rescale(&graph, &ranges, SIXTEEN).unwrap();
    assert!(rescaled.beyond.is_empty(), "{:?}", rescaled.beyond);
    assert_eq!(rescaled.graph.nodes().len(), 3, "no node is added\n{}", rescaled.graph);
    let scaled: Vec<_> = rescaled.scaled.iter().map(|(name, s)| (&**name, &*s.value)).collect();
    // A quarter of the range for a sum, 256 / 8 of 128; the weights lose nothing.
    let expected = [("a_out * 2^-3", "a_out"), ("clip_out * 2^-3", "clip_out")];
    assert_eq!(scaled, expected);
    assert_eq!(constant(&rescaled.graph, "a.w * 2^-3"), 8.0);
    assert_eq!(constant(&rescaled.graph, "y.w * 2^3"), 0.125);
    let Op::Activation(Activation::Clip { max, .. }) =
        rescaled.graph[rescaled.graph.node_named("clip").unwrap()].op
    else {
        panic!("the limits are still there");
    };
    assert_eq!(max, Some(24.0));
    let inputs =
        Tensors::from([("x".into(), Tensor::from_vec(&[1, 1, 1, 1], vec![2.75_f32]).unwrap())]);
    assert_eq!(same(&graph, &rescaled, &inputs), 2);
}

#[test]
fn an_output_beyond_the_range_is_for_the_host_and_what_leads_to_it_is_not() {
    let mut g = Graph::new("boxes");
    let x = g.add_input("x", DType::F32, &[1, 1, 1, 1], &[]).unwrap();
    let boxes = conv(&mut g, "boxes", x, 100.0);
    let scores = node(&mut g, "scores", Op::Unary(Unary::Sigmoid), &[x]);
    let y = node(&mut g, "y", Op::Concat { axis: 1 }, &[boxes, scores]);
    g.add_output(y);
    let ranges = [("x", 3.0), ("boxes_out", 300.0), ("scores_out", 1.0), ("y_out", 300.0)];
    let ranges: Ranges = ranges.into_iter().map(|(n, high)| (n.into(), (0.0, high))).collect();
    let rescaled = rescale(&g, &ranges, SIXTEEN).unwrap();
    let scaled: Vec<_> = rescaled.scaled.keys().map(|name| &**name).collect();
    assert_eq!(scaled, ["boxes_out * 2^-3"]);
    let beyond: Vec<_> = rescaled.beyond.iter().map(|b| (&*b.node, &*b.value, b.reach)).collect();
    let expected = [("boxes_out * 2^3", "boxes_out", 300.0), ("y", "boxes_out", 300.0)];
    assert_eq!(beyond, expected);
}

#[test]
fn products_of_tensors_take_factors_that_fit() {
    let mut g = Graph::new("square");
    let x = g.add_input("x", DType::F32, &[1, 1, 1, 1], &[]).unwrap();
    let a = conv(&mut g, "a", x, 25.0);
    let two = g.add_constant("two", Tensor::scalar(2.0_f32)).unwrap();
    let square = node(&mut g, "square", Op::Binary(Binary::Pow), &[a, two]);
    let product = node(&mut g, "product", Op::Binary(Binary::Mul), &[a, square]);
    let y = conv(&mut g, "y", product, 1e-4);
    g.add_output(y);
    let ranges = [
        ("x", 2.0),
        ("a_out", 50.0),
        ("square_out", 2500.0),
        ("product_out", 125e3),
        ("y_out", 12.5),
    ];
    let ranges: Ranges = ranges.into_iter().map(|(n, high)| (n.into(), (0.0, high))).collect();
    let rescaled = rescale(&g, &ranges, SIXTEEN).unwrap();
    assert!(rescaled.beyond.is_empty(), "{:?}\n{}", rescaled.beyond, rescaled.graph);
    let inputs =
        Tensors::from([("x".into(), Tensor::from_vec(&[1, 1, 1, 1], vec![1.7_f32]).unwrap())]);
    assert!(same(&g, &rescaled, &inputs) >= 3);
}

fn ranges(list: &[(&str, f64)]) -> Ranges {
    list.iter().map(|&(name, high)| (name.to_owned(), (0.0, high))).collect()
}

#[test]
fn scales_of_normalisations_can_still_become_part_of_weights() {
    // The numbers of the convolution are 16 times those of the result.
    let mut g = Graph::new("norm");
    let x = g.add_input("x", DType::F32, &[1, 1, 1, 1], &[]).unwrap();
    let a = conv(&mut g, "a", x, 40.0);
    let parameter = |g: &mut Graph, name: &str, number: f32| {
        g.add_constant(name, Tensor::from_vec(&[1], vec![number]).unwrap()).unwrap()
    };
    let scale = parameter(&mut g, "scale", 0.0625);
    let (bias, mean) = (parameter(&mut g, "bias", 0.5), parameter(&mut g, "mean", 2.0));
    let variance = parameter(&mut g, "variance", 1.0);
    let norm = Op::BatchNorm(BatchNorm { epsilon: 0.0 });
    let n = node(&mut g, "norm", norm, &[a, scale, bias, mean, variance]);
    let r = node(&mut g, "relu", Op::Unary(Unary::Relu), &[n]);
    let y = conv(&mut g, "y", r, 1.0);
    g.add_output(y);
    let known = [("x", 1.0), ("a_out", 40.0), ("norm_out", 3.0), ("relu_out", 3.0), ("y_out", 3.0)];
    let rescaled = rescale(&g, &ranges(&known), SIXTEEN).unwrap();
    let exponent = |value: &str| {
        let found = rescaled.scaled.values().find(|scaled| scaled.value == value);
        found.map_or(0, |scaled| scaled.exponent)
    };
    // With 4 less for its operand, the scale is 1.
    assert_eq!(exponent("a_out"), exponent("norm_out") - 4);
    let inputs = Tensor::from_vec(&[1, 1, 1, 1], vec![0.7_f32]).unwrap();
    same(&g, &rescaled, &Tensors::from([("x".into(), inputs)]));
}

#[test]
fn a_small_number_under_a_root_is_for_the_host() {
    let mut g = Graph::new("root");
    let x = g.add_input("x", DType::F32, &[1, 1, 1, 1], &[]).unwrap();
    let a = conv(&mut g, "a", x, 0.001);
    let root = node(&mut g, "root", Op::Unary(Unary::Sqrt), &[a]);
    let y = conv(&mut g, "y", root, 2.0);
    g.add_output(y);
    let known = [("x", 4.0), ("a_out", 0.004), ("root_out", 0.064), ("y_out", 0.13)];
    let rescaled = rescale(&g, &ranges(&known), SIXTEEN).unwrap();
    // One step of the machine would be left of the operand, 16 of the root.
    let beyond: Vec<_> = rescaled.beyond.iter().map(|b| (&*b.value, b.reach < 0.25)).collect();
    let small = |value| beyond.contains(&(value, true));
    assert!(small("a_out") && small("root_out"), "{:?}\n{}", rescaled.beyond, rescaled.graph);
    assert!(beyond.iter().all(|&(_, small)| small));
    for name in ["a", "y"] {
        assert!(rescaled.beyond.iter().all(|beyond| beyond.node != name), "{name} is for the host");
    }
}

#[test]
fn a_long_sum_takes_a_scaled_operand() {
    let mut g = Graph::new("sum");
    let x = g.add_input("x", DType::F32, &[1, 4096], &[]).unwrap();
    let sum = Reduce { kind: ReduceKind::Sum, axes: vec![1], keep_dims: true };
    let s = node(&mut g, "sum", Op::Reduce(sum), &[x]);
    let c = g.add_constant("c", Tensor::scalar(1.0_f32 / 4096.0)).unwrap();
    let mean = node(&mut g, "mean", Op::Binary(Binary::Mul), &[s, c]);
    let y = node(&mut g, "y", Op::Binary(Binary::Sub), &[x, mean]);
    g.add_output(y);
    let known = [("x", 1.0), ("sum_out", 2000.0), ("mean_out", 0.5), ("y_out", 1.0)];
    let rescaled = rescale(&g, &ranges(&known), SIXTEEN).unwrap();
    assert!(rescaled.beyond.is_empty(), "{:?}\n{}", rescaled.beyond, rescaled.graph);
    let scaled: Vec<_> = rescaled.scaled.keys().map(|name| &**name).collect();
    // 2000 / 64 is within a quarter of the range; other readers of the operand have all of its bits.
    assert_eq!(scaled, ["sum_out * 2^-6", "x * 2^-6"]);
}

#[test]
fn names_that_scales_would_take_are_left_to_their_owners() {
    let (mut graph, mut ranges) = high();
    let x = graph.inputs()[0];
    let relu = Op::Unary(Unary::Relu);
    let other = graph.add_node("x * 2^-1", relu, &[Some(x)], "a_out * 2^-3").unwrap();
    graph.add_output(other);
    ranges.insert("a_out * 2^-3".to_owned(), (0.0, 4.0));
    let rescaled = rescale(&graph, &ranges, SIXTEEN).unwrap();
    let inputs = Tensor::from_vec(&[1, 1, 1, 1], vec![2.75_f32]).unwrap();
    assert_eq!(same(&graph, &rescaled, &Tensors::from([("x".into(), inputs)])), 2);
}
