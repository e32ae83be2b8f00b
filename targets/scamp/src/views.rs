//! The program as pictures.

mod steps;

pub(crate) use steps::page;
