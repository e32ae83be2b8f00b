//! Native files to programs.

use crate::arch::DpasArch;
use crate::artifact::Artifact;
use crate::binary;
use crate::files;
use crate::options::settings;
use crate::precision::{Acc, Precision};
use crate::program::{Listing, Program as Code, Statement};
use crate::swsb;
use crate::verify::{self, Allow};
use quincunx_contract::{File, Interface, Log, Options};
use quincunx_diag::Diagnostic;

/// Reads a program.
pub(crate) fn read(
    files: &[File],
    interface: Option<&Interface>,
    arch: &DpasArch,
    options: &Options,
    log: &mut Log,
) -> std::result::Result<Artifact, Vec<Diagnostic>> {
    let [file] = files else {
        let message = format!("a dpas program is one file, found {}", files.len());
        return Err(Diagnostic::usage("Q6096", message).into());
    };
    let (settings, form) = settings(options)?;
    let (mut program, warnings) = files::read(file, arch.platform, form)?;
    log.diagnostics.extend(warnings);
    let named = |problem: Diagnostic| problem.name_file(&file.name);
    if !settings.allow.df {
        let warnings = without_double(&mut program, arch, &settings.allow)
            .map_err(|found| found.into_iter().map(named).collect::<Vec<_>>())?;
        log.diagnostics.extend(warnings);
    }
    if let (Code::Native(listing), "auto") = (&program, options.get("swsb")) {
        let assigned: Listing =
            swsb::assign(listing, arch, settings.allow.stride).map_err(named)?;
        program = Code::Native(assigned);
    }
    let artifact = Artifact::new(program, interface, arch.clone(), settings);
    Ok(artifact.map_err(named)?)
}

/// Refuses `df`, whose code is the one that names the option. In machine code such an instruction
/// is one that this target does not know: it stays as raw bytes, with a warning.
fn without_double(
    program: &mut Code,
    arch: &DpasArch,
    allow: &Allow,
) -> std::result::Result<Vec<Diagnostic>, Vec<Diagnostic>> {
    let is_double = |problem: &Diagnostic| problem.code() == "Q6048";
    let mut warnings = Vec::new();
    if let Code::Native(listing) = program {
        for item in listing.items.iter_mut().filter(|item| item.span.is_none()) {
            let Statement::Systolic(inst) = &item.statement else { continue };
            let native = inst.native();
            let types = [native.dst_type, native.src0_type].contains(&Acc::Df)
                || [native.src1_type, native.src2_type].contains(&Precision::Df);
            if types {
                let bytes = binary::native::encode(inst, arch.platform)?;
                item.statement = Statement::Raw(bytes.to_vec());
                let message = "an instruction with df is kept as raw bytes; --df reads it";
                warnings.push(Diagnostic::warning("Q6048", message));
            }
        }
    }
    let found: Vec<Diagnostic> =
        verify::verify(program, arch, allow).into_iter().filter(is_double).collect();
    if found.is_empty() { Ok(warnings) } else { Err(found) }
}
