//! The dpas target: the systolic matrix instruction of Intel Xe, native and virtual.
//!
//! A program is a native listing or a vISA kernel. See the README of this folder for the machine on
//! one page.

pub mod arch;
mod artifact;
mod bench;
pub mod binary;
pub mod files;
pub mod isa;
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

pub use arch::DpasArch;
pub use artifact::Artifact;
pub use options::Settings;

use quincunx_contract::{Arch, ArchSource, File, Info, Interface, Log, Options, Program, Target};
use quincunx_diag::{Diagnostic, Result};
use quincunx_isa::Table;

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
    folder_kind: "bin",
};

impl Target for Dpas {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn arch(&self, source: &ArchSource) -> Result<Box<dyn Arch>> {
        Ok(Box::new(DpasArch::from_source(source)?))
    }

    fn read(
        &self,
        files: &[File],
        interface: Option<Interface>,
        arch: &dyn Arch,
        options: &Options,
        log: &mut Log,
    ) -> std::result::Result<Box<dyn Program>, Vec<Diagnostic>> {
        Ok(Box::new(read::read(files, interface.as_ref(), arch.of_target()?, options, log)?))
    }

    fn recognises(&self, file: &File) -> bool {
        files::format(file, arch::Platform::XeHpg).is_some()
    }

    fn isa(&self) -> &'static [&'static Table] {
        isa::TABLES
    }

    fn suites(&self) -> &'static [quincunx_contract::bench::Suite] {
        bench::SUITES
    }
}
