//! The first nodes of a search as a drawing: a tree from the outputs down, in the DOT language and as
//! SVG.

use super::record::{Fate, Noted, SearchGraph};
use quincunx_report::{Heading, html, shortened};
use std::fmt::Write as _;

/// Most characters of a line in a box.
const MAX_LINE: usize = 44;

/// Pixels of a letter and a line of a box, around its lines, between boxes and between levels.
const LETTER: f64 = 6.7;
const LINE: f64 = 14.0;
const ROOM: f64 = 8.0;
const GAP: f64 = 14.0;
const STEP: f64 = 46.0;

/// Pixels that the legend takes.
const LEGEND: f64 = 30.0;

/// Kinds of boxes: what they mean, and the colour of the frame.
const KINDS: [(&str, &str); 5] = [
    ("the outputs", "#4e79a7"),
    ("expanded", "#8a8a8a"),
    ("left out, with the reason", "#e15759"),
    ("plan, with its program", "#59a14f"),
    ("not visited yet", "#edc948"),
];

fn kind(at: usize, node: &Noted) -> usize {
    match (&node.fate, at) {
        (Fate::Plan(_), _) => 3,
        (_, 0) => 0,
        (Fate::Expanded, _) => 1,
        (Fate::Culled(_) | Fate::Repeats(_), _) => 2,
        (Fate::Waits, _) => 4,
    }
}

/// The words of a box: its goals, then what became of it.
fn lines(node: &Noted) -> Vec<String> {
    let mut lines = node.bag.compact_goals();
    match &node.fate {
        Fate::Waits | Fate::Expanded => {}
        Fate::Culled(reason) => lines.push(format!("left out: {reason}")),
        Fate::Repeats(earlier) => lines.push(format!("left out: the same as {earlier}")),
        Fate::Plan(program) => {
            lines.push(format!("plan: {} instructions", program.len()));
            lines.extend(program.iter().cloned());
        }
    }
    lines.iter().map(|line| shortened(line, MAX_LINE)).collect()
}

/// A box with its place.
#[derive(Clone, Default)]
struct Drawn {
    lines: Vec<String>,
    level: usize,
    /// Pixels of it, and of it with all that is below.
    width: f64,
    span: f64,
    /// Its middle and its top.
    x: f64,
    y: f64,
    height: f64,
}

impl SearchGraph {
    /// The tree in the DOT language. Edges have the numbers in which their nodes were made.
    pub fn dot(&self, name: &str) -> String {
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        let mut out = format!(
            "digraph \"{}\" {{\n  node [shape=box, fontname=monospace];\n  edge [fontname=monospace];\n",
            quoted(name)
        );
        for (at, node) in self.nodes.iter().enumerate() {
            let text: String = lines(node).iter().map(|line| quoted(line) + "\\l").collect();
            let colour = KINDS[kind(at, node)].1;
            // Writing to a string cannot fail.
            let _ = writeln!(out, "  n{at} [label=\"{text}\", color=\"{colour}\"];");
            if let Some(edge) = &node.edge {
                let (from, label) = (edge.from, format!("{at}: {}", edge.instruction));
                let tip = told(node);
                let _ = writeln!(
                    out,
                    "  n{from} -> n{at} [label=\"{}\", tooltip=\"{}\"];",
                    quoted(&label),
                    quoted(&tip)
                );
            }
        }
        out + "}\n"
    }

    /// The tree as a picture.
    pub fn svg(&self, heading: &Heading) -> String {
        let boxes = self.placed();
        let width = boxes.first().map_or(0.0, |root| root.span).max(600.0);
        let bottom = boxes.iter().map(|drawn| drawn.y + drawn.height).fold(0.0, f64::max);
        let on_plan = self.on_plans();
        let mut body = legend();
        for (at, node) in self.nodes.iter().enumerate() {
            let Some(edge) = &node.edge else { continue };
            let (from, to) = (&boxes[edge.from], &boxes[at]);
            let (top, end) = (from.y + from.height, to.y);
            let bend = (end - top) / 2.0;
            // The label stands where the curve does not come from.
            let (label, anchor) = match to.x < from.x {
                true => (to.x - 5.0, "end"),
                false => (to.x + 5.0, "start"),
            };
            let look = match on_plan[at] {
                true => "stroke=\"#59a14f\" stroke-width=\"2.5\"",
                false => "class=\"edge\" stroke-width=\"1\"",
            };
            let _ = writeln!(
                body,
                "<path fill=\"none\" {look} d=\"M{x:.1} {top:.1}C{x:.1} {:.1} {to:.1} {:.1} {to:.1} \
                 {end:.1}\"/><text class=\"ink\" x=\"{label:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{at}: {}\
                 <title>{}</title></text>",
                top + bend,
                end - bend,
                end - 5.0,
                html(&edge.instruction),
                html(&told(node)),
                x = from.x,
                to = to.x,
            );
        }
        for (at, (node, drawn)) in self.nodes.iter().zip(&boxes).enumerate() {
            body += &drawn.svg(KINDS[kind(at, node)].1, node.fate == Fate::Waits);
        }
        heading.picture([width + 2.0 * Heading::MARGIN, bottom + Heading::MARGIN], &body)
    }

    /// Which nodes lie on the way to a plan.
    fn on_plans(&self) -> Vec<bool> {
        let mut list = vec![false; self.nodes.len()];
        for (at, node) in self.nodes.iter().enumerate().rev() {
            list[at] |= matches!(node.fate, Fate::Plan(_));
            if let (Some(edge), true) = (&node.edge, list[at]) {
                list[edge.from] = true;
            }
        }
        list
    }

    /// Boxes in levels; children stand side by side below their parent, in the order of their numbers.
    fn placed(&self) -> Vec<Drawn> {
        let mut boxes: Vec<Drawn> = Vec::new();
        for node in &self.nodes {
            let lines = lines(node);
            let letters = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
            let own = letters as f64 * LETTER + 2.0 * ROOM;
            let label = node.edge.as_ref().map_or(0, |edge| edge.instruction.len() + 5);
            let level = node.edge.as_ref().map_or(0, |edge| boxes[edge.from].level + 1);
            boxes.push(Drawn {
                level,
                // Half of a label may be wider than half of the box.
                span: own.max(label as f64 * LETTER * 2.0),
                width: own,
                height: lines.len() as f64 * LINE + ROOM,
                lines,
                ..Drawn::default()
            });
        }
        let children = |of: usize| {
            let is_child = move |node: &Noted| node.edge.as_ref().is_some_and(|e| e.from == of);
            (of + 1..self.nodes.len()).filter(move |&at| is_child(&self.nodes[at]))
        };
        for at in (0..boxes.len()).rev() {
            let below: Vec<f64> = children(at).map(|child| boxes[child].span).collect();
            let gaps = below.len().saturating_sub(1) as f64 * GAP;
            boxes[at].span = boxes[at].span.max(below.iter().sum::<f64>() + gaps);
        }
        let mut top = Heading::HEIGHT + LEGEND;
        let mut tops = Vec::new();
        for level in 0..=boxes.iter().map(|drawn| drawn.level).max().unwrap_or(0) {
            tops.push(top);
            // Below a box without children there is room.
            let heights = (0..boxes.len()).filter(|&at| boxes[at].level == level);
            let heights = heights.filter(|&at| children(at).next().is_some());
            top += heights.map(|at| boxes[at].height).fold(0.0, f64::max) + STEP;
        }
        if let Some(root) = boxes.first_mut() {
            root.x = Heading::MARGIN + root.span / 2.0;
        }
        for at in 0..boxes.len() {
            boxes[at].y = tops[boxes[at].level];
            let list: Vec<usize> = children(at).collect();
            let total: f64 = list.iter().map(|&child| boxes[child].span + GAP).sum::<f64>() - GAP;
            let mut left = boxes[at].x - total / 2.0;
            for child in list {
                boxes[child].x = left + boxes[child].span / 2.0;
                left += boxes[child].span + GAP;
            }
        }
        boxes
    }
}

/// What an instruction makes of what, as equation 9 of the paper has it.
fn told(node: &Noted) -> String {
    node.edge.as_ref().map_or(String::new(), |edge| {
        let (uppers, lowers) = (edge.uppers.compact(), edge.lowers.compact());
        format!("{uppers} <- {} {lowers}", edge.instruction)
    })
}

impl Drawn {
    fn svg(&self, colour: &str, is_dashed: bool) -> String {
        let (left, dashes) =
            (self.x - self.width / 2.0, if is_dashed { " stroke-dasharray=\"4 3\"" } else { "" });
        let mut out = format!(
            "<rect class=\"paper\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"4\" \
             stroke=\"{colour}\" stroke-width=\"2\"{dashes}/>\n",
            self.y, self.width, self.height
        );
        for (index, line) in self.lines.iter().enumerate() {
            let _ = writeln!(
                out,
                "<text class=\"ink\" font-family=\"monospace\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                left + ROOM,
                self.y + ROOM / 2.0 + LINE * (index + 1) as f64 - 3.0,
                html(line)
            );
        }
        out
    }
}

/// What colours mean.
fn legend() -> String {
    let (mut out, mut x, y) = (String::new(), Heading::MARGIN, Heading::HEIGHT + 6.0);
    for (name, colour) in KINDS {
        let _ = writeln!(
            out,
            "<rect x=\"{x:.0}\" y=\"{:.0}\" width=\"10\" height=\"10\" rx=\"2\" fill=\"{colour}\"/>\
             <text class=\"ink\" x=\"{:.0}\" y=\"{:.0}\">{name}</text>",
            y - 5.0,
            x + 14.0,
            y + 4.0
        );
        x += 14.0 + name.len() as f64 * 5.6 + 16.0;
    }
    out
}
