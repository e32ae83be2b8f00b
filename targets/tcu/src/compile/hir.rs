//! The high-level intermediate representation: what every layer computes, without saying where
//! (`tensil-doc` 2.5 in `docs/bibliography.md`).
//!
//! A tensor is a table of *positions* by *channels*. The positions of an `[N, C, H, W]` tensor are
//! `(n * H + h) * W + w`, those of `[N, C]` are `n`. The channels of a position are vectors of the
//! machine's `lanes`, called *blocks*; lanes behind the last channel are padding. A block of a
//! tensor over all its positions is a *plane*.
//!
//! [`Vars`](Var) pass data between layers and lie in DRAM0, [`Consts`](Const) lie in DRAM1, and
//! temps pass data within one layer, in accumulators. Every temp of a layer has the layer's
//! channels, so that a layer can be computed block by block of its output.
//!
//! All numbers are scalars of the machine's data type, as it holds them. `sat` is saturation, `*` a
//! product rounded once to nearest, ties to even.

use std::sync::Arc;

/// A tensor in DRAM0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VarId(pub u32);

/// A constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConstId(pub u32);

/// A lookup table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub u32);

/// Data within one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TempId(pub u32);

/// How the vectors of a [`Var`] follow each other in DRAM0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Vector `position * blocks + block`: the layout of inputs and outputs.
    Interleaved,
    /// Vector `block * positions + position`.
    Planar,
}

/// A tensor in DRAM0 (the Vars object of `tensil-doc` 2.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Var {
    /// Name, for comments and the description of the program.
    pub name: String,
    /// Positions, at least 1.
    pub positions: u32,
    /// Blocks, at least 1.
    pub blocks: u32,
    /// Layout.
    pub order: Order,
}

/// A constant in DRAM1 (the Consts object of `tensil-doc` 2.4).
///
/// Invariant: `data` has `rows * channels` scalars, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Const {
    /// Name, for comments.
    pub name: String,
    /// Rows. Those of weights are the lanes of the input planes, in order.
    pub rows: u32,
    /// Channels of a row, without padding.
    pub channels: u32,
    /// Scalars of the machine's data type.
    pub data: Arc<[i32]>,
}

/// A lookup table, the same in every lane.
///
/// A lookup takes the entry whose key is closest to a number, the lower key of two and the first of
/// equal ones. Its result is `value`, or with slopes `sat(value + sat((x - key) * slope))`, the
/// difference being saturated.
///
/// Invariant: all columns have as many entries as the machine's tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Name, for comments and numerics; tables of equal names are equal.
    pub name: String,
    /// Keys.
    pub keys: Arc<[i32]>,
    /// Values.
    pub values: Arc<[i32]>,
    /// Slopes, on machines with two tables and more.
    pub slopes: Option<Arc<[i32]>>,
}

/// A block of a tensor in DRAM0 over all its positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Plane {
    /// The tensor.
    pub var: VarId,
    /// The block.
    pub block: u32,
}

/// Planes of one number of positions, read or written position by position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// One plane for every block.
    pub planes: Arc<[Plane]>,
    /// For every position of the layer's temp, the position in the planes; `None` reads zeros.
    /// Without a map the positions are the same.
    pub map: Option<Arc<[Option<u32>]>>,
    /// The lanes behind the last channel hold zeros.
    pub zero_padding: bool,
}

/// One input position that a [`Tap`] multiplies, and the output position it adds to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pair {
    /// Position in the input planes.
    pub input: u32,
    /// Position in the output.
    pub output: u32,
}

/// Products with one matrix of weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tap {
    /// Weights; `inputs.len() * lanes` rows. Rows of padding lanes are zeros.
    pub weights: ConstId,
    /// Input planes, one for every block of input channels.
    pub inputs: Arc<[Plane]>,
    /// The lanes of the last plane that hold channels; `lanes` unless those behind are known to
    /// hold zeros.
    pub last_lanes: u32,
    /// What is multiplied, in order of output positions, each at most once. An output position
    /// that is missing has zeros as its input.
    pub pairs: Arc<[Pair]>,
}

/// Where the bias enters the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bias {
    /// One row.
    pub row: ConstId,
    /// The tap whose product starts with the bias.
    pub tap: u32,
    /// The block of input channels of that tap whose product starts with the bias.
    pub block: u32,
}

/// A matrix product, convolution being one with a tap for every kernel position.
///
/// The product of an input vector with a block of weights is `y = bias` (or 0), then
/// `y = sat(x[lane] * w[lane] + y)` for the lanes in order, the sum rounded once to nearest, ties to
/// even. The output is `sat(output + y)` over the taps in order and, within a tap, the blocks of
/// input channels in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatMul {
    /// Name of the graph's node, by which the order that the compiler chose is known.
    pub node: String,
    /// Taps in order.
    pub taps: Vec<Tap>,
    /// Bias.
    pub bias: Option<Bias>,
    /// The order of the sum must be kept. Otherwise the scheduler chooses a [`SumOrder`], and the
    /// bias starts the first block of it.
    pub ordered: bool,
    /// Result.
    pub output: TempId,
}

/// The order in which an unordered product is summed: for every chunk of blocks of input channels,
/// for every tap in this order, for every block of the chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SumOrder {
    /// Taps, as indices of [`MatMul::taps`].
    pub taps: Vec<u32>,
    /// Blocks in a chunk, at least 1.
    pub chunk: u32,
}

/// The second operand of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// Data of the same layer.
    Temp(TempId),
    /// A tensor.
    Vars(View),
    /// A constant; one row for all positions, or one for each.
    Const(ConstId),
}

/// An operation with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// `sat(x + y)`.
    Add,
    /// `sat(x - y)`.
    Sub,
    /// `sat(y - x)`.
    SubFrom,
    /// `sat(x * y)`.
    Mul,
    /// The larger.
    Max,
    /// The smaller.
    Min,
}

/// An operation on every position and channel alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    /// `max(x, 0)`.
    Relu,
    /// `max(x, sat(x * alpha))`.
    LeakyRelu {
        /// Slope.
        alpha: i32,
    },
    /// `sat(x + sat(min(x, 0) * factor))`: a leaky ReLU whose slope is `1 + factor`, one instruction
    /// shorter where the result takes the place of the operand.
    LeakySum {
        /// Factor.
        factor: i32,
    },
    /// `min(max(x, low), high)`.
    Clip {
        /// Low end.
        low: i32,
        /// High end.
        high: i32,
    },
}

/// How the positions of a window become one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// The largest.
    Max,
    /// `sat(s * multiplier)` of the sum `s = sat(s + x)` in order.
    Average {
        /// Multipliers, scalars: one for every output position, or one for all.
        multipliers: Arc<[i32]>,
    },
}

impl Pooling {
    /// The factor of averages of one number each.
    pub(crate) fn factor_of_single(&self, windows: &Windows) -> Option<i32> {
        match self {
            Pooling::Average { multipliers } if multipliers.len() == 1 && windows.are_single() => {
                multipliers.first().copied()
            }
            _ => None,
        }
    }
}

/// Lists of input positions, one for every output position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    /// Where the list of each output position starts, and the end of the last one.
    pub starts: Vec<u32>,
    /// Input positions. A list for [`Pooling::Max`] may begin with [`Windows::ZERO`].
    pub positions: Vec<u32>,
}

impl Windows {
    /// Zeros in the place of a position.
    pub const ZERO: u32 = u32::MAX;

    /// Input positions of an output position.
    ///
    /// # Panics
    /// When there is no such output position.
    pub fn of(&self, output: u32) -> &[u32] {
        let at = |index: usize| self.starts[index] as usize;
        &self.positions[at(output as usize)..at(output as usize + 1)]
    }

    /// Number of output positions.
    pub fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// True when every list has one position.
    fn are_single(&self) -> bool {
        self.starts.iter().enumerate().all(|(at, &start)| start as usize == at)
    }

    /// True without output positions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An operation of a layer. Every temp is written by exactly one operation, before it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A matrix product.
    MatMul(MatMul),
    /// Brings a tensor into accumulators.
    Load {
        /// The tensor, one plane for every block of the layer.
        from: View,
        /// Result.
        output: TempId,
    },
    /// Two operands.
    Binary {
        /// Which.
        op: Binary,
        /// First operand.
        input: TempId,
        /// Second operand.
        other: Operand,
        /// Result.
        output: TempId,
    },
    /// One operand.
    Unary {
        /// Which.
        op: Unary,
        /// Operand.
        input: TempId,
        /// Result.
        output: TempId,
    },
    /// `sat(sat(x * scale) + offset)`, the two constants having one row.
    Norm {
        /// Factor of every channel.
        scale: ConstId,
        /// Summand of every channel.
        offset: ConstId,
        /// Operand.
        input: TempId,
        /// Result.
        output: TempId,
    },
    /// A function from a table. All lookups of a layer use one table.
    Lookup {
        /// Table.
        table: TableId,
        /// Operand.
        input: TempId,
        /// Result.
        output: TempId,
    },
    /// Pooling.
    Pool {
        /// Which.
        kind: Pooling,
        /// Input positions of every output position.
        windows: Windows,
        /// Operand.
        input: TempId,
        /// Result.
        output: TempId,
    },
    /// A weighted sum of positions: `s = sat(x * w)` of the first, then `s = sat(s + sat(x * w))`.
    Interpolate {
        /// Input positions of every output position.
        windows: Windows,
        /// The weight of every entry of `windows.positions`; scalars.
        weights: Vec<i32>,
        /// Operand.
        input: TempId,
        /// Result.
        output: TempId,
    },
    /// A product over positions: rows of output positions, each a sum of the same input positions
    /// times numbers that all channels share. Inputs are summed in blocks of lanes as those of a
    /// [`MatMul`], without a bias.
    Mix {
        /// The input positions of every row, row by row; a map says which.
        from: View,
        /// A row for every output of a row, with a number for every input of it.
        weights: ConstId,
        /// Result, row by row.
        output: TempId,
    },
    /// Writes a temp to a tensor, one plane for every block of the layer.
    Save {
        /// What is written.
        input: TempId,
        /// Where to; position by position.
        to: Arc<[Plane]>,
        /// Positions of the temp that are written, in order, when not all are: one for every
        /// position of the planes.
        positions: Option<Arc<[u32]>>,
    },
}

/// A layer: what happens between loading and saving accumulators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Name, for comments and tables.
    pub name: String,
    /// Names of the graph's nodes that it computes.
    pub nodes: Vec<String>,
    /// Multiply-accumulates with real inputs, unpadded.
    pub macs: u64,
    /// Channels of every temp.
    pub channels: u32,
    /// Positions of every temp.
    pub temps: Vec<u32>,
    /// Positions in a row of the temp saved last (its width), for choosing tiles; 1 without rows.
    pub row: u32,
    /// Operations in order; the last ones save.
    pub ops: Vec<Op>,
}

/// An input or output of the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Name in the graph.
    pub name: String,
    /// The tensor that holds it, interleaved.
    pub var: VarId,
    /// Shape in the graph.
    pub shape: Vec<usize>,
}

/// A value of the graph that lies in DRAM0 as a whole at some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Name in the graph.
    pub name: String,
    /// Shape in the graph: `[N, C, H, W]` or `[N, C]`.
    pub shape: Vec<usize>,
    /// The layer after which it is complete.
    pub layer: u32,
    /// One plane for every block; its positions are those of the shape.
    pub planes: Arc<[Plane]>,
}

/// A network as layers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// Tensors in DRAM0.
    pub vars: Vec<Var>,
    /// Constants.
    pub consts: Vec<Const>,
    /// Lookup tables.
    pub tables: Vec<Table>,
    /// Layers in order.
    pub layers: Vec<Layer>,
    /// Inputs.
    pub inputs: Vec<Binding>,
    /// Outputs.
    pub outputs: Vec<Binding>,
    /// Values that can be observed.
    pub observed: Vec<Observed>,
}
