//! The search for the cheapest plan of a layer.

use super::accumulators::{Constants, place};
use super::demand::{Demand, Source, demand, product, root, sources, uncovered};
use super::weights::{Unit, sum_order, units};
use super::{Nest, Plan, Prices};
use crate::arch::TcuArch;
use crate::compile::hir::{Layer, MatMul, Network, Op, Operand, Pooling, TempId, Unary, VarId};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Smallest stage that is worth keeping room for; the least is 1.
const STAGE: u64 = 32;
/// Numbers of tiles that are tried above the fewest that fit.
const TILINGS: u32 = 10;

/// What a layer has in local memory besides what its plan places there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Room {
    /// Vectors for the plan.
    pub(crate) local: u64,
    /// Tensors that stay in local memory, in order.
    pub(crate) pinned: Vec<VarId>,
}

impl Room {
    /// True for a tensor that is in local memory.
    pub(crate) fn has(&self, var: VarId) -> bool {
        self.pinned.binary_search(&var).is_ok()
    }
}

/// A layer with what the search asks of it again and again.
pub(crate) struct LayerInfo<'a> {
    pub(crate) layer: &'a Layer,
    pub(crate) network: &'a Network,
    pub(crate) product: Option<&'a MatMul>,
    pub(crate) sources: Vec<Source>,
    pub(crate) constants: Constants,
    /// Positions of saved temps that no tile needs.
    pub(crate) further: Vec<(TempId, Vec<u32>)>,
    /// Units of every block of output channels, in an order that does not matter.
    pub(crate) units: Vec<Vec<Unit>>,
    /// Blocks of output channels.
    pub(crate) blocks: u32,
    /// Positions of the root.
    positions: u32,
    lanes: u32,
    tilings: FxHashMap<u32, Tiling>,
}

/// Tiles of about one size.
struct Tiling {
    tiles: Vec<Range<u32>>,
    /// Numbers of positions of the temps: those of each tile, without repetitions.
    temps: Vec<Vec<u32>>,
    /// Positions of every temp, of all tiles together.
    all_temps: Vec<u64>,
    /// Largest number of positions of every source.
    sources: Vec<u32>,
    /// Positions of every source, of all tiles together.
    all_sources: Vec<u64>,
    /// Pairs of every source, of all tiles together.
    pairs: Vec<u64>,
}

impl<'a> LayerInfo<'a> {
    /// Looks at a layer.
    pub(crate) fn new(layer: &'a Layer, network: &'a Network, arch: &TcuArch) -> LayerInfo<'a> {
        let lanes = arch.array_size;
        let blocks = layer.channels.div_ceil(lanes);
        let product = product(layer);
        let sources = product.map_or(Vec::new(), |product| {
            sources(product, |plane| network.vars[plane.var.0 as usize].positions)
        });
        let units = product.map_or(Vec::new(), |product| {
            let order = sum_order(product, layer.temps[product.output.0 as usize], u32::MAX);
            units(product, network, &order, lanes, blocks)
        });
        LayerInfo {
            layer,
            network,
            product,
            sources,
            constants: Constants::new(layer, network),
            further: uncovered(layer),
            units,
            blocks,
            positions: root(layer).map_or(0, |root| layer.temps[root.0 as usize]),
            lanes,
            tilings: FxHashMap::default(),
        }
    }

    /// What a tile of a plan needs.
    pub(crate) fn demand(&self, tiles: &[Range<u32>], index: usize) -> Demand {
        let last = index + 1 == tiles.len();
        let further: &[_] = if last { &self.further } else { &[] };
        demand(self.layer, &self.sources, &tiles[index], further)
    }

    /// Tiles of at most so many positions, of whole rows where a row is not larger.
    fn cut(&self, positions: u32) -> Vec<Range<u32>> {
        let row = self.layer.row.max(1);
        let unit = if positions >= row { row } else { 1 };
        let units = self.positions.div_ceil(unit);
        let tiles = units.div_ceil((positions / unit).max(1));
        let bound = |tile: u32| {
            let units = u64::from(units) * u64::from(tile) / u64::from(tiles);
            (units as u32 * unit).min(self.positions)
        };
        (0..tiles).map(|tile| bound(tile)..bound(tile + 1)).collect()
    }

    fn tiling(&mut self, positions: u32) -> &Tiling {
        let tiles = self.cut(positions);
        let count = tiles.len() as u32;
        if !self.tilings.contains_key(&count) {
            let tiling = self.measure(tiles);
            self.tilings.insert(count, tiling);
        }
        &self.tilings[&count]
    }

    fn measure(&self, tiles: Vec<Range<u32>>) -> Tiling {
        let (temps, sources) = (self.layer.temps.len(), self.sources.len());
        let mut tiling = Tiling {
            tiles: Vec::new(),
            temps: Vec::new(),
            all_temps: vec![0; temps],
            sources: vec![0; sources],
            all_sources: vec![0; sources],
            pairs: vec![0; sources],
        };
        for index in 0..tiles.len() {
            let demand = self.demand(&tiles, index);
            for (temp, positions) in demand.temps.iter().enumerate() {
                tiling.all_temps[temp] += u64::from(positions.len());
            }
            let counts: Vec<u32> = demand.temps.iter().map(|positions| positions.len()).collect();
            if !tiling.temps.contains(&counts) {
                tiling.temps.push(counts);
            }
            for (source, positions) in demand.sources.iter().enumerate() {
                tiling.sources[source] = tiling.sources[source].max(positions.len());
                tiling.all_sources[source] += u64::from(positions.len());
                tiling.pairs[source] += demand.pairs[source];
            }
        }
        tiling.tiles = tiles;
        tiling
    }

    /// True if the accumulators hold every tile, with whole groups of blocks and with what is left.
    fn fits(&self, tiling: &Tiling, group: u32, row_blocks: u32, arch: &TcuArch) -> bool {
        let rest = self.blocks.saturating_sub(1) % group + 1;
        let depth = arch.accumulator_depth;
        let holds = |counts: &Vec<u32>, width: u32| {
            place(self.layer, &self.constants, counts, width, row_blocks, depth).is_some()
        };
        tiling.temps.iter().all(|counts| holds(counts, group) && holds(counts, rest))
    }

    /// Planes of a source that are not in local memory already.
    fn loaded(&self, source: usize, room: &Room) -> u64 {
        self.sources[source].planes.iter().filter(|plane| !room.has(plane.var)).count() as u64
    }

    /// Vectors of local memory and accumulators that the first position of one block needs.
    pub(crate) fn least(&self, arch: &TcuArch) -> (u64, u64) {
        let tile = 0..1.min(self.positions);
        let demand = demand(self.layer, &self.sources, &tile, &self.further);
        let counts: Vec<u32> = demand.temps.iter().map(|positions| positions.len()).collect();
        let planes = |source: &Source| match self.needs_all_planes() {
            true => source.planes.len() as u64,
            false => 1,
        };
        let inputs = self.sources.iter().zip(&demand.sources);
        let inputs: u64 = inputs.map(|(s, positions)| planes(s) * u64::from(positions.len())).sum();
        let rows = if self.units.is_empty() { 0 } else { u64::from(arch.array_size) + 1 };
        let fits = |depth: u64| place(self.layer, &self.constants, &counts, 1, 1, depth).is_some();
        let (mut low, mut high) = (0, 1_u64 << 33);
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            if fits(middle) { high = middle } else { low = middle }
        }
        // One more vector passes between accumulators and DRAM.
        (inputs + rows + 1, high)
    }

    /// True when the planes of an input must all be there at once.
    fn needs_all_planes(&self) -> bool {
        self.product.is_some_and(|product| product.ordered && product.taps.len() > 1)
    }

    /// Cycles of everything behind the product, for one block.
    fn epilogue(&self, tiling: &Tiling, room: &Room, prices: &Prices) -> u64 {
        let network = self.network;
        let of = |temp: &TempId| tiling.all_temps[temp.0 as usize];
        let into = |var: VarId| if room.has(var) { 0 } else { prices.dram };
        let cycles = |op: &Op| match op {
            Op::MatMul(_) => 0,
            Op::Load { from, output } => {
                of(output) * (into(from.planes[0].var) + prices.accumulator)
            }
            Op::Save { input, to } => of(input) * (into(to[0].var) + prices.accumulator),
            Op::Unary { op, input, .. } => {
                let simd = match op {
                    Unary::Relu => 1,
                    Unary::LeakyRelu { .. } => 3,
                    Unary::ScaledLeakyRelu { .. } | Unary::Clip { .. } => 2,
                };
                of(input) * simd * prices.simd
            }
            Op::Norm { input, .. } => of(input) * 2 * prices.simd,
            Op::Binary { op, input, other, .. } => {
                let add = *op == crate::compile::hir::Binary::Add;
                let each = match other {
                    Operand::Temp(_) => prices.simd * if add { 1 } else { 2 },
                    Operand::Const(id) if network.consts[id.0 as usize].rows == 1 => prices.simd,
                    Operand::Const(_) => prices.dram + prices.accumulator,
                    Operand::Vars(view) => into(view.planes[0].var) + prices.accumulator,
                };
                of(input) * each
            }
            Op::Pool { kind, windows, output, .. } => {
                let more = u64::from(matches!(kind, Pooling::Average { .. }));
                let share = of(output) as f64 / windows.len().max(1) as f64;
                let total = windows.positions.len() as u64 + more * windows.len() as u64;
                (share * total as f64) as u64 * prices.simd
            }
            Op::Interpolate { windows, output, .. } => {
                let share = of(output) as f64 / windows.len().max(1) as f64;
                (share * windows.positions.len() as f64) as u64 * 2 * prices.simd
            }
        };
        self.layer.ops.iter().map(cycles).sum()
    }

    /// Rows of weights, with those of biases, and units of some blocks.
    fn rows(&self, blocks: Range<u32>) -> (u64, u64) {
        let units = self.units.get(blocks.start as usize..blocks.end as usize).unwrap_or(&[]);
        let vectors = units.iter().flatten().map(Unit::vectors).sum();
        (vectors, units.iter().map(|units| units.len() as u64).sum())
    }
}

/// Everything that does not depend on what stays.
struct Base {
    group: u32,
    groups: u64,
    tiles: u64,
    cycles: u64,
}

/// The cheapest plan of a layer, or `None` when not even one position of one block fits.
pub(crate) fn search(
    info: &mut LayerInfo<'_>,
    room: &Room,
    arch: &TcuArch,
    prices: &Prices,
) -> Option<Plan> {
    let mut best: Option<Plan> = None;
    let mut groups = 0;
    for group in (1..=info.blocks).rev() {
        // Sizes that need as many groups differ only in how even they are.
        let count = info.blocks.div_ceil(group);
        if count == groups {
            continue;
        }
        groups = count;
        let group = info.blocks.div_ceil(count);
        let Some(most) = largest_tile(info, group, arch) else { continue };
        let fewest = info.cut(most).len() as u32;
        let mut last = 0;
        for step in 0..TILINGS {
            // Ten numbers of tiles, growing faster and faster.
            let tiles = fewest + step + (u64::from(fewest) * u64::from(step * step) / 16) as u32;
            let positions = info.positions.div_ceil(tiles).max(1);
            let count = info.cut(positions).len();
            if count == last {
                continue;
            }
            last = count;
            plans(info, positions, group, room, arch, prices, &mut best);
            if positions == 1 {
                break;
            }
        }
    }
    best
}

/// The largest tile of which a group fits in the accumulators.
fn largest_tile(info: &mut LayerInfo<'_>, group: u32, arch: &TcuArch) -> Option<u32> {
    let fits = |info: &mut LayerInfo<'_>, positions: u32| {
        info.tiling(positions);
        let count = info.cut(positions).len() as u32;
        info.fits(&info.tilings[&count], group, group, arch)
    };
    if fits(info, info.positions) {
        return Some(info.positions);
    }
    // By halves, over rows and then over single positions.
    let row = info.layer.row.max(1);
    for unit in [row, 1] {
        let (mut low, mut high) = (0, info.positions.div_ceil(unit));
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            if fits(info, middle * unit) {
                low = middle;
            } else {
                high = middle;
            }
        }
        if low > 0 {
            return Some(low * unit);
        }
        if unit == 1 {
            break;
        }
    }
    None
}

/// The plans of one cut; keeps the cheapest.
fn plans(
    info: &mut LayerInfo<'_>,
    positions: u32,
    group: u32,
    room: &Room,
    arch: &TcuArch,
    prices: &Prices,
    best: &mut Option<Plan>,
) {
    info.tiling(positions);
    let info = &*info;
    let count = info.cut(positions).len() as u32;
    let tiling = &info.tilings[&count];
    let blocks = u64::from(info.blocks);
    let (rows, units) = info.rows(0..info.blocks);
    let (tiles, groups) = (u64::from(count), u64::from(info.blocks.div_ceil(group)));
    let mut cycles = blocks * info.epilogue(tiling, room, prices);
    for (source, pairs) in info.sources.iter().zip(&tiling.pairs) {
        cycles += pairs * source.planes.len() as u64 * blocks * prices.product;
    }
    let biases = info.product.map_or(0, |product| u64::from(product.bias.is_some()) * blocks);
    // Every unit pushes its rows and the bias or zeros.
    cycles += tiles * (prices.row * (rows + units - biases.min(units)) + prices.start * units);
    let base = Base { group, groups, tiles, cycles };
    // More tiles may need more at once: which results replace their operands depends on the tile.
    if !info.fits(tiling, group, group, arch) {
        return;
    }
    let room_for_constants = info.fits(tiling, group, info.blocks, arch);
    for nest in [Nest::Tiles, Nest::Groups] {
        for inputs_stay in [true, false] {
            let plan = Plan {
                tiles: Vec::new(),
                group,
                nest,
                inputs_stay,
                chunk: 0,
                rows_stay: 0,
                constants_stay: room_for_constants,
                row_buffer: 0,
                stage: 0,
                cycles: 0,
            };
            let plan = fill(info, tiling, &base, plan, (rows, room, prices));
            let Some(mut plan) = plan else { continue };
            if best.as_ref().is_none_or(|best| plan.cycles < best.cycles) {
                plan.tiles.clone_from(&tiling.tiles);
                *best = Some(plan);
            }
        }
    }
}

/// Divides local memory for a plan and prices it.
fn fill(
    info: &LayerInfo<'_>,
    tiling: &Tiling,
    base: &Base,
    mut plan: Plan,
    (rows, room, prices): (u64, &Room, &Prices),
) -> Option<Plan> {
    let loaded: Vec<u64> =
        (0..info.sources.len()).map(|source| info.loaded(source, room)).collect();
    let most_planes = info.sources.iter().map(|source| source.planes.len() as u64).max();
    let planes = most_planes.unwrap_or(0).max(1);
    let whole = |source: usize| u64::from(info.sources[source].positions);
    let stay = plan.inputs_stay;
    // Vectors of all inputs of a tile, and cycles for loading what is not there.
    let of_tile = |planes: u64| -> u64 {
        let each = loaded.iter().zip(&tiling.sources);
        each.map(|(&loaded, &positions)| loaded.min(planes) * u64::from(positions)).sum()
    };
    let every = loaded.iter().zip(&tiling.all_sources).map(|(l, p)| l * p).sum::<u64>();
    let once = (0..loaded.len()).map(|s| loaded[s] * whole(s)).sum::<u64>();
    let (inputs, input_loads) = match (plan.nest, stay) {
        (Nest::Tiles, true) => (of_tile(planes), every),
        (Nest::Groups, true) => (once, once),
        (_, false) => (0, base.groups * every),
    };
    let least_rows = if rows > 0 { u64::from(info.lanes) + 1 } else { 0 };
    let mut free = room.local.checked_sub(inputs)?.checked_sub(least_rows)?.checked_sub(1)?;
    plan.chunk = planes as u32;
    if !stay && every > 0 {
        plan.chunk = match info.needs_all_planes() {
            true => planes as u32,
            false => (1..=planes)
                .rev()
                .find(|&chunk| of_tile(chunk) <= free / 2)
                .or_else(|| (of_tile(1) <= free).then_some(1))? as u32,
        };
        free = free.checked_sub(of_tile(plan.chunk.into()))?;
    }
    let stage = STAGE.min(free);
    free -= stage;
    // What a group needs: blocks differ in their units only where blocks of zeros are left out.
    let wanted = match plan.nest {
        Nest::Tiles => rows,
        Nest::Groups => {
            let group = base.group as usize;
            let of_group = |units: &[Vec<Unit>]| units.iter().flatten().map(Unit::vectors).sum();
            info.units.chunks(group).map(of_group).max().unwrap_or(0)
        }
    };
    plan.rows_stay = if base.tiles > 1 { wanted.min(free) } else { 0 };
    free -= plan.rows_stay;
    let buffer = (free / 2).min(wanted - plan.rows_stay);
    plan.row_buffer = least_rows + buffer;
    plan.stage = 1 + stage + (free - buffer);
    let kept = match plan.nest {
        Nest::Tiles => plan.rows_stay,
        Nest::Groups => {
            let of_group = |units: &[Vec<Unit>]| {
                units.iter().flatten().map(Unit::vectors).sum::<u64>().min(plan.rows_stay)
            };
            info.units.chunks(base.group as usize).map(of_group).sum()
        }
    };
    let row_loads = kept + base.tiles * (rows - kept);
    let once = plan.constants_stay || plan.nest == Nest::Groups || base.groups == 1;
    let vectors = info.constants.rows.len() as u64 * u64::from(info.blocks);
    let constants = vectors * if once { 1 } else { base.tiles };
    let constants = constants + info.constants.splats.len() as u64;
    plan.cycles = base.cycles
        + prices.dram * (input_loads + row_loads)
        + constants * (prices.dram + prices.accumulator);
    Some(plan)
}
