//! Errors of the device: noise, bias and gain of every write, and what is fixed in every element.

use crate::isa::Reg;
use quincunx_diag::{Diagnostic, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Errors of the writes of one class; all but `gain` in the unit of the values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WriteErrors {
    /// Standard deviation of the noise, drawn anew for every write.
    pub sigma: f64,
    /// What every write adds.
    pub bias: f64,
    /// What every written value is multiplied by.
    pub gain: f64,
}

impl Default for WriteErrors {
    fn default() -> Self {
        WriteErrors { sigma: 0.0, bias: 0.0, gain: 1.0 }
    }
}

/// A number that is fixed for each register of each element, in the unit of the values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pattern {
    /// Standard deviation over the elements, for registers without a map.
    pub sigma: f64,
    /// The numbers of a register, row 0 northmost.
    pub maps: BTreeMap<Reg, Arc<[f64]>>,
}

/// Errors of a device. What an element writes into NEWS of a neighbour has the errors of the element
/// that writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Noise {
    /// Of writes with one receiver, two, and three or more.
    pub writes: [WriteErrors; 3],
    /// What a register takes more than its share when several receive; only the differences between
    /// the receivers of a step count, as the shares sum up to the whole.
    pub mismatch: Pattern,
    /// What every write into a register adds.
    pub offset: Pattern,
    /// Which run: what noise is drawn.
    pub seed: u64,
    /// Which device: what patterns are drawn; `None` for that of the seed.
    pub device: Option<u64>,
}

impl Pattern {
    fn is_none(&self) -> bool {
        self.sigma == 0.0 && self.maps.is_empty()
    }

    /// The numbers of every plane; no planes where all are 0.
    fn planes(&self, key: [u64; 2], planes: &BTreeMap<Reg, usize>, size: usize) -> Vec<Arc<[f64]>> {
        if self.is_none() {
            return Vec::new();
        }
        let numbers = |register: Reg| -> Arc<[f64]> {
            if let Some(map) = self.maps.get(&register) {
                return map.clone();
            }
            let name = fold(mix(key[0]), register.to_string().bytes().map(u64::from));
            let hash = |element| fold(name, [element as u64, key[1]].into_iter());
            (0..size).map(|element| self.sigma * gaussian(hash(element))).collect()
        };
        let mut registers: Vec<(usize, Reg)> =
            planes.iter().map(|(&r, &plane)| (plane, r)).collect();
        registers.sort_unstable();
        registers.into_iter().map(|(_, register)| numbers(register)).collect()
    }

    fn scale(&mut self, factor: f64) {
        self.sigma *= factor;
        if factor == 0.0 {
            self.maps.clear();
        }
        for map in self.maps.values_mut() {
            *map = map.iter().map(|value| factor * value).collect();
        }
    }
}

impl Noise {
    /// Noise of writes alone, by these standard deviations.
    pub fn of_writes(sigma: [f64; 3], seed: u64) -> Noise {
        let writes = sigma.map(|sigma| WriteErrors { sigma, ..WriteErrors::default() });
        Noise { writes, seed, ..Noise::default() }
    }

    /// A mismatch alone, by its standard deviation.
    pub fn of_mismatch(sigma: f64, seed: u64) -> Noise {
        let mismatch = Pattern { sigma, ..Pattern::default() };
        Noise { mismatch, seed, ..Noise::default() }
    }

    /// Standard deviations of the noise of writes with one receiver, two, and three or more.
    pub fn sigma(&self) -> [f64; 3] {
        self.writes.map(|write| write.sigma)
    }

    /// The device has no errors.
    pub fn is_none(&self) -> bool {
        self.writes == [WriteErrors::default(); 3]
            && self.mismatch.is_none()
            && self.offset.is_none()
    }

    /// Makes all errors so many times as large.
    pub fn scale(&mut self, factor: f64) {
        for write in &mut self.writes {
            write.sigma *= factor;
            write.bias *= factor;
            write.gain = 1.0 + factor * (write.gain - 1.0);
        }
        self.mismatch.scale(factor);
        self.offset.scale(factor);
    }

    /// The errors of writes with so many receivers.
    pub(super) fn of(&self, receivers: usize) -> &WriteErrors {
        &self.writes[receivers.clamp(1, 3) - 1]
    }

    /// How many numbers each register of an element needs for the patterns.
    pub(super) fn patterns(&self) -> usize {
        [&self.mismatch, &self.offset].into_iter().filter(|pattern| !pattern.is_none()).count()
    }

    /// Refuses maps that are not of an array of so many elements.
    ///
    /// # Errors
    /// `Q5142`.
    pub(super) fn check(&self, size: usize) -> Result<()> {
        let maps = self.mismatch.maps.iter().chain(&self.offset.maps);
        match maps.clone().find(|(_, map)| map.len() != size) {
            Some((register, map)) => {
                let found = format!("a map of register {register} has {} numbers", map.len());
                Err(Diagnostic::invalid("Q5142", format!("{found}, the array {size} elements")))
            }
            None => Ok(()),
        }
    }
}

/// The errors of a device for the registers of a program.
#[derive(Clone, Debug)]
pub(super) struct Device {
    noise: Noise,
    /// By plane and element; empty where there is none.
    mismatch: Vec<Arc<[f64]>>,
    offset: Vec<Arc<[f64]>>,
}

/// Where a write belongs.
pub(super) struct Write<'a> {
    /// Number of the step.
    pub(super) number: usize,
    /// Position among the receivers.
    pub(super) position: usize,
    /// Planes of all receivers.
    pub(super) planes: &'a [usize],
}

impl Device {
    /// Draws the patterns for planes with so many elements.
    pub(super) fn new(noise: &Noise, planes: &BTreeMap<Reg, usize>, size: usize) -> Device {
        let device = noise.device.unwrap_or(noise.seed);
        Device {
            mismatch: noise.mismatch.planes([device, 2], planes, size),
            offset: noise.offset.planes([device, 3], planes, size),
            noise: noise.clone(),
        }
    }

    /// What an element writes where the ideal one writes `value`; `run` is the [`key`] of the run.
    pub(super) fn written(&self, value: f64, run: u64, element: usize, write: &Write<'_>) -> f64 {
        let &Write { number, position, planes } = write;
        let WriteErrors { sigma, bias, gain } = *self.noise.of(planes.len());
        let mut written = value * gain + bias;
        if sigma != 0.0 {
            let draw = [number as u64, element as u64, position as u64, 1];
            written += sigma * gaussian(fold(run, draw.into_iter()));
        }
        if planes.len() > 1 && !self.mismatch.is_empty() {
            let excess = |plane: usize| self.mismatch[plane][element];
            let mean = planes.iter().map(|&plane| excess(plane)).sum::<f64>() / planes.len() as f64;
            written += excess(planes[position]) - mean;
        }
        if let Some(offset) = self.offset.get(planes[position]) {
            written += offset[element];
        }
        written
    }

    /// What noise of a run is drawn from: its seed and its images, so that equal images have equal
    /// noise in whatever order they are computed, and others have another.
    pub(super) fn key<'i>(&self, images: impl Iterator<Item = &'i [f64]>) -> u64 {
        let seed = mix(self.noise.seed);
        match self.noise.sigma() == [0.0; 3] {
            true => seed,
            false => fold(seed, images.flatten().map(|value| value.to_bits())),
        }
    }
}

fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A hash with more parts in it.
fn fold(hash: u64, parts: impl Iterator<Item = u64>) -> u64 {
    parts.fold(hash, |hash, part| mix(hash ^ part))
}

/// A normally distributed number that the hash determines (Box and Muller).
fn gaussian(hash: u64) -> f64 {
    let unit = |bits: u64| ((bits >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    let (radius, angle) = (unit(hash), unit(mix(hash)));
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}
