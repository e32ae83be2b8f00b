//! The options of the target, and what they say.

use crate::compile::Precision;
use crate::compile::claim::Limits;
use crate::compile::pipeline::Cutoff;
use crate::isa::Dialect;
use crate::rtl;
use quincunx_contract::{OptionInfo, Options, Use};
use quincunx_diag::Result;

/// The options of the target.
pub(crate) const OPTIONS: &[OptionInfo] = &[
    OptionInfo::one_of("dialect", "layout of machine code; auto writes that of the architecture and guesses when reading", "auto", &["auto", "d0", "d0-doc", "d1-v0", "d1", "a4"]).used_by(&[Use::Read, Use::Compile]),
    OptionInfo::one_of("to", "dialect to convert to; auto keeps what was read or compiled", "auto", &["auto", "d0", "d0-doc", "d1-v0", "d1", "a4"]).used_by(&[Use::Read, Use::Compile]),
    OptionInfo::flag("keep-layers", "keep every layer observable, even operations no output needs", false).used_by(&[Use::Compile]),
    OptionInfo::flag("exact-outputs", "the program computes the outputs themselves, and the driver scales none: for native files", false).used_by(&[Use::Compile]),
    OptionInfo::whole("softmax-bits", "correct bits in the results of a softmax; more bits need larger tables", "8", 4..=12).used_by(&[Use::Compile]),
    OptionInfo::whole("max-operations", "layers that would need more operations than this, with those before them, are left to the host; adders of products are estimated from the digits of the weights", "1048576", 1..=8_388_608).used_by(&[Use::Compile]),
    OptionInfo::one_of("effort", "how hard to search for few adders in products with constant matrices; default does what fast does where the weights have more than 262144 signed digits", "default", &["fast", "default", "max"]).used_by(&[Use::Compile]),
    OptionInfo::one_of("objective", "what products with constant matrices have little of first; the rest follows in the order adders, bits, depth", "adders", &["adders", "bits", "lut", "depth"]).used_by(&[Use::Compile]),
    OptionInfo::whole("depth-slack", "adder levels a product may have above the fewest possible; -1 for any number", "-1", -1..=1000).used_by(&[Use::Compile]),
    OptionInfo::real("latency-cutoff", "divide programs into stages that take no longer than this, in adder levels; pipelines stay as they are", "none", 1e-6..=1e9).or("none").used_by(&[Use::Read, Use::Compile]),
    OptionInfo::flag("retiming", "balance the stages and move operations to where registers hold fewer bits", true).used_by(&[Use::Read, Use::Compile]),
    OptionInfo::flag("dump-buffer", "add an output `buffer` with the values of all slots", false).used_by(&[Use::Read, Use::Compile]),
    OptionInfo::flag("lenient", "read files whose unused operands are not -1, with warnings", false).used_by(&[Use::Read]),
    rtl::OPTIONS[0],
    rtl::OPTIONS[1],
    rtl::OPTIONS[2],
    rtl::OPTIONS[3],
    rtl::OPTIONS[4],
    rtl::OPTIONS[5],
    rtl::OPTIONS[6],
    rtl::OPTIONS[7],
    rtl::OPTIONS[8],
    rtl::OPTIONS[9],
];

/// The dialect that an option, `dialect` or `to`, asks for.
pub(crate) fn dialect(options: &Options, name: &str) -> Result<Option<Dialect>> {
    match options.get(name) {
        "auto" => Ok(None),
        name => Dialect::from_name(name).map(Some),
    }
}

/// The cutoff that options ask for.
pub(crate) fn cutoff(options: &Options) -> Option<Cutoff> {
    let latency = options.real_or("latency-cutoff");
    latency.map(|latency| Cutoff { latency, retiming: options.flag("retiming") })
}

/// What may be claimed.
pub(crate) fn limits(options: &Options) -> Limits {
    Limits { precision: precision(options), operations: options.whole("max-operations") }
}

/// The bits of a softmax that options ask for.
pub(crate) fn precision(options: &Options) -> Precision {
    Precision(options.whole("softmax-bits"))
}
