//! Quantising by a recipe: which values share a grid, which layers are left alone, how good it is.

use quincunx_graph::execute::{Keep, exact, float};
use quincunx_graph::passes::{
    Calibrator, Grid, Layer, Method, Noise, Observations, Overrides, Quantised, Recipe, Scheme,
    check_quantisable, quantise_by,
};
use quincunx_graph::{
    Activation, Binary, Conv, ConvTranspose, Gemm, Graph, Op, Pad, PadMode, Pool, PoolKind,
    Quantiser, Unary, ValueId, Window,
};
use quincunx_tensor::{DType, Tensor, Tensors};

fn numbers(shape: &[usize], seed: u32, scale: f32) -> Tensor {
    let count: usize = shape.iter().product();
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((state >> 16) as f32 / 65_536.0 - 0.5) * 2.0 * scale
    };
    Tensor::from_vec(shape, (0..count).map(|_| next()).collect()).unwrap()
}

fn node(g: &mut Graph, name: &str, op: Op, inputs: &[ValueId]) -> ValueId {
    let inputs: Vec<_> = inputs.iter().map(|&i| Some(i)).collect();
    g.add_node(name, op, &inputs, &format!("{name}_out")).unwrap()
}

fn constant(g: &mut Graph, name: &str, shape: &[usize], seed: u32, scale: f32) -> ValueId {
    g.add_constant(name, numbers(shape, seed, scale)).unwrap()
}

fn conv(g: &mut Graph, name: &str, x: ValueId, channels: usize, seed: u32) -> ValueId {
    let inner = g[x].shape[1];
    let w = constant(g, &format!("{name}.w"), &[channels, inner, 1, 1], seed, 1.0);
    let b = constant(g, &format!("{name}.b"), &[channels], seed + 1, 0.5);
    node(g, name, Op::Conv(Conv { window: Window::new(&[1, 1]), groups: 1 }), &[x, w, b])
}

/// Two branches of different range that are joined, with a constant; then a layer.
fn joined() -> Graph {
    let mut g = Graph::new("joined");
    let x = g.add_input("x", DType::F32, &[1, 2, 4, 4], &[]).unwrap();
    let a = conv(&mut g, "a", x, 2, 1);
    let a = node(&mut g, "relu", Op::Unary(Unary::Relu), &[a]);
    let wide = constant(&mut g, "wide", &[1], 9, 40.0);
    let b = node(&mut g, "b", Op::Binary(Binary::Mul), &[x, wide]);
    let b = node(
        &mut g,
        "max",
        Op::Pool(Pool { kind: PoolKind::Max, window: Window::new(&[1, 1]), ceil: false }),
        &[b],
    );
    let k = constant(&mut g, "k", &[1, 1, 4, 4], 4, 1.0);
    let c = node(&mut g, "join", Op::Concat { axis: 1 }, &[a, b, k]);
    let c = node(&mut g, "turn", Op::Transpose { order: vec![0, 1, 3, 2] }, &[c]);
    let y = conv(&mut g, "last", c, 3, 7);
    g.add_output(y);
    g
}

fn samples(count: u32) -> Vec<Tensors> {
    (0..count)
        .map(|i| Tensors::from([("x".to_owned(), numbers(&[1, 2, 4, 4], 100 + i, 1.0))]))
        .collect()
}

fn observe(graph: &Graph, method: Method) -> Observations {
    let mut calibrator = Calibrator::new(graph, method).unwrap();
    for (index, sample) in samples(25).iter().enumerate() {
        calibrator.add(sample, index).unwrap();
    }
    calibrator.finish().unwrap()
}

fn quantised(graph: &Graph, recipe: &Recipe) -> Quantised {
    let result = quantise_by(graph, &observe(graph, recipe.method), recipe).unwrap();
    assert_eq!(result.graph.verify(), []);
    result
}

fn affine() -> Recipe {
    Recipe::from(&Scheme::AFFINE_INT8)
}

fn with(layers: &[(&str, Overrides)]) -> Recipe {
    let mut recipe = affine();
    recipe.layers.extend(layers.iter().map(|(name, overrides)| ((*name).to_owned(), *overrides)));
    recipe
}

fn layer<'a>(result: &'a Quantised, name: &str) -> &'a Layer {
    result.layers.iter().find(|layer| layer.name == name).unwrap_or_else(|| panic!("no {name}"))
}

fn grid<'a>(result: &'a Quantised, name: &str) -> &'a Quantiser {
    &layer(result, name).activation.as_ref().unwrap_or_else(|| panic!("{name}: no grid")).quantiser
}

/// Signal to noise of the output, in decibels.
fn quality(graph: &Graph, result: &Graph) -> f64 {
    let mut noise = Noise::default();
    for sample in samples(25) {
        let name = &graph[graph.outputs()[0]].name;
        let expected = float(graph, &sample, Keep::Outputs).unwrap()[name].to_f64();
        let found = exact(result, &sample, Keep::Outputs).unwrap()[name].to_f64();
        noise.add(Noise::between(&expected, &found));
    }
    noise.decibels().unwrap()
}

#[test]
fn joined_values_share_a_grid() {
    let graph = joined();
    for method in [Method::MinMax, Method::Percentile(99.0), Method::Mse] {
        let result = quantised(&graph, &Recipe { method, ..affine() });
        assert_eq!(grid(&result, "relu"), grid(&result, "b"));
        let k = &layer(&result, "join").parameters[0].quantiser;
        assert_eq!(k, grid(&result, "relu"));
        // So that the layer behind sees one grid, through Concat and Transpose.
        let (_, last) = result.graph.nodes().find(|(_, n)| n.name == "last").unwrap();
        assert_eq!(result.graph.grid(last.input(0).unwrap()), Some(k));
        assert!(quality(&graph, &result.graph) > 30.0);
    }
    let ends = layer(&quantised(&graph, &affine()), "relu").activation.clone().unwrap();
    assert!(ends.high > 20.0 && ends.low < -20.0, "the range of both: {ends:?}");
}

/// Where the user wants different grids, the joined values get one of their own.
#[test]
fn joined_values_with_different_wishes() {
    let graph = joined();
    let wish = Overrides { activations: Some(5), ..Overrides::default() };
    let result = quantised(&graph, &with(&[("a", wish)]));
    assert_eq!(grid(&result, "relu").width.as_uniform(), Some(5), "the ReLU stands for its layer");
    assert_eq!(grid(&result, "b").width.as_uniform(), Some(8));
    assert_eq!(grid(&result, "join").width.as_uniform(), Some(8));
    let own = quantised(
        &graph,
        &with(&[("a", wish), ("relu", Overrides { activations: Some(6), ..Overrides::default() })]),
    );
    assert_eq!(grid(&own, "relu").width.as_uniform(), Some(6), "its own wish outweighs");
}

#[test]
fn biases_lie_on_the_grid_of_the_sums() {
    let result = quantised(&joined(), &affine());
    for name in ["a", "last"] {
        let (_, node) = result.graph.nodes().find(|(_, n)| n.name == name).unwrap();
        let grid = |index: usize| result.graph.grid(node.input(index).unwrap()).unwrap().clone();
        let (x, w, b) = (grid(0), grid(1), grid(2));
        let x = x.scale.as_uniform().unwrap();
        let sums: Vec<f64> = w.scale.values().iter().map(|w| w * x).collect();
        assert_eq!(b.scale.values(), sums, "exactly");
        assert_eq!((b.width.as_uniform(), b.zero.as_uniform()), (Some(32), Some(0)));
        assert!(w.scale.values().len() == result.graph[node.input(2).unwrap()].shape[0]);
    }
}

#[test]
fn skipped_layers_stay_float() {
    let graph = joined();
    let skip = Overrides { skip: Some(true), ..Overrides::default() };
    let result = quantised(&graph, &with(&[("a", skip), ("last", skip)]));
    let node = |name: &str| result.graph.nodes().find(|(_, n)| n.name == name).unwrap().1;
    let operand = |name, index| &result.graph[node(name).input(index).unwrap()];
    assert_eq!(operand("a", 0).name, "x", "reads the input as it is");
    assert_eq!(operand("b", 0).name, "x_quantised");
    for (name, index) in [("a", 1), ("a", 2), ("last", 1), ("last", 2)] {
        assert!(operand(name, index).constant.as_ref().unwrap().quantiser.is_none());
    }
    // The join is quantised, so its operands are, whoever computes them.
    assert_eq!(operand("join", 0).name, "relu_out_quantised");
    assert!(layer(&result, "a").skipped && layer(&result, "last").skipped);
    let all: Vec<_> = graph.nodes().map(|(_, n)| (n.name.as_str(), skip)).collect();
    let nothing = quantised(&graph, &with(&all));
    assert_eq!(nothing.graph.to_string(), graph.to_string());
}

/// A value that moves on to a skipped layer and to others is float only for the skipped one.
#[test]
fn movement_between_skipped_layers() {
    let mut g = Graph::new("g");
    let x = g.add_input("x", DType::F32, &[1, 2, 4, 4], &[]).unwrap();
    let a = conv(&mut g, "a", x, 2, 1);
    let t = node(&mut g, "turn", Op::Transpose { order: vec![0, 1, 3, 2] }, &[a]);
    let y = conv(&mut g, "last", t, 2, 5);
    g.add_output(y);
    let skip = Overrides { skip: Some(true), ..Overrides::default() };
    let result = quantised(&g, &with(&[("a", skip), ("turn", skip)]));
    let last = result.graph.nodes().find(|(_, n)| n.name == "last").unwrap().1;
    assert_eq!(result.graph[last.input(0).unwrap()].name, "turn_out_quantised");
}

#[test]
fn widths_are_those_of_the_recipe() {
    let graph = joined();
    for width in 2..=16 {
        let wish = Overrides {
            weights: Some(width),
            activations: Some(18 - width),
            signed: Some(width % 2 == 0),
            ..Overrides::default()
        };
        let pow2 = Overrides { grid: Some(Grid::PowerOfTwo), ..wish };
        let result = quantised(
            &graph,
            &with(&[("b", Overrides { signed: Some(true), ..pow2 }), ("a", wish)]),
        );
        for name in ["relu", "b"] {
            assert_eq!(grid(&result, name).width.as_uniform(), Some(18 - width));
        }
        assert_eq!(grid(&result, "relu").signed.as_uniform(), Some(width % 2 == 0));
        assert!(grid(&result, "b").is_fixed_point());
        for name in ["a", "b"] {
            let weights = &layer(&result, name).parameters[0].quantiser;
            assert_eq!(weights.width.as_uniform(), Some(width), "{name}");
            assert_eq!(weights.signed.as_uniform(), Some(true));
        }
    }
}

#[test]
fn more_bits_are_better_and_least_error_is_best() {
    let graph = joined();
    let quality_of = |width, method| {
        let scheme = Scheme::Affine { weights: width, activations: width };
        quality(&graph, &quantised(&graph, &Recipe { method, ..Recipe::from(&scheme) }).graph)
    };
    let qualities: Vec<f64> = [4, 6, 8, 12].map(|w| quality_of(w, Method::MinMax)).into();
    assert!(qualities.windows(2).all(|pair| pair[1] > pair[0] + 8.0), "{qualities:?}");
    assert!(quality_of(4, Method::Mse) > quality_of(4, Method::MinMax) - 0.5);
}

/// The parts of the recipe that cannot be followed.
#[test]
fn wishes_that_cannot_be_followed() {
    let graph = joined();
    let code = |recipe: &Recipe| {
        let found = observe(&graph, Method::MinMax);
        quantise_by(&graph, &found, recipe).unwrap_err().code()
    };
    for width in [0, 1, 17, u32::MAX] {
        let wish = Overrides { weights: Some(width), ..Overrides::default() };
        assert_eq!(code(&with(&[("a", wish)])), "Q0315");
        let scheme = Scheme::Affine { weights: 8, activations: width };
        assert_eq!(code(&Recipe::from(&scheme)), "Q0315");
    }
    for percent in [49.9, 100.1, f64::NAN, -1.0] {
        assert_eq!(code(&Recipe { method: Method::Percentile(percent), ..affine() }), "Q0315");
    }
    let mut unsigned = Recipe::from(&Scheme::POWER_OF_TWO_8);
    unsigned.default.signed = Some(false);
    assert_eq!(code(&unsigned), "Q0315", "negative numbers without a zero point");
    let empty = Calibrator::new(&graph, Method::Mse).unwrap().finish().unwrap_err();
    assert_eq!(empty.code(), "Q0313");
}

/// A limit may be infinite, it only chooses; a factor may not, which is known without samples.
#[test]
fn constants_that_are_not_finite() {
    let graph = |op: Binary, number: f32| {
        let mut g = Graph::new("g");
        let x = g.add_input("x", DType::F32, &[1, 2, 4, 4], &[]).unwrap();
        let bad = Tensor::from_vec::<f32>(&[1], vec![number]).unwrap();
        let k = g.add_constant("k", bad).unwrap();
        let y = node(&mut g, "limit", Op::Binary(op), &[x, k]);
        g.add_output(y);
        g
    };
    for (op, number) in
        [(Binary::Mul, f32::INFINITY), (Binary::Add, -f32::INFINITY), (Binary::Max, f32::NAN)]
    {
        let problem = check_quantisable(&graph(op, number), &affine()).unwrap_err();
        assert_eq!(problem.code(), "Q0313");
        assert!(problem.to_string().contains("limit"), "{problem}");
    }
    for (op, number) in [(Binary::Min, f32::INFINITY), (Binary::Max, -f32::INFINITY)] {
        let result = quantised(&graph(op, number), &affine());
        assert!(layer(&result, "x").activation.is_some());
        assert!(result.layers.iter().all(|layer| layer.parameters.is_empty()));
    }
}

/// The observations do not depend on the order of the samples or on how they are divided.
#[test]
fn calibration_can_be_divided() {
    let graph = joined();
    let whole = quantised(&graph, &affine()).graph.to_string();
    let all = samples(25);
    let mut parts: Vec<_> = all
        .chunks(7)
        .map(|chunk| {
            let mut part = Calibrator::new(&graph, Method::Mse).unwrap();
            chunk.iter().for_each(|sample| part.add(sample, 1).unwrap());
            part
        })
        .collect();
    let mut merged = parts.pop().unwrap();
    parts.into_iter().for_each(|part| merged.merge(part));
    let divided = quantise_by(&graph, &merged.finish().unwrap(), &affine()).unwrap();
    assert_eq!(divided.graph.to_string(), whole);
}

/// Skipped joins, and parameters that must stay as they are.
#[test]
fn what_stays_float() {
    let graph = joined();
    let skip = Overrides { skip: Some(true), ..Overrides::default() };
    let result = quantised(&graph, &with(&[("join", skip)]));
    let last = result.graph.nodes().find(|(_, n)| n.name == "last").unwrap().1;
    assert!(result.graph.grid(last.input(0).unwrap()).is_some());
    let mut g = Graph::new("g");
    let x = g.add_input("x", DType::F32, &[1, 2, 4, 4], &[]).unwrap();
    let two = g.add_constant("two", Tensor::scalar(2.0_f32)).unwrap();
    let y = node(&mut g, "square", Op::Binary(Binary::Pow), &[x, two]);
    g.add_output(y);
    let result = quantised(&g, &affine());
    assert!(layer(&result, "x").activation.is_some());
    let square = result.graph.nodes().find(|(_, n)| n.name == "square").unwrap().1;
    assert_eq!(result.graph[square.input(1).unwrap()].name, "two");
}

/// Behind a product a leaky ReLU is part of the layer; behind a sum it is one of its own.
/// A constant row behind a product with weights is a bias: no quantiser lies between, and its codes have
/// 32 bits. Machines of one format round before the sum.
#[test]
fn rows_added_to_products_are_biases() {
    let mut g = Graph::new("tokens");
    let x = g.add_input("x", DType::F32, &[1, 2, 4, 4], &[]).unwrap();
    let w = constant(&mut g, "w", &[4, 6], 3, 1.0);
    let product = node(&mut g, "product", Op::MatMul, &[x, w]);
    let b = constant(&mut g, "b", &[1, 6], 5, 0.5);
    let sum = node(&mut g, "sum", Op::Binary(Binary::Add), &[b, product]);
    let y = node(&mut g, "relu", Op::Unary(Unary::Relu), &[sum]);
    let y = node(&mut g, "neg", Op::Unary(Unary::Neg), &[y]);
    g.add_output(y);
    let bias = |result: &Quantised| {
        let parameters = &layer(result, "sum").parameters;
        (parameters[0].bias, parameters[0].quantiser.clone())
    };
    let result = quantised(&g, &affine());
    let (is_bias, codes) = bias(&result);
    assert!(is_bias && codes.width.as_uniform() == Some(32));
    let weights = &layer(&result, "product").parameters[0].quantiser.scale;
    let step = grid(&result, "x").scale.as_uniform().unwrap();
    let expected: Vec<f64> =
        weights.values().iter().map(|scale| f64::from((scale * step) as f32)).collect();
    assert_eq!(codes.scale.values(), expected);
    for (recipe, between) in [
        (affine(), false),
        (Recipe::from(&Scheme::POWER_OF_TWO_8), false),
        (Recipe::from(&Scheme::Uniform { width: 16, point: 8 }), true),
    ] {
        let result = quantised(&g, &recipe);
        assert_eq!(layer(&result, "product").activation.is_some(), between);
        assert_eq!(layer(&result, "sum").parameters[0].bias, !between);
        assert!(quality(&g, &result.graph) > 20.0);
    }
}

#[test]
fn leaky_relus_of_products_are_quantised_instead() {
    let mut g = Graph::new("g");
    let x = g.add_input("x", DType::F32, &[1, 2, 4, 4], &[]).unwrap();
    let w = constant(&mut g, "w", &[2, 2, 1, 1], 3, 1.0);
    let conv = Conv { window: Window::new(&[1, 1]), groups: 1 };
    let leaky = || Op::Activation(Activation::LeakyRelu { alpha: 0.1 });
    let y = node(&mut g, "conv", Op::Conv(conv), &[x, w]);
    let y = node(&mut g, "leaky", leaky(), &[y]);
    let y = node(&mut g, "sum", Op::Binary(Binary::Add), &[y, x]);
    let y = node(&mut g, "leaky sum", leaky(), &[y]);
    let y = node(&mut g, "neg", Op::Unary(Unary::Neg), &[y]);
    g.add_output(y);
    let result = quantised(&g, &affine());
    let placed = |name| layer(&result, name).activation.is_some();
    assert_eq!(["leaky", "sum", "leaky sum"].map(placed), [true; 3]);
    assert!(!placed("conv"));
    assert!(quality(&g, &result.graph) > 35.0);
}

/// Layers with unusual parameters keep their meaning.
#[test]
fn biases_of_every_shape() {
    let gemm = Gemm { alpha: 0.5, beta: -2.0, transpose_a: false, transpose_b: false };
    for shape in [&[][..], &[1], &[3], &[1, 3], &[4, 1], &[4, 3]] {
        let mut g = Graph::new("g");
        let x = g.add_input("x", DType::F32, &[1, 2, 4, 4], &[]).unwrap();
        let flat = node(&mut g, "flat", Op::Reshape { shape: vec![4, 8] }, &[x]);
        let w = constant(&mut g, "w", &[8, 3], 3, 1.0);
        let c = constant(&mut g, "c", shape, 4, 1.0);
        let y = node(&mut g, "gemm", Op::Gemm(gemm.clone()), &[flat, w, c]);
        g.add_output(y);
        let result = quantised(&g, &affine());
        assert!(quality(&g, &result.graph) > 35.0, "{shape:?}");
    }
    let mut g = Graph::new("g");
    let x = g.add_input("x", DType::F32, &[1, 2, 4, 4], &[]).unwrap();
    let (w, b) =
        (constant(&mut g, "w", &[2, 3, 2, 2], 3, 1.0), constant(&mut g, "b", &[6], 4, 1.0));
    let conv = ConvTranspose {
        window: Window::new(&[2, 2]),
        groups: 2,
        output_padding: [0, 0][..].into(),
    };
    let up = node(&mut g, "up", Op::ConvTranspose(conv), &[x, w, b]);
    let clip = Activation::Clip { min: Some(-1.0), max: Some(1.0) };
    let up = node(&mut g, "clip", Op::Activation(clip), &[up]);
    let pads = vec![(0, 0), (0, 0), (1, 0), (0, 1)].into();
    let y = node(&mut g, "pad", Op::Pad(Pad { pads, mode: PadMode::Constant(0.5) }), &[up]);
    let y = node(&mut g, "neg", Op::Unary(Unary::Neg), &[y]);
    g.add_output(y);
    let result = quantised(&g, &affine());
    assert!(layer(&result, "up").activation.is_none(), "the Clip is quantised instead");
    assert!(layer(&result, "pad").activation.is_some(), "0.5 may lie on no grid");
    assert!(quality(&g, &result.graph) > 35.0);
}

#[test]
fn a_uniform_grid_is_the_same_everywhere() {
    let graph = joined();
    let recipe = Recipe::from(&Scheme::Uniform { width: 12, point: 5 });
    let result = quantised(&graph, &recipe);
    let step = 1.0 / 32.0;
    for layer in &result.layers {
        let parameters = layer.parameters.iter().map(|parameter| &parameter.quantiser);
        for quantiser in layer.activation.iter().map(|grid| &grid.quantiser).chain(parameters) {
            assert_eq!(*quantiser.scale.values(), [step], "{}", layer.name);
            assert_eq!(
                (quantiser.width.values(), quantiser.signed.values()),
                (&[12][..], &[true][..])
            );
        }
    }
    assert!(layer(&result, "x").activation.is_some() && layer(&result, "a").parameters.len() == 2);
    // Halves of a step go up, whatever their sign; the ends are the ends.
    let mut g = Graph::new("constants");
    let x = g.add_input("x", DType::F32, &[1, 2, 4, 4], &[]).unwrap();
    let reals = [0.5, -0.5, 1.5, -1.5, 9e9, -9e9].map(|steps: f32| steps * step as f32).to_vec();
    let c = g.add_constant("c", Tensor::from_vec(&[6, 1, 1, 1, 1], reals).unwrap()).unwrap();
    let y = node(&mut g, "add", Op::Binary(Binary::Add), &[x, c]);
    g.add_output(y);
    let result = quantised(&g, &recipe);
    let (_, value) = result.graph.values().find(|(_, v)| v.name == "c_quantised").unwrap();
    let codes = value.constant.as_ref().unwrap().tensor.to_i64().unwrap();
    assert_eq!(codes, [1, 0, 2, -1, 2047, -2048]);
    for (width, point) in [(1, 0), (8, 8), (33, 4), (16, u32::MAX)] {
        let bad = Recipe::from(&Scheme::Uniform { width, point });
        assert_eq!(bad.check().unwrap_err().code(), "Q0315", "{width} {point}");
    }
    let mut unsigned = recipe;
    unsigned.default.signed = Some(false);
    assert_eq!(unsigned.check().unwrap_err().code(), "Q0315");
}
