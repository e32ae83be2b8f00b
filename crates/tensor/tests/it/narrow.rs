//! Element types that are computed in wider ones.

use quincunx_num::FloatOverflow;
use quincunx_tensor::{DType, Narrow, Tensor, npy};

/// Every element of a type.
fn all(narrow: Narrow) -> Tensor {
    let codes = 0..1_u32 << narrow.bits();
    let bytes: Vec<u8> = match narrow.bits() {
        16 => codes.flat_map(|code| (code as u16).to_le_bytes()).collect(),
        _ => codes.map(|code| element(narrow, code as u8)).collect(),
    };
    let count = 1 << narrow.bits();
    Tensor::new(DType::Narrow(narrow), &[count], bytes.into()).unwrap()
}

/// How a code is stored: signed integers as the byte of their value.
fn element(narrow: Narrow, code: u8) -> u8 {
    let shift = 8 - narrow.bits().min(8);
    match narrow.signed() {
        Some(true) => ((code << shift) as i8 >> shift) as u8,
        _ => code,
    }
}

#[test]
fn widening_is_exact_and_rounding_returns() {
    for narrow in Narrow::ALL {
        let tensor = all(narrow);
        let wide = tensor.widen();
        assert_eq!(wide.dtype(), narrow.wide());
        assert_eq!(format!("{:?}", wide.to_f64()), format!("{:?}", tensor.to_f64()), "{narrow:?}");
        for overflow in [FloatOverflow::Infinity, FloatOverflow::Saturate] {
            let again = wide.narrow(narrow, overflow).unwrap();
            let pairs = again.to_f64().into_iter().zip(tensor.to_f64());
            for (index, (found, expected)) in pairs.enumerate() {
                let saturated = expected.is_infinite() && overflow == FloatOverflow::Saturate;
                let same = found.to_bits() == expected.to_bits() || found.is_nan();
                assert!(saturated || same, "{narrow:?} {index}: {found} {expected}");
            }
        }
    }
}

#[test]
fn integers_are_what_their_bits_say() {
    assert_eq!(all(Narrow::U2).to_i64(), Some(vec![0, 1, 2, 3]));
    assert_eq!(all(Narrow::I2).to_i64(), Some(vec![0, 1, -2, -1]));
    assert_eq!(all(Narrow::I4).to_i64().unwrap()[6..10], [6, 7, -8, -7]);
    assert_eq!(all(Narrow::F16).to_i64(), None);
    let wide = Tensor::from_vec::<i32>(&[4], vec![-9, 8, 17, 255]).unwrap();
    assert_eq!(wide.wrap(Narrow::I4).unwrap().to_i64(), Some(vec![7, -8, 1, -1]));
    assert_eq!(wide.wrap(Narrow::U2).unwrap().to_i64(), Some(vec![3, 0, 1, 3]));
    let top = Tensor::from_vec::<u64>(&[1], vec![u64::MAX]).unwrap();
    assert_eq!(top.wrap(Narrow::I4).unwrap().to_i64(), Some(vec![-1]));
    assert_eq!(wide.wrap(Narrow::E4M3).unwrap_err().code(), "Q0202");
}

#[test]
fn out_of_range_numbers() {
    let encode = |narrow: Narrow, value: f64, overflow| {
        let tensor = Tensor::scalar(value).narrow(narrow, overflow).unwrap();
        tensor.to_f64()[0]
    };
    let (saturate, infinity) = (FloatOverflow::Saturate, FloatOverflow::Infinity);
    assert_eq!(encode(Narrow::F16, 1e6, infinity), f64::INFINITY);
    assert_eq!(encode(Narrow::E4M3, 1e6, saturate), 448.0);
    assert!(encode(Narrow::E4M3, 1e6, infinity).is_nan());
    assert_eq!(encode(Narrow::E5M2, -1e6, infinity), f64::NEG_INFINITY);
    assert_eq!(encode(Narrow::E2M1, 100.0, infinity), 6.0);
    assert_eq!(encode(Narrow::E2M1, f64::NAN, infinity), 0.0);
    // Scales round up to a power of two.
    assert_eq!(encode(Narrow::E8M0, 3.0, saturate), 4.0);
    assert_eq!(encode(Narrow::E8M0, 4.0, saturate), 4.0);
    assert_eq!(encode(Narrow::E8M0, 0.0, saturate), 2.0_f64.powi(-127));
    assert_eq!(encode(Narrow::E8M0, f64::INFINITY, saturate), 2.0_f64.powi(127));
    for value in [0.0, f64::INFINITY, f64::NAN, -1.0] {
        assert!(encode(Narrow::E8M0, value, infinity).is_nan(), "{value}");
    }
}

#[test]
fn files_hold_float16_and_widened_numbers() {
    for narrow in Narrow::ALL {
        let tensor = all(narrow);
        let again = npy::read_npy(npy::write_npy(&tensor)).unwrap();
        let expected = if narrow == Narrow::F16 { tensor } else { tensor.widen() };
        assert_eq!(again, expected);
    }
}

#[test]
fn names_are_unique() {
    let mut names: Vec<&str> = DType::all().map(DType::name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!((names.len(), count), (count, 23));
}
