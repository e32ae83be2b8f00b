//! Layers cut into steps: which images, rows and output channels are worked on one after the other.

use super::functions;
use super::layers::{Act, Form, Frame, Grid, Layer, Network, Operation, axes};
use super::products::Product;
use super::tiles::{CUTS, Minis};
use crate::arch::NpuArch;
use crate::isa::{
    ActMode, CMPS, DataFmt, Float2Fixed, MG0S, Number, QSMD, SG0M, SG1M, SUMM, YCutMode,
};
use crate::time::{Model, conv_line_cycles, vector_line_cycles};
use crate::work::{
    Conv, ConvKind, Extents, Place, Scalar, Vector, VectorKind, VpConfig, buffer_row_bytes,
    channel_bytes, element_bytes, pitch,
};
use quincunx_diag::{Diagnostic, Result};
use quincunx_graph::ValueId;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a search varies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Knobs {
    /// Images that go through the network together.
    pub(crate) group: u32,
    /// Images of a step of the array.
    pub(crate) chunk: u32,
    /// Steps on single images are cut into rows so that they take about this many cycles.
    pub(crate) rows: u64,
    /// Blocks of weights that a step on its own uses.
    pub(crate) set: u32,
    /// Parts of an image have at least this many rows.
    pub(crate) height: u32,
    /// Blocks of weights take at most this part of WL0.
    pub(crate) share: u32,
    /// Steps for which activations stay in L2 after their last reader, so that what comes next need
    /// not wait for it.
    pub(crate) linger: usize,
    /// Cycles that the DRAM port waits for room in WL0 before weights go through L2.
    pub(crate) patience: u64,
    /// Weights of every so many sets of a layer do not go through L2; 0: of none.
    pub(crate) direct: u32,
    /// Inputs are loaded when this many tiles of weights or fewer come before them.
    pub(crate) lead: usize,
}

/// Ways to cut of a network: one for all layers, others for some.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ways {
    /// Of all layers but those below. Only here the group and how long activations linger count.
    pub(crate) all: Knobs,
    /// Of single layers.
    pub(crate) layers: BTreeMap<usize, Knobs>,
}

impl Ways {
    /// The way in which a layer is cut.
    pub(crate) fn of(&self, layer: usize) -> Knobs {
        self.layers.get(&layer).copied().unwrap_or(self.all)
    }
}

/// A block of weights: output channels of a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tile {
    /// First output channel.
    pub(crate) first: u32,
    /// Output channels.
    pub(crate) channels: u32,
}

/// Images and rows of a layer's result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Piece {
    /// First image of the batch.
    pub(crate) image: u32,
    /// Images.
    pub(crate) images: u32,
    /// First row.
    pub(crate) row: u32,
    /// Rows.
    pub(crate) rows: u32,
}

/// How a layer with weights is cut, the same for all images.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    /// What the rows of the array divide.
    pub(crate) y: YCutMode,
    /// Blocks of weights; those of a set are in WL0 together.
    pub(crate) sets: Vec<Vec<Tile>>,
}

/// One workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Layer.
    pub(crate) layer: usize,
    /// Group of images.
    pub(crate) group: u32,
    /// Its part of the result.
    pub(crate) piece: Piece,
    /// Its set of weights, if it has weights.
    pub(crate) set: Option<usize>,
}

/// A machine, a network and how it is cut.
pub(crate) struct Cutter<'a> {
    pub(crate) arch: &'a NpuArch,
    pub(crate) model: Model,
    pub(crate) network: &'a Network,
    /// Columns of an input that are channels of the machine's tensor.
    pub(crate) folds: &'a FxHashMap<ValueId, u32>,
    pub(crate) minis: Minis,
    /// Ways to cut that were found, by layer, images of a group, and the knobs that count.
    pub(crate) cuts: FxHashMap<CutKey, Arc<Cut>>,
}

/// Layer, images of its group, chunk, rows, height, share and set.
pub(crate) type CutKey = (usize, u32, u32, u64, u32, u32, u32);

/// Extents of a tensor in memory whose columns are folded into channels.
pub(crate) fn folded([c, h, w]: Extents, fold: u32) -> Extents {
    [c * fold, h, w / fold]
}

/// The format of a grid.
pub(crate) fn format(grid: Grid) -> DataFmt {
    match grid {
        Grid::Codes { .. } => DataFmt::INT8,
        Grid::Half => DataFmt::FP16,
    }
}

/// Bytes of an image in L2.
pub(crate) fn image_bytes([c, h, w]: Extents, format: DataFmt) -> u64 {
    u64::from(pitch(c, element_bytes(format))) * u64::from(h) * u64::from(w)
}

/// The number of a code, or of half precision.
fn number(value: f64) -> Number {
    Number::real(value).unwrap_or(Number::whole(0))
}

/// Offset and factor of a quantiser as registers hold them.
pub(crate) fn quantiser(grid: Grid) -> (f64, f64) {
    match grid {
        Grid::Codes { scale, zero } => (f64::from(zero), 1.0 / scale),
        Grid::Half => (0.0, 0.0),
    }
}

/// Offset and factor that codes are read with; numbers of half precision stay what they are.
pub(crate) fn dequantiser(grid: Grid) -> (f32, f32) {
    match grid {
        Grid::Codes { scale, zero } => ((-f64::from(zero) * scale) as f32, scale as f32),
        Grid::Half => (0.0, 1.0),
    }
}

impl Cutter<'_> {
    /// The form of a value.
    pub(crate) fn form(&self, value: ValueId) -> Form {
        self.network.forms[&value]
    }

    /// Extents of a value in memory.
    pub(crate) fn extents(&self, value: ValueId) -> Extents {
        let root = self.network.root(value);
        folded(self.form(value).extents, self.folds.get(&root).copied().unwrap_or(1))
    }

    /// Window of a layer on its input as it lies in memory.
    pub(crate) fn frame(&self, layer: &Layer, frame: Frame) -> Frame {
        let root = self.network.root(layer.inputs[0]);
        match self.folds.get(&root) {
            None => frame,
            Some(&fold) => fold_frame(frame, fold).0,
        }
    }

    /// A convolution of all output channels of a piece, without addresses and mini tile; of products
    /// the first.
    pub(crate) fn conv(&self, layer: &Layer, piece: Piece) -> Conv {
        let (frame, groups) = match &layer.operation {
            Operation::Conv { frame, groups } => (self.frame(layer, *frame), *groups),
            Operation::Product(product) => return self.product(layer, product, piece),
            _ => unreachable!("the layer has weights"),
        };
        let source = self.extents(layer.inputs[0]);
        let output = self.form(layer.output);
        let Grid::Codes { zero, .. } = self.form(layer.inputs[0]).grid else {
            unreachable!("the input is of codes")
        };
        let kind = match (groups, frame.dilate, frame.insert) {
            (1, [1, 1], [1, 1]) => ConvKind::Plain,
            (1, [1, 1], _) => ConvKind::Transposed,
            (1, ..) => ConvKind::Dilated,
            _ => ConvKind::Grouped,
        };
        let rows = Rows::of(frame, piece, source, 0);
        Conv {
            kind,
            pad: number(zero.into()),
            source: [source[0], rows.height, source[2]],
            dest: output.extents,
            stride: frame.stride,
            kernel: frame.kernel,
            tile: [piece.images, output.extents[0], source[0], piece.rows, output.extents[2]],
            dilate: frame.dilate,
            insert: frame.insert,
            groups,
            start: [rows.start, frame.start[1]],
            input: Place { region: 0, address: rows.offset(source, frame, DataFmt::INT8) },
            ..plain_conv(layer.act, output.grid)
        }
    }

    /// The convolution of the first product of a layer, whose right operand is weights.
    fn product(&self, layer: &Layer, product: &Product, piece: Piece) -> Conv {
        let [input, output] = [layer.inputs[0], layer.output].map(|value| self.form(value));
        let channels = input.extents[0];
        let address = i64::from(piece.row) * i64::from(pitch(channels, 1));
        Conv {
            pad: number(product.taps.1.into()),
            source: [channels, product.rows - piece.row, 1],
            dest: [output.extents[0], product.rows, 1],
            kernel: product.kernel(),
            tile: [piece.images, product.columns, product.depth, piece.rows, 1],
            input: Place { region: 0, address },
            ..plain_conv(layer.act, output.grid)
        }
    }

    /// The part of a convolution that a block of weights gives, relative to the addresses of the
    /// whole.
    pub(crate) fn part(&mut self, whole: &Conv, y: YCutMode, tile: Tile) -> Result<(Conv, f64)> {
        let mut conv = Conv { y_cut: y, ..*whole };
        conv.tile[1] = tile.channels;
        if whole.groups > 1 {
            let per_group = whole.tile[1] / whole.groups;
            conv.groups = tile.channels / per_group;
            let channels = whole.weight_row()[0];
            conv.tile[2] = channels * conv.groups;
            conv.input.address += i64::from(tile.first / per_group * channels);
        }
        conv.output.address += i64::from(tile.first * element_bytes(conv.formats[2]));
        let Some((mini, cycles)) = self.minis.best(&conv, y, self.arch) else {
            let [r, s] = conv.kernel;
            let message = format!(
                "no tile of a convolution with kernel {r}x{s} fits the {} words of AL1",
                self.arch.al1_words
            );
            return Err(Diagnostic::unsupported("Q4091", message));
        };
        (conv.mini, conv.mini_image) = (mini.channels, mini.image);
        Ok((conv, cycles))
    }

    /// Units of WL0 that so many output channels take.
    pub(crate) fn units(&self, conv: &Conv, channels: u32) -> u32 {
        let row = buffer_row_bytes(conv.weight_row(), 1);
        let bytes = channel_bytes(channels.div_ceil(64) * 64, row);
        let units = bytes.div_ceil(self.arch.wl0_unit.into());
        u32::try_from(units).unwrap_or(u32::MAX)
    }

    /// The fastest way to cut layer number `index`, which has weights, for groups of so many images.
    pub(crate) fn cut(&mut self, index: usize, images: u32, knobs: &Knobs) -> Result<Arc<Cut>> {
        let &Knobs { chunk, rows, height, share, set, .. } = knobs;
        let key = (index, images, chunk, rows, height, share, set);
        if let Some(cut) = self.cuts.get(&key) {
            return Ok(Arc::clone(cut));
        }
        let layer = &self.network.layers[index];
        let pieces = self.pieces(layer, (0, images), knobs);
        let cut = Arc::new(self.best_cut(layer, &pieces, knobs)?);
        self.cuts.insert(key, Arc::clone(&cut));
        Ok(cut)
    }

    /// The fastest way to cut a layer with weights, all of whose pieces are given.
    fn best_cut(&mut self, layer: &Layer, pieces: &[Piece], knobs: &Knobs) -> Result<Cut> {
        let convs: Vec<Conv> = pieces.iter().map(|&piece| self.conv(layer, piece)).collect();
        let first = convs[0];
        let limit = (self.arch.wl0_units / knobs.share).max(1);
        let sizes = self.sizes(&first, limit)?;
        let mut best: Option<(f64, YCutMode, u32)> = None;
        for y in CUTS {
            for &size in &sizes {
                let tiles = tiles(first.tile[1], size);
                let mut total = 0.0;
                for conv in &convs {
                    for &tile in &tiles {
                        let Ok((part, _)) = self.part(conv, y, tile) else {
                            total = f64::INFINITY;
                            break;
                        };
                        total += conv_line_cycles(&part, 1, false, self.arch, self.model) as f64;
                    }
                }
                if total.is_finite() && best.is_none_or(|(least, ..)| total < least) {
                    best = Some((total, y, size));
                }
            }
        }
        let Some((_, y, size)) = best else {
            // Gives the reason.
            let tile = Tile { first: 0, channels: sizes[0] };
            return Err(self
                .part(&first, YCutMode::CUT_H, tile)
                .err()
                .unwrap_or_else(|| Diagnostic::bug("a layer without a cut")));
        };
        let tiles = tiles(first.tile[1], size);
        let units = self.units(&first, size).next_multiple_of(self.arch.wl0_align);
        // Two sets fit, so that one can be loaded while the other is used.
        let most = (self.arch.wl0_units / 2 / units.max(1)).max(1) as usize;
        let most = if pieces.len() > 1 { most } else { most.min(knobs.set as usize) };
        let sets = tiles.chunks(most).map(<[Tile]>::to_vec).collect();
        Ok(Cut { y, sets })
    }

    /// Output channels that a block of weights may have.
    fn sizes(&self, conv: &Conv, limit: u32) -> Result<Vec<u32>> {
        let k = conv.tile[1];
        let per_group = k / conv.groups;
        // Slices of a result begin at multiples of 8 bytes, those of groups at 8 input channels.
        let channels = conv.weight_row()[0];
        let grain = |size: u32| {
            let groups = size / per_group.max(1);
            conv.groups == 1
                || size == k
                || (size.is_multiple_of(per_group) && (groups * channels).is_multiple_of(8))
        };
        let step = self.arch.columns.max(1) * 8;
        let mut sizes: Vec<u32> = (1..=k.div_ceil(step)).map(|n| (n * step).min(k)).collect();
        sizes.retain(|&size| grain(size) && (size == k || size.is_multiple_of(8)));
        let all = sizes.clone();
        sizes.retain(|&size| self.units(conv, size) <= limit);
        if sizes.is_empty() {
            let most = self.arch.wl0_units;
            sizes.extend(all.first().copied().filter(|&size| self.units(conv, size) <= most));
        }
        if sizes.is_empty() {
            let size = all.first().copied().unwrap_or(k);
            let message = format!(
                "weights of {size} output channels need {} units of WL0, which has {}",
                self.units(conv, size),
                self.arch.wl0_units
            );
            return Err(Diagnostic::unsupported("Q4092", message)
                .help("the input channels of a sum cannot be divided exactly"));
        }
        // Equal blocks are enough: few sizes differ in cycles.
        sizes.dedup_by_key(|size| k.div_ceil(*size));
        Ok(sizes)
    }

    /// A vector instruction on one image of a piece, relative to the addresses of the images.
    pub(crate) fn vector(&self, layer: &Layer, piece: Piece) -> Vector {
        let [input, output] = [self.form(layer.inputs[0]), self.network.forms[&layer.output]];
        let dest = self.extents(layer.output);
        let source = self.extents(layer.inputs[0]);
        let channels = match layer.operation {
            Operation::Slice { .. } => source[0],
            _ => dest[0],
        };
        let tile = [channels, piece.rows, dest[2]];
        let formats = [format(input.grid), format(output.grid)];
        let (qb, qk) = quantiser(output.grid);
        let mut vector = Vector {
            kind: VectorKind::Single,
            config: plain(formats, dest, tile),
            dequantise: input.grid != Grid::Half,
            quantise: if output.grid == Grid::Half { 0 } else { 3 },
            shift: 0,
            groups: if layer.act == Act::None { 4 } else { 4 | 64 },
            reserved: [0; 4],
            scalar_result: 0,
            modules: 16,
            start: [0, 0],
            input: Place { region: 0, address: 0 },
            second: Place { region: 0, address: 0 },
            output: Place { region: 0, address: 0 },
        };
        vector.config.quantiser = (Float2Fixed::ROUND, QSMD::DEFAULT, qb as f32, qk as f32);
        vector.config.dequantisers[0] = dequantiser(input.grid);
        vector.output.address = row_offset(dest, piece.row, formats[1]);
        match layer.operation {
            Operation::Pool { frame, largest } => {
                let rows = Rows::of(frame, piece, source, frame.kernel[0]);
                vector.kind = VectorKind::Pool;
                vector.config.source = [source[0], rows.height, source[2]];
                (vector.config.stride, vector.config.window) = (frame.stride, frame.kernel);
                vector.start = [rows.start, frame.start[1]];
                vector.input.address = rows.offset(source, frame, formats[0]);
                if largest {
                    vector.modules = 17;
                    vector.config.compare.0 = CMPS::MAX;
                    vector.config.pad = i16::MIN;
                } else {
                    vector.modules = 56;
                    let area = f64::from(frame.kernel[0] * frame.kernel[1]);
                    vector.config.multiply.1.immediate = (1.0 / area) as f32;
                }
            }
            Operation::Enlarge { factors: [rows, columns] } => {
                vector.kind = VectorKind::Enlarge;
                vector.config.source = [source[0], piece.rows.div_ceil(rows), source[2]];
                vector.config.stride = [rows, columns];
                vector.config.pad = i16::MIN;
                vector.input.address = row_offset(source, piece.row / rows, formats[0]);
            }
            _ => {
                vector.config.source = tile;
                vector.input.address = row_offset(source, piece.row, formats[0]);
            }
        }
        if let Operation::Slice { first, .. } = layer.operation {
            vector.output.address += i64::from(first * element_bytes(formats[1]));
        }
        vector.second = vector.input;
        if let Act::Cap(limit) = layer.act {
            vector.modules |= 1;
            vector.config.compare = (CMPS::MIN, Scalar { register: 0, immediate: limit });
        }
        if layer.operation.has_two() {
            self.second(layer, piece, &mut vector);
        }
        vector
    }

    /// What an instruction does with the second operand of a layer.
    fn second(&self, layer: &Layer, piece: Piece, vector: &mut Vector) {
        let second = self.form(layer.inputs[1]);
        let extents = self.extents(layer.inputs[1]);
        let axes = axes(self.extents(layer.inputs[0]), extents).unwrap_or(7);
        let row = if axes & 4 == 0 { 0 } else { piece.row };
        vector.second.address = row_offset(extents, row, vector.config.formats[0]);
        vector.groups |= 1;
        vector.config.second_axes = axes;
        vector.config.dequantisers[1] = dequantiser(second.grid);
        match layer.operation {
            Operation::Multiply => {
                vector.modules |= 8;
                vector.config.multiply.0 = MG0S::TENSOR;
            }
            Operation::Subtract => {
                vector.modules |= 2;
                vector.config.sum0.0 = SG0M::SUB;
            }
            _ => vector.modules |= 2,
        }
    }

    /// Pieces of a layer's result of a group of images.
    pub(crate) fn pieces(
        &mut self,
        layer: &Layer,
        images: (u32, u32),
        knobs: &Knobs,
    ) -> Vec<Piece> {
        if let Operation::Function(_) = layer.operation {
            return functions::pieces(self, layer, images);
        }
        let (first, count) = images;
        let [_, rows, _] = self.extents(layer.output);
        let (rows, chunk) = match &layer.operation {
            Operation::Conv { .. } => (rows, knobs.chunk),
            Operation::Product(product) => (product.rows, 1),
            _ => (rows, knobs.group),
        };
        let whole = Piece { image: first, images: 1, row: 0, rows };
        let parts = match layer.operation {
            Operation::Turn(_) => 1,
            _ if count > 1 => 1,
            _ => self.parts(layer, whole, knobs),
        };
        let step = self.arch.rows.max(1);
        let mut pieces = Vec::new();
        let mut image = first;
        while image < first + count {
            let images = chunk.max(1).min(first + count - image);
            let blocks = rows.div_ceil(step);
            for part in 0..parts {
                let [row, end] = [part, part + 1].map(|at| (blocks * at / parts * step).min(rows));
                pieces.push(Piece { image, images, row, rows: end - row });
            }
            image += images;
        }
        pieces
    }

    /// Into how many parts the rows of an image are cut.
    fn parts(&mut self, layer: &Layer, whole: Piece, knobs: &Knobs) -> u32 {
        let blocks = whole.rows.div_ceil(self.arch.rows.max(1));
        let cycles = match layer.operation {
            Operation::Conv { .. } | Operation::Product(_) => {
                let conv = self.conv(layer, whole);
                let tile = Tile { first: 0, channels: conv.tile[1] };
                self.part(&conv, YCutMode::CUT_H, tile).map_or(0, |(_, cycles)| cycles as u64)
            }
            _ => vector_line_cycles(&self.vector(layer, whole), 1, self.arch, self.model),
        };
        let high = knobs.height.div_ceil(self.arch.rows.max(1)).max(1);
        let most = match layer.operation {
            // Pieces would begin within the repeats of a row.
            Operation::Enlarge { factors: [rows, _] } if !self.arch.rows.is_multiple_of(rows) => 1,
            // Or between the rows of the image.
            Operation::Conv { frame, .. } if frame.insert != [1, 1] => 1,
            _ => u64::from((blocks / high).max(1)),
        };
        ((cycles + knobs.rows / 2) / knobs.rows.max(1)).clamp(1, most) as u32
    }
}

/// Rows of the input that a piece begins to read at.
struct Rows {
    /// First row of the window: negative in the padding.
    start: i32,
    /// First row of the image that counts.
    first: u32,
    /// Rows of the image from there.
    height: u32,
}

impl Rows {
    /// Of a piece whose windows have these rows; with `window` 0 all rows below count.
    fn of(frame: Frame, piece: Piece, source: Extents, window: u32) -> Rows {
        let start = frame.start[0] + (piece.row * frame.stride[0]) as i32;
        let first = start.max(0) as u32;
        let below = source[1].saturating_sub(first);
        let height = match window {
            0 => below,
            _ => {
                let needed = (piece.rows - 1) * frame.stride[0] + window;
                below.min(needed.saturating_sub((-start.min(0)) as u32))
            }
        };
        Rows { start: start.min(0), first, height }
    }

    /// Byte of the first position of the first window, from that of the image.
    fn offset(&self, source: Extents, frame: Frame, format: DataFmt) -> i64 {
        let pixel = i64::from(pitch(source[0], element_bytes(format)));
        let row = i64::from(self.first) + i64::from(self.start);
        (row * i64::from(source[2]) + i64::from(frame.start[1])) * pixel
    }
}

/// Byte of a row of an image.
pub(crate) fn row_offset(extents: Extents, row: u32, format: DataFmt) -> i64 {
    let pixel = i64::from(pitch(extents[0], element_bytes(format)));
    i64::from(row) * i64::from(extents[2]) * pixel
}

/// Output channels in blocks of a size.
fn tiles(channels: u32, size: u32) -> Vec<Tile> {
    let block = |first: u32| Tile { first, channels: size.min(channels - first) };
    (0..channels).step_by(size.max(1) as usize).map(block).collect()
}

/// A convolution of single positions that ends like this, without its tensors.
fn plain_conv(act: Act, grid: Grid) -> Conv {
    let (qb, qk) = quantiser(grid);
    let place = Place { region: 0, address: 0 };
    Conv {
        kind: ConvKind::Plain,
        formats: [DataFmt::INT8, DataFmt::INT8, format(grid)],
        signed: [true, true],
        pad: number(0.0),
        source: [1; 3],
        dest: [1; 3],
        activation: match act {
            Act::None => (ActMode::DISABLE, number(0.0)),
            Act::Relu => (ActMode::RELU, number(0.0)),
            Act::Leaky(slope) => (ActMode::LEAKY_RELU, number(slope.into())),
            Act::Cap(limit) => (ActMode::RELU_X, number(limit.into())),
        },
        quantiser: match grid {
            Grid::Codes { .. } => (Float2Fixed::ROUND, number(qb), number(qk)),
            Grid::Half => (Float2Fixed::ROUND, Number::whole(0), Number::whole(0)),
        },
        accumulate: None,
        stride: [1, 1],
        y_cut: YCutMode::CUT_H,
        kernel: [1, 1],
        tile: [1; 5],
        mini: [1, 1],
        mini_image: [0, 0],
        dilate: [1, 1],
        insert: [1, 1],
        groups: 1,
        phase: 0,
        start: [0, 0],
        input: place,
        weights: 0,
        output: place,
    }
}

/// Registers that leave numbers as they are.
pub(crate) fn plain(formats: [DataFmt; 2], dest: Extents, tile: Extents) -> VpConfig {
    let none = Scalar { register: 0, immediate: 0.0 };
    VpConfig {
        formats,
        signed: [true, true],
        single: false,
        source: tile,
        dest,
        stride: [1, 1],
        window: [1, 1],
        tile,
        second_axes: 0,
        first_axes: 7,
        pad: 0,
        compare: (CMPS::DEFAULT, none),
        sum0: (SG0M::DEFAULT, none),
        segment: Ok(None),
        multiply: (MG0S::DEFAULT, none),
        sum1: (SG1M::DEFAULT, none),
        scalar: (SUMM::DEFAULT, none, none),
        quantiser: (Float2Fixed::ROUND, QSMD::DEFAULT, 0.0, 0.0),
        dequantiser_mode: 0,
        dequantisers: [(0.0, 0.0); 2],
    }
}

/// The window on an image whose columns are folded into channels, and by how many columns its kernel
/// grows on the left.
pub(crate) fn fold_frame(frame: Frame, fold: u32) -> (Frame, u32) {
    let step = fold as i32;
    let start = frame.start[1].div_euclid(step);
    let before = frame.start[1].rem_euclid(step) as u32;
    let columns = (before + frame.kernel[1]).div_ceil(fold);
    let folded = Frame {
        kernel: [frame.kernel[0], columns],
        stride: [frame.stride[0], frame.stride[1] / fold],
        dilate: frame.dilate,
        insert: frame.insert,
        start: [frame.start[0], start],
    };
    (folded, before)
}
