//! Numbers at the ports of an artifact: what the driver makes of tensors, and of the program's
//! results.

use crate::program::{Output, Pipeline};
use crate::tap::Place;
use quincunx_contract::{Grid, Interface, Port, Scale, Scaling};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::Scalar;
use quincunx_graph::execute::given;
use quincunx_num::{Dyadic, Rounding, round_ratio};
use quincunx_tensor::{Tensor, Tensors, element_count};
use std::borrow::Cow;

/// Numbers of inputs of the first and outputs of the last stage, registers aside.
pub(crate) fn ends(pipeline: &Pipeline) -> (usize, usize) {
    let inputs = pipeline.stages.first().map_or(0, |stage| stage.ends().0);
    let outputs = pipeline.stages.last().map_or(0, |stage| stage.ends().1);
    (inputs, outputs)
}

/// The number of elements of all ports.
pub(crate) fn elements(ports: &[Port]) -> Option<usize> {
    ports.iter().try_fold(0_usize, |sum, port| sum.checked_add(element_count(&port.shape)?))
}

/// The interface of a program that has no names for its ports.
pub(crate) fn raw_interface(pipeline: &Pipeline) -> Interface {
    let (inputs, outputs) = ends(pipeline);
    let port =
        |name: &str, count| Port { name: name.to_owned(), shape: vec![count], grid: Grid::Real };
    Interface {
        inputs: vec![port("in", inputs)],
        outputs: vec![port("out", outputs)],
        ..Interface::default()
    }
}

/// An interface with what its texts mean.
#[derive(Debug)]
pub(crate) struct Ports {
    pub(crate) interface: Interface,
    /// Where the numbers of every layer are.
    pub(crate) taps: Vec<Vec<Place>>,
    /// What the driver makes of every output.
    scales: Vec<Option<Scale>>,
}

impl Ports {
    /// # Errors
    /// `Q1123` for malformed places and scalings, `Q1125` for a scaling of no output.
    pub(crate) fn new(interface: Interface) -> Result<Ports> {
        let taps = interface.layers.iter().map(|layer| Place::parse_list(&layer.place));
        let (taps, scales) = (taps.collect::<Result<_>>()?, output_scales(&interface)?);
        Ok(Ports { interface, taps, scales })
    }

    /// The numbers of all inputs, on the grids of their ports.
    pub(crate) fn numbers(&self, inputs: &Tensors) -> Result<Vec<f64>> {
        let mut numbers = Vec::new();
        for port in &self.interface.inputs {
            numbers.extend(encode(port, given(inputs, &port.name)?)?);
        }
        Ok(numbers)
    }

    /// The tensors of the output ports, whose numbers follow one another, and which the driver may
    /// scale, starting from the exact numbers.
    pub(crate) fn split(
        &self,
        mut results: &[f64],
        mut exact: impl Iterator<Item = Dyadic>,
    ) -> Result<Tensors> {
        let mut outputs = Tensors::new();
        for (port, scale) in self.interface.outputs.iter().zip(&self.scales) {
            let count = element_count(&port.shape).expect("the outputs were counted");
            let (own, others) = results.split_at(count);
            let own_exact = exact.by_ref().take(own.len());
            let reals = match scale {
                Some(scale) => scale.apply(own_exact),
                None => {
                    own_exact.for_each(drop);
                    own.to_vec()
                }
            };
            outputs.insert(port.name.clone(), Tensor::from_vec(&port.shape, reals)?);
            results = others;
        }
        Ok(outputs)
    }

    /// [`Ports::numbers`] of images that lie stacked, image after image; `None` where they are refused.
    /// Real numbers of an only input are not copied.
    pub(crate) fn stacked_numbers<'t>(
        &self,
        inputs: &'t Tensors,
        images: usize,
    ) -> Option<Cow<'t, [f64]>> {
        if let [port] = &self.interface.inputs[..]
            && port.grid == Grid::Real
        {
            let tensor = inputs.get(&port.name)?;
            let fits = Some(tensor.len()) == element_count(&stacked(port, images).shape);
            let port = Port { shape: tensor.shape().to_vec(), ..port.clone() };
            return port.finite(tensor).ok().filter(|_| fits);
        }
        let encoded = |port: &Port| {
            let port = stacked(port, images);
            let tensor = inputs.get(&port.name)?.reshape(&port.shape).ok()?;
            encode(&port, &tensor).ok()
        };
        let ports = self.interface.inputs.iter().map(encoded);
        let mut ports = ports.collect::<Option<Vec<Vec<f64>>>>()?;
        if ports.len() == 1 {
            return ports.pop().map(Cow::Owned);
        }
        let image = |image: usize| {
            ports.iter().flat_map(move |numbers| {
                let count = numbers.len() / images;
                &numbers[image * count..][..count]
            })
        };
        Some(Cow::Owned((0..images).flat_map(image).copied().collect()))
    }

    /// [`Ports::split`] of images, whose outputs are stacked; `None` where the driver scales any.
    pub(crate) fn split_stacked(&self, results: Vec<f64>, images: usize) -> Option<Tensors> {
        if self.scales.iter().any(Option::is_some) {
            return None;
        }
        let ports = &self.interface.outputs;
        let mut outputs = Tensors::new();
        if let [port] = &ports[..] {
            let stack = Tensor::from_vec(&stacked(port, images).shape, results).ok()?;
            outputs.insert(port.name.clone(), stack);
            return Some(outputs);
        }
        let (width, mut start) = (results.len() / images, 0);
        if width == 0 {
            return None;
        }
        for port in ports {
            let count = element_count(&port.shape)?;
            let own = results.chunks(width).flat_map(|row| &row[start..][..count]);
            let stack = Tensor::from_vec(&stacked(port, images).shape, own.copied().collect());
            outputs.insert(port.name.clone(), stack.ok()?);
            start += count;
        }
        Some(outputs)
    }

    /// The outputs of a program that the driver scales.
    pub(crate) fn scaled<'a>(&self, pipeline: &'a Pipeline) -> Vec<&'a Output> {
        let mut outputs = pipeline.stages.last().map_or(&[][..], |stage| &stage.outputs);
        let mut scaled = Vec::new();
        for (port, scale) in self.interface.outputs.iter().zip(&self.scales) {
            let count = element_count(&port.shape).expect("the outputs were counted");
            let (own, others) = outputs.split_at(count);
            scaled.extend(own.iter().filter(|_| scale.is_some()));
            outputs = others;
        }
        scaled
    }
}

/// A port for so many images.
fn stacked(port: &Port, images: usize) -> Port {
    let shape = [images].iter().chain(&port.shape).copied().collect();
    Port { shape, ..port.clone() }
}

fn output_scales(interface: &Interface) -> Result<Vec<Option<Scale>>> {
    let names = || interface.outputs.iter().map(|port| port.name.as_str());
    if let Some(unknown) = interface.scalings.iter().find(|s| names().all(|n| n != s.output)) {
        let name = unknown.output.escape_debug();
        let message = format!("the interface scales \"{name}\", which is not an output");
        return Err(Diagnostic::invalid("Q1125", message));
    }
    let scale = |port: &Port| {
        let scaling = interface.scalings.iter().find(|scaling| scaling.output == port.name);
        let elements = element_count(&port.shape).unwrap_or(0);
        scaling.map(|scaling| Scale::parse(scaling, elements, "Q1123")).transpose()
    };
    interface.outputs.iter().map(scale).collect()
}

/// What the driver makes of outputs, in words: a line for each that it scales, or for each of its
/// elements.
pub(crate) fn scaling_lines(interface: &Interface) -> Vec<String> {
    let lines = |scaling: &Scaling| {
        let Scaling { output, factors, addends } = scaling;
        let count = factors.len().max(addends.len());
        let line = |index: usize| {
            let place = if count > 1 { format!("[{index}]") } else { String::new() };
            let at = |list: &[String]| list.get(index).or(list.first()).cloned();
            let factor = at(factors).unwrap_or_default();
            let addend = at(addends).filter(|addend| addend != "0");
            let addend = addend.map(|addend| format!(", plus {addend}")).unwrap_or_default();
            format!("{}{place} is {factor} times what is computed{addend}", output.escape_debug())
        };
        (0..count).map(line).collect::<Vec<_>>()
    };
    interface.scalings.iter().flat_map(lines).collect()
}

/// Native files do not hold what the driver makes of outputs.
///
/// # Errors
/// `Q1131` when there is something.
pub(crate) fn expect_unscaled(interface: &Interface, kind: &str) -> Result<()> {
    let Some(line) = scaling_lines(interface).into_iter().next() else { return Ok(()) };
    let message = format!("files of kind {kind} cannot say that output {line}");
    Err(Diagnostic::unsupported("Q1131", message).help(
        "compile with --exact-outputs, or write a folder, whose program.json has the scales; kinds \
         asm, verilog and vhdl state them",
    ))
}

/// What the driver hands to the program for an input: real numbers on a grid of binary fractions,
/// whole numbers of steps on any other grid.
pub(crate) fn encode(port: &Port, tensor: &Tensor) -> Result<Vec<f64>> {
    let reals = port.encode(tensor)?;
    let Some(quantiser) = port.grid.quantiser().filter(|q| !q.is_fixed_point()) else {
        return Ok(reals);
    };
    let scalars = quantiser.scalars(&port.shape).expect("the port was encoded with it");
    let steps = |(&real, scalar): (&f64, &Scalar)| {
        let steps = Dyadic::from_f64(real).unwrap_or(Dyadic::ZERO).to_ratio() / scalar.ratio();
        // A real number of a long code is rounded to an f64; its step is near.
        Dyadic::new(round_ratio(&steps, Rounding::HalfEven), 0).to_f64()
    };
    Ok(reals.iter().zip(&scalars).map(steps).collect())
}
