//! Every macro as the bus steps it stands for, which its row lists.
//!
//! Facts: `cain`, `scamp5d` (`docs/bibliography.md`). In the rows, `N` is NEWS, `X(d)` the NEWS of
//! the neighbour in the direction of operand `d`, `X(-d)` of the one opposite; other words are
//! operands of the macro.

#![deny(clippy::wildcard_enum_match_arm)]

use crate::isa::{Class, Direction, Inst, Reg, TABLE};
use quincunx_isa::{OperandValue, RawInst, Values};
use smallvec::{SmallVec, smallvec};
use std::sync::LazyLock;

/// The steps of a macro.
pub type Steps = SmallVec<[Inst; 6]>;

/// The bus steps of an instruction; the instruction itself if it is not a macro.
pub fn expand(inst: &Inst) -> Steps {
    if !is_macro(inst) {
        return smallvec![*inst];
    }
    let values = inst.to_raw().values;
    let step =
        |step: &Step| step.apply(&values).expect("operands of a macro are those of its steps");
    COMPILED[inst.row()].iter().map(step).collect()
}

/// True for instructions that stand for bus steps.
pub fn is_macro(inst: &Inst) -> bool {
    !TABLE.rows[inst.row()].steps.is_empty()
}

/// Number of bus steps of an instruction; 0 for what does not use the bus.
pub fn bus_steps(inst: &Inst) -> u64 {
    expand(inst).iter().filter(|step| step.class() == Class::Bus).count() as u64
}

/// One step of the table: the row of the step and its operands.
struct Step {
    row: usize,
    operands: Vec<Argument>,
}

enum Argument {
    /// A register that the macro names itself.
    Fixed(Reg),
    /// The operand with this index.
    Operand(usize),
    /// The neighbour in the direction of the operand with this index, or opposite.
    Neighbour { operand: usize, opposite: bool },
}

/// The steps of every row of the instruction table.
static COMPILED: LazyLock<Vec<Vec<Step>>> = LazyLock::new(|| {
    let compile = |(index, row): (usize, &quincunx_isa::Row)| {
        let step = |text: &&str| match compile_step(index, text) {
            Some(step) => step,
            // A bug in the table, which its test finds.
            None => panic!("the expansion of {} has the step {text}", row.name),
        };
        row.steps.iter().map(step).collect()
    };
    TABLE.rows.iter().enumerate().map(compile).collect()
});

/// Compiles a step of the expansion of a row; `None` for text that is not a step.
fn compile_step(of: usize, text: &str) -> Option<Step> {
    let (name, arguments) = text.strip_suffix(')')?.split_once('(')?;
    let row = TABLE.rows.iter().position(|row| row.mnemonic == name)?;
    let arguments = arguments.split(", ").filter(|text| !text.is_empty());
    let operands = arguments.map(|text| compile_argument(of, text)).collect::<Option<_>>()?;
    Some(Step { row, operands })
}

fn compile_argument(of: usize, text: &str) -> Option<Argument> {
    let operand = |name: &str| TABLE.rows[of].operand(name).map(|(index, _)| index);
    if let Some(direction) = text.strip_prefix("X(") {
        let direction = direction.strip_suffix(')')?;
        let name = direction.trim_start_matches('-');
        return Some(Argument::Neighbour { operand: operand(name)?, opposite: direction != name });
    }
    match (text, operand(text)) {
        (_, Some(index)) => Some(Argument::Operand(index)),
        ("N", None) => Some(Argument::Fixed(Reg::NEWS)),
        ("PIX", None) => Some(Argument::Fixed(Reg::PIX)),
        ("IN", None) => Some(Argument::Fixed(Reg::IN)),
        _ => None,
    }
}

impl Step {
    /// The step with the operand values of a macro.
    fn apply(&self, values: &[i128]) -> Option<Inst> {
        let mut operands: Values = smallvec![0; TABLE.rows[self.row].operands.len()];
        for (place, argument) in operands.iter_mut().zip(&self.operands) {
            *place = match *argument {
                Argument::Fixed(register) => register.to_raw(),
                Argument::Operand(index) => *values.get(index)?,
                Argument::Neighbour { operand, opposite } => {
                    let direction = Direction::from_raw(*values.get(operand)?)?;
                    let direction = if opposite { direction.opposite() } else { direction };
                    Reg::toward(direction).to_raw()
                }
            };
        }
        Inst::from_raw(&RawInst { row: self.row, values: operands })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_isa::Layout;

    /// Exactly the macros have steps, and no step is a macro.
    #[test]
    fn every_macro_expands() {
        let layout = Layout::fixed(&TABLE).unwrap();
        for (index, row) in TABLE.rows.iter().enumerate() {
            let mut state = 7_u64;
            let mut below = |n: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) % n
            };
            let inst = Inst::from_raw(&TABLE.random_of(index, &mut below, &layout)).unwrap();
            let is_macro_by_class =
                matches!(inst.class(), Class::Macro | Class::Sensor | Class::LoadMacro);
            assert_eq!(is_macro_by_class, is_macro(&inst), "{}", row.name);
            assert!(expand(&inst).iter().all(|step| !is_macro(step)), "{}", row.name);
        }
    }

    #[test]
    fn paper_example() {
        // Section 2 of `cain-paper`: mov2x(A, B, north, east).
        let (a, b) = (Reg::new("A").unwrap(), Reg::new("B").unwrap());
        let inst = Inst::Mov2x { y: a, x: b, d: Direction::North, e: Direction::East };
        let steps: Vec<String> = expand(&inst).iter().map(Inst::text).collect();
        assert_eq!(steps, ["bus(XS, B)", "bus(A, XE)"]);
    }
}
