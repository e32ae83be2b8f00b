//! The network graph.
//!
//! Every value of a graph means **real numbers** (or integers, for shapes and codes). A network is
//! quantised by [`Op::Quantise`] nodes, which move real numbers onto a grid of codes, and by
//! constants that are stored as codes. The three ONNX dialects (QDQ, QOperator, QONNX) all become
//! this one form, and a target that wants integers reads the quantiser of each value with
//! [`Graph::grid`].
//!
//! * [`Graph`] holds values and nodes; nodes are in topological order and shapes are always known.
//! * [`execute`] has the two reference executors: f32, and exact rational arithmetic.
//! * [`passes`] has the transformations; each returns a new graph.

mod dump;
pub mod execute;
mod graph;
mod infer;
mod op;
pub mod passes;
mod quantiser;
mod verify;

pub use graph::{Constant, Graph, Node, NodeId, Value, ValueId};
pub use op::{BatchNorm, Binary, Conv, Gemm, Op, Pool, PoolKind, Spatial, Unary, Window};
pub use quantiser::{Param, Quantiser, Scalar};
