//! Frozen TensorFlow graphs.
//!
//! A GraphDef is a list of nodes that name the results they read. [`read_graph_def`] brings it to
//! a [`quincunx_graph::Graph`]: `wires` finds what the outputs need, `reader` converts it node by
//! node with the functions of `ops`, and `finish` leaves out what became superfluous.
//!
//! TensorFlow keeps the channels last. Every value carries the order in which its axes are stored
//! (`layout`), windows choose channels before the spatial axes, and other operators keep what they
//! find; so transposes remain only where an operator needs the order of the file: at inputs,
//! outputs and reshapes.

mod attributes;
mod context;
mod detect;
mod dtype;
mod finish;
mod layout;
mod ops;
pub(crate) mod proto;
mod reader;
mod tensor;
#[cfg(test)]
mod tests;
mod wires;

pub use detect::is_graph_def;
pub(crate) use detect::is_saved_model;
pub use ops::supported_tensorflow_operators;
pub use reader::read_graph_def;
pub(crate) use reader::survey_graph_def;
