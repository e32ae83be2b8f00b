//! Which nodes the machine takes, and why not the others.
//!
//! Whether a node fits depends on the ranges of its operands, so the network is compiled once
//! without building anything ([`Builder::measuring`]): what cannot be lowered stays on the host, for
//! the reason that lowering gives.

use super::builder::Builder;
use super::cmvm::count_digits;
use super::layers::{Layer, Numbers, Precision};
use super::number::Form;
use super::{exact, input_numbers, value_numbers};
use crate::arch::DaisArch;
use quincunx_contract::plan::{Part, Parts, Place};
use quincunx_contract::{Claim, Refused};
use quincunx_graph::{Activation, Graph, Node, NodeId, Op, Quantiser, ValueId};
use quincunx_tensor::element_count;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Networks with more multiplications, or reads of windows, are not unrolled: every one becomes an
/// operation or several.
const MAX_MACS: u64 = 1 << 24;

/// Values with more elements are not unrolled.
const MAX_ELEMENTS: usize = 1 << 20;

/// Networks whose values have more elements together are not unrolled.
const MAX_TOTAL: usize = 1 << 23;

/// Adders that are left of two signed digits of weights, about, when the search has shared what it
/// finds. Adders are estimated so that nothing is searched in vain.
const DIGITS_PER_ADDER: u64 = 2;

/// What the user asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Of softmax.
    pub(crate) precision: Precision,
    /// Most operations of all programs together, as they are estimated.
    pub(crate) operations: u64,
}

/// One claim per node; refused nodes are left to the host.
pub(crate) fn claim(
    graph: &Graph,
    arch: &DaisArch,
    limits: Limits,
    refused: &Refused,
) -> Vec<Claim> {
    let mut refused = refused.clone();
    loop {
        let mut claims = Claims {
            graph,
            refused: &refused,
            limits,
            builder: Builder::measuring(arch),
            parts: Parts::new(graph),
            entering: FxHashMap::default(),
            values: FxHashMap::default(),
            macs: 0,
            elements: 0,
            operations: 0,
        };
        let found: Vec<Claim> = graph.nodes().map(|(id, node)| claims.claim(id, node)).collect();
        let escaping = claims.escaping(&found);
        // Every round leaves at least one more node to the host, so that there is a last one.
        if escaping.is_empty() {
            return found;
        }
        for (node, reason) in escaping {
            refused.insert(node, reason);
        }
    }
}

/// The quantiser by which the driver encodes an input of the program: that of the first node that
/// quantises it, or the integers of its type.
pub(crate) fn input_quantiser(graph: &Graph, input: ValueId) -> Option<Quantiser> {
    let quantising = graph.nodes().find_map(|(_, node)| match &node.op {
        Op::Quantise(quantiser) if node.input(0) == Some(input) => Some(quantiser.clone()),
        _ => None,
    });
    quantising.or_else(|| type_grid(graph, input))
}

/// The grid of an integer type.
fn type_grid(graph: &Graph, value: ValueId) -> Option<Quantiser> {
    let (signed, width) = super::layers::integer_type(graph[value].dtype)?;
    Some(Quantiser::symmetric(signed, width, 1.0))
}

/// Claims so far.
struct Claims<'a> {
    graph: &'a Graph,
    /// Nodes that are left to the host, by the plan or an earlier round.
    refused: &'a Refused,
    limits: Limits,
    builder: Builder<'a>,
    parts: Parts<'a>,
    /// The grid on which a value without a known one enters a part of the machine.
    entering: FxHashMap<(ValueId, usize), &'a Quantiser>,
    /// Numbers of values by the level of the part that knows them; constants are known to all.
    values: FxHashMap<(ValueId, Option<usize>), Rc<Numbers>>,
    macs: u64,
    elements: usize,
    /// About how many operations the nodes become.
    operations: u64,
}

impl<'a> Claims<'a> {
    fn claim(&mut self, id: NodeId, node: &'a Node) -> Claim {
        let device = self.parts.of_next(node, Place::Device);
        let numbers = match self.refused.reason(id) {
            Some(reason) => Err(reason.to_owned()),
            None => self.measure_within_limit(node, device),
        };
        match numbers {
            Ok(numbers) => {
                self.parts.push(device);
                self.values.insert((node.output, Some(device.level)), Rc::new(numbers));
                Claim::Device
            }
            Err(reason) => {
                self.parts.push(self.parts.of_next(node, Place::Host));
                Claim::Host(reason)
            }
        }
    }

    /// As [`Claims::measure`]; the operations must not become too many. Products are only estimated,
    /// everything else is counted.
    fn measure_within_limit(&mut self, node: &'a Node, part: Part) -> Result<Numbers, String> {
        self.check_size(node)?;
        let most = self.limits.operations;
        let left = most.saturating_sub(self.operations);
        let adders = adders(self.graph, node);
        let before = self.builder.count();
        self.builder.limit = before.saturating_add(left);
        let numbers = if adders > left { Err(String::new()) } else { self.measure(node, part) };
        let measured = self.builder.count() - before;
        if adders > left || (numbers.is_err() && measured == left) {
            return Err(format!(
                "with the layers before it more than {most} operations would be needed, the limit \
                 of --max-operations"
            ));
        }
        self.operations += adders.max(measured);
        numbers
    }

    /// The numbers of a node's result, or why the machine does not take it.
    fn measure(&mut self, node: &'a Node, part: Part) -> Result<Numbers, String> {
        let graph = self.graph;
        if let Some(reason) = refuse_constants(graph, node).or_else(|| refuse_parameters(node)) {
            return Err(reason);
        }
        if let Op::Quantise(quantiser) = &node.op
            && let Some(x) = node.input(0)
            && !self.is_bounded(x, part)
        {
            self.enter(x, quantiser, part)?;
            let numbers = input_numbers(&mut self.builder, quantiser, &graph[x].shape, 0);
            return numbers.map_err(|problem| problem.message().to_owned());
        }
        if let Some(open) = node.operands().find(|&operand| !self.is_bounded(operand, part)) {
            return Err(self.refuse_operand(open));
        }
        let mut operands = Vec::with_capacity(node.inputs.len());
        for input in &node.inputs {
            let numbers = input.map(|id| self.numbers(id, part)).transpose();
            operands.push(numbers.map_err(|problem| problem.message().to_owned())?);
        }
        let operands: Vec<Option<&Numbers>> = operands.iter().map(Option::as_deref).collect();
        let layer = Layer { graph, node, operands: &operands, precision: self.limits.precision };
        let numbers = layer.lower_typed(&mut self.builder);
        numbers.map_err(|problem| problem.message().to_owned())
    }

    /// Results and work must be small enough to unroll.
    fn check_size(&mut self, node: &Node) -> Result<(), String> {
        let output = &self.graph[node.output];
        let elements = element_count(&output.shape).unwrap_or(usize::MAX);
        let macs = self.graph.work(node);
        if macs > MAX_MACS || elements > MAX_ELEMENTS {
            return Err(format!(
                "unrolling {macs} operations and {elements} results is too large; up to {MAX_MACS} and {MAX_ELEMENTS} are supported"
            ));
        }
        if self.macs + macs > MAX_MACS || self.elements + elements > MAX_TOTAL {
            return Err(format!(
                "with the layers before it, the network unrolls to more than {MAX_MACS} multiplications or {MAX_TOTAL} results"
            ));
        }
        self.macs += macs;
        self.elements += elements;
        Ok(())
    }

    /// True when the machine knows a grid or exact range for a value it meets in `part`.
    fn is_bounded(&self, value: ValueId, part: Part) -> bool {
        let value_of = &self.graph[value];
        value_of.constant.is_some()
            || self.is_inside(value, part)
            || self.graph.grid(value).is_some()
            || !value_of.dtype.is_float()
    }

    fn is_inside(&self, value: ValueId, part: Part) -> bool {
        self.parts.producing(value) == Some(part)
    }

    /// The numbers of a bounded value.
    fn numbers(&mut self, value: ValueId, part: Part) -> quincunx_diag::Result<Rc<Numbers>> {
        let known = self.graph[value].constant.is_some();
        let key = (value, (!known).then_some(part.level));
        if let Some(numbers) = self.values.get(&key) {
            return Ok(Rc::clone(numbers));
        }
        let numbers = match self.graph.grid(value).cloned().or_else(|| type_grid(self.graph, value))
        {
            Some(grid) if !known => {
                input_numbers(&mut self.builder, &grid, &self.graph[value].shape, 0)?
            }
            _ => value_numbers(self.graph, value)?,
        };
        let numbers = Rc::new(numbers);
        self.values.insert(key, Rc::clone(&numbers));
        Ok(numbers)
    }

    fn refuse_operand(&self, operand: ValueId) -> String {
        let value = &self.graph[operand];
        let part = self.parts.producing(operand);
        let on_device = part.is_some_and(|part| part.place == Place::Device);
        let name = &value.name;
        if on_device {
            format!(
                "its operand \"{name}\" comes back from the host's part of the network unquantised"
            )
        } else {
            format!("its operand \"{name}\" is not quantised on the machine")
        }
    }

    /// A value enters a part of the machine on one grid.
    fn enter(
        &mut self,
        value: ValueId,
        quantiser: &'a Quantiser,
        part: Part,
    ) -> Result<(), String> {
        let first = *self.entering.entry((value, part.level)).or_insert(quantiser);
        match first == quantiser {
            true => Ok(()),
            false => Err(format!(
                "its operand \"{}\" already enters the machine on another grid",
                self.graph[value].name
            )),
        }
    }

    /// Nodes of the machine whose results leave it although they are functions that no quantiser
    /// has made numbers of, with the reason why they are left to the host.
    fn escaping(&mut self, claims: &[Claim]) -> Vec<(NodeId, String)> {
        let mut leaves = vec![false; self.graph.values().len()];
        self.graph.outputs().iter().for_each(|output| leaves[output.index()] = true);
        for (id, node) in self.graph.nodes() {
            let part = self.parts.of(id);
            for operand in node.operands() {
                leaves[operand.index()] |= !self.is_inside(operand, part);
            }
        }
        let mut found = Vec::new();
        for (id, node) in self.graph.nodes() {
            let part = self.parts.of(id);
            if part.place == Place::Host || !leaves[node.output.index()] {
                continue;
            }
            let Some(numbers) = self.values.get(&(node.output, Some(part.level))).cloned() else {
                continue;
            };
            let waits = |form: &Form| matches!(form, Form::Function(_));
            let waiting = numbers.iter().filter(|n| n.form.as_deref().is_some_and(waits));
            let problem = waiting
                .into_iter()
                .find_map(|number| exact::finished(&mut self.builder, number).err());
            if let Some(problem) = problem {
                let refused = self.refused_reader(node.output, claims);
                found.push((id, refused.unwrap_or_else(|| problem.message().to_owned())));
            }
        }
        found
    }

    /// Why the first reader of a function is left to the host, if one is.
    fn refused_reader(&self, function: ValueId, claims: &[Claim]) -> Option<String> {
        self.graph.nodes().zip(claims).find_map(|((id, node), claim)| {
            let Claim::Host(reason) = claim else { return None };
            node.operands().find(|&operand| operand == function)?;
            // What a reader waited for in vain is what its operands wait for.
            Some(match self.refused.reason(id) {
                Some(_) => reason.clone(),
                None => {
                    format!("it waits for \"{}\", which is left to the host: {reason}", node.name)
                }
            })
        })
    }
}

/// The integers of a constant matrix that a node multiplies by.
fn matrix(graph: &Graph, node: &Node) -> Option<Vec<i64>> {
    let layer = matches!(node.op, Op::Conv(_) | Op::ConvTranspose(_) | Op::Gemm(_) | Op::MatMul);
    let weights = node.input(1).and_then(|id| graph[id].constant.as_ref());
    weights.filter(|_| layer).and_then(|weights| weights.tensor.to_i64())
}

/// Signed digits of the constant matrix that a node multiplies by.
pub(super) fn digits(graph: &Graph, node: &Node) -> u64 {
    let codes = matrix(graph, node).unwrap_or_default();
    codes.iter().map(|&code| u64::from(count_digits(code))).sum()
}

/// About how many adders a product with a constant matrix becomes.
fn adders(graph: &Graph, node: &Node) -> u64 {
    let weights = matrix(graph, node).map_or(0, |codes| codes.len());
    let uses = graph.macs(node) / weights.max(1) as u64;
    digits(graph, node).saturating_mul(uses) / DIGITS_PER_ADDER
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

/// The same for parameters of operators; a limit that limits nothing may be infinite.
fn refuse_parameters(node: &Node) -> Option<String> {
    let parameters = match &node.op {
        Op::Activation(Activation::LeakyRelu { alpha } | Activation::Elu { alpha }) => vec![*alpha],
        Op::Activation(Activation::Selu { alpha, gamma }) => vec![*alpha, *gamma],
        Op::Activation(Activation::HardSigmoid { alpha, beta }) => vec![*alpha, *beta],
        Op::Activation(Activation::Clip { min, max }) => {
            let min = min.filter(|&min| min != f32::NEG_INFINITY);
            min.into_iter().chain(max.filter(|&max| max != f32::INFINITY)).collect()
        }
        Op::Gemm(gemm) => vec![gemm.alpha, gemm.beta],
        _ => Vec::new(),
    };
    let bad = parameters.into_iter().find(|parameter| !parameter.is_finite())?;
    Some(format!("its parameter {bad} has no fixed-point code"))
}
