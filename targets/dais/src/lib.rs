//! The dais target: distributed-arithmetic programs for FPGAs, the machine of da4ml and alkaid.
//!
//! A program is one block of combinational logic: an SSA list of shifts, adds and a few other
//! operations on fixed-point numbers. See the README of this folder for the machine in one page.

pub mod arch;
mod artifact;
mod bench;
#[deny(clippy::arithmetic_side_effects)]
pub mod binary;
mod compile;
#[deny(clippy::arithmetic_side_effects)]
pub mod files;
mod golden;
pub mod hls;
#[deny(clippy::arithmetic_side_effects)]
pub mod isa;
mod options;
mod ports;
#[deny(clippy::arithmetic_side_effects)]
pub mod program;
#[deny(clippy::arithmetic_side_effects)]
mod read;
pub mod rtl;
pub mod simulate;
mod tap;
#[deny(clippy::arithmetic_side_effects)]
pub mod text;
pub mod time;
#[deny(clippy::arithmetic_side_effects)]
pub mod verify;
mod views;
#[deny(clippy::arithmetic_side_effects)]
pub mod words;

pub use arch::DaisArch;
pub use artifact::Artifact;
pub use compile::cmvm::Effort;
pub use compile::product::{Product, ProductInput, constant_product};

pub use compile::pipeline::{Cutoff, Staged, register_bits, to_pipeline};

use artifact::stage;
use compile::Settings;
use program::Pipeline;
use quincunx_contract::{
    Arch, ArchSource, Claim, Compiled, Compiler, File, Golden, Info, Interface, Log, NotCompiled,
    Numbers, Numerics, Options, Program, Refused, Target,
};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::Graph;
use quincunx_graph::passes::Scheme;
use quincunx_isa::Table;

/// The target.
pub static TARGET: Dais = Dais;

/// The dais target.
#[derive(Debug)]
pub struct Dais;

static INFO: Info = Info {
    name: "dais",
    summary: "distributed-arithmetic adder graphs for FPGAs (da4ml, alkaid)",
    presets: arch::PRESETS,
    options: options::OPTIONS,
    kinds: artifact::KINDS,
    folder_kind: "asm",
};

/// The instruction tables.
static TABLES: [&Table; 1] = [&isa::TABLE];

impl Dais {
    /// A compiled program.
    fn artifact(
        graph: &Graph,
        arch: &DaisArch,
        options: &Options,
        log: &mut Log,
    ) -> std::result::Result<(Artifact, Numerics), NotCompiled> {
        let wanted = options::dialect(options, "to")?.or(options::dialect(options, "dialect")?);
        let dialect = wanted.unwrap_or(arch.dialect);
        let precision = options::precision(options);
        let settings = Settings {
            keep_layers: options.flag("keep-layers"),
            exact_outputs: options.flag("exact-outputs"),
            precision,
            cmvm: compile::cmvm::Settings::new(options),
        };
        let compiled = compile::compile(graph, arch, settings, log)?;
        let mut pipeline = Pipeline::from(compiled.program);
        let mut interface = Some(compiled.interface);
        if let Some(cutoff) = options::cutoff(options) {
            log.diagnostics.extend(stage(&mut pipeline, &mut interface, cutoff)?);
            let count = pipeline.stages.len();
            log.pass("pipeline", format!("{count} stages"), || text::print_pipeline(&pipeline));
        }
        let (mut pipeline, mut interface) = artifact::in_dialect(pipeline, interface, dialect)?;
        if options.flag("dump-buffer") {
            (pipeline, interface) = artifact::with_buffer(pipeline, interface)?;
        }
        let artifact = Artifact::new(pipeline, interface, dialect, arch.max_width)?
            .with_rtl(rtl::Settings::new(options)?);
        Ok((artifact, golden::numerics(precision.0)))
    }
}

impl Target for Dais {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn arch(&self, source: &ArchSource) -> Result<Box<dyn Arch>> {
        Ok(Box::new(DaisArch::from_source(source)?))
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
        let artifact = read::read(files, interface, arch.of_target()?, options, log)?;
        Ok(Box::new(artifact))
    }

    fn recognises(&self, file: &File) -> bool {
        read::recognises(file)
    }

    fn suites(&self) -> &'static [quincunx_contract::bench::Suite] {
        bench::SUITES
    }

    fn isa(&self) -> &'static [&'static Table] {
        &TABLES
    }
}

impl Compiler for Dais {
    fn numbers(&self, _arch: &dyn Arch, _options: &Options) -> Numbers {
        Numbers::Quantised(Scheme::POWER_OF_TWO_8)
    }

    fn claim(
        &self,
        graph: &Graph,
        arch: &dyn Arch,
        options: &Options,
        refused: &Refused,
    ) -> Result<Vec<Claim>> {
        Ok(compile::claim::claim(graph, arch.of_target()?, options::limits(options), refused))
    }

    fn compile(
        &self,
        graph: &Graph,
        arch: &dyn Arch,
        options: &Options,
        log: &mut Log,
    ) -> std::result::Result<Compiled, NotCompiled> {
        let (artifact, numerics) = Dais::artifact(graph, arch.of_target()?, options, log)?;
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
}
