//! Columns as sums of other columns and differences: `W = W1 * W2`.

use super::digits;
use super::state::level;
use super::system::{System, Term, terms_of};

/// Writes columns as another column, added or subtracted, and the digits of what is missing, where
/// that is fewer terms: the tree of least weight over all columns and zero, in which no path from
/// zero is longer than `depth` columns and no column later than `limit`.
///
/// `forms` are the columns of the sums of the system, `levels` those of its inputs.
pub(super) fn decompose(
    system: &mut System,
    forms: &[Vec<i64>],
    depth: usize,
    levels: &[u8],
    limit: Option<u8>,
) {
    let direct = |form: &Vec<i64>| {
        let (terms, weight) = measure(form.iter().copied(), levels);
        Link { terms, level: level(weight), depth: 1, from: None }
    };
    let mut links: Vec<Link> = forms.iter().map(direct).collect();
    let mut open: Vec<usize> = (0..forms.len()).collect();
    while let Some(at) = (0..open.len()).min_by_key(|&at| links[open[at]].terms) {
        let next = open.remove(at);
        let link = links[next];
        if let Some(from) = link.from {
            system.sums[next] = terms_from(system, forms, next, from);
        }
        if link.depth >= depth {
            continue;
        }
        for &column in &open {
            for negate in [false, true] {
                let rest = difference(&forms[column], &forms[next], negate);
                let (terms, weight) = measure(rest, levels);
                let level = level(weight.saturating_add(1 << link.level));
                if terms + 1 < links[column].terms && limit.is_none_or(|limit| level <= limit) {
                    let from = Some((next, negate));
                    links[column] = Link { terms: terms + 1, level, depth: link.depth + 1, from };
                }
            }
        }
    }
}

/// The best way to a column so far.
#[derive(Clone, Copy)]
struct Link {
    /// Terms of the column.
    terms: u32,
    /// Level of the column.
    level: u8,
    /// Columns on the path from zero.
    depth: usize,
    /// The column it is added to, and whether negated.
    from: Option<(usize, bool)>,
}

/// Number of digits of a form, and the sum of `2^level` over them.
fn measure(form: impl Iterator<Item = i64>, levels: &[u8]) -> (u32, u64) {
    form.zip(levels).fold((0, 0), |(terms, weight), (factor, &level)| {
        let count = digits::count(factor);
        (terms + count, weight + (u64::from(count) << level))
    })
}

fn difference<'a>(to: &'a [i64], from: &'a [i64], negate: bool) -> impl Iterator<Item = i64> + 'a {
    to.iter().zip(from).map(move |(&to, &from)| if negate { to + from } else { to - from })
}

fn terms_from(
    system: &System,
    forms: &[Vec<i64>],
    to: usize,
    (from, negate): (usize, bool),
) -> Vec<Term> {
    let rest: Vec<i64> = difference(&forms[to], &forms[from], negate).collect();
    let mut terms = terms_of(&rest);
    terms.push(Term { node: system.node_of(from), shift: 0, negate });
    terms
}
