//! The programs of the stages.

use super::Staged;
use super::schedule::{Logic, Schedule};
use crate::isa::Inst;
use crate::program::{
    InputIndex, LookupTable, Operation, Output, Pipeline, Program, Slot, TableIndex,
};
use rustc_hash::FxHashMap;

/// Builds the stages. A value that crosses from one to a later one is an output and an input of
/// all between, of its own type and unscaled; constants are in every stage that needs them.
pub(super) fn build(program: &Program, logic: &Logic, schedule: &Schedule) -> Staged {
    let count = schedule.stages();
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut crossing: Vec<Vec<usize>> = vec![Vec::new(); count];
    for index in logic.placed() {
        let own = schedule.stage[index] as usize;
        members[own].push(index);
        for after in crossing.iter_mut().take(schedule.last_use(logic, index) as usize).skip(own) {
            after.push(index);
        }
    }
    let length = schedule.cutoff.max(schedule.longest());
    let mut places = vec![None; logic.len()];
    let mut stages = Vec::with_capacity(count);
    for (number, members) in members.iter().enumerate() {
        let entering = number.checked_sub(1).map(|before| &crossing[before][..]);
        let start = number as f64 * length;
        let mut stage = Stage::new(program, start, number == 0);
        for &index in entering.unwrap_or_default() {
            stage.enter(index);
        }
        for &index in members {
            let slot = stage.compute(index, start + schedule.offset[index]);
            places[index] = Some((number, slot));
        }
        let stage = match number + 1 == count {
            true => stage.finish(),
            false => stage.hand_on(&crossing[number]),
        };
        stages.push(stage);
    }
    place_constants(program, logic, &mut stages, &mut places);
    let latency = schedule.longest();
    Staged { pipeline: Pipeline { stages }, places, latency, warnings: Vec::new() }
}

/// Roots may be constants: they are found in the last stage.
fn place_constants(
    program: &Program,
    logic: &Logic,
    stages: &mut [Program],
    places: &mut [Option<(usize, Slot)>],
) {
    let Some((number, last)) = stages.iter_mut().enumerate().next_back() else { return };
    for index in (0..logic.len()).filter(|&i| logic.is_root[i] && logic.is_constant[i]) {
        let slot = Slot(last.operations.len() as u32);
        last.operations.push(program.operations[index].clone());
        places[index] = Some((number, slot));
    }
}

/// A stage under construction.
struct Stage<'a> {
    program: &'a Program,
    start: f64,
    built: Program,
    /// Slots by operation of the program.
    slots: FxHashMap<usize, Slot>,
    tables: FxHashMap<TableIndex, TableIndex>,
}

impl<'a> Stage<'a> {
    fn new(program: &'a Program, start: f64, is_first: bool) -> Stage<'a> {
        let input_shifts = if is_first { program.input_shifts.clone() } else { Vec::new() };
        let built = Program {
            input_shifts,
            carry_size: program.carry_size,
            adder_size: program.adder_size,
            firmware_version: program.firmware_version,
            ..Program::default()
        };
        Stage { program, start, built, slots: FxHashMap::default(), tables: FxHashMap::default() }
    }

    fn push(&mut self, index: usize, operation: Operation) -> Slot {
        let slot = Slot(self.built.operations.len() as u32);
        self.built.operations.push(operation);
        self.slots.insert(index, slot);
        slot
    }

    /// A value that an earlier stage computed.
    fn enter(&mut self, index: usize) {
        let source = InputIndex(self.built.input_shifts.len() as u32);
        self.built.input_shifts.push(0);
        let slot_type = self.program.operations[index].slot_type;
        let inst = Inst::Input { source };
        self.push(index, Operation { inst, slot_type, latency: self.start, cost: 0.0 });
    }

    fn compute(&mut self, index: usize, latency: f64) -> Slot {
        let operation = &self.program.operations[index];
        let inst = operation.inst.map_operands(|operand| self.slot(operand));
        let inst = match inst {
            Inst::Lookup { x, table, pad } => Inst::Lookup { x, table: self.table(table), pad },
            inst => inst,
        };
        self.push(index, Operation { inst, latency, ..operation.clone() })
    }

    /// The slot of an operand; a constant is made where it is needed.
    fn slot(&mut self, operand: Slot) -> Slot {
        let index = operand.0 as usize;
        match self.slots.get(&index) {
            Some(&slot) => slot,
            None => self.push(index, self.program.operations[index].clone()),
        }
    }

    fn table(&mut self, table: TableIndex) -> TableIndex {
        let tables: &mut Vec<LookupTable> = &mut self.built.tables;
        *self.tables.entry(table).or_insert_with(|| {
            tables.push(self.program.tables[table.0 as usize].clone());
            TableIndex(tables.len() as u32 - 1)
        })
    }

    /// A stage before the last one.
    fn hand_on(mut self, values: &[usize]) -> Program {
        let output = |&index: &usize| Output {
            source: Some(self.slot(Slot(index as u32))),
            shift: 0,
            negate: false,
        };
        self.built.outputs = values.iter().map(output).collect();
        self.built
    }

    /// The last stage.
    fn finish(mut self) -> Program {
        let program = self.program;
        let output = |output: &Output| Output {
            source: output.source.map(|source| self.slot(source)),
            ..*output
        };
        let outputs = program.outputs.iter().map(output).collect();
        self.built.outputs = outputs;
        self.built
    }
}
