//! Attributes of recurrent layers.

/// The cell of a recurrent layer. `s` is the logistic function; matrices of the operands hold the
/// gates in the order given here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// `h' = tanh(W x + R h + b)`.
    Rnn,
    /// Gates `i o f c`: `c' = s(f) * c + s(i) * tanh(c gate)`, `h' = s(o) * tanh(c')`.
    Lstm,
    /// Gates `z r h`: `h' = (1 - s(z)) * tanh(h gate) + s(z) * h`.
    Gru {
        /// The reset gate multiplies the product with the recurrent weights (and their bias)
        /// instead of the state.
        linear_before_reset: bool,
    },
}

impl Cell {
    /// Number of gates: rows of the weights per hidden unit.
    pub fn gates(self) -> usize {
        match self {
            Cell::Rnn => 1,
            Cell::Lstm => 4,
            Cell::Gru { .. } => 3,
        }
    }
}

/// The order in which a sequence is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// First to last.
    Forward,
    /// Last to first.
    Reverse,
    /// Both, with weights of their own.
    Bidirectional,
}

impl Direction {
    /// ONNX's name.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Forward => "forward",
            Direction::Reverse => "reverse",
            Direction::Bidirectional => "bidirectional",
        }
    }

    /// For each set of weights, whether it reads backwards.
    pub fn reversed(self) -> &'static [bool] {
        match self {
            Direction::Forward => &[false],
            Direction::Reverse => &[true],
            Direction::Bidirectional => &[false, true],
        }
    }
}

/// Which result of a recurrent layer a node gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecurrentOutput {
    /// All states `[T, D, N, H]`.
    States,
    /// The last state `[D, N, H]`.
    LastState,
    /// The last cell `[D, N, H]`; of an LSTM only.
    LastCell,
}

/// Attributes of a recurrent layer. With T steps, N sequences, I features, H hidden units, D
/// directions and G gates ([`Cell::gates`]), the inputs are `x [T, N, I]`, `w [D, G H, I]`,
/// `r [D, G H, H]`, optional `b [D, 2 G H]` (of `w`, then of `r`), optional first state
/// `[D, N, H]`; for an LSTM also optional first cell `[D, N, H]` and peepholes `[D, 3 H]` (of
/// `i o f`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recurrent {
    /// The cell.
    pub cell: Cell,
    /// Hidden units H.
    pub hidden: usize,
    /// Order of the steps.
    pub direction: Direction,
    /// The result.
    pub output: RecurrentOutput,
}
