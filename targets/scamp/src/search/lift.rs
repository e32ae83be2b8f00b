//! Programs of other searches as plans.

use super::plan::{Id, Plan, Setting, Step};
use super::rules::{Form, template};
use crate::isa::Reg;
use crate::program::{Program, access};
use crate::task::Task;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// The plan of a program that uses each instruction for its documented result; `None` for one
/// with instructions that no rule covers, or that does not fit the registers.
pub(super) fn lift(program: &Program, setting: &Setting, task: &Task) -> Option<Plan> {
    let inputs = task.wanted.inputs.len();
    let mut plan = Plan { inputs, steps: Vec::new(), outputs: Vec::new() };
    let mut holds: BTreeMap<Reg, Id> = task.wanted.inputs.iter().copied().zip(0..).collect();
    for inst in &program.instructions {
        let (form, operands) = template(inst)?;
        let registers: SmallVec<[Reg; 4]> = inst.registers().collect();
        let sources: Option<SmallVec<[Id; 4]>> =
            operands.iter().map(|&operand| holds.get(&registers[operand]).copied()).collect();
        let is_it = |results: &[Form]| results[0] == form;
        let rule = setting.rules.iter().position(|rule| is_it(&rule.results))? as u16;
        plan.steps.push(Step { rule, sources: sources? });
        for (_, written) in access(inst).writes {
            holds.remove(&written);
        }
        holds.insert(registers[0], plan.id(plan.steps.len() - 1, 0));
    }
    let output = |name: &Reg| holds.get(name).copied();
    plan.outputs = task.wanted.outputs.iter().map(output).collect::<Option<_>>()?;
    plan.remove_dead();
    plan.fits(setting).then_some(plan)
}
