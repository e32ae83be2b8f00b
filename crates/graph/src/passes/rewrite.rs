//! Rebuilding a graph node by node.

use crate::{Constant, Graph, Node, Op, ValueId};
use quincunx_diag::Result;

/// A graph under construction from an older one.
///
/// Inputs are copied at once, constants when they are first needed, nodes when the pass says so.
pub(super) struct Rewrite<'a> {
    old: &'a Graph,
    /// The new graph.
    pub(super) new: Graph,
    map: Vec<Option<ValueId>>,
    pin_inputs: bool,
}

impl<'a> Rewrite<'a> {
    pub(super) fn new(old: &'a Graph) -> Result<Self> {
        let mut rewrite = Self::without_inputs(old);
        for &id in old.inputs() {
            let value = &old[id];
            let new =
                rewrite.new.add_input(&value.name, value.dtype, &value.shape, &value.symbols)?;
            rewrite.replace(id, new);
        }
        Ok(rewrite)
    }

    pub(super) fn without_inputs(old: &'a Graph) -> Self {
        let map = vec![None; old.values().len()];
        Rewrite { old, new: Graph::new(old.name.clone()), map, pin_inputs: false }
    }

    /// From now on, a value from outside that lies on a grid is quantised to that grid, which
    /// changes no number but tells the part's readers about the grid.
    pub(super) fn pin_inputs(&mut self) {
        self.pin_inputs = true;
    }

    /// From now on, the old value is this new one.
    pub(super) fn replace(&mut self, old: ValueId, new: ValueId) {
        self.map[old.index()] = Some(new);
    }

    /// The new value of an old one.
    pub(super) fn value(&mut self, old: ValueId) -> Result<ValueId> {
        if let Some(new) = self.map[old.index()] {
            return Ok(new);
        }
        let new = match &self.old[old].constant {
            Some(constant) => self.new.add_constant(&self.old[old].name, constant.clone())?,
            None => self.outside(old)?,
        };
        self.replace(old, new);
        Ok(new)
    }

    /// A value from outside of the part that is rebuilt.
    fn outside(&mut self, old: ValueId) -> Result<ValueId> {
        let value = &self.old[old];
        let input = self.new.add_input(&value.name, value.dtype, &value.shape, &value.symbols)?;
        match self.old.grid(old) {
            Some(grid) if self.pin_inputs => {
                let name = format!("{}_pinned", value.name);
                self.insert(&name, Op::Quantise(grid.clone()), &[Some(input)], &name)
            }
            _ => Ok(input),
        }
    }

    /// The new values of a node's operands.
    pub(super) fn operands(&mut self, node: &Node) -> Result<Vec<Option<ValueId>>> {
        node.inputs.iter().map(|input| input.map(|id| self.value(id)).transpose()).collect()
    }

    /// Copies a node as it is.
    pub(super) fn copy(&mut self, node: &Node) -> Result<()> {
        let inputs = self.operands(node)?;
        self.emit(node, node.op.clone(), &inputs)
    }

    /// Adds a node with the name and result name of an old one.
    pub(super) fn emit(&mut self, node: &Node, op: Op, inputs: &[Option<ValueId>]) -> Result<()> {
        let name = &self.old[node.output].name;
        let output = self.new.add_node(&node.name, op, inputs, name)?;
        self.replace(node.output, output);
        Ok(())
    }

    /// Adds a constant under a name like `base` that is free in both graphs.
    pub(super) fn constant(
        &mut self,
        base: &str,
        constant: impl Into<Constant>,
    ) -> Result<ValueId> {
        let name = self.free_value_name(base);
        self.new.add_constant(&name, constant)
    }

    /// Adds a node under names like the given ones that are free in both graphs.
    pub(super) fn insert(
        &mut self,
        node: &str,
        op: Op,
        inputs: &[Option<ValueId>],
        output: &str,
    ) -> Result<ValueId> {
        let (name, output) = (self.free_node_name(node), self.free_value_name(output));
        self.new.add_node(&name, op, inputs, &output)
    }

    /// A name like `base` that no node of either graph has.
    pub(super) fn free_node_name(&self, base: &str) -> String {
        let mut name = self.new.fresh_node_name(base);
        while self.old.node_named(&name).is_some() {
            name = self.new.fresh_node_name(&format!("{name}_"));
        }
        name
    }

    /// A name like `base` that no value of either graph has.
    pub(super) fn free_value_name(&self, base: &str) -> String {
        let mut name = self.new.fresh_value_name(base);
        while self.old.value_named(&name).is_some() {
            name = self.new.fresh_value_name(&format!("{name}_"));
        }
        name
    }

    /// Declares the outputs and returns the new graph.
    pub(super) fn finish(mut self) -> Result<Graph> {
        for &output in self.old.outputs() {
            let output = self.value(output)?;
            self.new.add_output(output);
        }
        Ok(self.new)
    }
}

/// Removes nodes and constants that no output needs. Inputs stay.
///
/// # Errors
/// None for a graph that verifies.
pub fn remove_dead(graph: &Graph) -> Result<Graph> {
    let mut live = vec![false; graph.values().len()];
    graph.outputs().iter().for_each(|output| live[output.index()] = true);
    let nodes: Vec<&Node> = graph.nodes().map(|(_, node)| node).collect();
    for node in nodes.iter().rev() {
        if live[node.output.index()] {
            node.operands().for_each(|operand| live[operand.index()] = true);
        }
    }
    let mut rewrite = Rewrite::new(graph)?;
    for node in nodes {
        if live[node.output.index()] {
            rewrite.copy(node)?;
        }
    }
    rewrite.finish()
}
