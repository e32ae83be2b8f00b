//! Native files to programs.

use crate::arch::ScampArch;
use crate::artifact::{Artifact, located};
use crate::files::{is_kernel_file, kernels};
use crate::fix;
use crate::options::Chosen;
use crate::text;
use quincunx_contract::{File, Interface, Log, Options};
use quincunx_diag::{Diagnostic, SourceId};

/// The files of a program.
struct Sorted<'a> {
    /// Text of the program.
    program: &'a str,
    /// Its place among the files.
    index: usize,
    /// The kernel file beside it, and its place.
    kernel: Option<(usize, &'a File)>,
}

/// The program among the files, and the kernel file if there is one.
fn sort_files(files: &[File]) -> std::result::Result<Sorted<'_>, Vec<Diagnostic>> {
    let (mut program, mut kernel) = (None, None);
    for (index, file) in files.iter().enumerate() {
        let text = file.text()?;
        let taken = match is_kernel_file(text) {
            true => kernel.replace((index, file)).is_some(),
            false => program.replace((index, text)).is_some(),
        };
        if taken {
            let message = "expected one program, and one kernel file at most";
            return Err(Diagnostic::usage("Q5073", message).in_file(&file.name).into());
        }
    }
    let Some((index, program)) = program else {
        let problem = Diagnostic::unsupported("Q5074", "a kernel file is not a program");
        return Err(problem
            .help("inspect shows it; give it beside a program to verify that")
            .into());
    };
    Ok(Sorted { program, index, kernel })
}

/// True when a file looks like one of this target's.
pub(crate) fn recognises(file: &File) -> bool {
    file.text().is_ok_and(|text| is_kernel_file(text) || text::recognises(text))
}

/// Reads a program, perhaps with the kernel file beside it.
pub(crate) fn read(
    files: &[File],
    interface: Option<Interface>,
    arch: &ScampArch,
    options: &Options,
    log: &mut Log,
) -> std::result::Result<Artifact, Vec<Diagnostic>> {
    let chosen = Chosen::new(options, arch)?;
    let Sorted { program: source, index, kernel } = sort_files(files)?;
    let wanted = kernel.map(|(index, file)| kernels(file, SourceId::of(index))).transpose()?;
    let source_id = SourceId::of(index);
    let mut listing = text::read(source, source_id)?;
    if chosen.fix {
        let (program, notes) = fix::fix(&listing.program, arch);
        let spans = std::mem::take(&mut listing.spans);
        log.diagnostics.extend(notes.into_iter().map(|note| located(note, &spans)));
        listing.program = program;
    }
    Ok(Artifact::new(listing, arch, chosen, wanted, interface)?)
}
