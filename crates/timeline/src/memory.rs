//! Who holds which bytes of a memory from when to when.

use quincunx_report::{Heading, html};
use std::cmp::Reverse;
use std::fmt::Write as _;

/// Extents of the picture, and of what is drawn in it.
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 890.0;
const TOP: f64 = 70.0;
const BOTTOM: f64 = 390.0;

/// Most blocks that are drawn.
const MOST: usize = 4000;

/// Marks of an axis.
const MARKS: u64 = 4;

/// Bytes that belong together, as long as they are needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// What they are; blocks of one name have one colour.
    pub name: String,
    /// First byte, and one past the last.
    pub bytes: (u64, u64),
    /// When the first of them is written, and when they are last used.
    pub time: (u64, u64),
}

/// The use of a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryMap {
    /// Name of the memory.
    pub name: String,
    /// Its bytes.
    pub size: u64,
    /// What lies in it, in any order.
    pub blocks: Vec<Block>,
}

impl MemoryMap {
    /// Most bytes that are in use at one time.
    pub fn peak(&self) -> u64 {
        let size = |block: &Block| i128::from(block.bytes.1.saturating_sub(block.bytes.0));
        // Bytes that go come before those that come at the same time.
        let mut changes: Vec<(u64, i128)> = Vec::new();
        for block in &self.blocks {
            changes.push((block.time.0, size(block)));
            changes.push((block.time.1.max(block.time.0), -size(block)));
        }
        changes.sort_unstable();
        let (mut now, mut most) = (0, 0);
        for (_, change) in changes {
            now += change;
            most = most.max(now);
        }
        u64::try_from(most).unwrap_or(u64::MAX)
    }

    /// The picture: time to the right, addresses upwards. The numbers of a block show when one points
    /// at it. Of many blocks the largest are drawn, by bytes times time.
    pub fn svg(&self, total: u64, unit: &str, heading: &Heading) -> String {
        let mut shown: Vec<&Block> = self.blocks.iter().collect();
        let area = |block: &Block| {
            let extent = |(from, to): (u64, u64)| u128::from(to.saturating_sub(from).max(1));
            extent(block.bytes) * extent(block.time)
        };
        shown.sort_by_cached_key(|block| Reverse(area(block)));
        shown.truncate(MOST);
        let mut names: Vec<&str> = shown.iter().map(|block| &*block.name).collect();
        names.sort_unstable();
        names.dedup();
        let x = |time: u64| LEFT + time as f64 / total.max(1) as f64 * (RIGHT - LEFT);
        let y = |byte: u64| BOTTOM - byte as f64 / self.size.max(1) as f64 * (BOTTOM - TOP);
        let mut out = self.axes(total, unit, x, y, self.blocks.len() - shown.len());
        for block in shown {
            let ((low, high), (start, end)) = (block.bytes, block.time);
            let hue = names.binary_search(&&*block.name).unwrap_or(0) as f64 * 137.508 % 360.0;
            let _ = writeln!(
                out,
                "<rect x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{:.2}\" \
                 fill=\"hsl({hue:.0} 60% 65%)\" stroke=\"#2228\" stroke-width=\"0.3\">\
                 <title>{}: bytes {low} to {high}, {unit} {start} to {end}</title></rect>",
                x(start),
                y(high),
                (x(end) - x(start)).max(0.3),
                (y(low) - y(high)).max(0.3),
                html(&block.name),
            );
        }
        heading.clone().titled(&self.name).picture([WIDTH, HEIGHT], &out)
    }

    fn axes(
        &self,
        total: u64,
        unit: &str,
        x: impl Fn(u64) -> f64,
        y: impl Fn(u64) -> f64,
        left_out: usize,
    ) -> String {
        let mut out = String::new();
        for mark in 0..=MARKS {
            let at = |whole: u64| (u128::from(whole) * u128::from(mark) / u128::from(MARKS)) as u64;
            let (time, byte) = (at(total), at(self.size));
            let _ = writeln!(
                out,
                "<path class=\"grid\" d=\"M{0:.1} {TOP}V{BOTTOM}M{LEFT} {1:.1}H{RIGHT}\"/>\
                 <text class=\"ink\" x=\"{0:.1}\" y=\"{2:.1}\" text-anchor=\"{3}\">{time}</text>\
                 <text class=\"ink\" x=\"{4:.1}\" y=\"{5:.1}\" text-anchor=\"end\">{byte}</text>",
                x(time),
                y(byte),
                BOTTOM + 14.0,
                if mark == MARKS { "end" } else { "middle" },
                LEFT - 6.0,
                y(byte) + 4.0,
            );
        }
        let note = match left_out {
            0 => String::new(),
            count => format!("; {count} smaller blocks are left out"),
        };
        let _ = writeln!(
            out,
            "<text class=\"ink\" x=\"{LEFT}\" y=\"{:.1}\">bytes over {}{note}</text>",
            TOP - 8.0,
            html(unit),
        );
        out
    }
}
