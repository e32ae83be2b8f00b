//! The checker: does every instruction wait for what it needs?
//!
//! It keeps the instructions that may not have finished and strikes off what a wait guarantees. An
//! instruction that touches bytes of an unfinished one is an error:
//!
//! * it reads what is not yet written, or writes it (read after write, write after write);
//! * it writes what is not yet read (write after read).
//!
//! Within a pipe, and within a macro, the order of reads and writes is kept, so that only reading
//! what is not yet written is an error there. Systolic instructions also read their sources in
//! order: none writes what an earlier one has yet to read (listings of `igc` rely on it). Raw
//! machine code is not understood: it counts as an instruction without effects, with a warning.

use super::effects::{Effects, Unit, effects, macro_fault, overlap};
use crate::arch::DpasArch;
use crate::isa::native::Native;
use crate::isa::operands::{DEPENDENCY, PIPES, TokenUse};
use crate::program::{Item, Listing, Statement};
use crate::shape::RowStride;
use quincunx_diag::Diagnostic;

/// An instruction that may not have finished.
struct Pending {
    index: usize,
    effects: Effects,
    token: Option<u8>,
    /// Number of the macro it belongs to.
    group: Option<usize>,
    read: bool,
    written: bool,
}

struct Checker<'a> {
    listing: &'a Listing,
    arch: &'a DpasArch,
    stride: RowStride,
    pending: Vec<Pending>,
    found: Vec<Diagnostic>,
    /// Indices of the instructions so far of each pipe; those of all pipes at 1.
    places: [Vec<usize>; PIPES.len()],
    /// The open macro: its number, and the indices of its instructions.
    group: usize,
    members: Vec<usize>,
    warned: bool,
}

/// Everything that a listing does not wait for. An empty list means that any timing gives the
/// results of execution in order.
pub fn check(listing: &Listing, arch: &DpasArch, stride: RowStride) -> Vec<Diagnostic> {
    let mut checker = Checker {
        listing,
        arch,
        stride,
        pending: Vec::new(),
        found: Vec::new(),
        places: Default::default(),
        group: 0,
        members: Vec::new(),
        warned: false,
    };
    for index in 0..listing.items.len() {
        checker.step(index);
        if checker.pending.len() > MAX_PENDING {
            let message = format!("more than {MAX_PENDING} instructions may be unfinished");
            checker.report("Q6090", index, message, "wait for some of them, with A@1");
        }
        if checker.found.len() >= MAX_FOUND || checker.pending.len() > MAX_PENDING {
            // Open macros are reported where they end.
            return checker.found;
        }
    }
    if !checker.members.is_empty() {
        let last = listing.items.len() - 1;
        checker.open_macro(last);
    }
    checker.found
}

/// More would help nobody.
const MAX_FOUND: usize = 100;

/// Bounds the work; registers for so many do not exist.
const MAX_PENDING: usize = 2048;

/// Bounds the work (ours).
pub(super) const MAX_MACRO: usize = 64;

impl Checker<'_> {
    fn report(&mut self, code: &'static str, index: usize, message: String, help: &str) {
        let item = &self.listing.items[index];
        let problem = Diagnostic::invalid(code, message).help(help);
        self.found.push(at(problem, item, index));
    }

    fn step(&mut self, index: usize) {
        let item = &self.listing.items[index];
        let effects = effects(&item.statement, self.arch, self.stride);
        if !self.members.is_empty() && effects.unit != Unit::Systolic {
            self.open_macro(index - 1);
        }
        match effects.unit {
            Unit::Unknown => self.unknown(item, index),
            Unit::Systolic => self.systolic(index, effects),
            Unit::Message | Unit::Math => self.message(index, effects),
            _ => {
                self.wait(&item.statement, index, effects.unit);
                self.conflicts(index, &effects, None);
                if let Unit::Pipe(pipe) = effects.unit {
                    self.places[usize::from(pipe)].push(index);
                    self.places[1].push(index);
                    self.push(index, effects, None, None);
                }
            }
        }
    }

    fn unknown(&mut self, item: &Item, index: usize) {
        if !std::mem::replace(&mut self.warned, true) {
            let message = "what this instruction reads and writes is not known";
            let problem = Diagnostic::warning("Q6087", message)
                .help("dependencies on it are not checked, here and below");
            self.found.push(at(problem, item, index));
        }
    }

    /// An `Atomic` without a systolic instruction behind it.
    fn open_macro(&mut self, index: usize) {
        self.members.clear();
        let message = "Atomic is not followed by a systolic instruction".to_owned();
        self.report("Q6083", index, message, "the last instruction of a macro has no Atomic");
    }

    /// An instruction that takes a token of its own.
    fn message(&mut self, index: usize, effects: Effects) {
        let statement = &self.listing.items[index].statement;
        self.wait(statement, index, effects.unit);
        self.conflicts(index, &effects, None);
        let token = self.token(index);
        // Nobody waits for what the end of a thread, or a store at that end, does.
        if token.is_none() && !effects.writes.is_empty() {
            self.no_token(index);
        }
        self.push(index, effects, token, None);
    }

    /// The token that an instruction takes.
    fn token(&self, index: usize) -> Option<u8> {
        match self.listing.items[index].statement.options().dependency().and_then(|d| d.token) {
            Some((TokenUse::Set, token)) => Some(token),
            _ => None,
        }
    }

    fn no_token(&mut self, index: usize) {
        let message = "the instruction takes no token, so that nothing can wait for it";
        let problem = Diagnostic::warning("Q6085", message)
            .help("write {$0}, or let --swsb auto assign dependencies");
        self.found.push(at(problem, &self.listing.items[index], index));
    }

    fn systolic(&mut self, index: usize, effects: Effects) {
        let Statement::Systolic(inst) = &self.listing.items[index].statement else { return };
        let native = inst.native();
        let atomic = native.options.is_atomic();
        if native.options.0 & DEPENDENCY != 0 {
            self.dependency_of_member(index, &native, atomic);
        }
        self.wait(&self.listing.items[index].statement, index, Unit::Systolic);
        if atomic || !self.members.is_empty() {
            self.member(index, &native, &effects);
        }
        let group = (atomic || !self.members.is_empty()).then_some(self.group);
        self.conflicts(index, &effects, group);
        let token = self.token(index);
        if atomic {
            self.members.push(index);
            self.push(index, effects, None, group);
            return;
        }
        if token.is_none() {
            self.no_token(index);
        }
        let members = std::mem::take(&mut self.members);
        // The last instruction's token stands for the macro.
        for pending in self.pending.iter_mut().filter(|p| members.contains(&p.index)) {
            pending.token = token;
        }
        self.push(index, effects, token, group);
        self.group += 1;
    }

    /// The first instruction of a macro may wait for all, and the last takes the token.
    fn dependency_of_member(&mut self, index: usize, native: &Native, atomic: bool) {
        let dependency = native.options.dependency().unwrap_or_default();
        let takes = matches!(dependency.token, Some((TokenUse::Set, _)));
        let is_first = self.members.is_empty();
        let waits = dependency.distance.is_some() || (dependency.token.is_some() && !takes);
        let (fault, help) = if atomic && takes {
            ("an Atomic instruction takes a token", "the last instruction of a macro takes it")
        } else if !is_first && waits {
            ("an instruction within a macro waits", "let the first instruction of the macro wait")
        } else {
            return;
        };
        self.report("Q6084", index, fault.to_owned(), help);
    }

    /// Checks that the instruction may be in the open macro.
    fn member(&mut self, index: usize, native: &Native, own: &Effects) {
        if self.members.len() >= MAX_MACRO {
            let message = format!("the macro has more than {MAX_MACRO} instructions");
            self.report("Q6082", index, message, "end the macro before it");
            self.members.clear();
        }
        let earlier: Vec<(Native, Effects)> = self
            .members
            .iter()
            .filter_map(|&index| match &self.listing.items[index].statement {
                Statement::Systolic(inst) => {
                    let statement = &self.listing.items[index].statement;
                    Some((inst.native(), effects(statement, self.arch, self.stride)))
                }
                _ => None,
            })
            .collect();
        let earlier: Vec<_> = earlier.iter().map(|(inst, effects)| (inst, effects)).collect();
        if let Some(fault) = macro_fault(&earlier, (native, own)) {
            let message = format!("the instruction cannot be in this macro: {fault}");
            self.report("Q6082", index, message, "end the macro before it");
        }
    }

    /// Strikes off what the instruction waits for.
    fn wait(&mut self, statement: &Statement, index: usize, unit: Unit) {
        let dependency = statement.options().dependency().unwrap_or_default();
        if let Some((pipe, distance)) = dependency.distance {
            self.wait_distance(pipe, usize::from(distance), unit, index);
        }
        if let Some((used, token)) = dependency.token {
            if used == TokenUse::Set && !unit.takes_tokens() {
                let message = format!("${token} is taken by an in-order instruction");
                let help = "systolic instructions and messages take tokens; write $0.dst to wait";
                self.report("Q6086", index, message, help);
            }
            for pending in self.pending.iter_mut().filter(|p| p.token == Some(token)) {
                pending.read = true;
                pending.written |= used != TokenUse::Src;
            }
        }
        if let Unit::AllRead(tokens) | Unit::AllWrite(tokens) = unit {
            let named = |p: &&mut Pending| p.token.is_some_and(|token| tokens >> token & 1 == 1);
            for pending in self.pending.iter_mut().filter(named) {
                pending.read = true;
                pending.written |= matches!(unit, Unit::AllWrite(_));
            }
        }
        self.pending.retain(|pending| !(pending.read && pending.written));
    }

    /// The instruction `distance` back in the pipe, and all before it, have finished. Pipe 0 is
    /// the one of the instruction itself (none for a wait), pipe 1 all.
    fn wait_distance(&mut self, pipe: u8, distance: usize, unit: Unit, index: usize) {
        let own = match (pipe, unit) {
            (0, Unit::Pipe(own)) => Some(own),
            (0, _) => {
                let text =
                    format!("@{distance} does not name a pipe, and this instruction has none");
                self.report("Q6088", index, text, "write F@1, I@1, L@1 or A@1");
                return;
            }
            (1, _) => None,
            (pipe, _) => Some(pipe),
        };
        let places = own.map_or(&self.places[1], |own| &self.places[usize::from(own)]);
        // Fewer instructions than that are in the pipe: there is nothing to wait for.
        let Some(&last) = places.len().checked_sub(distance).and_then(|at| places.get(at)) else {
            return;
        };
        for pending in &mut self.pending {
            let Unit::Pipe(pipe) = pending.effects.unit else { continue };
            if pending.index <= last && own.is_none_or(|own| own == pipe) {
                pending.read = true;
                pending.written = true;
            }
        }
    }

    fn conflicts(&mut self, index: usize, effects: &Effects, group: Option<usize>) {
        let mut worst: Option<(usize, (&'static str, &'static str))> = None;
        for pending in &self.pending {
            let ordered = (pending.effects.unit == effects.unit && !effects.unit.takes_tokens())
                || (group.is_some() && pending.group == group);
            let fault = if !pending.written && overlap(&pending.effects.writes, &effects.reads) {
                // In a macro this has been reported as such.
                (group.is_none() || pending.group != group)
                    .then_some(("Q6080", "reads what instruction {} may not have written yet"))
            } else if ordered {
                None
            } else if !pending.written && overlap(&pending.effects.writes, &effects.writes) {
                Some(("Q6080", "writes what instruction {} may not have written yet"))
            } else if !pending.read
                && (pending.effects.unit != effects.unit || effects.unit == Unit::Message)
                && overlap(&pending.effects.reads, &effects.writes)
            {
                Some(("Q6081", "writes what instruction {} may not have read yet"))
            } else {
                None
            };
            worst = worst.or(fault.map(|fault| (pending.index, fault)));
        }
        if let Some((other, (code, text))) = worst {
            let message = format!("instruction {index} {}", text.replace("{}", &other.to_string()));
            let token = self.pending.iter().find(|p| p.index == other).and_then(|p| p.token);
            let help = match token {
                Some(token) => format!("wait with ${token}.dst, or ${token}.src for its sources"),
                None => "wait with a distance such as F@1, or take a token there; \
                         --swsb auto does so"
                    .to_owned(),
            };
            self.report(code, index, message, &help);
        }
    }

    fn push(&mut self, index: usize, effects: Effects, token: Option<u8>, group: Option<usize>) {
        self.pending.push(Pending { index, effects, token, group, read: false, written: false });
    }
}

fn at(problem: Diagnostic, item: &Item, index: usize) -> Diagnostic {
    match item.span {
        Some(span) => problem.label(span, ""),
        None => problem.with_note(format!("instruction {index}")),
    }
}
