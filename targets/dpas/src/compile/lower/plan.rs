//! How a product is cut into groups, steps and blocks of weights.

use super::{Constants, Ending, Frame, Product, Work, padded};
use crate::compile::kernel::narrow::{Narrow, Packing};
use crate::compile::kernel::product::STEP;
use crate::compile::kernel::{End, Map, Tile, Unit};
use crate::compile::place::SLACK;
use crate::compile::requantise::Factors;
use crate::compile::weights::real;

/// How a product is cut.
pub(in super::super) struct Plan {
    tile: Tile,
    pub(super) loops: Vec<(usize, usize)>,
    pub(super) spread: [usize; 2],
    /// Groups along y and z.
    pub(super) blocks: usize,
    pub(super) groups: usize,
    pub(super) unit: Unit,
    /// The innermost loop passes over all columns of the window; otherwise over channels of one.
    is_run: bool,
    pub(super) packing: Packing,
}

impl Plan {
    pub(super) fn new(
        work: &Work<'_>,
        (frame, product): (&Frame, &Product),
        (tile, packing): (Tile, Packing),
        is_run: bool,
    ) -> Plan {
        let image = &work.inputs[0].1;
        let width = tile.columns * work.lanes();
        let bytes = work.inputs[0].0.numbers.size();
        let outputs = padded(&work.output.0, work.arch.platform);
        let inputs = product.inputs;
        let per_group = product.outputs / product.groups;
        let step = width / per_group * inputs;
        // Columns beyond the outputs have channels too, which may not be there.
        let read = outputs / width * step * bytes;
        let (blocks, groups, spread, channels) = if product.groups == 1 {
            (outputs / width, 1, [0, 0], inputs)
        } else if per_group.is_multiple_of(width) && (inputs * bytes).is_multiple_of(4) {
            (per_group / width, product.groups, [0, inputs * bytes], inputs)
        } else if width.is_multiple_of(per_group)
            && (step * bytes).is_multiple_of(4)
            && read <= image.pixel + SLACK
        {
            (outputs / width, 1, [step * bytes, 0], step)
        } else {
            // As one group, with weights of zero for what the others read.
            (outputs / width, 1, [0, 0], inputs * product.groups)
        };
        let [rows, columns] = frame.kernel;
        let down = (rows, frame.dilate[0] * image.row());
        let loops = match is_run {
            true => {
                let run = (columns - 1) * image.pixel + channels * bytes;
                vec![down, (run.div_ceil(STEP), STEP)]
            }
            false => vec![
                down,
                (columns, frame.dilate[1] * image.pixel),
                ((channels * bytes).div_ceil(STEP), STEP),
            ],
        };
        let steps = loops.iter().map(|&(_, stride)| stride).chain(spread);
        let steps = steps.chain(work.pool().map(|(_, step)| step));
        let starts = work.rows_in(0, frame, 1);
        let is_aligned =
            steps.chain(starts.into_iter().map(|start| start as usize)).all(|at| at % 8 == 0);
        let unit = if is_aligned { Unit::Qword } else { Unit::Dword };
        Plan { tile, loops, spread, blocks, groups, unit, is_run, packing }
    }

    /// The tables by which elements are loaded and stored.
    pub(super) fn tables(&self, work: &Work<'_>, frame: &Frame, constants: &mut Constants) -> Map {
        let (lanes, rows) = (work.lanes(), 8 * self.tile.rows);
        let size = work.output.0.numbers.size();
        let unit = self.unit.bytes();
        let share = (STEP / unit).min(lanes);
        // What stays in registers of its own leaves block by block.
        let leaving = if size == 4 { 1 } else { self.tile.columns };
        let mut map = Map {
            lanes_in: constants.put(work.lane_bytes(share, unit)),
            lanes_out: constants.put(work.lane_bytes(leaving * lanes * size / 8, 8)),
            ..Map::default()
        };
        for (operand, frame) in [*frame, Frame::POINT].iter().enumerate().take(work.inputs.len()) {
            map.rows_in[operand] = constants.put(work.rows_in(operand, frame, rows));
        }
        map.rows_out = constants.put(work.rows_out(rows));
        map
    }

    /// The constants of the columns, and where B begins behind them.
    pub(super) fn put(
        &self,
        work: &Work<'_>,
        product: &Product,
        ending: &Ending,
        constants: &mut Constants,
        map: &mut Map,
    ) {
        // Columns beyond the channels have no weights; their sums are zero.
        let columns = padded(&work.output.0, work.arch.platform);
        let channel = |at: usize| (at < product.outputs).then_some(at);
        let addend = |at: usize| channel(at).map_or(0, |at| product.addends[at] as u32);
        map.addends = constants.put((0..columns).map(addend));
        if ending.end != End::Sums {
            let part = |take: &dyn Fn(&Factors) -> f32| -> Vec<u32> {
                let of =
                    |at: usize| channel(at).map_or(0, |at| take(&ending.factors[at]).to_bits());
                (0..columns).map(of).collect()
            };
            map.factors = [
                constants.put(part(&|factors| factors.high)),
                constants.put(part(&|factors| factors.low)),
                constants.put(part(&|factors| factors.bias)),
            ];
        }
        map.weights = constants.put([]);
    }

    /// Bytes of B.
    pub(super) fn weight_bytes(&self, lanes: usize) -> usize {
        let bytes = STEP * lanes * self.packing.loaded() / 8;
        self.groups * self.blocks * self.steps().len() * self.tile.columns * bytes
    }

    /// B: for every block of columns all steps, for every step the blocks of lanes, as the
    /// instruction has them: rows of dwords, in each the bytes or the smaller codes of a lane.
    pub(super) fn weights(&self, work: &Work<'_>, frame: &Frame, product: &Product) -> Vec<u8> {
        let (lanes, tile) = (work.lanes(), self.tile.columns);
        let steps = self.steps();
        let blocks = self.groups * self.blocks;
        let mut bytes = Vec::with_capacity(self.weight_bytes(lanes));
        let taps = Taps::new(self, work, frame, product);
        for block in 0..blocks {
            let (z, y) = (block / self.blocks, block % self.blocks);
            // The first byte of A that the block's threads read.
            let base = z * self.spread[1] + y * self.spread[0];
            for step in &steps {
                for part in 0..tile {
                    let output = |lane: usize| (block * tile + part) * lanes + lane;
                    match self.packing {
                        Packing::Direct(bits) => {
                            let byte = |lane, at| taps.byte(output(lane), *step, base, at);
                            direct(&mut bytes, (bits, lanes), &byte);
                        }
                        Packing::Narrow(narrow, element) => {
                            let code = |lane, at| {
                                let weight = taps.weight(output(lane), *step, base, at);
                                narrow.code(real(weight, element))
                            };
                            narrow_block(&mut bytes, narrow, (taps.size, lanes), &code);
                        }
                    }
                }
            }
        }
        bytes
    }

    /// The steps in their order: row and column of the window, first byte.
    fn steps(&self) -> Vec<[usize; 3]> {
        let mut steps = Vec::new();
        let columns = if self.is_run { 1 } else { self.loops[1].0 };
        let inner = self.loops[self.loops.len() - 1].0;
        for row in 0..self.loops[0].0 {
            for column in 0..columns {
                steps.extend((0..inner).map(|step| [row, column, step * STEP]));
            }
        }
        steps
    }
}

/// Where weights lie among the bytes of A that threads read.
struct Taps<'a> {
    product: &'a Product,
    is_run: bool,
    /// Bytes of a pixel, and of an element.
    pixel: usize,
    size: usize,
    /// Columns of the window.
    columns: usize,
    /// Weights, and output channels of a group.
    length: usize,
    per_group: usize,
}

impl<'a> Taps<'a> {
    fn new(plan: &Plan, work: &Work<'_>, frame: &Frame, product: &'a Product) -> Taps<'a> {
        let (form, image) = &work.inputs[0];
        Taps {
            product,
            is_run: plan.is_run,
            pixel: image.pixel,
            size: form.numbers.size(),
            columns: frame.kernel[1],
            length: product.weights.len() / product.outputs,
            per_group: product.outputs / product.groups,
        }
    }

    /// Byte `byte` of a step of an output channel; 0 where no weight belongs to it.
    fn byte(&self, output: usize, step: [usize; 3], base: usize, byte: usize) -> u8 {
        (self.weight(output, step, base, byte) >> (byte % self.size * 8)) as u8
    }

    /// The weight that has that byte.
    fn weight(&self, output: usize, step: [usize; 3], base: usize, byte: usize) -> u32 {
        let [row, column, at] = step;
        let k = at + byte;
        let (column, channel) = match self.is_run {
            true => (k / self.pixel, k % self.pixel / self.size),
            false => (column, (base + k) / self.size),
        };
        let inputs = self.product.inputs;
        let weight = || {
            let input = channel.checked_sub(output / self.per_group * inputs)?;
            let inside = output < self.product.outputs && column < self.columns && input < inputs;
            let position = row * self.columns + column;
            inside.then(|| self.product.weights[output * self.length + position * inputs + input])
        };
        weight().unwrap_or(0)
    }
}

/// A block of B as it is multiplied: as many rows of dwords as a code has bits.
fn direct(bytes: &mut Vec<u8>, (bits, lanes): (usize, usize), byte: &dyn Fn(usize, usize) -> u8) {
    let (per, mask) = (32 / bits, (1 << bits) - 1);
    for (row, lane) in (0..bits).flat_map(|row| (0..lanes).map(move |lane| (row, lane))) {
        let code = |at: usize| (u32::from(byte(lane, per * row + at)) & mask) << (at * bits);
        bytes.extend((0..per).fold(0, |dword, at| dword | code(at)).to_le_bytes());
    }
}

/// A block of B of floats of so many bytes, in fewer bits: the order of its bytes is that of the
/// elements in registers; of codes of 4 bits those of registers that follow each other lie together.
fn narrow_block(
    bytes: &mut Vec<u8>,
    narrow: Narrow,
    (size, lanes): (usize, usize),
    code: &dyn Fn(usize, usize) -> u8,
) {
    let share = 4 / size;
    let elements = share * lanes;
    let code = |register: usize, at: usize| code(at / share, 4 * register + at % share * size);
    if narrow != Narrow::Codes4 {
        let all = (0..8).flat_map(|register| (0..elements).map(move |at| (register, at)));
        return bytes.extend(all.map(|(register, at)| code(register, at)));
    }
    // Registers whose codes share a word or dword.
    let together = 2 * size;
    for (first, at) in
        (0..8).step_by(together).flat_map(|first| (0..elements).map(move |at| (first, at)))
    {
        let nibble = |place: usize| u32::from(code(first + place, at) & 15) << (4 * place);
        let word = (0..together).fold(0, |word, place| word | nibble(place));
        bytes.extend(&word.to_le_bytes()[..size]);
    }
}
