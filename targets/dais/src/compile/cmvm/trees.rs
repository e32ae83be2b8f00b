//! From sums to adders: which two terms to add first.

use super::prove::Bare;
use super::random::Random;
use super::system::{System, Term};
use super::{Effort, Problem, Range};

/// Operands above which the first that are ready are added first.
const MANY: usize = 128;

/// Orders of a sum that are tried; the first one is not random.
#[derive(Clone, Copy)]
struct Orders {
    /// Of a short sum.
    most: u64,
    /// Orders times the third power of the operands, at most.
    compared: u64,
}

impl Orders {
    const ONE: Orders = Orders { most: 1, compared: 0 };

    /// Those of an effort: sums share what is compared.
    fn new(effort: Effort, system: &System) -> Orders {
        let (most, compared) = match effort {
            Effort::Quick => return Orders::ONE,
            Effort::Fast => (6, 1 << 25),
            Effort::Default | Effort::Max => (64, 1 << 29),
        };
        Orders { most, compared: compared / (1 + system.sums.len() as u64) }
    }

    /// Orders of a sum of so many operands.
    fn of(self, operands: usize) -> u64 {
        match operands {
            3..=MANY => self.most.min(self.compared / (operands as u64).pow(3)).max(1),
            _ => 1,
        }
    }
}

/// Bits by which the width of an adder is taken to be larger than it is, at random, in the others.
const NOISE: usize = 4;

/// The power of two that stands for the last level.
const WHOLE: u32 = 100;

/// A term of a sum, with what its adder needs to know.
#[derive(Clone, Copy)]
struct Operand {
    term: Term,
    range: Range,
    level: u32,
    /// Its number among operands and sums of one sum.
    number: usize,
}

/// The adders of all sums that outputs need, operands first; outputs get the new numbers.
///
/// Sums that others read are there as early as can be; those that are only outputs may take until
/// the `limit`, or without one as long as the output that takes longest.
pub(super) fn adders(
    problem: &Problem,
    system: &System,
    limit: Option<u32>,
    effort: Effort,
) -> (Vec<Bare>, Vec<Option<Term>>) {
    let orders = Orders::new(effort, system);
    let (forest, outputs) = match limit {
        Some(limit) => until(problem, system, limit, orders),
        None => {
            let (_, outputs) = until(problem, system, 0, Orders::ONE);
            let levels = outputs.iter().flatten().map(|output| output.level);
            until(problem, system, levels.max().unwrap_or(0), orders)
        }
    };
    (forest.bare, outputs.into_iter().map(|output| Some(output?.term)).collect())
}

/// The same with so many orders of every sum, and with outputs.
fn until(
    problem: &Problem,
    system: &System,
    limit: u32,
    orders: Orders,
) -> (Forest, Vec<Option<Operand>>) {
    let mut forest = Forest { inputs: problem.inputs().len(), bare: Vec::new() };
    let mut made: Vec<Option<Operand>> = vec![None; system.inputs + system.sums.len()];
    for (index, input) in problem.inputs().iter().enumerate() {
        made[index] = Some(Operand {
            term: Term { node: index as u32, shift: 0, negate: false },
            range: input.range(),
            level: input.latency,
            number: 0,
        });
    }
    let mut read = vec![false; made.len()];
    system.sums.iter().flatten().for_each(|term| read[term.node as usize] = true);
    for sum in system.order() {
        let terms = system.sums[sum].iter();
        let operands: Vec<Operand> =
            terms.filter_map(|&t| Some(made[t.node as usize]?.scaled(t))).collect();
        let node = system.inputs + sum;
        let earliest = earliest(&operands);
        let latest = if read[node] { earliest } else { earliest.max(limit) };
        made[node] = forest.grow(operands, latest, orders);
    }
    let output = |term: Term| Some(made[term.node as usize]?.scaled(term));
    (forest, system.outputs.iter().map(|o| o.and_then(output)).collect())
}

/// The smallest level at which operands can be added up.
fn earliest(operands: &[Operand]) -> u32 {
    // Adding is carrying: two nodes of a level make one of the next.
    let mut levels: Vec<u32> = operands.iter().map(|operand| operand.level).collect();
    levels.sort_unstable_by(|a, b| b.cmp(a));
    while let Some(first) = levels.pop() {
        let Some(second) = levels.pop() else {
            return first;
        };
        let level = first.max(second) + 1;
        let at = levels.partition_point(|&other| other > level);
        levels.insert(at, level);
    }
    0
}

/// The adders of one sum.
struct Tree {
    /// Bits, then level.
    goals: (u64, u32),
    sum: Option<Operand>,
    bare: Vec<Bare>,
}

struct Forest {
    inputs: usize,
    bare: Vec<Bare>,
}

impl Forest {
    /// Adds operands up in the order with the least bits, then levels, of some; none without
    /// operands.
    fn grow(&mut self, mut operands: Vec<Operand>, latest: u32, orders: Orders) -> Option<Operand> {
        let start = self.bare.len();
        let mut best: Option<Tree> = None;
        operands.sort_by_key(Operand::low_bit);
        operands.iter_mut().enumerate().for_each(|(number, operand)| operand.number = number);
        let mut lateness = Lateness::new(&operands);
        for seed in 0..orders.of(operands.len()) {
            let mut random = (seed > 0).then(|| Random::new(seed));
            let (sum, bits) = self.add_up(operands.clone(), latest, &mut lateness, random.as_mut());
            let goals = (bits, sum.map_or(0, |sum| sum.level));
            let bare = self.bare.split_off(start);
            if best.as_ref().is_none_or(|best| goals < best.goals) {
                best = Some(Tree { goals, sum, bare });
            }
        }
        let Tree { sum, bare, .. } = best?;
        self.bare.extend(bare);
        sum
    }

    /// Adds sorted operands up, the two with the smallest adder and sum first, perhaps with noise; the sum,
    /// and the bits of its adders.
    fn add_up(
        &mut self,
        mut operands: Vec<Operand>,
        latest: u32,
        lateness: &mut Lateness,
        mut random: Option<&mut Random>,
    ) -> (Option<Operand>, u64) {
        let mut bits = 0;
        let mut number = operands.len();
        while operands.len() > 1 {
            let (x, y) = best_pair(&operands, latest, lateness, random.as_deref_mut());
            let second = operands.remove(y);
            let first = operands.remove(x);
            bits += u64::from(first.range.adder_bits(&second.range));
            let sum = Operand { number, ..self.join(first, second) };
            number += 1;
            lateness.learn(&sum, &operands);
            let at = operands.partition_point(|other| other.low_bit() < sum.low_bit());
            operands.insert(at, sum);
        }
        (operands.pop(), bits)
    }

    /// An adder of two operands.
    fn join(&mut self, x: Operand, y: Operand) -> Operand {
        // The first operand of an adder is neither shifted nor negated.
        let (x, y) = if x.term.negate && !y.term.negate { (y, x) } else { (x, y) };
        self.bare.push(Bare {
            a: x.term.node as usize,
            b: y.term.node as usize,
            shift: i32::from(y.term.shift) - i32::from(x.term.shift),
            subtract: x.term.negate != y.term.negate,
        });
        let node = (self.inputs + self.bare.len() - 1) as u32;
        Operand {
            term: Term { node, ..x.term },
            range: x.range.plus(&y.range),
            level: x.level.max(y.level) + 1,
            number: 0,
        }
    }
}

/// How late every two operands of a sum are added up, as [`Range::order`] has it: computed once for a
/// pair, although many choices compare it.
struct Lateness {
    /// Operands and their sums; 0 where there are so many that pairs are computed when they are compared.
    count: usize,
    of_pairs: Vec<u32>,
}

impl Lateness {
    fn new(operands: &[Operand]) -> Lateness {
        let count = if operands.len() > MANY { 0 } else { 2 * operands.len() };
        let mut lateness = Lateness { count, of_pairs: vec![0; count * count] };
        for (index, operand) in operands.iter().enumerate() {
            lateness.learn(operand, &operands[..index]);
        }
        lateness
    }

    /// Takes up an operand beside others.
    fn learn(&mut self, operand: &Operand, others: &[Operand]) {
        if self.count == 0 {
            return;
        }
        for other in others {
            let order = operand.range.order(&other.range);
            self.of_pairs[operand.number * self.count + other.number] = order;
            self.of_pairs[other.number * self.count + operand.number] = order;
        }
    }

    fn of(&self, a: &Operand, b: &Operand) -> u32 {
        match self.of_pairs.get(a.number * self.count + b.number) {
            Some(order) => *order,
            None => a.range.order(&b.range),
        }
    }
}

impl Operand {
    /// What operands are sorted by.
    fn low_bit(&self) -> (i32, i32) {
        (self.range.exponent, self.range.reach())
    }

    /// The operand in the place of the node of a term.
    fn scaled(self, by: Term) -> Operand {
        Operand {
            term: self.term.scaled(by.shift, by.negate),
            range: self.range.scaled(i32::from(by.shift), by.negate),
            level: self.level,
            number: 0,
        }
    }
}

/// Places of the two operands to add first, in order.
fn best_pair(
    operands: &[Operand],
    latest: u32,
    lateness: &Lateness,
    mut random: Option<&mut Random>,
) -> (usize, usize) {
    if operands.len() > MANY {
        return first_two(operands);
    }
    let weight = |level: u32| 1_u128 << (WHOLE + level).saturating_sub(latest).min(WHOLE + 1);
    let all: u128 = operands.iter().map(|operand| weight(operand.level)).sum();
    let mut best = None;
    for (x, first) in operands.iter().enumerate() {
        for (y, second) in operands.iter().enumerate().skip(x + 1) {
            let level = first.level.max(second.level) + 1;
            let noise = random.as_deref_mut().map_or(0, |random| random.below(NOISE) as u32);
            let key = (lateness.of(first, second) + noise, level);
            if best.is_some_and(|(least, _)| key >= least) {
                continue;
            }
            // The rest can be added up in time if the weights fit into that of the last level.
            let rest = all - weight(first.level) - weight(second.level) + weight(level);
            if rest <= 1 << WHOLE {
                best = Some((key, (x, y)));
            }
        }
    }
    // The two that are ready first are always in time.
    best.map_or_else(|| first_two(operands), |(_, pair)| pair)
}

/// The two operands that are ready first.
fn first_two(operands: &[Operand]) -> (usize, usize) {
    let mut first = (0, 1);
    let level = |at: usize| operands[at].level;
    if level(1) < level(0) {
        first = (1, 0);
    }
    for at in 2..operands.len() {
        if level(at) < level(first.0) {
            first = (at, first.0);
        } else if level(at) < level(first.1) {
            first.1 = at;
        }
    }
    (first.0.min(first.1), first.0.max(first.1))
}
