//! What happens to the accumulators of a tile behind the product.

use super::{Current, Lowering, Tile, acc};
use crate::compile::hir::{Binary, ConstId, Op, Operand, Pooling, TempId, Unary, View, Windows};
use crate::compile::lir::Simd;
use crate::compile::schedule::BATCH;
use crate::isa::SimdOp;
use quincunx_diag::{Diagnostic, Result};

/// The register that operations use; one more is used where there is one.
const FIRST: u8 = 1;
/// The second register.
const SECOND: u8 = 2;
/// The input of the ALUs.
const INPUT: u8 = 0;

/// Accumulators of a temp.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    base: u64,
    positions: u32,
}

impl Slot {
    /// The accumulator of a place in a block of the group.
    pub(super) fn at(&self, block: u32, place: u32) -> u64 {
        self.base + u64::from(block) * u64::from(self.positions) + u64::from(place)
    }
}

/// Accumulators of an operand and of the result that has the same positions, or some of them.
#[derive(Clone, Debug)]
pub(super) struct Pointwise {
    from: Slot,
    to: Slot,
    /// Places of the result's positions in the operand, where they differ.
    places: Option<Vec<u32>>,
}

impl Pointwise {
    pub(super) fn new(tile: &Tile<'_>, input: TempId, output: TempId) -> Pointwise {
        let (from, to) = (slot(tile, input), slot(tile, output));
        let places = (from.positions != to.positions).then(|| {
            let sources = &tile.demand.temps[input.0 as usize];
            let positions = &tile.demand.temps[output.0 as usize].list;
            let place = |&position: &u32| {
                sources.place(position).expect("the demand of a tile lists what operands need")
            };
            positions.iter().map(place).collect()
        });
        Pointwise { from, to, places }
    }

    /// The result as its own operand.
    fn again(&self) -> Pointwise {
        Pointwise { from: self.to, to: self.to, places: None }
    }

    /// Accumulators of a block: of the operand, and of the result.
    pub(super) fn pairs(&self, block: u32) -> impl Iterator<Item = (u64, u64)> + '_ {
        (0..self.to.positions).map(move |place| {
            let source = self.places.as_ref().map_or(place, |places| places[place as usize]);
            (self.from.at(block, source), self.to.at(block, place))
        })
    }
}

fn slot(tile: &Tile<'_>, temp: TempId) -> Slot {
    let temp = temp.0 as usize;
    Slot { base: tile.accumulators.temps[temp], positions: tile.demand.temps[temp].len() }
}

impl Lowering<'_> {
    /// All operations of a tile; `product` computes the matrix product.
    pub(super) fn operations(
        &mut self,
        current: &Current<'_>,
        tile: &Tile<'_>,
        mut product: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        for op in &current.info.layer.ops {
            match op {
                Op::MatMul(_) => product(self)?,
                Op::Load { from, output } => {
                    let blocks = 0..tile.blocks.end - tile.blocks.start;
                    for block in blocks {
                        self.view(current, tile, false, (from, block), (*output, None))?;
                    }
                }
                Op::Binary { op, input, other, output } => {
                    self.binary(current, tile, *op, (*input, other, *output))?;
                }
                Op::Unary { op, input, output } => {
                    self.unary(current, tile, *op, *input, *output)?;
                }
                Op::Norm { scale, offset, input, output } => {
                    self.norm(current, tile, (*scale, *offset), (*input, *output))?;
                }
                Op::Lookup { table, input, output } => {
                    let slopes = self.network.tables[table.0 as usize].slopes.is_some();
                    self.lookup(tile, slopes, (*input, *output))?;
                }
                Op::Pool { kind, windows, input, output } => {
                    self.pool(current, tile, (kind, windows), (*input, *output))?;
                }
                Op::Interpolate { windows, weights, input, output } => {
                    self.interpolate(current, tile, (windows, weights), (*input, *output))?;
                }
                Op::Save { input, to, positions } => {
                    let planes = &to[tile.blocks.start as usize..tile.blocks.end as usize];
                    let some = positions.as_deref();
                    self.save(current, slot(tile, *input), planes, (tile, *input, some))?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn simd(
        &mut self,
        (op, left, right, destination): (SimdOp, u8, u8, u8),
        write: Option<u64>,
        read: Option<u64>,
    ) -> Result<()> {
        let simd = Simd { op, left, right, destination };
        self.lir.emit_simd(false, simd, write.map(acc), read.map(acc))
    }

    /// Puts an accumulator into a register.
    fn register(&mut self, register: u8, from: u64) -> Result<()> {
        self.simd((SimdOp::Move, INPUT, INPUT, register), None, Some(from))
    }

    /// Puts a scalar of the layer into a register.
    fn scalar(
        &mut self,
        current: &Current<'_>,
        tile: &Tile<'_>,
        register: u8,
        value: i32,
    ) -> Result<()> {
        if value == 0 {
            return self.simd((SimdOp::Zero, INPUT, INPUT, register), None, None);
        }
        let from = scalar(current, tile, value)?;
        self.register(register, from)
    }

    /// `output = op(input, register)` everywhere in a block.
    fn with_register(&mut self, op: SimdOp, slots: &Pointwise, block: u32) -> Result<()> {
        slots
            .pairs(block)
            .try_for_each(|(from, to)| self.simd((op, INPUT, FIRST, 0), Some(to), Some(from)))
    }

    /// Brings one block of a tensor into the accumulators of a temp, or adds it to them, or puts it
    /// elsewhere.
    fn view(
        &mut self,
        current: &Current<'_>,
        tile: &Tile<'_>,
        accumulate: bool,
        (view, block): (&View, u32),
        (temp, elsewhere): (TempId, Option<u64>),
    ) -> Result<()> {
        let slot = slot(tile, temp);
        let (memory, base, step) = self.plane(view.planes[(tile.blocks.start + block) as usize]);
        let positions = &tile.demand.temps[temp.0 as usize].list;
        let (mut entries, mut zeros) = (Vec::with_capacity(positions.len()), Vec::new());
        for (place, &position) in positions.iter().enumerate() {
            let to = elsewhere.map_or(slot.at(block, place as u32), |base| base + place as u64);
            let from = view.map.as_ref().map_or(Some(position), |map| map[position as usize]);
            match from {
                Some(from) => entries.push((to, (memory, base + u64::from(from) * step))),
                None => zeros.push(to),
            }
        }
        self.bring(current, accumulate, &entries)?;
        if accumulate { Ok(()) } else { self.zero(zeros) }
    }

    /// Brings the rows of a constant with one row for every position.
    fn rows(
        &mut self,
        current: &Current<'_>,
        tile: &Tile<'_>,
        accumulate: bool,
        (constant, block): (ConstId, u32),
        (temp, elsewhere): (TempId, Option<u64>),
    ) -> Result<()> {
        let slot = slot(tile, temp);
        let column = u64::from(tile.blocks.start + block);
        let mut entries = Vec::new();
        for (place, &position) in tile.demand.temps[temp.0 as usize].list.iter().enumerate() {
            let to = elsewhere.map_or(slot.at(block, place as u32), |base| base + place as u64);
            let from = self.row_blocks(constant.0, position) + column;
            entries.push((to, (self.constants_in, from)));
        }
        self.bring(current, accumulate, &entries)
    }

    fn binary(
        &mut self,
        current: &Current<'_>,
        tile: &Tile<'_>,
        op: Binary,
        (input, other, output): (TempId, &Operand, TempId),
    ) -> Result<()> {
        let simd = match op {
            Binary::Add => SimdOp::Add,
            Binary::Sub => SimdOp::Subtract,
            Binary::Mul => SimdOp::Multiply,
            Binary::Max => SimdOp::Max,
            Binary::Min => SimdOp::Min,
        };
        let slots = Pointwise::new(tile, input, output);
        let scratch = tile.accumulators.scratch;
        for block in 0..tile.blocks.end - tile.blocks.start {
            match other {
                Operand::Const(id) if self.network.consts[id.0 as usize].rows == 1 => {
                    let row = self.row(current, tile, *id, block)?;
                    self.register(FIRST, row)?;
                    self.with_register(simd, &slots, block)?;
                }
                Operand::Temp(other) => {
                    let others = Pointwise::new(tile, *other, output);
                    let others: Vec<u64> = others.pairs(block).map(|(other, _)| other).collect();
                    self.pairwise(simd, block, &slots, others)?;
                }
                Operand::Vars(_) | Operand::Const(_) => {
                    let add = op == Binary::Add;
                    if add && slots.from.base != slots.to.base {
                        self.copy(block, &slots)?;
                    }
                    let target = (output, (!add).then_some(scratch));
                    match other {
                        Operand::Vars(view) => {
                            self.view(current, tile, add, (view, block), target)?;
                        }
                        Operand::Const(id) => {
                            self.rows(current, tile, add, (*id, block), target)?;
                        }
                        Operand::Temp(_) => {}
                    }
                    if !add {
                        self.pairwise(simd, block, &slots, scratch..)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn copy(&mut self, block: u32, slots: &Pointwise) -> Result<()> {
        slots.pairs(block).try_for_each(|(read, write)| {
            self.simd((SimdOp::Move, INPUT, INPUT, 0), Some(write), Some(read))
        })
    }

    /// `to = op(from, other)` with the accumulators of the others.
    fn pairwise(
        &mut self,
        op: SimdOp,
        block: u32,
        slots: &Pointwise,
        others: impl IntoIterator<Item = u64>,
    ) -> Result<()> {
        for ((read, write), other) in slots.pairs(block).zip(others) {
            self.register(FIRST, other)?;
            self.simd((op, INPUT, FIRST, 0), Some(write), Some(read))?;
        }
        Ok(())
    }

    fn unary(
        &mut self,
        current: &Current<'_>,
        tile: &Tile<'_>,
        op: Unary,
        input: TempId,
        output: TempId,
    ) -> Result<()> {
        let slots = Pointwise::new(tile, input, output);
        let blocks = 0..tile.blocks.end - tile.blocks.start;
        match op {
            Unary::Relu => {
                self.scalar(current, tile, FIRST, 0)?;
                blocks.into_iter().try_for_each(|b| self.with_register(SimdOp::Max, &slots, b))
            }
            Unary::Clip { low, high } => {
                self.scalar(current, tile, FIRST, low)?;
                for block in blocks.clone() {
                    self.with_register(SimdOp::Max, &slots, block)?;
                }
                self.scalar(current, tile, FIRST, high)?;
                let again = slots.again();
                blocks.into_iter().try_for_each(|b| self.with_register(SimdOp::Min, &again, b))
            }
            Unary::LeakyRelu { alpha } => {
                let several = self.arch.simd_registers_depth > 1;
                if several {
                    self.scalar(current, tile, SECOND, alpha)?;
                }
                for block in blocks {
                    for (read, write) in slots.pairs(block) {
                        let slope = if several { SECOND } else { FIRST };
                        if !several {
                            self.scalar(current, tile, FIRST, alpha)?;
                        }
                        self.simd((SimdOp::Multiply, INPUT, slope, FIRST), None, Some(read))?;
                        self.simd((SimdOp::Max, INPUT, FIRST, 0), Some(write), Some(read))?;
                    }
                }
                Ok(())
            }
            Unary::ScaledLeakyRelu { factor } => {
                let all: Vec<(u64, u64)> = blocks.flat_map(|block| slots.pairs(block)).collect();
                let max = Simd { op: SimdOp::Max, left: INPUT, right: FIRST, destination: 0 };
                // Results may replace the operands of the batch before.
                for batch in all.chunks(BATCH as usize) {
                    self.scalar(current, tile, FIRST, factor)?;
                    for &(read, write) in batch {
                        let multiply = (SimdOp::Multiply, INPUT, FIRST, 0);
                        self.simd(multiply, Some(write), Some(read))?;
                    }
                    self.scalar(current, tile, FIRST, 0)?;
                    for &(read, write) in batch {
                        self.lir.emit_simd(true, max, Some(acc(write)), Some(acc(read)))?;
                    }
                }
                Ok(())
            }
        }
    }

    fn norm(
        &mut self,
        current: &Current<'_>,
        tile: &Tile<'_>,
        (scale, offset): (ConstId, ConstId),
        (input, output): (TempId, TempId),
    ) -> Result<()> {
        let slots = Pointwise::new(tile, input, output);
        for block in 0..tile.blocks.end - tile.blocks.start {
            let row = self.row(current, tile, scale, block)?;
            self.register(FIRST, row)?;
            self.with_register(SimdOp::Multiply, &slots, block)?;
            let row = self.row(current, tile, offset, block)?;
            self.register(FIRST, row)?;
            self.with_register(SimdOp::Add, &slots.again(), block)?;
        }
        Ok(())
    }

    /// The accumulator of a row for a block of the group.
    fn row(&self, current: &Current<'_>, tile: &Tile<'_>, id: ConstId, block: u32) -> Result<u64> {
        let rows = &current.info.constants.rows;
        let index = rows.iter().position(|&row| row == id);
        let index = index.ok_or_else(|| Diagnostic::bug("a row has no accumulator"))? as u64;
        let block = u64::from(tile.blocks.start + block - tile.first_row_block);
        Ok(tile.accumulators.rows + index * u64::from(tile.row_blocks) + block)
    }

    fn pool(
        &mut self,
        current: &Current<'_>,
        tile: &Tile<'_>,
        (kind, windows): (&Pooling, &Windows),
        (input, output): (TempId, TempId),
    ) -> Result<()> {
        let (from, to) = (slot(tile, input), slot(tile, output));
        let sources = &tile.demand.temps[input.0 as usize];
        let combine = match kind {
            Pooling::Max => SimdOp::Max,
            Pooling::Average { .. } => SimdOp::Add,
        };
        for block in 0..tile.blocks.end - tile.blocks.start {
            for (place, &position) in tile.demand.temps[output.0 as usize].list.iter().enumerate() {
                let write = Some(to.at(block, place as u32));
                let mut window = windows.of(position);
                let max = *kind == Pooling::Max;
                let zero = max && window.first() == Some(&Windows::ZERO);
                if zero {
                    window = &window[1..];
                    let to = if window.is_empty() { write } else { None };
                    let register = if window.is_empty() { 0 } else { FIRST };
                    self.simd((SimdOp::Zero, INPUT, INPUT, register), to, None)?;
                }
                for (index, &source) in window.iter().enumerate() {
                    let source = sources.place(source);
                    let source = source.ok_or_else(|| Diagnostic::bug("a window leaves a tile"))?;
                    let read = Some(from.at(block, source));
                    let last = max && index + 1 == window.len();
                    let (write, register) = if last { (write, 0) } else { (None, FIRST) };
                    let op = match index {
                        0 if !zero => (SimdOp::Move, INPUT, INPUT, register),
                        _ => (combine, INPUT, FIRST, register),
                    };
                    self.simd(op, write, read)?;
                }
                if let Pooling::Average { multipliers } = kind {
                    let single = multipliers.len() == 1;
                    let multiplier = multipliers[if single { 0 } else { position as usize }];
                    let read = scalar(current, tile, multiplier);
                    match read {
                        Ok(read) if !window.is_empty() => {
                            self.simd((SimdOp::Multiply, INPUT, FIRST, 0), write, Some(read))?
                        }
                        _ => self.zero(write)?,
                    }
                }
            }
        }
        Ok(())
    }

    fn interpolate(
        &mut self,
        current: &Current<'_>,
        tile: &Tile<'_>,
        (windows, weights): (&Windows, &[i32]),
        (input, output): (TempId, TempId),
    ) -> Result<()> {
        let (from, to) = (slot(tile, input), slot(tile, output));
        let sources = &tile.demand.temps[input.0 as usize];
        for block in 0..tile.blocks.end - tile.blocks.start {
            for (place, &position) in tile.demand.temps[output.0 as usize].list.iter().enumerate() {
                let write = to.at(block, place as u32);
                let first = windows.starts[position as usize] as usize;
                let mut accumulate = false;
                for (index, &source) in windows.of(position).iter().enumerate() {
                    let source = sources.place(source);
                    let source = source.ok_or_else(|| Diagnostic::bug("a window leaves a tile"))?;
                    let weight = weights[first + index];
                    if weight == 0 {
                        continue;
                    }
                    self.register(FIRST, from.at(block, source))?;
                    let read = Some(acc(scalar(current, tile, weight)?));
                    let op = SimdOp::Multiply;
                    let simd = Simd { op, left: INPUT, right: FIRST, destination: 0 };
                    self.lir.emit_simd(accumulate, simd, Some(acc(write)), read)?;
                    accumulate = true;
                }
                if !accumulate {
                    self.zero([write])?;
                }
            }
        }
        Ok(())
    }
}

/// The accumulator of a scalar of the layer.
fn scalar(current: &Current<'_>, tile: &Tile<'_>, value: i32) -> Result<u64> {
    let splats = &current.info.constants.splats;
    let index = splats.iter().position(|&splat| splat == value);
    let index = index.ok_or_else(|| Diagnostic::bug("a scalar has no accumulator"))?;
    Ok(tile.accumulators.splats + index as u64)
}
