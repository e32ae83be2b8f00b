//! Which adders make the forms of a set.

use super::forms::{Form, Step, sums};
use super::system::Term;
use super::{Input, Range};

/// The ways to make a form: two nodes and what is done with them.
type Ways = Vec<(usize, usize, Step)>;

/// The two terms of every node that is no input, for a set of which every form can be made of others.
/// Nodes keep their places. With `early` every node is as early as can be, else it has as few bits as
/// can be.
pub(super) fn wire<const N: usize>(
    nodes: &[Form<N>],
    inputs: &[Input],
    bound: i32,
    early: bool,
) -> Vec<Vec<Term>> {
    let ways = ways(nodes, bound);
    let mut levels: Vec<u32> = vec![u32::MAX; nodes.len()];
    levels.iter_mut().zip(inputs).for_each(|(level, input)| *level = input.latency);
    // The earliest levels, by as many rounds as there are levels.
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for (node, ways) in ways.iter().enumerate().skip(inputs.len()) {
            let level =
                |&(a, b, _): &(usize, usize, Step)| levels[a].max(levels[b]).saturating_add(1);
            let least = ways.iter().map(level).min().unwrap_or(u32::MAX);
            if least < levels[node] {
                levels[node] = least;
                changed = true;
            }
        }
    }
    let mut order: Vec<usize> = (inputs.len()..nodes.len()).collect();
    order.sort_by_key(|&node| levels[node]);
    let mut made: Vec<bool> = (0..nodes.len()).map(|node| node < inputs.len()).collect();
    let ranges: Vec<Range> = nodes.iter().map(|node| range(node, inputs)).collect();
    let mut sums = vec![Vec::new(); nodes.len() - inputs.len()];
    for node in order {
        let key = |&&(a, b, step): &&(usize, usize, Step)| {
            let [left, right] = step.shifts.map(i32::from);
            let bits = ranges[a].scaled(left, false).adder_bits(&ranges[b].scaled(right, false));
            let level = levels[a].max(levels[b]);
            if early { (level, bits) } else { (bits, level) }
        };
        let ready = ways[node].iter().filter(|(a, b, _)| made[*a] && made[*b]);
        let (a, b, step) = *ready.min_by_key(key).expect("an earlier node can be made");
        let term = |at: usize, node: usize| Term {
            node: node as u32,
            shift: step.shifts[at],
            negate: step.negate[at],
        };
        sums[node - inputs.len()] = vec![term(0, a), term(1, b)];
        made[node] = true;
    }
    sums
}

fn ways<const N: usize>(nodes: &[Form<N>], bound: i32) -> Vec<Ways> {
    let mut ways = vec![Ways::new(); nodes.len()];
    for (a, first) in nodes.iter().enumerate() {
        for (b, second) in nodes.iter().enumerate().take(a + 1) {
            sums(first, second, bound, |form, step| {
                let node = nodes.iter().position(|node| *node == form);
                if let Some(node) = node.filter(|&node| node != a && node != b) {
                    ways[node].push((a, b, step));
                }
            });
        }
    }
    ways
}

fn range<const N: usize>(form: &Form<N>, inputs: &[Input]) -> Range {
    let (mut low, mut high) = (0, 0);
    for (&factor, input) in form.iter().zip(inputs) {
        let ends = [input.low, input.high].map(|end| i128::from(end) * i128::from(factor));
        low += ends[0].min(ends[1]);
        high += ends[0].max(ends[1]);
    }
    Range { low, high, exponent: 0 }
}
