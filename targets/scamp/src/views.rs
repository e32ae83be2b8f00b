//! The program as pictures.

mod film;
mod letters;
mod steps;

pub(crate) use film::film;
pub(crate) use steps::page;
