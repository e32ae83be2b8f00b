//! The options of the target, and what they say.

use crate::binary::visa::Form;
use crate::shape::RowStride;
use crate::simulate::{Model, Rules};
use crate::verify::Allow;
use quincunx_contract::{OptionInfo, Options};
use quincunx_diag::{Diagnostic, Result};

const BOOL: &[&str] = &["true", "false"];

/// The options of the target.
pub(crate) const OPTIONS: &[OptionInfo] = &[
    OptionInfo {
        name: "float-model",
        doc: "how products of floats are added",
        default: "seq",
        values: &["seq", "fma", "stage", "exact"],
    },
    OptionInfo {
        name: "ftz",
        doc: "sums of floats that are subnormal become zero",
        default: "false",
        values: BOOL,
    },
    OptionInfo {
        name: "src2-stride",
        doc: "rows of A with a depth below 8 are 8 or depth times the products of a stage apart",
        default: "8",
        values: &["8", "sd"],
    },
    OptionInfo {
        name: "dispatch-mask",
        doc: "lanes that are switched on, as a hexadecimal number of 32 bits",
        default: "0xffffffff",
        values: &[],
    },
    OptionInfo {
        name: "one-bit",
        doc: "allow the precisions u1 and s1, which no platform accepts",
        default: "false",
        values: BOOL,
    },
    OptionInfo {
        name: "df",
        doc: "allow operands of type df, whose layout is ours",
        default: "false",
        values: BOOL,
    },
    OptionInfo {
        name: "swsb",
        doc: "dependencies of native listings: check and time them, ignore them, or assign them on reading",
        default: "check",
        values: &["check", "ignore", "auto"],
    },
    OptionInfo {
        name: "visa-form",
        doc: "byte code as documented or with the predicate of 2026; auto guesses when reading",
        default: "auto",
        values: &["auto", "doc", "2026"],
    },
    OptionInfo {
        name: "layout",
        doc: "systolic instruction (counted from 0) whose elements inspect lists",
        default: "none",
        values: &[],
    },
];

/// What the options of a reader say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// What the rules let pass.
    pub allow: Allow,
    /// Float arithmetic.
    pub rules: Rules,
    /// Lanes that are switched on.
    pub dispatch_mask: u32,
    /// Whether `verify` checks dependencies of native listings.
    pub check_dependencies: bool,
    /// Layout of byte code that is written.
    pub form: Form,
    /// The instruction whose elements `inspect` lists.
    pub layout: Option<usize>,
}

/// The settings of options.
///
/// # Errors
/// `Q6003` for a mask or an instruction that is no number.
pub(crate) fn settings(options: &Options) -> Result<(Settings, Option<Form>)> {
    let mask = options.get("dispatch-mask");
    let digits = mask.strip_prefix("0x").unwrap_or(mask);
    let dispatch_mask = u32::from_str_radix(digits, 16).map_err(|_| {
        let message = format!("option dispatch-mask is \"{mask}\"");
        Diagnostic::usage("Q6003", message).help("expected up to 8 hexadecimal digits")
    })?;
    let layout = match options.get("layout") {
        "none" => None,
        index => Some(index.parse().map_err(|_| {
            let message = format!("option layout is \"{index}\"");
            Diagnostic::usage("Q6003", message)
                .help("expected none or the number of an instruction")
        })?),
    };
    let form = match options.get("visa-form") {
        "doc" => Some(Form::Documented),
        "2026" => Some(Form::Predicated),
        _ => None,
    };
    let stride = match options.get("src2-stride") {
        "sd" => RowStride::Depth,
        _ => RowStride::Full,
    };
    let model = Model::from_name(options.get("float-model")).unwrap_or_default();
    let settings = Settings {
        allow: Allow { one_bit: options.flag("one-bit"), df: options.flag("df"), stride },
        rules: Rules { model, ftz: options.flag("ftz") },
        dispatch_mask,
        check_dependencies: options.get("swsb") != "ignore",
        form: form.unwrap_or_default(),
        layout,
    };
    Ok((settings, form))
}
