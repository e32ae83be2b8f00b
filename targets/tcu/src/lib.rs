//! The tcu target: the Tensil tensor compute unit.
//!
//! A systolic array multiplies vectors of a local memory by weights into accumulators; SIMD ALUs
//! work on the accumulators; DataMove instructions connect everything with two DRAM banks. See the
//! README of this folder for the machine in one page.

pub mod arch;
mod artifact;
pub mod binary;
mod document;
pub mod files;
pub mod isa;
pub mod package;
mod ports;
pub mod program;
mod read;
mod session;
mod settings;
pub mod simulate;
pub mod text;
pub mod time;
pub mod verify;

pub use arch::TcuArch;
pub use artifact::Artifact;

use quincunx_diag::{Diagnostic, Result};
use quincunx_isa::Table;
use quincunx_target::{
    Arch, ArchSource, Document, File, Info, Interface, Log, Options, Program, Target,
};
use settings::Settings;

/// The target.
pub static TARGET: Tcu = Tcu;

/// The tcu target.
#[derive(Debug)]
pub struct Tcu;

static INFO: Info = Info {
    name: "tcu",
    summary: "systolic array with accumulators and SIMD ALUs (Tensil)",
    presets: arch::PRESETS,
    options: settings::OPTIONS,
    kinds: artifact::KINDS,
    compiler: false,
};

impl Target for Tcu {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn arch(&self, source: &ArchSource) -> Result<Box<dyn Arch>> {
        Ok(Box::new(TcuArch::from_source(source)?))
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
}
