//! Operands that are unpacked before products use them: rows of A, or lanes of B, as numbers of one
//! width.
//!
//! A row of A is a run of dwords; a register row of B holds a dword for every lane. Unpacked, dword
//! `d` of a row becomes the elements `d * per ..` of the row, and a row of dwords of B becomes `per`
//! rows of elements, a lane beside the other.

use crate::precision::Precision;
use crate::shape::Shape;
use crate::simulate::decode::{integer, real};
use crate::simulate::exec::Operation;
use quincunx_num::{Level, Loop};
use std::collections::HashMap;

/// Most dwords of an operand: 8 rows of B with 16 lanes.
const MAX_WORDS: usize = 128;
/// Most unpacked operands of a plan, in lines.
const MAX_LINES: usize = 1 << 18;

/// A vector of 512 bits of unpacked elements.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Line([u32; 16]);

// SAFETY: 16 numbers, of which all may be 0.
unsafe impl bytemuck::Zeroable for Line {}
// SAFETY: 16 numbers take 64 bytes, so that the alignment adds none.
unsafe impl bytemuck::Pod for Line {}

/// What elements become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Form {
    /// Bytes, four consecutive ones of a row or lane in a dword; the highest bit may be flipped,
    /// which adds 128 to signed numbers and takes it from unsigned ones.
    Bytes { flipped: bool },
    /// For each lane, 128 times the sum of bytes that are elements of B already.
    Sums { signed: bool },
    /// i32.
    Words,
    /// f32.
    Singles,
    /// f64, behind the same as f32.
    Doubles,
}

/// Where bytes lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// In the registers, from this byte on.
    File(usize),
    /// Unpacked, from this line on.
    Unpacked(usize),
}

/// An operand to unpack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Block {
    /// First byte.
    from: Place,
    /// First byte of what it depends on in the registers, and their number.
    source: (usize, usize),
    /// Type of the elements.
    precision: Precision,
    /// 1 for A.
    lanes: usize,
    /// Rows of A; rows of dwords of B.
    rows: usize,
    /// Bytes of a row that hold elements.
    row_bytes: usize,
    /// Bytes from one row to the next.
    stride: usize,
    form: Form,
}

impl Block {
    /// A of an operation whose rows start at whole bytes.
    pub(super) fn left(operation: &Operation, form: Form) -> Block {
        let shape = &operation.shape;
        let bits = shape.activations.bits();
        Block {
            from: Place::File(operation.src2),
            source: (operation.src2, shape.src2_bytes() as usize),
            precision: shape.activations,
            lanes: 1,
            rows: shape.repeat as usize,
            row_bytes: (shape.k() * bits).div_ceil(8) as usize,
            stride: (shape.row_stride() * bits / 8) as usize,
            form,
        }
    }

    /// B of an operation.
    pub(super) fn right(operation: &Operation, form: Form) -> Block {
        let shape = &operation.shape;
        let row_bytes = shape.lanes as usize * 4;
        Block {
            from: Place::File(operation.src1),
            source: (operation.src1, shape.src1_bytes() as usize),
            precision: shape.weights,
            lanes: shape.lanes as usize,
            rows: shape.src1_bytes() as usize / row_bytes,
            row_bytes,
            stride: row_bytes,
            form,
        }
    }

    /// The sums of B of an operation, whose elements are bytes at a place.
    pub(super) fn sums(operation: &Operation, bytes: Place) -> Block {
        let signed = operation.shape.weights.is_signed();
        let rows = operation.shape.k() as usize / 4;
        Block { from: bytes, rows, ..Block::right(operation, Form::Sums { signed }) }
    }

    /// True if it depends on any of these bytes of the registers.
    pub(super) fn depends_on(&self, bytes: &std::ops::Range<usize>) -> bool {
        let (start, length) = self.source;
        start < bytes.end && bytes.start < start + length
    }

    /// Elements from one row of A to the next: those of whole dwords.
    pub(super) fn row_elements(&self) -> usize {
        self.row_bytes.div_ceil(4) * 32 / self.precision.bits() as usize
    }

    /// Elements, with those that fill up dwords.
    fn elements(&self) -> usize {
        let words = self.row_bytes.div_ceil(4) * self.rows;
        words * 32 / self.precision.bits() as usize
    }

    fn lines(&self) -> usize {
        let bytes = match self.form {
            Form::Bytes { .. } => self.elements(),
            Form::Sums { .. } => 64,
            Form::Words | Form::Singles => 4 * self.elements(),
            Form::Doubles => 4 * self.elements().next_multiple_of(16) + 8 * self.elements(),
        };
        bytes.div_ceil(64)
    }

    /// Lines of f32 before those of f64.
    fn single_lines(&self) -> usize {
        self.elements().div_ceil(16)
    }
}

/// The magnitudes of the elements of a block of floats, as bits of f32.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Magnitudes {
    /// The lowest one but zero; more than every number if there is none.
    pub(super) least: u32,
    /// The highest one.
    pub(super) most: u32,
}

/// The unpacked operands of a plan.
#[derive(Default)]
pub(super) struct Blocks {
    list: Vec<(Block, usize, Magnitudes)>,
    known: HashMap<Block, usize>,
    lines: Vec<Line>,
}

impl Blocks {
    /// The number of a block; `None` when there are too many.
    pub(super) fn add(&mut self, block: Block) -> Option<usize> {
        if let Some(&id) = self.known.get(&block) {
            return Some(id);
        }
        let (first, count) = (self.lines.len(), block.lines());
        if first + count > MAX_LINES {
            return None;
        }
        self.lines.resize(first + count, Line([0; 16]));
        let id = self.list.len();
        self.list.push((block, first, Magnitudes::default()));
        self.known.insert(block, id);
        Some(id)
    }

    /// The block with a number.
    pub(super) fn block(&self, id: usize) -> &Block {
        &self.list[id].0
    }

    /// Where the elements of a block are.
    pub(super) fn place(&self, id: usize) -> Place {
        let (block, first, _) = &self.list[id];
        let skipped = if block.form == Form::Doubles { block.single_lines() } else { 0 };
        Place::Unpacked(first + skipped)
    }

    /// The magnitudes of the elements of a block of floats.
    pub(super) fn magnitudes(&self, id: usize) -> Magnitudes {
        self.list[id].2
    }

    /// Elements from a place on.
    pub(super) fn elements<T: bytemuck::Pod>(&self, place: Place) -> &[T] {
        match place {
            Place::Unpacked(line) => bytemuck::cast_slice(&self.lines[line..]),
            Place::File(_) => &[],
        }
    }

    /// Unpacks a block from the registers.
    pub(super) fn unpack(&mut self, id: usize, file: &[u8], level: Level) {
        let (block, first, _) = self.list[id];
        if let Form::Sums { signed } = block.form {
            let sums = {
                let bytes = match block.from {
                    Place::File(at) => &file[at..],
                    place => self.elements::<u8>(place),
                };
                column_sums(&block, &bytes[..block.rows * block.row_bytes], signed)
            };
            self.lines[first] = Line(sums);
            return;
        }
        let Place::File(at) = block.from else { return };
        let mut words = [0; MAX_WORDS];
        let words = gather(&block, &file[at..], &mut words);
        let out = &mut self.lines[first..first + block.lines()];
        self.list[id].2 = level.run(Unpack { block: &block, words, out });
    }
}

/// The dwords of a block; those of rows that end within one are filled up with zeros.
fn gather<'a>(block: &Block, bytes: &[u8], words: &'a mut [u32; MAX_WORDS]) -> &'a [u32] {
    let row_words = block.row_bytes.div_ceil(4);
    let count = row_words * block.rows;
    let places: &mut [u8] = bytemuck::cast_slice_mut(&mut words[..count]);
    if block.stride == 4 * row_words && block.row_bytes == block.stride {
        places.copy_from_slice(&bytes[..4 * count]);
    } else {
        for (row, place) in places.chunks_mut(4 * row_words).enumerate() {
            let row = &bytes[row * block.stride..][..block.row_bytes];
            place[..row.len()].copy_from_slice(row);
        }
    }
    words[..count].iter_mut().for_each(|word| *word = u32::from_le(*word));
    &words[..count]
}

/// 128 times the sum of the four bytes of every dword of every row, lane by lane.
fn column_sums(block: &Block, bytes: &[u8], signed: bool) -> [u32; 16] {
    let mut sums = [0u32; 16];
    for row in bytes.chunks(block.row_bytes) {
        for (sum, lane) in sums.iter_mut().zip(row.as_chunks::<4>().0) {
            let sum_of = |byte: u8| match signed {
                true => i32::from(byte.cast_signed()),
                false => i32::from(byte),
            };
            let four: i32 = lane.iter().map(|&byte| sum_of(byte)).sum();
            *sum = sum.wrapping_add((128 * four) as u32);
        }
    }
    sums
}

struct Unpack<'a> {
    block: &'a Block,
    words: &'a [u32],
    out: &'a mut [Line],
}

impl Loop for Unpack<'_> {
    type Result = Magnitudes;

    #[inline(always)]
    fn run(self) -> Magnitudes {
        match self.block.form {
            Form::Bytes { flipped } => {
                self.bytes(if flipped { 0x8080_8080 } else { 0 });
                Magnitudes::default()
            }
            Form::Words => {
                self.words();
                Magnitudes::default()
            }
            Form::Singles => self.singles(),
            Form::Doubles => {
                let (count, skipped) = (self.block.elements(), self.block.single_lines());
                let (singles, doubles) = self.out.split_at_mut(skipped);
                let magnitudes =
                    Unpack { block: self.block, words: self.words, out: &mut *singles }.singles();
                let singles: &[f32] = bytemuck::cast_slice(singles);
                let doubles: &mut [f64] = bytemuck::cast_slice_mut(doubles);
                for (double, &single) in doubles.iter_mut().zip(&singles[..count]) {
                    *double = single.into();
                }
                magnitudes
            }
            // Made from bytes.
            Form::Sums { .. } => Magnitudes::default(),
        }
    }
}

impl Unpack<'_> {
    #[inline(always)]
    fn bytes(self, flip: u32) {
        let (words, lanes, out) = (self.words, self.block.lanes, self.out);
        let out: &mut [u32] = bytemuck::cast_slice_mut(out);
        // The sign bit of an element is copied into all higher ones of its byte: bit `b`, times
        // `2^(8 - b) - 2`.
        let signed = self.block.precision.is_signed();
        match self.block.precision.bits() {
            1 => expand::<8, _>(words, lanes, out, |word, part| {
                let bytes = spread::<1>(word >> (4 * part));
                (if signed { bytes * 0xff } else { bytes }) ^ flip
            }),
            2 => expand::<4, _>(words, lanes, out, |word, part| {
                let bytes = spread::<2>(word >> (8 * part));
                (if signed { bytes | ((bytes & 0x0202_0202) * 0x7e) } else { bytes }) ^ flip
            }),
            4 => expand::<2, _>(words, lanes, out, |word, part| {
                let bytes = spread::<4>(word >> (16 * part));
                (if signed { bytes | ((bytes & 0x0808_0808) * 0x1e) } else { bytes }) ^ flip
            }),
            _ => expand::<1, _>(words, lanes, out, |word, _| word ^ flip),
        }
        #[cfg(target_endian = "big")]
        out.iter_mut().for_each(|word| *word = word.to_le());
    }

    #[inline(always)]
    fn words(self) {
        let (words, lanes, precision) = (self.words, self.block.lanes, self.block.precision);
        let out: &mut [i32] = bytemuck::cast_slice_mut(self.out);
        match precision.bits() {
            1 => expand::<32, _>(words, lanes, out, |w, j| integer(precision, (w >> j).into())),
            2 => {
                expand::<16, _>(words, lanes, out, |w, j| integer(precision, (w >> (2 * j)).into()))
            }
            4 => {
                expand::<8, _>(words, lanes, out, |w, j| integer(precision, (w >> (4 * j)).into()))
            }
            _ => {
                expand::<4, _>(words, lanes, out, |w, j| integer(precision, (w >> (8 * j)).into()))
            }
        }
    }

    #[inline(always)]
    fn singles(self) -> Magnitudes {
        let (words, lanes, count) = (self.words, self.block.lanes, self.block.elements());
        let out: &mut [f32] = &mut bytemuck::cast_slice_mut(self.out)[..count];
        let precision = self.block.precision;
        match precision {
            Precision::Bf => expand::<2, _>(words, lanes, out, |word, part| {
                f32::from_bits(if part == 0 { word << 16 } else { word & 0xffff_0000 })
            }),
            Precision::Hf => {
                expand::<2, _>(words, lanes, out, |word, part| half(word >> (16 * part)))
            }
            Precision::Tf32 => {
                expand::<1, _>(words, lanes, out, |word, _| f32::from_bits(word & 0xffff_e000));
            }
            Precision::E2m1 => expand::<8, _>(words, lanes, out, |word, part| {
                real(precision, (word >> (4 * part) & 15).into())
            }),
            _ => expand::<4, _>(words, lanes, out, |word, part| {
                real(precision, (word >> (8 * part) & 255).into())
            }),
        }
        magnitudes(out)
    }
}

/// The lowest and the highest magnitude. NaN counts as its bits, above infinity.
#[inline(always)]
pub(super) fn magnitudes(numbers: &[f32]) -> Magnitudes {
    let (mut below, mut most) = (u32::MAX, 0);
    for number in numbers {
        let bits = number.to_bits() & 0x7fff_ffff;
        most = most.max(bits);
        // Zero becomes the highest number.
        below = below.min(bits.wrapping_sub(1));
    }
    Magnitudes { least: below.saturating_add(1), most }
}

/// IEEE binary16 in the low half of a dword, as f32; a NaN stays one.
#[inline(always)]
fn half(code: u32) -> f32 {
    // The fields lie in the right places; the exponent lacks the difference of the biases. Products
    // with powers of two are exact, from subnormal numbers too.
    let scaled = f32::from_bits((code & 0x7fff) << 13) * f32::from_bits((112 + 127) << 23);
    let special = if code & 0x7c00 == 0x7c00 { 0x7f80_0000 } else { 0 };
    f32::from_bits(scaled.to_bits() | special | (code & 0x8000) << 16)
}

/// The four lowest elements of `BITS` bits, each in a byte.
#[inline(always)]
fn spread<const BITS: u32>(word: u32) -> u32 {
    let element = |index: u32| (word >> (BITS * index) & ((1 << BITS) - 1)) << (8 * index);
    element(0) | element(1) | element(2) | element(3)
}

/// Makes `PER` elements of every dword.
#[inline(always)]
fn expand<const PER: usize, T>(
    words: &[u32],
    lanes: usize,
    out: &mut [T],
    element: impl Fn(u32, u32) -> T,
) {
    match lanes {
        1 => {
            for (out, &word) in out.as_chunks_mut::<PER>().0.iter_mut().zip(words) {
                for (part, out) in out.iter_mut().enumerate() {
                    *out = element(word, part as u32);
                }
            }
        }
        8 => expand_rows::<PER, 8, T>(words, out, element),
        _ => expand_rows::<PER, 16, T>(words, out, element),
    }
}

#[inline(always)]
fn expand_rows<const PER: usize, const LANES: usize, T>(
    words: &[u32],
    out: &mut [T],
    element: impl Fn(u32, u32) -> T,
) {
    let mut rows = out.as_chunks_mut::<LANES>().0.iter_mut();
    for words in words.as_chunks::<LANES>().0 {
        for (part, row) in rows.by_ref().take(PER).enumerate() {
            for (out, &word) in row.iter_mut().zip(words) {
                *out = element(word, part as u32);
            }
        }
    }
}

/// True if every row of A starts at a whole byte.
pub(super) fn whole_bytes(shape: &Shape) -> bool {
    shape.repeat == 1 || (shape.row_stride() * shape.activations.bits()).is_multiple_of(8)
}
