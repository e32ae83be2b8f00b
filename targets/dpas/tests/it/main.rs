//! Tests of the dpas target from outside: one program, one file per subject.

mod artifact;
mod common;
mod corruption;
mod differential;
mod fast;
mod fuzz;
mod golden;
mod mutation;
mod roundtrip;
mod swsb;
mod verify;
