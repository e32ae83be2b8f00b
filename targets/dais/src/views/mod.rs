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
use quincunx_report::Heading;

/// Most operations that are drawn one by one for Graphviz, whose layout takes long beyond.
const DOT_LIMIT: usize = 1000;

/// Most operations that are drawn one by one in our own layout.
const SVG_LIMIT: usize = 4000;

/// The graph in the DOT language.
pub(crate) fn dot(flat: &Flat, heading: &Heading) -> String {
    let picture = Picture::of(flat, DOT_LIMIT);
    dot::dot(&picture, &heading.clone().titled(picture.title()))
}

/// The graph as a drawing.
pub(crate) fn svg(flat: &Flat, heading: &Heading) -> String {
    let picture = Picture::of(flat, SVG_LIMIT);
    svg::svg(&picture, &heading.clone().titled(picture.title()))
}
