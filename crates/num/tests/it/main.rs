//! Tests of the `num` crate from outside: one program, one file per subject.

mod minifloat;
