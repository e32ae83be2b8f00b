//! Tests of `conform` from outside: one program, one file per subject.

mod conform;
