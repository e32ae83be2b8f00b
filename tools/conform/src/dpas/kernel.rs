//! Whole kernels: messages in two spellings, and a kernel that multiplies matrices.

use super::{Check, arch, assemble, hex, listing, number, platform, reason, same, squeeze, string};
use quincunx_dpas::binary;
use quincunx_dpas::shape::RowStride;
use quincunx_dpas::simulate::Rules;
use quincunx_dpas::simulate::launch::{Buffer, Kernel, Launch, Limits, Memory, run};
use quincunx_dpas::text::{self, to_hex};
use serde_json::Value;

/// Both spellings of a message have the bytes.
pub(super) fn spellings(file: &Value, case: &Value) -> Check {
    let platform = platform(file)?;
    let bytes = string(case, "hex")?;
    for key in ["ldst", "send"] {
        same(key, &to_hex(&assemble(string(case, key)?, platform)?), bytes)?;
    }
    Ok(())
}

/// The lines of a text.
fn lines(file: &Value, key: &str) -> Check<String> {
    let list = file.get(key).and_then(Value::as_array).ok_or_else(|| format!("no lines {key}"))?;
    let text = |line: &Value| line.as_str().map(str::to_owned);
    let lines: Option<Vec<String>> = list.iter().map(text).collect();
    Ok(lines.ok_or("a line is no text")?.join("\n"))
}

/// The kernel of the file in text and machine code, and what it computes.
pub(super) fn program(file: &Value, case: &Value) -> Check {
    let platform = platform(file)?;
    let (source, canonical) = (lines(file, "text")?, lines(file, "disasm")?);
    let code = string(file, "hex")?;
    same("bytes of the text", &to_hex(&assemble(&source, platform)?), code)?;
    same("bytes of the canonical text", &to_hex(&assemble(&canonical, platform)?), code)?;
    let (read, warnings) = binary::native::read(&hex(code)?, platform);
    if let Some(warning) = warnings.first() {
        return Err(warning.message().to_owned());
    }
    same("text", &squeeze(&text::native::print(&read)), &squeeze(&canonical))?;
    product(file, case)
}

/// Runs the kernel: c = a x b.
fn product(file: &Value, case: &Value) -> Check {
    let mut machine = arch(platform(file)?)?;
    machine.grfs = number(file, "grfs")? as u32;
    let kernel = listing(&lines(file, "text")?, machine.platform)?;
    let kernel = Kernel::new("kernel", &kernel, &machine, RowStride::Full).map_err(reason)?;
    let expected = hex(string(case, "c")?)?;
    let buffers = [
        ("a", 0x1_0000_0000, hex(string(case, "a")?)?),
        ("b", 0x2_0000_0000, hex(string(case, "b")?)?),
        ("c", 0x3_0000_0000, vec![0xaa; expected.len()]),
    ];
    let (mut memory, mut payload) = (Memory::new(), Vec::new());
    for (name, base, bytes) in buffers {
        let buffer =
            Buffer { name: name.to_owned(), base, bytes: bytes.into(), writable: name == "c" };
        memory.add(buffer).map_err(reason)?;
        payload.extend(base.to_le_bytes());
    }
    for key in ["M", "N", "K"] {
        payload.extend((number(case, key)? as u32).to_le_bytes());
    }
    payload.resize(64, 0);
    let mut groups = [1; 3];
    for (at, group) in groups.iter_mut().enumerate() {
        let value = case.get("groups").and_then(|list| list.get(at)).and_then(Value::as_u64);
        *group = value.ok_or("the case has no three groups")? as u32;
    }
    let launch = Launch {
        groups,
        threads: number(case, "threads_per_group")? as u32,
        payload: &payload,
        local: &[],
        inline_bytes: 64,
        slm_bytes: 0,
        dispatch_mask: u32::MAX,
    };
    let limits = Limits { steps: 10_000_000 };
    run(&kernel, &launch, &mut memory, Rules::default(), limits).map_err(reason)?;
    let found = memory.buffer("c").map_or(String::new(), |buffer| to_hex(&buffer.bytes));
    same("c", &found, &to_hex(&expected))
}
