//! What is drawn: operations one by one, or many together.

use super::flat::{Flat, Node};
use crate::isa::Inst;
use std::collections::{BTreeMap, BTreeSet};

/// Colours and shapes go by kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Input,
    Constant,
    Sum,
    Quantiser,
    Choice,
    Product,
    Table,
    Bits,
    Output,
}

impl Kind {
    pub(super) const ALL: [Kind; 9] = [
        Kind::Input,
        Kind::Constant,
        Kind::Sum,
        Kind::Quantiser,
        Kind::Choice,
        Kind::Product,
        Kind::Table,
        Kind::Bits,
        Kind::Output,
    ];

    fn of(inst: Inst) -> Kind {
        match inst {
            Inst::Input { .. } => Kind::Input,
            Inst::Constant { .. } => Kind::Constant,
            Inst::Add { .. }
            | Inst::Sub { .. }
            | Inst::Sum { .. }
            | Inst::Negate { .. }
            | Inst::AddConstant { .. }
            | Inst::AddScaled { .. } => Kind::Sum,
            Inst::Relu { .. }
            | Inst::ReluNegated { .. }
            | Inst::Quantise { .. }
            | Inst::QuantiseNegated { .. }
            | Inst::QuantiseShifted { .. } => Kind::Quantiser,
            Inst::Mux { .. } | Inst::MuxNegated { .. } => Kind::Choice,
            Inst::Multiply { .. } => Kind::Product,
            Inst::Lookup { .. } => Kind::Table,
            Inst::Bits { .. } | Inst::BitsNegated { .. } | Inst::Bitwise { .. } => Kind::Bits,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Input => "input",
            Kind::Constant => "constant",
            Kind::Sum => "sum",
            Kind::Quantiser => "quantiser",
            Kind::Choice => "mux",
            Kind::Product => "product",
            Kind::Table => "lookup",
            Kind::Bits => "bits",
            Kind::Output => "output",
        }
    }

    /// The colour of words on it.
    pub(super) fn words(self) -> &'static str {
        match self {
            Kind::Constant | Kind::Table | Kind::Bits | Kind::Quantiser => "#222",
            _ => "#fff",
        }
    }

    pub(super) fn colour(self) -> &'static str {
        match self {
            Kind::Input => "#59a14f",
            Kind::Constant => "#bab0ac",
            Kind::Sum => "#4e79a7",
            Kind::Quantiser => "#f28e2b",
            Kind::Choice => "#b07aa1",
            Kind::Product => "#e15759",
            Kind::Table => "#edc948",
            Kind::Bits => "#76b7b2",
            Kind::Output => "#9c755f",
        }
    }
}

/// A box or a dot.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) kind: Kind,
    /// A few words.
    pub(super) label: String,
    /// More, for those who point at it.
    pub(super) title: String,
    /// Operations in it.
    pub(super) count: usize,
    /// Items of a higher level are to the right.
    pub(super) level: usize,
    pub(super) stage: usize,
}

/// A graph to be drawn.
#[derive(Clone, Debug, Default)]
pub(super) struct Picture {
    pub(super) items: Vec<Item>,
    /// From, to, and how many connections it stands for.
    pub(super) edges: BTreeMap<(usize, usize), usize>,
    pub(super) stages: usize,
    /// Operations that are drawn together.
    pub(super) is_collapsed: bool,
}

/// Most items of a picture in which operations are drawn together.
const MAX_ITEMS: usize = 600;

impl Picture {
    /// The kinds of its items.
    pub(super) fn kinds(&self) -> impl Iterator<Item = Kind> {
        let present: BTreeSet<Kind> = self.items.iter().map(|item| item.kind).collect();
        present.into_iter()
    }

    /// What it shows.
    pub(super) fn title(&self) -> &'static str {
        match self.is_collapsed {
            true => "Adder graph, operations of a kind together,",
            false => "Adder graph",
        }
    }

    /// Every operation if there are no more than `limit`; else those of a kind, a layer and, where
    /// there is room, a level of operations together.
    pub(super) fn of(flat: &Flat, limit: usize) -> Picture {
        if flat.nodes.len() <= limit {
            return Picture::single(flat);
        }
        let levels = levels(flat);
        let fine = |index: usize, node: &Node| (node.group, levels[index], Kind::of(node.inst));
        let keys = flat.nodes.iter().enumerate().map(|(index, node)| fine(index, node));
        if keys.collect::<BTreeSet<_>>().len() <= MAX_ITEMS {
            return Picture::together(flat, fine);
        }
        // Neighbouring layers together where there are very many.
        let most = MAX_ITEMS / Kind::ALL.len();
        let layers = flat.groups.len().div_ceil(most).max(1);
        Picture::together(flat, |_, node| (node.group / layers, 0, Kind::of(node.inst)))
    }

    fn single(flat: &Flat) -> Picture {
        let levels = levels(flat);
        let mut picture = Picture { stages: flat.stages, ..Picture::default() };
        for (index, node) in flat.nodes.iter().enumerate() {
            let place = match flat.stages {
                1 => format!("%{}", node.slot.0),
                _ => format!("%{}@{}", node.slot.0, node.stage),
            };
            let (name, width) = (node.inst.mnemonic(), node.width);
            picture.items.push(Item {
                kind: Kind::of(node.inst),
                label: format!("{place} {name}"),
                title: format!(
                    "{place} {name}, {width} bits, latency {}, {}",
                    node.latency, flat.groups[node.group].name
                ),
                count: 1,
                level: levels[index],
                stage: node.stage,
            });
            for &operand in &node.operands {
                *picture.edges.entry((operand, index)).or_default() += 1;
            }
        }
        picture.outputs(flat, |node| node);
        picture
    }

    fn together<K: Ord + Copy>(flat: &Flat, key: impl Fn(usize, &Node) -> K) -> Picture {
        let mut picture = Picture { stages: flat.stages, is_collapsed: true, ..Picture::default() };
        let mut known: BTreeMap<K, usize> = BTreeMap::new();
        let mut item_of = Vec::with_capacity(flat.nodes.len());
        for (index, node) in flat.nodes.iter().enumerate() {
            let item = *known.entry(key(index, node)).or_insert_with(|| {
                picture.items.push(Item {
                    kind: Kind::of(node.inst),
                    label: flat.groups[node.group].name.clone(),
                    title: String::new(),
                    count: 0,
                    level: 0,
                    stage: node.stage,
                });
                picture.items.len() - 1
            });
            picture.items[item].count += 1;
            item_of.push(item);
            for &operand in &node.operands {
                if item_of[operand] != item {
                    *picture.edges.entry((item_of[operand], item)).or_default() += 1;
                }
            }
        }
        picture.outputs(flat, |node| item_of[node]);
        for item in &mut picture.items {
            let name = if item.count == 1 {
                item.kind.name().to_owned()
            } else {
                format!("{} {}", item.count, plural(item.kind))
            };
            item.title = format!("{name}, {}", item.label);
            item.label = name;
        }
        picture.level();
        picture
    }

    /// One item for all outputs.
    fn outputs(&mut self, flat: &Flat, item_of: impl Fn(usize) -> usize) {
        let last = self.items.len();
        let level = self.items.iter().map(|item| item.level + 1).max().unwrap_or(0);
        let mut is_read = false;
        for end in &flat.outputs {
            if let Some(source) = end.source {
                *self.edges.entry((item_of(source), last)).or_default() += 1;
                is_read = true;
            }
        }
        if is_read {
            let count = flat.outputs.len();
            self.items.push(Item {
                kind: Kind::Output,
                label: format!("{count} outputs"),
                title: format!("{count} outputs"),
                count,
                level,
                stage: flat.stages.saturating_sub(1),
            });
        }
    }

    /// Levels of items that stand for many: an item is right of those it reads, as far as they do
    /// not read it in turn.
    fn level(&mut self) {
        // Edges come in the order of the items they leave, so that these have their levels.
        for &(from, to) in self.edges.keys().filter(|(from, to)| from < to) {
            self.items[to].level = self.items[to].level.max(self.items[from].level + 1);
        }
    }
}

fn plural(kind: Kind) -> String {
    match kind {
        Kind::Choice => "muxes".to_owned(),
        Kind::Bits => "bit operations".to_owned(),
        kind => format!("{}s", kind.name()),
    }
}

/// By operation, the length of the longest chain of operations that leads to it.
fn levels(flat: &Flat) -> Vec<usize> {
    let mut levels: Vec<usize> = Vec::with_capacity(flat.nodes.len());
    for node in &flat.nodes {
        let before = node.operands.iter().map(|&operand| levels[operand] + 1).max();
        levels.push(before.unwrap_or(0));
    }
    levels
}
