//! Golden cases, read from `tests/golden/dais`.
#![allow(dead_code, unreachable_pub, reason = "every test uses a part")]

pub mod random;
pub mod simulators;

use quincunx_contract::plan::{Division, Plan};
use quincunx_contract::{Arch, ArchSource, Claim, Compiler, Numerics, Options, Refused, Target};
use quincunx_dais::TARGET;
use quincunx_dais::binary::{self, ReadOptions};
use quincunx_dais::files;
use quincunx_dais::program::Program;
use quincunx_diag::Result;
use quincunx_graph::Graph;
use quincunx_tensor::{Tensors, npy};
use std::fs;
use std::path::{Path, PathBuf};

/// Folders whose cases have a program, inputs and outputs.
pub const FOLDERS: [&str; 4] = ["ops", "fuzz", "traced", "quirks"];

/// Files and samples of one case.
pub struct Case {
    pub name: String,
    stem: PathBuf,
    pub inputs: Vec<Vec<f64>>,
    pub outputs: Vec<Vec<f64>>,
}

impl Case {
    /// The file of the case with this ending, if there is one.
    pub fn file(&self, ending: &str) -> Option<Vec<u8>> {
        fs::read(with_ending(&self.stem, ending)).ok()
    }

    pub fn json(&self) -> String {
        String::from_utf8(self.file(".json").unwrap()).unwrap()
    }

    /// The program as the JSON file has it.
    pub fn program(&self) -> Program {
        let read = files::read_json(&self.json(), false).unwrap();
        assert_eq!((read.pipeline.stages.len(), read.warnings.len()), (1, 0), "{}", self.name);
        read.pipeline.stages.into_iter().next().unwrap()
    }

    /// Names and contents of the pipelines made of the case.
    pub fn pipelines(&self) -> Vec<(String, String)> {
        let stem = self.stem.file_name().unwrap().to_str().unwrap().to_owned();
        let prefix = format!("{stem}_pipeline_");
        let list = names(self.stem.parent().unwrap());
        let list = list.into_iter().filter(|n| n.starts_with(&prefix) && n.ends_with(".json"));
        let text = |name: &str| fs::read_to_string(self.stem.with_file_name(name)).unwrap();
        list.map(|name| (name.clone(), text(&name))).collect()
    }
}

/// The folder of the golden data.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/dais")
}

/// File names of a folder, sorted.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut list: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    list.sort();
    list
}

/// The cases of some folders.
pub fn cases(folders: &[&str]) -> Vec<Case> {
    let mut cases = Vec::new();
    for folder in folders {
        let path = root().join(folder);
        for name in names(&path) {
            if let Some(stem) = name.strip_suffix("_in.npy") {
                cases.push(Case {
                    name: format!("{folder}/{stem}"),
                    inputs: rows(&path.join(&name)),
                    outputs: rows(&path.join(format!("{stem}_out.npy"))),
                    stem: path.join(stem),
                });
            }
        }
    }
    assert!(!cases.is_empty());
    cases
}

/// Reads machine code of any dialect; nothing but the order of data words may be in doubt.
pub fn read_binary(bytes: &[u8]) -> binary::Read {
    let read = binary::read(bytes, &ReadOptions::default()).unwrap();
    assert!(read.warnings.iter().all(|warning| warning.code() == "Q1059"));
    read
}

/// Equal bit patterns, so that -0 differs from 0.
pub fn same(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}

pub fn rows(path: &Path) -> Vec<Vec<f64>> {
    let tensor = npy::read_npy(fs::read(path).unwrap()).unwrap();
    let values = tensor.to_f64();
    match tensor.shape()[1] {
        0 => vec![Vec::new(); tensor.shape()[0]],
        width => values.chunks_exact(width).map(<[f64]>::to_vec).collect(),
    }
}

fn with_ending(stem: &Path, ending: &str) -> PathBuf {
    let mut name = stem.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// What the golden model gives.
pub fn golden_of(graph: &Graph, numerics: &Numerics, inputs: &Tensors) -> Result<Tensors> {
    TARGET.prepare(graph, &*TARGET.arch(&ArchSource::Default)?, numerics)?.run(inputs)
}

/// What the machine takes with default options.
pub fn claim(graph: &Graph, arch: &dyn Arch) -> Vec<Claim> {
    TARGET.claim(graph, arch, &options(), &Refused::default()).unwrap()
}

/// The division with default options.
pub fn plan(graph: &Graph, arch: &dyn Arch) -> Plan {
    Division { graph, target: &TARGET, arch, options: &options() }.plan().unwrap()
}

fn options() -> Options {
    Options::new(TARGET.info().options, &[]).unwrap()
}
