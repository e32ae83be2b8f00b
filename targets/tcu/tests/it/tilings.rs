//! Machines with few accumulators: every tile that is planned has them.

use crate::common::graphs::{judge, of_peer, random_graph};
use quincunx_graph::{
    Conv, Coordinates, Graph, Interpolation, Op, Pool, PoolKind, Reduce, ReduceKind, Resize,
    ResizeTarget, Unary, Window,
};
use quincunx_tensor::{DType, Tensors};
use quincunx_testkit::Random;

/// A result replaces its operand in the accumulators where both have as many positions, which depends
/// on the tile: a smaller one may need more accumulators than the largest one.
#[test]
fn smaller_tiles_may_need_more_accumulators() {
    let mut window = Window::new(&[3, 3]);
    window.pads.fill((1, 2));
    let kind = PoolKind::Average { count_include_pad: true };
    let pool = Op::Pool(Pool { kind, window, ceil: false });
    let resize = Op::Resize(Resize {
        axes: vec![2, 3],
        target: ResizeTarget::Scales(vec![1.5, 1.5]),
        coordinates: Coordinates::TfHalfPixel,
        interpolation: Interpolation::Linear,
        exclude_outside: true,
        roi: Vec::new(),
    });
    for (name, shape, op) in [("tight8", [1, 3, 2, 6], resize), ("small4", [2, 8, 3, 5], pool)] {
        let mut graph = Graph::new("tiles");
        let x = graph.add_input("x", DType::F32, &shape, &[]).unwrap();
        let y = graph.add_node("first", op, &[Some(x)], "y").unwrap();
        let z = graph.add_node("second", Op::Unary(Unary::Abs), &[Some(y)], "z").unwrap();
        graph.add_output(z);
        let inputs = Tensors::from([("x".to_owned(), Random::new(0).tensor(&shape, 1.0))]);
        for rounding in ["compat", "free"] {
            let agreed = judge(&graph, &inputs, &of_peer(name), &[("rounding", rounding)]);
            assert_eq!(agreed.err(), None, "{name} {rounding}");
        }
    }
}

/// Poolings of more positions than there are accumulators, alone and behind a product.
#[test]
fn no_pooling_is_too_large() {
    let arch = of_peer("tight8");
    assert_eq!(arch.accumulator_depth, 24);
    let reduce = |kind| Op::Reduce(Reduce { kind, axes: vec![2, 3], keep_dims: true });
    let poolings = [
        Op::GlobalAveragePool,
        Op::GlobalMaxPool,
        reduce(ReduceKind::Mean),
        reduce(ReduceKind::Sum),
    ];
    for (number, pooling) in (0..).zip(poolings) {
        for behind_product in [false, true] {
            let mut random = Random::new(number);
            let mut tensor = |shape: &[usize]| random.tensor(shape, 1.0);
            let mut graph = Graph::new("pooling");
            let mut x = graph.add_input("x", DType::F32, &[1, 10, 9, 7], &[]).unwrap();
            if behind_product {
                let w = graph.add_constant("w", tensor(&[12, 10, 3, 3])).unwrap();
                let conv = Op::Conv(Conv { window: Window::new(&[3, 3]), groups: 1 });
                x = graph.add_node("conv", conv, &[Some(x), Some(w)], "y").unwrap();
                x = graph.add_node("relu", Op::Unary(Unary::Relu), &[Some(x)], "z").unwrap();
            }
            let out = graph.add_node("pool", pooling.clone(), &[Some(x)], "out").unwrap();
            graph.add_output(out);
            let inputs = Tensors::from([("x".to_owned(), tensor(&[1, 10, 9, 7]))]);
            for rounding in ["compat", "free"] {
                let agreed = judge(&graph, &inputs, &arch, &[("rounding", rounding)]);
                assert_eq!(agreed.err(), None, "{} {behind_product}", pooling.name());
            }
        }
    }
}

/// What small machines still refuse says which layer, what it needs, and what would help.
#[test]
fn small_machines_refuse_little() {
    for (name, most) in [("small4", 6), ("tight8", 8)] {
        let arch = of_peer(name);
        let (mut all, mut refused) = (0, Vec::new());
        for case in 0..300 {
            let (graph, inputs) = random_graph(&mut Random::new(case), &arch);
            for rounding in ["compat", "free"] {
                all += 1;
                let Err(problem) = judge(&graph, &inputs, &arch, &[("rounding", rounding)]) else {
                    continue;
                };
                refused.push(problem.to_string());
                assert!(problem.help_text().is_some(), "{problem}");
                match problem.code() {
                    "Q3086" => assert!(needs_more(problem.message()), "{problem}"),
                    "Q3085" | "Q3087" => {}
                    _ => panic!("{problem}"),
                }
            }
        }
        assert!(all > 500 && refused.len() <= most, "{name}: {refused:#?} of {all}");
    }
}

/// More of something than there is: "5 of 4 vectors of local memory and 3 of 2 accumulators".
fn needs_more(message: &str) -> bool {
    let words: Vec<&str> = message.split(' ').collect();
    words.windows(3).any(|three| match (three[0].parse::<u64>(), three[2].parse::<u64>()) {
        (Ok(needed), Ok(there)) => three[1] == "of" && needed > there,
        _ => false,
    })
}
