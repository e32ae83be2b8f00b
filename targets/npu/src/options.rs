//! The options of the target, and what they say.

use crate::compile::layers::Subset;
use crate::compile::{Effort, Wishes};
use crate::time::Model;
use quincunx_contract::{OptionInfo, Options, Use};

/// The options of the target.
pub(crate) const OPTIONS: &[OptionInfo] = &[
    OptionInfo::flag(
        "lenient",
        "read members that the table does not know and parts left out as {...}, with warnings",
        false,
    )
    .used_by(&[Use::Read]),
    OptionInfo::one_of(
        "derive",
        "programs of a schedule: without the errors of the original tool, or as it derives them",
        "ours",
        &["ours", "compat"],
    )
    .used_by(&[Use::Read]),
    OptionInfo::one_of(
        "ports",
        "inputs and outputs: the tensors that the program moves, or DRAM as raw bytes",
        "tensors",
        &["tensors", "raw"],
    )
    .used_by(&[Use::Run, Use::Show]),
    OptionInfo::one_of(
        "accumulate",
        "sums of convolutions: whole numbers, or f32 numbers that take up eight products at a time",
        "int",
        &["int", "f32"],
    )
    .used_by(&[Use::Run]),
    OptionInfo::one_of(
        "vp-batch-stride",
        "addresses of images of a batch in the vector queue: as in the text, or advanced",
        "text",
        &["text", "implicit"],
    )
    .used_by(&[Use::Run, Use::Verify, Use::Time, Use::Write, Use::Show]),
    OptionInfo::one_of(
        "timing",
        "cycles: those of the original tool's traces, or with every image and move counted; programs are compiled for these",
        "upstream",
        &["upstream", "physical"],
    )
    .used_by(&[Use::Compile, Use::Time, Use::Write, Use::Show]),
    OptionInfo::one_of(
        "effort",
        "how many ways to cut layers and to order transfers are tried",
        "default",
        &["fast", "default", "max"],
    )
    .used_by(&[Use::Compile]),
    OptionInfo::one_of(
        "subset",
        "instructions of compiled programs: all, or those of published programs, where inputs are of \
         half precision and quantised by the vector queue",
        "full",
        &["full", "published"],
    )
    .used_by(&[Use::Compile]),
    OptionInfo::one_of(
        "vp-cost",
        "cycles of vector work on a batch: as timing says, counted once, or per image",
        "auto",
        &["auto", "upstream", "per-image"],
    )
    .used_by(&[Use::Time, Use::Write, Use::Show]),
    OptionInfo::one_of(
        "durations",
        "cycles of lines: of the trace if the file is one, of the model, or of the trace",
        "auto",
        &["auto", "model", "traced"],
    )
    .used_by(&[Use::Time, Use::Write, Use::Show]),
    OptionInfo::flag(
        "side",
        "machine code is followed by what words cannot hold: maps, times, exact numbers",
        true,
    )
    .used_by(&[Use::Write]),
];

/// What the options ask of the compiler.
pub(crate) fn wishes(options: &Options) -> Wishes {
    let effort = match options.get("effort") {
        "fast" => Effort::Fast,
        "max" => Effort::Max,
        _ => Effort::Default,
    };
    let model = match options.get("timing") {
        "physical" => Model::PHYSICAL,
        _ => Model::UPSTREAM,
    };
    let subset = match options.get("subset") {
        "published" => Subset::Published,
        _ => Subset::Full,
    };
    Wishes { model, effort, subset }
}
