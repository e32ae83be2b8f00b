//! The simulator behind numbers in 1-bit registers.

use super::ports::Wiring;
use crate::program::Named;
use crate::simulate::Executor;
use quincunx_contract::Machine;
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::execute::given;
use quincunx_tensor::{Tensor, Tensors};
use std::collections::BTreeMap;

/// A program with its numbers.
pub(crate) struct Simulator {
    executor: Executor,
    wiring: Wiring,
    /// Rows and columns of the array.
    size: (usize, usize),
}

impl Simulator {
    /// A program on an array of so many rows and columns.
    pub(crate) fn new(executor: Executor, wiring: Wiring, size: (usize, usize)) -> Simulator {
        Simulator { executor, wiring, size }
    }
}

impl Machine for Simulator {
    fn run(&mut self, inputs: &Tensors) -> Result<Tensors> {
        let (height, width) = self.size;
        let numbers = &self.wiring.input;
        let port = numbers.port();
        let pixels = port.encode(given(inputs, &port.name)?)?;
        let blank = || vec![0.0; height * width];
        let mut planes: BTreeMap<Named, Vec<f64>> =
            numbers.places().map(|(register, _)| (register, blank())).collect();
        let size = pixels.len() / numbers.channels.len().max(1);
        for (channel, pixels) in pixels.chunks(size.max(1)).enumerate() {
            numbers.write(channel, pixels, width, |register, element, value| {
                if let Some(plane) = planes.get_mut(&register) {
                    plane[element] = value;
                }
            });
        }
        let outcome = self.executor.run(&planes.into_iter().collect::<Vec<_>>())?;
        let plane = |register: Named| {
            let bug = || Diagnostic::bug(format!("no plane for {}", register.1));
            outcome.register(register).ok_or_else(bug)
        };
        let mut values = Tensors::new();
        for numbers in &self.wiring.results {
            let mut pixels = Vec::new();
            for channel in 0..numbers.channels.len() {
                pixels.extend(numbers.read(channel, width, plane)?);
            }
            values.insert(numbers.value.clone(), Tensor::from_vec(&numbers.shape(), pixels)?);
        }
        Ok(values)
    }

    fn run_traced(&mut self, inputs: &Tensors) -> Result<Tensors> {
        self.run(inputs)
    }
}
