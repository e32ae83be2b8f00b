//! The shell of vISA byte code ("CISA"): header, strings, variables, instructions of one kernel.
//!
//! Facts: `visa` (`docs/bibliography.md`). Widths of counts that it leaves open are ours: 4 bytes
//! for variables, inputs and sizes, 2 for address and predicate variables and attributes, 1 for
//! samplers and surfaces. `ret` has no byte code in our sources: a stream ends where the kernel
//! does, the writer leaves `ret` out and the reader puts it back.

use crate::binary::visa::{Form, read as read_stream, write as write_stream};
use crate::program::{Align, Element, FIRST_VARIABLE, Kernel, Variable};
use crate::text::visa::{is_name, is_printable};
use quincunx_diag::{Diagnostic, Result};
use std::collections::BTreeSet;

/// The first bytes.
pub const MAGIC: &[u8] = b"CISA";

/// Versions below this one have short indices of variables: major, minor.
const LONG_INDEX: (u8, u8) = (3, 4);

/// Bounds the memory that names of one byte take.
const MAX_STRINGS: usize = 1 << 20;

/// A reader that knows where it is.
struct Bytes<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let end = self.at.saturating_add(count);
        let Some(taken) = self.bytes.get(self.at..end) else {
            let left = self.bytes.len().saturating_sub(self.at);
            let message = format!("the file ends: {count} bytes are needed and {left} are left");
            return Err(Diagnostic::invalid("Q6030", message).at_byte(self.at as u64));
        };
        self.at = end;
        Ok(taken)
    }

    fn number(&mut self, count: usize) -> Result<u32> {
        let bytes = self.take(count)?;
        Ok(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte)))
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    /// A count of things that are not supported.
    fn none(&mut self, count: usize, what: &str) -> Result<()> {
        let at = self.at as u64;
        match self.number(count)? {
            0 => Ok(()),
            number => {
                let message = format!("the kernel has {number} {what}");
                Err(Diagnostic::unsupported("Q6032", message)
                    .at_byte(at)
                    .help("only general and predicate variables are read"))
            }
        }
    }

    fn fail(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::invalid("Q6036", message).at_byte(self.at as u64)
    }
}

/// Reads the kernel of a file.
///
/// # Errors
/// `Q6030` for a file that ends early, `Q6032` for what is not supported, `Q6036` for numbers that
/// mean nothing, and those of the instructions.
pub fn read(bytes: &[u8], form: Option<Form>) -> Result<Kernel> {
    let ours = "where the documents leave this format open, its form is ours, and only dpas and dpasw are \
                read: files of other tools may be refused; vISA text is read as well, where it holds \
                declarations, dpas and dpasw alone";
    read_file(bytes, form).map_err(|problem| problem.with_note(ours))
}

fn read_file(bytes: &[u8], form: Option<Form>) -> Result<Kernel> {
    let mut file = Bytes { bytes, at: 0 };
    if file.take(4)? != MAGIC {
        return Err(Diagnostic::invalid("Q6036", "the file does not begin with CISA").at_byte(0));
    }
    let version = (file.byte()?, file.byte()?);
    let kernels = file.number(2)?;
    if kernels != 1 {
        let message = format!("the file has {kernels} kernels, expected 1");
        return Err(Diagnostic::unsupported("Q6032", message).at_byte(6));
    }
    let length = file.number(2)? as usize;
    file.take(length)?;
    let offset = file.number(4)? as usize;
    let size = file.number(4)? as usize;
    file.number(4)?;
    file.none(2, "variable symbols")?;
    file.none(2, "function symbols")?;
    file.none(1, "native binaries")?;
    file.none(2, "file variables")?;
    file.none(2, "functions")?;
    let kernel = offset.checked_add(size).and_then(|end| bytes.get(..end));
    let Some(kernel) = kernel.filter(|_| offset >= file.at) else {
        return Err(file.fail("the kernel lies outside of the file"));
    };
    read_kernel(Bytes { bytes: kernel, at: offset }, version, form)
}

fn read_kernel(mut file: Bytes<'_>, version: (u8, u8), form: Option<Form>) -> Result<Kernel> {
    let start = file.at;
    let strings = read_strings(&mut file)?;
    let text = |index: u32| strings.get(index as usize).map(String::as_str);
    let name = file.number(4)?;
    let name: String =
        text(name).unwrap_or_default().chars().filter(|&c| is_printable(c)).collect();
    let mut kernel = Kernel { version, name, ..Kernel::new() };
    let mut taken = BTreeSet::new();
    for position in 0..file.number(4)? {
        let (name, variable) = read_variable(&mut file, &strings, position)?;
        let fits = is_name(name) && taken.insert(name.to_owned());
        let name = if fits { name.to_owned() } else { fresh(&mut taken, position) };
        kernel.variables.push(Variable { name, ..variable });
    }
    file.none(2, "address variables")?;
    for position in 0..file.number(2)? {
        let (index, count) = (file.number(4)?, file.number(2)? as u16);
        file.none(1, "attributes of a predicate")?;
        let name = text(index).unwrap_or_default();
        let fits = is_name(name) && taken.insert(name.to_owned());
        let name = if fits {
            name.to_owned()
        } else {
            fresh(&mut taken, position.saturating_add(1_000_000))
        };
        kernel.predicates.push((name, count));
    }
    file.none(1, "samplers")?;
    file.none(1, "surfaces")?;
    file.none(4, "inputs")?;
    let size = file.number(4)? as usize;
    let offset = file.number(4)? as usize;
    file.none(2, "attributes")?;
    let first = start.checked_add(offset).filter(|&first| first >= file.at);
    let code = first.and_then(|first| file.bytes.get(first..first.checked_add(size)?));
    let code = code.ok_or_else(|| file.fail("the instructions lie outside of the kernel"))?;
    let shift = |problem: Diagnostic| problem.with_note("an offset is from the first instruction");
    kernel.instructions = read_stream(code, version < LONG_INDEX, form).map_err(shift)?.0;
    Ok(kernel)
}

/// A name that is not taken.
fn fresh(taken: &mut BTreeSet<String>, position: u32) -> String {
    let mut name = format!("V{}", FIRST_VARIABLE.saturating_add(position));
    while !taken.insert(name.clone()) {
        name.push('_');
    }
    name
}

fn read_strings(file: &mut Bytes<'_>) -> Result<Vec<String>> {
    let count = file.number(4)? as usize;
    if count > MAX_STRINGS {
        return Err(file.fail(format!("{count} strings, expected at most {MAX_STRINGS}")));
    }
    let mut strings = Vec::new();
    for _ in 0..count {
        let rest = file.bytes.get(file.at..).unwrap_or_default();
        let end = rest.iter().position(|&byte| byte == 0);
        let end = end.ok_or_else(|| file.fail("a string has no end"))?;
        strings.push(String::from_utf8_lossy(file.take(end)?).into_owned());
        file.byte()?;
    }
    Ok(strings)
}

fn read_variable<'a>(
    file: &mut Bytes<'_>,
    strings: &'a [String],
    position: u32,
) -> Result<(&'a str, Variable)> {
    let name = file.number(4)?;
    let kind = file.byte()?;
    let elements = file.number(2)?;
    let (alias, offset) = (file.number(4)?, file.number(2)?);
    file.byte()?;
    file.none(1, "attributes of a variable")?;
    let element = Element::from_number(kind & 15)
        .ok_or_else(|| file.fail(format!("{} is not a type of a variable", kind & 15)))?;
    let align = Align::from_number(kind >> 4)
        .ok_or_else(|| file.fail(format!("{} is not an alignment", kind >> 4)))?;
    let alias = match alias {
        0 => None,
        index if (FIRST_VARIABLE..FIRST_VARIABLE.saturating_add(position)).contains(&index) => {
            Some((index, offset))
        }
        index => {
            return Err(file.fail(format!("the alias {index} is not an earlier variable")));
        }
    };
    let name = strings.get(name as usize).map_or("", String::as_str);
    Ok((name, Variable { name: String::new(), element, elements, align, alias }))
}

/// Writes a kernel with its shell.
///
/// # Errors
/// `Q6037` for what the format cannot hold, `Q6016` for an index that is too large.
pub fn write(kernel: &Kernel, form: Form) -> Result<Vec<u8>> {
    let body = write_kernel(kernel, form)?;
    let mut out = MAGIC.to_vec();
    out.extend([kernel.version.0, kernel.version.1]);
    out.extend(1u16.to_le_bytes());
    out.extend(fits16(kernel.name.len() as u64, "bytes of the name")?.to_le_bytes());
    out.extend(kernel.name.as_bytes());
    // No inputs, symbols, native binaries, file variables and functions.
    let nothing = [0; 4 + 2 + 2 + 1 + 2 + 2];
    let header = out.len().saturating_add(4 + 4).saturating_add(nothing.len());
    out.extend((header as u32).to_le_bytes());
    out.extend((body.len() as u32).to_le_bytes());
    out.extend(nothing);
    out.extend(body);
    Ok(out)
}

fn fits16(number: u64, what: &str) -> Result<u16> {
    u16::try_from(number).map_err(|_| {
        Diagnostic::unsupported("Q6037", format!("byte code cannot hold {number} {what}"))
    })
}

fn write_kernel(kernel: &Kernel, form: Form) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let variables = kernel.variables.iter().map(|variable| variable.name.as_str());
    let predicates = kernel.predicates.iter().map(|(name, _)| name.as_str());
    // The first string is empty, the second the name.
    let strings: Vec<&str> =
        ["", kernel.name.as_str()].into_iter().chain(variables).chain(predicates).collect();
    out.extend((strings.len() as u32).to_le_bytes());
    for string in &strings {
        out.extend(string.as_bytes());
        out.push(0);
    }
    out.extend(1u32.to_le_bytes());
    out.extend((kernel.variables.len() as u32).to_le_bytes());
    let mut names = 2_u32..;
    for (variable, name) in kernel.variables.iter().zip(names.by_ref()) {
        out.extend(name.to_le_bytes());
        out.push(variable.element.number() | variable.align.number() << 4);
        out.extend(fits16(variable.elements.into(), "elements of a variable")?.to_le_bytes());
        let (alias, offset) = variable.alias.unwrap_or((0, 0));
        out.extend(alias.to_le_bytes());
        out.extend(fits16(offset.into(), "bytes of an alias")?.to_le_bytes());
        out.extend([0, 0]);
    }
    out.extend(0u16.to_le_bytes());
    out.extend(fits16(kernel.predicates.len() as u64, "predicates")?.to_le_bytes());
    for ((_, count), name) in kernel.predicates.iter().zip(names) {
        out.extend(name.to_le_bytes());
        out.extend(count.to_le_bytes());
        out.push(0);
    }
    out.extend([0; 2 + 4]);
    let code = write_stream(&kernel.instructions, kernel.version < LONG_INDEX, form)?;
    out.extend((code.len() as u32).to_le_bytes());
    let offset = out.len().saturating_add(4 + 2);
    out.extend((offset as u32).to_le_bytes());
    out.extend(0u16.to_le_bytes());
    out.extend(code);
    Ok(out)
}
