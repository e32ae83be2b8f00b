//! Copies: activations, weights, reordering, between cores.

use super::state::State;
use crate::work::{
    Copy, Extents, Place, Remote, Reorder, WeightDest, WeightSource, Weights, buffer_row_bytes,
    ceil8, dense_row_bytes, element_bytes, pitch,
};
use quincunx_diag::Result;

/// Byte of pixel (n, h, w) of a tensor.
pub(super) fn pixel(tensor: Extents, pixel: u32, [n, h, w]: [u32; 3]) -> i64 {
    let [_, height, width] = tensor.map(i64::from);
    ((i64::from(n) * height + i64::from(h)) * width + i64::from(w)) * i64::from(pixel)
}

/// Every pixel of a batch of tiles.
fn pixels(images: u32, [_, h, w]: Extents) -> impl Iterator<Item = [u32; 3]> {
    (0..images).flat_map(move |n| (0..h).flat_map(move |y| (0..w).map(move |x| [n, y, x])))
}

impl State {
    pub(super) fn copy(&mut self, core: usize, copy: &Copy) -> Result<()> {
        let bytes = element_bytes(copy.format);
        let dram_pixel = copy.dram_pixel();
        let l2_pixel = pitch(copy.l2_tensor[0], bytes);
        let ring = self.region(core, copy.l2)?;
        let mut buffer = vec![0; (copy.tile[0] * bytes) as usize];
        for at in pixels(copy.images, copy.tile) {
            let dram = u64::from(copy.dram) + pixel(copy.dram_tensor, dram_pixel, at) as u64;
            let l2 = copy.l2.address + pixel(copy.l2_tensor, l2_pixel, at);
            let memory = &mut self.dram[usize::from(copy.bas)];
            if copy.load {
                memory.read(dram, &mut buffer);
                self.cores[core].write(ring, l2, &buffer);
            } else {
                self.cores[core].read(ring, l2, &mut buffer);
                memory.write(dram, &buffer)?;
            }
        }
        Ok(())
    }

    /// Copies weights row by row. Bytes of a destination row that the source lacks are 0, and so are
    /// the weights of masked channels.
    pub(super) fn weights(&mut self, core: usize, weights: &Weights, unit: u32) -> Result<()> {
        let bytes = element_bytes(weights.format);
        let source_row = dense_row_bytes(weights.source_row, bytes) + 32;
        let dest_dense = dense_row_bytes(weights.dest_row, bytes);
        let padded = match weights.dest {
            WeightDest::L2(_) => dest_dense,
            WeightDest::Wl0(_) => buffer_row_bytes(weights.dest_row, bytes),
        };
        let mut source = vec![0; source_row as usize];
        let mut dest = vec![0; (padded + 32) as usize];
        for k in 0..u64::from(weights.channels) {
            self.weight_row(core, weights.source, k * source_row, &mut source)?;
            dest.fill(0);
            place_row(weights, bytes, &source, &mut dest);
            let from = source_row as usize - 32;
            dest[padded as usize..].copy_from_slice(&source[from..]);
            let offset = k * (padded + 32);
            match weights.dest {
                WeightDest::L2(place) => {
                    let ring = self.region(core, place)?;
                    self.cores[core].write(ring, place.address + offset as i64, &dest);
                }
                WeightDest::Wl0(at) => {
                    let start = (u64::from(at) * u64::from(unit) + offset) as usize;
                    self.cores[core].wl0[start..start + dest.len()].copy_from_slice(&dest);
                }
            }
        }
        Ok(())
    }

    fn weight_row(
        &self,
        core: usize,
        source: WeightSource,
        offset: u64,
        row: &mut [u8],
    ) -> Result<()> {
        match source {
            WeightSource::Dram { bas, address } => {
                self.dram[usize::from(bas)].read(u64::from(address) + offset, row);
            }
            WeightSource::L2(place) => {
                let ring = self.region(core, place)?;
                self.cores[core].read(ring, place.address + offset as i64, row);
            }
            WeightSource::Remote { core, address } => {
                let start = (u64::from(address) + offset) as usize;
                row.copy_from_slice(&self.cores[usize::from(core)].l2[start..start + row.len()]);
            }
        }
        Ok(())
    }

    /// Elements of the source in the order of the destination's axes.
    pub(super) fn reorder(&mut self, core: usize, reorder: &Reorder) -> Result<()> {
        let bytes = element_bytes(reorder.format);
        let pitches = reorder.tensors.map(|tensor| pitch(tensor[0], bytes));
        let rings = [self.region(core, reorder.places[0])?, self.region(core, reorder.places[1])?];
        let axes = reorder.axes().unwrap_or([0, 1, 2]);
        let mut element = vec![0; bytes as usize];
        for [n, y, x] in pixels(reorder.images, reorder.tile) {
            for c in 0..reorder.tile[0] {
                let source = [y, x, c];
                let [row, column, channel] = axes.map(|axis| source[axis]);
                let from = pixel(reorder.tensors[0], pitches[0], [n, y, x]) + i64::from(c * bytes);
                let to = pixel(reorder.tensors[1], pitches[1], [n, row, column])
                    + i64::from(channel * bytes);
                let memory = &mut self.cores[core];
                memory.read(rings[0], reorder.places[0].address + from, &mut element);
                memory.write(rings[1], reorder.places[1].address + to, &element);
            }
        }
        Ok(())
    }

    pub(super) fn remote(&mut self, core: usize, remote: &Remote) -> Result<()> {
        // A pure signal needs no region.
        if remote.images == 0 {
            return Ok(());
        }
        let other = usize::from(remote.core);
        let cores = if remote.receive { [other, core] } else { [core, other] };
        let bytes = element_bytes(remote.format);
        let pitches = remote.tensors.map(|tensor| pitch(tensor[0], bytes));
        let place = |index: usize| -> Place { remote.places[index] };
        let rings = [self.region(cores[0], place(0))?, self.region(cores[1], place(1))?];
        let mut buffer = vec![0; (remote.tile[0] * bytes) as usize];
        for at in pixels(remote.images, remote.tile) {
            let from = place(0).address + pixel(remote.tensors[0], pitches[0], at);
            let to = place(1).address + pixel(remote.tensors[1], pitches[1], at);
            self.cores[cores[0]].read(rings[0], from, &mut buffer);
            self.cores[cores[1]].write(rings[1], to, &buffer);
        }
        Ok(())
    }
}

/// Places the weights of one output channel: channels of a position lie together.
fn place_row(weights: &Weights, bytes: u32, source: &[u8], dest: &mut [u8]) {
    let [channels, rows, columns] = weights.row;
    let strides = |[c, _, s]: Extents| (ceil8(c * bytes) as usize, s as usize);
    let (source_pixel, source_columns) = strides(weights.source_row);
    let (dest_pixel, dest_columns) = strides(weights.dest_row);
    let length = (channels * bytes) as usize;
    for r in 0..rows as usize {
        for s in 0..columns as usize {
            let from = (r * source_columns + s) * source_pixel;
            let to = (r * dest_columns + s) * dest_pixel;
            dest[to..to + length].copy_from_slice(&source[from..from + length]);
            let Some(mask) = weights.mask else { continue };
            for c in (0..channels).filter(|c| mask & (1 << (c % 8)) != 0) {
                let at = to + (c * bytes) as usize;
                dest[at..at + bytes as usize].fill(0);
            }
        }
    }
}
