//! Two threads never race: under the order in which upstream's sequencer executes the stream, an
//! instruction that touches what an earlier one of the other thread touches, and one of them
//! writes, starts when the earlier one is done. Then executing in the order of the stream gives the
//! same results, which is what our simulator does.

use super::MAX_PROBLEMS;
use crate::program::{Effects, Program, Span, Step};
use crate::text::describe;
use crate::time::{Interval, costs, sequence};
use quincunx_diag::{Diagnostic, Place};

/// Every race (`Q3052`), at the later instruction, at most 100.
pub fn races(program: &Program) -> Vec<Diagnostic> {
    let intervals = sequence(program, &costs(program, false)).intervals;
    let effects: Vec<Effects> =
        program.steps.iter().map(|step| step.inst.effects(&program.arch)).collect();
    let mut threads: [Vec<usize>; 2] = [Vec::new(), Vec::new()];
    let mut problems = Vec::new();
    for (index, step) in program.steps.iter().enumerate() {
        let own = usize::from(step.tid & 1);
        // Instructions of one thread end in order.
        let unfinished = threads[1 - own]
            .iter()
            .rev()
            .take_while(|&&earlier| intervals[earlier].end > intervals[index].start);
        let race = unfinished.copied().find_map(|earlier| {
            conflict(&effects[earlier], &effects[index]).map(|what| (earlier, what))
        });
        if let Some((earlier, what)) = race {
            problems.push(diagnose(&program.steps, &intervals, earlier, index, &what));
            if problems.len() == MAX_PROBLEMS {
                break;
            }
        }
        threads[own].push(index);
    }
    problems
}

fn diagnose(
    steps: &[Step],
    intervals: &[Interval],
    earlier: usize,
    index: usize,
    what: &str,
) -> Diagnostic {
    let (first, second) = (&steps[earlier], &steps[index]);
    let message = format!("it races with instruction {earlier} of the other thread for {what}");
    let when = |interval: Interval| format!("cycles {} to {}", interval.start, interval.end);
    Diagnostic::invalid("Q3052", message)
        .at(Place::Instruction(index))
        .with_note(format!(
            "instruction {earlier}, {}, runs in {}",
            describe(&first.inst),
            when(intervals[earlier])
        ))
        .with_note(format!(
            "instruction {index}, {}, runs in {}",
            describe(&second.inst),
            when(intervals[index])
        ))
        .help("let the thread wait for the other one with NoOp")
}

/// What two instructions both touch, at least one writing.
fn conflict(a: &Effects, b: &Effects) -> Option<String> {
    let state =
        (a.state_writes & (b.state_reads | b.state_writes)) | (a.state_reads & b.state_writes);
    if state != 0 {
        return Some(name_state(state));
    }
    let meet = |left: &[Span], right: &[Span]| {
        left.iter().find(|span| right.iter().any(|other| span.meets(other))).copied()
    };
    let span = meet(&a.writes, &b.reads)
        .or_else(|| meet(&a.writes, &b.writes))
        .or_else(|| meet(&a.reads, &b.writes));
    span.map(|span| format!("{} {} to {}", span.memory.name(), span.base, span.last()))
}

fn name_state(state: u32) -> String {
    match state.trailing_zeros() {
        0 => "the weights".to_owned(),
        1 => "the output of the array".to_owned(),
        2 => "the lookup tables".to_owned(),
        3 => "the configuration".to_owned(),
        bit => format!("register R{}", bit - 7),
    }
}
