//! Random programs in which no operation leaves its type. Instructions come from the generator of
//! the instruction table; operands, shifts and types are then made legal.

use quincunx_dais::binary::Dialect;
use quincunx_dais::isa::{Inst, TABLE, UnaryBits, layout};
use quincunx_dais::program::{
    InputIndex, LookupTable, Operation, Output, Program, Slot, SlotType, TableIndex,
};
use quincunx_num::{Int, Interval, Kif};

/// Results wider than this are quantised first, so that products stay below 64 bits.
const MAX_WIDTH: u32 = 24;
use quincunx_testkit::Random;

/// A random legal program of `length` operations, with the instructions of all dialects.
pub fn program(random: &mut Random, length: usize) -> Program {
    program_of(random, length, MAX_WIDTH, &|_| true)
}

/// A random legal program of `length` operations with the instructions of one dialect.
pub fn program_in(random: &mut Random, length: usize, dialect: Dialect) -> Program {
    program_of(random, length, MAX_WIDTH, &|inst| dialect.has(inst))
}

/// A random legal program whose results may have so many bits.
pub fn wide_program(random: &mut Random, length: usize, max_width: u32) -> Program {
    program_of(random, length, max_width, &|_| true)
}

fn program_of(
    random: &mut Random,
    length: usize,
    max_width: u32,
    wanted: &dyn Fn(Inst) -> bool,
) -> Program {
    let inputs = 1 + random.below(4) as usize;
    let mut maker = Maker {
        random,
        wanted,
        max_width,
        program: Program {
            input_shifts: Vec::new(),
            carry_size: -1,
            adder_size: 1,
            ..Program::default()
        },
    };
    for _ in 0..inputs {
        let shift = maker.random.range(-3, 3);
        maker.program.input_shifts.push(shift);
    }
    while maker.program.operations.len() < length {
        maker.operation();
    }
    for _ in 0..1 + maker.random.below(6) {
        let source = Slot(maker.random.below(length as u64) as u32);
        let source = (maker.random.below(8) != 0).then_some(source);
        let (shift, negate) = (maker.random.range(-9, 9), maker.random.below(2) == 1);
        maker.program.outputs.push(Output { source, shift, negate });
    }
    maker.program
}

struct Maker<'a> {
    random: &'a mut Random,
    /// Which instructions may be drawn.
    wanted: &'a dyn Fn(Inst) -> bool,
    /// Bits of the widest result.
    max_width: u32,
    program: Program,
}

impl Maker<'_> {
    fn operation(&mut self) {
        let index = self.program.operations.len() as u64;
        let raw = TABLE.random(&mut |n| self.random.below(n), layout());
        let drawn = Inst::from_raw(&raw).unwrap();
        if !(self.wanted)(drawn) {
            return;
        }
        let drawn = if index < 2 { Inst::Input { source: InputIndex(0) } } else { drawn };
        let drawn = drawn.map_operands(|_| Slot(self.random.below(index) as u32));
        let (inst, interval) = self.legal(drawn);
        let kif = interval.kif();
        // A zero interval forgets its step, which matters unless the result is quantised to it.
        if kif.width() > self.max_width || (interval.is_zero() && !inst.facts().quantises) {
            return;
        }
        let slot_type = match self.random.below(2) {
            0 => SlotType::Kif(kif),
            _ => SlotType::of_interval(&interval),
        };
        let latency = f64::from(self.random.range(0, 8)) / 4.0;
        let cost = f64::from(self.random.range(0, 3)) * 0.1;
        self.program.operations.push(Operation { inst, slot_type, latency, cost });
    }

    fn kif(&self, slot: Slot) -> Kif {
        self.program.operations[slot.0 as usize].slot_type.kif()
    }

    /// Every value that the type of a slot has, whatever its interval says: quantisers wrap to it.
    fn all(&self, slot: Slot) -> Interval {
        self.kif(slot).interval()
    }

    /// Any type, not wider than useful.
    fn any_type(&mut self, fraction: i32) -> Interval {
        let signed = self.random.below(2) == 1;
        let width = self.random.range(0, i32::try_from(self.max_width / 2).unwrap());
        if width == 0 {
            return Interval::zero();
        }
        Kif::new(signed, width - i32::from(signed) - fraction, fraction).interval()
    }

    /// The instruction with legal parameters, and the range of its results.
    fn legal(&mut self, drawn: Inst) -> (Inst, Interval) {
        match drawn {
            Inst::Input { .. } => {
                let count = self.program.input_shifts.len() as u64;
                let fraction = self.random.range(-2, 6);
                let source = InputIndex(self.random.below(count) as u32);
                (Inst::Input { source }, self.any_type(fraction))
            }
            Inst::Add { a, b, .. } => {
                let shift = self.random.range(-6, 6);
                let range = self.all(a).plus(&self.all(b).shifted(shift));
                (Inst::Add { a, b, shift: shift.into() }, self.coarser(range))
            }
            Inst::Sub { a, b, .. } => {
                let shift = self.random.range(-6, 6);
                let range = self.all(a).minus(&self.all(b).shifted(shift));
                (Inst::Sub { a, b, shift: shift.into() }, self.coarser(range))
            }
            Inst::Relu { x }
            | Inst::ReluNegated { x }
            | Inst::Quantise { x }
            | Inst::QuantiseNegated { x } => {
                let fraction = self.kif(x).fraction - self.random.range(0, 4);
                (drawn, self.any_type(fraction))
            }
            Inst::AddConstant { x, value } => {
                let value = value % 500;
                let exponent = -self.kif(x).fraction - self.random.range(0, 2);
                let constant = Interval::new(value.into(), value.into(), exponent);
                let range = self.all(x).plus(&constant);
                let range = range.with_exponent(range.exponent().min(exponent)).unwrap();
                (Inst::AddConstant { x, value }, range)
            }
            Inst::Constant { value } => {
                let value = value % 100_000;
                let exponent = self.random.range(-6, 2);
                (Inst::Constant { value }, Interval::new(value.into(), Int::ZERO, exponent))
            }
            Inst::Mux { condition, when_set, when_clear, .. } => {
                let (shift, range) = self.mux(when_set, when_clear);
                (Inst::Mux { condition, when_set, when_clear, shift }, range)
            }
            Inst::MuxNegated { condition, when_set, when_clear, .. } => {
                let (shift, range) = self.mux(when_set, when_clear);
                (Inst::MuxNegated { condition, when_set, when_clear, shift }, range)
            }
            Inst::Multiply { a, b } => (drawn, self.all(a).times(&self.all(b))),
            Inst::Lookup { x, .. } => self.lookup(x),
            Inst::Bits { x, op: UnaryBits::Not } => self.not(drawn, x, self.all(x)),
            Inst::BitsNegated { x, op: UnaryBits::Not } => {
                self.not(drawn, x, self.all(x).negated())
            }
            Inst::Bits { .. } | Inst::BitsNegated { .. } => {
                (drawn, Interval::new(Int::ZERO, Int::ONE, 0))
            }
            Inst::Negate { x } => (drawn, self.all(x).negated()),
            Inst::QuantiseShifted { x, .. } => {
                let shift = self.random.range(-6, 6);
                let fraction = self.kif(x).fraction - shift - self.random.range(0, 4);
                (Inst::QuantiseShifted { x, shift: shift.into() }, self.any_type(fraction))
            }
            Inst::AddScaled { x, value, .. } => {
                let (value, scale) = (value % 500, self.random.range(-4, 9));
                let constant = Interval::new(value.into(), value.into(), -scale);
                let range = self.all(x).plus(&constant);
                (Inst::AddScaled { x, value, scale }, self.coarser(range))
            }
            Inst::Sum { .. } => self.sum(drawn),
            Inst::Bitwise { a, b, negate_a, negate_b, op, .. } => {
                let shift = self.random.range(-4, 4);
                let inst = Inst::Bitwise { a, b, shift, negate_a, negate_b, op };
                // Two more bits than either operand hold any combination of them, negated or not.
                let both = self.all(a).union(&self.all(b).shifted(shift));
                let integer = both.kif().integer + 2;
                let fraction = self.kif(a).fraction.max(self.kif(b).fraction - shift);
                (inst, Kif::new(true, integer.max(1 - fraction), fraction).interval())
            }
        }
    }

    fn sum(&mut self, mut drawn: Inst) -> (Inst, Interval) {
        if let Inst::Sum { shift_a, shift_b, shift_c, .. } = &mut drawn {
            for shift in [shift_a, shift_b, shift_c] {
                *shift = self.random.range(-4, 4);
            }
        }
        let range = drawn.terms().fold(Interval::zero(), |total, (x, shift, negate)| {
            let term = self.all(x).shifted(i32::try_from(shift).unwrap());
            if negate { total.minus(&term) } else { total.plus(&term) }
        });
        (drawn, self.coarser(range))
    }

    /// Sometimes the same range in a coarser step, which additions may have.
    fn coarser(&mut self, range: Interval) -> Interval {
        let drop = if self.random.below(4) == 0 { self.random.range(1, 3) } else { 0 };
        let floor = |bound: &Int| quincunx_num::shift_floor(bound, -i64::from(drop));
        Interval::new(floor(range.low()), floor(range.high()), range.exponent() + drop)
    }

    fn mux(&mut self, when_set: Slot, when_clear: Slot) -> (i32, Interval) {
        let (set, clear) = (self.kif(when_set).fraction, self.kif(when_clear).fraction);
        let gap = self.random.range(0, 4);
        let (fraction, shift) = match self.random.below(2) {
            0 => (set, gap + clear - set),
            _ => (set + gap, clear - set - gap),
        };
        // Neither a type of no bits, which could not keep its step, nor a wide one.
        let signed = self.random.below(2) == 1;
        let width = self.random.range(1, 12);
        (shift, Kif::new(signed, width - i32::from(signed) - fraction, fraction).interval())
    }

    /// A table of its own for the operand, at least as long as its range.
    fn lookup(&mut self, x: Slot) -> (Inst, Interval) {
        let kif = self.kif(x);
        let values = self.program.operations[x.0 as usize].slot_type.interval().unwrap();
        let pad = i32::try_from(values.low() - kif.range().0);
        if kif.width() > 6 {
            let kif = Kif::new(false, 3 - kif.fraction, kif.fraction);
            return (Inst::Quantise { x }, kif.interval());
        }
        let length = i32::try_from(values.high() - values.low()).unwrap() + 1;
        let entries = length + self.random.range(0, 3);
        let table: Vec<i32> = (0..entries).map(|_| self.random.range(-200, 200)).collect();
        let exponent = self.random.range(-6, 2);
        let low = table.iter().min().copied().unwrap_or(0);
        let high = table.iter().max().copied().unwrap_or(0);
        let range = Interval::new(low.into(), high.into(), exponent);
        let number = TableIndex(self.program.tables.len() as u32);
        self.program.tables.push(LookupTable {
            values: table,
            range: Some((range.min().to_f64(), range.max().to_f64(), 2f64.powi(exponent))),
            operand_width: Some(kif.width()),
            hash: None,
        });
        (Inst::Lookup { x, table: number, pad: pad.unwrap() }, range)
    }

    /// `~x` is `-1 - x`; in an unsigned type it is masked to the bits of the operand.
    fn not(&mut self, inst: Inst, x: Slot, range: Interval) -> (Inst, Interval) {
        let kif = self.kif(x);
        if self.random.below(2) == 0 && kif.width() > 0 {
            let integer = i32::try_from(kif.width()).unwrap() - kif.fraction;
            return (inst, Kif::new(false, integer, kif.fraction).interval());
        }
        let ones = Interval::new(-Int::ONE, -Int::ONE, -kif.fraction);
        let range = ones.minus(&range);
        // One bit more makes the type signed whatever the range.
        (inst, Kif::new(true, range.kif().integer + 1, kif.fraction).interval())
    }
}
