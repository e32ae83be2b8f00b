//! A layer becomes a kernel's text, its constants and the groups of its launch.

use super::kernel::blocks::{Matrix, RUN, Shape as BlocksShape};
use super::kernel::product::{STEP, Shape as ProductShape};
use super::kernel::rows::{Tile as RowsTile, Way};
use super::kernel::{self, End, Leave, LeaveFloats, Map, Term, Tile, Unit};
use super::layers::{Codes, Form, Frame, Layer, Network, Numbers, Operation};
use super::place::{Image, SLACK};
use super::requantise::{Channel, Ends, Factors, Steps};
use super::weights::Product;
use crate::arch::{DpasArch, Platform};
use crate::program::device::{
    Access, Argument, ArgumentKind, Environment, Kernel, Launch, Place, Value,
};
use crate::program::{Element, Listing};
use crate::text;
use quincunx_diag::{Diagnostic, Result, SourceId, first};
use quincunx_graph::{Scalar, ValueId};
use quincunx_num::{Overflow, Rounding};

/// A layer as the machine runs it.
pub(super) struct Lowered {
    /// What the kernel is called, before its number.
    pub(super) kind: &'static str,
    /// The kernel.
    pub(super) text: String,
    /// Operands and result of the kernel, before the constants.
    pub(super) operands: usize,
    /// Its constants.
    pub(super) constants: Vec<u8>,
    /// Groups along x, y and z.
    pub(super) groups: [u32; 3],
}

/// Matrices begin at a multiple of this.
const LINE: usize = 64;
/// Most rows and bytes of a row of a matrix.
const LARGEST: usize = 1 << 24;
/// Most rows of a run.
const LONGEST: usize = 32;

/// Blocks of columns of a tile for so many channels: as many as divide their blocks.
fn columns(numbers: Numbers, channels: usize, lanes: usize) -> usize {
    let blocks = channels.div_ceil(lanes);
    match numbers.size() {
        // Whole sums are not padded.
        4 if blocks.is_multiple_of(4) => 4,
        4 if blocks.is_multiple_of(2) => 2,
        4 => 1,
        _ if blocks > 8 || blocks.is_multiple_of(4) => 4,
        _ if blocks > 1 => 2,
        _ => 1,
    }
}

/// Bytes of a pixel of a result: whole tiles.
pub(super) fn pixel(form: &Form, platform: Platform) -> usize {
    aligned(padded(form, platform) * form.numbers.size(), platform)
}

/// Channels of whole tiles.
fn padded(form: &Form, platform: Platform) -> usize {
    let lanes = platform.lanes() as usize;
    let width = columns(form.numbers, form.extents[2], lanes) * lanes;
    form.extents[2].next_multiple_of(width)
}

/// Bytes of a pixel such that blocks of matrices can begin with it, where there are some and it is not
/// small.
pub(super) fn aligned(pixel: usize, platform: Platform) -> usize {
    match platform.is_second() && pixel > LINE / 2 {
        true => pixel.next_multiple_of(LINE),
        false => pixel,
    }
}

/// The layer on a machine.
///
/// # Errors
/// What the kernels cannot do.
pub(super) fn lower(
    layer: &Layer,
    network: &Network,
    image: &dyn Fn(ValueId) -> Image,
    arch: &DpasArch,
) -> Result<Lowered> {
    let form = |value: ValueId| network.forms[&value];
    let work = Work {
        layer,
        inputs: layer.inputs.iter().map(|&value| (form(value), image(value))).collect(),
        output: (form(layer.output), image(layer.output)),
        arch,
    };
    match (&layer.operation, &layer.product) {
        (Operation::Product(frame), Some(product)) => work.product(frame, product),
        (Operation::Largest(frame), _) => work.largest(frame),
        (Operation::Add, _) => work.add(),
        _ => Err(Diagnostic::bug("a layer without a kernel is lowered")),
    }
}

/// A layer with the forms and places of its values.
struct Work<'a> {
    layer: &'a Layer,
    inputs: Vec<(Form, Image)>,
    output: (Form, Image),
    arch: &'a DpasArch,
}

/// Constants of a layer that grow.
#[derive(Default)]
struct Constants(Vec<u8>);

impl Constants {
    /// Appends dwords at a multiple of 64 bytes, and says where.
    fn put(&mut self, dwords: impl IntoIterator<Item = u32>) -> usize {
        self.0.resize(self.0.len().next_multiple_of(64), 0);
        let at = self.0.len();
        self.0.extend(dwords.into_iter().flat_map(u32::to_le_bytes));
        at
    }
}

fn unsupported(what: impl Into<String>) -> Diagnostic {
    Diagnostic::unsupported("Q6182", what.into())
}

impl Work<'_> {
    fn lanes(&self) -> usize {
        self.arch.platform.lanes() as usize
    }

    fn columns(&self) -> usize {
        columns(self.output.0.numbers, self.output.0.extents[2], self.lanes())
    }

    /// Positions of the result, over all images.
    fn positions(&self) -> usize {
        let (form, _) = &self.output;
        form.images * form.extents[0] * form.extents[1]
    }

    /// For every lane of a message with so many lanes for a row, its bytes within the row.
    fn lane_bytes(&self, share: usize, unit: usize) -> Vec<u32> {
        (0..self.lanes()).map(|lane| (lane % share * unit) as u32).collect()
    }

    /// Where every row of the result begins, of whole tiles of rows.
    fn rows_out(&self, rows: usize) -> Vec<u32> {
        let (form, image) = &self.output;
        let [h, w, _] = form.extents;
        let at = |row: usize| {
            if row >= self.positions() {
                return image.dump() as u32;
            }
            let (n, y, x) = (row / (h * w), row / w % h, row % w);
            image.at(n, y + image.before[0], x + image.before[1]) as u32
        };
        (0..self.positions().next_multiple_of(rows)).map(at).collect()
    }

    /// Where the first tap of every row lies in an operand.
    fn rows_in(&self, operand: usize, frame: &Frame, rows: usize) -> Vec<u32> {
        let [h, w, _] = self.output.0.extents;
        let (_, image) = &self.inputs[operand];
        let border = |axis: usize| image.before[axis] - frame.before[axis];
        let at = |row: usize| {
            if row >= self.positions() {
                return 0;
            }
            let (n, y, x) = (row / (h * w), row / w % h, row % w);
            let row = y * frame.stride[0] + border(0);
            image.at(n, row, x * frame.stride[1] + border(1)) as u32
        };
        (0..self.positions().next_multiple_of(rows)).map(at).collect()
    }

    /// Offsets are dwords.
    fn check_sizes(&self) -> Result<()> {
        let images = self.inputs.iter().chain([&self.output]).map(|(_, image)| image.bytes());
        match images.max().is_some_and(|bytes| bytes > i32::MAX as usize) {
            true => Err(unsupported("a value has more than 2 GiB")),
            false => Ok(()),
        }
    }

    /// The ends of the codes of the result, as differences from zero.
    fn ends(&self, codes: Codes) -> Ends {
        let [low, high] = codes.range();
        let scalar = Scalar {
            signed: true,
            width: 40,
            scale: codes.scale,
            zero: 0,
            rounding: Rounding::HalfEven,
            overflow: Overflow::Saturate,
        };
        let code = |real: f64, own: i32| match real.is_finite() {
            true => (scalar.nearest(real) / codes.scale).round().clamp(-512.0, 512.0) as i32,
            false => own,
        };
        let [least, most] = self.layer.clip;
        let (low, high) = (low - codes.zero, high - codes.zero);
        let (least, most) = (code(least, low).clamp(low, high), code(most, high).clamp(low, high));
        Ends { low: least, high: most }
    }

    /// How floats of the result leave.
    fn leave_floats(&self, element: Element) -> LeaveFloats {
        LeaveFloats { ends: self.layer.clip.map(|end| end as f32), element }
    }

    /// The types of sums, weights and operand.
    fn types(&self) -> [&'static str; 3] {
        match self.inputs[0].0.numbers {
            Numbers::Floats(Element::F) => ["f", "tf32", "tf32"],
            Numbers::Floats(element) => ["f", element.name(), element.name()],
            numbers => ["d", "b", numbers.element().name()],
        }
    }

    fn leave(codes: Codes, ends: Ends) -> Leave {
        Leave { zero: codes.zero, ends: [ends.low, ends.high], signed: codes.signed }
    }

    fn product(&self, frame: &Frame, product: &Product) -> Result<Lowered> {
        self.check_sizes()?;
        let mut tile = Tile { rows: 4, columns: self.columns() };
        while tile.rows > 1 && 4 * tile.rows >= self.positions() {
            tile.rows /= 2;
        }
        let ending = self.ending(product)?;
        // Smaller tiles until the registers suffice.
        for _ in 0..4 {
            let blocks = self.blocks(frame, product, tile, &ending);
            let gathered = || self.gathered(frame, product, tile, &ending);
            if let Some(lowered) = blocks.or_else(gathered) {
                return Ok(lowered);
            }
            match tile {
                Tile { rows: 2.., .. } => tile.rows /= 2,
                _ => tile.columns = (tile.columns / 2).max(1),
            }
        }
        Err(unsupported(format!("a kernel with the tile {tile:?} needs too many registers")))
    }

    /// With loads of elements; `None` if there are too few registers.
    fn gathered(
        &self,
        frame: &Frame,
        product: &Product,
        tile: Tile,
        ending: &Ending,
    ) -> Option<Lowered> {
        let is_run = product.groups == 1 && (frame.dilate[1] == 1 || frame.kernel[1] == 1);
        let made = Plan::new(self, frame, product, (tile, is_run));
        let mut constants = Constants::default();
        let mut map = made.tables(self, frame, &mut constants);
        made.put(self, (frame, product), ending, &mut constants, &mut map);
        let shape = ProductShape {
            tile,
            map,
            loops: made.loops.clone(),
            spread: made.spread,
            blocks: made.blocks,
            unit: made.unit,
            types: self.types(),
            end: ending.end,
        };
        let text = kernel::product(&shape, self.arch.platform, self.arch.grfs);
        let rows = self.positions().div_ceil(8 * tile.rows);
        let groups = [rows, made.blocks, made.groups].map(|count| count as u32);
        let constants = constants.0;
        text.map(|text| Lowered { kind: "product", text, operands: 2, constants, groups })
    }

    /// With blocks of matrices; `None` if values do not lie in such, or there are too few registers.
    fn blocks(
        &self,
        frame: &Frame,
        product: &Product,
        tile: Tile,
        ending: &Ending,
    ) -> Option<Lowered> {
        let runs = Runs::new(self, &[*frame], 8 * tile.rows)?;
        let made = Plan::new(self, frame, product, (tile, false));
        let [rows, columns, steps] = [made.loops[0], made.loops[1], made.loops[2]];
        let (input, output) = (&self.inputs[0].1, &self.output.1);
        let last = (made.blocks - 1) * made.spread[0] + (made.groups - 1) * made.spread[1];
        let fits = last + steps.0 * STEP <= input.pixel && columns.1.is_multiple_of(LINE);
        let b_rows = made.steps().len() * made.blocks * made.groups * tile.columns * 8;
        if !fits || b_rows > LARGEST {
            return None;
        }
        let all = 8 * tile.rows;
        let ways = [(2, all), (2, 8), (1, all), (1, 8)];
        for (depth, batch) in ways.into_iter().filter(|(depth, _)| steps.0.is_multiple_of(*depth)) {
            let mut shape = BlocksShape {
                tile,
                run: runs.length,
                depth,
                map: Map::default(),
                window: [rows, columns],
                steps: steps.0,
                spread: made.spread,
                blocks: made.blocks,
                types: self.types(),
                end: ending.end,
                batch,
            };
            if !shape.fits(self.arch.platform, self.arch.grfs) {
                continue;
            }
            let a = Matrix { width: input.pixel, rows: runs.length, pitch: runs.pitches[0] };
            let c = Matrix { width: output.pixel, rows: 8, pitch: output.pixel };
            let mut constants = Constants::default();
            constants.put(shape.payloads(a, b_rows, c));
            shape.map.rows_in[0] = constants.put(runs.table(8 * tile.rows / runs.length));
            made.put(self, (frame, product), ending, &mut constants, &mut shape.map);
            let text = kernel::blocks(&shape, self.arch.platform, self.arch.grfs);
            let x = runs.list.len().div_ceil(8 * tile.rows / runs.length);
            let groups = [x, made.blocks, made.groups].map(|count| count as u32);
            let constants = constants.0;
            return Some(Lowered { kind: "product", text, operands: 2, constants, groups });
        }
        None
    }

    /// What the sums of a product become.
    fn ending(&self, product: &Product) -> Result<Ending> {
        Ok(match self.output.0.numbers {
            Numbers::Sums => Ending { end: End::Sums, factors: Vec::new() },
            Numbers::Floats(element) => {
                let factor = Factors { high: product.factor, ..Factors::default() };
                Ending {
                    end: End::Floats(product.factor != 1.0, self.leave_floats(element)),
                    factors: vec![factor; product.outputs],
                }
            }
            Numbers::Codes(codes) => {
                let ends = self.ends(codes);
                let (steps, factors) = factors(product, codes, ends)?;
                Ending { end: End::Codes(steps, Work::leave(codes, ends)), factors }
            }
        })
    }

    fn largest(&self, frame: &Frame) -> Result<Lowered> {
        self.check_sizes()?;
        let (input, image) = &self.inputs[0];
        let (tile, groups, constants) = self.elements(&[*frame], 8);
        let shape = kernel::largest::Shape {
            tile,
            loops: [
                (frame.kernel[0], frame.dilate[0] * image.row()),
                (frame.kernel[1], frame.dilate[1] * image.pixel),
            ],
            element: input.numbers.element(),
        };
        let text = kernel::largest(&shape, self.arch.platform, self.arch.grfs);
        self.finish("largest", text, (2, groups), constants)
    }

    fn add(&self) -> Result<Lowered> {
        self.check_sizes()?;
        let end = match self.output.0.numbers {
            Numbers::Floats(element) => kernel::add::End::Floats(self.leave_floats(element)),
            _ => {
                let codes = self.output.0.codes().map_err(unsupported)?;
                let mut terms = Vec::new();
                for (form, _) in &self.inputs {
                    let term = form.codes().map_err(unsupported)?;
                    let factor = (term.scale / codes.scale) as f32;
                    terms.push(Term { factor, zero: term.zero, element: form.numbers.element() });
                }
                let leave = Self::leave(codes, self.ends(codes));
                kernel::add::End::Codes([terms[0], terms[1]], leave)
            }
        };
        // Fewer rows where there are fewer registers.
        let made = |most: usize| {
            let (tile, groups, constants) = self.elements(&[Frame::POINT; 2], most);
            let shape = kernel::add::Shape { tile, end: end.clone() };
            let text = kernel::add(&shape, self.arch.platform, self.arch.grfs);
            self.finish("add", text, (3, groups), constants)
        };
        made(LONGEST).or_else(|_| made(8))
    }

    /// The tiles of kernels that compute element by element, of at most so many rows, how many groups
    /// there are along x and y, and the constants that say where they lie.
    fn elements(&self, frames: &[Frame], most: usize) -> (RowsTile, [usize; 2], Constants) {
        let mut constants = Constants::default();
        let size = self.output.0.numbers.size();
        if let Some(runs) = Runs::new(self, frames, most) {
            let whole = runs.whole(self, frames, most);
            let (runs, y) = match whole {
                Some(whole) => (whole, 1),
                None => (runs, self.output.1.pixel / LINE),
            };
            let rows = |pitch: usize| Matrix { width: pitch, rows: runs.length, pitch };
            let pitches = runs.pitches.iter().chain([&runs.result]);
            let matrices: Vec<Matrix> = pitches.map(|&pitch| rows(pitch)).collect();
            constants.put(kernel::rows::payloads(&matrices, runs.length, LINE));
            let mut map = Map::default();
            map.rows_in[0] = constants.put(runs.table(1));
            let tile = RowsTile { way: Way::Blocks, blocks: runs.length / 8, width: LINE, map };
            return (tile, [runs.list.len(), y], constants);
        }
        let columns = self.columns().min(8 / size);
        let width = columns * self.lanes() * size;
        let lanes_out = constants.put(self.lane_bytes(width / 8, 8));
        let mut map = Map { lanes_out, ..Map::default() };
        for (operand, frame) in frames.iter().enumerate() {
            map.rows_in[operand] = constants.put(self.rows_in(operand, frame, 8));
        }
        map.rows_out = constants.put(self.rows_out(8));
        let tile = RowsTile { way: Way::Lanes, blocks: 1, width, map };
        (tile, [self.positions().div_ceil(8), self.output.1.pixel / width], constants)
    }

    fn finish(
        &self,
        kind: &'static str,
        text: Option<String>,
        (operands, [x, y]): (usize, [usize; 2]),
        constants: Constants,
    ) -> Result<Lowered> {
        let text = text.ok_or_else(|| unsupported("its kernel needs too many registers"))?;
        let groups = [x, y, 1].map(|count| count as u32);
        Ok(Lowered { kind, text, operands, constants: constants.0, groups })
    }
}

/// How the sums of a product leave, with the factors of its channels.
struct Ending {
    end: End,
    factors: Vec<Factors>,
}

/// Positions of a result that follow each other in rows of matrices, in the operands and in the result.
struct Runs {
    /// Rows of a run: 8, 16 or 32.
    length: usize,
    /// Bytes from one row of an operand to the next, and of the result.
    pitches: Vec<usize>,
    result: usize,
    /// First byte of a run in the operands, then in the result; at last its rows but one.
    list: Vec<[u32; RUN]>,
    /// A run that does nothing of use.
    idle: [u32; RUN],
}

impl Runs {
    /// The runs of the windows of operands, of at most so many rows; `None` where values do not lie in
    /// such rows.
    fn new(work: &Work<'_>, frames: &[Frame], most: usize) -> Option<Runs> {
        let images = work.inputs.iter().map(|(_, image)| image).zip(frames);
        let pitches: Vec<usize> =
            images.clone().map(|(image, frame)| frame.stride[1] * image.pixel).collect();
        let output = &work.output.1;
        let starts = (0..frames.len()).map(|at| work.rows_in(at, &frames[at], 1));
        let starts: Vec<Vec<u32>> = starts.chain([work.rows_out(1)]).collect();
        let all = starts.iter().flatten().map(|&start| start as usize);
        let moves = images.flat_map(|(image, frame)| {
            [image.pixel, frame.dilate[0] * image.row(), frame.dilate[1] * image.pixel]
        });
        let mut all = all.chain(moves).chain([output.pixel, output.dump()]);
        let fits = pitches.iter().chain([&output.pixel]).all(|&pitch| pitch <= LARGEST);
        if !work.arch.platform.is_second() || !all.all(|at| at.is_multiple_of(LINE)) || !fits {
            return None;
        }
        // Positions that follow each other.
        let steps: Vec<u32> =
            pitches.iter().chain([&output.pixel]).map(|&step| step as u32).collect();
        let follows = |at: usize| {
            at > 0 && starts.iter().zip(&steps).all(|(list, &step)| list[at - 1] + step == list[at])
        };
        let firsts: Vec<usize> = (0..work.positions()).filter(|&at| !follows(at)).collect();
        let ends = firsts[1..].iter().copied().chain([work.positions()]);
        let rows: Vec<(usize, usize)> = firsts.iter().copied().zip(ends).collect();
        // The fewest rows that nobody needs, then the longest runs.
        let computed = |length: usize| -> usize {
            rows.iter().map(|(first, end)| (end - first).next_multiple_of(length)).sum()
        };
        let lengths = [LONGEST, 16, 8].into_iter().filter(|&length| length <= most);
        let length = lengths.min_by_key(|&length| computed(length))?;
        let run = |at: usize, rows: usize| {
            let mut run = [0; RUN];
            for (place, list) in run.iter_mut().zip(&starts) {
                *place = list[at];
            }
            run[RUN - 1] = rows as u32 - 1;
            run
        };
        let cut = |&(first, end): &(usize, usize)| {
            let starts = (first..end).step_by(length);
            starts.map(|at| run(at, length.min(end - at))).collect::<Vec<_>>()
        };
        let list = rows.iter().flat_map(cut).collect();
        let mut idle = [0; RUN];
        idle[frames.len()] = output.dump() as u32;
        Some(Runs { length, pitches, result: output.pixel, list, idle })
    }

    /// All values as rows of one line, where they lie in one piece and every element is computed from
    /// those in the same place.
    fn whole(&self, work: &Work<'_>, frames: &[Frame], most: usize) -> Option<Runs> {
        let pixel = work.output.1.pixel;
        let same = self.pitches.iter().all(|&pitch| pitch == pixel);
        let points = frames.iter().all(|frame| *frame == Frame::POINT);
        let positions: usize = self.list.iter().map(|run| run[RUN - 1] as usize + 1).sum();
        let first = self.list.first()?;
        let follow = self.list.iter().enumerate().all(|(at, run)| {
            let places = run.iter().zip(first).take(frames.len() + 1);
            places
                .into_iter()
                .all(|(place, first)| *place as usize == *first as usize + at * self.length * pixel)
        });
        if !same || !points || !follow {
            return None;
        }
        let rows = positions * pixel / LINE;
        let length = most;
        let run = |at: usize| {
            let mut run = *first;
            run.iter_mut().for_each(|place| *place += (at * LINE) as u32);
            run[RUN - 1] = length.min(rows - at) as u32 - 1;
            run
        };
        let list = (0..rows).step_by(length).map(run).collect();
        Some(Runs {
            length,
            pitches: vec![LINE; frames.len()],
            result: LINE,
            list,
            idle: self.idle,
        })
    }

    /// The runs as kernels read them, filled up to whole tiles of so many.
    fn table(&self, runs: usize) -> Vec<u32> {
        let count = self.list.len().next_multiple_of(runs);
        let all = self.list.iter().chain(std::iter::repeat(&self.idle)).take(count);
        all.flatten().copied().collect()
    }
}

/// How a product is cut.
struct Plan {
    tile: Tile,
    loops: Vec<(usize, usize)>,
    spread: [usize; 2],
    /// Groups along y and z.
    blocks: usize,
    groups: usize,
    unit: Unit,
    /// The innermost loop passes over all columns of the window; otherwise over channels of one.
    is_run: bool,
}

impl Plan {
    fn new(
        work: &Work<'_>,
        frame: &Frame,
        product: &Product,
        (tile, is_run): (Tile, bool),
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
        let starts = work.rows_in(0, frame, 1);
        let is_aligned =
            steps.chain(starts.into_iter().map(|start| start as usize)).all(|at| at % 8 == 0);
        let unit = if is_aligned { Unit::Qword } else { Unit::Dword };
        Plan { tile, loops, spread, blocks, groups, unit, is_run }
    }

    /// The tables by which elements are loaded and stored.
    fn tables(&self, work: &Work<'_>, frame: &Frame, constants: &mut Constants) -> Map {
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
        map.rows_in[0] = constants.put(work.rows_in(0, frame, rows));
        map.rows_out = constants.put(work.rows_out(rows));
        map
    }

    /// The constants of the columns, and B.
    fn put(
        &self,
        work: &Work<'_>,
        (frame, product): (&Frame, &Product),
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
        let weights = self.weights(work, frame, product);
        map.weights = constants.put([]);
        constants.0.extend(weights);
    }

    /// B: for every block of columns all steps, for every step the blocks of lanes, as the
    /// instruction has them: rows of dwords, in each the bytes of a lane.
    fn weights(&self, work: &Work<'_>, frame: &Frame, product: &Product) -> Vec<u8> {
        let (lanes, tile) = (work.lanes(), self.tile.columns);
        let steps = self.steps();
        let blocks = self.groups * self.blocks;
        let mut bytes = Vec::with_capacity(blocks * steps.len() * tile * STEP * lanes);
        let taps = Taps::new(self, work, frame, product);
        for block in 0..blocks {
            let (z, y) = (block / self.blocks, block % self.blocks);
            // The first byte of A that the block's threads read.
            let base = z * self.spread[1] + y * self.spread[0];
            for step in &steps {
                for (part, row) in (0..tile).flat_map(|part| (0..8).map(move |row| (part, row))) {
                    for lane in 0..lanes {
                        let output = (block * tile + part) * lanes + lane;
                        let byte = |byte: usize| taps.byte(output, *step, base, 4 * row + byte);
                        bytes.extend((0..4).map(byte));
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
        (weight().unwrap_or(0) >> (k % self.size * 8)) as u8
    }
}

/// The factors of all channels, with the same steps for all.
fn factors(product: &Product, codes: Codes, ends: Ends) -> Result<(Steps, Vec<Factors>)> {
    let channel = |at: usize| Channel { sum: product.sums[at], output: codes.scale };
    let refuse = || unsupported("no steps in f32 give the codes of exact rounding");
    let proved = (0..product.outputs).map(|at| channel(at).prove(ends).ok_or_else(refuse));
    let proved = proved.collect::<Result<Vec<(Steps, Factors)>>>()?;
    let steps = proved.iter().map(|&(steps, _)| steps).max().unwrap_or(Steps::Plain);
    let of = |(at, (own, factors)): (usize, (Steps, Factors))| match own == steps {
        true => Ok(factors),
        false => channel(at).corrected(factors, ends).ok_or_else(refuse),
    };
    let factors = proved.into_iter().enumerate().map(of).collect::<Result<Vec<Factors>>>()?;
    Ok((steps, factors))
}

/// The instructions of a text that we wrote.
pub(super) fn assemble(text: &str, platform: Platform) -> Result<Listing> {
    text::native::read(text, platform, SourceId(0)).map_err(|problems| {
        let problem = first(problems);
        Diagnostic::bug(format!("a kernel of ours is no text: {}", problem.message()))
    })
}

/// A kernel whose arguments are addresses: operands that it reads, the result that it writes,
/// constants.
pub(super) fn kernel(name: &str, listing: Listing, arch: &DpasArch, operands: usize) -> Kernel {
    let argument = |index: usize| Argument {
        kind: ArgumentKind::Pointer {
            index: index as u32,
            access: if index + 1 == operands { Access::Write } else { Access::Read },
        },
        offset: 8 * index as u32,
        size: 8,
    };
    Kernel {
        name: name.to_owned(),
        listing,
        environment: Environment {
            grfs: arch.grfs,
            simd: arch.platform.lanes(),
            slm: 0,
            barriers: 0,
            inline: arch.platform.grf_bytes(),
            local_ids: 0,
        },
        arguments: (0..=operands).map(argument).collect(),
        place: Place::default(),
    }
}

/// A launch with one thread a group.
pub(super) fn launch(
    kernel: String,
    groups: [u32; 3],
    buffers: impl Iterator<Item = String>,
    layer: &str,
) -> Launch {
    Launch {
        kernel,
        groups,
        threads: 1,
        local_size: None,
        arguments: buffers.map(Value::Buffer).collect(),
        layer: Some(layer.to_owned()),
        place: Place::default(),
    }
}
