//! Legality rules. Most are about single bus steps, so that a macro is legal when its steps are.

#![deny(clippy::arithmetic_side_effects)]

mod digital;
mod kernels;

pub use kernels::{verify_kernels, verify_kernels_within};

use crate::arch::ScampArch;
use crate::expand::{expand, is_macro};
use crate::isa::{Class, Direction, Inst, Reg};
use crate::program::{Program, Space, access, flag_after};
use quincunx_diag::{Diagnostic, Place, Problems};
use smallvec::SmallVec;

/// Everything wrong with a program on a machine; a program without errors can be executed.
///
/// | code | rule |
/// |---|---|
/// | `Q5020` | registers exist |
/// | `Q5021` | operands of macros are general registers |
/// | `Q5022` | a register is once in a bus step |
/// | `Q5023` | a bus step has no more sources and receivers than the machine allows |
/// | `Q5024` | a bus step writes NEWS once |
/// | `Q5025` | IN is not written, and PIX is only reset |
/// | `Q5026` | the machine has the macro |
/// | `Q5027` | 1-bit registers exist |
/// | `Q5028` | kernel begin and end alternate; what the controller does is outside, all else inside |
/// | `Q5030` | warning: a deprecated spelling |
/// | `Q5031` | warning: what is not an input is written, in all elements, before it is used |
/// | `Q5032` | warning: elements exchange values while FLAG may be 0 |
/// | `Q5033` | warning: a step reads a NEWS that it also writes |
/// | `Q5034` | warning: two steps in opposite directions lead nowhere |
/// | `Q5035` | warning: FLAG is set everywhere in the end |
/// | `Q5036` | warning: outputs are written, or are inputs |
/// | `Q5110` | a program that loads IN does not use it before |
pub fn verify(program: &Program, arch: &ScampArch) -> Vec<Diagnostic> {
    let mut checker = Checker {
        arch,
        has_frames: program.instructions.iter().any(|inst| inst.class() == Class::Frame),
        inside: false,
        masked: false,
        unloaded: program.instructions.iter().any(loads),
        place: None,
        problems: Problems::default(),
    };
    for (index, inst) in program.instructions.iter().enumerate() {
        checker.place = Some(index);
        checker.instruction(inst);
    }
    checker.place = None;
    checker.whole(program);
    checker.problems.finish()
}

fn loads(inst: &Inst) -> bool {
    matches!(inst.class(), Class::Load | Class::LoadMacro)
}

struct Checker<'a> {
    arch: &'a ScampArch,
    has_frames: bool,
    /// Between kernel begin and end.
    inside: bool,
    /// FLAG may be 0 somewhere.
    masked: bool,
    /// The program loads IN, and has not yet.
    unloaded: bool,
    place: Option<usize>,
    problems: Problems,
}

impl Checker<'_> {
    fn push(&mut self, problem: Diagnostic) {
        self.problems.push(match self.place {
            Some(index) => problem.at(Place::Instruction(index)),
            None => problem,
        });
    }

    fn error(&mut self, code: &'static str, message: String) {
        self.push(Diagnostic::invalid(code, message));
    }

    fn warn(&mut self, code: &'static str, message: String) {
        self.push(Diagnostic::warning(code, message));
    }

    fn instruction(&mut self, inst: &Inst) {
        self.frame(inst);
        if !self.arch.has(inst) {
            let (text, name) = (inst.text(), &self.arch.name);
            self.error("Q5026", format!("{text}: {name} does not have this macro"));
        }
        if is_macro(inst) && !self.operands(inst) {
            return;
        }
        for step in expand(inst) {
            if !self.step(inst, &step) {
                break;
            }
        }
        self.lint(inst);
        self.level(inst);
        if let Some(everywhere) = flag_after(inst) {
            self.masked = !everywhere;
        }
    }

    fn frame(&mut self, inst: &Inst) {
        let class = inst.class();
        let (ok, expected) = match inst {
            Inst::KernelBegin {} => (!self.inside, "the kernel has begun already"),
            Inst::KernelEnd {} => (self.inside, "no kernel has begun"),
            _ if !self.has_frames => (true, ""),
            _ if class.is_controller() => {
                (!self.inside, "the controller does that outside a kernel")
            }
            _ => (self.inside, "it is outside a kernel"),
        };
        if !ok {
            self.error("Q5028", format!("{}: {expected}", inst.text()));
        }
        if class == Class::Frame {
            self.inside = matches!(inst, Inst::KernelBegin {});
        }
    }

    /// Operands of macros are general registers; what is only read may be IN.
    fn operands(&mut self, inst: &Inst) -> bool {
        let takes_in = !access(inst).writes.contains(&(Space::Analogue, Reg::IN));
        let fits =
            |register: Reg| self.arch.is_general(register) || register == Reg::IN && takes_in;
        let wrong = |register: &Reg| !fits(*register);
        let Some(register) = inst.registers().find(wrong) else { return true };
        let (text, known) = (inst.text(), self.arch.is_on_bus(register));
        match known {
            true => self.push(
                Diagnostic::invalid(
                    "Q5021",
                    format!("{text}: {register} is not a general register"),
                )
                .help("macros use NEWS and its neighbours themselves"),
            ),
            false => self.unknown(&text, register),
        }
        false
    }

    fn unknown(&mut self, text: &str, register: Reg) {
        let names: Vec<String> = self.arch.analogue.iter().map(Reg::to_string).collect();
        let message = format!("{text}: {} has no analogue register {register}", self.arch.name);
        let help = format!("it has {}", names.join(" "));
        self.push(Diagnostic::invalid("Q5020", message).help(help));
    }

    /// The rules of one step; false if the other steps of the macro need not be looked at.
    fn step(&mut self, whole: &Inst, step: &Inst) -> bool {
        let text = match is_macro(whole) {
            true => format!("{}: its step {}", whole.text(), step.text()),
            false => step.text(),
        };
        let (writes, reads) = step.split();
        match step.class() {
            Class::Bus => return self.bus(&text, &writes, &reads),
            Class::Condition => {
                if reads.len() > self.arch.max_where {
                    let message = format!("{text} has {} operands", reads.len());
                    self.error("Q5023", format!("{message}, at most {}", self.arch.max_where));
                }
                return self.known(&text, &reads) && self.once(&text, &reads);
            }
            Class::Digital(_) | Class::Pattern => {
                let mut names = writes.iter().chain(&reads);
                if let Some(name) = names.find(|&&name| self.arch.digital(name).is_none()) {
                    let message =
                        format!("{text}: {} has no 1-bit register {name}", self.arch.name);
                    let help = "virtual_digital = true in a machine description allows any name";
                    self.push(Diagnostic::invalid("Q5027", message).help(help));
                }
            }
            Class::Emulator => {
                if let Some(&y) = writes.iter().find(|&&y| !self.arch.is_general(y)) {
                    self.unknown(&text, y);
                }
            }
            Class::Frame | Class::All | Class::Load => {}
            Class::Macro | Class::Sensor | Class::LoadMacro => {}
        }
        true
    }

    /// IN is loaded before it is used, unless it is an input.
    fn level(&mut self, inst: &Inst) {
        let access = access(inst);
        let in_ = (Space::Analogue, Reg::IN);
        if self.unloaded && access.reads.contains(&in_) {
            let text = inst.text();
            let problem = Diagnostic::invalid("Q5110", format!("{text}: IN is not loaded yet"));
            self.push(problem.help("put `scamp5_load_in(value)` before it"));
        }
        self.unloaded &= !access.writes.contains(&in_);
    }

    fn known(&mut self, text: &str, registers: &[Reg]) -> bool {
        let unknown = registers.iter().find(|&&register| !self.arch.is_on_bus(register));
        if let Some(&register) = unknown {
            self.unknown(text, register);
        }
        unknown.is_none()
    }

    fn once(&mut self, text: &str, registers: &[Reg]) -> bool {
        let twice = |(index, register): &(usize, &Reg)| registers[..*index].contains(register);
        let Some((_, register)) = registers.iter().enumerate().find(twice) else { return true };
        let message = format!("{text} has {register} twice");
        self.push(
            Diagnostic::invalid("Q5022", message)
                .help("each register is connected to the bus once; use another one, or --fix"),
        );
        false
    }

    fn bus(&mut self, text: &str, receivers: &[Reg], sources: &[Reg]) -> bool {
        let all: SmallVec<[Reg; 16]> = receivers.iter().chain(sources).copied().collect();
        if !(self.known(text, &all) && self.once(text, &all)) {
            return false;
        }
        let limits = [
            (receivers.len(), self.arch.max_receivers, "receivers"),
            (sources.len(), self.arch.most_sources(receivers.len()), "sources"),
        ];
        for (count, limit, what) in limits {
            if count > limit {
                let message = format!("{text} has {count} {what}, {} allows", self.arch.name);
                self.error("Q5023", format!("{message} {limit}"));
            }
        }
        let is_news = |register: &&Reg| **register == Reg::NEWS || register.direction().is_some();
        let written = receivers.iter().filter(is_news).count();
        if written > 1 {
            self.error("Q5024", format!("{text} writes NEWS of an element from two sides"));
        }
        if receivers.contains(&Reg::IN) {
            self.error("Q5025", format!("{text} writes IN, which `scamp5_load_in` sets"));
        }
        if receivers.contains(&Reg::PIX) && all.len() > 1 {
            self.error("Q5025", format!("{text}: PIX can only be reset, with bus(PIX)"));
        }
        if written == 1 && sources.iter().any(|register| is_news(&register)) {
            let text = format!("{text} reads NEWS of an element while it is written");
            self.warn("Q5033", text + "; here the read comes first");
        }
        let moves = all.iter().any(|register| register.direction().is_some());
        if moves && self.masked {
            self.warn("Q5032", format!("{text}: elements without FLAG do not take part"));
        }
        true
    }

    fn lint(&mut self, inst: &Inst) {
        if matches!(inst, Inst::MovDirection { .. } | Inst::SubDirection { .. }) {
            let now = crate::fix::modern(inst).text();
            let text = format!("{}: this spelling is deprecated, write {now}", inst.text());
            self.warn("Q5030", text);
        }
        if let [d, e] = inst.operands_of::<Direction>()[..]
            && d == e.opposite()
        {
            self.warn("Q5034", format!("{}: the two steps cancel each other", inst.text()));
        }
    }

    fn whole(&mut self, program: &Program) {
        if self.inside {
            self.error("Q5028", "the kernel does not end".to_owned());
        }
        if self.masked {
            self.warn("Q5035", "FLAG may be 0 at the end; all() is missing".to_owned());
        }
        let inputs = program.input_registers(self.arch);
        if program.inputs.is_some() {
            for (space, register) in program.free_reads(self.arch) {
                if space == Space::Analogue && !inputs.contains(&(space, register)) {
                    let text = format!("{register} is used before all elements have written it");
                    self.warn("Q5031", text);
                }
            }
        }
        if program.outputs.is_some() {
            let written = program.written(self.arch);
            for named in program.output_registers(self.arch) {
                if !written.contains(&named) && !inputs.contains(&named) {
                    self.warn("Q5036", format!("nothing writes the output {}", named.1));
                }
            }
        }
    }
}
