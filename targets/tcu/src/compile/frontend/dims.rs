//! Tensors as positions and channels, and where they lie.

use crate::compile::hir::Plane;
use quincunx_graph::{Graph, ValueId};
use std::sync::Arc;

/// Extents of a tensor as the machine sees it: `[N, C, H, W]` with 1 for axes that it lacks. Of
/// more than four axes, those between the channels and the last one are `H` together.
///
/// Invariant: every extent is at least 1, and the positions fit 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dims {
    pub(super) n: usize,
    pub(super) c: usize,
    pub(super) h: usize,
    pub(super) w: usize,
}

impl Dims {
    /// `None` for a tensor without axes, without elements, or with too many.
    pub(super) fn of(shape: &[usize]) -> Option<Dims> {
        let dims = match *shape {
            [] => return None,
            [c] => Dims { n: 1, c, h: 1, w: 1 },
            [n, c] => Dims { n, c, h: 1, w: 1 },
            [n, c, ref middle @ .., w] => {
                let h = middle.iter().try_fold(1_usize, |all, &extent| all.checked_mul(extent))?;
                Dims { n, c, h, w }
            }
        };
        let positions = dims.n.checked_mul(dims.h)?.checked_mul(dims.w)?;
        let elements = positions.checked_mul(dims.c)?;
        (elements > 0 && u32::try_from(elements).is_ok()).then_some(dims)
    }

    /// The extents of a value that is known to have some.
    pub(super) fn of_value(graph: &Graph, value: ValueId) -> Dims {
        Dims::of(&graph[value].shape).unwrap_or(Dims { n: 1, c: 1, h: 1, w: 1 })
    }

    /// Positions of one image.
    pub(super) fn spatial(self) -> usize {
        self.h * self.w
    }

    /// All positions.
    pub(super) fn positions(self) -> usize {
        self.n * self.spatial()
    }

    /// The same positions and channels, whatever the rows are.
    pub(super) fn same_table(self, other: Dims) -> bool {
        (self.n, self.c, self.spatial()) == (other.n, other.c, other.spatial())
    }

    /// Vectors with the channels of a position.
    pub(super) fn blocks(self, lanes: usize) -> usize {
        self.c.div_ceil(lanes)
    }
}

/// Positions of a held tensor; `None` where a position holds zeros.
pub(super) type Map = Arc<[Option<u32>]>;

/// Where a value lies in DRAM0.
#[derive(Clone, Debug)]
pub(super) struct Held {
    /// Extents of what is held.
    ///
    /// They differ from those of the value when an `[N, C * S]` value is held as the `[N, C, S]`
    /// tensor that it flattens; only products read such values.
    pub(super) dims: Dims,
    /// One plane for every block of channels.
    pub(super) planes: Arc<[Plane]>,
    /// For every position the position in the planes. Without a map they are the same.
    pub(super) map: Option<Map>,
    /// The lanes behind the last channel hold zeros.
    pub(super) zero_padding: bool,
    /// The layer after which it is complete; `None` for inputs.
    pub(super) layer: Option<u32>,
    /// The channels of every plane, where joined planes are read as they are. Without them each
    /// but the last one is full. Only products and poolings read such planes.
    pub(super) counts: Option<Arc<[u32]>>,
}

impl Held {
    /// The lane of every channel, counted over all planes.
    pub(super) fn lanes(&self, lanes: usize) -> Vec<usize> {
        match &self.counts {
            None => (0..self.dims.c).collect(),
            Some(counts) => {
                let plane = |(plane, &count): (usize, &u32)| {
                    (0..count as usize).map(move |lane| plane * lanes + lane)
                };
                counts.iter().enumerate().flat_map(plane).collect()
            }
        }
    }

    /// The channels of every plane.
    pub(super) fn counts(&self, lanes: usize) -> Vec<u32> {
        match &self.counts {
            Some(counts) => counts.to_vec(),
            None => {
                let count = |first| lanes.min(self.dims.c - first) as u32;
                (0..self.dims.c).step_by(lanes).map(count).collect()
            }
        }
    }

    /// The position in the planes.
    pub(super) fn position(&self, position: usize) -> Option<u32> {
        match &self.map {
            Some(map) => map.get(position).copied().flatten(),
            None => Some(position as u32),
        }
    }

    /// The map to the planes of a map to the positions of this tensor.
    pub(super) fn mapped(&self, positions: impl Iterator<Item = Option<usize>>) -> Map {
        positions.map(|position| self.position(position?)).collect()
    }
}
