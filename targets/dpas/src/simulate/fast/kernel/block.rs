//! Prepared loads and stores of blocks of matrices.

use super::message::prefetch;
use crate::arch::DpasArch;
use crate::isa::vector::Terms;
use crate::simulate::exec::enabled;
use crate::simulate::message::{Block, Request, Space, Storage, Stretch};
use crate::simulate::thread::Thread;
use quincunx_num::Loop;
use std::ops::Range;

/// Bytes of a payload, and of a register where blocks exist.
const GRF: usize = 64;
/// Lanes of a row that the fast forms interleave.
const LANES: usize = 16;

/// A message whose operands lie in the registers, and without a predicate.
pub(super) struct Matrix {
    block: Block,
    /// First byte of the payload and of the data, and bytes of the data.
    payload: usize,
    data: usize,
    length: usize,
    form: Form,
    offset: u32,
    no_mask: bool,
    /// Where the last bytes were.
    hint: usize,
}

/// A message, and the thread and the memory between which it moves data. The result is
/// that of [`Matrix::run`].
pub(super) struct Exchange<'a> {
    pub(super) matrix: &'a mut Matrix,
    pub(super) thread: &'a mut Thread,
    pub(super) memory: &'a mut dyn Storage,
}

impl Loop for Exchange<'_> {
    type Result = bool;

    #[inline(always)]
    fn run(self) -> bool {
        self.matrix.run(self.thread, self.memory)
    }
}

impl Matrix {
    /// A message that can be prepared.
    pub(super) fn new(terms: &Terms, arch: &DpasArch) -> Option<Matrix> {
        let message = terms.message?;
        let descriptor = message.descriptor?;
        if terms.control.predicate().is_some() || terms.options.is_end() {
            return None;
        }
        let request = Request::new(&message, descriptor, terms.size.lanes(), arch.platform).ok()?;
        request.check_counts(&message, descriptor, arch.platform).ok()?;
        let Request::Block(block) = request else { return None };
        let (first, registers) = match block.store {
            true => (message.src1.0?, message.src1.1.into()),
            false => (message.dst?, message.answer_registers(descriptor)),
        };
        let place = |first: u8, bytes: usize| {
            let start = usize::from(first) * GRF;
            (start + bytes <= arch.file_bytes() as usize).then_some(start)
        };
        let length = registers as usize * GRF;
        let simple = !block.transposed && (!block.interleaved || block.group() > 1);
        simple.then_some(Matrix {
            block,
            payload: place(message.src0?, GRF)?,
            data: place(first, length)?,
            length,
            form: Form::NONE,
            offset: terms.size.offset(),
            no_mask: terms.control.no_mask(),
            hint: 0,
        })
    }

    /// Does it, or nothing: then it may fail, or the lane is off, or columns lie outside.
    #[inline(always)]
    fn run(&mut self, thread: &mut Thread, memory: &mut dyn Storage) -> bool {
        enabled(thread.dispatch_mask, self.offset, self.no_mask) & 1 == 1
            && self.transfer(&mut thread.grf, memory).is_some()
    }

    #[inline(always)]
    fn transfer(&mut self, file: &mut [u8], memory: &mut dyn Storage) -> Option<()> {
        let payload = file[self.payload..].first_chunk::<GRF>()?;
        let key = Form::KEY.map(|at| dword(payload, at));
        if self.form.key != key {
            self.form = Form::new(&self.block, payload, self.length)?;
        }
        let rows = self.form.rows(payload)?;
        let data = &mut file[self.data..self.data + self.length];
        let Form { width, pitch, stride, blocks, .. } = self.form;
        if rows.numbers.is_empty() {
            if !self.block.store {
                data.fill(0);
            }
            return Some(());
        }
        let length = (rows.numbers.len() - 1) * pitch + width * blocks;
        let stretch = Stretch { space: Space::Global, address: rows.first, length };
        if self.block.store {
            let bytes = memory.bytes_mut(stretch, &mut self.hint)?;
            for row in 0..rows.numbers.len() {
                let own = &data[(rows.numbers.start + row) * stride..][..width];
                bytes[row * pitch..][..width].copy_from_slice(own);
            }
            return Some(());
        }
        let bytes = memory.bytes(stretch, &mut self.hint)?;
        match self.block.interleaved {
            true => self.form.interleave(&rows, self.block.size as usize, bytes, data),
            false => self.form.copy(&rows, bytes, data),
        }
        Some(())
    }
}

/// A dword of a payload. A call, so that dwords are read one by one: the processor would wait for those
/// that were just written if they were read with their neighbours.
#[inline(never)]
fn dword(payload: &[u8; GRF], at: usize) -> u32 {
    let (words, _) = payload.as_chunks::<4>();
    words.get(at).map_or(0, |word| u32::from_le_bytes(*word))
}

/// What is the same for all blocks of a message, as long as the shape of the matrix is.
struct Form {
    /// The dwords of the payload it depends on.
    key: [u32; 3],
    /// Bytes of a row of a block, of the matrix, and from one row of the matrix to the next.
    width: usize,
    row: usize,
    pitch: usize,
    /// Rows of a block.
    height: usize,
    blocks: usize,
    /// Bytes of a block in registers, from one row there to the next, and of an element.
    own: usize,
    stride: usize,
    size: usize,
}

/// The rows of blocks that lie in a matrix, all columns of which do.
struct Rows {
    /// Their numbers in a block.
    numbers: Range<usize>,
    /// Address of the first byte.
    first: u64,
}

impl Form {
    /// Width, pitch, shape of the blocks.
    const KEY: [usize; 3] = [2, 4, 7];

    /// The form that no message has.
    const NONE: Form = Form {
        key: [0; 3],
        width: 0,
        row: 0,
        pitch: 0,
        height: 0,
        blocks: 0,
        own: 0,
        stride: 0,
        size: 1,
    };

    /// The form of a payload; `None` where the machine has no such blocks, or for a message with another
    /// number of bytes.
    fn new(block: &Block, payload: &[u8; GRF], length: usize) -> Option<Form> {
        let surface = block.surface(payload).ok()?;
        let size = block.size as usize;
        let form = Form {
            key: Form::KEY.map(|at| dword(payload, at)),
            width: surface.block_width as usize * size,
            row: surface.width as usize,
            pitch: surface.pitch as usize,
            height: surface.block_height as usize,
            blocks: surface.blocks as usize,
            own: block.block_bytes(&surface) as usize,
            stride: block.rows(&surface).0 as usize * size,
            size,
        };
        (form.own * form.blocks == length).then_some(form)
    }

    /// `None` where columns lie outside of the matrix, or there is no such matrix.
    #[inline(always)]
    fn rows(&self, payload: &[u8; GRF]) -> Option<Rows> {
        let base = payload.first_chunk().map_or(0, |base| u64::from_le_bytes(*base));
        let [height, x, y] = [3, 5, 6].map(|at| dword(payload, at));
        let x = usize::try_from(x as i32).ok()?.checked_mul(self.size)?;
        let outside = x + self.width * self.blocks > self.row;
        if outside || base % GRF as u64 != 0 || height >= 1 << 24 {
            return None;
        }
        let (y, height) = (i64::from(y as i32), i64::from(height) + 1);
        let inside = |row: i64| (row - y).clamp(0, self.height as i64) as usize;
        let numbers = inside(0)..inside(height);
        let row = u64::try_from(y + numbers.start as i64).unwrap_or(0);
        let first = base.checked_add(row * self.pitch as u64)?.checked_add(x as u64)?;
        Some(Rows { numbers, first })
    }

    /// Copies rows into registers.
    #[inline(always)]
    fn copy(&self, rows: &Rows, bytes: &[u8], data: &mut [u8]) {
        let whole = rows.numbers.len() == self.height && self.stride == self.width;
        if !whole || self.own != self.height * self.stride {
            data.fill(0);
        }
        if whole && self.pitch == self.width && self.blocks == 1 {
            return data[..bytes.len()].copy_from_slice(bytes);
        }
        let to = &mut data[rows.numbers.start * self.stride..];
        match self.width {
            32 => self.copy_rows::<32>(rows.numbers.len(), bytes, to),
            64 => self.copy_rows::<64>(rows.numbers.len(), bytes, to),
            width => {
                for (row, block) in
                    (0..rows.numbers.len()).flat_map(|row| (0..self.blocks).map(move |b| (row, b)))
                {
                    let from = &bytes[row * self.pitch + block * width..][..width];
                    to[block * self.own + row * self.stride..][..width].copy_from_slice(from);
                }
            }
        }
    }

    /// The same for rows of so many bytes, which are one vector.
    #[inline(always)]
    fn copy_rows<const W: usize>(&self, rows: usize, bytes: &[u8], to: &mut [u8]) {
        let last = |pitch: usize, block: usize| (rows - 1) * pitch + (self.blocks - 1) * block + W;
        assert!(rows > 0 && bytes.len() >= last(self.pitch, W), "all rows are there");
        assert!(to.len() >= last(self.stride, self.own), "all rows have a place");
        for row in 0..rows {
            // SAFETY: No row ends behind the last one of the last block.
            unsafe {
                let from = bytes.as_ptr().add(row * self.pitch);
                let to = to.as_mut_ptr().add(row * self.stride);
                prefetch(from.wrapping_add(W * self.blocks));
                for block in 0..self.blocks {
                    let bytes = from.add(block * W).cast::<[u8; W]>().read_unaligned();
                    to.add(block * self.own).cast::<[u8; W]>().write_unaligned(bytes);
                }
            }
        }
    }

    /// Rows that share a dword are interleaved; what lies outside is 0.
    #[inline(always)]
    fn interleave(&self, rows: &Rows, size: usize, bytes: &[u8], data: &mut [u8]) {
        let group = 4 / size;
        for (block, data) in data.chunks_mut(self.own).enumerate() {
            for (index, place) in data.chunks_mut(self.stride * group).enumerate() {
                let row = |within: usize| {
                    let number = (index * group + within).checked_sub(rows.numbers.start)?;
                    let at = number * self.pitch + block * self.width;
                    (number < rows.numbers.len()).then(|| &bytes[at..at + self.width])
                };
                if let (1, LANES, LANES) = (size, self.stride, self.width)
                    && let [Some(a), Some(b), Some(c), Some(d)] = [0, 1, 2, 3].map(row)
                    && let Some(place) = place.first_chunk_mut::<{ 4 * LANES }>()
                {
                    four(place, [a, b, c, d]);
                    continue;
                }
                place.fill(0);
                for (within, row) in (0..group).filter_map(|within| Some((within, row(within)?))) {
                    for (x, element) in row.chunks(size).enumerate() {
                        place[(x * group + within) * size..][..size].copy_from_slice(element);
                    }
                }
            }
        }
    }
}

/// Four rows of 16 bytes.
#[inline(always)]
fn four(place: &mut [u8; 4 * LANES], rows: [&[u8]; 4]) {
    let rows = rows.map(|row| row.first_chunk::<LANES>().copied().unwrap_or_default());
    let mut all = [0; 4 * LANES];
    for lane in 0..LANES {
        for (within, row) in rows.iter().enumerate() {
            all[4 * lane + within] = row[lane];
        }
    }
    *place = all;
}
