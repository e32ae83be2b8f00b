//! The graph with exponents.

use super::super::rewrite::Rewrite;
use super::roles::{Role, plain};
use super::{Beyond, Extent, Rescaled, Scaled};
use crate::{
    Activation, Binary, Coordinates, Graph, Node, NodeId, Op, Pad, PadMode, Unary, ValueId,
};
use quincunx_diag::Result;
use quincunx_tensor::Tensor;
use std::collections::BTreeMap;

/// Rewrites a graph with an exponent for every value.
pub(super) fn apply(
    graph: &Graph,
    roles: &[Role],
    exponents: &[i32],
    peaks: &[Option<f64>],
    extent: Extent,
) -> Result<Rescaled> {
    let mut apply = Apply {
        graph,
        exponents,
        rewrite: Rewrite::new(graph)?,
        natural: vec![0; exponents.len()],
        made: BTreeMap::new(),
        meanings: BTreeMap::new(),
    };
    for &input in graph.inputs() {
        let new = apply.rewrite.value(input)?;
        apply.keep(new, input, 0);
    }
    for ((_, node), role) in graph.nodes().zip(roles) {
        apply.node(node, *role)?;
    }
    for &output in graph.outputs() {
        apply.read(output, 0)?;
    }
    let Apply { rewrite, meanings, .. } = apply;
    let new = rewrite.finish()?;
    let beyond = Reach { old: graph, new: &new, meanings: &meanings, peaks, extent }.beyond();
    let scaled = |(id, &(value, exponent)): (&ValueId, &(ValueId, i32))| {
        let value = graph[value].name.clone();
        (exponent != 0).then(|| (new[*id].name.clone(), Scaled { value, exponent }))
    };
    let scaled = meanings.iter().filter_map(scaled).collect();
    Ok(Rescaled { graph: new, scaled, beyond })
}

struct Apply<'a> {
    graph: &'a Graph,
    exponents: &'a [i32],
    rewrite: Rewrite<'a>,
    /// The exponents with which values are computed; another one is a multiplication.
    natural: Vec<i32>,
    /// Values of the new graph by what they are: a value of the old one and an exponent.
    made: BTreeMap<(ValueId, i32), ValueId>,
    /// The same from the other side, without constants.
    meanings: BTreeMap<ValueId, (ValueId, i32)>,
}

impl Apply<'_> {
    fn keep(&mut self, new: ValueId, old: ValueId, exponent: i32) {
        self.made.insert((old, exponent), new);
        self.meanings.insert(new, (old, exponent));
    }

    fn exponent(&self, value: ValueId) -> i32 {
        self.exponents[value.index()]
    }

    /// A value with an exponent.
    fn read(&mut self, value: ValueId, exponent: i32) -> Result<ValueId> {
        if let Some(&made) = self.made.get(&(value, exponent)) {
            return Ok(made);
        }
        let described = &self.graph[value];
        if described.constant.is_some() {
            let made = match plain(self.graph, value) {
                Some(tensor) if exponent != 0 => {
                    let tensor = times(tensor, exponent)?;
                    self.rewrite.constant(&scaled_name(&described.name, exponent), tensor)?
                }
                _ => self.rewrite.value(value)?,
            };
            self.made.insert((value, exponent), made);
            return Ok(made);
        }
        let natural = self.natural[value.index()];
        self.multiply(self.made[&(value, natural)], value, [natural, exponent])
    }

    /// A value with another exponent than it has.
    fn multiply(&mut self, x: ValueId, value: ValueId, [from, to]: [i32; 2]) -> Result<ValueId> {
        let name = self.graph[value].name.clone();
        let factor = Tensor::scalar(2.0_f32.powi(to - from));
        let factor = self.rewrite.constant(&format!("2^{}", to - from), factor)?;
        let (op, inputs) = (Op::Binary(Binary::Mul), [Some(x), Some(factor)]);
        let node = format!("{name} * 2^{}", to - from);
        let new = if to == 0 {
            let node = self.rewrite.free_node_name(&node);
            self.rewrite.new.add_node(&node, op, &inputs, &name)?
        } else {
            self.rewrite.insert(&node, op, &inputs, &scaled_name(&name, to))?
        };
        self.settle(new, value, to);
        Ok(new)
    }

    fn settle(&mut self, new: ValueId, value: ValueId, exponent: i32) {
        if exponent == 0 {
            self.rewrite.replace(value, new);
        }
        self.keep(new, value, exponent);
    }

    fn node(&mut self, node: &Node, role: Role) -> Result<()> {
        let (wanted, natural) = self.wanted(node, role);
        let mut inputs = Vec::with_capacity(wanted.len());
        for (input, exponent) in node.inputs.iter().zip(wanted) {
            inputs.push(input.map(|input| self.read(input, exponent)).transpose()?);
        }
        let op = if natural == 0 { node.op.clone() } else { scaled_op(&node.op, natural) };
        let old = &self.graph[node.output].name;
        let name = match natural {
            0 => old.clone(),
            _ => self.rewrite.free_value_name(&scaled_name(old, natural)),
        };
        let new = self.rewrite.new.add_node(&node.name, op, &inputs, &name)?;
        self.natural[node.output.index()] = natural;
        self.settle(new, node.output, natural);
        Ok(())
    }

    /// Exponents of the operands, and that of the result.
    fn wanted(&self, node: &Node, role: Role) -> (Vec<i32>, i32) {
        let own = self.exponent(node.output);
        let mut wanted = vec![0; node.inputs.len()];
        match role {
            Role::Fixed => return (wanted, 0),
            Role::Shared { operands } => wanted.iter_mut().take(operands).for_each(|e| *e = own),
            Role::Linear { data, constants, .. } => {
                let x = node.input(data).map_or(0, |x| self.exponent(x));
                for &(index, [of_data, of_own]) in constants {
                    if let Some(exponent) = wanted.get_mut(index) {
                        *exponent = of_data * x + of_own * own;
                    }
                }
                wanted[data] = x;
            }
            Role::Product => {
                let second = node.input(1).map_or(0, |id| self.exponent(id));
                wanted = vec![own - second, second];
            }
            Role::Power(times) => {
                let each = own.div_euclid(times);
                // The exponent of a power is a number of its own.
                let operands = if node.input(0) == node.input(1) { 2 } else { 1 };
                wanted[..operands].fill(each);
                return (wanted, each * times);
            }
            Role::Sum => wanted[0] = own,
        }
        (wanted, own)
    }
}

fn scaled_name(name: &str, exponent: i32) -> String {
    format!("{name} * 2^{exponent}")
}

/// An f32 tensor times a power of two.
fn times(tensor: &Tensor, exponent: i32) -> Result<Tensor> {
    let factor = 2.0_f64.powi(exponent);
    let values = tensor.values::<f32>()?;
    let values = values.iter().map(|&x| (f64::from(x) * factor) as f32).collect();
    Tensor::from_vec(tensor.shape(), values)
}

/// An operator whose numbers have the exponent of its result.
fn scaled_op(op: &Op, exponent: i32) -> Op {
    let factor = 2.0_f64.powi(exponent);
    let scaled = |x: f32| (f64::from(x) * factor) as f32;
    match op {
        Op::Activation(Activation::Clip { min, max }) => {
            Op::Activation(Activation::Clip { min: min.map(scaled), max: max.map(scaled) })
        }
        Op::Pad(Pad { pads, mode: PadMode::Constant(x) }) => {
            let mode = PadMode::Constant((*x * factor) as f32 as f64);
            Op::Pad(Pad { pads: pads.clone(), mode })
        }
        Op::Resize(resize) => {
            let mut resize = resize.clone();
            if let Coordinates::CropAndResize { extrapolation } = &mut resize.coordinates {
                *extrapolation = scaled(*extrapolation);
            }
            Op::Resize(resize)
        }
        other => other.clone(),
    }
}

/// What the machine holds of a new graph.
struct Reach<'a> {
    old: &'a Graph,
    new: &'a Graph,
    meanings: &'a BTreeMap<ValueId, (ValueId, i32)>,
    peaks: &'a [Option<f64>],
    extent: Extent,
}

impl Reach<'_> {
    /// The largest magnitude of a value that the machine does not hold or, if that matters, of which it
    /// loses too much.
    fn of(&self, id: ValueId, matters: bool) -> Option<f64> {
        let &(value, exponent) = self.meanings.get(&id)?;
        let reach = self.peaks[value.index()]? * 2.0_f64.powi(exponent);
        let lost = matters && self.extent.loses(reach);
        (!self.extent.holds(reach) || lost).then_some(reach)
    }

    /// True for a node that gives a value another exponent.
    fn mends(&self, node: &Node) -> bool {
        let value = |id: ValueId| self.meanings.get(&id).map(|&(value, _)| value);
        node.input(0).is_some_and(|x| value(x).is_some() && value(x) == value(node.output))
    }

    /// Functions for which the relative error of their operands counts.
    fn is_steep(&self, node: &Node) -> bool {
        match node.op {
            Op::Unary(Unary::Sqrt | Unary::Reciprocal | Unary::Log) => true,
            Op::Binary(Binary::Div) => {
                node.input(1).is_some_and(|divisor| self.new[divisor].constant.is_none())
            }
            _ => false,
        }
    }

    fn beyond(&self) -> Vec<Beyond> {
        let consumers = self.new.consumers();
        let of_node = |(_, node): (NodeId, &Node)| {
            let readers = &consumers[node.output.index()];
            let is_output = self.new.outputs().contains(&node.output);
            let flat = |&reader: &NodeId| is_flat(&self.new[reader].op);
            let steep = |&reader: &NodeId| self.is_steep(&self.new[reader]);
            // Functions that are flat far from zero compute the same of the largest number.
            let clipped = !is_output && !readers.is_empty() && readers.iter().all(flat);
            let result = Some(node.output).filter(|_| !clipped);
            let operands = node.operands().filter(|_| !is_flat(&node.op));
            let mends = self.mends(node);
            let needed = mends && (is_output || readers.iter().any(steep));
            let operands = operands.map(|id| (id, mends || self.is_steep(node)));
            let mut values = operands.chain(result.map(|id| (id, needed)));
            let (id, reach) = values.find_map(|(id, lost)| Some((id, self.of(id, lost)?)))?;
            let (value, _) = self.meanings[&id];
            Some(Beyond { node: node.name.clone(), value: self.old[value].name.clone(), reach })
        };
        self.new.nodes().filter_map(of_node).collect()
    }
}

/// Functions that are flat far from zero.
fn is_flat(op: &Op) -> bool {
    matches!(
        op,
        Op::Unary(Unary::Sigmoid | Unary::Tanh | Unary::Erf)
            | Op::Activation(Activation::HardSigmoid { .. })
    )
}
