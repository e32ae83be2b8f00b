//! Which operation is in which stage.
//!
//! A schedule gives every operation a stage. Within a stage an operation ends at an offset: its
//! delay after the latest operand that is computed in the same stage, or after the registers. No
//! offset is above the cutoff. An operation that would be, begins the next stage.

use super::EPSILON;
use super::delays::delays;
use crate::isa::Inst;
use crate::program::{Program, Slot};

/// What a schedule needs to know of a program.
#[derive(Debug)]
pub(super) struct Logic {
    /// Operations that outputs or roots need.
    pub(super) live: Vec<bool>,
    /// Where each operation's readers begin in `readers`, and the end.
    first_reader: Vec<u32>,
    readers: Vec<u32>,
    first_operand: Vec<u32>,
    /// Without constants, which every stage has for itself.
    operands: Vec<u32>,
    delays: Vec<f64>,
    /// Bits of a register that holds the value.
    pub(super) widths: Vec<u64>,
    /// Leaves the program.
    pub(super) is_output: Vec<bool>,
    pub(super) is_input: Vec<bool>,
    pub(super) is_constant: Vec<bool>,
    /// Named besides the outputs.
    pub(super) is_root: Vec<bool>,
    /// Whether variables are multiplied with each other, which takes many levels at once.
    has_products: bool,
}

impl Logic {
    pub(super) fn new(program: &Program, roots: &[Slot]) -> Logic {
        let operations = &program.operations;
        let count = operations.len();
        let mut is_output = vec![false; count];
        let sources = program.outputs.iter().filter_map(|output| output.source);
        sources.for_each(|source| is_output[source.0 as usize] = true);
        let mut live = is_output.clone();
        let mut is_root = vec![false; count];
        for root in roots {
            (live[root.0 as usize], is_root[root.0 as usize]) = (true, true);
        }
        for (index, operation) in operations.iter().enumerate().rev() {
            // The inputs of the first stage are those of the program.
            live[index] |= matches!(operation.inst, Inst::Input { .. });
            if live[index] {
                operation.inst.operands().for_each(|o| live[o.0 as usize] = true);
            }
        }
        let is =
            |wanted: fn(&Inst) -> bool| operations.iter().map(move |o| wanted(&o.inst)).collect();
        let is_constant: Vec<bool> = is(|inst| matches!(inst, Inst::Constant { .. }));
        let mut logic = Logic {
            live,
            first_reader: Vec::new(),
            readers: Vec::new(),
            first_operand: vec![0],
            operands: Vec::new(),
            delays: delays(program),
            widths: operations.iter().map(|o| o.slot_type.kif().width().into()).collect(),
            is_output,
            is_input: is(|inst| matches!(inst, Inst::Input { .. })),
            is_constant,
            is_root,
            has_products: operations.iter().any(|o| matches!(o.inst, Inst::Multiply { .. })),
        };
        logic.connect(program);
        logic
    }

    /// Lists operands, each once, and readers.
    fn connect(&mut self, program: &Program) {
        let mut counts = vec![0_u32; program.operations.len() + 1];
        for (index, operation) in program.operations.iter().enumerate() {
            let start = self.operands.len();
            if self.live[index] {
                for Slot(operand) in operation.inst.operands() {
                    let is_new = !self.operands[start..].contains(&operand);
                    if is_new && !self.is_constant[operand as usize] {
                        self.operands.push(operand);
                        counts[operand as usize + 1] += 1;
                    }
                }
            }
            self.first_operand.push(self.operands.len() as u32);
        }
        for index in 1..counts.len() {
            counts[index] += counts[index - 1];
        }
        let mut next = counts.clone();
        self.readers = vec![0; self.operands.len()];
        for index in 0..program.operations.len() {
            for &operand in
                &self.operands[self.first_operand[index] as usize..][..self.degree(index)]
            {
                let place = &mut next[operand as usize];
                self.readers[*place as usize] = index as u32;
                *place += 1;
            }
        }
        self.first_reader = counts;
    }

    fn degree(&self, index: usize) -> usize {
        (self.first_operand[index + 1] - self.first_operand[index]) as usize
    }

    pub(super) fn operands(&self, index: usize) -> impl Iterator<Item = usize> + Clone + '_ {
        let range = self.first_operand[index] as usize..self.first_operand[index + 1] as usize;
        self.operands[range].iter().map(|&operand| operand as usize)
    }

    pub(super) fn readers(&self, index: usize) -> impl ExactSizeIterator<Item = usize> + '_ {
        let range = self.first_reader[index] as usize..self.first_reader[index + 1] as usize;
        self.readers[range].iter().map(|&reader| reader as usize)
    }

    pub(super) fn len(&self) -> usize {
        self.live.len()
    }

    /// Operations that have a place: needed, and no constants.
    pub(super) fn placed(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        (0..self.len()).filter(|&index| self.live[index] && !self.is_constant[index])
    }

    pub(super) fn delay(&self, index: usize) -> f64 {
        self.delays[index]
    }

    /// The operation with the longest delay.
    pub(super) fn slowest(&self) -> Option<(usize, f64)> {
        let delays = self.placed().map(|index| (index, self.delays[index]));
        delays.max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// A stage and an offset for every operation; both are 0 for those without a place.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    pub(super) cutoff: f64,
    pub(super) stage: Vec<u32>,
    pub(super) offset: Vec<f64>,
    count: usize,
}

impl Schedule {
    /// Every operation as early as possible, which gives the fewest stages.
    pub(super) fn earliest(logic: &Logic, cutoff: f64) -> Schedule {
        let (mut stage, mut offset) = (vec![0_u32; logic.len()], vec![0.0_f64; logic.len()]);
        for index in logic.placed() {
            let (mut at, mut begin) = (0, 0.0_f64);
            for operand in logic.operands(index) {
                match stage[operand].cmp(&at) {
                    std::cmp::Ordering::Greater => (at, begin) = (stage[operand], offset[operand]),
                    std::cmp::Ordering::Equal => begin = begin.max(offset[operand]),
                    std::cmp::Ordering::Less => {}
                }
            }
            let end = begin + logic.delay(index);
            // What is longer than a stage begins behind registers, and its stage is longer.
            let fits = begin == 0.0 || end <= cutoff + EPSILON;
            stage[index] = if fits { at } else { at + 1 };
            offset[index] = if fits { end } else { logic.delay(index) };
        }
        Schedule::with(cutoff, stage, offset)
    }

    /// The fewest stages for a cutoff. Where an operation is longer than the cutoff or multiplies
    /// variables, and would leave much of a stage empty, stages are as long as it takes to have no
    /// more of them than the latency of the program has multiples of the cutoff, as da4ml divides.
    pub(super) fn fewest(logic: &Logic, cutoff: f64) -> Schedule {
        let first = Schedule::earliest(logic, cutoff);
        let is_longer = logic.slowest().is_some_and(|(_, delay)| delay > cutoff + EPSILON);
        if !is_longer && !logic.has_products {
            return first;
        }
        let whole = Schedule::earliest(logic, f64::INFINITY);
        let (mut low, mut high) = (cutoff, whole.longest());
        let most = (high / (cutoff + EPSILON)).floor() as usize + 1;
        if first.stages() <= most {
            return first;
        }
        let mut best = whole;
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            let tried = Schedule::earliest(logic, middle);
            if tried.stages() <= most {
                (best, high) = (tried, middle);
            } else {
                low = middle;
            }
        }
        best
    }

    /// Every operation as late as possible in so many stages.
    fn latest(logic: &Logic, cutoff: f64, count: usize) -> Schedule {
        let last = count as u32 - 1;
        let mut stage = vec![last; logic.len()];
        // Time from the begin of an operation to the end of its stage.
        let mut before_end = vec![0.0_f64; logic.len()];
        for index in logic.placed().rev() {
            let (mut at, mut rest) = (last, 0.0_f64);
            for reader in logic.readers(index) {
                match stage[reader].cmp(&at) {
                    std::cmp::Ordering::Less => (at, rest) = (stage[reader], before_end[reader]),
                    std::cmp::Ordering::Equal => rest = rest.max(before_end[reader]),
                    std::cmp::Ordering::Greater => {}
                }
            }
            let all = rest + logic.delay(index);
            let fits = all <= cutoff + EPSILON || at == 0;
            stage[index] = if fits { at } else { at - 1 };
            before_end[index] = if fits { all } else { logic.delay(index) };
            if logic.is_input[index] {
                stage[index] = 0;
            }
        }
        let offset = offsets(logic, &stage);
        Schedule::with(cutoff, stage, offset)
    }

    fn with(cutoff: f64, stage: Vec<u32>, offset: Vec<f64>) -> Schedule {
        Schedule {
            count: stage.iter().max().map_or(1, |&last| last as usize + 1),
            cutoff,
            stage,
            offset,
        }
    }

    pub(super) fn stages(&self) -> usize {
        self.count
    }

    /// The longest stage.
    pub(super) fn longest(&self) -> f64 {
        self.offset.iter().copied().fold(0.0, f64::max)
    }

    /// The last stage that reads a value.
    pub(super) fn last_use(&self, logic: &Logic, index: usize) -> u32 {
        let own = if logic.is_output[index] { self.count as u32 - 1 } else { self.stage[index] };
        logic.readers(index).map(|reader| self.stage[reader]).fold(own, u32::max)
    }

    /// Bits of all registers between stages.
    fn bits(&self, logic: &Logic) -> u64 {
        self.sum(logic, |index| logic.widths[index])
    }

    /// Registers between stages.
    pub(super) fn crossings(&self, logic: &Logic) -> u64 {
        self.sum(logic, |_| 1)
    }

    fn sum(&self, logic: &Logic, weight: impl Fn(usize) -> u64) -> u64 {
        let crossed = |index: usize| self.last_use(logic, index) - self.stage[index];
        logic.placed().map(|index| weight(index) * u64::from(crossed(index))).sum()
    }
}

/// The offsets that follow from stages.
fn offsets(logic: &Logic, stage: &[u32]) -> Vec<f64> {
    let mut offset = vec![0.0_f64; logic.len()];
    for index in logic.placed() {
        let same = logic.operands(index).filter(|&operand| stage[operand] == stage[index]);
        let begin = same.map(|operand| offset[operand]).fold(0.0, f64::max);
        offset[index] = begin + logic.delay(index);
    }
    offset
}

/// Steps of the search for the shortest cutoff.
const HALVINGS: usize = 24;

/// Rounds of moving operations; each goes through all of them twice.
const ROUNDS: usize = 12;

/// Readers and stages that are looked at in these rounds, which a value with very many of them makes
/// many.
const MAX_LOOKS: usize = 1 << 29;

/// The shortest cutoff that needs no more stages, and operations moved to where registers hold
/// fewer bits.
pub(super) fn retime(logic: &Logic, first: Schedule) -> Schedule {
    let count = first.stages();
    if count == 1 {
        return first;
    }
    let total = Schedule::earliest(logic, f64::INFINITY).longest();
    let slowest = logic.slowest().map_or(0.0, |(_, delay)| delay);
    let mut low = (total / count as f64).max(slowest) - EPSILON;
    let mut best = first;
    for _ in 0..HALVINGS {
        let high = best.longest();
        if high - low <= EPSILON * 4.0 {
            break;
        }
        let middle = f64::midpoint(low, high);
        let tried = Schedule::earliest(logic, middle);
        if tried.stages() <= count && tried.longest() < high {
            best = tried;
        } else {
            low = middle;
        }
    }
    let cutoff = best.longest();
    let late = Schedule::latest(logic, cutoff, count);
    let early = improve(logic, Schedule { cutoff, ..best });
    // Where rounding left no room for the latest schedule it is not a schedule.
    if late.longest() > cutoff + EPSILON || !is_ordered(logic, &late) {
        return early;
    }
    let late = improve(logic, late);
    if late.bits(logic) < early.bits(logic) { late } else { early }
}

/// True when no operation is in an earlier stage than an operand.
fn is_ordered(logic: &Logic, schedule: &Schedule) -> bool {
    let stage = &schedule.stage;
    logic.placed().all(|index| logic.operands(index).all(|operand| stage[operand] <= stage[index]))
}

/// Moves operations to other stages, one at a time, as long as registers get smaller.
fn improve(logic: &Logic, schedule: Schedule) -> Schedule {
    let mut mover = Mover { logic, latest: vec![0.0; logic.len()], schedule, looks: 0 };
    mover.backward(false);
    for _ in 0..ROUNDS {
        let moved = mover.forward() | mover.backward(true);
        if !moved {
            break;
        }
    }
    let Mover { mut schedule, .. } = mover;
    schedule.offset = offsets(logic, &schedule.stage);
    schedule
}

/// A schedule whose operations are moved.
struct Mover<'a> {
    logic: &'a Logic,
    schedule: Schedule,
    /// The latest offset at which an operation may end in its stage.
    latest: Vec<f64>,
    /// Readers looked at.
    looks: usize,
}

impl Mover<'_> {
    /// Operands first: offsets of operands are known, latest offsets of readers are still right,
    /// since these have not moved.
    fn forward(&mut self) -> bool {
        let mut moved = false;
        for index in self.logic.placed().collect::<Vec<_>>() {
            moved |= self.settle(index);
            let stage = self.schedule.stage[index];
            self.schedule.offset[index] = self.end(index, stage);
        }
        moved
    }

    /// Readers first, the other way round.
    fn backward(&mut self, moving: bool) -> bool {
        let mut moved = false;
        for index in self.logic.placed().rev().collect::<Vec<_>>() {
            moved |= moving && self.settle(index);
            let stage = self.schedule.stage[index];
            self.latest[index] = self.limit(index, stage);
        }
        moved
    }

    /// The offset at which an operation would end in a stage.
    fn end(&self, index: usize, stage: u32) -> f64 {
        let Schedule { stage: stages, offset, .. } = &self.schedule;
        let same = self.logic.operands(index).filter(|&operand| stages[operand] == stage);
        same.map(|operand| offset[operand]).fold(0.0, f64::max) + self.logic.delay(index)
    }

    /// The latest offset at which it may end in a stage.
    fn limit(&self, index: usize, stage: u32) -> f64 {
        let same = self.logic.readers(index).filter(|&r| self.schedule.stage[r] == stage);
        let latest = same.map(|reader| self.latest[reader] - self.logic.delay(reader));
        latest.fold(self.schedule.cutoff, f64::min)
    }

    /// Moves an operation to the stage where registers are smallest; true if that is another one.
    fn settle(&mut self, index: usize) -> bool {
        if self.logic.is_input[index] || self.looks > MAX_LOOKS {
            return false;
        }
        let stages = &self.schedule.stage;
        let own = stages[index];
        let low = self.logic.operands(index).map(|o| stages[o]).max().unwrap_or(0);
        let last = self.schedule.count as u32 - 1;
        let high = self.logic.readers(index).map(|r| stages[r]).min().unwrap_or(last);
        if low == high {
            return false;
        }
        self.looks += (high - low) as usize;
        let uses = self.uses(index);
        let mut best = (self.price(index, own, &uses), own);
        for stage in (low..=high).filter(|&stage| stage != own) {
            let price = self.price(index, stage, &uses);
            let fits = || self.end(index, stage) <= self.limit(index, stage) + EPSILON;
            if price < best.0 && fits() {
                best = (price, stage);
            }
        }
        self.schedule.stage[index] = best.1;
        best.1 != own
    }

    /// The operands with the last stages that others need them in.
    fn uses(&mut self, index: usize) -> Vec<(usize, u32)> {
        let readers = |operand| self.logic.readers(operand).len();
        self.looks += self.logic.operands(index).map(readers).sum::<usize>();
        let stages = &self.schedule.stage;
        let last = self.schedule.count as u32 - 1;
        let others = |operand: usize| {
            let own = if self.logic.is_output[operand] { last } else { stages[operand] };
            let readers = self.logic.readers(operand).filter(|&reader| reader != index);
            readers.map(|reader| stages[reader]).fold(own, u32::max)
        };
        self.logic.operands(index).map(|operand| (operand, others(operand))).collect()
    }

    /// Bits of the registers that depend on the stage of an operation.
    fn price(&self, index: usize, stage: u32, uses: &[(usize, u32)]) -> u64 {
        let logic = self.logic;
        let own = if logic.is_output[index] { self.schedule.count as u32 - 1 } else { stage };
        let last = logic.readers(index).map(|r| self.schedule.stage[r]).fold(own, u32::max);
        let operands = uses.iter().map(|&(operand, others)| {
            logic.widths[operand] * u64::from(stage.max(others) - self.schedule.stage[operand])
        });
        logic.widths[index] * u64::from(last - stage) + operands.sum::<u64>()
    }
}
