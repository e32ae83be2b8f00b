//! Plans of two layers that are computed together: of every tile the first computes some blocks, the
//! second multiplies them and adds up all its blocks, and so on. Both have the same tiles. The
//! accumulators are divided between them, and so is local memory.

use super::fill::{Draft, Keep, STAGE};
use super::search::{Base, LayerInfo, Room, TILINGS};
use super::{Nest, Plan, Prices};
use crate::arch::TcuArch;
use crate::compile::hir::{Op, TempId, VarId};

/// Two layers that may be computed together: the second sums channels of single positions of a
/// tensor which the first one saves.
struct Pair<'a> {
    first: &'a LayerInfo<'a>,
    second: &'a LayerInfo<'a>,
    room: Room,
    prices: &'a Prices,
    /// Accumulators of the second layer.
    below: u64,
    /// Number of tiles.
    tiles: u32,
}

/// Rooms and plans of both layers.
pub(crate) type Linked = [(Room, Plan); 2];

/// The cheapest plans of two layers between which a tensor passes, or `None` if they do not fit.
pub(crate) fn search_linked(
    [first, second]: [&mut LayerInfo<'_>; 2],
    link: VarId,
    room: &Room,
    arch: &TcuArch,
    prices: &Prices,
) -> Option<Linked> {
    let depth = arch.accumulator_depth;
    let fewest = (u64::from(second.blocks + 1) * u64::from(second.positions)).div_ceil(depth);
    let fewest = u32::try_from(fewest).ok()?.max(1);
    let mut best: Option<(u64, Linked)> = None;
    let mut last = 0;
    for step in 0..TILINGS {
        let tiles = fewest + step + (u64::from(fewest) * u64::from(step * step) / 16) as u32;
        let positions = second.positions.div_ceil(tiles).max(1);
        let tiles = second.tile(positions);
        if first.tile(positions) != tiles || tiles == last {
            continue;
        }
        last = tiles;
        let room = Room { link: Some(link), ..room.clone() };
        let (first, second) = (&*first, &*second);
        let Some(below) = least(second, tiles, depth) else { continue };
        let fits = |group: u32| first.fits(first.tiling(tiles), group, group, depth - below);
        let Some(most) = (1..=first.blocks).rev().find(|&group| fits(group)) else { continue };
        let most = first.blocks.div_ceil(first.blocks.div_ceil(most));
        let pair = Pair { first, second, room, prices, below, tiles };
        let constants_stay =
            |group| first.fits(first.tiling(tiles), group, first.blocks, depth - below);
        for group in if most > 1 { vec![most, 1] } else { vec![1] } {
            pair.plans(group, constants_stay(group), &mut best);
        }
    }
    let (_, linked) = best?;
    are_aligned(first, second, link, &linked[0].1).then_some(linked)
}

/// The fewest accumulators that hold all blocks of every tile.
fn least(info: &LayerInfo<'_>, tiles: u32, depth: u64) -> Option<u64> {
    let fits = |depth| info.fits(info.tiling(tiles), info.blocks, info.blocks, depth);
    if !fits(depth) {
        return None;
    }
    let (mut low, mut high) = (0, depth);
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if fits(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

impl Pair<'_> {
    /// The plans with one size of groups; keeps the cheapest.
    fn plans(&self, group: u32, constants_stay: bool, best: &mut Option<(u64, Linked)>) {
        let Pair { first, second, room, prices, tiles, .. } = self;
        let tilings = [first.tiling(*tiles), second.tiling(*tiles)];
        let bases = [
            Base::new(first, tilings[0], group, room, prices),
            Base::new(second, tilings[1], second.blocks, room, prices),
        ];
        let rows = second.rows(0..second.blocks).0;
        let passing = u64::from(group) * u64::from(tilings[1].sources[0]);
        let least = passing + u64::from(second.lanes) + 2 + STAGE;
        // None, some or all of the weights of the second layer stay.
        for share in 0..=2 {
            let of_second = least + if *tiles > 1 { rows * share / 2 } else { 0 };
            let Some(of_first) = room.local.checked_sub(of_second) else { continue };
            let rooms = [
                Room { local: of_first, ..room.clone() },
                Room { first: room.first + of_first, local: of_second, ..room.clone() },
            ];
            let draft = |layer: usize| Draft {
                info: [*first, *second][layer],
                tiling: tilings[layer],
                base: &bases[layer],
                room: &rooms[layer],
                prices,
            };
            let keeps = [Keep::Inputs, Keep::SomeInputs, Keep::Rows];
            let plans = keeps.map(|keep| draft(0).fill(Nest::Tiles, keep, constants_stay));
            let plan = plans.into_iter().flatten().min_by_key(|plan| plan.cycles);
            let next = draft(1).fill(Nest::Tiles, Keep::Link(group), true);
            let (Some(mut plan), Some(mut next)) = (plan, next) else { continue };
            let cycles = plan.cycles + next.cycles;
            if best.as_ref().is_none_or(|best| cycles < best.0) {
                plan.tiles.clone_from(&tilings[0].tiles);
                next.tiles.clone_from(&tilings[1].tiles);
                plan.first_accumulator = self.below;
                let [room, of_next] = rooms;
                *best = Some((cycles, [(room, plan), (of_next, next)]));
            }
        }
    }
}

/// True if every tile of the first layer has the positions that the second one reads.
fn are_aligned(first: &LayerInfo<'_>, second: &LayerInfo<'_>, link: VarId, plan: &Plan) -> bool {
    let saved = first.layer.ops.iter().find_map(|op| match op {
        Op::Save { input, to, .. } if to[0].var == link => Some(*input),
        _ => None,
    });
    saved.is_some_and(|TempId(saved)| {
        (0..plan.tiles.len()).all(|index| {
            let made = first.demand(&plan.tiles, index);
            let read = second.demand(&plan.tiles, index);
            made.temps[saved as usize].list == read.sources[0].list
        })
    })
}
