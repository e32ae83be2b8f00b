//! Poolings on integers, channels last.

use super::super::build::Builder;
use super::super::data::{Data, Integer, Ints, Layout, Store, with_ints};
use super::super::field::Field;
use super::super::real::Geometry;
use super::super::threads::Threads;
use super::super::value::{Form, GridValue};
use crate::{Node, Pool, PoolKind};
use quincunx_diag::Result;
use quincunx_num::{Int, Ratio};
use std::sync::Arc;

impl Builder<'_> {
    pub(super) fn grid_pool(&mut self, node: &Node, pool: &Pool) -> Result<Option<Form>> {
        match pool.kind {
            PoolKind::Max => self.grid_max_pool(node, pool),
            PoolKind::Average { .. } => self.grid_average_pool(node, pool),
        }
    }

    fn grid_max_pool(&mut self, node: &Node, pool: &Pool) -> Result<Option<Form>> {
        let x_id = self.operand(node, 0)?;
        let (shape, out) = (self.shape(x_id), self.shape(node.output));
        let x = match self.form(x_id)? {
            // Units may vary along channels, which are not joined.
            Form::Grid(grid)
                if grid.unit.along(1, shape).is_some() && grid.zero.along(1, shape).is_some() =>
            {
                *grid
            }
            _ => match self.uniform_ints(x_id)? {
                Some(grid) => grid,
                None => return Ok(None),
            },
        };
        if x.shape.contains(&0) || !reads_everywhere(pool, shape, out) {
            return Ok(None);
        }
        let geometry = Geometry::new(pool, shape, out);
        let read = self.turned_ints(x_id, &x, Layout::Last)?;
        let kernel = move |threads: &Threads, data: Vec<Arc<Data>>| {
            let x = data[0].ints()?;
            Ok(Data::Ints(match x {
                Ints::U8(x) => Ints::U8(largest(&geometry, *threads, x)),
                Ints::I8(x) => Ints::I8(largest(&geometry, *threads, x)),
                Ints::I16(x) => Ints::I16(largest(&geometry, *threads, x)),
                Ints::I32(x) => Ints::I32(largest(&geometry, *threads, x)),
                Ints::I64(x) => Ints::I64(largest(&geometry, *threads, x)),
            }))
        };
        let slot = self.emit(node.output, vec![read], Box::new(kernel))?;
        let shape = out.into();
        Ok(Some(Form::Grid(Box::new(GridValue { slot, layout: Layout::Last, shape, ..x }))))
    }

    fn grid_average_pool(&mut self, node: &Node, pool: &Pool) -> Result<Option<Form>> {
        let x_id = self.operand(node, 0)?;
        let (shape, out) = (self.shape(x_id), self.shape(node.output));
        let Some(x) = self.uniform_ints(x_id)? else { return Ok(None) };
        if x.shape.contains(&0) {
            return Ok(None);
        }
        let counts = pool.divisors(&shape[2..], &out[2..]);
        // One divisor for all positions keeps one unit.
        let divisor = counts.iter().try_fold(1_i64, |all, &count| {
            let count = i64::try_from(count).ok()?;
            all.checked_mul(count / gcd(all, count)).filter(|all| *all < 1 << 40)
        });
        let Some(divisor) = divisor else { return Ok(None) };
        let factors: Vec<i64> = counts.iter().map(|&count| divisor / count as i64).collect();
        let taps: usize = pool.window.kernel.iter().product();
        let most = factors.iter().max().and_then(|factor| factor.checked_mul(taps as i64));
        let Some(sums) = most.and_then(|most| scaled_range(&x, most)) else { return Ok(None) };
        let geometry = Geometry::new(pool, shape, out);
        let read = self.turned_ints(x_id, &x, Layout::Last)?;
        let (low, high, zero) = sums;
        let store = Store::of(low, high);
        let kernel = move |threads: &Threads, data: Vec<Arc<Data>>| {
            let mut result = Ints::zeros(store, geometry.elements());
            with_ints!(data[0].ints()?, x => with_ints!(&mut result, out => {
                geometry.run(*threads, x, out, |position, out, pixels| {
                    let mut count = 0;
                    let mut sums = vec![0_i64; out.len()];
                    for pixel in pixels {
                        count += 1;
                        sums.iter_mut().zip(pixel).for_each(|(sum, &v)| *sum += v.wide());
                    }
                    for (out, sum) in out.iter_mut().zip(sums) {
                        *out = Integer::narrow((sum - count * zero) * factors[position]);
                    }
                });
            }));
            Ok(Data::Ints(result))
        };
        let slot = self.emit(node.output, vec![read], Box::new(kernel))?;
        let grid = averaged(x, slot, Layout::Last, out, low, high, divisor);
        Ok(Some(Form::Grid(Box::new(grid))))
    }

    pub(super) fn grid_global_average(&mut self, node: &Node) -> Result<Option<Form>> {
        let x_id = self.operand(node, 0)?;
        let (shape, out) = (self.shape(x_id), self.shape(node.output));
        let Some(x) = self.uniform_ints(x_id)? else { return Ok(None) };
        let (channels, plane) = (shape[1], shape[2..].iter().product::<usize>());
        let Ok(count) = i64::try_from(plane) else { return Ok(None) };
        if x.shape.contains(&0) {
            return Ok(None);
        }
        let Some((low, high, zero)) = scaled_range(&x, count) else { return Ok(None) };
        let store = Store::of(low, high);
        let read = self.turned_ints(x_id, &x, Layout::Last)?;
        let kernel = move |_: &Threads, data: Vec<Arc<Data>>| {
            let mut sums = Vec::new();
            with_ints!(data[0].ints()?, x => {
                for image in x.chunks_exact(plane * channels) {
                    let mut of_image = vec![-count * zero; channels];
                    for pixel in image.chunks_exact(channels) {
                        of_image.iter_mut().zip(pixel).for_each(|(sum, &v)| *sum += v.wide());
                    }
                    sums.extend(of_image);
                }
            });
            Ok(Data::Ints(Ints::from_i64(store, sums.into_iter())))
        };
        let slot = self.emit(node.output, vec![read], Box::new(kernel))?;
        Ok(Some(Form::Grid(Box::new(averaged(x, slot, Layout::Rows, out, low, high, count)))))
    }
}

/// Sums that are to be divided.
fn averaged(
    x: GridValue,
    slot: super::super::data::Slot,
    layout: Layout,
    shape: &[usize],
    low: i64,
    high: i64,
    divisor: i64,
) -> GridValue {
    let divisor = Ratio::from(Int::from(divisor));
    let unit = x.unit.map(|unit| unit / &divisor);
    GridValue { slot, layout, shape: shape.into(), low, high, unit, zero: Field::of(Ratio::ZERO) }
}

/// The range of sums of so many numbers without their zero point, 0 included, and the zero point.
fn scaled_range(x: &GridValue, count: i64) -> Option<(i64, i64, i64)> {
    let zero = x.uniform_zero()?;
    let limit = 1 << 62;
    let times = |number: i64| number.checked_mul(count).filter(|v| (-limit..limit).contains(v));
    // The sums are computed with the zero point, which is subtracted from them.
    let _ = (times(zero)?, times(x.low)?, times(x.high)?);
    let (low, high) = (times(x.low.checked_sub(zero)?)?, times(x.high.checked_sub(zero)?)?);
    Some((low.min(0), high.max(0), zero))
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// True when no window lies in the padding altogether.
fn reads_everywhere(pool: &Pool, x: &[usize], out: &[usize]) -> bool {
    let axis = |axis: usize| {
        (0..out[axis + 2]).all(|o| !pool.window.taps(axis, o, x[axis + 2]).is_empty())
    };
    (0..pool.window.rank()).all(axis)
}

fn largest<T: Integer>(geometry: &Geometry, threads: Threads, x: &[T]) -> Vec<T> {
    let mut out = vec![T::default(); geometry.elements()];
    geometry.run(threads, x, &mut out, |_, out, pixels| {
        if let Some(first) = pixels.next() {
            out.copy_from_slice(first);
        }
        for pixel in pixels {
            out.iter_mut().zip(pixel).for_each(|(best, v)| *best = (*best).max(*v));
        }
    });
    out
}
