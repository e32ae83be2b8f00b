//! Operators that move, convert and interpolate elements, and the layers beside them, on cases
//! computed by hand.

use quincunx_graph::execute::{Keep, exact, float};
use quincunx_graph::{
    Binary, Cell, Constant, Conv, ConvTranspose, Coordinates, Direction, Graph, Interpolation,
    Nearest, Op, Pad, PadMode, Quantiser, Recurrent, RecurrentOutput, Resize, ResizeTarget,
    SliceRange, Source, ValueId, Window,
};
use quincunx_tensor::{DType, Tensor, Tensors};

fn floats(shape: &[usize], values: &[f32]) -> Tensor {
    Tensor::from_vec(shape, values.to_vec()).unwrap()
}

fn longs(shape: &[usize], values: &[i64]) -> Tensor {
    Tensor::from_vec(shape, values.to_vec()).unwrap()
}

fn bools(values: &[u8]) -> Tensor {
    Tensor::new(DType::Bool, &[values.len()], values.to_vec().into()).unwrap()
}

/// A graph of one node with the given operands as inputs.
fn graph_of(op: &Op, operands: &[Tensor]) -> Result<(Graph, Tensors), quincunx_diag::Diagnostic> {
    let mut graph = Graph::new("one");
    let mut tensors = Tensors::new();
    let mut ids = Vec::new();
    for (index, tensor) in operands.iter().enumerate() {
        let name = format!("x{index}");
        ids.push(Some(graph.add_input(&name, tensor.dtype(), tensor.shape(), &[])?));
        tensors.insert(name, tensor.clone());
    }
    let y = graph.add_node("node", op.clone(), &ids, "y")?;
    graph.add_output(y);
    assert_eq!(graph.verify(), []);
    Ok((graph, tensors))
}

/// The result in f32 (or whatever type it has).
fn run(op: Op, operands: &[Tensor]) -> Tensor {
    let (graph, tensors) = graph_of(&op, operands).unwrap();
    float(&graph, &tensors, Keep::Outputs).unwrap().remove("y").unwrap()
}

/// Both executors must give `expected`.
fn check(op: Op, operands: &[Tensor], shape: &[usize], expected: &[f64]) {
    let (graph, tensors) = graph_of(&op, operands).unwrap();
    let by_float = float(&graph, &tensors, Keep::Outputs).unwrap().remove("y").unwrap();
    let by_exact = exact(&graph, &tensors, Keep::Outputs).unwrap().remove("y").unwrap();
    assert_eq!((by_float.shape(), by_exact.shape()), (shape, shape), "{op:?}");
    assert_eq!(by_float.to_f64(), expected, "{op:?} in f32");
    assert_eq!(by_exact.to_f64(), expected, "{op:?} exactly");
}

fn refused(op: Op, operands: &[Tensor]) -> String {
    let problem = graph_of(&op, operands).unwrap_err();
    assert_eq!(problem.code(), "Q0306");
    problem.message().to_owned()
}

fn range(axis: usize, start: i64, end: i64, step: i64) -> SliceRange {
    SliceRange { axis, start, end, step }
}

#[test]
fn concat_joins_along_any_axis() {
    let (a, b) = (floats(&[1, 2], &[1.0, 2.0]), floats(&[1, 2], &[0.125, 4.0]));
    check(Op::Concat { axis: 0 }, &[a.clone(), b.clone()], &[2, 2], &[1.0, 2.0, 0.125, 4.0]);
    check(Op::Concat { axis: 1 }, &[b, a], &[1, 4], &[0.125, 4.0, 1.0, 2.0]);
    let empty = floats(&[2, 0], &[]);
    let column = floats(&[2, 1], &[5.0, 6.0]);
    check(Op::Concat { axis: 1 }, &[empty, column.clone()], &[2, 1], &[5.0, 6.0]);
    let other = floats(&[1, 1], &[5.0]);
    assert!(refused(Op::Concat { axis: 1 }, &[column.clone(), other]).contains("joined"));
    assert!(refused(Op::Concat { axis: 2 }, std::slice::from_ref(&column)).contains("beyond"));
    assert!(refused(Op::Concat { axis: 0 }, &[column, longs(&[1], &[1])]).contains("i64"));
}

#[test]
fn slices_go_both_ways() {
    let x = floats(&[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let slice = |ranges| Op::Slice { ranges };
    check(slice(vec![range(1, 1, 3, 1)]), std::slice::from_ref(&x), &[2, 2], &[1.0, 2.0, 4.0, 5.0]);
    let reversed = slice(vec![range(1, -1, i64::MIN, -2), range(0, -1, i64::MIN, -1)]);
    check(reversed, std::slice::from_ref(&x), &[2, 2], &[5.0, 3.0, 2.0, 0.0]);
    check(slice(vec![range(0, 2, 9, 1)]), std::slice::from_ref(&x), &[0, 3], &[]);
    assert!(refused(slice(vec![range(0, 0, 1, 0)]), std::slice::from_ref(&x)).contains("step"));
    assert!(refused(slice(vec![range(0, 0, 1, 1); 2]), &[x]).contains("twice"));
}

#[test]
fn pads_of_every_mode() {
    let x = floats(&[3], &[1.0, 2.0, 3.0]);
    let pad = |before, after, mode| Op::Pad(Pad { pads: [(before, after)][..].into(), mode });
    let constant = PadMode::Constant(0.5);
    check(pad(1, 2, constant), std::slice::from_ref(&x), &[6], &[0.5, 1.0, 2.0, 3.0, 0.5, 0.5]);
    check(pad(-1, 1, constant), std::slice::from_ref(&x), &[3], &[2.0, 3.0, 0.5]);
    check(
        pad(2, 1, PadMode::Edge),
        std::slice::from_ref(&x),
        &[6],
        &[1.0, 1.0, 1.0, 2.0, 3.0, 3.0],
    );
    let reflected = [2.0, 3.0, 2.0, 1.0, 2.0, 3.0, 2.0, 1.0, 2.0];
    check(pad(3, 3, PadMode::Reflect), std::slice::from_ref(&x), &[9], &reflected);
    check(
        pad(2, 2, PadMode::Wrap),
        std::slice::from_ref(&x),
        &[7],
        &[2.0, 3.0, 1.0, 2.0, 3.0, 1.0, 2.0],
    );
    let one = floats(&[1], &[4.0]);
    check(pad(1, 1, PadMode::Reflect), &[one], &[3], &[4.0; 3]);
    assert!(refused(pad(-2, -2, constant), &[x]).contains("do not fit"));
    let codes = Tensor::from_vec(&[1], vec![-3_i8]).unwrap();
    check(
        pad(0, 1, PadMode::Constant(-128.0)),
        std::slice::from_ref(&codes),
        &[2],
        &[-3.0, -128.0],
    );
    assert!(
        refused(pad(0, 1, PadMode::Constant(128.0)), std::slice::from_ref(&codes))
            .contains("not a number")
    );
    assert!(refused(pad(0, 1, PadMode::Constant(0.5)), &[codes]).contains("not a number"));
}

#[test]
fn gather_expand_and_tile() {
    let x = floats(&[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let indices = longs(&[2, 1], &[-1, 0]);
    let gather = Op::Gather { axis: 1 };
    check(gather.clone(), &[x.clone(), indices], &[2, 2, 1], &[2.0, 0.0, 5.0, 3.0]);
    check(Op::Gather { axis: 0 }, &[x.clone(), longs(&[], &[1])], &[3], &[3.0, 4.0, 5.0]);
    let (graph, tensors) = graph_of(&gather, &[x.clone(), longs(&[1], &[3])]).unwrap();
    assert_eq!(float(&graph, &tensors, Keep::Outputs).unwrap_err().code(), "Q0314");
    assert_eq!(exact(&graph, &tensors, Keep::Outputs).unwrap_err().code(), "Q0314");
    let column = floats(&[2, 1], &[7.0, 8.0]);
    let expand = |shape: &[usize]| Op::Expand { shape: shape.to_vec() };
    check(
        expand(&[2, 1, 2]),
        std::slice::from_ref(&column),
        &[2, 2, 2],
        &[7.0, 7.0, 8.0, 8.0, 7.0, 7.0, 8.0, 8.0],
    );
    check(expand(&[1]), std::slice::from_ref(&column), &[2, 1], &[7.0, 8.0]);
    check(expand(&[2, 2]), &[floats(&[], &[0.25])], &[2, 2], &[0.25; 4]);
    let tile = Op::Tile { repeats: vec![2, 2] };
    check(tile, &[column], &[4, 2], &[7.0, 7.0, 8.0, 8.0, 7.0, 7.0, 8.0, 8.0]);
    assert!(refused(Op::Tile { repeats: vec![2] }, &[x]).contains("repeats"));
}

#[test]
fn every_type_moves() {
    let reverse = Op::Slice { ranges: vec![range(0, -1, i64::MIN, -1)] };
    assert_eq!(run(reverse.clone(), &[bools(&[1, 1, 0])]), bools(&[0, 1, 1]));
    let wide = Tensor::from_vec(&[2], vec![u64::MAX, 1]).unwrap();
    assert_eq!(run(reverse.clone(), &[wide]).values::<u64>().unwrap()[..], [1, u64::MAX]);
    let short = Tensor::from_vec(&[2], vec![-1_i16, 300]).unwrap();
    assert_eq!(run(reverse, &[short]).values::<i16>().unwrap()[..], [300, -1]);
    let pad = Op::Pad(Pad { pads: [(0, 1)][..].into(), mode: PadMode::Constant(1.0) });
    assert_eq!(run(pad, &[bools(&[0])]), bools(&[0, 1]));
    assert_eq!(run(Op::Transpose { order: vec![0] }, &[bools(&[1, 0])]), bools(&[1, 0]));
}

#[test]
fn casts_between_types() {
    let cast = |to| Op::Cast { to };
    let x = floats(&[4], &[-1.75, 300.5, 0.0, 2.0]);
    check(cast(DType::I32), std::slice::from_ref(&x), &[4], &[-1.0, 300.0, 0.0, 2.0]);
    check(cast(DType::U8), std::slice::from_ref(&x), &[4], &[0.0, 255.0, 0.0, 2.0]);
    check(cast(DType::Bool), std::slice::from_ref(&x), &[4], &[1.0, 1.0, 0.0, 1.0]);
    check(cast(DType::F64), &[x], &[4], &[-1.75, 300.5, 0.0, 2.0]);
    check(cast(DType::I8), &[longs(&[3], &[130, -1, 255])], &[3], &[-126.0, -1.0, -1.0]);
    check(cast(DType::F32), &[bools(&[0, 1])], &[2], &[0.0, 1.0]);
    let nan = floats(&[2], &[f32::NAN, f32::INFINITY]);
    assert_eq!(run(cast(DType::I16), &[nan]).to_f64(), [0.0, 32767.0]);
    // 2^24 + 1 is not an f32: exact arithmetic does not round.
    let (graph, tensors) = graph_of(&cast(DType::F32), &[longs(&[1], &[(1 << 24) + 1])]).unwrap();
    assert_eq!(exact(&graph, &tensors, Keep::Outputs).unwrap_err().code(), "Q0311");
}

fn resize(target: ResizeTarget, coordinates: Coordinates, interpolation: Interpolation) -> Op {
    let (exclude_outside, roi) = (false, Vec::new());
    Op::Resize(Resize { axes: vec![0], target, coordinates, interpolation, exclude_outside, roi })
}

#[test]
fn resizing_to_the_nearest() {
    let x = floats(&[4], &[1.0, 2.0, 3.0, 4.0]);
    let nearest = |scale, coordinates, nearest| {
        let target = ResizeTarget::Scales(vec![scale]);
        resize(target, coordinates, Interpolation::Nearest(nearest))
    };
    // Positions -0.25, 0.25, 0.75, …
    let doubled = [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0];
    let half = nearest(2.0, Coordinates::HalfPixel, Nearest::RoundPreferFloor);
    check(half, std::slice::from_ref(&x), &[8], &doubled);
    let asymmetric = nearest(2.0, Coordinates::Asymmetric, Nearest::Ceil);
    check(asymmetric, std::slice::from_ref(&x), &[8], &[1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 4.0]);
    // Positions 0.5 and 2.5.
    let floor = nearest(0.5, Coordinates::HalfPixel, Nearest::RoundPreferFloor);
    check(floor, std::slice::from_ref(&x), &[2], &[1.0, 3.0]);
    let ceil = nearest(0.5, Coordinates::HalfPixel, Nearest::RoundPreferCeil);
    check(ceil, std::slice::from_ref(&x), &[2], &[2.0, 4.0]);
    assert!(
        refused(nearest(-1.0, Coordinates::HalfPixel, Nearest::Floor), &[x]).contains("scaled")
    );
}

#[test]
fn resizing_between_elements() {
    let x = floats(&[2], &[0.0, 4.0]);
    let scales = |scale| ResizeTarget::Scales(vec![scale]);
    let linear = resize(scales(2.0), Coordinates::HalfPixel, Interpolation::Linear);
    check(linear, std::slice::from_ref(&x), &[4], &[0.0, 1.0, 3.0, 4.0]);
    let asymmetric = resize(scales(2.0), Coordinates::Asymmetric, Interpolation::Linear);
    check(asymmetric, std::slice::from_ref(&x), &[4], &[0.0, 2.0, 4.0, 4.0]);
    // Weights of the kernel with a = -0.5 at 1/2: -1/16, 9/16, 9/16, -1/16.
    let cubic = resize(scales(2.0), Coordinates::Asymmetric, Interpolation::Cubic { a: -0.5 });
    check(cubic, std::slice::from_ref(&x), &[4], &[0.0, 2.0, 4.0, 4.25]);
    let corners =
        resize(ResizeTarget::Sizes(vec![5]), Coordinates::AlignCorners, Interpolation::Linear);
    assert_eq!(run(corners.clone(), std::slice::from_ref(&x)).to_f64(), [0.0, 1.0, 2.0, 3.0, 4.0]);
    let (graph, tensors) = graph_of(&corners, std::slice::from_ref(&x)).unwrap();
    assert_eq!(exact(&graph, &tensors, Keep::Outputs).unwrap_err().code(), "Q0311");
    let crop = Op::Resize(Resize {
        axes: vec![0],
        target: ResizeTarget::Sizes(vec![3]),
        coordinates: Coordinates::CropAndResize { extrapolation: 9.0 },
        interpolation: Interpolation::Linear,
        exclude_outside: false,
        roi: vec![(0.5, 1.5)],
    });
    assert_eq!(run(crop, &[x]).to_f64(), [2.0, 4.0, 9.0]);
}

#[test]
fn cubic_weights_without_the_outside() {
    let resize = Resize {
        axes: vec![0],
        target: ResizeTarget::Scales(vec![2.0]),
        coordinates: Coordinates::Asymmetric,
        interpolation: Interpolation::Cubic { a: -0.5 },
        exclude_outside: true,
        roi: vec![],
    };
    // At 1/2 the taps -1/16, 9/16, 9/16 are inside of three elements; they are brought to sum 1.
    let taps = resize.taps(0, 3, 6);
    let expected = [(0, 9.0 / 17.0), (1, 9.0 / 17.0), (2, -1.0 / 17.0)];
    for (found, expected) in taps[1].iter().zip(expected) {
        assert_eq!(found.0, expected.0);
        assert!((found.1 - expected.1).abs() < 1e-15);
    }
}

fn transposed(window: Window, groups: usize, padding: &[usize]) -> Op {
    Op::ConvTranspose(ConvTranspose { window, groups, output_padding: padding.into() })
}

#[test]
fn transposed_convolution() {
    let x = floats(&[1, 1, 2], &[1.0, 2.0]);
    let w = floats(&[1, 1, 3], &[1.0, 10.0, 100.0]);
    let b = floats(&[1], &[0.5]);
    let mut window = Window::new(&[3]);
    window.strides[0] = 2;
    let expected = [1.5, 10.5, 102.5, 20.5, 200.5];
    let operands = [x.clone(), w.clone(), b];
    check(transposed(window.clone(), 1, &[0]), &operands, &[1, 1, 5], &expected);
    window.pads[0] = (1, 2);
    check(transposed(window.clone(), 1, &[1]), &operands[..2], &[1, 1, 3], &[10.0, 102.0, 20.0]);
    window.dilations[0] = 2;
    window.pads[0] = (0, 0);
    let dilated = [1.0, 0.0, 12.0, 0.0, 120.0, 0.0, 200.0];
    check(transposed(window, 1, &[0]), &operands[..2], &[1, 1, 7], &dilated);
    let pair = floats(&[1, 2, 1], &[1.0, 2.0]);
    let weights = floats(&[2, 2, 1], &[1.0, 2.0, 3.0, 4.0]);
    let grouped = transposed(Window::new(&[1]), 2, &[0]);
    check(grouped, &[pair, weights], &[1, 4, 1], &[1.0, 2.0, 6.0, 8.0]);
    let mut cut = Window::new(&[3]);
    cut.pads[0] = (2, 2);
    assert!(refused(transposed(cut, 1, &[0]), &[x, w]).contains("is empty"));
}

/// Weights of 0 leave gates at 1/2 and candidates at 0, so states halve.
#[test]
fn recurrent_layers_with_gates_half_open() {
    let layer = |cell, output| Recurrent { cell, hidden: 1, direction: Direction::Forward, output };
    let x = floats(&[2, 1, 1], &[3.0, 5.0]);
    let zeros = |rows: usize| floats(&[1, rows, 1], &vec![0.0; rows]);
    let state = floats(&[1, 1, 1], &[8.0]);
    let gru = |output| Op::Recurrent(layer(Cell::Gru { linear_before_reset: false }, output));
    let operands = [x.clone(), zeros(3), zeros(3), floats(&[1, 6], &[0.0; 6]), state.clone()];
    assert_eq!(run(gru(RecurrentOutput::States), &operands).to_f64(), [4.0, 2.0]);
    assert_eq!(run(gru(RecurrentOutput::LastState), &operands).shape(), [1, 1, 1]);
    let bias = floats(&[1, 8], &[0.0; 8]);
    let operands = [x.clone(), zeros(4), zeros(4), bias, state.clone(), state.clone()];
    let lstm = |output| Op::Recurrent(layer(Cell::Lstm, output));
    assert_eq!(run(lstm(RecurrentOutput::LastCell), &operands).to_f64(), [2.0]);
    let states = run(lstm(RecurrentOutput::States), &operands).to_f64();
    assert!((states[1] - 0.5 * 2.0_f64.tanh()).abs() < 1e-6);
    assert!(refused(gru(RecurrentOutput::LastCell), &operands[..3]).contains("only an LSTM"));
    assert!(refused(gru(RecurrentOutput::States), &operands[..3]).contains("expected [1, 3, 1]"));
    let (graph, tensors) = graph_of(&lstm(RecurrentOutput::States), &operands).unwrap();
    assert_eq!(exact(&graph, &tensors, Keep::Outputs).unwrap_err().code(), "Q0311");
}

#[test]
fn recurrent_directions() {
    // h' = tanh(x): no memory, so only the order of the results tells the directions apart.
    let x = floats(&[2, 1, 1], &[0.0, 1.0]);
    let layer = |direction, output| {
        Op::Recurrent(Recurrent { cell: Cell::Rnn, hidden: 1, direction, output })
    };
    let one = floats(&[1, 1, 1], &[1.0]);
    let (both, none) = (floats(&[2, 1, 1], &[1.0, 1.0]), floats(&[1, 1, 1], &[0.0]));
    let near = |tensor: &Tensor, expected: &[f64]| {
        let found = tensor.to_f64();
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?}");
    };
    let t = 1.0_f64.tanh();
    let reverse = layer(Direction::Reverse, RecurrentOutput::LastState);
    near(&run(reverse, &[x.clone(), one.clone(), none]), &[0.0]);
    let bidirectional = layer(Direction::Bidirectional, RecurrentOutput::States);
    let states = run(bidirectional, &[x, both, floats(&[2, 1, 1], &[0.0, 0.0])]);
    assert_eq!(states.shape(), [2, 2, 1, 1]);
    near(&states, &[0.0, 0.0, t, t]);
}

#[test]
fn integers_multiply_and_wrap() {
    let ints = |shape: &[usize], values: &[i32]| Tensor::from_vec(shape, values.to_vec()).unwrap();
    let (a, b) = (ints(&[1, 2], &[i32::MAX, 3]), ints(&[2, 1], &[2, 5]));
    check(Op::MatMul, &[a, b], &[1, 1], &[13.0]);
    let conv = Op::Conv(Conv { window: Window::new(&[2]), groups: 1 });
    let operands = [ints(&[1, 1, 3], &[1, 2, 3]), ints(&[1, 1, 2], &[10, 1]), ints(&[1], &[-1])];
    check(conv, &operands, &[1, 1, 2], &[11.0, 22.0]);
}

fn quantised(graph: &mut Graph, input: &str, quantiser: Quantiser) -> ValueId {
    let x = graph.add_input(input, DType::F32, &[1, 4], &[]).unwrap();
    let (node, name) = (format!("{input}_node"), format!("{input}_q"));
    graph.add_node(&node, Op::Quantise(quantiser), &[Some(x)], &name).unwrap()
}

#[test]
fn grids_move_with_the_elements() {
    let mut graph = Graph::new("grids");
    let q = Quantiser::symmetric(true, 4, 0.5);
    let a = quantised(&mut graph, "a", q.clone());
    let b = quantised(&mut graph, "b", q.clone());
    let c = quantised(&mut graph, "c", Quantiser::symmetric(true, 4, 0.25));
    let node = |graph: &mut Graph, name: &str, op: Op, inputs: &[ValueId]| {
        let inputs: Vec<_> = inputs.iter().copied().map(Some).collect();
        graph.add_node(name, op, &inputs, name).unwrap()
    };
    let joined = node(&mut graph, "joined", Op::Concat { axis: 1 }, &[a, b]);
    let sliced =
        node(&mut graph, "sliced", Op::Slice { ranges: vec![range(1, 1, 3, 1)] }, &[joined]);
    let pad =
        |value| Op::Pad(Pad { pads: [(0, 0), (1, 1)][..].into(), mode: PadMode::Constant(value) });
    let padded = node(&mut graph, "padded", pad(0.0), &[sliced]);
    assert_eq!(graph.grid(padded), Some(&q));
    let odd = node(&mut graph, "odd", pad(0.1), &[sliced]);
    assert_eq!(graph.grid(odd), None);
    let mixed = node(&mut graph, "mixed", Op::Concat { axis: 1 }, &[a, c]);
    assert_eq!(graph.grid(mixed), None);
    let sum = node(&mut graph, "sum", Op::Binary(Binary::Add), &[a, b]);
    assert_eq!(graph.grid(sum), None);
    // Joins of joins: the search ends.
    let mut deep = joined;
    for level in 0..30 {
        let half = Op::Slice { ranges: vec![range(1, 0, 4, 1)] };
        let half = node(&mut graph, &format!("half{level}"), half, &[deep]);
        let other = node(&mut graph, &format!("other{level}"), Op::Identity, &[half]);
        deep = node(&mut graph, &format!("deep{level}"), Op::Concat { axis: 1 }, &[half, other]);
    }
    assert_eq!(graph.grid(deep), None);
}

#[test]
fn movements_are_known_to_compilers() {
    let mut graph = Graph::new("movement");
    let x = graph.add_input("x", DType::F32, &[2], &[]).unwrap();
    let indices = graph.add_constant("i", longs(&[2], &[1, -2])).unwrap();
    graph.add_node("gather", Op::Gather { axis: 0 }, &[Some(x), Some(indices)], "g").unwrap();
    let pad = Op::Pad(Pad { pads: [(0, 1)][..].into(), mode: PadMode::Constant(7.0) });
    graph.add_node("pad", pad, &[Some(x)], "p").unwrap();
    graph.add_node("add", Op::Binary(Binary::Add), &[Some(x), Some(x)], "s").unwrap();
    let movement = |name: &str| graph.movement(&graph[graph.node_named(name).unwrap()]);
    let element = |element| Source::Operand { operand: 0, element };
    assert_eq!(movement("gather"), Some(vec![element(1), element(0)]));
    assert_eq!(movement("pad"), Some(vec![element(0), element(1), Source::Value(7.0)]));
    assert_eq!(movement("add"), None);
}

#[test]
fn codes_move_when_constants_fold() {
    let mut graph = Graph::new("codes");
    let codes = Constant {
        tensor: Tensor::from_vec(&[3], vec![1_i8, -2, 3]).unwrap(),
        quantiser: Some(Quantiser::symmetric(true, 4, 0.5)),
    };
    let c = graph.add_constant("c", codes).unwrap();
    let tail = Op::Slice { ranges: vec![range(0, 1, 3, 1)] };
    let y = graph.add_node("tail", tail, &[Some(c)], "y").unwrap();
    graph.add_output(y);
    let folded = quincunx_graph::passes::fold_constants(&graph).unwrap();
    let constant = folded[folded.outputs()[0]].constant.clone().unwrap();
    assert_eq!(constant.tensor.to_i64().unwrap(), [-2, 3]);
    assert!(constant.quantiser.is_some());
}

#[test]
fn the_dump_shows_the_attributes() {
    let mut graph = Graph::new("dump");
    let x = graph.add_input("x", DType::F32, &[1, 4], &[]).unwrap();
    let ops = [
        Op::Concat { axis: 1 },
        Op::Slice { ranges: vec![range(0, 0, i64::MAX, 1), range(1, -1, i64::MIN, -2)] },
        Op::Pad(Pad { pads: [(0, 0), (1, 2)][..].into(), mode: PadMode::Edge }),
        Op::Expand { shape: vec![2, 4] },
        Op::Tile { repeats: vec![1, 2] },
        Op::Cast { to: DType::I8 },
        resize(
            ResizeTarget::Sizes(vec![3]),
            Coordinates::HalfPixel,
            Interpolation::Nearest(Nearest::Floor),
        ),
    ];
    for (index, op) in ops.into_iter().enumerate() {
        graph.add_node(&format!("n{index}"), op, &[Some(x)], &format!("y{index}")).unwrap();
    }
    expect_test::expect![[r#"
        graph "dump"
          input  x: f32[1, 4]
          y0: f32[1, 4] = Concat(x) {axis 1}  # n0
          y1: f32[1, 2] = Slice(x) {axis 0 from 0 to end, axis 1 from -1 to start step -2}  # n1
          y2: f32[1, 7] = Pad(x) {pads [(0, 0), (1, 2)] edge}  # n2
          y3: f32[2, 4] = Expand(x) {shape [2, 4]}  # n3
          y4: f32[1, 8] = Tile(x) {repeats [1, 2]}  # n4
          y5: i8[1, 4] = Cast(x) {to i8}  # n5
          y6: f32[3, 4] = Resize(x) {axes [0] sizes [3] HalfPixel Nearest(Floor)}  # n6
    "#]]
    .assert_eq(&graph.to_string());
}
