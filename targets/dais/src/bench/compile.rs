//! How long networks take from an ONNX file to a program: `quincunx bench dais:compile`.

use super::networks::measure_one;
use quincunx_contract::OptionInfo;
use quincunx_contract::bench::{Row, Run, Suite};
use quincunx_diag::Result;
use quincunx_graph::{
    Constant, Conv, Gemm, Graph, Op, Pool, PoolKind, Quantiser, Unary, ValueId, Window,
};
use quincunx_import::{ExportOptions, write_onnx};
use quincunx_tensor::{DType, Tensor};

pub(super) const SUITE: Suite = Suite {
    name: "compile",
    doc: "a dense and a convolutional network with weights of 6 bits, from ONNX to a program",
    options: &[OptionInfo::one_of(
        "effort",
        "How hard to search for few adders",
        "fast",
        &["fast", "default", "max"],
    )],
    run: measure,
};

fn measure(run: &Run) -> Result<Vec<Row>> {
    // The larger network is more than the default takes.
    let chosen = [("effort", run.options.get("effort")), ("max-operations", "8388608")];
    let mut rows = Vec::new();
    for (name, network) in [("jet_mlp", jet_mlp as fn() -> Result<Graph>), ("cnn32", cnn32)] {
        let model = write_onnx(&network()?, &ExportOptions::default())?;
        rows.extend(measure_one(run, name, &model, &chosen)?);
    }
    Ok(rows)
}

/// A network under construction; its numbers are the same in every run.
struct Builder {
    graph: Graph,
    state: u64,
}

impl Builder {
    /// An input on a grid of 8 bits.
    fn new(name: &str, shape: &[usize]) -> Result<(Builder, ValueId)> {
        let mut builder = Builder { graph: Graph::new(name), state: 1 };
        let x = builder.graph.add_input("x", DType::F32, shape, &[])?;
        let x =
            builder.node("input", Op::Quantise(Quantiser::symmetric(true, 8, 1.0 / 64.0)), &[x])?;
        Ok((builder, x))
    }

    fn node(&mut self, name: &str, op: Op, inputs: &[ValueId]) -> Result<ValueId> {
        let inputs: Vec<_> = inputs.iter().map(|&id| Some(id)).collect();
        self.graph.add_node(name, op, &inputs, &format!("{name}_out"))
    }

    /// SplitMix64.
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Weights of 6 bits, without the lowest code.
    fn weights(&mut self, name: &str, shape: &[usize], scale: f64) -> Result<ValueId> {
        let count = shape.iter().product();
        let codes: Vec<i8> = (0..count).map(|_| (self.random() % 63) as i8 - 31).collect();
        let tensor = Tensor::from_vec(shape, codes)?;
        let quantiser = Some(Quantiser::symmetric(true, 6, scale));
        self.graph.add_constant(name, Constant { tensor, quantiser })
    }

    /// A rectifier and unsigned numbers of 8 bits.
    fn rectified(&mut self, name: &str, x: ValueId) -> Result<ValueId> {
        let relu = self.node(&format!("{name}_relu"), Op::Unary(Unary::Relu), &[x])?;
        let quantiser = Quantiser::symmetric(false, 8, 1.0 / 32.0);
        self.node(&format!("{name}_quant"), Op::Quantise(quantiser), &[relu])
    }

    fn dense(&mut self, name: &str, x: ValueId, outputs: usize) -> Result<ValueId> {
        let inputs = self.graph[x].shape[1];
        let w = self.weights(&format!("{name}_w"), &[inputs, outputs], 1.0 / 64.0)?;
        let b = self.weights(&format!("{name}_b"), &[outputs], 1.0 / 64.0)?;
        let gemm = Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: false };
        self.node(name, Op::Gemm(gemm), &[x, w, b])
    }

    fn convolution(&mut self, name: &str, x: ValueId) -> Result<ValueId> {
        let channels = self.graph[x].shape[1];
        let w = self.weights(&format!("{name}_w"), &[16, channels, 3, 3], 1.0 / 128.0)?;
        let b = self.weights(&format!("{name}_b"), &[16], 1.0 / 64.0)?;
        let mut window = Window::new(&[3, 3]);
        window.pads = [(1, 1), (1, 1)].into_iter().collect();
        let x = self.node(name, Op::Conv(Conv { window, groups: 1 }), &[x, w, b])?;
        self.rectified(name, x)
    }

    fn finish(mut self, output: ValueId) -> Graph {
        self.graph.add_output(output);
        self.graph
    }
}

/// 16 features of jets, layers of 64, 32 and 32, five classes.
fn jet_mlp() -> Result<Graph> {
    let (mut network, mut x) = Builder::new("jet_mlp", &[1, 16])?;
    for (name, width) in [("dense1", 64), ("dense2", 32), ("dense3", 32)] {
        x = network.dense(name, x, width)?;
        x = network.rectified(name, x)?;
    }
    let x = network.dense("dense4", x, 5)?;
    Ok(network.finish(x))
}

/// Images of 32x32 in three colours: three convolutions of 3x3 with 16 filters, each followed by
/// pooling of 2x2, and two dense layers.
fn cnn32() -> Result<Graph> {
    let (mut network, mut x) = Builder::new("cnn32", &[1, 3, 32, 32])?;
    for name in ["conv1", "conv2", "conv3"] {
        x = network.convolution(name, x)?;
    }
    let mut window = Window::new(&[2, 2]);
    window.strides = [2, 2].into_iter().collect();
    let pool = Op::Pool(Pool { kind: PoolKind::Max, window, ceil: false });
    let x = network.node("pool", pool, &[x])?;
    let x = network.node("flatten", Op::Flatten { axis: 1 }, &[x])?;
    let x = network.dense("dense1", x, 32)?;
    let x = network.rectified("dense1", x)?;
    let x = network.dense("dense2", x, 10)?;
    Ok(network.finish(x))
}

#[cfg(test)]
mod tests {
    use super::super::networks::{adders, compile};
    use super::*;
    use quincunx_contract::{Engine, Program};
    use quincunx_tensor::Tensors;

    /// The small network against exact arithmetic.
    #[test]
    fn the_dense_network_computes_what_it_means() {
        let graph = jet_mlp().unwrap();
        let model = write_onnx(&graph, &ExportOptions::default()).unwrap();
        let compiled = compile(&model, &[("effort", "fast")]).unwrap();
        let [program] = &compiled.programs[..] else { panic!("one program") };
        assert!(adders(program.stages().iter()).0 > 1000);
        let mut machine = program.load(Engine::Fast).unwrap();
        for seed in 0..20_u32 {
            let x = (0..16_u32).map(|i| ((seed * 31 + i * 17) % 97) as f32 / 30.0 - 1.6);
            let x = Tensor::from_vec(&[1, 16], x.collect::<Vec<f32>>()).unwrap();
            let inputs = Tensors::from([("x".to_owned(), x)]);
            let keep = quincunx_graph::execute::Keep::Outputs;
            let expected = quincunx_graph::execute::exact(&graph, &inputs, keep).unwrap();
            let found = machine.run(&inputs).unwrap();
            assert_eq!(found["dense4_out"].to_f64(), expected["dense4_out"].to_f64());
        }
    }
}
