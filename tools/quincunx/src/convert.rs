//! Moving numbers between element types.

use quincunx_diag::{Diagnostic, Result};
use quincunx_tensor::{DType, Element, Narrow, Tensor};

/// The same numbers in another element type.
///
/// # Errors
/// `Q0604` names the first element that the type cannot hold exactly.
pub fn exact(tensor: &Tensor, dtype: DType) -> Result<Tensor> {
    if tensor.dtype() == dtype {
        return Ok(tensor.clone());
    }
    let converted = match dtype {
        DType::Bool => bools(tensor),
        DType::I8 => integers::<i8>(tensor),
        DType::I16 => integers::<i16>(tensor),
        DType::I32 => integers::<i32>(tensor),
        DType::I64 => integers::<i64>(tensor),
        DType::U8 => integers::<u8>(tensor),
        DType::U16 => integers::<u16>(tensor),
        DType::U32 => integers::<u32>(tensor),
        DType::U64 => integers::<u64>(tensor),
        DType::F32 => floats(tensor, |v| v as f32, f64::from),
        DType::F64 => floats(tensor, |v| v, |v| v),
        DType::Narrow(narrow) => narrowed(tensor, narrow),
    };
    converted.map_err(|index| {
        let value = tensor.to_f64().get(index).copied().unwrap_or(f64::NAN);
        Diagnostic::invalid(
            "Q0604",
            format!("element {index} is {value}, which {dtype} cannot hold exactly"),
        )
        .help(format!("convert the data from {} to {dtype} yourself", tensor.dtype()))
    })?
}

/// The numbers as f64, the form in which they enter and leave a machine. 64-bit integers above 2^53
/// round to nearest.
///
/// # Errors
/// None for a tensor that exists.
pub fn to_f64(tensor: &Tensor) -> Result<Tensor> {
    if tensor.dtype() == DType::F64 {
        return Ok(tensor.clone());
    }
    Tensor::from_vec(tensor.shape(), tensor.to_f64())
}

/// The numbers as a host segment needs them: f64 rounds to f32 and narrower floats, everything else
/// is exact.
///
/// # Errors
/// As [`exact`].
pub(crate) fn for_host(tensor: &Tensor, dtype: DType) -> Result<Tensor> {
    if (tensor.dtype(), dtype) == (DType::F64, DType::F32) {
        let values = tensor.to_f64().into_iter().map(|v| v as f32).collect();
        return Tensor::from_vec::<f32>(tensor.shape(), values);
    }
    if let (DType::F64, DType::Narrow(narrow)) = (tensor.dtype(), dtype)
        && narrow.is_float()
    {
        return tensor.narrow(narrow, narrow.overflow());
    }
    exact(tensor, dtype)
}

/// The elements as integers; the error is the index of the first that is none.
fn whole_numbers(tensor: &Tensor) -> std::result::Result<Vec<i128>, usize> {
    if let Ok(values) = tensor.values::<u64>() {
        return Ok(values.iter().map(|&v| i128::from(v)).collect());
    }
    if let Some(values) = tensor.to_i64() {
        return Ok(values.into_iter().map(i128::from).collect());
    }
    // A cast saturates, so numbers that are too large for i128 are too large for every type.
    let whole = |(index, v): (usize, f64)| (v.fract() == 0.0).then_some(v as i128).ok_or(index);
    tensor.to_f64().into_iter().enumerate().map(whole).collect()
}

fn integers<T: Element + TryFrom<i128>>(
    tensor: &Tensor,
) -> std::result::Result<Result<Tensor>, usize> {
    let convert = |(index, v)| T::try_from(v).map_err(|_| index);
    let values = whole_numbers(tensor)?.into_iter().enumerate().map(convert);
    Ok(Tensor::from_vec(tensor.shape(), values.collect::<std::result::Result<_, _>>()?))
}

fn bools(tensor: &Tensor) -> std::result::Result<Result<Tensor>, usize> {
    let convert = |(index, v)| u8::try_from(v).ok().filter(|v| *v <= 1).ok_or(index);
    let values = whole_numbers(tensor)?.into_iter().enumerate().map(convert);
    let bytes = values.collect::<std::result::Result<Vec<u8>, _>>()?;
    Ok(Tensor::new(DType::Bool, tensor.shape(), bytes.into()))
}

/// Rounded to a narrow type: exact when nothing was lost.
fn narrowed(tensor: &Tensor, to: Narrow) -> std::result::Result<Result<Tensor>, usize> {
    let rounded = match tensor.narrow(to, to.overflow()) {
        Ok(rounded) => rounded,
        Err(problem) => return Ok(Err(problem)),
    };
    let same = |(before, after): (f64, f64)| before == after || before.is_nan() && after.is_nan();
    let (before, after) = (tensor.to_f64(), rounded.to_f64());
    match before.into_iter().zip(after).position(|pair| !same(pair)) {
        None => Ok(Ok(rounded)),
        Some(index) => Err(index),
    }
}

/// `round` to a float type and `back`: exact when nothing was lost.
fn floats<T: Element>(
    tensor: &Tensor,
    round: impl Fn(f64) -> T,
    back: impl Fn(T) -> f64,
) -> std::result::Result<Result<Tensor>, usize> {
    let wide = matches!(tensor.dtype(), DType::I64 | DType::U64);
    let whole = if wide { whole_numbers(tensor)? } else { Vec::new() };
    let convert = |(index, v): (usize, f64)| {
        let rounded = round(v);
        let again = back(rounded);
        // f64 itself rounds 64-bit integers, so these are compared as integers.
        let same = match whole.get(index) {
            Some(&integer) => again as i128 == integer,
            None => again == v || v.is_nan(),
        };
        same.then_some(rounded).ok_or(index)
    };
    let values = tensor.to_f64().into_iter().enumerate().map(convert);
    Ok(Tensor::from_vec(tensor.shape(), values.collect::<std::result::Result<_, _>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ok<T: Element>(values: Vec<T>, dtype: DType) -> Vec<f64> {
        let tensor = Tensor::from_vec(&[values.len()], values).unwrap();
        let result = exact(&tensor, dtype).unwrap();
        assert_eq!(result.dtype(), dtype);
        result.to_f64()
    }

    fn fails<T: Element>(values: Vec<T>, dtype: DType) -> String {
        let tensor = Tensor::from_vec(&[values.len()], values).unwrap();
        exact(&tensor, dtype).unwrap_err().message().to_owned()
    }

    #[test]
    fn exact_numbers_convert() {
        assert_eq!(ok(vec![0.5_f64, -3.0], DType::F32), [0.5, -3.0]);
        assert_eq!(ok(vec![0_u8, 255], DType::F32), [0.0, 255.0]);
        assert_eq!(ok(vec![1.0_f32, -128.0], DType::I8), [1.0, -128.0]);
        assert_eq!(ok(vec![1_i64 << 60], DType::F64), [(1_i64 << 60) as f64]);
        assert_eq!(ok(vec![0_i32, 1], DType::Bool), [0.0, 1.0]);
        assert!(ok(vec![f64::NAN, f64::INFINITY], DType::F32)[0].is_nan());
    }

    #[test]
    fn inexact_numbers_are_refused_with_their_index() {
        assert!(fails(vec![0.5, 0.1_f64], DType::F32).starts_with("element 1 is 0.1"));
        assert!(fails(vec![256_i32], DType::U8).starts_with("element 0"));
        assert!(fails(vec![0.5_f32], DType::I8).starts_with("element 0"));
        assert!(fails(vec![(1_i64 << 53) + 1], DType::F64).starts_with("element 0"));
        assert!(fails(vec![u64::MAX], DType::F32).starts_with("element 0"));
        assert!(fails(vec![1e300_f64], DType::I64).starts_with("element 0"));
        assert!(fails(vec![f32::NAN], DType::I8).starts_with("element 0"));
        assert!(fails(vec![2_u8], DType::Bool).starts_with("element 0"));
    }
}
