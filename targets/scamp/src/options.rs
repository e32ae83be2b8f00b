//! Options of the target: what a reader keeps with the program.

use crate::arch::ScampArch;
use crate::readout::Readout;
use crate::simulate::{Edge, Noise, Settings, WorkLimit};
use crate::time::Model;
use quincunx_contract::{OptionInfo, Options, Use};
use quincunx_diag::{Diagnostic, Result};

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
    .used_by(&[Use::Run]),
    OptionInfo::text(
        "size",
        "elements of the array as WIDTHxHEIGHT; empty for those of the machine",
        "",
    )
    .used_by(&[Use::Run, Use::Show]),
    OptionInfo::one_of("cost-model", "what instructions cost", "bus_0.19us", &Model::NAMES)
        .used_by(&[Use::Time, Use::Show]),
    OptionInfo::one_of("readout", "how results leave the array", "analogue", &Readout::NAMES)
        .used_by(&[Use::Run, Use::Show]),
    OptionInfo::one_of(
        "input-range",
        "raw: inputs as they are; half: halved, as cameras give 0 to 255",
        "raw",
        &["raw", "half"],
    )
    .used_by(&[Use::Run]),
    OptionInfo::real(
        "noise-bus",
        "standard deviation of the noise of a write with one receiver",
        "0",
        0.0..=1e9,
    )
    .used_by(&[Use::Run]),
    OptionInfo::real("noise-bus2", "the same with two receivers", "0", 0.0..=1e9)
        .used_by(&[Use::Run]),
    OptionInfo::real("noise-bus3", "the same with three and more", "0", 0.0..=1e9)
        .used_by(&[Use::Run]),
    OptionInfo::real(
        "mismatch",
        "deviation of the share a register takes, fixed per element",
        "0",
        0.0..=1e9,
    )
    .used_by(&[Use::Run]),
    OptionInfo::whole(
        "seed",
        "which device and run the noise comes from",
        "0",
        0..=u64::MAX as i128,
    )
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
];

/// The values of the options.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chosen {
    pub(crate) fix: bool,
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) settings: Settings,
    pub(crate) model: Model,
    pub(crate) readout: Readout,
    pub(crate) half: bool,
    pub(crate) simulator: String,
    pub(crate) function: String,
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

fn word(options: &Options, name: &str) -> Result<String> {
    let text = options.get(name);
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_word.then(|| text.to_owned()).ok_or_else(|| wrong(name, text, "a name"))
}

impl Chosen {
    /// # Errors
    /// `Q5013` for a value that means nothing.
    pub(crate) fn new(options: &Options, arch: &ScampArch) -> Result<Chosen> {
        let (width, height) = size(options.get("size"), arch)?;
        let names = ["noise-bus", "noise-bus2", "noise-bus3"];
        let mut sigma = [0.0; 3];
        for (sigma, name) in sigma.iter_mut().zip(names) {
            *sigma = options.real(name);
        }
        let (mismatch, seed) = (options.real("mismatch"), options.whole("seed"));
        let noisy = mismatch > 0.0 || sigma.iter().any(|&sigma| sigma > 0.0);
        let settings = Settings {
            edge: if options.get("edge") == "stale" { Edge::Stale } else { Edge::Zero },
            noise: noisy.then_some(Noise { sigma, mismatch, seed }),
            saturation: options.flag("saturate").then_some(arch.saturation),
            work: WorkLimit(1_000_000 * options.whole::<u64>("max-work")),
        };
        Ok(Chosen {
            fix: options.flag("fix"),
            width,
            height,
            settings,
            model: Model::from_name(options.get("cost-model")),
            readout: Readout::from_name(options.get("readout")),
            half: options.get("input-range") == "half",
            simulator: word(options, "simulator-name")?,
            function: word(options, "function")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_contract::ArchSource;

    #[test]
    fn the_default_limit_is_the_one_of_the_library() {
        let options = Options::new(OPTIONS, &[]).unwrap();
        let chosen = Chosen::new(&options, &ScampArch::from_source(&ArchSource::Default).unwrap());
        assert_eq!(chosen.unwrap().settings.work, WorkLimit::default());
    }
}
