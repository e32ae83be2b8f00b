//! Every operator of the graph can be written: onnxruntime loads it and computes the same, and
//! reading it again gives the same graph.

use super::oracle::{oracle, python};
use crate::options::Options;
use crate::{ExportOptions, read_onnx, write_onnx};
use quincunx_graph::execute::{Keep, float};
use quincunx_graph::{
    Activation, ArgExtreme, BatchNorm, Binary, Cell, Compare, Conv, ConvTranspose, Coordinates,
    Direction, Gemm, Graph, InstanceNorm, Interpolation, LayerNorm, Logic, Lrn, Nearest, Op, Pad,
    PadMode, Pool, PoolKind, Quantiser, Recurrent, RecurrentOutput, Reduce, ReduceKind, Resize,
    ResizeTarget, SliceRange, Softmax, Unary, Window,
};
use quincunx_tensor::{DType, Narrow, Tensor, Tensors, npy};
use std::collections::BTreeSet;

/// Number of operators: one more than the highest that [`position`] gives.
const OPERATORS: usize = 38;

/// A number for every operator. A new variant does not compile until it has one, and then the test
/// fails until a case has it.
fn position(op: &Op) -> usize {
    match op {
        Op::Conv(_) => 0,
        Op::Gemm(_) => 1,
        Op::MatMul => 2,
        Op::Pool(_) => 3,
        Op::GlobalAveragePool => 4,
        Op::GlobalMaxPool => 5,
        Op::BatchNorm(_) => 6,
        Op::Unary(_) => 7,
        Op::Binary(_) => 8,
        Op::Activation(_) => 9,
        Op::PRelu => 10,
        Op::Compare(_) => 11,
        Op::Logic(_) => 12,
        Op::Where => 13,
        Op::Reduce(_) => 14,
        Op::ArgExtreme(_) => 15,
        Op::Softmax(_) => 16,
        Op::LayerNorm(_) => 17,
        Op::InstanceNorm(_) => 18,
        Op::Lrn(_) => 19,
        Op::ConvTranspose(_) => 20,
        Op::Recurrent(_) => 21,
        Op::Concat { .. } => 22,
        Op::Slice { .. } => 23,
        Op::Pad(_) => 24,
        Op::Gather { .. } => 25,
        Op::Expand { .. } => 26,
        Op::Tile { .. } => 27,
        Op::Resize(_) => 28,
        Op::Cast { .. } => 29,
        Op::Flatten { .. } => 30,
        Op::Reshape { .. } => 31,
        Op::Transpose { .. } => 32,
        Op::Identity => 33,
        Op::Quantise(_) => 34,
        Op::ToCodes(_) => 35,
        Op::FromCodes(_) => 36,
        Op::CastUnbounded { .. } => 37,
    }
}

/// Operands of one operator.
type Case = (Op, Vec<Tensor>);

fn tensor(dtype: DType, shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let number = |i: usize| (i * 37 % 23) as i64 - 11;
    match dtype {
        DType::Bool => {
            let bytes: Vec<u8> = (0..count).map(|i| u8::from(i % 3 == 0)).collect();
            Tensor::new(dtype, shape, bytes.into())
        }
        DType::I8 => Tensor::from_vec(shape, (0..count).map(|i| number(i) as i8).collect()),
        DType::I64 => Tensor::from_vec(shape, (0..count).map(|i| i as i64 % 3).collect()),
        DType::I32 => Tensor::from_vec(shape, (0..count).map(|i| number(i) as i32).collect()),
        _ => Tensor::from_vec(shape, (0..count).map(|i| number(i) as f32 / 7.0 + 0.01).collect()),
    }
    .unwrap_or_else(|_| panic!("{dtype}"))
}

fn floats(shape: &[usize]) -> Tensor {
    tensor(DType::F32, shape)
}

/// Positive numbers.
fn positive(shape: &[usize]) -> Tensor {
    let numbers = floats(shape).to_f64();
    Tensor::from_vec(shape, numbers.iter().map(|x| x.abs() as f32 + 0.1).collect()).unwrap()
}

fn window(strides: usize, pad: usize) -> Window {
    let mut window = Window::new(&[2, 3]);
    window.strides = [strides, 1].as_slice().into();
    window.pads = [(pad, 0), (1, pad)].as_slice().into();
    window
}

fn layers() -> Vec<Case> {
    let mut dilated = window(1, 1);
    dilated.dilations = [2, 1].as_slice().into();
    let image = || floats(&[1, 4, 6, 6]);
    let gemm = Gemm { alpha: 0.5, beta: 2.0, transpose_a: true, transpose_b: true };
    let transposed = |output_padding: usize, groups| {
        Op::ConvTranspose(ConvTranspose {
            window: window(2, 1),
            groups,
            output_padding: [output_padding, 0].as_slice().into(),
        })
    };
    let max = |window, ceil| Op::Pool(Pool { kind: PoolKind::Max, window, ceil });
    let average = |window, count_include_pad| {
        Op::Pool(Pool { kind: PoolKind::Average { count_include_pad }, window, ceil: false })
    };
    vec![
        (
            Op::Conv(Conv { window: window(2, 1), groups: 2 }),
            vec![image(), floats(&[6, 2, 2, 3]), floats(&[6])],
        ),
        (
            Op::Conv(Conv { window: dilated.clone(), groups: 1 }),
            vec![image(), floats(&[3, 4, 2, 3])],
        ),
        (Op::Gemm(gemm), vec![floats(&[4, 3]), floats(&[5, 4]), floats(&[5])]),
        (Op::MatMul, vec![floats(&[2, 1, 3, 4]), floats(&[5, 4, 2])]),
        (max(window(2, 1), true), vec![image()]),
        (max(dilated.clone(), false), vec![image()]),
        (average(window(2, 1), true), vec![image()]),
        (average(dilated, false), vec![image()]),
        (Op::GlobalAveragePool, vec![image()]),
        (Op::GlobalMaxPool, vec![image()]),
        (
            Op::BatchNorm(BatchNorm { epsilon: 0.01 }),
            vec![image(), floats(&[4]), floats(&[4]), floats(&[4]), positive(&[4])],
        ),
        (transposed(1, 1), vec![image(), floats(&[4, 3, 2, 3]), floats(&[3])]),
        (transposed(0, 2), vec![image(), floats(&[4, 3, 2, 3])]),
        (
            Op::LayerNorm(LayerNorm { axis: 1, epsilon: 0.01 }),
            vec![floats(&[2, 3, 4]), floats(&[3, 4]), floats(&[3, 4])],
        ),
        (
            Op::InstanceNorm(InstanceNorm { epsilon: 0.01 }),
            vec![image(), floats(&[4]), floats(&[4])],
        ),
        (Op::Lrn(Lrn { size: 3, alpha: 0.5, beta: 0.75, bias: 2.0 }), vec![image()]),
        (Op::Softmax(Softmax { axis: 1, log: false }), vec![image()]),
        (Op::Softmax(Softmax { axis: 2, log: true }), vec![image()]),
    ]
}

fn recurrent() -> Vec<Case> {
    let mut cases = Vec::new();
    for cell in [
        Cell::Rnn,
        Cell::Lstm,
        Cell::Gru { linear_before_reset: false },
        Cell::Gru { linear_before_reset: true },
    ] {
        for (direction, output) in [
            (Direction::Forward, RecurrentOutput::States),
            (Direction::Reverse, RecurrentOutput::LastState),
            (Direction::Bidirectional, RecurrentOutput::States),
        ] {
            let (d, rows) = (direction.reversed().len(), 3 * cell.gates());
            let operands = vec![
                floats(&[4, 2, 5]),
                floats(&[d, rows, 5]),
                floats(&[d, rows, 3]),
                floats(&[d, 2 * rows]),
            ];
            cases.push((Op::Recurrent(Recurrent { cell, hidden: 3, direction, output }), operands));
        }
    }
    let last = RecurrentOutput::LastCell;
    let lstm =
        Recurrent { cell: Cell::Lstm, hidden: 3, direction: Direction::Forward, output: last };
    let operands = vec![
        floats(&[4, 2, 5]),
        floats(&[1, 12, 5]),
        floats(&[1, 12, 3]),
        floats(&[1, 24]),
        floats(&[1, 2, 3]),
        floats(&[1, 2, 3]),
        floats(&[1, 9]),
    ];
    cases.push((Op::Recurrent(lstm), operands));
    cases
}

fn elementwise() -> Vec<Case> {
    let x = || floats(&[2, 3, 4]);
    let mut cases: Vec<Case> = [
        Unary::Relu,
        Unary::Neg,
        Unary::Abs,
        Unary::Sign,
        Unary::Exp,
        Unary::Erf,
        Unary::Floor,
        Unary::Ceil,
        Unary::Round,
        Unary::Sigmoid,
        Unary::HardSwish,
        Unary::Tanh,
        Unary::Gelu,
        Unary::GeluTanh,
        Unary::Softplus,
    ]
    .map(|unary| (Op::Unary(unary), vec![x()]))
    .into();
    let roots = [Unary::Sqrt, Unary::Reciprocal, Unary::Log];
    cases.extend(roots.map(|unary| (Op::Unary(unary), vec![positive(&[2, 5])])));
    let truth = || tensor(DType::Bool, &[2, 3]);
    cases.push((Op::Unary(Unary::Not), vec![truth()]));
    cases.push((Op::Unary(Unary::Relu), vec![tensor(DType::I32, &[5])]));
    for binary in
        [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div, Binary::Max, Binary::Min, Binary::Pow]
    {
        cases.push((Op::Binary(binary), vec![positive(&[2, 3, 4]), floats(&[3, 1])]));
    }
    cases.push((Op::Binary(Binary::Add), vec![tensor(DType::I8, &[7]), tensor(DType::I8, &[1])]));
    cases.extend(
        [
            Activation::LeakyRelu { alpha: 0.2 },
            Activation::Elu { alpha: 0.5 },
            Activation::Selu { alpha: 1.5, gamma: 1.25 },
            Activation::HardSigmoid { alpha: 0.25, beta: 0.4 },
            Activation::Clip { min: Some(-0.5), max: None },
            Activation::Clip { min: None, max: Some(0.5) },
        ]
        .map(|activation| (Op::Activation(activation), vec![x()])),
    );
    cases.push((Op::PRelu, vec![x(), floats(&[3, 1])]));
    cases.extend(
        [
            Compare::Equal,
            Compare::Less,
            Compare::LessOrEqual,
            Compare::Greater,
            Compare::GreaterOrEqual,
        ]
        .map(|compare| (Op::Compare(compare), vec![x(), floats(&[4])])),
    );
    let logics = [Logic::And, Logic::Or, Logic::Xor];
    cases.extend(
        logics.map(|logic| (Op::Logic(logic), vec![truth(), tensor(DType::Bool, &[2, 1])])),
    );
    cases.push((Op::Where, vec![tensor(DType::Bool, &[3, 1]), x(), floats(&[4])]));
    cases
}

fn selections() -> Vec<Case> {
    let x = || floats(&[2, 3, 4]);
    let mut cases: Vec<Case> = Vec::new();
    for (index, kind) in ReduceKind::ALL.into_iter().enumerate() {
        let axes = if index % 2 == 0 { vec![1] } else { vec![0, 2] };
        let reduce = Reduce { kind, axes, keep_dims: index % 3 == 0 };
        cases.push((Op::Reduce(reduce), vec![positive(&[2, 3, 4])]));
    }
    let none = Reduce { kind: ReduceKind::L2, axes: vec![], keep_dims: true };
    cases.push((Op::Reduce(none), vec![x()]));
    for (largest, last) in [(true, false), (true, true), (false, false)] {
        let arg = ArgExtreme { largest, axis: 1, keep_dims: last, last };
        cases.push((Op::ArgExtreme(arg), vec![x()]));
    }
    let range = |axis, start, end, step| SliceRange { axis, start, end, step };
    let ranges = vec![range(2, -1, i64::MIN, -2), range(1, 1, i64::MAX, 1)];
    let pad = |mode| Op::Pad(Pad { pads: vec![(0, 0), (1, 2), (2, 1)].into(), mode });
    let modes = [PadMode::Constant(1.5), PadMode::Edge, PadMode::Reflect, PadMode::Wrap]
        .map(|mode| (pad(mode), vec![floats(&[2, 3, 4])]));
    cases.extend(modes);
    cases.extend([
        (Op::Concat { axis: 1 }, vec![x(), floats(&[2, 1, 4]), x()]),
        (Op::Slice { ranges }, vec![x()]),
        (Op::Gather { axis: 1 }, vec![x(), tensor(DType::I64, &[2, 2])]),
        (Op::Expand { shape: vec![5, 2, 1, 4] }, vec![floats(&[2, 3, 1])]),
        (Op::Tile { repeats: vec![2, 1, 3] }, vec![x()]),
        (Op::Cast { to: DType::I32 }, vec![x()]),
        (Op::Cast { to: DType::F32 }, vec![tensor(DType::I64, &[4])]),
        (Op::CastUnbounded { to: DType::Narrow(Narrow::E5M2) }, vec![x()]),
        (Op::Flatten { axis: 2 }, vec![x()]),
        (Op::Reshape { shape: vec![0, -1, 2] }, vec![x()]),
        (Op::Transpose { order: vec![2, 0, 1] }, vec![x()]),
        (Op::Identity, vec![x()]),
    ]);
    cases
}

fn resizes() -> Vec<Case> {
    let mut cases = Vec::new();
    for (coordinates, interpolation) in [
        (Coordinates::HalfPixel, Interpolation::Linear),
        (Coordinates::AlignCorners, Interpolation::Linear),
        (Coordinates::PytorchHalfPixel, Interpolation::Cubic { a: -0.5 }),
        (Coordinates::Asymmetric, Interpolation::Nearest(Nearest::Floor)),
        (Coordinates::HalfPixel, Interpolation::Nearest(Nearest::RoundPreferCeil)),
        (Coordinates::HalfPixelSymmetric, Interpolation::Nearest(Nearest::RoundPreferFloor)),
        (Coordinates::Asymmetric, Interpolation::Nearest(Nearest::Ceil)),
    ] {
        for target in [ResizeTarget::Scales(vec![1.5, 2.0]), ResizeTarget::Sizes(vec![7, 3])] {
            let resize = Resize {
                axes: vec![2, 3],
                target,
                coordinates,
                interpolation,
                exclude_outside: matches!(interpolation, Interpolation::Cubic { .. }),
                roi: vec![],
            };
            cases.push((Op::Resize(resize), vec![floats(&[1, 2, 4, 5])]));
        }
    }
    // onnxruntime does not crop along axes that keep their extent.
    let crop = Resize {
        axes: vec![2, 3],
        target: ResizeTarget::Sizes(vec![3, 4]),
        coordinates: Coordinates::CropAndResize { extrapolation: 7.0 },
        interpolation: Interpolation::Linear,
        exclude_outside: false,
        roi: vec![(0.25, 0.75), (-0.5, 1.0)],
    };
    cases.push((Op::Resize(crop), vec![floats(&[1, 2, 4, 5])]));
    cases
}

fn quantisers() -> Vec<Case> {
    let mut cases = Vec::new();
    for (signed, width) in [(true, 8), (false, 8), (true, 16), (false, 16)] {
        let mut quantiser = Quantiser::symmetric(signed, width, 0.25);
        quantiser.zero = quincunx_graph::Param::uniform(4);
        cases.push((Op::Quantise(quantiser.clone()), vec![floats(&[2, 3])]));
        cases.push((Op::ToCodes(quantiser), vec![floats(&[2, 3])]));
    }
    let quantiser = Quantiser::symmetric(true, 8, 0.25);
    cases.push((Op::FromCodes(quantiser), vec![tensor(DType::I8, &[2, 3])]));
    cases
        .push((Op::FromCodes(Quantiser::symmetric(true, 32, 0.5)), vec![tensor(DType::I32, &[4])]));
    cases
}

/// A graph of one operator whose operands are all inputs, and what we compute.
fn store(folder: &std::path::Path, name: &str, case: &Case) {
    let (op, operands) = case;
    let mut graph = Graph::new(name);
    let (mut ids, mut inputs, mut stored) = (Vec::new(), Tensors::new(), Tensors::new());
    // ONNX has names, we have positions: truth values travel as bytes.
    let bytes = |tensor: &Tensor| match tensor.dtype() {
        DType::Bool => Tensor::new(DType::U8, tensor.shape(), tensor.bytes().clone()).unwrap(),
        _ => tensor.clone(),
    };
    for (index, tensor) in operands.iter().enumerate() {
        let name = format!("x{index}");
        ids.push(Some(graph.add_input(&name, tensor.dtype(), tensor.shape(), &[]).unwrap()));
        stored.insert(format!("in{index}"), bytes(tensor));
        inputs.insert(name, tensor.clone());
    }
    let mut y = graph
        .add_node("node", op.clone(), &ids, "y")
        .unwrap_or_else(|problem| panic!("{name}: {problem}"));
    if graph[y].dtype.is_storage() {
        // Python's arrays have no such type.
        y = graph.add_node("back", Op::Cast { to: DType::F32 }, &[Some(y)], "z").unwrap();
    }
    graph.add_output(y);
    let file = write_onnx(&graph, &ExportOptions::default())
        .unwrap_or_else(|problem| panic!("{name}: {problem}"));
    let again = read_onnx(file.clone().into(), &Options::default())
        .unwrap_or_else(|problems| panic!("{name}: {problems:?}"));
    assert_eq!(again.to_string(), graph.to_string(), "{name}");
    let results =
        float(&again, &inputs, Keep::Outputs).unwrap_or_else(|problem| panic!("{name}: {problem}"));
    stored.insert("out0".to_owned(), bytes(&results[&graph[y].name]));
    std::fs::write(folder.join(format!("{name}.onnx")), file).unwrap();
    std::fs::write(folder.join(format!("{name}.0.npz")), npy::write_npz(&stored).unwrap()).unwrap();
}

#[test]
fn every_operator_is_written() {
    let cases =
        [layers(), recurrent(), elementwise(), selections(), resizes(), quantisers()].concat();
    let covered: BTreeSet<usize> = cases.iter().map(|(op, _)| position(op)).collect();
    assert_eq!(covered, (0..OPERATORS).collect(), "operators without a case");
    let folder = tempfile::tempdir().unwrap();
    for (index, case) in cases.iter().enumerate() {
        store(folder.path(), &format!("{index:03}_{}", case.0.name()), case);
    }
    let Some(python) = python() else { return };
    oracle(&python, "oracle_outputs.py", "onnxruntime", folder.path());
}
