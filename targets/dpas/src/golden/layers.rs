//! Layers of the machine: what nodes that are computed together mean.

use super::finish::{Finish, Tail, Unit, ratio};
use super::floats;
use super::misfit;
use super::numbers::{Cut, Float, Form, Grid, Move, Number, is_scale};
use super::numerics::{Adding, Held};
use super::operands::{bias_sum, factor, is_value};
use super::pairs::Pairs;
use super::pools::Pooling;
use super::products::Product;
use super::softmax::Softmax;
use quincunx_diag::Result;
use quincunx_graph::{Binary, Graph, Node, Op, SliceRange, ValueId};
use quincunx_num::Ratio;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// A layer.
pub(super) struct Layer {
    operation: Operation,
    /// What its result is.
    pub(super) form: Form,
}

enum Operation {
    /// The same numbers.
    Alias,
    /// Some or all of the numbers of a shape, in another order of axes.
    Move(Vec<usize>, Move),
    /// Real numbers go onto a grid before the machine sees them.
    Enter(Grid),
    /// Whole numbers, and what becomes of them.
    Whole(Box<(Wholes, Finish)>),
    Sum(Sum),
    Shares(Shares),
    /// Layers of floats.
    Floats(Box<floats::Layer>),
}

/// Exact layers before their ends.
enum Wholes {
    /// The codes themselves.
    Codes,
    Product(Product),
    /// Products of two values.
    Pairs(Pairs),
    Pool(Pooling),
}

impl Layer {
    /// The layer that these nodes are, each of which reads the one before it; `held` is how one of
    /// floats is computed and held, `lanes` are the partial sums of a softmax.
    ///
    /// # Errors
    /// `Q6190` for nodes that are no layer of the machine.
    pub(super) fn new(
        graph: &Graph,
        nodes: &[&Node],
        forms: &BTreeMap<ValueId, Form>,
        (held, lanes): (Option<Held>, Option<NonZeroUsize>),
    ) -> Result<Layer> {
        let stored = held.map(|held| held.stored);
        let [first, rest @ ..] = nodes else { return Err(misfit("a layer has no nodes")) };
        let x = form(graph, forms, first, 0)?;
        let shape = |id: ValueId| &graph[id].shape[..];
        let input = first.input(0).map(shape).unwrap_or_default();
        let operation = match (&first.op, x) {
            (Op::Identity | Op::Flatten { .. } | Op::Reshape { .. }, _) => Operation::Alias,
            (Op::Transpose { order }, _) => {
                Operation::Move(input.to_vec(), Move::Transpose(order.clone()))
            }
            (Op::Slice { .. } | Op::Gather { .. }, _) => {
                Operation::Move(input.to_vec(), Move::Cut(cuts(graph, first)?))
            }
            (Op::Quantise(quantiser), Form::Entering) => Operation::Enter(Grid::new(quantiser)?),
            (_, Form::Codes(grid)) => return Layer::of_codes(graph, nodes, forms, (grid, lanes)),
            (_, Form::Floats(float)) => {
                return Layer::of_floats(graph, nodes, forms, (float, held, lanes));
            }
            (other, _) => return Err(misfit(format!("{} reads what is no code", other.name()))),
        };
        if !rest.is_empty() {
            return Err(misfit("a layer that computes nothing has several nodes"));
        }
        let form = match (&operation, stored) {
            (Operation::Enter(grid), None) => Form::Codes(*grid),
            (_, Some(stored)) if x != Form::Floats(stored) => {
                return Err(misfit("a layer that computes nothing is stored in another type"));
            }
            _ => x,
        };
        Ok(Layer { operation, form })
    }

    /// A layer that computes with floats.
    fn of_floats(
        graph: &Graph,
        nodes: &[&Node],
        forms: &BTreeMap<ValueId, Form>,
        (x, held, lanes): (Float, Option<Held>, Option<NonZeroUsize>),
    ) -> Result<Layer> {
        let [first, ..] = nodes else { return Err(misfit("a layer has no nodes")) };
        let mut operands = first.operands().filter(|&id| graph[id].constant.is_none());
        if x == Float::Last || operands.any(|id| forms.get(&id) != Some(&Form::Floats(x))) {
            let name = first.op.name();
            return Err(misfit(format!("{name} reads what the machine does not compute with")));
        }
        let held = held.unwrap_or(Held { adding: Adding::Seq, stored: x, channels: None });
        let stored = held.stored;
        let layer = floats::Layer::new(graph, nodes, x, (held, lanes))?;
        Ok(Layer { form: Form::Floats(stored), operation: Operation::Floats(Box::new(layer)) })
    }

    /// A layer that computes with codes of a grid.
    fn of_codes(
        graph: &Graph,
        nodes: &[&Node],
        forms: &BTreeMap<ValueId, Form>,
        (x, lanes): (Grid, Option<NonZeroUsize>),
    ) -> Result<Layer> {
        let [first, rest @ ..] = nodes else { return Err(misfit("a layer has no nodes")) };
        let shape = |id: ValueId| &graph[id].shape[..];
        let input = first.input(0).map(shape).unwrap_or_default();
        let (wholes, units, rest) = match &first.op {
            Op::Binary(Binary::Add) => {
                let sum = Sum::new(graph, first, [x, codes(graph, forms, first, 1)?], rest)?;
                return Ok(Layer { form: Form::Codes(sum.grid), operation: Operation::Sum(sum) });
            }
            Op::Softmax(softmax) => {
                let rows = Softmax::new(softmax, input, lanes)?;
                let shares = Shares::new(rows, x, rest)?;
                let form = Form::Codes(shares.grid);
                return Ok(Layer { form, operation: Operation::Shares(shares) });
            }
            Op::MatMul if is_value(graph, first, 1) => {
                let other = first.input(1).map(shape).unwrap_or_default();
                let one = ratio(x.scale) * ratio(codes(graph, forms, first, 1)?.scale);
                let pairs = Pairs::new([input, other])?;
                (Wholes::Pairs(pairs), vec![Unit { one, rest: Ratio::ZERO }], rest)
            }
            Op::Binary(_) if let Some(factor) = factor(graph, first) => {
                let (scale, number) = (ratio(x.scale), ratio(factor.number));
                if !is_scale(factor.number) {
                    return Err(misfit("codes are multiplied with a number that is no scale"));
                }
                let one = if factor.is_divisor { scale / number } else { scale * number };
                (Wholes::Codes, vec![Unit { one, rest: Ratio::ZERO }], rest)
            }
            Op::Conv(_) | Op::Gemm(_) | Op::MatMul => {
                let sum = bias_sum(graph, rest);
                let (product, units) = Product::new(graph, first, sum, x)?;
                (Wholes::Product(product), units, &rest[usize::from(sum.is_some())..])
            }
            op => match Pooling::of(op, input, shape(first.output))? {
                Some(pooling) => {
                    let one = ratio(x.scale) / Ratio::from(pooling.divisor);
                    (Wholes::Pool(pooling), vec![Unit { one, rest: Ratio::ZERO }], rest)
                }
                None => {
                    let unit = Unit { one: ratio(x.scale), rest: Ratio::ZERO };
                    (Wholes::Codes, vec![unit], nodes)
                }
            },
        };
        let mut tail = Tail::new(rest)?;
        let (run, keeps_grid) = match &wholes {
            Wholes::Product(product) => (product.run(), false),
            Wholes::Pool(pooling) => (1, pooling.is_max),
            Wholes::Codes => {
                (1, matches!(first.op, Op::Unary(_) | Op::Activation(_) | Op::Quantise(_)))
            }
            Wholes::Pairs(_) => (1, false),
        };
        if keeps_grid && tail.is_relu_at_most() {
            tail.grid = tail.grid.or(Some(x));
        }
        let finish = Finish::new(units, run, tail);
        Ok(Layer { form: finish.form(), operation: Operation::Whole(Box::new((wholes, finish))) })
    }

    /// The result, given the operands of the first node; `None` for operands of another form.
    pub(super) fn apply<'v>(
        &self,
        operand: &dyn Fn(usize) -> Option<&'v Number>,
    ) -> Option<Number> {
        let x = operand(0)?;
        match (&self.operation, x) {
            (Operation::Alias, x) => Some(x.clone()),
            (Operation::Move(shape, how), x) => x.moved(shape, how),
            (Operation::Enter(grid), Number::Entering(reals)) => {
                Some(Number::Codes(grid.codes(reals).into(), *grid))
            }
            (Operation::Whole(layer), Number::Codes(codes, _)) => {
                let (wholes, finish) = &**layer;
                let wholes = match wholes {
                    Wholes::Codes => codes.iter().map(|&code| code.into()).collect(),
                    Wholes::Product(product) => product.apply(codes),
                    Wholes::Pool(pooling) => pooling.of_codes(codes),
                    Wholes::Pairs(pairs) => match operand(1)? {
                        Number::Codes(other, _) => pairs.each([codes, other], sums_of(pairs)),
                        _ => return None,
                    },
                };
                Some(finish.apply(&wholes))
            }
            (Operation::Sum(sum), Number::Codes(a, _)) => match operand(1)? {
                Number::Codes(b, _) => Some(Number::Codes(sum.apply(a, b), sum.grid)),
                _ => None,
            },
            (Operation::Shares(shares), Number::Codes(codes, _)) => {
                Some(Number::Codes(shares.apply(codes), shares.grid))
            }
            (Operation::Floats(layer), Number::Floats(x)) => {
                let other = match operand(1) {
                    Some(Number::Floats(other)) => Some(&other[..]),
                    _ => None,
                };
                Some(Number::Floats(layer.apply(x, other)?.into()))
            }
            _ => None,
        }
    }
}

/// The sums of rows with columns of codes.
fn sums_of(pairs: &Pairs) -> impl Fn(&[i16], Vec<i16>) -> Vec<i64> {
    let [_, depth, _] = pairs.extents;
    move |rows, columns| {
        let sum = |row: &[i16], column: &[i16]| -> i64 {
            row.iter().zip(column).map(|(&a, &b)| i64::from(a) * i64::from(b)).sum()
        };
        let rows = rows.chunks_exact(depth);
        rows.flat_map(|row| columns.chunks_exact(depth).map(move |column| sum(row, column)))
            .collect()
    }
}

/// What a node takes of its operand.
fn cuts(graph: &Graph, node: &Node) -> Result<Vec<Cut>> {
    let wrong = || misfit(format!("{:?} takes no part of a value by constants", node.name));
    let shape = node.input(0).map(|id| &graph[id].shape).ok_or_else(wrong)?;
    match &node.op {
        Op::Slice { ranges } => {
            let cut = |range: &SliceRange| {
                let (start, count) = range.resolve(shape[range.axis]);
                let step = usize::try_from(range.step).map_err(|_| wrong())?;
                Ok(Cut { axis: range.axis, start, step, count })
            };
            ranges.iter().map(cut).collect()
        }
        Op::Gather { axis } => {
            let index = node.input(1).and_then(|id| graph[id].constant.as_ref());
            let index = index.and_then(|constant| constant.tensor.to_i64()).ok_or_else(wrong)?;
            let [index] = index[..] else { return Err(wrong()) };
            let index = if index < 0 { index + shape[*axis] as i64 } else { index };
            let start = usize::try_from(index).ok().filter(|&start| start < shape[*axis]);
            Ok(vec![Cut { axis: *axis, start: start.ok_or_else(wrong)?, step: 1, count: 1 }])
        }
        _ => Err(wrong()),
    }
}

/// The form of an operand.
fn form(graph: &Graph, forms: &BTreeMap<ValueId, Form>, node: &Node, index: usize) -> Result<Form> {
    let form = node.input(index).and_then(|id| forms.get(&id)).copied();
    form.ok_or_else(|| {
        let name = node.input(index).map_or("", |id| graph[id].name.as_str());
        misfit(format!("operand {index}, {name:?}, is no value of the machine"))
    })
}

/// The grid of an operand.
fn codes(
    graph: &Graph,
    forms: &BTreeMap<ValueId, Form>,
    node: &Node,
    index: usize,
) -> Result<Grid> {
    match form(graph, forms, node, index)? {
        Form::Codes(grid) => Ok(grid),
        Form::Entering | Form::Results | Form::Floats(_) => {
            Err(misfit(format!("{} reads what is no code", node.op.name())))
        }
    }
}

/// The sum of two values, computed in f32 in steps of the result: a product and a fused one, each
/// rounded once.
struct Sum {
    /// Steps of the result in one of each operand.
    ratios: [f32; 2],
    grid: Grid,
    /// The lowest code of the result.
    low: i16,
}

impl Sum {
    /// # Errors
    /// `Q6190` for operands of several shapes, an end without a grid or with another activation
    /// than ReLU, and for ratios of scales that are no normal numbers of f32.
    fn new(graph: &Graph, node: &Node, grids: [Grid; 2], rest: &[&Node]) -> Result<Sum> {
        let shape = &graph[node.output].shape;
        if node.operands().any(|id| graph[id].shape != *shape) {
            return Err(misfit("a sum repeats an operand"));
        }
        let tail = Tail::new(rest)?;
        let (Some(grid), true) = (tail.grid, tail.is_relu_at_most()) else {
            return Err(misfit("a sum does not end with ReLU and a grid, or a grid"));
        };
        let ratios = grids.map(|operand| (operand.scale / grid.scale) as f32);
        if !ratios.iter().all(|ratio| ratio.is_normal()) {
            return Err(misfit("the grids of a sum are too far from each other"));
        }
        let low = if tail.limits[0] == 0.0 { 0 } else { grid.low };
        Ok(Sum { ratios, grid, low })
    }

    fn apply(&self, a: &[i16], b: &[i16]) -> Arc<[i16]> {
        let code = |(&a, &b): (&i16, &i16)| {
            let sum = f32::from(b).mul_add(self.ratios[1], f32::from(a) * self.ratios[0]);
            (sum.round_ties_even() as i16).clamp(self.low, self.grid.high())
        };
        a.iter().zip(b).map(code).collect()
    }
}

/// A softmax of codes.
struct Shares {
    rows: Softmax,
    /// Distance between two codes of the operand, and codes of the result in 1.
    units: [f32; 2],
    grid: Grid,
}

impl Shares {
    /// # Errors
    /// `Q6190` for an end that is no grid alone, and for scales that are no normal numbers of f32.
    fn new(rows: Softmax, x: Grid, rest: &[&Node]) -> Result<Shares> {
        let tail = Tail::new(rest)?;
        let (Some(grid), [f64::NEG_INFINITY, f64::INFINITY]) = (tail.grid, tail.limits) else {
            return Err(misfit("a softmax does not end with a grid"));
        };
        let units = [x.scale, 1.0 / grid.scale].map(|unit| unit as f32);
        if !units.iter().all(|unit| unit.is_normal()) {
            return Err(misfit("the grids of a softmax are too far from 1"));
        }
        Ok(Shares { rows, units, grid })
    }

    fn apply(&self, x: &[i16]) -> Arc<[i16]> {
        let x: Vec<f32> = x.iter().map(|&code| code.into()).collect();
        let [unit, parts] = self.units;
        let [low, high] = [self.grid.low, self.grid.high()].map(f32::from);
        let code = |share: f32| share.round_ties_even().clamp(low, high) as i16;
        self.rows.apply(&x, unit, parts).into_iter().map(code).collect()
    }
}
