//! Graphs at the edges of what fast forms cover: one operator each, on unusual shapes and numbers.

use quincunx_graph::{
    Activation, BatchNorm, Binary, Conv, Gemm, Graph, Op, Pool, PoolKind, Quantiser, Reduce,
    ReduceKind, Softmax, Unary, ValueId, Window,
};
use quincunx_tensor::{DType, Tensor, Tensors};
use quincunx_testkit::Random;

/// A graph of one operator whose operand 0 is the input; `None` when inference refuses it.
pub(crate) fn single(op: Op, x: &Tensor, constants: &[Tensor], on_grid: bool) -> Option<Graph> {
    let mut graph = Graph::new("edge");
    let mut value = graph.add_input("x", DType::F32, x.shape(), &[]).unwrap();
    if on_grid {
        let grid = Quantiser::symmetric(true, 8, 0.0371);
        value = graph.add_node("codes", Op::Quantise(grid), &[Some(value)], "codes_out").unwrap();
    }
    let mut inputs = vec![Some(value)];
    for (index, tensor) in constants.iter().enumerate() {
        inputs.push(Some(graph.add_constant(&format!("c{index}"), tensor.clone()).unwrap()));
    }
    let y = graph.add_node("op", op, &inputs, "y").ok()?;
    let output = if on_grid {
        let grid = Quantiser::symmetric(true, 6, 0.0537);
        graph.add_node("rounded", Op::Quantise(grid), &[Some(y)], "rounded_out").unwrap()
    } else {
        y
    };
    graph.add_output(output);
    Some(graph)
}

pub(crate) fn tensor(shape: &[usize], values: Vec<f32>) -> Tensor {
    Tensor::from_vec(shape, values).unwrap()
}

/// Windows that lie in the padding altogether, that leave gaps, and that ceil mode cuts off.
pub(crate) fn pools() -> Vec<Op> {
    let mut pools = Vec::new();
    for kind in [
        PoolKind::Max,
        PoolKind::Average { count_include_pad: false },
        PoolKind::Average { count_include_pad: true },
    ] {
        for (kernel, stride, dilation, pads) in [
            (1, 1, 1, (2, 2)),
            (2, 1, 1, (3, 2)),
            (2, 3, 2, (0, 0)),
            (3, 2, 1, (1, 1)),
            (2, 2, 3, (1, 4)),
            (3, 4, 2, (2, 1)),
        ] {
            for (rank, ceil) in [(1, false), (2, true), (2, false), (3, true)] {
                let mut window = Window::new(&vec![kernel; rank]);
                window.strides.fill(stride);
                window.dilations.fill(dilation);
                window.pads.fill(pads);
                pools.push(Op::Pool(Pool { kind, window, ceil }));
            }
        }
    }
    pools
}

/// Operators of elements and what they read beside the input of this shape.
pub(crate) fn elementwise(shape: &[usize], random: &mut Random) -> Vec<(Op, Vec<Tensor>)> {
    let mut found: Vec<(Op, Vec<Tensor>)> = [
        Op::Unary(Unary::Relu),
        Op::Unary(Unary::Neg),
        Op::Unary(Unary::Abs),
        Op::Unary(Unary::HardSwish),
        Op::Unary(Unary::Sigmoid),
        Op::Unary(Unary::Floor),
        Op::Activation(Activation::LeakyRelu { alpha: -0.25 }),
        Op::Activation(Activation::Clip { min: Some(0.5), max: Some(-0.5) }),
        Op::Activation(Activation::Clip { min: None, max: Some(f32::INFINITY) }),
        Op::Activation(Activation::Clip { min: Some(f32::NEG_INFINITY), max: None }),
        Op::Activation(Activation::HardSigmoid { alpha: 0.3, beta: -0.1 }),
        Op::Identity,
    ]
    .map(|op| (op, Vec::new()))
    .into();
    let channels = shape.get(1).copied().unwrap_or(1);
    let mut others = vec![vec![], vec![1], shape.to_vec()];
    if let Some(&inner) = shape.last() {
        others.push(vec![inner]);
    }
    if shape.len() > 2 {
        others.push([vec![channels], vec![1; shape.len() - 2]].concat());
        others.push([vec![1, channels], vec![1; shape.len() - 2]].concat());
    }
    for other in others {
        let values = tensor(&other, random.floats(other.iter().product()));
        let binaries =
            [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div, Binary::Max, Binary::Min];
        found.extend(binaries.map(|binary| (Op::Binary(binary), vec![values.clone()])));
        found.push((Op::PRelu, vec![values]));
    }
    found
}

/// Layers and reductions of an input of this shape.
pub(crate) fn layers(shape: &[usize], random: &mut Random) -> Vec<(Op, Vec<Tensor>)> {
    let mut random = |shape: &[usize]| random.tensor(shape, 1.0);
    let mut found: Vec<(Op, Vec<Tensor>)> = Vec::new();
    let softmax = |axis| (Op::Softmax(Softmax { axis, log: false }), Vec::new());
    found.extend((0..shape.len()).map(softmax));
    if let [.., depth] = *shape {
        found.push((Op::MatMul, vec![random(&[depth, 3])]));
        found.push((Op::MatMul, vec![random(&[depth])]));
        found.push((Op::MatMul, vec![random(&[2, depth, 3])]));
    }
    if let [rows, depth] = *shape {
        for (transpose_a, inner) in [(false, depth), (true, rows)] {
            let gemm = Gemm { alpha: 1.0, beta: 1.0, transpose_a, transpose_b: true };
            found.push((Op::Gemm(gemm.clone()), vec![random(&[5, inner])]));
            found.push((Op::Gemm(gemm), vec![random(&[5, inner]), random(&[1])]));
        }
    }
    if let [_, channels, ref spatial @ ..] = *shape
        && !spatial.is_empty()
    {
        let mut window = Window::new(&vec![2; spatial.len()]);
        window.pads.fill((1, 2));
        window.dilations.fill(2);
        let w = [&[4, channels], &window.kernel[..]].concat();
        found.push((Op::Conv(Conv { window, groups: 1 }), vec![random(&w), random(&[4])]));
        found.push((Op::GlobalAveragePool, Vec::new()));
        found.push((Op::GlobalMaxPool, Vec::new()));
        let mean = Reduce { kind: ReduceKind::Mean, axes: vec![2, 3], keep_dims: true };
        found.push((Op::Reduce(mean), Vec::new()));
        found.push((Op::Concat { axis: 1 }, vec![random(shape)]));
        found.push((Op::Flatten { axis: 1 }, Vec::new()));
        let parameters = vec![tensor(&[channels], vec![0.5; channels]); 4];
        found.push((Op::BatchNorm(BatchNorm { epsilon: 1e-3 }), parameters));
    }
    found
}

/// A product of codes of 8 bits whose largest sum is `255 * 128 * depth`.
pub(crate) fn deep_product(depth: usize, x_zero: i64) -> (Graph, Tensors) {
    let mut graph = Graph::new("deep");
    let x = graph.add_input("x", DType::F32, &[2, depth], &[]).unwrap();
    let codes = Quantiser {
        zero: quincunx_graph::Param::uniform(x_zero),
        ..Quantiser::symmetric(false, 8, 1.0)
    };
    let node = |graph: &mut Graph, name: &str, op: Op, inputs: &[ValueId]| {
        let inputs: Vec<_> = inputs.iter().map(|&id| Some(id)).collect();
        graph.add_node(name, op, &inputs, &format!("{name}_out")).unwrap()
    };
    let x = node(&mut graph, "codes", Op::Quantise(codes), &[x]);
    let tensor = Tensor::from_vec(&[depth, 2], [vec![-128_i8; depth], vec![127; depth]].concat());
    let weights = quincunx_graph::Constant {
        tensor: tensor.unwrap(),
        quantiser: Some(Quantiser::symmetric(true, 8, 1.0)),
    };
    let w = graph.add_constant("w", weights).unwrap();
    let product = node(&mut graph, "product", Op::MatMul, &[x, w]);
    graph.add_output(product);
    let ends = [255.0 - x_zero as f32, 0.0 - x_zero as f32];
    let values = ends.iter().flat_map(|&end| vec![end; depth]).collect();
    let x = Tensor::from_vec::<f32>(&[2, depth], values).unwrap();
    (graph, Tensors::from([("x".to_owned(), x)]))
}
