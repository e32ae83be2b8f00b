//! The verb on the digits: accuracy for each scheme and method, widths of single layers, errors.

use quincunx::diag::Diagnostic;
use quincunx::graph::execute::{self, Keep, exact, float};
use quincunx::graph::passes::{Method, Scheme, fold_constants};
use quincunx::graph::{Graph, Op, Quantiser};
use quincunx::import::{Dialect, Options, read_onnx};
use quincunx::quantise::{Job, Quantisation, Widths, data_beside, quantise, scheme_named, table};
use quincunx::report::{Format, Report};
use quincunx::target::{ArchSource, Claim, Engine, Log, Refused};
use quincunx::tensor::{DType, Tensor, Tensors};
use quincunx::{Dataset, InputFile, InputSpec, Model, Setup, Silent, find_target};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits")
}

fn model(name: &str) -> Model {
    Model::read(&InputFile::open(&folder().join(name)).unwrap()).unwrap()
}

fn data(name: &str, model: &Model) -> Dataset {
    let file = InputFile::open(&folder().join(name)).unwrap();
    Dataset::read(&file, &InputSpec::of(&model.graph)).unwrap()
}

fn widths(text: &str) -> Result<Widths, Vec<Diagnostic>> {
    let bytes = text.as_bytes().to_vec().into();
    let file = InputFile { name: "widths.toml".to_owned(), path: None, bytes };
    Widths::read(&file).map_err(|failure| failure.diagnostics)
}

fn again(result: &Quantisation) -> Graph {
    read_onnx(result.file.clone().into(), &Options::default()).unwrap()
}

/// Share of the test images whose class is right.
fn accuracy(graph: &Graph, test: &Dataset) -> f64 {
    let right = |(image, label): (&Tensors, &i64)| {
        let logits = float(graph, image, Keep::Outputs).unwrap()["logits"].to_f64();
        let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
        best == Some(*label as usize)
    };
    let labels = test.labels.as_ref().unwrap();
    test.images.iter().zip(labels).filter(|pair| right(*pair)).count() as f64 / labels.len() as f64
}

#[test]
fn every_scheme_and_method_is_accurate() {
    let model = model("digits.onnx");
    let (calibration, test) = (data("calib.npz", &model), data("test.npz", &model));
    let uniform = Scheme::Uniform { width: 16, point: 8 };
    for scheme in [Scheme::AFFINE_INT8, Scheme::POWER_OF_TWO_8, uniform] {
        for method in [Method::MinMax, Method::Percentile(99.99), Method::Mse] {
            let signs: &[Option<bool>] = match scheme {
                Scheme::Affine { .. } => &[None, Some(true)],
                Scheme::PowerOfTwo { .. } | Scheme::Uniform { .. } => &[None],
            };
            for &signed in signs {
                let job = Job {
                    scheme: scheme.clone(),
                    method,
                    signed,
                    ..Job::new(&model, &calibration.images)
                };
                let result = quantise(&job, &Silent).unwrap();
                let accuracy = accuracy(&again(&result), &test);
                assert!(accuracy >= 0.97, "{scheme:?} {method:?} {signed:?}: {accuracy}");
            }
        }
    }
}

/// What is written means what was quantised, in exact arithmetic, in both dialects.
#[test]
fn the_file_means_the_graph() {
    let model = model("digits.onnx");
    let (calibration, test) = (data("calib.npz", &model), data("test.npz", &model));
    for dialect in [Dialect::Qdq, Dialect::Qonnx] {
        let job = Job { dialect, ..Job::new(&model, &calibration.images) };
        let result = quantise(&job, &Silent).unwrap();
        let again = again(&result);
        for image in &test.images[..20] {
            let run = |graph| exact(graph, image, Keep::Outputs).unwrap()["logits"].to_f64();
            assert_eq!(run(&again), run(&result.quantised.graph));
        }
    }
}

#[test]
fn threads_change_nothing() {
    let model = model("digits.onnx");
    let calibration = data("calib.npz", &model);
    let results = [1, 3, 200].map(|threads| {
        let threads = NonZeroUsize::new(threads).unwrap();
        let job = Job { threads, ..Job::new(&model, &calibration.images) };
        let result = quantise(&job, &Silent).unwrap();
        let text = Report::from(table(&result)).render(Format::Json);
        (result.file, text)
    });
    assert!(results.iter().all(|result| *result == results[0]));
}

/// Sign, width and whether the grid is a fixed-point type.
fn format(quantiser: &Quantiser) -> (bool, u32, bool) {
    let (signed, width) = (quantiser.signed.as_uniform(), quantiser.width.as_uniform());
    (signed.unwrap(), width.unwrap(), quantiser.is_fixed_point())
}

#[test]
fn widths_of_the_file_are_followed() {
    let model = model("digits.onnx");
    let (calibration, test) = (data("calib.npz", &model), data("test.npz", &model));
    let widths = widths(
        r#"
        weights = 6
        activations = 7
        [[layer]]
        name = "conv*"
        weights = 5
        [[layer]]
        name = "conv3"
        weights = 8
        activations = 9
        signed = true
        [[layer]]
        name = "fc2"
        skip = true
        [[layer]]
        name = "pool?"
        scheme = "pow2"
        activations = 6
        [[layer]]
        name = "image"
        activations = 4
        "#,
    )
    .unwrap();
    let job = Job { widths: Some(&widths), ..Job::new(&model, &calibration.images) };
    let result = quantise(&job, &Silent).unwrap();
    let graph = again(&result);
    let node = |name: &str| graph.nodes().find(|(_, node)| node.name == name).unwrap().1;
    let constant = |name, index| {
        let operand = node(name).input(index).unwrap();
        graph[operand].constant.as_ref().unwrap().quantiser.as_ref().map(format)
    };
    assert_eq!(constant("conv1", 1), Some((true, 5, false)));
    assert_eq!(constant("conv2", 1), Some((true, 5, false)));
    assert_eq!(constant("conv3", 1), Some((true, 8, false)));
    assert_eq!(constant("conv3", 2), Some((true, 32, false)));
    assert_eq!(constant("fc1", 1), Some((true, 6, false)));
    assert_eq!((constant("fc2", 1), constant("fc2", 2)), (None, None));
    let quantiser = |name: &str| match &node(name).op {
        Op::Quantise(quantiser) => format(quantiser),
        op => panic!("{name} is {op:?}"),
    };
    assert_eq!(quantiser("image_quantiser"), (false, 4, false));
    assert_eq!(quantiser("relu1_out_quantiser"), (false, 7, false));
    assert_eq!(quantiser("conv3_out_quantiser"), (true, 9, false));
    assert_eq!(quantiser("pool2_out_quantiser"), (false, 6, true));
    assert_eq!(quantiser("relu4_out_quantiser"), (false, 7, false));
    let count = graph.nodes().filter(|(_, n)| matches!(n.op, Op::Quantise(_))).count();
    assert_eq!(count, 7);
    assert!(accuracy(&graph, &test) >= 0.95);
    // The standard has no 5-bit codes.
    let job = Job { dialect: Dialect::Qdq, ..job };
    assert_eq!(quantise(&job, &Silent).err().unwrap().diagnostics[0].code(), "Q0420");
}

#[test]
fn mistakes_in_the_file() {
    let model = model("digits.onnx");
    let calibration = data("calib.npz", &model);
    let apply = |text: &str| {
        let widths = widths(text).unwrap();
        let job = Job { widths: Some(&widths), ..Job::new(&model, &calibration.images) };
        quantise(&job, &Silent).err().map(|failure| failure.diagnostics)
    };
    let unknown = apply("[[layer]]\nname = \"conv4\"\nweights = 4\n").unwrap();
    assert_eq!(unknown[0].code(), "Q0633");
    assert!(unknown[0].help_text().unwrap().contains("conv"), "{}", unknown[0]);
    assert_eq!((unknown[0].labels()[0].0.start, unknown[0].labels()[0].0.end), (17, 24));
    let two = "[[layer]]\nname = \"x*y\"\n[[layer]]\nname = \"image\"\nskip = true\n";
    assert_eq!(apply(two).unwrap().len(), 2, "every mistake is told");
    let folded = apply("[[layer]]\nname = \"bn2\"\nweights = 4\n").unwrap();
    assert!(folded[0].help_text().unwrap().contains("folded"));
    for wide in ["weights = 17", "activations = 1", "[[layer]]\nname = \"fc1\"\nweights = 0"] {
        assert_eq!(apply(wide).unwrap()[0].code(), "Q0315", "{wide}");
    }
    assert!(apply("").is_none());
    for text in [
        "bits = 4",
        "weights = -1",
        "weights = \"4\"",
        "scheme = \"int8\"",
        "[[layer]]\nweights = 4",
        "[[layer]]\nname = \"a\"\nwidth = 3",
        "[layer]\nname = 3",
        "= 3",
    ] {
        let problem = widths(text).unwrap_err().remove(0);
        assert_eq!((problem.code(), problem.class().exit_code()), ("Q0628", 3), "{text}");
        assert!(!problem.labels().is_empty(), "{text}: {problem}");
    }
}

#[test]
fn what_cannot_be_quantised() {
    let float_model = model("digits.onnx");
    let calibration = data("calib.npz", &float_model);
    let code = |model: &Model, images: &[Tensors]| {
        let failure = quantise(&Job::new(model, images), &Silent).err().unwrap();
        failure.diagnostics[0].code()
    };
    assert_eq!(code(&float_model, &[]), "Q0631");
    assert_eq!(code(&model("digits_qdq.onnx"), &calibration.images), "Q0632");
    let bad = Tensor::from_vec::<f32>(&[1, 1, 8, 8], vec![f32::NAN; 64]).unwrap();
    let bad = Tensors::from([("image".to_owned(), bad)]);
    assert_eq!(code(&float_model, &[calibration.images[0].clone(), bad]), "Q0313");
    let mut integers = Graph::new("g");
    let x = integers.add_input("x", DType::I64, &[2], &[]).unwrap();
    let y = integers.add_node("n", Op::Identity, &[Some(x)], "y").unwrap();
    integers.add_output(y);
    let integers = Model {
        name: "g".to_owned(),
        path: None,
        graph: integers,
        format: "ONNX",
        options: None,
        reading: quincunx::import::Options::default(),
    };
    let sample = Tensor::from_vec::<i64>(&[2], vec![1, 2]).unwrap();
    assert_eq!(code(&integers, &[Tensors::from([("x".to_owned(), sample)])]), "Q0632");
    assert!(data_beside(&folder().join("digits.onnx")).is_ok());
    assert_eq!(data_beside(Path::new("/nowhere/m.onnx")).unwrap_err().code(), "Q0631");
    assert_eq!(data_beside(Path::new("-")).unwrap_err().code(), "Q0631");
}

/// Random inputs for a graph, between -2 and 2.
fn some_inputs(graph: &Graph, seed: u64) -> Tensors {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((state >> 40) as f32 / (1 << 24) as f32 - 0.5) * 4.0
    };
    let mut tensor = |shape: &[usize]| {
        Tensor::from_vec(shape, (0..shape.iter().product()).map(|_| next()).collect()).unwrap()
    };
    let inputs = graph.inputs().iter().map(|&id| &graph[id]);
    inputs.map(|value| (value.name.clone(), tensor(&value.shape))).collect()
}

/// Outputs of a graph on a machine that takes all of it, in the order of the graph.
fn outputs_on(machine: &Setup<'_>, graph: &Graph, inputs: &[Tensors]) -> Vec<Vec<f64>> {
    let (compiler, arch) = (machine.target.compiler().unwrap(), &*machine.arch);
    let claims = compiler.claim(graph, arch, &machine.options, &Refused::default()).unwrap();
    assert!(claims.iter().all(|claim| *claim == Claim::Device), "{}", graph.name);
    let compiled = compiler.compile(graph, arch, &machine.options, &mut Log::default());
    let compiled = compiled.unwrap_or_else(|problem| panic!("{}: {}", graph.name, problem.first()));
    let mut loaded = compiled.program.load(Engine::Fast).unwrap();
    let names = graph.outputs().iter().map(|&id| graph[id].name.clone());
    let names: Vec<String> = names.collect();
    let run = |inputs| {
        let found = loaded.run(inputs).unwrap();
        names.iter().flat_map(|name| found[name].to_f64()).collect()
    };
    inputs.iter().map(run).collect()
}

/// A model on the grid of a machine's numbers computes what the float model does there.
#[test]
fn uniform_grids_are_those_of_the_machine() {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/tcu/models");
    let names = ["t_resblock", "t_leaky", "t_gap", "t_resize", "t_concat", "t_matmul", "t_gemm"];
    let mut paths: Vec<PathBuf> =
        names.iter().map(|name| models.join(format!("{name}.onnx"))).collect();
    paths.push(folder().join("digits.onnx"));
    let target = find_target("tcu").unwrap();
    let preset = target.arch(&ArchSource::Preset("pynqz1".to_owned())).unwrap().to_file();
    let mut changed = 0;
    for format in ["FP8BP4", "FP16BP8", "FP18BP10", "FP32BP16"] {
        let text = preset.replace("FP16BP8", format);
        let arch = ArchSource::Text { name: "machine.tarch".to_owned(), text };
        let machine = Setup::new(target, &arch, &[]).unwrap();
        for path in &paths {
            let model = Model::read(&InputFile::open(path).unwrap()).unwrap();
            let inputs: Vec<Tensors> = (0..3).map(|i| some_inputs(&model.graph, 7 + i)).collect();
            for dialect in [Dialect::Auto, Dialect::Qonnx] {
                let job = Job {
                    scheme: scheme_named(&format!("uniform:{format}")).unwrap(),
                    fold_batch_norm: false,
                    dialect,
                    ..Job::new(&model, &inputs)
                };
                let result = quantise(&job, &Silent).unwrap();
                let grids = result.quantised.layers.iter().filter(|l| l.activation.is_some());
                assert!(grids.count() > 0);
                let quantised = fold_constants(&again(&result)).unwrap();
                let float = outputs_on(&machine, &fold_constants(&model.graph).unwrap(), &inputs);
                let found = outputs_on(&machine, &quantised, &inputs);
                assert!(found == float, "{} as {format}", path.display());
                // On the host the quantised model has other numbers than the float one.
                let name = &model.graph[model.graph.outputs()[0]].name;
                let host = execute::float(&quantised, &inputs[0], Keep::Outputs).unwrap();
                let real = execute::float(&model.graph, &inputs[0], Keep::Outputs).unwrap();
                changed += usize::from(host[name].to_f64() != real[name].to_f64());
            }
        }
    }
    assert!(changed > 40, "{changed}");
}
