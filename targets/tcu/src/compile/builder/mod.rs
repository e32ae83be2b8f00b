//! Building a network of layers by hand: the interface of `tensil-doc` 2.4 and 2.5
//! (`docs/bibliography.md`).
//!
//! [`Object`]s are tensors in one of three memories, which their [`Tag`] names: variables in DRAM0,
//! constants in DRAM1, and temps, which pass data within a layer. `emit_…` appends an operation to
//! the open layer, after its tags and dimensions are checked.
//!
//! A [`Pending`] constant is one of which it is not known yet what becomes of it: a parameter of
//! operations, or an object in DRAM1. It is never both; [`Builder::constants`] lists them.

mod emit;
mod objects;
mod product;
#[cfg(test)]
mod tests;

pub use emit::Pool;
pub use objects::{Dimensions, Object, Pending, Tag};

use super::hir::{
    Binding, Const, ConstId, Layer, Network, Observed, Order, Table, TableId, Var, VarId,
};
use crate::arch::{DataType, TcuArch};
use quincunx_diag::{Diagnostic, Result};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Constants up to this many scalars are compared with those before them.
const SHARED_SCALARS: usize = 1 << 16;

/// A constant and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConstantUse {
    /// Its name.
    pub name: String,
    /// Where it went.
    pub fate: Fate,
}

/// What becomes of a constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is a parameter of an operation of this node or layer.
    Parameter(String),
    /// Its numbers are in this constant in DRAM1.
    Const(ConstId),
}

/// A network under construction.
#[derive(Debug)]
pub struct Builder {
    lanes: u32,
    data_type: DataType,
    network: Network,
    /// Constants by a hash of their numbers.
    known: FxHashMap<u64, Vec<ConstId>>,
    constants: Vec<ConstantUse>,
    /// Constants that are parameters or not, by name.
    is_parameter: FxHashMap<String, bool>,
    open: Option<emit::OpenLayer>,
}

impl Builder {
    /// An empty network for a machine.
    pub fn new(arch: &TcuArch) -> Builder {
        Builder {
            lanes: arch.array_size,
            data_type: arch.data_type,
            network: Network::default(),
            known: FxHashMap::default(),
            constants: Vec::new(),
            is_parameter: FxHashMap::default(),
            open: None,
        }
    }

    /// The network so far, without the open layer.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The constants that became something, in the order of use.
    pub fn constants(&self) -> &[ConstantUse] {
        &self.constants
    }

    /// The network and what became of the constants.
    pub(crate) fn into_parts(self) -> (Network, Vec<ConstantUse>) {
        (self.network, self.constants)
    }

    /// Adds a tensor in DRAM0.
    pub(crate) fn add_var(
        &mut self,
        name: &str,
        positions: u32,
        blocks: u32,
        order: Order,
    ) -> VarId {
        self.network.vars.push(Var { name: name.to_owned(), positions, blocks, order });
        VarId(self.network.vars.len() as u32 - 1)
    }

    /// Adds a constant in DRAM1 of `rows * channels` scalars, or finds a small one that is equal.
    pub(crate) fn add_const(
        &mut self,
        name: &str,
        rows: u32,
        channels: u32,
        data: Arc<[i32]>,
    ) -> ConstId {
        let next = ConstId(self.network.consts.len() as u32);
        if data.len() <= SHARED_SCALARS {
            let mut hasher = FxHasher::default();
            (rows, channels, &data).hash(&mut hasher);
            let consts = &self.network.consts;
            let same = |id: &&ConstId| {
                let known = &consts[id.0 as usize];
                (known.rows, known.channels) == (rows, channels) && known.data == data
            };
            let candidates = self.known.entry(hasher.finish()).or_default();
            if let Some(&id) = candidates.iter().find(same) {
                return id;
            }
            candidates.push(next);
        }
        self.network.consts.push(Const { name: name.to_owned(), rows, channels, data });
        next
    }

    /// Adds a lookup table, or finds one of its name.
    pub(crate) fn add_table(&mut self, table: &Table) -> TableId {
        let tables = &mut self.network.tables;
        let known = tables.iter().position(|known| known.name == table.name);
        let index = known.unwrap_or_else(|| {
            tables.push(table.clone());
            tables.len() - 1
        });
        TableId(index as u32)
    }

    /// Notes what a constant became.
    ///
    /// # Errors
    /// `Q3093` when it is a parameter and lies in memory.
    pub(crate) fn note_constant(&mut self, name: &str, fate: Fate) -> Result<()> {
        self.decide(name, matches!(fate, Fate::Parameter(_)))?;
        self.constants.push(ConstantUse { name: name.to_owned(), fate });
        Ok(())
    }

    /// Decides that a constant is a parameter or is none.
    fn decide(&mut self, name: &str, parameter: bool) -> Result<()> {
        let known = *self.is_parameter.entry(name.to_owned()).or_insert(parameter);
        if known == parameter {
            return Ok(());
        }
        let (is, becomes) =
            if known { ("a parameter", "an object") } else { ("an object", "a parameter") };
        let message = format!("the constant \"{name}\" is {is} and cannot become {becomes}");
        Err(Diagnostic::usage("Q3093", message)
            .help("use two pending constants with the same numbers"))
    }

    /// Adds an input.
    pub(crate) fn add_input(&mut self, binding: Binding) {
        self.network.inputs.push(binding);
    }

    /// Adds an output.
    pub(crate) fn add_output(&mut self, binding: Binding) {
        self.network.outputs.push(binding);
    }

    /// Adds a value that can be observed.
    pub(crate) fn add_observed(&mut self, observed: Observed) {
        self.network.observed.push(observed);
    }

    /// Adds a layer and returns its number.
    pub(crate) fn add_layer(&mut self, layer: Layer) -> u32 {
        self.network.layers.push(layer);
        self.network.layers.len() as u32 - 1
    }
}
