//! What several tests share.

#![allow(dead_code, reason = "every test uses a part of it")]

pub(crate) mod graphs;
pub(crate) mod naive;
pub(crate) mod net;
pub(crate) mod networks;
pub(crate) mod onnx;
pub(crate) mod random;
pub(crate) mod tags;

use quincunx_contract::plan::{Division, Plan};
use quincunx_contract::{Arch, ArchSource, Claim, Compiler, Numerics, Refused, Target};
use quincunx_diag::Result;
use quincunx_graph::Graph;
use quincunx_tcu::binary;
use quincunx_tcu::program::Program;
use quincunx_tcu::{TARGET, TcuArch};
use quincunx_tensor::Tensors;
use quincunx_testkit::options;
use serde_json::Value;
use std::path::PathBuf;

/// The folder with the peer's data.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/tcu")
}

/// A JSON file of the peer.
pub(crate) fn golden(name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(root().join(name)).unwrap()).unwrap()
}

/// Bytes in hexadecimal digits.
pub(crate) fn hex(value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap();
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

/// A machine in a golden file.
pub(crate) fn arch(value: &Value) -> TcuArch {
    TcuArch::parse(&value.to_string()).unwrap()
}

/// A program of the peer's emulator with its machine.
pub(crate) fn emulator_program(case: &Value) -> Program {
    binary::read(&hex(&case["prog"]), &arch(&case["arch"]), false).unwrap().program
}

/// What the golden model gives.
pub(crate) fn golden_of(graph: &Graph, numerics: &Numerics, inputs: &Tensors) -> Result<Tensors> {
    TARGET.prepare(graph, &*TARGET.arch(&ArchSource::Default)?, numerics)?.run(inputs)
}

/// What the machine takes with default options.
pub(crate) fn claim(graph: &Graph, arch: &dyn Arch) -> Vec<Claim> {
    TARGET.claim(graph, arch, &options(&TARGET, &[]), &Refused::default()).unwrap()
}

/// The division with default options.
pub(crate) fn plan(graph: &Graph, arch: &dyn Arch) -> Plan {
    Division { graph, target: &TARGET, arch, options: &options(&TARGET, &[]) }.plan().unwrap()
}
