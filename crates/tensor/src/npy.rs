//! `.npy` and `.npz` files.
//!
//! All `.npy` versions, byte orders and both element orders are read; bool, integers of 8 to 64
//! bits, `f2`, `f4` and `f8`. A header that lies about its size costs nothing: elements are never
//! allocated before the file is known to hold them, and what an archive unpacks to is bounded by
//! 128 MiB plus 16 times its size.
//!
//! Files are written in one way only, so equal tensors give equal bytes.

#![deny(clippy::arithmetic_side_effects)]

use crate::view::View;
use crate::{DType, Narrow, Shape, Tensor, Tensors, element_count, show_shape};
use bytes::Bytes;
use quincunx_diag::{Diagnostic, Result};
use std::collections::BTreeSet;
use std::fs;
use std::io::{Cursor, Read, Write};
use std::path::Path;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

const MAGIC: &[u8] = b"\x93NUMPY";
/// Bytes before the header: the magic, the version and the length of the header.
const PREFIX: usize = MAGIC.len() + 4;
const LONG_PREFIX: usize = MAGIC.len() + 6;

/// First bytes of an archive: with members, and empty.
const ZIP_MAGICS: [&[u8]; 2] = [b"PK\x03\x04", b"PK\x05\x06"];

/// More than the header of any array that is not structured.
const MAX_HEADER: usize = 1 << 20;

/// An archive may unpack to this much, and [`UNPACK_FACTOR`] times its size.
const UNPACK_BASE: u64 = 128 << 20;
const UNPACK_FACTOR: u64 = 16;

/// Reads a `.npy` file. The tensor shares the file's memory where the file is in row-major order
/// and little-endian.
///
/// # Errors
/// `Q0204` when the header is malformed, `Q0205` when the element type is not supported, `Q0206`
/// when the file has too few or too many bytes of elements.
pub fn read_npy(bytes: impl Into<Bytes>) -> Result<Tensor> {
    let bytes = bytes.into();
    let (text, start) = header_text(&bytes)?;
    let header = Header::parse(text)?;
    let expected = element_count(&header.shape).and_then(|n| n.checked_mul(header.dtype.size()));
    let found = bytes.len().saturating_sub(start);
    if expected != Some(found) {
        let needed = expected.map_or("too many".to_owned(), |bytes| bytes.to_string());
        return Err(Diagnostic::invalid(
            "Q0206",
            format!(
                "array of shape {} and type {} needs {needed} bytes, found {found}",
                show_shape(&header.shape),
                header.dtype
            ),
        )
        .at_byte(start as u64));
    }
    header.tensor(bytes.slice(start..))
}

/// A `.npy` file: version 1.0, row-major, little-endian. numpy has no form for narrow types but
/// float16; they are widened.
pub fn write_npy(tensor: &Tensor) -> Vec<u8> {
    let tensor = match tensor.dtype() {
        DType::Narrow(narrow) if narrow != Narrow::F16 => &tensor.widen(),
        _ => tensor,
    };
    let mut shape = tensor.shape().iter().map(|e| format!("{e},")).collect::<Vec<_>>().join(" ");
    if tensor.shape().len() > 1 {
        shape.pop(); // Only a tuple of one element ends in a comma.
    }
    let descr = descr(tensor.dtype());
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    // Version 2 has a longer length field, for tensors of thousands of axes.
    let wide = text.len() > (u16::MAX - 64).into();
    let prefix = if wide { LONG_PREFIX } else { PREFIX };
    let start = prefix.saturating_add(text.len()).saturating_add(1).next_multiple_of(64);
    let length = start.saturating_sub(prefix);
    let mut file = Vec::with_capacity(start.saturating_add(tensor.bytes().len()));
    file.extend_from_slice(MAGIC);
    if wide {
        file.extend_from_slice(&[2, 0]);
        file.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    } else {
        file.extend_from_slice(&[1, 0]);
        file.extend_from_slice(&u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes());
    }
    file.extend_from_slice(text.as_bytes());
    file.resize(start.saturating_sub(1), b' ');
    file.push(b'\n');
    file.extend_from_slice(tensor.bytes());
    file
}

/// Reads a `.npz` archive: stored or deflated members, with or without ZIP64. Names are the member
/// names without `.npy`.
///
/// # Errors
/// `Q0207` when the archive is malformed, `Q0208` when it unpacks to more than 128 MiB plus 16
/// times its size; problems of a member name it.
pub fn read_npz(bytes: impl Into<Bytes>) -> Result<Tensors> {
    let bytes = bytes.into();
    let mut left = UNPACK_FACTOR.saturating_mul(bytes.len() as u64).saturating_add(UNPACK_BASE);
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|e| bad_archive(&e))?;
    let mut tensors = Tensors::new();
    for index in 0..archive.len() {
        let member = archive.by_index(index).map_err(|e| bad_archive(&e))?;
        let name = member.name().map_err(|e| bad_archive(&e))?.into_owned();
        let Some(key) = name.strip_suffix(".npy") else {
            return Err(Diagnostic::unsupported(
                "Q0207",
                format!("member {name:?} is not a .npy file"),
            )
            .help("an .npz archive holds .npy files only"));
        };
        let content = unpack(member, &name, &mut left)?;
        let tensor = read_npy(content)
            .map_err(|problem| problem.with_note(format!("in member {name:?}")))?;
        if tensors.insert(key.to_owned(), tensor).is_some() {
            return Err(Diagnostic::invalid("Q0207", format!("two members are named {name:?}")));
        }
    }
    Ok(tensors)
}

/// A `.npz` archive: members in name order, stored, with a fixed time stamp.
///
/// # Errors
/// `Q0207` when the tensors do not fit an archive.
pub fn write_npz(tensors: &Tensors) -> Result<Vec<u8>> {
    write_npz_in_order(tensors, &[])
}

/// As [`write_npz`], but members with these names come first, in this order.
///
/// # Errors
/// As [`write_npz`].
pub fn write_npz_in_order(tensors: &Tensors, order: &[String]) -> Result<Vec<u8>> {
    let mut seen = BTreeSet::new();
    let first = order.iter().filter_map(|name| tensors.get_key_value(name));
    let members = first.chain(tensors).filter(|(name, _)| seen.insert(*name));
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, tensor) in members {
        let member = write_npy(tensor);
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .last_modified_time(DateTime::default())
            .unix_permissions(0o644)
            .large_file(member.len() >= u32::MAX as usize);
        archive.start_file(format!("{name}.npy"), options).map_err(|e| bad_archive(&e))?;
        archive.write_all(&member).map_err(|e| bad_archive(&e))?;
    }
    archive.finish().map(Cursor::into_inner).map_err(|e| bad_archive(&e))
}

/// Reads a `.npy` or `.npz` file; its first bytes say which. The one tensor of a `.npy` file is
/// under the empty name.
///
/// # Errors
/// `Q0209` when the file cannot be read or is neither; otherwise as [`read_npy`] and [`read_npz`].
pub fn read_file(path: &Path) -> Result<Tensors> {
    let name = path.display().to_string();
    let bytes = Bytes::from(fs::read(path).map_err(|error| {
        Diagnostic::system("Q0209", "read the file", &error).in_file(path.display().to_string())
    })?);
    let tensors = if bytes.starts_with(MAGIC) {
        read_npy(bytes).map(|tensor| Tensors::from([(String::new(), tensor)]))
    } else if ZIP_MAGICS.iter().any(|magic| bytes.starts_with(magic)) {
        read_npz(bytes)
    } else {
        Err(Diagnostic::invalid("Q0209", "the file is neither .npy nor .npz"))
    };
    tensors.map_err(|problem| problem.name_file(&name))
}

/// The contents of a file whose name ends in `.npy` (exactly one tensor, whatever its name) or any
/// other, which is a `.npz`.
///
/// # Errors
/// `Q0209` when there is not exactly one tensor for `.npy`.
pub fn write_as(path: &Path, tensors: &Tensors) -> Result<Vec<u8>> {
    let is_npy = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npy"));
    match tensors.values().next() {
        Some(tensor) if is_npy && tensors.len() == 1 => Ok(write_npy(tensor)),
        _ if is_npy => {
            let message = format!("a .npy file holds one tensor, found {}", tensors.len());
            Err(Diagnostic::usage("Q0209", message)
                .in_file(path.display().to_string())
                .help("write a .npz file"))
        }
        _ => write_npz(tensors),
    }
}

fn bad_archive(error: &dyn std::fmt::Display) -> Diagnostic {
    Diagnostic::invalid("Q0207", format!("malformed .npz archive: {error}"))
}

/// The content of a member, of at most `left` bytes.
fn unpack(member: impl Read, name: &str, left: &mut u64) -> Result<Bytes> {
    let mut content = Vec::new();
    // What the archive says about the size is not trusted; the bytes are counted.
    let size = member.take(left.saturating_add(1)).read_to_end(&mut content).map_err(|error| {
        Diagnostic::invalid("Q0207", format!("member {name:?} cannot be unpacked: {error}"))
    })?;
    *left = left.checked_sub(size as u64).ok_or_else(|| {
        Diagnostic::invalid("Q0208", format!("the archive unpacks to far too much in {name:?}"))
            .help("an archive may unpack to 128 MiB plus 16 times its size")
    })?;
    Ok(content.into())
}

/// The dict literal of the header and the offset of the elements.
fn header_text(bytes: &[u8]) -> Result<(&str, usize)> {
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        return Err(bad_header("the file does not begin like a .npy file", 0));
    };
    let cut = || bad_header("the header is cut off", bytes.len());
    let (length, start) = match rest {
        [1, _, a, b, ..] => (usize::from(u16::from_le_bytes([*a, *b])), PREFIX),
        [2 | 3, _, a, b, c, d, ..] => {
            let length = u32::from_le_bytes([*a, *b, *c, *d]);
            (usize::try_from(length).unwrap_or(usize::MAX), LONG_PREFIX)
        }
        [1..=3, ..] | [] => return Err(cut()),
        [version, ..] => {
            return Err(Diagnostic::unsupported(
                "Q0204",
                format!(".npy version {version}; versions 1 to 3 are supported"),
            ));
        }
    };
    if length > MAX_HEADER {
        return Err(bad_header(&format!("a header of {length} bytes is too long"), MAGIC.len()));
    }
    let end = start.saturating_add(length);
    let text = bytes.get(start..end).ok_or_else(cut)?;
    let text =
        std::str::from_utf8(text).map_err(|_| bad_header("the header is not valid text", start))?;
    Ok((text, end))
}

fn bad_header(what: &str, offset: usize) -> Diagnostic {
    Diagnostic::invalid("Q0204", what).at_byte(offset as u64)
}

/// What a header says.
struct Header {
    dtype: DType,
    swapped: bool,
    column_major: bool,
    shape: Shape,
}

impl Header {
    /// Reads a dict with exactly the keys `descr`, `fortran_order` and `shape`.
    fn parse(text: &str) -> Result<Self> {
        let mut literal = Literal { text, at: 0 };
        let (mut descr, mut order, mut shape) = (None, None, None);
        literal.expect('{')?;
        while !literal.accept('}') {
            let key = literal.string()?;
            literal.expect(':')?;
            let twice = match key {
                "descr" => descr.replace(literal.descr()?).is_some(),
                "fortran_order" => order.replace(literal.bool()?).is_some(),
                "shape" => shape.replace(literal.tuple()?).is_some(),
                _ => return Err(literal.error(&format!("unknown key {key:?}"))),
            };
            if twice {
                return Err(literal.error(&format!("key {key:?} is given twice")));
            }
            if !literal.accept(',') {
                literal.expect('}')?;
                break;
            }
        }
        literal.end()?;
        let missing = |key| bad_header(&format!("the header has no key '{key}'"), 0);
        let (dtype, swapped) = element_type(descr.ok_or_else(|| missing("descr"))?)?;
        Ok(Header {
            dtype,
            swapped,
            column_major: order.ok_or_else(|| missing("fortran_order"))?,
            shape: shape.ok_or_else(|| missing("shape"))?,
        })
    }

    /// The tensor, from exactly the elements.
    fn tensor(&self, bytes: Bytes) -> Result<Tensor> {
        if let (DType::Bool, Some(byte)) = (self.dtype, bytes.iter().find(|&&byte| byte > 1)) {
            return Err(Diagnostic::invalid("Q0206", format!("bool {byte}, expected 0 or 1")));
        }
        let size = self.dtype.size();
        let bytes = if self.swapped && size > 1 { swap(&bytes, size) } else { bytes };
        let trivial = self.shape.len() < 2 || bytes.is_empty();
        let bytes = if self.column_major && !trivial {
            match size {
                1 => self.transpose::<u8>(&bytes),
                2 => self.transpose::<u16>(&bytes),
                4 => self.transpose::<u32>(&bytes),
                _ => self.transpose::<u64>(&bytes),
            }
        } else {
            bytes
        };
        Tensor::new(self.dtype, &self.shape, bytes)
    }

    /// Column-major elements in row-major order.
    fn transpose<T: bytemuck::Pod>(&self, bytes: &[u8]) -> Bytes {
        let elements: Vec<T> = bytemuck::pod_collect_to_vec(bytes);
        let reversed: Shape = self.shape.iter().rev().copied().collect();
        let axes: Shape = (0..reversed.len()).rev().collect();
        let rows = View::new(&elements, &reversed).permute(&axes).to_vec();
        Bytes::from(bytemuck::cast_slice(&rows).to_vec())
    }
}

fn swap(bytes: &[u8], size: usize) -> Bytes {
    let mut swapped = bytes.to_vec();
    swapped.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    swapped.into()
}

/// Element type of a `descr`, and whether its bytes must be swapped.
fn element_type(descr: &str) -> Result<(DType, bool)> {
    let (order, kind) = match descr.chars().next() {
        Some(order @ ('<' | '>' | '|' | '=')) => (order, &descr[1..]),
        _ => ('=', descr),
    };
    let dtype = match kind {
        "b1" | "?" => DType::Bool,
        "i1" => DType::I8,
        "i2" => DType::I16,
        "i4" => DType::I32,
        "i8" => DType::I64,
        "u1" => DType::U8,
        "u2" => DType::U16,
        "u4" => DType::U32,
        "u8" => DType::U64,
        "f2" => DType::F16,
        "f4" => DType::F32,
        "f8" => DType::F64,
        _ => return Err(unsupported_type(descr)),
    };
    let little = cfg!(target_endian = "little");
    Ok((dtype, order == '>' || (order == '=' && !little)))
}

fn unsupported_type(descr: &str) -> Diagnostic {
    let kind = match descr.trim_start_matches(['<', '>', '|', '=']) {
        "O" => "Python object ",
        kind if kind.starts_with('c') => "complex ",
        kind if kind.starts_with(['U', 'S', 'a']) => "text ",
        _ => "",
    };
    Diagnostic::unsupported("Q0205", format!("array of {kind}type {descr:?} is not supported"))
        .help(
            "supported: bool, integers of 8 to 64 bits, and floats of 16, 32 and 64 bits; convert \
             with .astype",
        )
}

/// The `descr` that numpy writes.
fn descr(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "|b1",
        DType::I8 => "|i1",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::U8 => "|u1",
        DType::U16 => "<u2",
        DType::U32 => "<u4",
        DType::U64 => "<u8",
        DType::Narrow(_) => "<f2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
    }
}

/// Reads the Python literals a header is made of. There is no nesting to follow: the only nested
/// value is the `descr` of a structured array, which is refused at its bracket.
struct Literal<'a> {
    text: &'a str,
    at: usize,
}

/// Far more axes than numpy allows (64).
const MAX_AXES: usize = 256;

impl<'a> Literal<'a> {
    fn error(&self, what: &str) -> Diagnostic {
        bad_header(&format!("malformed header at character {}: {what}", self.at), 0)
    }

    /// What follows after blanks.
    fn rest(&mut self) -> &'a str {
        let trimmed = self.text[self.at..].trim_start_matches([' ', '\t', '\n', '\r']);
        self.at = self.text.len().saturating_sub(trimmed.len());
        trimmed
    }

    /// Goes on behind so many bytes.
    fn skip(&mut self, length: usize) {
        self.at = self.at.saturating_add(length).min(self.text.len());
    }

    fn accept(&mut self, wanted: char) -> bool {
        let found = self.rest().starts_with(wanted);
        if found {
            self.skip(wanted.len_utf8());
        }
        found
    }

    fn expect(&mut self, wanted: char) -> Result<()> {
        if self.accept(wanted) { Ok(()) } else { Err(self.error(&format!("expected {wanted:?}"))) }
    }

    fn end(&mut self) -> Result<()> {
        if self.rest().is_empty() { Ok(()) } else { Err(self.error("expected the end")) }
    }

    /// A text in single or double quotes, without escapes.
    fn string(&mut self) -> Result<&'a str> {
        let rest = self.rest();
        let quote = rest.chars().next().filter(|&c| c == '\'' || c == '"');
        let quote = quote.ok_or_else(|| self.error("expected a quoted text"))?;
        let inner = &rest[1..];
        let length = inner.find(quote).ok_or_else(|| self.error("the text has no end"))?;
        if inner[..length].contains('\\') {
            return Err(self.error("escapes are not supported"));
        }
        // With its quotes.
        self.skip(length.saturating_add(2));
        Ok(&inner[..length])
    }

    fn descr(&mut self) -> Result<&'a str> {
        if self.rest().starts_with(['[', '(']) {
            return Err(Diagnostic::unsupported("Q0205", "structured arrays are not supported")
                .help("save each field as an array of its own"));
        }
        self.string()
    }

    fn bool(&mut self) -> Result<bool> {
        for (word, value) in [("True", true), ("False", false)] {
            if self.rest().starts_with(word) {
                self.skip(word.len());
                return Ok(value);
            }
        }
        Err(self.error("expected True or False"))
    }

    /// A tuple of extents.
    fn tuple(&mut self) -> Result<Shape> {
        let mut extents = Shape::new();
        self.expect('(')?;
        while !self.accept(')') {
            if extents.len() == MAX_AXES {
                return Err(self.error("too many axes"));
            }
            extents.push(self.extent()?);
            if !self.accept(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(extents)
    }

    fn extent(&mut self) -> Result<usize> {
        let rest = self.rest();
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let extent = rest[..digits].parse().map_err(|_| self.error("expected an extent"))?;
        self.skip(digits);
        // Python 2 wrote long integers as 3L.
        if self.text[self.at..].starts_with('L') {
            self.skip(1);
        }
        Ok(extent)
    }
}
