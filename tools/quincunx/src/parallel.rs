//! Work over images on several threads.

use quincunx_diag::Result;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most threads that are started, whatever is asked for.
const MAX_THREADS: usize = 256;

/// Told how far long work has come. Called from several threads.
pub trait Progress: Sync {
    /// Work with so many steps starts.
    fn start(&self, what: &str, steps: usize);
    /// One step is done.
    fn step(&self);
}

/// Tells nobody.
#[derive(Debug)]
pub struct Silent;

impl Progress for Silent {
    fn start(&self, _: &str, _: usize) {}
    fn step(&self) {}
}

/// Threads this process may use.
pub fn available_threads() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// `work` on every index below `count`, in order. Each thread makes a state of its own and takes a
/// contiguous part, so results do not depend on the number of threads.
///
/// # Errors
/// The error of the first index, in order, that has one.
pub(crate) fn map<S, T: Send>(
    count: usize,
    threads: NonZeroUsize,
    state: impl Fn() -> Result<S> + Sync,
    work: impl Fn(&mut S, usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let part = count.div_ceil(threads.get().min(MAX_THREADS)).max(1);
    let run = |start: usize| -> Result<Vec<T>> {
        let mut state = state()?;
        let one = |index| {
            quincunx_stop::check();
            work(&mut state, index)
        };
        (start..(start + part).min(count)).map(one).collect()
    };
    if part >= count {
        return run(0);
    }
    let parts: Vec<Result<Vec<T>>> = std::thread::scope(|scope| {
        let run = &run;
        let spawn = |start| scope.spawn(quincunx_stop::carried(move || run(start)));
        let others: Vec<_> = (part..count).step_by(part).map(spawn).collect();
        // This thread works too: it is the one that can be told to stop.
        let own = run(0);
        let joined = others
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|thrown| std::panic::resume_unwind(thrown)));
        [own].into_iter().chain(joined).collect()
    });
    let mut results = Vec::with_capacity(count);
    for part in parts {
        results.extend(part?);
    }
    Ok(results)
}

/// `work` on every index below `count`, in order of the results. Threads take the next index when they
/// are done with one, since each may take longer than all others.
pub(crate) fn side_by_side<T: Send>(
    count: usize,
    threads: NonZeroUsize,
    work: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return done;
            }
            quincunx_stop::check();
            done.push((index, work(index)));
        }
    };
    let threads = threads.get().min(MAX_THREADS).min(count);
    let mut results: Vec<(usize, T)> = std::thread::scope(|scope| {
        let others: Vec<_> =
            (1..threads).map(|_| scope.spawn(quincunx_stop::carried(run))).collect();
        let mut all = run();
        for thread in others {
            all.extend(thread.join().unwrap_or_else(|bug| std::panic::resume_unwind(bug)));
        }
        all
    });
    results.sort_by_key(|&(index, _)| index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_diag::Diagnostic;

    fn threads(number: usize) -> NonZeroUsize {
        NonZeroUsize::new(number).unwrap()
    }

    #[test]
    fn what_is_done_side_by_side_stays_in_order() {
        for number in [1, 2, 5, 100] {
            let squares = side_by_side(10, threads(number), |index| index * index);
            assert_eq!(squares, (0..10).map(|index| index * index).collect::<Vec<_>>());
            assert!(side_by_side(0, threads(number), |index| index).is_empty());
        }
    }

    #[test]
    fn order_and_first_error_do_not_depend_on_threads() {
        let fail = |i: usize| Err(Diagnostic::bug(i.to_string()));
        for number in [1, 2, 3, 7, 100] {
            let squares = map(10, threads(number), || Ok(()), |(), i| Ok(i * i)).unwrap();
            assert_eq!(squares, (0..10).map(|i| i * i).collect::<Vec<_>>());
            let error =
                map(10, threads(number), || Ok(()), |(), i| if i < 4 { Ok(i) } else { fail(i) });
            assert_eq!(error.unwrap_err().message(), "4");
            assert!(map(0, threads(number), || Ok(()), |(), i| Ok(i)).unwrap().is_empty());
        }
    }
}
