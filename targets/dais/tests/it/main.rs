//! Tests of the dais target from outside: one program, one file per subject.

mod alir;
mod brute;
mod common;
mod compile;
mod convert;
mod corruption;
mod costs;
mod differential;
mod fast;
mod forms;
mod fuzz;
mod golden;
mod lowering;
mod machines;
mod mutation;
mod origin;
mod peers;
mod pipeline;
mod plan;
mod ranges;
mod roundtrip;
mod rtl;
mod rtl_simulation;
mod tracers;
mod verify;
mod views;
