//! Where in the array the numbers of a plan are, and the moves between them.

use super::plan::{Part, Step};
use crate::isa::Direction;
use std::collections::BTreeMap;

/// A place as seen from another one, to the east and to the north.
pub(super) type Offset = (i32, i32);

/// A sum of two numbers, the second of which lies at an offset from the first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sum {
    pub(super) nodes: [usize; 2],
    pub(super) at: Offset,
    pub(super) shifts: [u32; 2],
    pub(super) minus: bool,
}

/// Rounds in which numbers look for better places.
const ROUNDS: usize = 8;

/// Numbers and their places: an element holds a number not of itself but of the element at its place.
pub(super) struct Frames {
    channels: usize,
    sums: Vec<Sum>,
    /// What results are: a number, and where.
    ends: Vec<Option<(usize, Offset)>>,
    places: Vec<Offset>,
    /// Sums that read a number.
    readers: Vec<Vec<usize>>,
}

fn minus(a: Offset, b: Offset) -> Offset {
    (a.0 - b.0, a.1 - b.1)
}

fn plus(a: Offset, b: Offset) -> Offset {
    (a.0 + b.0, a.1 + b.1)
}

fn length((x, y): Offset) -> u32 {
    x.unsigned_abs() + y.unsigned_abs()
}

impl Frames {
    /// Gives every sum its place.
    pub(super) fn new(
        channels: usize,
        sums: Vec<Sum>,
        ends: Vec<Option<(usize, Offset)>>,
    ) -> Frames {
        let count = channels + sums.len();
        let mut readers = vec![Vec::new(); count];
        for (index, sum) in sums.iter().enumerate() {
            sum.nodes.iter().for_each(|&node| readers[node].push(channels + index));
        }
        let mut frames = Frames { channels, sums, ends, places: vec![(0, 0); count], readers };
        for _ in 0..ROUNDS {
            let moved: Vec<bool> = (channels..count).map(|node| frames.improve(node)).collect();
            if !moved.contains(&true) {
                break;
            }
        }
        frames
    }

    fn sum(&self, node: usize) -> Option<&Sum> {
        self.sums.get(node.checked_sub(self.channels)?)
    }

    /// Where the readers of a number want it, as seen from where it is.
    fn wanted(&self, node: usize) -> Vec<Offset> {
        let mut list = Vec::new();
        for &reader in &self.readers[node] {
            let (sum, place) = (&self.sums[reader - self.channels], self.places[reader]);
            for (operand, offset) in sum.nodes.into_iter().zip([(0, 0), sum.at]) {
                if operand == node {
                    list.push(minus(plus(place, offset), self.places[node]));
                }
            }
        }
        let results = self.ends.iter().flatten().filter(|(of, _)| *of == node);
        list.extend(results.map(|&(_, at)| minus(at, self.places[node])));
        list.sort_unstable();
        list.dedup();
        list
    }

    /// Moves that a number, and what it is made of, takes.
    fn cost(&self, node: usize) -> usize {
        let operands = self.sum(node).map_or([node; 2], |sum| sum.nodes);
        let mut nodes = vec![node, operands[0], operands[1]];
        nodes.sort_unstable();
        nodes.dedup();
        nodes.into_iter().map(|node| Tree::new(self.wanted(node)).moves()).sum()
    }

    /// Tries the places from which one operand or reader needs no move.
    fn improve(&mut self, node: usize) -> bool {
        let Some(&Sum { nodes, at, .. }) = self.sum(node) else { return false };
        let mut candidates = vec![self.places[nodes[0]], minus(self.places[nodes[1]], at)];
        candidates.extend(self.wanted(node).into_iter().map(|to| plus(self.places[node], to)));
        let (mut best, mut place) = (self.cost(node), self.places[node]);
        let first = place;
        for candidate in candidates {
            self.places[node] = candidate;
            let cost = self.cost(node);
            if cost < best {
                (best, place) = (cost, candidate);
            }
        }
        self.places[node] = place;
        place != first
    }

    /// The steps of everything that results need, and which of them the results are.
    pub(super) fn steps(&self) -> (Vec<Step>, Vec<Option<usize>>) {
        let trees = (0..self.places.len()).map(|node| Tree::new(self.wanted(node))).collect();
        let mut writer = Writer { frames: self, trees, steps: Vec::new(), known: BTreeMap::new() };
        // Inputs are there from the start.
        for channel in 0..self.channels {
            writer.steps.push(Step::Input(channel));
            writer.known.insert((channel, (0, 0)), channel);
        }
        let end = |end: &Option<(usize, Offset)>| {
            end.map(|(node, at)| writer.value(node, minus(at, self.places[node])))
        };
        let ends = self.ends.iter().map(end).collect();
        (writer.steps, ends)
    }
}

/// Ways from a number to everywhere it is wanted: every place is reached from a neighbour that the
/// number has been at.
struct Tree {
    /// The place before a place, and the direction in which an element there looks to see it.
    before: BTreeMap<Offset, (Offset, Direction)>,
}

impl Tree {
    fn new(mut wanted: Vec<Offset>) -> Tree {
        wanted.sort_unstable_by_key(|&offset| (length(offset), offset));
        let mut tree = Tree { before: BTreeMap::new() };
        for goal in wanted {
            let known = tree.before.keys().copied().chain([(0, 0)]);
            let from = known.min_by_key(|&place| length(minus(goal, place))).unwrap_or_default();
            tree.connect(from, goal);
        }
        tree
    }

    fn connect(&mut self, mut from: Offset, goal: Offset) {
        while from != goal {
            let (x, y) = minus(goal, from);
            let direction = match (x.signum(), y.signum()) {
                (1, _) => Direction::East,
                (-1, _) => Direction::West,
                (_, 1) => Direction::North,
                _ => Direction::South,
            };
            let next = plus(from, direction.step());
            self.before.entry(next).or_insert((from, direction));
            from = next;
        }
    }

    fn moves(&self) -> usize {
        self.before.len()
    }
}

struct Writer<'a> {
    frames: &'a Frames,
    trees: Vec<Tree>,
    steps: Vec<Step>,
    /// Steps by number and place.
    known: BTreeMap<(usize, Offset), usize>,
}

impl Writer<'_> {
    /// A step of a number as its element at an offset sees it.
    fn value(&mut self, node: usize, at: Offset) -> usize {
        if let Some(&index) = self.known.get(&(node, at)) {
            return index;
        }
        let step = match self.trees[node].before.get(&at).copied() {
            Some((before, direction)) => Step::Move(self.value(node, before), direction),
            None => self.combine(node),
        };
        self.steps.push(step);
        let index = self.steps.len() - 1;
        self.known.insert((node, at), index);
        index
    }

    fn combine(&mut self, node: usize) -> Step {
        let Sum { nodes, at, shifts, minus: is_difference } =
            *self.frames.sum(node).expect("inputs are known from the start");
        let place = self.frames.places[node];
        let mut part = |which: usize, offset: Offset| {
            let to = minus(plus(place, offset), self.frames.places[nodes[which]]);
            Part { value: self.value(nodes[which], to), shift: shifts[which] }
        };
        let (a, b) = (part(0, (0, 0)), part(1, at));
        Step::Sum { a, b, minus: is_difference }
    }
}
