//! The operations of all stages in one list, and the layers they belong to.

use crate::arch::DaisArch;
use crate::isa::{Dialect, Inst};
use crate::program::{Operation, Output, Pipeline, Program, Slot};
use crate::tap::Place;
use crate::time;
use quincunx_num::Interval;

/// An operation with the places of its operands in the list.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) inst: Inst,
    /// As [`Inst::operands`] gives them.
    pub(crate) operands: Vec<usize>,
    /// Of the input of a later stage: the shift and the sign of what it reads.
    pub(crate) link: Option<(i64, bool)>,
    pub(crate) stage: usize,
    pub(crate) slot: Slot,
    pub(crate) fraction: i32,
    pub(crate) width: u32,
    /// When it is done.
    pub(crate) latency: f64,
    pub(crate) cost: f64,
    /// Two-operand additions in it.
    pub(crate) adders: u32,
    /// Bits of these by da4ml's model.
    pub(crate) bits: f64,
    /// Number of its group.
    pub(crate) group: usize,
}

/// A layer of the network, or a level of logic between quantisers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) name: String,
}

/// An output: its source, the power of two it is scaled by, and whether it is negated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) source: Option<usize>,
    pub(crate) shift: i32,
    pub(crate) negate: bool,
}

/// A program or pipeline as one list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flat {
    pub(crate) nodes: Vec<Node>,
    pub(crate) outputs: Vec<End>,
    pub(crate) groups: Vec<Group>,
    pub(crate) stages: usize,
}

impl Flat {
    /// The list of a legal pipeline, with its latencies and costs. What only passes through a stage
    /// is not in it. Operations belong to the first of `layers`, given by names and places, that
    /// needs them; without layers, to the level of logic: each begins with the first additions
    /// behind quantisers.
    pub(crate) fn new(pipeline: &Pipeline, layers: &[(String, &[Place])]) -> Flat {
        let mut flat = Flat { stages: pipeline.stages.len(), ..Flat::default() };
        let mut ports: Vec<End> = Vec::new();
        let mut places: Vec<Vec<usize>> = Vec::new();
        for (number, stage) in pipeline.stages.iter().enumerate() {
            let known = flat.stage(number, stage, (number > 0).then_some(&ports[..]));
            let source = |o: &Output| o.source.map(|slot| known[slot.0 as usize]);
            let end = |o: &Output| End { source: source(o), shift: o.shift, negate: o.negate };
            ports = stage.outputs.iter().map(end).collect();
            places.push(known);
        }
        flat.outputs = ports;
        if !flat.by_layers(layers, &places) {
            flat.by_levels();
        }
        flat
    }

    /// Adds a stage; the numbers of its slots.
    fn stage(&mut self, number: usize, stage: &Program, ports: Option<&[End]>) -> Vec<usize> {
        let interval = |o: &Operation| o.slot_type.interval().unwrap_or_else(Interval::zero);
        let intervals: Vec<Interval> = stage.operations.iter().map(interval).collect();
        let mut known: Vec<usize> = Vec::with_capacity(stage.operations.len());
        for (index, operation) in stage.operations.iter().enumerate() {
            let inst = operation.inst;
            let kif = operation.slot_type.kif();
            let mut operands: Vec<usize> =
                inst.operands().map(|slot| known[slot.0 as usize]).collect();
            let mut link = None;
            if let (Inst::Input { source }, Some(ports)) = (inst, ports) {
                let End { source: from, shift, negate } = ports[source.0 as usize];
                let scale = shift + stage.input_shifts[source.0 as usize];
                link = from.map(|_| (i64::from(scale), negate));
                match from {
                    Some(from) if self.is_same(from, kif) && scale == 0 && !negate => {
                        known.push(from);
                        continue;
                    }
                    from => operands.extend(from),
                }
            }
            let from: Vec<&Interval> =
                inst.operands().map(|slot| &intervals[slot.0 as usize]).collect();
            let adders = inst.terms().count().saturating_sub(1) as u32;
            let (_, bits) = time::operation(&inst, &intervals[index], &from, &unit());
            known.push(self.nodes.len());
            self.nodes.push(Node {
                inst,
                operands,
                link,
                stage: number,
                slot: Slot(index as u32),
                fraction: kif.fraction,
                width: kif.width(),
                latency: operation.latency,
                cost: operation.cost,
                adders,
                bits: if adders > 0 { bits } else { 0.0 },
                group: 0,
            });
        }
        known
    }

    fn is_same(&self, node: usize, kif: quincunx_num::Kif) -> bool {
        let node = &self.nodes[node];
        (node.fraction, node.width) == (kif.fraction, kif.width())
    }

    /// Groups by layers; false without any. What no layer needs is the last group.
    fn by_layers(&mut self, layers: &[(String, &[Place])], places: &[Vec<usize>]) -> bool {
        if layers.is_empty() {
            return false;
        }
        let mut group = vec![None; self.nodes.len()];
        for (number, (_, taps)) in layers.iter().enumerate() {
            let mut stack: Vec<usize> = Vec::new();
            for tap in *taps {
                let Some((stage, slot)) = tap.slot() else { continue };
                stack.extend(places.get(stage).and_then(|s| s.get(slot.0 as usize)));
            }
            while let Some(node) = stack.pop() {
                if group[node].is_none() {
                    group[node] = Some(number);
                    stack.extend(&self.nodes[node].operands);
                }
            }
        }
        self.groups = layers.iter().map(|(name, _)| Group { name: name.clone() }).collect();
        if group.contains(&None) {
            self.groups.push(Group { name: "(other)".to_owned() });
        }
        let other = layers.len();
        for (node, group) in self.nodes.iter_mut().zip(group) {
            node.group = group.unwrap_or(other);
        }
        true
    }

    fn by_levels(&mut self) {
        let mut most = 0;
        for index in 0..self.nodes.len() {
            let is_linear = self.is_linear(index);
            let from = |&operand: &usize| {
                self.nodes[operand].group + usize::from(is_linear && !self.is_linear(operand))
            };
            let level = self.nodes[index].operands.iter().map(from).max().unwrap_or(0);
            self.nodes[index].group = level;
            most = most.max(level);
        }
        let name = |level: usize| match level {
            0 => "inputs".to_owned(),
            _ => format!("level {level}"),
        };
        self.groups = (0..=most).map(|level| Group { name: name(level) }).collect();
    }

    /// True for sums of shifted operands that drop no bits.
    pub(crate) fn is_linear(&self, index: usize) -> bool {
        let node = &self.nodes[index];
        let fraction = |operand: usize| i64::from(self.nodes[operand].fraction);
        match node.inst {
            Inst::Add { .. } | Inst::Sub { .. } | Inst::Sum { .. } => {
                let terms = node.inst.terms().zip(&node.operands);
                let finest = terms.map(|((_, shift, _), &operand)| fraction(operand) - shift);
                finest.max().is_none_or(|finest| i64::from(node.fraction) >= finest)
            }
            Inst::Negate { .. } | Inst::AddConstant { .. } => {
                i64::from(node.fraction) >= fraction(node.operands[0])
            }
            Inst::AddScaled { scale, .. } => {
                i64::from(node.fraction) >= fraction(node.operands[0]).max(scale.into())
            }
            // What passes to another stage, scaled or with the other sign.
            Inst::Input { .. } => node.link.is_some_and(|(shift, _)| {
                i64::from(node.fraction) >= fraction(node.operands[0]) - shift
            }),
            _ => false,
        }
    }
}

/// The cost model that counts bits of adders.
fn unit() -> DaisArch {
    DaisArch {
        name: String::new(),
        dialect: Dialect::A4,
        max_width: crate::arch::MAX_WIDTH,
        adder_size: 1,
        carry_size: -1,
    }
}
