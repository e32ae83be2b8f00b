//! What instructions wait for by their dependencies (SWSB), whatever their operands are.

#![deny(clippy::wildcard_enum_match_arm)]

use crate::arch::Platform;
use crate::isa::operands::{Dependency, PIPES, TokenUse};
use crate::program::Statement;
use crate::swsb::{Unit, unit};
use quincunx_timeline::EventId;
use std::collections::BTreeMap;

/// The dependencies of an instruction, and what it is to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    dependency: Dependency,
    /// A member of a macro that is not its last.
    atomic: bool,
    /// Waits for the sources, or the results (true), of tokens (a bit each).
    all: Option<(bool, u32)>,
    /// The pipe, an index in [`PIPES`]; `None` for instructions that take tokens.
    pipe: Option<u8>,
}

impl Wait {
    /// The dependencies of a statement.
    pub fn of(statement: &Statement, platform: Platform) -> Wait {
        let options = statement.options();
        let mut wait = Wait {
            dependency: options.dependency().unwrap_or_default(),
            atomic: options.is_atomic(),
            ..Wait::default()
        };
        if let Statement::Vector(inst) = statement {
            match unit(&inst.terms(), platform) {
                Unit::Pipe(pipe) => wait.pipe = Some(pipe),
                Unit::AllRead(tokens) => wait.all = Some((false, tokens)),
                Unit::AllWrite(tokens) => wait.all = Some((true, tokens)),
                Unit::Systolic | Unit::Message | Unit::Math | Unit::Wait | Unit::Unknown => {}
            }
        }
        wait
    }
}

/// An instruction that was issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Done {
    /// Its event.
    pub(super) event: EventId,
    /// When its sources are read.
    pub(super) read: u64,
    /// When its results can be used.
    pub(super) written: u64,
}

/// Instructions that others may name.
#[derive(Default)]
pub(super) struct Waits {
    /// The last instruction or macro that took each token.
    tokens: BTreeMap<u8, Done>,
    /// The instructions of each pipe; those of all pipes at 1.
    pipes: [Vec<Done>; PIPES.len()],
    /// The members of the open macro so far.
    open: Option<Done>,
}

/// The later of both in every respect.
fn later(a: Done, b: Option<Done>) -> Done {
    let Some(b) = b else { return a };
    let event = if b.written > a.written { b.event } else { a.event };
    Done { event, read: a.read.max(b.read), written: a.written.max(b.written) }
}

impl Waits {
    /// What an instruction waits for; `written` is when the wait ends.
    pub(super) fn of(&self, wait: &Wait) -> Vec<Done> {
        let until_read = |done: &Done| Done { written: done.read, ..*done };
        let mut found = Vec::new();
        if let Some((written, tokens)) = wait.all {
            let named = |(token, _): &(&u8, &Done)| tokens >> **token & 1 == 1;
            let done = self.tokens.iter().filter(named).map(|(_, done)| done);
            found.extend(done.map(|done| if written { *done } else { until_read(done) }));
        }
        if let Some((used, token)) = wait.dependency.token {
            found.extend(self.tokens.get(&token).map(|done| match used {
                TokenUse::Src => until_read(done),
                TokenUse::Dst | TokenUse::Set => *done,
            }));
        }
        if let Some((pipe, distance)) = wait.dependency.distance {
            // Pipe 0 is that of the instruction itself.
            let pipe = if pipe == 0 { wait.pipe } else { Some(pipe) };
            let list = pipe.and_then(|pipe| self.pipes.get(usize::from(pipe)));
            let at = |list: &Vec<Done>| list.len().checked_sub(usize::from(distance));
            found.extend(list.and_then(|list| list.get(at(list)?)));
        }
        found
    }

    /// Adds an instruction.
    pub(super) fn push(&mut self, wait: &Wait, done: Done) {
        match (wait.pipe, wait.dependency.token) {
            (Some(pipe), _) => {
                self.pipes[usize::from(pipe)].push(done);
                self.pipes[1].push(done);
            }
            (None, _) if wait.atomic => self.open = Some(later(done, self.open)),
            (None, Some((TokenUse::Set, token))) => {
                self.tokens.insert(token, later(done, self.open.take()));
            }
            (None, _) => self.open = None,
        }
    }
}
