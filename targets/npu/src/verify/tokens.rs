//! Tasks and tokens.

use super::Subject;
use crate::isa::{Inst, Queue};
use crate::replay::{Blocked, Node, Replay, Wait};
use quincunx_diag::{Diagnostic, Problems};
use std::collections::BTreeMap;

pub(super) fn check(subject: &Subject<'_>, replay: &Replay, problems: &mut Problems) {
    for core in 0..subject.programs.len() {
        tasks(subject, core, problems);
    }
    for blocked in &replay.blocked {
        problems.push(deadlock(subject, replay, blocked));
    }
    // A program that stops leaves tokens for that reason alone.
    if replay.blocked.is_empty() {
        leftovers(subject, replay, problems);
    }
}

/// Lines lie between `ct_st` and `ct_ed`.
fn tasks(subject: &Subject<'_>, core: usize, problems: &mut Problems) {
    let mut open = false;
    let lines = &subject.programs[core].lines;
    let mut wrong = |line: usize, text: String| {
        let node = Node { core, line };
        problems.push(subject.at(node, Diagnostic::invalid("Q4023", text)));
    };
    for (index, line) in lines.iter().enumerate() {
        let name = line.inst.mnemonic();
        match line.inst {
            Inst::CtSt { .. } if open => {
                wrong(index, "a task begins before the one before it has ended".to_owned());
            }
            Inst::CtSt { .. } => open = true,
            _ if !open => {
                wrong(index, format!("{name} lies outside of a task (ct_st to ct_ed)"));
                // One message for a run of such lines.
                open = true;
            }
            Inst::CtEd { .. } => open = false,
            _ => {}
        }
    }
    if let (true, Some(last)) = (open, lines.len().checked_sub(1)) {
        wrong(last, "the task does not end: ct_ed is missing".to_owned());
    }
}

/// The error for a line that never starts, with the chain of queues that wait for each other.
fn deadlock(subject: &Subject<'_>, replay: &Replay, blocked: &Blocked) -> Diagnostic {
    let what = match blocked.wait {
        Wait::Token(from) => format!("token {from}->{}", blocked.queue),
        Wait::Signal(core) => format!("a signal of core {core}"),
    };
    let message = format!("deadlock: {} waits for {what}", blocked.queue);
    let chain = chain(subject, replay, blocked);
    subject.at(blocked.node, Diagnostic::invalid("Q4021", message)).with_note(chain)
}

/// Who waits for whom, from a blocked line on, until nobody is left or the chain closes.
fn chain(subject: &Subject<'_>, replay: &Replay, first: &Blocked) -> String {
    let mut text = String::new();
    let mut current = first;
    let mut seen = Vec::new();
    loop {
        let at = subject.show(current.node);
        seen.push(current.node);
        match (current.wait, current.at) {
            (Wait::Token(from), Some(next)) => {
                text += &format!("{at} waits for {from}, which stands at {}", subject.show(next));
                let Some(blocked) = replay.blocked.iter().find(|blocked| blocked.node == next)
                else {
                    return text;
                };
                if seen.contains(&next) {
                    return text + ": they wait for each other";
                }
                text += "; ";
                current = blocked;
            }
            (Wait::Token(from), None) => {
                return text + &format!("{at} waits for {from}, which has no more lines");
            }
            (Wait::Signal(core), _) => {
                return text + &format!("{at} waits for core {core}");
            }
        }
    }
}

fn leftovers(subject: &Subject<'_>, replay: &Replay, problems: &mut Problems) {
    let mut pairs: BTreeMap<(usize, Queue, Queue), Vec<usize>> = BTreeMap::new();
    for leftover in &replay.leftovers {
        let Node { core, line } = leftover.node;
        let from = subject.programs[core].lines[line].inst.queue();
        pairs.entry((core, from, leftover.to)).or_default().push(line);
    }
    for ((core, from, to), lines) in pairs {
        let count = lines.len();
        let tokens = if count == 1 { "token" } else { "tokens" };
        let message = format!("{count} unconsumed {tokens} {from}->{to}");
        let node = Node { core, line: lines[0] };
        let shown: Vec<String> =
            lines.iter().take(8).map(|&line| Node { core, line }.number().to_string()).collect();
        let more = if count > 8 { ", …" } else { "" };
        problems.push(
            subject
                .at(node, Diagnostic::warning("Q4022", message))
                .with_note(format!("given by line {}{more}", shown.join(", "))),
        );
    }
    for &(from, to, count) in &replay.leftover_signals {
        let message = format!("{count} signals of core {from} are never taken by core {to}");
        problems.push(Diagnostic::warning("Q4036", message));
    }
}
