//! `quincunx bench dpas:asm`: how fast native text becomes machine code, and machine code text.

use super::{compile_for, gemm};
use crate::arch::Platform;
use crate::{binary, text};
use quincunx_contract::bench::{Row, Run};
use quincunx_diag::{Diagnostic, Result, SourceId, first};

/// Lines that are read or written before the clock is read again.
const ENOUGH: usize = 10_000;

/// A kernel as text and as machine code.
struct Kernel {
    platform: Platform,
    text: String,
    code: Vec<u8>,
}

/// Rows `assemble` and `disassemble`: lines a second, from text to bytes and from bytes to text. The
/// kernels are those of a product, for xehpg and for xe2.
pub(super) fn measure(run: &Run) -> Result<Vec<Row>> {
    let mut kernels = Vec::new();
    for platform in [Platform::XeHpg, Platform::Xe2] {
        let (graph, _) = gemm::product(128)?;
        let program = compile_for(&graph, platform.name())?;
        for kernel in &program.device().kernels {
            let text = text::native::print(&kernel.listing);
            let code = binary::native::write(&kernel.listing, platform)?;
            kernels.push(Kernel { platform, text, code });
        }
    }
    let lines: usize = kernels.iter().map(|kernel| kernel.text.lines().count()).sum();
    let repeats = ENOUGH.div_ceil(lines.max(1));
    let assemble = |kernel: &Kernel| {
        let read = text::native::read(&kernel.text, kernel.platform, SourceId(0));
        binary::native::write(&read.map_err(first)?, kernel.platform)
    };
    let disassemble = |kernel: &Kernel| {
        let (listing, _) = binary::native::read(&kernel.code, kernel.platform);
        text::native::print(&listing)
    };
    for kernel in &kernels {
        if assemble(kernel)? != kernel.code || disassemble(kernel) != kernel.text {
            return Err(Diagnostic::bug("a kernel does not come back as it was"));
        }
    }
    let assembling = run.seconds(|| {
        for kernel in (0..repeats).flat_map(|_| &kernels) {
            std::hint::black_box(assemble(kernel).is_ok());
        }
    });
    let disassembling = run.seconds(|| {
        for kernel in (0..repeats).flat_map(|_| &kernels) {
            std::hint::black_box(disassemble(kernel).len());
        }
    });
    let row = |name, seconds: f64| {
        Row::named(name)("lines_per_second", (lines * repeats) as f64 / seconds, "lines/s", 0)
    };
    Ok(vec![row("assemble", assembling), row("disassemble", disassembling)])
}
