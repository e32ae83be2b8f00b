//! The program in memory.
//!
//! A program is one block of combinational logic in SSA form: operation `i` fills slot `i` and
//! reads slots below `i` only. Registers around it are inputs and outputs of the block. Facts:
//! `da4ml-doc`, `da4ml` (`docs/bibliography.md`).

use crate::isa::Inst;
pub use crate::isa::{InputIndex, Slot, TableIndex};
use quincunx_num::{Dyadic, Int, Interval, Kif, bit_length, power_of_two};
use std::num::Saturating;

/// A shift, a number of fraction bits, or a sum of such numbers, which files may choose freely; what
/// is beyond an `i64` stays at its end, far from everything legal.
pub(crate) type Places = Saturating<i64>;

/// A number as a [`Places`].
pub(crate) fn places(bits: impl Into<i64>) -> Places {
    Saturating(bits.into())
}

/// The type of a slot, in the form in which it was declared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SlotType {
    /// Sign, integer and fraction bits; all that binary files hold.
    Kif(Kif),
    /// `(min, max, step)`; what JSON files hold. Knows a tighter range than its minimal KIF.
    Interval {
        /// Lowest value.
        min: f64,
        /// Highest value.
        max: f64,
        /// Distance between two values; any number, infinity included, where min and max are 0.
        step: f64,
    },
}

impl SlotType {
    /// The interval form of an exact interval, or the KIF form where an f64 would round.
    pub fn of_interval(interval: &Interval) -> SlotType {
        let (min, max) = (interval.min(), interval.max());
        let step = Dyadic::new(Int::ONE, interval.exponent());
        if min.is_f64() && max.is_f64() && step.is_f64() {
            SlotType::Interval { min: min.to_f64(), max: max.to_f64(), step: step.to_f64() }
        } else {
            SlotType::Kif(interval.kif())
        }
    }

    /// The type of an interval that keeps all of so many fraction bits, although zeros have no step
    /// and other numbers may not need it.
    pub(crate) fn in_steps(interval: &Interval, fraction: i32) -> SlotType {
        match interval.with_exponent(fraction.saturating_neg()) {
            Some(interval) if !interval.is_zero() => SlotType::of_interval(&interval),
            _ => SlotType::Kif(Kif::new(false, fraction.saturating_neg(), fraction)),
        }
    }

    /// The exact interval; `None` when min, max and step are not an interval (rules `Q1010` to
    /// `Q1012` of `verify`).
    ///
    /// A max of 2^54 steps or a higher power of two means one step less: that number is not an f64,
    /// and files of types wider than 53 bits hold its rounding.
    pub fn interval(self) -> Option<Interval> {
        match self.short() {
            Some((low, high, exponent)) => Some(Interval::new(low.into(), high.into(), exponent)),
            None => self.long(),
        }
    }

    /// As [`SlotType::interval`], whatever the bounds are.
    fn long(self) -> Option<Interval> {
        match self {
            SlotType::Kif(kif) => Some(kif.interval()),
            SlotType::Interval { min: 0.0, max: 0.0, .. } => Some(Interval::zero()),
            SlotType::Interval { min, max, step } => {
                let exponent = Dyadic::from_f64(step)?.log2()?;
                let low = Dyadic::from_f64(min)?.in_units(exponent)?;
                let high = exact_bound(Dyadic::from_f64(max)?.in_units(exponent)?);
                (low <= high).then(|| Interval::new(low, high, exponent))
            }
        }
    }

    /// Bounds in steps, and the power of two of the step, of an interval that is not 0 and whose bounds
    /// are short: of most, without arithmetic on long integers.
    #[expect(clippy::arithmetic_side_effects, reason = "exponents and steps are short")]
    pub(crate) fn short(self) -> Option<(i64, i64, i32)> {
        let SlotType::Interval { min, max, step } = self else { return None };
        let exponent = (step.to_bits() >> 52) as i32 - 1023;
        if step.to_bits() << 12 != 0 || !(-500..=500).contains(&exponent) {
            return None;
        }
        let power = |exponent: i32| f64::from_bits(((1023 + exponent) as u64) << 52);
        let steps = |bound: f64| {
            let steps = bound * power(-exponent);
            // Nothing was cut off at either end of the range of floats.
            let exact = steps.abs() < 2_f64.powi(52) && steps.fract() == 0.0;
            (exact && steps * step == bound).then_some(steps as i64)
        };
        let (low, high) = (steps(min)?, steps(max)?);
        (low <= high && (low, high) != (0, 0)).then_some((low, high, exponent))
    }

    /// The minimal fixed-point type that holds the declared range; zero for a malformed interval.
    #[expect(clippy::arithmetic_side_effects, reason = "exponents and steps are short")]
    pub fn kif(self) -> Kif {
        if let Some((low, high, exponent)) = self.short() {
            let bits = |magnitude: i64| (i64::BITS - magnitude.leading_zeros()) as i32;
            let integer = bits((-low - 1).max(high)) + exponent;
            return Kif { signed: low < 0, integer, fraction: -exponent };
        }
        match self {
            SlotType::Kif(kif) => kif,
            SlotType::Interval { .. } => self.interval().map_or(Kif::ZERO, |i| i.kif()),
        }
    }
}

/// Undoes the rounding of `2^k - 1` to `2^k` where the former is not an f64.
fn exact_bound(high: Int) -> Int {
    let bits = bit_length(&high);
    let rounded = bits > 54 && high == power_of_two(bits.saturating_sub(1));
    if rounded { high - Int::ONE } else { high }
}

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// What it computes.
    pub inst: Inst,
    /// Type of its result.
    pub slot_type: SlotType,
    /// Time after which the result is stable, in the unit of the tool that wrote the program.
    pub latency: f64,
    /// Cost in the unit of the tool that wrote the program.
    pub cost: f64,
}

/// One output: `(-1 if negate) * buffer[source] * 2^shift`, or 0 without a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    /// The slot read.
    pub source: Option<Slot>,
    /// Power of two.
    pub shift: i32,
    /// Negated.
    pub negate: bool,
}

/// A lookup table.
#[derive(Clone, Debug, PartialEq)]
pub struct LookupTable {
    /// Entries in units of the step of the result.
    pub values: Vec<i32>,
    /// Declared range of the entries `(min, max, step)`, where known.
    pub range: Option<(f64, f64, f64)>,
    /// Declared width of the operand, where known.
    pub operand_width: Option<u32>,
    /// Declared hash, where known.
    pub hash: Option<String>,
}

/// A program.
///
/// Invariants are the legality rules of [`crate::verify`]; a value of this type need not satisfy
/// them, so that `verify` has something to say about files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// Power of two applied to each input before it is quantised.
    pub input_shifts: Vec<i32>,
    /// Start values of the registers, which hold something from one step to the next: the last inputs
    /// are what they hold, the last outputs what they will hold, one for every value here.
    pub state: Vec<f64>,
    /// Outputs.
    pub outputs: Vec<Output>,
    /// Operations; operation `i` fills slot `i`.
    pub operations: Vec<Operation>,
    /// Lookup tables.
    pub tables: Vec<LookupTable>,
    /// Bits a carry chain passes in one unit of latency; negative for unlimited.
    pub carry_size: i32,
    /// Bits of one unit of adder cost; negative for unlimited.
    pub adder_size: i32,
    /// Word of the D1 binary that executors ignore.
    pub firmware_version: i32,
}

impl Program {
    /// Numbers of inputs and outputs that are not registers.
    pub fn ends(&self) -> (usize, usize) {
        let besides = |count: usize| count.saturating_sub(self.state.len());
        (besides(self.input_shifts.len()), besides(self.outputs.len()))
    }

    /// The types of the inputs: all bits that any operation takes of an input. Its numbers are those
    /// before the shift that the program declares.
    pub(crate) fn input_types(&self) -> Vec<Kif> {
        let mut kifs: Vec<Option<Kif>> = vec![None; self.input_shifts.len()];
        for operation in &self.operations {
            let Inst::Input { source } = operation.inst else { continue };
            let own = operation.slot_type.kif();
            if own.width() == 0 {
                continue;
            }
            // The program may be illegal.
            let Some(&shift) = self.input_shifts.get(source.0 as usize) else { continue };
            let integer = own.integer.saturating_sub(shift);
            let own = Kif { integer, fraction: own.fraction.saturating_add(shift), ..own };
            let known = &mut kifs[source.0 as usize];
            *known = Some(known.map_or(own, |known| both(known, own)));
        }
        kifs.into_iter().map(|kif| kif.unwrap_or(Kif::ZERO)).collect()
    }

    /// The types of the outputs: the smallest of what they are declared to be. An output that is
    /// always 0 has that of the last operation.
    pub(crate) fn output_types(&self) -> Vec<Kif> {
        self.outputs.iter().map(|output| self.output_interval(output).kif()).collect()
    }

    fn output_interval(&self, output: &Output) -> Interval {
        let source = match output.source {
            Some(slot) => self.operations.get(slot.0 as usize),
            None => self.operations.last(),
        };
        let Some(declared) = source.map(|operation| operation.slot_type) else {
            return Interval::zero();
        };
        let interval = match declared {
            kif if !output.negate => kif.interval(),
            SlotType::Kif(kif) => Some(kif.interval().negated()),
            // As numbers of a file, so that a bound which f64 rounds is read as every bound is.
            SlotType::Interval { min, max, step } => {
                SlotType::Interval { min: -max, max: -min, step }.interval()
            }
        };
        interval.unwrap_or_else(Interval::zero).shifted(output.shift)
    }
}

/// The type whose bits are those of both types.
fn both(a: Kif, b: Kif) -> Kif {
    let top = |kif: Kif| places(kif.integer) + places(kif.signed);
    let high = if top(a) >= top(b) { a } else { b };
    Kif { fraction: a.fraction.max(b.fraction), ..high }
}

/// Programs that run one after the other: output `j` of a stage is input `j` of the next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pipeline {
    /// The stages, in order.
    pub stages: Vec<Program>,
}

impl Pipeline {
    /// True when a stage has registers of its own.
    pub fn has_state(&self) -> bool {
        self.stages.iter().any(|stage| !stage.state.is_empty())
    }
}

impl From<Program> for Pipeline {
    fn from(program: Program) -> Pipeline {
        Pipeline { stages: vec![program] }
    }
}

/// The type that holds all others; numbers without bits do not count.
pub(crate) fn common_type(kifs: impl Iterator<Item = Kif> + Clone) -> Kif {
    let kifs = || kifs.clone().filter(|kif| kif.width() > 0);
    Kif {
        signed: kifs().any(|kif| kif.signed),
        integer: kifs().map(|kif| kif.integer).max().unwrap_or(0),
        fraction: kifs().map(|kif| kif.fraction).max().unwrap_or(0),
    }
}

/// What to add to an operand to get the entry of a table.
pub(crate) fn lookup_offset(operand: Kif, pad: i32) -> Int {
    -operand.range().0 - Int::from(pad)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bounds at the ends of what is short, and beyond.
    #[test]
    fn short_intervals_are_as_long_ones() {
        let mut bounds = vec![0.0, 5e-324, 1e-300, 0.3, f64::MAX, f64::INFINITY, f64::NAN];
        for exponent in [-1074, -1023, -540, -500, -52, -3, -1, 0, 1, 51, 52, 53, 500, 1000] {
            let power = Dyadic::new(Int::ONE, exponent).to_f64();
            bounds.extend([power, 3.0 * power, power * (1.0 - f64::EPSILON)]);
        }
        bounds.extend(bounds.clone().iter().map(|bound| -bound));
        let steps = [-1074, -501, -500, -499, -4, 0, 3, 499, 500, 501, 1023];
        let steps = steps.map(|exponent| Dyadic::new(Int::ONE, exponent).to_f64());
        let (mut short, mut long) = (0, 0);
        for step in steps.into_iter().chain([0.0, -1.0, 3.0, f64::NAN]) {
            for (&min, &max) in bounds.iter().flat_map(|a| bounds.iter().map(move |b| (a, b))) {
                let found = SlotType::Interval { min, max, step };
                let expected = found.long();
                assert_eq!(found.interval(), expected, "{found:?}");
                let kif = expected.as_ref().map_or(Kif::ZERO, Interval::kif);
                assert_eq!(found.kif(), kif, "{found:?}");
                short += usize::from(found.short().is_some());
                long += usize::from(expected.is_some());
            }
        }
        assert!(short > 400 && long > short + 1000, "{short} of {long}");
    }
}
