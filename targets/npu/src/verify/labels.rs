//! Workloads that are what their numbers say.
//!
//! The cycles of the original tool spread what a workload costs over the lines with its number: its
//! convolutions cost what the first does, its vector instructions together what one of them does.
//! That is right only of one box of one layer, of which the first tile is the largest, and of images
//! of a batch. A program whose maps say otherwise looks faster than it is.

use super::Subject;
use crate::program::Program;
use crate::regions::{Region, RegionTable};
use crate::replay::Node;
use crate::time::{tile_cycles, workloads};
use crate::work::{Conv, Place, Resolved, Vector, Work, element_bytes, pitch, product, products};
use quincunx_diag::{Diagnostic, Problems};

/// A line that does not belong to its workload.
struct Violation {
    node: Node,
    what: String,
    /// It has the addresses of another line: perhaps the machine is meant to advance them.
    shared: bool,
}

/// Lines whose workload is not one box of one layer with its largest tile first, or not the same
/// work on different images: of each such workload the first, and why.
pub fn mislabelled(subject: &Subject<'_>) -> Vec<(Node, String)> {
    violations(subject).into_iter().map(|found| (found.node, found.what)).collect()
}

/// Warns of the first violation. Lines that share addresses in cores of which `Q4039` warned are
/// left out.
pub(super) fn check(subject: &Subject<'_>, warned: &[usize], problems: &mut Problems) {
    let mut found = violations(subject);
    found.retain(|found| !(found.shared && warned.contains(&found.node.core)));
    let Some(Violation { node, what, .. }) = found.first() else { return };
    let count = match found.len() {
        1 => String::new(),
        count => format!("; so it is with {count} workloads"),
    };
    let problem = Diagnostic::warning("Q4042", format!("{what}{count}"))
        .help("--timing physical gives cycles that do not depend on the maps");
    problems.push(subject.at(*node, problem));
}

fn violations(subject: &Subject<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for (core, (program, work)) in subject.programs.iter().zip(subject.work).enumerate() {
        let rings = rings(work);
        for lines in workloads(program, work, |work| kind(work).is_some()) {
            let workload = Workload { subject, core, program, work, rings: &rings, lines: &lines };
            found.extend(workload.violation());
        }
    }
    found
}

/// The region table before every `ct_bc` and at the end: the line up to which it holds.
fn rings(work: &[Resolved]) -> Vec<(usize, RegionTable)> {
    let mut table = RegionTable::default();
    let mut list = Vec::new();
    for (line, work) in work.iter().enumerate() {
        if let Ok(Work::Regions(regions)) = work {
            list.push((line, table));
            table.set(regions);
        }
    }
    list.push((work.len(), table));
    list
}

/// What a line of a workload does, in words.
fn kind(work: &Work) -> Option<&'static str> {
    match work {
        Work::Conv(_) => Some("convolution"),
        Work::Vector(_) => Some("vector instruction"),
        _ => None,
    }
}

/// The lines of a workload, at least one.
struct Workload<'a> {
    subject: &'a Subject<'a>,
    core: usize,
    program: &'a Program,
    work: &'a [Resolved],
    rings: &'a [(usize, RegionTable)],
    lines: &'a [usize],
}

impl Workload<'_> {
    fn node(&self, line: usize) -> Node {
        Node { core: self.core, line }
    }

    /// What is wrong with a line, compared with another one.
    fn wrong(&self, line: usize, what: &str, other: usize) -> Violation {
        let number = self.program.lines[line].workload().unwrap_or(-1);
        let [own, other] = [line, other].map(|line| self.subject.show(self.node(line)));
        let what = format!("{own} of workload {number} {what} {other}");
        Violation { node: self.node(line), what, shared: false }
    }

    fn violation(&self) -> Option<Violation> {
        let layer = |line: usize| self.program.lines[line].map.as_ref().map(|map| map.slyr);
        let kind = |line: usize| self.work[line].as_ref().ok().and_then(kind);
        let (&first, rest) = self.lines.split_first()?;
        for &line in rest {
            if layer(line) != layer(first) {
                return Some(self.wrong(line, "is of another layer than", first));
            }
            if kind(line) != kind(first) {
                return Some(self.wrong(line, "is not of the queue of", first));
            }
        }
        if rest.is_empty() {
            return None;
        }
        self.convs().or_else(|| self.vectors())
    }

    /// The length of the ring of a place.
    fn ring(&self, line: usize, place: Place) -> Option<i64> {
        let after = self.rings.partition_point(|&(end, _)| end <= line);
        let (_, table) = self.rings.get(after)?;
        table.get(place.region).map(|Region { length, .. }| length as i64)
    }

    /// Convolutions are tiles of one box, none larger than the first.
    fn convs(&self) -> Option<Violation> {
        let conv = |&line: &usize| match &self.work[line] {
            Ok(Work::Conv(conv)) => Some((line, conv)),
            _ => None,
        };
        let convs: Vec<(usize, &Conv)> = self.lines.iter().filter_map(conv).collect();
        let (&(line, first), rest) = convs.split_first()?;
        let cycles = |conv: &Conv| tile_cycles(conv, self.subject.arch);
        let most = (cycles(first), products(first), first.weight_bytes());
        for &(line, conv) in rest {
            let what = if !of_one_layer(first, conv) {
                "has another kernel or other tensors than"
            } else if cycles(conv) > most.0 {
                "takes longer than"
            } else if products(conv) > most.1 {
                "computes more than"
            } else if conv.weight_bytes() > most.2 {
                "needs more weights than"
            } else {
                continue;
            };
            return Some(self.wrong(line, what, convs[0].0));
        }
        let convs: Vec<&Conv> = convs.into_iter().map(|(_, conv)| conv).collect();
        let is_box = fills_box(&convs, None)
            || self.ring(line, first.output).is_some_and(|ring| fills_box(&convs, Some(ring)));
        let last = *self.lines.last()?;
        (!is_box)
            .then(|| self.wrong(last, "and the tiles before it do not fill one box from", line))
    }

    /// Vector instructions do the same to different images.
    fn vectors(&self) -> Option<Violation> {
        let vector = |&line: &usize| match &self.work[line] {
            Ok(Work::Vector(vector)) => Some((line, vector)),
            _ => None,
        };
        let vectors: Vec<(usize, &Vector)> = self.lines.iter().filter_map(vector).collect();
        let (&(line, first), rest) = vectors.split_first()?;
        if let Some((other, _)) = rest.iter().find(|(_, vector)| !equal_extents(first, vector)) {
            return Some(self.wrong(*other, "has other extents than", line));
        }
        let (source, dest) = (first.config.source, first.config.dest);
        let image = |[c, h, w]: [u32; 3], bytes| product([pitch(c, bytes), h, w].map(u64::from));
        let sides = [
            (image(source, first.input_bytes()), vectors.iter().map(|v| v.1.input).collect()),
            (image(dest, first.output_bytes()), vectors.iter().map(|v| v.1.output).collect()),
        ];
        let found = sides.map(|(bytes, places): (u64, Vec<Place>)| self.near(bytes, &places));
        let (earlier, later) = found[0].or(found[1])?;
        let [earlier, later] = [earlier, later].map(|index| vectors[index]);
        let mut wrong = self.wrong(later.0, "works on the image of", earlier.0);
        let places = |vector: &Vector| (vector.input, vector.output);
        wrong.shared = places(earlier.1) == places(later.1);
        Some(wrong)
    }

    /// Two places that are less than an image apart, the later one last.
    fn near(&self, bytes: u64, places: &[Place]) -> Option<(usize, usize)> {
        let ring = self.ring(self.lines[0], places[0]);
        let address = |place: &Place| match ring {
            Some(ring) => place.address.rem_euclid(ring),
            None => place.address,
        };
        let mut sorted: Vec<(u8, i64, usize)> = places
            .iter()
            .enumerate()
            .map(|(index, place)| (place.region, address(place), index))
            .collect();
        sorted.sort_unstable();
        let bytes = bytes as i64;
        let next = |a: &(u8, i64, usize), b: &(u8, i64, usize)| {
            (a.0 == b.0 && b.1.saturating_sub(a.1) < bytes).then_some((a.2.min(b.2), a.2.max(b.2)))
        };
        let pair = sorted.windows(2).find_map(|pair| next(&pair[0], &pair[1]));
        pair.or_else(|| {
            // From the last one round the ring to the first.
            let (&low, high) = (sorted.first()?, sorted.last()?);
            next(high, &(low.0, low.1.saturating_add(ring?), low.2))
        })
    }
}

fn of_one_layer(a: &Conv, b: &Conv) -> bool {
    let of = |conv: &Conv| {
        let shape = (conv.kind, conv.formats, conv.source, conv.dest);
        (shape, conv.stride, conv.kernel, conv.dilate, conv.insert)
    };
    of(a) == of(b) && a.output.region == b.output.region
}

fn equal_extents(a: &Vector, b: &Vector) -> bool {
    let of = |vector: &Vector| {
        let config = &vector.config;
        let tensors = (config.tile, config.source, config.dest);
        (vector.kind, tensors, config.window, config.stride, config.formats, config.single)
    };
    of(a) == of(b)
}

/// First image, row, column and byte of a pixel, and how many.
type Tile = [(u64, u64); 4];

/// Whether tiles of one layer fill a box of its output, without gaps and each result once. With a
/// ring, addresses are counted on it from the first tile on.
fn fills_box(convs: &[&Conv], ring: Option<i64>) -> bool {
    let Some(first) = convs.first() else { return true };
    let base = match ring {
        Some(_) => first.output.address,
        None => convs.iter().map(|conv| conv.output.address).min().unwrap_or(0),
    };
    let tiles: Vec<Tile> = convs
        .iter()
        .map(|conv| {
            let offset = conv.output.address.saturating_sub(base);
            tile(conv, ring.map_or(offset, |ring| offset.rem_euclid(ring)) as u64)
        })
        .collect();
    let extent = |axis: usize| {
        let ends = tiles.iter().map(|tile| tile[axis].0.saturating_add(tile[axis].1));
        ends.max().unwrap_or(0)
    };
    let volume = |tile: &Tile| product(tile.map(|(_, count)| count));
    let whole = product([extent(0), extent(1), extent(2), extent(3)]);
    let filled = tiles.iter().map(volume).fold(0, u64::saturating_add);
    let apart = |a: &Tile, b: &Tile| {
        a.iter()
            .zip(b)
            .any(|(a, b)| a.0.saturating_add(a.1) <= b.0 || b.0.saturating_add(b.1) <= a.0)
    };
    let rest = |index: usize| tiles.iter().skip(index.saturating_add(1));
    filled == whole
        && tiles.iter().enumerate().all(|(index, tile)| rest(index).all(|other| apart(tile, other)))
}

/// The results of a tile that begins so many bytes behind the corner of its box.
fn tile(conv: &Conv, offset: u64) -> Tile {
    let bytes = element_bytes(conv.formats[2]);
    let pixel = u64::from(pitch(conv.dest[0], bytes)).max(1);
    let [_, height, width] = conv.dest.map(|extent| u64::from(extent).max(1));
    let [n, k, _, h, w] = conv.tile.map(u64::from);
    let divide = |value: u64, by: u64| (value.checked_div(by), value.checked_rem(by));
    let (pixels, byte) = divide(offset, pixel);
    let (rows, column) = divide(pixels.unwrap_or(0), width);
    let (image, row) = divide(rows.unwrap_or(0), height);
    let [image, row, column, byte] = [image, row, column, byte].map(|value| value.unwrap_or(0));
    [(image, n), (row, h), (column, w), (byte, k.saturating_mul(bytes.into()))]
}
