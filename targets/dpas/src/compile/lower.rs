//! A layer becomes kernels' texts, one for every tile that it could have, with their constants and the
//! groups of their launches.

mod joined;
mod plan;
mod runs;

use super::kernel::blocks::{Matrix, Shape as BlocksShape, Source};
use super::kernel::end::{FloatSum, Scaling, Sum};
use super::kernel::narrow::Packing;
use super::kernel::product::{STEP, Shape as ProductShape};
use super::kernel::rows::{Tile as RowsTile, Way};
use super::kernel::softmax;
use super::kernel::zeros::Zeros;
use super::kernel::{self, End, Leave, LeaveFloats, Map, Term, Tile, Written};
use super::layers::{Added, Codes, Form, Frame, Layer, Network, Numbers, Operation};
use super::place::Image;
use super::requantise::{Channel, Ends, Factors, Steps};
use super::weights::Product;
use crate::arch::{DpasArch, Platform};
use crate::program::Element;
use plan::Plan;
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Scalar, ValueId};
use quincunx_num::{Overflow, Rounding};
use runs::Runs;

/// A tile that the threads of a layer could compute.
pub(super) struct Choice {
    /// Positions and channels.
    pub(super) tile: [usize; 2],
    /// The type of constant weights in memory.
    pub(super) weights: Option<&'static str>,
    /// Registers of a thread.
    pub(super) grfs: u32,
    /// The kernel, or why there is none.
    pub(super) kernel: std::result::Result<Candidate, String>,
}

/// A kernel for a layer.
pub(super) struct Candidate {
    /// What the kernel is called, before its number.
    pub(super) kind: &'static str,
    /// The kernel, and the registers that it needs.
    pub(super) written: Written,
    /// Operands and result of the kernel, before the constants.
    pub(super) operands: usize,
    /// Its constants, without weights.
    constants: Vec<u8>,
    /// How it cuts the weights that follow.
    plan: Option<Plan>,
    /// Groups along x, y and z.
    pub(super) groups: [u32; 3],
}

/// Registers of a thread in its small form, of which an engine holds twice as many.
const FEW: u32 = 128;
/// Matrices begin at a multiple of this.
pub(super) const LINE: usize = 64;
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
pub(super) fn padded(form: &Form, platform: Platform) -> usize {
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

/// A layer with the forms and places of its values.
pub(super) struct Work<'a> {
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

impl<'a> Work<'a> {
    /// The work of a layer on a machine.
    pub(super) fn new(
        layer: &'a Layer,
        network: &Network,
        image: &dyn Fn(ValueId) -> Image,
        arch: &'a DpasArch,
    ) -> Work<'a> {
        let form = |value: ValueId| network.forms[&value];
        Work {
            layer,
            inputs: layer.inputs.iter().map(|&value| (form(value), image(value))).collect(),
            output: (form(layer.output), image(layer.output)),
            arch,
        }
    }

    /// The tiles that the layer could have, the largest first.
    ///
    /// # Errors
    /// What no kernel can do.
    pub(super) fn choices(&self) -> Result<Vec<Choice>> {
        let sizes = self.images().map(Image::bytes);
        if sizes.max().is_some_and(|bytes| bytes > i32::MAX as usize) {
            // Offsets are dwords.
            return Err(unsupported("a value has more than 2 GiB"));
        }
        match (&self.layer.operation, &self.layer.product) {
            (Operation::Product(frame), Some(product)) => self.product(frame, product),
            (Operation::Largest(frame), _) => Ok(self.largest(frame)),
            (Operation::Add, _) => self.add(),
            (Operation::Softmax, _) => self.softmax(),
            (Operation::Joined(joined), _) => self.joined(joined),
            _ => Err(Diagnostic::bug("a layer without a kernel is lowered")),
        }
    }

    /// Bytes of the constants of a kernel.
    pub(super) fn constant_bytes(&self, candidate: &Candidate) -> usize {
        let weights = candidate.plan.as_ref().map_or(0, |plan| plan.weight_bytes(self.lanes()));
        candidate.constants.len() + weights
    }

    /// The constants of a kernel.
    pub(super) fn constants(&self, candidate: Candidate) -> Vec<u8> {
        let Candidate { mut constants, plan, .. } = candidate;
        if let (Some(plan), Operation::Product(frame), Some(product)) =
            (plan, &self.layer.operation, &self.layer.product)
        {
            constants.extend(plan.weights(self, frame, product));
        }
        constants
    }

    /// The images of operands and result.
    pub(super) fn images(&self) -> impl Iterator<Item = &Image> {
        self.inputs.iter().chain([&self.output]).map(|(_, image)| image)
    }

    /// Registers that threads can have.
    fn files(&self) -> Vec<u32> {
        match self.arch.grfs {
            FEW => vec![FEW],
            many => vec![many, FEW],
        }
    }

    /// Why threads with few registers are not tried, where those with many all run at once.
    fn enough(&self, grfs: u32, groups: [u32; 3]) -> std::result::Result<(), String> {
        let arch = self.arch;
        let slots = u64::from(arch.cores) * u64::from(arch.engines) * u64::from(arch.threads());
        let threads: u64 = groups.into_iter().map(u64::from).product();
        match grfs < arch.grfs && threads <= slots {
            true => {
                Err(format!("all threads ({threads}) run at once with {} registers", arch.grfs))
            }
            false => Ok(()),
        }
    }

    /// A kernel that fits its registers.
    fn fitting(&self, grfs: u32, candidate: Candidate) -> std::result::Result<Candidate, String> {
        self.enough(grfs, candidate.groups)?;
        match candidate.written.registers {
            needed if needed > grfs => Err(format!("needs {needed} registers")),
            _ => Ok(candidate),
        }
    }

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

    /// The ends of codes that are kept between two real numbers, as differences from zero.
    fn ends(codes: Codes, [least, most]: [f64; 2]) -> Ends {
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
        let (low, high) = (low - codes.zero, high - codes.zero);
        let (least, most) = (code(least, low).clamp(low, high), code(most, high).clamp(low, high));
        Ends { low: least, high: most }
    }

    /// How floats of the result leave.
    fn leave_floats(&self, element: Element) -> LeaveFloats {
        LeaveFloats { ends: self.layer.clip.map(|end| end as f32), element }
    }

    /// The types of sums, weights and operand.
    fn types(&self, weight_bits: usize) -> [&'static str; 3] {
        let weights = match weight_bits {
            2 => "s2",
            4 => "s4",
            _ => "b",
        };
        match self.inputs[0].0.numbers {
            Numbers::Floats(Element::F) => ["f", "tf32", "tf32"],
            Numbers::Floats(element) => ["f", element.name(), element.name()],
            numbers => ["d", weights, numbers.element().name()],
        }
    }

    /// The name of the type in which weights lie in memory.
    fn weights_name(&self, packing: Packing) -> &'static str {
        match packing {
            Packing::Direct(8) if self.inputs[0].0.codes().is_ok() => "s8",
            Packing::Direct(bits) => self.types(bits)[1],
            Packing::Narrow(narrow, _) => narrow.name(),
        }
    }

    fn leave(codes: Codes, ends: Ends) -> Leave {
        Leave { zero: codes.zero, ends: [ends.low, ends.high], signed: codes.signed }
    }

    fn product(&self, frame: &Frame, product: &Product) -> Result<Vec<Choice>> {
        let ending = self.ending(product)?;
        let blocks = padded(&self.output.0, self.arch.platform) / self.lanes();
        let narrow = product
            .narrow
            .map(|narrow| Packing::Narrow(narrow, self.inputs[0].0.numbers.element()));
        let packings: Vec<Packing> =
            [Packing::Direct(product.weight_bits)].into_iter().chain(narrow).collect();
        let mut choices = Vec::new();
        for grfs in self.files() {
            let rows =
                [4, 2, 1].into_iter().filter(|rows| *rows == 1 || 4 * rows < self.positions());
            for rows in rows {
                for columns in
                    [4, 2, 1].into_iter().filter(|columns| blocks.is_multiple_of(*columns))
                {
                    let tile = Tile { rows, columns };
                    let work = (frame, product, &ending);
                    for &packing in &packings {
                        let kernel = self
                            .blocks(work, (tile, packing), grfs)
                            .unwrap_or_else(|| self.gathered(work, (tile, packing), grfs));
                        let tile = [8 * rows, columns * self.lanes()];
                        let weights = Some(self.weights_name(packing));
                        choices.push(Choice { tile, weights, grfs, kernel });
                    }
                }
            }
        }
        Ok(choices)
    }

    /// With loads of elements.
    fn gathered(
        &self,
        (frame, product, ending): (&Frame, &Product, &Ending),
        (tile, packing): (Tile, Packing),
        grfs: u32,
    ) -> std::result::Result<Candidate, String> {
        let is_run = product.groups == 1 && (frame.dilate[1] == 1 || frame.kernel[1] == 1);
        let plan = Plan::new(self, (frame, product), (tile, packing), is_run);
        let rows = self.positions().div_ceil(8 * tile.rows);
        let groups = [rows, plan.blocks, plan.groups].map(|count| count as u32);
        self.enough(grfs, groups)?;
        let mut constants = Constants::default();
        let mut map = plan.tables(self, frame, &mut constants);
        plan.put(self, product, ending, &mut constants, &mut map);
        let shape = ProductShape {
            tile,
            map,
            loops: plan.loops.clone(),
            spread: plan.spread,
            blocks: plan.blocks,
            unit: plan.unit,
            types: self.types(plan.packing.registers()),
            packing: plan.packing,
            b: Source::Constants,
            zeros: Zeros::default(),
            pool: self.pool(),
            end: ending.end,
        };
        let written = kernel::product(&shape, self.arch.platform, grfs);
        self.fitting(grfs, self.candidate(written, constants, plan, groups))
    }

    /// How many rows and columns of products are pooled, and bytes of A from one to the next.
    fn pool(&self) -> [(usize, usize); 2] {
        let image = &self.inputs[0].1;
        self.layer.pooled.map_or([(1, 0); 2], |pooled| {
            let steps = [image.row(), image.pixel];
            [0, 1].map(|axis| (pooled.kernel[axis], pooled.stride[axis] * steps[axis]))
        })
    }

    /// A product's kernel.
    fn candidate(
        &self,
        written: Written,
        constants: Constants,
        plan: Plan,
        groups: [u32; 3],
    ) -> Candidate {
        let (operands, constants, plan) = (self.inputs.len() + 1, constants.0, Some(plan));
        Candidate { kind: "product", written, operands, constants, plan, groups }
    }

    /// With blocks of matrices; `None` if values do not lie in such, or there are too few registers for
    /// the smallest turn.
    fn blocks(
        &self,
        (frame, product, ending): (&Frame, &Product, &Ending),
        (tile, packing): (Tile, Packing),
        grfs: u32,
    ) -> Option<std::result::Result<Candidate, String>> {
        let frames = [*frame, Frame::POINT];
        let runs = Runs::new(self, &frames[..self.inputs.len()], 8 * tile.rows)?;
        // What is added is loaded as the result is stored.
        if runs.pitches[1..].iter().any(|&pitch| pitch != runs.result) {
            return None;
        }
        let plan = Plan::new(self, (frame, product), (tile, packing), false);
        let [rows, columns, steps] = [plan.loops[0], plan.loops[1], plan.loops[2]];
        let (input, output) = (&self.inputs[0].1, &self.output.1);
        let last = (plan.blocks - 1) * plan.spread[0] + (plan.groups - 1) * plan.spread[1];
        let fits = last + steps.0 * STEP <= input.pixel && columns.1.is_multiple_of(LINE);
        let b_rows = plan.weight_bytes(self.lanes()) / LINE;
        if !fits || b_rows > LARGEST {
            return None;
        }
        let x = runs.list.len().div_ceil(8 * tile.rows / runs.length);
        let groups = [x, plan.blocks, plan.groups].map(|count| count as u32);
        if let Err(why) = self.enough(grfs, groups) {
            return Some(Err(why));
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
                spread: plan.spread,
                blocks: plan.blocks,
                types: self.types(plan.packing.registers()),
                packing: plan.packing,
                b: Source::Constants,
                zeros: Zeros::default(),
                pool: self.pool(),
                end: ending.end,
                batch,
            };
            if !shape.fits(self.arch.platform, grfs) {
                continue;
            }
            let a = Matrix { width: input.pixel, rows: runs.length, pitch: runs.pitches[0] };
            let c = Matrix { width: output.pixel, rows: 8, pitch: output.pixel };
            let mut constants = Constants::default();
            let b = Matrix { width: LINE, rows: b_rows, pitch: LINE };
            constants.put(shape.payloads([a, b, c]));
            shape.map.rows_in[0] = constants.put(runs.table(8 * tile.rows / runs.length));
            plan.put(self, product, ending, &mut constants, &mut shape.map);
            let written = kernel::blocks(&shape, self.arch.platform, grfs);
            return Some(Ok(self.candidate(written, constants, plan, groups)));
        }
        None
    }

    /// What the sums of a product become.
    fn ending(&self, product: &Product) -> Result<Ending> {
        Ok(match self.output.0.numbers {
            Numbers::Sums => Ending { end: End::Sums, factors: Vec::new() },
            Numbers::Floats(element) => {
                let of = |list: &[f32], at: usize| list.get(at).copied().unwrap_or(0.0);
                let factors = |at: usize| Factors {
                    high: of(&product.factors, at),
                    low: 0.0,
                    bias: of(&product.biases, at),
                };
                let scaling = match (product.factors.is_empty(), product.biases.is_empty()) {
                    (true, _) => Scaling::None,
                    (false, true) => Scaling::Factors,
                    (false, false) => Scaling::Biases,
                };
                let sum = self.layer.added.map(|added| FloatSum {
                    ends: added.clip.map(|end| end as f32),
                    is_second: added.is_second,
                });
                Ending {
                    end: End::Floats(scaling, sum, self.leave_floats(element)),
                    factors: (0..product.outputs).map(factors).collect(),
                }
            }
            Numbers::Codes(codes) => {
                let leave = Work::leave(codes, Work::ends(codes, self.layer.clip));
                let (own, clip) = match self.layer.added {
                    Some(Added { numbers: Numbers::Codes(own), clip, .. }) => (own, clip),
                    _ => (codes, self.layer.clip),
                };
                let ends = Work::ends(own, clip);
                let (steps, factors) = factors(product, own, ends)?;
                let added = self.layer.added.map(|added| self.added(added, (own, ends), codes));
                let added = added.transpose()?;
                Ending { end: End::Codes(steps, added, leave), factors }
            }
        })
    }

    /// The sum of a product's codes and another value, in steps of the result.
    fn added(&self, added: Added, (own, ends): (Codes, Ends), codes: Codes) -> Result<Sum> {
        let form = &self.inputs[1].0;
        let term = |own: Codes, element| Term {
            factor: (own.scale / codes.scale) as f32,
            zero: own.zero,
            element,
        };
        let other = term(form.codes().map_err(unsupported)?, form.numbers.element());
        let own = term(own, Element::B);
        let ends = [ends.low, ends.high];
        Ok(Sum { ends, own: own.factor, other, is_second: added.is_second })
    }

    fn largest(&self, frame: &Frame) -> Vec<Choice> {
        let (input, image) = &self.inputs[0];
        let loops = [
            (frame.kernel[0], frame.dilate[0] * image.row()),
            (frame.kernel[1], frame.dilate[1] * image.pixel),
        ];
        let element = input.numbers.element();
        self.elements("largest", &[*frame], &[8], &|tile, grfs| {
            let shape = kernel::largest::Shape { tile, loops, element };
            kernel::largest(&shape, self.arch.platform, grfs)
        })
    }

    fn add(&self) -> Result<Vec<Choice>> {
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
                let leave = Self::leave(codes, Self::ends(codes, self.layer.clip));
                kernel::add::End::Codes([terms[0], terms[1]], leave)
            }
        };
        let frames = [Frame::POINT; 2];
        Ok(self.elements("add", &frames, &[LONGEST, 16, 8], &|tile, grfs| {
            let shape = kernel::add::Shape { tile, end: end.clone() };
            kernel::add(&shape, self.arch.platform, grfs)
        }))
    }

    fn softmax(&self) -> Result<Vec<Choice>> {
        let (form, _) = &self.inputs[0];
        let end = match self.output.0.numbers {
            Numbers::Floats(element) => softmax::End::Floats(self.leave_floats(element)),
            _ => {
                let (from, to) = (form.codes(), self.output.0.codes());
                let (from, to) = (from.map_err(unsupported)?, to.map_err(unsupported)?);
                let leave = Self::leave(to, Self::ends(to, self.layer.clip));
                let (step, share) = (from.scale as f32, (1.0 / to.scale) as f32);
                softmax::End::Codes { step, share, leave }
            }
        };
        let mut constants = Constants::default();
        let rows = self.rows_in(0, &Frame::POINT, 1).into_iter().zip(self.rows_out(1));
        let places = constants.put(rows.flat_map(|(from, to)| [from, to]));
        let (length, element) = (form.extents[2], form.numbers.element());
        let shape = softmax::Shape { length, element, end, places };
        let choice = |grfs: u32| {
            let candidate = Candidate {
                kind: "softmax",
                written: kernel::softmax(&shape, self.arch.platform, grfs),
                operands: 2,
                constants: constants.0.clone(),
                plan: None,
                groups: [self.positions() as u32, 1, 1],
            };
            let kernel = self.fitting(grfs, candidate);
            Choice { tile: [1, length], weights: None, grfs, kernel }
        };
        Ok(self.files().into_iter().map(choice).collect())
    }

    /// Kernels that compute element by element, of tiles of at most so many rows.
    fn elements(
        &self,
        kind: &'static str,
        frames: &[Frame],
        most: &[usize],
        write: &dyn Fn(RowsTile, u32) -> Written,
    ) -> Vec<Choice> {
        let mut choices: Vec<Choice> = Vec::new();
        for (grfs, &most) in
            self.files().into_iter().flat_map(|grfs| most.iter().map(move |most| (grfs, most)))
        {
            let (tile, [x, y], constants) = self.tile(frames, most);
            let shape = [8 * tile.blocks, tile.width / self.output.0.numbers.size()];
            if choices.iter().any(|choice| (choice.tile, choice.grfs) == (shape, grfs)) {
                continue;
            }
            let candidate = Candidate {
                kind,
                written: write(tile, grfs),
                operands: frames.len() + 1,
                constants: constants.0,
                plan: None,
                groups: [x as u32, y as u32, 1],
            };
            let kernel = self.fitting(grfs, candidate);
            choices.push(Choice { tile: shape, weights: None, grfs, kernel });
        }
        choices
    }

    /// The tiles of kernels that compute element by element, of at most so many rows, how many groups
    /// there are along x and y, and the constants that say where they lie.
    fn tile(&self, frames: &[Frame], most: usize) -> (RowsTile, [usize; 2], Constants) {
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
}

/// How the sums of a product leave, with the factors of its channels.
struct Ending {
    end: End,
    factors: Vec<Factors>,
}

/// Why a layer has no factors.
const UNPROVED: &str = "no steps in f32 give the codes of exact rounding";

/// The factors of all channels, with the same steps for all.
fn factors(product: &Product, codes: Codes, ends: Ends) -> Result<(Steps, Vec<Factors>)> {
    let channel = |at: usize| Channel { sum: product.sums[at], output: codes.scale };
    let refuse = || unsupported(UNPROVED);
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
