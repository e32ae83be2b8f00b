//! Operands that are unpacked before products use them: rows of A, or lanes of B, as numbers of one
//! width.
//!
//! A row of A is a run of dwords; a register row of B holds a dword for every lane. Unpacked, dword
//! `d` of a row becomes the elements `d * per ..` of the row, and a row of dwords of B becomes `per`
//! rows of elements, a lane beside the other.

use super::sums::at_level;
use super::unpack::Unpack;
use crate::precision::Precision;
use crate::shape::Shape;
use crate::simulate::exec::Operation;
pub(super) use crate::simulate::state::Line;
use quincunx_num::Level;
use std::collections::HashMap;

/// Most dwords of an operand: 8 rows of B with 16 lanes.
const MAX_WORDS: usize = 128;
/// Most unpacked operands of a plan, in lines.
const MAX_LINES: usize = 1 << 18;

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
    File(u32),
    /// Among the unpacked rows of A, from this line on.
    Left(u32),
    /// Among the unpacked rows of B, from this line on.
    Right(u32),
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
            from: Place::File(operation.src2 as u32),
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
            from: Place::File(operation.src1 as u32),
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

    pub(super) fn precision(&self) -> Precision {
        self.precision
    }

    pub(super) fn form(&self) -> Form {
        self.form
    }

    pub(super) fn lanes(&self) -> usize {
        self.lanes
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
    pub(super) fn elements(&self) -> usize {
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

    /// 0 for A, 1 for B.
    fn side(&self) -> usize {
        usize::from(self.lanes > 1)
    }

    /// Bytes from the first to the last element, where rows follow each other.
    fn length(&self) -> usize {
        self.rows * self.row_bytes
    }

    /// True if rows are whole dwords, one behind the other.
    fn is_whole(&self) -> bool {
        self.stride == self.row_bytes && self.row_bytes.is_multiple_of(4)
    }

    /// True if its elements are all of its lines.
    fn fills_lines(&self) -> bool {
        let size = match self.form {
            Form::Bytes { .. } => 1,
            _ => 4,
        };
        self.elements() * size == 64 * self.lines()
    }

    /// Lines of f32 before those of f64.
    pub(super) fn single_lines(&self) -> usize {
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

struct Entry {
    block: Block,
    /// The first of its lines, and their number.
    first: usize,
    count: usize,
    /// Lines of f32 before those of f64.
    skipped: usize,
}

/// Neighbouring blocks that are unpacked at once.
pub(super) struct Run {
    blocks: Vec<u32>,
    /// Bytes in the registers.
    length: usize,
    /// Lines.
    count: usize,
}

impl Magnitudes {
    /// Those of no number.
    pub(super) const NONE: Magnitudes = Magnitudes { least: u32::MAX, most: 0 };

    /// Those of two blocks together.
    pub(super) fn with(self, other: Magnitudes) -> Magnitudes {
        Magnitudes { least: self.least.min(other.least), most: self.most.max(other.most) }
    }
}

/// The unpacked operands of a plan.
#[derive(Default)]
pub(super) struct Blocks {
    list: Vec<Entry>,
    /// By block.
    magnitudes: Vec<Magnitudes>,
    known: HashMap<Block, usize>,
    /// Lines of A and of B. Blocks of A that are used one after the other are neighbours.
    lines: [Vec<Line>; 2],
}

impl Blocks {
    /// The number of a block; `None` when there are too many.
    pub(super) fn add(&mut self, block: Block) -> Option<usize> {
        if let Some(&id) = self.known.get(&block) {
            return Some(id);
        }
        let lines = &mut self.lines[block.side()];
        let (first, count) = (lines.len(), block.lines());
        if first + count > MAX_LINES {
            return None;
        }
        lines.resize(first + count, Line([0; 16]));
        let id = self.list.len();
        let skipped = if block.form == Form::Doubles { block.single_lines() } else { 0 };
        self.list.push(Entry { block, first, count, skipped });
        self.magnitudes.push(Magnitudes::default());
        self.known.insert(block, id);
        Some(id)
    }

    /// The block with a number.
    pub(super) fn block(&self, id: usize) -> &Block {
        &self.list[id].block
    }

    /// Where the elements of a block are.
    pub(super) fn place(&self, id: usize) -> Place {
        let Entry { block, first, skipped, .. } = &self.list[id];
        let line = (first + skipped) as u32;
        if block.side() == 0 { Place::Left(line) } else { Place::Right(line) }
    }

    /// The magnitudes of the elements of a block of floats.
    pub(super) fn magnitudes(&self, id: u32) -> Magnitudes {
        self.magnitudes[id as usize]
    }

    /// Elements from a place on.
    #[inline(always)]
    pub(super) fn elements<T: bytemuck::Pod>(&self, place: Place) -> &[T] {
        match place {
            Place::Left(line) => bytemuck::cast_slice(&self.lines[0][line as usize..]),
            Place::Right(line) => bytemuck::cast_slice(&self.lines[1][line as usize..]),
            Place::File(_) => &[],
        }
    }

    /// The unpacked rows of A.
    pub(super) fn lefts(&self) -> *const u8 {
        self.lines[0].as_ptr().cast()
    }

    /// The unpacked rows of B.
    pub(super) fn rights(&self) -> *const u8 {
        self.lines[1].as_ptr().cast()
    }

    /// True if one block follows the other, packed and unpacked, so that both are unpacked at once.
    fn adjoin(&self, before: usize, behind: usize) -> bool {
        let (a, b) = (&self.list[before], &self.list[behind]);
        let kind = |entry: &Entry| (entry.block.form, entry.block.precision, entry.block.lanes);
        let same = kind(a) == kind(b);
        let packed = match (a.block.from, b.block.from) {
            (Place::File(a_from), Place::File(b_from)) => {
                a_from as usize + a.block.length() == b_from as usize
            }
            _ => false,
        };
        let unpacked = a.first + a.count == b.first && a.block.fills_lines();
        same && packed
            && unpacked
            && a.block.form != Form::Doubles
            && [a, b].iter().all(|entry| entry.block.is_whole())
    }

    /// Divides blocks into runs that are unpacked at once.
    pub(super) fn runs(&self, blocks: impl Iterator<Item = usize>) -> Vec<Run> {
        let (mut packed, others): (Vec<usize>, Vec<usize>) =
            blocks.partition(|&id| !matches!(self.list[id].block.form, Form::Sums { .. }));
        packed.sort_by_key(|&id| (self.list[id].block.side(), self.list[id].first));
        let run = |ids: &[usize]| Run {
            blocks: ids.iter().map(|&id| id as u32).collect(),
            length: ids.iter().map(|&id| self.list[id].block.length()).sum(),
            count: ids.iter().map(|&id| self.list[id].count).sum(),
        };
        let runs = packed.chunk_by(|&before, &behind| self.adjoin(before, behind));
        runs.map(run).chain(others.chunks(1).map(run)).collect()
    }

    /// Unpacks a run of blocks from the registers.
    pub(super) fn unpack(&mut self, run: &Run, file: &[u8], level: Level) {
        let Some(&id) = run.blocks.first() else { return };
        let Entry { block, first, .. } = &self.list[id as usize];
        let (first, side) = (*first, block.side());
        if let Form::Sums { signed } = block.form {
            let bytes = match block.from {
                Place::File(at) => &file[at as usize..],
                place => self.elements::<u8>(place),
            };
            let bytes = &bytes[..block.rows * block.row_bytes];
            let sums = super::chain::column_sums(bytes, block.lanes, signed);
            self.lines[side][first] = Line(sums);
            return;
        }
        let Place::File(at) = block.from else { return };
        let bytes = &file[at as usize..];
        let out = &mut self.lines[side][first..first + run.count];
        let magnitudes = if block.is_whole() {
            unpack(block, &bytes.as_chunks().0[..run.length / 4], out, level)
        } else {
            unpack(block, gather(block, bytes, &mut [[0; 4]; MAX_WORDS]), out, level)
        };
        for &id in &run.blocks {
            self.magnitudes[id as usize] = magnitudes;
        }
    }
}

fn unpack(block: &Block, words: &[[u8; 4]], out: &mut [Line], level: Level) -> Magnitudes {
    #[cfg(target_arch = "x86_64")]
    if level == Level::Avx512
        && let Some(magnitudes) = super::unpack512::unpack(block, words, out)
    {
        return magnitudes;
    }
    at_level(level, Unpack { block, words, out })
}

/// The dwords of a block; those of rows that end within one are filled up with zeros.
fn gather<'a>(block: &Block, bytes: &[u8], words: &'a mut [[u8; 4]; MAX_WORDS]) -> &'a [[u8; 4]] {
    let row_words = block.row_bytes.div_ceil(4);
    let words = &mut words[..row_words * block.rows];
    for (row, place) in words.as_flattened_mut().chunks_mut(4 * row_words).enumerate() {
        let row = &bytes[row * block.stride..][..block.row_bytes];
        place[..row.len()].copy_from_slice(row);
    }
    words
}

/// True if every row of A starts at a whole byte.
pub(super) fn whole_bytes(shape: &Shape) -> bool {
    shape.repeat == 1 || (shape.row_stride() * shape.activations.bits()).is_multiple_of(8)
}
