//! The number formats of the machine (`tensil` in `docs/bibliography.md`).

use quincunx_diag::did_you_mean;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A fixed-point format: `width` bits, `point` of them below the binary point. Only those of
/// [`DataType::ALL`] can be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FixedPoint {
    width: u32,
    point: u32,
}

/// The format of every scalar in every memory of a machine.
///
/// A fixed-point scalar of width `w` and binary point `p` is an integer `v` of `w` bits, two's
/// complement, that stands for `v * 2^-p`. In memory all formats are held as `i32`: the integer, or
/// the bits of a binary32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataType {
    /// Fixed point.
    Fixed(FixedPoint),
    /// IEEE binary32.
    Float32,
}

/// Every fixed-point format, for a macro: name, width and binary point. Upstream has FP16BP8 and
/// those of other widths; FP16BP4 to FP16BP12 are ours, and spelled like its own.
#[doc(hidden)]
#[macro_export]
macro_rules! fixed_formats {
    ([$($to:tt)*] $($given:tt)*) => {
        $($to)*! {
            $($given)*
            (FP8BP4 8 4) (FP16BP8 16 8) (FP16BP4 16 4) (FP16BP5 16 5) (FP16BP6 16 6)
            (FP16BP7 16 7) (FP16BP9 16 9) (FP16BP10 16 10) (FP16BP11 16 11) (FP16BP12 16 12)
            (FP18BP10 18 10) (FP32BP16 32 16)
        }
    };
}

pub use fixed_formats;

macro_rules! constants {
    ($(($name:ident $width:literal $point:literal))*) => {
        impl DataType {
            $(
                #[doc = concat!(
                    stringify!($width), " bits, ", stringify!($point), " of them below the binary point."
                )]
                pub const $name: DataType =
                    DataType::Fixed(FixedPoint { width: $width, point: $point });
            )*

            /// Every format.
            pub const ALL: [DataType; 1 + [$($point),*].len()] =
                [$(DataType::$name,)* DataType::Float32];

            /// Name in architecture files.
            pub fn name(self) -> &'static str {
                match self {
                    $(DataType::$name => stringify!($name),)*
                    DataType::Float32 => "FLOAT32",
                    DataType::Fixed(_) => unreachable!("formats are those of the list"),
                }
            }
        }
    };
}

fixed_formats! { [constants] }

impl DataType {
    /// The format with this name. `tensil-doc` writes FP32BP16 without the second P.
    pub fn from_name(name: &str) -> Option<DataType> {
        let name = if name == "FP32B16" { "FP32BP16" } else { name };
        DataType::ALL.into_iter().find(|data_type| data_type.name() == name)
    }

    /// Bits of a scalar.
    pub fn width(self) -> u32 {
        match self {
            DataType::Fixed(FixedPoint { width, .. }) => width,
            DataType::Float32 => 32,
        }
    }

    /// Bits of a word of 32 above a scalar.
    fn unused(self) -> u32 {
        32_u32.saturating_sub(self.width())
    }

    /// Bits below the binary point; `None` for floats.
    pub fn binary_point(self) -> Option<u32> {
        match self {
            DataType::Fixed(FixedPoint { point, .. }) => Some(point),
            DataType::Float32 => None,
        }
    }

    /// Bytes of a scalar in files and in DRAM.
    pub fn bytes(self) -> usize {
        match self.width() {
            ..=8 => 1,
            9..=16 => 2,
            _ => 4,
        }
    }

    /// How far two results may be apart to count as equal when upstream's emulator compares; for
    /// formats that it lacks as for the one of their width.
    pub fn tolerance(self) -> f64 {
        match (self, self.width()) {
            (DataType::Float32, _) => 1e-4,
            (_, ..=16) => 0.2,
            (_, 17..=18) => 0.05,
            _ => 0.01,
        }
    }

    /// The largest integer of a fixed-point scalar.
    pub fn max(self) -> i32 {
        i32::MAX >> self.unused()
    }

    /// The lowest and the highest number; `None` for floats.
    pub fn range(self) -> Option<[f64; 2]> {
        let high = f64::from(self.max());
        self.step().map(|step| [(-high - 1.0) * step, high * step])
    }

    /// The distance of two numbers; `None` for floats.
    pub fn step(self) -> Option<f64> {
        self.binary_point().map(|point| 1.0 / f64::from(1_u32 << point))
    }

    /// The integer nearest to a number of steps, ties towards plus infinity, and whether it was
    /// beyond the range and has become its end. NaN gives 0.
    pub fn saturate(self, steps: f64) -> (i32, bool) {
        // A difference of a number and its integer part is exact, which `steps + 0.5` is not.
        let below = steps.floor();
        let rounded = if steps - below >= 0.5 { below + 1.0 } else { below };
        let high = f64::from(self.max());
        if rounded.is_nan() {
            return (0, false);
        }
        (rounded.clamp(-high - 1.0, high) as i32, rounded > high || rounded < -high - 1.0)
    }

    /// The scalar of a real number. Fixed point follows upstream's tools: the number becomes a
    /// binary32, is scaled, and rounds to nearest with ties towards plus infinity; what is beyond
    /// the range becomes its end. NaN gives 0.
    pub fn encode(self, real: f64) -> i32 {
        let real = real as f32;
        match self.binary_point() {
            None => real.to_bits().cast_signed(),
            Some(point) => self.saturate(f64::from(real * (1_u32 << point) as f32)).0,
        }
    }

    /// The scalar nearest to a real number, ties towards plus infinity, without the detour over
    /// binary32; the ends of the range for what is beyond it. NaN gives 0, or NaN for floats.
    pub fn encode_exact(self, real: f64) -> i32 {
        match self.binary_point() {
            None => self.encode(real),
            Some(point) => self.saturate(real * f64::from(1_u32 << point)).0,
        }
    }

    /// [`DataType::encode_exact`] of many numbers, without branches.
    pub fn encode_all(self, reals: &[f64]) -> Vec<i32> {
        // Added and taken away again it leaves whole numbers, ties to even.
        const WHOLE: f64 = (3_u64 << 51) as f64;
        let Some(point) = self.binary_point() else {
            return reals.iter().map(|&real| self.encode_exact(real)).collect();
        };
        let (one, high) = (f64::from(1_u32 << point), f64::from(self.max()));
        let encode = |&real: &f64| {
            let steps = (real * one).clamp(-high - 1.0, high);
            let even = (steps + WHOLE) - WHOLE;
            (if steps - even >= 0.5 { even + 1.0 } else { even }) as i32
        };
        reals.iter().map(encode).collect()
    }

    /// The real number of a scalar.
    pub fn decode(self, scalar: i32) -> f64 {
        match self.binary_point() {
            None => f64::from(f32::from_bits(scalar.cast_unsigned())),
            Some(point) => f64::from(scalar) / f64::from(1_u32 << point),
        }
    }

    /// Appends the bytes of a scalar: little-endian with the bits above the width zero; a float
    /// is big-endian.
    pub fn write(self, scalar: i32, out: &mut Vec<u8>) {
        match self {
            DataType::Float32 => out.extend_from_slice(&scalar.to_be_bytes()),
            _ => {
                let mask = u32::MAX >> self.unused();
                let bytes = (scalar.cast_unsigned() & mask).to_le_bytes();
                out.extend_from_slice(&bytes[..self.bytes()]);
            }
        }
    }

    /// The scalar of [`DataType::bytes`] bytes. Bits above the width are ignored, as the machine
    /// does.
    pub fn read(self, bytes: &[u8]) -> i32 {
        let mut word = [0; 4];
        for (to, from) in word.iter_mut().zip(bytes) {
            *to = *from;
        }
        match self {
            DataType::Float32 => i32::from_be_bytes(word),
            _ => i32::from_le_bytes(word) << self.unused() >> self.unused(),
        }
    }
}

impl Serialize for DataType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for DataType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        DataType::from_name(&name).ok_or_else(|| {
            let names = DataType::ALL.map(DataType::name);
            let hint = did_you_mean(&name, names).unwrap_or_default();
            let shown: String = name.chars().take(40).collect();
            let list = names.join(", ");
            D::Error::custom(format!("data_type is {shown:?}, expected one of {list}; {hint}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On, beside and between the thresholds, at the ends, and beyond them.
    #[test]
    fn many_numbers_become_what_each_becomes() {
        for data_type in DataType::ALL {
            let step = data_type.step().unwrap_or(0.25);
            let near = (-9..9).map(|half| f64::from(half) * step / 2.0);
            let ends = data_type.range().unwrap_or([-1.0, 1.0]).into_iter();
            let reals = near.chain(ends.flat_map(|end| [end, end - step / 2.0, end + step / 2.0]));
            let reals = reals.flat_map(|x| [x, x.next_up(), x.next_down()]);
            let reals = reals.chain([f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e300]);
            let reals: Vec<f64> = reals.collect();
            let expected: Vec<i32> = reals.iter().map(|&x| data_type.encode_exact(x)).collect();
            assert_eq!(data_type.encode_all(&reals), expected, "{data_type:?}");
        }
    }
}
