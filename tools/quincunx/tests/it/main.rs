//! Tests of `quincunx` from outside: one program, one file per subject.

mod alternatives;
mod digits;
mod formats;
mod layout;
mod legality;
mod quantise;
mod sweep;
