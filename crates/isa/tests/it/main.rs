//! Tests of the `isa` crate from outside: one program, one file per subject.

mod kit;
mod laws;
