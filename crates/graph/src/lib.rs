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
mod grid;
mod infer;
mod movement;
mod op;
pub mod passes;
mod quantiser;
mod verify;

pub use graph::{Constant, Graph, Node, NodeId, Value, ValueId};
pub use infer::depends_on_extents;
pub use movement::Source;
pub use op::{
    Activation, ArgExtreme, BatchNorm, Binary, Cell, Compare, Conv, ConvTranspose, Coordinates,
    Direction, Gemm, InstanceNorm, Interpolation, LayerNorm, Logic, Lrn, Nearest, Op, Pad, PadMode,
    Pool, PoolKind, Recurrent, RecurrentOutput, Reduce, ReduceKind, Resize, ResizeTaps,
    ResizeTarget, SliceRange, Softmax, Spatial, Unary, Window,
};
pub use quantiser::{Param, Quantiser, Scalar};
