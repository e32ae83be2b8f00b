//! Queues and tokens: in which order lines execute, and when.
//!
//! Facts: `gemini`, `npu-measured` (`docs/bibliography.md`). Each queue executes its lines in
//! order. For every ordered pair of queues there is a FIFO of tokens: a line gives a token to each
//! queue of `Next_Insts` when it ends and takes one from each of `Prev_Insts` before it starts.
//! Ours: a file with several tasks executes them one after the other, tokens do not pass from one
//! to the next; and between cores there is a FIFO of signals for every ordered pair.
//!
//! What a line waits for does not depend on the order in which ready lines are taken, so one walk
//! serves all uses; it takes the ready line that is first in its file.

use crate::isa::{Queue, Queues};
use crate::program::Program;
use crate::work::{Resolved, Work};
use std::collections::VecDeque;

/// A line of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node {
    /// Core.
    pub core: usize,
    /// Line, from 0.
    pub line: usize,
}

impl Node {
    /// The line as people count, from 1.
    pub fn number(self) -> usize {
        self.line.saturating_add(1)
    }
}

/// What a line waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// A token of another queue of its core.
    Token(Queue),
    /// A signal of another core.
    Signal(usize),
}

/// A line that can never start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The line.
    pub node: Node,
    /// Its queue.
    pub queue: Queue,
    /// What it waits for.
    pub wait: Wait,
    /// The line at which the awaited queue stands, if it has lines left.
    pub at: Option<Node>,
}

/// A token that nobody took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// The line that gave it.
    pub node: Node,
    /// To which queue.
    pub to: Queue,
}

/// What happened.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// Lines in an order in which they can execute; all of them unless some are blocked.
    pub order: Vec<Node>,
    /// Start and end of every line of every core; 0 for those that never start.
    pub times: Vec<Vec<(u64, u64)>>,
    /// The lines of which each line took tokens or signals, by core and line.
    pub sources: Vec<Vec<Vec<(Node, &'static str)>>>,
    /// The first line of each queue that cannot start.
    pub blocked: Vec<Blocked>,
    /// Tokens nobody took, in the order of the lines that gave them.
    pub leftovers: Vec<Leftover>,
    /// Signals nobody took: from, to, how many.
    pub leftover_signals: Vec<(usize, usize, usize)>,
}

impl Replay {
    /// The end of the last line.
    pub fn total(&self) -> u64 {
        self.times.iter().flatten().map(|&(_, end)| end).max().unwrap_or(0)
    }
}

/// Replays the programs of all cores. `cost` gives the cycles of a line.
pub fn replay(programs: &[&Program], work: &[Vec<Resolved>], cost: &dyn Fn(Node) -> u64) -> Replay {
    let mut walk = Walk {
        programs,
        cores: programs.iter().map(|program| Core::new(program)).collect(),
        work,
        cost,
        signals: vec![VecDeque::new(); programs.len() * programs.len()],
        replay: Replay {
            times: programs.iter().map(|program| vec![(0, 0); program.lines.len()]).collect(),
            sources: programs.iter().map(|program| vec![Vec::new(); program.lines.len()]).collect(),
            ..Replay::default()
        },
    };
    while let Some(node) = walk.next() {
        walk.execute(node);
    }
    walk.finish();
    walk.replay
}

/// A token or signal: when it came, and from which line.
#[derive(Clone, Copy)]
struct Token {
    time: u64,
    from: Node,
}

struct Core {
    tasks: VecDeque<std::ops::Range<usize>>,
    /// Lines of the running task that have not started, by queue.
    pending: [VecDeque<usize>; 9],
    /// When each queue is free.
    free: [u64; 9],
    /// `[from][to]`.
    tokens: Vec<VecDeque<Token>>,
}

impl Core {
    fn new(program: &Program) -> Core {
        Core {
            tasks: program.tasks().into(),
            pending: Default::default(),
            free: [0; 9],
            tokens: vec![VecDeque::new(); 81],
        }
    }

    fn token(&mut self, from: Queue, to: Queue) -> &mut VecDeque<Token> {
        &mut self.tokens[from.index() * 9 + to.index()]
    }
}

struct Walk<'a> {
    programs: &'a [&'a Program],
    cores: Vec<Core>,
    work: &'a [Vec<Resolved>],
    cost: &'a dyn Fn(Node) -> u64,
    /// `[from][to]`.
    signals: Vec<VecDeque<Token>>,
    replay: Replay,
}

impl Walk<'_> {
    /// The ready line that is first in its file, and the first core of those.
    fn next(&mut self) -> Option<Node> {
        for core in 0..self.cores.len() {
            self.begin_task(core);
        }
        let heads = self.cores.iter().enumerate().flat_map(|(core, state)| {
            state.pending.iter().filter_map(move |queue| Some(Node { core, line: *queue.front()? }))
        });
        let ready = heads.filter(|&node| self.awaited(node).is_none());
        ready.min_by_key(|node| (node.line, node.core))
    }

    /// Fills the queues with the next task when the last one has ended.
    fn begin_task(&mut self, index: usize) {
        let core = &mut self.cores[index];
        while core.pending.iter().all(VecDeque::is_empty) {
            let Some(task) = core.tasks.pop_front() else { return };
            let start = core.free.iter().copied().max().unwrap_or(0);
            core.free = [start; 9];
            collect_leftovers(core, &mut self.replay.leftovers);
            for line in task {
                let queue = self.programs[index].lines[line].inst.queue();
                core.pending[queue.index()].push_back(line);
            }
        }
    }

    fn tokens_of(&self, node: Node) -> (Queue, Queues, Queues) {
        let inst = &self.programs[node.core].lines[node.line].inst;
        let (prev, next) = inst.tokens().unwrap_or_default();
        (inst.queue(), prev, next)
    }

    /// The core of which a line awaits a signal, and the core it signals. A core that does not exist
    /// never signals.
    fn signals_of(&self, node: Node) -> (Option<usize>, Option<usize>) {
        match self.work[node.core][node.line] {
            Ok(Work::Remote(remote)) => {
                let core = usize::from(remote.core);
                (remote.waits.then_some(core), remote.signals.then_some(core))
            }
            _ => (None, None),
        }
    }

    /// What keeps a line from starting.
    fn awaited(&self, node: Node) -> Option<Wait> {
        let (queue, prev, _) = self.tokens_of(node);
        let tokens = &self.cores[node.core].tokens;
        let missing = prev.iter().find(|from| tokens[from.index() * 9 + queue.index()].is_empty());
        if let Some(from) = missing {
            return Some(Wait::Token(from));
        }
        let cores = self.cores.len();
        let signal = self
            .signals_of(node)
            .0
            .filter(|&from| from >= cores || self.signals[from * cores + node.core].is_empty());
        signal.map(Wait::Signal)
    }

    fn execute(&mut self, node: Node) {
        let (queue, prev, next) = self.tokens_of(node);
        let (waits, signals) = self.signals_of(node);
        let cores = self.cores.len();
        let core = &mut self.cores[node.core];
        core.pending[queue.index()].pop_front();
        let mut start = core.free[queue.index()];
        let mut taken = Vec::new();
        for from in prev.iter() {
            let token = core.token(from, queue).pop_front();
            taken.extend(token.map(|token| (token, "token")));
        }
        if let Some(from) = waits {
            let signal = self.signals[from * cores + node.core].pop_front();
            taken.extend(signal.map(|token| (token, "signal")));
        }
        for (token, kind) in taken {
            start = start.max(token.time);
            self.replay.sources[node.core][node.line].push((token.from, kind));
        }
        let end = start.saturating_add((self.cost)(node));
        self.replay.times[node.core][node.line] = (start, end);
        let core = &mut self.cores[node.core];
        core.free[queue.index()] = end;
        let token = Token { time: end, from: node };
        for to in next.iter() {
            core.token(queue, to).push_back(token);
        }
        if let Some(to) = signals.filter(|&to| to < cores) {
            self.signals[node.core * cores + to].push_back(token);
        }
        self.replay.order.push(node);
    }

    /// Notes what is left: blocked lines, tokens and signals.
    fn finish(&mut self) {
        for core in 0..self.cores.len() {
            for queue in Queue::ALL {
                let Some(&line) = self.cores[core].pending[queue.index()].front() else { continue };
                let node = Node { core, line };
                let Some(wait) = self.awaited(node) else { continue };
                let at = match wait {
                    Wait::Token(from) => {
                        let line = self.cores[core].pending[from.index()].front();
                        line.map(|&line| Node { core, line })
                    }
                    Wait::Signal(_) => None,
                };
                self.replay.blocked.push(Blocked { node, queue, wait, at });
            }
            collect_leftovers(&mut self.cores[core], &mut self.replay.leftovers);
        }
        self.replay.blocked.sort_by_key(|blocked| (blocked.node.core, blocked.node.line));
        let cores = self.cores.len();
        for (pair, signals) in self.signals.iter().enumerate().filter(|(_, list)| !list.is_empty())
        {
            self.replay.leftover_signals.push((pair / cores, pair % cores, signals.len()));
        }
    }
}

/// Takes the tokens that are left when a task has ended.
fn collect_leftovers(core: &mut Core, leftovers: &mut Vec<Leftover>) {
    let first = leftovers.len();
    for (pair, tokens) in core.tokens.iter_mut().enumerate() {
        let to = Queue::ALL[pair % 9];
        leftovers.extend(tokens.drain(..).map(|token| Leftover { node: token.from, to }));
    }
    leftovers[first..].sort_by_key(|leftover| (leftover.node.line, leftover.to));
}

/// Vector clocks: which lines happen before which.
pub struct Clocks {
    /// Clock of each executed line, by core and line: for each queue of each core, how many of its
    /// lines have happened, itself included.
    clocks: Vec<Vec<Vec<u32>>>,
    /// Queue (among those of all cores) and number in it, from 1.
    positions: Vec<Vec<(usize, u32)>>,
}

impl Clocks {
    /// The clocks of a replay.
    pub fn new(programs: &[&Program], replay: &Replay) -> Clocks {
        let lanes = programs.len() * 9;
        let mut clocks: Vec<Vec<Vec<u32>>> =
            programs.iter().map(|program| vec![Vec::new(); program.lines.len()]).collect();
        let mut positions: Vec<Vec<(usize, u32)>> =
            programs.iter().map(|program| vec![(0, 0); program.lines.len()]).collect();
        let mut last: Vec<Vec<u32>> = vec![vec![0; lanes]; lanes];
        let mut task_end: Vec<Vec<u32>> = vec![vec![0; lanes]; programs.len()];
        let mut task_of = vec![0; programs.len()];
        let tasks: Vec<Vec<usize>> = programs
            .iter()
            .map(|program| program.tasks().into_iter().map(|task| task.start).collect())
            .collect();
        for &node in &replay.order {
            let queue = programs[node.core].lines[node.line].inst.queue();
            let lane = node.core * 9 + queue.index();
            // A new task starts after everything before it.
            let task = tasks[node.core].partition_point(|&start| start <= node.line);
            if task != task_of[node.core] {
                task_of[node.core] = task;
                for clock in &last[node.core * 9..node.core * 9 + 9] {
                    merge(&mut task_end[node.core], clock);
                }
            }
            let mut clock = last[lane].clone();
            merge(&mut clock, &task_end[node.core]);
            for &(from, _) in &replay.sources[node.core][node.line] {
                merge(&mut clock, &clocks[from.core][from.line]);
            }
            clock[lane] += 1;
            positions[node.core][node.line] = (lane, clock[lane]);
            last[lane].clone_from(&clock);
            clocks[node.core][node.line] = clock;
        }
        Clocks { clocks, positions }
    }

    /// Whether `first` has ended when `second` starts. False if one never executes.
    pub fn ordered(&self, first: Node, second: Node) -> bool {
        let (lane, number) = self.positions[first.core][first.line];
        number > 0
            && self.clocks[second.core][second.line].get(lane).is_some_and(|&seen| seen >= number)
    }
}

fn merge(clock: &mut [u32], other: &[u32]) {
    for (mine, theirs) in clock.iter_mut().zip(other) {
        *mine = (*mine).max(*theirs);
    }
}
