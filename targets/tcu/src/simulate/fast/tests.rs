//! Kernels against their scalar twin, and the twin against the executor's arithmetic.

use super::format::Format;
use super::narrow::{Packed, Tile, one_by_one, products};
use super::products::Products;
use crate::arch::DataType;
use crate::simulate::{Fixed, Flow, fused};
use quincunx_num::Level;
use quincunx_testkit::Random;

/// A scalar with so many bits, of which the lowest `zeros` are zero.
fn scalar(random: &mut Random, bits: u32, zeros: u32) -> i16 {
    (random.next() as i16) >> (16 - bits) >> zeros << zeros
}

struct Case {
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

impl Case {
    fn new(random: &mut Random, lanes: usize, vectors: usize, bits: &Bits) -> Case {
        let list = |random: &mut Random, count: usize, (bits, zeros): (u32, u32)| -> Vec<i16> {
            (0..count).map(|_| scalar(random, bits, zeros)).collect()
        };
        let x = list(random, vectors * lanes, bits.x);
        let mut weights = list(random, lanes, (bits.bias, 0));
        weights.extend(list(random, lanes * lanes, bits.weights));
        Case { lanes, x, weights }
    }

    fn packed<const W: u32, const P: u32>(&self, level: Level) -> Packed {
        let mut packed = Packed::new(self.lanes, level);
        // What is there already does not matter.
        packed.pack::<W, P, 1>(&vec![3; self.weights.len()]);
        match self.lanes {
            lanes if lanes % 8 == 0 => packed.pack::<W, P, 8>(&self.weights),
            lanes if lanes % 4 == 0 => packed.pack::<W, P, 4>(&self.weights),
            _ => packed.pack::<W, P, 1>(&self.weights),
        }
        packed
    }

    fn run<const W: u32, const P: u32>(&self, level: Level) -> (Vec<i16>, Flow)
    where
        Fixed<W, P>: Format<Cell = i16>,
    {
        let mut y = vec![99; self.x.len()];
        let mut flow = Flow::default();
        products::<W, P>(&mut Products {
            lanes: self.lanes,
            vectors: self.x.len() / self.lanes,
            x: &self.x,
            weights: &self.weights,
            packed: &self.packed::<W, P>(level),
            y: &mut y,
            flow: &mut flow,
        });
        (y, flow)
    }

    /// True when a kernel computes the first vectors itself.
    #[cfg(target_arch = "x86_64")]
    fn is_taken<const W: u32, const P: u32>(&self, level: Level) -> bool {
        let packed = self.packed::<W, P>(level);
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

fn kernels_agree<const W: u32, const P: u32>()
where
    Fixed<W, P>: Format<Cell = i16>,
{
    let mut random = Random::new(u64::from(W));
    for level in levels() {
        let (mut taken, mut refused, mut saturated) = (0, 0, 0);
        for lanes in [2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 20, 31, 32, 33, 48, 64, 100, 256] {
            for vectors in [1, 2, 3, 4, 5, 7, 9, 16, 23, 33, 70] {
                for bits in regimes(W) {
                    if lanes > 40 && vectors > 9 {
                        continue;
                    }
                    let case = Case::new(&mut random, lanes, vectors, &bits);
                    let (y, flow) = case.run::<W, P>(level);
                    let twin = case.run::<W, P>(Level::Scalar);
                    assert_eq!((y, flow), twin, "{level:?} {lanes} {vectors}");
                    saturated += u64::from(!flow.is_zero());
                    #[cfg(target_arch = "x86_64")]
                    match case.is_taken::<W, P>(level) {
                        true => taken += 1,
                        false => refused += 1,
                    }
                }
            }
        }
        assert!(taken > 100 && refused > 100 && saturated > 100, "{taken} {refused} {saturated}");
    }
}

#[test]
fn kernels_equal_the_twin() {
    kernels_agree::<16, 4>();
    kernels_agree::<16, 8>();
    kernels_agree::<16, 12>();
    kernels_agree::<8, 4>();
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
                        let twin = case.run::<16, 8>(Level::Scalar);
                        assert_eq!(case.run::<16, 8>(level), twin, "{level:?} {lanes} {rest}");
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
            let mut case = Case { lanes: 8, x: vec![sign * 129; 8], weights: vec![1; 72] };
            case.weights[..8].fill(bias);
            let twin = case.run::<16, 8>(Level::Scalar);
            assert_eq!(case.run::<16, 8>(level), twin, "{level:?} {bias}");
            saturated += u32::from(!twin.1.is_zero());
        }
    }
    assert!(saturated > 0 || levels().next().is_none());
}

/// Every 16-bit factor by which products just fit or just do not.
fn limits<const P: u32>()
where
    Fixed<16, P>: Format<Cell = i16>,
{
    for level in levels() {
        for weight in [0, 1, -1, 2, 127, 128, -128, 255, 256, -256, 257, 4096, 32767, -32768] {
            let mut case = Case { lanes: 8, x: vec![0; 64], weights: vec![0; 72] };
            case.weights[8..16].fill(weight);
            for exponent in 0..16 {
                for near in -2..=2 {
                    for sign in [1, -1] {
                        case.x.fill(((sign << exponent) + near).clamp(-32768, 32767) as i16);
                        let twin = case.run::<16, P>(Level::Scalar);
                        assert_eq!(case.run::<16, P>(level), twin, "{level:?} {weight} {exponent}");
                    }
                }
            }
        }
    }
}

#[test]
fn limits_are_exact() {
    macro_rules! all {
        ($(($format:ident $width:tt $point:tt $kind:ident))*) => {
            $(all! { $width $point })*
        };
        (16 $point:tt) => { limits::<$point>(); };
        ($width:tt $point:tt) => {};
    }
    crate::arch::fixed_formats! { [all] }
}

/// The twin computes what the executor's arithmetic does.
fn twin_agrees<const P: u32>(data_type: DataType)
where
    Fixed<16, P>: Format<Cell = i16>,
{
    let mut random = Random::new(5);
    for bits in regimes(16).iter().cycle().take(300) {
        let lanes = random.range(1, 20);
        let case = Case::new(&mut random, lanes, 2, bits);
        let mut y = vec![0; case.x.len()];
        let (mut flow, mut expected) = (Flow::default(), Flow::default());
        let packed = &case.packed::<16, P>(Level::Scalar);
        let mut tile = Tile { vectors: 2, x: &case.x, y: &mut y, packed };
        one_by_one::<16, P>(&mut tile, &case.weights, &mut flow);
        for (x, y) in case.x.chunks(lanes).zip(y.chunks(lanes)) {
            for (column, &y) in y.iter().enumerate() {
                let mut sum = case.weights[column].into();
                for (lane, &x) in x.iter().enumerate() {
                    let weight = case.weights[(lane + 1) * lanes + column].into();
                    sum = fused(data_type, x.into(), weight, sum, &mut expected);
                }
                assert_eq!(sum, i32::from(y));
            }
        }
        assert_eq!(flow, expected);
    }
}

#[test]
fn the_twin_equals_the_executor() {
    twin_agrees::<4>(DataType::FP16BP4);
    twin_agrees::<8>(DataType::FP16BP8);
    twin_agrees::<12>(DataType::FP16BP12);
}
