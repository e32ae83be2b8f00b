//! Functions from tables, and softmax.
//!
//! Lanes hold channels, so that a largest channel or a sum of channels takes products: a matrix whose
//! only row of ones belongs to a lane copies that lane to all of them, and a matrix of ones sums all
//! lanes in each. Along other axes both are poolings. What is divided by is replaced by its
//! reciprocal.

use super::chain::{Open, view};
use super::dims::{Dims, Held, Map};
use super::{Frontend, LookupNumbers};
use crate::compile::hir::{
    Binary, MatMul, Op as Hir, Operand, Order, Pair, Plane, Pooling, TempId, View, Windows,
};
use crate::compile::hir::{TableId, Tap};
use crate::compile::tables::{self, Function};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Node, Op, Softmax};
use std::sync::Arc;

/// Positions that are joined by a softmax along another axis than the channels.
struct Groups {
    windows: Windows,
    /// The group of every position.
    map: Map,
}

impl Frontend<'_> {
    /// True for functions that this machine's tables compute.
    pub(super) fn is_looked_up(&self, op: &Op) -> bool {
        Function::of(op).is_some() && tables::form(self.arch).is_ok()
    }

    /// True when local memory has room for a table besides other things.
    pub(super) fn shares_local(&self) -> bool {
        2 * u64::from(self.arch.lookup_table_depth.unwrap_or(0)) <= self.arch.local_depth
    }

    /// The table of a function, and its largest error.
    fn table_of(&mut self, function: Function) -> Result<(TableId, f64)> {
        let form = tables::form(self.arch).map_err(Diagnostic::bug)?;
        let fitted = tables::table(function, form);
        Ok((self.builder.add_table(&fitted.table), fitted.max_error))
    }

    /// Appends a lookup.
    fn look_up(&mut self, open: &mut Open, function: Function, input: TempId) -> Result<TempId> {
        let (table, _) = self.table_of(function)?;
        let output = open.temp(open.dims);
        open.table = Some(table);
        open.zero_padding = false;
        open.push(Hir::Lookup { table, input, output });
        Ok(output)
    }

    /// Appends the function of a node.
    pub(super) fn function(
        &mut self,
        open: &mut Open,
        node: &Node,
        input: TempId,
    ) -> Result<TempId> {
        let function = Function::of(&node.op)
            .ok_or_else(|| Diagnostic::bug("a claimed function has no table"))?;
        let (_, max_error) = self.table_of(function)?;
        let numbers = LookupNumbers { tables: vec![function.name()], max_error };
        self.lookups.insert(node.name.clone(), numbers);
        self.look_up(open, function, input)
    }

    /// Begins the last layer of a softmax: `e^(x - max) * (1 / sum)`.
    pub(super) fn softmax(&mut self, softmax: Softmax, node: &Node) -> Result<(Open, TempId)> {
        let x = node.input(0).ok_or_else(|| Diagnostic::bug("an operand is absent"))?;
        let held = self.held(x)?;
        let shape = &self.graph[x].shape;
        let of_channels = softmax.axis == usize::from(shape.len() > 1);
        let groups = (!of_channels).then(|| groups(shape, softmax.axis));
        let form = tables::form(self.arch).map_err(Diagnostic::bug)?;
        let numbers = LookupNumbers {
            tables: vec![Function::SoftmaxExp.name(), Function::SoftmaxReciprocal.name()],
            max_error: tables::softmax_error(shape[softmax.axis], form),
        };
        self.lookups.insert(node.name.clone(), numbers);
        let name = &node.name;
        let largest = match &groups {
            None => self.largest_channel(name, &held)?,
            Some(groups) => self.joined_positions(name, &held, groups, None)?,
        };
        // e^(x - max)
        let mut open = Open::new(format!("exponentials of {name}"), held.dims);
        let loaded = open.load(&held);
        let lowered = self.with_all(&mut open, Binary::Sub, loaded, &held, &largest, &groups);
        let exponentials = self.look_up(&mut open, Function::SoftmaxExp, lowered)?;
        let exponentials = self.keep(open, exponentials, held.dims);
        let reciprocal = match &groups {
            None => self.reciprocal_of_channels(name, &exponentials)?,
            Some(groups) => {
                let function = Some(Function::SoftmaxReciprocal);
                self.joined_positions(name, &exponentials, groups, function)?
            }
        };
        let mut open = Open::new(name.clone(), held.dims);
        let loaded = open.load(&exponentials);
        let output =
            self.with_all(&mut open, Binary::Mul, loaded, &exponentials, &reciprocal, &groups);
        Ok((open, output))
    }

    /// Appends an operation with one number for all channels or for all positions of a group.
    fn with_all(
        &self,
        open: &mut Open,
        op: Binary,
        input: TempId,
        held: &Held,
        one: &Held,
        groups: &Option<Groups>,
    ) -> TempId {
        let other = match groups {
            None => View {
                planes: vec![one.planes[0]; held.planes.len()].into(),
                map: None,
                zero_padding: false,
            },
            Some(groups) => View { map: Some(groups.map.clone()), ..view(one) },
        };
        let output = open.temp(open.dims);
        open.zero_padding = false;
        open.push(Hir::Binary { op, input, other: Operand::Vars(other), output });
        output
    }

    /// Ends a layer whose result no node has, and says where the result is.
    pub(super) fn keep(&mut self, mut open: Open, temp: TempId, dims: Dims) -> Held {
        let (positions, blocks) = (dims.positions() as u32, dims.blocks(self.lanes) as u32);
        let name = open.name().to_owned();
        let var = self.builder.add_var(&name, positions, blocks, Order::Planar);
        let planes: Arc<[Plane]> = self.all_planes(var);
        open.dims = dims;
        open.save(temp, planes.clone());
        let layer = Some(self.close(open));
        Held { dims, planes, map: None, zero_padding: false, layer, counts: None }
    }

    /// Joins the positions of every group: their maximum, or a function of their sum.
    fn joined_positions(
        &mut self,
        name: &str,
        held: &Held,
        groups: &Groups,
        function: Option<Function>,
    ) -> Result<Held> {
        let dims = Dims { n: 1, h: 1, w: groups.windows.len(), ..held.dims };
        let (kind, what) = match function {
            None => (Pooling::Max, "maxima"),
            Some(_) => {
                let one = self.arch.data_type.encode(1.0);
                (Pooling::Average { multipliers: [one].into() }, "sums")
            }
        };
        let mut open = Open::new(format!("{what} of {name}"), held.dims);
        let input = open.load(held);
        let mut result = open.temp(dims);
        let windows = groups.windows.clone();
        open.push(Hir::Pool { kind, windows, input, output: result });
        if let Some(function) = function {
            result = self.look_up(&mut open, function, result)?;
        }
        Ok(self.keep(open, result, dims))
    }

    /// The largest channel of every position, in all lanes of one block.
    pub(super) fn largest_channel(&mut self, name: &str, held: &Held) -> Result<Held> {
        let (lanes, channels) = (self.lanes, held.dims.c);
        let whole = channels / lanes;
        // Up to two blocks lane by lane; else full blocks are first compared with each other.
        let mut sources: Vec<(Plane, usize, bool)> = Vec::new();
        let folded = if whole > 2 { Some(self.largest_block(name, held, whole)?) } else { None };
        match &folded {
            Some(folded) => sources.extend((0..lanes).map(|lane| (folded.planes[0], lane, false))),
            None => sources
                .extend((0..whole * lanes).map(|c| (held.planes[c / lanes], c % lanes, true))),
        }
        sources.extend((whole * lanes..channels).map(|c| (held.planes[whole], c % lanes, true)));
        let positions = held.dims.positions();
        let one = self.arch.data_type.encode(1.0);
        let mut taps = Vec::with_capacity(sources.len());
        for (index, &(plane, lane, mapped)) in sources.iter().enumerate() {
            let mut data = vec![0; lanes * lanes];
            data[lane * lanes..][..lanes].fill(one);
            let what = format!("copies of lane {lane}");
            let weights = self.add_const(&what, [lanes, lanes], data, [])?;
            let pair = |at: usize| {
                let input = if mapped { held.position(at)? } else { at as u32 };
                Some(Pair { input, output: (index * positions + at) as u32 })
            };
            let pairs: Arc<[Pair]> = (0..positions).filter_map(pair).collect();
            taps.push(Tap { weights, inputs: [plane].into(), last_lanes: lanes as u32, pairs });
        }
        let copies = Dims { n: 1, c: lanes, h: sources.len(), w: positions };
        let dims = Dims { c: lanes, ..held.dims };
        let mut open = Open::new(format!("maxima of {name}"), copies);
        let input = open.temp(copies);
        open.push(product(name, taps, input));
        let output = open.temp(dims);
        let all = |at: usize| (0..sources.len()).map(move |copy| (copy * positions + at) as u32);
        let windows = Windows {
            starts: (0..=positions).map(|at| (at * sources.len()) as u32).collect(),
            positions: (0..positions).flat_map(all).collect(),
        };
        open.push(Hir::Pool { kind: Pooling::Max, windows, input, output });
        Ok(self.keep(open, output, dims))
    }

    /// The largest number of every lane of the first blocks.
    fn largest_block(&mut self, name: &str, held: &Held, blocks: usize) -> Result<Held> {
        let dims = Dims { c: self.lanes, ..held.dims };
        let block =
            |index: usize| Held { dims, planes: [held.planes[index]].into(), ..held.clone() };
        let mut open = Open::new(format!("largest block of {name}"), dims);
        let mut result = open.load(&block(0));
        for index in 1..blocks {
            let other = Operand::Vars(view(&block(index)));
            let output = open.temp(dims);
            open.push(Hir::Binary { op: Binary::Max, input: result, other, output });
            result = output;
        }
        Ok(self.keep(open, result, dims))
    }

    /// The reciprocal of the sum of the channels of every position, in all lanes of one block.
    fn reciprocal_of_channels(&mut self, name: &str, held: &Held) -> Result<Held> {
        let (lanes, rows) = (self.lanes, held.planes.len() * self.lanes);
        let one = self.arch.data_type.encode(1.0);
        let mut data = vec![0; rows * lanes];
        data[..held.dims.c * lanes].fill(one);
        let weights = self.add_const(&format!("ones of {name}"), [rows, lanes], data, [])?;
        let dims = Dims { c: lanes, ..held.dims };
        let pair = |at: usize| Pair { input: at as u32, output: at as u32 };
        let pairs: Arc<[Pair]> = (0..dims.positions()).map(pair).collect();
        let inputs = held.planes.clone();
        let mut open = Open::new(format!("reciprocals of {name}"), dims);
        let sum = open.temp(dims);
        // Lanes behind the last channel hold other numbers than zeros.
        let tap = Tap { weights, inputs, last_lanes: lanes as u32, pairs };
        open.push(product(name, vec![tap], sum));
        let result = self.look_up(&mut open, Function::SoftmaxReciprocal, sum)?;
        Ok(self.keep(open, result, dims))
    }
}

fn product(name: &str, taps: Vec<Tap>, output: TempId) -> Hir {
    Hir::MatMul(MatMul { node: name.to_owned(), taps, bias: None, ordered: true, output })
}

/// The positions along an axis that is not that of the channels, for every other position.
fn groups(shape: &[usize], axis: usize) -> Groups {
    let extents: Vec<(usize, usize)> =
        shape.iter().copied().enumerate().filter(|&(at, _)| at != 1 || shape.len() == 1).collect();
    let mut inner = 1;
    for &(at, extent) in extents.iter().rev() {
        if at == axis {
            break;
        }
        inner *= extent;
    }
    let count = shape[axis];
    let all: usize = extents.iter().map(|&(_, extent)| extent).product();
    let group = |position: usize| position / (inner * count) * inner + position % inner;
    let mut windows = Windows { starts: vec![0], positions: Vec::with_capacity(all) };
    for number in 0..all / count {
        let first = number / inner * inner * count + number % inner;
        windows.positions.extend((0..count).map(|at| (first + at * inner) as u32));
        windows.starts.push(windows.positions.len() as u32);
    }
    Groups { windows, map: (0..all).map(|position| Some(group(position) as u32)).collect() }
}
