//! Functions from tables, and softmax.

use super::arithmetic::Arithmetic;
use super::choices::{Choices, Table};
use super::layers::each;
use super::{Scalars, misfit, never_claimed};
use crate::arch::DataType;
use quincunx_diag::Result;
use quincunx_graph::{Node, Softmax};

/// The tables of a node, as many as it uses.
fn tables_of<'a, const N: usize>(choices: &'a Choices, node: &Node) -> Result<[&'a Table; N]> {
    let lookup = choices.lookups.get(&node.name);
    let lookup = lookup.ok_or_else(|| misfit(format!("{:?} has no tables", node.name)))?;
    let table = |name: &String| choices.tables.get(name);
    let tables: Option<Vec<&Table>> = lookup.tables.iter().map(table).collect();
    tables
        .and_then(|tables| tables.try_into().ok())
        .ok_or_else(|| misfit(format!("{:?} needs {N} existing tables", node.name)))
}

/// What a table says about a number: the entry of the closest key, the lower one of two and the first
/// of equal ones, and from there along its slope.
fn look_up<A: Arithmetic>(table: &Table, x: i32) -> i32 {
    let nearest = table.keys.iter().enumerate().reduce(|best, next| {
        let distance = |key: i32| i64::from(x).abs_diff(key.into());
        let (known, new) = (distance(*best.1), distance(*next.1));
        if new < known || (new == known && next.1 < best.1) { next } else { best }
    });
    let Some((entry, &key)) = nearest else { return 0 };
    match &table.slopes {
        None => table.values[entry],
        Some(slopes) => {
            let rise = A::multiply(A::subtract(x, key), slopes[entry]);
            A::add(table.values[entry], rise)
        }
    }
}

/// The function of a node on every element.
pub(super) fn function<A: Arithmetic>(
    choices: &Choices,
    node: &Node,
    x: &Scalars,
) -> Result<Scalars> {
    let [table] = tables_of(choices, node)?;
    Ok(each(x, |x| look_up::<A>(table, x)))
}

/// `e^(x - max)` times the reciprocal of its sum. Channels are summed block by block.
pub(super) fn softmax<A: Arithmetic>(
    choices: &Choices,
    softmax: &Softmax,
    node: &Node,
    x: &Scalars,
) -> Result<Scalars> {
    if softmax.log || choices.data_type == DataType::Float32 {
        return Err(never_claimed("such a softmax"));
    }
    let [exponential, reciprocal] = tables_of(choices, node)?;
    let count = x.shape[softmax.axis];
    let inner: usize = x.shape[softmax.axis + 1..].iter().product();
    let of_channels = softmax.axis == usize::from(x.shape.len() > 1);
    let block = if of_channels { choices.lanes } else { count };
    let mut data = vec![0; x.data.len()];
    for first in (0..x.data.len()).filter(|at| (at / inner.max(1)).is_multiple_of(count)) {
        let places = (0..count).map(|at| first + at * inner);
        let largest = places.clone().map(|at| x.data[at]).reduce(A::max).unwrap_or_default();
        for at in places.clone() {
            data[at] = look_up::<A>(exponential, A::subtract(x.data[at], largest));
        }
        let powers: Vec<i32> = places.clone().map(|at| data[at]).collect();
        let of_block = |block: &[i32]| block.iter().copied().reduce(A::add).unwrap_or_default();
        let sum = powers.chunks(block).map(of_block).reduce(A::add).unwrap_or_default();
        let factor = look_up::<A>(reciprocal, sum);
        places.for_each(|at| data[at] = A::multiply(data[at], factor));
    }
    Ok(Scalars::new(&x.shape, data))
}
