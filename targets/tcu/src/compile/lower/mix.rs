//! Sums of positions: the channels of input positions become the weights of the array, through which
//! the numbers that all channels share pass.

use super::epilogue::slot;
use super::{Lowering, Tile, acc, local};
use crate::compile::hir::{ConstId, TempId, View};
use crate::compile::lir::{MemoryAddress, Tag};
use crate::compile::runs::roll_up;
use crate::program::Memory;
use quincunx_diag::Result;

impl Lowering<'_> {
    pub(super) fn mix(
        &mut self,
        tile: &Tile<'_>,
        from: &View,
        weights: ConstId,
        output: TempId,
    ) -> Result<()> {
        let constant = &self.network.consts[weights.0 as usize];
        let (depth, outputs) = (constant.channels, constant.rows);
        let (to, positions) = (slot(tile, output), &tile.positions(output).list);
        for block in 0..tile.blocks.end - tile.blocks.start {
            let plane = self.plane(from.planes[(tile.blocks.start + block) as usize]);
            let mut place = 0;
            // Positions that are sums of the same ones follow each other.
            for row in positions.chunk_by(|a, b| a / outputs == b / outputs) {
                let first = row[0] / outputs * depth;
                let to = to.at(block, place);
                let numbers: Vec<u32> = row.iter().map(|position| position % outputs).collect();
                for (part, start) in (0..depth).step_by(self.arch.lanes()).enumerate() {
                    let end = depth.min(start + self.arch.array_size);
                    let input = |k: u32| match &from.map {
                        Some(map) => map[(first + k) as usize],
                        None => Some(first + k),
                    };
                    let inputs: Vec<Option<u32>> = (start..end).map(input).collect();
                    self.positions_as_weights(tile, plane, &inputs)?;
                    self.pass_numbers(tile, weights, &numbers, part as u64, to)?;
                }
                place += row.len() as u32;
            }
        }
        Ok(())
    }

    /// Loads positions of a plane as the rows of the first lanes, zeros as the others and the bias.
    fn positions_as_weights(
        &mut self,
        tile: &Tile<'_>,
        (memory, base, step): (Memory, u64, u64),
        inputs: &[Option<u32>],
    ) -> Result<()> {
        let zeroes = MemoryAddress::new(Tag::Zeroes, 0);
        let missing = self.arch.lanes() - inputs.len();
        if missing > 0 {
            self.lir.emit_load_weights(zeroes, missing as u64)?;
        }
        // The rows that are pushed first belong to the last lanes.
        for run in inputs.chunk_by(|a, b| a.is_some() == b.is_some()).rev() {
            let places: Vec<u64> =
                run.iter().flatten().map(|&at| base + u64::from(at) * step).collect();
            if places.is_empty() {
                self.lir.emit_load_weights(zeroes, run.len() as u64)?;
                continue;
            }
            for places in places.rchunks(tile.current.stage_vectors as usize) {
                let rows = self.staged_vectors(tile, memory, places)?;
                for rows in rows.chunk_by(|a, b| a + 1 == *b).rev() {
                    self.lir.emit_load_weights(local(rows[0]), rows.len() as u64)?;
                }
            }
        }
        self.lir.emit_load_weights(zeroes, 1)
    }

    /// Multiplies a block of some rows of numbers; all but the first block add to what is there.
    fn pass_numbers(
        &mut self,
        tile: &Tile<'_>,
        weights: ConstId,
        numbers: &[u32],
        part: u64,
        to: u64,
    ) -> Result<()> {
        let places: Vec<u64> =
            numbers.iter().map(|&number| self.row_blocks(weights.0, number) + part).collect();
        let mut to = to;
        for places in places.chunks(tile.current.stage_vectors as usize) {
            let vectors = self.staged_vectors(tile, self.constants_in, places)?;
            let pairs = vectors.into_iter().zip(to..);
            to += places.len() as u64;
            for run in roll_up(pairs, self.arch.stride0_depth, self.arch.stride1_depth) {
                let from = local(run.a).with_stride(run.a_stride);
                let into = acc(run.b).with_stride(run.b_stride);
                self.lir.emit_mat_mul(part > 0, from, into, run.count.into())?;
            }
        }
        Ok(())
    }

    /// Where vectors are in local memory: where they were, or in the stage, which has room for them.
    fn staged_vectors(
        &mut self,
        tile: &Tile<'_>,
        memory: Memory,
        places: &[u64],
    ) -> Result<Vec<u64>> {
        if memory == Memory::Local {
            return Ok(places.to_vec());
        }
        let first = self.stage(tile.current, places.len());
        let staged: Vec<u64> = (first..).take(places.len()).collect();
        let pairs = staged.iter().copied().zip(places.iter().copied());
        self.moves(true, false, Tag::from(memory), pairs)?;
        Ok(staged)
    }
}
