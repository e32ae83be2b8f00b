//! Small networks by hand.

use quincunx_graph::{BatchNorm, Binary, Conv, Graph, Op, Unary, ValueId, Window};
use quincunx_tensor::{DType, Tensor};

/// A graph under construction, with numbers that depend on how far it is.
pub(crate) struct Net {
    pub(crate) graph: Graph,
    pub(crate) seed: u64,
}

impl Net {
    pub(crate) fn new(shape: &[usize]) -> (Net, ValueId) {
        let mut graph = Graph::new("net");
        let x = graph.add_input("x", DType::F32, shape, &[]).unwrap();
        (Net { graph, seed: 7 }, x)
    }

    pub(crate) fn real(&mut self) -> f32 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.seed >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    pub(crate) fn constant(&mut self, shape: &[usize], around: f32, by: f32) -> ValueId {
        let size = shape.iter().product();
        let reals = (0..size).map(|_| around + by * self.real()).collect();
        let name = format!("c{}", self.graph.values().len());
        self.graph.add_constant(&name, Tensor::from_vec::<f32>(shape, reals).unwrap()).unwrap()
    }

    pub(crate) fn node(&mut self, name: &str, op: Op, inputs: &[ValueId]) -> ValueId {
        let inputs: Vec<Option<ValueId>> = inputs.iter().copied().map(Some).collect();
        self.graph.add_node(name, op, &inputs, &format!("{name}_out")).unwrap()
    }

    pub(crate) fn conv(
        &mut self,
        name: &str,
        x: ValueId,
        outputs: usize,
        kernel: usize,
        stride: usize,
    ) -> ValueId {
        let inputs = self.graph[x].shape[1];
        let by = 1.5 / (inputs as f32).sqrt() / kernel as f32;
        let weights = self.constant(&[outputs, inputs, kernel, kernel], 0.0, by);
        let bias = self.constant(&[outputs], 0.0, 0.2);
        let mut window = Window::new(&[kernel; 2]);
        window.strides = [stride; 2].into_iter().collect();
        window.pads = [(kernel / 2, kernel / 2); 2].into_iter().collect();
        self.node(name, Op::Conv(Conv { window, groups: 1 }), &[x, weights, bias])
    }

    pub(crate) fn norm(&mut self, name: &str, x: ValueId, around: f32) -> ValueId {
        let channels = [self.graph[x].shape[1]];
        let gamma = self.constant(&channels, around, 0.2);
        let beta = self.constant(&channels, 0.0, 0.3);
        let mean = self.constant(&channels, 0.0, 0.3);
        let variance = self.constant(&channels, 1.0, 0.4);
        let op = Op::BatchNorm(BatchNorm { epsilon: 1e-3 });
        self.node(name, op, &[x, gamma, beta, mean, variance])
    }

    pub(crate) fn relu(&mut self, name: &str, x: ValueId) -> ValueId {
        self.node(name, Op::Unary(Unary::Relu), &[x])
    }

    pub(crate) fn add(&mut self, name: &str, a: ValueId, b: ValueId) -> ValueId {
        self.node(name, Op::Binary(Binary::Add), &[a, b])
    }
}
