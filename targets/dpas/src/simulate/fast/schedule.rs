//! Which products may run together.
//!
//! A group is a run of products of which none reads what another one writes, except that a product
//! may continue a chain: it adds to the sums that an earlier one has written, with the same lanes.
//! Chains of a group do not depend on each other, so that they run one after the other, and their
//! operands may be unpacked before the first of them.

use super::blocks::{Block, Blocks, Form, Place, Run, whole_bytes};
use super::chain::{Chain, Class, Pairs, Product};
use crate::precision::{Acc, Precision};
use crate::shape::Shape;
use crate::simulate::exec::{Operation, Step};
use crate::simulate::float::{Model, Rules};
use quincunx_num::Level;
use std::collections::BTreeSet;
use std::ops::Range;

/// Most products of a group: the work to find overlaps grows with its square.
const MAX_PRODUCTS: usize = 256;
/// Most unpacked blocks that a group takes over from earlier ones.
const MAX_KEPT: usize = 1024;

/// A part of a plan.
pub(super) enum Part {
    /// A step that the executor does.
    Step(Step),
    /// Chains of products.
    Group(Group),
}

/// Blocks to unpack, and then chains.
pub(super) struct Group {
    pub(super) unpack: Vec<Run>,
    /// Blocks in use that earlier groups have unpacked, from the same thread.
    pub(super) kept: Vec<Run>,
    pub(super) chains: Vec<Chain>,
    pub(super) pairs: Vec<Pairs>,
    pub(super) twins: Vec<[Chain; 2]>,
    /// Of the twins the shape of their products, and the blocks that they multiply.
    pub(super) floats: Option<(Shape, [Vec<u32>; 2])>,
}

/// Turns steps into parts.
pub(super) struct Scheduler {
    level: Level,
    rules: Rules,
    bytes: usize,
    parts: Vec<Part>,
    blocks: Blocks,
    /// Blocks that are unpacked when the current group has begun, or will be.
    valid: BTreeSet<usize>,
    unpack: Vec<usize>,
    kept: BTreeSet<usize>,
    chains: Vec<Chain>,
    products: usize,
    reads: Vec<Range<usize>>,
    writes: Vec<Range<usize>>,
}

fn overlaps(list: &[Range<usize>], range: &Range<usize>) -> bool {
    list.iter().any(|other| other.start < range.end && range.start < other.end)
}

impl Scheduler {
    pub(super) fn new(level: Level, rules: Rules, bytes: usize) -> Scheduler {
        Scheduler {
            level,
            rules,
            bytes,
            parts: Vec::new(),
            blocks: Blocks::default(),
            valid: BTreeSet::new(),
            unpack: Vec::new(),
            kept: BTreeSet::new(),
            chains: Vec::new(),
            products: 0,
            reads: Vec::new(),
            writes: Vec::new(),
        }
    }

    /// The parts, and the blocks that they unpack.
    pub(super) fn finish(mut self) -> (Vec<Part>, Blocks) {
        self.close();
        (self.parts, self.blocks)
    }

    /// Adds a step.
    pub(super) fn push(&mut self, step: &Step) {
        match step {
            Step::Wait => {}
            Step::Multiply(operation) if self.multiply(operation) => {}
            Step::Multiply(operation) => {
                let dst = operation.operand_bytes().swap_remove(0);
                self.alone(step, dst);
            }
            // A thread does it, and the plan is not used.
            Step::Vector(_) => self.alone(step, 0..usize::MAX),
        }
    }

    fn alone(&mut self, step: &Step, writes: Range<usize>) {
        self.close();
        self.parts.push(Part::Step(*step));
        self.forget(&[writes]);
    }

    /// Ends the group.
    fn close(&mut self) {
        if !self.chains.is_empty() {
            let unpack = self.blocks.runs(std::mem::take(&mut self.unpack).into_iter());
            let kept = self.blocks.runs(std::mem::take(&mut self.kept).into_iter());
            let mut chains = std::mem::take(&mut self.chains);
            let pairs = Pairs::take(&mut chains);
            let fused = self.level == Level::Avx512 && !self.rules.ftz;
            let twins = if fused { Chain::twins(&mut chains) } else { Vec::new() };
            let floats = operands(&twins);
            self.parts.push(Part::Group(Group { unpack, kept, chains, pairs, twins, floats }));
        }
        self.products = 0;
        self.reads.clear();
        let writes = std::mem::take(&mut self.writes);
        self.forget(&writes);
    }

    /// Blocks that are made of bytes that change have to be unpacked again.
    fn forget(&mut self, writes: &[Range<usize>]) {
        if self.valid.len() > MAX_KEPT {
            self.valid.clear();
        }
        let blocks = &self.blocks;
        let changes = |id: usize| writes.iter().any(|range| blocks.block(id).depends_on(range));
        self.valid.retain(|&id| !changes(id));
    }

    /// Adds a product; false if it cannot be prepared.
    fn multiply(&mut self, operation: &Operation) -> bool {
        let ranges = operation.operand_bytes();
        let inside = |range: &Range<usize>| range.start < range.end && range.end <= self.bytes;
        let Some(class) = class(&operation.shape, self.rules, self.level) else { return false };
        if operation.fused || operation.scales.is_some() || !ranges.iter().all(inside) {
            return false;
        }
        let continued = self.continued(operation, &ranges);
        let fits = continued.is_some() || self.is_apart(&ranges);
        if self.products >= MAX_PRODUCTS || !fits {
            self.close();
        }
        let continued = continued.filter(|_| !self.chains.is_empty());
        let Some(product) = self.product(operation, class) else { return false };
        let first = match continued {
            Some(chain) => {
                self.chains[chain].push(operation, product);
                // src0 is what the chain has written.
                2
            }
            None => {
                self.writes.push(ranges[0].clone());
                self.chains.push(Chain::new(class, operation, product));
                1
            }
        };
        self.reads.extend_from_slice(&ranges[first..]);
        self.products += 1;
        true
    }

    /// The chain that a product continues.
    fn continued(&self, operation: &Operation, ranges: &[Range<usize>]) -> Option<usize> {
        let Operation { shape, dst, offset, no_mask, .. } = *operation;
        if operation.src0 != Some(dst) || shape.src0.bytes() != shape.dst.bytes() {
            return None;
        }
        let same = |chain: &Chain| {
            let first = chain.first();
            first.dst == dst
                && (first.offset, first.no_mask) == (offset, no_mask)
                && Shape { src0: shape.src0, depth: shape.depth, ..first.shape } == shape
                && shape.src0 == shape.dst
        };
        let sources_apart = ranges[2..].iter().all(|range| !overlaps(&self.writes, range));
        self.chains.iter().position(same).filter(|_| sources_apart)
    }

    /// True if a product neither reads nor writes what the group writes, nor writes what it reads.
    fn is_apart(&self, ranges: &[Range<usize>]) -> bool {
        ranges.iter().all(|range| !overlaps(&self.writes, range))
            && !overlaps(&self.reads, &ranges[0])
    }

    fn product(&mut self, operation: &Operation, class: Class) -> Option<Product> {
        let shape = &operation.shape;
        let mut product = Product {
            left: Place::File(operation.src2 as u32),
            left_stride: (shape.row_stride() * shape.activations.bits() / 8) as u16,
            right: Place::File(operation.src1 as u32),
            sums: None,
            blocks: None,
            k: shape.k() as u16,
        };
        let (left, right) = match class {
            Class::Dots { flipped, .. } => {
                if shape.activations.bits() < 8 || flipped {
                    let id = self.block(Block::left(operation, Form::Bytes { flipped }))?;
                    product.left = self.blocks.place(id);
                    product.left_stride = self.blocks.block(id).row_elements() as u16;
                }
                if shape.weights.bits() < 8 {
                    let id = self.block(Block::right(operation, Form::Bytes { flipped: false }))?;
                    product.right = self.blocks.place(id);
                }
                if flipped {
                    let id = self.block(Block::sums(operation, product.right))?;
                    product.sums = Some(self.blocks.place(id));
                }
                return Some(product);
            }
            Class::Words => (Form::Words, Form::Words),
            Class::Singles => (Form::Singles, Form::Singles),
            Class::Doubles => (Form::Doubles, Form::Doubles),
        };
        let left = self.block(Block::left(operation, left))?;
        let right = self.block(Block::right(operation, right))?;
        product.left = self.blocks.place(left);
        product.left_stride = self.blocks.block(left).row_elements() as u16;
        product.right = self.blocks.place(right);
        product.blocks = Some((left as u32, right as u32));
        Some(product)
    }

    /// A block that is unpacked before the group runs.
    fn block(&mut self, block: Block) -> Option<usize> {
        let id = self.blocks.add(block)?;
        if self.valid.insert(id) {
            self.unpack.push(id);
        } else if !self.unpack.contains(&id) {
            self.kept.insert(id);
        }
        Some(id)
    }
}

/// The blocks of A and B of chains, each once, with the shape of the products of the first chain; its
/// types are those of all.
fn operands(twins: &[[Chain; 2]]) -> Option<(Shape, [Vec<u32>; 2])> {
    let shape = twins.first()?[0].first().shape;
    let types = |chain: &Chain| {
        let shape = &chain.first().shape;
        (shape.weights, shape.activations)
    };
    let chains = || twins.iter().flatten();
    let same = chains().all(|chain| types(chain) == (shape.weights, shape.activations));
    let (left, right): (BTreeSet<u32>, BTreeSet<u32>) = chains().flat_map(Chain::blocks).unzip();
    same.then(|| (shape, [left, right].map(|ids| ids.into_iter().collect())))
}

/// How a product is computed; `None` if only the executor does it.
fn class(shape: &Shape, rules: Rules, level: Level) -> Option<Class> {
    let integers = shape.weights.is_integer();
    let known = |acc: Acc| acc != Acc::Df && acc.is_integer() == integers;
    let fits = known(shape.dst) && known(shape.src0) && shape.weights != Precision::Df;
    if !fits || !matches!(shape.lanes, 8 | 16) || !whole_bytes(shape) {
        return None;
    }
    Some(match rules.model {
        _ if integers && level == Level::Avx512 => {
            let (b, a) = (shape.weights, shape.activations);
            // The dot product takes an unsigned and a signed side, in this order.
            let signed_fits = |precision: Precision| precision != Precision::U8;
            let unsigned_left = !a.is_signed() && signed_fits(b);
            let unsigned_right = !b.is_signed() && signed_fits(a);
            Class::Dots {
                flipped: !unsigned_left && !unsigned_right,
                unsigned_left: unsigned_left || b.is_signed(),
            }
        }
        _ if integers => Class::Words,
        Model::Stage | Model::Exact if shape.ops() > 1 || rules.model == Model::Exact => {
            Class::Doubles
        }
        _ => Class::Singles,
    })
}
