//! The prepared simulator behind the ports of an artifact.

use super::Artifact;
use super::exec::Exec;
use crate::ports::Ports;
use crate::program::{Output, Pipeline, Slot};
use crate::simulate::{Fast, PipelineExecutor, Worker};
use crate::tap::Place;
use quincunx_contract::Machine;
use quincunx_diag::Result;
use quincunx_num::{Dyadic, Level};
use quincunx_tensor::{Tensor, Tensors};
use std::sync::Arc;

/// A program on images, many at a time where they are given so.
pub(super) struct Prepared {
    pipeline: Arc<Pipeline>,
    ports: Arc<Ports>,
    plain: Loaded,
    /// Prepared when it is first needed.
    traced: Option<Traced>,
}

/// A program that also returns every slot that a tap reads.
enum Traced {
    Fast(Box<Loaded>),
    /// What the taps read leaves the range that outputs can have.
    Exec(Exec),
}

/// A program with registers.
struct Loaded {
    fast: Fast,
    worker: Worker,
}

impl Loaded {
    fn new(pipeline: &Arc<Pipeline>, taps: &[(usize, Output)]) -> Option<Loaded> {
        let fast = Fast::of_legal(pipeline, taps, Level::best())?;
        Some(Loaded { worker: fast.worker(), fast })
    }

    fn run(&mut self, samples: usize, inputs: &[f64]) -> Result<Vec<f64>> {
        let mut results = vec![0.0; samples * self.fast.outputs()];
        self.fast.run_on(&mut self.worker, samples, inputs, &mut results)?;
        Ok(results)
    }
}

impl Traced {
    fn new(pipeline: &Arc<Pipeline>, ports: &Arc<Ports>) -> Traced {
        let scaled = ports.taps.iter().flatten().filter(|tap| matches!(tap, Place::Scaled { .. }));
        let loaded = match scaled.filter_map(Place::slot).all(|slot| is_short(pipeline, slot)) {
            true => Loaded::new(pipeline, &slots(&ports.taps)),
            false => None,
        };
        loaded.map_or_else(
            || {
                let executor = PipelineExecutor::of_legal(pipeline);
                Traced::Exec(Exec { executor, checked: false, ports: Arc::clone(ports) })
            },
            |loaded| Traced::Fast(Box::new(loaded)),
        )
    }
}

impl Prepared {
    /// A program that is legal; `None` for one that only the executor can run.
    pub(super) fn new(artifact: &Artifact) -> Option<Prepared> {
        let Artifact { pipeline, ports, .. } = artifact;
        let last = pipeline.stages.len().saturating_sub(1);
        let scaled = ports.scaled(pipeline);
        let mut slots = scaled.iter().filter_map(|output| output.source);
        if !slots.all(|slot| is_short(pipeline, (last, slot))) {
            return None;
        }
        // Two simulators that share registers have them in one form.
        let traced = pipeline.has_state().then(|| Traced::new(pipeline, ports));
        if matches!(traced, Some(Traced::Exec(_))) {
            return None;
        }
        let plain = Loaded::new(pipeline, &[])?;
        let (pipeline, ports) = (Arc::clone(pipeline), Arc::clone(ports));
        Some(Prepared { pipeline, ports, plain, traced })
    }

    /// The output ports of one image.
    fn outputs(&self, results: &[f64]) -> Result<Tensors> {
        self.ports.split(results, exact(results))
    }

    /// The outputs of all images, or a fault of some.
    fn run_together(&mut self, images: &[Tensors]) -> Result<Vec<Tensors>> {
        let mut inputs = Vec::new();
        for image in images {
            inputs.extend(self.ports.numbers(image)?);
        }
        let before = self.plain.worker.registers.clone();
        let results = self.plain.run(images.len(), &inputs).inspect_err(|_| {
            self.plain.worker.registers = before;
        })?;
        let width = self.plain.fast.outputs();
        (0..images.len()).map(|image| self.outputs(&results[image * width..][..width])).collect()
    }

    /// The layers, from what the taps read.
    fn layers(&self, mut read: &[f64]) -> Result<Tensors> {
        let mut values = Tensors::new();
        for (layer, places) in self.ports.interface.layers.iter().zip(&self.ports.taps) {
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
        Ok(values)
    }
}

/// True when a number is a float as it is: others that are scaled would be rounded twice.
fn is_short(pipeline: &Pipeline, (stage, slot): (usize, Slot)) -> bool {
    let operation = pipeline.stages.get(stage).and_then(|s| s.operations.get(slot.0 as usize));
    operation.is_none_or(|operation| operation.slot_type.kif().width() <= f64::MANTISSA_DIGITS)
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
        let results = self.plain.run(1, &self.ports.numbers(inputs)?)?;
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

    fn run_stacked(&mut self, inputs: &Tensors, images: usize) -> Option<Tensors> {
        if self.pipeline.has_state() {
            return None;
        }
        let numbers = self.ports.stacked_numbers(inputs, images)?;
        let results = self.plain.run(images, &numbers).ok()?;
        self.ports.split_stacked(results, images)
    }

    fn run_traced(&mut self, inputs: &Tensors) -> Result<Tensors> {
        let new = || Traced::new(&self.pipeline, &self.ports);
        let results = match self.traced.get_or_insert_with(new) {
            Traced::Exec(exec) => return exec.run_traced(inputs),
            Traced::Fast(loaded) => {
                let registers = &mut self.plain.worker.registers;
                loaded.worker.registers.clone_from(registers);
                let results = loaded.run(1, &self.ports.numbers(inputs)?)?;
                registers.clone_from(&loaded.worker.registers);
                results
            }
        };
        let (outputs, read) = results.split_at(self.plain.fast.outputs());
        let mut values = self.layers(read)?;
        // An output is also a layer; what counts is what leaves the program.
        values.extend(self.outputs(outputs)?);
        Ok(values)
    }
}
