//! The simulator behind numbers in 1-bit registers.

use super::ports::Wiring;
use crate::program::Named;
use crate::simulate::{Cell, Executor, Write};
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

/// The instruction that wrote bits of a number last.
pub(crate) struct Found {
    /// The instruction.
    pub(crate) write: Write,
    /// The bits, from the lowest up.
    pub(crate) place: String,
    /// The number behind it.
    pub(crate) number: f64,
}

impl Simulator {
    /// What runs the program.
    pub(crate) fn executor(&self) -> &Executor {
        &self.executor
    }

    /// The last instruction that writes a bit of an element of a result; `None` for inputs. Results
    /// are read in the end.
    ///
    /// # Errors
    /// As a run.
    pub(crate) fn last_write(
        &self,
        inputs: &Tensors,
        value: &str,
        element: usize,
    ) -> Result<Option<Found>> {
        let results = self.wiring.results.iter();
        let Some(numbers) = results.into_iter().find(|numbers| numbers.value == value) else {
            return Ok(None);
        };
        let cells: Option<Vec<Cell>> = numbers
            .cells(element, self.size.1)
            .map(|(register, at)| self.executor.cell(register, at))
            .collect();
        let cells = cells.filter(|cells| !cells.is_empty());
        let cells = cells.ok_or_else(|| Diagnostic::bug("an element of a layer is lost"))?;
        let write = self.executor.last_write(&self.images(inputs)?, &cells, usize::MAX)?;
        Ok(write.map(|write| {
            let names: Vec<String> =
                cells.iter().map(|&cell| self.executor.cell_name(cell)).collect();
            let number = numbers.number(element, &write.held);
            Found { write, place: names.join("+"), number }
        }))
    }

    /// The registers of the input with their images.
    fn images(&self, inputs: &Tensors) -> Result<Vec<(Named, Vec<f64>)>> {
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
        Ok(planes.into_iter().collect())
    }
}

impl Machine for Simulator {
    fn run(&mut self, inputs: &Tensors) -> Result<Tensors> {
        let width = self.size.1;
        let outcome = self.executor.run(&self.images(inputs)?)?;
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
