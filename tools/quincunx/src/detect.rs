//! What a file is, by its contents.

use crate::InputFile;
use crate::formats::Format;
use quincunx_contract::Target;
use quincunx_import::is_graph_def;
use std::path::Path;

/// First bytes of a `.npy` file.
const NPY: &[u8] = b"\x93NUMPY";

/// First bytes of a ZIP archive, which a `.npz` file is.
const ZIP: &[u8] = b"PK";

/// What a file is.
#[derive(Clone, Copy)]
pub enum FileKind<'a> {
    /// An array.
    Npy,
    /// An archive of arrays.
    Npz,
    /// An array in another form.
    Array(Format),
    /// A program of this target.
    Program(&'a dyn Target),
    /// A network, ONNX or TensorFlow: its name says so, or its contents look like one.
    Model,
    /// Nothing known.
    Unknown,
}

/// What a file is. Programs are asked for before models, because a model can begin with almost any
/// bytes.
pub fn detect<'a>(file: &InputFile, targets: &[&'a dyn Target]) -> FileKind<'a> {
    let bytes = &file.bytes;
    if bytes.starts_with(NPY) {
        return FileKind::Npy;
    }
    if bytes.starts_with(ZIP) {
        return FileKind::Npz;
    }
    let array = Format::of(&file.name, bytes);
    if let Some(picture @ Format::Picture(_)) = array {
        return FileKind::Array(picture);
    }
    if is_named_like_a_model(&file.name) {
        return FileKind::Model;
    }
    let whole = file.to_file();
    match targets.iter().find(|target| target.recognises(&whole)) {
        Some(target) => FileKind::Program(*target),
        // Any text can be named so.
        None if array == Some(Format::Csv) => FileKind::Array(Format::Csv),
        None if looks_like_a_model(bytes) => FileKind::Model,
        None => FileKind::Unknown,
    }
}

/// True for a file that `run` takes as a network, those of the machines' ecosystems included.
pub fn is_model(file: &InputFile, targets: &[&dyn Target]) -> bool {
    match detect(file, targets) {
        FileKind::Model => true,
        // A file with faults is one of this kind too.
        FileKind::Program(target) => !matches!(target.model(&file.to_file()), Ok(None)),
        _ => false,
    }
}

/// What a file that no target recognises, or that is not a model, seems to be.
pub(crate) fn arrays_or_model(name: &str, bytes: &[u8]) -> Option<&'static str> {
    if bytes.starts_with(NPY) || bytes.starts_with(ZIP) || Format::of(name, bytes).is_some() {
        return Some("arrays");
    }
    (is_named_like_a_model(name) || looks_like_a_model(bytes)).then_some("a model")
}

/// True for what is never a program: a file named like a model, and one that starts like arrays.
pub(crate) fn is_model_or_arrays(name: &str, start: &[u8]) -> bool {
    start.starts_with(NPY) || start.starts_with(ZIP) || is_named_like_a_model(name)
}

fn is_named_like_a_model(name: &str) -> bool {
    let extension = Path::new(name).extension();
    extension.is_some_and(|e| e.eq_ignore_ascii_case("onnx") || e.eq_ignore_ascii_case("pb"))
}

/// ONNX models start with their format version, a small number, and then another field of the model.
fn looks_like_a_model(bytes: &[u8]) -> bool {
    matches!(bytes, [0x08, 0..=0x7f, 0x12 | 0x1a | 0x22 | 0x28 | 0x32 | 0x3a | 0x42, ..])
        || is_graph_def(bytes)
}
