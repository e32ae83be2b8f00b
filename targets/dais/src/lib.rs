//! The dais target: distributed-arithmetic programs for FPGAs, the machine of da4ml and alkaid.
//!
//! A program is one block of combinational logic: an SSA list of shifts, adds and a few other
//! operations on fixed-point numbers. See the README of this folder for the machine in one page.

pub mod arch;
mod artifact;
pub mod binary;
mod compile;
pub mod files;
mod golden;
pub mod isa;
pub mod program;
pub mod simulate;
mod tap;
pub mod text;
mod time;
pub mod verify;

pub use arch::DaisArch;
pub use artifact::Artifact;

use artifact::read_file;
use binary::Dialect;
use files::Pipeline;
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::Graph;
use quincunx_isa::Table;
use quincunx_target::{
    Arch, ArchSource, Claim, Compiled, File, Info, Interface, Log, Numerics, OptionInfo, Options,
    Program, Target,
};
use quincunx_tensor::Tensors;

/// The target.
pub static TARGET: Dais = Dais;

/// The dais target.
#[derive(Debug)]
pub struct Dais;

static INFO: Info = Info {
    name: "dais",
    summary: "distributed-arithmetic adder graphs for FPGAs (da4ml, alkaid)",
    presets: arch::PRESETS,
    compiler: true,
    options: OPTIONS,
    kinds: artifact::KINDS,
    own_grid: false,
    folder_kind: "bin",
};

/// The instruction tables.
static TABLES: [&Table; 1] = [&isa::TABLE];

const OPTIONS: &[OptionInfo] = &[
    OptionInfo {
        name: "dialect",
        doc: "layout of machine code; auto writes that of the architecture and guesses when reading",
        default: "auto",
        values: &["auto", "d0", "d0-doc", "d1-v0", "d1"],
    },
    OptionInfo {
        name: "keep-layers",
        doc: "keep every layer observable, even operations no output needs",
        default: "false",
        values: &["true", "false"],
    },
    OptionInfo {
        name: "lenient",
        doc: "read files whose unused operands are not -1, with warnings",
        default: "false",
        values: &["true", "false"],
    },
];

/// The dialect an option asks for.
fn dialect_option(options: &Options) -> Result<Option<Dialect>> {
    match options.get("dialect") {
        "auto" => Ok(None),
        name => Dialect::from_name(name).map(Some),
    }
}

impl Target for Dais {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn arch(&self, source: &ArchSource) -> Result<Box<dyn Arch>> {
        Ok(Box::new(DaisArch::from_source(source)?))
    }

    fn claim(&self, graph: &Graph, _arch: &dyn Arch) -> Vec<Claim> {
        compile::claim::claim(graph)
    }

    fn compile(
        &self,
        graph: &Graph,
        arch: &dyn Arch,
        options: &Options,
        log: &mut Log,
    ) -> std::result::Result<Compiled, Vec<Diagnostic>> {
        let arch: &DaisArch = arch.of_target()?;
        let dialect = dialect_option(options)?.unwrap_or(arch.dialect);
        let keep_layers = options.flag("keep-layers");
        let compiled = compile::compile(graph, arch, keep_layers, log)?;
        let pipeline = Pipeline::from(compiled.program);
        let interface = Some(compiled.interface);
        let artifact = Artifact::new(pipeline, interface, dialect, arch.max_width)?;
        Ok(Compiled { program: Box::new(artifact), numerics: golden::numerics() })
    }

    fn golden(&self, graph: &Graph, numerics: &Numerics, inputs: &Tensors) -> Result<Tensors> {
        golden::golden(graph, numerics, inputs)
    }

    fn read(
        &self,
        files: &[File],
        interface: Option<Interface>,
        arch: &dyn Arch,
        options: &Options,
        log: &mut Log,
    ) -> std::result::Result<Box<dyn Program>, Vec<Diagnostic>> {
        let arch: &DaisArch = arch.of_target()?;
        let [file] = files else {
            let message = format!("a dais program is one file, found {}", files.len());
            return Err(Diagnostic::usage("Q1129", message).into());
        };
        let wanted = dialect_option(options)?;
        let (pipeline, dialect, warnings) = read_file(file, wanted, options.flag("lenient"))?;
        log.diagnostics.extend(warnings);
        let dialect = wanted.or(dialect).unwrap_or(arch.dialect);
        let artifact = Artifact::new(pipeline, interface, dialect, arch.max_width)
            .map_err(|problem| problem.name_file(&file.name))?;
        Ok(Box::new(artifact))
    }

    fn recognises(&self, file: &File) -> bool {
        artifact::recognises(file)
    }

    fn isa(&self) -> &'static [&'static Table] {
        &TABLES
    }
}
