//! The dpas target: the systolic matrix instruction of Intel Xe, native and virtual.
//!
//! A program is a native listing or a vISA kernel. See the README of this folder for the machine in
//! one page.

pub mod arch;
mod artifact;
pub mod binary;
pub mod files;
pub mod isa;
mod layout;
mod ports;
pub mod precision;
pub mod program;
pub mod shape;
pub mod simulate;
pub mod swsb;
pub mod text;
pub mod time;
pub mod verify;

pub use arch::DpasArch;
pub use artifact::{Artifact, Settings};

use binary::visa::Form;
use precision::{Acc, Precision};
use program::{Listing, Program as Code, Statement};
use quincunx_contract::{
    Arch, ArchSource, File, Info, Interface, Log, OptionInfo, Options, Program, Target,
};
use quincunx_diag::{Diagnostic, Result};
use quincunx_isa::Table;
use shape::RowStride;
use simulate::{Model, Rules};
use verify::Allow;

/// The target.
pub static TARGET: Dpas = Dpas;

/// The dpas target.
#[derive(Debug)]
pub struct Dpas;

static INFO: Info = Info {
    name: "dpas",
    summary: "systolic matrix instruction of Intel Xe (vISA and native)",
    presets: arch::PRESETS,
    compiler: false,
    options: OPTIONS,
    kinds: artifact::KINDS,
    own_grid: false,
    folder_kind: "bin",
};

const BOOL: &[&str] = &["true", "false"];

const OPTIONS: &[OptionInfo] = &[
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

/// The settings of options.
///
/// # Errors
/// `Q6003` for a mask or an instruction that is no number.
fn settings(options: &Options) -> Result<(Settings, Option<Form>)> {
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

/// Refuses `df`, whose code is the one that names the option. In machine code such an instruction
/// is one that this target does not know: it stays as raw bytes, with a warning.
fn without_double(
    program: &mut Code,
    arch: &DpasArch,
    allow: &Allow,
) -> std::result::Result<Vec<Diagnostic>, Vec<Diagnostic>> {
    let is_double = |problem: &Diagnostic| problem.code() == "Q6048";
    let mut warnings = Vec::new();
    if let Code::Native(listing) = program {
        for item in listing.items.iter_mut().filter(|item| item.span.is_none()) {
            let Statement::Systolic(inst) = &item.statement else { continue };
            let native = inst.native();
            let types = [native.dst_type, native.src0_type].contains(&Acc::Df)
                || [native.src1_type, native.src2_type].contains(&Precision::Df);
            if types {
                let bytes = binary::native::encode(inst, arch.platform)?;
                item.statement = Statement::Raw(bytes.to_vec());
                let message = "an instruction with df is kept as raw bytes; --df reads it";
                warnings.push(Diagnostic::warning("Q6048", message));
            }
        }
    }
    let found: Vec<Diagnostic> =
        verify::verify(program, arch, allow).into_iter().filter(is_double).collect();
    if found.is_empty() { Ok(warnings) } else { Err(found) }
}

impl Target for Dpas {
    fn info(&self) -> &'static Info {
        &INFO
    }

    fn arch(&self, source: &ArchSource) -> Result<Box<dyn Arch>> {
        Ok(Box::new(DpasArch::from_source(source)?))
    }

    fn read(
        &self,
        files: &[File],
        interface: Option<Interface>,
        arch: &dyn Arch,
        options: &Options,
        log: &mut Log,
    ) -> std::result::Result<Box<dyn Program>, Vec<Diagnostic>> {
        let arch: &DpasArch = arch.of_target()?;
        let [file] = files else {
            let message = format!("a dpas program is one file, found {}", files.len());
            return Err(Diagnostic::usage("Q6096", message).into());
        };
        let (settings, form) = settings(options)?;
        let (mut program, warnings) = files::read(file, arch.platform, form)?;
        log.diagnostics.extend(warnings);
        let named = |problem: Diagnostic| problem.name_file(&file.name);
        if !settings.allow.df {
            let warnings = without_double(&mut program, arch, &settings.allow)
                .map_err(|found| found.into_iter().map(named).collect::<Vec<_>>())?;
            log.diagnostics.extend(warnings);
        }
        if let (Code::Native(listing), "auto") = (&program, options.get("swsb")) {
            let assigned: Listing =
                swsb::assign(listing, arch, settings.allow.stride).map_err(named)?;
            program = Code::Native(assigned);
        }
        let artifact = Artifact::new(program, interface.as_ref(), arch.clone(), settings);
        Ok(Box::new(artifact.map_err(named)?))
    }

    fn recognises(&self, file: &File) -> bool {
        files::format(file, arch::Platform::XeHpg).is_some()
    }

    fn isa(&self) -> &'static [&'static Table] {
        isa::TABLES
    }
}
