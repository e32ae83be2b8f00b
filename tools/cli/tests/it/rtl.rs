//! Generated logic from a model: the digits in Verilog and VHDL, and Yosys through `time --synth`.

use crate::support::{compiled, digits, names_in, quincunx};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// False when a tool is not there, which is a failure if tools are required.
fn present(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    let required = std::env::var("QUINCUNX_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
    assert!(found || !required, "{tool} is missing");
    found
}

fn run(folder: &Path, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(folder).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {text}");
    text.into_owned()
}

/// Writes the network in a language, with so many of the test images as vectors.
fn emit(folder: &Path, kind: &str, images: usize) {
    let model = digits("digits_pow2.onnx");
    let data = quincunx::tensor::npy::read_npz(fs::read(digits("test.npz")).unwrap()).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let inputs = elsewhere.path().join("images.npy");
    let first = data["image"].outer_range(0..images);
    fs::write(&inputs, quincunx::tensor::npy::write_npy(&first)).unwrap();
    let (to, inputs) =
        (format!("{kind}={}/", folder.display()), format!("rtl-inputs={}", inputs.display()));
    let compile = ["compile", &model, "--target", "dais", "--arch", "wide", "--emit", &to];
    let options = ["--set", &inputs, "--set", "rtl-name=digits", "--clock", "2.5"];
    let run = quincunx(&[&compile[..], &options].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
}

/// The numbers of a port, decoded by the description beside it, must be those of the example's
/// reference, which no part of Quincunx computed.
fn check_vectors(folder: &Path, images: usize) {
    let about = fs::read_to_string(folder.join("digits_rtl.json")).unwrap();
    let about: Value = serde_json::from_str(&about).unwrap();
    let fields = about["model_out"]["fields"].as_array().unwrap();
    let expected = fs::read(digits("expected.npz")).unwrap();
    let expected = quincunx::tensor::npy::read_npz(expected).unwrap()["logits_pow2"].to_f64();
    let text = fs::read_to_string(folder.join("digits_out.hex")).unwrap();
    let mut found = Vec::new();
    for line in text.lines() {
        // Bit 0 first.
        let digits = line.chars().rev().map(|digit| digit.to_digit(16).unwrap());
        let bits: Vec<u32> = digits.flat_map(|d| (0..4).map(move |bit| d >> bit & 1)).collect();
        for field in fields {
            let number = |name: &str| field[name].as_u64().unwrap() as usize;
            let (low, width) = (number("low"), number("width"));
            let bits = &bits[low..low + width];
            let value: i64 = bits.iter().enumerate().map(|(at, &b)| i64::from(b) << at).sum();
            let negative = field["type"][0] == 1 && bits[width - 1] == 1;
            let value = if negative { value - (1 << width) } else { value };
            found.push(value as f64 / (field["type"][2].as_i64().unwrap() as f64).exp2());
        }
    }
    assert_eq!(found.len(), 10 * images);
    assert_eq!(found, expected[..10 * images]);
}

#[test]
fn digits_in_verilog() {
    let place = tempfile::tempdir().unwrap();
    // Icarus Verilog takes a quarter of a second for an image.
    emit(place.path(), "verilog", 60);
    check_vectors(place.path(), 60);
    if present("iverilog") {
        let sources = ["-g2001", "-Wall", "-o", "digits.vvp", "digits.v", "digits_tb.v"];
        assert_eq!(run(place.path(), "iverilog", &sources), "");
        let said = run(place.path(), "vvp", &["-n", "digits.vvp"]);
        assert!(said.contains("PASS digits: 60 vectors"), "{said}");
    }
}

#[test]
fn digits_in_vhdl() {
    let place = tempfile::tempdir().unwrap();
    emit(place.path(), "vhdl", 360);
    check_vectors(place.path(), 360);
    if present("ghdl") {
        run(place.path(), "ghdl", &["-a", "--std=08", "digits.vhd", "digits_tb.vhd"]);
        let options = ["--elab-run", "--std=08", "digits_tb", "--ieee-asserts=disable-at-0"];
        let said = run(place.path(), "ghdl", &options);
        assert!(said.contains("PASS digits: 360 vectors"), "{said}");
    }
}

/// Inputs on a grid of other steps than powers of two enter as numbers of steps: pixels are whole
/// multiples of 1/240, the scale of the model.
#[test]
fn inputs_of_vectors_are_steps() {
    let place = tempfile::tempdir().unwrap();
    let (model, images) = (digits("digits_qdq.onnx"), digits("test.npz"));
    let to = format!("verilog={}/", place.path().display());
    let inputs = format!("rtl-inputs={images}");
    let compile = ["compile", &model, "--target", "dais", "--arch", "wide", "--effort", "fast"];
    let emit = ["--emit", &to, "--set", &inputs, "--set", "rtl-name=digits"];
    let run = quincunx(&[&compile[..], &emit].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let images = quincunx::tensor::npy::read_npz(fs::read(images).unwrap()).unwrap();
    let pixels = images["image"].to_f64();
    let text = fs::read_to_string(place.path().join("digits_in.hex")).unwrap();
    // Fields of 8 bits each, the first pixel lowest.
    let found = text.lines().flat_map(|line| {
        let places = (0..line.len() / 2).rev();
        places.map(|at| u8::from_str_radix(&line[2 * at..2 * at + 2], 16).unwrap())
    });
    let steps: Vec<u8> = pixels.iter().map(|pixel| (pixel * 240.0).round() as u8).collect();
    assert!(steps.contains(&240));
    assert_eq!(found.collect::<Vec<u8>>(), steps);
}

#[test]
fn files_around_the_design() {
    let place = tempfile::tempdir().unwrap();
    emit(place.path(), "verilog", 2);
    let expected = [
        "digits.sdc",
        "digits.v",
        "digits.xdc",
        "digits_in.hex",
        "digits_out.hex",
        "digits_quartus.tcl",
        "digits_rtl.json",
        "digits_tb.v",
        "digits_vivado.tcl",
        "digits_wrapper.v",
    ];
    assert_eq!(names_in(place.path()), expected);
    let text = |name: &str| fs::read_to_string(place.path().join(name)).unwrap();
    // Both vendors get the same clock, which is also that of times.
    for constraints in ["digits.xdc", "digits.sdc"] {
        let text = text(constraints);
        assert!(text.contains("create_clock -name io_clock -period 2.5\n"));
        assert!(text.contains("set_clock_uncertainty 0.25 [get_clocks io_clock]\n"));
        assert!(text.contains("-max 0.4 [get_ports {model_inp[*]}]\n"));
    }
    let about: Value = serde_json::from_str(&text("digits_rtl.json")).unwrap();
    assert_eq!(about["clock_ns"], 2.5);
    assert!(text("digits_vivado.tcl").contains("-part xcvu13p-flga2577-2-e"));
    assert!(text("digits_quartus.tcl").contains("VERILOG_FILE [file join $here digits.v]"));
    // Brackets outside of braces would be commands of Tcl.
    let pins = "-name VIRTUAL_PIN ON -to {model_inp[*]}\n";
    assert!(text("digits_quartus.tcl").contains(pins));
    if Command::new("tclsh").arg("/dev/null").output().is_ok() {
        check_scripts(place.path());
    }
}

/// Runs the scripts of both vendors with their commands replaced by ones that only write down what
/// they are given.
fn check_scripts(folder: &Path) {
    let stubs = "rename unknown {}
proc unknown {args} { puts $args }
rename package {}
proc package {args} {}
";
    let said = |script: &str| {
        fs::write(folder.join("stubs.tcl"), format!("{stubs}source {script}\n")).unwrap();
        run(folder, "tclsh", &["stubs.tcl"])
    };
    let vivado = said("digits_vivado.tcl");
    assert!(vivado.contains("read_verilog") && vivado.contains("digits.xdc"), "{vivado}");
    assert!(vivado.contains("synth_design -top digits"), "{vivado}");
    let quartus = said("digits_quartus.tcl");
    for port in ["model_inp", "model_out"] {
        assert!(quartus.contains(&format!("-to {{{port}[*]}}")), "{quartus}");
    }
    assert!(quartus.contains("execute_flow -compile"), "{quartus}");
}

/// The projects for C++ compilers, whose commands only write down what they are given.
#[test]
fn scripts_of_compilers_are_read() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let file = folder.join("adder.dasm");
    fs::write(&file, ADDER).unwrap();
    for kind in ["vitis", "catapult", "oneapi"] {
        let out = format!("{}/", folder.join(kind).display());
        let run = quincunx(&["asm", file.to_str().unwrap(), "--emit", kind, "-o", &out]);
        assert_eq!(run.code, 0, "{}", run.stderr);
    }
    let text = fs::read_to_string(folder.join("oneapi/CMakeLists.txt")).unwrap();
    assert!(
        text.contains("set(CLOCK 5ns") && text.contains("set(DEVICE 10AX115S2F45I1SG"),
        "{text}"
    );
    if Command::new("tclsh").arg("/dev/null").output().is_ok() {
        for (kind, words) in [
            ("vitis", ["set_top adder_top", "create_clock -period 5", "csynth_design"]),
            ("catapult", ["-DESIGN_HIERARCHY adder_top", "-CLOCK_PERIOD 5", "go extract"]),
        ] {
            let script = format!("adder_{kind}.tcl");
            let stubs = "rename unknown {}\nproc unknown {args} { puts $args }\n";
            let folder = folder.join(kind);
            fs::write(folder.join("stubs.tcl"), format!("{stubs}source {script}\n")).unwrap();
            let said = run(&folder, "tclsh", &["stubs.tcl"]);
            assert!(words.iter().all(|word| said.contains(word)), "{said}");
        }
    }
}

/// A small program, so that Yosys is quick.
const ADDER: &str = ".dais
.inputs 2
%0 = input 0 : (1, 7, 0)
%1 = input 1 : (1, 7, 0)
%2 = add %0, %1 : (1, 8, 0)
out %2
";

#[test]
fn synthesis_is_reported() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("adder.dasm");
    fs::write(&file, ADDER).unwrap();
    let file = file.to_str().unwrap();
    let estimated = quincunx(&["time", file, "--format", "json"]);
    let estimated: Value = serde_json::from_slice(&estimated.stdout).unwrap();
    // Nine bits, of which the highest has the same operand bits as the one below.
    assert_eq!(estimated["logic_estimate"][0]["LUT"], 8);
    assert_eq!(estimated["logic_estimate"][0]["CARRY4"], 3);
    if present("yosys") {
        let registers = ["--set", "rtl-registers=1"];
        let run =
            quincunx(&[&["time", file, "--format", "json", "--synth"][..], &registers].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        let tables: Value = serde_json::from_slice(&run.stdout).unwrap();
        let (found, estimate) = (&tables["logic_synthesis"][0], &tables["logic_estimate"][0]);
        assert_eq!(
            (&found["LUT"], &found["CARRY4"], &found["FF"]),
            (&8.into(), &3.into(), &25.into())
        );
        assert_eq!(estimate["FF"], 25);
        assert!(found["tool"].as_str().unwrap().starts_with("Yosys"));
    }
}

#[test]
fn synthesis_needs_a_tool_and_logic() {
    let place = tempfile::tempdir().unwrap();
    let out = compiled(place.path());
    let mut command = Command::new(env!("CARGO_BIN_EXE_quincunx"));
    let output = command.args(["time", &out, "--synth"]).env("QUINCUNX_YOSYS", "no-such-tool");
    let output = output.output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&output.stderr).contains("Q1186"));
}
