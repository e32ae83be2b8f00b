//! Compilations of one network with the same order of sums compute the same, whatever the memories:
//! their values have equal tags. Broken programs are rejected or have other tags.

use crate::common::networks::{residual, split};
use crate::common::root;
use crate::common::tags::{self, Shapes};
use quincunx_contract::{Compiler, File, LayerTap, Log, Target as _};
use quincunx_diag::any_error;
use quincunx_graph::Graph;
use quincunx_isa::RawInst;
use quincunx_tcu::isa::{Inst, TABLE};
use quincunx_tcu::package::Package;
use quincunx_tcu::program::Memory;
use quincunx_tcu::simulate::Executor;
use quincunx_tcu::verify::{Rules, dataflow, verify};
use quincunx_tcu::{Artifact, TARGET, TcuArch};
use quincunx_testkit::{Random, Verdict, campaign, options};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn package(program: &dyn quincunx_contract::Program) -> Package {
    program.as_any().downcast_ref::<Artifact>().unwrap().package().clone()
}

/// A program that upstream compiled.
fn upstream(name: &str) -> Package {
    let folder = root().join("compiled");
    let read = |name: &str| File::new(name, std::fs::read(folder.join(name)).unwrap());
    let first = read(&format!("{name}.tmodel"));
    let others = TARGET.companions(&first);
    let files: Vec<File> =
        std::iter::once(first).chain(others.iter().map(|name| read(name))).collect();
    let arch = TcuArch::preset("cmoda7").unwrap();
    let opened =
        TARGET.read(&files, None, &arch, &options(&TARGET, &[]), &mut Log::default()).unwrap();
    package(&*opened)
}

fn model(path: &Path) -> Graph {
    let bytes = std::fs::read(path).unwrap();
    quincunx_import::read_onnx(bytes.into(), &Default::default()).unwrap()
}

/// A small network that upstream compiled as well.
fn small(name: &str) -> Graph {
    model(&root().join(format!("models/{name}.onnx")))
}

/// The names of upstream's programs, and of their networks.
fn names() -> Vec<(String, String)> {
    let network = |name: &str| {
        let mut stem = name;
        while !root().join(format!("models/{stem}.onnx")).exists() {
            stem = stem.rsplit_once('_').unwrap().0;
        }
        (name.to_owned(), stem.to_owned())
    };
    let files = std::fs::read_dir(root().join("compiled")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> =
        names.filter_map(|name| name.strip_suffix(".tmodel").map(network)).collect();
    names.sort();
    names
}

/// The shapes of the inputs of a network.
fn shapes(graph: &Graph) -> Shapes {
    let inputs = graph.inputs().iter().map(|&id| &graph[id]);
    inputs.map(|value| (value.name.clone(), value.shape.to_vec())).collect()
}

/// A program without errors, and where its values are; nothing when the machine is too small.
fn compile(graph: &Graph, arch: &TcuArch, strategy: &str) -> Option<(Package, Vec<LayerTap>)> {
    let options = options(&TARGET, &[("strategy", strategy)]);
    let compiled = match TARGET.compile(graph, arch, &options, &mut Log::default()) {
        Ok(compiled) => compiled,
        Err(problem) => {
            let problem = problem.first();
            assert!(("Q3085"..="Q3087").contains(&problem.code()), "{problem}");
            return None;
        }
    };
    let problems = compiled.program.verify();
    assert!(!any_error(&problems), "{} on {}: {problems:?}", graph.name, arch.name);
    let taps = compiled.program.interface().layers.clone();
    Some((package(&*compiled.program), taps))
}

/// Machines with the numbers of one and other memories.
fn machines(arch: &TcuArch) -> Vec<TcuArch> {
    let memories = [(1, 1, 1), (1, 4, 1), (2, 1, 8), (4, 2, 1), (8, 8, 8), (16, 16, 1)];
    let machine = |(local, acc, strides): (u64, u64, u32)| TcuArch {
        name: format!("{} / {local} {acc} {strides}", arch.name),
        local_depth: arch.local_depth / local,
        accumulator_depth: arch.accumulator_depth / acc,
        stride0_depth: (arch.stride0_depth / strides).max(1),
        stride1_depth: (arch.stride1_depth / strides).max(1),
        ..arch.clone()
    };
    memories.into_iter().map(machine).collect()
}

/// All compilations of a network for machines with the numbers of one compute the same values; how
/// many there are.
fn agree(graph: &Graph, arch: &TcuArch) -> usize {
    let shapes = shapes(graph);
    let mut known: Option<BTreeMap<_, _>> = None;
    let mut count = 0;
    for machine in machines(arch) {
        for strategy in ["auto", "local-isolated"] {
            let Some((package, taps)) = compile(graph, &machine, strategy) else { continue };
            let values = tags::layers(&package, &taps, &shapes);
            assert!(values.len() > taps.len() && values.values().all(|value| !value.is_empty()));
            count += 1;
            // What passes from a layer to the next is nowhere as a whole.
            let expected = known.get_or_insert_with(|| values.clone());
            let lost = |name: &String| name.starts_with("value ") && !values.contains_key(name);
            let same = |name: &&String| lost(name) || values.get(*name) == expected.get(*name);
            let new = values.keys().filter(|name| !name.starts_with("value "));
            let other = expected.keys().chain(new).find(|name| !same(name));
            assert_eq!(other, None, "{}: {strategy} on {}", graph.name, machine.name);
            expected.extend(values);
        }
    }
    count
}

/// Upstream compiled these networks otherwise: it joins channels and flattens in its own way, and
/// interpolates at other coordinates.
const DIFFERENT: [&str; 3] = ["t_concat", "t_flatten_gemm", "t_resize"];

#[test]
fn upstreams_programs_are_sound_and_compute_what_ours_do() {
    let mut equal = 0;
    for (name, network) in names() {
        let theirs = upstream(&name);
        let found = dataflow(&theirs, &theirs.driver());
        let codes: Vec<&str> = found.iter().map(|problem| problem.code()).collect();
        // Upstream moves rows of weights twice there.
        let expected: &[&str] = if network == "t_flatten_gemm" { &["Q3059"] } else { &[] };
        assert_eq!(codes, expected, "{name}: {found:?}");
        if theirs.arch().number_of_threads > 1 {
            continue;
        }
        let graph = small(&network);
        let shapes = shapes(&graph);
        for strategy in ["auto", "local-isolated"] {
            let (ours, _) = compile(&graph, theirs.arch(), strategy).unwrap();
            let same = tags::outputs(&ours, &shapes) == tags::outputs(&theirs, &shapes);
            assert_eq!(same, !DIFFERENT.contains(&network.as_str()), "{name}");
            equal += usize::from(same);
        }
    }
    assert!(equal >= 70, "{equal}");
}

#[test]
fn memories_do_not_change_what_small_networks_compute() {
    let networks: BTreeSet<String> = names().into_iter().map(|(_, network)| network).collect();
    let mut count = 0;
    for network in &networks {
        for arch in ["t_add_tight8_iso", "t_add_artya7100t_iso"] {
            count += agree(&small(network), upstream(arch).arch());
        }
    }
    assert!(count > 200, "{count} compilations");
}

#[test]
fn memories_do_not_change_what_networks_compute() {
    let arch = |name| TcuArch::preset(name).unwrap();
    let counts = [
        agree(&residual(32), &arch("pynqz1")),
        agree(&split(32), &arch("pynqz1")),
        agree(&residual(24), &arch("ultra96v2")),
        agree(&split(24), &arch("bench12")),
    ];
    assert!(counts.iter().all(|&count| count >= 8), "{counts:?}");
}

/// Models of the benchmark table, where they were made.
#[test]
fn memories_do_not_change_what_benchmark_networks_compute() {
    let Some(folder) = std::env::var_os("QUINCUNX_MODELS").map(PathBuf::from) else { return };
    for name in ["resnet20v2_cifar", "yolov4_tiny_192"] {
        let path = folder.join(format!("{name}.onnx"));
        if path.exists() {
            assert!(agree(&model(&path), &TcuArch::preset("pynqz1").unwrap()) >= 6, "{name}");
        }
    }
}

/// A different order of sums has other tags.
#[test]
fn free_rounding_is_told_from_compat() {
    let graph = small("t_resblock");
    let arch = TcuArch::preset("pynqz1").unwrap();
    let (compat, _) = compile(&graph, &arch, "auto").unwrap();
    let free = options(&TARGET, &[("rounding", "free")]);
    let free = TARGET.compile(&graph, &arch, &free, &mut Log::default()).unwrap();
    let shapes = shapes(&graph);
    let of = |package: &Package| tags::outputs(package, &shapes);
    assert_ne!(of(&package(&*free.program)), of(&compat));
}

/// The kinds of corruption.
const KINDS: [&str; 5] = ["address", "stride", "size", "order", "missing"];

/// A corruption of a program; nothing when it changed nothing.
fn corrupt(package: &Package, random: &mut Random, kind: &str) -> Option<Package> {
    let mut broken = package.clone();
    let steps = &mut broken.program.steps;
    let index = random.below(steps.len() as u64) as usize;
    match kind {
        "missing" => drop(steps.remove(index)),
        "order" => {
            let far = if random.below(2) == 0 { 1 } else { 1 + random.below(12) as usize };
            steps.swap(index, (index + far).min(package.program.steps.len() - 1));
        }
        _ => {
            let mut raw: RawInst = steps[index].inst.to_raw();
            let is_meant = |name: &str| match kind {
                "stride" => name.ends_with("stride"),
                "size" => name == "size",
                _ => ["local", "acc", "address", "read", "write"].contains(&name),
            };
            let operands = TABLE.rows[raw.row].operands;
            let meant: Vec<usize> =
                (0..operands.len()).filter(|&at| is_meant(operands[at].name)).collect();
            let operand = *meant.get(random.below(meant.len() as u64) as usize)?;
            let change = i128::from(random.below(9)) - 4;
            let before = raw.values[operand];
            raw.values[operand] = if random.below(4) == 0 { change.abs() } else { before + change };
            if raw.values[operand] < 0 {
                return None;
            }
            steps[index].inst = Inst::from_raw(&raw)?;
        }
    }
    (broken != *package).then_some(broken)
}

/// The scalars of the outputs for random inputs.
fn run(package: &Package, shapes: &Shapes, seed: u64) -> Vec<i32> {
    let (arch, model) = (package.arch(), package.model.as_ref().unwrap());
    let lanes = arch.lanes();
    let mut random = Random::new(seed);
    let mut executor = Executor::new(arch);
    package.load(&mut executor.state).unwrap();
    for piece in &model.inputs {
        let channels = shapes[&piece.name][1];
        let width = channels.next_multiple_of(lanes);
        let scalar = |at: usize| match at % width < channels {
            true => random.below(1024) - 512,
            false => 0,
        };
        let scalars: Vec<i32> = (0..piece.size as usize * lanes).map(scalar).collect();
        executor.state.write(Memory::Dram0, piece.base, &scalars).unwrap();
    }
    executor.run(&package.program.steps).unwrap();
    let read = |piece: &quincunx_tcu::files::Vectors| {
        let mut scalars = vec![0; piece.size as usize * lanes];
        executor.state.read(Memory::Dram0, piece.base, &mut scalars).unwrap();
        scalars
    };
    model.outputs.iter().flat_map(read).collect()
}

#[test]
fn corrupted_programs_are_noticed() {
    let networks = ["t_resblock", "t_conv_bn_relu", "t_maxpool", "t_concat", "t_gemm", "t_resize"];
    let machines = ["t_add_tight8_iso", "t_add_small4_iso"];
    let mut programs = Vec::new();
    for (network, machine) in networks.into_iter().flat_map(|n| machines.map(|m| (n, m))) {
        let graph = small(network);
        let shapes = shapes(&graph);
        let (package, _) = compile(&graph, upstream(machine).arch(), "auto").unwrap();
        let tags = tags::outputs(&package, &shapes);
        programs.push((network, package, shapes, tags));
    }
    let mut outcomes: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    let mut codes: BTreeMap<&str, usize> = BTreeMap::new();
    campaign(|random| {
        let (network, package, shapes, tags) = &programs[random.below(programs.len())];
        let kind = random.pick(&KINDS);
        let broken = corrupt(package, random, kind)?;
        let [rejected, other_tags] = outcomes.entry(kind).or_default();
        let mut problems = verify(&broken.program, &Rules::default());
        if !any_error(&problems) {
            problems.extend(dataflow(&broken, &broken.driver()));
        }
        let same = |seed| run(&broken, shapes, seed) == run(package, shapes, seed);
        Some(if let Some(problem) = problems.iter().find(|problem| problem.is_error()) {
            *codes.entry(problem.code()).or_default() += 1;
            *rejected += 1;
            Verdict::Rejected
        } else if tags::outputs(&broken, shapes) != *tags {
            *other_tags += 1;
            Verdict::Rejected
        } else if (0..2).all(same) {
            Verdict::Harmless
        } else {
            Verdict::Missed(format!("{network}, {kind}"))
        })
    });
    let noticed = |kind: &&str| outcomes[kind].iter().all(|&count| count > 0);
    assert!(KINDS.iter().all(noticed), "{outcomes:?}");
    assert!(codes.contains_key("Q3054") && codes.contains_key("Q3058"), "{codes:?}");
}
