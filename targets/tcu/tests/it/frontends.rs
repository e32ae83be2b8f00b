//! ONNX and TensorFlow graphs from the file to the machine: every operator of the tables, also where
//! upstream's compiler computes something else.

use crate::common::graphs::judge;
use crate::common::onnx::Attribute::{Float, Int, Ints, Text};
use crate::common::onnx::{Attribute, Model};
use quincunx_contract::Claim;
use quincunx_contract::plan::Place;
use quincunx_graph::Graph;
use quincunx_graph::execute::{Keep, float};
use quincunx_graph::passes::fold_constants;
use quincunx_import::{Options as Reading, read_graph_def, read_onnx};
use quincunx_tcu::TcuArch;
use quincunx_tcu::arch::DataType;
use quincunx_tensor::{Tensor, Tensors, npy};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A machine with tables, so that all that can run on a machine does.
fn machine(data_type: DataType) -> TcuArch {
    TcuArch {
        data_type,
        simd_registers_depth: 2,
        lookup_tables: Some(2),
        lookup_table_depth: Some(256),
        ..TcuArch::preset("pynqz1").unwrap()
    }
}

/// What ran where.
#[derive(Default)]
struct Ran {
    device: BTreeSet<&'static str>,
    /// Operators that ran on the host, with the reason.
    host: BTreeMap<&'static str, String>,
}

/// Runs a graph in segments. On the machine all judges agree.
fn run(graph: &Graph, arch: &TcuArch, inputs: &Tensors, ran: &mut Ran) -> Tensors {
    let plan = crate::common::plan(graph, arch);
    for row in &plan.rows {
        match &row.reason {
            None => drop(ran.device.insert(row.op)),
            Some(reason) => drop(ran.host.insert(row.op, reason.clone())),
        }
    }
    let mut values = inputs.clone();
    for segment in &plan.segments {
        let wanted = segment.graph.inputs().iter().map(|&id| segment.graph[id].name.clone());
        let given: Tensors = wanted.map(|name| (name.clone(), values[&name].clone())).collect();
        let found = match segment.place {
            Place::Device => on_machine(&segment.graph, arch, &given),
            Place::Host => float(&segment.graph, &given, Keep::Outputs).unwrap(),
        };
        values.extend(found);
    }
    let outputs = graph.outputs().iter().map(|&id| {
        let value = &graph[id];
        let constant = || value.constant.as_ref().unwrap().tensor.clone();
        (value.name.clone(), values.get(&value.name).cloned().unwrap_or_else(constant))
    });
    outputs.collect()
}

fn on_machine(graph: &Graph, arch: &TcuArch, inputs: &Tensors) -> Tensors {
    let [_, result] = ["free", "compat"].map(|rounding| {
        let agreed = judge(graph, inputs, arch, &[("rounding", rounding)]);
        let agreed = agreed.unwrap_or_else(|problem| panic!("{problem}\n{graph}"));
        let outputs = graph.outputs().iter().map(|&id| &graph[id].name);
        let outputs = outputs.map(|name| {
            let tensor = &agreed.samples[0].1[name];
            let reals = tensor.to_f64().iter().map(|&real| real as f32).collect();
            (name.clone(), Tensor::from_vec::<f32>(tensor.shape(), reals).unwrap())
        });
        outputs.collect()
    });
    result
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/import/tests/graphdef")
}

/// A frozen graph with the inputs and outputs of TensorFlow.
fn stored(path: &Path) -> (Graph, Tensors, Tensors) {
    let arrays = npy::read_npz(std::fs::read(path.with_extension("npz")).unwrap()).unwrap();
    let part = |prefix: &str| -> Tensors {
        let named = arrays.iter();
        named.filter_map(|(n, t)| Some((n.strip_prefix(prefix)?.to_owned(), t.clone()))).collect()
    };
    let (inputs, outputs) = (part("in_"), part("out_"));
    let shapes = inputs.iter().map(|(name, tensor)| (name.clone(), tensor.shape().to_vec()));
    let options = Reading { input_shapes: shapes.collect(), ..Reading::default() };
    let graph = read_graph_def(std::fs::read(path).unwrap().into(), &options).unwrap();
    (fold_constants(&graph).unwrap(), inputs, outputs)
}

/// The TensorFlow operators that upstream's compiler knows, those of compile time included.
const TENSORFLOW: [&str; 28] = [
    "MatMul",
    "Conv2D",
    "BiasAdd",
    "AddV2",
    "FusedBatchNormV3",
    "Relu",
    "LeakyRelu",
    "Softmax",
    "MaxPool",
    "AvgPool",
    "Mean",
    "ResizeBilinear",
    "ConcatV2",
    "Split",
    "SplitV",
    "Pad",
    "Reshape",
    "Identity",
    "Const",
    "Placeholder",
    "Shape",
    "StridedSlice",
    "Pack",
    "Tile",
    "Cast",
    "Sub",
    "Mul",
    "DepthwiseConv2dNative",
];

/// What they become, and what runs on a machine with tables.
const ON_THE_MACHINE: [&str; 24] = [
    "Add",
    "AveragePool",
    "BatchNormalization",
    "Clip",
    "Concat",
    "Conv",
    "Exp",
    "Gather",
    "Gemm",
    "GlobalAveragePool",
    "LeakyRelu",
    "MatMul",
    "MaxPool",
    "Mul",
    "Pad",
    "ReduceMean",
    "Relu",
    "Reshape",
    "Resize",
    "Sigmoid",
    "Slice",
    "Softmax",
    "Tanh",
    "Transpose",
];

/// Graphs that such a machine computes as a whole.
const WHOLE: [&str; 12] = [
    "blocks",
    "cnn",
    "conv",
    "conv_nchw",
    "depthwise",
    "dilated",
    "fused",
    "mobilenet",
    "pool",
    "ports",
    "resnet",
    "shapes",
];

#[test]
fn tensorflow_graphs_compute_what_tensorflow_does() {
    let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|e| e == "pb")).collect();
    files.sort();
    assert!(files.len() >= 26);
    let arch = machine(DataType::FP32BP16);
    let (mut ran, mut seen, mut compared) = (Ran::default(), BTreeSet::new(), 0);
    let (mut far, mut whole) = (BTreeMap::new(), BTreeSet::new());
    for path in &files {
        let bytes = std::fs::read(path).unwrap();
        for operator in TENSORFLOW {
            let field = [&[0x12, operator.len() as u8], operator.as_bytes()].concat();
            if bytes.windows(field.len()).any(|window| window == field) {
                seen.insert(operator);
            }
        }
        let (graph, inputs, expected) = stored(path);
        let found = run(&graph, &arch, &inputs, &mut ran);
        if crate::common::claim(&graph, &arch).iter().all(|claim| *claim == Claim::Device) {
            whole.insert(path.file_stem().unwrap().to_str().unwrap());
        }
        for (name, expected) in &expected {
            for (f, e) in found[name].to_f64().iter().zip(expected.to_f64()) {
                let near = (f - e).abs() <= 4e-3 * (1.0 + e.abs()) || (f.is_nan() && e.is_nan());
                if !near && *f != e {
                    let stem = path.file_stem().unwrap().to_str().unwrap();
                    far.insert(format!("{stem} {name}"), (*f, e));
                }
                compared += 1;
            }
        }
    }
    // What is a little below a half is rounded to another whole number.
    assert_eq!(far.keys().collect::<Vec<_>>(), ["unary rint_1", "unary round_1"], "{far:?}");
    assert_eq!(seen.len(), TENSORFLOW.len(), "{seen:?}");
    for operator in ON_THE_MACHINE {
        assert!(ran.device.contains(operator), "{operator}: {:?}", ran.host);
    }
    for name in WHOLE {
        assert!(whole.contains(name), "{whole:?}");
    }
    assert!(compared > 5000, "{compared}");
}

/// A tensor of an image, for computing by hand.
#[derive(Clone)]
struct Image {
    shape: [usize; 3],
    reals: Vec<f64>,
}

impl Image {
    /// Sixteenths between -2 and 2.
    fn new(shape: [usize; 3]) -> Image {
        let count: usize = shape.iter().product();
        let real = |at: usize| ((at * 29 + at * at * 7) % 65) as f64 / 16.0 - 2.0;
        Image { shape, reals: (0..count).map(real).collect() }
    }

    /// An element; nothing outside.
    fn at(&self, c: usize, h: i64, w: i64) -> Option<f64> {
        let [_, rows, columns] = self.shape;
        let inside = (0..rows as i64).contains(&h) && (0..columns as i64).contains(&w);
        inside.then(|| self.reals[(c * rows + h as usize) * columns + w as usize])
    }

    /// An image of other extents, element by element.
    fn made(shape: [usize; 3], of: impl Fn(usize, i64, i64) -> f64) -> Vec<f64> {
        let mut reals = Vec::new();
        for c in 0..shape[0] {
            for h in 0..shape[1] {
                reals.extend((0..shape[2]).map(|w| of(c, h as i64, w as i64)));
            }
        }
        reals
    }
}

/// Eighths between -1 and 1, never 0.
fn weights(count: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 5 + at / 3) % 8 + 1) as f32 / 8.0 - 0.5625).collect()
}

/// A window of 3 x 3, every tap `dilation` apart: taps with their elements.
fn taps(x: &Image, c: usize, (h, w): (i64, i64), dilation: i64) -> Vec<(usize, f64)> {
    let tap = |at: i64| x.at(c, h + at / 3 * dilation, w + at % 3 * dilation);
    (0..9).filter_map(|at| Some((at as usize, tap(at)?))).collect()
}

/// A convolution of 3 x 3 with 2 outputs from 2 channels.
fn convolved(
    x: &Image,
    w: &[f32],
    out: [usize; 2],
    (stride, pad, dilation): (i64, i64, i64),
) -> Vec<f64> {
    Image::made([2, out[0], out[1]], |m, h, at| {
        let place = (h * stride - pad, at * stride - pad);
        let of_channel = |c: usize| {
            let products = taps(x, c, place, dilation).into_iter();
            products.map(|(tap, x)| x * f64::from(w[(m * 2 + c) * 9 + tap])).sum::<f64>()
        };
        of_channel(0) + of_channel(1)
    })
}

/// The only output of a model that runs on the machine as a whole.
fn result(file: Vec<u8>, x: &Image, ran: &mut Ran) -> Vec<f64> {
    let graph = read_onnx(file.into(), &Reading::default()).unwrap();
    let graph = fold_constants(&graph).unwrap();
    let arch = machine(DataType::FP16BP8);
    for (claim, (_, node)) in crate::common::claim(&graph, &arch).iter().zip(graph.nodes()) {
        assert_eq!(*claim, Claim::Device, "{}", node.op.name());
    }
    let [c, h, w] = x.shape;
    let reals = x.reals.iter().map(|&real| real as f32).collect();
    let inputs = [("x".to_owned(), Tensor::from_vec::<f32>(&[1, c, h, w], reals).unwrap())];
    let outputs = run(&graph, &arch, &inputs.into(), ran);
    outputs.values().flat_map(Tensor::to_f64).collect()
}

fn near(what: &str, found: &[f64], expected: &[f64], bound: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (at, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!((f - e).abs() <= bound, "{what}[{at}]: {f}, expected {e}");
    }
}

/// Convolutions where upstream's compiler ignores dilations, and the stride of SAME.
#[test]
fn convolutions_follow_onnx() {
    let (x, w, mut ran) = (Image::new([2, 6, 6]), weights(36), Ran::default());
    let mut conv = |attributes: &[(&str, Attribute)]| {
        let model = Model::new(&[1, 2, 6, 6]).floats("w", &[2, 2, 3, 3], &w);
        let file = model.node("Conv", &["x", "w"], &["y"], attributes).finish(10, &["y"]);
        result(file, &x, &mut ran)
    };
    let two = || Ints(vec![2, 2]);
    // Sums of products in 1/128 are exact.
    let found = conv(&[("dilations", two()), ("pads", Ints(vec![2; 4]))]);
    near("dilations", &found, &convolved(&x, &w, [6, 6], (1, 2, 2)), 0.0);
    let found = conv(&[("auto_pad", Text("SAME_UPPER")), ("strides", two())]);
    near("SAME_UPPER", &found, &convolved(&x, &w, [3, 3], (2, 0, 1)), 0.0);
    let found = conv(&[("auto_pad", Text("SAME_LOWER")), ("strides", two())]);
    near("SAME_LOWER", &found, &convolved(&x, &w, [3, 3], (2, 1, 1)), 0.0);
    let found = conv(&[("auto_pad", Text("VALID")), ("strides", two())]);
    near("VALID", &found, &convolved(&x, &w, [2, 2], (2, 0, 1)), 0.0);
}

/// Poolings where upstream's compiler ignores padding and divides by the stride.
#[test]
fn poolings_follow_onnx() {
    let mut x = Image::new([3, 7, 7]);
    // No element above 0: padding is not an element.
    x.reals.iter_mut().for_each(|real| *real -= 3.0);
    let mut ran = Ran::default();
    let mut pool = |op: &str, more: &[(&str, Attribute)]| {
        let mut attributes = vec![
            ("kernel_shape", Ints(vec![3, 3])),
            ("strides", Ints(vec![2, 2])),
            ("pads", Ints(vec![1; 4])),
        ];
        attributes.extend_from_slice(more);
        let model = Model::new(&[1, 3, 7, 7]).node(op, &["x"], &["y"], &attributes);
        result(model.finish(10, &["y"]), &x, &mut ran)
    };
    let windows = |of: &dyn Fn(Vec<f64>) -> f64| {
        Image::made([3, 4, 4], |c, h, w| {
            let elements = taps(&x, c, (2 * h - 1, 2 * w - 1), 1);
            of(elements.into_iter().map(|(_, x)| x).collect())
        })
    };
    let largest = |of: Vec<f64>| of.into_iter().fold(f64::NEG_INFINITY, f64::max);
    near("MaxPool", &pool("MaxPool", &[]), &windows(&largest), 0.0);
    // A sum of nine up to 5 times 1/9, which is off by up to 1/512.
    let bound = 9.0 * 5.0 / 512.0 + 1.0 / 256.0;
    let mean = |of: Vec<f64>| of.iter().sum::<f64>() / of.len() as f64;
    near("AveragePool", &pool("AveragePool", &[]), &windows(&mean), bound);
    let whole = |of: Vec<f64>| of.iter().sum::<f64>() / 9.0;
    let found = pool("AveragePool", &[("count_include_pad", Int(1))]);
    near("count_include_pad", &found, &windows(&whole), bound);
    let model = Model::new(&[1, 3, 7, 7]).node("GlobalAveragePool", &["x"], &["y"], &[]);
    let found = result(model.finish(10, &["y"]), &x, &mut ran);
    let means: Vec<f64> = x.reals.chunks(49).map(|of| of.iter().sum::<f64>() / 49.0).collect();
    // The sum of 49 numbers saturates at -128: the machine's range, not a mistake.
    let means: Vec<f64> = means.iter().map(|mean| mean.max(-128.0 / 49.0)).collect();
    near("GlobalAveragePool", &found, &means, 0.3);
}

/// Resize of opset 10 has asymmetric coordinates.
#[test]
fn resizing_follows_onnx() {
    let (x, mut ran) = (Image::new([3, 4, 5]), Ran::default());
    let mut resize = |mode: &'static str| {
        let model = Model::new(&[1, 3, 4, 5]).floats("s", &[4], &[1.0, 1.0, 2.0, 2.0]);
        let model = model.node("Resize", &["x", "s"], &["y"], &[("mode", Text(mode))]);
        result(model.finish(10, &["y"]), &x, &mut ran)
    };
    let nearest = Image::made([3, 8, 10], |c, h, w| x.at(c, h / 2, w / 2).unwrap());
    near("nearest", &resize("nearest"), &nearest, 0.0);
    let linear = Image::made([3, 8, 10], |c, h, w| {
        let (low, high) = (|at: i64| at / 2, |at: i64, last: i64| ((at + 1) / 2).min(last));
        let four = [
            x.at(c, low(h), low(w)),
            x.at(c, low(h), high(w, 4)),
            x.at(c, high(h, 3), low(w)),
            x.at(c, high(h, 3), high(w, 4)),
        ];
        four.into_iter().flatten().sum::<f64>() / 4.0
    });
    near("linear", &resize("linear"), &linear, 0.0);
}

/// Pad with edges and reflections, Split along any axis, Concat, Transpose, and how they are joined.
#[test]
fn movements_follow_onnx() {
    let (x, mut ran) = (Image::new([5, 4, 6]), Ran::default());
    let start = || Model::new(&[1, 5, 4, 6]);
    let pads = || Ints(vec![0, 0, 2, 1, 0, 0, 1, 3]);
    let mut padded = |mode: &'static str| {
        let model = start().node("Pad", &["x"], &["y"], &[("mode", Text(mode)), ("pads", pads())]);
        result(model.finish(10, &["y"]), &x, &mut ran)
    };
    let zeros = Image::made([5, 7, 10], |c, h, w| x.at(c, h - 2, w - 1).unwrap_or(0.0));
    near("constant", &padded("constant"), &zeros, 0.0);
    let edge = Image::made([5, 7, 10], |c, h, w| {
        x.at(c, (h - 2).clamp(0, 3), (w - 1).clamp(0, 5)).unwrap()
    });
    near("edge", &padded("edge"), &edge, 0.0);
    let mirror = |at: i64, last: i64| if at < 0 { -at } else { last - (at - last).abs() };
    let reflected =
        Image::made([5, 7, 10], |c, h, w| x.at(c, mirror(h - 2, 3), mirror(w - 1, 5)).unwrap());
    near("reflect", &padded("reflect"), &reflected, 0.0);
    for (axis, sizes) in [(1, [2, 3]), (2, [1, 3]), (3, [4, 2]), (-1, [1, 5])] {
        let split = [("axis", Int(axis)), ("split", Ints(sizes.to_vec()))];
        let model = start().node("Split", &["x"], &["a", "b"], &split);
        let model = model.node("Relu", &["b"], &["c"], &[]);
        // The parts change places.
        let model = model.node("Concat", &["c", "a"], &["y"], &[("axis", Int(1))]);
        if axis != 1 {
            let parts = start().node("Split", &["x"], &["a", "b"], &split);
            let found =
                result(parts.node("Relu", &["b"], &["y"], &[]).finish(10, &["y"]), &x, &mut ran);
            let along = if axis < 0 { axis + 4 } else { axis };
            let [mut shape, first] = [x.shape, [sizes[0] as usize; 3]];
            shape[along as usize - 1] = sizes[1] as usize;
            let expected = Image::made(shape, |c, h, w| {
                let skip = first[0] as i64;
                let (h, w) = if along == 2 { (h + skip, w) } else { (h, w + skip) };
                x.at(c, h, w).unwrap().max(0.0)
            });
            near("Split", &found, &expected, 0.0);
            continue;
        }
        let expected = Image::made([5, 4, 6], |c, h, w| match c {
            0..3 => x.at(c + 2, h, w).unwrap().max(0.0),
            _ => x.at(c - 3, h, w).unwrap(),
        });
        near("Split and Concat", &result(model.finish(10, &["y"]), &x, &mut ran), &expected, 0.0);
    }
    let model = start().node("Transpose", &["x"], &["y"], &[("perm", Ints(vec![0, 2, 3, 1]))]);
    let found = result(model.finish(10, &["y"]), &x, &mut ran);
    let turned = Image::made([4, 6, 5], |h, w, c| x.at(c as usize, h as i64, w).unwrap());
    near("Transpose", &found, &turned, 0.0);
}

/// Flatten has the order of ONNX; Gemm has alpha and beta; the rest of the table computes nothing.
#[test]
fn matrices_follow_onnx() {
    let (x, mut ran) = (Image::new([3, 2, 2]), Ran::default());
    let (w, b) = (weights(48), weights(4));
    let rows = |alpha: f64, beta: f64| -> Vec<f64> {
        let row = |n: usize| {
            let products = x.reals.iter().enumerate().map(|(k, x)| x * f64::from(w[n * 12 + k]));
            alpha * products.sum::<f64>() + beta * f64::from(b[n])
        };
        (0..4).map(row).collect()
    };
    let start = || Model::new(&[1, 3, 2, 2]).floats("w", &[4, 12], &w).floats("b", &[4], &b);
    for (alpha, beta) in [(1.0, 1.0), (0.5, 2.0)] {
        let flatten = start().node("Flatten", &["x"], &["f"], &[("axis", Int(1))]);
        let reshape = start().ints("s", &[1, -1]).node("Reshape", &["x", "s"], &["f"], &[]);
        for model in [flatten, reshape] {
            let attributes = [("alpha", Float(alpha)), ("beta", Float(beta)), ("transB", Int(1))];
            let file = model.node("Gemm", &["f", "w", "b"], &["y"], &attributes).finish(10, &["y"]);
            near("Gemm", &result(file, &x, &mut ran), &rows(alpha.into(), beta.into()), 1.0 / 64.0);
        }
    }
    let turned: Vec<f32> = (0..48).map(|at| w[at % 4 * 12 + at / 4]).collect();
    let model = Model::new(&[1, 3, 2, 2]).floats("w", &[12, 4], &turned);
    let model = model.node("Flatten", &["x"], &["f"], &[("axis", Int(1))]);
    let file = model.node("MatMul", &["f", "w"], &["y"], &[]).finish(10, &["y"]);
    near("MatMul", &result(file, &x, &mut ran), &rows(1.0, 0.0), 1.0 / 64.0);
}

/// Element by element, batch normalisation, Squeeze, and operators of compile time.
#[test]
fn the_rest_of_the_table_follows_onnx() {
    let (x, mut ran) = (Image::new([3, 2, 4]), Ran::default());
    let c = weights(3);
    let start = || Model::new(&[1, 3, 2, 4]).floats("c", &[1, 3, 1, 1], &c);
    let each = |of: &dyn Fn(f64, f64) -> f64| -> Vec<f64> {
        x.reals.iter().enumerate().map(|(at, &x)| of(x, c[at / 8].into())).collect()
    };
    let mut check = |what: &str, model: Model, expected: Vec<f64>, bound: f64| {
        near(what, &result(model.finish(9, &["y"]), &x, &mut ran), &expected, bound);
    };
    let half = 1.0 / 512.0;
    for (op, of, bound) in [
        ("Add", (|x, c| x + c) as fn(f64, f64) -> f64, 0.0),
        ("Sub", |x, c| x - c, 0.0),
        ("Mul", |x, c| x * c, half),
    ] {
        check(op, start().node(op, &["x", "c"], &["y"], &[]), each(&of), bound);
        let both = start().node("Relu", &["x"], &["r"], &[]).node(op, &["r", "x"], &["y"], &[]);
        check(op, both, each(&|x, _| of(x.max(0.0), x)), half);
    }
    let clip = [("min", Float(-0.5)), ("max", Float(1.25))];
    let model = start().node("Clip", &["x"], &["y"], &clip);
    check("Clip", model, each(&|x, _| x.clamp(-0.5, 1.25)), 0.0);
    let model = start().node("LeakyRelu", &["x"], &["y"], &[("alpha", Float(0.25))]);
    check("LeakyRelu", model, each(&|x, _| if x < 0.0 { x / 4.0 } else { x }), half);
    let model = start().node("Softmax", &["x"], &["y"], &[("axis", Int(1))]);
    // Before opset 13 all axes from this one on are one: 24 numbers.
    let largest = x.reals.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = x.reals.iter().map(|x| (x - largest).exp()).sum();
    check("Softmax", model, each(&|x, _| (x - largest).exp() / sum), 0.02);
    let row = |reals: [f32; 3], name: &'static str| move |m: Model| m.floats(name, &[3], &reals);
    let model = row([1.5, -0.5, 2.0], "g")(row([0.25, 0.5, -1.0], "o")(start()));
    let model = row([0.5, -0.25, 0.0], "m")(row([1.0, 0.25, 4.0], "v")(model));
    let normed = [("epsilon", Float(1e-5))];
    let model = model.node("BatchNormalization", &["x", "g", "o", "m", "v"], &["y"], &normed);
    let parameters = [(1.5, 0.25, 0.5, 1.0), (-0.5, 0.5, -0.25, 0.5), (2.0, -1.0, 0.0, 2.0)];
    let expected: Vec<f64> = (0..24)
        .map(|at| {
            let (g, o, m, deviation) = parameters[at / 8];
            (x.reals[at] - m) / deviation * g + o
        })
        .collect();
    check("BatchNormalization", model, expected, 0.02);
    // Shape, Gather, Unsqueeze, Concat, Cast and Div are gone when the machine sees the graph.
    let model = start()
        .node("Shape", &["x"], &["shape"], &[])
        .ints("zero", &[0])
        .ints("rest", &[-1])
        .node("Squeeze", &["zero"], &["first"], &[("axes", Ints(vec![0]))])
        .node("Gather", &["shape", "first"], &["n"], &[("axis", Int(0))])
        .node("Unsqueeze", &["n"], &["batch"], &[("axes", Ints(vec![0]))])
        .node("Concat", &["batch", "rest"], &["target"], &[("axis", Int(0))])
        .node("Slice", &["shape"], &["two"], &[("starts", Ints(vec![2])), ("ends", Ints(vec![3]))])
        .node("Cast", &["two"], &["real"], &[("to", Int(1))])
        .node("Div", &["c", "real"], &["small"], &[])
        .node("Add", &["x", "small"], &["sum"], &[])
        .node("Reshape", &["sum", "target"], &["y"], &[]);
    check("compile time", model, each(&|x, c| x + c / 2.0), half);
    let pool = [("kernel_shape", Ints(vec![2, 4])), ("strides", Ints(vec![2, 4]))];
    let model = start().node("MaxPool", &["x"], &["p"], &pool);
    let model = model.node("Squeeze", &["p"], &["y"], &[("axes", Ints(vec![2, 3]))]);
    let largest = |of: &[f64]| of.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    check("Squeeze", model, x.reals.chunks(8).map(largest).collect(), 0.0);
}
