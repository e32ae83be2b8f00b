//! Joined positions, operands repeated along channels, and reduced channels: all judges, on machines
//! of several widths.

use crate::common::claim;
use crate::common::graphs::judge;
use quincunx_contract::Claim;
use quincunx_graph::{Binary, Graph, Op, Reduce, ReduceKind, Unary, ValueId};
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
