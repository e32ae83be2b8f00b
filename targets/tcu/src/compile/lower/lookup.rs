//! Lookup tables, and functions from them.

use super::epilogue::Pointwise;
use super::{Current, Lowering, Tile, local};
use crate::arch::TcuArch;
use crate::compile::hir::{Op, Table, TempId};
use crate::compile::lir::{Simd, Tag};
use crate::isa::SimdOp;
use crate::program::Memory;
use quincunx_diag::{Diagnostic, Result};

/// The input of the ALUs.
const INPUT: u8 = 0;
/// The register behind the output of a lookup.
const VALUE: u8 = 1;
/// The one behind it, on machines with two tables.
const SLOPE: u8 = 2;

/// The vectors of the index and of every table of the machine, in the order of their numbers. A
/// lookup gives the entries of all tables; those that nobody uses hold values again.
pub(super) fn columns(table: &Table, arch: &TcuArch) -> impl Iterator<Item = Vec<i32>> {
    let (slopes, lanes) = (table.slopes.as_ref().unwrap_or(&table.values), arch.lanes());
    let last = arch.lookup_tables.expect("a machine without tables takes no lookup");
    (0..=last).map(move |number| {
        let column = match number {
            0 => &table.keys,
            2 => slopes,
            _ => &table.values,
        };
        column.iter().flat_map(|&scalar| std::iter::repeat_n(scalar, lanes)).collect()
    })
}

impl Lowering<'_> {
    /// Loads the table of a layer by way of the stage, if the machine does not hold it.
    pub(super) fn load_tables(&mut self, current: &Current<'_>) -> Result<()> {
        let wanted = current.info.layer.ops.iter().find_map(|op| match op {
            Op::Lookup { table, .. } => Some(*table),
            _ => None,
        });
        let Some(wanted) = wanted.filter(|&wanted| self.table != Some(wanted)) else {
            return Ok(());
        };
        let table = &self.network.tables[wanted.0 as usize];
        let in_local = self.constants_in == Memory::Local;
        if !in_local && table.keys.len() as u64 > current.stage_vectors {
            return Err(Diagnostic::bug("a lookup table does not fit the stage"));
        }
        self.lir.comment(format!("table {}", table.name));
        for (number, vectors) in (0..).zip(columns(table, self.arch)) {
            let from = self.constants.add(&vectors);
            if in_local {
                self.lir.emit_load_lut(local(from), number)?;
                continue;
            }
            let entries = table.keys.len() as u64;
            let pairs = (0..entries).map(|entry| (current.stage + entry, from + entry));
            self.moves(true, false, Tag::Consts, pairs)?;
            self.lir.emit_load_lut(local(current.stage), number)?;
        }
        self.table = Some(wanted);
        Ok(())
    }

    /// The value of the closest key, or value and slope times the distance from it.
    pub(super) fn lookup(
        &mut self,
        tile: &Tile<'_>,
        slopes: bool,
        input: TempId,
        output: TempId,
    ) -> Result<()> {
        let slots = Pointwise::new(tile, input, output);
        for block in 0..tile.blocks.end - tile.blocks.start {
            for (read, write) in slots.pairs(block) {
                let find = Simd::new(SimdOp::Lookup, INPUT, INPUT, 0);
                if !slopes {
                    self.simd(find, None, Some(read))?;
                    self.simd(Simd::new(SimdOp::Move, VALUE, INPUT, 0), Some(write), None)?;
                    continue;
                }
                // The distance waits in the accumulator of the result.
                self.simd(find, Some(write), Some(read))?;
                self.simd(Simd::new(SimdOp::Multiply, INPUT, SLOPE, SLOPE), None, Some(write))?;
                self.simd(Simd::new(SimdOp::Add, VALUE, SLOPE, 0), Some(write), None)?;
            }
        }
        Ok(())
    }
}
