//! Native files to programs.

use crate::arch::DpasArch;
use crate::artifact::{Artifact, DeviceArtifact};
use crate::binary;
use crate::files::{self, launch, zebin};
use crate::options::settings;
use crate::precision::{Acc, Precision};
use crate::program::device::{Device, Kernel};
use crate::program::{Listing, Program as Code, Statement};
use crate::swsb;
use crate::verify::{self, Allow};
use quincunx_contract::{File, Interface, Log, Options, Program};
use quincunx_diag::{Diagnostic, SourceId};

/// Reads a program: launches with the files that they name, kernels, listings, or one text or code.
pub(crate) fn read(
    files: &[File],
    interface: Option<Interface>,
    arch: &DpasArch,
    options: &Options,
    log: &mut Log,
) -> std::result::Result<Box<dyn Program>, Vec<Diagnostic>> {
    let (settings, form) = settings(options)?;
    let device = match (files.iter().position(|file| launch::recognises(&file.bytes)), files) {
        (Some(index), _) => Some((launch::read(files, index, arch.platform)?, index)),
        (None, [file]) if zebin::recognises(&file.bytes) => {
            let named = |problem: Diagnostic| problem.name_file(&file.name);
            let named = |found: Vec<Diagnostic>| found.into_iter().map(named).collect::<Vec<_>>();
            let (kernels, warnings) = zebin::read(&file.bytes, arch.platform).map_err(named)?;
            Some(((Device { kernels, ..Device::default() }, named(warnings)), 0))
        }
        (None, [_, _, ..]) => Some((listings(files, arch)?, 0)),
        _ => None,
    };
    if let Some(((mut device, warnings), index)) = device {
        log.diagnostics.extend(warnings);
        if options.get("swsb") == "auto" {
            for kernel in &mut device.kernels {
                kernel.listing = swsb::assign(&kernel.listing, arch, settings.allow.stride)?;
            }
        }
        let artifact = DeviceArtifact::new(device, interface, arch.clone(), settings);
        let named = |problem: Diagnostic| problem.name_file(&files[index].name);
        return Ok(Box::new(artifact.map_err(named)?));
    }
    let [file] = files else {
        let message = "a dpas program is at least one file, found none";
        return Err(Diagnostic::usage("Q6096", message).into());
    };
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
    let artifact = Artifact::new(program, interface.as_ref(), arch.clone(), settings);
    Ok(Box::new(artifact.map_err(named)?))
}

/// Several listings are kernels without arguments, named as their files.
fn listings(files: &[File], arch: &DpasArch) -> std::result::Result<launch::Read, Vec<Diagnostic>> {
    let (mut kernels, mut found) = (Vec::new(), Vec::new());
    for (index, file) in files.iter().enumerate() {
        let (program, warnings) = files::read_at(file, arch.platform, None, SourceId::of(index))?;
        found.extend(warnings);
        let Code::Native(listing) = program else {
            let message = format!("a vISA program is one file, found {}", files.len());
            return Err(Diagnostic::usage("Q6096", message).name_file(&file.name).into());
        };
        let name = file.base_name();
        let name = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        kernels.push(Kernel::of_listing(name, listing, arch.grfs, arch.platform.lanes()));
    }
    Ok((Device { kernels, ..Device::default() }, found))
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
