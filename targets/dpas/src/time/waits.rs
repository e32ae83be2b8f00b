//! What instructions wait for by their dependencies (SWSB), whatever their operands are.

#![deny(clippy::wildcard_enum_match_arm)]

use crate::arch::Platform;
use crate::isa::operands::{Dependency, PIPES, TokenUse};
use crate::program::Statement;
use crate::swsb::{Unit, unit};
use std::collections::{BTreeMap, VecDeque};

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
pub(super) struct Done<E> {
    /// Its event.
    pub(super) event: E,
    /// When its sources are read.
    pub(super) read: u64,
    /// When its results can be used.
    pub(super) written: u64,
}

/// Instructions that others may name.
pub(super) struct Waits<E> {
    /// The last instruction or macro that took each token.
    tokens: BTreeMap<u8, Done<E>>,
    /// The last instructions of each pipe; those of all pipes at 1.
    pipes: [VecDeque<Done<E>>; PIPES.len()],
    /// The members of the open macro so far.
    open: Option<Done<E>>,
}

/// No distance is longer.
const FURTHEST: usize = 7;

impl<E> Default for Waits<E> {
    fn default() -> Self {
        Waits { tokens: BTreeMap::new(), pipes: Default::default(), open: None }
    }
}

/// The later of both in every respect.
fn later<E: Copy>(a: Done<E>, b: Option<Done<E>>) -> Done<E> {
    let Some(b) = b else { return a };
    let event = if b.written > a.written { b.event } else { a.event };
    Done { event, read: a.read.max(b.read), written: a.written.max(b.written) }
}

impl<E: Copy> Waits<E> {
    /// What an instruction waits for; `written` is when the wait ends.
    pub(super) fn of(&self, wait: &Wait) -> Vec<Done<E>> {
        let until_read = |done: &Done<E>| Done { written: done.read, ..*done };
        let mut found = Vec::new();
        if let Some((written, tokens)) = wait.all {
            let named = |(token, _): &(&u8, &Done<E>)| tokens >> **token & 1 == 1;
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
            let at = |list: &VecDeque<Done<E>>| list.len().checked_sub(usize::from(distance));
            found.extend(list.and_then(|list| list.get(at(list)?)));
        }
        found
    }

    /// Adds an instruction.
    pub(super) fn push(&mut self, wait: &Wait, done: Done<E>) {
        match (wait.pipe, wait.dependency.token) {
            (Some(pipe), _) => {
                for list in [usize::from(pipe), 1] {
                    let list = &mut self.pipes[list];
                    list.push_back(done);
                    if list.len() > FURTHEST {
                        list.pop_front();
                    }
                }
            }
            (None, _) if wait.atomic => self.open = Some(later(done, self.open)),
            (None, Some((TokenUse::Set, token))) => {
                self.tokens.insert(token, later(done, self.open.take()));
            }
            (None, _) => self.open = None,
        }
    }
}
