//! The search: nodes, the order in which they are visited, and what ends a branch.
//!
//! Facts: `cain-paper` section 3.2, `cain` (`docs/bibliography.md`).

use super::allocate::allocate;
use super::goals::{ByHash, Goals, Id, Shape, mix};
use super::op::{Bag, Held, Ops, Step, before};
use super::pairs::{Maker, Order};
use super::record::{Fate, Mark, Record, SearchGraph};
use super::settings::{CostFunction, Settings, Traversal};
use super::solver::solve;
use crate::program::Program;
use crate::task::Task;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Most bags that are remembered, about 100 MB: beyond, new ones are expanded without being noted.
const MAX_SEEN: usize = 1 << 22;

/// Most nodes that wait for a visit, about 300 MB: beyond, parents make no more children.
const MAX_WAITING: usize = 1 << 20;

/// Most goals that are remembered, about 500 MB: then the search ends.
const MAX_GOALS: usize = 1 << 21;

/// Most steps that are remembered, one for every node that is expanded, about 130 MB: then the search
/// ends.
const MAX_TRAIL: usize = 1 << 21;

/// Visits for every node that may be expanded: then the search ends.
const VISITS: u64 = 200;

/// A bag that is to be produced, and where it is in the search.
#[derive(Debug)]
struct Node {
    depth: u32,
    bag: Bag,
    /// Largest level of a goal that was ever in the bag.
    circuit: u32,
    /// The last step of the plan so far; 0 for none.
    trail: u32,
    /// The step that made the node, until it is expanded.
    made: Option<Step>,
    /// `None` before the first visit.
    order: Option<Order>,
    children: u32,
    /// Its place in the record.
    mark: Mark,
}

/// Why nodes were left out, and other counts of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Nodes expanded.
    pub nodes: u64,
    /// Visits of nodes, repeated ones included.
    pub visits: u64,
    /// Children made.
    pub children: u64,
    /// Children that need more registers than there are.
    pub registers: u64,
    /// Nodes deeper than the longest plan that is of interest.
    pub depth: u64,
    /// Nodes that cost more than a plan that is of interest.
    pub cost: u64,
    /// Nodes with more goals than the instructions that are left can join.
    pub goals: u64,
    /// Nodes with too many atoms.
    pub atoms: u64,
    /// Nodes whose bag was met before at the same or a lower cost.
    pub repeated: u64,
    /// Nodes that had no more children.
    pub exhausted: u64,
    /// Parents that were dropped because too many nodes wait.
    pub dropped: u64,
    /// Bags that were not noted because too many are.
    pub unnoted: u64,
    /// Nodes that the direct solver finished.
    pub solved: u64,
    /// Plans for which registers do not suffice.
    pub unallocated: u64,
    /// Plans found.
    pub plans: u64,
}

/// A plan with registers.
pub(super) struct Found {
    pub(super) program: Program,
    pub(super) cost: u64,
}

/// Nodes that wait, by the order of visits.
enum Waiting {
    Line(VecDeque<Node>),
    Heap(BinaryHeap<Keyed>),
    Bag(Vec<Node>),
}

/// A node in a heap: the least key first, of those the newest.
struct Keyed {
    key: (Reverse<u64>, u64),
    node: Node,
}

impl PartialEq for Keyed {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Keyed {}

impl PartialOrd for Keyed {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Keyed {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

/// What a visit of a node comes to.
enum Visit {
    Ended,
    Found(Found),
    Child(Node),
}

/// A search in progress.
pub(super) struct Search<'a> {
    settings: &'a Settings,
    task: &'a Task,
    maker: Maker<'a>,
    goals: Goals,
    finals: Vec<Id>,
    inputs: Vec<Id>,
    /// Instructions of the direct solver.
    ops: Ops,
    pub(super) counts: Counts,
    max_depth: i64,
    max_cost: u64,
    max_atoms: f64,
    /// Steps with the number of the one before, counted from 1, as a tree.
    trail: Vec<(u32, Step)>,
    /// The least cost at which a bag was met, by its hash.
    seen: ByHash<u64>,
    waiting: Waiting,
    order: u64,
    random: u64,
    record: Record,
}

impl<'a> Search<'a> {
    /// A search that has not begun, for goals and inputs that are within the limits.
    pub(super) fn new(
        task: &'a Task,
        settings: &'a Settings,
        wanted: Vec<Shape>,
        identities: &'a [Shape],
    ) -> Self {
        let sum = |shapes: &[Shape]| shapes.iter().map(|shape| shape.total as f64).sum::<f64>();
        let max_atoms = settings.allowable_atoms_coefficient * sum(&wanted) + sum(identities);
        let mut goals = Goals::default();
        let finals: Vec<Id> = wanted.into_iter().map(|shape| goals.intern(shape)).collect();
        let inputs = identities.iter().map(|shape| goals.intern(shape.clone())).collect();
        let waiting = match settings.traversal {
            Traversal::Hos | Traversal::BestFirst => Waiting::Heap(BinaryHeap::new()),
            Traversal::Rt => Waiting::Bag(Vec::new()),
            _ => Waiting::Line(VecDeque::new()),
        };
        let mut search = Search {
            settings,
            task,
            maker: Maker::new(task, settings, identities),
            goals,
            finals,
            inputs,
            ops: settings.strategy.ops().of(task),
            counts: Counts::default(),
            max_depth: i64::from(settings.initial_max_depth),
            max_cost: settings.initial_max_cost,
            max_atoms,
            trail: Vec::new(),
            seen: ByHash::default(),
            waiting,
            order: 0,
            random: mix(settings.seed),
            record: Record::new(settings.recorded_nodes),
        };
        let (bag, depth) = (search.root(), 0);
        let (circuit, trail, children) = (0, 0, 0);
        let mark = search.record.add(None, None, &bag);
        let root = Node { depth, bag, circuit, trail, made: None, order: None, children, mark };
        search.put(root, false);
        search
    }

    /// Number of children of the outputs.
    pub(super) fn children(&mut self) -> usize {
        let bag = ids(&self.root());
        self.maker.count(&self.goals, &bag, &self.settings.strategy)
    }

    /// The first nodes.
    pub(super) fn graph(self) -> SearchGraph {
        self.record.graph(&self.goals)
    }

    fn root(&self) -> Bag {
        self.finals.iter().map(|&id| Held { id, level: 0 }).collect()
    }

    /// The next plan; `None` at the end of the search.
    pub(super) fn next(&mut self) -> Option<Found> {
        let most = self.settings.max_nodes.saturating_mul(VISITS);
        while self.counts.nodes < self.settings.max_nodes
            && self.counts.visits < most
            && self.goals.len() < MAX_GOALS
            && self.trail.len() < MAX_TRAIL
        {
            quincunx_stop::check();
            let mut node = self.take()?;
            self.counts.visits += 1;
            match self.visit(&mut node) {
                Visit::Ended => {}
                Visit::Child(child) => self.put_both(node, child),
                Visit::Found(found) => return Some(found),
            }
        }
        None
    }

    /// Culls a node, expands it on the first visit, and makes its next child.
    fn visit(&mut self, node: &mut Node) -> Visit {
        if self.is_hopeless(node) {
            return Visit::Ended;
        }
        if node.order.is_none() {
            if self.is_culled(node) {
                return Visit::Ended;
            }
            if let Some(step) = node.made.take() {
                self.trail.push((node.trail, step));
                node.trail = self.trail.len() as u32;
            }
            if let Some(found) = self.direct(node) {
                return Visit::Found(found);
            }
            self.counts.nodes += 1;
            self.record.settle(node.mark, || Fate::Expanded);
            node.order = Some(Order::default());
        }
        self.child(node)
    }

    /// True for a node that no good plan goes through any more.
    fn is_hopeless(&mut self, node: &Node) -> bool {
        let settings = self.settings;
        let left = self.max_depth.saturating_sub(i64::from(node.depth));
        let step = i64::try_from(settings.goal_reductions_per_step).unwrap_or(i64::MAX);
        let tolerance = i64::try_from(settings.goal_reductions_tolerance).unwrap_or(i64::MAX);
        let joined = left.max(0).saturating_mul(step).saturating_add(tolerance);
        let counts = &mut self.counts;
        let (count, reason) = if left < 0 {
            (&mut counts.depth, "depth")
        } else if cost(settings, u64::from(node.depth), node.circuit) > self.max_cost {
            (&mut counts.cost, "cost")
        } else if (node.bag.len() as i64).saturating_sub(joined) > 1 {
            (&mut counts.goals, "goals")
        } else {
            return false;
        };
        *count += 1;
        self.record.settle(node.mark, || Fate::Culled(reason));
        true
    }

    /// True for a new node that has too many atoms or was met before.
    fn is_culled(&mut self, node: &Node) -> bool {
        let shapes = || node.bag.iter().map(|held| self.goals.get(held.id));
        if shapes().map(|shape| shape.total as f64).sum::<f64>() >= self.max_atoms {
            self.counts.atoms += 1;
            self.record.settle(node.mark, || Fate::Culled("atoms"));
            return true;
        }
        let hash = shapes().fold(0_u64, |sum, shape| sum.wrapping_add(shape.key()));
        let cost = cost(self.settings, u64::from(node.depth), node.circuit);
        let is_full = self.seen.len() >= MAX_SEEN;
        match self.seen.get_mut(&hash) {
            Some(least) if *least <= cost => {
                self.counts.repeated += 1;
                self.record.repeat(node.mark);
                return true;
            }
            Some(least) => *least = cost,
            None if !is_full => drop(self.seen.insert(hash, cost)),
            None => self.counts.unnoted += 1,
        }
        false
    }

    /// The plan of a node that the direct solver finishes; the next ones must be better.
    fn direct(&mut self, node: &Node) -> Option<Found> {
        let bag = ids(&node.bag);
        let last = solve(&mut self.goals, &bag, self.maker.identities, &self.ops)?;
        self.counts.solved += 1;
        let mut steps = self.path(node);
        steps.extend(last);
        let (mut bag, mut circuit) = (self.root(), 0);
        for step in &steps {
            bag = before(&bag, step);
            circuit = bag.iter().map(|held| held.level).max().unwrap_or(0).max(circuit);
        }
        let Some(program) = allocate(self.task, &steps, &self.finals, &self.inputs) else {
            self.counts.unallocated += 1;
            return None;
        };
        let settings = self.settings;
        let cost = cost(settings, program.length(), circuit);
        let shorter = program.length() as i64 - i64::from(settings.forced_depth_reduction);
        self.max_depth = self.max_depth.min(shorter);
        self.max_cost = self.max_cost.min(cost.saturating_sub(settings.forced_cost_reduction));
        self.counts.plans += 1;
        self.record.plan(node.mark, &program);
        Some(Found { program, cost })
    }

    /// The steps to a node.
    fn path(&self, node: &Node) -> Vec<Step> {
        let (mut steps, mut at) = (Vec::new(), node.trail);
        while let Some((before, step)) = at.checked_sub(1).map(|at| &self.trail[at as usize]) {
            steps.push(step.clone());
            at = *before;
        }
        steps.reverse();
        steps
    }

    /// The next child that fits the registers.
    fn child(&mut self, node: &mut Node) -> Visit {
        let Some(mut order) = node.order.take() else { return Visit::Ended };
        let bag = ids(&node.bag);
        loop {
            let strategy = &self.settings.strategy;
            let Some(pair) = self.maker.next(&self.goals, &bag, strategy, &mut order) else {
                self.counts.exhausted += 1;
                return Visit::Ended;
            };
            let (op, uppers) = (pair.op, pair.uppers);
            let lowers = pair.lowers.into_iter().map(|shape| self.goals.intern(shape)).collect();
            let step = Step { op, uppers, lowers };
            let bag = before(&node.bag, &step);
            self.counts.children += 1;
            node.children += 1;
            let mark = self.record.add(node.mark, Some(&step), &bag);
            if bag.len() + op.extra() > self.maker.registers {
                self.counts.registers += 1;
                self.record.settle(mark, || Fate::Culled("registers"));
                continue;
            }
            let level = bag.iter().map(|held| held.level).max().unwrap_or(0);
            node.order = Some(order);
            return Visit::Child(Node {
                depth: node.depth + 1,
                bag,
                circuit: node.circuit.max(level),
                trail: node.trail,
                made: Some(step),
                order: None,
                children: 0,
                mark,
            });
        }
    }

    fn take(&mut self) -> Option<Node> {
        match &mut self.waiting {
            Waiting::Line(line) => line.pop_front(),
            Waiting::Heap(heap) => heap.pop().map(|keyed| keyed.node),
            Waiting::Bag(list) => {
                self.random = mix(self.random.wrapping_add(0x9e37_79b9_7f4a_7c15));
                let at = (self.random % list.len().max(1) as u64) as usize;
                (!list.is_empty()).then(|| list.swap_remove(at))
            }
        }
    }

    /// Puts a parent and its new child where the traversal wants them.
    fn put_both(&mut self, parent: Node, child: Node) {
        use Traversal::{Bfs, Cgds, CgdsN, Dfs};
        let is_full = self.waiting() >= MAX_WAITING;
        self.counts.dropped += u64::from(is_full);
        let (parent_first, parent_last) = match self.settings.traversal {
            Bfs => {
                self.put(child, true);
                if !is_full {
                    self.put(parent, false);
                }
                return;
            }
            Dfs => (true, false),
            CgdsN(children) if !parent.children.is_multiple_of(children) => (true, false),
            Cgds | CgdsN(_) => (false, true),
            _ => (true, false),
        };
        if !is_full && (parent_first || parent_last) {
            self.put(parent, parent_last);
        }
        self.put(child, false);
    }

    fn waiting(&self) -> usize {
        match &self.waiting {
            Waiting::Line(line) => line.len(),
            Waiting::Heap(heap) => heap.len(),
            Waiting::Bag(list) => list.len(),
        }
    }

    /// Lets a node wait: as the last one, or as the first one where the order is a line.
    fn put(&mut self, mut node: Node, last: bool) {
        let key = match self.waiting {
            Waiting::Heap(_) => self.key(&mut node),
            _ => 0,
        };
        self.order += 1;
        match &mut self.waiting {
            Waiting::Line(line) if last => line.push_back(node),
            Waiting::Line(line) => line.push_front(node),
            Waiting::Heap(heap) => heap.push(Keyed { key: (Reverse(key), self.order), node }),
            Waiting::Bag(list) => list.push(node),
        }
    }

    /// What orders a heap: the number of children made, or what the next child costs; where children
    /// are not ordered by cost, what the node costs, more with every child.
    fn key(&mut self, node: &mut Node) -> u64 {
        if self.settings.traversal == Traversal::Hos {
            return u64::from(node.children);
        }
        let (bag, strategy) = (ids(&node.bag), &self.settings.strategy);
        let order = node.order.as_mut();
        let next = order.and_then(|order| self.maker.peek(&self.goals, &bag, strategy, order));
        let cost = next.unwrap_or_else(|| {
            let shapes: SmallVec<[&Shape; 8]> = bag.iter().map(|&id| self.goals.get(id)).collect();
            self.maker.cost.of(&shapes, false, f64::INFINITY) * f64::from(node.children + 1)
        });
        // In units that tell halves from quarters.
        (cost * 64.0) as u64
    }
}

fn ids(bag: &Bag) -> SmallVec<[Id; 8]> {
    bag.iter().map(|held| held.id).collect()
}

/// What a plan of so many steps costs.
fn cost(settings: &Settings, length: u64, circuit: u32) -> u64 {
    let (circuit, major) = (u64::from(circuit), u64::from(settings.initial_max_depth));
    match settings.cost_function {
        CostFunction::CircuitDepth => circuit,
        CostFunction::PlanLength => length,
        CostFunction::InstructionCost => length.saturating_mul(2),
        CostFunction::CircuitDepthThenLength => circuit.saturating_mul(major) + length,
        CostFunction::LengthThenCircuitDepth => length.saturating_mul(major) + circuit,
    }
}

#[cfg(test)]
mod tests {
    use super::super::op::Op;
    use super::*;
    use crate::arch::ScampArch;
    use crate::goal::{Bag as Goals, Goal};
    use crate::isa::Reg;
    use crate::task::Wanted;

    /// A search whose memory of steps is full ends.
    #[test]
    fn steps_are_bounded() {
        let arch = ScampArch::preset("scamp5").unwrap();
        let (a, goal) = (Reg::new("A").unwrap(), Goal::from_rows(&[vec![1, 1]]));
        let shapes = vec![Shape::of_goal(&goal).unwrap()];
        let wanted =
            Wanted { goals: Goals(vec![goal]), depth: 0, inputs: vec![a], outputs: vec![a] };
        let task = Task::new(wanted, arch.analogue.clone(), &arch).unwrap();
        let (settings, identities) = (Settings::default(), [Shape::identity(0, 0)]);
        let mut search = Search::new(&task, &settings, shapes, &identities);
        let step = Step { op: Op::Res, uppers: SmallVec::new(), lowers: SmallVec::new() };
        search.trail = vec![(0, step); MAX_TRAIL];
        assert!(search.next().is_none());
        search.trail.clear();
        assert!(search.next().is_some());
    }
}
