//! How fast programs run: `quincunx bench dpas:sim`, `dpas:gemm`, `dpas:resnet50`, `dpas:asm`.

mod asm;
mod gemm;
mod resnet50;

use crate::arch::{DpasArch, Platform};
use crate::artifact::DeviceArtifact;
use crate::precision::Precision;
use crate::program::Listing;
use crate::shape::RowStride;
use crate::simulate::lower::listing_steps;
use crate::simulate::{Model, Plan, Rules, State, Step};
use crate::{Dpas, TARGET, text};
use quincunx_contract::bench::{LEVEL, Row, Run, Suite};
use quincunx_contract::{
    ArchSource, Compiler as _, Log, NotCompiled, OptionInfo, Options, Target as _,
};
use quincunx_diag::{Diagnostic, Result, SourceId};
use quincunx_graph::Graph;
use quincunx_num::{F16, FloatOverflow, Level, Matrix, Packed};
use std::any::Any;
use std::fmt::Write as _;

/// The suites of this target.
pub(crate) static SUITES: &[Suite] = &[SIM, GEMM, RESNET50, ASM];

const SIM: Suite = Suite {
    name: "sim",
    doc: "64 dpas.8x8 with 16 lanes over 8 accumulators in the prepared simulator, on one thread",
    options: &[
        OptionInfo::text(
            "rows",
            "Rows to measure, separated by commas, such as u8s8; all of them without",
            "",
        ),
        LEVEL,
    ],
    run: measure,
};

const GEMM: Suite = Suite {
    name: "gemm",
    doc: "a product of 1024 x 1024 bytes, compiled for xe2, in the prepared simulator, on one thread",
    options: &[LEVEL],
    run: gemm::measure,
};

const RESNET50: Suite = Suite {
    name: "resnet50",
    doc: "ResNet-50 of int8, compiled for xe2, in the prepared simulator, on one thread",
    options: &[OptionInfo::text("models", "folder with resnet50.onnx", "")],
    run: resnet50::measure,
};

const ASM: Suite = Suite {
    name: "asm",
    doc: "text of compiled kernels to machine code and back, on one thread",
    options: &[],
    run: asm::measure,
};

/// The program of a graph whose nodes are all on the machine, for xe2.
///
/// # Errors
/// Why it is not compiled.
fn compile(graph: &Graph) -> Result<DeviceArtifact> {
    compile_for(graph, "xe2")
}

/// The same for a preset.
fn compile_for(graph: &Graph, preset: &str) -> Result<DeviceArtifact> {
    let arch = TARGET.arch(&ArchSource::Preset(preset.to_owned()))?;
    let options = Options::new(TARGET.info().options, &[])?;
    let compiled = Dpas.compile(graph, &*arch, &options, &mut Log::default());
    let program: Box<dyn Any> = compiled.map_err(NotCompiled::first)?.program;
    let program =
        program.downcast().map_err(|_| Diagnostic::bug("a program of another machine"))?;
    Ok(*program)
}

/// What a row multiplies: weights and activations as listings spell them, and how sums are rounded.
/// Pairs of different integers are measured in both orders, of which the slower one counts.
const ROWS: [(&str, [&str; 2], Model); 9] = [
    ("u8s8", ["ub", "b"], Model::Seq),
    ("s8s8", ["b", "b"], Model::Seq),
    ("s4s8", ["s4", "b"], Model::Seq),
    ("s2s2", ["s2", "s2"], Model::Seq),
    ("bf_seq", ["bf", "bf"], Model::Seq),
    ("hf_seq", ["hf", "hf"], Model::Seq),
    ("tf32_seq", ["tf32", "tf32"], Model::Seq),
    ("bf_stage", ["bf", "bf"], Model::Stage),
    ("bf_exact", ["bf", "bf"], Model::Exact),
];

/// Accumulators, and blocks of B.
const BLOCKS: usize = 8;
/// Blocks of A; more do not fit beside the others.
const LEFT_BLOCKS: usize = 32;

fn measure(run: &Run) -> Result<Vec<Row>> {
    let (level, wanted) = (run.level()?, run.options.get("rows"));
    let mut rows = Vec::new();
    for (name, [weights, activations], model) in ROWS {
        if !wanted.is_empty() && !wanted.split(',').any(|wanted| wanted == name) {
            continue;
        }
        let rules = Rules { model, ftz: false };
        let mut rate = gmacs(run, level, weights, activations, rules)?;
        if weights != activations {
            rate = rate.min(gmacs(run, level, activations, weights, rules)?);
        }
        let row = Row::named(name);
        rows.push(row("gmacs", rate, "GMAC/s", 2));
        if name == "u8s8" {
            rows.push(row("u8s8_vs_num", rate / packed(run, level), "", 3));
        }
    }
    Ok(rows)
}

/// Thousand millions of multiplications per second; the registers are those of the executor after
/// a run from zero sums and after the last run.
fn gmacs(run: &Run, level: Level, weights: &str, activations: &str, rules: Rules) -> Result<f64> {
    let arch = DpasArch::preset(Platform::Xe2.name())?;
    let listing = listing(weights, activations)?;
    let steps = listing_steps(&listing, &arch, RowStride::Full)?;
    let [Some(Step::Multiply(first)), Some(_)] = [steps.first(), steps.get(63)] else {
        return Err(Diagnostic::bug("the listing has 64 products"));
    };
    let shape = first.shape;
    let bytes = arch.file_bytes() as usize;
    let mut plan = Plan::for_level(&steps, bytes, rules, level);
    let mut state = State::new(1, bytes);
    fill(shape.weights, &mut state.threads[0][64 * 64..]);
    fill(shape.activations, &mut state.threads[0][128 * 64..]);
    compare(&mut plan, &steps, rules, &mut state)?;
    let products = shape.repeat * shape.lanes * shape.k() * 64;
    // The clock is read once for several runs: one takes about a microsecond.
    let runs = 16;
    let mask = state.dispatch_mask;
    let mut failed = None;
    let rate = run.rate(f64::from(products) * f64::from(runs) / 1e9, || {
        for _ in 0..runs {
            failed = plan.run_alone(&mut state.threads[0], mask).err().or(failed.take());
        }
    });
    if let Some(problem) = failed {
        return Err(problem);
    }
    compare(&mut plan, &steps, rules, &mut state)?;
    Ok(rate)
}

/// Runs the plan and the executor on the same registers.
fn compare(plan: &mut Plan, steps: &[Step], rules: Rules, state: &mut State) -> Result<()> {
    let mut expected = state.clone();
    steps.iter().try_for_each(|step| step.run(&mut expected, rules))?;
    plan.run(state)?;
    if *state != expected {
        return Err(Diagnostic::bug("the prepared simulator differs from the executor"));
    }
    Ok(())
}

/// 64 products: for every block of B, one into each accumulator.
fn listing(weights: &str, activations: &str) -> Result<Listing> {
    let floats = !matches!(weights, "ub" | "b" | "s4" | "s2");
    let acc = if floats { "f" } else { "d" };
    let mut source = String::new();
    for index in 0..BLOCKS * BLOCKS {
        let (dst, src1) = (8 * (index % BLOCKS), 64 + 8 * (index / BLOCKS));
        let src2 = 128 + 4 * (index % LEFT_BLOCKS);
        // As tiles of a larger product, sums begin at zero.
        let src0 = if index < BLOCKS { "null".to_owned() } else { format!("r{dst}") };
        let _ = writeln!(
            source,
            "dpas.8x8 (16|M0) r{dst}:{acc} {src0}:{acc} r{src1}:{weights} r{src2}.0:{activations}"
        );
    }
    text::native::read(&source, Platform::Xe2, SourceId(0)).map_err(|found| {
        let first = found.into_iter().next();
        first.unwrap_or_else(|| Diagnostic::bug("the listing of the suite is not read"))
    })
}

/// Integers of any value; floats that are spread evenly between -1 and 1.
fn fill(precision: Precision, bytes: &mut [u8]) {
    let size = (precision.bits() as usize / 8).max(1);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for place in bytes.chunks_mut(size) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let number = (random >> 32) as u32 as i32 as f32 / 2f32.powi(31);
        let code = match precision {
            Precision::Bf => number.to_bits() >> 16,
            Precision::Hf => F16::from_f32(number, FloatOverflow::Infinity).map_or(0, F16::to_bits),
            Precision::Tf32 => number.to_bits() & 0xffff_e000,
            _ => (random >> 32) as u32,
        };
        place.copy_from_slice(&code.to_le_bytes()[..place.len()]);
    }
}

/// The rate of row `u8s8_1024` of the suite `num` on one thread.
fn packed(run: &Run, level: Level) -> f64 {
    const SIZE: usize = 1024;
    let (left, right) = (vec![0x5a_u8; SIZE * SIZE], vec![-0x35_i8; SIZE * SIZE]);
    let right = Packed::<u8>::for_level(Matrix::row_major(&right, SIZE, SIZE), level);
    let mut out = vec![0; SIZE * SIZE];
    run.rate(SIZE.pow(3) as f64 / 1e9, || {
        right.multiply_add(Matrix::row_major(&left, SIZE, SIZE), &mut out, SIZE);
    })
}
