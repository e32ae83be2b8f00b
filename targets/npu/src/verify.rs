//! Legality and hazard rules.
//!
//! | code | rule | kind |
//! |---|---|---|
//! | `Q4020` | registers are configured before they are used | error |
//! | `Q4021` | every token that is awaited comes (no deadlock) | error |
//! | `Q4022` | every token is taken before its task ends | warning |
//! | `Q4023` | lines lie between `ct_st` and `ct_ed` of a task | error |
//! | `Q4024` | a region is set, and an access is no longer than it | error |
//! | `Q4025` | an instruction and the `ct_bc` of its region are ordered by tokens | error |
//! | `Q4026` | regions lie in L2, do not overlap, and have a length that fits their end | error |
//! | `Q4027` | weights lie in WL0 at an allowed address | error |
//! | `Q4028` | a mini tile fits the activation buffer AL1 | error |
//! | `Q4029` | a mini tile fits the output buffer OL1, where the architecture limits it | error |
//! | `Q4030` | DRAM operations are one chain, each ordered after the one before it | warning |
//! | `Q4031` | accesses to the same bytes, one a write, are ordered by queues and tokens | error |
//! | `Q4032` | a convolution finds the weights that were loaded for it | error |
//! | `Q4033` | bytes that are read from L2 were written before | warning |
//! | `Q4034` | fields have values whose meaning is defined | error |
//! | `Q4035` | extents are at least 1 and fit each other | error |
//! | `Q4036` | the other core exists, and its signals are taken | error, warning |
//! | `Q4037` | maps are plausible: workloads do not go back, tiles count up | warning |
//! | `Q4038` | a configuration changes something | note |
//! | `Q4039` | images of a batch have different addresses in the vector queue | warning |
//! | `Q4040` | an instruction does not write over its own input, but element by element in place | error |
//! | `Q4041` | what is written to L2 is read before all of it is overwritten | warning |
//! | `Q4042` | a workload is one box of one layer with its largest tile first, or images | warning |
//! | `Q4048` | the accesses are few enough to be compared | error |
//!
//! Facts: `gemini`, `npu-measured` (`docs/bibliography.md`). Lines are counted from 1, as
//! `inst_idx` of traces.

#![deny(clippy::arithmetic_side_effects)]

mod fields;
mod hazards;
mod labels;
mod lint;
mod residency;
mod tokens;
mod unread;
mod written;

pub use hazards::{HazardStatistics, hazard_statistics};
pub use labels::mislabelled;
pub use residency::clobbered;

use crate::arch::NpuArch;
use crate::program::Program;
use crate::replay::{Clocks, Node, Replay, replay};
use crate::work::Resolved;
use quincunx_diag::{Diagnostic, Place, Problems};

/// The programs of all cores with what they do.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// One program per core.
    pub programs: &'a [&'a Program],
    /// The work of every line, from [`crate::work::resolve`].
    pub work: &'a [Vec<Resolved>],
    /// The machine.
    pub arch: &'a NpuArch,
}

/// Everything wrong with the programs.
pub fn verify(subject: &Subject<'_>) -> Vec<Diagnostic> {
    let mut problems = Problems::default();
    let replay = replay(subject.programs, subject.work, &|_| 0);
    fields::check(subject, &mut problems);
    tokens::check(subject, &replay, &mut problems);
    let clocks = Clocks::new(subject.programs, &replay);
    hazards::check(subject, &replay, &clocks, &mut problems);
    residency::check(subject, &replay, &mut problems);
    unread::check(subject, &replay, &mut problems);
    let shared = lint::check(subject, &mut problems);
    labels::check(subject, &shared, &mut problems);
    problems.finish()
}

/// The rules without which execution has no defined result, and the order in which lines execute.
///
/// # Errors
/// Everything that keeps the programs from being executed.
pub fn executable(subject: &Subject<'_>) -> std::result::Result<Replay, Vec<Diagnostic>> {
    let mut problems = Problems::default();
    let replay = replay(subject.programs, subject.work, &|_| 0);
    fields::check(subject, &mut problems);
    tokens::check(subject, &replay, &mut problems);
    if problems.any_error() {
        let problems = problems.finish();
        return Err(problems.into_iter().filter(Diagnostic::is_error).collect());
    }
    Ok(replay)
}

impl Subject<'_> {
    /// The mnemonic of a line.
    fn mnemonic(&self, node: Node) -> &'static str {
        self.programs[node.core].lines[node.line].inst.mnemonic()
    }

    /// A line in words: `line 7 (lda_mov)`.
    fn show(&self, node: Node) -> String {
        let core = match self.programs.len() {
            1 => String::new(),
            _ => format!(" of core {}", node.core),
        };
        format!("line {} ({}){core}", node.number(), self.mnemonic(node))
    }

    /// Places a problem at a line.
    pub(crate) fn at(&self, node: Node, problem: Diagnostic) -> Diagnostic {
        let problem = problem.at(Place::Line(node.number()));
        match self.programs.len() {
            1 => problem,
            _ => problem.with_note(format!("in core {}", node.core)),
        }
    }
}
