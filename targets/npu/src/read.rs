//! Native files to programs.

use crate::arch::NpuArch;
use crate::artifact::Artifact;
use crate::binary::{self, Attached, DATA};
use crate::derive::{Manner, derive};
use crate::document::ir_file;
use crate::files::{self, IrFile, Kind};
use crate::program::Program;
use crate::text::{self, Schema};
use bytes::Bytes;
use quincunx_contract::{File, Interface, Options, Program as _};
use quincunx_diag::{Diagnostic, Result, SourceId};

/// True when a file looks like one of this target's.
pub(crate) fn recognises(file: &File) -> bool {
    is_data(file)
        || binary::recognises(&file.bytes)
        || text::recognises(&file.bytes)
        || ir_file(file).is_some()
}

/// True for a file of data, which only its name tells.
fn is_data(file: &File) -> bool {
    file.base_name().ends_with(DATA)
}

/// Reads one file per core, and the files of data that they name.
pub(crate) fn read(
    files: &[File],
    interface: Option<Interface>,
    arch: &NpuArch,
    options: &Options,
    warnings: &mut Vec<Diagnostic>,
) -> std::result::Result<Artifact, Vec<Diagnostic>> {
    let one = |problem: Diagnostic| vec![problem];
    let (data, files): (Vec<&File>, Vec<&File>) = files.iter().partition(|file| is_data(file));
    if files.is_empty() || files.len() > 64 {
        let message =
            format!("an npu program is one file per core, 1 to 64, found {}", files.len());
        let problem = Diagnostic::usage("Q4080", message);
        return Err(one(match (data.first(), files.is_empty()) {
            (Some(data), true) => problem.in_file(&data.name).help(program_of(data)),
            _ => problem,
        }));
    }
    if files.iter().any(|file| ir_file(file).is_some()) {
        let all: Vec<&File> = files.into_iter().chain(data).collect();
        let program = derived(&all, arch, options, warnings)?;
        let artifact = Artifact::new(vec![program], arch, options).map_err(one)?;
        return Ok(match manner(options) {
            Manner::Compat => artifact.with_clobbers(),
            Manner::Ours => artifact,
        });
    }
    let schema = Schema::new(arch).map_err(one)?;
    let lenient = options.flag("lenient");
    let (mut programs, mut attached) = (Vec::new(), Attached::default());
    for (index, file) in files.iter().enumerate() {
        let (program, own) = read_file(file, index, arch, &schema, lenient, warnings)?;
        programs.push(program);
        attached.tensors.extend(own.tensors);
        for named in own.data {
            if !attached.data.contains(&named) {
                attached.data.push(named);
            }
        }
    }
    if !attached.is_empty() {
        let memory = memory(&attached, &data).map_err(one)?;
        return Artifact::compiled(programs, attached.tensors, memory, interface, arch, options)
            .map_err(one);
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

/// Which file to give instead of one of data.
fn program_of(data: &File) -> String {
    let name = data.name.strip_suffix(DATA).unwrap_or(&data.name);
    format!(
        "this is what the DRAM of a program holds; give the program, {name}.qnpu, which names it"
    )
}

/// The program of a schedule and its network.
fn derived(
    files: &[&File],
    arch: &NpuArch,
    options: &Options,
    warnings: &mut Vec<Diagnostic>,
) -> std::result::Result<Program, Vec<Diagnostic>> {
    let mut read: Vec<(&str, IrFile)> = Vec::new();
    for file in files {
        match ir_file(file) {
            Some(ir) => read.push((file.name.as_str(), ir)),
            // JSON that is damaged rather than a file of another kind.
            None if file.bytes.trim_ascii_start().starts_with(b"{") => {
                files::read(&file.bytes).map_err(|problem| vec![problem.name_file(&file.name)])?;
            }
            None => {}
        }
    }
    let of = |kind: Kind| read.iter().filter(move |(_, file)| file.kind == kind);
    let [schedule, network, scales] = [Kind::Scheduler, Kind::Frontend, Kind::Scales].map(of);
    let mut scales = scales;
    let (schedule, network): (Vec<_>, Vec<_>) = (schedule.collect(), network.collect());
    let known = read.len() == files.len() && read.len() <= 3;
    let ([(schedule, s)], [(network, n)], true) = (&schedule[..], &network[..], known) else {
        let message = "a program is derived from one scheduler IR, one frontend IR and at most one \
                       file of quantisation scales";
        return Err(vec![Diagnostic::usage("Q4101", message)]);
    };
    let scales = scales.next().map(|(name, file)| (*name, file));
    derive((schedule, s), (network, n), scales, arch, manner(options), warnings)
}

fn manner(options: &Options) -> Manner {
    match options.get("derive") {
        "compat" => Manner::Compat,
        _ => Manner::Ours,
    }
}

fn read_file(
    file: &File,
    index: usize,
    arch: &NpuArch,
    schema: &Schema,
    lenient: bool,
    warnings: &mut Vec<Diagnostic>,
) -> std::result::Result<(Program, Attached), Vec<Diagnostic>> {
    let mut attached = Attached::default();
    let program = if binary::recognises(&file.bytes) {
        let (program, own) =
            binary::read_with(&file.bytes, arch).map_err(|p| vec![p.name_file(&file.name)])?;
        attached = own;
        program
    } else {
        let read = text::read(&file.bytes, SourceId::of(index), schema, lenient)?;
        warnings.extend(read.warnings);
        read.program
    };
    if program.lines.is_empty() {
        let message = "the file has no line of a program";
        return Err(vec![Diagnostic::invalid("Q4082", message).name_file(&file.name)]);
    }
    Ok((program, attached))
}

/// The bytes behind the bases that a program names files for.
fn memory(attached: &Attached, data: &[&File]) -> Result<Vec<(u8, Bytes)>> {
    let bytes = |(base, name): &(u8, String)| {
        let file = data.iter().find(|file| file.base_name() == name);
        let missing = || {
            let message = format!("the program's data file {name:?} is not among the files");
            Diagnostic::invalid("Q4089", message)
        };
        Ok((*base, file.ok_or_else(missing)?.bytes.clone()))
    };
    attached.data.iter().map(bytes).collect()
}
