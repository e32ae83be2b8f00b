//! Convolutions and matrix products.

use super::chain::{Open, view};
use super::channels::lanes_used;
use super::constants::{encode_into, operand, reals};
use super::dims::{Dims, Held};
use super::free::{Fold, offset_before};
use super::pointwise::affine;
use super::rows::Rows;
use super::{Frontend, ProductNumbers};
use crate::arch::DataType;
use crate::compile::hir::{Bias, MatMul, Op as Hir, Pair, Plane, Tap, TempId, View};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::{Conv, ConvTranspose, Graph, Node, NodeId, Op, ValueId, Window};
use std::sync::Arc;

/// The numbers of a matrix with `taps` parts, each of `inputs` rows and `outputs` columns:
/// element `(tap, input, output)` is `data[tap * tap_stride + input * input_stride + output *
/// output_stride]`.
struct Matrix<'a> {
    data: std::borrow::Cow<'a, [f32]>,
    taps: usize,
    /// Rows of one group.
    inputs: usize,
    outputs: usize,
    groups: usize,
    strides: [usize; 3],
    /// The outputs of a row follow each other; else the inputs of an output do.
    by_rows: bool,
}

/// Factors of the outputs, and the bias row.
struct Output {
    factors: Option<Vec<f32>>,
    bias: Option<Vec<f32>>,
    /// Constants of the graph that are part of factors and bias.
    also: Vec<ValueId>,
}

/// A product of one operand.
struct Factor<'a> {
    node: &'a Node,
    held: Held,
    matrix: Matrix<'a>,
    output: Output,
    pairs: Vec<Vec<Pair>>,
    /// The batch normalisation that is taken in.
    before: Option<&'a Node>,
}

fn bug() -> Diagnostic {
    Diagnostic::bug("a claimed product has constant weights")
}

/// Columns of outputs that are written together.
const COLUMNS: usize = 16;

/// Rows that are written together.
const ROWS: usize = 8;

impl<'a> Frontend<'a> {
    /// Begins a layer with a product; the last node is the one whose result the temp is.
    pub(super) fn product(&mut self, node: &'a Node) -> Result<(Open, TempId, &'a Node)> {
        let graph = self.graph;
        let out = Dims::of_value(graph, node.output);
        let mut factor = self.factor(node)?;
        let [norm, offset] = self.folded(node)?;
        if let Some((_, norm)) = norm.or(offset) {
            self.fold(norm, &mut factor.output, offset.is_some())?;
        }
        let pair = graph[node.output].producer.and_then(|id| self.free.pair(id));
        let along = pair.map(|pair| self.factor(&graph[pair.first])).transpose()?;
        let last = match (norm, pair) {
            (Some((id, _)), _) => Some(id),
            (None, Some(pair)) => Some(pair.sum),
            (None, None) => None,
        };
        let mut open = Open::new(node.name.clone(), out);
        for factor in std::iter::once(&factor).chain(&along) {
            let read: u64 = factor.pairs.iter().map(|pairs| pairs.len() as u64).sum();
            open.macs(read * factor.matrix.inputs as u64 * out.c as u64);
        }
        let rows = match &node.op {
            Op::Conv(Conv { window, groups: 1 }) if along.is_none() => {
                self.rows_of(window, &factor.held, out).map(|rows| (window, rows))
            }
            _ => None,
        };
        if let Some(other) = along.as_ref().and_then(|along| along.output.bias.as_ref()) {
            let own = factor.output.bias.get_or_insert_with(|| vec![0.0; other.len()]);
            own.iter_mut().zip(other).for_each(|(own, other)| *own += other);
        }
        let mut taps = match &rows {
            Some((window, rows)) => self.row_taps(&factor, window, rows, out)?,
            None => self.taps(&mut factor)?,
        };
        let bias = self.bias(node, &factor.output, &taps)?;
        self.note(&factor, &taps, bias, norm.map(|(_, norm)| norm));
        self.note_planes(node, &factor.held);
        if let (Some((id, norm)), Some(numbers)) = (offset, self.numbers.get_mut(&node.name)) {
            numbers.offset = Some(norm.name.clone());
            self.free.offsets.insert(id.index());
        }
        if let (Some((_, rows)), Some(numbers)) = (&rows, self.numbers.get_mut(&node.name)) {
            numbers.row = Some(rows.width as u32);
        }
        if let Some(mut along) = along {
            taps.extend(self.taps(&mut along)?);
            self.note(&along, &[], None, None);
            self.note_planes(along.node, &along.held);
            if let Some(numbers) = self.numbers.get_mut(&node.name) {
                numbers.with = Some(along.node.name.clone());
            }
            open.node(&along.node.name);
        }
        let result = open.temp(out);
        let ordered = self.choices.keeps_order();
        let name = node.name.clone();
        open.push(Hir::MatMul(MatMul { node: name, taps, bias, ordered, output: result }));
        let Some(last) = last else {
            return Ok((open, result, node));
        };
        self.done[last.index()] = true;
        open.node(&node.name);
        Ok((open, result, &graph[last]))
    }

    /// Begins a layer with a product over the last of three or more axes, which are positions.
    pub(super) fn mix_positions(&mut self, node: &Node) -> Result<(Open, TempId)> {
        let held = self.held(node.input(0).ok_or_else(bug)?)?;
        let weights = operand(self.graph, node, 1).ok_or_else(bug)?;
        let [depth, outputs] = weights.tensor.shape()[..] else { return Err(bug()) };
        let w = reals(weights)?;
        let numbers = (0..outputs).flat_map(|m| (0..depth).map(move |k| (k, m)));
        let numbers: Vec<f32> = numbers.map(|(k, m)| w[k * outputs + m]).collect();
        let name = format!("weights of {}", node.name);
        let data = self.encoded(|| name.clone(), &numbers);
        let weights = self.add_const(&name, [outputs, depth], data, node.input(1))?;
        let mut open = Open::new(node.name.clone(), Dims::of_value(self.graph, node.output));
        open.zero_padding = held.zero_padding;
        open.macs((open.dims.positions() * open.dims.c * depth) as u64);
        let map = (0..held.dims.positions()).map(|position| held.position(position)).collect();
        let from = View { map: Some(map), ..view(&held) };
        let output = open.temp(open.dims);
        open.push(Hir::Mix { from, weights, output });
        Ok((open, output))
    }

    /// What a node multiplies, with the batch normalisation that it takes in.
    fn factor(&self, node: &'a Node) -> Result<Factor<'a>> {
        let x = node.input(0).ok_or_else(bug)?;
        let held = self.held(x)?;
        let out = Dims::of_value(self.graph, node.output);
        let (mut matrix, mut output, pairs) = match &node.op {
            Op::Conv(conv) => self.convolution(conv, node, &held, out)?,
            Op::ConvTranspose(conv) => self.transposed(conv, node, &held, out)?,
            _ => self.matrix_product(node, &held)?,
        };
        let before = self.free.before(x).map(|id| &self.graph[id]);
        if let Some((Op::BatchNorm(norm), node)) = before.map(|node| (&node.op, node)) {
            let [scale, offset] = affine(self.graph, norm, node)?;
            matrix.take_in(&scale, &offset, &mut output.bias);
        }
        Ok(Factor { node, held, matrix, output, pairs, before })
    }

    fn taps(&mut self, factor: &mut Factor<'_>) -> Result<Vec<Tap>> {
        let held = &factor.held;
        let rows = held.planes.len() * self.lanes;
        let matrix = factor.matrix.times(&factor.output);
        self.count_clipped(|| format!("weights of {}", factor.node.name), &matrix.data);
        let scalars = matrix.scalars(self.arch.data_type, rows, &held.lanes(self.lanes));
        let last_lanes = lanes_used(held, self.lanes);
        let several = scalars.len() > 1;
        let mut taps = Vec::with_capacity(scalars.len());
        for (tap, (data, pairs)) in scalars.into_iter().zip(&factor.pairs).enumerate() {
            let suffix = if several { format!(" tap {tap}") } else { String::new() };
            let name = format!("weights of {}{suffix}", factor.node.name);
            let of = factor.node.input(1);
            let weights = self.add_const(&name, [rows, matrix.outputs], data, of)?;
            let (inputs, pairs) = (held.planes.clone(), pairs[..].into());
            taps.push(Tap { weights, inputs, last_lanes, pairs });
        }
        Ok(taps)
    }

    /// The taps of a convolution whose rows are cut into vectors, and the layer that makes these.
    fn row_taps(
        &mut self,
        factor: &Factor<'_>,
        window: &Window,
        rows: &Rows,
        out: Dims,
    ) -> Result<Vec<Tap>> {
        let Factor { node, held, .. } = factor;
        let inputs: Arc<[Plane]> = Arc::new([self.make_rows(node, held, rows)?]);
        let matrix = factor.matrix.times(&factor.output);
        self.count_clipped(|| format!("weights of {}", node.name), &matrix.data);
        let (channels, outputs) = (matrix.inputs, matrix.outputs);
        let columns = window.kernel.last().copied().unwrap_or(1);
        let all: Vec<usize> = (0..channels).collect();
        let scalars = matrix.scalars(self.arch.data_type, channels, &all);
        let pairs = self.row_pairs(window, held.dims, out, rows);
        let mut taps = Vec::with_capacity(pairs.len());
        for (tap, pairs) in pairs.into_iter().enumerate() {
            let (row, part) = (tap / rows.parts, tap % rows.parts);
            let first = part * rows.width;
            let mut data = vec![0; self.lanes * outputs];
            for lane in 0..rows.width.min(columns * channels - first) {
                let (column, channel) = ((first + lane) / channels, (first + lane) % channels);
                let from = &scalars[row * columns + column][channel * outputs..][..outputs];
                data[lane * outputs..][..outputs].copy_from_slice(from);
            }
            let name = format!("weights of {} part {tap}", node.name);
            let weights = self.add_const(&name, [self.lanes, outputs], data, node.input(1))?;
            let last_lanes = rows.lanes(part, out.w);
            taps.push(Tap { weights, inputs: inputs.clone(), last_lanes, pairs: pairs.into() });
        }
        Ok(taps)
    }

    fn bias(&mut self, node: &Node, output: &Output, taps: &[Tap]) -> Result<Option<Bias>> {
        let Some(bias) = &output.bias else {
            return Ok(None);
        };
        let name = format!("bias of {}", node.name);
        let data = self.encoded(|| name.clone(), bias);
        let from = node.input(2).into_iter().chain(output.also.iter().copied());
        let row = self.add_const(&name, [1, bias.len()], data, from)?;
        let last = taps.first().map_or(0, |tap| tap.inputs.len() as u32 - 1);
        let block = if self.choices.keeps_order() { last } else { 0 };
        Ok(Some(Bias { row, tap: 0, block }))
    }

    /// Notes what was chosen for the numbers.
    fn note(&mut self, factor: &Factor<'_>, taps: &[Tap], bias: Option<Bias>, norm: Option<&Node>) {
        let node = factor.node;
        let mut numbers = ProductNumbers::default();
        if self.choices.keeps_order() {
            numbers.taps = Some((0..taps.len() as u32).collect());
            numbers.chunk = taps.first().map(|tap| tap.inputs.len() as u32);
            numbers.bias = bias.map(|bias| [bias.tap, bias.block]);
        }
        let divided = matches!(node.op, Op::Gemm(_) | Op::MatMul) && taps.len() > 1;
        numbers.positions = divided.then_some(taps.len() as u32);
        numbers.batch_norm = norm.map(|norm| norm.name.clone());
        numbers.before = factor.before.map(|norm| norm.name.clone());
        self.numbers.insert(node.name.clone(), numbers);
    }

    /// Notes which channels the input planes hold, where they are not all full.
    fn note_planes(&mut self, node: &Node, held: &Held) {
        let (Some(counts), Some(numbers)) = (&held.counts, self.numbers.get_mut(&node.name)) else {
            return;
        };
        let mut first = 0;
        let plane = |&count: &u32| {
            first += count;
            [first - count, count]
        };
        numbers.planes = Some(counts.iter().map(plane).collect());
    }

    fn convolution(
        &self,
        conv: &Conv,
        node: &Node,
        held: &Held,
        out: Dims,
    ) -> Result<(Matrix<'a>, Output, Vec<Vec<Pair>>)> {
        let graph: &'a Graph = self.graph;
        let node_of_graph = node;
        let weights = graph[node.input(1).ok_or_else(bug)?].constant.as_ref().ok_or_else(bug)?;
        let shape = weights.tensor.shape();
        let taps: usize = shape[2..].iter().product();
        let matrix = Matrix {
            data: reals(weights)?,
            taps,
            inputs: shape[1],
            outputs: shape[0],
            groups: conv.groups,
            strides: [1, taps, taps * shape[1]],
            by_rows: false,
        };
        let bias = match operand(graph, node_of_graph, 2) {
            Some(bias) => Some(reals(bias)?.into_owned()),
            None => None,
        };
        let window = &conv.window;
        let source = |axis, out, tap, input| window.source(axis, out, tap, input);
        let pairs = convolution_pairs(window, held, out, source);
        Ok((matrix, Output { factors: None, bias, also: Vec::new() }, pairs))
    }

    /// A tap of a transposed convolution multiplies what leads to an output position instead of what
    /// that reads. Its weights are those of a convolution with inputs and outputs exchanged.
    fn transposed(
        &self,
        conv: &ConvTranspose,
        node: &Node,
        held: &Held,
        out: Dims,
    ) -> Result<(Matrix<'a>, Output, Vec<Vec<Pair>>)> {
        let weights = operand(self.graph, node, 1).ok_or_else(bug)?;
        let (shape, w) = (weights.tensor.shape(), reals(weights)?);
        let taps: usize = shape[2..].iter().product();
        let (inputs, width) = (shape[0] / conv.groups, shape[1]);
        let mut data = Vec::with_capacity(w.len());
        for output in 0..width * conv.groups {
            let first = output / width * inputs;
            for input in first..first + inputs {
                let at = (input * width + output % width) * taps;
                data.extend_from_slice(&w[at..at + taps]);
            }
        }
        let matrix = Matrix {
            data: data.into(),
            taps,
            inputs,
            outputs: width * conv.groups,
            groups: conv.groups,
            strides: [1, taps, taps * inputs],
            by_rows: false,
        };
        let bias = match operand(self.graph, node, 2) {
            Some(bias) => Some(reals(bias)?.into_owned()),
            None => None,
        };
        let window = &conv.window;
        let source = |axis: usize, out: usize, tap: usize, input: usize| {
            let ahead = out + window.pads[axis].0;
            let ahead = ahead.checked_sub(tap * window.dilations[axis])?;
            let at = ahead / window.strides[axis];
            (ahead.is_multiple_of(window.strides[axis]) && at < input).then_some(at)
        };
        let pairs = convolution_pairs(window, held, out, source);
        Ok((matrix, Output { factors: None, bias, also: Vec::new() }, pairs))
    }

    fn matrix_product(
        &self,
        node: &Node,
        held: &Held,
    ) -> Result<(Matrix<'a>, Output, Vec<Vec<Pair>>)> {
        let graph: &'a Graph = self.graph;
        let weights = graph[node.input(1).ok_or_else(bug)?].constant.as_ref().ok_or_else(bug)?;
        let shape = weights.tensor.shape();
        let (alpha, beta, transposed) = match &node.op {
            Op::Gemm(gemm) => (gemm.alpha, gemm.beta, gemm.transpose_b),
            _ => (1.0, 1.0, false),
        };
        let (depth, outputs) = if transposed { (shape[1], shape[0]) } else { (shape[0], shape[1]) };
        let taps = held.dims.spatial();
        let strides = if transposed { [1, taps, depth] } else { [outputs, taps * outputs, 1] };
        let mut data = reals(weights)?;
        if alpha != 1.0 {
            data = data.iter().map(|w| w * alpha).collect();
        }
        let matrix = Matrix {
            data,
            taps,
            inputs: depth / taps,
            outputs,
            groups: 1,
            strides,
            by_rows: !transposed,
        };
        let bias = match operand(graph, node, 2) {
            Some(bias) => {
                let numbers = reals(bias)?;
                let one = numbers.len() == 1;
                let number = |output: usize| beta * numbers[if one { 0 } else { output }];
                Some((0..outputs).map(number).collect())
            }
            None => None,
        };
        let rows = held.dims.n;
        let pair = |row: usize, tap: usize| {
            Some(Pair { input: held.position(row * taps + tap)?, output: row as u32 })
        };
        let pairs =
            (0..taps).map(|tap| (0..rows).filter_map(|row| pair(row, tap)).collect()).collect();
        Ok((matrix, Output { factors: None, bias, also: Vec::new() }, pairs))
    }

    /// The batch normalisation behind a product that becomes part of it, or else the one whose
    /// offset does.
    fn folded(&self, node: &Node) -> Result<[Option<(NodeId, &'a Node)>; 2]> {
        let [id] = self.consumers[node.output.index()][..] else {
            return Ok([None, None]);
        };
        let reader = &self.graph[id];
        let Op::BatchNorm(op) = &reader.op else {
            return Ok([None, None]);
        };
        if self.choices.keeps_order() || self.is_output[node.output.index()] {
            return Ok([None, None]);
        }
        let [scale, offset] = affine(self.graph, op, reader)?;
        let bias = operand(self.graph, node, 2).map(reals).transpose()?;
        let of = |channel: usize| bias.as_ref().map_or(0.0, |bias| bias[channel % bias.len()]);
        Ok(match self.free.fold(&scale, &offset, of) {
            Fold::All => [Some((id, reader)), None],
            Fold::Offset => [None, Some((id, reader))],
            Fold::Nothing => [None, None],
        })
    }

    fn fold(&mut self, norm: &Node, output: &mut Output, only_offset: bool) -> Result<()> {
        let Op::BatchNorm(op) = &norm.op else {
            return Err(Diagnostic::bug("only a batch normalisation is folded"));
        };
        let [scale, offset] = affine(self.graph, op, norm)?;
        let before = output.bias.take().unwrap_or_else(|| vec![0.0; scale.len()]);
        let parts = before.iter().zip(&scale).zip(&offset);
        if only_offset {
            let data_type = self.arch.data_type;
            let moved = parts.map(|((&b, &s), &o)| offset_before(data_type, b, s, o));
            output.bias = Some(moved.collect());
            output.also = [2, 3].into_iter().filter_map(|index| norm.input(index)).collect();
        } else {
            output.bias = Some(parts.map(|((b, s), o)| b * s + o).collect());
            output.factors = Some(scale);
            output.also = norm.operands().skip(1).collect();
        }
        Ok(())
    }
}

impl Matrix<'_> {
    /// The numbers with the columns of every output times its factor.
    fn times(&self, output: &Output) -> Matrix<'_> {
        let Some(factors) = &output.factors else {
            return Matrix { data: std::borrow::Cow::Borrowed(&*self.data), ..*self };
        };
        let mut data = Vec::with_capacity(self.data.len());
        for (part, numbers) in self.data.chunks(self.strides[2]).enumerate() {
            let factor = factors[part % self.outputs];
            data.extend(numbers.iter().map(|number| number * factor));
        }
        let data = std::borrow::Cow::Owned(data);
        Matrix { data, ..*self }
    }

    /// Takes scale and offset of every input in, and a bias larger by the products of the offsets.
    fn take_in(&mut self, scale: &[f32], offset: &[f32], bias: &mut Option<Vec<f32>>) {
        let [by_tap, by_input, by_output] = self.strides;
        let data = self.data.to_mut();
        let bias = bias.get_or_insert_with(|| vec![0.0; self.outputs]);
        for (output, bias) in bias.iter_mut().enumerate() {
            let mut more = 0.0;
            for (input, (scale, offset)) in scale.iter().zip(offset).enumerate() {
                for tap in 0..self.taps {
                    let at = tap * by_tap + input * by_input + output * by_output;
                    more += f64::from(data[at]) * f64::from(*offset);
                    data[at] *= scale;
                }
            }
            *bias = (f64::from(*bias) + more) as f32;
        }
    }

    /// The scalars of every tap with `rows` rows, of which those without an input are zeros.
    /// `lanes` are the rows of the inputs.
    fn scalars(&self, data_type: DataType, rows: usize, lanes: &[usize]) -> Vec<Arc<[i32]>> {
        let size = rows * self.outputs;
        let mut taps: Vec<Arc<[i32]>> =
            (0..self.taps).map(|_| std::iter::repeat_n(0, size).collect()).collect();
        // Nobody else has them yet.
        let mut parts: Vec<&mut [i32]> = taps.iter_mut().filter_map(Arc::get_mut).collect();
        let [by_tap, by_input, by_output] = self.strides;
        if self.by_rows {
            for (tap, data) in parts.iter_mut().enumerate() {
                for (input, &lane) in lanes.iter().enumerate() {
                    let from = tap * by_tap + input * by_input;
                    let row = &mut data[lane * self.outputs..][..self.outputs];
                    encode_into(data_type, &self.data[from..][..self.outputs], row);
                }
            }
            return taps;
        }
        let mut tile = vec![0; COLUMNS * by_output];
        let columns = (0..self.outputs).step_by(COLUMNS);
        for (first, reals) in columns.zip(self.data.chunks(COLUMNS * by_output)) {
            encode_into(data_type, reals, &mut tile);
            self.scatter(first, &tile[..reals.len()], lanes, &mut parts);
        }
        taps
    }

    /// Writes some columns, which begin with column `first`, a few rows at a time: neither lines
    /// read nor lines written then leave the cache before they are used up.
    fn scatter(&self, first: usize, tile: &[i32], lanes: &[usize], taps: &mut [&mut [i32]]) {
        let [by_tap, by_input, by_output] = self.strides;
        let group = self.outputs / self.groups;
        for input in (0..self.inputs).step_by(ROWS) {
            let inputs = input..(input + ROWS).min(self.inputs);
            for (column, numbers) in tile.chunks(by_output).enumerate() {
                let output = first + column;
                let row = output / group * self.inputs;
                for input in inputs.clone() {
                    let to = lanes[row + input] * self.outputs + output;
                    for (tap, data) in taps.iter_mut().enumerate() {
                        data[to] = numbers[tap * by_tap + input * by_input];
                    }
                }
            }
        }
    }
}

/// What every tap of a convolution multiplies, given the input position along an axis of an output
/// position and a tap.
fn convolution_pairs(
    window: &Window,
    held: &Held,
    out: Dims,
    source: impl Fn(usize, usize, usize, usize) -> Option<usize>,
) -> Vec<Vec<Pair>> {
    let x = held.dims;
    let along = |axis: usize, input: usize, output: usize| -> Vec<Vec<Option<usize>>> {
        let source = |tap: usize| (0..output).map(|at| source(axis, at, tap, input)).collect();
        (0..window.kernel[axis]).map(source).collect()
    };
    let last = window.rank() - 1;
    let rows = if last == 0 { vec![vec![Some(0)]] } else { along(0, x.h, out.h) };
    let columns = along(last, x.w, out.w);
    let mut taps = Vec::with_capacity(rows.len() * columns.len());
    for row in &rows {
        for column in &columns {
            let mut pairs = Vec::with_capacity(out.positions());
            for n in 0..x.n {
                for (oh, h) in row.iter().enumerate() {
                    let Some(h) = h else { continue };
                    let (input, output) = ((n * x.h + h) * x.w, (n * out.h + oh) * out.w);
                    let pair = |(ow, w): (usize, &Option<usize>)| {
                        let input = held.position(input + (*w)?)?;
                        Some(Pair { input, output: (output + ow) as u32 })
                    };
                    pairs.extend(column.iter().enumerate().filter_map(pair));
                }
            }
            taps.push(pairs);
        }
    }
    taps
}
