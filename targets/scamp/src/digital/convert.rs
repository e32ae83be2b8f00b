//! Converters of super-pixels: numbers from analogue values, and analogue values from numbers.
//!
//! An analogue value walks along the path of the bits of a number, one element for each bit. The
//! others go along with it in all elements and do not matter. IN holds the weights of the bits.

use super::block::{Block, load, toward};
use super::place::{clear, set};
use super::ripple::{Home, Look, Place, Writer};
use super::too_few;
use crate::files::Converter;
use crate::isa::{Direction, Inst, Reg};
use quincunx_diag::Result;

/// Macros that converters have.
pub(crate) const MACROS: [&str; 5] = ["Add", "Movx", "Neg", "Res", "Sub"];

/// The weight of the highest bit, which is the sign.
const SIGN: i8 = i8::MIN;

/// A home whose numbers are computed in another bank.
fn moved(home: &Home, bank: usize) -> Result<Home> {
    let size = (home.block.width, home.block.height);
    Ok(Home { block: Block::new(size, home.banks[bank].clone())?, ..home.clone() })
}

/// The weight of a bit of a converter.
fn weight(converter: &Converter, bit: usize) -> i8 {
    if bit == converter.top() { SIGN } else { 64 >> (converter.top() - 1 - bit) }
}

/// The element, row and column, of the analogue value of a number in a bank.
pub(crate) fn element(home: &Home, bank: usize, converter: &Converter) -> (usize, usize) {
    home.banks[bank][converter.top()]
}

/// Makes numbers of the analogue values of all inputs, rounded down; what is beyond the numbers becomes
/// the nearest one. `scratch` is overwritten.
///
/// # Errors
/// As [`Block::new`].
pub(crate) fn adc(home: &Home, channels: &[Converter], scratch: Reg) -> Result<Vec<Inst>> {
    let mut list = Vec::new();
    for (index, (converter, place)) in channels.iter().zip(&home.inputs).enumerate() {
        // Another bank of the register may hold a number already.
        let is_shared = home.inputs[..index].iter().any(|other| other.register == place.register);
        let home = moved(home, place.bank)?;
        let mut sampler = Sampler { converter, place, home: &home, scratch, list: Vec::new() };
        sampler.convert(is_shared);
        list.append(&mut sampler.list);
    }
    Ok(list)
}

/// A conversion of one channel.
struct Sampler<'a> {
    converter: &'a Converter,
    place: &'a Place,
    home: &'a Home,
    scratch: Reg,
    list: Vec<Inst>,
}

impl Sampler<'_> {
    /// The mask := 1 in the elements of some bits, and in those of no bank perhaps.
    fn open(&mut self, bits: std::ops::Range<usize>) {
        let Home { block, banks, mask, select, .. } = self.home;
        let wanted = &block.path[bits];
        let others: Vec<_> =
            banks.iter().flatten().copied().filter(|at| !wanted.contains(at)).collect();
        self.list.extend(load(*mask, &block.bank(wanted, &others), *select));
    }

    fn convert(&mut self, is_shared: bool) {
        let Home { mask, masked, .. } = *self.home;
        let (unit, top) = (self.converter.unit, self.converter.top());
        self.list.push(set(mask));
        match is_shared {
            true => self.list.push(Inst::Move { d: masked, a: self.place.register }),
            false => self.list.push(clear(&[masked])),
        }
        if is_shared && unit > 0 {
            self.open(0..unit);
            self.list.push(clear(&[masked]));
        }
        // The scratch register holds minus what is left of the value.
        self.list.push(Inst::Neg { y: self.scratch, x: self.converter.analogue });
        for bit in (unit..=top).rev() {
            self.open(bit..bit + 1);
            self.sample(bit);
        }
        if top > unit {
            self.open(unit..top);
            self.list.push(Inst::Not { d: masked, a: masked });
        }
        let above = top + 1..self.home.block.path.len();
        if !above.is_empty() {
            // The sign goes on to the highest bit.
            self.open(above.clone());
            let Home { block, directions, select, .. } = self.home;
            self.list.extend(block.look(false, *directions, *select));
            self.list.extend(above.map(|_| Inst::Dnews0 { d: masked, a: masked }));
        }
        self.list.push(Inst::Move { d: self.place.register, a: masked });
    }

    /// A bit: 1 where the value is below its weight, for the sign where it is below 0. Then what is
    /// left goes to the next element.
    fn sample(&mut self, bit: usize) {
        let Sampler { converter, scratch: y, .. } = *self;
        let (is_sign, is_last) = (bit == converter.top(), bit == converter.unit);
        let add = Inst::Add { y, a: y, b: Reg::IN };
        self.list.push(Inst::LoadIn { v: weight(converter, bit) });
        let with = if is_sign { Reg::NONE } else { Reg::IN };
        self.list.push(Inst::Where { s0: y, s1: with, s2: Reg::NONE });
        self.list.push(Inst::Move { d: self.home.masked, a: Reg::FLAG });
        if !is_last {
            self.list.push(if is_sign { add } else { Inst::Sub { y, a: y, b: Reg::IN } });
        }
        self.list.push(Inst::All {});
        if is_last {
            return;
        }
        if !is_sign {
            // So the weight was taken where the bit is 1.
            self.list.push(add);
        }
        self.list.push(Inst::Movx { y, x: y, d: way(&self.home.block, bit - 1, bit) });
    }
}

/// The direction in which the element of a bit sees that of the next one or the one before.
fn way(block: &Block, from: usize, to: usize) -> Direction {
    toward(block.path[from], block.path[to]).expect("a path goes from neighbour to neighbour")
}

/// Makes analogue values of results, bits below the converter dropped; what is beyond it becomes the
/// nearest value that it has.
///
/// # Errors
/// As [`Block::new`]; `Q5121` when registers do not suffice.
pub(crate) fn dac(home: &Home, channels: &[Option<Converter>]) -> Result<Vec<Inst>> {
    let mut list = Vec::new();
    for (converter, place) in channels.iter().zip(&home.outputs) {
        let Some(converter) = converter else { continue };
        let home = moved(home, place.bank)?;
        let mut writer = Writer::of_results(&home);
        let bits = limited(&mut writer, &home, converter, place.register);
        let y = converter.analogue;
        writer.push(Inst::Res { y });
        for bit in converter.unit..=converter.top() {
            if bit > converter.unit {
                writer.push(Inst::Movx { y, x: y, d: way(&home.block, bit, bit - 1) });
            }
            writer.push(Inst::LoadIn { v: weight(converter, bit) });
            writer.push(Inst::WhereBit { a: bits });
            writer.push(Inst::Add { y, a: y, b: Reg::IN });
            writer.push(Inst::All {});
        }
        list.extend(writer.end().map_err(|missing| too_few(home.pool.len(), missing))?);
    }
    Ok(list)
}

/// A register with the bits of a number that a converter has, or of the nearest number of these.
fn limited(writer: &mut Writer<'_>, home: &Home, converter: &Converter, x: Reg) -> Reg {
    let Home { mask, masked, select, block, .. } = home;
    let (mask, masked, top) = (*mask, *masked, converter.top());
    let (below, rest) = block.path.split_at(top);
    if rest.len() == 1 {
        return x;
    }
    let (c, e) = (Reg::NONE, Reg::NONE);
    writer.sign(x);
    let (sign, other, same) = (writer.take(), writer.take(), writer.take());
    writer.push(Inst::Move { d: sign, a: masked });
    writer.push(Inst::Nor { d: other, a: x, b: sign, c, e });
    writer.push(Inst::Nor { d: same, a: x, b: other, c, e });
    writer.push(Inst::Nor { d: other, a: sign, b: other, c, e });
    writer.push(Inst::Nor { d: same, a: same, b: other, c, e });
    // Where a bit from the top on is not the sign, the number is beyond the converter: 1 from there down.
    writer.push(set(mask));
    writer.push(set(masked));
    let patterns = block.bank(below, rest);
    if patterns.is_empty() {
        writer.push(clear(&[mask]));
    }
    load(mask, &patterns, *select).into_iter().for_each(|inst| writer.push(inst));
    writer.push(Inst::Or { d: mask, a: mask, b: same, c, e });
    writer.turn(Look::Above);
    for _ in &block.path {
        writer.push(Inst::Dnews0 { d: masked, a: masked });
    }
    writer.push(Inst::Move { d: other, a: masked });
    writer.push(set(mask));
    writer.push(Inst::Move { d: masked, a: x });
    writer.push(Inst::Move { d: mask, a: other });
    writer.push(Inst::Not { d: masked, a: sign });
    let others: Vec<_> = [below, &rest[1..]].concat();
    let patterns = block.bank(&rest[..1], &others);
    load(mask, &patterns, *select).into_iter().for_each(|inst| writer.push(inst));
    writer.push(Inst::Move { d: masked, a: sign });
    masked
}
