//! The options of the target, and what they say.

use crate::compile::Precision;
use crate::compile::pipeline::Cutoff;
use crate::isa::Dialect;
use crate::rtl;
use quincunx_contract::{OptionInfo, Options};
use quincunx_diag::Result;

/// The options of the target.
pub(crate) const OPTIONS: &[OptionInfo] = &[
    OptionInfo {
        name: "dialect",
        doc: "layout of machine code; auto writes that of the architecture and guesses when reading",
        default: "auto",
        values: &["auto", "d0", "d0-doc", "d1-v0", "d1", "a4"],
    },
    OptionInfo {
        name: "to",
        doc: "dialect to convert to; auto keeps what was read or compiled",
        default: "auto",
        values: &["auto", "d0", "d0-doc", "d1-v0", "d1", "a4"],
    },
    OptionInfo {
        name: "keep-layers",
        doc: "keep every layer observable, even operations no output needs",
        default: "false",
        values: &["true", "false"],
    },
    OptionInfo {
        name: "softmax-bits",
        doc: "bits to which the results of a softmax are right; more bits are larger tables",
        default: "8",
        values: &["4", "5", "6", "7", "8", "9", "10", "11", "12"],
    },
    OptionInfo {
        name: "effort",
        doc: "how hard products with constant matrices are searched for few adders",
        default: "default",
        values: &["fast", "default", "max"],
    },
    OptionInfo {
        name: "depth-slack",
        doc: "adder levels a product may have above the fewest possible; -1 for any number",
        default: "-1",
        values: &[],
    },
    OptionInfo {
        name: "latency-cutoff",
        doc: "divide programs into stages that take no longer than this, in adder levels; pipelines stay as they are",
        default: "none",
        values: &[],
    },
    OptionInfo {
        name: "retiming",
        doc: "balance the stages and move operations to where registers hold fewer bits",
        default: "true",
        values: &["true", "false"],
    },
    OptionInfo {
        name: "dump-buffer",
        doc: "an output `buffer` more: the values of all slots",
        default: "false",
        values: &["true", "false"],
    },
    OptionInfo {
        name: "lenient",
        doc: "read files whose unused operands are not -1, with warnings",
        default: "false",
        values: &["true", "false"],
    },
    rtl::OPTIONS[0],
    rtl::OPTIONS[1],
    rtl::OPTIONS[2],
    rtl::OPTIONS[3],
    rtl::OPTIONS[4],
    rtl::OPTIONS[5],
    rtl::OPTIONS[6],
    rtl::OPTIONS[7],
    rtl::OPTIONS[8],
];

/// The dialect that an option, `dialect` or `to`, asks for.
pub(crate) fn dialect(options: &Options, name: &str) -> Result<Option<Dialect>> {
    match options.get(name) {
        "auto" => Ok(None),
        name => Dialect::from_name(name).map(Some),
    }
}

/// The cutoff that options ask for.
pub(crate) fn cutoff(options: &Options) -> Result<Option<Cutoff>> {
    Cutoff::parse(options.get("latency-cutoff"), options.flag("retiming"))
}

/// The bits of a softmax that options ask for.
pub(crate) fn precision(options: &Options) -> Precision {
    options.get("softmax-bits").parse().map_or(Precision::DEFAULT, Precision)
}
