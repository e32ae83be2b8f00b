//! Moving vectors between accumulators, local memory and DRAM.

use super::{Current, Lowering, Tile, acc, local};
use crate::compile::hir::Plane;
use crate::compile::lir::{MemoryAddress, Simd, Tag};
use crate::compile::runs::roll_up;
use crate::isa::SimdOp;
use crate::program::Memory;
use quincunx_diag::Result;

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
            let here = (run.a_stride, local(run.a));
            let there = (run.b_stride, MemoryAddress::new(tag, run.b));
            self.lir.emit_data_move(to_local, accumulate, here, there, run.count.into())?;
        }
        Ok(())
    }

    /// Writes accumulators to planes, position by position: those of each plane follow each other
    /// from `from` on.
    pub(super) fn save(
        &mut self,
        current: &Current<'_>,
        from: u64,
        planes: &[Plane],
        positions: &[u32],
    ) -> Result<()> {
        let count = positions.len() as u64;
        let mut targets = Vec::with_capacity(planes.len() * positions.len());
        for (block, &plane) in planes.iter().enumerate() {
            let (memory, base, step) = self.plane(plane);
            let first = from + block as u64 * count;
            targets.extend(positions.iter().enumerate().map(|(place, &position)| {
                (memory, first + place as u64, base + u64::from(position) * step)
            }));
        }
        // Tensors in local memory need no stage.
        let direct = targets.iter().filter(|target| target.0 == Memory::Local);
        let direct: Vec<(u64, u64)> = direct.map(|&(_, from, to)| (to, from)).collect();
        self.moves(true, false, Tag::Accumulator, direct)?;
        targets.retain(|target| target.0 != Memory::Local);
        for slice in targets.chunks(current.plan.stage as usize) {
            let staged = |index: usize| current.stage + index as u64;
            let into = slice.iter().enumerate().map(|(i, &(_, from, _))| (staged(i), from));
            self.moves(true, false, Tag::Accumulator, into)?;
            let out = slice.iter().enumerate().map(|(i, &(_, _, to))| (staged(i), to));
            self.moves(false, false, Tag::Vars, out)?;
        }
        Ok(())
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
            let staged: Vec<(u64, u64)> = entries
                .iter()
                .filter(|(_, (of, _))| *of == memory)
                .map(|&(to, (_, from))| (to, from))
                .collect();
            for slice in staged.chunks(current.plan.stage as usize) {
                let at = |index: usize| current.stage + index as u64;
                let into = slice.iter().enumerate().map(|(i, &(_, from))| (at(i), from));
                self.moves(true, false, Tag::from(memory), into)?;
                let out = slice.iter().enumerate().map(|(i, &(to, _))| (at(i), to));
                self.moves(false, accumulate, Tag::Accumulator, out)?;
            }
        }
        Ok(())
    }

    /// Zero in accumulators.
    pub(super) fn zero(&mut self, accumulators: impl IntoIterator<Item = u64>) -> Result<()> {
        for address in accumulators {
            let zero = Simd { op: SimdOp::Zero, left: 0, right: 0, destination: 0 };
            self.lir.emit_simd(false, zero, Some(acc(address)), None)?;
        }
        Ok(())
    }

    /// Brings the constants of a layer into accumulators: the scalars, and the rows of the blocks
    /// that they are kept for.
    pub(super) fn load_constants(
        &mut self,
        current: &Current<'_>,
        tile: &Tile<'_>,
        (scalars, rows): (bool, bool),
    ) -> Result<()> {
        let constants = &current.info.constants;
        let mut entries = Vec::new();
        let lanes = self.arch.lanes();
        for (index, &value) in constants.splats.iter().enumerate().filter(|_| scalars) {
            let from = self.constants.add(&vec![value; lanes]);
            entries.push((tile.accumulators.splats + index as u64, (Memory::Dram1, from)));
        }
        let blocks =
            tile.first_row_block..(tile.first_row_block + tile.row_blocks).min(current.info.blocks);
        for (index, &id) in constants.rows.iter().enumerate().filter(|_| rows) {
            let from = self.row_blocks(id.0, 0);
            for block in blocks.clone() {
                let place = index as u64 * u64::from(tile.row_blocks)
                    + u64::from(block - tile.first_row_block);
                let to = tile.accumulators.rows + place;
                entries.push((to, (Memory::Dram1, from + u64::from(block))));
            }
        }
        self.bring(current, false, &entries)
    }

    /// The address of a row of a constant, one vector for every block of channels.
    pub(super) fn row_blocks(&mut self, constant: u32, row: u32) -> u64 {
        let constant = &self.network.consts[constant as usize];
        let lanes = self.arch.lanes();
        let channels = constant.channels as usize;
        let mut scalars = constant.data[row as usize * channels..][..channels].to_vec();
        scalars.resize(channels.next_multiple_of(lanes), 0);
        self.constants.add(&scalars)
    }
}
