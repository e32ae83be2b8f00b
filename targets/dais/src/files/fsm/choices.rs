//! Conditions and resets as programs: a mux between two signals, or a signal and start values.

use super::{Connection, Fsm, Signal, holds, shown, start, unfit};
use crate::isa::{InputIndex, Inst};
use crate::program::{Operation, Output, Program, Slot, SlotType};
use quincunx_diag::Result;
use quincunx_num::{Dyadic, Kif};

/// Most programs and choices.
const MAX_PROGRAMS: usize = 4096;

/// What a choice decides by.
const BIT: Kif = Kif::new(false, 1, 0);

impl Fsm {
    /// Puts a program in place of every condition and reset.
    ///
    /// # Errors
    /// `Q1068` where a wire has nothing to pass on, a condition is no single bit, or a register is
    /// reset to nothing.
    pub(super) fn resolve_choices(&mut self) -> Result<()> {
        for mut connection in std::mem::take(&mut self.connections) {
            let (enable, other) = (connection.enable.take(), connection.other.take());
            let target = connection.to.clone();
            if enable.is_none() && other.is_some() {
                let name = shown(&target.name);
                return Err(unfit(&format!("nothing decides what is written to \"{name}\"")));
            }
            if let Some(enable) = enable {
                let other = match other {
                    None if !target.is_register => {
                        let name = shown(&target.name);
                        return Err(unfit(&format!(
                            "nothing else is written to the wire \"{name}\""
                        )));
                    }
                    other => other.unwrap_or_else(|| target.clone()),
                };
                connection.from =
                    self.choice(&enable, [Some(connection.from), Some(other)], &target)?;
            }
            if let Some(reset) = target.reset.as_deref().filter(|_| target.is_register) {
                connection.from = self.choice(reset, [None, Some(connection.from)], &target)?;
            }
            self.connections.push(connection);
        }
        Ok(())
    }

    /// What is written to a target: the first of two signals where the condition is 1, else the
    /// second; instead of a signal the start values of the target.
    fn choice(
        &mut self,
        condition: &Signal,
        from: [Option<Signal>; 2],
        to: &Signal,
    ) -> Result<Signal> {
        let types = &to.types[to.part.clone()];
        let mut names = (self.logic.len()..).map(|number| format!("choice {number}"));
        let name = names.find(|name| !self.logic.contains_key(name)).expect("one is free");
        if self.logic.len() >= MAX_PROGRAMS {
            return Err(unfit(&format!("it has more than {MAX_PROGRAMS} programs and choices")));
        }
        if condition.types.get(condition.part.clone()) != Some(&[BIT]) || condition.extra.is_some()
        {
            let name = shown(&condition.name);
            return Err(unfit(&format!("the condition \"{name}\" is not one bit")));
        }
        let mut program = Program { carry_size: -1, adder_size: 1, ..Program::default() };
        let mut inputs = vec![(condition.clone(), 0..1)];
        let bit = input(&mut program, BIT);
        let mut branches = Vec::new();
        for signal in from {
            let first = program.input_shifts.len();
            let Some(signal) = signal else {
                branches.push(constants(&mut program, to)?);
                continue;
            };
            let own = signal.types.get(signal.part.clone()).unwrap_or_default();
            let fits = own.len() == types.len() && own.iter().zip(types).all(|(a, b)| holds(b, a));
            if !fits || signal.extra.is_some() {
                let (from, to) = (shown(&signal.name), shown(&to.name));
                return Err(unfit(&format!("\"{from}\" has another type than \"{to}\"")));
            }
            branches.push(types.iter().map(|&kif| input(&mut program, kif)).collect());
            inputs.push((signal, first..program.input_shifts.len()));
        }
        for ((&kif, &when_set), &when_clear) in types.iter().zip(&branches[0]).zip(&branches[1]) {
            let mux = Inst::Mux { condition: bit, when_set, when_clear, shift: 0 };
            let source = Some(push(&mut program, mux, kif));
            program.outputs.push(Output { source, shift: 0, negate: false });
        }
        let (taken, given) = (program.input_types(), types.to_vec());
        let wire = |end: &str, types: Vec<Kif>, part| Signal {
            name: format!("INTERNAL_{name}_{end}"),
            types,
            part,
            ..Signal::default()
        };
        for (from, part) in inputs {
            let to = wire("inp", taken.clone(), part);
            self.connections.push(Connection { from, to, ..Connection::default() });
        }
        let result = wire("outp", given, 0..types.len());
        self.logic.insert(name, program);
        Ok(result)
    }
}

/// The start values of a part of a register.
fn constants(program: &mut Program, to: &Signal) -> Result<Vec<Slot>> {
    let values = to.start.as_ref().and_then(|values| values.get(to.part.clone()));
    let number = |(&value, &kif): (&f64, &Kif)| {
        let value = Dyadic::from_f64(start(value, kif)?)?;
        let value = value.in_units(kif.exponent())?;
        Some(push(program, Inst::Constant { value: i64::try_from(&value).ok()? }, kif))
    };
    let numbers =
        values.and_then(|v| v.iter().zip(&to.types[to.part.clone()]).map(number).collect());
    numbers.ok_or_else(|| {
        unfit(&format!("the register \"{}\" has no values to be reset to", shown(&to.name)))
    })
}

fn input(program: &mut Program, kif: Kif) -> Slot {
    let source = InputIndex::of(program.input_shifts.len());
    program.input_shifts.push(0);
    push(program, Inst::Input { source }, kif)
}

fn push(program: &mut Program, inst: Inst, kif: Kif) -> Slot {
    let slot = Slot::of(program.operations.len());
    let slot_type = SlotType::Kif(kif);
    program.operations.push(Operation { inst, slot_type, latency: 0.0, cost: 0.0 });
    slot
}
