//! Cutting a layer into tiles of positions and groups of output blocks, so that what moves costs
//! least.
//!
//! A tile computes an interval of the positions that the layer saves last; a group is some blocks
//! of output channels. Accumulators hold all positions of a tile for all blocks of a group. There
//! are two loop nests, each of which keeps what fits in local memory:
//!
//! * tiles outside, groups inside: inputs of a tile stay for all groups, and rows of weights stay
//!   for all tiles;
//! * groups outside, tiles inside: rows of weights of a group stay for all tiles, and inputs of the
//!   whole layer stay for all groups.
//!
//! What does not stay is loaded every time, some planes or rows at a time. The search tries the
//! sizes of groups and tiles that differ and takes the cheapest; nothing depends on time or
//! threads.

mod accumulators;
mod demand;
mod fill;
mod linked;
mod prices;
mod search;
mod weights;

pub(crate) use accumulators::{Accumulators, BATCH, place};
pub(crate) use demand::{Demand, Positions, inputs, output, pairs_of, product, root};
pub(crate) use linked::search_linked;
pub(crate) use prices::Prices;
pub(crate) use search::{LayerInfo, Room, layer_units, search};
pub(crate) use weights::{Unit, sum_order, units};

use std::ops::Range;

/// Which loop is outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nest {
    /// Tiles outside, groups inside.
    Tiles,
    /// Groups outside, tiles inside.
    Groups,
}

/// How a layer is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Intervals of positions of the root.
    pub(crate) tiles: Vec<Range<u32>>,
    /// Blocks in a group; the last group may have less.
    pub(crate) group: u32,
    /// Which loop is outside.
    pub(crate) nest: Nest,
    /// Planes of every source that stay, the first ones: those of a tile for all groups, or those
    /// of the layer.
    pub(crate) resident: Vec<u32>,
    /// Input planes that are loaded at a time when they do not stay.
    pub(crate) chunk: u32,
    /// Rows of weights that stay: of the whole layer, or of each group.
    pub(crate) rows_stay: u64,
    /// Rows of constants stay in accumulators for all blocks of the layer, or else for a group.
    pub(crate) constants_stay: bool,
    /// Vectors of local memory for rows of weights that do not stay.
    pub(crate) row_buffer: u64,
    /// Vectors of local memory for what passes between accumulators and DRAM, at least 1.
    pub(crate) stage: u64,
    /// The accumulators before this one belong to the layer that is computed along with this one.
    pub(crate) first_accumulator: u64,
    /// Cycles, by the model of today.
    pub(crate) cycles: u64,
}
