//! Reads ONNX models and frozen TensorFlow graphs, and writes ONNX models.
//!
//! [`read_onnx`] brings a model to the one form of [`quincunx_graph::Graph`], whatever dialect it
//! is written in; [`write_onnx`] writes a graph back as a standard model. [`read_graph_def`] reads
//! TensorFlow's GraphDef, and [`read_model`] whichever of the two it is given.
//!
//! * A `QuantizeLinear` followed by a `DequantizeLinear` with equal parameters, and a QONNX
//!   `Quant`, become one `Quantise`; on constants they become codes with a quantiser, exactly.
//! * Operators are the rows of one table (`ops`): one row and one function each.
//! * Everything that is wrong with a model is reported at once. What Quincunx cannot do is class
//!   `Unsupported`, what is not a valid model is class `Invalid`.
//!
//! Weights share the memory of the file, except where TensorFlow's order of axes is another.

mod attributes;
mod budget;
mod codes;
mod context;
mod cut;
mod describe;
mod dtype;
mod export;
mod external;
mod fold;
mod inputs;
mod model;
mod names;
mod ops;
mod options;
mod packed;
mod proto;
mod reader;
mod sort;
mod subgraph;
mod survey;
mod tensor;
mod tensorflow;
#[cfg(test)]
mod tests;
mod values;

pub use export::{Dialect, ExportOptions, write_onnx};
pub use external::external_files;
pub use model::{Format, format_of, read_model};
pub use ops::supported_operators;
pub use options::Options;
pub use reader::read_onnx;
pub use survey::{DeclaredInput, Survey, survey};
pub use tensorflow::{is_graph_def, read_graph_def, supported_tensorflow_operators};
