//! What users are shown of compiled programs: time by layer, statistics, graphs, names, constants,
//! and where numbers depart from upstream's.

use crate::common::{golden, root};
use quincunx_contract::{Arch, Compiled, Compiler, Engine, Log, Target};
use quincunx_graph::passes::fold_constants;
use quincunx_graph::{Graph, Op};
use quincunx_import::{Options as ImportOptions, read_onnx};
use quincunx_report::Table;
use quincunx_tcu::program::Memory;
use quincunx_tcu::{Artifact, TARGET, TcuArch};
use quincunx_tensor::{Tensor, Tensors};
use quincunx_testkit::options;
use serde_json::Value;
use std::collections::BTreeMap;

fn model(name: &str) -> Graph {
    let path = root().join(format!("models/{name}.onnx"));
    let bytes = std::fs::read(&path).unwrap();
    fold_constants(&read_onnx(bytes.into(), &ImportOptions::beside(&path)).unwrap()).unwrap()
}

fn compile_with(graph: &Graph, arch: &TcuArch, given: &[(&str, &str)]) -> (Compiled, Log) {
    let options = options(&TARGET, given);
    let mut log = Log { dump_after: vec!["constants".to_owned()], ..Log::default() };
    let compiled = TARGET.compile(graph, arch, &options, &mut log);
    (compiled.unwrap_or_else(|problem| panic!("{}", problem.first())), log)
}

fn compile(name: &str, arch: &str, rounding: &str) -> Compiled {
    let arch = TcuArch::preset(arch).unwrap();
    compile_with(&model(name), &arch, &[("rounding", rounding)]).0
}

/// The rows of a table by its key.
fn rows(tables: &[Table], key: &str) -> Vec<Value> {
    let table = tables.iter().find(|table| table.key() == key);
    let table = table.unwrap_or_else(|| panic!("no table {key}"));
    serde_json::to_value(table).unwrap().as_array().unwrap().clone()
}

fn sum(rows: &[Value], key: &str) -> u64 {
    rows.iter().map(|row| row[key].as_u64().unwrap_or_else(|| panic!("{key} in {row}"))).sum()
}

/// The value of a row of properties.
fn property(rows: &[Value], name: &str) -> Value {
    let row = rows.iter().find(|row| row["name"] == name);
    row.unwrap_or_else(|| panic!("no row {name}"))["value"].clone()
}

/// Time, bytes and multiplications of all layers are those of the whole program, under every model.
#[test]
fn layers_add_up_to_the_program() {
    for (name, arch) in [("t_resblock", "bench8"), ("t_concat", "artya7100t"), ("t_gemm", "cmoda7")]
    {
        let compiled = compile(name, arch, "free");
        let program = &compiled.program;
        let tables = program.view("profile").unwrap();
        let layers = rows(&tables, "layers");
        let models = rows(&tables, "models");
        for (model, key) in models.iter().zip(["current", "early_2022", "two_engine"]) {
            assert_eq!(model["cycles"], sum(&layers, key), "{name} {key}");
        }
        assert_eq!(models[0]["cycles"], program.stats().cycles.unwrap());
        assert_eq!(program.time().unwrap().total(), models[0]["cycles"]);
        let cases = golden("compiled_models.json");
        let mut cases = cases.as_array().unwrap().iter();
        let peer = cases.find(|case| case["model"] == name).unwrap();
        // Upstream's repacking products count.
        if name != "t_concat" {
            assert_eq!(sum(&layers, "macs"), peer["macs"].as_u64().unwrap(), "{name}");
        }
        let package = program.as_any().downcast_ref::<Artifact>().unwrap().package();
        let mut bytes = BTreeMap::new();
        for transfer in package.program.steps.iter().filter_map(|step| step.inst.transfer()) {
            let key = (transfer.other.memory, transfer.to_local);
            *bytes.entry(key).or_insert(0) +=
                transfer.other.count * package.arch().vector_bytes() as u64;
        }
        for (key, memory, read) in [
            ("dram0_read", Memory::Dram0, true),
            ("dram0_written", Memory::Dram0, false),
            ("dram1_read", Memory::Dram1, true),
            ("dram1_written", Memory::Dram1, false),
        ] {
            let expected = bytes.get(&(memory, read)).copied().unwrap_or(0);
            assert_eq!(sum(&layers, key), expected, "{name} {key}");
        }
        let units = rows(&tables, "units");
        assert_eq!(sum(&units, "cycles"), models[0]["cycles"].as_u64().unwrap());
        assert_eq!(sum(&units, "instructions"), program.stats().instructions);
    }
}

/// Efficiency, milliseconds and frames in a second of one program, computed here.
#[test]
fn figures_of_boards_and_of_a_clock() {
    let tables = compile("t_resblock", "bench8", "compat").program.view("profile").unwrap();
    let models = rows(&tables, "models");
    let (macs, cycles) = (46_688.0, models[0]["cycles"].as_f64().unwrap());
    let close = |value: &Value, expected: f64| {
        assert!((value.as_f64().unwrap() / expected - 1.0).abs() < 1e-12, "{value} {expected}");
    };
    close(&models[0]["efficiency"], macs / 64.0 / cycles);
    close(&models[0]["milliseconds"], cycles / 150e3);
    close(&models[0]["fps"], 150e6 / cycles);
    assert_eq!((models[0]["energy"].is_u64(), models[2]["energy"].is_null()), (true, true));
    let boards = rows(&tables, "boards");
    assert_eq!(boards.len(), 3);
    assert_eq!((&boards[0]["board"], &boards[0]["clock"]), (&"Arty A7-35".into(), &150.into()));
    // A machine without a clock has one when it is given.
    let arch = TcuArch::preset("pynqz1").unwrap();
    let graph = model("t_resblock");
    let plain = compile_with(&graph, &arch, &[]).0.program;
    assert!(rows(&plain.view("profile").unwrap(), "models")[0]["fps"].is_null());
    assert_eq!(plain.time().unwrap().seconds(), None);
    let clocked = compile_with(&graph, &arch, &[("clock", "200")]).0.program;
    let total = clocked.time().unwrap();
    assert_eq!(total.seconds(), Some(total.total() as f64 / 200e6));
    close(
        &rows(&clocked.view("profile").unwrap(), "models")[0]["fps"],
        200e6 / total.total() as f64,
    );
}

/// No layer is above the roof, and the figures of a point follow from its layer.
#[test]
fn layers_lie_under_the_roofline() {
    for timing in ["current", "early-2022", "two-engine"] {
        let arch = TcuArch::preset("bench8").unwrap();
        let given = [("timing", timing), ("rounding", "free")];
        let program = compile_with(&model("t_resblock"), &arch, &given).0.program;
        let tables = program.view("profile").unwrap();
        let (layers, points) = (rows(&tables, "layers"), rows(&tables, "roofline"));
        assert_eq!(points.len(), 3);
        for (layer, point) in layers.iter().zip(&points) {
            let reached = point["reached"].as_f64().unwrap();
            assert!(reached > 0.0 && reached <= 1.0, "{timing} {point}");
            let number = |key: &str| layer[key].as_f64().unwrap();
            assert_eq!(point["macs_per_cycle"], number("macs") / number("cycles"));
            let moved = ["dram0_read", "dram0_written", "dram1_read", "dram1_written"];
            let vectors = moved.iter().map(|key| number(key)).sum::<f64>() / 16.0;
            assert_eq!(point["macs_per_vector"], number("macs") / vectors);
        }
        let timeline = program.time().unwrap();
        assert_eq!(timeline.parts().len(), 3);
        assert_eq!(timeline.parts()[2].end, timeline.total());
        assert_eq!(timeline.roofline().unwrap().points.len(), 3);
        let most = |at: usize| {
            let samples = timeline.counters()[at].samples.iter();
            samples.map(|sample| sample.1 as u64).max().unwrap()
        };
        let statistics = program.view("statistics").unwrap();
        let of_layers = rows(&statistics, "layers");
        let touched = |key: &str| of_layers.iter().map(|l| l[key].as_u64().unwrap()).max().unwrap();
        assert!(most(0) > 0 && most(0) <= touched("local"));
        assert!(most(1) > 0 && most(1) <= touched("accumulators"));
    }
}

/// A program of upstream's compiler has one row, without multiplications that nobody knows.
#[test]
fn a_program_without_layers_has_one_row() {
    let name = "t_gemm_artya7100t_iso";
    let folder = root().join("compiled");
    let files: Vec<quincunx_contract::File> = ["tmodel", "tprog", "tdata"]
        .map(|ending| {
            let file = format!("{name}.{ending}");
            quincunx_contract::File::new(&file, std::fs::read(folder.join(&file)).unwrap())
        })
        .into();
    let options = options(&TARGET, &[]);
    let arch = TcuArch::preset("artya7100t").unwrap();
    let program = TARGET.read(&files, None, &arch, &options, &mut Log::default());
    let program = program.unwrap_or_else(|problems| panic!("{}", problems[0]));
    let layers = rows(&program.view("profile").unwrap(), "layers");
    assert_eq!((layers.len(), &layers[0]["cycles"]), (1, &218.into()));
    assert!(layers[0]["macs"].is_null() && layers[0]["efficiency"].is_null());
    let summary = rows(&program.view("statistics").unwrap(), "compilation");
    assert_eq!(property(&summary, "model"), name);
    assert!(property(&summary, "layers").is_null());
    assert_eq!(property(&summary, "DRAM1, vectors of all constants"), 66);
    assert_eq!(property(&summary, "aggregate latency, cycles"), 218);
}

/// The rows of upstream's summary: its figures where they do not depend on the schedule, and what
/// can be counted in the program otherwise.
#[test]
fn statistics_have_upstreams_figures() {
    let cases = golden("compiled_models.json");
    let mut compared = 0;
    for case in cases.as_array().unwrap() {
        let name = case["model"].as_str().unwrap();
        let single = case["strategy"] == "iso" && case["arch_params"]["number_of_threads"] == 1;
        if !single || !root().join(format!("models/{name}.onnx")).exists() {
            continue;
        }
        let arch = crate::common::arch(&case["arch_params"]);
        let compiled = compile_with(&model(name), &arch, &[]).0.program;
        let statistics = compiled.view("statistics").unwrap();
        let summary = rows(&statistics, "compilation");
        let is =
            |row: &str, value: &Value| assert_eq!(property(&summary, row), *value, "{name} {row}");
        is("instructions", &compiled.stats().instructions.into());
        is("true MACs", &sum(&rows(&statistics, "layers"), "macs").into());
        // Constants of repacking, of zeros behind Pad and of averages are upstream's own.
        let made = [
            "t_concat",
            "t_csp",
            "t_resize",
            "t_pad",
            "t_avgpool",
            "t_gap",
            "t_leaky",
            "t_flatten_gemm",
        ];
        let broadcast = ["t_add"];
        if !made.contains(&name) && !broadcast.contains(&name) {
            is("true scalars of constants", &case["consts_scalars"]);
            is("true MACs", &case["macs"]);
            compared += 1;
        }
        let bits = |row: &str| {
            let row = summary.iter().find(|r| r["name"] == row).unwrap();
            row["bits"].as_u64().unwrap()
        };
        let log = |depth: u64| u64::from(depth.next_power_of_two().trailing_zeros());
        assert_eq!(bits("DRAM0, vectors"), log(arch.dram0_depth));
        assert_eq!(bits("DRAM1, vectors"), log(arch.dram1_depth));
        let partitions = rows(&statistics, "partitions");
        assert_eq!(sum(&partitions, "instructions"), compiled.stats().instructions, "{name}");
        assert_eq!(sum(&partitions, "cycles"), compiled.stats().cycles.unwrap(), "{name}");
        let stages: u64 = rows(&statistics, "scheduler")
            .iter()
            .map(|layer| layer["stages"].as_u64().unwrap() * layer["partitions"].as_u64().unwrap())
            .sum();
        assert_eq!(stages, partitions.len() as u64, "{name}");
    }
    assert!(compared > 20, "only {compared} cases");
}

/// Every constant of a graph is a parameter or data, and listed once.
#[test]
fn constants_are_parameters_or_data_and_never_both() {
    let mut parameters = 0;
    for entry in std::fs::read_dir(root().join("models")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(name) = name.strip_suffix(".onnx") else { continue };
        let graph = model(name);
        for (arch, rounding) in
            [("artya7100t", "compat"), ("artya7100t", "free"), ("cmoda7", "compat")]
        {
            let arch = TcuArch::preset(arch).unwrap();
            let (compiled, log) = compile_with(&graph, &arch, &[("rounding", rounding)]);
            let listed = &compiled.program.interface().constants;
            let mut fates: BTreeMap<&str, bool> = BTreeMap::new();
            for used in listed {
                let fate = fates.insert(&used.name, used.parameter);
                assert!(fate.is_none_or(|fate| fate == used.parameter), "{name}: {}", used.name);
                assert!(!used.parameter || used.vectors == 0);
                parameters += usize::from(used.parameter);
            }
            for (_, node) in graph.nodes() {
                for value in node.operands().map(|id| &graph[id]) {
                    let Some(constant) = &value.constant else { continue };
                    let parameter = fates[value.name.as_str()];
                    let arithmetic = matches!(
                        node.op,
                        Op::Conv(_) | Op::Gemm(_) | Op::MatMul | Op::BatchNorm(_)
                    );
                    assert!(!(parameter && arithmetic), "{name}: {} is data", value.name);
                    let used = listed.iter().find(|used| used.name == value.name).unwrap();
                    assert_eq!(used.scalars, constant.tensor.len() as u64);
                }
            }
            let lines = log.dumps.iter().find(|(pass, _)| *pass == "constants").unwrap().1.lines();
            assert_eq!(lines.count(), listed.len());
        }
    }
    let graph = prelu();
    let (compiled, _) = compile_with(&graph, &TcuArch::preset("artya7100t").unwrap(), &[]);
    let listed = &compiled.program.interface().constants;
    assert!(listed.len() == 1 && listed[0].parameter && listed[0].name == "slope");
    assert_eq!(parameters, 0, "none of these models has a constant that is a parameter");
}

/// A graph with a constant that becomes a parameter.
fn prelu() -> Graph {
    use quincunx_graph::{Constant, Graph};
    let mut graph = Graph::new("g");
    let x = graph.add_input("x", quincunx_tensor::DType::F32, &[1, 4], &[]).unwrap();
    let slope = Constant::from(Tensor::from_vec(&[1], vec![0.25_f32]).unwrap());
    let slope = graph.add_constant("slope", slope).unwrap();
    let y = graph.add_node("prelu", Op::PRelu, &[Some(x), Some(slope)], "y").unwrap();
    graph.add_output(y);
    graph
}

/// A reader of the DOT language: names of nodes, and edges. Panics on anything malformed.
fn parse_dot(text: &str) -> (Vec<String>, Vec<(String, String)>) {
    let mut tokens = Vec::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => {
                let mut word = String::from("\"");
                loop {
                    match letters.next().expect("a quote is closed") {
                        '"' => break,
                        '\\' => {
                            let next = letters.next().unwrap();
                            assert!("\"\\n".contains(next), "escape {next}");
                            word.push(next);
                        }
                        '\n' => panic!("a line ends within quotes"),
                        letter => word.push(letter),
                    }
                }
                tokens.push(word);
            }
            letter if letter.is_whitespace() => {}
            '-' => {
                assert_eq!(letters.next(), Some('>'));
                tokens.push("->".to_owned());
            }
            '{' | '}' | '[' | ']' | ';' | ',' | '=' => tokens.push(letter.to_string()),
            letter => {
                let mut word = letter.to_string();
                while letters.peek().is_some_and(|l| l.is_ascii_alphanumeric() || *l == '_') {
                    word.push(letters.next().unwrap());
                }
                assert!(letter.is_ascii_alphabetic() || letter == '_', "{word}");
                tokens.push(word);
            }
        }
    }
    assert_eq!(tokens[0], "digraph");
    assert!(tokens[1].starts_with('"') && tokens[2] == "{" && tokens.last().unwrap() == "}");
    let (mut nodes, mut edges) = (Vec::new(), Vec::new());
    for statement in tokens[3..tokens.len() - 1].split(|token| token == ";") {
        match statement {
            [] => {}
            [_, equals, _] if equals == "=" => {}
            [kind, open, .., close] if open == "[" && close == "]" => {
                if kind != "node" {
                    nodes.push(kind.clone());
                }
            }
            [from, arrow, to, open, .., close] if arrow == "->" && open == "[" && close == "]" => {
                edges.push((from.clone(), to.clone()));
            }
            other => panic!("{other:?}"),
        }
    }
    (nodes, edges)
}

/// The graph of a residual block: the second layer reads the first, the third the second, and the
/// input goes to those that read it.
#[test]
fn the_graph_of_a_program_is_valid_dot() {
    let compiled = compile("t_resblock", "bench8", "compat");
    let file = compiled.program.emit("dot", "odd \"name\\").unwrap().remove(0);
    assert_eq!(file.name, "odd \"name\\.dot");
    let (nodes, edges) = parse_dot(file.text().unwrap());
    assert_eq!(nodes, ["input0", "layer0", "layer1", "layer2", "output0"]);
    let has = |from: &str, to: &str| edges.contains(&(from.to_owned(), to.to_owned()));
    assert!(has("input0", "layer0") && has("layer0", "layer1") && has("layer2", "output0"));
    assert!(has("layer1", "layer2") && has("layer0", "layer2") && edges.len() == 5);
    // Names that would end a text or a statement.
    let mut graph = Graph::new("g");
    let x = graph.add_input("x\"]; }", quincunx_tensor::DType::F32, &[1, 4], &[]).unwrap();
    let relu = Op::Unary(quincunx_graph::Unary::Relu);
    let y = graph.add_node("a\\\" -> b\n{", relu, &[Some(x)], "y<&>").unwrap();
    graph.add_output(y);
    let program = compile_with(&graph, &TcuArch::preset("bench8").unwrap(), &[]).0.program;
    let file = program.emit("dot", "g").unwrap().remove(0);
    let (nodes, edges) = parse_dot(file.text().unwrap());
    assert_eq!((nodes.len(), edges.len()), (3, 2));
}

#[test]
fn files_are_called_as_upstream_calls_them() {
    let arch = TcuArch::preset("pynqz1").unwrap();
    let stem = TARGET.file_stem("t_gemm.onnx", &arch as &dyn Arch).unwrap();
    assert_eq!(stem, "t_gemm_onnx_pynqz1");
    let compiled = compile("t_gemm", "pynqz1", "compat");
    let files = compiled.program.emit("tmodel", &stem).unwrap();
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    let wanted = ["tmodel", "tprog", "tdata"].map(|ending| format!("{stem}.{ending}"));
    assert_eq!(names, wanted);
    let description: Value = serde_json::from_slice(&files[0].bytes).unwrap();
    assert_eq!(description["name"], stem);
    assert_eq!(description["prog"]["file_name"], wanted[1]);
    assert_eq!(description["consts"][0]["file_name"], wanted[2]);
}

fn inputs(graph: &Graph, seed: u32) -> Tensors {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 8) / f64::from(1 << 23) - 1.0
    };
    let tensor = |&id: &quincunx_graph::ValueId| {
        let (name, shape) = (graph[id].name.clone(), graph[id].shape.to_vec());
        let count = shape.iter().product();
        let data: Vec<f64> = (0..count).map(|_| next()).collect();
        (name, Tensor::from_vec(&shape, data).unwrap())
    };
    graph.inputs().iter().map(tensor).collect()
}

/// Compat has no departures. Those of free are measured: what they say of the last layer is the
/// difference of the two programs' outputs, and the first one has no differences before it.
#[test]
fn departures_are_measured() {
    let arch = TcuArch::preset("artya7100t").unwrap();
    let mut seen = Vec::new();
    for name in ["t_conv_bn_relu", "t_resblock", "t_conv3_same", "t_resize", "t_concat"] {
        let graph = model(name);
        let inputs = inputs(&graph, 7);
        let run = |rounding: &str| {
            let (compiled, _) = compile_with(&graph, &arch, &[("rounding", rounding)]);
            let outputs = compiled.program.load(Engine::Exec).unwrap().run(&inputs).unwrap();
            let found = TARGET
                .prepare(&graph, &arch, &compiled.numerics)
                .unwrap()
                .departures(&inputs)
                .unwrap();
            (outputs, found)
        };
        let ((compat, none), (free, found)) = (run("compat"), run("free"));
        assert!(none.is_empty() && !found.is_empty(), "{name}");
        assert_eq!(found[0].alone, found[0].together, "{name}: {found:?}");
        assert!(found.iter().all(|departure| departure.alone.is_finite()));
        let output = &graph[graph.outputs()[0]].name;
        let pairs = compat[output].to_f64().into_iter().zip(free[output].to_f64());
        let difference = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        let most = found.iter().map(|departure| departure.together).fold(0.0, f64::max);
        assert!(difference <= 2.0 * most + 1.0 / 64.0, "{name}: {difference} {found:?}");
        seen.extend(found.into_iter().map(|departure| departure.what));
    }
    let says = |part: &str| seen.iter().any(|what| what.contains(part));
    assert!(says("folds batchnormalization") && says("weights of one element"), "{seen:?}");
}
