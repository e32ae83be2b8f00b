//! Rewrites what is illegal or deprecated into what the machine executes: `--fix`.
//!
//! An operand that a bus step would need twice is copied to a register that holds nothing of use
//! (`cain-paper`, `auke` in `docs/bibliography.md`).

use crate::arch::ScampArch;
use crate::expand::expand;
use crate::isa::{Class, Gate, Inst, Reg};
use crate::program::{Program, Space, access, flag_after};
use quincunx_diag::{Diagnostic, Place};
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeSet;

/// The instruction in the spelling of today.
pub fn modern(inst: &Inst) -> Inst {
    match *inst {
        Inst::MovDirection { y, x, d } => Inst::Movx { y, x, d },
        Inst::SubDirection { y, a, d, b } => Inst::Subx { y, a, d, b },
        other => other,
    }
}

/// The program with everything rewritten that can be, and a note for each instruction that was; a
/// warning for each that would need registers that are not free.
///
/// Registers that the program leaves alone count as free. When it does not say what its outputs
/// are, all that it writes are.
pub fn fix(program: &Program, arch: &ScampArch) -> (Program, Vec<Diagnostic>) {
    let live = live_after(program, arch);
    let (mut instructions, mut notes) = (Vec::new(), Vec::new());
    for (index, (inst, live)) in program.instructions.iter().zip(&live).enumerate() {
        let new = modern(inst);
        if is_legal(&new) {
            if new != *inst {
                notes.push(note(index, inst, &[new]));
            }
            instructions.push(new);
            continue;
        }
        let operands: Vec<Reg> = new.registers().collect();
        let is_free = |register: &Reg| !live.contains(register) && !operands.contains(register);
        let free: Vec<Reg> = arch.analogue.iter().copied().filter(is_free).collect();
        match repair(&new, &free) {
            Some(steps) => {
                notes.push(note(index, inst, &steps));
                instructions.extend(steps);
            }
            None => {
                let message = format!("{} cannot be rewritten: no register is free", inst.text());
                let problem = Diagnostic::warning("Q5038", message);
                notes.push(problem.at(Place::Instruction(index)));
                instructions.push(new);
            }
        }
    }
    (Program { instructions, ..program.clone() }, notes)
}

fn note(index: usize, old: &Inst, new: &[Inst]) -> Diagnostic {
    let new: Vec<String> = new.iter().map(Inst::text).collect();
    let message = format!("{} becomes {}", old.text(), new.join("; "));
    Diagnostic::note("Q5037", message).at(Place::Instruction(index))
}

/// No step of the instruction has a register twice.
fn is_legal(inst: &Inst) -> bool {
    expand(inst).iter().all(|step| {
        let mut seen = BTreeSet::new();
        step.bus().is_none_or(|bus| {
            bus.receivers.iter().chain(&bus.sources).all(|&register| seen.insert(register))
        })
    })
}

/// The analogue registers that are still read after each instruction. Under a mask a write leaves
/// old values in place, so that programs with conditions end no value's life by writing.
fn live_after(program: &Program, arch: &ScampArch) -> Vec<BTreeSet<Reg>> {
    let outputs = program.output_registers(arch);
    let mut live: BTreeSet<Reg> = analogue(outputs).collect();
    // `abs` restores FLAG itself.
    let is_mask = |inst: &Inst| match inst.class() {
        Class::All | Class::Digital(Gate::All) | Class::Macro => false,
        _ => flag_after(inst).is_some(),
    };
    let masked = program.instructions.iter().any(is_mask);
    let mut list = Vec::with_capacity(program.instructions.len());
    for inst in program.instructions.iter().rev() {
        list.push(live.clone());
        let access = access(inst);
        if !masked {
            for register in analogue(access.writes) {
                live.remove(&register);
            }
        }
        live.extend(analogue(access.reads));
    }
    list.reverse();
    list
}

fn analogue(named: impl IntoIterator<Item = (Space, Reg)>) -> impl Iterator<Item = Reg> {
    named.into_iter().filter(|&(space, _)| space == Space::Analogue).map(|(_, register)| register)
}

type Steps = SmallVec<[Inst; 4]>;

/// Instructions that do what an illegal macro is documented to do; `None` if there are too few free
/// registers, or it is none of the macros that operands make illegal.
#[expect(clippy::too_many_lines, reason = "a case per macro")]
fn repair(inst: &Inst, free: &[Reg]) -> Option<Steps> {
    let mut temporaries = free.iter().copied();
    let mut next = || temporaries.next();
    let copy = |from: Reg, to: Reg| Inst::Mov { y: to, x: from };
    Some(match *inst {
        Inst::Neg { y, x } => {
            let t = next()?;
            smallvec![copy(x, t), Inst::Neg { y, x: t }]
        }
        Inst::Abs { y, x } => {
            let t = next()?;
            smallvec![copy(x, t), Inst::Abs { y, x: t }]
        }
        Inst::Divq { y, x } => match (next()?, next()) {
            (z, Some(t)) => smallvec![Inst::Diva { y, z, t }],
            (t, None) => smallvec![copy(x, t), Inst::Divq { y, x: t }],
        },
        Inst::Add { y, a, .. } => {
            let t = next()?;
            smallvec![copy(a, t), Inst::Add { y, a, b: t }]
        }
        Inst::Addx { y, a, d, .. } => {
            let t = next()?;
            smallvec![copy(a, t), Inst::Addx { y, a, b: t, d }]
        }
        Inst::Add2x { y, a, d, e, .. } => {
            let t = next()?;
            smallvec![copy(a, t), Inst::Add2x { y, a, b: t, d, e }]
        }
        Inst::Add3 { y, a, b, c } => {
            let (mut steps, mut operands) = (Steps::new(), [a, b, c]);
            for index in 1..3 {
                if operands[..index].contains(&operands[index]) {
                    let t = next()?;
                    steps.push(copy(operands[index], t));
                    operands[index] = t;
                }
            }
            let [a, b, c] = operands;
            steps.push(Inst::Add3 { y, a, b, c });
            steps
        }
        Inst::Sub { y, a, b } => {
            let t = next()?;
            smallvec![copy(b, t), Inst::Sub { y, a, b: t }]
        }
        Inst::Subx { y, a, d, b } => {
            let t = next()?;
            smallvec![copy(b, t), Inst::Subx { y, a, d, b: t }]
        }
        Inst::Sub2x { y, a, d, e, b } => {
            let t = next()?;
            smallvec![copy(b, t), Inst::Sub2x { y, a, d, e, b: t }]
        }
        Inst::Div { y, z, x } if y == x => {
            let z = if z == y { next()? } else { z };
            smallvec![Inst::Diva { y, z, t: next()? }]
        }
        Inst::Div { y, x, .. } => smallvec![Inst::Div { y, z: next()?, x }],
        Inst::DivFrom { y, z, t, x } => {
            let z = if z == y || z == t { next()? } else { z };
            let t = if t == y { next()? } else { t };
            match x == y || x == z {
                true => smallvec![copy(x, t), Inst::Div { y, z, x: t }],
                false => smallvec![Inst::DivFrom { y, z, t, x }],
            }
        }
        Inst::Diva { y, z, t } => {
            let z = if z == y { next()? } else { z };
            let t = if t == y || t == z { next()? } else { t };
            smallvec![Inst::Diva { y, z, t }]
        }
        Inst::GetImage2 { y, .. } => smallvec![Inst::GetImage2 { y, h: next()? }],
        Inst::GetpixFrom { y, r } => {
            let t = next()?;
            smallvec![copy(r, t), Inst::GetpixFrom { y, r: t }]
        }
        Inst::Getpix2 { y, h, r } => {
            let h = if h == y { next()? } else { h };
            match r == y {
                false => smallvec![Inst::Getpix2 { y, h, r }],
                true => {
                    let t = next()?;
                    smallvec![copy(r, t), Inst::Getpix2 { y, h, r: t }]
                }
            }
        }
        _ => return None,
    })
}
