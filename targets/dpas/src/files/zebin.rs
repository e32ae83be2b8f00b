//! Files of kernels as the vendor's compiler writes them ("zebin"): ELF with machine code in
//! `.text.NAME` and a description in `.ze_info`.
//!
//! Facts: `ocloc` (`docs/bibliography.md`). Other sections and fields are left aside.

mod elf;
mod info;
mod yaml;

use crate::arch::Platform;
use crate::binary;
use crate::program::device::Kernel;
use quincunx_diag::{Diagnostic, Problems, Result};
use std::collections::BTreeSet;

/// Type of the section `.ze_info`.
const INFO: u32 = 0xff00_0011;

/// Most bytes of machine code of all kernels; sections may share bytes of the file.
const MAX_CODE: usize = 16 << 20;

/// Kernels and the warnings of their reading.
pub type Read = (Vec<Kernel>, Vec<Diagnostic>);

/// True for the start of such a file.
pub fn recognises(bytes: &[u8]) -> bool {
    bytes.starts_with(&elf::IDENT) && bytes.get(18..20) == Some(&elf::MACHINE.to_le_bytes()[..])
}

/// Reads the kernels of a file.
///
/// # Errors
/// `Q6100` for what is no such file, `Q6102` for sections that are missing, `Q6103` and `Q6104` for
/// what is wrong in `.ze_info`, `Q6105` for contradictions. Warnings are `Q6106`, and those of
/// machine code.
pub fn read(bytes: &[u8], platform: Platform) -> std::result::Result<Read, Vec<Diagnostic>> {
    let sections = elf::sections(bytes)?;
    let functions = elf::functions(&sections)?;
    let info = sections.iter().find(|section| section.name == ".ze_info");
    let info = info.ok_or_else(|| missing("the file has no section .ze_info"))?;
    if info.kind != INFO {
        let message = format!(".ze_info is of type {:#x}, expected {INFO:#x}", info.kind);
        return Err(Diagnostic::invalid("Q6105", message).at_byte(info.at as u64).into());
    }
    let text = std::str::from_utf8(info.bytes).map_err(|error| {
        let at = info.at.saturating_add(error.valid_up_to());
        Diagnostic::invalid("Q6103", ".ze_info is not UTF-8 text").at_byte(at as u64)
    })?;
    // Some writers end it with a zero byte, as a string.
    let (described, warnings) = info::read(text.trim_end_matches('\0'), info.at as u64)?;
    let mut problems = Problems::default();
    problems.extend(warnings);
    problems.extend(other_product(&sections, platform));
    if described.len() > MAX_KERNELS {
        let message = format!("{} kernels, expected at most {MAX_KERNELS}", described.len());
        return Err(Diagnostic::unsupported("Q6107", message).at_byte(info.at as u64).into());
    }
    let (mut taken, mut size) = (BTreeSet::new(), 0usize);
    let mut kernels = Vec::new();
    for (kernel, at) in described {
        if !taken.insert(kernel.name.clone()) {
            let message = format!("kernel {:?} is described twice", kernel.name);
            problems.push(Diagnostic::invalid("Q6105", message).at_byte(at));
            continue;
        }
        match code(&kernel.name, &sections, &functions) {
            Ok((code, start)) => {
                size = size.saturating_add(code.len());
                if size > MAX_CODE {
                    let message = format!("the kernels have more than {MAX_CODE} bytes of code");
                    let problem = Diagnostic::unsupported("Q6107", message).at_byte(start as u64);
                    return Err(problem.into());
                }
                let (listing, warnings) = binary::native::read(code, platform);
                problems.extend(warnings.into_iter().map(|warning| shifted(warning, start)));
                kernels.push(Kernel { listing, ..kernel });
            }
            Err(problem) if problem.place().is_none() => problems.push(problem.at_byte(at)),
            Err(problem) => problems.push(problem),
        }
    }
    problems.warnings().map(|warnings| (kernels, warnings))
}

fn missing(message: impl Into<String>) -> Diagnostic {
    Diagnostic::invalid("Q6102", message)
}

/// A problem in machine code that begins at a byte of the file.
fn shifted(problem: Diagnostic, start: usize) -> Diagnostic {
    match problem.place() {
        Some(quincunx_diag::Place::File { offset: Some(at), .. }) => {
            let at = at.saturating_add(start as u64);
            problem.at_byte(at)
        }
        _ => problem,
    }
}

/// The machine code of a kernel and its first byte in the file. The symbol of that name says where
/// it ends; without one the whole section is code.
fn code<'a>(
    name: &str,
    sections: &[elf::Section<'a>],
    functions: &[elf::Symbol],
) -> Result<(&'a [u8], usize)> {
    let of_kernel = |section: &elf::Section<'_>| section.name.strip_prefix(".text.") == Some(name);
    let index = sections.iter().position(of_kernel);
    let found = index.and_then(|index| Some((index, sections.get(index)?)));
    let (index, section) =
        found.ok_or_else(|| missing(format!("kernel {name:?} has no section .text.{name}")))?;
    let fail = |message: String| Diagnostic::invalid("Q6105", message).at_byte(section.at as u64);
    if section.kind != elf::PROGBITS {
        return Err(fail(format!(".text.{name} is of type {:#x}, expected 1", section.kind)));
    }
    let symbol = functions.iter().find(|symbol| symbol.section == index && symbol.name == name);
    let Some(symbol) = symbol else { return Ok((section.bytes, section.at)) };
    let range = usize::try_from(symbol.value).ok().zip(usize::try_from(symbol.size).ok());
    let own = range.and_then(|(start, size)| section.bytes.get(start..start.checked_add(size)?));
    match (own, symbol.value) {
        (Some(own), 0) => Ok((own, section.at)),
        _ => {
            let (value, size, has) = (symbol.value, symbol.size, section.bytes.len());
            let message = format!("the symbol {name:?} has {size} bytes from byte {value} on");
            Err(fail(format!("{message}, its section {has}")))
        }
    }
}

/// Name of the section of notes about the machine.
const COMPAT: &str = ".note.intelgt.compat";

/// Who wrote these notes.
const OWNER: &[u8] = b"IntelGT\0";

/// Types of notes: the product, and the version of `.ze_info`.
const PRODUCT: u32 = 1;
const FORM: u32 = 4;

/// The products whose numbers are known.
const PRODUCTS: [(u32, Platform); 2] = [(0x4f6, Platform::XeHpg), (0x4f7, Platform::XeHpc)];

/// A warning when the notes name a product of another platform.
fn other_product(sections: &[elf::Section<'_>], platform: Platform) -> Option<Diagnostic> {
    let section = sections.iter().find(|section| section.name == COMPAT)?;
    let mut rest = section.bytes;
    loop {
        let field = |at: usize| {
            let bytes = rest.get(at..at.checked_add(4)?)?;
            Some(bytes.iter().rev().fold(0u32, |number, &byte| number << 8 | u32::from(byte)))
        };
        let (owner, size, kind) = (field(0)? as usize, field(4)? as usize, field(8)?);
        let start = 12usize.checked_add(owner.checked_next_multiple_of(4)?)?;
        if kind == PRODUCT && rest.get(12..start) == Some(OWNER) && size == 4 {
            let number = field(start)?;
            let (_, made_for) = PRODUCTS.iter().find(|(product, _)| *product == number)?;
            let message = format!("the file is for {}", made_for.name());
            let message = format!("{message}, it is read as code of {}", platform.name());
            let help = format!("--arch {} reads it as it was made", made_for.name());
            let warning = Diagnostic::warning("Q6106", message).at_byte(section.at as u64);
            return (*made_for != platform).then(|| warning.help(help));
        }
        rest = rest.get(start.checked_add(size.checked_next_multiple_of(4)?)?..)?;
    }
}

fn note(kind: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in [OWNER.len() as u32, content.len() as u32, kind] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(OWNER);
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Writes kernels.
///
/// # Errors
/// `Q6107` for names that the file cannot hold or too many kernels, and what has no machine code.
pub fn write(kernels: &[Kernel], platform: Platform) -> Result<Vec<u8>> {
    let mut sections = Vec::new();
    for kernel in kernels {
        let name = &kernel.name;
        if name.is_empty() || name.chars().any(|c| c.is_control()) {
            let message = format!("a file of kernels cannot hold the name {name:?}");
            return Err(Diagnostic::unsupported("Q6107", message));
        }
        let bytes = binary::native::write(&kernel.listing, platform)
            .map_err(|problem| problem.with_note(format!("in kernel \"{name}\"")))?;
        let name = format!(".text.{name}");
        sections.push(elf::Out { name, kind: elf::PROGBITS, flags: elf::CODE, bytes });
    }
    if sections.len() > MAX_KERNELS {
        let message = format!("{} kernels, expected at most {MAX_KERNELS}", sections.len());
        return Err(Diagnostic::unsupported("Q6107", message));
    }
    let names = kernels.iter().enumerate().map(|(index, kernel)| (kernel.name.as_str(), index));
    let functions: Vec<(&str, usize)> = names.collect();
    let plain = |name: &str, kind, bytes| {
        let name = name.to_owned();
        elf::Out { name, kind, flags: 0, bytes }
    };
    sections.push(plain(".ze_info", INFO, info::write(kernels).into_bytes()));
    let product = PRODUCTS.iter().find(|(_, made_for)| *made_for == platform);
    let mut notes =
        product.map_or_else(Vec::new, |(number, _)| note(PRODUCT, &number.to_le_bytes()));
    notes.extend(note(FORM, format!("{}\0", info::VERSION).as_bytes()));
    sections.push(plain(COMPAT, elf::NOTE, notes));
    Ok(elf::write(&sections, &functions))
}

/// Most kernels of a file.
const MAX_KERNELS: usize = 4000;
