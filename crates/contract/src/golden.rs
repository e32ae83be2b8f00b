//! Golden models: one walk over the graph for all machines, each of which gives its layers.

use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::execute::given;
use quincunx_graph::{Graph, Node, NodeId, Value, ValueId};
use quincunx_tensor::{Tensor, Tensors, show_shape};

/// The layer-level model of a compiled graph, prepared once for any number of images.
pub trait Golden: Send + Sync {
    /// Every input and node result as real numbers (f64), by value name. Values that are not
    /// numbers of the graph, since the compiler folded something into them, are absent.
    ///
    /// # Errors
    /// Inputs that do not fit the graph; numbers that the machine has no code for.
    fn run(&self, inputs: &Tensors) -> Result<Tensors>;

    /// Where the numerics depart from the numbers that the machine's own tools would give, or other
    /// ways in which the machine might compute, and by how much on these inputs; empty where there
    /// is nothing to depart from.
    ///
    /// # Errors
    /// As [`Golden::run`].
    fn departures(&self, _inputs: &Tensors) -> Result<Vec<Departure>> {
        Ok(Vec::new())
    }
}

/// One departure from other numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Departure {
    /// The graph's node.
    pub node: String,
    /// What is done there.
    pub what: String,
    /// Largest difference of this departure alone: of results that are computed both ways from the
    /// same operands.
    pub alone: f64,
    /// Mean difference of this departure alone.
    pub mean: f64,
    /// Largest difference of the result in the program from that of one without any departure.
    pub together: f64,
}

/// What a machine's layers compute; its arithmetic is its own.
pub trait Layers: Send + Sync {
    /// A value of the graph in the machine's arithmetic.
    type Number: Clone + Send + Sync;

    /// A constant of the graph; `None` for one that layers read themselves.
    ///
    /// # Errors
    /// A constant that the machine has no code for.
    fn constant(&self, value: &Value) -> Result<Option<Self::Number>>;

    /// An input whose shape fits, element by element.
    ///
    /// # Errors
    /// Numbers that the machine has no code for.
    fn input(&self, value: &Value, reals: &[f64]) -> Result<Self::Number>;

    /// The result of a node; `values` are those that are computed already.
    ///
    /// # Errors
    /// Numerics that do not fit the layer, and results that the machine has no code for.
    fn layer(&self, node: &Node, values: &Values<'_, Self::Number>) -> Result<Self::Number>;

    /// The real numbers of a value; `None` when it is not the graph's number.
    fn reals(&self, number: &Self::Number) -> Option<Vec<f64>>;
}

/// The values of a graph that are known so far.
#[derive(Clone, Debug)]
pub struct Values<'a, N> {
    /// The graph.
    pub graph: &'a Graph,
    constants: &'a [Option<N>],
    numbers: Vec<Option<N>>,
}

impl<N> Values<'_, N> {
    /// A value, if it is known.
    pub fn get(&self, id: ValueId) -> Option<&N> {
        self.constants[id.index()].as_ref().or(self.numbers[id.index()].as_ref())
    }

    /// Operand `index` of a node, if it has one and the value is known.
    pub fn operand(&self, node: &Node, index: usize) -> Option<&N> {
        self.get(node.input(index)?)
    }
}

/// The golden model of a graph made of a machine's layers.
pub struct Walk<L: Layers> {
    graph: Graph,
    /// The machine's layers.
    pub layers: L,
    /// Constants, by position of the value.
    constants: Vec<Option<L::Number>>,
    /// The last reader of every value, after which it is freed.
    last_readers: Vec<Option<NodeId>>,
}

impl<L: Layers> Walk<L> {
    /// Prepares the constants.
    ///
    /// # Errors
    /// A constant that the machine has no code for.
    pub fn new(graph: &Graph, layers: L) -> Result<Self> {
        let constant = |(_, value): (ValueId, &Value)| match value.constant {
            Some(_) => layers.constant(value),
            None => Ok(None),
        };
        let constants = graph.values().map(constant).collect::<Result<_>>()?;
        let mut last_readers = vec![None; graph.values().len()];
        for (id, node) in graph.nodes() {
            node.operands().for_each(|operand| last_readers[operand.index()] = Some(id));
        }
        Ok(Walk { graph: graph.clone(), layers, constants, last_readers })
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The constants, and no other value yet.
    pub fn start(&self) -> Values<'_, L::Number> {
        let numbers = vec![None; self.constants.len()];
        Values { graph: &self.graph, constants: &self.constants, numbers }
    }

    /// Adds an input or the result of a node to the values.
    ///
    /// # Errors
    /// Another shape than expected; numbers that the machine has no code for.
    pub fn give<'v>(
        &self,
        values: &'v mut Values<'_, L::Number>,
        id: ValueId,
        tensor: &Tensor,
    ) -> Result<&'v L::Number> {
        let value = &self.graph[id];
        if tensor.shape() != &value.shape[..] {
            let (found, expected) = (show_shape(tensor.shape()), show_shape(&value.shape));
            return Err(misfit(value, format!("has shape {found}, expected {expected}")));
        }
        let number = self.layers.input(value, &tensor.to_f64())?;
        Ok(values.numbers[id.index()].insert(number))
    }

    /// Computes a node and adds its result to the values.
    ///
    /// # Errors
    /// As [`Layers::layer`].
    pub fn compute<'v>(
        &self,
        values: &'v mut Values<'_, L::Number>,
        node: &Node,
    ) -> Result<&'v L::Number> {
        let number = self.layers.layer(node, values);
        let number = number.map_err(|problem| problem.at(self.graph.place(node)))?;
        Ok(values.numbers[node.output.index()].insert(number))
    }

    fn tensor(&self, id: ValueId, number: &L::Number) -> Result<Option<Tensor>> {
        let reals = self.layers.reals(number);
        reals.map(|reals| Tensor::from_vec(&self.graph[id].shape, reals)).transpose()
    }
}

impl<L: Layers> Golden for Walk<L> {
    fn run(&self, inputs: &Tensors) -> Result<Tensors> {
        let (mut values, mut results) = (self.start(), Tensors::new());
        let mut keep = |id: ValueId, number: &L::Number| -> Result<()> {
            let name = &self.graph[id].name;
            results.extend(self.tensor(id, number)?.map(|tensor| (name.clone(), tensor)));
            Ok(())
        };
        for &id in self.graph.inputs() {
            let value = &self.graph[id];
            let tensor = given(inputs, &value.name)?;
            keep(id, self.give(&mut values, id, tensor)?)?;
        }
        for (id, node) in self.graph.nodes() {
            keep(node.output, self.compute(&mut values, node)?)?;
            for operand in node.operands() {
                if self.last_readers[operand.index()] == Some(id) {
                    values.numbers[operand.index()] = None;
                }
            }
        }
        Ok(results)
    }
}

/// An input that does not fit the graph.
fn misfit(value: &Value, what: String) -> Diagnostic {
    let name = value.name.escape_debug();
    Diagnostic::invalid("Q0507", format!("input \"{name}\" {what}"))
}
