//! Charts of lines as pictures.

use quincunx_report::{Heading, html};
use std::fmt::Write as _;

/// Points that belong together, from the left to the right.
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) points: Vec<(f64, f64)>,
}

/// Lines with axes from 0.
pub(super) struct Chart {
    pub(super) title: &'static str,
    pub(super) x: &'static str,
    pub(super) y: &'static str,
    pub(super) lines: Vec<Line>,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 60.0;
const COLOURS: [&str; 2] = ["#1f77b4", "#d9541a"];

/// Marks on each axis.
const MARKS: usize = 5;

/// The least of 1, 2 and 5 times a power of ten that is not less.
fn round(most: f64) -> f64 {
    let power = 10_f64.powf(most.max(1.0).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|step| step * power)
        .find(|end| *end >= most)
        .unwrap_or(most)
}

impl Chart {
    /// The picture.
    pub(super) fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let (x_end, y_end) = (
            round(points().fold(1.0, |most, point| most.max(point.0))),
            round(points().fold(1.0, |most, point| most.max(point.1))),
        );
        let (top, bottom) = (Heading::HEIGHT + 20.0, Heading::HEIGHT + 20.0 + HEIGHT);
        let x = |value: f64| LEFT + value / x_end * WIDTH;
        let y = |value: f64| bottom - value / y_end * HEIGHT;
        let mut out = format!(
            "<path class=\"edge\" fill=\"none\" d=\"M{LEFT} {top}V{bottom}H{}\"/>\n",
            LEFT + WIDTH
        );
        // Writing to a string cannot fail.
        for mark in 0..=MARKS {
            let share = mark as f64 / MARKS as f64;
            let (at_x, at_y) = (share * x_end, share * y_end);
            let _ = writeln!(
                out,
                "<text class=\"ink\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{at_x}</text>\
                 <text class=\"ink\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{at_y}</text>",
                x(at_x),
                bottom + 18.0,
                LEFT - 6.0,
                y(at_y) + 4.0
            );
        }
        for (index, line) in self.lines.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let path: Vec<String> =
                line.points.iter().map(|&(a, b)| format!("{:.1},{:.1}", x(a), y(b))).collect();
            let _ = writeln!(
                out,
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{}</text>",
                path.join(" "),
                LEFT + 20.0,
                top + 16.0 * index as f64,
                html(line.name)
            );
        }
        let _ = writeln!(
            out,
            "<text class=\"ink\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <text class=\"ink\" x=\"{}\" y=\"{:.1}\">{}</text>",
            LEFT + WIDTH,
            bottom + 36.0,
            html(self.x),
            LEFT - 40.0,
            top - 10.0,
            html(self.y)
        );
        Heading::new(self.title).picture([LEFT + WIDTH + 40.0, bottom + 56.0], &out)
    }
}
