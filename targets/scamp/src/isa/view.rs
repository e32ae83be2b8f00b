//! What an instruction is, derived from its row: class, receivers and sources, registers.

use super::operand::{self, Reg};
use super::{Inst, TABLE};
use smallvec::SmallVec;

/// A bus instruction: who receives, who drives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bus {
    /// Receivers, at least one.
    pub receivers: SmallVec<[Reg; 3]>,
    /// Sources.
    pub sources: SmallVec<[Reg; 4]>,
}

/// A digital instruction: what it writes and reads, in the order of the text.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Logic {
    /// 1-bit registers that it writes.
    pub writes: SmallVec<[Reg; 4]>,
    /// 1-bit registers that it reads.
    pub reads: SmallVec<[Reg; 4]>,
}

/// What kind of instruction it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Kernel begin and end.
    Frame,
    /// For emulators only.
    Emulator,
    /// A step of the analogue bus.
    Bus,
    /// Sets FLAG, from the analogue bus or not.
    Flag,
    /// Several bus steps.
    Macro,
    /// Several bus steps that use PIX.
    Sensor,
    /// A step on 1-bit registers.
    Digital,
    /// A pattern loaded by the controller, outside a kernel.
    Pattern,
}

impl Inst {
    /// What kind of instruction it is.
    pub fn class(&self) -> Class {
        use Inst as I;
        match self {
            I::KernelBegin { .. } | I::KernelEnd { .. } => Class::Frame,
            I::Input { .. } => Class::Emulator,
            I::Bus { .. }
            | I::Bus2 { .. }
            | I::Bus3 { .. }
            | I::Bus4 { .. }
            | I::Bus5 { .. }
            | I::Bus6 { .. } => Class::Bus,
            I::Where { .. } | I::All { .. } => Class::Flag,
            I::Res { .. }
            | I::Res2 { .. }
            | I::Mov { .. }
            | I::Add { .. }
            | I::Add3 { .. }
            | I::Sub { .. }
            | I::Neg { .. }
            | I::Abs { .. }
            | I::Divq { .. }
            | I::Div { .. }
            | I::DivFrom { .. }
            | I::Diva { .. }
            | I::Movx { .. }
            | I::Mov2x { .. }
            | I::Addx { .. }
            | I::Add2x { .. }
            | I::Subx { .. }
            | I::Sub2x { .. }
            | I::MovDirection { .. }
            | I::SubDirection { .. } => Class::Macro,
            I::GetImage { .. }
            | I::GetImage2 { .. }
            | I::Respix { .. }
            | I::RespixRead { .. }
            | I::Getpix { .. }
            | I::GetpixFrom { .. }
            | I::Getpix2 { .. } => Class::Sensor,
            I::Or { .. }
            | I::Nor { .. }
            | I::Not { .. }
            | I::Move { .. }
            | I::Set { .. }
            | I::Clear { .. }
            | I::And { .. }
            | I::Nand { .. }
            | I::Xor { .. }
            | I::Imp { .. }
            | I::Mux { .. }
            | I::Dnews0 { .. }
            | I::Dnews1 { .. }
            | I::Refresh { .. }
            | I::WhereBit { .. }
            | I::AllBits { .. } => Class::Digital,
            I::LoadPattern { .. } | I::SelectPattern { .. } => Class::Pattern,
        }
    }

    /// Its mnemonic.
    pub fn mnemonic(&self) -> &'static str {
        TABLE.rows[self.row()].mnemonic
    }

    /// Its text, `name(operand, operand)`.
    pub fn text(&self) -> String {
        TABLE.print(&self.to_raw())
    }

    /// Receivers and sources of a bus instruction.
    pub fn bus(&self) -> Option<Bus> {
        let receivers = match self {
            Inst::Bus { .. } => 1,
            Inst::Bus2 { .. } => 2,
            Inst::Bus3 { .. } => 3,
            Inst::Bus4 { .. } => 4,
            Inst::Bus5 { .. } => 5,
            Inst::Bus6 { .. } => 6,
            _ => return None,
        };
        let registers: SmallVec<[Reg; 16]> = self.registers().collect();
        let (receivers, sources) = registers.split_at(receivers);
        Some(Bus { receivers: receivers.into(), sources: sources.into() })
    }

    /// Sources of `where`.
    pub fn condition(&self) -> Option<SmallVec<[Reg; 4]>> {
        matches!(self, Inst::Where { .. }).then(|| self.registers().collect())
    }

    /// What an instruction on 1-bit registers writes and reads; `None` for other instructions.
    /// The direction registers that DNEWS reads and the mask are not operands.
    pub fn logic(&self) -> Option<Logic> {
        let registers: SmallVec<[Reg; 16]> = self.registers().collect();
        let (writes, reads) = match self {
            Inst::Set { .. } | Inst::Clear { .. } => (&registers[..], &[][..]),
            Inst::WhereBit { .. } | Inst::Refresh { .. } => (&[][..], &registers[..]),
            Inst::AllBits {} | Inst::SelectPattern { .. } => (&[][..], &[][..]),
            _ if matches!(self.class(), Class::Digital | Class::Pattern) => registers.split_at(1),
            _ => return None,
        };
        Some(Logic { writes: writes.into(), reads: reads.into() })
    }

    /// Its register operands in the order of the text; absent ones are left out.
    pub fn registers(&self) -> impl Iterator<Item = Reg> + use<> {
        let raw = self.to_raw();
        let operands = TABLE.rows[raw.row].operands;
        let registers = operands.iter().zip(raw.values).filter_map(|(operand, value)| {
            operand::is_register(operand).then_some(value).and_then(Reg::from_raw_value)
        });
        registers.collect::<SmallVec<[Reg; 16]>>().into_iter()
    }

    /// The same instruction with other registers; `map` sees each in the order of the text.
    #[must_use]
    pub fn map_registers(&self, mut map: impl FnMut(Reg) -> Reg) -> Inst {
        let mut raw = self.to_raw();
        let operands = TABLE.rows[raw.row].operands;
        for (operand, value) in operands.iter().zip(raw.values.iter_mut()) {
            if let Some(register) = Reg::from_raw_value(*value)
                && operand::is_register(operand)
            {
                *value = map(register).raw();
            }
        }
        Inst::from_raw(&raw).unwrap_or(*self)
    }
}
