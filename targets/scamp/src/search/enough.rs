//! How many registers suffice where those of a task do not.

use super::{Effort, SEED, Settings, attempt};
use crate::arch::ScampArch;
use crate::task::Task;

/// Registers beyond those of a task up to which is tried.
const MORE: usize = 32;

/// A number of registers of the pool with which a program was found, after the search without
/// effort was tried with every smaller one; `None` where none was found.
pub(super) fn enough(task: &Task, arch: &ScampArch, leftovers: bool) -> Option<usize> {
    (1..=MORE).find_map(|more| {
        let (arch, new) = arch.with_more(more);
        let mut task = task.clone();
        task.pool.extend(new);
        let settings = Settings { leftovers, effort: Effort(0), seed: SEED };
        attempt(&task, &arch, settings).is_ok().then_some(task.pool.len())
    })
}
