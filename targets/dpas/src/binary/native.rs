//! Streams of native instructions: 16 bytes each, or 8 where bit 29 says that an instruction is
//! compacted.

use crate::arch::Platform;
use crate::isa::{native, native_layout, vector, vector_layout};
use crate::program::{Item, Listing, Statement};
use quincunx_diag::{Diagnostic, Problems, Result};
use quincunx_isa::Bits;

/// Bytes of an instruction.
const LENGTH: usize = 16;
const COMPACTED: usize = 8;

/// Reads a stream. What is no instruction that this target knows becomes raw bytes; a known one
/// with bits that mean nothing here does so with a warning.
pub fn read(bytes: &[u8], platform: Platform) -> (Listing, Vec<Diagnostic>) {
    let (mut listing, mut warnings) = (Listing::default(), Problems::default());
    listing.items.reserve(bytes.len() / LENGTH);
    let mut rest = bytes;
    while !rest.is_empty() {
        let at = bytes.len().abs_diff(rest.len());
        let compacted = rest.get(3).is_some_and(|byte| byte >> 5 & 1 == 1);
        let length = if compacted { COMPACTED } else { LENGTH };
        let (own, behind) = rest.split_at(length.min(rest.len()));
        let statement = match decode(own, platform) {
            Some(Ok(statement)) => statement,
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

/// The instruction of 16 bytes; `None` for an unknown opcode or another length.
fn decode(bytes: &[u8], platform: Platform) -> Option<Result<Statement>> {
    let opcode = i128::from(bytes.first()? & 0x7f);
    if bytes.len() != LENGTH {
        return None;
    }
    let word = Bits::from_le_bytes(bytes)?;
    let has_scales = platform == Platform::Xe3p || opcode != BDPAS;
    if has_scales && native_layout(platform).may_match(&word) {
        let raw = native::TABLE.decode(&word, native_layout(platform), false);
        let inst = raw.map(|(raw, _)| native::Inst::from_raw(&raw).map(Statement::Systolic));
        return Some(inst.and_then(|inst| inst.ok_or_else(no_variant)));
    }
    let known = Platform::WHOLE.contains(&platform);
    if known && vector_layout(platform).may_match(&word) && has_opcode(opcode, platform) {
        let raw = vector::TABLE.decode(&word, vector_layout(platform), false);
        let inst = raw.map(|(raw, _)| vector::Inst::from_raw(&raw).map(Statement::Vector));
        return Some(inst.and_then(|inst| inst.ok_or_else(no_variant)));
    }
    None
}

fn no_variant() -> Diagnostic {
    Diagnostic::bug("a row decodes to no variant")
}

/// Opcode of bdpas.
const BDPAS: i128 = 0x5c;
/// Opcode of macl.
const MACL: i128 = 0x53;

/// False for instructions that only other platforms have.
fn has_opcode(opcode: i128, platform: Platform) -> bool {
    opcode != MACL || platform.is_second()
}

/// True if a stream has a systolic instruction in it.
pub fn recognises(bytes: &[u8], platform: Platform) -> bool {
    let (listing, _) = read(bytes, platform);
    listing.items.iter().any(|item| matches!(item.statement, Statement::Systolic(_)))
}

/// Writes a stream.
///
/// # Errors
/// What the platform cannot encode.
pub fn write(listing: &Listing, platform: Platform) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(listing.items.len().saturating_mul(LENGTH));
    for item in &listing.items {
        let place = |problem: Diagnostic| match item.span {
            Some(span) => problem.label(span, ""),
            None => problem,
        };
        match &item.statement {
            Statement::Systolic(inst) => {
                bytes.extend_from_slice(&encode(inst, platform).map_err(place)?)
            }
            Statement::Vector(inst) => {
                bytes.extend_from_slice(&encode_vector(inst, platform).map_err(place)?);
            }
            Statement::Raw(raw) => bytes.extend(raw),
        }
    }
    Ok(bytes)
}

/// The 16 bytes of an instruction.
///
/// # Errors
/// What the platform cannot encode.
pub fn encode(inst: &native::Inst, platform: Platform) -> Result<[u8; LENGTH]> {
    native::TABLE.encode(&inst.to_raw(), native_layout(platform)).map(code)
}

/// The 16 bytes of a vector instruction.
///
/// # Errors
/// What the platform cannot encode.
pub fn encode_vector(inst: &vector::Inst, platform: Platform) -> Result<[u8; LENGTH]> {
    exists(inst, platform)?;
    vector::TABLE.encode(&inst.to_raw(), vector_layout(platform)).map(code)
}

/// Whether a statement has machine code.
///
/// # Errors
/// What the platform cannot encode.
pub fn check(statement: &Statement, platform: Platform) -> Result<()> {
    match statement {
        Statement::Systolic(inst) => native::TABLE.fits(&inst.to_raw(), native_layout(platform)),
        Statement::Vector(inst) => {
            exists(inst, platform)?;
            vector::TABLE.fits(&inst.to_raw(), vector_layout(platform))
        }
        Statement::Raw(_) => Ok(()),
    }
}

/// Whether the platform has an instruction at all.
fn exists(inst: &vector::Inst, platform: Platform) -> Result<()> {
    if !Platform::WHOLE.contains(&platform) {
        let message = format!("only the systolic instructions of {} are known", platform.name());
        return Err(Diagnostic::unsupported("Q6005", message).help("use --arch xe3 for others"));
    }
    if inst.facts().op == vector::Op::Macl && !platform.is_second() {
        let message = format!("{} has no macl", platform.name());
        return Err(Diagnostic::invalid("Q6142", message).help("macl exists from xehpc on"));
    }
    Ok(())
}

fn code(word: Bits) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    bytes.copy_from_slice(&word.to_le_bytes()[..LENGTH]);
    debug_assert_eq!(bytes[3] >> 5 & 1, 0, "{bytes:02x?} is compacted");
    bytes
}
