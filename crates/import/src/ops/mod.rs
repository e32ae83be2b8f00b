//! The operators that can be read: one row of [`TABLE`] and one function each.

mod activation;
mod channels_last;
mod classic;
mod compose;
mod constant;
mod control;
mod dense;
mod elementwise;
mod fused;
mod granularity;
mod indexing;
mod integer;
pub(crate) mod linear;
mod movement;
mod normalisation;
mod pool;
mod qlinear;
pub(crate) mod qonnx;
mod recurrent;
mod reduce;
mod resize;
mod scores;
pub(crate) mod shape;
mod static_shape;
mod statistics;
mod trees;
mod window;

use crate::context::NodeContext;
use quincunx_diag::{Result, did_you_mean};
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// The standard operators (`""` and `ai.onnx`).
pub(crate) const STANDARD: &str = "";

/// The QONNX operators, under the three names in use.
pub(crate) const QONNX: &str = "qonnx.custom_op.general";

/// The QONNX operators with the channels last.
pub(crate) const CHANNELS_LAST: &str = "qonnx.custom_op.channels_last";

/// Our own operator: what QONNX cannot say of a quantiser.
pub(crate) const OWN: &str = "quincunx";

/// The operators of ONNX-ML.
pub(crate) const CLASSIC: &str = "ai.onnx.ml";

/// The operators of onnxruntime.
pub(crate) const MICROSOFT: &str = "com.microsoft";

/// Code of diagnostics about a form of an operator that is not supported.
pub(crate) const FEATURE: &str = "Q0406";

/// One operator.
pub(crate) struct Row {
    /// Name in the file.
    pub(crate) name: &'static str,
    /// One of the constants above.
    pub(crate) domain: &'static str,
    /// Fewest and most operands.
    pub(crate) inputs: (usize, usize),
    /// Outputs that may be used.
    pub(crate) outputs: usize,
    /// It is computed at once when all its operands are constants.
    pub(crate) folds: bool,
    /// Results are elements of operand 0; so it may be applied to codes.
    pub(crate) moves: bool,
    /// Adds the node to the graph.
    pub(crate) convert: Convert,
}

type Convert = for<'a, 'm> fn(&mut NodeContext<'a, 'm>) -> Result<()>;

const fn standard(name: &'static str, inputs: (usize, usize), convert: Convert) -> Row {
    Row { name, domain: STANDARD, inputs, outputs: 1, folds: true, moves: false, convert }
}

/// An operator whose results are elements of its first operand.
const fn moving(name: &'static str, inputs: (usize, usize), convert: Convert) -> Row {
    Row { moves: true, ..standard(name, inputs, convert) }
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

/// An operator of ONNX-ML; two outputs are labels and scores.
const fn classic(
    name: &'static str,
    inputs: (usize, usize),
    outputs: usize,
    convert: Convert,
) -> Row {
    Row { domain: CLASSIC, ..several(name, inputs, outputs, convert) }
}

const fn qonnx(name: &'static str, inputs: (usize, usize), convert: Convert) -> Row {
    Row { domain: QONNX, ..quantising(name, inputs, convert) }
}

const fn channels_last(name: &'static str, inputs: (usize, usize), convert: Convert) -> Row {
    Row { domain: CHANNELS_LAST, ..quantising(name, inputs, convert) }
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
    standard("Atan", (1, 1), elementwise::atan),
    standard("AveragePool", (1, 1), pool::average_pool),
    standard("BatchNormalization", (5, 5), normalisation::batch_norm),
    standard("Cast", (1, 1), movement::cast),
    standard("CastLike", (2, 2), movement::cast_like),
    standard("Ceil", (1, 1), elementwise::ceil),
    standard("Celu", (1, 1), compose::celu),
    standard("Clip", (1, 3), activation::clip),
    standard("Concat", (1, usize::MAX), movement::concat),
    standard("Constant", (0, 0), constant::constant),
    standard("ConstantOfShape", (1, 1), static_shape::constant_of_shape),
    standard("Conv", (2, 3), window::conv),
    standard("ConvInteger", (2, 4), integer::conv_integer),
    standard("ConvTranspose", (2, 3), window::conv_transpose),
    standard("Cos", (1, 1), elementwise::cos),
    standard("CumSum", (2, 2), indexing::cumulative_sum),
    moving("DepthToSpace", (1, 1), movement::depth_to_space),
    quantising("DequantizeLinear", (2, 3), linear::dequantise),
    standard("Div", (2, 2), elementwise::div),
    several("Dropout", (1, 3), 2, elementwise::dropout),
    several("DynamicQuantizeLinear", (1, 1), 3, integer::dynamic_quantise),
    standard("Elu", (1, 1), activation::elu),
    standard("Equal", (2, 2), elementwise::equal),
    standard("Erf", (1, 1), elementwise::erf),
    standard("Exp", (1, 1), elementwise::exp),
    moving("Expand", (2, 2), movement::expand),
    moving("Flatten", (1, 1), shape::flatten),
    standard("Floor", (1, 1), elementwise::floor),
    moving("Gather", (2, 2), movement::gather),
    standard("GatherElements", (2, 2), indexing::gather_elements),
    standard("GatherND", (2, 2), indexing::gather_nd),
    standard("Gelu", (1, 1), activation::gelu),
    standard("Gemm", (2, 3), dense::gemm),
    standard("GlobalAveragePool", (1, 1), pool::global_average_pool),
    standard("GlobalMaxPool", (1, 1), pool::global_max_pool),
    standard("Greater", (2, 2), elementwise::greater),
    standard("GreaterOrEqual", (2, 2), elementwise::greater_or_equal),
    standard("GroupNormalization", (3, 3), statistics::group_norm),
    several("GRU", (3, 6), 2, recurrent::gru),
    standard("Hardmax", (1, 1), compose::hardmax),
    standard("HardSigmoid", (1, 1), activation::hard_sigmoid),
    standard("HardSwish", (1, 1), elementwise::hard_swish),
    moving("Identity", (1, 1), elementwise::identity),
    Row { folds: false, ..several("If", (1, 1), MOST_PARTS, control::choose_branch) },
    standard("InstanceNormalization", (3, 3), normalisation::instance_norm),
    standard("IsInf", (1, 1), compose::is_inf),
    standard("IsNaN", (1, 1), compose::is_nan),
    standard("LayerNormalization", (2, 3), normalisation::layer_norm),
    standard("LeakyRelu", (1, 1), activation::leaky_relu),
    standard("Less", (2, 2), elementwise::less),
    standard("LessOrEqual", (2, 2), elementwise::less_or_equal),
    standard("Log", (1, 1), elementwise::log),
    standard("LogSoftmax", (1, 1), reduce::log_softmax),
    standard("LpNormalization", (1, 1), statistics::lp_norm),
    standard("LRN", (1, 1), normalisation::lrn),
    several("LSTM", (3, 8), 3, recurrent::lstm),
    standard("MatMul", (2, 2), dense::matmul),
    standard("MatMulInteger", (2, 4), integer::matmul_integer),
    standard("Max", (1, usize::MAX), elementwise::max),
    moving("MaxPool", (1, 1), pool::max_pool),
    standard("Mean", (1, usize::MAX), elementwise::mean),
    standard("MeanVarianceNormalization", (1, 1), statistics::mean_variance_norm),
    standard("Min", (1, usize::MAX), elementwise::min),
    standard("Mish", (1, 1), compose::mish),
    standard("Mod", (2, 2), compose::modulo),
    standard("Mul", (2, 2), elementwise::mul),
    standard("Neg", (1, 1), elementwise::neg),
    standard("Not", (1, 1), elementwise::not),
    standard("OneHot", (3, 3), indexing::one_hot),
    standard("Or", (2, 2), elementwise::or),
    standard("Pad", (1, 4), movement::pad),
    standard("Pow", (2, 2), elementwise::pow),
    standard("PRelu", (2, 2), activation::prelu),
    quantising("QLinearConv", (8, 9), integer::qlinear_conv),
    quantising("QLinearMatMul", (8, 8), integer::qlinear_matmul),
    quantising("QuantizeLinear", (2, 3), linear::quantise),
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
    moving("Reshape", (1, 2), shape::reshape),
    moving("Resize", (1, 4), resize::resize),
    standard("RMSNormalization", (2, 2), statistics::rms_norm),
    several("RNN", (3, 6), 2, recurrent::rnn),
    standard("Round", (1, 1), elementwise::round),
    standard("Selu", (1, 1), activation::selu),
    standard("Shape", (1, 1), static_shape::shape_of),
    standard("Shrink", (1, 1), compose::shrink),
    standard("Sigmoid", (1, 1), elementwise::sigmoid),
    standard("Sign", (1, 1), elementwise::sign),
    standard("SimplifiedLayerNormalization", (2, 2), statistics::rms_norm),
    standard("Sin", (1, 1), elementwise::sin),
    standard("Size", (1, 1), static_shape::size_of),
    moving("Slice", (1, 5), movement::slice),
    standard("Softmax", (1, 1), reduce::softmax),
    standard("Softplus", (1, 1), elementwise::softplus),
    standard("Softsign", (1, 1), compose::softsign),
    moving("SpaceToDepth", (1, 1), movement::space_to_depth),
    Row { moves: true, ..several("Split", (1, 2), MOST_PARTS, movement::split) },
    standard("Sqrt", (1, 1), elementwise::sqrt),
    moving("Squeeze", (1, 2), shape::squeeze),
    standard("Sub", (2, 2), elementwise::sub),
    standard("Sum", (1, usize::MAX), elementwise::sum),
    standard("Swish", (1, 1), compose::swish),
    standard("Tan", (1, 1), elementwise::tan),
    standard("Tanh", (1, 1), elementwise::tanh),
    standard("ThresholdedRelu", (1, 1), compose::thresholded_relu),
    moving("Tile", (2, 2), movement::tile),
    moving("Transpose", (1, 1), shape::transpose),
    standard("Trilu", (1, 2), indexing::trilu),
    moving("Unsqueeze", (1, 2), shape::unsqueeze),
    standard("Upsample", (1, 2), resize::upsample),
    standard("Where", (3, 3), elementwise::choose),
    standard("Xor", (2, 2), elementwise::xor),
    microsoft("BiasGelu", (2, 2), fused::gelu),
    microsoft("FastGelu", (1, 2), fused::fast_gelu),
    microsoft("FusedConv", (2, 4), fused::fused_conv),
    microsoft("FusedMatMul", (2, 2), fused::fused_matmul),
    microsoft("Gelu", (1, 1), fused::gelu),
    microsoft("QGemm", (6, 9), qlinear::gemm),
    microsoft("QLinearAdd", (8, 8), integer::qlinear_add),
    microsoft("QLinearAveragePool", (5, 5), qlinear::average_pool),
    microsoft("QLinearConcat", (5, usize::MAX), integer::qlinear_concat),
    microsoft("QLinearGlobalAveragePool", (5, 5), integer::qlinear_global_average_pool),
    microsoft("QLinearLeakyRelu", (5, 5), qlinear::leaky_relu),
    microsoft("QLinearMul", (8, 8), integer::qlinear_mul),
    microsoft("QLinearSigmoid", (5, 5), qlinear::sigmoid),
    microsoft("QLinearSoftmax", (5, 5), qlinear::softmax),
    microsoft("QuickGelu", (1, 1), compose::quick_gelu),
    classic("ArrayFeatureExtractor", (2, 2), 1, classic::array_feature_extractor),
    classic("LinearClassifier", (1, 1), 2, classic::linear_classifier),
    classic("LinearRegressor", (1, 1), 1, classic::linear_regressor),
    classic("Normalizer", (1, 1), 1, classic::normalizer),
    classic("Scaler", (1, 1), 1, classic::scaler),
    classic("TreeEnsembleClassifier", (1, 1), 2, trees::classifier),
    classic("TreeEnsembleRegressor", (1, 1), 1, trees::regressor),
    classic("ZipMap", (1, 1), 1, classic::zip_map),
    qonnx("BipolarQuant", (2, 2), qonnx::bipolar_quant),
    qonnx("IntQuant", (4, 4), qonnx::quant),
    qonnx("Quant", (4, 4), qonnx::quant),
    qonnx("Trunc", (5, 6), qonnx::trunc),
    Row { domain: OWN, ..quantising("Quantise", (5, 5), qonnx::quantise) },
    channels_last("AveragePool", (1, 1), channels_last::average_pool),
    channels_last("BatchNormalization", (5, 5), channels_last::batch_norm),
    channels_last("Conv", (2, 3), channels_last::conv),
    channels_last("GlobalAveragePool", (1, 1), channels_last::global_average_pool),
    channels_last("MaxPool", (1, 1), channels_last::max_pool),
];

/// The domain of a node, with synonyms brought to one name.
pub(crate) fn domain(name: Option<&str>) -> &str {
    match name.unwrap_or("") {
        "" | "ai.onnx" => STANDARD,
        "qonnx.custom_op.general" | "onnx.brevitas" | "finn.custom_op.general" => QONNX,
        other => other,
    }
}

/// [`TABLE`] by domain and name: files have hundreds of thousands of nodes.
static ROWS: LazyLock<FxHashMap<(&str, &str), &Row>> =
    LazyLock::new(|| TABLE.iter().map(|row| ((row.domain, row.name), row)).collect());

/// The row of an operator.
pub(crate) fn find(domain: &str, name: &str) -> Option<&'static Row> {
    ROWS.get(&(domain, name)).copied()
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
    names.dedup();
    names
}
