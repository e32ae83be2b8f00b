//! Where the inputs and outputs of a program lie.

use crate::arch::TcuArch;
use crate::files::Vectors;
use crate::package::Package;
use crate::program::{Memory, Program};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Param, Quantiser};
use quincunx_num::{Overflow, Rounding};
use quincunx_target::{Interface, Port};
use quincunx_tensor::element_count;

/// Vectors of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) memory: Memory,
    pub(crate) base: u64,
    pub(crate) size: u64,
}

/// Ports with their places, in the order of the interface.
#[derive(Clone, Debug)]
pub(crate) struct Ports {
    interface: Interface,
    inputs: Vec<Vec<Piece>>,
    outputs: Vec<Vec<Piece>>,
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
            Interface { inputs: ports(&inputs), outputs: ports(&outputs), layers: Vec::new() };
        let interface = match interface {
            Some(given) => fitting(given, &own)?,
            None => own,
        };
        let places = |list: Vec<(String, Vec<Piece>)>| list.into_iter().map(|(_, p)| p).collect();
        Ok(Ports { interface, inputs: places(inputs), outputs: places(outputs) })
    }

    pub(crate) fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Inputs with their places.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = (&Port, &[Piece])> {
        self.interface.inputs.iter().zip(self.inputs.iter().map(Vec::as_slice))
    }

    /// Outputs with their places.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = (&Port, &[Piece])> {
        self.interface.outputs.iter().zip(self.outputs.iter().map(Vec::as_slice))
    }

    /// The pieces in DRAM0 as a description names them.
    pub(crate) fn raw_pieces(&self, inputs: bool) -> Vec<Vectors> {
        let (ports, places) = match inputs {
            true => (&self.interface.inputs, &self.inputs),
            false => (&self.interface.outputs, &self.outputs),
        };
        let pairs = ports.iter().zip(places);
        pairs
            .flat_map(|(port, pieces)| pieces.iter().map(move |piece| (port, piece)))
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
    for Vectors { name, base, size } in pieces {
        let piece = Piece { memory: Memory::Dram0, base: *base, size: *size };
        match list.iter_mut().find(|(known, _)| known == name) {
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

/// `[vectors, lanes]` on the grid of the machine.
fn port(name: &str, pieces: &[Piece], arch: &TcuArch) -> Port {
    let vectors: u64 = pieces.iter().fold(0, |sum, piece| sum.saturating_add(piece.size));
    let quantiser = arch.data_type.binary_point().map(|point| Quantiser {
        signed: Param::uniform(true),
        width: Param::uniform(arch.data_type.width()),
        scale: Param::uniform(1.0 / f64::from(1_u32 << point)),
        zero: Param::uniform(0),
        // As upstream's tools encode constants.
        rounding: Param::uniform(Rounding::HalfCeil),
        overflow: Param::uniform(Overflow::Saturate),
    });
    let shape = vec![usize::try_from(vectors).unwrap_or(usize::MAX), arch.lanes()];
    Port { name: name.to_owned(), shape, quantiser }
}

/// An interface from elsewhere must have the ports of the program, in shapes of as many elements.
fn fitting(given: Interface, own: &Interface) -> Result<Interface> {
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
            let same = given.name == own.name
                && element_count(&given.shape) == element_count(&own.shape)
                && given.quantiser == own.quantiser;
            if !same {
                return misfit(format!("{kind} {:?} is not {:?} of it", given.name, own.name));
            }
        }
    }
    if let Some(layer) = given.layers.first() {
        return misfit(format!("layer {:?} cannot be read out of it", layer.value));
    }
    Ok(given)
}
