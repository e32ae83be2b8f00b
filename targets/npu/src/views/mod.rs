//! Programs as tables and pictures, by when their lines run.

#![deny(clippy::arithmetic_side_effects)]

mod bounds;
mod kinds;
mod layers;
mod memory;
mod order;
mod starts;
mod timeline;
mod transfers;

use crate::arch::NpuArch;
use crate::isa::Queue;
use crate::program::Program;
use crate::replay::{Node, Port, Replay};
use crate::work::{Conv, Resolved, Work, product, products};
use quincunx_contract::{Verb, View};
use quincunx_report::Table;
use std::collections::BTreeMap;

pub(crate) use timeline::timeline;
pub(crate) use transfers::dram_bytes;

/// What shows what.
pub(crate) static VIEWS: &[View] = &[
    View {
        name: "kinds",
        doc: "how often instructions are executed, and for how long",
        verb: Verb::Inspect,
    },
    View {
        name: "starts",
        doc: "why every line starts when it does: what held it until then",
        verb: Verb::Table,
    },
    View {
        name: "layers",
        doc: "cycles of layers, how well they use the array, what bounds them",
        verb: Verb::Time,
    },
    View {
        name: "tiles",
        doc: "how layers are cut, where their weights come from, bytes from and to DRAM",
        verb: Verb::Time,
    },
    View { name: "bounds", doc: "cycles if a part of the machine took no time", verb: Verb::Time },
];

/// Programs, one per core, with when their lines run.
pub(crate) struct Run<'a> {
    pub(crate) programs: &'a [Program],
    pub(crate) work: &'a [Vec<Resolved>],
    pub(crate) arch: &'a NpuArch,
    /// Cycles of every line of every core.
    pub(crate) cycles: Vec<Vec<u64>>,
    /// Who used DRAM at a time.
    pub(crate) port: Port,
    pub(crate) replay: Replay,
    /// Names of layers by their numbers in maps; empty when they are not known.
    pub(crate) names: BTreeMap<i32, &'a str>,
}

impl Run<'_> {
    /// The tables of a view.
    pub(crate) fn tables(&self, view: &str) -> Vec<Table> {
        let table = match view {
            "starts" => starts::table(self),
            "layers" => layers::table(self),
            "tiles" => transfers::table(self),
            "bounds" => bounds::table(self),
            _ => kinds::table(self),
        };
        // Without maps, as in machine code without its side section, layers are not known.
        if table.is_empty() { Vec::new() } else { vec![table] }
    }

    fn work(&self, node: Node) -> Option<&Work> {
        self.work[node.core][node.line].as_ref().ok()
    }

    fn queue(&self, node: Node) -> Queue {
        self.programs[node.core].lines[node.line].inst.queue()
    }

    fn time(&self, node: Node) -> (u64, u64) {
        self.replay.times[node.core][node.line]
    }

    /// Cycles of a line that runs.
    fn duration(&self, node: Node) -> u64 {
        let (start, end) = self.time(node);
        end.saturating_sub(start)
    }

    fn conv(&self, node: Node) -> Option<&Conv> {
        match self.work(node) {
            Some(Work::Conv(conv)) => Some(conv),
            _ => None,
        }
    }

    fn uses_dram(&self, node: Node) -> bool {
        self.work(node).is_some_and(Work::uses_dram)
    }

    /// The layer that a line computes or whose data it moves; `None` where the map does not say.
    fn layer(&self, node: Node) -> Option<i32> {
        let map = self.programs[node.core].lines[node.line].map.as_ref()?;
        let computes = matches!(self.work(node), Some(Work::Conv(_) | Work::Vector(_)));
        let moved = map.clyr.first().filter(|_| !computes);
        Some(*moved.unwrap_or(&map.slyr)).filter(|&layer| layer >= 0)
    }

    /// A layer in words: its name, or its number.
    fn title(&self, layer: Option<i32>) -> String {
        match layer {
            None => String::new(),
            Some(number) => match self.names.get(&number) {
                Some(name) => (*name).to_owned(),
                None => format!("layer {number}"),
            },
        }
    }

    /// Multiplications that all cores can do in a cycle: an element of the array does 8 by 8.
    pub(crate) fn peak(&self) -> u64 {
        let cores = self.programs.len() as u64;
        product([self.arch.rows.into(), self.arch.columns.into(), 64, cores])
    }

    /// Multiplications of a line.
    fn products(&self, node: Node) -> u64 {
        self.conv(node).map_or(0, products)
    }
}
