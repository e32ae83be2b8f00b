//! The program in memory.
//!
//! Invariants: none beyond the types; what a machine can execute is for [`crate::verify`] to say.

#![deny(clippy::wildcard_enum_match_arm)]

use crate::arch::ScampArch;
use crate::expand::expand;
use crate::isa::{Bus, Class, Gate, Inst, Reg};
use std::collections::BTreeSet;

/// Most instructions of a program; those of the field have some hundreds.
pub const MAX_INSTRUCTIONS: usize = 1 << 18;

/// A program: one stream of instructions for all processing elements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Instructions in order, kernel begin and end included where the text has them.
    pub instructions: Vec<Inst>,
    /// Registers that hold the inputs, in the order of the channels; `None` when the text does not
    /// say.
    pub inputs: Option<Vec<Reg>>,
    /// Registers that hold the results; `None` when the text does not say.
    pub outputs: Option<Vec<Reg>>,
}

/// Which kind of register a name means; the two kinds have names of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// Analogue.
    Analogue,
    /// 1-bit.
    Digital,
}

/// A register of one kind.
pub type Named = (Space, Reg);

/// The registers an instruction reads before it writes them, and those it writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Read.
    pub reads: BTreeSet<Named>,
    /// Written, in some elements at least.
    pub writes: BTreeSet<Named>,
}

/// NEWS whichever element's it is.
fn storage(register: Reg) -> Reg {
    if register.direction().is_some() { Reg::NEWS } else { register }
}

/// What an instruction does to FLAG: `Some(true)` if all elements have it afterwards, `Some(false)` if
/// some may be without.
pub(crate) fn flag_after(inst: &Inst) -> Option<bool> {
    let of_step = |step: &Inst| {
        let names = || step.split().0.contains(&Reg::FLAG);
        match step.class() {
            Class::All | Class::Digital(Gate::All) => Some(true),
            Class::Condition | Class::Digital(Gate::Where) => Some(false),
            Class::Digital(gate) => names().then_some(gate == Gate::Constant(true)),
            Class::Pattern => names().then_some(false),
            Class::Frame | Class::Emulator | Class::Load | Class::LoadMacro => None,
            Class::Bus | Class::Macro | Class::Sensor => None,
        }
    };
    expand(inst).iter().rev().find_map(of_step)
}

/// What an instruction reads and writes of what it names, by the names of the text.
pub fn access(inst: &Inst) -> Access {
    let mut access = Access::default();
    for step in expand(inst) {
        let space = match step.class() {
            Class::Load => {
                access.writes.insert((Space::Analogue, Reg::IN));
                continue;
            }
            Class::Emulator | Class::Bus | Class::Condition => Space::Analogue,
            Class::Digital(_) | Class::Pattern => Space::Digital,
            Class::Frame | Class::All | Class::Macro | Class::Sensor | Class::LoadMacro => continue,
        };
        let (writes, reads) = step.split();
        for register in reads {
            let named = (space, storage(register));
            if !access.writes.contains(&named) {
                access.reads.insert(named);
            }
        }
        access.writes.extend(writes.into_iter().map(|register| (space, storage(register))));
    }
    access
}

/// What a walk through a program knows: which registers hold something of the program, and whether
/// every element does what it is told to.
struct Walk<'a> {
    arch: &'a ScampArch,
    /// FLAG is 1 everywhere, as it is when a program starts.
    flagged: bool,
    /// The mask is 1 everywhere.
    unmasked: bool,
    /// Written in all elements.
    written: BTreeSet<Named>,
    /// Written in the elements that have FLAG now.
    gated: BTreeSet<Named>,
}

impl Walk<'_> {
    /// The registers that an instruction reads although some element may still hold there what was
    /// before the program.
    fn finds(&mut self, inst: &Inst) -> BTreeSet<Named> {
        let mut found = BTreeSet::new();
        for step in expand(inst) {
            let Access { reads, writes } = access_on(&step, self.arch);
            found.extend(reads.into_iter().filter(|&named| self.is_exposed(&step, named)));
            self.write(&step, &writes);
            self.note_conditions(&step, &writes);
        }
        found
    }

    /// Elements without FLAG take no part in steps on the bus: what the others wrote under the same
    /// FLAG is all that is read.
    fn is_exposed(&self, step: &Inst, named: Named) -> bool {
        let of_neighbour = |bus: &Bus| {
            named.1 == Reg::NEWS && bus.sources.iter().any(|source| source.direction().is_some())
        };
        let is_own = step.bus().is_some_and(|bus| !of_neighbour(&bus));
        !(self.written.contains(&named) || is_own && self.gated.contains(&named))
    }

    fn write(&mut self, step: &Inst, writes: &BTreeSet<Named>) {
        let roles = &self.arch.roles;
        let unmasked = if roles.mask == Reg::FLAG { self.flagged } else { self.unmasked };
        for &named in writes {
            match step.bus() {
                Some(bus) if !self.flagged => {
                    // What a neighbour writes depends on its FLAG.
                    if bus.receivers.contains(&named.1) {
                        self.gated.insert(named);
                    }
                }
                _ if named == (Space::Digital, roles.masked) && !unmasked => {}
                _ => drop(self.written.insert(named)),
            }
        }
    }

    fn note_conditions(&mut self, step: &Inst, writes: &BTreeSet<Named>) {
        let sets = step.class() == Class::Digital(Gate::Constant(true));
        let bit = |register| writes.contains(&(Space::Digital, register));
        let roles = &self.arch.roles;
        if let Some(flagged) = flag_after(step).or(bit(Reg::FLAG).then_some(sets)) {
            self.gated.clear();
            self.flagged = flagged;
        }
        if bit(roles.mask) {
            self.unmasked = sets && roles.mask != roles.masked;
        }
    }
}

/// The register of a machine that a name means, aliases resolved.
fn own((space, name): Named, arch: &ScampArch) -> Named {
    match space {
        Space::Analogue => (space, name),
        Space::Digital => (space, arch.digital(name).unwrap_or(name)),
    }
}

/// What an instruction reads and writes on a machine: every register under its own name, also those
/// that have a part to play without being named.
fn access_on(inst: &Inst, arch: &ScampArch) -> Access {
    let named = access(inst);
    let all = |list: BTreeSet<Named>| list.into_iter().map(|n| own(n, arch)).collect();
    let mut access = Access { reads: all(named.reads), writes: all(named.writes) };
    let (bit, roles) = (|register| (Space::Digital, register), &arch.roles);
    match inst.class() {
        Class::Pattern if access.writes.is_empty() => drop(access.writes.insert(bit(roles.select))),
        Class::Digital(Gate::Neighbours { .. }) => access.reads.extend(roles.directions.map(bit)),
        Class::Pattern | Class::Digital(_) => {}
        Class::Frame | Class::Emulator | Class::Bus | Class::Condition => {}
        Class::All | Class::Macro | Class::Sensor | Class::Load | Class::LoadMacro => {}
    }
    if access.writes.contains(&bit(roles.masked)) {
        access.reads.insert(bit(roles.mask));
    }
    access
}

/// The register that a name in the lists of inputs and outputs means: an analogue one unless the
/// program uses it as a 1-bit register only.
fn listed(used: &BTreeSet<Named>, name: Reg, arch: &ScampArch) -> Named {
    let (analogue, digital) = ((Space::Analogue, name), own((Space::Digital, name), arch));
    match !used.contains(&analogue) && used.contains(&digital) {
        true => digital,
        false => analogue,
    }
}

impl Program {
    /// A program of instructions alone.
    pub fn new(instructions: Vec<Inst>) -> Program {
        Program { instructions, inputs: None, outputs: None }
    }

    /// Number of instructions, kernel begin and end not counted.
    pub fn length(&self) -> u64 {
        self.instructions.iter().filter(|inst| inst.class() != Class::Frame).count() as u64
    }

    /// Number of steps on the analogue bus.
    pub fn bus_steps(&self) -> u64 {
        self.instructions.iter().map(crate::expand::bus_steps).sum()
    }

    /// The same program in bus instructions.
    #[must_use]
    pub fn expanded(&self) -> Program {
        let instructions = self.instructions.iter().flat_map(expand).collect();
        Program { instructions, ..self.clone() }
    }

    /// Registers whose old values matter: they are read, or are outputs, while some element may
    /// still hold what was there before the program, which is where nothing was written, or FLAG or
    /// the mask switched a write off. In the order of the instructions that read them first, and of
    /// names within one; then those that are outputs only. NEWS is among them where a program uses
    /// what was there before.
    pub fn free_reads(&self, arch: &ScampArch) -> Vec<Named> {
        let (mut seen, mut list) = (BTreeSet::new(), Vec::new());
        let (written, gated) = (BTreeSet::new(), BTreeSet::new());
        let mut walk = Walk { arch, flagged: true, unmasked: false, written, gated };
        for inst in &self.instructions {
            list.extend(walk.finds(inst).into_iter().filter(|&named| seen.insert(named)));
        }
        let touched = self.written(arch);
        let partial = |named: &Named| touched.contains(named) && !walk.written.contains(named);
        let outputs = self.output_registers(arch).into_iter().filter(partial);
        list.extend(outputs.filter(|&named| seen.insert(named)));
        list
    }

    /// Registers that are written, in order of names.
    pub fn written(&self, arch: &ScampArch) -> BTreeSet<Named> {
        self.instructions.iter().flat_map(|inst| access_on(inst, arch).writes).collect()
    }

    /// Every register that an instruction reads or writes.
    fn used(&self, arch: &ScampArch) -> BTreeSet<Named> {
        self.instructions
            .iter()
            .flat_map(|inst| {
                let Access { mut reads, writes } = access_on(inst, arch);
                reads.extend(writes);
                reads
            })
            .collect()
    }

    /// The inputs: those the text names, else the general registers that are read before they are
    /// written.
    pub fn input_registers(&self, arch: &ScampArch) -> Vec<Named> {
        let sensor = [Reg::PIX, Reg::IN];
        let mut list: Vec<Named> = match &self.inputs {
            Some(inputs) => {
                let used = self.used(arch);
                inputs.iter().map(|&register| listed(&used, register, arch)).collect()
            }
            None => self.free_reads(arch),
        };
        list.retain(|&(_, register)| register != Reg::NEWS && register != Reg::FLAG);
        if self.inputs.is_some() {
            // What the sensor gives is never in the list of the text.
            let used = self.free_reads(arch);
            list.extend(used.into_iter().filter(|(space, register)| {
                *space == Space::Analogue && sensor.contains(register)
            }));
        }
        let mut seen = BTreeSet::new();
        list.retain(|named| seen.insert(*named));
        list
    }

    /// The outputs: those the text names, else everything that is written but NEWS, PIX and IN.
    pub fn output_registers(&self, arch: &ScampArch) -> Vec<Named> {
        match &self.outputs {
            Some(outputs) => {
                let (used, mut seen) = (self.used(arch), BTreeSet::new());
                let list = outputs.iter().map(|&register| listed(&used, register, arch));
                list.filter(|&named| seen.insert(named)).collect()
            }
            None => {
                let hidden = [Reg::NEWS, Reg::PIX, Reg::IN, Reg::FLAG];
                self.written(arch).into_iter().filter(|(_, r)| !hidden.contains(r)).collect()
            }
        }
    }
}
