//! Prepared kernels: the same as a thread of the executor, faster.
//!
//! Every instruction of a kernel is prepared once. What cannot be prepared, and what would fail, the
//! thread itself does, so that its state and its errors are those of the executor. Neighbouring
//! products are one step, unless a jump leads into their middle.

mod block;
mod lanes;
mod message;
#[cfg(target_arch = "x86_64")]
mod rows;
mod scalar;
mod vector;

use super::Plan;
use super::sums::at_level;
use crate::arch::DpasArch;
use crate::isa::vector::{Input, Op, Place, Register, Terms, Type};
use crate::simulate::exec::Step;
use crate::simulate::float::Rules;
use crate::simulate::message::Storage;
use crate::simulate::thread::{Program, Stop, Thread, Trap, flag_bit};
use block::{Exchange, Matrix};
use lanes::Lanes;
use message::{Move, Transfer};
#[cfg(target_arch = "x86_64")]
use quincunx_num::Level;
#[cfg(target_arch = "x86_64")]
use rows::Rows;
use scalar::Scalar;
use std::collections::BTreeSet;
use vector::Vector;

/// A flag that decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Predicate {
    register: usize,
    /// The bit of lane 0.
    bit: u32,
    inverted: bool,
}

impl Predicate {
    fn of(terms: &Terms) -> Option<Predicate> {
        let (flag, inverted) = terms.control.predicate()?;
        Some(Predicate { register: usize::from(flag >> 1), bit: flag_bit(flag, terms), inverted })
    }

    /// The bits of all lanes, lane 0 in the lowest bit.
    fn bits(self, flags: &[u32; 4]) -> u32 {
        let bits = flags[self.register & 3].rotate_right(self.bit);
        if self.inverted { !bits } else { bits }
    }
}

/// A prepared instruction.
enum Code {
    /// The thread does it.
    Left,
    /// Nothing so many times, in order.
    Wait(usize),
    /// Goes on elsewhere if the flag of lane 0 says so.
    Jump(usize, Option<Predicate>),
    /// Adds a number to consecutive elements of 64 bits.
    Advance { at: usize, lanes: usize, by: u64 },
    /// One lane.
    Scalar(Scalar),
    /// Lanes.
    Vector(Box<Vector>),
    /// Lanes of several instructions that do the same.
    #[cfg(target_arch = "x86_64")]
    Rows(Box<[Rows]>, usize),
    /// A message to flat memory.
    Transfer(Box<Transfer>),
    /// A message to a matrix in memory.
    Matrix(Box<Matrix>),
    /// So many products.
    Products(Box<Plan>, usize),
}

/// A kernel that is prepared for the threads of a machine.
pub struct Prepared {
    codes: Vec<Code>,
    /// Bytes of the registers.
    bytes: usize,
    rules: Rules,
    level: Level,
}

impl Prepared {
    /// Prepares a program for certain instructions of this processor.
    ///
    /// # Panics
    /// When the processor does not have them ([`Level::available`]).
    pub fn new(program: &Program, arch: &DpasArch, rules: Rules, level: Level) -> Prepared {
        let bytes = arch.file_bytes() as usize;
        let mut prepared = Prepared { codes: Vec::new(), bytes, rules, level };
        let targets: BTreeSet<usize> = program
            .steps
            .iter()
            .enumerate()
            .filter_map(|(index, step)| jump(index, step, program))
            .collect();
        for (index, step) in program.steps.iter().enumerate() {
            let code = match step {
                Step::Wait => Code::Wait(1),
                Step::Multiply(_) => {
                    let inside = |at: &usize| *at == index || !targets.contains(at);
                    let is_product = |at: &usize| matches!(program.steps[*at], Step::Multiply(_));
                    let run = (index..program.steps.len())
                        .take_while(|at| inside(at) && is_product(at))
                        .count();
                    let follows = index > 0
                        && !targets.contains(&index)
                        && matches!(program.steps[index - 1], Step::Multiply(_));
                    // Nothing leads here but the executor.
                    if follows { Code::Left } else { prepared.products(program, index, run) }
                }
                Step::Vector(terms) => prepared.vector(index, terms, program, arch),
            };
            prepared.codes.push(code);
        }
        #[cfg(target_arch = "x86_64")]
        if level == Level::Avx512 {
            prepared.join_rows(&targets);
        }
        let mut waits = 0;
        for code in prepared.codes.iter_mut().rev() {
            if let Code::Wait(count) = code {
                waits += 1;
                *count = waits;
            } else {
                waits = 0;
            }
        }
        prepared
    }

    /// Neighbouring instructions that do the same become one step, as products do, with those behind
    /// them.
    #[cfg(target_arch = "x86_64")]
    fn join_rows(&mut self, targets: &BTreeSet<usize>) {
        let mut index = 0;
        while index < self.codes.len() {
            let inside = |at: &usize| *at == index || !targets.contains(at);
            let vectors = (index..self.codes.len()).take_while(inside);
            let vectors: Vec<&Vector> = vectors
                .map_while(|at| match &self.codes[at] {
                    Code::Vector(vector) => Some(&**vector),
                    _ => None,
                })
                .collect();
            let (mut all, mut count) = (Vec::new(), 0);
            while let Some(rows) = Rows::new(vectors[count..].iter().copied()) {
                count += rows.count;
                all.push(rows);
            }
            if count > 0 {
                self.codes[index] = Code::Rows(all.into(), count);
            }
            index += count.max(1);
        }
    }

    /// Instructions that are left to the thread.
    pub fn unprepared(&self) -> usize {
        let mut left = 0;
        let mut index = 0;
        while let Some(code) = self.codes.get(index) {
            left += usize::from(matches!(code, Code::Left));
            index += if let Code::Products(_, count) = code { *count } else { 1 };
        }
        left
    }

    fn products(&self, program: &Program, first: usize, count: usize) -> Code {
        let steps = &program.steps[first..first + count];
        let plan = Plan::for_level(steps, self.bytes, self.rules, self.level);
        if plan.unprepared() > 0 { Code::Left } else { Code::Products(Box::new(plan), count) }
    }

    fn vector(&self, index: usize, terms: &Terms, program: &Program, arch: &DpasArch) -> Code {
        match terms.op {
            Op::SyncNop | Op::SyncAllRead | Op::SyncAllWrite | Op::Nop => Code::Wait(1),
            Op::Jmpi => match program.target(index, terms.jumps[0]) {
                Ok(target) => Code::Jump(target, Predicate::of(terms)),
                Err(_) => Code::Left,
            },
            Op::Send => {
                let transfer = Transfer::new(terms, arch).map(|own| Code::Transfer(Box::new(own)));
                let matrix = || Matrix::new(terms, arch).map(|own| Code::Matrix(Box::new(own)));
                transfer.or_else(matrix).unwrap_or(Code::Left)
            }
            _ => {
                let grf = arch.platform.grf_bytes() as usize;
                if let Some(advance) = advance(terms, grf, self.bytes) {
                    return advance;
                }
                match Vector::new(terms, grf, self.bytes) {
                    Some(vector) => match Scalar::new(&vector) {
                        Some(scalar) => Code::Scalar(scalar),
                        None => Code::Vector(Box::new(vector)),
                    },
                    None => Code::Left,
                }
            }
        }
    }

    /// Executes instructions as [`Thread::run`], for the program that was prepared.
    ///
    /// # Errors
    /// As [`Thread::run`].
    pub fn run(
        &mut self,
        thread: &mut Thread,
        program: &Program,
        memory: &mut dyn Storage,
        steps: &mut u64,
    ) -> std::result::Result<Stop, Trap> {
        if thread.grf.len() != self.bytes || thread.dispatch_mask == 0 {
            return thread.run(program, memory, self.rules, steps);
        }
        loop {
            if thread.lanes.is_none() && !thread.ended {
                self.go(thread, memory, steps);
            }
            // One instruction that is not prepared, and then on.
            let mut one = (*steps).min(1);
            let before = one;
            let stop = thread.run(program, memory, self.rules, &mut one);
            *steps -= before - one;
            match stop? {
                Stop::Limit if *steps > 0 => {}
                stop => return Ok(stop),
            }
        }
    }

    /// Executes prepared instructions up to the first that the thread has to do.
    fn go(&mut self, thread: &mut Thread, memory: &mut dyn Storage, steps: &mut u64) {
        let level = self.level;
        let mut pc = thread.pc;
        while let Some(code) = self.codes.get_mut(pc) {
            let mut next = pc + 1;
            if *steps == 0 {
                break;
            }
            match code {
                Code::Left => break,
                Code::Wait(count) => {
                    let count = (*count as u64).min(*steps);
                    *steps -= count - 1;
                    next = pc + count as usize;
                }
                Code::Jump(target, predicate) => {
                    if predicate.is_none_or(|predicate| predicate.bits(&thread.flags) & 1 == 1) {
                        next = *target;
                    }
                }
                Code::Advance { at, lanes, by } => {
                    let (elements, _) = thread.grf[*at..*at + 8 * *lanes].as_chunks_mut::<8>();
                    for element in elements {
                        *element = u64::from_le_bytes(*element).wrapping_add(*by).to_le_bytes();
                    }
                }
                Code::Scalar(scalar) => scalar.run(thread),
                Code::Vector(vector) => at_level(level, Lanes { vector, thread }),
                #[cfg(target_arch = "x86_64")]
                Code::Rows(rows, count) => {
                    // Fewer steps than instructions: the thread ends in their middle.
                    if (*count as u64) > *steps {
                        break;
                    }
                    let done = Rows::run(rows, thread);
                    if done == 0 {
                        break;
                    }
                    *steps -= done as u64 - 1;
                    next = pc + done;
                }
                Code::Transfer(transfer) => {
                    if !at_level(level, Move { transfer, thread, memory }) {
                        break;
                    }
                }
                Code::Matrix(matrix) => {
                    if !at_level(level, Exchange { matrix, thread, memory }) {
                        break;
                    }
                }
                Code::Products(plan, count) => {
                    // Fewer steps than products: the thread ends in their middle.
                    if (*count as u64) > *steps
                        || plan.run_alone(&mut thread.grf, thread.dispatch_mask).is_err()
                    {
                        break;
                    }
                    *steps -= *count as u64 - 1;
                    next = pc + *count;
                }
            }
            *steps -= 1;
            pc = next;
        }
        thread.pc = pc;
    }
}

/// Where a step may lead, if not to the next one.
fn jump(index: usize, step: &Step, program: &Program) -> Option<usize> {
    let Step::Vector(terms) = step else { return None };
    let jump = if terms.op == Op::Goto { terms.jumps[1] } else { terms.jumps[0] };
    terms.op.jumps().then(|| program.target(index, jump).ok()).flatten()
}

/// An addition of a number to elements where they are.
fn advance(terms: &Terms, grf: usize, bytes: usize) -> Option<Code> {
    let [Some(source), Some(Input::Immediate { ty, bits }), None] = terms.sources else {
        return None;
    };
    let (dst, lanes) = (terms.dst?, terms.size.lanes());
    let Place { register: Register::Grf(number), byte, ty: Type::Q, stride: 1, saturate: false } =
        dst
    else {
        return None;
    };
    let plain = terms.op == Op::Add
        && terms.control.no_mask()
        && terms.control.predicate().is_none()
        && terms.condition.parts().0 == 0
        && !terms.writes_accumulator();
    let Input::Register { register, byte: from, ty: Type::Q, region, absolute, negate } = source
    else {
        return None;
    };
    let same = (register, from) == (dst.register, byte) && !absolute && !negate;
    let order = (0..lanes).all(|lane| region.element(lane) == lane);
    let by = match ty {
        Type::W | Type::D | Type::Q => {
            let unused = 64 - 8 * ty.bytes();
            ((bits << unused) as i64 >> unused) as u64
        }
        Type::Uw | Type::Ud | Type::Uq => bits,
        _ => return None,
    };
    let at = usize::from(number) * grf + byte as usize;
    let inside = at + 8 * lanes as usize <= bytes;
    (plain && same && order && inside).then_some(Code::Advance { at, lanes: lanes as usize, by })
}
