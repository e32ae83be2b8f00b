//! Tests of the `contract` crate from outside: one program, one file per subject.

mod folder;
