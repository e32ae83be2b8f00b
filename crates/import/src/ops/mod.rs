//! The operators that can be read: one row of [`TABLE`] and one function each.

mod constant;
mod dense;
mod elementwise;
mod linear;
mod normalisation;
mod pool;
pub(crate) mod qonnx;
mod shape;
mod window;

use crate::context::NodeContext;
use quincunx_diag::{Result, did_you_mean};

/// The standard operators (`""` and `ai.onnx`).
pub(crate) const STANDARD: &str = "";

/// The QONNX operators, under the three names in use.
pub(crate) const QONNX: &str = "qonnx.custom_op.general";

/// Code of diagnostics about a form of an operator that is not supported.
pub(crate) const FEATURE: &str = "Q0406";

/// One operator.
pub(crate) struct Row {
    /// Name in the file.
    pub(crate) name: &'static str,
    /// [`STANDARD`] or [`QONNX`].
    pub(crate) domain: &'static str,
    /// Fewest and most operands.
    pub(crate) inputs: (usize, usize),
    /// Adds the node to the graph.
    pub(crate) convert: Convert,
}

type Convert = for<'a, 'm> fn(&mut NodeContext<'a, 'm>) -> Result<()>;

const fn standard(name: &'static str, inputs: (usize, usize), convert: Convert) -> Row {
    Row { name, domain: STANDARD, inputs, convert }
}

const fn qonnx(name: &'static str, inputs: (usize, usize), convert: Convert) -> Row {
    Row { name, domain: QONNX, inputs, convert }
}

/// Every operator, by name.
const TABLE: &[Row] = &[
    standard("Abs", (1, 1), elementwise::abs),
    standard("Add", (2, 2), elementwise::add),
    standard("AveragePool", (1, 1), pool::average_pool),
    standard("BatchNormalization", (5, 5), normalisation::batch_norm),
    standard("Constant", (0, 0), constant::constant),
    standard("Conv", (2, 3), window::conv),
    standard("DequantizeLinear", (2, 3), linear::dequantise),
    standard("Div", (2, 2), elementwise::div),
    standard("Dropout", (1, 3), elementwise::dropout),
    standard("Flatten", (1, 1), shape::flatten),
    standard("Gemm", (2, 3), dense::gemm),
    standard("GlobalAveragePool", (1, 1), pool::global_average_pool),
    standard("Identity", (1, 1), elementwise::identity),
    standard("MatMul", (2, 2), dense::matmul),
    standard("Max", (1, usize::MAX), elementwise::max),
    standard("MaxPool", (1, 1), pool::max_pool),
    standard("Min", (1, usize::MAX), elementwise::min),
    standard("Mul", (2, 2), elementwise::mul),
    standard("Neg", (1, 1), elementwise::neg),
    standard("QuantizeLinear", (2, 3), linear::quantise),
    standard("Relu", (1, 1), elementwise::relu),
    standard("Reshape", (1, 2), shape::reshape),
    standard("Squeeze", (1, 2), shape::squeeze),
    standard("Sub", (2, 2), elementwise::sub),
    standard("Transpose", (1, 1), shape::transpose),
    standard("Unsqueeze", (1, 2), shape::unsqueeze),
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
