//! Moving vectors between accumulators, local memory and DRAM.

use super::epilogue::slot;
use super::preload::row_scalars;
use super::{Current, Lowering, Tile, acc, local};
use crate::compile::hir::{Plane, TempId};
use crate::compile::lir::{MemoryAddress, Simd, Tag};
use crate::compile::runs::roll_up;
use crate::isa::SimdOp;
use crate::program::Memory;
use quincunx_diag::Result;

/// Pairs in the order of accumulators.
fn by_accumulator(pairs: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut pairs: Vec<(u64, u64)> = pairs.collect();
    pairs.sort_unstable_by_key(|&(_, accumulator)| accumulator);
    pairs
}

impl Lowering<'_> {
    /// Moves vectors between local memory and another one; pairs are local and other addresses.
    pub(super) fn moves(
        &mut self,
        to_local: bool,
        accumulate: bool,
        tag: Tag,
        pairs: impl IntoIterator<Item = (u64, u64)>,
    ) -> Result<()> {
        let (strides0, strides1) = (self.arch.stride0_depth, self.arch.stride1_depth);
        for run in roll_up(pairs, strides0, strides1) {
            let here = local(run.a).with_stride(run.a_stride);
            let there = MemoryAddress::new(tag, run.b).with_stride(run.b_stride);
            self.lir.emit_data_move(to_local, accumulate, here, there, run.count.into())?;
        }
        Ok(())
    }

    /// Writes the accumulators of a temp to planes, position by position, or some of them.
    pub(super) fn save(
        &mut self,
        tile: &Tile<'_>,
        temp: TempId,
        planes: &[Plane],
        some: Option<&[u32]>,
    ) -> Result<()> {
        let (current, from) = (tile.current, slot(tile, temp));
        let positions = tile.positions(temp).list.iter().zip(0_u32..);
        let places: Vec<(u32, u32)> = match some {
            None => positions.map(|(&position, place)| (place, position)).collect(),
            Some(some) => positions
                .filter_map(|(position, place)| {
                    some.binary_search(position).ok().map(|to| (place, to as u32))
                })
                .collect(),
        };
        if let Some(link) = self.link.filter(|link| planes.iter().all(|p| p.var == link.var)) {
            // The tile has all positions of the next layer's.
            let blocks = (0..planes.len() as u32).zip((link.first..).step_by(link.step as usize));
            let pairs = blocks.flat_map(|(block, first)| {
                (first..).zip(&places).map(move |(to, &(place, _))| (to, from.at(block, place)))
            });
            return self.moves(true, false, Tag::Accumulator, pairs);
        }
        let mut targets = Vec::with_capacity(planes.len() * places.len());
        for (block, &plane) in planes.iter().enumerate() {
            let (memory, base, step) = self.plane(plane);
            targets.extend(places.iter().map(|&(place, to)| {
                (memory, from.at(block as u32, place), base + u64::from(to) * step)
            }));
        }
        // Tensors in local memory need no stage.
        let direct = targets.iter().filter(|target| target.0 == Memory::Local);
        let direct: Vec<(u64, u64)> = direct.map(|&(_, from, to)| (to, from)).collect();
        self.moves(true, false, Tag::Accumulator, direct)?;
        targets.retain(|target| target.0 != Memory::Local);
        // DRAM is fast where addresses follow each other.
        targets.sort_unstable_by_key(|&(_, _, to)| to);
        for slice in targets.chunks(current.stage_vectors as usize) {
            let first = self.stage(current, slice.len());
            let staged = |index: usize| first + index as u64;
            let into = slice.iter().enumerate().map(|(i, &(_, from, _))| (staged(i), from));
            self.moves(true, false, Tag::Accumulator, by_accumulator(into))?;
            let out = slice.iter().enumerate().map(|(i, &(_, _, to))| (staged(i), to));
            self.moves(false, false, Tag::Vars, out)?;
        }
        Ok(())
    }

    /// Room for some vectors in the stage. They come behind those before them, so that what happens
    /// to these need not be over.
    pub(super) fn stage(&mut self, current: &Current<'_>, count: usize) -> u64 {
        let count = count as u64;
        if self.staged + count > current.stage_vectors {
            self.staged = 0;
        }
        let first = current.stage + self.staged;
        self.staged += count;
        first
    }

    /// Brings vectors into accumulators, or adds them there. Every entry is the accumulator and the
    /// place of the vector.
    pub(super) fn bring(
        &mut self,
        current: &Current<'_>,
        accumulate: bool,
        entries: &[(u64, (Memory, u64))],
    ) -> Result<()> {
        let direct = entries.iter().filter(|(_, (memory, _))| *memory == Memory::Local);
        let direct: Vec<(u64, u64)> = direct.map(|&(to, (_, from))| (from, to)).collect();
        self.moves(false, accumulate, Tag::Accumulator, direct)?;
        for memory in [Memory::Dram0, Memory::Dram1] {
            let of_memory = entries.iter().filter(|(_, (of, _))| *of == memory);
            let mut staged: Vec<(u64, u64)> =
                of_memory.map(|&(to, (_, from))| (from, to)).collect();
            // DRAM is fast where addresses follow each other. A vector that several accumulators get
            // comes once.
            staged.sort_unstable();
            let mut vectors: Vec<u64> = staged.iter().map(|&(from, _)| from).collect();
            vectors.dedup();
            for slice in vectors.chunks(current.stage_vectors as usize) {
                let first = self.stage(current, slice.len());
                let into = (first..).zip(slice.iter().copied());
                self.moves(true, false, Tag::from(memory), into)?;
                let last = slice.last().copied().unwrap_or_default();
                let end = staged.partition_point(|&(from, _)| from <= last);
                let place = |from: u64| first + slice.partition_point(|&other| other < from) as u64;
                let out = staged.drain(..end).map(|(from, to)| (place(from), to));
                self.moves(false, accumulate, Tag::Accumulator, by_accumulator(out))?;
            }
        }
        Ok(())
    }

    /// Zero in accumulators.
    pub(super) fn zero(&mut self, accumulators: impl IntoIterator<Item = u64>) -> Result<()> {
        for address in accumulators {
            let zero = Simd::new(SimdOp::Zero, 0, 0, 0);
            self.lir.emit_simd(false, zero, Some(acc(address)), None)?;
        }
        Ok(())
    }

    /// Brings the constants of a layer into accumulators: the scalars, and the rows of the blocks
    /// that they are kept for.
    pub(super) fn load_constants(
        &mut self,
        tile: &Tile<'_>,
        scalars: bool,
        rows: bool,
    ) -> Result<()> {
        let info = tile.current.info;
        let constants = &info.constants;
        let mut entries = Vec::new();
        let lanes = self.arch.lanes();
        for (index, &value) in constants.splats.iter().enumerate().filter(|_| scalars) {
            let from = self.constants.add(&vec![value; lanes]);
            entries.push((tile.accumulators.splats + index as u64, (self.constants_in, from)));
        }
        let blocks =
            tile.first_row_block..(tile.first_row_block + tile.row_blocks).min(info.blocks);
        for (index, &id) in constants.rows.iter().enumerate().filter(|_| rows) {
            let from = self.row_blocks(id.0, 0);
            for block in blocks.clone() {
                let place = index as u64 * u64::from(tile.row_blocks)
                    + u64::from(block - tile.first_row_block);
                let to = tile.accumulators.rows + place;
                entries.push((to, (self.constants_in, from + u64::from(block))));
            }
        }
        self.bring(tile.current, false, &entries)
    }

    /// The address of a row of a constant, one vector for every block of channels.
    pub(super) fn row_blocks(&mut self, constant: u32, row: u32) -> u64 {
        let scalars = row_scalars(&self.network.consts[constant as usize], row, self.arch.lanes());
        self.constants.add(&scalars)
    }
}
