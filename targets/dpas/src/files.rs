//! Native files: which language or code a file holds, and the shell of vISA byte code.

#![deny(clippy::arithmetic_side_effects)]

pub mod cisa;
pub mod launch;
pub mod zebin;

use crate::arch::Platform;
use crate::binary::{self, visa::Form};
use crate::program::{Kernel, Program};
use crate::text::{self, Language};
use quincunx_contract::File;
use quincunx_diag::{Diagnostic, SourceId};

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Native assembly text.
    NativeText,
    /// vISA text.
    VisaText,
    /// Native machine code.
    NativeCode,
    /// vISA byte code in its shell.
    VisaFile,
    /// vISA byte code of instructions alone.
    VisaStream,
}

/// What a file holds; `None` if it is nothing of this target.
pub fn format(file: &File, platform: Platform) -> Option<Format> {
    let bytes = &file.bytes;
    if bytes.starts_with(cisa::MAGIC) {
        return Some(Format::VisaFile);
    }
    let text = std::str::from_utf8(bytes).ok();
    if let Some(language) = text.and_then(text::recognise) {
        return Some(match language {
            Language::Native => Format::NativeText,
            Language::Visa => Format::VisaText,
        });
    }
    match file.extension().as_str() {
        "visab" => return Some(Format::VisaStream),
        "visaasm" if text.is_some() => return Some(Format::VisaText),
        "xeasm" if text.is_some() => return Some(Format::NativeText),
        "xebin" => return Some(Format::NativeCode),
        _ => {}
    }
    let others = Platform::ALL.into_iter().filter(|&other| other != platform);
    if std::iter::once(platform).chain(others).any(|p| binary::native::recognises(bytes, p)) {
        return Some(Format::NativeCode);
    }
    let is_stream = !bytes.is_empty() && binary::visa::read(bytes, false, None).is_ok();
    is_stream.then_some(Format::VisaStream)
}

/// True for files of whole kernels and of launches.
pub fn is_device(file: &File) -> bool {
    zebin::recognises(&file.bytes) || launch::recognises(&file.bytes)
}

/// A program with the warnings of its reading.
pub type Read = (Program, Vec<Diagnostic>);

/// Reads a file.
///
/// # Errors
/// `Q6031` for a file of no known form, and everything wrong with it.
pub fn read(
    file: &File,
    platform: Platform,
    form: Option<Form>,
) -> std::result::Result<Read, Vec<Diagnostic>> {
    read_at(file, platform, form, SourceId(0))
}

/// As [`read`], for a file that is not the first: places in its text carry its number.
pub(crate) fn read_at(
    file: &File,
    platform: Platform,
    form: Option<Form>,
    source: SourceId,
) -> std::result::Result<Read, Vec<Diagnostic>> {
    let one = |problem: Diagnostic| vec![problem.name_file(&file.name)];
    let Some(format) = format(file, platform) else {
        let message = "this is neither text nor code of dpas";
        return Err(one(Diagnostic::invalid("Q6031", message)
            .help("it reads vISA and native assembly, vISA byte code and native machine code")));
    };
    let named = |found: Vec<Diagnostic>| -> Vec<Diagnostic> {
        found.into_iter().map(|problem| problem.name_file(&file.name)).collect()
    };
    let warned = |(program, warnings)| (program, named(warnings));
    let bytes = &file.bytes;
    match format {
        Format::NativeText => {
            let text = text_of(file)?;
            let listing = text::native::read(text, platform, source).map_err(named)?;
            Ok((Program::Native(listing), Vec::new()))
        }
        Format::VisaText => {
            let (kernel, warnings) = text::visa::read(text_of(file)?, source).map_err(named)?;
            Ok(warned((Program::Visa(kernel), warnings)))
        }
        Format::NativeCode => {
            let (listing, warnings) = binary::native::read(bytes, platform);
            Ok(warned((Program::Native(listing), warnings)))
        }
        Format::VisaFile => {
            let kernel = cisa::read(bytes, form).map_err(one)?;
            Ok((Program::Visa(kernel), Vec::new()))
        }
        Format::VisaStream => {
            let (instructions, _) = binary::visa::read(bytes, false, form).map_err(one)?;
            Ok((Program::Visa(Kernel { instructions, ..Kernel::new() }), Vec::new()))
        }
    }
}

fn text_of(file: &File) -> std::result::Result<&str, Vec<Diagnostic>> {
    let text = file.text().map_err(|problem| vec![problem])?;
    if text.len() > text::MAX_TEXT {
        let message = format!("the text has more than {} bytes", text::MAX_TEXT);
        return Err(vec![Diagnostic::unsupported("Q6032", message).name_file(&file.name)]);
    }
    Ok(text)
}
