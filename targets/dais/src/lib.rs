//! The dais target: distributed-arithmetic programs for FPGAs, the machine of da4ml and alkaid.
//!
//! A program is one block of combinational logic: an SSA list of shifts, adds and a few other
//! operations on fixed-point numbers. See the README of this folder for the machine in one page.

pub mod arch;
mod artifact;
mod bench;
pub mod binary;
mod compile;
pub mod files;
mod golden;
pub mod isa;
pub mod program;
pub mod rtl;
pub mod simulate;
mod tap;
pub mod text;
pub mod time;
pub mod verify;
mod views;
pub mod words;

pub use arch::DaisArch;
pub use artifact::Artifact;
pub use compile::product::constant_product;

pub use compile::pipeline::{Cutoff, Staged, register_bits, to_pipeline};

use artifact::{read_files, stage};
use binary::Dialect;
use compile::{Precision, Settings};
use files::Pipeline;
use quincunx_contract::{
    Arch, ArchSource, Claim, Compiled, File, Info, Interface, Log, Numerics, OptionInfo, Options,
    Program, Target,
};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::Graph;
use quincunx_isa::Table;
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
    folder_kind: "asm",
};

/// The instruction tables.
static TABLES: [&Table; 1] = [&isa::TABLE];

const OPTIONS: &[OptionInfo] = &[
    OptionInfo {
        name: "dialect",
        doc: "layout of machine code; auto writes that of the architecture and guesses when reading",
        default: "auto",
        values: &["auto", "d0", "d0-doc", "d1-v0", "d1", "a4"],
    },
    OptionInfo {
        name: "to",
        doc: "dialect to convert to; auto keeps what was read or compiled",
        default: "auto",
        values: &["auto", "d0", "d0-doc", "d1-v0", "d1", "a4"],
    },
    OptionInfo {
        name: "keep-layers",
        doc: "keep every layer observable, even operations no output needs",
        default: "false",
        values: &["true", "false"],
    },
    OptionInfo {
        name: "softmax-bits",
        doc: "bits to which the results of a softmax are right; more bits are larger tables",
        default: "8",
        values: &["4", "5", "6", "7", "8", "9", "10", "11", "12"],
    },
    OptionInfo {
        name: "effort",
        doc: "how hard products with constant matrices are searched for few adders",
        default: "default",
        values: &["fast", "default", "max"],
    },
    OptionInfo {
        name: "depth-slack",
        doc: "adder levels a product may have above the fewest possible; -1 for any number",
        default: "-1",
        values: &[],
    },
    OptionInfo {
        name: "latency-cutoff",
        doc: "divide programs into stages that take no longer than this, in adder levels; pipelines stay as they are",
        default: "none",
        values: &[],
    },
    OptionInfo {
        name: "retiming",
        doc: "balance the stages and move operations to where registers hold fewer bits",
        default: "true",
        values: &["true", "false"],
    },
    OptionInfo {
        name: "dump-buffer",
        doc: "an output `buffer` more: the values of all slots",
        default: "false",
        values: &["true", "false"],
    },
    OptionInfo {
        name: "lenient",
        doc: "read files whose unused operands are not -1, with warnings",
        default: "false",
        values: &["true", "false"],
    },
    rtl::OPTIONS[0],
    rtl::OPTIONS[1],
    rtl::OPTIONS[2],
    rtl::OPTIONS[3],
    rtl::OPTIONS[4],
    rtl::OPTIONS[5],
    rtl::OPTIONS[6],
    rtl::OPTIONS[7],
    rtl::OPTIONS[8],
];

/// The dialect that an option, `dialect` or `to`, asks for.
fn dialect_option(options: &Options, name: &str) -> Result<Option<Dialect>> {
    match options.get(name) {
        "auto" => Ok(None),
        name => Dialect::from_name(name).map(Some),
    }
}

/// The cutoff that options ask for.
fn cutoff_option(options: &Options) -> Result<Option<Cutoff>> {
    Cutoff::parse(options.get("latency-cutoff"), options.flag("retiming"))
}

impl Dais {
    /// A compiled program.
    fn artifact(
        graph: &Graph,
        arch: &DaisArch,
        options: &Options,
        log: &mut Log,
    ) -> Result<(Artifact, Numerics)> {
        let wanted = dialect_option(options, "to")?.or(dialect_option(options, "dialect")?);
        let dialect = wanted.unwrap_or(arch.dialect);
        let bits = options.get("softmax-bits").parse().unwrap_or(Precision::DEFAULT.0);
        let (effort, slack) = (options.get("effort"), options.get("depth-slack"));
        let settings = Settings {
            keep_layers: options.flag("keep-layers"),
            precision: Precision(bits),
            cmvm: compile::cmvm::Settings::from_options(effort, slack)?,
        };
        let compiled = compile::compile(graph, arch, settings, log)?;
        let mut pipeline = Pipeline::from(compiled.program);
        let mut interface = Some(compiled.interface);
        if let Some(cutoff) = cutoff_option(options)? {
            stage(&mut pipeline, &mut interface, cutoff)?;
            let count = pipeline.stages.len();
            log.pass("pipeline", format!("{count} stages"), || text::print_pipeline(&pipeline));
        }
        let (mut pipeline, mut interface) = artifact::in_dialect(pipeline, interface, dialect)?;
        if options.flag("dump-buffer") {
            (pipeline, interface) = artifact::with_buffer(pipeline, interface)?;
        }
        let artifact = Artifact::new(pipeline, interface, dialect, arch.max_width)?
            .with_rtl(rtl::Settings::new(options)?);
        Ok((artifact, golden::numerics(bits)))
    }
}

impl Target for Dais {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn arch(&self, source: &ArchSource) -> Result<Box<dyn Arch>> {
        Ok(Box::new(DaisArch::from_source(source)?))
    }

    fn claim(&self, graph: &Graph, arch: &dyn Arch) -> Vec<Claim> {
        match arch.of_target() {
            Ok(arch) => compile::claim::claim(graph, arch),
            Err(problem) => {
                let refuse = |_| Claim::Host(problem.message().to_owned());
                graph.nodes().map(refuse).collect()
            }
        }
    }

    fn compile(
        &self,
        graph: &Graph,
        arch: &dyn Arch,
        options: &Options,
        log: &mut Log,
    ) -> std::result::Result<Compiled, Vec<Diagnostic>> {
        let arch: &DaisArch = arch.of_target()?;
        let (artifact, numerics) = Dais::artifact(graph, arch, options, log)?;
        Ok(Compiled { program: Box::new(artifact), numerics })
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
        let wanted = dialect_option(options, "dialect")?;
        let (mut pipeline, read, warnings) = read_files(files, wanted, options.flag("lenient"))?;
        log.diagnostics.extend(warnings);
        let mut dialect = wanted.or(read).unwrap_or(arch.dialect);
        let mut interface = interface;
        let name = |problem: Diagnostic| problem.name_file(files.first().map_or("", |f| &f.name));
        if let Some(cutoff) = cutoff_option(options)? {
            let warnings = stage(&mut pipeline, &mut interface, cutoff).map_err(name)?;
            log.diagnostics.extend(warnings);
        }
        if let Some(to) = dialect_option(options, "to")? {
            (pipeline, interface) = artifact::in_dialect(pipeline, interface, to).map_err(name)?;
            dialect = to;
        }
        if options.flag("dump-buffer") {
            (pipeline, interface) = artifact::with_buffer(pipeline, interface).map_err(name)?;
        }
        let artifact = Artifact::new(pipeline, interface, dialect, arch.max_width)
            .map_err(name)?
            .with_rtl(rtl::Settings::new(options)?);
        Ok(Box::new(artifact))
    }

    fn recognises(&self, file: &File) -> bool {
        artifact::recognises(file)
    }

    fn suites(&self) -> &'static [quincunx_contract::bench::Suite] {
        bench::SUITES
    }

    fn isa(&self) -> &'static [&'static Table] {
        &TABLES
    }
}
