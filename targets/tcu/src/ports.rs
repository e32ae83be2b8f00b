//! Where the inputs and outputs of a program lie.

pub(crate) mod tensors;

use crate::arch::{DataType, TcuArch};
use crate::files::{Packing, Vectors};
use crate::package::Package;
use crate::program::{Memory, Program};
use quincunx_contract::{Grid, Interface, LayerTap, Port};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Param, Quantiser};
use quincunx_num::{Overflow, Rounding};
use std::collections::BTreeMap;
use tensors::{Columns, Table};

/// Vectors of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) memory: Memory,
    pub(crate) base: u64,
    pub(crate) size: u64,
}

/// Where a port is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lie {
    /// Its vectors.
    pub(crate) pieces: Vec<Piece>,
    /// How its elements lie in them; `None` for vectors as they are.
    pub(crate) table: Option<Table>,
    /// How its elements are packed before.
    pub(crate) packing: Option<Packing>,
}

/// A value of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tap {
    /// Its name.
    pub(crate) value: String,
    /// Its shape.
    pub(crate) shape: Vec<usize>,
    /// The number of instructions after which it is there.
    pub(crate) after: usize,
    /// How its elements lie in vectors.
    pub(crate) table: Table,
    /// Where the vectors are.
    pub(crate) columns: Columns,
}

impl Tap {
    /// True for what is read for this layer of the interface.
    pub(crate) fn is_of(&self, layer: &LayerTap) -> bool {
        self.value == layer.value
            && self.after == layer.after
            && self.columns.to_string() == layer.place
    }

    /// The vector that holds an element, which exists, and its lane.
    pub(crate) fn vector_of(&self, element: usize) -> (Memory, u64, usize) {
        let (position, block, lane) = self.table.place_of(element);
        let column = &self.columns.0[block];
        (column.memory, column.base + position as u64 * column.step, lane)
    }

    /// The vectors from the first to the last of every block of channels.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        let last = (self.table.positions() as u64).saturating_sub(1);
        self.columns.0.iter().map(move |column| {
            let (memory, base) = (column.memory, column.base);
            Piece { memory, base, size: last * column.step + 1 }
        })
    }
}

/// Ports with their places, in the order of the interface.
#[derive(Clone, Debug)]
pub(crate) struct Ports {
    interface: Interface,
    inputs: Vec<Lie>,
    outputs: Vec<Lie>,
    /// Values of layers, in the order of the instructions after which they are there.
    taps: Vec<Tap>,
}

impl Ports {
    pub(crate) fn new(package: &Package, interface: Option<Interface>) -> Result<Ports> {
        let (inputs, outputs) = match &package.model {
            Some(model) => (grouped(&model.inputs), grouped(&model.outputs)),
            None => raw(&package.program),
        };
        let arch = package.arch();
        let ports = |list: &[(String, Vec<Piece>)]| -> Vec<Port> {
            list.iter().map(|(name, pieces)| port(name, pieces, arch)).collect()
        };
        let own =
            Interface { inputs: ports(&inputs), outputs: ports(&outputs), ..Interface::default() };
        let none = BTreeMap::new();
        let packed = package.model.as_ref().map_or(&none, |model| &model.packed);
        let interface = match interface {
            Some(given) => fitting(given, &own, packed, arch)?,
            None => own.clone(),
        };
        let places = |list: Named, given: &[Port], own: &[Port], inputs: bool| -> Vec<Lie> {
            let ports = given.iter().zip(own);
            let lies = list.into_iter().zip(ports).map(|((_, pieces), (given, own))| {
                let raw = given.shape == own.shape;
                let packing = packed.get(&given.name).filter(|p| given.shape == p.shape);
                let packing = packing.filter(|_| inputs).cloned();
                let shape = table_shape(given, packing.as_ref());
                let table = if raw { None } else { Table::new(&shape, arch.lanes()) };
                Lie { pieces, table, packing }
            });
            lies.collect()
        };
        let inputs = places(inputs, &interface.inputs, &own.inputs, true);
        let outputs = places(outputs, &interface.outputs, &own.outputs, false);
        let taps = taps(&interface, package)?;
        crate::program::layers::check(&interface.sections, package.program.steps.len())?;
        Ok(Ports { interface, inputs, outputs, taps })
    }

    /// Values of layers, in the order of the instructions after which they are there.
    pub(crate) fn taps(&self) -> &[Tap] {
        &self.taps
    }

    pub(crate) fn interface(&self) -> &Interface {
        &self.interface
    }

    /// True for an input that is packed.
    pub(crate) fn is_packed(&self, name: &str) -> bool {
        self.inputs().any(|(port, lie)| port.name == name && lie.packing.is_some())
    }

    /// Inputs with their places.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = (&Port, &Lie)> {
        self.interface.inputs.iter().zip(&self.inputs)
    }

    /// Outputs with their places.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = (&Port, &Lie)> {
        self.interface.outputs.iter().zip(&self.outputs)
    }

    /// The pieces in DRAM0 as a description names them.
    pub(crate) fn raw_pieces(&self, inputs: bool) -> Vec<Vectors> {
        let (ports, places) = match inputs {
            true => (&self.interface.inputs, &self.inputs),
            false => (&self.interface.outputs, &self.outputs),
        };
        let pairs = ports.iter().zip(places);
        pairs
            .flat_map(|(port, lie)| lie.pieces.iter().map(move |piece| (port, piece)))
            .filter(|(_, piece)| piece.memory == Memory::Dram0)
            .map(|(port, piece)| Vectors {
                name: port.name.clone(),
                base: piece.base,
                size: piece.size,
            })
            .collect()
    }
}

/// The pieces of every name, in the order in which names come first.
fn grouped(pieces: &[Vectors]) -> Vec<(String, Vec<Piece>)> {
    let mut list: Vec<(String, Vec<Piece>)> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for Vectors { name, base, size } in pieces {
        let piece = Piece { memory: Memory::Dram0, base: *base, size: *size };
        let place = *places.entry(name).or_insert(list.len());
        match list.get_mut(place) {
            Some((_, pieces)) => pieces.push(piece),
            None => list.push((name.clone(), vec![piece])),
        }
    }
    list
}

type Named = Vec<(String, Vec<Piece>)>;

/// Without a description: the DRAM banks, as far as the program reads and writes them.
fn raw(program: &Program) -> (Named, Named) {
    let mut ends = [[0_u64; 2]; 2];
    for step in &program.steps {
        let effects = step.inst.effects(&program.arch);
        for (written, spans) in [&effects.reads, &effects.writes].into_iter().enumerate() {
            for span in spans.iter().filter(|span| (span.memory as usize) < 2) {
                let end = &mut ends[written][span.memory as usize];
                *end = (*end).max(span.last().saturating_add(1));
            }
        }
    }
    let named = |ends: [u64; 2], suffix: &str| {
        let banks = [("dram0", Memory::Dram0), ("dram1", Memory::Dram1)].into_iter().zip(ends);
        banks
            .filter(|&(_, end)| end > 0)
            .map(|((name, memory), size)| {
                (format!("{name}{suffix}"), vec![Piece { memory, base: 0, size }])
            })
            .collect()
    };
    (named(ends[0], ""), named(ends[1], "_out"))
}

/// The grid of a machine's numbers; `None` for floats.
pub(crate) fn grid(data_type: DataType) -> Grid {
    let quantiser = |point| Quantiser {
        signed: Param::uniform(true),
        width: Param::uniform(data_type.width()),
        scale: Param::uniform(1.0 / f64::from(1_u32 << point)),
        zero: Param::uniform(0),
        // As upstream's tools encode constants.
        rounding: Param::uniform(Rounding::HalfCeil),
        overflow: Param::uniform(Overflow::Saturate),
    };
    data_type.binary_point().map_or(Grid::Real, |point| Grid::Codes(quantiser(point)))
}

/// `[vectors, lanes]` on the grid of the machine.
fn port(name: &str, pieces: &[Piece], arch: &TcuArch) -> Port {
    let vectors: u64 = pieces.iter().fold(0, |sum, piece| sum.saturating_add(piece.size));
    let grid = grid(arch.data_type);
    let shape = vec![usize::try_from(vectors).unwrap_or(usize::MAX), arch.lanes()];
    Port { name: name.to_owned(), shape, grid }
}

/// The shape in which a port lies in vectors.
fn table_shape(port: &Port, packing: Option<&Packing>) -> Vec<usize> {
    let packed = packing.and_then(|packing| packing.packed_shape().ok());
    packed.map_or_else(|| port.shape.clone(), |shape| shape.to_vec())
}

/// An interface from elsewhere must have the ports of the program: in shapes of as many elements, or
/// in shapes that fill as many vectors.
fn fitting(
    given: Interface,
    own: &Interface,
    packed: &BTreeMap<String, Packing>,
    arch: &TcuArch,
) -> Result<Interface> {
    let misfit = |what: String| {
        let message = format!("the interface does not fit the program: {what}");
        Err(Diagnostic::invalid("Q3073", message))
    };
    for (kind, given, own) in
        [("input", &given.inputs, &own.inputs), ("output", &given.outputs, &own.outputs)]
    {
        if given.len() != own.len() {
            return misfit(format!("{} {kind}s, expected {}", given.len(), own.len()));
        }
        for (given, own) in given.iter().zip(own) {
            let packing = packed.get(&given.name).filter(|_| kind == "input");
            let packing = packing.filter(|packing| given.shape == packing.shape);
            let shape = table_shape(given, packing);
            let vectors = Table::new(&shape, arch.lanes()).map(|table| table.vectors());
            let fills = given.shape == own.shape || vectors == Some(own.shape[0] as u64);
            if given.name != own.name || !fills || given.grid != own.grid {
                return misfit(format!("{kind} {:?} is not {:?} of it", given.name, own.name));
            }
        }
    }
    Ok(given)
}

/// The values of layers of an interface.
fn taps(interface: &Interface, package: &Package) -> Result<Vec<Tap>> {
    let (arch, instructions) = (package.arch(), package.program.steps.len());
    let tap = |layer: &LayerTap| {
        let misfit = |what: &str| {
            let message = format!("layer {:?} {what}", layer.value);
            Diagnostic::invalid("Q3073", message)
        };
        let table = Table::new(&layer.shape, arch.lanes());
        let table = table.ok_or_else(|| misfit("has no such shape"))?;
        let columns = Columns::parse(&layer.place, table.positions(), arch)?;
        if columns.0.len() != table.blocks() || layer.after > instructions {
            return Err(misfit("does not fit the program"));
        }
        let (value, shape) = (layer.value.clone(), layer.shape.clone());
        Ok(Tap { value, shape, after: layer.after, table, columns })
    };
    let mut taps = interface.layers.iter().map(tap).collect::<Result<Vec<Tap>>>()?;
    taps.sort_by_key(|tap| tap.after);
    Ok(taps)
}
