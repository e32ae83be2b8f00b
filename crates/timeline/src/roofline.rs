//! Rooflines: how near every part of a program is to what the machine could do at most.

use quincunx_report::{Heading, html, shortened};
use std::fmt::Write as _;

/// Extents of the picture, and of what is drawn in it.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 500.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 690.0;
const TOP: f64 = 110.0;
const BOTTOM: f64 = 450.0;

/// Colours of points and of the roof.
const POINT: &str = "#2a7fc0";
const ROOF: &str = "#d04040";

/// Most points that get their names beside them; a name shows in any case when one points at it.
const NAMED: usize = 12;

/// Most characters of a name beside a point.
const LONGEST: usize = 24;

/// A part of a program in a roofline.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Its name.
    pub name: String,
    /// Work for each unit that is moved.
    pub intensity: f64,
    /// Work in a unit of time.
    pub rate: f64,
}

/// What a machine can do at most, and what the parts of a program reach.
#[derive(Clone, Debug, PartialEq)]
pub struct Roofline {
    /// Most work in a unit of time.
    pub peak: f64,
    /// Most that is moved in a unit of time.
    pub bandwidth: f64,
    /// What intensity counts: `MACs for each DRAM vector`.
    pub intensity_unit: &'static str,
    /// What rates count: `MACs in a cycle`.
    pub rate_unit: &'static str,
    /// Parts that work, in order.
    pub points: Vec<Point>,
}

impl Roofline {
    /// The most work in a unit of time at this intensity.
    pub fn roof(&self, intensity: f64) -> f64 {
        self.peak.min(intensity * self.bandwidth)
    }

    /// The intensity from which on the peak is the limit.
    pub fn ridge(&self) -> f64 {
        self.peak / self.bandwidth
    }

    /// The picture, both axes logarithmic. Parts without work have no place in it.
    pub fn svg(&self, heading: &Heading) -> String {
        let is_drawn = |p: &&Point| p.intensity.is_finite() && p.rate > 0.0;
        let drawn = || self.points.iter().filter(is_drawn);
        let xs = Axis::new(drawn().map(|p| p.intensity).chain([self.ridge()]), [LEFT, RIGHT]);
        let ys = Axis::new(drawn().map(|p| p.rate).chain([self.peak]), [BOTTOM, TOP]);
        let mut out = self.legend(self.points.len() - drawn().count());
        self.axes(&xs, &ys, &mut out);
        self.line(&xs, &ys, &mut out);
        for (index, point) in drawn().enumerate() {
            let (x, y) = (xs.place(point.intensity), ys.place(point.rate));
            let share = point.rate / self.roof(point.intensity) * 100.0;
            let _ = writeln!(
                out,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{POINT}\" \
                 fill-opacity=\"0.8\"><title>{}: {} {}, {} {}, {share:.2} % of the roof</title>\
                 </circle>",
                html(&point.name),
                point.intensity,
                html(self.intensity_unit),
                point.rate,
                html(self.rate_unit)
            );
            if index < NAMED {
                // Names at the right edge stand to the left of their points.
                let (anchor, side) = if x > RIGHT - 150.0 { ("end", -6.0) } else { ("start", 6.0) };
                let _ = writeln!(
                    out,
                    "<text class=\"ink\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
                    x + side,
                    y + 4.0,
                    html(&shortened(&point.name, LONGEST))
                );
            }
        }
        heading.clone().titled("Roofline").picture([WIDTH, HEIGHT], &out)
    }

    /// What the line and the points are.
    fn legend(&self, without: usize) -> String {
        let left_out = match without {
            0 => String::new(),
            count => format!(" ({count} that move or compute nothing are left out)"),
        };
        let (y, below) = (Heading::HEIGHT + 4.0, Heading::HEIGHT + 20.0);
        format!(
            "<line x1=\"20\" y1=\"{y}\" x2=\"44\" y2=\"{y}\" stroke=\"{ROOF}\" \
             stroke-width=\"2\"/><text class=\"ink\" x=\"50\" y=\"{}\">the most that the machine \
             can do</text>\n<circle cx=\"32\" cy=\"{below}\" r=\"4\" fill=\"{POINT}\"/>\
             <text class=\"ink\" x=\"50\" y=\"{}\">what a part of the program reaches{left_out}\
             </text>\n",
            y + 4.0,
            below + 4.0
        )
    }

    fn axes(&self, xs: &Axis, ys: &Axis, out: &mut String) {
        for power in xs.powers() {
            let x = xs.place(10_f64.powi(power));
            let _ = writeln!(
                out,
                "<path class=\"grid\" d=\"M{x:.1} {TOP}V{BOTTOM}\"/><text class=\"ink\" \
                 x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                BOTTOM + 14.0,
                label(power)
            );
        }
        for power in ys.powers() {
            let y = ys.place(10_f64.powi(power));
            let _ = writeln!(
                out,
                "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/><text class=\"ink\" \
                 x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                y + 4.0,
                label(power)
            );
        }
        let _ = writeln!(
            out,
            "<text class=\"ink\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n\
             <text class=\"ink\" x=\"{LEFT}\" y=\"{:.1}\">{}</text>",
            (LEFT + RIGHT) / 2.0,
            BOTTOM + 34.0,
            html(self.intensity_unit),
            TOP - 12.0,
            html(self.rate_unit)
        );
    }

    fn line(&self, xs: &Axis, ys: &Axis, out: &mut String) {
        let [low, high] = xs.range;
        // The slope enters the picture at its left or at its lower edge.
        let start = low.max(ys.range[0] / self.bandwidth);
        let corner = |intensity: f64| {
            format!("{:.1} {:.1}", xs.place(intensity), ys.place(self.roof(intensity)))
        };
        let _ = writeln!(
            out,
            "<path d=\"M{} L{} L{}\" fill=\"none\" stroke=\"{ROOF}\" stroke-width=\"2\">\
             <title>at most {} {}, from {} {} on</title></path>",
            corner(start),
            corner(self.ridge().max(start)),
            corner(high),
            self.peak,
            html(self.rate_unit),
            self.ridge(),
            html(self.intensity_unit)
        );
    }
}

/// A logarithmic axis of whole decades.
struct Axis {
    range: [f64; 2],
    pixels: [f64; 2],
}

impl Axis {
    fn new(values: impl Iterator<Item = f64>, pixels: [f64; 2]) -> Axis {
        let mut powers = [i32::MAX, i32::MIN];
        for value in values.filter(|value| value.is_finite() && *value > 0.0) {
            let power = value.log10();
            powers = [powers[0].min(power.floor() as i32), powers[1].max(power.ceil() as i32)];
        }
        if powers[0] > powers[1] {
            powers = [0, 1];
        }
        powers[1] = powers[1].max(powers[0] + 1);
        Axis { range: powers.map(|power| 10_f64.powi(power)), pixels }
    }

    fn place(&self, value: f64) -> f64 {
        let [low, high] = self.range.map(f64::log10);
        let share = ((value.log10() - low) / (high - low)).clamp(0.0, 1.0);
        self.pixels[0] + share * (self.pixels[1] - self.pixels[0])
    }

    fn powers(&self) -> std::ops::RangeInclusive<i32> {
        self.range[0].log10().round() as i32..=self.range[1].log10().round() as i32
    }
}

fn label(power: i32) -> String {
    if (-2..=4).contains(&power) { 10_f64.powi(power).to_string() } else { format!("1e{power}") }
}
