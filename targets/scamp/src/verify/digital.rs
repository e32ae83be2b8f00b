//! Digital and super-pixel programs against their kernels, by simulation of every bit on made-up
//! images. What else the program finds in its registers is made up as well.
//!
//! There is no such check upstream (`cain` in `docs/bibliography.md`).

#![allow(
    clippy::arithmetic_side_effects,
    reason = "numbers have up to 32 bits, depths are up to 60, blocks up to 16 a side, and a program \
              has fewer moves than instructions may be read"
)]

use crate::arch::ScampArch;
use crate::files::{Bit, DigitalLayout, KernelFile, Mode};
use crate::goal::Goal;
use crate::isa::{Class, Gate, Inst, Reg};
use crate::program::{Named, Program, Space};
use crate::simulate::{Executor, Outcome, Settings, WorkLimit};
use quincunx_diag::{Diagnostic, Result};
use std::collections::BTreeMap;

/// Images that are tried.
const TRIALS: u64 = 4;

/// Furthest way that values may travel, in elements.
const MAX_REACH: usize = 200;

/// Pixels of a row and of a column that are compared.
const COMPARED: usize = 12;

/// Longest side of the array in super-pixel mode: patterns have 8 bits of a row.
const MAX_SIDE: usize = 256;

/// Simulates a program whose numbers are in the registers that a layout says, and compares every
/// output away from the edge. Sums wrap.
///
/// A halving drops the lowest bit, and which bits a kernel with halves drops depends on the order of
/// its program. Such programs are compared on numbers where no order drops anything: multiples of
/// 2^d, so small that no sum wraps. A note says so.
pub(super) fn verify_digital(
    program: &Program,
    file: &KernelFile,
    layout: &DigitalLayout,
    arch: &ScampArch,
    limit: WorkLimit,
) -> Result<Vec<Diagnostic>> {
    let (depth, _) = file.approximation();
    let goals = file.goals(depth)?.0;
    let range = Range::new(&goals, depth, layout.bits, file.mode)?;
    let grid = grid(program, layout)?;
    let number = |name: &str| {
        layout.number(name).ok_or_else(|| {
            Diagnostic::invalid("Q5052", format!("the bits of register {name:?} are not known"))
        })
    };
    let inputs = file.inputs.iter().map(|name| number(name)).collect::<Result<Vec<_>>>()?;
    let outputs: Vec<&str> = file.outputs();
    let lists = outputs.iter().map(|name| number(name)).collect::<Result<Vec<_>>>()?;
    let found = program.free_reads(arch);
    let mut program = program.clone();
    // Every register of the file takes part, whether the program uses it or not.
    program.inputs =
        Some(inputs.iter().chain(&lists).flat_map(|l| l.iter().map(|bit| bit.register)).collect());
    let (width, height) = grid.elements();
    let settings = Settings { work: limit, ..Settings::default() };
    let executor = Executor::new(&program, arch, width, height, settings)?;
    executor.check_runs(TRIALS)?;
    let mut problems = Vec::new();
    for seed in 0..TRIALS {
        let mut images = made_up(inputs.len(), grid.columns * grid.rows, layout.bits, seed);
        images.iter_mut().flatten().for_each(|value| *value = range.of(*value));
        let outcome = executor.run(&grid.planes(&inputs, &images, &found, arch, seed))?;
        for ((name, goal), list) in outputs.iter().zip(&goals).zip(&lists) {
            let image = Filtered { goal, depth, images: &images, grid: &grid, bits: layout.bits };
            problems.extend(image.compare(name, &outcome, list));
        }
        if !problems.is_empty() {
            break;
        }
    }
    problems.extend(range.note());
    Ok(problems)
}

/// The numbers that are tried.
enum Range {
    /// All of so many bits: kernels of whole numbers.
    All,
    /// Multiples of `2^depth` up to `most` of them, and below 0 where numbers have a sign.
    Multiples { depth: u32, most: u64, signed: bool },
}

impl Range {
    /// # Errors
    /// `Q5043` when numbers of so many bits hold no multiple whose sums fit.
    fn new(goals: &[Goal], depth: u32, bits: usize, mode: Mode) -> Result<Range> {
        if depth == 0 {
            return Ok(Range::All);
        }
        let signed = mode == Mode::SuperPixel;
        let bits = bits - usize::from(signed);
        let total = goals.iter().map(Goal::total).max().unwrap_or(1).max(1);
        // A program may add up everything before it halves.
        let largest_sum = u128::from(total) << depth;
        let fits = ((1_u128 << bits) - 1) / largest_sum;
        if fits > 0 {
            return Ok(Range::Multiples { depth, most: fits as u64, signed });
        }
        let needed = (u128::BITS - largest_sum.leading_zeros()) as usize + usize::from(signed);
        let message = format!(
            "the kernels are in units of 1/2^{depth}, and halving drops bits in the order of the \
             program: they are compared on multiples of 2^{depth} only, and sums of these need \
             {needed} bits"
        );
        Err(Diagnostic::unsupported("Q5043", message).help(
            "give numbers more bits (`bits` or `bitOrder` of pairGen), or verify kernels scaled to \
             whole numbers, without the halvings of the program",
        ))
    }

    /// A number of the range, from any number.
    fn of(&self, value: u64) -> u64 {
        match *self {
            Range::All => value,
            Range::Multiples { depth, most, signed: false } => (value % (most + 1)) << depth,
            Range::Multiples { depth, most, signed: true } => {
                (value % (2 * most + 1)).wrapping_sub(most) << depth
            }
        }
    }

    fn note(&self) -> Option<Diagnostic> {
        let Range::Multiples { depth, most, .. } = *self else { return None };
        let text = format!(
            "the kernels have halves: compared on multiples of 2^{depth} up to {} only, where \
             halving drops nothing",
            most << depth
        );
        Some(Diagnostic::note("Q5048", text))
    }
}

/// An array of pixels, each a block of elements.
struct Grid {
    rows: usize,
    columns: usize,
    /// Pixels beside each edge that are not compared, in a column and in a row.
    margin: (usize, usize),
    /// Width and height of a block.
    block: (usize, usize),
}

/// An array that is large enough for a program.
fn grid(program: &Program, layout: &DigitalLayout) -> Result<Grid> {
    let is_move = |inst: &&Inst| matches!(inst.class(), Class::Digital(Gate::Neighbours { .. }));
    // No value travels further than there are moves.
    let reach = program.instructions.iter().filter(is_move).count();
    let block = layout.block;
    let margin = (reach.div_ceil(block.1), reach.div_ceil(block.0));
    let (rows, columns) = (2 * margin.0 + COMPARED, 2 * margin.1 + COMPARED);
    let grid = Grid { rows, columns, margin, block };
    let (width, height) = grid.elements();
    let is_block = block != (1, 1);
    if reach > MAX_REACH || is_block && width.max(height) > MAX_SIDE {
        let message = format!("a program with {reach} moves is not compared with its kernels");
        return Err(Diagnostic::unsupported("Q5043", message).help(format!(
            "up to {MAX_REACH} moves on an array of up to {MAX_SIDE} elements a side for blocks; \
             `run` gives the outputs for images of your own"
        )));
    }
    Ok(grid)
}

impl Grid {
    /// Width and height in elements.
    fn elements(&self) -> (usize, usize) {
        (self.columns * self.block.0, self.rows * self.block.1)
    }

    /// Index of the element that holds a bit of a pixel.
    fn element(&self, row: usize, column: usize, bit: &Bit) -> usize {
        let (width, height) = self.block;
        (row * height + bit.row) * self.elements().0 + column * width + bit.column
    }

    /// What the registers hold at the start: numbers, and anything in the other registers that the
    /// program finds, as well as in elements that hold no bit.
    fn planes(
        &self,
        inputs: &[Vec<Bit>],
        images: &[Vec<u64>],
        found: &[Named],
        arch: &ScampArch,
        seed: u64,
    ) -> Vec<(Named, Vec<f64>)> {
        let own = |register: Reg| (Space::Digital, arch.digital(register).unwrap_or(register));
        let (width, height) = self.elements();
        let mut names: Vec<Named> = found.iter().copied().filter(|n| n.1 != Reg::FLAG).collect();
        names.extend(inputs.iter().flatten().map(|bit| own(bit.register)));
        let garbage = made_up(names.len(), width * height, 1, !seed);
        let planes = garbage.into_iter().map(|plane| plane.into_iter().map(|b| b as f64).collect());
        let mut planes: BTreeMap<Named, Vec<f64>> = names.into_iter().zip(planes).collect();
        for (list, image) in inputs.iter().zip(images) {
            for (position, bit) in list.iter().enumerate() {
                let Some(plane) = planes.get_mut(&own(bit.register)) else { continue };
                for (at, value) in image.iter().enumerate() {
                    let element = self.element(at / self.columns, at % self.columns, bit);
                    plane[element] = (value >> position & 1) as f64;
                }
            }
        }
        planes.into_iter().collect()
    }
}

/// Numbers of so many bits for each channel.
fn made_up(channels: usize, size: usize, bits: usize, seed: u64) -> Vec<Vec<u64>> {
    let mut state = seed;
    let mut next = || {
        // splitmix64
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) >> (64 - bits)
    };
    (0..channels).map(|_| (0..size).map(|_| next()).collect()).collect()
}

/// What a goal makes of images.
struct Filtered<'a> {
    /// In units of `2^-depth`.
    goal: &'a Goal,
    depth: u32,
    images: &'a [Vec<u64>],
    grid: &'a Grid,
    bits: usize,
}

impl Filtered<'_> {
    /// The number that belongs in a pixel away from the edge; `None` if the kernel reaches beyond.
    fn at(&self, row: usize, column: usize) -> Option<u64> {
        let mut sum = 0_u64;
        for (cell, count) in self.goal.cells() {
            let row = row.checked_add_signed(-(cell.y as isize))?;
            let column = column.checked_add_signed(cell.x as isize)?;
            let image = self.images.get(cell.z as usize)?;
            let inside = row < self.grid.rows && column < self.grid.columns;
            let value = inside.then(|| image[row * self.grid.columns + column])?;
            sum = sum.wrapping_add(value.wrapping_mul(count as u64));
        }
        // Nothing is lost: the numbers are multiples of 2^depth.
        let sum = (sum as i64 >> self.depth) as u64;
        Some(sum & (u64::MAX >> (64 - self.bits)))
    }

    /// The first pixel whose number is another one.
    fn compare(&self, name: &str, outcome: &Outcome, list: &[Bit]) -> Option<Diagnostic> {
        let plane = |bit: &Bit| outcome.register((Space::Digital, bit.register));
        let Some(planes) = list.iter().map(plane).collect::<Option<Vec<Vec<f64>>>>() else {
            let message = format!("the program never uses the registers of {name}");
            return Some(Diagnostic::answer("Q5042", message));
        };
        let Grid { rows, columns, margin, .. } = *self.grid;
        for row in margin.0..rows - margin.0 {
            for column in margin.1..columns - margin.1 {
                let bit = |(plane, bit): (&Vec<f64>, &Bit)| {
                    u64::from(plane[self.grid.element(row, column, bit)] != 0.0)
                };
                let bits = planes.iter().zip(list).rev();
                let found = bits.fold(0, |value, pair| value << 1 | bit(pair));
                let Some(expected) = self.at(row, column) else {
                    let message = format!("the kernel of {name} reaches further than the program");
                    return Some(Diagnostic::answer("Q5042", message));
                };
                if found != expected {
                    let message =
                        format!("{name} holds {found} in some pixel of a generated image");
                    let message = format!("{message}, expected {expected}");
                    return Some(Diagnostic::answer("Q5042", message));
                }
            }
        }
        None
    }
}
