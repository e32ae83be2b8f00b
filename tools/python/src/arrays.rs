//! Arrays of numpy as tensors and back, without copies.
//!
//! Both ways go through `__array_interface__`
//! (<https://numpy.org/doc/stable/reference/arrays.interface.html>): memory, type and shape.

use bytes::{Bytes, BytesMut};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use quincunx::diag::{Diagnostic, Result};
use quincunx::tensor::{DType, Tensor, Tensors, element_count};

/// An array that Python code has made fit: dense, in the order of C and the bytes of this machine.
/// `(name, type, shape, address, owner)`.
pub(crate) type Given = (String, String, Vec<usize>, usize, Py<PyAny>);

/// Memory of an array, which stays as long as this does.
struct Memory {
    address: usize,
    length: usize,
    _owner: Py<PyAny>,
}

impl AsRef<[u8]> for Memory {
    fn as_ref(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: the owner is an array whose elements are these bytes, and is kept; numpy moves the
        // memory of no array that something refers to. Writing to it meanwhile, from another thread, is
        // a race that numpy's own functions have as well: they too read without the interpreter's lock.
        unsafe { std::slice::from_raw_parts(self.address as *const u8, self.length) }
    }
}

/// The type of a name that numpy or `ml_dtypes` gives.
pub(crate) fn dtype(name: &str) -> Result<DType> {
    let known = |dtype: &DType| numpy_name(*dtype) == name;
    DType::all().find(known).ok_or_else(|| {
        Diagnostic::invalid("Q0810", format!("elements of type {name} cannot be used"))
            .help("convert the array to a type of integers or floats first")
    })
}

/// What numpy or `ml_dtypes` calls a type.
pub(crate) fn numpy_name(dtype: DType) -> String {
    let name = dtype.name();
    let (kind, rest) = name.split_at(1);
    let word = match (name, kind) {
        ("bool", _) => return name.to_owned(),
        ("bf16", _) => return "bfloat16".to_owned(),
        ("f4e2m1", _) => return "float4_e2m1fn".to_owned(),
        ("f8e8m0", _) => return "float8_e8m0fnu".to_owned(),
        (_, "i") => "int",
        (_, "u") => "uint",
        _ => "float",
    };
    format!("{word}{}", rest.replacen('e', "_e", 1))
}

/// Arrays by name.
pub(crate) fn tensors(given: Vec<Given>) -> Result<Tensors> {
    let one = |(name, type_name, shape, address, owner): Given| {
        let dtype =
            dtype(&type_name).map_err(|problem| problem.with_note(format!("array \"{name}\"")))?;
        let count = element_count(&shape).unwrap_or(0);
        let length = count * dtype.size();
        let bytes = Bytes::from_owner(Memory { address, length, _owner: owner });
        Ok((name, Tensor::new(dtype, &shape, bytes)?))
    };
    given.into_iter().map(one).collect()
}

/// A tensor, for numpy.
#[pyclass(frozen)]
pub(crate) struct Array {
    dtype: DType,
    shape: Vec<usize>,
    /// Nobody else has it, so that Python code can write to it.
    memory: BytesMut,
}

impl Array {
    pub(crate) fn new(tensor: Tensor) -> Array {
        let (dtype, shape, bytes) =
            (tensor.dtype(), tensor.shape().to_vec(), tensor.bytes().clone());
        drop(tensor);
        // A copy where others share the memory, such as an array that Python code has given.
        Array { dtype, shape, memory: BytesMut::from(bytes) }
    }
}

#[pymethods]
impl Array {
    /// What numpy or `ml_dtypes` calls the type of the elements.
    #[getter]
    fn dtype(&self) -> String {
        numpy_name(self.dtype)
    }

    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("shape", pyo3::types::PyTuple::new(py, &self.shape)?)?;
        interface.set_item("typestr", typestr(self.dtype))?;
        let is_fixed = false;
        interface.set_item("data", (self.memory.as_ptr() as usize, is_fixed))?;
        Ok(interface)
    }
}

/// The type in the words of the interface; of types that numpy does not have, their bytes.
fn typestr(dtype: DType) -> String {
    let kind = match dtype {
        DType::Bool => 'b',
        DType::F32 | DType::F64 => 'f',
        dtype if dtype == DType::F16 => 'f',
        DType::Narrow(_) | DType::U8 | DType::U16 | DType::U32 | DType::U64 => 'u',
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => 'i',
    };
    let order = if cfg!(target_endian = "big") { '>' } else { '<' };
    format!("{order}{kind}{}", dtype.size())
}

/// Tensors for numpy, by name.
pub(crate) fn arrays(tensors: Tensors) -> Vec<(String, Array)> {
    tensors.into_iter().map(|(name, tensor)| (name, Array::new(tensor))).collect()
}
