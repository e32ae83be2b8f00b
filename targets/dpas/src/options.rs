//! The options of the target, and what they say.

use crate::arch::{DpasArch, Platform};
use crate::binary::visa::Form;
use crate::program::Element;
use crate::shape::RowStride;
use crate::simulate::{Model, Rules};
use crate::verify::Allow;
use quincunx_contract::{OptionInfo, Options, Use};
use quincunx_diag::{Diagnostic, Result};

/// The options of the target.
pub(crate) const OPTIONS: &[OptionInfo] = &[
    OptionInfo::one_of(
        "float-model",
        "how products of floats are added",
        "seq",
        &["seq", "fma", "stage", "exact"],
    ).used_by(&[Use::Run]),
    OptionInfo::one_of(
        "precision",
        "numbers that compiled networks compute with; tf32 exists from xehpc on",
        "int8",
        &["int8", "bf16", "fp16", "tf32"],
    ).used_by(&[Use::Compile]),
    OptionInfo::flag("ftz", "sums of floats that are subnormal become zero", false).used_by(&[Use::Run]),
    OptionInfo::one_of(
        "src2-stride",
        "rows of A with a depth below 8 are 8 or depth times the products of a stage apart",
        "8",
        &["8", "sd"],
    ).used_by(&[Use::Read]),
    OptionInfo::text(
        "dispatch-mask",
        "lanes that are switched on, as a hexadecimal number of 32 bits",
        "0xffffffff",
    ).used_by(&[Use::Run, Use::Show]),
    OptionInfo::whole(
        "step-limit",
        "instructions that all threads of a launch may execute together",
        "0x100000000",
        1..=1 << 48,
    ).used_by(&[Use::Run]),
    OptionInfo::flag("one-bit", "allow the precisions u1 and s1, which no platform accepts", false).used_by(&[Use::Run, Use::Verify, Use::Time, Use::Show]),
    OptionInfo::flag("df", "allow operands of type df, whose layout is ours", false).used_by(&[Use::Read]),
    OptionInfo::one_of(
        "swsb",
        "dependencies of native listings: check and time them, ignore them, or assign them on reading",
        "check",
        &["check", "ignore", "auto"],
    ).used_by(&[Use::Read]),
    OptionInfo::one_of(
        "visa-form",
        "byte code as documented or with the predicate of 2026; auto guesses when reading",
        "auto",
        &["auto", "doc", "2026"],
    ).used_by(&[Use::Read]),
    OptionInfo::whole(
        "layout",
        "systolic instruction (counted from 0) whose elements inspect lists",
        "none",
        0..=0xffff_ffff,
    )
    .or("none").used_by(&[Use::Show]),
    OptionInfo::whole(
        "origin",
        "systolic instruction of the kernels (counted from 0) of whose operands run shows from which \
         elements of buffers they were loaded",
        "none",
        0..=0xffff_ffff,
    )
    .or("none").used_by(&[Use::Run]),
];

/// What compiled networks compute with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Precision {
    /// Codes of 8 bits.
    #[default]
    Int8,
    /// Bfloat16.
    Bf16,
    /// IEEE binary16.
    Fp16,
    /// f32 of which products see 19 bits.
    Tf32,
}

impl Precision {
    /// The word of the option.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Precision::Int8 => "int8",
            Precision::Bf16 => "bf16",
            Precision::Fp16 => "fp16",
            Precision::Tf32 => "tf32",
        }
    }

    /// The precision of an option's word.
    pub(crate) fn of(options: &Options) -> Precision {
        match options.get("precision") {
            "bf16" => Precision::Bf16,
            "fp16" => Precision::Fp16,
            "tf32" => Precision::Tf32,
            _ => Precision::Int8,
        }
    }

    /// The type in which values of floats lie in memory.
    pub(crate) fn element(self) -> Option<Element> {
        match self {
            Precision::Int8 => None,
            Precision::Bf16 => Some(Element::Bf),
            Precision::Fp16 => Some(Element::Hf),
            Precision::Tf32 => Some(Element::F),
        }
    }
}

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
    /// Most instructions of a launch.
    pub step_limit: u64,
    /// The instruction whose elements `inspect` lists.
    pub layout: Option<usize>,
    /// The systolic instruction of whose operands `run` shows where they come from.
    pub origin: Option<usize>,
}

/// The settings of options.
///
/// # Errors
/// `Q6003` for a mask that is not a number.
pub(crate) fn settings(options: &Options) -> Result<(Settings, Option<Form>)> {
    let mask = options.get("dispatch-mask");
    let digits = mask.strip_prefix("0x").unwrap_or(mask);
    let dispatch_mask = u32::from_str_radix(digits, 16).map_err(|_| {
        let message = format!("option dispatch-mask is \"{mask}\"");
        Diagnostic::usage("Q6003", message).help("expected up to 8 hexadecimal digits")
    })?;
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
        step_limit: options.whole("step-limit"),
        layout: options.whole_or("layout"),
        origin: options.whole_or("origin"),
    };
    Ok((settings, form))
}

/// What compiled networks compute with, on a machine.
///
/// # Errors
/// `Q6183` for tf32 where the machine has none, `Q6184` for a machine of which no kernels are known.
pub(crate) fn precision(options: &Options, arch: &DpasArch) -> Result<Precision> {
    let precision = Precision::of(options);
    if !Platform::WHOLE.contains(&arch.platform) {
        let message = format!("there are no kernels for {}", arch.platform.name());
        let help = "only its systolic instructions are known; use --arch xe3";
        return Err(Diagnostic::unsupported("Q6184", message).help(help));
    }
    if precision == Precision::Tf32 && !arch.platform.is_second() {
        let message = format!("{} has no products of tf32", arch.platform.name());
        return Err(Diagnostic::unsupported("Q6183", message).help("use bf16 or fp16"));
    }
    Ok(precision)
}
