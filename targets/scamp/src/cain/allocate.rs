//! Registers for a plan: a linear scan from the outputs back to the inputs.
//!
//! Facts: `cain` (`docs/bibliography.md`).

use super::goals::Id;
use super::op::{Op, Origin, Step, WAYS};
use crate::isa::{Direction, Inst, Reg};
use crate::program::Program;
use crate::task::Task;
use smallvec::SmallVec;

/// A value of a plan.
struct Value {
    id: Id,
    /// The step, counted from the outputs, that uses it last in time; `None` for an output.
    born: Option<usize>,
    /// The step that makes it; `None` for an input.
    made: Option<usize>,
    register: Option<Reg>,
}

/// A step on values.
struct Placed {
    op: Op,
    uppers: SmallVec<[usize; 2]>,
    lowers: SmallVec<[usize; 3]>,
}

/// What the plan does with values, before they have registers.
struct Scan<'a> {
    task: &'a Task,
    values: Vec<Value>,
    steps: Vec<Placed>,
    /// The value of each input that is used.
    inputs: Vec<Option<usize>>,
    free: Vec<Reg>,
}

/// A program of a plan whose steps run from the outputs to the inputs; `None` where registers do
/// not suffice.
pub(super) fn allocate(
    task: &Task,
    plan: &[Step],
    finals: &[Id],
    inputs: &[Id],
) -> Option<Program> {
    let mut scan = Scan {
        task,
        values: Vec::new(),
        steps: Vec::new(),
        inputs: Vec::new(),
        free: task.pool.clone(),
    };
    scan.values(plan, finals, inputs)?;
    let mut instructions = Vec::new();
    for step in 0..scan.steps.len() {
        instructions.push(scan.step(step)?);
    }
    scan.copies(&mut instructions)?;
    instructions.reverse();
    let mut program = Program::new(instructions);
    program.inputs = Some(task.wanted.inputs.clone());
    program.outputs = Some(task.wanted.outputs.clone());
    Some(program)
}

impl Scan<'_> {
    /// Walks through the plan once for the lives of all values.
    fn values(&mut self, plan: &[Step], finals: &[Id], inputs: &[Id]) -> Option<()> {
        let mut live: Vec<usize> = Vec::new();
        for (&id, &output) in finals.iter().zip(&self.task.wanted.outputs) {
            live.push(self.values.len());
            self.values.push(Value { id, born: None, made: None, register: Some(output) });
            self.free.retain(|&register| register != output);
        }
        for (index, step) in plan.iter().enumerate() {
            let mut placed =
                Placed { op: step.op, uppers: SmallVec::new(), lowers: SmallVec::new() };
            for &upper in &step.uppers {
                let at = live.iter().rposition(|&value| self.values[value].id == upper)?;
                let value = live.remove(at);
                self.values[value].made = Some(index);
                placed.uppers.push(value);
            }
            let ids: Vec<Id> = live.iter().map(|&value| self.values[value].id).collect();
            for (origin, &id) in step.origins(&ids).into_iter().zip(&step.lowers) {
                let value = match origin {
                    Origin::Old(at) => live[at],
                    Origin::Same(earlier) => placed.lowers[earlier],
                    Origin::New => {
                        let born = Some(index);
                        self.values.push(Value { id, born, made: None, register: None });
                        live.push(self.values.len() - 1);
                        self.values.len() - 1
                    }
                };
                placed.lowers.push(value);
            }
            self.steps.push(placed);
        }
        // What nothing makes is an input.
        let input = |value: &usize| inputs.iter().position(|&id| id == self.values[*value].id);
        let mut found = vec![None; inputs.len()];
        for value in live {
            let channel = input(&value)?;
            if found[channel].replace(value).is_some() {
                return None;
            }
        }
        self.inputs = found;
        Some(())
    }

    /// Gives registers to what a step reads, and makes its instruction.
    fn step(&mut self, index: usize) -> Option<Inst> {
        let Placed { op, uppers, lowers } = &self.steps[index];
        let (op, uppers, lowers) = (*op, uppers.clone(), lowers.clone());
        let results: SmallVec<[Reg; 2]> =
            uppers.iter().map(|&value| self.values[value].register).collect::<Option<_>>()?;
        for &register in results.iter().rev() {
            self.free.insert(0, register);
        }
        let is_apart = |at: usize| op.apart() == Some(at) || self.must_differ(op);
        let apart: SmallVec<[usize; 3]> = (0..lowers.len()).filter(|&at| is_apart(at)).collect();
        let rank = |at: &usize| {
            let is_input = self.inputs.contains(&Some(lowers[*at]));
            (!is_input, !apart.contains(at))
        };
        let mut order: SmallVec<[usize; 3]> = (0..lowers.len()).collect();
        order.sort_by_key(rank);
        for at in order {
            let value = lowers[at];
            if self.values[value].register.is_none() {
                let avoided: &[Reg] = if apart.contains(&at) { &results } else { &[] };
                let register = self.choose(value, avoided)?;
                self.values[value].register = Some(register);
                self.free.retain(|&free| free != register);
            }
        }
        let operands: SmallVec<[Reg; 3]> =
            lowers.iter().map(|&value| self.values[value].register).collect::<Option<_>>()?;
        self.instruction(op, &results, &operands)
    }

    /// True for a halving in place where the machine has only the form with two registers.
    fn must_differ(&self, op: Op) -> bool {
        op == Op::Div && !self.task.macros.contains("Diva")
    }

    /// A free register for a value: that of the input for an input, else the first one that no input
    /// needs while the value lives.
    fn choose(&self, value: usize, avoided: &[Reg]) -> Option<Reg> {
        let registers = &self.task.wanted.inputs;
        if let Some(channel) = self.inputs.iter().position(|&input| input == Some(value)) {
            let register = registers[channel];
            let is_free = self.free.contains(&register) || !self.task.pool.contains(&register);
            return (is_free && !avoided.contains(&register)).then_some(register);
        }
        let is_fit = |register: &&Reg| {
            let channel = registers.iter().position(|input| input == *register);
            let input = channel.and_then(|channel| self.inputs[channel]);
            !avoided.contains(register) && input.is_none_or(|input| self.is_over(value, input))
        };
        self.free.iter().find(is_fit).copied()
    }

    /// True if a value is made after an input was read last.
    fn is_over(&self, value: usize, input: usize) -> bool {
        let (Some(made), Some(last)) = (self.values[value].made, self.values[input].born) else {
            return false;
        };
        let step = &self.steps[made];
        let reads = step.lowers.iter().position(|&lower| lower == input);
        let in_place = |at: usize| step.op.apart() != Some(at) && !self.must_differ(step.op);
        made < last || made == last && reads.is_none_or(in_place)
    }

    /// The instruction of a step with its registers.
    fn instruction(&self, op: Op, results: &[Reg], operands: &[Reg]) -> Option<Inst> {
        let spare: SmallVec<[Reg; 8]> =
            self.free.iter().copied().filter(|register| !results.contains(register)).collect();
        Some(match (op, results, operands) {
            (Op::Res, &[y], _) => Inst::Res { y },
            (Op::Res2, &[y, z], _) => Inst::Res2 { y, z },
            (Op::Mov(way), &[y], &[x]) => match *WAYS[usize::from(way)] {
                [] => Inst::Mov { y, x },
                [d] => Inst::Movx { y, x, d },
                [d, e, ..] => Inst::Mov2x { y, x, d, e },
            },
            (Op::Neg, &[y], &[x]) => Inst::Neg { y, x },
            (Op::Divq, &[y], &[x]) => Inst::Divq { y, x },
            (Op::Div, &[y], &[x]) => self.halve(y, x, &spare)?,
            (Op::DivFrom, &[y], &[x]) => {
                Inst::DivFrom { y, z: *spare.first()?, t: *spare.get(1)?, x }
            }
            (Op::Add(way), &[y], &[a, b]) => match *WAYS[usize::from(way)] {
                [] => Inst::Add { y, a, b },
                [d] => Inst::Addx { y, a, b, d },
                [d, e, ..] => Inst::Add2x { y, a, b, d, e },
            },
            (Op::Sub(way), &[y], &[a, b]) => subtract(y, a, b, WAYS[usize::from(way)]),
            (Op::Add3, &[y], &[a, b, c]) => Inst::Add3 { y, a, b, c },
            _ => return None,
        })
    }

    /// A halving that may destroy its operand: with the registers the machine's forms allow.
    fn halve(&self, y: Reg, x: Reg, spare: &[Reg]) -> Option<Inst> {
        let has = |row| self.task.macros.contains(row);
        let (first, second) = (*spare.first()?, spare.get(1).copied());
        if y == x {
            return has("Diva").then_some(Inst::Diva { y, z: first, t: second? });
        }
        if self.task.pool.contains(&x) && has("Div") {
            return Some(Inst::Div { y, z: first, x });
        }
        has("DivFrom").then_some(Inst::DivFrom { y, z: first, t: second?, x })
    }

    /// Copies of inputs to outputs that are inputs, which come first in time.
    fn copies(&self, instructions: &mut Vec<Inst>) -> Option<()> {
        for (channel, value) in self.inputs.iter().enumerate() {
            let Some(value) = *value else { continue };
            let (y, x) = (self.values[value].register?, self.task.wanted.inputs[channel]);
            if y == x {
                continue;
            }
            // A copy into the register of another input would destroy that one.
            let other = self.task.wanted.inputs.iter().position(|&input| input == y);
            if other.is_some_and(|other| self.inputs[other].is_some()) {
                return None;
            }
            self.task.macros.contains("Mov").then(|| instructions.push(Inst::Mov { y, x }))?;
        }
        Some(())
    }
}

/// `y` := `a` of the element at the end of a way, minus `b`.
fn subtract(y: Reg, a: Reg, b: Reg, way: &[Direction]) -> Inst {
    match *way {
        [] => Inst::Sub { y, a, b },
        [d] => Inst::Subx { y, a, d, b },
        [d, e, ..] => Inst::Sub2x { y, a, d, e, b },
    }
}
