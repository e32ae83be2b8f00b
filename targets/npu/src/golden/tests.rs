//! Layers worked out by hand.

use super::prepare;
use quincunx_contract::Numerics;
use quincunx_diag::Diagnostic;
use quincunx_graph::{
    Activation, Binary, Constant, Conv, Gemm, Graph, Op, Param, Pool, PoolKind, Quantiser, Unary,
    ValueId, Window,
};
use quincunx_tensor::{DType, Tensor, Tensors};

/// A graph whose nodes are called as what they are, and what is put into it.
struct Net {
    graph: Graph,
    inputs: Tensors,
}

impl Net {
    fn new() -> Net {
        Net { graph: Graph::new("net"), inputs: Tensors::new() }
    }

    fn input(&mut self, name: &str, shape: &[usize], reals: &[f64]) -> ValueId {
        self.inputs.insert(name.to_owned(), Tensor::from_vec(shape, reals.to_vec()).unwrap());
        self.graph.add_input(name, DType::F32, shape, &[]).unwrap()
    }

    /// A node whose result has its name.
    fn node(&mut self, name: &str, op: Op, inputs: &[ValueId]) -> ValueId {
        let inputs: Vec<Option<ValueId>> = inputs.iter().copied().map(Some).collect();
        self.graph.add_node(&format!("{name}_node"), op, &inputs, name).unwrap()
    }

    fn quantise(&mut self, name: &str, x: ValueId, grid: Quantiser) -> ValueId {
        self.node(name, Op::Quantise(grid), &[x])
    }

    fn codes(&mut self, name: &str, shape: &[usize], codes: &[i64], of: Quantiser) -> ValueId {
        let tensor = Tensor::from_vec(shape, codes.to_vec()).unwrap();
        self.graph.add_constant(name, Constant { tensor, quantiser: Some(of) }).unwrap()
    }

    fn plain(&mut self, name: &str, reals: &[f32]) -> ValueId {
        let tensor = Tensor::from_vec(&[reals.len()], reals.to_vec()).unwrap();
        self.graph.add_constant(name, tensor).unwrap()
    }

    /// The values of a run; every list of results is a layer.
    fn run(&self, layers: &[&[&str]]) -> Result<Tensors, Diagnostic> {
        let mut graph = self.graph.clone();
        if graph.outputs().is_empty() {
            let (_, last) = graph.nodes().last().unwrap();
            graph.add_output(last.output);
        }
        prepare(&graph, &numerics(layers))?.run(&self.inputs)
    }

    /// The numbers of the last result of a run.
    fn last(&self, layers: &[&[&str]]) -> Vec<f64> {
        let results = self.run(layers).unwrap();
        results[*layers.last().unwrap().last().unwrap()].to_f64()
    }
}

fn numerics(layers: &[&[&str]]) -> Numerics {
    let layer = |names: &&[&str]| {
        let nodes: Vec<String> = names.iter().map(|name| format!("{name}_node")).collect();
        serde_json::json!({ "nodes": nodes })
    };
    let layers: Vec<_> = layers.iter().map(layer).collect();
    Numerics(serde_json::json!({ "layers": layers }))
}

fn grid(signed: bool, scale: f64, zero: i64) -> Quantiser {
    Quantiser { zero: Param::uniform(zero), ..Quantiser::symmetric(signed, 8, scale) }
}

/// Numbers of input `x` of shape `[1, 1, 2, 2]`, whose zero is code 131, and a padded convolution of
/// two outputs with their own scales.
fn padded() -> (Net, ValueId) {
    let mut net = Net::new();
    let x = net.input("x", &[1, 1, 2, 2], &[0.5, 1.0, 1.5, 2.0]);
    let x = net.quantise("xq", x, grid(false, 0.5, 131));
    let mut of = Quantiser::symmetric(true, 8, 1.0);
    of.scale = Param::new(&[2, 1, 1, 1], vec![0.25, 0.5]).unwrap();
    of.zero = Param::new(&[2, 1, 1, 1], vec![0, 1]).unwrap();
    let codes: Vec<i64> = (1..=9).chain((1..=9).map(|code| 1 - code)).collect();
    let weights = net.codes("w", &[2, 1, 3, 3], &codes, of);
    let bias = net.plain("b", &[1.0, 2.0]);
    let mut window = Window::new(&[3, 3]);
    window.pads.fill((1, 1));
    let y = net.node("y", Op::Conv(Conv { window, groups: 1 }), &[x, weights, bias]);
    (net, y)
}

/// Sums 77, 67, 47, 37 of steps 1/8 and negative ones of steps 1/4.
const PADDED: [f64; 8] = [10.625, 9.375, 6.875, 5.625, -17.25, -14.75, -9.75, -7.25];

#[test]
fn padding_counts_as_zero() {
    let (net, _) = padded();
    assert_eq!(net.last(&[&["xq"], &["y"]]), PADDED);
}

#[test]
fn activations_come_before_the_grid() {
    let of = |op: Op, grid: Option<Quantiser>| {
        let (mut net, y) = padded();
        let z = net.node("z", op, &[y]);
        match grid {
            None => net.last(&[&["xq"], &["y", "z"]]),
            Some(grid) => {
                net.quantise("zq", z, grid);
                let results = net.run(&[&["xq"], &["y", "z", "zq"]]).unwrap();
                // What is inside of a layer is no number.
                assert_eq!(results.keys().collect::<Vec<_>>(), ["x", "xq", "zq"]);
                results["zq"].to_f64()
            }
        }
    };
    let leaky = Op::Activation(Activation::LeakyRelu { alpha: 0.5 });
    // Codes 52.5, 47.5, 37.5, 32.5, -24.5, -19.5, -9.5, -4.5 before rounding.
    let expected = [10.5, 9.5, 7.0, 5.5, -8.5, -7.5, -5.0, -3.5];
    assert_eq!(of(leaky, Some(grid(true, 0.25, 10))), expected);
    // The same with codes that have no sign.
    let leaky = Op::Activation(Activation::LeakyRelu { alpha: 0.5 });
    assert_eq!(of(leaky, Some(grid(false, 0.25, 138))), expected);
    let clip = Op::Activation(Activation::Clip { min: Some(0.0), max: Some(6.0) });
    assert_eq!(of(clip, None), [6.0, 6.0, 6.0, 5.625, 0.0, 0.0, 0.0, 0.0]);
    let relu = || Op::Unary(Unary::Relu);
    assert_eq!(of(relu(), None), [10.625, 9.375, 6.875, 5.625, 0.0, 0.0, 0.0, 0.0]);
    // Code 127 is 7.9375.
    let limited = of(relu(), Some(grid(true, 0.0625, 0)));
    assert_eq!(limited, [7.9375, 7.9375, 6.875, 5.625, 0.0, 0.0, 0.0, 0.0]);
}

/// The product is rounded before the offset is added, results are rounded to 11 bits.
#[test]
fn every_step_rounds() {
    let of = |x: f64, scale: f64, bias: f32| {
        let mut net = Net::new();
        let x = net.input("x", &[1, 1], &[x]);
        let x = net.quantise("xq", x, Quantiser::symmetric(true, 8, 1.0));
        let weights = net.codes("w", &[1, 1], &[1], Quantiser::symmetric(true, 8, scale));
        let bias = net.plain("b", &[bias]);
        let gemm = Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: true };
        net.node("y", Op::Gemm(gemm), &[x, weights, bias]);
        net.last(&[&["xq"], &["y"]])[0]
    };
    // 3 + 1.5 units of the last place becomes 3 + 2 of them.
    assert_eq!(of(3.0, 1.0 + 0.5_f64.powi(23), -3.0), 0.5_f64.powi(21));
    assert_eq!(of(1.0, 1.0, 2048.0), 2048.0);
    assert_eq!(of(3.0, 1.0, 2048.0), 2052.0);
    assert_eq!(of(100.0, 1000.0, 0.0), f64::INFINITY);
}

/// Sums above 2^31: 140000 products of -128 and -128, of steps 2^-17.
#[test]
fn long_sums_are_exact() {
    const LENGTH: usize = 140_000;
    let weights = Quantiser::symmetric(true, 8, 0.5_f64.powi(17));
    let net = || {
        let mut net = Net::new();
        let x = net.input("x", &[1, LENGTH, 1, 1], &[-128.0; LENGTH]);
        let x = net.quantise("xq", x, Quantiser::symmetric(true, 8, 1.0));
        (net, x)
    };
    let (mut flat, x) = net();
    let x = flat.node("flat", Op::Flatten { axis: 1 }, &[x]);
    let w = flat.codes("w", &[LENGTH, 1], &[-128; LENGTH], weights.clone());
    flat.node("y", Op::MatMul, &[x, w]);
    // 17500 is between 17488 and 17504.
    assert_eq!(flat.last(&[&["xq"], &["flat"], &["y"]]), [17504.0]);
    let (mut image, x) = net();
    let w = image.codes("w", &[1, LENGTH, 1, 1], &[-128; LENGTH], weights);
    image.node("y", Op::Conv(Conv { window: Window::new(&[1, 1]), groups: 1 }), &[x, w]);
    assert_eq!(image.last(&[&["xq"], &["y"]]), [17504.0]);
}

/// Channels of a flattened image come before its rows; factors of a product and of its bias.
#[test]
fn products_of_flattened_images() {
    let of = |transpose_b: bool| {
        let mut net = Net::new();
        let x = net.input("x", &[2, 2, 1, 2], &[1.0, 2.0, 3.0, 4.0, -1.0, 0.0, 0.0, 2.0]);
        let x = net.quantise("xq", x, grid(true, 1.0, -28));
        let x = net.node("flat", Op::Flatten { axis: 1 }, &[x]);
        let mut of = Quantiser::symmetric(true, 8, 1.0);
        let (shape, along, codes) = match transpose_b {
            true => ([2, 4], vec![2, 1], [1, 2, 3, 4, 0, 0, 0, -1]),
            false => ([4, 2], vec![2], [1, 0, 2, 0, 3, 0, 4, -1]),
        };
        of.scale = Param::new(&along, vec![0.5, 2.0]).unwrap();
        let weights = net.codes("w", &shape, &codes, of);
        let bias = net.plain("b", &[1.0, -1.0]);
        let gemm = Gemm { alpha: 0.5, beta: 4.0, transpose_a: false, transpose_b };
        net.node("y", Op::Gemm(gemm), &[x, weights, bias]);
        net.last(&[&["xq"], &["flat"], &["y"]])
    };
    // Sums 30 and -4, 7 and -2, times 1/4 and 1, plus 4 and -4.
    let expected = [11.5, -8.0, 5.75, -6.0];
    assert_eq!(of(true), expected);
    assert_eq!(of(false), expected);
}

#[test]
fn operands_of_a_sum_have_their_own_grids() {
    let net = || {
        let mut net = Net::new();
        let a = net.input("a", &[1, 4], &[0.5, 1.0, -3.0, 90.0]);
        let b = net.input("b", &[1, 4], &[7.0, -21.0, 3.0, 100.0]);
        let a = net.quantise("aq", a, grid(true, 0.5, 100));
        let b = net.quantise("bq", b, grid(false, 7.0, 30));
        let sum = net.node("sum", Op::Binary(Binary::Add), &[a, b]);
        (net, sum)
    };
    // 3 is nearer to 0 than to 7, 100 to 98; code 127 of the first grid is 13.5.
    let (plain, _) = net();
    let layers: [&[&str]; 3] = [&["aq"], &["bq"], &["sum"]];
    assert_eq!(plain.last(&layers), [7.5, -20.0, -3.0, 111.5]);
    let (mut rounded, sum) = net();
    let sum = rounded.node("relu", Op::Unary(Unary::Relu), &[sum]);
    rounded.quantise("q", sum, grid(true, 1.0, -1));
    // 6.5 and 110.5 are rounded to even codes.
    let found = rounded.last(&[&["aq"], &["bq"], &["sum", "relu", "q"]]);
    assert_eq!(found, [7.0, 0.0, 0.0, 111.0]);
    // Sums of sums: of 16 bits.
    let (mut twice, sum) = net();
    twice.node("twice", Op::Binary(Binary::Add), &[sum, sum]);
    let found = twice.last(&[&["aq"], &["bq"], &["sum"], &["twice"]]);
    assert_eq!(found, [15.0, -40.0, -6.0, 223.0]);
}

/// An image `[1, 1, 2, 3]` of codes whose zero is 0.
fn image() -> (Net, ValueId) {
    let mut net = Net::new();
    let x = net.input("x", &[1, 1, 2, 3], &[-1.0, -2.0, -3.0, -4.0, -5.0, -6.5]);
    let x = net.quantise("xq", x, Quantiser::symmetric(true, 8, 1.0));
    (net, x)
}

#[test]
fn poolings_keep_the_grid_or_round() {
    let mut window = Window::new(&[2, 2]);
    window.pads = [(1, 0), (0, 1)].into_iter().collect();
    let pool = |kind, window: &Window| Op::Pool(Pool { kind, window: window.clone(), ceil: false });
    let (mut net, x) = image();
    net.node("y", pool(PoolKind::Max, &window), &[x]);
    // -6.5 became -6; what lies outside never wins.
    let layers: [&[&str]; 2] = [&["xq"], &["y"]];
    assert_eq!(net.last(&layers), [-1.0, -2.0, -3.0, -1.0, -2.0, -3.0]);
    let (mut net, x) = image();
    let y = net.node("y", pool(PoolKind::Max, &window), &[x]);
    net.quantise("q", y, grid(true, 2.0, 0));
    let found = net.last(&[&["xq"], &["y", "q"]]);
    assert_eq!(found, [0.0, -2.0, -4.0, 0.0, -2.0, -4.0]);
    let average = PoolKind::Average { count_include_pad: false };
    let (mut net, x) = image();
    net.node("y", pool(average, &Window::new(&[2, 2])), &[x]);
    assert_eq!(net.last(&layers), [-3.0, -4.0]);
    let (mut net, x) = image();
    net.node("y", pool(average, &window), &[x]);
    assert_eq!(net.run(&layers).unwrap_err().code(), "Q4096");
    let (mut net, x) = image();
    net.node("y", Op::GlobalMaxPool, &[x]);
    assert_eq!(net.last(&layers), [-1.0]);
    // Shares are a sixth rounded to 24 bits; the mean -3.5 is exact after all in 11.
    let (mut net, x) = image();
    net.node("y", Op::GlobalAveragePool, &[x]);
    assert_eq!(net.last(&layers), [-3.5]);
    let (mut net, x) = image();
    let y = net.node("y", Op::GlobalAveragePool, &[x]);
    let y = net.node("flat", Op::Reshape { shape: vec![1, -1] }, &[y]);
    net.quantise("q", y, grid(true, 0.5, 3));
    assert_eq!(net.last(&[&["xq"], &["y"], &["flat"], &["q"]]), [-3.5]);
}

#[test]
fn values_can_be_rounded_again() {
    let (mut net, x) = image();
    let y = net.quantise("y", x, grid(true, 4.0, 7));
    let relu = net.node("relu", Op::Activation(Activation::LeakyRelu { alpha: 0.25 }), &[y]);
    net.quantise("z", relu, grid(true, 0.5, 0));
    let layers: [&[&str]; 3] = [&["xq"], &["y"], &["relu", "z"]];
    // -2 and -6 lie in the middle; sums with the zero decide: 6.5 and 5.5 become 6.
    let results = net.run(&layers).unwrap();
    assert_eq!(results["y"].to_f64(), [0.0, -4.0, -4.0, -4.0, -4.0, -4.0]);
    assert_eq!(results["z"].to_f64(), [0.0, -1.0, -1.0, -1.0, -1.0, -1.0]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |net: &Net, layers: &[&[&str]], what: &str| {
        let problem = net.run(layers).unwrap_err();
        assert_eq!(problem.code(), "Q4096");
        assert!(problem.message().contains(what), "{}", problem.message());
    };
    let (mut net, y) = padded();
    net.node("z", Op::Unary(Unary::Relu), &[y]);
    refused(&net, &[&["xq"], &["y"]], "\"z_node\" is in no layer");
    refused(&net, &[&["xq"], &["y", "z"], &["y"]], "is in two layers");
    refused(&net, &[&["xq"], &["z", "y"]], "does not follow");
    refused(&net, &[&["xq"], &[], &["y", "z"]], "has no nodes");
    refused(&net, &[&["xq", "y", "z"]], "several nodes");
    let mut long = net.graph.clone();
    let z = long.value_named("z").unwrap();
    long.add_node("more_node", Op::Unary(Unary::Relu), &[Some(z)], "more").unwrap();
    let long = Net { graph: long, inputs: Tensors::new() };
    refused(&long, &[&["xq"], &["y", "z", "more"]], "Relu ends no layer");
    net.graph.add_output(y);
    refused(&net, &[&["xq"], &["y", "z"]], "not only \"z_node\" reads \"y_node\"");
    assert!(net.run(&[&["xq"], &["y"], &["z"]]).is_ok());
    assert!(prepare(&net.graph, &Numerics::default()).is_err());

    let of_input = |op: Op, what: &str| {
        let mut net = Net::new();
        let x = net.input("x", &[1, 1, 2, 2], &[0.0; 4]);
        net.node("y", op, &[x]);
        refused(&net, &[&["y"]], what);
    };
    of_input(Op::Unary(Unary::Relu), "an input that is no code");
    of_input(Op::Quantise(Quantiser::symmetric(true, 7, 1.0)), "one grid of 8 bits");
    let (mut net, y) = padded();
    net.node("z", Op::Unary(Unary::Sqrt), &[y]);
    refused(&net, &[&["xq"], &["y"], &["z"]], "no layer begins with Sqrt");

    let of_weights = |codes: [i64; 2], scales: Vec<f64>, what: &str| {
        let mut net = Net::new();
        let x = net.input("x", &[1, 2], &[0.0; 2]);
        let x = net.quantise("xq", x, grid(true, 1.0, 0));
        let mut of = Quantiser::symmetric(true, 16, 1.0);
        of.scale = Param::new(&[2, 1], scales).unwrap();
        let w = net.codes("w", &[2, 1], &codes, of);
        net.node("y", Op::MatMul, &[x, w]);
        refused(&net, &[&["xq"], &["y"]], what);
    };
    of_weights([1, 200], vec![1.0, 1.0], "within 8 bits");
    of_weights([1, 2], vec![1.0, 2.0], "several scales for an output");
}

#[test]
fn inputs_are_finite() {
    let (mut net, _) = image();
    let bad = Tensor::from_vec(&[1, 1, 2, 3], vec![f64::NAN; 6]).unwrap();
    net.inputs.insert("x".to_owned(), bad);
    net.graph.add_output(net.graph.value_named("xq").unwrap());
    let problem = net.run(&[&["xq"]]).unwrap_err();
    assert_eq!(problem.code(), "Q4097");
}
