//! Functions as sequences of vector instructions.
//!
//! The vector queue has no tables: it adds, multiplies and compares. What takes several instructions
//! works on numbers of single precision in blocks of L2 that only the layer uses, on some rows of an
//! image at a time. `e^x` is a polynomial that is squared, `1 / x` and `1 / sqrt(x)` are Newton's
//! iterations, the normal distribution is approximated as in `normal` (`docs/bibliography.md`). Sums
//! and extremes of channels go through a scalar register, position by position.

use super::layers::{Grid, Layer, Operation};
use super::memory::ALIGN;
use super::steps::{Cutter, Piece, dequantiser, format, plain, quantiser, row_offset};
use crate::isa::{CMPS, DataFmt, Float2Fixed, MG0S, QSMD, SG0M, SG1M, SUMM};
use crate::work::{Extents, Place, Scalar, Vector, VectorKind, VpConfig, pitch};

/// A function on the vector queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Function {
    /// `x * factor + addend`, either of which may be absent.
    Affine(Option<f32>, Option<f32>),
    /// The larger of `x` and this, the smaller of that and this.
    Clip(Option<f32>, Option<f32>),
    /// `factor * x + addend`, kept between 0 and 1.
    HardSigmoid(f32, f32),
    /// `x * hard_sigmoid(x / 6 + 1/2)`.
    HardSwish,
    /// `x` times a slope where it is negative.
    Leaky(f32),
    /// `1 / (1 + e^-x)`.
    Sigmoid,
    /// Hyperbolic tangent.
    Tanh,
    /// Error function.
    Erf,
    /// `x` times the normal distribution.
    Gelu,
    /// `x * sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3))`.
    GeluTanh,
    /// `e^x / sum(e^x)` of the channels of every position.
    Softmax,
    /// Mean 0 and variance 1 of the channels of every position; then a factor and an addend of every
    /// channel, the second and third operand, as far as they are there.
    LayerNorm {
        /// Added to the variance.
        epsilon: f32,
        /// There is a factor.
        factor: bool,
        /// There is an addend.
        addend: bool,
        /// The largest magnitudes of factors and addends.
        bounds: [f64; 2],
    },
}

impl Function {
    /// It is one instruction, on numbers of any format.
    pub(crate) fn is_single(self) -> bool {
        matches!(self, Function::Affine(..) | Function::Clip(..) | Function::HardSigmoid(..))
    }

    /// It reduces the channels of every position.
    pub(crate) fn reduces(self) -> bool {
        matches!(self, Function::Softmax | Function::LayerNorm { .. })
    }

    /// Blocks of a number for every element, and for every position.
    fn blocks(self) -> (u64, u64) {
        match self {
            Function::Affine(..) | Function::Clip(..) | Function::HardSigmoid(..) => (0, 0),
            Function::HardSwish | Function::Leaky(_) => (2, 0),
            Function::Sigmoid | Function::Tanh => (4, 0),
            Function::Erf => (4, 0),
            Function::Gelu | Function::GeluTanh => (5, 0),
            Function::Softmax | Function::LayerNorm { .. } => (2, 3),
        }
    }
}

/// What an address of a line counts from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Base {
    /// An operand of the layer.
    Operand(usize),
    /// Its result.
    Output,
    /// Its own block.
    Scratch,
}

/// A line of a sequence.
pub(crate) struct Line {
    /// With addresses behind their bases.
    pub(crate) vector: Vector,
    /// Of tensor 0, tensor 1 and the output.
    pub(crate) bases: [Base; 3],
}

/// Pieces of single images, whose own blocks take little of L2.
pub(crate) fn pieces(cutter: &Cutter<'_>, layer: &Layer, images: (u32, u32)) -> Vec<Piece> {
    let [_, height, _] = cutter.extents(layer.output);
    let row = scratch(cutter, layer, 1).max(1);
    let limit = u64::from(cutter.arch.l2_bytes / 8);
    let most = (limit / row).clamp(1, height.into()) as u32;
    let rows = height.div_ceil(height.div_ceil(most));
    let mut pieces = Vec::new();
    for image in images.0..images.0 + images.1 {
        for row in (0..height).step_by(rows as usize) {
            pieces.push(Piece { image, images: 1, row, rows: rows.min(height - row) });
        }
    }
    pieces
}

/// Bytes of a layer's own block for so many rows.
pub(crate) fn scratch(cutter: &Cutter<'_>, layer: &Layer, rows: u32) -> u64 {
    let Operation::Function(function) = layer.operation else { return 0 };
    let [channels, _, columns] = cutter.extents(layer.output);
    let (elements, positions) = function.blocks();
    let halves = !function.is_single() && cutter.form(layer.output).grid == Grid::Half;
    let elements = elements + if halves { 4 } else { 0 };
    elements * block([channels, rows, columns]) + positions * block([1, rows, columns])
}

/// Bytes of numbers of single precision.
fn block([c, h, w]: Extents) -> u64 {
    (u64::from(pitch(c, 4)) * u64::from(h) * u64::from(w)).next_multiple_of(ALIGN)
}

/// The lines of a layer's piece.
pub(crate) fn lines(cutter: &Cutter<'_>, layer: &Layer, piece: Piece) -> Vec<Line> {
    let Operation::Function(function) = layer.operation else { return Vec::new() };
    let mut sequence = Sequence::new(cutter, layer, piece, function);
    sequence.function(function);
    if let Some(result) = sequence.halves {
        sequence.halve(result, largest(function, sequence.input, sequence.extents[0]));
    }
    sequence.lines
}

/// A tensor of a sequence.
#[derive(Clone, Copy, PartialEq)]
enum Tensor {
    /// The rows of the operand.
    Input,
    /// The rows of the result.
    Output,
    /// A number for every element.
    Block(u32),
    /// A number for every position.
    Positions(u32),
    /// A number for every channel: an operand.
    Channels(usize),
    /// A code for every element, in such a block.
    Codes(u32),
}
use Tensor::{Block, Channels, Codes, Input, Output, Positions};

/// What an instruction multiplies with.
#[derive(Clone, Copy)]
enum Factor {
    Other,
    Number(f32),
}

/// What an instruction adds behind that.
#[derive(Clone, Copy)]
enum Addend {
    Other,
    MinusOther,
    Number(f32),
    /// Minus a scalar register.
    MinusScalar(u8),
}

/// The modules of an instruction, in the order in which numbers pass them.
#[derive(Clone, Copy, Default)]
struct Modules {
    /// Factor and addend with which tensor 0 is read.
    map: Option<[f32; 2]>,
    /// Factor with which tensor 1 is read then.
    other: Option<f32>,
    multiply: Option<Factor>,
    shift: Option<f32>,
    add: Option<Addend>,
    relu: bool,
    limit: Option<(CMPS, f32)>,
    /// Factor and addend; the latter may be a scalar register.
    scale: Option<(f32, f32, u8)>,
    /// The scalar register that holds the sum of all results, or with `limit` their extreme.
    result: u8,
}

const PRODUCT: Modules = Modules {
    map: None,
    other: None,
    multiply: Some(Factor::Other),
    shift: None,
    add: None,
    relu: false,
    limit: None,
    scale: None,
    result: 0,
};

/// Exponents are not less than this: `e^-20` is less than half a code of any result.
const LEAST: f32 = -20.0;
/// How often a power is squared: it is taken of a 16th of the exponent.
const SQUARINGS: usize = 4;
/// `1 - (1 + d1 x + ... + d6 x^6)^-16 / 2` is the normal distribution for positive `x`.
const NORMAL: [f32; 6] = [
    0.049_867_347,
    0.021_141_006,
    0.003_277_626_3,
    0.000_038_003_6,
    0.000_048_890_6,
    0.000_005_383,
];
/// Beyond this the distribution is 1, and the polynomial there.
const NORMAL_END: (f32, f64) = (5.0, 2.45);

/// Where a sequence's tensors lie, and its lines so far.
struct Sequence {
    /// Channels, rows and columns of the piece.
    extents: Extents,
    /// Format of operand and result, and the bytes of their first row.
    ends: [(DataFmt, u64); 2],
    /// The whole result.
    result: Extents,
    input: Grid,
    output: Grid,
    /// Blocks for every element.
    blocks: u64,
    /// Where the result is before it is of half precision.
    halves: Option<Tensor>,
    /// The only position that lines are for.
    position: Option<u32>,
    /// Registers that a line does not use keep what they hold.
    config: VpConfig,
    lines: Vec<Line>,
}

impl Sequence {
    fn new(cutter: &Cutter<'_>, layer: &Layer, piece: Piece, function: Function) -> Sequence {
        let [source, result] = [cutter.extents(layer.inputs[0]), cutter.extents(layer.output)];
        let [input, output] = [cutter.form(layer.inputs[0]), cutter.form(layer.output)];
        let ends = [(source, input.grid), (result, output.grid)].map(|(extents, grid)| {
            (format(grid), row_offset(extents, piece.row, format(grid)).unsigned_abs())
        });
        let extents = [result[0], piece.rows, result[2]];
        let mut config = plain([ends[0].0, ends[1].0], result, extents);
        config.single = !function.is_single();
        let mut blocks = function.blocks().0;
        let halves = (config.single && output.grid == Grid::Half).then_some(Block(blocks as u32));
        blocks += if halves.is_some() { 4 } else { 0 };
        let (qb, qk) = quantiser(output.grid);
        config.quantiser = (Float2Fixed::ROUND, QSMD::DEFAULT, qb as f32, qk as f32);
        Sequence {
            extents,
            ends,
            result,
            input: input.grid,
            output: output.grid,
            blocks,
            halves,
            position: None,
            config,
            lines: Vec::new(),
        }
    }

    /// Base, first byte and extents of a tensor.
    fn place(&self, tensor: Tensor) -> (Base, u64, Extents) {
        let [c, h, w] = self.extents;
        let part = |channels: u32| match self.position {
            Some(at) => (u64::from(at) * u64::from(pitch(channels, 4)), [channels, 1, 1]),
            None => (0, [channels, h, w]),
        };
        match tensor {
            Input => (Base::Operand(0), self.ends[0].1, self.extents),
            Output => (Base::Output, self.ends[1].1, self.extents),
            Block(index) | Codes(index) => {
                let (offset, extents) = part(c);
                let start = u64::from(index) * block(self.extents);
                (Base::Scratch, start + offset, extents)
            }
            Positions(index) => {
                let start = self.blocks * block(self.extents);
                let (offset, extents) = part(1);
                (Base::Scratch, start + u64::from(index) * block([1, h, w]) + offset, extents)
            }
            Channels(operand) => (Base::Operand(operand), 0, [c, 1, 1]),
        }
    }

    fn format(&self, tensor: Tensor) -> DataFmt {
        match tensor {
            Input => self.ends[0].0,
            Output => self.ends[1].0,
            // Single precision.
            Block(_) | Positions(_) | Channels(_) => DataFmt::FP16,
            Codes(_) => DataFmt::INT8,
        }
    }

    /// An instruction that reads one tensor or two.
    fn run(&mut self, own: Tensor, other: Option<Tensor>, to: Tensor, modules: Modules) {
        let to = self.halves.filter(|_| to == Output && self.config.single).unwrap_or(to);
        let [first, last] = [self.place(own), self.place(to)];
        let second = other.map(|other| self.place(other));
        let dequantises = own == Input && matches!(self.input, Grid::Codes { .. });
        let map = match (modules.map, dequantises) {
            (Some(map), _) => Some(map),
            (None, true) => {
                let (addend, factor) = dequantiser(self.input);
                Some([factor, addend])
            }
            (None, false) => None,
        };
        let quantises = to == Output && self.output != Grid::Half || matches!(to, Codes(_));
        let formats = [self.format(own), self.format(to)];
        let config = &mut self.config;
        config.formats = formats;
        (config.source, config.tile) = (first.2, last.2);
        config.dest = if to == Output { self.result } else { last.2 };
        config.second_axes = match other {
            None => 0,
            Some(Positions(_)) => 6,
            Some(Channels(_)) => 1,
            Some(_) => 7,
        };
        if let Some([factor, addend]) = map {
            config.dequantisers = [(addend, factor), (0.0, modules.other.unwrap_or(1.0))];
        }
        let (mut groups, mut used) = (4 | u8::from(other.is_some()), 16);
        let number = |immediate: f32| Scalar { register: 0, immediate };
        if let Some(factor) = modules.multiply {
            used |= 8;
            config.multiply = match factor {
                Factor::Other => (MG0S::TENSOR, config.multiply.1),
                Factor::Number(factor) => (MG0S::DEFAULT, number(factor)),
            };
        }
        if let Some(addend) = modules.shift {
            groups |= 2;
            config.sum1 = (SG1M::DEFAULT, number(addend));
        }
        if let Some(addend) = modules.add {
            used |= 2;
            config.sum0 = match addend {
                Addend::Other => (SG0M::DEFAULT, config.sum0.1),
                Addend::MinusOther => (SG0M::SUB, config.sum0.1),
                Addend::Number(addend) => (SG0M::DEFAULT, number(addend)),
                Addend::MinusScalar(register) => (SG0M::SUB, Scalar { register, immediate: 0.0 }),
            };
        }
        if modules.relu {
            groups |= 64;
        }
        if let Some((kept, limit)) = modules.limit {
            used |= 1;
            config.compare = (kept, number(limit));
        }
        if let Some((factor, immediate, register)) = modules.scale {
            used |= 4;
            config.scalar = (SUMM::DEFAULT, number(factor), Scalar { register, immediate });
        }
        let place = |start: u64| Place { region: 0, address: start as i64 };
        let second = second.unwrap_or(first);
        let vector = Vector {
            kind: VectorKind::Single,
            config: *config,
            dequantise: map.is_some(),
            quantise: if quantises { 3 } else { 0 },
            shift: 0,
            groups,
            reserved: [0; 4],
            scalar_result: modules.result,
            modules: used,
            start: [0, 0],
            input: place(first.1),
            second: place(second.1),
            output: place(last.1),
        };
        self.lines.push(Line { vector, bases: [first.0, second.0, last.0] });
    }

    fn function(&mut self, function: Function) {
        let none = Modules::default();
        match function {
            Function::Affine(factor, addend) => {
                let multiply = factor.map(Factor::Number);
                let add = addend.map(Addend::Number);
                self.run(Input, None, Output, Modules { multiply, add, ..none });
            }
            Function::Clip(Some(low), Some(high)) => {
                let (add, limit) = (Some(Addend::Number(-low)), Some((CMPS::MIN, high - low)));
                let scale = Some((1.0, low, 0));
                self.run(Input, None, Output, Modules { add, relu: true, limit, scale, ..none });
            }
            Function::Clip(low, high) => {
                let high = high.map(|high| (CMPS::MIN, high));
                let limit = low.map(|low| (CMPS::MAX, low)).or(high);
                self.run(Input, None, Output, Modules { limit, ..none });
            }
            Function::HardSigmoid(factor, addend) => self.hard_sigmoid(Output, factor, addend),
            Function::HardSwish => {
                self.hard_sigmoid(Block(0), HARD_SWISH_SLOPE, 0.5);
                self.run(Input, None, Block(1), none);
                self.run(Block(1), Some(Block(0)), Output, PRODUCT);
            }
            Function::Leaky(slope) => {
                self.run(Input, None, Block(0), Modules { relu: true, ..none });
                let multiply = Some(Factor::Number(-1.0));
                let scale = Some((slope, 0.0, 0));
                self.run(Input, None, Block(1), Modules { multiply, relu: true, scale, ..none });
                let add = Some(Addend::MinusOther);
                self.run(Block(0), Some(Block(1)), Output, Modules { add, ..none });
            }
            Function::Sigmoid => self.tangent(0.5, Some((0.5, 0.5, 0))),
            Function::Tanh => self.tangent(1.0, None),
            Function::Erf => self.error(),
            Function::Gelu => self.gelu(),
            Function::GeluTanh => self.gelu_tanh(),
            Function::Softmax => self.softmax(),
            Function::LayerNorm { epsilon, factor, addend, .. } => {
                self.normalise(epsilon, factor, addend);
            }
        }
    }

    /// Single precision becomes half precision by way of two codes, of which the second is what the
    /// first lacks; magnitudes are at most `most`.
    fn halve(&mut self, x: Tensor, most: f64) {
        let Block(first) = x else { return };
        let [opened, high, low] = [Block(first + 1), Codes(first + 2), Codes(first + 3)];
        let (coarse, fine) = (most / 127.0, most / 127.0 / 254.0);
        let none = Modules::default();
        let (factor, other) = (coarse as f32, Some(fine as f32));
        self.config.quantiser.3 = coarse.recip() as f32;
        self.run(x, None, high, none);
        self.run(high, None, opened, Modules { map: Some([factor, 0.0]), ..none });
        self.config.quantiser.3 = fine.recip() as f32;
        self.run(x, Some(opened), low, Modules { add: Some(Addend::MinusOther), ..none });
        self.config.single = false;
        let (map, add) = (Some([factor, 0.0]), Some(Addend::Other));
        self.run(high, Some(low), Output, Modules { map, other, add, ..none });
    }

    fn hard_sigmoid(&mut self, to: Tensor, factor: f32, addend: f32) {
        let (multiply, add) = (Some(Factor::Number(factor)), Some(Addend::Number(addend)));
        let limit = Some((CMPS::MIN, 1.0));
        self.run(Input, None, to, Modules { multiply, add, relu: true, limit, ..PRODUCT });
    }

    /// -1 for codes up to that of 0, else 1.
    fn sign(&mut self, to: Tensor) {
        let zero = match self.input {
            Grid::Codes { zero, .. } => zero as f32,
            Grid::Half => 0.0,
        };
        let (limit, scale) = (Some((CMPS::MIN, 1.0)), Some((2.0, -1.0, 0)));
        let map = Some([1.0, -zero]);
        self.run(Input, None, to, Modules { map, relu: true, limit, scale, ..Modules::default() });
    }

    /// What is positive of the operand, and its magnitude.
    fn magnitude(&mut self, positive: Tensor, magnitude: Tensor) {
        let relu = Modules { relu: true, ..Modules::default() };
        self.run(Input, None, positive, relu);
        self.run(Input, None, magnitude, Modules { multiply: Some(Factor::Number(-1.0)), ..relu });
        let add = Some(Addend::Other);
        self.run(positive, Some(magnitude), magnitude, Modules { add, ..Modules::default() });
    }

    /// A 16th of the product, if that is not less than the least exponent.
    fn exponent(&mut self, own: Tensor, other: Option<Tensor>, to: Tensor) {
        let multiply = other.map(|_| Factor::Other);
        let (limit, scale) = (Some((CMPS::MAX, LEAST)), Some((1.0 / 16.0, 0.0, 0)));
        self.run(own, other, to, Modules { multiply, limit, scale, ..Modules::default() });
    }

    /// `e^(16 x)`, but for the last of so many squarings.
    fn power(&mut self, x: Tensor, to: Tensor, squarings: usize) {
        let (map, shift) = (Some([1.0 / 24.0, 1.0 / 6.0]), Some(0.5));
        self.run(x, Some(x), to, Modules { map, shift, ..PRODUCT });
        for _ in 0..2 {
            self.run(to, Some(x), to, Modules { shift: Some(1.0), ..PRODUCT });
        }
        for _ in 0..squarings {
            self.run(to, Some(to), to, PRODUCT);
        }
    }

    /// `1 / (x + addend)` by Newton's iteration, where the divisor lies between 1 and `most`.
    fn reciprocal(&mut self, x: Tensor, addend: f32, most: f64, to: Tensor, free: Tensor) {
        let (first, slope, steps) = reciprocal_start(most);
        let map = (addend != 0.0).then_some([1.0, addend]);
        let start = Some((-slope, first, 0));
        self.run(x, None, to, Modules { map, scale: start, ..Modules::default() });
        for _ in 0..steps {
            let scale = Some((-1.0, 2.0, 0));
            self.run(x, Some(to), free, Modules { map, scale, ..PRODUCT });
            self.run(to, Some(free), to, PRODUCT);
        }
    }

    /// The hyperbolic tangent of a multiple.
    fn tangent(&mut self, factor: f32, scale: Option<(f32, f32, u8)>) {
        let [sign, x, power, result] = [0, 1, 2, 3].map(Block);
        self.sign(sign);
        let multiply = Some(Factor::Number(-2.0 * factor));
        self.run(Input, None, x, Modules { multiply, ..Modules::default() });
        self.exponent(x, Some(sign), x);
        self.power(x, power, SQUARINGS);
        self.reciprocal(power, 1.0, 2.0, result, x);
        self.run(power, Some(result), result, Modules { map: Some([-1.0, 1.0]), ..PRODUCT });
        self.run(result, Some(sign), Output, Modules { scale, ..PRODUCT });
    }

    /// Twice the normal distribution beyond positive numbers.
    fn normal_tail(&mut self, x: Tensor, [limited, power, to]: [Tensor; 3]) {
        let limit = Some((CMPS::MIN, NORMAL_END.0));
        self.run(x, None, limited, Modules { limit, ..Modules::default() });
        let [d1, d2, d3, d4, d5, d6] = NORMAL;
        let first = Modules { map: Some([d6, d5]), shift: Some(d4), ..PRODUCT };
        self.run(limited, Some(limited), power, first);
        for d in [d3, d2, d1, 1.0] {
            self.run(power, Some(limited), power, Modules { shift: Some(d), ..PRODUCT });
        }
        self.reciprocal(power, 0.0, NORMAL_END.1, to, limited);
        for _ in 0..SQUARINGS {
            self.run(to, Some(to), to, PRODUCT);
        }
    }

    fn error(&mut self) {
        let [sign, x, power, tail] = [0, 1, 2, 3].map(Block);
        self.sign(sign);
        let multiply = Some(Factor::Number(std::f32::consts::SQRT_2));
        self.run(Input, None, x, Modules { multiply, ..Modules::default() });
        self.run(x, Some(sign), x, PRODUCT);
        self.normal_tail(x, [x, power, tail]);
        self.run(tail, Some(sign), Output, Modules { map: Some([-1.0, 1.0]), ..PRODUCT });
    }

    fn gelu(&mut self) {
        let [positive, magnitude, limited, power, tail] = [0, 1, 2, 3, 4].map(Block);
        self.magnitude(positive, magnitude);
        self.normal_tail(magnitude, [limited, power, tail]);
        self.run(tail, Some(magnitude), tail, Modules { scale: Some((-0.5, 0.0, 0)), ..PRODUCT });
        let add = Some(Addend::Other);
        self.run(positive, Some(tail), Output, Modules { add, ..Modules::default() });
    }

    fn gelu_tanh(&mut self) {
        let [positive, magnitude, x, power, result] = [0, 1, 2, 3, 4].map(Block);
        self.magnitude(positive, magnitude);
        let factor = 2.0 * (2.0 / std::f64::consts::PI).sqrt();
        let scale = Some((-(factor * 0.044_715) as f32, -factor as f32, 0));
        self.run(magnitude, Some(magnitude), x, Modules { scale, ..PRODUCT });
        self.exponent(x, Some(magnitude), x);
        self.power(x, power, SQUARINGS);
        self.reciprocal(power, 1.0, 2.0, result, x);
        self.run(power, Some(result), power, PRODUCT);
        self.run(power, Some(magnitude), power, PRODUCT);
        let add = Some(Addend::MinusOther);
        self.run(positive, Some(power), Output, Modules { add, ..Modules::default() });
    }

    /// Pairs of lines that differ in no register, for every position.
    fn positions(&mut self, mut lines: impl FnMut(&mut Sequence)) {
        let [_, rows, columns] = self.extents;
        for position in 0..rows * columns {
            self.position = Some(position);
            lines(self);
        }
        self.position = None;
    }

    fn softmax(&mut self) {
        let none = Modules::default();
        let [x, power] = [0, 1].map(Block);
        self.run(Input, None, x, none);
        self.positions(|line| {
            let limit = Some((CMPS::MAX, f32::MIN));
            line.run(x, None, x, Modules { limit, result: 1, ..none });
            let add = Some(Addend::MinusScalar(1));
            line.run(x, None, x, Modules { add, ..none });
        });
        self.exponent(x, None, x);
        self.power(x, power, SQUARINGS - 1);
        self.positions(|line| {
            line.run(power, Some(power), power, Modules { result: 2, ..PRODUCT });
            line.spread(power, x);
        });
        let [sum, result, free] = [0, 1, 2].map(Positions);
        self.run(x, None, sum, none);
        self.reciprocal(sum, 0.0, self.extents[0].into(), result, free);
        self.run(power, Some(result), Output, PRODUCT);
    }

    /// Scalar register 2 for every channel of a position; what is read counts nothing.
    fn spread(&mut self, x: Tensor, to: Tensor) {
        let (add, scale) = (Some(Addend::MinusOther), Some((1.0, 0.0, 2)));
        self.run(x, Some(x), to, Modules { add, scale, ..Modules::default() });
    }

    fn normalise(&mut self, epsilon: f32, factor: bool, addend: bool) {
        let none = Modules::default();
        let [x, square] = [0, 1].map(Block);
        let channels = self.extents[0] as f32;
        let number = |factor: f32| Some(Factor::Number(factor));
        self.run(Input, None, x, Modules { multiply: number(1.0 / channels), ..none });
        self.positions(|line| {
            line.run(x, None, x, Modules { result: 1, ..none });
            let add = Some(Addend::MinusScalar(1));
            line.run(x, None, x, Modules { multiply: number(channels), add, ..none });
        });
        self.positions(|line| {
            line.run(x, Some(x), square, Modules { result: 2, ..PRODUCT });
            line.spread(square, square);
        });
        let [variance, result, free] = [0, 1, 2].map(Positions);
        let map = Some([1.0 / channels, epsilon]);
        self.run(square, None, variance, Modules { map, ..none });
        let (first, steps) = root_start(self.input, self.extents[0], epsilon);
        self.run(variance, None, result, Modules { map: Some([0.0, first]), ..none });
        for _ in 0..steps {
            self.run(result, Some(result), free, PRODUCT);
            let scale = Some((-0.5, 1.5, 0));
            self.run(free, Some(variance), free, Modules { scale, ..PRODUCT });
            self.run(result, Some(free), result, PRODUCT);
        }
        let last = usize::from(factor) + usize::from(addend);
        let to = |operand: usize| if operand == last { Output } else { x };
        self.run(x, Some(result), to(0), PRODUCT);
        if factor {
            self.run(x, Some(Channels(1)), to(1), PRODUCT);
        }
        if addend {
            let add = Some(Addend::Other);
            self.run(x, Some(Channels(last)), Output, Modules { add, ..none });
        }
    }
}

/// A bound of the results' magnitudes.
fn largest(function: Function, input: Grid, channels: u32) -> f64 {
    let Grid::Codes { scale, zero } = input else { return 1.0 };
    let operand = f64::from((zero + 128).max(127 - zero)) * scale;
    let bound = match function {
        Function::Leaky(slope) => operand * f64::from(slope.abs().max(1.0)),
        Function::Gelu | Function::GeluTanh | Function::HardSwish => operand,
        Function::LayerNorm { bounds: [factor, addend], .. } => {
            f64::from(channels).sqrt() * factor + addend
        }
        _ => 1.0,
    };
    // A result that is always 0 has a grid too.
    bound.max(1e-30)
}

/// One sixth, as in ONNX.
const HARD_SWISH_SLOPE: f32 = quincunx_graph::Activation::HARD_SWISH_SLOPE;

/// The straight line that is nearest to `1 / x` between 1 and `most` by the product of both, and how
/// many iterations from there give single precision: each squares what the product lacks to 1.
fn reciprocal_start(most: f64) -> (f32, f32, usize) {
    let (sum, width) = (1.0 + most, most - 1.0);
    let scale = 2.0 * sum * sum - width * width;
    let lacks = std::iter::successors(Some(width * width / scale), |lack| Some(lack * lack));
    let steps = lacks.skip(1).position(|lack| lack < 2.0_f64.powi(-26)).unwrap_or(0) + 1;
    ((8.0 * sum / scale) as f32, (8.0 / scale) as f32, steps)
}

/// Where Newton's iteration for `1 / sqrt(x)` of variances begins, and how many steps it takes for the
/// smallest that is not 0: from below, a result grows by less than a half in each of them.
fn root_start(grid: Grid, channels: u32, epsilon: f32) -> (f32, usize) {
    let scale = if let Grid::Codes { scale, .. } = grid { scale } else { 1.0 };
    let (channels, epsilon) = (f64::from(channels), f64::from(epsilon));
    let most = (127.5 * scale).powi(2) + epsilon;
    let least = scale * scale * (channels - 1.0).max(0.25) / (channels * channels) + epsilon;
    let growth = (most / least).sqrt().ln() / 1.5_f64.ln();
    (most.sqrt().recip() as f32, growth.max(0.0) as usize + 6)
}
