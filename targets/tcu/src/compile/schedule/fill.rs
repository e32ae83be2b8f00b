//! What of a layer stays in local memory.

use super::search::{Base, LayerInfo, Room, Tiling};
use super::{Nest, Plan, Prices};

/// Smallest stage that is worth keeping room for; the least is 1.
pub(super) const STAGE: u64 = 32;
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
    /// So many planes of the only input at a time, which the layer before makes.
    Link(u32),
}

/// What is known of a plan before it divides local memory.
pub(super) struct Draft<'a> {
    pub(super) info: &'a LayerInfo<'a>,
    pub(super) tiling: &'a Tiling,
    pub(super) base: &'a Base,
    pub(super) room: &'a Room,
    pub(super) prices: &'a Prices,
}

impl Draft<'_> {
    /// Divides local memory for a plan and prices it.
    pub(super) fn fill(&self, nest: Nest, keep: Keep, constants_stay: bool) -> Option<Plan> {
        let Draft { info, tiling, base, room, .. } = *self;
        let mut plan = self.empty(nest, constants_stay);
        let rows = self.rows_loaded();
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
        // The least stage, which a table passes through as a whole.
        let least_stage = info.lookup.0.max(1);
        let mut free = room.local.checked_sub(least_rows)?.checked_sub(least_stage)?;
        let wanted = self.rows_wanted(plan.nest);
        let wanted_rows = if base.tiles > 1 { wanted } else { 0 };
        plan.chunk = planes as u32;
        let mut stays = loaded.clone();
        let all: u64 = sources.clone().map(|source| loaded[source] * kept(source)).sum();
        if keep == Keep::Inputs {
            free = free.checked_sub(all)?;
            plan.resident = info.sources.iter().map(|source| source.planes.len() as u32).collect();
        } else if let Keep::Link(chunk) = keep {
            plan.chunk = chunk;
            free = free.checked_sub(u64::from(chunk) * u64::from(tiling.sources[0]))?;
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
        let input_loads = if matches!(keep, Keep::Link(_)) { 0 } else { input_loads };
        let stage = STAGE.min(free);
        free -= stage;
        plan.rows_stay = wanted_rows.min(free);
        free -= plan.rows_stay;
        let buffer = (free / 2).min(wanted - plan.rows_stay);
        plan.row_buffer = least_rows + buffer;
        plan.stage = least_stage + stage + (free - buffer);
        plan.cycles = self.cycles(&plan, input_loads);
        Some(plan)
    }

    /// A plan that keeps nothing yet.
    fn empty(&self, nest: Nest, constants_stay: bool) -> Plan {
        Plan {
            tiles: Vec::new(),
            group: self.base.group,
            nest,
            resident: vec![0; self.info.sources.len()],
            chunk: 0,
            rows_stay: 0,
            constants_stay,
            row_buffer: 0,
            stage: 0,
            first_accumulator: 0,
            cycles: 0,
        }
    }

    /// Rows that have to be loaded.
    fn rows_loaded(&self) -> u64 {
        if self.room.constants { 0 } else { self.info.rows(0..self.info.blocks).0 }
    }

    /// Rows of every group. Blocks differ in their units only where blocks of zeros are left out.
    fn rows_of_groups(&self) -> impl Iterator<Item = u64> {
        let of_group = |blocks: &[(u64, u64)]| blocks.iter().map(|(rows, _)| rows).sum();
        self.info.units.chunks(self.base.group as usize).map(of_group)
    }

    /// Rows that are needed at a time.
    fn rows_wanted(&self, nest: Nest) -> u64 {
        match nest {
            _ if self.room.constants => 0,
            Nest::Tiles => self.rows_loaded(),
            Nest::Groups => self.rows_of_groups().max().unwrap_or(0),
        }
    }

    /// Cycles of a plan whose inputs are loaded with so many vectors.
    fn cycles(&self, plan: &Plan, input_loads: u64) -> u64 {
        let Draft { info, base, room, prices, .. } = *self;
        let rows = self.rows_loaded();
        let kept_rows = match plan.nest {
            Nest::Tiles => plan.rows_stay,
            Nest::Groups => self.rows_of_groups().map(|rows| rows.min(plan.rows_stay)).sum(),
        };
        let row_loads = kept_rows + base.tiles * (rows - kept_rows);
        let once = plan.constants_stay || plan.nest == Nest::Groups || base.groups == 1;
        let vectors = info.constants.rows.len() as u64 * u64::from(info.blocks);
        let constants = vectors * if once { 1 } else { base.tiles };
        let constants = constants + info.constants.splats.len() as u64;
        let (entries, tables) = info.lookup;
        base.cycles
            + prices.dram * (input_loads + row_loads)
            + constants * (room.constant(prices) + prices.accumulator)
            + tables * entries * (room.constant(prices) + prices.row)
    }
}
