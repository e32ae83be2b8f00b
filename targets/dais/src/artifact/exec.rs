//! The readable executor behind the ports of an artifact.

use crate::ports::Ports;
use crate::program::Slot;
use crate::simulate::{Executor, PipelineExecutor};
use crate::tap::Place;
use quincunx_contract::{LayerTap, Machine};
use quincunx_diag::Result;
use quincunx_tensor::{Tensor, Tensors};
use std::sync::Arc;

/// A program on one image after the other.
pub(super) struct Exec {
    pub(super) executor: PipelineExecutor,
    /// A result that its type does not hold is a fault.
    pub(super) checked: bool,
    pub(super) ports: Arc<Ports>,
}

impl Exec {
    pub(super) fn execute(&mut self, inputs: &Tensors) -> Result<Tensors> {
        let numbers = self.ports.numbers(inputs)?;
        let results = match self.checked {
            true => self.executor.run_strict(&numbers)?,
            false => self.executor.run(&numbers)?,
        };
        let last = self.executor.stages().last();
        self.ports.split(&results, last.into_iter().flat_map(Executor::outputs))
    }

    /// The layers after a run, from the slots they lie in.
    fn layers(&self) -> Result<Tensors> {
        let value = |stage: usize, slot: Slot| self.executor.stages()[stage].value(slot);
        let Ports { interface, taps, .. } = &*self.ports;
        let layer = |(layer, places): (&LayerTap, &Vec<Place>)| {
            let numbers: Vec<f64> = places.iter().map(|place| place.read(value)).collect();
            Ok((layer.value.clone(), Tensor::from_vec(&layer.shape, numbers)?))
        };
        interface.layers.iter().zip(taps).map(layer).collect()
    }
}

impl Machine for Exec {
    fn run(&mut self, inputs: &Tensors) -> Result<Tensors> {
        self.execute(inputs)
    }

    fn run_traced(&mut self, inputs: &Tensors) -> Result<Tensors> {
        let outputs = self.execute(inputs)?;
        let mut values = self.layers()?;
        // An output is also a layer; what counts is what leaves the program.
        values.extend(outputs);
        Ok(values)
    }
}
