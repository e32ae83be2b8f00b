//! The choice of a search.

use crate::arch::ScampArch;
use crate::isa::TABLE;
use crate::options::{Search, Wishes};
use crate::program::Program;
use crate::task::Task;
use crate::{auke, bus, cain, search};
use quincunx_contract::Log;
use quincunx_diag::{Diagnostic, Result};
use quincunx_report::Heading;
use std::collections::BTreeSet;

/// Combinations of values that take as long as a node of AUKE's search.
const WORK_OF_A_NODE: u64 = 20_000;

/// A program, and what its search tells.
pub(super) struct Found {
    /// The program.
    pub(super) program: Program,
    /// What the search tells.
    pub(super) told: Told,
}

/// What searches tell.
#[derive(Default)]
pub(super) struct Told {
    /// What they did, as notes.
    notes: Vec<Diagnostic>,
    /// How they came to their programs: the name of a pass and a text.
    texts: Vec<(&'static str, String)>,
    /// Passes that are files of their own.
    files: Vec<(&'static str, String)>,
}

impl Told {
    fn new(of: &str, lines: Vec<String>, texts: Vec<(&'static str, String)>) -> Told {
        let note = Diagnostic::note("Q5134", format!("what the search for {of} did"));
        let note = lines.into_iter().fold(note, Diagnostic::with_note);
        Told { notes: vec![note], texts, ..Told::default() }
    }

    /// What is proved of the program for something: a note where it is that nothing is shorter.
    fn proof(of: &str, program: &Program, proof: &search::Proof) -> Told {
        let text = format!("{of}: {}", proof.of(program));
        match program.length() == proof.bound {
            true => Told { notes: vec![Diagnostic::note("Q5095", text)], ..Told::default() },
            false => Told { texts: vec![("proof", text + "\n")], ..Told::default() },
        }
    }

    /// Adds what another search told.
    pub(super) fn add(&mut self, told: Told) {
        self.notes.extend(told.notes);
        self.files.extend(told.files);
        for (name, text) in told.texts {
            match self.texts.iter_mut().find(|(old, _)| *old == name) {
                Some((_, old)) => *old += &text,
                None => self.texts.push((name, text)),
            }
        }
    }

    /// Passes and notes.
    pub(super) fn log(self, log: &mut Log) {
        for (name, text) in self.texts.into_iter().chain(self.files) {
            log.pass(name, format!("{} lines", text.lines().count()), || text);
        }
        log.diagnostics.extend(self.notes);
    }
}

/// What Cain's search did, a line for every count that is not 0.
fn lines(counts: &cain::Counts) -> Vec<String> {
    let rows = counts.rows().into_iter().filter(|(_, count)| *count > 0);
    rows.map(|(name, count)| format!("{name}: {count}")).collect()
}

/// The note of macros that were not asked for: AUKE's search has its own.
fn others(program: &Program, wishes: &Wishes) -> Option<Diagnostic> {
    let rows = program.instructions.iter().map(|inst| &TABLE.rows[inst.row()]);
    let others = rows.filter(|row| !wishes.macros.contains(row.name));
    let names: BTreeSet<&str> = others.map(|row| row.mnemonic).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let message = format!("macros of AUKE that `--ops` does not name: {}", names.join(", "));
    (!names.is_empty()).then(|| Diagnostic::note("Q5133", message))
}

/// A program for a task, for what `of` names, by the search that is wished. Whatever the search, its
/// program is checked.
///
/// # Errors
/// What the search says; a bug when its program is wrong.
pub(super) fn find(of: &str, task: &Task, arch: &ScampArch, wishes: &Wishes) -> Result<Found> {
    let found = match wishes.search {
        Search::Default if let Some(halving) = wishes.bus => {
            let (effort, range) = (wishes.effort, wishes.wish.range);
            let settings = bus::Settings { halving, effort, seed: search::SEED, range };
            Found { program: bus::find(task, arch, settings)?, told: Told::default() }
        }
        Search::Default => {
            let (leftovers, effort) = (wishes.leftovers, wishes.effort);
            let settings = search::Settings { leftovers, effort, seed: search::SEED };
            match wishes.is_measured() {
                false => {
                    let found = search::attempt(task, arch, settings)?;
                    let (program, proof) = search::proved(found, task, arch, settings)?;
                    let told = Told::proof(of, &program, &proof);
                    Found { program, told }
                }
                true => {
                    let found = search::find_best(task, arch, settings, &wishes.wish)?;
                    let notes = wishes.pareto.then(|| found.note(of)).into_iter().collect();
                    Found { program: found.program, told: Told { notes, ..Told::default() } }
                }
            }
        }
        Search::Cain => {
            // The task has the macros that are wished already.
            let fields = cain::Settings::of_fields(&wishes.cain, cain::OpSet::Task)?;
            let settings = cain::Settings { recorded_nodes: wishes.graph, ..fields };
            let found = cain::search(task, &settings, arch)?;
            let mut told = Told::new(of, lines(&found.counts), Vec::new());
            let machine = format!("scamp {}", arch.name);
            let heading = Heading::new("Cain's search").of(of).on(machine);
            told.files.push(("search.dot", found.graph.dot(of)));
            told.files.push(("search.svg", found.graph.svg(&heading)));
            Found { program: found.best, told }
        }
        Search::Auke => {
            let max_nodes = wishes.effort.0 / WORK_OF_A_NODE;
            let found = auke::search(task, auke::Settings { max_nodes }, arch)?;
            let mut told = Told::new(of, found.lines(), found.texts());
            told.notes.extend(others(&found.program, wishes));
            Found { program: found.program, told }
        }
    };
    match task.wanted.check(&found.program)?.first() {
        None => Ok(found),
        Some(problem) => {
            let message = format!("a search went wrong: {}", problem.message());
            Err(Diagnostic::bug(message))
        }
    }
}
