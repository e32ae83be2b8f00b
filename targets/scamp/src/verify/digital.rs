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
use crate::expand::expand;
use crate::files::{Around, Bit, Channel, Converter, DigitalLayout, KernelFile, Mode};
use crate::goal::Goal;
use crate::isa::{Class, Gate, Inst, Reg};
use crate::program::{Named, Program, Space};
use crate::simulate::{Executor, Outcome, Settings, WorkLimit};
use crate::symbolic::edges::Walk;
use quincunx_diag::{Diagnostic, Result};
use std::collections::BTreeMap;

/// Images that are tried.
const TRIALS: u64 = 4;

/// Furthest way that values may travel, in elements.
const MAX_REACH: usize = 200;

/// Pixels of a row and of a column that are compared, where the array has room for them.
const COMPARED: usize = 12;

/// Longest side of the array in super-pixel mode: patterns have 8 bits of a row.
const MAX_SIDE: usize = 256;

/// Simulates a program whose numbers are in the registers that a layout says, and compares every
/// output away from the edge. Sums wrap, and are halved after everything is added up, as compiled
/// programs do it.
///
/// A halving drops the lowest bit, and which bits a kernel with halves drops depends on the order of
/// its program. Programs that halve in another order are compared on numbers where no order drops
/// anything: multiples of 2^d, so small that no sum wraps. A note says so.
pub(super) fn verify_digital(
    program: &Program,
    file: &KernelFile,
    layout: &DigitalLayout,
    arch: &ScampArch,
    limit: WorkLimit,
) -> Result<Vec<Diagnostic>> {
    let (depth, _) = file.approximation();
    let judge = Judge::new(program, file, layout, arch)?;
    let mut program = program.clone();
    // Every register of the file takes part, whether the program uses it or not.
    let registers = judge.inputs.iter().chain(&judge.outputs).flat_map(Channel::places);
    program.inputs = Some(registers.map(|((_, register), _)| register).collect());
    let (width, height) = judge.grid.elements();
    let settings = Settings { work: limit, ..Settings::default() };
    let executor = Executor::new(&program, arch, width, height, settings)?;
    executor.check_runs(TRIALS)?;
    let problems = judge.compare(&executor, &Range::All)?;
    if depth == 0 || problems.is_empty() {
        return Ok(problems);
    }
    let range = judge.multiples(file.mode)?;
    let mut problems = judge.compare(&executor, &range)?;
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
            "the program halves in an order of its own: compared on multiples of 2^{depth} up to {} only, where \
             halving drops nothing",
            most << depth
        );
        Some(Diagnostic::note("Q5048", text))
    }
}

/// What a program is judged by.
struct Judge<'a> {
    goals: Vec<Goal>,
    depth: u32,
    layout: &'a DigitalLayout,
    mode: Mode,
    around: Around,
    arch: &'a ScampArch,
    names: Vec<&'a str>,
    inputs: Vec<Channel>,
    outputs: Vec<Channel>,
    /// What else the program finds in its registers.
    found: Vec<Named>,
    grid: Grid,
}

impl<'a> Judge<'a> {
    fn new(
        program: &Program,
        file: &'a KernelFile,
        layout: &'a DigitalLayout,
        arch: &'a ScampArch,
    ) -> Result<Judge<'a>> {
        let (depth, _) = file.approximation();
        let goals = file.goals(depth)?.0;
        let names = file.outputs();
        let outputs: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let around = Around::new(&layout.stages, file.channel_inputs(), &outputs)?;
        let channel = |name: &String, converter: Option<&Converter>| {
            let bits = layout.number(name).ok_or_else(|| {
                let message = format!("the bits of register {name:?} are not known");
                Diagnostic::invalid("Q5052", message)
            })?;
            Ok(match converter {
                Some(c) => Channel::Analogue(Bit { register: c.analogue, ..bits[c.top()] }),
                None => Channel::Number(bits),
            })
        };
        let inputs = file.channel_inputs().iter().enumerate();
        let inputs = inputs.map(|(at, name)| channel(name, around.adc.get(at)));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let outputs = around.outputs.iter().zip(&around.dac);
        let outputs = outputs.map(|(name, converter)| channel(name, converter.as_ref()));
        let outputs = outputs.collect::<Result<Vec<_>>>()?;
        let mut found = program.free_reads(arch);
        found.retain(|named| *named != (Space::Digital, Reg::FLAG));
        let images = inputs.iter().flat_map(Channel::places).map(|(register, _)| register);
        let walk = Walk::new(arch, layout.block, [0; 4], images.chain(found.iter().copied()));
        let element = |bit: &Bit| bit.row * layout.block.0 + bit.column;
        let places = outputs.iter().flat_map(Channel::places);
        let places = places.map(|(register, bit)| (register, element(bit)));
        let spoilt = walk.follow(program).map(|walk| walk.spoilt(places));
        let grid = Grid::new(program, layout.block, spoilt)?;
        let (goals, mode) = (goals, file.mode);
        Ok(Judge { goals, depth, layout, mode, around, arch, names, inputs, outputs, found, grid })
    }

    /// Numbers that no order of halvings rounds.
    ///
    /// # Errors
    /// `Q5043` when numbers of so many bits hold no multiple whose sums fit, or converters make them.
    fn multiples(&self, mode: Mode) -> Result<Range> {
        let (depth, signed) = (self.depth, mode == Mode::SuperPixel);
        let bits = self.layout.bits - usize::from(signed);
        let total = self.goals.iter().map(Goal::total).max().unwrap_or(1).max(1);
        // A program may add up everything before it halves.
        let largest_sum = u128::from(total) << depth;
        let fits = ((1_u128 << bits) - 1) / largest_sum;
        let order = format!(
            "the kernels are in units of 1/2^{depth}, and the program does not halve in the order of \
             compiled ones"
        );
        if !self.around.adc.is_empty() {
            let message = format!("{order}: it is not compared behind a converter");
            return Err(Diagnostic::unsupported("Q5043", message)
                .help("disable the converters to compare the kernels"));
        }
        if fits > 0 {
            return Ok(Range::Multiples { depth, most: fits as u64, signed });
        }
        let needed = (u128::BITS - largest_sum.leading_zeros()) as usize + usize::from(signed);
        let message = format!(
            "{order}: it is compared on multiples of 2^{depth} only, and sums of these need {needed} bits"
        );
        Err(Diagnostic::unsupported("Q5043", message).help(
            "give numbers more bits (`bits` or `bitOrder` of pairGen), or verify kernels scaled to \
             whole numbers, without the halvings of the program",
        ))
    }

    /// The first pixel of every output that is wrong on some images.
    fn compare(&self, executor: &Executor, range: &Range) -> Result<Vec<Diagnostic>> {
        for seed in 0..TRIALS {
            let images = self.images(range, seed);
            let outcome = executor.run(&self.planes(&images, seed))?;
            let numbers: Vec<Vec<i64>> =
                images.iter().enumerate().map(|(at, image)| self.numbers(at, image)).collect();
            let wrong = (0..self.outputs.len()).map(|at| self.wrong(at, &numbers, &outcome));
            let problems: Vec<Diagnostic> = wrong.flatten().collect();
            if !problems.is_empty() {
                return Ok(problems);
            }
        }
        Ok(Vec::new())
    }

    /// What enters: numbers, or analogue values in quarters, beyond what a converter has too.
    fn images(&self, range: &Range, seed: u64) -> Vec<Vec<f64>> {
        let size = self.grid.columns * self.grid.rows;
        let is_analogue = !self.around.adc.is_empty();
        let bits = if is_analogue { 10 } else { self.layout.bits };
        let images = made_up(self.inputs.len(), size, bits, seed);
        let pixel = |value: u64| match is_analogue {
            true => quarters(value) * 1.25,
            false => range.of(value) as i64 as f64,
        };
        images.into_iter().map(|image| image.into_iter().map(pixel).collect()).collect()
    }

    /// The numbers of an image.
    fn numbers(&self, channel: usize, image: &[f64]) -> Vec<i64> {
        let number = |&pixel: &f64| match self.around.adc.get(channel) {
            Some(c) => {
                let code = (pixel * 2.0_f64.powi(c.bits as i32 - 8)).floor() as i64;
                limit(code, c.bits) << c.unit
            }
            None => pixel as i64,
        };
        image.iter().map(number).collect()
    }

    /// What registers hold at the start: what enters, and anything in the other registers that the
    /// program finds, as well as in other elements.
    fn planes(&self, images: &[Vec<f64>], seed: u64) -> Vec<(Named, Vec<f64>)> {
        let own = |(space, register): Named| match space {
            Space::Digital => (space, self.arch.digital(register).unwrap_or(register)),
            Space::Analogue => (space, register),
        };
        let (width, height) = self.grid.elements();
        let ends = self.inputs.iter().flat_map(Channel::places).map(|(register, _)| own(register));
        let names: Vec<Named> = self.found.iter().copied().chain(ends).collect();
        let garbage = made_up(names.len(), width * height, 10, !seed);
        let plane = |(name, plane): (Named, Vec<u64>)| {
            let value = |value| match name.0 {
                Space::Digital => (value & 1) as f64,
                Space::Analogue => quarters(value),
            };
            (name, plane.into_iter().map(value).collect())
        };
        let mut planes: BTreeMap<Named, Vec<f64>> =
            names.into_iter().zip(garbage).map(plane).collect();
        for (channel, image) in self.inputs.iter().zip(images) {
            for (position, (register, bit)) in channel.places().enumerate() {
                let Some(plane) = planes.get_mut(&own(register)) else { continue };
                for (at, &value) in image.iter().enumerate() {
                    let columns = self.grid.columns;
                    let element = self.grid.element(at / columns, at % columns, bit);
                    plane[element] = match channel {
                        Channel::Number(_) => (value as i64 >> position & 1) as f64,
                        Channel::Analogue(_) => value,
                    };
                }
            }
        }
        planes.into_iter().collect()
    }

    /// What belongs in a pixel of an output; beyond the array there are zeros.
    fn expected(&self, output: usize, (row, column): (usize, usize), images: &[Vec<i64>]) -> f64 {
        let Grid { rows, columns, .. } = self.grid;
        let mut sum = 0_i128;
        for (cell, count) in self.goals[output].cells() {
            let row = row.checked_add_signed(-(cell.y as isize)).filter(|&row| row < rows);
            let column = column.checked_add_signed(cell.x as isize).filter(|&c| c < columns);
            if let (Some(row), Some(column), Some(image)) =
                (row, column, images.get(cell.z as usize))
            {
                sum += i128::from(image[row * columns + column]) * i128::from(count);
            }
        }
        let bits = self.layout.bits;
        if self.mode != Mode::SuperPixel {
            return ((sum >> self.depth) & ((1 << bits) - 1)) as f64;
        }
        // Sums have no more bits than a bank.
        let halved = wrap(sum, bits) >> self.depth;
        let bias = self.around.bias.as_ref().map_or(0, |bias| bias[output]);
        let biased = wrap(i128::from(halved) + i128::from(bias), bits);
        let number = if self.around.relu[output] { biased.max(0) } else { biased };
        match &self.around.dac[output] {
            Some(c) => limit(number >> c.unit, c.bits) as f64 * 2.0_f64.powi(8 - c.bits as i32),
            None => number as f64,
        }
    }

    /// The first pixel of an output that is another one.
    fn wrong(&self, at: usize, images: &[Vec<i64>], outcome: &Outcome) -> Option<Diagnostic> {
        let (name, channel) = (self.names[at], &self.outputs[at]);
        let plane = |(register, bit)| Some((outcome.register(register)?, bit));
        let Some(planes) = channel.places().map(plane).collect::<Option<Vec<_>>>() else {
            let message = format!("the program never uses the registers of {name}");
            return Some(Diagnostic::answer("Q5042", message));
        };
        let Grid { rows, columns, margin, .. } = self.grid;
        for row in margin.0..rows - margin.0 {
            for column in margin.1..columns - margin.1 {
                let values = planes.iter().rev();
                let values = values.map(|(plane, bit)| plane[self.grid.element(row, column, bit)]);
                let found = match (channel, self.mode) {
                    (Channel::Analogue(_), _) => values.sum(),
                    (_, Mode::SuperPixel) => {
                        let code = values.fold(0, |code, bit| code << 1 | i128::from(bit != 0.0));
                        wrap(code, self.layout.bits) as f64
                    }
                    _ => values.fold(0.0, |code, bit| 2.0 * code + bit),
                };
                let expected = self.expected(at, (row, column), images);
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

/// A number modulo `2^bits`, with a sign.
fn wrap(number: i128, bits: usize) -> i64 {
    let unused = 128 - bits;
    (number << unused >> unused) as i64
}

/// The nearest number of so many bits, with a sign.
fn limit(number: i64, bits: usize) -> i64 {
    number.clamp(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
}

/// An analogue value of -128 to 127.75, from ten bits.
fn quarters(value: u64) -> f64 {
    (value & 1023) as f64 / 4.0 - 128.0
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

impl Grid {
    /// An array that is large enough for a program, which spoils so many blocks along each edge.
    ///
    /// # Errors
    /// `Q5043` where there is none.
    fn new(program: &Program, block: (usize, usize), spoilt: Option<[i64; 4]>) -> Result<Grid> {
        let reach = moves(program);
        let margin = match spoilt {
            Some([north, east, south, west]) => {
                (north.max(south).max(0) as usize, east.max(west).max(0) as usize)
            }
            // No value travels further than there are moves.
            None => (reach.div_ceil(block.1), reach.div_ceil(block.0)),
        };
        let most = |side: usize| match block {
            (1, 1) => 2 * MAX_REACH + COMPARED,
            _ => MAX_SIDE / side,
        };
        let (rows, columns) = (2 * margin.0 + COMPARED, 2 * margin.1 + COMPARED);
        let (rows, columns) = (rows.min(most(block.1)), columns.min(most(block.0)));
        if rows <= 2 * margin.0 || columns <= 2 * margin.1 {
            let message = format!("a program with {reach} moves is not compared with its kernels");
            let far = margin.0.max(margin.1);
            return Err(Diagnostic::unsupported("Q5043", message).help(format!(
                "the edge of the array spoils up to {far} pixels; `run` gives the outputs for images \
                 of your own"
            )));
        }
        Ok(Grid { rows, columns, margin, block })
    }

    /// Width and height in elements.
    fn elements(&self) -> (usize, usize) {
        (self.columns * self.block.0, self.rows * self.block.1)
    }

    /// Index of the element that holds a bit of a pixel.
    fn element(&self, row: usize, column: usize, bit: &Bit) -> usize {
        let (width, height) = self.block;
        (row * height + bit.row) * self.elements().0 + column * width + bit.column
    }
}

/// How often a program moves values to neighbours.
fn moves(program: &Program) -> usize {
    let is_move = |inst: &Inst| match inst.class() {
        Class::Digital(Gate::Neighbours { .. }) => true,
        Class::Bus => inst.registers().any(|register| register.direction().is_some()),
        _ => false,
    };
    program.instructions.iter().map(|inst| expand(inst).iter().filter(|s| is_move(s)).count()).sum()
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
