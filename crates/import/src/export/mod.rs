//! From a graph to a model file.

mod layers;
mod node;
mod quantiser;
mod writer;

use prost::Message;
use quincunx_diag::Result;
use quincunx_graph::Graph;
use writer::Writer;

/// How quantisers are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// `QuantizeLinear` and `DequantizeLinear` where they can express the quantiser, else QONNX
    /// `Quant` where that can, else `Quantise` of our own domain.
    #[default]
    Auto,
    /// `QuantizeLinear` and `DequantizeLinear` for every quantiser.
    Qdq,
    /// QONNX `Quant` for every quantiser.
    Qonnx,
}

/// Options of [`write_onnx`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportOptions {
    /// How quantisers are written.
    pub dialect: Dialect,
}

/// Writes a graph as an ONNX model: opset 13, or the lowest later one that has what the graph
/// uses. Symbolic extents stay symbolic; constants that nothing reads are left out. Reading the
/// model again gives the same graph.
///
/// # Errors
/// `Q0420` when there is no exact form for a quantiser: scales that are not f32, rounding or
/// overflow that vary within a tensor; with [`Dialect::Qonnx`] also wrapping overflow, rounding
/// `half-ceil`, and signs that vary; with [`Dialect::Qdq`] widths other than 8 and 16 bits (32 for
/// constants), other rounding than half to even, and ranges without the lowest code.
pub fn write_onnx(graph: &Graph, options: &ExportOptions) -> Result<Vec<u8>> {
    Ok(Writer::new(graph, options).write()?.encode_to_vec())
}
