//! What stays in local memory between layers, and what does not fit there.

use super::hir::{Network, VarId};
use super::memory::{Life, Pool, highest_gap, size};
use super::schedule::{LayerInfo, Room};
use crate::arch::TcuArch;
use quincunx_diag::{Diagnostic, Result};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What stays in local memory between layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// Tensors, where that is cheaper.
    #[default]
    Auto,
    /// Nothing.
    LocalIsolated,
    /// All tensors but those of the host.
    LocalVars,
    /// All constants, which the driver moves there once.
    LocalConsts,
    /// Both.
    LocalVarsAndConsts,
}

impl Strategy {
    /// Names, the default first.
    pub(crate) const NAMES: &[&str] =
        &["auto", "local-isolated", "local-vars", "local-consts", "local-vars-and-consts"];

    /// The strategy of a name.
    pub(crate) fn from_name(name: &str) -> Option<Strategy> {
        use Strategy::*;
        let all = [Auto, LocalIsolated, LocalVars, LocalConsts, LocalVarsAndConsts];
        Strategy::NAMES.iter().zip(all).find(|(known, _)| **known == name).map(|(_, found)| found)
    }

    /// All tensors but those of the host are in local memory.
    pub(crate) fn keeps_vars(self) -> bool {
        matches!(self, Strategy::LocalVars | Strategy::LocalVarsAndConsts)
    }

    /// All constants are in local memory.
    pub(crate) fn keeps_constants(self) -> bool {
        matches!(self, Strategy::LocalConsts | Strategy::LocalVarsAndConsts)
    }

    /// What to do about something that does not fit.
    pub(crate) fn help(self) -> &'static str {
        match self {
            Strategy::Auto | Strategy::LocalIsolated => {
                "take a machine with more of what is short, or try --rounding free"
            }
            _ => {
                "take a machine with more of what is short, or --strategy auto, which keeps in \
                  local memory only what fits there"
            }
        }
    }
}

/// Rooms of layers that have all constants below them.
///
/// # Errors
/// `Q3115` when they do not fit.
pub(crate) fn below_plans(
    constants: &Pool,
    infos: &[LayerInfo<'_>],
    rooms: &mut [Room],
    strategy: Strategy,
) -> Result<()> {
    let needed = constants.len();
    for room in rooms.iter_mut() {
        // Something must be left for the plans.
        if needed >= room.local {
            return Err(too_many(needed, room.local, infos, strategy));
        }
        (room.first, room.local, room.constants) = (needed, room.local - needed, true);
    }
    Ok(())
}

fn too_many(needed: u64, depth: u64, infos: &[LayerInfo<'_>], strategy: Strategy) -> Diagnostic {
    let rows = |info: &LayerInfo<'_>| info.rows(0..info.blocks).0;
    let message =
        format!("the constants need {needed} vectors of local memory, of which there are {depth}");
    let problem = Diagnostic::unsupported("Q3115", message).help(strategy.help());
    match infos.iter().max_by_key(|info| rows(info)) {
        Some(most) => problem.with_note(format!(
            "most of them are for layer \"{}\": {} vectors of weights",
            most.layer.name,
            rows(most)
        )),
        None => problem,
    }
}

/// Places of all tensors but those of the host, from the highest vectors on; the rooms of the layers
/// in which they live end below them.
///
/// # Errors
/// `Q3115` for a layer whose tensors do not fit.
pub(crate) fn above_plans(
    network: &Network,
    infos: &[LayerInfo<'_>],
    lives: &[Life],
    rooms: &mut [Room],
    strategy: Strategy,
    arch: &TcuArch,
) -> Result<BTreeMap<VarId, u64>> {
    let vars = (0..).map(VarId).zip(network.vars.iter().zip(lives));
    let kept = vars.filter(|(_, (_, life))| life.uses() && !life.host);
    let mut kept: Vec<(VarId, u64, Life)> =
        kept.map(|(id, (var, &life))| (id, size(var), life)).collect();
    crowded(network, &kept, infos, rooms, strategy, arch)?;
    // Whether all find a place depends on the order.
    let mut failed = 0;
    for order in 0..3 {
        kept.sort_by_key(|&(var, size, life)| match order {
            0 => (Reverse(size), life.first, var),
            1 => (Reverse((life.last - life.first) as u64), life.first, var),
            _ => (Reverse(0), life.first, var),
        });
        match stack(&kept, rooms) {
            Ok(places) => {
                for (&(var, _, life), &base) in kept.iter().zip(&places) {
                    for room in &mut rooms[life.first..=life.last] {
                        room.pinned.push(var);
                        room.pinned.sort_unstable();
                        room.local = room.local.min(base - room.first);
                    }
                }
                return Ok(kept.iter().map(|kept| kept.0).zip(places).collect());
            }
            Err(layer) => failed = layer,
        }
    }
    let message = format!(
        "the tensors that live in layer \"{}\" leave no gap large enough for all of them",
        network.layers[failed].name
    );
    Err(Diagnostic::unsupported("Q3115", message).help(strategy.help()))
}

/// First vectors, or the first layer of a tensor that has no place.
fn stack(kept: &[(VarId, u64, Life)], rooms: &[Room]) -> std::result::Result<Vec<u64>, usize> {
    let mut taken = vec![Vec::<(u64, u64)>::new(); rooms.len()];
    let mut places = Vec::new();
    for &(_, size, life) in kept {
        let layers = life.first..=life.last;
        let room = &rooms[life.first];
        let room = room.first..room.first + room.local;
        let base = highest_gap(&taken[layers.clone()], size, room).ok_or(life.first)?;
        layers.for_each(|layer| taken[layer].push((base, size)));
        places.push(base);
    }
    Ok(places)
}

/// The first layer whose tensors together with the least that it needs are too much.
fn crowded(
    network: &Network,
    kept: &[(VarId, u64, Life)],
    infos: &[LayerInfo<'_>],
    rooms: &[Room],
    strategy: Strategy,
    arch: &TcuArch,
) -> Result<()> {
    for (index, (info, room)) in infos.iter().zip(rooms).enumerate() {
        let here = |life: &Life| (life.first..=life.last).contains(&index);
        let there = kept.iter().filter(|(_, _, life)| here(life));
        let tensors: u64 = there.clone().map(|(_, size, _)| size).sum();
        let mut pinned = room.clone();
        pinned.pinned = there.map(|&(var, ..)| var).collect();
        pinned.pinned.sort_unstable();
        let (least, _) = info.least(&pinned, arch);
        if tensors + least <= room.local {
            continue;
        }
        let mut message = format!(
            "layer \"{}\" does not fit: the tensors that live there need {tensors} vectors of local \
             memory and its work at least {least}, and there are {}",
            network.layers[index].name,
            room.first + room.local,
        );
        if room.first > 0 {
            message.push_str(&format!(", of which constants take {}", room.first));
        }
        return Err(Diagnostic::unsupported("Q3115", message).help(strategy.help()));
    }
    Ok(())
}
