//! Simulators of generated logic, from Debian: Icarus Verilog, Verilator, GHDL.

use quincunx_dais::rtl::Language;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A design with its testbench: a name and files.
pub struct Bench {
    pub name: String,
    pub files: Vec<quincunx_contract::File>,
}

/// False when a tool is not there, which is a failure if tools are required.
pub fn present(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    let required = std::env::var("QUINCUNX_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
    assert!(found || !required, "{tool} is missing");
    found
}

/// A folder with all files, and one more that runs all testbenches.
fn write(benches: &[Bench], top: &str, text: &str) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    for file in benches.iter().flat_map(|bench| &bench.files) {
        fs::write(place.path().join(&file.name), &file.bytes).unwrap();
    }
    fs::write(place.path().join(top), text).unwrap();
    place
}

fn run(command: &mut Command, place: &Path) -> String {
    let output = command.current_dir(place).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    let all: String = text.chars().take(4000).collect();
    let errors: String = errors.chars().take(4000).collect();
    assert!(output.status.success(), "{command:?}: {all}{errors}");
    text + &errors
}

/// Every testbench must say PASS with the number of its vectors, and nothing else may be said.
fn judge(benches: &[Bench], said: &str) {
    for Bench { name, files } in benches {
        let expected = files.iter().find(|file| file.name == format!("{name}_out.hex")).unwrap();
        let count = expected.bytes.iter().filter(|byte| **byte == b'\n').count();
        assert!(said.contains(&format!("PASS {name}: {count} vectors")), "{name}: {said}");
    }
    assert!(!said.contains("FAIL") && !said.contains("wrong"), "{said}");
}

/// One module that holds all testbenches, which end by themselves.
fn verilog_top(benches: &[Bench]) -> String {
    let mut text = "`timescale 1ns / 1ps\nmodule all_tb;\n".to_owned();
    for (number, Bench { name, .. }) in benches.iter().enumerate() {
        let _ = writeln!(text, "  {name}_tb #(.FINISH(0)) tb{number} ();");
    }
    text + "  initial #100000 $finish;\nendmodule\n"
}

fn sources(benches: &[Bench], extension: &str) -> Vec<PathBuf> {
    let mut list = Vec::new();
    for Bench { name, .. } in benches {
        list.push(format!("{name}.{extension}").into());
        list.push(format!("{name}_wrapper.{extension}").into());
        list.push(format!("{name}_tb.{extension}").into());
    }
    list
}

/// Whether one testbench says that all is well, by itself.
pub fn passes(bench: &Bench, language: Language) -> bool {
    let name = &bench.name;
    let place = write(std::slice::from_ref(bench), "readme", "");
    let files =
        [name.clone(), format!("{name}_tb")].map(|n| format!("{n}.{}", language.extension()));
    let steps: Vec<Vec<String>> = match language {
        Language::Verilog => vec![
            [&["iverilog", "-g2001", "-o", "x.vvp"].map(String::from)[..], &files].concat(),
            ["vvp", "-n", "x.vvp"].map(String::from).to_vec(),
        ],
        Language::Vhdl => vec![
            [&["ghdl", "-a", "--std=08"].map(String::from)[..], &files].concat(),
            [
                "ghdl",
                "--elab-run",
                "--std=08",
                &format!("{name}_tb"),
                "--ieee-asserts=disable-at-0",
            ]
            .map(String::from)
            .to_vec(),
        ],
    };
    let mut said = String::new();
    for step in steps {
        let output = Command::new(&step[0]).args(&step[1..]).current_dir(place.path()).output();
        let output = output.unwrap();
        said = String::from_utf8_lossy(&output.stdout).into_owned();
        said += &String::from_utf8_lossy(&output.stderr);
        // A simulator may stop with an error instead of an answer, a compiler may not.
        assert!(output.status.success() || !step.contains(&"-a".to_owned()), "{said}");
    }
    assert!(said.contains("PASS") || said.contains("FAIL") || said.contains("error"), "{said}");
    said.contains("PASS") && !said.contains("FAIL")
}

/// Simulates all testbenches in one run of Icarus Verilog.
pub fn icarus(benches: &[Bench]) {
    let place = write(benches, "all_tb.v", &verilog_top(benches));
    let mut compile = Command::new("iverilog");
    compile.args(["-g2001", "-Wall", "-Wno-timescale", "-o", "all.vvp", "-s", "all_tb"]);
    // The wrappers are elaborated as well.
    for Bench { name, .. } in benches {
        compile.arg("-s").arg(format!("{name}_wrapper"));
    }
    let warnings = run(compile.args(sources(benches, "v")).arg("all_tb.v"), place.path());
    assert!(!warnings.contains("warning"), "{warnings}");
    let said = run(Command::new("vvp").args(["-n", "all.vvp"]), place.path());
    judge(benches, &said);
}

/// Simulates all testbenches in one run of Verilator.
pub fn verilator(benches: &[Bench]) {
    let place = write(benches, "all_tb.v", &verilog_top(benches));
    let mut compile = Command::new("verilator");
    compile.args(["--binary", "--timing", "-O3", "--x-assign", "unique", "--x-initial", "unique"]);
    compile.args(["-CFLAGS", "-O0", "--output-split", "20000", "--top-module", "all_tb"]);
    // The wrappers are linted apart, since they are not below the top.
    run(compile.args(["-j", "2"]).args(sources(benches, "v")).arg("all_tb.v"), place.path());
    judge(benches, &run(&mut Command::new("./obj_dir/Vall_tb"), place.path()));
}

/// Simulates all testbenches in one run of GHDL.
pub fn ghdl(benches: &[Bench]) {
    let mut text =
        "entity all_tb is\nend entity;\narchitecture sim of all_tb is\nbegin\n".to_owned();
    for (number, Bench { name, .. }) in benches.iter().enumerate() {
        let _ = writeln!(text, "  tb{number} : entity work.{name}_tb;");
    }
    text += "end architecture;\n";
    let place = write(benches, "all_tb.vhd", &text);
    let ghdl = |verb: &str| {
        let mut command = Command::new("ghdl");
        command.args([verb, "--std=08"]);
        command
    };
    let analysed = run(ghdl("-a").args(sources(benches, "vhd")).arg("all_tb.vhd"), place.path());
    assert!(!analysed.contains("warning"), "{analysed}");
    // Before the first delta cycle everything is unknown.
    let run_options = ["all_tb", "--ieee-asserts=disable-at-0", "--assert-level=failure"];
    judge(benches, &run(ghdl("--elab-run").args(run_options), place.path()));
}

/// Simulates the wrapper of a design: its testbench with the wrapper in the place of the design, and
/// ports of the wrapper's widths (input, output) in the place of the design's.
pub fn wrapper(
    name: &str,
    files: Vec<quincunx_contract::File>,
    narrow: [u32; 2],
    widths: [u32; 2],
) {
    let change = |file: quincunx_contract::File| {
        if file.name != format!("{name}_tb.v") {
            return file;
        }
        let mut text = file
            .text()
            .unwrap()
            .replace(&format!("  {name} dut"), &format!("  {name}_wrapper dut"));
        for (port, words, at) in [("model_inp", "inputs", 0), ("model_out", "expected", 1)] {
            let range = |width: u32| format!("[{}:0] ", width - 1);
            for wire in [port, words] {
                let (from, to) = (range(narrow[at]) + wire, range(widths[at]) + wire);
                assert!(text.contains(&from), "{name}: {text}");
                text = text.replace(&from, &to);
            }
        }
        quincunx_contract::File::new(file.name, text)
    };
    let files = files.into_iter().map(change).collect();
    icarus(&[Bench { name: name.to_owned(), files }]);
}
