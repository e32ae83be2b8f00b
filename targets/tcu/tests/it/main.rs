//! Tests of the tcu target from outside: one program, one file per subject.

mod bound;
mod common;
mod compilations;
mod compile;
mod dataflow;
mod fast;
mod free;
mod frontends;
mod fuzz;
mod golden;
mod groups;
mod layers;
mod lookup;
mod model;
mod moved;
mod mutation;
mod packed;
mod races;
mod random;
mod roundtrip;
mod strategies;
mod threads;
mod tilings;
mod timing;
mod verify;
mod views;
