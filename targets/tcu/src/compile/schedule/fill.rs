//! What of a layer stays in local memory.

use super::search::{Base, LayerInfo, Room, Tiling};
use super::{Nest, Plan, Prices};

/// Smallest stage that is worth keeping room for; the least is 1.
const STAGE: u64 = 32;
/// Vectors that planes may take together which do not stay, where one of them takes less. More do
/// not save anything.
const CHUNK: u64 = 64;

/// What has the first claim on local memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// All inputs.
    Inputs,
    /// As many inputs as there is room for.
    SomeInputs,
    /// Rows of weights, then inputs.
    Rows,
}

/// Divides local memory for a plan and prices it.
pub(super) fn fill(
    info: &LayerInfo<'_>,
    tiling: &Tiling,
    base: &Base,
    (mut plan, keep): (Plan, Keep),
    (rows, room, prices): (u64, &Room, &Prices),
) -> Option<Plan> {
    let rows = if room.constants { 0 } else { rows };
    let sources = 0..info.sources.len();
    let loaded: Vec<u64> = sources.clone().map(|source| info.loaded(source, room)).collect();
    let most_planes = info.sources.iter().map(|source| source.planes.len() as u64).max();
    let planes = most_planes.unwrap_or(0).max(1);
    // Vectors of a plane that stays.
    let kept = |source: usize| match plan.nest {
        Nest::Tiles => u64::from(tiling.sources[source]),
        Nest::Groups => u64::from(info.sources[source].positions),
    };
    let least_rows = if rows > 0 { u64::from(info.lanes) + 1 } else { 0 };
    let (entries, tables) = info.lookup;
    // The least stage, which a table passes through as a whole.
    let least_stage = entries.max(1);
    let mut free = room.local.checked_sub(least_rows)?.checked_sub(least_stage)?;
    // What a group needs: blocks differ in their units only where blocks of zeros are left out.
    let wanted = match plan.nest {
        _ if room.constants => 0,
        Nest::Tiles => rows,
        Nest::Groups => {
            let group = base.group as usize;
            let of_group = |blocks: &[(u64, u64)]| blocks.iter().map(|(rows, _)| rows).sum();
            info.units.chunks(group).map(of_group).max().unwrap_or(0)
        }
    };
    let wanted_rows = if base.tiles > 1 { wanted } else { 0 };
    plan.chunk = planes as u32;
    let mut stays = loaded.clone();
    let all: u64 = sources.clone().map(|source| loaded[source] * kept(source)).sum();
    if keep == Keep::Inputs {
        free = free.checked_sub(all)?;
        plan.resident = info.sources.iter().map(|source| source.planes.len() as u32).collect();
    } else {
        if all == 0 {
            return None;
        }
        // Vectors of some planes of all inputs of a tile.
        let of_tile = |planes: u64| -> u64 {
            let each = loaded.iter().zip(&tiling.sources);
            each.map(|(&loaded, &positions)| loaded.min(planes) * u64::from(positions)).sum()
        };
        let mut chunks = (1..=planes).filter(|&chunk| info.keeps_order(chunk as u32));
        let least = chunks.clone().next().unwrap_or(planes);
        let most = chunks.rfind(|&chunk| of_tile(chunk) <= CHUNK.min(free / 2));
        plan.chunk = most.unwrap_or(least) as u32;
        free = free.checked_sub(of_tile(plan.chunk.into()))?;
        let rows_first = if keep == Keep::Rows { wanted_rows } else { 0 };
        let mut left = free.saturating_sub(rows_first + STAGE);
        for source in sources.clone() {
            let each = kept(source).max(1);
            stays[source] = loaded[source].min(left / each);
            left -= stays[source] * kept(source);
            free -= stays[source] * kept(source);
            plan.resident[source] = info.planes_with(source, stays[source], room);
        }
    }
    let input_loads: u64 = sources
        .map(|source| {
            let once = match plan.nest {
                Nest::Tiles => tiling.all_sources[source],
                Nest::Groups => kept(source),
            };
            let again = base.groups * tiling.all_sources[source];
            stays[source] * once + (loaded[source] - stays[source]) * again
        })
        .sum();
    let stage = STAGE.min(free);
    free -= stage;
    plan.rows_stay = wanted_rows.min(free);
    free -= plan.rows_stay;
    let buffer = (free / 2).min(wanted - plan.rows_stay);
    plan.row_buffer = least_rows + buffer;
    plan.stage = least_stage + stage + (free - buffer);
    let kept_rows = match plan.nest {
        Nest::Tiles => plan.rows_stay,
        Nest::Groups => {
            let of_group = |blocks: &[(u64, u64)]| {
                blocks.iter().map(|(rows, _)| rows).sum::<u64>().min(plan.rows_stay)
            };
            info.units.chunks(base.group as usize).map(of_group).sum()
        }
    };
    let row_loads = kept_rows + base.tiles * (rows - kept_rows);
    let once = plan.constants_stay || plan.nest == Nest::Groups || base.groups == 1;
    let vectors = info.constants.rows.len() as u64 * u64::from(info.blocks);
    let constants = vectors * if once { 1 } else { base.tiles };
    let constants = constants + info.constants.splats.len() as u64;
    plan.cycles = base.cycles
        + prices.dram * (input_loads + row_loads)
        + constants * (room.constant(prices) + prices.accumulator)
        + tables * entries * (room.constant(prices) + prices.row);
    Some(plan)
}
