//! The npu target: a tiled NPU with nine in-order queues and dependency tokens, the machine of the
//! Gemini compiler's assembly text and traces. See the README of this folder for the machine in one
//! page.

pub mod arch;
mod artifact;
mod bench;
pub mod binary;
mod compare;
pub mod files;
pub mod isa;
pub mod ports;
pub mod program;
pub mod regions;
pub mod replay;
pub mod simulate;
pub mod text;
pub mod time;
pub mod verify;
pub mod work;

pub use arch::NpuArch;
pub use artifact::Artifact;

use quincunx_contract::{
    Arch, ArchSource, Document, File, Info, Interface, Log, OptionInfo, Options, Program, Target,
};
use quincunx_diag::{Diagnostic, Result};
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
    options: OPTIONS,
    kinds: artifact::KINDS,
    own_grid: false,
    folder_kind: "bin",
    compiler: false,
};

const OPTIONS: &[OptionInfo] = &[
    OptionInfo {
        name: "lenient",
        doc: "read members that the table does not know and parts left out as {...}, with warnings",
        default: "false",
        values: &["true", "false"],
    },
    OptionInfo {
        name: "ports",
        doc: "inputs and outputs: the tensors that the program moves, or DRAM as raw bytes",
        default: "tensors",
        values: &["tensors", "raw"],
    },
    OptionInfo {
        name: "accumulate",
        doc: "sums of convolutions: whole numbers, or f32 numbers that take up eight products at a time",
        default: "int",
        values: &["int", "f32"],
    },
    OptionInfo {
        name: "vp-batch-stride",
        doc: "addresses of images of a batch in the vector queue: as in the text, or advanced",
        default: "text",
        values: &["text", "implicit"],
    },
    OptionInfo {
        name: "timing",
        doc: "cycles: those of the original tool's traces, or with every image and move counted",
        default: "upstream",
        values: &["upstream", "physical"],
    },
    OptionInfo {
        name: "vp-cost",
        doc: "cycles of vector work on a batch: as timing says, counted once, or per image",
        default: "auto",
        values: &["auto", "upstream", "per-image"],
    },
    OptionInfo {
        name: "durations",
        doc: "cycles of lines: of the trace if the file is one, of the model, or of the trace",
        default: "auto",
        values: &["auto", "model", "traced"],
    },
    OptionInfo {
        name: "side",
        doc: "machine code is followed by what words cannot hold: maps, times, exact numbers",
        default: "true",
        values: &["true", "false"],
    },
];

impl Target for Npu {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn arch(&self, source: &ArchSource) -> Result<Box<dyn Arch>> {
        Ok(Box::new(NpuArch::from_source(source)?))
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
        let artifact = artifact::read(files, interface, arch, options, &mut log.diagnostics)?;
        Ok(Box::new(artifact))
    }

    fn recognises(&self, file: &File) -> bool {
        binary::recognises(&file.bytes)
            || text::recognises(&file.bytes)
            || document_of(file).is_some()
    }

    fn document(
        &self,
        file: &File,
        _arch: &dyn Arch,
        _options: &Options,
    ) -> std::result::Result<Option<Document>, Vec<Diagnostic>> {
        let Some(file) = document_of(file) else { return Ok(None) };
        Ok(Some(Document {
            kind: file.kind.name().to_owned(),
            tables: file.tables(),
            texts: Vec::new(),
            problems: file.validate(),
        }))
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

/// The JSON file of this ecosystem that a file is; `None` when it is something else, such as text
/// that is no JSON.
fn document_of(file: &File) -> Option<files::IrFile> {
    let start = file.bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    if start != Some(&b'{') {
        return None;
    }
    files::read(&file.bytes).ok().filter(|file| file.kind != files::Kind::Unknown)
}
