//! Which bytes of a thread follow from its launch.

use crate::arch::DpasArch;
use crate::isa::vector::{Input, Op, Register, Terms};
use crate::simulate::thread::flag_bit;
use crate::swsb::Effects;
use crate::swsb::effects::{SPECIAL, SPECIAL_BYTES};
use std::ops::Range;

/// Registers that are not general ones.
const OTHERS: usize = 256;
/// Numbers of flags among them.
const FLAGS: Range<usize> = 0x30..0x40;

/// What is known of a thread.
pub(super) struct Known {
    /// Bytes of the general registers, then of the others.
    bytes: Vec<bool>,
    /// Bits of flags.
    flags: [u32; 4],
    /// Bytes of the general registers.
    file: usize,
    grf: usize,
    /// All lanes are switched on.
    all_lanes: bool,
}

impl Known {
    /// What is known when a thread starts: r0 and r1.
    pub(super) fn new(arch: &DpasArch, all_lanes: bool) -> Known {
        let (file, grf) = (arch.file_bytes() as usize, arch.platform.grf_bytes() as usize);
        let mut bytes = vec![false; file + OTHERS * SPECIAL_BYTES];
        bytes[..2 * grf].fill(true);
        Known { bytes, flags: [0; 4], file, grf, all_lanes }
    }

    /// The place of some bytes; `None` for flags, which are known by their bits, and outside.
    fn place(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let place = match range.start.checked_sub(SPECIAL) {
            None => range.clone(),
            Some(at) if FLAGS.contains(&(at / SPECIAL_BYTES)) => return None,
            Some(at) => self.file + at..self.file + at + range.len(),
        };
        (place.end <= self.bytes.len()).then_some(place)
    }

    /// So many bytes from a register on, if they are known.
    pub(super) fn registers(&self, first: Option<u8>, bytes: usize) -> Option<Range<usize>> {
        let start = usize::from(first?) * self.grf;
        let range = start..start + bytes;
        let known = range.end <= self.file && self.bytes[range.clone()].iter().all(|known| *known);
        known.then_some(range)
    }

    /// True if all that an instruction reads is known.
    pub(super) fn inputs(&self, terms: &Terms, effects: &Effects) -> bool {
        let flags_known = |flag: u8, mask: u32| self.flags[usize::from(flag & 3)] & mask == mask;
        let predicate = terms.control.predicate().is_none_or(|(flag, _)| {
            let mask = (u32::MAX >> (32 - terms.size.lanes())).rotate_left(flag_bit(flag, terms));
            flags_known(flag >> 1, mask)
        });
        let source = |input: &Input| match input {
            Input::Register { register: Register::Flag(flag), .. } => flags_known(*flag, u32::MAX),
            _ => true,
        };
        let bytes = |range: &Range<usize>| {
            self.place(range).is_none_or(|place| self.bytes[place].iter().all(|known| *known))
        };
        predicate && terms.sources.iter().flatten().all(source) && effects.reads.iter().all(bytes)
    }

    /// What an instruction writes is not known.
    pub(super) fn forget(&mut self, effects: &Effects) {
        for range in &effects.writes {
            if let Some(place) = self.place(range) {
                self.bytes[place].fill(false);
            }
        }
    }

    /// Nor are its flags.
    pub(super) fn forget_flags(&mut self, terms: &Terms) {
        if let Some((flag, mask)) = written_flags(terms) {
            self.flags[flag] &= !mask;
        }
        if let Some(flag) = flag_of_dst(terms) {
            self.flags[flag] = 0;
        }
    }

    /// Some bytes are known.
    pub(super) fn learn_bytes(&mut self, ranges: &[Range<usize>]) {
        for range in ranges {
            if let Some(place) = self.place(range) {
                self.bytes[place].fill(true);
            }
        }
    }

    /// What an instruction with known inputs has written is known, where it writes all lanes; else
    /// lanes that it leaves are as they were.
    pub(super) fn learn(&mut self, terms: &Terms, together: bool) {
        let on = together && (self.all_lanes || terms.control.no_mask());
        if !on || (terms.control.predicate().is_some() && terms.op != Op::Sel) {
            return;
        }
        if let Some((flag, mask)) = written_flags(terms) {
            self.flags[flag] |= mask;
        }
        let Some(dst) = terms.dst else { return };
        let start = match dst.register {
            Register::Grf(number) => usize::from(number) * self.grf,
            Register::Address => self.file + 0x10 * SPECIAL_BYTES,
            // Accumulators are read as a whole.
            Register::Acc(_) | Register::Flag(_) | Register::Null | Register::Other(_) => return,
        };
        let size = dst.ty.bytes() as usize;
        for lane in 0..terms.size.lanes() {
            let at = start + dst.byte as usize + (lane * dst.stride) as usize * size;
            if let Some(bytes) = self.bytes.get_mut(at..at + size) {
                bytes.fill(true);
            }
        }
    }
}

/// The register of the flag that is dst.
fn flag_of_dst(terms: &Terms) -> Option<usize> {
    match terms.dst?.register {
        Register::Flag(flag) => Some(usize::from(flag & 3)),
        _ => None,
    }
}

/// The flag register and the bits that a condition sets.
fn written_flags(terms: &Terms) -> Option<(usize, u32)> {
    let (condition, flag) = terms.condition.parts();
    let mask = (u32::MAX >> (32 - terms.size.lanes())).rotate_left(flag_bit(flag, terms));
    let sets = condition != 0 && !matches!(terms.op, Op::Sel | Op::Csel);
    sets.then_some((usize::from(flag >> 1 & 3), mask))
}
