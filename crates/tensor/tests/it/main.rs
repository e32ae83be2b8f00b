//! Tests of the `tensor` crate from outside: one program, one file per subject.

mod narrow;
mod npy;
