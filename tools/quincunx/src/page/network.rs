//! A network as a picture: boxes where a layout library puts them, coloured by who computes them.
//!
//! Deep networks are cut into strips between layers, where few edges cross: they stand side by side on
//! a wide screen, and below each other on a narrow one.

use dugong::graphlib::{Graph, GraphOptions};
use dugong::{EdgeLabel, GraphLabel, NodeLabel, WorkControl, WorkError, layout_controlled};
use quincunx_contract::plan::Place;
use quincunx_report::{html, shortened};
use std::fmt::Write as _;

/// Pixels of a box.
const BOX: [f64; 2] = [132.0, 36.0];

/// Pixels between boxes: beside each other, between layers, and between edges.
const APART: [f64; 3] = [16.0, 22.0, 10.0];

/// Pixels around a strip.
const MARGIN: f64 = 6.0;

/// Pixels that a strip is high at most.
const STRIP: f64 = 860.0;

/// Most letters in a line of a box.
const LETTERS: usize = 20;

/// Most nodes that are drawn.
const MOST: usize = 5000;

/// Most steps of the layout, as the library counts them: some seconds. ResNet-50 takes 150,000.
const STEPS: usize = 24_000_000;

/// A node of the picture.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    /// What it does.
    pub(super) op: String,
    /// Its name.
    pub(super) name: String,
    /// Who computes it; `None` for an input.
    pub(super) place: Option<Place>,
    /// What is told about it, in lines.
    pub(super) about: String,
}

/// Nodes, and which of them read the results of which others.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Network {
    pub(super) nodes: Vec<Node>,
    pub(super) edges: Vec<(usize, usize)>,
}

/// A place in the picture.
type Point = [f64; 2];

/// Where everything lies.
struct Drawing {
    /// Middles of the boxes.
    nodes: Vec<Point>,
    /// The points of every edge.
    edges: Vec<Vec<Point>>,
}

/// Counts the steps of the layout.
struct Budget(usize);

impl WorkControl for Budget {
    fn charge(&mut self, units: usize) -> Result<(), WorkError> {
        self.0 = self.0.checked_sub(units).ok_or(WorkError::Interrupted)?;
        Ok(())
    }
}

impl Network {
    /// The strips of the picture (SVG); `None` for a network without nodes or with too many.
    pub(super) fn svg(&self) -> Option<String> {
        let drawing = self.drawing()?;
        let borders = drawing.borders(STRIP);
        let strips = borders.windows(2).map(|ends| self.strip(&drawing, [ends[0], ends[1]]));
        Some(strips.collect())
    }

    fn drawing(&self) -> Option<Drawing> {
        if self.nodes.is_empty() || self.nodes.len().max(self.edges.len()) > MOST {
            return None;
        }
        let options = GraphOptions { multigraph: true, compound: false, ..Default::default() };
        let mut graph: Graph<NodeLabel, EdgeLabel, GraphLabel> = Graph::new(options);
        let [nodesep, ranksep, edgesep] = APART;
        graph.set_graph(GraphLabel { nodesep, ranksep, edgesep, ..Default::default() });
        let [width, height] = BOX;
        for node in 0..self.nodes.len() {
            graph.set_node(node.to_string(), NodeLabel { width, height, ..Default::default() });
        }
        for (edge, (from, to)) in self.edges.iter().enumerate() {
            let label = EdgeLabel { weight: 1.0, ..Default::default() };
            let name = Some(edge.to_string());
            graph.set_edge_named(from.to_string(), to.to_string(), name, Some(label));
        }
        layout_controlled(&mut graph, &mut Budget(STEPS)).ok()?;
        let node = |node: usize| {
            let label = graph.node(&node.to_string())?;
            Some([label.x?, label.y?])
        };
        let edge = |(edge, (from, to)): (usize, &(usize, usize))| {
            let name = edge.to_string();
            let label = graph.edge(&from.to_string(), &to.to_string(), Some(&name))?;
            Some(label.points.iter().map(|point| [point.x, point.y]).collect())
        };
        let nodes = (0..self.nodes.len()).map(node).collect::<Option<_>>()?;
        Some(Drawing {
            nodes,
            edges: self.edges.iter().enumerate().map(edge).collect::<Option<_>>()?,
        })
    }

    /// What lies between two heights.
    fn strip(&self, drawing: &Drawing, [top, bottom]: [f64; 2]) -> String {
        let within = |from: f64, to: f64| from < bottom && to > top;
        let is_in = |&&[_, y]: &&Point| within(y - BOX[1] / 2.0, y + BOX[1] / 2.0);
        let edges: Vec<&[Point]> = drawing
            .edges
            .iter()
            .filter_map(|edge| {
                let parts = || edge.windows(2).enumerate();
                let crosses = |part: &[Point]| within(part[0][1], part[1][1]);
                let first = parts().find(|(_, part)| crosses(part))?.0;
                let last = parts().rfind(|(_, part)| crosses(part))?.0;
                edge.get(first..=last + 1)
            })
            .collect();
        let boxes = drawing.nodes.iter().filter(is_in);
        let sides = boxes.flat_map(|[x, _]| [x - BOX[0] / 2.0, x + BOX[0] / 2.0]);
        let sides = sides.chain(edges.iter().copied().flatten().map(|[x, _]| *x));
        let [left, right] = sides.fold([f64::MAX, f64::MIN], |[l, r], x| [l.min(x), r.max(x)]);
        let (left, width) = (left - MARGIN, right - left + 2.0 * MARGIN);
        let height = bottom - top;
        let mut out = format!(
            "<svg width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"{left:.0} {top:.0} {width:.0} \
             {height:.0}\">\n<path class=\"edges\" d=\""
        );
        edges.iter().for_each(|edge| line(&mut out, edge));
        out += "\"/>\n<path class=\"heads\" d=\"";
        edges.iter().for_each(|edge| head(&mut out, edge));
        out += "\"/>\n";
        for (index, at) in drawing.nodes.iter().enumerate().filter(|(_, at)| is_in(at)) {
            self.nodes[index].draw(index, *at, &mut out);
        }
        out + "</svg>\n"
    }
}

impl Drawing {
    /// Where strips begin and end: between layers, where the fewest edges cross in the lower half of
    /// the highest strip that there may be.
    fn borders(&self, most: f64) -> Vec<f64> {
        let mut rows: Vec<f64> = self.nodes.iter().map(|[_, y]| *y).collect();
        rows.sort_by(f64::total_cmp);
        rows.dedup();
        let half = BOX[1] / 2.0 + MARGIN;
        let (first, last) = (rows[0] - half, rows[rows.len() - 1] + half);
        let gaps: Vec<f64> = rows.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0).collect();
        let mut borders = vec![first];
        while let Some(&start) = borders.last()
            && last - start > most
        {
            let range =
                |least: f64| gaps.iter().filter(move |&&y| y > start + least && y <= start + most);
            let best = range(most / 2.0).rev().min_by_key(|y| self.crossing(**y));
            // One layer alone is never higher than a strip.
            let Some(&border) = best.or_else(|| range(0.0).next_back()) else { break };
            borders.push(border);
        }
        borders.push(last);
        borders
    }

    /// Edges that cross a height.
    fn crossing(&self, y: f64) -> usize {
        let ends = |edge: &Vec<Point>| Some((edge.first()?[1], edge.last()?[1]));
        self.edges
            .iter()
            .filter_map(ends)
            .filter(|(from, to)| (from.min(*to)..from.max(*to)).contains(&y))
            .count()
    }
}

/// Adds an edge to a path.
fn line(out: &mut String, edge: &[Point]) {
    for (index, [x, y]) in edge.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(out, "{}{x:.0} {y:.0}", if index == 0 { 'M' } else { 'L' });
    }
}

/// Adds the head of the arrow at the end of an edge to a path.
fn head(out: &mut String, edge: &[Point]) {
    if let Some([x, y]) = edge.last() {
        let _ = write!(out, "M{x:.0} {y:.0}l-3-6h6z");
    }
}

impl Node {
    fn draw(&self, index: usize, [x, y]: Point, out: &mut String) {
        let [width, height] = BOX;
        let place = self.place.map_or("input", Place::name);
        let text = |text: &str| html(&shortened(text, LETTERS));
        let _ = writeln!(
            out,
            "<g class=\"node {place}\" data-node=\"{index}\" tabindex=\"0\" role=\"button\">\
             <title>{}</title><rect x=\"{:.0}\" y=\"{:.0}\" width=\"{width}\" height=\"{height}\" \
             rx=\"4\"/><text x=\"{x:.0}\" y=\"{:.0}\">{}</text><text class=\"name\" x=\"{x:.0}\" \
             y=\"{:.0}\">{}</text></g>",
            html(&self.about),
            x - width / 2.0,
            y - height / 2.0,
            y - 3.0,
            text(&self.op),
            y + 11.0,
            text(&self.name)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(count: usize, edges: impl Iterator<Item = (usize, usize)>) -> Network {
        let node = |number| Node {
            op: "Conv".to_owned(),
            name: format!("<node> {number}"),
            place: Some(if number % 2 == 0 { Place::Device } else { Place::Host }),
            about: format!("</title> & {number}"),
        };
        Network { nodes: (0..count).map(node).collect(), edges: edges.collect() }
    }

    /// Every node is there once, in a strip that is not too high, and no box lies on another one.
    fn check(network: &Network) -> String {
        let drawing = network.drawing().unwrap();
        for (index, [x, y]) in drawing.nodes.iter().enumerate() {
            let apart = |[ox, oy]: &Point| (x - ox).abs() >= BOX[0] || (y - oy).abs() >= BOX[1];
            assert!(drawing.nodes[..index].iter().all(apart), "{index}");
        }
        let borders = drawing.borders(STRIP);
        let heights = borders.windows(2).map(|ends| ends[1] - ends[0]);
        assert!(heights.clone().all(|height| height > 0.0 && height <= STRIP), "{borders:?}");
        let svg = network.svg().unwrap();
        assert_eq!(svg.matches("<svg").count(), borders.len() - 1);
        assert_eq!(svg.matches("<g class=\"node ").count(), network.nodes.len());
        assert_eq!(svg.matches("data-node=\"0\" tabindex=\"0\"").count(), 1);
        assert!(!svg.contains("NaN") && !svg.contains("<node>"), "{svg}");
        assert!(svg.contains("&lt;node&gt; 0") && svg.contains("&lt;/title&gt; &amp; 0"));
        svg
    }

    #[test]
    fn odd_networks_are_drawn() {
        let chain = |count: usize| (1..count).map(|node| (node - 1, node));
        check(&network(1, [].into_iter()));
        check(&network(2000, chain(2000)));
        check(&network(202, (1..=200).flat_map(|node| [(0, node), (node, 201)])));
        check(&network(300, [].into_iter()));
        check(&network(400, (0..200).map(|pair| (2 * pair, 2 * pair + 1))));
        // The same value twice, and a way around nodes.
        check(&network(3, [(0, 1), (0, 1), (1, 2), (0, 2)].into_iter()));
        let skips = chain(300).chain((0..60).map(|block| (block * 5, block * 5 + 4)));
        let skips = network(300, skips);
        assert_eq!(check(&skips), check(&skips), "the same every time");
    }

    #[test]
    fn what_is_too_large_is_not_drawn() {
        assert_eq!(network(0, [].into_iter()).svg(), None);
        assert_eq!(network(MOST + 1, [].into_iter()).svg(), None);
        // Every node reads all before it: the layout would take a place for every layer of every edge.
        let all = (0..95).flat_map(|node| (0..node).map(move |before| (before, node)));
        let all = network(95, all);
        assert_eq!(all.svg(), None);
    }

    /// Strips end where few edges cross.
    #[test]
    fn strips_are_cut_between_blocks() {
        let blocks = (0..40).flat_map(|block| {
            let first = block * 4;
            let inner = [(first, first + 1), (first + 1, first + 2), (first + 2, first + 3)];
            let next = (first + 4 < 160).then_some((first + 3, first + 4));
            inner.into_iter().chain([(first, first + 3)]).chain(next)
        });
        let drawing = network(160, blocks).drawing().unwrap();
        let borders = drawing.borders(STRIP);
        assert!(borders.len() > 4, "{borders:?}");
        for &border in &borders[1..borders.len() - 1] {
            assert_eq!(drawing.crossing(border), 1, "{borders:?}");
        }
    }
}
