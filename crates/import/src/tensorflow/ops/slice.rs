//! Operators that select elements.

use super::one_axis;
use super::shape::regrouped;
use crate::tensorflow::attributes::malformed;
use crate::tensorflow::context::Node;
use crate::tensorflow::layout::inverse;
use crate::tensorflow::reader::Stored;
use crate::tensorflow::wires::MOST_SLOTS;
use quincunx_diag::Result;
use quincunx_graph::{Op, SliceRange, ValueId};

/// `Slice(x, begin, size)`; a size of -1 takes the rest.
pub(super) fn slice(node: &mut Node<'_, '_>) -> Result<()> {
    let begin = node.integers(1, "begin")?;
    let size = node.integers(2, "size")?;
    let x = node.stored(0)?;
    let extents = node.extents(&x);
    if [begin.len(), size.len()] != [extents.len(); 2] {
        return Err(malformed(format!("begin {begin:?} and size {size:?} do not fit the operand")));
    }
    let positions = inverse(&x.order);
    let mut ranges = Vec::new();
    for (axis, (&start, &size)) in begin.iter().zip(&size).enumerate() {
        let extent = i64::try_from(extents[axis]).unwrap_or(i64::MAX);
        let end = if size == -1 { i64::MAX } else { start.saturating_add(size) };
        if start < 0 || size < -1 || start > extent || (size != -1 && end > extent) {
            return Err(malformed(format!(
                "{size} elements from {start} of axis {axis}, which has {extent}"
            )));
        }
        if start > 0 || size != -1 {
            ranges.push(SliceRange { axis: positions[axis], start, end, step: 1 });
        }
    }
    node.emit_ordered(Op::Slice { ranges }, &[x.id], x.order)
}

/// What one entry of a strided slice means.
struct Parts {
    ranges: Vec<SliceRange>,
    removed: Vec<usize>,
    added: Vec<usize>,
}

/// `StridedSlice(x, begin, end, strides)` with its five masks.
pub(super) fn strided_slice(node: &mut Node<'_, '_>) -> Result<()> {
    let x = node.stored(0)?;
    let Parts { mut ranges, removed, added } = parts(node, &x)?;
    let positions = inverse(&x.order);
    ranges.iter_mut().for_each(|range| range.axis = positions[range.axis]);
    if removed.is_empty() && added.is_empty() {
        return node.emit_ordered(Op::Slice { ranges }, &[x.id], x.order);
    }
    let sliced = match ranges.is_empty() {
        true => x,
        false => Stored { id: node.before(Op::Slice { ranges }, &[x.id])?, order: x.order },
    };
    let (shape, order) = regrouped(node, &sliced, &removed, &added)?;
    node.emit_ordered(Op::Reshape { shape }, &[sliced.id], order)
}

/// Reads the entries: each takes an axis of the operand, adds an axis, or (once) stands for the
/// axes that no other entry takes.
fn parts(node: &mut Node<'_, '_>, x: &Stored) -> Result<Parts> {
    let mask = |name| {
        let mask = node.attributes.int(name, 0);
        mask.map(|mask| move |entry: usize| entry < 63 && mask >> entry & 1 == 1)
    };
    let (ellipsis, new_axis) = (mask("ellipsis_mask")?, mask("new_axis_mask")?);
    let shrink = mask("shrink_axis_mask")?;
    let (open_begin, open_end) = (mask("begin_mask")?, mask("end_mask")?);
    let begin = node.integers(1, "begin")?;
    let end = node.integers(2, "end")?;
    let strides = node.integers(3, "strides")?;
    let count = begin.len();
    let rank = x.order.len();
    if count > 62 || end.len() != count || strides.len() != count {
        return Err(malformed(format!("begin {begin:?}, end {end:?} and strides {strides:?}")));
    }
    let taken = (0..count).filter(|&e| !ellipsis(e) && !new_axis(e)).count();
    if (0..count).filter(|&e| ellipsis(e)).count() > 1 || taken > rank {
        return Err(malformed(format!("{count} entries do not fit {rank} axes")));
    }
    let mut parts = Parts { ranges: Vec::new(), removed: Vec::new(), added: Vec::new() };
    let (mut axis, mut result) = (0, 0);
    for entry in 0..count {
        if ellipsis(entry) {
            axis += rank - taken;
            result += rank - taken;
        } else if new_axis(entry) {
            parts.added.push(result);
            result += 1;
        } else if shrink(entry) {
            parts.ranges.push(element(node, x, axis, begin[entry])?);
            parts.removed.push(axis);
            axis += 1;
        } else {
            let first = (!open_begin(entry)).then_some(begin[entry]);
            let end = (!open_end(entry)).then_some(end[entry]);
            parts.ranges.extend(range(node, x, axis, first, end, strides[entry])?);
            axis += 1;
            result += 1;
        }
    }
    Ok(parts)
}

/// One element of an axis that is removed afterwards.
fn element(node: &Node<'_, '_>, x: &Stored, axis: usize, at: i64) -> Result<SliceRange> {
    let extent = i64::try_from(node.extents(x)[axis]).unwrap_or(i64::MAX);
    if at >= extent || at < -extent {
        return Err(malformed(format!("element {at} of axis {axis}, which has {extent}")));
    }
    let end = if at == -1 { i64::MAX } else { at + 1 };
    Ok(SliceRange { axis, start: at, end, step: 1 })
}

/// The range of an axis; `None` for all of it.
fn range(
    node: &mut Node<'_, '_>,
    x: &Stored,
    axis: usize,
    begin: Option<i64>,
    end: Option<i64>,
    step: i64,
) -> Result<Option<SliceRange>> {
    if step == 0 {
        return Err(malformed("a stride of 0".to_owned()));
    }
    let (first, last) = if step > 0 { (0, i64::MAX) } else { (-1, i64::MIN) };
    let extent = i64::try_from(node.extents(x)[axis]).unwrap_or(i64::MAX);
    if step < 0 && begin.is_some_and(|begin| begin < -extent) {
        // Backwards from before the first element there is nothing.
        node.reads_extent(x, axis);
        return Ok(Some(SliceRange { axis, start: 0, end: 0, step: 1 }));
    }
    let range = SliceRange { axis, start: begin.unwrap_or(first), end: end.unwrap_or(last), step };
    let whole = begin.is_none_or(|begin| begin == 0) && end.is_none() && step == 1;
    Ok((!whole).then_some(range))
}

/// `Split(axis, x)` into equal parts.
pub(super) fn split(node: &mut Node<'_, '_>) -> Result<()> {
    let axis = node.integer(0, "the axis")?;
    let count = count(node, "num_split")?;
    let x = node.stored(1)?;
    let axis = one_axis(axis, x.order.len(), "the axis")?;
    let extent = node.extents(&x)[axis];
    node.reads_extent(&x, axis);
    if !extent.is_multiple_of(count) {
        return Err(malformed(format!("{count} equal parts of extent {extent}")));
    }
    split_into(node, &x, axis, &vec![extent / count; count])
}

/// `SplitV(x, sizes, axis)`; one size may be -1, which takes the rest.
pub(super) fn split_v(node: &mut Node<'_, '_>) -> Result<()> {
    let sizes = node.long_list(1, "the sizes", MOST_SLOTS)?;
    let axis = node.integer(2, "the axis")?;
    let x = node.stored(0)?;
    let axis = one_axis(axis, x.order.len(), "the axis")?;
    let extent = node.extents(&x)[axis];
    let open = sizes.iter().filter(|&&size| size == -1).count();
    let known: Option<Vec<usize>> =
        sizes.iter().filter(|&&size| size != -1).map(|&s| usize::try_from(s).ok()).collect();
    let total = known.and_then(|known| known.into_iter().try_fold(0_usize, usize::checked_add));
    let rest = total.and_then(|total| extent.checked_sub(total));
    let rest = rest.filter(|&rest| open == 1 || (open == 0 && rest == 0)).ok_or_else(|| {
        malformed(format!("{} sizes that do not fit extent {extent}", sizes.len()))
    })?;
    if open == 1 {
        node.reads_extent(&x, axis);
    }
    let sizes: Vec<usize> = sizes.iter().map(|&s| usize::try_from(s).unwrap_or(rest)).collect();
    split_into(node, &x, axis, &sizes)
}

fn split_into(node: &mut Node<'_, '_>, x: &Stored, axis: usize, sizes: &[usize]) -> Result<()> {
    let mut start = 0;
    for (slot, &size) in sizes.iter().enumerate() {
        let op = part(x, axis, start, size);
        node.emit_slot(slot, op, &[x.id], x.order.clone())?;
        start += size;
    }
    Ok(())
}

fn part(x: &Stored, axis: usize, start: usize, size: usize) -> Op {
    let bound = |position: usize| i64::try_from(position).unwrap_or(i64::MAX);
    let axis = inverse(&x.order)[axis];
    Op::Slice {
        ranges: vec![SliceRange { axis, start: bound(start), end: bound(start + size), step: 1 }],
    }
}

/// The elements along an axis, without it.
pub(super) fn unpack(node: &mut Node<'_, '_>) -> Result<()> {
    let count = count(node, "num")?;
    let axis = node.attributes.int("axis", 0)?;
    let x = node.stored(0)?;
    let axis = one_axis(axis, x.order.len(), "the axis")?;
    if node.extents(&x)[axis] != count {
        return Err(malformed(format!("{count} parts of extent {}", node.extents(&x)[axis])));
    }
    for slot in 0..count {
        let id: ValueId = node.before(part(&x, axis, slot, 1), &[x.id])?;
        let one = Stored { id, order: x.order.clone() };
        let (shape, order) = regrouped(node, &one, &[axis], &[])?;
        node.emit_slot(slot, Op::Reshape { shape }, &[id], order)?;
    }
    Ok(())
}

fn count(node: &Node<'_, '_>, name: &str) -> Result<usize> {
    let count = node.attributes.int(name, 0)?;
    let valid = usize::try_from(count).ok().filter(|count| (1..=MOST_SLOTS).contains(count));
    valid.ok_or_else(|| malformed(format!("{name} is {count}")))
}

/// `Gather(x, indices)` along the first axis.
pub(super) fn gather(node: &mut Node<'_, '_>) -> Result<()> {
    let (x, indices) = (node.plain(0)?, node.plain(1)?);
    node.emit(Op::Gather { axis: 0 }, &[x, indices])
}

/// `GatherV2(x, indices, axis)`.
pub(super) fn gather_v2(node: &mut Node<'_, '_>) -> Result<()> {
    if node.attributes.int("batch_dims", 0)? != 0 {
        return Err(node.unsupported("batch_dims other than 0"));
    }
    let axis = node.integer(2, "the axis")?;
    let axis = one_axis(axis, node.shape(0)?.len(), "the axis")?;
    let (x, indices) = (node.plain(0)?, node.plain(1)?);
    node.emit(Op::Gather { axis }, &[x, indices])
}
