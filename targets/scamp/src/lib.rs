//! The scamp target: SCAMP-5, a camera whose pixels compute, and the programs of Cain and AUKE for
//! it.
//!
//! A program is one stream of instructions for all elements of an array. Analogue values are summed
//! and halved on a bus in each element; macros stand for bus steps. See the README of this folder
//! for the machine on one page.

pub mod arch;
mod artifact;
pub mod auke;
mod bench;
pub mod bus;
pub mod cain;
mod compile;
mod digital;
mod document;
pub mod expand;
pub mod files;
pub mod fix;
pub mod goal;
mod golden;
pub mod isa;
pub mod meaning;
mod options;
mod ports;
mod precision;
pub mod program;
mod read;
pub mod readout;
pub mod search;
pub mod simulate;
pub mod symbolic;
pub mod task;
pub mod text;
pub mod time;
pub mod verify;
mod views;

pub use arch::ScampArch;
pub use artifact::Artifact;

use quincunx_contract::{
    Arch, ArchSource, Claim, Compiled, Compiler, Computing, Document, File, Golden, Info,
    Interface, Log, ModelFile, NotCompiled, Numbers, Numerics, Options, Program, Refused, Target,
};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::execute::bounds::Precision;
use quincunx_graph::{Graph, Node};
use quincunx_isa::Table;

/// The target.
pub static TARGET: Scamp = Scamp;

/// The scamp target.
#[derive(Debug)]
pub struct Scamp;

static INFO: Info = Info {
    name: "scamp",
    summary: "SCAMP-5 focal-plane sensor-processor (Cain, AUKE)",
    presets: arch::PRESETS,
    options: options::OPTIONS,
    kinds: artifact::KINDS,
    folder_kind: "asm",
};

static TABLES: &[&Table] = &[&isa::TABLE, &text::CSIM];

impl Target for Scamp {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn arch(&self, source: &ArchSource) -> Result<Box<dyn Arch>> {
        Ok(Box::new(ScampArch::from_source(source)?))
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
        Ok(Box::new(read::read(files, interface, arch.of_target()?, options, log)?))
    }

    fn recognises(&self, file: &File) -> bool {
        read::recognises(file)
    }

    fn has_parts(&self, file: &File) -> bool {
        file.text().is_ok_and(files::is_filter_list)
    }

    fn model(&self, file: &File) -> std::result::Result<Option<ModelFile>, Vec<Diagnostic>> {
        document::model(file)
    }

    fn document(
        &self,
        file: &File,
        arch: &dyn Arch,
        options: &Options,
    ) -> std::result::Result<Option<Document>, Vec<Diagnostic>> {
        document::document(file, arch.of_target()?, options)
    }

    fn isa(&self) -> &'static [&'static Table] {
        TABLES
    }

    fn suites(&self) -> &'static [quincunx_contract::bench::Suite] {
        bench::SUITES
    }
}

impl Compiler for Scamp {
    fn numbers(&self, _arch: &dyn Arch, _options: &Options) -> Numbers {
        Numbers::Own { formats: Vec::new(), rescale: false }
    }

    fn claim(
        &self,
        graph: &Graph,
        arch: &dyn Arch,
        options: &Options,
        refused: &Refused,
    ) -> Result<Vec<Claim>> {
        compile::claim(graph, arch.of_target()?, options, refused)
    }

    fn compile(
        &self,
        graph: &Graph,
        arch: &dyn Arch,
        options: &Options,
        log: &mut Log,
    ) -> std::result::Result<Compiled, NotCompiled> {
        compile::compile(graph, arch.of_target()?, options, log)
    }

    fn prepare(
        &self,
        graph: &Graph,
        _arch: &dyn Arch,
        numerics: &Numerics,
    ) -> Result<Box<dyn Golden>> {
        golden::prepare(graph, numerics)
    }

    fn precision(&self, graph: &Graph, node: &Node, computing: Computing<'_>) -> Precision {
        precision::precision(graph, node, computing.numerics)
    }
}
