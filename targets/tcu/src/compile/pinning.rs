//! Which tensors never leave local memory: some stay there from the layer that writes them to the
//! last one that reads them, others pass from a layer to the next tile by tile.

use super::hir::{Network, VarId};
use super::links::{Heir, Link};
use super::memory::{Life, highest_gap, size};
use super::schedule::{LayerInfo, Plan, Prices, Room, search, search_linked};
use crate::arch::TcuArch;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A layer as it is planned.
pub(crate) type Planned = (Room, Plan);

/// Layers under way, and what is asked of them again and again.
pub(crate) struct Pinning<'a, 'n> {
    pub(crate) network: &'n Network,
    pub(crate) arch: &'a TcuArch,
    pub(crate) prices: &'a Prices,
    pub(crate) local: u64,
    pub(crate) infos: &'a mut [LayerInfo<'n>],
    /// Tensors that can take the places of others.
    pub(crate) heirs: Vec<Heir>,
}

/// What stays in local memory, and the plans of all layers with that.
#[derive(Clone)]
pub(crate) struct Kept {
    /// When tensors live: two layers that are computed together are one.
    pub(crate) lives: Vec<Life>,
    /// The tensor that passes from every layer to the next tile by tile.
    pub(crate) links: Vec<Option<VarId>>,
    /// First vectors of tensors that stay.
    pub(crate) pins: BTreeMap<VarId, u64>,
    pub(crate) planned: Vec<Planned>,
    /// What every layer has, or both of two that are computed together.
    rooms: Vec<Room>,
    /// First vectors and sizes of the tensors that stay, by layer.
    taken: Vec<Vec<(u64, u64)>>,
}

impl Kept {
    /// Layers that are planned one by one.
    pub(crate) fn new(planned: Vec<Planned>, lives: Vec<Life>) -> Kept {
        Kept {
            lives,
            links: vec![None; planned.len()],
            pins: BTreeMap::new(),
            rooms: planned.iter().map(|(room, _)| room.clone()).collect(),
            taken: vec![Vec::new(); planned.len()],
            planned,
        }
    }

    /// The layer is computed together with a neighbour.
    fn is_linked(&self, layer: usize) -> bool {
        self.links[layer].is_some() || (layer > 0 && self.links[layer - 1].is_some())
    }
}

fn cycles(planned: &[Planned]) -> u64 {
    planned.iter().map(|(_, plan)| plan.cycles).sum()
}

impl Pinning<'_, '_> {
    /// What stays, with and without tensors that pass from a layer to the next, whichever is cheaper:
    /// what passes so makes room for others, but what stays needs no common tiles.
    pub(crate) fn run(&mut self, alone: Kept, links: &[Link]) -> Kept {
        let mut linked = alone.clone();
        let mut kept = alone;
        self.keep(&mut kept);
        if self.link(&mut linked, links) {
            self.keep(&mut linked);
            if cycles(&linked.planned) < cycles(&kept.planned) {
                return linked;
            }
        }
        kept
    }

    /// Lets tensors pass from a layer to the next, those that save most first, where that is cheaper;
    /// false if there are none.
    fn link(&mut self, kept: &mut Kept, links: &[Link]) -> bool {
        let mut gains = Vec::new();
        for link in links {
            let pair = link.layer..link.layer + 2;
            let before = cycles(&kept.planned[pair]);
            let planned = self.plan(link.layer, Some(link.var), &kept.rooms[link.layer]);
            let gain = planned.and_then(|planned| {
                let gain = before.checked_sub(cycles(&planned)).filter(|&gain| gain > 0)?;
                Some((gain, *link, planned))
            });
            gains.extend(gain);
        }
        gains.sort_by_key(|&(gain, link, _)| (Reverse(gain), link.layer));
        for (_, Link { layer, var }, planned) in gains {
            if kept.is_linked(layer) || kept.is_linked(layer + 1) {
                continue;
            }
            kept.links[layer] = Some(var);
            kept.planned.splice(layer..layer + 2, planned);
            for life in &mut kept.lives {
                if life.first == layer + 1 {
                    life.first = layer;
                }
                if life.last == layer {
                    life.last = layer + 1;
                }
            }
        }
        kept.links.iter().any(Option::is_some)
    }

    /// Plans a layer, or two between which a tensor passes.
    fn plan(&mut self, layer: usize, link: Option<VarId>, room: &Room) -> Option<Vec<Planned>> {
        quincunx_stop::check();
        match (link, &mut self.infos[layer..]) {
            (Some(link), [first, second, ..]) => {
                let pair = search_linked([first, second], link, room, self.arch, self.prices);
                Some(pair?.into())
            }
            (_, infos) => {
                let plan = search(infos.first_mut()?, room, self.arch, self.prices)?;
                Some(vec![(room.clone(), plan)])
            }
        }
    }

    /// Takes tensors, those that save most for their size first, as long as the layers in between
    /// get cheaper with less room.
    fn keep(&mut self, kept: &mut Kept) {
        let mut candidates: Vec<(VarId, u64)> = Vec::new();
        for (id, (var, life)) in (0..).map(VarId).zip(self.network.vars.iter().zip(&kept.lives)) {
            let passes = kept.links.contains(&Some(id));
            if life.uses() && !life.host && !passes && size(var) < self.local {
                candidates.push((id, size(var)));
            }
        }
        // Short lives and small tensors disturb least.
        candidates.sort_by_key(|&(var, size)| {
            let life = kept.lives[var.0 as usize];
            (size * (life.last - life.first) as u64, var)
        });
        for (var, size) in candidates {
            self.pin(kept, var, size);
        }
    }

    fn pin(&mut self, kept: &mut Kept, var: VarId, size: u64) -> Option<()> {
        let life = kept.lives[var.0 as usize];
        let layers = life.first..life.last + 1;
        let base = self
            .inherited(kept, var, size)
            .or_else(|| highest_gap(&kept.taken[layers.clone()], size, 0..self.local))?;
        let (mut rooms, mut planned) = (Vec::new(), Vec::new());
        while rooms.len() < layers.len() {
            let layer = life.first + rooms.len();
            let mut room = kept.rooms[layer].clone();
            room.pinned.push(var);
            room.pinned.sort_unstable();
            room.local = room.local.min(base);
            let plans = self.plan(layer, kept.links[layer], &room)?;
            rooms.extend(std::iter::repeat_n(room, plans.len()));
            planned.extend(plans);
        }
        if cycles(&planned) < cycles(&kept.planned[layers.clone()]) {
            kept.rooms.splice(layers.clone(), rooms);
            kept.planned.splice(layers.clone(), planned);
            kept.taken[layers].iter_mut().for_each(|taken| taken.push((base, size)));
            kept.pins.insert(var, base);
        }
        Some(())
    }

    /// The place of a tensor whose place this one can take, or that can take its place, if that is
    /// free.
    fn inherited(&self, kept: &Kept, var: VarId, size: u64) -> Option<u64> {
        let life = kept.lives[var.0 as usize];
        // The first of two layers could read of the tensor what the second has overwritten.
        let alone = |layer: usize| layer == 0 || kept.links[layer - 1].is_none();
        let heirs = self.heirs.iter().filter(|heir| alone(heir.layer));
        let others = heirs.filter_map(|&Heir { before, after, .. }| match var {
            var if var == before => Some(after),
            var if var == after => Some(before),
            _ => None,
        });
        let mut bases = others.filter_map(|other| {
            let shared = kept.lives[other.0 as usize];
            let base = *kept.pins.get(&other)?;
            let is_free = |layer: usize| {
                let both = (shared.first..=shared.last).contains(&layer);
                kept.taken[layer].iter().all(|&(first, taken)| {
                    first + taken <= base
                        || base + size <= first
                        || (both && (first, taken) == (base, size))
                })
            };
            (life.first..=life.last).all(is_free).then_some(base)
        });
        bases.next()
    }
}
