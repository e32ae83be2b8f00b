//! What the tests of all crates share. Only a dev-dependency: no program contains it.

mod damage;
mod graphs;
mod judges;
mod random;

pub use damage::{Verdict, campaign, damaged, damaged_text, exercise, options, plant};
pub use graphs::{Coverage, Recipe};
pub use judges::{Agreed, agree, alone, each_alone, same};
pub use random::{Random, Whole};

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
