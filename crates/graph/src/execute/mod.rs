//! Execution: the reference executors, which say what a network means, and [`Session`], which
//! computes the same fast.
//!
//! [`float`] computes in f32, every operator in the order its documentation states; it is the
//! meaning of a float model. [`exact`] computes with exact fractions and rounds only where a
//! quantiser says so; it is the meaning of a quantised model. Both walk the same graph with the
//! same window geometry and differ in their numbers only. They are written to be read, compute a
//! value when it is its turn and free it after its last reader.
//!
//! [`Session`] prepares a graph for many runs: packed weights, threads, integers where values lie on
//! grids. What it computes is stated against the two references.

pub mod bounds;
mod exact;
mod float;
mod groups;
mod movement;
mod resize;
mod session;
mod special;
mod transposed;
mod window;

pub use exact::ExactTensor;
pub use float::elementwise::{real_activation, real_unary};
pub use session::{Session, Settings, Values};

use crate::{Graph, Node, Value, ValueId};
use quincunx_diag::{Diagnostic, Result, did_you_mean};
use quincunx_tensor::{Tensor, Tensors, show_shape};
use std::collections::BTreeMap;

/// Most bytes of all values that a run returns.
const MAX_RESULT: u64 = 4 << 30;

/// Most bytes of values that are there at one time and are not returned.
const MAX_BEYOND: u64 = 1 << 30;

/// Most elementary operations of one run.
const MAX_WORK: u64 = 1 << 42;

/// Which values an execution returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The outputs of the graph.
    Outputs,
    /// Every input and every result of a node, for layer-by-layer comparison.
    All,
}

/// Runs a graph in f32.
///
/// # Errors
/// `Q0310` for a missing input, or one of another type or shape; `Q0311` for an operator or type
/// f32 arithmetic does not cover; `Q0312` for a graph too large to execute.
pub fn float(graph: &Graph, inputs: &Tensors, keep: Keep) -> Result<Tensors> {
    run::<float::Float>(graph, inputs, keep)
}

/// Runs a graph in exact arithmetic.
///
/// # Errors
/// As [`float`]; `Q0311` names operators without an exact result, such as a batch normalisation
/// that was not folded.
pub fn exact(graph: &Graph, inputs: &Tensors, keep: Keep) -> Result<BTreeMap<String, ExactTensor>> {
    run::<exact::Exact>(graph, inputs, keep)
}

/// The numbers an executor computes with.
trait Arithmetic {
    /// A tensor of such numbers.
    type Tensor;
    /// Largest number of elements of one result.
    const MAX_ELEMENTS: usize;
    /// Bytes of a number that is a float or an integer of 32 bits, about.
    const BYTES: u64;
    fn input(tensor: &Tensor) -> Result<Self::Tensor>;
    fn constant(value: &Value) -> Result<Self::Tensor>;
    fn apply(
        graph: &Graph,
        node: &Node,
        operands: &[Option<&Self::Tensor>],
    ) -> Result<Self::Tensor>;
}

fn run<A: Arithmetic>(
    graph: &Graph,
    inputs: &Tensors,
    keep: Keep,
) -> Result<BTreeMap<String, A::Tensor>> {
    check_size(graph, A::MAX_ELEMENTS)?;
    check_memory(graph, keep, A::BYTES)?;
    let mut values: Vec<Option<A::Tensor>> = Vec::new();
    values.resize_with(graph.values().len(), || None);
    for &id in graph.inputs() {
        values[id.index()] = Some(A::input(find_input(graph, id, inputs)?)?);
    }
    let mut uses = use_counts(graph, keep);
    for (_, node) in graph.nodes() {
        quincunx_stop::check();
        load_constants::<A>(graph, node.operands(), &mut values)?;
        let operands: Vec<_> =
            node.inputs.iter().map(|i| i.and_then(|i| values[i.index()].as_ref())).collect();
        let result = A::apply(graph, node, &operands).map_err(|p| p.at(graph.place(node)))?;
        values[node.output.index()] = Some(result).filter(|_| uses[node.output.index()] > 0);
        for operand in node.operands() {
            uses[operand.index()] -= 1;
            if uses[operand.index()] == 0 {
                values[operand.index()] = None;
            }
        }
    }
    load_constants::<A>(graph, graph.outputs().iter().copied(), &mut values)?;
    let mut kept = BTreeMap::new();
    for (id, value) in graph.values() {
        let wanted = keep == Keep::All && value.constant.is_none() || graph.outputs().contains(&id);
        if wanted && let Some(tensor) = values[id.index()].take() {
            kept.insert(value.name.clone(), tensor);
        }
    }
    Ok(kept)
}

/// Makes tensors of the constants among some values, which are there from when they are first read
/// until they are read for the last time.
fn load_constants<A: Arithmetic>(
    graph: &Graph,
    ids: impl Iterator<Item = ValueId>,
    values: &mut [Option<A::Tensor>],
) -> Result<()> {
    for id in ids {
        if graph[id].constant.is_some() && values[id.index()].is_none() {
            values[id.index()] = Some(A::constant(&graph[id])?);
        }
    }
    Ok(())
}

/// How often each value is read; values that are kept count one more.
fn use_counts(graph: &Graph, keep: Keep) -> Vec<usize> {
    let mut uses = vec![usize::from(keep == Keep::All); graph.values().len()];
    for (_, node) in graph.nodes() {
        node.operands().for_each(|operand| uses[operand.index()] += 1);
    }
    graph.outputs().iter().for_each(|output| uses[output.index()] += 1);
    uses
}

fn check_size(graph: &Graph, most: usize) -> Result<()> {
    let mut work = 0_u64;
    for (_, node) in graph.nodes() {
        let output = &graph[node.output];
        let count = output.shape.iter().product::<usize>();
        work = work.saturating_add(graph.work(node));
        if count > most || work > MAX_WORK {
            let what = if count > most { "elements" } else { "operations" };
            return Err(Diagnostic::unsupported(
                "Q0312",
                format!("\"{}\" needs too many {what} to execute here", output.name),
            )
            .at(graph.place(node))
            .help(format!("up to {most} elements and {MAX_WORK} operations are accepted")));
        }
    }
    Ok(())
}

/// Refuses graphs whose values together do not fit into memory, however small each is.
///
/// # Errors
/// `Q0312`.
fn check_memory(graph: &Graph, keep: Keep, bytes: u64) -> Result<()> {
    let size = |id: ValueId| graph[id].shape.iter().fold(bytes, |n, &e| n.saturating_mul(e as u64));
    let mut uses = use_counts(graph, keep);
    let (mut kept, mut beyond) = (0_u64, 0_u64);
    let mut returned = vec![keep == Keep::All; graph.values().len()];
    graph.outputs().iter().for_each(|output| returned[output.index()] = true);
    let is_kept = |id: ValueId| returned[id.index()];
    for (_, node) in graph.nodes() {
        match is_kept(node.output) {
            true => kept = kept.saturating_add(size(node.output)),
            false => beyond = beyond.saturating_add(size(node.output)),
        }
        if kept > MAX_RESULT || beyond > MAX_BEYOND {
            let (what, most) = match kept > MAX_RESULT {
                true => ("results", MAX_RESULT >> 30),
                false => ("values at one time", MAX_BEYOND >> 30),
            };
            let name = &graph[node.output].name;
            let message = format!("with \"{name}\" there are more than {most} GiB of {what}");
            return Err(Diagnostic::unsupported("Q0312", message).at(graph.place(node)));
        }
        for operand in node.operands() {
            uses[operand.index()] -= 1;
            let computed = graph[operand].producer.is_some() && !is_kept(operand);
            if uses[operand.index()] == 0 && computed {
                beyond = beyond.saturating_sub(size(operand));
            }
        }
        if uses[node.output.index()] == 0 && !is_kept(node.output) {
            beyond = beyond.saturating_sub(size(node.output));
        }
    }
    Ok(())
}

/// The tensor given for an input of a graph or of a program.
///
/// # Errors
/// `Q0310` when there is none.
pub fn given<'a>(inputs: &'a Tensors, name: &str) -> Result<&'a Tensor> {
    inputs.get(name).ok_or_else(|| {
        let message = format!("input \"{}\" is not given", name.escape_debug());
        let names = inputs.keys().map(String::as_str);
        Diagnostic::invalid("Q0310", message).help_if(did_you_mean(name, names))
    })
}

/// The tensor given for a graph input, checked against its type and shape.
fn find_input<'a>(graph: &Graph, id: ValueId, inputs: &'a Tensors) -> Result<&'a Tensor> {
    let value = &graph[id];
    let tensor = given(inputs, &value.name)?;
    if tensor.dtype() != value.dtype || tensor.shape() != &value.shape[..] {
        return Err(Diagnostic::invalid(
            "Q0310",
            format!(
                "input \"{}\" is {}{}, expected {}{}",
                value.name,
                tensor.dtype(),
                show_shape(tensor.shape()),
                value.dtype,
                show_shape(&value.shape)
            ),
        ));
    }
    Ok(tensor)
}

/// An operator the arithmetic does not cover.
fn unsupported(message: impl Into<String>) -> Diagnostic {
    Diagnostic::unsupported("Q0311", message)
}

/// An operand inference has proved present.
fn operand<'a, T>(operands: &[Option<&'a T>], index: usize) -> Result<&'a T> {
    operands
        .get(index)
        .copied()
        .flatten()
        .ok_or_else(|| Diagnostic::bug(format!("operand {index} is absent after inference")))
}
