//! Options of the target.

use crate::compile::frontend::Freedom;
use crate::compile::{Strategy, Wishes};
use crate::package::Package;
use crate::program::{Memory, Span};
use crate::simulate::{Driver, Watch};
use crate::time::Model as Timing;
use crate::verify::Rules;
use quincunx_contract::{OptionInfo, Options, Use};
use quincunx_diag::{Diagnostic, Result};
use quincunx_isa::{Cursor, Style};

/// Declared options.
pub(crate) const OPTIONS: &[OptionInfo] = &[
    OptionInfo::one_of(
        "rounding",
        "compat keeps the numbers of upstream's programs; free orders sums, folds batch normalisations and packs rows of inputs as is fastest, with other roundings (docs/machines/tcu.md, Free numbers)",
        "compat",
        &["compat", "free"],
    ).used_by(&[Use::Compile]),
    OptionInfo::one_of(
        "strategy",
        "auto keeps tensors in local memory where that is cheaper, local-isolated never; local-vars keeps all of them there, local-consts all constants, local-vars-and-consts both",
        "auto",
        Strategy::NAMES,
    ).used_by(&[Use::Compile]),
    OptionInfo::real(
        "approximate",
        "with --rounding free, the largest error of a function that a machine without lookup tables computes as a polynomial; none leaves such functions to the host",
        "0.02",
        0.0..=1.0,
    )
    .or("none").used_by(&[Use::Compile]),
    OptionInfo::one_of(
        "rescale",
        "with --rounding free: auto multiplies every value by a power of two, so that data like that of --calibrate leave no range and small numbers keep their bits (docs/machines/tcu.md, Scales)",
        "none",
        &["none", "auto"],
    ).used_by(&[Use::Compile]),
    OptionInfo::one_of(
        "input-layout",
        "nhwc takes inputs position by position; packed, with --rounding free, lets the host pack everything that a first convolution reads for a position into one",
        "nhwc",
        &["nhwc", "packed"],
    ).used_by(&[Use::Compile]),
    OptionInfo::flag(
        "driver-reserve",
        "leave the last vector of local memory and two of DRAM0 to the flush probe",
        true,
    ).used_by(&[Use::Compile]),
    OptionInfo::flag(
        "lenient",
        "read machine code whose unused bits are not 0, with warnings",
        false,
    ).used_by(&[Use::Read]),
    OptionInfo::whole(
        "simd-write-gap",
        "instructions that must lie between a SIMD write and a move out of the accumulators",
        "0",
        0..=64,
    ).used_by(&[Use::Compile, Use::Run, Use::Verify]),
    OptionInfo::one_of(
        "timing",
        "timing model: upstream's of today or early 2022, or two concurrent engines",
        "current",
        Timing::NAMES,
    ).used_by(&[Use::Time]),
    OptionInfo::whole(
        "clock",
        "MHz of the clock for times in seconds; arch is what the architecture says",
        "arch",
        1..=100_000,
    )
    .or("arch").used_by(&[Use::Time, Use::Summary]),
    OptionInfo::flag(
        "flush-probe",
        "send the host's probe, which uses the last two vectors of DRAM0, after the program",
        true,
    ).used_by(&[Use::Run, Use::Verify, Use::Write]),
    OptionInfo::one_of(
        "stream-bytes",
        "bytes of the instruction bus, to which the stream is padded",
        "8",
        &["8", "16"],
    ).used_by(&[Use::Write]),
    OptionInfo::whole("dram0-offset", "base of DRAM0 in blocks of 64 KiB", "0", 0..=0xffff_ffff).used_by(&[Use::Run, Use::Verify, Use::Write]),
    OptionInfo::whole("dram1-offset", "base of DRAM1 in blocks of 64 KiB", "0", 0..=0xffff_ffff).used_by(&[Use::Run, Use::Verify, Use::Write]),
    OptionInfo::whole(
        "timeout",
        "cycles for which the decoder may stay in one state",
        "100",
        0..=0xffff,
    ).used_by(&[Use::Time, Use::Write]),
    OptionInfo::whole(
        "tracepoint",
        "program counter that raises the tracepoint flag; none leaves the register alone",
        "none",
        0..=0xffff_ffff,
    )
    .or("none").used_by(&[Use::Notes, Use::Write]),
    OptionInfo::whole(
        "sample-interval",
        "cycles between performance samples; 0 takes none",
        "0",
        0..=0xffff,
    ).used_by(&[Use::Write]),
    OptionInfo::whole(
        "sample-block",
        "performance samples in a block; arch is what the architecture says, else 1",
        "arch",
        1..=1 << 20,
    )
    .or("arch").used_by(&[Use::Write, Use::Show]),
    OptionInfo::text(
        "watch",
        "vectors whose changes run prints: inputs and outputs by name, or places such as Acc(3) Local(0+8)",
        "",
    ).used_by(&[Use::Notes]),
];

/// Why an option has one of its words.
const DECLARED: &str = "`Options` takes declared words only";

/// What the options say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Rules of the verifier.
    pub(crate) rules: Rules,
    /// Timing model.
    pub(crate) timing: Timing,
    /// Clock in MHz, unless that of the machine counts.
    pub(crate) clock: Option<u32>,
    /// What the host does.
    pub(crate) driver: Driver,
    /// Samples in a block, at least 1.
    pub(crate) sample_block: usize,
    /// Vectors that `run` watches.
    pub(crate) watches: Vec<Watch>,
}

impl Settings {
    /// The options for a program.
    ///
    /// # Errors
    /// `Q3075` for what a machine with two threads cannot set, `Q3076` for a watch that names nothing.
    pub(crate) fn new(options: &Options, package: &Package) -> Result<Settings> {
        let flush_probe = options.flag("flush-probe");
        let driver = Driver {
            dram0_offset: options.whole("dram0-offset"),
            dram1_offset: options.whole("dram1-offset"),
            timeout: options.whole("timeout"),
            tracepoint: options.whole_or("tracepoint"),
            sample_interval: options.whole("sample-interval"),
            stream_bytes: options.whole("stream-bytes"),
            flush_probe,
            ..package.driver()
        };
        let threads = package.arch().number_of_threads;
        if threads > 1 && driver != (Driver { timeout: 100, ..package_default(&driver) }) {
            let message = "a machine with two threads has no configuration registers to set";
            return Err(Diagnostic::usage("Q3075", message)
                .help("leave out offsets, timeout, tracepoint and sample-interval"));
        }
        Ok(Settings {
            rules: Rules { simd_write_gap: options.whole("simd-write-gap"), flush_probe },
            timing: Timing::from_name(options.get("timing")).expect(DECLARED),
            clock: options.whole_or("clock"),
            sample_block: block(options, package.arch().sample_block_size),
            driver,
            watches: watches(options.get("watch"), package)?,
        })
    }
}

/// What the compiler is asked for.
///
/// # Errors
/// `Q3116` for packed inputs in upstream's order, and for scales.
pub(crate) fn wishes(options: &Options) -> Result<Wishes> {
    let packed_inputs = options.get("input-layout") == "packed";
    if packed_inputs && options.get("rounding") != "free" {
        let message = "packed inputs are summed in another order than upstream's";
        return Err(Diagnostic::usage("Q3116", message).help("give --rounding free as well"));
    }
    if options.get("rescale") == "auto" && options.get("rounding") != "free" {
        let message = "values with scales have other numbers than upstream's";
        return Err(Diagnostic::usage("Q3116", message).help("give --rounding free as well"));
    }
    Ok(Wishes {
        packed_inputs,
        approximate: approximate(options),
        freedom: match options.get("rounding") {
            "free" => Freedom::Free,
            _ => Freedom::Compat,
        },
        driver_reserve: options.flag("driver-reserve"),
        strategy: Strategy::from_name(options.get("strategy")).expect(DECLARED),
        simd_write_gap: options.whole("simd-write-gap"),
    })
}

/// The largest error of functions as polynomials; `None` when there are to be none.
pub(crate) fn approximate(options: &Options) -> Option<f64> {
    options.real_or("approximate").filter(|_| options.get("rounding") == "free")
}

/// True when values are to have scales.
pub(crate) fn rescales(options: &Options) -> bool {
    options.get("rescale") == "auto" && options.get("rounding") == "free"
}

/// The driver with everything that needs a configuration register at its default.
fn package_default(driver: &Driver) -> Driver {
    Driver {
        dram0_offset: 0,
        dram1_offset: 0,
        tracepoint: None,
        sample_interval: 0,
        ..driver.clone()
    }
}

/// Samples in a block.
pub(crate) fn block(options: &Options, of_arch: Option<u32>) -> usize {
    options.whole_or("sample-block").unwrap_or(of_arch.unwrap_or(1) as usize)
}

/// Places separated by blanks or commas.
fn watches(text: &str, package: &Package) -> Result<Vec<Watch>> {
    let mut list = Vec::new();
    for place in text.split([' ', ',']).filter(|place| !place.is_empty()) {
        let found = match place.contains('(') {
            true => parse_place(place, package).map(|watch| vec![watch]),
            false => Some(named(place, package)).filter(|watches| !watches.is_empty()),
        };
        list.extend(found.ok_or_else(|| unknown_place(place, package))?);
    }
    Ok(list)
}

fn unknown_place(place: &str, package: &Package) -> Diagnostic {
    let message = format!("nothing to watch at \"{}\"", place.escape_debug());
    let pieces = package.model.iter().flat_map(|model| model.inputs.iter().chain(&model.outputs));
    let names = pieces.map(|piece| piece.name.as_str());
    Diagnostic::usage("Q3076", message)
        .with_note("expected the name of an input or output, or a place such as Local(0+8)")
        .help_if(quincunx_diag::did_you_mean(place, names))
}

/// The pieces of an input or output.
fn named(name: &str, package: &Package) -> Vec<Watch> {
    let pieces = package.model.iter().flat_map(|model| model.inputs.iter().chain(&model.outputs));
    pieces
        .filter(|piece| piece.name == name && piece.size > 0)
        .map(|piece| Watch {
            name: name.to_owned(),
            span: Span { memory: Memory::Dram0, base: piece.base, stride: 0, count: piece.size },
        })
        .collect()
}

/// `Local(5)`, or `Local(0+8)` for eight vectors.
fn parse_place(place: &str, package: &Package) -> Option<Watch> {
    let mut cursor = Cursor::new(place, quincunx_diag::SourceId(0), Style::HASH);
    let memories = [Memory::Dram0, Memory::Dram1, Memory::Local, Memory::Acc];
    let memory = memories.into_iter().find(|memory| cursor.eat_word(memory.name()))?;
    cursor.expect("(").ok()?;
    let base = u64::try_from(cursor.integer().ok()?).ok()?;
    let count = if cursor.eat("+") { u64::try_from(cursor.integer().ok()?).ok()? } else { 1 };
    cursor.expect(")").ok()?;
    let end = base.checked_add(count)?;
    let exists = cursor.at_end() && count > 0 && end <= memory.depth(package.arch());
    let span = Span { memory, base, stride: 0, count };
    exists.then(|| Watch { name: memory.name().to_owned(), span })
}
