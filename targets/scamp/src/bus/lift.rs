//! Programs of macros as plans of bus steps.

use super::plan::{Id, Kind, NEWS, Plan, Setting, Source, Step, Whose};
use crate::expand::expand;
use crate::isa::{Bus, Direction, Inst, Reg};
use crate::meaning::{Assignment, meaning};
use crate::program::Program;
use crate::task::Task;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// The plan of a program: macros are replaced by their bus steps, or, where these halve, by what their
/// documented result is. `None` for a program with other instructions, or one that does not fit.
pub(super) fn lift(program: &Program, setting: &Setting, task: &Task) -> Option<Plan> {
    let inputs = task.wanted.inputs.len();
    let plan = Plan { inputs, steps: Vec::new(), outputs: Vec::new() };
    let holds = task.wanted.inputs.iter().copied().zip(0..).collect();
    let mut lifter = Lifter { setting, plan, holds };
    program.instructions.iter().try_for_each(|inst| lifter.instruction(inst))?;
    let Lifter { mut plan, holds, .. } = lifter;
    let output = |name: &Reg| holds.get(name).copied();
    plan.outputs = task.wanted.outputs.iter().map(output).collect::<Option<_>>()?;
    plan.remove_dead();
    plan.fits(setting).then_some(plan)
}

struct Lifter<'a> {
    setting: &'a Setting,
    plan: Plan,
    /// What general registers and NEWS hold.
    holds: BTreeMap<Reg, Id>,
}

/// The index of a NEWS.
fn whose(register: Reg) -> Option<Whose> {
    if register == Reg::NEWS {
        return Some(0);
    }
    let index = Direction::ALL.iter().position(|&direction| Reg::toward(direction) == register)?;
    Some(index as Whose + 1)
}

impl Lifter<'_> {
    fn instruction(&mut self, inst: &Inst) -> Option<()> {
        let steps: Option<Vec<Bus>> = expand(inst).iter().map(Inst::bus).collect();
        let steps = steps?;
        if steps.iter().all(|step| step.receivers.len() == 1) {
            return steps.iter().try_for_each(|step| self.bus(step));
        }
        let assignments = meaning(inst)?;
        let operand = inst.registers().next()?;
        self.half(assignments.iter().rev().find(|a| a.target == operand)?)?;
        // What else it writes is lost.
        let written = steps.iter().flat_map(|step| &step.receivers);
        for register in written.filter(|&&register| register != operand) {
            self.holds.remove(register);
        }
        Some(())
    }

    fn source(&self, register: Reg) -> Option<Source> {
        match whose(register) {
            Some(whose) => Some(Source { id: *self.holds.get(&Reg::NEWS)?, whose }),
            None => self.holds.get(&register).map(|&id| Source::of(id)),
        }
    }

    fn bus(&mut self, bus: &Bus) -> Option<()> {
        let sources = bus.sources.iter().map(|&s| self.source(s)).collect::<Option<_>>()?;
        let receiver = bus.receivers[0];
        let news = whose(receiver);
        let step = self.push(1, sources, news)?;
        match news {
            Some(_) => self.holds.insert(Reg::NEWS, self.plan.id(step, NEWS)),
            None => self.holds.insert(receiver, self.plan.id(step, 0)),
        };
        Some(())
    }

    /// One half of a register, as two negations. In NEWS, as macros have it, the first one takes no
    /// register of its own; what is corrected needs NEWS for its copies.
    fn half(&mut self, assignment: &Assignment) -> Option<()> {
        let [term] = &assignment.terms[..] else { return None };
        let is_half = *term.factor.numerator() == 1.into() && term.steps.is_empty();
        let parts = term.factor.denominator().to_string().parse().ok().filter(|_| is_half)?;
        let source = self.source(term.register)?;
        let is_corrected = self.setting.kinds.iter().any(|kind| kind.is_corrected);
        let (news, slot) = if is_corrected { (None, 0) } else { (Some(0), NEWS) };
        let step = self.push(parts, [source].into_iter().collect(), news)?;
        let half = Source::of(self.plan.id(step, slot));
        let step = self.push(1, [half].into_iter().collect(), None)?;
        self.holds.insert(assignment.target, self.plan.id(step, 0));
        Some(())
    }

    fn push(
        &mut self,
        receivers: usize,
        sources: SmallVec<[Source; 4]>,
        news: Option<Whose>,
    ) -> Option<usize> {
        let suits = |kind: &Kind| kind.receivers == receivers && kind.sources >= sources.len();
        let kind = self.setting.kinds.iter().position(suits)? as u8;
        self.plan.steps.push(Step { kind, sources, news });
        (self.plan.steps.len() <= super::plan::MAX_STEPS).then_some(self.plan.steps.len() - 1)
    }
}
