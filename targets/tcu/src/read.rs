//! Native files to programs.

use crate::arch::TcuArch;
use crate::binary;
use crate::files::{Model, read_data};
use crate::package::{ConstData, Package};
use crate::text;
use quincunx_contract::{ArchSource, File};
use quincunx_diag::{Diagnostic, SourceId};

/// Extensions of native files and documents.
const EXTENSIONS: [&str; 7] = ["tprog", "tmodel", "tdata", "tarch", "tasm", "tsamples", "tstream"];

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Description of a program.
    Model,
    /// Constants.
    Data,
    /// Machine.
    Arch,
    /// Assembly text.
    Text,
    /// Performance samples.
    Samples,
    /// Machine code.
    Code,
}

/// What a file holds, by its extension, or by its contents where that says nothing.
pub(crate) fn kind(file: &File) -> Kind {
    match file.extension().as_str() {
        "tmodel" => Kind::Model,
        "tdata" => Kind::Data,
        "tarch" => Kind::Arch,
        "tasm" => Kind::Text,
        "tsamples" => Kind::Samples,
        "tprog" | "tstream" => Kind::Code,
        _ => match std::str::from_utf8(&file.bytes) {
            Ok(text) if looks_like_model(text) => Kind::Model,
            Ok(text) if text::recognises(text) => Kind::Text,
            _ => Kind::Code,
        },
    }
}

fn looks_like_model(text: &str) -> bool {
    let has = |key: &str| text.contains(key);
    text.trim_start().starts_with('{') && has("\"prog\"") && has("\"arch\"") && has("\"inputs\"")
}

/// True when a file looks like one of this target's.
pub(crate) fn recognises(file: &File) -> bool {
    let extension = file.extension();
    EXTENSIONS.contains(&extension.as_str()) || matches!(kind(file), Kind::Model | Kind::Text)
}

/// The files that a description names.
pub(crate) fn companions(file: &File) -> Vec<String> {
    if kind(file) != Kind::Model {
        return Vec::new();
    }
    let model = file.text().and_then(Model::parse);
    model.map_or_else(|_| Vec::new(), |model| model.file_names())
}

type Found = std::result::Result<(Package, Vec<Diagnostic>), Vec<Diagnostic>>;

/// Reads the files of one program: a description with its companions, or machine code or assembly
/// text with perhaps a machine and constants for the start of DRAM1. Files that a description does
/// not name are left out with a warning.
pub(crate) fn read(files: &[File], arch: &TcuArch, lenient: bool) -> Found {
    let of_kind = |wanted: Kind| files.iter().enumerate().filter(move |(_, f)| kind(f) == wanted);
    let models: Vec<_> = of_kind(Kind::Model).collect();
    match models[..] {
        [] => read_raw(files, arch, lenient),
        [(_, file)] => read_model(file, files, lenient),
        _ => Err(vec![too_many("descriptions", models.len())]),
    }
}

fn too_many(what: &str, count: usize) -> Diagnostic {
    Diagnostic::usage(
        "Q3078",
        format!("a tcu program has one file of its kind, found {count} {what}"),
    )
}

fn read_model(file: &File, files: &[File], lenient: bool) -> Found {
    let model = file.text().and_then(Model::parse);
    let model = model.map_err(|problem| vec![problem.name_file(&file.name)])?;
    let names = model.file_names();
    let unknown = model.warnings().into_iter().map(|warning| warning.name_file(&file.name));
    let unknown: Vec<_> = unknown.collect();
    let parts: Vec<(String, &[u8])> =
        files.iter().map(|file| (file.base_name().to_owned(), &file.bytes[..])).collect();
    let (package, mut warnings) = Package::new(model, &parts, lenient)?;
    let is_other = |other: &&File| {
        !std::ptr::eq(*other, file) && !names.iter().any(|name| name == other.base_name())
    };
    warnings.extend(unknown);
    warnings.extend(files.iter().filter(is_other).map(|other| {
        let message = "the file is not part of the program and was left out";
        Diagnostic::warning("Q3079", message).in_file(&other.name)
    }));
    Ok((package, warnings))
}

fn read_raw(files: &[File], arch: &TcuArch, lenient: bool) -> Found {
    let given = files.iter().filter(|file| kind(file) == Kind::Arch);
    let arch = match given.collect::<Vec<_>>()[..] {
        [] => arch.clone(),
        [file] => machine(file).map_err(|problem| vec![problem])?,
        ref several => return Err(vec![too_many("machines", several.len())]),
    };
    // Spans name a file by its place among all files.
    let code = |(_, file): &(usize, &File)| matches!(kind(file), Kind::Code | Kind::Text);
    let programs: Vec<(usize, &File)> = files.iter().enumerate().filter(code).collect();
    let [(index, file)] = programs[..] else {
        return Err(vec![too_many("programs", programs.len())]);
    };
    let (program, mut warnings) = if kind(file) == Kind::Text {
        let source = SourceId::of(index);
        let text = file.text().map_err(|problem| vec![problem])?;
        (text::parse(text, source, &arch)?, Vec::new())
    } else {
        let read = binary::read(&file.bytes, &arch, lenient).map_err(|problems| {
            problems.into_iter().map(|problem| problem.name_file(&file.name)).collect::<Vec<_>>()
        })?;
        (read.program, read.warnings)
    };
    let mut package = Package::from(program);
    for file in files.iter().filter(|file| kind(file) == Kind::Data) {
        let scalars =
            read_data(&file.bytes, &arch).map_err(|problem| vec![problem.name_file(&file.name)])?;
        package.consts.push(ConstData { name: file.base_name().to_owned(), base: 0, scalars });
    }
    if package.consts.len() > 1 {
        return Err(vec![too_many("files of constants", package.consts.len())]);
    }
    warnings.extend(arch.warnings());
    Ok((package, warnings))
}

fn machine(file: &File) -> quincunx_diag::Result<TcuArch> {
    let (name, text) = (file.name.clone(), file.text()?.to_owned());
    TcuArch::from_source(&ArchSource::Text { name, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kind of file that this target writes is recognised again by its name.
    #[test]
    fn own_files_are_recognised() {
        for name in ["x.tprog", "x.tmodel", "x.tdata", "x.tasm", "x.tsamples", "x.tstream"] {
            assert!(recognises(&File::new(name, vec![0x10; 8])), "{name}");
        }
        assert!(!recognises(&File::new("x.bin", vec![0x10; 8])));
    }
}
