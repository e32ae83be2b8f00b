//! Tensors of a model file in all their storage forms.

#![deny(clippy::arithmetic_side_effects)]

use crate::dtype;
use crate::packed::{stored_size, unpack};
use crate::proto::{EXTERNAL, EntryProto, TensorProto};
use bytes::Bytes;
use quincunx_diag::{Diagnostic, Result};
use quincunx_tensor::{DType, Element, Narrow, Shape, Tensor, element_count, show_shape};
use rustc_hash::FxHashMap;
use std::path::{Component, Path, PathBuf};

/// Largest extent that is accepted; as large as the graph's limit on elements.
pub(crate) const MAX_EXTENT: i64 = 1 << 40;

/// Most axes of a tensor. Far above any network; it bounds what a node can take in memory.
pub(crate) const MAX_RANK: usize = 32;

/// Files with external data, read once each.
#[derive(Default)]
pub(crate) struct External {
    base: Option<PathBuf>,
    /// By their real path: one file has many names.
    files: FxHashMap<PathBuf, Bytes>,
}

impl External {
    /// Looks files up in `base`.
    pub(crate) fn new(base: Option<PathBuf>) -> Self {
        External { base, files: FxHashMap::default() }
    }

    /// Bytes of all files that were read.
    pub(crate) fn size(&self) -> u64 {
        self.files.values().map(|bytes| bytes.len() as u64).sum()
    }

    fn read(&mut self, tensor: &str, entries: &[EntryProto], size: usize) -> Result<Bytes> {
        let location = entry(entries, "location")
            .ok_or_else(|| external(tensor, "has no location".to_owned()))?;
        let number = |key| match entry(entries, key) {
            None => Ok(None),
            Some(text) => text.parse::<usize>().map(Some).map_err(|_| {
                external(tensor, format!("has {key} {text:?}, expected a whole number"))
            }),
        };
        let start = number("offset")?.unwrap_or(0);
        let length = number("length")?.unwrap_or(size);
        let bytes = self.file(tensor, location)?;
        match start.checked_add(length) {
            Some(end) if end <= bytes.len() => Ok(bytes.slice(start..end)),
            _ => Err(external(
                tensor,
                format!(
                    "needs {length} bytes from byte {start} of {location:?}, which has {}",
                    bytes.len()
                ),
            )),
        }
    }

    fn file(&mut self, tensor: &str, location: &str) -> Result<Bytes> {
        let relative = Path::new(location);
        let plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if location.is_empty() || location.contains('\\') || !relative.components().all(plain) {
            return Err(external(tensor, format!("is at {location:?}"))
                .help("only paths inside the folder of the model are followed"));
        }
        let Some(base) = &self.base else {
            return Err(external(tensor, format!("is at {location:?}"))
                .help("the model comes without a folder; give it as a file"));
        };
        let wrong = |why| external(tensor, format!("is at {location:?}: {why}"));
        let path = real_path(base, relative).map_err(wrong)?;
        if let Some(bytes) = self.files.get(&path) {
            return Ok(bytes.clone());
        }
        let bytes = read_regular(&path).map_err(wrong)?;
        self.files.insert(path, bytes.clone());
        Ok(bytes)
    }
}

/// The path of a file that really is inside `base`, also after links are followed.
fn real_path(base: &Path, relative: &Path) -> std::result::Result<PathBuf, String> {
    let real = base.join(relative).canonicalize().map_err(|error| error.to_string())?;
    if !real.starts_with(base.canonicalize().map_err(|error| error.to_string())?) {
        return Err("it is a link that leaves the folder of the model".to_owned());
    }
    Ok(real)
}

fn read_regular(path: &Path) -> std::result::Result<Bytes, String> {
    let show = |error: std::io::Error| error.to_string();
    if !path.metadata().map_err(show)?.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    std::fs::read(path).map(Bytes::from).map_err(show)
}

pub(crate) fn entry<'e>(entries: &'e [EntryProto], key: &str) -> Option<&'e str> {
    entries.iter().find(|e| e.key.as_deref() == Some(key))?.value.as_deref()
}

fn external(tensor: &str, what: String) -> Diagnostic {
    Diagnostic::invalid("Q0413", format!("external data of tensor \"{tensor}\" {what}"))
}

/// The tensor a message describes. Raw and external data is shared, not copied.
///
/// # Errors
/// `Q0411` when dims, type and data do not fit together, `Q0412` when the element type is not
/// supported, `Q0413` when external data cannot be read.
pub(crate) fn read_tensor(proto: &TensorProto, files: &mut External) -> Result<Tensor> {
    let name = proto.name.as_deref().unwrap_or("");
    let dtype = dtype::from_onnx(proto.data_type.unwrap_or(0)).map_err(|found| {
        let message = format!("tensor \"{name}\" has element type {found}");
        match found {
            "undefined" | "unknown" => Diagnostic::invalid("Q0411", message),
            _ => Diagnostic::unsupported("Q0412", message).help(dtype::SUPPORTED),
        }
    })?;
    let shape = extents(&proto.dims).map_err(|what| broken(name, what))?;
    let count = element_count(&shape)
        .filter(|&count| count <= usize::try_from(MAX_EXTENT).unwrap_or(usize::MAX))
        .ok_or_else(|| broken(name, format!("of shape {} is too large", show_shape(&shape))))?;
    let size = stored_size(dtype, count)
        .ok_or_else(|| broken(name, format!("of shape {} is too large", show_shape(&shape))))?;
    let stored = if proto.data_location == Some(EXTERNAL) {
        files.read(name, &proto.external_data, size)?
    } else if let Some(raw) = &proto.raw_data {
        check_single_source(proto, name)?;
        raw.clone()
    } else {
        return typed(proto, dtype, &shape, count).map_err(|what| broken(name, what));
    };
    if stored.len() != size {
        let found = stored.len();
        let what = format!(
            "is damaged: shape {} and type {dtype} needs {size} bytes, found {found}",
            show_shape(&shape)
        );
        return Err(broken(name, what));
    }
    let tensor = Tensor::new(dtype, &shape, unpack(dtype, count, &stored))?;
    check_bools(&tensor).map_err(|what| broken(name, what))?;
    Ok(tensor)
}

/// Extents of a message as a shape.
fn extents(dims: &[i64]) -> std::result::Result<Shape, String> {
    if dims.len() > MAX_RANK {
        return Err(format!("has {} axes; at most {MAX_RANK} are accepted", dims.len()));
    }
    dims.iter()
        .map(|&dim| match usize::try_from(dim) {
            Ok(extent) if dim <= MAX_EXTENT => Ok(extent),
            _ => Err(format!("has extent {dim}; expected 0 to 2^40")),
        })
        .collect()
}

fn check_single_source(proto: &TensorProto, name: &str) -> Result<()> {
    let typed = [
        proto.float_data.len(),
        proto.int32_data.len(),
        proto.int64_data.len(),
        proto.double_data.len(),
        proto.uint64_data.len(),
    ];
    if typed == [0; 5] {
        return Ok(());
    }
    Err(broken(name, "has its elements twice, raw and typed".to_owned()))
}

fn check_bools(tensor: &Tensor) -> std::result::Result<(), String> {
    if tensor.dtype() != DType::Bool {
        return Ok(());
    }
    match tensor.bytes().iter().find(|&&byte| byte > 1) {
        Some(byte) => Err(format!("has the bool {byte}, expected 0 or 1")),
        None => Ok(()),
    }
}

/// Elements from the typed fields.
fn typed(
    proto: &TensorProto,
    dtype: DType,
    shape: &[usize],
    count: usize,
) -> std::result::Result<Tensor, String> {
    let ints = &proto.int32_data;
    match dtype {
        DType::F32 => build(shape, count, &proto.float_data, |&v| Some(v)),
        DType::F64 => build(shape, count, &proto.double_data, |&v| Some(v)),
        DType::I8 => build(shape, count, ints, |&v| i8::try_from(v).ok()),
        DType::I16 => build(shape, count, ints, |&v| i16::try_from(v).ok()),
        DType::I32 => build(shape, count, ints, |&v| Some(v)),
        DType::I64 => build(shape, count, &proto.int64_data, |&v| Some(v)),
        DType::U8 => build(shape, count, ints, |&v| u8::try_from(v).ok()),
        DType::U16 => build(shape, count, ints, |&v| u16::try_from(v).ok()),
        DType::U32 => build(shape, count, &proto.uint64_data, |&v| u32::try_from(v).ok()),
        DType::U64 => build(shape, count, &proto.uint64_data, |&v| Some(v)),
        DType::Narrow(narrow) => coded(ints, narrow, shape, count),
        DType::Bool => {
            let bools = build(shape, count, ints, |&v| u8::try_from(v).ok().filter(|&v| v <= 1))?;
            Tensor::new(DType::Bool, shape, bools.bytes().clone())
                .map_err(|problem| problem.message().to_owned())
        }
    }
}

/// Elements of a narrow type: codes of 8 and 16 bits, and bytes of packed ones, each in an int32.
fn coded(
    codes: &[i32],
    narrow: Narrow,
    shape: &[usize],
    count: usize,
) -> std::result::Result<Tensor, String> {
    let dtype = DType::Narrow(narrow);
    let show = |problem: Diagnostic| problem.message().to_owned();
    if narrow.bits() == 16 {
        let codes = build(shape, count, codes, |&v| u16::try_from(v).ok())?;
        return Tensor::new(dtype, shape, codes.bytes().clone()).map_err(show);
    }
    let size = stored_size(dtype, count).unwrap_or(usize::MAX);
    if codes.len() != size {
        return Err(format!(
            "of shape {} and type {dtype} needs {size} elements of int32_data, found {}",
            show_shape(shape),
            codes.len()
        ));
    }
    // Some writers extend the sign of a byte.
    let byte = |&v: &i32| u8::try_from(v).ok().or_else(|| i8::try_from(v).ok().map(|v| v as u8));
    let bytes: Option<Vec<u8>> = codes.iter().map(byte).collect();
    let bytes =
        bytes.ok_or_else(|| format!("has an element of int32_data that {dtype} cannot hold"))?;
    Tensor::new(dtype, shape, unpack(dtype, count, &bytes.into())).map_err(show)
}

fn build<S: std::fmt::Display, T: Element>(
    shape: &[usize],
    count: usize,
    source: &[S],
    convert: impl Fn(&S) -> Option<T>,
) -> std::result::Result<Tensor, String> {
    if source.len() != count {
        return Err(format!(
            "of shape {} and type {} needs {count} elements, found {}",
            show_shape(shape),
            T::DTYPE,
            source.len()
        ));
    }
    let values = source
        .iter()
        .map(|v| {
            convert(v).ok_or_else(|| format!("has element {v}, which {} cannot hold", T::DTYPE))
        })
        .collect::<std::result::Result<Vec<T>, _>>()?;
    Tensor::from_vec(shape, values).map_err(|problem| problem.message().to_owned())
}

fn broken(name: &str, what: String) -> Diagnostic {
    Diagnostic::invalid("Q0411", format!("tensor \"{name}\" {what}"))
}

/// Numbers of a float type; f32 where it is none.
pub(crate) fn real_tensor(dtype: DType, shape: &[usize], values: &[f64]) -> Result<Tensor> {
    let exact = Tensor::from_vec(shape, values.to_vec())?;
    match dtype {
        DType::Narrow(narrow) => exact.narrow(narrow, narrow.overflow()),
        DType::F64 => Ok(exact),
        _ => Tensor::from_vec(shape, values.iter().map(|&v| v as f32).collect()),
    }
}
