//! The prepared simulator behind the ports of an artifact.

use super::Artifact;
use crate::ports::{numbers, split};
use crate::program::{Output, Pipeline, Slot};
use crate::simulate::{Fast, Worker};
use crate::tap::Place;
use quincunx_contract::{Interface, Machine, Scale};
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::{Dyadic, Level};
use quincunx_tensor::{Tensor, Tensors, element_count};

/// A program on images, many at a time where they are given so.
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

    fn run(&mut self, samples: usize, inputs: &[f64]) -> Result<Vec<f64>> {
        let mut results = vec![0.0; samples * self.fast.outputs()];
        self.fast.run_on(&mut self.worker, samples, inputs, &mut results)?;
        Ok(results)
    }
}

impl Prepared {
    /// `None` for a program that only the executor can run.
    pub(super) fn new(artifact: &Artifact) -> Result<Option<Prepared>> {
        let Artifact { pipeline, interface, taps, scales, .. } = artifact;
        // What the taps read may leave the range that outputs can have.
        if !scales_short_numbers(artifact)
            || Fast::with(pipeline, &slots(taps), Level::best())?.is_none()
        {
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

    /// The output ports of one image.
    fn outputs(&self, results: &[f64]) -> Result<Tensors> {
        split(&self.interface.outputs, &self.scales, results, exact(results))
    }

    /// The outputs of all images, or a fault of some.
    fn run_together(&mut self, images: &[Tensors]) -> Result<Vec<Tensors>> {
        let mut inputs = Vec::new();
        for image in images {
            inputs.extend(numbers(&self.interface, image)?);
        }
        let before = self.plain.worker.registers.clone();
        let results = self.plain.run(images.len(), &inputs).inspect_err(|_| {
            self.plain.worker.registers = before;
        })?;
        let width = self.plain.fast.outputs();
        (0..images.len()).map(|image| self.outputs(&results[image * width..][..width])).collect()
    }
}

/// True when all numbers that are scaled are floats as they are: others would be rounded twice.
fn scales_short_numbers(artifact: &Artifact) -> bool {
    let Artifact { pipeline, interface, taps, scales, .. } = artifact;
    let is_short = |(stage, slot): (usize, Slot)| {
        let operation = pipeline.stages.get(stage).and_then(|s| s.operations.get(slot.0 as usize));
        operation.is_none_or(|operation| operation.slot_type.kif().width() <= f64::MANTISSA_DIGITS)
    };
    let last = pipeline.stages.len().saturating_sub(1);
    let mut outputs = pipeline.stages.last().map_or(&[][..], |stage| &stage.outputs);
    for (port, scale) in interface.outputs.iter().zip(scales) {
        let count = element_count(&port.shape).expect("the outputs were counted");
        let (own, others) = outputs.split_at(count);
        let mut slots = own.iter().filter_map(|output| output.source);
        if scale.is_some() && !slots.all(|slot| is_short((last, slot))) {
            return false;
        }
        outputs = others;
    }
    let scaled = taps.iter().flatten().filter(|place| matches!(place, Place::Scaled { .. }));
    scaled.filter_map(Place::slot).all(is_short)
}

/// Numbers of up to 53 bits as they are.
fn exact(numbers: &[f64]) -> impl Iterator<Item = Dyadic> {
    numbers.iter().map(|&number| Dyadic::from_f64(number).expect("results are finite"))
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
        let results = self.plain.run(1, &numbers(&self.interface, inputs)?)?;
        self.outputs(&results)
    }

    fn batch(&self) -> usize {
        self.plain.fast.block_len()
    }

    fn run_batch(&mut self, images: &[Tensors]) -> Vec<Result<Tensors>> {
        match self.run_together(images) {
            Ok(results) => results.into_iter().map(Ok).collect(),
            // One of them has a fault; each has its own result.
            Err(_) => images.iter().map(|image| self.run(image)).collect(),
        }
    }

    fn run_traced(&mut self, inputs: &Tensors) -> Result<Tensors> {
        let numbers = numbers(&self.interface, inputs)?;
        let count = self.plain.fast.outputs();
        let traced = match &mut self.traced {
            Some(traced) => traced,
            none => {
                let loaded = Loaded::new(&self.pipeline, &slots(&self.taps))?;
                none.insert(loaded.ok_or_else(|| Diagnostic::bug("the taps were prepared before"))?)
            }
        };
        traced.worker.registers.clone_from(&self.plain.worker.registers);
        let results = traced.run(1, &numbers)?;
        self.plain.worker.registers.clone_from(&traced.worker.registers);
        let (outputs, mut read) = results.split_at(count);
        let mut values = Tensors::new();
        for (layer, places) in self.interface.layers.iter().zip(&self.taps) {
            let number = |place: &Place| {
                let slot = match place.slot() {
                    Some(_) => *read.split_off_first().expect("a result for every tap"),
                    None => 0.0,
                };
                place.real(slot)
            };
            let numbers: Vec<f64> = places.iter().map(number).collect();
            values.insert(layer.value.clone(), Tensor::from_vec(&layer.shape, numbers)?);
        }
        // An output is also a layer; what counts is what leaves the program.
        values.extend(self.outputs(outputs)?);
        Ok(values)
    }
}
