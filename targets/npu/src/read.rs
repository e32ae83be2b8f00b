//! Native files to programs.

use crate::arch::NpuArch;
use crate::artifact::Artifact;
use crate::binary;
use crate::document::ir_file;
use crate::program::Program;
use crate::text::{self, Schema};
use quincunx_contract::{File, Interface, Options, Program as _};
use quincunx_diag::{Diagnostic, SourceId};

/// True when a file looks like one of this target's.
pub(crate) fn recognises(file: &File) -> bool {
    binary::recognises(&file.bytes) || text::recognises(&file.bytes) || ir_file(file).is_some()
}

/// Reads one file per core.
pub(crate) fn read(
    files: &[File],
    interface: Option<Interface>,
    arch: &NpuArch,
    options: &Options,
    warnings: &mut Vec<Diagnostic>,
) -> std::result::Result<Artifact, Vec<Diagnostic>> {
    let one = |problem: Diagnostic| vec![problem];
    if files.is_empty() || files.len() > 64 {
        let message =
            format!("an npu program is one file per core, 1 to 64, found {}", files.len());
        return Err(one(Diagnostic::usage("Q4080", message)));
    }
    let schema = Schema::new(arch).map_err(one)?;
    let lenient = options.flag("lenient");
    let mut programs = Vec::new();
    for (index, file) in files.iter().enumerate() {
        programs.push(read_file(file, index, arch, &schema, lenient, warnings)?);
    }
    let artifact = Artifact::new(programs, arch, options).map_err(one)?;
    match interface {
        Some(wanted) if wanted != *artifact.interface() => {
            let message = "the interface is not that of the tensors the program moves";
            Err(one(Diagnostic::invalid("Q4081", message)))
        }
        _ => Ok(artifact),
    }
}

fn read_file(
    file: &File,
    index: usize,
    arch: &NpuArch,
    schema: &Schema,
    lenient: bool,
    warnings: &mut Vec<Diagnostic>,
) -> std::result::Result<Program, Vec<Diagnostic>> {
    let program = if binary::recognises(&file.bytes) {
        binary::read(&file.bytes, arch).map_err(|p| vec![p.name_file(&file.name)])?
    } else {
        let read = text::read(&file.bytes, SourceId::of(index), schema, lenient)?;
        warnings.extend(read.warnings);
        read.program
    };
    if program.lines.is_empty() {
        let message = "the file has no line of a program";
        return Err(vec![Diagnostic::invalid("Q4082", message).name_file(&file.name)]);
    }
    Ok(program)
}
