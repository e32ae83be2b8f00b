//! What an instruction is, as its row says: class, receivers and sources, registers.

use super::{Inst, Reg, TABLE};
use quincunx_isa::{OperandValue, RawInst, Values};
use smallvec::{SmallVec, smallvec};

/// A bus instruction: who receives, who drives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bus {
    /// Receivers, at least one.
    pub receivers: SmallVec<[Reg; 4]>,
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
    /// Sets FLAG from the analogue bus.
    Condition,
    /// Sets FLAG everywhere.
    All,
    /// Several bus steps.
    Macro,
    /// Several bus steps that use PIX.
    Sensor,
    /// A step on 1-bit registers.
    Digital(Gate),
    /// A pattern loaded by the controller, outside a kernel.
    Pattern,
    /// IN set by the controller, outside a kernel.
    Load,
    /// The same, and bus steps that copy it.
    LoadMacro,
}

/// What a step on 1-bit registers computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// 1 where any operand is 1.
    Or,
    /// 1 where no operand is 1.
    Nor,
    /// The operand.
    Copy,
    /// 1 where the operand is 0.
    Not,
    /// 1 where all operands are 1.
    And,
    /// 1 where not all operands are 1.
    Nand,
    /// 1 where the operands differ.
    Xor,
    /// 1 where the second operand is 1 or the first is 0.
    Imply,
    /// The second operand where the first is 1, else the third.
    Mux,
    /// The same everywhere.
    Constant(bool),
    /// 1 where a neighbour whose direction register is 1 here has 1.
    Neighbours {
        /// What is beyond the edge.
        beyond: bool,
    },
    /// Keeps what is there.
    Refresh,
    /// FLAG from a register.
    Where,
    /// FLAG everywhere.
    All,
}

/// What the row of an instruction says of it.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// What kind of instruction it is.
    pub class: Class,
    /// How many of its registers it writes, the first ones of the text; for what is not a macro.
    pub writes: usize,
    /// What a macro comes to, as [`crate::meaning`] reads it; nothing for `abs`, which is not linear.
    pub meaning: &'static [&'static str],
}

impl Class {
    /// True for what the controller does outside of kernels.
    pub fn is_controller(self) -> bool {
        matches!(self, Class::Pattern | Class::Load | Class::LoadMacro)
    }

    /// The facts of a step that writes its first registers, at most so many.
    pub(super) const fn writes(self, writes: usize) -> Facts {
        Facts { class: self, writes, meaning: &[] }
    }

    /// The facts of a macro.
    pub(super) const fn means(self, meaning: &'static [&'static str]) -> Facts {
        Facts { class: self, writes: 0, meaning }
    }
}

impl Inst {
    /// What kind of instruction it is.
    pub fn class(&self) -> Class {
        self.facts().class
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
        let (receivers, sources) = self.split();
        (self.class() == Class::Bus).then_some(Bus { receivers, sources })
    }

    /// The bus instruction with these receivers and sources.
    ///
    /// # Panics
    /// Where the table has no row for so many.
    pub(crate) fn of_bus(bus: &Bus) -> Inst {
        let is_it =
            |facts: &Facts| facts.class == Class::Bus && facts.writes == bus.receivers.len();
        let row = Inst::FACTS.iter().position(is_it).expect("a row for so many receivers");
        let mut values: Values = smallvec![Reg::NONE.to_raw(); TABLE.rows[row].operands.len()];
        for (value, register) in values.iter_mut().zip(bus.receivers.iter().chain(&bus.sources)) {
            *value = register.to_raw();
        }
        Inst::from_raw(&RawInst { row, values }).expect("registers are operands of the bus")
    }

    /// Sources of `where`.
    pub fn condition(&self) -> Option<SmallVec<[Reg; 4]>> {
        (self.class() == Class::Condition).then(|| self.registers().collect())
    }

    /// What an instruction on 1-bit registers writes and reads; `None` for other instructions.
    /// The direction registers that DNEWS reads and the mask are not operands.
    pub fn logic(&self) -> Option<Logic> {
        let (writes, reads) = self.split();
        let is_logic = matches!(self.class(), Class::Digital(_) | Class::Pattern);
        is_logic.then_some(Logic { writes, reads })
    }

    /// Its registers: those it writes, the others.
    pub(crate) fn split(&self) -> (SmallVec<[Reg; 4]>, SmallVec<[Reg; 4]>) {
        let mut registers = self.registers();
        (registers.by_ref().take(self.facts().writes).collect(), registers.collect())
    }

    /// Its register operands in the order of the text; absent ones are left out.
    pub fn registers(&self) -> impl Iterator<Item = Reg> + use<> {
        self.operands_of().into_iter().filter(|&register| register != Reg::NONE)
    }

    /// The same instruction with other registers; `map` sees each in the order of the text.
    #[must_use]
    pub fn map_registers(mut self, mut map: impl FnMut(Reg) -> Reg) -> Inst {
        self.visit_operands(|register| {
            if *register != Reg::NONE {
                *register = map(*register);
            }
        });
        self
    }
}
