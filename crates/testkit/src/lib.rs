//! What the tests of all crates share. Only a dev-dependency: no program contains it.

mod damage;
mod graphs;
mod judges;
mod mend;
mod peers;
mod random;

pub use damage::{Verdict, campaign, damaged, damaged_text, exercise, options, plant};
pub use graphs::{Coverage, Recipe};
pub use judges::{Agreed, agree, alone, each_alone, same};
pub use mend::{damaged_inside, damaged_lines, gzip, mend_folder, mended_png, zip};
pub use peers::{models, python};
pub use random::{Random, Whole};

use std::time::{Duration, Instant};

/// Does work that takes far less than so many seconds of processor time, if it is not done in a way
/// that grows too fast with its size. What else the machine does counts only where the system does
/// not tell the time of threads.
///
/// # Panics
///
/// If it takes longer.
pub fn within_seconds<T>(seconds: u64, work: impl FnOnce() -> T) -> T {
    let (clock, before) = (Instant::now(), processor_time());
    let result = work();
    let used = match (before, processor_time()) {
        (Some(before), Some(after)) => after.saturating_sub(before),
        _ => clock.elapsed(),
    };
    assert!(used < Duration::from_secs(seconds), "took {used:?} of at most {seconds} s");
    result
}

/// The processor time of this thread; `None` on systems other than Linux.
fn processor_time() -> Option<Duration> {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    times.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// The base seed of everything random in tests: `PROPTEST_RNG_SEED`, which property tests read as
/// well and which is 0 wherever cargo runs tests and nobody sets it.
///
/// # Panics
///
/// If the variable holds anything but a whole number of 64 bits.
pub fn seed() -> u64 {
    match std::env::var("PROPTEST_RNG_SEED") {
        Ok(text) => {
            text.parse().unwrap_or_else(|_| panic!("PROPTEST_RNG_SEED={text} is not a number"))
        }
        Err(_) => 0,
    }
}
