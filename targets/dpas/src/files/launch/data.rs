//! Data of buffers: plain bytes, or an array.

use crate::program::Element;
use crate::program::device::Buffer;
use bytes::Bytes;
use quincunx_diag::{Diagnostic, Result};
use quincunx_tensor::{DType, npy::read_npy, show_shape};

/// The first bytes of arrays.
const NPY: &[u8] = b"\x93NUMPY";

/// The bytes of a buffer from those of a file. Plain bytes are the whole buffer, from a place in
/// the file on; an array is the value that lies in it.
///
/// # Errors
/// `Q6114` for another number of bytes, another type or another shape, and those of arrays.
pub(super) fn read(file: &Bytes, buffer: &Buffer, offset: Option<u64>) -> Result<Bytes> {
    if file.starts_with(NPY) && offset.is_none() {
        return array(file, buffer);
    }
    let length = file.len() as u64;
    let start = offset.unwrap_or(0);
    let end = start.saturating_add(buffer.bytes);
    let name = &buffer.name;
    if end > length || (offset.is_none() && end != length) {
        let message = format!("buffer \"{name}\" has {} bytes, the file", buffer.bytes);
        let behind = length.saturating_sub(start);
        let message = format!("{message} {behind} from byte {start} on");
        return Err(Diagnostic::invalid("Q6114", message));
    }
    Ok(file.slice(start as usize..end as usize))
}

fn array(file: &Bytes, buffer: &Buffer) -> Result<Bytes> {
    let tensor = read_npy(file.clone())?;
    let expected = dtype(buffer.element);
    let name = &buffer.name;
    if tensor.dtype() != expected {
        let message =
            format!("buffer \"{name}\" takes arrays of {expected}, found {}", tensor.dtype());
        return Err(Diagnostic::invalid("Q6114", message));
    }
    if tensor.shape() != buffer.shape {
        let (found, expected) = (show_shape(tensor.shape()), show_shape(&buffer.shape));
        let message = format!("the array for buffer \"{name}\" is {found}, expected {expected}");
        return Err(Diagnostic::invalid("Q6114", message));
    }
    if buffer.extent().is_none_or(|extent| extent > buffer.bytes) {
        let message = format!("buffer \"{name}\" has {} bytes, its value has others", buffer.bytes);
        return Err(Diagnostic::invalid("Q6117", message));
    }
    let dense = buffer.strides.is_none() && buffer.offset == 0;
    if dense && tensor.bytes().len() as u64 == buffer.bytes {
        return Ok(tensor.bytes().clone());
    }
    let mut bytes = vec![0u8; buffer.bytes as usize];
    let size = expected.size();
    for (at, element) in buffer.places().zip(tensor.bytes().chunks_exact(size.max(1))) {
        if let Some(place) = bytes.get_mut(at..at.saturating_add(size)) {
            place.copy_from_slice(element);
        }
    }
    Ok(bytes.into())
}

/// The type of arrays for an element; bf is given as its 16 bits.
fn dtype(element: Element) -> DType {
    match element {
        Element::Ub => DType::U8,
        Element::B => DType::I8,
        Element::Uw | Element::Bf => DType::U16,
        Element::W => DType::I16,
        Element::Ud => DType::U32,
        Element::D => DType::I32,
        Element::Uq => DType::U64,
        Element::Q => DType::I64,
        Element::Hf => DType::F16,
        Element::F => DType::F32,
        Element::Df => DType::F64,
    }
}
