//! One run: a short function per analogue step.

#![deny(clippy::wildcard_enum_match_arm)]

use super::Executor;
use crate::arch::ScampArch;
use crate::isa::Direction;
use crate::program::{Named, Space};
use crate::simulate::lower::{BusStep, FLAG, Lowered, NEWS, Op, Pattern, Place};
use crate::simulate::noise::{Device, Write};
use crate::simulate::number::Number;
use crate::simulate::state::Planes;
use crate::simulate::{Edge, Settings};
use quincunx_diag::{Diagnostic, Result};
use smallvec::SmallVec;

/// One run with one kind of number.
pub(super) struct Run<'a, T> {
    pub(super) lowered: &'a Lowered,
    settings: &'a Settings,
    /// Errors of the device with the key of the run.
    device: Option<(&'a Device, u64)>,
    arch: &'a ScampArch,
    pub(super) planes: Planes<T>,
    /// What the bus of every element carries.
    pub(super) bus: Vec<T>,
    corner: [usize; 2],
    pub(super) exact: bool,
    pub(super) saturated: u64,
}

impl<'a, T: Number> Run<'a, T> {
    pub(super) fn new(executor: &'a Executor) -> Self {
        let lowered = &executor.lowered;
        let (width, height) = (executor.width, executor.height);
        let planes = Planes::new(width, height, lowered.analogue.len(), lowered.digital.len());
        Run {
            lowered,
            settings: &executor.settings,
            device: executor.device.as_ref().map(|device| (device, 0)),
            arch: &executor.arch,
            bus: vec![T::zero(); width * height],
            corner: executor.corner,
            planes,
            exact: true,
            saturated: 0,
        }
    }

    pub(super) fn load(&mut self, inputs: &[(Named, Vec<f64>)]) -> Result<()> {
        if let Some((device, key)) = &mut self.device {
            *key = device.key(inputs.iter().map(|(_, image)| &image[..]));
        }
        for ((space, register), image) in inputs {
            let (size, found) = (self.bus.len(), image.len());
            if found != size || image.iter().any(|value| !value.is_finite()) {
                let message =
                    format!("register {register} needs {size} finite numbers, got {found}");
                return Err(Diagnostic::invalid("Q5061", message));
            }
            match space {
                Space::Analogue => {
                    if let Some(&plane) = self.lowered.analogue.get(register) {
                        self.planes.analogue[plane] = image.iter().map(|&v| T::of(v)).collect();
                    }
                }
                Space::Digital => {
                    let name = self.arch.digital(*register).unwrap_or(*register);
                    if let Some(&plane) = self.lowered.digital.get(&name) {
                        self.planes.digital[plane] = image.iter().map(|&v| v != 0.0).collect();
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn step(&mut self, number: usize, op: &Op) {
        match op {
            Op::Bus(step) => self.bus_step(number, step),
            Op::Where(sources) => self.condition(sources),
            Op::All => self.planes.digital[FLAG].fill(true),
            Op::Fill(plane, value) => self.planes.analogue[*plane].fill(T::of(*value)),
            Op::Logic(step) => self.logic(step),
            Op::Pattern(plane, bytes) => {
                let pattern = Pattern { bytes: *bytes, corner: self.corner };
                self.assign(&[*plane], &self.pattern(pattern));
            }
            Op::Nothing => {}
        }
    }

    /// Sums the sources of every element into `bus`; all reads come before all writes.
    fn drive(&mut self, sources: &[Place]) {
        let Run { planes, bus, exact, settings, .. } = self;
        bus.fill(T::zero());
        for source in sources {
            match *source {
                Place::Own(plane) => {
                    for (sum, value) in bus.iter_mut().zip(&planes.analogue[plane]) {
                        sum.add(value, exact);
                    }
                }
                Place::Neighbour(direction) => {
                    for (element, sum) in bus.iter_mut().enumerate() {
                        match planes.neighbour(element, direction) {
                            Some(other) => sum.add(&planes.analogue[NEWS][other], exact),
                            None if settings.edge == Edge::Stale => {
                                let at = planes.along(element, direction);
                                sum.add(&planes.beyond[direction as usize][at], exact);
                            }
                            None => {}
                        }
                    }
                }
            }
        }
    }

    fn bus_step(&mut self, number: usize, step: &BusStep) {
        self.drive(&step.sources);
        let receivers = step.receivers.len();
        let share = u8::try_from(receivers).expect("an instruction writes a few registers");
        for value in &mut self.bus {
            *value = value.shared(share, &mut self.exact);
        }
        let planes: SmallVec<[usize; 6]> = step
            .receivers
            .iter()
            .map(|place| match place {
                Place::Own(plane) => *plane,
                Place::Neighbour(_) => NEWS,
            })
            .collect();
        for (position, receiver) in step.receivers.iter().enumerate() {
            let write = Write { number, position, planes: &planes };
            match *receiver {
                Place::Own(plane) => self.receive(plane, &write),
                Place::Neighbour(direction) => self.send(direction, &write),
            }
        }
    }

    /// What an element writes: what its bus carries, with the errors of the device.
    fn written(&mut self, element: usize, write: &Write<'_>) -> T {
        let mut value = self.bus[element].clone();
        if let Some((device, run)) = self.device {
            value = T::of(device.written(value.float(), run, element, write));
        }
        if let Some(limit) = self.settings.saturation {
            let float = value.float();
            if float.abs() > limit {
                self.saturated += 1;
                value = T::of(limit.copysign(float));
            }
        }
        value
    }

    /// Writes a register of every element with FLAG.
    fn receive(&mut self, plane: usize, write: &Write<'_>) {
        for element in 0..self.bus.len() {
            if self.planes.digital[FLAG][element] {
                self.planes.analogue[plane][element] = self.written(element, write);
            }
        }
    }

    /// Every element with FLAG writes NEWS of its neighbour.
    fn send(&mut self, direction: Direction, write: &Write<'_>) {
        for element in 0..self.bus.len() {
            if self.planes.digital[FLAG][element] {
                let value = self.written(element, write);
                match self.planes.neighbour(element, direction) {
                    Some(other) => self.planes.analogue[NEWS][other] = value,
                    None => {
                        let at = self.planes.along(element, direction);
                        self.planes.beyond[direction as usize][at] = value;
                    }
                }
            }
        }
        if self.settings.edge == Edge::Zero {
            // The writers of these elements lie beyond the edge, where there are zeros.
            for element in 0..self.bus.len() {
                if self.planes.neighbour(element, direction.opposite()).is_none() {
                    self.planes.analogue[NEWS][element] = T::zero();
                }
            }
        }
    }

    /// FLAG where the sum is above 0; every element decides, with FLAG or without.
    fn condition(&mut self, sources: &[Place]) {
        self.drive(sources);
        for (flag, sum) in self.planes.digital[FLAG].iter_mut().zip(&self.bus) {
            *flag = sum.is_positive();
        }
    }
}
