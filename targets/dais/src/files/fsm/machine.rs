//! Programs, wires and registers as one program: the programs one behind the other, with every
//! register as an input and an output.

use super::{Fsm, Signal, has, shown, start, unfit};
use crate::isa::{InputIndex, Inst, TableIndex};
use crate::program::{Operation, Output, Program, Slot, SlotType};
use crate::verify::{Rules, verify};
use quincunx_diag::{Diagnostic, Result, first_error};
use quincunx_num::{Interval, Kif};
use std::collections::{BTreeMap, BTreeSet};

/// A number of a signal.
type Element<'a> = (&'a str, usize);

/// A program, and where each of its inputs comes from.
type Block<'a> = (&'a str, &'a Program, Vec<Element<'a>>);

struct Machine<'a> {
    fsm: &'a Fsm,
    /// Where what a connection writes comes from.
    sources: BTreeMap<Element<'a>, Element<'a>>,
    /// The numbers that a step begins with, in the order of the inputs.
    inputs: Vec<(Element<'a>, Kif)>,
    numbers: BTreeMap<Element<'a>, InputIndex>,
    /// The outputs of the programs that are in the program already.
    placed: BTreeMap<&'a str, Vec<Output>>,
    program: Program,
}

/// The program that an `ALIRFSM` is, with warnings. Its inputs are those of all input ports in the
/// order in which the connections name them, then the registers; its outputs are likewise. A
/// register that is an output port and nothing reads is no register of the program: the port has its
/// number in the step in which it enters the register.
pub(super) fn program(fsm: &Fsm) -> Result<(Program, Vec<Diagnostic>)> {
    for (name, program) in &fsm.logic {
        let in_program = |p: Diagnostic| p.with_note(format!("in program \"{}\"", shown(name)));
        first_error(verify(program, &Rules { values: false, ..Rules::EXECUTABLE }))
            .map_err(in_program)?;
    }
    let mut machine = Machine {
        fsm,
        sources: sources(fsm)?,
        inputs: Vec::new(),
        numbers: BTreeMap::new(),
        placed: BTreeMap::new(),
        program: Program::default(),
    };
    let signals = signals(fsm)?;
    let read: BTreeSet<&str> = fsm.connections.iter().map(|c| &*c.from.name).collect();
    let written: BTreeSet<&str> = fsm.connections.iter().map(|c| &*c.to.name).collect();
    let (ports, inner): (Vec<&Signal>, Vec<&Signal>) =
        signals.into_iter().partition(|s| s.is_port && !written.contains(&*s.name));
    let is_state = |s: &&&Signal| s.is_register && read.contains(&*s.name);
    let registers: Vec<&Signal> = inner.iter().filter(is_state).copied().collect();
    let outputs: Vec<&Signal> = inner.into_iter().filter(|signal| signal.is_port).collect();
    let mut warnings = Vec::from_iter(unset(&registers));
    for signal in ports.iter().chain(&registers) {
        machine.input(signal);
    }
    for signal in &registers {
        machine.start(signal)?;
    }
    warnings.extend(late(&ports, &outputs)?);
    machine.place_all()?;
    for signal in outputs.iter().chain(&registers) {
        for index in 0..signal.types.len() {
            let output = machine.output((&signal.name, index))?;
            machine.program.outputs.push(output);
        }
    }
    if outputs.is_empty() {
        return Err(unfit("no program writes an output port"));
    }
    Ok((machine.program, warnings))
}

/// All signals in the order in which the connections name them.
fn signals(fsm: &Fsm) -> Result<Vec<&Signal>> {
    let mut known: BTreeMap<&str, &Signal> = BTreeMap::new();
    let mut signals = Vec::new();
    for signal in fsm.connections.iter().flat_map(|c| [&c.from, &c.to]) {
        let Some(other) = known.insert(&signal.name, signal) else {
            signals.push(signal);
            continue;
        };
        let form =
            |s: &Signal| (s.is_port, s.is_register, s.first, s.types.clone(), s.start.clone());
        if form(signal) != form(other) {
            return Err(unfit(&format!("the signal \"{}\" has two forms", shown(&signal.name))));
        }
    }
    Ok(signals)
}

fn sources(fsm: &Fsm) -> Result<BTreeMap<Element<'_>, Element<'_>>> {
    let mut sources = BTreeMap::new();
    for connection in &fsm.connections {
        let (from, to) = (&connection.from, &connection.to);
        for (source, target) in from.part.clone().zip(to.part.clone()) {
            if sources.insert((&*to.name, target), (&*from.name, source)).is_some() {
                let name = shown(&to.name);
                return Err(unfit(&format!("two connections write number {target} of \"{name}\"")));
            }
        }
    }
    Ok(sources)
}

/// `Q1069` when the file does not say what registers start with.
fn unset(registers: &[&Signal]) -> Option<Diagnostic> {
    let mut unset = registers.iter().filter(|signal| signal.start.is_none());
    let (first, others) = (unset.next()?, unset.count());
    let name = shown(&first.name);
    let message = match others {
        0 => format!("the register \"{name}\" has no start value, 0 is taken"),
        _ => format!("the register \"{name}\" and {others} more have no start value, 0 is taken"),
    };
    Some(Diagnostic::warning("Q1069", message).help("give it one with rst_to"))
}

/// `Q1060` when results come later than in the step of their sample.
fn late(ports: &[&Signal], outputs: &[&Signal]) -> Result<Option<Diagnostic>> {
    if let Some(port) = ports.iter().find(|port| port.first != 0) {
        let name = shown(&port.name);
        return Err(unfit(&format!("the port \"{name}\" has a schedule that begins later")));
    }
    // What enters a register in a step is behind it in the next one.
    let late = |port: &&&Signal| port.first > i128::from(port.is_register);
    Ok(outputs.iter().find(late).map(|port| {
        let steps = port.first.saturating_sub(port.is_register.into());
        let name = shown(&port.name);
        let message = format!("the results of \"{name}\" begin {steps} samples after the inputs");
        Diagnostic::warning("Q1060", message)
            .help("result i belongs to the step of sample i; leave out those before the first")
    }))
}

impl<'a> Machine<'a> {
    fn input(&mut self, signal: &'a Signal) {
        for (index, &kif) in signal.types.iter().enumerate() {
            let element = (&*signal.name, index);
            self.numbers.insert(element, InputIndex::of(self.inputs.len()));
            self.inputs.push((element, kif));
            self.program.input_shifts.push(0);
        }
    }

    /// The start values of a register; 0 where the file does not say them.
    fn start(&mut self, signal: &Signal) -> Result<()> {
        let zeros = vec![0.0; signal.types.len()];
        let values = signal.start.as_ref().unwrap_or(&zeros);
        let found = values.iter().zip(&signal.types).map(|(&value, &kif)| start(value, kif));
        match found.collect::<Option<Vec<f64>>>() {
            Some(found) if values.len() == zeros.len() => self.program.state.extend(found),
            _ => {
                let name = shown(&signal.name);
                return Err(unfit(&format!("the register \"{name}\" has other start values")));
            }
        }
        Ok(())
    }

    /// Follows wires to an input of the program or an output of a program.
    fn origin(&self, to: Element<'_>) -> Result<Element<'a>> {
        let mut at = to;
        for _ in 0..=self.sources.len() {
            let Some(&source) = self.sources.get(&at) else {
                let name = shown(at.0);
                return Err(unfit(&format!("nothing writes number {} of \"{name}\"", at.1)));
            };
            if self.numbers.contains_key(&source)
                || self.fsm.program_at(source.0, "_outp").is_some()
            {
                return Ok(source);
            }
            at = source;
        }
        Err(unfit(&format!("the wire \"{}\" is part of a circle", shown(to.0))))
    }

    /// Every program behind those whose results it reads.
    fn place_all(&mut self) -> Result<()> {
        let mut waiting: Vec<Block<'a>> = Vec::new();
        for (name, program) in &self.fsm.logic {
            let signal = format!("INTERNAL_{name}_inp");
            let inputs = 0..program.input_shifts.len();
            let origins =
                inputs.map(|index| self.origin((&signal, index))).collect::<Result<_>>()?;
            waiting.push((name, program, origins));
        }
        while !waiting.is_empty() {
            let is_there =
                |e: &Element<'_>| self.numbers.contains_key(e) || self.found(*e).is_some();
            let (ready, later): (Vec<Block<'a>>, _) =
                waiting.into_iter().partition(|(.., origins)| origins.iter().all(is_there));
            let Some((first, ..)) = ready.first() else {
                let (name, ..) = &later[0];
                return Err(unfit(&format!(
                    "no register is on the way from program \"{}\" back to it",
                    shown(name)
                )));
            };
            if self.placed.is_empty() {
                let Program { carry_size, adder_size, .. } = self.fsm.logic[*first];
                (self.program.carry_size, self.program.adder_size) = (carry_size, adder_size);
            }
            ready.into_iter().for_each(|block| self.place(block));
            waiting = later;
        }
        Ok(())
    }

    /// Appends a program.
    fn place(&mut self, (name, block, origins): Block<'a>) {
        let first_table = self.program.tables.len();
        let latency = |origin: &Element<'a>| {
            let slot = self.found(*origin)?.source?;
            Some(self.program.operations[slot.0 as usize].latency)
        };
        let start = origins.iter().filter_map(latency).fold(0.0, f64::max);
        let mut moved: Vec<Slot> = Vec::with_capacity(block.operations.len());
        for operation in &block.operations {
            let inst = operation.inst.map_operands(|slot| moved[slot.0 as usize]);
            let inst = match inst {
                Inst::Input { source } => {
                    let shift = block.input_shifts[source.0 as usize];
                    let from = origins[source.0 as usize];
                    moved.push(self.enter(from, shift, operation.slot_type));
                    continue;
                }
                Inst::Lookup { x, table, pad } => Inst::Lookup {
                    x,
                    table: TableIndex::of(first_table.saturating_add(table.0 as usize)),
                    pad,
                },
                inst => inst,
            };
            let latency = operation.latency + start;
            moved.push(self.push(Operation { inst, latency, ..operation.clone() }));
        }
        self.program.tables.extend_from_slice(&block.tables);
        let output = |output: &Output| {
            let source = output.source.map(|slot| moved[slot.0 as usize]);
            Output { source, ..*output }
        };
        let outputs = block.outputs.iter().map(output).collect();
        self.placed.insert(name, outputs);
    }

    /// The output of a program that an element is, if the program is there.
    fn found(&self, (signal, index): Element<'_>) -> Option<Output> {
        let outputs = self.placed.get(self.fsm.program_at(signal, "_outp")?)?;
        outputs.get(index).copied()
    }

    /// A slot with what an input operation of a program makes of a number.
    fn enter(&mut self, from: Element<'a>, shift: i32, to: SlotType) -> Slot {
        let free = |inst, slot_type| Operation { inst, slot_type, latency: 0.0, cost: 0.0 };
        let (x, shift) = if let Some(&source) = self.numbers.get(&from) {
            let inst = Inst::Input { source };
            let (_, kif) = self.inputs[source.0 as usize];
            if shift == 0 && has(&kif, &to.kif()) {
                return self.push(free(inst, to));
            }
            (self.push(free(inst, SlotType::Kif(kif))), i64::from(shift))
        } else {
            let output = self.found(from).expect("programs come behind those that they read");
            let Some(x) = output.source else {
                return self.push(free(Inst::Constant { value: 0 }, to));
            };
            let shift = i64::from(shift).saturating_add(output.shift.into());
            match output.negate {
                true => (self.negated(x), shift),
                false => (x, shift),
            }
        };
        let Operation { inst, slot_type, latency, .. } = self.program.operations[x.0 as usize];
        // What does not quantise may give more than its type holds.
        let is_same = inst.facts().quantises && slot_type.kif() == to.kif();
        let inst = match shift {
            0 if is_same => return x,
            0 => Inst::Quantise { x },
            shift => Inst::QuantiseShifted { x, shift },
        };
        self.push(Operation { latency, ..free(inst, to) })
    }

    fn negated(&mut self, x: Slot) -> Slot {
        let Operation { slot_type, latency, .. } = self.program.operations[x.0 as usize];
        let interval = slot_type.interval().unwrap_or_else(Interval::zero).negated();
        let slot_type = SlotType::in_steps(&interval, slot_type.kif().fraction);
        self.push(Operation { inst: Inst::Negate { x }, slot_type, latency, cost: 0.0 })
    }

    /// What a signal is given.
    fn output(&mut self, to: Element<'_>) -> Result<Output> {
        let from = self.origin(to)?;
        if let Some(output) = self.found(from) {
            return Ok(output);
        }
        let kif = self.inputs[self.numbers[&from].0 as usize].1;
        let slot = self.enter(from, 0, SlotType::Kif(kif));
        Ok(Output { source: Some(slot), shift: 0, negate: false })
    }

    fn push(&mut self, operation: Operation) -> Slot {
        let slot = Slot::of(self.program.operations.len());
        self.program.operations.push(operation);
        slot
    }
}
