//! Blocks of matrices (`load_block2d`, `store_block2d`).

use super::{bits, unsupported};
use quincunx_diag::{Diagnostic, Result};

/// Registers have so many bytes where blocks exist.
const GRF: u32 = 64;

/// A block, as far as the descriptor says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Writes memory.
    pub store: bool,
    /// Bytes of an element.
    pub size: u32,
    /// Rows are interleaved, so that a dword holds consecutive rows of a column.
    pub interleaved: bool,
    /// Rows and columns are exchanged.
    pub transposed: bool,
}

/// The payload: the matrix in memory and the place of the block in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surface {
    /// Address of the first element.
    pub base: u64,
    /// Bytes of a row that exist.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Bytes from one row to the next.
    pub pitch: u32,
    /// Column of the first block, in elements.
    pub x: i32,
    /// Row of the first block.
    pub y: i32,
    /// Columns of a block.
    pub block_width: u32,
    /// Rows of a block.
    pub block_height: u32,
    /// Blocks beside each other.
    pub blocks: u32,
}

impl Block {
    pub(super) fn new(descriptor: u32) -> Result<Block> {
        let store = bits(descriptor, 0, 6) == 7;
        let size = match bits(descriptor, 9, 3) {
            code @ 0..4 => 1u32.wrapping_shl(code),
            other => return Err(unsupported(format!("blocks have no size code {other}"))),
        };
        let block = Block {
            store,
            size,
            interleaved: bits(descriptor, 7, 1) == 1,
            transposed: bits(descriptor, 15, 1) == 1,
        };
        let fault = if block.interleaved && block.transposed {
            "a block is interleaved or transposed, not both"
        } else if store && (block.interleaved || block.transposed) {
            "a stored block is neither interleaved nor transposed"
        } else if block.interleaved && size > 2 {
            "interleaved blocks have 8 or 16 bits"
        } else if block.transposed && size < 4 {
            "transposed blocks have 32 or 64 bits"
        } else {
            return Ok(block);
        };
        Err(Diagnostic::invalid("Q6149", fault))
    }

    /// The payload of 64 bytes.
    ///
    /// # Errors
    /// `Q6153` when the machine has no such block or matrix.
    pub fn surface(&self, payload: &[u8; GRF as usize]) -> Result<Surface> {
        let dword = |index: usize| {
            let (words, _) = payload.as_chunks::<4>();
            words.get(index).map_or(0, |word| u32::from_le_bytes(*word))
        };
        let shape = dword(7);
        let surface = Surface {
            base: u64::from(dword(0)) | u64::from(dword(1)) << 32,
            width: dword(2).saturating_add(1),
            height: dword(3).saturating_add(1),
            pitch: dword(4).saturating_add(1),
            x: dword(5) as i32,
            y: dword(6) as i32,
            block_width: (shape & 255).saturating_add(1),
            block_height: (shape >> 8 & 255).saturating_add(1),
            blocks: (shape >> 16 & 15).saturating_add(1),
        };
        match self.fault(&surface) {
            None => Ok(surface),
            Some(text) => Err(Diagnostic::invalid("Q6153", text)),
        }
    }

    fn fault(&self, surface: &Surface) -> Option<String> {
        let Surface { block_width, block_height, blocks, width, pitch, .. } = *surface;
        let row = block_width.saturating_mul(self.size);
        let bytes = row.saturating_mul(blocks);
        let rows = if self.store { 8 } else { 32 };
        let broken = [
            bytes > GRF,
            row & 3 != 0,
            block_height > rows,
            !matches!(blocks, 1 | 2 | 4),
            self.store && blocks != 1,
            self.transposed && blocks != 1,
            surface.base & 63 != 0,
            width & 3 != 0 || width < 32,
            pitch & 15 != 0 || pitch < width,
            width > 1 << 24 || surface.height > 1 << 24 || pitch > 1 << 24,
        ];
        // Texts are made only where one is needed: programs have millions of blocks.
        Some(match broken.iter().position(|&broken| broken)? {
            0 => format!("a row of all blocks has {bytes} bytes, more than {GRF}"),
            1 => format!("a row of a block has {row} bytes, no multiple of 4"),
            2 => format!("a block has {block_height} rows, more than {rows}"),
            3 => format!("there are {blocks} blocks, not 1, 2 or 4"),
            4 => "more than one block is stored".to_owned(),
            5 => "more than one block is transposed".to_owned(),
            6 => format!("address {:#x} is no multiple of 64", surface.base),
            7 => format!("a matrix has rows of {width} bytes"),
            8 => format!("rows of a matrix are {pitch} bytes apart"),
            _ => "a matrix is larger than 2^24".to_owned(),
        })
    }

    /// Elements of a row of a block in registers, and its rows there.
    pub(in crate::simulate) fn rows(&self, surface: &Surface) -> (u32, u32) {
        let Surface { block_width, block_height, .. } = *surface;
        if self.transposed {
            return (block_height.next_power_of_two(), block_width);
        }
        let rows = match self.interleaved {
            true => block_height.next_multiple_of(self.group()),
            false => block_height,
        };
        (block_width.next_power_of_two(), rows)
    }

    /// Rows that share a dword.
    pub(in crate::simulate) fn group(&self) -> u32 {
        4u32.checked_div(self.size).unwrap_or(1).max(1)
    }

    /// Bytes of a block in registers: whole registers.
    pub fn block_bytes(&self, surface: &Surface) -> u32 {
        let (width, rows) = self.rows(surface);
        width.saturating_mul(rows).saturating_mul(self.size).next_multiple_of(GRF)
    }

    /// Registers of all blocks.
    pub fn registers(&self, surface: &Surface) -> u32 {
        let bytes = self.block_bytes(surface).saturating_mul(surface.blocks);
        bytes.checked_div(GRF).unwrap_or(0)
    }

    /// The byte of the data where an element of a block lies.
    pub fn element_byte(&self, surface: &Surface, block: u32, x: u32, y: u32) -> u32 {
        let (width, _) = self.rows(surface);
        let element = if self.transposed {
            x.saturating_mul(width).saturating_add(y)
        } else if self.interleaved {
            let group = self.group();
            let within = y.checked_rem(group).unwrap_or(0);
            let row = y.saturating_sub(within).saturating_mul(width);
            row.saturating_add(x.saturating_mul(group)).saturating_add(within)
        } else {
            y.saturating_mul(width).saturating_add(x)
        };
        let start = block.saturating_mul(self.block_bytes(surface));
        start.saturating_add(element.saturating_mul(self.size))
    }
}

impl Surface {
    /// The address of an element of a block of elements of so many bytes; `None` outside of the matrix.
    pub fn address(&self, size: u32, block: u32, x: u32, y: u32) -> Option<u64> {
        let columns = i64::from(self.width.checked_div(size)?);
        let offset = i64::from(block.saturating_mul(self.block_width).saturating_add(x));
        let column = i64::from(self.x).saturating_add(offset);
        let row = i64::from(self.y).saturating_add(i64::from(y));
        let inside = (0..columns).contains(&column) && (0..i64::from(self.height)).contains(&row);
        if !inside {
            return None;
        }
        let byte = row.checked_mul(i64::from(self.pitch))?;
        let byte = byte.checked_add(column.checked_mul(i64::from(size))?)?;
        self.base.checked_add(u64::try_from(byte).ok()?)
    }
}
