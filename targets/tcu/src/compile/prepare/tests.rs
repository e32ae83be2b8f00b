//! Graphs before and after.

use super::*;
use quincunx_graph::execute::{Keep, float};
use quincunx_graph::{Conv, Window};
use quincunx_tensor::{DType, Tensor, Tensors};

fn pool() -> Op {
    let mut window = Window::new(&[2, 2]);
    window.strides = [2, 2].into_iter().collect();
    Op::Pool(Pool { kind: PoolKind::Max, window, ceil: false })
}

/// `MaxPool(Concat(leaky(conv(x)), x))`, and the leaky ReLU as an output if asked for.
fn graph(output: bool) -> Graph {
    let mut graph = Graph::new("pooled");
    let x = graph.add_input("x", DType::F32, &[1, 3, 4, 6], &[]).unwrap();
    let reals = (0..6).map(|at| at as f32 - 2.5).collect();
    let weights = Tensor::from_vec::<f32>(&[2, 3, 1, 1], reals).unwrap();
    let weights = graph.add_constant("w", weights).unwrap();
    let conv = Op::Conv(Conv { window: Window::new(&[1, 1]), groups: 1 });
    let y = graph.add_node("conv", conv, &[Some(x), Some(weights)], "y").unwrap();
    let leaky = Op::Activation(Activation::LeakyRelu { alpha: 0.25 });
    let z = graph.add_node("leaky", leaky, &[Some(y)], "z").unwrap();
    let joined = graph.add_node("join", Op::Concat { axis: 1 }, &[Some(z), Some(x)], "j").unwrap();
    let pooled = graph.add_node("pool", pool(), &[Some(joined)], "p").unwrap();
    graph.add_output(pooled);
    if output {
        graph.add_output(z);
    }
    graph
}

fn ops(graph: &Graph) -> Vec<&str> {
    graph.nodes().map(|(_, node)| node.op.name()).collect()
}

fn run(graph: &Graph) -> Tensors {
    let reals = (0..72).map(|at| ((at * 31 % 17) as f32 - 8.0) / 4.0).collect();
    let x = Tensor::from_vec::<f32>(&[1, 3, 4, 6], reals).unwrap();
    float(graph, &Tensors::from([("x".to_owned(), x)]), Keep::Outputs).unwrap()
}

#[test]
fn poolings_come_first() {
    let before = graph(false);
    let after = prepare(&before).unwrap().unwrap();
    assert_eq!(ops(&after), ["Conv", "MaxPool", "LeakyRelu", "MaxPool", "Concat"]);
    assert_eq!(run(&after), run(&before));
    assert!(after.value_named("p").is_some() && after.value_named("j").is_none());
}

#[test]
fn what_others_read_stays() {
    let before = graph(true);
    let after = prepare(&before).unwrap().unwrap();
    assert_eq!(ops(&after), ["Conv", "LeakyRelu", "MaxPool", "MaxPool", "Concat"]);
    assert_eq!(run(&after), run(&before));
}

#[test]
fn other_graphs_stay_as_they_are() {
    let mut plain = Graph::new("plain");
    let x = plain.add_input("x", DType::F32, &[1, 3, 4, 6], &[]).unwrap();
    let falling = Op::Unary(Unary::Neg);
    let y = plain.add_node("neg", falling, &[Some(x)], "y").unwrap();
    let pooled = plain.add_node("pool", pool(), &[Some(y)], "p").unwrap();
    plain.add_output(pooled);
    assert!(prepare(&plain).unwrap().is_none());
}
