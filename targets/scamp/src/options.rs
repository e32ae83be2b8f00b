//! Options of the target: what a reader keeps with the program, and what a compiler is asked for.

mod chosen;
mod noise;
mod wishes;

use crate::arch::ScampArch;
use crate::bus::Halving;
use crate::files::MAX_DEPTH;
use crate::readout::Readout;
use crate::search::{Effort, Objective};
use crate::simulate::Edge;
use crate::time::Model;
pub(crate) use chosen::Chosen;
use quincunx_contract::{OptionInfo, Options, Use};
use quincunx_diag::{Diagnostic, Result};
pub(crate) use wishes::{BiasPlace, Search, Wishes};

/// Largest exponent of the scale of registers, and minus the least one.
pub(crate) const MAX_SCALE: i32 = 60;

/// Most registers that compiled programs may be told to use.
pub(crate) const MAX_POOL: usize = 32;

/// Most nodes of a drawing of Cain's search, and how many it has if nothing is said.
const MAX_GRAPH: usize = 1000;
const USUAL_GRAPH: usize = 50;

/// The options.
pub(crate) const OPTIONS: &[OptionInfo] = &[
    OptionInfo::flag("fix", "rewrite illegal and deprecated instructions when reading", false)
        .used_by(&[Use::Read]),
    OptionInfo::one_of(
        "edge",
        "what lies beyond the array: zeros, or what was there (Cain)",
        "zero",
        &["zero", "stale"],
    )
    .used_by(&[Use::Compile, Use::Run]),
    OptionInfo::text(
        "size",
        "elements of the array as WIDTHxHEIGHT; empty for those of the machine",
        "",
    )
    .used_by(&[Use::Compile, Use::Run, Use::Show]),
    OptionInfo::one_of("cost-model", "what instructions cost", "bus_0.19us", &Model::NAMES)
        .used_by(&[Use::Time, Use::Show]),
    OptionInfo::one_of("readout", "how results leave the array", "analogue", &Readout::NAMES)
        .used_by(&[Use::Compile, Use::Run, Use::Show]),
    OptionInfo::whole(
        "event-buffer",
        "most events of an image that --readout events gives; auto: one for each element",
        "auto",
        1..=crate::arch::MAX_ELEMENTS as i128,
    )
    .or("auto")
    .used_by(&[Use::Compile, Use::Run, Use::Show]),
    OptionInfo::one_of(
        "input-range",
        "raw: inputs as they are; half: halved, as cameras give 0 to 255",
        "raw",
        &["raw", "half"],
    )
    .used_by(&[Use::Run]),
    OptionInfo::file("noise", "TOML file with the errors of the device; the objective `noise` is of its deviations")
        .used_by(&[Use::Compile, Use::Run]),
    OptionInfo::real(
        "noise-bus",
        "standard deviation of the noise of a write with one receiver; auto: that of --noise, else 0",
        "auto",
        0.0..=1e9,
    )
    .or("auto")
    .used_by(&[Use::Run]),
    OptionInfo::real("noise-bus2", "the same with two receivers", "auto", 0.0..=1e9)
        .or("auto")
        .used_by(&[Use::Run]),
    OptionInfo::real("noise-bus3", "the same with three and more", "auto", 0.0..=1e9)
        .or("auto")
        .used_by(&[Use::Run]),
    OptionInfo::real(
        "mismatch",
        "deviation of the share a register takes, fixed per element, for registers without a map; auto: \
         that of --noise, else 0",
        "auto",
        0.0..=1e9,
    )
    .or("auto")
    .used_by(&[Use::Run]),
    OptionInfo::real("noise-scale", "all errors of the device are so many times as large", "1", 0.0..=1e3)
        .used_by(&[Use::Run]),
    OptionInfo::whole(
        "seed",
        "which run the noise comes from, and which device unless --noise says; auto: that of --noise, else 0",
        "auto",
        0..=u64::MAX as i128,
    )
    .or("auto")
    .used_by(&[Use::Run]),
    OptionInfo::flag("saturate", "values stop at the saturation of the machine", false)
        .used_by(&[Use::Run]),
    OptionInfo::whole(
        "max-work",
        "what an image of `run`, and all of `verify`, may cost, in millions of units of about 1 ns",
        "4000",
        1..=1_000_000_000,
    )
    .used_by(&[Use::Run, Use::Verify]),
    OptionInfo::text("simulator-name", "name of the simulator in the JSS format", "s")
        .used_by(&[Use::Write]),
    OptionInfo::text("function", "name of the function in the C++ header", "kernel")
        .used_by(&[Use::Write]),
    OptionInfo::one_of("text-format", "how programs are written", "cain", &["cain", "jss"])
        .used_by(&[Use::Write]),
    OptionInfo::one_of("search", "how a program for kernels is found", "default", &Search::NAMES)
        .used_by(&[Use::Compile]),
    OptionInfo::one_of(
        "effort",
        "how hard the default search and AUKE's try",
        "default",
        &Effort::NAMES,
    )
    .used_by(&[Use::Compile]),
    OptionInfo::flag(
        "leftovers",
        "the default search uses what macros leave in further registers, such as -x/2 of div",
        false,
    )
    .used_by(&[Use::Compile]),
    OptionInfo::one_of(
        "objective",
        "what the default search makes least: instructions, bus steps, or noise of the outputs",
        "macros",
        &Objective::NAMES,
    )
    .used_by(&[Use::Compile]),
    OptionInfo::text(
        "sigma",
        "standard deviations of the noise of writes with one receiver, two, three and more, for --objective \
         and --pareto; empty for those of --noise, else 1 1 1",
        "",
    )
    .used_by(&[Use::Compile]),
    OptionInfo::flag(
        "pareto",
        "list the programs of which none is worse in instructions, bus steps and noise",
        false,
    )
    .used_by(&[Use::Compile]),
    OptionInfo::text(
        "range",
        "values of the images that enter, LO..HI, for which no register of any layer may saturate; empty \
         for no check",
        "",
    )
    .used_by(&[Use::Compile]),
    OptionInfo::flag("bus", "programs of bus steps instead of macros", false)
        .used_by(&[Use::Compile]),
    OptionInfo::one_of(
        "halving",
        "how --bus halves: quick, with the mismatch of the receivers, or corrected, in more steps",
        "quick",
        &Halving::NAMES,
    )
    .used_by(&[Use::Compile]),
    OptionInfo::text(
        "ops",
        "macros of compiled programs, but for AUKE's: all or basic (Cain's sets), every, or a list of mnemonics; empty for \
         all where the machine has them, else those it has",
        "",
    )
    .used_by(&[Use::Compile]),
    OptionInfo::whole("depth", "most halvings of weights", "auto", 0..=MAX_DEPTH as i128)
        .or("auto")
        .used_by(&[Use::Compile]),
    OptionInfo::real("error", "largest sum of errors of the weights of a layer", "auto", 0.0..=1e9)
        .or("auto")
        .used_by(&[Use::Compile]),
    OptionInfo::whole(
        "scale",
        "registers hold the values of a network times 2^SCALE; auto: as the numbers that IN brings in need it",
        "auto",
        -(MAX_SCALE as i128)..=MAX_SCALE as i128,
    )
    .or("auto")
    .used_by(&[Use::Compile]),
    OptionInfo::one_of(
        "bias",
        "where biases are added: array, driver (exactly, as results are read), or auto: on the array where it \
         goes on from there",
        "auto",
        &BiasPlace::NAMES,
    )
    .used_by(&[Use::Compile]),
    OptionInfo::text("input-registers", "registers of the input channels; empty for any", "")
        .used_by(&[Use::Compile]),
    OptionInfo::text("output-registers", "registers of the results; empty for any", "")
        .used_by(&[Use::Compile]),
    OptionInfo::text("registers", "registers that programs may use; empty for all", "")
        .used_by(&[Use::Compile]),
    OptionInfo::one_of(
        "mode",
        "which registers compute",
        "analogue",
        &["analogue", "digital", "superpixel"],
    )
    .used_by(&[Use::Compile]),
    OptionInfo::whole("bits", "bits of a number in digital mode", "auto", 1..=32)
        .or("auto")
        .used_by(&[Use::Compile]),
    OptionInfo::text(
        "layout",
        "where the bits of numbers are in digital and super-pixel mode: JSON, the fields of Cain's \
         pairGen with inputs, outputs and registers",
        "",
    )
    .used_by(&[Use::Compile]),
    OptionInfo::whole(
        "search-graph",
        "with --search cain: how many of its first nodes the passes search.dot and search.svg show \
         (--dump-after); auto: 50",
        "auto",
        1..=MAX_GRAPH as i128,
    )
    .or("auto")
    .used_by(&[Use::Compile]),
    OptionInfo::text("cain", "settings of Cain's search: JSON, an object of dotted names and texts", "")
        .used_by(&[Use::Compile]),
];

/// Words between commas and blanks.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', ' ']).filter(|word| !word.is_empty())
}

fn edge(options: &Options) -> Edge {
    if options.get("edge") == "stale" { Edge::Stale } else { Edge::Zero }
}

fn wrong(name: &str, value: &str, expected: &str) -> Diagnostic {
    Diagnostic::usage("Q5013", format!("option {name} is {value:?}, expected {expected}"))
}

fn size(text: &str, arch: &ScampArch) -> Result<(usize, usize)> {
    if text.is_empty() {
        return Ok((arch.width, arch.height));
    }
    let parts = text.split_once('x').and_then(|(w, h)| Some((w.parse().ok()?, h.parse().ok()?)));
    let legal = |(w, h): &(usize, usize)| {
        let count = (*w as u64).saturating_mul(*h as u64);
        (1..=crate::arch::MAX_ELEMENTS).contains(&count)
    };
    parts.filter(legal).ok_or_else(|| wrong("size", text, "WIDTHxHEIGHT such as 256x256"))
}

/// How results leave an array of so many elements.
fn readout(options: &Options, elements: usize) -> Result<Readout> {
    let (name, events) = (options.get("readout"), options.whole_or("event-buffer"));
    let contradiction = if events.is_some() && name != "events" {
        Some("option event-buffer does nothing without --readout events")
    } else if options.get("mode") != "analogue" && name != "analogue" {
        Some("option readout does nothing beside option mode: bits of numbers are read")
    } else {
        None
    };
    match contradiction {
        Some(message) => Err(Diagnostic::invalid("Q5055", message).help("leave one of them out")),
        None => Ok(Readout::from_name(name, events.unwrap_or(elements).min(elements))),
    }
}
