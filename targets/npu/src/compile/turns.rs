//! Transpositions that move numbers: those whose reader wants the last axis as channels.

use super::layers::{Form, shape};
use crate::ports::{Loop, View};
use crate::work::{Extents, Reorder};

/// What the reordering queue does with an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Turn {
    /// Number of the order.
    pub(crate) order: u8,
    /// Channels, rows and columns of the image as it reads them.
    pub(crate) tile: Extents,
}

/// The turn that brings numbers which lie in memory as `form` has them into the order of the value,
/// whose last axis becomes its channels, and how they are held then; `None` where the machine has
/// none.
pub(crate) fn turn(form: &Form, last: usize) -> Option<(Turn, Form)> {
    let [c, h, w] = form.extents;
    let image: u64 = form.extents.iter().map(|&extent| u64::from(extent)).product();
    let positions = image.checked_div(last as u64)? as usize;
    let axes = form.view.split(&[form.images as usize, positions, last])?;
    let outer: &[Loop] = if form.images == 1 { &[] } else { &[(form.images.into(), image)] };
    if axes[0] != outer {
        return None;
    }
    let [c, h, w] = [c, h, w].map(u64::from);
    // Rows, columns and channels of the source; rows and columns that stay together are rows.
    let sources = [[(h * w, c), (1, 0), (c, 1)], [(h, w * c), (w, c), (c, 1)]];
    let (source, [rows, columns, channels]) =
        sources.into_iter().find_map(|source| Some((source, axes_of(&axes[1..], &source)?)))?;
    let order = Reorder::ORDERS.iter().position(|axes| *axes == [rows, columns, channels])?;
    let extent = |axis: usize| source[axis].0 as usize;
    let dims = [form.images as usize, extent(channels), extent(rows), extent(columns)];
    let (_, extents) = shape(&dims).ok()?;
    let tile = [2, 0, 1].map(|axis| source[axis].0 as u32);
    let view = View::dense(u64::from(form.images) * image);
    Some((Turn { order: order as u8, tile }, Form { extents, view, ..*form }))
}

/// Which axes become rows, columns and channels when the loops of positions and of the last axis are
/// to follow one another. Axes of one entry go where an axis is missing.
fn axes_of(loops: &[Vec<Loop>], source: &[Loop; 3]) -> Option<[usize; 3]> {
    let within = |&(extent, step): &Loop| {
        let end = step.saturating_mul(extent);
        let inside = |&axis: &usize| source[axis].0 > 1 && (step..end).contains(&source[axis].1);
        let axes: Vec<usize> = (0..3).filter(inside).collect();
        (axes.iter().map(|&axis| source[axis].0).product::<u64>() == extent).then_some(axes)
    };
    let all =
        |loops: &Vec<Loop>| Some(loops.iter().map(within).collect::<Option<Vec<_>>>()?.concat());
    let (mut positions, mut last) = (all(&loops[0])?, all(&loops[1])?);
    let single = (0..3).filter(|&axis| source[axis].0 == 1);
    for axis in single {
        let list = if last.is_empty() { &mut last } else { &mut positions };
        list.push(axis);
    }
    match (&positions[..], &last[..]) {
        (&[rows, columns], &[channels]) => Some([rows, columns, channels]),
        _ => None,
    }
}
