//! What the ALUs and the array compute with scalars (`tensil` in
//! `docs/bibliography.md`).

use crate::arch::DataType;

/// How often results were beyond the range of their format and became its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Too high.
    pub over: u64,
    /// Too low.
    pub under: u64,
}

impl Flow {
    /// True when every result was in range.
    pub fn is_zero(&self) -> bool {
        self.over == 0 && self.under == 0
    }
}

/// The scalar operations of a format. Scalars are `i32`: the integer of fixed point, the bits of a
/// float. Operations on two vectors work in place, lane by lane.
pub trait Arithmetic: Copy {
    /// The number 1.
    const ONE: i32;
    /// A product with 0 is 0, so that such products can be left out.
    const SKIPS_ZERO: bool;

    /// `sum = sum + x * weight` in every lane, rounded and saturated once.
    fn accumulate_product(x: i32, weights: &[i32], sums: &mut [i32], flow: &mut Flow);
    /// `a + b`.
    fn add(a: i32, b: i32, flow: &mut Flow) -> i32;
    /// `a - b`.
    fn subtract(a: i32, b: i32, flow: &mut Flow) -> i32;
    /// `a * b`.
    fn multiply(a: i32, b: i32, flow: &mut Flow) -> i32;
    /// Without the sign.
    fn magnitude(a: i32) -> i32;
    /// `a < b`.
    fn less(a: i32, b: i32) -> bool;
    /// `a <= b`.
    fn not_greater(a: i32, b: i32) -> bool;
    /// `a` is not 0.
    fn truth(a: i32) -> bool;
    /// How far apart two numbers are; incomparable ones are infinitely far apart.
    fn distance(a: i32, b: i32) -> f64;

    /// `sums = sums + values` in every lane.
    fn add_vector(values: &[i32], sums: &mut [i32], flow: &mut Flow) {
        for (sum, &value) in sums.iter_mut().zip(values) {
            *sum = Self::add(*sum, value, flow);
        }
    }
}

/// Fixed point with `W` bits, `P` of them below the binary point.
#[derive(Clone, Copy, Debug)]
pub struct Fixed<const W: u32, const P: u32>;

impl<const W: u32, const P: u32> Fixed<W, P> {
    const HIGH: i32 = i32::MAX >> (32 - W);
    const LOW: i32 = -Self::HIGH - 1;

    fn saturate(value: i64, flow: &mut Flow) -> i32 {
        flow.over += u64::from(value > i64::from(Self::HIGH));
        flow.under += u64::from(value < i64::from(Self::LOW));
        value.clamp(Self::LOW.into(), Self::HIGH.into()) as i32
    }

    /// `x * y + z` with one rounding: to nearest, ties to even. The product has at most 62 bits.
    fn fused(x: i32, y: i32, z: i32) -> i64 {
        let exact = i64::from(x) * i64::from(y) + (i64::from(z) << P);
        (exact + ((1 << (P - 1)) - 1) + (exact >> P & 1)) >> P
    }

    /// The same for widths up to 16, where nothing leaves 32 bits.
    fn fused_narrow(x: i32, y: i32, z: i32) -> i32 {
        let exact = x * y + (z << P);
        (exact + ((1 << (P - 1)) - 1) + (exact >> P & 1)) >> P
    }
}

impl<const W: u32, const P: u32> Arithmetic for Fixed<W, P> {
    const ONE: i32 = 1 << P;
    const SKIPS_ZERO: bool = true;

    fn accumulate_product(x: i32, weights: &[i32], sums: &mut [i32], flow: &mut Flow) {
        if W > 16 {
            for (sum, &weight) in sums.iter_mut().zip(weights) {
                *sum = Self::saturate(Self::fused(x, weight, *sum), flow);
            }
            return;
        }
        // Counts of 32 bits let the compiler use whole vectors.
        let (mut over, mut under) = (0_u32, 0_u32);
        for (sum, &weight) in sums.iter_mut().zip(weights) {
            let value = Self::fused_narrow(x, weight, *sum);
            over += u32::from(value > Self::HIGH);
            under += u32::from(value < Self::LOW);
            *sum = value.clamp(Self::LOW, Self::HIGH);
        }
        flow.over += u64::from(over);
        flow.under += u64::from(under);
    }

    fn add(a: i32, b: i32, flow: &mut Flow) -> i32 {
        Self::saturate(i64::from(a) + i64::from(b), flow)
    }

    fn subtract(a: i32, b: i32, flow: &mut Flow) -> i32 {
        Self::saturate(i64::from(a) - i64::from(b), flow)
    }

    fn multiply(a: i32, b: i32, flow: &mut Flow) -> i32 {
        Self::saturate(Self::fused(a, b, 0), flow)
    }

    fn magnitude(a: i32) -> i32 {
        if a == Self::LOW { a } else { a.abs() }
    }

    fn less(a: i32, b: i32) -> bool {
        a < b
    }

    fn not_greater(a: i32, b: i32) -> bool {
        a <= b
    }

    fn truth(a: i32) -> bool {
        a != 0
    }

    fn distance(a: i32, b: i32) -> f64 {
        // Below 2^53, so exact.
        f64::from(a.abs_diff(b))
    }
}

/// IEEE binary32; every operation rounds once, a product before it is added. Nothing saturates.
#[derive(Clone, Copy, Debug)]
pub struct Float;

fn real(bits: i32) -> f32 {
    f32::from_bits(bits.cast_unsigned())
}

fn bits(real: f32) -> i32 {
    real.to_bits().cast_signed()
}

impl Arithmetic for Float {
    const ONE: i32 = 0x3f80_0000;
    const SKIPS_ZERO: bool = false;

    fn accumulate_product(x: i32, weights: &[i32], sums: &mut [i32], _flow: &mut Flow) {
        for (sum, &weight) in sums.iter_mut().zip(weights) {
            *sum = bits(real(x) * real(weight) + real(*sum));
        }
    }

    fn add(a: i32, b: i32, _flow: &mut Flow) -> i32 {
        bits(real(a) + real(b))
    }

    fn subtract(a: i32, b: i32, _flow: &mut Flow) -> i32 {
        bits(real(a) - real(b))
    }

    fn multiply(a: i32, b: i32, _flow: &mut Flow) -> i32 {
        bits(real(a) * real(b))
    }

    fn magnitude(a: i32) -> i32 {
        a & i32::MAX
    }

    fn less(a: i32, b: i32) -> bool {
        real(a) < real(b)
    }

    fn not_greater(a: i32, b: i32) -> bool {
        real(a) <= real(b)
    }

    fn truth(a: i32) -> bool {
        real(a) != 0.0
    }

    fn distance(a: i32, b: i32) -> f64 {
        let distance = (f64::from(real(a)) - f64::from(real(b))).abs();
        if distance.is_nan() { f64::INFINITY } else { distance }
    }
}

/// Runs a piece of code with the arithmetic of a data type as the type `$name`.
#[macro_export]
macro_rules! with_arithmetic {
    ($data_type:expr, $name:ident => $body:expr) => {
        $crate::arch::fixed_formats! { [$crate::simulate::arithmetic_of] ($data_type) $name ($body) }
    };
}
pub use with_arithmetic;

/// `x * y + z` of a data type, as the array computes it; for tests and tools.
pub fn fused(data_type: DataType, x: i32, y: i32, z: i32, flow: &mut Flow) -> i32 {
    let mut sum = [z];
    with_arithmetic!(data_type, A => A::accumulate_product(x, &[y], &mut sum, flow));
    sum[0]
}

#[doc(hidden)]
#[macro_export]
macro_rules! arithmetic_of {
    (($data_type:expr) $name:ident ($body:expr)
     $(($constant:ident $width:literal $point:literal))*) => {
        match $data_type {
            $($crate::arch::DataType::$constant => {
                type $name = $crate::simulate::Fixed<$width, $point>;
                $body
            })*
            $crate::arch::DataType::Float32 => {
                type $name = $crate::simulate::Float;
                $body
            }
            $crate::arch::DataType::Fixed(_) => unreachable!("formats are those of the list"),
        }
    };
}
#[doc(hidden)]
pub use arithmetic_of;
