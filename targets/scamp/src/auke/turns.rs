//! Several kernels: one after the other, each with the registers that are left.

use super::colour::Room;
use crate::cain::goals::{Shape, z_of};
use crate::isa::Reg;
use crate::task::Task;

/// A kernel when it is its turn.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    /// Which kernel.
    pub(super) kernel: usize,
    /// Its registers.
    pub(super) room: Room,
}

/// The kernels in the order of their turns, with their registers, and the copies that bring results
/// to their places in the end.
pub(super) struct Turns {
    /// The turns.
    pub(super) list: Vec<Turn>,
    /// Copies as (to, from).
    pub(super) copies: Vec<(Reg, Reg)>,
}

/// Who comes when. The longest kernel comes first, for it then has the most registers; those
/// whose results replace inputs come last. `None` where a result has no place to wait.
pub(super) fn turns(task: &Task, goals: &[Shape], lengths: &[usize]) -> Option<Turns> {
    let wanted = &task.wanted;
    let is_input = |kernel: usize| wanted.inputs.contains(&wanted.outputs[kernel]);
    let mut order: Vec<usize> = (0..goals.len()).collect();
    order.sort_by_key(|&kernel| (is_input(kernel), std::cmp::Reverse(lengths[kernel]), kernel));
    let reads = |kernel: usize, channel: usize| {
        goals[kernel].cells.iter().any(|&(place, _)| z_of(place) as usize == channel)
    };
    let (mut list, mut copies, mut taken) = (Vec::new(), Vec::new(), Vec::new());
    for (index, &kernel) in order.iter().enumerate() {
        let later = &order[index + 1..];
        let is_needed = |channel| later.iter().any(|&kernel| reads(kernel, channel));
        let needed: Vec<bool> = (0..wanted.inputs.len()).map(is_needed).collect();
        let is_kept = |register: &Reg| {
            let channel = wanted.inputs.iter().position(|input| input == register);
            channel.is_some_and(|channel| needed[channel])
        };
        let free: Vec<Reg> = task.pool.iter().copied().filter(|r| !taken.contains(r)).collect();
        let home = wanted.outputs[kernel];
        let output = if is_kept(&home) {
            // It waits elsewhere until the input is not needed any more.
            let is_fit = |r: &&Reg| !is_kept(r) && !wanted.outputs.contains(r);
            let place = *free.iter().find(is_fit)?;
            copies.push((home, place));
            place
        } else {
            home
        };
        taken.push(output);
        let read_only = wanted.inputs.iter().map(|input| !task.pool.contains(input));
        let kept = needed.iter().zip(read_only).map(|(&needed, fixed)| needed || fixed).collect();
        list.push(Turn {
            kernel,
            room: Room { inputs: wanted.inputs.clone(), kept, output, free },
        });
    }
    Some(Turns { list, copies })
}

impl Room {
    /// Registers for values besides the kept inputs.
    pub(super) fn registers(&self) -> usize {
        let is_kept = |register: &Reg| {
            let channel = self.inputs.iter().position(|input| input == register);
            channel.is_some_and(|channel| self.kept[channel])
        };
        self.free.iter().filter(|register| !is_kept(register)).count()
    }
}
