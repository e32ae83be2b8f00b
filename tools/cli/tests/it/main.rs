//! Tests of `cli` from outside: one program, one file per subject.

mod agree;
mod bisect;
mod cli;
mod clipped;
mod diff;
mod docs;
mod files;
#[cfg(target_os = "linux")]
mod growth;
mod hostile;
mod limits;
mod man;
mod misuse;
mod model_part;
mod models;
mod options;
mod pages;
mod peers;
mod quantise;
mod report;
mod rtl;
mod run;
mod scamp;
mod split;
mod support;
mod tensorflow;
mod time;
mod views;
mod width;
