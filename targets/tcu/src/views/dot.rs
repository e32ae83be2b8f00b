//! The layers of a program and what passes between them, as a graph in the DOT language. It is read
//! off the instructions: a layer that reads a vector follows the one that wrote it last. Moves between
//! local memory and the DRAMs write nothing of their own, since they may come early, among those of
//! another layer.

use crate::isa::Inst;
use crate::package::Package;
use crate::ports::{Piece, Ports};
use crate::program::layers::Layer;
use crate::program::{Effects, Memory, Span};
use crate::time::{Cost, costs};
use quincunx_contract::Section;
use quincunx_report::Heading;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Most reads and writes that are followed one by one, and most vectors of DRAM0 that are known;
/// what a program does beyond them is not in its graph, which then says so.
const MOST_TOUCHED: u64 = 1 << 31;
const MOST_KNOWN: usize = 1 << 22;

/// Where vectors come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Input(usize),
    Layer(usize),
    Output(usize),
}

/// What passes from one node to another.
#[derive(Clone, Copy, Debug, Default)]
struct Edge {
    vectors: u64,
    /// Some of them never leave local memory.
    local: bool,
}

/// Who wrote a vector last, and who read it last.
#[derive(Clone, Copy, Debug)]
struct Held {
    writer: Node,
    reader: Option<Node>,
}

/// What a vector of local memory holds.
#[derive(Clone, Copy, Debug)]
enum Content {
    /// What a layer wrote there.
    Made(Held),
    /// What this node had written to this vector of DRAM0.
    Copy { writer: Node, address: u64 },
}

/// The graph of a program.
pub(crate) fn dot(package: &Package, ports: &Ports, layers: &[Layer], heading: &Heading) -> String {
    let sections = &ports.interface().sections;
    let name = quoted(&heading.line());
    let mut out = format!("digraph {name} {{\n  rankdir=TB;\n  node [shape=box];\n");
    for (index, (port, _)) in ports.inputs().enumerate() {
        let label = quoted(&format!("{}\n{:?}", port.name, port.shape));
        let _ = writeln!(out, "  input{index} [shape=ellipse, label={label}];");
    }
    let costs = costs(&package.program, false);
    for (index, layer) in layers.iter().enumerate() {
        let cycles = Cost::sum(&costs[layer.steps.clone()]).cycles;
        let label = quoted(&label(layer, sections.get(index), cycles));
        let _ = writeln!(out, "  layer{index} [label={label}];");
    }
    for (index, (port, _)) in ports.outputs().enumerate() {
        let label = quoted(&format!("{}\n{:?}", port.name, port.shape));
        let _ = writeln!(out, "  output{index} [shape=ellipse, label={label}];");
    }
    let flow = flow(package, ports, layers);
    let mut legend = heading.line() + "\nbold: some vectors stay in local memory";
    if flow.is_cut() {
        legend += "\nedges of what comes late in the program are left out";
    }
    let _ = writeln!(out, "  labelloc=t;\n  label={};", quoted(&legend));
    for ((from, to), Edge { vectors, local }) in flow.edges {
        let style = if local { ", style=bold" } else { "" };
        let label = quoted(&format!("{vectors} vectors"));
        let _ = writeln!(out, "  {} -> {} [label={label}{style}];", id(from), id(to));
    }
    out + "}\n"
}

fn label(layer: &Layer, section: Option<&Section>, cycles: u64) -> String {
    let mut lines = vec![layer.name.clone()];
    // The first node is what the layer is called after.
    let nodes = section.map_or(&[][..], |section| &section.nodes);
    lines.extend(nodes.iter().filter(|&node| *node != layer.name).cloned());
    lines.extend(layer.macs.filter(|&macs| macs > 0).map(|macs| format!("{macs} MACs")));
    lines.push(format!("{cycles} cycles"));
    lines.join("\n")
}

fn id(node: Node) -> String {
    match node {
        Node::Input(index) => format!("input{index}"),
        Node::Layer(index) => format!("layer{index}"),
        Node::Output(index) => format!("output{index}"),
    }
}

/// What passes from layer to layer, through DRAM0 or local memory.
fn flow(package: &Package, ports: &Ports, layers: &[Layer]) -> Flow {
    let mut flow = Flow {
        local: vec![None; package.arch().local_depth as usize],
        dram: FxHashMap::default(),
        edges: BTreeMap::new(),
        touched: 0,
    };
    let span =
        |&Piece { memory, base, size }: &Piece| Span { memory, base, stride: 0, count: size };
    for (index, (_, lie)) in ports.inputs().enumerate() {
        lie.pieces.iter().for_each(|piece| flow.write(&span(piece), Node::Input(index)));
    }
    for (index, layer) in layers.iter().enumerate() {
        for step in &package.program.steps[layer.steps.clone()] {
            let Effects { reads, writes, .. } = step.inst.effects(package.arch());
            match (step.inst, &reads[..], &writes[..]) {
                (Inst::Dram0ToLocal { .. }, [from], [to]) => flow.load(from, to),
                (Inst::Dram1ToLocal { .. }, _, [to]) => flow.forget(to),
                (Inst::LocalToDram0 { .. }, [from], [to]) => {
                    flow.store(from, to, Node::Layer(index));
                }
                _ => {
                    reads.iter().for_each(|span| flow.read(span, Node::Layer(index)));
                    writes.iter().for_each(|span| flow.write(span, Node::Layer(index)));
                }
            }
        }
    }
    for (index, (_, lie)) in ports.outputs().enumerate() {
        lie.pieces.iter().for_each(|piece| flow.read(&span(piece), Node::Output(index)));
    }
    flow
}

/// Where every vector comes from that passes data between layers. Constants are not data.
struct Flow {
    local: Vec<Option<Content>>,
    dram: FxHashMap<u64, Held>,
    edges: BTreeMap<(Node, Node), Edge>,
    touched: u64,
}

impl Flow {
    fn is_cut(&self) -> bool {
        self.touched > MOST_TOUCHED || self.dram.len() >= MOST_KNOWN
    }

    /// Addresses of a span; none when too much was looked at.
    fn addresses(&mut self, span: &Span) -> impl Iterator<Item = u64> + use<> {
        self.touched = self.touched.saturating_add(span.count);
        let count = if self.is_cut() { 0 } else { span.count };
        let span = *span;
        (0..count).map(move |index| span.at(index))
    }

    fn write(&mut self, span: &Span, node: Node) {
        let new = Held { writer: node, reader: None };
        for address in self.addresses(span) {
            match span.memory {
                Memory::Local => self.put(address, Some(Content::Made(new))),
                Memory::Dram0 => self.keep(address, new),
                _ => return,
            }
        }
    }

    /// Behind the end of local memory there is no vector; the rules say so.
    fn put(&mut self, address: u64, content: Option<Content>) {
        if let Some(held) = self.local.get_mut(address as usize) {
            *held = content;
        }
    }

    fn keep(&mut self, address: u64, held: Held) {
        if self.dram.len() < MOST_KNOWN {
            self.dram.insert(address, held);
        }
    }

    /// A move from DRAM0 to local memory.
    fn load(&mut self, from: &Span, to: &Span) {
        for (address, place) in self.addresses(from).zip(self.addresses(to)) {
            let held = self.dram.get(&address);
            let content = held.map(|held| Content::Copy { writer: held.writer, address });
            self.put(place, content);
        }
    }

    /// A move of constants to local memory.
    fn forget(&mut self, to: &Span) {
        self.addresses(to).for_each(|place| self.put(place, None));
    }

    /// A move from local memory to DRAM0, of what a layer wrote or, if nobody knows, of this node's.
    fn store(&mut self, from: &Span, to: &Span, node: Node) {
        for (place, address) in self.addresses(from).zip(self.addresses(to)) {
            let writer = match self.local.get(place as usize).copied().flatten() {
                Some(Content::Made(held)) => held.writer,
                Some(Content::Copy { writer, .. }) => writer,
                None => node,
            };
            self.keep(address, Held { writer, reader: None });
        }
    }

    fn read(&mut self, span: &Span, node: Node) {
        for address in self.addresses(span) {
            match span.memory {
                Memory::Local => self.read_local(address, node),
                Memory::Dram0 => self.read_dram(address, None, node),
                _ => return,
            }
        }
    }

    fn read_local(&mut self, address: u64, node: Node) {
        match self.local.get_mut(address as usize).and_then(Option::as_mut) {
            Some(Content::Made(held)) => {
                let (writer, first) = (held.writer, held.is_first(node));
                if first {
                    let edge = self.edges.entry((writer, node)).or_default();
                    edge.vectors += 1;
                    edge.local = true;
                }
            }
            Some(&mut Content::Copy { writer, address }) => {
                self.read_dram(address, Some(writer), node);
            }
            None => {}
        }
    }

    /// Reads a vector of DRAM0, or what this writer had written there before it was loaded.
    fn read_dram(&mut self, address: u64, writer: Option<Node>, node: Node) {
        let held = self.dram.get_mut(&address);
        let held = held.filter(|held| writer.is_none_or(|writer| held.writer == writer));
        let (writer, first) = match (held, writer) {
            (Some(held), _) => (held.writer, held.is_first(node)),
            (None, Some(writer)) => (writer, writer != node),
            (None, None) => return,
        };
        if first {
            self.edges.entry((writer, node)).or_default().vectors += 1;
        }
    }
}

impl Held {
    /// Notes a reader; true when it is another than the writer and the one before. Every node reads
    /// in one go, so that its first reading of a vector is the one after that of another.
    fn is_first(&mut self, node: Node) -> bool {
        self.writer != node && self.reader.replace(node) != Some(node)
    }
}

/// A quoted identifier. In one, `\n` is a new line and a backslash needs one before it; names may
/// come from hostile files.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => out += "\\\"",
            '\\' => out += "\\\\",
            '\n' => out += "\\n",
            letter if letter.is_control() => out.push('\u{fffd}'),
            letter => out.push(letter),
        }
    }
    out + "\""
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn names_stay_within_their_quotes() {
        assert_eq!(quoted("a\"]; b\\ -> c\n<x>\u{7}"), "\"a\\\"]; b\\\\ -> c\\n<x>\u{fffd}\"");
    }
}
