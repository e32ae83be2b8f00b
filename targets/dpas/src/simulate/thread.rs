//! One hardware thread: registers, flags, accumulators, and running instructions in order.
//!
//! Lanes that branch apart go on with the lane that is furthest behind; instructions execute for the
//! lanes that are at them (ours: the machine's join stacks give the same results). Reads of lanes come
//! before all writes of an instruction.

mod control;
mod registers;
mod send;

pub use control::Program;

use super::exec::{Operation, Step, enabled, multiply_in_thread};
use super::float::Rules;
use super::message::{NoStorage, Storage};
use super::state::{AlignedBytes, State};
use super::value::Value;
use super::vector::{Computation, Lane};
use crate::arch::{DpasArch, Platform};
use crate::isa::vector::{Input, Op, Place, Register, Terms, Type};
use quincunx_diag::{Diagnostic, Result};

/// Lanes of the widest instruction.
pub const LANES: usize = 32;
/// Accumulators of 32-bit elements.
const ACCUMULATORS: usize = 16;

/// The state of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Bytes of the general registers.
    pub grf: AlignedBytes,
    /// Flag registers of 32 bits.
    pub flags: [u32; 4],
    /// Bytes of the address register.
    pub address: [u8; 64],
    /// Accumulators: a number of 64 bits, or the bits of a float, for each 32-bit element.
    pub accumulators: Vec<i64>,
    /// Control register.
    pub control: u32,
    /// Lanes that were switched on when the thread began.
    pub dispatch_mask: u32,
    /// Bytes of a general register.
    pub(super) grf_bytes: usize,
    platform: Platform,
    /// The next instruction.
    pub(super) pc: usize,
    /// Where each lane goes on, if they have parted.
    pub(super) lanes: Option<Box<[usize; LANES]>>,
    /// It has signalled a barrier and not yet passed it.
    pub(crate) signalled: bool,
    pub(crate) ended: bool,
}

/// Why a thread stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It has ended, or has no more instructions.
    End,
    /// It waits at a barrier.
    Barrier,
    /// It has executed as many instructions as it may.
    Limit,
}

/// An error of one instruction.
#[derive(Clone, Debug)]
pub struct Trap {
    /// Index of the instruction.
    pub index: usize,
    /// What is wrong.
    pub problem: Diagnostic,
}

impl Thread {
    /// A thread whose registers are zero.
    pub fn new(arch: &DpasArch, dispatch_mask: u32) -> Thread {
        Thread {
            grf: AlignedBytes::new(arch.file_bytes() as usize),
            flags: [0; 4],
            address: [0; 64],
            accumulators: vec![0; ACCUMULATORS * arch.platform.grf_bytes() as usize / 4],
            control: 0,
            dispatch_mask,
            grf_bytes: arch.platform.grf_bytes() as usize,
            platform: arch.platform,
            pc: 0,
            lanes: None,
            signalled: false,
            ended: false,
        }
    }

    /// Back to the beginning: all registers are zero.
    pub(super) fn reset(&mut self) {
        self.grf.fill(0);
        self.accumulators.fill(0);
        (self.flags, self.address, self.control) = ([0; 4], [0; 64], 0);
        (self.pc, self.lanes) = (0, None);
        (self.signalled, self.ended) = (false, false);
    }

    /// Executes instructions until the thread ends, waits at a barrier, or has used up `steps`, from
    /// which those are taken that were executed.
    ///
    /// # Errors
    /// The instruction that cannot be executed, with `Q6070` for registers that do not exist, `Q6150`
    /// to `Q6154` for memory, messages, state and jumps.
    pub fn run(
        &mut self,
        program: &Program,
        memory: &mut dyn Storage,
        rules: Rules,
        steps: &mut u64,
    ) -> std::result::Result<Stop, Trap> {
        loop {
            if self.ended || self.pc >= program.steps.len() {
                self.ended = true;
                return Ok(Stop::End);
            }
            if *steps == 0 {
                return Ok(Stop::Limit);
            }
            *steps -= 1;
            let index = self.pc;
            let trap = |problem| Trap { index, problem };
            if let Some(stop) = self.step(program, memory, rules).map_err(trap)? {
                return Ok(stop);
            }
        }
    }

    /// The index of the next instruction.
    pub fn position(&self) -> usize {
        self.pc
    }

    /// Goes on behind the next instruction without executing it.
    pub(crate) fn skip(&mut self) {
        self.advance(self.pc);
    }

    /// True while no lanes have branched apart.
    pub(crate) fn is_together(&self) -> bool {
        self.lanes.is_none()
    }

    /// Executes one instruction.
    fn step(
        &mut self,
        program: &Program,
        memory: &mut dyn Storage,
        rules: Rules,
    ) -> Result<Option<Stop>> {
        let index = self.pc;
        match &program.steps[index] {
            Step::Wait => self.advance(index),
            Step::Multiply(operation) => {
                self.multiply(operation, rules)?;
                self.advance(index);
            }
            Step::Vector(terms) => return self.vector(index, terms, program, memory),
        }
        Ok(None)
    }

    /// Lanes that execute at the current place.
    fn active(&self) -> u32 {
        match &self.lanes {
            None => self.dispatch_mask,
            Some(lanes) => {
                let here = |lane: &usize| lanes[*lane] == self.pc;
                (0..LANES).filter(here).fold(0, |mask, lane| mask | 1 << lane) & self.dispatch_mask
            }
        }
    }

    fn multiply(&mut self, operation: &Operation, rules: Rules) -> Result<()> {
        let mask = enabled(self.active(), operation.offset, operation.no_mask);
        multiply_in_thread(operation, &mut self.grf, rules, mask)
    }

    fn vector(
        &mut self,
        index: usize,
        terms: &Terms,
        program: &Program,
        memory: &mut dyn Storage,
    ) -> Result<Option<Stop>> {
        if terms.op.jumps() {
            return self.jump(index, terms, program).map(|()| None);
        }
        match terms.op {
            Op::SyncBarrier => {
                if !self.signalled {
                    let message = "the thread waits at a barrier that it has not signalled";
                    return Err(Diagnostic::invalid("Q6154", message)
                        .help("send the barrier message to the gateway first"));
                }
                self.advance(index);
                return Ok(Some(Stop::Barrier));
            }
            Op::SyncNop | Op::SyncAllRead | Op::SyncAllWrite | Op::Nop => {}
            Op::Send => {
                self.send(terms, memory)?;
                if terms.options.is_end() {
                    self.ended = true;
                    return Ok(Some(Stop::End));
                }
            }
            _ => self.compute(terms)?,
        }
        self.advance(index);
        Ok(None)
    }

    /// The lanes of an instruction that execute: lane 0 in the lowest bit.
    fn mask(&self, terms: &Terms) -> u32 {
        let lanes = terms.size.lanes();
        let all = u32::MAX >> (32 - lanes);
        let own = enabled(self.active(), terms.size.offset(), terms.control.no_mask());
        // A predicate of sel chooses instead.
        let predicate = if terms.op == Op::Sel { u32::MAX } else { self.predicate(terms) };
        all & own & predicate
    }

    /// The bits of the predicate's flag, from lane 0 up; all without a predicate.
    fn predicate(&self, terms: &Terms) -> u32 {
        let Some((flag, inverted)) = terms.control.predicate() else { return u32::MAX };
        let bits = self.flags[usize::from(flag >> 1)].rotate_right(flag_bit(flag, terms));
        if inverted { !bits } else { bits }
    }

    fn compute(&mut self, terms: &Terms) -> Result<()> {
        let Some(dst) = terms.dst else { return Ok(()) };
        let mask = self.mask(terms);
        let chosen = self.predicate(terms);
        if let Some(()) = self.copy(terms, &dst, mask)? {
            return Ok(());
        }
        let computation = Computation::new(terms);
        let lanes = || (0..terms.size.lanes()).filter(move |lane| mask >> lane & 1 == 1);
        let mut results = Vec::with_capacity(LANES);
        for lane in lanes() {
            let mut sources = [Value::Int(0); 3];
            for (value, source) in sources.iter_mut().zip(terms.sources.iter().flatten()) {
                *value = self.source(source, lane, terms.op)?;
            }
            let accumulator = self.accumulators.get(lane as usize).copied().unwrap_or(0);
            let chosen = chosen >> lane & 1 == 1;
            results.push(computation.lane(&Lane { sources, accumulator, chosen }));
        }
        let (condition, flag) = terms.condition.parts();
        for (lane, result) in lanes().zip(&results) {
            let bits = result.value.stored(&dst);
            self.write(&dst, lane, bits, result.value)?;
            if terms.writes_accumulator() {
                let number = result.accumulator.unwrap_or_else(|| accumulator_of(&dst, bits));
                if let Some(place) = self.accumulators.get_mut(lane as usize) {
                    *place = number;
                }
            }
            if condition != 0 && !matches!(terms.op, Op::Sel | Op::Csel) {
                let value =
                    if terms.op == Op::Cmp { result.value } else { Value::of(dst.ty, bits) };
                self.set_flag(flag, lane, terms, computation.condition(value));
            }
        }
        Ok(())
    }

    fn set_flag(&mut self, flag: u8, lane: u32, terms: &Terms, value: bool) {
        let bit = (flag_bit(flag, terms) + lane) & 31;
        let register = &mut self.flags[usize::from(flag >> 1)];
        *register = *register & !(1 << bit) | u32::from(value) << bit;
    }

    /// A move between equal types copies bits, so that NaN keeps its own.
    fn copy(&mut self, terms: &Terms, dst: &Place, mask: u32) -> Result<Option<()>> {
        let Some(source) = terms.sources[0].filter(|_| terms.is_copy()) else { return Ok(None) };
        let lanes = || (0..terms.size.lanes()).filter(move |lane| mask >> lane & 1 == 1);
        let read: Vec<u64> = lanes().map(|lane| self.bits(&source, lane)).collect::<Result<_>>()?;
        for (lane, bits) in lanes().zip(read) {
            self.write(dst, lane, bits, Value::of(dst.ty, bits))?;
        }
        Ok(Some(()))
    }

    /// A source of a lane with its modifiers; logic instructions invert instead of negating.
    fn source(&self, source: &Input, lane: u32, op: Op) -> Result<Value> {
        let value = self.number(source, lane)?;
        let Input::Register { absolute, negate, .. } = *source else { return Ok(value) };
        if negate && matches!(op, Op::And | Op::Or | Op::Xor | Op::Not) {
            return Ok(Value::Int(!value.modified(absolute, false).integer()));
        }
        Ok(value.modified(absolute, negate))
    }
}

/// The bit of lane 0 in the register of a flag.
pub(crate) fn flag_bit(flag: u8, terms: &Terms) -> u32 {
    (u32::from(flag & 1) * 16 + terms.size.offset()) & 31
}

/// What an accumulator holds of a result.
fn accumulator_of(dst: &Place, bits: u64) -> i64 {
    match dst.ty.is_float() {
        true => bits as i64,
        false => Value::of(dst.ty, bits).integer() as i64,
    }
}

/// Where an element of an accumulator lies.
fn accumulator_index(register: Register, byte: u32, ty: Type, element: u32, grf: usize) -> usize {
    let Register::Acc(number) = register else { return usize::MAX };
    usize::from(number) * grf / 4 + (byte / ty.bytes().max(1) + element) as usize
}

/// Most instructions of a program without a launch.
const MAX_STEPS: u64 = 1 << 32;

/// Runs a program on the registers of one thread, or of two fused ones, whose other registers are 0.
///
/// # Errors
/// As [`Thread::run`]; `Q6155` when the program does not end, `Q6156` for fused threads that branch
/// apart.
pub(crate) fn run_state(
    program: &Program,
    state: &mut State,
    arch: &DpasArch,
    rules: Rules,
) -> Result<()> {
    let mut threads: Vec<Thread> = state
        .threads
        .iter_mut()
        .map(|bytes| {
            let grf = std::mem::take(bytes);
            Thread { grf, ..Thread::new(arch, state.dispatch_mask) }
        })
        .collect();
    let mut steps = MAX_STEPS;
    let result = match &mut threads[..] {
        [thread] => run_alone(thread, program, rules, &mut steps),
        threads => run_fused(threads, program, rules, &mut steps),
    };
    for (bytes, thread) in state.threads.iter_mut().zip(&mut threads) {
        *bytes = std::mem::take(&mut thread.grf);
    }
    result.map_err(|Trap { index, problem }| problem.with_note(format!("instruction {index}")))
}

fn endless(index: usize) -> Trap {
    let message = format!("the program has not ended after {MAX_STEPS} instructions");
    Trap { index, problem: Diagnostic::invalid("Q6155", message) }
}

fn run_alone(
    thread: &mut Thread,
    program: &Program,
    rules: Rules,
    steps: &mut u64,
) -> std::result::Result<(), Trap> {
    loop {
        match thread.run(program, &mut NoStorage, rules, steps)? {
            Stop::End => return Ok(()),
            // It is alone in its group.
            Stop::Barrier => thread.signalled = false,
            Stop::Limit => return Err(endless(thread.pc)),
        }
    }
}

/// Fused threads execute the same instruction at a time.
fn run_fused(
    threads: &mut [Thread],
    program: &Program,
    rules: Rules,
    steps: &mut u64,
) -> std::result::Result<(), Trap> {
    while let Some(index) = threads.first().filter(|t| !t.ended).map(|thread| thread.pc) {
        let trap = |problem| Trap { index, problem };
        if threads.iter().any(|thread| thread.pc != index || thread.lanes.is_some()) {
            let message = "fused threads have branched apart";
            return Err(trap(Diagnostic::unsupported("Q6156", message)));
        }
        if *steps == 0 {
            return Err(endless(index));
        }
        *steps -= 1;
        match program.steps.get(index) {
            None => return Ok(()),
            Some(Step::Multiply(operation)) if operation.fused => {
                fused(operation, threads, rules).map_err(trap)?;
                threads.iter_mut().for_each(|thread| thread.advance(index));
            }
            Some(_) => {
                for thread in threads.iter_mut() {
                    thread.step(program, &mut NoStorage, rules).map_err(trap)?;
                }
            }
        }
    }
    Ok(())
}

fn fused(operation: &Operation, threads: &mut [Thread], rules: Rules) -> Result<()> {
    let mask = threads.first().map_or(0, |thread| thread.dispatch_mask);
    let files = threads.iter_mut().map(|thread| std::mem::take(&mut thread.grf)).collect();
    let mut state = State { threads: files, dispatch_mask: mask };
    let result = Step::Multiply(*operation).run(&mut state, rules);
    for (thread, grf) in threads.iter_mut().zip(state.threads) {
        thread.grf = grf;
    }
    result
}
