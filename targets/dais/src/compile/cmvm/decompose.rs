//! Columns as sums of other columns and differences: `W = W1 * W2`.

use super::digits;
use super::state::level;
use super::system::{System, Term, terms_of};

/// Most weights that are compared, for every pair of columns one per row: with more the columns stay
/// as they are, so that the time grows with the size of the matrix.
const MOST_COMPARED: usize = 1 << 28;

/// Writes columns as another column and the digits of what is missing, as [`tree`] says.
///
/// `forms` are the columns of the sums of the system, `levels` those of its inputs.
pub(super) fn decompose(
    system: &mut System,
    forms: &[Vec<i64>],
    depth: usize,
    levels: &[u8],
    limit: Option<u8>,
) {
    for Branch { column, from } in tree(forms, depth, levels, limit) {
        if let Some((from, negate)) = from {
            let mut terms = terms_of(&rest(forms, column, Some((from, negate))));
            terms.push(Term { node: system.node_of(from), shift: 0, negate });
            system.sums[column] = terms;
        }
    }
}

/// A column, and the one to which what is missing is added, perhaps negated.
pub(super) struct Branch {
    pub(super) column: usize,
    pub(super) from: Option<(usize, bool)>,
}

/// What a column has more than another one.
pub(super) fn rest(forms: &[Vec<i64>], column: usize, from: Option<(usize, bool)>) -> Vec<i64> {
    match from {
        Some((from, negate)) => difference(&forms[column], &forms[from], negate).collect(),
        None => forms[column].clone(),
    }
}

/// Columns as other columns, added or subtracted, and differences, where these have fewer digits:
/// the tree of least weight over all columns and zero, in which no path from zero is longer than
/// `depth` columns and no column later than `limit`; in an order in which a column comes behind
/// that from which it is made. Nothing if there is too much to compare.
pub(super) fn tree(
    forms: &[Vec<i64>],
    depth: usize,
    levels: &[u8],
    limit: Option<u8>,
) -> Vec<Branch> {
    let mut branches = Vec::with_capacity(forms.len());
    let rows = forms.first().map_or(0, Vec::len);
    if forms.len().saturating_mul(forms.len()).saturating_mul(rows) > MOST_COMPARED {
        return branches;
    }
    let supports: Vec<Vec<u64>> = forms.iter().map(|form| support(form)).collect();
    let direct = |form: &Vec<i64>| {
        let terms = terms_in(form.iter().copied());
        let level = level(weight(form.iter().copied(), levels));
        Link { terms, level, depth: 1, from: None }
    };
    let mut links: Vec<Link> = forms.iter().map(direct).collect();
    let digits: Vec<u32> = links.iter().map(|link| link.terms).collect();
    let mut open: Vec<usize> = (0..forms.len()).collect();
    while let Some(at) = (0..open.len()).min_by_key(|&at| links[open[at]].terms) {
        let next = open.remove(at);
        let link = links[next];
        branches.push(Branch { column: next, from: link.from });
        if link.depth >= depth {
            continue;
        }
        for &column in &open {
            // A difference has the digits of what only one of the two has, and no fewer than those
            // by which they differ.
            let least = differing(&supports[column], &supports[next]);
            let least = least.max(digits[column].abs_diff(digits[next]));
            if least + 1 >= links[column].terms {
                continue;
            }
            for negate in [false, true] {
                let rest = || difference(&forms[column], &forms[next], negate);
                let terms = terms_in(rest());
                if terms + 1 >= links[column].terms {
                    continue;
                }
                // Without a limit levels may be any number, and do not matter.
                let own = 1_u64.checked_shl(link.level.into()).unwrap_or(u64::MAX);
                let level = level(weight(rest(), levels).saturating_add(own));
                if limit.is_none_or(|limit| level <= limit) {
                    let from = Some((next, negate));
                    links[column] = Link { terms: terms + 1, level, depth: link.depth + 1, from };
                }
            }
        }
    }
    branches
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

/// Which factors of a form are not 0, as bits.
fn support(form: &[i64]) -> Vec<u64> {
    let bits = |chunk: &[i64]| {
        chunk.iter().rev().fold(0, |bits, &factor| bits << 1 | u64::from(factor != 0))
    };
    form.chunks(64).map(bits).collect()
}

/// Number of bits that only one of the two has.
fn differing(a: &[u64], b: &[u64]) -> u32 {
    a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum()
}

/// Number of digits of a form.
fn terms_in(form: impl Iterator<Item = i64>) -> u32 {
    form.map(digits::count).sum()
}

/// The sum of `2^level` over the digits of a form.
fn weight(form: impl Iterator<Item = i64>, levels: &[u8]) -> u64 {
    form.zip(levels).map(|(factor, &level)| u64::from(digits::count(factor)) << level).sum()
}

fn difference<'a>(to: &'a [i64], from: &'a [i64], negate: bool) -> impl Iterator<Item = i64> + 'a {
    to.iter().zip(from).map(move |(&to, &from)| if negate { to + from } else { to - from })
}
