//! The graph as a drawing.

use super::layout::layout;
use super::picture::{Kind, Picture};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Items with words in them; with more, there are dots.
const MAX_LABELS: usize = 250;

/// Space around the graph and above it, in pixels.
const MARGIN: f64 = 20.0;
const HEADER: f64 = 50.0;

/// Distances of columns and rows.
struct Spacing {
    column: f64,
    row: f64,
    /// Half of the width of a box; none for dots.
    half: Option<f64>,
}

/// A drawing of its own: no scripts, no fonts, nothing from elsewhere.
pub(super) fn svg(picture: &Picture, name: &str) -> String {
    let layout = layout(picture);
    let spacing = match picture.items.len() {
        0..=MAX_LABELS => Spacing { column: 190.0, row: 30.0, half: Some(70.0) },
        _ => Spacing { column: 60.0, row: 9.0, half: None },
    };
    let half = spacing.half.unwrap_or(5.0);
    let width = (layout.columns.max(1) - 1) as f64 * spacing.column + 2.0 * (half + MARGIN);
    let width = width.max(700.0);
    let height = layout.rows as f64 * spacing.row + HEADER + MARGIN;
    let place = |index: usize| {
        let (column, row) = layout.places[index];
        (MARGIN + half + column as f64 * spacing.column, HEADER + row * spacing.row)
    };
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    header(picture, name, &mut out);
    edges(picture, &place, spacing.half.unwrap_or(0.0), &mut out);
    for (index, item) in picture.items.iter().enumerate() {
        let (x, y) = place(index);
        let (colour, title) = (item.kind.colour(), escaped(&item.title));
        // Writing to a string cannot fail.
        let _ = match spacing.half {
            Some(half) => writeln!(
                out,
                "<g><title>{title}</title><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" \
                 height=\"20\" rx=\"4\" fill=\"{colour}\"/><text x=\"{x:.1}\" y=\"{:.1}\" \
                 text-anchor=\"middle\" fill=\"white\">{}</text></g>",
                x - half,
                y - 10.0,
                2.0 * half,
                y + 4.0,
                escaped(&item.label)
            ),
            None => {
                let radius = (3.0 + (item.count as f64).log2() / 2.0).min(9.0);
                writeln!(
                    out,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\" fill=\"{colour}\">\
                     <title>{title}</title></circle>"
                )
            }
        };
    }
    out.push_str("</svg>\n");
    out
}

/// The name and what the colours mean.
fn header(picture: &Picture, name: &str, out: &mut String) {
    let together = if picture.is_collapsed { ", operations of a kind together" } else { "" };
    let _ = writeln!(
        out,
        "<text x=\"{MARGIN}\" y=\"18\" font-size=\"14\">{}{together}</text>",
        escaped(name)
    );
    let present: BTreeSet<Kind> = picture.items.iter().map(|item| item.kind).collect();
    let mut x = MARGIN;
    for kind in Kind::ALL.into_iter().filter(|kind| present.contains(kind)) {
        let (colour, label) = (kind.colour(), kind.name());
        let _ = writeln!(
            out,
            "<circle cx=\"{:.0}\" cy=\"32\" r=\"5\" fill=\"{colour}\"/><text x=\"{:.0}\" y=\"36\">{label}</text>",
            x + 5.0,
            x + 14.0
        );
        x += 75.0;
    }
}

/// Curves from the right of an item to the left of another; those that cross registers are dashed.
fn edges(picture: &Picture, place: &impl Fn(usize) -> (f64, f64), half: f64, out: &mut String) {
    out.push_str("<g fill=\"none\" stroke=\"#555\" stroke-opacity=\"0.3\">\n");
    for (&(from, to), &count) in &picture.edges {
        let ((x0, y0), (x1, y1)) = (place(from), place(to));
        let (x0, x1) = (x0 + half, x1 - half);
        let bend = ((x1 - x0) / 2.0).abs().max(10.0);
        let width = (0.7 + (count as f64).log2() / 3.0).min(4.0);
        let is_stored = picture.items[from].stage < picture.items[to].stage;
        let dashes = if is_stored { " stroke-dasharray=\"3 2\"" } else { "" };
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

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
