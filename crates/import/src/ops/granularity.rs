//! How the parameters of a quantiser spread over a tensor: one for all, one per index of an axis, or
//! one per block along an axis.

use crate::attributes::malformed;
use crate::context::NodeContext;
use quincunx_diag::Result;
use quincunx_graph::Param;
use quincunx_tensor::{Tensor, element_count, show_shape};

/// Most elements of a tensor whose last block is cut short; its parameters become one per element.
const MAX_SPREAD: usize = 1 << 20;

/// Which elements share a parameter.
pub(super) enum Granularity {
    /// One parameter, or one for each index of an axis of a tensor of this shape.
    Axis { axis: i64, shape: Vec<usize> },
    /// Blocks that fill an axis. `divided` is the tensor's shape with the axis as blocks and
    /// elements of a block, `parameters` that of the parameters, with one element to a block, and
    /// `given` that which they have in the file.
    Blocks { divided: Vec<usize>, parameters: Vec<usize>, given: Vec<usize> },
    /// Blocks of which the last is not full: parameter `sources[i]` belongs to element `i`.
    Ragged { shape: Vec<usize>, given: Vec<usize>, sources: Vec<usize> },
}

impl Granularity {
    /// Reads `axis` and `block_size` of a node whose operand 1 is `scale`.
    pub(super) fn read(
        node: &mut NodeContext<'_, '_>,
        scale: &Tensor,
        shape: &[usize],
    ) -> Result<Self> {
        let axis = node.attributes.int("axis")?.unwrap_or(1);
        let block = node.attributes.int("block_size")?.unwrap_or(0);
        match usize::try_from(block) {
            Ok(0) => Ok(Granularity::Axis { axis, shape: shape.to_vec() }),
            Ok(block) => blocks(node, scale, shape, axis, block),
            Err(_) => {
                Err(malformed(format!("attribute \"block_size\" is {block}, expected 0 or more")))
            }
        }
    }

    /// The shape the tensor must have for the parameters to broadcast, if it is not its own.
    pub(super) fn divided(&self) -> Option<&[usize]> {
        match self {
            Granularity::Blocks { divided, .. } => Some(divided),
            Granularity::Axis { .. } | Granularity::Ragged { .. } => None,
        }
    }

    /// A parameter with these values, which broadcasts to [`Granularity::divided`] or the tensor.
    pub(super) fn param<T: Copy + PartialEq>(
        &self,
        tensor: &Tensor,
        values: Vec<T>,
        what: &str,
    ) -> Result<Param<T>> {
        let fits = |expected: &[usize]| match tensor.shape() == expected {
            true => Ok(()),
            false => Err(malformed(format!(
                "the {what} has shape {}, expected {}",
                show_shape(tensor.shape()),
                show_shape(expected)
            ))),
        };
        match self {
            Granularity::Axis { axis, shape } => per_axis(tensor, values, shape, *axis, what),
            Granularity::Blocks { parameters, given, .. } => {
                fits(given)?;
                Param::new(parameters, values)
            }
            Granularity::Ragged { shape, given, sources } => {
                fits(given)?;
                Param::new(shape, sources.iter().map(|&source| values[source]).collect())
            }
        }
    }
}

fn blocks(
    node: &NodeContext<'_, '_>,
    scale: &Tensor,
    shape: &[usize],
    axis: i64,
    block: usize,
) -> Result<Granularity> {
    let axis = position(axis, shape.len())
        .ok_or_else(|| malformed(format!("axis {axis} is none of {}", show_shape(shape))))?;
    let count = shape[axis].div_ceil(block);
    let mut given = shape.to_vec();
    given[axis] = count;
    if scale.shape() != given {
        return Err(malformed(format!(
            "the scale has shape {}, expected {} for blocks of {block} along axis {axis}",
            show_shape(scale.shape()),
            show_shape(&given)
        )));
    }
    if shape[axis].is_multiple_of(block) {
        let (mut divided, mut parameters) = (given.clone(), given.clone());
        divided.insert(axis + 1, block);
        parameters.insert(axis + 1, 1);
        return Ok(Granularity::Blocks { divided, parameters, given });
    }
    if element_count(shape).is_none_or(|elements| elements > MAX_SPREAD) {
        return Err(node.unsupported(format_args!(
            "block_size {block}, which does not divide axis {axis} of {}",
            show_shape(shape)
        )));
    }
    let inner: usize = shape[axis + 1..].iter().product();
    let outer: usize = shape[..axis].iter().product();
    let sources = (0..outer).flat_map(|o| {
        let row = move |d: usize| (0..inner).map(move |i| (o * count + d / block) * inner + i);
        (0..shape[axis]).flat_map(row)
    });
    Ok(Granularity::Ragged { sources: sources.collect(), shape: shape.to_vec(), given })
}

/// An axis that counts from the end when negative.
fn position(axis: i64, rank: usize) -> Option<usize> {
    let signed = i64::try_from(rank).ok()?;
    let position = if axis < 0 { axis.saturating_add(signed) } else { axis };
    usize::try_from(position).ok().filter(|&position| position < rank)
}

/// A parameter with one value, or one per index of an axis.
pub(super) fn per_axis<T: Copy + PartialEq>(
    tensor: &Tensor,
    values: Vec<T>,
    shape: &[usize],
    axis: i64,
    what: &str,
) -> Result<Param<T>> {
    if let ([value], 0 | 1) = (values.as_slice(), tensor.shape().len()) {
        return Ok(Param::uniform(*value));
    }
    match position(axis, shape.len()).map(|axis| (axis, shape[axis])) {
        Some((axis, extent)) if tensor.shape() == [extent] => {
            let mut param = vec![1; shape.len() - axis];
            param[0] = extent;
            Param::new(&param, values)
        }
        _ => Err(malformed(format!(
            "the {what} has shape {}, expected one value or one for each index of axis {axis} of {}",
            show_shape(tensor.shape()),
            show_shape(shape)
        ))),
    }
}
