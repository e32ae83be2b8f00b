//! Tests of the dpas target from outside: one program, one file per subject.

mod artifact;
mod common;
mod compiled;
mod compiled_attention;
mod compiled_damage;
mod compiled_floats;
mod corruption;
mod differential;
mod fast;
mod fast_kernels;
mod fast_launches;
mod fuzz;
mod golden;
mod kernels;
mod late;
mod launch;
mod mutation;
mod origin;
mod peer;
mod roundtrip;
mod swsb;
mod timing;
mod vector;
mod verify;
mod xe3p;
mod zebin;
