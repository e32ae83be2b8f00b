//! The form in which a program runs: steps on registers of lanes.

use super::node::Wrap;
use crate::isa::BinaryBits;

/// The integers that a register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Lane {
    I16,
    I32,
    I64,
}

impl Lane {
    pub(super) const ALL: [Lane; 3] = [Lane::I16, Lane::I32, Lane::I64];

    pub(super) fn bits(self) -> u32 {
        match self {
            Lane::I16 => 16,
            Lane::I32 => 32,
            Lane::I64 => 64,
        }
    }
}

/// A register among those of its lane.
pub(super) type Register = u32;

/// What a step computes from its operands `a`, `b` and `c`. All numbers fit the lane; shifts are
/// smaller than it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Code {
    /// The floor of an input times `2^scale`, wrapped.
    Input { column: u32, scale: i32, to: Wrap },
    /// The numbers of a register of another lane.
    Convert { from: Lane },
    /// `a + b`.
    Add,
    /// `a - b`.
    Subtract,
    /// `a + (b << left)`.
    AddLeft { left: u32 },
    /// `a - (b << left)`.
    SubtractLeft { left: u32 },
    /// `(a << left) - b`.
    LeftSubtract { left: u32 },
    /// `((a << left_a) ± (b << left_b)) >> right`.
    Sum { left_a: u32, left_b: u32, subtract: bool, right: u32 },
    /// `(a << left >> right) + value`.
    Offset { left: u32, right: u32, value: i64 },
    /// `±a`, not below 0 if clipped, `<< left >> right & mask`.
    Field { negate: bool, clip: bool, left: u32, right: u32, mask: i64 },
    /// `b` where a bit of `a` is set, else `c`; the bit is `up` below the uppermost one.
    Select { up: u32 },
    /// `a * b`.
    Multiply,
    /// Entry `a + offset` of a table.
    Lookup { offset: i64, table: u32 },
    /// `!a & mask`.
    Not { mask: i64 },
    /// 1 if `a` is not 0.
    Any,
    /// 1 if `a` has all bits of the mask.
    All { mask: i64 },
    /// The bits of `a` and `b`.
    Bitwise { op: BinaryBits },
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) code: Code,
    /// The lane of the result and, but for conversions, of the operands.
    pub(super) lane: Lane,
    pub(super) out: Register,
    /// Operands; [`NONE`] where there are fewer.
    pub(super) from: [Register; 3],
}

/// No operand.
pub(super) const NONE: Register = Register::MAX;

impl Step {
    /// The lane of its operands.
    pub(super) fn operand_lane(&self) -> Lane {
        match self.code {
            Code::Convert { from } => from,
            _ => self.lane,
        }
    }

    pub(super) fn operands(&self) -> impl Iterator<Item = Register> + use<> {
        self.from.into_iter().filter(|&register| register != NONE)
    }
}

/// Where an output is: `±register * 2^exponent`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Port {
    pub(super) lane: Lane,
    pub(super) register: Register,
    pub(super) scale: f64,
    pub(super) negate: bool,
}

/// A program in this form.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps {
    pub(super) steps: Vec<Step>,
    /// Registers that hold a number all the time.
    pub(super) constants: Vec<(Lane, Register, i64)>,
    /// Outputs, then taps.
    pub(super) outputs: Vec<Port>,
    pub(super) tables: Vec<Vec<i32>>,
    /// Registers by lane.
    pub(super) registers: [u32; 3],
}

impl Steps {
    /// Bytes of a sample in all registers.
    pub(super) fn bytes(&self) -> usize {
        let bytes = |lane: Lane| self.registers[lane as usize] as usize * lane.bits() as usize / 8;
        Lane::ALL.into_iter().map(bytes).sum()
    }
}
