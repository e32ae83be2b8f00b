//! ELF64, least significant byte first: sections and symbols, as far as files of kernels have them.

use quincunx_diag::{Diagnostic, Result};

/// The first bytes: magic, 64 bits, least significant byte first, version 1.
pub(super) const IDENT: [u8; 7] = [0x7f, b'E', b'L', b'F', 2, 1, 1];

/// The machine.
pub(super) const MACHINE: u16 = 205;

const HEADER: usize = 64;
const SECTION: usize = 64;
const SYMBOL: usize = 24;

/// Type of a section with code or data.
pub(super) const PROGBITS: u32 = 1;
const SYMTAB: u32 = 2;
const STRTAB: u32 = 3;
const NOBITS: u32 = 8;
/// Type of a section of notes.
pub(super) const NOTE: u32 = 7;

/// Code that is loaded: allocated, executable.
pub(super) const CODE: u64 = 6;

/// A global function; local ones have 2.
const FUNCTION: u8 = 2;

/// Most sections: two hundred times as many as any file that was seen.
const MAX_SECTIONS: usize = 4096;

/// Most symbols.
const MAX_SYMBOLS: usize = 1 << 16;

/// A section.
#[derive(Clone, Debug)]
pub(super) struct Section<'a> {
    pub(super) name: String,
    pub(super) kind: u32,
    /// Its first byte in the file.
    pub(super) at: usize,
    pub(super) bytes: &'a [u8],
    link: u32,
}

/// A function in a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Symbol {
    pub(super) name: String,
    /// Number of the section.
    pub(super) section: usize,
    pub(super) value: u64,
    pub(super) size: u64,
}

fn malformed(message: impl Into<String>, at: usize) -> Diagnostic {
    Diagnostic::invalid("Q6100", message).at_byte(at as u64)
}

/// A number of 2, 4 or 8 bytes.
fn number(bytes: &[u8], at: usize, size: usize) -> Result<u64> {
    let taken = bytes.get(at..at.saturating_add(size));
    let taken = taken.ok_or_else(|| malformed("the file ends within a table", at))?;
    Ok(taken.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

/// The text that starts at a byte of a table of strings.
fn string(strings: &[u8], at: u64) -> Option<String> {
    let rest = strings.get(usize::try_from(at).ok()?..)?;
    let end = rest.iter().position(|&byte| byte == 0)?;
    Some(String::from_utf8_lossy(rest.get(..end)?).into_owned())
}

/// The sections of a file.
///
/// # Errors
/// `Q6100` for what is no such file, or has tables or sections outside of it.
pub(super) fn sections(bytes: &[u8]) -> Result<Vec<Section<'_>>> {
    if !bytes.starts_with(&IDENT) {
        return Err(malformed("this is not ELF of 64 bits, least significant byte first", 0));
    }
    let machine = number(bytes, 18, 2)?;
    if machine != u64::from(MACHINE) {
        return Err(malformed(format!("the machine is {machine}, expected {MACHINE}"), 18));
    }
    let table = usize::try_from(number(bytes, 40, 8)?).unwrap_or(usize::MAX);
    let (size, count) = (number(bytes, 58, 2)?, number(bytes, 60, 2)? as usize);
    if size != SECTION as u64 {
        return Err(malformed(format!("a section header has {size} bytes, expected 64"), 58));
    }
    if count > MAX_SECTIONS {
        let message = format!("the file has {count} sections, expected at most {MAX_SECTIONS}");
        return Err(malformed(message, 60));
    }
    let mut headers = Vec::with_capacity(count);
    for index in 0..count {
        headers.push(header(bytes, table.saturating_add(index.saturating_mul(SECTION)))?);
    }
    let names = number(bytes, 62, 2)? as usize;
    let strings = headers.get(names).map(|(_, section)| section.bytes);
    let strings = strings.ok_or_else(|| malformed("the file has no names of sections", 62))?;
    let mut sections = Vec::with_capacity(count);
    for (index, (name, section)) in headers.into_iter().enumerate() {
        let at = table.saturating_add(index.saturating_mul(SECTION));
        let name = string(strings, name);
        let name = name.ok_or_else(|| malformed(format!("section {index} has no name"), at))?;
        sections.push(Section { name, ..section });
    }
    Ok(sections)
}

/// A section header: where its name begins, and the section without it.
fn header(bytes: &[u8], at: usize) -> Result<(u64, Section<'_>)> {
    let field = |offset: usize, size| number(bytes, at.saturating_add(offset), size);
    // The last field, so that the header is whole.
    field(56, 8)?;
    let name = field(0, 4)?;
    let kind = field(4, 4)? as u32;
    let (offset, size) = (field(24, 8)?, field(32, 8)?);
    let link = field(40, 4)? as u32;
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    let length = if kind == NOBITS || kind == 0 { 0 } else { size };
    let end = usize::try_from(length).ok().and_then(|length| start.checked_add(length));
    let own = match length {
        0 => Some(&[][..]),
        _ => end.and_then(|end| bytes.get(start..end)),
    };
    let own = own.ok_or_else(|| {
        malformed(format!("a section of {size} bytes at byte {offset} leaves the file"), at)
    })?;
    Ok((name, Section { name: String::new(), kind, at: start, bytes: own, link }))
}

/// The functions of all tables of symbols.
///
/// # Errors
/// `Q6100` for a table whose names are missing, or with too many symbols.
pub(super) fn functions(sections: &[Section<'_>]) -> Result<Vec<Symbol>> {
    let mut found = Vec::new();
    for table in sections.iter().filter(|section| section.kind == SYMTAB) {
        let strings = sections.get(table.link as usize).filter(|s| s.kind == STRTAB);
        let strings = strings.ok_or_else(|| malformed("the symbols have no names", table.at))?;
        for (index, entry) in table.bytes.chunks_exact(SYMBOL).enumerate() {
            let at = table.at.saturating_add(index.saturating_mul(SYMBOL));
            if found.len() >= MAX_SYMBOLS {
                return Err(malformed(format!("more than {MAX_SYMBOLS} symbols"), at));
            }
            if entry.get(4).is_none_or(|info| info & 15 != FUNCTION) {
                continue;
            }
            let name = string(strings.bytes, number(entry, 0, 4)?);
            found.push(Symbol {
                name: name.ok_or_else(|| malformed("a symbol has no name", at))?,
                section: number(entry, 6, 2)? as usize,
                value: number(entry, 8, 8)?,
                size: number(entry, 16, 8)?,
            });
        }
    }
    Ok(found)
}

/// A section to write.
pub(super) struct Out {
    pub(super) name: String,
    pub(super) kind: u32,
    pub(super) flags: u64,
    pub(super) bytes: Vec<u8>,
}

/// Strings, each ended by a zero byte; the first is empty.
struct Strings(Vec<u8>);

impl Strings {
    fn add(&mut self, text: &str) -> u32 {
        let at = self.0.len() as u32;
        self.0.extend(text.as_bytes());
        self.0.push(0);
        at
    }
}

/// Writes a relocatable file with these sections, `.symtab` and `.strtab` behind them. `functions`
/// are names with the index of their section among those given.
pub(super) fn write(sections: &[Out], functions: &[(&str, usize)]) -> Vec<u8> {
    let mut strings = Strings(vec![0]);
    let mut symbols = vec![0u8; SYMBOL];
    for (name, index) in functions {
        let size = sections.get(*index).map_or(0, |section| section.bytes.len());
        symbols.extend(strings.add(name).to_le_bytes());
        symbols.extend([FUNCTION, 0]);
        symbols.extend((index.saturating_add(1) as u16).to_le_bytes());
        symbols.extend(0u64.to_le_bytes());
        symbols.extend((size as u64).to_le_bytes());
    }
    let count = sections.len().saturating_add(3);
    let names = count.saturating_sub(1);
    let mut file = vec![0u8; HEADER];
    let mut headers = vec![0u8; SECTION];
    let mut place = |name: u32, kind: u32, flags: u64, bytes: &[u8], link: u32, info: u32| {
        file.resize(file.len().next_multiple_of(ALIGN), 0);
        let entry = if kind == SYMTAB { SYMBOL as u64 } else { 0 };
        headers.extend(name.to_le_bytes());
        headers.extend(kind.to_le_bytes());
        for number in [flags, 0, file.len() as u64, bytes.len() as u64] {
            headers.extend(number.to_le_bytes());
        }
        headers.extend(link.to_le_bytes());
        headers.extend(info.to_le_bytes());
        headers.extend((ALIGN as u64).to_le_bytes());
        headers.extend(entry.to_le_bytes());
        file.extend(bytes);
    };
    for section in sections {
        place(strings.add(&section.name), section.kind, section.flags, &section.bytes, 0, 0);
    }
    // All symbols are local: the first that is not has the number of symbols.
    let locals = symbols.len().checked_div(SYMBOL).unwrap_or(0) as u32;
    place(strings.add(".symtab"), SYMTAB, 0, &symbols, names as u32, locals);
    let own = strings.add(".strtab");
    place(own, STRTAB, 0, &strings.0, 0, 0);
    file.resize(file.len().next_multiple_of(ALIGN), 0);
    let table = file.len() as u64;
    file.extend(headers);
    let mut head = IDENT.to_vec();
    head.resize(16, 0);
    for number in [1u16, MACHINE] {
        head.extend(number.to_le_bytes());
    }
    head.extend(1u32.to_le_bytes());
    for number in [0u64, 0, table] {
        head.extend(number.to_le_bytes());
    }
    head.extend(0u32.to_le_bytes());
    for number in [HEADER as u16, 0, 0, SECTION as u16, count as u16, names as u16] {
        head.extend(number.to_le_bytes());
    }
    file.splice(..HEADER, head);
    file
}

/// Sections begin at multiples of this; code is fetched in lines of 64 bytes.
const ALIGN: usize = 64;
