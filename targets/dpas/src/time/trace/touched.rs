//! Which lines of memory a message touches.

use crate::isa::vector::Message;
use crate::simulate::message::block::Surface;
use crate::simulate::message::{Block, Flat, Request, Space};

/// Bytes of a line of the caches (`intel-xe`).
pub(in crate::time) const LINE: u64 = 64;

/// What a message to memory moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::time) struct Access {
    /// The first address, where it is known.
    pub(in crate::time) base: Option<u64>,
    /// Lines that the first cache gave or took: none for a prefetch.
    pub(in crate::time) lines: u32,
    /// Those that the first cache did not hold.
    pub(in crate::time) fresh: u32,
    /// The thread's earlier messages that brought the others, which may still be under way.
    pub(in crate::time) brought: Vec<u32>,
    /// It is to memory that a group shares.
    pub(in crate::time) shared: bool,
}

/// Bytes of the payload of a block that mean something.
const PAYLOAD: usize = 32;

/// Bytes of the address registers that a message reads.
pub(super) fn address_bytes(request: &Request) -> usize {
    match request {
        Request::Flat(flat) => (flat.lanes * flat.address) as usize,
        Request::Block(_) => PAYLOAD,
    }
}

/// What a message with these address registers touches; `take` takes a line to the first cache
/// and says which message brought it there before. Lines of stores always leave it.
pub(super) fn access(
    request: &Request,
    message: &Message,
    descriptor: u32,
    registers: Option<&[u8]>,
    mut take: impl FnMut(u64) -> Option<u32>,
) -> Access {
    let (store, shared) = match request {
        Request::Flat(flat) => (flat.store, flat.space == Space::Shared),
        Request::Block(block) => (block.store, false),
    };
    let spans = registers.and_then(|bytes| match request {
        Request::Flat(flat) => Some(flat_spans(flat, bytes)),
        Request::Block(block) => block_spans(block, bytes),
    });
    let Some(spans) = spans else {
        // As many as there are registers of data.
        let count = match store {
            true => message.src1.1.into(),
            false => message.answer_registers(descriptor),
        };
        let lines = count.max(1);
        let fresh = if shared { 0 } else { lines };
        return Access { base: None, lines, fresh, brought: Vec::new(), shared };
    };
    // A block outside of its matrix touches nothing, wherever it is.
    let base = Some(spans.first().map_or(0, |&(start, _)| start));
    let line = |&(start, bytes): &(u64, u64)| {
        start / LINE..start.saturating_add(bytes.max(1)).div_ceil(LINE)
    };
    let mut touched: Vec<u64> = spans.iter().flat_map(line).collect();
    touched.sort_unstable();
    touched.dedup();
    let all = touched.len() as u32;
    let (fresh, brought) = match (shared, store) {
        (true, _) => (0, Vec::new()),
        (false, true) => (all, Vec::new()),
        (false, false) => {
            let mut held: Vec<u32> = touched.into_iter().filter_map(&mut take).collect();
            let fresh = all - held.len() as u32;
            held.sort_unstable();
            held.dedup();
            (fresh, held)
        }
    };
    let lines = if store || message.dst.is_some() { all } else { 0 };
    Access { base, lines, fresh, brought, shared }
}

/// Addresses and bytes of all lanes.
fn flat_spans(flat: &Flat, registers: &[u8]) -> Vec<(u64, u64)> {
    let size = flat.address as usize;
    let bytes = u64::from(flat.vector) * u64::from(flat.memory);
    let lanes = registers.chunks_exact(size).take(flat.lanes as usize);
    lanes.map(|lane| (number(lane), bytes)).collect()
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Addresses and bytes of the rows of all blocks that lie in the matrix; `None` for blocks that the
/// machine does not have.
fn block_spans(block: &Block, registers: &[u8]) -> Option<Vec<(u64, u64)>> {
    let mut payload = [0; 64];
    payload[..PAYLOAD].copy_from_slice(registers.get(..PAYLOAD)?);
    let surface = block.surface(&payload).ok()?;
    let Surface { base, width, height, pitch, x, y, block_width, block_height, blocks } = surface;
    let size = i64::from(block.size);
    let first = i64::from(x) * size;
    let end = first + i64::from(block_width) * i64::from(blocks) * size;
    let (first, end) = (first.max(0), end.min(width.into()));
    let rows = (0..i64::from(block_height)).map(|row| row + i64::from(y));
    let inside = rows.filter(|row| (0..i64::from(height)).contains(row) && first < end);
    let span = |row: i64| {
        let start = base.saturating_add((row * i64::from(pitch) + first) as u64);
        (start, (end - first) as u64)
    };
    Some(inside.map(span).collect())
}
