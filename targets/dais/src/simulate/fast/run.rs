//! The loop over the steps of a program, on a block of samples.

use super::integer::{Integer, Register};
use super::ports::{self, Rows};
use super::step::{Code, Lane, Step, Steps};
use crate::isa::BinaryBits;
use quincunx_num::Loop;
use std::mem::take;

/// Registers of one lane.
type Bank<T> = Vec<Register<T>>;

/// What a thread works on.
#[derive(Clone, Debug)]
pub(super) struct State {
    i16s: Bank<i16>,
    i32s: Bank<i32>,
    i64s: Bank<i64>,
}

/// Runs `$body` with `$bank` as the registers of a lane.
macro_rules! with_bank {
    ($state:expr, $lane:expr, $bank:ident => $body:expr) => {
        match $lane {
            Lane::I16 => {
                let $bank = &mut $state.i16s;
                $body
            }
            Lane::I32 => {
                let $bank = &mut $state.i32s;
                $body
            }
            Lane::I64 => {
                let $bank = &mut $state.i64s;
                $body
            }
        }
    };
}

fn bank<T: Integer>(registers: u32, samples: usize) -> Bank<T> {
    (0..registers).map(|_| Register::new(samples)).collect()
}

impl State {
    /// Registers for so many samples, with the constants in them.
    pub(super) fn new(steps: &Steps, samples: usize) -> State {
        let [i16s, i32s, i64s] = steps.registers;
        let mut state = State {
            i16s: bank(i16s, samples),
            i32s: bank(i32s, samples),
            i64s: bank(i64s, samples),
        };
        for &(lane, register, value) in &steps.constants {
            with_bank!(state, lane, bank => fill(&mut bank[register as usize], value));
        }
        state
    }
}

fn fill<T: Integer>(register: &mut Register<T>, value: i64) {
    register.fill(T::low_bits(value));
}

/// All steps on a block of samples: plain loops, which the compiler makes vector instructions of.
pub(super) struct Block<'a> {
    pub(super) steps: &'a Steps,
    pub(super) state: &'a mut State,
    pub(super) rows: Rows<'a>,
    pub(super) results: &'a mut [f64],
}

impl Loop for Block<'_> {
    /// False when a lookup found no entry, and nothing is to be believed.
    type Result = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let Block { steps, state, rows, results } = self;
        let n = rows.samples;
        for step in &steps.steps {
            let is_fine = match step.code {
                Code::Convert { from } => {
                    convert(state, from, step, n);
                    true
                }
                _ => with_bank!(state, step.lane, bank => one(bank, step, rows, &steps.tables)),
            };
            if !is_fine {
                return false;
            }
        }
        let columns = steps.outputs.len();
        for (column, port) in steps.outputs.iter().enumerate() {
            with_bank!(state, port.lane, bank => {
                let register = bank[port.register as usize].first(n);
                ports::write(register, port, results, column, columns);
            });
        }
        true
    }
}

#[inline(always)]
fn convert(state: &mut State, from: Lane, step: &Step, n: usize) {
    let State { i16s, i32s, i64s } = state;
    let (out, from_register) = (step.out as usize, step.from[0] as usize);
    match (from, step.lane) {
        (Lane::I16, Lane::I32) => copy(i16s[from_register].first(n), i32s[out].first_mut(n)),
        (Lane::I16, Lane::I64) => copy(i16s[from_register].first(n), i64s[out].first_mut(n)),
        (Lane::I32, Lane::I16) => copy(i32s[from_register].first(n), i16s[out].first_mut(n)),
        (Lane::I32, Lane::I64) => copy(i32s[from_register].first(n), i64s[out].first_mut(n)),
        (Lane::I64, Lane::I16) => copy(i64s[from_register].first(n), i16s[out].first_mut(n)),
        (Lane::I64, Lane::I32) => copy(i64s[from_register].first(n), i32s[out].first_mut(n)),
        // A value has one register in a lane.
        (Lane::I16, Lane::I16) | (Lane::I32, Lane::I32) | (Lane::I64, Lane::I64) => {}
    }
}

#[inline(always)]
fn copy<A: Integer, B: Integer>(from: &[A], out: &mut [B]) {
    for (out, from) in out.iter_mut().zip(from) {
        *out = B::low_bits(from.wide());
    }
}

/// One step but a conversion; false when a lookup finds no entry.
#[inline(always)]
fn one<T: Integer>(bank: &mut Bank<T>, step: &Step, rows: Rows<'_>, tables: &[Vec<i32>]) -> bool {
    let n = rows.samples;
    match step.code {
        Code::Input { column, scale, to } => {
            let mut out = take(&mut bank[step.out as usize]);
            ports::read(rows, column as usize, scale, to, out.first_mut(n));
            bank[step.out as usize] = out;
        }
        Code::Convert { .. } => {}
        Code::Add => two(bank, step, n, |a, b| a.plus(b)),
        Code::Subtract => two(bank, step, n, |a, b| a.minus(b)),
        Code::AddLeft { left } => two(bank, step, n, |a, b| a.plus(b.left(left))),
        Code::SubtractLeft { left } => two(bank, step, n, |a, b| a.minus(b.left(left))),
        Code::LeftSubtract { left } => two(bank, step, n, |a, b| a.left(left).minus(b)),
        Code::Sum { left_a, left_b, subtract: false, right } => {
            two(bank, step, n, |a, b| a.left(left_a).plus(b.left(left_b)).right(right));
        }
        Code::Sum { left_a, left_b, subtract: true, right } => {
            two(bank, step, n, |a, b| a.left(left_a).minus(b.left(left_b)).right(right));
        }
        Code::Offset { left, right, value } => {
            let value = T::low_bits(value);
            each(bank, step, n, |a| a.left(left).right(right).plus(value));
        }
        Code::Field { negate, clip, left, right, mask } => {
            let mask = T::low_bits(mask);
            let cut = |a: T| a.left(left).right(right).and(mask);
            let zero = T::default();
            match (negate, clip) {
                (false, false) => each(bank, step, n, cut),
                (false, true) => each(bank, step, n, |a| cut(a.max(zero))),
                (true, false) => each(bank, step, n, |a| cut(zero.minus(a))),
                (true, true) => each(bank, step, n, |a| cut(zero.minus(a).max(zero))),
            }
        }
        Code::Select { up } => three(bank, step, n, |c, set, clear| {
            let mask = c.left(up).right(T::BITS - 1);
            set.and(mask).or(clear.and(mask.not()))
        }),
        Code::Multiply => two(bank, step, n, |a, b| a.times(b)),
        Code::Lookup { offset, table } => {
            return lookup(bank, step, n, offset, &tables[table as usize]);
        }
        Code::Not { mask } => {
            let mask = T::low_bits(mask);
            each(bank, step, n, |a| a.not().and(mask));
        }
        Code::Any => each(bank, step, n, |a| T::low_bits((a != T::default()).into())),
        Code::All { mask } => {
            let mask = T::low_bits(mask);
            each(bank, step, n, |a| T::low_bits((a.and(mask) == mask).into()));
        }
        Code::Bitwise { op: BinaryBits::And } => two(bank, step, n, |a, b| a.and(b)),
        Code::Bitwise { op: BinaryBits::Or } => two(bank, step, n, |a, b| a.or(b)),
        Code::Bitwise { op: BinaryBits::Xor } => two(bank, step, n, |a, b| a.xor(b)),
    }
    true
}

#[inline(always)]
fn each<T: Integer>(bank: &mut Bank<T>, step: &Step, n: usize, f: impl Fn(T) -> T) {
    // The register of the result is none of the operands'.
    let mut out = take(&mut bank[step.out as usize]);
    let a = bank[step.from[0] as usize].first(n);
    for (out, &a) in out.first_mut(n).iter_mut().zip(a) {
        *out = f(a);
    }
    bank[step.out as usize] = out;
}

#[inline(always)]
fn two<T: Integer>(bank: &mut Bank<T>, step: &Step, n: usize, f: impl Fn(T, T) -> T) {
    let mut out = take(&mut bank[step.out as usize]);
    let [a, b, _] = step.from;
    let (a, b) = (bank[a as usize].first(n), bank[b as usize].first(n));
    for ((out, &a), &b) in out.first_mut(n).iter_mut().zip(a).zip(b) {
        *out = f(a, b);
    }
    bank[step.out as usize] = out;
}

#[inline(always)]
fn three<T: Integer>(bank: &mut Bank<T>, step: &Step, n: usize, f: impl Fn(T, T, T) -> T) {
    let mut out = take(&mut bank[step.out as usize]);
    let [a, b, c] = step.from.map(|register| bank[register as usize].first(n));
    for (((out, &a), &b), &c) in out.first_mut(n).iter_mut().zip(a).zip(b).zip(c) {
        *out = f(a, b, c);
    }
    bank[step.out as usize] = out;
}

#[inline(always)]
fn lookup<T: Integer>(
    bank: &mut Bank<T>,
    step: &Step,
    n: usize,
    offset: i64,
    values: &[i32],
) -> bool {
    let mut out = take(&mut bank[step.out as usize]);
    let a = bank[step.from[0] as usize].first(n);
    let mut is_fine = true;
    for (out, &a) in out.first_mut(n).iter_mut().zip(a) {
        let value = usize::try_from(a.wide() + offset).ok().and_then(|at| values.get(at));
        is_fine &= value.is_some();
        *out = T::low_bits(value.copied().unwrap_or(0).into());
    }
    bank[step.out as usize] = out;
    is_fine
}
