//! Element types.

use crate::Narrow;
use std::fmt;

/// Element type of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// One byte, 0 or 1.
    Bool,
    /// 8-bit signed.
    I8,
    /// 16-bit signed.
    I16,
    /// 32-bit signed.
    I32,
    /// 64-bit signed.
    I64,
    /// 8-bit unsigned.
    U8,
    /// 16-bit unsigned.
    U16,
    /// 32-bit unsigned.
    U32,
    /// 64-bit unsigned.
    U64,
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
    /// Computed in a wider type.
    Narrow(Narrow),
}

impl DType {
    /// IEEE binary16.
    pub const F16: DType = DType::Narrow(Narrow::F16);
    /// The upper half of an f32.
    pub const BF16: DType = DType::Narrow(Narrow::Bf16);

    /// Every type.
    pub fn all() -> impl Iterator<Item = DType> {
        let wide = [
            DType::Bool,
            DType::I8,
            DType::I16,
            DType::I32,
            DType::I64,
            DType::U8,
            DType::U16,
            DType::U32,
            DType::U64,
            DType::F32,
            DType::F64,
        ];
        wide.into_iter().chain(Narrow::ALL.map(DType::Narrow))
    }

    /// The type that numbers of this type are computed in: itself, but for [`DType::Narrow`].
    pub fn wide(self) -> DType {
        match self {
            DType::Narrow(narrow) => narrow.wide(),
            wide => wide,
        }
    }

    /// True for types that are only stored: floats of 8 bits and less, integers of less than 8.
    pub fn is_storage(self) -> bool {
        matches!(self, DType::Narrow(narrow) if narrow.bits() < 16)
    }

    /// The number of a float type that is nearest to `value`, as a number of the host enters a
    /// machine of such floats: ties to even; above the range infinity in types of 16 bits and more,
    /// the largest number in smaller ones; NaN becomes 0 in types without NaN. Types that are not
    /// floats leave it as it is.
    pub fn round(self, value: f64) -> f64 {
        match self {
            DType::F32 => f64::from(value as f32),
            DType::Narrow(narrow) if narrow.is_float() => {
                narrow.decode(narrow.encode(value, narrow.overflow()))
            }
            _ => value,
        }
    }

    /// Bytes per element.
    pub fn size(self) -> usize {
        match self {
            DType::Bool | DType::I8 | DType::U8 => 1,
            DType::Narrow(narrow) => (narrow.bits() / 8).max(1) as usize,
            DType::I16 | DType::U16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
            DType::I64 | DType::U64 | DType::F64 => 8,
        }
    }

    /// Lower-case name: `f32`, `u8`, `bool`.
    pub fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::I8 => "i8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::U8 => "u8",
            DType::U16 => "u16",
            DType::U32 => "u32",
            DType::U64 => "u64",
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::Narrow(narrow) => narrow.name(),
        }
    }

    /// True for floats that can be computed with: `f16`, `bf16`, `f32` and `f64`.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64 | DType::F16 | DType::BF16)
    }

    pub(crate) fn to_f64(self, bytes: &[u8]) -> Vec<f64> {
        fn cast<T: bytemuck::AnyBitPattern>(bytes: &[u8], convert: impl Fn(T) -> f64) -> Vec<f64> {
            elements(bytes).map(convert).collect()
        }
        match self {
            DType::Bool | DType::U8 => cast::<u8>(bytes, f64::from),
            DType::I8 => cast::<i8>(bytes, f64::from),
            DType::I16 => cast::<i16>(bytes, f64::from),
            DType::I32 => cast::<i32>(bytes, f64::from),
            DType::I64 => cast::<i64>(bytes, |v| v as f64),
            DType::U16 => cast::<u16>(bytes, f64::from),
            DType::U32 => cast::<u32>(bytes, f64::from),
            DType::U64 => cast::<u64>(bytes, |v| v as f64),
            DType::F32 => cast::<f32>(bytes, f64::from),
            DType::F64 => cast::<f64>(bytes, |v| v),
            DType::Narrow(narrow) => narrow.codes(bytes).map(|code| narrow.decode(code)).collect(),
        }
    }

    pub(crate) fn to_i64(self, bytes: &[u8]) -> Option<Vec<i64>> {
        Some(match self {
            DType::Bool | DType::U8 => elements::<u8>(bytes).map(i64::from).collect(),
            DType::I8 => elements::<i8>(bytes).map(i64::from).collect(),
            DType::I16 => elements::<i16>(bytes).map(i64::from).collect(),
            DType::I32 => elements::<i32>(bytes).map(i64::from).collect(),
            DType::I64 => elements::<i64>(bytes).collect(),
            DType::U16 => elements::<u16>(bytes).map(i64::from).collect(),
            DType::U32 => elements::<u32>(bytes).map(i64::from).collect(),
            DType::U64 => {
                elements::<u64>(bytes).map(i64::try_from).collect::<Result<_, _>>().ok()?
            }
            DType::F32 | DType::F64 => return None,
            DType::Narrow(narrow) if narrow.is_float() => return None,
            DType::Narrow(narrow) => return narrow.wide().to_i64(bytes),
        })
    }
}

/// Elements of possibly unaligned bytes.
fn elements<T: bytemuck::AnyBitPattern>(bytes: &[u8]) -> impl Iterator<Item = T> + '_ {
    bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned)
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A Rust type that is the element of a tensor.
pub trait Element: bytemuck::Pod + Send + Sync + 'static {
    /// The dtype it stands for.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),*) => {
        $(impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
        })*
    };
}
elements!(i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64, f32 => F32, f64 => F64);
