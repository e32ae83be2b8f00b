//! The operators of TensorFlow: one row in the table and one function each.

mod blocks;
mod constant;
mod dense;
mod elementwise;
mod fused;
mod join;
mod pad;
mod quantise;
mod reduce;
mod resize;
mod shape;
mod slice;
mod window;

use super::attributes::Attributes;
use super::context::Node;
use super::proto::NodeDef;
use super::wires::MOST_SLOTS;
use crate::ops::shape::axes;
use quincunx_diag::{Diagnostic, Result, did_you_mean};
use quincunx_graph::{Activation, Binary, Compare, Logic, PoolKind, ReduceKind, Unary};

/// One operator.
pub(crate) struct Row {
    /// Its name.
    pub(crate) name: &'static str,
    /// Fewest and most data operands.
    pub(crate) inputs: (usize, usize),
    /// How many results there are.
    slots: Slots,
    /// It moves or converts numbers without computing, so that they may be 16-bit floats.
    moves: bool,
    /// Its results may be computed at import when all operands are constants.
    pub(crate) folds: bool,
    /// Converts a node.
    pub(crate) convert: Convert,
}

/// Number of results of a node.
#[derive(Clone, Copy)]
enum Slots {
    One,
    /// As many as data operands.
    Operands,
    /// As many as this attribute says.
    Attribute(&'static str),
}

type Convert = fn(&mut Node<'_, '_>) -> Result<()>;

impl Row {
    /// Number of results of a node.
    pub(crate) fn slots(&self, node: &NodeDef) -> usize {
        let count = match self.slots {
            Slots::One => return 1,
            Slots::Operands => node.input.iter().filter(|name| !name.starts_with('^')).count(),
            Slots::Attribute(name) => {
                usize::try_from(Attributes(node).int(name, 1).unwrap_or(1)).unwrap_or(1)
            }
        };
        count.clamp(1, MOST_SLOTS)
    }

    /// Refuses arithmetic in 16-bit floats: where TensorFlow rounds to them inside an operator is not
    /// known.
    pub(crate) fn check_types(&self, node: &NodeDef) -> Result<()> {
        for name in ["T", "dtype", "DstT", "out_type", "Tparams"] {
            // Lists of types have no type; the functions that read them check them.
            let code = Attributes(node).dtype(name);
            if let Ok(Some(code @ (14 | 19))) = code
                && !self.moves
            {
                let name = if code == 19 { "half" } else { "bfloat16" };
                return Err(Diagnostic::unsupported(
                    "Q0412",
                    format!("{} computes in {name}", self.name),
                )
                .help("save the model in float; constants may be stored in 16 bits and cast"));
            }
        }
        Ok(())
    }
}

const fn row(name: &'static str, inputs: (usize, usize), convert: Convert) -> Row {
    Row { name, inputs, slots: Slots::One, moves: false, folds: true, convert }
}

const fn moving(name: &'static str, inputs: (usize, usize), convert: Convert) -> Row {
    Row { moves: true, ..row(name, inputs, convert) }
}

const fn several(
    name: &'static str,
    inputs: (usize, usize),
    slots: &'static str,
    convert: Convert,
) -> Row {
    Row { slots: Slots::Attribute(slots), ..row(name, inputs, convert) }
}

/// Constants stay codes of their quantiser.
const fn quantising(name: &'static str, inputs: (usize, usize), convert: Convert) -> Row {
    Row { folds: false, ..row(name, inputs, convert) }
}

const ANY: usize = usize::MAX;

static TABLE: &[Row] = &[
    row("Abs", (1, 1), |n| elementwise::unary(n, Unary::Abs)),
    row("Add", (2, 2), |n| elementwise::binary(n, Binary::Add)),
    row("AddN", (1, ANY), elementwise::add_n),
    row("AddV2", (2, 2), |n| elementwise::binary(n, Binary::Add)),
    row("ArgMax", (2, 2), |n| reduce::arg_extreme(n, true)),
    row("ArgMin", (2, 2), |n| reduce::arg_extreme(n, false)),
    row("AvgPool", (1, 1), |n| window::pool(n, PoolKind::Average { count_include_pad: false })),
    row("BatchMatMul", (2, 2), dense::batch_matmul),
    row("BatchMatMulV2", (2, 2), dense::batch_matmul),
    row("BatchMatMulV3", (2, 2), dense::batch_matmul),
    row("BatchToSpaceND", (3, 3), blocks::batch_to_space),
    row("BiasAdd", (2, 2), dense::bias_add),
    row("BroadcastTo", (2, 2), shape::broadcast_to),
    moving("Cast", (1, 1), elementwise::cast),
    row("Ceil", (1, 1), |n| elementwise::unary(n, Unary::Ceil)),
    row("CheckNumerics", (1, 1), constant::identity),
    row("ClipByValue", (3, 3), elementwise::clip_by_value),
    row("Concat", (2, ANY), join::concat),
    row("ConcatV2", (2, ANY), join::concat_v2),
    moving("Const", (0, 0), constant::constant),
    row("Conv2D", (2, 2), window::conv),
    row("Conv2DBackpropInput", (3, 3), window::conv_transpose),
    row("DepthToSpace", (1, 1), blocks::depth_to_space),
    row("DepthwiseConv2dNative", (2, 2), window::depthwise_conv),
    row("Div", (2, 2), |n| elementwise::binary(n, Binary::Div)),
    row("Elu", (1, 1), |n| elementwise::activation(n, Activation::Elu { alpha: 1.0 })),
    moving("EnsureShape", (1, 1), constant::identity),
    row("Equal", (2, 2), |n| elementwise::compare(n, Compare::Equal)),
    row("Erf", (1, 1), |n| elementwise::unary(n, Unary::Erf)),
    row("Exp", (1, 1), |n| elementwise::unary(n, Unary::Exp)),
    moving("ExpandDims", (2, 2), shape::expand_dims),
    quantising("FakeQuantWithMinMaxArgs", (1, 1), quantise::with_args),
    quantising("FakeQuantWithMinMaxVars", (3, 3), quantise::with_vars),
    quantising("FakeQuantWithMinMaxVarsPerChannel", (3, 3), quantise::per_channel),
    row("Fill", (2, 2), shape::fill),
    row("Floor", (1, 1), |n| elementwise::unary(n, Unary::Floor)),
    row("FloorDiv", (2, 2), elementwise::floor_div),
    row("FusedBatchNorm", (5, 5), window::batch_norm),
    row("FusedBatchNormV2", (5, 5), window::batch_norm),
    row("FusedBatchNormV3", (5, 5), window::batch_norm),
    row("Gather", (2, 2), slice::gather),
    row("GatherV2", (3, 3), slice::gather_v2),
    row("Greater", (2, 2), |n| elementwise::compare(n, Compare::Greater)),
    row("GreaterEqual", (2, 2), |n| elementwise::compare(n, Compare::GreaterOrEqual)),
    moving("Identity", (1, 1), constant::identity),
    Row { slots: Slots::Operands, ..moving("IdentityN", (1, ANY), constant::identity_n) },
    row("Inv", (1, 1), |n| elementwise::unary(n, Unary::Reciprocal)),
    row("LRN", (1, 1), window::lrn),
    row("LeakyRelu", (1, 1), elementwise::leaky_relu),
    row("Less", (2, 2), |n| elementwise::compare(n, Compare::Less)),
    row("LessEqual", (2, 2), |n| elementwise::compare(n, Compare::LessOrEqual)),
    row("Log", (1, 1), |n| elementwise::unary(n, Unary::Log)),
    row("LogSoftmax", (1, 1), |n| reduce::softmax(n, true)),
    row("LogicalAnd", (2, 2), |n| elementwise::logic(n, Logic::And)),
    row("LogicalNot", (1, 1), |n| elementwise::unary(n, Unary::Not)),
    row("LogicalOr", (2, 2), |n| elementwise::logic(n, Logic::Or)),
    row("MatMul", (2, 2), dense::matmul),
    row("Max", (2, 2), |n| reduce::reduce(n, ReduceKind::Max)),
    row("MaxPool", (1, 1), |n| window::pool(n, PoolKind::Max)),
    row("Maximum", (2, 2), |n| elementwise::binary(n, Binary::Max)),
    row("Mean", (2, 2), |n| reduce::reduce(n, ReduceKind::Mean)),
    row("Min", (2, 2), |n| reduce::reduce(n, ReduceKind::Min)),
    row("Minimum", (2, 2), |n| elementwise::binary(n, Binary::Min)),
    row("MirrorPad", (2, 2), pad::mirror),
    row("Mul", (2, 2), |n| elementwise::binary(n, Binary::Mul)),
    row("Neg", (1, 1), |n| elementwise::unary(n, Unary::Neg)),
    row("NoOp", (0, 0), constant::no_op),
    row("NotEqual", (2, 2), elementwise::not_equal),
    row("OnesLike", (1, 1), |n| shape::fill_like(n, 1)),
    row("Pack", (1, ANY), join::pack),
    row("Pad", (2, 2), |n| pad::constant(n, None)),
    row("PadV2", (3, 3), |n| pad::constant(n, Some(2))),
    moving("Placeholder", (0, 0), |_| Ok(())),
    moving("PlaceholderWithDefault", (1, 1), constant::identity),
    row("Pow", (2, 2), |n| elementwise::binary(n, Binary::Pow)),
    moving("PreventGradient", (1, 1), constant::identity),
    row("Prod", (2, 2), |n| reduce::reduce(n, ReduceKind::Prod)),
    row("Range", (3, 3), shape::range),
    row("Rank", (1, 1), shape::rank_of),
    row("RealDiv", (2, 2), |n| elementwise::binary(n, Binary::Div)),
    row("Reciprocal", (1, 1), |n| elementwise::unary(n, Unary::Reciprocal)),
    row("Relu", (1, 1), |n| elementwise::unary(n, Unary::Relu)),
    row("Relu6", (1, 1), |n| {
        elementwise::activation(n, Activation::Clip { min: Some(0.0), max: Some(6.0) })
    }),
    moving("Reshape", (2, 2), shape::reshape),
    row("ResizeBilinear", (2, 2), resize::bilinear),
    row("ResizeNearestNeighbor", (2, 2), resize::nearest),
    row("Rint", (1, 1), |n| elementwise::unary(n, Unary::Round)),
    row("Round", (1, 1), |n| elementwise::unary(n, Unary::Round)),
    row("Rsqrt", (1, 1), elementwise::rsqrt),
    row("Select", (3, 3), elementwise::select),
    row("SelectV2", (3, 3), elementwise::select_v2),
    row("Selu", (1, 1), |n| elementwise::activation(n, elementwise::SELU)),
    moving("Shape", (1, 1), shape::shape_of),
    row("Sigmoid", (1, 1), |n| elementwise::unary(n, Unary::Sigmoid)),
    row("Sign", (1, 1), |n| elementwise::unary(n, Unary::Sign)),
    row("Size", (1, 1), shape::size_of),
    row("Slice", (3, 3), slice::slice),
    moving("Snapshot", (1, 1), constant::identity),
    row("Softmax", (1, 1), |n| reduce::softmax(n, false)),
    row("Softplus", (1, 1), |n| elementwise::unary(n, Unary::Softplus)),
    row("Softsign", (1, 1), elementwise::softsign),
    row("SpaceToBatchND", (3, 3), blocks::space_to_batch),
    row("SpaceToDepth", (1, 1), blocks::space_to_depth),
    several("Split", (2, 2), "num_split", slice::split),
    several("SplitV", (3, 3), "num_split", slice::split_v),
    row("Sqrt", (1, 1), |n| elementwise::unary(n, Unary::Sqrt)),
    row("Square", (1, 1), elementwise::square),
    row("SquaredDifference", (2, 2), elementwise::squared_difference),
    moving("Squeeze", (1, 1), shape::squeeze),
    moving("StopGradient", (1, 1), constant::identity),
    row("StridedSlice", (4, 4), slice::strided_slice),
    row("Sub", (2, 2), |n| elementwise::binary(n, Binary::Sub)),
    row("Sum", (2, 2), |n| reduce::reduce(n, ReduceKind::Sum)),
    row("Tanh", (1, 1), |n| elementwise::unary(n, Unary::Tanh)),
    row("Tile", (2, 2), shape::tile),
    moving("Transpose", (2, 2), shape::transpose),
    row("TruncateDiv", (2, 2), |n| elementwise::binary(n, Binary::Div)),
    several("Unpack", (1, 1), "num", slice::unpack),
    row("ZerosLike", (1, 1), |n| shape::fill_like(n, 0)),
    row("_FusedConv2D", (3, ANY), fused::conv),
    row("_FusedMatMul", (3, ANY), fused::matmul),
];

/// The row of an operator.
pub(crate) fn find(name: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.name == name)
}

/// What to do about an operator that is not there.
pub(crate) fn suggestion(name: &str) -> Option<String> {
    let help = match name {
        "VarHandleOp" | "ReadVariableOp" | "VarIsInitializedOp" | "AssignVariableOp"
        | "Variable" | "VariableV2" | "Assign" | "RestoreV2" | "SaveV2" => {
            "the model is not frozen: convert_variables_to_constants_v2 turns variables into \
             constants"
        }
        "PartitionedCall" | "StatefulPartitionedCall" | "SymbolicGradient" => {
            "functions must be inlined: convert_variables_to_constants_v2 does that"
        }
        "Switch" | "Merge" | "Enter" | "Exit" | "NextIteration" | "LoopCond" | "If" | "While"
        | "StatelessIf" | "StatelessWhile" | "RefSwitch" | "RefMerge" => {
            "branches and loops are not supported: freeze the model for inference with fixed shapes"
        }
        _ => return did_you_mean(name, TABLE.iter().map(|row| row.name)),
    };
    Some(help.to_owned())
}

/// Names of the TensorFlow operators that [`crate::read_graph_def`] reads, in alphabetical order.
pub fn supported_tensorflow_operators() -> Vec<&'static str> {
    let mut names: Vec<_> = TABLE.iter().map(|row| row.name).collect();
    names.sort_unstable();
    names
}

/// An axis that counts from the end when negative.
fn one_axis(axis: i64, rank: usize, what: &str) -> Result<usize> {
    Ok(axes(&[axis], rank, what)?[0])
}
