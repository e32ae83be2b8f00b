//! Tests of the `import` crate from outside: one program, one file per subject.

mod backend;
mod documentation;
mod families;
mod models;
mod storage;
mod tensorflow;
