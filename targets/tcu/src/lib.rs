//! The tcu target: the Tensil tensor compute unit.
//!
//! A systolic array multiplies vectors of a local memory by weights into accumulators; SIMD ALUs
//! work on the accumulators; DataMove instructions connect everything with two DRAM banks. See the
//! README of this folder for the machine on one page.

#[deny(clippy::arithmetic_side_effects)]
pub mod arch;
mod artifact;
mod bench;
#[deny(clippy::arithmetic_side_effects)]
pub mod binary;
pub mod bound;
pub mod compile;
#[deny(clippy::arithmetic_side_effects)]
mod document;
#[deny(clippy::arithmetic_side_effects)]
pub mod files;
mod golden;
pub mod guide {
    #![doc = include_str!("../../../docs/machines/tcu-builders.md")]
}
#[deny(clippy::arithmetic_side_effects)]
pub mod isa;
mod options;
#[deny(clippy::arithmetic_side_effects)]
pub mod package;
mod ports;
#[deny(clippy::arithmetic_side_effects)]
pub mod program;
#[deny(clippy::arithmetic_side_effects)]
mod read;
pub mod simulate;
#[deny(clippy::arithmetic_side_effects)]
pub mod text;
pub mod time;
#[deny(clippy::arithmetic_side_effects)]
pub mod verify;
mod views;

pub use arch::TcuArch;
pub use artifact::Artifact;

use arch::DataType;
use options::Settings;
use quincunx_contract::{
    Arch, ArchSource, Claim, Compiled, Compiler, Computing, Document, File, Format, Golden, Info,
    Interface, Log, NotCompiled, Numbers, Numerics, Options, Program, Refused, Target,
};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::execute::bounds::{Precision, Step};
use quincunx_graph::{Graph, Node};
use quincunx_isa::Table;

/// The target.
pub static TARGET: Tcu = Tcu;

/// The tcu target.
#[derive(Debug)]
pub struct Tcu;

static INFO: Info = Info {
    name: "tcu",
    summary: "systolic array with accumulators and SIMD ALUs (Tensil)",
    presets: arch::PRESETS,
    options: options::OPTIONS,
    kinds: artifact::KINDS,
    folder_kind: "tmodel",
};

impl Target for Tcu {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn arch(&self, source: &ArchSource) -> Result<Box<dyn Arch>> {
        Ok(Box::new(TcuArch::from_source(source)?))
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
        let arch: &TcuArch = arch.of_target()?;
        let (package, warnings) = read::read(files, arch, options.flag("lenient"))?;
        log.diagnostics.extend(warnings);
        let settings = Settings::new(options, &package)?;
        Ok(Box::new(Artifact::new(package, settings, interface)?))
    }

    fn recognises(&self, file: &File) -> bool {
        read::recognises(file)
    }

    fn companions(&self, file: &File) -> Vec<String> {
        read::companions(file)
    }

    fn document(
        &self,
        file: &File,
        arch: &dyn Arch,
        options: &Options,
    ) -> std::result::Result<Option<Document>, Vec<Diagnostic>> {
        document::document(file, arch.of_target()?, options).map_err(Vec::from)
    }

    fn isa(&self) -> &'static [&'static Table] {
        static TABLES: &[&Table] = &[&isa::TABLE];
        TABLES
    }

    fn suites(&self) -> &'static [quincunx_contract::bench::Suite] {
        bench::SUITES
    }
}

impl Compiler for Tcu {
    fn numbers(&self, arch: &dyn Arch, options: &Options) -> Numbers {
        // The machine has one format for everything, and constants become it exactly as here.
        let own = arch.of_target::<TcuArch>().map(|arch| arch.data_type).ok();
        let others = DataType::ALL.into_iter().filter(|&other| Some(other) != own);
        let format = |data_type: DataType| {
            let grid = ports::grid(data_type).quantiser().cloned();
            grid.map(|grid| Format { name: data_type.name(), grid })
        };
        let is_fixed = own.is_some_and(|own| own.binary_point().is_some());
        let formats = own.into_iter().chain(others).filter(|_| is_fixed).filter_map(format);
        Numbers::Own { formats: formats.collect(), rescale: options::rescales(options) }
    }

    fn precision(&self, _graph: &Graph, _node: &Node, computing: Computing<'_>) -> Precision {
        let numbers = self.numbers(computing.arch, computing.options);
        match &numbers {
            Numbers::Own { formats, .. } if formats.is_empty() => {
                let held = Step::float(24);
                Precision { constants: held, sums: held, results: held, range: None }
            }
            _ => numbers.precision(),
        }
    }

    fn claim(
        &self,
        graph: &Graph,
        arch: &dyn Arch,
        options: &Options,
        _refused: &Refused,
    ) -> Result<Vec<Claim>> {
        Ok(compile::claim::claim(graph, arch.of_target()?, options::approximate(options)))
    }

    fn compile(
        &self,
        graph: &Graph,
        arch: &dyn Arch,
        options: &Options,
        log: &mut Log,
    ) -> std::result::Result<Compiled, NotCompiled> {
        let arch: &TcuArch = arch.of_target()?;
        let compiled = compile::compile(graph, arch, &options::wishes(options)?, log)?;
        let compile::Compiled { package, interface, numerics, comments } = compiled;
        let artifact = Artifact::of_package(package, Some(interface), comments, options)?;
        Ok(Compiled { program: Box::new(artifact), numerics })
    }

    fn prepare(
        &self,
        graph: &Graph,
        _arch: &dyn Arch,
        numerics: &Numerics,
    ) -> Result<Box<dyn Golden>> {
        golden::prepare(graph, numerics)
    }

    fn file_stem(&self, model: &str, arch: &dyn Arch) -> Option<String> {
        Some(files::stem(model, arch.name()))
    }
}
