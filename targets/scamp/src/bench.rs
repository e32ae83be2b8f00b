//! How fast searches are: `quincunx bench scamp:cain`.

mod cain;

use quincunx_contract::bench::Suite;

/// The suites of this target.
pub(crate) static SUITES: &[Suite] = &[cain::SUITE];
