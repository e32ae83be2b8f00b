//! Running the binary.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// What a run left.
pub struct Run {
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Run {
    /// stdout as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).unwrap()
    }
}

/// A file of the digits example.
pub fn digits(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits");
    folder.join(name).to_str().unwrap().to_owned()
}

/// Programs of a target, which all verbs can open.
pub fn programs(target: &str) -> Vec<String> {
    let files: &[&str] = match target {
        "dais" => &[
            "examples/dais/sum.dasm",
            "tests/golden/dais/traced/jet_mlp_6b.json",
            "tests/golden/dais/alir4/mlp_ternary.json",
        ],
        "dpas" => &["tests/golden/dpas/files/plain.xeasm", "tests/golden/dpas/files/gemm.visaasm"],
        "npu" => &[
            "tests/golden/npu/fragments/f09_batch_vp_self_tokens.asm.txt",
            "tests/golden/npu/fragments/f05_streamed_weights_4_tiles.asm.txt",
        ],
        "scamp" => &[
            "tests/golden/scamp/sample_default_format.txt",
            "tests/golden/scamp/sample_jss_format.txt",
            "examples/scamp/edges.txt",
        ],
        "tcu" => &[
            "tests/golden/tcu/compiled/t_leaky_artya7100t_iso.tmodel",
            "tests/golden/tcu/compiled/t_gemm_artya7100t_iso.tmodel",
        ],
        other => panic!("no program of {other}"),
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    files.iter().map(|file| root.join(file).to_str().unwrap().to_owned()).collect()
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quincunx"));
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
    command
}

/// Runs the binary without input.
pub fn quincunx(arguments: &[&str]) -> Run {
    finish(command(arguments).output().unwrap())
}

/// Runs the binary without input in an address space of so many KiB.
pub fn within_memory(kib: &str, arguments: &[&str]) -> Run {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -v $1 && shift && exec \"$@\"", "sh", kib]);
    shell.arg(env!("CARGO_BIN_EXE_quincunx")).args(arguments).stdin(Stdio::null());
    finish(shell.output().unwrap())
}

/// Runs the binary with bytes on stdin.
pub fn quincunx_with_input(arguments: &[&str], input: &[u8]) -> Run {
    let mut child = command(arguments).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // The binary may stop reading early.
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    finish(output)
}

/// Runs the binary with a stdout nobody reads.
pub fn with_closed_stdout(arguments: &[&str]) -> Run {
    let mut child = command(arguments).spawn().unwrap();
    drop(child.stdout.take());
    finish(child.wait_with_output().unwrap())
}

fn finish(output: Output) -> Run {
    let stderr = String::from_utf8(output.stderr).unwrap();
    let code = output.status.code().unwrap_or_else(|| panic!("killed: {stderr}"));
    assert!(!stderr.contains("this is a bug"), "{stderr}");
    Run { code, stdout: output.stdout, stderr }
}

/// Compiles the digits into a program folder below `place` and returns its path.
pub fn compiled(place: &Path) -> String {
    let out = place.join("out").to_str().unwrap().to_owned();
    let options = ["--target", "dais", "--effort", "fast", "-o", &out];
    let run = quincunx(&[&["compile", &digits("digits.onnx")], &options[..]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    out
}

/// Names in a folder, sorted.
pub fn names_in(path: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.unwrap().file_name().into_string().unwrap()
    };
    let mut names: Vec<String> = std::fs::read_dir(path).unwrap().map(name).collect();
    names.sort();
    names
}

/// Writes a file and returns its path.
pub fn file(place: &Path, name: &str, bytes: &[u8]) -> String {
    let path: PathBuf = place.join(name);
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}
