//! The fast simulator: planes of whole numbers in place of floats and bits.
//!
//! Inputs that are multiples of a power of two stay multiples of a smaller one, as every step adds,
//! negates and halves. A bound on what nodes can hold says whether 16 bits are enough for the
//! numbers, or 32; sums may wrap on the way, as their results do not. A bit is a number of all zeros
//! or ones. All else is left to [`super::Executor`]: noise, saturation, 1-bit inputs, shares of thirds,
//! the edge of Cain's emulator, inputs with -0 or too many digits.

mod flow;
mod rows;

use super::exec::Executor;
use super::lower::Pattern;
use super::{Edge, Settings};
use crate::isa::Reg;
use crate::program::{Named, Space};
use flow::{Flow, Form, Id, Node};
use quincunx_num::Level;
use rows::{Choice, Frame, Lane, Load, Logic, Source, Store, Sum, Then, pattern, whole};
use std::borrow::Cow;

/// Binary digits behind the point of inputs and constants.
const MAX_DIGITS: u32 = 24;

/// A program made ready to run fast.
#[derive(Clone, Debug)]
pub struct Fast {
    flow: Flow,
    frame: Frame,
    /// Elements of the whole array north and east of those that are run.
    corner: [usize; 2],
    level: Level,
    /// The register of each analogue plane.
    planes: Vec<Named>,
    /// The space of what is read.
    spaces: Vec<Space>,
    /// The buffer of each node; nodes share those whose numbers nobody needs any more.
    slots: Vec<usize>,
    /// Halvings on the way from inputs to any node.
    halvings: u32,
    /// Digits of the inputs of the last run, and at least those of all constants.
    digits: u32,
    short: Vec<Vec<i16>>,
    long: Vec<Vec<i32>>,
    /// The last run was one in 16 bits.
    is_short: bool,
}

/// Registers and what they hold at first, row 0 northmost.
pub type Inputs<'a> = [(Named, Cow<'a, [f64]>)];

impl Fast {
    /// Prepares reading registers after instructions, as [`Executor::run_reading`] does. `None` for
    /// programs and settings that need the executor.
    pub fn new(executor: &Executor, reads: &[(usize, Named)], level: Level) -> Option<Fast> {
        let Settings { edge, noise, saturation, .. } = executor.settings();
        if *edge != Edge::Zero || noise.is_some() || saturation.is_some() {
            return None;
        }
        let place =
            |&(after, named): &(usize, Named)| Some((after, named.0, executor.plane(named)?));
        let reads = reads.iter().map(place).collect::<Option<Vec<_>>>()?;
        let flow = Flow::of(executor.lowered(), &reads)?;
        let constants = flow.nodes.iter().map(|node| match node {
            Node::Constant(bits) => digits(f64::from_bits(*bits)),
            _ => Some(0),
        });
        let digits = constants.collect::<Option<Vec<u32>>>()?.into_iter().max().unwrap_or(0);
        let (width, height) = executor.size();
        let lowered = executor.lowered();
        let mut planes = vec![(Space::Analogue, Reg::NEWS); lowered.analogue.len()];
        lowered.analogue.iter().for_each(|(&register, &plane)| planes[plane].1 = register);
        Some(Fast {
            slots: slots(&flow),
            halvings: halvings(&flow),
            frame: Frame { width, height },
            corner: executor.corner(),
            planes,
            spaces: reads.iter().map(|&(_, space, _)| space).collect(),
            flow,
            level,
            digits,
            short: Vec::new(),
            long: Vec::new(),
            is_short: true,
        })
    }

    /// Runs the program; false where the executor has to do it.
    #[must_use]
    pub fn run(&mut self, inputs: &Inputs<'_>) -> bool {
        let size = self.frame.width * self.frame.height;
        let is_plane = |((space, _), image): &(Named, Cow<'_, [f64]>)| {
            *space == Space::Analogue && image.len() == size
        };
        let most = inputs.iter().all(is_plane).then(|| self.scaled_most(inputs)).flatten();
        let Some(most) = most else { return false };
        self.is_short = self.fits::<i16>(most);
        if self.is_short {
            let mut buffers = std::mem::take(&mut self.short);
            self.run_in(&mut buffers, inputs);
            self.short = buffers;
        } else if self.fits::<i32>(most) {
            let mut buffers = std::mem::take(&mut self.long);
            self.run_in(&mut buffers, inputs);
            self.long = buffers;
        } else {
            return false;
        }
        true
    }

    /// Appends what was read in the last run, row 0 northmost; reads are counted in the order in which
    /// they were asked for.
    pub fn read(&self, read: usize, image: &mut Vec<f64>) {
        let slot = self.slots[self.flow.reads[read]];
        let scale = match self.spaces[read] {
            Space::Analogue => power(self.digits + self.halvings).recip(),
            Space::Digital => 1.0,
        };
        match self.is_short {
            true => self.store(&self.short[slot], scale, image),
            false => self.store(&self.long[slot], scale, image),
        }
    }

    fn store<T: Lane>(&self, plane: &[T], scale: f64, image: &mut Vec<f64>) {
        let frame = self.frame;
        self.level.run(Store { frame, plane, scale, image });
    }

    /// The largest input in units of the last digit, after as many digits as all inputs need.
    fn scaled_most(&mut self, inputs: &Inputs<'_>) -> Option<f64> {
        let (level, scale) = (self.level, power(self.digits));
        let most = |scale| {
            let mut each = inputs.iter().map(|(_, image)| whole(image, scale, level));
            each.try_fold(0.0, |most: f64, one| Some(most.max(one?)))
        };
        most(scale).or_else(|| {
            for (_, image) in inputs {
                for &value in &**image {
                    self.digits = self.digits.max(digits(value)?);
                }
            }
            most(power(self.digits))
        })
    }

    /// True when no number that counts leaves a lane, if inputs have so many units.
    fn fits<T: Lane>(&self, most: f64) -> bool {
        let unit = power(self.digits + self.halvings);
        let mut bounds: Vec<f64> = Vec::with_capacity(self.flow.nodes.len());
        for node in &self.flow.nodes {
            let sum = |form: &Form| {
                form.terms().map(|(term, times)| bounds[term.node] * times.abs() as f64).sum()
            };
            let (bound, must_fit) = match node {
                Node::Input(_) => (most * power(self.halvings), true),
                Node::Constant(bits) => (f64::from_bits(*bits).abs() * unit, true),
                Node::Sum(form, 0) => (sum(form), false),
                Node::Sum(form, halvings) => {
                    let sum: f64 = sum(form);
                    if sum > T::MAX {
                        return false;
                    }
                    (sum / power(*halvings), true)
                }
                Node::Positive(form) => {
                    let sum: f64 = sum(form);
                    if sum > T::MAX {
                        return false;
                    }
                    (1.0, false)
                }
                Node::Choice { set, clear, .. } => (bounds[*set].max(bounds[*clear]), false),
                Node::Pattern(_) | Node::Logic(..) => (1.0, false),
            };
            if must_fit && bound > T::MAX {
                return false;
            }
            bounds.push(bound);
        }
        self.flow.reads.iter().all(|&id| bounds[id] <= T::MAX)
    }

    fn run_in<T: Lane>(&self, buffers: &mut Vec<Vec<T>>, inputs: &Inputs<'_>) {
        let count = self.slots.iter().max().map_or(0, |last| last + 1);
        buffers.resize_with(count, || vec![T::default(); self.frame.length()]);
        for (id, node) in self.flow.nodes.iter().enumerate() {
            let mut target = std::mem::take(&mut buffers[self.slots[id]]);
            self.compute(node, &mut target, buffers, inputs);
            buffers[self.slots[id]] = target;
        }
    }

    fn compute<T: Lane>(
        &self,
        node: &Node,
        target: &mut [T],
        buffers: &[Vec<T>],
        inputs: &Inputs<'_>,
    ) {
        let frame = self.frame;
        let plane = |id: Id| &buffers[self.slots[id]][..];
        let sources = |form: &Form| -> Vec<Source<'_, T>> {
            let source = |(term, times): (flow::Term, i64)| Source {
                plane: plane(term.node),
                rows: term.rows,
                columns: term.columns,
                times: T::wrapped(times),
            };
            form.terms().map(source).collect()
        };
        let mut sum = |form: &Form, then| {
            let sources = sources(form);
            self.level.run(Sum { frame, target: &mut *target, sources: &sources, then });
        };
        match node {
            Node::Sum(form, halvings) => sum(form, Then::Shift(*halvings)),
            Node::Positive(form) => sum(form, Then::Compare),
            Node::Choice { mask, set, clear } => {
                let (mask, set, clear) = (plane(*mask), plane(*set), plane(*clear));
                self.level.run(Choice { frame, target, mask, set, clear });
            }
            Node::Pattern(bytes) => {
                pattern(frame, target, Pattern { bytes: *bytes, corner: self.corner });
            }
            Node::Logic(join, a, b) => {
                let (join, a, b) = (*join, plane(*a), plane(*b));
                self.level.run(Logic { frame, target, join, a, b });
            }
            Node::Input(at) => {
                let given = inputs.iter().rfind(|(named, _)| *named == self.planes[*at]);
                let scale = power(self.digits + self.halvings);
                match given {
                    Some((_, image)) => self.level.run(Load { frame, target, image, scale }),
                    None => sum(&Form::default(), Then::Shift(0)),
                }
            }
            Node::Constant(bits) => {
                let image = vec![f64::from_bits(*bits); frame.width * frame.height];
                let scale = power(self.digits + self.halvings);
                self.level.run(Load { frame, target, image: &image, scale });
            }
        }
    }
}

fn power(exponent: u32) -> f64 {
    f64::from(exponent).exp2()
}

/// Binary digits of a float behind the point; `None` for more than [`MAX_DIGITS`], and for -0.
fn digits(value: f64) -> Option<u32> {
    let is_whole = |&count: &u32| {
        let scaled = value * power(count);
        scaled == scaled.trunc()
    };
    (0..=MAX_DIGITS).find(is_whole).filter(|_| value != 0.0 || value.is_sign_positive())
}

/// The most halvings on any way to a node.
fn halvings(flow: &Flow) -> u32 {
    let mut depths: Vec<u32> = Vec::new();
    for node in &flow.nodes {
        let before = node.operands().into_iter().map(|operand| depths[operand]).max().unwrap_or(0);
        let own = if let Node::Sum(_, halvings) = node { *halvings } else { 0 };
        depths.push(before.saturating_add(own));
    }
    depths.into_iter().max().unwrap_or(0)
}

/// A buffer for each node. None has that of a node which is read later, or is being read.
fn slots(flow: &Flow) -> Vec<usize> {
    let mut last: Vec<usize> = (0..flow.nodes.len()).collect();
    for (id, node) in flow.nodes.iter().enumerate() {
        node.operands().into_iter().for_each(|operand| last[operand] = id);
    }
    flow.reads.iter().for_each(|&id| last[id] = usize::MAX);
    let (mut slots, mut busy): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    for (id, &last) in last.iter().enumerate() {
        // A buffer is free behind the last node that reads it.
        let slot = busy.iter().position(|&until| until < id).unwrap_or(busy.len());
        if slot == busy.len() {
            busy.push(0);
        }
        busy[slot] = last;
        slots.push(slot);
    }
    slots
}
