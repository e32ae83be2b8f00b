//! Kernels against their scalar twin, and the twin against the executor's arithmetic.

use super::core::{Core, Machine};
use super::format::{Format, Narrow, Wide, one_by_one};
use super::narrow::{Packed, Tile, products};
use super::op::{Layout, Op, Placed, Run, Write};
use super::products::Products;
use crate::arch::DataType;
use crate::isa::SimdOp;
use crate::simulate::{Flow, fused};
use quincunx_num::Level;
use quincunx_testkit::Random;

/// A scalar with so many bits, of which the lowest `zeros` are zero.
fn scalar(random: &mut Random, bits: u32, zeros: u32) -> i32 {
    (random.next() as i32) >> (32 - bits) >> zeros << zeros
}

struct Case {
    format: Narrow,
    lanes: usize,
    x: Vec<i16>,
    weights: Vec<i16>,
}

/// How many bits the numbers of a case have, and how many of the lowest are zero.
struct Bits {
    x: (u32, u32),
    weights: (u32, u32),
    bias: u32,
}

/// Vectors, and weights behind a bias.
fn draw(random: &mut Random, lanes: usize, vectors: usize, bits: &Bits) -> [Vec<i32>; 2] {
    let mut list = |count: usize, (bits, zeros): (u32, u32)| -> Vec<i32> {
        (0..count).map(|_| scalar(random, bits, zeros)).collect()
    };
    let x = list(vectors * lanes, bits.x);
    let mut weights = list(lanes, (bits.bias, 0));
    weights.extend(list(lanes * lanes, bits.weights));
    [x, weights]
}

impl Case {
    fn new(random: &mut Random, format: Narrow, lanes: usize, vectors: usize, bits: &Bits) -> Case {
        let [x, weights] = draw(random, lanes, vectors, bits)
            .map(|scalars| scalars.into_iter().map(|scalar| scalar as i16).collect());
        Case { format, lanes, x, weights }
    }

    fn packed(&self, level: Level) -> Packed {
        let (format, mut packed) = (self.format, Packed::new(self.lanes, level));
        // What is there already does not matter.
        packed.pack::<1>(format, &vec![3; self.weights.len()]);
        match self.lanes {
            lanes if lanes % 8 == 0 => packed.pack::<8>(format, &self.weights),
            lanes if lanes % 4 == 0 => packed.pack::<4>(format, &self.weights),
            _ => packed.pack::<1>(format, &self.weights),
        }
        packed
    }

    fn run(&self, level: Level) -> (Vec<i16>, Flow) {
        let mut y = vec![99; self.x.len()];
        let mut flow = Flow::default();
        let mut work = Products {
            lanes: self.lanes,
            vectors: self.x.len() / self.lanes,
            x: &self.x,
            weights: &self.weights,
            packed: &self.packed(level),
            y: &mut y,
            flow: &mut flow,
        };
        products::<1>(self.format, &mut work);
        (y, flow)
    }

    /// True when a kernel computes the first vectors itself.
    #[cfg(target_arch = "x86_64")]
    fn is_taken(&self, level: Level) -> bool {
        let packed = self.packed(level);
        let vectors = packed.group.min(self.x.len() / self.lanes);
        let size = self.lanes * vectors;
        let mut y = vec![0; size];
        let mut tile = Tile { vectors, x: &self.x[..size], y: &mut y, packed: &packed };
        match level {
            Level::Scalar => false,
            Level::Avx2 => super::avx2::products(&mut tile),
            Level::Avx512 => super::avx512::products(&mut tile),
        }
    }
}

fn levels() -> impl Iterator<Item = Level> {
    Level::available().filter(|level| *level != Level::Scalar)
}

/// Magnitudes from those with which nothing saturates to those with which nearly everything does,
/// many with ties.
fn regimes(width: u32) -> Vec<Bits> {
    let high = width;
    let bits = |x, weights, bias| Bits { x, weights, bias };
    vec![
        bits((high / 2, 0), (high / 2, 0), high / 2),
        bits((high / 2 + 1, high / 4), (high / 2, high / 4 - 1), high - 2),
        bits((high - 3, high / 4), (high / 2 - 1, high / 4), high - 1),
        bits((high - 1, 1), (high / 2 - 2, 1), high),
        bits((high / 4, 0), (high, 1), high - 1),
        bits((high, 0), (high / 2 + 2, 0), high),
        bits((high, 0), (high, 0), high),
    ]
}

/// The formats with kernels.
fn narrow() -> impl Iterator<Item = DataType> {
    DataType::ALL.into_iter().filter(|data_type| data_type.width() <= 16)
}

#[test]
fn kernels_equal_the_twin() {
    narrow().for_each(kernels_agree);
}

fn kernels_agree(data_type: DataType) {
    let (format, width) = (Narrow::new(data_type), data_type.width());
    let mut random = Random::new(width.into());
    for level in levels() {
        let (mut taken, mut refused, mut saturated) = (0, 0, 0);
        for lanes in [2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 20, 31, 32, 33, 48, 64, 100, 256] {
            for vectors in [1, 2, 3, 4, 5, 7, 9, 16, 23, 33, 70] {
                for bits in regimes(width) {
                    if lanes > 40 && vectors > 9 {
                        continue;
                    }
                    let case = Case::new(&mut random, format, lanes, vectors, &bits);
                    let (y, flow) = case.run(level);
                    let twin = case.run(Level::Scalar);
                    assert_eq!((y, flow), twin, "{level:?} {lanes} {vectors}");
                    saturated += u64::from(!flow.is_zero());
                    #[cfg(target_arch = "x86_64")]
                    match case.is_taken(level) {
                        true => taken += 1,
                        false => refused += 1,
                    }
                }
            }
        }
        assert!(taken > 100 && refused > 100 && saturated > 100, "{taken} {refused} {saturated}");
    }
}

/// Sums that end at the last number of the range or one beyond it, from below and by a tie.
#[test]
fn ends_of_the_range() {
    let mut taken = 0;
    for level in levels() {
        for lanes in [2, 8, 16, 24] {
            for sign in [1, -1] {
                for rest in -4..=4 {
                    for half in [0, 127, 128, 129] {
                        let mut case = Case {
                            format: Narrow::new(DataType::FP16BP8),
                            lanes,
                            x: vec![0; lanes],
                            weights: vec![0; lanes * (lanes + 1)],
                        };
                        case.weights[..lanes].fill(sign * 32_600);
                        // 167 and something: the sum comes close to 32767.
                        case.x[0] = sign * (256 + 128);
                        case.x[1] = sign;
                        case.weights[lanes..2 * lanes].fill(111 + rest);
                        case.weights[2 * lanes..3 * lanes].fill(half);
                        let twin = case.run(Level::Scalar);
                        assert_eq!(case.run(level), twin, "{level:?} {lanes} {rest}");
                        taken += u32::from(twin.1.is_zero());
                    }
                }
            }
        }
    }
    assert!(taken > 10 || levels().next().is_none());
}

/// Products that add little, but round up in every step.
#[test]
fn rounding_alone_leaves_the_range() {
    let mut saturated = 0;
    for level in levels() {
        for (bias, sign) in (32_740..=32_767).flat_map(|bias| [(bias, 1), (-bias, -1)]) {
            let format = Narrow::new(DataType::FP16BP8);
            let (x, weights) = (vec![sign * 129; 8], vec![1; 72]);
            let mut case = Case { format, lanes: 8, x, weights };
            case.weights[..8].fill(bias);
            let twin = case.run(Level::Scalar);
            assert_eq!(case.run(level), twin, "{level:?} {bias}");
            saturated += u32::from(!twin.1.is_zero());
        }
    }
    assert!(saturated > 0 || levels().next().is_none());
}

/// Every 16-bit factor by which products just fit or just do not.
fn limits(format: Narrow) {
    for level in levels() {
        for weight in [0, 1, -1, 2, 127, 128, -128, 255, 256, -256, 257, 4096, 32767, -32768] {
            let mut case = Case { format, lanes: 8, x: vec![0; 64], weights: vec![0; 72] };
            case.weights[8..16].fill(weight);
            for exponent in 0..16 {
                for near in -2..=2 {
                    for sign in [1, -1] {
                        case.x.fill(((sign << exponent) + near).clamp(-32768, 32767) as i16);
                        let twin = case.run(Level::Scalar);
                        assert_eq!(case.run(level), twin, "{level:?} {weight} {exponent}");
                    }
                }
            }
        }
    }
}

#[test]
fn limits_are_exact() {
    narrow().filter(|data_type| data_type.width() == 16).map(Narrow::new).for_each(limits);
}

/// The twin computes what the executor's arithmetic does.
fn twin_agrees<F: Format>(format: F, data_type: DataType) {
    let mut random = Random::new(5);
    for bits in regimes(data_type.width()).iter().cycle().take(300) {
        let lanes = random.range(1, 20);
        let scalars = draw(&mut random, lanes, 2, bits);
        let [x, weights] = scalars.map(|list| list.into_iter().map(F::cell).collect::<Vec<_>>());
        let mut y = vec![F::cell(0); x.len()];
        let (mut flow, mut expected) = (Flow::default(), Flow::default());
        match lanes {
            lanes if lanes % 4 == 0 => {
                one_by_one::<F, 4>(format, lanes, &x, &weights, &mut y, &mut flow);
            }
            _ => one_by_one::<F, 1>(format, lanes, &x, &weights, &mut y, &mut flow),
        }
        for (x, y) in x.chunks(lanes).zip(y.chunks(lanes)) {
            for (column, &y) in y.iter().enumerate() {
                let mut sum = weights[column].into();
                for (lane, &x) in x.iter().enumerate() {
                    let weight = weights[(lane + 1) * lanes + column].into();
                    sum = fused(data_type, x.into(), weight, sum, &mut expected);
                }
                assert_eq!(sum, y.into());
            }
        }
        assert_eq!(flow, expected);
    }
}

/// Calls `$check` with every fixed-point format. Programs of random instructions run with floats.
macro_rules! for_all_fixed {
    ($check:ident) => {
        for data_type in DataType::ALL {
            match data_type.width() {
                ..=16 => $check(Narrow::new(data_type), data_type),
                _ if data_type.binary_point().is_some() => $check(Wide::new(data_type), data_type),
                _ => {}
            }
        }
    };
}

#[test]
fn the_twin_equals_the_executor() {
    for_all_fixed!(twin_agrees);
}

/// Vectors of accumulators and of local memory.
const DEPTH: usize = 40;

fn layout(lanes: usize) -> Layout {
    let at = |vectors: usize| vectors * lanes;
    let behind = 2 * DEPTH + lanes + 1;
    Layout {
        lanes,
        local: at(DEPTH),
        registers: at(behind),
        weights: at(2 * DEPTH),
        array: at(behind + 1),
        zero: at(behind + 2),
        nowhere: at(behind + 3),
        tables: at(behind + 4),
        table_count: 0,
        entries: 0,
        drams: [at(behind + 4); 2],
        end: at(behind + 4),
    }
}

/// MatMuls and SIMD operations, many of which can be done at once.
fn operations(random: &mut Random, layout: &Layout) -> Vec<Placed> {
    let lanes = layout.lanes;
    let mut list = Vec::new();
    while list.len() < 60 {
        let is_simd = random.below(3) == 0;
        let (add, op) = (random.below(2) == 0, random.pick(&[SimdOp::Add, SimdOp::Multiply]));
        for repeat in 0..random.range(1, 6) {
            let count = random.range(1, 9);
            let acc = (random.below(DEPTH - count) * lanes) as u32;
            let local = (layout.local + random.below(DEPTH - count) * lanes) as u32;
            let run = |base| Run { base, step: lanes as u32 };
            let op = match is_simd {
                true => Op::Simd {
                    op,
                    left: acc,
                    right: layout.registers as u32,
                    result: acc,
                    write: acc,
                    mode: random.pick(&[Write::Nothing, Write::Nothing, Write::Add]),
                },
                false => Op::Products {
                    from: run(local),
                    to: run(acc),
                    count: count as u32,
                    add,
                    fresh: repeat == 0 && random.below(2) == 0,
                },
            };
            list.push(Placed { op, instruction: list.len() as u32 });
        }
    }
    // Whatever comes first, weights are taken before they are used.
    let first = list.iter_mut().find_map(|placed| match &mut placed.op {
        Op::Products { fresh, .. } => Some(fresh),
        _ => None,
    });
    first.into_iter().for_each(|fresh| *fresh = true);
    list
}

fn batches_agree<F: Format>(format: F, data_type: DataType) {
    let mut random = Random::new(11);
    let (mut saturated, mut in_range) = (0, 0);
    for case in 0..60 {
        let layout = layout(random.pick(&[1, 2, 3, 4, 8, 12, 16, 40]));
        let program = operations(&mut random, &layout);
        let width = data_type.width();
        let bits = if case % 2 == 0 { width / 2 - 1 } else { width - 1 };
        let mut at_once = Core::new(format, layout.clone(), Level::best());
        for cell in &mut at_once.cells {
            *cell = F::cell(scalar(&mut random, bits, 0));
        }
        let mut one_by_one = Core::new(format, layout, Level::best());
        one_by_one.cells.clone_from(&at_once.cells);
        at_once.run(&program);
        program.iter().for_each(|placed| one_by_one.run(std::slice::from_ref(placed)));
        let scalars = |core: &Core<F>| core.cells.iter().map(|&x| x.into()).collect::<Vec<i32>>();
        assert_eq!(scalars(&at_once), scalars(&one_by_one), "{data_type:?} {case}");
        assert_eq!(at_once.flows(), one_by_one.flows(), "{data_type:?} {case}");
        saturated += at_once.flows().len();
        in_range += program.len() - at_once.flows().len();
    }
    assert!(saturated > 100 && in_range > 100, "{data_type:?} {saturated} {in_range}");
}

/// What is done at once equals the same done one by one, and saturates in the same instructions.
#[test]
fn batches_equal_single_operations() {
    for_all_fixed!(batches_agree);
}
