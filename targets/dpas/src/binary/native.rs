//! Streams of native instructions: 16 bytes each, or 8 where bit 29 says that an instruction is
//! compacted.

use crate::arch::Platform;
use crate::isa::{native, native_layout};
use crate::program::{Item, Listing, Statement};
use crate::text::to_hex;
use quincunx_diag::{Diagnostic, Problems, Result};
use quincunx_isa::Bits;

/// Bytes of an instruction.
const LENGTH: usize = 16;
const COMPACTED: usize = 8;

/// Reads a stream. What is not a systolic instruction that this target knows becomes raw bytes; a
/// systolic instruction with bits that mean nothing here does so with a warning.
pub fn read(bytes: &[u8], platform: Platform) -> (Listing, Vec<Diagnostic>) {
    let (mut listing, mut warnings) = (Listing::default(), Problems::default());
    let mut rest = bytes;
    while !rest.is_empty() {
        let at = bytes.len().abs_diff(rest.len());
        let compacted = rest.get(3).is_some_and(|byte| byte >> 5 & 1 == 1);
        let length = if compacted { COMPACTED } else { LENGTH };
        let (own, behind) = rest.split_at(length.min(rest.len()));
        let statement = match decode(own, platform) {
            Some(Ok(inst)) => Statement::Systolic(inst),
            Some(Err(problem)) => {
                let message = format!("kept as raw bytes: {}", problem.message());
                warnings.push(Diagnostic::warning("Q6035", message).at_byte(at as u64));
                Statement::Raw(own.to_vec())
            }
            None => Statement::Raw(own.to_vec()),
        };
        listing.items.push(Item { statement, span: None });
        rest = behind;
    }
    (listing, warnings.finish())
}

/// The systolic instruction of 16 bytes; `None` for another opcode or length.
fn decode(bytes: &[u8], platform: Platform) -> Option<Result<native::Inst>> {
    let opcode = i128::from(bytes.first()? & 0x7f);
    let known =
        native::TABLE.rows.iter().any(|row| row.matches.first() == Some(&("opcode", opcode)));
    if bytes.len() != LENGTH || !known {
        return None;
    }
    let word = Bits::from_le_bytes(bytes)?;
    let decoded = native::TABLE.decode(&word, native_layout(platform), false);
    Some(decoded.and_then(|(raw, _)| {
        native::Inst::from_raw(&raw).ok_or_else(|| Diagnostic::bug("a row decodes to no variant"))
    }))
}

/// True if a stream has a systolic instruction in it.
pub fn recognises(bytes: &[u8], platform: Platform) -> bool {
    let (listing, _) = read(bytes, platform);
    listing.items.iter().any(|item| matches!(item.statement, Statement::Systolic(_)))
}

/// Writes a stream.
///
/// # Errors
/// `Q6033` for an instruction without known machine code, and what the platform cannot encode.
pub fn write(listing: &Listing, platform: Platform) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(listing.items.len().saturating_mul(LENGTH));
    for item in &listing.items {
        let place = |problem: Diagnostic| match item.span {
            Some(span) => problem.label(span, ""),
            None => problem,
        };
        match &item.statement {
            Statement::Systolic(inst) => {
                bytes.extend(encode(inst, platform).map_err(place)?);
            }
            Statement::Raw(raw) => bytes.extend(raw),
            Statement::Listing(inst) => {
                let text = crate::isa::listing::TABLE.print(&inst.to_raw());
                let message = format!("the machine code of `{text}` is not known");
                return Err(place(Diagnostic::unsupported("Q6033", message)).help(
                    "no public table gives it: put the bytes of the vendor's assembler in its \
                         place as `.raw HEX`, or write the listing as text with `--emit asm`",
                ));
            }
        }
    }
    Ok(bytes)
}

/// The 16 bytes of an instruction.
///
/// # Errors
/// What the platform cannot encode.
pub fn encode(inst: &native::Inst, platform: Platform) -> Result<[u8; LENGTH]> {
    let word = native::TABLE.encode(&inst.to_raw(), native_layout(platform))?;
    let mut bytes = [0; LENGTH];
    bytes.copy_from_slice(&word.to_le_bytes()[..LENGTH]);
    debug_assert_eq!(bytes[3] >> 5 & 1, 0, "{} is compacted", to_hex(&bytes));
    Ok(bytes)
}
