//! Tests of the scamp target from outside: one program, one file per subject.

mod api;
mod artifact;
mod auke;
mod bus;
mod cain;
mod common;
mod compile;
mod differential;
mod digital;
mod fast;
mod fuzz;
mod global_input;
mod golden;
mod mutation;
mod networks;
mod noise;
mod objective;
mod origin;
mod prove;
mod readme;
mod readouts;
mod roundtrip;
mod search;
mod stages;
mod super_pixel;
mod verify;
