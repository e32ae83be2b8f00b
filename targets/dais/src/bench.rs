//! How good and how fast this target is: `quincunx bench dais:cmvm` and others.

mod cmvm;
mod compile;
mod run;

use quincunx_contract::bench::Suite;

/// The suites of this target.
pub(crate) static SUITES: &[Suite] = &[cmvm::KERNELS, cmvm::RANDOM, compile::SUITE, run::SUITE];
