//! Ports of a program of launches: its buffers. Numbers cross them as real numbers.

use super::{decode, encode, whole};
use crate::program::Element;
use crate::program::device::{Buffer, Device, Role};
use quincunx_contract::{Grid, Interface, LayerTap, Port, Sample, Section};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Param, Quantiser, Scalar};
use quincunx_tensor::{DType, Tensor, element_count};
use std::collections::BTreeMap;

/// The interface that a program has without one of its own.
pub(crate) fn interface(device: &Device) -> Interface {
    let of = |role: Role| device.buffers.iter().filter(move |buffer| buffer.role == role);
    let mut interface = Interface {
        inputs: of(Role::Input).map(port).collect(),
        outputs: of(Role::Output).map(port).collect(),
        ..Interface::default()
    };
    let mut runs: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (at, launch) in device.launches.iter().enumerate() {
        if let Some(layer) = &launch.layer {
            runs.entry(layer).or_insert((at, at)).1 = at;
        }
    }
    let shapes: BTreeMap<&str, &[usize]> =
        device.buffers.iter().map(|buffer| (buffer.name.as_str(), &buffer.shape[..])).collect();
    for layer in &device.layers {
        let Some(&(first, after)) = runs.get(layer.name.as_str()) else { continue };
        interface.sections.push(Section {
            name: layer.name.clone(),
            nodes: layer.nodes.clone(),
            first,
            macs: layer.macs,
            ..Section::default()
        });
        for (value, name) in &layer.values {
            let shape = shapes.get(name.as_str()).map_or_else(Vec::new, |shape| shape.to_vec());
            let (value, place) = (value.clone(), name.clone());
            interface.layers.push(LayerTap { value, shape, after, place });
        }
    }
    interface
}

fn port(buffer: &Buffer) -> Port {
    Port { name: buffer.name.clone(), shape: buffer.shape.clone(), grid: grid(buffer) }
}

/// The grid of a buffer: that of its type, or of its scale.
pub(crate) fn grid(buffer: &Buffer) -> Grid {
    let float = match buffer.element {
        Element::F => DType::F32,
        Element::Df => DType::F64,
        Element::Hf => DType::F16,
        Element::Bf => DType::BF16,
        Element::Ud | Element::Uw | Element::Ub | Element::Uq => return codes(buffer, false),
        Element::D | Element::W | Element::B | Element::Q => return codes(buffer, true),
    };
    Grid::Float(float)
}

fn codes(buffer: &Buffer, signed: bool) -> Grid {
    let Some((scale, zero)) = buffer.grid else { return Grid::Real };
    let quantiser = Quantiser::symmetric(signed, 8 * buffer.element.bytes(), scale);
    Grid::Codes(Quantiser { zero: Param::uniform(zero), ..quantiser })
}

/// A given interface is one of the program: its ports are those of the program, its taps read
/// buffers.
///
/// # Errors
/// `Q6091` if not.
pub(crate) fn fits(given: &Interface, device: &Device) -> Result<()> {
    let refuse = |message: String| Err(Diagnostic::invalid("Q6091", message));
    let own = interface(device);
    for (given, own) in [(&given.inputs, &own.inputs), (&given.outputs, &own.outputs)] {
        let places = |ports: &[Port]| -> Vec<(String, Vec<usize>)> {
            ports.iter().map(|port| (port.name.clone(), port.shape.clone())).collect()
        };
        if places(given) != places(own) {
            return refuse("the interface has other ports than the program has buffers".to_owned());
        }
        if let Some(port) = given.iter().find(|port| !port.grid.fits(&port.shape)) {
            return refuse(format!("the grid of port \"{}\" does not fit its shape", port.name));
        }
    }
    for tap in &given.layers {
        let buffer = device.buffer(&tap.place);
        let holds = |buffer: &Buffer| element_count(&buffer.shape) == element_count(&tap.shape);
        if !buffer.is_some_and(holds) || tap.after >= device.launches.len() {
            return refuse(format!("the value \"{}\" lies in no buffer of the program", tap.value));
        }
    }
    Ok(())
}

/// Made-up numbers for a port: any words for integers that stand for themselves.
pub(crate) fn sample(port: &Port, buffer: Option<&Buffer>) -> Sample {
    let words = buffer.filter(|_| port.grid == Grid::Real);
    words.map_or(Sample::Fractions, |buffer| {
        // Numbers up to 2^53 cross ports exactly.
        let bits = (8 * buffer.element.bytes()).min(53);
        Sample::Words { keep: (1 << bits) - 1, set: 0 }
    })
}

/// The quantiser of every element, or of all; none where numbers stand for themselves.
fn scalars(grid: &Grid, shape: &[usize]) -> Result<Vec<Scalar>> {
    let Some(quantiser) = grid.quantiser() else { return Ok(Vec::new()) };
    let shape = if quantiser.is_uniform() { &[][..] } else { shape };
    let scalars = quantiser.scalars(shape);
    scalars.ok_or_else(|| Diagnostic::bug("a quantiser does not broadcast to its port"))
}

/// Writes the numbers of an input into the bytes of its buffer.
///
/// # Errors
/// `Q0505` as [`Port::encode`], `Q6092` for a number that the type does not have.
pub(crate) fn store(port: &Port, buffer: &Buffer, tensor: &Tensor, bytes: &mut [u8]) -> Result<()> {
    let numbers = port.encode(tensor)?;
    let scalars = scalars(&port.grid, &port.shape)?;
    let size = buffer.element.bytes() as usize;
    for ((index, number), at) in numbers.iter().enumerate().zip(buffer.places()) {
        let scalar = scalars.get(index).or(scalars.first());
        // The number is on the grid: the quotient is whole but for its own rounding.
        let code = scalar.map_or(*number, |s| (number / s.scale).round() + s.zero as f64);
        let word = encode(buffer.element, code).ok_or_else(|| {
            let (name, kind) = (&port.name, buffer.element.name());
            let message = format!("input \"{name}\" holds {number}, which {kind} cannot hold");
            Diagnostic::invalid("Q6092", message).help_if(whole(buffer.element))
        })?;
        let place = bytes.get_mut(at..at + size);
        let place = place.ok_or_else(|| Diagnostic::bug("a port leaves its buffer"))?;
        place.copy_from_slice(&word.to_le_bytes()[..size]);
    }
    Ok(())
}

/// The number at a byte of a buffer, before its grid; `None` where the buffer is smaller.
pub(crate) fn number(buffer: &Buffer, bytes: &[u8], at: usize) -> Option<f64> {
    let end = at.checked_add(buffer.element.bytes() as usize)?;
    Some(decode(buffer.element, bytes.get(at..end)?))
}

/// The numbers in the bytes of a buffer, as a tensor of a shape with as many elements.
///
/// # Errors
/// An internal error when the buffer is smaller than its value.
pub(crate) fn load(grid: &Grid, shape: &[usize], buffer: &Buffer, bytes: &[u8]) -> Result<Tensor> {
    let scalars = scalars(grid, shape)?;
    let mut numbers = Vec::with_capacity(element_count(shape).unwrap_or(0));
    for (index, at) in buffer.places().enumerate() {
        let code = number(buffer, bytes, at);
        let code = code.ok_or_else(|| Diagnostic::bug("a port leaves its buffer"))?;
        let scalar = scalars.get(index).or(scalars.first());
        numbers.push(scalar.map_or(code, |s| (code - s.zero as f64) * s.scale));
    }
    Tensor::from_vec(shape, numbers)
}
