//! The machines: one line each.

use quincunx_contract::Target;
use quincunx_diag::{Diagnostic, Result, suggestion};

/// Every target, in the order in which `compare` reports them.
static TARGETS: &[&dyn Target] = &[
    &quincunx_dais::TARGET, //
    &quincunx_scamp::TARGET,
    &quincunx_dpas::TARGET, //
    &quincunx_tcu::TARGET,
    &quincunx_npu::TARGET,
];

/// Every target.
pub fn targets() -> &'static [&'static dyn Target] {
    TARGETS
}

/// The target with this name.
///
/// # Errors
/// `Q0601`, with a suggestion.
pub fn find_target(name: &str) -> Result<&'static dyn Target> {
    find_among(targets(), name)
}

pub(crate) fn find_among<'a>(targets: &[&'a dyn Target], name: &str) -> Result<&'a dyn Target> {
    let names = targets.iter().map(|target| target.info().name);
    targets.iter().find(|target| target.info().name == name).copied().ok_or_else(|| {
        Diagnostic::usage("Q0601", format!("no target is named {name:?}"))
            .help(suggestion(name, "targets", names))
    })
}
