//! Layers against the exact executor of graphs, and worked out by hand.

mod cases;
mod definition;
mod floats;
mod random;
mod random_floats;
mod refused;

use super::prepare;
use quincunx_contract::Numerics;
use quincunx_diag::Diagnostic;
use quincunx_graph::{Constant, Graph, Op, Param, Quantiser, ValueId};
use quincunx_tensor::{DType, Tensor, Tensors};

/// A graph with its layers, and what is put into it.
#[derive(Clone)]
struct Net {
    graph: Graph,
    inputs: Tensors,
    layers: Vec<Vec<String>>,
    /// Of networks of floats the precision, and what results that no node reads are stored as.
    floats: Option<[&'static str; 2]>,
}

impl Net {
    fn new() -> Net {
        let layers = Vec::new();
        Net { graph: Graph::new("net"), inputs: Tensors::new(), layers, floats: None }
    }

    /// A network of floats.
    fn floats(precision: &'static str, last: &'static str) -> Net {
        Net { floats: Some([precision, last]), ..Net::new() }
    }

    fn input(&mut self, name: &str, shape: &[usize], reals: &[f64]) -> ValueId {
        self.given(name, Tensor::from_vec(shape, reals.to_vec()).unwrap())
    }

    fn given(&mut self, name: &str, tensor: Tensor) -> ValueId {
        let shape = tensor.shape().to_vec();
        self.inputs.insert(name.to_owned(), tensor);
        self.graph.add_input(name, DType::F32, &shape, &[]).unwrap()
    }

    /// An input and the layer that moves it onto a grid, which has the name with a `q` behind it.
    fn coded(&mut self, name: &str, shape: &[usize], reals: &[f64], grid: Quantiser) -> ValueId {
        let x = self.input(name, shape, reals);
        self.layer(&format!("{name}q"), Op::Quantise(grid), &[x])
    }

    /// A node whose result has its name.
    fn node(&mut self, name: &str, op: Op, inputs: &[ValueId]) -> Result<ValueId, Diagnostic> {
        let inputs: Vec<Option<ValueId>> = inputs.iter().copied().map(Some).collect();
        self.graph.add_node(&format!("{name}_node"), op, &inputs, name)
    }

    /// A node that begins a layer.
    fn layer(&mut self, name: &str, op: Op, inputs: &[ValueId]) -> ValueId {
        self.layers.push(vec![format!("{name}_node")]);
        self.node(name, op, inputs).unwrap()
    }

    /// A node that continues the last layer.
    fn tail(&mut self, name: &str, op: Op, inputs: &[ValueId]) -> ValueId {
        self.layers.last_mut().unwrap().push(format!("{name}_node"));
        self.node(name, op, inputs).unwrap()
    }

    fn codes(&mut self, name: &str, shape: &[usize], codes: &[i64], of: Quantiser) -> ValueId {
        let tensor = Tensor::from_vec(shape, codes.to_vec()).unwrap();
        self.graph.add_constant(name, Constant { tensor, quantiser: Some(of) }).unwrap()
    }

    fn plain(&mut self, name: &str, shape: &[usize], reals: &[f64]) -> ValueId {
        let reals: Vec<f32> = reals.iter().map(|&real| real as f32).collect();
        self.graph.add_constant(name, Tensor::from_vec(shape, reals).unwrap()).unwrap()
    }

    fn numerics(&self) -> Numerics {
        let layer = |nodes: &Vec<String>| {
            let mut layer = serde_json::json!({ "nodes": nodes });
            if let Some(stored) = self.stored(nodes) {
                layer["stored"] = stored.into();
            }
            let first = nodes.first().and_then(|name| self.graph.node_named(name));
            if first.is_some_and(|id| matches!(self.graph[id].op, Op::Softmax(_))) {
                layer["lanes"] = 2.into();
            }
            layer
        };
        let layers = self.layers.iter().map(layer).collect::<Vec<_>>();
        let precision = self.floats.map_or("int8", |[precision, _]| precision);
        Numerics(serde_json::json!({ "layers": layers, "precision": precision }))
    }

    /// What the result of a layer of floats is stored as.
    fn stored(&self, nodes: &[String]) -> Option<&'static str> {
        let [precision, last] = self.floats?;
        let node = self.graph.node_named(nodes.last()?)?;
        let is_read = !self.graph.consumers()[self.graph[node].output.index()].is_empty();
        Some(match (is_read, precision) {
            (false, _) => last,
            (true, "tf32") => "f32",
            (true, own) => own,
        })
    }

    /// The graph with an output, if it had none: its last result.
    fn complete(&self) -> Graph {
        let mut graph = self.graph.clone();
        if graph.outputs().is_empty() {
            let (_, last) = graph.nodes().last().unwrap();
            graph.add_output(last.output);
        }
        graph
    }

    fn run(&self) -> Result<Tensors, Diagnostic> {
        prepare(&self.complete(), &self.numerics())?.run(&self.inputs)
    }

    /// The numbers of the last result.
    fn last(&self) -> Vec<f64> {
        let (_, last) = self.graph.nodes().last().unwrap();
        self.run().unwrap()[&self.graph[last.output].name].to_f64()
    }
}

/// A grid of 8 bits.
fn grid(signed: bool, scale: f64, zero: i64) -> Quantiser {
    Quantiser { zero: Param::uniform(zero), ..Quantiser::symmetric(signed, 8, scale) }
}
