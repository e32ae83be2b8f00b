//! The memory manager: where tensors and constants lie.

use super::heap::Heap;
use super::hir::{Network, Op, Operand, Order, Plane, Var, VarId};
use super::links::{heirs, links};
use super::lower::preload;
use super::pinning::{Kept, Pinning};
use super::schedule::{LayerInfo, Plan, Prices, Room, search};
use super::strategy::{Strategy, above_plans, below_plans};
use crate::arch::TcuArch;
use crate::program::Memory;
use quincunx_diag::Diagnostic;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::Range;

/// Layers from the first that writes a tensor to the last that reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) first: usize,
    pub(crate) last: usize,
    /// The host writes or reads it.
    pub(crate) host: bool,
}

impl Life {
    /// False for a tensor that no layer touches.
    pub(crate) fn uses(&self) -> bool {
        self.first < usize::MAX && self.last >= self.first
    }
}

/// Where a tensor lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// DRAM0 or local memory.
    pub(crate) memory: Memory,
    /// First vector.
    pub(crate) base: u64,
}

/// Where everything lies.
#[derive(Clone, Debug)]
pub(crate) struct Placement {
    /// Place of every tensor.
    pub(crate) vars: Vec<Place>,
    /// What every layer has in local memory. Layers with a link in common are computed together.
    pub(crate) rooms: Vec<Room>,
    /// The plan of every layer.
    pub(crate) plans: Vec<Plan>,
    /// All constants, when they lie in local memory from its start on.
    pub(crate) constants: Option<Pool>,
}

impl Placement {
    /// The tensor that passes from a layer to the next tile by tile, since both are computed together.
    pub(crate) fn link(&self, layer: usize) -> Option<VarId> {
        let link = self.rooms[layer].link?;
        let next = self.rooms.get(layer + 1)?;
        (next.link == Some(link)).then_some(link)
    }
}

/// Vectors of a tensor.
pub(crate) fn size(var: &Var) -> u64 {
    u64::from(var.positions) * u64::from(var.blocks)
}

/// Step from one position of a plane to the next, and offset of the plane.
pub(crate) fn plane_layout(var: &Var, block: u32, in_local: bool) -> (u64, u64) {
    match var.order {
        // In local memory every tensor is planar.
        Order::Interleaved if !in_local => (u64::from(var.blocks), block.into()),
        _ => (1, u64::from(block) * u64::from(var.positions)),
    }
}

/// The tensors that an operation reads or writes.
pub(crate) fn planes(op: &Op) -> Vec<Plane> {
    match op {
        Op::MatMul(product) => product.taps.iter().flat_map(|t| t.inputs.iter().copied()).collect(),
        Op::Load { from, .. }
        | Op::Mix { from, .. }
        | Op::Binary { other: Operand::Vars(from), .. } => from.planes.to_vec(),
        Op::Save { to, .. } => to.to_vec(),
        _ => Vec::new(),
    }
}

/// The layers that write a tensor; those that read it when the host writes it.
fn sources(network: &Network, var: VarId) -> Vec<usize> {
    let with = |is_source: &dyn Fn(&Op) -> bool| -> Vec<usize> {
        let layers = network.layers.iter().enumerate();
        layers
            .filter(|(_, layer)| layer.ops.iter().any(is_source))
            .map(|(index, _)| index)
            .collect()
    };
    let has = |op: &Op| planes(op).iter().any(|plane| plane.var == var);
    let writers = with(&|op| matches!(op, Op::Save { .. }) && has(op));
    if writers.is_empty() { with(&has) } else { writers }
}

pub(crate) fn lives(network: &Network) -> Vec<Life> {
    let none = Life { first: usize::MAX, last: 0, host: false };
    let mut lives = vec![none; network.vars.len()];
    for (index, layer) in network.layers.iter().enumerate() {
        for plane in layer.ops.iter().flat_map(planes) {
            let life = &mut lives[plane.var.0 as usize];
            life.first = life.first.min(index);
            life.last = life.last.max(index);
        }
    }
    for binding in &network.inputs {
        let life = &mut lives[binding.var.0 as usize];
        (life.first, life.host) = (0, true);
    }
    for binding in &network.outputs {
        let life = &mut lives[binding.var.0 as usize];
        (life.last, life.host) = (network.layers.len(), true);
    }
    lives
}

/// Why not everything has a place.
#[derive(Debug)]
pub(crate) struct Misfit {
    /// The layers without which it may have one.
    pub(crate) layers: Vec<usize>,
    /// A layer that may fit in finer steps.
    pub(crate) finer: Option<usize>,
    /// What to tell the user.
    pub(crate) problem: Diagnostic,
}

impl From<Diagnostic> for Misfit {
    fn from(problem: Diagnostic) -> Misfit {
        Misfit { layers: Vec::new(), finer: None, problem }
    }
}

/// Places everything and plans every layer. The host's probe needs the last vector of local memory
/// and two of DRAM0 when `reserve` is set.
///
/// # Errors
/// `Q3085` when the tensors do not fit DRAM0, `Q3086` for a layer that does not fit on the chip,
/// `Q3115` for what the strategy keeps there.
pub(crate) fn place(
    network: &Network,
    arch: &TcuArch,
    reserve: bool,
    strategy: Strategy,
) -> std::result::Result<Placement, Misfit> {
    let local = arch.local_depth.saturating_sub(u64::from(reserve));
    let prices = Prices::new(arch);
    let mut infos: Vec<LayerInfo<'_>> =
        network.layers.iter().map(|layer| LayerInfo::new(layer, network, arch)).collect();
    let lives = lives(network);
    let mut rooms = vec![Room { local, ..Room::default() }; infos.len()];
    let constants = strategy.keeps_constants().then(|| preload(&infos, arch)).transpose()?;
    if let Some(constants) = &constants {
        below_plans(constants, &infos, &mut rooms, strategy)?;
    }
    let mut pins = BTreeMap::new();
    if strategy.keeps_vars() {
        pins = above_plans(network, &infos, &lives, &mut rooms, strategy, arch)?;
    }
    let mut plans = Vec::with_capacity(infos.len());
    for (index, (info, room)) in infos.iter_mut().zip(&rooms).enumerate() {
        let plan = search(info, room, arch, &prices);
        plans.push(plan.ok_or_else(|| Misfit {
            layers: vec![index],
            finer: Some(index),
            problem: too_large(info, room, arch, strategy),
        })?);
    }
    let mut kept = Kept::new(rooms.into_iter().zip(plans).collect(), lives);
    kept.pins = pins;
    if strategy == Strategy::Auto {
        let links = links(network, &kept.lives);
        let heirs = heirs(network, &kept.lives);
        let (prices, infos) = (&prices, &mut infos[..]);
        kept = Pinning { network, arch, prices, local, infos, heirs }.run(kept, &links);
    }
    let vars = dram0(network, arch, &kept, reserve)?;
    let (rooms, plans) = kept.planned.into_iter().unzip();
    Ok(Placement { vars, rooms, plans, constants })
}

fn too_large(info: &LayerInfo<'_>, room: &Room, arch: &TcuArch, strategy: Strategy) -> Diagnostic {
    let (local, accumulators) = info.least(room, arch);
    let message = format!(
        "layer \"{}\" does not fit: one position of one block of channels needs at least {local} of \
         {} vectors of local memory and {accumulators} of {} accumulators",
        info.layer.name, room.local, arch.accumulator_depth,
    );
    Diagnostic::unsupported("Q3086", message).help(strategy.help())
}

/// The highest address of a room at which so many vectors are free in all these layers.
pub(crate) fn highest_gap(layers: &[Vec<(u64, u64)>], size: u64, room: Range<u64>) -> Option<u64> {
    let mut end = room.end;
    let mut taken: Vec<(u64, u64)> = layers.iter().flatten().copied().collect();
    taken.sort_unstable_by_key(|&(base, size)| std::cmp::Reverse(base + size));
    for (base, length) in taken {
        if base + length + size <= end {
            break;
        }
        end = end.min(base);
    }
    // Something must be left for the plans.
    end.checked_sub(size).filter(|&base| base > room.start)
}

/// Places tensors in DRAM0: inputs and outputs first, the others where there is room while they
/// live.
fn dram0(
    network: &Network,
    arch: &TcuArch,
    kept: &Kept,
    reserve: bool,
) -> std::result::Result<Vec<Place>, Misfit> {
    let depth = arch.dram0_depth.saturating_sub(if reserve { 2 } else { 0 });
    let mut heap = Heap::new(depth);
    let full = |name: &str, index: usize| {
        let size = size(&network.vars[index]);
        let message = format!(
            "\"{name}\" needs {size} vectors of DRAM0, which has no room for them in {depth}"
        );
        let problem =
            Diagnostic::unsupported("Q3085", message).help("use a machine with a larger DRAM0");
        Misfit { layers: sources(network, VarId(index as u32)), finer: None, problem }
    };
    let mut places = vec![Place { memory: Memory::Dram0, base: 0 }; network.vars.len()];
    for (var, &base) in &kept.pins {
        places[var.0 as usize] = Place { memory: Memory::Local, base };
    }
    // What passes from a layer to the next has no place of its own.
    for var in kept.links.iter().flatten() {
        places[var.0 as usize].memory = Memory::Local;
    }
    // Inputs are there from the start and may give way when they have been read.
    let host = network.inputs.iter().chain(&network.outputs);
    let mut placed = vec![false; network.vars.len()];
    for binding in host {
        let index = binding.var.0 as usize;
        if !std::mem::replace(&mut placed[index], true) {
            let size = size(&network.vars[index]);
            places[index].base = heap.take(size).ok_or_else(|| full(&binding.name, index))?;
        }
    }
    // Tensors that come and go with each layer.
    let layers = network.layers.len();
    let (mut come, mut go) = (vec![Vec::new(); layers], vec![Vec::new(); layers]);
    for (index, life) in kept.lives.iter().enumerate() {
        let in_dram = places[index].memory == Memory::Dram0 && life.uses();
        if in_dram && life.first < layers && !placed[index] {
            come[life.first].push(index);
        }
        if in_dram && life.last < layers {
            go[life.last].push(index);
        }
    }
    for (come, go) in come.into_iter().zip(go) {
        for index in come {
            let var = &network.vars[index];
            places[index].base = heap.take(size(var)).ok_or_else(|| full(&var.name, index))?;
        }
        for index in go {
            heap.give(places[index].base, size(&network.vars[index]));
        }
    }
    Ok(places)
}

/// Constants in the order of DRAM1, those of equal contents once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    /// Scalars of whole vectors.
    pub(crate) scalars: Vec<i32>,
    /// Where vectors with this hash begin, and how many they are.
    known: FxHashMap<u64, Vec<(u64, u64)>>,
    lanes: usize,
}

impl Pool {
    pub(crate) fn new(lanes: usize) -> Pool {
        Pool { lanes, ..Pool::default() }
    }

    /// The address of vectors with these scalars.
    pub(crate) fn add(&mut self, scalars: &[i32]) -> u64 {
        use std::hash::{Hash, Hasher};
        let mut hasher = rustc_hash::FxHasher::default();
        scalars.hash(&mut hasher);
        let known = self.known.entry(hasher.finish()).or_default();
        let count = (scalars.len() / self.lanes) as u64;
        let lanes = self.lanes;
        let all = &self.scalars;
        let same = known.iter().find(|&&(base, size)| {
            size == count && all[base as usize * lanes..][..scalars.len()] == *scalars
        });
        if let Some(&(base, _)) = same {
            return base;
        }
        let base = (self.scalars.len() / self.lanes) as u64;
        known.push((base, count));
        self.scalars.extend_from_slice(scalars);
        base
    }

    /// The constants of the layers up to this one are in DRAM1.
    ///
    /// # Errors
    /// `Q3087` when they do not fit.
    pub(crate) fn fits(&self, layer: usize, arch: &TcuArch) -> std::result::Result<(), Misfit> {
        let (size, depth) = (self.len(), arch.dram1_depth);
        if size <= depth {
            return Ok(());
        }
        let message =
            format!("the constants up to here need {size} vectors of DRAM1, which has {depth}");
        let problem =
            Diagnostic::unsupported("Q3087", message).help("use a machine with a larger DRAM1");
        Err(Misfit { layers: vec![layer], finer: None, problem })
    }

    /// Vectors.
    pub(crate) fn len(&self) -> u64 {
        (self.scalars.len() / self.lanes.max(1)) as u64
    }
}
