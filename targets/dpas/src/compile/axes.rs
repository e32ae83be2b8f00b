//! Axes of a value in memory: reshaping and transposing move nothing where steps allow it.

/// Most axes.
const MOST: usize = 6;

/// How far elements that follow each other along an axis lie apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// So many pixels.
    Positions(usize),
    /// So many channels of a pixel.
    Channels(usize),
}

impl Step {
    /// As many steps at once.
    fn times(self, count: usize) -> Step {
        match self {
            Step::Positions(step) => Step::Positions(step * count),
            Step::Channels(step) => Step::Channels(step * count),
        }
    }
}

/// The steps of all axes of a value; those of axes of extent 1 are any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Axes {
    rank: usize,
    steps: [Step; MOST],
    /// Where the first element lies.
    origin: Spot,
}

/// A pixel and a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) position: usize,
    pub(super) channel: usize,
}

impl Axes {
    fn new(steps: &[Step]) -> Option<Axes> {
        let (rank, origin) = (steps.len(), Spot::default());
        let mut axes = Axes { rank, steps: [Step::Positions(0); MOST], origin };
        axes.steps.get_mut(..steps.len())?.copy_from_slice(steps);
        Some(axes)
    }

    /// Those of a value whose channels are the last axis: all others are positions, in order. `None` for
    /// too many, or none.
    pub(super) fn channels_last(shape: &[usize]) -> Option<Axes> {
        let [outer @ .., _] = shape else { return None };
        let inner = |axis: usize| outer[axis + 1..].iter().product();
        let steps = (0..outer.len()).map(|axis| Step::Positions(inner(axis)));
        Axes::new(&steps.chain([Step::Channels(1)]).collect::<Vec<_>>())
    }

    /// Those of a value `[..., heads, rows, columns]` in memory of `[..., rows, heads * columns]`.
    pub(super) fn heads_inside(shape: &[usize]) -> Option<Axes> {
        let [outer @ .., heads, rows, columns] = shape else { return None };
        let memory = [outer, &[*rows, *heads, *columns]].concat();
        let folded = [outer, &[*rows, heads * columns]].concat();
        let inside = Axes::channels_last(&folded)?.reshaped(&folded, &memory)?;
        let mut order: Vec<usize> = (0..shape.len()).collect();
        order.swap(outer.len(), outer.len() + 1);
        Some(inside.transposed(&order))
    }

    /// The steps, axis by axis.
    pub(super) fn steps(&self) -> &[Step] {
        &self.steps[..self.rank]
    }

    /// Axis i of the result is axis `order[i]`.
    pub(super) fn transposed(&self, order: &[usize]) -> Axes {
        let mut axes = *self;
        for (to, &from) in axes.steps.iter_mut().zip(order) {
            *to = self.steps[from];
        }
        axes
    }

    /// The same elements in the same order under another shape; `None` where an axis of it would have no
    /// single step.
    pub(super) fn reshaped(&self, from: &[usize], to: &[usize]) -> Option<Axes> {
        // Axes that follow each other evenly are one; the last one of them is the innermost.
        let mut blocks: Vec<(usize, Step)> = Vec::new();
        for (&extent, &step) in from.iter().zip(self.steps()).filter(|(extent, _)| **extent > 1) {
            match blocks.last_mut() {
                Some((all, outer)) if *outer == step.times(extent) => {
                    *all *= extent;
                    *outer = step;
                }
                _ => blocks.push((extent, step)),
            }
        }
        let mut steps = vec![Step::Positions(0); to.len()];
        let mut inner = (1, Step::Positions(0));
        for (axis, &extent) in to.iter().enumerate().rev().filter(|(_, extent)| **extent > 1) {
            if inner.0 == 1 {
                inner = blocks.pop()?;
            }
            let (left, step) = inner;
            if left % extent != 0 {
                return None;
            }
            steps[axis] = step;
            inner = (left / extent, step.times(extent));
        }
        let axes = Axes::new(&steps).filter(|_| blocks.is_empty() && inner.0 == 1)?;
        Some(Axes { origin: self.origin, ..axes })
    }

    /// From one element of an axis on, every so many of them.
    pub(super) fn sliced(&self, axis: usize, start: usize, step: usize) -> Axes {
        let mut axes = *self;
        axes.origin = self.spot((0..=axis).map(|at| if at == axis { start } else { 0 }));
        axes.steps[axis] = self.steps[axis].times(step);
        axes
    }

    /// Without an axis of extent 1.
    pub(super) fn without(&self, axis: usize) -> Axes {
        let mut axes = *self;
        axes.steps[axis..self.rank].rotate_left(1);
        axes.rank -= 1;
        axes
    }

    /// An axis of an extent has this step.
    pub(super) fn is(&self, axis: usize, extent: usize, step: Step) -> bool {
        extent == 1 || self.steps[axis] == step
    }

    /// All axes have the steps of others, in a shape.
    pub(super) fn are(&self, others: &Axes, shape: &[usize]) -> bool {
        (self.rank, self.origin) == (others.rank, others.origin)
            && shape
                .iter()
                .enumerate()
                .all(|(axis, &extent)| self.is(axis, extent, others.steps[axis]))
    }

    /// Where an element lies, by its indices along the first axes.
    pub(super) fn spot(&self, indices: impl Iterator<Item = usize>) -> Spot {
        let mut spot = self.origin;
        for (index, &step) in indices.zip(self.steps()) {
            match step {
                Step::Positions(step) => spot.position += index * step,
                Step::Channels(step) => spot.channel += index * step,
            }
        }
        spot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where all elements of a shape lie, in order, in memory of so many channels.
    fn places(axes: &Axes, shape: &[usize], channels: usize) -> Vec<usize> {
        let count = shape.iter().product::<usize>();
        let place = |at: usize| {
            let mut rest = at;
            let mut indices: Vec<usize> = Vec::new();
            for &extent in shape.iter().rev() {
                indices.insert(0, rest % extent);
                rest /= extent;
            }
            let spot = axes.spot(indices.into_iter());
            spot.position * channels + spot.channel
        };
        (0..count).map(place).collect()
    }

    #[test]
    fn heads_are_split_and_joined() {
        let [split, folded] = [[2, 3, 4, 5], [2, 3, 1, 20]];
        let all = Axes::channels_last(&folded).unwrap();
        let heads = all.reshaped(&folded, &split).unwrap();
        assert_eq!(places(&heads, &split, 20), (0..120).collect::<Vec<_>>());
        let moved = heads.transposed(&[0, 2, 1, 3]);
        assert!(moved.are(&Axes::heads_inside(&[2, 4, 3, 5]).unwrap(), &[2, 4, 3, 5]));
        // Head by head: the second row of the first head comes after its first.
        assert_eq!(places(&moved, &[2, 4, 3, 5], 20)[..6], [0, 1, 2, 3, 4, 20]);
        assert_eq!(moved.reshaped(&[2, 4, 3, 5], &[2, 4, 15]), None);
        let back = moved.transposed(&[0, 2, 1, 3]).reshaped(&split, &[6, 20]).unwrap();
        assert!(back.are(&Axes::channels_last(&[6, 20]).unwrap(), &[6, 20]));
    }

    #[test]
    fn positions_are_no_channels() {
        let axes = Axes::channels_last(&[4, 6]).unwrap();
        assert_eq!(axes.reshaped(&[4, 6], &[24]), None);
        assert_eq!(axes.reshaped(&[4, 6], &[3, 8]), None);
        assert!(axes.reshaped(&[4, 6], &[2, 1, 2, 3, 2]).is_some());
        assert_eq!(Axes::channels_last(&[1; 7]), None);
    }
}
