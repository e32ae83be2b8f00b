//! Plans as programs of super-pixels: one register for each number, bits that ripple along the path.
//!
//! In every element at once, two bits say whether a carry begins, passes or ends there. Where it
//! passes, the masked register takes the bit of the element below, again and again: one instruction
//! for each bit of a number.

use super::block::Block;
use super::finish::Finish;
use super::place::{clear, is_missing, missing, set};
use super::plan::{Part, Plan, Step};
use crate::isa::{Direction, Inst, Reg};
use std::collections::BTreeMap;

/// A number in memory: bank and register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The bank.
    pub(crate) bank: usize,
    /// The register.
    pub(crate) register: Reg,
}

/// Registers and banks.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    /// The block, with the path of the bank in which numbers are computed.
    pub(crate) block: Block,
    /// Elements of the bits of every bank.
    pub(crate) banks: Vec<Vec<(usize, usize)>>,
    /// Registers that may be written.
    pub(crate) pool: Vec<Reg>,
    /// The input channels.
    pub(crate) inputs: Vec<Place>,
    /// The results.
    pub(crate) outputs: Vec<Place>,
    /// What holds the constants of biases; `None` for any register.
    pub(crate) of_bias: Option<Reg>,
    /// Direction registers, in the order of [`Direction::ALL`].
    pub(crate) directions: [Reg; 4],
    /// Where it is 1, [`Home::masked`] is written.
    pub(crate) mask: Reg,
    /// The masked register.
    pub(crate) masked: Reg,
    /// What `scamp5_select_pattern` writes.
    pub(crate) select: Reg,
}

impl Home {
    /// True for a result in the bank of computation, with no other in its register.
    fn is_alone(&self, place: &Place) -> bool {
        let same = self.outputs.iter().filter(|other| other.register == place.register);
        self.offset(place.bank) == (0, 0) && same.count() == 1
    }

    /// Elements to the east and to the north from a bit of the bank of computation to that of another.
    pub(super) fn offset(&self, bank: usize) -> (i32, i32) {
        let ((row, column), (r, c)) = (self.block.path[0], self.banks[bank][0]);
        (c as i32 - column as i32, row as i32 - r as i32)
    }
}

/// The instructions of a plan; results are halved `depth` times, and finished.
///
/// # Errors
/// The number of registers that are missing.
pub(super) fn write(
    plan: &Plan,
    depth: u32,
    finish: &[Finish],
    home: &Home,
) -> Result<Vec<Inst>, usize> {
    let mut writer = Writer::new(plan, home);
    writer.load_inputs();
    for (index, step) in plan.steps.iter().enumerate() {
        writer.step(index, step);
    }
    let results = plan.outputs.iter().zip(&home.outputs).map(|(part, place)| {
        let target = home.is_alone(place).then_some(place.register);
        part.map(|part| writer.result(part, depth, target))
    });
    let mut results: Vec<Option<Reg>> = results.collect();
    for (result, finish) in results.iter_mut().zip(finish.iter().copied()) {
        *result = writer.finished(*result, finish);
    }
    writer.store(results);
    writer.end()
}

/// Where elements look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Anywhere,
    All(Direction),
    Below,
    Above,
}

pub(super) struct Writer<'a> {
    pub(super) home: &'a Home,
    look: Look,
    /// How often numbers will be read yet.
    readers: Vec<usize>,
    pub(super) register: Vec<Option<Reg>>,
    /// Where numbers are wanted that are results as they are.
    targets: Vec<Option<Reg>>,
    /// Registers that must not be overwritten.
    pub(super) held: BTreeMap<Reg, usize>,
    pub(super) list: Vec<Inst>,
    extra: usize,
}

impl<'a> Writer<'a> {
    fn new(plan: &Plan, home: &'a Home) -> Writer<'a> {
        let mut readers = vec![0; plan.steps.len()];
        let parts = plan.outputs.iter().flatten().map(|part| part.value);
        plan.steps.iter().flat_map(Step::operands).chain(parts).for_each(|v| readers[v] += 1);
        let mut targets = vec![None; plan.steps.len()];
        for (part, place) in plan.outputs.iter().zip(&home.outputs) {
            if let Some(Part { value, shift: 0 }) = *part
                && home.is_alone(place)
            {
                targets[value] = Some(place.register);
            }
        }
        Writer {
            targets,
            home,
            look: Look::Anywhere,
            register: vec![None; readers.len()],
            readers,
            held: BTreeMap::new(),
            list: Vec::new(),
            extra: 0,
        }
    }

    /// A writer without a plan; what results hold is not overwritten.
    pub(super) fn of_results(home: &'a Home) -> Writer<'a> {
        let mut writer = Writer::new(&Plan { steps: Vec::new(), outputs: Vec::new() }, home);
        writer.held = home.outputs.iter().map(|place| (place.register, 1)).collect();
        writer
    }

    /// The instructions.
    ///
    /// # Errors
    /// The number of registers that are missing.
    pub(super) fn end(self) -> Result<Vec<Inst>, usize> {
        if self.extra == 0 { Ok(self.list) } else { Err(self.extra) }
    }

    /// Brings the inputs of other banks to that of computation; the others stay where they are.
    fn load_inputs(&mut self) {
        let home = self.home;
        for place in &home.inputs {
            *self.held.entry(place.register).or_default() += 1;
        }
        let offsets: Vec<(i32, i32)> = home.inputs.iter().map(|p| home.offset(p.bank)).collect();
        for (channel, (place, &offset)) in home.inputs.iter().zip(&offsets).enumerate() {
            if offset == (0, 0) {
                self.register[channel] = Some(place.register);
            } else if self.readers[channel] > 0 {
                let register = self.take();
                self.travel(register, place.register, offset);
                self.register[channel] = Some(register);
                self.release(place.register);
            } else {
                self.release(place.register);
            }
        }
        for (channel, &offset) in offsets.iter().enumerate() {
            let unread = self.readers[channel] == 0 && offset == (0, 0);
            if let Some(register) = self.register[channel].filter(|_| unread) {
                self.release(register);
            }
        }
    }

    fn is_free(&self, register: Reg) -> bool {
        !self.held.contains_key(&register)
    }

    /// A free register, which is held from now on.
    pub(super) fn take(&mut self) -> Reg {
        let targets = || self.home.outputs.iter().map(|place| place.register);
        let free = || self.home.pool.iter().copied().filter(|&r| self.is_free(r));
        let found = free().find(|&r| targets().all(|target| target != r)).or_else(|| free().next());
        let register = found.unwrap_or_else(|| {
            let missing = (0..).map(missing).find(|&r| self.is_free(r)).unwrap_or(Reg::NONE);
            let number = self.held.keys().filter(|r| is_missing(**r)).count() + 1;
            self.extra = self.extra.max(number);
            missing
        });
        *self.held.entry(register).or_default() += 1;
        register
    }

    /// Registers that are free.
    fn free(&self) -> usize {
        self.home.pool.iter().filter(|register| self.is_free(**register)).count()
    }

    /// Holds a register, if it is free.
    pub(super) fn claim(&mut self, register: Reg) -> Option<Reg> {
        self.is_free(register).then(|| {
            self.held.insert(register, 1);
            register
        })
    }

    pub(super) fn release(&mut self, register: Reg) {
        if let Some(count) = self.held.get_mut(&register) {
            *count -= 1;
            if *count == 0 {
                self.held.remove(&register);
            }
        }
    }

    /// The register of a number that is read once more; true when it may be overwritten.
    pub(super) fn read(&mut self, value: usize) -> (Reg, bool) {
        self.readers[value] -= 1;
        let register = self.register[value].unwrap_or(Reg::NONE);
        let is_own = self.home.pool.contains(&register) || is_missing(register);
        let shared = self.held.get(&register).is_some_and(|&count| count > 1);
        (register, self.readers[value] == 0 && is_own && !shared)
    }

    /// Frees the register of a number that nobody reads any more, unless the result has it.
    pub(super) fn finish(&mut self, value: usize, result: Reg) {
        if let Some(register) = self.register[value].filter(|_| self.readers[value] == 0)
            && register != result
        {
            self.register[value] = None;
            self.release(register);
        }
    }

    pub(super) fn push(&mut self, inst: Inst) {
        self.list.push(inst);
    }

    pub(super) fn turn(&mut self, look: Look) {
        if self.look == look {
            return;
        }
        let (all, select) = (self.home.directions, self.home.select);
        match (look, self.look) {
            (Look::Below | Look::Above, _) => {
                self.list.extend(self.home.block.look(look == Look::Above, all, select));
            }
            (Look::All(to), Look::All(from)) => {
                self.list.extend([clear(&[all[from as usize]]), set(all[to as usize])]);
            }
            (Look::All(to), _) => {
                let others = Direction::ALL.into_iter().filter(|d| *d != to);
                let others: Vec<Reg> = others.map(|d| all[d as usize]).collect();
                self.list.extend([clear(&others), set(all[to as usize])]);
            }
            (Look::Anywhere, _) => {}
        }
        self.look = look;
    }

    /// `to` := what is at an offset, in elements.
    pub(super) fn travel(&mut self, to: Reg, from: Reg, (x, y): (i32, i32)) {
        let east = if x > 0 { Direction::East } else { Direction::West };
        let north = if y > 0 { Direction::North } else { Direction::South };
        let mut source = from;
        for (direction, count) in [(east, x.unsigned_abs()), (north, y.unsigned_abs())] {
            for _ in 0..count {
                self.turn(Look::All(direction));
                self.push(Inst::Dnews0 { d: to, a: source });
                source = to;
            }
        }
    }

    fn step(&mut self, index: usize, step: &Step) {
        let register = match *step {
            Step::Input(_) => return,
            Step::Move(value, direction) => {
                let (from, dies) = self.read(value);
                let to = if dies { from } else { self.take() };
                let (x, y) = direction.step();
                let block = &self.home.block;
                let offset = (x * block.width as i32, y * block.height as i32);
                self.travel(to, from, offset);
                self.finish(value, to);
                to
            }
            Step::Negate(value) => {
                let (from, dies) = self.read(value);
                let to = if dies { from } else { self.take() };
                self.negate(to, from);
                self.finish(value, to);
                to
            }
            Step::Sum { a, b, minus } => self.sum(a, b, minus, self.targets[index]),
        };
        self.register[index] = Some(register);
    }

    /// A number shifted up: the register, and whether it may be overwritten.
    pub(super) fn shifted(&mut self, part: Part, other: usize) -> (Reg, bool) {
        let (from, mut dies) = self.read(part.value);
        if part.shift == 0 {
            return (from, dies);
        }
        // The other operand may be the same number.
        dies &= part.value != other;
        let to = if dies { from } else { self.take() };
        self.turn(Look::Below);
        let mut source = from;
        for _ in 0..part.shift {
            self.push(Inst::Dnews0 { d: to, a: source });
            source = to;
        }
        (to, true)
    }

    fn sum(&mut self, a: Part, b: Part, minus: bool, target: Option<Reg>) -> Reg {
        let (x, x_dies) = self.shifted(a, b.value);
        let (y, y_dies) = self.shifted(b, a.value);
        let target = target.filter(|_| self.free() > 2).and_then(|target| self.claim(target));
        // Only here both are as they will be used.
        let (s, t) = (self.take(), self.take());
        let to = match (target, x_dies, y_dies) {
            (Some(target), _, _) => target,
            (None, true, _) => x,
            (None, false, true) => y,
            (None, false, false) => t,
        };
        self.add([to, x, y], [s, t], minus);
        for register in [s, t].into_iter().filter(|register| *register != to) {
            self.release(register);
        }
        for (part, register) in [(a, x), (b, y)] {
            // A shifted copy is nobody's.
            let is_copy = self.register[part.value] != Some(register);
            if is_copy && register != to {
                self.release(register);
            }
            if a.value != b.value || part == b {
                self.finish(part.value, to);
            }
        }
        to
    }

    /// `to` := `x + y`, or `x - y`. The other registers are overwritten; `to` may be any of them.
    pub(super) fn add(&mut self, [to, x, y]: [Reg; 3], [s, t]: [Reg; 2], minus: bool) {
        let Home { mask, masked, .. } = *self.home;
        let (none, c, e) = (Reg::NONE, Reg::NONE, Reg::NONE);
        self.push(Inst::Nor { d: s, a: x, b: y, c, e });
        self.push(Inst::Nor { d: t, a: x, b: s, c, e });
        self.push(Inst::Nor { d: s, a: y, b: s, c, e });
        // A carry begins or ends where the bits are equal, and a borrow where they differ.
        let ends = match minus {
            false => Inst::Nor { d: mask, a: s, b: t, c: none, e: none },
            true => Inst::Or { d: mask, a: s, b: t, c: none, e: none },
        };
        self.push(ends);
        self.push(Inst::Move { d: masked, a: y });
        self.push(Inst::Not { d: mask, a: mask });
        self.ripple(s);
        self.differ(to, [mask, s], t, minus);
    }

    /// Carries pass where the mask is 1; `below` := what comes from the bit below.
    fn ripple(&mut self, below: Reg) {
        let masked = self.home.masked;
        self.turn(Look::Below);
        for _ in 1..self.home.block.path.len() {
            self.push(Inst::Dnews0 { d: masked, a: masked });
        }
        self.push(Inst::Dnews0 { d: below, a: masked });
    }

    /// `to` := 1 where `x` and `y` differ, or where they are equal; `x`, `y` and `t` are overwritten.
    pub(super) fn differ(&mut self, to: Reg, [x, y]: [Reg; 2], t: Reg, equal: bool) {
        let (c, e) = (Reg::NONE, Reg::NONE);
        self.push(Inst::Nor { d: t, a: x, b: y, c, e });
        self.push(Inst::Nor { d: x, a: x, b: t, c, e });
        self.push(Inst::Nor { d: y, a: y, b: t, c, e });
        self.push(match equal {
            false => Inst::Or { d: to, a: x, b: y, c, e },
            true => Inst::Nor { d: to, a: x, b: y, c, e },
        });
    }

    /// `to` := minus `from`: every bit above the lowest 1 changes.
    fn negate(&mut self, to: Reg, from: Reg) {
        let Home { mask, masked, .. } = *self.home;
        let (s, t) = (self.take(), self.take());
        self.push(Inst::Move { d: mask, a: from });
        self.push(set(masked));
        self.push(Inst::Not { d: mask, a: mask });
        self.ripple(s);
        self.differ(to, [mask, s], t, true);
        self.release(s);
        self.release(t);
    }
}
