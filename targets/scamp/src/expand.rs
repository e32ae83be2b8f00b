//! The expansion table: every macro as the bus steps it stands for.
//!
//! Facts: `cain`, `scamp5d` (`docs/bibliography.md`). In the table, `N` is NEWS, `X(d)` the NEWS of
//! the neighbour in the direction of operand `d`, `X(-d)` of the one opposite; other words are
//! operands of the macro.

use crate::isa::{Class, Direction, Inst, Reg, TABLE};
use quincunx_isa::{OperandValue, RawInst, Values};
use smallvec::{SmallVec, smallvec};
use std::sync::LazyLock;

/// The steps of a macro.
pub type Steps = SmallVec<[Inst; 6]>;

/// Row name and steps of every macro.
pub const EXPANSIONS: &[(&str, &[&str])] = &[
    ("Res", &["bus(N)", "bus(y, N)"]),
    ("Res2", &["bus(N)", "bus(y, N)", "bus(z, N)"]),
    ("Mov", &["bus(N, x)", "bus(y, N)"]),
    ("Add", &["bus(N, a, b)", "bus(y, N)"]),
    ("Add3", &["bus(N, a, b, c)", "bus(y, N)"]),
    ("Sub", &["bus(N, a)", "bus(y, N, b)"]),
    ("Neg", &["bus(N)", "bus(y, N, x)"]),
    ("Abs", &["bus(N)", "bus(y, N, x)", "bus(N, x)", "where(x)", "bus(y, N)", "all()"]),
    ("Divq", &["bus2(y, N, x)", "bus(y, N)"]),
    ("Div", &["bus2(y, z, x)", "bus(N, x, z)", "bus(x, N, y)", "bus2(y, z, x)", "bus(y, z)"]),
    ("DivFrom", &["bus2(y, z, x)", "bus(N, x, z)", "bus(t, N, y)", "bus2(y, z, t)", "bus(y, z)"]),
    ("Diva", &["bus2(z, t, y)", "bus(N, z, y)", "bus(y, N, t)", "bus2(z, t, y)", "bus(y, z)"]),
    ("Movx", &["bus(X(-d), x)", "bus(y, N)"]),
    ("Mov2x", &["bus(X(-d), x)", "bus(y, X(e))"]),
    ("Addx", &["bus(X(-d), a, b)", "bus(y, N)"]),
    ("Add2x", &["bus(X(-d), a, b)", "bus(y, X(e))"]),
    ("Subx", &["bus(X(-d), a)", "bus(y, N, b)"]),
    ("Sub2x", &["bus(X(-d), a)", "bus(y, X(e), b)"]),
    ("MovDirection", &["bus(X(-d), x)", "bus(y, N)"]),
    ("SubDirection", &["bus(X(-d), a)", "bus(y, N, b)"]),
    ("GetImage", &["bus2(y, N, PIX)", "bus(y, N)", "bus(PIX)"]),
    ("GetImage2", &["bus2(h, N, PIX)", "bus(y, N, h)", "bus(PIX)"]),
    ("Respix", &["bus(PIX)"]),
    ("RespixRead", &["bus(PIX)", "bus(N, PIX)", "bus(y, N)"]),
    ("Getpix", &["bus(N, PIX)", "bus(y, N)"]),
    ("GetpixFrom", &["bus(N, PIX)", "bus(y, N, r)"]),
    ("Getpix2", &["bus(N, PIX)", "bus(y, N, r)", "bus2(h, N, y)"]),
];

/// The bus steps of an instruction; the instruction itself if it is no macro.
pub fn expand(inst: &Inst) -> Steps {
    let Some(steps) = &COMPILED[inst.row()] else { return smallvec![*inst] };
    let values = inst.to_raw().values;
    steps.iter().map(|step| step.apply(&values).unwrap_or(*inst)).collect()
}

/// The expansion as it stands in the table, for manuals; `None` for what is no macro.
pub fn steps_of(row: &str) -> Option<&'static [&'static str]> {
    EXPANSIONS.iter().find(|(name, _)| *name == row).map(|&(_, steps)| steps)
}

/// True for instructions that stand for bus steps.
pub fn is_macro(inst: &Inst) -> bool {
    matches!(inst.class(), Class::Macro | Class::Sensor)
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
static COMPILED: LazyLock<Vec<Option<Vec<Step>>>> = LazyLock::new(|| {
    let compile = |(index, row): (usize, &quincunx_isa::Row)| {
        let step = |text: &&str| match compile_step(index, text) {
            Some(step) => step,
            // A bug in the table, which its test finds.
            None => panic!("the expansion of {} has the step {text}", row.name),
        };
        steps_of(row.name).map(|steps| steps.iter().map(step).collect())
    };
    TABLE.rows.iter().enumerate().map(compile).collect()
});

/// Compiles a step of the expansion of a row; `None` for text that is no step.
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

    /// Exactly the macros have an expansion, and no step is a macro.
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
            assert_eq!(steps_of(row.name).is_some(), is_macro(&inst), "{}", row.name);
            assert!(expand(&inst).iter().all(|step| !is_macro(step)), "{}", row.name);
        }
    }

    /// The manual shows the steps as they are.
    #[test]
    fn manual_shows_the_steps() {
        for row in TABLE.rows {
            let shown: Vec<_> =
                row.doc.iter().filter_map(|l| l.trim().strip_prefix("Steps: ")).collect();
            let steps = steps_of(row.name).map(|steps| format!("`{}`.", steps.join("; ")));
            assert_eq!(shown, steps.iter().map(String::as_str).collect::<Vec<_>>(), "{}", row.name);
        }
    }

    #[test]
    fn paper_example() {
        // Section 2 of the paper: mov2x(A, B, north, east).
        let (a, b) = (Reg::new("A").unwrap(), Reg::new("B").unwrap());
        let inst = Inst::Mov2x { y: a, x: b, d: Direction::North, e: Direction::East };
        let steps: Vec<String> = expand(&inst).iter().map(Inst::text).collect();
        assert_eq!(steps, ["bus(XS, B)", "bus(A, XE)"]);
    }
}
