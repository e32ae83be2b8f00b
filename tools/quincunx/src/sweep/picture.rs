//! The machines of a sweep as a picture.

use super::{Row, Sweep};
use quincunx_report::{Heading, html, shortened};
use serde_json::Value;
use std::fmt::Write as _;

/// Extents of the picture, and of what is drawn in it.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 460.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 690.0;
const TOP: f64 = 90.0;
const BOTTOM: f64 = 410.0;

/// Marks of the axis of speed.
const MARKS: usize = 4;

/// Most characters of a value below the picture.
const LONGEST: usize = 16;

/// The values of the first varied parameter to the right, in their order, and cycles upwards; lines
/// join machines that differ in nothing else. Machines that nothing beats are filled. The numbers of a
/// machine show when one points at it.
pub fn picture(sweep: &Sweep<'_>, rows: &[Row], heading: &Heading) -> String {
    let cycles = |row: &Row| row.result.as_ref().ok()?.stats.cycles;
    let most = rows.iter().filter_map(cycles).max().unwrap_or(0).max(1);
    let count = sweep.vary.first().map_or(0, |variation| variation.values.len()).max(1);
    let x = |place: usize| LEFT + (place as f64 + 0.5) / count as f64 * (RIGHT - LEFT);
    let y = |cycles: u64| BOTTOM - cycles as f64 / most as f64 * (BOTTOM - TOP);
    // The first parameter varies slowest: the rows of each of its values lie together.
    let others = (rows.len() / count).max(1);
    let mut out = axes(sweep, most, x, y);
    for series in 0..others {
        let hue = series as f64 * 137.508 % 360.0;
        let series = rows.iter().skip(series).step_by(others).enumerate();
        let points: Vec<(f64, f64, &Row)> =
            series.filter_map(|(place, row)| Some((x(place), y(cycles(row)?), row))).collect();
        let path: Vec<String> = points.iter().map(|(x, y, _)| format!("{x:.1} {y:.1}")).collect();
        if path.len() > 1 {
            let path = path.join("L");
            let _ = writeln!(
                out,
                "<path d=\"M{path}\" fill=\"none\" stroke=\"hsl({hue:.0} 60% 55%)\"/>"
            );
        }
        for (x, y, row) in points {
            let fill =
                if row.pareto { format!("hsl({hue:.0} 60% 45%)") } else { "none".to_owned() };
            let _ = writeln!(
                out,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"{fill}\" \
                 stroke=\"hsl({hue:.0} 60% 45%)\" pointer-events=\"all\"><title>{}: {} cycles{}\
                 </title></circle>",
                html(&named(sweep, &row.values)),
                cycles(row).unwrap_or(0),
                if row.pareto { ", nothing beats it" } else { "" },
            );
        }
    }
    heading.clone().titled("Sweep").picture([WIDTH, HEIGHT], &out)
}

/// `rows=4 columns=8`.
fn named(sweep: &Sweep<'_>, values: &[Value]) -> String {
    let pairs = sweep.vary.iter().zip(values);
    let words = pairs.map(|(variation, value)| format!("{}={}", variation.parameter, word(value)));
    words.collect::<Vec<_>>().join(" ")
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn axes(sweep: &Sweep<'_>, most: u64, x: impl Fn(usize) -> f64, y: impl Fn(u64) -> f64) -> String {
    let mut out = String::new();
    for mark in 0..=MARKS {
        let cycles = (most as f64 * mark as f64 / MARKS as f64).round() as u64;
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M{LEFT} {0:.1}H{RIGHT}\"/><text class=\"ink\" x=\"{1:.1}\" \
             y=\"{2:.1}\" text-anchor=\"end\">{cycles}</text>",
            y(cycles),
            LEFT - 6.0,
            y(cycles) + 4.0,
        );
    }
    let Some(first) = sweep.vary.first() else { return out };
    for (place, value) in first.values.iter().enumerate() {
        let _ = writeln!(
            out,
            "<text class=\"ink\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            x(place),
            BOTTOM + 16.0,
            html(&shortened(value, LONGEST)),
        );
    }
    let _ = writeln!(
        out,
        "<text class=\"ink\" x=\"{LEFT}\" y=\"{:.1}\">cycles; filled: nothing beats this machine\
         </text>\n<text class=\"ink\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        TOP - 16.0,
        (LEFT + RIGHT) / 2.0,
        BOTTOM + 34.0,
        html(&first.parameter),
    );
    out
}
