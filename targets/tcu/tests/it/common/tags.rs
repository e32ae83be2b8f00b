//! Executes a program on tags instead of numbers: every vector has the hash of what it was computed
//! of, wherever it lies, and the lanes in which it may be other than zero. Programs whose outputs have
//! equal tags compute equal numbers.
//!
//! Movement keeps tags, sums do not depend on the order of their two operands, and what is multiplied
//! by zeros does not count, so that two compilations agree as long as they add and round in the same
//! order. For formats without a negative zero, up to 64 lanes.

use quincunx_contract::LayerTap;
use quincunx_tcu::arch::DataType;
use quincunx_tcu::isa::{Compute, Inst, SimdOp};
use quincunx_tcu::package::Package;
use quincunx_tcu::program::{Memory, Transfer};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Shapes of inputs by name: `[N, C, …]`.
pub(crate) type Shapes = BTreeMap<String, Vec<usize>>;

/// A vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    tag: u64,
    /// The lanes that may be other than zero.
    lanes: u64,
}

/// What memories hold at the start.
const ZERO: Value = Value { tag: 0, lanes: 0 };
const PAGE: u64 = 1 << 10;

/// The finish of MurmurHash3 on a running hash.
fn mix(hash: u64, word: u64) -> u64 {
    let mut z = hash.rotate_left(29) ^ word.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    z = (z ^ (z >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    z ^ (z >> 33)
}

impl Value {
    fn new(kind: u64, words: impl IntoIterator<Item = u64>, lanes: u64) -> Value {
        match lanes {
            0 => ZERO,
            // Never the tag of zeros.
            _ => Value { tag: words.into_iter().fold(mix(0x5eed, kind), mix) | 1, lanes },
        }
    }

    fn constant(scalars: &[i32]) -> Value {
        let bits = scalars.iter().enumerate().map(|(lane, &s)| u64::from(s != 0) << lane);
        Value::new(1, scalars.iter().map(|&scalar| scalar as u64), bits.sum())
    }

    /// A sum, the same from both sides.
    fn plus(self, other: Value) -> Value {
        match (self, other) {
            (ZERO, value) | (value, ZERO) => value,
            (a, b) => Value::new(3, [a.tag.min(b.tag), a.tag.max(b.tag)], a.lanes | b.lanes),
        }
    }
}

/// The machine with tags for vectors.
pub(crate) struct Tagged<'a> {
    package: &'a Package,
    all: u64,
    local: Vec<Value>,
    acc: Vec<Value>,
    dram: [FxHashMap<u64, Box<[Value]>>; 2],
    registers: [Value; 32],
    /// Rows of the array, the bias first.
    rows: Vec<Value>,
    /// For lanes of what is multiplied: hash and lanes of the result.
    weights: Vec<(u64, Option<Value>)>,
    array: Value,
    /// Products and SIMD operations.
    pub(crate) computed: u64,
}

impl<'a> Tagged<'a> {
    /// The machine when the host has put inputs and constants there.
    pub(crate) fn new(package: &'a Package, shapes: &Shapes) -> Tagged<'a> {
        let arch = package.arch();
        assert!(arch.data_type != DataType::Float32 && arch.lanes() <= 64);
        let all = u64::MAX >> (64 - arch.lanes());
        let mut tagged = Tagged {
            package,
            all,
            local: vec![ZERO; arch.local_depth as usize],
            acc: vec![ZERO; arch.accumulator_depth as usize],
            dram: Default::default(),
            registers: [ZERO; 32],
            // Rows that were not loaded may hold anything.
            rows: vec![Value::new(6, [], all); arch.lanes() + 1],
            weights: Vec::new(),
            array: ZERO,
            computed: 0,
        };
        for part in &package.consts {
            for (address, vector) in (part.base..).zip(part.scalars.chunks(arch.lanes())) {
                tagged.set(Memory::Dram1, address, Value::constant(vector));
            }
        }
        tagged.load_inputs(shapes);
        for address in 0..package.driver().local_consts {
            tagged.local[address as usize] = tagged.get(Memory::Dram1, address);
        }
        tagged
    }

    fn load_inputs(&mut self, shapes: &Shapes) {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for piece in &self.package.model.as_ref().unwrap().inputs {
            let shape = &shapes[&piece.name];
            let channels = if shape.len() > 1 { shape[1] } else { shape[0] };
            let width = self.package.arch().lanes();
            let blocks = channels.div_ceil(width);
            let count = counts.entry(&piece.name).or_default();
            for address in piece.base..piece.base + piece.size {
                let full = width.min(channels - *count % blocks * width);
                let name = piece.name.bytes().map(u64::from);
                let words = name.chain([1 << 32, *count as u64]);
                let value = Value::new(2, words, self.all >> (width - full));
                self.set(Memory::Dram0, address, value);
                *count += 1;
            }
        }
    }

    /// A vector.
    pub(crate) fn get(&self, memory: Memory, address: u64) -> Value {
        match memory {
            Memory::Local => self.local[address as usize],
            Memory::Acc => self.acc[address as usize],
            Memory::Dram0 | Memory::Dram1 => {
                let page = self.dram[memory as usize].get(&(address / PAGE));
                page.map_or(ZERO, |page| page[(address % PAGE) as usize])
            }
        }
    }

    fn set(&mut self, memory: Memory, address: u64, value: Value) {
        match memory {
            Memory::Local => self.local[address as usize] = value,
            Memory::Acc => self.acc[address as usize] = value,
            Memory::Dram0 | Memory::Dram1 => {
                let page = self.dram[memory as usize].entry(address / PAGE);
                let page = page.or_insert_with(|| vec![ZERO; PAGE as usize].into());
                page[(address % PAGE) as usize] = value;
            }
        }
    }

    fn put(&mut self, memory: Memory, address: u64, value: Value, accumulate: bool) {
        let value = match accumulate {
            true => self.get(memory, address).plus(value),
            false => value,
        };
        self.set(memory, address, value);
    }

    /// The rows that count for a vector that has only some lanes, with the lanes of the result;
    /// nothing when it is the bias.
    fn weights(&mut self, lanes: u64) -> Option<Value> {
        if let Some((_, known)) = self.weights.iter().find(|(of, _)| *of == lanes) {
            return *known;
        }
        let rows = (0..64).zip(&self.rows[1..]);
        let rows = rows.filter(|&(lane, row)| lanes >> lane & 1 != 0 && *row != ZERO);
        let words: Vec<u64> = rows.clone().flat_map(|(lane, row)| [lane, row.tag]).collect();
        let reached = rows.fold(self.rows[0].lanes, |reached, (_, row)| reached | row.lanes);
        let words = std::iter::once(self.rows[0].tag).chain(words);
        let counts = words.clone().count() > 1;
        let value = counts.then(|| Value::new(4, words, reached));
        self.weights.push((lanes, value));
        value
    }

    fn product(&mut self, x: Value, acc: u64, accumulate: bool) {
        self.array = match self.weights(x.lanes) {
            Some(weights) => Value::new(5, [weights.tag, x.tag], weights.lanes),
            None => self.rows[0],
        };
        self.computed += 1;
        self.put(Memory::Acc, acc, self.array, accumulate);
    }

    fn push(&mut self, row: Value) {
        self.rows.rotate_right(1);
        self.rows[0] = row;
        self.weights.clear();
    }

    /// Executes one instruction.
    pub(crate) fn step(&mut self, inst: &Inst) {
        match *inst {
            Inst::NoOp { .. } | Inst::Configure { .. } => {}
            Inst::MatMul { accumulate, local, local_stride, acc, acc_stride, size } => {
                for i in 0..=u64::from(size) {
                    let x = self.local[(u64::from(local) + (i << local_stride)) as usize];
                    self.product(x, acc + (i << acc_stride), accumulate);
                }
            }
            Inst::MatMulZeroes { accumulate, acc, acc_stride, size } => {
                for i in 0..=u64::from(size) {
                    self.product(ZERO, acc + (i << acc_stride), accumulate);
                }
            }
            Inst::LoadWeights { local, stride, size } => {
                for i in (0..=u64::from(size)).rev() {
                    self.push(self.local[(u64::from(local) + (i << stride)) as usize]);
                }
            }
            Inst::LoadWeightsZeroes { size } => (0..=size).for_each(|_| self.push(ZERO)),
            Inst::Simd { access, write, read, destination, compute } => {
                let input = if access.reads() { self.acc[read as usize] } else { ZERO };
                let result = match compute.op {
                    SimdOp::NoOp if access.reads() => input,
                    SimdOp::NoOp => self.array,
                    _ => self.compute(compute, input),
                };
                if destination > 0 && compute.op != SimdOp::NoOp {
                    self.registers[usize::from(destination)] = result;
                }
                if access.writes() {
                    self.put(Memory::Acc, write.into(), result, access.accumulates());
                }
            }
            Inst::LoadLut { .. } => panic!("no compiler uses tables"),
            _ => self.transfer(&inst.transfer().unwrap()),
        }
    }

    fn compute(&mut self, Compute { op, left, right }: Compute, input: Value) -> Value {
        self.computed += 1;
        let registers = &self.registers;
        let source = |n: u8| if n == 0 { input } else { registers[usize::from(n)] };
        let (left, right) = (source(left), source(right));
        let sorted = [left.tag.min(right.tag), left.tag.max(right.tag)];
        let (either, both) = (left.lanes | right.lanes, left.lanes & right.lanes);
        let kind = 16 + op as u64;
        match op {
            SimdOp::Zero => ZERO,
            SimdOp::Move => left,
            SimdOp::Add => left.plus(right),
            SimdOp::Max | SimdOp::Min if left == right => left,
            SimdOp::Max | SimdOp::Min | SimdOp::Or => Value::new(kind, sorted, either),
            SimdOp::Multiply | SimdOp::And => Value::new(kind, sorted, both),
            SimdOp::Abs => Value::new(kind, [left.tag], left.lanes),
            SimdOp::Subtract | SimdOp::GreaterThan => {
                Value::new(kind, [left.tag, right.tag], either)
            }
            SimdOp::GreaterThanEqual => Value::new(kind, [left.tag, right.tag], self.all),
            SimdOp::Not | SimdOp::Increment | SimdOp::Decrement => {
                Value::new(kind, [left.tag], self.all)
            }
            SimdOp::NoOp | SimdOp::Lookup => panic!("no compiler uses tables"),
        }
    }

    fn transfer(&mut self, transfer: &Transfer) {
        let (from, to) = match transfer.to_local {
            true => (transfer.other, transfer.local),
            false => (transfer.local, transfer.other),
        };
        for i in 0..from.count {
            let value = self.get(from.memory, from.at(i));
            self.put(to.memory, to.at(i), value, transfer.accumulate);
        }
    }

    /// All outputs by name, in the order of their vectors.
    pub(crate) fn outputs(&self) -> BTreeMap<String, Vec<Value>> {
        let mut outputs: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for piece in &self.package.model.as_ref().unwrap().outputs {
            let vectors =
                (piece.base..piece.base + piece.size).map(|at| self.get(Memory::Dram0, at));
            outputs.entry(piece.name.clone()).or_default().extend(vectors);
        }
        outputs
    }
}

/// The outputs of a program.
pub(crate) fn outputs(package: &Package, shapes: &Shapes) -> BTreeMap<String, Vec<Value>> {
    let mut tagged = Tagged::new(package, shapes);
    package.program.steps.iter().for_each(|step| tagged.step(&step.inst));
    tagged.outputs()
}

/// The outputs, and the values of layers where they are observed.
pub(crate) fn layers(
    package: &Package,
    taps: &[LayerTap],
    shapes: &Shapes,
) -> BTreeMap<String, Vec<Value>> {
    let mut taps: Vec<&LayerTap> = taps.iter().collect();
    taps.sort_by_key(|tap| tap.after);
    let mut tagged = Tagged::new(package, shapes);
    let mut values = BTreeMap::new();
    let mut done = 0;
    for tap in taps {
        package.program.steps[done..tap.after].iter().for_each(|step| tagged.step(&step.inst));
        done = tap.after;
        let mut vectors = Vec::new();
        for (memory, base, step) in tap.place.split(' ').map(column) {
            let shape = &tap.shape;
            let batch = if shape.len() > 1 { shape[0] } else { 1 };
            let positions = batch * shape.iter().skip(2).product::<usize>();
            let column = (0..positions as u64).map(|i| tagged.get(memory, base + i * step));
            vectors.extend(column);
        }
        values.insert(format!("value {}", tap.value), vectors);
    }
    package.program.steps[done..].iter().for_each(|step| tagged.step(&step.inst));
    values.extend(tagged.outputs());
    values
}

/// Memory, base and step of a block of channels, such as `DRAM0(64+2)`.
fn column(text: &str) -> (Memory, u64, u64) {
    let (name, rest) = text.split_once('(').unwrap();
    let memories = [Memory::Dram0, Memory::Local];
    let memory = memories.into_iter().find(|memory| memory.name() == name).unwrap();
    let (base, step) = rest.strip_suffix(')').unwrap().split_once('+').unwrap();
    (memory, base.parse().unwrap(), step.parse().unwrap())
}
