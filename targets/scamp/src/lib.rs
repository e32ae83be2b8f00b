//! The scamp target: SCAMP-5, a camera whose pixels compute, and the programs of Cain and AUKE for
//! it.
//!
//! A program is one stream of instructions for all elements of an array. Analogue values are summed
//! and halved on a bus in each element; macros stand for bus steps. See the README of this folder for
//! the machine in one page.

pub mod arch;
mod artifact;
mod document;
pub mod expand;
pub mod files;
pub mod fix;
pub mod goal;
pub mod isa;
pub mod meaning;
mod options;
pub mod program;
pub mod readout;
pub mod simulate;
pub mod symbolic;
pub mod text;
pub mod time;
pub mod verify;

pub use arch::ScampArch;
pub use artifact::Artifact;

use files::{KernelFile, read_kernels};
use options::Chosen;
use quincunx_contract::{
    Arch, ArchSource, Document, File, Info, Interface, Log, Options, Program, Target,
};
use quincunx_diag::{Diagnostic, Result, SourceId};
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
    own_grid: false,
    folder_kind: "asm",
    compiler: false,
};

static TABLES: &[&Table] = &[&isa::TABLE, &text::CSIM];

/// True for JSON that says it is Cain's.
fn is_kernel_file(text: &str) -> bool {
    text.trim_start().starts_with('{')
        && ["\"target\"", "\"scamp5\"", "\"filter\""].iter().all(|word| text.contains(word))
}

fn kernels(file: &File) -> std::result::Result<KernelFile, Vec<Diagnostic>> {
    let text = file.text()?;
    read_kernels(text).map_err(|problem| problem.name_file(&file.name).into())
}

/// The files of a program.
struct Sorted<'a> {
    /// Text of the program.
    program: &'a str,
    /// Its place among the files.
    index: usize,
    /// The kernel file beside it.
    kernel: Option<&'a File>,
}

/// The program among the files, and the kernel file if there is one.
fn sort_files(files: &[File]) -> std::result::Result<Sorted<'_>, Vec<Diagnostic>> {
    let (mut program, mut kernel) = (None, None);
    for (index, file) in files.iter().enumerate() {
        let text = file.text()?;
        let taken = match is_kernel_file(text) {
            true => kernel.replace(file).is_some(),
            false => program.replace((index, text)).is_some(),
        };
        if taken {
            let message = "expected one program, and one kernel file at most";
            return Err(Diagnostic::usage("Q5073", message).in_file(&file.name).into());
        }
    }
    let Some((index, program)) = program else {
        let problem = Diagnostic::unsupported("Q5074", "a kernel file is no program");
        return Err(problem
            .help("inspect shows it; give it beside a program to verify that")
            .into());
    };
    Ok(Sorted { program, index, kernel })
}

impl Target for Scamp {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn arch(&self, source: &ArchSource) -> Result<Box<dyn Arch>> {
        Ok(Box::new(ScampArch::from_source(source)?))
    }

    fn read(
        &self,
        files: &[File],
        interface: Option<Interface>,
        arch: &dyn Arch,
        options: &Options,
        log: &mut Log,
    ) -> std::result::Result<Box<dyn Program>, Vec<Diagnostic>> {
        let arch: &ScampArch = arch.of_target()?;
        let chosen = Chosen::new(options, arch)?;
        let Sorted { program: source, index, kernel } = sort_files(files)?;
        let wanted = kernel.map(kernels).transpose()?;
        let source_id = SourceId(u32::try_from(index).unwrap_or(u32::MAX));
        let mut listing = text::read(source, source_id)?;
        if chosen.fix {
            let (program, notes) = fix::fix(&listing.program, arch);
            let spans = std::mem::take(&mut listing.spans);
            log.diagnostics.extend(notes.into_iter().map(|note| artifact::located(note, &spans)));
            listing.program = program;
        }
        let artifact = Artifact::new(listing, arch, chosen, wanted, interface)?;
        Ok(Box::new(artifact))
    }

    fn recognises(&self, file: &File) -> bool {
        file.text().is_ok_and(|text| is_kernel_file(text) || text::recognises(text))
    }

    fn document(
        &self,
        file: &File,
        arch: &dyn Arch,
        options: &Options,
    ) -> std::result::Result<Option<Document>, Vec<Diagnostic>> {
        if !file.text().is_ok_and(is_kernel_file) {
            return Ok(None);
        }
        let arch: &ScampArch = arch.of_target()?;
        let chosen = Chosen::new(options, arch)?;
        let kernels = kernels(file)?;
        let document = document::document(&kernels, chosen.height, chosen.width);
        document.map(Some).map_err(|problem| problem.name_file(&file.name).into())
    }

    fn isa(&self) -> &'static [&'static Table] {
        TABLES
    }
}
