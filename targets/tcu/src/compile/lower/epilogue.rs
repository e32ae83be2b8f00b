//! What happens to the accumulators of a tile behind the product.

use super::{Lowering, Tile, acc};
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
            let sources = tile.positions(input);
            let positions = &tile.positions(output).list;
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

/// `op(input, register)`, which no register keeps.
fn by_register(op: SimdOp) -> Simd {
    Simd::new(op, INPUT, FIRST, 0)
}

/// Accumulators of a temp in a tile.
pub(super) fn slot(tile: &Tile<'_>, temp: TempId) -> Slot {
    let base = tile.accumulators.temps[temp.0 as usize];
    Slot { base, positions: tile.positions(temp).len() }
}

impl Lowering<'_> {
    /// All operations of a tile; `product` computes the matrix product.
    pub(super) fn operations(
        &mut self,
        tile: &Tile<'_>,
        mut product: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        for op in &tile.current.info.layer.ops {
            match op {
                Op::MatMul(_) => product(self)?,
                Op::Load { from, output } => {
                    let all = tile.blocks.end - tile.blocks.start;
                    let blocks: Vec<(u32, u64)> =
                        (0..all).map(|block| (block, slot(tile, *output).at(block, 0))).collect();
                    self.view(tile, false, from, *output, &blocks)?;
                }
                Op::Mix { from, weights, output } => self.mix(tile, from, *weights, *output)?,
                Op::Binary { op, input, other, output } => {
                    self.binary(tile, *op, *input, other, *output)?;
                }
                Op::Unary { op, input, output } => {
                    self.unary(tile, *op, *input, *output)?;
                }
                Op::Norm { scale, offset, input, output } => {
                    self.norm(tile, *scale, *offset, *input, *output)?;
                }
                Op::Lookup { table, input, output } => {
                    let slopes = self.network.tables[table.0 as usize].slopes.is_some();
                    self.lookup(tile, slopes, *input, *output)?;
                }
                Op::Pool { kind, windows, input, output } => {
                    self.pool(tile, kind, windows, *input, *output)?;
                }
                Op::Interpolate { windows, weights, input, output } => {
                    self.interpolate(tile, windows, weights, *input, *output)?;
                }
                Op::Save { input, to, positions } => {
                    let planes = &to[tile.blocks.start as usize..tile.blocks.end as usize];
                    self.save(tile, *input, planes, positions.as_deref())?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn simd(&mut self, simd: Simd, write: Option<u64>, read: Option<u64>) -> Result<()> {
        self.lir.emit_simd(false, simd, write.map(acc), read.map(acc))
    }

    /// Puts an accumulator into a register.
    fn register(&mut self, register: u8, from: u64) -> Result<()> {
        self.simd(Simd::new(SimdOp::Move, INPUT, INPUT, register), None, Some(from))
    }

    /// Puts a scalar of the layer into a register.
    fn scalar(&mut self, tile: &Tile<'_>, register: u8, value: i32) -> Result<()> {
        if value == 0 {
            return self.simd(Simd::new(SimdOp::Zero, INPUT, INPUT, register), None, None);
        }
        let from = scalar(tile, value)?;
        self.register(register, from)
    }

    /// An operation of input and register everywhere in a block.
    fn with_register(&mut self, simd: Simd, slots: &Pointwise, block: u32) -> Result<()> {
        slots.pairs(block).try_for_each(|(from, to)| self.simd(simd, Some(to), Some(from)))
    }

    /// Brings some blocks of a tensor at the positions of a temp into accumulators, each from a first
    /// one on, or adds them there.
    fn view(
        &mut self,
        tile: &Tile<'_>,
        accumulate: bool,
        view: &View,
        temp: TempId,
        blocks: &[(u32, u64)],
    ) -> Result<()> {
        let positions = &tile.positions(temp).list;
        let (mut entries, mut zeros) = (Vec::new(), Vec::new());
        for &(block, to) in blocks {
            let plane = view.planes[(tile.blocks.start + block) as usize];
            let (memory, base, step) = self.plane(plane);
            for (to, &position) in (to..).zip(positions) {
                let from = view.map.as_ref().map_or(Some(position), |map| map[position as usize]);
                match from {
                    Some(from) => entries.push((to, (memory, base + u64::from(from) * step))),
                    None => zeros.push(to),
                }
            }
        }
        self.bring(tile.current, accumulate, &entries)?;
        if accumulate { Ok(()) } else { self.zero(zeros) }
    }

    /// As [`Lowering::view`], for a constant with one row for every position.
    fn rows(
        &mut self,
        tile: &Tile<'_>,
        accumulate: bool,
        constant: ConstId,
        block: u32,
        temp: TempId,
        to: u64,
    ) -> Result<()> {
        let column = u64::from(tile.blocks.start + block);
        let mut entries = Vec::new();
        for (to, &position) in (to..).zip(&tile.positions(temp).list) {
            let from = self.row_blocks(constant.0, position) + column;
            entries.push((to, (self.constants_in, from)));
        }
        self.bring(tile.current, accumulate, &entries)
    }

    fn binary(
        &mut self,
        tile: &Tile<'_>,
        op: Binary,
        input: TempId,
        other: &Operand,
        output: TempId,
    ) -> Result<()> {
        let simd = match op {
            Binary::Add => by_register(SimdOp::Add),
            Binary::Sub => by_register(SimdOp::Subtract),
            Binary::SubFrom => Simd::new(SimdOp::Subtract, FIRST, INPUT, 0),
            Binary::Mul => by_register(SimdOp::Multiply),
            Binary::Max => by_register(SimdOp::Max),
            Binary::Min => by_register(SimdOp::Min),
        };
        let slots = Pointwise::new(tile, input, output);
        let scratch = tile.accumulators.scratch;
        let all = 0..tile.blocks.end - tile.blocks.start;
        if let (Binary::Add, Operand::Vars(view)) = (op, other) {
            if slots.from.base != slots.to.base {
                all.clone().try_for_each(|block| self.copy(block, &slots))?;
            }
            let blocks: Vec<_> = all.map(|block| (block, slots.to.at(block, 0))).collect();
            return self.view(tile, true, view, output, &blocks);
        }
        for block in all {
            match other {
                Operand::Const(id) if self.network.consts[id.0 as usize].rows == 1 => {
                    let row = self.row(tile, *id, block)?;
                    self.register(FIRST, row)?;
                    self.with_register(simd, &slots, block)?;
                }
                Operand::Temp(other) => {
                    let others = Pointwise::new(tile, *other, output);
                    let others: Vec<u64> = others.pairs(block).map(|(other, _)| other).collect();
                    self.pairwise(simd, block, &slots, others)?;
                }
                Operand::Const(id) if op == Binary::Add => {
                    if slots.from.base != slots.to.base {
                        self.copy(block, &slots)?;
                    }
                    self.rows(tile, true, *id, block, output, slots.to.at(block, 0))?;
                }
                Operand::Const(id) => {
                    self.rows(tile, false, *id, block, output, scratch)?;
                    self.pairwise(simd, block, &slots, scratch..)?;
                }
                Operand::Vars(view) => {
                    self.view(tile, false, view, output, &[(block, scratch)])?;
                    self.pairwise(simd, block, &slots, scratch..)?;
                }
            }
        }
        Ok(())
    }

    fn copy(&mut self, block: u32, slots: &Pointwise) -> Result<()> {
        slots.pairs(block).try_for_each(|(read, write)| {
            self.simd(Simd::new(SimdOp::Move, INPUT, INPUT, 0), Some(write), Some(read))
        })
    }

    /// An operation of input and register, which holds the accumulators of the others.
    fn pairwise(
        &mut self,
        simd: Simd,
        block: u32,
        slots: &Pointwise,
        others: impl IntoIterator<Item = u64>,
    ) -> Result<()> {
        for ((read, write), other) in slots.pairs(block).zip(others) {
            self.register(FIRST, other)?;
            self.simd(simd, Some(write), Some(read))?;
        }
        Ok(())
    }

    fn unary(&mut self, tile: &Tile<'_>, op: Unary, input: TempId, output: TempId) -> Result<()> {
        let slots = Pointwise::new(tile, input, output);
        let blocks = 0..tile.blocks.end - tile.blocks.start;
        let max = by_register(SimdOp::Max);
        match op {
            Unary::Relu => {
                self.scalar(tile, FIRST, 0)?;
                blocks.into_iter().try_for_each(|b| self.with_register(max, &slots, b))
            }
            Unary::Clip { low, high } => {
                self.scalar(tile, FIRST, low)?;
                for block in blocks.clone() {
                    self.with_register(max, &slots, block)?;
                }
                self.scalar(tile, FIRST, high)?;
                let again = slots.again();
                blocks
                    .into_iter()
                    .try_for_each(|b| self.with_register(by_register(SimdOp::Min), &again, b))
            }
            Unary::LeakyRelu { alpha } => {
                let several = self.arch.simd_registers_depth > 1;
                if several {
                    self.scalar(tile, SECOND, alpha)?;
                }
                for block in blocks {
                    for (read, write) in slots.pairs(block) {
                        let slope = if several { SECOND } else { FIRST };
                        if !several {
                            self.scalar(tile, FIRST, alpha)?;
                        }
                        let multiply = Simd::new(SimdOp::Multiply, INPUT, slope, FIRST);
                        self.simd(multiply, None, Some(read))?;
                        self.simd(max, Some(write), Some(read))?;
                    }
                }
                Ok(())
            }
            Unary::LeakySum { factor } => {
                let all: Vec<(u64, u64)> = blocks.flat_map(|block| slots.pairs(block)).collect();
                self.leaky_sum(tile, factor, &all, slots.from.base == slots.to.base)
            }
        }
    }

    /// A leaky ReLU as a sum, of accumulators to accumulators.
    fn leaky_sum(
        &mut self,
        tile: &Tile<'_>,
        factor: i32,
        all: &[(u64, u64)],
        in_place: bool,
    ) -> Result<()> {
        let (min, multiply) = (by_register(SimdOp::Min), by_register(SimdOp::Multiply));
        let before = all.len().min(BATCH as usize) as u64;
        for batch in all.chunks(BATCH as usize) {
            // The negative numbers of operands that become results lie before all of them.
            let first = all.first().map_or(0, |&(read, _)| read);
            let parts = (0..).zip(batch).map(|(index, &(read, write))| {
                let part = if in_place { first - before + index } else { write };
                (read, part, write)
            });
            self.scalar(tile, FIRST, 0)?;
            for (read, part, _) in parts.clone() {
                self.simd(min, Some(part), Some(read))?;
            }
            self.scalar(tile, FIRST, factor)?;
            for (read, part, write) in parts {
                self.lir.emit_simd(in_place, multiply, Some(acc(write)), Some(acc(part)))?;
                if !in_place {
                    let moved = Simd::new(SimdOp::Move, INPUT, INPUT, 0);
                    self.lir.emit_simd(true, moved, Some(acc(write)), Some(acc(read)))?;
                }
            }
        }
        Ok(())
    }

    fn norm(
        &mut self,
        tile: &Tile<'_>,
        scale: ConstId,
        offset: ConstId,
        input: TempId,
        output: TempId,
    ) -> Result<()> {
        let slots = Pointwise::new(tile, input, output);
        for block in 0..tile.blocks.end - tile.blocks.start {
            let row = self.row(tile, scale, block)?;
            self.register(FIRST, row)?;
            self.with_register(by_register(SimdOp::Multiply), &slots, block)?;
            let row = self.row(tile, offset, block)?;
            self.register(FIRST, row)?;
            self.with_register(by_register(SimdOp::Add), &slots.again(), block)?;
        }
        Ok(())
    }

    /// The accumulator of a row for a block of the group.
    fn row(&self, tile: &Tile<'_>, id: ConstId, block: u32) -> Result<u64> {
        let rows = &tile.current.info.constants.rows;
        let index = rows.iter().position(|&row| row == id);
        let index = index.ok_or_else(|| Diagnostic::bug("a row has no accumulator"))? as u64;
        let block = u64::from(tile.blocks.start + block - tile.first_row_block);
        Ok(tile.accumulators.rows + index * u64::from(tile.row_blocks) + block)
    }

    fn pool(
        &mut self,
        tile: &Tile<'_>,
        kind: &Pooling,
        windows: &Windows,
        input: TempId,
        output: TempId,
    ) -> Result<()> {
        let (from, to) = (slot(tile, input), slot(tile, output));
        let sources = tile.positions(input);
        let combine = match kind {
            Pooling::Max => SimdOp::Max,
            Pooling::Average { .. } => SimdOp::Add,
        };
        if let Some(factor) = kind.factor_of_single(windows).filter(|&factor| factor != 0) {
            let slots =
                Pointwise { from, to, places: Some(self.singles(tile, windows, input, output)?) };
            self.register(FIRST, scalar(tile, factor)?)?;
            return (0..tile.blocks.end - tile.blocks.start).try_for_each(|block| {
                self.with_register(by_register(SimdOp::Multiply), &slots, block)
            });
        }
        for block in 0..tile.blocks.end - tile.blocks.start {
            for (place, &position) in tile.positions(output).list.iter().enumerate() {
                let write = Some(to.at(block, place as u32));
                let mut window = windows.of(position);
                let max = *kind == Pooling::Max;
                let zero = max && window.first() == Some(&Windows::ZERO);
                if zero {
                    window = &window[1..];
                    let to = if window.is_empty() { write } else { None };
                    let register = if window.is_empty() { 0 } else { FIRST };
                    self.simd(Simd::new(SimdOp::Zero, INPUT, INPUT, register), to, None)?;
                }
                for (index, &source) in window.iter().enumerate() {
                    let source = sources.place(source);
                    let source = source.ok_or_else(|| Diagnostic::bug("a window leaves a tile"))?;
                    let read = Some(from.at(block, source));
                    let last = max && index + 1 == window.len();
                    let (write, register) = if last { (write, 0) } else { (None, FIRST) };
                    let op = match index {
                        0 if !zero => Simd::new(SimdOp::Move, INPUT, INPUT, register),
                        _ => Simd::new(combine, INPUT, FIRST, register),
                    };
                    self.simd(op, write, read)?;
                }
                if let Pooling::Average { multipliers } = kind {
                    let single = multipliers.len() == 1;
                    let multiplier = multipliers[if single { 0 } else { position as usize }];
                    if multiplier == 0 || window.is_empty() {
                        self.zero(write)?;
                    } else {
                        let multiply = by_register(SimdOp::Multiply);
                        self.simd(multiply, write, Some(scalar(tile, multiplier)?))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The places of the only positions of windows.
    fn singles(
        &self,
        tile: &Tile<'_>,
        windows: &Windows,
        input: TempId,
        output: TempId,
    ) -> Result<Vec<u32>> {
        let sources = tile.positions(input);
        let place =
            |&position: &u32| windows.of(position).first().and_then(|&at| sources.place(at));
        let places = tile.positions(output).list.iter().map(place);
        places.collect::<Option<_>>().ok_or_else(|| Diagnostic::bug("a window leaves a tile"))
    }

    fn interpolate(
        &mut self,
        tile: &Tile<'_>,
        windows: &Windows,
        weights: &[i32],
        input: TempId,
        output: TempId,
    ) -> Result<()> {
        let (from, to) = (slot(tile, input), slot(tile, output));
        let sources = tile.positions(input);
        for block in 0..tile.blocks.end - tile.blocks.start {
            for (place, &position) in tile.positions(output).list.iter().enumerate() {
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
                    let read = Some(acc(scalar(tile, weight)?));
                    let multiply = by_register(SimdOp::Multiply);
                    self.lir.emit_simd(accumulate, multiply, Some(acc(write)), read)?;
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
fn scalar(tile: &Tile<'_>, value: i32) -> Result<u64> {
    let splats = &tile.current.info.constants.splats;
    let index = splats.iter().position(|&splat| splat == value);
    let index = index.ok_or_else(|| Diagnostic::bug("a scalar has no accumulator"))?;
    Ok(tile.accumulators.splats + index as u64)
}
