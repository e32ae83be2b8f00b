//! The options of the target, and what they say.

use quincunx_contract::OptionInfo;

/// The options of the target.
pub(crate) const OPTIONS: &[OptionInfo] = &[
    OptionInfo {
        name: "lenient",
        doc: "read members that the table does not know and parts left out as {...}, with warnings",
        default: "false",
        values: &["true", "false"],
    },
    OptionInfo {
        name: "ports",
        doc: "inputs and outputs: the tensors that the program moves, or DRAM as raw bytes",
        default: "tensors",
        values: &["tensors", "raw"],
    },
    OptionInfo {
        name: "accumulate",
        doc: "sums of convolutions: whole numbers, or f32 numbers that take up eight products at a time",
        default: "int",
        values: &["int", "f32"],
    },
    OptionInfo {
        name: "vp-batch-stride",
        doc: "addresses of images of a batch in the vector queue: as in the text, or advanced",
        default: "text",
        values: &["text", "implicit"],
    },
    OptionInfo {
        name: "timing",
        doc: "cycles: those of the original tool's traces, or with every image and move counted",
        default: "upstream",
        values: &["upstream", "physical"],
    },
    OptionInfo {
        name: "vp-cost",
        doc: "cycles of vector work on a batch: as timing says, counted once, or per image",
        default: "auto",
        values: &["auto", "upstream", "per-image"],
    },
    OptionInfo {
        name: "durations",
        doc: "cycles of lines: of the trace if the file is one, of the model, or of the trace",
        default: "auto",
        values: &["auto", "model", "traced"],
    },
    OptionInfo {
        name: "side",
        doc: "machine code is followed by what words cannot hold: maps, times, exact numbers",
        default: "true",
        values: &["true", "false"],
    },
];
