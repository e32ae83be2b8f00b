//! What a file is, by its contents.

use crate::InputFile;
use quincunx_target::Target;

/// What a file is.
#[derive(Clone, Copy)]
pub enum FileKind<'a> {
    /// An array.
    Npy,
    /// An archive of arrays.
    Npz,
    /// A program of this target.
    Program(&'a dyn Target),
    /// A network: its name says so, or its first bytes look like one.
    Model,
    /// Nothing known.
    Unknown,
}

/// What a file is. Programs are asked for before models, because a model can begin with almost any
/// bytes.
pub fn detect<'a>(file: &InputFile, targets: &[&'a dyn Target]) -> FileKind<'a> {
    let bytes = &file.bytes;
    if bytes.starts_with(b"\x93NUMPY") {
        return FileKind::Npy;
    }
    if bytes.starts_with(b"PK") {
        return FileKind::Npz;
    }
    if has_extension(file, "onnx") {
        return FileKind::Model;
    }
    let whole = file.to_file();
    match targets.iter().find(|target| target.recognises(&whole)) {
        Some(target) => FileKind::Program(*target),
        None if looks_like_model(bytes) => FileKind::Model,
        None => FileKind::Unknown,
    }
}

fn has_extension(file: &InputFile, wanted: &str) -> bool {
    let extension = file.path.as_deref().and_then(|path| path.extension());
    extension.is_some_and(|extension| extension.eq_ignore_ascii_case(wanted))
}

/// Models start with their format version, a small number, and then another field of the model.
fn looks_like_model(bytes: &[u8]) -> bool {
    matches!(bytes, [0x08, 0..=0x7f, 0x12 | 0x1a | 0x22 | 0x28 | 0x32 | 0x3a | 0x42, ..])
}
