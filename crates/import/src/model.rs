//! Models of any format that is read.

use crate::{Options, is_graph_def, read_graph_def, read_onnx};
use bytes::Bytes;
use quincunx_diag::Diagnostic;
use quincunx_graph::Graph;

/// The format of a model file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// An ONNX model.
    Onnx,
    /// A TensorFlow GraphDef.
    GraphDef,
}

impl Format {
    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Format::Onnx => "ONNX model",
            Format::GraphDef => "TensorFlow GraphDef",
        }
    }
}

/// The format of a model, by its structure. Also a damaged GraphDef is called one: its first field
/// is a node, where an ONNX model has a number. What is neither is taken for ONNX, whose reader says
/// what is wrong with it.
pub fn format_of(bytes: &[u8]) -> Format {
    let node_first = bytes.first() == Some(&0x0a);
    let saved = crate::tensorflow::is_saved_model(bytes);
    if node_first || saved || is_graph_def(bytes) { Format::GraphDef } else { Format::Onnx }
}

/// Reads a model of either format.
///
/// # Errors
/// As [`read_onnx`] and [`read_graph_def`].
pub fn read_model(bytes: Bytes, options: &Options) -> Result<Graph, Vec<Diagnostic>> {
    match format_of(&bytes) {
        Format::Onnx => read_onnx(bytes, options),
        Format::GraphDef => read_graph_def(bytes, options),
    }
}
