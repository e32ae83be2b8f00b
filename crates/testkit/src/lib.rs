//! What the tests of all crates share. Only a dev-dependency: no program contains it.

mod damage;
mod graphs;
mod judges;
mod random;

pub use damage::{Verdict, campaign, damaged, damaged_text, exercise, options, plant};
pub use graphs::{Coverage, Recipe};
pub use judges::{Agreed, agree, alone, each_alone, same};
pub use random::{Random, Whole};

/// The base seed of everything random in tests: `QUINCUNX_SEED`, 0 if that is not set.
///
/// # Panics
///
/// If the variable holds anything but a whole number of 64 bits.
pub fn seed() -> u64 {
    match std::env::var("QUINCUNX_SEED") {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("QUINCUNX_SEED={text} is not a number")),
        Err(_) => 0,
    }
}
