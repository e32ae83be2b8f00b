//! Attributes of operators that compute, compare, select and reduce numbers.

/// Operators on one tensor with parameters, element by element. Float tensors only; parameters are
/// f32 as in ONNX.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// `x` where `x >= 0`, else `alpha * x`.
    LeakyRelu {
        /// Slope of the negative side.
        alpha: f32,
    },
    /// `x` where `x >= 0`, else `alpha * (e^x - 1)`.
    Elu {
        /// Limit of the negative side, negated.
        alpha: f32,
    },
    /// `gamma * x` where `x > 0`, else `gamma * alpha * (e^x - 1)`.
    Selu {
        /// Limit of the negative side over `gamma`, negated.
        alpha: f32,
        /// Slope of the positive side.
        gamma: f32,
    },
    /// `alpha * x + beta`, kept between 0 and 1.
    HardSigmoid {
        /// Slope.
        alpha: f32,
        /// Value at 0.
        beta: f32,
    },
    /// `min(max(x, min), max)`; where `min > max` the result is `max`.
    Clip {
        /// Lowest result; `None` for no limit.
        min: Option<f32>,
        /// Highest result; `None` for no limit.
        max: Option<f32>,
    },
}

impl Activation {
    /// The slope of `HardSwish(x) = x * HardSigmoid(slope * x + 0.5)`: one sixth as f32, which is
    /// what ONNX computes with.
    pub const HARD_SWISH_SLOPE: f32 = 1.0 / 6.0;

    /// ONNX's name.
    pub fn name(self) -> &'static str {
        match self {
            Activation::LeakyRelu { .. } => "LeakyRelu",
            Activation::Elu { .. } => "Elu",
            Activation::Selu { .. } => "Selu",
            Activation::HardSigmoid { .. } => "HardSigmoid",
            Activation::Clip { .. } => "Clip",
        }
    }
}

/// Comparisons of two tensors, element by element, with broadcasting. The result is Bool; a
/// comparison with NaN is false.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compare {
    /// `a = b`; also for Bool.
    Equal,
    /// `a < b`.
    Less,
    /// `a <= b`.
    LessOrEqual,
    /// `a > b`.
    Greater,
    /// `a >= b`.
    GreaterOrEqual,
}

impl Compare {
    /// ONNX's name.
    pub fn name(self) -> &'static str {
        match self {
            Compare::Equal => "Equal",
            Compare::Less => "Less",
            Compare::LessOrEqual => "LessOrEqual",
            Compare::Greater => "Greater",
            Compare::GreaterOrEqual => "GreaterOrEqual",
        }
    }

    /// The comparison of two numbers.
    pub fn holds<T: PartialOrd>(self, a: &T, b: &T) -> bool {
        match self {
            Compare::Equal => a == b,
            Compare::Less => a < b,
            Compare::LessOrEqual => a <= b,
            Compare::Greater => a > b,
            Compare::GreaterOrEqual => a >= b,
        }
    }
}

/// Operators on two Bool tensors, element by element, with broadcasting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Logic {
    /// Both.
    And,
    /// At least one.
    Or,
    /// Exactly one.
    Xor,
}

impl Logic {
    /// ONNX's name.
    pub fn name(self) -> &'static str {
        match self {
            Logic::And => "And",
            Logic::Or => "Or",
            Logic::Xor => "Xor",
        }
    }

    /// The operator on two truth values.
    pub fn holds(self, a: bool, b: bool) -> bool {
        match self {
            Logic::And => a && b,
            Logic::Or => a || b,
            Logic::Xor => a != b,
        }
    }
}

/// What a reduction computes from the elements it joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceKind {
    /// Sum divided by the number of elements; of integers truncated. Needs an element.
    Mean,
    /// Sum; 0 for no element.
    Sum,
    /// Largest; the lowest number of the type (`-inf` for floats) for no element.
    Max,
    /// Smallest; the highest number of the type for no element.
    Min,
    /// Product; 1 for no element.
    Prod,
    /// Sum of magnitudes.
    L1,
    /// Square root of the sum of squares.
    L2,
    /// Sum of squares.
    SumSquare,
    /// Natural logarithm of the sum.
    LogSum,
    /// Natural logarithm of the sum of `e^x`.
    LogSumExp,
}

impl ReduceKind {
    /// Every kind, in declaration order.
    pub const ALL: [ReduceKind; 10] = [
        ReduceKind::Mean,
        ReduceKind::Sum,
        ReduceKind::Max,
        ReduceKind::Min,
        ReduceKind::Prod,
        ReduceKind::L1,
        ReduceKind::L2,
        ReduceKind::SumSquare,
        ReduceKind::LogSum,
        ReduceKind::LogSumExp,
    ];

    /// ONNX's name.
    pub fn name(self) -> &'static str {
        match self {
            ReduceKind::Mean => "ReduceMean",
            ReduceKind::Sum => "ReduceSum",
            ReduceKind::Max => "ReduceMax",
            ReduceKind::Min => "ReduceMin",
            ReduceKind::Prod => "ReduceProd",
            ReduceKind::L1 => "ReduceL1",
            ReduceKind::L2 => "ReduceL2",
            ReduceKind::SumSquare => "ReduceSumSquare",
            ReduceKind::LogSum => "ReduceLogSum",
            ReduceKind::LogSumExp => "ReduceLogSumExp",
        }
    }
}

/// Attributes of a reduction. Input: `x`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reduce {
    /// What is computed.
    pub kind: ReduceKind,
    /// The axes that are joined, each once. With none, every element is reduced alone.
    pub axes: Vec<usize>,
    /// Joined axes stay with extent 1.
    pub keep_dims: bool,
}

/// Attributes of a search for the position of an extreme along one axis; the result is i64.
/// Input: `x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgExtreme {
    /// The largest; else the smallest.
    pub largest: bool,
    /// The axis.
    pub axis: usize,
    /// The axis stays with extent 1.
    pub keep_dims: bool,
    /// Of several equal elements the last; else the first.
    pub last: bool,
}

/// Attributes of a softmax: `e^x / sum(e^x)` along one axis. Input: `x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Softmax {
    /// The axis.
    pub axis: usize,
    /// The natural logarithm of it.
    pub log: bool,
}

/// Attributes of a layer normalisation: mean 0 and variance 1 over the axes from `axis` on, then
/// `* scale + bias`. Inputs: `x`, `scale`, optional `bias`; the last two broadcast to `x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerNorm {
    /// The first axis that is normalised.
    pub axis: usize,
    /// Added to the variance.
    pub epsilon: f32,
}

/// Attributes of an instance normalisation: mean 0 and variance 1 over the spatial axes of every
/// channel, then `* scale + bias`. Inputs: `x [N, C, …]`, `scale [C]`, `bias [C]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InstanceNorm {
    /// Added to the variance.
    pub epsilon: f32,
}

/// Attributes of a local response normalisation:
/// `x / (bias + alpha / size * s)^beta`, where `s` is the sum of squares over `size` neighbouring
/// channels: `(size - 1) / 2` before (rounded down) and the rest after. Input: `x [N, C, …]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lrn {
    /// Number of channels; at least 1.
    pub size: usize,
    /// Factor of the mean of squares.
    pub alpha: f32,
    /// Exponent.
    pub beta: f32,
    /// Added to the sum.
    pub bias: f32,
}

impl Lrn {
    /// The channels whose squares belong to channel `c` of `channels`.
    pub fn neighbours(&self, c: usize, channels: usize) -> std::ops::Range<usize> {
        let before = (self.size - 1) / 2;
        let after = self.size - 1 - before;
        c.saturating_sub(before)..c.saturating_add(after).saturating_add(1).min(channels)
    }
}
