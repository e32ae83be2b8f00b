//! Tables and pictures of programs.

use crate::common::cases;
use crate::common::random::program;
use quincunx_contract::{ArchSource, File, Log, Options, Target, Verb};
use quincunx_dais::files;
use quincunx_dais::isa::Inst;
use quincunx_dais::program::{InputIndex, Operation, Output, Program, Slot, SlotType};
use quincunx_dais::{TARGET, text};
use quincunx_num::Kif;
use quincunx_report::{Format, Report, Table};
use quincunx_tensor::npy;
use quincunx_testkit::Random;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;

type Loaded = Box<dyn quincunx_contract::Program>;

fn read(name: &str, contents: impl Into<Vec<u8>>, given: &[(&str, &str)]) -> Loaded {
    let given: Vec<(String, String)> =
        given.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let options = Options::new(TARGET.info().options, &given).unwrap();
    let arch = TARGET.arch(&ArchSource::Default).unwrap();
    let file = File::new(name, contents.into());
    TARGET.read(&[file], None, &*arch, &options, &mut Log::default()).unwrap()
}

fn loaded(program: &Program) -> Loaded {
    read("x.dasm", text::print(program), &[])
}

/// The rows of one of the tables.
fn rows(tables: Vec<Table>, key: &str) -> Vec<Value> {
    let report = tables.into_iter().fold(Report::new(), Report::table);
    let json: Value = serde_json::from_str(&report.render(Format::Json)).unwrap();
    json[key].as_array().unwrap_or_else(|| panic!("{key} in {json}")).clone()
}

fn sum(rows: &[Value], column: &str) -> f64 {
    rows.iter().map(|row| row[column].as_f64().unwrap()).sum()
}

fn emitted(program: &Loaded, kind: &str) -> String {
    let files = program.emit(kind, "x").unwrap();
    assert_eq!(files.len(), 1);
    files[0].text().unwrap().to_owned()
}

/// With adders of one bit a unit, da4ml's recorded costs of additions are their bits.
#[test]
fn layers_add_up_to_what_da4ml_recorded() {
    for case in cases(&["traced"]) {
        let program = case.program();
        let is_adder = |o: &&Operation| matches!(o.inst, Inst::Add { .. } | Inst::Sub { .. });
        let adders: Vec<&Operation> = program.operations.iter().filter(is_adder).collect();
        let bits: f64 = adders.iter().map(|operation| operation.cost).sum();
        let rows = rows(read("x.json", case.json(), &[]).view("profile").unwrap(), "layers");
        assert_eq!(sum(&rows, "bits"), bits, "{}", case.name);
        assert_eq!(sum(&rows, "adders"), adders.len() as f64, "{}", case.name);
        assert_eq!(sum(&rows, "operations"), program.operations.len() as f64, "{}", case.name);
    }
}

/// The example network of four layers, in stages of five levels at 4 ns.
#[test]
fn layers_are_done_when_their_stages_are() {
    let case = cases(&["traced"]).into_iter().find(|c| c.name.ends_with("jet_mlp_6b")).unwrap();
    let staged = read("x.json", case.json(), &[("latency-cutoff", "5"), ("clock", "4")]);
    let layers = rows(staged.view("profile").unwrap(), "layers");
    let names: Vec<&str> = layers.iter().map(|row| row["layer"].as_str().unwrap()).collect();
    assert_eq!(names, ["inputs", "level 1", "level 2", "level 3", "level 4"]);
    for row in &layers {
        let stage = row["stage"].as_f64().unwrap();
        assert_eq!(row["done"].as_f64().unwrap(), (stage + 1.0) * 4.0);
    }
    assert_eq!(layers[4]["stage"].as_f64(), Some(4.0));
    let stages = rows(staged.view("profile").unwrap(), "stages");
    assert_eq!(sum(&stages, "adders"), 2639.0);
    assert!(stages.iter().all(|row| row["latency"].as_f64().unwrap() <= 5.0));
    let timeline = staged.time().unwrap();
    assert_eq!((timeline.total(), timeline.seconds()), (5, Some(20e-9)));
}

/// Digits of the canonical form, by the textbook: no two neighbours, from the bottom up.
fn digits(mut value: i64) -> u64 {
    let mut count = 0;
    while value != 0 {
        if value % 2 != 0 {
            let digit = if value.rem_euclid(4) == 3 { -1 } else { 1 };
            value -= digit;
            count += 1;
        }
        value /= 2;
    }
    count
}

/// da4ml's two-stage solutions of constant matrices cost what their matrices say when nothing is
/// shared, whatever was shared in them.
#[test]
fn unshared_adders_are_those_of_the_matrix() {
    let Some(folder) = shared("golden/dais/cmvm") else { return };
    let mut count = 0;
    for name in crate::common::names(&folder) {
        let Some(stem) = name.strip_suffix(".default.pipeline.json") else { continue };
        let tensor = npy::read_npy(std::fs::read(folder.join(format!("{stem}.npy"))).unwrap());
        let tensor = tensor.unwrap();
        let (columns, matrix) = (tensor.shape()[1], tensor.to_i64().unwrap());
        let column = |j: usize| matrix.iter().skip(j).step_by(columns).map(|&v| digits(v));
        // A column like an earlier one, shifted or negated, is an output of the same sum.
        let mut sums: BTreeSet<Vec<i64>> = BTreeSet::new();
        let mut adders = 0;
        for j in 0..columns {
            let values: Vec<i64> = matrix.iter().skip(j).step_by(columns).copied().collect();
            let shift = values.iter().filter(|v| **v != 0).map(|v| v.trailing_zeros()).min();
            let sign = values.iter().find(|v| **v != 0).map_or(1, |v| v.signum());
            let form = values.iter().map(|v| sign * (v >> shift.unwrap_or(0))).collect();
            if sums.insert(form) {
                adders += column(j).sum::<u64>().saturating_sub(1);
            }
        }
        let json = std::fs::read(folder.join(&name)).unwrap();
        // A row of zeros shifts its input too far to be legal.
        let Ok(profile) = read(&name, json, &[]).view("profile") else { continue };
        let rows = rows(profile, "layers");
        assert_eq!(sum(&rows, "csd_adders"), adders as f64, "{name}");
        assert!(sum(&rows, "adders") <= adders as f64, "{name}");
        count += 1;
    }
    assert!(count > 3, "{count}");
}

/// A folder of the shared golden data, if it is there.
fn shared(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("QUINCUNX_SHARED").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    Some(root.join(name)).filter(|folder| folder.is_dir())
}

fn operation(inst: Inst, width: i32) -> Operation {
    let slot_type = SlotType::Kif(Kif::new(true, width - 1, 0));
    Operation { inst, slot_type, latency: 0.0, cost: 0.0 }
}

/// `3a + 5b`, and three times that again behind a quantiser.
#[test]
fn views_have_names() {
    let program = read("x.json", cases(&["traced"])[0].json(), &[]);
    let problem = program.view("profil").unwrap_err();
    assert_eq!((problem.code(), problem.help_text()), ("Q0508", Some("did you mean \"profile\"?")));
    for view in program.views().iter().filter(|view| view.verb != Verb::Synth) {
        assert!(!program.view(view.name).unwrap().is_empty(), "{}", view.name);
    }
}

#[test]
fn levels_by_hand() {
    let [a, b] = [Slot(0), Slot(1)];
    let operations = vec![
        operation(Inst::Input { source: InputIndex(0) }, 4),
        operation(Inst::Input { source: InputIndex(1) }, 4),
        operation(Inst::Add { a, b, shift: 0 }, 5),
        operation(Inst::Add { a: Slot(2), b: Slot(2), shift: 1 }, 7),
        operation(Inst::Add { a: Slot(3), b, shift: 1 }, 8),
        operation(Inst::Quantise { x: Slot(4) }, 6),
        operation(Inst::Add { a: Slot(5), b: Slot(5), shift: 1 }, 8),
    ];
    let outputs = vec![Output { source: Some(Slot(6)), shift: 0, negate: false }];
    let program = Program { input_shifts: vec![0; 2], operations, outputs, ..Program::default() };
    let rows = rows(loaded(&program).view("profile").unwrap(), "layers");
    let column =
        |name: &str| -> Vec<f64> { rows.iter().map(|row| row[name].as_f64().unwrap()).collect() };
    // 3 and 5 have two digits each.
    assert_eq!(column("adders"), [0.0, 3.0, 1.0]);
    assert_eq!(column("csd_adders"), [0.0, 3.0, 1.0]);
    assert_eq!(column("depth"), [0.0, 3.0, 1.0]);
    assert_eq!(column("csd_depth"), [0.0, 2.0, 1.0]);
    assert_eq!(column("operations"), [2.0, 4.0, 1.0]);
    // Without recorded latencies those of the model: one per adder.
    assert_eq!(column("latency"), [0.0, 3.0, 4.0]);
}

#[test]
fn widths_and_operations_are_counted() {
    let case = cases(&["traced"]).into_iter().find(|c| c.name.ends_with("misc_ops")).unwrap();
    let program = case.program();
    let loaded = read("x.json", case.json(), &[]);
    let widths = rows(loaded.view("statistics").unwrap(), "widths");
    for row in &widths {
        let width = row["width"].as_u64().unwrap();
        let is_that = |o: &&Operation| u64::from(o.slot_type.kif().width()) == width;
        let expected = program.operations.iter().filter(is_that).count();
        assert_eq!(row["operations"].as_u64(), Some(expected as u64), "{width}");
    }
    assert_eq!(sum(&widths, "operations"), program.operations.len() as f64);
    let kinds = rows(loaded.view("statistics").unwrap(), "operations");
    let mux = kinds.iter().find(|row| row["instruction"] == "mux").unwrap();
    assert_eq!(mux["operations"].as_u64(), Some(77));
}

/// Every tag is closed by its own name.
fn check_markup(svg: &str) {
    let mut open = Vec::new();
    for part in svg.split('<').skip(1) {
        let (tag, _) = part.split_once('>').unwrap();
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None if tag.ends_with('/') => {}
            None => open.push(tag.split(' ').next().unwrap()),
        }
    }
    assert!(open.is_empty(), "{open:?}");
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
}

/// Edges lead from and to what is declared.
fn check_dot(dot: &str) -> (usize, usize) {
    let nodes: BTreeSet<&str> = dot
        .lines()
        .filter(|line| line.contains("[label=") && !line.contains("->"))
        .map(|line| line.split_whitespace().next().unwrap())
        .collect();
    let edges: Vec<&str> = dot.lines().filter(|line| line.contains(" -> ")).collect();
    for edge in &edges {
        let mut ends = edge.trim().trim_end_matches(';').split(" -> ");
        let ends = [ends.next().unwrap(), ends.next().unwrap().split(' ').next().unwrap()];
        assert!(ends.iter().all(|end| nodes.contains(end)), "{edge}");
    }
    (nodes.len(), edges.len())
}

#[test]
fn small_programs_are_drawn_operation_by_operation() {
    let case = cases(&["traced"]).into_iter().find(|c| c.name.ends_with("tiny_mlp_4b")).unwrap();
    let program = case.program();
    let operands: BTreeSet<(usize, u32)> = (program.operations.iter().enumerate())
        .flat_map(|(index, o)| o.inst.operands().map(move |slot| (index, slot.0)))
        .collect();
    for given in [&[][..], &[("latency-cutoff", "2")]] {
        let loaded = read("x.json", case.json(), given);
        let (nodes, edges) = check_dot(&emitted(&loaded, "dot"));
        // All outputs are one node.
        assert_eq!(nodes, program.operations.len() + 1);
        assert_eq!(edges, operands.len() + 3);
        let svg = emitted(&loaded, "svg");
        check_markup(&svg);
        // One for every item, and that of the picture.
        assert_eq!(svg.matches("<title>").count(), program.operations.len() + 2);
        assert_eq!(svg.matches("<path").count(), edges);
        // What registers hold is dashed, and stages are frames.
        assert_eq!(svg.contains("stroke-dasharray"), !given.is_empty());
        assert_eq!(emitted(&loaded, "dot").contains("cluster_1"), !given.is_empty());
    }
}

#[test]
fn random_programs_have_pictures_and_tables() {
    for seed in 0..60 {
        let mut random = Random::new(seed + 400);
        let length = 1 + random.below(80) as usize;
        let loaded = loaded(&program(&mut random, length));
        check_markup(&emitted(&loaded, "svg"));
        check_dot(&emitted(&loaded, "dot"));
        let layers = rows(loaded.view("profile").unwrap(), "layers");
        assert_eq!(sum(&layers, "operations"), length as f64, "seed {seed}");
    }
}

/// Adders and quantisers by turns: as many levels of logic as there are quantisers.
fn chain(length: u32, every: u32) -> Program {
    let mut operations = vec![operation(Inst::Input { source: InputIndex(0) }, 8)];
    for index in 1..length {
        let x = Slot(index - 1);
        operations.push(match index % every {
            0 => operation(Inst::Quantise { x }, 8),
            _ => operation(Inst::Add { a: x, b: Slot(index / 2), shift: 0 }, 9),
        });
    }
    let outputs = vec![Output { source: Some(Slot(length - 1)), shift: 0, negate: false }];
    Program { input_shifts: vec![0], operations, outputs, ..Program::default() }
}

#[test]
fn large_programs_stay_readable() {
    for (length, every) in [(10_000, 2), (10_000, 50), (60_000, 2), (60_000, 7000)] {
        let loaded = loaded(&chain(length, every));
        let svg = emitted(&loaded, "svg");
        check_markup(&svg);
        let dot = emitted(&loaded, "dot");
        let (nodes, _) = check_dot(&dot);
        assert!(nodes < 700 && nodes > 2, "{length} {every}: {nodes}");
        assert!(svg.len() < 1_000_000 && dot.len() < 200_000, "{length} {every}");
        assert!(svg.contains("operations of a kind together"));
        assert!(!loaded.view("profile").unwrap().is_empty());
    }
    // As wide as it is long, each one drawn.
    let program = program(&mut Random::new(3), 3900);
    check_markup(&emitted(&loaded(&program), "svg"));
}

#[test]
fn pipelines_of_da4ml_have_views() {
    for case in cases(&["traced"]) {
        for (name, json) in case.pipelines() {
            let stages = files::read_json(&json, false).unwrap().pipeline.stages;
            let loaded = read(&name, json, &[]);
            check_markup(&emitted(&loaded, "svg"));
            let rows = rows(loaded.view("profile").unwrap(), "stages");
            assert_eq!(rows.len(), stages.len(), "{name}");
            // Behind the last rank of inputs: the registers of the manifest.
            let inputs = if name.starts_with("jet") { 160.0 } else { 40.0 };
            let all = if name.starts_with("jet") { 5240.0 } else { 239.0 };
            assert_eq!(sum(&rows, "register_bits") + inputs, all, "{name}");
        }
    }
}
