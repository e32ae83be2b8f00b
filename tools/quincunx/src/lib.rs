//! Quincunx: networks in, programs for five machines out, checked by three judges.
//!
//! This is the library behind the `quincunx` binary: [`targets`] is the registry, and every verb
//! of the command line is a module with one entry function.
//!
//! | verb | module |
//! |---|---|
//! | `compile` | [`mod@compile`], [`mod@split`], [`mod@alternatives`] |
//! | `run` | [`mod@run`], [`mod@reference`] |
//! | `verify` | [`mod@verify`] |
//! | `time` | [`mod@time`] |
//! | `compare` | [`mod@compare`] |
//! | `report` | [`mod@page`], [`mod@vendor`] |
//! | `sweep` | [`mod@sweep`] |
//! | `quantise` | [`mod@quantise`] |
//! | `diff` | [`mod@diff`] |
//! | `asm`, `disasm` | [`mod@assemble`] |
//! | `inspect` | [`mod@inspect`] |
//! | `isa`, `targets` | [`mod@manual`] |
//! | `explain` | [`mod@explain`] |
//! | `bench` | [`mod@bench`] |
//!
//! All of them work on files in memory ([`InputFile`]) and return data; nothing here prints.

pub mod alternatives;
pub mod assemble;
pub mod bench;
pub mod bisect;
pub mod compare;
pub mod compile;
pub mod convert;
mod data;
mod detect;
pub mod diff;
mod executable;
pub mod explain;
mod failure;
mod files;
mod foreign;
pub mod formats;
pub mod inspect;
pub mod manual;
mod model;
mod natives;
mod numbers;
mod open;
pub mod page;
mod parallel;
pub mod quantise;
pub mod ranges;
pub mod reference;
mod registry;
pub mod run;
mod selection;
mod setup;
pub mod split;
pub mod sweep;
#[cfg(test)]
mod tests;
pub mod time;
pub mod vendor;
pub mod verify;

pub use data::{Dataset, InputSpec, Stack, data_shapes};
pub use detect::{FileKind, detect, is_model};
pub use executable::{Body, Executable, Handover, Host, Session, Stage, Trace};
pub use failure::{Failure, Outcome, exit_code, sources_of};
pub use files::InputFile;
pub use model::{Calibration, Model, is_quantised};
pub use natives::{natives_in, with_companions};
pub use numbers::{Contrast, Mismatch, Tolerance};
pub use open::{Opened, Share, open_folder, open_native, open_raw, recognise};
pub use parallel::{Progress, Silent, available_threads};
pub use registry::{find_target, targets};
pub use selection::Selection;
pub use setup::Setup;

pub use quincunx_contract as target;
pub use quincunx_diag as diag;
pub use quincunx_graph as graph;
pub use quincunx_import as import;
pub use quincunx_report as report;
pub use quincunx_tensor as tensor;
pub use quincunx_timeline as timeline;

/// Version of this library and of the files it writes.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
