//! The machines of a sweep as a picture.

use super::choices::word;
use super::{Figures, Row, Sweep};
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

/// What is drawn upwards: cycles, or where they are known accuracies.
struct Scale {
    is_accuracy: bool,
    /// At the top of the picture.
    most: f64,
}

impl Scale {
    fn of(sweep: &Sweep<'_>, rows: &[Row]) -> Scale {
        let is_accuracy = sweep.has_classes();
        let cycles = rows.iter().filter_map(|row| row.result.as_ref().ok()?.stats.cycles).max();
        let most = if is_accuracy { 1.0 } else { cycles.unwrap_or(0).max(1) as f64 };
        Scale { is_accuracy, most }
    }

    fn value(&self, row: &Row) -> Option<f64> {
        let figures = row.result.as_ref().ok()?;
        match self.is_accuracy {
            true => figures.accuracy(),
            false => figures.stats.cycles.map(|cycles| cycles as f64),
        }
    }

    fn y(&self, value: f64) -> f64 {
        BOTTOM - value / self.most * (BOTTOM - TOP)
    }

    fn mark(&self, value: f64) -> String {
        match self.is_accuracy {
            true => format!("{:.0} %", 100.0 * value),
            false => format!("{:.0}", value.round()),
        }
    }

    fn words(&self, row: &Row, value: f64) -> String {
        let range = row.result.as_ref().ok().and_then(Figures::accuracy_range);
        match range.filter(|_| self.is_accuracy) {
            Some((least, most)) if least < most => format!(
                "accuracy {:.2} %, {:.2} to {:.2} %",
                100.0 * value,
                100.0 * least,
                100.0 * most
            ),
            Some(_) => format!("accuracy {:.2} %", 100.0 * value),
            None => format!("{value} cycles"),
        }
    }
}

/// The values of the first varied parameter to the right, in their order, and cycles upwards, or the
/// accuracy where there are images; lines join machines that differ in nothing else. Machines that
/// nothing beats are filled. The numbers of a machine show when one points at it; a bar ends at the
/// least accuracy and the largest one.
pub fn picture(sweep: &Sweep<'_>, rows: &[Row], heading: &Heading) -> String {
    let scale = Scale::of(sweep, rows);
    let count = sweep.vary.first().map_or(0, |variation| variation.values.len()).max(1);
    let x = |place: usize| LEFT + (place as f64 + 0.5) / count as f64 * (RIGHT - LEFT);
    // The first parameter varies slowest: the rows of each of its values lie together.
    let others = (rows.len() / count).max(1);
    let mut out = axes(sweep, &scale, x);
    for series in 0..others {
        let hue = series as f64 * 137.508 % 360.0;
        let series = rows.iter().skip(series).step_by(others).enumerate();
        let points: Vec<(f64, f64, &Row)> =
            series.filter_map(|(place, row)| Some((x(place), scale.value(row)?, row))).collect();
        let path: Vec<String> =
            points.iter().map(|(x, value, _)| format!("{x:.1} {:.1}", scale.y(*value))).collect();
        if path.len() > 1 {
            let path = path.join("L");
            let _ = writeln!(
                out,
                "<path d=\"M{path}\" fill=\"none\" stroke=\"hsl({hue:.0} 60% 55%)\"/>"
            );
        }
        for (x, value, row) in points {
            point(&mut out, sweep, &scale, (x, value, hue), row);
        }
    }
    heading.clone().titled("Sweep").picture([WIDTH, HEIGHT], &out)
}

/// A machine, and the bar of its accuracies.
fn point(
    out: &mut String,
    sweep: &Sweep<'_>,
    scale: &Scale,
    (x, value, hue): (f64, f64, f64),
    row: &Row,
) {
    let colour = format!("hsl({hue:.0} 60% 45%)");
    let range = row.result.as_ref().ok().and_then(Figures::accuracy_range);
    if let Some((least, most)) = range.filter(|range| scale.is_accuracy && range.0 < range.1) {
        let _ = writeln!(
            out,
            "<path d=\"M{x:.1} {:.1}V{:.1}\" stroke=\"{colour}\"/>",
            scale.y(least),
            scale.y(most)
        );
    }
    let fill = if row.pareto { &colour } else { "none" };
    let _ = writeln!(
        out,
        "<circle cx=\"{x:.1}\" cy=\"{:.1}\" r=\"5\" fill=\"{fill}\" stroke=\"{colour}\" \
         pointer-events=\"all\"><title>{}: {}{}</title></circle>",
        scale.y(value),
        html(&named(sweep, &row.values)),
        scale.words(row, value),
        if row.pareto { ", nothing beats it" } else { "" },
    );
}

/// `rows=4 columns=8`.
fn named(sweep: &Sweep<'_>, values: &[Value]) -> String {
    let pairs = sweep.vary.iter().zip(values);
    let words = pairs.map(|(variation, value)| format!("{}={}", variation.parameter, word(value)));
    words.collect::<Vec<_>>().join(" ")
}

fn axes(sweep: &Sweep<'_>, scale: &Scale, x: impl Fn(usize) -> f64) -> String {
    let mut out = String::new();
    for mark in 0..=MARKS {
        let value = scale.most * mark as f64 / MARKS as f64;
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M{LEFT} {0:.1}H{RIGHT}\"/><text class=\"ink\" x=\"{1:.1}\" \
             y=\"{2:.1}\" text-anchor=\"end\">{3}</text>",
            scale.y(value),
            LEFT - 6.0,
            scale.y(value) + 4.0,
            scale.mark(value),
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
        "<text class=\"ink\" x=\"{LEFT}\" y=\"{:.1}\">{}; filled: nothing beats this machine\
         </text>\n<text class=\"ink\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        TOP - 16.0,
        match scale.is_accuracy {
            false => "cycles",
            true if sweep.over.is_empty() => "accuracy",
            true => "accuracy, bars from the least to the largest",
        },
        (LEFT + RIGHT) / 2.0,
        BOTTOM + 34.0,
        html(&first.parameter),
    );
    out
}
