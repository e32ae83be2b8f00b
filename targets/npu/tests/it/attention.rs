//! Networks of tokens: products of two values.

use crate::common::Random;
use crate::common::networks::{Network, calibrated};
use crate::compiled::judges_agree;
use quincunx_graph::{Graph, Op, Unary, ValueId};
use quincunx_tensor::DType;

/// A graph that is being built.
struct Net<'r> {
    random: &'r mut Random,
    graph: Graph,
    count: usize,
}

impl Net<'_> {
    fn node(&mut self, op: Op, inputs: &[ValueId]) -> ValueId {
        self.count += 1;
        let inputs: Vec<Option<ValueId>> = inputs.iter().copied().map(Some).collect();
        let name = format!("n{}", self.count);
        self.graph.add_node(&name, op, &inputs, &format!("{name}_out")).unwrap()
    }

    fn constant(&mut self, shape: &[usize], magnitude: f64) -> ValueId {
        self.count += 1;
        let tensor = self.random.tensor(shape, magnitude);
        self.graph.add_constant(&format!("c{}", self.count), tensor).unwrap()
    }

    fn dense(&mut self, x: ValueId, outputs: usize) -> ValueId {
        let depth = *self.graph[x].shape.last().unwrap();
        let weights = self.constant(&[depth, outputs], 2.0 / (depth as f64).sqrt());
        self.node(Op::MatMul, &[x, weights])
    }

    /// `[N, T, h * d]` as `[N, h, T, d]`.
    fn heads(&mut self, x: ValueId, heads: usize) -> ValueId {
        let [n, t, c] = self.graph[x].shape[..] else { panic!("tokens") };
        let shape = [n, t, heads, c / heads].map(|extent| extent as i64).to_vec();
        let x = self.node(Op::Reshape { shape }, &[x]);
        self.node(Op::Transpose { order: vec![0, 2, 1, 3] }, &[x])
    }
}

/// `Q K^T V` for some heads, without what attention puts between.
fn products(random: &mut Random) -> Network {
    let heads = random.range(1, 3);
    let [n, t, s] = [random.range(1, 3), random.range(1, 40), random.range(1, 40)];
    let (d, e) = (8 * random.range(1, 4), random.pick(&[8, 16, 24]));
    let mut net = Net { random, graph: Graph::new("products"), count: 0 };
    let c = net.random.range(1, 30);
    let x = net.graph.add_input("x", DType::F32, &[n, t, c], &[]).unwrap();
    let y = net.graph.add_input("y", DType::F32, &[n, s, c], &[]).unwrap();
    let q = net.dense(x, heads * d);
    let q = match net.random.coin() {
        true => net.node(Op::Unary(Unary::Relu), &[q]),
        false => q,
    };
    let [k, v] = [heads * d, heads * e].map(|outputs| net.dense(y, outputs));
    let [q, k, v] = [q, k, v].map(|x| net.heads(x, heads));
    let k = net.node(Op::Transpose { order: vec![0, 1, 3, 2] }, &[k]);
    let p = net.node(Op::MatMul, &[q, k]);
    let z = net.node(Op::MatMul, &[p, v]);
    let z = net.node(Op::Transpose { order: vec![0, 2, 1, 3] }, &[z]);
    let shape = [n, t, heads * e].map(|extent| extent as i64).to_vec();
    let z = net.node(Op::Reshape { shape }, &[z]);
    let z = net.dense(z, c);
    net.graph.add_output(z);
    if net.random.coin() {
        net.graph.add_output(p);
    }
    calibrated(net.graph, random)
}

#[test]
fn products_of_two_values() {
    let mut counts = [0; 2];
    for case in 0..24 {
        let network = products(&mut Random::new(4000 + case));
        let found = judges_agree(&network, "fast", case);
        counts = [counts[0] + found[0], counts[1] + found[1]];
    }
    assert!(counts[0] >= 60, "{counts:?}");
}
