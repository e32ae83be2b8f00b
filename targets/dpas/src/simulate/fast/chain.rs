//! Chains of products that add to the same sums.

#[cfg(target_arch = "x86_64")]
use super::avx512 as vectors;
use super::blocks::{Blocks, Place};
use super::floats;
use super::sums::{Aligned, Load, Store, Sum, at_level};
use crate::precision::{Acc, Precision};
use crate::shape::Shape;
use crate::simulate::exec::{Operation, Step, enabled};
use crate::simulate::float::{Model, Rules};
use quincunx_diag::Result;
use quincunx_num::{Level, Loop};
use std::ops::Range;

/// Most rows of D.
pub(super) const ROWS: usize = 8;

/// Bytes of a row of A in pairs of chains.
pub(super) const WIDTH: usize = 32;
/// No place of sums.
pub(super) const NONE: u32 = u32::MAX;

/// How the products of a chain are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// By dot products of four bytes. The unsigned side is A or B. `flipped` is the highest bit of
    /// the bytes of A, for which the sums of B make up.
    Dots { unsigned_left: bool, flipped: bool },
    /// In i32.
    Words,
    /// In f32, product by product.
    Singles,
    /// In f64, which holds several products exactly.
    Doubles,
}

/// One product of a chain. Small, as all of a program are to stay in the first-level cache beside the
/// registers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Product {
    /// A.
    pub(super) left: Place,
    /// Elements from one row of A to the next.
    pub(super) left_stride: u16,
    /// Columns of A.
    pub(super) k: u16,
    /// B.
    pub(super) right: Place,
    /// For every lane 128 times the sum of B.
    pub(super) sums: Option<Place>,
    /// The unpacked blocks of floats.
    pub(super) blocks: Option<(u32, u32)>,
}

impl Product {
    /// Columns of A.
    #[inline(always)]
    pub(super) fn columns(&self) -> usize {
        self.k.into()
    }

    /// Elements from one row of A to the next.
    #[inline(always)]
    pub(super) fn stride(&self) -> usize {
        self.left_stride.into()
    }
}

/// Products that add to the same sums, one after the other.
///
/// Invariant: there is one, and there are as many operations.
pub(super) struct Chain {
    class: Class,
    products: Vec<Product>,
    operations: Vec<Operation>,
}

/// Chains of dot products of eight rows, two by two with the same A, as one list.
///
/// Invariant: places lie in the registers and the blocks for which it was made.
pub(super) struct Pairs {
    pub(super) unsigned_left: bool,
    lanes: u32,
    switches: (u32, bool),
    pub(super) sums: Vec<Pair>,
    pub(super) products: Vec<Both>,
    /// The chains, for where lanes are off.
    pub(super) chains: Vec<Chain>,
}

/// Two chains.
pub(super) struct Pair {
    /// First bytes of src0 ([`NONE`] without) and of dst.
    pub(super) from: [u32; 2],
    pub(super) to: [u32; 2],
    /// Products of each.
    pub(super) count: usize,
}

/// A product of each. Places are the memory (registers, unpacked A, unpacked B, zeros) and the byte.
pub(super) struct Both {
    pub(super) left: (u8, u32),
    pub(super) rights: [(u8, u32); 2],
    /// For every lane 128 times the sums of B.
    pub(super) sums: [(u8, u32); 2],
}

/// Takes those chains that fit each other, two by two.
fn take_two(chains: &mut Vec<Chain>, fits: fn(&Chain, &Chain) -> bool) -> Vec<[Chain; 2]> {
    let mut rest: Vec<Option<Chain>> = chains.drain(..).map(Some).collect();
    let mut all = Vec::new();
    for index in 0..rest.len() {
        let Some(chain) = rest[index].take() else { continue };
        let second =
            |other: &&mut Option<Chain>| other.as_ref().is_some_and(|other| fits(&chain, other));
        match rest.iter_mut().find(second).and_then(Option::take) {
            Some(other) => all.push([chain, other]),
            None => chains.push(chain),
        }
    }
    all
}

impl Pairs {
    /// Takes those chains that can be computed two by two.
    pub(super) fn take(chains: &mut Vec<Chain>) -> Vec<Pairs> {
        let mut all: Vec<Pairs> = Vec::new();
        take_two(chains, Chain::joins).into_iter().for_each(|two| Pairs::add(&mut all, two));
        all
    }

    fn add(all: &mut Vec<Pairs>, chains: [Chain; 2]) {
        let [first, second] = &chains;
        let Class::Dots { unsigned_left, .. } = first.class else { return };
        let (lanes, switches) =
            (first.first().shape.lanes, (first.first().offset, first.first().no_mask));
        let is = |pairs: &Pairs| {
            (pairs.unsigned_left, pairs.lanes, pairs.switches) == (unsigned_left, lanes, switches)
        };
        let index = all.iter().position(is).unwrap_or_else(|| {
            let (sums, products) = (Vec::new(), Vec::new());
            all.push(Pairs { unsigned_left, lanes, switches, sums, products, chains: Vec::new() });
            all.len() - 1
        });
        let place = |place: Place| match place {
            Place::File(at) => (0, at),
            Place::Left(line) => (1, 64 * line),
            Place::Right(line) => (2, 64 * line),
        };
        let both = first.products.iter().zip(&second.products).map(|(a, b)| Both {
            left: place(a.left),
            rights: [place(a.right), place(b.right)],
            sums: [a.sums, b.sums].map(|sums| sums.map_or((3, 0), place)),
        });
        let operations = chains.each_ref().map(|chain| chain.first());
        all[index].sums.push(Pair {
            from: operations.map(|first| first.src0.map_or(NONE, |at| at as u32)),
            to: operations.map(|first| first.dst as u32),
            count: first.products.len(),
        });
        all[index].products.extend(both);
        all[index].chains.extend(chains);
    }

    /// Runs them on the registers of a thread; false if lanes are off, and then nothing.
    pub(super) fn run(&self, file: &mut [u8], blocks: &Blocks, dispatch_mask: u32) -> bool {
        let all = u32::MAX >> (32 - self.lanes);
        let (offset, no_mask) = self.switches;
        let is_on = enabled(dispatch_mask, offset, no_mask) & all == all;
        #[cfg(target_arch = "x86_64")]
        if is_on {
            // SAFETY: Plans have pairs only where the processor has the instructions, and the places
            // are those of operands that lie in the registers and of the blocks of the plan.
            unsafe {
                match self.lanes {
                    8 => vectors::narrow::pairs_of_dots(file, self, blocks),
                    _ => vectors::wide::pairs_of_dots(file, self, blocks),
                }
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (file, blocks);
        is_on
    }
}

/// Where the sums of a chain come from and go.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    /// First byte of src0; zeros without.
    pub(super) from: Option<usize>,
    /// First byte of dst.
    pub(super) to: usize,
    /// Lanes that write, lane 0 in the lowest bit.
    pub(super) enabled: u32,
}

impl Ends {
    fn of(first: &Operation, context: Context<'_>) -> Ends {
        let enabled = enabled(context.dispatch_mask, first.offset, first.no_mask);
        Ends { from: first.src0, to: first.dst, enabled }
    }
}

/// What all chains of a run have in common.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) blocks: &'a Blocks,
    pub(super) level: Level,
    pub(super) rules: Rules,
    pub(super) dispatch_mask: u32,
    /// The shape of the products of a chain, but for the depth.
    pub(super) shape: Shape,
    /// Fused additions give the sums of f32.
    pub(super) fused: bool,
}

impl Chain {
    pub(super) fn new(class: Class, operation: &Operation, product: Product) -> Chain {
        Chain { class, products: vec![product], operations: vec![*operation] }
    }

    pub(super) fn push(&mut self, operation: &Operation, product: Product) {
        self.products.push(product);
        self.operations.push(*operation);
    }

    /// The first operation: its shape is that of all, but for the depth and what src0 is.
    pub(super) fn first(&self) -> &Operation {
        &self.operations[0]
    }

    /// True if both are dot products of eight whole rows of the same A.
    fn joins(&self, other: &Chain) -> bool {
        let whole = |product: &Product| (product.columns(), product.stride()) == (WIDTH, WIDTH);
        let same = |(a, b): (&Product, &Product)| a.left == b.left && whole(a) && whole(b);
        let shape = |chain: &Chain| (chain.first().shape.lanes, chain.first().shape.repeat);
        let switches = |chain: &Chain| (chain.first().offset, chain.first().no_mask);
        matches!(self.class, Class::Dots { .. })
            && self.class == other.class
            && (shape(self), switches(self)) == (shape(other), switches(other))
            && self.first().shape.repeat as usize == ROWS
            && self.products.len() == other.products.len()
            && self.products.iter().zip(&other.products).all(same)
    }

    /// True if both add products of f32 of eight rows and the same B to sums of f32.
    fn is_twin(&self, other: &Chain) -> bool {
        let same = |(a, b): (&Product, &Product)| {
            (a.right, a.k, a.left_stride) == (b.right, b.k, b.left_stride)
        };
        let kind = |chain: &Chain| {
            let Operation { shape, src0, offset, no_mask, .. } = *chain.first();
            let source = src0.map_or(Acc::F, |_| shape.src0);
            (shape.lanes, shape.repeat as usize, (shape.dst, source), offset, no_mask)
        };
        let (_, rows, sums, ..) = kind(self);
        (self.class, other.class) == (Class::Singles, Class::Singles)
            && (rows, sums) == (ROWS, (Acc::F, Acc::F))
            && kind(self) == kind(other)
            && self.products.len() == other.products.len()
            && self.products.iter().zip(&other.products).all(same)
    }

    /// The unpacked blocks of floats.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (u32, u32)> {
        self.products.iter().filter_map(|product| product.blocks)
    }

    /// Takes those chains that can be computed two by two because they have the same B.
    pub(super) fn twins(chains: &mut Vec<Chain>) -> Vec<[Chain; 2]> {
        take_two(chains, Chain::is_twin)
    }

    /// Runs two such chains.
    ///
    /// # Errors
    /// As [`Chain::run`].
    pub(super) fn run_twins(
        twins: &[Chain; 2],
        file: &mut [u8],
        context: Context<'_>,
    ) -> Result<()> {
        #[cfg(target_arch = "x86_64")]
        if context.fused {
            let ends = twins.each_ref().map(|chain| Ends::of(chain.first(), context));
            let products = twins.each_ref().map(|chain| &chain.products[..]);
            match twins[0].first().shape.lanes {
                8 => floats::twins::<8>(file, ends, products, context),
                _ => floats::twins::<16>(file, ends, products, context),
            }
            return Ok(());
        }
        twins.iter().try_for_each(|chain| chain.run(file, context))
    }

    /// Runs the products on the registers of a thread.
    ///
    /// # Errors
    /// None: operands lie in the registers.
    pub(super) fn run(&self, file: &mut [u8], context: Context<'_>) -> Result<()> {
        match self.first().shape.lanes {
            8 => self.run_lanes::<8>(file, context),
            _ => self.run_lanes::<16>(file, context),
        }
    }

    fn run_lanes<const N: usize>(&self, file: &mut [u8], context: Context<'_>) -> Result<()> {
        match self.class {
            Class::Dots { unsigned_left, .. } => {
                let place = (Ends::of(self.first(), context), self.first().shape.repeat as usize);
                dots::<N>(file, place, &self.products, unsigned_left, context.blocks);
                Ok(())
            }
            Class::Words => {
                self.with_sums::<N, i32>(self.first(), file, context, |sums| {
                    let step = |sum: i32, a: i32, b: i32| sum.wrapping_add(a.wrapping_mul(b));
                    let products = &self.products[..];
                    at_level(context.level, Rows { sums, products, blocks: context.blocks, step });
                    true
                });
                Ok(())
            }
            Class::Singles if !self.first().shape.dst.is_half() => {
                self.singles::<N>(0..self.products.len(), file, context);
                Ok(())
            }
            Class::Doubles if !self.first().shape.dst.is_half() => {
                self.doubles::<N>(0..self.products.len(), file, context)
            }
            // Sums are rounded to 16 bits after every product.
            _ => (0..self.products.len()).try_for_each(|index| {
                if self.class == Class::Doubles {
                    return self.doubles::<N>(index..index + 1, file, context);
                }
                self.singles::<N>(index..index + 1, file, context);
                Ok(())
            }),
        }
    }

    fn singles<const N: usize>(&self, part: Range<usize>, file: &mut [u8], context: Context<'_>) {
        let (first, products) = (&self.operations[part.start], &self.products[part]);
        #[cfg(target_arch = "x86_64")]
        if context.level == Level::Avx512 && !context.rules.ftz {
            return self.vectors::<N>(first, products, file, context);
        }
        self.with_sums::<N, f32>(first, file, context, |sums| {
            floats::singles(sums, products, context);
            true
        });
    }

    /// Sums of f32 are read and written where they are; those of 16 bits are f32 meanwhile.
    #[cfg(target_arch = "x86_64")]
    fn vectors<const N: usize>(
        &self,
        first: &Operation,
        products: &[Product],
        file: &mut [u8],
        context: Context<'_>,
    ) {
        let rows = first.shape.repeat as usize;
        let source = first.src0.map_or(Acc::F, |_| first.shape.src0);
        if (first.shape.dst, source) == (Acc::F, Acc::F) {
            let ends = Ends::of(first, context);
            return floats::vectors::<N>(file, (ends, rows), products, context);
        }
        self.with_sums::<N, f32>(first, file, context, |sums| {
            let ends = Ends { from: Some(0), to: 0, enabled: u32::MAX };
            let file = bytemuck::cast_slice_mut(sums.as_flattened_mut());
            floats::vectors::<N>(file, (ends, rows), products, context);
            true
        });
    }

    /// Products whose stages f64 holds exactly run together; if there are others, each product runs
    /// alone, those in the executor.
    fn doubles<const N: usize>(
        &self,
        part: Range<usize>,
        file: &mut [u8],
        context: Context<'_>,
    ) -> Result<()> {
        let (first, products) = (&self.operations[part.start], &self.products[part.clone()]);
        let done = self.with_sums::<N, f32>(first, file, context, |sums| {
            floats::doubles(sums, products, context)
        });
        if done {
            return Ok(());
        }
        for (operation, product) in self.operations[part].iter().zip(products) {
            let products = std::slice::from_ref(product);
            let done = self.with_sums::<N, f32>(operation, file, context, |sums| {
                floats::doubles(sums, products, context)
            });
            if !done {
                let step = Step::Multiply(*operation);
                step.run_alone(file, context.dispatch_mask, context.rules)?;
            }
        }
        Ok(())
    }

    /// Lets sums grow that are src0 of the first operation at the beginning, and then dst. The work
    /// says if it is done: if not, nothing is written.
    fn with_sums<const N: usize, T: Sum>(
        &self,
        first: &Operation,
        file: &mut [u8],
        context: Context<'_>,
        work: impl FnOnce(&mut [[T; N]]) -> bool,
    ) -> bool {
        let mut sums = Aligned([[T::default(); N]; ROWS]);
        let sums = &mut sums.0[..first.shape.repeat as usize];
        let ftz = context.rules.ftz;
        at_level(context.level, Load { operation: first, file, sums: &mut *sums, ftz });
        let done = work(sums);
        if done {
            let enabled = enabled(context.dispatch_mask, first.offset, first.no_mask);
            at_level(context.level, Store { operation: first, file, sums, enabled });
        }
        done
    }
}

/// Adds products one by one, as `step` says.
pub(super) struct Rows<'a, const N: usize, T, F> {
    pub(super) sums: &'a mut [[T; N]],
    pub(super) products: &'a [Product],
    pub(super) blocks: &'a Blocks,
    pub(super) step: F,
}

impl<const N: usize, T: bytemuck::Pod, F: Fn(T, T, T) -> T> Loop for Rows<'_, N, T, F> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        for product in self.products {
            let left = self.blocks.elements::<T>(product.left);
            let right = self.blocks.elements::<T>(product.right).as_chunks::<N>().0;
            let right = &right[..product.columns()];
            for (row, sums) in self.sums.iter_mut().enumerate() {
                let left = &left[row * product.stride()..][..product.columns()];
                let mut own = *sums;
                for (&a, b) in left.iter().zip(right) {
                    for (sum, &b) in own.iter_mut().zip(b) {
                        *sum = (self.step)(*sum, a, b);
                    }
                }
                *sums = own;
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn dots<const N: usize>(
    file: &mut [u8],
    place: (Ends, usize),
    products: &[Product],
    unsigned_left: bool,
    blocks: &Blocks,
) {
    match N {
        8 => vectors::narrow::dots(file, place, products, unsigned_left, blocks),
        _ => vectors::wide::dots(file, place, products, unsigned_left, blocks),
    }
}

/// For every lane 128 times the sum of the bytes of B; only where there are dot products.
#[cfg(target_arch = "x86_64")]
pub(super) fn column_sums(bytes: &[u8], lanes: usize, signed: bool) -> [u32; 16] {
    match lanes {
        8 => vectors::narrow::column_sums(bytes, signed),
        _ => vectors::wide::column_sums(bytes, signed),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn dots<const N: usize>(_: &mut [u8], _: (Ends, usize), _: &[Product], _: bool, _: &Blocks) {
    unreachable!("no plan has dot products here");
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn column_sums(_: &[u8], _: usize, _: bool) -> [u32; 16] {
    unreachable!("no plan has dot products here");
}

/// Explicit bits of the fraction of a float precision.
pub(super) fn fraction_bits(precision: Precision) -> i32 {
    match precision {
        Precision::Bf => 7,
        Precision::Bf8 => 2,
        Precision::Hf8 => 3,
        Precision::E2m1 => 1,
        _ => 10,
    }
}

/// Products that are added before a sum is rounded.
pub(super) fn stage(product: &Product, context: Context<'_>) -> usize {
    match context.rules.model {
        Model::Exact => product.columns(),
        Model::Stage => context.shape.ops() as usize,
        Model::Seq | Model::Fma => 1,
    }
}
