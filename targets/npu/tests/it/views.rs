//! Views: what they say follows from the lines, their tokens and their cycles, computed here once more
//! in the plainest way.

use crate::common::networks::{Size, network};
use crate::common::{Random, arch, fragment, fragments, parse};
use crate::compiled::{compile, machines, several_cores};
use quincunx_contract::{File, Log};
use quincunx_npu::isa::Queue;
use quincunx_npu::program::Program;
use quincunx_npu::time::{Model, durations};
use quincunx_npu::work::{Access, Memory, Work, accesses, products, resolve};
use quincunx_npu::{Artifact, NpuArch, TARGET};
use quincunx_report::Table;
use quincunx_testkit::options;
use quincunx_timeline::MemoryMap;
use serde_json::Value;
use std::collections::BTreeMap;

type Case = (String, NpuArch, Box<dyn quincunx_contract::Program>);

/// Fragments that run, and compiled networks.
fn cases() -> Vec<Case> {
    use quincunx_contract::Target as _;
    let read = |stem: String| {
        let file = File::new(format!("{stem}.asm.txt"), fragment(&stem));
        let options = options(&TARGET, &[]);
        let program = TARGET.read(&[file], None, &arch(), &options, &mut Log::default()).unwrap();
        (stem, arch(), program)
    };
    let runs = |stem: &String| stem.starts_with('f');
    let mut cases: Vec<Case> = fragments().into_iter().filter(runs).map(read).collect();
    for seed in 3000..3008 {
        for machine in machines().into_iter().chain([several_cores(2)]) {
            let network = network(&mut Random::new(seed), Size::SMALL);
            let compiled = compile(&network.graph, &machine);
            let name = format!("{seed} on {}", machine.name);
            cases.extend(compiled.map(|compiled| (name, machine, compiled.program)));
        }
    }
    assert!(cases.len() > 30, "{}", cases.len());
    cases
}

fn programs(program: &dyn quincunx_contract::Program) -> &[Program] {
    program.as_any().downcast_ref::<Artifact>().unwrap().programs()
}

/// The rows of a view.
fn rows(program: &dyn quincunx_contract::Program, view: &str) -> Vec<Value> {
    let tables: Vec<Table> = program.view(view).unwrap();
    let rows = tables.iter().map(|table| serde_json::to_value(table).unwrap());
    rows.flat_map(|rows| rows.as_array().unwrap().clone()).collect()
}

fn number(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or_else(|| panic!("{key} of {row}"))
}

/// For every line which lines must have ended before: the one before it in its queue, and of each
/// queue it waits for the line that gave as many tokens as it takes. One task only.
fn before(program: &Program) -> Vec<Vec<usize>> {
    let mut last: BTreeMap<Queue, usize> = BTreeMap::new();
    let mut given: BTreeMap<(Queue, Queue), Vec<usize>> = BTreeMap::new();
    for (line, inst) in program.instructions().enumerate() {
        for to in inst.tokens().unwrap_or_default().1.iter() {
            given.entry((inst.queue(), to)).or_default().push(line);
        }
    }
    let mut taken: BTreeMap<(Queue, Queue), usize> = BTreeMap::new();
    let mut all = Vec::new();
    for (line, inst) in program.instructions().enumerate() {
        let mut list: Vec<usize> = last.insert(inst.queue(), line).into_iter().collect();
        for from in inst.tokens().unwrap_or_default().0.iter() {
            let count = taken.entry((from, inst.queue())).or_default();
            list.push(given[&(from, inst.queue())][*count]);
            *count += 1;
        }
        all.push(list);
    }
    all
}

/// The end of every line, by as many rounds as it takes.
fn ends(before: &[Vec<usize>], cycles: &[u64]) -> Vec<u64> {
    let mut ends = vec![0; cycles.len()];
    loop {
        let old = ends.clone();
        for (line, list) in before.iter().enumerate() {
            let start = list.iter().map(|&earlier| ends[earlier]).max().unwrap_or(0);
            ends[line] = start + cycles[line];
        }
        if old == ends {
            return ends;
        }
    }
}

#[test]
fn lines_start_when_what_held_them_ends() {
    let mut kinds = std::collections::BTreeSet::new();
    for (name, machine, program) in cases() {
        let lines = programs(&*program);
        let [lines] = lines else { continue };
        let (before, work) = (before(lines), resolve(lines));
        let cycles = durations(lines, &work, &machine, Model::UPSTREAM);
        let ends = ends(&before, &cycles);
        let rows = rows(&*program, "starts");
        assert_eq!(rows.len(), lines.lines.len(), "{name}");
        for (line, row) in rows.iter().enumerate() {
            assert_eq!(number(row, "line"), line as u64 + 1, "{name}");
            assert_eq!(number(row, "cycles"), cycles[line], "{name} {row}");
            assert_eq!(number(row, "start") + cycles[line], ends[line], "{name} {row}");
            assert_eq!(row["held_by"].is_null(), number(row, "start") == 0, "{name} {row}");
            let Some(kind) = row["held_by"].as_str() else { continue };
            let holder = number(row, "of_line") as usize - 1;
            assert_eq!(ends[holder], number(row, "start"), "{name} {row}");
            assert!(before[line].contains(&holder), "{name} {row}");
            // A queue can also wait for tokens of its own.
            assert!(kind == "token" || row["queue"] == row["of_queue"], "{name} {row}");
            kinds.insert(kind.to_owned());
        }
    }
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["queue", "token"]);
}

/// From the line that ends last the reasons lead back to time 0, and their cycles are all there are.
#[test]
fn reasons_lead_back_to_the_start() {
    let mut crossings = 0;
    for (name, _, program) in cases() {
        let rows = rows(&*program, "starts");
        let key = |row: &Value| (number(row, "core"), number(row, "line"));
        let known: BTreeMap<(u64, u64), &Value> = rows.iter().map(|row| (key(row), row)).collect();
        let end = |row: &Value| number(row, "start") + number(row, "cycles");
        let mut row = rows.iter().max_by_key(|row| end(row)).unwrap();
        assert_eq!(Some(end(row)), program.stats().cycles, "{name}");
        let mut sum = number(row, "cycles");
        while !row["held_by"].is_null() {
            let holder = known[&(number(row, "of_core"), number(row, "of_line"))];
            assert_eq!(end(holder), number(row, "start"), "{name}");
            crossings += u64::from(holder["core"] != row["core"]);
            row = holder;
            sum += number(row, "cycles");
        }
        assert_eq!((number(row, "start"), Some(sum)), (0, program.stats().cycles), "{name}");
    }
    assert!(crossings > 0, "cores wait for weights that others load");
}

/// Two tasks one after the other, and two cores at one DRAM port: there are no tokens between them.
#[test]
fn tasks_and_the_port_hold_lines_too() {
    use quincunx_contract::Target as _;
    let text = fragment("f02_load_quantise_store");
    let file = |name: &str, text: Vec<u8>| File::new(name, text);
    let read = |files: &[File], timing: &str, machine: &NpuArch| {
        let options = options(&TARGET, &[("timing", timing)]);
        TARGET.read(files, None, machine, &options, &mut Log::default()).unwrap()
    };
    let twice = read(&[file("a.asm.txt", [&text[..], &text].concat())], "upstream", &arch());
    let held = |program: &dyn quincunx_contract::Program, kind: &str| {
        let rows = rows(program, "starts").into_iter();
        rows.filter(|row| row["held_by"] == kind).collect::<Vec<_>>()
    };
    let count = parse(&text).lines.len() as u64;
    let tasks = held(&*twice, "task");
    assert!(!tasks.is_empty());
    let half = twice.stats().cycles.unwrap() / 2;
    for row in tasks {
        assert_eq!((number(&row, "start"), number(&row, "of_line")), (half, count));
    }
    let path = twice.time().unwrap().critical_path();
    assert!(path.iter().any(|step| step.reason == "task"));
    assert_eq!(path.iter().filter(|step| step.reason == "start").count(), 1);
    let both = [file("a.core00.asm.txt", text.clone()), file("a.core01.asm.txt", text)];
    let two = read(&both, "physical", &several_cores(2));
    let waiting = held(&*two, "DRAM port");
    assert!(!waiting.is_empty());
    assert!(waiting.iter().any(|row| row["core"] != row["of_core"]));
    assert!(held(&*read(&both, "upstream", &several_cores(2)), "DRAM port").is_empty());
}

#[test]
fn what_takes_no_time_bounds_the_total() {
    for (name, machine, program) in cases() {
        let total = program.stats().cycles.unwrap();
        let bounds: BTreeMap<String, u64> = rows(&*program, "bounds")
            .iter()
            .map(|row| {
                assert_eq!(number(row, "saved") + number(row, "cycles"), total, "{name} {row}");
                (row["free"].as_str().unwrap().to_owned(), number(row, "cycles"))
            })
            .collect();
        assert_eq!((bounds.len(), bounds["nothing"]), (6, total), "{name}");
        let [lines] = programs(&*program) else { continue };
        let (before, work) = (before(lines), resolve(lines));
        let cycles = durations(lines, &work, &machine, Model::UPSTREAM);
        for (part, bound) in bounds {
            let is_free = |line: usize| match &*part {
                "DRAM" => work[line].as_ref().is_ok_and(Work::uses_dram),
                "configuration" => lines.lines[line].inst.mnemonic().contains("_cfg"),
                queue => lines.lines[line].inst.queue().name() == queue,
            };
            let cycles = cycles.iter().enumerate();
            let left: Vec<u64> =
                cycles.map(|(line, &cycles)| if is_free(line) { 0 } else { cycles }).collect();
            let end = ends(&before, &left).into_iter().max().unwrap();
            assert_eq!(end, bound, "{name} without {part}");
        }
    }
}

/// A single port with several cores keeps its order, so that nothing becomes slower.
#[test]
fn bounds_hold_at_one_port() {
    use quincunx_contract::{Compiler as _, Target as _};
    let options = options(&TARGET, &[("timing", "physical"), ("effort", "fast")]);
    let mut batches = 0;
    for seed in 3100..3110 {
        let network = network(&mut Random::new(seed), Size::SMALL);
        let Ok(compiled) =
            TARGET.compile(&network.graph, &several_cores(2), &options, &mut Log::default())
        else {
            continue;
        };
        assert_eq!(TARGET.info().name, "npu");
        let program = compiled.program;
        batches += usize::from(programs(&*program).len() > 1);
        let total = program.stats().cycles.unwrap();
        let bounds = rows(&*program, "bounds");
        assert_eq!(number(&bounds[0], "cycles"), total);
        assert!(bounds.iter().all(|row| number(row, "cycles") <= total), "{bounds:?}");
        let critical: u64 = rows(&*program, "layers").iter().map(|r| number(r, "critical")).sum();
        assert!(critical <= total);
    }
    assert!(batches > 2, "{batches}");
}

/// Where a batch is computed in groups of images, the cycles of a layer are those of all groups
/// together, and what lies between them is not; the layer has a section in every group.
#[test]
fn layers_are_computed_in_groups() {
    let mut several = 0;
    for (name, machine, program) in cases() {
        let sections = &program.interface().sections;
        if sections.is_empty() {
            continue;
        }
        let mut cycles: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for (core, file) in program.emit("trace", "net").unwrap().iter().enumerate() {
            let traced = parse(&file.bytes);
            let work = resolve(&traced);
            let computes =
                |line: &usize| matches!(work[*line], Ok(Work::Conv(_) | Work::Vector(_)));
            let layer = |line: usize| traced.lines[line].map.as_ref().unwrap().slyr;
            let lines: Vec<usize> = (0..traced.lines.len()).filter(computes).collect();
            for group in lines.chunk_by(|&a, &b| layer(a) == layer(b)) {
                let times = || group.iter().map(|&line| traced.lines[line].time.unwrap());
                let span =
                    times().map(|t| t.1).max().unwrap() - times().map(|t| t.0).min().unwrap();
                *cycles.entry((core as u64, layer(group[0]) as u64)).or_default() += span;
            }
            if core > 0 {
                continue;
            }
            let named: Vec<i32> = sections.iter().map(|section| layer(section.first)).collect();
            several += usize::from((1..named.len()).any(|at| named[..at].contains(&named[at])));
            for &line in lines.iter().filter(|&&line| named.contains(&layer(line))) {
                let section = sections.partition_point(|section| section.first <= line) - 1;
                assert_eq!(named[section], layer(line), "{name} on {}: line {line}", machine.name);
            }
        }
        let rows = rows(&*program, "layers");
        let found = rows
            .iter()
            .map(|row| ((number(row, "core"), number(row, "layer")), number(row, "cycles")));
        assert_eq!(found.collect::<BTreeMap<_, _>>(), cycles, "{name}");
    }
    assert!(several > 3, "{several}");
}

/// Sums over layers are those over lines.
#[test]
fn layers_add_up() {
    let mut paths = std::collections::BTreeSet::new();
    for (name, machine, program) in cases() {
        let total = program.stats().cycles.unwrap();
        let figure = |name: &str| -> u64 {
            let figures = program.stats().figures;
            figures.iter().find(|(known, _)| *known == name).unwrap().1.parse().unwrap()
        };
        let (layers, tiles) = (rows(&*program, "layers"), rows(&*program, "tiles"));
        let sum = |rows: &[Value], key: &str| rows.iter().map(|row| number(row, key)).sum::<u64>();
        let (mut lines, mut expected) = (0, 0);
        for program in programs(&*program) {
            for work in resolve(program).iter().flatten() {
                lines += u64::from(matches!(work, Work::Conv(_) | Work::Vector(_)));
                expected += if let Work::Conv(conv) = work { products(conv) } else { 0 };
            }
        }
        assert_eq!((sum(&layers, "lines"), sum(&layers, "multiplications")), (lines, expected));
        assert_eq!(expected, figure("multiplications"), "{name}");
        assert_eq!(sum(&tiles, "read") + sum(&tiles, "written"), figure("DRAM bytes"), "{name}");
        assert!(sum(&layers, "critical") <= total, "{name}");
        for row in &layers {
            assert_eq!(row["bound"] == "waiting", number(row, "critical") == 0, "{name} {row}");
            assert!(row["utilisation"].as_f64().unwrap() <= 1.0, "{name} {row}");
        }
        for row in &tiles {
            let ways = row["weights"].as_str().unwrap().split(", ");
            paths.extend(ways.filter_map(|way| way.split(' ').next()).map(str::to_owned));
        }
        let timeline = program.time().unwrap();
        let roofline = timeline.roofline().unwrap();
        let cores = programs(&*program).len() as f64;
        assert_eq!(roofline.peak, f64::from(machine.rows * machine.columns * 64) * cores);
        assert!(roofline.points.iter().all(|point| point.rate <= roofline.peak), "{name}");
        assert_eq!(roofline.points.is_empty(), expected == 0, "{name}");
    }
    assert_eq!(paths.into_iter().collect::<Vec<_>>(), ["", "L2", "core", "direct", "resident"]);
}

/// The way of weights and the cut, as the fragment was written.
#[test]
fn tiles_of_a_fragment() {
    let (_, _, program) =
        cases().into_iter().find(|case| case.0 == "f05_streamed_weights_4_tiles").unwrap();
    let tiles = rows(&*program, "tiles");
    let work = resolve(&programs(&*program)[0]);
    let conv = work.iter().flatten().find_map(|work| match work {
        Work::Conv(conv) => Some(*conv),
        _ => None,
    });
    let tile = conv.unwrap().tile.map(|extent| extent.to_string()).join("x");
    let [row] = &tiles[..] else { panic!("{tiles:?}") };
    assert_eq!((&row["tile"], &row["weights"]), (&Value::from(tile), &Value::from("L2")));
    assert_eq!(row["y_cut"], conv.unwrap().y_cut.name());
}

/// What a line reads lies in blocks that live until it has ended, what it writes in blocks that live
/// since it started.
#[test]
fn every_access_lies_in_a_block() {
    let mut checked = 0;
    for (name, machine, program) in cases() {
        let timeline = program.time().unwrap();
        let [lines] = programs(&*program) else { continue };
        if name.contains("two_regions") {
            continue;
        }
        let times: Vec<(u64, u64)> = rows(&*program, "starts")
            .iter()
            .map(|row| (number(row, "start"), number(row, "start") + number(row, "cycles")))
            .collect();
        let map = |wanted: &str| timeline.memories().iter().find(|map| map.name == wanted);
        let all: Vec<(usize, Access)> = resolve(lines)
            .iter()
            .enumerate()
            .flat_map(|(line, work)| {
                let list = work.as_ref().map_or(Vec::new(), |work| accesses(work, &machine));
                list.into_iter().map(move |access| (line, access))
            })
            .collect();
        for (line, access) in &all {
            let map: &MemoryMap = match access.memory {
                Memory::L2(0) => map("L2").unwrap(),
                Memory::Wl0 => map("WL0").unwrap(),
                _ => continue,
            };
            let holds = |access: &Access, byte: i64| {
                let size = map.size as i64;
                let (start, end) = (access.span.start, access.span.end);
                [byte, byte - size, byte + size].iter().any(|byte| (start..end).contains(byte))
            };
            for byte in [access.span.start, access.span.end - 1] {
                let byte = byte.rem_euclid(map.size as i64);
                let writes = |(_, other): &&(usize, Access)| {
                    other.write && other.memory == access.memory && holds(other, byte)
                };
                let (start, end) = times[*line];
                // Some fragments read what no line wrote, as do all that read the padding of
                // pixels. Slices of channels count as all of them.
                let is_before = |(by, _): &(usize, Access)| by == line || times[*by].1 <= start;
                let is_sliced = |(_, other): &(usize, Access)| other.span.slice.is_some();
                let writers: Vec<_> = all.iter().filter(writes).cloned().collect();
                if !writers.iter().any(is_before) || writers.iter().any(is_sliced) {
                    continue;
                }
                checked += 1;
                let lives = map.blocks.iter().any(|block| {
                    let inside = (block.bytes.0..block.bytes.1).contains(&(byte as u64));
                    inside && block.time.0 <= start && end <= block.time.1
                });
                assert!(lives, "{name}: line {} byte {byte}", line + 1);
            }
        }
        for map in timeline.memories() {
            for block in &map.blocks {
                assert!(block.bytes.0 < block.bytes.1 && block.bytes.1 <= map.size, "{block:?}");
                assert!(block.time.0 <= block.time.1 && block.time.1 <= timeline.total());
            }
        }
    }
    assert!(checked > 1000, "{checked}");
}

/// Names come from the model.
#[test]
fn blocks_have_the_names_of_layers() {
    let network = network(&mut Random::new(3000), Size::SMALL);
    let program = compile(&network.graph, &arch()).unwrap().program;
    let names: Vec<String> =
        program.interface().sections.iter().map(|section| section.name.clone()).collect();
    let timeline = program.time().unwrap();
    let blocks = timeline.memories().iter().flat_map(|map| &map.blocks);
    let mut found: Vec<&str> = blocks.map(|block| &*block.name).collect();
    found.sort_unstable();
    found.dedup();
    let named = found.iter().filter(|name| names.iter().any(|known| name.starts_with(known)));
    assert!(named.count() >= 2, "{found:?} {names:?}");
}
