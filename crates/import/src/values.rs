//! Numbers that the user gives an input.

use crate::tensor::real_tensor;
use quincunx_diag::{Diagnostic, Result};
use quincunx_tensor::{DType, Element, Tensor, element_count, show_shape};
use std::str::FromStr;

/// Most elements of an input that is fixed.
const MOST: usize = 1 << 24;

/// The tensor of decimals separated by commas, one for every element or one for all.
///
/// # Errors
/// `Q0415` when their number or one of them does not fit; `Q0402` for an input that is too large.
pub(crate) fn given_value(name: &str, dtype: DType, shape: &[usize], text: &str) -> Result<Tensor> {
    let shown = format!("input \"{name}\" ({dtype}{})", show_shape(shape));
    let count = element_count(shape).filter(|&count| count <= MOST).ok_or_else(|| {
        Diagnostic::unsupported("Q0402", format!("{shown} is too large to be given a value"))
    })?;
    let numbers: Vec<&str> = text.split(',').map(str::trim).collect();
    let numbers = match numbers[..] {
        [one] => vec![one; count],
        _ if numbers.len() == count => numbers,
        _ => {
            let message = format!("{shown} takes {count} numbers, {} are given", numbers.len());
            return Err(Diagnostic::usage("Q0415", message).help("one number is for all elements"));
        }
    };
    let numbers = Numbers { shown, shape, numbers };
    match dtype {
        DType::F32 => numbers.tensor::<f32>(),
        DType::F64 => numbers.tensor::<f64>(),
        DType::I8 => numbers.tensor::<i8>(),
        DType::I16 => numbers.tensor::<i16>(),
        DType::I32 => numbers.tensor::<i32>(),
        DType::I64 => numbers.tensor::<i64>(),
        DType::U8 => numbers.tensor::<u8>(),
        DType::U16 => numbers.tensor::<u16>(),
        DType::U32 => numbers.tensor::<u32>(),
        DType::U64 => numbers.tensor::<u64>(),
        DType::Bool => numbers.bools(),
        DType::Narrow(narrow) => {
            let values = numbers.parsed::<f64>()?;
            let tensor = real_tensor(dtype, shape, &values)?;
            match narrow.is_float() || tensor.to_f64() == values {
                true => Ok(tensor),
                false => Err(numbers.wrong(text)),
            }
        }
    }
}

struct Numbers<'t> {
    /// The input in words.
    shown: String,
    shape: &'t [usize],
    numbers: Vec<&'t str>,
}

impl Numbers<'_> {
    fn wrong(&self, text: &str) -> Diagnostic {
        let message = format!("{text:?} is not what {} can hold", self.shown);
        Diagnostic::usage("Q0415", message)
    }

    fn parsed<T: FromStr>(&self) -> Result<Vec<T>> {
        self.numbers.iter().map(|text| text.parse().map_err(|_| self.wrong(text))).collect()
    }

    fn tensor<T: Element + FromStr>(&self) -> Result<Tensor> {
        Tensor::from_vec(self.shape, self.parsed::<T>()?)
    }

    fn bools(&self) -> Result<Tensor> {
        let bit = |text: &&str| match *text {
            "0" | "false" => Ok(0),
            "1" | "true" => Ok(1),
            _ => Err(self.wrong(text)),
        };
        let bits: Vec<u8> = self.numbers.iter().map(bit).collect::<Result<_>>()?;
        Tensor::new(DType::Bool, self.shape, bits.into())
    }
}
