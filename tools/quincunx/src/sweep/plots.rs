//! The rows of a sweep as pictures of any choice of combinations: two figures against each other with
//! the front of what nothing beats in both, and all values and figures as lines between axes.

use super::choices::word;
use super::{Row, Sweep};
use quincunx_report::{Heading, html, shortened};
use std::fmt::Write as _;

/// Extents of the pictures, and of what is drawn in them.
const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 480.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 780.0;
const TOP: f64 = 96.0;
const BOTTOM: f64 = 420.0;

/// Marks of an axis.
const MARKS: usize = 4;

/// Text with a border of the colour of the paper, in light and in dark.
const HALO: &str = "<style>.halo{paint-order:stroke;stroke:#fffc;stroke-width:3px}\
    @media(prefers-color-scheme:dark){.halo{stroke:#111c}}</style>\n";

/// Most characters of a name or value at an axis.
const LONGEST: usize = 14;

/// A figure of rows.
struct Figure {
    name: &'static str,
    /// More is better.
    more: bool,
    values: Vec<Option<f64>>,
}

impl Figure {
    fn new(name: &'static str, more: bool, rows: &[Row], of: impl Fn(&Row) -> Option<f64>) -> Self {
        let finite = |row| of(row).filter(|value: &f64| value.is_finite());
        Figure { name, more, values: rows.iter().map(finite).collect() }
    }

    fn differs(&self) -> bool {
        self.range().is_some_and(|(least, most)| least < most)
    }

    /// The least and the largest value; `None` without one.
    fn range(&self) -> Option<(f64, f64)> {
        let values = || self.values.iter().flatten().copied();
        values().reduce(f64::min).zip(values().reduce(f64::max))
    }
}

/// Time, as it is known.
fn time(rows: &[Row]) -> Figure {
    let figures = |row: &Row| row.result.as_ref().ok().map(|figures| figures.stats.clone());
    let microseconds = |row: &Row| Some(figures(row)?.seconds()? * 1e6);
    let cycles = |row: &Row| Some(figures(row)?.cycles? as f64);
    let time = Figure::new("microseconds", false, rows, microseconds);
    match time.range() {
        Some(_) => time,
        None => Figure::new("cycles", false, rows, cycles),
    }
}

/// All figures that some row has: time first, then what tells most of how good the numbers are.
fn figures(rows: &[Row]) -> Vec<Figure> {
    let of = |row: &Row| row.result.as_ref().ok().cloned();
    let noise = |row: &Row| of(row)?.distance.map(|distance| distance.rms());
    let all = [
        time(rows),
        Figure::new("accuracy", true, rows, |row| of(row)?.accuracy()),
        Figure::new("rms difference", false, rows, noise),
        Figure::new("share of macs", true, rows, |row| of(row).map(|figures| figures.share)),
        Figure::new("bytes", false, rows, |row| Some(of(row)?.stats.bytes as f64)),
    ];
    all.into_iter().filter(|figure| figure.range().is_some()).collect()
}

/// A number with few digits.
fn brief(value: f64) -> String {
    match value.abs() {
        size if size == 0.0 || (1e-2..1e6).contains(&size) => {
            let digits = (3 - size.max(1e-9).log10().floor() as i32).clamp(0, 4);
            let text = format!("{value:.*}", digits as usize);
            match text.contains('.') {
                true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
                false => text,
            }
        }
        _ => format!("{value:.2e}"),
    }
}

/// Where a value lies between two ends.
fn between((least, most): (f64, f64), value: f64, from: f64, to: f64) -> f64 {
    let share = if most > least { (value - least) / (most - least) } else { 0.5 };
    from + share * (to - from)
}

/// `rows=4 columns=8`, and what became of it.
fn words(sweep: &Sweep<'_>, row: &Row, figures: &[&Figure], index: usize) -> String {
    let values = sweep.vary.iter().zip(&row.values);
    let mut all: Vec<String> =
        values.map(|(vary, value)| format!("{}={}", vary.parameter, word(value))).collect();
    for figure in figures {
        all.extend(figure.values[index].map(|value| format!("{} {}", brief(value), figure.name)));
    }
    all.extend(row.pareto.then(|| "nothing beats it".to_owned()));
    html(&all.join(", "))
}

/// Time to the right, and upwards the accuracy, the error or the size, whichever is known first. A line
/// joins the rows that no other one beats in both; rows that nothing beats in anything are filled.
pub fn scatter(sweep: &Sweep<'_>, rows: &[Row], heading: &Heading) -> String {
    let figures = figures(rows);
    let find = |name: &str| figures.iter().find(|figure| figure.name == name);
    let x = figures.first();
    // What is the same for all rows tells nothing.
    let upward = || ["accuracy", "rms difference", "bytes"].into_iter().filter_map(find);
    let y = upward().find(|figure| figure.differs()).or_else(|| upward().next());
    let mut out = String::new();
    if let (Some(x), Some(y)) = (x, y)
        && let (Some(xs), Some(ys)) = (x.range(), y.range())
    {
        let place = |index: usize| {
            let (right, up) = x.values[index].zip(y.values[index])?;
            Some((
                between(xs, right, LEFT + 10.0, RIGHT - 10.0),
                between(ys, up, BOTTOM - 10.0, TOP + 10.0),
            ))
        };
        grid(&mut out, (x.name, xs), (y.name, ys));
        let front = front(x, y).into_iter().filter_map(place);
        let path: Vec<String> = front.map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        if path.len() > 1 {
            let path = path.join("L");
            let _ = writeln!(out, "<path d=\"M{path}\" fill=\"none\" stroke=\"#c33\"/>");
        }
        for (index, row) in rows.iter().enumerate() {
            let Some((x_at, y_at)) = place(index) else { continue };
            let fill = if row.pareto { "#28c" } else { "none" };
            let _ = writeln!(
                out,
                "<circle cx=\"{x_at:.1}\" cy=\"{y_at:.1}\" r=\"5\" fill=\"{fill}\" stroke=\"#28c\" \
                 pointer-events=\"all\"><title>{}</title></circle>",
                words(sweep, row, &[x, y], index)
            );
        }
    } else {
        let _ =
            writeln!(out, "<text class=\"ink\" x=\"{LEFT}\" y=\"{TOP}\">no row has figures</text>");
    }
    heading.clone().titled("Sweep").picture([WIDTH, HEIGHT], &out)
}

/// The rows that no other one beats in both figures, from left to right.
fn front(x: &Figure, y: &Figure) -> Vec<usize> {
    let rows = x.values.iter().zip(&y.values).enumerate();
    let mut known: Vec<(f64, f64, usize)> =
        rows.filter_map(|(index, (x, y))| Some(((*x)?, (*y)?, index))).collect();
    let loss = |value: f64| if y.more { -value } else { value };
    known.sort_by(|a, b| a.0.total_cmp(&b.0).then(loss(a.1).total_cmp(&loss(b.1))));
    let mut least = f64::INFINITY;
    let is_better = |&(_, up, _): &(f64, f64, usize)| {
        let better = loss(up) < least;
        least = least.min(loss(up));
        better
    };
    known.into_iter().filter(is_better).map(|(_, _, index)| index).collect()
}

fn grid(out: &mut String, (x, xs): (&str, (f64, f64)), (y, ys): (&str, (f64, f64))) {
    for value in marks(ys) {
        let up = between(ys, value, BOTTOM - 10.0, TOP + 10.0);
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M{LEFT} {up:.1}H{RIGHT}\"/><text class=\"ink\" x=\"{:.1}\" \
             y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            up + 4.0,
            brief(value),
        );
    }
    for value in marks(xs) {
        let right = between(xs, value, LEFT + 10.0, RIGHT - 10.0);
        let _ = writeln!(
            out,
            "<text class=\"ink\" x=\"{right:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            BOTTOM + 16.0,
            brief(value),
        );
    }
    let _ = writeln!(
        out,
        "<text class=\"ink\" x=\"{LEFT}\" y=\"{:.1}\">{y}; line: nothing is better in both; filled: nothing \
         beats it in anything</text>\n<text class=\"ink\" x=\"{:.1}\" y=\"{:.1}\" \
         text-anchor=\"middle\">{x}</text>",
        TOP - 14.0,
        (LEFT + RIGHT) / 2.0,
        BOTTOM + 36.0,
    );
}

/// Values at an axis.
fn marks((least, most): (f64, f64)) -> Vec<f64> {
    if least == most {
        return vec![least];
    }
    (0..=MARKS).map(|mark| least + mark as f64 / MARKS as f64 * (most - least)).collect()
}

/// An axis: its name, what stands at its marks, and where every row crosses it, from 0 at the bottom to 1.
struct Axis {
    name: String,
    marks: Vec<(f64, String)>,
    places: Vec<Option<f64>>,
}

impl Axis {
    /// The values of what varies, in their order.
    fn of_values(sweep: &Sweep<'_>, rows: &[Row], number: usize) -> Axis {
        let vary = &sweep.vary[number];
        let last = vary.values.len().saturating_sub(1).max(1) as f64;
        let found = |row: &Row| {
            let own = word(&row.values[number]);
            let at = vary.values.iter().position(|value| *value == own);
            // Numbers can be written in more than one way.
            let same = |value: &String| value.parse::<f64>().ok().zip(row.values[number].as_f64());
            let at = at.or_else(|| {
                vary.values.iter().position(|value| same(value).is_some_and(|(a, b)| a == b))
            });
            at.map(|at| at as f64 / last)
        };
        let marks = vary.values.iter().enumerate();
        Axis {
            name: vary.parameter.clone(),
            marks: marks.map(|(at, value)| (at as f64 / last, value.clone())).collect(),
            places: rows.iter().map(found).collect(),
        }
    }

    /// A figure: what is better lies higher.
    fn of_figure(figure: &Figure) -> Axis {
        let range = figure.range().unwrap_or((0.0, 1.0));
        let ends = if figure.more { (0.0, 1.0) } else { (1.0, 0.0) };
        let place = |value: &Option<f64>| value.map(|value| between(range, value, ends.0, ends.1));
        let mark = |value: f64| (between(range, value, ends.0, ends.1), brief(value));
        let marks = if range.0 < range.1 {
            vec![mark(range.0), mark(range.1)]
        } else {
            vec![mark(range.0)]
        };
        Axis {
            name: figure.name.to_owned(),
            marks,
            places: figure.values.iter().map(place).collect(),
        }
    }
}

/// An axis for everything that varies and every figure, and a line for every row: bold where nothing beats
/// it. On the axes of figures, what is better lies higher.
pub fn coordinates(sweep: &Sweep<'_>, rows: &[Row], heading: &Heading) -> String {
    let figures = figures(rows);
    let values = (0..sweep.vary.len()).map(|number| Axis::of_values(sweep, rows, number));
    let axes: Vec<Axis> = values.chain(figures.iter().map(Axis::of_figure)).collect();
    let step = (RIGHT - LEFT) / (axes.len().saturating_sub(1).max(1)) as f64;
    let x = |number: usize| LEFT + number as f64 * step;
    let y = |place: f64| BOTTOM - place * (BOTTOM - TOP);
    let (mut out, mut words_of_axes) = (HALO.to_owned(), String::new());
    for (number, axis) in axes.iter().enumerate() {
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M{0:.1} {TOP}V{BOTTOM}\"/><text class=\"ink\" x=\"{0:.1}\" \
             y=\"{1:.1}\" text-anchor=\"middle\">{2}</text>",
            x(number),
            BOTTOM + 30.0,
            html(&shortened(&axis.name, LONGEST)),
        );
        for (place, mark) in &axis.marks {
            // Above the lines, which they would be unreadable under.
            let _ = writeln!(
                words_of_axes,
                "<text class=\"ink halo\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                x(number) - 4.0,
                y(*place) + 4.0,
                html(&shortened(mark, LONGEST)),
            );
        }
    }
    let shown: Vec<&Figure> = figures.iter().collect();
    let (best, others): (Vec<_>, Vec<_>) = rows.iter().enumerate().partition(|(_, row)| row.pareto);
    for (index, row) in others.into_iter().chain(best) {
        let crossed =
            axes.iter().enumerate().filter_map(|(n, axis)| Some((n, axis.places[index]?)));
        let path: Vec<String> =
            crossed.map(|(number, place)| format!("{:.1} {:.1}", x(number), y(place))).collect();
        let (colour, width) = if row.pareto { ("#28c", 2.5) } else { ("#9996", 1.0) };
        let _ = writeln!(
            out,
            "<path d=\"M{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"><title>{}</title>\
             </path>",
            path.join("L"),
            words(sweep, row, &shown, index)
        );
    }
    out += &words_of_axes;
    heading.clone().titled("Sweep").picture([WIDTH, HEIGHT], &out)
}
