//! Poolings, reductions, resizing and operations on single elements.

use super::arithmetic::Arithmetic;
use super::choices::{Choices, MeanStep};
use super::windows::Reads;
use super::{Scalars, never_claimed};
use crate::arch::DataType;
use quincunx_diag::Result;
use quincunx_graph::{
    Binary, Coordinates, Interpolation, Pool, PoolKind, Reduce, ReduceKind, Resize, ResizeTaps,
};
use quincunx_tensor::View;

/// Two operands, element by element, repeated as far as the result needs.
pub(super) fn binary<A: Arithmetic>(
    binary: Binary,
    x: &Scalars,
    y: &Scalars,
    shape: &[usize],
) -> Result<Scalars> {
    let operation: fn(i32, i32) -> i32 = match binary {
        Binary::Add => A::add,
        Binary::Sub => A::subtract,
        Binary::Mul => A::multiply,
        Binary::Max => A::max,
        Binary::Min => A::min,
        Binary::Div | Binary::Pow => return Err(never_claimed("such an operation")),
    };
    let views = (View::new(&x.data, &x.shape), View::new(&y.data, &y.shape));
    let (Some(x), Some(y)) = (views.0.broadcast(shape), views.1.broadcast(shape)) else {
        return Err(never_claimed("operands of other shapes"));
    };
    Ok(Scalars::new(shape, x.iter().zip(y.iter()).map(|(x, y)| operation(x, y)).collect()))
}

/// `operation` on every element.
pub(super) fn each(x: &Scalars, operation: impl Fn(i32) -> i32) -> Scalars {
    Scalars::new(&x.shape, x.data.iter().map(|&x| operation(x)).collect())
}

/// The operation of every element and the number of its channel.
pub(super) fn each_channel(
    x: &Scalars,
    numbers: &[i32],
    operation: impl Fn(i32, i32) -> i32,
) -> Scalars {
    let planes = x.data.chunks_exact(x.plane()).zip(numbers.iter().cycle());
    let data = planes.flat_map(|(plane, &y)| plane.iter().map(move |&x| (x, y)));
    Scalars::new(&x.shape, data.map(|(x, y)| operation(x, y)).collect())
}

/// `sat(sat(x * scale) + offset)` with the parameters of every channel.
pub(super) fn normalise<A: Arithmetic>(x: &Scalars, parameters: &[(i32, i32)]) -> Scalars {
    let plane = x.plane();
    let data = x.data.chunks_exact(plane).zip(parameters.iter().cycle());
    let data = data.flat_map(|(plane, &(scale, offset))| {
        plane.iter().map(move |&x| A::add(A::multiply(x, scale), offset))
    });
    Scalars::new(&x.shape, data.collect())
}

/// The mean of some numbers: `sat(sum * (1 / count))`, or the steps that were chosen.
pub(super) fn mean<A: Arithmetic>(
    numbers: impl Iterator<Item = i32>,
    count: usize,
    steps: Option<&[MeanStep]>,
    data_type: DataType,
) -> i32 {
    let Some(steps) = steps else {
        let sum = numbers.reduce(A::add).unwrap_or_default();
        return A::multiply(sum, share(count, data_type));
    };
    let mut numbers: Vec<i32> = numbers.collect();
    for step in steps {
        let of = |first: usize| numbers.iter().copied().skip(first).step_by(step.sums);
        let sum = |first: usize| of(first).reduce(A::add).unwrap_or_default();
        numbers = (0..step.sums).map(|first| A::multiply(sum(first), step.factor)).collect();
    }
    numbers.first().copied().unwrap_or_default()
}

/// The largest element or the mean of every window.
pub(super) fn pool<A: Arithmetic>(
    pool: &Pool,
    x: &Scalars,
    shape: &[usize],
    data_type: DataType,
    steps: Option<&[MeanStep]>,
) -> Result<Scalars> {
    let (input, output) = (&x.shape[2..], &shape[2..]);
    let reads = Reads::new(&pool.window, input, output);
    let mut real = (0..reads.len()).map(|out| reads.of(out).iter().flatten().count());
    if real.any(|count| count == 0) {
        return Err(never_claimed("a window that reads padding only"));
    }
    let divisors = pool.divisors(input, output);
    let mut data = Vec::with_capacity(shape.iter().product());
    for plane in x.data.chunks_exact(x.plane()) {
        data.extend((0..reads.len()).map(|out| {
            let elements = reads.of(out).iter().flatten().map(|&position| plane[position]);
            match pool.kind {
                PoolKind::Max => elements.reduce(|best, x| A::max(x, best)).expect(REAL),
                PoolKind::Average { .. } => mean::<A>(elements, divisors[out], steps, data_type),
            }
        }));
    }
    Ok(Scalars::new(shape, data))
}

/// Why a window has an element.
const REAL: &str = "no window reads padding only";

/// `1 / count` as a scalar.
fn share(count: usize, data_type: DataType) -> i32 {
    data_type.encode(1.0 / count as f64)
}

/// Mean, sum or largest element over spatial axes.
pub(super) fn reduce<A: Arithmetic>(
    reduce: &Reduce,
    x: &Scalars,
    shape: &[usize],
    data_type: DataType,
    steps: Option<&[MeanStep]>,
) -> Result<Scalars> {
    let is_joined = |axis: usize| reduce.axes.contains(&axis);
    let extents = || x.shape.iter().copied().enumerate().skip(2);
    let joined: usize = extents().filter(|&(axis, _)| is_joined(axis)).map(|(_, n)| n).product();
    let kept: usize = extents().filter(|&(axis, _)| !is_joined(axis)).map(|(_, n)| n).product();
    if reduce.axes.iter().any(|&axis| axis < 2) {
        return Err(never_claimed("a reduction of channels"));
    }
    // The output position of every input position.
    let mut outputs = vec![0];
    for (axis, extent) in extents() {
        let step = |out: &usize| {
            let (out, joined) = (*out, is_joined(axis));
            (0..extent).map(move |i| if joined { out } else { out * extent + i })
        };
        outputs = outputs.iter().flat_map(step).collect();
    }
    let mut data = Vec::with_capacity(shape.iter().product());
    for plane in x.data.chunks_exact(x.plane()) {
        let mut lists = vec![Vec::new(); kept];
        for (&out, &x) in outputs.iter().zip(plane) {
            lists[out].push(x);
        }
        for list in lists {
            let numbers = list.into_iter();
            data.push(match reduce.kind {
                ReduceKind::Mean => mean::<A>(numbers, joined, steps, data_type),
                ReduceKind::Sum => mean::<A>(numbers, 1, None, data_type),
                ReduceKind::Max => numbers.reduce(A::max).unwrap_or_default(),
                _ => return Err(never_claimed(reduce.kind.name())),
            });
        }
    }
    Ok(Scalars::new(shape, data))
}

/// Sum, mean or largest of the channels of every position. A sum is that of blocks of the machine's
/// lanes, each a product with ones; for a mean with `encode(1 / count)`, and the result is multiplied
/// by what that is too small by.
pub(super) fn reduce_channels<A: Arithmetic>(
    choices: &Choices,
    kind: ReduceKind,
    x: &Scalars,
    shape: &[usize],
) -> Result<Scalars> {
    let (data_type, plane) = (choices.data_type, x.plane());
    let count = x.shape[usize::from(x.shape.len() > 1)];
    let one = data_type.encode(1.0);
    let weight = if kind == ReduceKind::Mean { share(count, data_type) } else { one };
    let rest = 1.0 / count as f64 / data_type.decode(weight);
    let factor = if kind == ReduceKind::Mean { data_type.encode(rest) } else { one };
    let weighed = |block: &[i32]| block.iter().fold(0, |sum, &x| A::product_sum(x, weight, sum));
    let joined = |channels: &[i32]| -> Option<i32> {
        match kind {
            ReduceKind::Max => channels.iter().copied().reduce(A::max),
            ReduceKind::Sum => channels.chunks(choices.lanes).map(weighed).reduce(A::add),
            ReduceKind::Mean => {
                let sum = channels.chunks(choices.lanes).map(weighed).reduce(A::add);
                sum.map(|sum| if factor == one { sum } else { A::multiply(sum, factor) })
            }
            _ => None,
        }
    };
    let mut data = Vec::with_capacity(shape.iter().product());
    for image in x.data.chunks_exact(count * plane) {
        for position in 0..plane {
            let channels: Vec<i32> = (0..count).map(|c| image[c * plane + position]).collect();
            data.push(joined(&channels).ok_or_else(|| never_claimed(kind.name()))?);
        }
    }
    Ok(Scalars::new(shape, data))
}

/// Weighted sums of elements: `s = sat(x * weight)`, then `s = sat(s + sat(x * weight))`.
///
/// As upstream does it, two linear neighbours that lie outside are the element at the edge twice, and
/// taps along the last axis are the outer loop. Else, and along the channels, the weights of equal
/// elements are added first, and taps along the last axis are the inner loop.
pub(super) fn interpolate<A: Arithmetic>(
    resize: &Resize,
    x: &Scalars,
    shape: &[usize],
    data_type: DataType,
    compat: bool,
) -> Result<Scalars> {
    let as_upstream = compat && resize.interpolation == Interpolation::Linear;
    let merged = |axis| axis < 2 || !as_upstream;
    let along = |axis| axis_taps(resize, axis, x.shape[axis], shape[axis], merged(axis));
    let along: Vec<Vec<ResizeTaps>> = (0..x.shape.len()).map(along).collect();
    let itself = |(at, taps): (usize, &ResizeTaps)| taps[..] == [(at, 1.0)];
    let stays = |taps: &Vec<ResizeTaps>| taps.iter().enumerate().all(itself);
    let [outer @ .., rows, columns] = &along[..] else {
        return Err(never_claimed("a Resize of one axis"));
    };
    let same = x.shape.iter().zip(shape).take(outer.len()).all(|(from, to)| from == to);
    if !outer.iter().all(stays) || !same || has_fill(resize) {
        return Err(never_claimed("a Resize of more than two axes, or with other numbers outside"));
    }
    let width = columns_of(&x.shape);
    let mut data = Vec::with_capacity(shape.iter().product());
    for plane in x.data.chunks_exact(x.shape[outer.len()..].iter().product::<usize>().max(1)) {
        let term = |&(y, wy): &(usize, f64), &(x, wx): &(usize, f64)| {
            A::multiply(plane[y * width + x], data_type.encode(wy * wx))
        };
        for (row, column) in rows.iter().flat_map(|r| columns.iter().map(move |c| (r, c))) {
            let sum = if as_upstream {
                let pairs = column.iter().flat_map(|c| row.iter().map(move |r| (r, c)));
                pairs.map(|(r, c)| term(r, c)).reduce(A::add)
            } else {
                let pairs = row.iter().flat_map(|r| column.iter().map(move |c| (r, c)));
                pairs.map(|(r, c)| term(r, c)).reduce(A::add)
            };
            data.push(sum.unwrap_or_default());
        }
    }
    Ok(Scalars::new(shape, data))
}

/// Extent of the last axis.
fn columns_of(shape: &[usize]) -> usize {
    shape.last().copied().unwrap_or(1)
}

/// True when positions outside of the operand are other numbers than 0.
fn has_fill(resize: &Resize) -> bool {
    matches!(resize.coordinates, Coordinates::CropAndResize { extrapolation } if extrapolation != 0.0)
}

/// The taps of every position along an axis, without those that weigh nothing.
fn axis_taps(
    resize: &Resize,
    axis: usize,
    input: usize,
    output: usize,
    merged: bool,
) -> Vec<ResizeTaps> {
    let Some(index) = resize.axes.iter().position(|&resized| resized == axis) else {
        return (0..output).map(|at| vec![(at, 1.0)]).collect();
    };
    let mut positions = resize.taps(index, input, output);
    for taps in &mut positions {
        if merged {
            // Equal elements are neighbours.
            taps.dedup_by(|next, first| {
                let same = next.0 == first.0;
                first.1 += if same { next.1 } else { 0.0 };
                same
            });
        }
        taps.retain(|&(_, weight)| weight != 0.0);
    }
    positions
}
