//! The graph as a drawing.

use super::layout::layout;
use super::picture::Picture;
use quincunx_report::{Heading, html, shortened};
use std::fmt::Write as _;

/// Items with words in them; with more, there are dots.
const MAX_LABELS: usize = 250;

/// Most characters of the words on an item.
const MAX_LABEL: usize = 22;

/// Space around the graph and above it, in pixels.
const MARGIN: f64 = Heading::MARGIN;
const HEADER: f64 = Heading::HEIGHT + 50.0;

/// Lines that cross registers.
const DASHES: &str = " stroke-dasharray=\"3 2\"";

/// Distances of columns and rows.
struct Spacing {
    column: f64,
    row: f64,
    /// Half of the width of a box; none for dots.
    half: Option<f64>,
}

/// A drawing of its own: no scripts, no fonts, nothing from elsewhere.
pub(super) fn svg(picture: &Picture, heading: &Heading) -> String {
    let layout = layout(picture);
    let spacing = match picture.items.len() {
        0..=MAX_LABELS => Spacing { column: 190.0, row: 30.0, half: Some(70.0) },
        // Dots for many operations are larger.
        _ if picture.is_collapsed => Spacing { column: 60.0, row: 22.0, half: None },
        _ => Spacing { column: 60.0, row: 9.0, half: None },
    };
    let half = spacing.half.unwrap_or(5.0);
    let width = (layout.columns.max(1) - 1) as f64 * spacing.column + 2.0 * (half + MARGIN);
    let width = width.max(820.0);
    let height = layout.rows as f64 * spacing.row + HEADER + MARGIN;
    let place = |index: usize| {
        let (column, row) = layout.places[index];
        (MARGIN + half + column as f64 * spacing.column, HEADER + row * spacing.row)
    };
    let mut out = legend(picture, spacing.half.is_none());
    edges(picture, &place, spacing.half.unwrap_or(0.0), &mut out);
    for (index, item) in picture.items.iter().enumerate() {
        let (x, y) = place(index);
        let (colour, title) = (item.kind.colour(), html(&item.title));
        // Writing to a string cannot fail.
        let _ = match spacing.half {
            Some(half) => writeln!(
                out,
                "<g><title>{title}</title><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" \
                 height=\"20\" rx=\"4\" fill=\"{colour}\"/><text x=\"{x:.1}\" y=\"{:.1}\" \
                 text-anchor=\"middle\" fill=\"{}\">{}</text></g>",
                x - half,
                y - 10.0,
                2.0 * half,
                y + 4.0,
                item.kind.words(),
                html(&shortened(&item.label, MAX_LABEL))
            ),
            None => writeln!(
                out,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{:.1}\" fill=\"{colour}\">\
                 <title>{title}</title></circle>",
                radius(item.count)
            ),
        };
    }
    heading.picture([width, height], &out)
}

/// The size of a dot for so many operations.
fn radius(count: usize) -> f64 {
    (3.0 + (count as f64).log2() / 2.0).min(9.0)
}

/// What colours, lines and sizes mean.
fn legend(picture: &Picture, is_dots: bool) -> String {
    let mut out = String::new();
    let mut x = MARGIN;
    let y = Heading::HEIGHT + 6.0;
    for kind in picture.kinds() {
        let (colour, label) = (kind.colour(), kind.name());
        let _ = writeln!(
            out,
            "<rect x=\"{x:.0}\" y=\"{:.0}\" width=\"10\" height=\"10\" rx=\"2\" fill=\"{colour}\"/>\
             <text class=\"ink\" x=\"{:.0}\" y=\"{:.0}\">{label}</text>",
            y - 5.0,
            x + 14.0,
            y + 4.0
        );
        x += 86.0;
    }
    let lines = y + 18.0;
    let entry = |x: f64, dashes: &str, label: &str| {
        format!(
            "<line class=\"edge\" x1=\"{x}\" y1=\"{lines}\" x2=\"{}\" y2=\"{lines}\"{dashes}/>\
             <text class=\"ink\" x=\"{}\" y=\"{}\">{label}</text>\n",
            x + 24.0,
            x + 30.0,
            lines + 4.0
        )
    };
    let mut operand = "operand".to_owned();
    if picture.edges.values().any(|&count| count > 1) {
        operand += ", wider for several";
    }
    if !is_dots {
        operand += "; %slot, in pipelines %slot@stage";
    } else if picture.is_collapsed {
        operand += "; larger dots are more operations";
    }
    if picture.stages > 1 {
        out += &entry(MARGIN, DASHES, "held in a register between stages");
        out += &entry(MARGIN + 260.0, "", &operand);
    } else {
        out += &entry(MARGIN, "", &operand);
    }
    out
}

/// Curves from the right of an item to the left of another; those that cross registers are dashed.
fn edges(picture: &Picture, place: &impl Fn(usize) -> (f64, f64), half: f64, out: &mut String) {
    out.push_str("<g class=\"edge\" fill=\"none\" stroke-opacity=\"0.4\">\n");
    for (&(from, to), &count) in &picture.edges {
        let ((x0, y0), (x1, y1)) = (place(from), place(to));
        let (x0, x1) = (x0 + half, x1 - half);
        let bend = ((x1 - x0) / 2.0).abs().max(10.0);
        let width = (0.7 + (count as f64).log2() / 3.0).min(4.0);
        let is_stored = picture.items[from].stage < picture.items[to].stage;
        let dashes = if is_stored { DASHES } else { "" };
        let _ = writeln!(
            out,
            "<path d=\"M{x0:.1} {y0:.1}C{:.1} {y0:.1} {:.1} {y1:.1} {x1:.1} {y1:.1}\" \
             stroke-width=\"{width:.1}\"{dashes}/>",
            x0 + bend,
            x1 - bend
        );
    }
    out.push_str("</g>\n");
}
