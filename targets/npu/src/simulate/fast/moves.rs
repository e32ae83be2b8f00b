//! Copies of as many bytes at a time as lie together on both sides.

use super::Scratch;
use super::place::Tensor;
use crate::simulate::state::State;
use crate::work::{
    self, PARAMETER_BYTES, WeightDest, WeightSource, buffer_row_bytes, dense_row_bytes,
    element_bytes,
};
use quincunx_diag::Result;
use std::ops::Range;

/// Activations between DRAM and L2.
pub(super) struct Copy {
    core: usize,
    load: bool,
    bas: usize,
    /// The first byte in DRAM, and bytes from pixel to pixel, row to row, image to image.
    dram: u64,
    dram_pitches: [u64; 3],
    l2: Tensor,
    images: usize,
    rows: usize,
    columns: usize,
    /// Bytes of a pixel that are copied.
    used: usize,
}

impl Copy {
    pub(super) fn prepare(core: usize, copy: &work::Copy, state: &State) -> Option<Copy> {
        let bytes = element_bytes(copy.format);
        let part = (copy.images, copy.tile);
        let l2 = Tensor::new(state, core, copy.l2, part, copy.l2_tensor, bytes)?;
        let pixel = u64::from(copy.dram_pixel());
        let row = pixel * u64::from(copy.dram_tensor[2]);
        let [channels, rows, columns] = copy.tile.map(|extent| extent as usize);
        let used = channels * bytes as usize;
        let mut prepared = Copy {
            core,
            load: copy.load,
            bas: copy.bas.into(),
            dram: copy.dram.into(),
            dram_pitches: [pixel, row, row * u64::from(copy.dram_tensor[1])],
            l2,
            images: copy.images as usize,
            rows,
            columns,
            used,
        };
        prepared.merge();
        Some(prepared)
    }

    /// Pixels, rows and images without gaps on both sides become one pixel.
    fn merge(&mut self) {
        let is_dense = |used: usize, dram: u64, l2: usize| used as u64 == dram && used == l2;
        if !is_dense(self.used, self.dram_pitches[0], self.l2.pixel) {
            return;
        }
        self.used *= std::mem::replace(&mut self.columns, 1);
        if is_dense(self.used, self.dram_pitches[1], self.l2.row) {
            self.used *= std::mem::replace(&mut self.rows, 1);
            if is_dense(self.used, self.dram_pitches[2], self.l2.image) {
                self.used *= std::mem::replace(&mut self.images, 1);
            }
        }
    }

    pub(super) fn run(&self, state: &mut State, scratch: &mut Scratch) -> Result<()> {
        let (l2, dram) = (&mut state.cores[self.core].l2, &mut state.dram[self.bas]);
        // A row of DRAM is read or written at once.
        let pitch = self.dram_pitches[0] as usize;
        let length = (self.columns - 1) * pitch + self.used;
        for (image, y) in (0..self.images).flat_map(|n| (0..self.rows).map(move |y| (n, y))) {
            let at = self.l2.first + image * self.l2.image + y * self.l2.row;
            let from =
                self.dram + image as u64 * self.dram_pitches[2] + y as u64 * self.dram_pitches[1];
            if self.columns == 1 {
                match self.load {
                    true => dram.read(from, &mut l2[at..at + self.used]),
                    false => dram.write(from, &l2[at..at + self.used])?,
                }
                continue;
            }
            scratch.row.resize(length, 0);
            // Bytes between the pixels stay as they are.
            if self.load || pitch != self.used {
                dram.read(from, &mut scratch.row);
            }
            for (x, row) in scratch.row.chunks_mut(pitch).enumerate() {
                let place = &mut l2[at + x * self.l2.pixel..][..self.used];
                match self.load {
                    true => place.copy_from_slice(&row[..self.used]),
                    false => row[..self.used].copy_from_slice(place),
                }
            }
            if !self.load {
                dram.write(from, &scratch.row)?;
            }
        }
        Ok(())
    }
}

/// Weights whose rows lie in the destination as in the source, or with zeros behind them.
pub(super) struct Weights {
    core: usize,
    source: Source,
    /// The first byte in L2 or in the weight buffer.
    dest: usize,
    to_l2: bool,
    /// Rows, and bytes of each with parameters, in source and destination.
    rows: usize,
    source_row: usize,
    dest_row: usize,
}

enum Source {
    Dram(usize, u64),
    L2(usize),
}

impl Weights {
    pub(super) fn prepare(
        core: usize,
        weights: &work::Weights,
        unit: u32,
        state: &State,
    ) -> Option<Weights> {
        let bytes = element_bytes(weights.format);
        let row = weights.source_row;
        let whole = weights.row == row && weights.dest_row == row && weights.mask.is_none();
        // Bytes between the channels of one position and the next would become 0.
        if !whole || !(row[0] * bytes).is_multiple_of(8) {
            return None;
        }
        let dense = dense_row_bytes(row, bytes);
        let l2 = |place: work::Place| {
            let length = i64::from(weights.channels) * (dense + PARAMETER_BYTES) as i64;
            let ring = state.region(core, place).ok()?;
            let origin = super::place::linear(ring, place.address, place.address + length)?;
            usize::try_from(place.address + origin).ok()
        };
        let source = match weights.source {
            WeightSource::Dram { bas, address } => Source::Dram(bas.into(), address.into()),
            WeightSource::L2(place) => Source::L2(l2(place)?),
            WeightSource::Remote { .. } => return None,
        };
        let (dest, padded) = match weights.dest {
            WeightDest::L2(place) => (l2(place)?, dense),
            WeightDest::Wl0(at) => {
                (at as usize * unit as usize, buffer_row_bytes(weights.dest_row, bytes))
            }
        };
        // From L2 weights only go to the buffer: ldw_mov has no other source than DRAM.
        let to_l2 = matches!(weights.dest, WeightDest::L2(_));
        if to_l2 && matches!(source, Source::L2(_)) {
            return None;
        }
        Some(Weights {
            core,
            source,
            dest,
            to_l2,
            rows: weights.channels as usize,
            source_row: (dense + PARAMETER_BYTES) as usize,
            dest_row: (padded + PARAMETER_BYTES) as usize,
        })
    }

    pub(super) fn run(&self, state: &mut State) {
        let core = &mut state.cores[self.core];
        let mut copy = |from: usize, length: usize, to: usize| match self.source {
            Source::Dram(bas, address) => {
                let memory = if self.to_l2 { &mut core.l2 } else { &mut core.wl0 };
                state.dram[bas].read(address + from as u64, &mut memory[to..to + length]);
            }
            Source::L2(first) => core.wl0[to..to + length]
                .copy_from_slice(&core.l2[first + from..first + from + length]),
        };
        if self.source_row == self.dest_row {
            return copy(0, self.rows * self.source_row, self.dest);
        }
        let parameters = PARAMETER_BYTES as usize;
        let dense = self.source_row - parameters;
        for row in 0..self.rows {
            let (from, to) = (row * self.source_row, self.dest + row * self.dest_row);
            copy(from, dense, to);
            copy(from + dense, parameters, to + self.dest_row - parameters);
        }
        if !self.to_l2 {
            let gap = |row: usize| -> Range<usize> {
                let at = self.dest + row * self.dest_row;
                at + dense..at + self.dest_row - parameters
            };
            (0..self.rows).for_each(|row| core.wl0[gap(row)].fill(0));
        }
    }
}

/// A copy inside L2 that keeps the order of axes.
pub(super) struct Reorder {
    core: usize,
    source: Tensor,
    dest: Tensor,
    images: usize,
    rows: usize,
    columns: usize,
    used: usize,
}

impl Reorder {
    pub(super) fn prepare(core: usize, reorder: &work::Reorder, state: &State) -> Option<Reorder> {
        if reorder.axes() != Some([0, 1, 2]) {
            return None;
        }
        let bytes = element_bytes(reorder.format);
        let tensor = |index: usize| {
            let part = (reorder.images, reorder.tile);
            Tensor::new(state, core, reorder.places[index], part, reorder.tensors[index], bytes)
        };
        let (source, dest) = (tensor(0)?, tensor(1)?);
        let [channels, rows, columns] = reorder.tile.map(|extent| extent as usize);
        source.extent.is_apart(&dest.extent).then_some(Reorder {
            core,
            source,
            dest,
            images: reorder.images as usize,
            rows,
            columns,
            used: channels * bytes as usize,
        })
    }

    pub(super) fn run(&self, state: &mut State) {
        let l2 = &mut state.cores[self.core].l2;
        let [from, to] = [&self.source, &self.dest];
        // Pixels without gaps are copied together.
        let together = self.used == from.pixel && self.used == to.pixel;
        let (columns, used) =
            if together { (1, self.used * self.columns) } else { (self.columns, self.used) };
        for (image, y) in (0..self.images).flat_map(|n| (0..self.rows).map(move |y| (n, y))) {
            for x in 0..columns {
                let at = |tensor: &Tensor| {
                    tensor.first + image * tensor.image + y * tensor.row + x * tensor.pixel
                };
                l2.copy_within(at(from)..at(from) + used, at(to));
            }
        }
    }
}
