//! Vector instructions in the terms of the machine: registers, bytes, strides in elements.

#![deny(clippy::arithmetic_side_effects)]

use super::operands::{Register, STRIDES, part};
use super::{
    CONDITION_AT, CONTROL_AT, Condition, Control, DST_AT, Descriptor, Form, Function, Immediate,
    Inst, OPTIONS_AT, Op, Payload, Receiver, SIZE_AT, SOURCES_AT, Size, Source, Type,
};
use crate::isa::operands::{ACC_WRITE, Options};

/// Where a result goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Register.
    pub register: Register,
    /// Byte in it.
    pub byte: u32,
    /// Type.
    pub ty: Type,
    /// Elements from one lane to the next.
    pub stride: u32,
    /// Saturates.
    pub saturate: bool,
}

/// A region: row `n / width`, column `n % width` of lane n, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Region {
    /// Elements from one row to the next.
    pub vertical: u32,
    /// Elements of a row.
    pub width: u32,
    /// Elements from one column to the next.
    pub horizontal: u32,
}

impl Region {
    /// The element of a lane.
    pub fn element(self, lane: u32) -> u32 {
        let (row, column) = (lane.checked_div(self.width), lane.checked_rem(self.width));
        let vertical = row.unwrap_or(0).saturating_mul(self.vertical);
        vertical.saturating_add(column.unwrap_or(0).saturating_mul(self.horizontal))
    }
}

/// A source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// Elements of a register.
    Register {
        /// Register.
        register: Register,
        /// Byte in it.
        byte: u32,
        /// Type.
        ty: Type,
        /// Which elements.
        region: Region,
        /// Takes the absolute value.
        absolute: bool,
        /// Then negates, or inverts the bits in logic instructions.
        negate: bool,
    },
    /// The same number for all lanes.
    Immediate {
        /// Type.
        ty: Type,
        /// Bits of an element.
        bits: u64,
    },
}

impl Input {
    /// Type of the elements.
    pub fn ty(self) -> Type {
        match self {
            Input::Register { ty, .. } | Input::Immediate { ty, .. } => ty,
        }
    }
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// Who receives it.
    pub receiver: Receiver,
    /// First register of the answer.
    pub dst: Option<u8>,
    /// First register of the address or payload.
    pub src0: Option<u8>,
    /// First register of the data, if any, and how many.
    pub src1: (Option<u8>, u8),
    /// Address sub-register of the extended descriptor.
    pub extended: Option<u8>,
    /// The entry of the table of surfaces, bits 24 to 31 of an extended descriptor that is a number.
    pub surface: u8,
    /// Descriptor; `None` if it is in `a0.0`.
    pub descriptor: Option<u32>,
}

/// An instruction in the terms of the machine, the same for all rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// What it does.
    pub op: Op,
    /// Mask control and predicate.
    pub control: Control,
    /// Lanes and channel offset.
    pub size: Size,
    /// Options.
    pub options: Options,
    /// Condition: code (0 is none) and flag.
    pub condition: Condition,
    /// Result.
    pub dst: Option<Place>,
    /// Sources.
    pub sources: [Option<Input>; 3],
    /// Function of `math`.
    pub function: Option<Function>,
    /// Function of `bfn`.
    pub table: u8,
    /// Bytes from the instruction to its targets: of the first, of the second.
    pub jumps: [i32; 2],
    /// Tokens that `sync` names; 0 for all.
    pub tokens: u32,
    /// Message of `send`.
    pub message: Option<Message>,
}

fn place(value: i128) -> Option<Place> {
    Some(Place {
        register: Register::from_parts(part(value, 7, 1), part(value, 8, 8))?,
        byte: part(value, 16, 6) as u32,
        ty: Type::from_code(part(value, 0, 4))?,
        stride: stride(part(value, 5, 2)),
        saturate: part(value, 4, 1) == 1,
    })
}

fn stride(code: i128) -> u32 {
    STRIDES.get(code as usize).map_or(0, |&stride| stride as u32)
}

/// How many sources a row must have for their regions to be written without a width.
const TERNARY: u8 = 3;

fn input(value: i128, index: usize, form: &Form) -> Option<Input> {
    if form.immediates >> index & 1 == 1 {
        let immediate = Immediate(value);
        return Some(Input::Immediate { ty: immediate.ty()?, bits: immediate.bits() });
    }
    let (vertical, horizontal) = (stride(part(value, 20, 3)), stride(part(value, 6, 2)));
    let region = match (form.sources, index) {
        // The last of three sources goes on and on.
        (TERNARY, 2) => Region { vertical: horizontal, width: 1, horizontal: 0 },
        // As long as a row of steps of the horizontal stride is, up to the next row.
        (TERNARY, _) => {
            let width = vertical.checked_div(horizontal).unwrap_or(1).max(1);
            Region { vertical, width, horizontal }
        }
        _ => Region { vertical, width: 1 << part(value, 17, 3), horizontal },
    };
    Some(Input::Register {
        register: Register::from_parts(part(value, 8, 1), part(value, 9, 8))?,
        byte: part(value, 23, 6) as u32,
        ty: Type::from_code(part(value, 0, 4))?,
        region,
        absolute: part(value, 4, 1) == 1,
        negate: part(value, 5, 1) == 1,
    })
}

impl Inst {
    /// The instruction in the terms of the machine.
    pub fn terms(&self) -> Terms {
        let form = self.facts();
        let values = self.to_raw().values;
        let value = |index: usize| values.get(index).copied().unwrap_or(0);
        let mut sources = [None; 3];
        for (index, source) in sources.iter_mut().enumerate().take(usize::from(form.sources)) {
            *source = input(value(SOURCES_AT.saturating_add(index)), index, form);
        }
        let jumps = self.operands_of::<i32>();
        let function = |inst: &Inst| inst.operands_of::<Function>().first().copied();
        Terms {
            op: form.op,
            control: Control(value(CONTROL_AT) as u16),
            size: Size(value(SIZE_AT) as u16),
            options: Options(value(OPTIONS_AT) as u32),
            condition: match form.sources {
                0 => Condition::default(),
                _ => Condition(value(CONDITION_AT) as u16),
            },
            dst: if form.sources == 0 { None } else { place(value(DST_AT)) },
            sources,
            function: function(self),
            table: if form.op == Op::Bfn { value(SOURCES_AT.saturating_add(3)) as u8 } else { 0 },
            jumps: [jumps.first().copied().unwrap_or(0), jumps.get(1).copied().unwrap_or(0)],
            tokens: self.operands_of::<u32>().first().copied().unwrap_or(0),
            message: self.message(),
        }
    }

    /// A wait: [`Op::SyncNop`], [`Op::SyncAllRead`] or, for all others, [`Op::SyncAllWrite`].
    pub fn wait(op: Op, options: Options) -> Inst {
        let (control, flag, size) = (Control::W, 0, Size(0));
        match op {
            Op::SyncNop => Inst::SyncNop { control, flag, size, options },
            Op::SyncAllRead => Inst::SyncAllRead { control, flag, size, options },
            _ => Inst::SyncAllWrite { control, flag, size, options },
        }
    }

    fn message(&self) -> Option<Message> {
        let Inst::Send { receiver, dst, src0, src1, extended, descriptor, .. } = *self else {
            return None;
        };
        let Payload(_) = src1;
        let Descriptor(descriptor) = descriptor;
        Some(Message {
            receiver,
            dst: dst.register(),
            src0: src0.register(),
            src1: src1.registers(),
            extended: extended.register(),
            surface: extended.number().map_or(0, |number| (number >> 24) as u8),
            descriptor: u32::try_from(descriptor).ok(),
        })
    }
}

impl Source {
    /// True with a modifier.
    pub fn is_modified(self) -> bool {
        self.0 >> 4 & 3 != 0
    }
}

impl Terms {
    /// True for a move that copies bits: between equal types, without modifiers, saturation and condition.
    pub fn is_copy(&self) -> bool {
        let plain = match self.sources[0] {
            Some(Input::Register { absolute, negate, .. }) => !absolute && !negate,
            Some(Input::Immediate { .. }) => true,
            None => false,
        };
        let same = |dst: Place| self.sources[0].is_some_and(|source| source.ty() == dst.ty);
        let saturates = self.dst.is_some_and(|dst| dst.saturate);
        let none = self.condition.parts().0 == 0;
        self.op == Op::Mov && plain && !saturates && none && self.dst.is_some_and(same)
    }

    /// True for instructions that leave their product in the accumulator besides dst.
    pub fn writes_accumulator(&self) -> bool {
        self.op == Op::Mach || self.options.0 & ACC_WRITE != 0
    }
}

impl Message {
    /// Registers that the answer fills: 31 stands for 32 where blocks of matrices are read.
    pub fn answer_registers(&self, descriptor: u32) -> u32 {
        const LOAD_BLOCK: u32 = 3;
        let count = descriptor >> 20 & 31;
        match (self.receiver, descriptor & 63, count) {
            (Receiver::Ugm, LOAD_BLOCK, 31) => 32,
            _ => count,
        }
    }
}
