//! Positions that follow each other in rows of matrices.

use super::{Frame, LARGEST, LINE, LONGEST, Work};
use crate::compile::kernel::blocks::RUN;

/// Positions of a result that follow each other in rows of matrices, in the operands and in the result.
pub(super) struct Runs {
    /// Rows of a run: 8, 16 or 32.
    pub(super) length: usize,
    /// Bytes from one row of an operand to the next, and of the result.
    pub(super) pitches: Vec<usize>,
    pub(super) result: usize,
    /// First byte of a run in the operands, then in the result; at last its rows but one.
    pub(super) list: Vec<[u32; RUN]>,
    /// A run that does nothing of use.
    idle: [u32; RUN],
}

impl Runs {
    /// The runs of the windows of operands, of at most so many rows; `None` where values do not lie in
    /// such rows.
    pub(super) fn new(work: &Work<'_>, frames: &[Frame], most: usize) -> Option<Runs> {
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
    pub(super) fn whole(&self, work: &Work<'_>, frames: &[Frame], most: usize) -> Option<Runs> {
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
    pub(super) fn table(&self, runs: usize) -> Vec<u32> {
        let count = self.list.len().next_multiple_of(runs);
        let all = self.list.iter().chain(std::iter::repeat(&self.idle)).take(count);
        all.flatten().copied().collect()
    }
}
