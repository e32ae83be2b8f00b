//! Tensors of a graph as vectors: where the elements of a port are, and where the values of layers
//! can be read.

use crate::arch::TcuArch;
use crate::program::Memory;
use quincunx_diag::{Diagnostic, Result};
use quincunx_isa::{Cursor, Style};
use std::fmt;

/// A tensor as positions and channels: `[N, C, …]` has the positions `n * S + s` where `s` counts
/// the elements behind the channels, `[C]` has one. The channels of a position fill whole vectors,
/// zeros behind the last one (`tensil` in `docs/bibliography.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    batch: usize,
    channels: usize,
    spatial: usize,
    lanes: usize,
}

impl Table {
    /// `None` for a tensor without axes or with too many elements.
    pub(crate) fn new(shape: &[usize], lanes: usize) -> Option<Table> {
        let (batch, channels, rest) = match shape {
            [] => return None,
            [channels] => (1, *channels, &shape[1..]),
            [batch, channels, rest @ ..] => (*batch, *channels, rest),
        };
        let spatial = rest.iter().try_fold(1_usize, |all, &extent| all.checked_mul(extent))?;
        let table = Table { batch, channels, spatial, lanes };
        table.scalars().map(|_| table)
    }

    /// Positions.
    pub(crate) fn positions(&self) -> usize {
        self.batch * self.spatial
    }

    /// Vectors of a position.
    pub(crate) fn blocks(&self) -> usize {
        self.channels.div_ceil(self.lanes)
    }

    /// Scalars of all vectors.
    fn scalars(&self) -> Option<usize> {
        let vectors = self.batch.checked_mul(self.spatial)?.checked_mul(self.blocks())?;
        vectors.checked_mul(self.lanes)
    }

    /// Vectors.
    pub(crate) fn vectors(&self) -> u64 {
        (self.positions() * self.blocks()) as u64
    }

    /// The vectors of a tensor, block by block within a position.
    pub(crate) fn vectors_of<T: Copy + Default>(&self, elements: &[T]) -> Vec<T> {
        let width = self.blocks() * self.lanes;
        let mut vectors = vec![T::default(); self.positions() * width];
        for (plane, first) in elements.chunks(self.spatial.max(1)).zip(self.planes()) {
            let places = vectors[first..].iter_mut().step_by(width);
            places.zip(plane).for_each(|(place, &element)| *place = element);
        }
        vectors
    }

    /// The tensor of such vectors, each scalar decoded.
    pub(crate) fn elements_of<T: Copy, R>(&self, vectors: &[T], decode: impl Fn(T) -> R) -> Vec<R> {
        let width = self.blocks() * self.lanes;
        let mut elements = Vec::with_capacity(self.batch * self.channels * self.spatial);
        for first in self.planes() {
            let places = vectors[first..].iter().step_by(width).take(self.spatial);
            elements.extend(places.map(|&scalar| decode(scalar)));
        }
        elements
    }

    /// Position, vector within it, and lane of an element that exists.
    pub(crate) fn place_of(&self, element: usize) -> (usize, usize, usize) {
        let (plane, at) = (element / self.spatial, element % self.spatial);
        let (image, channel) = (plane / self.channels, plane % self.channels);
        (image * self.spatial + at, channel / self.lanes, channel % self.lanes)
    }

    /// The first scalar of every channel of every image; the next ones follow one position apart.
    fn planes(&self) -> impl Iterator<Item = usize> + use<> {
        let Table { batch, channels, spatial, .. } = *self;
        let width = self.blocks() * self.lanes;
        let filled = if spatial == 0 { 0 } else { batch };
        (0..filled).flat_map(move |n| (0..channels).map(move |c| n * spatial * width + c))
    }
}

/// The positions of one block of channels: `base`, `base + step`, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// Memory.
    pub(crate) memory: Memory,
    /// First vector.
    pub(crate) base: u64,
    /// From one position to the next.
    pub(crate) step: u64,
}

/// The place of a layer's value, `DRAM0(64+2) DRAM0(65+2)`: base and step of every block of
/// channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Columns(pub(crate) Vec<Column>);

impl Columns {
    /// Reads a place.
    ///
    /// # Errors
    /// `Q3078` when it is malformed or not in the machine's memories for so many positions.
    pub(crate) fn parse(text: &str, positions: usize, arch: &TcuArch) -> Result<Columns> {
        let wrong = || {
            let shown: String = text.chars().take(60).collect();
            let message =
                format!("\"{}\" is not a place of {positions} positions", shown.escape_debug());
            Diagnostic::invalid("Q3078", message)
                .help("expected base and step of every block of channels, such as DRAM0(64+2)")
        };
        let column = |word: &str| {
            let mut cursor = Cursor::new(word, quincunx_diag::SourceId(0), Style::HASH);
            let memories = [Memory::Dram0, Memory::Local];
            let memory = memories.into_iter().find(|memory| cursor.eat_word(memory.name()))?;
            cursor.expect("(").ok()?;
            let base = u64::try_from(cursor.integer().ok()?).ok()?;
            cursor.expect("+").ok()?;
            let step = u64::try_from(cursor.integer().ok()?).ok()?;
            cursor.expect(")").ok()?;
            let last = (positions as u64).checked_sub(1)?.checked_mul(step)?.checked_add(base)?;
            let fits = cursor.at_end() && last < memory.depth(arch);
            fits.then_some(Column { memory, base, step })
        };
        let columns: Option<Vec<Column>> = text.split(' ').map(column).collect();
        columns.map(Columns).ok_or_else(wrong)
    }
}

impl fmt::Display for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Column { memory, base, step }) in self.0.iter().enumerate() {
            let blank = if index == 0 { "" } else { " " };
            write!(f, "{blank}{}({base}+{step})", memory.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TcuArch;

    #[test]
    fn tensors_become_vectors_and_come_back() {
        let table = Table::new(&[2, 3, 2, 2], 2).unwrap();
        let elements: Vec<i32> = (1..=24).collect();
        let vectors = table.vectors_of(&elements);
        // Position 0 of image 0: channels 0, 1, 2 and a zero.
        assert_eq!(vectors[..8], [1, 5, 9, 0, 2, 6, 10, 0]);
        assert_eq!(vectors.len(), 8 * 2 * 2);
        assert_eq!(table.elements_of(&vectors, |scalar| scalar), elements);
        for (at, &element) in elements.iter().enumerate() {
            let (position, block, lane) = table.place_of(at);
            assert_eq!(vectors[(position * table.blocks() + block) * 2 + lane], element);
        }
        assert!(
            Table::new(&[2, 3, 0], 2).unwrap().elements_of(&[0; 0], |scalar| scalar).is_empty()
        );
        assert_eq!(Table::new(&[5], 4).unwrap().vectors_of(&[1, 2, 3, 4, 5])[4..], [5, 0, 0, 0]);
        assert_eq!(Table::new(&[], 4), None);
        assert_eq!(Table::new(&[usize::MAX, 2], 4), None);
    }

    #[test]
    fn places_are_read_as_written() {
        let arch = TcuArch::preset("artya7100t").unwrap();
        let column = |memory, base, step| Column { memory, base, step };
        let columns = Columns(vec![column(Memory::Dram0, 64, 2), column(Memory::Local, 8191, 0)]);
        let text = columns.to_string();
        assert_eq!(text, "DRAM0(64+2) Local(8191+0)");
        assert_eq!(Columns::parse(&text, 9, &arch).unwrap(), columns);
        for bad in ["", "DRAM0(1)", "DRAM1(0+1)", "Local(8184+1)", "DRAM0(0+1) ", "DRAM0(-1+1)"] {
            assert_eq!(Columns::parse(bad, 9, &arch).unwrap_err().code(), "Q3078", "{bad}");
        }
    }
}
