//! Compiled kernels and convolutions before all judges.

use crate::common::{Random, golden_text, root, scamp5};
use quincunx_contract::{
    ArchSource, Claim, Compiled, Engine, File, Interface, Log, NotCompiled, Options, Program,
    Refused, Rim, Target, compiler_of,
};
use quincunx_diag::{Diagnostic, any_error};
use quincunx_graph::execute::{Keep, exact};
use quincunx_graph::{Conv, Graph, Op, Unary, Window};
use quincunx_scamp::files::{read_kernels, to_graph};
use quincunx_scamp::program::Space;
use quincunx_scamp::verify::verify_kernels;
use quincunx_scamp::{Artifact, ScampArch, TARGET};
use quincunx_tensor::{DType, Tensor, Tensors};
use std::fs;

pub(crate) type Given<'a> = [(&'a str, String)];

fn options(given: &Given<'_>) -> Options {
    let own = given.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let given: Vec<_> = [("effort".to_owned(), "fast".to_owned())].into_iter().chain(own).collect();
    Options::new(TARGET.info().options, &given).unwrap()
}

/// An option for small arrays, on which tests are fast.
pub(crate) fn size(width: usize, height: usize) -> (&'static str, String) {
    ("size", format!("{width}x{height}"))
}

/// A graph on a machine.
pub(crate) struct Case<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) arch: ScampArch,
    pub(crate) options: Options,
}

impl Case<'_> {
    pub(crate) fn new<'a>(graph: &'a Graph, given: &Given<'_>) -> Case<'a> {
        Case { graph, arch: scamp5(), options: options(given) }
    }

    pub(crate) fn claims(&self) -> Vec<Claim> {
        let compiler = compiler_of(&TARGET).unwrap();
        compiler.claim(self.graph, &self.arch, &self.options, &Refused::default()).unwrap()
    }

    pub(crate) fn compile(&self, log: &mut Log) -> Result<Compiled, NotCompiled> {
        let compiler = compiler_of(&TARGET).unwrap();
        compiler.compile(self.graph, &self.arch, &self.options, log)
    }

    /// The problem that keeps the graph from being compiled.
    pub(crate) fn problem(&self) -> Diagnostic {
        match self.compile(&mut Log::default()) {
            Ok(_) => panic!("it was compiled"),
            Err(problem) => problem.first(),
        }
    }

    /// The program after all judges agreed: both simulators and the golden model bit for bit on every
    /// value, and the program that is read back from its text.
    pub(crate) fn judged(&self, images: &Tensors) -> (Compiled, Tensors) {
        let compiled =
            self.compile(&mut Log::default()).unwrap_or_else(|p| panic!("{}", p.first()));
        let compiler = compiler_of(&TARGET).unwrap();
        let golden = compiler.prepare(self.graph, &self.arch, &compiled.numerics).unwrap();
        let expected = golden.run(images).unwrap();
        let program = &compiled.program;
        assert!(!any_error(&program.verify()), "{:?}", program.verify());
        let interface = program.interface().clone();
        let files = program.emit("asm", "program").unwrap();
        let again = TARGET.read(
            &files,
            Some(interface.clone()),
            &self.arch,
            &self.options,
            &mut Log::default(),
        );
        let again = again.unwrap_or_else(|problems| panic!("{problems:?}"));
        assert_eq!(*again.interface(), interface);
        let exec = same(&**program, Engine::Exec, images, &expected);
        assert_eq!(exec, same(&**program, Engine::Fast, images, &expected));
        assert_eq!(exec, same(&*again, Engine::Exec, images, &expected));
        (compiled, exec)
    }
}

/// What a program computes, which must be what is expected where anybody judges it.
fn same(program: &dyn Program, engine: Engine, images: &Tensors, expected: &Tensors) -> Tensors {
    let found = program.load(engine).unwrap().run_traced(images).unwrap();
    let rims = &program.interface().rims;
    assert!(!found.is_empty());
    for (name, tensor) in &found {
        let rim = rims.iter().find(|rim| rim.value == *name);
        let judged = |at: usize| rim.is_none_or(|rim| rim.holds(tensor.shape(), at));
        let pairs = tensor.to_f64().into_iter().zip(expected[name].to_f64());
        for (at, (a, b)) in pairs.enumerate().filter(|(at, _)| judged(*at)) {
            assert_eq!(a.to_bits(), b.to_bits(), "{name} at {at}: {a} {b}, {engine:?}");
        }
    }
    found
}

pub(crate) fn image(random: &mut Random, shape: &[usize]) -> Tensor {
    let count = shape.iter().product();
    let values = (0..count).map(|_| (random.range(0, 513) as f32 - 256.0) / 64.0).collect();
    Tensor::from_vec::<f32>(shape, values).unwrap()
}

/// A network of one image.
pub(crate) fn network(shape: &[usize]) -> Graph {
    let mut graph = Graph::new("net");
    graph.add_input("x", DType::F32, shape, &[]).unwrap();
    graph
}

/// What a convolution is drawn from.
pub(crate) struct Draw {
    pub(crate) outputs: usize,
    pub(crate) kernel: [usize; 2],
    pub(crate) stride: usize,
    pub(crate) pad: usize,
    pub(crate) groups: usize,
    pub(crate) bias: bool,
}

/// Adds a convolution behind the value `from`.
pub(crate) fn convolve(graph: &mut Graph, random: &mut Random, from: &str, to: &str, draw: &Draw) {
    let x = graph.value_named(from).unwrap();
    let inner = graph[x].shape[1] / draw.groups;
    let shape = [draw.outputs, inner, draw.kernel[0], draw.kernel[1]];
    let weights: Vec<f32> = (0..shape.iter().product::<usize>())
        .map(|_| if random.chance(30) { 0.0 } else { (random.range(0, 33) as f32 - 16.0) / 8.0 })
        .collect();
    let w = graph.add_constant(&format!("{to}.w"), Tensor::from_vec(&shape, weights).unwrap());
    let mut inputs = vec![Some(x), Some(w.unwrap())];
    if draw.bias {
        let bias: Vec<f32> = (0..draw.outputs).map(|at| at as f32 * 0.1 - 0.2).collect();
        let bias = Tensor::from_vec(&[draw.outputs], bias).unwrap();
        inputs.push(Some(graph.add_constant(&format!("{to}.b"), bias).unwrap()));
    }
    let mut window = Window::new(&draw.kernel);
    window.strides.fill(draw.stride);
    window.pads.fill((draw.pad, draw.pad));
    let op = Op::Conv(Conv { window, groups: draw.groups });
    graph.add_node(&format!("{to}.conv"), op, &inputs, to).unwrap();
}

pub(crate) fn output(graph: &mut Graph, name: &str) {
    let id = graph.value_named(name).unwrap();
    graph.add_output(id);
}

pub(crate) fn inputs(random: &mut Random, graph: &Graph) -> Tensors {
    let id = graph.inputs()[0];
    Tensors::from([(graph[id].name.clone(), image(random, &graph[id].shape))])
}

/// Every kernel file becomes a program that computes its kernels for all images, and the same twice.
#[test]
fn kernel_files_become_their_programs() {
    let mut files: Vec<_> = fs::read_dir(root().join("cain_inputs")).unwrap().flatten().collect();
    files.sort_by_key(fs::DirEntry::path);
    assert!(files.len() > 3);
    for entry in files {
        let text = fs::read_to_string(entry.path()).unwrap();
        let file = File::new("k.json", text.clone());
        let model = TARGET.model(&file).unwrap().unwrap();
        let kernels = read_kernels(&text).unwrap();
        let graph = to_graph(&kernels, 9, 10).unwrap();
        let given = [&model.options[..], &[size(16, 15)]].concat();
        let case = Case::new(&graph, &given);
        let mut random = Random::new(3);
        let (compiled, found) = case.judged(&inputs(&mut random, &graph));
        let artifact: &Artifact = compiled.program.as_any().downcast_ref().unwrap();
        let program = artifact.program();
        assert_eq!(verify_kernels(program, &kernels, &case.arch).unwrap(), []);
        let names = |list: &Option<Vec<_>>| {
            list.iter().flatten().map(ToString::to_string).collect::<Vec<String>>()
        };
        assert_eq!(names(&program.inputs), kernels.inputs);
        assert_eq!(names(&program.outputs), kernels.outputs());
        assert_eq!(found["filtered"].shape()[1], kernels.outputs().len());
        let again = case.compile(&mut Log::default()).unwrap();
        assert_eq!(text_of(&*again.program), text_of(&*compiled.program));
    }
}

fn text_of(program: &dyn Program) -> Vec<File> {
    program.emit("asm", "p").unwrap()
}

/// Fifty random convolutions: channels, strides, paddings, groups, more results than registers.
#[test]
fn random_convolutions() {
    let mut random = Random::new(17);
    for number in 0..50 {
        let groups = random.range(1, 3);
        let kernel = [random.range(1, 4), random.range(1, 4)];
        let draw = Draw {
            outputs: groups * random.range(1, 4),
            kernel,
            stride: random.range(1, 3),
            pad: random.range(0, 1 + kernel[0].min(kernel[1]) / 2),
            groups,
            bias: random.chance(50),
        };
        let mut graph = network(&[1, groups, random.range(4, 8), random.range(4, 8)]);
        convolve(&mut graph, &mut random, "x", "y", &draw);
        output(&mut graph, "y");
        let case = Case::new(&graph, &[size(16, 14)]);
        assert_eq!(case.claims(), [Claim::Device], "{number}");
        let images = inputs(&mut random, &graph);
        let (_, found) = case.judged(&images);
        // All weights are multiples of 1/8, so that the network is computed exactly but for the
        // rounding of its biases.
        let expected = exact(&graph, &images, Keep::Outputs).unwrap()["y"].to_f64();
        for (a, b) in found["y"].to_f64().iter().zip(expected) {
            assert!((a - b).abs() < 1e-12, "{number}: {a} {b}");
        }
    }
}

/// The list of programs that are good in different ways is a note.
#[test]
fn programs_by_objective() {
    let mut random = Random::new(31);
    let draw = Draw { outputs: 1, kernel: [3, 3], stride: 1, pad: 1, groups: 1, bias: false };
    let mut graph = network(&[1, 1, 6, 6]);
    convolve(&mut graph, &mut random, "x", "y", &draw);
    output(&mut graph, "y");
    let given = [
        size(12, 12),
        ("objective", "noise".into()),
        ("pareto", "true".into()),
        ("sigma", "1 2 3".into()),
    ];
    let case = Case::new(&graph, &given);
    let mut log = Log::default();
    case.compile(&mut log).unwrap_or_else(|p| panic!("{}", p.first()));
    let note = log.diagnostics.iter().find(|d| d.code() == "Q5103").unwrap();
    assert!(note.to_string().contains("bus steps") || !note.notes().is_empty());
    case.judged(&inputs(&mut random, &graph));
}

/// Networks in bus steps before all judges.
#[test]
fn networks_in_bus_steps() {
    let mut random = Random::new(23);
    for halving in ["quick", "corrected"] {
        let draw = Draw { outputs: 2, kernel: [3, 3], stride: 1, pad: 1, groups: 1, bias: true };
        let mut graph = network(&[1, 1, 6, 6]);
        convolve(&mut graph, &mut random, "x", "y", &draw);
        output(&mut graph, "y");
        let given = [size(12, 12), ("bus", "true".into()), ("halving", halving.into())];
        let case = Case::new(&graph, &given);
        let (compiled, _) = case.judged(&inputs(&mut random, &graph));
        let text = compiled.program.emit("asm", "program").unwrap();
        let text = text[0].text().unwrap();
        assert!(text.contains("bus2(") && !text.contains("add"), "{text}");
    }
}

/// One convolution behind the other, and ReLUs; what is between them is observed too.
#[test]
fn several_layers_in_registers() {
    let mut random = Random::new(5);
    let draw =
        |outputs| Draw { outputs, kernel: [3, 3], stride: 1, pad: 0, groups: 1, bias: false };
    for stride in [1, 2] {
        let mut graph = network(&[1, 1, 10, 9]);
        convolve(&mut graph, &mut random, "x", "a", &Draw { stride, ..draw(1) });
        let a = graph.value_named("a").unwrap();
        graph.add_node("relu", Op::Unary(Unary::Relu), &[Some(a)], "b").unwrap();
        convolve(&mut graph, &mut random, "b", "c", &Draw { bias: true, ..draw(5) });
        output(&mut graph, "c");
        let case = Case::new(&graph, &[size(32, 30)]);
        assert_eq!(case.claims(), vec![Claim::Device; 3]);
        let images = inputs(&mut random, &graph);
        let (compiled, found) = case.judged(&images);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
        let interface = compiled.program.interface();
        // Five results and their operand do not fit six registers and what a sum needs.
        assert!(interface.sections.iter().any(|section| section.pieces.len() > 1));
        let expected = exact(&graph, &images, Keep::All).unwrap();
        for name in ["a", "b"] {
            assert_eq!(found[name].to_f64(), expected[name].to_f64());
        }
        assert!(found["b"].to_f64().contains(&0.0) && found["b"].to_f64().iter().any(|&b| b > 0.0));
    }
}

/// Why nodes stay on the host.
#[test]
fn reasons() {
    let reason = |graph: &Graph, given: &Given<'_>| {
        let claims = Case::new(graph, given).claims();
        claims.into_iter().find_map(|claim| match claim {
            Claim::Host(reason) => Some(reason),
            Claim::Device => None,
        })
    };
    let mut random = Random::new(1);
    let draw = Draw { outputs: 1, kernel: [3, 3], stride: 1, pad: 1, groups: 1, bias: true };
    let mut graph = network(&[1, 1, 8, 8]);
    convolve(&mut graph, &mut random, "x", "y", &draw);
    let y = graph.value_named("y").unwrap();
    graph.add_node("relu", Op::Unary(Unary::Relu), &[Some(y)], "z").unwrap();
    let driver = [("bias", "driver".to_owned())];
    assert!(reason(&graph, &driver).unwrap().contains("bias"));
    assert!(reason(&graph, &[("scale", "20".to_owned())]).unwrap().contains("127 of IN"));
    assert!(reason(&graph, &[size(7, 7)]).unwrap().contains("does not fit the array of 7 x 7"));
    let digital = [("mode", "digital".to_owned()), ("bits", "4".to_owned())];
    assert!(reason(&graph, &digital).unwrap().contains("1-bit"));
    let mut graph = network(&[1, 1, 8, 8]);
    convolve(&mut graph, &mut random, "x", "y", &Draw { bias: false, ..draw });
    convolve(&mut graph, &mut random, "y", "z", &Draw { bias: false, ..draw });
    assert_eq!(reason(&graph, &[]), None);
    // Patterns do not reach an image in the middle of such an array.
    assert!(reason(&graph, &[size(600, 8)]).unwrap().contains("patterns reach 256"));
    let mut case = Case::new(&graph, &[]);
    case.arch.digital.retain(|register| register.to_string() != "R5");
    case.arch.digital.truncate(7);
    assert!(matches!(&case.claims()[1], Claim::Host(reason) if reason.contains("1-bit")));
    let graph = network_of_images(2);
    assert!(reason(&graph, &[]).unwrap().contains("2 images"));
}

fn network_of_images(images: usize) -> Graph {
    let draw = Draw { outputs: 1, kernel: [1, 1], stride: 1, pad: 0, groups: 1, bias: false };
    let mut graph = network(&[images, 1, 4, 4]);
    convolve(&mut graph, &mut Random::new(2), "x", "y", &draw);
    graph
}

/// Options that contradict the machine or each other, and weights that are not reached.
#[test]
fn problems_name_what_is_expected() {
    let mut random = Random::new(9);
    let draw = Draw { outputs: 2, kernel: [3, 3], stride: 1, pad: 1, groups: 1, bias: false };
    let mut graph = network(&[1, 1, 8, 8]);
    convolve(&mut graph, &mut random, "x", "y", &draw);
    output(&mut graph, "y");
    let problem = |given: &[(&str, &str)]| {
        let given: Vec<_> =
            given.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let problem = Case::new(&graph, &given).problem();
        (problem.code(), problem.message().to_owned(), problem.help_text().unwrap_or("").to_owned())
    };
    let (code, message, help) = problem(&[("registers", "A B Q")]);
    assert!(code == "Q5055" && message.contains('Q') && help.contains("A B C D E F"));
    assert_eq!(problem(&[("registers", "A A")]).0, "Q5055");
    assert_eq!(problem(&[("registers", "A B"), ("output-registers", "C D")]).0, "Q5055");
    assert_eq!(problem(&[("output-registers", "C")]).0, "Q5055");
    assert_eq!(problem(&[("input-registers", "C D")]).0, "Q5055");
    assert_eq!(problem(&[("leftovers", "true"), ("search", "cain")]).0, "Q5055");
    assert_eq!(problem(&[("ops", "mov")]).0, "Q5090");
    assert_eq!(problem(&[("ops", "move")]).0, "Q5013");
    assert_eq!(problem(&[("cain", "x")]).0, "Q5013");
    for (one, other) in [
        (("bus", "true"), ("search", "cain")),
        (("bus", "true"), ("objective", "noise")),
        (("bus", "true"), ("pareto", "true")),
        (("range", "0..9"), ("search", "cain")),
    ] {
        assert_eq!(problem(&[one, other]).0, "Q5055", "{one:?} {other:?}");
    }
    assert_eq!(problem(&[("range", "9..0")]).0, "Q5013");
    for sigma in ["1 2", "1 2 x", "1 -2 3", "0 0 0", "1 2 inf"] {
        assert_eq!(problem(&[("sigma", sigma)]).0, "Q5013", "{sigma}");
    }
    let (code, message, _) = problem(&[("range", "-100000..100000")]);
    assert!(code == "Q5102" && message.contains("writes values up to"), "{message}");
    let (code, _, help) = problem(&[("depth", "1"), ("error", "0")]);
    assert_eq!((code, &*help), ("Q5057", "depth 3 is needed"));
}

/// The number of registers that a diagnostic names suffices, with inputs and outputs where they are.
#[test]
fn named_registers_suffice() {
    let mut random = Random::new(11);
    let draw =
        |outputs| Draw { outputs, kernel: [3, 3], stride: 1, pad: 0, groups: 1, bias: false };
    for (channels, outputs, given) in [
        (1, 1, &[("registers", "A B")][..]),
        (1, 2, &[("registers", "A B C"), ("input-registers", "C"), ("output-registers", "B C")]),
        (7, 1, &[]),
        (1, 2, &[("registers", "A")]),
    ] {
        let mut graph = network(&[1, channels, 6, 6]);
        convolve(&mut graph, &mut random, "x", "y", &draw(outputs));
        output(&mut graph, "y");
        let given = given.iter().map(|(name, value)| (*name, (*value).to_owned()));
        let mut given: Vec<(&str, String)> = [size(12, 12)].into_iter().chain(given).collect();
        let problem = Case::new(&graph, &given).problem();
        assert!(["Q5056", "Q5091"].contains(&problem.code()), "{problem:?}");
        let help = problem.help_text().unwrap();
        let enough: usize =
            help.split(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("{help}"));
        // A machine that has them.
        let names = ["A", "B", "C", "D", "E", "F"].map(str::to_owned).into_iter();
        let names = names.chain((0..).map(|number| format!("G{number}")));
        let names: Vec<String> = names.take(enough).collect();
        let list: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
        let text = format!("name = \"m\"\nanalogue = [{}]\n", list.join(", "));
        given.retain(|(name, _)| *name != "registers");
        let source = ArchSource::Text { name: "m".into(), text };
        let arch = ScampArch::from_source(&source).unwrap();
        let case = Case { arch, ..Case::new(&graph, &given) };
        case.judged(&inputs(&mut random, &graph));
    }
}

/// A value that is moved two to the east and one back is wrong in one column, unless a margin of two
/// holds all of it.
#[test]
fn rims_are_what_differs() {
    use quincunx_scamp::symbolic::{Reaches, reaches};
    let program = crate::common::parse("movx(B, A, west); movx(B, B, west); movx(B, B, east)");
    let a = crate::common::reg("A");
    let reach = |margin: i64| {
        let state = Reaches::new(&[a], [margin; 4], false);
        reaches(&program, state, &[(2, (Space::Analogue, crate::common::reg("B")))]).unwrap().0[0]
    };
    assert_eq!((reach(0).spoilt, reach(0).beyond), ([0, 1, 0, 0], [0, 1, 0, -1]));
    assert_eq!(reach(1).spoilt, [0, 1, 0, 0]);
    assert_eq!(reach(2).spoilt, [0; 4]);
}

/// What the edge of the array spoils is named, and everything else is right: with the edge of Cain's
/// emulator any kernel of three by three spoils pixels on all sides of an image that fills the array.
#[test]
fn spoilt_pixels_are_recorded() {
    let file = File::new("k.json", golden_text("cain_inputs/gauss3.json"));
    let model = TARGET.model(&file).unwrap().unwrap();
    let kernels = read_kernels(file.text().unwrap()).unwrap();
    let graph = to_graph(&kernels, 7, 8).unwrap();
    let with = |edge: &str, size: (&'static str, String)| {
        let case =
            Case::new(&graph, &[&model.options[..], &[size, ("edge", edge.into())]].concat());
        let (compiled, _) = case.judged(&inputs(&mut Random::new(4), &graph));
        let mut log = Log::default();
        assert!(case.compile(&mut log).is_ok());
        let warned = log.diagnostics.iter().any(|problem| problem.code() == "Q5065");
        let rims = compiled.program.interface().rims.clone();
        assert_eq!(warned, !rims.is_empty());
        rims.into_iter().map(|rim| rim.inside).collect::<Vec<_>>()
    };
    let [rim] = &with("stale", size(8, 7))[..] else { panic!("one value is spoilt") };
    assert_eq!(rim[..2], [(0, 1), (0, 1)]);
    assert!(rim[2].0 > 0 && rim[2].1 < 7 && rim[3].0 > 0 && rim[3].1 < 8, "{rim:?}");
    assert!(rim[2].0 < rim[2].1 && rim[3].0 < rim[3].1, "{rim:?}");
    with("zero", size(8, 7));
    assert!(with("zero", size(20, 19)).is_empty());
}

/// A list of filters gives the same as the file of Cain.
#[test]
fn filters_of_a_list_are_models() {
    let list = golden_text("kernels.json");
    let model = |name: &str| TARGET.model(&File::new(name, list.clone()));
    let cain = golden_text("cain_inputs/gauss3.json");
    let cain = TARGET.model(&File::new("gauss3.json", cain)).unwrap().unwrap();
    let gauss3 = model("kernels.json#gauss3").unwrap().unwrap();
    let weights = |graph: &Graph| {
        let id = graph.value_named("kernels").unwrap();
        graph[id].constant.clone()
    };
    assert_eq!(gauss3.graph.to_string(), cain.graph.to_string());
    assert_eq!(weights(&gauss3.graph), weights(&cain.graph));
    let problem = model("kernels.json#gaus3").unwrap_err().remove(0);
    assert_eq!((problem.code(), problem.help_text()), ("Q5069", Some("did you mean \"gauss3\"?")));
    assert_eq!(model("kernels.json").unwrap_err()[0].code(), "Q5069");
    let kernel = r#"{"out": "A", "log2_scale": 0, "coeffs": [[1]]}"#;
    let filter = |id: &str, kernels: &str| {
        format!(r#"{{"id": "{id}", "input_register": "A", "kernels": [{kernels}]}}"#)
    };
    let code = |filters: &[String]| {
        let list = format!(r#"{{"filters": [{}]}}"#, filters.join(", "));
        TARGET.model(&File::new("k.json#a", list)).map(drop).map_err(|list| list[0].code())
    };
    let (one, two) = (filter("a", kernel), filter("a", &format!("{kernel}, {kernel}")));
    assert_eq!(code(&[one.clone(), filter("b", kernel)]), Ok(()));
    assert_eq!(code(&[one.clone(), one]), Err("Q5052"));
    assert_eq!(code(&[two]), Err("Q5052"));
}

/// Kernels that reach further than any array are refused before a search.
#[test]
fn far_cells_are_refused() {
    let mut graph = network(&[1, 1, 8, 8]);
    let x = graph.value_named("x").unwrap();
    let weights = Tensor::from_vec(&[1, 1, 1, 3], vec![1.0_f32; 3]).unwrap();
    let w = graph.add_constant("w", weights).unwrap();
    let mut window = Window::new(&[1, 3]);
    (window.dilations[1], window.pads[1]) = (40_000, (40_000, 40_000));
    let op = Op::Conv(Conv { window, groups: 1 });
    graph.add_node("far", op, &[Some(x), Some(w)], "y").unwrap();
    output(&mut graph, "y");
    assert_eq!(Case::new(&graph, &[size(16, 16)]).problem().code(), "Q5054");
}

/// Interfaces that are none of the program are refused.
#[test]
fn interfaces_are_checked() {
    let mut graph = network_of_images(1);
    output(&mut graph, "y");
    let case = Case::new(&graph, &[size(8, 8)]);
    let compiled = case.compile(&mut Log::default()).unwrap();
    let files = text_of(&*compiled.program);
    let good = compiled.program.interface().clone();
    let read = |interface: Interface| {
        let read =
            TARGET.read(&files, Some(interface), &case.arch, &case.options, &mut Log::default());
        read.err().map(|problems| problems[0].code())
    };
    assert_eq!(read(good.clone()), None);
    let damage = |change: &dyn Fn(&mut Interface)| {
        let mut interface = good.clone();
        change(&mut interface);
        read(interface)
    };
    assert_eq!(
        damage(&|i| i.layers[0].place = "rows 7/1x4 columns 0/1x4 A@0".into()),
        Some("Q5070")
    );
    assert_eq!(
        damage(&|i| i.layers[1].place = i.layers[1].place.replace('@', "@99")),
        Some("Q5070")
    );
    assert_eq!(damage(&|i| i.layers[1].shape[2] = 5), Some("Q5070"));
    assert_eq!(damage(&|i| i.outputs[0].name = "q".into()), Some("Q5070"));
    assert_eq!(damage(&|i| i.layers.clear()), Some("Q5070"));
    let far = "rows 18446744073709551615/9x4 columns 0/1x4 A@0";
    assert_eq!(damage(&|i| i.layers[0].place = far.into()), Some("Q5070"));
    let register = |from: &str, to: &str, at: usize| {
        assert!(good.layers[at].place.contains(from), "{}", good.layers[at].place);
        damage(&|i| i.layers[at].place = i.layers[at].place.replace(from, to))
    };
    assert_eq!(register("A@", "G@", 0), Some("Q5070"));
    assert_eq!(register("A@", "XN@", 0), Some("Q5070"));
    // Another register than the program reads, and one that holds two channels.
    assert_eq!(register("A@", "F@", 0), Some("Q5070"));
    let twice = |i: &mut Interface| {
        i.layers[0].place += " A@0";
        i.layers[0].shape[1] = 2;
        i.inputs[0].shape[1] = 2;
    };
    assert_eq!(damage(&twice), Some("Q5070"));
    let rim = Rim { value: "y".into(), inside: vec![(0, 1), (0, 1), (1, 3), (1, 3)] };
    assert_eq!(damage(&|i| i.rims = vec![rim.clone()]), Some("Q5070"));
}

/// What the edge spoils is found again when a program is read, for the edge and the array that it
/// then has; what `program.json` says must be true of one of the edges.
#[test]
fn rims_are_not_believed() {
    let file = File::new("k.json", golden_text("cain_inputs/gauss3.json"));
    let model = TARGET.model(&file).unwrap().unwrap();
    let graph = to_graph(&read_kernels(file.text().unwrap()).unwrap(), 7, 8).unwrap();
    let of = |edge: &str, size: (&'static str, String)| {
        [&model.options[..], &[size, ("edge", edge.to_owned())]].concat()
    };
    let case = Case::new(&graph, &of("stale", size(8, 7)));
    let compiled = case.compile(&mut Log::default()).unwrap_or_else(|p| panic!("{}", p.first()));
    let (files, good) = (text_of(&*compiled.program), compiled.program.interface().clone());
    let read = |interface: &Interface, given: &Given<'_>| {
        let (interface, log) = (Some(interface.clone()), &mut Log::default());
        let read = TARGET.read(&files, interface, &case.arch, &options(given), log);
        read.map(|program| program.interface().rims.clone()).map_err(|list| list[0].code())
    };
    assert!(!good.rims.is_empty());
    assert_eq!(read(&good, &of("stale", size(8, 7))), Ok(good.rims.clone()));
    // With zeros beyond the edge less is wrong.
    let zero = read(&good, &of("zero", size(8, 7))).unwrap();
    assert_ne!(zero, good.rims);
    for rims in [vec![], vec![Rim { inside: vec![(0, 0); 4], ..good.rims[0].clone() }]] {
        let damaged = Interface { rims, ..good.clone() };
        assert_eq!(read(&damaged, &of("stale", size(8, 7))).err(), Some("Q5070"));
    }
    assert_eq!(read(&good, &of("stale", size(30, 30))).err(), Some("Q5070"));
}

/// A layer of which the edge spoils everything is not the machine's.
#[test]
fn values_without_a_right_pixel_are_refused() {
    let mut random = Random::new(8);
    let draw = Draw { outputs: 1, kernel: [5, 5], stride: 1, pad: 2, groups: 1, bias: false };
    let mut graph = network(&[1, 1, 2, 2]);
    convolve(&mut graph, &mut random, "x", "y", &draw);
    output(&mut graph, "y");
    let case = Case::new(&graph, &[size(2, 2), ("edge", "stale".to_owned())]);
    match case.compile(&mut Log::default()) {
        Err(NotCompiled::Refused(list)) => {
            assert_eq!((&*list[0].node, list[0].problem.code()), ("y.conv", "Q5044"));
        }
        Err(problem) => panic!("{}", problem.first()),
        Ok(_) => panic!("it was compiled"),
    }
}

/// Cain's search takes the macros that are wished; of its settings, names that mean nothing are told.
#[test]
fn cain_takes_its_settings() {
    let file = File::new("k.json", golden_text("cain_inputs/gauss3.json"));
    let model = TARGET.model(&file).unwrap().unwrap();
    let kernels = read_kernels(file.text().unwrap()).unwrap();
    let graph = to_graph(&kernels, 9, 9).unwrap();
    let case = |given: &[(&'static str, &str)]| {
        let given = given.iter().map(|(name, value)| (*name, (*value).to_owned()));
        let of_search = [("search", "cain".to_owned()), ("effort", "default".to_owned())];
        let own = [size(16, 16)].into_iter().chain(of_search);
        let given: Vec<_> = model.options.iter().cloned().chain(own).chain(given).collect();
        Case::new(&graph, &given)
    };
    let few = r#"{"runConfig.maxNodes": "3000"}"#;
    for (ops, has_divq) in [("basic", true), ("all", false)] {
        let (compiled, _) =
            case(&[("ops", ops), ("cain", few)]).judged(&inputs(&mut Random::new(2), &graph));
        let text = String::from_utf8(text_of(&*compiled.program)[0].bytes.to_vec()).unwrap();
        assert_eq!(text.contains("divq("), has_divq, "{ops}: {text}");
        assert_eq!(text.contains("diva("), !has_divq, "{ops}: {text}");
    }
    let told = |cain: &str| {
        let mut log = Log::default();
        let compiled = case(&[("cain", cain)]).compile(&mut log).map(drop);
        let told =
            log.diagnostics.iter().filter(|problem| ["Q5053", "Q5059"].contains(&problem.code()));
        let told: Vec<_> = told
            .map(|problem| (problem.code(), problem.help_text().unwrap_or("").to_owned()))
            .collect();
        compiled.map(|()| told).map_err(|problem| problem.first().code())
    };
    assert_eq!(told(few), Ok(vec![]));
    let odd = r#"{"runConfig.maxNodes": "3000", "runConfig.quiet": "true", "runConfig.searchtime": "9",
        "pairGen.strategy.name": "Exhaustive", "pairGen.strategy.threshold": "3"}"#;
    let told_of_odd = told(odd).unwrap();
    let codes: Vec<&str> = told_of_odd.iter().map(|(code, _)| *code).collect();
    assert_eq!(codes, ["Q5053", "Q5053", "Q5059"]);
    assert!(told_of_odd[1].1.contains("runConfig.searchTime"), "{told_of_odd:?}");
    for number in ["NaN", "-1", "inf", "x"] {
        let cain = format!(r#"{{"runConfig.allowableAtomsCoefficient": "{number}"}}"#);
        assert_eq!(told(&cain), Err("Q5052"), "{number}");
    }
}

/// What is proved of the length of a program is told, with macros and leftovers; the default effort
/// is enough for five instructions.
#[test]
fn short_programs_are_proved_optimal() {
    let file = File::new("k.json", golden_text("cain_inputs/laplace4.json"));
    let model = TARGET.model(&file).unwrap().unwrap();
    let graph = to_graph(&read_kernels(file.text().unwrap()).unwrap(), 12, 12).unwrap();
    let options = [("effort", "default".into()), ("ops", "all".into())];
    let case = Case::new(&graph, &[&model.options[..], &options].concat());
    let mut log = Log::default();
    let compiled = case.compile(&mut log).map_err(|p| p.first().message().to_owned()).unwrap();
    let notes = log.diagnostics.iter().filter(|problem| problem.code() == "Q5095");
    let notes: Vec<&str> = notes.map(|problem| problem.message()).collect();
    let expected = "5 instructions, optimal (proved): no program of res mov add sub neg div diva movx mov2x \
         addx add2x subx sub2x has fewer than 5 instructions, without what macros leave in further registers";
    assert!(notes.len() == 1 && notes[0].ends_with(expected), "{notes:?}");
    let text = String::from_utf8(text_of(&*compiled.program)[0].bytes.to_vec()).unwrap();
    assert!(text.contains("ops: 5"), "{text}");
}

/// Cain's search leaves drawings as passes, with as many nodes as wished; other searches have none.
#[test]
fn drawings_of_searches_are_passes() {
    let file = read_kernels(&golden_text("cain_inputs/sobel_x.json")).unwrap();
    let graph = to_graph(&file, 16, 16).unwrap();
    let given = |search: &str| {
        [size(16, 16), ("search", search.to_owned()), ("search-graph", "5".to_owned())]
    };
    let wanted = ["search.dot", "search.svg"];
    let mut log = Log { dump_after: wanted.map(str::to_owned).to_vec(), ..Log::default() };
    Case::new(&graph, &given("cain")).compile(&mut log).unwrap();
    let [(dot, tree), (svg, picture)] = &log.dumps[..] else { panic!("{:?}", log.dumps) };
    assert_eq!([*dot, *svg], wanted);
    assert!(tree.starts_with("digraph") && tree.contains("  n4 [") && !tree.contains("  n5 ["));
    assert!(picture.starts_with("<svg") && picture.contains(">4: ") && !picture.contains(">5: "));
    for search in ["default", "auke"] {
        assert_eq!(Case::new(&graph, &given(search)).problem().code(), "Q5055");
    }
}
