//! Operands with names: SIMD operations, accesses, configuration registers.

use quincunx_diag::{Diagnostic, Result};
use quincunx_isa::{Cursor, Custom, Fixup, Layout, OperandValue, operand_enum};

operand_enum! {
    /// What a SIMD instruction computes from its left and right source.
    #[derive(Debug)]
    pub enum SimdOp {
        /// Nothing; with flags, the transfer to and from the outside of the ALUs.
        NoOp = 0 "NoOp",
        /// Zero.
        Zero = 1 "Zero",
        /// Left.
        Move = 2 "Move",
        /// One if left is zero, else zero.
        Not = 3 "Not",
        /// One if neither is zero, else zero.
        And = 4 "And",
        /// One if any is not zero, else zero.
        Or = 5 "Or",
        /// Left plus one.
        Increment = 6 "Increment",
        /// Left minus one.
        Decrement = 7 "Decrement",
        /// Left plus right.
        Add = 8 "Add",
        /// Left minus right.
        Subtract = 9 "Subtract",
        /// Left times right.
        Multiply = 10 "Multiply",
        /// Left without its sign; the lowest number has no positive counterpart and stays (ours).
        Abs = 11 "Abs",
        /// One if left is greater than right, else zero.
        GreaterThan = 12 "GreaterThan",
        /// One if left is not less than right, else zero.
        GreaterThanEqual = 13 "GreaterThanEqual",
        /// The smaller one.
        Min = 14 "Min",
        /// The greater one.
        Max = 15 "Max",
        /// Distance from the closest key, and the entries of the lookup tables there.
        Lookup = 16 "Lookup",
    }
}

impl SimdOp {
    /// How many sources the result depends on.
    pub fn arity(self) -> usize {
        match self {
            SimdOp::NoOp | SimdOp::Zero => 0,
            SimdOp::Move
            | SimdOp::Not
            | SimdOp::Increment
            | SimdOp::Decrement
            | SimdOp::Abs
            | SimdOp::Lookup => 1,
            SimdOp::And
            | SimdOp::Or
            | SimdOp::Add
            | SimdOp::Subtract
            | SimdOp::Multiply
            | SimdOp::GreaterThan
            | SimdOp::GreaterThanEqual
            | SimdOp::Min
            | SimdOp::Max => 2,
        }
    }
}

operand_enum! {
    /// Which accumulators a SIMD instruction uses: R reads, W writes, A adds to what is written.
    #[derive(Debug)]
    pub enum Access {
        /// None.
        None = 0 "-",
        /// Reads.
        Read = 1 "R",
        /// Writes.
        Write = 2 "W",
        /// Reads and writes.
        ReadWrite = 3 "RW",
        /// Would add, but does not write.
        Add = 4 "A",
        /// Reads; would add, but does not write.
        ReadAdd = 5 "RA",
        /// Adds.
        WriteAdd = 6 "WA",
        /// Reads and adds.
        ReadWriteAdd = 7 "RWA",
    }
}

impl Access {
    /// An accumulator is read.
    pub fn reads(self) -> bool {
        self as u8 & 1 != 0
    }

    /// An accumulator is written.
    pub fn writes(self) -> bool {
        self as u8 & 2 != 0
    }

    /// What is written is added to what is there.
    pub fn accumulates(self) -> bool {
        self as u8 & 4 != 0
    }
}

operand_enum! {
    /// A configuration register. Writing an unused one does nothing.
    #[derive(Debug)]
    pub enum Register {
        /// Base of DRAM0 in blocks of 64 KiB; 32 bits, 0 at the start.
        Dram0Offset = 0 "DRAM0Offset",
        /// Cache behaviour of DRAM0, passed to the bus; 4 bits, 0 at the start.
        Dram0Cache = 1 "DRAM0Cache",
        /// Unused.
        Unused2 = 2 "Unused2",
        /// Unused.
        Unused3 = 3 "Unused3",
        /// Base of DRAM1 in blocks of 64 KiB; 32 bits, 0 at the start.
        Dram1Offset = 4 "DRAM1Offset",
        /// Cache behaviour of DRAM1, passed to the bus; 4 bits, 0 at the start.
        Dram1Cache = 5 "DRAM1Cache",
        /// Unused.
        Unused6 = 6 "Unused6",
        /// Unused.
        Unused7 = 7 "Unused7",
        /// Cycles for which the decoder may stay in one state before the timeout flag; 16 bits, 100
        /// at the start.
        Timeout = 8 "Timeout",
        /// Program counter that raises the tracepoint flag; 32 bits, 0xffffffff at the start.
        Tracepoint = 9 "Tracepoint",
        /// Instructions processed; 32 bits, 0 at the start.
        ProgramCounter = 10 "ProgramCounter",
        /// Cycles between two performance samples, 0 for none; 16 bits, 0 at the start.
        SampleInterval = 11 "SampleInterval",
        /// Unused.
        Unused12 = 12 "Unused12",
        /// Unused.
        Unused13 = 13 "Unused13",
        /// Unused.
        Unused14 = 14 "Unused14",
        /// Unused.
        Unused15 = 15 "Unused15",
    }
}

impl Register {
    /// Bits of the register; 0 for an unused one.
    pub fn width(self) -> u32 {
        match self {
            Register::Dram0Offset
            | Register::Dram1Offset
            | Register::Tracepoint
            | Register::ProgramCounter => 32,
            Register::Dram0Cache | Register::Dram1Cache => 4,
            Register::Timeout | Register::SampleInterval => 16,
            _ => 0,
        }
    }

    /// Value when the machine starts.
    pub fn default_value(self) -> u32 {
        match self {
            Register::Timeout => 100,
            Register::Tracepoint => u32::MAX,
            _ => 0,
        }
    }
}

/// A SIMD operation with its sources: 0 is the input, `k` is register `k`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Compute {
    /// Operation.
    pub op: SimdOp,
    /// Left source.
    pub left: u8,
    /// Right source; no operation but the binary ones looks at it.
    pub right: u8,
}

impl OperandValue for Compute {
    fn to_raw(self) -> i128 {
        (self.op.to_raw() << 16) | (i128::from(self.left) << 8) | i128::from(self.right)
    }

    fn from_raw(raw: i128) -> Option<Self> {
        let byte = |shift: u32| u8::try_from((raw >> shift) & 0xff).ok();
        Some(Compute { op: SimdOp::from_raw(raw >> 16)?, left: byte(8)?, right: byte(0)? })
    }
}

/// `Max(I,R1)`, `Move(I)`, `Zero`: as many sources as the operation has, or more where the
/// instruction names some.
pub(super) static COMPUTE: Custom = Custom {
    name: "SIMD operation such as Max(I,R1)",
    parse: parse_compute,
    print: print_compute,
    legal: |value| Compute::from_raw(value).is_some(),
    random: |below| {
        let op = i128::from(below(SimdOp::NAMES.len() as u64));
        // Register numbers that exist in most machines.
        (op << 16) | (i128::from(below(3) & below(2)) << 8) | i128::from(below(3) & below(2))
    },
};

fn parse_compute(cursor: &mut Cursor<'_>) -> Result<i128> {
    let start = cursor.position();
    let word = cursor.peek_word();
    let Some(&(name, op)) = SimdOp::NAMES.iter().find(|(name, _)| *name == word) else {
        let hint = quincunx_diag::did_you_mean(word, SimdOp::NAMES.iter().map(|(name, _)| *name));
        return Err(cursor.expected("a SIMD operation").help_if(hint));
    };
    cursor.eat(name);
    let mut sources = [0, 0];
    let mut given = 0;
    if cursor.eat("(") {
        for source in &mut sources {
            cursor.skip_blanks();
            *source = parse_end(cursor, "I")?;
            given = usize::saturating_add(given, 1);
            cursor.skip_blanks();
            if !cursor.eat(",") {
                break;
            }
        }
        cursor.expect(")")?;
    }
    let arity = SimdOp::from_raw(op).map_or(0, SimdOp::arity);
    if given < arity {
        let message = format!("{name} has {given} sources, expected {arity}");
        return Err(cursor.error("Q3020", message, start));
    }
    let [left, right] = sources;
    Ok((op << 16) | (left << 8) | right)
}

fn print_compute(value: i128, out: &mut String) {
    let Some(compute) = Compute::from_raw(value) else { return };
    out.push_str(compute.op.name());
    let named = if compute.right != 0 { 2 } else { usize::from(compute.left != 0) };
    let sources = [compute.left, compute.right];
    let shown = &sources[..compute.op.arity().max(named)];
    for (index, &source) in shown.iter().enumerate() {
        out.push(if index == 0 { '(' } else { ',' });
        print_end(source.into(), "I", out);
    }
    if !shown.is_empty() {
        out.push(')');
    }
}

/// Where the result of a SIMD operation goes besides the output: `O` nowhere, `R2` register 2.
pub(super) static DESTINATION: Custom = Custom {
    name: "O or a register such as R1",
    parse: |cursor| parse_end(cursor, "O"),
    print: |value, out| print_end(value, "O", out),
    legal: |value| u8::try_from(value).is_ok(),
    random: |below| i128::from(below(3) & below(2)),
};

/// `I` or `O` for 0, `R2` for 2.
fn parse_end(cursor: &mut Cursor<'_>, zero: &str) -> Result<i128> {
    let start = cursor.position();
    if cursor.eat_word(zero) {
        return Ok(0);
    }
    if !cursor.eat("R") {
        return Err(cursor.expected(format!("{zero} or a register such as R1")));
    }
    let number = cursor.integer()?;
    if !(1..=16).contains(&number) {
        return Err(cursor.out_of_range(format!("there is no register {number}"), start));
    }
    Ok(number)
}

fn print_end(value: i128, zero: &str, out: &mut String) {
    match value {
        0 => out.push_str(zero),
        _ => {
            out.push('R');
            out.push_str(&value.to_string());
        }
    }
}

/// Position of the operation among the operands of the SIMD row.
pub(super) const COMPUTE_OPERAND: usize = 4;

/// The widths of the three parts of a SIMD operation depend on the machine.
pub(super) const COMPUTE_FIXUP: Fixup =
    Fixup { to_fields: pack_compute, to_values: unpack_compute };

fn param(layout: &Layout, name: &str) -> u32 {
    layout.param(name).expect("a parameter of every layout")
}

fn pack_compute(values: &mut [i128], layout: &Layout) -> Result<()> {
    let bits = param(layout, "simd_register_bits");
    let op_bits = param(layout, "simd_op_bits");
    let value = &mut values[COMPUTE_OPERAND];
    let (op, left, right) = (*value >> 16, (*value >> 8) & 0xff, *value & 0xff);
    if op >> op_bits != 0 {
        let message = "Lookup is an instruction of machines with lookup tables only";
        return Err(Diagnostic::invalid("Q3021", message)
            .help("set lookup_tables and lookup_table_depth in the architecture"));
    }
    if left >> bits != 0 || right >> bits != 0 {
        let message = format!("the machine has no register R{}", left.max(right));
        return Err(Diagnostic::invalid("Q3022", message));
    }
    *value = (((op << bits) | left) << bits) | right;
    Ok(())
}

fn unpack_compute(values: &mut [i128], layout: &Layout) -> Result<()> {
    let bits = param(layout, "simd_register_bits");
    let value = &mut values[COMPUTE_OPERAND];
    let mask = !(-1 << bits);
    let (left, op) = ((*value >> bits) & mask, *value >> bits >> bits);
    *value = (op << 16) | (left << 8) | (*value & mask);
    Ok(())
}
