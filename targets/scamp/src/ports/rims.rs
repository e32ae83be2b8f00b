//! What the edge of the array spoils of the values of a network.

use super::{Area, Lie, Span, margin};
use crate::isa::Reg;
use crate::program::Program;
use crate::simulate::Edge;
use crate::symbolic::{Reach, Reaches, reaches};
use quincunx_contract::Rim;
use quincunx_diag::{Diagnostic, Result};

/// The array that a program runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Array {
    pub(crate) height: usize,
    pub(crate) width: usize,
    pub(crate) edge: Edge,
    /// The 1-bit register that is not always written.
    pub(crate) masked: Reg,
}

/// The results of which the edge spoils something. A rim without a pixel inside is one of which
/// nothing is right.
///
/// # Errors
/// `Q5045` for a program that does more than the bus and its masks do.
pub(crate) fn rims(
    program: &Program,
    inputs: &[Lie],
    results: &[Lie],
    array: Array,
) -> Result<Vec<Rim>> {
    let margin = margin(inputs.iter().map(|lie| lie.area), array.height, array.width);
    let planes = |lies: &[Lie]| lies.iter().flat_map(|lie| lie.planes.clone()).collect::<Vec<_>>();
    let images: Vec<Reg> = planes(inputs).into_iter().map(|plane| plane.register.1).collect();
    let reads: Vec<_> = planes(results).iter().map(|plane| (plane.after, plane.register)).collect();
    let state = Reaches::new(&images, margin, array.edge == Edge::Stale)
        .with_patterns([array.height, array.width], array.masked);
    let (reached, _) = reaches(program, state, &reads).ok_or_else(|| {
        let message = "what the edge of the array spoils is known for programs of the bus only";
        Diagnostic::unsupported("Q5045", message)
    })?;
    let mut reached = reached.into_iter();
    let rim = |lie: &Lie| {
        let of_lie: Vec<Reach> = reached.by_ref().take(lie.planes.len()).collect();
        rim(lie, &of_lie, array)
    };
    Ok(results.iter().filter_map(rim).collect())
}

/// The problem of a value of which the edge leaves nothing right.
pub(crate) fn lost(rims: &[Rim]) -> Option<(&str, Diagnostic)> {
    let rim = rims.iter().find(|rim| rim.inside.iter().any(|(from, to)| from >= to))?;
    let message = format!("the edge of the array spoils all pixels of \"{}\"", rim.value);
    let problem = Diagnostic::unsupported("Q5044", message)
        .help("a smaller image, or a larger array (`--size`), has fewer spoilt pixels");
    Some((&rim.value, problem))
}

/// The part of a result that is not spoilt; `None` when that is all of it.
fn rim(lie: &Lie, reached: &[Reach], array: Array) -> Option<Rim> {
    let most = |side: usize| reached.iter().map(|reach| reach.spoilt[side]).max().unwrap_or(0);
    let Area { rows, columns } = lie.area;
    let rows = inside(rows, most(0), most(2), array.height);
    let columns = inside(columns, most(3), most(1), array.width);
    let rim = Rim {
        value: lie.value.clone(),
        inside: vec![(0, 1), (0, lie.planes.len()), rows, columns],
    };
    let whole = lie.shape().iter().zip(&rim.inside).all(|(&extent, &range)| range == (0, extent));
    (!whole).then_some(rim)
}

/// The first place of a span that is right and the one behind the last, where so many elements at
/// the beginning and at the end of the array are spoilt.
fn inside(span: Span, before: i64, after: i64, size: usize) -> (usize, usize) {
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    let right = before..size.saturating_sub(after);
    let is_right = |position: usize| right.contains(&i64::try_from(position).unwrap_or(i64::MAX));
    let mut places = span.positions().enumerate().filter(|(_, position)| is_right(*position));
    let Some((from, _)) = places.next() else { return (0, 0) };
    (from, places.last().map_or(from, |(last, _)| last).saturating_add(1))
}
