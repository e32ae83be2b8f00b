//! Tests of the npu target from outside: one program, one file per subject.

mod attention;
mod bench;
mod common;
mod compiled;
mod compiled_damage;
mod compiled_forms;
mod derive;
mod described;
mod fast;
mod frontend;
mod functional;
mod fuzz;
mod golden;
mod labels;
mod mutation;
mod origin;
mod roundtrip;
mod time;
mod upstream;
mod verify;
mod views;
