//! Which nodes the machine takes, and why not the others.

mod movement;
mod numeric;

use super::exact_values;
use super::layers::average_divisor;
use quincunx_graph::{Binary, Graph, Node, Op, Pool, PoolKind, Quantiser, ValueId};
use quincunx_num::Dyadic;
use quincunx_target::Claim;
use quincunx_tensor::element_count;
use rustc_hash::FxHashMap;

/// Layers with more multiplications, or reads of a window, are not unrolled: every one becomes an
/// operation or several.
const MAX_MACS: u64 = 1 << 24;

/// Values with more elements are not unrolled.
const MAX_ELEMENTS: usize = 1 << 20;

/// One claim per node.
pub(crate) fn claim(graph: &Graph) -> Vec<Claim> {
    let mut claims = Claims { graph, parts: Vec::new(), entering: FxHashMap::default() };
    graph.nodes().map(|(_, node)| claims.claim(node)).collect()
}

/// The quantiser by which the driver encodes an input of the program: that of the first node that
/// quantises it.
pub(crate) fn input_quantiser(graph: &Graph, input: ValueId) -> Option<&Quantiser> {
    graph.nodes().find_map(|(_, node)| match &node.op {
        Op::Quantise(quantiser) if node.input(0) == Some(input) && quantiser.is_fixed_point() => {
            Some(quantiser)
        }
        _ => None,
    })
}

/// Where a claimed node runs: parts of the machine and of the host alternate along every path,
/// and are numbered as the plan numbers them.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Part {
    device: bool,
    level: usize,
}

/// Claims so far.
struct Claims<'a> {
    graph: &'a Graph,
    /// Part of every node so far.
    parts: Vec<Part>,
    /// The grid on which a value without a known one enters a part of the machine.
    entering: FxHashMap<(ValueId, usize), &'a Quantiser>,
}

impl<'a> Claims<'a> {
    fn claim(&mut self, node: &'a Node) -> Claim {
        let device = self.part(node, true);
        match self.refusal(node, device) {
            None => {
                self.parts.push(device);
                Claim::Device
            }
            Some(reason) => {
                self.parts.push(self.part(node, false));
                Claim::Host(reason)
            }
        }
    }

    /// The part a node would be in.
    fn part(&self, node: &Node, device: bool) -> Part {
        let after = |operand: ValueId| {
            let before = self.parts[self.graph[operand].producer?.index()];
            Some(before.level + usize::from(before.device != device))
        };
        Part { device, level: node.operands().filter_map(after).max().unwrap_or(0) }
    }

    /// True when the machine knows a grid or exact range for a value it meets in `part`.
    fn is_bounded(&self, value: ValueId, part: Part) -> bool {
        let value_of = &self.graph[value];
        value_of.constant.is_some()
            || value_of.producer.is_some_and(|producer| self.parts[producer.index()] == part)
            || self.graph.grid(value).is_some_and(Quantiser::is_fixed_point)
    }

    /// Why the machine does not take a node; `None` when it does.
    fn refusal(&mut self, node: &'a Node, part: Part) -> Option<String> {
        let graph = self.graph;
        if let Some(reason) = refuse_size(graph, node).or_else(|| refuse_constants(graph, node)) {
            return Some(reason);
        }
        if let Op::Quantise(quantiser) = &node.op {
            return self.refuse_quantiser(node, quantiser, part);
        }
        let refused = movement::refuse_movement(graph, node)
            .or_else(|| numeric::refuse_operator(graph, node));
        if refused.is_some() {
            return refused;
        }
        if let Some(open) = node.operands().find(|&operand| !self.is_bounded(operand, part)) {
            return Some(self.refuse_operand(open));
        }
        let constant =
            |index: usize| node.input(index).is_none_or(|id| graph[id].constant.is_some());
        match &node.op {
            Op::Conv(_) if !constant(1) || !constant(2) => {
                Some("its weights are not constant".to_owned())
            }
            Op::Pool(pool) => refuse_average(graph, node, pool),
            Op::GlobalAveragePool => {
                let x = node.input(0)?;
                refuse_divisor(element_count(&graph[x].shape[2..]).unwrap_or(0))
            }
            Op::Binary(Binary::Div) => refuse_division(graph, node),
            Op::Activation(activation) => numeric::refuse_activation(*activation),
            Op::PRelu => numeric::refuse_prelu(graph, node),
            Op::Reduce(reduce) => numeric::refuse_reduce(graph, node, reduce),
            _ => None,
        }
    }

    fn refuse_operand(&self, operand: ValueId) -> String {
        let value = &self.graph[operand];
        let on_device = value.producer.is_some_and(|producer| self.parts[producer.index()].device);
        let name = &value.name;
        if on_device {
            format!(
                "its operand \"{name}\" comes back from the host's part of the network unquantised"
            )
        } else {
            format!("its operand \"{name}\" is not quantised on the machine")
        }
    }

    fn refuse_quantiser(
        &mut self,
        node: &Node,
        quantiser: &'a Quantiser,
        part: Part,
    ) -> Option<String> {
        if !quantiser.is_fixed_point() {
            let reason = "its scale is not a power of two or its zero point is not 0; quantise with the scheme pow2";
            return Some(reason.to_owned());
        }
        let x = node.input(0)?;
        if self.is_bounded(x, part) {
            return None;
        }
        let first = *self.entering.entry((x, part.level)).or_insert(quantiser);
        (first != quantiser).then(|| {
            format!(
                "its operand \"{}\" already enters the machine on another grid",
                self.graph[x].name
            )
        })
    }
}

/// Results and work must be small enough to unroll.
fn refuse_size(graph: &Graph, node: &Node) -> Option<String> {
    let output = &graph[node.output];
    if !output.dtype.is_float() {
        return Some(format!("its result is {}, not a real number", output.dtype));
    }
    let elements = element_count(&output.shape).unwrap_or(usize::MAX);
    let reads = graph.work(node);
    (reads > MAX_MACS || elements > MAX_ELEMENTS).then(|| {
        format!(
            "unrolling {reads} operations and {elements} results is too large; up to {MAX_MACS} and {MAX_ELEMENTS} are taken"
        )
    })
}

/// Fixed point has no code for infinities and NaN.
fn refuse_constants(graph: &Graph, node: &Node) -> Option<String> {
    let bad = node.operands().find_map(|operand| {
        let constant = graph[operand].constant.as_ref()?;
        if !constant.tensor.dtype().is_float() {
            return None;
        }
        let value = constant.tensor.to_f64().into_iter().find(|v| !v.is_finite())?;
        Some((operand, value))
    });
    let (operand, value) = bad?;
    Some(format!(
        "its constant \"{}\" holds {value}, which has no fixed-point code",
        graph[operand].name
    ))
}

fn refuse_average(graph: &Graph, node: &Node, pool: &Pool) -> Option<String> {
    if pool.kind == PoolKind::Max {
        return None;
    }
    let input = &graph[node.input(0)?].shape[2..];
    let output = &graph[node.output].shape[2..];
    // Positions differ only in how much padding they see, so corners and centre say it all; the
    // full walk is bounded by the limit on elements.
    let mut out = vec![0; output.len()];
    loop {
        if let Some(reason) = refuse_divisor(average_divisor(pool, &out, input)) {
            return Some(reason);
        }
        let mut axis = output.len();
        loop {
            if axis == 0 {
                return None;
            }
            axis -= 1;
            out[axis] += 1;
            if out[axis] < output[axis] {
                break;
            }
            out[axis] = 0;
        }
    }
}

fn refuse_divisor(divisor: usize) -> Option<String> {
    (!divisor.is_power_of_two())
        .then(|| format!("it averages {divisor} numbers, and {divisor} is not a power of two"))
}

fn refuse_division(graph: &Graph, node: &Node) -> Option<String> {
    let Some(constant) = node.input(1).and_then(|id| graph[id].constant.as_ref()) else {
        return Some("its divisor is not constant".to_owned());
    };
    let divisors = exact_values(constant);
    let is_power = |divisor: &Dyadic| divisor.log2().or(divisor.neg().log2()).is_some();
    (!divisors.is_some_and(|divisors| divisors.iter().all(is_power)))
        .then(|| "its divisor is not a constant power of two".to_owned())
}
