//! The search for the cheapest plan of a layer.

use super::accumulators::{Constants, place};
use super::demand::{Demand, Source, demand, product, root, sources, uncovered};
use super::fill::{Draft, Keep};
use super::weights::{Unit, sum_order, units};
use super::{Nest, Plan, Prices};
use crate::arch::TcuArch;
use crate::compile::hir::{Layer, MatMul, Network, Op, Operand, Pooling, TempId, Unary, VarId};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Numbers of tiles that are tried above the fewest that fit.
pub(super) const TILINGS: u32 = 10;

/// What a layer has in local memory besides what its plan places there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Room {
    /// First vector for the plan.
    pub(crate) first: u64,
    /// Vectors for the plan.
    pub(crate) local: u64,
    /// All constants are in local memory.
    pub(crate) constants: bool,
    /// Tensors that stay in local memory, in order.
    pub(crate) pinned: Vec<VarId>,
    /// The tensor that passes from this layer to the next, or from the one before, tile by tile.
    pub(crate) link: Option<VarId>,
}

impl Room {
    /// True for a tensor that is in local memory.
    pub(crate) fn has(&self, var: VarId) -> bool {
        self.pinned.binary_search(&var).is_ok()
    }

    /// Cycles for bringing a vector of a tensor to local memory, or from there.
    fn tensor(&self, var: VarId, prices: &Prices) -> u64 {
        if self.has(var) || self.link == Some(var) { 0 } else { prices.dram }
    }

    /// Cycles for bringing a vector of constants to local memory.
    pub(super) fn constant(&self, prices: &Prices) -> u64 {
        if self.constants { 0 } else { prices.dram }
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
    /// Rows of weights of every block of output channels, with those of biases, and units.
    pub(super) units: Vec<(u64, u64)>,
    /// Blocks of weights of every source that are not zeros only, of all taps.
    filled: Vec<u64>,
    /// First and last plane that every block of output channels reads.
    spans: Vec<(u32, u32)>,
    /// Blocks of output channels.
    pub(crate) blocks: u32,
    /// Positions of the root.
    pub(super) positions: u32,
    /// Entries of a lookup table, when the layer uses one, and tables.
    pub(crate) lookup: (u64, u64),
    pub(super) lanes: u32,
    tilings: FxHashMap<u32, Tiling>,
}

/// Tiles of about one size.
pub(super) struct Tiling {
    pub(super) tiles: Vec<Range<u32>>,
    /// Numbers of positions of the temps: those of each tile, without repetitions.
    pub(super) temps: Vec<Vec<u32>>,
    /// Positions of every temp, of all tiles together.
    all_temps: Vec<u64>,
    /// Largest number of positions of every source.
    pub(super) sources: Vec<u32>,
    /// Positions of every source, of all tiles together.
    pub(super) all_sources: Vec<u64>,
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
        let of_block =
            |units: &Vec<Unit>| (units.iter().map(Unit::vectors).sum(), units.len() as u64);
        let units = product.map(|product| layer_units(layer, product, network, arch));
        let units = units.unwrap_or_default();
        let filled = sources.iter().map(|source| {
            let multiplies =
                |unit: &&Unit| unit.rows > 0 && source.taps.contains(&(unit.tap as usize));
            units.iter().flatten().filter(multiplies).count() as u64
        });
        let filled = filled.collect();
        let spans = units.iter().map(|units| {
            let planes = || units.iter().map(|unit| unit.plane);
            (planes().min().unwrap_or(0), planes().max().unwrap_or(0))
        });
        let spans = spans.collect();
        let units = units.iter().map(of_block).collect();
        LayerInfo {
            spans,
            filled,
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
            lookup: lookup(layer, arch),
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

    /// Cuts the layer, and the number of tiles.
    pub(super) fn tile(&mut self, positions: u32) -> u32 {
        let tiles = self.cut(positions);
        let count = tiles.len() as u32;
        if !self.tilings.contains_key(&count) {
            let tiling = self.measure(tiles);
            self.tilings.insert(count, tiling);
        }
        count
    }

    /// So many tiles, into which the layer has been cut.
    pub(super) fn tiling(&self, count: u32) -> &Tiling {
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

    /// True if so many accumulators hold every tile, with whole groups of blocks and with what is
    /// left.
    pub(super) fn fits(&self, tiling: &Tiling, group: u32, row_blocks: u32, depth: u64) -> bool {
        let rest = self.blocks.saturating_sub(1) % group + 1;
        let holds = |counts: &Vec<u32>, width: u32| {
            place(self.layer, &self.constants, counts, width, row_blocks, depth).is_some()
        };
        tiling.temps.iter().all(|counts| holds(counts, group) && holds(counts, rest))
    }

    /// Planes of a source that are not in local memory already.
    pub(super) fn loaded(&self, source: usize, room: &Room) -> u64 {
        self.sources[source].planes.iter().filter(|plane| !room.has(plane.var)).count() as u64
    }

    /// The first planes of a source of which so many are not in local memory already.
    pub(super) fn planes_with(&self, source: usize, loaded: u64, room: &Room) -> u32 {
        let planes = &self.sources[source].planes;
        let mut missing = 0;
        let fits = planes.iter().take_while(|plane| {
            missing += u64::from(!room.has(plane.var));
            missing <= loaded
        });
        fits.count() as u32
    }

    /// Vectors of local memory and accumulators that the first position of one block needs.
    pub(crate) fn least(&self, room: &Room, arch: &TcuArch) -> (u64, u64) {
        let tile = 0..1.min(self.positions);
        let demand = demand(self.layer, &self.sources, &tile, &self.further);
        let first: Vec<u32> = demand.temps.iter().map(|positions| positions.len()).collect();
        // Other positions may need more; the search has measured them.
        let single = self.tilings.get(&self.positions);
        let all = single.map_or(std::slice::from_ref(&first), |tiling| &tiling.temps[..]);
        let planes = |source: usize| {
            let loaded = self.loaded(source, room);
            if self.needs_all_planes() { loaded } else { loaded.min(1) }
        };
        let positions = |source: usize| match single {
            Some(tiling) => tiling.sources[source].into(),
            None => u64::from(demand.sources[source].len()),
        };
        let inputs: u64 = (0..self.sources.len()).map(|s| planes(s) * positions(s)).sum();
        let no_rows = self.units.is_empty() || room.constants;
        let rows = if no_rows { 0 } else { u64::from(arch.array_size) + 1 };
        let fits = |depth: u64| {
            let holds = |counts: &Vec<u32>| place(self.layer, &self.constants, counts, 1, 1, depth);
            all.iter().all(|counts| holds(counts).is_some())
        };
        let (mut low, mut high) = (0, 1_u64 << 33);
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            if fits(middle) { high = middle } else { low = middle }
        }
        // One more vector passes between accumulators and DRAM, or a table.
        (inputs + rows + self.lookup.0.max(1), high)
    }

    /// True when so many planes can be used at a time without another order of any sum: those that
    /// a block of outputs reads come together. Blocks of other groups are not read.
    pub(super) fn keeps_order(&self, chunk: u32) -> bool {
        let together = |(first, last): &(u32, u32)| first / chunk == last / chunk;
        !self.needs_all_planes() || self.spans.iter().all(together)
    }

    /// True when the planes of an input must all be there at once.
    pub(super) fn needs_all_planes(&self) -> bool {
        self.product.is_some_and(|product| product.ordered && product.taps.len() > 1)
    }

    /// Cycles of everything behind the product, for one block.
    fn epilogue(&self, tiling: &Tiling, room: &Room, prices: &Prices) -> u64 {
        let network = self.network;
        let of = |temp: &TempId| tiling.all_temps[temp.0 as usize];
        let into = |var: VarId| room.tensor(var, prices);
        let cycles = |op: &Op| match op {
            Op::MatMul(_) => 0,
            Op::Load { from, output } => {
                of(output) * (into(from.planes[0].var) + prices.accumulator)
            }
            Op::Mix { from, weights, output } => {
                let constant = &network.consts[weights.0 as usize];
                let parts = u64::from(constant.channels.div_ceil(self.lanes));
                let rows = of(output).div_ceil(constant.rows.into()) * u64::from(self.lanes + 1);
                let numbers = of(output) * (room.constant(prices) + 1);
                parts * (rows * (into(from.planes[0].var) + 1) + numbers)
            }
            Op::Save { input, to, positions } => {
                let all = u64::from(self.layer.temps[input.0 as usize]).max(1);
                let some = positions.as_ref().map_or(all, |some| some.len() as u64);
                of(input) * some / all * (into(to[0].var) + prices.accumulator)
            }
            Op::Unary { op, input, .. } => {
                let simd = match op {
                    Unary::Relu => 1,
                    Unary::LeakyRelu { .. } => 3,
                    Unary::LeakySum { .. } | Unary::Clip { .. } => 2,
                };
                of(input) * simd * prices.simd
            }
            Op::Norm { input, .. } => of(input) * 2 * prices.simd,
            Op::Lookup { table, input, .. } => {
                let slopes = network.tables[table.0 as usize].slopes.is_some();
                of(input) * if slopes { 3 } else { 2 } * prices.simd
            }
            Op::Binary { op, input, other, .. } => {
                let add = *op == crate::compile::hir::Binary::Add;
                let each = match other {
                    Operand::Temp(_) => prices.simd * if add { 1 } else { 2 },
                    Operand::Const(id) if network.consts[id.0 as usize].rows == 1 => prices.simd,
                    Operand::Const(_) => room.constant(prices) + prices.accumulator,
                    Operand::Vars(view) => into(view.planes[0].var) + prices.accumulator,
                };
                of(input) * each
            }
            Op::Pool { kind, windows, output, .. } => {
                let single = kind.factor_of_single(windows).is_some();
                let more = u64::from(matches!(kind, Pooling::Average { .. }) && !single);
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
    pub(crate) fn rows(&self, blocks: Range<u32>) -> (u64, u64) {
        let blocks = self.units.get(blocks.start as usize..blocks.end as usize).unwrap_or(&[]);
        let add = |(rows, units): (u64, u64), block: &(u64, u64)| (rows + block.0, units + block.1);
        blocks.iter().fold((0, 0), add)
    }
}

/// The blocks of weights of every block of output channels of a layer.
pub(crate) fn layer_units(
    layer: &Layer,
    product: &MatMul,
    network: &Network,
    arch: &TcuArch,
) -> Vec<Vec<Unit>> {
    let order = sum_order(product, layer.temps[product.output.0 as usize], u32::MAX);
    let lanes = arch.array_size;
    units(product, network, &order, lanes, layer.channels.div_ceil(lanes))
}

/// Entries and number of the tables that a layer loads.
fn lookup(layer: &Layer, arch: &TcuArch) -> (u64, u64) {
    let uses = layer.ops.iter().any(|op| matches!(op, Op::Lookup { .. }));
    let of = |number: Option<u32>| number.filter(|_| uses).map_or(0, u64::from);
    (of(arch.lookup_table_depth), of(arch.lookup_tables) + u64::from(uses))
}

/// Everything that does not depend on what stays.
pub(super) struct Base {
    pub(super) group: u32,
    pub(super) groups: u64,
    pub(super) tiles: u64,
    pub(super) cycles: u64,
}

impl Base {
    /// Some tiles of groups of blocks.
    pub(super) fn new(
        info: &LayerInfo<'_>,
        tiling: &Tiling,
        group: u32,
        room: &Room,
        prices: &Prices,
    ) -> Base {
        let blocks = u64::from(info.blocks);
        let (rows, units) = info.rows(0..info.blocks);
        let (tiles, groups) = (tiling.tiles.len() as u64, info.blocks.div_ceil(group).into());
        let mut cycles = blocks * info.epilogue(tiling, room, prices);
        for ((source, filled), pairs) in info.sources.iter().zip(&info.filled).zip(&tiling.pairs) {
            cycles += pairs * filled / source.taps.len().max(1) as u64 * prices.product;
        }
        let biases = info.product.map_or(0, |product| u64::from(product.bias.is_some()) * blocks);
        // Every unit pushes its rows and the bias or zeros.
        cycles += tiles * (prices.row * (rows + units - biases.min(units)) + prices.start * units);
        Base { group, groups, tiles, cycles }
    }
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
    // Local memory may be so small that only smaller tiles have room there.
    let mut positions = info.positions;
    while best.is_none() && positions > 1 {
        positions = positions.div_ceil(2);
        plans(info, positions, 1, room, arch, prices, &mut best);
    }
    best
}

/// The largest tile of which a group fits in the accumulators.
fn largest_tile(info: &mut LayerInfo<'_>, group: u32, arch: &TcuArch) -> Option<u32> {
    let fits = |info: &mut LayerInfo<'_>, positions: u32| {
        let count = info.tile(positions);
        info.fits(info.tiling(count), group, group, arch.accumulator_depth)
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
    let count = info.tile(positions);
    let (info, depth) = (&*info, arch.accumulator_depth);
    let tiling = info.tiling(count);
    // More tiles may need more at once: which results replace their operands depends on the tile.
    if !info.fits(tiling, group, group, depth) {
        return;
    }
    let base = Base::new(info, tiling, group, room, prices);
    let constants_stay = info.fits(tiling, group, info.blocks, depth);
    let draft = Draft { info, tiling, base: &base, room, prices };
    for nest in [Nest::Tiles, Nest::Groups] {
        for keep in [Keep::Inputs, Keep::SomeInputs, Keep::Rows] {
            let Some(mut plan) = draft.fill(nest, keep, constants_stay) else { continue };
            if best.as_ref().is_none_or(|best| plan.cycles < best.cycles) {
                plan.tiles.clone_from(&tiling.tiles);
                *best = Some(plan);
            }
        }
    }
}
