//! The operators that can be read: one row of [`TABLE`] and one function each.

mod activation;
mod constant;
mod dense;
mod elementwise;
mod integer;
mod linear;
mod movement;
mod normalisation;
mod pool;
pub(crate) mod qonnx;
mod recurrent;
mod reduce;
mod resize;
mod shape;
mod static_shape;
mod window;

use crate::context::NodeContext;
use quincunx_diag::{Result, did_you_mean};

/// The standard operators (`""` and `ai.onnx`).
pub(crate) const STANDARD: &str = "";

/// The QONNX operators, under the three names in use.
pub(crate) const QONNX: &str = "qonnx.custom_op.general";

/// The operators of onnxruntime.
pub(crate) const MICROSOFT: &str = "com.microsoft";

/// Code of diagnostics about a form of an operator that is not supported.
pub(crate) const FEATURE: &str = "Q0406";

/// One operator.
pub(crate) struct Row {
    /// Name in the file.
    pub(crate) name: &'static str,
    /// [`STANDARD`], [`QONNX`] or [`MICROSOFT`].
    pub(crate) domain: &'static str,
    /// Fewest and most operands.
    pub(crate) inputs: (usize, usize),
    /// Outputs that may be used.
    pub(crate) outputs: usize,
    /// It is computed at once when all its operands are constants.
    pub(crate) folds: bool,
    /// Adds the node to the graph.
    pub(crate) convert: Convert,
}

type Convert = for<'a, 'm> fn(&mut NodeContext<'a, 'm>) -> Result<()>;

const fn standard(name: &'static str, inputs: (usize, usize), convert: Convert) -> Row {
    Row { name, domain: STANDARD, inputs, outputs: 1, folds: true, convert }
}

/// An operator that changes what numbers mean; it is never computed in advance.
const fn quantising(name: &'static str, inputs: (usize, usize), convert: Convert) -> Row {
    Row { folds: false, ..standard(name, inputs, convert) }
}

/// An operator with several outputs.
const fn several(
    name: &'static str,
    inputs: (usize, usize),
    outputs: usize,
    convert: Convert,
) -> Row {
    Row { outputs, ..standard(name, inputs, convert) }
}

const fn microsoft(name: &'static str, inputs: (usize, usize), convert: Convert) -> Row {
    Row { domain: MICROSOFT, ..quantising(name, inputs, convert) }
}

const fn qonnx(name: &'static str, inputs: (usize, usize), convert: Convert) -> Row {
    Row { domain: QONNX, ..quantising(name, inputs, convert) }
}

/// Most outputs of a `Split`.
const MOST_PARTS: usize = 1 << 16;

/// Every operator, by name.
const TABLE: &[Row] = &[
    standard("Abs", (1, 1), elementwise::abs),
    standard("Add", (2, 2), elementwise::add),
    standard("And", (2, 2), elementwise::and),
    standard("ArgMax", (1, 1), reduce::arg_max),
    standard("ArgMin", (1, 1), reduce::arg_min),
    standard("AveragePool", (1, 1), pool::average_pool),
    standard("BatchNormalization", (5, 5), normalisation::batch_norm),
    standard("Ceil", (1, 1), elementwise::ceil),
    standard("Clip", (1, 3), activation::clip),
    standard("Cast", (1, 1), movement::cast),
    standard("CastLike", (2, 2), movement::cast_like),
    standard("Concat", (1, usize::MAX), movement::concat),
    standard("Constant", (0, 0), constant::constant),
    standard("ConstantOfShape", (1, 1), static_shape::constant_of_shape),
    standard("Conv", (2, 3), window::conv),
    standard("ConvInteger", (2, 4), integer::conv_integer),
    standard("ConvTranspose", (2, 3), window::conv_transpose),
    standard("DepthToSpace", (1, 1), movement::depth_to_space),
    quantising("DequantizeLinear", (2, 3), linear::dequantise),
    standard("Div", (2, 2), elementwise::div),
    several("Dropout", (1, 3), 2, elementwise::dropout),
    several("DynamicQuantizeLinear", (1, 1), 3, integer::dynamic_quantise),
    standard("Elu", (1, 1), activation::elu),
    standard("Equal", (2, 2), elementwise::equal),
    standard("Erf", (1, 1), elementwise::erf),
    standard("Exp", (1, 1), elementwise::exp),
    standard("Expand", (2, 2), movement::expand),
    standard("Flatten", (1, 1), shape::flatten),
    several("GRU", (3, 6), 2, recurrent::gru),
    standard("Gather", (2, 2), movement::gather),
    standard("Floor", (1, 1), elementwise::floor),
    standard("Gelu", (1, 1), activation::gelu),
    standard("Gemm", (2, 3), dense::gemm),
    standard("GlobalAveragePool", (1, 1), pool::global_average_pool),
    standard("GlobalMaxPool", (1, 1), pool::global_max_pool),
    standard("Greater", (2, 2), elementwise::greater),
    standard("GreaterOrEqual", (2, 2), elementwise::greater_or_equal),
    standard("HardSigmoid", (1, 1), activation::hard_sigmoid),
    standard("HardSwish", (1, 1), elementwise::hard_swish),
    standard("Identity", (1, 1), elementwise::identity),
    standard("InstanceNormalization", (3, 3), normalisation::instance_norm),
    standard("LRN", (1, 1), normalisation::lrn),
    standard("LayerNormalization", (2, 3), normalisation::layer_norm),
    standard("LeakyRelu", (1, 1), activation::leaky_relu),
    standard("Less", (2, 2), elementwise::less),
    standard("LessOrEqual", (2, 2), elementwise::less_or_equal),
    standard("Log", (1, 1), elementwise::log),
    standard("LogSoftmax", (1, 1), reduce::log_softmax),
    several("LSTM", (3, 8), 3, recurrent::lstm),
    standard("MatMul", (2, 2), dense::matmul),
    standard("MatMulInteger", (2, 4), integer::matmul_integer),
    standard("Max", (1, usize::MAX), elementwise::max),
    standard("MaxPool", (1, 1), pool::max_pool),
    standard("Mean", (1, usize::MAX), elementwise::mean),
    standard("Min", (1, usize::MAX), elementwise::min),
    standard("Mul", (2, 2), elementwise::mul),
    standard("Neg", (1, 1), elementwise::neg),
    standard("Not", (1, 1), elementwise::not),
    standard("Or", (2, 2), elementwise::or),
    standard("PRelu", (2, 2), activation::prelu),
    standard("Pow", (2, 2), elementwise::pow),
    quantising("QLinearConv", (8, 9), integer::qlinear_conv),
    quantising("QLinearMatMul", (8, 8), integer::qlinear_matmul),
    quantising("QuantizeLinear", (2, 3), linear::quantise),
    several("RNN", (3, 6), 2, recurrent::rnn),
    standard("Range", (3, 3), static_shape::range),
    standard("Reciprocal", (1, 1), elementwise::reciprocal),
    standard("ReduceL1", (1, 2), reduce::l1),
    standard("ReduceL2", (1, 2), reduce::l2),
    standard("ReduceLogSum", (1, 2), reduce::log_sum),
    standard("ReduceLogSumExp", (1, 2), reduce::log_sum_exp),
    standard("ReduceMax", (1, 2), reduce::max),
    standard("ReduceMean", (1, 2), reduce::mean),
    standard("ReduceMin", (1, 2), reduce::min),
    standard("ReduceProd", (1, 2), reduce::prod),
    standard("ReduceSum", (1, 2), reduce::sum),
    standard("ReduceSumSquare", (1, 2), reduce::sum_square),
    standard("Relu", (1, 1), elementwise::relu),
    standard("Pad", (1, 4), movement::pad),
    standard("Reshape", (1, 2), shape::reshape),
    standard("Resize", (1, 4), resize::resize),
    standard("Shape", (1, 1), static_shape::shape_of),
    standard("Size", (1, 1), static_shape::size_of),
    standard("Slice", (1, 5), movement::slice),
    standard("SpaceToDepth", (1, 1), movement::space_to_depth),
    several("Split", (1, 2), MOST_PARTS, movement::split),
    standard("Round", (1, 1), elementwise::round),
    standard("Selu", (1, 1), activation::selu),
    standard("Sigmoid", (1, 1), elementwise::sigmoid),
    standard("Sign", (1, 1), elementwise::sign),
    standard("Softmax", (1, 1), reduce::softmax),
    standard("Softplus", (1, 1), elementwise::softplus),
    standard("Sqrt", (1, 1), elementwise::sqrt),
    standard("Squeeze", (1, 2), shape::squeeze),
    standard("Sub", (2, 2), elementwise::sub),
    standard("Sum", (1, usize::MAX), elementwise::sum),
    standard("Tanh", (1, 1), elementwise::tanh),
    standard("Tile", (2, 2), movement::tile),
    standard("Transpose", (1, 1), shape::transpose),
    standard("Unsqueeze", (1, 2), shape::unsqueeze),
    standard("Upsample", (1, 2), resize::upsample),
    standard("Where", (3, 3), elementwise::choose),
    standard("Xor", (2, 2), elementwise::xor),
    microsoft("QLinearAdd", (8, 8), integer::qlinear_add),
    microsoft("QLinearConcat", (5, usize::MAX), integer::qlinear_concat),
    microsoft("QLinearGlobalAveragePool", (5, 5), integer::qlinear_global_average_pool),
    microsoft("QLinearMul", (8, 8), integer::qlinear_mul),
    qonnx("BipolarQuant", (2, 2), qonnx::bipolar_quant),
    qonnx("IntQuant", (4, 4), qonnx::quant),
    qonnx("Quant", (4, 4), qonnx::quant),
];

/// The domain of a node, with synonyms brought to one name.
pub(crate) fn domain(name: Option<&str>) -> &str {
    match name.unwrap_or("") {
        "" | "ai.onnx" => STANDARD,
        "qonnx.custom_op.general" | "onnx.brevitas" | "finn.custom_op.general" => QONNX,
        other => other,
    }
}

/// The row of an operator.
pub(crate) fn find(domain: &str, name: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.name == name && row.domain == domain)
}

/// A likely cause when an operator is not found.
pub(crate) fn suggestion(domain: &str, name: &str) -> Option<String> {
    if let Some(row) = TABLE.iter().find(|row| row.name == name) {
        let wanted = if row.domain == STANDARD { "ai.onnx" } else { row.domain };
        return Some(format!("{name} is supported in domain \"{wanted}\""));
    }
    did_you_mean(name, TABLE.iter().filter(|row| row.domain == domain).map(|row| row.name))
}

/// Names of the operators that [`crate::read_onnx`] reads, in alphabetical order.
pub fn supported_operators() -> Vec<&'static str> {
    let mut names: Vec<_> = TABLE.iter().map(|row| row.name).collect();
    names.sort_unstable();
    names
}
