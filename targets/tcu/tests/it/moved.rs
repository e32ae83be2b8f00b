//! Joined positions, operands repeated along channels, reduced channels, transposed convolutions
//! and products over positions: all judges, on machines of several widths.

use crate::common::claim;
use crate::common::graphs::judge;
use quincunx_contract::Claim;
use quincunx_graph::{
    Binary, ConvTranspose, Graph, Op, Pad, PadMode, Reduce, ReduceKind, Unary, ValueId, Window,
};
use quincunx_tcu::TcuArch;
use quincunx_tensor::{DType, Tensor, Tensors};
use quincunx_testkit::Random;

/// Adds a node.
fn node(graph: &mut Graph, op: Op, inputs: &[ValueId]) -> ValueId {
    let (name, inputs) = (format!("n{}", graph.nodes().len()), inputs.iter().copied().map(Some));
    graph.add_node(&name, op, &inputs.collect::<Vec<_>>(), &format!("{name}_out")).unwrap()
}

/// Compiles with both roundings on machines of several widths; the judges agree.
fn agree(graph: &Graph, shapes: &[&[usize]], random: &mut Random) {
    let mut inputs = Tensors::new();
    for (index, shape) in shapes.iter().enumerate() {
        let real = |_| (random.below(1024) as f32 - 512.0) / 256.0;
        let reals = (0..shape.iter().product::<usize>()).map(real).collect();
        inputs.insert(format!("x{index}"), Tensor::from_vec::<f32>(shape, reals).unwrap());
    }
    for array_size in [2, 5, 8] {
        let arch = TcuArch { array_size, ..TcuArch::preset("pynqz1").unwrap() };
        assert!(claim(graph, &arch).iter().all(|claim| *claim == Claim::Device), "{graph}");
        for rounding in ["compat", "free"] {
            judge(graph, &inputs, &arch, &[("rounding", rounding)]).unwrap();
        }
    }
}

fn input(graph: &mut Graph, index: usize, shape: &[usize]) -> ValueId {
    graph.add_input(&format!("x{index}"), DType::F32, shape, &[]).unwrap()
}

#[test]
fn positions_are_joined() {
    let random = &mut Random::new(5);
    for (axis, shapes) in [
        (2, [&[2, 7, 3, 2][..], &[2, 7, 1, 2], &[2, 7, 4, 2]]),
        (3, [&[1, 9, 2, 1], &[1, 9, 2, 3], &[1, 9, 2, 2]]),
        (0, [&[1, 3, 2, 2], &[2, 3, 2, 2], &[1, 3, 2, 2]]),
        (2, [&[1, 10, 4], &[1, 10, 1], &[1, 10, 2]]),
        (0, [&[5], &[9], &[3]]),
    ] {
        let mut graph = Graph::new("joined");
        let inputs: Vec<ValueId> = shapes
            .iter()
            .enumerate()
            .map(|(index, shape)| input(&mut graph, index, shape))
            .collect();
        let first = node(&mut graph, Op::Unary(Unary::Relu), &inputs[..1]);
        let joined = node(&mut graph, Op::Concat { axis }, &[first, inputs[1], inputs[2]]);
        let result = node(&mut graph, Op::Binary(Binary::Add), &[joined, joined]);
        graph.add_output(joined);
        graph.add_output(result);
        agree(&graph, &shapes, random);
    }
}

#[test]
fn operands_are_repeated_along_channels() {
    let random = &mut Random::new(6);
    for shapes in [
        [&[2, 7, 3, 2][..], &[2, 1, 3, 2]],
        [&[2, 1, 3, 2], &[1, 11, 1, 2]],
        [&[2, 17, 3], &[2, 1, 1]],
        [&[3, 6], &[3, 1]],
        [&[1, 4, 3, 1], &[1]],
        [&[9], &[1]],
    ] {
        for op in [Binary::Add, Binary::Sub, Binary::Mul, Binary::Min] {
            for swapped in [false, true] {
                let mut graph = Graph::new("repeated");
                let mut inputs: Vec<ValueId> = shapes
                    .iter()
                    .enumerate()
                    .map(|(index, shape)| input(&mut graph, index, shape))
                    .collect();
                if swapped {
                    inputs.reverse();
                }
                let relu = node(&mut graph, Op::Unary(Unary::Relu), &inputs[..1]);
                let result = node(&mut graph, Op::Binary(op), &[relu, inputs[1]]);
                graph.add_output(result);
                agree(&graph, &shapes, random);
            }
        }
    }
}

#[test]
fn channels_are_reduced() {
    let random = &mut Random::new(7);
    for shape in [&[2, 7, 3, 2][..], &[1, 33, 5], &[3, 12], &[6], &[1, 1, 4]] {
        for kind in [ReduceKind::Sum, ReduceKind::Mean, ReduceKind::Max] {
            for keep_dims in [true, false] {
                if shape.len() == 1 && !keep_dims {
                    continue;
                }
                let mut graph = Graph::new("reduced");
                let x = input(&mut graph, 0, shape);
                let axes = vec![usize::from(shape.len() > 1)];
                let op = Op::Reduce(Reduce { kind, axes, keep_dims });
                let reduced = node(&mut graph, op, &[x]);
                let more = if keep_dims { x } else { reduced };
                let result = node(&mut graph, Op::Binary(Binary::Sub), &[more, reduced]);
                graph.add_output(reduced);
                graph.add_output(result);
                agree(&graph, &[shape], random);
            }
        }
    }
}

#[test]
fn convolutions_are_transposed() {
    let random = &mut Random::new(8);
    for (shape, filters, groups, kernel, stride) in [
        (&[1, 7, 4, 3][..], 3, 1, &[3, 2][..], 2),
        (&[2, 6, 3, 3], 2, 2, &[2, 2], 3),
        (&[1, 9, 5], 11, 1, &[4], 2),
        (&[1, 4, 5], 1, 4, &[3], 1),
    ] {
        let mut window = Window::new(kernel);
        window.strides.fill(stride);
        window.pads[0] = (1, 0);
        window.dilations[0] = 2;
        let mut graph = Graph::new("transposed");
        let x = input(&mut graph, 0, shape);
        let w = [&[shape[1], filters], kernel].concat();
        let mut constant = |name: &str, shape: &[usize]| {
            let real = |_| (random.below(256) as f32 - 128.0) / 512.0;
            let reals = (0..shape.iter().product::<usize>()).map(real).collect();
            graph.add_constant(name, Tensor::from_vec::<f32>(shape, reals).unwrap()).unwrap()
        };
        let (w, b) = (constant("w", &w), constant("b", &[filters * groups]));
        let output_padding = vec![stride - 1; kernel.len()].into_iter().collect();
        let op = Op::ConvTranspose(ConvTranspose { window, groups, output_padding });
        let y = node(&mut graph, op, &[x, w, b]);
        let y = node(&mut graph, Op::Unary(Unary::Relu), &[y]);
        graph.add_output(y);
        agree(&graph, &[shape], random);
    }
}

#[test]
fn matrices_multiply_positions() {
    let random = &mut Random::new(9);
    for (shape, outputs) in [
        (&[2, 7, 5][..], 4),
        (&[1, 20, 17], 33),
        (&[2, 3, 4, 9], 6),
        (&[1, 1, 1], 3),
        (&[1, 3, 40], 1),
    ] {
        for padded in [false, true] {
            let mut graph = Graph::new("mixed");
            let mut x = input(&mut graph, 0, shape);
            let mut depth = *shape.last().unwrap();
            if padded {
                let mut pads = vec![(0, 0); shape.len()];
                *pads.last_mut().unwrap() = (1, 2);
                let op =
                    Op::Pad(Pad { pads: pads.into_iter().collect(), mode: PadMode::Constant(0.0) });
                x = node(&mut graph, op, &[x]);
                depth += 3;
            }
            let real = |_| (random.below(256) as f32 - 128.0) / 512.0;
            let reals = (0..depth * outputs).map(real).collect();
            let w = Tensor::from_vec::<f32>(&[depth, outputs], reals).unwrap();
            let w = graph.add_constant("w", w).unwrap();
            let product = node(&mut graph, Op::MatMul, &[x, w]);
            let result = node(&mut graph, Op::Unary(Unary::Relu), &[product]);
            graph.add_output(result);
            agree(&graph, &[shape], random);
        }
    }
}
