//! What is computed: a program, or the stages of a pipeline together, as integer operations whose
//! ranges are known.

use super::range::Range;
use crate::isa::BinaryBits;
use quincunx_num::Kif;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::collections::hash_map::Entry;

/// A value by the number of its node.
pub(super) type Id = u32;

/// One integer operation. Shifts to the right round down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Node {
    /// The floor of an input times `2^scale`, wrapped.
    Input { column: u32, scale: i32, to: Wrap },
    /// A number.
    Constant(i64),
    /// `((a << left_a) ± (b << left_b)) >> right`.
    Sum { a: Id, b: Id, left_a: u32, left_b: u32, subtract: bool, right: u32 },
    /// `(x << left >> right) + value`.
    Offset { x: Id, left: u32, right: u32, value: i64 },
    /// `±x`, 0 instead of less if clipped, shifted and wrapped.
    Field { x: Id, negate: bool, clip: bool, left: u32, right: u32, wrap: Option<Wrap> },
    /// One of two by a bit of the condition.
    Select { condition: Id, bit: u32, set: Id, clear: Id },
    /// `a * b`.
    Product { a: Id, b: Id },
    /// Entry `x + offset` of a table; `checked` if there may be none.
    Lookup { x: Id, offset: i64, table: u32, checked: bool },
    /// The bits of `!x` that the mask has.
    Not { x: Id, mask: i64 },
    /// 1 if `x` is not 0.
    Any { x: Id },
    /// 1 if `x` has all bits of the mask.
    All { x: Id, mask: i64 },
    /// The bits of two.
    Bitwise { a: Id, b: Id, op: BinaryBits },
}

/// Bits that are kept, the uppermost of which may be a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wrap {
    pub(super) signed: bool,
    pub(super) width: u32,
}

impl Wrap {
    pub(super) fn of(kif: Kif) -> Wrap {
        Wrap { signed: kif.signed, width: kif.width() }
    }

    /// The bits of an unsigned type of fewer than 64 bits.
    pub(super) fn mask(self) -> i64 {
        ((1_i128 << self.width.min(64)) - 1) as i64
    }
}

impl Node {
    /// The values it reads.
    pub(super) fn operands(self) -> impl DoubleEndedIterator<Item = Id> {
        let list = match self {
            Node::Input { .. } | Node::Constant(_) => [None; 3],
            Node::Sum { a, b, .. } | Node::Product { a, b } | Node::Bitwise { a, b, .. } => {
                [Some(a), Some(b), None]
            }
            Node::Offset { x, .. }
            | Node::Field { x, .. }
            | Node::Lookup { x, .. }
            | Node::Not { x, .. }
            | Node::Any { x }
            | Node::All { x, .. } => [Some(x), None, None],
            Node::Select { condition, set, clear, .. } => [Some(condition), Some(set), Some(clear)],
        };
        list.into_iter().flatten()
    }
}

/// Nodes with their ranges. Equal nodes are one, and what has a single value is a constant.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    list: Vec<Node>,
    ranges: Vec<Range>,
    /// What a lane must hold: operands, steps between and result.
    spans: Vec<Range>,
    known: FxHashMap<Node, Id>,
}

impl Nodes {
    /// None yet, with room for so many.
    pub(super) fn with_capacity(count: usize) -> Nodes {
        Nodes {
            list: Vec::with_capacity(count),
            ranges: Vec::with_capacity(count),
            spans: Vec::with_capacity(count),
            known: FxHashMap::with_capacity_and_hasher(count, FxBuildHasher),
        }
    }

    pub(super) fn get(&self, id: Id) -> Node {
        self.list[id as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn range(&self, id: Id) -> Range {
        self.ranges[id as usize]
    }

    pub(super) fn span(&self, id: Id) -> Range {
        self.spans[id as usize]
    }

    /// Forgets what only new nodes need.
    pub(super) fn finish(&mut self) {
        self.known = FxHashMap::default();
    }

    /// A node whose result is in `range`; `between` are the numbers on the way to it.
    fn push(&mut self, node: Node, range: Range, between: &[Range]) -> Id {
        let is_lookup = matches!(node, Node::Lookup { checked: true, .. });
        let node = match range.single() {
            Some(value) if !is_lookup => Node::Constant(value),
            _ => node,
        };
        let id = self.list.len() as Id;
        match self.known.entry(node) {
            Entry::Occupied(known) => return *known.get(),
            Entry::Vacant(new) => new.insert(id),
        };
        let span = match node {
            Node::Constant(_) => range,
            _ => {
                let operands = node.operands().map(|operand| self.range(operand));
                operands.chain(between.iter().copied()).fold(range, Range::union)
            }
        };
        self.list.push(node);
        self.ranges.push(range);
        self.spans.push(span);
        id
    }

    pub(super) fn constant(&mut self, value: i64) -> Id {
        self.push(Node::Constant(value), Range::point(value), &[])
    }

    pub(super) fn input(&mut self, column: u32, scale: i64, to: Kif) -> Option<Id> {
        let range = Range::of_type(to)?;
        let scale = i32::try_from(scale).ok()?;
        Some(self.push(Node::Input { column, scale, to: Wrap::of(to) }, range, &[]))
    }

    /// `(a << left_a) ± (b << left_b)`, shifted to the left by `then`, or to the right.
    pub(super) fn sum(
        &mut self,
        a: Id,
        left_a: i64,
        b: Id,
        left_b: i64,
        subtract: bool,
        then: i64,
    ) -> Option<Id> {
        let (more, right) = (then.max(0), (-then).max(0));
        let wide_a = self.range(a).shifted(left_a + more)?;
        let wide_b = self.range(b).shifted(left_b + more)?;
        let sum = if subtract { wide_a.minus(wide_b)? } else { wide_a.plus(wide_b)? };
        let node = Node::Sum {
            a,
            b,
            left_a: distance(left_a + more),
            left_b: distance(left_b + more),
            subtract,
            right: distance(right),
        };
        Some(self.push(node, sum.shifted(-right)?, &[wide_a, wide_b, sum]))
    }

    /// `x` shifted to the left by `shift`, or to the right, and a number.
    pub(super) fn offset(&mut self, x: Id, shift: i64, value: i64) -> Option<Id> {
        let shifted = self.range(x).shifted(shift)?;
        let range = shifted.plus(Range::point(value))?;
        let (left, right) = (distance(shift.max(0)), distance((-shift).max(0)));
        let between = [shifted, Range::point(value)];
        Some(self.push(Node::Offset { x, left, right, value }, range, &between))
    }

    /// `±x`, clipped at 0 if asked for, shifted, and wrapped to a type if there is one.
    pub(super) fn field(
        &mut self,
        x: Id,
        negate: bool,
        clip: bool,
        shift: i64,
        to: Option<Kif>,
    ) -> Option<Id> {
        let range = self.range(x);
        let signed = if negate { range.negated()? } else { range };
        let clipped = if clip { signed.clipped() } else { signed };
        let clip = clipped != signed;
        let all = to.map_or(Some(None), |kif| Range::of_type(kif).map(Some))?;
        let shifted = clipped.shifted(shift);
        let (wrap, range) = match (shifted, all) {
            (Some(shifted), Some(all)) if all.holds(shifted) => (None, shifted),
            (shifted, None) => (None, shifted?),
            (_, Some(all)) => (to.map(Wrap::of), all),
        };
        if let Some(Wrap { width, .. }) = wrap
            && shift >= i64::from(width)
        {
            return Some(self.constant(0));
        }
        if !negate && !clip && wrap.is_none() && shift == 0 {
            return Some(x);
        }
        let (left, right) = (distance(shift.max(0)), distance((-shift).max(0)));
        let node = Node::Field { x, negate, clip, left, right, wrap };
        Some(self.push(node, range, &[signed]))
    }

    /// `set` if a bit of the condition is set, else `clear`.
    pub(super) fn select(&mut self, condition: Id, bit: u32, set: Id, clear: Id) -> Id {
        let Range { low, high } = self.range(condition);
        let bit = bit.min(63);
        // Where all higher bits are equal and the range does not leave them, the bit is known.
        if low >> bit == high >> bit {
            return if low >> bit & 1 == 1 { set } else { clear };
        }
        if set == clear {
            return set;
        }
        let range = self.range(set).union(self.range(clear));
        self.push(Node::Select { condition, bit, set, clear }, range, &[])
    }

    pub(super) fn product(&mut self, a: Id, b: Id) -> Option<Id> {
        let range = self.range(a).times(self.range(b))?;
        Some(self.push(Node::Product { a, b }, range, &[]))
    }

    /// Entry `x + offset` of a table; also true when there may be none. `None` for a lookup that
    /// never finds an entry.
    pub(super) fn lookup(
        &mut self,
        x: Id,
        offset: i64,
        number: u32,
        values: &[i32],
    ) -> Option<(Id, bool)> {
        let entries = self.range(x).plus(Range::point(offset))?;
        let last = values.len() as i64 - 1;
        let (first, end) = (entries.low.max(0), entries.high.min(last));
        if first > end {
            return None;
        }
        let checked = entries.low < 0 || entries.high > last;
        let read = &values[first as usize..=end as usize];
        let (low, high) = (*read.iter().min()?, *read.iter().max()?);
        let range = Range { low: low.into(), high: high.into() };
        let node = Node::Lookup { x, offset, table: number, checked };
        Some((self.push(node, range, &[]), checked))
    }

    /// The bits of `!x` that a mask has; all of them without one.
    pub(super) fn not(&mut self, x: Id, mask: Option<Wrap>) -> Option<Id> {
        let range = self.range(x);
        let inverted = Range { low: !range.high, high: !range.low };
        match mask {
            None => Some(self.push(Node::Not { x, mask: -1 }, inverted, &[])),
            Some(Wrap { width, .. }) if width >= 64 => None,
            Some(wrap) => {
                let range = Range { low: 0, high: wrap.mask() };
                Some(self.push(Node::Not { x, mask: wrap.mask() }, range, &[inverted]))
            }
        }
    }

    pub(super) fn any(&mut self, x: Id) -> Id {
        self.push(Node::Any { x }, Range { low: 0, high: 1 }, &[])
    }

    /// 1 if `x` has all of so many low bits.
    pub(super) fn all(&mut self, x: Id, width: u32) -> Option<Id> {
        if width == 0 {
            return Some(self.constant(1));
        }
        if width >= 64 {
            return None;
        }
        let mask = Wrap { signed: false, width }.mask();
        let node = Node::All { x, mask };
        Some(self.push(node, Range { low: 0, high: 1 }, &[Range::point(mask)]))
    }

    pub(super) fn bitwise(&mut self, a: Id, b: Id, op: BinaryBits) -> Id {
        // Any combination of two numbers has no more bits than the longer one.
        let bits = self.range(a).union(self.range(b)).signed_bits();
        let end = (1_i128 << (bits - 1)) as i64;
        let range = Range { low: end.wrapping_neg(), high: end.wrapping_sub(1) };
        self.push(Node::Bitwise { a, b, op }, range, &[])
    }
}

/// A shift; those of more than 64 do what one of 64 does.
fn distance(by: i64) -> u32 {
    by.clamp(0, 64) as u32
}
