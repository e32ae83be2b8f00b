//! The prepared simulator behind the ports of an artifact.

use super::{Artifact, numbers, split};
use crate::files::Pipeline;
use crate::program::Output;
use crate::simulate::{Fast, Level, Worker};
use crate::tap::{Place, Scale};
use quincunx_diag::Result;
use quincunx_target::{Interface, Machine};
use quincunx_tensor::{Tensor, Tensors};

/// A program on one image at a time.
pub(super) struct Prepared {
    pipeline: Pipeline,
    interface: Interface,
    taps: Vec<Vec<Place>>,
    scales: Vec<Option<Scale>>,
    plain: Loaded,
    /// Also returns every slot that a tap reads; prepared when it is first needed.
    traced: Option<Loaded>,
}

/// A program with registers.
struct Loaded {
    fast: Fast,
    worker: Worker,
}

impl Loaded {
    fn new(pipeline: &Pipeline, taps: &[(usize, Output)]) -> Result<Option<Loaded>> {
        let fast = Fast::with(pipeline, taps, Level::best())?;
        Ok(fast.map(|fast| Loaded { worker: fast.worker(), fast }))
    }

    fn run(&mut self, inputs: &[f64]) -> Result<Vec<f64>> {
        let mut results = vec![0.0; self.fast.outputs()];
        self.fast.run_on(&mut self.worker, 1, inputs, &mut results)?;
        Ok(results)
    }
}

impl Prepared {
    /// `None` for a program that only the executor can run.
    pub(super) fn new(artifact: &Artifact) -> Result<Option<Prepared>> {
        let Artifact { pipeline, interface, taps, scales, .. } = artifact;
        // What the taps read may leave the range that outputs can have.
        if Fast::with(pipeline, &slots(taps), Level::best())?.is_none() {
            return Ok(None);
        }
        Ok(Loaded::new(pipeline, &[])?.map(|plain| Prepared {
            pipeline: pipeline.clone(),
            interface: interface.clone(),
            taps: taps.clone(),
            scales: scales.clone(),
            plain,
            traced: None,
        }))
    }
}

/// The slots that taps read, in order.
fn slots(taps: &[Vec<Place>]) -> Vec<(usize, Output)> {
    let output = |place: &Place| {
        let (stage, slot, shift, negate) = place.binary()?;
        Some((stage, Output { source: Some(slot), shift, negate }))
    };
    taps.iter().flatten().filter_map(output).collect()
}

impl Machine for Prepared {
    fn run(&mut self, inputs: &Tensors) -> Result<Tensors> {
        let results = self.plain.run(&numbers(&self.interface, inputs)?)?;
        split(&self.interface.outputs, &self.scales, &results)
    }

    fn run_traced(&mut self, inputs: &Tensors) -> Result<Tensors> {
        let numbers = numbers(&self.interface, inputs)?;
        let count = self.plain.fast.outputs();
        if self.traced.is_none() {
            self.traced = Loaded::new(&self.pipeline, &slots(&self.taps))?;
        }
        let results = match &mut self.traced {
            Some(traced) => traced.run(&numbers)?,
            None => self.plain.run(&numbers)?,
        };
        let (outputs, mut read) = results.split_at(count);
        let mut values = Tensors::new();
        for (layer, places) in self.interface.layers.iter().zip(&self.taps) {
            let number = |place: &Place| {
                let slot = match place.slot() {
                    Some(_) => read.split_off_first().copied().unwrap_or_default(),
                    None => 0.0,
                };
                place.real(slot)
            };
            let numbers: Vec<f64> = places.iter().map(number).collect();
            values.insert(layer.value.clone(), Tensor::from_vec(&layer.shape, numbers)?);
        }
        // An output is also a layer; what counts is what leaves the program.
        values.extend(split(&self.interface.outputs, &self.scales, outputs)?);
        Ok(values)
    }
}
