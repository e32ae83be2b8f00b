//! Queues and tokens: in which order lines execute, and when.
//!
//! Facts: `gemini`, `npu-measured` (`docs/bibliography.md`). Each queue executes its lines in
//! order. For every ordered pair of queues there is a FIFO of tokens: a line gives a token to each
//! queue of `Next_Insts` when it ends and takes one from each of `Prev_Insts` before it starts.
//! Ours: a file with several tasks executes them one after the other, tokens do not pass from one
//! to the next; and between cores there is a FIFO of signals for every ordered pair.
//!
//! What a line waits for does not depend on the order in which ready lines are taken, so one walk
//! serves all uses; it takes the ready line that is first in its file. Only where all cores share
//! one DRAM port does the order matter: there a DRAM operation is taken when nothing else is ready,
//! and of those the one that was ready first.

use crate::isa::{Queue, Queues};
use crate::program::Program;
use crate::work::{Resolved, Work};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

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
    /// Of which lines each line took tokens or signals.
    sources: Sources,
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

    /// The lines of which a line took tokens or signals, or which used the DRAM port until it could,
    /// and which of these it was.
    pub fn sources(&self, node: Node) -> &[(Node, &'static str)] {
        self.sources.of(node)
    }
}

/// What lines waited for: one list for all, of which each line has a part.
#[derive(Clone, Debug, Default)]
struct Sources {
    list: Vec<(Node, &'static str)>,
    /// First entry of each line of each core, and how many it has.
    parts: Vec<Vec<(u32, u32)>>,
}

impl Sources {
    fn of(&self, node: Node) -> &[(Node, &'static str)] {
        let (first, count) = self.parts[node.core][node.line];
        let (first, count) = (first as usize, count as usize);
        self.list.get(first..first + count).unwrap_or_default()
    }
}

/// Who may use DRAM at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Port {
    /// Everybody: only tokens order operations.
    #[default]
    Many,
    /// One operation of all cores. Of those that wait the one goes first that was ready first, and
    /// of these that of the lowest core.
    One,
}

/// Replays the programs of all cores. `cost` gives the cycles of a line. DRAM operations that no
/// tokens order overlap.
pub fn replay(programs: &[&Program], work: &[Vec<Resolved>], cost: &dyn Fn(Node) -> u64) -> Replay {
    replay_with(programs, work, cost, Port::Many)
}

/// The same with a choice of the DRAM port.
pub fn replay_with(
    programs: &[&Program],
    work: &[Vec<Resolved>],
    cost: &dyn Fn(Node) -> u64,
    port: Port,
) -> Replay {
    let lines: usize = programs.iter().map(|program| program.lines.len()).sum();
    let times = programs.iter().map(|program| vec![(0, 0); program.lines.len()]).collect();
    let parts = programs.iter().map(|program| vec![(0, 0); program.lines.len()]).collect();
    let mut walk = Walk {
        programs,
        cores: programs.iter().map(|program| Core::new(program)).collect(),
        work,
        cost,
        port,
        port_user: None,
        signals: vec![VecDeque::new(); programs.len() * programs.len()],
        ready: BinaryHeap::new(),
        waiting: BinaryHeap::new(),
        replay: Replay {
            order: Vec::with_capacity(lines),
            times,
            sources: Sources { list: Vec::with_capacity(lines), parts },
            ..Replay::default()
        },
    };
    for core in 0..programs.len() {
        walk.begin_task(core);
    }
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
    pending: [VecDeque<Pending>; 9],
    /// How many these are.
    left: usize,
    /// Whether the first line of each queue is known to be ready.
    noted: [bool; 9],
    /// When each queue is free.
    free: [u64; 9],
    /// `[from][to]`.
    tokens: Vec<VecDeque<Token>>,
}

/// A line that has not started.
#[derive(Clone, Copy)]
struct Pending {
    line: usize,
    prev: Queues,
    next: Queues,
}

impl Core {
    fn new(program: &Program) -> Core {
        Core {
            tasks: program.tasks().into(),
            pending: Default::default(),
            left: 0,
            noted: [false; 9],
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
    port: Port,
    /// The last DRAM operation, and when it ended.
    port_user: Option<(u64, Node)>,
    /// `[from][to]`.
    signals: Vec<VecDeque<Token>>,
    /// Ready lines by line and core.
    ready: BinaryHeap<Reverse<(usize, usize, Queue)>>,
    /// DRAM operations that are ready but for the one port, by when they were, core and line.
    waiting: BinaryHeap<Reverse<(u64, usize, usize, Queue)>>,
    replay: Replay,
}

impl Walk<'_> {
    /// The ready line that is first in its file, and the first core of those. DRAM operations that
    /// share a port come when nothing else can make another one ready earlier.
    fn next(&mut self) -> Option<(Node, Queue)> {
        if let Some(Reverse((line, core, queue))) = self.ready.pop() {
            return Some((Node { core, line }, queue));
        }
        let Reverse((_, core, line, queue)) = self.waiting.pop()?;
        Some((Node { core, line }, queue))
    }

    /// Fills the queues with the next task when the last one has ended.
    fn begin_task(&mut self, index: usize) {
        let core = &mut self.cores[index];
        while core.left == 0 {
            let Some(task) = core.tasks.pop_front() else { return };
            let start = core.free.iter().copied().max().unwrap_or(0);
            core.free = [start; 9];
            collect_leftovers(core, &mut self.replay.leftovers);
            core.left = task.len();
            for line in task {
                let inst = &self.programs[index].lines[line].inst;
                let (prev, next) = inst.tokens().unwrap_or_default();
                core.pending[inst.queue().index()].push_back(Pending { line, prev, next });
            }
        }
        for queue in Queue::ALL {
            self.note(index, queue);
        }
    }

    /// Notes the first line of a queue if it is ready. A ready line stays so: nobody else takes its
    /// tokens.
    fn note(&mut self, index: usize, queue: Queue) {
        let core = &self.cores[index];
        let Some(&pending) = core.pending[queue.index()].front() else { return };
        let node = Node { core: index, line: pending.line };
        if core.noted[queue.index()] || self.awaited(node, queue, pending.prev).is_some() {
            return;
        }
        self.cores[index].noted[queue.index()] = true;
        if self.shares_port(node) {
            let since = self.ready_since(node, queue, pending.prev);
            self.waiting.push(Reverse((since, index, node.line, queue)));
        } else {
            self.ready.push(Reverse((node.line, index, queue)));
        }
    }

    fn shares_port(&self, node: Node) -> bool {
        self.port == Port::One
            && self.work[node.core][node.line].as_ref().is_ok_and(Work::uses_dram)
    }

    /// When the queue of a ready line was free and its tokens had come.
    fn ready_since(&self, node: Node, queue: Queue, prev: Queues) -> u64 {
        let core = &self.cores[node.core];
        let came = |from: Queue| core.tokens[from.index() * 9 + queue.index()].front();
        let tokens = prev.iter().filter_map(came).map(|token| token.time);
        tokens.fold(core.free[queue.index()], u64::max)
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
    fn awaited(&self, node: Node, queue: Queue, prev: Queues) -> Option<Wait> {
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

    /// Executes the first line of a queue, which is `node`.
    fn execute(&mut self, (node, queue): (Node, Queue)) {
        let (waits, signals) = self.signals_of(node);
        let shares_port = self.shares_port(node);
        let cores = self.cores.len();
        let core = &mut self.cores[node.core];
        core.noted[queue.index()] = false;
        core.left -= 1;
        let Some(Pending { prev, next, .. }) = core.pending[queue.index()].pop_front() else {
            return;
        };
        let mut start = core.free[queue.index()];
        let sources = &mut self.replay.sources;
        let first = sources.list.len();
        let mut take = |token: Option<Token>, kind| {
            let Some(token) = token else { return };
            start = start.max(token.time);
            sources.list.push((token.from, kind));
        };
        for from in prev.iter() {
            take(core.token(from, queue).pop_front(), "token");
        }
        if let Some(from) = waits {
            take(self.signals[from * cores + node.core].pop_front(), "signal");
        }
        if let Some((end, user)) = self.port_user.filter(|&(end, _)| shares_port && end > start) {
            start = end;
            sources.list.push((user, "DRAM port"));
        }
        let count = sources.list.len() - first;
        sources.parts[node.core][node.line] = (first as u32, count as u32);
        let end = start.saturating_add((self.cost)(node));
        self.replay.times[node.core][node.line] = (start, end);
        self.replay.order.push(node);
        if shares_port {
            self.port_user = Some((end, node));
        }
        core.free[queue.index()] = end;
        let token = Token { time: end, from: node };
        for to in next.iter() {
            core.token(queue, to).push_back(token);
        }
        if let Some(to) = signals.filter(|&to| to < cores) {
            self.signals[node.core * cores + to].push_back(token);
            for queue in Queue::ALL {
                self.note(to, queue);
            }
        }
        if self.cores[node.core].left == 0 {
            return self.begin_task(node.core);
        }
        self.note(node.core, queue);
        for to in next.iter() {
            self.note(node.core, to);
        }
    }

    /// Notes what is left: blocked lines, tokens and signals.
    fn finish(&mut self) {
        for core in 0..self.cores.len() {
            for queue in Queue::ALL {
                let first = |queue: Queue| self.cores[core].pending[queue.index()].front().copied();
                let Some(Pending { line, prev, .. }) = first(queue) else { continue };
                let node = Node { core, line };
                let Some(wait) = self.awaited(node, queue, prev) else { continue };
                let at = match wait {
                    Wait::Token(from) => first(from).map(|next| Node { core, line: next.line }),
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
    /// Queues of all cores.
    lanes: usize,
    /// By core: the clock of each executed line, for each queue of each core how many of its lines
    /// have happened, itself included; zeros for a line that never executes.
    clocks: Vec<Vec<u32>>,
    /// Queue (among those of all cores) and number in it, from 1; 0 for a line that never executes.
    positions: Vec<Vec<(u32, u32)>>,
}

impl Clocks {
    /// The clocks of a replay, in which DRAM operations do not wait for a port.
    pub fn new(programs: &[&Program], replay: &Replay) -> Clocks {
        let lanes = programs.len() * 9;
        let zeros = |program: &&Program| vec![0; program.lines.len() * lanes];
        let mut clocks: Vec<Vec<u32>> = programs.iter().map(zeros).collect();
        let mut positions: Vec<Vec<(u32, u32)>> =
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
            let next = tasks[node.core].get(task_of[node.core]);
            if next.is_some_and(|&start| start <= node.line) {
                task_of[node.core] = tasks[node.core].partition_point(|&start| start <= node.line);
                let own = node.core * 9..node.core * 9 + 9;
                for clock in &last[own.clone()] {
                    merge(&mut task_end[node.core], clock);
                }
                last[own].iter_mut().for_each(|clock| merge(clock, &task_end[node.core]));
            }
            let clock = &mut last[lane];
            for &(from, _) in replay.sources(node) {
                merge(clock, &clocks[from.core][from.line * lanes..][..lanes]);
            }
            clock[lane] += 1;
            positions[node.core][node.line] = (lane as u32, clock[lane]);
            clocks[node.core][node.line * lanes..][..lanes].copy_from_slice(clock);
        }
        Clocks { lanes, clocks, positions }
    }

    /// The queue of a line, among those of all cores, and its number in it, from 1; zeros for a line
    /// that never executes.
    pub fn position(&self, node: Node) -> (usize, u32) {
        let (lane, number) = self.positions[node.core][node.line];
        (lane as usize, number)
    }

    /// Whether `first` has ended when `second` starts. False if one never executes.
    pub fn ordered(&self, first: Node, second: Node) -> bool {
        let (lane, number) = self.positions[first.core][first.line];
        number > 0 && self.clocks[second.core][second.line * self.lanes + lane as usize] >= number
    }
}

fn merge(clock: &mut [u32], other: &[u32]) {
    for (mine, theirs) in clock.iter_mut().zip(other) {
        *mine = (*mine).max(*theirs);
    }
}
