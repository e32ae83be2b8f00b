//! A second executor, written differently, agrees with the first on random programs.
//!
//! It works on real numbers `n * 2^e` and on remainders, where the executor shifts and masks
//! integers of a fixed scale; they share no arithmetic.

use crate::common::random::program;
use quincunx_dais::isa::{BinaryBits, Inst, UnaryBits};
use quincunx_dais::program::{Program, Slot};
use quincunx_dais::simulate::Executor;
use quincunx_num::Kif;
use quincunx_testkit::Random;

/// `n * 2^e`.
#[derive(Clone, Copy)]
struct Real {
    n: i128,
    e: i32,
}

impl Real {
    fn negate_if(self, condition: bool) -> Real {
        Real { n: if condition { -self.n } else { self.n }, ..self }
    }

    fn scaled(self, shift: i64) -> Real {
        Real { e: self.e + i32::try_from(shift).unwrap(), ..self }
    }

    /// The number of whole steps `2^unit` in it, and nothing that is left over.
    fn steps(self, unit: i32) -> i128 {
        if self.e >= unit {
            self.n * 2i128.pow((self.e - unit).unsigned_abs())
        } else {
            self.n.div_euclid(2i128.pow((unit - self.e).unsigned_abs()))
        }
    }

    fn plus(self, other: Real) -> Real {
        let e = self.e.min(other.e);
        Real { n: self.steps(e) + other.steps(e), e }
    }
}

fn bits(kif: Kif) -> u32 {
    u32::try_from(i32::from(kif.signed) + kif.integer + kif.fraction).unwrap_or(0)
}

/// The steps of a number, modulo the range of a type.
fn quantise(x: Real, kif: Kif) -> i128 {
    let modulus = 2i128.pow(bits(kif));
    let rest = x.steps(-kif.fraction).rem_euclid(modulus);
    if kif.signed && 2 * rest >= modulus { rest - modulus } else { rest }
}

struct Second<'a> {
    program: &'a Program,
    slots: Vec<i128>,
}

impl Second<'_> {
    fn kif(&self, slot: Slot) -> Kif {
        self.program.operations[slot.0 as usize].slot_type.kif()
    }

    fn real(&self, slot: Slot) -> Real {
        Real { n: self.slots[slot.0 as usize], e: -self.kif(slot).fraction }
    }

    fn step(&self, inst: Inst, inputs: &[f64], to: Kif) -> i128 {
        let real = |slot| self.real(slot);
        let unit = -to.fraction;
        match inst {
            Inst::Input { source } => {
                let index = source.0 as usize;
                let scale = self.program.input_shifts[index] + to.fraction;
                // Exact: the inputs have few bits, and powers of two scale without rounding.
                let steps = (inputs[index] * 2f64.powi(scale)).floor();
                quantise(Real { n: steps as i128, e: unit }, to)
            }
            Inst::Add { a, b, shift } => real(a).plus(real(b).scaled(shift)).steps(unit),
            Inst::Sub { a, b, shift } => {
                real(a).plus(real(b).scaled(shift).negate_if(true)).steps(unit)
            }
            Inst::Relu { x } => quantise(Real { n: real(x).n.max(0), ..real(x) }, to),
            Inst::ReluNegated { x } => quantise(Real { n: -real(x).n.min(0), ..real(x) }, to),
            Inst::Quantise { x } => quantise(real(x), to),
            Inst::QuantiseNegated { x } => quantise(real(x).negate_if(true), to),
            Inst::AddConstant { x, value } => {
                real(x).plus(Real { n: value.into(), e: unit }).steps(unit)
            }
            Inst::Constant { value } => value.into(),
            Inst::Mux { condition, when_set, when_clear, shift }
            | Inst::MuxNegated { condition, when_set, when_clear, shift } => {
                let negate = matches!(inst, Inst::MuxNegated { .. });
                if self.top_bit(condition) {
                    quantise(real(when_set), to)
                } else {
                    quantise(real(when_clear).scaled(shift.into()).negate_if(negate), to)
                }
            }
            Inst::Multiply { a, b } => {
                let (a, b) = (real(a), real(b));
                Real { n: a.n * b.n, e: a.e + b.e }.steps(unit)
            }
            Inst::Lookup { x, table, pad } => {
                let kif = self.kif(x);
                let low = if kif.signed { -(2i128.pow(bits(kif)) / 2) } else { 0 };
                let entry = real(x).n - low - i128::from(pad);
                let values = &self.program.tables[table.0 as usize].values;
                values[usize::try_from(entry).unwrap()].into()
            }
            Inst::Negate { x } => real(x).negate_if(true).steps(unit),
            Inst::QuantiseShifted { x, shift } => quantise(real(x).scaled(shift), to),
            Inst::AddScaled { x, value, scale } => {
                real(x).plus(Real { n: value.into(), e: -scale }).steps(unit)
            }
            Inst::Sum { a, b, c, shift_a, shift_b, shift_c, negate_a, negate_b, negate_c } => {
                let a = real(a).scaled(shift_a.into()).negate_if(negate_a);
                let b = real(b).scaled(shift_b.into()).negate_if(negate_b);
                let c = real(c).scaled(shift_c.into()).negate_if(negate_c);
                a.plus(b).plus(c).steps(unit)
            }
            Inst::Bits { x, op } => self.unary(real(x).n, self.kif(x), op, to),
            Inst::BitsNegated { x, op } => self.unary(-real(x).n, self.kif(x), op, to),
            Inst::Bitwise { a, b, shift, negate_a, negate_b, op } => {
                let (a, b) = (real(a).negate_if(negate_a), real(b).negate_if(negate_b));
                let b = b.scaled(shift.into());
                let e = a.e.min(b.e);
                let (a, b) = (a.steps(e), b.steps(e));
                // The other operations from sums and the conjunction.
                match op {
                    BinaryBits::And => a & b,
                    BinaryBits::Or => a + b - (a & b),
                    BinaryBits::Xor => a + b - 2 * (a & b),
                }
            }
        }
    }

    fn top_bit(&self, slot: Slot) -> bool {
        let modulus = 2i128.pow(bits(self.kif(slot)));
        modulus > 1 && 2 * self.slots[slot.0 as usize].rem_euclid(modulus) >= modulus
    }

    fn unary(&self, x: i128, kif: Kif, op: UnaryBits, to: Kif) -> i128 {
        let modulus = 2i128.pow(bits(kif));
        match op {
            UnaryBits::Not if to.signed => -1 - x,
            UnaryBits::Not => (-1 - x).rem_euclid(modulus),
            UnaryBits::Any => i128::from(x != 0),
            UnaryBits::All => i128::from((x + 1).rem_euclid(modulus) == 0),
        }
    }
}

#[test]
fn two_executors_agree_on_every_slot() {
    for seed in 1000..1600 {
        let mut random = Random::new(seed);
        let program = program(&mut random, 50);
        let mut executor = Executor::new(&program).unwrap();
        for _ in 0..6 {
            let inputs: Vec<f64> = program.input_shifts.iter().map(|_| random.float()).collect();
            executor.run(&inputs).unwrap();
            let mut second = Second { program: &program, slots: Vec::new() };
            for (index, operation) in program.operations.iter().enumerate() {
                let value = second.step(operation.inst, &inputs, operation.slot_type.kif());
                let found = i128::try_from(&executor.slots()[index]).unwrap();
                assert_eq!(found, value, "seed {seed}, operation {index}: {:?}", operation.inst);
                second.slots.push(value);
            }
        }
    }
}
