//! The program as tables and pictures.

mod demand;
mod dot;
mod statistics;
mod usage;

pub(crate) use demand::demand;
pub(crate) use dot::dot;
pub(crate) use statistics::Statistics;
pub(crate) use usage::extent;
