//! Verbs on a machine made for tests.

mod compare;
mod compile;
mod program;
mod split;
pub(crate) mod toy;

use crate::run::{Layers, Options};
use crate::{Dataset, InputSpec, Model, Setup};
use quincunx_contract::{ArchSource, Engine};
use quincunx_graph::{Binary, Graph, Op, Unary};
use quincunx_tensor::{DType, Tensor};
use std::num::NonZeroUsize;
use toy::TOY;

const ONE: NonZeroUsize = NonZeroUsize::MIN;

fn threads(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).unwrap()
}

/// `y = relu(x) + -relu(x) * 2` and further outputs: on the machine, the host and the machine.
fn mixed() -> Model {
    let mut graph = Graph::new("mixed");
    let x = graph.add_input("x", DType::F32, &[1, 4], &[]).unwrap();
    let relu = graph.add_node("relu", Op::Unary(Unary::Relu), &[Some(x)], "r").unwrap();
    let neg = graph.add_node("neg", Op::Unary(Unary::Neg), &[Some(relu)], "n").unwrap();
    let two = graph.add_constant("two", Tensor::scalar(2.0_f32)).unwrap();
    let mul = graph.add_node("mul", Op::Binary(Binary::Mul), &[Some(neg), Some(two)], "m").unwrap();
    let add = Op::Binary(Binary::Add);
    let add = graph.add_node("add", add, &[Some(relu), Some(mul)], "y").unwrap();
    graph.add_output(add);
    model(graph)
}

/// One node on the machine.
fn relu_only() -> Model {
    let mut graph = Graph::new("relu");
    let x = graph.add_input("x", DType::F32, &[1, 4], &[]).unwrap();
    let relu = graph.add_node("relu", Op::Unary(Unary::Relu), &[Some(x)], "r").unwrap();
    graph.add_output(relu);
    model(graph)
}

/// Nothing on the machine.
fn neg_only() -> Model {
    let mut graph = Graph::new("neg");
    let x = graph.add_input("x", DType::F32, &[1, 4], &[]).unwrap();
    let neg = graph.add_node("neg", Op::Unary(Unary::Neg), &[Some(x)], "n").unwrap();
    graph.add_output(neg);
    model(graph)
}

/// Outputs that are an input and constants, one of them twice.
fn passthrough() -> Model {
    let mut graph = Graph::new("passthrough");
    let x = graph.add_input("x", DType::F32, &[1, 4], &[]).unwrap();
    let constant = Tensor::from_vec(&[2], vec![5_i64, 6]).unwrap();
    let constant = graph.add_constant("c", constant).unwrap();
    let relu = graph.add_node("relu", Op::Unary(Unary::Relu), &[Some(x)], "r").unwrap();
    [relu, x, constant, constant].into_iter().for_each(|id| graph.add_output(id));
    model(graph)
}

fn model(graph: Graph) -> Model {
    Model {
        name: "model.onnx".to_owned(),
        path: None,
        graph,
        format: quincunx_import::Format::Onnx.name(),
        options: None,
        reading: Default::default(),
    }
}

fn setup(options: &[(&str, &str)]) -> Setup<'static> {
    let options: Vec<_> =
        options.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    Setup::new(&TOY, &ArchSource::Default, &options).unwrap()
}

fn plain() -> Options {
    Options { layers: Layers::None, engine: Engine::Exec, threads: ONE }
}

fn traced() -> Options {
    Options { layers: Layers::All, ..plain() }
}

/// Random images for a model.
fn images(model: &Model, count: usize) -> Dataset {
    Dataset::generate("random:1", &InputSpec::of(&model.graph), count).unwrap().unwrap()
}
