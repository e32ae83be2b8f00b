//! Inputs and outputs of programs: the tensors that lines move from and to DRAM, or DRAM as bytes.
//!
//! Ours. A file says where its tensors lie in DRAM, and their shapes and formats; it has no names.
//! A tensor is named after its base register and address: `dram0_65536`. Weights have three ports:
//! `dram1_0_w` (`[K, C, R, S]` codes), and `_a` and `_b` (`[K]`, the factor and offset of the sum).

#![deny(clippy::arithmetic_side_effects)]

use crate::arch::NpuArch;
use crate::isa::DataFmt;
use crate::replay::Node;
use crate::simulate::State;
use crate::work::{
    Access, Copy, Memory, PARAMETER_BYTES, Resolved, WeightSource, Weights, Work, accesses,
    element_bytes, pitch,
};
use quincunx_contract::{Grid, Interface, Port};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::Quantiser;
use quincunx_graph::execute::given;
use quincunx_num::{F16, FloatOverflow};
use quincunx_tensor::{Tensor, Tensors, element_count};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::num::Saturating;

mod taps;
mod view;

pub(crate) use taps::{Part, Tap, Taps};
pub(crate) use view::{Loop, View, places};

/// Elements that the ports of a run may have together.
const MAX_ELEMENTS: usize = 1 << 26;

/// A tensor of the batch in DRAM with a name: an input or output of a compiled program. Its
/// elements are dense, channels innermost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedTensor {
    /// Name of the value.
    pub name: String,
    /// An output; otherwise an input.
    pub output: bool,
    /// DRAM base, 0 to 2.
    pub base: u8,
    /// First byte behind the base.
    pub address: u32,
    /// Images, channels, rows and columns.
    pub extents: [u32; 4],
    /// `int8` or `fp16`.
    pub format: String,
    /// Extents and distances of the loops that go through its numbers in the order of the port, the
    /// outermost first; empty where that order is images, channels, rows, columns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub view: Vec<(u64, u64)>,
}

impl NamedTensor {
    /// The name of a format.
    pub(crate) fn format_name(format: DataFmt) -> &'static str {
        if format == DataFmt::FP16 { "fp16" } else { "int8" }
    }

    /// The format with a name.
    pub(crate) fn format_of(name: &str) -> Option<DataFmt> {
        [DataFmt::INT8, DataFmt::FP16].into_iter().find(|&f| NamedTensor::format_name(f) == name)
    }

    /// Bytes in DRAM.
    pub(crate) fn bytes(&self) -> u64 {
        let bytes = NamedTensor::format_of(&self.format).map_or(1, element_bytes);
        let elements =
            self.extents.iter().fold(1, |n: u64, &extent| n.saturating_mul(extent.into()));
        elements.saturating_mul(bytes.into())
    }

    /// Where its numbers lie; `None` for one that no program can have.
    fn place(&self) -> Option<Place> {
        let shape = self.extents.map(|extent| extent as usize);
        let count = element_count(&shape).filter(|&count| (1..=MAX_ELEMENTS).contains(&count))?;
        let view = match self.view.is_empty() {
            true => View::image(self.extents),
            false => View::new(&self.view).filter(|view| view.count() == count as u64)?,
        };
        let format = NamedTensor::format_of(&self.format)?;
        (self.base < 3).then_some(Place::Dense(self.base, self.address, format, view))
    }
}

/// Where the numbers of a port lie.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// A tensor of activations.
    Tensor(Copy),
    /// A tensor without gaps: base, first byte, format, and where its numbers lie.
    Dense(u8, u32, DataFmt, View),
    /// Codes of weights.
    Weights(Weights, u8, u32),
    /// Factor (0) or offset (1) of each output channel.
    Parameter(Weights, u8, u32, usize),
    /// Bytes from 0 on.
    Bytes(u8),
}

/// The ports of a program.
#[derive(Clone, Debug, Default)]
pub struct Ports {
    /// Names, shapes and grids.
    pub interface: Interface,
    inputs: Vec<Place>,
    outputs: Vec<Place>,
}

/// Codes of 8 bits are real numbers of this grid.
fn codes(signed: bool) -> Grid {
    Grid::Codes(Quantiser::symmetric(signed, 8, 1.0))
}

/// The grid of a tensor.
fn grid(format: DataFmt) -> Grid {
    if format == DataFmt::INT8 { codes(true) } else { Grid::Real }
}

impl Ports {
    /// The named tensors of a compiled program, with the names, shapes and grids of an interface if
    /// there is one.
    ///
    /// # Errors
    /// `Q4088` for a tensor that no program can have, `Q4081` for an interface of other tensors.
    pub fn named(tensors: &[NamedTensor], interface: Option<Interface>) -> Result<Ports> {
        let mut ports = Ports::default();
        for tensor in tensors {
            let place = tensor.place();
            let format = NamedTensor::format_of(&tensor.format);
            let Some((place, format)) = place.zip(format) else {
                let message = format!("tensor {:?} is none that DRAM can hold", tensor.name);
                return Err(Diagnostic::invalid("Q4088", message));
            };
            let shape = tensor.extents.map(|extent| extent as usize).to_vec();
            let port = Port { name: tensor.name.clone(), shape, grid: grid(format) };
            ports.push(tensor.output, port, place);
        }
        let Some(wanted) = interface else { return Ok(ports) };
        let same = |own: &[Port], wanted: &[Port]| {
            let fits = |(own, wanted): (&Port, &Port)| {
                own.name == wanted.name && element_count(&own.shape) == element_count(&wanted.shape)
            };
            own.len() == wanted.len() && own.iter().zip(wanted).all(fits)
        };
        let own = &ports.interface;
        if !same(&own.inputs, &wanted.inputs) || !same(&own.outputs, &wanted.outputs) {
            let message = "the interface is not that of the tensors the program names";
            return Err(Diagnostic::invalid("Q4081", message));
        }
        ports.interface = wanted;
        Ok(ports)
    }

    /// Every tensor that is loaded before it is stored, and every tensor that is stored.
    pub fn tensors(work: &[Vec<Resolved>], order: &[Node]) -> Ports {
        let mut ports = Ports::default();
        let mut stored: BTreeSet<(u8, u32)> = BTreeSet::new();
        for node in order {
            match &work[node.core][node.line] {
                Ok(Work::Copy(copy)) => {
                    let place = (copy.bas, copy.dram);
                    // What the program stored itself does not come from outside.
                    let is_port = !copy.load || !stored.contains(&place);
                    if !copy.load {
                        stored.insert(place);
                    }
                    if is_port {
                        ports.tensor(copy, *node);
                    }
                }
                Ok(Work::Weights(weights)) => {
                    if let WeightSource::Dram { bas, address } = weights.source {
                        ports.weights(weights, bas, address, *node);
                    }
                }
                _ => {}
            }
        }
        ports
    }

    /// DRAM as bytes: what is read, and what is written.
    ///
    /// # Errors
    /// `Q4062` when that is too much.
    pub fn bytes(work: &[Vec<Resolved>], arch: &NpuArch) -> Result<Ports> {
        let mut ends: BTreeMap<(bool, u8), i64> = BTreeMap::new();
        for work in work.iter().flatten().flatten() {
            for Access { memory, span, write, .. } in accesses(work, arch) {
                if let Memory::Dram(bas) = memory {
                    let end = ends.entry((write, bas)).or_default();
                    *end = span.end.max(*end);
                }
            }
        }
        let mut ports = Ports::default();
        for ((write, bas), end) in ends {
            let count = usize::try_from(end).unwrap_or(usize::MAX);
            if count > MAX_ELEMENTS {
                return Err(too_large(count));
            }
            let grid = codes(false);
            let port = Port { name: format!("dram{bas}"), shape: vec![count], grid };
            ports.push(write, port, Place::Bytes(bas));
        }
        Ok(ports)
    }

    fn push(&mut self, output: bool, port: Port, place: Place) {
        match output {
            true => {
                self.interface.outputs.push(port);
                self.outputs.push(place);
            }
            false => {
                self.interface.inputs.push(port);
                self.inputs.push(place);
            }
        }
    }

    /// A name that is free among the inputs or outputs; `None` when the place has a port.
    fn name(&self, output: bool, stem: String, place: &Place, node: Node) -> Option<String> {
        let (ports, places) = match output {
            true => (&self.interface.outputs, &self.outputs),
            false => (&self.interface.inputs, &self.inputs),
        };
        let taken = |name: &str| ports.iter().position(|port| port.name == name);
        match taken(&stem) {
            None => Some(stem),
            Some(index) if same_tensor(&places[index], place) => None,
            Some(_) => Some(format!("{stem}_core{}_line{}", node.core, node.number())),
        }
    }

    fn tensor(&mut self, copy: &Copy, node: Node) {
        let place = Place::Tensor(*copy);
        let stem = format!("dram{}_{}", copy.bas, copy.dram);
        let Some(name) = self.name(!copy.load, stem, &place, node) else { return };
        let [c, h, w] = copy.tile.map(|extent| extent as usize);
        let shape = vec![copy.images as usize, c, h, w];
        let port = Port { name, shape, grid: grid(copy.format) };
        self.push(!copy.load, port, place);
    }

    fn weights(&mut self, weights: &Weights, bas: u8, address: u32, node: Node) {
        let place = Place::Weights(*weights, bas, address);
        let stem = format!("dram{bas}_{address}_w");
        let Some(name) = self.name(false, stem, &place, node) else { return };
        let stem = name.trim_end_matches("_w").to_owned();
        let [c, r, s] = weights.row.map(|extent| extent as usize);
        let k = weights.channels as usize;
        let port = Port { name, shape: vec![k, c, r, s], grid: grid(weights.format) };
        self.push(false, port, place);
        for (index, part) in ["a", "b"].into_iter().enumerate() {
            let port = Port { name: format!("{stem}_{part}"), shape: vec![k], grid: Grid::Real };
            self.push(false, port, Place::Parameter(*weights, bas, address, index));
        }
    }

    /// Writes every input into DRAM.
    ///
    /// # Errors
    /// `Q0310` for an input that is not given, `Q4062` for too much data, whatever
    /// [`Port::encode`] says.
    pub fn write(&self, inputs: &Tensors, state: &mut State) -> Result<()> {
        check_size(&self.interface)?;
        for (port, place) in self.interface.inputs.iter().zip(&self.inputs) {
            let numbers = codes_of(port, place, port.encode(given(inputs, &port.name)?)?);
            each(place, numbers.len(), |element, at, kind| {
                let mut code = [0; 4];
                let bytes = kind.encode(numbers[element], &mut code);
                state.dram[usize::from(at.0)].write(at.1, &code[..bytes])
            })?;
        }
        Ok(())
    }

    /// Reads every output from DRAM.
    ///
    /// # Errors
    /// None that [`Ports::write`] does not find first.
    pub fn read(&self, state: &State) -> Result<Tensors> {
        let mut outputs = Tensors::new();
        for (port, place) in self.interface.outputs.iter().zip(&self.outputs) {
            let mut numbers = vec![0.0; element_count(&port.shape).unwrap_or(0)];
            let count = numbers.len();
            each(place, count, |element, at, kind| {
                let mut code = [0; 4];
                let bytes = kind.bytes();
                state.dram[usize::from(at.0)].read(at.1, &mut code[..bytes]);
                numbers[element] = kind.decode(&code[..bytes]);
                Ok(())
            })?;
            let reals = reals_of(port, place, numbers);
            outputs.insert(port.name.clone(), Tensor::from_vec(&port.shape, reals)?);
        }
        Ok(outputs)
    }
}

/// The scale of a port's codes, and the code of 0 as the machine holds it: tensors have signed codes,
/// unsigned ones less 128.
fn scale_of(port: &Port, place: &Place) -> Option<(f64, f64)> {
    let quantiser = port.grid.quantiser()?;
    let [scalar] = quantiser.scalars(&[])?[..] else { return None };
    let shift = if scalar.signed || matches!(place, Place::Bytes(_)) { 0 } else { 128 };
    Some((scalar.scale, f64::from(scalar.zero as i32) - f64::from(shift)))
}

/// Codes of numbers on the port's grid.
fn codes_of(port: &Port, place: &Place, mut reals: Vec<f64>) -> Vec<f64> {
    if let Some((scale, zero)) = scale_of(port, place) {
        reals.iter_mut().for_each(|real| *real = (*real / scale).round() + zero);
    }
    reals
}

/// Numbers of codes.
fn reals_of(port: &Port, place: &Place, mut codes: Vec<f64>) -> Vec<f64> {
    if let Some((scale, zero)) = scale_of(port, place) {
        codes.iter_mut().for_each(|code| *code = (*code - zero) * scale);
    }
    codes
}

fn too_large(count: usize) -> Diagnostic {
    let message = format!("the ports have {count} elements, at most {MAX_ELEMENTS} are simulated");
    Diagnostic::unsupported("Q4062", message)
}

fn check_size(interface: &Interface) -> Result<()> {
    let ports = interface.inputs.iter().chain(&interface.outputs);
    let count = ports.fold(0_usize, |sum, port| {
        sum.saturating_add(element_count(&port.shape).unwrap_or(usize::MAX))
    });
    if count > MAX_ELEMENTS { Err(too_large(count)) } else { Ok(()) }
}

/// Whether two places hold the same numbers in the same way.
fn same_tensor(a: &Place, b: &Place) -> bool {
    match (a, b) {
        (Place::Tensor(a), Place::Tensor(b)) => {
            (a.dense, a.format, a.images, a.tile, a.dram_tensor)
                == (b.dense, b.format, b.images, b.tile, b.dram_tensor)
        }
        (Place::Weights(a, ..), Place::Weights(b, ..)) => {
            (a.format, a.source_row, a.channels, a.row)
                == (b.format, b.source_row, b.channels, b.row)
        }
        _ => a == b,
    }
}

/// How a number of a port is stored.
#[derive(Clone, Copy)]
enum Code {
    Signed,
    Unsigned,
    Half,
    Single,
}

impl Code {
    fn of(format: DataFmt) -> Code {
        if format == DataFmt::FP16 { Code::Half } else { Code::Signed }
    }

    fn bytes(self) -> usize {
        match self {
            Code::Signed | Code::Unsigned => 1,
            Code::Half => 2,
            Code::Single => 4,
        }
    }

    fn encode(self, value: f64, code: &mut [u8; 4]) -> usize {
        match self {
            // The driver has moved the numbers onto the grid.
            Code::Signed => code[0] = value as i8 as u8,
            Code::Unsigned => code[0] = value as u8,
            Code::Half => {
                let half = F16::from_f64(value, FloatOverflow::Infinity).map_or(0, F16::to_bits);
                code[..2].copy_from_slice(&(half as u16).to_le_bytes());
            }
            Code::Single => *code = (value as f32).to_le_bytes(),
        }
        self.bytes()
    }

    fn decode(self, code: &[u8]) -> f64 {
        match (self, code) {
            (Code::Signed, &[a]) => f64::from(a as i8),
            (Code::Unsigned, &[a]) => f64::from(a),
            (Code::Half, &[a, b]) => F16::from_bits(u16::from_le_bytes([a, b]).into()).to_f64(),
            (Code::Single, &[a, b, c, d]) => f64::from(f32::from_le_bytes([a, b, c, d])),
            _ => 0.0,
        }
    }
}

/// Calls `visit` with every element of a port, its base and byte in DRAM, and its code.
fn each(
    place: &Place,
    count: usize,
    mut visit: impl FnMut(usize, (u8, u64), Code) -> Result<()>,
) -> Result<()> {
    match *place {
        Place::Bytes(bas) => {
            for index in 0..count {
                visit(index, (bas, index as u64), Code::Unsigned)?;
            }
        }
        Place::Tensor(copy) => {
            let bytes = element_bytes(copy.format);
            let [c, h, w] = copy.tile;
            let [_, height, width] = copy.dram_tensor;
            let [pixel, height, width, bytes, first] =
                [copy.dram_pixel(), height, width, bytes, copy.dram].map(whole);
            for (element, [image, channel, y, x]) in positions([copy.images, c, h, w]) {
                let at = first + ((image * height + y) * width + x) * pixel + channel * bytes;
                visit(element, (copy.bas, at.0), Code::of(copy.format))?;
            }
        }
        Place::Dense(bas, address, format, view) => {
            let [first, bytes] = [address, element_bytes(format)].map(whole);
            for (element, place) in view.places().enumerate() {
                visit(element, (bas, (first + Saturating(place) * bytes).0), Code::of(format))?;
            }
        }
        Place::Weights(weights, bas, address) => {
            let bytes = element_bytes(weights.format);
            let row = Saturating(weights.dense_row());
            let [channels, _, columns] = weights.source_row;
            let [pixel, columns, bytes, first] =
                [pitch(channels, bytes), columns, bytes, address].map(whole);
            let [c, r, s] = weights.row;
            for (element, [k, channel, y, x]) in positions([weights.channels, c, r, s]) {
                let at = first + k * row + (y * columns + x) * pixel + channel * bytes;
                visit(element, (bas, at.0), Code::of(weights.format))?;
            }
        }
        Place::Parameter(weights, bas, address, index) => {
            let row = Saturating(weights.dense_row());
            // Parameters stand behind the weights of their channel.
            let inside =
                row - Saturating(PARAMETER_BYTES) + Saturating(4) * Saturating(index as u64);
            for (element, [k, ..]) in positions([weights.channels, 1, 1, 1]) {
                visit(element, (bas, (whole(address) + k * row + inside).0), Code::Single)?;
            }
        }
    }
    Ok(())
}

fn whole(number: u32) -> Saturating<u64> {
    Saturating(number.into())
}

/// Every index of a tensor in row-major order, numbered from 0.
fn positions([n, c, h, w]: [u32; 4]) -> impl Iterator<Item = (usize, [Saturating<u64>; 4])> {
    let planes = (0..n).flat_map(move |n| (0..c).map(move |c| (n, c)));
    let rows = planes.flat_map(move |(n, c)| (0..h).map(move |y| (n, c, y)));
    rows.flat_map(move |(n, c, y)| (0..w).map(move |x| [n, c, y, x].map(whole))).enumerate()
}
