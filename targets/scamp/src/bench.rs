//! How good and how fast searches are: `quincunx bench scamp:lengths` and the others.

mod cain;
mod lengths;
mod optimal;
mod paper;
mod run;

use quincunx_contract::bench::Suite;

/// The suites of this target.
pub(crate) static SUITES: &[Suite] =
    &[lengths::SUITE, optimal::SUITE, run::SUITE, cain::SUITE, paper::SUITE];
