//! Compiled programs as schedules: what is written is read without a warning and gives the program.

use crate::common::networks::{Network, calibrated};
use crate::common::{Random, arch};
use crate::compiled::{compile, complaints, machines, several_cores};
use quincunx_contract::{Compiled, Compiler as _, File, Log, Program, Target as _};
use quincunx_diag::{Class, Diagnostic};
use quincunx_graph::{
    Activation, Binary, Conv, ConvTranspose, Gemm, Graph, Op, Pool, PoolKind, Softmax, Unary,
    ValueId, Window,
};
use quincunx_npu::program::Program as Lines;
use quincunx_npu::simulate::{Executor, Settings};
use quincunx_npu::work::{Work, resolve};
use quincunx_npu::{Artifact, NpuArch, TARGET, text};
use quincunx_tensor::DType;
use quincunx_testkit::options;
use std::collections::{BTreeMap, BTreeSet};

/// Kinds of the files of a schedule.
const KINDS: [&str; 3] = ["sched", "frontend", "scales"];

fn emit(program: &dyn Program) -> quincunx_diag::Result<Vec<File>> {
    let files: quincunx_diag::Result<Vec<_>> =
        KINDS.into_iter().map(|kind| program.emit(kind, "net")).collect();
    files.map(|files| files.concat())
}

/// A program that is derived from files which break no rule.
fn derived(files: &[File], arch: &NpuArch) -> Box<dyn Program> {
    for file in files {
        let document = TARGET.document(file, arch, &options(&TARGET, &[])).unwrap().unwrap();
        assert_eq!(document.problems, [], "{}", file.name);
    }
    let mut log = Log::default();
    let program = TARGET.read(files, None, arch, &options(&TARGET, &[]), &mut log);
    let program = program.unwrap_or_else(|problems| panic!("{problems:?}"));
    assert_eq!(log.diagnostics, []);
    assert_eq!(complaints(program.verify()), []);
    program
}

fn program(program: &dyn Program) -> &Lines {
    &program.as_any().downcast_ref::<Artifact>().unwrap().programs()[0]
}

/// Builds networks whose layers have names.
struct Net<'r> {
    random: &'r mut Random,
    graph: Graph,
}

impl Net<'_> {
    fn node(&mut self, op: Op, inputs: &[ValueId]) -> ValueId {
        let inputs: Vec<Option<ValueId>> = inputs.iter().copied().map(Some).collect();
        let name = format!("n{}", self.graph.nodes().len());
        self.graph.add_node(&name, op, &inputs, &format!("{name}_out")).unwrap()
    }

    fn constant(&mut self, shape: &[usize]) -> ValueId {
        let terms = shape[1..].iter().product::<usize>().max(1) as f64;
        let tensor = self.random.tensor(shape, 2.0 / terms.sqrt());
        let name = format!("c{}", self.graph.nodes().len());
        self.graph.add_constant(&name, tensor).unwrap()
    }

    fn shape(&self, x: ValueId) -> Vec<usize> {
        self.graph[x].shape.to_vec()
    }

    fn conv(&mut self, x: ValueId, outputs: usize, kernel: usize, stride: usize) -> ValueId {
        let mut window = Window::new(&[kernel, kernel]);
        window.strides.fill(stride);
        window.pads.fill((kernel / 2, kernel / 2));
        let weights = self.constant(&[outputs, self.shape(x)[1], kernel, kernel]);
        self.node(Op::Conv(Conv { window, groups: 1 }), &[x, weights])
    }

    fn pool(&mut self, x: ValueId, kind: PoolKind) -> ValueId {
        let mut window = Window::new(&[2, 2]);
        window.strides.fill(2);
        if kind == PoolKind::Max {
            window.kernel.fill(3);
            window.pads.fill((1, 1));
        }
        self.node(Op::Pool(Pool { kind, window, ceil: false }), &[x])
    }
}

/// A network of what schedules have: convolutions, sums, pools, a dense layer.
fn plain(case: u64, batch: usize, size: usize) -> Network {
    let mut random = Random::new(case);
    let random = &mut random;
    let shape = [batch, random.range(1, 5), size, size];
    let mut graph = Graph::new("plain");
    let mut x = graph.add_input("x", DType::F32, &shape, &[]).unwrap();
    let layers = random.range(3, 8);
    let mut net = Net { random, graph };
    x = net.conv(x, 24, 3, 1);
    for _ in 0..layers {
        x = match net.random.below(7) {
            0 => net.pool(x, PoolKind::Max),
            1 if net.shape(x)[2] > 3 => net.pool(x, PoolKind::Average { count_include_pad: true }),
            2..4 => {
                let channels = net.shape(x)[1];
                let y = net.conv(x, channels, 3, 1);
                let sum = net.node(Op::Binary(Binary::Add), &[x, y]);
                net.node(Op::Unary(Unary::Relu), &[sum])
            }
            _ => {
                let (kernel, stride) = (net.random.pick(&[1, 3, 5]), net.random.pick(&[1, 1, 2]));
                let outputs = net.random.range(8, 200);
                let y = net.conv(x, outputs, kernel, stride);
                if net.random.coin() { net.node(Op::Unary(Unary::Relu), &[y]) } else { y }
            }
        };
    }
    x = net.node(Op::GlobalAveragePool, &[x]);
    x = net.node(Op::Flatten { axis: 1 }, &[x]);
    let weights = net.constant(&[10, net.shape(x)[1]]);
    let gemm = Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: true };
    let y = net.node(Op::Gemm(gemm), &[x, weights]);
    let Net { mut graph, random } = net;
    graph.add_output(y);
    calibrated(graph, random)
}

/// Fields of a line without its map and tokens; numbers that are 0 are written alike.
fn fields(line: &str) -> String {
    let (name, rest) = line.split_once(", ").unwrap();
    let (_, fields) = rest.split_once("}, ").unwrap();
    let fields = fields.split(", 'Prev_Insts'").next().unwrap();
    format!("{name} {fields}").replace(": 0.0", ": 0")
}

/// The lines of some instructions.
fn lines(program: &Lines, starts: &[&str]) -> Vec<String> {
    let text = String::from_utf8(text::print(program)).unwrap();
    let own = |line: &&str| starts.iter().any(|start| line[1..].starts_with(start));
    text.lines().filter(own).map(fields).collect()
}

/// Loads of weights from DRAM in their order, and those from L2 to WL0 without.
fn weights(program: &Lines) -> (Vec<Work>, BTreeSet<String>) {
    let moved = |work: &Work| matches!(work, Work::Weights(_));
    let all: Vec<Work> = resolve(program).into_iter().flatten().filter(moved).collect();
    let (dram, inside): (Vec<Work>, Vec<Work>) = all.into_iter().partition(Work::uses_dram);
    (dram, inside.iter().map(|work| format!("{work:?}")).collect())
}

/// Lines that compute, with their configurations, and transfers of weights and results are the same,
/// but for what the formats cannot say: where activations lie in DRAM, in how many parts an input is
/// loaded, and when weights move from L2 to WL0.
fn compare(compiled: &Lines, derived: &Lines, at: &str) {
    for starts in [&["pe_"][..], &["vp_"], &["sta_cfg", "sta_mov"]] {
        let [left, right] = [compiled, derived].map(|program| {
            let mut lines = lines(program, starts);
            for line in lines.iter_mut().filter(|line| line.contains("sta_mov")) {
                let (before, rest) = line.split_once("'DTaddr': ").unwrap();
                *line = format!("{before}{}", rest.split_once(", ").unwrap().1);
            }
            lines
        });
        assert!(!left.is_empty() || starts == ["vp_"]);
        assert_eq!(left, right, "{at}");
    }
    assert_eq!(weights(compiled), weights(derived), "{at}");
    let inputs = |program: &Lines| -> BTreeMap<_, u64> {
        let mut rows = BTreeMap::new();
        for work in resolve(program).into_iter().flatten() {
            if let Work::Copy(copy) = work
                && copy.load
            {
                let [c, h, w] = copy.tile.map(u64::from);
                *rows.entry((c, w, copy.dram_tensor)).or_default() += h * u64::from(copy.images);
            }
        }
        rows
    };
    assert_eq!(inputs(compiled), inputs(derived), "{at}");
}

/// What a program leaves in DRAM when it finds these bytes there, tensor by tensor in the order of
/// its stores.
fn stored(program: &Lines, input: &[u8], data: &[u8], arch: &NpuArch) -> Vec<Vec<u8>> {
    let executor = Executor::new(vec![program.clone()], arch, Settings::default()).unwrap();
    let mut state = executor.state();
    state.dram[0].write(0, input).unwrap();
    state.dram[1].write(0, data).unwrap();
    executor.run(&mut state).unwrap();
    let store = |work: &Work| match work {
        Work::Copy(copy) if !copy.load => {
            let elements: u32 = copy.tile.iter().product::<u32>() * copy.images;
            let mut bytes = vec![0; elements as usize * 2];
            state.dram[0].read(copy.dram.into(), &mut bytes);
            Some(bytes)
        }
        _ => None,
    };
    executor.work()[0].iter().flatten().filter_map(store).collect()
}

/// The bytes behind base 1 of a compiled program.
fn data(compiled: &Compiled) -> Vec<u8> {
    let files = compiled.program.emit("bin", "net").unwrap();
    files.into_iter().find(|file| file.name.ends_with(".dram.bin")).unwrap().bytes.to_vec()
}

/// The program of a network, if it fits the machine.
fn compiled(network: &Network, arch: &NpuArch, subset: &str) -> Option<Compiled> {
    let options = options(&TARGET, &[("effort", "fast"), ("subset", subset)]);
    TARGET.compile(&network.graph, arch, &options, &mut Log::default()).ok()
}

/// Random networks on three machines, one of which has few units of WL0: those whose schedules have a form give the same lines, and the
/// same numbers; the others are refused for a known reason.
#[test]
fn schedules_give_their_programs() {
    let (mut written, mut refused) = (0, BTreeSet::new());
    let (mut streamed, mut rows) = (0, 0);
    for case in 0..24 {
        let (batch, size) = ([1, 4, 3, 4][case as usize % 4], 6 + 3 * (case % 12) as usize);
        let network = plain(case, batch, size);
        let [gemini, small] = machines();
        let few = NpuArch { wl0_units: 3072, ..gemini.clone() };
        for (arch, subset) in [(gemini, "full"), (small, "published"), (few, "full")] {
            let Some(compiled) = compiled(&network, &arch, subset) else { continue };
            let at = format!("case {case}, {}", arch.name);
            let files = match emit(&*compiled.program) {
                Ok(files) => files,
                Err(problem) => {
                    assert_eq!((problem.code(), problem.class()), ("Q4103", Class::Unsupported));
                    refused.insert(problem.to_string());
                    continue;
                }
            };
            let derived = derived(&files, &arch);
            let [own, other] = [&*compiled.program, &*derived].map(program);
            compare(own, other, &at);
            let input = Random::new(case).bytes(batch * 5 * size * size * 2);
            let data = data(&compiled);
            let [left, right] = [own, other].map(|program| stored(program, &input, &data, &arch));
            assert_eq!(left, right, "{at}");
            written += 1;
            streamed += usize::from(!weights(own).1.is_empty());
            rows += usize::from(lines(own, &["lda_mov"]).len() > batch);
        }
    }
    let counts = [written, streamed, rows];
    assert!(counts.iter().zip([60, 4, 4]).all(|(a, b)| *a > b), "{counts:?} {refused:?}");
}

/// Weights that came through L2 for the first rows of an image are in WL0 for the others.
#[test]
fn weights_stay_in_wl0() {
    let mut random = Random::new(1);
    let mut graph = Graph::new("large");
    let x = graph.add_input("x", DType::F32, &[1, 64, 32, 32], &[]).unwrap();
    let mut net = Net { random: &mut random, graph };
    let y = (0..8).fold(x, |x, _| net.conv(x, 128, 3, 1));
    let Net { mut graph, random } = net;
    graph.add_output(y);
    let network = calibrated(graph, random);
    let arch = NpuArch { wl0_units: 6144, ..arch() };
    let compiled = compiled(&network, &arch, "full").unwrap();
    let files = emit(&*compiled.program).unwrap();
    let derived = derived(&files, &arch);
    compare(program(&*compiled.program), program(&*derived), "large");
    assert!(kept_slots(&files[0]) > 5, "{}", kept_slots(&files[0]));
}

/// Slots of weights that came through L2 for an earlier workload.
fn kept_slots(file: &File) -> usize {
    let schedule: serde_json::Value = serde_json::from_slice(&file.bytes).unwrap();
    let kept = |workload: &serde_json::Value| {
        let in_l2 = |slot: &serde_json::Value| {
            let buffers = workload["buffer"].as_array().unwrap();
            buffers.iter().any(|buffer| buffer["transfer_id"] == slot["transfer_id"])
        };
        let slots = workload["wl0_buffer"].as_array().map_or(&[][..], Vec::as_slice);
        slots.iter().filter(|slot| slot["source"] == "CORE" && !in_l2(slot)).count()
    };
    schedule["0"].as_array().unwrap().iter().map(kept).sum()
}

/// Written twice, and by programs that were compiled at the same time, the files are the same.
#[test]
fn files_are_deterministic() {
    let network = plain(5, 2, 12);
    let files = || emit(&*compile(&network.graph, &arch()).unwrap().program).unwrap();
    let first = files();
    std::thread::scope(|scope| {
        let both = [scope.spawn(files), scope.spawn(files)];
        both.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), first));
    });
    let names: Vec<&str> = first.iter().map(|file| &file.name[..]).collect();
    assert_eq!(names, ["net.sched.json", "net.frontend.json", "net.scales.json"]);
}

/// Keys stand in the order of published files.
#[test]
fn keys_are_in_their_order() {
    let files = emit(&*compile(&plain(5, 2, 12).graph, &arch()).unwrap().program).unwrap();
    let text = String::from_utf8(files[0].bytes.to_vec()).unwrap();
    let mut open: Vec<String> = Vec::new();
    for line in text.lines() {
        let key = line.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next());
        if let Some(key) = key {
            let last = open.last_mut().unwrap();
            assert!(&**last < key, "{last} before {key}");
            key.clone_into(last);
        }
        if line.ends_with('{') {
            open.push(String::new());
        }
        if line.trim_start().starts_with('}') {
            open.pop();
        }
    }
    assert!(open.is_empty());
    let network = String::from_utf8(files[1].bytes.to_vec()).unwrap();
    assert!(network.starts_with("{\n   \"n0_out"), "{network}");
    assert!(network.contains("\"output_scale\"") && network.ends_with("\n}"));
}

/// The refusal of a network that ends with this layer.
fn refusal(build: impl FnOnce(&mut Net<'_>, ValueId) -> ValueId, arch: &NpuArch) -> Diagnostic {
    let mut random = Random::new(1);
    let mut graph = Graph::new("refused");
    let x = graph.add_input("x", DType::F32, &[2, 8, 8, 8], &[]).unwrap();
    let mut net = Net { random: &mut random, graph };
    let x = net.conv(x, 8, 1, 1);
    let y = build(&mut net, x);
    let y = net.conv(y, 8, 1, 1);
    let Net { mut graph, random } = net;
    graph.add_output(y);
    let network = calibrated(graph, random);
    let compiled = compile(&network.graph, arch).unwrap();
    for kind in KINDS {
        let problem = compiled.program.emit(kind, "net").map(|_| kind).unwrap_err();
        assert_eq!((problem.code(), problem.class()), ("Q4103", Class::Unsupported));
    }
    emit(&*compiled.program).map(|_| ()).unwrap_err()
}

/// What the formats cannot say is refused with the layer.
#[test]
fn what_has_no_form_is_refused() {
    let window = |groups: usize, dilation: usize| {
        let mut window = Window::new(&[3, 3]);
        window.pads.fill((dilation, dilation));
        window.dilations.fill(dilation);
        Op::Conv(Conv { window, groups })
    };
    type Build = Box<dyn FnOnce(&mut Net<'_>, ValueId) -> ValueId>;
    let unary = |op: Op| -> Build { Box::new(move |net, x| net.node(op, &[x])) };
    let weighted = |op: Op, depth: usize| -> Build {
        Box::new(move |net, x| {
            let weights = net.constant(&[8, depth, 3, 3]);
            net.node(op, &[x, weights])
        })
    };
    let mut stretched = Window::new(&[3, 3]);
    stretched.strides.fill(2);
    let output_padding = [0, 0].into_iter().collect();
    let transposed = ConvTranspose { window: stretched, groups: 1, output_padding };
    let cases: Vec<(Build, &str)> = vec![
        (weighted(window(8, 1), 1), "in groups"),
        (weighted(window(1, 2), 8), "dilated"),
        (weighted(Op::ConvTranspose(transposed), 8), "transposed"),
        (unary(Op::Activation(Activation::Clip { min: Some(0.0), max: Some(0.5) })), "but ReLU"),
        (unary(Op::Softmax(Softmax { axis: 1, log: false })), "functions"),
        (
            Box::new(|net, x| {
                let y = net.conv(x, 8, 1, 1);
                net.node(Op::Binary(Binary::Mul), &[x, y])
            }),
            "products of elements",
        ),
        (
            Box::new(|net, x| {
                let y = net.conv(x, 8, 1, 1);
                net.node(Op::Binary(Binary::Sub), &[x, y])
            }),
            "differences",
        ),
        (Box::new(|net, x| net.node(Op::Concat { axis: 1 }, &[x, x])), "concatenations"),
        (
            Box::new(|net, x| {
                let numbers = net.constant(&[8, 1, 1]);
                net.node(Op::Binary(Binary::Mul), &[x, numbers])
            }),
            "in groups",
        ),
    ];
    for (build, why) in cases {
        let problem = refusal(build, &arch()).to_string();
        assert!(problem.contains(why) && problem.contains("layer \"n"), "{why}: {problem}");
    }
    let several = refusal(|net, x| net.conv(x, 8, 3, 1), &several_cores(2)).to_string();
    assert!(several.contains("one core"), "{several}");
}

/// Results of half precision end without a quantiser, which the formats always have.
#[test]
fn sums_of_half_precision_are_refused() {
    let mut random = Random::new(1);
    let mut graph = Graph::new("half");
    let x = graph.add_input("x", DType::F32, &[1, 8, 8, 8], &[]).unwrap();
    let mut net = Net { random: &mut random, graph };
    let (x, y) = (net.conv(x, 8, 1, 1), net.conv(x, 8, 1, 1));
    let sum = net.node(Op::Binary(Binary::Add), &[x, y]);
    let Net { mut graph, random } = net;
    graph.add_output(sum);
    let compiled = compile(&calibrated(graph, random).graph, &arch()).unwrap();
    let problem = emit(&*compiled.program).map(|_| ()).unwrap_err();
    assert_eq!((problem.code(), problem.class()), ("Q4103", Class::Unsupported));
    assert!(problem.to_string().contains("layer \"n2_out"), "{problem}");
}

/// A program that was read does not know its network.
#[test]
fn only_compilers_write_schedules() {
    let compiled = compile(&plain(5, 2, 12).graph, &arch()).unwrap();
    let files = compiled.program.emit("asm", "net").unwrap();
    let read = TARGET.read(&files, None, &arch(), &options(&TARGET, &[]), &mut Log::default());
    let problem = read.unwrap().emit("sched", "net").unwrap_err();
    assert_eq!((problem.code(), problem.class()), ("Q4103", Class::Unsupported));
}
