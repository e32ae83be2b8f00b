//! Pictures and tables of programs: the adder graph for people, widths, and what every layer costs.

mod csd;
mod dot;
mod flat;
mod layout;
mod picture;
mod svg;
mod tables;

pub(crate) use flat::Flat;
pub(crate) use tables::{layers, operations, stages, widths};

use picture::Picture;

/// Most operations that are drawn one by one for Graphviz, whose layout takes long beyond.
const DOT_LIMIT: usize = 1000;

/// Most operations that are drawn one by one in our own layout.
const SVG_LIMIT: usize = 4000;

/// The graph in the DOT language.
pub(crate) fn dot(flat: &Flat, name: &str) -> String {
    dot::dot(&Picture::of(flat, DOT_LIMIT), name)
}

/// The graph as a drawing.
pub(crate) fn svg(flat: &Flat, name: &str) -> String {
    svg::svg(&Picture::of(flat, SVG_LIMIT), name)
}
