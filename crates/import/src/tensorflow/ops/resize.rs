//! Resizing of images.

use crate::tensorflow::attributes::malformed;
use crate::tensorflow::context::Node;
use crate::tensorflow::layout::inverse;
use crate::tensorflow::reader::Stored;
use quincunx_diag::Result;
use quincunx_graph::{Coordinates, Interpolation, Nearest, Op, Resize, ResizeTarget, ValueId};
use quincunx_tensor::{DType, Tensor};

/// Largest height and width of a result.
const MAX_SIZE: usize = 1 << 16;

/// What both operators share.
struct Image {
    x: Stored,
    /// Stored positions of height and width.
    axes: [usize; 2],
    from: [usize; 2],
    to: [usize; 2],
    coordinates: Coordinates,
}

fn image(node: &mut Node<'_, '_>) -> Result<Image> {
    let size = node.target_shape(1, "the size")?;
    let x = node.stored(0)?;
    let &[height, width] = &size[..] else {
        return Err(malformed(format!("the size is {size:?}, expected height and width")));
    };
    if x.order.len() != 4 {
        return Err(malformed(format!("the operand has {} axes, expected 4", x.order.len())));
    }
    if height == 0 || width == 0 || height.max(width) > MAX_SIZE {
        return Err(node.unsupported(format_args!("a size of {height} by {width}")));
    }
    let extents = node.extents(&x);
    if extents[1] == 0 || extents[2] == 0 {
        return Err(malformed("an image without elements".to_owned()));
    }
    [1, 2].into_iter().for_each(|axis| node.reads_extent(&x, axis));
    let align = node.attributes.flag("align_corners", false)?;
    let half_pixel = node.attributes.flag("half_pixel_centers", false)?;
    let coordinates = match (align, half_pixel) {
        (true, true) => {
            return Err(malformed("both align_corners and half_pixel_centers".to_owned()));
        }
        (true, false) => Coordinates::AlignCorners,
        (false, true) => Coordinates::HalfPixel,
        (false, false) => Coordinates::Asymmetric,
    };
    let positions = inverse(&x.order);
    Ok(Image {
        axes: [positions[1], positions[2]],
        from: [extents[1], extents[2]],
        to: [height, width],
        coordinates,
        x,
    })
}

impl Image {
    fn op(&self, interpolation: Interpolation) -> Resize {
        Resize {
            axes: self.axes.to_vec(),
            target: self.target(),
            coordinates: self.coordinates,
            interpolation,
            exclude_outside: false,
            roi: Vec::new(),
        }
    }

    /// Factors that are powers of two are exact, so they may stand for the sizes.
    fn target(&self) -> ResizeTarget {
        let factor = |index: usize| {
            let (from, to) = (self.from[index], self.to[index]);
            let exact = |big: usize, small: usize| {
                big.is_multiple_of(small) && (big / small).is_power_of_two()
            };
            let scales = exact(from, to) || exact(to, from);
            scales.then(|| (to as f64 / from as f64) as f32)
        };
        match (factor(0), factor(1), self.coordinates) {
            (Some(height), Some(width), Coordinates::HalfPixel | Coordinates::Asymmetric) => {
                ResizeTarget::Scales(vec![height, width])
            }
            _ => ResizeTarget::Sizes(self.to.to_vec()),
        }
    }
}

/// The result is f32 whatever the operand is.
pub(super) fn bilinear(node: &mut Node<'_, '_>) -> Result<()> {
    let image = image(node)?;
    let op = Op::Resize(image.op(Interpolation::Linear));
    let x = match node.dtype(image.x.id) {
        DType::F32 => image.x.id,
        _ => node.before(Op::Cast { to: DType::F32 }, &[image.x.id])?,
    };
    node.emit_ordered(op, &[x], image.x.order)
}

/// TensorFlow finds the elements in f32. Where that gives others than exact arithmetic, they are
/// gathered one by one.
pub(super) fn nearest(node: &mut Node<'_, '_>) -> Result<()> {
    let image = image(node)?;
    let nearest = match image.coordinates {
        Coordinates::Asymmetric => Nearest::Floor,
        _ => Nearest::RoundPreferCeil,
    };
    let resize = image.op(Interpolation::Nearest(nearest));
    let elements = [0, 1].map(|index| elements(&image, index));
    let same = (0..2).all(|index| {
        let taps = resize.taps(index, image.from[index], image.to[index]);
        taps.iter()
            .map(|taps| taps.first().map(|tap| tap.0))
            .eq(elements[index].iter().copied().map(Some))
    });
    if same {
        return node.emit_ordered(Op::Resize(resize), &[image.x.id], image.x.order);
    }
    let [height, width] = elements;
    let rows = indices(node, height)?;
    let gathered = node.before(Op::Gather { axis: image.axes[0] }, &[image.x.id, rows])?;
    let columns = indices(node, width)?;
    node.emit_ordered(Op::Gather { axis: image.axes[1] }, &[gathered, columns], image.x.order)
}

/// The element of the operand that each element of the result is.
fn elements(image: &Image, index: usize) -> Vec<usize> {
    let (from, to) = (image.from[index], image.to[index]);
    let align = image.coordinates == Coordinates::AlignCorners && to > 1;
    let scale = match align {
        true => (from - 1) as f32 / (to - 1) as f32,
        false => from as f32 / to as f32,
    };
    let element = |o: usize| {
        let position = match image.coordinates {
            Coordinates::HalfPixel => ((o as f32 + 0.5) * scale).floor(),
            Coordinates::AlignCorners => (o as f32 * scale).round(),
            _ => (o as f32 * scale).floor(),
        };
        (position.max(0.0) as usize).min(from - 1)
    };
    (0..to).map(element).collect()
}

fn indices(node: &mut Node<'_, '_>, elements: Vec<usize>) -> Result<ValueId> {
    let indices: Vec<i64> = elements.iter().map(|&e| i64::try_from(e).unwrap_or(0)).collect();
    node.store(indices.len())?;
    node.add_constant(Tensor::from_vec(&[indices.len()], indices)?)
}
