//! Elements of less than 8 bits: several in a byte, the first in the lowest bits.

use bytes::Bytes;
use quincunx_tensor::{DType, Narrow};

/// Elements in a byte of a file, for types of which several share one.
fn per_byte(dtype: DType) -> Option<(Narrow, usize)> {
    match dtype {
        DType::Narrow(narrow) if narrow.bits() < 8 => Some((narrow, 8 / narrow.bits() as usize)),
        _ => None,
    }
}

/// Bytes that so many elements take in a file; `None` when there are too many.
pub(crate) fn stored_size(dtype: DType, count: usize) -> Option<usize> {
    match per_byte(dtype) {
        Some((_, each)) => Some(count.div_ceil(each)),
        None => count.checked_mul(dtype.size()),
    }
}

/// The elements of a tensor from their form in a file, which has [`stored_size`] bytes. Shared
/// where it is the same.
pub(crate) fn unpack(dtype: DType, count: usize, stored: &Bytes) -> Bytes {
    let Some((narrow, each)) = per_byte(dtype) else {
        return stored.clone();
    };
    let elements = match each {
        2 => expand::<2>(narrow, stored),
        _ => expand::<4>(narrow, stored),
    };
    Bytes::from(elements).slice(..count)
}

/// Every byte as its elements, through a table.
fn expand<const EACH: usize>(narrow: Narrow, stored: &[u8]) -> Vec<u8> {
    let bits = narrow.bits();
    let element = |byte: u8, index: usize| {
        let code = byte >> (index as u32 * bits) & ((1 << bits) - 1);
        match narrow.signed() {
            Some(_) => narrow.wrap(code.into()) as u8,
            None => code,
        }
    };
    let table: Vec<[u8; EACH]> =
        (0..=u8::MAX).map(|byte| std::array::from_fn(|index| element(byte, index))).collect();
    let mut elements = vec![0; stored.len() * EACH];
    for (part, &byte) in elements.as_chunks_mut::<EACH>().0.iter_mut().zip(stored) {
        *part = table[usize::from(byte)];
    }
    elements
}

/// The form in a file of the elements of a tensor.
pub(crate) fn pack(dtype: DType, elements: &Bytes) -> Bytes {
    let Some((narrow, each)) = per_byte(dtype) else {
        return elements.clone();
    };
    let bits = narrow.bits();
    let join = |codes: &[u8]| {
        codes.iter().rev().fold(0_u8, |byte, code| byte << bits | code & ((1 << bits) - 1))
    };
    elements.chunks(each).map(join).collect::<Vec<u8>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_round_trips() {
        let stored = Bytes::from_static(&[0x21, 0xf3, 0x08]);
        let unpacked = |narrow| unpack(DType::Narrow(narrow), 5, &stored).to_vec();
        assert_eq!(unpacked(Narrow::U4), [1, 2, 3, 15, 8]);
        assert_eq!(unpacked(Narrow::E2M1), [1, 2, 3, 15, 8]);
        assert_eq!(unpacked(Narrow::I4), [1, 2, 3, 0xff, 0xf8]);
        assert_eq!(unpacked(Narrow::U2), [1, 0, 2, 0, 3]);
        for narrow in Narrow::ALL {
            let dtype = DType::Narrow(narrow);
            let count = stored.len() * 8 / narrow.bits() as usize;
            let elements = unpack(dtype, count, &stored);
            let size = stored_size(dtype, count).unwrap();
            assert_eq!(pack(dtype, &elements)[..size], stored[..size], "{narrow:?}");
        }
        assert_eq!(stored_size(DType::Narrow(Narrow::I4), 3), Some(2));
        assert_eq!(stored_size(DType::F32, usize::MAX), None);
    }
}
