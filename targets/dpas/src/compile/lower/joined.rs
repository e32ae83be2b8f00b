//! Products of two values.

use super::{Candidate, Choice, Constants, Matrix, Work, padded};
use crate::compile::axes::Spot;
use crate::compile::kernel::blocks::{JOINED_RUN, Shape, Source};
use crate::compile::kernel::product::{STEP, Shape as RowsShape};
use crate::compile::kernel::{self, End, Map, Tile, Unit, Written};
use crate::compile::layers::{Joined, Numbers};
use crate::compile::place::Image;
use quincunx_diag::Result;

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
        let mut choices = Vec::new();
        for grfs in self.files() {
            for rows in [4, 2, 1].into_iter().filter(|rows| *rows == 1 || 4 * rows < joined.rows) {
                for columns in
                    [4, 2, 1].into_iter().filter(|columns| blocks.is_multiple_of(*columns))
                {
                    let tile = Tile { rows, columns };
                    let kernel = self.joined_tile(joined, (tile, blocks), grfs);
                    choices.push(Choice { tile: [8 * rows, columns * lanes], grfs, kernel });
                }
            }
        }
        Ok(choices)
    }

    fn joined_tile(
        &self,
        joined: &Joined,
        (tile, blocks): (Tile, usize),
        grfs: u32,
    ) -> std::result::Result<Candidate, String> {
        let run = 8 * tile.rows;
        let runs = joined.rows.div_ceil(run) * joined.starts.len();
        let groups = [runs as u32, (blocks / tile.columns) as u32, 1];
        self.enough(grfs, groups)?;
        let Numbers::Floats(element) = self.output.0.numbers else {
            return Err("its result has no floats".to_owned());
        };
        let end = End::Floats(joined.factor != 1.0, None, self.leave_floats(element));
        let mut constants = Constants::default();
        let columns = blocks * self.lanes();
        let addends = constants.put(vec![0; columns]);
        let factors = constants.put(vec![joined.factor.to_bits(); columns]);
        let map = Map { addends, factors: [factors, 0, 0], ..Map::default() };
        let written = match self.arch.platform.is_second() {
            true => self.joined_blocks(joined, (tile, end), (map, &mut constants), grfs)?,
            false => self.joined_rows(joined, (tile, end), (map, &mut constants), (blocks, grfs)),
        };
        let (operands, constants, plan) = (3, constants.0, None);
        self.fitting(grfs, Candidate { kind: "joined", written, operands, constants, plan, groups })
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
        joined: &Joined,
        (tile, end): (Tile, End),
        (map, constants): (Map, &mut Constants),
        grfs: u32,
    ) -> std::result::Result<Written, String> {
        let [(a_form, a), (b_form, b)] = [self.inputs[0], self.inputs[1]];
        let (form, c) = &self.output;
        let (size, run) = (a_form.numbers.size(), 8 * tile.rows);
        let b_source = if joined.is_across { Source::Across } else { Source::Rows(size) };
        let steps = (joined.depth * size).div_ceil(STEP);
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
            types: self.types(8),
            weight_bits: 8,
            b: b_source,
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
        Ok(kernel::blocks(&shape, self.arch.platform, grfs))
    }

    /// With loads of elements.
    fn joined_rows(
        &self,
        joined: &Joined,
        (tile, end): (Tile, End),
        (mut map, constants): (Map, &mut Constants),
        (blocks, grfs): (usize, u32),
    ) -> Written {
        let [(a_form, a), (b_form, b)] = [self.inputs[0], self.inputs[1]];
        let (form, c) = &self.output;
        let (lanes, unit) = (self.lanes(), Unit::Qword);
        let (size, run) = (a_form.numbers.size(), 8 * tile.rows);
        let b_source = if joined.is_across { Source::Across } else { Source::Rows(size) };
        let steps = (joined.depth * size).div_ceil(STEP);
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
            types: self.types(8),
            weight_bits: 8,
            b: b_source,
            end,
        };
        kernel::product(&shape, self.arch.platform, grfs)
    }
}
