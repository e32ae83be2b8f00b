//! Ensembles of decision trees.
//!
//! All trees are walked at once, one level per step: `at` holds the node at which each row is in
//! each tree, and tables of all nodes say what is compared there and where to go on. A leaf goes on to
//! itself, so that after as many steps as the deepest tree has levels every row is at its leaves.

use super::classic::{rows, second_class};
use super::compose::{choose, number, one, two};
use super::scores::{Transform, either, labels, largest};
use crate::attributes::malformed;
use crate::context::NodeContext;
use quincunx_diag::Result;
use quincunx_graph::{Binary, Compare, Logic, Op, Reduce, ReduceKind, Unary, ValueId};
use quincunx_tensor::{DType, Tensor};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// Levels of the deepest tree that is read; each becomes several nodes.
const MOST_LEVELS: usize = 256;

/// What a node compares its feature by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Leaf,
    By(Compare),
    NotEqual,
}

impl Mode {
    fn named(name: &str) -> Result<Self> {
        Ok(match name {
            "LEAF" => Mode::Leaf,
            "BRANCH_LEQ" => Mode::By(Compare::LessOrEqual),
            "BRANCH_LT" => Mode::By(Compare::Less),
            "BRANCH_GTE" => Mode::By(Compare::GreaterOrEqual),
            "BRANCH_GT" => Mode::By(Compare::Greater),
            "BRANCH_EQ" => Mode::By(Compare::Equal),
            "BRANCH_NEQ" => Mode::NotEqual,
            other => return Err(malformed(format!("a node has the mode \"{other}\""))),
        })
    }

    fn holds(self, node: &mut NodeContext<'_, '_>, x: ValueId, value: ValueId) -> Result<ValueId> {
        match self {
            Mode::By(compare) => two(node, Op::Compare(compare), x, value),
            Mode::Leaf | Mode::NotEqual => {
                let equal = two(node, Op::Compare(Compare::Equal), x, value)?;
                one(node, Op::Unary(Unary::Not), equal)
            }
        }
    }
}

/// The nodes of all trees, as tables.
struct Forest {
    modes: Vec<Mode>,
    features: Vec<i64>,
    values: Vec<f32>,
    /// Where to go on where the comparison holds, and where not.
    next: [Vec<i64>; 2],
    /// A feature that is missing (NaN) counts as one for which the comparison holds.
    missing: Vec<bool>,
    roots: Vec<i64>,
    levels: usize,
    /// Positions by tree and number.
    places: FxHashMap<(i64, i64), usize>,
}

impl Forest {
    fn read(node: &mut NodeContext<'_, '_>, features: usize) -> Result<Self> {
        node.attributes.ignore("nodes_hitrates");
        let (trees, numbers) = (ints(node, "nodes_treeids")?, ints(node, "nodes_nodeids")?);
        let count = trees.len();
        let fits = |found: usize, what: &str| match found == count {
            true => Ok(()),
            false => Err(malformed(format!("{what} has {found} entries for {count} nodes"))),
        };
        fits(numbers.len(), "nodes_nodeids")?;
        let used = ints(node, "nodes_featureids")?;
        fits(used.len(), "nodes_featureids")?;
        let values = node.attributes.floats("nodes_values")?.unwrap_or_default();
        fits(values.len(), "nodes_values")?;
        let modes = node.attributes.texts("nodes_modes")?.unwrap_or_default();
        fits(modes.len(), "nodes_modes")?;
        let branches = [ints(node, "nodes_truenodeids")?, ints(node, "nodes_falsenodeids")?];
        fits(branches[0].len(), "nodes_truenodeids")?;
        fits(branches[1].len(), "nodes_falsenodeids")?;
        let missing = match ints(node, "nodes_missing_value_tracks_true")? {
            [] => vec![false; count],
            flags => flags.iter().map(|&flag| flag != 0).collect(),
        };
        fits(missing.len(), "nodes_missing_value_tracks_true")?;
        let mut forest = Forest {
            modes: modes.into_iter().map(Mode::named).collect::<Result<_>>()?,
            features: used.to_vec(),
            values: values.to_vec(),
            next: [(0_i64..).take(count).collect(), (0_i64..).take(count).collect()],
            missing,
            roots: Vec::new(),
            levels: 0,
            places: FxHashMap::default(),
        };
        for (place, (&tree, &number)) in trees.iter().zip(numbers).enumerate() {
            if forest.places.insert((tree, number), place).is_some() {
                return Err(malformed(format!("tree {tree} has two nodes {number}")));
            }
        }
        forest.connect(trees, branches, features)?;
        Ok(forest)
    }

    /// Follows the numbers of nodes, and finds the roots and the number of levels.
    fn connect(&mut self, trees: &[i64], branches: [&[i64]; 2], features: usize) -> Result<()> {
        let mut is_child = vec![false; trees.len()];
        for place in (0..trees.len()).filter(|&place| self.modes[place] != Mode::Leaf) {
            let feature = self.features[place];
            if !usize::try_from(feature).is_ok_and(|feature| feature < features) {
                return Err(malformed(format!("a node reads feature {feature} of {features}")));
            }
            for (next, numbers) in self.next.iter_mut().zip(branches) {
                let (tree, number) = (trees[place], numbers[place]);
                let Some(&child) = self.places.get(&(tree, number)) else {
                    return Err(malformed(format!("tree {tree} has no node {number}")));
                };
                if std::mem::replace(&mut is_child[child], true) {
                    return Err(malformed(format!("node {number} of tree {tree} has two parents")));
                }
                next[place] = signed(child);
            }
        }
        let mut level: Vec<usize> = (0..trees.len()).filter(|&place| !is_child[place]).collect();
        let owners: BTreeSet<i64> = level.iter().map(|&place| trees[place]).collect();
        if owners.len() != level.len() || owners.is_empty() {
            return Err(malformed("a tree has not exactly one root".to_owned()));
        }
        self.roots = level.iter().map(|&place| signed(place)).collect();
        let mut reached = level.len();
        while !level.is_empty() && self.levels <= MOST_LEVELS {
            let inner = level.iter().filter(|&&place| self.modes[place] != Mode::Leaf);
            level = inner
                .flat_map(|&place| self.next.iter().filter_map(move |n| n[place].try_into().ok()))
                .collect();
            self.levels = self.levels.saturating_add(usize::from(!level.is_empty()));
            reached = reached.saturating_add(level.len());
        }
        if reached < trees.len() && self.levels <= MOST_LEVELS {
            return Err(malformed("a tree has a cycle".to_owned()));
        }
        Ok(())
    }

    /// The leaf of every row of `x` in every tree, `[N, trees]`.
    fn leaves(
        &self,
        node: &mut NodeContext<'_, '_>,
        x: ValueId,
        features: usize,
    ) -> Result<ValueId> {
        if self.levels > MOST_LEVELS {
            return Err(node.unsupported(format_args!("more than {MOST_LEVELS} levels")));
        }
        node.reads_extents(x, 0..1);
        let images = node.shape(x)[0];
        if !node.may_store(images) {
            return Err(node.unsupported(format_args!("{images} rows")));
        }
        let starts = (0..images).map(|row| signed(row.saturating_mul(features))).collect();
        let starts = node.constant_before(Tensor::from_vec(&[images, 1], starts)?)?;
        let x = one(node, Op::Reshape { shape: vec![-1] }, x)?;
        let leaf = |place: usize| self.modes[place] == Mode::Leaf;
        let used = (0..self.features.len()).map(|p| if leaf(p) { 0 } else { self.features[p] });
        let used = table(node, used.collect())?;
        let values = table(node, self.values.clone())?;
        let next = [table(node, self.next[0].clone())?, table(node, self.next[1].clone())?];
        let tests = self.tests(node)?;
        let missing = match self.missing.contains(&true) {
            true => Some(flags(node, self.missing.iter().copied())?),
            false => None,
        };
        let roots = Tensor::from_vec(&[1, self.roots.len()], self.roots.clone())?;
        let mut at = node.constant_before(roots)?;
        for _ in 0..self.levels.max(1) {
            let feature = gather(node, used, at)?;
            let element = two(node, Op::Binary(Binary::Add), feature, starts)?;
            let found = gather(node, x, element)?;
            let value = gather(node, values, at)?;
            let mut holds = None;
            for &(mode, of) in &tests {
                let mut here = mode.holds(node, found, value)?;
                if let Some(of) = of {
                    let of = gather(node, of, at)?;
                    here = two(node, Op::Logic(Logic::And), here, of)?;
                }
                holds = Some(match holds {
                    None => here,
                    Some(before) => two(node, Op::Logic(Logic::Or), before, here)?,
                });
            }
            let mut holds = match holds {
                Some(holds) => holds,
                None => two(node, Op::Compare(Compare::Equal), found, found)?,
            };
            if let Some(missing) = missing {
                let number = two(node, Op::Compare(Compare::Equal), found, found)?;
                let absent = one(node, Op::Unary(Unary::Not), number)?;
                let tracks = gather(node, missing, at)?;
                let tracks = two(node, Op::Logic(Logic::And), absent, tracks)?;
                holds = two(node, Op::Logic(Logic::Or), holds, tracks)?;
            }
            let (yes, no) = (gather(node, next[0], at)?, gather(node, next[1], at)?);
            at = choose(node, holds, yes, no)?;
        }
        Ok(at)
    }

    /// The comparisons that occur, each with the nodes that make it unless it is the only one.
    fn tests(&self, node: &mut NodeContext<'_, '_>) -> Result<Vec<(Mode, Option<ValueId>)>> {
        let mut modes: Vec<Mode> = Vec::new();
        for &mode in self.modes.iter().filter(|&&mode| mode != Mode::Leaf) {
            if !modes.contains(&mode) {
                modes.push(mode);
            }
        }
        if let [only] = modes[..] {
            return Ok(vec![(only, None)]);
        }
        let with_nodes = |mode: Mode| {
            Ok((mode, Some(flags(node, self.modes.iter().map(|&other| other == mode))?)))
        };
        modes.into_iter().map(with_nodes).collect()
    }
}

fn signed(place: usize) -> i64 {
    i64::try_from(place).unwrap_or(i64::MAX)
}

fn ints<'m>(node: &mut NodeContext<'_, 'm>, name: &'static str) -> Result<&'m [i64]> {
    Ok(node.attributes.ints(name)?.unwrap_or_default())
}

fn table<T: quincunx_tensor::Element>(
    node: &mut NodeContext<'_, '_>,
    values: Vec<T>,
) -> Result<ValueId> {
    node.constant_before(Tensor::from_vec(&[values.len()], values)?)
}

fn flags(node: &mut NodeContext<'_, '_>, values: impl Iterator<Item = bool>) -> Result<ValueId> {
    let bytes: Vec<u8> = values.map(u8::from).collect();
    node.constant_before(Tensor::new(DType::Bool, &[bytes.len()], bytes.into())?)
}

fn gather(node: &mut NodeContext<'_, '_>, table: ValueId, at: ValueId) -> Result<ValueId> {
    two(node, Op::Gather { axis: 0 }, table, at)
}

/// What leaves say about results, by position.
struct Votes<'m> {
    ids: &'m [i64],
    weights: &'m [f32],
    places: Vec<usize>,
}

impl<'m> Votes<'m> {
    fn read(
        node: &mut NodeContext<'_, 'm>,
        forest: &Forest,
        names: [&'static str; 4],
    ) -> Result<Self> {
        let [trees, nodes, ids, weights] = names;
        let (trees, nodes, ids) = (ints(node, trees)?, ints(node, nodes)?, ints(node, ids)?);
        let weights = node.attributes.floats(weights)?.unwrap_or_default();
        if [nodes.len(), ids.len(), weights.len()] != [trees.len(); 3] {
            return Err(malformed("the lists about leaves have different lengths".to_owned()));
        }
        let place = |(&tree, &number): (&i64, &i64)| match forest.places.get(&(tree, number)) {
            Some(&place) => Ok(place),
            None => Err(malformed(format!("tree {tree} has no node {number}"))),
        };
        let places = trees.iter().zip(nodes).map(place).collect::<Result<_>>()?;
        Ok(Votes { ids, weights, places })
    }

    /// The table of nodes by results, `empty` where a node says nothing.
    fn table(
        &self,
        node: &mut NodeContext<'_, '_>,
        nodes: usize,
        results: usize,
        empty: f32,
    ) -> Result<ValueId> {
        let size = nodes.saturating_mul(results);
        if !node.may_store(size) {
            return Err(node.unsupported(format_args!("{results} results of {nodes} nodes")));
        }
        let mut cells: Vec<Option<f32>> = vec![None; size];
        for ((&place, &id), weight) in self.places.iter().zip(self.ids).zip(self.weights) {
            let Some(id) = usize::try_from(id).ok().filter(|&id| id < results) else {
                return Err(malformed(format!("a leaf has result {id} of {results}")));
            };
            let cell = &mut cells[place * results + id];
            *cell = Some(cell.unwrap_or(0.0) + weight);
        }
        let cells = cells.into_iter().map(|cell| cell.unwrap_or(empty)).collect();
        node.constant_before(Tensor::from_vec(&[nodes, results], cells)?)
    }
}

/// The sum or another reduction over trees of what leaves say, `[N, results]`.
fn reduced(
    node: &mut NodeContext<'_, '_>,
    table: ValueId,
    leaves: ValueId,
    kind: ReduceKind,
) -> Result<ValueId> {
    let votes = gather(node, table, leaves)?;
    one(node, Op::Reduce(Reduce { kind, axes: vec![1], keep_dims: false }), votes)
}

pub(crate) fn regressor(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let (x, features) = rows(node)?;
    let forest = Forest::read(node, features)?;
    let names = ["target_treeids", "target_nodeids", "target_ids", "target_weights"];
    let votes = Votes::read(node, &forest, names)?;
    let targets = node.attributes.int("n_targets")?.unwrap_or(1);
    let targets = usize::try_from(targets).ok().filter(|&targets| targets > 0);
    let targets = targets.ok_or_else(|| malformed("n_targets is below 1".to_owned()))?;
    let (kind, empty) = match node.attributes.string("aggregate_function")?.unwrap_or("SUM") {
        "SUM" => (ReduceKind::Sum, 0.0),
        "AVERAGE" => (ReduceKind::Mean, 0.0),
        "MIN" => (ReduceKind::Min, f32::INFINITY),
        "MAX" => (ReduceKind::Max, f32::NEG_INFINITY),
        other => return Err(malformed(format!("aggregate_function is \"{other}\""))),
    };
    let table = votes.table(node, forest.modes.len(), targets, empty)?;
    let leaves = forest.leaves(node, x, features)?;
    let mut scores = reduced(node, table, leaves, kind)?;
    if empty != 0.0 {
        // A result that no leaf says anything about is 0.
        let (none, zero) =
            (number(node, DType::F32, empty.into())?, number(node, DType::F32, 0.0)?);
        let is_empty = two(node, Op::Compare(Compare::Equal), scores, none)?;
        scores = choose(node, is_empty, zero, scores)?;
    }
    scores = with_base(node, scores, targets)?;
    let transform = Transform::of(node)?;
    let result = match targets {
        1 => transform.apply_to_one(node, scores)?,
        _ => transform.apply(node, scores)?,
    };
    node.emit(Op::Identity, &[Some(result)])
}

/// Scores with `base_values` added.
fn with_base(node: &mut NodeContext<'_, '_>, scores: ValueId, count: usize) -> Result<ValueId> {
    match node.attributes.floats("base_values")?.unwrap_or_default() {
        [] => Ok(scores),
        base if base.len() == count => {
            let base = table(node, base.to_vec())?;
            two(node, Op::Binary(Binary::Add), scores, base)
        }
        base => Err(node.unsupported(format_args!("{} base_values for {count}", base.len()))),
    }
}

pub(crate) fn classifier(node: &mut NodeContext<'_, '_>) -> Result<()> {
    let (x, features) = rows(node)?;
    let forest = Forest::read(node, features)?;
    let names = ["class_treeids", "class_nodeids", "class_ids", "class_weights"];
    let votes = Votes::read(node, &forest, names)?;
    let labels = labels(node, "classlabels_int64s")?;
    let transform = Transform::of(node)?;
    let leaves = forest.leaves(node, x, features)?;
    let classes: BTreeSet<i64> = votes.ids.iter().copied().collect();
    let result = match labels[..] {
        [no, yes] if classes.len() == 1 => {
            let single = Votes { ids: &vec![0; votes.ids.len()], ..votes };
            let table = single.table(node, forest.modes.len(), 1, 0.0)?;
            let score = reduced(node, table, leaves, ReduceKind::Sum)?;
            let score = with_base(node, score, 1)?;
            // Weights that are all positive are shares of votes.
            let shares = single.weights.iter().all(|&weight| weight >= 0.0);
            either(node, score, if shares { 0.5 } else { 0.0 }, [no, yes])?;
            second_class(node, transform, score, shares)?
        }
        // The label would be that of the larger score, or tell whether the second is above 0.
        [_, _] => return Err(node.unsupported("votes for both of two classes")),
        _ if labels.len() > 1 => {
            let count = labels.len();
            let table = votes.table(node, forest.modes.len(), count, 0.0)?;
            let scores = reduced(node, table, leaves, ReduceKind::Sum)?;
            let scores = with_base(node, scores, count)?;
            largest(node, scores, labels)?;
            transform.apply(node, scores)?
        }
        _ => return Err(node.unsupported("a single class")),
    };
    if node.wants(1) {
        node.emit_output(1, Op::Identity, &[Some(result)])?;
    }
    Ok(())
}
