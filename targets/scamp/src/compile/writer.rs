//! A program as it is written: where values lie, and what the toolchain is told of them.

use super::find;
use super::layers::{Layer, Network};
use crate::arch::ScampArch;
use crate::isa::Reg;
use crate::options::Wishes;
use crate::ports::{Area, Array, Lie, Plane, rims};
use crate::program::{Named, Program, Space};
use crate::readout::Readout;
use crate::symbolic::Range;
use quincunx_contract::{Interface, NotCompiled, Section};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Graph, Node, NodeId, ValueId};
use std::collections::{BTreeMap, BTreeSet};

/// A program as it is written.
pub(super) struct Writer<'a> {
    pub(super) graph: &'a Graph,
    pub(super) arch: &'a ScampArch,
    pub(super) wishes: &'a Wishes,
    pub(super) network: &'a Network,
    pub(super) program: Program,
    /// Registers of the values that are still needed.
    pub(super) live: BTreeMap<ValueId, Vec<Reg>>,
    pub(super) inputs: Vec<Lie>,
    pub(super) results: Vec<Lie>,
    pub(super) sections: Vec<Section>,
    /// The depth of the weights of every layer.
    pub(super) depths: BTreeMap<String, u32>,
    /// Convolutions whose bias is added on the array.
    pub(super) biased: BTreeSet<String>,
    /// How large values are in registers, where a range was asked for.
    pub(super) ranges: BTreeMap<ValueId, Range>,
    /// What IN holds.
    pub(super) loaded: Option<i8>,
    /// The image around which a 1-bit register is 1.
    pub(super) outside: Option<Area>,
    pub(super) notes: Vec<Diagnostic>,
    pub(super) told: find::Told,
}

impl<'a> Writer<'a> {
    /// Gives the inputs their registers.
    pub(super) fn new(
        graph: &'a Graph,
        arch: &'a ScampArch,
        wishes: &'a Wishes,
        network: &'a Network,
    ) -> std::result::Result<Self, NotCompiled> {
        let mut writer = Writer {
            graph,
            arch,
            wishes,
            network,
            program: Program::new(Vec::new()),
            live: BTreeMap::new(),
            inputs: Vec::new(),
            results: Vec::new(),
            sections: Vec::new(),
            depths: BTreeMap::new(),
            biased: BTreeSet::new(),
            ranges: BTreeMap::new(),
            loaded: None,
            outside: None,
            notes: Vec::new(),
            told: find::Told::default(),
        };
        let list = if wishes.inputs.is_empty() { &wishes.pool } else { &wishes.inputs };
        let channels: usize = graph.inputs().iter().map(|&id| graph[id].shape[1]).sum();
        if !wishes.inputs.is_empty() && wishes.inputs.len() != channels {
            let message = format!("option input-registers names {} registers", list.len());
            let message = format!("{message} for {channels} channels of images");
            return Err(Diagnostic::invalid("Q5055", message).into());
        }
        let mut registers = list.iter().copied();
        for &id in graph.inputs() {
            let channels = graph[id].shape[1];
            let own: Vec<Reg> = registers.by_ref().take(channels).collect();
            if own.len() < channels {
                let message = format!("{} registers for {channels} channels of images", own.len());
                let problem = Diagnostic::unsupported("Q5056", message);
                return Err(writer.refuse_readers(id, &problem));
            }
            let plane =
                |&own: &Reg| Plane { register: (Space::Analogue, own), after: 0, bias: 0.0 };
            if let Some(Range { low, high }) = wishes.wish.range {
                let times = 2.0_f64.powi(network.scale);
                writer.ranges.insert(id, Range { low: low * times, high: high * times });
            }
            writer.inputs.push(writer.lie(id, own.iter().map(plane).collect()));
            writer.live.insert(id, own);
        }
        let named = writer.inputs.iter().flat_map(|lie| lie.planes.iter().map(|p| p.register.1));
        writer.program.inputs = Some(named.collect());
        Ok(writer)
    }

    /// The layers that read a value do not fit.
    pub(super) fn refuse_readers(&self, id: ValueId, problem: &Diagnostic) -> NotCompiled {
        let layer = self.network.layers.iter().find(|layer| layer.operand == id);
        match layer.and_then(Layer::name_node) {
            Some(node) => NotCompiled::at_node(self.graph, &self.graph[node], problem.clone()),
            None => problem.clone().into(),
        }
    }

    /// Registers do not suffice for a layer. Where a later one needs all of its results at once, that
    /// one is to blame: without it some can be read out after the others.
    pub(super) fn crowded(&self, layer: &Layer, node: &Node, problem: Diagnostic) -> NotCompiled {
        let result = layer.last(self.graph);
        let reader = self.network.layers.iter().find(|other| Some(other.operand) == result);
        match reader.and_then(Layer::name_node) {
            Some(reader) => {
                let message = format!("all channels of its operand at once: {}", problem.message());
                let problem = Diagnostic::unsupported(problem.code(), message);
                NotCompiled::at_node(self.graph, &self.graph[reader], problem)
            }
            None => NotCompiled::at_node(self.graph, node, problem),
        }
    }

    /// The layer that makes a value does not fit.
    pub(super) fn refuse_maker(&self, value: &str, problem: Diagnostic) -> NotCompiled {
        let is_value = |id: NodeId| self.graph[self.graph[id].output].name == value;
        let makes = |layer: &&Layer| layer.nodes().any(is_value);
        let layer = self.network.layers.iter().find(makes);
        match layer.and_then(Layer::name_node) {
            Some(node) => NotCompiled::at_node(self.graph, &self.graph[node], problem),
            None => problem.into(),
        }
    }

    pub(super) fn lie(&self, id: ValueId, planes: Vec<Plane>) -> Lie {
        let area = self.network.areas[&id];
        let is_analogue = planes.iter().all(|plane| plane.register.0 == Space::Analogue);
        let times = if is_analogue { 2.0_f64.powi(self.network.scale) } else { 1.0 };
        let is_output = self.graph.outputs().contains(&id) && !self.graph.inputs().contains(&id);
        let readout = if is_output { self.wishes.readout } else { Readout::Analogue };
        Lie { value: self.graph[id].name.clone(), area, times, readout, planes }
    }

    /// The node that a layer is named by.
    pub(super) fn node(&self, layer: &Layer) -> Result<&'a Node> {
        let node = layer.name_node().ok_or_else(|| Diagnostic::bug("a layer without nodes"))?;
        Ok(&self.graph[node])
    }

    /// The last layer that reads a value.
    pub(super) fn last_reader(&self, id: ValueId) -> Option<usize> {
        self.network.layers.iter().rposition(|layer| layer.operand == id)
    }

    /// What registers hold now.
    pub(super) fn planes(
        &self,
        registers: impl Iterator<Item = Named>,
        biases: &[f64],
    ) -> Vec<Plane> {
        let after = self.program.instructions.len().saturating_sub(1);
        let plane = |(register, &bias)| Plane { register, after, bias };
        registers.zip(biases).map(plane).collect()
    }

    pub(super) fn section(&mut self, layer: &Layer, first: usize, planes: &[Plane]) -> Result<()> {
        let ends: BTreeSet<usize> = planes.iter().map(|plane| plane.after).collect();
        let mut pieces: Vec<usize> = ends.into_iter().map(|after| after + 1).collect();
        if pieces.len() < 2 {
            pieces.clear();
        }
        let names = |id: NodeId| self.graph[id].name.clone();
        self.sections.push(Section {
            name: self.node(layer)?.name.clone(),
            nodes: layer.nodes().map(names).collect(),
            first,
            macs: layer.nodes().map(|id| self.graph.macs(&self.graph[id])).sum(),
            figures: BTreeMap::new(),
            pieces,
        });
        Ok(())
    }

    /// Ports, layer taps, and what the edge spoils; the program's list of outputs.
    ///
    /// # Errors
    /// A bug for a program of which nobody knows what the edge spoils.
    pub(super) fn interface(&mut self) -> Result<Interface> {
        let mut outputs: Vec<Reg> = Vec::new();
        for plane in self.results.iter().flat_map(|lie| &lie.planes) {
            if !outputs.contains(&plane.register.1) {
                outputs.push(plane.register.1);
            }
        }
        self.program.outputs = Some(outputs);
        let port = |id: &ValueId| {
            let mut lies = self.inputs.iter().chain(&self.results);
            lies.find(|lie| lie.value == self.graph[*id].name).map(Lie::port)
        };
        let Wishes { height, width, edge, .. } = *self.wishes;
        let array = Array { height, width, edge, masked: self.arch.roles.masked };
        let rims = rims(&self.program, &self.inputs, &self.results, array);
        let rims = rims.map_err(|problem| Diagnostic::bug(problem.message()))?;
        Ok(Interface {
            inputs: self.graph.inputs().iter().flat_map(port).collect(),
            outputs: self.graph.outputs().iter().flat_map(port).collect(),
            layers: self.inputs.iter().chain(&self.results).map(Lie::tap).collect(),
            sections: std::mem::take(&mut self.sections),
            rims,
            ..Interface::default()
        })
    }
}
