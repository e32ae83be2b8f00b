//! Assigns dependencies: macros, tokens, waits.
//!
//! Greedy, in one pass. Neighbours that may form a macro do. A macro, and an instruction that needs
//! more than it can carry, has its waits before it as `sync.nop`; one that needs a single token
//! takes the same token again, which waits for it. New tokens are the lowest free ones.

use super::blocks;
use super::check::MAX_MACRO;
use super::effects::{Effects, Unit, effects, macro_fault, overlap};
use crate::arch::DpasArch;
use crate::isa::native;
use crate::isa::native::Native;
use crate::isa::operands::{ATOMIC, DEPENDENCY, Dependency, Options, PIPES, TokenUse};
use crate::isa::vector::{self, Op};
use crate::program::{Item, Listing, Statement};
use crate::shape::RowStride;
use quincunx_diag::{Diagnostic, Result};

/// Unfinished instructions after which everything is waited for; bounds the work.
const MAX_PENDING: usize = 1024;

/// Farthest distance.
const MAX_DISTANCE: usize = 7;

/// The listing with dependencies. Those that it had are dropped, waits included. Where it branches,
/// everything is waited for.
///
/// # Errors
/// `Q6089` for an instruction whose effects are not known, or a jump that leads to none.
pub fn assign(listing: &Listing, arch: &DpasArch, stride: RowStride) -> Result<Listing> {
    let blocks = blocks::split(listing)?;
    let (mut items, mut starts) = (Vec::new(), Vec::new());
    for block in &blocks {
        starts.push(items.len());
        items.extend(assign_block(&listing.items[block.clone()], arch, stride)?);
    }
    let mut assigned = Listing { items };
    blocks::retarget(listing, &blocks, &mut assigned, &starts);
    Ok(assigned)
}

/// A block with dependencies.
fn assign_block(block: &[Item], arch: &DpasArch, stride: RowStride) -> Result<Vec<Item>> {
    let mut assigner =
        Assigner { out: Vec::new(), pending: Vec::new(), counts: [0; PIPES.len()], arch };
    let mut units: Vec<Vec<(Item, Effects)>> = Vec::new();
    let (last, body) = match block.split_last() {
        Some((last, body)) if blocks::ends_block(&last.statement) => (Some(last), body),
        _ => (None, block),
    };
    for item in body {
        let effects = effects(&item.statement, arch, stride);
        match effects.unit {
            Unit::Unknown => {
                let message = "what this instruction reads and writes is not known";
                let problem = Diagnostic::unsupported("Q6089", message);
                return Err(match item.span {
                    Some(span) => problem.label(span, ""),
                    None => problem,
                });
            }
            Unit::Systolic if units.last().is_some_and(|unit| joins(unit, item, &effects)) => {
                if let Some(unit) = units.last_mut() {
                    unit.push((item.clone(), effects));
                }
            }
            Unit::Systolic | Unit::Message | Unit::Math | Unit::Pipe(_) => {
                units.push(vec![(item.clone(), effects)]);
            }
            Unit::Wait | Unit::AllRead(_) | Unit::AllWrite(_) => {}
        }
    }
    units.iter().for_each(|unit| assigner.unit(unit));
    assigner.finish();
    if let Some(last) = last {
        assigner.emit(last, 0);
    }
    Ok(assigner.out)
}

fn native(item: &Item) -> Option<Native> {
    match &item.statement {
        Statement::Systolic(inst) => Some(native::Inst::native(inst)),
        _ => None,
    }
}

/// Whether an instruction joins the instructions before it to a macro.
fn joins(unit: &[(Item, Effects)], item: &Item, own: &Effects) -> bool {
    let parts: Option<Vec<Native>> = unit.iter().map(|(item, _)| native(item)).collect();
    let (Some(parts), Some(next)) = (parts, native(item)) else { return false };
    if unit.len() >= MAX_MACRO {
        return false;
    }
    let earlier: Vec<(&Native, &Effects)> =
        parts.iter().zip(unit).map(|(inst, (_, effects))| (inst, effects)).collect();
    // The first one must be able to be in a macro, too.
    let first = earlier.first().and_then(|&first| macro_fault(&[], first));
    first.is_none() && macro_fault(&earlier, (&next, own)).is_none()
}

/// An instruction that may not have finished.
struct Pending {
    effects: Effects,
    token: Option<u8>,
    /// For instructions of a pipe: how many were in it before.
    place: usize,
    read: bool,
}

/// What a unit has to wait for, in the order in which it was found.
#[derive(Default)]
struct Needs {
    tokens: Vec<(u8, TokenUse)>,
    /// Pipe and distance.
    distances: Vec<(u8, usize)>,
}

struct Assigner<'a> {
    out: Vec<Item>,
    pending: Vec<Pending>,
    /// How many instructions each pipe has had.
    counts: [usize; PIPES.len()],
    arch: &'a DpasArch,
}

impl Assigner<'_> {
    fn unit(&mut self, unit: &[(Item, Effects)]) {
        if self.pending.len() > MAX_PENDING {
            self.finish();
            self.pending.clear();
        }
        let mut needs = Needs::default();
        for (_, effects) in unit {
            self.needs(effects, &mut needs);
        }
        match unit {
            [(item, effects)] => match effects.unit {
                Unit::Pipe(pipe) => self.in_order(item, effects, pipe, &needs),
                _ => self.systolic(item, effects, &needs),
            },
            _ => self.macro_(unit, &needs),
        }
    }

    fn needs(&self, effects: &Effects, needs: &mut Needs) {
        for pending in &self.pending {
            let same_unit = pending.effects.unit == effects.unit;
            let same_pipe = same_unit && !effects.unit.takes_tokens();
            let reads = overlap(&pending.effects.writes, &effects.reads);
            let writes = !same_pipe && overlap(&pending.effects.writes, &effects.writes);
            // Messages read in any order.
            let in_order = same_unit && effects.unit != Unit::Message;
            let overwrites =
                !in_order && !pending.read && overlap(&pending.effects.reads, &effects.writes);
            if !(reads || writes || overwrites) {
                continue;
            }
            match (pending.effects.unit, pending.token) {
                (Unit::Pipe(pipe), _) => {
                    let later = self.counts[usize::from(pipe)] - pending.place;
                    needs.distance(pipe, later.clamp(1, MAX_DISTANCE));
                }
                (_, Some(token)) => {
                    let used = if reads || writes { TokenUse::Dst } else { TokenUse::Src };
                    needs.token(token, used);
                }
                _ => {}
            }
        }
    }

    /// Strikes off what has been waited for.
    fn done(&mut self, needs: &Needs) {
        for &(token, used) in &needs.tokens {
            match used {
                TokenUse::Src => self
                    .pending
                    .iter_mut()
                    .filter(|pending| pending.token == Some(token))
                    .for_each(|pending| pending.read = true),
                _ => self.pending.retain(|pending| pending.token != Some(token)),
            }
        }
        for &(pipe, distance) in &needs.distances {
            let count = self.counts[usize::from(pipe)];
            self.pending.retain(|pending| {
                pending.effects.unit != Unit::Pipe(pipe) || count - pending.place < distance
            });
        }
    }

    fn sync(&mut self, dependency: Dependency) {
        let options = Options(word_of(dependency));
        self.out.push(Statement::Vector(vector::Inst::wait(Op::SyncNop, options)).into());
    }

    fn syncs(&mut self, needs: &Needs) {
        for &(pipe, distance) in &needs.distances {
            self.sync(Dependency::distance(pipe, distance as u8));
        }
        for &(token, used) in &needs.tokens {
            self.sync(Dependency::token(used, token));
        }
    }

    fn emit(&mut self, item: &Item, word: u32) {
        let kept = item.statement.options().0 & !(DEPENDENCY | ATOMIC);
        let statement = item.statement.with_options(Options(kept | word));
        self.out.push(Item { statement, span: item.span });
    }

    fn in_order(&mut self, item: &Item, effects: &Effects, pipe: u8, needs: &Needs) {
        let (mut word, mut before) = (0, Needs::default());
        match (&needs.tokens[..], &needs.distances[..]) {
            (&[(token, used)], []) => {
                word = word_of(Dependency::token(used, token));
            }
            (tokens, &[(pipe, distance)]) => {
                before.tokens = tokens.to_vec();
                word = word_of(Dependency::distance(pipe, distance as u8));
            }
            (tokens, distances) => {
                before = Needs { tokens: tokens.to_vec(), distances: distances.to_vec() };
            }
        }
        self.syncs(&before);
        self.done(needs);
        self.emit(item, word);
        self.pending.push(Pending {
            effects: effects.clone(),
            token: None,
            place: self.counts[usize::from(pipe)],
            read: false,
        });
        self.counts[usize::from(pipe)] += 1;
    }

    fn systolic(&mut self, item: &Item, effects: &Effects, needs: &Needs) {
        let token = match &needs.tokens[..] {
            &[(token, _)] => {
                // Taking the token waits for it.
                self.syncs(&Needs { tokens: Vec::new(), distances: needs.distances.clone() });
                self.done(&Needs { tokens: vec![(token, TokenUse::Set)], distances: Vec::new() });
                token
            }
            _ => {
                self.syncs(needs);
                self.done(needs);
                self.free_token()
            }
        };
        self.done(needs);
        self.emit(item, word_of(Dependency::token(TokenUse::Set, token)));
        self.push(effects, token);
    }

    fn macro_(&mut self, unit: &[(Item, Effects)], needs: &Needs) {
        self.syncs(needs);
        self.done(needs);
        let token = self.free_token();
        for (at, (item, effects)) in unit.iter().enumerate() {
            let word = match at + 1 == unit.len() {
                true => word_of(Dependency::token(TokenUse::Set, token)),
                false => ATOMIC,
            };
            self.emit(item, word);
            self.push(effects, token);
        }
    }

    fn push(&mut self, effects: &Effects, token: u8) {
        let effects = effects.clone();
        self.pending.push(Pending { effects, token: Some(token), place: 0, read: false });
    }

    /// The lowest token that is not in use; if all are, the first one after waiting for it.
    fn free_token(&mut self) -> u8 {
        let free = |token: &u8| self.pending.iter().all(|pending| pending.token != Some(*token));
        if let Some(token) = (0..self.arch.platform.tokens()).find(free) {
            return token;
        }
        let needs = Needs { tokens: vec![(0, TokenUse::Dst)], distances: Vec::new() };
        self.syncs(&needs);
        self.done(&needs);
        0
    }

    /// Waits for everything, as the peer does.
    fn finish(&mut self) {
        for op in [Op::SyncAllRead, Op::SyncAllWrite] {
            let inst = vector::Inst::wait(op, Options(0));
            self.out.push(Statement::Vector(inst).into());
        }
        self.sync(Dependency::distance(1, 1));
    }
}

impl Needs {
    fn token(&mut self, token: u8, used: TokenUse) {
        match self.tokens.iter_mut().find(|(known, _)| *known == token) {
            None => self.tokens.push((token, used)),
            // Waiting for results includes the sources.
            Some(known) if used == TokenUse::Dst => known.1 = used,
            Some(_) => {}
        }
    }

    fn distance(&mut self, pipe: u8, distance: usize) {
        match self.distances.iter_mut().find(|(known, _)| *known == pipe) {
            None => self.distances.push((pipe, distance)),
            Some(known) => known.1 = known.1.min(distance),
        }
    }
}

fn word_of(single: Dependency) -> u32 {
    single.to_word().expect("a single dependency has a word")
}
