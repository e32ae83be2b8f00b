//! The npu target: a tiled NPU with nine in-order queues and dependency tokens, the machine of the
//! Gemini compiler's assembly text and traces. See the README of this folder for the machine on one
//! page.

pub mod arch;
mod artifact;
mod bench;
pub mod binary;
mod compare;
mod compile;
mod derive;
mod document;
pub mod files;
mod golden;
pub mod isa;
mod options;
pub mod ports;
pub mod program;
mod read;
pub mod regions;
pub mod replay;
pub mod simulate;
pub mod text;
pub mod time;
pub mod verify;
mod views;
pub mod work;
mod writer;

pub use arch::NpuArch;
pub use artifact::Artifact;

use quincunx_contract::{
    Arch, ArchSource, Claim, Compiled, Compiler, Computing, Document, File, Golden, Info,
    Interface, Log, ModelFile, NotCompiled, Numbers, Numerics, Options, Program, Refused, Target,
};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::execute::bounds::{Precision, Step};
use quincunx_graph::passes::Scheme;
use quincunx_graph::{Graph, Node, Op};
use quincunx_isa::Table as Instructions;
use quincunx_report::Table;

/// The target.
pub static TARGET: Npu = Npu;

/// The npu target.
#[derive(Debug)]
pub struct Npu;

static INFO: Info = Info {
    name: "npu",
    summary: "tiled NPU with nine in-order queues and dependency tokens (Gemini compiler)",
    presets: arch::PRESETS,
    options: options::OPTIONS,
    kinds: artifact::KINDS,
    folder_kind: "bin",
};

impl Target for Npu {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn arch(&self, source: &ArchSource) -> Result<Box<dyn Arch>> {
        Ok(Box::new(NpuArch::from_source(source)?))
    }

    fn compiler(&self) -> Option<&dyn Compiler> {
        Some(self)
    }

    fn companions(&self, file: &File) -> Vec<String> {
        binary::companions(&file.bytes)
    }

    fn read(
        &self,
        files: &[File],
        interface: Option<Interface>,
        arch: &dyn Arch,
        options: &Options,
        log: &mut Log,
    ) -> std::result::Result<Box<dyn Program>, Vec<Diagnostic>> {
        let arch: &NpuArch = arch.of_target()?;
        let artifact = read::read(files, interface, arch, options, &mut log.diagnostics)?;
        Ok(Box::new(artifact))
    }

    fn recognises(&self, file: &File) -> bool {
        read::recognises(file)
    }

    fn model(&self, file: &File) -> std::result::Result<Option<ModelFile>, Vec<Diagnostic>> {
        document::model(file)
    }

    fn document(
        &self,
        file: &File,
        _arch: &dyn Arch,
        _options: &Options,
    ) -> std::result::Result<Option<Document>, Vec<Diagnostic>> {
        Ok(document::document(file))
    }

    fn diff(&self, left: &dyn Program, right: &dyn Program) -> Option<Vec<Table>> {
        let left = left.as_any().downcast_ref()?;
        let right = right.as_any().downcast_ref()?;
        compare::compare(left, right)
    }

    fn isa(&self) -> &'static [&'static Instructions] {
        static TABLES: [&Instructions; 1] = [&isa::TABLE];
        &TABLES
    }

    fn suites(&self) -> &'static [quincunx_contract::bench::Suite] {
        bench::SUITES
    }
}

impl Compiler for Npu {
    fn numbers(&self, _arch: &dyn Arch, _options: &Options) -> Numbers {
        Numbers::Quantised(Scheme::AFFINE_INT8)
    }

    fn claim(
        &self,
        graph: &Graph,
        _arch: &dyn Arch,
        options: &Options,
        refused: &Refused,
    ) -> Result<Vec<Claim>> {
        let network =
            compile::layers::Network::new(graph, refused, options::wishes(options).subset);
        let claim = |id| match network.reasons.get(&id) {
            None => Claim::Device,
            Some(reason) => Claim::Host(reason.clone()),
        };
        Ok(graph.nodes().map(|(id, _)| claim(id)).collect())
    }

    fn compile(
        &self,
        graph: &Graph,
        arch: &dyn Arch,
        options: &Options,
        log: &mut Log,
    ) -> std::result::Result<Compiled, NotCompiled> {
        compile::compile(graph, arch.of_target()?, options::wishes(options), options, log)
    }

    fn prepare(
        &self,
        graph: &Graph,
        _arch: &dyn Arch,
        numerics: &Numerics,
    ) -> Result<Box<dyn Golden>> {
        golden::prepare(graph, numerics)
    }

    /// Weights of products are codes, and sums of codes are scaled in f32; results that are no codes are
    /// halves.
    fn precision(&self, _graph: &Graph, node: &Node, _computing: Computing<'_>) -> Precision {
        let half = Step::float(11);
        let is_product =
            matches!(node.op, Op::Conv(_) | Op::ConvTranspose(_) | Op::Gemm(_) | Op::MatMul);
        let constants = if is_product { Step::NONE } else { half };
        Precision { constants, sums: Step::float(24), results: half, range: None }
    }
}
