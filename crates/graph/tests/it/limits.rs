//! Odd extents: empty tensors with long axes, windows far larger than their input, and results that
//! are much smaller than what a careless order of steps would hold in between.

use quincunx_graph::execute::{Keep, Session, Settings, float};
use quincunx_graph::{
    ConvTranspose, Coordinates, Graph, Interpolation, Op, Pool, PoolKind, Resize, ResizeTarget,
    SliceRange, Softmax, Spatial, Unary, Window,
};
use quincunx_tensor::{DType, Tensor, Tensors};

fn graph(op: Op, shapes: &[&[usize]]) -> Graph {
    let mut graph = Graph::new("limits");
    let name = |index: usize| format!("x{index}");
    let operands: Vec<_> = (0..shapes.len())
        .map(|i| Some(graph.add_input(&name(i), DType::F32, shapes[i], &[]).unwrap()))
        .collect();
    let y = graph.add_node("node", op, &operands, "y").unwrap();
    graph.add_output(y);
    graph
}

/// The result on tensors of ones.
fn run(op: Op, shapes: &[&[usize]]) -> Tensor {
    let graph = graph(op, shapes);
    let ones = |(index, shape): (usize, &&[usize])| {
        let count = shape.iter().product();
        (format!("x{index}"), Tensor::from_vec(shape, vec![1.0_f32; count]).unwrap())
    };
    let tensors: Tensors = shapes.iter().enumerate().map(ones).collect();
    float(&graph, &tensors, Keep::Outputs).unwrap().remove("y").unwrap()
}

#[test]
fn softmax_along_an_empty_axis() {
    for (shape, axis) in [([2, 0, 3], 1), ([0, 2, 3], 1), ([2, 3, 0], 0)] {
        for log in [false, true] {
            assert_eq!(run(Op::Softmax(Softmax { axis, log }), &[&shape]).shape(), shape);
        }
    }
}

#[test]
fn an_extent_of_0_does_not_excuse_the_others() {
    let long = 1 << 40;
    let mut graph = Graph::new("g");
    assert!(graph.add_input("a", DType::F32, &[long, 0], &[]).is_ok());
    for shape in [[long, 2, 0], [0, long, long]] {
        let problem = graph.add_input("b", DType::F32, &shape, &[]).unwrap_err();
        assert_eq!(problem.code(), "Q0304");
    }
}

#[test]
fn moving_nothing_takes_no_memory() {
    let shape: &[usize] = &[1 << 20, 1 << 20, 0];
    let ranges = vec![SliceRange { axis: 0, start: 1, end: i64::MAX, step: 1 }];
    let moved = [
        Op::Slice { ranges },
        Op::Transpose { order: vec![1, 0, 2] },
        Op::Tile { repeats: vec![1, 1, 3] },
        Op::Concat { axis: 2 },
    ];
    for op in moved {
        assert_eq!(run(op, &[shape]).len(), 0);
    }
}

#[test]
fn averages_over_huge_windows() {
    let window = Window {
        kernel: Spatial::from_elem(1 << 30, 1),
        pads: [((1 << 30) - 1, (1 << 30) - 1)].into_iter().collect(),
        ..Window::new(&[1])
    };
    for (count_include_pad, first) in [(false, 1.0), (true, 1.0 / f64::from(1 << 30))] {
        let kind = PoolKind::Average { count_include_pad };
        let strides = Spatial::from_elem(1 << 20, 1);
        let window = Window { strides, ..window.clone() };
        let pool = Op::Pool(Pool { kind, window, ceil: false });
        let means = run(pool, &[&[1, 1, 3]]).to_f64();
        assert_eq!((means.len(), means[0]), (1025, first));
    }
}

/// Every pair of an element and a tap, held at once, would take 400 MiB.
#[test]
fn transposed_convolution_with_a_kernel_as_long_as_its_input() {
    let window = Window { pads: [(4095, 4095)].into_iter().collect(), ..Window::new(&[4096]) };
    let output_padding = Spatial::from_elem(0, 1);
    let op = Op::ConvTranspose(ConvTranspose { window, groups: 1, output_padding });
    assert_eq!(run(op, &[&[1, 1, 4096], &[1, 1, 4096]]).to_f64(), [4096.0]);
}

/// Growing the first axis before shrinking the second would take 2^40 elements.
#[test]
fn resizing_shrinks_before_it_grows() {
    let resize = Resize {
        axes: vec![0, 1],
        target: ResizeTarget::Sizes(vec![1 << 20, 1]),
        coordinates: Coordinates::HalfPixel,
        interpolation: Interpolation::Linear,
        exclude_outside: false,
        roi: Vec::new(),
    };
    let result = run(Op::Resize(resize), &[&[1, 1 << 20]]);
    assert_eq!(result.shape(), [1 << 20, 1]);
    assert!(result.to_f64().iter().all(|&v| v == 1.0));
}

/// `count` results of `side * side` numbers, in a chain or side by side.
fn large(count: usize, side: usize, chain: bool) -> Graph {
    let mut graph = Graph::new("large");
    let x = graph.add_input("x", DType::F32, &[1, 1], &[]).unwrap();
    let expand = || Op::Expand { shape: vec![side, side] };
    let mut last = graph.add_node("n0", expand(), &[Some(x)], "v0").unwrap();
    for index in 1..count {
        let (name, value) = (format!("n{index}"), format!("v{index}"));
        let op = if chain { Op::Unary(Unary::Neg) } else { expand() };
        let read = if chain { last } else { x };
        let next = graph.add_node(&name, op, &[Some(read)], &value).unwrap();
        if !chain {
            graph.add_output(last);
        }
        last = next;
    }
    graph.add_output(last);
    graph
}

/// Results and what is there beside them have limits together.
#[test]
fn memory_is_bounded_for_the_whole_graph() {
    let prepare = |graph: &Graph, keep| {
        let settings = Settings { keep, ..Settings::default() };
        Session::new(graph, settings).map(drop).map_err(|problem| problem.code())
    };
    let beside = large(20, 8000, false);
    assert_eq!(prepare(&beside, Keep::Outputs), Err("Q0312"));
    let inputs =
        Tensors::from([("x".to_owned(), Tensor::from_vec(&[1, 1], vec![1.0_f32]).unwrap())]);
    assert_eq!(float(&beside, &inputs, Keep::Outputs).unwrap_err().code(), "Q0312");
    // Each is freed after the next.
    let chain = large(20, 8000, true);
    assert_eq!(prepare(&chain, Keep::Outputs), Ok(()));
    assert_eq!(prepare(&chain, Keep::All), Err("Q0312"));
    // What is only looked at is freed as well.
    assert!(Session::for_values(&chain, Settings::default()).is_ok());
}
