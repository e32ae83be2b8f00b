//! Convolutions, poolings and normalisations of images.

#![deny(clippy::arithmetic_side_effects)]

use crate::tensorflow::attributes::malformed;
use crate::tensorflow::context::Node;
use crate::tensorflow::layout::{NCHW, Order, plain};
use crate::tensorflow::reader::Stored;
use quincunx_diag::Result;
use quincunx_graph::{
    BatchNorm, Conv, ConvTranspose, Lrn, Op, Pad, PadMode, Pool, PoolKind, Spatial, ValueId, Window,
};

/// Where the file keeps the axes of images.
pub(super) struct Format {
    /// The order in which images are stored for the graph's windows.
    pub(super) order: Order,
    /// Height and width in the file.
    pub(super) spatial: [usize; 2],
}

/// The attribute `data_format`.
pub(super) fn format(node: &Node<'_, '_>) -> Result<Format> {
    match node.attributes.text("data_format", "NHWC")? {
        "NHWC" => Ok(Format { order: NCHW.to_vec(), spatial: [1, 2] }),
        "NCHW" => Ok(Format { order: plain(4), spatial: [2, 3] }),
        other => {
            Err(node.unsupported(format_args!("data_format {other}; NHWC and NCHW are known")))
        }
    }
}

impl Format {
    /// Height and width of a list with one number per axis; the others must be 1. Absent lists
    /// are all 1.
    pub(super) fn pair(&self, node: &Node<'_, '_>, name: &str) -> Result<[usize; 2]> {
        let list = node.attributes.ints(name)?;
        if list.is_empty() {
            return Ok([1, 1]);
        }
        let positive = |axis: usize| usize::try_from(list[axis]).ok().filter(|&v| v >= 1);
        if list.len() != 4 {
            return Err(malformed(format!("{name} is {list:?}, expected four numbers")));
        }
        if (0..4).any(|axis| !self.spatial.contains(&axis) && list[axis] != 1) {
            return Err(node.unsupported(format_args!("{name} {list:?} over batch or channels")));
        }
        match self.spatial.map(positive) {
            [Some(height), Some(width)] => Ok([height, width]),
            _ => Err(malformed(format!("{name} is {list:?}, expected positive numbers"))),
        }
    }

    /// Padding before and after height and width.
    fn pads(
        &self,
        node: &mut Node<'_, '_>,
        x: &Stored,
        window: &Window,
    ) -> Result<[(usize, usize); 2]> {
        match node.attributes.text("padding", "")? {
            "VALID" => Ok([(0, 0); 2]),
            "SAME" => {
                let extents = node.extents(x);
                self.spatial.iter().for_each(|&axis| node.reads_extent(x, axis));
                let extents = self.spatial.map(|axis| extents[axis]);
                same(extents, window).ok_or_else(|| malformed("the window is too large".to_owned()))
            }
            "EXPLICIT" => {
                let list = node.attributes.ints("explicit_paddings")?;
                let pad = |&pad: &i64| usize::try_from(pad).ok();
                let pair = |axis: usize| match list.as_chunks::<2>().0.get(axis)? {
                    [before, after] => Some((pad(before)?, pad(after)?)),
                };
                let none = |axis: usize| self.spatial.contains(&axis) || pair(axis) == Some((0, 0));
                match self.spatial.map(pair) {
                    [Some(height), Some(width)] if list.len() == 8 && (0..4).all(none) => {
                        Ok([height, width])
                    }
                    _ => Err(malformed(format!("explicit_paddings is {list:?}"))),
                }
            }
            other => {
                Err(malformed(format!("padding is \"{other}\", expected SAME, VALID or EXPLICIT")))
            }
        }
    }
}

/// The padding with which there are `ceil(extent / stride)` positions; an odd element goes after.
/// `None` when it overflows.
fn same(extents: [usize; 2], window: &Window) -> Option<[(usize, usize); 2]> {
    let mut pads = [(0, 0); 2];
    for axis in 0..2 {
        let (extent, stride) = (extents[axis], window.strides[axis]);
        let last = extent.div_ceil(stride).saturating_sub(1).checked_mul(stride)?;
        let total = last.checked_add(window.span(axis)?)?.saturating_sub(extent);
        pads[axis] = (total / 2, total.div_ceil(2));
    }
    Some(pads)
}

pub(super) fn conv(node: &mut Node<'_, '_>) -> Result<()> {
    let Parts { op, x, w, order } = conv_parts(node)?;
    node.emit_ordered(op, &[x, w], order)
}

/// A convolution without bias.
pub(super) struct Parts {
    pub(super) op: Op,
    pub(super) x: ValueId,
    pub(super) w: ValueId,
    pub(super) order: Order,
}

/// The convolution of operand 0 with a kernel `[H, W, C / groups, M]` that is operand 1.
pub(super) fn conv_parts(node: &mut Node<'_, '_>) -> Result<Parts> {
    let w = node.ordered(1, &[3, 2, 0, 1])?;
    with_weights(node, w)
}

/// The kernel is `[H, W, C, K]`: `K` results for each channel.
pub(super) fn depthwise_conv(node: &mut Node<'_, '_>) -> Result<()> {
    let w = depthwise_weights(node, 1)?;
    let Parts { op, x, w, order } = with_weights(node, w)?;
    node.emit_ordered(op, &[x, w], order)
}

/// Weights `[C * K, 1, H, W]` from a kernel `[H, W, C, K]`.
pub(super) fn depthwise_weights(node: &mut Node<'_, '_>, index: usize) -> Result<ValueId> {
    let w = node.ordered(index, &[2, 3, 0, 1])?;
    let shape = node.stored_shape(w);
    let rows = shape[0].checked_mul(shape[1]);
    let extents = rows.map(|rows| [rows, 1, shape[2], shape[3]]);
    let extents = extents.ok_or_else(|| malformed("too many channels".to_owned()))?;
    super::shape::reshaped(node, w, &extents)
}

fn with_weights(node: &mut Node<'_, '_>, w: ValueId) -> Result<Parts> {
    let format = format(node)?;
    let mut x = node.stored(0)?;
    if x.order.len() != 4 {
        return Err(malformed(format!("the operand has {} axes, expected 4", x.order.len())));
    }
    let shape = node.stored_shape(w);
    let mut window = window(&shape[2..]).ok_or_else(|| malformed("an empty kernel".to_owned()))?;
    window.strides = Spatial::from(format.pair(node, "strides")?);
    window.dilations = Spatial::from(format.pair(node, "dilations")?);
    let mut pads = format.pads(node, &x, &window)?;
    if let Some(absorbed) = absorb_padding(node, &x, format.spatial, pads) {
        (x, pads) = absorbed;
    }
    window.pads = pads.into();
    let x = node.view(&x, &format.order)?;
    let channels = node.stored_shape(x)[1];
    let groups = channels.checked_div(shape[1]).filter(|_| channels.is_multiple_of(shape[1]));
    let groups = groups.filter(|&groups| groups > 0).ok_or_else(|| {
        malformed(format!("{channels} channels do not fit a kernel for {}", shape[1]))
    })?;
    Ok(Parts { op: Op::Conv(Conv { window, groups }), x, w, order: format.order })
}

/// The window over a kernel; `None` when an extent is 0.
pub(super) fn window(kernel: &[usize]) -> Option<Window> {
    kernel.iter().all(|&extent| extent >= 1).then(|| Window::new(kernel))
}

/// If `x` is padded with zeros along its spatial axes only, the window does it instead: what is
/// padded, and the padding of the window.
fn absorb_padding(
    node: &Node<'_, '_>,
    x: &Stored,
    spatial: [usize; 2],
    pads: [(usize, usize); 2],
) -> Option<(Stored, [(usize, usize); 2])> {
    let (op, inputs) = node.producer(x.id)?;
    let Op::Pad(Pad { pads: given, mode: PadMode::Constant(0.0) }) = op else {
        return None;
    };
    let mut total = pads;
    for (&axis, &(before, after)) in x.order.iter().zip(&given) {
        let pad = (usize::try_from(before).ok()?, usize::try_from(after).ok()?);
        match spatial.iter().position(|&s| s == axis) {
            Some(index) => {
                let (first, last) = total[index];
                total[index] = (first.checked_add(pad.0)?, last.checked_add(pad.1)?);
            }
            None if pad == (0, 0) => {}
            None => return None,
        }
    }
    Some((Stored { id: inputs.first().copied().flatten()?, order: x.order.clone() }, total))
}

/// `Conv2DBackpropInput(sizes, kernel, x)`: the gradient of a convolution is a transposed one.
pub(super) fn conv_transpose(node: &mut Node<'_, '_>) -> Result<()> {
    let format = format(node)?;
    let sizes = node.target_shape(0, "input_sizes")?;
    // TensorFlow also takes height and width alone.
    let sizes = match sizes[..] {
        [_, _, _, _] => format.spatial.map(|axis| sizes[axis]),
        [height, width] => [height, width],
        _ => return Err(malformed(format!("input_sizes is {sizes:?}, expected four extents"))),
    };
    let w = node.ordered(1, &[3, 2, 0, 1])?;
    let x = node.ordered(2, &format.order)?;
    let (shape, extents) = (node.stored_shape(w), node.stored_shape(x));
    let mut window = window(&shape[2..]).ok_or_else(|| malformed("an empty kernel".to_owned()))?;
    window.strides = Spatial::from(format.pair(node, "strides")?);
    window.dilations = Spatial::from(format.pair(node, "dilations")?);
    let pads = match node.attributes.text("padding", "")? {
        "SAME" => same(sizes, &window).ok_or_else(|| malformed("a huge window".to_owned()))?,
        "VALID" => [(0, 0); 2],
        other => return Err(node.unsupported(format_args!("padding {other}"))),
    };
    window.pads = pads.into();
    if extents[1] != shape[0] {
        return Err(node.unsupported("a kernel with channel groups"));
    }
    let mut conv = ConvTranspose { window, groups: 1, output_padding: Spatial::from([0, 0]) };
    for axis in 0..2 {
        let least = conv.extent(axis, extents[2..][axis]);
        let missing = least.and_then(|least| sizes[axis].checked_sub(least));
        conv.output_padding[axis] = missing
            .filter(|&missing| missing < conv.window.strides[axis])
            .ok_or_else(|| malformed(format!("input_sizes {sizes:?} do not fit the operand")))?;
    }
    node.emit_ordered(Op::ConvTranspose(conv), &[x, w], format.order)
}

pub(super) fn pool(node: &mut Node<'_, '_>, kind: PoolKind) -> Result<()> {
    let format = format(node)?;
    let x = Stored { id: node.ordered(0, &format.order)?, order: format.order.clone() };
    let mut window = Window::new(&format.pair(node, "ksize")?);
    window.strides = Spatial::from(format.pair(node, "strides")?);
    window.pads = format.pads(node, &x, &window)?.into();
    node.emit_ordered(Op::Pool(Pool { kind, window, ceil: false }), &[x.id], x.order)
}

pub(super) fn batch_norm(node: &mut Node<'_, '_>) -> Result<()> {
    if node.attributes.flag("is_training", true)? {
        return Err(node.unsupported("is_training is true; save the model for inference"));
    }
    let format = format(node)?;
    let epsilon = node.attributes.float("epsilon", 1e-4)?;
    let x = node.ordered(0, &format.order)?;
    let mut operands = vec![x];
    for index in 1..5 {
        operands.push(node.plain(index)?);
    }
    node.emit_ordered(Op::BatchNorm(BatchNorm { epsilon }), &operands, format.order)
}

/// TensorFlow's `alpha` is a factor of the sum, the graph's of the mean.
pub(super) fn lrn(node: &mut Node<'_, '_>) -> Result<()> {
    let radius = node.attributes.int("depth_radius", 5)?;
    let size = usize::try_from(radius).ok().filter(|&radius| radius < 1 << 20);
    let size = size.ok_or_else(|| malformed(format!("depth_radius is {radius}")))?;
    let size = size.saturating_mul(2).saturating_add(1);
    let lrn = Lrn {
        size,
        alpha: node.attributes.float("alpha", 1.0)? * size as f32,
        beta: node.attributes.float("beta", 0.5)?,
        bias: node.attributes.float("bias", 1.0)?,
    };
    let x = node.ordered(0, &NCHW)?;
    node.emit_ordered(Op::Lrn(lrn), &[x], NCHW.to_vec())
}
