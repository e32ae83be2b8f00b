//! Element type numbers of TensorFlow.

use quincunx_tensor::DType;

/// What Quincunx has for a TensorFlow element type, or the name of the type.
pub(crate) fn from_tensorflow(code: i32) -> Result<DType, &'static str> {
    Ok(match code {
        1 => DType::F32,
        2 => DType::F64,
        3 => DType::I32,
        4 => DType::U8,
        5 => DType::I16,
        6 => DType::I8,
        9 => DType::I64,
        10 => DType::Bool,
        14 => DType::BF16,
        17 => DType::U16,
        19 => DType::F16,
        22 => DType::U32,
        23 => DType::U64,
        other => return Err(name(other)),
    })
}

/// The ONNX number of a TensorFlow element type; 0 when there is none.
pub(crate) fn to_onnx(code: i32) -> i32 {
    match from_tensorflow(code) {
        Ok(dtype) => crate::dtype::to_onnx(dtype),
        Err("string") => 8,
        Err("complex64") => 14,
        Err("complex128") => 15,
        Err(_) => 0,
    }
}

/// Names of the element types that have no [`DType`].
fn name(code: i32) -> &'static str {
    match code {
        0 => "undefined",
        7 => "string",
        8 => "complex64",
        11 => "qint8",
        12 => "quint8",
        13 => "qint32",
        15 => "qint16",
        16 => "quint16",
        18 => "complex128",
        20 => "resource",
        21 => "variant",
        24 => "float8_e5m2",
        25 => "float8_e4m3fn",
        29 => "int4",
        30 => "uint4",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_an_onnx_number_or_none() {
        for code in 0..40 {
            if let Ok(dtype) = from_tensorflow(code) {
                assert_eq!(crate::dtype::from_onnx(to_onnx(code)), Ok(dtype));
            }
        }
        assert_eq!(from_tensorflow(7), Err("string"));
    }
}
