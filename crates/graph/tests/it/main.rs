//! Tests of the `graph` crate from outside: one program, one file per subject.

mod execute;
mod limits;
mod movement;
mod numeric;
mod passes;
mod quantise;
mod rescale;
mod session;
