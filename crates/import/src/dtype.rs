//! Element type numbers of ONNX.

use quincunx_diag::Result;
use quincunx_tensor::{DType, Narrow, Tensor};

/// What Quincunx has for an ONNX element type.
pub(crate) fn from_onnx(code: i32) -> std::result::Result<DType, &'static str> {
    Ok(match code {
        1 => DType::F32,
        2 => DType::U8,
        3 => DType::I8,
        4 => DType::U16,
        5 => DType::I16,
        6 => DType::I32,
        7 => DType::I64,
        9 => DType::Bool,
        11 => DType::F64,
        12 => DType::U32,
        13 => DType::U64,
        other => match NARROW.iter().find(|(code, ..)| *code == other) {
            Some((_, narrow, _)) => DType::Narrow(*narrow),
            None => return Err(name(other)),
        },
    })
}

/// Number, type and the first opset of operators that take it.
const NARROW: [(i32, Narrow, i64); 12] = [
    (10, Narrow::F16, 1),
    (16, Narrow::Bf16, 13),
    (17, Narrow::E4M3, 19),
    (18, Narrow::E4M3Fnuz, 19),
    (19, Narrow::E5M2, 19),
    (20, Narrow::E5M2Fnuz, 19),
    (21, Narrow::U4, 21),
    (22, Narrow::I4, 21),
    (23, Narrow::E2M1, 23),
    (24, Narrow::E8M0, 24),
    (25, Narrow::U2, 25),
    (26, Narrow::I2, 25),
];

/// The first opset whose operators take an element type.
pub(crate) fn first_opset(dtype: DType) -> i64 {
    let row = NARROW.iter().find(|(_, narrow, _)| DType::Narrow(*narrow) == dtype);
    row.map_or(1, |(.., opset)| *opset)
}

/// The element types that are read, for messages.
pub(crate) const SUPPORTED: &str = "supported: float, double, float16, bfloat16, float8 of all \
    kinds, float4e2m1, bool, and signed and unsigned integers of 2 to 64 bits";

/// The ONNX number of an element type.
pub(crate) fn to_onnx(dtype: DType) -> i32 {
    match dtype {
        DType::F32 => 1,
        DType::U8 => 2,
        DType::I8 => 3,
        DType::U16 => 4,
        DType::I16 => 5,
        DType::I32 => 6,
        DType::I64 => 7,
        DType::Bool => 9,
        DType::F64 => 11,
        DType::U32 => 12,
        DType::U64 => 13,
        DType::Narrow(narrow) => {
            NARROW.iter().find(|row| row.1 == narrow).map_or(0, |(code, ..)| *code)
        }
    }
}

/// Names of the element types that have no [`DType`].
fn name(code: i32) -> &'static str {
    match code {
        0 => "undefined",
        8 => "string",
        14 => "complex64",
        15 => "complex128",
        27 => "float6e2m3",
        28 => "float6e3m2",
        _ => "unknown",
    }
}

/// A number as a constant of a type; integers lose the fraction and saturate.
pub(crate) fn scalar(dtype: DType, value: f64) -> Result<Tensor> {
    Ok(match dtype {
        DType::Bool => Tensor::new(dtype, &[], vec![u8::from(value != 0.0)].into())?,
        DType::I8 => Tensor::scalar(value as i8),
        DType::I16 => Tensor::scalar(value as i16),
        DType::I32 => Tensor::scalar(value as i32),
        DType::I64 => Tensor::scalar(value as i64),
        DType::U8 => Tensor::scalar(value as u8),
        DType::U16 => Tensor::scalar(value as u16),
        DType::U32 => Tensor::scalar(value as u32),
        DType::U64 => Tensor::scalar(value as u64),
        DType::F32 => Tensor::scalar(value as f32),
        DType::F64 => Tensor::scalar(value),
        DType::Narrow(narrow) => Tensor::scalar(value).narrow(narrow, narrow.overflow())?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip() {
        for code in -1..40 {
            if let Ok(dtype) = from_onnx(code) {
                assert_eq!(to_onnx(dtype), code);
            }
        }
        for dtype in DType::all() {
            assert_eq!(from_onnx(to_onnx(dtype)), Ok(dtype));
        }
        assert_eq!(from_onnx(8), Err("string"));
        assert_eq!(from_onnx(99), Err("unknown"));
    }
}
