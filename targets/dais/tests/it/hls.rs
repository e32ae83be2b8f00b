//! Generated C++ with the vendors' types, whose headers the PyPI package da4ml ships: compiled by
//! g++, its testbenches give what the simulators give. SYCL is replaced by a few lines, since only a
//! vendor's compiler has it.

use crate::common::random::{program, wide_program};
use crate::common::{cases, root};
use crate::peers::folder;
use quincunx_contract::{Grid, Interface, Port};
use quincunx_dais::files::Pipeline;
use quincunx_dais::hls::{Flavour, MAX_WIDTH, emit, emit_with_samples};
use quincunx_dais::rtl::{Samples, Settings};
use quincunx_dais::simulate::{Executor, Fast, overflows};
use quincunx_dais::{Cutoff, text, to_pipeline};
use quincunx_diag::SourceId;
use quincunx_num::{Dyadic, Int};
use quincunx_testkit::Random;
use std::fmt::Write as _;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Vectors of every program.
const VECTORS: usize = 10_000;

/// Finds the folders of headers without importing anything.
const FIND: &str = "
import importlib.util, pathlib
spec = importlib.util.find_spec('da4ml')
for place in spec.submodule_search_locations if spec else []:
    for name in ('ap_fixed.h', 'ac_fixed.h'):
        for file in sorted(pathlib.Path(place).rglob(name))[:1]:
            print(file.parent)
";

/// The folders of headers, if they and g++ are there; missing ones are a failure if tools are
/// required.
fn includes() -> Option<Vec<String>> {
    let python = std::env::var("QUINCUNX_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let found = Command::new(&python).args(["-c", FIND]).output();
    let found = found.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let folders: Vec<String> = found.unwrap_or_default().lines().map(str::to_owned).collect();
    let compiler = Command::new("g++").arg("--version").output().is_ok();
    let required = std::env::var("QUINCUNX_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
    let present = compiler && folders.len() == 2;
    assert!(present || !required, "g++ or the headers of da4ml in {python} are missing");
    present.then_some(folders)
}

/// A program with its vectors.
struct Bench {
    name: String,
    pipeline: Pipeline,
    samples: Samples,
}

impl Bench {
    /// Random inputs with what the executor makes of them; `None` where it has results for too few.
    fn random(name: String, pipeline: Pipeline, random: &mut Random) -> Option<Bench> {
        let mut executors: Vec<Executor> =
            pipeline.stages.iter().map(|stage| Executor::new(stage).unwrap()).collect();
        let mut samples = Samples::default();
        for _ in 0..2 * VECTORS {
            let inputs = inputs(&pipeline, random);
            let (mut values, mut fits) = (inputs.clone(), true);
            for executor in &mut executors {
                let observe = &mut |_: usize, operation: &_, value: &mut Int| {
                    fits &= !overflows(operation, value);
                };
                values = executor.run_exact(values, observe).ok()?;
            }
            if fits {
                samples.inputs.push(inputs);
                samples.outputs.push(values);
            }
            if samples.inputs.len() == VECTORS {
                return Some(Bench { name, pipeline, samples });
            }
        }
        None
    }

    /// The same by the prepared simulator, for larger programs, of which results are proved to fit.
    fn prepared(name: String, pipeline: Pipeline, random: &mut Random) -> Bench {
        let inputs: Vec<Vec<Dyadic>> = (0..VECTORS).map(|_| inputs(&pipeline, random)).collect();
        let flat: Vec<f64> = inputs.iter().flatten().map(Dyadic::to_f64).collect();
        let fast = Fast::new(&pipeline).unwrap().unwrap();
        let results = fast.run(VECTORS, &flat, NonZeroUsize::MIN).unwrap();
        let width = results.len() / VECTORS;
        let exact = |row: &[f64]| row.iter().map(|x| Dyadic::from_f64(*x).unwrap()).collect();
        let outputs = results.chunks_exact(width).map(exact).collect();
        Bench { name, pipeline, samples: Samples { inputs, outputs } }
    }

    fn emit(&self, flavour: Flavour, folder: &Path) {
        let Bench { name, pipeline, samples } = self;
        let (interface, settings) = (interface(pipeline), Settings::default());
        let files = emit_with_samples(pipeline, &interface, flavour, &settings, name, samples);
        for file in files.unwrap_or_else(|problem| panic!("{name}: {problem}")) {
            fs::write(folder.join(&file.name), &file.bytes).unwrap();
        }
    }
}

/// Numbers with random bits in and around the types of the inputs.
fn inputs(pipeline: &Pipeline, random: &mut Random) -> Vec<Dyadic> {
    let count = pipeline.stages[0].ends().0;
    let number = |random: &mut Random| {
        let bits = random.below(1 << 24) as i64 - (1 << 23);
        Dyadic::new(Int::from(bits >> random.below(24)), random.range(-12, 4))
    };
    (0..count).map(|_| number(random)).collect()
}

fn interface(pipeline: &Pipeline) -> Interface {
    let port =
        |name: &str, count| Port { name: name.to_owned(), shape: vec![count], grid: Grid::Real };
    let (first, last) = (pipeline.stages.first().unwrap(), pipeline.stages.last().unwrap());
    Interface {
        inputs: vec![port("in", first.ends().0)],
        outputs: vec![port("out", last.ends().1)],
        ..Interface::default()
    }
}

/// A program whose arrays, types and tables are at the ends of what there is: signed types of one
/// bit, types without bits, more than 64 bits, a table read at its ends, registers.
const ODD: [&str; 5] = [
    ".dais\n.inputs 4\n.input 1 << 3\n.table 0\n.values 7, -1, 0, 5
%0 = input 0 : (1, 0, 0)\n%1 = input 1 : (1, 90, 10)\n%2 = input 2 : (0, -2, 5)
%3 = const 0 : (0, 0, 0)\n%4 = mul %1, %1 : (1, 181, 20)\n%5 = mux %0, %1, %2 : (1, 90, 10)
%6 = relu -%0 : (0, 1, 0)\n%7 = quantise %1 : (1, 90, -80)\n%8 = mul %3, %1 : (0, 0, 0)
%9 = bits.all %0 : (0, 1, 0)\n%10 = mux %3, %0, %2 : (1, 0, 5)\n%11 = quantise %2 : (0, -2, 4)
%12 = lookup %11, table 0 : (1, 3, 0)\n%13 = bits.all %3 : (0, 1, 0)\n%14 = bits.not %3 : (1, 0, 0)
%15 = relu %2 : (1, -3, 3)\n%16 = mux %0, %2, -%15 : (1, -5, 5)\n%17 = quantise -%2 : (1, -5, 5)
out -%4 << -30\nout zero\nout -%3\nout %5\nout -%6\nout %7\nout %8\nout %9\nout %10\nout -%0
out %12\nout %13\nout %14\nout %16\nout -%17\n",
    ".dais\n.inputs 2
%0 = input 0 : (1, 3, 0)\n%1 = const 0 : (0, 0, 0)\n%2 = input 1 : (1, 3, 0)
%3 = add %0, %2 : (1, 4, 0)\nout %1\nout -%3 << 3\nout %3
.stage\n.inputs 3
%0 = input 0 : (1, 3, 0)\n%1 = input 1 : (1, 9, -3)\n%2 = input 2 : (1, 4, 1)
%3 = add %0, %1 : (1, 10, 0)\n%4 = add %3, %2 : (1, 11, 1)\nout %4\n",
    ".dais\n.inputs 0
%0 = const -9223372036854775808 : (1, 63, 0)\n%1 = const 3000000000 : (0, 32, 9)
out %0\nout -%1\n",
    ".dais\n.inputs 1\n%0 = input 0 : (1, 0, 2)\n%1 = quantise -%0 : (1, 0, 0)\nout %1\n",
    ".dais\n.inputs 3\n.state -1.25, 0.5
%0 = input 0 : (1, 3, 2)\n%1 = input 1 : (1, 1, 2)\n%2 = input 2 : (1, -1, 1)
%3 = add %0, %1 : (1, 4, 2)\n%4 = quantise %3 : (1, 1, 2)\n%5 = quantise %3 : (1, -1, 1)
out %3\nout -%2\nout %4\nout %5 << 0\n",
];

fn parse(text: &str) -> Pipeline {
    text::parse(text, SourceId(0)).unwrap_or_else(|problem| panic!("{problem:?}"))
}

/// The golden programs and pipelines.
fn golden(random: &mut Random) -> Vec<Bench> {
    let mut list = Vec::new();
    for case in cases(&["ops", "traced", "quirks", "alir4"]) {
        let stem = case.name.replace('/', "_");
        let mut forms = vec![Pipeline::from(case.program())];
        for (_, json) in case.pipelines() {
            forms.push(quincunx_dais::files::read_json(&json, false).unwrap().pipeline);
        }
        for (form, pipeline) in forms.into_iter().enumerate() {
            let name = format!("{stem}_{form}");
            list.push(match stem.starts_with("traced") {
                true => Bench::prepared(name, pipeline, random),
                false => Bench::random(name, pipeline, random).unwrap(),
            });
        }
    }
    list
}

/// A program of alkaid with registers.
fn with_registers(random: &mut Random) -> Bench {
    let path = root().join("../../../examples/dais/filter.json");
    let text = fs::read_to_string(path).unwrap();
    let pipeline = quincunx_dais::files::read_json(&text, false).unwrap().pipeline;
    assert!(pipeline.has_state());
    Bench::random("filter".to_owned(), pipeline, random).unwrap()
}

/// Random programs, and some of them in stages.
fn drawn(random: &mut Random) -> Vec<Bench> {
    let mut list = Vec::new();
    while list.len() < 8 {
        let drawn = match list.len() % 4 {
            0 => wide_program(random, 40, 300),
            _ => program(random, 30),
        };
        let cutoff = Cutoff { latency: 1.5, retiming: false };
        let pipeline = match list.len() % 3 {
            0 => to_pipeline(&drawn, cutoff, &[]).map(|staged| staged.pipeline),
            _ => Ok(drawn.into()),
        };
        let Ok(pipeline) = pipeline else { continue };
        let last = pipeline.stages.last().unwrap();
        if last.outputs.iter().all(|output| output.source.is_none()) {
            continue;
        }
        let name = format!("random{}", list.len());
        list.extend(Bench::random(name, pipeline, random));
    }
    list
}

/// SYCL as far as the generated files use it, on the processor.
const SYCL: &str = r"
#pragma once
#include <cstddef>
#include <vector>
namespace sycl {
struct selector {};
namespace ext::intel {
constexpr selector fpga_emulator_selector_v{}, fpga_simulator_selector_v{}, fpga_selector_v{};
}
struct tag {};
constexpr tag read_only{}, write_only{}, no_init{};
template <class T, int D> struct buffer {
  template <class C> explicit buffer(C &c) : data(const_cast<T *>(c.data())) {}
  T *data;
};
struct handler {
  template <class Name, class Kernel> void single_task(Kernel kernel) { kernel(); }
};
template <class T> struct accessor {
  template <class... P> accessor(buffer<T, 1> &b, handler &, P...) : data(b.data) {}
  T &operator[](std::size_t i) const { return data[i]; }
  T *data;
};
template <class T, class... P> accessor(buffer<T, 1> &, handler &, P...) -> accessor<T>;
struct queue {
  explicit queue(selector) {}
  template <class Group> void submit(Group group) { handler h; group(h); }
};
}
";

/// Writes what stands for SYCL.
fn write_sycl(folder: &Path) {
    for (name, text) in [
        ("sycl/sycl.hpp", SYCL),
        ("sycl/ext/intel/fpga_extensions.hpp", "#pragma once\n"),
        ("sycl/ext/intel/ac_types/ac_fixed.hpp", "#pragma once\n#include <ac_fixed.h>\n"),
    ] {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// One program that runs all testbenches.
fn main_of(benches: &[&Bench], flavour: Flavour) -> String {
    let mut all = "#include <fstream>\n#include <iostream>\n#include <string>\n".to_owned();
    let mut calls = String::new();
    for Bench { name, .. } in benches {
        if flavour != Flavour::OneApi {
            let _ = writeln!(all, "#include \"{name}_top.cpp\"");
        }
        let _ = writeln!(all, "#define main main_{name}\n#include \"{name}_tb.cpp\"\n#undef main");
        let arguments = if flavour == Flavour::Catapult { "0, nullptr" } else { "" };
        let _ = writeln!(calls, "  failed += main_{name}({arguments});");
    }
    all + "int main() {\n  int failed = 0;\n" + &calls + "  return failed;\n}\n"
}

/// Compiles testbenches in a folder into one program.
fn compile(folder: &Path, benches: &[&Bench], flavour: Flavour, includes: &[String]) -> PathBuf {
    let stem = format!("all_{}", benches[0].name);
    fs::write(folder.join(format!("{stem}.cpp")), main_of(benches, flavour)).unwrap();
    let mut compile = Command::new("g++");
    compile.args(["-std=c++17", "-O0", "-w", "-I", "."]).current_dir(folder);
    let includes = includes.iter().flat_map(|include| ["-isystem", include]);
    let output = compile.args(includes).arg(format!("{stem}.cpp")).args(["-o", &stem]).output();
    let output = output.unwrap();
    let errors: String = String::from_utf8_lossy(&output.stderr).chars().take(4000).collect();
    assert!(output.status.success(), "{flavour:?} {stem}: {errors}");
    folder.join(stem)
}

/// What testbenches say.
fn run(program: &Path) -> String {
    let folder = program.parent().unwrap();
    let output = Command::new(program).current_dir(folder).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A folder with the files of all programs.
fn write(benches: &[Bench], name: &str, flavour: Flavour) -> PathBuf {
    let folder = folder(&format!("{name}-{}", flavour.name()));
    write_sycl(&folder);
    benches.iter().for_each(|bench| bench.emit(flavour, &folder));
    folder
}

/// Runs the testbenches of some programs in one, all of which must pass.
fn judge(folder: &Path, benches: &[&Bench], flavour: Flavour, includes: &[String]) {
    let said = run(&compile(folder, benches, flavour, includes));
    for Bench { name, .. } in benches {
        let expected = format!("PASS {name}: {VECTORS} vectors");
        assert!(said.contains(&expected), "{flavour:?} {name}: {said}");
    }
}

#[test]
fn generated_functions_give_what_the_simulators_give() {
    let Some(includes) = includes() else { return };
    let mut random = Random::new(22);
    let mut benches = golden(&mut random);
    benches.extend(drawn(&mut random));
    benches.push(with_registers(&mut random));
    for (number, text) in ODD.iter().enumerate() {
        let name = format!("odd{number}");
        benches.push(Bench::random(name, parse(text), &mut random).unwrap());
    }
    let folders = Flavour::ALL.map(|flavour| (flavour, write(&benches, "hls", flavour)));
    // Compilers take most of the time: large programs first, as many at a time as is usual. The
    // types of AMD take several times as long as the others, which alone get the largest program;
    // of the two flavours with the same types one gets the large ones.
    let (large, small): (Vec<&Bench>, Vec<&Bench>) =
        benches.iter().partition(|bench| bench.name.starts_with("traced"));
    let is_small = |bench: &&Bench| !bench.name.starts_with("traced_jet_mlp_6b");
    let fewer: Vec<&Bench> = large.iter().copied().filter(is_small).collect();
    let jobs = [true, false].into_iter().flat_map(|is_large| {
        let folders = folders.iter().map(move |(flavour, folder)| (is_large, *flavour, folder));
        folders.filter(|(is_large, flavour, _)| !is_large || *flavour != Flavour::OneApi)
    });
    let jobs = Mutex::new(jobs);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let job = jobs.lock().unwrap().next();
                    let Some((is_large, flavour, folder)) = job else { break };
                    let group = match (is_large, flavour) {
                        (true, Flavour::Vitis) => &fewer,
                        (true, _) => &large,
                        _ => &small,
                    };
                    judge(folder, group, flavour, &includes);
                }
            });
        }
    });
}

/// Faults in the function, and files of vectors that are not there or differ, make testbenches fail.
#[test]
fn testbenches_can_fail() {
    let Some(includes) = includes() else { return };
    let mut random = Random::new(5);
    let bench = Bench::random("odd1".to_owned(), parse(ODD[1]), &mut random).unwrap();
    for flavour in Flavour::ALL {
        let benches = std::slice::from_ref(&bench);
        let folder = write(benches, "hls-faults", flavour);
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        let good = compile(&folder, &[&bench], flavour, &includes);
        let says = |name: &str, change: &dyn Fn(&str) -> String| {
            let before = read(name);
            let after = change(&before);
            assert_ne!(before, after);
            fs::write(folder.join(name), after).unwrap();
            // Vectors are read when the program runs.
            let changed = match name.ends_with(".h") {
                true => compile(&folder, &[&bench], flavour, &includes),
                false => good.clone(),
            };
            let said = run(&changed);
            fs::write(folder.join(name), before).unwrap();
            said.contains("FAIL odd1") && !said.contains("PASS")
        };
        for name in ["odd1_in.hex", "odd1_out.hex"] {
            assert!(says(name, &|_| String::new()), "{flavour:?} {name}");
            let other = |text: &str| {
                let last = text.len() - 2;
                let digit = if &text[last..=last] == "0" { "1" } else { "0" };
                format!("{}{digit}\n", &text[..last])
            };
            assert!(says(name, &other), "{flavour:?} {name}");
        }
        assert!(run(&good).contains("PASS odd1"), "{flavour:?}");
        assert!(says("odd1.h", &|text| text.replacen(" + ", " - ", 1)), "{flavour:?}");
    }
}

/// Files, names and what cannot be written.
#[test]
fn files_and_refusals() {
    let settings = Settings { vectors: 3, ..Settings::default() };
    let emit = |text: &str, flavour, name: &str| {
        let pipeline = parse(text);
        emit(&pipeline, &interface(&pipeline), flavour, &settings, name)
    };
    for (flavour, script, top) in [
        (Flavour::Vitis, "double_vitis.tcl", "double_top.cpp"),
        (Flavour::OneApi, "CMakeLists.txt", "double_top.hpp"),
        (Flavour::Catapult, "double_catapult.tcl", "double_top.cpp"),
    ] {
        let files = emit(ODD[0], flavour, "double").unwrap();
        let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
        let around = ["double_in.hex", "double_out.hex", script, "double_hls.json"];
        assert_eq!(names[..4], ["dais_fixed.h", "double.h", top, "double_tb.cpp"]);
        assert_eq!(names[4..], around);
        assert_eq!(files[4].text().unwrap().lines().count(), 3);
    }
    let wide = ".dais\n.inputs 2\n%0 = input 0 : (1, 600, 0)\n%1 = input 1 : (1, 0, 600)
%2 = quantise %1 : (1, 0, 3)\n%3 = mul %0, %1 : (1, 601, 600)\nout %3\n";
    let none =
        ".dais\n.inputs 1\n%0 = input 0 : (1, 3, 0)\nout zero\nout %1\n%1 = const 0 : (0, 0, 0)\n";
    for flavour in Flavour::ALL {
        let problem = emit(wide, flavour, "wide").unwrap_err();
        assert_eq!(problem.code(), "Q1191");
        assert!(problem.to_string().contains("instruction 3"), "{problem}");
        assert!(problem.to_string().contains(&MAX_WIDTH.to_string()), "{problem}");
        assert_eq!(emit(none, flavour, "none").unwrap_err().code(), "Q1180");
    }
}
