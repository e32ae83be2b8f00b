//! Values of a compiled program lie where its interface says, and lines read them as what they are.
//!
//! A line that writes to L2 writes a part of the value that is complete there next. When a value is
//! said to be complete, all of its bytes were written as parts of it. What a line reads is one
//! value, in the layout of that value, at the place that belongs to what the line writes; what it
//! stores is the output of that name. Values that the interface does not name are not judged.
//!
//! Numbers of single precision, and what else their lines write, lie between two values: they are
//! read in the layout in which they were written, before the next value is complete and not after,
//! and belong to the same positions as what is made of them.
//!
//! Which of several operands of one form a line takes is in none of this: numbers of one function,
//! heads of a product, axes of a transposition. For these the interface says from what a value is
//! made, as a number: the sum over all lines that write parts of it, of what each does to which
//! parts of which values. Where those lie does not matter, nor in which order lines run.

use crate::ports::{NamedTensor, Taps};
use crate::regions::{Region, RegionTable};
use crate::replay::Node;
use crate::verify::Subject;
use crate::work::{
    Access, Conv, Copy, Extents, Memory, Place, Vector, VectorKind, WeightDest, WeightSource,
    Weights, Work, accesses, element_bytes, pitch, product, wide,
};
use quincunx_diag::{Diagnostic, Place as At};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::num::Saturating;

/// Bytes with a label of their own.
const WORD: i64 = 8;

/// Bytes that are no part of a value: unknown, weights, and operands of products that become
/// weights.
const NOTHING: u32 = 0;
const WEIGHTS: u32 = 1;
const OPERANDS: u32 = 2;
const VALUES: u32 = 3;
/// In L2, weights and operands of products have the number of the line that wrote them from here on.
const WEIGHTS_OF: u32 = 1 << 29;
const OPERANDS_OF: u32 = 1 << 30;
/// Numbers between two values: from here on, the number of the line that wrote them.
const BETWEEN: u32 = 1 << 31;

/// What lies in L2: images, or a tile of them.
#[derive(Clone, Copy)]
struct Tensor {
    address: i64,
    extents: Extents,
    bytes: u32,
}

impl Tensor {
    fn pixel(&self) -> Saturating<i64> {
        wide(pitch(self.extents[0], self.bytes))
    }

    fn row(&self) -> Saturating<i64> {
        self.pixel() * wide(self.extents[2])
    }

    fn image(&self) -> Saturating<i64> {
        self.row() * wide(self.extents[1])
    }

    /// Image, channel, row and column of a byte; `None` before the first, and within an element.
    fn place(&self, address: i64) -> Option<[i64; 4]> {
        let rest = wide(address) - wide(self.address);
        let [image, row, pixel] = [self.image().0, self.row().0, self.pixel().0];
        let channel = rest.0.checked_rem(pixel)?;
        let aligned = rest.0 >= 0 && channel.checked_rem(self.bytes.into())? == 0;
        let place = [
            rest.0.checked_div(image)?,
            channel.checked_div(self.bytes.into())?,
            rest.0.checked_rem(image)?.checked_div(row)?,
            rest.0.checked_rem(row)?.checked_div(pixel)?,
        ];
        aligned.then_some(place)
    }
}

/// Images of a value that lie together until the next ones come.
struct Held<'a> {
    names: Vec<&'a str>,
    value: usize,
    core: usize,
    tensor: Tensor,
    /// Extents under which it is read: names of one value may have different ones.
    layouts: Vec<Extents>,
    /// Image of the batch with which they begin, and how many they are.
    images: (i64, i64),
    /// Images that are complete together: how many, and the position in the order of execution
    /// after which they are.
    parts: Vec<(i64, usize)>,
}

impl Held<'_> {
    /// A byte and a tile (images, channels, rows, columns) from there on as a place in the value in
    /// a layout.
    fn place(&self, tensor: &Tensor, address: i64, tile: [u32; 4]) -> Option<[i64; 4]> {
        let mut place = tensor.place(address)?;
        let [c, h, w] = tensor.extents.map(i64::from);
        let ends = place.iter().zip(tile).map(|(&at, extent)| (wide(at) + wide(extent)).0);
        let inside = ends.zip([self.images.1, c, h, w]).all(|(end, extent)| end <= extent);
        place[0] = (wide(place[0]) + wide(self.images.0)).0;
        inside.then_some(place)
    }

    /// The first layout that a tensor has, and where it begins with a tile.
    fn find(&self, other: &Tensor, tile: [u32; 4]) -> Option<(Tensor, [i64; 4])> {
        let layouts = self.layouts.iter().map(|&extents| Tensor { extents, ..self.tensor });
        layouts
            .filter(|layout| layout.bytes == other.bytes && alike(layout, other, tile[0]))
            .find_map(|layout| Some((layout, self.place(&layout, other.address, tile)?)))
    }

    /// The position after which the image of a place is complete.
    fn complete(&self, place: [i64; 4]) -> Option<usize> {
        let mut end = Saturating(self.images.0);
        let part = self.parts.iter().find(|(images, _)| {
            end += *images;
            place[0] < end.0
        });
        part.map(|&(_, position)| position)
    }
}

/// An operand of a line.
struct Operand {
    tensor: Tensor,
    /// Images, channels, rows and columns that belong to it.
    tile: [u32; 4],
    /// First row and column of the first window, strides, and the first channel for an output
    /// channel: numerator and denominator.
    start: [i32; 2],
    stride: [u32; 2],
    channel: (u32, u32),
}

/// What is wrong with the values of a program, the first problem of them.
pub(super) fn check(
    subject: &Subject<'_>,
    order: &[Node],
    tensors: &[NamedTensor],
    taps: &Taps,
) -> Option<Diagnostic> {
    let made = match follow(subject, order, tensors, taps)? {
        Ok(made) => made,
        Err(problem) => return Some(problem),
    };
    let mut named = taps.values().zip(made).filter_map(|((name, tap), made)| {
        let known = tap.made.zip(made)?;
        Some((name, known))
    });
    let (name, _) = named.find(|(_, (before, now))| before != now)?;
    let what = format!("the value {name:?} is not made of what it was when it was compiled");
    Some(Diagnostic::invalid("Q4043", what).help(AGAIN))
}

/// From what every value is made; `None` for another name of one, and where that is not followed.
pub(super) fn made(
    subject: &Subject<'_>,
    order: &[Node],
    tensors: &[NamedTensor],
    taps: &Taps,
) -> Vec<Option<u64>> {
    follow(subject, order, tensors, taps).and_then(Result::ok).unwrap_or_default()
}

const AGAIN: &str = "the program is not what was compiled: compile it again";

/// Follows values through the lines: from what each is made, or what is wrong. `None` where regions
/// divide L2.
fn follow(
    subject: &Subject<'_>,
    order: &[Node],
    tensors: &[NamedTensor],
    taps: &Taps,
) -> Option<Result<Vec<Option<u64>>, Diagnostic>> {
    let words = usize::try_from(i64::from(subject.arch.l2_bytes).checked_div(WORD)?).ok()?;
    let held = held(taps, order);
    let mut flow = Flow {
        completed: completed(&held),
        made: vec![None; taps.values().count()],
        parts: Vec::new(),
        blocks: BTreeMap::new(),
        held,
        labels: vec![vec![NOTHING; words]; subject.programs.len()],
        tensors,
        stored: BTreeMap::new(),
        buffered: BTreeMap::new(),
        unit: subject.arch.wl0_unit,
        pads: BTreeMap::new(),
        between: vec![Between::default(); subject.programs.len()],
        ends: vec![Vec::new(); subject.programs.len()],
    };
    for &position in flow.completed.keys() {
        let Some(node) = order.get(position) else { continue };
        if matches!(subject.work[node.core][node.line], Ok(Work::Vector(_))) {
            flow.ends[node.core].push(position);
        }
    }
    for (position, &node) in order.iter().enumerate() {
        let Ok(work) = &subject.work[node.core][node.line] else { continue };
        if let Work::Regions(cuts) = work {
            let mut table = RegionTable::default();
            table.set(cuts);
            let whole = |(number, region): (u8, Region)| {
                number == 0 && region == Region::whole(subject.arch)
            };
            // Rings divide values in ways that are not followed here.
            if !table.iter().all(whole) {
                return None;
            }
        }
        let list = accesses(work, subject.arch);
        if let Err(what) = flow.line(node.core, position, work, &list) {
            let problem = Diagnostic::invalid("Q4043", what).at(At::Line(node.number()));
            return Some(Err(problem.help(AGAIN)));
        }
    }
    let whole = |tensor: &&NamedTensor| {
        let all = product(tensor.extents.map(u64::from));
        !tensor.output || flow.stored.get(&*tensor.name).is_none_or(|&stored| stored == all)
    };
    let Some(part) = tensors.iter().find(|tensor| !whole(tensor)) else {
        return Some(Ok(flow.made));
    };
    let what = format!("not all of the output {:?} is stored, or some of it twice", part.name);
    Some(Err(Diagnostic::invalid("Q4043", what)))
}

/// The values of an interface; names of one value are together, and so are parts that follow one
/// another in L2.
fn held<'a>(taps: &'a Taps, order: &[Node]) -> Vec<Held<'a>> {
    let positions: BTreeMap<Node, usize> =
        order.iter().enumerate().map(|(position, &node)| (node, position)).collect();
    let mut held = Vec::<Held<'a>>::new();
    let mut known: BTreeMap<_, usize> = BTreeMap::new();
    for (value, (name, tap)) in taps.values().enumerate() {
        let [c, h, w] = tap.extents;
        let columns = w.checked_div(tap.fold).unwrap_or(w);
        let extents = [c.saturating_mul(tap.fold), h, columns];
        let (mut first, mut buffers) = (0_i64, Vec::<Held<'a>>::new());
        for part in &tap.parts {
            let images = i64::try_from(part.images).unwrap_or(i64::MAX);
            let node = Node { core: part.core, line: part.line };
            let position = positions.get(&node).copied().unwrap_or(usize::MAX);
            let address = i64::try_from(part.address).unwrap_or(i64::MAX);
            let tensor = Tensor { address, extents, bytes: element_bytes(tap.format) };
            let follows = |last: &&mut Held<'a>| {
                let end = wide(last.tensor.address) + tensor.image() * wide(last.images.1);
                last.core == part.core && end.0 == address
            };
            match buffers.last_mut().filter(follows) {
                Some(last) => {
                    last.images.1 = last.images.1.saturating_add(images);
                    last.parts.push((images, position));
                }
                None => buffers.push(Held {
                    names: vec![name],
                    value,
                    core: part.core,
                    tensor,
                    layouts: vec![extents, in_a_column(extents)],
                    images: (first, images),
                    parts: vec![(images, position)],
                }),
            }
            first = first.saturating_add(images);
        }
        for buffer in buffers {
            let key = (buffer.core, buffer.tensor.address, buffer.parts.clone());
            match known.entry(key) {
                Entry::Occupied(other) => {
                    let other = &mut held[*other.get()];
                    other.names.push(name);
                    other.layouts.extend([extents, in_a_column(extents)]);
                }
                Entry::Vacant(place) => {
                    place.insert(held.len());
                    held.push(buffer);
                }
            }
        }
    }
    held
}

/// What is complete when.
fn completed(held: &[Held<'_>]) -> BTreeMap<usize, Vec<(usize, i64, i64)>> {
    let mut completed: BTreeMap<usize, Vec<(usize, i64, i64)>> = BTreeMap::new();
    for (index, held) in held.iter().enumerate() {
        let mut first = 0_i64;
        for &(images, position) in &held.parts {
            completed.entry(position).or_default().push((index, first, images));
            first = first.saturating_add(images);
        }
    }
    completed
}

struct Flow<'a> {
    held: Vec<Held<'a>>,
    /// Value, first image and number of images that are complete after a position.
    completed: BTreeMap<usize, Vec<(usize, i64, i64)>>,
    /// Of every word of every core.
    labels: Vec<Vec<u32>>,
    tensors: &'a [NamedTensor],
    /// Elements stored, by output.
    stored: BTreeMap<&'a str, u64>,
    /// Blocks of the weight buffer, by core and first unit: from what they are made, and whether they
    /// are operands of products.
    buffered: BTreeMap<(usize, u32), (u64, bool)>,
    /// Bytes of such a unit.
    unit: u32,
    /// Blocks of weights and operands in L2, by label: from what they are made, and the first byte.
    blocks: BTreeMap<u32, (u64, i64)>,
    /// From what every value is made.
    made: Vec<Option<u64>>,
    /// What the line that is followed reads.
    parts: Vec<u64>,
    /// Rows and columns of padding, by value and operand.
    pads: BTreeMap<(usize, usize), [i64; 2]>,
    /// Of every core, what lies between two values.
    between: Vec<Between>,
    /// Of every core, the positions of vector lines after which a value is complete.
    ends: Vec<Vec<usize>>,
}

/// Numbers between two values of a core.
#[derive(Clone, Default)]
struct Between {
    /// Lines whose results are not read yet.
    unread: BTreeSet<u32>,
    /// What every label is.
    written: BTreeMap<u32, Numbers>,
    /// What the numbers in scalar registers are of, and from what they are made.
    scalars: [(Origin, u64); 3],
}

/// Image and position in it that numbers belong to, if a value with a name says so.
type Origin = Option<(i64, i64)>;

/// The value of which a line writes a part, and where in it that begins.
type Target = Option<(usize, [i64; 4])>;

/// What a line between two values wrote: channels and positions of a tensor.
#[derive(Clone, Copy)]
struct Numbers {
    tensor: Tensor,
    channels: u32,
    positions: i64,
    origin: Origin,
    /// From what they are made.
    made: u64,
}

impl Numbers {
    /// What a tensor belongs to that is read as these numbers, as one of several parts, or as some
    /// positions of them; `None` for one that is neither.
    fn seen_as(&self, tensor: &Tensor) -> Option<Origin> {
        let ([c, h, w], pixel) = (tensor.extents, tensor.pixel());
        let offset = wide(tensor.address) - wide(self.tensor.address);
        let alike = (c, tensor.bytes) == (self.channels, self.tensor.bytes)
            && pixel == self.tensor.pixel()
            && (w == self.tensor.extents[2] || 1 == (wide(h) * wide(w)).0 || self.positions == 1);
        let first = Saturating(offset.0.checked_div(pixel.0)?);
        let last = first + wide(h) * wide(w);
        let end = self.positions;
        let within = first.0 >= 0 && last.0 <= end || first.0 <= 0 && last.0 >= end;
        let fits = alike && within && offset == first * pixel;
        fits.then(|| self.origin.map(|(image, at)| (image, (Saturating(at) + first).0)))
    }
}

/// Image and position of a place whose channel is the first one.
fn position_of(tensor: &Tensor, [image, channel, y, x]: [i64; 4]) -> Origin {
    let position = wide(y) * wide(tensor.extents[2]) + wide(x);
    Some((image, if channel == 0 { position.0 } else { -1 }))
}

/// It computes in single precision.
fn is_single(work: &Work) -> bool {
    matches!(work, Work::Vector(vector) if vector.config.single)
}

/// The scalar registers that a vector instruction reads, from 0.
fn scalars(vector: &Vector) -> impl Iterator<Item = usize> {
    let config = &vector.config;
    let sum = (vector.modules & 2 != 0 && !vector.has_second()).then_some(config.sum0.1);
    let scale = (vector.modules & 4 != 0).then_some([config.scalar.1, config.scalar.2]);
    let registers = sum.into_iter().chain(scale.into_iter().flatten());
    registers.filter_map(|scalar| usize::from(scalar.register).checked_sub(1)).filter(|&at| at < 3)
}

/// The tensors that a vector instruction reads position by position.
fn tensors(vector: &Vector) -> Vec<Tensor> {
    let second = vector.has_second().then_some((vector.second, vector.config.second_axes));
    let list = [(vector.input, vector.config.first_axes)].into_iter().chain(second);
    let tensors =
        list.map(|(place, axes)| tensor(place, vector.masked(axes), vector.input_bytes()));
    match vector.kind {
        VectorKind::Single => tensors.collect::<Option<_>>().unwrap_or_default(),
        VectorKind::Pool | VectorKind::Enlarge => Vec::new(),
    }
}

type Outcome<T> = Result<T, String>;

impl<'a> Flow<'a> {
    fn line(&mut self, core: usize, position: usize, work: &Work, list: &[Access]) -> Outcome<()> {
        let target = self.part(core, position, work)?;
        self.parts.clear();
        let origin = self.read(core, work, target, list)?;
        if let (Work::Copy(copy), Some((index, place))) = (work, target) {
            self.load(index, copy, linear(self.held[index].tensor, place))?;
        }
        if let Work::Weights(weights) = work {
            self.weights((core, position), weights, list)?;
        }
        let made = self.make(core, work, target);
        if let Work::Vector(Vector { scalar_result: register @ 1..=3, .. }) = work {
            let scalar = (origin, made);
            self.between[core].scalars[usize::from(*register).saturating_sub(1)] = scalar;
        }
        let label = self.written((core, position), (work, target), (origin, made));
        for access in list.iter().filter(|access| access.write) {
            let core = match access.memory {
                Memory::L2(_) => core,
                Memory::Remote(core, _) | Memory::RemoteWhole(core) => core.into(),
                Memory::Wl0 | Memory::Dram(_) => continue,
            };
            self.words(core, access, |word| *word = label);
        }
        self.complete(position)?;
        self.all_read(core, position)
    }

    /// What a line reads, and which position numbers between values are of that it takes or writes.
    fn read(
        &mut self,
        core: usize,
        work: &Work,
        target: Target,
        list: &[Access],
    ) -> Outcome<Origin> {
        let reads = list.iter().filter(|access| !access.write && access.memory == Memory::L2(0));
        let mut origins = match work {
            Work::Vector(vector) => self.origins(core, vector, reads.clone())?,
            _ => Vec::new(),
        };
        let comes_from_between = !origins.is_empty();
        for (number, (operand, access)) in operands(work).iter().zip(reads).enumerate() {
            let label = self.label(core, access)?;
            let Some(index) = label.checked_sub(VALUES) else {
                if label == WEIGHTS {
                    return Err("weights are read as numbers of an image".to_owned());
                }
                continue;
            };
            let (layout, source) = self.place_of(index as usize, operand)?;
            let value = self.held[index as usize].value as i64;
            self.parts.push(digest(0, [&[value][..], &source].concat()));
            match target {
                Some(target) => {
                    let is_free = match work {
                        Work::Conv(conv) => self.found(core, conv).is_some_and(|found| found.1),
                        _ => matches!(work, Work::Reorder(_)),
                    };
                    self.belongs(target, (number, is_free), operand, source)?;
                }
                None if is_single(work) => origins.push(position_of(&layout, source)),
                None => {}
            }
            if let Work::Copy(copy) = work {
                self.store(index as usize, copy, linear(layout, source))?;
            }
        }
        if let Some((index, place)) = target.filter(|_| comes_from_between) {
            origins.push(position_of(&self.held[index].tensor, place));
        }
        let mut known = origins.iter().flatten();
        let origin = known.next().copied();
        match known.any(|&other| Some(other) != origin) {
            true => Err("what a value is made of are numbers of several positions".to_owned()),
            false => Ok(origin),
        }
    }

    /// From what a line makes what it writes; added to what a value is made from.
    fn make(&mut self, core: usize, work: &Work, target: Target) -> u64 {
        if let Work::Conv(conv) = work {
            self.parts.extend(self.found(core, conv).map(|found| found.0));
        }
        let Some(doing) = doing(work) else { return 0 };
        let made = self.parts.iter().fold(doing, |sum, &part| digest(sum, [part as i64]));
        if let Some((index, place)) = target
            && let Some(sum) = self.made.get_mut(self.held[index].value)
        {
            *sum = Some(sum.unwrap_or(0).wrapping_add(digest(made, place)));
        }
        made
    }

    /// The label of what a line writes.
    fn written(
        &mut self,
        (core, position): (usize, usize),
        (work, target): (&Work, Target),
        (origin, made): (Origin, u64),
    ) -> u32 {
        let number = position as u32;
        let label = match (work, target) {
            (Work::Weights(_), _) => WEIGHTS_OF.saturating_add(number),
            (Work::Reorder(reorder), None) => {
                let label = OPERANDS_OF.saturating_add(number);
                self.blocks.insert(label, (made, reorder.places[1].address));
                label
            }
            (Work::Copy(copy), _) if copy.load && copy.bas != 0 => OPERANDS,
            (_, Some((index, _))) => VALUES.saturating_add(index as u32),
            (_, None) if is_single(work) => BETWEEN.saturating_add(number),
            (_, None) => NOTHING,
        };
        if let (true, Some((tensor, [_, channels, h, w]))) = (label >= BETWEEN, result(work)) {
            let positions = (wide(h) * wide(w)).0;
            let between = &mut self.between[core];
            between.unread.insert(label);
            let numbers = Numbers { tensor, channels, positions, origin, made };
            between.written.insert(label, numbers);
        }
        label
    }

    /// The value that a line writes a part of, and where in it that begins.
    fn part(&self, core: usize, position: usize, work: &Work) -> Outcome<Target> {
        let found = result(work).and_then(|(tensor, tile)| {
            let at = (core, position, matches!(work, Work::Vector(_)));
            let (index, place) = self.target(at, tensor, tile)?;
            Some((index, place, tensor, tile))
        });
        let Some((index, place, tensor, [_, channels, ..])) = found else { return Ok(None) };
        // Channels of one word are written together.
        let end = wide(place[1]) + wide(channels);
        let rest = (end * wide(tensor.bytes)).0.checked_rem(WORD);
        match end == wide(tensor.extents[0]) || rest == Some(0) {
            true => Ok(Some((index, place))),
            false => Err("some channels of a value are left out".to_owned()),
        }
    }

    /// What the numbers between values belong to that a vector instruction takes.
    fn origins<'l>(
        &mut self,
        core: usize,
        vector: &Vector,
        reads: impl Iterator<Item = &'l Access>,
    ) -> Outcome<Vec<Origin>> {
        let mut origins = Vec::new();
        for (number, (tensor, access)) in tensors(vector).into_iter().zip(reads).enumerate() {
            let found = self.read_between(core, tensor, access)?;
            let of_channels = number == 1 && vector.config.second_axes == 1;
            if found.is_none() && vector.config.single && tensor.bytes == 4 && !of_channels {
                return Err("numbers are read that no line of the value wrote".to_owned());
            }
            origins.extend(found);
        }
        for index in scalars(vector) {
            let (origin, made) = self.between[core].scalars[index];
            origins.push(origin);
            self.parts.push(made);
        }
        Ok(origins)
    }

    /// When a vector line completes a value, all numbers before it were read.
    fn all_read(&mut self, core: usize, position: usize) -> Outcome<()> {
        let is_end = self.ends[core].binary_search(&position).is_ok();
        let between = &mut self.between[core];
        if is_end {
            between.written.clear();
        }
        match is_end && !between.unread.is_empty() {
            true => Err("numbers that a value comes from are not read".to_owned()),
            false => Ok(()),
        }
    }

    /// What numbers between values belong to that a tensor is made of; `None` for other tensors.
    fn read_between(
        &mut self,
        core: usize,
        tensor: Tensor,
        access: &Access,
    ) -> Outcome<Option<Origin>> {
        let (mut labels, mut others) = (BTreeSet::new(), false);
        self.words(core, access, |word| {
            if *word >= BETWEEN {
                labels.insert(*word);
            } else {
                others = true;
            }
        });
        if labels.is_empty() {
            return Ok(None);
        }
        let between = &mut self.between[core];
        between.unread.retain(|line| !labels.contains(line));
        let part = |sum: u64, label: &u32| match between.written.get(label) {
            Some(numbers) => {
                let offset = wide(tensor.address) - wide(numbers.tensor.address);
                sum.wrapping_add(digest(numbers.made, [offset.0]))
            }
            None => sum,
        };
        self.parts.push(labels.iter().fold(0, part));
        let mut found = labels.iter().map(|label| between.written.get(label)?.seen_as(&tensor));
        let origin = found.next().flatten().filter(|_| !others);
        match origin.filter(|origin| found.all(|other| other == Some(*origin))) {
            Some(origin) => Ok(Some(origin)),
            None => Err("what is read is not there any more, or is something else".to_owned()),
        }
    }

    /// A copy of weights: from L2, of what is weights there.
    fn weights(
        &mut self,
        (core, position): (usize, usize),
        weights: &Weights,
        list: &[Access],
    ) -> Outcome<()> {
        let (mut made, mut is_operand) = (0, false);
        let read = list.iter().find(|access| !access.write);
        let from = match weights.source {
            WeightSource::L2(place) => Some((core, place.address)),
            WeightSource::Remote { core, address } => Some((core.into(), address.into())),
            WeightSource::Dram { bas, address } => {
                made = digest(bas.into(), [address.into()]);
                None
            }
        };
        if let (Some((owner, first)), Some(read)) = (from, read) {
            let label = self.label(owner, read)?;
            if owner == core && !matches!(label, WEIGHTS | OPERANDS) {
                return Err("what is loaded as weights is none".to_owned());
            }
            is_operand = label == OPERANDS;
            let mut labels = BTreeSet::new();
            self.words(owner, read, |word| labels.extend([*word]));
            let part = |sum: u64, &(made, start): &(u64, i64)| {
                sum.wrapping_add(digest(made, [(wide(first) - wide(start)).0]))
            };
            made = labels.iter().filter_map(|label| self.blocks.get(label)).fold(0, part);
        }
        let made = digest(made, [i64::from(weights.channels)]);
        match weights.dest {
            WeightDest::L2(place) => {
                let label = WEIGHTS_OF.saturating_add(position as u32);
                self.blocks.insert(label, (made, place.address));
            }
            WeightDest::Wl0(first) => {
                let units = weights.buffer_bytes().div_ceil(self.unit.into());
                let end = first.saturating_add(u32::try_from(units).unwrap_or(u32::MAX));
                let inside: Vec<(usize, u32)> =
                    self.buffered.range((core, first)..(core, end)).map(|(&at, _)| at).collect();
                for at in inside {
                    self.buffered.remove(&at);
                }
                self.buffered.insert((core, first), (made, is_operand));
            }
        }
        Ok(())
    }

    /// From what the weights of a convolution are made, and whether they are an operand of a product.
    fn found(&self, core: usize, conv: &Conv) -> Option<(u64, bool)> {
        let (&(_, first), &(made, is_operand)) =
            self.buffered.range((core, 0)..=(core, conv.weights)).next_back()?;
        Some((digest(made, [(wide(conv.weights) - wide(first)).0]), is_operand))
    }

    /// The value that a tile is a part of, and where in it: of those with its layout, the one that is
    /// complete next; of vector lines the one that such a line completes next.
    fn target(
        &self,
        (core, now, vector): (usize, usize, bool),
        tensor: Tensor,
        tile: [u32; 4],
    ) -> Option<(usize, [i64; 4])> {
        let ends = &self.ends[core];
        let end = ends.get(ends.partition_point(|&end| end < now)).copied();
        let complete = |(index, held): (usize, &Held<'_>)| {
            let same = held.core == core && tensor.address >= held.tensor.address;
            let (_, place) = same.then(|| held.find(&tensor, tile)).flatten()?;
            let is_next = |complete: &usize| match vector {
                true => Some(*complete) == end,
                false => *complete >= now,
            };
            Some((held.complete(place).filter(is_next)?, index, place))
        };
        let next = self.held.iter().enumerate().filter_map(complete).min();
        next.map(|(_, index, place)| (index, place))
    }

    /// The label of all words of an access.
    fn label(&mut self, core: usize, access: &Access) -> Outcome<u32> {
        let (mut label, mut mixed) = (None, false);
        // Lines between values are checked by themselves.
        self.words(core, access, |word| {
            let word = match *word {
                BETWEEN.. => NOTHING,
                OPERANDS_OF.. => OPERANDS,
                WEIGHTS_OF.. => WEIGHTS,
                other => other,
            };
            mixed |= *label.get_or_insert(word) != word;
        });
        match mixed {
            true => Err("what is read is not one value".to_owned()),
            false => Ok(label.unwrap_or(NOTHING)),
        }
    }

    fn words(&mut self, core: usize, access: &Access, mut each: impl FnMut(&mut u32)) {
        let Some(labels) = self.labels.get_mut(core) else { return };
        let pattern = access.pattern.merged();
        for start in pattern.starts() {
            let first = wide(access.span.start) + wide(start);
            let last = first + wide(pattern.bytes) - Saturating(1);
            let word = |at: Saturating<i64>| usize::try_from(at.0.checked_div(WORD)?).ok();
            let words = word(first).zip(word(last));
            let words = words.and_then(|(first, last)| labels.get_mut(first..=last));
            words.into_iter().flatten().for_each(&mut each);
        }
    }

    /// Where in a value an operand begins, and in which layout.
    fn place_of(&self, index: usize, operand: &Operand) -> Outcome<(Tensor, [i64; 4])> {
        let held = &self.held[index];
        held.find(&operand.tensor, operand.tile)
            .ok_or_else(|| format!("the value {:?} is read as something else", held.names[0]))
    }

    /// The place that is read belongs to the one that is written: the same image, the channels, and
    /// rows and columns that lie as far off as for every other part of the result. Where values
    /// are transposed or multiplied with each other, only that they are of the same image.
    fn belongs(
        &mut self,
        (target, place): (usize, [i64; 4]),
        (number, is_free): (usize, bool),
        operand: &Operand,
        source: [i64; 4],
    ) -> Outcome<()> {
        let held = &self.held[target];
        let axis = |axis: usize| {
            let at = wide(source[axis.saturating_add(2)]) + wide(operand.start[axis]);
            (wide(place[axis.saturating_add(2)]) * wide(operand.stride[axis]) - at).0
        };
        let pads = [axis(0), axis(1)];
        let known = *self.pads.entry((held.value, number)).or_insert(pads);
        if is_free && source[0] == place[0] {
            return Ok(());
        }
        let (per, of) = operand.channel;
        let channel = (wide(place[1]) * wide(per)).0.checked_div(of.into()).unwrap_or(0);
        if source[0] != place[0]
            || channel != source[1]
            || known != pads
            || pads.iter().any(|&p| p < 0)
        {
            return Err(of_another_part(held.names[0]));
        }
        Ok(())
    }

    /// What is stored is the output of that name, at the same place.
    fn store(&mut self, index: usize, copy: &Copy, element: i64) -> Outcome<()> {
        let held = &self.held[index];
        let tensors = self.tensors;
        let is_it = |tensor: &&NamedTensor| {
            tensor.output
                && held.names.contains(&&*tensor.name)
                && offset(tensor, copy) == Some(element)
        };
        let mut found = tensors.iter().filter(is_it).peekable();
        if found.peek().is_none() {
            let name = held.names[0];
            return Err(format!("the value {name:?} is stored where it is no output"));
        }
        let [c, h, w] = copy.tile;
        let elements = product([copy.images, c, h, w].map(u64::from));
        for tensor in found {
            let stored = self.stored.entry(&tensor.name).or_default();
            *stored = stored.saturating_add(elements);
        }
        Ok(())
    }

    /// What is loaded comes from the same place of an input.
    fn load(&self, index: usize, copy: &Copy, element: i64) -> Outcome<()> {
        let held = &self.held[index];
        let mut inputs = self.tensors.iter().filter(|tensor| !tensor.output);
        match !copy.load || inputs.any(|tensor| offset(tensor, copy) == Some(element)) {
            true => Ok(()),
            false => Err(format!("the value {:?} is loaded from another place", held.names[0])),
        }
    }

    /// Values that are said to be complete now are.
    fn complete(&self, position: usize) -> Outcome<()> {
        for &(index, first, images) in self.completed.get(&position).into_iter().flatten() {
            let held = &self.held[index];
            let label = VALUES.saturating_add(index as u32);
            let start = wide(held.tensor.address) + held.tensor.image() * wide(first);
            let end = start + held.tensor.image() * wide(images);
            let word = |at: Saturating<i64>| usize::try_from(at.0.checked_div(WORD)?).ok();
            let words = word(start).zip(word(end));
            let words = words.and_then(|(start, end)| self.labels.get(held.core)?.get(start..end));
            if !words.is_some_and(|words| words.iter().all(|&word| word == label)) {
                let name = held.names[0];
                return Err(format!("the value {name:?} is not complete where it should be"));
            }
        }
        Ok(())
    }
}

/// What a line does to what it reads, wherever that lies; `None` for lines that compute nothing.
#[deny(clippy::wildcard_enum_match_arm)]
fn doing(work: &Work) -> Option<u64> {
    let text = match work {
        Work::Vector(vector) => {
            let Vector { kind, config, dequantise, quantise, modules, start, .. } = vector;
            format!("{kind:?} {config:?} {dequantise} {quantise} {modules} {start:?}")
        }
        Work::Reorder(reorder) => {
            format!("{} {:?} {:?}", reorder.order, reorder.tensors, reorder.tile)
        }
        Work::Conv(conv) => format!("{:?} {:?} {:?}", conv.tile, conv.kernel, conv.start),
        Work::Copy(_) | Work::Weights(_) | Work::Remote(_) => return None,
        Work::Begin | Work::End | Work::Regions(_) | Work::Configure => return None,
    };
    Some(digest(0, text.bytes().map(i64::from)))
}

/// FNV-1a of numbers, from that of others on.
fn digest(before: u64, numbers: impl IntoIterator<Item = i64>) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let bytes = numbers.into_iter().flat_map(i64::to_le_bytes);
    bytes.fold(BASIS ^ before, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

/// The positions of an image in one column.
fn in_a_column([c, h, w]: Extents) -> Extents {
    [c, h.saturating_mul(w), 1]
}

fn of_another_part(name: &str) -> String {
    format!("a part of the value {name:?} is made of another part of its operand")
}

/// Two tensors have the same layout; of one image also where one has fewer rows.
fn alike(value: &Tensor, tile: &Tensor, images: u32) -> bool {
    let ([c, h, w], [other_c, other_h, other_w]) = (value.extents, tile.extents);
    (c, w) == (other_c, other_w) && (h == other_h || images == 1 && other_h < h)
}

/// The element of a batch at a place.
fn linear(tensor: Tensor, [n, c, y, x]: [i64; 4]) -> i64 {
    let [channels, rows, columns] = tensor.extents.map(wide);
    (((wide(n) * rows + wide(y)) * columns + wide(x)) * channels + wide(c)).0
}

/// The element of a tensor in DRAM with which a copy begins.
fn offset(tensor: &NamedTensor, copy: &Copy) -> Option<i64> {
    let own = u64::from(element_bytes(NamedTensor::format_of(&tensor.format)?));
    let bytes = u64::from(copy.dram).checked_sub(tensor.address.into())?;
    let elements = product(tensor.extents.map(u64::from));
    let offset = bytes.checked_div(own).filter(|&offset| offset < elements)?;
    let fits = copy.bas == tensor.base && copy.dense && element_bytes(copy.format) == own as u32;
    (fits && bytes.checked_rem(own)? == 0).then_some(offset as i64)
}

fn tensor(place: Place, extents: Extents, bytes: u32) -> Option<Tensor> {
    (place.region == 0).then_some(Tensor { address: place.address, extents, bytes })
}

/// The tensor in L2 that a line writes a tile of: images, channels, rows and columns.
#[deny(clippy::wildcard_enum_match_arm)]
fn result(work: &Work) -> Option<(Tensor, [u32; 4])> {
    let (tensor, tile) = match work {
        Work::Conv(conv) => {
            let [n, k, _, h, w] = conv.tile;
            (tensor(conv.output, conv.dest, element_bytes(conv.formats[2])), [n, k, h, w])
        }
        Work::Vector(vector) => {
            let [c, h, w] = vector.config.tile;
            (tensor(vector.output, vector.config.dest, vector.output_bytes()), [1, c, h, w])
        }
        Work::Copy(copy) if copy.load && copy.bas == 0 => {
            let [c, h, w] = copy.tile;
            let bytes = element_bytes(copy.format);
            (tensor(copy.l2, copy.l2_tensor, bytes), [copy.images, c, h, w])
        }
        // Blocks of operands hold more than numbers of values.
        Work::Reorder(reorder) if reorder.permuted()[0] == reorder.tensors[1][0] => {
            let [c, h, w] = reorder.permuted();
            let bytes = element_bytes(reorder.format);
            (tensor(reorder.places[1], reorder.tensors[1], bytes), [reorder.images, c, h, w])
        }
        Work::Copy(_) | Work::Weights(_) | Work::Reorder(_) | Work::Remote(_) => return None,
        Work::Begin | Work::End | Work::Regions(_) | Work::Configure => return None,
    };
    Some((tensor?, tile))
}

/// What a line reads from L2, in the order of its accesses.
#[deny(clippy::wildcard_enum_match_arm)]
fn operands(work: &Work) -> Vec<Operand> {
    match work {
        Work::Conv(conv) => of_conv(conv).into_iter().collect(),
        Work::Vector(vector) => of_vector(vector),
        Work::Copy(copy) if !copy.load => {
            let [c, h, w] = copy.tile;
            let tensor = tensor(copy.l2, copy.l2_tensor, element_bytes(copy.format));
            let operand = |tensor| Operand {
                tensor,
                tile: [copy.images, c, h, w],
                start: [0; 2],
                stride: [1; 2],
                channel: (1, 1),
            };
            tensor.map(operand).into_iter().collect()
        }
        Work::Reorder(reorder) => {
            let [c, h, w] = reorder.tile;
            let bytes = element_bytes(reorder.format);
            let operand = |tensor| Operand {
                tensor,
                tile: [reorder.images, c, h, w],
                start: [0; 2],
                stride: [1; 2],
                channel: (1, 1),
            };
            tensor(reorder.places[0], reorder.tensors[0], bytes).map(operand).into_iter().collect()
        }
        Work::Copy(_) | Work::Weights(_) | Work::Remote(_) => Vec::new(),
        Work::Begin | Work::End | Work::Regions(_) | Work::Configure => Vec::new(),
    }
}

/// The image whose row and column `start` would lie at `place`.
fn behind(place: Place, start: [i32; 2], extents: Extents, bytes: u32) -> Option<Tensor> {
    let at = tensor(place, extents, bytes)?;
    let before = wide(start[0]) * at.row() + wide(start[1]) * at.pixel();
    Some(Tensor { address: (wide(at.address) - before).0, ..at })
}

fn of_conv(conv: &Conv) -> Option<Operand> {
    let [_, rows, columns] = conv.source;
    // Sums in parts begin at any channel.
    if conv.accumulate.is_some() || conv.insert != [1, 1] {
        return None;
    }
    let per = |channels: u32| channels.checked_div(conv.groups.max(1)).unwrap_or(0);
    let channel = match conv.groups {
        0 | 1 => (0, 1),
        _ => (per(conv.tile[2]), per(conv.tile[1])),
    };
    Some(Operand {
        tensor: behind(conv.input, conv.start, conv.source, element_bytes(conv.formats[0]))?,
        tile: [conv.tile[0], conv.tile[2], rows, columns],
        start: conv.start,
        stride: conv.stride,
        channel,
    })
}

fn of_vector(vector: &Vector) -> Vec<Operand> {
    let (config, bytes) = (&vector.config, vector.input_bytes());
    let [c, h, w] = config.source;
    // Tensors whose channels are joined are taken from their first channel on.
    let channel = if config.tile[0] < config.dest[0] { (0, 1) } else { (1, 1) };
    let operand = |tensor: Tensor, start| Operand {
        tensor,
        tile: [1, c, h, w],
        start,
        stride: config.stride,
        channel,
    };
    let whole = |axes: u8| axes & 7 == 7;
    let list = match vector.kind {
        VectorKind::Pool => vec![(vector.input, vector.start)],
        VectorKind::Single if !whole(config.first_axes) => Vec::new(),
        VectorKind::Single if whole(config.second_axes) => {
            vec![(vector.input, [0; 2]), (vector.second, [0; 2])]
        }
        VectorKind::Single => vec![(vector.input, [0; 2])],
        VectorKind::Enlarge => Vec::new(),
    };
    let operands = list.into_iter().map(|(place, start)| {
        behind(place, start, config.source, bytes).map(|tensor| operand(tensor, start))
    });
    operands.collect::<Option<_>>().unwrap_or_default()
}
