//! Which number of a value lies where in memory.
//!
//! Ours. Memory holds tensors image by image, row by row, column by column, and the channels of a
//! position together. Whatever order the axes of a value have, its numbers are loops over that
//! memory: each has an extent and the distance of one number from the next.

use std::fmt;
use std::str::FromStr;

/// Loops that a value may need.
const MAX: usize = 6;

/// Extent of a loop, and how far its numbers lie apart.
pub(crate) type Loop = (u64, u64);

/// The numbers of a value in its own order, as loops over memory without gaps; the outermost first.
/// Loops that are one have been joined, so that equal orders are equal views.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct View {
    loops: [Loop; MAX],
    rank: usize,
}

impl View {
    /// Loops that reach every number once; `None` for others, and for too many.
    pub(crate) fn new(loops: &[Loop]) -> Option<View> {
        let mut view = View { loops: [(1, 1); MAX], rank: 0 };
        for &(extent, step) in loops.iter().filter(|(extent, _)| *extent != 1) {
            let last = view.rank.checked_sub(1).map(|last| &mut view.loops[last]);
            match last {
                Some(last) if last.1 == extent.checked_mul(step)? => {
                    *last = (last.0.checked_mul(extent)?, step);
                }
                _ => {
                    *view.loops.get_mut(view.rank)? = (extent, step);
                    view.rank = view.rank.checked_add(1)?;
                }
            }
        }
        let mut sorted = view.loops;
        let sorted = &mut sorted[..view.rank];
        sorted.sort_unstable_by_key(|&(_, step)| step);
        let next = |expected: u64, &(extent, step): &Loop| {
            (step == expected && extent > 1).then(|| extent.checked_mul(step)).flatten()
        };
        sorted.iter().try_fold(1, next)?;
        Some(view)
    }

    /// Images, channels, rows, columns in this order, of a tensor of these extents.
    pub(crate) fn image([n, c, h, w]: [u32; 4]) -> View {
        let [n, c, h, w] = [n, c, h, w].map(u64::from);
        let row = w.saturating_mul(c);
        View::new(&[(n, row.saturating_mul(h)), (c, 1), (h, row), (w, c)]).unwrap_or(View::ONE)
    }

    /// In the order of memory.
    pub(crate) fn dense(count: u64) -> View {
        View::new(&[(count, 1)]).unwrap_or(View::ONE)
    }

    const ONE: View = View { loops: [(1, 1); MAX], rank: 0 };

    /// The loops.
    pub(crate) fn loops(&self) -> &[Loop] {
        &self.loops[..self.rank]
    }

    /// How many numbers there are.
    pub(crate) fn count(&self) -> u64 {
        self.loops().iter().fold(1, |count, &(extent, _)| count.saturating_mul(extent))
    }

    /// The loops of every axis of a shape; `None` where an axis begins within a loop that it does
    /// not divide, or the shape has another number of elements.
    pub(crate) fn split(&self, shape: &[usize]) -> Option<Vec<Vec<Loop>>> {
        let mut loops = self.loops().iter().copied();
        let mut open: Option<Loop> = None;
        let mut axes = Vec::with_capacity(shape.len());
        for &extent in shape {
            let (mut rest, mut axis) = (extent as u64, Vec::new());
            while rest != 1 {
                let (extent, step) = open.take().or_else(|| loops.next())?;
                if rest.is_multiple_of(extent) {
                    axis.push((extent, step));
                    rest = rest.checked_div(extent)?;
                } else {
                    // The outer part belongs to this axis, the inner one to the next.
                    let inner = extent.is_multiple_of(rest).then(|| extent.checked_div(rest))??;
                    axis.push((rest, step.checked_mul(inner)?));
                    (open, rest) = (Some((inner, step)), 1);
                }
            }
            axes.push(axis);
        }
        (open.is_none() && loops.next().is_none()).then_some(axes)
    }

    /// The view of a value of this shape when its axes have another order: axis i of the result is
    /// axis `order[i]`.
    pub(crate) fn transposed(&self, shape: &[usize], order: &[usize]) -> Option<View> {
        let axes = self.split(shape)?;
        let loops: Option<Vec<&Vec<Loop>>> = order.iter().map(|&axis| axes.get(axis)).collect();
        View::new(&loops?.into_iter().flatten().copied().collect::<Vec<Loop>>())
    }

    /// Where every number lies, in numbers from the first one of memory.
    pub(crate) fn places(&self) -> impl Iterator<Item = u64> + use<> {
        places(self.loops())
    }
}

/// Where loops go, from 0 on.
pub(crate) fn places(loops: &[Loop]) -> impl Iterator<Item = u64> + use<> {
    let (&inner, outer) = loops.split_last().unwrap_or((&(1, 1), &[]));
    let numbers = |(extent, step): Loop| (0..extent).map(move |at| at.saturating_mul(step));
    let mut starts = vec![0_u64];
    for &outer in outer {
        let from = |&start: &u64| numbers(outer).map(move |at| at.saturating_add(start));
        starts = starts.iter().flat_map(from).collect();
    }
    starts.into_iter().flat_map(move |start| numbers(inner).map(move |at| at.saturating_add(start)))
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: Vec<String> =
            self.loops().iter().map(|(extent, step)| format!("{extent}*{step}")).collect();
        f.write_str(&text.join(","))
    }
}

impl FromStr for View {
    type Err = ();

    fn from_str(text: &str) -> Result<View, ()> {
        let one = |word: &str| {
            let (extent, step) = word.split_once('*')?;
            Some((extent.parse().ok()?, step.parse().ok()?))
        };
        let words = text.split(',').filter(|word| !word.is_empty());
        let loops: Option<Vec<Loop>> = words.map(one).collect();
        loops.and_then(|loops| View::new(&loops)).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_images_are_their_transposition() {
        let image = View::image([2, 3, 4, 5]);
        assert_eq!(image.to_string(), "2*60,3*1,20*3");
        assert_eq!(image.to_string().parse(), Ok(image));
        let tokens = image.transposed(&[2, 3, 20], &[0, 2, 1]).unwrap();
        assert_eq!(tokens, View::dense(120));
        assert_eq!(tokens.split(&[2, 4, 5, 3]).unwrap()[2], [(5, 3)]);
        assert_eq!(image.transposed(&[2, 2, 30], &[0, 2, 1]), None);
        assert_eq!(View::image([1, 7, 1, 1]), View::dense(7));
        for loops in [&[(2, 1), (2, 1)][..], &[(2, 3)], &[(0, 1)], &[(u64::MAX, 1), (3, u64::MAX)]]
        {
            assert_eq!(View::new(loops), None, "{loops:?}");
        }
    }

    /// Every number is where a transposition of the written out tensor has it.
    #[test]
    fn places_are_those_of_transposed_tensors() {
        let (shape, order) = ([2, 3, 4, 5], [2, 0, 3, 1]);
        let view = View::dense(120).transposed(&shape, &order).unwrap();
        let mut expected = Vec::new();
        for c in 0..4 {
            for a in 0..2 {
                for d in 0..5 {
                    expected.extend((0..3).map(|b| ((a * 3 + b) * 4 + c) * 5 + d));
                }
            }
        }
        assert_eq!(view.places().collect::<Vec<u64>>(), expected);
        assert_eq!(view.count(), 120);
    }
}
