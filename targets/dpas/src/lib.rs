//! The dpas target: the systolic matrix instruction of Intel Xe, native and virtual.
//!
//! A program is a native listing or a vISA kernel. See the README of this folder for the machine on
//! one page.

pub mod arch;
mod artifact;
mod bench;
pub mod binary;
mod compile;
pub mod files;
mod golden;
pub mod isa;
pub mod latency;
mod layout;
mod options;
mod ports;
pub mod precision;
pub mod program;
mod read;
pub mod shape;
pub mod simulate;
pub mod swsb;
pub mod text;
pub mod time;
pub mod verify;
mod views;

pub use arch::DpasArch;
pub use artifact::{Artifact, DeviceArtifact};
use options::Precision;
pub use options::Settings;

use quincunx_contract::{
    Arch, ArchSource, Claim, Compiled, Compiler, Computing, File, Golden, Info, Interface, Log,
    NotCompiled, Numbers, Numerics, Options, Program, Refused, Target,
};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::execute::bounds;
use quincunx_graph::passes::Scheme;
use quincunx_graph::{Graph, Node};
use quincunx_isa::Table;
use quincunx_tensor::DType;

/// The target.
pub static TARGET: Dpas = Dpas;

/// The dpas target.
#[derive(Debug)]
pub struct Dpas;

static INFO: Info = Info {
    name: "dpas",
    summary: "systolic matrix instruction of Intel Xe (vISA and native)",
    presets: arch::PRESETS,
    options: options::OPTIONS,
    kinds: artifact::KINDS,
    folder_kind: "launch",
};

impl Target for Dpas {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn arch(&self, source: &ArchSource) -> Result<Box<dyn Arch>> {
        Ok(Box::new(DpasArch::from_source(source)?))
    }

    fn compiler(&self) -> Option<&dyn Compiler> {
        Some(self)
    }

    fn read(
        &self,
        files: &[File],
        interface: Option<Interface>,
        arch: &dyn Arch,
        options: &Options,
        log: &mut Log,
    ) -> std::result::Result<Box<dyn Program>, Vec<Diagnostic>> {
        read::read(files, interface, arch.of_target()?, options, log)
    }

    fn recognises(&self, file: &File) -> bool {
        files::is_device(file) || files::format(file, arch::Platform::XeHpg).is_some()
    }

    fn companions(&self, file: &File) -> Vec<String> {
        match files::launch::recognises(&file.bytes) {
            true => files::launch::companions(&file.bytes),
            false => Vec::new(),
        }
    }

    fn isa(&self) -> &'static [&'static Table] {
        isa::TABLES
    }

    fn suites(&self) -> &'static [quincunx_contract::bench::Suite] {
        bench::SUITES
    }
}

impl Compiler for Dpas {
    fn numbers(&self, _arch: &dyn Arch, options: &Options) -> Numbers {
        let float = |dtype| Numbers::Float { dtype, fold: true };
        match Precision::of(options) {
            Precision::Int8 => Numbers::Quantised(Scheme::AFFINE_INT8),
            Precision::Bf16 => float(DType::BF16),
            Precision::Fp16 => float(DType::F16),
            Precision::Tf32 => float(DType::F32),
        }
    }

    fn precision(
        &self,
        _graph: &Graph,
        _node: &Node,
        computing: Computing<'_>,
    ) -> bounds::Precision {
        let mut precision = self.numbers(computing.arch, computing.options).precision();
        if Precision::of(computing.options) == Precision::Tf32 {
            // Both factors of every product have 11 bits, and lie in memory as f32.
            precision.constants = bounds::Step::float(10);
        }
        precision
    }

    fn claim(
        &self,
        graph: &Graph,
        arch: &dyn Arch,
        options: &Options,
        refused: &Refused,
    ) -> Result<Vec<Claim>> {
        let arch = arch.of_target()?;
        let precision = options::precision(options, arch)?;
        Ok(compile::claim(graph, refused, arch, precision))
    }

    fn compile(
        &self,
        graph: &Graph,
        arch: &dyn Arch,
        options: &Options,
        log: &mut Log,
    ) -> std::result::Result<Compiled, NotCompiled> {
        let (settings, _) = options::settings(options)?;
        let arch = arch.of_target()?;
        let precision = options::precision(options, arch)?;
        compile::compile(graph, arch, (&settings, precision), log)
    }

    fn prepare(
        &self,
        graph: &Graph,
        _arch: &dyn Arch,
        numerics: &Numerics,
    ) -> Result<Box<dyn Golden>> {
        golden::prepare(graph, numerics)
    }
}
