//! Messages to memory written as loads and stores: `load.ugm.d32x16t.a64.ca.ca (1|M0) r1:1 [r2:1]`,
//! `store_block2d.ugm.d32.a64 (1|M0) [r4:1] r64:8`. They are read, and printed as `send`.

use crate::isa::vector::{self, Descriptor, Extended, Payload, Receiver};
use quincunx_diag::{Diagnostic, Result};
use quincunx_isa::{Cursor, OperandValue, RawInst};

/// Mnemonics with the operation of the descriptor.
const OPERATIONS: [(&str, u32); 4] =
    [("load", 0), ("load_block2d", 3), ("store", 4), ("store_block2d", 7)];

/// Sizes of data by their code.
const SIZES: [&str; 6] = ["d8", "d16", "d32", "d64", "d8u32", "d16u32"];

/// Elements of a vector by their code.
const VECTORS: [u32; 8] = [1, 2, 3, 4, 8, 16, 32, 64];

/// Spellings of cache controls by their code: of loads, of stores.
const LOAD_CACHES: [&str; 8] = ["", "uc.uc", "uc.ca", "ca.uc", "ca.ca", "", "", ""];
const STORE_CACHES: [&str; 8] = ["", "uc.uc", "uc.wb", "wt.uc", "wt.wb", "", "", "wb.wb"];

/// True for the mnemonics of this module.
pub(in crate::text) fn is_mnemonic(word: &str) -> bool {
    OPERATIONS.iter().any(|(name, _)| *name == word)
}

fn wrong(cursor: &Cursor<'_>, start: usize, message: &str) -> Diagnostic {
    let end = start.saturating_add(1).max(cursor.position());
    Diagnostic::invalid("Q6019", message)
        .label(cursor.span(start, end), "")
        .help("write it as send with its descriptor")
}

/// Reads a load or store as the `send` that it is.
pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<RawInst> {
    let control = custom(cursor, "control")?;
    let start = cursor.position();
    let (operation, receiver, mut descriptor) = name(cursor)?;
    let is_store = operation >= 4;
    let size = custom(cursor, "size")?;
    cursor.skip_blanks();
    let (address, (data, count)) = if is_store {
        let address = address(cursor)?;
        (address, registers(cursor)?)
    } else {
        let data = registers(cursor)?;
        (address(cursor)?, data)
    };
    cursor.skip_blanks();
    let mut options = 0;
    if cursor.eat("{") {
        options = custom(cursor, "options")?;
        cursor.skip_blanks();
        cursor.expect("}")?;
    }
    descriptor |= u32::from(address.1) << 25;
    let mut src1 = Payload::NULL;
    let mut dst = 0;
    if is_store {
        src1 = data.map_or(Payload::NULL, |register| Payload::new(register, count));
    } else {
        descriptor |= u32::from(count) << 20;
        dst = data.map_or(0, |register| i128::from(register) << 1 | 1);
    }
    if address.1 > 15 {
        return Err(wrong(cursor, start, "an address has at most 15 registers"));
    }
    let row = vector::TABLE.find("send").next().map(|(row, _)| row);
    let values = [
        control,
        0,
        size,
        options,
        receiver.to_raw(),
        dst,
        i128::from(address.0) << 1 | 1,
        src1.to_raw(),
        Extended(0).to_raw(),
        Descriptor(descriptor.into()).to_raw(),
    ];
    let row = row.ok_or_else(|| Diagnostic::bug("the table has no send"))?;
    Ok(RawInst { row, values: values.into_iter().collect() })
}

/// An operand that `send` has too.
fn custom(cursor: &mut Cursor<'_>, name: &str) -> Result<i128> {
    let send = vector::TABLE.find("send").next();
    let operand = send.and_then(|(_, row)| row.operand(name));
    cursor.skip_blanks();
    match operand.map(|(_, operand)| operand.kind) {
        Some(quincunx_isa::Kind::Custom(custom)) => (custom.parse)(cursor),
        _ => Err(Diagnostic::bug(format!("send has no operand {name}"))),
    }
}

/// The operation, the receiver and the descriptor without counts of registers.
fn name(cursor: &mut Cursor<'_>) -> Result<(u32, Receiver, u32)> {
    let start = cursor.position();
    let line = cursor.rest_of_line();
    let length = line.find(|c: char| c.is_whitespace() || c == '(').unwrap_or(line.len());
    let text = &line[..length];
    cursor.eat(text);
    let mut parts = text.split('.');
    let mnemonic = parts.next().unwrap_or("");
    let Some(&(_, operation)) = OPERATIONS.iter().find(|(name, _)| *name == mnemonic) else {
        return Err(wrong(cursor, start, "this is no load or store"));
    };
    let receiver = match parts.next() {
        Some("ugm") => Receiver::Ugm,
        Some("slm") => Receiver::Slm,
        _ => return Err(wrong(cursor, start, "expected .ugm or .slm")),
    };
    let block = matches!(operation, 3 | 7);
    let Some(data) = parts.next().and_then(|text| data(text, block)) else {
        return Err(wrong(cursor, start, "this size of data has no code"));
    };
    let address = match parts.next() {
        // A block has 64-bit addresses always; its bit there says that it is interleaved.
        Some("a64") if block => 0,
        Some("a16") => 1,
        Some("a32") => 2,
        Some("a64") => 3,
        _ => return Err(wrong(cursor, start, "expected .a16, .a32 or .a64")),
    };
    if block && (address != 0 || receiver != Receiver::Ugm) {
        return Err(wrong(cursor, start, "blocks lie in ugm and have 64-bit addresses"));
    }
    let caches: Vec<&str> = parts.collect();
    let names = if operation >= 4 { STORE_CACHES } else { LOAD_CACHES };
    let caches = caches.join(".");
    let Some(cache) = names.iter().position(|name| *name == caches) else {
        return Err(wrong(cursor, start, "this cache control has no code"));
    };
    Ok((operation, receiver, operation | address << 7 | data | (cache as u32) << 17))
}

/// The bits of the size: `d32x8t`, or `d16v` of a block.
fn data(text: &str, block: bool) -> Option<u32> {
    let (text, transposed) = match text.strip_suffix('t') {
        Some(rest) => (rest, 1),
        None => (text, 0),
    };
    if block {
        let (text, interleaved) = match text.strip_suffix('v') {
            Some(rest) => (rest, 1),
            None => (text, 0),
        };
        let size = SIZES.iter().position(|name| *name == text)? as u32;
        return (size < 4).then_some(size << 9 | transposed << 15 | interleaved << 7);
    }
    let (size, vector) = text.split_once('x').unwrap_or((text, "1"));
    let size = SIZES.iter().position(|name| *name == size)? as u32;
    let count: u32 = vector.parse().ok()?;
    let vector = VECTORS.iter().position(|&length| length == count)? as u32;
    Some(size << 9 | vector << 12 | transposed << 15)
}

/// `r1:2`, `null`, `null:0`.
fn registers(cursor: &mut Cursor<'_>) -> Result<(Option<u8>, u8)> {
    cursor.skip_blanks();
    if cursor.rest().starts_with("null") && !cursor.rest().starts_with("null:") {
        cursor.eat("null");
        return Ok((None, 0));
    }
    let start = cursor.position();
    let payload = Payload(custom(cursor, "src1")? as u16);
    match payload.registers() {
        (None, 1..) => Err(wrong(cursor, start, "null has no registers")),
        (Some(_), 0) => Err(wrong(cursor, start, "expected at least one register")),
        registers => Ok(registers),
    }
}

/// `[r1:2]`.
fn address(cursor: &mut Cursor<'_>) -> Result<(u8, u8)> {
    cursor.skip_blanks();
    let start = cursor.position();
    cursor.expect("[")?;
    let (register, count) = registers(cursor)?;
    if cursor.peek() == Some('+') || cursor.peek() == Some('-') {
        return Err(wrong(cursor, start, "an address has no constant part here"));
    }
    cursor.expect("]")?;
    match register {
        Some(register) => Ok((register, count)),
        None => Err(wrong(cursor, start, "an address is in a register")),
    }
}
