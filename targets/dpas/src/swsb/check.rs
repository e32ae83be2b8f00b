//! The checker: does every instruction wait for what it needs?
//!
//! It keeps the instructions that may not have finished and strikes off what a wait guarantees. An
//! instruction that touches bytes of an unfinished one is an error:
//!
//! * it reads what is not yet written, or writes it (read after write, write after write);
//! * it writes what is not yet read (write after read).
//!
//! Within a pipe, and within a macro, the order of reads and writes is kept, so that only reading
//! what is not yet written is an error there, and not even that of accumulators within a pipe. Systolic instructions also read their sources in
//! order: none writes what an earlier one has yet to read (listings of `igc` rely on it). Raw
//! machine code is not understood: it counts as an instruction without effects, with a warning.
//!
//! Compilers drop waits that latency covers (`igc`). Where an instruction of a known latency was issued
//! at least so many cycles before (a thread issues one instruction a cycle, and a systolic one when the
//! array is free), that is a warning: other machines may be slower. Messages have no known latency.
//!
//! Where a listing branches, what may be unfinished at the start of a block is what may be so at the
//! end of any block that it can follow, loops included.

use super::blocks;
use super::effects::{Effects, Unit, effects, in_accumulators, macro_fault, overlap};
use crate::arch::DpasArch;
use crate::isa::native::Native;
use crate::isa::operands::{DEPENDENCY, TokenUse};
use crate::latency::{MATH_PIPE, issue_cycles, product_latency, vector_cycles};
use crate::program::{Item, Listing, Statement};
use crate::shape::RowStride;
use crate::simulate::lower::native_operation;
use quincunx_diag::Diagnostic;
use std::ops::Range;
use std::rc::Rc;

/// An instruction that may not have finished.
#[derive(Clone)]
struct Pending {
    index: usize,
    effects: Rc<Effects>,
    token: Option<u8>,
    /// The first instruction of the macro it belongs to.
    group: Option<usize>,
    read: bool,
    written: bool,
    /// Its distance from now in its pipe, and in all pipes; at most [`FAR`].
    distances: [usize; 2],
    /// Cycles until it has finished, at the most; `None` for messages.
    left: Option<u64>,
}

/// Farther than any distance that an instruction can wait for.
const FAR: usize = 8;

struct Checker<'a> {
    listing: &'a Listing,
    arch: &'a DpasArch,
    stride: RowStride,
    pending: Vec<Pending>,
    found: Vec<Diagnostic>,
    /// The indices of the instructions of the open macro.
    members: Vec<usize>,
    warned: bool,
    /// Cycles until the array is free, at the least.
    busy: u64,
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
        members: Vec::new(),
        warned: false,
        busy: 0,
    };
    // A jump that leads to no instruction is a fault of its own.
    let whole = 0..listing.items.len();
    let blocks = blocks::split(listing).unwrap_or_else(|_| std::iter::once(whole).collect());
    let Some(entries) = checker.entries(&blocks) else {
        let message = "too many instructions may be unfinished where the listing branches";
        checker.report("Q6090", 0, message.to_owned(), "wait for all before jumps, with A@1");
        return checker.found;
    };
    for (block, entry) in blocks.into_iter().zip(entries) {
        checker.pending = entry;
        if !checker.block(block) {
            break;
        }
    }
    checker.found
}

/// More would help nobody.
const MAX_FOUND: usize = 100;

/// Bounds the work; registers for so many do not exist.
const MAX_PENDING: usize = 2048;

/// Bounds the work (ours).
pub(super) const MAX_MACRO: usize = 64;

/// Bounds memory: unfinished instructions at the starts of all blocks.
const MAX_ENTRIES: usize = 1 << 20;

/// Bounds the work: how often a block is walked, on average, until nothing changes.
const MAX_WALKS: usize = 16;

/// Adds to what may be unfinished; true if that is new.
fn join(entry: &mut Vec<Pending>, added: &[Pending]) -> bool {
    let mut changed = false;
    let mut known: Vec<usize> = (0..entry.len()).collect();
    known.sort_unstable_by_key(|&at| entry[at].index);
    for one in added {
        let Ok(at) = known.binary_search_by_key(&one.index, |&at| entry[at].index) else {
            // A macro ends with its block.
            entry.push(Pending { group: None, ..one.clone() });
            changed = true;
            continue;
        };
        let own = &mut entry[known[at]];
        let before = (own.read, own.written, own.distances, own.left);
        own.read &= one.read;
        own.written &= one.written;
        own.left = own.left.max(one.left);
        for (own, other) in own.distances.iter_mut().zip(one.distances) {
            *own = (*own).min(other);
        }
        changed |= before != (own.read, own.written, own.distances, own.left);
    }
    changed
}

impl Checker<'_> {
    /// What may be unfinished at the start of every block; `None` where that is too much.
    fn entries(&mut self, blocks: &[Range<usize>]) -> Option<Vec<Vec<Pending>>> {
        let mut entries = vec![Vec::new(); blocks.len()];
        let followers = blocks::followers(self.listing, blocks);
        if followers.iter().all(Vec::is_empty) {
            return Some(entries);
        }
        let mut waiting = vec![true; blocks.len()];
        let mut walks = 0;
        while waiting.contains(&true) {
            for (at, block) in blocks.iter().enumerate() {
                if !std::mem::take(&mut waiting[at]) {
                    continue;
                }
                walks += 1;
                self.pending.clone_from(&entries[at]);
                let is_bounded = self.block(block.clone()) || self.found.len() >= MAX_FOUND;
                (self.found, self.warned) = (Vec::new(), false);
                for &next in &followers[at] {
                    waiting[next] |= join(&mut entries[next], &self.pending);
                }
                let total: usize = followers[at].iter().map(|&next| entries[next].len()).sum();
                if !is_bounded || total > 2 * MAX_PENDING || walks > MAX_WALKS * blocks.len() {
                    return None;
                }
            }
            if entries.iter().map(Vec::len).sum::<usize>() > MAX_ENTRIES {
                return None;
            }
        }
        Some(entries)
    }

    /// Walks over a block; false when it is not worth while to go on.
    fn block(&mut self, block: Range<usize>) -> bool {
        self.busy = 0;
        for index in block.clone() {
            self.step(index);
            if self.pending.len() > MAX_PENDING {
                let message = format!("more than {MAX_PENDING} instructions may be unfinished");
                self.report("Q6090", index, message, "wait for some of them, with A@1");
            }
            if self.found.len() >= MAX_FOUND || self.pending.len() > MAX_PENDING {
                // Open macros are reported where they end.
                self.members.clear();
                return false;
            }
        }
        if let (false, Some(last)) = (self.members.is_empty(), block.last()) {
            self.open_macro(last);
        }
        true
    }

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
        self.pass(&effects);
        match effects.unit {
            Unit::Unknown => self.unknown(item, index),
            Unit::Systolic => self.systolic(index, effects),
            Unit::Message | Unit::Math => self.message(index, effects),
            _ => {
                self.wait(&item.statement, index, effects.unit);
                self.conflicts(index, &effects, None);
                if let Unit::Pipe(_) = effects.unit {
                    self.advance(effects.unit);
                    self.push(index, effects, None, None);
                }
            }
        }
    }

    /// Time passes until an instruction is issued.
    fn pass(&mut self, effects: &Effects) {
        let cycles = match effects.unit {
            Unit::Systolic => self.busy.max(1),
            // Waits may take no time.
            Unit::Wait | Unit::AllRead(_) | Unit::AllWrite(_) => 0,
            _ => 1,
        };
        self.busy = self.busy.saturating_sub(cycles);
        for left in self.pending.iter_mut().filter_map(|pending| pending.left.as_mut()) {
            *left = left.saturating_sub(cycles);
        }
    }

    /// Cycles from the issue of an instruction until it has finished.
    fn latency(&mut self, index: usize, effects: &Effects) -> Option<u64> {
        match (&self.listing.items[index].statement, effects.unit) {
            (Statement::Systolic(inst), _) => {
                let operation = native_operation(&inst.native(), self.arch, self.stride).ok()?;
                self.busy = issue_cycles(self.arch, &operation);
                Some(product_latency(self.arch.platform, &operation.shape))
            }
            (Statement::Vector(inst), Unit::Math | Unit::Pipe(_)) if !inst.terms().op.jumps() => {
                let is_math = matches!(effects.unit, Unit::Math | Unit::Pipe(MATH_PIPE));
                Some(vector_cycles(&inst.terms(), is_math, self.arch).1)
            }
            _ => None,
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
        let first = self.members.first().copied();
        let group = if atomic { first.or(Some(index)) } else { first };
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
        for pending in &mut self.pending {
            let Unit::Pipe(pipe) = pending.effects.unit else { continue };
            let [in_pipe, in_all] = pending.distances;
            let is_done = match own {
                Some(own) => own == pipe && in_pipe >= distance,
                None => in_all >= distance,
            };
            pending.read |= is_done;
            pending.written |= is_done;
        }
    }

    /// Another instruction enters a pipe.
    fn advance(&mut self, unit: Unit) {
        for pending in &mut self.pending {
            if let Unit::Pipe(_) = pending.effects.unit {
                let [in_pipe, in_all] = &mut pending.distances;
                *in_pipe = (*in_pipe + usize::from(pending.effects.unit == unit)).min(FAR);
                *in_all = (*in_all + 1).min(FAR);
            }
        }
    }

    fn conflicts(&mut self, index: usize, effects: &Effects, group: Option<usize>) {
        let faults = self.pending.iter().filter_map(|pending| {
            let ordered = (pending.effects.unit == effects.unit && !effects.unit.takes_tokens())
                || (group.is_some() && pending.group == group);
            // Within a pipe accumulators pass from one instruction to the next (listings of `igc`).
            let waits = |to: &Range<usize>| {
                !(ordered && in_accumulators(to))
                    && overlap(std::slice::from_ref(to), &effects.reads)
            };
            let fault = if !pending.written && pending.effects.writes.iter().any(waits) {
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
            fault.map(|fault| (pending.left == Some(0), pending.index, fault))
        });
        // The first error, or the first warning.
        let worst = faults.min_by_key(|&(is_covered, ..)| is_covered);
        if let Some((is_covered, other, (code, text))) = worst {
            let message = format!("instruction {index} {}", text.replace("{}", &other.to_string()));
            let token = self.pending.iter().find(|p| p.index == other).and_then(|p| p.token);
            let help = match token {
                Some(token) => format!("wait with ${token}.dst, or ${token}.src for its sources"),
                None => "wait with a distance such as F@1, or take a token there; \
                         --swsb auto does so"
                    .to_owned(),
            };
            if !is_covered {
                return self.report(code, index, message, &help);
            }
            let message = format!("{message}, but for the latency of this machine");
            let problem = Diagnostic::warning("Q6079", message).help(help);
            self.found.push(at(problem, &self.listing.items[index], index));
        }
    }

    fn push(&mut self, index: usize, effects: Effects, token: Option<u8>, group: Option<usize>) {
        let left = self.latency(index, &effects);
        let effects = Rc::new(effects);
        // What is known of it stands for its run in an earlier pass of a loop, too.
        self.pending.retain(|pending| pending.index != index);
        self.pending.push(Pending {
            index,
            effects,
            token,
            group,
            read: false,
            written: false,
            distances: [1; 2],
            left,
        });
    }
}

fn at(problem: Diagnostic, item: &Item, index: usize) -> Diagnostic {
    match item.span {
        Some(span) => problem.label(span, ""),
        None => problem.with_note(format!("instruction {index}")),
    }
}
