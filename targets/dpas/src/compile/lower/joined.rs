//! Products of two values.

use super::{Candidate, Choice, Constants, Form, Matrix, UNPROVED, Work, padded, unsupported};
use crate::compile::axes::Spot;
use crate::compile::kernel::blocks::{JOINED_RUN, Shape, Source};
use crate::compile::kernel::end::Scaling;
use crate::compile::kernel::narrow::Packing;
use crate::compile::kernel::product::{STEP, Shape as RowsShape};
use crate::compile::kernel::zeros::{ONES, Zeros};
use crate::compile::kernel::{self, End, Map, Tile, Unit, Written};
use crate::compile::layers::{Joined, Numbers};
use crate::compile::place::Image;
use crate::compile::requantise::{Channel, Factors};
use crate::compile::weights::Sum;
use quincunx_diag::Result;

/// What is the same for both ways to load.
struct Own<'j> {
    joined: &'j Joined,
    tile: Tile,
    end: End,
    zeros: Zeros,
    steps: usize,
}

impl Work<'_> {
    /// The tiles of products of two values.
    pub(super) fn joined(&self, joined: &Joined) -> Result<Vec<Choice>> {
        let lanes = self.lanes();
        // Channels of a part of a pixel are whole tiles; other pixels are filled up to such.
        let blocks = joined.columns.div_ceil(lanes);
        let form = &self.output.0;
        let blocks = match form.extents[2] == joined.columns {
            true => padded(form, self.arch.platform) / lanes,
            false => blocks,
        };
        let ending = self.joined_ending(joined)?;
        let mut choices = Vec::new();
        for grfs in self.files() {
            for rows in [4, 2, 1].into_iter().filter(|rows| *rows == 1 || 4 * rows < joined.rows) {
                for columns in
                    [4, 2, 1].into_iter().filter(|columns| blocks.is_multiple_of(*columns))
                {
                    let tile = Tile { rows, columns };
                    let kernel = self.joined_tile(joined, &ending, (tile, blocks), grfs);
                    let tile = [8 * rows, columns * lanes];
                    choices.push(Choice { tile, weights: None, grfs, kernel });
                }
            }
        }
        Ok(choices)
    }

    fn joined_tile(
        &self,
        joined: &Joined,
        (end, factors): &(End, Factors),
        (tile, blocks): (Tile, usize),
        grfs: u32,
    ) -> std::result::Result<Candidate, String> {
        let run = 8 * tile.rows;
        let runs = joined.rows.div_ceil(run) * joined.starts.len();
        let groups = [runs as u32, (blocks / tile.columns) as u32, 1];
        self.enough(grfs, groups)?;
        let is_second = self.arch.platform.is_second();
        let zeros = Zeros([0, 1].map(|at| self.inputs[at].0.codes().map_or(0, |codes| codes.zero)));
        let mut constants = Constants::default();
        let mut all = |dword: u32| constants.put(vec![dword; blocks * self.lanes()]);
        // Rows of zeros lie behind a second operand that is loaded row by row.
        let steps = self.joined_steps(joined);
        let depth = if is_second { joined.depth } else { steps * STEP };
        let addends = all((depth as i32 * zeros.0[0] * zeros.0[1]) as u32);
        let Factors { high, low, bias } = *factors;
        let factors = [high, low, bias].map(|factor| all(factor.to_bits()));
        let map = Map { addends, factors, ..Map::default() };
        let own = Own { joined, tile, end: *end, zeros, steps };
        let written = match is_second {
            true => self.joined_blocks(&own, (map, &mut constants), grfs)?,
            false => self.joined_rows(&own, (map, &mut constants), (blocks, grfs)),
        };
        let (operands, constants, plan) = (3, constants.0, None);
        self.fitting(grfs, Candidate { kind: "joined", written, operands, constants, plan, groups })
    }

    /// How sums leave, with the factors of all columns.
    fn joined_ending(&self, joined: &Joined) -> Result<(End, Factors)> {
        if let Numbers::Floats(element) = self.output.0.numbers {
            let scaling = if joined.factor == 1.0 { Scaling::None } else { Scaling::Factors };
            let end = End::Floats(scaling, None, self.leave_floats(element));
            return Ok((end, Factors { high: joined.factor, ..Factors::default() }));
        }
        let codes = |form: &Form| form.codes().map_err(unsupported);
        let [a, b] = [codes(&self.inputs[0].0)?, codes(&self.inputs[1].0)?];
        let codes = codes(&self.output.0)?;
        let ends = Work::ends(codes, self.layer.clip);
        let sum = Sum { scales: [a.scale, b.scale], divisor: 1, bias: [0.0; 2], whole: 0 };
        let proved = Channel { sum, output: codes.scale }.prove(ends);
        let (steps, factors) = proved.ok_or_else(|| unsupported(UNPROVED))?;
        Ok((End::Codes(steps, None, Work::leave(codes, ends)), factors))
    }

    /// Steps of the sums.
    fn joined_steps(&self, joined: &Joined) -> usize {
        (joined.depth * self.inputs[0].0.numbers.size()).div_ceil(STEP)
    }

    /// Types of the sums, of B and of A.
    fn joined_types(&self) -> [&'static str; 3] {
        let [sums, _, a] = self.types(8);
        match self.inputs[1].0.numbers {
            Numbers::Floats(_) => [sums, a, a],
            codes => [sums, codes.element().name(), a],
        }
    }

    /// The first row and its number of every run of rows, with where the matrices of it begin.
    fn runs_of<'j>(
        joined: &'j Joined,
        run: usize,
    ) -> impl Iterator<Item = (usize, &'j [Spot; 3])> + 'j {
        let starts = joined.starts.iter();
        starts.flat_map(move |spots| (0..joined.rows).step_by(run).map(move |row| (row, spots)))
    }

    /// With blocks of matrices.
    fn joined_blocks(
        &self,
        &Own { joined, tile, end, zeros, steps }: &Own<'_>,
        (map, constants): (Map, &mut Constants),
        grfs: u32,
    ) -> std::result::Result<Written, String> {
        let [(a_form, a), (b_form, b)] = [self.inputs[0], self.inputs[1]];
        let (form, c) = &self.output;
        let (size, run) = (a_form.numbers.size(), 8 * tile.rows);
        let b_source = if joined.is_across { Source::Across } else { Source::Rows(size) };
        let shape = |depth: usize, batch: usize| Shape {
            tile,
            run,
            depth,
            map,
            window: [(1, 0); 2],
            // Rows of a whole pixel may be read up to its end.
            steps: match a_form.extents[2] == joined.depth {
                true => steps.next_multiple_of(depth),
                false => steps,
            },
            spread: [0, 0],
            blocks: 0,
            types: self.joined_types(),
            packing: Packing::Direct(8),
            b: b_source,
            zeros,
            pool: [(1, 0); 2],
            end,
            batch,
        };
        let ways = [(2, run), (2, 8), (1, run), (1, 8)];
        let mut shapes = ways.into_iter().map(|(depth, batch)| shape(depth, batch));
        let fits = |shape: &Shape| {
            shape.steps.is_multiple_of(shape.depth) && shape.fits(self.arch.platform, grfs)
        };
        let mut shape =
            shapes.find(fits).ok_or_else(|| format!("needs more than {grfs} registers"))?;
        let matrix =
            |image: &Image, rows: usize| Matrix { width: image.pixel, rows, pitch: image.pixel };
        let b_rows = if joined.is_across { joined.columns } else { joined.depth };
        let payloads = shape.payloads([matrix(&a, run), matrix(&b, b_rows), matrix(c, 8)]);
        shape.map.payloads = constants.put(payloads);
        let of_b = if joined.is_across { 4 } else { b_form.numbers.size() };
        let entry = |(row, [at, bt, ct]): (usize, &[Spot; 3])| -> [u32; JOINED_RUN] {
            let entry = [
                (at.position + row) * a.pixel,
                bt.position * b.pixel,
                (ct.position + row) * c.pixel,
                run.min(joined.rows - row) - 1,
                at.channel * size,
                bt.channel * b_form.numbers.size() / of_b,
                ct.channel * form.numbers.size(),
                0,
            ];
            entry.map(|value| value as u32)
        };
        shape.map.rows_in[0] = constants.put(Work::runs_of(joined, run).flat_map(entry));
        if zeros.0[1] != 0 {
            // Ones in the place of B, for every step, up to the end of the sums.
            let lanes = self.lanes();
            let ones = |first: usize| {
                let codes = joined.depth.saturating_sub(first).min(4);
                ONES & ((1u64 << (8 * codes)) - 1) as u32
            };
            let rows = (0..shape.steps * STEP).step_by(4);
            shape.map.weights = constants.put(rows.flat_map(|first| vec![ones(first); lanes]));
        }
        Ok(kernel::blocks(&shape, self.arch.platform, grfs))
    }

    /// With loads of elements.
    fn joined_rows(
        &self,
        &Own { joined, tile, end, zeros, steps }: &Own<'_>,
        (mut map, constants): (Map, &mut Constants),
        (blocks, grfs): (usize, u32),
    ) -> Written {
        let [(a_form, a), (b_form, b)] = [self.inputs[0], self.inputs[1]];
        let (form, c) = &self.output;
        let (lanes, unit) = (self.lanes(), Unit::Qword);
        let (size, run) = (a_form.numbers.size(), 8 * tile.rows);
        let b_source = if joined.is_across { Source::Across } else { Source::Rows(size) };
        map.lanes_in =
            constants.put(self.lane_bytes((STEP / unit.bytes()).min(lanes), unit.bytes()));
        let leaving = if form.numbers.size() == 4 { 1 } else { tile.columns };
        map.lanes_out =
            constants.put(self.lane_bytes(leaving * lanes * form.numbers.size() / 8, 8));
        // Rows behind those of a matrix are any, and go nowhere.
        let rows = |at: usize, (image, size): (&Image, usize), missing: usize| -> Vec<u32> {
            let row = |first: usize, spots: &[Spot; 3], row: usize| match first + row < joined.rows
            {
                true => (spots[at].position + first + row) * image.pixel + spots[at].channel * size,
                false => missing,
            };
            let runs = Work::runs_of(joined, run);
            runs.flat_map(|(first, spots)| (0..run).map(move |at| row(first, spots, at) as u32))
                .collect()
        };
        map.rows_in[0] = constants.put(rows(0, (&a, size), 0));
        map.rows_out = constants.put(rows(2, (c, form.numbers.size()), c.dump()));
        // Rows of B, up to whole steps or blocks of columns.
        let (there, all) = match joined.is_across {
            true => (joined.columns, blocks * lanes),
            false => (joined.depth, steps * STEP / size),
        };
        let tables = joined.starts.iter().map(|[_, spot, _]| {
            let first = spot.channel * b_form.numbers.size();
            let row = |at: usize| match at < there {
                true => (spot.position + at) * b.pixel + first,
                false => b.zeros(),
            };
            constants.put((0..all).map(|at| row(at) as u32))
        });
        let tables: Vec<usize> = tables.collect();
        let runs =
            tables.into_iter().flat_map(|table| vec![[table as u32, 0]; joined.rows.div_ceil(run)]);
        map.rows_in[1] = constants.put(runs.flatten());
        let shape = RowsShape {
            tile,
            map,
            loops: vec![(steps, STEP)],
            spread: [0, 0],
            blocks: 0,
            unit,
            types: self.joined_types(),
            packing: Packing::Direct(8),
            b: b_source,
            zeros,
            pool: [(1, 0); 2],
            end,
        };
        kernel::product(&shape, self.arch.platform, grfs)
    }
}
