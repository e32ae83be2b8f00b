//! Random filters as in equation 15 of the paper, and searches for many of them.

use crate::arch::ScampArch;
use crate::goal::{Bag, Goal};
use crate::isa::Reg;
use crate::task::{Task, Wanted};
use quincunx_diag::{Diagnostic, Result};
use std::num::NonZeroUsize;
use std::sync::Mutex;

/// Kernels of 3x3 random eighths from 0 to 1.
pub(super) fn kernels(seed: u64, count: usize) -> Vec<Goal> {
    let mut state = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut eighths = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as i64 % 9
    };
    let mut row = || (0..3).map(|_| eighths()).collect::<Vec<i64>>();
    (0..count).map(|_| Goal::from_rows(&[row(), row(), row()])).collect()
}

/// A task with its input in the first register and outputs from there on, of so many registers.
pub(super) fn task(
    goals: Vec<Goal>,
    depth: u32,
    registers: usize,
    arch: &ScampArch,
) -> Result<Task> {
    let input: Vec<Reg> = arch.analogue.iter().take(1).copied().collect();
    let outputs = arch.analogue.iter().take(goals.len()).copied().collect();
    let wanted = Wanted { goals: Bag(goals), depth, inputs: input, outputs };
    Task::new(wanted, arch.analogue.iter().take(registers).copied().collect(), arch)
}

/// Results of work on numbers from 0 on, in their order, by some threads.
///
/// # Errors
/// The first one by number.
pub(super) fn map<T: Send>(
    count: usize,
    threads: NonZeroUsize,
    work: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let (next, results) = (Mutex::new(0..count), Mutex::new(Vec::new()));
    let lost = || Diagnostic::bug("a thread of a measurement is lost");
    std::thread::scope(|scope| {
        for _ in 0..threads.get().min(count) {
            scope.spawn(|| {
                while let Some(index) = next.lock().ok().and_then(|mut range| range.next()) {
                    let result = work(index);
                    if let Ok(mut results) = results.lock() {
                        results.push((index, result));
                    }
                }
            });
        }
    });
    let mut results = results.into_inner().map_err(|_| lost())?;
    results.sort_by_key(|(index, _)| *index);
    if results.len() < count {
        return Err(lost());
    }
    results.into_iter().map(|(_, result)| result).collect()
}

/// The median of lengths, of which those that are not known are the longest; `None` where the median
/// is one of these.
pub(super) fn median(lengths: &[Option<u64>]) -> Option<f64> {
    let mut sorted: Vec<u64> = lengths.iter().map(|length| length.unwrap_or(u64::MAX)).collect();
    sorted.sort_unstable();
    let middle = sorted.get(sorted.len().checked_sub(1)? / 2..=sorted.len() / 2)?;
    let is_known = middle.iter().all(|length| *length < u64::MAX);
    is_known.then(|| middle.iter().map(|length| *length as f64).sum::<f64>() / middle.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_threads() {
        assert_eq!(median(&[Some(3), None, Some(1)]), Some(3.0));
        assert_eq!(median(&[Some(3), Some(4)]), Some(3.5));
        assert_eq!(median(&[Some(3), None]), None);
        assert_eq!(median(&[]), None);
        for threads in 1..4 {
            let found = map(10, NonZeroUsize::new(threads).unwrap(), |index| Ok(index * index));
            assert_eq!(found.unwrap(), (0..10).map(|index| index * index).collect::<Vec<_>>());
        }
        let kernels = kernels(3, 2);
        assert_ne!(kernels[0], kernels[1]);
        let is_eighth = |(_, count): (_, i64)| (1..=8).contains(&count);
        assert!(kernels.iter().all(|kernel| kernel.cells().all(is_eighth)));
    }
}
