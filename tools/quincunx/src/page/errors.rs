//! How far every layer of every machine is from the model, as one picture.

use quincunx_report::html;
use std::fmt::Write as _;

/// Extents of the picture, and of what is drawn in it.
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 890.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 262.0;

/// Signal over noise, in decibels, of which more is drawn as this much.
const MOST: f64 = 120.0;

/// Decibels between two lines.
const LINES: usize = 20;

/// The layers of a machine that have a distance.
pub(super) struct Line<'a> {
    /// Which machine, counted from 0.
    pub(super) machine: usize,
    /// Its name.
    pub(super) name: &'a str,
    /// Place in the model, name, and signal over noise in decibels; `None` without noise.
    pub(super) layers: Vec<(f64, &'a str, Option<f64>)>,
}

/// The picture; `None` when there is nothing to draw. `count` is how many places the model has.
pub(super) fn svg(lines: &[Line<'_>], count: usize) -> Option<String> {
    if lines.iter().all(|line| line.layers.is_empty()) {
        return None;
    }
    let x = |place: f64| LEFT + (place + 0.5) / count.max(1) as f64 * (RIGHT - LEFT);
    let y = |decibels: f64| BOTTOM - decibels.clamp(0.0, MOST) / MOST * (BOTTOM - TOP);
    let mut out = format!(
        "<svg class=\"errors\" width=\"{WIDTH}\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         role=\"img\" aria-label=\"signal over noise of every layer\">\n"
    );
    for decibels in (0..=MOST as usize).step_by(LINES) {
        let y = y(decibels as f64);
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "<path class=\"axis\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/><text x=\"{:.0}\" y=\"{:.1}\" \
             text-anchor=\"end\">{decibels}</text>",
            LEFT - 6.0,
            y + 4.0
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"{:.0}\">input</text><text x=\"{RIGHT}\" y=\"{:.0}\" \
         text-anchor=\"end\">output</text>",
        BOTTOM + 20.0,
        BOTTOM + 20.0
    );
    for line in lines {
        let at = |&(place, _, decibels): &(f64, &str, Option<f64>)| {
            (x(place), y(decibels.unwrap_or(MOST)))
        };
        let _ = write!(out, "<g class=\"m{}\"><path class=\"line\" d=\"", line.machine);
        for (index, layer) in line.layers.iter().enumerate() {
            let (x, y) = at(layer);
            let _ = write!(out, "{}{x:.1} {y:.1}", if index == 0 { 'M' } else { 'L' });
        }
        out += "\"/>\n";
        for layer @ (_, name, decibels) in &line.layers {
            let (x, y) = at(layer);
            let noise = decibels.map_or("equal".to_owned(), |decibels| format!("{decibels:.1} dB"));
            let _ = writeln!(
                out,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"><title>{}: {}: {noise}</title></circle>",
                html(line.name),
                html(name)
            );
        }
        out += "</g>\n";
    }
    Some(out + "</svg>\n")
}
