//! Vectors of a testbench: what goes into the ports, and what the executor says comes out.

use super::ports::put;
use super::{Design, Field, Settings};
use crate::ports::encode;
use crate::program::Pipeline;
use crate::simulate::{Executor, overflows};
use quincunx_contract::Port;
use quincunx_diag::{Diagnostic, Result};
use quincunx_num::{Dyadic, Int};
use quincunx_tensor::{Tensor, Tensors, element_count, npy};

/// Of so many random inputs per wanted vector at least one must be legal.
const TRIES: usize = 16;

/// Bits of both ports for every vector.
#[derive(Clone, Debug, Default)]
pub struct Vectors {
    /// The input port.
    pub inputs: Vec<Int>,
    /// The output port.
    pub outputs: Vec<Int>,
}

impl Vectors {
    /// Samples as bits of the ports of a design.
    pub(super) fn of(design: &Design, samples: &Samples) -> Vectors {
        let bits = |fields, rows: &[Vec<Dyadic>]| rows.iter().map(|row| put(fields, row)).collect();
        Vectors {
            inputs: bits(&design.inputs, &samples.inputs),
            outputs: bits(&design.outputs, &samples.outputs),
        }
    }
}

/// Exact numbers for a testbench: a list for every sample.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// What goes in.
    pub inputs: Vec<Vec<Dyadic>>,
    /// What the executor says comes out.
    pub outputs: Vec<Vec<Dyadic>>,
}

impl Samples {
    fn push(&mut self, numbers: Vec<Dyadic>, results: Vec<Dyadic>) {
        self.inputs.push(numbers);
        self.outputs.push(results);
    }
}

/// The samples that the settings ask for; random ones fill the fields of the input port.
///
/// # Errors
/// `Q1183` for a file of inputs that cannot be read or does not fit, or an input on which the
/// program fails; `Q1184` when no random input is legal.
pub(crate) fn samples(
    fields: &[Field],
    pipeline: &Pipeline,
    ports: &[Port],
    settings: &Settings,
) -> Result<Samples> {
    let mut executors = pipeline.stages.iter().map(Executor::new).collect::<Result<Vec<_>>>()?;
    match &settings.inputs {
        Some(file) => given(&mut executors, &read_samples(file, ports)?),
        None => random(fields, &mut executors, settings.vectors),
    }
}

fn given(executors: &mut [Executor], samples: &[Vec<f64>]) -> Result<Samples> {
    let mut vectors = Samples::default();
    for (sample, numbers) in samples.iter().enumerate() {
        let exact = |&value: &f64| Dyadic::from_f64(value);
        let numbers: Option<Vec<Dyadic>> = numbers.iter().map(exact).collect();
        let fail = |what: String| {
            Diagnostic::invalid("Q1183", format!("sample {sample} of the inputs {what}"))
        };
        let numbers =
            numbers.ok_or_else(|| fail("holds a number that is not finite".to_owned()))?;
        match run(executors, &numbers)? {
            Some(results) => vectors.push(numbers, results),
            None => return Err(fail("makes a value leave its type".to_owned())),
        }
    }
    Ok(vectors)
}

/// Random bits on the input port.
fn random(fields: &[Field], executors: &mut [Executor], count: usize) -> Result<Samples> {
    let mut state = 0x7a11_5eed_u64;
    let mut vectors = Samples::default();
    for _ in 0..count.saturating_mul(TRIES) {
        let number = |field: &Field| field.of_bits(&random_bits(&mut state, field));
        let numbers: Vec<Dyadic> = fields.iter().map(number).collect();
        let before: Vec<_> = executors.iter_mut().map(|e| e.registers_mut().clone()).collect();
        // A lookup outside its table has no result.
        match run(executors, &numbers) {
            Ok(Some(results)) => vectors.push(numbers, results),
            // The next one takes its place.
            _ => {
                executors.iter_mut().zip(before).for_each(|(e, before)| *e.registers_mut() = before)
            }
        }
        if vectors.inputs.len() == count {
            break;
        }
    }
    if vectors.inputs.is_empty() {
        let message = "every random input makes a value of the program leave its type or table";
        return Err(Diagnostic::unsupported("Q1184", message)
            .help("give legal inputs with --set rtl-inputs=FILE.npy"));
    }
    Ok(vectors)
}

/// Bits for a field: random ones, now and then all equal or those of 1.
fn random_bits(state: &mut u64, field: &Field) -> Int {
    match next(state) % 16 {
        0 => Int::ZERO,
        1 => -Int::ONE,
        2 => Int::ONE,
        _ => (0..=field.width() / 64)
            .fold(Int::ZERO, |bits, _| (bits << 64) + Int::from(next(state))),
    }
}

/// A generator of numbers (splitmix64).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The exact results of all stages; `None` when a value does not fit its type.
fn run(executors: &mut [Executor], numbers: &[Dyadic]) -> Result<Option<Vec<Dyadic>>> {
    let (mut values, mut fits) = (numbers.to_vec(), true);
    for executor in executors {
        values = executor
            .run_exact(values, &mut |_, operation, value| fits &= !overflows(operation, value))?;
    }
    Ok(fits.then_some(values))
}

/// The samples of a file: one array for the only input, or one per input by name.
fn read_samples(file: &str, ports: &[Port]) -> Result<Vec<Vec<f64>>> {
    let fail = |what: String| Diagnostic::invalid("Q1183", what).in_file(file);
    let bytes = std::fs::read(file)
        .map_err(|error| Diagnostic::system("Q1183", "read it", &error).in_file(file))?;
    let arrays: Tensors = if bytes.starts_with(b"PK") {
        npy::read_npz(bytes).map_err(|problem| problem.name_file(file))?
    } else {
        let array = npy::read_npy(bytes).map_err(|problem| problem.name_file(file))?;
        let [port] = ports else {
            let message = format!("it is one array, the program has {} inputs", ports.len());
            return Err(fail(message).help("give an .npz file with an array per input"));
        };
        Tensors::from([(port.name.clone(), array)])
    };
    let mut samples: Vec<Vec<f64>> = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let array = arrays
            .get(&port.name)
            .ok_or_else(|| fail(format!("it has no array named {:?}", port.name)))?;
        let rows = split(array, port)
            .ok_or_else(|| fail(format!("the array for {:?} has another shape", port.name)))?;
        if index == 0 {
            samples = vec![Vec::new(); rows.len()];
        }
        if rows.len() != samples.len() || rows.is_empty() {
            return Err(fail(format!("the array for {:?} has {} samples", port.name, rows.len())));
        }
        for (sample, row) in samples.iter_mut().zip(rows) {
            sample.extend(encode(port, &Tensor::from_vec(&port.shape, row)?)?);
        }
    }
    Ok(samples)
}

/// Rows of an array whose first axis counts samples.
fn split(array: &Tensor, port: &Port) -> Option<Vec<Vec<f64>>> {
    let (&samples, _) = array.shape().split_first()?;
    let size = element_count(&port.shape)?;
    let values = array.to_f64();
    if samples.checked_mul(size)? != values.len() || samples > super::settings::MAX_VECTORS {
        return None;
    }
    Some((0..samples).map(|row| values[row * size..(row + 1) * size].to_vec()).collect())
}
