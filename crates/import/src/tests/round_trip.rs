//! Writing a graph and reading it again gives the same graph.

use crate::export::{Dialect, ExportOptions};
use crate::options::Options;
use crate::{read_onnx, write_onnx};
use proptest::prelude::*;
use quincunx_diag::Class;
use quincunx_graph::{
    BatchNorm, Binary, Constant, Conv, Gemm, Graph, Op, Param, Pool, PoolKind, Quantiser, Unary,
    ValueId, Window,
};
use quincunx_num::{Overflow, Rounding};
use quincunx_tensor::{DType, Tensor};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// A text that is equal for graphs that differ only in names.
pub(super) fn canonical(graph: &Graph) -> String {
    let mut numbers = BTreeMap::new();
    let mut text = String::new();
    for &input in graph.inputs() {
        let value = &graph[input];
        numbers.insert(input, numbers.len());
        writeln!(text, "in {} {:?} {:?}", value.dtype, value.shape, value.symbols).unwrap();
    }
    let mut number = |id: ValueId, text: &mut String| {
        let next = numbers.len();
        *numbers.entry(id).or_insert_with(|| {
            if let Some(constant) = &graph[id].constant {
                let codes = constant.quantiser.is_some().then(|| constant.tensor.to_i64());
                let plain = constant.quantiser.is_none().then_some(&constant.tensor);
                writeln!(text, "{next} = {codes:?} {plain:?} {:?}", constant.quantiser).unwrap();
            }
            next
        })
    };
    for (_, node) in graph.nodes() {
        let inputs: Vec<_> =
            node.inputs.iter().map(|i| i.map(|id| number(id, &mut text))).collect();
        let output = number(node.output, &mut text);
        let value = &graph[node.output];
        writeln!(text, "{output} {}{:?} = {:?} {inputs:?}", value.dtype, value.shape, node.op)
            .unwrap();
    }
    for &output in graph.outputs() {
        let line = format!("out {}", number(output, &mut text));
        writeln!(text, "{line}").unwrap();
    }
    text
}

fn round_trip(graph: &Graph, dialect: Dialect) -> Graph {
    let file = write_onnx(graph, &ExportOptions { dialect }).unwrap();
    let options = Options {
        bindings: graph
            .inputs()
            .iter()
            .flat_map(|&id| graph[id].symbols.iter().zip(&graph[id].shape))
            .filter_map(|(symbol, extent)| Some((symbol.clone()?, *extent)))
            .collect(),
        ..Options::default()
    };
    let again = read_onnx(file.into(), &options).unwrap();
    assert_eq!(again.verify(), []);
    again
}

pub(super) fn digits(name: &str) -> Option<Graph> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits").join(name);
    let bytes = std::fs::read(&path).ok()?;
    Some(read_onnx(bytes.into(), &Options::beside(&path)).unwrap())
}

#[test]
fn digits_models() {
    for name in ["digits.onnx", "digits_qdq.onnx", "digits_pow2.onnx"] {
        let graph = digits(name).unwrap_or_else(|| panic!("examples/digits/{name} exists"));
        assert_eq!(graph.verify(), []);
        assert_eq!(graph[graph.inputs()[0]].symbols[0].as_deref(), Some("N"));
        let again = round_trip(&graph, Dialect::Auto);
        assert_eq!(canonical(&graph), canonical(&again), "{name}");
        let names =
            |graph: &Graph| -> Vec<String> { graph.nodes().map(|(_, n)| n.name.clone()).collect() };
        assert_eq!(names(&graph), names(&again));
    }
    let pow2 = digits("digits_pow2.onnx").unwrap();
    assert_eq!(canonical(&pow2), canonical(&round_trip(&pow2, Dialect::Qonnx)));
    assert!(pow2.nodes().any(|(_, node)| matches!(node.op, Op::Quantise(_))));
}

#[test]
fn symbols_reach_the_outputs() {
    use crate::proto::ModelProto;
    use prost::Message;
    let mut graph = Graph::new("g");
    let symbols = [Some("N".to_owned()), None, Some("H".to_owned())];
    let x = graph.add_input("x", DType::F32, &[4, 2, 4], &symbols).unwrap();
    let y = graph.add_node("f", Op::Flatten { axis: 1 }, &[Some(x)], "y").unwrap();
    graph.add_output(y);
    let file = write_onnx(&graph, &ExportOptions::default()).unwrap();
    let model = ModelProto::decode(&file[..]).unwrap();
    let output = &model.graph.unwrap().output[0];
    let dims =
        &output.r#type.as_ref().unwrap().tensor.as_ref().unwrap().shape.as_ref().unwrap().dim;
    assert_eq!(dims[0].dim_param.as_deref(), Some("N"));
    assert_eq!((dims[1].dim_param.as_deref(), dims[1].dim_value), (None, None), "2 * H is open");
}

#[test]
fn the_lowest_opset_is_chosen() {
    use crate::proto::ModelProto;
    use prost::Message;
    let opset = |op: Op| {
        let mut graph = Graph::new("g");
        let x = graph.add_input("x", DType::F32, &[1, 1, 9], &[]).unwrap();
        let y = graph.add_node("n", op, &[Some(x)], "y").unwrap();
        graph.add_output(y);
        let file = write_onnx(&graph, &ExportOptions::default()).unwrap();
        ModelProto::decode(&file[..]).unwrap().opset_import[0].version.unwrap()
    };
    assert_eq!(opset(Op::Identity), 13);
    let mut window = Window::new(&[2]);
    window.dilations[0] = 2;
    let kind = PoolKind::Average { count_include_pad: false };
    assert_eq!(opset(Op::Pool(Pool { kind, window, ceil: false })), 19);
    assert_eq!(opset(Op::Quantise(Quantiser::symmetric(true, 8, 0.5))), 13);
    assert_eq!(opset(Op::ToCodes(Quantiser::symmetric(true, 16, 0.5))), 21);
}

#[test]
fn what_onnx_cannot_express() {
    let base = Quantiser::symmetric(true, 4, 0.5);
    let fine = Quantiser { scale: Param::uniform(0.1), ..base.clone() };
    let modes = Param::new(&[2], vec![Rounding::Floor, Rounding::Ceil]).unwrap();
    let modes = Quantiser { rounding: modes, ..base.clone() };
    let ends = Param::new(&[2], vec![Overflow::Wrap, Overflow::Saturate]).unwrap();
    let ends = Quantiser { overflow: ends, ..base.clone() };
    let anywhere = [fine, modes, ends].map(Op::Quantise);
    let anywhere = anywhere.into_iter().chain([Op::ToCodes(base)]);
    let in_qonnx = only_ours().into_iter().map(Op::Quantise);
    for (op, dialect) in
        anywhere.map(|op| (op, Dialect::Auto)).chain(in_qonnx.map(|op| (op, Dialect::Qonnx)))
    {
        let problem = write_onnx(&quantising(op), &ExportOptions { dialect }).unwrap_err();
        assert_eq!((problem.code(), problem.class()), ("Q0420", Class::Unsupported), "{problem}");
        assert!(problem.place().is_some());
    }
}

fn quantising(op: Op) -> Graph {
    let mut graph = Graph::new("g");
    let x = graph.add_input("x", DType::F32, &[2], &[]).unwrap();
    let y = graph.add_node("n", op, &[Some(x)], "y").unwrap();
    graph.add_output(y);
    graph
}

/// Quantisers that QONNX cannot describe and our own operator can.
fn only_ours() -> [Quantiser; 5] {
    let base = Quantiser::symmetric(true, 4, 0.5);
    let signed = Param::new(&[2], vec![true, false]).unwrap();
    let ends = Param::new(&[2], vec![Overflow::SaturateNarrow, Overflow::Saturate]).unwrap();
    [
        Quantiser { zero: Param::uniform(1), ..base.clone() },
        Quantiser { overflow: Param::uniform(Overflow::Wrap), ..base.clone() },
        Quantiser { rounding: Param::uniform(Rounding::HalfCeil), ..base.clone() },
        Quantiser { signed: signed.clone(), ..base.clone() },
        Quantiser { signed, overflow: ends, width: Param::new(&[2], vec![4, 0]).unwrap(), ..base },
    ]
}

#[test]
fn our_operator_says_what_qonnx_cannot() {
    for quantiser in only_ours() {
        let graph = quantising(Op::Quantise(quantiser.clone()));
        assert_eq!(canonical(&graph), canonical(&round_trip(&graph, Dialect::Auto)));
        // Codes of constants, with and without a sign.
        let mut graph = Graph::new("g");
        let x = graph.add_input("x", DType::F32, &[2], &[]).unwrap();
        let codes = vec![-3_i64, if quantiser.width.as_uniform().is_some() { 7 } else { 0 }];
        let tensor = Tensor::from_vec(&[2], codes).unwrap();
        let constant = Constant { tensor, quantiser: Some(quantiser) };
        let c = graph.add_constant("c", constant).unwrap();
        let y = graph.add_node("n", Op::Binary(Binary::Add), &[Some(x), Some(c)], "y").unwrap();
        graph.add_output(y);
        assert_eq!(canonical(&graph), canonical(&round_trip(&graph, Dialect::Auto)));
    }
}

#[test]
fn repeated_outputs_and_odd_names() {
    let mut graph = Graph::new("");
    let x = graph.add_input("", DType::F32, &[2], &[]).unwrap();
    let y = graph.add_node("", Op::Unary(Unary::Neg), &[Some(x)], "y").unwrap();
    graph.add_output(y);
    graph.add_output(y);
    let again = round_trip(&graph, Dialect::Auto);
    assert_eq!(again.outputs().len(), 2);
    assert_ne!(again.outputs()[0], again.outputs()[1]);
}

/// Takes decisions from a list of bytes.
struct Choices<'a>(std::slice::Iter<'a, u8>);

impl Choices<'_> {
    fn below(&mut self, limit: usize) -> usize {
        usize::from(self.0.next().copied().unwrap_or(0)) % limit
    }

    fn flag(&mut self) -> bool {
        self.below(2) == 1
    }
}

/// Builds a graph of float values step by step.
struct Builder<'a> {
    graph: Graph,
    choices: Choices<'a>,
    count: usize,
}

impl Builder<'_> {
    fn name(&mut self) -> String {
        self.count += 1;
        format!("v{}", self.count)
    }

    fn quantiser(&mut self, axis_shape: Option<&[usize]>) -> Quantiser {
        let widths = [8, 8, 3, 5, 12, 16];
        let mut quantiser =
            Quantiser::symmetric(self.choices.flag(), widths[self.choices.below(6)], 0.25);
        if let Some(shape) = axis_shape.filter(|_| self.choices.flag()) {
            let count = shape.iter().product();
            let scales = (0..count).map(|i| 0.5 / (i + 1 + self.choices.below(3)) as f64);
            let scales = scales.map(|scale| f64::from(scale as f32)).collect();
            quantiser.scale = Param::new(shape, scales).unwrap();
        }
        if self.choices.flag() {
            quantiser.zero = Param::uniform(2);
        } else if self.choices.flag() {
            quantiser.overflow = Param::uniform(Overflow::SaturateNarrow);
            quantiser.rounding = Param::uniform(Rounding::ALL[self.choices.below(7)]);
        }
        quantiser
    }

    /// Plain floats, or codes.
    fn constant(&mut self, shape: &[usize]) -> ValueId {
        let count: usize = shape.iter().product();
        let name = self.name();
        if self.choices.flag() {
            let values = (0..count).map(|_| self.choices.below(200) as f32 / 64.0 + 0.1).collect();
            return self
                .graph
                .add_constant(&name, Tensor::from_vec::<f32>(shape, values).unwrap())
                .unwrap();
        }
        let mut channels = vec![1; shape.len()];
        if let (Some(first), Some(extent)) = (channels.first_mut(), shape.first()) {
            *first = *extent;
        }
        let quantiser = self.quantiser((shape.len() > 1).then_some(&channels));
        let codes: Vec<i64> = (0..count)
            .map(|_| self.choices.below(7) as i64)
            .map(|c| if quantiser.signed.as_uniform() == Some(true) { c - 3 } else { c })
            .collect();
        let codes: Vec<i64> = codes.into_iter().map(|c| c.clamp(-3, 3)).collect();
        let tensor = Tensor::from_vec(shape, codes).unwrap();
        self.graph.add_constant(&name, Constant { tensor, quantiser: Some(quantiser) }).unwrap()
    }

    fn window(&mut self) -> Window {
        let mut window = Window::new(&[1 + self.choices.below(3), 1 + self.choices.below(3)]);
        for axis in 0..2 {
            window.strides[axis] = 1 + self.choices.below(2);
            window.dilations[axis] = 1 + self.choices.below(2);
            // Below the kernel, as onnxruntime wants it for poolings.
            let kernel = window.kernel[axis];
            window.pads[axis] = (self.choices.below(kernel), self.choices.below(kernel));
        }
        window
    }

    fn add(&mut self, op: Op, inputs: &[ValueId]) -> Option<ValueId> {
        let inputs: Vec<_> = inputs.iter().copied().map(Some).collect();
        let (node, output) = (self.name(), self.name());
        self.graph.add_node(&node, op, &inputs, &output).ok()
    }

    /// One more node on top of `x`; `None` when what was chosen does not fit.
    fn step(&mut self, x: ValueId) -> Option<ValueId> {
        let shape = self.graph[x].shape.to_vec();
        let channels = *shape.get(1)?;
        match self.choices.below(12) {
            0 => {
                let window = self.window();
                let w = self.constant(&[2, channels, window.kernel[0], window.kernel[1]]);
                let b = self.constant(&[2]);
                let op = Op::Conv(Conv { window, groups: 1 });
                if self.choices.flag() { self.add(op, &[x, w]) } else { self.add(op, &[x, w, b]) }
            }
            1 => {
                let kind = match self.choices.below(3) {
                    0 => PoolKind::Max,
                    flag => PoolKind::Average { count_include_pad: flag == 1 },
                };
                let op = Op::Pool(Pool { kind, window: self.window(), ceil: self.choices.flag() });
                self.add(op, &[x])
            }
            2 => {
                let op = [Unary::Relu, Unary::Neg, Unary::Abs][self.choices.below(3)];
                self.add(Op::Unary(op), &[x])
            }
            3 => {
                let ops =
                    [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div, Binary::Max, Binary::Min];
                let op = Op::Binary(ops[self.choices.below(6)]);
                let other = if self.choices.flag() {
                    x
                } else {
                    self.constant(&[1, channels, 1, 1][..shape.len().min(4)])
                };
                self.add(op, &[x, other])
            }
            4 => {
                let parameters: Vec<_> = (0..4).map(|_| self.constant(&[channels])).collect();
                let op = Op::BatchNorm(BatchNorm { epsilon: 0.5 });
                self.add(op, &[&[x][..], &parameters].concat())
            }
            5 | 6 => {
                let mut per_channel = vec![1; shape.len() - 1];
                per_channel[0] = channels;
                let quantiser = self.quantiser(Some(&per_channel));
                self.add(Op::Quantise(quantiser), &[x])
            }
            7 => {
                let transpose_b = self.choices.flag();
                let b = self.constant(&if transpose_b { [3, channels] } else { [channels, 3] });
                let gemm = Gemm { alpha: 0.5, beta: 2.0, transpose_a: false, transpose_b };
                let c = self.constant(&[3]);
                self.add(Op::Gemm(gemm), &[x, b, c])
            }
            8 => {
                let order = (0..shape.len()).map(|axis| (axis + 1) % shape.len()).collect();
                self.add(Op::Transpose { order }, &[x])
            }
            9 => {
                let axis = self.choices.below(shape.len() + 1);
                self.add(Op::Flatten { axis }, &[x])
            }
            10 => self.add(Op::Reshape { shape: vec![0, -1, 1, 1] }, &[x]),
            _ => {
                let quantiser = Quantiser::symmetric(true, 8, 0.5);
                let codes = self.add(Op::ToCodes(quantiser.clone()), &[x])?;
                let other = Quantiser { scale: Param::uniform(0.25), ..quantiser };
                self.add(Op::FromCodes(other), &[codes])
            }
        }
    }
}

/// A small random graph; the same choices give the same graph. With `symbolic`, the outermost
/// extent of the input may have a name.
pub(crate) fn random_graph(choices: &[u8], symbolic: bool) -> Graph {
    let mut builder =
        Builder { graph: Graph::new("random"), choices: Choices(choices.iter()), count: 0 };
    let symbol = (builder.choices.flag() && symbolic).then(|| "N".to_owned());
    let shape = [1 + builder.choices.below(2), 1 + builder.choices.below(3), 6, 5];
    let mut x = builder.graph.add_input("x", DType::F32, &shape, &[symbol]).unwrap();
    for _ in 0..1 + builder.choices.below(6) {
        x = builder.step(x).unwrap_or(x);
    }
    builder.graph.add_output(x);
    builder.graph
}

proptest! {
    #[test]
    fn random_graphs(choices in prop::collection::vec(any::<u8>(), 4..200)) {
        let graph = random_graph(&choices, true);
        for dialect in [Dialect::Auto, Dialect::Qonnx] {
            let again = round_trip(&graph, dialect);
            prop_assert_eq!(strip(&canonical(&graph)), strip(&canonical(&again)), "{}", graph);
            // A second time nothing is left to normalise.
            prop_assert_eq!(canonical(&again), canonical(&round_trip(&again, dialect)));
        }
    }
}

/// Rounding modes of constants have no effect on their meaning, and are not always kept.
fn strip(canonical: &str) -> String {
    let line = |line: &str| match line.split_once("rounding: ") {
        Some((before, after)) if line.contains("= Some(") => {
            format!("{before}{}", after.split_once("overflow").map_or("", |(_, rest)| rest))
        }
        _ => line.to_owned(),
    };
    canonical.lines().map(line).collect::<Vec<_>>().join("\n")
}
