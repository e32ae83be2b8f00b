//! Digital and super-pixel programs against their kernels, by simulation of every bit on made-up
//! images. What else the program finds in its registers is made up as well.
//!
//! There is no such check upstream (`specs/scamp.md` section 14.15).

use crate::arch::ScampArch;
use crate::files::{Bit, DigitalLayout, KernelFile};
use crate::goal::Goal;
use crate::isa::{Inst, Reg};
use crate::program::{Named, Program, Space};
use crate::simulate::{Executor, Outcome, Settings};
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
/// output away from the edge. Sums wrap; kernels with halves are refused, since halving drops bits
/// in an order that the kernel does not tell.
pub(super) fn verify_digital(
    program: &Program,
    file: &KernelFile,
    layout: &DigitalLayout,
    arch: &ScampArch,
) -> Result<Vec<Diagnostic>> {
    let (depth, _) = file.approximation();
    if depth > 0 {
        let message = "digital programs are compared with whole kernels only";
        return Err(Diagnostic::unsupported("Q5043", message));
    }
    let goals = file.goals(depth)?.0;
    let grid = grid(program, layout)?;
    let number = |name: &str| {
        layout.number(name).ok_or_else(|| {
            Diagnostic::invalid("Q5052", format!("no bits are known of register {name:?}"))
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
    let executor = Executor::new(&program, arch, width, height, Settings::default())?;
    let mut problems = Vec::new();
    for seed in 0..TRIALS {
        let images = made_up(inputs.len(), grid.columns * grid.rows, layout.bits, seed);
        let outcome = executor.run(&grid.planes(&inputs, &images, &found, arch, seed))?;
        for ((name, goal), list) in outputs.iter().zip(&goals).zip(&lists) {
            let image = Filtered { goal, images: &images, grid: &grid, bits: layout.bits };
            problems.extend(image.compare(name, &outcome, list));
        }
        if !problems.is_empty() {
            break;
        }
    }
    Ok(problems)
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
    let is_move = |inst: &&Inst| matches!(inst, Inst::Dnews0 { .. } | Inst::Dnews1 { .. });
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
        return Err(Diagnostic::unsupported("Q5043", message));
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
    goal: &'a Goal,
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
                    let message = format!("{name} holds {found} in some pixel of a made-up image");
                    let message = format!("{message}, expected {expected}");
                    return Some(Diagnostic::answer("Q5042", message));
                }
            }
        }
        None
    }
}
