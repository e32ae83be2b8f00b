//! Element type numbers of ONNX.

use quincunx_tensor::DType;

/// What Quincunx has for an ONNX element type.
pub(crate) fn from_onnx(code: i32) -> Result<DType, &'static str> {
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
        other => return Err(name(other)),
    })
}

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
    }
}

/// Names of the element types that have no [`DType`].
fn name(code: i32) -> &'static str {
    match code {
        0 => "undefined",
        8 => "string",
        10 => "float16",
        14 => "complex64",
        15 => "complex128",
        16 => "bfloat16",
        17 => "float8e4m3fn",
        18 => "float8e4m3fnuz",
        19 => "float8e5m2",
        20 => "float8e5m2fnuz",
        21 => "uint4",
        22 => "int4",
        23 => "float4e2m1",
        24 => "float8e8m0",
        25 => "uint2",
        26 => "int2",
        27 => "float6e2m3",
        28 => "float6e3m2",
        _ => "unknown",
    }
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
        assert_eq!(from_onnx(10), Err("float16"));
        assert_eq!(from_onnx(99), Err("unknown"));
    }
}
