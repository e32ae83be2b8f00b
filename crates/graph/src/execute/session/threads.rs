//! Dividing the work of one step.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::thread;

/// Most threads that are started, whatever is asked for.
const MAX_THREADS: usize = 256;

/// Work below which a thread costs more than it saves, in elementary operations.
const MIN_WORK: u64 = 1 << 17;

/// The threads of a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Threads(usize);

impl Threads {
    pub(super) fn new(threads: NonZeroUsize) -> Self {
        Threads(threads.get().min(MAX_THREADS))
    }

    /// How many parts to divide so much work into.
    pub(super) fn parts(self, work: u64) -> usize {
        // More parts than threads: a thread that is held up leaves more to the others.
        if self.0 == 1 || work < MIN_WORK { 1 } else { self.0 * 2 }
    }

    /// `count` divided by the number of parts, rounded up to a multiple of `step`.
    pub(super) fn part_size(self, count: usize, step: usize, work: u64) -> usize {
        count.div_ceil(self.parts(work)).next_multiple_of(step.max(1)).max(1)
    }

    /// Works on every part.
    pub(super) fn each<T: Send>(
        self,
        parts: impl ExactSizeIterator<Item = T> + Send,
        work: impl Fn(T) + Sync,
    ) {
        let count = parts.len().min(self.0);
        if count <= 1 {
            return parts.for_each(work);
        }
        let parts = Mutex::new(parts);
        let next = || parts.lock().ok().and_then(|mut parts| parts.next());
        let run = || {
            while let Some(part) = next() {
                work(part);
            }
        };
        on_threads(count, &run);
    }
}

/// Runs on so many threads, this one among them. One copy for all kinds of work: what starts a
/// thread is much code.
fn on_threads(count: usize, run: &(dyn Fn() + Sync)) {
    thread::scope(|scope| {
        for _ in 1..count {
            scope.spawn(run);
        }
        run();
    });
}
