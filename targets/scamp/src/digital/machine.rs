//! The simulator behind numbers in 1-bit registers.

use super::ports::Wiring;
use crate::isa::Reg;
use crate::program::Space;
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
        let (port, numbers) = &self.wiring.input;
        let codes = port.encode(given(inputs, &port.name)?)?;
        let blank = || vec![0.0; height * width];
        let mut planes: BTreeMap<Reg, Vec<f64>> =
            numbers.registers().map(|register| (register, blank())).collect();
        let pixels = codes.len() / numbers.channels.len().max(1);
        for (channel, codes) in codes.chunks(pixels.max(1)).enumerate() {
            numbers.write(channel, codes, width, |register, element| {
                if let Some(plane) = planes.get_mut(&register) {
                    plane[element] = 1.0;
                }
            });
        }
        let named = |(register, plane)| ((Space::Digital, register), plane);
        let outcome = self.executor.run(&planes.into_iter().map(named).collect::<Vec<_>>())?;
        let plane = |register: Reg| {
            let bug = || Diagnostic::bug(format!("no plane for {register}"));
            outcome.register((Space::Digital, register)).ok_or_else(bug)
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
