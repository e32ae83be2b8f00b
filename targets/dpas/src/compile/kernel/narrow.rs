//! Weights that lie in the constants in fewer bits than they are multiplied in.

use super::{Kernel, float};
use crate::program::Element;
use quincunx_num::{E4M3, E5M2, FloatOverflow};

/// Registers of a block of B.
const BLOCK: usize = 8;

/// What floats are held as; every one exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Narrow {
    /// Whole numbers of 4 bits.
    Codes4,
    /// Whole numbers of 8 bits.
    Codes8,
    /// OCP 8-bit floats with 2 bits of mantissa: the upper halves of those of 16 bits.
    E5m2,
    /// OCP 8-bit floats with 3 bits of mantissa.
    E4m3,
}

impl Narrow {
    /// The name of the type.
    pub(in super::super) fn name(self) -> &'static str {
        match self {
            Narrow::Codes4 => "s4",
            Narrow::Codes8 => "s8",
            Narrow::E5m2 => "e5m2",
            Narrow::E4m3 => "e4m3",
        }
    }

    /// The one of the fewest bits that holds all of these numbers, if any does.
    pub(in super::super) fn of(numbers: impl Iterator<Item = f64> + Clone) -> Option<Narrow> {
        let all = [Narrow::Codes4, Narrow::Codes8, Narrow::E5m2, Narrow::E4m3];
        all.into_iter().find(|narrow| numbers.clone().all(|number| narrow.holds(number)))
    }

    fn holds(self, number: f64) -> bool {
        let is_whole = |low: f64, high: f64| {
            number.fract() == 0.0
                && (low..=high).contains(&number)
                && !(number == 0.0 && number.is_sign_negative())
        };
        match self {
            Narrow::Codes4 => is_whole(-8.0, 7.0),
            Narrow::Codes8 => is_whole(-128.0, 127.0),
            Narrow::E5m2 | Narrow::E4m3 => number.is_finite() && self.float(number).1 == number,
        }
    }

    /// The bits of the nearest float, and its number.
    fn float(self, number: f64) -> (u8, f64) {
        let overflow = FloatOverflow::Saturate;
        let found = match self {
            Narrow::E4m3 => E4M3::from_f64(number, overflow).map(|x| (x.to_bits(), x.to_f64())),
            _ => E5M2::from_f64(number, overflow).map(|x| (x.to_bits(), x.to_f64())),
        };
        found.map_or((0, 0.0), |(bits, number)| (bits as u8, number))
    }

    /// The bits of a number that it holds; of codes of 4 bits the lower ones.
    pub(in super::super) fn code(self, number: f64) -> u8 {
        match self {
            Narrow::Codes4 | Narrow::Codes8 => number as i8 as u8,
            Narrow::E5m2 | Narrow::E4m3 => self.float(number).0,
        }
    }

    fn bits(self) -> usize {
        if self == Narrow::Codes4 { 4 } else { 8 }
    }
}

/// How weights lie in the constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Packing {
    /// As they are multiplied: codes of so many bits. Floats count as bytes.
    Direct(usize),
    /// Floats of a type, in fewer bits.
    Narrow(Narrow, Element),
}

impl Packing {
    /// Registers of a block as it is loaded.
    pub(in super::super) fn loaded(self) -> usize {
        match self {
            Packing::Direct(bits) => bits,
            Packing::Narrow(narrow, element) => narrow.bits() / element.bytes() as usize,
        }
    }

    /// Registers of a block as it is multiplied: as many as a code has bits, of floats 8.
    pub(in super::super) fn registers(self) -> usize {
        match self {
            Packing::Direct(bits) => bits,
            Packing::Narrow(..) => BLOCK,
        }
    }

    /// Registers in which blocks are converted.
    pub(super) fn free(self) -> usize {
        match self {
            Packing::Direct(_) => 0,
            Packing::Narrow(_, element) if element.bytes() == 4 => BLOCK,
            Packing::Narrow(..) => 2 * BLOCK,
        }
    }

    /// Those, and behind them registers in which so many loaded blocks wait.
    pub(super) fn waiting(self, blocks: usize) -> usize {
        match self {
            Packing::Direct(_) => 0,
            Packing::Narrow(..) => self.free() + blocks * self.loaded(),
        }
    }

    /// A loaded block becomes one that is multiplied. An instruction is written for all registers before
    /// the next one: each then has its operands when it starts.
    pub(super) fn unpack(self, k: &mut Kernel, (from, to): (usize, usize), free: usize) {
        let Packing::Narrow(narrow, element) = self else { return };
        let n = k.lanes();
        // A register has one or two of floats of 32 bits; one of the two is in its place.
        let parts = 4 / element.bytes() as usize;
        let places = |register: usize| match parts {
            1 => (free + register, to + register),
            _ => (to + register, free + parts * register),
        };
        let source = |register: usize| match narrow {
            Narrow::Codes8 => {
                let byte = register * parts * n;
                (from + byte / (4 * n), byte % (4 * n), "b")
            }
            Narrow::Codes4 => (places(register).0, 0, if parts == 1 { "d" } else { "w" }),
            Narrow::E5m2 | Narrow::E4m3 => (places(register).0, 0, "hf"),
        };
        match narrow {
            Narrow::Codes8 => {}
            Narrow::Codes4 => codes(k, from, (&|r| places(r).0, parts)),
            Narrow::E5m2 | Narrow::E4m3 => halves(k, (narrow, from), (&|r| places(r).0, parts)),
        }
        let all = || (0..BLOCK).flat_map(|register| (0..parts).map(move |part| (register, part)));
        for (register, part) in all() {
            let ((from, at, kind), to) = (source(register), places(register).1 + part);
            let at = at + part * n;
            k.line(format_args!("mov ({n}|M0) r{to}.0<1>:f r{from}.{at}<1;1,0>:{kind}"));
        }
        for (register, part) in all().filter(|_| narrow == Narrow::E4m3) {
            let (x, by) = (places(register).1 + part, float(256.0));
            k.line(format_args!("mul ({n}|M0) r{x}.0<1>:f r{x}.0<1;1,0>:f {by}"));
        }
        for (register, part) in all().filter(|_| parts > 1) {
            let (from, to, at) = (places(register).1 + part, to + register, part * n);
            let kind = element.name();
            k.line(format_args!("mov ({n}|M0) r{to}.{at}<1>:{kind} r{from}.0<1;1,0>:f"));
        }
    }
}

/// Codes of 4 bits become words or dwords: those of the same place in four or eight registers lie
/// together in one.
fn codes(k: &mut Kernel, from: usize, (place, parts): (&dyn Fn(usize) -> usize, usize)) {
    let (kind, lanes, top) = match parts {
        1 => ("d", k.lanes(), 28),
        _ => ("w", 2 * k.lanes(), 12),
    };
    let share = top / 4 + 1;
    for register in 0..BLOCK {
        let (x, from, by) =
            (place(register), from + register / share, top - 4 * (register % share));
        k.line(format_args!("shl ({lanes}|M0) r{x}.0<1>:{kind} r{from}.0<1;1,0>:{kind} {by}:w"));
    }
    for x in (0..BLOCK).map(place) {
        k.line(format_args!("asr ({lanes}|M0) r{x}.0<1>:{kind} r{x}.0<1;1,0>:{kind} {top}:w"));
    }
}

/// Floats of 8 bits become such of 16.
fn halves(
    k: &mut Kernel,
    (narrow, from): (Narrow, usize),
    (place, parts): (&dyn Fn(usize) -> usize, usize),
) {
    let (n, lanes) = (k.lanes(), parts * k.lanes());
    for register in 0..BLOCK {
        let (x, byte) = (place(register), register * lanes);
        let (from, at) = (from + byte / (4 * n), byte % (4 * n));
        k.line(format_args!("mov ({lanes}|M0) r{x}.0<1>:uw r{from}.{at}<1;1,0>:ub"));
    }
    // Of E4M3 the exponent has a bit less and another bias: the sign is copied beside itself and taken
    // off there, and what is left is 2^8 too small.
    let steps: &[&str] = match narrow {
        Narrow::E4m3 => &["shl uw 8:w", "asr w 1:w", "and uw 0xbfff:uw"],
        _ => &["shl uw 8:w"],
    };
    for step in steps {
        let mut words = step.split(' ');
        let [op, kind, by] = [(); 3].map(|()| words.next().unwrap_or_default());
        for x in (0..BLOCK).map(place) {
            k.line(format_args!("{op} ({lanes}|M0) r{x}.0<1>:{kind} r{x}.0<1;1,0>:{kind} {by}"));
        }
    }
}
