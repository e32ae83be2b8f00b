//! What orders lines: which lines must have ended before one starts.

use super::Run;
use crate::replay::{Node, Port};

/// Why a line waits for another one.
pub(super) type Cause = (Node, &'static str);

/// The line before it in its queue.
pub(super) const QUEUE: &str = "queue";

/// The last line of the task before.
pub(super) const TASK: &str = "task";

/// What uses the only DRAM port before it.
const PORT: &str = "DRAM port";

/// A core while its lines are walked over.
struct Core {
    /// Behind the last line of each task.
    tasks: Vec<usize>,
    /// The running task.
    task: usize,
    /// Of the running task, by queue.
    last: [Option<Node>; 9],
    /// The line of all tasks so far that ends last.
    longest: Option<Node>,
    /// The same of the tasks before.
    before: Option<Node>,
}

/// Calls `visit` with every line that runs and all lines that must have ended before it starts, in an
/// order in which these come first. `ends` gives the end of a line that was visited. Operations take
/// turns at a single DRAM port as they did.
pub(super) fn walk<T>(
    run: &Run<'_>,
    state: &mut T,
    ends: impl Fn(&T, Node) -> u64,
    mut visit: impl FnMut(&mut T, Node, &[Cause]),
) {
    let core = |program: &crate::program::Program| Core {
        tasks: program.tasks().into_iter().map(|task| task.end).collect(),
        task: 0,
        last: [None; 9],
        longest: None,
        before: None,
    };
    let mut cores: Vec<Core> = run.programs.iter().map(core).collect();
    let mut port = None;
    let mut causes: Vec<Cause> = Vec::new();
    for &node in &run.replay.order {
        let core = &mut cores[node.core];
        while core.tasks.get(core.task).is_some_and(|&end| end <= node.line) {
            core.task = core.task.saturating_add(1);
            (core.last, core.before) = ([None; 9], core.longest);
        }
        let queue = &mut core.last[run.queue(node).index()];
        causes.clear();
        match queue.replace(node) {
            Some(line) => causes.push((line, QUEUE)),
            None => causes.extend(core.before.map(|line| (line, TASK))),
        }
        if run.port == Port::One && run.uses_dram(node) {
            causes.extend(port.replace(node).map(|line| (line, PORT)));
        }
        causes.extend(run.replay.sources(node).iter().filter(|(_, kind)| *kind != PORT));
        visit(state, node, &causes);
        let end = |node| ends(state, node);
        if core.longest.is_none_or(|longest| end(longest) <= end(node)) {
            core.longest = Some(node);
        }
    }
}

/// For every line of every core the cause that ended last, of several the last of the list; `None`
/// for lines that start at 0 or never.
pub(super) fn holds(run: &Run<'_>) -> Vec<Vec<Option<Cause>>> {
    let mut holds: Vec<Vec<Option<Cause>>> =
        run.programs.iter().map(|program| vec![None; program.lines.len()]).collect();
    walk(
        run,
        &mut holds,
        |_, node| run.time(node).1,
        |holds, node, causes| {
            let start = run.time(node).0;
            let last = causes.iter().max_by_key(|(line, _)| run.time(*line).1);
            holds[node.core][node.line] = last.copied().filter(|_| start > 0);
        },
    );
    holds
}

/// The lines that decide the total, first line first: from the line that ends last back to what held
/// each. A line starts when the one before it ends.
pub(super) fn path(run: &Run<'_>, holds: &[Vec<Option<Cause>>]) -> Vec<Node> {
    let ends = run.replay.order.iter().enumerate();
    let mut next = ends.max_by_key(|&(place, &node)| (run.time(node).1, place)).map(|(_, &n)| n);
    let mut path = Vec::new();
    while let Some(node) = next {
        path.push(node);
        next = holds[node.core][node.line].map(|(line, _)| line);
    }
    path.reverse();
    path
}

/// The total if every line took so long, in the order in which the DRAM port was used.
pub(super) fn total(run: &Run<'_>, cycles: impl Fn(Node) -> u64) -> u64 {
    let mut ends: Vec<Vec<u64>> =
        run.programs.iter().map(|program| vec![0; program.lines.len()]).collect();
    let end = |ends: &Vec<Vec<u64>>, node: Node| ends[node.core][node.line];
    walk(run, &mut ends, end, |ends, node, causes| {
        let start = causes.iter().map(|(line, _)| end(ends, *line)).max().unwrap_or(0);
        ends[node.core][node.line] = start.saturating_add(cycles(node));
    });
    ends.into_iter().flatten().max().unwrap_or(0)
}
