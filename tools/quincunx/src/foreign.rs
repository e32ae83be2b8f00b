//! Model files of other tools, which are answered with how to get ONNX from them.

use quincunx_diag::{Diagnostic, Result};
use std::path::Path;

/// First bytes of HDF5.
const HDF5: &[u8] = b"\x89HDF\r\n\x1a\n";

/// First bytes of a file that PyTorch wrote before it used archives: a pickled number of its own.
const OLD_TORCH: &[u8] = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19";

/// Longest header of `.safetensors` that is looked for.
const MAX_HEADER: u64 = 1 << 27;

/// Bytes of the text that OpenVINO's files are recognised by.
const MAX_START: usize = 1 << 10;

const TORCH: (&str, &str) =
    ("a PyTorch file", "export the model: torch.onnx.export(model, example, \"model.onnx\")");
const KERAS: (&str, &str) = (
    "a Keras file",
    "export the model: keras.models.load_model(file).export(\"model.onnx\", format=\"onnx\")",
);
const SAVED: (&str, &str) = (
    "a TensorFlow SavedModel",
    "export it: python -m tf2onnx.convert --saved-model FOLDER --output model.onnx",
);

/// Refuses a file of another tool.
///
/// # Errors
/// `Q0651`, class unsupported.
pub(crate) fn refuse(name: &str, bytes: &[u8]) -> Result<()> {
    kind(name, bytes).map_or(Ok(()), |kind| Err(problem(kind).in_file(name)))
}

/// What is said about a folder that is a model of another tool.
pub(crate) fn refuse_folder(path: &Path) -> Result<()> {
    let kind = if path.join("saved_model.pb").is_file() {
        SAVED
    } else if path.extension().is_some_and(|extension| extension == "mlpackage") {
        CORE_ML
    } else {
        return Ok(());
    };
    Err(problem(kind).in_file(path.display().to_string()))
}

const CORE_ML: (&str, &str) =
    ("a Core ML model", "export the model that it was converted from to ONNX");

fn problem((kind, help): (&str, &str)) -> Diagnostic {
    let message = format!("the file is {kind}, which Quincunx does not read");
    Diagnostic::unsupported("Q0651", message).help(help)
}

/// What the file is and how to export ONNX from it; `None` for what is not of another tool.
fn kind(name: &str, bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    if bytes.starts_with(b"PK") {
        return archive(bytes);
    }
    if bytes.starts_with(HDF5) {
        return Some((
            "an HDF5 file",
            "export a model: keras.models.load_model(file).export(\"model.onnx\", format=\"onnx\"); \
             save data as .npz",
        ));
    }
    if bytes.get(4..8) == Some(b"TFL3") {
        let help = "export it: python -m tf2onnx.convert --tflite FILE --output model.onnx";
        return Some(("a TensorFlow Lite model", help));
    }
    if bytes.starts_with(OLD_TORCH) {
        return Some(TORCH);
    }
    if is_pickle(bytes) {
        return Some((
            "a Python pickle",
            "export the model in it: skl2onnx.to_onnx(model, X[:1]) for scikit-learn, \
             torch.onnx.export for PyTorch",
        ));
    }
    if is_safetensors(bytes) {
        let help = "load it into the network that the weights belong to, and export that to ONNX";
        return Some(("a .safetensors file of weights alone", help));
    }
    if name.ends_with(".mlmodel") {
        return Some(CORE_ML);
    }
    let start = &bytes[..bytes.len().min(MAX_START)];
    let is_xml = start.starts_with(b"<?xml") && find(start, b"<net ").is_some();
    is_xml.then_some(("an OpenVINO model", "export the model that it was converted from to ONNX"))
}

/// A pickle of protocol 4 or 5 is one frame after another and ends with a full stop.
fn is_pickle(bytes: &[u8]) -> bool {
    matches!(bytes, [0x80, 4 | 5, 0x95, .., b'.'])
}

/// The length of a JSON text, and this text about tensors.
fn is_safetensors(bytes: &[u8]) -> bool {
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else { return false };
    let length = u64::from_le_bytes(*length);
    let start = &rest[..rest.len().min(MAX_START)];
    (2..=MAX_HEADER).contains(&length)
        && start.starts_with(b"{\"")
        && (find(start, b"\"dtype\"").is_some() || find(start, b"\"__metadata__\"").is_some())
}

/// An archive of PyTorch or Keras, by the names of its members.
fn archive(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    for name in members(bytes) {
        if name.ends_with(b"data.pkl") || name.ends_with(b"/constants.pkl") {
            return Some(TORCH);
        }
        if name.ends_with(b".weights.h5") {
            return Some(KERAS);
        }
    }
    None
}

/// Names in the directory at the end of a ZIP archive.
fn members(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let tail = bytes.len().saturating_sub(66_000);
    let end = rfind(&bytes[tail..], b"PK\x05\x06").map(|at| &bytes[tail + at..]);
    let start = end.and_then(|end| number(end, 16, 4)).unwrap_or(usize::MAX);
    let mut rest = bytes.get(start..).unwrap_or(&[]);
    std::iter::from_fn(move || {
        rest.strip_prefix(b"PK\x01\x02")?;
        let [name, extra, comment] =
            [number(rest, 28, 2)?, number(rest, 30, 2)?, number(rest, 32, 2)?];
        let found = rest.get(46..)?.get(..name)?;
        rest = rest.get(46 + name + extra + comment..)?;
        Some(found)
    })
}

/// A little-endian number of at most 4 bytes.
fn number(bytes: &[u8], at: usize, size: usize) -> Option<usize> {
    let bytes = bytes.get(at..)?.get(..size)?;
    Some(bytes.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte)))
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn rfind(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).rposition(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive with these members, all empty.
    fn zip(names: &[&str]) -> Vec<u8> {
        let mut directory = Vec::new();
        for name in names {
            directory.extend(b"PK\x01\x02");
            directory.extend([0; 24]);
            directory.extend((name.len() as u16).to_le_bytes());
            directory.extend([0; 16]);
            directory.extend(name.as_bytes());
        }
        let mut bytes = b"PK\x03\x04 the members".to_vec();
        let start = bytes.len() as u32;
        bytes.extend(directory);
        bytes.extend(b"PK\x05\x06");
        bytes.extend([0; 12]);
        bytes.extend(start.to_le_bytes());
        bytes.extend([0; 2]);
        bytes
    }

    fn help(name: &str, bytes: &[u8]) -> Option<String> {
        let problem = refuse(name, bytes).err()?;
        assert_eq!((problem.code(), problem.class().exit_code()), ("Q0651", 4));
        problem.help_text().map(str::to_owned)
    }

    #[test]
    fn files_of_other_tools_are_answered_with_how_to_export() {
        let safetensors = b"\x20\0\0\0\0\0\0\0{\"w\":{\"dtype\":\"F32\",\"shape\":[]}}";
        let lite = b"\x1c\0\0\0TFL3\x14\0";
        let cases: [(&str, &[u8], &str); 9] = [
            ("a.pt", &zip(&["model/data.pkl", "model/data/0"]), "torch.onnx.export"),
            ("a.pth", OLD_TORCH, "torch.onnx.export"),
            ("a.keras", &zip(&["config.json", "model.weights.h5"]), "format=\"onnx\""),
            ("a.h5", HDF5, "format=\"onnx\""),
            ("a.tflite", lite, "--tflite"),
            ("a.pkl", b"\x80\x04\x95\x01\0\0\0\0\0\0\0N.", "skl2onnx"),
            ("a.safetensors", safetensors, "export that to ONNX"),
            ("a.mlmodel", b"\x08\x05", "converted from"),
            ("a.xml", b"<?xml version=\"1.0\"?>\n<net name=\"n\">", "converted from"),
        ];
        for (name, bytes, expected) in cases {
            // What is in the file decides; only Core ML's files have no sign but their name.
            let named = if name == "a.mlmodel" { name } else { "model.onnx" };
            let help = help(named, bytes).unwrap_or_else(|| panic!("{name}"));
            assert!(help.contains(expected), "{name}: {help}");
        }
    }

    #[test]
    fn other_files_are_let_through() {
        let arrays = zip(&["x.npy", "labels.npy"]);
        let huge = [b"PK\x05\x06".as_slice(), &[0xff; 18]].concat();
        for bytes in
            [&b""[..], b"PK", &arrays, &huge, b"\x08\x08\x12\x01x", b"<?xml?><svg>", b"\x80\x04"]
        {
            assert_eq!(help("model.onnx", bytes), None, "{bytes:?}");
        }
    }
}
